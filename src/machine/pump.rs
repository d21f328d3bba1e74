//! Carries the output of one process to the input of another, of which either may be on another machine.

use std::{
    ffi::OsString,
    io,
    os::unix::{ffi::OsStringExt, process::CommandExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::{
    cli,
    machine::{
        self,
        call::{Came, End, RemoteCall},
        frames::Stream,
        name::MachineName,
        outbox::{self, Buffer, Outbox},
    },
    outcome::{Result, Trying},
    sys::{
        child::{self, ExitStatus},
        deadline::Deadline,
        files,
        poll::PollSet,
    },
    terminal::text,
};

/// The most bytes that are kept in each direction.
pub(crate) const MOST_PENDING: usize = 256 * 1024;

pub(crate) const AT_ONCE: usize = 64 * 1024;

pub(crate) enum Side {
    There(Box<RemoteCall>),
    Here(Local),
}

/// A process of this machine.
pub(crate) struct Local {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    buffer: Buffer,
}

impl Drop for Local {
    fn drop(&mut self) {
        // It cleans up at the end of its input, and ends when nobody reads its output.
        (self.stdin, self.stdout) = (None, None);
        let _ = self.process.wait();
    }
}

impl Side {
    /// Starts our part of that kind.
    pub(crate) fn start(machine: Option<&MachineName>, words: Vec<OsString>) -> Result<Side> {
        let Some(machine) = machine else { return Local::start(words).trying("copy here").map(Side::Here) };
        let words = words.into_iter().map(OsString::into_vec).collect();
        RemoteCall::exec(machine, words).map(|call| Side::There(Box::new(call)))
    }

    fn drive(&mut self, came: &mut Vec<Came>, reads: bool) -> Result<()> {
        match self {
            Side::There(call) => call.drive(came),
            Side::Here(local) => local.drive(came, reads).trying("copy here")?,
        }
        Ok(())
    }

    /// `reads`: its output; `writes`: it has not taken all that it was given.
    fn watch<'a>(&'a self, poll_set: &mut PollSet<'a, ()>, reads: bool, writes: bool) -> Deadline {
        match self {
            Side::There(call) => {
                call.watch(poll_set, ());
                return call.deadline();
            }
            Side::Here(local) => local.watch(poll_set, reads, writes),
        }
        Deadline::NEVER
    }

    /// May more be given to it, although nothing was waited for?
    fn wants_input(&self) -> bool {
        matches!(self, Side::There(call) if call.wants_stdin())
    }

    /// Gives it as many of these bytes as it takes at once.
    fn give(&mut self, bytes: &mut Outbox) {
        match self {
            Side::There(call) => {
                while call.wants_stdin() && !bytes.is_empty() {
                    let count = bytes.len().min(AT_ONCE);
                    call.give_stdin(&bytes.rest()[..count]);
                    bytes.take(count);
                }
            }
            Side::Here(local) => {
                // Why it reads no more it says itself.
                local.stdin.take_if(|stdin| bytes.flush(stdin).is_err());
                if local.stdin.is_none() {
                    bytes.clear();
                }
            }
        }
    }

    fn end_input(&mut self) {
        match self {
            Side::There(call) => call.end_stdin(),
            Side::Here(local) => local.stdin = None,
        }
    }

    fn take(&mut self, count: usize) {
        if let Side::There(call) = self {
            call.take(Stream::Stdout, count);
        }
    }

    fn print_errors(&mut self, bytes: &[u8]) {
        match self {
            Side::There(call) => print_errors(call, bytes),
            Side::Here(_) => print_lines("", bytes),
        }
    }
}

/// Prints what a program there has written to its standard error, with the machine's name.
pub(crate) fn print_errors(call: &mut RemoteCall, bytes: &[u8]) {
    call.take(Stream::Stderr, bytes.len());
    print_lines(&format!("{}: ", call.machine()), bytes);
}

fn print_lines(before: &str, bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line = text::escaped(line.strip_prefix(b"nbs-ts: ").unwrap_or(line));
        cli::warn("nbs-ts", &format!("{before}{line}"));
    }
}

impl Local {
    fn start(words: Vec<OsString>) -> io::Result<Local> {
        let mut command = machine::call_of_ours("pipes");
        command.arg("exec").args(words);
        Local::of(command)
    }

    fn of(mut command: Command) -> io::Result<Local> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A C-c is for us; it cleans up when we have ended.
        command.process_group(0);
        let mut process = files::with_callers_umask(|| command.spawn()).map_err(child::why_not_ourselves)?;
        let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let local = Local { process, stdin, stdout, stderr, buffer: Buffer::new(AT_ONCE) };
        local.stdin.as_ref().map_or(Ok(()), child::let_nothing_wait)?;
        local.stdout.as_ref().map_or(Ok(()), child::let_nothing_wait)?;
        local.stderr.as_ref().map_or(Ok(()), child::let_nothing_wait)?;
        Ok(local)
    }

    fn drive(&mut self, came: &mut Vec<Came>, reads: bool) -> io::Result<()> {
        if let Some(stdout) = self.stdout.as_mut().filter(|_| reads) {
            match outbox::read(stdout, &mut self.buffer)? {
                Some(0) => self.stdout = None,
                Some(count) => came.push(Came::Stdout(self.buffer[..count].to_vec())),
                None => {}
            }
        }
        if let Some(stderr) = &mut self.stderr {
            match outbox::read(stderr, &mut self.buffer)? {
                Some(0) => self.stderr = None,
                Some(count) => came.push(Came::Stderr(self.buffer[..count].to_vec())),
                None => {}
            }
        }
        if self.stdout.is_none() && self.stderr.is_none() {
            let code = ExitStatus::number_of(self.process.wait()?);
            came.push(Came::Ended(End::Exit(code as u8)));
        }
        Ok(())
    }

    fn watch<'a>(&'a self, poll_set: &mut PollSet<'a, ()>, reads: bool, writes: bool) {
        if let Some(stdin) = self.stdin.as_ref().filter(|_| writes) {
            poll_set.writable(stdin, ());
        }
        if let Some(stdout) = self.stdout.as_ref().filter(|_| reads) {
            poll_set.readable(stdout, ());
        }
        if let Some(stderr) = &self.stderr {
            poll_set.readable(stderr, ());
        }
    }
}

/// Runs until both sides have ended, or the second has failed; returns whether both have succeeded. `passed`
/// is called with the number of bytes that were passed on.
pub(crate) fn pump(mut from: Side, mut to: Side, mut passed: impl FnMut(usize)) -> Result<bool> {
    let mut pending = Outbox::default();
    let mut sent = None;
    let mut received = false;
    loop {
        let reads = pending.len() < MOST_PENDING;
        let mut came = Vec::new();
        if sent.is_none() {
            from.drive(&mut came, reads)?;
        }
        for came in came {
            match came {
                Came::Stdout(bytes) => pending.give(bytes),
                Came::Stderr(bytes) => from.print_errors(&bytes),
                Came::Ended(End::Exit(code)) => sent = Some(code),
                Came::Ended(End::Lost(failure)) => return Err(failure),
            }
        }
        if received {
            // The second has read the end of the stream. Only the first knows whether it sent everything.
            if let Some(code) = sent {
                return Ok(code == 0);
            }
            from.take(pending.len());
            pending.clear();
            let mut poll_set = PollSet::new();
            let deadline = from.watch(&mut poll_set, true, false);
            poll_set.wait(deadline).trying("wait for the other machine")?;
            continue;
        }
        let before = pending.len();
        to.give(&mut pending);
        let count = before - pending.len();
        from.take(count);
        passed(count);
        if sent.is_some() && pending.is_empty() {
            to.end_input();
        }
        let mut came = Vec::new();
        to.drive(&mut came, true)?;
        for came in came {
            match came {
                Came::Stdout(bytes) => to.take(bytes.len()),
                Came::Stderr(bytes) => to.print_errors(&bytes),
                Came::Ended(End::Exit(0)) => received = true,
                Came::Ended(End::Exit(_)) => return Ok(false),
                Came::Ended(End::Lost(failure)) => return Err(failure),
            }
        }
        if received || (!pending.is_empty() && to.wants_input()) {
            continue;
        }
        let mut poll_set = PollSet::new();
        let mut deadline = to.watch(&mut poll_set, true, !pending.is_empty());
        if sent.is_none() {
            deadline = deadline.min(from.watch(&mut poll_set, pending.len() < MOST_PENDING, false));
        }
        poll_set.wait(deadline).trying("wait for the other machine")?;
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, io::Result, path::Path};

    use super::*;

    fn local(script: &str, fifo: &Path) -> Result<Side> {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(fifo);
        Local::of(command).map(Side::Here)
    }

    #[test]
    fn a_sender_that_fails_last_has_failed() -> Result<()> {
        let folder = env::temp_dir().join(format!("nbs-pump-{:x}", fastrand::u64(..)));
        fs::create_dir(&folder)?;
        let fifo = folder.join("ended");
        assert!(Command::new("mkfifo").arg(&fifo).status()?.success());
        for code in [0, 1] {
            // It learns from the fifo that the receiver has ended.
            let from = local(&format!("printf x; cat < \"$1\"; exit {code}"), &fifo)?;
            let to = local("exec 3> \"$1\"; head -c 1 > /dev/null", &fifo)?;
            assert_eq!(pump(from, to, |_| ()).ok(), Some(code == 0));
        }
        fs::remove_dir_all(folder)
    }
}
