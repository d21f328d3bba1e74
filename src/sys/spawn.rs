//! Starting this file as one of its internal roles, where the time of a call counts: std copies the whole
//! environment twice to change it, which took a third of the instructions of a `create`.

use std::{
    ffi::{CStr, CString, OsStr, OsString, c_char},
    io, iter, mem,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    ptr,
};

use crate::sys::child::{Environment, OURSELVES};

#[expect(unsafe_code, reason = "the C library has it, and no safe name for it")]
unsafe extern "C" {
    /// The environment of this process (environ(7)).
    static mut environ: *const *const c_char;
}

/// A role of ours, and what its process gets.
pub(crate) struct Role<'a> {
    pub(crate) name: &'a str,
    pub(crate) words: &'a [OsString],
    /// Its standard streams, which must not be among ours.
    pub(crate) streams: [BorrowedFd<'a>; 3],
    /// `None`: our directory.
    pub(crate) folder: Option<&'a Path>,
    /// How its environment differs from ours; of two changes of a variable the last one counts.
    pub(crate) environment: &'a Environment,
}

impl Role<'_> {
    /// Returns the PID of the child, which has SIGPIPE at its default, and no signal blocked.
    pub(crate) fn start(&self) -> io::Result<u32> {
        let words = iter::once(OsStr::new(self.name)).chain(self.words.iter().map(OsString::as_os_str));
        let words = words.map(|word| Ok(CString::new(word.as_bytes())?)).collect::<io::Result<Vec<_>>>()?;
        let folder = self.folder.map(|folder| CString::new(folder.as_os_str().as_bytes())).transpose()?;
        let set = set(self.environment)?;
        let is_kept = |entry: &&CStr| !self.environment.iter().any(|(name, _)| is_of(entry, name));
        let set = set.iter().map(|entry| entry.as_ptr());
        let entries = our_entries().filter(is_kept).map(CStr::as_ptr);
        let entries: Vec<_> = entries.chain(set).chain([ptr::null()]).collect();
        let words: Vec<_> = words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect();
        self.spawn(&words, &entries, folder.as_deref())
    }

    #[expect(unsafe_code, reason = "only the C library starts a process without a copy of ours")]
    fn spawn(
        &self,
        words: &[*const c_char],
        entries: &[*const c_char],
        folder: Option<&CStr>,
    ) -> io::Result<u32> {
        let mut attributes = mem::MaybeUninit::uninit();
        let mut actions = mem::MaybeUninit::uninit();
        let (attributes, actions) = (attributes.as_mut_ptr(), actions.as_mut_ptr());
        let mut pid = 0;
        // SAFETY: both values are initialised first and destroyed last; sets of zeros are valid; the strings and
        // the arrays of pointers to them, each with a null pointer at its end, live longer than the call.
        let error = unsafe {
            let mut none: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut none);
            let mut to_default = none;
            libc::sigaddset(&mut to_default, libc::SIGPIPE);
            libc::posix_spawnattr_init(attributes);
            libc::posix_spawn_file_actions_init(actions);
            let flags = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
            let mut error = libc::posix_spawnattr_setflags(attributes, flags as _);
            error |= libc::posix_spawnattr_setsigdefault(attributes, &to_default);
            error |= libc::posix_spawnattr_setsigmask(attributes, &none);
            for (number, stream) in (0..).zip(&self.streams) {
                error |= libc::posix_spawn_file_actions_adddup2(actions, stream.as_raw_fd(), number);
            }
            if let Some(folder) = folder {
                error |= libc::posix_spawn_file_actions_addchdir_np(actions, folder.as_ptr());
            }
            if error == 0 {
                let (words, entries) = (words.as_ptr().cast(), entries.as_ptr().cast());
                error = libc::posix_spawn(&mut pid, OURSELVES.as_ptr(), actions, attributes, words, entries);
            } else {
                // The only error of the rest (posix_spawn_file_actions_adddup2(3)).
                error = libc::ENOMEM;
            }
            libc::posix_spawn_file_actions_destroy(actions);
            libc::posix_spawnattr_destroy(attributes);
            error
        };
        if error == 0 { Ok(pid.unsigned_abs()) } else { Err(io::Error::from_raw_os_error(error)) }
    }
}

/// The entries of the variables that are set, not removed.
fn set(environment: &Environment) -> io::Result<Vec<CString>> {
    let mut entries: Vec<CString> = Vec::with_capacity(environment.len());
    for (at, (name, value)) in environment.iter().enumerate() {
        let (Some(value), later) = (value, &environment[at + 1..]) else { continue };
        if !later.iter().any(|(other, _)| other == name) {
            entries.push(CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?);
        }
    }
    Ok(entries)
}

fn is_of(entry: &CStr, name: &OsStr) -> bool {
    entry.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
}

/// Entries that are no variables are left out, as in std: no option could hide them.
#[expect(unsafe_code, reason = "std only copies the environment")]
fn our_entries() -> impl Iterator<Item = &'static CStr> {
    // SAFETY: only an exec that std makes changes it, for as long as that takes, and no other thread is there
    // then.
    let all = unsafe { (&raw const environ).read() };
    // SAFETY: the entries live as long as we do; the array ends with a null pointer, unless it is one itself.
    let entry = move |at| unsafe { if all.is_null() { ptr::null() } else { *all.add(at) } };
    let entries = (0..).map(entry).take_while(|entry: &*const c_char| !entry.is_null());
    // SAFETY: as above.
    let entries = entries.map(|entry| unsafe { CStr::from_ptr(entry) });
    entries.filter(|entry| is_variable(entry))
}

/// A name may begin with `=`, as std has it.
fn is_variable(entry: &CStr) -> bool {
    entry.to_bytes().get(1..).is_some_and(|rest| rest.contains(&b'='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_changes_of_a_variable_the_last_one_counts() {
        let change = |name: &str, value: Option<&str>| (name.into(), value.map(OsString::from));
        let changes = [("A", Some("1")), ("B", Some("2")), ("A", None), ("B", Some("")), ("BA", Some("3"))];
        let changes: Environment = changes.into_iter().map(|(name, value)| change(name, value)).collect();
        assert_eq!(set(&changes).unwrap(), [c"B=".to_owned(), c"BA=3".to_owned()]);
        for (name, value) in [("A\0", "1"), ("A", "1\0")] {
            assert!(set(&vec![change(name, Some(value))]).is_err());
        }
        for (entry, name, expected) in [(c"A=B=C", "A", true), (c"AB=1", "A", false), (c"A", "A", false)] {
            assert_eq!(is_of(entry, name.as_ref()), expected, "{entry:?} {name}");
        }
    }

    #[test]
    fn what_has_no_name_is_no_variable() {
        for (entry, expected) in [(c"A=", true), (c"=A=1", true), (c"A", false), (c"=A", false), (c"", false)]
        {
            assert_eq!(is_variable(entry), expected, "{entry:?}");
        }
    }

    #[test]
    fn the_environment_is_ours() {
        let ours: Vec<Vec<u8>> = our_entries().map(|entry| entry.to_bytes().to_vec()).collect();
        let of_std =
            std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        assert_eq!(ours, of_std.collect::<Vec<_>>());
    }
}
