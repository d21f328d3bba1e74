//! The questions to its terminal that a program prints.
//!
//! Pure: bytes in, questions and modes out. A sequence that is short enough to be one
//! of these is collected until it is whole, so it is found however it was split; a
//! longer one (a picture, a clipboard) is skipped. Bytes without an ESC cost no more
//! than the search for one.
//!
//! The answers are those of the terminal that the emulator is. The relay gives them,
//! and it alone: a terminal that a person has attached is not asked as well.

use crate::terminal::{
    notices,
    parser::Parser,
    program_status,
    text::push,
    tokenizer::{BEL, C1_LEAD, State, Step, control_sequence_length, is_c1, text_length},
};

/// The longest sequence that is looked at, with its introducer and its end.
const LONGEST: usize = program_status::LONGEST;

/// How much the questions of one program may take that wait to be answered.
pub(crate) const MOST_ASKED: usize = 256 * 1024;

/// Finds the sequences in a stream, whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequences {
    parser: Parser,
    // The beginning of a sequence, or the first byte of a C1 control. Invariant: no longer
    // than `LONGEST`, and otherwise empty in ground state.
    held: Vec<u8>,
    // It is the rest of what fills the clipboard, and is longer than that.
    copies: bool,
}

/// A part of a stream.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// Text, an incomplete sequence, or one that is too long to be examined.
    Other(&'a [u8]),
    /// A part of a sequence that fills the clipboard and is too long to be examined.
    Copied(&'a [u8]),
    Sequence(Sequence<'a>),
}

/// A whole sequence.
#[derive(Clone, Copy)]
pub(crate) struct Sequence<'a> {
    pub(crate) bytes: &'a [u8],
    parser: &'a Parser,
    last: Step,
}

impl Sequences {
    /// In the middle of what fills the clipboard.
    pub(crate) fn copying() -> Sequences {
        let mut sequences = Sequences { copies: true, ..Sequences::default() };
        for byte in b"\x1b]52;" {
            sequences.parser.take(*byte);
        }
        sequences
    }

    /// Gives the parts, each with the number of the bytes that come after it.
    pub(crate) fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(Part, usize)) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            if self.held.is_empty() && !self.copies {
                let at = text_length(rest);
                if at > 0 {
                    each(Part::Other(&rest[..at]), rest.len() - at);
                    rest = &rest[at..];
                    continue;
                }
                if let Some(length) = control_sequence_length(rest).filter(|length| *length < LONGEST) {
                    let (bytes, after) = rest.split_at(length);
                    let last = self.parser.take_control_sequence(bytes);
                    let sequence = Sequence { bytes, parser: &self.parser, last };
                    let is_whole = last != Step::Cancelled;
                    each(if is_whole { Part::Sequence(sequence) } else { Part::Other(bytes) }, after.len());
                    rest = after;
                    continue;
                }
            }
            let room = rest.len().min(LONGEST - 1 - self.held.len());
            let length = self.parser.take_string(&rest[..room]);
            if length > 0 {
                self.held.extend_from_slice(&rest[..length]);
                rest = &rest[length..];
                continue;
            }
            let before = self.parser.state;
            let step = match (before, &*self.held) {
                (State::Ground, [C1_LEAD]) if is_c1(byte) => Step::C1(byte),
                (State::Ground, [C1_LEAD]) => Step::Again,
                (State::Ground, _) if byte == C1_LEAD => Step::Part,
                _ => self.parser.take(byte),
            };
            // How much of what has come belongs together with this byte.
            let kept = match (before, step, self.parser.state) {
                (_, Step::Begin, State::StringEscape(_)) => self.held.len(),
                (_, Step::Begin | Step::Again, _) => 0,
                (State::StringEscape(_), Step::String(_), _) => self.held.len(),
                (State::StringEscape(_), _, _) | (_, Step::C1(_), _) => 1,
                _ => self.held.len(),
            };
            if kept < self.held.len() {
                let broken_off = self.held.len() - kept;
                each(other(std::mem::take(&mut self.copies), &self.held[..broken_off]), rest.len());
                self.held.drain(..broken_off);
            }
            if step == Step::Again {
                continue;
            }
            let last = if let Step::C1(byte) = step { self.parser.c1(byte) } else { step };
            self.held.push(byte);
            rest = &rest[1..];
            let part = match last {
                Step::String(_) | Step::Cancelled if std::mem::take(&mut self.copies) => {
                    Part::Copied(&self.held)
                }
                Step::Escape(_) | Step::ControlSequence(_) | Step::String(_) => {
                    Part::Sequence(Sequence { bytes: &self.held, parser: &self.parser, last })
                }
                Step::Cancelled => Part::Other(&self.held),
                _ if self.held.len() < LONGEST => continue,
                _ if self.parser.is_clipboard() => {
                    self.copies = true;
                    Part::Copied(&self.held)
                }
                _ => {
                    self.parser.state = State::Ground;
                    Part::Other(&self.held)
                }
            };
            each(part, rest.len());
            self.held.clear();
        }
    }

    /// Nothing follows: gives what of a sequence has come.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        (self.parser.state, self.copies) = (State::Ground, false);
        std::mem::take(&mut self.held)
    }
}

fn other(copies: bool, bytes: &[u8]) -> Part<'_> {
    if copies { Part::Copied(bytes) } else { Part::Other(bytes) }
}

/// How many bytes at the end of these are a sequence that is not whole.
pub(crate) fn unfinished_length(bytes: &[u8]) -> usize {
    let mut sequences = Sequences::default();
    sequences.feed(bytes, &mut |_, _| {});
    sequences.held.len()
}

impl<'a> Sequence<'a> {
    /// The private marker of a control sequence, its intermediate byte and its final one; 0 is
    /// none.
    fn control(self) -> Option<(u8, u8, u8)> {
        match self.last {
            Step::ControlSequence(last) if !self.parser.has_subs() => {
                Some((self.parser.private, self.parser.intermediate, last))
            }
            _ => None,
        }
    }

    /// `ESC x`, without anything between them.
    fn escape(self) -> Option<u8> {
        match self.last {
            Step::Escape(last) if self.parser.intermediate == 0 => Some(last),
            _ => None,
        }
    }

    fn first(self) -> u16 {
        self.parser.value(0).unwrap_or(0)
    }

    /// The content of an OSC.
    pub(crate) fn osc(self) -> Option<&'a [u8]> {
        (self.last == Step::String(b']')).then_some(&*self.parser.string)
    }

    /// Does it reset the terminal (RIS)?
    pub(crate) fn resets(self) -> bool {
        self.escape() == Some(b'c')
    }

    /// Does it change what keys send in a way that a terminal which shows this one need not know:
    /// kitty's keyboard protocol, xterm's modifyOtherKeys, S7C1T and S8C1T?
    pub(crate) fn changes_keyboard(self) -> bool {
        matches!(self.control(), Some((b'<'..=b'>', 0, b'u') | (b'>', 0, b'm' | b'n')))
            || matches!(self.last, Step::Escape(b'F' | b'G') if self.parser.intermediate == b' ')
    }

    /// Does it choose how long the controls of answers are (S8C1T, S7C1T, DECSCL, RIS)?
    pub(crate) fn controls(self) -> Option<Query> {
        let is_short = match (self.last, self.parser.intermediate) {
            (Step::Escape(last @ (b'F' | b'G')), b' ') => last == b'G',
            (Step::Escape(b'c'), 0) => false,
            (Step::ControlSequence(b'p'), b'"') => {
                self.first() > 61 && matches!(self.parser.value(1), None | Some(0 | 2))
            }
            _ => return None,
        };
        Some(Query::Controls(is_short))
    }

    /// Does it put something on the clipboard? That is the session's own.
    pub(crate) fn copies(self) -> bool {
        self.last == Step::String(b']') && self.parser.string.starts_with(b"52;")
    }

    /// May it change what colours there are to choose from: OSC 4, 10 and so on?
    pub(crate) fn chooses_colours(self) -> bool {
        let text = &self.parser.string;
        self.last == Step::String(b']') && (text.starts_with(b"4;") || text.starts_with(b"1"))
    }

    /// The row in which it places the cursor: CUP, HVP or VPA. A row beyond the terminal means
    /// its last one.
    pub(crate) fn row(self) -> Option<u16> {
        let places = matches!(self.control(), Some((0, 0, b'H' | b'f' | b'd')));
        places.then(|| self.parser.value(0).unwrap_or(1)).filter(|row| *row < u16::MAX)
    }
}

/// A question of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// The screen has the answer ([`Screen::answer`]): the place of the cursor, a mode, a
    /// colour. This is the whole sequence.
    ///
    /// [`Screen::answer`]: crate::terminal::screen::Screen::answer
    Screen(Vec<u8>),
    /// How large is the terminal, in characters (XTWINOPS 18)?
    Size,
    /// A request for reports of the size, now and at each change (mode 2048).
    SizeReport,
    /// Which flags of kitty's keyboard protocol are set ([`KittyFlags::answer`]).
    Keyboard,
    /// No question: from here on the controls of answers are those of 8 bits, or not.
    Controls(bool),
    /// The answer is always the same.
    Fixed(Vec<u8>),
    /// This terminal does not have what is asked about, so it does not answer, like a terminal
    /// that does not know the question. Another might answer.
    Unanswered,
}

impl Query {
    /// About how much memory it takes.
    pub(crate) fn weight(&self) -> usize {
        let bytes = match self {
            Query::Screen(bytes) | Query::Fixed(bytes) => bytes.len(),
            Query::Size | Query::SizeReport | Query::Keyboard | Query::Controls(_) | Query::Unanswered => 0,
        };
        bytes + 64
    }

    /// `None` where a sequence asks nothing.
    pub(crate) fn parse(sequence: Sequence) -> Option<Query> {
        let text = &sequence.parser.string;
        match sequence.last {
            Step::ControlSequence(_) => Query::control(sequence),
            Step::Escape(_) if sequence.escape() == Some(b'Z') => Some(Query::Fixed(ATTRIBUTES.to_vec())),
            Step::String(b']') => Query::operating_system(sequence),
            Step::String(b'P') => Query::device(sequence),
            Step::String(b'_') => {
                // The graphics of kitty.
                let text = text.strip_prefix(b"G")?;
                let asks = text.split(|byte| matches!(byte, b',' | b';')).any(|part| part == b"a=q");
                asks.then_some(Query::Unanswered)
            }
            _ => None,
        }
    }

    fn control(sequence: Sequence) -> Option<Query> {
        let fixed = |answer: &[u8]| Some(Query::Fixed(answer.to_vec()));
        let screen = Some(Query::Screen(sequence.bytes.to_vec()));
        let first = sequence.first();
        match sequence.control()? {
            (0, 0, b'c') if first == 0 => fixed(ATTRIBUTES),
            // That of the xterm that we follow.
            (b'>', 0, b'c') if first == 0 => fixed(b"\x1b[>41;379;0c"),
            (b'=', 0, b'c') if first == 0 => fixed(b"\x1bP!|00000000\x1b\\"),
            (0, 0, b'n') if first == 5 => fixed(b"\x1b[0n"),
            (0 | b'?', 0, b'n') if first == 6 => screen,
            (b'?', 0, b'n') => {
                // The state of a printer, keys, a keyboard, a locator, macros, the line and
                // sessions: we have none, or they work.
                let answer: &[u8] = match first {
                    15 => b"\x1b[?13n",
                    25 => b"\x1b[?20n",
                    26 => b"\x1b[?27;1;0;0n",
                    53 | 55 => b"\x1b[?50n",
                    56 => b"\x1b[?57;0n",
                    62 => b"\x1b[0*{",
                    63 => {
                        let id = sequence.parser.value(1).unwrap_or(0);
                        return fixed(format!("\x1bP{id}!~0000\x1b\\").as_bytes());
                    }
                    75 => b"\x1b[?70n",
                    85 => b"\x1b[?83n",
                    // These are answers.
                    0 | 3 | 13 | 20 | 27 | 50 | 57 | 70 | 83 => return None,
                    _ => return Some(Query::Unanswered),
                };
                fixed(answer)
            }
            // 0 and 3 are answers.
            (0, 0, b'n') if !matches!(first, 0 | 3) => Some(Query::Unanswered),
            (b'>', 0, b'q') if first == 0 => {
                fixed(concat!("\x1bP>|nbs(", env!("CARGO_PKG_VERSION"), ")\x1b\\").as_bytes())
            }
            (b'?', 0, b'h') if sequence.parser.values().any(|mode| mode == 2048) => Some(Query::SizeReport),
            (0 | b'?', b'$', b'p') | (0, b'*', b'y') | (0, b'$', b'w') => screen,
            (0, 0, b't') if first == 18 => Some(Query::Size),
            (0, 0, b't') if (19..=21).contains(&first) => screen,
            // There is no window; it is not iconified.
            (0, 0, b't') if first == 11 => fixed(b"\x1b[1t"),
            (0, 0, b't') if (12..=17).contains(&first) => Some(Query::Unanswered),
            (b'?', 0, b'u') => Some(Query::Keyboard),
            (b'?', 0, b'S') | (0, 0, b'x') | (0, b'$', b'u') => Some(Query::Unanswered),
            (0, b'"', b'v') | (0, b'\'', b'|') => Some(Query::Unanswered),
            _ => None,
        }
    }

    /// An OSC; the answers end as the question did.
    fn operating_system(sequence: Sequence) -> Option<Query> {
        let text = &*sequence.parser.string;
        let end = if sequence.bytes.ends_with(&[BEL]) { "\x07" } else { "\x1b\\" };
        let answer = match text.strip_prefix(b"7501;") {
            Some(report) => program_status::is_query(report).then(|| program_status::ANSWER.to_owned()),
            None => notices::answer(text),
        };
        match answer {
            Some(answer) => Some(Query::Fixed((answer + end).into_bytes())),
            None => Query::colours(text).map(|known| match known {
                true => Query::Screen(sequence.bytes.to_vec()),
                false => Query::Unanswered,
            }),
        }
    }

    /// Does an OSC ask for colours, and for one that there is?
    fn colours(text: &[u8]) -> Option<bool> {
        let text = std::str::from_utf8(text).ok()?;
        let (number, rest) = text.split_once(';')?;
        let number: u32 = number.parse().ok()?;
        let asks = rest.split(';').any(|field| field == "?");
        (asks && matches!(number, 4 | 5 | 10..=19 | 21 | 52)).then_some(number < 20)
    }

    /// DECRQSS and XTGETTCAP.
    fn device(sequence: Sequence) -> Option<Query> {
        let text = &*sequence.parser.string;
        if text.starts_with(b"$q") {
            return Some(Query::Screen(sequence.bytes.to_vec()));
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

/// DA1: a VT420 with selective erasing, side margins, colours and rectangles, as the emulator is.
const ATTRIBUTES: &[u8] = b"\x1b[?64;6;21;22;28c";

/// How many flags are kept on the stack of kitty's keyboard protocol, as in kitty.
const KITTY_DEPTH: usize = 8;

/// The flags of kitty's keyboard protocol: a stack of the main screen, and one of the alternate
/// one. The last of each is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KittyFlags([Flags; 2]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags {
    stack: [u8; KITTY_DEPTH],
    // Invariant: a place in `stack`; 0 is what holds where nothing has been pushed.
    last: usize,
}

impl KittyFlags {
    pub(crate) fn now(&self, alternate: bool) -> u8 {
        let flags = &self.0[usize::from(alternate)];
        flags.stack[flags.last]
    }

    pub(crate) fn answer(&self, alternate: bool) -> Query {
        Query::Fixed(format!("\x1b[?{}u", self.now(alternate)).into_bytes())
    }

    /// Takes note of what a sequence does to them.
    pub(crate) fn handle(&mut self, sequence: Sequence, alternate: bool) {
        if sequence.resets() {
            *self = KittyFlags::default();
        }
        let Some((private, 0, b'u')) = sequence.control() else { return };
        let Flags { stack, last } = &mut self.0[usize::from(alternate)];
        let flags = (sequence.first() & 31) as u8;
        match private {
            b'>' => {
                if *last + 1 == KITTY_DEPTH {
                    stack.rotate_left(1);
                } else {
                    *last += 1;
                }
                stack[*last] = flags;
            }
            b'<' => match last.checked_sub(sequence.parser.count_at(0)) {
                Some(left) => *last = left,
                None => (*last, stack[0]) = (0, 0),
            },
            b'=' => {
                let now = &mut stack[*last];
                *now = match sequence.parser.value(1).unwrap_or(1) {
                    1 => flags,
                    2 => *now | flags,
                    3 => *now & !flags,
                    _ => *now,
                };
            }
            _ => {}
        }
    }
}

/// The DEC private modes that are known.
const MODES: [u16; 23] = [
    1, 6, 7, 9, 12, 25, 45, 47, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 1047, 1048, 1049,
    2004, 2048,
];

fn is_set_at_first(mode: u16) -> bool {
    matches!(mode, 7 | 25)
}

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
        let set = MODES.into_iter().enumerate().filter(|(_, mode)| is_set_at_first(*mode));
        PrivateModes { private: set.fold(0, |bits, (at, _)| bits | 1 << at), inserts: false, keypad: false }
    }
}

impl PrivateModes {
    /// Takes note of what a sequence does to them.
    pub(crate) fn handle(&mut self, sequence: Sequence) {
        match (sequence.escape(), sequence.control()) {
            (Some(b'c'), _) => *self = PrivateModes::default(),
            (Some(last @ (b'=' | b'>')), _) => self.keypad = last == b'=',
            (_, Some((0, b'!', b'p'))) => self.soft_reset(),
            (_, Some((b'?', 0, last @ (b'h' | b'l')))) => {
                sequence.parser.values().for_each(|mode| self.set(mode, last == b'h'));
            }
            (_, Some((0, 0, last @ (b'h' | b'l')))) if sequence.parser.values().any(|mode| mode == 4) => {
                self.inserts = last == b'h';
            }
            _ => {}
        }
    }

    /// DECSTR leaves alone what is not about writing and the keyboard.
    fn soft_reset(&mut self) {
        (self.inserts, self.keypad) = (false, false);
        [1, 6, 7, 25, 2004].into_iter().for_each(|mode| self.set(mode, is_set_at_first(mode)));
    }

    fn set(&mut self, mode: u16, on: bool) {
        if let Some(at) = MODES.iter().position(|known| *known == mode) {
            self.private = self.private & !(1 << at) | u32::from(on) << at;
        }
    }

    /// Is a private mode set? An unknown one is not.
    pub(crate) fn has(&self, mode: u16) -> bool {
        MODES.iter().position(|known| *known == mode).is_some_and(|at| self.private & 1 << at != 0)
    }

    /// Has the keypad sequences of its own, by either of the two ways to ask for them?
    pub(crate) fn has_keypad(&self) -> bool {
        self.keypad || self.has(66)
    }

    /// The sequences that change a terminal's modes from `self` to `wanted`, except the
    /// alternate screen and reports of its size.
    pub(crate) fn change(&self, wanted: &PrivateModes) -> String {
        let mut text = String::new();
        for mode in MODES.into_iter().filter(|mode| !matches!(mode, 47 | 1047..=1049 | 2048)) {
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

    /// Makes it so.
    pub(crate) fn show_alternate(&mut self, on: bool) {
        if self.alternate() != on {
            [47, 1047].into_iter().for_each(|mode| self.set(mode, false));
            self.set(1049, on);
        }
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
                Part::Other(bytes) | Part::Copied(bytes) => all.extend_from_slice(bytes),
                Part::Sequence(sequence) => {
                    modes.handle(sequence);
                    all.extend_from_slice(sequence.bytes);
                    whole.push(sequence.bytes.to_vec());
                }
            });
        }
        all.extend_from_slice(&sequences.held);
        (all, whole, modes)
    }

    fn queries(text: &str) -> Vec<Query> {
        let mut queries = Vec::new();
        Sequences::default().feed(text.as_bytes(), &mut |part, _| {
            if let Part::Sequence(sequence) = part {
                queries.extend(Query::parse(sequence));
            }
        });
        queries
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
            ("\x1b[c", "\x1b[?64;6;21;22;28c"),
            ("a\x1b[0cb", "\x1b[?64;6;21;22;28c"),
            ("\x1bZ", "\x1b[?64;6;21;22;28c"),
            ("\x1b[>c", "\x1b[>41;379;0c"),
            ("\x1b[?15n", "\x1b[?13n"),
            ("\x1b[?26n", "\x1b[?27;1;0;0n"),
            ("\x1b[?62n", "\x1b[0*{"),
            ("\x1b[?63;123n", "\x1bP123!~0000\x1b\\"),
            ("\x1b[?85n", "\x1b[?83n"),
            ("\x1b[11t", "\x1b[1t"),
            ("\x1b[5n", "\x1b[0n"),
            ("\x1b[\n5n", "\x1b[0n"),
            ("\x1b]7501;?\x07", &format!("{}\x07", program_status::ANSWER)),
            ("\x1b]7501; ? \x1b\\", &format!("{}\x1b\\", program_status::ANSWER)),
            ("\x1b]99;i=a:p=?;\x1b\\", "\x1b]99;i=a:p=?;p=title,body\x1b\\"),
            ("\x1bP+q436F;6b31\x1b\\", "\x1bP1+r436F=323536\x1b\\\x1bP0+r6b31\x1b\\"),
        ] {
            assert_eq!(fixed(question), answer, "{question:?}");
            // No answer, echoed, is a question: else a terminal would talk to itself.
            assert_eq!(queries(answer), [], "{answer:?}");
        }
        for question in [
            "\x1b[6n",
            "\x1b[?6n",
            "\x1b[?2004$p",
            "\x1b[4$p",
            "\x1b[1;1;1;1;2;2*y",
            "\x1b[1$w",
            "\x1b[20t",
            "\x1b]11;?\x07",
            "\x1b]10;?;?\x1b\\",
            "\x1b]4;1;?;2;#fff\x1b\\",
            "\x1bP$qm\x1b\\",
        ] {
            assert_eq!(queries(question), [Query::Screen(question.as_bytes().to_vec())], "{question:?}");
        }
        assert_eq!(queries("\x1b[18t\x1b[?2048h"), [Query::Size, Query::SizeReport]);
        assert_eq!(queries("\x1b[?u"), [Query::Keyboard]);
        for other in ["\x1b[14t", "\x1b[?996n", "\x1b]52;c;?\x07", "\x1b_Gi=1,a=q;AAAA\x1b\\"] {
            assert_eq!(queries(other), [Query::Unanswered], "{other:?}");
        }
        for none in [
            "^[[c",
            "\x1b[?62;22c",
            "\x1b[?13n",
            "\x1b]11;#fff\x07",
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
    fn the_flags_of_the_keyboard_are_a_stack_for_each_screen() {
        for (bytes, flags) in [
            ("", 0),
            ("\x1b[>1u", 1),
            ("\x1b[>u", 0),
            ("\x1b[>1u\x1b[>31u", 31),
            ("\x1b[>1u\x1b[>31u\x1b[<u", 1),
            ("\x1b[>1u\x1b[>31u\x1b[<9u", 0),
            ("\x1b[=5u", 5),
            ("\x1b[=5u\x1b[<u", 0),
            ("\x1b[=5;1u\x1b[=2;2u\x1b[=4;3u", 3),
            ("\x1b[>3u\x1b[?1049h", 0),
            ("\x1b[>3u\x1b[?1049h\x1b[>5u", 5),
            ("\x1b[>3u\x1b[?1049h\x1b[>5u\x1b[?1049l", 3),
            ("\x1b[>3u\x1bc", 0),
            ("\x1b[>1u\x1b[>2u\x1b[>3u\x1b[>4u\x1b[>5u\x1b[>6u\x1b[>7u\x1b[>8u\x1b[>9u\x1b[<7u", 2),
        ] {
            let (mut kitty, mut modes) = (KittyFlags::default(), PrivateModes::default());
            Sequences::default().feed(bytes.as_bytes(), &mut |part, _| {
                if let Part::Sequence(sequence) = part {
                    modes.handle(sequence);
                    kitty.handle(sequence, modes.alternate());
                }
            });
            assert_eq!(kitty.now(modes.alternate()), flags, "{bytes:?}");
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
                // The change leads to these modes.
                let change = PrivateModes::default().change(&modes);
                assert_eq!(parts(&[change.as_bytes()]).2, modes);
            }
        }
        assert_eq!(PrivateModes::decode(u64::MAX), None);
    }

    #[test]
    fn what_fills_the_clipboard_is_told_however_long_it_is() {
        let data = "YWJj".repeat(100_000);
        for (end, after) in [("\x07", "b"), ("\x1b\\", "b"), ("\u{9c}", "b"), ("\x18", "b"), ("\x1b[1m", "b")]
        {
            let stream = format!("a\x1b]52;c;{data}{end}{after}");
            for length in [1, 1_000, 5_000, stream.len()] {
                let (mut sequences, mut shown) = (Sequences::default(), Vec::new());
                let mut take = |sequences: &mut Sequences, bytes: &[u8]| {
                    sequences.feed(bytes, &mut |part, _| match part {
                        Part::Other(bytes) => shown.extend_from_slice(bytes),
                        Part::Copied(_) => {}
                        Part::Sequence(sequence) => shown.extend_from_slice(sequence.bytes),
                    });
                };
                stream.as_bytes().chunks(length).for_each(|piece| take(&mut sequences, piece));
                let expected = if end == "\x1b[1m" { "a\x1b[1mb" } else { "ab" };
                assert_eq!(String::from_utf8_lossy(&shown), expected, "{end:?} by {length}");
                shown.clear();
                let mut sequences = Sequences::copying();
                let mut take = |bytes: &[u8]| {
                    sequences.feed(bytes, &mut |part, _| match part {
                        Part::Other(bytes) => shown.extend_from_slice(bytes),
                        Part::Copied(_) => {}
                        Part::Sequence(sequence) => shown.extend_from_slice(sequence.bytes),
                    });
                };
                stream.as_bytes()[10..].chunks(length).for_each(&mut take);
                assert_eq!(String::from_utf8_lossy(&shown), &expected[1..], "the rest, {end:?} by {length}");
            }
        }
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
