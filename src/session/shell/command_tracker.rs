//! A command's progress through the log, by the marks of its shell: where its output begins and ends, and how
//! it ended.
//!
//! The command is the one that `run` has delivered; other output of the shell about it (the line itself, its
//! prompt) lies outside.

use std::{ops::Range, time::Instant};

use memchr::{memchr_iter, memmem, memrchr};

use crate::{
    outcome::{Result, Trying},
    session::{
        OutputLog, Piece,
        shell::{FoundMark, Mark, MarkParser},
    },
    terminal::tokenizer::{BEL, ESC},
    worded::worded,
};

pub(crate) struct CommandTracker {
    marks: MarkParser,
    pub(crate) stage: Stage,
    // The number of the completion before the command's.
    last: u64,
    // How many lines the shell has been given.
    lines: usize,
    beginning: Beginning,
    /// Something was gone of the log that should have been read.
    pub(crate) gap: bool,
    /// How much of that was gone before it was seen to begin.
    pub(crate) unseen: u64,
    /// How far the log has been read.
    pub(crate) next: u64,
    found: Vec<FoundMark>,
    // The offset at which the shell has reported the end of the output, before it reports the exit code.
    ended_at: Option<u64>,
    // The shell has repaired its hooks, and its next prompt will do.
    mended: bool,
    /// The shell is at that prompt: the command must be delivered again.
    pub(crate) again: bool,
    /// The shell has reported that it executes something.
    pub(crate) has_started: bool,
    /// And has printed its own mark before ours, as it will at the end.
    pub(crate) marks_end: bool,
    /// The shell reads the text that is to be handed over, since this place of the log.
    pub(crate) reads: Option<u64>,
    /// A mark of an outer shell, and the exit code in it: unless it is an old one that is printed again, this
    /// shell has ended there.
    pub(crate) outer: Option<(u64, i32)>,
    /// The shell waits for the rest of the command, which has none.
    pub(crate) unfinished: bool,
    /// The shell is fish, and an interrupt that was sent may keep it from reporting something.
    pub(crate) has_interrupted_fish: bool,
    /// The end of the hook that reports the end, as `set -v` has shown it.
    pub(crate) shown: Option<u64>,
    /// When we saw it begin.
    pub(crate) begun: Option<Instant>,
    /// Marks within the output, or what looks like them, in order.
    pub(crate) cuts: Vec<Range<u64>>,
}

worded! {
    /// The position at which the output of a command begins.
    #[derive(Default)]
    pub(crate) enum Beginning {
        /// Behind the mark that reports it.
        #[default]
        Mark = "mark",
        /// There too, behind what fish does to its terminal: escape sequences, and a `\r`.
        MarkAndSequences = "sequences",
        /// In the next line, because no mark reports it.
        Line = "line",
        /// Behind the mark that reports it, once the shell has read the text.
        Text = "text",
    }
}

/// The progress of the command, according to the marks.
#[derive(Clone, Copy)]
pub(crate) enum Stage {
    /// It is being handed over.
    Typed,
    /// The shell has it, and will show it behind `from`.
    Taken {
        seq: u64,
        from: u64,
    },
    /// Its output begins at `start`.
    Running {
        seq: u64,
        start: u64,
    },
    Done {
        start: u64,
        end: u64,
        code: i32,
    },
    /// The next prompt has begun, or has ended.
    Prompt {
        start: u64,
        end: u64,
        code: i32,
        ended: bool,
    },
}

impl CommandTracker {
    /// For a command of this many lines that is delivered at this offset of the log, after the shell's
    /// completion `last`; `marks` starts there.
    pub(crate) fn new(
        marks: MarkParser,
        offset: u64,
        last: u64,
        lines: usize,
        beginning: Beginning,
    ) -> CommandTracker {
        CommandTracker {
            marks,
            stage: Stage::Typed,
            last,
            lines,
            beginning,
            ended_at: None,
            gap: false,
            unseen: 0,
            next: offset,
            found: Vec::new(),
            mended: false,
            again: false,
            has_started: false,
            marks_end: false,
            reads: None,
            outer: None,
            unfinished: false,
            has_interrupted_fish: false,
            shown: None,
            begun: None,
            cuts: Vec::new(),
        }
    }

    /// For a command that was left while it ran, whose next output comes behind `from`; `marks` starts there.
    pub(crate) fn resumed(marks: MarkParser, from: u64, last: u64, beginning: Beginning) -> CommandTracker {
        let mut trace = CommandTracker::new(marks, from, last, 1, beginning);
        trace.has_started = true;
        trace.begin(last.saturating_add(1), from);
        trace
    }

    /// The number of the completion that the command's end is to be.
    pub(crate) fn seq(&self) -> u64 {
        self.last.saturating_add(1)
    }

    /// The beginning to resume with, once the output's beginning has been seen: whether fish's own sequences
    /// are still to come before it.
    pub(crate) fn beginning(&self) -> Beginning {
        match self.beginning {
            Beginning::MarkAndSequences => Beginning::MarkAndSequences,
            _ => Beginning::Mark,
        }
    }

    /// The command is typed as people type, which the shell does not report; the end of its line is typed at
    /// the offset `from` of the log.
    pub(crate) fn note_typed(&mut self, from: u64) {
        self.stage = Stage::Taken { seq: self.last.saturating_add(1), from };
    }

    /// The typed text is drawn to the end already, so its output begins there.
    pub(crate) fn note_drawn(&mut self, from: u64) {
        self.begin(self.last.saturating_add(1), from);
    }

    /// Reads on.
    pub(crate) fn look(&mut self, log: &OutputLog) -> Result<()> {
        let mut lost = 0;
        let mut pieces = log.pieces(self.next, u64::MAX);
        while let Some(piece) = pieces.next()? {
            match piece {
                Piece::Gap(gone) => {
                    self.marks.skip(gone);
                    lost += gone;
                }
                Piece::Bytes(block) => self.marks.feed(block, &mut self.found),
            }
        }
        self.next = pieces.offset();
        self.look_for_line(log)?;
        for found in std::mem::take(&mut self.found) {
            self.handle(&found, log)?;
        }
        self.pass_sequences(log)?;
        if lost > 0 {
            self.gap = true;
            // The echo of our line is shorter than this.
            if matches!(self.stage, Stage::Typed | Stage::Taken { .. }) {
                self.unseen = lost;
                let start = log.start().trying("read the output")?;
                self.begin(self.last.saturating_add(1), start);
            }
        }
        Ok(())
    }

    /// Finds the output's beginning if no mark reports it.
    fn look_for_line(&mut self, log: &OutputLog) -> Result<()> {
        let Stage::Taken { seq, from } = self.stage else { return Ok(()) };
        if self.beginning != Beginning::Line {
            return Ok(());
        }
        let mut pieces = log.pieces(from, self.next);
        let mut behind = None;
        while behind.is_none()
            && let Some(piece) = pieces.next()?
        {
            if let Piece::Bytes(block) = piece {
                behind = memchr::memchr(b'\n', block).map(|newline| block.len() - newline - 1);
            }
        }
        let start = behind.map(|behind| pieces.offset() - behind as u64);
        match start {
            Some(start) => self.begin(seq, start),
            None => self.stage = Stage::Taken { seq, from: self.next.max(from) },
        }
        Ok(())
    }

    /// Skips fish's own sequences at the output's beginning, once they are complete.
    fn pass_sequences(&mut self, log: &OutputLog) -> Result<()> {
        /// They have fewer bytes.
        const LONGEST: u64 = 4 * 1024;
        if self.beginning != Beginning::MarkAndSequences {
            return Ok(());
        }
        let (start, end, over) = match &mut self.stage {
            Stage::Running { start, .. } => (start, self.marks.settled(), false),
            Stage::Done { start, end, .. } | Stage::Prompt { start, end, .. } => (start, *end, true),
            Stage::Typed | Stage::Taken { .. } => return Ok(()),
        };
        let mut bytes = log.bytes(*start, end.min(*start + LONGEST)).trying("read the output")?;
        if over && self.has_interrupted_fish {
            // The interrupt may have come before the last of them.
            bytes.push(b'\r');
        }
        if let Some(count) = sequences(&bytes, over || bytes.len() as u64 == LONGEST) {
            *start = end.min(*start + count as u64);
            self.beginning = Beginning::Mark;
        }
        Ok(())
    }

    fn begin(&mut self, seq: u64, start: u64) {
        self.begun = Some(Instant::now());
        self.stage = Stage::Running { seq, start };
    }

    fn handle(&mut self, found: &FoundMark, log: &OutputLog) -> Result<()> {
        match (self.stage, found.mark) {
            (Stage::Typed, Mark::Mended { .. }) => self.mended = true,
            (Stage::Typed, Mark::Done { seq, .. }) if self.mended => self.last = seq,
            (Stage::Typed, Mark::PromptEnd { .. }) if self.mended => {
                (self.mended, self.again) = (false, true);
            }
            (Stage::Typed, Mark::Taken { seq }) => {
                self.stage = Stage::Taken { seq: seq + 1, from: found.end };
            }
            (Stage::Taken { seq, .. }, Mark::Started { seq: started }) if started == seq => {
                self.has_started = true;
                self.marks_end = is_marked(log, found.start)?;
                if self.beginning != Beginning::Text {
                    self.begin(seq, found.end);
                }
            }
            (Stage::Taken { seq, .. }, Mark::Reads { seq: reads }) if reads + 1 == seq => {
                self.reads = Some(found.start);
            }
            (Stage::Taken { seq, .. }, Mark::Begun { seq: begun }) if begun == seq => {
                self.has_started = true;
                self.begin(seq, found.end);
            }
            (_, Mark::Outer { code }) => {
                self.outer = Some((found.start, code));
                self.cuts.push(found.start..found.end);
            }
            (Stage::Taken { .. }, Mark::Unfinished { .. }) => self.unfinished = true,
            // The shell could not parse the command, and has not begun it.
            (Stage::Taken { seq, from }, Mark::Done { seq: done, code }) if done == seq => {
                let start = match self.beginning {
                    // It has not been read.
                    Beginning::Text => found.start,
                    _ => {
                        let shown = log.bytes(from, found.start).trying("read the output")?;
                        from + after_lines(&shown, self.lines) as u64
                    }
                };
                self.begin(seq, start);
                let end = self.ended_at.unwrap_or(found.start).max(start);
                self.stage = Stage::Done { start, end, code };
            }
            (Stage::Running { seq, start }, Mark::Done { seq: done, code }) if done == seq => {
                let end = match self.ended_at {
                    Some(end) => end,
                    None if self.mended => before_prompt(log, start, found.start)?,
                    None => found.start,
                };
                let end = if self.has_interrupted_fish { before_fish_prompt(log, start, end)? } else { end };
                self.again |= self.mended;
                self.stage = Stage::Done { start, end, code };
            }
            (Stage::Taken { seq, .. } | Stage::Running { seq, .. }, Mark::OutputEnd { seq: ended })
                if ended == seq =>
            {
                self.ended_at = Some(found.start);
                self.cuts.push(found.start..found.end);
            }
            (Stage::Running { seq, .. }, mark) => {
                match mark {
                    Mark::Mended { .. } => self.mended = true,
                    Mark::Unfinished { .. } if self.beginning == Beginning::Line => self.unfinished = true,
                    Mark::Shown { seq: shown } if shown == seq => self.shown = Some(found.start),
                    _ => {}
                }
                self.cuts.push(found.start..found.end);
            }
            (Stage::Done { start, end, code }, Mark::PromptStart { .. }) => {
                self.stage = Stage::Prompt { start, end, code, ended: false };
            }
            (
                Stage::Done { start, end, code } | Stage::Prompt { start, end, code, .. },
                Mark::PromptEnd { .. },
            ) => self.stage = Stage::Prompt { start, end, code, ended: true },
            _ => {}
        }
        Ok(())
    }

    /// The range of the output, as far as it is known by now.
    pub(crate) fn output(&self) -> Range<u64> {
        match self.stage {
            Stage::Typed | Stage::Taken { .. } => self.next..self.next,
            Stage::Running { start, .. } if self.beginning == Beginning::MarkAndSequences => start..start,
            Stage::Running { start, .. } => start..self.ended_at.unwrap_or(self.marks.settled()).max(start),
            Stage::Done { start, end, .. } | Stage::Prompt { start, end, .. } => start..end,
        }
    }
}

/// The end of the output up to `end`, without a prompt of fish that has begun there.
fn before_fish_prompt(log: &OutputLog, start: u64, end: u64) -> Result<u64> {
    const LONGEST: u64 = 4 * 1024;
    let tail = log.bytes(start.max(end.saturating_sub(LONGEST)), end).trying("read the output")?;
    Ok(end - fish_prompt(&tail) as u64)
}

/// The length of a prompt of fish that has begun at the end of this output. After an interrupt, fish may report
/// the end of a command only in the prompt that follows.
pub(crate) fn fish_prompt(output: &[u8]) -> usize {
    /// Shows a missing newline; it is followed by blanks to the end of the row.
    const BEGINNING: &str = "\x1b[2m\u{23ce}";
    let at = memmem::rfind(output, BEGINNING.as_bytes()).filter(|at| !output[*at..].contains(&b'\n'));
    at.map_or(0, |at| output.len() - at)
}

/// The length, in the text that a line editor has drawn or the kernel has echoed, of a command of so many
/// lines, to the typed end.
fn after_lines(shown: &[u8], lines: usize) -> usize {
    let Some(newline) = memchr_iter(b'\n', shown).nth(lines - 1) else { return shown.len() };
    let rest = &shown[newline + 1..];
    let off = rest.strip_prefix(PASTE_OFF).and_then(|rest| rest.strip_prefix(b"\r"));
    shown.len() - off.unwrap_or(rest).len()
}

/// A line editor enables bracketed paste at its prompt, and not while a command runs.
const PASTE_ON: &[u8] = b"\x1b[?2004h";
const PASTE_OFF: &[u8] = b"\x1b[?2004l";

/// How much of the end of the present output may be the prompt of a line editor.
pub(crate) fn unreported_prompt(bytes: &[u8]) -> usize {
    let held = (1..PASTE_ON.len()).rev().find(|length| bytes.ends_with(&PASTE_ON[..*length])).unwrap_or(0);
    match memmem::rfind(bytes, PASTE_ON) {
        Some(at) if memmem::find(&bytes[at..], PASTE_OFF).is_none() => bytes.len() - at,
        _ => held,
    }
}

/// Does the line that ends at this offset of the log have the mark by which fish, since 4.0, itself reports
/// that a command begins?
fn is_marked(log: &OutputLog, place: u64) -> Result<bool> {
    /// The mark has the whole command; of a longer one the end of that is all that is seen.
    const LONGEST: u64 = 16 * 1024;
    let before = log.bytes(place.saturating_sub(LONGEST), place).trying("read the output")?;
    Ok(has_own_beginning(&before, LONGEST as usize))
}

fn has_own_beginning(before: &[u8], longest: usize) -> bool {
    const OWN: &[u8] = b"\x1b]133;C;cmdline_url=";
    match memrchr(b'\n', before) {
        Some(newline) => memmem::find(&before[newline..], OWN).is_some(),
        None => before.len() == longest || memmem::find(before, OWN).is_some(),
    }
}

/// The length of the mark, at the end of a command's output, by which fish, since 4.0, itself reports the
/// end; or, if more may come, of the part that may be its beginning.
pub(crate) fn own_end(output: &[u8], complete: bool) -> usize {
    const OWN: &[u8] = b"\x1b]133;D;";
    let Some(start) = memrchr(ESC, output) else { return 0 };
    let mark = &output[start..];
    let is_it = match mark.strip_prefix(OWN) {
        Some([digits @ .., BEL]) => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        Some(digits) => !complete && digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit),
        None => !complete && OWN.starts_with(mark),
    };
    if is_it { mark.len() } else { 0 }
}

/// The end of the output before a prompt without marks: the editor enables bracketed paste before the prompt,
/// or else the prompt has its own line.
fn before_prompt(log: &OutputLog, start: u64, end: u64) -> Result<u64> {
    /// Prompts are shorter.
    const LONGEST: u64 = 16 * 1024;
    let from = start.max(end.saturating_sub(LONGEST));
    let bytes = log.bytes(from, end).trying("read the output")?;
    let at = memmem::rfind(&bytes, PASTE_ON)
        .or_else(|| memrchr(b'\n', &bytes).map(|newline| newline + 1))
        .unwrap_or(0);
    Ok(from + at as u64)
}

/// The length of the escape sequences at the start of these bytes, with a `\r` if one ends them; `None`: it
/// depends on bytes that are still to come.
fn sequences(bytes: &[u8], over: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let length = match rest {
            [b'\r', ..] => return Some(at + 1),
            [0x1b, b']', body @ ..] => body.iter().position(|byte| *byte == 0x07).map(|end| end + 3),
            [0x1b, b'[', body @ ..] => {
                body.iter().position(|byte| (0x40..=0x7e).contains(byte)).map(|end| end + 3)
            }
            [0x1b, b'(', _, ..] => Some(3),
            [0x1b, byte, ..] if *byte != b'(' => Some(2),
            [] | [0x1b, ..] => None,
            _ => return Some(0),
        };
        match length {
            Some(length) => at += length,
            None => return over.then_some(0),
        }
    }
}

/// How long what fish does to its terminal is before the output that begins with it.
pub(crate) fn own_sequences(output: &[u8]) -> usize {
    sequences(output, true).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_command_ends_with_its_last_line() {
        for (shown, lines, rest) in [
            ("\r\x1b[K\r$ a)\r\n\x1b[?2004l\rbash: x", 1, "bash: x"),
            ("$ a\r\nb)\r\nbash: x\r\n", 2, "bash: x\r\n"),
            ("$ a", 1, ""),
            ("$ a\r\n\x1b[?2004lx", 1, "\x1b[?2004lx"),
        ] {
            assert_eq!(&shown[after_lines(shown.as_bytes(), lines)..], rest, "{shown:?}");
        }
    }

    #[test]
    fn a_shell_with_a_start_mark_of_its_own_is_recognised() {
        for (before, is_told) in [
            ("$ \x1b]133;C;cmdline_url=x\x07\r\n", false),
            ("$ x\r\n\x1b[30m\x1b]133;C;cmdline_url=x\x07", true),
            ("$ x\r\n\x1b[30m\x1b]133;C;cmdline_url=x\x07\x1b[?2004l\x1b>", true),
            ("$ x\r\n\x1b[30m\x1b(B\x1b[m", false),
            ("\x1b]133;C;cmdline_url=x\x07", true),
            ("", false),
            (&"x".repeat(100), true),
            (&("x".repeat(99) + "\n"), false),
        ] {
            assert_eq!(has_own_beginning(before.as_bytes(), 100), is_told, "{before:?}");
        }
    }

    #[test]
    fn the_end_that_fish_marks_is_no_output() {
        for (output, complete, length) in [
            ("on\r\n\x1b]133;D;0\x07", true, 10),
            ("on\x1b]133;D;127\x07", false, 12),
            ("\x1b]133;D;0\x07\x1b]133;D;0\x07", true, 10),
            ("on\x1b]133;D;0", false, 9),
            ("on\x1b]13", false, 4),
            ("on\x1b]13", true, 0),
            ("on\x1b]133;D;0", true, 0),
            ("on\x1b]133;D;0\x07\n", false, 0),
            ("on\x1b]133;D;\x07", false, 0),
            ("on\x1b]133;D;1234", false, 0),
            ("on\x1b]133;A\x07", false, 0),
            ("on", false, 0),
        ] {
            assert_eq!(own_end(output.as_bytes(), complete), length, "{output:?}");
        }
    }

    #[test]
    fn the_output_of_an_interrupted_command_ends_before_the_prompt_of_fish() {
        let prompt = "\x1b[2m\u{23ce}\x1b(B\x1b[m  \r\u{23ce} \r\x1b[K\x1b]0;/\x07";
        for (output, length) in [
            (format!("out\r\n{prompt}"), prompt.len()),
            (prompt.to_owned(), prompt.len()),
            ("out\r\n".to_owned(), 0),
            (format!("{prompt}out\r\n"), 0),
        ] {
            assert_eq!(fish_prompt(output.as_bytes()), length, "{output:?}");
        }
    }

    #[test]
    fn the_terminal_setup_of_fish_ends_at_its_carriage_return() {
        for (bytes, over, length) in [
            ("\x1b[?2004l\x1b]0;x\x07\x1b(B\x1b[m\rhi", false, Some(21)),
            ("\x1b[?2004l\x1b]0;x", false, None),
            ("\x1b[?2004l\x1b]0;x", true, Some(0)),
            ("\x1b[1mhi", false, Some(0)),
            ("", false, None),
            ("", true, Some(0)),
            ("\rx", false, Some(1)),
        ] {
            assert_eq!(sequences(bytes.as_bytes(), over), length, "{bytes:?}");
        }
    }
}
