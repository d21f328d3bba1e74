//! The sessions of another machine on the page, received from a process of ours there (`feed.rs`).
//!
//! The feed (`feed/far.rs`) says which sessions there are, and their state. Its call also carries the shown
//! screens, which can only be text and styles, the requests of users, and their results. Typed text is
//! confirmed when it has been typed there.

use std::time::Duration;

use crate::{
    feed::{FarFeed, FarNews, FeedNews},
    json::{Object, Value},
    machine::{self, name::MachineName, renewed_call::CallNews},
    page::{
        about::about,
        http::{BAD_BODY, DONE, GONE, HttpError, NOT_FOUND, OK, TOO_MANY, UNASKED, UNREACHED},
        stream::{Entry, View},
        versioned_screen::{self, Numbers, VersionedScreen},
    },
    session::{ActivityView, Handle},
    sorted::Map,
    sys::{deadline::Deadline, poll::PollSet},
    terminal::{screen::Screen, text},
};

/// The most bytes of a valid line of a session.
const LONGEST_SESSION: usize = 128 * 1024;

/// A page that changes to a session, or is loaded again, keeps the connection for this long.
const LINGER: Duration = Duration::from_secs(10);

/// The result of a request to that machine: nothing to print, or an answer.
pub(crate) type Done = Result<Option<String>, HttpError>;

pub(crate) struct Machine {
    feed: FarFeed,
    /// The time to hang up, if no page is open any more.
    until: Deadline,
    /// The view that was sent by this call.
    view: String,
    /// The entry for the machine itself if it cannot be reached, and whether it was sent.
    itself: Entry,
    is_missing: bool,
    received: Received,
}

/// The state that the machine has sent.
#[derive(Default)]
struct Received {
    /// The requests to that machine, by numbers, and their results.
    asked: Vec<u64>,
    done: Vec<(u64, Done)>,
    /// By the numbers that their handles are. In boxes, since they come in any order.
    sessions: Map<u32, Box<FarSession>>,
    // Invariant: the sum of the weights of their screens.
    bytes: usize,
}

struct FarSession {
    entry: Entry,
    overview: ActivityView,
    // The numbers that its rows have there.
    rows: Vec<u64>,
}

impl FarSession {
    /// Computes its state besides the screen.
    fn describe(&mut self, word: &str, numbers: &mut Numbers) {
        let about = about(&self.overview, self.entry.frame.title(), word);
        self.entry.describe(about, numbers);
    }
}

impl Machine {
    pub(crate) fn new(name: MachineName, key: u64) -> Machine {
        Machine {
            itself: Entry::new(format!("{name}:"), key),
            feed: FarFeed::new(name, vec![machine::PAGE.into()], LONGEST_SESSION),
            until: Deadline::NEVER,
            view: String::new(),
            is_missing: false,
            received: Received::default(),
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let itself = Some(&self.itself).filter(|_| self.is_missing);
        itself.into_iter().chain(self.received.sessions.values().map(|session| &session.entry))
    }

    pub(crate) fn name(&self) -> &MachineName {
        self.feed.call.machine()
    }

    /// A session's handle on that machine.
    pub(crate) fn handle_there<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(self.name().as_str())?.strip_prefix(':')
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        self.feed.call.watch(poll_set, event);
    }

    /// When it is to be driven at the latest.
    pub(crate) fn deadline(&self) -> Deadline {
        self.feed.call.deadline().min(self.until)
    }

    pub(crate) fn note(&mut self) {
        self.feed.call.note();
    }

    /// A page is open: call the machine.
    pub(crate) fn begin(&mut self) {
        self.until = Deadline::NEVER;
        self.feed.call.begin();
    }

    /// No page is open any more.
    pub(crate) fn rest(&mut self) {
        self.until = Deadline::after(LINGER);
    }

    /// Sends a request there, whose result has that number.
    pub(crate) fn ask(&mut self, number: u64, handle: &str, what: &str, body: &str) {
        let order = Object::new().number("ask", number).text("handle", handle);
        let mut line = order.text("what", what).text("body", body).line().into_bytes();
        self.received.asked.push(number);
        match self.feed.call.is_under_way() {
            true => self.feed.call.give(&line),
            false => self.received.give_up(false),
        }
        // It may be a secret.
        line.fill(0);
    }

    /// Drops pending requests that no client waits for any more.
    pub(crate) fn forget_but(&mut self, is_awaited: impl Fn(u64) -> bool) {
        self.received.asked.retain(|number| is_awaited(*number));
    }

    /// The results since the last call.
    pub(crate) fn done(&mut self) -> Vec<(u64, Done)> {
        std::mem::take(&mut self.received.done)
    }

    /// Receives messages, sends the view, and calls the machine if it is time.
    pub(crate) fn drive(&mut self, view: &View, keys: &mut Numbers, numbers: &mut Numbers) {
        if self.until.has_passed() {
            self.until = Deadline::NEVER;
            self.view.clear();
            let was_sent = self.feed.call.end();
            self.received.give_up(was_sent);
        }
        let Machine { feed, received, .. } = self;
        let mut calls = Vec::new();
        feed.take_news(&mut |news| calls.extend(received.take(news, keys, numbers)));
        let bytes = received.bytes;
        feed.limit(bytes, &mut |news| calls.extend(received.take(news, keys, numbers)));
        for news in calls {
            self.take_call(news, numbers);
        }
        let line = view.line(self.name().as_str());
        if self.feed.call.is_under_way() && line != self.view {
            self.feed.call.give(line.as_bytes());
            self.view = line;
        }
    }

    fn take_call(&mut self, news: CallNews, numbers: &mut Numbers) {
        match news {
            CallNews::Heard => self.is_missing = false,
            CallNews::Missing(why) => self.miss(&why, numbers),
            CallNews::Over { why, was_sent } => {
                self.view.clear();
                self.received.give_up(was_sent);
                self.miss(&why, numbers);
                self.received.forget_activities(numbers);
            }
        }
    }

    fn miss(&mut self, why: &str, numbers: &mut Numbers) {
        let name = self.feed.call.machine().as_str();
        let about =
            Object::new().text("name", name).text("command", "another machine").text("state", "alive");
        let about = about.text("activity", "unknown").text("word", "not reached").text("question", why);
        if !self.is_missing {
            // Clients forget an entry that is empty.
            self.itself.describe(String::new(), numbers);
            self.itself.frame = VersionedScreen::default();
        }
        self.itself.describe(about.value(), numbers);
        // There is room for all of it where others have their screens.
        let mut screen = Screen::new(60, 12);
        screen.feed(format!("\x1b[?25l{}", text::escaped(why.as_bytes())).as_bytes());
        self.itself.frame.take(&screen, numbers);
        self.is_missing = true;
    }
}

impl Received {
    /// The results of pending requests are unknown: those that were sent may have been executed.
    fn give_up(&mut self, was_sent: bool) {
        let refusal = if was_sent { UNREACHED } else { UNASKED };
        self.done.extend(self.asked.drain(..).map(|number| (number, Err(refusal))));
    }

    /// The activity of its sessions is unknown.
    fn forget_activities(&mut self, numbers: &mut Numbers) {
        for session in self.sessions.values_mut().filter(|session| session.overview.glance.alive) {
            let overview = &mut session.overview;
            (overview.activity, overview.since, overview.report) = (None, None, None);
            (overview.question, overview.choices) = (None, Vec::new());
            session.describe("not reached", numbers);
        }
    }

    /// Takes a message of the machine. Returns the call's fate, if it is that.
    fn take(&mut self, news: FarNews, keys: &mut Numbers, numbers: &mut Numbers) -> Option<CallNews> {
        match news {
            FarNews::Session(FeedNews::Told(overview)) => self.put(*overview, keys, numbers),
            FarNews::Session(FeedNews::Removed(address, _)) => {
                let gone = self.sessions.remove(&address.handle.number());
                self.bytes -= gone.map_or(0, |session| session.entry.frame.weight());
            }
            FarNews::Session(FeedNews::Lost { .. }) => {}
            FarNews::Line(told) => drop(self.take_line(told, numbers)),
            FarNews::Call(news) => return Some(news),
        }
        None
    }

    fn put(&mut self, overview: ActivityView, keys: &mut Numbers, numbers: &mut Numbers) {
        let address = overview.address();
        let number = address.handle.number();
        let session = match self.sessions.get_mut(&number) {
            Some(session) => {
                session.overview = overview;
                session
            }
            None => {
                let entry = Entry::new(address.to_string(), keys.next());
                self.sessions.or_insert(number, Box::new(FarSession { entry, overview, rows: Vec::new() }))
            }
        };
        session.describe(session.overview.word(), numbers);
    }

    /// Takes a line that is not the feed's; `None` if it is invalid: it changes nothing then.
    fn take_line(&mut self, told: &Value, numbers: &mut Numbers) -> Option<()> {
        if let Some(number) = told["answer"].as_u64() {
            let at = self.asked.iter().position(|asked| *asked == number)?;
            self.done.push((self.asked.remove(at), done(told)));
            return Some(());
        }
        let handle = Handle::parse(told["screen_of"].as_str()?.as_bytes())?;
        let session = self.sessions.get_mut(&handle.number())?;
        let FarSession { entry, rows, .. } = &mut **session;
        self.bytes -= entry.frame.weight();
        let _ = entry.frame.take_told(&told["screen"], rows, numbers);
        self.bytes += entry.frame.weight();
        session.describe(session.overview.word(), numbers);
        Some(())
    }
}

/// The result of a request to that machine.
fn done(told: &Value) -> Done {
    let (status, body) = (told["status"].as_str().unwrap_or_default(), &told["body"]);
    match (status, body["typed"].as_bool()) {
        (DONE, _) => Ok(None),
        (OK, Some(typed)) => Ok(Some(Object::new().truth("typed", typed).line())),
        (OK, None) => versioned_screen::scrollback_told(body).map(Some).ok_or(NOT_FOUND),
        _ => {
            Err([BAD_BODY, GONE, NOT_FOUND].into_iter().find(|one| one.status == status).unwrap_or(TOO_MANY))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        page::stream::Stream,
        rounds::{rounds, spoiled},
    };

    fn machine() -> Machine {
        Machine::new(MachineName::parse(b"box").unwrap(), 0)
    }

    fn take(machine: &mut Machine, bytes: &[u8]) {
        take_with(machine, bytes, &mut Numbers::default(), &mut Numbers::default());
    }

    fn take_with(machine: &mut Machine, bytes: &[u8], keys: &mut Numbers, numbers: &mut Numbers) {
        let Machine { feed, received, .. } = machine;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            feed.take(line, &mut |news| drop(received.take(news, keys, numbers)));
        }
    }

    fn over(why: &str) -> CallNews {
        CallNews::Over { why: why.into(), was_sent: false }
    }

    /// The line of a session with these fields besides its command.
    fn line(handle: &str, fields: &str) -> String {
        format!("{{\"handle\":\"{handle}\",\"command\":\"b\"{fields}}}\n")
    }

    /// The lines of that machine for a session with a screen with this on it.
    fn told(bytes: &[u8]) -> Vec<u8> {
        let (mut screen, mut frame) = (Screen::new(20, 3), VersionedScreen::default());
        screen.feed(bytes);
        frame.take(&screen, &mut Numbers::default());
        let told = line("1f3a9c02", ",\"name\":\"a\",\"state\":\"alive\",\"activity\":\"waiting\"");
        let shown =
            Object::new().text("screen_of", "1f3a9c02").object_or_null("screen", Some(frame.object(0)));
        (told + &shown.line()).into_bytes()
    }

    fn weight(machine: &Machine) -> usize {
        machine.entries().map(|entry| entry.frame.weight()).sum()
    }

    fn about_of(machine: &Machine) -> String {
        machine.entries().next().unwrap().about.clone()
    }

    fn rows(frame: &VersionedScreen) -> String {
        frame.object(0).value()
    }

    #[test]
    fn remote_events_get_the_machines_name() {
        let mut machine = machine();
        let told = told("a\x1b[1;31;48;2;1;2;3mb\x1b[m\r\n漢<b>".as_bytes());
        take(&mut machine, &told);
        let entry = machine.entries().next().unwrap();
        assert_eq!(entry.name, "box:1f3a9c02");
        assert!(entry.about.contains("\"name\":\"box:a\""), "{}", entry.about);
        let shown = rows(&entry.frame);
        assert!(shown.contains("[\"a\",[\"b\",\"1,#010203,1\"]]"), "{shown}");
        assert!(shown.contains("[[\"漢\",\",,0\",2],\"<b>\"]"), "{shown}");
        take(&mut machine, b"{\"handle\":\"1f3a9c02\",\"state\":\"removed\"}\n");
        assert!(machine.entries().next().is_none() && machine.received.bytes == 0);
    }

    #[test]
    fn remote_rows_must_be_text_and_known_styles() {
        let mut machine = machine();
        take(&mut machine, line("1f3a9c02", "").as_bytes());
        let head = "{\"screen_of\":\"1f3a9c02\",\"screen\":{\"cols\":1,\"rows\":1,\"cursor\":null,\"at\":[1],\"title\":\"x\",\"fresh\":{\"1\":";
        for row in [
            "{}",
            "[{}]",
            "[[\"a\"]]",
            "[[\"a\",1]]",
            "[[\"a\",\"#fff url(x),,0\"]]",
            "[[\"a\",\",,0\",\"2;b\"]]",
            "[[\"a\",\",,0\",99999]]",
        ] {
            take(&mut machine, format!("{head}{row}}}}}}}\n").as_bytes());
            let frame = &machine.entries().next().unwrap().frame;
            assert!(frame.number() == 0 && frame.title().is_none(), "{row}");
        }
        for other in [
            "{\"handle\":\"other:1f3a9c03\",\"command\":\"b\"}",
            "{\"screen_of\":\"1f3a9c04\",\"screen\":{}}",
            "{\"handle\":\"../../x\",\"command\":\"b\"}",
            "{\"handle\":5}",
            "{\"answer\":1,\"status\":\"204 No Content\"}",
            "[]",
            "5",
        ] {
            take(&mut machine, format!("{other}\n").as_bytes());
        }
        assert!(machine.received.sessions.len() == 1 && machine.done().is_empty());
        take(&mut machine, format!("{head}[\"<b>\"]}}}}}}\n").as_bytes());
        assert!(about_of(&machine).contains("\"title\":\"x\""));
        let long = head.replace("\"x\"", &format!("\"{}\"", "x".repeat(100_000)));
        take(&mut machine, format!("{long}[\"c\"]}}}}}}\n").as_bytes());
        assert!(about_of(&machine).contains("\"title\":null"));
        assert_eq!(machine.received.bytes, weight(&machine));
    }

    #[test]
    fn remote_fields_are_known_texts_and_numbers() {
        let mut machine = machine();
        let mut take = |fields: &str| {
            take(&mut machine, line("1f3a9c02", fields).as_bytes());
            about_of(&machine)
        };
        let rest = "\"question\":null,\"question_id\":null,\"choices\":[],\"started\":null,\"title\":null";
        let plain = format!(
            "{{\"name\":null,\"command\":\"b\",\"state\":\"alive\",\"activity\":\"unknown\",\"word\":\"?\",\
             \"terminal\":null,\"since\":null,{rest},\"receipt\":null}}"
        );
        for lie in [
            "\"name\":{\"toString\":1}",
            "\"name\":\"a b\"",
            "\"state\":\"undead\"",
            "\"state\":[]",
            "\"activity\":\"__proto__\"",
            "\"since\":\"1.5\"",
            "\"since\":-1",
            "\"question\":[]",
            "\"question_id\":{}",
            "\"choices\":{\"0\":1}",
            "\"choices\":[[]]",
            "\"started\":{}",
            "\"report\":[{}]",
            "\"title\":{}",
            "\"receipt\":{}",
            "\"exit_code\":7",
        ] {
            assert_eq!(take(&format!(",{lie}")), plain, "{lie}");
        }
        let end = "\"exit_code\":{},\"ended_by\":\"magic\",\"signal\":[],\"timed_out\":1,\"drained\":\"x\",\"output_bytes\":{}";
        let told = take(&format!(",\"state\":\"dead\",\"started\":1,\"since\":2.5,{end}"));
        let receipt = "\"exit_code\":-1,\"started\":1.000000,\"ended\":2.500000,\"duration_ms\":1500,\"ended_by\":null,\
                       \"timed_out\":null,\"signal\":null,\"output_bytes\":null,\"drained\":null,";
        assert!(told.contains(&format!("\"receipt\":{{{receipt}")), "{told}");
        let told = take(
            ",\"activity\":\"waiting\",\"question\":\"q\\u0007?\",\"choices\":[\"<y>\",5],\"terminal\":\"wild\"",
        );
        assert!(
            told.contains("\"question\":\"q\\\\x07?\"") && told.contains("\"choices\":[\"<y>\"]"),
            "{told}"
        );
        assert!(Value::parse(told.as_bytes()).unwrap()["terminal"].is_string(), "{told}");
    }

    #[test]
    fn a_machine_that_is_missing_again_is_told_of_with_its_screen_again() {
        let (mut machine, mut numbers) = (machine(), Numbers::default());
        machine.miss("it burns", &mut numbers);
        let mut stream = Stream::new(View { wall: true, large: Vec::new() }, numbers.last());
        let mut send = |machine: &Machine, numbers: &Numbers| {
            let (entries, mut out) = (machine.entries().collect::<Vec<_>>(), Vec::new());
            stream.send(&entries, numbers.last(), "", &mut out);
            String::from_utf8(out).unwrap()
        };
        let told = send(&machine, &numbers);
        assert!(told.contains("\"sessions\":[\"box:\"]") && !told.contains("burns"), "{told}");
        machine.take_call(CallNews::Heard, &mut numbers);
        let told = send(&machine, &numbers);
        assert!(told.contains("\"gone\":\"box:\""), "{told}");
        machine.miss("it burns", &mut numbers);
        let told = send(&machine, &numbers);
        assert!(told.contains("\"question\":\"it burns\"") && told.contains("[\"it burns\"]"), "{told}");
    }

    #[test]
    fn versions_continue_after_a_lost_connection() {
        let (mut machine, mut numbers) = (machine(), Numbers::default());
        let told =
            line("1f3a9c02", ",\"activity\":\"waiting\",\"since\":1,\"question\":\"q\",\"choices\":[\"c\"]");
        let ended = line("1f3a9c03", ",\"state\":\"dead\",\"activity\":\"dead\"");
        let both = told + &ended;
        take(&mut machine, both.as_bytes());
        let before = about_of(&machine);
        assert_eq!(machine.received.bytes, weight(&machine));
        machine.take_call(over("it burns"), &mut numbers);
        machine.is_missing = false;
        assert_eq!(machine.received.bytes, weight(&machine));
        let lost = about_of(&machine);
        let unknown = "\"activity\":\"unknown\",\"word\":\"not reached\",\"terminal\":null,\"since\":null,\
                       \"question\":null,\"question_id\":null,\"choices\":[]";
        assert!(lost.contains(unknown), "{lost}");
        assert!(machine.entries().nth(1).unwrap().about.contains("\"word\":\"dead\""));
        let key = machine.entries().next().unwrap().key;
        take(&mut machine, both.as_bytes());
        assert_eq!(about_of(&machine), before);
        assert_eq!(machine.entries().next().unwrap().key, key);
        assert_eq!(machine.received.bytes, weight(&machine));
    }

    #[test]
    fn sessions_are_kept_by_what_they_are_called() {
        let mut machine = machine();
        let handle = |number: usize| format!("{:08x}", (number * 7_919) % 20_011);
        let lines: String = (0..2_000).map(|number| line(&handle(number), "")).collect();
        take(&mut machine, lines.as_bytes());
        let names = |machine: &Machine| machine.entries().map(|entry| entry.name.clone()).collect::<Vec<_>>();
        let all = names(&machine);
        assert!(all.len() == 2_000 && all.is_sorted(), "{}", all.len());
        // The machine itself chooses which of the ended ones are shown.
        let end = |number: usize| line(&handle(number), &format!(",\"state\":\"dead\",\"since\":{number}"));
        take(&mut machine, (0..200).map(end).collect::<String>().as_bytes());
        assert_eq!(names(&machine), all);
        let gone = |number| line(&handle(number), ",\"state\":\"removed\"");
        take(&mut machine, (0..140).map(gone).collect::<String>().as_bytes());
        let left = names(&machine);
        assert_eq!(left.len(), 1_860);
        assert!((140..200).all(|number| left.contains(&format!("box:{}", handle(number)))));
        assert_eq!(machine.received.bytes, weight(&machine));
    }

    #[test]
    fn requests_without_a_connection_fail() {
        let mut machine = machine();
        machine.ask(7, "1f3a9c02", "line", "x");
        assert_eq!((machine.done(), &machine.received.asked[..]), (vec![(7, Err(UNASKED))], &[][..]));
    }

    #[test]
    fn late_replies_are_ignored() {
        let mut machine = machine();
        machine.received.asked = vec![7, 8];
        machine.forget_but(|number| number == 8);
        for number in 7..=8 {
            let answer = format!("{{\"answer\":{number},\"status\":\"{DONE}\",\"body\":null}}\n");
            take(&mut machine, answer.as_bytes());
        }
        assert_eq!((machine.done(), &machine.received.asked[..]), (vec![(8, Ok(None))], &[][..]));
    }

    #[test]
    fn whatever_is_told_there_is_one_line_of_json_here() {
        let told = told(b"a\x1b[1;31mb\x1b[m \xe6\xbc\xa2\r\nc");
        let (mut machine, mut keys, mut numbers) = (machine(), Numbers::default(), Numbers::default());
        // One client that has seen everything before, and one that has seen nothing.
        let mut old = Stream::new(View { wall: true, large: Vec::new() }, 0);
        for (seed, mut random) in rounds(500) {
            take_with(&mut machine, &spoiled(&told, &mut random), &mut keys, &mut numbers);
            let entries: Vec<&Entry> = machine.entries().collect();
            let mut new = Stream::new(View { wall: true, large: Vec::new() }, 0);
            for stream in [&mut old, &mut new] {
                let mut out = Vec::new();
                stream.send(&entries, numbers.last(), "", &mut out);
                for event in String::from_utf8(out).unwrap().split_terminator("\n\n") {
                    let told = event.rsplit_once("data: ").unwrap().1;
                    let is_json = Value::parse(told.as_bytes()).is_ok();
                    assert!(is_json && !told.chars().any(char::is_control), "seed {seed}: {told}");
                }
            }
            for entry in machine.entries() {
                assert!(entry.name.starts_with("box:"), "seed {seed}");
            }
        }
    }
}
