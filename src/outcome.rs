//! How a call can end, its message then, and its exit code.
//!
//! There is one grammar of messages, `<who>: cannot <what>: <why>`, on one line of standard error, and it is
//! put together here and nowhere else. Control characters of users' and programs' text are shown escaped.

use std::{fmt, io};

use crate::{json::Object, terminal::text};

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a call failed. One pointer, since it is passed up through many calls, most of which never see one.
#[derive(Debug)]
pub(crate) struct Failure(Box<Details>);

#[derive(Debug)]
struct Details {
    reason: Reason,
    // `None` if the call has printed its answer already, or has none.
    message: Option<String>,
    // The facts of the message, for programs.
    evidence: Option<Object>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Exit 1: it was tried, and the system or the other side refused.
    Failed,
    /// Exit 2: there is no such session.
    NotFound,
    /// Exit 3: our deadline passed; the awaited event may still come.
    TimedOut,
    /// Exit 4: the command line is wrong; nothing was tried.
    BadArgs,
    /// Any exit code: `run` passes on that of its command, and has codes of its own for other results.
    Status { code: u8, kind: &'static str },
    /// Exit 1: the reader of our output has gone. The process ends as SIGPIPE would end it.
    ReaderGone,
    /// `--help` stood on the command line: the caller prints it, and exits 0.
    HelpAsked,
}

impl Failure {
    #[cold]
    #[inline(never)]
    fn new(reason: Reason, message: Option<String>) -> Failure {
        Failure(Box::new(Details { reason, message, evidence: None }))
    }

    #[cold]
    pub(crate) fn failed(message: String) -> Failure {
        Failure::new(Reason::Failed, Some(message))
    }

    #[cold]
    pub(crate) fn not_found(message: String) -> Failure {
        Failure::new(Reason::NotFound, Some(message))
    }

    #[cold]
    pub(crate) fn timed_out(message: String) -> Failure {
        Failure::new(Reason::TimedOut, Some(message))
    }

    #[cold]
    pub(crate) fn bad_args(message: String) -> Failure {
        Failure::new(Reason::BadArgs, Some(message))
    }

    /// `message`: `None` if it has been printed already.
    #[cold]
    pub(crate) fn status(code: u8, kind: &'static str, message: Option<String>) -> Failure {
        Failure::new(Reason::Status { code, kind }, message)
    }

    /// Exit 1: the answer has been printed already.
    #[cold]
    pub(crate) fn quiet() -> Failure {
        Failure::new(Reason::Failed, None)
    }

    #[cold]
    pub(crate) fn reader_gone() -> Failure {
        Failure::new(Reason::ReaderGone, None)
    }

    #[cold]
    pub(crate) fn help_asked() -> Failure {
        Failure::new(Reason::HelpAsked, None)
    }

    pub(crate) fn reason(&self) -> Reason {
        self.0.reason
    }

    pub(crate) fn is(&self, reason: Reason) -> bool {
        self.0.reason == reason
    }

    /// The same message of another reason.
    pub(crate) fn because(mut self, reason: Reason) -> Failure {
        self.0.reason = reason;
        self
    }

    /// The same in a caller's own codes.
    pub(crate) fn into_status(self, code: u8, kind: &'static str) -> Failure {
        self.because(Reason::Status { code, kind })
    }

    /// The same, with the facts that its message states as fields of `--json`.
    pub(crate) fn with_evidence(mut self, evidence: Object) -> Failure {
        let known = self.0.evidence.take().unwrap_or_default();
        self.0.evidence = Some(known.and(Some(&evidence)));
        self
    }

    /// The same, with a message made from its message.
    pub(crate) fn reworded(mut self, reword: impl FnOnce(&str) -> String) -> Failure {
        self.0.message = self.0.message.as_deref().map(reword);
        self
    }

    /// The number that the process exits with.
    pub(crate) fn code(&self) -> u8 {
        match self.0.reason {
            Reason::HelpAsked => 0,
            Reason::Failed | Reason::ReaderGone => 1,
            Reason::NotFound => 2,
            Reason::TimedOut => 3,
            Reason::BadArgs => 4,
            Reason::Status { code, .. } => code,
        }
    }

    /// The word for this kind of failure in `--json` output.
    pub(crate) fn kind(&self) -> &'static str {
        match self.0.reason {
            Reason::Failed | Reason::ReaderGone | Reason::HelpAsked => "failed",
            Reason::NotFound => "not_found",
            Reason::TimedOut => "timeout",
            Reason::BadArgs => "bad_arguments",
            Reason::Status { kind, .. } => kind,
        }
    }

    /// Several at once: the message of each, and the exit code of the first.
    pub(crate) fn all(mut failures: Vec<Failure>) -> Result<()> {
        if failures.len() < 2 {
            return failures.pop().map_or(Ok(()), Err);
        }
        let messages: Vec<&str> = failures.iter().filter_map(Failure::message).collect();
        let message = Some(messages.join("; ")).filter(|_| !messages.is_empty());
        Err(Failure::new(failures[0].reason(), message))
    }

    pub(crate) fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// The line (or, with `--json`, the object) for standard error.
    pub(crate) fn line(&self, who: &str, json: bool) -> Option<String> {
        let message = self.message()?;
        if json {
            let object =
                Object::new().text("error", message).text("kind", self.kind()).number("exit", self.code());
            return Some(object.and(self.0.evidence.as_ref()).line());
        }
        Some(format!("{who}: {}\n", text::escaped(message.as_bytes())))
    }

    /// The same, of a machine.
    pub(crate) fn on(self, machine: &impl fmt::Display) -> Failure {
        match self.reason() {
            Reason::Failed | Reason::NotFound | Reason::TimedOut => {
                self.reworded(|message| format!("{machine}: {message}"))
            }
            _ => self,
        }
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
