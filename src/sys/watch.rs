//! What happens in a folder (inotify(7)).
//!
//! Watch first, look second: what comes between is seen by one of the two. The
//! kernel's queue is bounded; where it has overflowed it says so, and one has
//! to look again.

use std::{
    ffi::{OsStr, OsString},
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// There is a file of this name, new or in the place of another.
    Came(OsString),
    /// Somebody who had it open for writing has closed it, or has ended.
    Written(OsString),
    /// There is none any more.
    Went(OsString),
    /// Something happened that the queue had no room for.
    Missed,
    /// The folder itself has been removed or renamed.
    FolderWent,
}

/// A folder that is watched. It is readable when something has happened.
pub(crate) struct Watch(OwnedFd);

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Watch {
    /// Watches the names of a folder. Where a limit of the kernel is in the
    /// way, the error names it.
    pub(crate) fn folder(path: &Path) -> io::Result<Watch> {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|errno| {
            // The other reason is our own limit of open files, which is higher.
            told_limit(errno, rustix::io::Errno::MFILE, "max_user_instances")
        })?;
        let what = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&watch, path, what)
            .map_err(|errno| told_limit(errno, rustix::io::Errno::NOSPC, "max_user_watches"))?;
        Ok(Watch(watch))
    }

    /// All that has happened by now, in order; does not wait.
    pub(crate) fn changes(&self) -> io::Result<Vec<Change>> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut changes = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
                    changes.extend(change(event.events(), name));
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(changes),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn change(events: ReadFlags, name: Option<OsString>) -> Option<Change> {
    if events.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Some(Change::Missed);
    }
    if events.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT) {
        return Some(Change::FolderWent);
    }
    let name = name?;
    if events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
        return Some(Change::Came(name));
    }
    if events.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
        return Some(Change::Went(name));
    }
    events.contains(ReadFlags::CLOSE_WRITE).then_some(Change::Written(name))
}

/// The same error, but if it is the one that a limit makes, with its name.
fn told_limit(errno: rustix::io::Errno, at_limit: rustix::io::Errno, name: &str) -> io::Error {
    let error = io::Error::from(errno);
    if errno != at_limit {
        return error;
    }
    let limit = std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).unwrap_or_default();
    io::Error::new(error.kind(), format!("{error}; fs.inotify.{name} is {}", limit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_comes_goes_and_is_written_is_seen() {
        let folder =
            std::env::temp_dir().join(format!("nbs-watch-{}-{:x}", std::process::id(), fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        let file = fs::File::create(folder.join("a")).unwrap();
        let watch = Watch::folder(&folder).unwrap();
        assert_eq!(watch.changes().unwrap(), []);
        fs::hard_link(folder.join("a"), folder.join("b")).unwrap();
        fs::rename(folder.join("b"), folder.join("c")).unwrap();
        drop(file);
        fs::remove_file(folder.join("c")).unwrap();
        let changes = watch.changes().unwrap();
        use Change::*;
        let expected = [Came("b".into()), Went("b".into()), Came("c".into()), Written("a".into())];
        assert_eq!(changes[..4], expected);
        assert_eq!(changes[4..], [Went("c".into())]);
        fs::remove_dir_all(&folder).unwrap();
        assert!(watch.changes().unwrap().contains(&FolderWent));
        assert!(Watch::folder(&folder).is_err());
    }
}
