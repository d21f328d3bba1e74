//! Who is inside a session that may write only to some folders, and so must not
//! have us write, type or start anything for it.
//!
//! The kernel does not keep such a process from our sockets. But it bears the tag
//! of its session wherever it goes, also when that has ended: nobody without one needs
//! a second look. And it can never get rid of its `no_new_privs`, without which the
//! limits that are the mark are somebody's own.

use std::os::fd::{AsFd, OwnedFd};

use crate::{
    session::Handle,
    sys::{confinement, processes},
};

/// The sessions that bind a process to their write roots.
#[derive(Debug)]
pub(crate) struct WriteRootPolicy {
    // By the numbers that their handles are.
    bound: Vec<u32>,
    // Of no use but to be closed where a look at a process has no other descriptor:
    // the connection may have got the last that there was.
    spare: Option<OwnedFd>,
}

impl WriteRootPolicy {
    /// Those of this process, which may itself be inside such a session; `own`
    /// is the session that it serves, whose processes may talk to it.
    pub(crate) fn ours(own: Option<&Handle>) -> WriteRootPolicy {
        WriteRootPolicy::of(std::process::id(), own)
    }

    fn of(server: u32, own: Option<&Handle>) -> WriteRootPolicy {
        let bound = binding(server).flatten().into_iter().chain(own.map(Handle::number));
        WriteRootPolicy { bound: bound.collect(), spare: spare() }
    }

    /// Is nothing asked of us by this process that it may not do itself? Of one
    /// that has gone, nobody can tell; one of another PID namespace (0) is in no
    /// session that is below us.
    pub(crate) fn admit(&mut self, peer: u32) -> bool {
        let mut found = if peer == 0 { Some(None) } else { binding(peer) };
        if found.is_none() {
            drop(self.spare.take());
            found = binding(peer);
            self.spare = spare();
        }
        found.is_some_and(|binding| binding.is_none_or(|session| self.bound.contains(&session)))
    }
}

/// Does the relay of a session, which has this PID, serve us?
pub(super) fn serves_us(relay: u32, session: &Handle) -> bool {
    WriteRootPolicy::of(relay, Some(session)).admit(std::process::id())
}

fn spare() -> Option<OwnedFd> {
    std::io::stderr().as_fd().try_clone_to_owned().ok()
}

/// The session that a process is confined by, if it is; `None` where it has gone
/// meanwhile, or has made its tag unreadable.
fn binding(pid: u32) -> Option<Option<u32>> {
    match confinement::tag_of(pid) {
        Some(None) => Some(None),
        mark if processes::has_no_new_privileges(pid)? => mark,
        _ => Some(None),
    }
}
