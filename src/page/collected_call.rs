//! A call of ours that a request of the page waits for, with the beginning of what it has printed.

use crate::{
    json::Object,
    machine::{
        call::{Came, End},
        call_process::CallProcess,
    },
    outcome::Result,
    sys::poll::PollSet,
};

/// The most bytes that are kept of the output, and of the error.
const LONGEST: usize = 4096;

/// It ends with us if it is one that waits.
pub(crate) struct CollectedCall {
    call: CallProcess,
    pub(crate) output: Vec<u8>,
    error: Vec<u8>,
}

impl CollectedCall {
    pub(crate) fn start(verb: &str, words: &[&str]) -> Result<CollectedCall> {
        let call = CallProcess::start_tied(verb, words.iter().map(Into::into).collect())?;
        Ok(CollectedCall { call, output: Vec::new(), error: Vec::new() })
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        self.call.watch(poll_set, event);
    }

    /// Its exit code, once it has ended.
    pub(crate) fn drive(&mut self) -> Option<u8> {
        let mut came = Vec::new();
        let driven = self.call.drive(&mut came);
        let mut ended = driven.err().map(|_| 1);
        for part in came {
            let (kept, bytes) = match part {
                Came::Stdout(bytes) => (&mut self.output, bytes),
                Came::Stderr(bytes) => (&mut self.error, bytes),
                Came::Ended(End::Exit(code)) => {
                    ended = Some(code);
                    continue;
                }
                Came::Ended(End::Lost(_)) => {
                    ended = Some(1);
                    continue;
                }
            };
            let room = LONGEST.saturating_sub(kept.len());
            kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        ended
    }

    /// The reason of its failure, for the page.
    pub(crate) fn failure(&self) -> String {
        let said = String::from_utf8_lossy(&self.error);
        Object::new().text("error", said.trim_end().trim_start_matches("nbs-ts: ")).line()
    }
}
