//! The last input, and its offset in the log.
//!
//! Calls that wait for a text in the output need it, to distinguish the text from its echo. It is kept in
//! memory only, and a secret (a line typed with the echo off) is not kept at all.

use std::collections::VecDeque;

use crate::{
    session::client::{
        PromptState,
        input_history::{InputHistory, Keys, Mode},
    },
    sys::pty::TerminalModes,
};

/// How much input is remembered. An echo that comes later than that much input counts as output.
const KEPT: usize = 64 * 1024;

/// Pieces that were typed one by one, as by a person, cost more than their bytes.
const MOST: usize = 4096;

#[derive(Default)]
pub(crate) struct Journal {
    keys: VecDeque<Keys>,
    // The number of bytes in `keys`.
    length: usize,
    total: u64,
    anchor: u64,
    begins: bool,
}

/// `None`: the input is a secret.
pub(crate) fn mode(modes: &TerminalModes, prompt: PromptState) -> Option<Mode> {
    match (modes.is_canonical(), modes.echoes()) {
        (true, false) => None,
        (_, true) => Some(Mode::Lines),
        (false, false) if prompt == PromptState::Stands => Some(Mode::Prompt),
        (false, false) => Some(Mode::Raw),
    }
}

impl Journal {
    /// The next input is a new text.
    pub(crate) fn begin(&mut self) {
        self.begins = true;
    }

    /// Did that begin a text?
    pub(crate) fn note(&mut self, bytes: &[u8], offset: u64, mode: Option<Mode>) -> bool {
        let begins = std::mem::take(&mut self.begins);
        if begins {
            self.anchor = offset;
        }
        let Some(mode) = mode else { return begins };
        self.total += bytes.len() as u64;
        self.length += bytes.len();
        match self.keys.back_mut() {
            Some(last) if (last.offset, last.mode) == (offset, mode) => last.bytes.extend_from_slice(bytes),
            _ => self.keys.push_back(Keys { offset, mode, bytes: bytes.to_vec() }),
        }
        while self.length > KEPT || self.keys.len() > MOST {
            let Some(first) = self.keys.front_mut() else { break };
            let surplus = self.length.saturating_sub(KEPT);
            if surplus > 0 && surplus < first.bytes.len() {
                first.bytes.drain(..surplus);
                self.length -= surplus;
            } else {
                self.length -= first.bytes.len();
                self.keys.pop_front();
            }
        }
        begins
    }

    /// How many bytes have been typed, but for secrets.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The input after the first `since` bytes.
    pub(crate) fn since(&self, since: u64) -> InputHistory {
        let mut start = self.total - self.length as u64;
        let mut keys = Vec::new();
        for some in &self.keys {
            let end = start + some.bytes.len() as u64;
            if end > since {
                let known = usize::try_from(since.saturating_sub(start)).unwrap_or(0);
                keys.push(Keys { bytes: some.bytes[known..].to_vec(), ..*some });
            }
            start = end;
        }
        InputHistory { anchor: self.anchor, total: self.total, keys }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_text_is_found_from_any_offset() {
        let mut journal = Journal::default();
        journal.begin();
        journal.note(b"one\r", 10, Some(Mode::Raw));
        journal.note(b"more\r", 10, Some(Mode::Raw));
        journal.note(b"secret\r", 15, None);
        journal.begin();
        journal.note(b"two\r", 20, Some(Mode::Lines));
        let all = journal.since(0);
        assert_eq!((all.anchor, all.total), (20, 13));
        assert_eq!(all.keys[0].bytes, b"one\rmore\r");
        assert_eq!(journal.since(10).keys, [Keys { offset: 20, mode: Mode::Lines, bytes: b"wo\r".into() }]);
        assert_eq!(journal.since(13).keys, []);
    }

    #[test]
    fn only_the_last_is_remembered() {
        let mut journal = Journal::default();
        for offset in 0..10 {
            journal.note(&[b'x'; 10_000], offset, Some(Mode::Lines));
        }
        let kept: usize = journal.since(0).keys.iter().map(|keys| keys.bytes.len()).sum();
        assert_eq!(kept, KEPT);
        assert_eq!(journal.since(0).total, 100_000);
    }
}
