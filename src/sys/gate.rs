//! A child that stands ready on its terminal, and waits for the word to go.
//!
//! So its PID is known, and can be written down, before it does anything; and
//! if nobody wants it after all, it ends without having begun.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use crate::sys::{child, confinement::Confinement, pty::Master};

/// What goes into a child's environment, or (`None`) out of it.
pub(crate) type Environment = Vec<(OsString, Option<OsString>)>;

/// What the child becomes once it is told to go.
pub(crate) struct Program<'a> {
    pub(crate) words: &'a [OsString],
    pub(crate) umask: u32,
    /// `None`: ours.
    pub(crate) folder: Option<&'a Path>,
    /// How its environment differs from ours.
    pub(crate) environment: &'a Environment,
    /// Where alone it may write; `None`: wherever we may.
    pub(crate) confinement: Option<&'a Confinement>,
}

pub(crate) struct Gate {
    child: u32,
    word: File,
}

impl AsFd for Gate {
    /// Where the word is written.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.word.as_fd()
    }
}

impl Gate {
    pub(crate) fn spawn(master: &Master, program: &Program<'_>) -> io::Result<Gate> {
        if let Some(confinement) = program.confinement {
            // Here somebody still hears why not.
            confinement.check()?;
        }
        let slave = File::from(master.open_slave()?);
        let (reader, word) = io::pipe()?;
        let mut command = child::ourselves("nbs-child");
        command.arg(format!("{:o}", program.umask));
        // How many folders there are, and which.
        match program.confinement {
            Some(Confinement { private, roots }) => {
                command.arg((1 + roots.len()).to_string()).arg(private).args(roots)
            }
            None => command.arg("0"),
        };
        command.args(program.words);
        command.stdin(slave.try_clone()?).stdout(slave).stderr(reader);
        if let Some(folder) = program.folder {
            command.current_dir(folder);
        }
        child::change_environment(&mut command, program.environment);
        Ok(Gate { child: command.spawn()?.id(), word: File::from(OwnedFd::from(word)) })
    }

    /// The gate of a child that somebody else has started.
    pub(crate) fn of_another(child: u32, word: OwnedFd) -> Gate {
        Gate { child, word: File::from(word) }
    }

    /// The PID that the command has, or will have.
    pub(crate) fn child(&self) -> u32 {
        self.child
    }

    pub(crate) fn open(mut self) -> io::Result<()> {
        self.word.write_all(b"+")
    }
}
