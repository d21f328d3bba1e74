//! top - show all sessions live, and answer those that wait
//!
//! Usage: nbs-ts top [options]
//!
//! The list of `list --long`, those that wait for somebody first, and below it
//! the screen of the session that is selected. It is drawn when something
//! happens, and sleeps while nothing does. The session that it is called in is
//! not shown.
//!
//! Keys: arrows or j k select, n the next that waits; Enter attaches (C-\ d
//! comes back); a answers with a line, which is not shown where a secret is
//! asked for; x ends a session, and removes one that has ended (it asks first);
//! / shows those only with a text in them, Escape all; q quits.
//!
//! Options:
//!   --name=PATTERN    only sessions with this in their name
//!   --once            print `list --long` instead, as without a terminal
//!
//! Example:
//!   nbs-ts top

use crate::{
    applets::ts::list,
    cli::{self, Args},
    outcome::{Failure, Result},
    session::StateDir,
    ts::top,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::Long;
    let (mut pattern, mut once) = (None, false);
    while let Some(arg) = args.next()? {
        match arg {
            Long("name") => pattern = Some(args.some_text_value("name")?),
            Long("once") => once = true,
            other => return Err(other.unexpected().into()),
        }
    }
    if args.json() {
        return Err(Failure::BadArgs("--json is of 'list --long'".into()));
    }

    let state_dir = StateDir::open_or_make()?;
    if !once && top::is_possible() {
        return top::show(pattern.as_deref());
    }
    cli::print(list::long(&state_dir, pattern.as_deref())?)
}
