//! What a program asks of its terminal, by what it prints.
//!
//! Pure: bytes in, questions and modes out. A sequence that is short enough to be one
//! of these is collected until it is whole, so it is found however it was split; a
//! longer one (a picture, a clipboard) is passed over. Where there is no ESC, it costs
//! no more than to look for one.
//!
//! The answers are those of the terminal that the emulator is. The relay gives them,
//! and it alone: a terminal that a person has attached is not asked as well.

use std::fmt::Write;

/// The longest sequence that is looked at, with its introducer and its end.
const LONGEST: usize = 512;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;

/// Finds the sequences in a stream, whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequences {
    state: SequenceState,
    // What of a sequence has come. Invariant: no longer than `LONGEST`, and empty
    // in ground state.
    held: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SequenceState {
    #[default]
    Ground,
    /// ESC, and perhaps intermediate bytes.
    Escape,
    /// CSI.
    Control,
    /// OSC, DCS, SOS, PM or APC.
    Text,
    /// ESC within one of those, which ST would begin with.
    TextEnd,
}

/// A part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// What is no sequence, or was none, or is too long to be looked at.
    Other(&'a [u8]),
    Sequence(&'a [u8]),
}

impl Sequences {
    /// Gives the parts, each with the number of the bytes that come after it.
    pub(crate) fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(Part, usize)) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            if self.state == SequenceState::Ground {
                let at = memchr::memchr(ESC, rest).unwrap_or(rest.len());
                if at > 0 {
                    each(Part::Other(&rest[..at]), rest.len() - at);
                }
                rest = &rest[at..];
                if !rest.is_empty() {
                    self.begin();
                    rest = &rest[1..];
                }
                continue;
            }
            let (next, taken) = self.after(byte);
            if taken {
                self.held.push(byte);
                rest = &rest[1..];
            }
            match next {
                SequenceState::Ground if taken && !matches!(byte, 0x18 | 0x1a) => {
                    each(Part::Sequence(&self.held), rest.len());
                    self.held.clear();
                }
                SequenceState::Ground if self.state == SequenceState::TextEnd && !taken => {
                    // The ESC began another sequence.
                    self.held.pop();
                    self.give_up(rest.len(), each);
                    self.begin();
                    continue;
                }
                SequenceState::Ground => self.give_up(rest.len(), each),
                SequenceState::Escape if byte == ESC && !taken => {
                    // It breaks off what it stands in.
                    self.give_up(rest.len(), each);
                    self.begin();
                    rest = &rest[1..];
                    continue;
                }
                _ if self.held.len() == LONGEST => {
                    self.give_up(rest.len(), each);
                    self.state = SequenceState::Ground;
                    continue;
                }
                _ => {}
            }
            self.state = next;
        }
    }

    fn begin(&mut self) {
        self.held.push(ESC);
        self.state = SequenceState::Escape;
    }

    fn give_up(&mut self, left: usize, each: &mut dyn FnMut(Part, usize)) {
        if !self.held.is_empty() {
            each(Part::Other(&self.held), left);
            self.held.clear();
        }
    }

    /// The state after a byte, and whether the byte belongs to the sequence.
    fn after(&self, byte: u8) -> (SequenceState, bool) {
        use SequenceState::*;
        match (self.state, byte) {
            (_, 0x18 | 0x1a) => (Ground, true),
            (Text, ESC) => (TextEnd, true),
            (Text, BEL) => (Ground, true),
            (Text, _) => (Text, true),
            (TextEnd, b'\\') => (Ground, true),
            (TextEnd, _) => (Ground, false),
            (_, ESC) => (Escape, false),
            // A control is obeyed within a sequence, which goes on.
            (state, 0x00..=0x1f | 0x7f) => (state, true),
            (Escape, b'[') if self.held.len() == 1 => (Control, true),
            (Escape, b']' | b'P' | b'X' | b'^' | b'_') if self.held.len() == 1 => (Text, true),
            (Escape, 0x20..=0x2f) => (Escape, true),
            (Control, 0x20..=0x3f) => (Control, true),
            (Escape | Control, 0x30..=0x7e) => (Ground, true),
            (Ground | Escape | Control, _) => (Ground, false),
        }
    }
}

/// How many bytes at the end of these are a sequence that is not whole.
pub(crate) fn unfinished_length(bytes: &[u8]) -> usize {
    let mut sequences = Sequences::default();
    let start = memchr::memrchr(ESC, bytes).unwrap_or(bytes.len());
    sequences.feed(&bytes[start..], &mut |_, _| {});
    sequences.held.len()
}

/// A control sequence, taken apart.
struct Control {
    /// `?`, `>`, `<` or `=`, or 0.
    private: u8,
    /// The parameters as they stand there, without what is private.
    parameters: String,
    /// The last intermediate byte, or 0.
    intermediate: u8,
    last: u8,
}

impl Control {
    fn parse(sequence: &[u8]) -> Option<Control> {
        let inner: Vec<u8> =
            sequence.strip_prefix(b"\x1b[")?.iter().copied().filter(|b| *b >= 0x20).collect();
        let (&last, inner) = inner.split_last()?;
        let private = inner.first().copied().filter(|byte| matches!(byte, b'<'..=b'?')).unwrap_or(0);
        let inner = if private == 0 { inner } else { &inner[1..] };
        let length = inner.iter().position(|byte| !matches!(byte, b'0'..=b';')).unwrap_or(inner.len());
        let (parameters, intermediates) = inner.split_at(length);
        let intermediate = intermediates.last().copied().unwrap_or(0);
        Some(Control {
            private,
            parameters: String::from_utf8_lossy(parameters).into_owned(),
            intermediate,
            last,
        })
    }

    fn first(&self) -> u32 {
        self.numbers().next().unwrap_or(0)
    }

    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.parameters.split(';').map(|number| number.parse().unwrap_or(0))
    }
}

/// What a program wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// Where the cursor is (DSR 6); of DEC's (DECXCPR) the answer differs.
    Position { private: bool },
    /// Is a mode set (DECRQM)?
    Mode { private: bool, mode: u32 },
    /// How large is the terminal, in characters (XTWINOPS 18)?
    Size,
    /// What has always the same answer.
    Fixed(Vec<u8>),
    /// What this terminal does not answer, as it does not do what is asked about, as a terminal
    /// that does not know the question. Another might.
    Unanswered,
}

impl Query {
    /// The same, with what is known while these are the modes.
    pub(crate) fn fixed(self, modes: &PrivateModes) -> Query {
        match self {
            Query::Mode { private, mode } => Query::Fixed(modes.report(private, mode).into_bytes()),
            other => other,
        }
    }

    /// `None` where a sequence asks nothing.
    pub(crate) fn parse(sequence: &[u8]) -> Option<Query> {
        match sequence.get(1)? {
            // Most sequences choose a colour, and are not worth a closer look.
            b'[' if matches!(sequence.last()?, b'A'..=b'R' | b'f'..=b'm') => None,
            b'[' => Query::control(&Control::parse(sequence)?),
            b'Z' => Some(Query::Fixed(ATTRIBUTES.to_vec())),
            b']' => Query::colours(sequence),
            b'P' => Query::device(text_of(sequence)?),
            b'_' => {
                // The graphics of kitty.
                let text = text_of(sequence)?.strip_prefix(b"G")?;
                let asks = text.split(|byte| matches!(byte, b',' | b';')).any(|part| part == b"a=q");
                asks.then_some(Query::Unanswered)
            }
            _ => None,
        }
    }

    fn control(control: &Control) -> Option<Query> {
        let fixed = |answer: &[u8]| Some(Query::Fixed(answer.to_vec()));
        let first = control.first();
        match (control.private, control.intermediate, control.last) {
            (0, 0, b'c') if first == 0 => fixed(ATTRIBUTES),
            // The version is one from which on programs use mouse reports for any width.
            (b'>', 0, b'c') if first == 0 => fixed(b"\x1b[>1;277;0c"),
            (b'=', 0, b'c') if first == 0 => fixed(b"\x1bP!|00000000\x1b\\"),
            (0, 0, b'n') if first == 5 => fixed(b"\x1b[0n"),
            (0, 0, b'n') if first == 6 => Some(Query::Position { private: false }),
            (b'?', 0, b'n') if first == 6 => Some(Query::Position { private: true }),
            // 0 and 3 are answers.
            (0 | b'?', 0, b'n') if !matches!(first, 0 | 3) => Some(Query::Unanswered),
            (b'>', 0, b'q') if first == 0 => {
                fixed(concat!("\x1bP>|nbs(", env!("CARGO_PKG_VERSION"), ")\x1b\\").as_bytes())
            }
            (private @ (0 | b'?'), b'$', b'p') => Some(Query::Mode { private: private == b'?', mode: first }),
            (0, 0, b't') if first == 18 => Some(Query::Size),
            (0, 0, b't') if (11..=21).contains(&first) => Some(Query::Unanswered),
            // That kitty's keyboard protocol is not known, its own rule says by silence.
            (b'?', 0, b'u' | b'S') | (0, 0, b'x') | (0, b'$', b'w' | b'u') => Some(Query::Unanswered),
            (0, b'*', b'y') | (0, b'"', b'v') | (0, b'\'', b'|') => Some(Query::Unanswered),
            _ => None,
        }
    }

    /// OSC 4, 10, 11 and 12; the answers end as the question did.
    fn colours(sequence: &[u8]) -> Option<Query> {
        let text = std::str::from_utf8(text_of(sequence)?).ok()?;
        let end = if sequence.ends_with(&[BEL]) { "\x07" } else { "\x1b\\" };
        let mut fields = text.split(';');
        let number: u32 = fields.next()?.parse().ok()?;
        if !matches!(number, 4 | 5 | 10..=19 | 21 | 52) || !text.contains('?') {
            return None;
        }
        let mut answer = String::new();
        if number == 4 {
            while let (Some(index), Some(value)) = (fields.next(), fields.next()) {
                if let (Ok(index), "?") = (index.parse(), value) {
                    push_colour(
                        &mut answer,
                        &format!("4;{index}"),
                        crate::terminal::screen::colour(index),
                        end,
                    );
                }
            }
        } else if number < 19 {
            for (number, _) in (number..).zip(fields).filter(|(_, value)| *value == "?") {
                let colour = match number {
                    10 | 12 => crate::terminal::screen::FOREGROUND,
                    11 => crate::terminal::screen::BACKGROUND,
                    _ => continue,
                };
                push_colour(&mut answer, &number.to_string(), colour, end);
            }
        }
        let unanswered = answer.is_empty();
        Some(if unanswered { Query::Unanswered } else { Query::Fixed(answer.into_bytes()) })
    }

    /// DECRQSS, of which only the shape of the cursor is answered, and XTGETTCAP.
    fn device(text: &[u8]) -> Option<Query> {
        if let Some(setting) = text.strip_prefix(b"$q") {
            let answer: &[u8] = if setting == b" q" { b"\x1bP1$r0 q\x1b\\" } else { b"\x1bP0$r\x1b\\" };
            return Some(Query::Fixed(answer.to_vec()));
        }
        let names = std::str::from_utf8(text.strip_prefix(b"+q")?).ok()?;
        let mut answer = String::new();
        for name in names.split(';').filter(|name| name.bytes().all(|digit| digit.is_ascii_hexdigit())) {
            // TN, Co, colors and RGB, and what they are, in hexadecimal digits.
            let value = match &*name.to_ascii_lowercase() {
                "544e" => "787465726d2d323536636f6c6f72",
                "436f" | "636f6c6f7273" => "323536",
                "524742" => "382f382f38",
                _ => {
                    push(&mut answer, format_args!("\x1bP0+r{name}\x1b\\"));
                    continue;
                }
            };
            push(&mut answer, format_args!("\x1bP1+r{name}={value}\x1b\\"));
        }
        Some(Query::Fixed(answer.into_bytes()))
    }
}

/// DA1: a VT220 with colours, as the emulator is.
const ATTRIBUTES: &[u8] = b"\x1b[?62;22c";

/// What stands between the introducer of a control string and its end.
fn text_of(sequence: &[u8]) -> Option<&[u8]> {
    let text = sequence.get(2..)?;
    text.strip_suffix(b"\x1b\\").or_else(|| text.strip_suffix(&[BEL]))
}

fn push_colour(answer: &mut String, what: &str, [red, green, blue]: [u8; 3], end: &str) {
    push(
        answer,
        format_args!("\x1b]{what};rgb:{red:02x}{red:02x}/{green:02x}{green:02x}/{blue:02x}{blue:02x}{end}"),
    );
}

fn push(answer: &mut String, part: std::fmt::Arguments) {
    answer.write_fmt(part).expect("a String takes all");
}

/// Does it change what keys send in a way that this terminal does not know: kitty's
/// keyboard protocol, xterm's modifyOtherKeys?
pub(crate) fn changes_keyboard(sequence: &[u8]) -> bool {
    if !matches!(sequence, [ESC, b'[', b'<'..=b'>', .., b'm' | b'n' | b'u']) {
        return false;
    }
    let Some(control) = Control::parse(sequence) else { return false };
    matches!(
        (control.private, control.intermediate, control.last),
        (b'<'..=b'>', 0, b'u') | (b'>', 0, b'm' | b'n')
    )
}

/// The DEC private modes that are known, those that are set at first being so.
const MODES: [(u32, bool); 22] = [
    (1, false),
    (6, false),
    (7, true),
    (9, false),
    (12, false),
    (25, true),
    (45, false),
    (47, false),
    (66, false),
    (1000, false),
    (1002, false),
    (1003, false),
    (1004, false),
    (1005, false),
    (1006, false),
    (1007, false),
    (1015, false),
    (1016, false),
    (1047, false),
    (1048, false),
    (1049, false),
    (2004, false),
];

/// The modes (DEC's private ones, IRM, and that of the keypad) as a program has set
/// them by what it printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrivateModes {
    // A bit for each of `MODES`.
    private: u32,
    inserts: bool,
    keypad: bool,
}

impl Default for PrivateModes {
    fn default() -> PrivateModes {
        let set = MODES.iter().enumerate().filter(|(_, (_, set))| *set);
        PrivateModes { private: set.fold(0, |bits, (at, _)| bits | 1 << at), inserts: false, keypad: false }
    }
}

impl PrivateModes {
    /// Takes note of what a sequence does to them.
    pub(crate) fn heed(&mut self, sequence: &[u8]) {
        match sequence {
            b"\x1bc" => *self = PrivateModes::default(),
            b"\x1b=" => self.keypad = true,
            b"\x1b>" => self.keypad = false,
            [ESC, b'[', .., b'h' | b'l' | b'p'] => {
                let Some(control) = Control::parse(sequence) else { return };
                let on = control.last == b'h';
                match (control.private, control.intermediate, control.last) {
                    (0, b'!', b'p') => self.soft_reset(),
                    (b'?', 0, b'h' | b'l') => {
                        control.numbers().for_each(|number| self.set(number, on));
                    }
                    (0, 0, b'h' | b'l') if control.numbers().any(|number| number == 4) => {
                        self.inserts = on;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// DECSTR leaves alone what is not about writing and the keyboard.
    fn soft_reset(&mut self) {
        (self.inserts, self.keypad) = (false, false);
        for (mode, set) in MODES.into_iter().filter(|(mode, _)| matches!(mode, 1 | 6 | 7 | 25 | 2004)) {
            self.set(mode, set);
        }
    }

    fn set(&mut self, mode: u32, on: bool) {
        if let Some(at) = MODES.iter().position(|(known, _)| *known == mode) {
            self.private = self.private & !(1 << at) | u32::from(on) << at;
        }
    }

    /// Is a private mode set? One that is not known is not.
    pub(crate) fn has(&self, mode: u32) -> bool {
        MODES.iter().position(|(known, _)| *known == mode).is_some_and(|at| self.private & 1 << at != 0)
    }

    /// DECRPM: the answer to the question whether a mode is set.
    fn report(&self, private: bool, mode: u32) -> String {
        let known = if private { MODES.iter().any(|(known, _)| *known == mode) } else { mode == 4 };
        let set = if private { self.has(mode) } else { self.inserts };
        let value = if !known {
            0
        } else if set {
            1
        } else {
            2
        };
        format!("\x1b[{}{mode};{value}$y", if private { "?" } else { "" })
    }

    /// What has to be sent to a terminal whose modes are `self` to make them `wanted`,
    /// but for the alternate screen.
    pub(crate) fn change(&self, wanted: &PrivateModes) -> String {
        let mut text = String::new();
        for (mode, _) in MODES.into_iter().filter(|(mode, _)| !matches!(mode, 47 | 1047..=1049)) {
            if self.has(mode) != wanted.has(mode) {
                push(&mut text, format_args!("\x1b[?{mode}{}", if wanted.has(mode) { 'h' } else { 'l' }));
            }
        }
        if self.inserts != wanted.inserts {
            text += if wanted.inserts { "\x1b[4h" } else { "\x1b[4l" };
        }
        if self.keypad != wanted.keypad {
            text += if wanted.keypad { "\x1b=" } else { "\x1b>" };
        }
        text
    }

    /// As no terminal has them at first.
    pub(crate) fn strange() -> PrivateModes {
        let PrivateModes { private, .. } = PrivateModes::default();
        PrivateModes { private: !private & ((1 << MODES.len()) - 1), inserts: true, keypad: true }
    }

    /// Is the alternate screen shown?
    pub(crate) fn alternate(&self) -> bool {
        [47, 1047, 1049].into_iter().any(|mode| self.has(mode))
    }

    /// As a number, and back.
    pub(crate) fn encode(&self) -> u64 {
        u64::from(self.private) << 2 | u64::from(self.inserts) << 1 | u64::from(self.keypad)
    }

    pub(crate) fn decode(number: u64) -> Option<PrivateModes> {
        let private = u32::try_from(number >> 2).ok().filter(|bits| bits >> MODES.len() == 0)?;
        Some(PrivateModes { private, inserts: number & 2 != 0, keypad: number & 1 != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{pieces, rounds, spoiled};

    fn parts(pieces: &[&[u8]]) -> (Vec<u8>, Vec<Vec<u8>>, PrivateModes) {
        let (mut sequences, mut all, mut whole) = (Sequences::default(), Vec::new(), Vec::new());
        let mut modes = PrivateModes::default();
        for piece in pieces {
            sequences.feed(piece, &mut |part, _| match part {
                Part::Other(bytes) => all.extend_from_slice(bytes),
                Part::Sequence(bytes) => {
                    modes.heed(bytes);
                    all.extend_from_slice(bytes);
                    whole.push(bytes.to_vec());
                }
            });
        }
        all.extend_from_slice(&sequences.held);
        (all, whole, modes)
    }

    fn queries(text: &str) -> Vec<Query> {
        parts(&[text.as_bytes()]).1.iter().filter_map(|sequence| Query::parse(sequence)).collect()
    }

    fn fixed(text: &str) -> String {
        match &queries(text)[..] {
            [Query::Fixed(answer)] => String::from_utf8(answer.clone()).unwrap(),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn questions_have_the_answers_of_the_terminal_that_we_are() {
        for (question, answer) in [
            ("\x1b[c", "\x1b[?62;22c"),
            ("a\x1b[0cb", "\x1b[?62;22c"),
            ("\x1bZ", "\x1b[?62;22c"),
            ("\x1b[>c", "\x1b[>1;277;0c"),
            ("\x1b[5n", "\x1b[0n"),
            ("\x1b[\n5n", "\x1b[0n"),
            ("\x1b]11;?\x07", "\x1b]11;rgb:1010/1010/1010\x07"),
            (
                "\x1b]4;1;?;300;?;196;?\x1b\\",
                "\x1b]4;1;rgb:d5d5/4141/4b4b\x1b\\\x1b]4;196;rgb:ffff/0000/0000\x1b\\",
            ),
            ("\x1bP$qm\x1b\\", "\x1bP0$r\x1b\\"),
            ("\x1bP+q436F;6b31\x1b\\", "\x1bP1+r436F=323536\x1b\\\x1bP0+r6b31\x1b\\"),
        ] {
            assert_eq!(fixed(question), answer, "{question:?}");
            // No answer, echoed, is a question: else a terminal would talk to itself.
            assert_eq!(queries(answer), [], "{answer:?}");
        }
        assert!(fixed("\x1b]10;?;?\x07").contains("\x07\x1b]11;rgb:1010"));
        assert_eq!(queries("\x1b[6n\x1b[?6n"), [false, true].map(|private| Query::Position { private }));
        assert_eq!(queries("\x1b[?2004$p"), [Query::Mode { private: true, mode: 2004 }]);
        assert_eq!(queries("\x1b[18t"), [Query::Size]);
        for other in ["\x1b[?u", "\x1b[14t", "\x1b[?996n", "\x1b]52;c;?\x07", "\x1b_Gi=1,a=q;AAAA\x1b\\"] {
            assert_eq!(queries(other), [Query::Unanswered], "{other:?}");
        }
        for none in [
            "^[[c",
            "\x1b[?62;22c",
            " \x1b[1m",
            "\x1b[2J",
            "\x1b]0;what?\x07",
            "\x1b]8;;http://x/?a\x07",
            "\x1b[22;0t",
            "\x1b[?25h",
            "\x1b(0",
            "\x1b[6\x18n",
            "\x1b]0;\x1b\x1a[6n",
            "\x1b[6\x1b[m",
            "\x1b]11;?\x1b[m",
            "\x1b[u",
            "\x1b[2 q",
        ] {
            assert_eq!(queries(none), [], "{none:?}");
        }
    }

    #[test]
    fn modes_are_as_they_were_set_last() {
        for (bytes, expected) in [
            ("", (false, false)),
            ("\x1b[?1h", (true, false)),
            ("\x1b[?1h\x1b[?1l", (false, false)),
            ("text\x1b[?2004htext", (false, true)),
            ("\x1b[?1;2004h", (true, true)),
            ("\x1b[?12;25;2004;1h\x1b[?1l", (false, true)),
            ("\x1b[?1;2004h\x1bc", (false, false)),
            ("\x1b[?1;2004h\x1b[!p", (false, false)),
            // Not private, not set, not whole.
            ("\x1b[1h\x1b[2004h", (false, false)),
            ("\x1b[?1$p", (false, false)),
            ("\x1b[?1\x1b[?2004h", (false, true)),
            ("\x1b[?1\x18h", (false, false)),
            ("\x1b[?1\nh", (true, false)),
            ("\x1b[>?1h", (false, false)),
            ("\x1b[?99999999999999999999h", (false, false)),
            ("\x1b]0;\x1b[?1h", (true, false)),
        ] {
            let single: Vec<&[u8]> = bytes.as_bytes().chunks(1).collect();
            for modes in [parts(&[bytes.as_bytes()]).2, parts(&single).2] {
                assert_eq!((modes.has(1), modes.has(2004)), expected, "{bytes:?}");
                assert_eq!(PrivateModes::decode(modes.encode()), Some(modes));
                // What leads there leads there.
                let mut other = PrivateModes::default();
                let change = PrivateModes::default().change(&modes);
                parts(&[change.as_bytes()]).1.iter().for_each(|sequence| other.heed(sequence));
                assert_eq!(other, modes);
            }
        }
        assert_eq!(PrivateModes::default().report(true, 25), "\x1b[?25;1$y");
        assert_eq!(PrivateModes::default().report(true, 1), "\x1b[?1;2$y");
        assert_eq!(PrivateModes::default().report(true, 2026), "\x1b[?2026;0$y");
        assert_eq!(PrivateModes::decode(u64::MAX), None);
    }

    #[test]
    fn any_split_gives_every_byte_and_the_same_sequences() {
        let right =
            b"\x1b[?1h text \x1b[6n\x1bP+q436f\x1b\\ \x1b[!p\x1bc\xc3\xa9\x1b]11;?\x07\x1b]4;1;?\x1b\\";
        let long = [b"\x1bPq".as_slice(), &[b'#'; 2 * LONGEST], b"\x1b\\\x1b[c"].concat();
        for (seed, mut random) in rounds(500) {
            let mut printed = spoiled(right, &mut random);
            if random.bool() {
                printed.extend_from_slice(&long);
            }
            let whole = parts(&[&printed]);
            assert!(whole.0 == printed, "seed {seed}");
            assert_eq!(parts(&pieces(&printed, 9, &mut random)), whole, "seed {seed}");
        }
    }
}
