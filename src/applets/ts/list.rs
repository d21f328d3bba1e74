//! list - list the sessions
//!
//! Usage: nbs-ts list [options]
//!
//! A line each, oldest first, with tabs between: handle, alive or dead, name
//! (or -), command.
//!
//! Options:
//!   --name=PATTERN    only those with this in their name
//!   --json            print an object for each
//!
//! Example:
//!   nbs-ts list --name=build

use crate::{
    applets::one_line,
    cli::{self, Args},
    outcome::Result,
    session::{Home, Name, SessionDir, Summary},
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

    let wanted = |session: &SessionDir| match &pattern {
        Some(pattern) => session.is_named_like(pattern),
        None => true,
    };
    let sessions = Home::open()?.summaries(wanted)?;
    let lines: String = sessions.iter().map(if args.json() { json } else { line }).collect();
    cli::print(lines)
}

fn line(summary: &Summary) -> String {
    let name = summary.name.as_ref().map_or("-", Name::as_str);
    format!("{}\t{}\t{name}\t{}\n", summary.handle, summary.state(), one_line(&summary.command))
}

fn json(summary: &Summary) -> String {
    summary.json().line()
}
