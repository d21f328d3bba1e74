//! Changes in directories (inotify(7)).
//!
//! [`Watch`] reports changes to the names in one existing directory. [`Paths`] only reports that some
//! paths need a check, even if they do not exist yet.
//!
//! Watch first, check second: so one of the two sees each change. The kernel's queue is bounded. On an
//! overflow it says so, and the caller has to check again. The number of queues is limited as well:
//! 128 for a user by default.

use std::{
    ffi::{OsStr, OsString},
    io,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use rustix::{
    fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags},
    io::Errno,
};

/// The kernel's events, in order. If one of its limits is reached, the error names it.
#[derive(Debug)]
struct Queue(OwnedFd);

as_fd!(Queue, 0);

impl Queue {
    fn new() -> io::Result<Queue> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        // The other reason is our own limit of open files, which is higher.
        queue.map(Queue).map_err(|errno| told_limit(errno, Errno::MFILE, "max_user_instances"))
    }

    /// From now on it watches a directory for these events.
    fn add(&self, folder: &Path, what: WatchFlags) -> io::Result<()> {
        inotify::add_watch(&self.0, folder, what | WatchFlags::ONLYDIR)
            .map(drop)
            .map_err(|errno| told_limit(errno, Errno::NOSPC, "max_user_watches"))
    }

    /// Reads all pending events; does not wait.
    fn take(&self, mut each: impl FnMut(&Event<'_>)) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.0, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => each(&event),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The same error; if a limit causes it, with the limit's name.
fn told_limit(errno: Errno, at_limit: Errno, name: &str) -> io::Error {
    let error = io::Error::from(errno);
    if errno != at_limit {
        return error;
    }
    let limit = std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).unwrap_or_default();
    io::Error::new(error.kind(), format!("{error}; fs.inotify.{name} is {}", limit.trim()))
}

/// A change in a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FolderChange {
    /// There is a file of this name, new or in the place of another.
    Came(OsString),
    /// A process that had it open for writing closed it or ended.
    Written(OsString),
    /// It no longer exists.
    Went(OsString),
    /// Something happened that the queue had no room for.
    Missed,
    /// The directory itself was removed or renamed.
    FolderWent,
}

/// A watched directory. It is readable when something has happened.
pub(crate) struct Watch(Queue);

as_fd!(Watch, 0);

impl Watch {
    /// Watches the names of a directory.
    pub(crate) fn folder(path: &Path) -> io::Result<Watch> {
        let queue = Queue::new()?;
        let what = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | ITSELF;
        queue.add(path, what)?;
        Ok(Watch(queue))
    }

    /// All that has happened by now, in order; does not wait.
    pub(crate) fn changes(&self) -> io::Result<Vec<FolderChange>> {
        let mut changes = Vec::new();
        self.0.take(|event| {
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
            changes.extend(change(event.events(), name));
        })?;
        Ok(changes)
    }
}

fn change(events: ReadFlags, name: Option<OsString>) -> Option<FolderChange> {
    if events.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Some(FolderChange::Missed);
    }
    if events.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT) {
        return Some(FolderChange::FolderWent);
    }
    let name = name?;
    if events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
        return Some(FolderChange::Came(name));
    }
    if events.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
        return Some(FolderChange::Went(name));
    }
    events.contains(ReadFlags::CLOSE_WRITE).then_some(FolderChange::Written(name))
}

/// The directory itself was renamed or removed. If a process has it open or is in it, the kernel
/// reports its removal only when the process leaves it. So we watch the content as well.
const ITSELF: WatchFlags = WatchFlags::MOVE_SELF.union(WatchFlags::DELETE_SELF);

/// A file in the directory was made, written to, renamed or removed.
const CONTENT: WatchFlags = ITSELF
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE);

/// Watched paths, even if they do not exist yet. If a directory is missing, or is renamed or removed,
/// its parents report that it appears. An event is only a reason to check: names may be lost when
/// there are too many events, but not the fact that there were some.
///
/// It is readable once something has changed.
#[derive(Debug)]
pub(crate) struct Paths(Queue);

as_fd!(Paths, 0);

impl Paths {
    /// Watches nothing yet.
    pub(crate) fn new() -> io::Result<Paths> {
        Queue::new().map(Paths)
    }

    /// Watches the content of the directories that have these absolute paths, now or later. Call it
    /// again after each change, before checking, because they may be other directories by now.
    pub(crate) fn watch(&self, paths: &[&Path]) -> io::Result<()> {
        for path in paths {
            for folder in path.ancestors() {
                self.add(folder, ITSELF)?;
            }
        }
        for path in paths {
            // From the root down: if a directory appears after we missed it here, its parent, which
            // is watched by then, reports it.
            let mut left: Vec<&Path> = path.ancestors().collect();
            while let Some(folder) = left.pop() {
                if left.last().is_none_or(|below| !below.is_dir()) {
                    self.add(folder, CONTENT)?;
                }
            }
        }
        Ok(())
    }

    /// Skips directories that do not exist or that we may not read.
    fn add(&self, folder: &Path, what: WatchFlags) -> io::Result<()> {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        match self.0.add(folder, what) {
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(()),
            other => other,
        }
    }

    /// Takes note of all that has changed so far.
    pub(crate) fn take(&self) -> io::Result<()> {
        self.0.take(|_| {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{deadline::Deadline, poll};
    use std::{fs, process::Command, time::Duration};

    /// Another process does this. A test beside us forks with our open descriptors, until it executes,
    /// and the kernel reports a write or removal only after all processes close the file.
    fn elsewhere(folder: &Path, script: &str) {
        let mut shell = Command::new("sh");
        assert!(shell.args(["-ec", script]).current_dir(folder).status().unwrap().success(), "{script}");
    }

    #[test]
    fn created_removed_and_written_files_are_seen() {
        let folder =
            std::env::temp_dir().join(format!("nbs-watch-{}-{:x}", std::process::id(), fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        elsewhere(&folder, ": >a");
        let watch = Watch::folder(&folder).unwrap();
        assert_eq!(watch.changes().unwrap(), []);
        elsewhere(&folder, "exec 3>>a; ln a b; mv b c; exec 3>&-; rm c");
        let changes = watch.changes().unwrap();
        use FolderChange::*;
        let expected = [Came("b".into()), Went("b".into()), Came("c".into()), Written("a".into())];
        assert_eq!(changes[..4], expected);
        assert_eq!(changes[4..], [Went("c".into())]);
        elsewhere(Path::new("/"), &format!("rm -r '{}'", folder.display()));
        assert!(watch.changes().unwrap().contains(&FolderWent));
        assert!(Watch::folder(&folder).is_err());
    }

    /// Has anything changed since the last time?
    fn changed(paths: &Paths) -> bool {
        let changed = poll::wait_readable(paths, Deadline::after(Duration::ZERO)).unwrap();
        paths.take().unwrap();
        changed
    }

    #[test]
    fn a_folder_is_watched_before_it_is_there_and_after_it_was_replaced() {
        let root = std::env::temp_dir().join(format!("nbs-paths-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("a")).unwrap();
        let paths = Paths::new().unwrap();
        let step = |what: &str, script: &str| {
            paths.watch(&[&root.join("a/b/c"), &root.join("a")]).unwrap();
            assert!(!changed(&paths), "before: {what}");
            elsewhere(&root, script);
            assert!(changed(&paths), "{what}");
        };
        step("the one above it comes", "mkdir a/b");
        step("it comes", "mkdir a/b/c");
        step("a file", "echo 1 >a/b/c/f");
        step("another content", "echo 2 >a/b/c/f");
        step("an editor's rename", "echo 3 >new; mv new a/b/c/f");
        step("one above it gets another name", "mv a x");
        step("one above it is made again", "mkdir -p a/b/c");
        step("a file in the new one", "echo 4 >a/b/c/f");
        step("it is removed", "rm -r a/b/c");
        step("one above it is removed", "rm -r a");
        step("all are made again", "mkdir -p a/b/c");
        fs::remove_dir_all(&root).unwrap();
    }
}
