//! clipboard - print what a program has copied
//! Task: See, 4
//!
//! Usage: nbs-ts clipboard [--json] SESSION
//!
//! Prints the text that a program last put on its terminal's clipboard (OSC 52),
//! byte for byte. This clipboard is the session's own: nbs does not touch the
//! desktop's, and answers no program that asks for it.
//!
//! Options:
//!   --json            print an object: handle, text
//!
//! Exit codes:
//!   1                 nothing was copied
//!
//! Example:
//!   nbs-ts clipboard @edit > copied

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Result},
    session::{ScreenCache, StateDir},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let target = call.session()?;

    let session = StateDir::open()?.session(&target)?;
    let cache = ScreenCache::look(&session)?;
    let handle = session.handle();
    let Some(copied) = cache.screen.clipboard() else {
        let why = "no program has copied anything (OSC 52)";
        return Err(Failure::failed(format!("{why} in session '{handle}'")));
    };
    if call.json() {
        let object = Object::new().text("handle", handle.as_str()).bytes("text", copied);
        return cli::print(object.line());
    }
    cli::print(copied)
}
