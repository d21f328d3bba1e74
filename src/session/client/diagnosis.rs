//! The error message after a failed wait.

use std::{fmt, time::Duration};

use crate::{
    json::Object,
    numbers,
    outcome::Failure,
    session::{
        Activity, OutputLog, SessionDir,
        client::{
            ForegroundProgram, RelayClient, TerminalState,
            input_history::InputHistory,
            snapshot::Parts,
            waiting::{HELD, Waits},
        },
    },
    terminal::text,
};

/// Explains a failed wait, so that its message needs no second look.
pub(crate) struct Diagnosis {
    waited: Duration,
    doing: Option<TerminalState>,
    // A program waits for input, and is not a shell at its prompt.
    waits: bool,
    // Why the relay does not respond, or has not written the output.
    obstacle: Option<String>,
    last_line: Option<String>,
    // Its question, if it waits.
    question: Option<String>,
    program: Option<ForegroundProgram>,
    // Whether the message names that.
    names_program: bool,
}

impl Diagnosis {
    /// The last output since something was typed, without its echo, as one printable line; nothing that was
    /// printed before the offset `since` in the log.
    fn last_line(session: &SessionDir, client: Option<RelayClient>, since: u64) -> Option<String> {
        let log = session.log().ok()?;
        let end = log.length().ok()?;
        let typing =
            client.and_then(|mut client| client.snapshot_with_typing(Parts::NONE, 0).ok().flatten()?.typing);
        let typing = typing.or_else(|| InputHistory::last_of(session)).filter(|typing| typing.total > 0);
        // The echo of earlier input is before it, too.
        let typing = typing.filter(|typing| typing.anchor >= since);
        let anchor = typing.as_ref().map_or(since, |typing| typing.anchor);
        let from = anchor.max(end.saturating_sub(OutputLog::TAIL));
        let (mut echo, start) = session.echo_from(&log, typing.as_ref(), from).ok()?;
        let mut seen = Vec::new();
        echo.feed(&log.bytes(start, end).ok()?, &mut seen);
        echo.finish(&mut seen);
        text::last_line_shown(&seen)
    }

    /// Ends the message of a failure that has no more to say of the wait with the same.
    pub(crate) fn add_last_line(session: &SessionDir, failure: Failure) -> Failure {
        match Diagnosis::last_line(session, RelayClient::open(session).ok().flatten(), 0) {
            None => failure,
            Some(line) => {
                let evidence = Object::new().text("last_line", &line);
                failure.reworded(|message| format!("{message}; last line: '{line}'")).with_evidence(evidence)
            }
        }
    }

    /// The last line, as the end of a message.
    pub(crate) fn and_last_line(&self) -> String {
        self.last_line.as_ref().map(|line| format!("; last line: '{line}'")).unwrap_or_default()
    }

    /// The diagnosis without a wait.
    pub(crate) fn now(session: &SessionDir) -> Diagnosis {
        Diagnosis::gather(session, Duration::ZERO)
    }

    /// Gathers the available facts; others are left out.
    pub(crate) fn gather(session: &SessionDir, waited: Duration) -> Diagnosis {
        Diagnosis::from_place(session, 0, waited)
    }

    /// The same, if the offset of the output's start is known; its message does not name the program.
    pub(crate) fn of_output(session: &SessionDir, start: u64, waited: Duration) -> Diagnosis {
        Diagnosis { names_program: false, ..Diagnosis::from_place(session, start, waited) }
    }

    fn from_place(session: &SessionDir, start: u64, waited: Duration) -> Diagnosis {
        let mut client = RelayClient::open(session).ok().flatten();
        let (mut doing, mut waits, mut obstacle, mut program) = (None, false, None, None);
        let mut question = None;
        match client.as_mut().map(|client| client.snapshot(Parts::ACTIVITY.and(Parts::PROGRAM))) {
            Some(Ok(Some(now))) => {
                // Some programs that wait are busy for a moment, again and again.
                waits = now.activity == Some(Activity::Waiting)
                    || matches!(now.asks(session, HELD), Ok(Some(Waits::Now)));
                (doing, obstacle) = (Some(now.doing), now.stall());
                question = session.question(now.doing).ok().flatten().filter(|_| waits);
                program = now.program;
            }
            // Nor would it answer another time.
            Some(Err(_)) => obstacle = client.take().map(|client| format!("its relay {}", client.reason())),
            _ => {}
        }
        let last_line = Diagnosis::last_line(session, client, start);
        Diagnosis { waited, doing, waits, obstacle, last_line, question, program, names_program: true }
    }

    /// The failure of that wait, with this as its evidence.
    pub(crate) fn timed_out(&self, message: String) -> Failure {
        Failure::timed_out(message).with_evidence(self.evidence())
    }

    /// The same as fields.
    pub(crate) fn evidence(&self) -> Object {
        let bytes = |text: &'static str| text.as_bytes();
        Object::new()
            .bytes_or_null("terminal", self.doing.map(|doing| bytes(doing.word())))
            .bytes_or_null("foreground", self.program.as_ref().map(|program| program.name.as_bytes()))
            .bytes_or_null("last_line", self.last_line.as_ref().map(|line| line.as_bytes()))
            .bytes_or_null("question", self.question.as_ref().map(|question| question.as_bytes()))
            .number("elapsed_ms", self.waited.as_millis())
    }

    /// Does a program wait for input that is not a shell at its prompt, as far as all output has been
    /// written?
    pub(crate) fn is_asked_for_input(&self) -> bool {
        self.waits && self.obstacle.is_none()
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "after {}", numbers::shown_seconds(self.waited))?;
        if let Some(doing) = &self.doing {
            let waits = if self.is_asked_for_input() { " (a program waits for input)" } else { "" };
            write!(formatter, "; the terminal's state is {doing}{waits}")?;
        }
        if let Some(obstacle) = &self.obstacle {
            write!(formatter, "; {obstacle}")?;
        }
        match &self.last_line {
            Some(line) => write!(formatter, "; last line: '{line}'")?,
            None if self.obstacle.is_some() => {}
            None => formatter.write_str("; nothing was printed")?,
        }
        match self.program.as_ref().filter(|_| self.names_program).and_then(ForegroundProgram::named) {
            Some(program) => write!(formatter, "; {program}"),
            None => Ok(()),
        }
    }
}
