//! Waiting for a shell to be free for a command.

use std::os::fd::AsFd;

use super::{INTERRUPTED, RunOptions, TIMED_OUT, foreground, status};
use crate::{
    outcome::{Failure, Result},
    session::{
        SessionDir,
        client::{Diagnosis, RelayClient, Snapshot},
    },
    sys::signals::Signals,
};

/// The error if the time was over before the command was typed.
pub(super) fn too_late(session: &SessionDir, wishes: RunOptions, why: &str) -> Failure {
    let diagnosis = Diagnosis::gather(session, wishes.timeout.unwrap_or_default());
    let message =
        format!("cannot run a command in session '{}': timed out {diagnosis}; {why}", session.handle());
    status(TIMED_OUT, "timeout", message).with_evidence(diagnosis.evidence())
}

fn never_begun(session: &SessionDir) -> Failure {
    let message =
        format!("cannot run a command in session '{}': interrupted before it started", session.handle());
    status(INTERRUPTED, "interrupted", message)
}

/// Waits until other calls have done with the session.
pub(super) fn take_turn(
    session: &SessionDir,
    wishes: RunOptions,
    turn: &mut RelayClient,
    signals: &mut Signals,
) -> Result<()> {
    // However long the others' commands take: each has a deadline of its own, and a waiting call can be
    // interrupted.
    match turn.take_turn(session, wishes.deadline, Some(signals.as_fd()))? {
        Some(_) => Ok(()),
        None => Err(in_vain(session, wishes, signals, OTHERS)),
    }
}

const OTHERS: &str = "timed out while other calls use it; nothing was typed";

fn in_vain(session: &SessionDir, wishes: RunOptions, signals: &mut Signals, why: &str) -> Failure {
    if signals.take() { never_begun(session) } else { too_late(session, wishes, why) }
}

/// The same, and then waits for a prompt that is about to come; returns the shell's place there, which has a
/// last completion.
pub(super) fn await_prompt(
    session: &SessionDir,
    wishes: RunOptions,
    turn: &mut RelayClient,
    signals: &mut Signals,
) -> Result<Snapshot> {
    let (has_turn, now) = turn.take_turn_at_prompt(session, wishes.deadline, Some(signals.as_fd()))?;
    let why = if has_turn { "its shell did not reach a prompt; nothing was typed" } else { OTHERS };
    match now {
        Some(now) if now.free => Ok(now),
        Some(now) => Err(busy(session, &now)),
        None => Err(in_vain(session, wishes, signals, why)),
    }
}

/// The error if no command can be handed over to the shell.
fn busy(session: &SessionDir, now: &Snapshot) -> Failure {
    let (why, fix) = match (now.stall(), &now.successor) {
        (Some(stall), _) => (stall, String::new()),
        (None, Some(name)) => (replaced(session, now, name), String::new()),
        (None, None) => foreground::in_the_way(session, now),
    };
    let diagnosis = Diagnosis::now(session);
    let handle = session.handle();
    let message = format!(
        "cannot run a command in session '{handle}': {why}; the terminal's state is {}{}{fix}",
        now.doing,
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
            "try 'nbs-ts integrate {handle}' to make run work in it, 'nbs-ts ask {handle} TEXT' to type into it"
        ),
        false => "try 'nbs-ts ask'".to_owned(),
    };
    format!("'{name}' replaced the shell; {way}")
}
