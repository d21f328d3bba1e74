//! list - list the sessions
//! Task: See, 6
//!
//! Usage: nbs-ts list [options]
//!        nbs-ts list --follow --json [--name=PART] [--on=MACHINE]
//!
//! Prints a tab-separated line for each session, oldest first: handle, alive or
//! dead, name (or -), command.
//!
//! With --long, prints columns for a person. Sessions waiting for input come
//! first, then failed ones, then finished ones. The activity is what the session
//! reports (`report`), else what its program reports, else what nbs sees. It is
//! waiting, failed, done, working, idle (a shell at its prompt) or dead. The next
//! column shows for how long. A session is waiting if a program waits for a line
//! or a secret, or has waited for keys for a second.
//!
//! Options:
//!   --long            show session, activity, since, program, directory, and
//!                     the question or the last line printed
//!   --waiting         like --long, but only sessions that are waiting, failed or
//!                     done
//!   --name=PART       only sessions with this in their name
//!   --on=MACHINE      list that machine's sessions (repeatable; 'all': this and
//!                     all known machines; default: $NBS_TS_ON); its name prefixes
//!                     their handles
//!   --follow          with --json: then print each session whose activity
//!                     changes, or that is removed (`state`: removed)
//!   --json            print an object for each: also activity, since, program,
//!                     folder, last_line, question, report, stalled; with --long
//!                     also listens: the TCP ports that its processes listen on
//!
//! Example:
//!   nbs-ts list --waiting

use std::io;

use crate::{
    call::CommandLine,
    cli,
    feed::{Feed, FeedEvent, FeedNews},
    outcome::{Failure, Result, Trying},
    session::{Activity, ActivityView, ListEntry, Name, StateDir, Target, removed},
    sys::{poll::PollSet, ports::Listening},
    ts::listing,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (pattern, long, waiting) = (call.optional("name", cli::text)?, call.has("long"), call.has("waiting"));
    if call.has("follow") {
        return follow(&StateDir::open_or_make()?, pattern.as_deref());
    }
    let wanted = |name: Option<&Name>| Name::is_wanted(name, pattern.as_deref());
    let state_dir = StateDir::open()?;
    if !long && !waiting && !call.json() {
        return cli::print(state_dir.glances(&wanted)?.iter().map(line).collect::<String>());
    }
    let mut overviews = state_dir.overviews(&wanted)?;
    let is_news = |activity: Activity| activity == Activity::Waiting || activity.is_over();
    overviews.retain(|overview| !waiting || overview.activity.is_some_and(is_news));
    if long || waiting {
        overviews.sort_by(listing::order);
    }
    match call.json() {
        true if long => {
            let listening = Listening::look();
            let with_ports = |overview: &ActivityView| {
                let target = Target::Handle(overview.glance.handle.clone());
                let session = state_dir.session(&target).ok();
                let ports = session.map_or(Vec::new(), |session| session.ports(&listening));
                let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                overview.json().json("listens", &format!("[{}]", ports.join(","))).line()
            };
            cli::print(overviews.iter().map(with_ports).collect::<String>())
        }
        true => cli::print(objects(&overviews)),
        false => cli::print(listing::table(&overviews)),
    }
}

fn line(session: &ListEntry) -> String {
    let name = session.name.as_ref().map_or("-", Name::as_str);
    format!("{}\t{}\t{name}\t{}\n", session.handle, session.state(), session.command)
}

/// The output of `list --long` for sessions with this in their name.
pub(super) fn long(state_dir: &StateDir, pattern: Option<&str>) -> Result<String> {
    let mut overviews = state_dir.overviews(&|name| Name::is_wanted(name, pattern))?;
    overviews.sort_by(listing::order);
    Ok(listing::table(&overviews))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FollowEvent {
    Feed(FeedEvent),
    ReaderGone,
}

/// Prints the activity of sessions as their relays report it.
fn follow(state_dir: &StateDir, pattern: Option<&str>) -> Result<()> {
    let (mut feed, there_are) = Feed::begin(state_dir, pattern, &[None])?;
    let looked = |overview: ActivityView| state_dir.looked_at(overview);
    // The relays of the live ones will report them.
    let dead = there_are.into_iter().filter(|overview| !overview.glance.alive).filter_map(looked);
    cli::print(objects(&dead.collect::<Vec<_>>()))?;
    let stdout = io::stdout();
    loop {
        let mut lines = String::new();
        feed.take_news(state_dir, &mut |news| match news {
            FeedNews::Told(overview) => {
                lines.extend(looked(*overview).map(|overview| overview.json().line()));
            }
            FeedNews::Removed(address, name) => lines += &removed(&address, name.as_ref()).line(),
            FeedNews::Lost { .. } => {}
        })?;
        cli::print(lines)?;
        let mut poll_set = PollSet::new();
        feed.watch(&mut poll_set, FollowEvent::Feed);
        poll_set.gone(&stdout, FollowEvent::ReaderGone);
        for event in poll_set.wait(feed.deadline()).trying("watch the sessions")? {
            match event {
                FollowEvent::Feed(event) => feed.note(event),
                FollowEvent::ReaderGone => return Err(Failure::reader_gone()),
            }
        }
    }
}

fn objects(overviews: &[ActivityView]) -> String {
    overviews.iter().map(|overview| overview.json().line()).collect()
}
