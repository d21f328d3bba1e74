//! The names of the processes of sessions, and the session that a process belongs to.

use crate::{session::Handle, sys::processes::Process};

/// The names of the internal roles, in `ps` too. `kill` recognises them by name.
pub(crate) const RELAY: &str = "nbs-relay";
pub(crate) const KEEPER: &str = "nbs-keeper";
pub(crate) const TERMINATOR: &str = "nbs-terminator";
pub(crate) const SCREEN: &str = "nbs-screen";
pub(crate) const VIEWER: &str = "nbs-viewer";

/// The name of a worker's monitor. It may be started from inside a session, and is not part of it.
pub(crate) const MONITOR: &str = "nbs-monitor";

/// The name of the bridge to another machine, which is not part of a session either.
pub(crate) const BRIDGE: &str = "nbs-bridge";

/// The environment variable of every process of a session, with its handle.
pub(crate) const SESSION_ENV: &str = "NBS_TS_SESSION";

/// Do its name and its arguments, while it has any, have this role in this session? No other process can be
/// made to look like that.
pub(super) fn names(process: &Process, role: &str, handle: &Handle) -> bool {
    let arguments = process.arguments();
    process.name == role
        && match &arguments[..] {
            [first, second, ..] => first == role.as_bytes() && second == handle.as_str().as_bytes(),
            // It is ending.
            _ => true,
        }
}
