//! All live sessions here, each with a connection on which its relay reports changes of its state. Nothing
//! polls by the clock.

use std::time::Duration;

use crate::{
    feed::news::FeedNews,
    outcome::{Failure, Result, Trying},
    session::{
        ActivityView, Address, Handle, ListEntry, Name, SessionDir, StateDir, Target,
        client::{RelayClient, ReportedState, WaitOutcome},
    },
    sorted::{Map, Set},
    sys::{
        child,
        deadline::Deadline,
        poll::PollSet,
        watch::{FolderChange, Watch},
    },
};

pub(super) struct Roster {
    // For the directory of all sessions.
    folder: Watch,
    pattern: Option<String>,
    // The sessions that we have reported, and that have not been removed.
    known: Map<Handle, Option<Name>>,
    followed: Vec<Followed>,
    // The sessions to follow: those at our start, and those that we could not follow, which we retry when a
    // session comes or goes.
    first: Vec<Handle>,
    unreached: Vec<Handle>,
    // The directory has changes.
    stirred: bool,
    // The deadline at which relays without a report are reported as silent.
    patience: Deadline,
}

struct Followed {
    session: SessionDir,
    client: RelayClient,
    // Its relay has sent something; and has not reported yet.
    stirred: bool,
    is_silent: bool,
}

/// How long a relay's first report may take. A stopped relay sends none.
const PATIENCE: Duration = Duration::from_secs(2);

/// The part of the roster that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RosterEvent {
    Folder,
    Session(usize),
}

impl Roster {
    /// Begins with the sessions that have this in their name, if it is given. Returns all of these, also the
    /// dead ones; for the live ones there will be at least one report each.
    pub(super) fn begin(state_dir: &StateDir, pattern: Option<String>) -> Result<(Roster, Vec<ListEntry>)> {
        let what = "watch the sessions";
        child::raise_open_files().trying(what)?;
        // Watched first, looked at second.
        let folder = Watch::folder(&state_dir.sessions_path()).trying(what)?;
        let glances = state_dir.glances(&|name| Name::is_wanted(name, pattern.as_deref()))?;
        let first = glances.iter().filter(|glance| glance.alive).map(|glance| glance.handle.clone());
        let roster = Roster {
            folder,
            pattern,
            known: glances.iter().map(|glance| (glance.handle.clone(), glance.name.clone())).collect(),
            followed: Vec::new(),
            first: first.collect(),
            unreached: Vec::new(),
            stirred: false,
            patience: Deadline::after(PATIENCE),
        };
        Ok((roster, glances))
    }

    pub(super) fn watch<'a, Event: Copy>(
        &'a self,
        poll_set: &mut PollSet<'a, Event>,
        event: impl Fn(RosterEvent) -> Event,
    ) {
        poll_set.readable(&self.folder, event(RosterEvent::Folder));
        for (index, followed) in self.followed.iter().enumerate() {
            poll_set.readable(&followed.client, event(RosterEvent::Session(index)));
        }
    }

    /// When to ask for news though there is nothing to be read.
    pub(super) fn deadline(&self) -> Deadline {
        match self.followed.iter().any(|followed| followed.is_silent) {
            true => self.patience,
            false if !self.first.is_empty() => Deadline::after(Duration::ZERO),
            false => Deadline::NEVER,
        }
    }

    /// Something can be read there; to be called before [`Roster::take_news`].
    pub(super) fn note(&mut self, event: RosterEvent) {
        match event {
            RosterEvent::Folder => self.stirred = true,
            RosterEvent::Session(index) => self.followed[index].stirred = true,
        }
    }

    /// Returns the pending events, and follows new sessions.
    pub(super) fn take_news(&mut self, state_dir: &StateDir, send: &mut dyn FnMut(FeedNews)) -> Result<()> {
        let mut came = std::mem::take(&mut self.first);
        if std::mem::take(&mut self.stirred) {
            came.append(&mut self.unreached);
            for change in self.folder.changes().trying("watch the sessions")? {
                match change {
                    FolderChange::Came(name) => came.extend(Handle::parse(name.as_encoded_bytes())),
                    FolderChange::Went(name) => {
                        if let Some(handle) = Handle::parse(name.as_encoded_bytes()) {
                            self.remove(handle, send);
                        }
                    }
                    FolderChange::Missed => {
                        let there = state_dir.glances(&|_| true)?.into_iter().map(|glance| glance.handle);
                        let there: Set<Handle> = there.collect();
                        let known = self.known.iter().map(|(handle, _)| handle.clone());
                        let gone: Vec<Handle> = known.filter(|handle| !there.contains(handle)).collect();
                        gone.into_iter().for_each(|handle| self.remove(handle, send));
                        came.extend(there.into_iter().filter(|handle| !self.known.contains_key(handle)));
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
            self.follow(state_dir, handle, send);
        }
        let (unreached, is_late) = (&mut self.unreached, self.patience.has_passed());
        self.followed.retain_mut(|followed| {
            let (stays, told) = match followed.receive(send) {
                Ok(true) if !is_late || !std::mem::take(&mut followed.is_silent) => return true,
                Ok(true) => (true, ReportedState::Nothing),
                Ok(false) => (false, followed.session.really(ReportedState::Ended)),
                Err(_) => {
                    unreached.push(followed.session.handle().clone());
                    (false, ReportedState::Nothing)
                }
            };
            tell_of(&followed.session, told, send);
            stays
        });
        Ok(())
    }

    fn remove(&mut self, handle: Handle, send: &mut dyn FnMut(FeedNews)) {
        if let Some(name) = self.known.remove(&handle) {
            send(FeedNews::Removed(Address { machine: None, handle }, name));
        }
    }

    fn follow(&mut self, state_dir: &StateDir, handle: Handle, send: &mut dyn FnMut(FeedNews)) {
        if self.followed.iter().any(|followed| *followed.session.handle() == handle) {
            return;
        }
        let Ok(session) = state_dir.session(&Target::Handle(handle.clone())) else {
            return self.remove(handle, send);
        };
        let name = session.name();
        if self.pattern.is_some() && !Name::is_wanted(name.as_ref(), self.pattern.as_deref()) {
            return;
        }
        self.known.insert(handle.clone(), name);
        match RelayClient::open(&session) {
            Ok(Some(client)) => {
                let client = client.of_standing(false);
                self.followed.push(Followed { session, client, stirred: false, is_silent: true });
            }
            Ok(None) => tell_of(&session, ReportedState::Ended, send),
            Err(_) => {
                self.unreached.push(handle);
                tell_of(&session, ReportedState::Nothing, send);
            }
        }
    }
}

/// If it is removed meanwhile, the directory reports that.
fn tell_of(session: &SessionDir, told: ReportedState, send: &mut dyn FnMut(FeedNews)) {
    if let Some(glance) = ListEntry::at(session) {
        send(FeedNews::Told(Box::new(ActivityView::brief(glance, told))));
    }
}

impl Followed {
    /// `false` if it has ended.
    fn receive(&mut self, send: &mut dyn FnMut(FeedNews)) -> Result<bool> {
        while self.client.follow()? {
            if !self.stirred {
                return Ok(true);
            }
            match self.client.receive_news(Deadline::after(Duration::ZERO), None)? {
                WaitOutcome::Changed => {
                    if let Some((standing, _)) = self.client.last_standing().cloned() {
                        self.is_silent = false;
                        tell_of(&self.session, ReportedState::Standing(Box::new(standing)), send);
                    }
                }
                WaitOutcome::TimedOut => self.stirred = false,
                WaitOutcome::Ended => break,
            }
        }
        Ok(false)
    }
}
