//! Who is inside a session that may write only to some folders, and so must not
//! have us write, type or start anything for it.
//!
//! The kernel does not keep such a process from our sockets. But it stands below
//! its session's relay or keeper, which adopt every orphan, and it can end
//! neither; and it can never get rid of its `no_new_privs`, so nobody without
//! that needs a second look.

use std::{ffi::OsStr, fs::File, os::unix::ffi::OsStrExt, path::Path};

use crate::{
    session::{Handle, KEEPER, RELAY, SessionDir},
    sys::{
        files::Folder,
        processes::{self, Process},
    },
};

/// The sessions that bind a process to their write roots.
#[derive(Debug)]
pub(crate) struct Bounds {
    ours: Vec<Handle>,
    // Of no use but to be closed: a look at a process takes a descriptor, and
    // the visitor may have got the last that there was.
    spare: Option<File>,
}

impl Bounds {
    /// Those of this process, which may itself be inside such a session; `own`
    /// is the session that it serves, whose processes may talk to it.
    pub(crate) fn ours(own: Option<Handle>) -> Bounds {
        let ours = binding(std::process::id()).unwrap_or_default().into_iter().chain(own).collect();
        Bounds { ours, spare: spare() }
    }

    /// Is nothing asked of us by this process that it may not do itself? Of one
    /// that has gone, nobody can tell; one of another PID namespace (0) is in no
    /// session that is below us.
    pub(crate) fn admit(&mut self, peer: u32) -> bool {
        drop(self.spare.take());
        let binding = if peer == 0 { Some(Vec::new()) } else { binding(peer) };
        self.spare = spare();
        binding.is_some_and(|binding| binding.iter().all(|handle| self.ours.contains(handle)))
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

/// `None` where it, or one that it descends from, has gone meanwhile.
fn binding(pid: u32) -> Option<Vec<Handle>> {
    let mut binding = Vec::new();
    if !processes::has_no_new_privileges(pid)? {
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
