//! Carries our standard streams to a program on another machine, and back.
//!
//! None of them holds up another: what cannot be printed is kept, and only what has been printed is
//! acknowledged. So at most a window of each stream is kept, however slow its reader is.

use std::io;

use crate::{
    cli,
    machine::{
        call::{Came, End, RemoteCall},
        frames::Stream,
        outbox::Outbox,
    },
    outcome::{Failure, Result, Trying},
    sys::{
        deadline::Deadline,
        poll::PollSet,
        signals,
        stdio::{self, Output},
    },
};

#[derive(Clone, Copy)]
enum Event {
    Call,
    Stdin,
    Printable,
    Signal(usize),
}

/// One of the two that we print to.
struct Printed {
    stream: Stream,
    /// `None`: it is closed.
    output: Option<Output>,
    unprinted: Outbox,
}

impl Printed {
    fn new(stream: Stream, output: io::Result<Output>) -> Printed {
        // A stream that cannot be used counts as closed.
        Printed { stream, output: output.ok(), unprinted: Outbox::default() }
    }

    fn print(&mut self, call: &mut RemoteCall) -> io::Result<()> {
        let before = self.unprinted.len();
        let printed = match &self.output {
            Some(output) => self.unprinted.flush(&mut &*output),
            None => {
                self.unprinted.clear();
                Ok(())
            }
        };
        call.take(self.stream, before - self.unprinted.len());
        if self.output.is_some() && self.unprinted.is_empty() && call.has_closed(self.stream) {
            self.output = None;
            match self.stream {
                Stream::Stdout => stdio::close_stdout()?,
                _ => stdio::close_stderr()?,
            }
        }
        printed
    }

    fn is_waiting(&self) -> bool {
        self.output.is_some() && !self.unprinted.is_empty()
    }
}

/// Carries until the program has ended and all its output is printed. Returns its exit code.
pub(crate) fn carry(mut call: RemoteCall) -> Result<u8> {
    let what = "carry the streams of a program";
    let mut signals = signals::catch_those_to_end().trying("catch signals")?;
    let mut stdout = Printed::new(Stream::Stdout, Output::stdout());
    let mut stderr = Printed::new(Stream::Stderr, Output::stderr());
    let mut stdin = Some(io::stdin());
    let (mut ended, mut was_signalled) = (None, false);
    loop {
        let came = if ended.is_none() { call.drive() } else { Vec::new() };
        for came in came {
            match came {
                Came::Stdout(bytes) => {
                    cli::check_stdout()?;
                    stdout.unprinted.give(bytes);
                }
                Came::Stderr(bytes) => stderr.unprinted.give(bytes),
                Came::Ended(end) => ended = Some(end),
            }
        }
        match stdout.print(&mut call) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(Failure::reader_gone()),
            printed => printed.trying("write to standard output")?,
        }
        if stderr.print(&mut call).is_err() {
            // A program that is not heard goes on.
            stderr.output = None;
        }
        if ended.is_some() && !stdout.is_waiting() && !stderr.is_waiting() {
            match ended {
                Some(End::Exit(code)) => return Ok(code),
                Some(End::Lost(failure)) => return Err(failure),
                None => {}
            }
        }
        if stdin.is_some() && call.has_closed(Stream::Stdin) {
            stdin = None;
            stdio::close_stdin().trying(what)?;
        }
        let mut poll_set = PollSet::new();
        let mut deadline = Deadline::NEVER;
        if ended.is_none() {
            call.watch(&mut poll_set, Event::Call);
            deadline = call.deadline();
            if let Some(stdin) = stdin.as_ref().filter(|_| call.wants_stdin()) {
                poll_set.readable(stdin, Event::Stdin);
            }
        }
        for (index, (_, signals)) in signals.iter().enumerate() {
            poll_set.readable(signals, Event::Signal(index));
        }
        for printed in [&stdout, &stderr].into_iter().filter(|printed| printed.is_waiting()) {
            if let Some(output) = &printed.output {
                poll_set.writable(output, Event::Printable);
            }
        }
        for event in poll_set.wait(deadline).trying("wait for the other machine")? {
            match event {
                Event::Call | Event::Printable => {}
                Event::Signal(index) => {
                    let (signal, caught) = &mut signals[index];
                    let is_caught = caught.take();
                    let is_unread = stdout.is_waiting() || stderr.is_waiting();
                    if is_caught && (ended.is_some() || was_signalled && is_unread) {
                        // All that is left is output that nobody reads.
                        return Err(Failure::status(128 + *signal as u8, "interrupted", None));
                    }
                    if is_caught && !call.takes_signals() {
                        return Err(call.lost("interrupted"));
                    }
                    call.signal(*signal);
                    was_signalled = true;
                }
                // A process that shares it may have made it non-blocking. An error counts as its end, as in a pipe.
                Event::Stdin => {
                    if !matches!(call.read_stdin(&io::stdin()), Ok(None | Some(1..))) {
                        call.end_stdin();
                        stdin = None;
                    }
                }
            }
        }
    }
}
