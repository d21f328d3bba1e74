//! Text as other programs print it: escape sequences taken out, bytes found, lines shown.
//!
//! Everything here is pure: bytes in, bytes out. [`Strip`] and [`Finder`] take a
//! stream in pieces, and where the pieces are cut never changes what comes out.
//! Nothing is an error: what is no UTF-8, or no known sequence, is somebody's output.
//!
//! The grammar is that of ECMA-48 as Paul Williams' parser for the VT500 reads it
//! (vt100.net/emu/dec_ansi_parser), with BEL as an end of OSC (xterm's ctlseqs).
//!
//! What surprised us:
//!
//! - A control inside a sequence acts as if it stood before it. It may not come out
//!   until the sequence is complete, or a reader that goes back to the start of the
//!   sequence prints it twice.
//! - Terminals disagree on C1 controls in UTF-8. They act on the decoded character
//!   (U+009B is CSI; the byte 9B is the middle of many letters) in VTE, in GNU screen
//!   and in the emulator behind `nbs ts screen`, but not in xterm (ctlseqs). We act on
//!   them, so that what we let through is text to every terminal.

use std::collections::VecDeque;

use memchr::{memchr2_iter, memmem};

const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;

/// The first byte of U+0080..U+00BF in UTF-8, and so of every C1 control.
const C1_LEAD: u8 = 0xc2;

/// More controls than this inside one sequence, and it was none: no program writes
/// so, but a stream of NULs after a stray ESC would else be kept in memory whole.
const HELD_LIMIT: usize = 4096;

/// Removes escape sequences from a stream of bytes.
///
/// What has come out is exactly the text of all bytes but the last `unfinished` ones.
/// So a reader may stop there and go on with a new `Strip`, and nothing is lost or
/// comes twice.
#[derive(Clone, Default)]
pub(crate) struct Strip {
    state: StripState,
    fed: u64,
    /// Where in the stream the unfinished sequence or character begins; stale in the
    /// ground state.
    began: u64,
    // Invariant: empty in the ground state; of a character the bytes so far, of a
    // sequence the controls in it. Never longer than HELD_LIMIT.
    held: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
enum StripState {
    #[default]
    Ground,
    /// Some bytes of a UTF-8 character were fed, but not its last.
    Character,
    /// ESC.
    Escape,
    /// ESC and intermediate bytes: `ESC ( B`, `ESC # 8`.
    Intermediate,
    /// CSI and its parameters: all that stands before the final byte.
    ControlSequence,
    ControlString(Introducer),
    /// A control string whose last byte was the first of a C1 control, perhaps of ST.
    ControlStringLead(Introducer),
}

/// What a control string began with: only OSC may end with BEL.
#[derive(Clone, Copy)]
enum Introducer {
    Osc,
    Other,
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
                StripState::Ground => self.text(rest, out),
                StripState::Character => self.character(byte, out),
                StripState::ControlString(_) => self.control_string(rest, out),
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
            StripState::Ground => 0,
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
    /// byte at a time takes three times as long. Between them are mostly a few words,
    /// which musl's memcpy(3) takes longer to begin with than to copy. Pieces of one
    /// size need no call of it; what is too much in the last one is overwritten.
    fn text(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        const PIECE: usize = 32;
        const ROOM: usize = 32 * PIECE;
        let (mut at, mut end) = (0, out.len());
        out.resize(end + ROOM.min(bytes.len()), 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            if let Some(length) = control_sequence_length(rest) {
                at += length;
                continue;
            }
            let length = text_length(rest);
            if length == 0 {
                self.began = self.fed + at as u64;
                if rest[0] == ESC {
                    self.state = StripState::Escape;
                } else {
                    self.held.push(rest[0]);
                    self.state = StripState::Character;
                }
                at += 1;
                break;
            }
            at += length;
            let (places, pieces) = (out[end..].as_chunks_mut::<PIECE>().0, rest.as_chunks::<PIECE>().0);
            if length > PIECE * places.len().min(pieces.len()) {
                out.truncate(end);
                out.extend_from_slice(&rest[..length]);
                return at;
            }
            for (place, piece) in places.iter_mut().zip(&pieces[..length.div_ceil(PIECE)]) {
                *place = *piece;
            }
            end += length;
        }
        out.truncate(end);
        at
    }

    fn character(&mut self, byte: u8, out: &mut Vec<u8>) -> usize {
        if self.held == [C1_LEAD] && is_c1(byte) {
            self.held.clear();
            return self.c1(byte, out);
        }
        self.held.push(byte);
        match std::str::from_utf8(&self.held) {
            Ok(_) => self.ground(out),
            Err(error) if error.error_len().is_none() => {}
            Err(_) => {
                self.held.pop();
                return self.ground_again(out);
            }
        }
        1
    }

    /// Passes over what cannot end the string: pictures are megabytes of that.
    fn control_string(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let may_end = |&byte: &u8| matches!(byte, BEL | CAN | SUB | ESC | C1_LEAD);
        match bytes.iter().position(may_end) {
            Some(0) => self.sequence(bytes[0], out),
            Some(length) => length,
            None => bytes.len(),
        }
    }

    /// Takes one byte of a sequence; 0 if it is to be looked at again, in the next state.
    fn sequence(&mut self, byte: u8, out: &mut Vec<u8>) -> usize {
        use StripState::*;
        match (self.state, byte) {
            (_, CAN | SUB) => self.ground(out),
            (_, ESC) => {
                self.ground(out);
                self.began = self.fed;
                self.state = Escape;
            }

            (ControlString(Introducer::Osc), BEL) => self.ground(out),
            (ControlString(introducer), C1_LEAD) => self.state = ControlStringLead(introducer),
            (ControlString(_), _) => {}
            (ControlStringLead(_), 0x80..=0x9f) => {
                self.ground(out);
                self.began = self.fed - 1;
                return self.c1(byte, out);
            }
            (ControlStringLead(introducer), _) => {
                self.state = ControlString(introducer);
                return 0;
            }

            (_, 0x00..=0x1f) => self.control(byte, out),
            (_, 0x7f) => {}
            (_, 0x80..) => return self.ground_again(out),

            (Escape, b'[') => self.state = ControlSequence,
            (Escape, b']') => self.state = ControlString(Introducer::Osc),
            // DCS, SOS, PM, APC.
            (Escape, b'P' | b'X' | b'^' | b'_') => self.state = ControlString(Introducer::Other),
            (Escape | Intermediate, 0x20..=0x2f) => self.state = Intermediate,
            (ControlSequence, 0x20..=0x3f) => {}
            // The final byte; that of `ESC \`, which is ST, too.
            _ => self.ground(out),
        }
        1
    }

    /// A C1 control is short for ESC and the byte 0x40 below it (ECMA-48, 5.3).
    fn c1(&mut self, byte: u8, out: &mut Vec<u8>) -> usize {
        self.state = StripState::Escape;
        self.sequence(byte - 0x40, out)
    }

    fn control(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.held.push(byte);
        if self.held.len() == HELD_LIMIT {
            self.ground(out);
        }
    }

    fn ground(&mut self, out: &mut Vec<u8>) {
        if !self.held.is_empty() {
            out.append(&mut self.held);
        }
        self.state = StripState::Ground;
    }

    fn ground_again(&mut self, out: &mut Vec<u8>) -> usize {
        self.ground(out);
        0
    }
}

/// The same as [`Strip::feed`], but for sequences that choose colours and the like
/// (SGR), which come out as they are if they are whole.
pub(crate) fn strip_but_colours(strip: &mut Strip, bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = memmem::find(rest, b"\x1b[") {
        strip.feed(&rest[..at], out);
        let length = control_sequence_length(&rest[at..]);
        match length {
            Some(length) if is_sgr(&rest[at..at + length]) && strip.unfinished() == 0 => {
                out.extend_from_slice(&rest[at..at + length]);
                rest = &rest[at + length..];
            }
            _ => {
                strip.feed(b"\x1b[", out);
                rest = &rest[at + 2..];
            }
        }
    }
    strip.feed(rest, out);
}

/// Not so xterm's own that end alike, as for its keys (`CSI > 4 ; 2 m`).
fn is_sgr(sequence: &[u8]) -> bool {
    let [ESC, b'[', parameters @ .., b'm'] = sequence else { return false };
    parameters.iter().all(|byte| matches!(byte, b'0'..=b';'))
}

/// How much text there is before the next ESC, C1 control or cut-off character.
///
/// Only the end is looked at for a cut-off character; what is invalid before it is
/// text like any other, so nothing in the middle needs decoding.
fn text_length(bytes: &[u8]) -> usize {
    memchr2_iter(ESC, C1_LEAD, bytes)
        .find(|&at| bytes[at] == ESC || bytes.get(at + 1).is_some_and(|&next| is_c1(next)))
        .unwrap_or_else(|| bytes.len() - cut_off_length(bytes))
}

/// The length of the CSI sequence that stands here whole and without controls in it.
fn control_sequence_length(bytes: &[u8]) -> Option<usize> {
    let [ESC, b'[', parameters @ ..] = bytes else { return None };
    let length = parameters.iter().position(|byte| !matches!(byte, 0x20..=0x3f))?;
    matches!(parameters[length], 0x40..=0x7e).then_some(length + 3)
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

fn is_c1(byte: u8) -> bool {
    matches!(byte, 0x80..=0x9f)
}

/// Finds the first place where a pattern occurs in a stream of bytes.
pub(crate) struct Finder {
    finder: memmem::Finder<'static>,
    /// Where in the stream the next bytes belong.
    offset: u64,
    // Invariant: the last bytes of the stream, one fewer than the pattern has at most,
    // so no match lies in it whole.
    tail: Vec<u8>,
}

impl Finder {
    /// The first byte that will be fed stands at `start_offset`.
    pub(crate) fn new(pattern: &[u8], start_offset: u64) -> Finder {
        Finder { finder: memmem::Finder::new(pattern).into_owned(), offset: start_offset, tail: Vec::new() }
    }

    /// The offset at which the first match starts, as soon as its last byte was fed;
    /// feed no more after that. An empty pattern matches at the first byte.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<u64> {
        if bytes.is_empty() {
            return None;
        }
        let found = self.find_across_seam(bytes).or_else(|| self.find_within(bytes));
        self.offset += bytes.len() as u64;
        found
    }

    /// The next so many bytes are not there: no match lies across them.
    pub(crate) fn skip(&mut self, count: u64) {
        if count > 0 {
            self.offset += count;
            self.tail.clear();
        }
    }

    /// A match that starts in the tail. It comes before any that starts in `bytes`.
    fn find_across_seam(&mut self, bytes: &[u8]) -> Option<u64> {
        let start = self.offset - self.tail.len() as u64;
        let keep = self.finder.needle().len().saturating_sub(1);
        let (joined, rest) = bytes.split_at(keep.min(bytes.len()));
        self.tail.extend_from_slice(joined);
        let found = self.finder.find(&self.tail);

        self.tail.extend_from_slice(&rest[rest.len().saturating_sub(keep)..]);
        self.tail.drain(..self.tail.len().saturating_sub(keep));
        found.map(|at| start + at as u64)
    }

    fn find_within(&self, bytes: &[u8]) -> Option<u64> {
        self.finder.find(bytes).map(|at| self.offset + at as u64)
    }
}

/// Other people's bytes on one line, so that no terminal acts on any of them.
///
/// For reading, not for parsing back: a backslash stays as it is.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut line = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            push_escaped(character, &mut line);
        }
        for byte in chunk.invalid() {
            line += &format!("\\x{byte:02x}");
        }
    }
    line
}

fn push_escaped(character: char, line: &mut String) {
    match character {
        '\n' => *line += "\\n",
        '\r' => *line += "\\r",
        '\t' => *line += "\\t",
        '\x1b' => *line += "\\e",
        '\0'..='\x1f' | '\x7f' => *line += &format!("\\x{:02x}", u32::from(character)),
        // C1 controls, line and paragraph separators, and what turns the direction of
        // writing (it can make a line read as what it is not).
        '\u{80}'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            line.extend(character.escape_unicode());
        }
        _ => line.push(character),
    }
}

/// The last `count` lines with anything visible in them, oldest first.
///
/// They are as they were printed, escape sequences and all, but without `\n` and the
/// `\r`s before it. A last line without `\n` counts and is taken as it is.
pub(crate) fn last_visible_lines(tail: &[u8], count: usize) -> Vec<Vec<u8>> {
    let mut last = VecDeque::new();
    for line in visible_lines(tail) {
        last.push_back(line.printed);
        if last.len() > count {
            last.pop_front();
        }
    }
    last.into_iter().map(|printed| without_line_end(printed).to_vec()).collect()
}

/// The last visible line as a person would read it, for a message of one line.
///
/// Where a progress bar overwrote itself with `\r`, only what it wrote last.
pub(crate) fn last_line_shown(tail: &[u8]) -> Option<String> {
    let text = visible_lines(tail).last()?.text;
    let part = text.rsplit(|&byte| byte == b'\r').find(|part| is_visible(part))?;
    Some(shortened(escaped(part.trim_ascii()).trim()))
}

struct VisibleLine<'a> {
    printed: &'a [u8],
    /// What is left of it without escape sequences.
    text: Vec<u8>,
}

/// One `Strip` reads all lines, because a sequence may go on beyond the end of a line
/// (sixel pictures do) and what it has there is no text either.
fn visible_lines(tail: &[u8]) -> impl Iterator<Item = VisibleLine<'_>> {
    let mut strip = Strip::new();
    tail.split_inclusive(|&byte| byte == b'\n')
        .map(move |printed| {
            let mut text = Vec::new();
            strip.feed(printed, &mut text);
            if !printed.ends_with(b"\n") {
                strip.finish(&mut text);
            }
            VisibleLine { printed, text }
        })
        .filter(|line| is_visible(&line.text))
}

/// Invalid bytes are visible: terminals draw a replacement character for them.
fn is_visible(text: &[u8]) -> bool {
    let has_ink = |character: char| !character.is_whitespace() && !character.is_control();
    text.utf8_chunks().any(|chunk| chunk.valid().chars().any(has_ink) || !chunk.invalid().is_empty())
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let Some(mut line) = line.strip_suffix(b"\n") else {
        return line;
    };
    while let Some(shorter) = line.strip_suffix(b"\r") {
        line = shorter;
    }
    line
}

/// Enough to recognise a line by, and still one line of a message.
const SHOWN_LIMIT: usize = 200;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_LIMIT) {
        None => text.to_owned(),
        Some(_) => text.chars().take(SHOWN_LIMIT - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{pieces, rounds};

    type Bytes = &'static [u8];

    #[test]
    fn no_match_lies_across_what_is_not_there() {
        let fed = |skipped: u64| {
            let mut finder = Finder::new(b"ab", 5);
            assert_eq!(finder.feed(b"xa"), None);
            finder.skip(skipped);
            (finder.feed(b"b"), finder.feed(b"ab"))
        };
        assert_eq!(fed(0).0, Some(6));
        assert_eq!(fed(3), (None, Some(11)));
    }

    #[test]
    fn escape_sequences_go_and_the_text_around_them_stays() {
        for (printed, text) in STRIPPED {
            assert_eq!(shown(&strip(printed)), shown(text), "{}", shown(printed));
        }
    }

    #[test]
    fn where_the_stream_is_cut_changes_nothing() {
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
    fn what_is_unfinished_is_held_back_and_counted() {
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

    #[test]
    fn a_pattern_is_found_where_it_starts() {
        let cases: &[(Bytes, &[Bytes], Option<u64>)] = &[
            (b"done", &[b"all done\n"], Some(104)),
            (b"done", &[b"all do", b"ne\n"], Some(104)),
            (b"done", &[b"d", b"o", b"n", b"", b"e"], Some(100)),
            (b"done", &[b"all don", b"t"], None),
            (b"aab", &[b"aa", b"ab"], Some(101)),
            (b"abab", &[b"aba", b"cabab"], Some(104)),
            (b"\0\0x", &[b"\0\0", b"\0x\0\0x"], Some(101)),
            (b"x", &[b"", b"abc", b"dxx"], Some(104)),
            (b"ab", &[b"xa", b"bab"], Some(101)),
            (b"longer than all of it", &[b"longer", b" than"], None),
            (b"", &[b""], None),
            (b"", &[b"", b"x"], Some(100)),
        ];
        for (pattern, pieces, found) in cases {
            let mut finder = Finder::new(pattern, 100);
            let got = pieces.iter().find_map(|piece| finder.feed(piece));
            assert_eq!(got, *found, "{} in {pieces:?}", shown(pattern));
        }
    }

    #[test]
    fn a_pattern_is_found_as_in_the_whole_however_it_is_cut() {
        for (seed, mut random) in rounds(200) {
            // Two letters, so that there are many beginnings that come to nothing.
            let mut letters =
                |length| -> Vec<u8> { (0..length).map(|_| b"\0a"[random.usize(..2)]).collect() };
            let (pattern, printed) = (letters(1 + seed as usize % 9), letters(300));
            let naive = printed.windows(pattern.len()).position(|window| window == pattern);

            let (mut finder, mut found) = (Finder::new(&pattern, 7), None);
            let mut fed = 0;
            for piece in pieces(&printed, 12, &mut random) {
                found = finder.feed(piece);
                fed += piece.len();
                let is_in = naive.is_some_and(|at| at + pattern.len() <= fed);
                assert_eq!(found.is_some(), is_in, "seed {seed}: known as soon as it is in");
                assert!(finder.tail.len() < pattern.len(), "seed {seed}");
                if found.is_some() {
                    break;
                }
            }
            assert_eq!(found, naive.map(|at| 7 + at as u64), "seed {seed}");
        }
    }

    #[test]
    fn other_peoples_bytes_are_shown_on_one_line() {
        let cases: &[(Bytes, &str)] = &[
            (b"plain text", "plain text"),
            ("café 漢 😀".as_bytes(), "café 漢 😀"),
            (b"\n\r\t\x1b[1m", r"\n\r\t\e[1m"),
            (b"\0\x07\x08\x1f\x7f", r"\x00\x07\x08\x1f\x7f"),
            (b"C:\\new", r"C:\new"),
            (b"\xff\x9b caf\xc3", r"\xff\x9b caf\xc3"),
            ("\u{80}\u{9b}\u{9f}\u{a0}".as_bytes(), "\\u{80}\\u{9b}\\u{9f}\u{a0}"),
            ("\u{2027}\u{2028}\u{2029}".as_bytes(), "\u{2027}\\u{2028}\\u{2029}"),
            ("\u{202a}\u{202e}\u{202f}".as_bytes(), "\\u{202a}\\u{202e}\u{202f}"),
            ("\u{2065}\u{2066}\u{2069}\u{206a}".as_bytes(), "\u{2065}\\u{2066}\\u{2069}\u{206a}"),
        ];
        for (bytes, line) in cases {
            assert_eq!(escaped(bytes), *line);
        }
    }

    #[test]
    fn what_is_escaped_has_no_control_left_in_it() {
        for (seed, mut random) in rounds(200) {
            let mut bytes = noise(&mut random);
            bytes.extend((0..300).map(|_| random.u8(..)));
            assert!(!escaped(&bytes).chars().any(char::is_control), "seed {seed}");
        }
    }

    #[test]
    fn the_last_lines_are_those_with_anything_visible_in_them() {
        let cases: &[(Bytes, usize, &[Bytes])] = &[
            (b"", 5, &[]),
            (b"\n\r\n \t\n", 5, &[]),
            (b"one\ntwo\nthree\n", 2, &[b"two", b"three"]),
            (b"one\ntwo\n", 0, &[]),
            (b"one\n\n  \ntwo\n\n", 5, &[b"one", b"two"]),
            (b"one\r\ntwo\r\r\n", 5, &[b"one", b"two"]),
            (b"10%\r20%\r\n", 5, &[b"10%\r20%"]),
            (b"one\ncut o", 5, &[b"one", b"cut o"]),
            (b"one\ncut\r", 5, &[b"one", b"cut\r"]),
            (b"one\ncaf\xc3", 5, &[b"one", b"caf\xc3"]),
            (b"one\n\xc3", 5, &[b"one", b"\xc3"]),
            (b"  indented  \n", 5, &[b"  indented  "]),
            (b"\x1b[31mred\x1b[0m\n\x1b[0m\n", 5, &[b"\x1b[31mred\x1b[0m"]),
            (b"\x1b]133;A\x07$ \n\x1b]133;D;0\x07\x1b]7;file:///\x07\n", 5, &[b"\x1b]133;A\x07$ "]),
            (b"\x07\x08\0\n", 5, &[]),
            ("\u{a0}\u{3000}\n漢\n".as_bytes(), 5, &["漢".as_bytes()]),
            // A picture is not visible text, on however many lines its data stands.
            (b"one\n\x1bPq#0~~\n#1@@\n\x1b\\\ntwo\n", 5, &[b"one", b"two"]),
            // A control goes on with the line before, a final byte with the sequence.
            (b"one\x1b[3\n1mtwo\n", 5, &[b"one\x1b[3", b"1mtwo"]),
        ];
        for (tail, count, lines) in cases {
            assert_eq!(last_visible_lines(tail, *count), *lines, "{}", shown(tail));
        }
    }

    #[test]
    fn the_last_line_is_shown_as_a_person_would_read_it() {
        let cases: &[(Bytes, Option<&str>)] = &[
            (b"", None),
            (b"\r\n\x1b[0m\n", None),
            (b"one\ntwo\n\n", Some("two")),
            (b"  \x1b[1merror:\x1b[0m no such file \r\n", Some("error: no such file")),
            (b"10%\r20%\r30%\n", Some("30%")),
            (b"10%\r20%\r \r\x1b[K", Some("20%")),
            (b"Password: ", Some("Password:")),
            (b"a\tb\x07\xff", Some(r"a\tb\x07\xff")),
            ("\u{3000}漢\u{a0}\n".as_bytes(), Some("漢")),
            (b"one\x1b[3\n1mtwo\n", Some("two")),
        ];
        for (tail, line) in cases {
            assert_eq!(last_line_shown(tail).as_deref(), *line, "{}", shown(tail));
        }
    }

    #[test]
    fn a_long_last_line_is_cut() {
        let line = |length| "é".repeat(length);
        assert_eq!(last_line_shown(line(200).as_bytes()), Some(line(200)));
        assert_eq!(last_line_shown(line(201).as_bytes()), Some(line(199) + "…"));
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

    /// A stream where it is hardest: beginnings, ends and halves of everything.
    fn noise(random: &mut fastrand::Rng) -> Vec<u8> {
        const BYTES: &[u8] = b"\x1b\x1b\x1b[]PX^_\\( #;3m~\x07\x18\x1a\n\0\x7f\xc2\xc2\x9b\x9c\xc3\xa9\xe6\xbc\xf0\x9f\xed\xff";
        const CHARACTERS: [char; 9] =
            ['\u{85}', '\u{90}', '\u{9b}', '\u{9c}', '\u{9d}', '\u{a0}', 'é', '漢', '😀'];
        const BEGINNINGS: [&str; 6] = ["text", "\x1b[", "\x1b[1;3", "\x1b]0;", "\x1bP", "\x1b("];

        let mut noise = Vec::new();
        for _ in 0..random.usize(..60) {
            match random.u8(..5) {
                0 => noise.extend(random.choice(BEGINNINGS).unwrap().bytes()),
                1 => noise.extend(random.choice(CHARACTERS).unwrap().to_string().bytes()),
                _ => noise.push(*random.choice(BYTES).unwrap()),
            }
        }
        noise
    }

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

    /// For messages of failed assertions; unlike `escaped` not under test here.
    fn shown(bytes: &[u8]) -> String {
        bytes.escape_ascii().to_string()
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

        /// Where the sequence that begins at `at` ends, and the controls in it.
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

        /// What ends a sequence is a part of it, unless it is a beginning itself.
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
