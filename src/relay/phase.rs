//! How far the end of a session has come.
//!
//! The child's end and the terminal's are two events, seconds apart or in
//! either order: a background process may hold the terminal open long after
//! its shell has gone. The session's end is the child's; what others still
//! print is read for a while.

use std::time::Duration;

use crate::sys::{child::ExitStatus, deadline::Deadline};

/// How long, after the child's end, we go on reading the output of others that still have the terminal open.
/// Long enough for the last output of the other members of a pipeline and of a process substitution, short
/// enough that a daemon that forgot to close its terminal is not noticed.
const LINGER: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The child runs.
    Running,
    /// The child has ended (`None`: unknown how); its remaining processes may print until the deadline.
    Lingering(Option<ExitStatus>, Deadline),
    /// All output has been read; `drained`: until no process had the terminal open.
    Over { status: Option<ExitStatus>, drained: bool },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    CommandEnded(Option<ExitStatus>),
    TerminalClosed,
    LingeredEnough,
}

impl Phase {
    pub(crate) fn after(self, change: Change) -> Phase {
        use {Change::*, Phase::*};
        match (self, change) {
            (Running, CommandEnded(status)) => Lingering(status, Deadline::after(LINGER)),
            (Lingering(status, _), TerminalClosed) => Over { status, drained: true },
            (Lingering(status, _), LingeredEnough) => Over { status, drained: false },
            (phase, _) => phase,
        }
    }

    pub(crate) fn deadline(self) -> Deadline {
        match self {
            Phase::Lingering(_, deadline) => deadline,
            Phase::Running | Phase::Over { .. } => Deadline::NEVER,
        }
    }

    pub(crate) fn command_runs(self) -> bool {
        self == Phase::Running
    }

    /// Is there nothing more to read?
    pub(crate) fn terminal_is_closed(self) -> bool {
        matches!(self, Phase::Over { .. })
    }

    pub(crate) fn over(self) -> Option<(Option<ExitStatus>, bool)> {
        match self {
            Phase::Over { status, drained } => Some((status, drained)),
            Phase::Running | Phase::Lingering(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: Option<ExitStatus> = Some(ExitStatus::Code(3));

    #[test]
    fn a_session_ends_when_the_command_has_and_nobody_holds_the_terminal() {
        let phase = Phase::Running.after(Change::CommandEnded(DONE)).after(Change::TerminalClosed);
        assert_eq!(phase, Phase::Over { status: DONE, drained: true });
    }

    #[test]
    fn a_held_terminal_delays_the_end_by_a_named_time_only() {
        let phase = Phase::Running.after(Change::CommandEnded(DONE));
        assert!(!phase.command_runs());
        assert_ne!(phase.deadline(), Deadline::NEVER);
        assert_eq!(phase.after(Change::LingeredEnough), Phase::Over { status: DONE, drained: false });
    }

    #[test]
    fn a_closed_terminal_is_no_end_while_the_command_runs() {
        assert_eq!(Phase::Running.after(Change::TerminalClosed), Phase::Running);
        assert_eq!(Phase::Running.after(Change::LingeredEnough), Phase::Running);
    }
}
