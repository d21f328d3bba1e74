//! The frames of `attach --json`: an object per line, for a program that shows the session's terminal
//! elsewhere.
//!
//! Pure: the log's bytes go in, lines come out. Data consists of whole characters, however the bytes
//! were split on their way; invalid UTF-8 is replaced.

use crate::{json::Object, terminal::text};

/// The most bytes of output in one frame. Small enough for a reader that takes a message at a time,
/// large enough that the frame itself costs nothing.
const LONGEST: usize = 32 * 1024;

pub(crate) struct Frames {
    // The offset of the first byte that is not in a frame yet.
    offset: u64,
    // Invariant: empty, or the beginning of a character; at most three bytes.
    held: Vec<u8>,
    // How many bytes were gone right before `offset`.
    lost: u64,
}

impl Frames {
    /// For the output from `offset` on.
    pub(crate) fn new(offset: u64) -> Frames {
        Frames { offset, held: Vec::new(), lost: 0 }
    }

    /// Appends frames with the bytes that come next.
    pub(crate) fn output(&mut self, bytes: &[u8], lines: &mut String) {
        let bytes = [std::mem::take(&mut self.held).as_slice(), bytes].concat();
        let (whole, begun) = bytes.split_at(bytes.len() - text::cut_off_length(&bytes));
        let mut rest = whole;
        while !rest.is_empty() {
            let most = &rest[..rest.len().min(LONGEST)];
            let cut =
                if most.len() < rest.len() { most.len() - text::cut_off_length(most) } else { most.len() };
            let (data, behind) = rest.split_at(cut);
            self.frame(data, lines);
            rest = behind;
        }
        self.held = begun.to_vec();
    }

    /// The next `count` bytes were dropped.
    pub(crate) fn skip(&mut self, count: u64, lines: &mut String) {
        if count > 0 {
            self.finish(lines);
            self.offset += count;
            self.lost += count;
        }
    }

    /// Nothing will be added to the output so far.
    pub(crate) fn finish(&mut self, lines: &mut String) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.frame(&held, lines);
        }
    }

    fn frame(&mut self, data: &[u8], lines: &mut String) {
        let object = Object::new().text("type", "output").number("offset", self.offset).bytes("data", data);
        *lines += &object.count_if_any("lost", std::mem::take(&mut self.lost)).line();
        self.offset += data.len() as u64;
    }
}

/// The size of a terminal, as all objects have it.
pub(crate) fn size(cols: u16, rows: u16) -> Object {
    Object::new().number("cols", cols).number("rows", rows)
}

/// The terminal's size has changed.
pub(crate) fn resize(cols: u16, rows: u16) -> String {
    Object::new().text("type", "resize").number("cols", cols).number("rows", rows).line()
}

/// The end, for readers that know no exit record.
pub(crate) fn legacy_exit(code: i32) -> String {
    Object::new().text("type", "exit").number("code", code).line()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames_of(pieces: &[&[u8]]) -> String {
        let (mut frames, mut lines) = (Frames::new(7), String::new());
        pieces.iter().for_each(|piece| frames.output(piece, &mut lines));
        frames.finish(&mut lines);
        lines
    }

    #[test]
    fn a_character_is_whole_however_it_was_split() {
        let frame = |offset: u64, data: &str| {
            format!("{{\"type\":\"output\",\"offset\":{offset},\"data\":\"{data}\"}}\n")
        };
        assert_eq!(frames_of(&[b"a\xf0\x9f", b"\x90", b"\xa7b"]), frame(7, "a") + &frame(8, "🐧b"));
        assert_eq!(frames_of(&[b"\xc3", b"\xa9"]), frame(7, "é"));
        assert_eq!(frames_of(&[b""]), "");
    }

    #[test]
    fn invalid_utf_8_is_replaced_and_flagged() {
        assert_eq!(
            frames_of(&[b"\xff", b"\xc3x\xc3"]),
            "{\"type\":\"output\",\"offset\":7,\"data\":\"\u{fffd}\",\"lossy\":true}\n\
             {\"type\":\"output\",\"offset\":8,\"data\":\"\u{fffd}x\",\"lossy\":true}\n\
             {\"type\":\"output\",\"offset\":10,\"data\":\"\u{fffd}\",\"lossy\":true}\n"
        );
    }

    #[test]
    fn a_gap_comes_with_the_output_after_it() {
        let (mut frames, mut lines) = (Frames::new(0), String::new());
        frames.output(b"a\xc3", &mut lines);
        frames.skip(5, &mut lines);
        frames.output(b"b", &mut lines);
        assert_eq!(
            lines,
            "{\"type\":\"output\",\"offset\":0,\"data\":\"a\"}\n\
             {\"type\":\"output\",\"offset\":1,\"data\":\"\u{fffd}\",\"lossy\":true}\n\
             {\"type\":\"output\",\"offset\":7,\"data\":\"b\",\"lost\":5}\n"
        );
    }

    #[test]
    fn much_output_is_several_frames_of_whole_characters() {
        let text = "€".repeat(LONGEST);
        let lines = frames_of(&[text.as_bytes()]);
        assert!(lines.lines().count() >= 3 && !lines.contains("lossy"));
        assert_eq!(lines.matches('€').count(), LONGEST);
    }
}
