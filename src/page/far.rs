//! The sessions of another machine on the page: told by a process of us there (`feed.rs`).
//!
//! What comes from there is believed of that machine's sessions only, is bounded, and is nothing
//! but text and styles. What is typed goes there, and is answered when it has been done.

use std::time::Duration;

use serde_json::Value;

use crate::{
    json::{self, Object},
    machine::{
        self,
        call::{Call, Came, End},
        name::MachineName,
    },
    page::{
        frame::{self, Numbers},
        http::{BAD, DONE, GONE, NOT_FOUND, OK, Refusal, TOO_MANY, UNREACHED},
        stream::{BEGINNING, Entry, View},
    },
    session::{Activity, Handle},
    sys::{deadline::Deadline, poll::PollSet},
    terminal::{screen::Screen, text},
};

/// Longer than what is told of any session at once.
const LONGEST_LINE: usize = 4 << 20;

/// What is told of one beside its screen is shorter.
const LONGEST_ABOUT: usize = 128 * 1024;

/// All of one machine takes no more bytes, and it has no more sessions.
const MOST_BYTES: usize = 256 << 20;
const MOST_SESSIONS: usize = 20_000;

/// Whoever is there answers sooner; after so long it is told that there is no answer.
const SOON: Duration = Duration::from_secs(2);

/// How long after a call that was given up there is another: at first, and at most.
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A page goes from the wall to a session, or is loaded again: so long it is kept.
const LINGER: Duration = Duration::from_secs(10);

/// What became of something that was to be done there: nothing to be told, or an answer.
pub(crate) type Done = Result<Option<String>, Refusal>;

pub(crate) struct Machine {
    name: MachineName,
    /// `None`: nobody looks, or it could not be reached.
    call: Option<Call>,
    /// Something is to be read or sent.
    stirred: bool,
    /// When to call again, or to tell that there is no answer.
    due: Deadline,
    pause: Duration,
    /// When to hang up, where nobody looks any more.
    until: Deadline,
    line: Vec<u8>,
    words: Vec<u8>,
    /// What it has been told that somebody looks at.
    view: String,
    /// What is being done there, by numbers, and what was.
    asked: Vec<u64>,
    done: Vec<(u64, Done)>,
    /// What is told of it where it cannot be reached, and whether that is told.
    itself: Entry,
    is_missing: bool,
    sessions: Vec<FarSession>,
    bytes: usize,
}

struct FarSession {
    entry: Entry,
    // The numbers that its rows have there.
    rows: Vec<u64>,
}

impl Machine {
    pub(crate) fn new(name: MachineName, key: u64) -> Machine {
        let itself = Entry::new(format!("{name}:"), key);
        Machine {
            name,
            call: None,
            stirred: false,
            due: Deadline::NEVER,
            pause: PAUSE,
            until: Deadline::NEVER,
            line: Vec::new(),
            words: Vec::new(),
            view: String::new(),
            asked: Vec::new(),
            done: Vec::new(),
            itself,
            is_missing: false,
            sessions: Vec::new(),
            bytes: 0,
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let itself = Some(&self.itself).filter(|_| self.is_missing);
        itself.into_iter().chain(self.sessions.iter().map(|session| &session.entry))
    }

    /// What a session of it is called there.
    pub(crate) fn handle_there<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(self.name.as_str())?.strip_prefix(':')
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        if let Some(call) = &self.call {
            call.watch(poll_set, event);
        }
    }

    /// When it is to be tended at the latest.
    pub(crate) fn deadline(&self) -> Deadline {
        let call = self.call.as_ref().map_or(Deadline::NEVER, Call::deadline);
        if self.stirred { Deadline::after(Duration::ZERO) } else { self.due.min(self.until).min(call) }
    }

    pub(crate) fn note(&mut self) {
        self.stirred = true;
    }

    /// Somebody looks: it is to be called.
    pub(crate) fn begin(&mut self) {
        self.until = Deadline::NEVER;
        if self.call.is_none() {
            self.due = Deadline::after(Duration::ZERO);
        }
    }

    /// Nobody looks any more.
    pub(crate) fn rest(&mut self) {
        self.until = Deadline::after(LINGER);
    }

    /// Has something done there, of which is told by that number.
    pub(crate) fn ask(&mut self, number: u64, handle: &str, what: &str, body: &str) {
        let order = Object::new().number("ask", number as i64).text("handle", handle);
        let mut line = order.text("what", what).text("body", body).line().into_bytes();
        self.asked.push(number);
        self.say(&line);
        // It may be a secret.
        line.fill(0);
    }

    fn say(&mut self, line: &[u8]) {
        match &mut self.call {
            Some(call) => call.give_stdin(line),
            None => self.give_up(),
        }
        self.stirred = true;
    }

    /// Nobody knows what became of what was asked.
    fn give_up(&mut self) {
        self.done.extend(self.asked.drain(..).map(|number| (number, Err(UNREACHED))));
    }

    /// What was done since it was asked for last.
    pub(crate) fn done(&mut self) -> Vec<(u64, Done)> {
        std::mem::take(&mut self.done)
    }

    fn hang_up(&mut self) {
        self.call = None;
        (self.view, self.line, self.words) = Default::default();
        self.give_up();
    }

    /// Takes what has come, tells what somebody looks at, and calls where that is to be done.
    pub(crate) fn tend(&mut self, view: &View, keys: &mut Numbers, numbers: &mut Numbers) {
        let line = view.line(self.name.as_str());
        self.stirred |= self.call.is_some() && line != self.view;
        if !self.stirred && !self.deadline().has_passed() {
            return;
        }
        self.stirred = false;
        if self.until.has_passed() {
            self.hang_up();
            (self.until, self.due) = (Deadline::NEVER, Deadline::NEVER);
        }
        if self.call.is_none() && self.due.has_passed() {
            match Call::begin(&self.name, vec![machine::PAGE.into()], None, None) {
                Ok(call) => self.call = Some(call),
                Err(failure) => return self.lose(failure.message().unwrap_or_default(), numbers),
            }
            self.due = Deadline::after(SOON);
        }
        let Some(call) = &mut self.call else { return };
        if line != self.view {
            call.give_stdin(line.as_bytes());
            self.view = line;
        }
        let mut came = Vec::new();
        call.tend(&mut came);
        let trouble = call.trouble().map(str::to_owned);
        for came in came {
            match came {
                Came::Stdout(bytes) => self.take(&bytes, keys, numbers),
                Came::Stderr(bytes) => {
                    self.words.extend(bytes);
                    self.words.drain(..self.words.len().saturating_sub(4096));
                }
                Came::Ended(end) => {
                    let said = text::last_line_shown(&self.words);
                    let said = said.unwrap_or_else(|| "there is no news from there any more".into());
                    let why = match &end {
                        End::Lost(failure) => failure.message().unwrap_or_default(),
                        End::Exit(_) => &said,
                    };
                    return self.lose(why, numbers);
                }
            }
        }
        match trouble {
            None => {
                self.is_missing = false;
                (self.due, self.pause) = (Deadline::NEVER, PAUSE);
            }
            Some(_) if self.due == Deadline::NEVER => self.due = Deadline::after(SOON),
            Some(why) if self.due.has_passed() => {
                self.due = Deadline::after(LONGEST_PAUSE);
                self.miss(&why, numbers);
            }
            Some(_) => {}
        }
        if self.bytes > MOST_BYTES || self.sessions.len() > MOST_SESSIONS {
            (self.sessions, self.bytes) = (Vec::new(), 0);
            self.lose("it tells of more than can be shown", numbers);
        }
    }

    /// There is no call any more: what its sessions do is not known.
    fn lose(&mut self, why: &str, numbers: &mut Numbers) {
        self.hang_up();
        self.due = Deadline::after(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.miss(why, numbers);
        for FarSession { entry, .. } in &mut self.sessions {
            let Ok(about) = serde_json::from_slice::<Value>(entry.about().as_bytes()) else { continue };
            if about["state"] != "dead" {
                let unknown = [("activity", "\"unknown\""), ("word", "\"not reached\""), ("since", "null")];
                entry.describe(
                    json::value_with(&about, &[&unknown[..], &[("asks", "null")]].concat()),
                    numbers,
                );
            }
        }
    }

    fn miss(&mut self, why: &str, numbers: &mut Numbers) {
        let name = self.name.as_str();
        let why = why.strip_prefix(name).and_then(|why| why.strip_prefix(": ")).unwrap_or(why);
        let about =
            Object::new().text("name", name).text("command", "another machine").text("state", "alive");
        let about = about.text("activity", "unknown").text("word", "not reached").text("asks", why);
        if !self.is_missing {
            self.itself.describe(String::new(), numbers);
        }
        self.itself.describe(about.value(), numbers);
        // There is room for all of it where others have their screens.
        let mut screen = Screen::new(60, 12);
        screen.feed(format!("\x1b[?25l{}", text::escaped(why.as_bytes())).as_bytes());
        self.itself.frame.take(&screen, numbers);
        self.is_missing = true;
    }

    fn take(&mut self, bytes: &[u8], keys: &mut Numbers, numbers: &mut Numbers) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if !piece.ends_with(b"\n") {
                // What is none is passed over.
                self.line.truncate(LONGEST_LINE);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let told = line.strip_prefix(BEGINNING).and_then(|told| serde_json::from_slice(told).ok());
            // What makes no sense changes nothing.
            let _ = told.and_then(|told| self.heed(told, keys, numbers));
        }
    }

    /// `None` for what makes no sense.
    fn heed(&mut self, told: Value, keys: &mut Numbers, numbers: &mut Numbers) -> Option<()> {
        if let Some(number) = told["answer"].as_u64() {
            let at = self.asked.iter().position(|asked| *asked == number)?;
            self.done.push((self.asked.remove(at), done(&told)));
            return Some(());
        }
        if let Some(all) = told["sessions"].as_array() {
            self.keep(|there| all.iter().any(|name| name == there));
        }
        if let Some(gone) = told["gone"].as_str() {
            self.keep(|there| there != gone);
        }
        let Some(handle) = told["handle"].as_str() else { return Some(()) };
        let name = format!("{}:{}", self.name, Handle::parse(handle.as_bytes())?);
        let at = self.sessions.iter().position(|session| session.entry.name == name).unwrap_or_else(|| {
            self.sessions.push(FarSession { entry: Entry::new(name, keys.next()), rows: Vec::new() });
            self.sessions.len() - 1
        });
        let FarSession { entry, rows } = &mut self.sessions[at];
        self.bytes -= entry.weight();
        if told["about"].is_object() {
            entry.describe(about(&told["about"], self.name.as_str()).unwrap_or_default(), numbers);
        }
        if told["screen"].is_object() {
            let _ = entry.frame.take_told(&told["screen"], rows, numbers);
        }
        self.bytes += entry.weight();
        Some(())
    }

    fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        let from = self.name.as_str().len() + 1;
        self.sessions.retain(|session| is_kept(&session.entry.name[from..]));
        self.bytes = self.sessions.iter().map(|session| session.entry.weight()).sum();
    }
}

/// What is told of a session beside its screen, as it is told here: its name is that of the
/// machine, too. Only the words that we have ourselves say what it does.
fn about(told: &Value, machine: &str) -> Option<String> {
    let word = |name: &str| told[name].as_str();
    let is_known = ["alive", "dead"].contains(&word("state")?)
        && (word("activity")? == "unknown" || Activity::parse(word("activity")?).is_some());
    let name = word("name").map_or("null".to_owned(), |name| json::quoted(&format!("{machine}:{name}")));
    let about = is_known.then(|| json::value_with(told, &[("name", &name)]))?;
    (about.len() <= LONGEST_ABOUT).then_some(about)
}

/// What became of something that was done there.
fn done(told: &Value) -> Done {
    let (status, body) = (told["status"].as_str().unwrap_or_default(), &told["body"]);
    match (status, body["typed"].as_bool()) {
        (DONE, _) => Ok(None),
        (OK, Some(typed)) => Ok(Some(Object::new().truth("typed", typed).line())),
        (OK, None) => frame::scrollback_told(body).map(Some).ok_or(NOT_FOUND),
        _ => Err([BAD, GONE, NOT_FOUND].into_iter().find(|one| one.status == status).unwrap_or(TOO_MANY)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        page::{frame::Frame, stream::Stream},
        rounds::{rounds, spoiled},
    };

    fn machine() -> Machine {
        Machine::new(MachineName::parse(b"box").unwrap(), 0)
    }

    fn take(machine: &mut Machine, bytes: &[u8]) {
        machine.take(bytes, &mut Numbers::default(), &mut Numbers::default());
    }

    /// What is told there of a screen with this on it.
    fn told(bytes: &[u8]) -> Vec<u8> {
        let (mut screen, mut numbers) = (Screen::new(20, 3), Numbers::default());
        screen.feed(bytes);
        let mut entry = Entry::new("1f3a9c02".into(), 1);
        let about = r#"{"name":"a","command":"b","state":"alive","activity":"waiting","receipt":null}"#;
        entry.describe(about.into(), &mut numbers);
        entry.frame.take(&screen, &mut numbers);
        let mut out = Vec::new();
        let mut stream = Stream::new(View { wall: true, large: Vec::new() }, 0);
        stream.tell(&[&entry], numbers.last(), "", &mut out);
        out
    }

    fn rows(frame: &Frame) -> String {
        frame.object(0).value()
    }

    #[test]
    fn what_is_told_there_is_told_here_with_the_machine_in_its_name() {
        let mut machine = machine();
        let told = told("a\x1b[1;31;48;2;1;2;3mb\x1b[m\r\n漢<b>".as_bytes());
        // It comes in pieces.
        told.chunks(7).for_each(|piece| take(&mut machine, piece));
        let entry = machine.entries().next().unwrap();
        assert_eq!(entry.name, "box:1f3a9c02");
        assert!(entry.about().contains("\"name\":\"box:a\""), "{}", entry.about());
        let shown = rows(&entry.frame);
        assert!(shown.contains("[\"a\",[\"b\",\"1,#010203,1\"]]"), "{shown}");
        assert!(shown.contains("[[\"漢\",\",,0\",2],\"<b>\"]"), "{shown}");
        take(&mut machine, b"data: {\"gone\":\"1f3a9c02\"}\n\n");
        assert!(machine.entries().next().is_none() && machine.bytes == 0);
    }

    #[test]
    fn what_is_no_text_and_no_style_of_ours_is_not_taken() {
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
            assert_eq!(machine.sessions[0].entry.frame.number(), 0, "{row}");
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
        let about = "{\"handle\":\"1f3a9c02\",\"about\":{\"state\":\"alive\",\"activity\":\"x\"}}";
        take(&mut machine, format!("data: {about}\n").as_bytes());
        assert_eq!((machine.sessions.len(), machine.sessions[0].entry.about()), (1, ""));
        assert!(machine.done().is_empty());
    }

    #[test]
    fn whatever_is_told_there_is_one_line_of_json_here() {
        let told = told(b"a\x1b[1;31mb\x1b[m \xe6\xbc\xa2\r\nc");
        let mut machine = machine();
        for (seed, mut random) in rounds(500) {
            take(&mut machine, &spoiled(&told, &mut random));
            take(&mut machine, b"\n");
            for entry in machine.entries() {
                let told = format!("[{}{}]", entry.about(), rows(&entry.frame)).replace("}{", "},{");
                let is_json = serde_json::from_str::<Value>(&told).is_ok();
                assert!(is_json && !told.chars().any(char::is_control), "seed {seed}: {told}");
                assert!(entry.name.starts_with("box:"), "seed {seed}");
            }
        }
    }
}
