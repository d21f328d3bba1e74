//! The directory of a session: its files, their meaning, and its lock.
//!
//! A session is alive exactly as long as its relay holds the lock of `meta`. A recycled PID cannot
//! fake that, and a killed relay cannot leave it behind (flock(2)). `pid` and `daemon_pid` are for
//! other programs; nbs never acts on them without proof. Files are replaced as a whole, and most do
//! not exist before they have content.

mod cursor;
mod reporting;
mod spec;

use std::{
    fs::File,
    io::{self, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    jail,
    json::Object,
    numbers::{self, number},
    outcome::{Failure, Result, Trying},
    session::{
        Completion, EXIT_RECORD, EndedBy, Events, ExitRecord, Handle, LOG_START, Name, Notice, OutputLog,
        RELAY, REPORT, ReplyTimeout, Report, SESSION_ENV, Settings, Usage,
        roles::names,
        shell::{Dialect, MarkStripper, ShellCommand},
    },
    sorted::Set,
    sys::{
        child::ExitStatus,
        deadline::Deadline,
        files::{self, Folder},
        host::Host,
        lock::{self, LockKind},
        poll,
        processes::{PidFd, Process},
        pty::Size,
        socket,
    },
    terminal::text,
};
pub(crate) use spec::{ReportingShell, SessionSpec};

pub(crate) const OUTPUT: &str = "output.log";
pub(crate) const INPUT: &str = "input.fifo";
pub(crate) const COMPLETIONS: &str = "completion.log";
pub(crate) const CLAIMS: &str = "completion.claims";
pub(crate) const EXIT_CODE: &str = "exit_code";
pub(crate) const SOCKET: &str = "relay.sock";
pub(crate) const TYPED: &str = "typed";
pub(super) const ENDING: &str = "ending";
/// The content of that file if the relay received SIGHUP or SIGTERM.
const HUNG_UP: &[u8] = b"hangup";
pub(super) const RESTARTED_AS: &str = "restarted_as";
const EXIT_RECORD_LOCK: &str = "lock.exit";
pub(super) const PID: &str = "pid";
pub(super) const RELAY_PID: &str = "daemon_pid";
pub(super) const SLAVE: &str = "slave_pty";
pub(super) const META: &str = "meta";
pub(super) const COMMAND: &str = "command";
pub(super) const NAME: &str = "name";
/// The machine that it is on, if several share the state directory.
pub(super) const HOST: &str = "host";
pub(super) const SECRET: &str = "secret";
pub(super) const RUN: &str = "run";
pub(crate) const RUN_TEXT: &str = "run.text";
pub(super) const PROMPTS: &str = "prompts";
pub(super) const PRIVATE: &str = "tmp";
pub(super) const READ_CURSOR: &str = "read_cursor";
pub(super) const COMPLETION_CURSOR: &str = "completion_cursor";
pub(crate) const SIZES: &str = "sizes";
pub(crate) const TIMES: &str = "times";
pub(super) const SCREEN_CACHE: &str = "screen";
/// Before the offset at which a screen was cut.
pub(super) const CUT: &str = "cut.";
const SCREEN_CACHE_LOCK: &str = "lock.screen";

/// How long a killed relay may take to be gone.
const GOING: Duration = Duration::from_secs(5);

/// More than any command line that the kernel takes (execve(2)).
pub(super) const LONGEST_COMMAND: u64 = 8 * 1024 * 1024;
/// A cursor, a PID, a name: all are shorter.
pub(super) const LONGEST_WORD: u64 = 128;
/// Larger than any screen that we keep.
const LONGEST_SCREEN_CACHE: u64 = 256 * 1024 * 1024;
/// A million completions are some ten million bytes.
pub(super) const LONGEST_COMPLETIONS: u64 = 1024 * 1024 * 1024;

/// How much of a log's end is searched for its last line.
const LAST_LINE: u64 = 8 * 1024;

/// The other machine of the session in this directory. If the directory is local, there is none,
/// whatever the machine was called before.
pub(super) fn host_elsewhere(folder: &Folder) -> Option<Host> {
    if !folder.may_be_shared() {
        return None;
    }
    let host = Host::parse(&folder.read(HOST, LONGEST_WORD * 2).ok()?)?;
    Host::ours().is_ok_and(|ours| ours.is_another(&host)).then_some(host)
}

/// The next step for a dead session's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// A caller that knows this cause of its end removes it.
    By(EndedBy),
    None,
}

/// A session, alive or dead.
#[derive(Debug)]
pub(crate) struct SessionDir {
    handle: Handle,
    pub(super) folder: Folder,
    patience: ReplyTimeout,
}

impl SessionDir {
    pub(crate) fn new(handle: Handle, folder: Folder) -> SessionDir {
        SessionDir { handle, folder, patience: ReplyTimeout::OF_ANY }
    }

    /// The same for a call with a deadline: it waits no longer than that for an answer that should
    /// come at once.
    pub(crate) fn within(mut self, deadline: Deadline) -> SessionDir {
        self.patience = ReplyTimeout::until(deadline);
        self
    }

    /// The same where many sessions are to share that time.
    pub(crate) fn within_with_others(mut self, deadline: Deadline) -> SessionDir {
        self.patience = ReplyTimeout::with_many_until(deadline);
        self
    }

    pub(crate) fn patience(&self) -> ReplyTimeout {
        self.patience
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(super) fn trying<T>(&self, result: io::Result<T>, what: &str) -> Result<T> {
        match result {
            Ok(value) => Ok(value),
            // The open directory has been emptied.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_gone() => Err(self.removed()),
            Err(error) => Err(error).trying(format_args!("{what} of session '{}'", self.handle)),
        }
    }

    /// Has it been removed since it was opened? A removal renames it first.
    pub(super) fn is_gone(&self) -> bool {
        !self.folder.still_names(&format!("../{}", self.handle), &self.folder)
    }

    /// The error if it was removed meanwhile.
    pub(crate) fn removed(&self) -> Failure {
        Failure::not_found(format!("session '{}' has been removed, as by a kill", self.handle))
    }

    /// The error if a call requires a live session.
    pub(crate) fn ended(&self) -> Failure {
        if self.is_gone() {
            return self.removed();
        }
        if let Ok(Some((relay, _))) = self.hold_relay()
            && !jail::serves_us(relay, Some(self.handle.number()))
        {
            return Failure::failed(format!(
                "session '{}' rejects this process, which is confined (as by --write-root)",
                self.handle
            ));
        }
        let code = match self.exit_code() {
            Ok(Some(code)) => format!("with exit code {code}"),
            _ => "with an unknown exit code".to_owned(),
        };
        let message = format!("session '{}' has ended {code}{}", self.handle, self.end_cause());
        Failure::failed(message).with_evidence(Notice::describe(self.notice().as_ref(), Object::new()))
    }

    /// The limit or the kill that ended it, as the rest of a sentence; empty if it ended by itself, or
    /// if that is unknown.
    fn end_cause(&self) -> String {
        let settings = self.settings();
        let after = |option: &str, limit: Option<Duration>| {
            let limit = limit.map(|limit| format!(" of {}", numbers::shown_seconds(limit)));
            format!("; its {option}{} ended it", limit.unwrap_or_default())
        };
        match self.ended_by() {
            Some(EndedBy::Timeout) => after("--timeout", settings.timeout),
            Some(EndedBy::IdleTimeout) => after("--idle-timeout", settings.idle_timeout),
            Some(EndedBy::Memory) => "; it reached its --memory".to_owned(),
            Some(EndedBy::Owner) => "; its --owner has ended".to_owned(),
            Some(EndedBy::Kill) => "; a kill ended it".to_owned(),
            None if !self.folder.has(META) => "; it has been removed, as by a kill".to_owned(),
            Some(EndedBy::Itself | EndedBy::Unknown) | None => String::new(),
        }
    }

    /// The cause of its end, from its exit record.
    pub(crate) fn ended_by(&self) -> Option<EndedBy> {
        self.notice()?.ended_by()
    }

    pub(crate) fn is_alive(&self) -> Result<bool> {
        self.trying(self.is_locked(), "read the lock")
    }

    /// For a session on another machine, locks and sockets mean nothing here: it is alive until its
    /// end is recorded.
    pub(super) fn is_locked(&self) -> io::Result<bool> {
        let elsewhere = || self.elsewhere().is_some() && !self.folder.has(EXIT_RECORD);
        match self.folder.open_file(META) {
            Ok(meta) => Ok(files::is_locked(&meta)? || self.is_served() || elsewhere()),
            Err(_) => Ok(self.is_served() || elsewhere()),
        }
    }

    /// The name of the other machine that it is on, which shares the state directory with ours. No
    /// process, lock or socket here belongs to it.
    pub(crate) fn elsewhere(&self) -> Option<String> {
        let host = host_elsewhere(&self.folder)?;
        Some(text::escaped(&host.name))
    }

    /// Fails if the session is on another machine.
    pub(crate) fn check_is_here(&self) -> Result<()> {
        self.elsewhere().map_or(Ok(()), |host| Err(self.is_elsewhere(&host)))
    }

    /// The error if a call requires a session on this machine.
    pub(super) fn is_elsewhere(&self, host: &str) -> Failure {
        Failure::failed(format!(
            "session '{}' is on the machine '{host}', which shares the state directory; call nbs-ts there",
            self.handle
        ))
    }

    /// Does a relay exist, though it does not hold the lock of the current `meta`? That file may have
    /// been replaced or removed. The relay writes its exit record before it releases the lock.
    fn is_served(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        let is_nobody = |error: io::Error| matches!(error.kind(), ConnectionRefused | NotFound);
        !self.folder.has(EXIT_RECORD)
            && !socket::connect(&self.folder, SOCKET, self.patience.deadline()).is_err_and(is_nobody)
    }

    /// The dialect of a shell that reports: the session's own, or a nested one.
    pub(crate) fn dialect(&self, level: usize) -> Result<Dialect> {
        if let Some(dialect) = self.levels()?.get(level).and_then(|level| level.dialect) {
            return Ok(dialect);
        }
        Ok(ShellCommand::parse(&self.command()?).map_or(Dialect::Posix, |shell| shell.dialect))
    }

    pub(crate) fn is_interactive(&self) -> Result<bool> {
        Ok(SessionSpec::is_interactive(&self.command()?))
    }

    pub(crate) fn name(&self) -> Option<Name> {
        Name::parse(&self.folder.read(NAME, LONGEST_WORD).ok()?)
    }

    /// Its settings at the start; empty if they are unreadable.
    pub(crate) fn settings(&self) -> Settings {
        self.intact_settings().unwrap_or_default()
    }

    pub(crate) fn intact_settings(&self) -> Result<Settings> {
        self.trying(Settings::read(&self.folder), "read the settings")
    }

    pub(crate) fn command(&self) -> Result<Vec<u8>> {
        self.trying(self.folder.read(COMMAND, LONGEST_COMMAND), "read the command")
    }

    /// The PID that the relay wrote; [`SessionDir::is_served_by`] proves it.
    pub(super) fn relay_pid(&self) -> Option<u32> {
        self.number(RELAY_PID)
    }

    /// Opens a pidfd of the relay, and returns its PID; `None` if the session is dead. The relay wrote
    /// the PID. If its lock is still held after we opened the pidfd, the PID is right, because the
    /// relay that holds the lock had it all the time. If another process holds the lock, or changed
    /// the file, name and arguments show that.
    pub(crate) fn hold_relay(&self) -> io::Result<Option<(u32, PidFd)>> {
        let Some(pid) = self.relay_pid() else { return Ok(None) };
        let pidfd = PidFd::open(pid)?;
        let is_relay = || Process::read(pid).is_some_and(|process| names(&process, RELAY, &self.handle));
        Ok(pidfd.filter(|_| self.is_served_by(pid) && is_relay()).map(|pidfd| (pid, pidfd)))
    }

    /// Is it alive, and is this its relay's PID?
    pub(crate) fn is_served_by(&self, pid: u32) -> bool {
        self.relay_pid() == Some(pid) && self.is_alive().unwrap_or(false)
    }

    /// The child's PID, for other programs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.number(PID)
    }

    pub(super) fn number<N: std::str::FromStr>(&self, file: &str) -> Option<N> {
        number(self.folder.read(file, LONGEST_WORD).ok()?.trim_ascii_end())
    }

    /// The path of its terminal, if it is known.
    pub(crate) fn terminal(&self) -> Option<String> {
        String::from_utf8(self.folder.read(SLAVE, LONGEST_COMMAND).ok()?).ok()
    }

    /// Leaves bytes to be typed when the program reads. Returns how many there was no room for.
    pub(crate) fn type_later(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut input = self.folder.open_fifo(INPUT)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            match input.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rest.len())
    }

    /// Gives it another name.
    pub(crate) fn rename(&self, name: &Name) -> io::Result<()> {
        self.folder.replace(NAME, name.as_str().as_bytes())
    }

    /// `None` while the child runs, or if its exit code is unknown.
    pub(crate) fn exit_code(&self) -> Result<Option<i32>> {
        let code = files::there(self.folder.read(EXIT_CODE, LONGEST_WORD));
        Ok(self.trying(code, "read the exit code")?.and_then(|code| number(code.trim_ascii_end())))
    }

    /// Records why it is being ended. Only the first cause counts. For cases in which the relay cannot
    /// record it.
    pub(crate) fn note_ending(&self, cause: EndedBy) -> io::Result<()> {
        match self.folder.create(ENDING, cause.word().as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    /// Records that its relay received SIGHUP or SIGTERM.
    pub(crate) fn note_hung_up(&self) -> io::Result<()> {
        match self.folder.create(ENDING, HUNG_UP) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    /// Did its relay receive such a signal before the session ended for another cause?
    pub(super) fn was_hung_up(&self) -> bool {
        self.folder.read(ENDING, LONGEST_WORD).is_ok_and(|word| word == HUNG_UP)
    }

    /// The session by which this dead one was restarted last.
    pub(crate) fn restarted_as(&self) -> Option<Handle> {
        Handle::parse(self.folder.read(RESTARTED_AS, LONGEST_WORD).ok()?.trim_ascii_end())
    }

    pub(crate) fn note_restarted_as(&self, handle: &Handle) -> Result<()> {
        let noted = self.folder.replace(RESTARTED_AS, handle.as_str().as_bytes());
        self.trying(noted, "record the restart")
    }

    /// How a dead session ended: from its exit record, or without one as far as that is known.
    pub(crate) fn end(&self) -> Option<Notice> {
        let late = || Notice::parse(self.late_exit_record(EndedBy::Unknown).json().into_bytes());
        self.notice().or_else(late)
    }

    /// The exit record of a dead session, if there is one by now.
    pub(crate) fn notice(&self) -> Option<Notice> {
        Notice::parse(self.folder.read(EXIT_RECORD, Notice::LONGEST).ok()?)
    }

    /// Records the end of this dead session, in `sessions`, once, even with concurrent callers. If the
    /// relay could not write the exit record, we do. The end of a removed session is already recorded.
    ///
    /// We do not take the session's own lock for this, because a held lock would make the session look
    /// alive. A dead session stays dead.
    pub(crate) fn record_end(&self, events: &Events, sessions: &Folder, removal: Removal) -> io::Result<()> {
        if events.has(&self.handle) {
            return Ok(());
        }
        // A removed directory accepts no file.
        let Some(lock) = files::there(self.folder.open_lock(EXIT_RECORD_LOCK))? else { return Ok(()) };
        let _locked = lock::take(lock, EXIT_RECORD_LOCK, LockKind::Alone, self.patience.deadline())?;
        if events.has(&self.handle) || !sessions.still_names(self.handle.as_str(), &self.folder) {
            return Ok(());
        }
        let unnoted = match removal {
            Removal::By(cause) => cause,
            Removal::None => EndedBy::Unknown,
        };
        let exit_record = self.late_exit_record(unnoted);
        let record = || {
            if !self.folder.has(EXIT_RECORD) {
                let json = exit_record.json();
                match exit_record.ended {
                    Some(ended) => drop(self.folder.replace_as_of(EXIT_RECORD, json.as_bytes(), ended)?),
                    None => self.folder.replace(EXIT_RECORD, json.as_bytes())?,
                }
            }
            events.record(&self.handle, &self.folder)
        };
        match record() {
            // The log is about to go anyway, and leaves room.
            Err(error) if files::may_pass(&error) && removal != Removal::None => {
                self.folder.remove_file(OUTPUT.as_ref())?;
                record()
            }
            other => other,
        }
    }

    /// The exit record of an end that the relay did not record. `unnoted` is the cause if none was
    /// noted.
    pub(crate) fn late_exit_record(&self, unnoted: EndedBy) -> ExitRecord {
        let log = self.log().ok();
        let cause = self.folder.read(ENDING, LONGEST_WORD).ok();
        ExitRecord {
            handle: self.handle.clone(),
            name: self.name(),
            settings: self.settings(),
            status: self.exit_code().ok().flatten().map(ExitStatus::Code),
            ended_by: cause.and_then(EndedBy::parse).unwrap_or(unnoted),
            last_lines: self.last_lines(),
            started: self.started(),
            ended: self.last_sign(),
            output_bytes: log.and_then(|log| log.length().ok()).unwrap_or(0),
            drained: false,
            usage: Usage::default(),
        }
    }

    /// The last lines with anything visible in them, looked for in the last
    /// `OutputLog::TAIL` bytes, as the programs printed them: without our marks.
    /// None where the log cannot be read.
    pub(crate) fn last_lines(&self) -> Vec<Vec<u8>> {
        let Some(tail) = self.log().ok().and_then(|log| log.tail().ok()) else { return Vec::new() };
        text::last_visible_lines(&self.without_marks(&tail), ExitRecord::LAST_LINES)
    }

    /// The last line of output, printable; if the output ends with a shell's prompt, the text before
    /// that.
    pub(crate) fn last_line(&self, at_prompt: bool) -> Option<String> {
        let log = self.log().ok()?;
        let end = log.length().ok()?;
        let tail = log.bytes(end.saturating_sub(LAST_LINE), end).ok()?;
        let lines = self.without_marks(&tail);
        let whole = memchr::memrchr(b'\n', &lines).map_or(0, |end| end + 1);
        let before = if at_prompt { text::last_words_shown(&lines[..whole]) } else { None };
        before.or_else(|| text::last_words_shown(&lines))
    }

    /// Its last report, as far as it is still valid.
    pub(crate) fn kept_report(&self) -> Option<Report> {
        Report::decode(&self.folder.read(REPORT, Report::LONGEST_FILE).ok()?)
    }

    /// A filter that removes the shell's marks from the session's output.
    pub(crate) fn unmarked(&self) -> Result<MarkStripper> {
        Ok(MarkStripper::new(self.secrets()?))
    }

    /// A part of its output without marks, and without the rest of a mark in which it begins. If there is no
    /// secret, there are no marks.
    fn without_marks(&self, bytes: &[u8]) -> Vec<u8> {
        let Ok(mut unmarked) = self.unmarked() else { return bytes.to_vec() };
        let mut rest = Vec::with_capacity(bytes.len());
        unmarked.feed(&bytes[unmarked.rest_of_mark(bytes)..], &mut rest);
        unmarked.finish(&mut rest);
        rest
    }

    /// Its start, the same for every reader; `None` if no file has it any more.
    pub(crate) fn started(&self) -> Option<SystemTime> {
        self.folder.modified(META).ok()
    }

    /// When it ended, as its relay has written it down; or else the last time that it
    /// printed: a relay that was killed did nothing after that which can be seen.
    pub(crate) fn last_sign(&self) -> Option<SystemTime> {
        let written = || Some(UNIX_EPOCH + self.notice()?.ended?);
        let printed = || self.folder.modified(OUTPUT).ok().max(self.started());
        self.folder.modified(EXIT_CODE).ok().or_else(written).or_else(printed)
    }

    /// Has it ended, or is it about to because its relay is ending? Then waits for it.
    ///
    /// The kernel closes the files of a killed relay one after another: one may show its end while another
    /// still holds the lock.
    pub(crate) fn ends(&self) -> Result<bool> {
        if !self.is_alive()? {
            return Ok(true);
        }
        let what = "wait for the relay";
        let Some(pid) = self.relay_pid() else { return Ok(false) };
        if let Some(relay) = Process::read(pid) {
            if !relay.is_ending() {
                return Ok(false);
            }
            if let Some(pidfd) = self.trying(relay.hold(), what)? {
                self.trying(poll::wait_readable(&pidfd, Deadline::after(GOING)), what)?;
            }
        }
        Ok(!self.is_alive()?)
    }

    /// Did the helper make its terminal, so that its processes are not below
    /// its relay?
    pub(crate) fn was_made_by_helper(&self) -> bool {
        self.folder.read(SLAVE, LONGEST_COMMAND).is_ok_and(|slave| slave.is_empty())
    }

    /// The number of the completion that ends, or would have ended, the last command in a session that has
    /// ended. `None` if its relay did not write it: it was killed.
    pub(crate) fn begun_last(&self) -> Option<u64> {
        let lines = self.folder.read(TYPED, LONGEST_COMMAND).ok()?;
        number(lines.split(|byte| *byte == b'\n').nth(1)?)
    }

    pub(crate) fn log(&self) -> Result<OutputLog> {
        let opened = self.folder.open_file(OUTPUT).and_then(|file| {
            let bounded = self.folder.has(LOG_START);
            let folder = bounded.then(|| self.folder.open_folder(".".as_ref())).transpose()?;
            Ok(OutputLog::new(file, folder))
        });
        self.trying(opened, "open the log")
    }

    /// The sizes that the terminal has had, each with the offset in the log at which it began; empty if the
    /// terminal always had the default size. Malformed lines are skipped.
    pub(crate) fn sizes(&self) -> Result<Vec<(u64, Size)>> {
        let lines = self.trying(self.read_if_there(SIZES, LONGEST_COMPLETIONS), "read the sizes")?;
        let size = |line: &str| {
            let mut words = line.split(' ');
            let offset = words.next()?.parse().ok()?;
            let mut side = || words.next()?.parse().ok().filter(|side| *side > 0);
            Some((offset, Size { cols: side()?, rows: side()? }))
        };
        Ok(String::from_utf8_lossy(&lines).lines().filter_map(size).collect())
    }

    /// The times of the output of a recorded session: each line has an offset in the log, and the
    /// microseconds from the start to the output at that offset.
    pub(crate) fn times(&self) -> Result<Option<File>> {
        self.trying(files::there(self.folder.open_file(TIMES)), "open the recording")
    }

    /// The screen that an earlier reader has stored in this file.
    pub(crate) fn kept_screen(&self, file: &str) -> Option<Vec<u8>> {
        self.folder.read(file, LONGEST_SCREEN_CACHE).ok()
    }

    /// The age of the one that is not cut.
    pub(crate) fn kept_screen_age(&self) -> Option<Duration> {
        self.folder.modified(SCREEN_CACHE).ok()?.elapsed().ok()
    }

    /// Replaces it, unless other processes replace one until then.
    pub(crate) fn keep_screen(&self, file: &str, content: &[u8], deadline: Deadline) -> io::Result<()> {
        let lock = self.folder.open_lock(SCREEN_CACHE_LOCK)?;
        let _locked = lock::take(lock, SCREEN_CACHE_LOCK, LockKind::Alone, deadline)?;
        self.folder.replace(file, content)
    }

    pub(crate) fn drop_screen(&self, file: &str) -> io::Result<()> {
        self.folder.remove_file(file.as_ref())
    }

    /// Fails if a session's input is not the FIFO that it was made with.
    pub(crate) fn check_input(&self) -> Result<()> {
        let what = "inspect the input";
        match self.trying(self.folder.has_fifo(INPUT), what)? {
            true => Ok(()),
            false => self.trying(Err(io::Error::other(format!("'{INPUT}' is not nbs's FIFO"))), what),
        }
    }

    /// Excludes other submissions as long as the file is open: some time passes between a text and its Enter.
    pub(super) fn lock_submission(&self) -> Result<File> {
        // This file is never written to, and nothing else locks it.
        let file = self
            .folder
            .open_file(COMMAND)
            .and_then(|file| lock::take(file, COMMAND, LockKind::Alone, self.patience.over()));
        self.trying(file, "wait until others have submitted theirs")
    }

    /// Are we a process of this session?
    pub(crate) fn is_around_us(&self) -> bool {
        std::env::var_os(SESSION_ENV).is_some_and(|handle| handle == self.handle.as_str())
    }

    /// The first completion at or after `cursor`, if there is one by now.
    pub(crate) fn completion_from(&self, cursor: u64) -> Result<Option<Completion>> {
        self.completions().first_from(cursor)
    }

    /// The numbers of the completions that belong to the call that caused them. A completion in this set is
    /// known.
    pub(crate) fn claims(&self) -> Result<Set<u64>> {
        let claims = self.read_if_there(CLAIMS, LONGEST_COMPLETIONS);
        let claims = self.trying(claims, "read the claimed completions")?;
        Ok(claims.split(|byte| *byte == b'\n').filter_map(number).collect())
    }

    /// The content of a file that is not there before it has any.
    pub(super) fn read_if_there(&self, file: &str, limit: u64) -> io::Result<Vec<u8>> {
        match self.folder.read(file, limit) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_gone() => Ok(Vec::new()),
            content => content,
        }
    }
}

/// A line of [`SIZES`].
pub(crate) fn size_line(offset: u64, Size { cols, rows }: Size) -> String {
    format!("{offset} {cols} {rows}\n")
}
