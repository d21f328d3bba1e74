//! gc - remove sessions that have long been dead
//!
//! Usage: nbs-ts gc [--hours=N|--ttl=TIME] [options]
//!
//! Never one that is alive, nor one that is being made. What a killed `create`
//! or `kill` left goes, too, and what `events` has of sessions that were removed
//! and ended so long ago (while somebody follows the events, at least 4 hours).
//! Prints a line for each that it removed, and one that counts.
//!
//! Options:
//!   --hours=N         how long they must have been dead (default: 4)
//!   --ttl=TIME        the same instead, as a time like 30m
//!   --keep=N          keep the N that died last, and no more; without --hours
//!                     or --ttl, however long they have been dead
//!   --on=MACHINE      on that machine (repeatable; all: here and on all that are
//!                     known)
//!   --json            print an object for each that was removed
//!
//! Example:
//!   nbs-ts gc --hours=1

use std::time::Duration;

use crate::{
    call::CommandLine,
    cli,
    outcome::{Failure, Result},
    session::{Glance, Name, Retention, StateDir},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (hours, ttl) = (call.optional("hours", cli::number)?, call.optional("ttl", cli::time)?);
    let most = call.optional("keep", cli::number)?;
    let oldest = hours.map(|hours| Duration::from_secs(hours.saturating_mul(3_600))).or(ttl);
    let most = most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    let oldest = if most.is_some() { oldest } else { oldest.or(Some(Retention::DEFAULT)) };

    let collected = StateDir::open()?.collect(&Retention { oldest, most })?;
    for (summary, dead_for) in &collected.removed {
        if call.json() {
            cli::print(summary.json().line())?;
            continue;
        }
        let Glance { handle, name, .. } = &summary.glance;
        let name = name.as_ref().map_or("-", Name::as_str);
        let hours = dead_for.map(|dead_for| format!("{}h", dead_for.as_secs() / 3_600));
        let dead_for = hours.as_deref().unwrap_or("an unknown time");
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
