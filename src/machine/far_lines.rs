//! The lines of a running call on another machine, and the reason for its end.

/// Longer than any valid line.
const LONGEST_LINE: usize = 4 << 20;

/// How much is kept of what is said on standard error: it ends with why something failed.
const MOST_WORDS: usize = 4096;

#[derive(Default)]
pub(crate) struct FarLines {
    // The incomplete line, and the messages for a person.
    line: Vec<u8>,
    words: Vec<u8>,
}

impl FarLines {
    /// Takes bytes of standard output; returns the lines that are complete, each with its newline. A
    /// line that is too long is truncated, and so invalid.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            match piece.ends_with(b"\n") {
                true => lines.push(std::mem::take(&mut self.line)),
                false => self.line.truncate(LONGEST_LINE),
            }
        }
        lines
    }

    /// Takes what has come on standard error.
    pub(crate) fn take_words(&mut self, bytes: &[u8]) {
        keep_last(&mut self.words, bytes);
    }

    /// Why it ended, as `read` finds it in what was said last.
    pub(crate) fn why(&self, read: impl Fn(&[u8]) -> Option<String>) -> String {
        read(&self.words).unwrap_or_else(|| "its updates have stopped".into())
    }
}

/// Adds what is said on standard error to what was said before; of both, the last is kept.
pub(crate) fn keep_last(words: &mut Vec<u8>, more: &[u8]) {
    words.extend_from_slice(more);
    words.drain(..words.len().saturating_sub(MOST_WORDS));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_and_what_is_none_takes_no_more_room_than_one() {
        let mut lines = FarLines::default();
        assert_eq!(lines.take(b"a\n\nb"), [&b"a\n"[..], b"\n"]);
        assert_eq!(lines.take(b"c\n"), [b"bc\n"]);
        for _ in 0..5 {
            assert!(lines.take(&[b'x'; 1 << 20]).is_empty() && lines.line.len() <= LONGEST_LINE);
        }
        assert_eq!(lines.take(b"\nd\n")[1], b"d\n");
    }

    #[test]
    fn the_last_words_tell_why() {
        let read = |words: &[u8]| String::from_utf8(words.to_vec()).ok().filter(|words| !words.is_empty());
        let mut lines = FarLines::default();
        assert_eq!(lines.why(read), "its updates have stopped");
        lines.take_words(&[b'x'; MOST_WORDS]);
        lines.take_words(b"it burns");
        let why = lines.why(read);
        assert!(why.len() == MOST_WORDS && why.ends_with("xit burns"), "{why}");
    }
}
