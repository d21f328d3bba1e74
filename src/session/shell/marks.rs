//! The marks that the startup file (`startup.rs`) makes a shell print, found in its output.
//!
//! Pure: bytes in, marks out, the same for any way of splitting the bytes. It holds less than a hundred
//! bytes, and plain output costs a memchr for ESC. Every mark is an escape sequence in exactly our format: so
//! the bytes are compared, not parsed.
//!
//! A mark counts once, and in its order only. A mark with the secret that is out of order (an old log that is
//! printed again, a prompt that readline redraws) becomes [`Mark::Stale`]: it is only cut out of the output.
//! This is a variant of its own, rather than a flag beside the others, so that no caller can mistake a
//! replayed `Done` for a completion.
//!
//! A nested shell has a secret of its own, and its own count: its level is the index of its secret among the
//! session's, and the session's shell has 0.

use memchr::memchr;

use crate::{
    numbers::number,
    terminal::tokenizer::{BEL, ESC},
};

pub(super) const OPENING: &[u8] = b"\x1b]133;";
/// Comes before the secret.
pub(super) const TAG: &str = ";nbs=";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Prompt `seq` begins.
    PromptStart { seq: u64 },
    /// Prompt `seq` ends, and the shell reads a command.
    PromptEnd { seq: u64 },
    /// The command that ends as `seq` begins; its output follows.
    Started { seq: u64 },
    /// The shell takes the command that `run` hands over at prompt `seq`.
    Taken { seq: u64 },
    /// At prompt `seq` the shell takes no command, because this prompt could not report its end: the next
    /// can.
    Mended { seq: u64 },
    /// The shell wants more lines of the command that is typed at prompt `seq`.
    Unfinished { seq: u64 },
    /// The text before this mark, in its line, is the hook that reports the command's end, shown by `set -v`.
    Shown { seq: u64 },
    /// The output of command `seq` ends; the following text is the shell's own.
    OutputEnd { seq: u64 },
    /// Command `seq` has ended. Number 0 is the shell's own start.
    Done { seq: u64, code: i32 },
    /// The shell has dropped what had been typed at prompt `seq`, and draws that again.
    Cleared { seq: u64 },
    /// The shell reads the text that `run` hands over at prompt `seq`.
    Reads { seq: u64 },
    /// It executes that text, the command that ends as `seq` begins; its output follows.
    Begun { seq: u64 },
    /// Ours, but not the first of its kind and number, or not in its order.
    Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundMark {
    pub(crate) mark: Mark,
    pub(crate) level: usize,
    /// The log's bytes from `start` up to, and without, `end` are the mark.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

pub(crate) struct MarkParser {
    levels: Vec<TaggedShell>,
    longest: usize,
    /// The offset in the log of the next byte.
    offset: u64,
    // Invariant: empty, or the beginning of a possible mark, from its ESC at `start`; shorter than `longest`,
    // and with no other ESC in it. So bytes that turn out not to be a mark need no second look.
    held: Vec<u8>,
    start: u64,
}

/// A shell's marks.
struct TaggedShell {
    /// The bytes between a mark's kind (and code) and its number.
    tag: Vec<u8>,
    reached: Reached,
}

/// The last mark that counted: the number of its prompt, and its position in that prompt's order. Only a
/// later one may count next.
#[derive(Clone, Copy)]
struct Reached {
    last: Option<(u64, MarkKind)>,
    has_ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MarkKind {
    Done,
    PromptStart,
    PromptEnd,
    Taken,
    Started,
    Reads,
    Begun,
    OutputEnd,
    Shown,
    /// A shell finds a missing hook at a prompt, after the output has ended.
    Mended,
}

impl MarkParser {
    /// For a log whose byte at `offset` comes next, and whose shells, with these secrets,
    /// have not reported anything before that; an empty one: there is no such shell, and
    /// no mark.
    pub(crate) fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>, offset: u64) -> MarkParser {
        let mut marks =
            MarkParser { levels: Vec::new(), longest: 0, offset, held: Vec::new(), start: offset };
        secrets.into_iter().for_each(|secret| marks.add(secret.as_ref()));
        marks
    }

    /// One more shell reports, with this secret.
    pub(crate) fn add(&mut self, secret: &str) {
        let tag = tag(secret);
        self.longest = self.longest.max(longest(&tag));
        self.levels.push(TaggedShell { tag, reached: Reached { last: None, has_ended: false } });
    }

    /// The shell of this level is at its prompt: those nested in it have ended, and marks with their secrets
    /// do not count any more.
    pub(crate) fn end_inside(&mut self, level: usize) {
        for inner in self.levels.iter_mut().skip(level + 1) {
            inner.reached.has_ended = true;
        }
    }

    /// Removes the shell that was added last.
    pub(crate) fn take_back(&mut self) {
        self.levels.pop();
    }

    /// The offset in the log of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The offset up to which all marks are known.
    pub(crate) fn settled(&self) -> u64 {
        if self.held.is_empty() { self.offset } else { self.start }
    }

    /// Appends the marks that end in these bytes, the next of the log.
    pub(crate) fn feed(&mut self, bytes: &[u8], found: &mut Vec<FoundMark>) {
        let mut at = 0;
        while at < bytes.len() {
            if self.held.is_empty() {
                let Some(ahead) = memchr(ESC, &bytes[at..]) else { break };
                at += ahead;
                self.start = self.offset + at as u64;
                self.held.push(ESC);
                at += 1;
            } else if self.can_go_on_with(bytes[at]) {
                self.held.push(bytes[at]);
                at += 1;
            } else {
                if bytes[at] == BEL {
                    at += 1;
                    if let Some((level, mark)) = self.accepted() {
                        let end = self.offset + at as u64;
                        found.push(FoundMark { mark, level, start: self.start, end });
                    }
                }
                self.held.clear();
            }
        }
        self.offset += bytes.len() as u64;
    }

    /// The next `count` bytes of the log are gone, with the marks in them.
    pub(crate) fn skip(&mut self, count: u64) {
        if count > 0 {
            self.held.clear();
            self.offset += count;
        }
    }

    /// The mark that is held, and its level.
    fn accepted(&mut self) -> Option<(usize, Mark)> {
        let held = &self.held;
        let of = |(number, level): (usize, &mut TaggedShell)| {
            parsed(held, &level.tag).map(|mark| (number, level.reached.accept(mark)))
        };
        let (level, mark) = self.levels.iter_mut().enumerate().find_map(of)?;
        Some((level, mark))
    }

    fn can_go_on_with(&self, byte: u8) -> bool {
        match OPENING.get(self.held.len()) {
            Some(&expected) => byte == expected,
            // One place is the BEL's.
            None => matches!(byte, b' '..=b'~') && self.held.len() + 1 < self.longest,
        }
    }
}

impl Reached {
    /// The mark, if it is later than all before it; stale otherwise.
    ///
    /// Numbers count from 0, and the shell skips none. But a mark may be missing: after `exec 2>file` B and C
    /// do not reach the terminal, and ^C makes the kernel discard pending output (termios(3), NOFLSH). So a
    /// later number is as good as the next.
    fn accept(&mut self, mark: Mark) -> Mark {
        use MarkKind::*;
        if self.has_ended {
            return Mark::Stale;
        }
        let (seq, stage) = match mark {
            Mark::Done { seq, .. } => (seq, Done),
            Mark::PromptStart { seq } => (seq, PromptStart),
            Mark::PromptEnd { seq } => (seq, PromptEnd),
            // For the command that is typed at the prompt before that number.
            Mark::Taken { seq } => (seq, Taken),
            // The report of the next may be out before, and its prompt is still to come.
            Mark::Mended { seq } if self.last == Some((seq.saturating_add(1), Done)) => return mark,
            Mark::Mended { seq } => (seq, Mended),
            // It comes as often as there are lines, and is not to be replayed later.
            Mark::Unfinished { seq } => match self.last {
                Some((last, PromptEnd | Taken | Started | Reads)) if last == seq => return mark,
                // A shell that does not expand it.
                Some((last, PromptEnd)) if seq == 0 => return Mark::Unfinished { seq: last },
                _ => return Mark::Stale,
            },
            // It may come any number of times; and the shell may have taken a command, and not executed it.
            Mark::Cleared { seq } if matches!(self.last, Some((last, PromptEnd | Taken)) if last == seq) => {
                self.last = Some((seq, PromptEnd));
                return mark;
            }
            Mark::Cleared { .. }
            | Mark::Started { seq: 0 }
            | Mark::Shown { seq: 0 }
            | Mark::OutputEnd { seq: 0 }
            | Mark::Begun { seq: 0 }
            | Mark::Stale => return Mark::Stale,
            Mark::Reads { seq } => (seq, Reads),
            Mark::Started { seq } => (seq - 1, Started),
            Mark::Begun { seq } => (seq - 1, Begun),
            Mark::Shown { seq } => (seq - 1, Shown),
            Mark::OutputEnd { seq } => (seq - 1, OutputEnd),
        };
        if self.last.is_some_and(|last| last >= (seq, stage)) {
            return Mark::Stale;
        }
        self.last = Some((seq, stage));
        mark
    }
}

/// The bytes between a mark's kind (and code) and its number.
pub(super) fn tag(secret: &str) -> Vec<u8> {
    match secret {
        // No mark has this in it: there is nothing but text in one.
        "" => format!("{TAG}\0").into_bytes(),
        secret => format!("{TAG}{secret}.").into_bytes(),
    }
}

/// How long a mark can be.
pub(super) fn longest(tag: &[u8]) -> usize {
    // The kind, and for D a code of up to 11 characters; 20 digits; BEL.
    OPENING.len() + "D;-2147483648".len() + tag.len() + 20 + 1
}

/// The mark with these bytes, which lack the BEL at their end.
fn parsed(bytes: &[u8], tag: &[u8]) -> Option<Mark> {
    let body = bytes.strip_prefix(OPENING)?;
    let (&kind, rest) = body.split_first()?;
    let (code, rest) = match kind {
        b'D' => {
            let rest = rest.strip_prefix(b";")?;
            let length = memchr(b';', rest)?;
            (number(&rest[..length])?, &rest[length..])
        }
        _ => (0, rest),
    };
    let seq = number(rest.strip_prefix(tag)?)?;
    match kind {
        b'A' => Some(Mark::PromptStart { seq }),
        b'B' => Some(Mark::PromptEnd { seq }),
        b'C' => Some(Mark::Started { seq }),
        b'E' => Some(Mark::OutputEnd { seq }),
        b'K' => Some(Mark::Cleared { seq }),
        b'N' => Some(Mark::Mended { seq }),
        b'P' => Some(Mark::Unfinished { seq }),
        b'Q' => Some(Mark::Reads { seq }),
        b'R' => Some(Mark::Taken { seq }),
        b'S' => Some(Mark::Begun { seq }),
        b'V' => Some(Mark::Shown { seq }),
        // These hide output from readers of the log without marks.
        b'H' | b'I' => Some(Mark::Stale),
        b'D' => Some(Mark::Done { seq, code }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{pieces, rounds};
    use Mark::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn a(seq: u64) -> String {
        format!("\x1b]133;A;nbs={SECRET}.{seq}\x07")
    }

    fn b(seq: u64) -> String {
        format!("\x1b]133;B;nbs={SECRET}.{seq}\x07")
    }

    fn k(seq: u64) -> String {
        format!("\x1b]133;K;nbs={SECRET}.{seq}\x07")
    }

    fn c(seq: u64) -> String {
        format!("\x1b]133;C;nbs={SECRET}.{seq}\x07")
    }

    fn d(seq: u64, code: i32) -> String {
        format!("\x1b]133;D;{code};nbs={SECRET}.{seq}\x07")
    }

    fn found_in(pieces: &[&[u8]], offset: u64) -> Vec<FoundMark> {
        let mut marks = MarkParser::new(Some(SECRET), offset);
        let mut found = Vec::new();
        for piece in pieces {
            marks.feed(piece, &mut found);
            assert!(marks.held.len() < marks.longest);
            assert!(marks.held.capacity() < 160);
        }
        found
    }

    fn marks_in(text: &str) -> Vec<Mark> {
        let found = found_in(&[text.as_bytes()], 0);
        found.iter().map(|found| found.mark).collect()
    }

    #[test]
    fn a_session_is_read_in_order_with_the_offsets_of_its_marks() {
        let text =
            ["hello", &d(0, 0), &a(0), "$ ", &b(0), "ls\r\n", &c(1), "x\r\n", &d(1, 130), &a(1), "$ ", &b(1)];
        let found = found_in(&[text.concat().as_bytes()], 1000);
        let mut at = 1000;
        let mut expected = Vec::new();
        let marks = [
            Done { seq: 0, code: 0 },
            PromptStart { seq: 0 },
            PromptEnd { seq: 0 },
            Started { seq: 1 },
            Done { seq: 1, code: 130 },
            PromptStart { seq: 1 },
            PromptEnd { seq: 1 },
        ];
        let mut marks = marks.into_iter();
        for part in text {
            let (start, end) = (at, at + part.len() as u64);
            if part.starts_with('\x1b') {
                let mark = marks.next().unwrap();
                expected.push(FoundMark { mark, level: 0, start, end });
            }
            at = end;
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn more_is_wanted_only_at_the_prompt_that_stands() {
        let p = |seq: u64| a(seq).replace(";A;", ";P;");
        let text = [&b(4), &p(4), &p(4), &p(3), &c(5), &p(4), &d(5, 0), &p(4), &p(5), &b(5), &p(5)];
        let seqs: Vec<_> = marks_in(&text.map(|text| text.as_str()).concat())
            .into_iter()
            .filter(|mark| matches!(mark, Unfinished { .. } | Stale))
            .map(|mark| if let Unfinished { seq } = mark { Some(seq) } else { None })
            .collect();
        assert_eq!(seqs, [Some(4), Some(4), None, Some(4), None, None, Some(5)]);
    }

    #[test]
    fn each_shell_counts_for_itself() {
        let inner = SECRET.replace('0', "f");
        let of_inner = |mark: String| mark.replace(SECRET, &inner);
        let text = [a(3), b(3), c(4), of_inner(d(0, 0)), of_inner(b(0)), of_inner(c(1)), d(4, 7), b(4)];
        let text = [text.concat(), of_inner(d(1, 0)), of_inner(d(1, 0)), a(3)].concat();
        let seen = |mut marks: MarkParser| {
            let mut found = Vec::new();
            marks.feed(text.as_bytes(), &mut found);
            found.into_iter().map(|found| (found.level, found.mark)).collect::<Vec<_>>()
        };
        let all = seen(MarkParser::new([SECRET, &inner], 0));
        let expected = [
            (0, PromptStart { seq: 3 }),
            (0, PromptEnd { seq: 3 }),
            (0, Started { seq: 4 }),
            (1, Done { seq: 0, code: 0 }),
            (1, PromptEnd { seq: 0 }),
            (1, Started { seq: 1 }),
            (0, Done { seq: 4, code: 7 }),
            (0, PromptEnd { seq: 4 }),
            (1, Done { seq: 1, code: 0 }),
            (1, Stale),
            (0, Stale),
        ];
        assert_eq!(all, expected);
        // Its secret is not known.
        let other = MarkParser::new([SECRET], 0);
        assert!(seen(other).iter().all(|(level, _)| *level == 0));
        assert_eq!(seen(MarkParser::new([""; 1], 0)), []);
    }

    #[test]
    fn marks_of_others_are_not_found() {
        let ours = d(0, 0);
        let other = SECRET.replace('0', "f");
        for text in [
            "",
            "\x07",
            "\x1b",
            "\x1b]133;A\x07",
            "\x1b]133;D;0\x07",
            "\x1b]133;D;0;aid=1\x07",
            "\x1b[133;D;0;nbs=0.0\x07",
            &ours.replace(SECRET, &other),
            &ours.replace(SECRET, &SECRET[..31]),
            &ours.replace(SECRET, &SECRET.replace('a', "A")),
            &ours.replace(".0", "."),
            &ours.replace(".0", ".+0"),
            &ours.replace(".0", ".-1"),
            &ours.replace(".0", ".0 "),
            &ours.replace(".0", ".0;x=1"),
            &ours.replace(".0", ".18446744073709551616"),
            &ours.replace(";0;", ";;"),
            &ours.replace(";0;", ";+0;"),
            &ours.replace(";0;", ";2147483648;"),
            &ours.replace(";0;", ";0;aid=1;"),
            &ours.replace("D;0", "D"),
            &ours.replace("D;0", "A;0"),
            &ours.replace("D;0", "X"),
            &ours.replace("133", "1337"),
            &ours.replace('\x07', "\x1b\\"),
            &ours.replace('\x07', "\n\x07"),
            &ours.replace('\x1b', "^["),
            &format!("{}\x07", &ours[..ours.len() - 2]),
            &format!("\x1b]133;D;0;{}nbs={SECRET}.0\x07", "x".repeat(200)),
            &format!("\x1b]133;D;{}0;nbs={SECRET}.0\x07", "0".repeat(100)),
        ] {
            assert_eq!(marks_in(text), [], "{text:?}");
            // And it does not hide what follows, not even at once.
            let expected = [Done { seq: 0, code: 0 }];
            assert_eq!(marks_in(&format!("{text}{ours}")), expected, "{text:?}");
            let unfinished = text.strip_suffix('\x07').unwrap_or(text);
            assert_eq!(marks_in(&format!("{unfinished}{ours}")), expected, "{text:?}");
        }
    }

    #[test]
    fn the_longest_mark_is_found() {
        let mut marks = MarkParser::new(Some(SECRET), 0);
        marks.levels[0].reached.last = Some((u64::MAX - 1, MarkKind::Done));
        let mut found = Vec::new();
        marks.feed(d(u64::MAX, i32::MIN).as_bytes(), &mut found);
        let (seq, code) = (u64::MAX, i32::MIN);
        assert_eq!(found[0].mark, Done { seq, code });
        // There is none after that.
        for mark in [d(0, 0), d(u64::MAX, 0), c(0), c(u64::MAX - 1)] {
            found.clear();
            marks.feed(mark.as_bytes(), &mut found);
            assert_eq!(found[0].mark, Stale);
        }
    }

    #[test]
    fn only_what_comes_later_counts() {
        let prompt = |seq, code| d(seq, code) + &a(seq) + &b(seq);
        let prompt_marks = |seq, code| vec![Done { seq, code }, PromptStart { seq }, PromptEnd { seq }];
        let start = prompt(0, 0) + &c(1);
        let start_marks = [prompt_marks(0, 0), vec![Started { seq: 1 }]].concat();
        for (name, text, expected) in [
            ("an old log printed", start.clone(), vec![Stale; 4]),
            ("a number that leaves one out", d(2, 0), vec![Done { seq: 2, code: 0 }]),
            (
                "a prompt whose report is lost",
                a(1) + &b(1) + &d(1, 0),
                vec![PromptStart { seq: 1 }, PromptEnd { seq: 1 }, Stale],
            ),
            ("a start whose prompt is lost", c(2), vec![Started { seq: 2 }]),
            ("a start of nothing", c(0), vec![Stale]),
            ("a forged end of the next", d(1, 0) + &d(1, 5), vec![Done { seq: 1, code: 0 }, Stale]),
            (
                "a prompt drawn again",
                prompt(1, 3) + &b(1) + &a(1) + &b(1) + &c(2) + &b(1) + &c(2),
                [prompt_marks(1, 3), vec![Stale; 3], vec![Started { seq: 2 }], vec![Stale; 2]].concat(),
            ),
            (
                "an end before its start",
                d(1, 0) + &b(1) + &a(1) + &c(2),
                vec![Done { seq: 1, code: 0 }, PromptEnd { seq: 1 }, Stale, Started { seq: 2 }],
            ),
            (
                "B and C that went elsewhere",
                d(1, 0) + &a(1) + &d(2, 1) + &d(3, 0),
                vec![
                    Done { seq: 1, code: 0 },
                    PromptStart { seq: 1 },
                    Done { seq: 2, code: 1 },
                    Done { seq: 3, code: 0 },
                ],
            ),
            (
                "a line that is dropped, twice",
                d(1, 0) + &b(1) + &k(1) + &b(1) + &k(1) + &k(2) + &c(2) + &k(1),
                vec![
                    Done { seq: 1, code: 0 },
                    PromptEnd { seq: 1 },
                    Cleared { seq: 1 },
                    Stale,
                    Cleared { seq: 1 },
                    Stale,
                    Started { seq: 2 },
                    Stale,
                ],
            ),
            (
                "a start right after an end",
                d(1, 0) + &c(2) + &b(1),
                vec![Done { seq: 1, code: 0 }, Started { seq: 2 }, Stale],
            ),
        ] {
            let all = [start_marks.clone(), expected].concat();
            assert_eq!(marks_in(&(start.clone() + &text)), all, "{name}");
        }
    }

    #[test]
    fn any_split_gives_what_one_feed_gives() {
        for (seed, mut random) in rounds(300) {
            let (text, expected) = made_up(&mut random);
            let whole = found_in(&[&text], 7);
            assert_eq!(whole, expected, "seed {seed}");
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            assert_eq!(found_in(&bytes, 7), whole, "seed {seed}");
            assert_eq!(found_in(&pieces(&text, 90, &mut random), 7), whole, "seed {seed}");
        }
    }

    /// Output with marks and much that resembles them, and the marks in it by the rules in their plainest
    /// form: a list of those that have counted.
    fn made_up(random: &mut fastrand::Rng) -> (Vec<u8>, Vec<FoundMark>) {
        let mut text = Vec::new();
        let mut found = Vec::new();
        let mut counted: Vec<Mark> = Vec::new();
        for _ in 0..random.usize(..60) {
            let near = |random: &mut fastrand::Rng, last: u64| (last + random.u64(..4)).max(1) - 1;
            let last = counted.iter().filter(|mark| matches!(mark, Done { .. }));
            let last = (last.count() as u64).saturating_sub(1);
            let seq = near(random, last);
            let (bytes, mark) = match random.u8(..16) {
                0..3 => (d(seq, -5), Done { seq, code: -5 }),
                3..5 => (a(seq), PromptStart { seq }),
                5..7 => (b(seq), PromptEnd { seq }),
                7..9 => (c(seq), Started { seq }),
                9 => (c(seq).replace('C', "R"), Taken { seq }),
                10 => (c(seq).replace('C', "N"), Mended { seq }),
                11 => (c(seq).replace('C', "E"), OutputEnd { seq }),
                12 => (c(seq).replace('C', "V"), Shown { seq }),
                13 => {
                    let whole = d(seq, 1);
                    text.extend_from_slice(&whole.as_bytes()[..random.usize(..whole.len())]);
                    // A mark that is cut off must not be completed by later bytes.
                    text.push(b'\n');
                    continue;
                }
                _ => {
                    let noise = 0..random.usize(..40);
                    text.extend(noise.map(|_| *random.choice(b"\x1b\x1b]]133;;ADnbs=0\x07 z\n").unwrap()));
                    text.push(b'\n');
                    continue;
                }
            };
            let start = 7 + text.len() as u64;
            text.extend_from_slice(bytes.as_bytes());
            let end = 7 + text.len() as u64;
            let place = |mark: &Mark| match *mark {
                Done { seq, .. } => seq * 8,
                PromptStart { seq } => seq * 8 + 1,
                PromptEnd { seq } => seq * 8 + 2,
                Taken { seq } => seq * 8 + 3,
                Started { seq } => (seq * 8).saturating_sub(4),
                OutputEnd { seq } => (seq * 8).saturating_sub(3),
                Shown { seq } => (seq * 8).saturating_sub(2),
                Mended { seq } => seq * 8 + 7,
                Cleared { .. } | Unfinished { .. } | Reads { .. } | Begun { .. } | Stale => 0,
            };
            let starts_nothing = matches!(mark, Started { seq: 0 } | OutputEnd { seq: 0 } | Shown { seq: 0 });
            let is_out = |seq: u64| counted.last().is_some_and(|last| place(last) == (seq + 1) * 8);
            if let Mended { seq } = mark
                && is_out(seq)
            {
                found.push(FoundMark { mark, level: 0, start, end });
                continue;
            }
            let counts = !starts_nothing && counted.iter().all(|earlier| place(earlier) < place(&mark));
            if counts {
                counted.push(mark);
            }
            let mark = if counts { mark } else { Stale };
            found.push(FoundMark { mark, level: 0, start, end });
        }
        (text, found)
    }
}
