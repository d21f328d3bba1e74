//! The monitor of a worker: ends its session when its task is over.
//!
//! It wakes up on changes of the task file's directory and of the sessions' directory, and when a
//! session's relay ends; otherwise it sleeps until its next deadline. It always ends, at the latest
//! when the worker's time is over. On SIGTERM it ends the session as well, because nothing else would.

use std::{
    env,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::{ffi::OsStringExt, fs::OpenOptionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant, SystemTime},
};

use crate::{
    jail::PROFILE_ENV,
    numbers::shown_seconds,
    outcome::{Failure, Result, Trying},
    session::{EndedBy, Handle, MONITOR, Name, StateDir, Target},
    sys::{
        child, clock,
        deadline::Deadline,
        poll::PollSet,
        signals::{SIGHUP, SIGINT, SIGTERM, Signals},
    },
    terminal::text,
    worker::{
        TaskFile, WorkerHandle,
        lookout::Lookout,
        phase::{Next, StableReading, Why, WorkerPhase},
        remains,
        sessions::{self, Followed},
        status,
    },
};

/// How long a worker may take.
#[derive(Clone, Copy)]
pub(crate) struct WorkerLimits {
    /// Until its session appears.
    pub(crate) startup: Duration,
    /// In all.
    pub(crate) timeout: Duration,
}

impl WorkerLimits {
    pub(crate) const DEFAULT: WorkerLimits =
        WorkerLimits { startup: Duration::from_secs(15), timeout: Duration::from_secs(10 * 60) };
}

/// The messages to a monitor. The first is `GO` or `GO_IN_FOREGROUND`: the agent is about to be
/// started. Then comes `STARTED`: it runs; `UNKNOWN`: it runs, but its handle could not be printed; or
/// `NEVER_MIND`: it could not be started. A caller that hangs up before the first message has started
/// nothing. One that hangs up between the two was killed, and may have started the agent. A caller in
/// the foreground hangs up when it ends. Before that it may send `STOP`: end the worker; or
/// `FORSAKEN`: end it, because no process can do the task any more.
const GO: u8 = b'+';
const GO_IN_FOREGROUND: u8 = b'&';
const STOP: u8 = b'.';
const FORSAKEN: u8 = b'!';
const STARTED: u8 = b'=';
const UNKNOWN: u8 = b'?';
const NEVER_MIND: u8 = b'-';

/// A ready monitor, as seen by the process that started it.
pub(crate) struct Watched {
    child: Child,
    word: UnixStream,
    /// The log of its actions, with times.
    pub(crate) log: PathBuf,
    /// The one that the worker's sessions must have.
    pub(crate) profile: Option<Name>,
}

impl Watched {
    /// Starts the monitor of a worker; returns when nothing can fail there any
    /// more.
    pub(crate) fn start(
        root: &Path,
        task: &TaskFile,
        limits: WorkerLimits,
        profile: Option<&Name>,
    ) -> Result<Watched> {
        let what = "start the monitor";
        let (mut word, theirs) = UnixStream::pair().trying(what)?;
        let mut command = child::ourselves(MONITOR);
        command.arg(task.worker().as_str()).arg(root);
        command.args([limits.startup, limits.timeout].map(|limit| limit.as_millis().to_string()));
        command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).stdout(Stdio::null());
        command.stderr(Stdio::null()).current_dir("/");
        if let Some(profile) = profile {
            command.env(PROFILE_ENV, profile.as_str());
        }
        // Its working directory differs from ours, so relative paths must become absolute.
        for name in ["NBS_TS_HOME", "TMPDIR"] {
            if let Some(path) = env::var_os(name).filter(|path| !path.is_empty()) {
                command.env(name, std::path::absolute(path).trying(what)?);
            }
        }
        let child = command.spawn().trying(what)?;
        drop(command);
        let mut answer = Vec::new();
        word.read_to_end(&mut answer).trying(what)?;
        match answer.split_first() {
            Some((b'+', log)) => {
                let log = OsString::from_vec(log.to_vec()).into();
                Ok(Watched { child, word, log, profile: profile.cloned() })
            }
            Some((_, why)) => Err(Failure::failed(String::from_utf8_lossy(why).into_owned())),
            None => Err(Failure::failed(format!("cannot {what}: it exited without a message"))),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it watch. The agent is started next.
    pub(crate) fn go(&mut self) -> Result<()> {
        self.word.write_all(&[GO]).trying("start the monitor")
    }

    /// The same, for a worker that lives no longer than this end of the connection.
    pub(crate) fn go_in_foreground(&mut self) -> Result<()> {
        self.word.write_all(&[GO_IN_FOREGROUND]).trying("start the monitor")
    }

    /// Makes it end the worker, which may be forsaken. If it has ended by now, so has the worker.
    pub(crate) fn stop(&mut self, is_forsaken: bool) {
        let _ = self.word.write_all(&[if is_forsaken { FORSAKEN } else { STOP }]);
    }

    /// Tells it that the agent has been started, and whether its handle was printed. A monitor that
    /// has ended does not need this.
    pub(crate) fn started(&mut self, is_known: bool) {
        let _ = self.word.write_all(&[if is_known { STARTED } else { UNKNOWN }]);
    }

    /// Ends it, if there is nothing to watch, and leaves nothing, even if it was killed or ran out of
    /// time first.
    pub(crate) fn withdraw(mut self, task: &TaskFile) {
        let _ = self.word.write_all(&[NEVER_MIND]);
        let _ = self.child.wait();
        let _ = task.remove();
        let _ = fs::remove_file(&self.log);
    }
}

pub(crate) struct Monitor {
    task: TaskFile,
    limits: WorkerLimits,
    log: MonitorLog,
    lookout: Lookout,
    stop: Signals,
    // The connection to our caller; `None` once it has no more to send.
    word: Option<UnixStream>,
    // The agent has been started, as it said.
    started: bool,
    // No process can do the task any more, as the call in the foreground reported.
    forsaken: bool,
    followed: Vec<Followed>,
    // Live ones that could not be held at the last look.
    unheld: usize,
    phase: WorkerPhase,
    // The last problem, so that each is logged once.
    trouble: Option<String>,
}

#[derive(Clone, Copy)]
enum MonitorEvent {
    Changed,
    SessionEnded,
    Stop,
    Word,
}

impl Monitor {
    /// Prepares to watch a worker, and notifies the caller at the other end of `word`.
    pub(crate) fn prepare(task: TaskFile, limits: WorkerLimits, word: UnixStream) -> Result<Monitor> {
        let prepared = || -> Result<(Signals, MonitorLog)> {
            let stop = Signals::catch(&[SIGTERM, SIGINT, SIGHUP]).trying("catch signals")?;
            StateDir::open()?;
            Ok((stop, MonitorLog::make(&log_folder())?))
        };
        let send = |answer: Vec<u8>| {
            (&word).write_all(&answer).and_then(|()| word.shutdown(std::net::Shutdown::Write))
        };
        let (stop, log) = match prepared() {
            Ok(prepared) => prepared,
            Err(failure) => {
                // If the caller has gone, there is no one to notify.
                let _ = send(format!("-{failure}").into_bytes());
                return Err(Failure::quiet());
            }
        };
        // If the caller has gone, its missing reply shows that.
        let _ = send([b"+", log.path.as_os_str().as_encoded_bytes()].concat());
        let now = Instant::now();
        let phase = WorkerPhase {
            startup: now,
            timeout: now,
            standing: StableReading::new(now),
            had_session: false,
            doubtful: false,
            told: false,
            in_foreground: false,
        };
        let (lookout, followed) = (Lookout::default(), Vec::new());
        Ok(Monitor {
            task,
            limits,
            log,
            lookout,
            stop,
            word: Some(word),
            started: false,
            forsaken: false,
            followed,
            unheld: 0,
            phase,
            trouble: None,
        })
    }

    pub(crate) fn run(mut self) -> Result<()> {
        let word = self.received();
        self.phase.in_foreground = word == Some(GO_IN_FOREGROUND);
        if word != Some(GO) && !self.phase.in_foreground {
            // No agent was started, and none will be. The file may not exist yet.
            let _ = self.task.remove();
            return self.log.remove();
        }
        self.log.log(&format!(
            "watches '{}' for {}; its session has {} to appear",
            self.task.path().display(),
            shown_seconds(self.limits.timeout),
            shown_seconds(self.limits.startup)
        ));
        let now = Instant::now();
        let latest = |limit| now.checked_add(limit).unwrap_or(now + WorkerLimits::DEFAULT.timeout);
        self.phase.startup = latest(self.limits.startup);
        self.phase.timeout = latest(self.limits.timeout);
        self.phase.standing = StableReading::new(now);
        match self.watch() {
            Ok(Some(why)) => self.finish(&why),
            Ok(None) => return self.log.remove(),
            Err(failure) => {
                self.log.log(&format!("cannot continue: {failure}"));
                self.end_all(EndedBy::Kill);
            }
        }
        self.log.log("ends");
        Ok(())
    }

    /// One message of our caller; `None` if it has hung up.
    fn received(&mut self) -> Option<u8> {
        let mut word = [0];
        let count = self.word.as_mut()?.read(&mut word).unwrap_or(0);
        (count == 1).then_some(word[0])
    }

    /// Runs until there is nothing to watch; `None` if there never was.
    fn watch(&mut self) -> Result<Option<Why>> {
        let mut late = false;
        loop {
            self.look();
            let now = Instant::now();
            let until = match self.phase.next(self.followed.len() + self.unheld, now) {
                Next::Over(why) => return Ok(Some(why)),
                Next::Wait(until) => until,
            };
            if self.phase.is_late(now) && !late {
                late = true;
                let waited = shown_seconds(self.limits.startup);
                self.log.log(&format!("no session has appeared in {waited}; keeps waiting for one"));
            }
            // A file that could not be read need not change again.
            let blind =
                self.trouble.is_some() || self.followed.iter().any(|session| session.relay().is_none());
            let deadline = self.lookout.at_the_latest(Deadline::at(until), blind);
            let mut poll_set = PollSet::new();
            poll_set.readable(&self.stop, MonitorEvent::Stop);
            if let Some(watch) = self.lookout.watched() {
                poll_set.readable(watch, MonitorEvent::Changed);
            }
            if let Some(word) = &self.word {
                poll_set.readable(word, MonitorEvent::Word);
            }
            for relay in self.followed.iter().filter_map(Followed::relay) {
                poll_set.readable(relay, MonitorEvent::SessionEnded);
            }
            for event in poll_set.wait(deadline).trying("wait")? {
                match event {
                    // The check that follows finds the reason.
                    MonitorEvent::Changed | MonitorEvent::SessionEnded => {}
                    MonitorEvent::Stop => {
                        self.stop.take();
                        self.phase.told = true;
                        self.log.log("ended by a signal");
                    }
                    MonitorEvent::Word => match self.received() {
                        Some(NEVER_MIND) => {
                            // Another process may have removed it.
                            let _ = self.task.remove();
                            return Ok(None);
                        }
                        Some(UNKNOWN) => {
                            self.word = None;
                            self.phase.told = true;
                            self.log.log("its handle could not be printed");
                        }
                        Some(STARTED) if self.phase.in_foreground => self.started = true,
                        Some(word @ (STOP | FORSAKEN)) => {
                            self.word = None;
                            self.phase.told = true;
                            self.forsaken = word == FORSAKEN;
                            self.log.log("ended by the process that waits for the worker");
                        }
                        None if self.phase.in_foreground => {
                            self.word = None;
                            self.phase.told = true;
                            self.phase.doubtful = !self.started;
                            self.log.log("the process that waited for the worker has ended");
                        }
                        word => {
                            self.word = None;
                            self.phase.doubtful = word != Some(STARTED);
                            if self.phase.doubtful {
                                self.log.log("the process that starts the agent was killed");
                            }
                        }
                    },
                }
            }
        }
    }

    fn look(&mut self) {
        let result = self.look_at_all();
        let trouble = result.err().map(|failure| failure.to_string());
        if trouble != self.trouble {
            self.log.log(trouble.as_deref().unwrap_or("continues as usual"));
            self.trouble = trouble;
        }
    }

    /// Checks everything that it can, and returns the first error.
    fn look_at_all(&mut self) -> Result<()> {
        let state_dir = StateDir::open();
        let sessions = state_dir.as_ref().ok().map(StateDir::sessions_path);
        let folders: Vec<&Path> =
            [Some(self.task.folder()), sessions.as_deref()].into_iter().flatten().collect();
        let watched = self.lookout.watch(&folders);
        let read = self.task.reading().map(|reading| {
            if *self.phase.standing.reading() != reading {
                self.log.log(&format!("the task file: {reading}"));
            }
            self.phase.standing.note(reading, Instant::now());
        });
        // Whether or not they can be listed; and before, because another may take its place meanwhile.
        self.let_go(Followed::has_ended);
        let found = state_dir.and_then(|state_dir| self.find_sessions(&state_dir));
        watched.trying("watch for changes, and so polls")?;
        read.and(found)
    }

    fn find_sessions(&mut self, state_dir: &StateDir) -> Result<()> {
        let found = sessions::find(state_dir, self.task.worker(), &self.task.all_workers())?;
        let mut held = Ok(());
        self.unheld = 0;
        for handle in &found.live {
            if self.followed.iter().any(|session| session.handle == *handle) {
                continue;
            }
            self.phase.had_session = true;
            match Followed::open_if_there(state_dir, handle) {
                Ok(Some(session)) if !session.has_ended() => {
                    self.log.log(&format!("found session {handle}"));
                    self.followed.push(session);
                    if !has_profile(state_dir, handle) {
                        self.phase.told = true;
                        self.log.log(&format!("session {handle} does not have the profile of the worker"));
                    }
                }
                Ok(_) => {}
                Err(failure) => {
                    self.unheld += 1;
                    held = Err(failure);
                }
            }
        }
        if !self.phase.had_session {
            for handle in &found.dead {
                match Followed::open_if_there(state_dir, handle) {
                    Ok(session) => {
                        self.phase.had_session = true;
                        self.log.log(&format!("session {handle} has ended before it was seen"));
                        if let Some(session) = session {
                            self.keep_output(&session);
                        }
                    }
                    Err(failure) => held = Err(failure),
                }
            }
        }
        // A session lives as long as its relay, even if its directory was removed.
        self.let_go(|session| session.relay().is_none() && !found.live.contains(&session.handle));
        held
    }

    /// Follows those no more that are over.
    fn let_go(&mut self, is_over: impl Fn(&Followed) -> bool) {
        let (over, followed): (Vec<_>, Vec<_>) = self.followed.drain(..).partition(is_over);
        self.followed = followed;
        for session in over {
            self.log.log(&format!("session {} has ended", session.handle));
            self.keep_output(&session);
        }
    }

    fn keep_output(&mut self, session: &Followed) {
        if let Err(failure) = session.keep_output(&self.task) {
            self.log.log(&failure.to_string());
        }
    }

    fn finish(&mut self, why: &Why) {
        match why {
            Why::SessionGone => self.log.log("no session is left"),
            Why::NeverBegun => self.log.log("apparently no agent was started"),
            Why::Told => {}
            Why::State(state) => self.log.log(&format!("the task is over: {state}")),
            Why::FileGone => self.log.log("the task file is gone, so the task cannot be finished"),
            Why::TimedOut => self.log.log(&format!("timed out after {}", shown_seconds(self.limits.timeout))),
        }
        let is_gone = matches!(why, Why::SessionGone | Why::NeverBegun);
        if !is_gone || self.phase.in_foreground {
            self.end_all(if *why == Why::TimedOut { EndedBy::Timeout } else { EndedBy::Kill });
        }
        let state = match why {
            Why::TimedOut => status::TIMED_OUT,
            Why::State(_) | Why::FileGone => return,
            _ if self.phase.told && !self.forsaken => status::ENDED,
            Why::Told | Why::SessionGone | Why::NeverBegun => return,
        };
        if let Err(failure) = self.task.conclude(state) {
            self.log.log(&failure.to_string());
        }
    }

    /// Ends every session of the worker; in the foreground, all that it has started.
    fn end_all(&mut self, cause: EndedBy) {
        if self.phase.in_foreground {
            // Else there would be another session in a moment.
            self.end_remains(remains::end_bearers_outside);
        }
        self.end_sessions(cause);
        if self.phase.in_foreground {
            self.end_remains(remains::end_all_bearers);
        }
    }

    fn end_remains(&mut self, end: impl FnOnce(&WorkerHandle) -> Result<()>) {
        if let Err(failure) = end(self.task.worker()) {
            self.log.log(&failure.to_string());
        }
    }

    /// Follows those sessions, too, that the worker has made under other names.
    fn follow_born(&mut self) {
        let mut follow = || -> Result<()> {
            let state_dir = StateDir::open()?;
            for handle in sessions::born_of(&state_dir, self.task.worker())? {
                if !self.followed.iter().any(|session| session.handle == handle)
                    && let Some(session) = Followed::open_if_there(&state_dir, &handle)?
                {
                    self.log.log(&format!("found session {handle}, of another name"));
                    self.followed.push(session);
                }
            }
            Ok(())
        };
        if let Err(failure) = follow() {
            self.log.log(&failure.to_string());
        }
    }

    /// Ends every session of the worker, also one that comes meanwhile.
    fn end_sessions(&mut self, cause: EndedBy) {
        /// A session that cannot be ended is not tried for ever.
        const ROUNDS: usize = 3;
        for _ in 0..ROUNDS {
            self.look();
            if self.phase.in_foreground {
                self.follow_born();
            }
            if self.followed.is_empty() && self.unheld == 0 {
                return;
            }
            for session in std::mem::take(&mut self.followed) {
                match session.end(cause, &self.task) {
                    Ok(()) => self.log.log(&format!("ended session {}", session.handle)),
                    Err(failure) => self.log.log(&failure.to_string()),
                }
            }
        }
    }
}

/// The log of the monitor's actions.
/// Is a session confined by the profile of our environment, if there is one?
fn has_profile(state_dir: &StateDir, handle: &Handle) -> bool {
    let Some(wanted) = env::var_os(PROFILE_ENV).filter(|name| !name.is_empty()) else { return true };
    let session = state_dir.session(&Target::Handle(handle.clone()));
    session.is_ok_and(|session| session.settings().jail.profile.as_deref() == Some(wanted.as_encoded_bytes()))
}

struct MonitorLog {
    path: PathBuf,
    file: File,
}

fn log_folder() -> PathBuf {
    let set = env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    set.map_or_else(|| "/tmp".into(), PathBuf::from)
}

impl MonitorLog {
    /// Creates the log of this process. It does not use an existing link or file of that name
    /// (open(2), O_EXCL), but removes it if it can.
    fn make(folder: &Path) -> Result<MonitorLog> {
        let path = folder.join(format!("nbs-spawn-worker-monitor-{}.log", std::process::id()));
        let what = format!("make the monitor's log '{}'", path.display());
        let make = || OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let file = match make() {
            // A process that had our PID left it, or another user planted it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&path).and_then(|()| make()).trying(what)?
            }
            other => other.trying(what)?,
        };
        Ok(MonitorLog { path, file })
    }

    fn log(&mut self, what: &str) {
        let line = format!("[{}] {}\n", clock::utc(SystemTime::now()), text::escaped(what.as_bytes()));
        // The monitor continues even if it cannot log.
        let _ = self.file.write_all(line.as_bytes());
    }

    /// There was nothing to log.
    fn remove(&self) -> Result<()> {
        fs::remove_file(&self.path).trying("remove the monitor's log")
    }
}
