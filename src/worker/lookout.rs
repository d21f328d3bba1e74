//! Being woken when a folder changes; and where the kernel cannot, by the clock.

use std::{io, path::Path, time::Duration};

use crate::sys::{deadline::Deadline, watch::Paths};

/// How often we look where we cannot be woken: a user may have no more than 128
/// watches (inotify(7)), and a worker must not go unwatched for that.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// `None` where the kernel does not watch for us.
#[derive(Default)]
pub(crate) struct Lookout(Option<Paths>);

impl Lookout {
    /// Has us woken by changes of what is in these folders. To be called before
    /// each look.
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

    /// What can be read once there is cause to look.
    pub(crate) fn watched(&self) -> Option<&Paths> {
        self.0.as_ref()
    }

    /// When to look at the latest; `blind` where something else than a folder
    /// cannot be watched, either.
    pub(crate) fn at_the_latest(&self, deadline: Deadline, blind: bool) -> Deadline {
        if blind || self.0.is_none() { deadline.min(Deadline::after(LOOK_AGAIN)) } else { deadline }
    }
}
