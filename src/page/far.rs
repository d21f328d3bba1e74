//! The sessions of another machine on the page, received from a process of ours there (`feed.rs`).
//!
//! Its data is trusted only about that machine's sessions, is bounded, and can only be text and
//! styles. Typed text goes there, and is confirmed when it has been typed.

use std::time::Duration;

use crate::{
    json::{self, Fields, Object, Value},
    machine::{
        self,
        name::MachineName,
        renewed_call::{CallNews, RenewedCall},
    },
    page::{
        http::{BAD_BODY, DONE, GONE, HttpError, NOT_FOUND, OK, TOO_MANY, UNASKED, UNREACHED},
        stream::{BEGINNING, Entry, View},
        versioned_screen::{self, Numbers, VersionedScreen},
    },
    session::{Activity, Handle},
    sorted::Map,
    sys::{deadline::Deadline, poll::PollSet},
    terminal::{screen::Screen, text},
};

/// Longer than the valid state of a session besides its screen.
const LONGEST_ABOUT: usize = 128 * 1024;

/// All of one machine takes no more bytes, and it has no more sessions.
const MOST_BYTES: usize = 256 << 20;
const MOST_SESSIONS: usize = 20_000;

/// A page that changes to a session, or is loaded again, keeps the connection for this long.
const LINGER: Duration = Duration::from_secs(10);

/// The result of a request to that machine: nothing to print, or an answer.
pub(crate) type Done = Result<Option<String>, HttpError>;

pub(crate) struct Machine {
    call: RenewedCall,
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
struct Received {
    machine: MachineName,
    /// The requests to that machine, by numbers, and their results.
    asked: Vec<u64>,
    done: Vec<(u64, Done)>,
    /// By the numbers that their handles are. In boxes, since they come in any order.
    sessions: Map<u32, Box<FarSession>>,
    // Invariant: what they weigh.
    bytes: usize,
}

struct FarSession {
    entry: Entry,
    // The numbers that its rows have there.
    rows: Vec<u64>,
    // It is in the list that is being read.
    is_there: bool,
}

impl Machine {
    pub(crate) fn new(name: MachineName, key: u64) -> Machine {
        let itself = Entry::new(format!("{name}:"), key);
        let (asked, done, sessions, bytes) = Default::default();
        Machine {
            call: RenewedCall::new(name.clone(), vec![machine::PAGE.into()]),
            until: Deadline::NEVER,
            view: String::new(),
            itself,
            is_missing: false,
            received: Received { machine: name, asked, done, sessions, bytes },
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let itself = Some(&self.itself).filter(|_| self.is_missing);
        itself.into_iter().chain(self.received.sessions.values().map(|session| &session.entry))
    }

    pub(crate) fn name(&self) -> &MachineName {
        self.call.machine()
    }

    /// A session's handle on that machine.
    pub(crate) fn handle_there<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(self.call.machine().as_str())?.strip_prefix(':')
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        self.call.watch(poll_set, event);
    }

    /// When it is to be driven at the latest.
    pub(crate) fn deadline(&self) -> Deadline {
        self.call.deadline().min(self.until)
    }

    pub(crate) fn note(&mut self) {
        self.call.note();
    }

    /// A page is open: call the machine.
    pub(crate) fn begin(&mut self) {
        self.until = Deadline::NEVER;
        self.call.begin();
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
        match self.call.is_under_way() {
            true => self.call.give(&line),
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
            let was_sent = self.call.end();
            self.received.give_up(was_sent);
        }
        let received = &mut self.received;
        let mut news =
            self.call.drive(&mut |line| received.take(&line, keys, numbers).is_some(), text::last_line_shown);
        if received.bytes > MOST_BYTES || received.sessions.len() > MOST_SESSIONS {
            (received.sessions, received.bytes) = (Map::new(), 0);
            news.push(self.call.refuse("it sent more than can be shown"));
        }
        for news in news {
            self.take_news(news, numbers);
        }
        let line = view.line(self.call.machine().as_str());
        if self.call.is_under_way() && line != self.view {
            self.call.give(line.as_bytes());
            self.view = line;
        }
    }

    fn take_news(&mut self, news: CallNews, numbers: &mut Numbers) {
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
        let name = self.call.machine().as_str();
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
        for FarSession { entry, .. } in self.sessions.values_mut().map(|session| &mut **session) {
            let Ok(about) = Value::parse(entry.about().as_bytes()) else { continue };
            if about["state"] != "dead" {
                let unknown = [("activity", "\"unknown\""), ("word", "\"not reached\""), ("since", "null")];
                entry.describe(
                    json::value_with(&about, &[&unknown[..], &[("question", "null")]].concat()),
                    numbers,
                );
            }
        }
        self.weigh();
    }

    /// Takes a message; `None` if it is invalid: it changes nothing then.
    fn take(&mut self, line: &[u8], keys: &mut Numbers, numbers: &mut Numbers) -> Option<()> {
        let told = Value::parse(line.strip_prefix(BEGINNING)?).ok()?;
        if let Some(number) = told["answer"].as_u64() {
            let at = self.asked.iter().position(|asked| *asked == number)?;
            self.done.push((self.asked.remove(at), done(&told)));
            return Some(());
        }
        let handle = |told: &Value| Handle::parse(told.as_str()?.as_bytes());
        if let Some(all) = told["sessions"].as_array() {
            for handle in all.iter().filter_map(handle) {
                if let Some(session) = self.sessions.get_mut(&handle.number()) {
                    session.is_there = true;
                }
            }
            self.sessions.retain(|_, session| std::mem::take(&mut session.is_there));
            self.weigh();
        }
        if let Some(gone) = handle(&told["gone"])
            && let Some(session) = self.sessions.remove(&gone.number())
        {
            self.bytes -= session.entry.weight();
        }
        if told["handle"].is_null() {
            return Some(());
        }
        let handle = handle(&told["handle"])?;
        let number = handle.number();
        if !self.sessions.contains_key(&number) {
            // At most one session too many is stored; further ones are ignored.
            if self.sessions.len() > MOST_SESSIONS {
                return None;
            }
            let entry = Entry::new(format!("{}:{handle}", self.machine), keys.next());
            self.sessions.insert(number, Box::new(FarSession { entry, rows: Vec::new(), is_there: false }));
        }
        let FarSession { entry, rows, .. } = &mut **self.sessions.get_mut(&number)?;
        self.bytes -= entry.weight();
        if let Some(about) = about(&told["about"], self.machine.as_str()) {
            entry.describe(about, numbers);
        }
        if told["screen"].as_object().is_some() {
            let _ = entry.frame.take_told(&told["screen"], rows, numbers);
        }
        self.bytes += entry.weight();
        Some(())
    }

    fn weigh(&mut self) {
        self.bytes = self.sessions.values().map(|session| session.entry.weight()).sum();
    }
}

/// The type of a field: this, or null.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Truth,
    Texts,
}

/// The fields of a session besides its screen (`tile.rs`), except those that are checked one by one.
const ABOUT: [(&str, Kind); 9] = [
    ("command", Kind::Text),
    ("word", Kind::Text),
    ("terminal", Kind::Text),
    ("since", Kind::Number),
    ("question", Kind::Text),
    ("question_id", Kind::Text),
    ("choices", Kind::Texts),
    ("started", Kind::Number),
    ("title", Kind::Text),
];

/// Those of its exit record that the page has use for.
const RECEIPT: [(&str, Kind); 9] = [
    ("exit_code", Kind::Number),
    ("timed_out", Kind::Truth),
    ("signal", Kind::Text),
    ("ended_by", Kind::Text),
    ("started", Kind::Number),
    ("ended", Kind::Number),
    ("duration_ms", Kind::Number),
    ("output_bytes", Kind::Number),
    ("drained", Kind::Truth),
];

/// The state of a session besides its screen, as sent to our clients: its name includes the machine's.
/// `None` if it is invalid: a script that gets an object where it expects a text may fail, and with it
/// the whole page.
fn about(told: &Value, machine: &str) -> Option<String> {
    let (state, activity) = (told["state"].as_str()?, told["activity"].as_str()?);
    let is_known =
        ["alive", "dead"].contains(&state) && (activity == "unknown" || Activity::parse(activity).is_some());
    let name = match &told["name"] {
        Value::Null => "null".to_owned(),
        name => json::quoted(&format!("{machine}:{}", name.as_str()?)),
    };
    let receipt = match &told["receipt"] {
        Value::Null => None,
        receipt => Some(with_fields(Object::new(), receipt.as_object()?, &RECEIPT)?),
    };
    let about = Object::new().json("name", &name).text("state", state).text("activity", activity);
    let about = with_fields(about, told.as_object()?, &ABOUT)?.object_or_null("receipt", receipt).value();
    (is_known && about.len() <= LONGEST_ABOUT).then_some(about)
}

/// Adds those fields to an object, as they are in another one; where one is missing, it is null.
fn with_fields(mut object: Object, told: &Fields, fields: &[(&str, Kind)]) -> Option<Object> {
    for (name, kind) in fields {
        let value = told.get(*name).unwrap_or(&Value::Null);
        let is_one = match kind {
            Kind::Text => value.is_string(),
            Kind::Number => value.as_number().is_some(),
            Kind::Truth => value.as_bool().is_some(),
            Kind::Texts => value.as_array().is_some_and(|texts| texts.iter().all(Value::is_string)),
        };
        if !is_one && !value.is_null() {
            return None;
        }
        object = object.json(name, &json::value_with(value, &[]));
    }
    Some(object)
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
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            machine.received.take(line, &mut Numbers::default(), &mut Numbers::default());
        }
    }

    fn over(why: &str) -> CallNews {
        CallNews::Over { why: why.into(), was_sent: false }
    }

    /// The message of that machine for a screen with this on it.
    fn told(bytes: &[u8]) -> Vec<u8> {
        let (mut screen, mut numbers) = (Screen::new(20, 3), Numbers::default());
        screen.feed(bytes);
        let mut entry = Entry::new("1f3a9c02".into(), 1);
        let about = r#"{"name":"a","command":"b","state":"alive","activity":"waiting","receipt":null}"#;
        entry.describe(about.into(), &mut numbers);
        entry.frame.take(&screen, &mut numbers);
        let mut out = Vec::new();
        let mut stream = Stream::new(View { wall: true, large: Vec::new() }, 0);
        stream.send(&[&entry], numbers.last(), "", &mut out);
        out
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
        assert!(entry.about().contains("\"name\":\"box:a\""), "{}", entry.about());
        let shown = rows(&entry.frame);
        assert!(shown.contains("[\"a\",[\"b\",\"1,#010203,1\"]]"), "{shown}");
        assert!(shown.contains("[[\"漢\",\",,0\",2],\"<b>\"]"), "{shown}");
        take(&mut machine, b"data: {\"gone\":\"1f3a9c02\"}\n\n");
        assert!(machine.entries().next().is_none() && machine.received.bytes == 0);
    }

    #[test]
    fn remote_rows_must_be_text_and_known_styles() {
        let mut machine = machine();
        let head = "data: {\"handle\":\"1f3a9c02\",\"screen\":{\"cols\":1,\"rows\":1,\"cursor\":null,\"at\":[1],\"fresh\":{\"1\":";
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
            assert_eq!(machine.entries().next().unwrap().frame.number(), 0, "{row}");
        }
        for other in [
            "{\"handle\":\"other:1f3a9c03\",\"about\":{}}",
            "{\"handle\":\"../../x\"}",
            "{\"handle\":5}",
            "{\"answer\":1,\"status\":\"204 No Content\"}",
            "[]",
            "5",
        ] {
            take(&mut machine, format!("data: {other}\n").as_bytes());
        }
        assert!(machine.received.sessions.len() == 1 && machine.done().is_empty());
    }

    #[test]
    fn remote_fields_must_be_known_texts_and_numbers() {
        let mut machine = machine();
        let mut take = |about: &str| {
            take(&mut machine, format!("data: {{\"handle\":\"1f3a9c02\",\"about\":{about}}}\n").as_bytes());
            machine.entries().next().unwrap().about().to_owned()
        };
        let whole = |more: &str| {
            let named = "\"name\":\"box:a\",\"state\":\"alive\",\"activity\":\"idle\",\"command\":\"b\"";
            format!("{{{named},{more}}}")
        };
        let there = |more: &str| whole(more).replace("box:", "");
        let rest = "\"word\":\"idle\",\"terminal\":\"line\",\"since\":1.5,\"question\":null,\"question_id\":null,\"choices\":[\"y\"],\"started\":1,\"title\":\"<b>\"";
        let receipt = "\"exit_code\":-1,\"timed_out\":true,\"signal\":null,\"ended_by\":\"kill\",\"started\":1,\
                       \"ended\":2,\"duration_ms\":3,\"output_bytes\":4,\"drained\":false";
        // Nothing is known of it yet.
        assert_eq!(take("{\"state\":\"alive\",\"activity\":\"x\"}"), "");
        let full = format!("{rest},\"receipt\":{{{receipt}}}");
        let more = format!("{rest},\"receipt\":{{\"last_lines\":[{{}}],{receipt}}},\"other\":{{}}");
        assert_eq!(take(&there(&more)), whole(&full));
        for (field, other) in [
            ("\"b\"", "[\"b\"]"),
            ("\"b\"", "7"),
            ("\"a\"", "{\"toString\":1}"),
            ("\"word\":\"idle\"", "\"word\":{\"toString\":1}"),
            ("\"alive\"", "\"undead\""),
            ("\"activity\":\"idle\"", "\"activity\":\"__proto__\""),
            ("\"line\"", "true"),
            ("1.5", "\"1.5\""),
            ("[\"y\"],\"started\"", "[[]],\"started\""),
            ("null,\"choices\"", "[],\"choices\""),
            ("\"<b>\"", "[{}]"),
            ("\"<b>\"", &json::quoted(&"b".repeat(LONGEST_ABOUT))),
            ("\"receipt\":{", "\"receipt\":[],\"r\":{"),
            ("\"receipt\":{", "\"receipt\":\"\",\"r\":{"),
            ("-1", "{}"),
            ("\"kill\"", "{\"toString\":1}"),
            ("true", "1"),
        ] {
            let lie = there(&full).replacen(field, other, 1);
            assert_ne!(lie, there(&full), "{field}");
            assert_eq!(take(&lie), whole(&full), "{lie}");
        }
        let without = format!("{rest},\"receipt\":null");
        assert_eq!(take(&there(&without)), whole(&without));
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
        machine.take_news(CallNews::Heard, &mut numbers);
        let told = send(&machine, &numbers);
        assert!(told.contains("\"gone\":\"box:\""), "{told}");
        machine.miss("it burns", &mut numbers);
        let told = send(&machine, &numbers);
        assert!(told.contains("\"question\":\"it burns\"") && told.contains("[\"it burns\"]"), "{told}");
    }

    #[test]
    fn versions_continue_after_a_lost_connection() {
        let (mut machine, mut numbers) = (machine(), Numbers::default());
        let about = b"data: {\"handle\":\"1f3a9c02\",\"about\":{\"state\":\"alive\",\"activity\":\"idle\",\"word\":\"idle\"}}\n";
        let weight = |machine: &Machine| machine.entries().map(Entry::weight).sum::<usize>();
        take(&mut machine, about);
        assert_eq!(machine.received.bytes, weight(&machine));
        machine.take_news(over("it burns"), &mut numbers);
        machine.is_missing = false;
        assert_eq!(machine.received.bytes, weight(&machine));
        take(&mut machine, about);
        assert_eq!(machine.received.bytes, weight(&machine));
    }

    #[test]
    fn sessions_are_kept_by_what_they_are_called_and_no_more_than_can_be_shown() {
        let mut machine = machine();
        let handle = |number: usize| format!("{:08x}", (number * 7_919) % 20_011);
        let mut lines: String =
            (0..2_000).map(|number| format!("data: {{\"handle\":\"{}\"}}\n", handle(number))).collect();
        lines += &format!("data: {{\"gone\":\"{}\"}}\ndata: {{\"gone\":\"../x\"}}\n", handle(5));
        take(&mut machine, lines.as_bytes());
        let names = |machine: &Machine| machine.entries().map(|entry| entry.name.clone()).collect::<Vec<_>>();
        let all = names(&machine);
        assert!(all.len() == 1_999 && all.is_sorted(), "{}", all.len());
        let nonsense = "1,".repeat(200_000);
        let kept = format!("\"{}\",\"{}\",\"{}\"", handle(9), handle(3), handle(5));
        take(&mut machine, format!("data: {{\"sessions\":[{nonsense}{kept}]}}\n").as_bytes());
        let mut left = [format!("box:{}", handle(9)), format!("box:{}", handle(3))];
        left.sort();
        assert_eq!(names(&machine), left);
        for number in 0..20_011 {
            take(&mut machine, format!("data: {{\"handle\":\"{}\"}}\n", handle(number)).as_bytes());
        }
        assert_eq!(names(&machine).len(), MOST_SESSIONS + 1);
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
            let answer = format!("data: {{\"answer\":{number},\"status\":\"{DONE}\",\"body\":null}}\n");
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
            for line in spoiled(&told, &mut random).split_inclusive(|byte| *byte == b'\n') {
                machine.received.take(line, &mut keys, &mut numbers);
            }
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
