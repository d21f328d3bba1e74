//! The state folder: all sessions of a user, those being made, those going.
//!
//! In `sessions/`, a folder named by a handle is a whole session. One named
//! `.new.<handle>` is being made: its lock is held by its `create` from before
//! it has any content, and then by its relay, which renames it when it is
//! complete. One named `.gone.<handle>` is being removed. So nobody ever sees
//! half a session, and what a killed `create` left is told by its free lock.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{File, TryLockError},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{
    outcome::{Failure, Result, Trying},
    session::{Handle, Name, SessionDir, Summary, Target, dir, handle},
    sys::files::{self, Folder},
};

pub(crate) struct Home {
    // Absolute: a relay leaves the folder that it is started in.
    path: PathBuf,
    // `None` where nothing has been made yet.
    sessions: Option<Folder>,
}

const SESSIONS: &str = "sessions";
const ENSURE_LOCK: &str = "lock.ensure";
const NEW: &str = ".new.";
const GONE: &str = ".gone.";

impl Home {
    /// Opens the state folder; one that is not there yet has no sessions.
    pub(crate) fn open() -> Result<Home> {
        Home::open_at(Home::chosen_path()?)
    }

    /// Opens the state folder, and makes it where it is not there yet.
    pub(crate) fn open_or_make() -> Result<Home> {
        let path = Home::chosen_path()?;
        let what = format!("make the state folder '{}'", path.display());
        files::make_private_folders(&path).trying(&what)?;
        // Nothing is put into a folder that is not ours alone.
        let home = Home::open_at(path)?;
        if home.sessions.is_some() {
            return Ok(home);
        }
        match Folder::open(&home.path).and_then(|folder| folder.make_folder(OsStr::new(SESSIONS))) {
            // By another call, at the same time.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => drop(other.trying(&what)?),
        }
        Home::open_at(home.path)
    }

    /// `$NBS_TS_HOME`, else `$HOME/.nbs-ts`.
    fn chosen_path() -> Result<PathBuf> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = set("NBS_TS_HOME").or_else(|| Some(set("HOME")?.join(".nbs-ts"))).ok_or_else(|| {
            Failure::Failed("cannot find the state folder: neither NBS_TS_HOME nor HOME is set".into())
        })?;
        std::path::absolute(&path).trying(format!("find the state folder '{}'", path.display()))
    }

    fn open_at(path: PathBuf) -> Result<Home> {
        let what = format!("use the state folder '{}'", path.display());
        let folder = match Folder::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Home { path, sessions: None });
            }
            other => other.trying(&what)?,
        };
        let strangers = files::is_strangers_link(&path).trying(&what)?;
        let reason =
            if strangers { Some("it is another user's link") } else { folder.distrust().trying(&what)? };
        if let Some(reason) = reason {
            return Err(Failure::Failed(format!("cannot {what}: {reason}")));
        }
        let sessions = match folder.open_folder(OsStr::new(SESSIONS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other.trying(&what)?),
        };
        if let Some(reason) = sessions.as_ref().map(Folder::distrust).transpose().trying(&what)?.flatten() {
            return Err(Failure::Failed(format!("cannot {what}: '{SESSIONS}': {reason}")));
        }
        Ok(Home { path, sessions })
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
        let named = self.summaries(|session| session.name().as_ref() == Some(name))?;
        let newest = named.into_iter().max_by_key(|summary| (summary.alive, summary.created));
        newest.map(|summary| summary.handle).ok_or_else(|| {
            Failure::NotFound(format!("no session is named '{}'; 'nbs-ts list' shows all", name.as_str()))
        })
    }

    /// The newest live session of a name, if there is one.
    pub(crate) fn newest_live(&self, name: &Name) -> Result<Option<Handle>> {
        let named = self.summaries(|session| session.name().as_ref() == Some(name))?;
        let newest = named.into_iter().filter(|summary| summary.alive).max_by_key(|summary| summary.created);
        Ok(newest.map(|summary| summary.handle))
    }

    /// Waits until nobody else ensures that there is a session, and keeps all
    /// others from it until it is dropped.
    pub(crate) fn lock_ensuring(&self) -> Result<File> {
        let what = format!("lock the state folder '{}'", self.path.display());
        let lock = Folder::open(&self.path).and_then(|folder| folder.open_lock(ENSURE_LOCK)).trying(&what)?;
        lock.lock().trying(&what)?;
        Ok(lock)
    }

    fn open_session(&self, handle: Handle) -> Result<SessionDir> {
        let missing =
            || Failure::NotFound(format!("there is no session '{handle}'; 'nbs-ts list' shows all"));
        let sessions = self.sessions.as_ref().ok_or_else(missing)?;
        match sessions.open_folder(OsStr::new(handle.as_str())) {
            // A file of that name is none, either.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Err(missing())
            }
            other => Ok(SessionDir::new(handle.clone(), other.trying(format!("open session '{handle}'"))?)),
        }
    }

    /// What a listing shows of those sessions that `wanted` picks, oldest first.
    pub(crate) fn summaries(&self, wanted: impl Fn(&SessionDir) -> bool) -> Result<Vec<Summary>> {
        let mut summaries = Vec::new();
        for name in self.names()? {
            let Some(handle) = handle::of_folder(&name) else { continue };
            match self.open_session(handle) {
                Ok(session) if wanted(&session) => summaries.extend(session.summary()),
                // Removed since we saw its name.
                Ok(_) | Err(Failure::NotFound(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        summaries.sort_by(|a, b| (a.created, &a.handle).cmp(&(b.created, &b.handle)));
        Ok(summaries)
    }

    fn names(&self) -> Result<Vec<OsString>> {
        match &self.sessions {
            Some(sessions) => sessions.names().trying(format!("read '{}'", self.sessions_path().display())),
            None => Ok(Vec::new()),
        }
    }

    /// Removes a session's folder. It is out of everybody's sight at once.
    pub(crate) fn remove(&self, handle: &Handle) -> Result<()> {
        let Some(sessions) = &self.sessions else { return Ok(()) };
        let what = || format!("remove session '{handle}'");
        let gone = OsString::from(format!("{GONE}{handle}"));
        match sessions.rename(OsStr::new(handle.as_str()), &gone) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.and_then(|()| sessions.remove_folder(&gone)).trying(what()),
        }
    }

    /// Begins a session: a folder of its own, not yet to be seen, and its lock.
    pub(crate) fn make(&self) -> Result<Making> {
        let what = format!("make a session in '{}'", self.sessions_path().display());
        let sessions = self.sessions.as_ref().ok_or_else(|| Failure::Failed(format!("cannot {what}")))?;
        loop {
            let handle = Handle::fresh().trying(&what)?;
            if sessions.has(handle.as_str()) {
                continue;
            }
            let name = OsString::from(format!("{NEW}{handle}"));
            let folder = match sessions.make_folder(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                // Collected between its making and its opening.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.trying(&what)?,
            };
            // A `gc` that comes between these lines takes the lock itself and
            // removes the folder: then we begin again.
            let Ok(lock) = folder.open_lock(dir::LOCK) else {
                if folder.has(dir::LOCK) || sessions.has(&name.to_string_lossy()) {
                    sessions.remove_folder(&name).trying(&what)?;
                    return Err(Failure::Failed(format!("cannot {what}: its lock cannot be made")));
                }
                continue;
            };
            match lock.try_lock() {
                Ok(()) if folder.still_names(dir::LOCK, &lock) => {
                    let sessions = sessions.open_folder(OsStr::new(".")).trying(&what)?;
                    return Ok(Making { handle, folder, lock, sessions });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    sessions.remove_folder(&name).trying(&what)?;
                    return Err(error).trying(format!("{what}: lock it"));
                }
            }
        }
    }

    /// Removes the dead sessions that `expired` picks by how long they have
    /// been dead, and whatever was left half made or half removed.
    pub(crate) fn collect(&self, expired: impl Fn(Duration) -> bool) -> Result<Collected> {
        let mut collected = Collected::default();
        for summary in self.summaries(|_| true)? {
            let dead_for = SystemTime::now().duration_since(summary.ended).unwrap_or_default();
            if summary.alive {
                collected.alive += 1;
            } else if !expired(dead_for) {
                collected.recent += 1;
            } else if let Err(failure) = self.remove(&summary.handle) {
                collected.failures.push(failure);
            } else {
                collected.removed.push((summary, dead_for));
            }
        }
        if let Err(failure) = self.collect_leftovers() {
            collected.failures.push(failure);
        }
        Ok(collected)
    }

    fn collect_leftovers(&self) -> Result<()> {
        let Some(sessions) = &self.sessions else { return Ok(()) };
        for name in self.names()? {
            // Held until the folder is gone, so that whoever has just made it
            // finds its lock taken, or gone, and begins another.
            let held = if name.as_bytes().starts_with(NEW.as_bytes()) {
                lock_of_nobody(sessions, &name)
            } else {
                None
            };
            if name.as_bytes().starts_with(GONE.as_bytes()) {
                sessions.remove_folder(&name).trying(format!("remove '{}'", name.display()))?;
            }
            if held.is_some() {
                match sessions.remove_folder_once(&name) {
                    // Its maker has come, and has it now.
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                    other => other.trying(format!("remove '{}'", name.display()))?,
                }
            }
        }
        Ok(())
    }
}

/// The lock of a session that is half made, if nobody makes it any more: its
/// `create` was killed.
fn lock_of_nobody(sessions: &Folder, name: &OsStr) -> Option<File> {
    let lock = sessions.open_folder(name).and_then(|folder| folder.open_lock(dir::LOCK)).ok()?;
    lock.try_lock().is_ok().then_some(lock)
}

/// What [`Home::collect`] did.
#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) removed: Vec<(Summary, Duration)>,
    pub(crate) alive: usize,
    pub(crate) recent: usize,
    pub(crate) failures: Vec<Failure>,
}

/// A session that is being made: seen by nobody, and locked.
pub(crate) struct Making {
    pub(crate) handle: Handle,
    pub(crate) folder: Folder,
    pub(crate) lock: File,
    sessions: Folder,
}

impl Making {
    /// Takes up, in the relay, what `create` has begun: `lock` is what the
    /// relay was handed. `None` if that is not the lock of this session.
    pub(crate) fn take_over(sessions: &Path, handle: Handle, lock: File) -> io::Result<Option<Making>> {
        let sessions = Folder::open(sessions)?;
        let folder = sessions.open_folder(&OsString::from(format!("{NEW}{handle}")))?;
        if !folder.still_names(dir::LOCK, &lock) {
            return Ok(None);
        }
        Ok(Some(Making { handle, folder, lock, sessions }))
    }

    /// The same folder as a session.
    pub(crate) fn session(&self) -> io::Result<SessionDir> {
        Ok(SessionDir::new(self.handle.clone(), self.folder.open_folder(OsStr::new("."))?))
    }

    /// Lets everybody see the session, which is complete. From here on the
    /// folder is its relay's, and its lock, too.
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
    pub(crate) fn abandon(&self) -> io::Result<()> {
        self.sessions.remove_folder(&OsString::from(format!("{NEW}{}", self.handle)))
    }
}
