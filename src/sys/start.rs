//! The start of a process, in place of std's, which makes ten more system calls, most of them for a message
//! about a stack overflow. Here that is a plain SIGSEGV.

use std::{
    ffi::{CStr, OsStr, OsString, c_char, c_int},
    os::unix::ffi::OsStrExt,
    process, slice,
};

use crate::sys::{inherited, signals};

/// Does what std does before `main`, as far as we need it, and returns the words that we were called with:
/// [`std::env::args`] knows them only if std itself starts the process.
#[expect(unsafe_code, reason = "the C library passes pointers")]
pub(crate) fn begin(count: c_int, words: *const *const c_char) -> Vec<OsString> {
    // A write to a pipe that nobody reads must be an error, and must not end us.
    signals::ignore(signals::SIGPIPE);
    if inherited::open_closed_streams().is_err() {
        process::abort();
    }
    // SAFETY: the C library calls us with an array of that many strings, which are never changed (C11,
    // 5.1.2.2.1).
    let words = unsafe { slice::from_raw_parts(words, usize::try_from(count).unwrap_or(0)) };
    let word = |word: &*const c_char| {
        // SAFETY: as above.
        let word = unsafe { CStr::from_ptr(*word) };
        OsStr::from_bytes(word.to_bytes()).to_owned()
    };
    words.iter().map(word).collect()
}
