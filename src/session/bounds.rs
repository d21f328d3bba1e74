//! Who is inside a session that may write only to some folders, and so must not
//! have us write, type or start anything for it.
//!
//! The kernel does not keep such a process from our sockets. But it stands below
//! its session's relay or keeper, which adopt every orphan, and it can end
//! neither; and it can never get rid of its `no_new_privs`, so nobody without
//! that needs a second look.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use crate::{
    session::{Handle, KEEPER, RELAY, SessionDir},
    sys::{files::Folder, processes::Process},
};

/// The sessions that bind a process to their write roots.
#[derive(Debug)]
pub(crate) struct Bounds(Vec<Handle>);

impl Bounds {
    /// Those of this process, which may itself be inside such a session; `own`
    /// is the session that it serves, whose processes may talk to it.
    pub(crate) fn ours(own: Option<Handle>) -> Bounds {
        Bounds(binding(std::process::id()).unwrap_or_default().into_iter().chain(own).collect())
    }

    /// Is nothing asked of us by this process that it may not do itself? Of one
    /// that has gone, nobody can tell; one of another PID namespace (0) is in no
    /// session that is below us.
    pub(crate) fn admit(&self, peer: u32) -> bool {
        peer == 0 || binding(peer).is_some_and(|binding| binding.iter().all(|handle| self.0.contains(handle)))
    }
}

/// `None` where it, or one that it descends from, has gone meanwhile.
fn binding(pid: u32) -> Option<Vec<Handle>> {
    let mut binding = Vec::new();
    if !Process::read(pid)?.has_no_new_privileges()? {
        return Some(binding);
    }
    let mut pid = pid;
    while pid > 1 {
        let process = Process::read(pid)?;
        binding.extend(root_of(&process).filter(|(_, confined)| *confined).map(|(handle, _)| handle));
        pid = process.parent;
    }
    Some(binding)
}

/// The session whose relay or keeper this says that it is, and whether it is
/// confined. Whoever lies only binds itself.
fn root_of(process: &Process) -> Option<(Handle, bool)> {
    if process.name != RELAY && process.name != KEEPER {
        return None;
    }
    let arguments = process.arguments();
    let [role, handle, sessions, ..] = &arguments[..] else {
        return None;
    };
    let handle = Handle::parse(handle).filter(|_| *role == process.name.as_bytes())?;
    let sessions = Folder::open(Path::new(OsStr::from_bytes(sessions))).ok();
    let folder = sessions.and_then(|sessions| sessions.open_folder(OsStr::new(handle.as_str())).ok());
    // Of one that has been removed nobody can tell any more.
    let confined = folder.is_none_or(|folder| SessionDir::new(handle.clone(), folder).may_be_confined());
    Some((handle, confined))
}
