//! How a call can end, its message then, and its exit code.
//!
//! There is one grammar of messages, `<who>: cannot <what>: <why>`, on one line of standard error, and it is
//! put together here and nowhere else. Control characters of users' and programs' text are shown escaped.

use std::{fmt, io, ops::Deref, process::ExitCode};

use crate::{json::Object, terminal::text};

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Exit 1: it was tried, and the system or the other side refused.
    Failed(Message),
    /// Exit 2: there is no such session.
    NotFound(Message),
    /// Exit 3: our deadline passed; the awaited event may still come.
    TimedOut(Message),
    /// Exit 4: the command line is wrong; nothing was tried.
    BadArgs(Message),
    /// Any exit code: of `run`, which passes on its command's own, and has codes of its own for other
    /// results.
    Status(Box<Status>),
    /// Exit 1, and the answer has been printed already: no message.
    Quiet,
    /// The reader of our output has gone: we end as SIGPIPE would end us.
    ReaderGone,
    /// `--help` stood on the command line: the caller prints it, and exits 0.
    HelpAsked,
}

/// A message, behind a pointer: a failure is passed up through many calls, most of which have none.
#[derive(Debug)]
pub(crate) struct Message(Box<Said>);

#[derive(Debug)]
struct Said {
    text: String,
    // Its facts, for programs.
    evidence: Option<Object>,
}

impl Deref for Message {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Display for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Message {
        Message(Box::new(Said { text, evidence: None }))
    }
}

#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) code: u8,
    pub(crate) kind: &'static str,
    pub(crate) message: Option<Message>,
}

impl Failure {
    #[cold]
    pub(crate) fn failed(message: String) -> Failure {
        Failure::Failed(message.into())
    }

    #[cold]
    pub(crate) fn not_found(message: String) -> Failure {
        Failure::NotFound(message.into())
    }

    #[cold]
    pub(crate) fn timed_out(message: String) -> Failure {
        Failure::TimedOut(message.into())
    }

    #[cold]
    pub(crate) fn bad_args(message: String) -> Failure {
        Failure::BadArgs(message.into())
    }

    /// `message`: `None` if it has been printed already.
    #[cold]
    pub(crate) fn status(code: u8, kind: &'static str, message: Option<String>) -> Failure {
        Failure::Status(Box::new(Status { code, kind, message: message.map(Message::from) }))
    }

    /// The same in a caller's own codes.
    pub(crate) fn into_status(self, code: u8, kind: &'static str) -> Failure {
        let message = match self {
            Failure::Failed(message)
            | Failure::NotFound(message)
            | Failure::TimedOut(message)
            | Failure::BadArgs(message) => Some(message),
            Failure::Status(status) => status.message,
            Failure::Quiet | Failure::ReaderGone | Failure::HelpAsked => None,
        };
        Failure::Status(Box::new(Status { code, kind, message }))
    }

    /// The same, with the facts that its message states as fields of `--json`.
    pub(crate) fn with_evidence(mut self, evidence: Object) -> Failure {
        if let Some(message) = self.message_mut() {
            let known = message.0.evidence.take().unwrap_or_default();
            message.0.evidence = Some(known.and(Some(&evidence)));
        }
        self
    }

    /// The same, with a message made from its message.
    pub(crate) fn reworded(mut self, reword: impl FnOnce(&str) -> String) -> Failure {
        if let Some(message) = self.message_mut() {
            message.0.text = reword(message);
        }
        self
    }

    /// The number that the process exits with.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::HelpAsked => 0,
            Failure::Failed(_) | Failure::Quiet | Failure::ReaderGone => 1,
            Failure::NotFound(_) => 2,
            Failure::TimedOut(_) => 3,
            Failure::BadArgs(_) => 4,
            Failure::Status(status) => status.code,
        }
    }

    /// The word for this kind of failure in `--json` output.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Failure::Failed(_) | Failure::Quiet | Failure::ReaderGone | Failure::HelpAsked => "failed",
            Failure::NotFound(_) => "not_found",
            Failure::TimedOut(_) => "timeout",
            Failure::BadArgs(_) => "bad_arguments",
            Failure::Status(status) => status.kind,
        }
    }

    /// Several at once: the message of each, and the exit code of the first.
    pub(crate) fn all(mut failures: Vec<Failure>) -> Result<()> {
        if failures.len() == 1 {
            return failures.pop().map_or(Ok(()), Err);
        }
        let said: Vec<&str> = failures.iter().filter_map(Failure::message).collect();
        let said = said.join("; ");
        match failures.into_iter().next() {
            None => Ok(()),
            Some(Failure::Failed(_)) => Err(Failure::failed(said)),
            Some(Failure::NotFound(_)) => Err(Failure::not_found(said)),
            Some(Failure::TimedOut(_)) => Err(Failure::timed_out(said)),
            Some(Failure::BadArgs(_)) => Err(Failure::bad_args(said)),
            Some(other) => Err(other),
        }
    }

    pub(crate) fn message(&self) -> Option<&str> {
        Some(&self.said()?.0.text)
    }

    fn said(&self) -> Option<&Message> {
        match self {
            Failure::Failed(message)
            | Failure::NotFound(message)
            | Failure::TimedOut(message)
            | Failure::BadArgs(message) => Some(message),
            Failure::Status(status) => status.message.as_ref(),
            Failure::Quiet | Failure::ReaderGone | Failure::HelpAsked => None,
        }
    }

    fn message_mut(&mut self) -> Option<&mut Message> {
        match self {
            Failure::Failed(message)
            | Failure::NotFound(message)
            | Failure::TimedOut(message)
            | Failure::BadArgs(message) => Some(message),
            Failure::Status(status) => status.message.as_mut(),
            Failure::Quiet | Failure::ReaderGone | Failure::HelpAsked => None,
        }
    }

    /// The line (or, with `--json`, the object) for standard error.
    pub(crate) fn line(&self, who: &str, json: bool) -> Option<String> {
        let message = self.said()?;
        if json {
            let object = Object::new()
                .text("error", message)
                .text("kind", self.kind())
                .number("exit", self.code().into());
            return Some(object.and(message.0.evidence.as_ref()).line());
        }
        Some(format!("{who}: {}\n", text::escaped(message.as_bytes())))
    }

    /// The same, of a machine.
    pub(crate) fn on(self, machine: &impl fmt::Display) -> Failure {
        match self {
            Failure::Failed(_) | Failure::NotFound(_) | Failure::TimedOut(_) => {
                self.reworded(|message| format!("{machine}: {message}"))
            }
            other => other,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.message().unwrap_or(self.kind()))
    }
}

impl From<io::Error> for Failure {
    /// For an error that is passed through a closure that may also fail otherwise; name the action with
    /// [`Trying`] where you can.
    fn from(error: io::Error) -> Failure {
        Failure::failed(format!("cannot read: {error}"))
    }
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Failure {
        Failure::bad_args(error.to_string())
    }
}

/// Adds the action that an [`io::Error`] or another reason made fail.
pub(crate) trait Trying<T> {
    /// `what` is a verb phrase: `open the log of '1f3a9c02'`.
    fn trying(self, what: impl fmt::Display) -> Result<T>;
}

impl<T> Trying<T> for io::Result<T> {
    fn trying(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| in_vain(&what, &error))
    }
}

/// For all of them, whatever the action.
#[cold]
#[inline(never)]
fn in_vain(what: &dyn fmt::Display, error: &io::Error) -> Failure {
    let message = format!("cannot {what}: {error}");
    match error.kind() {
        io::ErrorKind::TimedOut => Failure::timed_out(message),
        _ => Failure::failed(message),
    }
}
