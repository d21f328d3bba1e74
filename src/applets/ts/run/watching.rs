//! Watches a delivered command to its end, as the relay reports it, and has it interrupted.

use super::{Cause, Outcome, Run, replaced};
use crate::{
    cli,
    outcome::{Failure, Result},
    session::client::{
        Diagnosis, Parts, Snapshot, WaitOutcome,
        job::{READING, STUBBORN, Trouble},
    },
    sys::deadline::Deadline,
};

/// How long the command may go on.
#[derive(Clone, Copy)]
enum Limit {
    /// Until then, or until a signal asks us to end it.
    Until(Deadline),
    /// It is being interrupted, and given up then.
    Interrupted { cause: Cause, give_up: Deadline },
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
            Limit::Interrupted { give_up, .. } => give_up,
        }
    }
}

impl Run<'_> {
    /// Returns the command's result, or that we gave it up; and why we have interrupted it, if we have.
    pub(super) fn watch(&mut self) -> Result<(Outcome, Option<Cause>)> {
        let mut limit = Limit::Until(self.wishes.deadline);
        let outcome = self.watch_within(&mut limit)?;
        Ok((outcome, limit.cause()))
    }

    fn watch_within(&mut self, limit: &mut Limit) -> Result<Outcome> {
        let mut over = false;
        // A resumed command may have printed something since the earlier call printed its output.
        let mut looked = if self.answers.is_some() { self.printed_before } else { self.seen };
        loop {
            if self.seen > looked {
                looked = self.seen;
                self.question.note_change();
            }
            if over {
                self.follow_unreported()?;
            }
            if let Some(outcome) = self.look_for_outer() {
                return Ok(outcome);
            }
            if self.progress.unfinished && self.progress.is_done() {
                self.await_shell()?;
                return Ok(Outcome::Unfinished);
            }
            self.stream_what_came()?;
            if self.progress.is_done() {
                return Ok(Outcome::Done(self.progress.code));
            }
            if over {
                return Ok(Outcome::Ended);
            }
            if let Some(trouble) = self.trouble {
                return self.outcome_of(trouble);
            }
            if self.relay.last_output().is_stalled && !self.has_told_stall {
                let now = self.relay.snapshot(Parts::NONE)?.unwrap_or_default();
                self.is_stalled(&now);
            }
            over = !self.note_limit(limit)?;
            if let Some(waiting) = self.look_for_question()? {
                return Ok(Outcome::Asks(Box::new(waiting)));
            }
            if matches!(limit, Limit::Interrupted { give_up, .. } if give_up.has_passed()) {
                return Ok(Outcome::GivenUp);
            }
            if !over {
                over = self.await_output(limit.next().min(self.question.look()))? == WaitOutcome::Ended;
            }
        }
    }

    /// If the call is interrupted, or its time is over, the command is interrupted from now on. `false` if the
    /// session has ended.
    fn note_limit(&mut self, limit: &mut Limit) -> Result<bool> {
        let signalled = self.signals.take() || self.unread.is_some();
        let Limit::Until(deadline) = *limit else { return Ok(true) };
        if !signalled && !deadline.has_passed() {
            return Ok(true);
        }
        let start = if self.begun.is_some() { self.progress.start } else { self.seen };
        let timeout = self.wishes.timeout.unwrap_or_default();
        self.diagnosis = Some(Diagnosis::of_output(self.session, start, timeout));
        let cause = if signalled { Cause::Signal } else { Cause::Timeout };
        *limit = Limit::Interrupted { cause, give_up: Deadline::after(STUBBORN) };
        self.question.end();
        if !self.relay.interrupt_command()? {
            let report = self.relay.final_output();
            self.note(report);
            return Ok(false);
        }
        Ok(true)
    }

    /// The result if nothing more will be known of the command.
    fn outcome_of(&mut self, trouble: Trouble) -> Result<Outcome> {
        let why = match trouble {
            Trouble::Untyped => {
                let diagnosis = Diagnosis::gather(self.session, READING);
                let failure = self.not_run(&format!("its shell does not read {diagnosis}"));
                return Err(failure.with_evidence(diagnosis.evidence()));
            }
            Trouble::Cut => {
                return Err(self.not_run("it was interrupted while it was typed; it was never executed"));
            }
            Trouble::PassedOver => return Err(self.passed_over()),
            Trouble::Unfinished => {
                self.await_shell()?;
                return Ok(Outcome::Unfinished);
            }
            Trouble::Interrupted => {
                self.await_shell()?;
                return Ok(Outcome::GivenUp);
            }
            Trouble::Replaced => {
                let now = self.relay.snapshot(Parts::PROGRAM.and(Parts::SHELL))?.unwrap_or_default();
                replaced(self.session, &now, now.successor.as_deref().unwrap_or_default())
            }
            Trouble::Unreported => "the shell did not report the exit code: something prevents it \
                                    ('enable -n', functions or aliases named as builtins or reserved \
                                    words, readonly variables)"
                .to_owned(),
        };
        Ok(Outcome::Lost(why))
    }

    /// Is there no space for the output? Then the output does not show the state of the command. Prints that
    /// once.
    pub(super) fn is_stalled(&mut self, now: &Snapshot) -> bool {
        let stall = now.stall();
        if let Some(why) = &stall
            && !std::mem::replace(&mut self.has_told_stall, true)
            && !self.wishes.json
        {
            cli::warn("nbs-ts", &format!("session '{}': {why}", self.session.handle()));
        }
        stall.is_some()
    }

    fn not_run(&self, why: &str) -> Failure {
        Failure::failed(format!("cannot run a command in session '{}': {why}", self.session.handle()))
    }

    /// The error if the shell has not taken the command. The rest of our line must not be there for the next call.
    fn passed_over(&mut self) -> Failure {
        let why = self.not_run(
            "its shell did not accept it; possible causes are key bindings, 'stty', a question of a command or \
             of its prompt, readonly variables (PS0, PROMPT_COMMAND), or functions, aliases or 'enable -n' that \
             take builtins or names of ours away",
        );
        // If it cannot be sent, the next call finds out.
        if self.relay.interrupt().is_ok() {
            let _ = self.await_shell();
        }
        why
    }
}
