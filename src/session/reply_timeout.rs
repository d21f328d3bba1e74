//! How long a call waits for replies that other processes send at once.
//!
//! A relay answers within milliseconds, and no process keeps a lock for long. If one does, it was stopped
//! (kill -STOP), or waits for a reader of its output. So no call waits for one longer than [`LONGEST`], nor
//! longer than the call itself may take plus [`GRACE`]. A wait for an event has a deadline of its own.

use std::time::Duration;

use crate::{
    outcome::Failure,
    session::Handle,
    sys::{deadline::Deadline, processes::Process},
};

/// Long for an answer, short for a person.
const LONGEST: Duration = Duration::from_secs(5);

/// How long a request may take that asks, after the call's deadline, why the call failed: on a busy machine
/// an answer takes some time.
const GRACE: Duration = Duration::from_millis(800);

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTimeout {
    // When the call is to be over.
    over: Deadline,
    // The end of the grace; calls with many sessions have one grace for all.
    last: Deadline,
}

impl ReplyTimeout {
    /// For a call without a time limit.
    pub(crate) const OF_ANY: ReplyTimeout = ReplyTimeout { over: Deadline::NEVER, last: Deadline::NEVER };

    /// For a call with this deadline.
    pub(crate) fn until(over: Deadline) -> ReplyTimeout {
        ReplyTimeout { over, last: Deadline::NEVER }
    }

    /// The same for a call about many sessions: they have [`GRACE`] together, and not one after the other.
    pub(crate) fn with_many_until(over: Deadline) -> ReplyTimeout {
        ReplyTimeout { over, last: over.plus(GRACE) }
    }

    /// When the call is to be over.
    pub(crate) fn over(self) -> Deadline {
        self.over
    }

    /// The deadline for the response to a request that is sent now.
    pub(crate) fn deadline(self) -> Deadline {
        Deadline::after(LONGEST).min(self.last())
    }

    /// The deadline for an action that the call begins now.
    pub(crate) fn last(self) -> Deadline {
        self.over.at_least(GRACE).min(self.last)
    }

    /// Like [`ReplyTimeout::deadline`], for an answer of this process: if it is stopped at the call's
    /// deadline, it will not answer.
    pub(crate) fn deadline_for(self, pid: u32) -> Deadline {
        if self.over.has_passed() && is_stopped(pid) { self.over } else { self.deadline() }
    }

    /// Why a relay, with this PID as far as it is known, has not answered, as part of a sentence.
    pub(crate) fn reason(self, handle: &Handle, pid: Option<u32>) -> String {
        match pid.filter(|pid| is_stopped(*pid)) {
            Some(pid) => {
                format!("does not respond: process {pid} is stopped; try 'kill -CONT {pid}'")
            }
            None if self.over.has_passed() => "did not respond in time".to_owned(),
            None => format!(
                "did not respond for {} s; try 'nbs-ts kill {handle}' to end the session",
                LONGEST.as_secs()
            ),
        }
    }

    /// The error, with more text, of a call that failed for that reason. A relay that is stopped, or has had
    /// long enough, is not expected to answer any more.
    pub(crate) fn failure(self, handle: &Handle, pid: Option<u32>, more: &str) -> Failure {
        let reason = self.reason(handle, pid);
        let message = format!("cannot talk to the relay of session '{handle}': it {reason}{more}");
        let is_slow = self.over.has_passed() && !pid.is_some_and(is_stopped);
        if is_slow { Failure::timed_out(message) } else { Failure::failed(message) }
    }
}

fn is_stopped(pid: u32) -> bool {
    Process::read(pid).is_some_and(|process| process.is_stopped())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_sessions_have_their_grace_together_and_one_has_it_for_each_answer() {
        let over = Deadline::after(Duration::ZERO);
        let (one, many) = (ReplyTimeout::until(over), ReplyTimeout::with_many_until(over));
        let moment = many.last();
        assert_eq!(moment, over.plus(GRACE));
        while !moment.has_passed() {
            assert!(one.last() != moment);
            assert_eq!(many.last(), moment);
        }
        assert!(!one.last().has_passed() && many.deadline().has_passed());
        assert_eq!(ReplyTimeout::with_many_until(Deadline::NEVER).last(), Deadline::NEVER);
    }
}
