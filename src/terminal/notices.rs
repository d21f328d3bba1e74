//! Notices of programs to the person at the terminal (OSC 9, 99 and 777), and the progress of a
//! task (OSC 9;4).
//!
//! Pure. The texts are untrusted: what is kept has no control characters, and is bounded.

use crate::{
    numbers::parse_base64,
    terminal::program_status::{cut, visible},
};

/// In bytes; what is longer is cut off.
const LONGEST_TITLE: usize = 192;
const LONGEST_TEXT: usize = 2048;

/// As many parts of a notice as kitty's protocol needs for so much text.
const LONGEST_NOTICE_ID: usize = 64;

/// Something that a program wants a person to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) title: Option<String>,
    /// Never empty.
    pub(crate) text: String,
}

/// How far a task has come, as ConEmu's sequence says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskProgress {
    Running(u8),
    Error(u8),
    /// Nobody knows how far.
    Busy,
    Paused(u8),
}

impl TaskProgress {
    pub(crate) fn word(self) -> &'static str {
        match self {
            TaskProgress::Running(_) => "running",
            TaskProgress::Error(_) => "error",
            TaskProgress::Busy => "busy",
            TaskProgress::Paused(_) => "paused",
        }
    }

    /// In per cent.
    pub(crate) fn percent(self) -> Option<u8> {
        match self {
            TaskProgress::Running(percent) | TaskProgress::Error(percent) | TaskProgress::Paused(percent) => {
                Some(percent)
            }
            TaskProgress::Busy => None,
        }
    }

    /// The inverse of the methods above.
    pub(crate) fn of(word: &str, percent: Option<u8>) -> Option<TaskProgress> {
        let percent = percent.filter(|percent| *percent <= 100);
        match word {
            "running" => percent.map(TaskProgress::Running),
            "error" => percent.map(TaskProgress::Error),
            "paused" => percent.map(TaskProgress::Paused),
            "busy" => Some(TaskProgress::Busy),
            _ => None,
        }
    }
}

/// The meaning of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Notice(Notice),
    /// `None`: the task is over.
    Progress(Option<TaskProgress>),
}

/// Puts the parts of notices together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notices {
    // The part of an incomplete notice of OSC 99 that has come, and its id.
    begun: Option<(Vec<u8>, Notice)>,
}

impl Notices {
    /// Takes the text of an OSC, from its number on.
    pub(crate) fn take(&mut self, text: &[u8]) -> Option<Told> {
        if let Some(rest) = text.strip_prefix(b"9;") {
            return conemu(rest).unwrap_or_else(|| whole(None, rest).map(Told::Notice));
        }
        if let Some(rest) = text.strip_prefix(b"777;notify;") {
            let (title, body) = halves(rest);
            return whole(Some(title), body).map(Told::Notice);
        }
        self.take_part(text.strip_prefix(b"99;")?).map(Told::Notice)
    }

    /// `KEYS;TEXT` of kitty's protocol.
    fn take_part(&mut self, rest: &[u8]) -> Option<Notice> {
        let (keys, text) = halves(rest);
        let value = |key: &[u8]| {
            let mut values = keys.split(|byte| *byte == b':').filter_map(|pair| pair.strip_prefix(key));
            values.next_back().unwrap_or_default()
        };
        let (id, part) = (value(b"i="), value(b"p="));
        if id.len() > LONGEST_NOTICE_ID || !matches!(part, b"" | b"title" | b"body") {
            return None;
        }
        let decoded = if value(b"e=") == b"1" { parse_base64(text)? } else { text.to_vec() };
        let begun = self.begun.take().filter(|(other, _)| other == id);
        let (id, mut notice) = begun.unwrap_or_else(|| (id.to_vec(), Notice::default()));
        match part {
            b"body" => push(&mut notice.text, &decoded, LONGEST_TEXT),
            _ => push(notice.title.get_or_insert_default(), &decoded, LONGEST_TITLE),
        }
        if value(b"d=") == b"0" {
            self.begun = Some((id, notice));
            return None;
        }
        let title = notice.title.take().filter(|title| !title.is_empty());
        match (title, notice.text.is_empty()) {
            (title, false) => Some(Notice { title, text: notice.text }),
            (Some(text), true) => Some(Notice { title: None, text }),
            (None, true) => None,
        }
    }
}

/// The answer, without its end, to kitty's question which notices the terminal shows. A sequence
/// with a text is not a question, so an answer is none.
pub(crate) fn answer(text: &[u8]) -> Option<String> {
    let (keys, text) = halves(text.strip_prefix(b"99;")?);
    let mut keys = keys.split(|byte| *byte == b':');
    if !text.is_empty() || !keys.clone().any(|key| key == b"p=?") {
        return None;
    }
    let id = keys.find_map(|key| key.strip_prefix(b"i=")).unwrap_or_default();
    let is_safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.+-".contains(byte);
    let id = std::str::from_utf8(id).ok().filter(|id| id.bytes().all(|byte| is_safe(&byte)))?;
    let id = if id.is_empty() { String::new() } else { format!("i={id}:") };
    Some(format!("\x1b]99;{id}p=?;p=title,body"))
}

/// The meaning of ConEmu's numbers, of which we read only the progress. The outer `None`: it is
/// not one of them.
fn conemu(text: &[u8]) -> Option<Option<Told>> {
    let (number, rest) = halves(text);
    let number: u8 =
        std::str::from_utf8(number).ok()?.parse().ok().filter(|number| (1..=12).contains(number))?;
    if number != 4 {
        return Some(None);
    }
    let (state, percent) = halves(rest);
    let percent = std::str::from_utf8(percent).ok().and_then(|digits| digits.parse::<u32>().ok());
    let percent = percent.unwrap_or(0).min(100) as u8;
    Some(match state {
        b"0" => Some(Told::Progress(None)),
        b"1" => Some(Told::Progress(Some(TaskProgress::Running(percent)))),
        b"2" => Some(Told::Progress(Some(TaskProgress::Error(percent)))),
        b"3" => Some(Told::Progress(Some(TaskProgress::Busy))),
        b"4" => Some(Told::Progress(Some(TaskProgress::Paused(percent)))),
        _ => None,
    })
}

fn whole(title: Option<&[u8]>, text: &[u8]) -> Option<Notice> {
    let (mut shown_title, mut shown) = (String::new(), String::new());
    push(&mut shown_title, title.unwrap_or_default(), LONGEST_TITLE);
    push(&mut shown, text, LONGEST_TEXT);
    if shown.is_empty() {
        (shown_title, shown) = (String::new(), shown_title);
    }
    let title = Some(shown_title).filter(|title| !title.is_empty());
    (!shown.is_empty()).then_some(Notice { title, text: shown })
}

/// The parts before and after the first semicolon.
fn halves(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b';');
    end.map_or((text, &[]), |end| (&text[..end], &text[end + 1..]))
}

/// Appends what can be shown of a text, up to that length.
fn push(shown: &mut String, text: &[u8], longest: usize) {
    let text = String::from_utf8_lossy(text);
    let text = visible(&text);
    shown.extend(text.chars().map(|character| if character.is_control() { ' ' } else { character }));
    cut(shown, longest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        numbers::base64,
        rounds::{rounds, spoiled},
    };

    fn notice(title: Option<&str>, text: &str) -> Option<Told> {
        Some(Told::Notice(Notice { title: title.map(str::to_owned), text: text.to_owned() }))
    }

    fn last(texts: &[&str]) -> Option<Told> {
        let mut notices = Notices::default();
        texts.iter().fold(None, |_, text| notices.take(text.as_bytes()))
    }

    #[test]
    fn each_protocol_has_its_notices() {
        let encoded = format!("99;e=1:p=body;{}", base64("hé".as_bytes()));
        for (texts, expected) in [
            (&["9;Approval requested: touch x; rm y"][..], notice(None, "Approval requested: touch x; rm y")),
            (&["9;a\u{202e}b\tc"], notice(None, "ab c")),
            (&["9;"], None),
            (&["777;notify;Title;a;b"], notice(Some("Title"), "a;b")),
            (&["777;notify;only"], notice(None, "only")),
            (&["777;precmd"], None),
            (&["99;;hello"], notice(None, "hello")),
            (&["99;i=1:d=0;Ti", "99;i=1:d=0;tle", "99;i=1:p=body;text"], notice(Some("Title"), "text")),
            // Another one begins before the first is whole.
            (&["99;i=1:d=0;lost", "99;i=2:p=body;text"], notice(None, "text")),
            (&[&encoded], notice(None, "hé")),
            (&["99;e=1;_"], None),
            (&["99;i=x:p=?;"], None),
            (&["99;p=close:i=1;"], None),
            (&["98;x"], None),
            (&["9;9;/home"], None),
            (&["9;13;a"], notice(None, "13;a")),
        ] {
            assert_eq!(last(texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn progress_has_a_state_and_a_number() {
        for (text, expected) in [
            ("9;4;0;", Some(Told::Progress(None))),
            ("9;4;1;50", Some(Told::Progress(Some(TaskProgress::Running(50))))),
            ("9;4;1;500", Some(Told::Progress(Some(TaskProgress::Running(100))))),
            ("9;4;2", Some(Told::Progress(Some(TaskProgress::Error(0))))),
            ("9;4;3;", Some(Told::Progress(Some(TaskProgress::Busy)))),
            ("9;4;4;7", Some(Told::Progress(Some(TaskProgress::Paused(7))))),
            ("9;4;5;1", None),
            ("9;4", None),
        ] {
            assert_eq!(last(&[text]), expected, "{text:?}");
            if let Some(Told::Progress(Some(progress))) = expected {
                assert_eq!(TaskProgress::of(progress.word(), progress.percent()), Some(progress));
            }
        }
    }

    #[test]
    fn the_question_which_notices_are_shown_has_an_answer_that_is_no_question() {
        let asked = |text: &str| answer(text.as_bytes());
        assert_eq!(asked("99;i=a-1:p=?;").unwrap(), "\x1b]99;i=a-1:p=?;p=title,body");
        assert_eq!(asked("99;p=?").unwrap(), "\x1b]99;p=?;p=title,body");
        for other in ["99;i=a:p=?;p=title,body", "99;i=\u{1b}:p=?;", "99;;text", "9;p=?"] {
            assert_eq!(asked(other), None, "{other:?}");
        }
    }

    #[test]
    fn whatever_is_told_is_short_and_can_be_shown() {
        let parts = [&b"99;i=1:d=0:p=body;x\xc3\xa9"[..], b"99;i=1;\x07y", b"9;\xffz", b"777;notify;a;b"];
        for (seed, mut random) in rounds(2_000) {
            let mut notices = Notices::default();
            for part in parts {
                let mut part = spoiled(part, &mut random);
                part.extend(std::iter::repeat_n(b'x', random.usize(..3_000)));
                if let Some(Told::Notice(notice)) = notices.take(&part) {
                    let title = notice.title.unwrap_or_default();
                    assert!(title.len() <= LONGEST_TITLE && notice.text.len() <= LONGEST_TEXT, "seed {seed}");
                    assert!(!notice.text.is_empty(), "seed {seed}");
                    assert!(!(title + &notice.text).chars().any(char::is_control), "seed {seed}");
                }
            }
        }
    }
}
