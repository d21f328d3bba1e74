//! The sessions of this machine for another machine's page, sent by a call that stays open.
//!
//! Standard output carries what an open page receives. Standard input carries lines: which sessions
//! the page shows, and requests of its users. So screens are computed here, and a screen that nobody
//! views there is not sent.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
};

use crate::{
    json::{Object, Value},
    machine::outbox::{self, Outbox},
    page::{
        http::{self, HttpError},
        stream::{Entry, Stream, send},
    },
    sys::{child, poll::PollSet},
};

/// Longer than what is typed at once, however it is written.
const LONGEST_LINE: usize = 1 << 20;

pub(crate) struct PageFeed {
    input: File,
    output: File,
    inbox: Vec<u8>,
    outbox: Outbox,
    pub(crate) stream: Stream,
    /// The reader has gone.
    pub(crate) is_over: bool,
}

impl PageFeed {
    /// A feed on our standard input and output.
    pub(crate) fn new() -> io::Result<PageFeed> {
        let (input, output) = (io::stdin(), io::stdout());
        let of = |descriptor: &dyn AsFd| -> io::Result<OwnedFd> {
            let descriptor = descriptor.as_fd().try_clone_to_owned()?;
            child::let_nothing_wait(&descriptor).map(|()| descriptor)
        };
        Ok(PageFeed {
            input: of(&input)?.into(),
            output: of(&output)?.into(),
            inbox: Vec::new(),
            outbox: Outbox::default(),
            stream: Stream::default(),
            is_over: false,
        })
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        poll_set.readable(&self.input, event);
        if !self.outbox.is_empty() {
            poll_set.writable(&self.output, event);
        }
    }

    /// Gives the lines that have come.
    pub(crate) fn receive(&mut self) -> Vec<Value> {
        let mut buffer = vec![0; 64 * 1024];
        match outbox::read(&mut self.input, &mut buffer) {
            Ok(None) => {}
            Ok(Some(count)) if count > 0 => self.inbox.extend_from_slice(&buffer[..count]),
            _ => self.is_over = true,
        }
        self.flush();
        let end = memchr::memrchr(b'\n', &self.inbox).map_or(0, |end| end + 1);
        let rest = self.inbox.split_off(end);
        let lines = std::mem::replace(&mut self.inbox, rest);
        self.is_over |= self.inbox.len() > LONGEST_LINE;
        lines.split(|byte| *byte == b'\n').filter_map(|line| Value::parse(line).ok()).collect()
    }

    /// Sends the result of a request.
    pub(crate) fn answer(&mut self, number: u64, answer: Result<Option<String>, HttpError>) {
        let (status, body) = match answer {
            Ok(None) => (http::DONE, None),
            Ok(Some(body)) => (http::OK, Some(body)),
            Err(refusal) => (refusal.status, None),
        };
        let object = Object::new().number("answer", number).text("status", status);
        let mut out = Vec::new();
        send(&mut out, object.json("body", body.as_deref().map_or("null", str::trim_end)));
        self.outbox.push(&out);
        self.flush();
    }

    /// Sends the changes, if everything before has been written.
    pub(crate) fn send(&mut self, entries: &[&Entry], last: u64) {
        if self.outbox.is_empty() && self.stream.lacks(entries) {
            let mut out = Vec::new();
            self.stream.send(entries, last, "", &mut out);
            self.outbox.push(&out);
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.is_over |= self.outbox.flush(&mut self.output).is_err();
    }
}
