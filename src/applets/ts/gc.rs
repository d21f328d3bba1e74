//! gc - remove sessions that have long been dead
//!
//! Usage: nbs-ts gc [--hours=N]
//!
//! Never one that is alive, nor one that is being made. What a killed `create`
//! or `kill` left goes, too. Prints a line for each that it removed, and one
//! that counts.
//!
//! Options:
//!   --hours=N         how long they must have been dead (default: 4)
//!   --json            print an object for each that was removed
//!
//! Example:
//!   nbs-ts gc --hours=1

use std::time::Duration;

use crate::{
    cli::{self, Args},
    outcome::{Failure, Result},
    session::{Home, Name},
};

const HOURS: u64 = 4;

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::Long;
    let mut hours = HOURS;
    while let Some(arg) = args.next()? {
        match arg {
            Long("hours") => hours = args.number_value("hours")?,
            other => return Err(other.unexpected().into()),
        }
    }

    let oldest = Duration::from_secs(hours.saturating_mul(3_600));
    let collected = Home::open()?.collect(|dead_for| dead_for >= oldest)?;
    for (summary, dead_for) in &collected.removed {
        if args.json() {
            cli::print(summary.json().line())?;
            continue;
        }
        let name = summary.name.as_ref().map_or("-", Name::as_str);
        let hours = dead_for.as_secs() / 3_600;
        cli::print(format!("gc: removed {} ({name}), dead for {hours}h\n", summary.handle))?;
    }
    if !args.json() {
        cli::print(format!(
            "gc: removed {} sessions, kept {} alive + {} recent dead\n",
            collected.removed.len(),
            collected.alive,
            collected.recent
        ))?;
    }
    Failure::all(collected.failures)
}
