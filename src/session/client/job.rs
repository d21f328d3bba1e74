//! A delivered command, as its call describes it to the relay, and the relay to another call that attaches to
//! it.

use super::fields::Fields;
use crate::{session::shell::Beginning, worded::worded};

worded! {
    /// How far the call has come with it, and so how another goes on.
    #[derive(Default)]
    pub(crate) enum Handed {
        /// Nothing has been typed.
        #[default]
        Queued = "queued",
        /// A part of the text to type.
        InPart = "in-part",
        /// All of it. The shell will report that it takes the command, and so the number of its completion.
        Whole = "whole",
        /// The command is known to be the next, and what shows it ends behind the place.
        Next = "next",
        /// Its output comes behind the place, and all before has been printed.
        Printed = "printed",
        /// It is the next, and typed by `ask`, which nobody resumes.
        Asked = "asked",
    }
}

/// The data with which a call can resume the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) handed: Handed,
    /// The place in the log.
    pub(crate) place: u64,
    /// The number of the completion before the command's, as the shell counts, and what that lacks to
    /// the number among the session's; which of the session's shells it is.
    pub(crate) last: u64,
    pub(crate) ahead: i64,
    pub(crate) level: usize,
    /// How many lines the shell was given.
    pub(crate) lines: usize,
    pub(crate) beginning: Beginning,
    /// The number of bytes that had been typed when the last call stopped watching the command.
    pub(crate) typed: u64,
    /// It was delivered by a key.
    pub(crate) by_key: bool,
    /// The output comes from another terminal.
    pub(crate) is_remote: bool,
    /// The command is nothing but blank lines and comments.
    pub(crate) is_nothing: bool,
    /// The shell will mark its end itself, too.
    pub(crate) marks_end: bool,
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
        fields.number("ahead", &mut self.ahead)?;
        fields.number("level", &mut self.level)?;
        fields.number("lines", &mut self.lines)?;
        fields.word("beginning", &mut self.beginning, Beginning::word, Beginning::parse)?;
        fields.number("typed", &mut self.typed)?;
        fields.flag("by-key", &mut self.by_key);
        fields.flag("remote", &mut self.is_remote);
        fields.flag("nothing", &mut self.is_nothing);
        fields.flag("marks-end", &mut self.marks_end);
        Some(())
    }
}
