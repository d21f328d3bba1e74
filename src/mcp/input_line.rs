//! Splits standard input into messages: one a line.
//!
//! A line that is too long is never kept whole: the lines behind it are read as if it had not been there.

/// The longest message that is read. A model's messages are a thousand times shorter.
pub(crate) const LONGEST: usize = 16 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine {
    Message(Vec<u8>),
    /// There was one longer than [`LONGEST`].
    TooLong,
}

/// Invariant: `line` has no newline, and at most `longest` bytes.
pub(crate) struct Frames {
    line: Vec<u8>,
    longest: usize,
    // The rest of a line that is too long is being skipped.
    passing: bool,
}

impl Frames {
    pub(crate) fn new(longest: usize) -> Frames {
        Frames { line: Vec::new(), longest, passing: false }
    }

    /// Adds received bytes, and returns the messages that they complete.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Vec<InputLine> {
        let mut frames = Vec::new();
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            frames.extend(self.add(&bytes[..end]));
            frames.extend(self.finish());
            bytes = &bytes[end + 1..];
        }
        frames.extend(self.add(bytes));
        frames
    }

    fn add(&mut self, part: &[u8]) -> Option<InputLine> {
        if self.passing {
            return None;
        }
        if self.line.len() + part.len() > self.longest {
            self.line = Vec::new();
            self.passing = true;
            return Some(InputLine::TooLong);
        }
        self.line.extend_from_slice(part);
        None
    }

    /// The line is over, or nothing follows it. An empty one is nothing.
    pub(crate) fn finish(&mut self) -> Option<InputLine> {
        self.passing = false;
        let line = std::mem::take(&mut self.line);
        (!line.trim_ascii().is_empty()).then_some(InputLine::Message(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{pieces, rounds};

    fn message(text: &str) -> InputLine {
        InputLine::Message(text.into())
    }

    #[test]
    fn a_line_is_a_message() {
        let mut frames = Frames::new(8);
        assert_eq!(frames.feed(b"one\n\n \r\ntwo\nthr"), [message("one"), message("two")]);
        assert_eq!(frames.feed(b"ee"), []);
        assert_eq!(frames.finish(), Some(message("three")));
        assert_eq!(frames.finish(), None);
    }

    #[test]
    fn a_line_that_is_too_long_is_reported_once_and_skipped() {
        let mut frames = Frames::new(4);
        assert_eq!(frames.feed(b"1234"), []);
        assert_eq!(frames.feed(b"5"), [InputLine::TooLong]);
        assert_eq!(frames.feed(b"6789"), []);
        assert_eq!(frames.feed(b"\nnext\n"), [message("next")]);
    }

    #[test]
    fn lines_may_come_in_any_pieces() {
        for (seed, mut random) in rounds(200) {
            let bytes: Vec<u8> =
                (0..random.usize(..80)).map(|_| *random.choice(b"ab\n{} ").unwrap()).collect();
            let gather = |parts: &[&[u8]]| {
                let mut frames = Frames::new(5);
                let mut all: Vec<InputLine> = parts.iter().flat_map(|part| frames.feed(part)).collect();
                all.extend(frames.finish());
                all
            };
            let whole = gather(&[&bytes]);
            assert_eq!(gather(&pieces(&bytes, 7, &mut random)), whole, "seed {seed}");
        }
    }
}
