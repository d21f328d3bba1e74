//! A process that executes one call of `nbs-ts`, and its output so far.

use std::{
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio},
};

use crate::{
    machine::{self, outbox},
    mcp::tools::Invocation,
    sys::{
        child::{self, ExitStatus},
        files,
        poll::PIPE_ROOM,
        processes::PidFd,
    },
};

/// The most output kept of a call. A command's own limit is far below it by default.
const MOST: usize = 32 << 20;

/// The same for its messages: mostly that is one line, which may contain its argument, as one of 128 KiB
/// (execve(2)), each byte of which becomes six in JSON.
const MOST_SAID: usize = 1 << 20;

/// The result of a call.
#[derive(Default)]
pub(crate) struct Ended {
    /// As shells number it: 128 and the signal, if one ended it.
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// It printed more than we keep, and was ended for it.
    pub(crate) too_much: bool,
}

pub(crate) struct ToolCall {
    process: Child,
    input: Vec<u8>,
    written: usize,
    ended: Ended,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

impl ToolCall {
    pub(crate) fn start(invocation: Invocation) -> io::Result<ToolCall> {
        let mut command = machine::call_of_ours("pipes");
        command.args(invocation.words);
        let stdin = if invocation.input.is_empty() { Stdio::null() } else { Stdio::piped() };
        // A Ctrl-C that is meant for the client interrupts nothing in a session.
        command.process_group(0);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = files::with_callers_umask(|| command.spawn()).map_err(child::why_not_ourselves)?;
        let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let ended = Ended::default();
        Ok(ToolCall { process, input: invocation.input, written: 0, ended, stdin, stdout, stderr })
    }

    /// Its standard input can be written to.
    pub(crate) fn write(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        let rest = &self.input[self.written..];
        match stdin.write(&rest[..rest.len().min(PIPE_ROOM)]) {
            Ok(count) => self.written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // It has ended, and its output will have the reason.
            Err(_) => self.written = self.input.len(),
        }
        if self.written == self.input.len() {
            self.stdin = None;
            self.input = Vec::new();
        }
    }

    pub(crate) fn read_stdout(&mut self) {
        read(&mut self.stdout, &mut self.ended.stdout);
        if self.ended.stdout.len() > MOST {
            self.ended.too_much = true;
            self.ended.stdout = Vec::new();
            self.stdout = None;
            self.signal(crate::sys::signals::SIGTERM);
        }
    }

    pub(crate) fn read_stderr(&mut self) {
        read(&mut self.stderr, &mut self.ended.stderr);
        self.ended.stderr.truncate(MOST_SAID);
    }

    /// Has it printed all that it will?
    pub(crate) fn is_over(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }

    /// Signals it. If it has ended by now, there is nothing to do.
    pub(crate) fn signal(&self, signal: i32) {
        // It is our child, and not collected: so the number is its own.
        if let Ok(Some(process)) = PidFd::open(self.process.id()) {
            let _ = process.signal(signal);
        }
    }

    /// Collects it; to be called when it is over, once.
    pub(crate) fn finish(&mut self) -> io::Result<Ended> {
        drop(self.stdin.take());
        let status = self.process.wait()?;
        self.ended.code = ExitStatus::number_of(status);
        Ok(std::mem::take(&mut self.ended))
    }
}

/// Reads the pending output; the pipe is dropped at its end.
fn read(pipe: &mut Option<impl Read>, onto: &mut Vec<u8>) {
    let Some(reader) = pipe else { return };
    let mut buffer = [0; 16 * 1024];
    match outbox::read(reader, &mut buffer) {
        Ok(None) => {}
        Ok(Some(count)) if count > 0 => onto.extend_from_slice(&buffer[..count]),
        // An error is as good as the end of the output: the exit code shows the result.
        _ => *pipe = None,
    }
}
