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

/// The same if the program has printed nothing since then, or shows no end of a turn: it is starting, or the
/// machine is busy.
const ANSWERED: Duration = Duration::from_secs(10);

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
            let length = session.log().ok().and_then(|log| log.length().ok());
            let is_answered = seen.is_over && length.is_none_or(|length| length > front.length);
            (if is_answered { TAKEN_UP } else { ANSWERED }).saturating_sub(typed)
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

/// The result of those rules for a screen, and for the notices since input.
pub(super) fn look(rules: &Rules, front: &Front, said: &ProgramSaid, screen: &Screen) -> Option<Seen> {
    let now = unix_seconds(SystemTime::now());
    let typed = front.typed.map_or(Duration::ZERO, |typed| now.saturating_sub(typed));
    let notice = said.notices.last().filter(|notice| notice.since >= typed);
    let notice = notice.map(|notice| notice.notice.text.as_str());
    rules.look(&screen.lines(0), screen.title(), notice)
}
