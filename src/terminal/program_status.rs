//! The program status protocol (OSC 7501, revision 0.4): what programs say of themselves.
//!
//! `ESC ] 7501 ; key=value:key=value ST` replaces a record, which its id names: the empty one
//! is the root, `a/b` is below `a`. `ESC ] 7501 ; ? ST` asks whether the terminal reads it.
//! A sequence that exceeds a limit of the protocol is dropped whole, since a part of it may mean
//! something else.
//!
//! Pure. The texts are untrusted: no control characters are in them, and characters that
//! cannot be seen or turn the direction of writing are taken out.

use crate::{
    numbers::{base64, parse_base64},
    worded::worded,
};

/// As much as is kept; beyond it the record that was replaced least recently goes.
const MOST_RECORDS: usize = 256;

/// The longest sequence, from its introducer to its end, in bytes.
pub(crate) const LONGEST: usize = 4096;

/// In bytes.
const LONGEST_KEY: usize = 16;
const LONGEST_ID: usize = 128;
const MOST_SEGMENTS: usize = 8;
const LONGEST_WORD: usize = 32;

/// The limits of a title and of a message: in base64, and decoded.
const TITLE: (usize, usize) = (256, 192);
const MESSAGE: (usize, usize) = (2732, 2048);

/// How the question whether this is read is answered, without the end.
pub(crate) const ANSWER: &str =
    "\x1b]7501;?:states=idle,working,done,blocked,error:kinds=permission,question,auth";

worded! {
    /// The most urgent first.
    #[derive(PartialOrd, Ord)]
    pub(crate) enum ProgramState {
        /// It waits for the user.
        Blocked = "blocked",
        Error = "error",
        Done = "done",
        Working = "working",
        Idle = "idle",
    }
}

impl ProgramState {
    /// Its work has ended.
    fn is_over(self) -> bool {
        matches!(self, ProgramState::Done | ProgramState::Error)
    }
}

worded! {
    /// The reason why a program is blocked.
    pub(crate) enum BlockKind {
        Permission = "permission",
        Question = "question",
        Auth = "auth",
    }
}

/// The status that a program, or a part of it, reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramStatus {
    /// Empty: the root.
    pub(crate) id: String,
    pub(crate) state: ProgramState,
    /// Only of one that is blocked.
    pub(crate) kind: Option<BlockKind>,
    /// Per cent; only of one that works or is blocked.
    pub(crate) progress: Option<u8>,
    pub(crate) app: Option<String>,
    /// One line each, never empty.
    pub(crate) title: Option<String>,
    pub(crate) message: Option<String>,
}

/// The meaning of a sequence.
#[derive(Debug, PartialEq, Eq)]
enum Order {
    Replace(ProgramStatus),
    /// The record and all below it.
    Remove {
        id: String,
    },
}

/// The records of a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatusRecords {
    // The one that was replaced last comes last. Invariant: no more than `MOST_RECORDS`, each
    // with an id of its own.
    records: Vec<ProgramStatus>,
    // How many times a record said that it was done, or had failed.
    turns_ended: u64,
}

impl StatusRecords {
    /// Takes what stands between `7501;` and the end of a sequence. Gives whether that changes
    /// anything. A turn that ends as the one before it did is news, too.
    pub(crate) fn take(&mut self, text: &[u8]) -> bool {
        let Some(order) = parse(text) else { return false };
        match order {
            Order::Replace(record) => {
                let before = self.records.iter().position(|other| other.id == record.id);
                let before = before.map(|at| self.records.remove(at));
                let changed = before.is_none_or(|before| before != record) || record.state.is_over();
                self.turns_ended += u64::from(record.state.is_over());
                self.records.push(record);
                if self.records.len() > MOST_RECORDS {
                    self.records.remove(0);
                }
                changed
            }
            Order::Remove { id } => self.keep(|record| !is_within(&record.id, &id)),
        }
    }

    /// A shell has begun a prompt, or the program has ended: what it was doing it does no longer.
    pub(crate) fn note_over(&mut self) -> bool {
        self.keep(|record| record.state.is_over())
    }

    pub(crate) fn turns_ended(&self) -> u64 {
        self.turns_ended
    }

    /// The terminal has been reset (RIS).
    pub(crate) fn clear(&mut self) -> bool {
        self.keep(|_| false)
    }

    fn keep(&mut self, kept: impl Fn(&ProgramStatus) -> bool) -> bool {
        let before = self.records.len();
        self.records.retain(|record| kept(record));
        if self.records.is_empty() {
            self.records = Vec::new();
        }
        self.records.len() < before
    }

    /// All of them, each with the app that it belongs to: the most urgent first, and of those
    /// that are as urgent the one that was replaced last.
    pub(crate) fn by_urgency(&self) -> Vec<ProgramStatus> {
        let shown = |record: &ProgramStatus| ProgramStatus { app: self.app(record), ..record.clone() };
        let mut records: Vec<ProgramStatus> = self.records.iter().rev().map(shown).collect();
        records.sort_by_key(|record| record.state);
        records
    }

    /// That of the nearest record above it that names one, where it names none.
    fn app(&self, record: &ProgramStatus) -> Option<String> {
        let mut id = record.id.as_str();
        let mut named = Some(record);
        loop {
            if let Some(app) = named.and_then(|record| record.app.as_ref()) {
                return Some(app.clone());
            }
            if id.is_empty() {
                return None;
            }
            id = id.rfind('/').map_or("", |end| &id[..end]);
            named = self.records.iter().find(|record| record.id == id);
        }
    }
}

/// Is it that record, or below it? All are below the root.
fn is_within(id: &str, above: &str) -> bool {
    let rest = id.strip_prefix(above);
    above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Is this the question whether the terminal reads them?
pub(crate) fn is_query(text: &[u8]) -> bool {
    text.trim_ascii() == b"?"
}

/// `None` for what changes nothing.
fn parse(text: &[u8]) -> Option<Order> {
    // Nothing beyond ASCII stands in any of it.
    let text = std::str::from_utf8(text).ok()?;
    let (mut state, mut id, mut kind, mut progress) = (None, String::new(), None, None);
    let (mut app, mut title, mut message) = (None, None, None);
    for pair in text.split(':') {
        let Some((key, value)) = pair.split_once('=') else { continue };
        let (key, value) = (key.trim_matches(' '), value.trim_matches(' '));
        let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase());
        if !is_key || key.len() > LONGEST_KEY {
            continue;
        }
        // An invalid id never means the root.
        if key == "id" {
            id = Some(value).filter(|value| is_id(value))?.to_owned();
            continue;
        }
        if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.,+/=-".contains(&byte)) {
            continue;
        }
        match key {
            "state" => state = Some(value),
            "kind" => kind = BlockKind::parse(value),
            "progress" => progress = value.parse().ok().filter(|percent| *percent <= 100_u8),
            "app" if value.len() > LONGEST_WORD => return None,
            "app" => app = is_word(value).then(|| value.to_owned()),
            "title" => title = decoded(value, TITLE)?,
            "msg" => message = decoded(value, MESSAGE)?,
            _ => {}
        }
    }
    if state? == "clear" {
        return Some(Order::Remove { id });
    }
    let state = ProgramState::parse(state?)?;
    Some(Order::Replace(ProgramStatus {
        id,
        state,
        kind: kind.filter(|_| state == ProgramState::Blocked),
        progress: progress.filter(|_| matches!(state, ProgramState::Working | ProgramState::Blocked)),
        app,
        title,
        message,
    }))
}

fn is_id(id: &str) -> bool {
    id.len() <= LONGEST_ID
        && id.split('/').count() <= MOST_SEGMENTS
        && id.split('/').all(|segment| segment.len() <= LONGEST_WORD && is_word(segment))
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte))
}

/// One line of text, without what cannot be seen. The outer `None`: what breaks the protocol.
fn decoded(value: &str, (longest, longest_decoded): (usize, usize)) -> Option<Option<String>> {
    if value.len() > longest {
        return None;
    }
    let text = String::from_utf8(parse_base64(value.as_bytes())?).ok()?;
    if text.len() > longest_decoded || text.chars().any(char::is_control) {
        return None;
    }
    Some(Some(visible(&text)).filter(|text| !text.is_empty()))
}

/// Keeps so many bytes of a text at most, in whole characters.
pub(super) fn cut(text: &mut String, longest: usize) {
    let end = (0..=longest.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
}

/// A text without the characters that cannot be seen or turn the direction of writing.
pub(super) fn visible(text: &str) -> String {
    let is_hidden = |character: char| {
        matches!(character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    text.chars().filter(|character| !is_hidden(*character)).collect()
}

/// The sequence that reports this state of the root; `None` removes all records. A text is put on
/// one line, and cut to the length that the protocol accepts.
pub(crate) fn sequence(state: Option<ProgramState>, text: &[u8]) -> String {
    let mut line: String = String::from_utf8_lossy(text)
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    cut(&mut line, MESSAGE.1);
    let message = if line.is_empty() { String::new() } else { format!(":msg={}", base64(line.as_bytes())) };
    match state {
        Some(state) => format!("\x1b]7501;state={}{message}\x1b\\", state.word()),
        None => "\x1b]7501;state=clear\x1b\\".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{rounds, spoiled};

    fn after(reports: &[&str]) -> StatusRecords {
        let mut records = StatusRecords::default();
        for report in reports {
            records.take(report.as_bytes());
        }
        records
    }

    /// Each record in one word: its id, state, kind, progress, app, title and message.
    fn shown(records: &StatusRecords) -> Vec<String> {
        let text = |text: &Option<String>| text.as_ref().map_or(String::new(), |text| format!(" {text:?}"));
        let record = |record: ProgramStatus| {
            let kind = record.kind.map_or(String::new(), |kind| format!(" {}", kind.word()));
            let progress = record.progress.map_or(String::new(), |percent| format!(" {percent}%"));
            let app = record.app.map_or(String::new(), |app| format!(" {app}"));
            let texts = text(&record.title) + &text(&record.message);
            format!("{}={}{kind}{progress}{app}{texts}", record.id, record.state.word())
        };
        records.by_urgency().into_iter().map(record).collect()
    }

    #[test]
    fn a_report_replaces_its_record_whole() {
        let hi = base64("hi you".as_bytes());
        for (reports, expected) in [
            (&["state=working"][..], &["=working"][..]),
            (&[" state = working : app = codex "], &["=working codex"]),
            (
                &[&format!("state=blocked:kind=permission:msg={hi}:app=claude-code")],
                &["=blocked permission claude-code \"hi you\""],
            ),
            (&[&format!("state=done:title={hi}:progress=50:kind=auth")], &["=done \"hi you\""]),
            (&[&format!("state=working:msg={hi}:progress=50"), "state=working"], &["=working"]),
            (&["state=working:progress=100", "state=idle:id=a"], &["=working 100%", "a=idle"]),
            (&["state=blocked:kind=auth:progress=0"], &["=blocked auth 0%"]),
            // The most urgent first, and of those the last.
            (
                &[
                    "state=idle:id=a",
                    "state=working:id=b",
                    "state=done:id=c",
                    "state=error:id=d",
                    "state=blocked:id=e",
                    "state=blocked:id=f",
                ],
                &["f=blocked", "e=blocked", "d=error", "c=done", "b=working", "a=idle"],
            ),
            // A record without an app has that of the nearest one above it.
            (
                &["state=idle:app=x", "state=idle:id=a:app=y", "state=idle:id=a/b/c", "state=idle:id=ab"],
                &["ab=idle x", "a/b/c=idle y", "a=idle y", "=idle x"],
            ),
            // Clear removes what is below, too.
            (
                &[
                    "state=idle",
                    "state=idle:id=a",
                    "state=idle:id=a/b",
                    "state=idle:id=ab",
                    "state=clear:id=a",
                ],
                &["ab=idle", "=idle"],
            ),
            (&["state=idle", "state=idle:id=a/b", "state=clear"], &[]),
            // Malformed and unknown fields are skipped, and of two, the last one holds.
            (&["nonsense:=x:state=done:UP=1:what=ever:k"], &["=done"]),
            (&["state=done:state=idle:kind=none:progress=101:progress=x"], &["=idle"]),
            (&["state=blocked:kind=later:app=:msg="], &["=blocked"]),
            (&["state=idle:id=a:id=b"], &["b=idle"]),
            // Characters that mislead are taken out.
            (
                &[&format!("state=done:msg={}", base64("a\u{202e}b\u{200b}c\u{feff}".as_bytes()))],
                &["=done \"abc\""],
            ),
        ] {
            assert_eq!(shown(&after(reports)), expected, "{reports:?}");
        }
    }

    #[test]
    fn a_report_beyond_a_limit_changes_nothing() {
        let long = |count: usize| "x".repeat(count);
        let text = |count: usize| base64(long(count).as_bytes());
        let longest_id = [&*long(32); 4].join("/");
        let longest_id = &longest_id[..LONGEST_ID];
        for good in [
            format!("state=idle:id={longest_id}"),
            "state=idle:id=a/b/c/d/e/f/g/h".to_owned(),
            format!("state=idle:app={}", long(32)),
            format!("state=idle:title={}", text(192)),
            format!("state=idle:msg={}", text(2048)),
            format!("state=idle:msg={}", text(2047).trim_end_matches('=')),
        ] {
            assert_eq!(after(&[&good]).records.len(), 1, "{good}");
        }
        for bad in [
            "".to_owned(),
            "?".to_owned(),
            "?:states=idle,working:kinds=auth".to_owned(),
            "id=a:msg=aGk=".to_owned(),
            "state=asleep".to_owned(),
            "state=".to_owned(),
            format!("state=idle:id={longest_id}x"),
            format!("state=idle:id={}", long(33)),
            "state=idle:id=a/b/c/d/e/f/g/h/i".to_owned(),
            "state=idle:id=".to_owned(),
            "state=idle:id=a//b".to_owned(),
            "state=idle:id=/a".to_owned(),
            "state=idle:id=a b".to_owned(),
            "state=idle:id=é".to_owned(),
            "state=idle:id=a$:id=b".to_owned(),
            "state=clear:id=a/".to_owned(),
            format!("state=idle:app={}", long(33)),
            format!("state=idle:app={}:app=x", long(33)),
            format!("state=idle:title={}", text(193)),
            format!("state=idle:msg={}", text(2049)),
            "state=idle:msg=aGk=:msg=a".to_owned(),
            "state=idle:msg=a:msg=aGk=".to_owned(),
            "state=idle:msg=aGk==".to_owned(),
            "state=idle:msg=a=Gk".to_owned(),
            "state=idle:msg=____".to_owned(),
            format!("state=idle:msg={}", base64(b"\xff")),
            format!("state=idle:msg={}", base64(b"a\nb")),
            format!("state=idle:title={}", base64(b"\x7f")),
            format!("state=idle:title={}", base64("\u{9b}".as_bytes())),
        ] {
            let mut records = after(&["state=working:id=kept"]);
            assert!(!records.take(bad.as_bytes()), "{bad}");
            assert_eq!(records, after(&["state=working:id=kept"]), "{bad}");
        }
    }

    #[test]
    fn the_record_that_was_replaced_least_recently_goes() {
        let mut records = StatusRecords::default();
        for number in 0..MOST_RECORDS {
            assert!(records.take(format!("state=idle:id={number}").as_bytes()));
        }
        assert!(!records.take(b"state=idle:id=0"), "it says nothing new");
        assert!(records.take(b"state=idle:id=new"));
        let ids: Vec<&str> = records.records.iter().map(|record| record.id.as_str()).collect();
        assert_eq!((ids.len(), ids[0], &ids[MOST_RECORDS - 2..]), (MOST_RECORDS, "2", &["0", "new"][..]));
    }

    #[test]
    fn records_last_as_long_as_the_protocol_says() {
        let all = [
            "state=idle:id=a",
            "state=working:id=b",
            "state=done:id=c",
            "state=error:id=d",
            "state=blocked:id=e",
        ];
        let mut records = after(&all);
        assert!(records.note_over());
        assert_eq!(shown(&records), ["d=error", "c=done"]);
        assert!(!records.note_over());
        assert!(records.clear());
        assert_eq!((records.records.capacity(), records.turns_ended()), (0, 2));
        assert!(!records.clear());
    }

    #[test]
    fn a_question_is_nothing_but_a_question_mark() {
        for (text, asks) in
            [("?", true), (" ? ", true), ("", false), ("?:states=idle", false), ("?=x", false)]
        {
            assert_eq!(is_query(text.as_bytes()), asks, "{text:?}");
        }
    }

    #[test]
    fn written_status_is_read_back() {
        let all = format!("{}\n\u{9b}é", "x".repeat(5_000));
        for &state in ProgramState::ALL {
            for text in ["", "may I?", &all] {
                let sequence = sequence(Some(state), text.as_bytes());
                assert!(sequence.len() <= LONGEST);
                let mut records = StatusRecords::default();
                let inner = sequence.strip_prefix("\x1b]7501;").unwrap().strip_suffix("\x1b\\").unwrap();
                assert!(records.take(inner.as_bytes()));
                let record = &records.by_urgency()[0];
                assert_eq!((record.state, record.message.is_some()), (state, !text.is_empty()));
            }
        }
        assert_eq!(sequence(None, b"x"), "\x1b]7501;state=clear\x1b\\");
    }

    #[test]
    fn whatever_is_said_the_limits_hold() {
        let right = format!(
            "state=blocked:kind=permission:id=a/b:progress=7:app=x:title={0}:msg={0}",
            base64("hé \u{200d}\n".as_bytes())
        );
        for (seed, mut random) in rounds(2_000) {
            let mut records = StatusRecords::default();
            for _ in 0..3 {
                let said = spoiled(
                    right.replace(&base64("hé \u{200d}\n".as_bytes()), "aGk=").as_bytes(),
                    &mut random,
                );
                records.take(&said);
            }
            for record in records.by_urgency() {
                assert!(record.id.is_empty() || is_id(&record.id), "seed {seed}");
                assert!(record.progress.is_none_or(|percent| percent <= 100), "seed {seed}");
                assert!(record.app.is_none_or(|app| app.len() <= LONGEST_WORD), "seed {seed}");
                for text in [record.title, record.message].into_iter().flatten() {
                    assert!(!text.is_empty() && !text.chars().any(char::is_control), "seed {seed}");
                }
            }
        }
    }
}
