//! When input may be typed, and how much of it.
//!
//! Earlier input must have reached its reader before a secret may follow it; the program's queries of its
//! terminal are answered first; and the excess of a line that is longer than the terminal accepts waits.
//! Input and its times are passed in: nothing here asks the system for anything.

use std::time::{Duration, Instant};

use crate::{
    relay::canonical_line::CanonicalLine,
    sys::{deadline::Deadline, pty::TerminalModes},
};

/// A worker of the kernel carries bytes written to the master to the slave's reader, and there is no event
/// when it has. It does so at once, unless the machine is busy.
const SETTLE: Duration = Duration::from_millis(50);

/// How long input waits for an answer that comes before it.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause before we check again whether a program that did not accept a long line has changed its
/// terminal's mode. The kernel sends no event for that either.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(crate) struct InputScheduler {
    line: CanonicalLine,
    // Until then, the last input may be on its way to its reader.
    settled: Instant,
    // The next input would overflow a canonical line.
    held: bool,
    // Since where in the log something is to be typed that comes after the answers, and
    // until when it waits for them.
    answers_first: Option<(u64, Instant)>,
}

/// The treatment of a line that is longer than the terminal accepts.
#[derive(Clone, Copy)]
pub(crate) enum Hold {
    WhatIsTooLong,
    Nothing,
}

impl InputScheduler {
    pub(crate) fn new(now: Instant) -> InputScheduler {
        InputScheduler { line: CanonicalLine::default(), settled: now, held: false, answers_first: None }
    }

    /// Does the input wait only for the terminal to have room?
    pub(crate) fn waits_for_room(&self) -> bool {
        !self.held && self.answers_first.is_none()
    }

    /// When input may be typed that could not be, although no event reports it; `wants`: there is some.
    pub(crate) fn deadline(&self, wants: bool, now: Instant) -> Deadline {
        let answers = self.answers_first.map_or(Deadline::NEVER, |(_, patience)| Deadline::at(patience));
        let look = if wants && self.held { Deadline::at(now + LOOK_AGAIN) } else { Deadline::NEVER };
        answers.min(look)
    }

    /// May the pending input, if there is some (`wants`), be typed now, as far as the answers go? Earlier
    /// queries are answered before it: else the answer could come while another command runs, and its echo
    /// would be in that command's output. An answer may take time. `length` is the log's, and `are_due`
    /// returns whether a query before an offset is unanswered.
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

    /// How many of these bytes may be typed now; 0: they are held until something is printed, or the mode
    /// changes.
    pub(crate) fn room_for(&mut self, bytes: &[u8], modes: &TerminalModes, hold: Hold) -> usize {
        let room = match hold {
            Hold::WhatIsTooLong => self.line.room_for(bytes, modes),
            Hold::Nothing => bytes.len(),
        };
        self.held = room == 0;
        room
    }

    /// May a secret be typed now? `others`: there is other input still to be typed or read; `seen`: a remote
    /// program asks for it. A line that was typed ahead would be read as the secret, and the secret as the
    /// answer to the next question.
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

    /// Held input may have room: something has been printed, and the program that printed it may have read,
    /// too; or the input is not to be typed any more.
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

    /// The same for certain, whatever has been erased of it.
    pub(crate) fn surely_holds_half_line(&self) -> bool {
        self.line.holds_some()
    }

    /// Unread input has been discarded.
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
        // Queries asked meanwhile do not come first, and the time does not start again.
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
