//! find - print the handle of the session of a name
//!
//! Usage: nbs-ts find [options] NAME
//!
//! The name must be exactly that. Of several, the newest live one; where none
//! lives, the newest dead one. Elsewhere, @NAME stands for the same session.
//!
//! Options:
//!   --on=MACHINE      on that machine (repeatable; all: here and on all that are
//!                     known); its handles begin with its name
//!   --json            print an object: handle, name
//!
//! Example:
//!   h=$(nbs-ts find build)

use std::os::unix::ffi::OsStrExt;

use crate::{
    cli::{self, Args},
    json::Object,
    outcome::{Failure, Result},
    session::{Name, StateDir},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::Value;
    let mut name = None;
    while let Some(arg) = args.next()? {
        match arg {
            Value(word) if name.is_none() => {
                let parsed = Name::parse(word.as_bytes());
                let bad = || Failure::bad_args(format!("'{}' is not a session's name", word.display()));
                name = Some(parsed.ok_or_else(bad)?);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let name = name.ok_or_else(|| Failure::bad_args("missing a name".into()))?;

    let handle = StateDir::open()?.newest(&name)?;
    if args.json() {
        return cli::print(Object::new().text("handle", handle.as_str()).text("name", name.as_str()).line());
    }
    cli::print(format!("{handle}\n"))
}
