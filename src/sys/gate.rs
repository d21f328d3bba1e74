//! A child that is ready on its terminal and waits for permission to start its program.
//!
//! So we know its PID, and can write it down, before it does anything. If the permission never comes,
//! it exits without starting the program.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use crate::sys::{child, confinement::Confinement, pty::Master};

/// Variables to set in a child's environment, or (`None`) to remove.
pub(crate) type Environment = Vec<(OsString, Option<OsString>)>;

/// The program that the child executes once it has permission.
pub(crate) struct Program<'a> {
    pub(crate) words: &'a [OsString],
    pub(crate) umask: u32,
    /// `None`: ours.
    pub(crate) folder: Option<&'a Path>,
    /// How its environment differs from ours.
    pub(crate) environment: &'a Environment,
    /// The only directories where it may write; `None` to not restrict it.
    pub(crate) confinement: Option<&'a Confinement>,
}

pub(crate) struct Gate {
    child: u32,
    word: File,
}

impl AsFd for Gate {
    /// The descriptor to which we write the permission.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.word.as_fd()
    }
}

impl Gate {
    pub(crate) fn spawn(master: &Master, program: &Program<'_>) -> io::Result<Gate> {
        if let Some(confinement) = program.confinement {
            // We check here, where an error still reaches the caller.
            confinement.check()?;
        }
        let slave = File::from(master.open_slave()?);
        let (reader, word) = io::pipe()?;
        let mut command = child::ourselves("nbs-child");
        command.arg(format!("{:o}", program.umask));
        // The number of directories, and their paths.
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

    /// The gate of a child that another process started.
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
