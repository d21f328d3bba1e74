//! exit-code - print how a session ended
//! Task: End, 2
//!
//! Usage: nbs-ts exit-code [--json] SESSION
//!
//! Prints the exit code of its command, or 128 + N if signal N killed it. Prints
//! -1 if it is running or its exit code is unknown.
//!
//! Options:
//!   --json            print an object: handle, exit_code (null for -1), and
//!                     ended_by, timed_out and signal (null while it runs)
//!
//! Example:
//!   nbs-ts exit-code "$h"

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::Result,
    session::{Notice, StateDir},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let target = call.session()?;

    let state_dir = StateDir::open()?;
    let session = state_dir.session(&target)?;
    let code = session.exit_code()?.map(i64::from);
    if call.json() {
        let end = if session.is_alive()? { None } else { state_dir.end_of(&session) };
        let object =
            Object::new().text("handle", session.handle().as_str()).number_or_null("exit_code", code);
        return cli::print(Notice::describe(end.as_ref(), object).line());
    }
    cli::print(format!("{}\n", code.unwrap_or(-1)))
}
