//! What a relay sees of its session at one moment.

use std::time::Duration;

use super::protocol::{
    Doing,
    words::{value, word},
};
use crate::numbers::{hex, parse_hex};

/// What of it takes a look at processes, and is left out unless it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts(u8);

impl Parts {
    pub(crate) const NONE: Parts = Parts(0);
    pub(crate) const TERMINAL: Parts = Parts(1);
    /// And what the terminal is doing.
    pub(crate) const INPUT: Parts = Parts(2 | 1);

    pub(crate) fn has(self, others: Parts) -> bool {
        self.0 & others.0 == others.0
    }

    pub(super) fn encode(self) -> String {
        self.0.to_string()
    }

    pub(super) fn decode(word: &str) -> Option<Parts> {
        word.parse().ok().map(Parts)
    }
}

/// What somebody reads the terminal for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// A command: the shell that reports is at its prompt.
    Prompt,
    Line,
    Secret,
    Raw,
    /// To pass it on, as ssh does.
    Far,
}

impl Reads {
    pub(super) const WORDS: [(&str, Reads); 5] = [
        ("prompt", Reads::Prompt),
        ("line", Reads::Line),
        ("secret", Reads::Secret),
        ("raw", Reads::Raw),
        ("far", Reads::Far),
    ];
}

/// The verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Input {
    /// `None`: nobody reads; or there is something to be read.
    pub(crate) reads: Option<Reads>,
    /// How long, as far as anybody has looked, nothing has been printed or typed, and who reads has
    /// done nothing else: neither woken up, nor used the CPU.
    pub(crate) held: Duration,
    /// How long that must be, for it to be more than a program that looks for a key while it works.
    pub(crate) least: Duration,
    /// Who reads may wait for a time to pass, too.
    pub(crate) has_timer: bool,
}

impl Input {
    /// Has it waited for so long?
    pub(crate) fn is_waiting(&self, held: Duration) -> bool {
        self.reads.is_some() && self.held >= held.max(self.least)
    }

    /// How long until it will have, if nothing happens; `None`: nobody reads.
    pub(crate) fn remaining(&self, held: Duration) -> Option<Duration> {
        self.reads.map(|_| held.max(self.least).saturating_sub(self.held))
    }
}

/// What the relay sees at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// How long the log is.
    pub(crate) offset: u64,
    /// How many typed bytes nobody has read.
    pub(crate) unread: u64,
    /// Why output is held back, if it is.
    pub(crate) stalled: Option<String>,
    /// Of `Parts::TERMINAL`.
    pub(crate) doing: Doing,
    /// Of `Parts::INPUT`.
    pub(crate) input: Input,
}

impl Snapshot {
    pub(super) fn encode(&self) -> String {
        let Snapshot { offset, unread, stalled, doing, input } = self;
        let mut line = format!("snapshot offset={offset} unread={unread} terminal={doing}");
        if let Some(why) = stalled {
            line += &format!(" stalled={}", hex(why.as_bytes()));
        }
        if let Input { reads: Some(reads), held, least, has_timer } = input {
            let (reads, held, least) = (word(&Reads::WORDS, *reads), held.as_millis(), least.as_millis());
            line += &format!(" input={reads},{held},{least},{}", u8::from(*has_timer));
        }
        line + "\n"
    }

    /// What is not known is left out: a relay of another version may tell more.
    pub(super) fn decode(words: &str) -> Option<Snapshot> {
        let mut snapshot = Snapshot::default();
        let millis = |number: &str| number.parse().ok().map(Duration::from_millis);
        for field in words.split(' ') {
            let (name, told) = field.split_once('=')?;
            match name {
                "offset" => snapshot.offset = told.parse().ok()?,
                "unread" => snapshot.unread = told.parse().ok()?,
                "stalled" => snapshot.stalled = Some(String::from_utf8(parse_hex(told)?).ok()?),
                "terminal" => snapshot.doing = Doing::parse(told),
                "input" => match told.split(',').collect::<Vec<_>>()[..] {
                    [reads, held, least, timer] => {
                        snapshot.input = Input {
                            reads: Some(value(&Reads::WORDS, reads)?),
                            held: millis(held)?,
                            least: millis(least)?,
                            has_timer: timer == "1",
                        }
                    }
                    _ => return None,
                },
                _ => {}
            }
        }
        Some(snapshot)
    }
}
