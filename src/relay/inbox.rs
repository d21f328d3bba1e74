//! The received bytes that are still to be processed.
//!
//! There may be a secret among them. So all their memory is wiped before it is freed, also if they outgrow
//! one piece of memory and move to another.

use std::ops::Deref;

#[derive(Default)]
pub(crate) struct Inbox(Vec<u8>);

impl Deref for Inbox {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Inbox {
    fn from(bytes: &[u8]) -> Inbox {
        Inbox(bytes.to_vec())
    }
}

impl Inbox {
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let length = self.0.len() + bytes.len();
        if length > self.0.capacity() {
            let mut larger = Vec::with_capacity(length.next_power_of_two());
            larger.extend_from_slice(&self.0);
            // The old one is dropped, and so wiped.
            *self = Inbox(larger);
        }
        self.0.extend_from_slice(bytes);
    }

    /// How much memory it takes.
    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Drops the first `count` bytes; a copy of the last may stay in its memory until that is wiped, as it is
    /// when nothing is left.
    pub(crate) fn skip(&mut self, count: usize) {
        self.0.drain(..count);
        if self.0.is_empty() {
            *self = Inbox::default();
        }
    }

    /// Moves the first `count` bytes, or all if there are fewer, out of it, and keeps nothing of them.
    pub(crate) fn take(&mut self, count: usize) -> Inbox {
        let (taken, rest) = self.split_at(count.min(self.len()));
        let (taken, rest) = (Inbox::from(taken), Inbox::from(rest));
        *self = rest;
        taken
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Overwrites all the memory that these bytes have.
fn wipe(bytes: &mut Vec<u8>) {
    bytes.fill(0);
    bytes.resize(bytes.capacity(), 0);
    // Else the compiler may see that the bytes are never read again, and omit it.
    std::hint::black_box(&bytes[..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_in_order() {
        let mut inbox = Inbox::default();
        for piece in [&b"a li"[..], b"", b"ne\nand", b" a text", &[b'x'; 100]] {
            inbox.append(piece);
        }
        inbox.skip(7);
        assert_eq!(*inbox.take(3), b"and"[..]);
        assert_eq!(*inbox.take(7), b" a text"[..]);
        assert_eq!(*inbox.take(1_000), [b'x'; 100][..]);
        assert!(inbox.is_empty());
    }

    #[test]
    fn memory_that_is_given_back_is_wiped() {
        let mut bytes = b"correct horse".to_vec();
        bytes.truncate(3);
        wipe(&mut bytes);
        assert!(bytes.len() == bytes.capacity() && bytes.iter().all(|byte| *byte == 0));
    }
}
