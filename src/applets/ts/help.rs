//! help - tell how to use a command
//!
//! Usage: nbs-ts help [options] [COMMAND]
//!
//! Without COMMAND, lists them all.
//!
//! Options:
//!   --skill           print a page of Markdown that teaches an agent which call
//!                     and which wait to use when
//!   --json            print an object: commands, a list of objects: name,
//!                     summary, usage, options (name, value, default, help) and
//!                     exits; with COMMAND just its object
//!
//! Example:
//!   nbs-ts help send

use crate::{
    applets::{
        self, find,
        ts::{self, VERBS},
    },
    cli::{self, Args},
    outcome::{Failure, Result},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::{Long, Value};
    let (mut wanted, mut skill) = (None, false);
    while let Some(arg) = args.next()? {
        match arg {
            Long("skill") => skill = true,
            Value(word) if wanted.is_none() => wanted = Some(word),
            other => return Err(other.unexpected().into()),
        }
    }

    match wanted {
        None if skill => cli::print(include_str!("skill.md")),
        Some(_) if skill => Err(Failure::BadArgs("--skill teaches all of them, and takes no command".into())),
        None => ts::overview(args),
        Some(word) => match find(VERBS, &word) {
            Some(verb) => applets::help(Some(verb), args),
            None => Err(Failure::BadArgs(format!(
                "'{}' is no command of nbs-ts; 'nbs-ts help' lists them",
                word.display()
            ))),
        },
    }
}
