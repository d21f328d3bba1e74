//! A command for a nested shell.

use std::os::fd::AsFd;

use super::{LAST_PROMPT, Outcome, Run};
use crate::{
    outcome::Result,
    session::client::{Parts, PromptState, WaitOutcome},
    sys::deadline::Deadline,
};

impl Run<'_> {
    /// Has this shell ended, so that one around it reports?
    pub(super) fn look_for_outer(&self) -> Option<Outcome> {
        self.progress.outer.map(|_| Outcome::InnerEnded(self.progress.code))
    }

    /// Waits until the next call finds the outer shell at its prompt.
    pub(super) fn await_outer_prompt(&mut self) -> Result<()> {
        let deadline = Deadline::after(LAST_PROMPT);
        while self.relay.snapshot(Parts::NONE)?.is_some_and(|place| place.prompt != PromptState::Stands)
            && self.relay.news_or(deadline, Some(self.signals.as_fd()))? == WaitOutcome::Changed
        {}
        Ok(())
    }
}
