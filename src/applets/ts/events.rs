//! events - tell which sessions have ended, and how
//!
//! Usage: nbs-ts events [options]
//!
//! Prints a JSON object for each, on a line, in the order in which they ended:
//! exit code, signal, who or what ended it, the last lines that it printed. Also
//! of sessions that have been removed, until `gc` finds them too old.
//!
//! Options:
//!   --follow          go on with each that ends from now on, once
//!   --name=PATTERN    only those with this in their name
//!   --on=MACHINE      on that machine (repeatable; all: here and on all that are
//!                     known); its handles begin with its name
//!   --json            changes nothing: it is JSON anyway
//!
//! Example:
//!   nbs-ts events --follow | while read -r event; do echo "$event"; done

use std::{collections::BTreeSet, io, time::Duration};

use crate::{
    cli::{self, Args},
    outcome::{Failure, Result, Trying},
    session::{self, Events, Handle, Notice, StateDir},
    sys::{
        deadline::Deadline,
        poll::PollSet,
        watch::{FolderChange, Watch},
    },
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::Long;
    let (mut follow, mut pattern) = (false, None);
    while let Some(arg) = args.next()? {
        match arg {
            Long("follow") => follow = true,
            Long("name") => pattern = Some(args.some_text_value("name")?),
            other => return Err(other.unexpected().into()),
        }
    }

    let state_dir = StateDir::open_or_make()?;
    let events = state_dir.events()?;
    let mut teller = Teller { state_dir, events, pattern, told: BTreeSet::new() };
    if follow {
        return teller.follow();
    }
    let searched = teller.state_dir.tell_ends(&teller.events);
    teller.tell(teller.events.handles().trying("read the events")?)?;
    searched
}

struct Teller {
    state_dir: StateDir,
    events: Events,
    pattern: Option<String>,
    told: BTreeSet<Handle>,
}

/// Where there may be something to tell.
#[derive(Default)]
struct Look {
    /// A relay may have been killed, and its session's end is still to be told.
    sessions: bool,
    /// Among all events.
    everywhere: bool,
    /// Here.
    came: Vec<Handle>,
}

#[derive(Clone, Copy)]
enum TellerEvent {
    Changed,
    ReaderGone,
}

impl Teller {
    /// Tells of these, the one that ended first coming first.
    fn tell(&mut self, handles: Vec<Handle>) -> Result<()> {
        let mut notices: Vec<Notice> = Vec::new();
        for handle in handles {
            // What cannot be read was removed by `gc`, or is none of ours.
            if !self.told.contains(&handle)
                && let Some(notice) = self.events.notice(&handle)
            {
                notices.push(notice);
                self.told.insert(handle);
            }
        }
        notices.sort_by_key(|notice| notice.ended);
        let wanted =
            |notice: &&Notice| self.pattern.as_ref().is_none_or(|pattern| notice.is_named_like(pattern));
        cli::print(notices.iter().filter(wanted).map(Notice::line).collect::<String>())
    }

    /// Watches first and looks second, so that nothing comes between.
    fn follow(&mut self) -> Result<()> {
        let what = "watch for the ends of sessions";
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
            self.tell(handles)?;
            let mut poll_set = PollSet::new();
            poll_set.readable(&watch, TellerEvent::Changed);
            poll_set.gone(&stdout, TellerEvent::ReaderGone);
            let events = poll_set.wait(retry).trying(what)?;
            if events.iter().any(|event| matches!(event, TellerEvent::ReaderGone)) {
                return Err(Failure::ReaderGone);
            }
            look = self.heed(watch.changes().trying(what)?)?;
        }
    }

    /// Has the ends told that nobody has. One that cannot be, as on a full
    /// disk, may be another time; that is said once. Gives when to try again.
    fn search(&self, before: Deadline) -> Deadline {
        let Err(failure) = self.state_dir.tell_ends(&self.events) else { return Deadline::NEVER };
        if before == Deadline::NEVER {
            cli::warn("nbs-ts", &failure.to_string());
        }
        Deadline::after(TELL_AGAIN)
    }

    /// Where to look for what these changes mean.
    fn heed(&mut self, changes: Vec<FolderChange>) -> Result<Look> {
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
                    return Err(Failure::Failed(
                        "cannot follow the events any more: their folder has been removed".into(),
                    ));
                }
            }
        }
        Ok(look)
    }
}

/// When to try again to write down an end that a killed relay did not.
const TELL_AGAIN: Duration = Duration::from_secs(2);
