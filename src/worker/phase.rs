//! When a worker is over, from what has been seen of it: no system call here.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// How long a state must last before it counts: the writer may not have written all of the file yet, or may
/// have a last line for its log.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);

/// How long a task file may be missing. An editor that replaces it takes a moment; a worker that has
/// lost it for good cannot report that it is done.
pub(crate) const ABSENCE: Duration = Duration::from_secs(5);

/// The content of the task file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// There is no such file.
    Absent,
    Open,
    /// The state, which is a final one.
    Final(String),
}

impl fmt::Display for Reading {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reading::Absent => formatter.write_str("is not there"),
            Reading::Open => formatter.write_str("the task is open"),
            Reading::Final(state) => write!(formatter, "the task is {state}"),
        }
    }
}

/// A reading, and since when it has been the same.
#[derive(Clone, Debug)]
pub(crate) struct StableReading {
    reading: Reading,
    since: Instant,
}

impl StableReading {
    pub(crate) fn new(now: Instant) -> StableReading {
        StableReading { reading: Reading::Open, since: now }
    }

    pub(crate) fn note(&mut self, reading: Reading, now: Instant) {
        if reading != self.reading {
            *self = StableReading { reading, since: now };
        }
    }

    /// The moment from which on it counts; an open one never does.
    pub(crate) fn counts_from(&self) -> Option<Instant> {
        match self.reading {
            Reading::Open => None,
            Reading::Final(_) => Some(self.since + SETTLE),
            Reading::Absent => Some(self.since + ABSENCE),
        }
    }

    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }
}

/// Why a monitor's work is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    State(String),
    FileGone,
    TimedOut,
    SessionGone,
    NeverBegun,
    Told,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Until something changes, or this moment.
    Wait(Instant),
    Over(Why),
}

/// The state of a monitor.
#[derive(Debug)]
pub(crate) struct WorkerPhase {
    /// Until when the session may take to appear.
    pub(crate) startup: Instant,
    pub(crate) timeout: Instant,
    pub(crate) standing: StableReading,
    /// A session of the worker has been seen.
    pub(crate) had_session: bool,
    /// The process that should start the agent was killed, perhaps before it did.
    pub(crate) doubtful: bool,
    /// The monitor received SIGTERM.
    pub(crate) told: bool,
    /// All that the worker has started is ended with it, its agent, too.
    pub(crate) in_foreground: bool,
}

impl WorkerPhase {
    /// The next action, with `live` sessions of the worker alive.
    pub(crate) fn next(&self, live: usize, now: Instant) -> Next {
        if self.had_session && live == 0 {
            return Next::Over(Why::SessionGone);
        }
        // A session that is still to appear must not outlive the monitor. If the agent ends first, no
        // session appears, unless the agent is still to be started.
        let may_appear = !self.had_session && (!self.in_foreground || self.doubtful);
        let may_come = (may_appear && now < self.startup).then_some(self.startup);
        if self.doubtful && !self.had_session && may_come.is_none() {
            return Next::Over(Why::NeverBegun);
        }
        if self.told && may_come.is_none() {
            return Next::Over(Why::Told);
        }
        let timeout = may_come.map_or(self.timeout, |come| self.timeout.max(come));
        if now >= timeout {
            return Next::Over(Why::TimedOut);
        }
        let counts =
            self.standing.counts_from().map(|counts| may_come.map_or(counts, |come| counts.max(come)));
        match (counts, self.standing.reading()) {
            (Some(counts), Reading::Final(state)) if now >= counts => Next::Over(Why::State(state.clone())),
            (Some(counts), Reading::Absent) if now >= counts => Next::Over(Why::FileGone),
            _ => Next::Wait([counts, may_come].into_iter().flatten().fold(timeout, Instant::min)),
        }
    }

    /// Has the session not come in the time that it had?
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        !self.had_session && now >= self.startup
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn begun(now: Instant) -> WorkerPhase {
        WorkerPhase {
            startup: now + 15 * SECOND,
            timeout: now + 600 * SECOND,
            standing: StableReading::new(now),
            had_session: false,
            doubtful: false,
            told: false,
            in_foreground: false,
        }
    }

    #[test]
    fn a_terminated_worker_ends_a_session_that_starts_later() {
        let now = Instant::now();
        let mut phase = WorkerPhase { told: true, ..begun(now) };
        assert_eq!(phase.next(0, now), Next::Wait(phase.startup));
        assert_eq!(phase.next(0, phase.startup), Next::Over(Why::Told));
        phase.had_session = true;
        assert_eq!(phase.next(1, now), Next::Over(Why::Told));
    }

    #[test]
    fn in_the_foreground_it_waits_for_no_session_of_an_agent_that_it_ends() {
        let now = Instant::now();
        let mut phase = WorkerPhase { in_foreground: true, ..begun(now) };
        assert_eq!(phase.next(0, now), Next::Wait(phase.timeout));
        phase.told = true;
        assert_eq!(phase.next(0, now), Next::Over(Why::Told));
        phase.doubtful = true;
        assert_eq!(phase.next(0, now), Next::Wait(phase.startup), "it may be about to be started");
        assert_eq!(phase.next(1, phase.startup), Next::Over(Why::NeverBegun));
    }

    #[test]
    fn an_agent_that_may_not_have_been_started_has_the_startup_time_only() {
        let now = Instant::now();
        let phase = WorkerPhase { doubtful: true, ..begun(now) };
        assert_eq!(phase.next(0, now), Next::Wait(now + 15 * SECOND));
        assert_eq!(phase.next(0, now + 15 * SECOND), Next::Over(Why::NeverBegun));
        let phase = WorkerPhase { had_session: true, ..phase };
        assert_eq!(phase.next(1, now + 15 * SECOND), Next::Wait(now + 600 * SECOND));
    }

    #[test]
    fn the_monitor_waits_for_a_session_until_the_timeout() {
        let now = Instant::now();
        let phase = begun(now);
        assert_eq!(phase.next(0, now), Next::Wait(phase.startup));
        assert!(!phase.is_late(now) && phase.is_late(phase.startup));
        assert_eq!(phase.next(0, phase.startup), Next::Wait(phase.timeout));
        assert_eq!(phase.next(0, phase.timeout), Next::Over(Why::TimedOut));
    }

    #[test]
    fn a_final_state_counts_once_it_has_stood_for_a_moment() {
        let now = Instant::now();
        let mut phase = WorkerPhase { had_session: true, ..begun(now) };
        phase.standing.note(Reading::Final("done".into()), now);
        assert_eq!(phase.next(1, now), Next::Wait(now + SETTLE));
        assert_eq!(phase.next(1, now + SETTLE), Next::Over(Why::State("done".into())));
        phase.standing.note(Reading::Open, now + SETTLE / 2);
        assert_eq!(phase.next(1, now + SETTLE), Next::Wait(phase.timeout));
        phase.standing.note(Reading::Final("failed".into()), now + SETTLE);
        assert_eq!(phase.next(1, now + SETTLE), Next::Wait(now + 2 * SETTLE));
    }

    #[test]
    fn a_final_state_does_not_leave_a_session_that_is_still_to_come_alone() {
        let now = Instant::now();
        let mut phase = begun(now);
        phase.standing.note(Reading::Final("failed".into()), now);
        assert_eq!(phase.next(0, now + SETTLE), Next::Wait(phase.startup));
        assert_eq!(phase.next(0, phase.startup), Next::Over(Why::State("failed".into())));
        phase.had_session = true;
        assert_eq!(phase.next(1, now + SETTLE), Next::Over(Why::State("failed".into())));
    }

    #[test]
    fn a_short_time_does_not_leave_it_alone_either() {
        let now = Instant::now();
        let mut phase = WorkerPhase { timeout: now + SECOND, ..begun(now) };
        assert_eq!(phase.next(0, now + SECOND), Next::Wait(phase.startup));
        assert_eq!(phase.next(0, phase.startup), Next::Over(Why::TimedOut));
        phase.had_session = true;
        assert_eq!(phase.next(1, now + SECOND), Next::Over(Why::TimedOut));
    }

    #[test]
    fn a_file_may_be_away_for_a_moment_and_no_longer() {
        let now = Instant::now();
        let mut phase = WorkerPhase { had_session: true, ..begun(now) };
        phase.standing.note(Reading::Absent, now);
        assert_eq!(phase.next(1, now), Next::Wait(now + ABSENCE));
        phase.standing.note(Reading::Absent, now + SECOND);
        assert_eq!(phase.next(1, now + ABSENCE), Next::Over(Why::FileGone));
        phase.standing.note(Reading::Open, now + ABSENCE);
        assert_eq!(phase.next(1, now + ABSENCE), Next::Wait(phase.timeout));
    }

    #[test]
    fn a_session_that_is_gone_is_the_end_whatever_the_file_says() {
        let now = Instant::now();
        let mut phase = WorkerPhase { had_session: true, ..begun(now) };
        assert_eq!(phase.next(0, now), Next::Over(Why::SessionGone));
        phase.standing.note(Reading::Final("done".into()), now);
        assert_eq!(phase.next(0, now + SECOND), Next::Over(Why::SessionGone));
        assert_eq!(phase.next(2, phase.timeout), Next::Over(Why::TimedOut));
    }
}
