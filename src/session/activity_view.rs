//! All known facts about a session at one moment: its identity, activity, start, directory, and question.
//! Every output of nbs that shows a session has these, by the same fields ([`ActivityView::json`]).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{
    json::{self, Object, Value},
    numbers,
    outcome::{Reason, Result},
    session::{
        Activity, Address, Because, Handle, ListEntry, Name, Notice, ProgramSaid, Report, ReportState,
        ScreenCache, SessionDir, Settings, StateDir, Target, Verdict,
        client::{
            Parts, RelayClient, ReportedState, TerminalState, refuses_sockets,
            snapshot::{Folder, Front, InputState, Reads},
        },
        exit::End,
        rules, verdict,
    },
    sys::{clock::unix_seconds, deadline::Deadline, pty::Size},
    terminal::{screen::Screen, text},
};

/// How long all relays together may take to answer. A stopped relay does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same for relays that are asked after that time.
const MOMENT: Duration = Duration::from_millis(100);

/// How many relays are asked at a time: each takes a descriptor.
const BATCH: usize = 200;

/// The most answers to a question of a session on another machine. Further ones are ignored.
const MOST_CHOICES: usize = 1_000;

/// The kind of typed line that a program expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// A line that is not shown.
    Secret,
    /// The answer to a question. If there are choices, this is the question's identity.
    Answer(Option<String>),
    /// A task.
    Task,
    /// The line as it is.
    Line,
}

pub(crate) struct ActivityView {
    pub(crate) glance: ListEntry,
    /// The machine it is on; `None`: this one.
    pub(crate) machine: Option<String>,
    /// `None` if the relay does not report it.
    pub(crate) activity: Option<Activity>,
    /// The evidence for the activity, unless it is obvious.
    pub(crate) because: Option<Because>,
    pub(crate) doing: Option<TerminalState>,
    /// Whether a program waits for input.
    pub(crate) input: Option<InputState>,
    /// Since 1970; of a dead one, since when it is.
    pub(crate) since: Option<Duration>,
    pub(crate) program: Option<Vec<u8>>,
    pub(crate) folder: Option<Vec<u8>>,
    /// The last printed text, as one printable line.
    pub(crate) last_line: Option<String>,
    /// The question that a waiting session seems to ask, as one printable line.
    pub(crate) question: Option<String>,
    /// The answers to it that are to be seen.
    pub(crate) choices: Vec<String>,
    pub(crate) report: Option<Report>,
    /// The state that the program reports in its output.
    pub(crate) said: ProgramSaid,
    /// Why its output cannot be written, as one printable line; `None`: it can be.
    pub(crate) stalled: Option<String>,
    /// The terminal's size; and why some of the written output may not be on the disk.
    pub(crate) size: Option<Size>,
    pub(crate) sync_error: Option<String>,
    /// A call waits on it, or has just been notified that it waits.
    pub(crate) attended: bool,
    /// The exit code of a dead session, if it is known.
    pub(crate) exit_code: Option<i32>,
    /// How it ended.
    pub(crate) end: End,
    /// The contents of its files, once they have been read.
    pub(crate) files: Option<Box<Files>>,
    passes_on: bool,
    // The relay's report, before anything has read the screen.
    told: Verdict,
    front: Front,
}

/// How a session was started, from its files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// Byte for byte.
    command: Vec<u8>,
    settings: Settings,
}

impl ActivityView {
    /// The view of a session with this report from its relay.
    pub(crate) fn of(session: &SessionDir, glance: ListEntry, told: ReportedState) -> ActivityView {
        let mut overview = ActivityView::brief(glance, told);
        overview.look(session);
        overview
    }

    /// Only the relay's report; [`ActivityView::look`] adds the rest.
    pub(crate) fn brief(glance: ListEntry, told: ReportedState) -> ActivityView {
        let unknown = ActivityView {
            glance,
            machine: None,
            activity: None,
            because: None,
            doing: None,
            input: None,
            since: None,
            program: None,
            folder: None,
            last_line: None,
            question: None,
            choices: Vec::new(),
            report: None,
            said: ProgramSaid::default(),
            stalled: None,
            size: None,
            sync_error: None,
            attended: false,
            exit_code: None,
            end: End::default(),
            files: None,
            passes_on: false,
            told: Verdict::default(),
            front: Front::default(),
        };
        match told {
            ReportedState::Standing(now) => ActivityView {
                told: Verdict::told(&now),
                front: now.front,
                activity: now.activity,
                because: now.because,
                doing: Some(now.doing),
                input: Some(now.input.state(unix_seconds(SystemTime::now()))),
                since: Some(now.since),
                program: now.foreground.map(String::into_bytes),
                folder: now.folder.and_then(Folder::path),
                report: now.report,
                said: now.said,
                stalled: now.stalled,
                size: now.size,
                sync_error: now.sync_error,
                attended: now.attended,
                passes_on: now.input.reads == Some(Reads::Far),
                ..unknown
            },
            ReportedState::Nothing => unknown,
            ReportedState::Ended => {
                let glance = ListEntry { alive: false, ..unknown.glance };
                ActivityView { glance, activity: Some(Activity::Dead), ..unknown }
            }
        }
    }

    /// The view of a session whose relay has not reported yet.
    pub(crate) fn untold(glance: ListEntry) -> ActivityView {
        let told = if glance.alive { ReportedState::Nothing } else { ReportedState::Ended };
        ActivityView::brief(glance, told)
    }

    /// The view of a session on another machine, from the object that `list --json` prints there, with or
    /// without that machine's name in the handle. `None` if it is not such an object.
    pub(crate) fn parse(told: &Value, machine: Option<&str>) -> Option<ActivityView> {
        let text = |name: &str| told[name].as_str().map(str::as_bytes);
        let seconds = |value: &Value| numbers::parse_seconds(value.as_number()?.as_bytes());
        let shown = |name: &str| text(name).map(text::escaped);
        let report = ReportState::parse(told["report"]["state"].as_str().unwrap_or_default());
        let report = report.map(|state| Report {
            state,
            text: told["report"]["text"].as_str().unwrap_or_default().into(),
            since: seconds(&told["report"]["since"]).unwrap_or_default(),
        });
        let glance = ListEntry {
            handle: of_machine(told["handle"].as_str()?, machine)?,
            alive: text("state") != Some(b"dead"),
            name: text("name").and_then(Name::parse),
            command: shown("command")?,
            started: seconds(&told["started"]).and_then(|since| UNIX_EPOCH.checked_add(since)),
        };
        Some(ActivityView {
            machine: machine.map(str::to_owned),
            activity: told["activity"].as_str().and_then(Activity::parse),
            because: told["because"].as_str().and_then(Because::parse),
            doing: told["terminal"].as_str().map(|word| TerminalState::parse(word).unwrap_or_default()),
            input: InputState::parse(&told["input"]),
            since: seconds(&told["since"]),
            program: text("program").map(<[u8]>::to_vec),
            folder: text("folder").map(<[u8]>::to_vec),
            last_line: shown("last_line"),
            question: shown("question"),
            choices: json::texts(&told["choices"])
                .into_iter()
                .take(MOST_CHOICES)
                .map(|text| text::escaped(text.as_bytes()))
                .collect(),
            stalled: shown("stalled"),
            report,
            exit_code: told["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok()),
            end: End::parse(told),
            said: ProgramSaid { notices: Vec::new(), ..ProgramSaid::parse(told) },
            ..ActivityView::brief(glance, ReportedState::Nothing)
        })
    }

    /// How a call names it.
    pub(crate) fn address(&self) -> Address {
        Address { machine: self.machine.clone(), handle: self.glance.handle.clone() }
    }

    /// Its identity: that of its address.
    pub(crate) fn key(&self) -> (Option<&str>, &str) {
        (self.machine.as_deref(), self.glance.handle.as_str())
    }

    /// Reads the files, and the screen with its question; for a dead session, when and how it ended.
    pub(crate) fn look(&mut self, session: &SessionDir) {
        // Changed files must not hide a session: an unreadable one counts as empty.
        let (command, settings) = (session.command().unwrap_or_default(), session.settings());
        self.files = Some(Box::new(Files { command, settings }));
        self.look_beside(session, None);
    }

    /// The same without the command and the settings, for a caller that may have its present screen.
    pub(crate) fn look_beside(&mut self, session: &SessionDir, screen: Option<&Screen>) {
        if !self.glance.alive {
            self.exit_code = session.exit_code().unwrap_or(None);
            self.end = session.end().as_ref().map(Notice::end).unwrap_or_default();
        }
        if self.activity == Some(Activity::Dead) {
            self.since = session.last_sign().map(unix_seconds);
            self.report = session.kept_report();
        }
        (self.activity, self.because) = (self.told.activity.or(self.activity), self.told.because);
        self.choices.clear();
        let rules = self.told.rules(session, &self.front);
        // Output that draws a screen is not a line.
        let is_drawn = self.doing == Some(TerminalState::Raw) || rules.is_some();
        let cache = if is_drawn && screen.is_none() { ScreenCache::look(session).ok() } else { None };
        let screen = cache.as_ref().map(|cache| &cache.screen).or(screen);
        let Some(screen) = screen.filter(|_| is_drawn) else {
            self.last_line = session.last_line(self.doing == Some(TerminalState::Prompt));
            return self.note_question(|overview| overview.last_line.clone());
        };
        let (rows, before) = (screen.lines(0), screen.before_cursor());
        let shown = |row: &str| text::last_line_shown(row.as_bytes());
        // A border does not count as a line.
        let has_words = |row: &&String| row.contains(text::is_letter_or_digit);
        let words = rows.iter().rev().find(has_words).and_then(|row| shown(rules::bare(row)));
        self.last_line = words.or_else(|| rows.iter().rev().find_map(|row| shown(row)));
        let seen = rules.and_then(|rules| verdict::look(&rules, &self.front, &self.said, screen));
        let (verdict, question) = self.told.clone().seen(session, &self.front, seen);
        (self.activity, self.because) = (verdict.activity.or(self.activity), verdict.because);
        if let Some(question) = question {
            self.note_question(|_| Some(question.text));
            self.choices = question.choices.into_iter().map(|choice| choice.text).collect();
            return;
        }
        // A program that passes on its input always has the keyboard, so only its output shows whether it
        // waits.
        let is_guess = matches!(self.because, Some(Because::Kernel | Because::Quiet) | None);
        if self.passes_on && is_guess && !text::asks(&before) {
            self.activity = self.activity.map(|_| Activity::Working);
        }
        // If a known program reports that it asks, a row that merely ends like a prompt is a hint or its input line.
        let is_said = matches!(self.because, Some(Because::Title | Because::Notice | Because::ProgramStatus));
        self.note_question(|_| match text::asks(&before) && !is_said {
            true => shown(&before),
            false => question_among(&rows, is_said),
        });
    }

    /// Does its screen show more than its relay reports?
    pub(crate) fn wants_look(&self) -> bool {
        self.activity == Some(Activity::Waiting) || self.told.activity.is_some() && self.front.path.is_some()
    }

    /// Sets the question of a waiting session: the reported text, or the one that is seen.
    fn note_question(&mut self, seen: impl FnOnce(&ActivityView) -> Option<String>) {
        self.question = match (self.activity, &self.report) {
            (Some(Activity::Waiting), Some(report)) => text::last_line_shown(&report.text),
            (Some(Activity::Waiting), None) => {
                let said = self.said_in_words().filter(|_| self.because == Some(Because::ProgramStatus));
                said.or_else(|| seen(self))
            }
            _ => None,
        };
        let choices = self.question.as_deref().map(rules::choices_in).unwrap_or_default();
        self.choices = choices.into_iter().map(|choice| choice.text).collect();
    }

    /// The session's own message, as one printable line.
    pub(crate) fn said_in_words(&self) -> Option<String> {
        let said = if let Some(report) = &self.report { &*report.text } else { self.said.text()?.as_bytes() };
        text::last_line_shown(said)
    }

    /// The state in one word, as people are shown it.
    pub(crate) fn word(&self) -> &'static str {
        self.activity.map_or("?", Activity::word)
    }

    /// How long it has been so, as people are shown it: it changes once a minute.
    pub(crate) fn age(&self, now: SystemTime) -> String {
        let Some(since) = self.since else { return "?".to_owned() };
        let minutes = unix_seconds(now).saturating_sub(since).as_secs() / 60;
        match minutes {
            0 => "now".to_owned(),
            1..60 => format!("{minutes}m"),
            60..1_440 => format!("{}h", minutes / 60),
            _ => format!("{}d", minutes / 1_440),
        }
    }

    /// When [`ActivityView::age`] will be another.
    pub(crate) fn next_age(&self, now: SystemTime) -> Option<Duration> {
        let lasted = unix_seconds(now).saturating_sub(self.since?);
        let unit = match lasted.as_secs() / 60 {
            0..60 => 60,
            60..1_440 => 3_600,
            _ => 86_400,
        };
        let next = Duration::from_secs((lasted.as_secs() / unit + 1) * unit);
        Some(next.saturating_sub(lasted))
    }

    /// The object that describes it, in every output.
    pub(crate) fn json(&self) -> Object {
        let ListEntry { name, command, started, alive, .. } = &self.glance;
        let object = match &self.machine {
            Some(machine) => Object::new().text("machine", machine),
            None => Object::new(),
        };
        let object = object
            .text("handle", &self.address().to_string())
            .text("state", self.glance.state())
            .bytes_or_null("name", name.as_ref().map(|name| name.as_str().as_bytes()));
        let object = match &self.files {
            Some(files) => files.settings.describe(object.bytes("command", &files.command)),
            None => object.text("command", command),
        };
        let object = object
            .number_or_null("exit_code", self.exit_code)
            .seconds_or_null("started", started.map(unix_seconds))
            .seconds_or_null("ended", self.since.filter(|_| !alive));
        let object = self.end.describe_in_full(object);
        // Its fields come last: the first `since` of a line is that of the activity.
        self.describe(object.bytes_or_null("terminal", self.terminal()))
            .object_or_null("input", self.input.map(InputState::object))
    }

    fn describe(&self, object: Object) -> Object {
        let report = self.report.as_ref().map(|report| {
            Object::new()
                .text("state", report.state.word())
                .bytes("text", &report.text)
                .seconds_or_null("since", Some(report.since))
        });
        let text = |text: &Option<String>| text.clone().map(String::into_bytes);
        let object = object
            .bytes_or_null("activity", self.activity.map(|activity| activity.word().as_bytes()))
            .bytes_or_null("because", self.because.map(|because| because.word().as_bytes()))
            .seconds_or_null("since", self.since)
            .bytes_or_null("program", self.program.as_deref())
            .bytes_or_null("folder", self.folder.as_deref())
            .bytes_or_null("last_line", text(&self.last_line).as_deref())
            .bytes_or_null("question", text(&self.question).as_deref())
            .bytes_or_null("question_id", self.question_id().as_deref().map(str::as_bytes))
            .list("choices", &self.choices.iter().map(|text| text.clone().into_bytes()).collect::<Vec<_>>())
            .object_or_null("report", report)
            .bytes_or_null("stalled", text(&self.stalled).as_deref());
        self.said.describe(object)
    }

    /// The question's identity: different questions have different ones.
    pub(crate) fn question_id(&self) -> Option<String> {
        let question = self.question.as_ref()?;
        let texts = [question].into_iter().chain(&self.choices);
        let bytes = texts.flat_map(|text| text.bytes().chain([0]));
        // FNV-1a (draft-eastlake-fnv).
        let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        Some(format!("{:08x}", bytes.fold(0x811c_9dc5, mix)))
    }

    /// How the program would interpret a line that is typed now.
    pub(crate) fn wanted(&self) -> ReplyKind {
        match self.activity {
            _ if self.doing == Some(TerminalState::Secret) => ReplyKind::Secret,
            // A person types it as the program reads it.
            _ if matches!(self.doing, Some(TerminalState::Line | TerminalState::Prompt)) => ReplyKind::Line,
            Some(Activity::Waiting) => {
                ReplyKind::Answer(self.question_id().filter(|_| !self.choices.is_empty()))
            }
            Some(Activity::Idle | Activity::Done | Activity::Failed) => ReplyKind::Task,
            _ => ReplyKind::Line,
        }
    }

    pub(crate) fn terminal(&self) -> Option<&'static [u8]> {
        self.doing.map(|doing| doing.word().as_bytes())
    }
}

/// The row of a screen that asks, if any does, as one printable line; `by_mark`: only a row that ends with a
/// question mark.
fn question_among(rows: &[String], by_mark: bool) -> Option<String> {
    let last = |asks: fn(&str) -> bool| rows.iter().rev().find(|row| asks(row));
    let row = last(|row| row.trim_end().ends_with('?')).or_else(|| last(text::asks).filter(|_| !by_mark));
    row.and_then(|row| text::last_line_shown(row.as_bytes()))
}

impl SessionDir {
    /// The question of a program that waits for input with the terminal in this state: the row before the
    /// cursor, or a row above it that looks like a question. As one printable line.
    pub(crate) fn question(&self, doing: TerminalState) -> Result<Option<String>> {
        if matches!(doing, TerminalState::Prompt | TerminalState::Running) {
            return Ok(None);
        }
        let screen = ScreenCache::look(self)?.screen;
        let before = text::last_line_shown(screen.before_cursor().as_bytes());
        if before.is_some() && !screen.is_alternate() {
            return Ok(before);
        }
        let mut rows = screen.lines(0);
        if doing != TerminalState::Raw {
            // Output before the last line is not part of the question.
            let last = rows.iter().rposition(|row| !row.trim().is_empty());
            rows.drain(..last.unwrap_or(rows.len()));
        }
        Ok(question_among(&rows, false))
    }
}

/// The object that describes a removed session.
pub(crate) fn removed(address: &Address, name: Option<&Name>) -> Object {
    let object = Object::new().text("handle", &address.to_string()).text("state", "removed");
    object.bytes_or_null("name", name.map(|name| name.as_str().as_bytes()))
}

/// A session that has been removed there, by that object.
pub(crate) fn removed_of(told: &Value, machine: Option<&str>) -> Option<(Address, Option<Name>)> {
    let handle = of_machine(told["handle"].as_str()?, machine)?;
    let name = told["name"].as_str().and_then(|name| Name::parse(name.as_bytes()));
    (told["state"] == "removed").then(|| (Address { machine: machine.map(str::to_owned), handle }, name))
}

/// A handle as it is named here, without its machine.
fn of_machine(handle: &str, machine: Option<&str>) -> Option<Handle> {
    let there = match machine {
        Some(machine) => {
            handle.strip_prefix(machine).and_then(|there| there.strip_prefix(':')).unwrap_or(handle)
        }
        None => handle,
    };
    Handle::parse(there.as_bytes())
}

impl StateDir {
    /// Completes the view of a session from its relay's report, if there is one; `None` if the session has
    /// been removed.
    pub(crate) fn looked_at(&self, mut told: ActivityView) -> Option<ActivityView> {
        let session = self.session(&Target::Handle(told.glance.handle.clone())).ok()?;
        told.look(&session);
        Some(told)
    }
}

impl SessionDir {
    /// The complete view; `None` if the session has been removed.
    pub(crate) fn overview(&self) -> Result<Option<ActivityView>> {
        let Some(glance) = ListEntry::at(self) else { return Ok(None) };
        let client = if glance.alive { RelayClient::open(self) } else { Ok(None) };
        // A program without sockets, as in a session without a network, may look at what the files tell.
        if client.is_err() && refuses_sockets(self) {
            return Ok(Some(ActivityView::of(self, glance, ReportedState::Nothing)));
        }
        let client = client?;
        let now = client.map_or(Ok(None), |mut client| client.snapshot(Parts::ACTIVITY.and(Parts::SAID)))?;
        let told = now.map_or(ReportedState::Ended, |now| ReportedState::Standing(Box::new(now)));
        Ok(Some(ActivityView::of(self, glance, self.really(told))))
    }
}

impl SessionDir {
    /// A relay that does not serve us (we are confined, and it is not) hangs up, too.
    pub(crate) fn really(&self, told: ReportedState) -> ReportedState {
        match told {
            ReportedState::Ended if !self.ends().unwrap_or(true) => ReportedState::Nothing,
            told => told,
        }
    }
}

impl StateDir {
    /// The views of the sessions whose names match `wanted`, oldest first.
    pub(crate) fn overviews(&self, wanted: &dyn Fn(Option<&Name>) -> bool) -> Result<Vec<ActivityView>> {
        let mut overviews = Vec::new();
        let mut glances = self.glances(wanted)?.into_iter().peekable();
        // However long it took to look which there are.
        let deadline = Deadline::after(PATIENCE);
        while glances.peek().is_some() {
            let mut asked = Vec::new();
            for glance in glances.by_ref().take(BATCH) {
                let session = match self.open_session(glance.handle.clone()) {
                    Err(failure) if failure.is(Reason::NotFound) => continue,
                    other => other?.within(deadline),
                };
                // An unreachable session is shown nevertheless.
                let client = if glance.alive { RelayClient::open(&session) } else { Ok(None) };
                let client = client.and_then(|client| {
                    client.map(|mut client| client.ask_standing().map(|_| client)).transpose()
                });
                asked.push((session, glance, client));
            }
            let deadline = deadline.at_least(MOMENT);
            for (session, glance, client) in asked {
                let told = match client {
                    Ok(Some(mut client)) => {
                        session.really(client.receive_standing(deadline).unwrap_or(ReportedState::Nothing))
                    }
                    Ok(None) => ReportedState::Ended,
                    Err(_) => ReportedState::Nothing,
                };
                overviews.push(ActivityView::of(&session, glance, told));
            }
        }
        Ok(overviews)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{rounds, spoiled};

    const LINE: &str = r#"{"machine":"box","handle":"box:1f3a9c02","state":"alive","name":"a","command":"b\u001b[2J","started":5.5,"terminal":"line","activity":"waiting","since":1790000000.000001,"program":"sh","folder":"/tmp","last_line":"c\u009b","question":"d\u0007?","report":{"state":"failed","text":"e","since":7}}"#;

    fn view(line: impl AsRef<[u8]>, machine: Option<&str>) -> Option<ActivityView> {
        ActivityView::parse(&Value::parse(line.as_ref()).ok()?, machine)
    }

    #[test]
    fn a_machine_is_trusted_only_about_its_own_sessions() {
        let told = view(LINE, Some("box")).unwrap();
        assert_eq!(told.address().to_string(), "box:1f3a9c02");
        assert_eq!((told.activity, told.doing), (Some(Activity::Waiting), Some(TerminalState::Line)));
        assert_eq!(told.since, Some(Duration::new(1_790_000_000, 1_000)));
        assert_eq!(told.report.map(|report| report.state), Some(ReportState::Failed));
        for machine in [None, Some("bo"), Some("box2"), Some("other")] {
            assert!(view(LINE, machine).is_none(), "{machine:?}");
        }
        let removed = LINE.replace("alive", "removed");
        let gone = |line: &str, machine| removed_of(&Value::parse(line.as_bytes()).unwrap(), Some(machine));
        assert!(gone(LINE, "box").is_none());
        let (address, name) = gone(&removed, "box").unwrap();
        assert_eq!((&*address.to_string(), name), ("box:1f3a9c02", Name::parse(b"a")));
        let bare = LINE.replace("box:", "");
        assert_eq!(view(&bare, Some("box")).unwrap().address(), address);
        assert!(gone(&removed, "other").is_none());
        let many = LINE
            .replace("{\"machine\"", &format!("{{\"choices\":[{}\"\"],\"machine\"", "\"\",".repeat(10_000)));
        assert_eq!(view(&many, Some("box")).unwrap().choices.len(), MOST_CHOICES);
    }

    #[test]
    fn nothing_that_another_machine_tells_reaches_a_terminal_raw() {
        for (seed, mut random) in rounds(500) {
            let line = spoiled(LINE.as_bytes(), &mut random);
            let Some(told) = view(&line, Some("box")) else { continue };
            let shown = [Some(told.glance.command), told.last_line, told.question];
            let text: String = shown.into_iter().flatten().collect();
            assert!(!text.chars().any(char::is_control), "seed {seed}: {text:?}");
        }
    }
}
