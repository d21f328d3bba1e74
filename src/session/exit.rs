//! exit.json: how a session ended. It is the notification and the exit record.

use std::time::{Duration, SystemTime};

use crate::{
    json::{Object, Value},
    numbers::parse_seconds,
    session::{Handle, Name, Settings},
    sys::{cgroup::Cgroup, child::ExitStatus, clock::unix_seconds, signals},
    terminal::text,
    worded::worded,
};

/// The file that holds it.
pub(crate) const EXIT_RECORD: &str = "exit.json";

worded! {
    /// The cause of a session's end.
    pub(crate) enum EndedBy {
        /// The command itself, or a process outside nbs.
        Itself = "self",
        Kill = "kill",
        Timeout = "timeout",
        IdleTimeout = "idle_timeout",
        /// The kernel, because it reached its limit of memory.
        Memory = "memory",
        Owner = "owner",
        /// No process of nbs saw it.
        Unknown = "unknown",
    }
}

/// The exit record of a session.
pub(crate) struct ExitRecord {
    pub(crate) handle: Handle,
    pub(crate) name: Option<Name>,
    pub(crate) settings: Settings,
    /// `None` if no process of nbs saw it.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) ended_by: EndedBy,
    pub(crate) last_lines: Vec<Vec<u8>>,
    /// `None` if the file with that time is gone.
    pub(crate) started: Option<SystemTime>,
    /// `None` if no process of nbs saw it, and no file has the time of the last output.
    pub(crate) ended: Option<SystemTime>,
    pub(crate) output_bytes: u64,
    /// Whether all output could be read, until no process had the terminal open any more.
    pub(crate) drained: bool,
    pub(crate) usage: Usage,
}

/// The resources that all processes of a session have used together, as far as they were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// In milliseconds.
    pub(crate) cpu: Option<i64>,
    /// The most memory at a time, in bytes.
    pub(crate) memory_peak: Option<i64>,
    /// The most processes and threads at a time; of a live session without a cgroup, the present ones.
    pub(crate) processes: Option<i64>,
}

impl Usage {
    /// As the kernel has counted it.
    pub(crate) fn of_cgroup(cgroup: &Cgroup) -> Usage {
        Usage {
            cpu: cgroup.cpu_ms(),
            memory_peak: cgroup.number("memory.peak"),
            processes: cgroup.number("pids.peak"),
        }
    }

    fn describe(self, object: Object) -> Object {
        object
            .number_or_null("cpu_ms", self.cpu)
            .number_or_null("memory_peak_bytes", self.memory_peak)
            .number_or_null("processes", self.processes)
    }
}

impl ExitRecord {
    /// How many of the last lines it shows.
    pub(crate) const LAST_LINES: usize = 5;

    pub(crate) fn json(&self) -> String {
        let signal = match self.status {
            None | Some(ExitStatus::Code(_)) => None,
            Some(ExitStatus::Signal(signal)) => Some(signals::name(signal)),
        };
        let pane = self.name.as_ref().map_or(self.handle.as_str(), Name::as_str);
        let lasted = self.started.zip(self.ended);
        let lasted =
            lasted.map(|(started, ended)| ended.duration_since(started).unwrap_or_default().as_millis());
        let object = Object::new()
            .text("type", "pty_exited")
            .text("session_id", self.handle.as_str())
            .text("pane_id", pane)
            .number("exit_code", self.status.map_or(-1, ExitStatus::number))
            .list("last_lines", &self.last_lines)
            .bytes_or_null("session_title", self.settings.title.as_deref())
            .bytes_or_null("session_description", self.settings.description.as_deref())
            .bytes_or_null("parent_agent", self.settings.parent.as_deref())
            .truth("timed_out", matches!(self.ended_by, EndedBy::Timeout | EndedBy::IdleTimeout))
            .bytes_or_null("signal", signal.as_deref().map(str::as_bytes))
            .text("ended_by", self.ended_by.word())
            .seconds_or_null("started", self.started.map(unix_seconds))
            .seconds_or_null("ended", self.ended.map(unix_seconds))
            .number_or_null("duration_ms", lasted)
            .number("output_bytes", self.output_bytes)
            .truth("drained", self.drained);
        self.usage.describe(object).line()
    }
}

/// The published end of a session; empty while it is alive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// `None`: the session is alive, or its end has not been read.
    pub(crate) ended_by: Option<EndedBy>,
    timed_out: Option<bool>,
    signal: Option<String>,
    output_bytes: Option<i64>,
    drained: Option<bool>,
    usage: Usage,
}

impl End {
    /// That of a live session, which has used this so far.
    pub(crate) fn not_yet(usage: Usage) -> End {
        End { usage, ..End::default() }
    }

    pub(crate) fn describe(&self, object: Object) -> Object {
        object
            .bytes_or_null("ended_by", self.ended_by.map(|ended_by| ended_by.word().as_bytes()))
            .truth_or_null("timed_out", self.timed_out)
            .bytes_or_null("signal", self.signal.as_deref().map(str::as_bytes))
    }

    /// The same, and how much it has printed and used.
    pub(crate) fn describe_in_full(&self, object: Object) -> Object {
        let object = self.describe(object).number_or_null("output_bytes", self.output_bytes);
        self.usage.describe(object.truth_or_null("drained", self.drained))
    }

    /// Parses an object that has these fields.
    pub(crate) fn parse(object: &Value) -> End {
        let word = |name: &str| object[name].as_str();
        End {
            ended_by: word("ended_by").and_then(EndedBy::parse),
            timed_out: object["timed_out"].as_bool(),
            signal: word("signal").map(|signal| text::escaped(signal.as_bytes())),
            output_bytes: object["output_bytes"].as_i64(),
            drained: object["drained"].as_bool(),
            usage: Usage {
                cpu: object["cpu_ms"].as_i64(),
                memory_peak: object["memory_peak_bytes"].as_i64(),
                processes: object["processes"].as_i64(),
            },
        }
    }
}

/// An exit record as it was written: one line of JSON.
///
/// A quote inside a JSON string has a backslash before it, so a comma, a quoted
/// word and a colon are a field and nothing else.
pub(crate) struct Notice {
    line: String,
    /// Since 1970; `None` if it is unknown.
    pub(crate) ended: Option<Duration>,
}

impl Notice {
    /// Titles are as long as arguments may be, and JSON makes six bytes of one.
    pub(crate) const LONGEST: u64 = 8 * 1024 * 1024;

    /// `None` if it is not an exit record: ours has no control characters.
    pub(crate) fn parse(line: Vec<u8>) -> Option<Notice> {
        let line = String::from_utf8(line).ok()?;
        line.strip_suffix('\n').filter(|object| !object.contains(char::is_control))?;
        let ended = match field(&line, "ended")? {
            "null" => None,
            seconds => Some(parse_seconds(seconds.as_bytes())?),
        };
        Some(Notice { line, ended })
    }

    /// With its newline.
    pub(crate) fn line(&self) -> &str {
        &self.line
    }

    pub(crate) fn timed_out(&self) -> bool {
        field(&self.line, "timed_out") == Some("true")
    }

    /// The cause of its end.
    pub(crate) fn ended_by(&self) -> Option<EndedBy> {
        EndedBy::parse(self.word("ended_by")?)
    }

    /// The fields of an object that describe an end. For a live session, which has no record, they are null.
    pub(crate) fn describe(record: Option<&Notice>, object: Object) -> Object {
        record.map(Notice::end).unwrap_or_default().describe(object)
    }

    /// How it ended, in short.
    pub(crate) fn end(&self) -> End {
        let number = |name| field(&self.line, name).and_then(|number| number.parse().ok());
        End {
            ended_by: Some(self.ended_by().unwrap_or(EndedBy::Unknown)),
            timed_out: Some(self.timed_out()),
            signal: self.word("signal").map(str::to_owned),
            output_bytes: number("output_bytes"),
            drained: field(&self.line, "drained").map(|drained| drained == "true"),
            usage: Usage {
                cpu: number("cpu_ms"),
                memory_peak: number("memory_peak_bytes"),
                processes: number("processes"),
            },
        }
    }

    /// Is it this session's?
    pub(crate) fn is_of(&self, handle: &Handle) -> bool {
        self.word("session_id") == Some(handle.as_str())
    }

    /// Is this in the session's name? One without a name has its handle in the
    /// name's place.
    pub(crate) fn is_named_like(&self, pattern: &str) -> bool {
        let (pane, handle) = (self.word("pane_id"), self.word("session_id"));
        pane != handle && pane.is_some_and(|name| name.contains(pattern))
    }

    /// A string in which nothing needs a backslash.
    fn word(&self, name: &str) -> Option<&str> {
        field(&self.line, name)?.strip_prefix('"')?.strip_suffix('"')
    }
}

/// The value of a field that holds neither a comma nor a brace.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let key = format!(",\"{name}\":");
    let value = &line[line.find(&key)? + key.len()..];
    value.split([',', '}']).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn exit_record(name: Option<&[u8]>) -> ExitRecord {
        let trap = b",\"ended\":9,\"timed_out\":true,\"pane_id\":\"x\"".to_vec();
        ExitRecord {
            handle: Handle::parse(b"0badcafe").unwrap(),
            name: name.map(|name| Name::parse(name).unwrap()),
            settings: Settings { title: Some(trap.clone()), ..Settings::default() },
            status: Some(ExitStatus::Signal(9)),
            ended_by: EndedBy::Kill,
            last_lines: vec![trap, b",".to_vec(), b"ended".to_vec()],
            started: Some(UNIX_EPOCH + Duration::from_secs(5)),
            ended: Some(UNIX_EPOCH + Duration::from_millis(7_500)),
            output_bytes: 3,
            drained: true,
            usage: Usage::default(),
        }
    }

    #[test]
    fn an_exit_record_reads_as_it_was_written_whatever_was_printed() {
        for (name, like) in [(Some(&b"b-ad"[..]), true), (None, false)] {
            for (ended_by, timed_out) in
                [(EndedBy::Kill, false), (EndedBy::Timeout, true), (EndedBy::IdleTimeout, true)]
            {
                let line = ExitRecord { ended_by, ..exit_record(name) }.json();
                let notice = Notice::parse(line.clone().into_bytes()).unwrap();
                assert_eq!(notice.line(), line);
                assert_eq!(notice.ended, Some(Duration::from_millis(7_500)));
                assert_eq!(notice.timed_out(), timed_out);
                assert_eq!(notice.is_named_like("ad"), like);
            }
        }
        let unknown = ExitRecord { started: None, ended: None, ..exit_record(None) }.json();
        assert!(unknown.contains("\"started\":null,\"ended\":null,\"duration_ms\":null,"), "{unknown}");
        assert_eq!(Notice::parse(unknown.into_bytes()).unwrap().ended, None);
        assert!(
            [
                "",
                "\n",
                "{}\n",
                "{}",
                "{\"a\":1,\"ended\":1}\n\n",
                "{\"a\":1,\"ended\":never}\n",
                "{\"a\":\"\u{1b}\",\"ended\":1}\n",
                "{\"a\":\"\u{9b}\",\"ended\":1}\n"
            ]
            .into_iter()
            .all(|line| Notice::parse(line.into()).is_none())
        );
    }
}
