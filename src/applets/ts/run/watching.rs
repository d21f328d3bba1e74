//! Watches a delivered command: whether it has begun, its state, and its end.

use std::{ops::ControlFlow, time::Duration};

use super::{Cause, LAST_PROMPT, Outcome, Run, replaced};
use crate::{
    cli,
    outcome::{Failure, Result},
    session::{
        client::{
            Diagnosis, GLANCE, Parts, PromptState, Snapshot, TerminalState, WaitOutcome, job::Stage, sending,
        },
        shell::{DeliveredBy, LOOK},
    },
    sys::deadline::Deadline,
};

/// How long a command may take to begin, before we check whether it ever will, twice: the typed text is on
/// its way for a moment.
const BEGIN: Duration = Duration::from_millis(500);
/// The same if the command was interrupted, or the shell has taken it.
const BEGIN_NOW: Duration = Duration::from_millis(100);
/// How often a command is delivered: a key may be lost in the middle of another, and a shell may have to
/// repair its hooks first.
const ATTEMPTS: u32 = 4;
/// How long a command may go on after its first interrupt.
const STUBBORN: Duration = Duration::from_secs(3);
/// We poll: there is no event when the end of a command cannot come any more. So we check when there was
/// output and then nothing for this long, and again at intervals that grow to `LATER_LOOKS`, which costs a
/// call that waits for hours nothing.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(50);
const LATER_LOOKS: Duration = Duration::from_secs(5);

/// How long the command may go on.
#[derive(Clone, Copy)]
enum Limit {
    /// Until then, or until a signal asks us to end it.
    Until(Deadline),
    /// It is being interrupted: again then, and given up then.
    Interrupted { cause: Cause, again: Deadline, give_up: Deadline },
}

impl Limit {
    fn cause(self) -> Option<Cause> {
        match self {
            Limit::Until(_) => None,
            Limit::Interrupted { cause, .. } => Some(cause),
        }
    }

    fn next(self) -> Deadline {
        match self {
            Limit::Until(deadline) => deadline,
            Limit::Interrupted { again, give_up, .. } => again.min(give_up),
        }
    }
}

/// A state without an event, which we poll: the command will never begin, or, once it has, its end will never
/// be reported. Seen once, the report may be on its way; seen twice, it is certain.
struct Recheck {
    of: DoubtOf,
    look: Deadline,
    seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DoubtOf {
    Beginning,
    /// Without output, we look less and less often.
    End {
        interval: Duration,
    },
}

impl Recheck {
    fn new(begun: bool) -> Recheck {
        match begun {
            true => Recheck { of: DoubtOf::End { interval: FIRST_LOOK }, look: Deadline::NEVER, seen: false },
            false => Recheck { of: DoubtOf::Beginning, look: Deadline::after(BEGIN), seen: false },
        }
    }

    /// Something has been printed.
    fn note_output(&mut self, begun: bool) {
        self.seen = false;
        if begun {
            *self = Recheck { look: Deadline::after(FIRST_LOOK), ..Recheck::new(true) };
        }
    }

    /// It is being interrupted.
    fn hurry(&mut self) {
        if self.of == DoubtOf::Beginning {
            self.look = self.look.min(Deadline::after(BEGIN_NOW));
        }
    }

    /// It has been looked, and `is_so`, or not. Is it certain?
    fn handle(&mut self, is_so: bool, is_interrupted: bool) -> bool {
        let is_certain = is_so && self.seen;
        self.seen = is_so && !is_certain;
        let until = match &mut self.of {
            DoubtOf::Beginning if is_interrupted => BEGIN_NOW,
            DoubtOf::Beginning => BEGIN,
            DoubtOf::End { interval } => {
                *interval = if is_so { FIRST_LOOK } else { (*interval * 2).min(LATER_LOOKS) };
                *interval
            }
        };
        self.look = Deadline::after(until);
        is_certain
    }
}

/// Why there will never be a mark that reports a command's end.
enum UnreportedEnd {
    /// A program of this name has taken the shell's place.
    Replaced(String),
    /// The shell's prompt is back.
    Unreported,
}

impl Run<'_> {
    /// Returns the command's result, or that we gave it up; and why we have interrupted it, if we have.
    pub(super) fn watch(&mut self) -> Result<(Outcome, Option<Cause>)> {
        let mut limit = Limit::Until(self.wishes.deadline);
        let outcome = self.watch_within(&mut limit)?;
        Ok((outcome, limit.cause()))
    }

    fn watch_within(&mut self, limit: &mut Limit) -> Result<Outcome> {
        let mut doubt = Recheck::new(self.begun.is_some());
        let mut over = false;
        // What was printed before the command was resumed has not been looked at.
        let mut looked = if self.answers.is_some() { self.first } else { self.seen };
        loop {
            if self.seen > looked {
                looked = self.seen;
                doubt.note_output(self.begun.is_some());
                self.question.note_change();
            }
            if self.progress.again && self.progress.stage == Stage::Typed {
                self.progress.again = false;
                self.hand_over_again()?;
                doubt = Recheck::new(false);
            }
            self.hand_text_over()?;
            if let Some(outcome) = self.look_for_outer() {
                return Ok(outcome);
            }
            let mut soon = Deadline::NEVER;
            if self.unfinished && self.progress.is_done() {
                return Ok(Outcome::Unfinished);
            }
            if self.unfinished {
                // Repeated output is not from this command.
                if self.relay.snapshot(Parts::SHELL)?.is_some_and(|now| now.shell_waits) {
                    self.interrupt_unfinished()?;
                    return Ok(Outcome::Unfinished);
                }
                soon = Deadline::after(GLANCE);
            }
            self.stream_what_came()?;
            if self.progress.is_done() {
                return Ok(Outcome::Done(self.progress.code));
            }
            if over {
                return Ok(Outcome::Ended);
            }
            self.note_limit(limit, &mut doubt);
            if let Some(waiting) = self.look_for_question()? {
                return Ok(Outcome::Asks(Box::new(waiting)));
            }
            if let Limit::Interrupted { again, give_up, .. } = limit {
                if give_up.has_passed() {
                    return Ok(Outcome::GivenUp);
                }
                if again.has_passed() {
                    over = !self.interrupt_again()?;
                    *again = Deadline::after(sending::REPEAT);
                    continue;
                }
            }
            match self.recheck(&mut doubt, limit.cause().is_some())? {
                ControlFlow::Continue(true) => continue,
                ControlFlow::Continue(false) => {}
                ControlFlow::Break(outcome) => return Ok(outcome),
            }
            let until = limit.next().min(doubt.look).min(soon).min(self.question.look());
            over = self.await_output(until)? == WaitOutcome::Ended;
        }
    }

    /// If the call is interrupted, or its time is over, the command is interrupted from now on.
    fn note_limit(&mut self, limit: &mut Limit, doubt: &mut Recheck) {
        let signalled = self.signals.take() || self.unread.is_some();
        let Limit::Until(deadline) = *limit else { return };
        if signalled || deadline.has_passed() {
            let (start, timeout) = (self.progress.start, self.wishes.timeout.unwrap_or_default());
            self.diagnosis = Some(Diagnosis::of_output(self.session, start, timeout));
            self.interrupted_at = Some(self.seen);
            let cause = if signalled { Cause::Signal } else { Cause::Timeout };
            let (again, give_up) = (Deadline::after(Duration::ZERO), Deadline::after(STUBBORN));
            *limit = Limit::Interrupted { cause, again, give_up };
            doubt.hurry();
            self.question.end();
        }
    }

    /// Looks, if it is time to, whether the command will ever begin or report its end. Gives the outcome if it
    /// will not, or else whether its output must be looked at before anything is waited for.
    fn recheck(&mut self, doubt: &mut Recheck, is_interrupted: bool) -> Result<ControlFlow<Outcome, bool>> {
        if !doubt.look.has_passed() {
            return Ok(ControlFlow::Continue(false));
        }
        let parts = Parts::SHELL.and(Parts::TERMINAL).and(Parts::KEYS);
        let now = self.relay.snapshot(parts)?.unwrap_or_default();
        let is_stalled = self.is_stalled(&now);
        if doubt.of == DoubtOf::Beginning {
            if !doubt.handle(!is_stalled && self.is_passed_over(&now), is_interrupted) {
                return Ok(ControlFlow::Continue(false));
            }
            if is_interrupted {
                // The interrupt has come before it.
                self.await_shell()?;
                return Ok(ControlFlow::Break(Outcome::GivenUp));
            }
            if self.progress.stage == Stage::Taken {
                // It waits for the rest, and does not report that (`exec 2>file`).
                self.unfinished = true;
                return Ok(ControlFlow::Continue(true));
            }
            // A key that is lost a second time will not come.
            self.attempts += 1;
            self.hand_over_again()?;
            *doubt = Recheck::new(false);
            return Ok(ControlFlow::Continue(false));
        }
        let lost = if is_stalled { None } else { self.lost(&now)? };
        let is_certain = doubt.handle(lost.is_some(), is_interrupted);
        let Some(lost) = lost.filter(|_| is_certain) else { return Ok(ControlFlow::Continue(false)) };
        let why = match lost {
            UnreportedEnd::Replaced(name) => {
                let now = self.relay.snapshot(Parts::PROGRAM)?.unwrap_or_default();
                replaced(self.session, &now, &name)
            }
            // Its report may be on its way to the log.
            UnreportedEnd::Unreported if self.ask_how_it_ended()? => {
                doubt.look = Deadline::after(BEGIN);
                return Ok(ControlFlow::Continue(true));
            }
            UnreportedEnd::Unreported => "the shell did not report the exit code: something prevents it \
                                          ('enable -n', functions or aliases named as builtins or reserved \
                                          words, readonly variables)"
                .to_owned(),
        };
        Ok(ControlFlow::Break(Outcome::Lost(why)))
    }

    /// Is there no space for the output? Then the output does not show the state of the command. Prints that
    /// once.
    pub(super) fn is_stalled(&mut self, now: &Snapshot) -> bool {
        let stall = now.stall();
        if let Some(why) = &stall
            && !std::mem::replace(&mut self.has_told_stall, true)
            && !self.wishes.json
        {
            cli::warn(
                "nbs-ts",
                &format!("session '{}' cannot write its output: {why}", self.session.handle()),
            );
        }
        stall.is_some()
    }

    /// Interrupts the command, unless it has ended; `false` if the session has.
    fn interrupt_again(&mut self) -> Result<bool> {
        // A program that waits for input after the first interrupt has had it: another shell, say, which
        // would draw a prompt for each that follows.
        let waits = |doing| matches!(doing, TerminalState::Raw | TerminalState::Line);
        if self.interrupts > 0 && self.relay.doing()?.is_some_and(waits) {
            return Ok(true);
        }
        self.interrupts += 1;
        Ok(self.relay.interrupt_command(self.level, self.progress.seq)?.is_some())
    }

    /// Our line has been typed, and the text has not begun: does the shell wait
    /// for another?
    fn is_passed_over(&self, now: &Snapshot) -> bool {
        match self.level {
            0 => now.unread == 0 && now.shell_waits,
            // Its time to another machine is unknown: its prompt shows that it arrived.
            _ => now.prompt == PromptState::Stands,
        }
    }

    /// Not for ever: gives up with the reason.
    fn hand_over_again(&mut self) -> Result<()> {
        if self.attempts < ATTEMPTS && self.handover.by == DeliveredBy::Key {
            self.type_in(self.handover.before_again())?;
            return self.hand_over();
        }
        Err(self.passed_over())
    }

    /// Makes the shell check whether it can report how the command has ended, if it can check and has not
    /// often been asked to.
    fn ask_how_it_ended(&mut self) -> Result<bool> {
        if !self.handover.can_look() || self.looks >= ATTEMPTS {
            return Ok(false);
        }
        self.looks += 1;
        self.type_in(LOOK)?;
        Ok(true)
    }

    /// Makes the shell return to its prompt.
    fn interrupt_unfinished(&mut self) -> Result<()> {
        let deadline = Deadline::after(LAST_PROMPT);
        let patience = if self.handover.leaves_unfinished() { sending::REPEAT } else { Duration::ZERO };
        let mut again = Deadline::after(patience);
        loop {
            if self.progress.is_done() || deadline.has_passed() {
                return self.await_shell();
            }
            if self.await_output(deadline.min(again))? == WaitOutcome::Ended {
                return Err(self.session.ended());
            }
            self.signals.take();
            if again.has_passed() {
                self.relay.interrupt()?;
                again = Deadline::after(sending::REPEAT);
            }
        }
    }

    /// The error for that. The rest of our line must not be there for the next call.
    fn passed_over(&mut self) -> Failure {
        let handle = self.session.handle();
        let why = Failure::failed(format!(
            "cannot run a command in session '{handle}': its shell did not accept it; possible causes are \
             key bindings, 'stty', readonly variables (PS0, PROMPT_COMMAND), or functions, aliases or \
             'enable -n' that take builtins or names of ours away"
        ));
        // If it cannot be sent, the next call finds out.
        if self.relay.interrupt().is_ok() {
            let _ = self.await_shell();
        }
        why
    }

    /// Why there will never be a mark that reports the command's end, if that is so.
    fn lost(&self, now: &Snapshot) -> Result<Option<UnreportedEnd>> {
        let waits = now.shell_waits;
        if let Some(name) = &now.successor {
            // A program that wants nothing may end, and so report its code.
            let asks = waits || now.doing != TerminalState::Running;
            return Ok(asks.then(|| UnreportedEnd::Replaced(name.clone())));
        }
        // A shell that waits with the line editor on is at its prompt, or in `read -e`.
        let can_ask = self.handover.can_look() && self.looks < ATTEMPTS;
        let edits = || now.keys.as_ref().is_some_and(|modes| modes.bracketed_paste);
        let unreported = waits && (self.session.ends_with_prompt(self.seen)? || can_ask && edits());
        Ok(unreported.then_some(UnreportedEnd::Unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_counts_if_it_is_repeated_without_output_between() {
        let mut doubt = Recheck::new(false);
        let certain = [true, false, true, true, true].map(|is_so| doubt.handle(is_so, false));
        assert_eq!(certain, [false, false, false, true, false]);
        doubt.note_output(false);
        assert_eq!((doubt.of, doubt.handle(true, false)), (DoubtOf::Beginning, false));
        doubt.note_output(true);
        assert_eq!((doubt.of, doubt.handle(true, false)), (DoubtOf::End { interval: FIRST_LOOK }, false));
        assert!(doubt.handle(true, false));
    }

    #[test]
    fn the_end_is_looked_for_less_and_less_often_while_nothing_tells_of_it() {
        let mut doubt = Recheck::new(true);
        let mut interval = |is_so| {
            doubt.handle(is_so, false);
            doubt.of
        };
        let ends = |factor: u32| DoubtOf::End { interval: (FIRST_LOOK * factor).min(LATER_LOOKS) };
        assert_eq!([interval(false), interval(false), interval(true)], [ends(2), ends(4), ends(1)]);
        for _ in 0..20 {
            interval(false);
        }
        assert_eq!(interval(false), DoubtOf::End { interval: LATER_LOOKS });
    }
}
