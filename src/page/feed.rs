//! The sessions of this machine for another machine's page, sent by a call that stays open.
//!
//! Standard output begins with a list of the sessions. Then it carries their lines, as `list --json --follow` prints
//! them, without the fields that no page shows; their screens; and the results of requests. Standard input carries
//! lines: which sessions the page shows, and requests of its users. So screens are computed here, and a screen that
//! nobody views there is not sent.

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
    sent: Sent,
    /// The reader has gone.
    pub(crate) is_over: bool,
}

/// The state that the other machine has received.
#[derive(Default)]
struct Sent {
    is_listed: bool,
    /// By keys.
    sessions: Map<u64, SentSession>,
}

struct SentSession {
    name: String,
    /// The numbers of the last line and the last screen; 0 before the first.
    line: u64,
    screen: u64,
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
            sent: Sent::default(),
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

    fn send(&mut self, lines: &str) {
        self.outbox.push(lines.as_bytes());
        self.flush();
    }

    /// Sends what has changed, as long as the reader takes everything.
    pub(crate) fn send_changes(&mut self, entries: &[&Entry]) {
        while self.outbox.is_empty() {
            let lines = self.sent.changes(entries, &self.view);
            if lines.is_empty() {
                return;
            }
            self.send(&lines);
        }
    }

    fn flush(&mut self) {
        self.is_over |= self.outbox.flush(&mut self.output).is_err();
    }
}

impl Sent {
    /// The lines for some of the changes, or for all if they are few.
    fn changes(&mut self, entries: &[&Entry], view: &View) -> String {
        let mut lines = String::new();
        if !self.is_listed {
            let names: Vec<Vec<u8>> = entries.iter().map(|entry| entry.name.as_str().into()).collect();
            lines += &Object::new().list("sessions", &names).line();
            self.is_listed = true;
        }
        self.sessions.retain(|key, SentSession { name, .. }| {
            let is_there = entries.binary_search_by_key(key, |entry| entry.key).is_ok();
            if !is_there {
                lines += &Object::new().text("handle", name).text("state", "removed").line();
            }
            is_there
        });
        for Entry { name, key, frame, about, about_number } in entries {
            let sent = SentSession { name: name.clone(), line: 0, screen: 0 };
            let SentSession { line, screen, .. } = self.sessions.or_insert(*key, sent);
            if about_number > line && lines.len() <= AT_ONCE {
                lines.extend([about, "\n"]);
                *line = *about_number;
            }
            if view.shows(name) && frame.number() > *screen && lines.len() <= AT_ONCE {
                let object = frame.object(*screen).bytes_or_null("title", frame.title().map(str::as_bytes));
                lines += &Object::new().text("screen_of", name).object_or_null("screen", Some(object)).line();
                *screen = frame.number();
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{page::versioned_screen::Numbers, terminal::screen::Screen};

    #[test]
    fn each_change_of_a_session_is_sent_once_and_a_screen_where_it_is_shown() {
        let (mut sent, mut view, mut numbers) = (Sent::default(), View::default(), Numbers::default());
        let mut entries = [Entry::new("00000001".into(), 1), Entry::new("00000002".into(), 2)];
        let (first, long) = ("{\"a\":1}", format!("{{\"a\":\"{}\"}}", "b".repeat(AT_ONCE)));
        let mut changes = |entries: &[Entry], view: &View| {
            let lines = sent.changes(&entries.iter().collect::<Vec<_>>(), view);
            lines.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        // A session has no line before the first look at it.
        assert_eq!(changes(&entries, &view), ["{\"sessions\":[\"00000001\",\"00000002\"]}"]);
        entries[0].describe(first.into(), &mut numbers);
        assert_eq!(changes(&entries, &view), [first]);
        entries[0].describe(first.into(), &mut numbers);
        let screen = Screen::showing(20, 3, b"\x1b]2;title\x07shown");
        entries[1].frame.take(&screen, &mut numbers);
        assert!(changes(&entries, &view).is_empty());
        view.large.push("00000002".into());
        let shown = changes(&entries, &view).concat();
        assert!(
            shown.starts_with("{\"screen_of\":\"00000002\"") && shown.ends_with("\"title\":\"title\"}}"),
            "{shown}"
        );
        // Changes beyond `AT_ONCE` are sent later.
        entries[0].describe(long.clone(), &mut numbers);
        entries[1].describe(first.into(), &mut numbers);
        assert_eq!(changes(&entries, &view), [long]);
        assert_eq!(changes(&entries, &view), [first]);
        // A session that this side no longer shows is reported as removed.
        assert_eq!(changes(&entries[1..], &view), ["{\"handle\":\"00000001\",\"state\":\"removed\"}"]);
        assert!(changes(&entries[1..], &view).is_empty());
    }
}
