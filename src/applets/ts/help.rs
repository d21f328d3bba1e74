//! help - tell how to use a command
//!
//! Usage: nbs-ts help [COMMAND]
//!
//! Without COMMAND, lists them all.
//!
//! Example:
//!   nbs-ts help send

use crate::{
    applets::{
        find,
        ts::{self, VERBS},
    },
    cli::{self, Args},
    outcome::{Failure, Result},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::Value;
    let mut wanted = None;
    while let Some(arg) = args.next()? {
        match arg {
            Value(word) if wanted.is_none() => wanted = Some(word),
            other => return Err(other.unexpected().into()),
        }
    }

    let Some(word) = wanted else { return cli::print(ts::overview()) };
    match find(VERBS, &word) {
        Some(verb) => cli::print(verb.help),
        None => Err(Failure::BadArgs(format!(
            "'{}' is no command of nbs-ts; 'nbs-ts help' lists them",
            word.display()
        ))),
    }
}
