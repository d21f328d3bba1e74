//! The state directory: all sessions of a user, including those being made or removed.
//!
//! In `sessions/`, a directory named by a handle is a complete session. One named `.new.<handle>` is
//! being made: its `create`, and then its relay, hold the lock of its `meta` from before it has any
//! content. The relay renames it when it is complete. One named `.gone.<handle>` is being removed. So
//! incomplete sessions are never visible, and a free lock marks what a killed `create` left.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{File, TryLockError},
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{
    outcome::{Failure, Reason, Result, Trying},
    session::{EndedBy, Events, Handle, ListEntry, Name, Notice, Removal, SessionDir, Target, dir, handle},
    sorted::Set,
    sys::{
        deadline::Deadline,
        files::{self, Folder},
        host::Host,
        lock,
    },
};

pub(crate) struct StateDir {
    // Absolute, because a relay leaves the directory that it is started in.
    path: PathBuf,
    // `None` if no session was ever made.
    sessions: Option<Folder>,
}

pub(super) const SESSIONS: &str = "sessions";
pub(super) const ENSURE_LOCK: &str = "lock.ensure";
/// The known machines and their commands; locked while it is changed.
pub(crate) const MACHINES: &str = "machines";
pub(crate) const MACHINES_LOCK: &str = "machines.lock";
/// Directories: of the bridges to other machines, and of the processes that serve bridges from there.
pub(crate) const BRIDGES: &str = "bridges";
pub(crate) const FAR: &str = "far";
/// The socket of the helper that serves this state directory.
pub(crate) const HELPER_SOCKET: &str = "helper.sock";
/// Held by a helper for as long as it lives; the PID in it is for messages.
pub(crate) const HELPER_LOCK: &str = "helper.lock";
/// The boot in which a caller was warned that there is no helper: the kernel's random id of it.
pub(super) const HELPER_MISSED: &str = "helper.missed";
/// A folder for each tmux namespace (`-L`, `-S`).
pub(crate) const TMUX: &str = "tmux";
/// [`crate::panics`] appends to it.
pub(crate) const PANICS: &str = "panics.log";
/// Sets of restrictions for sessions.
pub(crate) const PROFILES: &str = "profiles";
/// Its content gives access to the page.
pub(crate) const PAGE_TOKEN: &str = "page.token";
/// The port that the page had last.
pub(crate) const PAGE_PORT: &str = "page.port";
/// In HOME, if NBS_TS_HOME is not set.
pub(super) const USUAL: &str = ".nbs-ts";
/// How long to wait for another `ensure`. With a helper that does not answer it starts a session within
/// seconds, and many may do so one after another.
const ENSURING: Duration = Duration::from_secs(20);

const NEW: &str = ".new.";
const GONE: &str = ".gone.";

impl StateDir {
    /// Opens the state directory; a missing one has no sessions.
    pub(crate) fn open() -> Result<StateDir> {
        StateDir::open_at(StateDir::chosen_path()?)
    }

    /// Opens the state directory, and makes it if it is missing.
    pub(crate) fn open_or_make() -> Result<StateDir> {
        let state_dir = StateDir::open()?;
        if state_dir.sessions.is_some() {
            return Ok(state_dir);
        }
        let what = format!("create the state directory '{}'", state_dir.path.display());
        files::make_private_folders(&state_dir.path).trying(&what)?;
        // We put nothing into a directory that others can access.
        let state_dir = StateDir::open_at(state_dir.path)?;
        match Folder::open(&state_dir.path).and_then(|folder| folder.make_folder(OsStr::new(SESSIONS))) {
            // By another call, at the same time.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => drop(other.trying(&what)?),
        }
        StateDir::open_at(state_dir.path)
    }

    /// `$NBS_TS_HOME`, else `$HOME/.nbs-ts`.
    fn chosen_path() -> Result<PathBuf> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = set("NBS_TS_HOME").or_else(|| Some(set("HOME")?.join(USUAL))).ok_or_else(|| {
            Failure::failed("cannot find the state directory: neither NBS_TS_HOME nor HOME is set".into())
        })?;
        files::absolute(&path).trying(format_args!("find the state directory '{}'", path.display()))
    }

    fn open_at(path: PathBuf) -> Result<StateDir> {
        let what = format!("use the state directory '{}'", path.display());
        let refused = |reason| Err(Failure::failed(format!("cannot {what}: {reason}")));
        let opened = files::there(Folder::open_if_not_strangers_link(&path));
        let Some(folder) = opened.trying(&what)? else { return Ok(StateDir { path, sessions: None }) };
        let Some(folder) = folder else { return refused("it is another user's link") };
        if let Some(reason) = folder.distrust().trying(&what)? {
            return refused(reason);
        }
        let sessions = files::there(folder.open_folder(OsStr::new(SESSIONS))).trying(&what)?;
        if let Some(reason) = sessions.as_ref().map(Folder::distrust).transpose().trying(&what)?.flatten() {
            return Err(Failure::failed(format!("cannot {what}: '{SESSIONS}': {reason}")));
        }
        Ok(StateDir { path, sessions })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn sessions_path(&self) -> PathBuf {
        self.path.join(SESSIONS)
    }

    /// The one session that a user names.
    pub(crate) fn session(&self, target: &Target) -> Result<SessionDir> {
        let handle = match target {
            Target::Handle(handle) => handle.clone(),
            Target::Name(name) => self.newest(name)?,
        };
        self.open_session(handle)
    }

    /// The handle for a name: the newest live one, else the newest dead one.
    pub(crate) fn newest(&self, name: &Name) -> Result<Handle> {
        self.newest_of(name)?.map(|glance| glance.handle).ok_or_else(|| {
            Failure::not_found(format!("no session is named '{}'; try 'nbs-ts list'", name.as_str()))
        })
    }

    /// The newest live session of a name, if there is one.
    pub(crate) fn newest_live(&self, name: &Name) -> Result<Option<Handle>> {
        Ok(self.newest_of(name)?.filter(|glance| glance.alive).map(|glance| glance.handle))
    }

    fn newest_of(&self, name: &Name) -> Result<Option<ListEntry>> {
        let named = self.glances(&|other| other == Some(name))?;
        Ok(named.into_iter().max_by_key(|glance| (glance.alive, glance.started)))
    }

    /// Waits, for a while, until no other call ensures a session, and blocks all others until it is
    /// dropped.
    pub(crate) fn lock_ensuring(&self) -> Result<File> {
        let locked = Folder::open(&self.path)
            .and_then(|folder| folder.open_lock(ENSURE_LOCK))
            .and_then(|lock| lock::take(lock, ENSURE_LOCK, lock::LockKind::Alone, Deadline::after(ENSURING)));
        locked.trying(format_args!("lock the state directory '{}'", self.path.display()))
    }

    /// Is this the first caller in this boot to learn that there is no helper? Of concurrent callers
    /// one is the first. If that is unknown, all are.
    pub(crate) fn is_first_to_miss_helper(&self) -> bool {
        let note = || {
            const LONGEST: u64 = 64;
            let boot = Host::ours()?.boot;
            let folder = Folder::open(&self.path)?;
            let mut note = folder.open_lock(HELPER_MISSED)?;
            match note.try_lock() {
                // Another caller is being warned now.
                Err(TryLockError::WouldBlock) => return Ok(false),
                other => other?,
            }
            if folder.read(HELPER_MISSED, LONGEST).is_ok_and(|noted| noted == boot) {
                return Ok(false);
            }
            note.set_len(0)?;
            note.write_all(&boot)?;
            Ok::<bool, io::Error>(true)
        };
        note().unwrap_or(true)
    }

    /// For a helper: when it has gone, that is news.
    pub(crate) fn forget_missed_helper(&self) -> io::Result<()> {
        Folder::open(&self.path)?.remove_if_there(OsStr::new(HELPER_MISSED))
    }

    pub(super) fn open_session(&self, handle: Handle) -> Result<SessionDir> {
        let missing = || Failure::not_found(format!("there is no session '{handle}'; try 'nbs-ts list'"));
        let sessions = self.sessions.as_ref().ok_or_else(missing)?;
        match sessions.open_folder(OsStr::new(handle.as_str())) {
            // A file of that name is not a session either.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Err(missing())
            }
            other => {
                Ok(SessionDir::new(handle.clone(), other.trying(format_args!("open session '{handle}'"))?))
            }
        }
    }

    /// The list entries of sessions that `wanted` picks by their names, oldest first.
    pub(crate) fn glances(&self, wanted: &dyn Fn(Option<&Name>) -> bool) -> Result<Vec<ListEntry>> {
        let Some(sessions) = &self.sessions else { return Ok(Vec::new()) };
        let mut glances = Vec::new();
        for name in self.names()? {
            let Some(handle) = handle::of_folder(&name) else { continue };
            let name = ListEntry::name(sessions, &handle);
            if !wanted(name.as_ref()) {
                continue;
            }
            if let Some(glance) = ListEntry::at_live(sessions, &handle, name.as_ref()) {
                glances.push(glance);
                continue;
            }
            match self.open_session(handle) {
                Ok(session) => glances.extend(ListEntry::at(&session)),
                // Removed since we saw its name.
                Err(failure) if failure.is(Reason::NotFound) => {}
                Err(failure) => return Err(failure),
            }
        }
        glances.sort_unstable_by(|a, b| (a.started, &a.handle).cmp(&(b.started, &b.handle)));
        Ok(glances)
    }

    pub(super) fn names(&self) -> Result<Vec<OsString>> {
        match &self.sessions {
            Some(sessions) => {
                sessions.names().trying(format_args!("read '{}'", self.sessions_path().display()))
            }
            None => Ok(Vec::new()),
        }
    }

    /// Removes a dead session's directory once its end is recorded. It becomes invisible at once. If
    /// its end cannot be recorded, it is still removed, and that is the error. `cause` is the cause of
    /// its end as far as the caller knows, if none was recorded.
    pub(crate) fn remove(&self, handle: &Handle, cause: EndedBy) -> Result<()> {
        let Some(sessions) = &self.sessions else { return Ok(()) };
        let session = match self.open_session(handle.clone()) {
            Err(failure) if failure.is(Reason::NotFound) => return Ok(()),
            other => other?,
        };
        // A session whose relay cannot be ended records its end itself, if it can.
        let told = match session.is_alive() {
            Ok(false) => self.record_end(&session, Removal::By(cause)),
            _ => Ok(()),
        };
        let gone = OsString::from(format!("{GONE}{handle}"));
        match sessions.rename(OsStr::new(handle.as_str()), &gone) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other
                .and_then(|()| sessions.remove_folder(&gone))
                .trying(format_args!("remove session '{handle}'"))?,
        }
        told
    }

    /// The notifications of ended sessions.
    pub(crate) fn events(&self) -> Result<Events> {
        Events::open(&self.path).trying(format_args!("open the events in '{}'", self.path.display()))
    }

    fn record_end(&self, session: &SessionDir, removal: Removal) -> Result<()> {
        let Some(sessions) = &self.sessions else { return Ok(()) };
        let told = session.record_end(&self.events()?, sessions, removal);
        told.trying(format_args!("record the end of session '{}'", session.handle()))
    }

    /// Records the ends of all dead sessions, including those whose relay was killed.
    pub(crate) fn record_ends(&self, events: &Events) -> Result<()> {
        let mut failures = Vec::new();
        for name in self.names()? {
            let handle = handle::of_folder(&name).filter(|handle| !events.has(handle));
            let told = handle.map_or(Ok(()), |handle| self.record_end_of(handle));
            failures.extend(told.err().filter(|failure| !failure.is(Reason::NotFound)));
        }
        Failure::all(failures)
    }

    /// The same for one session.
    pub(super) fn record_end_of(&self, handle: Handle) -> Result<()> {
        let session = self.open_session(handle)?;
        if session.ends()? { self.record_end(&session, Removal::None) } else { Ok(()) }
    }

    /// The exit record of a session that has ended, also if it was removed meanwhile.
    pub(crate) fn notice(&self, session: &SessionDir) -> Option<Notice> {
        session.notice().or_else(|| self.events().ok()?.notice(session.handle()))
    }

    /// The end of a dead session, from its exit record, or as far as it is known without one.
    pub(crate) fn end_of(&self, session: &SessionDir) -> Option<Notice> {
        self.notice(session).or_else(|| session.end())
    }

    /// Is a session of this handle being made?
    pub(crate) fn is_being_made(&self, handle: &Handle) -> bool {
        let name = OsString::from(format!("{NEW}{handle}"));
        let sessions = self.sessions.as_ref().filter(|sessions| sessions.has(&name.to_string_lossy()));
        sessions.is_some_and(|sessions| lock_of_nobody(sessions, &name).is_none())
    }

    /// Is it alive for sure? If not, it has to be opened to see.
    pub(crate) fn is_surely_alive(&self, handle: &Handle) -> bool {
        let meta = self.sessions.as_ref().and_then(|sessions| {
            let (meta, _) = sessions.open_file_within(handle.as_str(), dir::META).ok()?;
            files::is_locked(&meta).ok()
        });
        meta.unwrap_or(false)
    }

    /// Has it been removed since it was opened?
    pub(super) fn still_has(&self, session: &SessionDir) -> bool {
        let name = session.handle().as_str();
        self.sessions.as_ref().is_some_and(|sessions| sessions.still_names(name, &session.folder))
    }

    /// The dead sessions of this machine that ended with an earlier boot and were not restarted,
    /// oldest first.
    pub(crate) fn ended_by_reboot(&self) -> Result<Vec<SessionDir>> {
        let boot = Host::ours().trying("read the boot ID")?.boot;
        let mut ended = Vec::new();
        for glance in self.glances(&|_| true)?.into_iter().filter(|glance| !glance.alive) {
            let session = match self.open_session(glance.handle) {
                Err(failure) if failure.is(Reason::NotFound) => continue,
                other => other?,
            };
            let before = session.settings().boot.is_some_and(|its| its != boot);
            if before
                && session.elsewhere().is_none()
                && session.restarted_as().is_none()
                && self.was_swept_away(&session)
            {
                ended.push(session);
            }
        }
        Ok(ended)
    }

    /// Did it neither end by itself nor by nbs? A shutdown terminates its relay, and a power cut
    /// leaves no record.
    fn was_swept_away(&self, session: &SessionDir) -> bool {
        let is_unknown = |notice: Notice| notice.ended_by() == Some(EndedBy::Unknown);
        session.was_hung_up() || self.notice(session).is_none_or(is_unknown)
    }

    /// The exit record's line. If a killed relay has written none, it is written now; if that fails,
    /// it is only returned.
    pub(crate) fn exit_record(&self, session: &SessionDir) -> String {
        let told = || {
            if self.notice(session).is_none() && session.ends()? {
                self.record_end(session, Removal::None)?;
            }
            Ok::<_, Failure>(self.notice(session))
        };
        match told() {
            Ok(Some(notice)) => notice.line().to_owned(),
            Ok(None) | Err(_) => session.late_exit_record(EndedBy::Unknown).json(),
        }
    }

    /// Begins a session: a directory of its own, still invisible, and its lock.
    pub(crate) fn make(&self) -> Result<PendingSession> {
        let what = format!("make a session in '{}'", self.sessions_path().display());
        let sessions = self.sessions.as_ref().ok_or_else(|| Failure::failed(format!("cannot {what}")))?;
        let events = self.events()?;
        let spares = Spares::take(sessions).trying(&what)?;
        loop {
            let handle = Handle::fresh().trying(&what)?;
            if sessions.has(handle.as_str()) || events.has(&handle) {
                continue;
            }
            let name = OsString::from(format!("{NEW}{handle}"));
            let folder = match sessions.make_folder(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                // Collected between its making and its opening.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.trying(&what)?,
            };
            // A `gc` between these lines takes the lock itself and removes the directory: then we
            // begin again.
            let Ok(lock) = folder.open_lock(dir::META) else {
                if folder.has(dir::META) || sessions.has(&name.to_string_lossy()) {
                    drop(spares);
                    sessions.remove_folder(&name).trying(&what)?;
                    return Err(Failure::failed(format!("cannot {what}: its lock cannot be created")));
                }
                continue;
            };
            match lock.try_lock() {
                Ok(()) if folder.still_names(dir::META, &lock) => {
                    let Spares { sessions, others } = spares;
                    return Ok(PendingSession { handle, folder, lock, sessions, spares: others });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    drop(spares);
                    sessions.remove_folder(&name).trying(&what)?;
                    return Err(error).trying(format_args!("{what}: lock it"));
                }
            }
        }
    }

    /// Removes the dead sessions that are not retained, and incompletely made or removed sessions. Each is
    /// described before it goes.
    pub(crate) fn collect(
        &self,
        retention: &Retention,
        describe: impl Fn(&ListEntry) -> String,
    ) -> Result<Collected> {
        let mut collected = Collected::default();
        let mut dead = Vec::new();
        for glance in self.glances(&|_| true)? {
            match self.open_session(glance.handle.clone()) {
                Err(failure) if failure.is(Reason::NotFound) => {}
                Err(failure) => return Err(failure),
                Ok(_) if glance.alive => collected.alive += 1,
                Ok(session) => dead.push((session.last_sign(), glance)),
            }
        }
        let mut last_first: Vec<(Option<SystemTime>, &Handle)> =
            dead.iter().map(|(ended, glance)| (*ended, &glance.handle)).collect();
        last_first.sort_unstable_by(|a, b| b.cmp(a));
        let most = retention.most.unwrap_or(usize::MAX);
        let last: Set<Handle> = last_first.into_iter().take(most).map(|(_, handle)| handle.clone()).collect();
        for (ended, glance) in dead {
            let dead_for = ended.map(ago);
            let is_recent =
                retention.oldest.is_none_or(|oldest| dead_for.is_some_and(|dead_for| dead_for < oldest));
            if is_recent && last.contains(&glance.handle) {
                collected.recent += 1;
                continue;
            }
            let told = describe(&glance);
            match self.remove(&glance.handle, EndedBy::Unknown) {
                Err(failure) => collected.failures.push(failure),
                Ok(()) => collected.removed.push((glance, told, dead_for)),
            }
        }
        let leftovers = [self.collect_leftovers(), self.collect_events(retention)];
        collected.failures.extend(leftovers.into_iter().filter_map(std::result::Result::err));
        Ok(collected)
    }

    /// Removes old events of removed sessions, and files that a killed call left beside them. A
    /// follower must find events that it has not read, so recent ones stay as long as there is one.
    fn collect_events(&self, retention: &Retention) -> Result<()> {
        let Some(sessions) = &self.sessions else { return Ok(()) };
        let events = self.events()?;
        let is_there = |handle: &Handle| sessions.has(handle.as_str());
        let collect = || {
            // No follower can begin while we hold this.
            let unfollowed = events.unfollowed();
            let least = if unfollowed.is_some() { Duration::ZERO } else { Retention::LONGEST_READ };
            let oldest = retention.oldest.unwrap_or(Retention::DEFAULT).max(least);
            for handle in events.handles()? {
                if !is_there(&handle) && events.time(&handle).is_ok_and(|ended| ago(ended) >= oldest) {
                    events.remove(&handle)?;
                }
            }
            events.remove_leftovers(is_there)
        };
        collect().trying("remove old events")
    }

    fn collect_leftovers(&self) -> Result<()> {
        let Some(sessions) = &self.sessions else { return Ok(()) };
        for name in self.names()? {
            // We hold it until the directory is gone, so that the `create` that has just made it
            // finds its lock taken, or gone, and begins another.
            let held = if name.as_bytes().starts_with(NEW.as_bytes()) {
                lock_of_nobody(sessions, &name)
            } else {
                None
            };
            if name.as_bytes().starts_with(GONE.as_bytes()) {
                sessions.remove_folder(&name).trying(format_args!("remove '{}'", name.display()))?;
            }
            if held.is_some() {
                match sessions.remove_folder_once(&name) {
                    // Its maker has come, and has it now.
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                    other => other.trying(format_args!("remove '{}'", name.display()))?,
                }
            }
        }
        Ok(())
    }
}

/// Is this the name of a session that is being made, or removed?
pub(super) fn is_on_its_way(name: &OsStr) -> bool {
    let handle = [NEW, GONE].into_iter().find_map(|way| name.as_bytes().strip_prefix(way.as_bytes()));
    handle.is_some_and(|handle| Handle::parse(handle).is_some())
}

/// The lock of an incomplete session whose `create` was killed.
fn lock_of_nobody(sessions: &Folder, name: &OsStr) -> Option<File> {
    let folder = sessions.open_folder(name).ok()?;
    let lock = folder.open_lock(dir::META).ok()?;
    (dir::host_elsewhere(&folder).is_none() && lock.try_lock().is_ok()).then_some(lock)
}

/// How long ago; a moment that is still to come, by a clock that was set back,
/// is now.
fn ago(moment: SystemTime) -> Duration {
    SystemTime::now().duration_since(moment).unwrap_or_default()
}

/// The rules for dead sessions that are not collected.
pub(crate) struct Retention {
    /// The least age of a session to collect; `None`: age does not count.
    pub(crate) oldest: Option<Duration>,
    /// The most of those to keep, the latest first.
    pub(crate) most: Option<usize>,
}

impl Retention {
    pub(crate) const DEFAULT: Duration = Duration::from_secs(4 * 3_600);

    /// How long an event is kept for a follower, whatever the options say. A follower that has not
    /// read it by then was stopped and forgotten.
    const LONGEST_READ: Duration = Retention::DEFAULT;
}

/// The result of [`StateDir::collect`].
#[derive(Default)]
pub(crate) struct Collected {
    /// Each with its description, and how long it had been dead, if that is known.
    pub(crate) removed: Vec<(ListEntry, String, Option<Duration>)>,
    pub(crate) alive: usize,
    pub(crate) recent: usize,
    pub(crate) failures: Vec<Failure>,
}

/// A session that is being made: invisible, and locked.
pub(crate) struct PendingSession {
    pub(crate) handle: Handle,
    pub(crate) folder: Folder,
    /// Its `meta`, which is locked.
    pub(crate) lock: File,
    sessions: Folder,
    // Until it is complete: if no descriptor is left, these serve to remove it.
    spares: Vec<Folder>,
}

/// The descriptors that removing a directory needs, including that of the sessions' directory. We open
/// them before we make anything, so that a failure for lack of descriptors leaves nothing behind.
struct Spares {
    sessions: Folder,
    others: Vec<Folder>,
}

impl Spares {
    fn take(sessions: &Folder) -> io::Result<Spares> {
        let others = (0..Folder::TO_REMOVE).map(|_| sessions.again()).collect::<io::Result<_>>()?;
        Ok(Spares { sessions: sessions.again()?, others })
    }
}

impl PendingSession {
    /// Continues, in the relay, a session that `create` has begun: `lock` is the lock that the relay was
    /// passed. `None` if that is not the lock of this session.
    pub(crate) fn take_over(
        sessions: &Path,
        handle: Handle,
        lock: File,
    ) -> io::Result<Option<PendingSession>> {
        let sessions = Folder::open(sessions)?;
        let folder = sessions.open_folder(&OsString::from(format!("{NEW}{handle}")))?;
        if !folder.still_names(dir::META, &lock) {
            return Ok(None);
        }
        Ok(Some(PendingSession { handle, folder, lock, sessions, spares: Vec::new() }))
    }

    /// The same directory as a session.
    pub(crate) fn session(&self) -> io::Result<SessionDir> {
        Ok(SessionDir::new(self.handle.clone(), self.folder.again()?))
    }

    /// Makes the complete session visible. From here on the directory and its lock belong to its
    /// relay.
    pub(crate) fn publish(&self) -> io::Result<()> {
        let new = OsString::from(format!("{NEW}{}", self.handle));
        self.sessions.rename(&new, OsStr::new(self.handle.as_str()))
    }

    /// Removes it after all, once it was published.
    pub(crate) fn withdraw(&self) -> io::Result<()> {
        let gone = OsString::from(format!("{GONE}{}", self.handle));
        self.sessions.rename(OsStr::new(self.handle.as_str()), &gone)?;
        self.sessions.remove_folder(&gone)
    }

    /// Removes it; for when it could not be completed.
    pub(crate) fn abandon(self) -> io::Result<()> {
        let PendingSession { handle, folder, lock, sessions, spares } = self;
        drop(spares);
        let name = OsString::from(format!("{NEW}{handle}"));
        match sessions.remove_folder(&name) {
            // On NFS and many a FUSE a removed file stays, under another name,
            // for as long as it is open.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                drop((folder, lock));
                sessions.remove_folder(&name)
            }
            other => other,
        }
    }
}
