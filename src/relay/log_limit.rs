//! The limit of a log (`--max-log`): its oldest bytes go, and no offset changes.
//!
//! They go by a hole that is punched from the front (fallocate(2)). The log's new start is written before
//! that, so that a reader of zeros there knows that they are not output: see [`OutputLog`].
//!
//! [`OutputLog`]: crate::session::OutputLog

use std::{fs::File, io};

use crate::{
    session::LOG_START,
    sys::files::{self, Folder},
};

/// How much goes at a time of a log that is large enough. A hole costs some
/// hundred microseconds, this much output some fifty milliseconds.
const STEP: u64 = 4 * 1024 * 1024;

pub(crate) struct LogLimit {
    /// How many bytes of disk the log may take.
    most: u64,
    /// Only whole blocks are freed.
    block: u64,
    // Invariant: a multiple of `block`; before it there is a hole, or will be.
    start: u64,
}

impl LogLimit {
    /// For a new log.
    pub(crate) fn new(most: u64, log: &File) -> io::Result<LogLimit> {
        // A larger unit would leave too little of a small log.
        let block = files::block_size(log)?.clamp(4096, 8192);
        Ok(LogLimit { most, block, start: 0 })
    }

    /// Before `count` bytes are added to a log of `length` bytes.
    pub(crate) fn make_room(
        &mut self,
        folder: &Folder,
        log: &File,
        length: u64,
        count: u64,
    ) -> io::Result<()> {
        // One more block may hold the file system's own index of the others.
        let end = (length + count).next_multiple_of(self.block) + self.block;
        if end - self.start <= self.most {
            return Ok(());
        }
        let step = STEP.min(self.most / 2);
        self.punch(folder, log, end.saturating_sub(self.most - step))
    }

    /// Frees dispensable space on a full disk; `false` if there is none.
    pub(crate) fn spare(&mut self, folder: &Folder, log: &File, length: u64) -> io::Result<bool> {
        // A quarter stays, and the block that this is rounded to.
        let start = length.saturating_sub(self.most / 4) / self.block * self.block;
        if start <= self.start {
            return Ok(false);
        }
        self.punch(folder, log, start).map(|()| true)
    }

    fn punch(&mut self, folder: &Folder, log: &File, start: u64) -> io::Result<()> {
        let start = start / self.block * self.block;
        // If the directory has gone, readers that have the log open still see the hole itself.
        files::there(folder.replace(LOG_START, start.to_string().as_bytes()))?;
        // Reserves space for the next one, because the disk may be full by then; if this fails now, there may
        // be space later.
        let _ = folder.reserve(LOG_START);
        files::punch(log, self.start, start)?;
        self.start = start;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_block_of_the_bound_is_left_to_the_file_system() {
        let path = std::env::temp_dir().join(format!("nbs-bound-{:x}", fastrand::u64(..)));
        files::make_private_folders(&path).unwrap();
        let folder = Folder::open(&path).unwrap();
        folder.create("log", b"").unwrap();
        let mut log = folder.open_appending("log").unwrap();
        let most = 64 * 1024;
        let mut log_limit = LogLimit::new(most, &log).unwrap();
        let mut length = 0;
        for _ in 0..300 {
            log_limit.make_room(&folder, &log, length, 1_000).unwrap();
            log.write_all(&[b'x'; 1_000]).unwrap();
            length += 1_000;
            let taken = length.next_multiple_of(log_limit.block) - log_limit.start;
            assert!(taken + log_limit.block <= most, "{taken} bytes");
            assert!(length < most || length - log_limit.start >= most / 4, "{taken} bytes");
        }
        std::fs::remove_dir_all(path).unwrap();
    }
}
