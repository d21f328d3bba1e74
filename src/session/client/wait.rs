//! Waiting on one session: woken by each change, until its end or a deadline.

use std::time::Duration;

use crate::{
    outcome::{Failure, Reason, Result},
    session::{
        SessionDir,
        client::{Diagnosis, RelayClient, WaitOutcome},
    },
    sys::deadline::Deadline,
};

pub(crate) struct Wait<'a> {
    session: &'a SessionDir,
    // `None` once the session has ended.
    client: Option<RelayClient>,
    timeout: Duration,
    deadline: Deadline,
}

/// Why there will be nothing more to look at.
#[derive(Debug)]
pub(crate) enum WaitEnd {
    Ended,
    TimedOut,
    /// The relay does not report changes, for this reason.
    Untold(Failure),
}

impl<'a> Wait<'a> {
    /// As long as the session's patience lasts; how long that was is for messages.
    pub(crate) fn begin(session: &'a SessionDir, timeout: Duration) -> Result<Wait<'a>> {
        let deadline = session.patience().over();
        Ok(Wait { session, client: RelayClient::open(session)?.map(RelayClient::waiting), timeout, deadline })
    }

    /// Returns when it is time to look: the first time at once, then after each
    /// change; with a reason, when it is the last time.
    pub(crate) fn next(&mut self) -> Option<WaitEnd> {
        let Some(client) = &mut self.client else { return Some(WaitEnd::Ended) };
        match client.news(self.deadline) {
            Ok(WaitOutcome::Changed) if self.deadline.has_passed() => Some(WaitEnd::TimedOut),
            Ok(WaitOutcome::Changed) => None,
            Ok(WaitOutcome::TimedOut) => Some(WaitEnd::TimedOut),
            Ok(WaitOutcome::Ended) => {
                self.client = None;
                Some(WaitEnd::Ended)
            }
            Err(failure) => Some(WaitEnd::Untold(failure)),
        }
    }

    /// The error if the condition was not met.
    pub(crate) fn in_vain(&self, why: WaitEnd, what: &str) -> Failure {
        match why {
            WaitEnd::Ended => {
                let ended = self.session.ended().reworded(|ended| format!("cannot {what}: {ended}"));
                Diagnosis::add_last_line(self.session, Wait::cut_short(ended))
            }
            WaitEnd::TimedOut => {
                let diagnosis = Diagnosis::gather(self.session, self.timeout);
                let handle = self.session.handle();
                diagnosis.timed_out(format!("cannot {what} in session '{handle}': timed out {diagnosis}"))
            }
            WaitEnd::Untold(failure) => failure,
        }
    }

    /// The error if the session could not be read: a session that existed when the wait began, and was
    /// removed, has ended.
    pub(crate) fn cut_short(failure: Failure) -> Failure {
        if failure.is(Reason::NotFound) { failure.because(Reason::Failed) } else { failure }
    }
}
