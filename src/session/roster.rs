//! All live sessions, each with a connection on which its relay tells when what it does
//! has changed. Nothing is looked for by the clock.

use std::time::Duration;

use crate::{
    outcome::{Failure, Result, Trying},
    session::{
        Handle, Name, SessionDir, StateDir, Target,
        client::{News, RelayClient, ToldStanding},
    },
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
    followed: Vec<Followed>,
    // Those that are to be followed, as they were when we began.
    first: Vec<Handle>,
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
    /// What this one does.
    Told(&'a SessionDir, ToldStanding),
    /// It has ended, or cannot be followed any more.
    Ended(Handle),
    /// It has been removed.
    Removed(Handle),
}

impl Roster {
    /// Of those with this in their name, if it is given.
    pub(crate) fn begin(state_dir: &StateDir, pattern: Option<String>) -> Result<Roster> {
        let what = "watch the sessions";
        child::raise_open_files().trying(what)?;
        // Watched first, looked at second.
        let folder = Watch::folder(&state_dir.sessions_path()).trying(what)?;
        let first = state_dir.glances(&|_| true)?.into_iter().filter(|glance| glance.alive);
        let first = first.map(|glance| glance.handle).collect();
        Ok(Roster { folder, pattern, followed: Vec::new(), first, stirred: false })
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
    pub(crate) fn take_news(&mut self, state_dir: &StateDir, mut tell: impl FnMut(RosterNews)) -> Result<()> {
        let mut came = std::mem::take(&mut self.first);
        if std::mem::take(&mut self.stirred) {
            for change in self.folder.changes().trying("watch the sessions")? {
                match change {
                    FolderChange::Came(name) => came.extend(Handle::parse(name.as_encoded_bytes())),
                    FolderChange::Went(name) => {
                        if let Some(handle) = Handle::parse(name.as_encoded_bytes()) {
                            tell(RosterNews::Removed(handle));
                        }
                    }
                    FolderChange::Missed => {
                        came =
                            state_dir.glances(&|_| true)?.into_iter().map(|glance| glance.handle).collect();
                    }
                    FolderChange::Written(_) => {}
                    FolderChange::FolderWent => {
                        return Err(Failure::Failed(
                            "cannot watch the sessions any more: their folder has been removed".into(),
                        ));
                    }
                }
            }
        }
        for handle in came {
            if !self.follow(state_dir, &handle) {
                tell(RosterNews::Ended(handle));
            }
        }
        self.followed.retain_mut(|followed| {
            let goes_on = followed.hear(&mut tell);
            if !goes_on {
                tell(RosterNews::Ended(followed.session.handle().clone()));
            }
            goes_on
        });
        Ok(())
    }

    /// `false` where it cannot be: it has ended meanwhile, or does not let us.
    fn follow(&mut self, state_dir: &StateDir, handle: &Handle) -> bool {
        if self.followed.iter().any(|followed| followed.session.handle() == handle) {
            return true;
        }
        let Ok(session) = state_dir.session(&Target::Handle(handle.clone())) else { return false };
        if let Some(pattern) = &self.pattern
            && !session.name().as_ref().is_some_and(|name: &Name| name.is_like(pattern))
        {
            return true;
        }
        let Ok(Some(client)) = RelayClient::open(&session) else { return false };
        self.followed.push(Followed { session, client: client.of_standing(false), stirred: false });
        true
    }
}

impl Followed {
    /// `false` where there will be no more.
    fn hear(&mut self, tell: &mut impl FnMut(RosterNews)) -> bool {
        loop {
            match self.client.follow() {
                Ok(true) if !self.stirred => return true,
                Ok(true) => {}
                Ok(false) | Err(_) => return false,
            }
            match self.client.hear_news(Deadline::after(Duration::ZERO), None) {
                Ok(News::Changed) => {
                    if let Some(standing) = self.client.last_standing().cloned() {
                        tell(RosterNews::Told(&self.session, ToldStanding::Standing(Box::new(standing))));
                    }
                }
                Ok(News::TimedOut) => self.stirred = false,
                Ok(News::Ended) | Err(_) => return false,
            }
        }
    }
}
