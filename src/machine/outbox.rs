//! Bytes to write to a descriptor that must not block us, and a buffer to read them into.

use std::{
    io::{self, Read, Write},
    ops::{Deref, DerefMut},
};

/// More memory than that is kept only while much passes.
const KEPT: usize = 64 * 1024;

/// A line of the processor's cache.
pub(crate) const ALIGNMENT: usize = 64;

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

    /// The same as `push`; they are not copied if nothing waits.
    pub(crate) fn give(&mut self, bytes: Vec<u8>) {
        if self.is_empty() {
            (self.bytes, self.start) = (bytes, 0);
        } else {
            self.push(&bytes);
        }
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
    pub(crate) fn flush(&mut self, onto: &mut dyn Write) -> io::Result<()> {
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

/// A buffer for large reads. Many processors copy several times as slowly (`rep movsb`, which the kernel
/// uses) to an address that is no multiple of 32, and that of a large `Vec` here is none.
#[derive(Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// The start of the aligned bytes.
    start: usize,
}

impl Buffer {
    pub(crate) fn new(size: usize) -> Buffer {
        let mut bytes = vec![0; size + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        bytes.truncate(start + size);
        Buffer { bytes, start }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline(never)]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for Buffer {
    #[inline(never)]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_has_its_size_and_is_aligned_wherever_it_goes() {
        for size in [1, 63, 64, 16 * 1024, 128 * 1024 + 5] {
            let mut moved = [Buffer::new(size), Buffer::default()];
            moved.reverse();
            assert!(moved[0].is_empty());
            assert_eq!(moved[1].len(), size);
            assert_eq!(moved[1].as_ptr().align_offset(ALIGNMENT), 0);
            moved[1].fill(1);
        }
    }
}
