//! What a terminal in canonical mode takes of a line.
//!
//! The kernel cuts a line of more than 4,095 characters and says nothing
//! (termios(3), and tried: the write reports success). So we count what has
//! been typed since the last end of a line, and hold back what would be lost
//! until the line is read or the mode changes.

use crate::sys::pty::Modes;

/// A canonical line, without what ends it.
const LONGEST: usize = 4_095;

/// Invariant: `typed <= LONGEST`.
#[derive(Default)]
pub(crate) struct Line {
    typed: usize,
}

impl Line {
    /// How many of these bytes can be typed now without losing one.
    pub(crate) fn room_for(&mut self, bytes: &[u8], modes: &Modes) -> usize {
        if !modes.is_canonical() {
            self.typed = 0;
            return bytes.len();
        }
        self.room(bytes, |byte| modes.ends_line(byte))
    }

    fn room(&self, bytes: &[u8], ends_line: impl Fn(u8) -> bool) -> usize {
        let mut typed = self.typed;
        bytes
            .iter()
            .position(|byte| {
                typed = if ends_line(*byte) { 0 } else { typed + 1 };
                typed > LONGEST
            })
            .unwrap_or(bytes.len())
    }

    /// Notes that these bytes have been typed.
    pub(crate) fn note(&mut self, bytes: &[u8], modes: &Modes) {
        if !modes.is_canonical() {
            self.typed = 0;
            return;
        }
        self.count(bytes, |byte| modes.ends_line(byte));
    }

    fn count(&mut self, bytes: &[u8], ends_line: impl Fn(u8) -> bool) {
        self.typed = match bytes.iter().rposition(|byte| ends_line(*byte)) {
            Some(end) => bytes.len() - end - 1,
            None => self.typed + bytes.len(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newline(byte: u8) -> bool {
        byte == b'\n'
    }

    #[test]
    fn a_line_has_room_for_4095_characters_and_its_end() {
        let line = Line::default();
        assert_eq!(line.room(&[b'a'; 4_095], newline), 4_095);
        assert_eq!(line.room(&[b'a'; 4_096], newline), 4_095);
        assert_eq!(line.room(&[&[b'a'; 4_095][..], b"\n"].concat(), newline), 4_096);
        assert_eq!(line.room(&[&[b'a'; 4_096][..], b"\n"].concat(), newline), 4_095);
    }

    #[test]
    fn lines_are_counted_over_several_writes() {
        let mut line = Line::default();
        line.count(&[b'a'; 4_000], newline);
        assert_eq!(line.room(&[b'a'; 200], newline), 95);
        line.count(b"b\ncd", newline);
        assert_eq!(line.room(&[b'a'; 5_000], newline), 4_093);
    }
}
