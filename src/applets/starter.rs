//! starter - becomes a program in a Unix session of its own
//!
//! An internal role. `nbs-starter PROGRAM [ARGUMENT...]` starts an agent's shell where setsid(1) is
//! not installed.

use std::{os::unix::process::CommandExt, process::Command};

use crate::{
    cli::{self, Args},
    outcome::{Result, Trying},
    sys::child,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [program, arguments @ ..] = &words[..] else { return Err(cli::by_hand()) };
    cli::started_by_us()?;
    child::leave_session().trying("leave the session")?;
    Err(Command::new(program).args(arguments).exec()).trying(format_args!("run '{}'", program.display()))
}
