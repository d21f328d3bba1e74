//! events - show how sessions ended
//! Task: End, 3
//!
//! Usage: nbs-ts events [--follow [--waiting]] [options]
//!
//! Prints a line for each ended session, in the order in which they ended: a JSON
//! object with exit code, signal, what ended it, and its last lines. Includes
//! removed sessions until `gc` drops them.
//!
//! Options:
//!   --follow          continue, printing each session once, as it ends
//!   --waiting         with --follow: also print each time a session starts to
//!                     wait for input with no call waiting on it
//!                     ("type":"waiting"), what a session reports
//!                     ("type":"report"), and the notices that its program sends
//!                     to the terminal ("type":"notice")
//!   --name=PART       only sessions with this in their name
//!   --on=MACHINE      show that machine's sessions (repeatable; 'all': this and
//!                     all known machines; default: $NBS_TS_ON); its name prefixes
//!                     their handles
//!   --json            no effect: the output is always JSON
//!
//! Example:
//!   nbs-ts events --follow | while read -r event; do echo "$event"; done

use std::{
    io,
    time::{Duration, SystemTime},
};

use crate::{
    call::CommandLine,
    cli,
    feed::{Feed, FeedEvent, FeedNews},
    json::Object,
    outcome::{Failure, Result, Trying},
    session::{self, Activity, ActivityView, Events, Handle, Name, Notice, Report, StateDir, by_time},
    sorted::{Map, Set},
    sys::{
        clock::unix_seconds,
        deadline::Deadline,
        poll::PollSet,
        watch::{FolderChange, Watch},
    },
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (follow, waiting) = (call.has("follow"), call.has("waiting"));
    let pattern = call.optional("name", cli::text)?;

    let state_dir = StateDir::open_or_make()?;
    let events = state_dir.events()?;
    let mut teller = Teller { state_dir, events, pattern, told: Set::new() };
    if follow {
        let begun = unix_seconds(SystemTime::now());
        let pattern = teller.pattern.as_deref();
        let feed = waiting.then(|| Feed::begin(&teller.state_dir, pattern, &[None])).transpose()?;
        return teller.follow(feed.map(|(feed, _)| Following { feed, told: Map::new(), begun }));
    }
    let searched = teller.state_dir.record_ends(&teller.events);
    teller.print(teller.events.handles().trying("read the events")?)?;
    searched
}

struct Teller {
    state_dir: StateDir,
    events: Events,
    pattern: Option<String>,
    told: Set<Handle>,
}

/// The places to check for new events.
#[derive(Default)]
struct Look {
    /// A relay may have been killed, and its session's end is not recorded yet.
    sessions: bool,
    /// Among all events.
    everywhere: bool,
    /// Here.
    came: Vec<Handle>,
}

#[derive(Clone, Copy)]
enum TellerEvent {
    Changed,
    Feed(FeedEvent),
    ReaderGone,
}

impl Teller {
    /// Prints the events of these sessions, in the order of their ends.
    fn print(&mut self, handles: Vec<Handle>) -> Result<()> {
        let mut notices: Vec<Notice> = Vec::new();
        for handle in handles {
            // An unreadable event was removed by `gc`, or is not ours.
            if !self.told.contains(&handle)
                && let Some(notice) = self.events.notice(&handle)
            {
                notices.push(notice);
                self.told.insert(handle);
            }
        }
        let wanted =
            |notice: &&Notice| self.pattern.as_ref().is_none_or(|pattern| notice.is_named_like(pattern));
        let lines = notices.iter().filter(wanted);
        let lines = lines.map(|notice| (notice.ended.unwrap_or_default(), notice.line().to_owned()));
        cli::print(by_time(lines.collect(), usize::MAX))
    }

    /// Watches first and looks second, so that nothing comes between.
    fn follow(&mut self, mut following: Option<Following>) -> Result<()> {
        let what = "watch for ended sessions";
        let watch = Watch::folder(&self.state_dir.path().join(session::EVENTS)).trying(what)?;
        let _following = self.events.follow().trying(what)?;
        let stdout = io::stdout();
        let mut look = Look { sessions: true, everywhere: true, came: Vec::new() };
        let mut retry = Deadline::NEVER;
        loop {
            if look.sessions || retry.has_passed() {
                retry = self.search(retry);
            }
            let handles = match look.everywhere {
                true => self.events.handles().trying("read the events")?,
                false => look.came,
            };
            self.print(handles)?;
            if let Some(following) = &mut following {
                cli::print(following.take_news(&self.state_dir)?)?;
            }
            let (mut poll_set, mut deadline) = (PollSet::new(), retry);
            poll_set.readable(&watch, TellerEvent::Changed);
            poll_set.gone(&stdout, TellerEvent::ReaderGone);
            if let Some(following) = &following {
                following.feed.watch(&mut poll_set, TellerEvent::Feed);
                deadline = deadline.min(following.feed.deadline());
            }
            let events = poll_set.wait(deadline).trying(what)?;
            if events.iter().any(|event| matches!(event, TellerEvent::ReaderGone)) {
                return Err(Failure::reader_gone());
            }
            for event in events {
                if let (TellerEvent::Feed(event), Some(following)) = (event, &mut following) {
                    following.feed.note(event);
                }
            }
            look = self.handle(watch.changes().trying(what)?)?;
        }
    }

    /// Records ends that are not recorded. If that fails, as on a full disk, we warn once and retry.
    /// Returns the time of the next attempt.
    fn search(&self, before: Deadline) -> Deadline {
        let Err(failure) = self.state_dir.record_ends(&self.events) else { return Deadline::NEVER };
        if before == Deadline::NEVER {
            cli::warn("nbs-ts", &failure.to_string());
        }
        Deadline::after(TELL_AGAIN)
    }

    /// The places to check after these changes.
    fn handle(&mut self, changes: Vec<FolderChange>) -> Result<Look> {
        let mut look = Look::default();
        for change in changes {
            match change {
                FolderChange::Came(name) => look.came.extend(session::handle_of(&name)),
                FolderChange::Written(name) => look.sessions |= name == session::ALIVE,
                FolderChange::Went(name) => {
                    session::handle_of(&name).map(|handle| self.told.remove(&handle));
                }
                FolderChange::Missed => look = Look { sessions: true, everywhere: true, ..look },
                FolderChange::FolderWent => {
                    return Err(Failure::failed(
                        "cannot follow the events: their directory has been removed".into(),
                    ));
                }
            }
        }
        Ok(look)
    }
}

/// The reports of live sessions, and which of them were printed.
struct Following {
    feed: Feed,
    told: Map<Handle, ToldOfOne>,
    /// Since 1970: earlier changes are not printed.
    begun: Duration,
}

/// The last printed time of waiting, and the last report.
#[derive(Default)]
struct ToldOfOne {
    waiting: Option<Duration>,
    report: Option<Report>,
    /// The number of the last notice.
    noticed: u64,
}

impl Following {
    /// Returns the lines of new events.
    fn take_news(&mut self, state_dir: &StateDir) -> Result<String> {
        let mut lines = String::new();
        self.feed.take_news(state_dir, &mut |news| match news {
            FeedNews::Told(overview) if overview.glance.alive => {
                let Some(overview) = state_dir.looked_at(*overview) else { return };
                let handle = overview.glance.handle.clone();
                self.told.or_insert(handle, ToldOfOne::default()).print(overview, self.begun, &mut lines);
            }
            FeedNews::Told(overview) => drop(self.told.remove(&overview.glance.handle)),
            FeedNews::Removed(address, _) => drop(self.told.remove(&address.handle)),
            FeedNews::Lost { .. } => {}
        })?;
        Ok(lines)
    }
}

impl ToldOfOne {
    fn print(&mut self, overview: ActivityView, begun: Duration, lines: &mut String) {
        let glance = &overview.glance;
        let pane = glance.name.as_ref().map_or(glance.handle.as_str(), Name::as_str).to_owned();
        let begin = |kind| {
            let object = Object::new().text("type", kind).text("session_id", glance.handle.as_str());
            object.text("pane_id", &pane)
        };
        if let Some(report) = &overview.report
            && self.report.as_ref() != Some(report)
        {
            let object = begin("report").text("state", report.state.word()).bytes("text", &report.text);
            *lines += &object.seconds_or_null("since", Some(report.since)).line();
        }
        for notice in &overview.said.notices {
            if notice.number > self.noticed && notice.since >= begun {
                *lines += &notice.describe(begin("notice")).line();
            }
            self.noticed = self.noticed.max(notice.number);
        }
        let since = overview.since.filter(|_| overview.activity == Some(Activity::Waiting));
        if since.is_some() && since != self.waiting && !overview.attended {
            let object = begin("waiting")
                .bytes_or_null("terminal", overview.terminal())
                .bytes_or_null("question", overview.question.as_ref().map(|line| line.as_bytes()));
            *lines += &object.seconds_or_null("since", since).line();
        }
        (self.waiting, self.report) = (since, overview.report);
    }
}

/// When to try again to write down an end that a killed relay did not.
const TELL_AGAIN: Duration = Duration::from_secs(2);
