//! exit.json: how a session ended. It is the notification and the receipt.

use std::time::SystemTime;

use crate::{
    json::Object,
    session::{Handle, Name, dir::unix_seconds},
    sys::{child::ExitStatus, signals},
};

/// Who or what ended a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// The command itself, or somebody outside nbs.
    Itself,
    /// `nbs-ts kill`, or a limit, by the word that it gave.
    Cause(String),
}

/// All that is to be told of an ending.
pub(crate) struct Receipt {
    pub(crate) handle: Handle,
    pub(crate) name: Option<Name>,
    /// `None` where nobody saw it.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) ended_by: EndedBy,
    pub(crate) last_lines: Vec<Vec<u8>>,
    pub(crate) started: SystemTime,
    pub(crate) ended: SystemTime,
    pub(crate) output_bytes: u64,
    /// Whether all that was printed could be read, until nobody had the
    /// terminal open any more.
    pub(crate) drained: bool,
}

impl Receipt {
    /// How many of the last lines it shows.
    pub(crate) const LAST_LINES: usize = 5;

    pub(crate) fn json(&self) -> String {
        let signal = match self.status {
            None | Some(ExitStatus::Code(_)) => None,
            Some(ExitStatus::Signal(signal)) => Some(signals::name(signal)),
        };
        let ended_by = match &self.ended_by {
            EndedBy::Itself if self.status.is_none() => "unknown",
            EndedBy::Itself => "self",
            EndedBy::Cause(cause) => cause,
        };
        let pane = self.name.as_ref().map_or(self.handle.as_str(), Name::as_str);
        let lasted = self.ended.duration_since(self.started).unwrap_or_default();
        Object::new()
            .text("type", "pty_exited")
            .text("session_id", self.handle.as_str())
            .text("pane_id", pane)
            .number("exit_code", self.status.map_or(-1, ExitStatus::number).into())
            .list("last_lines", &self.last_lines)
            .bytes_or_null("session_title", None)
            .bytes_or_null("session_description", None)
            .bytes_or_null("parent_agent", None)
            .truth("timed_out", false)
            .bytes_or_null("signal", signal.as_deref().map(str::as_bytes))
            .text("ended_by", ended_by)
            .seconds_or_null("started", Some(unix_seconds(self.started)))
            .seconds_or_null("ended", Some(unix_seconds(self.ended)))
            .number("duration_ms", i64::try_from(lasted.as_millis()).unwrap_or(i64::MAX))
            .number("output_bytes", i64::try_from(self.output_bytes).unwrap_or(i64::MAX))
            .truth("drained", self.drained)
            .line()
    }
}
