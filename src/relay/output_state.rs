//! The state that a terminal's output has for the relay: the shell's marks, and the program's settings and
//! queries of its terminal.
//!
//! Pure: bytes in, the same for any way of splitting them. Only bytes that are in output.log are fed to it: a
//! mark counts only when its receivers can read all before it.

use std::ops::Range;

use memchr::memmem;

use crate::{
    session::{
        Completion,
        client::{
            INTERRUPT, PromptState,
            sending::{PASTE, PASTE_END},
        },
        shell::{CLEAR, Dialect, FoundMark, Mark, MarkParser},
    },
    terminal::{
        queries::{KittyFlags, MOST_ASKED, Part, PrivateModes, Query, Sequences},
        said::Said,
    },
};

pub(crate) struct OutputState {
    // How many bytes there have been.
    length: u64,
    marks: MarkParser,
    sequences: Sequences,
    private: PrivateModes,
    kitty: KittyFlags,
    // The program's own reports.
    said: Said,
    // The program's queries of its terminal, each with the offset of its end in the log, and their weight.
    // Invariant: no more than `MOST_ASKED`.
    asked: Vec<(u64, Query)>,
    asked_weight: usize,
    // The last input before the prompt does not end a line: it is at the next prompt.
    half_line: bool,
    // The shell has dropped the text at its prompt, and is about to draw the prompt again.
    cleared: bool,
    // The last input at the prompt is an interrupt, and the shell has not reported since that it has
    // processed it.
    interrupted: bool,
    // The input is in the middle of a bracketed paste.
    pasting: bool,
    prompt: PromptState,
    // The shell has taken what `run` hands over, and does not execute it yet.
    taken: bool,
    // Where a nested shell has reported that it reads a text, until it is fetched.
    reading: Option<u64>,
    // Whether a command has begun, and has ended, until it is fetched.
    edges: Edges,
    // The number of bytes at the last reportable event.
    told: u64,
    last_completion: Option<u64>,
    // The shells that report, and which of them did so last.
    levels: Vec<Numbering>,
    level: usize,
    // The shells that have reported for the first time, and the one that is still to.
    joined: Vec<usize>,
    awaited: Option<usize>,
    // The marks in the last stretch.
    found: Vec<FoundMark>,
    // For the history, until they are fetched.
    steps: Vec<CommandStep>,
    // The directory that was reported last, until a prompt begins.
    folder: Option<Vec<u8>>,
    // How many lines have been typed whose commands have not begun.
    lines_typed: usize,
}

/// The edges of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edges {
    /// A command has begun. A taken command begins then, unless a later mark reports it.
    pub(crate) begun: bool,
    /// One has ended.
    pub(crate) ended: bool,
}

/// A command that is done, by its number in its shell, too.
pub(crate) struct DoneCommand {
    pub(crate) level: usize,
    pub(crate) seq: u64,
    pub(crate) completion: Completion,
}

/// The progress of a shell's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandStep {
    /// It has begun. Its prompt was drawn from `prompt` on, and its output comes behind `output`. It has so many
    /// lines, as its shell has asked for more; 0 if a line editor draws them.
    Begun { command: CommandOf, prompt: u64, output: u64, folder: Option<Vec<u8>>, lines: usize },
    /// Its next line was typed before its shell asked for that, and its output comes behind `output`.
    Continued { command: CommandOf, output: u64 },
    /// The prompt of a shell ends that does not report that a command begins.
    SilentPrompt { level: usize, end: u64 },
    /// It has ended, at this length of the log.
    Ended { command: CommandOf, code: i32, end: u64 },
}

/// The shell of a command, and the command's number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandOf {
    pub(crate) level: usize,
    pub(crate) seq: u64,
    pub(crate) dialect: Dialect,
}

/// A shell that reports.
#[derive(Default)]
struct Numbering {
    // Its last number, and what that number lacks to the number of the session's completion.
    last: Option<u64>,
    ahead: i64,
    dialect: Option<Dialect>,
    // Such a line may end; its editor shows it, and not the terminal.
    reads: bool,
    edits: bool,
    // How often it has asked for more of a command since its prompt.
    unfinished: usize,
    // The last command whose end is among the steps.
    done: Option<u64>,
    // The start of its prompt, the end of its command's output, and its directory.
    prompt: u64,
    output_end: Option<u64>,
    folder: Option<Vec<u8>>,
}

impl Numbering {
    /// It does not report that a command begins: the line that is entered at its prompt does.
    fn is_silent(&self) -> bool {
        self.dialect == Some(Dialect::Posix)
    }
}

impl CommandOf {
    /// Its shell reports that it begins.
    pub(crate) fn is_told(self) -> bool {
        self.dialect != Dialect::Posix
    }
}

impl OutputState {
    /// For the terminal of a shell whose marks carry this secret; an empty one: of a program without marks.
    pub(crate) fn new(secret: &str) -> OutputState {
        OutputState {
            levels: vec![Numbering::default()],
            level: 0,
            joined: Vec::new(),
            awaited: None,
            length: 0,
            marks: MarkParser::new([secret], 0),
            sequences: Sequences::default(),
            private: PrivateModes::default(),
            kitty: KittyFlags::default(),
            said: Said::default(),
            asked: Vec::new(),
            asked_weight: 0,
            half_line: false,
            cleared: false,
            interrupted: false,
            pasting: false,
            prompt: PromptState::Unknown,
            taken: false,
            reading: None,
            edges: Edges::default(),
            told: 0,
            last_completion: None,
            found: Vec::new(),
            steps: Vec::new(),
            folder: None,
            lines_typed: 0,
        }
    }

    /// Sets the dialect of the session's own shell.
    pub(crate) fn note_dialect(&mut self, dialect: Dialect) {
        self.levels[0].dialect = Some(dialect);
    }

    /// Something is typed: does a line editor read it, if the shell is at its prompt?
    pub(crate) fn note_editor(&mut self, edits: bool) {
        if self.prompt.is_there() {
            self.levels[self.level].edits = edits;
        }
    }

    /// The progress of commands since the last call, in order.
    pub(crate) fn take_steps(&mut self) -> Vec<CommandStep> {
        std::mem::take(&mut self.steps)
    }

    /// How many bytes have been printed.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The number of bytes at the last output that a call which runs a command must know at once: output, or
    /// a request of the shell. The steps between two prompts, and the drawing of one, do not count.
    pub(crate) fn told(&self) -> u64 {
        self.told
    }

    /// The shell's state, according to its marks.
    pub(crate) fn prompt(&self) -> PromptState {
        self.prompt
    }

    /// The modes that the program has set.
    pub(crate) fn private(&self) -> PrivateModes {
        self.private
    }

    /// How it has asked for keys by kitty's protocol.
    pub(crate) fn kitty_flags(&self) -> u8 {
        self.kitty.now(self.private.alternate())
    }

    /// The program's own reports.
    pub(crate) fn said(&self) -> &Said {
        &self.said
    }

    pub(crate) fn said_mut(&mut self) -> &mut Said {
        &mut self.said
    }

    /// The number of the last command that a shell has reported, in the session.
    pub(crate) fn last_completion(&self) -> Option<u64> {
        self.last_completion
    }

    /// The shell that has reported last, and the number that it gave its last command.
    pub(crate) fn level(&self) -> (usize, Option<u64>) {
        (self.level, self.levels[self.level].last)
    }

    /// One more shell is about to report, with this secret; another that was about to will
    /// not.
    pub(crate) fn await_level(&mut self, secret: &str, dialect: Dialect) {
        if self.awaited.take().is_some() {
            self.marks.take_back();
            self.levels.pop();
        }
        self.marks.add(secret);
        self.levels.push(Numbering { dialect: Some(dialect), ..Numbering::default() });
        self.awaited = Some(self.levels.len() - 1);
    }

    /// The shells that have reported for the first time since this was last called.
    pub(crate) fn take_joined(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.joined)
    }

    /// The size has changed, which the program may want reported.
    pub(crate) fn note_resized(&mut self) {
        if self.private.has(2048) {
            self.asked_weight += Query::SizeReport.weight();
            self.asked.push((self.length, Query::SizeReport));
        }
    }

    /// The program's queries of its terminal since the last call.
    pub(crate) fn take_asked(&mut self) -> Vec<(u64, Query)> {
        self.asked_weight = 0;
        std::mem::take(&mut self.asked)
    }

    /// The offset at which a nested shell has reported since the last call that it reads a text.
    pub(crate) fn take_reading(&mut self) -> Option<u64> {
        self.reading.take()
    }

    /// Whether commands have begun and ended since the last call.
    pub(crate) fn take_edges(&mut self) -> Edges {
        std::mem::take(&mut self.edges)
    }

    /// An answer has been typed to a program that reads lines: it may stay unread.
    pub(crate) fn note_answered_ahead(&mut self) {
        self.half_line = true;
    }

    /// These bytes have been typed; `held`: the terminal has a part of a line that is not ended; `to_shell`:
    /// their reader is the shell that reports, and not a program that it has started.
    pub(crate) fn note_typed(&mut self, bytes: &[u8], held: bool, to_shell: bool) {
        let ends_line = self.ends_line(bytes);
        if ends_line {
            // Earlier input, if no command has begun since, was for another program.
            let before = if self.prompt.is_there() { 0 } else { self.lines_typed };
            let count = bytes.iter().filter(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.lines_typed = before.saturating_add(count);
        }
        if !bytes.is_empty() {
            self.prompt = self.prompt.after_typing(ends_line);
        }
        self.interrupted &= bytes == CLEAR;
        // If the terminal makes no signal of it, one behind that may.
        if bytes.last() == Some(&INTERRUPT) {
            self.note_interrupted();
        }
        // Behind a terminal without lines there may be another, which has them; and before its first
        // prompt, a shell's editor may be on.
        let goes_to_editor = matches!(self.prompt, PromptState::Unknown | PromptState::Entered);
        let held = held
            || to_shell
                && (self.level > 0 || goes_to_editor)
                && bytes.last().is_some_and(|last| *last >= b' ');
        self.half_line = held && !self.prompt.is_there();
    }

    /// Do these bytes end a line? A bracketed paste does not.
    fn ends_line(&mut self, bytes: &[u8]) -> bool {
        let (mut rest, mut ends) = (bytes, false);
        loop {
            let edge = if self.pasting { PASTE_END } else { PASTE };
            let handles = self.pasting || self.private.has(2004);
            let at = memmem::find(rest, edge).filter(|_| handles);
            let before = &rest[..at.unwrap_or(rest.len())];
            ends |= !self.pasting && memchr::memchr2(b'\r', b'\n', before).is_some();
            let Some(at) = at else { return ends };
            self.pasting = !self.pasting;
            rest = &rest[at + edge.len()..];
        }
    }

    /// The shell, or its command, has been interrupted.
    pub(crate) fn note_interrupted(&mut self) {
        self.interrupted = self.prompt.is_there() || self.prompt == PromptState::Entered;
    }

    /// Has a shell that executes nothing yet been interrupted, and not dealt with that?
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Unread input has been discarded.
    pub(crate) fn note_discarded(&mut self) {
        (self.half_line, self.lines_typed) = (false, 0);
    }

    /// These bytes have been printed, and written down. Gives the commands that are done.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<DoneCommand> {
        let mut marks = Vec::new();
        self.marks.feed(bytes, &mut marks);
        let (private, said, asked) = (&mut self.private, &mut self.said, &mut self.asked);
        let (weight, kitty, folder) = (&mut self.asked_weight, &mut self.kitty, &mut self.folder);
        let end = self.length + bytes.len() as u64;
        self.sequences.feed(bytes, &mut |part, left| {
            let Part::Sequence(sequence) = part else { return };
            private.handle(sequence);
            kitty.handle(sequence, private.alternate());
            said.handle(sequence);
            if let Some(reported) = sequence.osc().and_then(reported_folder) {
                *folder = Some(reported);
            }
            if *weight < MOST_ASKED
                && let Some(query) = Query::parse(sequence).or_else(|| sequence.controls())
            {
                let query = match query {
                    Query::Keyboard => kitty.answer(private.alternate()),
                    other => other,
                };
                *weight += query.weight();
                asked.push((end - left as u64, query));
            }
        });
        let begin = self.length;
        let (mut at, mut tells, mut done) = (begin, false, Vec::new());
        self.length = end;
        for found in &marks {
            tells |= found.start > at && self.prints_output();
            self.look_for_line(bytes, begin, at..found.start);
            at = found.end;
            done.extend(self.handle(found.level, &found.mark));
            self.note_step(found);
            if matches!(found.mark, Mark::Reads { .. }) {
                self.reading = Some(found.start);
            }
            tells |= matches!(
                found.mark,
                Mark::PromptEnd { .. } | Mark::Mended { .. } | Mark::Unfinished { .. } | Mark::Reads { .. }
            );
        }
        self.look_for_line(bytes, begin, at..end);
        if tells || (end > at && self.prints_output()) {
            self.told = end;
        }
        self.found = marks;
        done
    }

    /// The marks that ended in the bytes that were fed last.
    pub(crate) fn found(&self) -> &[FoundMark] {
        &self.found
    }

    /// The offset up to which all marks are known.
    pub(crate) fn settled(&self) -> u64 {
        self.marks.settled()
    }

    /// Is this shell fish?
    pub(crate) fn is_fish(&self, level: usize) -> bool {
        self.levels.get(level).is_some_and(|shell| shell.dialect == Some(Dialect::Fish))
    }

    /// For a shell that does not report it, a command begins where the entered line ends. The bytes are those
    /// of the log behind `begin`.
    fn look_for_line(&mut self, bytes: &[u8], begin: u64, range: Range<u64>) {
        let shell = &mut self.levels[self.level];
        // A line that was typed before the prompt only an editor shows behind it.
        let comes = if shell.edits { self.lines_typed > 0 } else { self.prompt == PromptState::Entered };
        if !shell.reads || !comes || self.interrupted || range.is_empty() {
            return;
        }
        let at = |offset: u64| offset.saturating_sub(begin) as usize;
        let Some(newline) = memchr::memchr(b'\n', &bytes[at(range.start)..at(range.end)]) else { return };
        shell.reads = false;
        self.lines_typed = self.lines_typed.saturating_sub(1);
        let seq = shell.last.map_or(0, |last| last.saturating_add(1));
        self.steps.push(CommandStep::Begun {
            command: CommandOf { level: self.level, seq, dialect: Dialect::Posix },
            prompt: shell.prompt,
            output: range.start.max(begin) + newline as u64 + 1,
            folder: shell.folder.clone(),
            lines: 1,
        });
    }

    /// The effect of a mark on the commands of its shell.
    fn note_step(&mut self, found: &FoundMark) {
        let shell = &mut self.levels[found.level];
        let (is_silent, dialect) = (shell.is_silent(), shell.dialect.unwrap_or(Dialect::Bash));
        let command = |seq| CommandOf { level: found.level, seq, dialect };
        match found.mark {
            Mark::PromptStart { seq } => {
                if shell.done.is_none_or(|done| done < seq) {
                    // Its report is missing.
                    let step = CommandStep::Ended { command: command(seq), code: UNKNOWN, end: found.start };
                    self.steps.push(step);
                    shell.done = Some(seq);
                }
                (shell.prompt, shell.unfinished) = (found.end, 0);
                shell.folder = self.folder.take().or(shell.folder.take());
            }
            Mark::PromptEnd { .. } if is_silent => {
                shell.reads = true;
                self.steps.push(CommandStep::SilentPrompt { level: found.level, end: found.end });
            }
            Mark::Unfinished { .. } => {
                shell.unfinished += 1;
                // The first line may have been typed before its prompt, too.
                let lines = usize::from(shell.reads) + 1;
                let is_ahead = is_silent && !shell.edits && self.lines_typed >= lines;
                shell.reads = is_silent && !is_ahead;
                if is_ahead {
                    self.lines_typed -= lines;
                    let seq = shell.last.map_or(0, |last| last.saturating_add(1));
                    self.steps.push(CommandStep::Continued { command: command(seq), output: found.end });
                }
            }
            Mark::OutputEnd { .. } => shell.output_end = Some(found.start),
            Mark::Started { seq } | Mark::Begun { seq } => {
                (shell.reads, shell.output_end) = (false, None);
                self.steps.push(CommandStep::Begun {
                    command: command(seq),
                    prompt: shell.prompt,
                    output: found.end,
                    folder: shell.folder.clone(),
                    lines: if shell.edits { 0 } else { shell.unfinished + 1 },
                });
            }
            Mark::Done { seq, code } => {
                if shell.reads {
                    // Its line was shown before the prompt.
                    self.lines_typed = self.lines_typed.saturating_sub(1);
                }
                (shell.reads, shell.done) = (false, Some(seq));
                let end = shell.output_end.take().unwrap_or(found.start);
                self.steps.push(CommandStep::Ended { command: command(seq), code, end });
            }
            _ => {}
        }
    }

    /// The present output is not drawn at a prompt.
    fn prints_output(&self) -> bool {
        !self.taken && !self.prompt.is_there()
    }

    fn handle(&mut self, level: usize, mark: &Mark) -> Option<DoneCommand> {
        let cleared = std::mem::take(&mut self.cleared);
        if *mark == Mark::Stale {
            if cleared {
                self.prompt = PromptState::Stands;
            }
            return None;
        }
        let interrupted = std::mem::take(&mut self.interrupted);
        self.pasting = false;
        if level != self.level {
            if level < self.level {
                self.marks.end_inside(level);
            }
            self.level = level;
            self.prompt = PromptState::Unknown;
        }
        let joins = self.awaited == Some(level);
        if joins {
            self.awaited = None;
            self.joined.push(level);
        }
        // The end of a prompt whose beginning we have seen: input since then is still pending.
        let ends = matches!(*mark, Mark::PromptEnd { seq } if self.levels[level].last == Some(seq));
        let tells_nothing = ends || matches!(mark, Mark::Cleared { .. });
        self.prompt = match self.prompt {
            // The line has gone, and so may the interrupt have.
            PromptState::Entered if tells_nothing && interrupted => PromptState::Touched,
            PromptState::Entered if ends => PromptState::Entered,
            prompt => prompt.after(mark),
        };
        self.interrupted = interrupted && tells_nothing;
        self.cleared = matches!(mark, Mark::Cleared { .. }) && self.prompt == PromptState::Touched;
        self.taken = matches!(mark, Mark::Taken { .. });
        if self.prompt == PromptState::Stands && self.half_line {
            self.prompt = PromptState::Touched;
        }
        // A prompt whose report is missing: ^C makes the kernel discard unread output. A command has ended
        // nevertheless, and its exit code is unknown.
        self.edges.begun |= matches!(mark, Mark::Taken { .. } | Mark::Started { .. } | Mark::Begun { .. });
        self.edges.ended |= matches!(mark, Mark::Done { .. });
        let (seq, code) = match *mark {
            Mark::Done { seq, code } => (seq, code),
            Mark::PromptStart { seq } | Mark::PromptEnd { seq } => (seq, UNKNOWN),
            Mark::Taken { .. }
            | Mark::Mended { .. }
            | Mark::Cleared { .. }
            | Mark::Unfinished { .. }
            | Mark::Started { .. }
            | Mark::Shown { .. }
            | Mark::OutputEnd { .. }
            | Mark::Reads { .. }
            | Mark::Begun { .. }
            | Mark::Stale => return None,
        };
        let shell = &mut self.levels[level];
        if shell.last.is_some_and(|last| seq <= last) {
            return None;
        }
        shell.last = Some(seq);
        // Each shell counts for itself. The first prompt of one inside another completes
        // nothing.
        let number = i128::from(seq) + i128::from(shell.ahead);
        let next = self.last_completion.map_or(0, |last| i128::from(last) + 1);
        let number = if joins && level > 0 { next - 1 } else { number.max(next) };
        shell.ahead = i64::try_from(number - i128::from(seq)).unwrap_or(0);
        if joins && level > 0 {
            return None;
        }
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        self.last_completion = Some(number);
        Some(DoneCommand { level, seq, completion: Completion { seq: number, code } })
    }
}

/// The directory that a shell reports: a file: URL (OSC 7).
fn reported_folder(text: &[u8]) -> Option<Vec<u8>> {
    let url = text.strip_prefix(b"7;file://")?;
    let path = &url[memchr::memchr(b'/', url)?..];
    let mut folder = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, behind)) = rest.split_first() {
        let code = (byte == b'%').then(|| behind.get(..2)).flatten();
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        folder.push(code.unwrap_or(byte));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    Some(folder)
}

/// The exit code of a command if it is unknown.
pub(crate) const UNKNOWN: i32 = -1;

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(kind: &str, seq: u64) -> String {
        format!("\x1b]133;{kind};nbs=secret.{seq}\x07")
    }

    /// The result of these stretches of output, one after the other.
    fn after(output: &[&str]) -> (PromptState, Vec<(u64, i32)>) {
        let mut meaning = OutputState::new("secret");
        let done = output.iter().flat_map(|printed| meaning.feed(printed.as_bytes()));
        let done = done.map(|done| done.completion).collect::<Vec<_>>();
        assert_eq!(meaning.last_completion(), done.last().map(|done| done.seq));
        (meaning.prompt(), done.into_iter().map(|done| (done.seq, done.code)).collect())
    }

    #[test]
    fn a_command_is_done_once_and_also_where_its_report_is_missing() {
        let prompt = |seq| mark("A", seq) + "$ " + &mark("B", seq);
        let (first, second) = (mark("D;0", 0) + &prompt(0), mark("D;7", 1) + &prompt(1));
        let command = "false\r\n".to_owned() + &mark("C", 1) + "said\r\n";
        assert_eq!(after(&["no mark"]), (PromptState::Unknown, vec![]));
        assert_eq!(after(&[&first]), (PromptState::Stands, vec![(0, 0)]));
        assert_eq!(after(&[&first, &command]), (PromptState::Left, vec![(0, 0)]));
        assert_eq!(after(&[&first, &command, &mark("D;7", 1)]), (PromptState::Coming, vec![(0, 0), (1, 7)]));
        assert_eq!(after(&[&first, &command, &second]), (PromptState::Stands, vec![(0, 0), (1, 7)]));
        // Printed again, by whomever.
        assert_eq!(after(&[&first, &command, &second, &second, &first]).1, [(0, 0), (1, 7)]);
        // An interrupt has thrown the report away, and perhaps half of the prompt.
        assert_eq!(after(&[&first, &command, &prompt(1)]), (PromptState::Stands, vec![(0, 0), (1, -1)]));
        assert_eq!(after(&[&first, &command, &mark("B", 1)]).1, [(0, 0), (1, -1)]);
        let third = command.replace(".1", ".2") + &mark("D;3", 2);
        assert_eq!(after(&[&first, &command, &prompt(1), &third]).1, [(0, 0), (1, -1), (2, 3)]);
        // However it comes.
        let all = [first, command, second].concat();
        let bytes: Vec<String> = all.chars().map(String::from).collect();
        let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
        assert_eq!(after(&bytes), after(&[&all]));
    }

    #[test]
    fn commands_of_a_shell_inside_another_are_counted_on() {
        let prompt = |secret: &str, seq, code| {
            let all = mark(&format!("D;{code}"), seq) + &mark("A", seq) + "$ " + &mark("B", seq);
            all.replace("secret", secret)
        };
        let mut meaning = OutputState::new("secret");
        let done = |meaning: &mut OutputState, printed: String| {
            let done: Vec<Completion> =
                meaning.feed(printed.as_bytes()).iter().map(|done| done.completion).collect();
            let done: Vec<_> = done.iter().map(|done| (done.seq, done.code)).collect();
            (done, meaning.level(), meaning.last_completion())
        };
        assert_eq!(done(&mut meaning, prompt("secret", 0, 0)).0, [(0, 0)]);
        assert_eq!(done(&mut meaning, prompt("secret", 1, 1)), (vec![(1, 1)], (0, Some(1)), Some(1)));
        // A shell that has not answered, and one that does.
        meaning.await_level("never", Dialect::Bash);
        meaning.await_level("inner", Dialect::Bash);
        assert!(meaning.take_joined().is_empty());
        assert_eq!(done(&mut meaning, prompt("inner", 0, 0)), (vec![], (1, Some(0)), Some(1)));
        assert_eq!(meaning.take_joined(), [1]);
        assert_eq!(meaning.prompt(), PromptState::Stands);
        assert_eq!(done(&mut meaning, prompt("inner", 1, 5)), (vec![(2, 5)], (1, Some(1)), Some(2)));
        assert_eq!(done(&mut meaning, prompt("never", 1, 5)).0, []);
        // Another inside that; and both end.
        meaning.await_level("third", Dialect::Bash);
        assert_eq!(done(&mut meaning, prompt("third", 4, 0)), (vec![], (2, Some(4)), Some(2)));
        assert_eq!(done(&mut meaning, prompt("third", 5, 0)).0, [(3, 0)]);
        assert_eq!(done(&mut meaning, prompt("inner", 2, 6)), (vec![(4, 6)], (1, Some(2)), Some(4)));
        assert_eq!(done(&mut meaning, prompt("secret", 2, 7)), (vec![(5, 7)], (0, Some(2)), Some(5)));
        assert_eq!(done(&mut meaning, prompt("secret", 3, 8)).0, [(6, 8)]);
        // Later marks with their secrets do not count.
        assert_eq!(done(&mut meaning, prompt("third", 9, 0)), (vec![], (0, Some(3)), Some(6)));
        assert_eq!(done(&mut meaning, prompt("inner", 9, 0) + &mark("C", 4)).0, []);
        assert_eq!(meaning.prompt(), PromptState::Left);
        // A session without a shell of its own has no first prompt to count.
        let mut meaning = OutputState::new("");
        meaning.await_level("inner", Dialect::Bash);
        assert_eq!(done(&mut meaning, prompt("inner", 0, 0)), (vec![], (1, Some(0)), None));
        assert_eq!(done(&mut meaning, prompt("inner", 1, 3)), (vec![(0, 3)], (1, Some(1)), Some(0)));
    }

    #[test]
    fn a_runner_learns_of_output_and_prompts_and_not_of_steps_between() {
        let mut meaning = OutputState::new("secret");
        let mut tells = |printed: &str| {
            meaning.feed(printed.as_bytes());
            meaning.told() == meaning.length()
        };
        assert!(tells("no prompt yet"));
        assert!(!tells(&(mark("D;0", 0) + &mark("A", 0))));
        assert!(tells(&("$ ".to_owned() + &mark("B", 0))));
        assert!(!tells("\r$ "), "it is drawn again");
        assert!(!tells(&mark("R", 0)));
        assert!(!tells("true\r\n"));
        assert!(!tells(&mark("C", 1)));
        assert!(tells("x"));
        assert!(!tells(&mark("D;0", 1)));
        assert!(!tells(&(mark("A", 1) + "$ ")));
        assert!(tells(&mark("B", 1)));
        assert!(!tells(&(mark("R", 1) + "echo x\r\n")));
        assert!(tells(&(mark("C", 2) + "x\r\n" + &mark("D;0", 2))), "it is all in one");
        assert!(!tells(&(mark("A", 2) + "$ ")));
        assert!(!tells(&(mark("R", 2) + "cat <<x\r\n")));
        assert!(tells(&mark("P", 2)));
        assert!(tells("> x\r\n"));
        assert!(!tells(&mark("D;0", 3)));
        assert!(tells(&mark("N", 3)));
    }

    #[test]
    fn output_of_a_shell_without_a_start_mark_begins_after_enter() {
        let mut meaning = OutputState::new("secret");
        meaning.feed((mark("D;0", 0) + &mark("A", 0) + "$ " + &mark("B", 0)).as_bytes());
        for (typed, printed, tells) in [("echo", "echo", false), ("\r", "\r\n", true)] {
            meaning.note_typed(typed.as_bytes(), false, true);
            meaning.feed(printed.as_bytes());
            assert_eq!(meaning.told() == meaning.length(), tells, "{printed:?}");
        }
    }

    #[test]
    fn an_answer_that_nobody_has_read_stands_at_the_next_prompt() {
        let prompt = |seq| mark("D;0", seq) + &mark("A", seq) + "$ " + &mark("B", seq);
        let mut meaning = OutputState::new("secret");
        meaning.feed(prompt(0).as_bytes());
        meaning.feed(mark("C", 1).as_bytes());
        meaning.note_answered_ahead();
        assert_eq!(meaning.prompt(), PromptState::Left);
        meaning.feed(prompt(1).as_bytes());
        assert_eq!(meaning.prompt(), PromptState::Touched);
        meaning.note_discarded();
        meaning.feed(mark("C", 2).as_bytes());
        meaning.feed(prompt(2).as_bytes());
        assert_eq!(meaning.prompt(), PromptState::Stands);
        meaning.note_typed(b"x", true, true);
        assert_eq!(meaning.prompt(), PromptState::Touched);
    }

    #[test]
    fn a_line_that_the_shell_drops_is_gone_with_the_prompt_that_it_draws_then() {
        let prompt = mark("D;0", 0) + &mark("A", 0) + "$ " + &mark("B", 0);
        let again = "\r$ ".to_owned() + &mark("B", 0);
        let mut meaning = OutputState::new("secret");
        let mut after = |typed: &[u8], printed: &str| {
            meaning.note_typed(typed, false, true);
            meaning.feed(printed.as_bytes());
            meaning.prompt()
        };
        assert_eq!(after(b"", &prompt), PromptState::Stands);
        assert_eq!(after(b"half", &again), PromptState::Touched);
        assert_eq!(after(CLEAR, &mark("K", 0)), PromptState::Touched);
        assert_eq!(after(b"", &again), PromptState::Stands);
        // A line that was ended meanwhile is not dropped.
        assert_eq!(after(b"whole\r", &(mark("K", 0) + &again)), PromptState::Entered);
    }

    #[test]
    fn an_interrupt_is_dealt_with_once_the_shell_tells_something() {
        let begins = |seq| mark("D;0", seq) + &mark("A", seq);
        let mut meaning = OutputState::new("secret");
        meaning.feed((begins(0) + &mark("B", 0)).as_bytes());
        for (seq, typed) in [(1, &b""[..]), (2, b"half"), (3, b"a command\r")] {
            meaning.note_typed(typed, false, true);
            meaning.note_interrupted();
            meaning.feed(b"^C");
            assert!(meaning.is_interrupted());
            meaning.feed((begins(seq) + &mark("B", seq)).as_bytes());
            assert_eq!((meaning.is_interrupted(), meaning.prompt()), (false, PromptState::Stands));
        }
        // The executed command is interrupted itself.
        meaning.feed(mark("C", 4).as_bytes());
        meaning.note_interrupted();
        assert!(!meaning.is_interrupted());
        // A line that is typed before the prompt ends is read behind that, if it is not gone.
        for (seq, interrupted, prompt) in [(4, false, PromptState::Entered), (5, true, PromptState::Touched)]
        {
            meaning.feed(begins(seq).as_bytes());
            meaning.note_typed(b"a command\r", false, true);
            if interrupted {
                meaning.note_interrupted();
            }
            meaning.feed(mark("B", seq).as_bytes());
            assert_eq!((meaning.is_interrupted(), meaning.prompt()), (interrupted, prompt));
        }
        // As where the interrupt made a key of ours for a line that may be gone.
        meaning.feed((begins(6) + &mark("B", 6)).as_bytes());
        meaning.note_typed(b"a command\r\x03", false, true);
        meaning.note_typed(CLEAR, false, true);
        meaning.feed((mark("K", 6) + &mark("B", 6)).as_bytes());
        assert_eq!(meaning.prompt(), PromptState::Stands);
    }

    #[test]
    fn a_newline_in_a_paste_does_not_end_a_line() {
        let prompt = mark("D;0", 0) + &mark("A", 0) + "\x1b[?2004h$ " + &mark("B", 0);
        for (typed, told, after) in [
            (&["\x1b[200~one\ntwo\x1b[201~"][..], true, PromptState::Touched),
            (&["\x1b[200~one\n", "two\n", "three\x1b[201~"], true, PromptState::Touched),
            (&["\x1b[200~one\ntwo\x1b[201~", "\r"], true, PromptState::Entered),
            (&["\x1b[200~one\x1b[201~\r\x1b[200~two"], true, PromptState::Entered),
            (&["\x1b[200~one\ntwo\x1b[201~"], false, PromptState::Entered),
        ] {
            let mut meaning = OutputState::new("secret");
            let prompt = if told { prompt.clone() } else { prompt.replace("2004h", "2004l") };
            meaning.feed(prompt.as_bytes());
            typed.iter().for_each(|typed| meaning.note_typed(typed.as_bytes(), false, true));
            assert_eq!(meaning.prompt(), after, "{typed:?}, {told}");
        }
    }

    #[test]
    fn half_a_line_that_was_typed_ahead_stands_at_the_next_prompt() {
        let prompt = |seq| mark("D;0", seq) + &mark("A", seq) + "$ " + &mark("B", seq);
        let mut meaning = OutputState::new("secret");
        meaning.feed(prompt(0).as_bytes());
        let mut seq = 0;
        let mut typed_ahead = |typed: &[(&str, bool)], to_shell| {
            meaning.note_typed(b"a command\n", false, true);
            typed.iter().for_each(|(typed, held)| meaning.note_typed(typed.as_bytes(), *held, to_shell));
            seq += 1;
            meaning.feed(prompt(seq).as_bytes());
            meaning.prompt()
        };
        assert_eq!(typed_ahead(&[("touch ", true)], false), PromptState::Touched);
        assert_eq!(typed_ahead(&[], false), PromptState::Stands);
        assert_eq!(typed_ahead(&[("touch ", true), ("x\n", false)], false), PromptState::Stands);
        assert_eq!(typed_ahead(&[("\u{3}", false)], true), PromptState::Stands);
        assert_eq!(typed_ahead(&[("where lines are not ours", false)], true), PromptState::Touched);
        assert_eq!(typed_ahead(&[("a key of a pager's", false)], false), PromptState::Stands);
    }

    #[test]
    fn a_question_is_where_it_ended_and_not_too_many_are_kept() {
        let mut meaning = OutputState::new("secret");
        meaning.feed(b"x\x1b[6");
        assert_eq!(meaning.take_asked(), []);
        meaning.feed(b"ny\x1b[?6nz");
        let screen = |bytes: &[u8]| Query::Screen(bytes.to_vec());
        assert_eq!(meaning.take_asked(), [(5, screen(b"\x1b[6n")), (11, screen(b"\x1b[?6n"))]);
        assert_eq!((meaning.take_asked(), meaning.length()), (vec![], 12));
        meaning.feed(&b"\x1b[6n".repeat(MOST_ASKED));
        assert!((1_000..MOST_ASKED / 64).contains(&meaning.take_asked().len()));
        assert!(!meaning.private().has(2004));
        meaning.feed(b"\x1b[?2004h");
        assert!(meaning.private().has(2004));
    }
}
