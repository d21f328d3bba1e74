//! What is at some paths has changed, as inotify(7) tells.
//!
//! A path is watched, not only what has that path now: where the folder is not
//! there yet, or is renamed or removed, the folders above it are what tells that
//! it has come. A change is a reason to look and says no more: names may be lost
//! when there are too many (the queue overflows), reasons are not.
//!
//! Watch first, look second: what comes between is seen by one of them.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Readable once something has changed. There are not many of them: 128 for a
/// user, unless the system was told otherwise.
#[derive(Debug)]
pub(crate) struct Paths(File);

impl AsFd for Paths {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The folder itself has another name now, or none. Of a folder that somebody
/// has open, or is in, a removal is told only when it is let go of; so the
/// content is watched, too.
const ITSELF: WatchFlags = WatchFlags::MOVE_SELF.union(WatchFlags::DELETE_SELF);

/// What is in the folder has been made, written to, renamed or removed.
const CONTENT: WatchFlags = ITSELF
    .union(WatchFlags::CREATE)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE);

impl Paths {
    pub(crate) fn new() -> io::Result<Paths> {
        Ok(Paths(File::from(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?)))
    }

    /// Watches the content of the folders that have these absolute paths, or
    /// will. To be called again after each change, before looking: they may be
    /// other folders by now.
    pub(crate) fn watch(&self, paths: &[&Path]) -> io::Result<()> {
        for path in paths {
            for folder in path.ancestors() {
                self.add(folder, ITSELF)?;
            }
        }
        for path in paths {
            // From the root down: a folder that comes after it was missed here is
            // seen by the one above it, which is watched by then.
            let mut left: Vec<&Path> = path.ancestors().collect();
            while let Some(folder) = left.pop() {
                if left.last().is_none_or(|below| !below.is_dir()) {
                    self.add(folder, CONTENT)?;
                }
            }
        }
        Ok(())
    }

    /// From now on this is what is watched of a folder. What is not there, or is
    /// not ours to read, is passed over.
    fn add(&self, folder: &Path, what: WatchFlags) -> io::Result<()> {
        use rustix::io::Errno;
        match inotify::add_watch(&self.0, folder, what | WatchFlags::ONLYDIR) {
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes note of all that has changed so far.
    pub(crate) fn take(&mut self) -> io::Result<()> {
        // Each holds a name of up to 255 bytes (inotify(7)).
        let mut changes = [0; 8 * 1024];
        loop {
            match self.0.read(&mut changes) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{deadline::Deadline, poll};
    use std::{fs, time::Duration};

    /// Has anything changed since the last time?
    fn changed(paths: &mut Paths) -> bool {
        let changed = poll::wait_readable(paths, Deadline::after(Duration::ZERO)).unwrap();
        paths.take().unwrap();
        changed
    }

    #[test]
    fn a_folder_is_watched_before_it_is_there_and_after_it_was_replaced() {
        let root = std::env::temp_dir().join(format!("nbs-paths-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("a")).unwrap();
        let folder = root.join("a/b/c");
        let mut paths = Paths::new().unwrap();
        let mut step = |what: &str, change: &dyn Fn() -> io::Result<()>| {
            paths.watch(&[&folder, &root.join("a")]).unwrap();
            assert!(!changed(&mut paths), "before: {what}");
            change().unwrap();
            assert!(changed(&mut paths), "{what}");
        };
        step("the one above it comes", &|| fs::create_dir(root.join("a/b")));
        step("it comes", &|| fs::create_dir(&folder));
        step("a file", &|| fs::write(folder.join("f"), "1"));
        step("another content", &|| fs::write(folder.join("f"), "2"));
        step("an editor's rename", &|| {
            fs::write(root.join("new"), "3").and_then(|()| fs::rename(root.join("new"), folder.join("f")))
        });
        step("one above it gets another name", &|| fs::rename(root.join("a"), root.join("x")));
        step("one above it is made again", &|| fs::create_dir_all(&folder));
        step("a file in the new one", &|| fs::write(folder.join("f"), "4"));
        step("it is removed", &|| fs::remove_dir_all(&folder));
        step("one above it is removed", &|| fs::remove_dir_all(root.join("a")));
        step("all are made again", &|| fs::create_dir_all(&folder));
        fs::remove_dir_all(&root).unwrap();
    }
}
