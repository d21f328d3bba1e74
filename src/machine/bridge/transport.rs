//! The command that leads to a machine, and its pipes.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{
    machine::{
        bridge::BridgeEvent,
        frames::{FrameWriter, ReceivedFrame},
        outbox,
        renewed_call::keep_last,
    },
    sys::{
        child,
        deadline::Deadline,
        files,
        poll::{self, PollSet},
        signals::SIGKILL,
    },
    terminal::text,
};

/// The most of the transport's standard error that is reported.
const TOLD: usize = 400;

/// The command that leads to the machine. It is killed when it is dropped.
pub(super) struct Transport {
    process: Child,
    pub(super) input: Option<File>,
    pub(super) output: File,
    error: Option<File>,
    pub(super) unsent: FrameWriter,
    said: Vec<u8>,
    /// The part of our file that is still to be sent.
    pub(super) copy: Option<File>,
}

impl Transport {
    pub(super) fn start(way: &[String]) -> io::Result<Transport> {
        let (program, arguments) = way.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        // On its machine a session is one of that machine, and nothing of where we are.
        for name in ["NBS_TS_HOME", "NBS_TS_ON", "NBS_TS_SESSION"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = files::with_callers_umask(|| command.spawn())
            .map_err(|error| io::Error::new(error.kind(), format!("cannot run '{program}': {error}")))?;
        let of = |pipe: Option<OwnedFd>| -> io::Result<File> {
            let pipe = pipe.ok_or(io::ErrorKind::BrokenPipe)?;
            child::let_nothing_wait(&pipe)?;
            Ok(File::from(pipe))
        };
        let input = Some(of(process.stdin.take().map(OwnedFd::from))?);
        let output = of(process.stdout.take().map(OwnedFd::from))?;
        input.iter().chain([&output]).for_each(child::widen);
        let error = Some(of(process.stderr.take().map(OwnedFd::from))?);
        Ok(Transport {
            process,
            input,
            output,
            error,
            unsent: FrameWriter::default(),
            said: Vec::new(),
            copy: None,
        })
    }

    pub(super) fn watch<'a>(&'a self, poll_set: &mut PollSet<'a, BridgeEvent>) {
        poll_set.readable(&self.output, BridgeEvent::Input);
        if let Some(error) = &self.error {
            poll_set.readable(error, BridgeEvent::Error);
        }
        if let Some(input) = self.input.as_ref().filter(|_| !self.unsent.is_empty() || self.copy.is_some()) {
            poll_set.writable(input, BridgeEvent::Output);
        }
    }

    /// Sends what it takes at once. If it takes no more, it says why by its end.
    pub(super) fn flush(&mut self) {
        if self.try_to_flush().is_err() {
            self.hang_up();
        }
    }

    fn try_to_flush(&mut self) -> io::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        self.unsent.flush(input)?;
        while self.unsent.is_empty()
            && let Some(copy) = &mut self.copy
        {
            let mut block = vec![0; 64 * 1024];
            match copy.read(&mut block)? {
                0 => self.copy = None,
                count => self.unsent.push(&block[..count]),
            }
            self.unsent.flush(input)?;
        }
        Ok(())
    }

    /// Passes frames on to the far side, as much of them at once as it takes.
    pub(super) fn pass(&mut self, call: u32, frames: &mut [ReceivedFrame]) {
        if let Some(input) = &mut self.input
            && self.unsent.pass(call, frames, input).is_err()
        {
            self.hang_up();
        }
    }

    fn hang_up(&mut self) {
        self.input = None;
        self.unsent.clear();
    }

    pub(super) fn receive_error(&mut self) {
        let Some(error) = &mut self.error else { return };
        let mut buffer = [0; 4096];
        match outbox::read(error, &mut buffer) {
            Ok(None) => {}
            Ok(Some(count)) if count > 0 => keep_last(&mut self.said, &buffer[..count]),
            _ => self.error = None,
        }
    }

    /// It has closed its output: what it says of that is there, or will be when it ends, which
    /// it does at once.
    pub(super) fn receive_last(&mut self) {
        let until = Deadline::after(Duration::from_millis(500));
        while let Some(error) = self.error.take() {
            let came = poll::wait_readable(&error, until);
            self.error = Some(error);
            if !came.unwrap_or(false) || until.has_passed() {
                return;
            }
            self.receive_error();
        }
    }

    /// The last line that it printed on standard error.
    pub(super) fn last_words(&self) -> String {
        let said = String::from_utf8_lossy(&self.said);
        let line = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
        last_of(text::escaped(line.trim().as_bytes()).as_ref()).to_owned()
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.input = None;
        // It has a process group of its own, with all that it has started. If all of it has already
        // ended, the result is the same.
        let _ = child::signal_group(&self.process, SIGKILL);
        let _ = self.process.wait();
    }
}

/// As much as a line has room for.
pub(super) fn last_of(text: &str) -> &str {
    let mut from = text.len().saturating_sub(TOLD);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}
