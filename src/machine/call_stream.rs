//! The standard streams of a program on another machine as a file: what is read is its output, and what is
//! written its input. It blocks.

use std::{
    fs::File,
    io::{
        self, BufRead,
        ErrorKind::{BrokenPipe, UnexpectedEof},
        Read, Write,
    },
};

use crate::{
    cli,
    machine::{
        call::{Came, End, RemoteCall},
        copy::CopySink,
        frames::{LONGEST_DATA, Stream},
        outbox::Outbox,
        outgoing::PIECE,
    },
    outcome::{Result, Trying},
    sys::{
        files,
        poll::PollSet,
        signals::{self, Signals},
    },
    terminal::text,
};

/// The most bytes to give to a call at once if it wants some. They fill whole frames.
pub(crate) const AT_ONCE: usize = 4 * LONGEST_DATA;

/// The length before a chunk of a file, and how many bytes of one are asked for: both together are a piece.
const LENGTH: usize = size_of::<u32>();
const CHUNK: usize = PIECE - LENGTH;

pub(crate) struct CallStream<'a> {
    call: RemoteCall,
    unread: Outbox,
    ended: Option<End>,
    ending: Vec<(i32, Signals)>,
    /// The signal that is to end us, once nothing half is left.
    signal: Option<i32>,
    /// Is called with the number of bytes that were passed on.
    passed: &'a mut dyn FnMut(usize),
}

impl<'a> CallStream<'a> {
    /// From now on, a signal that would end us makes reading and writing fail instead.
    pub(crate) fn new(call: RemoteCall, passed: &'a mut dyn FnMut(usize)) -> Result<CallStream<'a>> {
        let ending = signals::catch_those_to_end().trying("catch signals")?;
        Ok(CallStream { call, unread: Outbox::default(), ended: None, ending, signal: None, passed })
    }

    pub(crate) fn end_input(&mut self) {
        self.call.end_stdin();
    }

    /// Waits for the end of the program there after `done`, and returns whether all was successful. Ends us by
    /// the signal that has come, if one has.
    pub(crate) fn finish(mut self, done: io::Result<bool>, what: &str) -> Result<bool> {
        let done = done.and_then(|is_whole| {
            while self.ended.is_none() {
                self.drive(|stream| !stream.unread.is_empty())?;
                self.call.take(Stream::Stdout, self.unread.len());
                self.unread.clear();
            }
            Ok(is_whole)
        });
        if let Some(signal) = self.signal {
            signals::end_as_by(signal);
        }
        match (done, self.ended) {
            (_, Some(End::Lost(failure))) => Err(failure),
            (Ok(is_whole), Some(End::Exit(code))) => Ok(is_whole && code == 0),
            // The program there has printed the reason.
            (Err(error), Some(_)) if matches!(error.kind(), UnexpectedEof | BrokenPipe) => Ok(false),
            (done, _) => done.trying(what),
        }
    }

    /// Sends and receives until the call has ended, or this is so.
    fn drive(&mut self, is_enough: impl Fn(&Self) -> bool) -> io::Result<()> {
        while self.ended.is_none() {
            for came in self.call.drive() {
                match came {
                    Came::Stdout(bytes) => self.unread.give(bytes),
                    Came::Stderr(bytes) => print_errors(&mut self.call, &bytes),
                    Came::Ended(end) => self.ended = Some(end),
                }
            }
            for (signal, caught) in &mut self.ending {
                if caught.take() {
                    self.signal = Some(*signal);
                }
            }
            if self.signal.is_some() {
                return Err(io::Error::other("interrupted"));
            }
            if self.ended.is_some() || is_enough(self) {
                break;
            }
            let mut poll_set = PollSet::new();
            self.call.watch(&mut poll_set, ());
            for (_, caught) in &self.ending {
                poll_set.readable(caught, ());
            }
            poll_set.wait(self.call.deadline())?;
        }
        Ok(())
    }
}

impl Read for CallStream<'_> {
    fn read(&mut self, onto: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(onto)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for CallStream<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.unread.is_empty() {
            self.drive(|stream| !stream.unread.is_empty())?;
        }
        Ok(self.unread.rest())
    }

    fn consume(&mut self, count: usize) {
        self.unread.take(count);
        self.call.take(Stream::Stdout, count);
        (self.passed)(count);
    }
}

impl CallStream<'_> {
    fn await_room(&mut self) -> io::Result<()> {
        self.drive(|stream| stream.call.wants_stdin())?;
        if self.ended.is_some() { Err(BrokenPipe.into()) } else { Ok(()) }
    }
}

impl Write for CallStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.await_room()?;
        let mut taken = 0;
        while self.call.wants_stdin() && taken < bytes.len() {
            let count = (bytes.len() - taken).min(AT_ONCE);
            self.call.stdin().push(&bytes[taken..][..count]);
            taken += count;
        }
        (self.passed)(taken);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.call.send();
        Ok(())
    }
}

impl CopySink for CallStream<'_> {
    fn send_chunk(&mut self, file: &File, at: u64, most: usize) -> io::Result<Option<usize>> {
        self.await_room()?;
        let size = most.min(CHUNK) + LENGTH;
        let read = self.call.stdin().extend_apart(LENGTH, size, &mut |piece| {
            let start = piece.len();
            piece.extend_from_slice(&[0; LENGTH]);
            let read = files::read_more_at(file, at, piece);
            let count = *read.as_ref().unwrap_or(&0);
            match count {
                0 => piece.truncate(start),
                _ => piece[start..][..LENGTH].copy_from_slice(&(count as u32).to_le_bytes()),
            }
            read.map(|_| piece.len() - start)
        });
        // The caller then reads the file itself, and reports the error.
        let Ok(sent) = read else { return Ok(None) };
        (self.passed)(sent);
        Ok(Some(sent.saturating_sub(LENGTH)))
    }
}

/// Prints what a program there has written to its standard error, with the machine's name.
pub(crate) fn print_errors(call: &mut RemoteCall, bytes: &[u8]) {
    call.take(Stream::Stderr, bytes.len());
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line = text::escaped(line.strip_prefix(b"nbs-ts: ").unwrap_or(line));
        cli::warn("nbs-ts", &format!("{}: {line}", call.machine()));
    }
}
