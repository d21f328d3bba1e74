//! Output as a person sees it, without the echo of typed text.
//!
//! Pure: the log's bytes and the typed text with its offsets go in, text comes out. Escape sequences are left
//! out, `\r\n` is `\n`, and a `\r` at the beginning of a line, which moves nothing, is left out.
//!
//! The echo of a typed line is:
//!
//! - with the kernel's echo on: its first occurrence at the end of a line. The kernel echoes at once, so
//!   nothing else can come first; a second occurrence (cat's answer) is output. But a line editor that gets
//!   the line later draws it once more: that occurrence is an echo if it follows nothing but a prompt. A
//!   prompt is one at which some line was typed, or, as there may have been none yet, a text that ends as
//!   prompts do: `> `, `$ `, `# `, `% `, `) `.
//! - typed at a line editor: its first occurrence behind such a prompt, or behind nothing. An occurrence
//!   behind nothing may be the kernel's echo, if the editor released the terminal before the kernel processed
//!   the typed text: then a later occurrence behind a prompt is an echo, too. If the terminal's width makes
//!   the editor continue in the next row, ` \r` is not part of the text.
//! - typed at a prompt of our own shell: the rest of that line, or, if more than text was typed, everything
//!   up to the mark that the command's output begins, whatever readline draws (completions, a history
//!   search).
//!
//! An incomplete echo is held back. So is a line without its end, because more may be typed.

use std::collections::VecDeque;

use memchr::memmem;

use crate::{
    session::{
        client::input_history::{Keys, Mode},
        shell::marks::{self, OPENING},
    },
    terminal::{
        queries::{Part, Sequences},
        text::{Strip, stripped},
    },
};

/// More text in one line than this, and it is no echo.
const LONGEST_LINE: usize = 128 * 1024;
const MOST_EXPECTED: usize = 1_000;
const MOST_PROMPTS: usize = 16;

pub(crate) struct EchoFilter {
    tags: Vec<Vec<u8>>,
    strip: Strip,
    /// The offset in the log of the next byte of `text`.
    offset: u64,
    sequences: Sequences,
    /// The text typed further on in the log.
    keys: VecDeque<Keys>,
    /// From here on text comes out.
    anchor: u64,
    carriage_returns: usize,
    /// The present line, and how much of it has come out or never will.
    line: Vec<u8>,
    done: usize,
    /// The shell's line editor has the present line.
    editing: bool,
    /// How many ends of lines have been typed there, and are still to be echoed.
    enters: usize,
    /// Keys have been typed there whose drawing cannot be predicted.
    fancy: bool,
    /// The output belongs to text that nbs, not the user, types to the shell.
    hidden: bool,
    /// A command has ended since that began.
    is_done: bool,
    expected: VecDeque<Expected>,
    prompts: Vec<Vec<u8>>,
}

/// A line, or a part of one, that was typed and may be echoed.
struct Expected {
    text: Vec<u8>,
    /// Its end has been typed, too.
    ended: bool,
    by_kernel: bool,
    typed_raw: bool,
    /// The text before it on its line, if that is known.
    at: Option<Vec<u8>>,
}

impl EchoFilter {
    /// For the log's bytes from `start` on, the beginning of a line; `secrets` as of
    /// [`MarkParser::new`].
    ///
    /// [`MarkParser::new`]: crate::session::shell::marks::MarkParser::new
    pub(crate) fn new<S: AsRef<str>>(
        secrets: impl IntoIterator<Item = S>,
        start: u64,
        anchor: u64,
    ) -> EchoFilter {
        EchoFilter {
            tags: secrets.into_iter().map(|secret| marks::tag(secret.as_ref())).collect(),
            hidden: false,
            is_done: false,
            strip: Strip::new(),
            offset: start,
            sequences: Sequences::default(),
            keys: VecDeque::new(),
            anchor,
            carriage_returns: 0,
            line: Vec::new(),
            done: 0,
            editing: false,
            enters: 0,
            fancy: false,
            expected: VecDeque::new(),
            prompts: Vec::new(),
        }
    }

    /// Adds typed keys; must be called before the output that follows them.
    pub(crate) fn note_typed(&mut self, keys: impl IntoIterator<Item = Keys>) {
        self.keys.extend(keys);
    }

    /// Appends to `out` what text there is in the log so far.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut sequences = std::mem::take(&mut self.sequences);
        sequences.feed(bytes, &mut |part, _| match part {
            Part::Other(bytes) | Part::Copied(bytes) => self.segment(bytes, out),
            Part::Sequence(sequence) => {
                if let Some(mark) = sequence.bytes.strip_prefix(OPENING)
                    && self.tags.iter().any(|tag| memmem::find(mark, tag).is_some())
                {
                    self.handle_mark(mark[0], out);
                }
                self.segment(sequence.bytes, out);
            }
        });
        self.sequences = sequences;
        self.let_out(out);
    }

    /// The next `count` bytes of the log are gone, possibly with the ends of a line or of a sequence.
    pub(crate) fn skip(&mut self, count: u64, out: &mut Vec<u8>) {
        if count == 0 {
            return;
        }
        self.finish(out);
        // Nothing is to be found that begins before them and ends behind.
        out.push(b'\n');
        self.offset += count;
        self.carriage_returns = 0;
        self.editing = false;
        self.begin_line();
    }

    /// No more will come.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let unfinished = self.sequences.finish();
        self.segment(&unfinished, out);
        let mut plain = Vec::new();
        self.strip.finish(&mut plain);
        self.text(&plain, out);
        if !self.editing {
            self.emit(self.line.len(), out);
        }
    }

    fn handle_mark(&mut self, kind: u8, out: &mut Vec<u8>) {
        self.is_done |= kind == b'D';
        if self.hidden && (kind == b'I' || kind == b'B' && self.is_done) {
            (self.hidden, self.editing) = (false, false);
            self.expected.clear();
            self.begin_line();
        }
        match kind {
            b'H' => {
                if !self.editing {
                    self.emit(self.line.len(), out);
                }
                (self.hidden, self.is_done) = (true, false);
            }
            b'A' | b'C' | b'S' => {
                if !self.editing {
                    self.emit(self.line.len(), out);
                }
                self.editing = false;
                self.begin_line();
            }
            b'B' => {
                let prompt = cooked(&self.line);
                self.learn(prompt);
            }
            _ => {}
        }
    }

    /// Up to the next mark.
    fn segment(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        loop {
            while self.keys.front().is_some_and(|keys| keys.offset <= self.offset) {
                if let Some(keys) = self.keys.pop_front() {
                    self.expect(keys);
                }
            }
            if self.offset == self.anchor {
                self.done = self.line.len();
            }
            if bytes.is_empty() {
                return;
            }
            let stops = [self.keys.front().map(|keys| keys.offset), Some(self.anchor)];
            let stop = stops.into_iter().flatten().filter(|stop| *stop > self.offset).min();
            let length = stop
                .and_then(|stop| usize::try_from(stop - self.offset).ok())
                .map_or(bytes.len(), |length| length.min(bytes.len()));
            let (now, later) = bytes.split_at(length);
            self.filter(now, out);
            self.offset += length as u64;
            bytes = later;
        }
    }

    fn filter(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut plain = Vec::with_capacity(bytes.len());
        self.strip.feed(bytes, &mut plain);
        self.text(&plain, out);
    }

    fn text(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        if self.hidden {
            return;
        }
        for &byte in plain {
            match byte {
                b'\r' => self.carriage_returns += 1,
                b'\n' => {
                    self.carriage_returns = 0;
                    self.end_line(out);
                }
                _ => {
                    if !self.line.is_empty() {
                        self.line.extend(std::iter::repeat_n(b'\r', self.carriage_returns));
                    }
                    self.carriage_returns = 0;
                    self.line.push(byte);
                }
            }
        }
        if self.line.len() > LONGEST_LINE {
            self.emit(self.line.len(), out);
            self.line.clear();
            self.done = 0;
        }
    }

    fn expect(&mut self, keys: Keys) {
        // Pasted text comes between sequences that nothing echoes.
        let typed = stripped(&keys.bytes);
        let by_kernel = keys.mode == Mode::Lines;
        let typed_raw = keys.mode != Mode::Lines;
        let mut lines = typed.split_inclusive(|byte| matches!(byte, b'\r' | b'\n'));
        if keys.mode == Mode::Prompt {
            if !self.editing {
                (self.editing, self.enters, self.fancy) = (true, 0, false);
            }
            let first = lines.next().unwrap_or_default();
            let (text, end) = match first.split_last() {
                Some((b'\r' | b'\n', text)) => (text, 1),
                _ => (first, 0),
            };
            self.enters += end;
            self.fancy |= text.iter().any(u8::is_ascii_control) || typed != keys.bytes;
        }
        for line in lines {
            for run in line.split_inclusive(|byte| byte.is_ascii_control()) {
                let ended = run.ends_with(b"\r") || run.ends_with(b"\n");
                let text = match run.split_last() {
                    Some((last, text)) if last.is_ascii_control() => text,
                    _ => run,
                };
                match self.expected.back_mut() {
                    Some(last)
                        if !last.ended && last.by_kernel == by_kernel && last.typed_raw == typed_raw =>
                    {
                        last.text.extend_from_slice(text);
                        last.ended = ended;
                    }
                    _ => {
                        // The first of several is typed on the present line.
                        let first = !self.expected.iter().any(|other| other.typed_raw == typed_raw);
                        let at = first.then(|| cooked(&self.line));
                        if let Some(prompt) = at.clone().filter(|prompt| typed_raw && !prompt.is_empty()) {
                            self.learn(prompt);
                        }
                        self.expected.push_back(Expected {
                            text: text.to_vec(),
                            ended,
                            by_kernel,
                            typed_raw,
                            at,
                        });
                    }
                }
            }
        }
        while self.expected.len() > MOST_EXPECTED {
            self.expected.pop_front();
        }
    }

    fn learn(&mut self, prompt: Vec<u8>) {
        if prompt.len() <= 400 && !self.prompts.contains(&prompt) {
            self.prompts.push(prompt);
            if self.prompts.len() > MOST_PROMPTS {
                self.prompts.remove(0);
            }
        }
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        if self.editing {
            self.begin_line();
            if self.enters > 0 && !self.fancy {
                self.enters -= 1;
                self.editing = self.enters > 0;
            }
            return;
        }
        if let Some(length) = self.take_kernel_echo() {
            let keep = self.line.len() - length;
            self.emit(keep, out);
        } else if let Some(prefix) = self.take_editor_echo() {
            self.emit(prefix.min(self.line.len()), out);
        } else {
            self.emit(self.line.len(), out);
        }
        if self.offset >= self.anchor {
            out.push(b'\n');
        }
        self.begin_line();
    }

    fn begin_line(&mut self) {
        self.line.clear();
        self.done = 0;
    }

    /// The length of the kernel's echo at the end of the present line.
    fn take_kernel_echo(&mut self) -> Option<usize> {
        let line = &self.line;
        let at = self
            .expected
            .iter()
            .position(|expected| expected.by_kernel && expected.ended && line.ends_with(&expected.text))?;
        self.expected[at].by_kernel = false;
        Some(self.expected[at].text.len())
    }

    /// Returns the length of the text before a line editor's echo in the present line.
    fn take_editor_echo(&mut self) -> Option<usize> {
        if self.expected.is_empty() {
            return None;
        }
        let plain = cooked(&self.line);
        let redrawn = without_redrawn(&self.line);
        [redrawn, Some(plain)].into_iter().flatten().find_map(|plain| self.take_editor_echo_of(&plain))
    }

    fn take_editor_echo_of(&mut self, plain: &[u8]) -> Option<usize> {
        let at = self.expected.iter().position(|expected| {
            let Some(prefix) = plain.strip_suffix(expected.text.as_slice()) else { return false };
            let typed_here = expected.typed_raw
                && expected.at.as_ref().is_some_and(|at| match expected.text.as_slice() {
                    [] => plain == at.as_slice(),
                    _ => plain.starts_with(at.as_slice()),
                });
            !expected.by_kernel
                && expected.ended
                && (typed_here
                    || self.prompts.iter().any(|prompt| prompt == prefix)
                    || (expected.typed_raw && prefix.is_empty())
                    || ends_like_a_prompt(prefix))
        })?;
        let prefix = plain.len() - self.expected[at].text.len();
        if prefix == 0 && !plain.is_empty() && self.expected[at].typed_raw {
            (0..at).for_each(|_| drop(self.expected.pop_front()));
            self.expected[0].typed_raw = false;
        } else {
            self.learn(plain[..prefix].to_vec());
            (0..=at).for_each(|_| drop(self.expected.pop_front()));
        }
        Some(prefix)
    }

    /// Passes on the part of the present line that is not the beginning of an echo.
    fn let_out(&mut self, out: &mut Vec<u8>) {
        if self.editing {
            self.done = self.line.len();
            return;
        }
        let held = self.length_of_beginning();
        let end = self.line.len() - held;
        if end > self.done {
            self.emit(end, out);
        }
    }

    fn length_of_beginning(&self) -> usize {
        let plain = cooked(&self.line);
        let longest = self.expected.iter().map(|expected| expected.text.len()).max().unwrap_or(0);
        let is_one = |tail: &[u8]| self.expected.iter().any(|expected| expected.text.starts_with(tail));
        let beginning = |plain: &[u8]| {
            let from = plain.len() - longest.min(plain.len());
            (from..plain.len()).find(|start| is_one(&plain[*start..]))
        };
        if let Some(end) = memchr::memrchr(b'\r', &self.line) {
            // The whole line, and the line before the cursor went to the next row.
            let lines = [&self.line[..], &self.line[..end]];
            let lines = lines.into_iter().flat_map(|line| [Some(line), line.strip_suffix(b" ")]).flatten();
            let mut once = lines.map(|line| without_redrawn(line).unwrap_or_else(|| line.to_vec()));
            if once.any(|plain| beginning(&plain).is_some()) {
                return self.line.len() - self.done;
            }
        }
        // The last space may be the one that continues in the next row.
        let spaceless = plain.strip_suffix(b" ").and_then(beginning);
        let Some(start) = beginning(&plain).into_iter().chain(spaceless).min() else { return 0 };
        // After carriage returns, the positions do not match.
        if plain.len() == self.line.len() { plain.len() - start } else { self.line.len() - self.done }
    }

    /// Lets out the present line up to `end`.
    fn emit(&mut self, end: usize, out: &mut Vec<u8>) {
        if end > self.done {
            if self.offset >= self.anchor {
                out.extend_from_slice(&self.line[self.done..end]);
            }
            self.done = end;
        }
    }
}

/// A line as the screen shows it, with the sequences that line editors use.
fn cooked(line: &[u8]) -> Vec<u8> {
    let plain = stripped(line);
    let mut cooked = Vec::with_capacity(plain.len());
    for (at, &byte) in plain.iter().enumerate() {
        match byte {
            // A space that only makes the terminal go on in the next row.
            b' ' if plain.get(at + 1) == Some(&b'\r') => {}
            b'\r' | 0x07 => {}
            _ => cooked.push(byte),
        }
    }
    cooked
}

/// The line, if an editor has drawn something twice at the end of a row. readline does so if a text ends at
/// the right margin: it goes on to the next row, and then back up to draw the last character again; if it
/// treats a byte as a character, all of that row again, and at each margin the character behind it. Without
/// escape sequences both look like text.
fn without_redrawn(line: &[u8]) -> Option<Vec<u8>> {
    let mut rows = line.split(|byte| *byte == b'\r').filter(|row| !row.is_empty());
    let mut once = rows.next()?.to_vec();
    let mut rows = rows.peekable();
    rows.peek()?;
    while let Some(row) = rows.next() {
        let is_last = rows.peek().is_none();
        if once.pop_if(|last| *last == b' ').is_none() {
            once.extend_from_slice(if once.last() == row.first() { &row[1..] } else { row });
        } else if !is_last || !once.ends_with(row) {
            once.extend_from_slice(row);
        }
    }
    once.retain(|byte| *byte != 0x07);
    Some(once)
}

pub(crate) fn ends_like_a_prompt(line: &[u8]) -> bool {
    [b"> ", b"$ ", b"# ", b"% ", b") "].iter().any(|end| line.ends_with(*end)) || line == b"... "
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(offset: u64, mode: Mode, bytes: &str) -> Keys {
        Keys { offset, mode, bytes: bytes.into() }
    }

    /// The same for any way of splitting the output.
    fn seen(typed: &[Keys], log: &str, anchor: u64) -> String {
        let all = seen_in_pieces(typed, log, anchor, log.len().max(1));
        for length in 1..log.len().min(40) {
            assert_eq!(seen_in_pieces(typed, log, anchor, length), all, "in pieces of {length}");
        }
        all
    }

    fn seen_in_pieces(typed: &[Keys], log: &str, anchor: u64, length: usize) -> String {
        let mut echo = EchoFilter::new(Some("5ec2e7"), 0, anchor);
        echo.note_typed(typed.to_vec());
        let mut out = Vec::new();
        for piece in log.as_bytes().chunks(length) {
            echo.feed(piece, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_echo_of_the_kernel_is_left_out_once() {
        let typed = [keys(0, Mode::Lines, "DONE\r")];
        assert_eq!(seen(&typed, "DONE\r\nDONE\r\n", 0), "\nDONE\n");
        assert_eq!(seen(&typed, "DONE\r\ngot: DONE\r\n", 0), "\ngot: DONE\n");
        assert_eq!(seen(&typed, "50%DONE\r\nDONE", 0), "50%\n");
        let typed = [keys(2, Mode::Lines, "echo DONE\r")];
        assert_eq!(seen(&typed, "# echo DONE\r\nDONE\r\n# ", 2), "\nDONE\n# ");
    }

    #[test]
    fn drawings_of_a_line_editor_are_left_out() {
        let typed = [keys(4, Mode::Raw, "print('DONE')\r")];
        assert_eq!(seen(&typed, ">>> print('DONE')\r\nDONE\r\n>>> ", 4), "\nDONE\n>>> ");
        // Wrapped.
        assert_eq!(seen(&typed, ">>> print( \r'DONE')\r\nDONE\r\n>>> ", 4), "\nDONE\n>>> ");
        // With a colour, and a switch of modes.
        let log = ">>> \x1b[1mprint\x1b[m('DONE')\r\n\x1b[?2004l\rDONE\r\n>>> ";
        assert_eq!(seen(&typed, log, 4), "\nDONE\n>>> ");
        // The same once more is output.
        assert_eq!(seen(&typed, ">>> print('DONE')\r\nprint('DONE')\r\n", 4), "\nprint('DONE')\n");
    }

    #[test]
    fn a_line_redrawn_at_the_margin_is_left_out() {
        let typed = [keys(4, Mode::Raw, "s = 'DONE'\r")];
        for drawn in [
            "s = 'DONE' \r\x1b[K\x1b[A\x1b[79C'",
            "s = 'DONE' \r\x1b[A>>> s = 'DONE\x1b[K'",
            "s = 'DO\rONE'",
            "s = 'D\rDONE' \r\x1b[ADONE'",
        ] {
            let log = format!(">>> {drawn}\r\n>>> ");
            assert_eq!(seen(&typed, &log, 4), "\n>>> ", "{drawn:?}");
        }
    }

    #[test]
    fn an_echo_may_come_late_and_twice() {
        let typed = [keys(4, Mode::Raw, "slow()\r"), keys(12, Mode::Lines, "print('DONE')\r")];
        let log = ">>> slow()\r\nprint('DONE')\r\n>>> print('DONE')\r\nDONE\r\n>>> ";
        assert_eq!(seen(&typed, log, 12), "\n>>> \nDONE\n>>> ");
        // Typed while the editor was letting go of the terminal.
        let typed = [keys(4, Mode::Raw, "slow()\rprint('DONE')\r")];
        assert_eq!(seen(&typed, log, 12), "\n>>> \nDONE\n>>> ");
        assert_eq!(seen(&typed, log, 4), "\n\n>>> \nDONE\n>>> ");
        assert_eq!(seen(&typed, &log.replace(">>> p", "p"), 4), "\n\nprint('DONE')\nDONE\n>>> ");
        let typed = [keys(12, Mode::Raw, "print('DONE')\r")];
        assert_eq!(seen(&typed, log, 12), "\n>>> \nDONE\n>>> ");
        let log = "print('DONE')\r\nprint('DONE')\r\n>>> print('DONE')\r\n";
        assert_eq!(seen(&[keys(0, Mode::Raw, "print('DONE')\r")], log, 0), "\nprint('DONE')\n>>> \n");
        // Two lines at once, the second of which is not echoed before its time.
        let typed = [keys(4, Mode::Raw, "slow()\rprint('DONE')\r")];
        let log = ">>> slow()\r\nslowly\r\n>>> print('DONE')\r\nDONE\r\n>>> ";
        assert_eq!(seen(&typed, log, 4), "\nslowly\n>>> \nDONE\n>>> ");
    }

    #[test]
    fn at_a_prompt_of_our_shell_all_is_echo_until_its_mark() {
        let mark = |kind: &str, seq| format!("\x1b]133;{kind};nbs=5ec2e7.{seq}\x07");
        let prompt = [mark("A", 1), "$ ".into(), mark("B", 1)].concat();
        let at = prompt.len() as u64;
        let typed = [keys(at, Mode::Prompt, "echo DO\tNE\r"), keys(at, Mode::Raw, "echo late\r")];
        let log = [
            &prompt,
            "echo DODONE\r\nDOOM DONE\r\n$ echo DONE\r\n",
            &mark("C", 2),
            "DONE\r\n",
            &mark("D;0", 2),
            &mark("A", 2),
            "$ ",
            &mark("B", 2),
            "echo late\r\n",
            &mark("C", 3),
            "late\r\n",
        ]
        .concat();
        assert_eq!(seen(&typed, &log, at), "DONE\n$ \nlate\n");
    }

    #[test]
    fn an_error_message_of_the_shell_is_output() {
        let typed = [keys(2, Mode::Prompt, "echo )\r")];
        let log = "$ echo )\r\n\x1b[?2004l\rbash: syntax error\r\n";
        assert_eq!(seen(&typed, log, 2), "bash: syntax error\n");
    }

    #[test]
    fn an_unfinished_line_is_held_back() {
        let typed = [keys(0, Mode::Lines, "DO"), keys(2, Mode::Lines, "NE\r")];
        assert_eq!(seen(&typed[..1], "DO", 0), "");
        assert_eq!(seen(&typed, "DONE\r\nDONE\r\n", 0), "\nDONE\n");
    }
}
