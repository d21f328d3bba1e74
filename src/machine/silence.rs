//! How long the other end of a connection has said nothing.

use std::time::{Duration, Instant};

use crate::sys::deadline::Deadline;

/// Pure, except that the caller passes the time.
pub(crate) struct Silence {
    longest: Duration,
    since: Instant,
}

impl Silence {
    /// Begins now; a silence longer than `longest` means that the peer is gone.
    pub(crate) fn new(longest: Duration, now: Instant) -> Silence {
        Silence { longest, since: now }
    }

    /// Something has come.
    pub(crate) fn end(&mut self, now: Instant) {
        self.since = now;
    }

    /// When it is to be looked whether it has been too long.
    pub(crate) fn until(&self) -> Deadline {
        Deadline::at(self.since + self.longest)
    }

    /// Has it been too long? Call it when all received bytes were read. If this check comes far too
    /// late, we were blocked, by SIGSTOP or with the whole machine, and could not receive; then the
    /// time starts again.
    pub(crate) fn is_too_long(&mut self, now: Instant) -> bool {
        let silent = now.saturating_duration_since(self.since);
        if silent >= self.longest * 2 {
            self.since = now;
        }
        (self.longest..self.longest * 2).contains(&silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_only_while_we_could_receive() {
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        // Seconds, whether something comes, and whether it has been too long.
        let cases = [
            (29, false, false),
            (29, true, false),
            (58, false, false),
            (59, false, true),
            (70, true, false),
            (99, false, false),
            (100, false, true),
            // No check for a long time.
            (1_000, false, false),
            (1_029, false, false),
            (1_030, false, true),
        ];
        let mut silence = Silence::new(Duration::from_secs(30), begun);
        for (seconds, comes, too_long) in cases {
            if comes {
                silence.end(at(seconds));
            }
            assert_eq!(silence.is_too_long(at(seconds)), too_long, "{seconds}");
        }
        assert_eq!(silence.until(), Deadline::at(at(1_030)));
    }
}
