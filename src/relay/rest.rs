//! For how long a program that seems to wait for input has done nothing else.
//!
//! Who polls the keyboard while it works is seen to wait for it, too, whenever somebody
//! looks. But it prints, or uses the CPU. Nothing tells a relay of the latter, and it never
//! wakes to look: so each who asks has it look, and what it saw is kept for the next.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::session::client::Doing;

/// What is seen of it at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) doing: Doing,
    /// The threads that sleep until the terminal can be read, by their TIDs, and how long
    /// each has run in all, in nanoseconds.
    pub(crate) readers: Vec<(u32, u64)>,
    /// Nothing but input (or a signal) wakes them.
    pub(crate) has_no_timeout: bool,
    /// The foreground process group, and all below it.
    pub(crate) processes: BTreeSet<u32>,
    /// How long all of those have run together, in nanoseconds.
    pub(crate) cpu_time: u64,
}

impl Sample {
    /// Has nobody done anything since another one, that long before? Those that read have
    /// not run at all; others may have had a hundredth of the time, and a moment: a Java, a
    /// Node and a Go have threads that look after things now and then.
    fn is_at_rest_since(&self, before: &Sample, time: Duration) -> bool {
        const MOMENT: Duration = Duration::from_millis(2);
        let most = (time / 100 + MOMENT).as_nanos();
        let same = (self.doing, &self.readers, &self.processes);
        same == (before.doing, &before.readers, &before.processes)
            && u128::from(self.cpu_time.saturating_sub(before.cpu_time)) <= most
    }
}

/// The first sample of those since which nothing has been done.
#[derive(Default)]
pub(crate) struct Rest {
    first: Option<(Instant, Sample)>,
}

impl Rest {
    /// For how long, as far as anybody has looked, it has been as in this sample, which is
    /// of `now`; nothing has been printed or typed for `silence`.
    pub(crate) fn note(&mut self, sample: Sample, silence: Duration, now: Instant) -> Duration {
        let asleep = sample.doing == Doing::Line && sample.has_no_timeout;
        let kept = self.first.take().filter(|(since, before)| {
            let time = now.saturating_duration_since(*since);
            time <= silence && sample.is_at_rest_since(before, time)
        });
        let (since, sample) = kept.unwrap_or((now, sample));
        self.first = Some((since, sample));
        // It has read nothing meanwhile, and whoever reads lines needs no look at the CPU.
        if asleep { silence } else { now.saturating_duration_since(since).min(silence) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(doing: Doing, reader: u64, cpu_time: u64) -> Sample {
        let (readers, processes) = (vec![(7, reader)], BTreeSet::from([7]));
        Sample { doing, readers, has_no_timeout: false, processes, cpu_time }
    }

    #[test]
    fn rest_is_what_lies_between_two_looks_that_see_the_same() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let long = Duration::from_secs(1_000);
        let mut rest = Rest::default();
        let mut note = |millis, sample, silence| rest.note(sample, silence, at(millis)).as_millis();
        let (still, woken) = (sample(Doing::Raw, 5, 5), sample(Doing::Raw, 6, 6));
        assert_eq!(note(0, still.clone(), long), 0);
        assert_eq!(note(600, still.clone(), long), 600);
        assert_eq!(note(1_000, still.clone(), Duration::from_millis(300)), 0, "printed meanwhile");
        assert_eq!(note(1_500, still.clone(), Duration::from_millis(800)), 500);
        assert_eq!(note(2_000, woken.clone(), long), 0, "the reader has run");
        assert_eq!(note(2_500, sample(Doing::Raw, 6, 5_000_000), long), 500, "others have, a little");
        assert_eq!(note(3_000, sample(Doing::Raw, 6, 500_000_000), long), 0, "others work");
        assert_eq!(note(4_000, sample(Doing::Secret, 6, 500_000_000), long), 0);
        let other = Sample { processes: BTreeSet::from([7, 8]), ..sample(Doing::Secret, 6, 500_000_000) };
        assert_eq!(note(5_000, other, long), 0, "a process has begun");
    }

    #[test]
    fn who_sleeps_until_a_line_comes_has_done_so_since_something_was_printed() {
        let asleep = Sample { has_no_timeout: true, ..sample(Doing::Line, 5, 5) };
        let silence = Duration::from_secs(3);
        assert_eq!(Rest::default().note(asleep, silence, Instant::now()), silence);
    }
}
