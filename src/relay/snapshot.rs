//! The one verdict on whether a program waits for input.
//!
//! A program that polls the keyboard while it works seems to wait for it, too, at every look. But it uses the
//! CPU, or prints, or wakes up by a timer to do so. The kernel sends the relay an event only for the second.
//! So the relay looks on request, and for followers, and keeps each observation for the next look: a state
//! that holds between two looks shows how long a program has waited.
//!
//! Pure: observations are passed in, and so is the time.

use std::time::{Duration, Instant};

use crate::{
    session::client::{
        TerminalState,
        snapshot::{Input, Reads},
    },
    sorted::Set,
    sys::processes::Timeout,
};

/// Input reaches its reader, and is echoed, a moment after the write. If nothing has been printed since, not
/// even its echo, less is known: the wait begins this much later.
const UNECHOED: Duration = Duration::from_millis(70);

/// A program that sleeps no longer than this in its read counts as polling: we must see it sleep through
/// twice, and do nothing else, for at least the time in which we can see that even if it hardly gets the CPU.
/// A longer sleep is a timeout for a person who does not answer.
const LONGEST_POLL: Duration = Duration::from_secs(2);
const LEAST_OF_POLL: Duration = Duration::from_millis(200);

/// A program that prints by itself while it reads, at intervals no longer than this, works, until it has been
/// silent for two of them. Shorter ones are within one piece of output.
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);

/// One look is not enough for a wait.
const LEAST: Duration = Duration::from_millis(1);

/// The observations of the foreground programs at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) doing: TerminalState,
    /// A reader may also wait for data from a socket or another terminal.
    pub(crate) is_remote: bool,
    /// How many threads sleep until the terminal can be read. Which ones may change: in Go, any waits for events.
    pub(crate) readers: usize,
    /// How many threads there are in all.
    pub(crate) threads: usize,
    /// How long the readers sleep at most.
    pub(crate) timeout: Timeout,
    /// The foreground process group, and all below it.
    pub(crate) processes: Set<u32>,
    /// How long all of those have run together, in nanoseconds.
    pub(crate) cpu_time: u64,
}

impl Sample {
    /// For a terminal whose readers have not been looked at.
    pub(crate) fn of(doing: TerminalState) -> Sample {
        Sample {
            doing,
            is_remote: false,
            readers: 0,
            threads: 0,
            timeout: Timeout::Never,
            processes: Set::new(),
            cpu_time: 0,
        }
    }

    fn reads(&self) -> Option<Reads> {
        match self.doing {
            TerminalState::Running => None,
            TerminalState::Prompt => Some(Reads::Prompt),
            TerminalState::Secret => Some(Reads::Secret),
            _ if self.is_remote => Some(Reads::Far),
            TerminalState::Line => Some(Reads::Line),
            TerminalState::Raw => Some(Reads::Raw),
        }
    }

    /// Can only input wake them? If one reads lines, processes beside it do not count.
    fn is_asleep(&self) -> bool {
        let is_alone = self.doing == TerminalState::Line || self.threads == self.readers;
        self.doing == TerminalState::Prompt || self.timeout == Timeout::Never && is_alone
    }

    /// Have these processes done nothing since another sample, that long before? They may have used a
    /// hundredth of the time, and a moment: Java, Node and Go have threads that look after things now and
    /// then, and Python's own line editor wakes up ten times a second.
    fn is_at_rest_since(&self, before: &Sample, time: Duration) -> bool {
        const MOMENT: Duration = Duration::from_millis(2);
        let most = (time / 100 + MOMENT).as_nanos();
        (self.doing, &self.processes) == (before.doing, &before.processes)
            && u128::from(self.cpu_time.saturating_sub(before.cpu_time)) <= most
    }
}

/// The state kept from one look to the next.
pub(crate) struct InputClock {
    // The first sample of those since which nothing has been done.
    first: Option<(Instant, Sample)>,
    printed: Instant,
    typed: Option<Instant>,
    // It was seen to read, other than at a prompt, since something was printed or typed last.
    is_seen_reading: bool,
    // At what interval it has printed by itself since something was typed.
    interval: Option<Duration>,
}

impl InputClock {
    pub(crate) fn new(now: Instant) -> InputClock {
        InputClock { first: None, printed: now, typed: None, is_seen_reading: false, interval: None }
    }

    pub(crate) fn note_printed(&mut self, now: Instant) {
        let gap = now.saturating_duration_since(self.printed);
        if std::mem::take(&mut self.is_seen_reading) && gap >= SHORTEST_INTERVAL {
            self.interval = Some(gap).filter(|gap| *gap <= LONGEST_INTERVAL);
        }
        self.printed = now;
    }

    pub(crate) fn note_typed(&mut self, now: Instant) {
        (self.typed, self.is_seen_reading, self.interval) = (Some(now), false, None);
    }

    /// Since when nothing has been printed or typed.
    fn quiet_since(&self) -> Instant {
        match self.typed {
            Some(typed) if typed > self.printed => typed + UNECHOED,
            Some(typed) => typed.max(self.printed),
            None => self.printed,
        }
    }

    /// The verdict at `now`, from this sample. `has_input`: there is unread input, or an answer to the
    /// program's own query is on its way.
    pub(crate) fn look(&mut self, sample: Sample, has_input: bool, now: Instant) -> Input {
        let Some(reads) = sample.reads().filter(|_| !has_input) else {
            self.first = None;
            return Input::default();
        };
        let quiet_since = self.quiet_since();
        let kept = self.first.take().filter(|(since, before)| {
            let time = now.saturating_duration_since(*since);
            *since >= quiet_since && sample.is_at_rest_since(before, time)
        });
        self.is_seen_reading |= matches!(reads, Reads::Line | Reads::Secret | Reads::Raw);
        let interval = self.interval.filter(|_| !sample.is_asleep());
        let (polls, has_timer) = match sample.timeout {
            Timeout::After(time) if reads == Reads::Prompt || time > LONGEST_POLL => (None, true),
            Timeout::After(time) => (Some(time), false),
            Timeout::Never => (None, false),
            Timeout::Unknown => (None, true),
        };
        let polls = polls.map(|time| LEAST_OF_POLL.max(time * 2));
        let least = polls.max(interval.map(|time| time * 2)).unwrap_or_default() + LEAST;
        let since = match (sample.is_asleep(), &kept) {
            (true, _) => quiet_since,
            (false, Some((since, _))) => *since,
            (false, None) => now,
        };
        self.first = kept.or(Some((now.max(quiet_since), sample)));
        Input { reads: Some(reads), held: now.saturating_duration_since(since), least, has_timer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// A program with another thread, which reads.
    fn sample(doing: TerminalState, timeout: Timeout, cpu_time: u32) -> Sample {
        let cpu_time = u64::from(cpu_time) * 1_000_000;
        let processes = Set::from_iter([5]);
        Sample { readers: 1, threads: 2, timeout, processes, cpu_time, ..Sample::of(doing) }
    }

    /// An event, and its time in milliseconds.
    enum Event {
        Printed(u32),
        Typed(u32),
        /// A look, at which it has used this many milliseconds of the CPU.
        Look(u32, u32),
    }
    use Event::{Look, Printed, Typed};

    /// How long it has waited at the last look, and whether that is long enough.
    fn held(doing: TerminalState, timeout: Timeout, events: &[Event]) -> (u128, bool) {
        let begin = Instant::now();
        let mut clock = InputClock::new(begin);
        let mut last = Input::default();
        for event in events {
            match event {
                Printed(at) => clock.note_printed(begin + MILLISECOND * *at),
                Typed(at) => clock.note_typed(begin + MILLISECOND * *at),
                Look(at, cpu) => {
                    last = clock.look(sample(doing, timeout, *cpu), false, begin + MILLISECOND * *at)
                }
            }
        }
        (last.held.as_millis(), last.is_waiting(Duration::from_millis(30)))
    }

    #[test]
    fn each_program_waits_or_works() {
        let after = |milliseconds| Timeout::After(Duration::from_millis(milliseconds));
        let never = Timeout::Never;
        for (name, doing, timeout, events, expected) in [
            ("nobody reads", TerminalState::Running, never, &[Look(900, 0), Look(999, 0)][..], (0, false)),
            (
                "who sleeps until a line comes",
                TerminalState::Line,
                never,
                &[Printed(100), Look(150, 0)],
                (50, true),
            ),
            ("for a moment only", TerminalState::Line, never, &[Printed(100), Look(120, 0)], (20, false)),
            ("a prompt", TerminalState::Prompt, after(100), &[Printed(100), Look(150, 0)], (50, true)),
            ("the echo is to come", TerminalState::Line, never, &[Typed(100), Look(150, 0)], (0, false)),
            ("there is none", TerminalState::Line, never, &[Typed(100), Look(210, 0)], (40, true)),
            (
                "at the first look it may work",
                TerminalState::Raw,
                never,
                &[Printed(100), Look(900, 0)],
                (0, false),
            ),
            (
                "at the second it does not",
                TerminalState::Raw,
                never,
                &[Look(900, 0), Look(940, 1)],
                (40, true),
            ),
            ("it computes", TerminalState::Raw, never, &[Look(900, 0), Look(940, 13)], (0, false)),
            ("it prints", TerminalState::Raw, never, &[Look(900, 0), Printed(910), Look(940, 0)], (0, false)),
            (
                "its timer has not passed",
                TerminalState::Raw,
                after(100),
                &[Look(900, 0), Look(990, 0)],
                (90, false),
            ),
            (
                "it slept through",
                TerminalState::Raw,
                after(100),
                &[Look(900, 0), Look(1_101, 0)],
                (201, true),
            ),
            (
                "a timer for a person",
                TerminalState::Line,
                after(5_000),
                &[Look(900, 0), Look(940, 0)],
                (40, true),
            ),
            (
                "a secret is asked for",
                TerminalState::Secret,
                never,
                &[Look(900, 0), Look(940, 0)],
                (40, true),
            ),
        ] {
            assert_eq!(held(doing, timeout, events), expected, "{name}");
        }
    }

    #[test]
    fn a_program_that_prints_while_reading_waits_after_twice_the_silence() {
        let clock = |silence| {
            [Look(900, 0), Printed(1_000), Look(1_500, 0), Printed(2_000), Look(2_100, 0), Look(silence, 0)]
        };
        assert_eq!(held(TerminalState::Raw, Timeout::Never, &clock(2_900)), (800, false));
        assert_eq!(held(TerminalState::Raw, Timeout::Never, &clock(4_200)), (2_100, true));
        // Output after input is an answer.
        let answer = [Look(900, 0), Typed(950), Printed(1_000), Look(1_010, 0), Look(1_050, 0)];
        assert_eq!(held(TerminalState::Raw, Timeout::Never, &answer), (40, true));
        // Output before it read is not a timer's.
        let question = [Look(0, 0), Printed(900), Printed(1_500), Look(1_510, 0), Look(1_550, 0)];
        assert_eq!(held(TerminalState::Running, Timeout::Never, &question), (0, false));
    }

    #[test]
    fn a_program_with_unread_input_does_not_wait() {
        let begin = Instant::now();
        let mut clock = InputClock::new(begin);
        let sample = || sample(TerminalState::Line, Timeout::Never, 0);
        assert!(!clock.look(sample(), true, begin + MILLISECOND * 900).is_waiting(Duration::ZERO));
        assert!(clock.look(sample(), false, begin + MILLISECOND * 901).is_waiting(Duration::ZERO));
    }

    #[test]
    fn a_wait_begins_anew_if_a_process_has_begun_but_not_if_another_thread_reads_too() {
        let begin = Instant::now();
        let still = sample(TerminalState::Raw, Timeout::Never, 0);
        let others = Sample { readers: 2, threads: 3, ..still.clone() };
        let busier = Sample { processes: Set::from_iter([5, 9]), ..still.clone() };
        for (other, held) in [(others, 50), (busier, 0)] {
            let mut clock = InputClock::new(begin);
            clock.look(still.clone(), false, begin + MILLISECOND * 900);
            assert_eq!(clock.look(other, false, begin + MILLISECOND * 950).held, MILLISECOND * held);
        }
    }
}
