//! Starting a relay, and the relay's starting of its child.
//!
//! Both are this same file under another name. `create` hands the relay the
//! lock of the session, so that there is no moment in which nobody holds it.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, PipeWriter, Read, Write},
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    outcome::{Failure, Result, Trying},
    session::Making,
    sys::{
        child,
        pty::{Master, Size},
    },
};

/// What goes into the child's environment, or (`None`) out of it.
pub(crate) type Environment = Vec<(OsString, Option<OsString>)>;

/// Starts the relay of a session whose files are made, and returns when the
/// session is there for all to see.
pub(crate) fn start(
    making: &Making,
    sessions: &Path,
    size: Size,
    umask: u32,
    cwd: Option<&Path>,
    environment: &Environment,
) -> Result<()> {
    let what = "start the relay";
    let (mut reader, writer) = io::pipe().trying(what)?;
    let mut command = child::ourselves("nbs-relay");
    command
        .arg(making.handle.as_str())
        .arg(sessions)
        .arg(format!("{umask:o}"))
        .arg(format!("{}x{}", size.cols, size.rows))
        .stdin(making.lock.try_clone().trying(what)?)
        .stdout(writer)
        .stderr(Stdio::null());
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.spawn().trying(what)?;
    // It holds a copy of the pipe's other end.
    drop(command);
    let mut word = [0];
    match reader.read(&mut word).trying(what)? {
        1 if word == *b"+" => Ok(()),
        0 => Err(Failure::Failed(format!("cannot {what}: it ended without a word"))),
        _ => {
            let mut why = String::new();
            reader.read_to_string(&mut why).trying(what)?;
            Err(Failure::Failed(why))
        }
    }
}

/// A child that stands ready on its terminal and waits for the word to go.
pub(crate) struct Gate {
    child: u32,
    word: PipeWriter,
}

impl Gate {
    pub(crate) fn spawn(master: &Master, umask: &str, words: &[OsString]) -> io::Result<Gate> {
        let slave = File::from(master.open_slave()?);
        let (reader, word) = io::pipe()?;
        let mut command: Command = child::ourselves("nbs-child");
        command.arg(OsStr::new(umask)).args(words).stdin(slave.try_clone()?).stdout(slave).stderr(reader);
        Ok(Gate { child: command.spawn()?.id(), word })
    }

    /// The PID that the command has, or will have.
    pub(crate) fn child(&self) -> u32 {
        self.child
    }

    pub(crate) fn open(mut self) -> io::Result<()> {
        self.word.write_all(b"+")
    }
}
