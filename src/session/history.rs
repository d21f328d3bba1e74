//! The file `history`: a line of JSON when a command of one of the session's shells begins, and another, with
//! all fields of the first, when it ends.
//!
//! The relay appends each line by one write. So if a relay is killed, its last line may be incomplete, and
//! the command that ran then has no second line. The file is bounded: the oldest lines go. Numbers count from
//! 1 without gaps, so the first remaining number shows how many commands have gone.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    time::{Duration, UNIX_EPOCH},
};

use crate::{
    json::{Object, Value},
    numbers,
    outcome::{Failure, Result},
    session::SessionDir,
    sorted::Map,
    sys::clock,
    terminal::{cells, text},
    worded::worded,
};

pub(crate) const HISTORY: &str = "history";

/// How many cells a directory takes at least.
const FOLDER: usize = 20;

/// How much of the file is read at once.
const BLOCK: usize = 64 * 1024;

worded! {
    /// The source of a typed command.
    #[derive(Default)]
    pub(crate) enum InputSource {
        Run = "run",
        Ask = "ask",
        #[default]
        Send = "send",
        Key = "key",
        /// A person, or a program that shows the session.
        Attached = "attached",
    }
}

/// A command that a shell of the session has executed, or executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandEntry {
    pub(crate) id: u64,
    pub(crate) command: String,
    pub(crate) source: InputSource,
    /// Since 1970.
    pub(crate) started: Duration,
    /// `None`: it has not ended, as far as is known.
    pub(crate) duration: Option<Duration>,
    /// `None`: it is unknown.
    pub(crate) exit_code: Option<i32>,
    /// The directory in which it began.
    pub(crate) folder: Option<String>,
    /// Its output in the log.
    pub(crate) offset: u64,
    pub(crate) length: Option<u64>,
    /// 0: the session's own shell executes it; one more for each shell in that.
    pub(crate) shell: usize,
}

impl CommandEntry {
    /// The fields of its line.
    pub(crate) fn describe(&self, object: Object) -> Object {
        object
            .number("command_id", self.id)
            .text("command", &self.command)
            .text("source", self.source.word())
            .seconds_or_null("started", Some(self.started))
            .number_or_null("duration_ms", self.duration.map(|duration| duration.as_millis()))
            .number_or_null("exit_code", self.exit_code)
            .bytes_or_null("folder", self.folder.as_deref().map(str::as_bytes))
            .number("offset", self.offset)
            .number_or_null("length", self.length)
            .number("shell", self.shell)
    }

    /// Its duration and its exit code, for people; `-` if unknown.
    pub(crate) fn outcome(&self) -> (String, String) {
        let took = |duration: Duration| match duration.as_secs() {
            0 => format!("{}ms", duration.as_millis()),
            1..60 => format!("{}s", numbers::seconds(duration, 1)),
            seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
            seconds => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        };
        let code = self.exit_code.map(|code| code.to_string());
        (self.duration.map_or("-".to_owned(), took), code.unwrap_or_else(|| "-".to_owned()))
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.exit_code.is_some_and(|code| code != 0)
    }

    pub(crate) fn on_one_line(&self) -> String {
        text::escaped(self.command.replace('\n', "; ").as_bytes())
    }

    pub(crate) fn line(&self) -> String {
        self.describe(Object::new()).line()
    }

    /// The row for a person; begins with the session's handle, if given.
    pub(crate) fn row(&self, handle: Option<&str>) -> String {
        let started = clock::plain(UNIX_EPOCH + self.started);
        let (duration, code) = self.outcome();
        let folder = self.folder.as_ref().map_or("-".to_owned(), |folder| text::escaped(folder.as_bytes()));
        let lead = handle.map_or(String::new(), |handle| format!("{handle} "));
        format!(
            "{lead} {:>4}  {started}  {duration:>7}  {code:>3}  {}  {}\n",
            self.id,
            cells::fitted(&folder, FOLDER),
            self.on_one_line()
        )
    }

    /// `None` if it is not a complete line of this format.
    pub(crate) fn parse(line: &[u8]) -> Option<CommandEntry> {
        let value = Value::parse(line).ok()?;
        Some(CommandEntry {
            id: value["command_id"].as_u64()?,
            command: value["command"].as_str()?.to_owned(),
            source: InputSource::parse(value["source"].as_str()?)?,
            started: numbers::parse_seconds(value["started"].as_number()?.as_bytes())?,
            duration: value["duration_ms"].as_u64().map(Duration::from_millis),
            exit_code: value["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok()),
            folder: value["folder"].as_str().map(str::to_owned),
            offset: value["offset"].as_u64()?,
            length: value["length"].as_u64(),
            shell: usize::try_from(value["shell"].as_u64()?).ok()?,
        })
    }
}

impl SessionDir {
    /// The commands, the newest first, as long as `wants_more` returns true. Empty if there is no such file.
    pub(crate) fn commands_newest_first(
        &self,
        mut wants_more: impl FnMut(CommandEntry) -> bool,
    ) -> Result<()> {
        let read = match self.folder.open_file(HISTORY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_gone() => Ok(()),
            file => file.and_then(|file| newest_first(&file, &mut wants_more)),
        };
        self.trying(read, "read the history")
    }

    /// The last commands, the newest first.
    pub(crate) fn last_commands(&self, most: usize) -> Result<Vec<CommandEntry>> {
        let mut last = Vec::new();
        self.commands_newest_first(|entry| {
            last.push(entry);
            last.len() < most
        })?;
        Ok(last)
    }

    /// The command of this number.
    pub(crate) fn command_numbered(&self, id: u64) -> Result<CommandEntry> {
        let mut found = None;
        self.commands_newest_first(|entry| {
            let goes_on = entry.id > id;
            found = (entry.id == id).then_some(entry);
            goes_on
        })?;
        let handle = self.handle();
        found.ok_or_else(|| {
            Failure::not_found(format!(
                "session '{handle}' has no command {id}; try 'nbs-ts history {handle}'"
            ))
        })
    }
}

/// The last lines of several sessions, each with the start of its command, by time.
pub(crate) fn by_time(mut lines: Vec<(Duration, String)>, last: usize) -> String {
    lines.sort_by_key(|(started, _)| *started);
    lines.drain(..lines.len().saturating_sub(last));
    lines.into_iter().map(|(_, line)| line).collect()
}

/// From the end of the file on. We pass a command on at its first line: by then its last line has been read.
fn newest_first(file: &File, wants_more: &mut dyn FnMut(CommandEntry) -> bool) -> io::Result<()> {
    let mut ended: Map<u64, CommandEntry> = Map::new();
    let mut given = u64::MAX;
    let (mut at, mut rest) = (file.metadata()?.len(), Vec::new());
    while at > 0 {
        let length = BLOCK.min(usize::try_from(at).unwrap_or(BLOCK));
        at -= length as u64;
        let mut block = vec![0; length];
        file.read_exact_at(&mut block, at)?;
        block.append(&mut rest);
        // The bytes before the first newline may begin in the block before.
        let whole =
            if at == 0 { 0 } else { memchr::memchr(b'\n', &block).map_or(block.len(), |end| end + 1) };
        for line in block[whole..].split(|byte| *byte == b'\n').rev() {
            let Some(entry) = CommandEntry::parse(line).filter(|entry| entry.id < given) else { continue };
            if entry.duration.is_some() {
                ended.or_insert(entry.id, entry);
                continue;
            }
            given = entry.id;
            if !wants_more(ended.remove(&entry.id).unwrap_or(entry)) {
                return Ok(());
            }
        }
        block.truncate(whole);
        rest = block;
    }
    // The commands whose first line has gone.
    ended.iter().rev().all(|(_, entry)| entry.id >= given || wants_more(entry.clone()));
    Ok(())
}
