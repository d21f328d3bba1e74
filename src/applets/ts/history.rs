//! history - show the commands that a session's shells have executed
//! Task: See, 10
//!
//! Usage: nbs-ts history [--follow|--export=FORM] [options] [SESSION]
//!        nbs-ts history [options] --all|--name=PART
//!
//! Prints a line for each command, including those that a person typed, oldest
//! first: number, start, duration, exit code, directory, command. A running
//! command has neither a duration nor an exit code. Without SESSION, shows the
//! session that the call runs in. With --all or --name, sorts the commands of all
//! these sessions (with --on, of all those machines) by start; each line then
//! begins with the session's handle.
//!
//! The shells are those that report: the session's own, and nested ones after
//! `integrate`. `read --command=N` prints the output of command N. nbs drops the
//! oldest commands after some thousands.
//!
//! Options:
//!   --failed          only commands with a non-zero exit code
//!   --grep=REGEX      only commands that match, or whose directory does
//!   --since=TIME      only commands that began at most TIME ago
//!   --last=N          only the last N of those
//!   --follow          continue with each command that ends, until the session
//!                     ends; omit running ones
//!   --export=FORM     print another form: otel (for each command that has ended,
//!                     an OpenTelemetry span, a child of the TRACEPARENT of a
//!                     live session) or sh (a script that executes them again)
//!   --all             show all sessions, dead ones too
//!   --name=PART       show all sessions with this in their name, dead ones too
//!   --on=MACHINE      with --all or --name: those on that machine (repeatable;
//!                     'all': this and all known machines; default: $NBS_TS_ON)
//!   --json            print an object for each: handle, command_id, command,
//!                     source (run, ask, send, key or attached), started,
//!                     duration_ms, exit_code, folder, offset and length of its
//!                     output, shell (0: the session's own; above: a nested one)
//!
//! Example:
//!   nbs-ts history "$h" --failed --last=5

mod export;

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    time::{Duration, SystemTime},
};

use regex_lite::Regex;

use export::ExportForm;

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Reason, Result, Trying},
    session::{
        CommandEntry, Handle, Name, SESSION_ENV, SessionDir, StateDir, Target, by_time,
        client::{RelayClient, WaitOutcome},
    },
    sys::{clock::unix_seconds, deadline::Deadline, poll::PollSet},
};

struct HistoryFilter {
    failed: bool,
    grep: Option<Regex>,
    /// Since 1970.
    since: Option<Duration>,
    last: usize,
}

impl HistoryFilter {
    fn has(&self, entry: &CommandEntry) -> bool {
        let found = |regex: &Regex| {
            regex.is_match(&entry.command)
                || entry.folder.as_ref().is_some_and(|folder| regex.is_match(folder))
        };
        (!self.failed || entry.has_failed()) && self.grep.as_ref().is_none_or(found) && !self.is_before(entry)
    }

    fn is_before(&self, entry: &CommandEntry) -> bool {
        self.since.is_some_and(|since| entry.started < since)
    }

    /// The commands of a session, the oldest first.
    fn of(&self, session: &SessionDir) -> Result<Vec<CommandEntry>> {
        let mut entries = Vec::new();
        if self.last > 0 {
            session.commands_newest_first(|entry| {
                // They began one after the other.
                let goes_on = !self.is_before(&entry);
                entries.extend(self.has(&entry).then_some(entry));
                goes_on && entries.len() < self.last
            })?;
        }
        entries.reverse();
        Ok(entries)
    }
}

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (all, pattern) = (call.has("all"), call.optional("name", cli::text)?);
    let since = call.optional("since", cli::time)?;
    let wanted = HistoryFilter {
        failed: call.has("failed"),
        grep: call.optional("grep", cli::regex)?,
        since: since.map(|ago| unix_seconds(SystemTime::now()).saturating_sub(ago)),
        last: call.optional("last", cli::number)?.map_or(usize::MAX, |last| last as usize),
    };
    let target = call.operand("SESSION").map(cli::parse_target).transpose()?;
    let export = call.optional("export", export_form)?;
    let (follow, json) = (call.has("follow"), call.json());

    let state_dir = StateDir::open()?;
    if all || pattern.is_some() {
        let picked = |name: Option<&Name>| all || Name::is_wanted(name, pattern.as_deref());
        let mut found = Vec::new();
        for glance in state_dir.glances(&picked)? {
            let session = match state_dir.session(&Target::Handle(glance.handle.clone())) {
                Err(failure) if failure.is(Reason::NotFound) => continue,
                session => session?,
            };
            let line = |entry: CommandEntry| (entry.started, line(&entry, &glance.handle, true, json));
            found.extend(wanted.of(&session)?.into_iter().map(line));
        }
        return cli::print(by_time(found, wanted.last));
    }
    let ours = std::env::var_os(SESSION_ENV).filter(|ours| !ours.is_empty());
    let target = match (target, ours) {
        (Some(target), _) => target,
        (None, Some(ours)) => cli::parse_target(&ours)?,
        (None, None) => return Err(cli::missing_handle()),
    };
    let session = state_dir.session(&target)?;
    let line = |entry: &CommandEntry| line(entry, session.handle(), false, json);
    if follow {
        return self::follow(&session, &wanted, &line);
    }
    let entries = wanted.of(&session)?;
    if let Some(form) = export {
        return cli::print(export::export(form, &session, &entries)?);
    }
    if entries.is_empty() && session.levels()?.is_empty() {
        let handle = session.handle();
        cli::warn("nbs-ts", &format!("session '{handle}' has no shell that reports its commands"));
    }
    cli::print(entries.iter().map(line).collect::<String>())
}

fn export_form(option: &str, value: &OsStr) -> Result<ExportForm> {
    ExportForm::parse(value.as_bytes())
        .ok_or_else(|| cli::bad_value(option, value, "is not a form; try otel or sh"))
}

/// Prints those that have ended, and then each that ends.
fn follow(
    session: &SessionDir,
    wanted: &HistoryFilter,
    line: &dyn Fn(&CommandEntry) -> String,
) -> Result<()> {
    let stdout = io::stdout();
    let mut client = RelayClient::open(session)?;
    // Those before have been printed, but for these, which ran.
    let (mut next, mut running): (u64, Vec<u64>) = (0, Vec::new());
    let mut first = true;
    loop {
        let mut came = Vec::new();
        let from = running.first().copied().unwrap_or(next);
        session.commands_newest_first(|entry| {
            let goes_on = entry.id > from;
            came.extend((entry.id >= next || running.contains(&entry.id)).then_some(entry));
            goes_on
        })?;
        came.reverse();
        next = came.last().map_or(next, |entry| next.max(entry.id + 1));
        running = came.iter().filter(|entry| entry.duration.is_none()).map(|entry| entry.id).collect();
        let mut ended: Vec<CommandEntry> =
            came.into_iter().filter(|entry| entry.duration.is_some() && wanted.has(entry)).collect();
        if std::mem::take(&mut first) {
            ended.drain(..ended.len().saturating_sub(wanted.last));
        }
        cli::print(ended.iter().map(line).collect::<String>())?;
        let Some(relay) = &mut client else { return Ok(()) };
        loop {
            match relay.news(Deadline::after(Duration::ZERO))? {
                WaitOutcome::Changed => break,
                // There is what it wrote last.
                WaitOutcome::Ended => {
                    client = None;
                    break;
                }
                WaitOutcome::TimedOut => {}
            }
            let mut poll_set = PollSet::new();
            poll_set.readable(relay, false);
            poll_set.gone(&stdout, true);
            if poll_set.wait(Deadline::NEVER).trying("wait for commands")?.contains(&true) {
                return Err(Failure::reader_gone());
            }
        }
    }
}

fn line(entry: &CommandEntry, handle: &Handle, with_handle: bool, json: bool) -> String {
    match json {
        true => entry.describe(Object::new().text("handle", handle.as_str())).line(),
        false => entry.row(with_handle.then_some(handle.as_str())),
    }
}
