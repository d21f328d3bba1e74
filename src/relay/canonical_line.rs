//! The longest line of a terminal in canonical mode.
//!
//! The kernel silently cuts a line of more than 4,095 characters (termios(3); tried: the write reports
//! success). So we count the bytes typed since the last end of a line, and hold back bytes that would be lost
//! until the line is read or the mode changes.

use crate::sys::pty::TerminalModes;

/// A canonical line, without what ends it.
const LONGEST: usize = 4_095;

/// Invariant: `typed <= LONGEST`, and no less than the kernel's part of the line: if it is unknown how much a
/// key erases (^W), one byte counts.
#[derive(Default)]
pub(crate) struct CanonicalLine {
    typed: usize,
    // No more than the kernel's part of the line: a key may have erased all of it.
    least: usize,
}

/// The effect of a byte on the line that it is typed in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It is one more of it.
    Adds,
    /// It takes one back, at least.
    Erases,
    /// It ends the line, or empties it.
    Ends,
}

impl CanonicalLine {
    /// How many of these bytes can be typed now without losing one.
    pub(crate) fn room_for(&mut self, bytes: &[u8], modes: &TerminalModes) -> usize {
        if !modes.is_canonical() {
            *self = CanonicalLine::default();
            return bytes.len();
        }
        self.room(bytes, |byte| effect(modes, byte))
    }

    fn room(&self, bytes: &[u8], effect: impl Fn(u8) -> Effect) -> usize {
        let mut typed = self.typed;
        let overflows = |byte: &u8| {
            typed = after(typed, effect(*byte));
            typed > LONGEST
        };
        bytes.iter().position(overflows).unwrap_or(bytes.len())
    }

    /// Notes that these bytes have been typed.
    pub(crate) fn note(&mut self, bytes: &[u8], modes: &TerminalModes) {
        if !modes.is_canonical() {
            *self = CanonicalLine::default();
            return;
        }
        self.count(bytes, |byte| effect(modes, byte));
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.typed > 0
    }

    /// Has the kernel something of the line for sure?
    pub(crate) fn holds_some(&self) -> bool {
        self.least > 0
    }

    fn count(&mut self, bytes: &[u8], effect: impl Fn(u8) -> Effect) {
        self.least = bytes.iter().fold(self.least, |least, byte| match effect(*byte) {
            Effect::Adds => (least + 1).min(LONGEST),
            Effect::Erases | Effect::Ends => 0,
        });
        // The kernel has discarded bytes beyond the longest line.
        self.typed = bytes.iter().fold(self.typed, |typed, byte| after(typed, effect(*byte)).min(LONGEST));
    }
}

fn effect(modes: &TerminalModes, byte: u8) -> Effect {
    if modes.ends_line(byte) || modes.empties_line(byte) {
        Effect::Ends
    } else if modes.erases(byte) {
        Effect::Erases
    } else {
        Effect::Adds
    }
}

fn after(typed: usize, effect: Effect) -> usize {
    match effect {
        Effect::Adds => typed + 1,
        Effect::Erases => typed.saturating_sub(1),
        Effect::Ends => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(byte: u8) -> Effect {
        match byte {
            b'\n' | 0x15 => Effect::Ends,
            0x7f => Effect::Erases,
            _ => Effect::Adds,
        }
    }

    #[test]
    fn a_line_has_room_for_4095_characters_and_its_end() {
        let line = CanonicalLine::default();
        assert_eq!(line.room(&[b'a'; 4_095], effect), 4_095);
        assert_eq!(line.room(&[b'a'; 4_096], effect), 4_095);
        assert_eq!(line.room(&[&[b'a'; 4_095][..], b"\n"].concat(), effect), 4_096);
        assert_eq!(line.room(&[&[b'a'; 4_096][..], b"\n"].concat(), effect), 4_095);
    }

    #[test]
    fn lines_are_counted_over_several_writes() {
        let mut line = CanonicalLine::default();
        line.count(&[b'a'; 4_000], effect);
        assert_eq!(line.room(&[b'a'; 200], effect), 95);
        line.count(b"b\ncdef\x7f\x7f", effect);
        assert_eq!(line.room(&[b'a'; 5_000], effect), 4_093);
    }

    #[test]
    fn a_line_holds_some_unless_all_of_it_may_be_erased() {
        for (typed, holds) in
            [(&b""[..], false), (b"ab", true), (b"ab\n", false), (b"ab\x7f", false), (b"ab\x7fc", true)]
        {
            let mut line = CanonicalLine::default();
            line.count(typed, effect);
            assert_eq!(line.holds_some(), holds, "{typed:?}");
        }
    }
}
