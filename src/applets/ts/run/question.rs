//! Detects that the command waits for input, and leaves it to another call.

use std::time::Duration;

use super::{
    Run,
    foreground::{Blocked, next_step},
    status,
};
use crate::{
    outcome::{Failure, Result},
    session::client::{
        Diagnosis, TerminalState,
        job::{Handed, Stage},
        snapshot::{Parts, Snapshot},
        waiting::{self, Waits},
    },
    sys::deadline::Deadline,
    terminal::text,
};

/// The command waits for input.
pub(super) const ASKS: u8 = 123;

/// We poll: the kernel sends no event when a program begins to wait. So we check when there was output, or
/// input, and then nothing for the first of these times, and again at intervals that grow to the second.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LATER_LOOKS: Duration = Duration::from_secs(1);

/// When to look whether the command waits for input.
pub(super) struct QuestionWatch {
    // `None` if it may wait for as long as it likes.
    after: Option<Duration>,
    look: Deadline,
    interval: Duration,
}

impl QuestionWatch {
    pub(super) fn new(after: Option<Duration>) -> QuestionWatch {
        QuestionWatch { after, look: Deadline::NEVER, interval: FIRST_LOOK }
    }

    /// The command has begun, or has printed something.
    pub(super) fn note_change(&mut self) {
        self.interval = FIRST_LOOK;
        self.look = self.after.map_or(Deadline::NEVER, |_| Deadline::after(FIRST_LOOK));
    }

    /// Looks no more.
    pub(super) fn end(&mut self) {
        self.after = None;
        self.look = Deadline::NEVER;
    }

    pub(super) fn look(&self) -> Deadline {
        self.look
    }
}

impl Run<'_> {
    /// The command waits for input, and has for long enough.
    pub(super) fn look_for_question(&mut self) -> Result<Option<Snapshot>> {
        let Some(after) = self.question.after.filter(|_| self.question.look.has_passed()) else {
            return Ok(None);
        };
        if self.progress.stage != Stage::Running {
            self.question.look = Deadline::NEVER;
            return Ok(None);
        }
        let Some(now) = self.relay.snapshot(Parts::INPUT.and(Parts::PROGRAM))? else {
            self.question.look = Deadline::NEVER;
            return Ok(None);
        };
        match now.asks(self.session, after)? {
            // Output that has come meanwhile belongs to the question, or is the command's end.
            Some(Waits::Now) if now.offset > self.seen => self.question.note_change(),
            Some(Waits::Now) if !self.is_stalled(&now) => return Ok(Some(now)),
            Some(Waits::Perhaps(again)) => {
                self.question.interval = FIRST_LOOK;
                self.question.look = again;
            }
            _ => {
                self.question.interval = (self.question.interval * 2).min(LATER_LOOKS);
                self.question.look = Deadline::after(self.question.interval);
            }
        }
        Ok(None)
    }

    /// Another call goes on, whose output comes from `printed` on.
    pub(super) fn leave(&mut self, printed: u64) {
        // A command that has not begun was interrupted, and must not begin by being resumed.
        if self.progress.stage == Stage::Running {
            self.is_left = true;
            let job = self.job(Handed::Printed, printed);
            self.relay.note_job(&job);
        }
    }

    /// The error for that.
    pub(super) fn asked(&mut self, waiting: &Snapshot) -> Result<Failure> {
        let handle = self.session.handle();
        let diagnosis =
            Diagnosis::of_output(self.session, 0, self.begun.map_or(Duration::ZERO, |begun| begun.elapsed()));
        let shown = match waiting.doing {
            TerminalState::Raw => match waiting::question(self.session, waiting.offset) {
                Ok(Some(row)) => format!("; last line: '{}'", text::escaped(row.trim().as_bytes())),
                _ => String::new(),
            },
            _ => diagnosis.and_last_line(),
        };
        let message = format!(
            "the command in session '{handle}' waits for input; the terminal's state is {}{shown}{}; {}, \
             then 'nbs-ts run --resume {handle}' to go on",
            waiting.doing,
            waiting.named_program("; "),
            next_step(self.session, waiting, Blocked::Resumed)
        );
        Ok(status(ASKS, "input", message).with_evidence(diagnosis.evidence()))
    }

    /// The command has been interrupted, and goes on: the text about its state.
    pub(super) fn goes_on(&self, now: &Snapshot) -> String {
        format!("{}; {}", now.named_program(": "), next_step(self.session, now, Blocked::Interrupt))
    }
}
