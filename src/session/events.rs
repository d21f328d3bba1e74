//! events/: one notification for every session that has ended.
//!
//! Each session has one file, `<handle>.json`, which exists before anyone can remove the session, until `gc`
//! finds it too old. It is a hard link to the session's exit.json, so it appears whole, costs nothing and
//! cannot be made twice.
//!
//! Every relay holds `alive` open for writing. The kernel closes it when the relay ends, also by SIGKILL, and
//! watchers of the directory see that.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::{Duration, SystemTime},
};

use crate::{
    session::{
        Handle,
        exit::{EXIT_RECORD, Notice},
    },
    sys::{
        deadline::Deadline,
        files::{self, Folder},
        lock,
    },
};

pub(crate) const EVENTS: &str = "events";
/// Closed for writing whenever a relay has ended; locked, shared, by followers.
pub(crate) const ALIVE: &str = "alive";
const SUFFIX: &str = ".json";

/// How long to wait for a running `gc`.
const COLLECTING: Duration = Duration::from_secs(30);

pub(crate) struct Events(Folder);

impl Events {
    /// Opens the directory in a state directory, and makes it if it does not exist.
    pub(crate) fn open(state_dir: &Path) -> io::Result<Events> {
        let open = || Folder::open(state_dir)?.open_folder(OsStr::new(EVENTS));
        let folder = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                files::make_private_folders(&state_dir.join(EVENTS))?;
                open()?
            }
            other => other?,
        };
        if let Some(reason) = folder.distrust()? { Err(io::Error::other(reason)) } else { Ok(Events(folder)) }
    }

    /// The file that a relay holds open as long as it lives.
    pub(crate) fn live(&self) -> io::Result<File> {
        self.0.open_lock(ALIVE)
    }

    /// The lock that a follower holds: while any follower does, `gc` keeps recent events. Waits while a `gc`
    /// runs.
    pub(crate) fn follow(&self) -> io::Result<File> {
        // `live` makes the file if it does not exist. We reopen it read-only, because closing a writable one
        // looks like a relay's end.
        drop(self.live()?);
        lock::take(self.0.open_file(ALIVE)?, ALIVE, lock::LockKind::Shared, Deadline::after(COLLECTING))
    }

    /// The same for `gc`: `None` if there is a follower.
    pub(crate) fn unfollowed(&self) -> Option<File> {
        let file = self.0.open_file(ALIVE).ok()?;
        file.try_lock().ok().map(|()| file)
    }

    pub(crate) fn has(&self, handle: &Handle) -> bool {
        self.0.has(&file_of(handle))
    }

    /// Publishes a session's end by the exit record in its directory. A second call for the session is fine.
    /// Two calls for one session must not run at once.
    pub(crate) fn record(&self, handle: &Handle, session: &Folder) -> io::Result<()> {
        let name = file_of(handle);
        match session.link(EXIT_RECORD, &self.0, &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) if cannot_be_linked(&error) => {
                let exit_record = session.read(EXIT_RECORD, Notice::LONGEST)?;
                self.0.replace_as_of(&name, &exit_record, session.modified(EXIT_RECORD)?).map(drop)
            }
            other => other,
        }
    }

    /// The sessions whose ends have been published.
    pub(crate) fn handles(&self) -> io::Result<Vec<Handle>> {
        Ok(self.0.names()?.iter().filter_map(|name| handle_of(name)).collect())
    }

    /// `None` if it has been removed, or is not an exit record.
    pub(crate) fn notice(&self, handle: &Handle) -> Option<Notice> {
        Notice::parse(self.0.read(&file_of(handle), Notice::LONGEST).ok()?)
    }

    /// When the session ended.
    pub(crate) fn time(&self, handle: &Handle) -> io::Result<SystemTime> {
        self.0.modified(&file_of(handle))
    }

    pub(crate) fn remove(&self, handle: &Handle) -> io::Result<()> {
        self.0.remove_if_there(OsStr::new(&file_of(handle)))
    }

    /// Removes the incomplete copy that a killed call left, if its session is gone: as long as the session
    /// exists, a call may be writing the copy.
    pub(crate) fn remove_leftovers(&self, is_there: impl Fn(&Handle) -> bool) -> io::Result<()> {
        for name in self.0.names()? {
            let copied = name.as_bytes().strip_prefix(b".").and_then(|name| name.strip_suffix(b".new"));
            let handle = copied.and_then(|name| handle_of(OsStr::from_bytes(name)));
            if handle.is_some_and(|handle| !is_there(&handle)) {
                self.0.remove_if_there(&name)?;
            }
        }
        Ok(())
    }
}

fn file_of(handle: &Handle) -> String {
    format!("{handle}{SUFFIX}")
}

/// The session of a file in the directory.
pub(crate) fn handle_of(name: &OsStr) -> Option<Handle> {
    Handle::parse(name.as_bytes().strip_suffix(SUFFIX.as_bytes())?)
}

/// The file system has no hard links, or does not allow this one.
fn cannot_be_linked(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}
