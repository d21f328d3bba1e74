//! child - becomes the command of a session, on its terminal
//!
//! An internal role. `nbs-child UMASK PROGRAM [ARGUMENT...]` is started with the
//! slave of a PTY as standard input and output, and a pipe as standard error.
//! It makes the terminal its own, waits for a byte from the pipe (the end
//! without one means that nobody wants it any more), and becomes PROGRAM with
//! every signal at its default and no descriptor but the terminal.

use std::{
    io::{self, Read},
    os::{fd::AsFd, unix::process::CommandExt},
    process::Command,
};

use crate::{
    cli::Args,
    outcome::{Failure, Result, Trying},
    sys::{files, inherited, pty},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [umask, program, arguments @ ..] = &words[..] else {
        return Err(by_hand());
    };
    let umask = umask.to_str().and_then(|digits| u32::from_str_radix(digits, 8).ok()).ok_or_else(by_hand)?;
    inherited::shed_for_exec().trying("shed what was inherited")?;
    pty::adopt_stdin_as_terminal().map_err(|_| by_hand())?;
    if !told_to_go().trying("wait for the word to go")? {
        return Ok(());
    }
    pty::point_stderr_at_stdin().trying("use the terminal for errors")?;
    files::set_umask(umask);
    let mut command = Command::new(program);
    Err(command.args(arguments).exec()).trying(format!("run '{}'", program.display()))
}

fn told_to_go() -> io::Result<bool> {
    let mut gate = std::fs::File::from(io::stderr().as_fd().try_clone_to_owned()?);
    Ok(gate.read(&mut [0])? == 1)
}

fn by_hand() -> Failure {
    Failure::BadArgs("this is an internal role of nbs, not to be run by hand".into())
}
