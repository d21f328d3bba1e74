//! A call of ours as a process of its own, whose output is taken as it comes.

use std::{
    env,
    ffi::OsString,
    io::{Read, Write},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
};

use crate::{
    machine::{
        self, WORKER,
        call::{Came, End},
        outbox,
    },
    outcome::{Result, Trying},
    sys::{
        child::{self, ExitStatus},
        poll::PollSet,
    },
};

/// The default of `--on`: it is for words that a person types.
pub(crate) const ON: &str = "NBS_TS_ON";

/// The value of `--on` if it is not given.
pub(crate) fn default_on() -> Option<OsString> {
    env::var_os(ON).filter(|on| !on.is_empty())
}

pub(crate) struct CallProcess {
    process: Child,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    ends_with_us: bool,
}

impl CallProcess {
    /// Starts a call of a verb; it is ended when this is dropped.
    pub(crate) fn start(verb: &str, words: Vec<OsString>) -> Result<CallProcess> {
        CallProcess::start_with(verb, words, None)
    }

    /// The same, with something to read: less than a pipe holds.
    pub(crate) fn start_with(verb: &str, words: Vec<OsString>, input: Option<&[u8]>) -> Result<CallProcess> {
        let mut command = match verb {
            WORKER => child::ourselves("nbs-spawn-worker"),
            _ => child::ourselves("nbs-ts"),
        };
        command.args(Some(verb).filter(|verb| *verb != WORKER)).args(words);
        CallProcess::spawn(command, input)
    }

    /// The same, but a call that waits ends even if we are killed (`nbs-call`).
    pub(crate) fn start_tied(verb: &str, words: Vec<OsString>) -> Result<CallProcess> {
        let mut command = machine::call_of_ours("pipes");
        command.arg(verb).args(words);
        CallProcess::spawn(command, None)
    }

    fn spawn(mut command: Command, input: Option<&[u8]>) -> Result<CallProcess> {
        command.env_remove(ON);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let what = "call here";
        let mut process = command.spawn().map_err(child::why_not_ourselves).trying(what)?;
        if let (Some(mut stdin), Some(input)) = (process.stdin.take(), input) {
            // A process that has gone reports its error by its exit.
            let _ = stdin.write_all(input);
        }
        let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
        for pipe in [
            stdout.as_ref().map(|pipe| pipe as &dyn std::os::fd::AsFd),
            stderr.as_ref().map(|pipe| pipe as _),
        ] {
            pipe.map_or(Ok(()), |pipe| child::let_nothing_wait(&pipe.as_fd())).trying(what)?;
        }
        Ok(CallProcess { process, stdout, stderr, ends_with_us: true })
    }

    /// It goes on when this is dropped.
    pub(crate) fn outlives_us(mut self) -> CallProcess {
        self.ends_with_us = false;
        self
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        if let Some(stdout) = &self.stdout {
            poll_set.readable(stdout, event);
        }
        if let Some(stderr) = &self.stderr {
            poll_set.readable(stderr, event);
        }
    }

    /// Takes what has come of it; its end is the last.
    pub(crate) fn drive(&mut self, came: &mut Vec<Came>) -> Result<()> {
        read(&mut self.stdout, came, Came::Stdout);
        read(&mut self.stderr, came, Came::Stderr);
        if self.stdout.is_none() && self.stderr.is_none() {
            let status = self.process.wait().trying("call here")?;
            came.push(Came::Ended(End::Exit(ExitStatus::number_of(status) as u8)));
        }
        Ok(())
    }
}

impl Drop for CallProcess {
    fn drop(&mut self) {
        if self.ends_with_us {
            // If it has already ended, the result is the same.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// How many blocks are read before it is looked what else there is.
const MOST_AT_ONCE: usize = 16;

fn read(pipe: &mut Option<impl Read>, came: &mut Vec<Came>, as_what: fn(Vec<u8>) -> Came) {
    let mut buffer = vec![0; 64 * 1024];
    // A process that prints without end must not block other events.
    for _ in 0..MOST_AT_ONCE {
        let Some(reader) = pipe else { return };
        match outbox::read(reader, &mut buffer) {
            Ok(None) => return,
            Ok(Some(count)) if count > 0 => came.push(as_what(buffer[..count].to_vec())),
            // An error counts as its end: its exit code is what matters.
            _ => *pipe = None,
        }
    }
}
