//! A delivered command, as its call describes it to the relay, and its progress, as the relay reports it.

use std::{ops::Range, time::Duration};

use super::fields::Fields;
use crate::{
    session::shell::{Beginning, DeliveredBy},
    worded::worded,
};

worded! {
    /// How far it has been delivered, and so how a call goes on.
    #[derive(Default)]
    pub(crate) enum Handed {
        /// Nothing has been typed.
        #[default]
        Queued = "queued",
        /// It is being typed, and the shell does not have it yet.
        InPart = "in-part",
        /// All of it. The shell will report that it takes the command, and so the number of its completion.
        Whole = "whole",
        /// The command is known to be the next, and what shows it ends behind the place.
        Next = "next",
        /// Its output comes behind the place, and all before has been printed.
        Printed = "printed",
        /// It is the next, and typed by `ask`, which nobody resumes.
        Asked = "asked",
        /// Typed by `ask`, too, but it may be running already; no call claims its completion.
        Foreign = "foreign",
        /// No command, but lines of `integrate`: if its call leaves, its shell is to be as it was.
        Integration = "integration",
        /// All of these lines have been typed, so its shell will report.
        Integrated = "integrated",
    }
}

/// The data with which a call can resume the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) handed: Handed,
    /// The place in the log.
    pub(crate) place: u64,
    /// The number of the completion before the command's, as the shell counts; which of the session's shells it
    /// is.
    pub(crate) last: u64,
    pub(crate) level: usize,
    /// How many lines the shell was given.
    pub(crate) lines: usize,
    pub(crate) beginning: Beginning,
    /// The number of bytes that had been typed when the last call stopped watching the command.
    pub(crate) typed: u64,
    pub(crate) by: DeliveredBy,
    /// The output comes from another terminal.
    pub(crate) is_remote: bool,
    /// The command is nothing but blank lines and comments.
    pub(crate) is_nothing: bool,
}

worded! {
    /// How far a command has come, according to the marks of its shell.
    #[derive(Default, PartialOrd)]
    pub(crate) enum Stage {
        /// It is being handed over.
        #[default]
        Typed = "typed",
        /// The shell has it, and will show it.
        Taken = "taken",
        Running = "running",
        Done = "done",
        /// The next prompt is being drawn.
        PromptBegun = "prompt-begun",
        Prompt = "prompt",
    }
}

/// How long a shell at its prompt may take to read what is typed, or to draw it.
pub(crate) const READING: Duration = Duration::from_secs(5);

/// How long a command may go on after its first interrupt.
pub(crate) const STUBBORN: Duration = Duration::from_secs(3);

worded! {
    /// Why nothing more will be known of a command.
    pub(crate) enum Trouble {
        /// It could not be typed, because its shell does not read.
        Untyped = "untyped",
        /// An interrupt came while it was typed, and has discarded it.
        Cut = "cut",
        /// The shell has not taken it.
        PassedOver = "passed-over",
        /// It was interrupted before the shell took it.
        Interrupted = "interrupted",
        /// The shell, which wanted the rest of it, has been interrupted, and is not back at its prompt.
        Unfinished = "unfinished",
        /// Another program has replaced the shell.
        Replaced = "replaced",
        /// The shell is back at its prompt, and cannot report how it ended.
        Unreported = "unreported",
    }
}

/// The progress of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) stage: Stage,
    /// The number of the completion that the command's end is to be, as its shell counts.
    pub(crate) seq: u64,
    /// The range of its output, as far as it is known by now.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The exit code, once it is done, or that of its shell, once that has ended.
    pub(crate) code: i32,
    /// The shell has reported that it executes something.
    pub(crate) has_started: bool,
    /// And has printed its own mark before ours, as it will at the end.
    pub(crate) marks_end: bool,
    /// The shell waits for the rest of the command, which has none.
    pub(crate) unfinished: bool,
    /// The shell reads the text that is to be handed over, since this place of the log.
    pub(crate) reads: Option<u64>,
    /// This shell has ended, as an outer shell reported at this place of the log.
    pub(crate) outer: Option<u64>,
    /// The end of the hook that reports the end, as `set -v` has shown it.
    pub(crate) shown: Option<u64>,
}

impl Progress {
    /// Its output has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.stage >= Stage::Running
    }

    /// The shell has reported its end.
    pub(crate) fn is_done(&self) -> bool {
        self.stage >= Stage::Done
    }

    pub(crate) fn output(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// A report for a call that has delivered a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputReport {
    /// The log's length; the relay has processed the output up to there: all other files have it, too.
    pub(crate) processed: u64,
    /// A call or a limit is ending the session.
    pub(crate) is_ending: bool,
    pub(crate) progress: Progress,
    pub(crate) trouble: Option<Trouble>,
    /// Its output cannot be written.
    pub(crate) is_stalled: bool,
    /// How often it has been interrupted.
    pub(crate) interrupts: u64,
    /// The length of the log at the first interrupt.
    pub(crate) interrupted_at: Option<u64>,
    /// The end of the last output in which newlines were printed untranslated.
    pub(crate) untranslated: u64,
}

impl OutputReport {
    /// The line that begins with `output`.
    pub(super) fn encode(mut self) -> String {
        let mut fields = Fields::of_line("output");
        self.visit(&mut fields);
        fields.line + "\n"
    }

    pub(super) fn decode(words: &str) -> Option<OutputReport> {
        let mut report = OutputReport::default();
        report.visit(&mut Fields::given(words)?)?;
        Some(report)
    }

    fn visit(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        let progress = &mut self.progress;
        fields.word("stage", &mut progress.stage, Stage::word, Stage::parse)?;
        fields.number("processed", &mut self.processed)?;
        fields.flag("ending", &mut self.is_ending);
        fields.maybe_word("trouble", &mut self.trouble, Trouble::word, Trouble::parse)?;
        fields.flag("stalled", &mut self.is_stalled);
        fields.number("interrupts", &mut self.interrupts)?;
        fields.maybe("interrupted", &mut self.interrupted_at)?;
        fields.number("untranslated", &mut self.untranslated)?;
        fields.number("seq", &mut progress.seq)?;
        fields.number("start", &mut progress.start)?;
        fields.number("end", &mut progress.end)?;
        let mut code = u64::from(progress.code.cast_unsigned());
        fields.number("code", &mut code)?;
        progress.code = u32::try_from(code).ok()?.cast_signed();
        fields.flag("started", &mut progress.has_started);
        fields.flag("marks-end", &mut progress.marks_end);
        fields.flag("unfinished", &mut progress.unfinished);
        fields.maybe("reads", &mut progress.reads)?;
        fields.maybe("outer", &mut progress.outer)?;
        fields.maybe("shown", &mut progress.shown)
    }
}

/// A command that was left, and goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftJob {
    /// The level of its shell, and the number of that shell's completion before it.
    pub(crate) level: usize,
    pub(crate) last: u64,
}

impl Job {
    /// The line that begins with `job`.
    pub(super) fn encode(mut self) -> String {
        let mut fields = Fields::of_line("job");
        self.visit(&mut fields);
        fields.line + "\n"
    }

    pub(super) fn decode(words: &str) -> Option<Job> {
        let mut job = Job::default();
        job.visit(&mut Fields::given(words)?)?;
        Some(job)
    }

    fn visit(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        fields.word("handed", &mut self.handed, Handed::word, Handed::parse)?;
        fields.number("place", &mut self.place)?;
        fields.number("last", &mut self.last)?;
        fields.number("level", &mut self.level)?;
        fields.number("lines", &mut self.lines)?;
        fields.word("beginning", &mut self.beginning, Beginning::word, Beginning::parse)?;
        fields.number("typed", &mut self.typed)?;
        fields.word("by", &mut self.by, DeliveredBy::word, DeliveredBy::parse)?;
        fields.flag("remote", &mut self.is_remote);
        fields.flag("nothing", &mut self.is_nothing);
        Some(())
    }
}
