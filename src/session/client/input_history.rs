//! The text typed into a session, as its relay remembers it.

use crate::{
    numbers::{hex, parse_hex},
    session::{SessionDir, TYPED, dir::LONGEST_COMMAND},
};

/// Some bytes that were typed at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    /// How long the log was then.
    pub(crate) offset: u64,
    pub(crate) mode: Mode,
    pub(crate) bytes: Vec<u8>,
}

/// The part that would echo typed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The kernel, at once; and perhaps a line editor, when it gets to it.
    Lines,
    /// The program, if anything.
    Raw,
    /// A shell with our marks, at its prompt.
    Prompt,
}

/// The remembered input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputHistory {
    /// How long the log was when the typing of the last text began.
    pub(crate) anchor: u64,
    /// How many bytes have been typed in all.
    pub(crate) total: u64,
    pub(crate) keys: Vec<Keys>,
}

impl InputHistory {
    /// The last text typed into a session that has ended, if it is known.
    pub(crate) fn last_of(session: &SessionDir) -> Option<InputHistory> {
        let lines = session.folder.read(TYPED, LONGEST_COMMAND).ok()?;
        let (anchor, rest) = std::str::from_utf8(&lines).ok()?.lines().next()?.split_once(' ')?;
        InputHistory::decode(anchor, rest)
    }

    pub(crate) fn encode(&self) -> String {
        let mut line = String::new();
        self.encode_onto(&mut line);
        line
    }

    pub(crate) fn encode_onto(&self, line: &mut String) {
        let length: usize = self.keys.iter().map(|keys| 2 * keys.bytes.len() + "1234567890 l".len()).sum();
        line.reserve(length);
        *line += &format!("{} {}", self.anchor, self.total);
        for keys in &self.keys {
            let mode = match keys.mode {
                Mode::Lines => 'l',
                Mode::Raw => 'r',
                Mode::Prompt => 'p',
            };
            *line += &format!(" {}{mode}{}", keys.offset, hex(&keys.bytes));
        }
    }

    pub(crate) fn decode(anchor: &str, rest: &str) -> Option<InputHistory> {
        let mut words = rest.split(' ');
        let total = words.next()?.parse().ok()?;
        let keys = words.map(decode_keys).collect::<Option<Vec<_>>>()?;
        Some(InputHistory { anchor: anchor.parse().ok()?, total, keys })
    }
}

fn decode_keys(word: &str) -> Option<Keys> {
    let at = word.find(|character: char| !character.is_ascii_digit())?;
    let (offset, rest) = word.split_at(at);
    let (mode, digits) = rest.split_at_checked(1)?;
    let mode = match mode {
        "l" => Mode::Lines,
        "r" => Mode::Raw,
        "p" => Mode::Prompt,
        _ => return None,
    };
    Some(Keys { offset: offset.parse().ok()?, mode, bytes: parse_hex(digits)? })
}
