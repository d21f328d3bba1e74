//! A command's progress through the log, by the marks of its shell: where its output begins and ends, and how
//! it ended.
//!
//! The command is one that a call has delivered; other output of the shell about it (the line itself, its
//! prompt) lies outside. Pure: it is fed one stretch of output after another, and the result does not
//! depend on how the output is split.

use std::ops::Range;

use crate::session::{
    client::job::{Handed, Job, Progress, Stage},
    shell::{
        Beginning, FoundMark, Mark, after_lines, fish_prompt, has_own_beginning, sequences, unmarked_prompt,
    },
};

/// How much of the log is looked at for what a shell prints around a command's output.
const LONGEST: u64 = 16 * 1024;
/// The same for fish's own sequences, and its prompt.
const LONGEST_OF_FISH: u64 = 4 * 1024;
/// The same for the text of a command that the shell could not parse.
const LONGEST_SHOWN: u64 = 64 * 1024;

/// A stretch of output that has been written to the log.
pub(crate) struct Stretch<'a> {
    pub(crate) bytes: &'a [u8],
    /// The offset of its first byte.
    pub(crate) begin: u64,
    /// The marks that end in it.
    pub(crate) found: &'a [FoundMark],
    /// The offset up to which all marks are known.
    pub(crate) settled: u64,
    /// Reads the log, up to the end of this stretch.
    pub(crate) log: &'a dyn Fn(Range<u64>) -> Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct CommandTracker {
    stage: Stage,
    // The number of the completion before the command's, and which of the session's shells executes it.
    last: u64,
    level: usize,
    is_fish: bool,
    // How many lines the shell has been given.
    lines: usize,
    beginning: Beginning,
    // Once the shell has taken the command: it is shown behind this offset.
    from: u64,
    // The range of its output; once it runs, and once it is done.
    start: u64,
    end: u64,
    code: i32,
    // The offset at which the shell has reported the end of the output, before it reports the exit code.
    ended_at: Option<u64>,
    // The shell has repaired its hooks, and its next prompt will do.
    mended: bool,
    again: bool,
    has_started: bool,
    marks_end: bool,
    unfinished: bool,
    // An interrupt that was sent may keep fish from reporting something.
    is_interrupted: bool,
    // Where fish has begun to draw its prompt again, although it has taken the command.
    prompted_at: Option<u64>,
    reads: Option<u64>,
    outer: Option<(u64, i32)>,
    shown: Option<u64>,
    settled: u64,
}

impl CommandTracker {
    /// For a command that is delivered at this offset of the log.
    pub(crate) fn new(job: &Job, is_fish: bool, offset: u64) -> CommandTracker {
        CommandTracker {
            stage: Stage::Typed,
            last: job.last,
            level: job.level,
            is_fish,
            lines: job.lines,
            beginning: job.beginning,
            from: offset,
            start: offset,
            end: offset,
            code: 0,
            ended_at: None,
            mended: false,
            again: false,
            has_started: false,
            marks_end: false,
            unfinished: false,
            is_interrupted: false,
            prompted_at: None,
            reads: None,
            outer: None,
            shown: None,
            settled: offset,
        }
    }

    /// It has been delivered so far.
    pub(crate) fn note_handed(&mut self, handed: Handed, place: u64) {
        match handed {
            Handed::Whole => self.again = false,
            // The text is asked for first.
            Handed::InPart if self.beginning == Beginning::Text => self.take(place),
            Handed::Next if self.beginning != Beginning::Text => self.take(place),
            Handed::Foreign => self.take(place),
            Handed::Asked if self.stage == Stage::Typed => self.take(self.from),
            // The typed text is drawn to the end already, so its output begins there.
            Handed::Printed if matches!(self.stage, Stage::Typed | Stage::Taken) => self.begin(place),
            _ => {}
        }
    }

    /// It is being interrupted.
    pub(crate) fn note_interrupted(&mut self) {
        self.is_interrupted = true;
    }

    /// The shell has it, and will show it behind `from`.
    fn take(&mut self, from: u64) {
        (self.stage, self.from) = (Stage::Taken, from);
    }

    fn begin(&mut self, start: u64) {
        (self.stage, self.start) = (Stage::Running, start);
    }

    fn finish(&mut self, end: u64, code: i32) {
        (self.stage, self.end, self.code) = (Stage::Done, end.max(self.start), code);
    }

    /// Its number among the shell's commands, once the shell has it.
    pub(crate) fn number(&self) -> Option<u64> {
        (self.stage > Stage::Typed).then(|| self.last.saturating_add(1))
    }

    /// The shell has put its hooks back: it is to be given the command again, or, if that is done, a new prompt.
    pub(crate) fn is_mended(&self) -> bool {
        self.again
    }

    /// Its shell has drawn the next prompt, so later output is not its own.
    pub(crate) fn is_over(&self) -> bool {
        self.stage == Stage::Prompt
    }

    pub(crate) fn feed(&mut self, printed: &Stretch) {
        self.settled = printed.settled;
        self.look_for_line(printed);
        for found in printed.found {
            self.handle(found, printed.log);
        }
        self.pass_sequences(printed.log);
    }

    /// Finds the output's beginning if no mark reports it.
    fn look_for_line(&mut self, printed: &Stretch) {
        if self.stage != Stage::Taken || self.beginning != Beginning::Line {
            return;
        }
        let from = self.from.max(printed.begin);
        let skipped = (from - printed.begin) as usize;
        let rest = printed.bytes.get(skipped..).unwrap_or_default();
        match memchr::memchr(b'\n', rest) {
            Some(newline) => self.begin(from + newline as u64 + 1),
            None => self.from = from + rest.len() as u64,
        }
    }

    /// Skips fish's own sequences at the output's beginning, once they are complete.
    fn pass_sequences(&mut self, log: &dyn Fn(Range<u64>) -> Vec<u8>) {
        if self.beginning != Beginning::MarkAndSequences {
            return;
        }
        let (end, over) = match self.stage {
            Stage::Running => (self.settled, false),
            Stage::Done | Stage::PromptBegun | Stage::Prompt => (self.end, true),
            Stage::Typed | Stage::Taken => return,
        };
        let mut bytes = log(self.start..end.min(self.start.saturating_add(LONGEST_OF_FISH)));
        if over && self.is_interrupted {
            // The interrupt may have come before the last of them.
            bytes.push(b'\r');
        }
        if let Some(count) = sequences(&bytes, over || bytes.len() as u64 == LONGEST_OF_FISH) {
            self.start = end.min(self.start + count as u64);
            self.beginning = Beginning::Mark;
        }
    }

    fn handle(&mut self, found: &FoundMark, log: &dyn Fn(Range<u64>) -> Vec<u8>) {
        if found.level != self.level {
            if let Mark::Done { code, .. } = found.mark
                && found.level < self.level
                && self.outer.is_none()
            {
                self.outer = Some((found.start, code));
            }
            return;
        }
        let own = self.last.saturating_add(1);
        let before = |longest: u64, least: u64, end: u64| log(least.max(end.saturating_sub(longest))..end);
        match (self.stage, found.mark) {
            (Stage::Typed, Mark::Mended { .. }) => self.mended = true,
            (Stage::Typed, Mark::Done { seq, .. }) if self.mended => self.last = seq,
            (Stage::Typed, Mark::PromptEnd { .. }) if self.mended => {
                (self.mended, self.again) = (false, true);
            }
            (Stage::Typed, Mark::Taken { seq }) => {
                self.last = seq;
                self.take(found.end);
            }
            (Stage::Taken, Mark::Started { seq }) if seq == own => {
                (self.has_started, self.prompted_at) = (true, None);
                let is_marked = || has_own_beginning(&before(LONGEST, 0, found.start), LONGEST as usize);
                self.marks_end = self.is_fish && is_marked();
                if self.beginning != Beginning::Text {
                    self.begin(found.end);
                }
            }
            (Stage::Taken, Mark::Reads { seq }) if seq.saturating_add(1) == own => {
                self.reads = Some(found.start)
            }
            (Stage::Taken, Mark::Begun { seq }) if seq == own => {
                (self.has_started, self.prompted_at) = (true, None);
                self.begin(found.end);
            }
            (Stage::Taken, Mark::Unfinished { .. }) => self.unfinished = true,
            // The shell could not parse the command, and has not begun it.
            (Stage::Taken, Mark::Done { seq, code }) if seq == own => {
                let start = match self.beginning {
                    // It has not been read.
                    Beginning::Text => found.start,
                    _ => {
                        let shown = log(self.from..found.start.min(self.from.saturating_add(LONGEST_SHOWN)));
                        self.from + after_lines(&shown, self.lines) as u64
                    }
                };
                self.begin(start);
                let end = self.ended_at.unwrap_or(found.start);
                self.finish(self.before_prompts_of_fish(end, log), code);
            }
            (Stage::Running, Mark::Done { seq, code }) if seq == own => {
                let mut end = self.ended_at.unwrap_or(found.start);
                if self.ended_at.is_none() && self.mended {
                    end -= unmarked_prompt(&before(LONGEST, self.start, end)) as u64;
                }
                self.again |= self.mended;
                self.finish(self.before_prompts_of_fish(end, log), code);
            }
            (Stage::Taken | Stage::Running, Mark::OutputEnd { seq }) if seq == own => {
                self.ended_at = Some(found.start);
            }
            // fish draws the prompt again: the command has not begun, so it prints nothing from there on.
            (Stage::Taken, Mark::Stale) if self.is_fish => {
                let length = fish_prompt(&before(LONGEST_OF_FISH, self.from, found.start)) as u64;
                self.prompted_at = self.prompted_at.or((length > 0).then_some(found.start - length));
            }
            (Stage::Running, Mark::Mended { .. }) => self.mended = true,
            (Stage::Running, Mark::Unfinished { .. }) if self.beginning == Beginning::Line => {
                self.unfinished = true;
            }
            (Stage::Running, Mark::Shown { seq }) if seq == own => self.shown = Some(found.start),
            (Stage::Done, Mark::PromptStart { .. }) => self.stage = Stage::PromptBegun,
            (Stage::Done | Stage::PromptBegun, Mark::PromptEnd { .. }) => self.stage = Stage::Prompt,
            _ => {}
        }
    }

    /// The end of the output, if a command is reported at `end`. An interrupted one fish may report only in a
    /// prompt that follows.
    fn before_prompts_of_fish(&self, end: u64, log: &dyn Fn(Range<u64>) -> Vec<u8>) -> u64 {
        if !self.is_fish || !self.is_interrupted {
            return end;
        }
        let end = self.prompted_at.unwrap_or(end).max(self.start);
        end - fish_prompt(&log(self.start.max(end.saturating_sub(LONGEST_OF_FISH))..end)) as u64
    }

    pub(crate) fn progress(&self) -> Progress {
        let (start, end) = match self.stage {
            Stage::Typed | Stage::Taken => (self.from, self.from),
            Stage::Running if self.beginning == Beginning::MarkAndSequences => (self.start, self.start),
            Stage::Running => (self.start, self.ended_at.unwrap_or(self.settled).max(self.start)),
            Stage::Done | Stage::PromptBegun | Stage::Prompt => (self.start, self.end),
        };
        Progress {
            stage: self.stage,
            seq: self.last.saturating_add(1),
            start,
            end,
            code: self.outer.map_or(self.code, |(_, code)| code),
            has_started: self.has_started,
            marks_end: self.marks_end,
            unfinished: self.unfinished,
            reads: self.reads,
            outer: self.outer.map(|(offset, _)| offset),
            shown: self.shown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{rounds::rounds, session::shell::MarkParser};

    const LAST: u64 = 3;
    /// Before the command.
    const PROMPTS: &str = "<A3><B3>[A3][B3]";

    /// Replaces `[R3]` by the mark of that kind and number, and `<R3>` by that of the shell around it.
    fn printed(text: &str) -> String {
        let mut out = String::new();
        for part in text.split_inclusive([']', '>']) {
            let at = part.rfind(['[', '<']).filter(|at| part[at + 1..].starts_with(char::is_uppercase));
            let Some(at) = at else {
                out += part;
                continue;
            };
            let secret = if part[at..].starts_with('[') { "own" } else { "outer" };
            let mark = &part[at + 1..part.len() - 1];
            let number = mark.rfind(|byte: char| !byte.is_ascii_digit()).map_or(0, |last| last + 1);
            out += &part[..at];
            out += &format!(
                "\x1b]133;{};nbs={secret}.{}\x07",
                &mark[..number].trim_end_matches('.'),
                &mark[number..]
            );
        }
        out
    }

    /// The tracker after these steps: what was said, and what was printed then, in the pieces that `length` says.
    fn after(
        job: &Job,
        is_fish: bool,
        steps: &[(Option<Handed>, &str)],
        mut length: impl FnMut() -> usize,
    ) -> (CommandTracker, String) {
        let mut log = printed(PROMPTS);
        let mut marks = MarkParser::new(["outer", "own"], 0);
        marks.feed(log.as_bytes(), &mut Vec::new());
        let mut tracker = CommandTracker::new(job, is_fish, log.len() as u64);
        for (handed, text) in steps {
            if let Some(handed) = handed {
                tracker.note_handed(*handed, log.len() as u64);
            }
            let text = printed(text);
            let mut rest = text.as_bytes();
            while !rest.is_empty() {
                let (bytes, behind) = rest.split_at(length().clamp(1, rest.len()));
                rest = behind;
                let (mut found, begin) = (Vec::new(), log.len() as u64);
                marks.feed(bytes, &mut found);
                log += std::str::from_utf8(bytes).unwrap();
                let read =
                    |range: Range<u64>| log.as_bytes()[range.start as usize..range.end as usize].to_vec();
                let settled = marks.settled();
                tracker.feed(&Stretch { bytes, begin, found: &found, settled, log: &read });
            }
        }
        (tracker, log)
    }

    /// The offset behind this.
    fn behind(text: &str) -> u64 {
        (printed(PROMPTS) + &printed(text)).len() as u64
    }

    struct Case {
        beginning: Beginning,
        is_fish: bool,
        steps: &'static [(Option<Handed>, &'static str)],
        stage: Stage,
        output: &'static str,
        code: i32,
    }

    impl Case {
        fn check(&self, pieces: impl FnMut() -> usize, name: &str) -> Progress {
            let job = Job { last: LAST, level: 1, lines: 1, beginning: self.beginning, ..Job::default() };
            let (tracker, log) = after(&job, self.is_fish, self.steps, pieces);
            let progress = tracker.progress();
            let output = &log[progress.start as usize..progress.end as usize];
            let seen = (progress.stage, output, progress.code);
            assert_eq!(seen, (self.stage, self.output, self.code), "{name}: {:?}", self.steps);
            progress
        }
    }

    const WHOLE: Option<Handed> = Some(Handed::Whole);
    const NEXT: Option<Handed> = Some(Handed::Next);

    /// Each command, when only this much of its output has been seen.
    fn cases() -> Vec<Case> {
        let case = |beginning, steps, stage, output, code| Case {
            beginning,
            is_fish: false,
            steps,
            stage,
            output,
            code,
        };
        let fish = |steps, stage, output, code| Case {
            is_fish: true,
            ..case(Beginning::MarkAndSequences, steps, stage, output, code)
        };
        use Beginning::{Line, Mark, Text};
        vec![
            // By a key.
            case(Mark, &[(WHOLE, "")], Stage::Typed, "", 0),
            case(Mark, &[(WHOLE, "noise\r\n")], Stage::Typed, "", 0),
            case(Mark, &[(WHOLE, "\r[R3]$ ls\r\n")], Stage::Taken, "", 0),
            case(Mark, &[(WHOLE, "[R3]$ ls\r\n[C4]a\r\nb")], Stage::Running, "a\r\nb", 0),
            case(Mark, &[(WHOLE, "[R3]$ ls\r\n[C4]a\r\n[E4]x[D;0.4]")], Stage::Done, "a\r\n", 0),
            case(Mark, &[(WHOLE, "[R3]$ ls\r\n[C4]a\r\n[D;7.4][A4]")], Stage::PromptBegun, "a\r\n", 7),
            case(Mark, &[(WHOLE, "[R3]$ ls\r\n[C4]a\r\n[D;7.4][A4]$ [B4]")], Stage::Prompt, "a\r\n", 7),
            // Output after its prompt is not its own.
            case(Mark, &[(WHOLE, "[R3]$ a\r\n[C4]a[D;7.4][A4]$ [B4]z[C5]z[D;9.5]")], Stage::Prompt, "a", 7),
            // It could not be parsed.
            case(Mark, &[(WHOLE, "[R3]$ a)\r\nbash: no\r\n[D;2.4]")], Stage::Done, "bash: no\r\n", 2),
            // Marks of before, printed again.
            case(
                Mark,
                &[(WHOLE, "[R3]$ c\r\n[C4]x[D;0.2][A2][R3]y[D;1.4]")],
                Stage::Done,
                "x\u{1b}]133;D;0;nbs=own.2\u{7}\u{1b}]133;A;nbs=own.2\u{7}\u{1b}]133;R;nbs=own.3\u{7}y",
                1,
            ),
            // The hooks were gone, and are back at the next prompt.
            case(
                Mark,
                &[(WHOLE, "[N3]$ "), (None, "[D;0.4][A4]$ [B4]"), (WHOLE, "[R4]$ ls\r\n[C5]a[D;0.5]")],
                Stage::Done,
                "a",
                0,
            ),
            case(
                Mark,
                &[(WHOLE, "[R3]$ ls\r\n[C4]a\r\n\u{1b}[?2004h$ [N3][D;3.4]")],
                Stage::Done,
                "a\r\n",
                3,
            ),
            // Typed as by people.
            case(Line, &[(NEXT, "ls")], Stage::Taken, "", 0),
            case(Line, &[(NEXT, "ls\r\na\r\n")], Stage::Running, "a\r\n", 0),
            case(
                Line,
                &[(Some(Handed::InPart), "ls"), (NEXT, "\r\na\r\n[D;5.4][A4]$ [B4]")],
                Stage::Prompt,
                "a\r\n",
                5,
            ),
            case(
                Line,
                &[(Some(Handed::InPart), "ls\r\n"), (Some(Handed::Printed), "a\r\n[D;5.4]")],
                Stage::Done,
                "a\r\n",
                5,
            ),
            // The shell reads a text.
            case(Text, &[(Some(Handed::InPart), "x\r\n[R3]y[C4]z[Q3]")], Stage::Taken, "", 0),
            case(
                Text,
                &[(Some(Handed::InPart), "x\r\n[R3][C4][Q3]"), (NEXT, "t\r\n[S4]a[D;1.4]")],
                Stage::Done,
                "a",
                1,
            ),
            case(Text, &[(Some(Handed::InPart), "x\r\n[R3]no[D;1.4]")], Stage::Done, "", 1),
            // fish sets its terminal up.
            fish(&[(WHOLE, "[R3]ls\r\n[C4]\u{1b}[?2004l\u{1b}[m")], Stage::Running, "", 0),
            fish(&[(WHOLE, "[R3]ls\r\n[C4]\u{1b}[?2004l\u{1b}[m\ra")], Stage::Running, "a", 0),
            fish(&[(WHOLE, "[R3]ls\r\n[C4]\u{1b}[?2004l\u{1b}[m\ra\r\n[D;1.4]")], Stage::Done, "a\r\n", 1),
        ]
    }

    #[test]
    fn a_commands_output_and_end_are_found_whatever_the_pieces() {
        for case in cases() {
            let whole = case.check(|| usize::MAX, "whole");
            assert_eq!(case.check(|| 1, "bytes"), whole, "{:?}", case.steps);
            for (seed, mut random) in rounds(30) {
                let pieces = case.check(|| random.usize(1..20), &format!("seed {seed}"));
                assert_eq!(pieces, whole, "seed {seed}: {:?}", case.steps);
            }
        }
    }

    fn progress(beginning: Beginning, steps: &[(Option<Handed>, &str)]) -> Progress {
        let job = Job { last: LAST, level: 1, lines: 1, beginning, ..Job::default() };
        after(&job, false, steps, || usize::MAX).0.progress()
    }

    #[test]
    fn a_shell_that_has_to_mend_its_hooks_gets_the_command_again() {
        let job = Job { last: LAST, level: 1, ..Job::default() };
        let mended = (WHOLE, "[N3]$ [D;0.4][A4]$ [B4]");
        let tracker = after(&job, false, &[mended], || usize::MAX).0;
        assert!(tracker.is_mended());
        assert_eq!(tracker.progress().seq, LAST + 2);
        assert!(!after(&job, false, &[mended, (WHOLE, "")], || usize::MAX).0.is_mended());
    }

    #[test]
    fn the_shells_requests_and_its_end_are_told() {
        let seen = progress(Beginning::Mark, &[(WHOLE, "[R3]$ echo '\r\n[P3]> ")]);
        assert!(seen.unfinished && !seen.has_started);
        assert!(progress(Beginning::Line, &[(NEXT, "echo '\r\n[P3]> ")]).unfinished);
        let reads = progress(Beginning::Text, &[(Some(Handed::InPart), "[R3]x[Q3]")]).reads;
        assert_eq!(reads, Some(behind("[R3]x")));
        let ended = progress(Beginning::Mark, &[(WHOLE, "[R3]$ exit\r\n[C4]exit\r\n<D;9.4><A4>")]);
        assert_eq!((ended.outer, ended.code), (Some(behind("[R3]$ exit\r\n[C4]exit\r\n")), 9));
        assert_eq!(
            progress(Beginning::Mark, &[(WHOLE, "[R3]$ x\r\n[C4]<D;9.2>")]).outer,
            None,
            "it is an old one"
        );
        let shown = progress(Beginning::Mark, &[(WHOLE, "[R3]$ x\r\n[C4]a\r\nhook[V4]\r\n")]).shown;
        assert_eq!(shown, Some(behind("[R3]$ x\r\n[C4]a\r\nhook")));
    }

    #[test]
    fn an_interrupt_may_have_thrown_away_what_fish_prints() {
        let job =
            Job { last: LAST, level: 1, lines: 1, beginning: Beginning::MarkAndSequences, ..Job::default() };
        let (mut tracker, _) = after(&job, true, &[(WHOLE, "[R3]x\r\n[C4]\u{1b}[m")], || usize::MAX);
        assert_eq!(tracker.progress().output(), tracker.start..tracker.start);
        tracker.note_interrupted();
        let text = printed(PROMPTS) + &printed("[R3]x\r\n[C4]\u{1b}[m");
        let end = text.len() as u64;
        let done = FoundMark { mark: Mark::Done { seq: 4, code: 130 }, level: 1, start: end, end: end + 9 };
        let read = |range: Range<u64>| text.as_bytes()[range.start as usize..range.end as usize].to_vec();
        tracker.feed(&Stretch { bytes: b"", begin: end, found: &[done], settled: end + 9, log: &read });
        let seen = tracker.progress();
        assert_eq!((seen.stage, seen.code, seen.output()), (Stage::Done, 130, end..end));
    }

    #[test]
    fn prompts_of_fish_before_it_reports_an_interrupted_command_are_no_output() {
        const PROMPT: &str = "\u{1b}[2m\u{23ce}\u{1b}(B\u{1b}[m  \r\u{23ce} \r";
        let job =
            Job { last: LAST, level: 1, lines: 1, beginning: Beginning::MarkAndSequences, ..Job::default() };
        let twice = format!("[R3]x\r\n{PROMPT}root# [B3]\r\u{1b}[9m\r\n\u{1b}[30m{PROMPT}");
        // It was interrupted before it began, as its prompt then was, too; and while it ran.
        let cases = [
            (format!("[A3][B3]{twice}"), ""),
            (format!("[A3][B3][R3]x\r\n[C4]\u{1b}[m\rout\r\n{PROMPT}"), "out\r\n"),
        ];
        for (text, output) in cases {
            let steps = [(WHOLE, text.as_str())];
            let (mut tracker, text) = after(&job, true, &steps, || usize::MAX);
            tracker.note_interrupted();
            let end = text.len() as u64;
            let done =
                FoundMark { mark: Mark::Done { seq: 4, code: 130 }, level: 1, start: end, end: end + 9 };
            let read = |range: Range<u64>| text.as_bytes()[range.start as usize..range.end as usize].to_vec();
            tracker.feed(&Stretch { bytes: b"", begin: end, found: &[done], settled: end + 9, log: &read });
            let seen = tracker.progress();
            let shown = String::from_utf8(read(seen.output())).unwrap();
            assert_eq!((seen.stage, seen.code, shown.as_str()), (Stage::Done, 130, output));
        }
    }
}
