//! How a relay is reached.

use std::{io, os::unix::net::UnixStream};

use crate::{
    outcome::{Failure, Result, Trying},
    session::{SOCKET, SessionDir},
    sys::socket,
};

/// Is it the kernel that refuses us sockets, and not the relay?
pub(crate) fn refuses_sockets(session: &SessionDir) -> bool {
    socket::refused_call(&format!("nbs-{}", session.handle())).is_some()
}

/// Connects to its relay; `None` if the session has ended.
pub(super) fn connect(session: &SessionDir) -> Result<Option<UnixStream>> {
    let what = format!("reach the relay of session '{}'", session.handle());
    match socket::connect(&session.folder, SOCKET, session.patience().deadline()) {
        // A relay releases the lock before it closes the socket; if it was killed, the kernel may close the
        // socket first.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            let alive = session.is_locked();
            match (alive, session.elsewhere()) {
                (Ok(true), Some(host)) => Err(session.is_elsewhere(&host)),
                (Ok(true), None) if !session.ends()? => {
                    Err(error).trying(format_args!("{what}, which is alive"))
                }
                _ => Ok(None),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && refuses_sockets(session) => {
            let why = "this process may not use sockets, as in a session with --no-network";
            Err(Failure::failed(format!("cannot {what}: {why}")))
        }
        // As many as the kernel lets queue wait for it already.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(session.patience().failure(session.handle(), session.relay_pid(), ""))
        }
        other => other.map(Some).trying(what),
    }
}
