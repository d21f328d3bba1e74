//! The sessions of another machine: told by `list --json --follow` there.
//!
//! What comes from there is believed of that machine's sessions only, and is text.

use std::time::Duration;

use crate::{
    feed::news::FeedNews,
    json,
    machine::{
        call::{Came, End, RemoteCall},
        far_lines::FarLines,
        name::MachineName,
    },
    session::{ActivityView, Address, removed_of},
    sorted::Map,
    sys::{deadline::Deadline, poll::PollSet},
    terminal::text,
};

/// Whoever is there answers sooner; after so long it is told that there is no answer.
const SOON: Duration = Duration::from_secs(2);

/// How long after a call that ended there is another: at first, and at most.
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// More sessions of one machine are not shown.
const MOST_SESSIONS: usize = 20_000;

/// How it stands with what is told there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// There is no call; the next one is then.
    Pausing(Deadline),
    /// By this call it has sent nothing yet. When that has passed, that is told.
    Calling(Deadline),
    /// It tells of its sessions.
    Heard,
    /// It did, and the connection is lost. When that has passed, that is told.
    Silent(Deadline),
}

pub(super) struct FarFeed {
    machine: MachineName,
    words: Vec<Vec<u8>>,
    // Invariant: `None` exactly while it is pausing.
    call: Option<RemoteCall>,
    standing: Standing,
    // Something is to be read or sent.
    stirred: bool,
    // How long it is until the next call when this one is over.
    pause: Duration,
    lines: FarLines,
    // Those of which it has told, and whether by this call.
    known: Map<Address, bool>,
}

impl FarFeed {
    pub(super) fn new(machine: MachineName, pattern: Option<&str>) -> FarFeed {
        let mut words: Vec<Vec<u8>> = ["list", "--json", "--follow"].map(|word| word.into()).into();
        words.extend(pattern.map(|pattern| format!("--name={pattern}").into_bytes()));
        FarFeed {
            machine,
            words,
            call: None,
            standing: Standing::Pausing(Deadline::after(Duration::ZERO)),
            stirred: false,
            pause: PAUSE,
            lines: FarLines::default(),
            known: Map::new(),
        }
    }

    pub(super) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        if let Some(call) = &self.call {
            call.watch(poll_set, event);
        }
    }

    pub(super) fn deadline(&self) -> Deadline {
        let call = self.call.as_ref().map_or(Deadline::NEVER, RemoteCall::deadline);
        match self.standing {
            _ if self.stirred => Deadline::after(Duration::ZERO),
            Standing::Pausing(due) | Standing::Calling(due) | Standing::Silent(due) => due.min(call),
            Standing::Heard => call,
        }
    }

    pub(super) fn note(&mut self) {
        self.stirred = true;
    }

    /// Takes what has come, and calls where that is to be done.
    pub(super) fn take_news(&mut self, send: &mut dyn FnMut(FeedNews)) {
        if !std::mem::take(&mut self.stirred) && !self.deadline().has_passed() {
            return;
        }
        if let Standing::Pausing(until) = self.standing
            && until.has_passed()
        {
            match RemoteCall::begin(&self.machine, self.words.clone(), None, None) {
                Ok(call) => self.call = Some(call),
                Err(failure) => return self.disconnect(failure.message().unwrap_or_default(), send),
            }
            self.standing = Standing::Calling(Deadline::after(SOON));
        }
        let Some(call) = &mut self.call else { return };
        let mut came = Vec::new();
        call.drive(&mut came);
        let trouble = call.trouble().map(str::to_owned);
        for came in came {
            match came {
                Came::Stdout(bytes) => self.take(&bytes, send),
                Came::Stderr(bytes) => self.lines.take_words(&bytes),
                Came::Ended(End::Lost(failure)) => {
                    return self.disconnect(failure.message().unwrap_or_default(), send);
                }
                Came::Ended(End::Exit(_)) => {
                    let last = |words: &[u8]| json::error_of(String::from_utf8_lossy(words).lines().last()?);
                    return self.disconnect(&self.lines.why(last), send);
                }
            }
        }
        self.look_at_the_clock(trouble.as_deref(), send);
        if self.known.len() > MOST_SESSIONS {
            // The next call would tell of as many.
            self.pause = LONGEST_PAUSE;
            self.disconnect("it has more sessions than can be shown", send);
        }
    }

    /// To be done when all that has come was heeded; `trouble` is why there is no connection.
    fn look_at_the_clock(&mut self, trouble: Option<&str>, send: &mut dyn FnMut(FeedNews)) {
        match (self.standing, trouble) {
            (Standing::Heard, Some(_)) => self.standing = Standing::Silent(Deadline::after(SOON)),
            (Standing::Silent(_), None) => self.standing = Standing::Heard,
            (Standing::Calling(due) | Standing::Silent(due), why) if due.has_passed() => {
                self.miss(why.unwrap_or("it has sent nothing yet"), false, send);
                // It may be another reason by then.
                let next = Deadline::after(LONGEST_PAUSE);
                self.standing = match self.standing {
                    Standing::Calling(_) => Standing::Calling(next),
                    _ => Standing::Silent(next),
                };
            }
            _ => {}
        }
    }

    /// There is no call any more: what its sessions do is not known.
    fn disconnect(&mut self, why: &str, send: &mut dyn FnMut(FeedNews)) {
        (self.call, self.standing) = (None, Standing::Pausing(Deadline::after(self.pause)));
        self.lines = FarLines::default();
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.known.values_mut().for_each(|is_there| *is_there = false);
        self.miss(why, true, send);
    }

    fn miss(&self, why: &str, is_over: bool, send: &mut dyn FnMut(FeedNews)) {
        let why = text::escaped(self.machine.left_out_of(why).as_bytes());
        send(FeedNews::Lost { machine: self.machine.to_string(), why, is_over });
    }

    fn take(&mut self, bytes: &[u8], send: &mut dyn FnMut(FeedNews)) {
        let machine = Some(self.machine.as_str());
        let was_heard = self.standing == Standing::Heard;
        for line in self.lines.take(bytes) {
            // What makes no sense changes nothing. That there is a connection is not enough: a call
            // may end at once, time and again.
            if let Some((address, name)) = removed_of(&line, machine) {
                self.known.remove(&address);
                send(FeedNews::Removed(address, name));
            } else if let Some(overview) = ActivityView::parse(&line, machine) {
                *self.known.or_insert(overview.address(), true) = true;
                send(FeedNews::Told(Box::new(overview)));
            } else {
                continue;
            }
            (self.standing, self.pause) = (Standing::Heard, PAUSE);
        }
        if !was_heard && self.standing == Standing::Heard {
            // Those of an earlier call that this one does not begin with have gone, or come again.
            self.known.retain(|address, is_there| {
                if !*is_there {
                    send(FeedNews::Removed(address.clone(), None));
                }
                *is_there
            });
        }
    }
}
