//! The roles that a relay has played by processes of their own, below itself.

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    session::{EndedBy, Handle},
    sys::child,
};

/// The argument, after the cause, that makes the process that ends a session kill at once.
pub(crate) const TERMINATOR_AT_ONCE: &str = "at-once";

/// Starts the process that ends the session, below its relay; `at_once`: with no grace.
pub(crate) fn start_terminator(
    handle: &Handle,
    sessions: &Path,
    cause: EndedBy,
    at_once: bool,
) -> io::Result<u32> {
    let mut command = child::ourselves(crate::session::TERMINATOR);
    command.arg(handle.as_str()).arg(sessions).arg(cause.word()).args(at_once.then_some(TERMINATOR_AT_ONCE));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It is collected as every child of a relay is.
    Ok(command.spawn()?.id())
}

/// Starts the process that works out the session's screen: to be asked where the
/// cursor is, by the connection that this gives.
pub(crate) fn start_screen(handle: &Handle, sessions: &Path) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    screen_command(handle, sessions, "ask").stdin(OwnedFd::from(theirs)).spawn()?;
    Ok(ours)
}

/// The same, to store the screen for later calls.
pub(crate) fn start_keeping_screen(handle: &Handle, sessions: &Path) -> io::Result<u32> {
    Ok(screen_command(handle, sessions, "keep").stdin(Stdio::null()).spawn()?.id())
}

fn screen_command(handle: &Handle, sessions: &Path, job: &str) -> Command {
    let mut command = child::ourselves(crate::session::SCREEN);
    command.arg(handle.as_str()).arg(sessions).arg(job);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}
