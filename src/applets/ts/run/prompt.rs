//! Waiting for a shell to be free for a command.

use std::{ops::ControlFlow, os::fd::AsFd, time::Duration};

use super::{INTERRUPTED, NEXT_PROMPT, RunOptions, TIMED_OUT, foreground, status};
use crate::{
    outcome::{Failure, Result},
    session::{
        SessionDir,
        client::{
            Diagnosis, GLANCE, Parts, PromptState, RelayClient, Snapshot, TerminalState, WaitOutcome, sending,
        },
        shell::Dialect,
    },
    sys::{deadline::Deadline, signals::Signals},
};

/// How long a new shell may take to its first prompt.
const FIRST_PROMPT: Duration = Duration::from_secs(60);
/// We poll: there is no event when a shell without a prompt (`exec 2>FILE`) begins to wait. So we check at
/// intervals that grow from a sixteenth to this.
const LATER_LOOKS: Duration = Duration::from_secs(1);
/// How long to look a second time at a terminal that seems to be busy: its modes and its reader are not seen
/// at the same moment.
const SECOND_LOOK: Duration = Duration::from_millis(200);
/// How often a shell is asked to drop a line, before it is interrupted.
const CLEARS: u32 = 2;
/// How long another client's earlier command may still take: most are done by then, and a call that has
/// waited for its output need not wait for its end, too.
const NEARLY_DONE: Duration = Duration::from_secs(1);

/// The error if the time was over before the command was typed.
pub(super) fn too_late(session: &SessionDir, wishes: RunOptions, why: &str) -> Failure {
    let diagnosis = Diagnosis::gather(session, wishes.timeout.unwrap_or_default());
    let message =
        format!("cannot run a command in session '{}': timed out {diagnosis}; {why}", session.handle());
    status(TIMED_OUT, "timeout", message).with_evidence(diagnosis.evidence())
}

pub(super) fn never_begun(session: &SessionDir) -> Failure {
    let message =
        format!("cannot run a command in session '{}': interrupted before it started", session.handle());
    status(INTERRUPTED, "interrupted", message)
}

/// Our actions about a line that is begun at the prompt.
#[derive(Default)]
struct BegunLine {
    // How often the shell has been asked to drop it, by a key; whether it has been interrupted, and
    // when something is to be done again.
    asked: u32,
    is_interrupted: bool,
    again: Option<Deadline>,
}

impl BegunLine {
    /// Has the shell at this place drop it, if it is time to; gives when it will be again.
    fn drop_again(
        &mut self,
        session: &SessionDir,
        turn: &mut RelayClient,
        place: &Snapshot,
        doing: TerminalState,
    ) -> Result<Deadline> {
        if let Some(again) = self.again.filter(|again| !again.has_passed()) {
            return Ok(again);
        }
        // A shell that still draws has not read the key; else half a key that was typed before may have
        // swallowed its beginning.
        let draws = self.asked > 0 && doing == TerminalState::Running;
        let pause = if draws || self.asked < CLEARS && self.ask(session, turn, place.level)? {
            NEARLY_DONE
        } else {
            if !turn.drop_line(place)? {
                return Ok(Deadline::after(Duration::ZERO));
            }
            self.is_interrupted = true;
            sending::REPEAT
        };
        Ok(*self.again.insert(Deadline::after(pause)))
    }

    /// Types the key, if the shell has one.
    fn ask(&mut self, session: &SessionDir, turn: &mut RelayClient, level: usize) -> Result<bool> {
        let Some(keys) = session.dialect(level)?.clearing() else { return Ok(false) };
        turn.type_in(keys, Deadline::after(NEXT_PROMPT))?;
        self.asked += 1;
        Ok(true)
    }
}

/// Waits for a prompt that is about to come, and returns the shell's place there, which has a last
/// completion. `now` is its present place.
pub(super) fn await_prompt(
    session: &SessionDir,
    wishes: RunOptions,
    now: Snapshot,
    turn: &mut RelayClient,
    signals: &mut Signals,
) -> Result<Snapshot> {
    let over = wishes.deadline;
    let mut wait = PromptWait {
        session,
        first: Deadline::after(FIRST_PROMPT),
        next: Deadline::after(NEXT_PROMPT),
        line: BegunLine::default(),
        dealt: None,
        prompt_end: None,
        busy: None,
    };
    let (mut now, mut interval) = (Some(now), LATER_LOOKS / 16);
    loop {
        if over.has_passed() {
            return Err(too_late(session, wishes, "its shell did not reach a prompt; nothing was typed"));
        }
        let place = now.take().map_or_else(|| turn.snapshot(Parts::NONE), |place| Ok(Some(place)))?;
        let place = place.ok_or_else(|| session.ended())?;
        let next = wait.next;
        if place.left_unbegun && !next.has_passed() {
            // Input of a killed call comes first.
            match turn.news_or(next.min(over), Some(signals.as_fd()))? {
                WaitOutcome::Ended => return Err(session.ended()),
                WaitOutcome::TimedOut if signals.take() => return Err(never_begun(session)),
                _ => continue,
            }
        }
        let interrupted = wait.interrupted(&place);
        // The first look mostly shows it. If the terminal is still in canonical mode, a line editor may be
        // about to change that: ksh93's does so after the prompt.
        let has_editor = place.prompt == PromptState::Stands && !place.lines && interrupted.is_none();
        let reads = has_editor && !place.queued && takes_by_key(session, &place)?;
        if reads && place.seq.is_some() && session.ends_with_prompt(place.offset)? {
            return Ok(place);
        }
        if sending::wake(session, turn, next.min(over), Some(signals.as_fd()))? {
            if signals.take() {
                return Err(never_begun(session));
            }
            continue;
        }
        let doing = turn.doing()?.ok_or_else(|| session.ended())?;
        let deadline = match wait.look(turn, &place, doing, interrupted)? {
            ControlFlow::Continue(deadline) => deadline,
            ControlFlow::Break(place) => return Ok(place),
        };
        let look = Deadline::after(interval);
        match turn.news_or(deadline.min(over).min(look), Some(signals.as_fd()))? {
            WaitOutcome::Changed => interval = LATER_LOOKS / 16,
            WaitOutcome::Ended => return Err(session.ended()),
            WaitOutcome::TimedOut if signals.take() => return Err(never_begun(session)),
            WaitOutcome::TimedOut if over.has_passed() => {}
            WaitOutcome::TimedOut if !deadline.has_passed() => interval = (2 * interval).min(LATER_LOOKS),
            WaitOutcome::TimedOut => match place.prompt {
                PromptState::Stands | PromptState::Entered | PromptState::Left => {}
                PromptState::Touched if !next.has_passed() => {}
                _ => return stuck(session, turn, doing),
            },
        }
    }
}

/// How long each way to a prompt may still take.
struct PromptWait<'a> {
    session: &'a SessionDir,
    /// The first prompt of a new shell, and the next one of any other.
    first: Deadline,
    next: Deadline,
    line: BegunLine,
    /// By when an interrupt of another client has reached the shell.
    dealt: Option<Deadline>,
    /// By when a shell at its prompt reads.
    prompt_end: Option<Deadline>,
    /// A shell that seems busy is looked at again at the first, and given up at the second.
    busy: Option<(Deadline, Deadline)>,
}

impl PromptWait<'_> {
    /// Another client's interrupt may still be on its way to the shell, and must not hit our text: until when?
    fn interrupted(&mut self, place: &Snapshot) -> Option<Deadline> {
        let dealt = || *self.dealt.get_or_insert_with(|| Deadline::after(NEARLY_DONE));
        let dealt = place.interrupted.then(dealt)?;
        (!dealt.has_passed() && !self.line.is_interrupted).then_some(dealt)
    }

    /// Gives the shell's place if a command can be typed there; else until when to wait for news. An error if
    /// no prompt will come.
    fn look(
        &mut self,
        turn: &mut RelayClient,
        place: &Snapshot,
        doing: TerminalState,
        interrupted: Option<Deadline>,
    ) -> Result<ControlFlow<Snapshot, Deadline>> {
        let (session, next, prompt) = (self.session, self.next, place.prompt);
        let deadline = match (prompt, doing, place.seq, interrupted) {
            (PromptState::Stands | PromptState::Touched | PromptState::Entered, .., Some(dealt)) => dealt,
            (PromptState::Entered, ..) if place.interrupted && !next.has_passed() => {
                // It may be lost; or a command is about to end by it, and wants no other.
                match turn.snapshot(Parts::SHELL)?.is_some_and(|now| now.shell_waits) {
                    true => self.line.drop_again(session, turn, place, doing)?.min(next),
                    false => next,
                }
            }
            // It is about to read a line that was typed before.
            (PromptState::Stands | PromptState::Entered, ..) if place.queued && !next.has_passed() => {
                Deadline::after(GLANCE)
            }
            // Between its prompt and its read a shell is `running`; without its
            // line editor (`set +o emacs`) it reads a `line`, and without echo what looks
            // like a `secret`.
            (
                PromptState::Stands,
                TerminalState::Prompt | TerminalState::Running | TerminalState::Line | TerminalState::Secret,
                Some(_),
                _,
            ) => {
                let end = *self.prompt_end.get_or_insert_with(|| Deadline::after(NEARLY_DONE));
                if doing != TerminalState::Running || end.has_passed() {
                    return self.at_prompt(turn, doing).map(ControlFlow::Break);
                }
                end
            }
            // Half a line, half a search or half a key: where the shell has no key for that, an
            // interrupt ends them all, at the price of a line in completion.log.
            (
                PromptState::Touched,
                TerminalState::Prompt | TerminalState::Running | TerminalState::Line,
                ..,
            ) => self.line.drop_again(session, turn, place, doing)?.min(next),
            (PromptState::Unknown, TerminalState::Running | TerminalState::Prompt, ..) => self.first,
            (PromptState::Coming, TerminalState::Running | TerminalState::Prompt, ..) => next,
            (PromptState::Unknown | PromptState::Coming | PromptState::Entered | PromptState::Left, ..) => {
                let looks = || (Deadline::after(SECOND_LOOK), Deadline::after(NEARLY_DONE));
                let (second_look, nearly_done) = *self.busy.get_or_insert_with(looks);
                let runs = doing == TerminalState::Running
                    && matches!(prompt, PromptState::Left | PromptState::Entered);
                let deadline = if runs { nearly_done } else { second_look };
                if deadline.has_passed() {
                    return stuck(session, turn, doing).map(ControlFlow::Break);
                }
                deadline
            }
            _ => return stuck(session, turn, doing).map(ControlFlow::Break),
        };
        Ok(ControlFlow::Continue(deadline))
    }

    /// The shell's place at its prompt, unless the prompt was that of a command which was typed ahead, and
    /// runs, or reads.
    fn at_prompt(&self, turn: &mut RelayClient, doing: TerminalState) -> Result<Snapshot> {
        let is_other = doing != TerminalState::Prompt
            && turn.snapshot(Parts::PROGRAM)?.and_then(|now| now.program).is_some_and(|holder| {
                !holder.is_shell && (doing == TerminalState::Running || holder.shell.is_none())
            });
        if is_other {
            return stuck(self.session, turn, doing);
        }
        // By now the line editor may have the terminal.
        turn.snapshot(Parts::NONE)?.ok_or_else(|| self.session.ended())
    }
}

/// Does the shell at this place take a delivered command behind all earlier input? Text for any other shell
/// must not come behind a line that it has read and not yet executed.
fn takes_by_key(session: &SessionDir, place: &Snapshot) -> Result<bool> {
    Ok(is_handed_by_key(place.level, session.dialect(place.level)?))
}

/// Only the session's own shell, at level 0, has a key of ours; one inside it is typed to.
fn is_handed_by_key(level: usize, dialect: Dialect) -> bool {
    level == 0 && dialect != Dialect::Posix
}

/// The shell's place nevertheless, if it is at its prompt, but something keeps it from reporting that: the
/// hooks are part of the typed text, and repair what is gone. Else the error.
pub(super) fn stuck(session: &SessionDir, turn: &mut RelayClient, doing: TerminalState) -> Result<Snapshot> {
    let parts = Parts::SHELL.and(Parts::PROGRAM).and(Parts::KEYS);
    let mut now = turn.snapshot(parts)?.ok_or_else(|| session.ended())?;
    if let Some(stall) = now.stall() {
        return Err(busy(session, doing, &stall, ""));
    }
    if now.seq.is_some()
        && now.shell_waits
        && now.successor.is_none()
        && (session.ends_with_prompt(now.offset)? || edits_unreported(session, &now)?)
    {
        return Ok(now);
    }
    if let Some(name) = &now.successor {
        return Err(busy(session, doing, &replaced(session, &now, name), ""));
    }
    now.doing = doing;
    let (why, fix) = foreground::in_the_way(session, &now);
    Err(busy(session, doing, &why, &fix))
}

/// Is it at a prompt that it has not marked? Its last command is over, and its editor is on; if it reads a
/// line for a command all the same, zsh knows that, and takes nothing.
fn edits_unreported(session: &SessionDir, place: &Snapshot) -> Result<bool> {
    let can_be_asked =
        place.level == 0 && place.prompt == PromptState::Coming && session.dialect(0)? == Dialect::Zsh;
    Ok(can_be_asked && place.keys.as_ref().is_some_and(|modes| modes.bracketed_paste))
}

fn busy(session: &SessionDir, doing: TerminalState, why: &str, fix: &str) -> Failure {
    let diagnosis = Diagnosis::now(session);
    let handle = session.handle();
    let message = format!(
        "cannot run a command in session '{handle}': {why}; the terminal is at: {doing}{}{fix}",
        diagnosis.and_last_line()
    );
    Failure::failed(message).with_evidence(diagnosis.evidence())
}

/// The error if a program of this name has replaced the session's shell.
pub(super) fn replaced(session: &SessionDir, now: &Snapshot, name: &str) -> String {
    let handle = session.handle();
    let is_shell = now.program.as_ref().is_some_and(|holder| holder.shell.is_some());
    let way = match is_shell {
        true => format!(
            "try 'nbs-ts integrate {handle}' to make run work in it, 'nbs-ts ask {handle} TEXT' to talk to it"
        ),
        false => "try 'nbs-ts ask'".to_owned(),
    };
    format!("'{name}' replaced the shell; {way}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sessions_own_shell_is_handed_a_command_by_a_key() {
        for dialect in [Dialect::Bash, Dialect::Zsh, Dialect::Fish, Dialect::Posix] {
            assert_eq!(is_handed_by_key(0, dialect), dialect != Dialect::Posix, "{}", dialect.word());
            assert!(!is_handed_by_key(1, dialect), "{}", dialect.word());
        }
    }
}
