//! list - list the sessions
//!
//! Usage: nbs-ts list [options]
//!
//! A line each, oldest first, with tabs between: handle, alive or dead, name
//! (or -), command.
//!
//! With --long, columns for a person, those that wait for somebody first. The
//! state is what the session says of itself (`report`), else what is seen:
//! waiting (a program waits for a line, a secret or, at rest for a second, for
//! keys), working, idle (a shell at its prompt), dead; and since when it is so.
//!
//! Options:
//!   --long            show what each does: session, state, since, program,
//!                     folder, and what it asks or printed last
//!   --waiting         the same, of those only that wait for input
//!   --name=PATTERN    only those with this in their name
//!   --on=MACHINE      on that machine (repeatable; all: here and on all that are
//!                     known); its handles begin with its name
//!   --json            print an object for each; with activity, since, program,
//!                     folder, last_line, question, and report
//!
//! Example:
//!   nbs-ts list --waiting

use crate::{
    cli::{self, Args},
    outcome::{Failure, Result},
    session::{Activity, Glance, Name, Overview, StateDir},
    sys::term,
    ts::listing::{self, Columns},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::Long;
    let (mut pattern, mut long, mut waiting) = (None, false, false);
    while let Some(arg) = args.next()? {
        match arg {
            Long("name") => pattern = Some(args.some_text_value("name")?),
            Long("long") => long = true,
            Long("waiting") => waiting = true,
            other => return Err(other.unexpected().into()),
        }
    }

    let wanted = |name: Option<&Name>| Name::is_wanted(name, pattern.as_deref());
    let state_dir = StateDir::open()?;
    if !long && !waiting && !args.json() {
        return cli::print(state_dir.glances(&wanted)?.iter().map(line).collect::<String>());
    }
    let mut overviews = state_dir.overviews(&wanted)?;
    overviews.retain(|overview| !waiting || overview.activity == Some(Activity::Waiting));
    if long || waiting {
        overviews.sort_by(listing::order);
    }
    match args.json() {
        true => cli::print(objects(&state_dir, overviews)?),
        false => cli::print(table(&overviews)),
    }
}

fn line(session: &Glance) -> String {
    let name = session.name.as_ref().map_or("-", Name::as_str);
    format!("{}\t{}\t{name}\t{}\n", session.handle, session.state(), session.command)
}

/// What `list --long` prints of those with this in their name.
pub(super) fn long(state_dir: &StateDir, pattern: Option<&str>) -> Result<String> {
    let mut overviews = state_dir.overviews(&|name| Name::is_wanted(name, pattern))?;
    overviews.sort_by(listing::order);
    Ok(table(&overviews))
}

/// As wide as the terminal, where it is printed to one.
fn table(overviews: &[Overview]) -> String {
    let names = listing::names(overviews);
    let cells = term::size().ok().flatten().map(|size| size.cols.into());
    let columns = Columns::of(overviews.iter().zip(&names), cells);
    let rows = overviews.iter().zip(&names).map(|(overview, name)| columns.row(overview, name));
    [columns.title()].into_iter().chain(rows).map(|line| line + "\n").collect()
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
