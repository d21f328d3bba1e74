//! child - becomes the command of a session, on its terminal
//!
//! An internal role. `nbs-child UMASK COUNT [WORD...] PROGRAM [ARGUMENT...]` is started with
//! the slave of a PTY as standard input and output, and a pipe as standard error. It makes the
//! terminal its controlling terminal and waits for a byte from the pipe. If the pipe ends first, the
//! session was given up, and it exits. Then it becomes PROGRAM with every signal at its default and
//! no descriptor but the terminal. COUNT is the number of WORDs of its confinement, which are those of
//! `sys/confinement.rs`; if it is 0, PROGRAM is not confined.

use std::{
    io::{self, Read},
    os::{fd::AsFd, unix::process::CommandExt},
    path::Path,
    process::Command,
};

use crate::{
    cli::{self, Args},
    outcome::{Result, Trying},
    session::Handle,
    sys::{
        confinement::Confinement,
        files, inherited, pty,
        signals::{self, SIGHUP},
    },
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [umask, count, rest @ ..] = &words[..] else { return Err(cli::by_hand()) };
    let count = count.to_str().and_then(|digits| digits.parse().ok()).ok_or_else(cli::by_hand)?;
    let (jail, rest) = rest.split_at_checked(count).ok_or_else(cli::by_hand)?;
    let (program, arguments) = rest.split_first().ok_or_else(cli::by_hand)?;
    let umask = cli::umask(umask)?;
    inherited::shed_for_exec().trying("close inherited descriptors")?;
    if !pty::adopt_stdin_as_terminal().map_err(|_| cli::by_hand())? {
        // As the command would have ended, had it come so far.
        signals::end_as_by(SIGHUP);
    }
    if !told_to_go().trying("wait for the start signal")? {
        return Ok(());
    }
    pty::point_stderr_at_stdin().trying("use the terminal for errors")?;
    files::set_umask(umask);
    if !jail.is_empty() {
        let confinement = Confinement::of_words(jail).ok_or_else(cli::by_hand)?;
        let session = confinement.private.parent().and_then(Path::file_name);
        let session = session.and_then(|name| Handle::parse(name.as_encoded_bytes()));
        let number = session.ok_or_else(cli::by_hand)?.number();
        confinement.enforce(number).trying("confine the command")?;
    }
    let mut command = Command::new(program);
    Err(command.args(arguments).exec()).trying(format_args!("run '{}'", program.display()))
}

fn told_to_go() -> io::Result<bool> {
    let mut gate = std::fs::File::from(io::stderr().as_fd().try_clone_to_owned()?);
    Ok(gate.read(&mut [0])? == 1)
}
