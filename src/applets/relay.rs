//! relay - a session's background process
//!
//! An internal role. `create` starts `nbs-relay HANDLE SESSIONS UMASK SIZE VIA`. Its standard input
//! is the lock of the half-made session. Its standard output is a socket. On that it writes
//! `!` and a warning if there is one, then `+` when the session is visible, or `-` and why it
//! failed. On the same socket it reads the command with the session's settings, and later a byte that says
//! that all files of the session are there.

use std::{fs::File, io, os::fd::AsFd, path::Path};

use crate::{
    cli::{self, Args},
    outcome::{Result, Trying},
    relay::{SpawnVia, setup},
    session::{Handle, PendingSession},
    sys::inherited,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [handle, sessions, umask, size, via] = &words[..] else { return Err(cli::by_hand()) };
    inherited::shed().trying("close inherited descriptors")?;
    let handle = Handle::parse(handle.as_encoded_bytes()).ok_or_else(cli::by_hand)?;
    let size = cli::parse_terminal_size(size).ok_or_else(cli::by_hand)?;
    let umask = cli::umask(umask)?;
    let via = SpawnVia::parse(via.as_encoded_bytes()).ok_or_else(cli::by_hand)?;
    let sessions = Path::new(sessions);
    let lock = io::stdin().as_fd().try_clone_to_owned().map(File::from).map_err(|_| cli::by_hand())?;
    let pending =
        PendingSession::take_over(sessions, handle, lock).ok().flatten().ok_or_else(cli::by_hand)?;
    setup::run(pending, sessions, umask, size, via)
}
