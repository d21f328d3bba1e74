//! Bytes in one direction: in order, each once, and bounded.
//!
//! A flow makes no system call but the read or write that it is handed, so a
//! test can play both ends.

use std::io;

/// As much as one read of a PTY master ever gives (tried on Linux 6.18).
pub(crate) const CAPACITY: usize = 4096;

/// A read of this length has probably left something: the buffer of the terminal keeps one byte free.
pub(crate) const FULL: usize = CAPACITY - 1;

/// Invariant: `waiting` is within `buffer`, and is the part that was read and is still to be written.
pub(crate) struct Flow {
    buffer: Vec<u8>,
    waiting: std::ops::Range<usize>,
}

impl Flow {
    pub(crate) fn new() -> Flow {
        Flow { buffer: vec![0; CAPACITY], waiting: 0..0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn waiting(&self) -> &[u8] {
        &self.buffer[self.waiting.clone()]
    }

    /// Fills it by one read; only to be called when empty.
    pub(crate) fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        assert!(self.is_empty(), "what is waiting would be lost");
        let count = read(&mut self.buffer)?;
        self.waiting = 0..count;
        Ok(count)
    }

    /// Fills it with these bytes, no more than `CAPACITY`; only to be called when empty.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        assert!(self.is_empty(), "what is waiting would be lost");
        self.buffer[..bytes.len()].copy_from_slice(bytes);
        self.waiting = 0..bytes.len();
    }

    /// Notes that `count` of the waiting bytes were passed on.
    pub(crate) fn take(&mut self, count: usize) {
        self.waiting.start = (self.waiting.start + count).min(self.waiting.end);
    }

    /// Gives away what one write takes.
    pub(crate) fn drain(&mut self, write: impl FnOnce(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        let count = write(self.waiting())?;
        self.take(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::rounds;

    #[test]
    fn every_byte_arrives_once_and_in_order() {
        for (seed, mut random) in rounds(200) {
            let sent: Vec<u8> = (0..random.usize(..50_000)).map(|_| random.u8(..)).collect();
            let (mut flow, mut given, mut got) = (Flow::new(), 0, Vec::new());
            while given < sent.len() || !flow.is_empty() {
                if flow.is_empty() {
                    let count = random.usize(1..=CAPACITY).min(sent.len() - given);
                    flow.fill(|buffer| {
                        buffer[..count].copy_from_slice(&sent[given..given + count]);
                        Ok(count)
                    })
                    .unwrap();
                    given += count;
                }
                flow.drain(|bytes| {
                    let count = random.usize(0..=bytes.len());
                    got.extend_from_slice(&bytes[..count]);
                    Ok(count)
                })
                .unwrap();
            }
            assert!(got == sent, "seed {seed}");
        }
    }

    #[test]
    fn a_refused_write_loses_nothing() {
        let mut flow = Flow::new();
        flow.fill(|buffer| {
            buffer[..3].copy_from_slice(b"abc");
            Ok(3)
        })
        .unwrap();
        flow.drain(|_| Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(flow.waiting(), b"abc");
    }
}
