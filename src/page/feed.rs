//! The sessions of this machine for another machine's page, sent by a call that stays open.
//!
//! Standard output carries the lines of the feed, as `list --json --follow` prints them, after a list of the
//! sessions; the screens; and the results of requests. Standard input carries lines: which sessions the page
//! shows, and requests of its users. So screens are computed here, and a screen that nobody views there is
//! not sent.

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
        stream::{AT_ONCE, Entry, View},
    },
    sorted::Map,
    sys::{child, poll::PollSet},
};

/// Longer than what is typed at once, however it is written.
const LONGEST_LINE: usize = 1 << 20;

pub(crate) struct PageFeed {
    input: File,
    output: File,
    inbox: Vec<u8>,
    outbox: Outbox,
    pub(crate) view: View,
    /// The number of each session's screen that was sent last, by keys.
    seen: Map<u64, u64>,
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
            view: View::default(),
            seen: Map::new(),
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
        self.send(&object.json("body", body.as_deref().map_or("null", str::trim_end)).line());
    }

    /// Sends lines.
    pub(crate) fn send(&mut self, lines: &str) {
        self.outbox.push(lines.as_bytes());
        self.flush();
    }

    /// Has the reader not taken all yet?
    pub(crate) fn is_behind(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends the shown screens that have changed, as long as the reader takes everything.
    pub(crate) fn send_screens(&mut self, entries: &[&Entry]) {
        if self.seen.len() > entries.len() {
            self.seen.retain(|key, _| entries.binary_search_by_key(key, |entry| entry.key).is_ok());
        }
        while !self.is_behind() {
            let lines = self.changed_screens(entries);
            if lines.is_empty() {
                return;
            }
            self.send(&lines);
        }
    }

    fn changed_screens(&mut self, entries: &[&Entry]) -> String {
        let mut lines = String::new();
        for Entry { name, key, frame, .. } in entries.iter().filter(|entry| self.view.shows(&entry.name)) {
            let seen = self.seen.or_insert(*key, 0);
            if frame.number() > *seen && lines.len() <= AT_ONCE {
                let object = Object::new().text("screen_of", name);
                lines += &object.object_or_null("screen", Some(frame.titled(*seen))).line();
                *seen = frame.number();
            }
        }
        lines
    }

    fn flush(&mut self) {
        self.is_over |= self.outbox.flush(&mut self.output).is_err();
    }
}
