//! The sessions of another machine, from `list --json --follow` there.
//!
//! The machine is trusted only about its own sessions, and its data is text.

use crate::{
    feed::news::FeedNews,
    json,
    machine::{
        name::MachineName,
        renewed_call::{CallNews, RenewedCall},
    },
    session::{ActivityView, Address, removed_of},
    sorted::Map,
    sys::{deadline::Deadline, poll::PollSet},
    terminal::text,
};

/// More sessions of one machine are not shown.
const MOST_SESSIONS: usize = 20_000;

pub(super) struct FarFeed {
    call: RenewedCall,
    // The sessions that were reported, and whether by this call.
    known: Map<Address, bool>,
}

impl FarFeed {
    pub(super) fn new(machine: MachineName, pattern: Option<&str>) -> FarFeed {
        let mut words: Vec<Vec<u8>> = ["list", "--json", "--follow"].map(|word| word.into()).into();
        words.extend(pattern.map(|pattern| format!("--name={pattern}").into_bytes()));
        let mut call = RenewedCall::new(machine, words);
        call.begin();
        FarFeed { call, known: Map::new() }
    }

    pub(super) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        self.call.watch(poll_set, event);
    }

    pub(super) fn deadline(&self) -> Deadline {
        self.call.deadline()
    }

    pub(super) fn note(&mut self) {
        self.call.note();
    }

    /// Receives pending data, and calls if it is time.
    pub(super) fn take_news(&mut self, send: &mut dyn FnMut(FeedNews)) {
        let (machine, known) = (self.call.machine().clone(), &mut self.known);
        let mut take = |line: Vec<u8>| {
            if let Some((address, name)) = removed_of(&line, Some(machine.as_str())) {
                known.remove(&address);
                send(FeedNews::Removed(address, name));
            } else if let Some(overview) = ActivityView::parse(&line, Some(machine.as_str())) {
                *known.or_insert(overview.address(), true) = true;
                send(FeedNews::Told(Box::new(overview)));
            } else {
                return false;
            }
            true
        };
        let mut news = self
            .call
            .drive(&mut take, |words| json::error_of(String::from_utf8_lossy(words).lines().last()?));
        if self.known.len() > MOST_SESSIONS {
            news.push(self.call.refuse("it has more sessions than can be shown"));
        }
        for news in news {
            let (why, is_over) = match news {
                CallNews::Missing(why) => (why, false),
                CallNews::Over { why, .. } => (why, true),
                CallNews::Heard => {
                    // Sessions that this call did not list at its start have gone, or come again.
                    self.known.retain(|address, is_there| {
                        if !*is_there {
                            send(FeedNews::Removed(address.clone(), None));
                        }
                        *is_there
                    });
                    continue;
                }
            };
            if is_over {
                self.known.values_mut().for_each(|is_there| *is_there = false);
            }
            let why = text::escaped(why.as_bytes());
            send(FeedNews::Lost { machine: machine.to_string(), why, is_over });
        }
    }
}
