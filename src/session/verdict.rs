//! The activity of a session, from its relay and, if its program has rules, from its screen.

use std::time::{Duration, SystemTime};

use crate::{
    outcome::Result,
    session::{
        Activity, Because, ProgramSaid, ReportState, ScreenCache, SessionDir,
        client::snapshot::{Front, Snapshot},
        rules::{Question, Rules, Seen, Shows},
    },
    sys::clock::unix_seconds,
    terminal::screen::Screen,
};

/// How long ago a line must have been entered for a turn to have ended at a program that takes a task: it
/// begins with the input a moment after.
const TAKEN_UP: Duration = Duration::from_millis(800);

/// The same if the program has printed nothing since then: it is starting, or the machine is busy.
const ANSWERED: Duration = Duration::from_secs(10);

/// Until so long after that line, the screen must also have stood for the second time: opencode shows its input
/// line for a moment before it works. Later it need not, since a program may animate a cell at rest.
const BEGINNING: Duration = Duration::from_secs(3);
const STILL: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// `None` if the relay does not report it.
    pub(crate) activity: Option<Activity>,
    pub(crate) because: Option<Because>,
    /// How a turn has ended since something was typed, if one has.
    pub(crate) turn: Option<ReportState>,
    /// The time after which it may turn out to be done without any change.
    pub(crate) again: Option<Duration>,
}

impl Verdict {
    /// The verdict of its relay.
    pub(crate) fn told(now: &Snapshot) -> Verdict {
        Verdict { activity: now.activity, because: now.because, turn: now.turn, again: None }
    }

    /// The verdict on a session whose relay reported this, `ago` before now. The screen is only read
    /// if the program has rules.
    pub(crate) fn of(session: &SessionDir, told: &Snapshot, ago: Duration) -> Result<Verdict> {
        let verdict = Verdict::told(told);
        let front = told.front.after(ago);
        let Some(rules) = verdict.rules(session, &front) else { return Ok(verdict) };
        let screen = ScreenCache::look(session)?.screen;
        Ok(verdict.seen(session, &front, look(&rules, &front, &told.said, &screen)).0)
    }

    /// The rules of its program, if the screen can add something.
    pub(super) fn rules(&self, session: &SessionDir, front: &Front) -> Option<Rules> {
        if matches!(self.because, None | Some(Because::Shell)) {
            return None;
        }
        Rules::of(session, front.path.as_deref()?)
    }

    /// The same, if that was seen.
    pub(super) fn seen(
        self,
        session: &SessionDir,
        front: &Front,
        seen: Option<Seen>,
    ) -> (Verdict, Option<Question>) {
        let Some(seen) = seen else { return (self, None) };
        if self.because.is_some_and(Because::is_stated) {
            let asks = self.activity == Some(Activity::Waiting);
            return (self, seen.question.filter(|_| asks));
        }
        // The time until the program would have begun with the last input.
        let lacks = front.typed.filter(|_| front.entered && seen.shows == Shows::Rests).map(|typed| {
            let log = session.log().ok().and_then(|log| Some((log.length().ok()?, log.age().ok()?)));
            let (length, age) = log.unwrap_or((u64::MAX, Duration::MAX));
            lacking(typed, (length > front.length).then_some(age))
        });
        let (activity, turn, again) = match (seen.shows, lacks) {
            (Shows::Asks(_), _) => (Activity::Waiting, None, None),
            (Shows::Works, _) => (Activity::Working, None, None),
            (Shows::Rests, None) => (Activity::Idle, None, None),
            (Shows::Rests, Some(Duration::ZERO)) => (Activity::Done, Some(ReportState::Done), None),
            (Shows::Rests, again) => (Activity::Working, None, again),
        };
        let because = Some(seen.because);
        (Verdict { activity: Some(activity), because, turn, again }, seen.question)
    }
}

/// The time until a turn has ended at a program that takes a task, if a line was entered and, since then,
/// something printed that long ago.
fn lacking(typed: Duration, printed: Option<Duration>) -> Duration {
    let Some(printed) = printed else { return ANSWERED.saturating_sub(typed) };
    let still = STILL.saturating_sub(printed).min(BEGINNING.saturating_sub(typed));
    TAKEN_UP.saturating_sub(typed).max(still)
}

/// The result of those rules for a screen, and for the notices since input.
pub(super) fn look(rules: &Rules, front: &Front, said: &ProgramSaid, screen: &Screen) -> Option<Seen> {
    let now = unix_seconds(SystemTime::now());
    let typed = front.typed.map_or(Duration::ZERO, |typed| now.saturating_sub(typed));
    let notice = said.notices.last().filter(|notice| notice.since >= typed);
    let notice = notice.map(|notice| notice.notice.text.as_str());
    rules.look(&screen.lines(0), screen.title(), notice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_when_the_input_is_taken_up_and_the_screen_stands() {
        let millis = Duration::from_millis;
        let cases = [
            // Typed and printed that long ago; what lacks.
            (100, Some(500), 700),
            (900, Some(500), 0),
            (900, Some(100), 400),
            (700, Some(0), 500),
            (2_900, Some(0), 100),
            (3_000, Some(0), 0),
            (3_000, None, 7_000),
            (10_000, None, 0),
        ];
        for (typed, printed, lacks) in cases {
            let printed: Option<u64> = printed;
            assert_eq!(lacking(millis(typed), printed.map(millis)), millis(lacks), "{typed} {printed:?}");
        }
    }
}
