//! The protocol between a relay and its clients.
//!
//! Each side sends lines of words; the first is the type. A request that a relay of another version
//! does not know is answered by `unknown`; its session must be restarted then.

pub(super) mod words;

use std::ops::Range;

use crate::{
    numbers::{hex, parse_hex},
    session::{
        InputSource,
        client::{
            job::{Job, OutputReport},
            snapshot::{Parts, Snapshot},
        },
        shell::Dialect,
    },
};
pub(crate) use words::{
    Asked, Follower, ForegroundProgram, INTERRUPT, KeyModes, PromptState, SizeSince, TerminalState,
};

/// How long a request's line may be, with its end.
pub(crate) const LONGEST_LINE: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RelayRequest {
    /// Report as soon as the session has changed since its `seen`-th change.
    Follow { seen: u64, as_who: Follower },
    /// The session's report follows this line: a state, and after a space a text.
    Report { length: u64 },
    /// Type the bytes that come after this line.
    Type { length: u64 },
    /// Send a snapshot with these parts: now, or, with `seen`, as soon as the session's state has changed
    /// since its `seen`-th change; `waits`: for a call that waits on the session.
    Snapshot { parts: Parts, seen: Option<u64>, waits: bool },
    /// Send one now, with the text typed after the first `typed` bytes.
    Typing { parts: Parts, typed: u64 },
    /// Give me exclusive access to the session, among clients that ask for it, as long as I am connected.
    /// `at_prompt`: then wait for the shell's prompt, and send a snapshot: a command can be handed over, or
    /// there is no prompt to wait for.
    Turn { at_prompt: bool },
    /// Wake the shell, for a call with the access, if it has an interrupt that it would process, and lose, only
    /// with the next key; and send a snapshot as soon as it has none.
    Wake,
    /// Remember the prompt at which a call's text was typed, for calls queued behind it.
    Asked(Asked),
    /// One more shell is about to report, with this secret.
    Level { secret: String, dialect: Dialect },
    /// Print the mark, with this secret, that what follows is not to be seen.
    Hide { secret: String },
    /// This is my command; or I have come so far with it.
    Job(Job),
    /// Deliver it by the keys that come after this line. If it is typed as a text, that is in a file of the session.
    Deliver { length: u64 },
    /// This is, or goes on, the text of that command.
    Text { bytes: Vec<u8> },
    /// The source of the text that I type.
    Source(InputSource),
    /// I have printed its result.
    Told,
    /// Let me go on with the command that was left.
    Attach,
    /// Send the progress of my command now.
    Progress,
    /// The secret that I send next was asked for when the log had this length: at the other end of a
    /// connection, whose echo cannot be seen here.
    Seen { offset: u64 },
    /// Interrupt the foreground process group as a key would, ahead of all pending input.
    Interrupt,
    /// Interrupt the command that I have delivered, until it ends.
    InterruptCommand,
    /// If this character is a signal at the moment, do at once what the terminal would do if all earlier
    /// input had been read.
    Press { byte: u8 },
    /// Type the bytes that come after this line, if a hidden line is asked for
    /// when all of them have come, and nothing else is to be typed; else forget
    /// them.
    Secret { length: u64 },
    /// The ranges, from this offset of the log on, in which newlines were printed untranslated.
    Untranslated { since: u64 },
    /// Resize the terminal to this.
    Resize { cols: u16, rows: u16 },
    /// A window of this size shows the session, as long as I am connected.
    View { cols: u16, rows: u16 },
    /// The session is about to be ended, and this is why.
    Ending { cause: String },
    /// All that was to be ended has ended; you need not stay.
    Done,
    /// The child's keeper, if it is another process.
    Keeper,
}

impl RelayRequest {
    /// Does it act on the session, for a client that waits for the result?
    pub(crate) fn acts(&self) -> bool {
        matches!(
            self,
            RelayRequest::Type { .. }
                | RelayRequest::Interrupt
                | RelayRequest::InterruptCommand
                | RelayRequest::Press { .. }
                | RelayRequest::Secret { .. }
                | RelayRequest::Report { .. }
                | RelayRequest::Resize { .. }
                | RelayRequest::Level { .. }
                | RelayRequest::Hide { .. }
                | RelayRequest::View { .. }
        )
    }

    pub(crate) fn encode(&self) -> String {
        match self {
            RelayRequest::Follow { seen, as_who } => format!("follow {seen}{}\n", as_who.word()),
            RelayRequest::Report { length } => format!("report {length}\n"),
            RelayRequest::Type { length } => format!("type {length}\n"),
            RelayRequest::Snapshot { parts, seen, waits } => {
                let seen = seen.map(|seen| format!(" {seen}")).unwrap_or_default();
                format!("snapshot {}{seen}{}\n", parts.encode(), if *waits { " waits" } else { "" })
            }
            RelayRequest::Turn { at_prompt: false } => "turn\n".to_owned(),
            RelayRequest::Turn { at_prompt: true } => "turn at-prompt\n".to_owned(),
            RelayRequest::Wake => "wake\n".to_owned(),
            RelayRequest::Asked(Asked { pid, prompt }) => format!("asked {pid} {prompt:016x}\n"),
            RelayRequest::Level { secret, dialect } => format!("level {secret} {}\n", dialect.word()),
            RelayRequest::Hide { secret } => format!("hide {secret}\n"),
            RelayRequest::Typing { parts, typed } => format!("typing {} {typed}\n", parts.encode()),
            RelayRequest::Seen { offset } => format!("seen {offset}\n"),
            RelayRequest::Job(job) => job.encode(),
            RelayRequest::Deliver { length } => format!("deliver {length}\n"),
            RelayRequest::Text { bytes } => format!("text {}\n", hex(bytes)),
            RelayRequest::Source(source) => format!("source {}\n", source.word()),
            RelayRequest::Told => "told\n".to_owned(),
            RelayRequest::Attach => "attach\n".to_owned(),
            RelayRequest::Progress => "progress\n".to_owned(),
            RelayRequest::Interrupt => "signal INT\n".to_owned(),
            RelayRequest::InterruptCommand => "signal INT command\n".to_owned(),
            RelayRequest::Press { byte } => format!("press {byte}\n"),
            RelayRequest::Secret { length } => format!("secret {length}\n"),
            RelayRequest::Untranslated { since } => format!("untranslated {since}\n"),
            RelayRequest::Resize { cols, rows } => format!("resize {cols} {rows}\n"),
            RelayRequest::View { cols, rows } => format!("view {cols} {rows}\n"),
            RelayRequest::Ending { cause } => format!("ending {cause}\n"),
            RelayRequest::Done => "done\n".to_owned(),
            RelayRequest::Keeper => "keeper\n".to_owned(),
        }
    }

    /// `line` comes without its end.
    pub(crate) fn decode(line: &[u8]) -> Option<RelayRequest> {
        let line = std::str::from_utf8(line).ok()?;
        if let Some(words) = line.strip_prefix("job ") {
            return Job::decode(words).map(RelayRequest::Job);
        }
        Some(match line.split(' ').collect::<Vec<_>>()[..] {
            ["follow", seen, ref who @ ..] => {
                let all = [Follower::Viewer, Follower::SizedViewer, Follower::Waiter, Follower::Runner];
                let as_who = all.into_iter().find(|each| each.word().trim_start() == who.join(" "))?;
                RelayRequest::Follow { seen: seen.parse().ok()?, as_who }
            }
            ["report", length] => RelayRequest::Report { length: length.parse().ok()? },
            ["type", length] => RelayRequest::Type { length: length.parse().ok()? },
            ["snapshot", parts, ref after @ ..] => {
                let (seen, waits) = match after {
                    [] => (None, false),
                    ["waits"] => (None, true),
                    [seen] => (Some(seen.parse().ok()?), false),
                    [seen, "waits"] => (Some(seen.parse().ok()?), true),
                    _ => return None,
                };
                RelayRequest::Snapshot { parts: Parts::decode(parts)?, seen, waits }
            }
            ["turn"] => RelayRequest::Turn { at_prompt: false },
            ["turn", "at-prompt"] => RelayRequest::Turn { at_prompt: true },
            ["wake"] => RelayRequest::Wake,
            ["asked", pid, prompt] => RelayRequest::Asked(Asked {
                pid: pid.parse().ok()?,
                prompt: u64::from_str_radix(prompt, 16).ok()?,
            }),
            ["level", secret, dialect] if is_secret(secret) => {
                RelayRequest::Level { secret: secret.to_owned(), dialect: Dialect::parse(dialect)? }
            }
            ["hide", secret] if is_secret(secret) => RelayRequest::Hide { secret: secret.to_owned() },
            ["typing", parts, typed] => {
                RelayRequest::Typing { parts: Parts::decode(parts)?, typed: typed.parse().ok()? }
            }
            ["seen", offset] => RelayRequest::Seen { offset: offset.parse().ok()? },
            ["text", bytes] => RelayRequest::Text { bytes: parse_hex(bytes)? },
            ["source", word] => RelayRequest::Source(InputSource::parse(word)?),
            ["deliver", length] => RelayRequest::Deliver { length: length.parse().ok()? },
            ["told"] => RelayRequest::Told,
            ["attach"] => RelayRequest::Attach,
            ["progress"] => RelayRequest::Progress,
            ["signal", "INT"] => RelayRequest::Interrupt,
            ["signal", "INT", "command"] => RelayRequest::InterruptCommand,
            ["press", byte] => RelayRequest::Press { byte: byte.parse().ok()? },
            ["secret", length] => RelayRequest::Secret { length: length.parse().ok()? },
            ["untranslated", since] => RelayRequest::Untranslated { since: since.parse().ok()? },
            ["resize", cols, rows] => {
                RelayRequest::Resize { cols: cols.parse().ok()?, rows: rows.parse().ok()? }
            }
            ["view", cols, rows] => RelayRequest::View { cols: cols.parse().ok()?, rows: rows.parse().ok()? },
            ["done"] => RelayRequest::Done,
            ["keeper"] => RelayRequest::Keeper,
            ["ending", cause] => RelayRequest::Ending { cause: cause.to_owned() },
            _ => return None,
        })
    }
}

fn is_secret(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    /// The number of changes of the session. `size`: for clients that follow it.
    Changed {
        seen: u64,
        size: Option<SizeSince>,
    },
    /// There is output, or a request of the shell; or the answer to [`RelayRequest::Progress`].
    Output(Box<OutputReport>),
    /// This many bytes have been typed. `held`: the rest is a line longer than a terminal in canonical mode
    /// accepts.
    Typed {
        count: u64,
        held: bool,
    },
    Snapshot(Box<Snapshot>),
    /// The PID of the child's keeper; `None` if there is none (any more).
    Keeper {
        pid: Option<u32>,
    },
    /// The session has ended, with this exit code if it is known.
    Ended {
        code: Option<i32>,
    },
    /// An interrupt has discarded the rest; this many bytes had been typed.
    Cut {
        count: u64,
    },
    /// Stretches of the log, in order.
    Untranslated {
        ranges: Vec<Range<u64>>,
    },
    /// No, and why not.
    Refused {
        why: String,
    },
    Noted,
    /// The command that is yours now.
    Job(Box<Job>),
    /// There is none.
    NoJob,
    /// The shell is not at the prompt any more at which the command was to be delivered.
    Stale,
    /// You have exclusive access to the session; others had it when you asked. And the prompt at which the
    /// last call that reported one typed its text.
    Turn {
        queued: bool,
        asked: Option<Asked>,
    },
    Unknown,
}

impl Response {
    pub(crate) fn encode(&self) -> String {
        match self {
            Response::Changed { seen, size: None } => format!("changed {seen}\n"),
            Response::Output(report) => report.encode(),
            Response::Changed { seen, size: Some(SizeSince { cols, rows, offset }) } => {
                format!("changed {seen} {cols} {rows} {offset}\n")
            }
            Response::Typed { count, held } => {
                format!("typed {count}{}\n", if *held { " held" } else { "" })
            }
            Response::Snapshot(snapshot) => snapshot.encode(),
            Response::Keeper { pid } => {
                format!("keeper {}\n", pid.map_or("-".to_owned(), |pid| pid.to_string()))
            }
            Response::Ended { code } => {
                format!("ended {}\n", code.map_or("-".to_owned(), |code| code.to_string()))
            }
            Response::Cut { count } => format!("cut {count}\n"),
            Response::Untranslated { ranges } => {
                let ranges: String =
                    ranges.iter().map(|range| format!(" {}-{}", range.start, range.end)).collect();
                format!("untranslated{ranges}\n")
            }
            Response::Refused { why } => format!("refused {why}\n"),
            Response::Noted => "noted\n".to_owned(),
            Response::Job(job) => job.encode(),
            Response::NoJob => "no-job\n".to_owned(),
            Response::Stale => "stale\n".to_owned(),
            Response::Turn { queued, asked } => {
                let asked = asked.map(|Asked { pid, prompt }| format!(" {pid} {prompt:016x}"));
                let when = if *queued { "queued" } else { "at-once" };
                format!("turn {when}{}\n", asked.unwrap_or_default())
            }
            Response::Unknown => "unknown\n".to_owned(),
        }
    }

    pub(crate) fn decode(line: &[u8]) -> Option<Response> {
        let line = std::str::from_utf8(line).ok()?;
        if let Some(words) = line.strip_prefix("job ") {
            return Job::decode(words).map(|job| Response::Job(Box::new(job)));
        }
        if let Some(words) = line.strip_prefix("output ") {
            return OutputReport::decode(words).map(|report| Response::Output(Box::new(report)));
        }
        if let Some(words) = line.strip_prefix("untranslated") {
            let range = |word: &str| {
                let (start, end) = word.split_once('-')?;
                Some(start.parse().ok()?..end.parse().ok()?)
            };
            let ranges = words.split_terminator(' ').skip(1).map(range).collect::<Option<_>>()?;
            return Some(Response::Untranslated { ranges });
        }
        if let Some(words) = line.strip_prefix("snapshot ") {
            return Snapshot::decode(words).map(|snapshot| Response::Snapshot(Box::new(snapshot)));
        }
        if let Some(why) = line.strip_prefix("refused ") {
            return Some(Response::Refused { why: why.to_owned() });
        }
        Some(match line.splitn(3, ' ').collect::<Vec<_>>()[..] {
            ["cut", count] => Response::Cut { count: count.parse().ok()? },
            ["changed", seen] => Response::Changed { seen: seen.parse().ok()?, size: None },
            ["changed", seen, size] => {
                Response::Changed { seen: seen.parse().ok()?, size: Some(SizeSince::decode(size)?) }
            }
            ["typed", count] => Response::Typed { count: count.parse().ok()?, held: false },
            ["typed", count, "held"] => Response::Typed { count: count.parse().ok()?, held: true },
            ["keeper", "-"] => Response::Keeper { pid: None },
            ["keeper", pid] => Response::Keeper { pid: Some(pid.parse().ok()?) },
            ["ended", "-"] => Response::Ended { code: None },
            ["ended", code] => Response::Ended { code: Some(code.parse().ok()?) },
            ["noted"] => Response::Noted,
            ["no-job"] => Response::NoJob,
            ["stale"] => Response::Stale,
            ["turn", when] => Response::Turn { queued: when == "queued", asked: None },
            ["turn", when, asked] => {
                let (pid, prompt) = asked.split_once(' ')?;
                let prompt = u64::from_str_radix(prompt, 16).ok()?;
                Response::Turn {
                    queued: when == "queued",
                    asked: Some(Asked { pid: pid.parse().ok()?, prompt }),
                }
            }
            ["unknown"] => Response::Unknown,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rounds::{rounds, spoiled},
        session::{
            Activity, Because, ProgramSaid, Report, ReportState,
            client::{
                input_history::{InputHistory, Keys, Mode},
                job::{Handed, LeftJob, Progress, Stage, Trouble},
                snapshot::{Folder, Front, Input, Reads},
            },
            shell::Beginning,
        },
        sys::pty::Size,
        terminal::{keys::Application, queries::PrivateModes},
    };
    use std::time::Duration;

    fn made_up_job() -> Job {
        Job {
            handed: Handed::Printed,
            place: 5,
            last: 6,
            level: 8,
            lines: 9,
            beginning: Beginning::Text,
            typed: 10,
            is_remote: true,
            ..Job::default()
        }
    }

    fn without_end(line: &str) -> &[u8] {
        line.strip_suffix('\n').unwrap().as_bytes()
    }

    #[test]
    fn a_request_arrives_as_it_was_sent() {
        let requests = [
            RelayRequest::Follow { seen: 0, as_who: Follower::Viewer },
            RelayRequest::Follow { seen: u64::MAX, as_who: Follower::SizedViewer },
            RelayRequest::Follow { seen: 1, as_who: Follower::Waiter },
            RelayRequest::Follow { seen: 4_000, as_who: Follower::Runner },
            RelayRequest::Report { length: 9 },
            RelayRequest::Type { length: 5 },
            RelayRequest::Snapshot { parts: Parts::NONE, seen: None, waits: false },
            RelayRequest::Snapshot { parts: Parts::INPUT, seen: None, waits: true },
            RelayRequest::Snapshot { parts: Parts::ACTIVITY, seen: Some(3), waits: false },
            RelayRequest::Snapshot { parts: Parts::ACTIVITY, seen: Some(0), waits: true },
            RelayRequest::Turn { at_prompt: false },
            RelayRequest::Asked(Asked { pid: 7, prompt: 0x1f }),
            RelayRequest::Typing { parts: Parts::PROGRAM, typed: 9 },
            RelayRequest::Job(Job::default()),
            RelayRequest::Deliver { length: 7 },
            RelayRequest::Text { bytes: b"ls -l\n\xff".into() },
            RelayRequest::Source(InputSource::Attached),
            RelayRequest::Job(made_up_job()),
            RelayRequest::Told,
            RelayRequest::Attach,
            RelayRequest::Progress,
            RelayRequest::Seen { offset: 9 },
            RelayRequest::Interrupt,
            RelayRequest::InterruptCommand,
            RelayRequest::Turn { at_prompt: true },
            RelayRequest::Wake,
            RelayRequest::Press { byte: 3 },
            RelayRequest::Secret { length: 5 },
            RelayRequest::Untranslated { since: 7 },
            RelayRequest::Resize { cols: 80, rows: 24 },
            RelayRequest::View { cols: 80, rows: 24 },
            RelayRequest::Ending { cause: "kill".into() },
            RelayRequest::Done,
            RelayRequest::Keeper,
            RelayRequest::Level { secret: "5ec2e7".into(), dialect: Dialect::Zsh },
            RelayRequest::Hide { secret: "5ec2e7".into() },
        ];
        for request in requests {
            assert_eq!(RelayRequest::decode(without_end(&request.encode())), Some(request));
        }
    }

    #[test]
    fn an_answer_arrives_as_it_was_sent() {
        let answers = [
            Response::Output(Box::default()),
            Response::Output(Box::new(OutputReport {
                processed: 4_087,
                is_ending: true,
                trouble: Some(Trouble::PassedOver),
                is_stalled: true,
                interrupts: 2,
                interrupted_at: Some(4_080),
                untranslated: 4_096,
                progress: Progress {
                    stage: Stage::PromptBegun,
                    seq: 1,
                    start: 2,
                    end: 3,
                    code: -4,
                    has_started: true,
                    marks_end: true,
                    unfinished: true,
                    reads: Some(0),
                    outer: Some(5),
                    shown: Some(7),
                },
            })),
            Response::Changed { seen: 7, size: None },
            Response::Changed { seen: 7, size: Some(SizeSince { cols: 80, rows: 24, offset: 9 }) },
            Response::Typed { count: 3, held: false },
            Response::Typed { count: 3, held: true },
            Response::Snapshot(Box::default()),
            Response::Snapshot(Box::new(Snapshot {
                offset: 7,
                last: Some(3),
                awaited: Some(4),
                prompt: PromptState::Stands,
                lines: true,
                level: 2,
                seq: Some(1),
                lasted: Some(Duration::from_millis(5)),
                left: Some(LeftJob { level: 1, last: 2 }),
                free: true,
                ending: true,
                unread: 3,
                size: Some(Size { cols: 80, rows: 24 }),
                modes: PrivateModes::default(),
                stalled: Some("No space left on device".into()),
                sync_error: Some("no".into()),
                report: Some(Report {
                    state: ReportState::Waiting,
                    text: b"may I?\n".to_vec(),
                    since: Duration::from_secs(6),
                }),
                said: ProgramSaid::decode(b"{\"program_status\":[{\"id\":\"a\",\"state\":\"done\"}]}")
                    .unwrap(),
                seen: 3,
                activity: Some(Activity::Waiting),
                because: Some(Because::ProgramStatus),
                turn: Some(ReportState::Done),
                since: Duration::new(5, 1_000),
                attended: true,
                foreground: Some("a b".into()),
                front: Front {
                    path: Some(b"/a b".to_vec()),
                    typed: Some(Duration::from_millis(7)),
                    entered: true,
                    length: 8,
                },
                folder: Some(Folder::There(b"/\xff".to_vec())),
                keys: Some(KeyModes {
                    application: Application { cursor: true, keypad: false, kitty: 5 },
                    bracketed_paste: false,
                    secret: true,
                    half_line: false,
                    end_of_input: Some(4),
                    signals: vec![3, 28, 26],
                }),
                typing: Some(InputHistory {
                    anchor: 7,
                    total: 9,
                    keys: vec![
                        Keys { offset: 7, mode: Mode::Lines, bytes: b"hi \r".to_vec() },
                        Keys { offset: 8, mode: Mode::Prompt, bytes: Vec::new() },
                    ],
                }),
                doing: TerminalState::Raw,
                program: Some(ForegroundProgram {
                    pid: 7,
                    name: "a b".into(),
                    is_shell: false,
                    waits: true,
                    leads_elsewhere: false,
                    shell: Some(Dialect::Posix),
                }),
                shell_waits: true,
                successor: Some("a b".into()),
                input: Input {
                    reads: Some(Reads::Far),
                    held: Duration::from_millis(1_500),
                    least: Duration::from_millis(1),
                    has_timer: true,
                },
            })),
            Response::Keeper { pid: None },
            Response::Keeper { pid: Some(7) },
            Response::Ended { code: None },
            Response::Ended { code: Some(137) },
            Response::Cut { count: 12 },
            Response::Refused { why: "it is not at a secret prompt".into() },
            Response::Untranslated { ranges: Vec::new() },
            Response::Untranslated { ranges: vec![0..7, 9..12] },
            Response::Noted,
            Response::Job(Box::new(made_up_job())),
            Response::NoJob,
            Response::Stale,
            Response::Turn { queued: false, asked: None },
            Response::Turn { queued: true, asked: Some(Asked { pid: 7, prompt: u64::MAX }) },
            Response::Unknown,
        ];
        for response in answers {
            assert_eq!(Response::decode(without_end(&response.encode())), Some(response));
        }
        let lines = [
            "snapshot prompt=unknown modes=0 since=0.000000 folder=unknown,6e6f terminal=running\n",
            "snapshot prompt=unknown modes=144 since=0.000000 folder=removed,2f612062 keys= keypad= paste= \
             half-line= signals= typing=7,9 terminal=running\n",
        ];
        for line in lines {
            assert_eq!(Response::decode(without_end(line)).unwrap().encode(), line);
        }
    }

    #[test]
    fn whatever_is_understood_is_understood_in_full() {
        const LINES: [&str; 18] = [
            "snapshot 31 7 waits",
            "report 12",
            "snapshot seen=3 activity=waiting because=quiet turn=done since=5.000001 attended= folder=there,2f",
            "snapshot 3",
            "snapshot offset=7 unread=3 terminal=raw stalled=61 reads=far held=5 least=1 timer=",
            "keeper",
            "follow 7",
            "type 12",
            "typing 4 3",
            "press 3",
            "secret 5",
            "ending kill",
            "done",
            "turn",
            "ended 137",
            "typed 5 held",
            "snapshot keys= cursor= kitty=5 eof=4 signals=031c typing=7,9,7l6869,8p folder=removed,2f61",
            "snapshot prompt=stands lines= level=1 size=80x24 modes=5 program= pid=7 name=61 waits= successor=61",
        ];
        for (seed, mut random) in rounds(500) {
            for line in LINES {
                let line = spoiled(line.as_bytes(), &mut random);
                if let Some(request) = RelayRequest::decode(&line) {
                    let again = RelayRequest::decode(without_end(&request.encode()));
                    assert_eq!(again, Some(request), "seed {seed}: {line:?}");
                }
                if let Some(response) = Response::decode(&line) {
                    let again = Response::decode(without_end(&response.encode()));
                    assert_eq!(again, Some(response), "seed {seed}: {line:?}");
                }
            }
        }
    }

    #[test]
    fn rubbish_is_no_request() {
        for line in ["", " ", "follow", "follow -1", "follow 1 2", "type", "type x", "\u{fffd}", "MODES"] {
            assert_eq!(RelayRequest::decode(line.as_bytes()), None, "{line:?}");
        }
        assert_eq!(RelayRequest::decode(b"\xff"), None);
    }
}
