//! Bytes to write to a descriptor that must not block us.

use std::io::{self, Read, Write};

/// More memory than that is kept only while much passes.
const KEPT: usize = 64 * 1024;

#[derive(Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    // Invariant: those before it were written.
    start: usize,
}

impl Outbox {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.tail().extend_from_slice(bytes);
    }

    /// The bytes to write; the caller may append to them.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        // The rest is moved when that costs no more than what was before it did.
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        &mut self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that are not written yet.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Removes this many bytes from the front: they have been written.
    pub(crate) fn take(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Returns the memory that a burst took.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            self.bytes.shrink_to(KEPT);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Outbox::default();
    }

    /// Writes what is taken at once.
    pub(crate) fn flush(&mut self, onto: &mut impl Write) -> io::Result<()> {
        let before = self.len();
        while !self.is_empty() {
            match onto.write(self.rest()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.take(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if before < KEPT {
            self.shrink();
        }
        Ok(())
    }
}

/// Reads what there is: `None` where nothing is there yet, and no bytes at the end.
pub(crate) fn read(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    at_once(from.read(buffer))
}

/// The same of a call that returns at once.
pub(crate) fn at_once(read: io::Result<usize>) -> io::Result<Option<usize>> {
    match read {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
