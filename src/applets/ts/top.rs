//! top - show all sessions live, and answer those that wait
//! Task: See, 7
//!
//! Usage: nbs-ts top [options]
//!
//! Shows the list of `list --long`, with sessions waiting for input first, and
//! below it the last commands and the screen of the selected session. Redraws only
//! on changes. Hides the session that it is called in.
//!
//! Arrows or j and k select a session, and n the next one that waits. Enter
//! attaches (C-\ d detaches). Press `a` to answer a question, as `answer` does, or
//! to give an idle program a line, as `send --submit` does. At a secret prompt,
//! `top` hides what you type. After confirmation, x ends a session or removes a
//! dead one. / filters by text, Escape shows all again, and q quits.
//!
//! Options:
//!   --name=PART       only sessions with this in their name
//!   --on=MACHINE      show that machine's sessions (repeatable; 'all': this and
//!                     all known machines; default: $NBS_TS_ON); a screen there is
//!                     updated when the session's activity changes
//!   --once            print `list --long` instead, as without a terminal
//!
//! Example:
//!   nbs-ts top

use std::{
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
};

use crate::{
    applets::ts::list,
    call::CommandLine,
    cli,
    outcome::{Failure, Result, Trying},
    session::StateDir,
    sys::child,
    ts::{
        remote,
        top::{self, Scope},
    },
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let pattern = call.optional("name", cli::text)?;
    if call.json() {
        return Err(Failure::bad_args("cannot use --json with top; try 'nbs-ts list --long --json'".into()));
    }

    let machines = remote::shown(call)?;
    let scope = Scope { pattern, machines };
    let state_dir = StateDir::open_or_make()?;
    if !call.has("once") && top::is_possible() {
        return top::show(&scope);
    }
    if scope.machines == [None] {
        return cli::print(list::long(&state_dir, scope.pattern.as_deref())?);
    }
    let name = scope.pattern.iter().map(|pattern| format!("--name={pattern}"));
    let on = call.values("on", cli::some)?;
    let on = on.iter().map(|on| [OsStr::new("--on="), on].into_iter().collect::<OsString>());
    let mut list = child::ourselves("nbs-ts");
    let list = list.args(["list", "--long"]).args(name).args(on);
    Err(list.exec()).trying("list the sessions")
}
