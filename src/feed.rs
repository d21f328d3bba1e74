//! The feed of sessions: the existing ones, here and on other machines, and then each change, as its source
//! reports it. Nothing polls by the clock. `top`, the page, `events` and `list --follow` use this feed. For
//! another machine, the page uses a [`FarFeed`] directly, because its call also carries screens and requests.

mod far;
mod here;
mod news;

use crate::{
    machine::{name::MachineName, renewed_call::CallNews},
    outcome::Result,
    session::{ActivityView, StateDir},
    sys::{deadline::Deadline, poll::PollSet},
    terminal::text,
};
pub(crate) use far::{FarFeed, FarNews};
use here::{Roster, RosterEvent};
pub(crate) use news::FeedNews;

pub(crate) struct Feed {
    // `None`: the sessions here are not wanted.
    here: Option<Roster>,
    far: Vec<FarFeed>,
}

/// The part of it that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedEvent {
    Here(RosterEvent),
    Far(usize),
}

impl Feed {
    /// Begins with the sessions that have this in their name, if it is given, on these machines, `None` being
    /// this one. Returns all sessions here, also the dead ones; the live ones, and all on other machines,
    /// will be reported.
    pub(crate) fn begin(
        state_dir: &StateDir,
        pattern: Option<&str>,
        machines: &[Option<MachineName>],
    ) -> Result<(Feed, Vec<ActivityView>)> {
        let (mut here, mut there_are) = (None, Vec::new());
        if machines.contains(&None) {
            let (roster, glances) = Roster::begin(state_dir, pattern.map(str::to_owned))?;
            here = Some(roster);
            there_are.extend(glances.into_iter().map(ActivityView::untold));
        }
        let far =
            machines.iter().flatten().map(|machine| FarFeed::of_list(machine.clone(), pattern)).collect();
        Ok((Feed { here, far }, there_are))
    }

    pub(crate) fn watch<'a, Event: Copy>(
        &'a self,
        poll_set: &mut PollSet<'a, Event>,
        event: impl Fn(FeedEvent) -> Event,
    ) {
        if let Some(here) = &self.here {
            here.watch(poll_set, |what| event(FeedEvent::Here(what)));
        }
        for (index, far) in self.far.iter().enumerate() {
            far.call.watch(poll_set, event(FeedEvent::Far(index)));
        }
    }

    /// When to ask for news though there is nothing to be read.
    pub(crate) fn deadline(&self) -> Deadline {
        let here = self.here.as_ref().map_or(Deadline::NEVER, Roster::deadline);
        self.far.iter().map(|far| far.call.deadline()).fold(here, Deadline::min)
    }

    /// Something can be read there; to be called before [`Feed::take_news`].
    pub(crate) fn note(&mut self, event: FeedEvent) {
        match event {
            FeedEvent::Here(event) => self.here.iter_mut().for_each(|here| here.note(event)),
            FeedEvent::Far(index) => self.far[index].call.note(),
        }
    }

    /// Returns the pending events, and follows new sessions.
    pub(crate) fn take_news(&mut self, state_dir: &StateDir, send: &mut dyn FnMut(FeedNews)) -> Result<()> {
        if let Some(here) = &mut self.here {
            here.take_news(state_dir, send)?;
        }
        for far in &mut self.far {
            let machine = far.call.machine().to_string();
            let lost = |why: String, is_over| {
                let why = text::escaped(why.as_bytes());
                FeedNews::Lost { machine: machine.clone(), why, is_over }
            };
            far.take_news(&mut |news| match news {
                FarNews::Session(news) => send(news),
                FarNews::Call(CallNews::Missing(why)) => send(lost(why, false)),
                FarNews::Call(CallNews::Over { why, .. }) => send(lost(why, true)),
                FarNews::Call(CallNews::Heard) | FarNews::Line(_) => {}
            });
        }
        Ok(())
    }
}
