//! What there is to say when a wait was in vain.

use std::{fmt, time::Duration};

use crate::{
    numbers,
    session::{
        OutputLog, SessionDir,
        client::{
            RelayClient, TerminalState,
            input_history::InputHistory,
            snapshot::Parts,
            waiting::{HELD, Waits},
        },
    },
    terminal::text,
};

/// Makes a failed wait's message one that needs no second look.
pub(crate) struct Diagnosis {
    waited: Duration,
    doing: Option<TerminalState>,
    // Something other than a shell at its prompt waits for input.
    waits: bool,
    // Why the relay does not tell, or has not written down what was printed.
    obstacle: Option<String>,
    last_line: Option<String>,
    // The program that has the foreground, as a part of a sentence.
    program: Option<String>,
}

impl Diagnosis {
    /// What was printed last since something was typed, without its echo, in one
    /// line that can be shown; and nothing that was printed before the place `since`
    /// in the log.
    fn last_line(session: &SessionDir, client: Option<RelayClient>, since: u64) -> Option<String> {
        let log = session.log().ok()?;
        let end = log.length().ok()?;
        let typing = client.and_then(|mut client| client.typing(0).ok().flatten());
        let typing = typing.or_else(|| InputHistory::last_of(session)).filter(|typing| typing.total > 0);
        // The echo of what was typed before is before it, too.
        let typing = typing.filter(|typing| typing.anchor >= since);
        let anchor = typing.as_ref().map_or(since, |typing| typing.anchor);
        let from = anchor.max(end.saturating_sub(OutputLog::TAIL));
        let (mut echo, start) = session.echo_from(&log, typing.as_ref(), from).ok()?;
        let mut seen = Vec::new();
        echo.feed(&log.bytes(start, end).ok()?, &mut seen);
        echo.finish(&mut seen);
        text::last_line_shown(&seen)
    }

    /// The same as the end of a message that has no more to say of the wait.
    pub(crate) fn and_last_line(session: &SessionDir) -> String {
        let line = Diagnosis::last_line(session, RelayClient::open(session).ok().flatten(), 0);
        line.map(|line| format!("; last line: '{line}'")).unwrap_or_default()
    }

    /// The diagnosis where nobody has waited.
    pub(crate) fn now(session: &SessionDir) -> Diagnosis {
        Diagnosis::gather(session, Duration::ZERO)
    }

    /// Gathers what can be had; what cannot is left out.
    pub(crate) fn gather(session: &SessionDir, waited: Duration) -> Diagnosis {
        Diagnosis::of_parts(session, Parts::INPUT.and(Parts::PROGRAM), 0, waited)
    }

    /// The same, but for the program, where it is known from where in the log on there is output.
    pub(crate) fn of_output(session: &SessionDir, start: u64, waited: Duration) -> Diagnosis {
        Diagnosis::of_parts(session, Parts::INPUT, start, waited)
    }

    fn of_parts(session: &SessionDir, parts: Parts, start: u64, waited: Duration) -> Diagnosis {
        let mut client = RelayClient::open(session).ok().flatten();
        let (mut doing, mut waits, mut obstacle, mut program) = (None, false, None, None);
        match client.as_mut().map(|client| client.snapshot(parts)) {
            Some(Ok(Some(now))) => {
                waits = matches!(now.asks(session, HELD), Ok(Some(Waits::Now)));
                (doing, obstacle) = (Some(now.doing), now.stall());
                program = now.program.and_then(|program| program.named());
            }
            // Nor would it answer another time.
            Some(Err(_)) => obstacle = client.take().map(|client| format!("its relay {}", client.reason())),
            _ => {}
        }
        let last_line = Diagnosis::last_line(session, client, start);
        Diagnosis { waited, doing, waits, obstacle, last_line, program }
    }

    /// Does something other than a shell at its prompt wait for input, as far as all is there
    /// that was printed?
    pub(crate) fn is_asked_for_input(&self) -> bool {
        self.waits && self.obstacle.is_none()
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "after {}", numbers::shown_seconds(self.waited))?;
        if let Some(doing) = &self.doing {
            let waits = if self.is_asked_for_input() { ", a program waits for input" } else { "" };
            write!(formatter, "; the terminal is at: {doing}{waits}")?;
        }
        if let Some(obstacle) = &self.obstacle {
            write!(formatter, "; {obstacle}")?;
        }
        match &self.last_line {
            Some(line) => write!(formatter, "; last line: '{line}'")?,
            None if self.obstacle.is_some() => {}
            None => formatter.write_str("; nothing was printed")?,
        }
        match &self.program {
            Some(program) => write!(formatter, "; {program}"),
            None => Ok(()),
        }
    }
}
