//! Escape sequences, taken out of what programs print.
//!
//! The [`tokenizer`](crate::terminal::tokenizer) finds them. A control inside a sequence acts as
//! if it stood before it. It must not come out until the sequence is complete, or a reader that
//! goes back to the start of the sequence prints it twice.

use crate::terminal::{
    text::Runs,
    tokenizer::{C1_LEAD, ESC, State, Step, control_sequence_length, is_c1, string_length, text_length},
};

/// More controls than this inside one sequence, and it was none: no program writes
/// so, but a stream of NULs after a stray ESC would else be kept in memory whole.
const HELD_LIMIT: usize = 4096;

/// The text of these bytes, without a sequence or character that is cut off at their end.
pub(crate) fn stripped(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    Strip::new().feed(bytes, &mut text);
    text
}

/// Removes escape sequences from a stream of bytes.
///
/// The output is exactly the text of all bytes but the last `unfinished` ones. So a reader may
/// stop there and go on with a new `Strip`: nothing is lost, and nothing comes twice.
#[derive(Clone, Default)]
pub(crate) struct Strip {
    state: State,
    fed: u64,
    /// The offset in the stream at which the unfinished sequence or character begins; stale if
    /// there is none.
    began: u64,
    // Invariant: of a character the bytes so far, of a sequence the controls in it. Never
    // longer than HELD_LIMIT.
    held: Vec<u8>,
}

impl Strip {
    pub(crate) fn new() -> Strip {
        Strip::default()
    }

    /// Appends to `out` what is text in the stream so far, and was not appended before.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            let used = match self.state {
                State::Ground if self.held.is_empty() => self.text(rest, out),
                State::Ground => self.character(byte, out),
                State::String(_) => match string_length(rest) {
                    0 => self.sequence(byte, out),
                    length => length,
                },
                _ => self.sequence(byte, out),
            };
            self.fed += used as u64;
            rest = &rest[used..];
        }
    }

    /// How many bytes at the end of the stream so far belong to a sequence or
    /// character that is not complete.
    pub(crate) fn unfinished(&self) -> u64 {
        match self.state {
            State::Ground if self.held.is_empty() => 0,
            _ => self.fed - self.began,
        }
    }

    /// The stream has ended: a cut-off character comes out as it is, and of a cut-off
    /// sequence only the controls in it.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        self.ground(out);
    }

    /// Copies text up to what needs a closer look, and takes the first byte of that.
    ///
    /// Whole CSI sequences are passed over at once: most sequences are that, and one
    /// byte at a time takes three times as long.
    fn text(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let mut runs = Runs::new(out);
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if let Some(length) = control_sequence_length(rest) {
                at += length;
                continue;
            }
            let length = whole_text_length(rest);
            if length == 0 {
                self.began = self.fed + at as u64;
                match rest[0] {
                    ESC => self.state = State::Escape,
                    lead => self.held.push(lead),
                }
                return at + 1;
            }
            runs.push(rest, length);
            at += length;
        }
        at
    }

    fn character(&mut self, byte: u8, out: &mut Vec<u8>) -> usize {
        if self.held == [C1_LEAD] && is_c1(byte) {
            self.held.clear();
            self.state.c1(byte);
            return 1;
        }
        self.held.push(byte);
        match std::str::from_utf8(&self.held) {
            Ok(_) => self.ground(out),
            Err(error) if error.error_len().is_none() => {}
            Err(_) => {
                self.held.pop();
                self.ground(out);
                return 0;
            }
        }
        1
    }

    /// Takes one byte of a sequence; 0 if it is to be looked at again, in the next state.
    fn sequence(&mut self, byte: u8, out: &mut Vec<u8>) -> usize {
        match self.state.take(byte) {
            Step::Part => {}
            Step::Control(_) => self.control(byte, out),
            Step::Again => {
                self.ground(out);
                return 0;
            }
            Step::Begin => {
                out.append(&mut self.held);
                self.began = self.fed;
            }
            Step::C1(_) => {
                out.append(&mut self.held);
                self.began = self.fed - 1;
                self.state.c1(byte);
            }
            _ => self.ground(out),
        }
        1
    }

    fn control(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.held.push(byte);
        if self.held.len() == HELD_LIMIT {
            self.ground(out);
        }
    }

    fn ground(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
        self.state = State::Ground;
    }
}

/// How much text there is before the next ESC, C1 control or cut-off character.
///
/// Only the end is looked at for a cut-off character; what is invalid before it is
/// text like any other, so nothing in the middle needs decoding.
fn whole_text_length(bytes: &[u8]) -> usize {
    match text_length(bytes) {
        all if all == bytes.len() => all - cut_off_length(bytes),
        some => some,
    }
}

/// The length of the character at the end whose last bytes are missing, or 0.
pub(crate) fn cut_off_length(bytes: &[u8]) -> usize {
    let is_lead = |byte: &u8| !matches!(byte, 0x80..=0xbf);
    let lead = bytes.iter().rev().take(3).position(is_lead);
    let length = lead.map_or(0, |continuations| continuations + 1);
    match std::str::from_utf8(&bytes[bytes.len() - length..]) {
        Err(error) if error.error_len().is_none() => length,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rounds::{pieces, rounds},
        terminal::text::tests::{Bytes, noise, shown},
    };

    #[test]
    fn escape_sequences_go_and_the_text_around_them_stays() {
        for (printed, text) in STRIPPED {
            assert_eq!(shown(&strip(printed)), shown(text), "{}", shown(printed));
        }
    }

    #[test]
    fn splitting_the_stream_changes_nothing() {
        for (printed, text) in STRIPPED {
            for first in 0..=printed.len() {
                for second in first..=printed.len() {
                    let pieces = [&printed[..first], &printed[first..second], &printed[second..]];
                    assert_eq!(shown(&strip_pieces(&pieces)), shown(text), "{pieces:?}");
                }
            }
        }
    }

    #[test]
    fn an_incomplete_sequence_is_held_back_and_counted() {
        let cases: &[(Bytes, Bytes, u64)] = &[
            (b"", b"", 0),
            (b"text", b"text", 0),
            (b"text\x1b", b"text", 1),
            (b"text\x1b[1;31", b"text", 6),
            (b"text\x1b[1;31m", b"text", 0),
            (b"text\x1b(", b"text", 2),
            (b"text\x1b]0;title", b"text", 9),
            (b"text\x1b]0;title\x07", b"text", 0),
            // An ESC has ended the string already, whatever it is going to begin.
            (b"text\x1b]0;title\x1b", b"text", 1),
            (b"text\x1b]0;title\xc2", b"text", 10),
            (b"text\x1b]0;title\xc2\x9b", b"text", 2),
            (b"text\x1b[1\x1b[3", b"text", 3),
            // The control comes out when the sequence does, or it would come out twice.
            (b"text\x1b[1\n", b"text", 4),
            (b"text\x1b[1\nm", b"text\n", 0),
            (b"text\x1b[1\n\x1b", b"text\n", 1),
            ("café".as_bytes(), "café".as_bytes(), 0),
            (b"caf\xc3", b"caf", 1),
            (b"\xe6\xbc", b"", 2),
            (b"\xf0\x9f\x98", b"", 3),
            (b"\xc2", b"", 1),
            (b"\xc2\x9b", b"", 2),
            (b"\xc2\x9b3", b"", 3),
            // These begin no character, whatever follows.
            (b"\xff", b"\xff", 0),
            (b"\xc0", b"\xc0", 0),
            (b"\xed\xa0", b"\xed\xa0", 0),
            (b"\x9b", b"\x9b", 0),
        ];
        for (printed, text, unfinished) in cases {
            let (mut strip, mut out) = (Strip::new(), Vec::new());
            strip.feed(printed, &mut out);
            let got = (shown(&out), strip.unfinished());
            assert_eq!(got, (shown(text), *unfinished), "{}", shown(printed));
        }
    }

    #[test]
    fn at_the_end_of_the_stream_a_cut_off_character_comes_out_and_a_sequence_does_not() {
        let cases: &[(Bytes, Bytes)] = &[
            (b"caf\xc3", b"caf\xc3"),
            (b"\xf0\x9f\x98", b"\xf0\x9f\x98"),
            (b"\xc2", b"\xc2"),
            (b"text\x1b", b"text"),
            (b"text\x1b[3", b"text"),
            (b"text\x1b]0;title", b"text"),
            (b"text\x1b]0;title\xc2", b"text"),
            (b"text\x1b[3\n", b"text\n"),
        ];
        for (printed, text) in cases {
            assert_eq!(shown(&strip(printed)), shown(text), "{}", shown(printed));
        }
    }

    #[test]
    fn any_stream_in_any_pieces_comes_out_as_the_naive_parser_reads_it() {
        for (seed, mut random) in rounds(200) {
            let printed = noise(&mut random);
            let (mut strip, mut out, mut fed) = (Strip::new(), Vec::new(), 0);
            for piece in pieces(&printed, 12, &mut random) {
                strip.feed(piece, &mut out);
                fed += piece.len();
                let (text, unfinished) = naive::strip(&printed[..fed]);
                let case = format!("seed {seed}: {}", shown(&printed[..fed]));
                assert_eq!(shown(&out), shown(&text), "{case}");
                assert_eq!(strip.unfinished(), unfinished, "{case}");
            }
        }
    }

    #[test]
    fn a_reader_that_goes_back_to_what_was_unfinished_loses_nothing_and_repeats_nothing() {
        for (seed, mut random) in rounds(200) {
            let printed = noise(&mut random);
            let cut = random.usize(..=printed.len());
            let (mut first, mut out) = (Strip::new(), Vec::new());
            first.feed(&printed[..cut], &mut out);

            let cursor = cut - usize::try_from(first.unfinished()).unwrap();
            out.extend(strip(&printed[cursor..]));
            assert_eq!(shown(&out), shown(&strip(&printed)), "seed {seed}");
        }
    }

    #[test]
    fn a_sequence_that_is_all_controls_is_not_kept_in_memory() {
        let (mut strip, mut out) = (Strip::new(), Vec::new());
        strip.feed(b"\x1b[", &mut out);
        for _ in 0..100 {
            strip.feed(&[0; 1000], &mut out);
            assert!(strip.held.len() < HELD_LIMIT);
        }
        assert_eq!((out.len(), strip.unfinished()), (100_000, 0));
    }

    const STRIPPED: &[(Bytes, Bytes)] = &[
        (b"", b""),
        (b"plain text\r\n", b"plain text\r\n"),
        (
            b"\0\x05\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x18\x1a\x1f\x7f",
            b"\0\x05\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x18\x1a\x1f\x7f",
        ),
        // CSI.
        (b"\x1b[31mred\x1b[0m", b"red"),
        (b"a\x1b[?25lb\x1b[>4;2mc\x1b[4:3md\x1b[2 qe\x1b[!pf", b"abcdef"),
        (b"a\x1b[@b\x1b[~c\x1b[`d", b"abcd"),
        (b"a\x1b[3\n1mb", b"a\nb"),
        (b"a\x1b[3\x071\x7fmb", b"a\x07b"),
        (b"a\x1b[3\x18mb", b"amb"),
        (b"a\x1b[3\x1amb", b"amb"),
        (b"a\x1b[3\n\x18mb", b"a\nmb"),
        (b"a\x1b[3\x1b[1mb", b"ab"),
        (b"a\x1b[3\xc3\xa9b", b"a\xc3\xa9b"),
        (b"a\x1b[3\xffb", b"a\xffb"),
        // ESC and what may follow it.
        (b"a\x1b(Bb\x1b#8c\x1b%Gd\x1b Fe\x1b$(Cf", b"abcdef"),
        (b"a\x1b7b\x1b=c\x1bMd\x1bce\x1b~f", b"abcdef"),
        (b"a\x1b\x1b[mb", b"ab"),
        (b"a\x1b\n[mb", b"a\nb"),
        (b"a\x1b(\nBb", b"a\nb"),
        (b"a\x1b\x18[mb", b"a[mb"),
        (b"a\x1b(\x1aBb", b"aBb"),
        (b"a\x1b\xc3\xa9b", b"a\xc3\xa9b"),
        (b"a\x1b(\xffb", b"a\xffb"),
        (b"a\x1b\\b", b"ab"),
        // OSC.
        (b"a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c", b"abc"),
        (b"a\x1b]133;D;0\x07\x1b]7;file://h/\xc3\xa9\x07b", b"ab"),
        (b"a\x1b]0;t\x18b\x1b]0;t\x1ac", b"abc"),
        (b"a\x1b]0;t\n\r\tt\x07b", b"ab"),
        (b"a\x1b]0;t\x1b[31mb", b"ab"),
        (b"a\x1b]0;t\x1b]0;u\x07b", b"ab"),
        (b"a\x1b]0;t\xc2\x9cb", b"ab"),
        (b"a\x1b]0;t\xc2\xc2\x9cb", b"ab"),
        (b"a\x1b]0;t\xc2\x07b", b"ab"),
        (b"a\x1b]0;t\xc2\xa0\x9c\x07b", b"ab"),
        // DCS, SOS, PM, APC.
        (b"a\x1bP1$r0m\x1b\\b\x1bXs\x1b\\c\x1b^p\x1b\\d\x1b_Gq\x1b\\e", b"abcde"),
        (b"a\x1bPq\x07\n\x1b\\b\x1b_x\x07y\x1b\\c", b"abc"),
        (b"a\x1bPq\x18b\x1b_q\x1ac", b"abc"),
        // C1 controls, in UTF-8 only.
        (b"a\xc2\x9b31mb\xc2\x9d0;t\x07c\xc2\x90q\xc2\x9cd", b"abcd"),
        (b"a\xc2\x98s\xc2\x9cb\xc2\x9es\xc2\x9cc\xc2\x9fs\xc2\x9cd", b"abcd"),
        (b"a\xc2\x80b\xc2\x85c\xc2\x99d\xc2\x9ce", b"abcde"),
        (b"a\x1b[3\xc2\x9b1mb", b"ab"),
        (b"a\x1b]0;t\xc2\x9b1mb", b"ab"),
        (b"a\xc2\xa0b\xc2\xbfc", b"a\xc2\xa0b\xc2\xbfc"),
        (b"a\x9b31mb\x9d\x90\x9cc", b"a\x9b31mb\x9d\x90\x9cc"),
        // Characters, and bytes which are none.
        ("Größe 漢字 😀\u{10ffff}".as_bytes(), "Größe 漢字 😀\u{10ffff}".as_bytes()),
        (b"\xe6\x9b\xb8", b"\xe6\x9b\xb8"),
        (b"\xc2a\xc2\xc3\xc2", b"\xc2a\xc2\xc3\xc2"),
        (b"\xe6\xbc\xc2\x9bm\xa2", b"\xe6\xbc\xa2"),
        (b"\xe6\xbc\x1b[m\xa2", b"\xe6\xbc\xa2"),
        (b"\xf0\x9fa\xc0\x80\xed\xa0\x80\xf5\xff", b"\xf0\x9fa\xc0\x80\xed\xa0\x80\xf5\xff"),
    ];

    fn strip(printed: &[u8]) -> Vec<u8> {
        strip_pieces(&[printed])
    }

    fn strip_pieces(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut strip, mut out) = (Strip::new(), Vec::new());
        for piece in pieces {
            strip.feed(piece, &mut out);
        }
        strip.finish(&mut out);
        out
    }

    /// The same grammar without states: the whole stream is there, is decoded first,
    /// and read from left to right.
    mod naive {
        /// A character and its bytes; or bytes which are none.
        type Unit<'a> = (Option<char>, &'a [u8]);

        /// The text of a stream, and how many bytes at its end are unfinished.
        pub(super) fn strip(stream: &[u8]) -> (Vec<u8>, u64) {
            let units = decoded(stream);
            let (mut text, mut at) = (Vec::new(), 0);
            while at < units.len() {
                let (end, kept) = match units[at] {
                    (Some(first @ ('\x1b' | '\u{80}'..='\u{9f}')), _) => sequence(&units, at, first),
                    (None, bytes) if at + 1 == units.len() && is_cut_off(bytes) => (None, Vec::new()),
                    (_, bytes) => (Some(at + 1), bytes.to_vec()),
                };
                let Some(end) = end else {
                    let unfinished = units[at..].iter().map(|unit| unit.1.len() as u64);
                    return (text, unfinished.sum());
                };
                text.extend(kept);
                at = end;
            }
            (text, 0)
        }

        fn decoded(stream: &[u8]) -> Vec<Unit<'_>> {
            let mut units = Vec::new();
            for chunk in stream.utf8_chunks() {
                let mut valid = chunk.valid();
                while let Some(character) = valid.chars().next() {
                    let (bytes, after) = valid.split_at(character.len_utf8());
                    units.push((Some(character), bytes.as_bytes()));
                    valid = after;
                }
                if !chunk.invalid().is_empty() {
                    units.push((None, chunk.invalid()));
                }
            }
            units
        }

        fn is_cut_off(bytes: &[u8]) -> bool {
            std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
        }

        /// The end of the sequence that begins at `at`, and the controls in it.
        fn sequence(units: &[Unit<'_>], at: usize, first: char) -> (Option<usize>, Vec<u8>) {
            let mut controls = Vec::new();
            let (mut letter, mut at) = (char::from((first as u8).wrapping_sub(0x40)), at + 1);
            if first == '\x1b' {
                at = pass(units, at, |_| false, &mut controls);
                match units.get(at) {
                    Some((Some(character), _)) => letter = *character,
                    _ => return (end(units, at), controls),
                }
                if letter == '\x1b' || letter >= '\u{80}' {
                    return (Some(at), controls);
                }
                at += 1;
            }
            let mut end_after = |is_part| end(units, pass(units, at, is_part, &mut controls));
            let end = match letter {
                '[' => end_after(|unit| matches!(unit, ' '..='?')),
                ' '..='/' => end_after(|unit| matches!(unit, ' '..='/')),
                ']' => end_of_string(units, at, &['\x07', '\x18', '\x1a']),
                'P' | 'X' | '^' | '_' => end_of_string(units, at, &['\x18', '\x1a']),
                _ => Some(at),
            };
            (end, controls)
        }

        fn pass(
            units: &[Unit<'_>],
            mut at: usize,
            is_part: fn(char) -> bool,
            controls: &mut Vec<u8>,
        ) -> usize {
            while let Some((Some(character), _)) = units.get(at) {
                match *character {
                    '\x18' | '\x1a' | '\x1b' => break,
                    '\0'..='\x1f' => controls.push(*character as u8),
                    '\x7f' => {}
                    other if is_part(other) => {}
                    _ => break,
                }
                at += 1;
            }
            at
        }

        /// The unit that ends a sequence is a part of it, unless it begins another one.
        fn end(units: &[Unit<'_>], at: usize) -> Option<usize> {
            match units.get(at)?.0 {
                Some('\0'..='\x1a' | '\x1c'..='\x7f') => Some(at + 1),
                _ => Some(at),
            }
        }

        fn end_of_string(units: &[Unit<'_>], at: usize, ends: &[char]) -> Option<usize> {
            let is_end =
                |character| ends.contains(&character) || matches!(character, '\x1b' | '\u{80}'..='\u{9f}');
            let length = units[at..].iter().position(|(character, _)| character.is_some_and(is_end))?;
            end(units, at + length)
        }
    }
}
