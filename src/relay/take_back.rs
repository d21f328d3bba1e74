//! Taking back the lines of an `integrate` that has not finished, or the text of a `run` that is interrupted, so that
//! the shell is at its prompt again, with the echo on. Pure: what is seen of the shell is passed in.

use std::time::Duration;

use crate::{
    session::client::{GLANCE, job::STUBBORN, sending::REPEAT},
    sys::deadline::Deadline,
};

/// How long the shell may take to execute the first line, so that it reads the second: an interrupt before that may
/// come in the middle, and be lost.
const ANSWER: Duration = Duration::from_millis(300);

/// How long it may take to report, once it has been given all lines.
const REPORT: Duration = Duration::from_secs(1);

/// What makes the shell echo again.
pub(crate) const ECHO: &[u8] = b" stty echo\r";

pub(crate) struct TakeBack {
    since: u64,
    is_whole: bool,
    is_interrupted: bool,
    has_answered: bool,
    again: Deadline,
    give_up: Deadline,
    look: Deadline,
}

/// What is seen of the shell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// It has executed the first line.
    pub(crate) answers: bool,
    /// The terminal asks for a hidden line.
    pub(crate) is_hidden: bool,
    /// A program on this machine waits for input.
    pub(crate) reads: bool,
    /// A shell that reports is at its prompt, as far as it has reported.
    pub(crate) is_at_prompt: bool,
    /// Others type.
    pub(crate) is_busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Wait,
    /// To interrupt the shell; `echo`: and to type [`ECHO`].
    Interrupt {
        echo: bool,
    },
    Done,
}

impl TakeBack {
    /// Of what has been typed since this offset of the log; `is_whole`: that is all lines.
    pub(crate) fn new(since: u64, is_whole: bool) -> TakeBack {
        TakeBack {
            since,
            is_whole,
            is_interrupted: false,
            has_answered: is_whole,
            again: Deadline::after(if is_whole { REPORT } else { ANSWER }),
            give_up: Deadline::after(STUBBORN),
            look: Deadline::after(Duration::ZERO),
        }
    }

    /// Of a text that a shell reads, or is about to, and that has been interrupted: a shell like dash acts on that only
    /// at the end of a line if it was not reading yet.
    pub(crate) fn after_interrupt(since: u64) -> TakeBack {
        let again = Deadline::after(REPEAT);
        TakeBack { is_interrupted: true, again, ..TakeBack::new(since, true) }
    }

    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// Has the shell been seen to answer?
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// When to look. The kernel sends no event when a terminal's mode changes.
    pub(crate) fn deadline(&self) -> Deadline {
        self.look
    }

    pub(crate) fn next(&mut self, seen: Seen) -> Next {
        self.look = Deadline::after(GLANCE);
        if seen.is_at_prompt && !seen.is_hidden || self.give_up.has_passed() {
            return Next::Done;
        }
        let has_come = seen.answers && !self.has_answered;
        // Even then bash may lose an interrupt. A shell that has been given all lines may have gone on.
        let is_first = !self.is_interrupted && !self.is_whole;
        let is_due = self.again.has_passed() && (seen.is_hidden || is_first);
        if !seen.is_busy && (has_come || is_due) {
            self.has_answered |= seen.answers;
            self.is_interrupted = true;
            self.again = Deadline::after(REPEAT);
            return Next::Interrupt { echo: self.has_answered || seen.is_hidden };
        }
        // Of a shell on another machine nothing more is seen.
        let is_over = seen.reads || self.has_answered && self.again.has_passed();
        let is_done = self.is_interrupted && is_over || self.is_whole && self.again.has_passed();
        if is_done && !seen.is_hidden && !seen.is_busy { Next::Done } else { Next::Wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHOED: Next = Next::Interrupt { echo: true };
    const NOTHING: Seen =
        Seen { answers: false, is_hidden: false, reads: false, is_at_prompt: false, is_busy: false };
    const READS: Seen = Seen { reads: true, ..NOTHING };
    const HIDDEN: Seen = Seen { answers: true, is_hidden: true, ..READS };
    const ECHOES: Seen = Seen { answers: true, ..READS };
    const FAR: Seen = Seen { answers: true, ..NOTHING };

    #[test]
    fn the_shell_is_interrupted_until_it_asks_for_nothing_hidden() {
        let plain = Next::Interrupt { echo: false };
        // Is the time for an interrupt over, what is seen, and what is done?
        type Look = (bool, Seen, Next);
        let at_prompt = Seen { is_at_prompt: true, ..ECHOES };
        let cases: [(bool, &[Look]); 9] = [
            (
                false,
                &[
                    (false, NOTHING, Next::Wait),
                    (false, HIDDEN, ECHOED),
                    (false, HIDDEN, Next::Wait),
                    (false, ECHOES, Next::Done),
                ],
            ),
            // It has not come to the shell in time, or never will.
            (false, &[(true, NOTHING, plain), (false, READS, Next::Done)]),
            (false, &[(true, NOTHING, plain), (false, HIDDEN, ECHOED)]),
            // It has been interrupted before it could answer.
            (false, &[(true, Seen { answers: false, ..HIDDEN }, ECHOED), (false, READS, Next::Done)]),
            // On another machine.
            (false, &[(false, FAR, ECHOED), (false, FAR, Next::Wait), (true, FAR, Next::Done)]),
            (false, &[(true, NOTHING, plain), (true, NOTHING, Next::Wait), (false, FAR, ECHOED)]),
            // All of it is typed.
            (true, &[(false, HIDDEN, Next::Wait), (false, at_prompt, Next::Done)]),
            (true, &[(true, HIDDEN, ECHOED), (false, ECHOES, Next::Done)]),
            (true, &[(false, NOTHING, Next::Wait), (true, NOTHING, Next::Done)]),
        ];
        for (is_whole, looks) in cases {
            let mut take_back = TakeBack::new(5, is_whole);
            for (is_due, seen, next) in looks {
                if *is_due {
                    take_back.again = Deadline::after(Duration::ZERO);
                }
                assert_eq!(take_back.next(*seen), *next, "{looks:?}");
            }
        }
    }

    #[test]
    fn an_interrupt_that_came_before_the_reading_is_repeated() {
        let mut take_back = TakeBack::after_interrupt(5);
        assert_eq!(take_back.next(HIDDEN), Next::Wait);
        take_back.again = Deadline::after(Duration::ZERO);
        assert_eq!(take_back.next(HIDDEN), ECHOED);
        assert_eq!(TakeBack::after_interrupt(5).next(ECHOES), Next::Done);
        // What was typed is discarded, so it seems to be at its prompt.
        let seems = Seen { is_at_prompt: true, ..HIDDEN };
        assert_eq!(TakeBack::after_interrupt(5).next(seems), Next::Wait);
    }

    #[test]
    fn what_others_type_comes_first() {
        let mut take_back = TakeBack::new(5, false);
        assert_eq!(take_back.next(Seen { is_busy: true, ..HIDDEN }), Next::Wait);
        assert_eq!(take_back.next(HIDDEN), ECHOED);
    }

    #[test]
    fn an_interrupt_that_is_lost_is_repeated_and_not_for_ever() {
        let (mut take_back, passed) = (TakeBack::new(5, false), Deadline::after(Duration::ZERO));
        assert_eq!(take_back.next(HIDDEN), ECHOED);
        take_back.again = passed;
        assert_eq!(take_back.next(HIDDEN), ECHOED);
        (take_back.again, take_back.give_up) = (passed, passed);
        assert_eq!(take_back.next(HIDDEN), Next::Done);
    }
}
