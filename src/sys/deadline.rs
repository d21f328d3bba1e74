//! The moment at which we stop waiting.
//!
//! It is computed once, when the command line is parsed, and passed by value. It uses the monotonic
//! clock, so setting the clock back does not delay anything.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) const NEVER: Deadline = Deadline(None);

    /// If the clock cannot represent the moment, the deadline is never.
    pub(crate) fn after(time: Duration) -> Deadline {
        Deadline(Instant::now().checked_add(time))
    }

    pub(crate) fn at(moment: Instant) -> Deadline {
        Deadline(Some(moment))
    }

    /// How long until then; `None` is for ever.
    pub(crate) fn remaining(self) -> Option<Duration> {
        self.0.map(|moment| moment.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn has_passed(self) -> bool {
        self.remaining().is_some_and(|remaining| remaining.is_zero())
    }

    /// The later of this deadline and `time` from now.
    pub(crate) fn at_least(self, time: Duration) -> Deadline {
        match self.0 {
            Some(moment) => Instant::now()
                .checked_add(time)
                .map_or(Deadline::NEVER, |soon| Deadline(Some(moment.max(soon)))),
            None => Deadline::NEVER,
        }
    }

    /// The deadline after this much more time.
    pub(crate) fn plus(self, time: Duration) -> Deadline {
        Deadline(self.0.and_then(|moment| moment.checked_add(time)))
    }

    /// The earlier of two.
    pub(crate) fn min(self, other: Deadline) -> Deadline {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Deadline(Some(a.min(b))),
            (a, b) => Deadline(a.or(b)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_is_later_than_any_moment() {
        let soon = Deadline::after(Duration::from_secs(1));
        assert_eq!(soon.min(Deadline::NEVER), soon);
        assert_eq!(Deadline::NEVER.min(soon), soon);
        assert!(!Deadline::NEVER.has_passed());
        assert!(Deadline::after(Duration::ZERO).has_passed());
    }

    #[test]
    fn past_deadlines_are_extended_and_distant_ones_kept() {
        let far = Deadline::after(Duration::from_secs(1_000));
        assert_eq!(far.at_least(Duration::from_secs(1)), far);
        assert!(!Deadline::after(Duration::ZERO).at_least(Duration::from_secs(1_000)).has_passed());
        assert_eq!(Deadline::NEVER.at_least(Duration::ZERO), Deadline::NEVER);
        assert_eq!(far.at_least(Duration::MAX), Deadline::NEVER);
        assert_eq!(far.plus(Duration::ZERO), far);
        assert_eq!(far.plus(Duration::from_secs(1)).min(far), far);
        assert_eq!([far.plus(Duration::MAX), Deadline::NEVER.plus(Duration::ZERO)], [Deadline::NEVER; 2]);
    }
}
