//! Answering a program's question by the keys that it expects.
//!
//! The program's rules name those keys. Without rules, a line is typed. We press a key only as long as the
//! same question is shown, and the question is answered when it disappears.

use std::time::Duration;

use crate::{
    outcome::{Failure, Result},
    session::{
        Activity, ActivityView, ListEntry, SessionDir,
        client::{
            ReportedState, TerminalState, sending,
            waiting::{HELD, Waits},
        },
        rules::{Choice, Keys, choices_in},
        scene::Scene,
        submission::{AGAIN, GONE, submit_now, type_all},
    },
    sys::deadline::Deadline,
    terminal::{keys, screen::Span},
};

/// The beginnings of a choice that means yes, or no.
const YES: [&str; 8] = ["yes", "allow", "approve", "accept", "proceed", "run", "trust", "ok"];
const NO: [&str; 8] = ["no", "deny", "reject", "skip", "cancel", "decline", "don't", "abort"];

/// The beginnings of a choice that accepts text.
const OTHER: [&str; 3] = ["type something", "enter a custom", "other"];

/// How long a question that is reported may take to be drawn.
const DRAWN: Duration = Duration::from_secs(2);

/// An answer and its question.
pub(crate) struct Answered {
    pub(crate) question_id: String,
    pub(crate) text: Vec<u8>,
}

/// Gives an answer: the number of a choice, its text or how that begins, `yes` or `no`, or a text. It
/// has as long as the session's patience lasts; how long that was is for messages.
pub(crate) fn answer(
    session: &SessionDir,
    text: Vec<u8>,
    id: Option<&str>,
    timeout: Duration,
) -> Result<Answered> {
    let deadline = session.patience().over();
    let _alone = session.lock_submission()?;
    let mut scene = Scene::begin(session)?;
    if scene.now.doing == TerminalState::Secret {
        return Err(sending::is_secret(session));
    }
    let cannot =
        |why: String| Failure::failed(format!("cannot answer session '{}': {why}", session.handle()));
    let Some((question, question_id)) = wait_until_seen(&mut scene, deadline)? else {
        return Err(cannot("it does not ask a question".into()));
    };
    if let Some(id) = id
        && *id != *question_id
    {
        return Err(cannot(format!("it asks something else: '{question}' (question_id {question_id})")));
    }
    let mut answered = Answered { question_id, text };
    let Some((keys, seen)) = scene.question().map(|(keys, seen)| (keys, seen.clone())) else {
        if scene.has_rules() && !(scene.is_reported() && scene.takes_task()) {
            return Err(cannot("no rule finds its question on the screen; try 'nbs-ts key'".into()));
        }
        answered.text = word_of(&choices_in(&question), answered.text);
        if answered.text.len() == 1 && !scene.now.lines {
            press_one(&mut scene, &answered.text, deadline, timeout)?;
        } else {
            submit_now(&mut scene, answered.text.clone(), deadline, timeout)?;
        }
        return Ok(answered);
    };
    if keys == Keys::Line {
        answered.text = word_of(&seen.choices, answered.text);
        submit_now(&mut scene, answered.text.clone(), deadline, timeout)?;
        return Ok(answered);
    }
    let texts: Vec<String> = seen.choices.iter().map(|choice| choice.text.clone()).collect();
    let mut answering = Answering { scene, texts, keys, deadline, timeout };
    match chosen(&seen.choices, &answered.text) {
        Some(target) => {
            answered.text = answering.texts[target].clone().into_bytes();
            answering.choose(target)?;
        }
        None => {
            let begins = |choice: &String| OTHER.iter().any(|word| lowered(choice).starts_with(word));
            let Some(target) = answering.texts.iter().position(begins) else {
                let text = String::from_utf8_lossy(&answered.text).escape_debug().to_string();
                let numbered = answering.texts.iter().enumerate();
                let all: Vec<String> = numbered.map(|(at, text)| format!("{} {text}", at + 1)).collect();
                return Err(cannot(format!("'{text}' is not a choice; try {}", all.join(", "))));
            };
            answering.move_to(target)?;
            submit_now(&mut answering.scene, answered.text.clone(), deadline, timeout)?;
        }
    }
    Ok(answered)
}

/// The question that is shown; nothing if there is none. A program may report that it waits before it shows
/// the question: then we must not press a key yet.
fn wait_until_seen(scene: &mut Scene, deadline: Deadline) -> Result<Option<(String, String)>> {
    let drawn = deadline.min(Deadline::after(DRAWN));
    loop {
        let asked = asked(scene)?;
        // A program that has the keyboard is reported after a second.
        if asked.is_none()
            && let Some(Waits::Perhaps(then)) = scene.now.waits(scene.session, scene.now.input.needed())?
            && !deadline.has_passed()
        {
            scene.wait(deadline.min(then))?;
            continue;
        }
        if asked.is_none() || scene.question().is_some() || !scene.has_rules() {
            return Ok(asked);
        }
        // A reported question may be a text above the input line.
        if drawn.has_passed() && (scene.is_reported() || deadline.has_passed()) {
            return Ok(asked);
        }
        scene.wait(if drawn.has_passed() { deadline } else { drawn })?;
    }
}

/// Types one character, which may be enough for a program that reads keys. If the character then follows the
/// question, and the program waits again, the program expects Enter, too.
fn press_one(scene: &mut Scene, key: &[u8], deadline: Deadline, timeout: Duration) -> Result<()> {
    let echoed = scene.cache.screen.up_to_cursor() + &String::from_utf8_lossy(key);
    type_all(scene, key, deadline, timeout)?;
    let over = Deadline::after(AGAIN);
    while !over.has_passed() && !deadline.has_passed() {
        scene.wait(deadline.min(over))?;
    }
    let waits = matches!(scene.now.waits(scene.session, HELD)?, Some(Waits::Now));
    if waits && scene.cache.screen.up_to_cursor() == echoed {
        type_all(scene, b"\r", deadline, timeout)?;
    }
    Ok(())
}

/// The question as other calls report it, and its number.
fn asked(scene: &Scene) -> Result<Option<(String, String)>> {
    let glance = ListEntry::at(scene.session).ok_or_else(|| scene.session.removed())?;
    let told = ReportedState::Standing(Box::new(scene.now.clone()));
    let mut overview = ActivityView::brief(glance, told);
    overview.look_beside(scene.session, Some(&scene.cache.screen));
    if overview.activity != Some(Activity::Waiting) && scene.question().is_none() {
        return Ok(None);
    }
    // A session may wait without a visible question.
    let id = overview.question_id().unwrap_or_default();
    Ok(Some((overview.question.unwrap_or_default(), id)))
}

struct Answering<'a> {
    scene: Scene<'a>,
    /// The texts of the choices: by these the question is known.
    texts: Vec<String>,
    keys: Keys,
    deadline: Deadline,
    timeout: Duration,
}

impl Answering<'_> {
    fn choose(&mut self, target: usize) -> Result<()> {
        match self.keys {
            Keys::Digit if target < 9 => self.press((target + 1).to_string().into_bytes())?,
            Keys::Letter if let Some(name) = key_behind(&self.texts[target]) => self.press_key(&name)?,
            _ => {
                self.move_to(target)?;
                self.press_key("Enter")?;
            }
        }
        self.wait_until_gone(target)
    }

    /// Has the choice marked that is wanted.
    fn move_to(&mut self, target: usize) -> Result<()> {
        let (back, on) = if self.keys == Keys::Row { ("Left", "Right") } else { ("Up", "Down") };
        let mut unseen = 0;
        loop {
            let marked = self.marked();
            let at = marked.unwrap_or(unseen);
            if at == target {
                return Ok(());
            }
            self.check_asks()?;
            self.press_key(if at > target { back } else { on })?;
            unseen += 1;
            // If no mark is visible, printed output means that the mark moved.
            let (offset, moved) = (self.scene.now.offset, Deadline::after(AGAIN));
            while !moved.has_passed() && self.scene.now.offset == offset {
                self.scene.wait(self.deadline.min(moved))?;
            }
            while marked.is_some() && !moved.has_passed() && self.marked() == marked {
                self.scene.wait(self.deadline.min(moved))?;
            }
        }
    }

    /// The choice that Enter would select.
    fn marked(&self) -> Option<usize> {
        let (_, question) = self.scene.question()?;
        let marked = question.choices.iter().position(|choice| choice.is_marked);
        marked.or_else(|| self.highlighted())
    }

    /// The choice that is drawn unlike all others.
    fn highlighted(&self) -> Option<usize> {
        let (cols, _) = self.scene.cache.screen.size();
        let spans: Vec<Span> = self.scene.cache.screen.spans(0, cols).flatten().collect();
        let drawn = |text: &String| {
            let span = spans.iter().rev().find(|span| span.text.trim() == text)?;
            Some((span.foreground, span.background, span.style))
        };
        let drawn: Vec<_> = self.texts.iter().map(drawn).collect::<Option<_>>()?;
        let is_alone = |at: &usize| drawn.iter().filter(|other| **other == drawn[*at]).count() == 1;
        let mut alone = (0..drawn.len()).filter(is_alone);
        alone.next().filter(|_| drawn.len() > 2 && alone.next().is_none())
    }

    fn press_key(&mut self, name: &str) -> Result<()> {
        let key = keys::parse(name).expect("it has a name that there is");
        let application = self.scene.modes()?.application;
        self.press(key.bytes(application))
    }

    fn press(&mut self, bytes: Vec<u8>) -> Result<()> {
        type_all(&mut self.scene, &bytes, self.deadline, self.timeout)
    }

    /// Is it this question still that is asked?
    fn is_asked(&self) -> bool {
        self.scene.question().is_some_and(|(_, question)| {
            question.choices.iter().map(|choice| &choice.text).eq(self.texts.iter())
        })
    }

    fn check_asks(&self) -> Result<()> {
        if self.deadline.has_passed() || !self.is_asked() {
            let why =
                if self.is_asked() { "it did not move to the choice" } else { "it asks something else" };
            return Err(Failure::failed(format!(
                "cannot answer session '{}': {why}",
                self.scene.session.handle()
            )));
        }
        Ok(())
    }

    /// Waits until the question has been answered. Some programs only mark a choice by its number, or ignore
    /// the number: we press arrows and Enter for these, too.
    fn wait_until_gone(&mut self, target: usize) -> Result<()> {
        let mut again = Deadline::after(AGAIN);
        let mut gone: Option<Deadline> = None;
        loop {
            let is_asked = self.is_asked();
            gone = if is_asked { None } else { gone.or_else(|| Some(Deadline::after(GONE))) };
            if gone.is_some_and(Deadline::has_passed) {
                return Ok(());
            }
            if self.deadline.has_passed() {
                return Err(Failure::failed(format!(
                    "cannot answer session '{}': it still asks after the answer",
                    self.scene.session.handle()
                )));
            }
            if is_asked && again.has_passed() {
                if self.marked().is_some() && self.scene.now.unread == 0 {
                    self.move_to(target)?;
                    self.press_key("Enter")?;
                }
                again = Deadline::after(2 * AGAIN);
            }
            self.scene.wait(self.deadline.min(gone.unwrap_or(again)))?;
        }
    }
}

/// The text in lower case, letter by letter.
fn lowered(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// The choice that the text selects: by number, text, `yes` or `no`, or a prefix.
fn chosen(choices: &[Choice], text: &[u8]) -> Option<usize> {
    let text = lowered(std::str::from_utf8(text).ok()?.trim());
    if let Ok(number) = text.parse::<usize>() {
        return number.checked_sub(1).filter(|at| *at < choices.len());
    }
    let texts: Vec<String> = choices.iter().map(|choice| lowered(&choice.text)).collect();
    let first =
        |words: &[&str]| texts.iter().position(|text| words.iter().any(|word| text.starts_with(word)));
    if text.is_empty() {
        return None;
    }
    texts.iter().position(|known| *known == text).or_else(|| match &*text {
        "yes" | "y" => first(&YES).or_else(|| first(&["y"])),
        "no" | "n" => first(&NO).or_else(|| first(&["n"])),
        _ => {
            let mut begin = (0..texts.len()).filter(|at| texts[*at].starts_with(&text));
            begin.next().filter(|_| begin.next().is_none())
        }
    })
}

/// The word to be typed for it where a line is wanted.
fn word_of(choices: &[Choice], text: Vec<u8>) -> Vec<u8> {
    if let Some(at) = chosen(choices, &text) { choices[at].text.clone().into_bytes() } else { text }
}

/// The name of the key in the brackets behind a choice.
fn key_behind(choice: &str) -> Option<String> {
    let (_, name) = choice.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    let name = if name == "shift+tab" { "BTab".to_owned() } else { name.replace("ctrl+", "C-") };
    keys::parse(&name).map(|_| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(texts: &[&str]) -> Vec<Choice> {
        texts.iter().map(|text| Choice { text: (*text).to_owned(), is_marked: false }).collect()
    }

    #[test]
    fn a_choice_is_named_by_its_number_its_text_or_its_sense() {
        let claude = choices(&["Yes", "Yes, and don't ask again", "No, and tell Claude (esc)"]);
        let gemini = choices(&["Allow once", "Allow always", "Reject"]);
        let words = choices(&["y", "n"]);
        let cases = [
            (&claude, "1", Some(0)),
            (&claude, "3", Some(2)),
            (&claude, "4", None),
            (&claude, "0", None),
            (&claude, "yes", Some(0)),
            (&claude, "no", Some(2)),
            (&claude, "YES, AND", Some(1)),
            (&claude, "Ye", None),
            (&claude, "", None),
            (&claude, "maybe", None),
            (&gemini, "yes", Some(0)),
            (&gemini, "n", Some(2)),
            (&gemini, "allow a", Some(1)),
            (&words, "yes", Some(0)),
            (&words, "N", Some(1)),
            (&words, "2", Some(1)),
        ];
        for (choices, text, expected) in cases {
            assert_eq!(chosen(choices, text.as_bytes()), expected, "{text}");
        }
        assert_eq!(chosen(&claude, b"\xff"), None);
    }

    #[test]
    fn the_key_of_a_choice_stands_behind_it() {
        for (choice, expected) in [
            ("Run (once) (y)", Some("y")),
            ("Reject (esc or n)", None),
            ("No (esc)", Some("esc")),
            ("Add (shift+tab)", Some("BTab")),
            ("Edit (ctrl+e)", Some("C-e")),
            ("Yes", None),
        ] {
            assert_eq!(key_behind(choice).as_deref(), expected, "{choice}");
        }
    }
}
