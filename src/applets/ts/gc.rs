//! gc - remove sessions that have long been dead
//! Task: Maintain, 3
//!
//! Usage: nbs-ts gc [--hours=N|--ttl=TIME] [options]
//!
//! Keeps sessions that are alive or being created. Also removes what a killed
//! `create` or `kill` left, and drops the events of removed sessions that ended
//! that long ago (at least 4 hours, while anyone follows them). Prints a line for
//! each session that it removed, and a count.
//!
//! Options:
//!   --hours=N         remove those that died at least N hours ago (default: 4)
//!   --ttl=TIME        the same, as a time like 30m
//!   --keep=N          keep only the N that died last; without --hours or --ttl,
//!                     however old those are
//!   --on=MACHINE      clean up that machine (repeatable; 'all': this and all
//!                     known machines; default: $NBS_TS_ON)
//!   --json            print an object for each session removed
//!
//! Example:
//!   nbs-ts gc --hours=1

use std::time::Duration;

use crate::{
    call::CommandLine,
    cli,
    outcome::{Failure, Result},
    session::{ActivityView, ListEntry, Name, Retention, StateDir},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (hours, ttl) = (call.optional("hours", cli::number)?, call.optional("ttl", cli::time)?);
    let most = call.optional("keep", cli::number)?;
    let oldest = hours.map(|hours| Duration::from_secs(hours.saturating_mul(3_600))).or(ttl);
    let most = most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    let oldest = if most.is_some() { oldest } else { oldest.or(Some(Retention::DEFAULT)) };

    let state_dir = StateDir::open()?;
    let describe = |glance: &ListEntry| match call.json() {
        true => state_dir.looked_at(ActivityView::untold(glance.clone())).map(|dead| dead.json().line()),
        false => None,
    };
    let collected =
        state_dir.collect(&Retention { oldest, most }, |glance| describe(glance).unwrap_or_default())?;
    for (glance, told, dead_for) in &collected.removed {
        if call.json() {
            cli::print(told)?;
            continue;
        }
        let ListEntry { handle, name, .. } = glance;
        let name = name.as_ref().map_or("-", Name::as_str);
        let hours = dead_for.map(|dead_for| format!("{}h", dead_for.as_secs() / 3_600));
        let dead_for = hours.as_deref().unwrap_or("unknown time");
        cli::print(format!("gc: removed {handle} ({name}), dead for {dead_for}\n"))?;
    }
    if !call.json() {
        cli::print(format!(
            "gc: removed {} sessions, kept {} alive + {} recent dead\n",
            collected.removed.len(),
            collected.alive,
            collected.recent
        ))?;
    }
    Failure::all(collected.failures)
}
