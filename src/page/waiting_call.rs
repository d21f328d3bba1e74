//! A line for a program that does not read lines: a call of ours types it, and tells what came of it.

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

/// The most bytes of an error that are kept.
const LONGEST: usize = 4096;

/// A call, and the number of the request that waits for it.
pub(crate) struct WaitingCall {
    pub(crate) number: u64,
    call: CallProcess,
    error: Vec<u8>,
}

impl WaitingCall {
    /// Gives a task to the program.
    pub(crate) fn submit(number: u64, handle: &Handle, task: &str) -> Result<WaitingCall> {
        WaitingCall::begin(number, "send", [TIMEOUT, "--submit", handle.as_str(), task])
    }

    /// Answers the question that the page showed.
    pub(crate) fn answer(number: u64, handle: &Handle, id: &str, text: &str) -> Result<WaitingCall> {
        WaitingCall::begin(number, "answer", [TIMEOUT, &format!("--question-id={id}"), handle.as_str(), text])
    }

    fn begin(number: u64, verb: &str, words: [&str; 4]) -> Result<WaitingCall> {
        let call = CallProcess::start(verb, words.map(Into::into).into())?;
        Ok(WaitingCall { number, call, error: Vec::new() })
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        self.call.watch(poll_set, event);
    }

    /// The result for the page, once the call has ended: nothing if the line was accepted.
    pub(crate) fn drive(&mut self) -> Option<Option<String>> {
        let mut came = Vec::new();
        let driven = self.call.drive(&mut came);
        let mut ended = driven.err().map(|_| 1);
        for part in came {
            match part {
                Came::Stdout(_) => {}
                Came::Stderr(bytes) => {
                    let room = LONGEST.saturating_sub(self.error.len());
                    self.error.extend_from_slice(&bytes[..bytes.len().min(room)]);
                }
                Came::Ended(End::Exit(code)) => ended = Some(code),
                Came::Ended(_) => ended = Some(1),
            }
        }
        let said = String::from_utf8_lossy(&self.error);
        let why = said.trim_end().trim_start_matches("nbs-ts: ");
        ended.map(|code| (code != 0).then(|| Object::new().text("error", why).line()))
    }
}
