//! The sessions of another machine, from lines as `list --json --follow` prints them there.
//!
//! The machine is trusted only about its own sessions, its data is bounded, and is text.

use crate::{
    feed::news::FeedNews,
    json::{self, Value},
    machine::{
        name::MachineName,
        renewed_call::{CallNews, RenewedCall},
    },
    session::{ActivityView, Address, Handle, removed_of},
    sorted::Map,
    terminal::text,
};

/// The most sessions of one machine, and the most bytes of their last lines and their screens. A machine that
/// sends more is not shown.
const MOST_SESSIONS: usize = 20_000;
const MOST_BYTES: usize = 256 << 20;

pub(crate) struct FarFeed {
    pub(crate) call: RenewedCall,
    told: ToldSessions,
}

/// A message of the call, or its fate.
pub(crate) enum FarNews<'a> {
    Session(FeedNews),
    Call(CallNews),
    /// A line that is not the feed's.
    Line(&'a Value),
}

/// The sessions that were reported.
struct ToldSessions {
    machine: MachineName,
    /// A longer line of a session is invalid.
    longest: usize,
    sessions: Map<Address, ToldSession>,
    // Invariant: the sum of their lengths.
    bytes: usize,
}

struct ToldSession {
    /// The present call has reported or listed it.
    is_there: bool,
    /// The length of its last line.
    length: usize,
}

impl FarFeed {
    /// A feed from a call with these words. The caller begins the call. A session's line that is longer than
    /// `longest` is invalid.
    pub(crate) fn new(machine: MachineName, words: Vec<Vec<u8>>, longest: usize) -> FarFeed {
        let told = ToldSessions { machine: machine.clone(), longest, sessions: Map::new(), bytes: 0 };
        FarFeed { call: RenewedCall::new(machine, words), told }
    }

    /// A feed of the sessions whose names contain the pattern, if there is one.
    pub(super) fn of_list(machine: MachineName, pattern: Option<&str>) -> FarFeed {
        let mut words: Vec<Vec<u8>> = ["list", "--json", "--follow"].map(|word| word.into()).into();
        words.extend(pattern.map(|pattern| format!("--name={pattern}").into_bytes()));
        let mut feed = FarFeed::new(machine, words, usize::MAX);
        feed.call.begin();
        feed
    }

    /// Receives pending data, and calls if it is time.
    pub(crate) fn take_news(&mut self, send: &mut dyn FnMut(FarNews)) {
        let FarFeed { call, told } = self;
        for news in call.drive(&mut |line| told.take(&line, send), reason) {
            match news {
                // Sessions that this call did not list at its start have gone, or come again.
                CallNews::Heard => told.remove_missing(send),
                CallNews::Over { .. } => told.forget_call(),
                CallNews::Missing(_) => {}
            }
            send(FarNews::Call(news));
        }
        self.limit(0, send);
    }

    /// Ends the call and drops its sessions if they take too much memory together with `screens` bytes of screens.
    pub(crate) fn limit(&mut self, screens: usize, send: &mut dyn FnMut(FarNews)) {
        if !self.told.is_too_much(screens) {
            return;
        }
        self.told.forget_call();
        self.told.remove_missing(send);
        send(FarNews::Call(self.call.refuse("it sent more than can be shown")));
    }

    /// A line as it comes by the call.
    #[cfg(test)]
    pub(crate) fn take(&mut self, line: &[u8], send: &mut dyn FnMut(FarNews)) -> bool {
        self.told.take(line, send)
    }
}

/// The reason why a call has ended, from its standard error: an object, or a line of text.
fn reason(words: &[u8]) -> Option<String> {
    let object = String::from_utf8_lossy(words).lines().last().and_then(json::error_of);
    object.or_else(|| text::last_line_shown(words))
}

impl ToldSessions {
    /// Returns whether it is a line of the feed. An invalid one changes nothing.
    fn take(&mut self, line: &[u8], send: &mut dyn FnMut(FarNews)) -> bool {
        let Ok(told) = Value::parse(line) else { return false };
        if self.is_too_much(0) {
            return false;
        }
        let machine = self.machine.clone();
        let machine = Some(machine.as_str());
        if let Some(all) = told["sessions"].as_array() {
            // A call may begin with a list of all sessions. Others have gone since the last call.
            self.forget_call();
            for handle in all.iter().filter_map(|handle| Handle::parse(handle.as_str()?.as_bytes())) {
                let address = Address { machine: machine.map(str::to_owned), handle };
                if let Some(session) = self.sessions.get_mut(&address) {
                    session.is_there = true;
                }
            }
            self.remove_missing(send);
        } else if let Some((address, name)) = removed_of(&told, machine) {
            self.bytes -= self.sessions.remove(&address).map_or(0, |session| session.length);
            send(FarNews::Session(FeedNews::Removed(address, name)));
        } else if line.len() <= self.longest
            && let Some(overview) = ActivityView::parse(&told, machine)
        {
            let session = ToldSession { is_there: true, length: 0 };
            let session = self.sessions.or_insert(overview.address(), session);
            self.bytes = self.bytes - session.length + line.len();
            *session = ToldSession { is_there: true, length: line.len() };
            send(FarNews::Session(FeedNews::Told(Box::new(overview))));
        } else {
            send(FarNews::Line(&told));
            return false;
        }
        true
    }

    fn is_too_much(&self, screens: usize) -> bool {
        self.sessions.len() > MOST_SESSIONS || self.bytes + screens > MOST_BYTES
    }

    /// The next call has not reported any of them yet.
    fn forget_call(&mut self) {
        self.sessions.values_mut().for_each(|session| session.is_there = false);
    }

    fn remove_missing(&mut self, send: &mut dyn FnMut(FarNews)) {
        let ToldSessions { sessions, bytes, .. } = self;
        sessions.retain(|address, session| {
            if !session.is_there {
                *bytes -= session.length;
                send(FarNews::Session(FeedNews::Removed(address.clone(), None)));
            }
            session.is_there
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed() -> FarFeed {
        FarFeed::new(MachineName::parse(b"box").unwrap(), Vec::new(), 1_000)
    }

    /// The news by these lines, in words.
    fn news(feed: &mut FarFeed, lines: &str) -> Vec<String> {
        let mut all = Vec::new();
        for line in lines.lines() {
            feed.take(line.as_bytes(), &mut |news| all.push(in_words(news)));
        }
        all
    }

    fn in_words(news: FarNews) -> String {
        match news {
            FarNews::Session(FeedNews::Told(overview)) => format!("told {}", overview.address()),
            FarNews::Session(FeedNews::Removed(address, _)) => format!("removed {address}"),
            FarNews::Session(FeedNews::Lost { .. }) => "lost".into(),
            FarNews::Call(news) => format!("{news:?}"),
            FarNews::Line(line) => json::value_with(line, &[]),
        }
    }

    fn line(number: usize) -> String {
        format!("{{\"handle\":\"{number:08x}\",\"command\":\"a\"}}\n")
    }

    #[test]
    fn lines_that_are_not_the_feeds_are_handed_on_and_invalid_ones_are_not() {
        let mut feed = feed();
        let told = news(
            &mut feed,
            &(line(1) + "{\"x\":[1]}\n5\n{\n{\"handle\":\"other:00000002\",\"command\":\"a\"}"),
        );
        let other = "{\"command\":\"a\",\"handle\":\"other:00000002\"}";
        assert_eq!(told, ["told box:00000001", "{\"x\":[1]}", "5", other]);
        let told = news(&mut feed, "{\"handle\":\"box:00000001\",\"state\":\"removed\",\"name\":null}");
        assert_eq!(told, ["removed box:00000001"]);
        assert!(feed.told.bytes == 0 && feed.told.sessions.len() == 0);
        let long = line(1).replace("\"a\"", &format!("\"{}\"", "b".repeat(1_000)));
        assert!(news(&mut feed, &long)[0].starts_with("{\"command\":\"b"));
    }

    #[test]
    fn a_new_call_removes_what_it_does_not_list() {
        let mut feed = feed();
        news(&mut feed, &(1..=4).map(line).collect::<String>());
        let nonsense = "1,".repeat(100_000);
        let list = format!("{{\"sessions\":[{nonsense}\"00000002\",\"../x\",\"00000009\",\"00000003\"]}}\n");
        assert_eq!(news(&mut feed, &list), ["removed box:00000001", "removed box:00000004"]);
        // Without a list, what it has told at its start.
        feed.told.forget_call();
        assert_eq!(news(&mut feed, &line(3)), ["told box:00000003"]);
        let mut gone = Vec::new();
        feed.told.remove_missing(&mut |news| gone.push(in_words(news)));
        assert_eq!(gone, ["removed box:00000002"]);
        assert_eq!(feed.told.bytes, line(3).trim_end().len());
    }

    #[test]
    fn more_than_can_be_shown_is_refused() {
        let mut feed = feed();
        let mut count = 0;
        for number in 0..MOST_SESSIONS + 50 {
            feed.take(line(number).as_bytes(), &mut |_| count += 1);
        }
        assert_eq!(count, MOST_SESSIONS + 1);
        let (mut gone, mut last) = (0, String::new());
        feed.take_news(&mut |news| {
            gone += usize::from(matches!(news, FarNews::Session(FeedNews::Removed(..))));
            last = in_words(news);
        });
        assert!(gone == MOST_SESSIONS + 1 && last.contains("it sent more than can be shown"), "{last}");
        assert!(feed.told.sessions.len() == 0 && feed.told.bytes == 0);
        // Their lengths count, too, and what is kept of their screens.
        feed.limit(MOST_BYTES, &mut |_| panic!());
        feed.told.bytes = 1;
        feed.limit(MOST_BYTES, &mut |news| last = in_words(news));
        assert!(last.contains("it sent more than can be shown"), "{last}");
        feed.told.bytes = MOST_BYTES;
        assert!(feed.take(line(1).as_bytes(), &mut |_| {}) && feed.told.is_too_much(0));
        assert!(!feed.take(line(2).as_bytes(), &mut |_| panic!()));
    }
}
