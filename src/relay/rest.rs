//! For how long a program that seems to wait for input has done nothing else.
//!
//! Who polls the keyboard while it works is seen to wait for it, too, whenever somebody
//! looks. But it prints, or uses the CPU. Nothing tells a relay of the latter: so it looks when
//! somebody asks, or follows, and what it saw is kept for the next look.

use std::time::{Duration, Instant};

use crate::{session::client::Doing, sorted::Set, sys::processes::Timeout};

/// What is seen of it at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) doing: Doing,
    /// The threads that sleep until the terminal can be read, by their TIDs.
    pub(crate) readers: Vec<u32>,
    /// How long they sleep at most.
    pub(crate) timeout: Timeout,
    /// The foreground process group, and all below it.
    pub(crate) processes: Set<u32>,
    /// How long all of those have run together, in nanoseconds.
    pub(crate) cpu_time: u64,
}

impl Sample {
    /// Of a terminal that nobody has been seen to read.
    pub(crate) fn of(doing: Doing) -> Sample {
        let (readers, processes) = (Vec::new(), Set::new());
        Sample { doing, readers, timeout: Timeout::Never, processes, cpu_time: 0 }
    }

    /// Is there anything but input that the readers can be waiting for? Who wakes up often
    /// only looks, and has looked by now.
    pub(crate) fn has_timer(&self) -> bool {
        const OFTEN: Duration = Duration::from_millis(250);
        match self.timeout {
            Timeout::Never => false,
            Timeout::After(time) => time > OFTEN,
            Timeout::Unknown => true,
        }
    }

    /// Has nobody done anything since another one, that long before? They may have had a
    /// hundredth of the time, and a moment: a Java, a Node and a Go have threads that look
    /// after things now and then, and Python's own line editor wakes up ten times a second.
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
pub(crate) struct RestClock {
    first: Option<(Instant, Sample)>,
}

impl RestClock {
    /// For how long, as far as anybody has looked, it has been as in this sample, which is
    /// of `now`; nothing has been printed or typed for `silence`.
    pub(crate) fn note(&mut self, sample: Sample, silence: Duration, now: Instant) -> Duration {
        let asleep = sample.doing == Doing::Line && sample.timeout == Timeout::Never;
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

    fn sample(doing: Doing, reader: u32, cpu_time: u64) -> Sample {
        let timeout = Timeout::After(Duration::from_millis(100));
        Sample { doing, readers: vec![reader], timeout, processes: Set::from_iter([7]), cpu_time }
    }

    #[test]
    fn rest_is_what_lies_between_two_looks_that_see_the_same() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let long = Duration::from_secs(1_000);
        let mut rest = RestClock::default();
        let mut note = |millis, sample, silence| rest.note(sample, silence, at(millis)).as_millis();
        let (still, woken) = (sample(Doing::Raw, 5, 5), sample(Doing::Raw, 6, 6));
        assert_eq!(note(0, still.clone(), long), 0);
        assert_eq!(note(600, still.clone(), long), 600);
        assert_eq!(note(1_000, still.clone(), Duration::from_millis(300)), 0, "printed meanwhile");
        assert_eq!(note(1_500, still.clone(), Duration::from_millis(800)), 500);
        assert_eq!(note(2_000, woken.clone(), long), 0, "another one reads");
        assert_eq!(note(2_500, sample(Doing::Raw, 6, 5_000_000), long), 500, "it has run, a little");
        assert_eq!(note(3_000, sample(Doing::Raw, 6, 500_000_000), long), 0, "it works");
        assert_eq!(note(4_000, sample(Doing::Secret, 6, 500_000_000), long), 0);
        let other = Sample { processes: Set::from_iter([7, 8]), ..sample(Doing::Secret, 6, 500_000_000) };
        assert_eq!(note(5_000, other, long), 0, "a process has begun");
    }

    #[test]
    fn who_sleeps_until_a_line_comes_has_done_so_since_something_was_printed() {
        let asleep = Sample { timeout: Timeout::Never, ..sample(Doing::Line, 5, 5) };
        let silence = Duration::from_secs(3);
        assert_eq!(RestClock::default().note(asleep, silence, Instant::now()), silence);
    }
}
