//! A line for a program that does not read lines: a call of ours types it, and reports the result.

use crate::{
    json::Object,
    machine::{
        call::{Came, End},
        call_process::CallProcess,
    },
    outcome::Result,
    session::Handle,
    sys::poll::PollSet,
};

/// How long it may wait for the program, less than a browser waits for us.
const TIMEOUT: &str = "--timeout=60";

/// The most bytes that are kept of the output, and of the error.
const LONGEST: usize = 4096;

/// A call of ours, with the beginning of what it has printed.
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

/// A call, and the number of the request that waits for it.
pub(crate) struct WaitingCall {
    pub(crate) number: u64,
    call: CollectedCall,
}

impl WaitingCall {
    /// Gives a task to the program.
    pub(crate) fn submit(number: u64, handle: &Handle, task: &str) -> Result<WaitingCall> {
        let call = CollectedCall::start("send", &[TIMEOUT, "--submit", handle.as_str(), task])?;
        Ok(WaitingCall { number, call })
    }

    /// Answers the question that the page showed.
    pub(crate) fn answer(number: u64, handle: &Handle, id: &str, text: &str) -> Result<WaitingCall> {
        let id = format!("--question-id={id}");
        let call = CollectedCall::start("answer", &[TIMEOUT, &id, handle.as_str(), text])?;
        Ok(WaitingCall { number, call })
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        self.call.watch(poll_set, event);
    }

    /// The result for the page, once the call has ended: nothing if the line was accepted.
    pub(crate) fn drive(&mut self) -> Option<Option<String>> {
        self.call.drive().map(|code| (code != 0).then(|| self.call.failure()))
    }
}
