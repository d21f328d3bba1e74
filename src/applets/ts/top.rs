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
//!   --on=MACHINE      on that machine (repeatable; all: here and on all that are
//!                     known); the screen of a session there is as it was when
//!                     what it does was another last
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
        call_process::default_on,
        elsewhere,
        top::{self, Scope},
    },
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (pattern, mut on) = (call.optional("name", cli::text)?, call.values("on", cli::some)?);
    if call.json() {
        return Err(Failure::bad_args("--json is of 'list --long'".into()));
    }

    if on.is_empty() {
        on.extend(default_on());
    }
    let machines = if on.is_empty() { vec![None] } else { elsewhere::machines(&on)? };
    let scope = Scope { pattern, machines };
    let state_dir = StateDir::open_or_make()?;
    if !call.has("once") && top::is_possible() {
        return top::show(&scope);
    }
    if scope.machines == [None] {
        return cli::print(list::long(&state_dir, scope.pattern.as_deref())?);
    }
    let name = scope.pattern.iter().map(|pattern| format!("--name={pattern}"));
    let on = on.iter().map(|on| [OsStr::new("--on="), on].into_iter().collect::<OsString>());
    let mut list = child::ourselves("nbs-ts");
    let list = list.args(["list", "--long"]).args(name).args(on);
    Err(list.exec()).trying("list the sessions")
}
