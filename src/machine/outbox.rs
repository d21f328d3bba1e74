//! Bytes to write to a descriptor that must not block us.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
};

#[derive(Default)]
pub(crate) struct Outbox(VecDeque<u8>);

impl Extend<u8> for Outbox {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        self.0.extend(bytes);
    }
}

impl Outbox {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0 = VecDeque::new();
    }

    /// Writes what is taken at once.
    pub(crate) fn flush(&mut self, onto: &mut impl Write) -> io::Result<()> {
        while !self.0.is_empty() {
            match onto.write(self.0.as_slices().0) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.0.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // Returns the memory that a burst took.
        self.0.shrink_to(64 * 1024);
        Ok(())
    }
}

/// Reads what there is: `None` where nothing is there yet, and no bytes at the end.
pub(crate) fn read(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match from.read(buffer) {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
