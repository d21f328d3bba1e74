//! All live sessions, each with a connection on which its relay tells when what it does
//! has changed. Nothing is looked for by the clock.

use std::time::Duration;

use crate::{
    outcome::{Failure, Result, Trying},
    session::{
        Glance, Handle, Name, SessionDir, StateDir, Target,
        client::{News, RelayClient, ToldStanding},
    },
    sorted::Set,
    sys::{
        child,
        deadline::Deadline,
        poll::PollSet,
        watch::{FolderChange, Watch},
    },
};

pub(crate) struct Roster {
    // Of the folder of all sessions.
    folder: Watch,
    pattern: Option<String>,
    // Those that we have told of, and that have not been removed.
    known: Set<Handle>,
    followed: Vec<Followed>,
    // Those that are to be followed: as they were when we began, and those that could not be
    // when we tried, which is tried again when something comes or goes.
    first: Vec<Handle>,
    unreached: Vec<Handle>,
    // The folder has something to tell.
    stirred: bool,
}

struct Followed {
    session: SessionDir,
    client: RelayClient,
    // Its relay has something to tell.
    stirred: bool,
}

/// What of the roster can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RosterEvent {
    Folder,
    Session(usize),
}

/// What has become known.
pub(crate) enum RosterNews<'a> {
    /// What this one does; nothing, where it does not let us follow it.
    Told(&'a SessionDir, ToldStanding),
    /// It has ended, though its lock may be held for a moment yet.
    Ended(Handle),
    /// It has been removed.
    Removed(Handle),
}

impl Roster {
    /// Of those with this in their name, if it is given. Gives all of these that there are,
    /// also the dead ones; of the live ones there will be news, once each at the least, but
    /// where a relay has been stopped.
    pub(crate) fn begin(state_dir: &StateDir, pattern: Option<String>) -> Result<(Roster, Vec<Glance>)> {
        let what = "watch the sessions";
        child::raise_open_files().trying(what)?;
        // Watched first, looked at second.
        let folder = Watch::folder(&state_dir.sessions_path()).trying(what)?;
        let glances = state_dir.glances(&|name| Name::is_wanted(name, pattern.as_deref()))?;
        let first = glances.iter().filter(|glance| glance.alive).map(|glance| glance.handle.clone());
        let roster = Roster {
            folder,
            pattern,
            known: glances.iter().map(|glance| glance.handle.clone()).collect(),
            followed: Vec::new(),
            first: first.collect(),
            unreached: Vec::new(),
            stirred: false,
        };
        Ok((roster, glances))
    }

    pub(crate) fn watch<'a, Event: Copy>(
        &'a self,
        poll_set: &mut PollSet<'a, Event>,
        event: impl Fn(RosterEvent) -> Event,
    ) {
        poll_set.readable(&self.folder, event(RosterEvent::Folder));
        for (index, followed) in self.followed.iter().enumerate() {
            poll_set.readable(&followed.client, event(RosterEvent::Session(index)));
        }
    }

    /// Something can be read there; to be called before [`Roster::take_news`].
    pub(crate) fn note(&mut self, event: RosterEvent) {
        match event {
            RosterEvent::Folder => self.stirred = true,
            RosterEvent::Session(index) => self.followed[index].stirred = true,
        }
    }

    /// Gives what has become known, and follows those that have come.
    pub(crate) fn take_news(&mut self, state_dir: &StateDir, tell: &mut dyn FnMut(RosterNews)) -> Result<()> {
        let mut came = std::mem::take(&mut self.first);
        if std::mem::take(&mut self.stirred) {
            came.append(&mut self.unreached);
            for change in self.folder.changes().trying("watch the sessions")? {
                match change {
                    FolderChange::Came(name) => came.extend(Handle::parse(name.as_encoded_bytes())),
                    FolderChange::Went(name) => {
                        if let Some(handle) = Handle::parse(name.as_encoded_bytes()) {
                            self.remove(handle, tell);
                        }
                    }
                    FolderChange::Missed => {
                        let there = state_dir.glances(&|_| true)?.into_iter().map(|glance| glance.handle);
                        let there: Set<Handle> = there.collect();
                        let mut gone = self.known.clone();
                        gone.retain(|handle| !there.contains(handle));
                        gone.into_iter().for_each(|handle| self.remove(handle, tell));
                        came.extend(there.into_iter().filter(|handle| !self.known.contains(handle)));
                    }
                    FolderChange::Written(_) => {}
                    FolderChange::FolderWent => {
                        return Err(Failure::failed(
                            "cannot watch the sessions: their directory has been removed".into(),
                        ));
                    }
                }
            }
        }
        for handle in came {
            self.follow(state_dir, handle, tell);
        }
        let unreached = &mut self.unreached;
        self.followed.retain_mut(|followed| match followed.hear(tell) {
            Ok(true) => true,
            Ok(false) => {
                match followed.session.really(ToldStanding::Ended) {
                    ToldStanding::Ended => tell(RosterNews::Ended(followed.session.handle().clone())),
                    told => tell(RosterNews::Told(&followed.session, told)),
                }
                false
            }
            Err(_) => {
                unreached.push(followed.session.handle().clone());
                tell(RosterNews::Told(&followed.session, ToldStanding::Nothing));
                false
            }
        });
        Ok(())
    }

    fn remove(&mut self, handle: Handle, tell: &mut dyn FnMut(RosterNews)) {
        if self.known.remove(&handle) {
            tell(RosterNews::Removed(handle));
        }
    }

    fn follow(&mut self, state_dir: &StateDir, handle: Handle, tell: &mut dyn FnMut(RosterNews)) {
        if self.followed.iter().any(|followed| *followed.session.handle() == handle) {
            return;
        }
        let Ok(session) = state_dir.session(&Target::Handle(handle.clone())) else {
            return self.remove(handle, tell);
        };
        if self.pattern.is_some() && !Name::is_wanted(session.name().as_ref(), self.pattern.as_deref()) {
            return;
        }
        self.known.insert(handle.clone());
        match RelayClient::open(&session) {
            Ok(Some(client)) => {
                let client = client.of_standing(false);
                self.followed.push(Followed { session, client, stirred: false });
            }
            Ok(None) => tell(RosterNews::Ended(handle)),
            Err(_) => {
                self.unreached.push(handle);
                tell(RosterNews::Told(&session, ToldStanding::Nothing));
            }
        }
    }
}

impl Followed {
    /// `false` where it has ended.
    fn hear(&mut self, tell: &mut dyn FnMut(RosterNews)) -> Result<bool> {
        while self.client.follow()? {
            if !self.stirred {
                return Ok(true);
            }
            match self.client.hear_news(Deadline::after(Duration::ZERO), None)? {
                News::Changed => {
                    if let Some(standing) = self.client.last_standing().cloned() {
                        tell(RosterNews::Told(&self.session, ToldStanding::Standing(Box::new(standing))));
                    }
                }
                News::TimedOut => self.stirred = false,
                News::Ended => break,
            }
        }
        Ok(false)
    }
}
