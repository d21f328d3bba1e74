//! The invariants of a state directory, whatever was killed, stopped or full.
//!
//! - A command knows every file in it. Each file has the right type, and only its owner can read
//!   or write it.
//! - Cursors, sizes and the start of a bounded log are never beyond the log's end, and the rest of
//!   a bounded log exists.
//! - completion.log has whole lines with ascending numbers.
//! - A dead session has an exit record, and `events/` has it as well; if a killed relay could not
//!   write it, the next reader does, as here.
//! - Only the relay holds a session's lock.
//! - No process has the variable of a session that is dead or gone.
//!
//! All of this may change during the check. So of two related things we read the one that only grows
//! last, and ignore faults of a session that has gone meanwhile.

use std::{ffi::OsStr, io, os::unix::ffi::OsStrExt, time::Duration};

use crate::{
    outcome::Result,
    session::{
        ALIVE, BRIDGES, Completion, EVENTS, EXIT_RECORD, Events, FAR, HELPER_LOCK, HELPER_SOCKET, HISTORY,
        Handle, KEEPER, LOG_START, MACHINES, MACHINES_LOCK, MONITOR, Name, PROFILES, RELAY, REPORT,
        SESSION_ENV, SessionDir, StateDir,
        client::{Parts, RelayClient},
        dir, handle_of, rules, secret_form,
        settings::SETTINGS,
        state_dir,
    },
    sys::{
        deadline::Deadline,
        files::{Folder, Nature},
        poll,
        processes::{self, Process},
    },
    terminal::text,
};

/// A fault, and what to do about it.
pub(crate) struct Fault {
    pub(crate) what: String,
    pub(crate) fix: String,
}

/// The number of things checked.
#[derive(Default)]
pub(crate) struct CheckReport {
    pub(crate) alive: usize,
    pub(crate) dead: usize,
    pub(crate) faults: Vec<Fault>,
}

/// The possible files of a session, as the topic `files` lists them: `NAME` is a reader's, and `*`
/// follows from the others.
const OF_A_SESSION: [(&str, Nature); 40] = [
    (dir::OUTPUT, Nature::File),
    (LOG_START, Nature::File),
    (dir::INPUT, Nature::Fifo),
    (dir::COMMAND, Nature::File),
    (dir::META, Nature::File),
    (dir::NAME, Nature::File),
    (dir::HOST, Nature::File),
    (SETTINGS, Nature::File),
    (dir::PID, Nature::File),
    (dir::RELAY_PID, Nature::File),
    (dir::SLAVE, Nature::File),
    (dir::COMPLETIONS, Nature::File),
    (dir::CLAIMS, Nature::File),
    (HISTORY, Nature::File),
    (dir::EXIT_CODE, Nature::File),
    (EXIT_RECORD, Nature::File),
    (dir::ENDING, Nature::File),
    (REPORT, Nature::File),
    (dir::RESTARTED_AS, Nature::File),
    (dir::READ_CURSOR, Nature::File),
    ("read_cursor.NAME", Nature::File),
    (dir::COMPLETION_CURSOR, Nature::File),
    ("bashrc", Nature::File),
    (".zshenv", Nature::File),
    ("config.fish", Nature::File),
    ("shrc", Nature::File),
    (dir::SOCKET, Nature::Socket),
    (dir::RUN, Nature::File),
    (dir::RUN_TEXT, Nature::File),
    (dir::PROMPTS, Nature::File),
    (dir::TYPED, Nature::File),
    (dir::SIZES, Nature::File),
    (dir::TIMES, Nature::File),
    (dir::SCREEN_CACHE, Nature::File),
    ("cut.NUMBER", Nature::File),
    (dir::SECRET, Nature::File),
    (secret_form::FORM, Nature::File),
    (LOCKS, Nature::File),
    (dir::PRIVATE, Nature::Folder),
    (REPLACED, Nature::File),
];
const LOCKS: &str = "lock.*";
const REPLACED: &str = ".*.new";

/// The same for the state directory.
const OF_THE_STATE_DIR: [(&str, Nature); 16] = [
    (state_dir::SESSIONS, Nature::Folder),
    (EVENTS, Nature::Folder),
    (HELPER_SOCKET, Nature::Socket),
    (HELPER_LOCK, Nature::File),
    (state_dir::HELPER_MISSED, Nature::File),
    (state_dir::ENSURE_LOCK, Nature::File),
    (MACHINES, Nature::File),
    (MACHINES_LOCK, Nature::File),
    (BRIDGES, Nature::Folder),
    (FAR, Nature::Folder),
    (state_dir::PAGE_TOKEN, Nature::File),
    (state_dir::PAGE_PORT, Nature::File),
    (state_dir::PANICS, Nature::File),
    (state_dir::TMUX, Nature::Folder),
    (rules::FOLDER, Nature::Folder),
    (PROFILES, Nature::Folder),
];

/// Longer than any panic's message. The file only grows if several are not reported.
const MOST_OF_PANICS: u64 = 1 << 20;

/// The prefix of the file by which `doctor` checks that it can write.
pub(crate) const TRIAL: &str = ".doctor.";

/// How long a process may take to go once its session has ended: the kernel may be
/// closing its files, and a shell may still be acting on its hang-up.
const GOING: Duration = Duration::from_secs(2);

/// The same for its relay, which may have to wait for a slow disk: it goes when its log
/// is synced.
const SYNCING: Duration = Duration::from_secs(20);

impl StateDir {
    /// Looks at all of it; writes what exit records are missing.
    pub(crate) fn check(&self) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        report.faults.extend(self.strangers_in_state_dir());
        report.faults.extend(self.last_panic());
        report.faults.extend(self.faults_of_rules());
        let events = self.events()?;
        for name in self.names()? {
            match Handle::parse(name.as_bytes()) {
                Some(handle) => self.look_at(handle, &events, &mut report),
                None if state_dir::is_on_its_way(&name) => {}
                None => report.faults.push(unknown(&self.sessions_path().display(), &name)),
            }
        }
        report.faults.extend(self.faults_of_events(&events));
        report.faults.extend(self.left_behind());
        Ok(report)
    }

    fn strangers_in_state_dir(&self) -> Vec<Fault> {
        let Ok(folder) = Folder::open(self.path()) else { return Vec::new() };
        let known = |name: &OsStr| match name.as_bytes().starts_with(TRIAL.as_bytes()) {
            true => Some(Nature::File),
            false => OF_THE_STATE_DIR.iter().find(|(known, _)| name == *known).map(|(_, nature)| *nature),
        };
        strangers(&folder, &self.path().display(), known)
    }

    fn faults_of_rules(&self) -> Vec<Fault> {
        let path = self.path().join(rules::FOLDER);
        let told = |(name, why): (String, Option<String>)| {
            let what = format!("the rules in '{}/{name}' are ignored: {}", path.display(), why?);
            Some(Fault { what, fix: "see 'nbs help waiting' for how rules are written".into() })
        };
        self.own_rules().into_iter().filter_map(told).collect()
    }

    fn last_panic(&self) -> Option<Fault> {
        let lines = Folder::open(self.path()).ok()?.read(state_dir::PANICS, MOST_OF_PANICS).ok()?;
        let last = text::last_visible_lines(&lines, 1).pop()?;
        let path = self.path().join(state_dir::PANICS);
        Some(Fault {
            what: text::escaped(&last).to_string(),
            fix: format!("report that line, then remove '{}'", path.display()),
        })
    }

    fn look_at(&self, handle: Handle, events: &Events, report: &mut CheckReport) {
        let Ok(session) = self.open_session(handle.clone()) else { return };
        let mut faults = Vec::new();
        // If that is unknown, it counts as alive, and the error is reported.
        let alive = session.is_alive().unwrap_or_else(|failure| {
            faults.push(fault(&session, failure.message().unwrap_or_default()));
            true
        });
        let stall = RelayClient::open(&session).ok().flatten();
        let stall = stall.and_then(|mut relay| relay.snapshot(Parts::NONE).ok()??.stall());
        if let Some(stall) = stall {
            faults.push(Fault {
                what: format!("session '{handle}': {stall}"),
                fix: "make room for it; nothing is lost".into(),
            });
        }
        if !alive {
            let told = self.record_end_of(handle);
            if let Some(why) = told.as_ref().err().and_then(|failure| failure.message()) {
                faults
                    .push(Fault { what: why.to_owned(), fix: "make room for it, and run this again".into() });
            } else if !events.has(session.handle()) || session.notice().is_none() {
                faults.push(fault(&session, "has ended without an exit record"));
            }
        }
        faults.extend(session.faults(&self.sessions_path().join(session.handle().as_str()).display()));
        if self.still_has(&session) {
            report.faults.append(&mut faults);
            *(if alive { &mut report.alive } else { &mut report.dead }) += 1;
        }
    }

    fn faults_of_events(&self, events: &Events) -> Vec<Fault> {
        let path = self.path().join(EVENTS);
        let known = |name: &OsStr| {
            let copied = name.as_bytes().strip_prefix(b".").and_then(|name| name.strip_suffix(b".new"));
            let is_ours = name == ALIVE || handle_of(copied.map_or(name, OsStr::from_bytes)).is_some();
            is_ours.then_some(Nature::File)
        };
        let mut faults =
            Folder::open(&path).map_or(Vec::new(), |folder| strangers(&folder, &path.display(), known));
        for handle in events.handles().unwrap_or_default() {
            let is_sound = events.notice(&handle).is_some_and(|notice| notice.is_of(&handle));
            if !is_sound && events.has(&handle) {
                faults.push(Fault {
                    what: format!(
                        "'{}' is not an exit record of session '{handle}'",
                        path.join(format!("{handle}.json")).display()
                    ),
                    fix: "remove it".into(),
                });
            }
        }
        faults
    }

    /// Processes whose session has ended, or has gone.
    fn left_behind(&self) -> Vec<Fault> {
        let (going, synced) = (Deadline::after(GOING), Deadline::after(SYNCING));
        let mut faults = Vec::new();
        for process in processes::all().unwrap_or_default() {
            let Some(handle) = self.session_of(&process).filter(|handle| !self.may_have_processes(handle))
            else {
                continue;
            };
            let Ok(Some(pidfd)) = process.hold() else { continue };
            let patience = if process.name == RELAY { synced } else { going };
            if poll::wait_readable(&pidfd, patience).unwrap_or(false) || self.may_have_processes(&handle) {
                continue;
            }
            let pid = process.pid;
            let fix = match self.open_session(handle.clone()) {
                Ok(_) => format!("'nbs-ts kill {handle}' ends it, unless it should stay"),
                Err(_) => format!("'kill {pid}' ends it, unless it should stay"),
            };
            let what = format!(
                "process {pid} ({}) is left over from session '{handle}', which has ended",
                process.name
            );
            faults.push(Fault { what, fix });
        }
        faults
    }

    /// The session of this state directory that a process belongs to, if there is one. The arguments
    /// of a relay and a keeper name it, because they may have been started in another session.
    fn session_of(&self, process: &Process) -> Option<Handle> {
        if process.has_ended() || (process.name == MONITOR && process.runs_our_file()) {
            return None;
        }
        let [variable, state, home] = process.variables([SESSION_ENV, "NBS_TS_HOME", "HOME"]);
        let variable = Handle::parse(&variable?)?;
        let path = match state.filter(|state| !state.is_empty()) {
            Some(state) => OsStr::from_bytes(&state).into(),
            None => std::path::Path::new(OsStr::from_bytes(&home?)).join(state_dir::USUAL),
        };
        if path != self.path() || !process.is_of_our_user() {
            return None;
        }
        if process.name == RELAY || process.name == KEEPER {
            return process.arguments().get(1).and_then(|word| Handle::parse(word)).or(Some(variable));
        }
        Some(variable)
    }

    /// Is it alive, or being made? It is made before it is alive, so that is asked
    /// first.
    fn may_have_processes(&self, handle: &Handle) -> bool {
        self.is_being_made(handle)
            || self.open_session(handle.clone()).is_ok_and(|session| session.is_alive().unwrap_or(true))
    }
}

impl SessionDir {
    /// The faults of its files; `path` is for messages.
    fn faults(&self, path: &std::path::Display) -> Vec<Fault> {
        let mut faults = strangers(&self.folder, path, nature_of);
        let needed = [dir::META, dir::COMMAND, dir::OUTPUT, dir::INPUT];
        let missing = needed.into_iter().filter(|name| !self.folder.has(name));
        faults.extend(missing.map(|name| fault(self, &format!("has lost its '{name}'"))));
        for found in [self.fault_of_log(), self.fault_of_completions(), self.fault_of_lock()] {
            // An unreadable file is missing or has the wrong type, which is already reported.
            faults.extend(found.unwrap_or_default().map(|what| fault(self, &what)));
        }
        faults
    }

    fn fault_of_log(&self) -> io::Result<Option<String>> {
        let mut cursors = Vec::new();
        for name in self.folder.names()?.iter().filter_map(|name| name.to_str()) {
            if is_read_cursor(name) {
                cursors.push((name.to_owned(), self.number::<u64>(name)));
            }
        }
        let sizes = self.read_if_there(dir::SIZES, dir::LONGEST_COMPLETIONS)?;
        let Ok(log) = self.log() else { return Ok(None) };
        let hole = log.first_data()?;
        let start = log.start()?;
        let length = log.length()?;
        for (name, cursor) in cursors {
            match cursor {
                None if self.is_written(&name) => {
                    return Ok(Some(format!(
                        "'{name}' does not contain a \
                    number"
                    )));
                }
                Some(cursor) if cursor > length => {
                    return Ok(Some(format!("'{name}' is {cursor}, and the log has {length} bytes")));
                }
                _ => {}
            }
        }
        if start > length {
            return Ok(Some(format!("'{}' is {start}, and the log has {length} bytes", LOG_START)));
        }
        if hole > start && hole > 0 && start < length {
            return Ok(Some(format!("its log has a hole up to {hole}, and should begin at {start}")));
        }
        Ok(fault_of_sizes(&sizes, length))
    }

    /// A cursor that is empty, after a power cut, counts as 0.
    fn is_written(&self, cursor: &str) -> bool {
        self.folder.read(cursor, 1).map_or_else(|_| self.folder.has(cursor), |content| !content.is_empty())
    }

    fn fault_of_completions(&self) -> io::Result<Option<String>> {
        let cursor = self.number::<u64>(dir::COMPLETION_CURSOR);
        let content = self.read_if_there(dir::COMPLETIONS, dir::LONGEST_COMPLETIONS)?;
        let last = match Completion::last_of(&content) {
            Ok(last) => last,
            Err(line) => {
                let line = text::escaped(line);
                return Ok(Some(format!("'{}' has a line '{line}' out of order", dir::COMPLETIONS)));
            }
        };
        let first = self.first_completion().unwrap_or(0);
        let most = last.map_or(first, |last| last.saturating_add(1).max(first));
        Ok(match cursor {
            None if self.is_written(dir::COMPLETION_CURSOR) => {
                Some(format!("'{}' does not contain a number", dir::COMPLETION_CURSOR))
            }
            Some(cursor) if cursor > most => {
                Some(format!("'{}' is {cursor}, which is beyond the completions", dir::COMPLETION_CURSOR))
            }
            _ => None,
        })
    }

    /// We check the process first: once it has gone, so has its lock.
    fn fault_of_lock(&self) -> io::Result<Option<String>> {
        let is_relay = |process: &Process| process.name == RELAY && !process.has_ended();
        let relay = self.relay_pid().and_then(Process::read).filter(is_relay);
        let is_anothers = relay.is_none() && self.elsewhere().is_none() && self.is_alive().unwrap_or(false);
        Ok(is_anothers.then(|| "is locked by a process that is not its relay".into()))
    }
}

/// The right type of a session's file, if a command knows it.
fn nature_of(name: &OsStr) -> Option<Nature> {
    let listed =
        |name: &str| OF_A_SESSION.iter().find(|(known, _)| *known == name).map(|(_, nature)| *nature);
    let name = name.to_str()?;
    if let Some(replaced) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new")) {
        return listed(replaced)
            .filter(|nature| *nature == Nature::File)
            .or((is_read_cursor(replaced) || is_cut(replaced)).then_some(Nature::File));
    }
    if let Some(locked) = name.strip_prefix("lock.") {
        let is_ours = is_read_cursor(locked) || [dir::COMPLETION_CURSOR, "screen", "exit"].contains(&locked);
        return is_ours.then_some(Nature::File);
    }
    if is_read_cursor(name) || is_cut(name) {
        Some(Nature::File)
    } else {
        listed(name).filter(|_| !name.contains('*'))
    }
}

fn is_cut(name: &str) -> bool {
    name.strip_prefix(dir::CUT).is_some_and(|offset| offset.parse::<u64>().is_ok())
}

fn is_read_cursor(name: &str) -> bool {
    match name.strip_prefix(dir::READ_CURSOR) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('.').is_some_and(|reader| Name::parse(reader.as_bytes()).is_some()),
        None => false,
    }
}

/// Lines `<offset> <cols> <rows>`, the first from 0 on, in order and within the log.
fn fault_of_sizes(content: &[u8], length: u64) -> Option<String> {
    let mut from = 0;
    for (number, line) in content.split_inclusive(|byte| *byte == b'\n').enumerate() {
        // It is still being written, or its relay was killed at that.
        let Some(line) = line.strip_suffix(b"\n") else { break };
        let words: Vec<Option<u64>> = line
            .split(|byte| *byte == b' ')
            .map(|word| std::str::from_utf8(word).ok()?.parse().ok())
            .collect();
        let sides = 1..=u64::from(u16::MAX);
        let offset = match words[..] {
            [Some(offset), Some(cols), Some(rows)] if sides.contains(&cols) && sides.contains(&rows) => {
                offset
            }
            _ => return Some(format!("'{}' has a line '{}'", dir::SIZES, text::escaped(line))),
        };
        if offset < from || offset > length || (number == 0 && offset != 0) {
            return Some(format!("'{}' has the offset {offset} out of order", dir::SIZES));
        }
        from = offset;
    }
    None
}

/// The files in a directory that no command knows, or that have the wrong type.
fn strangers(
    folder: &Folder,
    path: &std::path::Display,
    known: impl Fn(&OsStr) -> Option<Nature>,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for name in folder.names().unwrap_or_default() {
        // Gone since it was listed.
        let Ok((nature, is_private)) = folder.nature(&name) else { continue };
        match known(&name) {
            None => faults.push(unknown(path, &name)),
            Some(expected) if expected != nature => faults.push(Fault {
                what: format!("'{path}/{}' is {nature}, but should be {expected}", name.display()),
                fix: "move it away".into(),
            }),
            Some(_) if !is_private => faults.push(Fault {
                what: format!("'{path}/{}' is accessible to others", name.display()),
                fix: "'chmod go-rwx' it".into(),
            }),
            Some(_) => {}
        }
    }
    faults
}

fn unknown(path: &std::path::Display, name: &OsStr) -> Fault {
    Fault { what: format!("'{path}/{}' is not a file of nbs", name.display()), fix: "move it away".into() }
}

/// The advice is the same for all faults within a session.
fn fault(session: &SessionDir, what: &str) -> Fault {
    let handle = session.handle();
    Fault {
        what: format!("session '{handle}': {what}"),
        fix: format!(
            "save what you need from it, then 'nbs-ts kill {handle}'; if you did not change its files, this \
             is a bug of nbs"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_the_same_files() {
        let page = include_str!("../help/topics/files.md");
        let section =
            page.split_once("## The files of a session\n").unwrap().1.split_once("\n## ").unwrap().0;
        let items = section.split("\n- ").skip(1).map(|item| item.split_once(": ").unwrap().0);
        let mut listed: Vec<&str> = items.flat_map(|names| names.split('`').skip(1).step_by(2)).collect();
        let mut known: Vec<String> = OF_A_SESSION
            .iter()
            .map(|(name, nature)| if *nature == Nature::Folder { format!("{name}/") } else { (*name).into() })
            .collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, listed);
        for (name, _) in OF_THE_STATE_DIR {
            assert!(page.contains(&format!("`{name}")), "{name}");
        }
    }

    #[test]
    fn a_file_is_known_by_what_it_is_derived_from() {
        let known = |name: &str| nature_of(OsStr::new(name)).is_some();
        for name in [
            "meta",
            "read_cursor.a.b",
            "lock.read_cursor",
            "lock.read_cursor.x",
            "lock.completion_cursor",
            "lock.screen",
            "lock.exit",
            ".exit.json.new",
            ".log_start.new",
            ".read_cursor.x.new",
            "cut.70",
            ".cut.70.new",
            "tmp",
        ] {
            assert!(known(name), "{name}");
        }
        for name in [
            "",
            "x",
            "read_cursor.",
            "read_cursor.-",
            "cut.",
            "cut.x",
            "lock.*",
            ".*.new",
            ".tmp.new",
            ".x.new",
            "lock.x",
            "meta~",
        ] {
            assert!(!known(name), "{name}");
        }
    }

    #[test]
    fn sizes_are_in_order_and_within_the_log() {
        for sound in ["", "0 80 24\n", "0 80 24\n0 90 24\n7 1 65535\n", "0 80 24\n7 9"] {
            assert_eq!(fault_of_sizes(sound.as_bytes(), 7), None, "{sound:?}");
        }
        for unsound in
            ["1 80 24\n", "0 80 24\n8 80 24\n", "0 0 24\n", "0 80\n", "0 80 24\n5 8 8\n4 8 8\n", "\n"]
        {
            assert!(fault_of_sizes(unsound.as_bytes(), 7).is_some(), "{unsound:?}");
        }
    }
}
