//! A line for a program that does not read lines: a call of ours types it, and reports the result.

use crate::{outcome::Result, page::collected_call::CollectedCall, session::Handle, sys::poll::PollSet};

/// How long it may wait for the program, less than a browser waits for us.
const TIMEOUT: &str = "--timeout=60";

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
