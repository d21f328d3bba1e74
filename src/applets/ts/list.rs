//! list - list the sessions
//!
//! Usage: nbs-ts list [options]
//!        nbs-ts list --follow --json [--name=PATTERN] [--on=MACHINE]
//!
//! Prints a line for each, oldest first, with tabs between: handle, alive or
//! dead, name (or -), command.
//!
//! With --long, prints columns for a person: sessions that wait for input first,
//! then those that are done. The activity is what the session reports (`report`),
//! else what its program reports, else what nbs sees. It is waiting, failed, done,
//! working, idle (a shell at its prompt) or dead. A session is waiting if a
//! program waits for a line, a secret or, idle for a second, for keys. The next
//! column says since when.
//!
//! Options:
//!   --long            show session, activity, since, program, directory, and
//!                     the question or the last line printed
//!   --waiting         like --long, only sessions that wait for input, and below
//!                     them those that have failed or are done
//!   --name=PATTERN    only sessions with this in their name
//!   --on=MACHINE      list that machine's sessions (repeatable; all: this and
//!                     all known machines); its name begins their handles
//!   --follow          with --json: continue with sessions whose activity changes,
//!                     or that are removed (which is then their activity)
//!   --json            print an object for each; with activity, since, program,
//!                     folder, last_line, question, report, stalled
//!
//! Example:
//!   nbs-ts list --waiting

use std::io;

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Result, Trying},
    session::{
        Activity, Glance, Handle, Name, Overview, Roster, RosterEvent, RosterNews, StateDir, Target,
        client::ToldStanding,
    },
    sys::{deadline::Deadline, poll::PollSet},
    ts::listing,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (pattern, long, waiting) = (call.optional("name", cli::text)?, call.has("long"), call.has("waiting"));
    if call.has("follow") {
        return follow(&StateDir::open_or_make()?, pattern);
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
        true => cli::print(objects(&state_dir, overviews)?),
        false => cli::print(listing::table(&overviews)),
    }
}

fn line(session: &Glance) -> String {
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
    Roster(RosterEvent),
    ReaderGone,
}

/// Prints the activity of sessions as their relays report it.
fn follow(state_dir: &StateDir, pattern: Option<String>) -> Result<()> {
    let (mut roster, glances) = Roster::begin(state_dir, pattern)?;
    let looked = |glance: Glance, told| {
        let session = state_dir.session(&Target::Handle(glance.handle.clone())).ok()?;
        Some(Overview::of(&session, glance, told))
    };
    let all = glances.into_iter().filter_map(|glance| {
        let told = if glance.alive { ToldStanding::Nothing } else { ToldStanding::Ended };
        looked(glance, told)
    });
    cli::print(objects(state_dir, all.collect())?)?;
    let stdout = io::stdout();
    loop {
        let (mut changed, mut removed) = (Vec::new(), Vec::new());
        roster.take_news(state_dir, &mut |news| match news {
            RosterNews::Told(session, told) => {
                changed.extend(Glance::at(session).map(|glance| Overview::of(session, glance, told)));
            }
            RosterNews::Ended(handle) => {
                let session = state_dir.session(&Target::Handle(handle)).ok();
                let glance = session.and_then(|session| Glance::at(&session));
                changed.extend(glance.and_then(|glance| looked(glance, ToldStanding::Ended)));
            }
            RosterNews::Removed(handle) => removed.push(handle),
        })?;
        let removed = removed.iter().map(|handle: &Handle| {
            Object::new().text("handle", handle.as_str()).text("state", "removed").line()
        });
        cli::print(removed.collect::<String>() + &objects(state_dir, changed)?)?;
        let mut poll_set = PollSet::new();
        roster.watch(&mut poll_set, FollowEvent::Roster);
        poll_set.gone(&stdout, FollowEvent::ReaderGone);
        for event in poll_set.wait(Deadline::NEVER).trying("watch the sessions")? {
            match event {
                FollowEvent::Roster(event) => roster.note(event),
                FollowEvent::ReaderGone => return Err(Failure::ReaderGone),
            }
        }
    }
}

fn objects(state_dir: &StateDir, overviews: Vec<Overview>) -> Result<String> {
    let mut lines = String::new();
    for overview in overviews {
        match state_dir.summary(&overview.glance) {
            Ok(summary) => {
                let object = summary.json().bytes_or_null("terminal", overview.terminal());
                lines += &overview.describe(object).line();
            }
            // Removed meanwhile.
            Err(Failure::NotFound(_)) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(lines)
}
