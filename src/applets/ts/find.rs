//! find - print the handle of the session with a name
//! Task: See, 8
//!
//! Usage: nbs-ts find [options] NAME
//!
//! The whole name must match. If several sessions match, `find` prints the newest
//! live one; if none is alive, the newest dead one. In other commands, @NAME means
//! the same session.
//!
//! Options:
//!   --on=MACHINE      search that machine (repeatable; 'all': this and all known
//!                     machines; default: $NBS_TS_ON); its name prefixes the
//!                     handles
//!   --json            print an object: handle, name
//!
//! Example:
//!   h=$(nbs-ts find build)

use std::os::unix::ffi::OsStrExt;

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Result},
    session::{Name, StateDir},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let word = call.operand("NAME").unwrap_or_default();
    let bad = || Failure::bad_args(format!("'{}' is not a session's name", word.display()));
    let name = Name::parse(word.as_bytes()).ok_or_else(bad)?;

    let handle = StateDir::open()?.newest(&name)?;
    if call.json() {
        return cli::print(Object::new().text("handle", handle.as_str()).text("name", name.as_str()).line());
    }
    cli::print(format!("{handle}\n"))
}
