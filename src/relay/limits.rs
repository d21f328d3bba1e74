//! The limits that end a session.
//!
//! The clock is the monotonic one: a change of the time of day has no effect, and while the machine is
//! suspended it stops.

use std::time::Duration;

use crate::{
    session::{EndedBy, Settings},
    sys::{deadline::Deadline, processes::PidFd},
};

pub(crate) struct Limits {
    timeout: Deadline,
    idle_timeout: Option<Duration>,
    // The time at which it will have been idle for that long, if nothing happens until then.
    idle: Deadline,
    owner: Option<PidFd>,
    owner_has_ended: bool,
}

impl Limits {
    /// The time of a session runs from now on.
    pub(crate) fn new(settings: &Settings, owner: Option<PidFd>) -> Limits {
        let timeout = settings.timeout.map_or(Deadline::NEVER, Deadline::after);
        let idle_timeout = settings.idle_timeout;
        let idle = Deadline::NEVER;
        let mut limits = Limits { timeout, idle_timeout, idle, owner, owner_has_ended: false };
        limits.note_activity();
        limits
    }

    /// Something was printed, or typed.
    pub(crate) fn note_activity(&mut self) {
        self.idle = self.idle_timeout.map_or(Deadline::NEVER, Deadline::after);
    }

    pub(crate) fn note_owners_end(&mut self) {
        self.owner_has_ended = true;
    }

    pub(crate) fn owner(&self) -> Option<&PidFd> {
        self.owner.as_ref()
    }

    /// When one of them may have been reached.
    pub(crate) fn deadline(&self) -> Deadline {
        self.timeout.min(self.idle)
    }

    /// The limit that has been reached by now.
    pub(crate) fn reached(&self) -> Option<EndedBy> {
        let reached = [
            (self.owner_has_ended, EndedBy::Owner),
            (self.timeout.has_passed(), EndedBy::Timeout),
            (self.idle.has_passed(), EndedBy::IdleTimeout),
        ];
        reached.into_iter().find(|(reached, _)| *reached).map(|(_, limit)| limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(timeout: Option<u64>, idle_timeout: Option<u64>) -> Settings {
        let time = |seconds: Option<u64>| seconds.map(Duration::from_secs);
        Settings { timeout: time(timeout), idle_timeout: time(idle_timeout), ..Settings::default() }
    }

    #[test]
    fn only_what_was_set_is_ever_reached() {
        let mut none = Limits::new(&settings(None, None), None);
        none.note_activity();
        assert_eq!((none.deadline(), none.reached()), (Deadline::NEVER, None));
        assert_eq!(Limits::new(&settings(Some(100), Some(100)), None).reached(), None);
        assert_eq!(Limits::new(&settings(Some(0), Some(100)), None).reached(), Some(EndedBy::Timeout));
        assert_eq!(Limits::new(&settings(Some(100), Some(0)), None).reached(), Some(EndedBy::IdleTimeout));
    }

    #[test]
    fn activity_postpones_only_the_idle_timeout() {
        let mut limits = Limits::new(&settings(Some(1_000), Some(100)), None);
        let (timeout, idle) = (limits.timeout, limits.idle);
        limits.note_activity();
        assert_eq!(limits.timeout, timeout);
        assert!(limits.idle.min(idle) == idle && limits.deadline() == limits.idle);
    }
}
