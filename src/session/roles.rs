//! What the processes of sessions are called, and which session one is of.

use crate::{session::Handle, sys::processes::Process};

/// What the internal roles are called, in `ps` too. `kill` knows them by it.
pub(crate) const RELAY: &str = "nbs-relay";
pub(crate) const KEEPER: &str = "nbs-keeper";
pub(crate) const TERMINATOR: &str = "nbs-terminator";
pub(crate) const SCREEN: &str = "nbs-screen";
pub(crate) const VIEWER: &str = "nbs-viewer";

/// What the monitor of a worker is called. It may be started from inside a
/// session, and is not part of it.
pub(crate) const MONITOR: &str = "nbs-monitor";

/// What the bridge to another machine is called, which is of no session either.
pub(crate) const BRIDGE: &str = "nbs-bridge";

/// The variable which tells every process of a session which one it is in.
pub(crate) const SESSION_ENV: &str = "NBS_TS_SESSION";

/// Do its name and its arguments, while it has any, say that it has this role in this
/// session? Nobody else can be made to look like that.
pub(super) fn names(process: &Process, role: &str, handle: &Handle) -> bool {
    let arguments = process.arguments();
    process.name == role
        && match &arguments[..] {
            [first, second, ..] => first == role.as_bytes() && second == handle.as_str().as_bytes(),
            // It is ending.
            _ => true,
        }
}
