//! Submitting a text: we type it as one paste, and press Enter once the program shows it, again and again
//! until the program accepts it.
//!
//! Programs that read keys one by one (coding agents, above all) treat an Enter right behind a text as a part
//! of it, ignore it while they start, or show a paste as `[Pasted text]`. We wait for changes that we can
//! see; the times below are for the others.

use std::time::Duration;

use crate::{
    numbers,
    outcome::{Failure, Reason, Result},
    session::{
        Activity, SessionDir,
        client::{
            Diagnosis, TerminalState, sending,
            waiting::{HELD, Waits},
        },
        rules::{Shows, bare},
        scene::Scene,
    },
    sys::deadline::Deadline,
    terminal::text,
};

/// How long after a text was drawn its Enter counts as another key: gemini-cli needs 100 ms.
const APART: Duration = Duration::from_millis(150);

/// How long the output must pause before a typed text counts as drawn, and how long that may take. A known
/// program shows it, but on a busy machine it may take its time.
const DRAWN: Duration = Duration::from_millis(300);
const LONGEST_DRAWN: Duration = Duration::from_secs(5);

/// How long the text must be gone from its place: a program that redraws its screen may just have cleared it.
pub(super) const GONE: Duration = Duration::from_millis(80);

/// The same for a known program that does not show that it works: it may be redrawing its screen, or keep the
/// task until it has started.
const UNCONFIRMED: Duration = Duration::from_secs(3);

/// The pause before Enter is pressed again; it doubles each time, up to the second constant.
pub(super) const AGAIN: Duration = Duration::from_millis(400);
const LATEST_AGAIN: Duration = Duration::from_secs(1);

/// How long a program without rules must have had the keyboard before it counts as ready for input.
const SETTLED: Duration = Duration::from_secs(3);

/// The number of characters by which a text is recognised on the screen.
const TAIL: usize = 24;

/// The placeholder of a paste that is not shown.
const PLACEHOLDER: &str = "[Pasted";

/// The place of the typed text.
#[derive(Clone, Copy)]
enum Place {
    /// Before the cursor.
    Cursor,
    /// At or below the row where the last input line begins.
    Input,
    /// On this row.
    Row(usize),
    /// Nowhere.
    Unseen,
}

/// Types a text and Enter, and returns the number of bytes, once the program has accepted it. The limit is
/// the session's patience; `timeout` is for messages.
pub(crate) fn submit(session: &SessionDir, text: Vec<u8>, timeout: Duration) -> Result<u64> {
    let deadline = session.patience().over();
    let _alone = session.lock_submission()?;
    let mut scene = Scene::begin(session)?;
    wait_until_ready(&mut scene, deadline, timeout)?;
    submit_now(&mut scene, text, deadline, timeout)
}

/// The same for a program that accepts input now.
pub(super) fn submit_now(
    scene: &mut Scene,
    text: Vec<u8>,
    deadline: Deadline,
    timeout: Duration,
) -> Result<u64> {
    let modes = scene.modes()?;
    if modes.secret {
        return Err(sending::is_secret(scene.session));
    }
    let tail = tail(&text);
    let (before, length) = (times_shown(&scene.rows, &tail), text.len() as u64 + 1);
    if scene.now.lines {
        // The terminal shows it, and the program reads whole lines.
        type_all(scene, &[&text[..], b"\r"].concat(), deadline, timeout)?;
        while scene.now.unread > 0 {
            if deadline.has_passed() {
                return Err(not_taken(scene, Place::Cursor, timeout));
            }
            scene.wait(deadline)?;
        }
        return Ok(length);
    }
    if !text.is_empty() {
        let keys = if modes.bracketed_paste { sending::bracketed(text) } else { text };
        type_all(scene, &keys, deadline, timeout)?;
        wait_until_drawn(scene, &tail, before, deadline)?;
    }
    let place = if tail.is_empty() { Place::Unseen } else { place(scene, &tail) };
    press_enter(scene, place, &tail, deadline, timeout)?;
    Ok(length)
}

pub(super) fn type_all(scene: &mut Scene, bytes: &[u8], deadline: Deadline, timeout: Duration) -> Result<()> {
    let typed = scene.type_in(bytes, deadline)?;
    if typed.count < bytes.len() as u64 {
        let failure = sending::incomplete(scene.session, typed, bytes.len(), timeout);
        // Exit code 3 would say that nothing was typed, and that the call can be repeated.
        return Err(if typed.count > 0 { failure.because(Reason::Failed) } else { failure });
    }
    scene.look()
}

fn wait_until_ready(scene: &mut Scene, deadline: Deadline, timeout: Duration) -> Result<()> {
    let settled = Deadline::after(SETTLED);
    loop {
        let handle = scene.session.handle();
        if let Some((_, question)) = scene.question() {
            let asks = &question.text;
            return Err(Failure::failed(format!(
                "cannot submit the text to session '{handle}': it asks '{asks}'; try 'nbs-ts answer {handle}'"
            )));
        }
        if scene.now.doing == TerminalState::Secret {
            return Err(sending::is_secret(scene.session));
        }
        let is_ready = match scene.has_rules() {
            true => !scene.now.lines && (scene.takes_task() || scene.states(Activity::Idle)),
            false => is_ready_unknown(scene, settled)?,
        };
        if is_ready && scene.now.unread == 0 {
            return Ok(());
        }
        if deadline.has_passed() {
            let works = if scene.shows() == Some(Shows::Works) {
                "it still worked"
            } else {
                "it still took no input"
            };
            let diagnosis = Diagnosis::gather(scene.session, timeout);
            return Err(diagnosis.timed_out(format!(
                "cannot submit the text to session '{handle}': nothing was typed, because {works} {diagnosis}"
            )));
        }
        scene.wait(deadline)?;
    }
}

/// The same for a program without rules.
fn is_ready_unknown(scene: &mut Scene, settled: Deadline) -> Result<bool> {
    if scene.now.doing == TerminalState::Prompt {
        return Ok(true);
    }
    if scene.states(Activity::Working) {
        return Ok(false);
    }
    if matches!(scene.now.waits(scene.session, HELD)?, Some(Waits::Now)) {
        return Ok(true);
    }
    // A program that draws all the time never seems to wait.
    Ok(!scene.now.lines && (scene.modes()?.bracketed_paste || settled.has_passed()))
}

/// Waits until the program has read the typed text, and shows it, if it does, and Enter would count as a key
/// of its own.
fn wait_until_drawn(scene: &mut Scene, tail: &str, before: usize, deadline: Deadline) -> Result<()> {
    let (mut apart, longest) = (None, Deadline::after(LONGEST_DRAWN));
    let pause = if scene.has_rules() && !tail.is_empty() { LONGEST_DRAWN } else { DRAWN };
    let mut offset = scene.now.offset;
    let mut still = Deadline::after(pause);
    while scene.now.unread > 0 && !deadline.has_passed() {
        scene.wait(deadline)?;
    }
    loop {
        if scene.now.offset != offset {
            (offset, still) = (scene.now.offset, Deadline::after(pause));
        }
        let is_drawn = times_shown(&scene.rows, tail) > before || still.has_passed() || longest.has_passed();
        if is_drawn && apart.is_none() {
            apart = Some(Deadline::after(APART));
        }
        if deadline.has_passed() || apart.is_some_and(Deadline::has_passed) {
            return Ok(());
        }
        scene.wait(deadline.min(apart.unwrap_or(still.min(longest))))?;
    }
}

fn press_enter(
    scene: &mut Scene,
    place: Place,
    tail: &str,
    deadline: Deadline,
    timeout: Duration,
) -> Result<()> {
    let mut pause = AGAIN;
    let asks = scene.question().is_some() || scene.states(Activity::Waiting);
    loop {
        // The text has been typed: as above.
        type_all(scene, b"\r", deadline, timeout).map_err(|failure| failure.because(Reason::Failed))?;
        let again = Deadline::after(pause);
        pause = (pause * 2).min(LATEST_AGAIN);
        let mut gone: Option<Deadline> = None;
        loop {
            let is_read = scene.now.unread == 0;
            let goes_on = matches!(scene.shows(), Some(Shows::Works))
                || scene.states(Activity::Working)
                || !asks && (scene.question().is_some() || scene.states(Activity::Waiting));
            let stands = stands(scene, place, tail);
            if is_read && (goes_on || matches!(place, Place::Unseen)) {
                return Ok(());
            }
            let lasting = if scene.has_rules() { UNCONFIRMED } else { GONE };
            gone = if stands { None } else { gone.or_else(|| Some(Deadline::after(lasting))) };
            if is_read && gone.is_some_and(Deadline::has_passed) {
                return Ok(());
            }
            if deadline.has_passed() {
                return Err(not_taken(scene, place, timeout));
            }
            if is_read && stands && again.has_passed() {
                break;
            }
            let until = gone.filter(|gone| !gone.has_passed()).unwrap_or(again);
            scene.wait(if until.has_passed() { deadline } else { deadline.min(until) })?;
        }
    }
}

/// How many times the text, or its placeholder, is visible.
fn times_shown(rows: &[String], tail: &str) -> usize {
    let shown = compact(rows);
    let texts = if tail.is_empty() { 0 } else { shown.matches(tail).count() };
    texts + shown.matches(PLACEHOLDER).count()
}

fn place(scene: &Scene, tail: &str) -> Place {
    let rows = (0..scene.rows.len()).rev().map(Place::Row);
    let places = [Place::Cursor, Place::Input].into_iter().chain(rows);
    places.into_iter().find(|place| stands(scene, *place, tail)).unwrap_or(Place::Unseen)
}

/// Is the text in that place?
fn stands(scene: &Scene, place: Place, tail: &str) -> bool {
    let has_it = |shown: &str| !tail.is_empty() && shown.contains(tail) || shown.contains(PLACEHOLDER);
    match place {
        Place::Cursor => {
            let screen = &scene.cache.screen;
            let line = compact(&[screen.up_to_cursor()]);
            let (row, _) = screen.cursor();
            let above = scene.rows.get(row.saturating_sub(3)..row - 1).unwrap_or_default();
            let is_end = !tail.is_empty() && (compact(above) + &line).ends_with(tail);
            screen.has_visible_cursor() && !line.is_empty() && (is_end || line.contains(PLACEHOLDER))
        }
        Place::Input => scene.input_row().is_some_and(|row| has_it(&compact(&scene.rows[row..]))),
        Place::Row(row) => {
            let from = row.saturating_sub(1);
            scene
                .rows
                .get(from..=row)
                .is_some_and(|rows| has_it(&compact(rows)) && has_some(&rows[row - from]))
        }
        Place::Unseen => false,
    }
}

fn has_some(row: &str) -> bool {
    !bare(row).is_empty()
}

/// Rows without borders and blanks: a program may wrap a text anywhere.
fn compact(rows: &[String]) -> String {
    rows.iter().flat_map(|row| bare(row).chars()).filter(|letter| !letter.is_whitespace()).collect()
}

/// The end of a text, as it is to be found on the screen.
fn tail(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let line = compact(&[line.chars().filter(|letter| !letter.is_control()).collect()]);
    line.chars().rev().take(TAIL).collect::<Vec<_>>().into_iter().rev().collect()
}

fn not_taken(scene: &Scene, place: Place, timeout: Duration) -> Failure {
    let row = match place {
        Place::Cursor => Some(scene.cache.screen.up_to_cursor()),
        Place::Input => scene.input_row().map(|row| scene.rows[row].clone()),
        Place::Row(row) => scene.rows.get(row).cloned(),
        Place::Unseen => None,
    };
    let row = row.as_deref().map(|row| text::escaped(bare(row).as_bytes())).filter(|row| !row.is_empty());
    let stands = row.map_or_else(String::new, |row| format!("; its input line has '{row}'"));
    Failure::failed(format!(
        "cannot submit the text to session '{}': the program did not take it within {}{stands}",
        scene.session.handle(),
        numbers::shown_seconds(timeout)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_known_by_its_end_however_it_is_wrapped() {
        assert_eq!(tail(b"first\nlast  line \n\n"), "lastline");
        assert_eq!(tail("a \u{1b}[31m \u{e9} \u{4e16}".as_bytes()), "a[31m\u{e9}\u{4e16}");
        assert_eq!(tail(b" \n"), "");
        let long = tail(&[b'x'; 100]);
        assert_eq!(long.len(), TAIL);
        let rows = ["│ > one two thr │".to_owned(), "│   ee four     │".to_owned()];
        assert_eq!(times_shown(&rows, &tail(b"two three four")), 1);
        assert_eq!(times_shown(&["❯ [Pasted text #1 +2 lines]".to_owned()], "unseen"), 1);
        assert_eq!(times_shown(&rows, ""), 0);
    }
}
