//! list - list the sessions
//!
//! Usage: nbs-ts list [options]
//!
//! A line each, oldest first, with tabs between: handle, alive or dead, name
//! (or -), command.
//!
//! Options:
//!   --name=PATTERN    only those with this in their name
//!   --on=MACHINE      on that machine (repeatable; all: here and on all that are
//!                     known); its handles begin with its name
//!   --json            print an object for each
//!
//! Example:
//!   nbs-ts list --name=build

use crate::{
    cli::{self, Args},
    outcome::Result,
    session::{Glance, Name, StateDir},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::Long;
    let mut pattern = None;
    while let Some(arg) = args.next()? {
        match arg {
            Long("name") => pattern = Some(args.some_text_value("name")?),
            other => return Err(other.unexpected().into()),
        }
    }

    let wanted = |name: Option<&Name>| match &pattern {
        Some(pattern) => name.is_some_and(|name| name.is_like(pattern)),
        None => true,
    };
    let state_dir = StateDir::open()?;
    let lines: String = match args.json() {
        true => state_dir.summaries(&wanted)?.iter().map(|summary| summary.json().line()).collect(),
        false => state_dir.glances(&wanted)?.iter().map(line).collect(),
    };
    cli::print(lines)
}

fn line(session: &Glance) -> String {
    let name = session.name.as_ref().map_or("-", Name::as_str);
    format!("{}\t{}\t{name}\t{}\n", session.handle, session.state(), session.command)
}
