//! The helper's log: lines on standard output, each with its time.
//!
//! A slow reader (a pager, a stopped journal) must not block the helper, and a reader that has gone must not
//! end it: so a line is written when there is room for it, and waits here until then.

use std::{
    io::{self, Write},
    time::SystemTime,
};

use crate::sys::{
    clock,
    poll::{self, PIPE_ROOM},
};

/// How much may wait for a reader; lines that come on top of it are lost, and
/// counted.
const WAITING: usize = 256 * 1024;

#[derive(Default)]
pub(crate) struct HelperLog {
    waiting: Vec<u8>,
    lost: u64,
    // The reader has gone.
    gone: bool,
}

impl HelperLog {
    pub(crate) fn append(&mut self, what: &str) {
        if self.gone {
            return;
        }
        if self.waiting.len() > WAITING {
            self.lost += 1;
            return;
        }
        let now = clock::utc(SystemTime::now());
        if self.lost > 0 {
            self.waiting.extend(format!("[{now}] log: {} lines were lost\n", self.lost).bytes());
            self.lost = 0;
        }
        self.waiting.extend(format!("[{now}] {what}\n").bytes());
        self.write();
    }

    pub(crate) fn wants_write(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes as much as there is room for.
    pub(crate) fn write(&mut self) {
        while !self.waiting.is_empty() && poll::is_writable(&io::stdout()).unwrap_or(false) {
            // Standard output is not ours to make non-blocking.
            let count = self.waiting.len().min(PIPE_ROOM);
            let mut stdout = io::stdout().lock();
            if stdout.write_all(&self.waiting[..count]).and_then(|()| stdout.flush()).is_err() {
                // The helper continues without a reader of its log.
                (self.gone, self.waiting) = (true, Vec::new());
                return;
            }
            self.waiting.drain(..count);
        }
    }
}
