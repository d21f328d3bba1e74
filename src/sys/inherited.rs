//! What our caller left us without wanting to, shed at once.
//!
//! A shell hands its children more than they ask for: the lock that it took
//! with `flock 9`, the pipe of a process substitution, signals that it ignores.
//! A process of ours that outlives the call must keep none of it, or the lock
//! and the pipe live as long as a session.

use std::{
    fs, io,
    os::fd::{FromRawFd, OwnedFd, RawFd},
};

/// Closes every descriptor from 3 up. To be called first thing, before
/// anything of our own is open: `main` has opened nothing by then.
pub(crate) fn close_descriptors() -> io::Result<()> {
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 2)
        .collect();
    for descriptor in open {
        // The folder that was listed is closed by now, and its number may be
        // among these.
        if fs::symlink_metadata(format!("/proc/self/fd/{descriptor}")).is_ok() {
            #[expect(unsafe_code, reason = "no safe call closes what a caller left open")]
            // SAFETY: nothing of ours is open yet, so no value of this process
            // owns the descriptor, and nobody can use it after us.
            let leaked = unsafe { OwnedFd::from_raw_fd(descriptor) };
            drop(leaked);
        }
    }
    Ok(())
}
