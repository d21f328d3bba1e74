//! A relay's events: changes, output, and the session's state.

use std::{
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use crate::{
    outcome::Result,
    session::client::{
        Parts, Received, RelayClient, Snapshot,
        job::OutputReport,
        protocol::{Follower, RelayRequest, Response, SizeSince},
    },
    sys::deadline::Deadline,
};

/// The state that a relay has reported of its session.
pub(crate) enum ReportedState {
    Standing(Box<Snapshot>),
    /// There was no valid answer in time.
    Nothing,
    /// The session has ended.
    Ended,
}

/// The changes to be reported to us.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// All.
    Changes(Follower),
    /// Changes of the session's state; `waits`: for a call that waits on it.
    Standing { waits: bool },
    /// Output that we have not read.
    Output,
}

/// The result of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Changed,
    /// The relay has gone, and so the session has ended.
    Ended,
    TimedOut,
}

/// When to look at a session for something of which the kernel sends no event, as that a program begins to
/// read, or changes the modes of the terminal: after each change, and at growing intervals.
pub(crate) struct Looks(Duration);

impl Looks {
    const FIRST: Duration = Duration::from_millis(5);
    const LATER: Duration = Duration::from_millis(50);

    pub(crate) fn new() -> Looks {
        Looks(Looks::FIRST)
    }

    /// Waits for the next look, until the deadline at most. `false` if the session has ended.
    pub(crate) fn wait(&mut self, client: &mut RelayClient, deadline: Deadline) -> Result<bool> {
        match client.news(deadline.min(Deadline::after(self.0)))? {
            WaitOutcome::Ended => return Ok(false),
            WaitOutcome::Changed => self.0 = Looks::FIRST,
            WaitOutcome::TimedOut => self.0 = (self.0 * 2).min(Looks::LATER),
        }
        Ok(true)
    }
}

impl RelayClient {
    /// Looks at these parts, now and again, until they are as wanted, or the deadline has passed. `None` if the
    /// session has ended.
    pub(crate) fn await_view(
        &mut self,
        parts: Parts,
        deadline: Deadline,
        is_wanted: impl Fn(&Snapshot) -> Result<bool>,
    ) -> Result<Option<Snapshot>> {
        let mut looks = Looks::new();
        loop {
            let Some(now) = self.snapshot(parts)? else { return Ok(None) };
            if is_wanted(&now)? || deadline.has_passed() {
                return Ok(Some(now));
            }
            looks.wait(self, deadline)?;
        }
    }

    /// Waits until something has changed since the last time; the first time, no longer than for an answer.
    /// If there was none in time, the caller may ask again.
    pub(crate) fn news(&mut self, deadline: Deadline) -> Result<WaitOutcome> {
        self.news_or(deadline, None)
    }

    /// The same; if `stop` can be read first, that is as if it had timed out.
    pub(crate) fn news_or(
        &mut self,
        deadline: Deadline,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<WaitOutcome> {
        if !self.follow()? {
            return Ok(WaitOutcome::Ended);
        }
        if self.seen > 0 || self.follows == Follows::Output {
            return self.receive_news(deadline, stop);
        }
        let patience = self.patience();
        match self.receive_news(patience, stop)? {
            WaitOutcome::TimedOut if patience.has_passed() => Err(self.silent()),
            news => Ok(news),
        }
    }

    /// Asks for a report of the next change; [`RelayClient::receive_news`] receives it. Any other request before
    /// that cancels it; with `Follows::Standing`, no other request may come before. `false` if the session
    /// has ended.
    pub(crate) fn follow(&mut self) -> Result<bool> {
        if self.following != Some(self.follows) {
            let request = self.follow_request(self.follows);
            self.following = self.send(&request)?.then_some(self.follows);
        }
        Ok(self.following.is_some())
    }

    pub(super) fn follow_request(&self, follows: Follows) -> RelayRequest {
        match follows {
            Follows::Changes(as_who) => RelayRequest::Follow { seen: self.seen, as_who },
            Follows::Standing { waits } => {
                RelayRequest::Snapshot { parts: Parts::ACTIVITY, seen: Some(self.seen), waits }
            }
            Follows::Output => RelayRequest::Follow { seen: self.read, as_who: Follower::Runner },
        }
    }

    /// Waits until there is output behind the first `read` bytes of the log, or the shell
    /// wants something there; `stop` as of [`RelayClient::news_or`].
    pub(crate) fn output_or(
        &mut self,
        read: u64,
        deadline: Deadline,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<WaitOutcome> {
        self.read = read;
        let follows = std::mem::replace(&mut self.follows, Follows::Output);
        let news = self.news_or(deadline, stop);
        self.follows = follows;
        news
    }

    /// The last report of this call's command.
    pub(crate) fn last_output(&self) -> OutputReport {
        self.output
    }

    /// The same once the session has ended: the relay has sent a last one.
    pub(crate) fn final_output(&mut self) -> OutputReport {
        while let Ok(Received::Response(response)) = self.receive_or(Deadline::after(Duration::ZERO), None) {
            if let Response::Output(report) = response {
                self.output = *report;
            }
        }
        self.output
    }

    pub(crate) fn receive_news(
        &mut self,
        deadline: Deadline,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<WaitOutcome> {
        match self.receive_or(deadline, stop)? {
            Received::Response(Response::Changed { seen, size }) => {
                (self.seen, self.size) = (seen, size);
                self.following = None;
                Ok(WaitOutcome::Changed)
            }
            Received::Response(Response::Output(report)) => {
                self.output = *report;
                self.following = None;
                Ok(WaitOutcome::Changed)
            }
            Received::Response(Response::Snapshot(standing)) => {
                self.seen = standing.seen;
                self.standing = Some((*standing, Instant::now()));
                self.following = None;
                Ok(WaitOutcome::Changed)
            }
            Received::Response(Response::Ended { code }) => {
                self.exit_code = code;
                Ok(WaitOutcome::Ended)
            }
            Received::Response(_) => Err(self.misunderstood()),
            Received::End => Ok(WaitOutcome::Ended),
            Received::Nothing => Ok(WaitOutcome::TimedOut),
        }
    }

    /// Includes the terminal's size in the reports, too.
    pub(crate) fn sized(mut self) -> RelayClient {
        self.follows = Follows::Changes(Follower::SizedViewer);
        self
    }

    /// Follows as a call that waits on the session and will notify its caller.
    pub(crate) fn waiting(mut self) -> RelayClient {
        self.follows = Follows::Changes(Follower::Waiter);
        self
    }

    /// Follows changes of the session's state, and nothing else; `waits`: for a call that waits on the
    /// session.
    pub(crate) fn of_standing(mut self, waits: bool) -> RelayClient {
        self.follows = Follows::Standing { waits };
        self
    }

    /// The session's state in the last report, and when that came.
    pub(crate) fn last_standing(&self) -> Option<&(Snapshot, Instant)> {
        self.standing.as_ref()
    }

    /// Requests the session's state; [`RelayClient::receive_standing`] receives it. `false` if the session has
    /// ended.
    pub(crate) fn ask_standing(&mut self) -> Result<bool> {
        self.send(&RelayRequest::Snapshot { parts: Parts::ACTIVITY, seen: None, waits: false })
    }

    pub(crate) fn receive_standing(&mut self, deadline: Deadline) -> Result<ReportedState> {
        Ok(match self.receive(deadline)? {
            Received::Response(Response::Snapshot(now)) => ReportedState::Standing(now),
            Received::Response(_) | Received::Nothing => ReportedState::Nothing,
            Received::End => ReportedState::Ended,
        })
    }

    /// The size in the last report.
    pub(crate) fn last_size(&self) -> Option<SizeSince> {
        self.size
    }

    /// The exit code with which the session has ended, if the relay has sent it: the session's directory may
    /// be gone by now.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.exit_code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Handle, ReplyTimeout, client::Parts};
    use std::{io::Write, os::unix::net::UnixStream};

    /// A client, and its relay's end, which has sent this.
    fn client(said: &str) -> (RelayClient, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.write_all(said.as_bytes()).unwrap();
        (RelayClient::over(ours, Handle::parse(b"12345678").unwrap(), ReplyTimeout::OF_ANY), theirs)
    }

    #[test]
    fn the_end_may_come_in_place_of_an_answer() {
        for said in ["ended 3\n", "output stage=typed processed=17\nended 3\n"] {
            let (mut client, _relay) = client(said);
            assert!(client.snapshot(Parts::INPUT).unwrap().is_none());
            assert_eq!(client.exit_code(), Some(3));
        }
    }

    #[test]
    fn a_relay_of_another_version_is_to_be_restarted() {
        let (mut client, _relay) = client("unknown\n");
        let failure = client.output_or(0, Deadline::NEVER, None).unwrap_err();
        let advice = "it is of another version of nbs; try 'nbs-ts restart 12345678'";
        assert!(failure.message().unwrap().ends_with(advice), "{failure:?}");
    }
}
