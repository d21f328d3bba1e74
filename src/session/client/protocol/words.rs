//! The arguments of requests and responses, and the word for each.

use std::fmt;

use crate::{
    session::shell::Dialect,
    terminal::{keys::Application, text},
    worded::worded,
};

/// The kind of client that follows changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follower {
    /// Shows the session.
    Viewer,
    /// The same, and gets the terminal's size, too.
    SizedViewer,
    /// A call that waits on the session and will notify its caller.
    Waiter,
    /// Runs a command: gets reports of output, and of the shell's requests, behind the first `seen` bytes of
    /// the log.
    Runner,
}

impl Follower {
    pub(super) fn word(self) -> &'static str {
        match self {
            Follower::Viewer => "",
            Follower::SizedViewer => " sized",
            Follower::Waiter => " waits",
            Follower::Runner => " runs",
        }
    }
}

/// The byte that a keyboard sends by default as an interrupt.
pub(crate) const INTERRUPT: u8 = 0x03;

/// How a terminal takes keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyModes {
    pub(crate) application: Application,
    /// The program has asked for pasted text to be bracketed.
    pub(crate) bracketed_paste: bool,
    /// A hidden line is asked for.
    pub(crate) secret: bool,
    /// A part of a line has been typed, which nothing has ended.
    pub(crate) half_line: bool,
    /// The character that ends the input, if there is one.
    pub(crate) end_of_input: Option<u8>,
    /// The characters that are signals.
    pub(crate) signals: Vec<u8>,
}

/// The size of a terminal, in characters, and how long the log was when it was
/// found to be that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeSince {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
    pub(crate) offset: u64,
}

impl SizeSince {
    pub(super) fn decode(words: &str) -> Option<SizeSince> {
        match words.split(' ').collect::<Vec<_>>()[..] {
            [cols, rows, offset] => Some(SizeSince {
                cols: cols.parse().ok()?,
                rows: rows.parse().ok()?,
                offset: offset.parse().ok()?,
            }),
            _ => None,
        }
    }
}

worded! {
    /// The state of a terminal.
    #[derive(Default)]
    pub(crate) enum TerminalState {
        /// Its shell waits at its prompt.
        Prompt = "prompt",
        /// A program waits for a line.
        Line = "line",
        /// A hidden line is asked for.
        Secret = "secret",
        /// A program waits for keys.
        Raw = "raw",
        /// No program is seen to wait for input.
        #[default]
        Running = "running",
    }
}

impl fmt::Display for TerminalState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

/// The prompt at which a text was typed: the process, and a hash of its prompt without digits
/// (`AnsweredPrompt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) pid: u32,
    pub(crate) prompt: u64,
}

/// The program that has the foreground.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForegroundProgram {
    pub(crate) pid: u32,
    pub(crate) name: String,
    /// It is the shell that reports, or passes on input to that shell.
    pub(crate) is_shell: bool,
    pub(crate) waits: bool,
    /// It may also wait for data from a socket or another terminal.
    pub(crate) leads_elsewhere: bool,
    /// It is a shell that reads its commands from the terminal.
    pub(crate) shell: Option<Dialect>,
}

impl ForegroundProgram {
    /// The program as a part of a sentence, if it is not the shell that reports.
    pub(crate) fn named(&self) -> Option<String> {
        (!self.is_shell).then(|| format!("'{}' is in the foreground", text::escaped(self.name.as_bytes())))
    }
}

worded! {
    /// The state of the session's shell, according to its marks.
    #[derive(Default)]
    pub(crate) enum PromptState {
        /// It has no marks, or has not come to its first.
        #[default]
        Unknown = "unknown",
        /// The shell is at its prompt, and waits for a command.
        Stands = "stands",
        /// The same, but keys have been typed there: there may be half a line.
        Touched = "touched",
        /// A line has been typed there, and the shell executes nothing yet: it has not read it, wants the rest of
        /// it (PS2), or rejects it.
        Entered = "entered",
        /// A command is being executed.
        Left = "left",
        /// A command has ended, and the prompt is about to come.
        Coming = "coming",
    }
}

impl PromptState {
    /// The shell is at its prompt, whatever has been typed there.
    pub(crate) fn is_there(self) -> bool {
        matches!(self, PromptState::Stands | PromptState::Touched)
    }
}
