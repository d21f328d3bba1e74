//! A delivered command, as its call describes it to the relay, and the relay to another call that attaches to
//! it.

use crate::{numbers::number, session::shell::Beginning, worded::worded};

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
    pub(crate) flags: JobFlags,
}

/// A command that was left, and goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftJob {
    /// The level of its shell, and the number of that shell's completion before it.
    pub(crate) level: usize,
    pub(crate) last: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobFlags {
    /// It was delivered by a key.
    pub(crate) by_key: bool,
    /// The output comes from another terminal.
    pub(crate) is_remote: bool,
    /// The command is nothing but blank lines and comments.
    pub(crate) is_nothing: bool,
    /// The shell will mark its end itself, too.
    pub(crate) marks_end: bool,
}

impl JobFlags {
    fn bits(self) -> [bool; 4] {
        let JobFlags { by_key, is_remote, is_nothing, marks_end } = self;
        [by_key, is_remote, is_nothing, marks_end]
    }

    fn encode(self) -> String {
        self.bits().into_iter().map(|bit| if bit { '1' } else { '0' }).collect()
    }

    fn decode(word: &str) -> Option<JobFlags> {
        let bits: Vec<bool> = word.bytes().map(|digit| digit == b'1').collect();
        let [by_key, is_remote, is_nothing, marks_end] = bits[..] else { return None };
        Some(JobFlags { by_key, is_remote, is_nothing, marks_end })
    }
}

impl Job {
    pub(super) fn encode(&self) -> String {
        let Job { handed, place, last, ahead, level, lines, beginning, typed, flags } = *self;
        let (handed, beginning) = (handed.word(), beginning.word());
        format!("{handed} {place} {last} {ahead} {level} {lines} {beginning} {typed} {}", flags.encode())
    }

    pub(super) fn decode(words: &[&str]) -> Option<Job> {
        let [handed, place, last, ahead, level, lines, beginning, typed, flags] = *words else { return None };
        Some(Job {
            handed: Handed::parse(handed)?,
            place: number(place.as_bytes())?,
            last: number(last.as_bytes())?,
            ahead: ahead.parse().ok()?,
            level: level.parse().ok()?,
            lines: lines.parse().ok()?,
            beginning: Beginning::parse(beginning)?,
            typed: number(typed.as_bytes())?,
            flags: JobFlags::decode(flags)?,
        })
    }
}
