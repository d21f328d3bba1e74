//! The conditions of `wait` and `ask`.
//!
//! However much is printed, and however fast, a wait ends in time: we search the log in steps and
//! check the clock between them. We search it only if a text is awaited.

mod watch;

use std::{ffi::OsStr, os::unix::ffi::OsStringExt, time::Duration};

use regex_lite::Regex;

use crate::{call::CommandLine, cli, outcome::Result, session::client::Parts, terminal::text::Prompts};
pub(crate) use watch::{SessionWatch, WatchEnd, WatchStart, begin_all, until};

/// The conditions to wait for.
#[derive(Default)]
pub(crate) struct Conditions {
    patterns: Vec<Vec<u8>>,
    regexes: Vec<Regex>,
    fails: Vec<Vec<u8>>,
    pub(crate) complete: bool,
    idle: Option<Duration>,
    stable: Option<Duration>,
    pub(crate) input: bool,
    waiting: bool,
    done: bool,
    pub(crate) exit: bool,
    /// A shell waits for another line though it executes nothing: it wants the rest of a command, or rejected
    /// the typed text. Counts as input.
    pub(crate) passed_over: bool,
    /// The command of a shell waits for input. Counts as input.
    pub(crate) asks: bool,
    /// The prompts that were there when we typed. Input counts as awaited only if a similar prompt, or text
    /// that looks like a prompt or a question, is before the cursor; else the program counts as busy, until
    /// nothing but input can wake it.
    pub(crate) prompts: Option<Prompts>,
    /// A program that forwards input counts as waiting after a while, whatever the last line is.
    is_lenient: bool,
}

impl Conditions {
    /// Just that the program waits for input, for us to type some.
    pub(crate) fn for_input() -> Conditions {
        Conditions { input: true, is_lenient: true, ..Conditions::default() }
    }

    pub(crate) fn given(call: &CommandLine) -> Result<Conditions> {
        let bytes = |option: &str, value: &OsStr| Ok(cli::some(option, value)?.into_vec());
        Ok(Conditions {
            patterns: call.values("pattern", bytes)?,
            fails: call.values("fail", bytes)?,
            regexes: call.values("regex", cli::regex)?,
            complete: call.has("complete"),
            idle: call.optional("idle", cli::time)?,
            stable: call.optional("stable", cli::time)?,
            input: call.has("input"),
            waiting: call.has("waiting"),
            done: call.has("done"),
            exit: call.has("exit"),
            ..Conditions::default()
        })
    }

    /// Nothing that could be met but a failure.
    pub(crate) fn are_none(&self) -> bool {
        let text = self.patterns.is_empty() && self.regexes.is_empty();
        let silence = self.idle.is_some() || self.stable.is_some();
        text && !silence && !self.complete && !self.input && !self.is_of_standing() && !self.exit
    }

    /// Does the relay's report of activity suffice for all conditions?
    fn are_at_a_glance(&self) -> bool {
        let silence = self.idle.is_some() || self.stable.is_some();
        self.is_of_standing() && !self.seek_text() && !silence && !self.complete && !self.look_for_input()
    }

    /// Is a condition about the activity that the relay reports?
    fn is_of_standing(&self) -> bool {
        self.waiting || self.done
    }

    /// The parts of a relay's view that they need.
    fn parts(&self) -> Parts {
        if self.look_for_input() { Parts::INPUT } else { Parts::NONE }
    }

    fn look_for_input(&self) -> bool {
        self.input || self.passed_over || self.asks
    }

    pub(crate) fn can_fail(&self) -> bool {
        !self.fails.is_empty()
    }

    /// Is anything looked for in the output?
    fn seek_text(&self) -> bool {
        !self.patterns.is_empty() || !self.regexes.is_empty() || !self.fails.is_empty()
    }

    fn described(&self) -> String {
        let shown = |bytes: &Vec<u8>| format!("print '{}'", String::from_utf8_lossy(bytes));
        let mut all: Vec<String> = self.patterns.iter().map(shown).collect();
        all.extend(self.regexes.iter().map(|regex| format!("print /{regex}/")));
        all.extend(self.complete.then(|| "finish a command".to_owned()));
        all.extend(self.idle.map(|_| "stay silent".to_owned()));
        all.extend(self.stable.map(|_| "keep its screen unchanged".to_owned()));
        all.extend(self.input.then(|| "wait for input".to_owned()));
        all.extend(self.waiting.then(|| "start waiting for input".to_owned()));
        all.extend(self.done.then(|| "end a turn".to_owned()));
        all.extend(self.exit.then(|| "end".to_owned()));
        if all.is_empty() {
            all.extend(self.fails.iter().map(shown));
        }
        all.join(" or ")
    }
}

/// A condition that has come true.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    /// By the name of its option.
    pub(crate) condition: &'static str,
    pub(crate) detail: String,
    /// How far the log had come.
    pub(crate) offset: u64,
}

impl Met {
    pub(crate) fn is_failure(&self) -> bool {
        self.condition == "fail"
    }
}
