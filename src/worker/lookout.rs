//! Waiting for changes of directories, by inotify or, without it, by a timer.

use std::{io, path::Path, time::Duration};

use crate::sys::{deadline::Deadline, watch::Paths};

/// How often we look where we cannot be woken: a user may have no more than 128
/// watches (inotify(7)), and a worker must not go unwatched for that.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// `None` if the kernel does not watch for us.
#[derive(Default)]
pub(crate) struct Lookout(Option<Paths>);

impl Lookout {
    /// Watches the content of these directories. Call it before each check.
    pub(crate) fn watch(&mut self, folders: &[&Path]) -> io::Result<()> {
        let paths = match self.0.take() {
            Some(paths) => {
                paths.take()?;
                paths
            }
            None => Paths::new()?,
        };
        paths.watch(folders)?;
        self.0 = Some(paths);
        Ok(())
    }

    /// The descriptors that become readable when a check is due.
    pub(crate) fn watched(&self) -> Option<&Paths> {
        self.0.as_ref()
    }

    /// The latest time of the next check; `blind` if something besides a directory cannot be watched
    /// either.
    pub(crate) fn at_the_latest(&self, deadline: Deadline, blind: bool) -> Deadline {
        if blind || self.0.is_none() { deadline.min(Deadline::after(LOOK_AGAIN)) } else { deadline }
    }
}
