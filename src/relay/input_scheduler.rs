//! When something may be typed, and how much of it.
//!
//! What is typed first must have come to where it is read before a secret may follow it;
//! what the program has asked of its terminal is answered first; and of a line that is
//! longer than the terminal takes, what is too much waits. Who has typed, and when, is
//! told: nothing here asks the system for anything.

use std::time::{Duration, Instant};

use crate::{
    relay::canonical_line::CanonicalLine,
    sys::{deadline::Deadline, pty::TerminalModes},
};

/// A worker of the kernel carries what is written to the master to where the
/// slave reads it, and nothing tells when it has. It does at once, unless the
/// machine is busy.
const SETTLE: Duration = Duration::from_millis(50);

/// How long what is to be typed waits for an answer that comes before it.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(2);

/// When to look again whether a program that did not take a long line has
/// changed its terminal's mode. The kernel does not tell that either.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(crate) struct InputScheduler {
    line: CanonicalLine,
    // Until then, what was typed last may be on its way to where it is read.
    settled: Instant,
    // What is to be typed would overflow a canonical line.
    held: bool,
    // Since where in the log something is to be typed that comes after the answers, and
    // until when it waits for them.
    answers_first: Option<(u64, Instant)>,
}

/// What is done with a line that is longer than the terminal takes.
#[derive(Clone, Copy)]
pub(crate) enum Hold {
    WhatIsTooLong,
    Nothing,
}

impl InputScheduler {
    pub(crate) fn new(now: Instant) -> InputScheduler {
        InputScheduler { line: CanonicalLine::default(), settled: now, held: false, answers_first: None }
    }

    /// Does what is to be typed wait for nothing but that the terminal has room?
    pub(crate) fn waits_for_room(&self) -> bool {
        !self.held && self.answers_first.is_none()
    }

    /// When something may be typed that could not be, though nothing tells; `wants`:
    /// there is something.
    pub(crate) fn deadline(&self, wants: bool, now: Instant) -> Deadline {
        let answers = self.answers_first.map_or(Deadline::NEVER, |(_, patience)| Deadline::at(patience));
        let look = if wants && self.held { Deadline::at(now + LOOK_AGAIN) } else { Deadline::NEVER };
        answers.min(look)
    }

    /// May what is to be typed, if there is something (`wants`), be typed now, as far as
    /// the answers go? What was asked before it is answered before it: else the answer
    /// could come while another command runs, whose output its echo would then be.
    /// Somebody may be slow to find it. `length` is the log's, and `are_due` tells
    /// whether something that was asked up to a place there is not answered.
    pub(crate) fn may_type(
        &mut self,
        wants: bool,
        length: u64,
        now: Instant,
        are_due: impl FnOnce(u64) -> bool,
    ) -> bool {
        let (since, patience) = self.answers_first.unwrap_or((length, now + ANSWERS_TIMEOUT));
        let waits = wants && are_due(since) && now < patience;
        self.answers_first = waits.then_some((since, patience));
        wants && !waits
    }

    /// How many of these bytes may be typed now; none: they are held until something is
    /// printed, or the mode is another.
    pub(crate) fn room_for(&mut self, bytes: &[u8], modes: &TerminalModes, hold: Hold) -> usize {
        let room = match hold {
            Hold::WhatIsTooLong => self.line.room_for(bytes, modes),
            Hold::Nothing => bytes.len(),
        };
        self.held = room == 0;
        room
    }

    /// May a secret be typed now, where `others` tells whether something else is still to
    /// be typed, or to be read, and `seen` whether it is asked for elsewhere? A line that was typed ahead would be taken for the secret,
    /// and the secret for whatever is asked for next.
    pub(crate) fn takes_secret(
        &mut self,
        secret: &[u8],
        modes: &TerminalModes,
        others: bool,
        seen: bool,
        now: Instant,
    ) -> Result<(), &'static str> {
        let hidden_elsewhere = seen && !modes.echoes();
        if !modes.hide_line() && !hidden_elsewhere {
            return Err("it is not at a secret prompt");
        }
        if others || now < self.settled || self.line.room_for(secret, modes) < secret.len() {
            return Err("the program must read earlier input first");
        }
        Ok(())
    }

    /// What is held may have room: something has been printed, and who did that may have
    /// read, too; or it is not to be typed any more.
    pub(crate) fn release(&mut self) {
        self.held = false;
    }

    /// These bytes have been typed.
    pub(crate) fn note_typed(&mut self, bytes: &[u8], modes: &TerminalModes, now: Instant) {
        self.line.note(bytes, modes);
        self.settled = now + SETTLE;
    }

    /// Has the terminal a part of a line that nothing has ended?
    pub(crate) fn holds_half_line(&self) -> bool {
        self.line.is_begun()
    }

    /// The same for sure, whatever has been erased of it.
    pub(crate) fn surely_holds_half_line(&self) -> bool {
        self.line.holds_some()
    }

    /// What was typed, and nobody has read, has been discarded.
    pub(crate) fn note_discarded(&mut self) {
        self.line = CanonicalLine::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_secret_is_typed_where_a_hidden_line_is_asked_for_and_nothing_else_is_on_its_way() {
        let now = Instant::now();
        let (hidden, shown, keys) =
            (TerminalModes::of(true, false), TerminalModes::of(true, true), TerminalModes::of(false, false));
        let just_typed = |bytes: &[u8]| {
            let mut keyboard = InputScheduler::new(now);
            keyboard.note_typed(bytes, &hidden, now);
            keyboard
        };
        let longest = [b'x'; 4_000];
        let (on_its_way, settled) = (now + SETTLE - MILLISECOND, now + SETTLE);
        let cases = [
            (InputScheduler::new(now), &hidden, false, now, true),
            (InputScheduler::new(now), &shown, false, now, false),
            (InputScheduler::new(now), &keys, false, now, false),
            (InputScheduler::new(now), &hidden, true, now, false),
            (just_typed(b"y\n"), &hidden, false, now, false),
            (just_typed(b"y\n"), &hidden, false, on_its_way, false),
            (just_typed(b"y\n"), &hidden, false, settled, true),
            (just_typed(b"y\n"), &hidden, true, settled, false),
            // Half a line that would be too long with it.
            (just_typed(&longest), &hidden, false, settled, false),
        ];
        for (number, (mut keyboard, modes, others, now, expected)) in cases.into_iter().enumerate() {
            let taken = keyboard.takes_secret(&[b's'; 100], modes, others, false, now);
            assert_eq!(taken.is_ok(), expected, "{number}: {taken:?}");
        }
    }

    #[test]
    fn earlier_queries_are_answered_first_for_a_while() {
        let now = Instant::now();
        let mut keyboard = InputScheduler::new(now);
        let asked_until = |end: u64| move |place: u64| place >= end;
        assert!(!keyboard.may_type(false, 10, now, |_| true), "there is nothing to type");
        assert!(keyboard.may_type(true, 10, now, asked_until(11)), "it was asked later");
        assert!(keyboard.waits_for_room());
        assert!(!keyboard.may_type(true, 10, now, asked_until(10)));
        assert!(!keyboard.waits_for_room());
        let end = now + ANSWERS_TIMEOUT;
        assert_eq!(keyboard.deadline(true, now), Deadline::at(end));
        // What is asked meanwhile does not come first, and time does not begin again.
        assert!(!keyboard.may_type(true, 20, now + MILLISECOND, asked_until(10)));
        assert_eq!(keyboard.deadline(true, now), Deadline::at(end));
        assert!(!keyboard.may_type(true, 20, end - MILLISECOND, asked_until(10)));
        assert!(keyboard.may_type(true, 20, end - MILLISECOND, asked_until(11)));
        assert!(!keyboard.may_type(true, 20, now, asked_until(20)));
        assert!(keyboard.may_type(true, 20, end, asked_until(20)), "nobody finds the answer");
        assert!(keyboard.waits_for_room());
        assert_eq!(keyboard.deadline(true, now), Deadline::NEVER);
    }

    #[test]
    fn text_too_long_for_a_line_waits_for_room() {
        let now = Instant::now();
        let (lines, keys) = (TerminalModes::of(true, true), TerminalModes::of(false, false));
        let mut keyboard = InputScheduler::new(now);
        assert_eq!(keyboard.room_for(&[b'x'; 5_000], &lines, Hold::Nothing), 5_000);
        assert_eq!(keyboard.room_for(&[b'x'; 5_000], &lines, Hold::WhatIsTooLong), 4_095);
        assert!(keyboard.waits_for_room());
        keyboard.note_typed(&[b'x'; 4_095], &lines, now);
        assert_eq!(keyboard.room_for(b"x", &lines, Hold::WhatIsTooLong), 0);
        assert!(!keyboard.waits_for_room());
        assert_eq!(keyboard.deadline(true, now), Deadline::at(now + LOOK_AGAIN));
        assert_eq!(keyboard.deadline(false, now), Deadline::NEVER);
        keyboard.release();
        assert!(keyboard.waits_for_room());
        assert_eq!(keyboard.room_for(b"x", &lines, Hold::WhatIsTooLong), 0);
        keyboard.note_discarded();
        assert_eq!(keyboard.room_for(b"x", &lines, Hold::WhatIsTooLong), 1);
        assert!(keyboard.waits_for_room());
        keyboard.note_typed(&[b'x'; 4_095], &lines, now);
        assert_eq!(keyboard.room_for(b"x", &keys, Hold::WhatIsTooLong), 1);
    }
}
