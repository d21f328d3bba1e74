//! A relay's view of its session at one moment.

use std::time::Duration;

use super::fields::Fields;
use super::input_history::InputHistory;
use super::job::LeftJob;
use super::protocol::{ForegroundProgram, KeyModes, PromptState, TerminalState};

use crate::{
    json::{Object, Value},
    numbers::{hex, parse_hex, parse_seconds, seconds},
    session::{Activity, Because, ProgramSaid, Report, ReportState, shell::Dialect},
    sys::pty::Size,
    terminal::queries::PrivateModes,
    worded::worded,
};

/// The parts that need a look at processes, and are left out unless requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts(u8);

impl Parts {
    pub(crate) const NONE: Parts = Parts(0);
    pub(crate) const TERMINAL: Parts = Parts(1);
    /// And the terminal's state.
    pub(crate) const INPUT: Parts = Parts(2 | 1);
    pub(crate) const PROGRAM: Parts = Parts(4);
    pub(crate) const SHELL: Parts = Parts(8);
    /// All that is to be seen of a session at a glance.
    pub(crate) const ACTIVITY: Parts = Parts(128 | 16 | 2 | 1);
    /// All of the program's own reports, and not only the most urgent.
    pub(crate) const SAID: Parts = Parts(32);
    /// How the terminal takes keys.
    pub(crate) const KEYS: Parts = Parts(64);
    pub(crate) const FOLDER: Parts = Parts(128);

    pub(crate) fn and(self, others: Parts) -> Parts {
        Parts(self.0 | others.0)
    }

    pub(crate) fn has(self, others: Parts) -> bool {
        self.0 & others.0 == others.0
    }

    pub(super) fn encode(self) -> String {
        self.0.to_string()
    }

    pub(super) fn decode(word: &str) -> Option<Parts> {
        word.parse().ok().map(Parts)
    }
}

worded! {
    /// The kind of input that a program reads.
    pub(crate) enum Reads {
        /// A command: the shell that reports is at its prompt.
        Prompt = "prompt",
        Line = "line",
        Secret = "secret",
        Raw = "raw",
        /// To pass it on, as ssh does.
        Far = "far",
    }
}

/// The verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Input {
    /// `None`: no program reads; or there is unread input.
    pub(crate) reads: Option<Reads>,
    /// How long, as far as known, nothing has been printed or typed, and the reading program has neither
    /// woken up nor used the CPU.
    pub(crate) held: Duration,
    /// How long that must be, for it to be more than a program that looks for a key while it works.
    pub(crate) least: Duration,
    /// The reading program may also wait for a timer.
    pub(crate) has_timer: bool,
}

impl Input {
    /// Has it waited this long?
    pub(crate) fn is_waiting(&self, held: Duration) -> bool {
        self.reads.is_some() && self.held >= held.max(self.least)
    }

    /// How long it must have waited for views of many sessions: a program that has the keyboard may still
    /// draw something.
    pub(crate) fn needed(&self) -> Duration {
        if let Some(Reads::Raw | Reads::Far) = self.reads { HELD_LONG } else { HELD }
    }

    /// The state to report at `now`, which is since 1970.
    pub(crate) fn state(&self, now: Duration) -> InputState {
        match self.reads {
            None => InputState::No,
            Some(reads) if self.is_waiting(self.needed()) => {
                InputState::Waiting { reads, since: now.saturating_sub(self.held) }
            }
            Some(reads) => InputState::Perhaps { reads, since: now.saturating_sub(self.held) },
        }
    }

    fn visit(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        fields.maybe_word("reads", &mut self.reads, Reads::word, Reads::parse)?;
        for (name, time) in [("held", &mut self.held), ("least", &mut self.least)] {
            let mut some = Some(*time).filter(|time| !time.is_zero());
            fields.millis(name, &mut some)?;
            *time = some.unwrap_or_default();
        }
        fields.flag("timer", &mut self.has_timer);
        Some(())
    }

    /// The time until the wait has lasted that long, if nothing happens; `None`: no program reads.
    pub(crate) fn remaining(&self, held: Duration) -> Option<Duration> {
        self.reads.map(|_| held.max(self.least).saturating_sub(self.held))
    }
}

/// How long a program must have waited before text is typed, and before a line or a secret prompt is
/// reported.
pub(crate) const HELD: Duration = Duration::from_millis(30);

/// The same before a program that has the keyboard is reported: it may still draw something.
pub(crate) const HELD_LONG: Duration = Duration::from_secs(1);

/// The reported verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputState {
    No,
    /// A program reads the terminal, but not for long enough; since 1970.
    Perhaps {
        reads: Reads,
        since: Duration,
    },
    Waiting {
        reads: Reads,
        since: Duration,
    },
}

impl InputState {
    pub(crate) fn object(self) -> Object {
        let (state, told) = match self {
            InputState::No => ("no", None),
            InputState::Perhaps { reads, since } => ("perhaps", Some((reads, since))),
            InputState::Waiting { reads, since } => ("waiting", Some((reads, since))),
        };
        Object::new()
            .text("state", state)
            .bytes_or_null("cause", told.map(|(reads, _)| reads.word().as_bytes()))
            .seconds_or_null("since", told.map(|(_, since)| since))
    }

    /// Parses such an object.
    pub(crate) fn parse(told: &Value) -> Option<InputState> {
        let reads = told["cause"].as_str().and_then(Reads::parse);
        let since = told["since"].as_number().and_then(|since| parse_seconds(since.as_bytes()));
        Some(match (told["state"].as_str()?, reads.zip(since)) {
            ("perhaps", Some((reads, since))) => InputState::Perhaps { reads, since },
            ("waiting", Some((reads, since))) => InputState::Waiting { reads, since },
            _ => InputState::No,
        })
    }
}

/// The known properties of the foreground program, apart from its screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Front {
    /// Its own path, or that of the script that it executes, as it was called.
    pub(crate) path: Option<Vec<u8>>,
    /// How long ago something was typed, if ever, and whether a line was ended by then.
    pub(crate) typed: Option<Duration>,
    pub(crate) entered: bool,
    /// The log's length at that time.
    pub(crate) length: u64,
}

impl Front {
    /// The same after this time.
    pub(crate) fn after(&self, time: Duration) -> Front {
        let typed = self.typed.map(|typed| typed + time);
        Front { typed, ..self.clone() }
    }
}

/// The directory of the foreground process. A path may hold any byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Folder {
    There(Vec<u8>),
    /// Its former path.
    Removed(Vec<u8>),
    /// It cannot be read, for this reason.
    Unknown(String),
}

impl Folder {
    pub(crate) fn path(self) -> Option<Vec<u8>> {
        match self {
            Folder::There(path) | Folder::Removed(path) => Some(path),
            Folder::Unknown(_) => None,
        }
    }

    fn encode(&self) -> String {
        let (what, bytes) = match self {
            Folder::There(path) => ("there", path.as_slice()),
            Folder::Removed(path) => ("removed", path.as_slice()),
            Folder::Unknown(why) => ("unknown", why.as_bytes()),
        };
        format!("{what},{}", hex(bytes))
    }

    fn decode(told: &str) -> Option<Folder> {
        let (what, digits) = told.split_once(',')?;
        let bytes = parse_hex(digits)?;
        Some(match what {
            "there" => Folder::There(bytes),
            "removed" => Folder::Removed(bytes),
            "unknown" => Folder::Unknown(String::from_utf8(bytes).ok()?),
            _ => return None,
        })
    }
}

/// The relay's view at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// How long the log is, and the number of the shell's last completion: the next that it prints
    /// or completes comes after both.
    pub(crate) offset: u64,
    pub(crate) last: Option<u64>,
    /// The number of the completion that ends what was typed last, which may have come. `None` if nothing was
    /// typed.
    pub(crate) awaited: Option<u64>,
    pub(crate) prompt: PromptState,
    /// The terminal takes whole lines, so no line editor has it.
    pub(crate) lines: bool,
    /// The level of the shell that reports, and its own number for its last completion.
    pub(crate) level: usize,
    pub(crate) seq: Option<u64>,
    /// How long that shell has executed its last command, to the millisecond.
    pub(crate) lasted: Option<Duration>,
    /// The number of typed bytes that no program has read.
    pub(crate) unread: u64,
    /// A command of a call that has left it, and goes on.
    pub(crate) left: Option<LeftJob>,
    /// The terminal's size, as long as the terminal exists.
    pub(crate) size: Option<Size>,
    /// The modes that the program has set.
    pub(crate) modes: PrivateModes,
    /// Why output is held back, if it is; and why some of it may not be on the disk, though it was
    /// written and synced.
    pub(crate) stalled: Option<String>,
    pub(crate) sync_error: Option<String>,
    pub(crate) report: Option<Report>,
    /// A call or a limit ends the session.
    pub(crate) ending: bool,
    /// The state that the program reports by its output.
    pub(crate) said: ProgramSaid,
    /// For `Parts::ACTIVITY`: how many times that has changed; the session's activity, which is never `Dead`,
    /// and since when (since 1970, to the microsecond); whether a call waits on it, or has just been
    /// notified; and the foreground process's name.
    pub(crate) seen: u64,
    pub(crate) activity: Option<Activity>,
    /// The evidence for the activity; and how a turn has ended since something was typed, if one has.
    pub(crate) because: Option<Because>,
    pub(crate) turn: Option<ReportState>,
    pub(crate) since: Duration,
    pub(crate) attended: bool,
    pub(crate) foreground: Option<String>,
    pub(crate) front: Front,
    /// For `Parts::FOLDER`.
    pub(crate) folder: Option<Folder>,
    /// For `Parts::KEYS`, as long as the terminal exists.
    pub(crate) keys: Option<KeyModes>,
    /// The typed text, if it was requested, as far as it is remembered.
    pub(crate) typing: Option<InputHistory>,
    /// For `Parts::TERMINAL`.
    pub(crate) doing: TerminalState,
    /// For `Parts::INPUT`.
    pub(crate) input: Input,
    /// For `Parts::PROGRAM`: the foreground program, if there is one.
    pub(crate) program: Option<ForegroundProgram>,
    /// For `Parts::SHELL`: whether the shell itself waits for input, and the name of the program that has
    /// replaced it, if one has.
    pub(crate) shell_waits: bool,
    pub(crate) successor: Option<String>,
    /// For a turn at the prompt: a command can be handed over. After `wake`: the shell had no lost interrupt.
    pub(crate) free: bool,
}

impl Snapshot {
    /// For `Parts::SHELL`: the shell waits for another line though it executes nothing: for the rest of a
    /// command, or because it has rejected the last.
    pub(crate) fn wants_rest(&self) -> bool {
        self.prompt == PromptState::Entered && self.shell_waits
    }

    /// The foreground program behind these words, if it is not the shell that reports; else nothing.
    pub(crate) fn named_program(&self, lead: &str) -> String {
        let named = self.program.as_ref().and_then(ForegroundProgram::named);
        named.map(|named| format!("{lead}{named}")).unwrap_or_default()
    }

    /// Part of a sentence that says why the session's output cannot be written at the moment, if it cannot:
    /// the log then does not show what the session does.
    pub(crate) fn stall(&self) -> Option<String> {
        self.stalled.as_ref().map(|why| format!("its output cannot be written: {why}"))
    }

    pub(super) fn encode(&self) -> String {
        let mut fields = Fields::of_line("snapshot");
        self.clone().visit(&mut fields);
        fields.line + "\n"
    }

    /// Unknown fields are skipped: a relay of another version may send more.
    pub(super) fn decode(words: &str) -> Option<Snapshot> {
        let mut snapshot = Snapshot::default();
        snapshot.visit(&mut Fields::given(words)?)?;
        Some(snapshot)
    }

    /// Writes or reads each field. `None`: one is not what it should be.
    fn visit(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        fields.number("offset", &mut self.offset)?;
        fields.maybe("last", &mut self.last)?;
        fields.maybe("awaited", &mut self.awaited)?;
        fields.word("prompt", &mut self.prompt, PromptState::word, PromptState::parse)?;
        fields.flag("lines", &mut self.lines);
        fields.number("level", &mut self.level)?;
        fields.maybe("seq", &mut self.seq)?;
        fields.millis("lasted", &mut self.lasted)?;
        fields.number("unread", &mut self.unread)?;
        if let Some(told) =
            fields.other("left", self.left.map(|LeftJob { level, last }| format!("{level},{last}")))
        {
            let (level, last) = told.split_once(',')?;
            self.left = Some(LeftJob { level: level.parse().ok()?, last: last.parse().ok()? });
        }
        if let Some(told) = fields.other("size", self.size.map(|size| format!("{}x{}", size.cols, size.rows)))
        {
            let (cols, rows) = told.split_once('x')?;
            self.size = Some(Size { cols: cols.parse().ok()?, rows: rows.parse().ok()? });
        }
        // 0 is not the default.
        let mut modes = Some(self.modes.encode());
        fields.maybe("modes", &mut modes)?;
        self.modes = PrivateModes::decode(modes?)?;
        fields.text("stalled", &mut self.stalled)?;
        fields.text("sync-error", &mut self.sync_error)?;
        if let Some(told) = fields.other("report", self.report.as_ref().map(|report| hex(&report.encode()))) {
            self.report = Some(Report::decode(&parse_hex(told)?)?);
        }
        fields.flag("ending", &mut self.ending);
        let said = (!self.said.is_empty()).then(|| hex(self.said.encode().as_bytes()));
        if let Some(told) = fields.other("said", said) {
            self.said = ProgramSaid::decode(&parse_hex(told)?)?;
        }
        fields.number("seen", &mut self.seen)?;
        fields.maybe_word("activity", &mut self.activity, Activity::word, Activity::parse)?;
        if let Some(told) = fields.other("because", self.because.map(|because| because.word().to_owned())) {
            self.because = Because::parse(told);
        }
        fields.maybe_word("turn", &mut self.turn, ReportState::word, ReportState::parse)?;
        if let Some(told) = fields.other("since", Some(seconds(self.since, 6))) {
            let since = parse_seconds(told.as_bytes());
            self.since = since.filter(|since| since.subsec_nanos() % 1_000 == 0)?;
        }
        fields.flag("attended", &mut self.attended);
        fields.text("foreground", &mut self.foreground)?;
        let front = &mut self.front;
        if let Some(told) = fields.other("path", front.path.as_deref().map(hex)) {
            front.path = Some(parse_hex(told)?);
        }
        fields.millis("typed", &mut front.typed)?;
        fields.flag("entered", &mut front.entered);
        fields.number("length", &mut front.length)?;
        if let Some(told) = fields.other("folder", self.folder.as_ref().map(Folder::encode)) {
            self.folder = Some(Folder::decode(told)?);
        }
        if let Some(keys) = fields.part("keys", &mut self.keys) {
            fields.flag("cursor", &mut keys.application.cursor);
            fields.flag("keypad", &mut keys.application.keypad);
            fields.number("kitty", &mut keys.application.kitty)?;
            fields.flag("paste", &mut keys.bracketed_paste);
            fields.flag("secret", &mut keys.secret);
            fields.flag("half-line", &mut keys.half_line);
            fields.maybe("eof", &mut keys.end_of_input)?;
            if let Some(told) = fields.other("signals", Some(hex(&keys.signals))) {
                keys.signals = parse_hex(told)?;
            }
        }
        let typing = self.typing.as_ref().map(|typing| typing.encode().replace(' ', ","));
        if let Some(told) = fields.other("typing", typing) {
            let (anchor, rest) = told.split_once(',')?;
            self.typing = Some(InputHistory::decode(anchor, &rest.replace(',', " "))?);
        }
        if let Some(told) = fields.other("terminal", Some(self.doing.to_string())) {
            self.doing = TerminalState::parse(told).unwrap_or_default();
        }
        self.input.visit(fields)?;
        if let Some(program) = fields.part("program", &mut self.program) {
            fields.number("pid", &mut program.pid)?;
            if let Some(told) = fields.other("name", Some(hex(program.name.as_bytes()))) {
                program.name = String::from_utf8_lossy(&parse_hex(told)?).into_owned();
            }
            fields.flag("is-shell", &mut program.is_shell);
            fields.flag("waits", &mut program.waits);
            fields.flag("elsewhere", &mut program.leads_elsewhere);
            fields.maybe_word("dialect", &mut program.shell, Dialect::word, Dialect::parse)?;
        }
        fields.flag("shell-waits", &mut self.shell_waits);
        fields.flag("free", &mut self.free);
        fields.text("successor", &mut self.successor)
    }
}
