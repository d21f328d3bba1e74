//! completion.log: a line `<seq> <exit_code>` for each ended command.
//!
//! The relay appends a line only when every byte that the command printed is in output.log, so a
//! reader of the line can read them all. Lines are whole and in order: a last line without its end is
//! still being written.

/// A command that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) seq: u64,
    pub(crate) code: i32,
}

/// The line that the relay writes.
pub(crate) fn completion_line(completion: Completion) -> String {
    format!("{} {}\n", completion.seq, completion.code)
}

impl Completion {
    fn parse(line: &[u8]) -> Option<Completion> {
        let (seq, code) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        Some(Completion { seq: seq.parse().ok()?, code: code.parse().ok()? })
    }

    /// The number of the last whole line of `content`, if there is one. An error is the first line
    /// that is invalid, or whose number does not ascend.
    pub(crate) fn last_of(content: &[u8]) -> Result<Option<u64>, &[u8]> {
        let mut last = None;
        for line in content.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = line.strip_suffix(b"\n") else { break };
            match Completion::parse(line) {
                Some(next) if last.is_none_or(|last| last < next.seq) => last = Some(next.seq),
                _ => return Err(line),
            }
        }
        Ok(last)
    }

    /// The first at or after `cursor` in the whole lines of `content`.
    pub(crate) fn first_from(cursor: u64, content: &[u8]) -> Option<Completion> {
        content
            .split_inclusive(|byte| *byte == b'\n')
            .filter_map(|line| Completion::parse(line.strip_suffix(b"\n")?))
            .find(|completion| completion.seq >= cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{rounds, spoiled};

    #[test]
    fn the_first_from_the_cursor_on_is_found() {
        let content = b"0 0\n1 2\n2 130\n3 -1\n4 0";
        let from = |cursor| Completion::first_from(cursor, content).map(|found| (found.seq, found.code));
        assert_eq!(from(0), Some((0, 0)));
        assert_eq!(from(2), Some((2, 130)));
        assert_eq!(from(3), Some((3, -1)));
        assert_eq!(from(4), None, "its line is not whole yet");
    }

    #[test]
    fn the_last_is_told_only_where_all_are_in_order() {
        assert_eq!(Completion::last_of(b""), Ok(None));
        assert_eq!(Completion::last_of(b"0 0\n2 -1\n7 "), Ok(Some(2)));
        assert_eq!(Completion::last_of(b"0 0\n2 1\n2 1\n"), Err(&b"2 1"[..]));
        assert_eq!(Completion::last_of(b"0 0\nx\n2 1\n"), Err(&b"x"[..]));
    }

    #[test]
    fn a_line_of_rubbish_is_passed_over() {
        assert_eq!(Completion::first_from(0, b"x y\n\n9\n1 1\n"), Some(Completion { seq: 1, code: 1 }));
    }

    #[test]
    fn written_records_can_be_read() {
        let completion = Completion { seq: 12, code: 137 };
        assert_eq!(Completion::first_from(0, completion_line(completion).as_bytes()), Some(completion));
    }

    #[test]
    fn no_rubbish_hides_the_lines_before_and_after_it() {
        for (seed, mut random) in rounds(500) {
            let rubbish: Vec<u8> = spoiled(b"3 0\n4 1\n", &mut random);
            let content = [b"1 7\n", &rubbish[..], b"\n9 8\n"].concat();
            assert_eq!(Completion::first_from(1, &content).map(|found| found.code), Some(7), "seed {seed}");
            let last = Completion::first_from(9, &content).map(|found| found.seq >= 9);
            assert_eq!(last, Some(true), "seed {seed}");
        }
    }
}
