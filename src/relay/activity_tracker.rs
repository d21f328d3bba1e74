//! The session's activity, above all whether it waits for input.
//!
//! The kernel sends no event when a program begins to wait for input. So the relay looks: a moment after
//! output or input, and, at a program that has the keyboard and may be working, again after a second. That is
//! all without followers. For followers, it also looks at a program that runs without output, and at one that
//! limits its wait for input, at growing intervals.
//!
//! Pure: observations are passed in, and so is the time.

use std::time::{Duration, Instant};

use crate::{
    session::{
        Activity, Because, Report, ReportState,
        client::{
            TerminalState,
            snapshot::{Input, Reads},
            waiting::{HELD, HELD_LONG},
        },
    },
    sys::deadline::Deadline,
};

/// How long the output and input must pause before a look: input and its echo take a moment to reach the
/// reader.
const SETTLE: Duration = Duration::from_millis(50);

/// A session that was seen waiting or idle and keeps printing is looked at again after
/// this long at the latest.
const LONGEST_UNSEEN: Duration = Duration::from_millis(250);

/// The longest interval between two looks at a program that runs without output, or works while it has the
/// keyboard: has it begun to wait?
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The followers of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Audience {
    None,
    Told,
    /// At least one of them has not received any report yet.
    New,
}

/// The observations at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) doing: TerminalState,
    pub(crate) input: Input,
    /// A program has the keyboard, so that it may draw a screen.
    pub(crate) has_keys: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Judged {
    activity: Activity,
    doing: TerminalState,
    since: Instant,
}

pub(crate) struct ActivityTracker {
    // How many times the reported state has changed.
    seen: u64,
    judged: Judged,
    report: Option<Report>,
    // The state that the program reports by the program status protocol.
    said: Option<ReportState>,
    // How a turn has ended, by the program's report, since something was typed or the last one began.
    turn: Option<ReportState>,
    // When the first and the last thing were printed or typed that came after the last
    // look, and whether any was typed.
    stirred: Option<Stir>,
    // When something was printed or typed last.
    changed: Instant,
    // When it was looked last, and how long until the next time, if nothing happens.
    looked: Instant,
    pause: Option<Duration>,
    // When a follower was last notified to look at the screen, and whether it has changed since.
    shown: Instant,
    drawn: bool,
    // When a call was last there that waits on the session.
    waited_on: Option<Instant>,
    attended: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stir {
    first: Instant,
    last: Instant,
    typed: bool,
}

impl Stir {
    /// When it is time to look: when no more has come for a moment, or, `in_any_case`, when
    /// enough time has passed.
    fn settled(self, in_any_case: bool) -> Instant {
        let settled = self.last + SETTLE;
        if in_any_case { settled.min(self.first + LONGEST_UNSEEN) } else { settled }
    }
}

impl ActivityTracker {
    pub(crate) fn new(now: Instant) -> ActivityTracker {
        ActivityTracker {
            seen: 1,
            judged: Judged { activity: Activity::Working, doing: TerminalState::Running, since: now },
            report: None,
            said: None,
            turn: None,
            stirred: Some(Stir { first: now, last: now, typed: false }),
            changed: now,
            looked: now,
            pause: None,
            shown: now,
            drawn: false,
            waited_on: None,
            attended: false,
        }
    }

    /// How many times the reported state has changed.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// The activity and its evidence. `report` goes before the program's own status, and this before
    /// observations. A program that was done when something was typed is not done with that: it is about
    /// to begin, and does not wait for input.
    pub(crate) fn verdict(&self) -> (Activity, Because) {
        let Judged { activity, doing, .. } = self.judged;
        match (&self.report, self.said) {
            (Some(report), _) => (report.state.activity(), Because::Report),
            (None, Some(said)) if !said.is_over() || self.turn.is_some() => {
                (said.activity(), Because::ProgramStatus)
            }
            (None, Some(_)) if (activity, doing) == (Activity::Waiting, TerminalState::Raw) => {
                (Activity::Idle, Because::ProgramStatus)
            }
            _ if activity == Activity::Idle => (activity, Because::Shell),
            _ if doing == TerminalState::Raw => (activity, Because::Quiet),
            _ => (activity, Because::Kernel),
        }
    }

    /// How a turn of the program has ended since something was typed, if one has: its report is that it is
    /// done, has failed, or has nothing to do any more.
    pub(crate) fn turn(&self) -> Option<ReportState> {
        self.turn
    }

    /// Sets the program's own state; `None`: it reports none any more. `ended`: it has just reported that
    /// something is done, or has failed.
    pub(crate) fn note_said(&mut self, said: Option<ReportState>, ended: bool) {
        self.seen += 1;
        self.note_state(self.said, said, ended);
        self.said = said;
    }

    fn note_state(&mut self, before: Option<ReportState>, state: Option<ReportState>, ended: bool) {
        use ReportState::{Idle, Waiting, Working};
        match state {
            Some(Working | Waiting) => self.turn = None,
            Some(Idle) if matches!(before, Some(Working | Waiting)) => self.turn = state,
            Some(over) if over.is_over() && (ended || before != state) => self.turn = state,
            _ => {}
        }
    }

    pub(crate) fn doing(&self) -> TerminalState {
        self.judged.doing
    }

    /// Since when that was seen; of a report it is its own time that counts.
    pub(crate) fn since(&self) -> Instant {
        self.judged.since
    }

    pub(crate) fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Was a call waiting on it when it began to wait, or had just been notified?
    pub(crate) fn is_attended(&self) -> bool {
        self.attended && !self.verdict().1.is_stated()
    }

    pub(crate) fn note_printed(&mut self, now: Instant) {
        self.drawn = true;
        self.stir(now, false);
    }

    /// Notes input; returns whether that ended a report.
    pub(crate) fn note_typed(&mut self, now: Instant) -> bool {
        self.stir(now, true);
        self.seen += u64::from(self.turn.take().is_some());
        self.note_report(None)
    }

    fn stir(&mut self, now: Instant, typed: bool) {
        self.changed = now;
        let before = self.stirred;
        self.stirred = Some(Stir {
            first: before.map_or(now, |stir| stir.first),
            last: now,
            typed: typed || before.is_some_and(|stir| stir.typed),
        });
    }

    /// Sets or clears the session's report. Returns whether there was one.
    pub(crate) fn note_report(&mut self, report: Option<Report>) -> bool {
        let before = self.report.is_some();
        if before || report.is_some() {
            let state = |report: &Option<Report>| report.as_ref().map(|report| report.state);
            self.note_state(state(&self.report), state(&report), true);
            self.report = report;
            self.seen += 1;
        }
        before
    }

    /// A call that waits on the session is there.
    pub(crate) fn note_waited_on(&mut self, now: Instant) {
        self.waited_on = Some(now);
    }

    /// The time of the next look. `has_keys`: a program has disabled canonical mode, and it is not a shell at
    /// its prompt.
    pub(crate) fn deadline(&self, audience: Audience, has_keys: bool) -> Deadline {
        let is_followed = audience != Audience::None;
        if !is_followed && !has_keys {
            return Deadline::NEVER;
        }
        let Some(stir) = self.stirred else {
            let silent =
                self.judged.doing == TerminalState::Running || self.judged.activity == Activity::Waiting;
            let silent = silent && !is_followed;
            let pause = self.pause.filter(|_| !silent);
            return pause.map_or(Deadline::NEVER, |pause| Deadline::at(self.looked + pause));
        };
        let is_news = is_followed && self.judged.activity != Activity::Working;
        Deadline::at(stir.settled(is_news || audience == Audience::New))
    }

    /// Was there a look since something happened, and not too soon? An early look is only for the client that
    /// requested it.
    pub(crate) fn is_settled(&self) -> bool {
        self.report.is_some() || self.said.is_some() || self.stirred.is_none()
    }

    /// Adds an observation; returns whether the reported state changes.
    pub(crate) fn look(&mut self, look: Look, now: Instant) -> bool {
        let stir = self.stirred;
        let settled = stir.is_none_or(|stir| now >= stir.settled(true));
        if settled {
            self.stirred = None;
        }
        // Shortly before, another program printed, beside one that waited for a line, and still does.
        let was_waiting = self.judged.activity == Activity::Waiting && self.judged.doing == look.doing;
        let is_typed = stir.is_some_and(|stir| stir.typed);
        let stays = was_waiting && !is_typed && now < self.changed + SETTLE;
        let is_waiting = look.input.is_waiting(look.input.needed()) || stays && look.input.needed() == HELD;
        let activity = match look.input.reads {
            Some(Reads::Prompt) => Activity::Idle,
            Some(_) if is_waiting => Activity::Waiting,
            _ => Activity::Working,
        };
        self.pause = match (activity, look.input.remaining(look.input.needed())) {
            (Activity::Working, Some(remaining)) => {
                let again = stir.is_none() && look.input.held.is_zero();
                Some(if again { self.longer(HELD_LONG) } else { remaining.clamp(SETTLE, LONGEST_PAUSE) })
            }
            (Activity::Working, None) => Some(if stir.is_some() { SETTLE } else { self.longer(SETTLE) }),
            (Activity::Waiting, _) if look.input.has_timer => Some(self.longer(HELD_LONG)),
            _ => None,
        };
        self.looked = now;
        // A program that waits, gets input, and waits again, has begun again. Output of others meanwhile
        // changes nothing.
        let begins_again = settled && activity != Activity::Working && is_typed;
        let begins = begins_again || activity != self.judged.activity;
        if begins {
            self.judged.since = match (look.doing, stir) {
                (TerminalState::Running, Some(stir)) => stir.first,
                (TerminalState::Raw, _) if activity == Activity::Waiting => {
                    now.checked_sub(look.input.held).map_or(self.changed, |since| since.max(self.changed))
                }
                (TerminalState::Raw, Some(stir)) => stir.first,
                (_, Some(stir)) => stir.last,
                // It had not waited long enough at the last look.
                (doing, None) if doing == self.judged.doing => self.changed,
                (_, None) => now,
            };
            self.attended = self.waited_on.is_some_and(|waited_on| waited_on >= self.changed);
        }
        let is_shown = now.duration_since(self.shown) >= LONGEST_UNSEEN;
        let redrawn = settled && is_shown && look.has_keys && std::mem::take(&mut self.drawn);
        if redrawn {
            self.shown = now;
        }
        let changed = begins || redrawn || look.doing != self.judged.doing;
        self.judged = Judged { activity, doing: look.doing, ..self.judged };
        self.seen += u64::from(changed);
        changed
    }

    /// The next of growing intervals.
    fn longer(&self, least: Duration) -> Duration {
        self.pause.map_or(least, |pause| (pause + pause / 2).clamp(least, LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn at(begin: Instant, milliseconds: u32) -> Instant {
        begin + MILLISECOND * milliseconds
    }

    /// A look at a state that has held for this many milliseconds.
    fn look(doing: TerminalState, held: u32) -> Look {
        let reads = match doing {
            TerminalState::Prompt => Some(Reads::Prompt),
            TerminalState::Line => Some(Reads::Line),
            TerminalState::Secret => Some(Reads::Secret),
            TerminalState::Raw => Some(Reads::Raw),
            TerminalState::Running => None,
        };
        let (held, least) = (MILLISECOND * held, MILLISECOND);
        Look { doing, input: Input { reads, held, least, has_timer: false }, has_keys: false }
    }

    #[test]
    fn each_activity_has_a_beginning() {
        let begin = Instant::now();
        let mut judge = ActivityTracker::new(begin);
        let told =
            |judge: &ActivityTracker| (judge.verdict().0, judge.since().duration_since(begin).as_millis());
        assert!(judge.look(look(TerminalState::Prompt, 50), at(begin, 60)));
        assert_eq!(told(&judge), (Activity::Idle, 0));
        assert!(!judge.note_typed(at(begin, 1_000)), "there was no report");
        assert!(judge.look(look(TerminalState::Running, 0), at(begin, 1_050)));
        assert_eq!(told(&judge), (Activity::Working, 1_000));
        // In silence it has come to ask something.
        assert!(!judge.look(look(TerminalState::Running, 0), at(begin, 1_100)));
        assert!(judge.look(look(TerminalState::Line, 50), at(begin, 2_000)));
        assert_eq!(told(&judge), (Activity::Waiting, 2_000));
        let seen = judge.seen();
        // Output of others meanwhile changes nothing.
        judge.note_printed(at(begin, 3_000));
        assert!(!judge.look(look(TerminalState::Line, 50), at(begin, 3_050)));
        assert_eq!((told(&judge), judge.seen()), ((Activity::Waiting, 2_000), seen));
        // It is given a line, and asks for another.
        judge.note_typed(at(begin, 4_000));
        judge.note_printed(at(begin, 4_010));
        assert!(judge.look(look(TerminalState::Secret, 50), at(begin, 4_060)));
        assert_eq!((told(&judge), judge.doing()), ((Activity::Waiting, 4_010), TerminalState::Secret));
        assert_eq!(judge.seen(), seen + 1);
    }

    #[test]
    fn a_raw_program_waits_after_a_second_of_rest() {
        let begin = Instant::now();
        let mut judge = ActivityTracker::new(begin);
        judge.note_printed(at(begin, 500));
        assert_eq!(judge.deadline(Audience::None, false), Deadline::NEVER);
        assert_eq!(judge.deadline(Audience::None, true), Deadline::at(at(begin, 550)));
        judge.look(look(TerminalState::Raw, 0), at(begin, 550));
        assert_eq!(judge.verdict().0, Activity::Working);
        assert_eq!(judge.deadline(Audience::None, true), Deadline::at(at(begin, 1_550)));
        // It uses the CPU, on and on.
        judge.look(look(TerminalState::Raw, 0), at(begin, 1_550));
        assert_eq!(judge.deadline(Audience::None, true), Deadline::at(at(begin, 3_050)));
        judge.look(look(TerminalState::Raw, 400), at(begin, 3_050));
        assert_eq!(judge.deadline(Audience::None, true), Deadline::at(at(begin, 3_650)));
        assert!(judge.look(look(TerminalState::Raw, 1_000), at(begin, 3_650)));
        assert_eq!((judge.verdict().0, judge.since()), (Activity::Waiting, at(begin, 2_650)));
        // And then there is nothing to look for any more.
        assert_eq!(judge.deadline(Audience::Told, true), Deadline::NEVER);
    }

    #[test]
    fn a_silent_program_is_checked_less_often_and_only_for_followers() {
        let begin = Instant::now();
        let mut judge = ActivityTracker::new(begin);
        let mut now = at(begin, 50);
        let mut looks = 0;
        while now < begin + Duration::from_secs(3_600) {
            judge.look(look(TerminalState::Running, 0), now);
            assert_eq!(judge.deadline(Audience::None, false), Deadline::NEVER);
            assert_eq!(judge.deadline(Audience::None, true), Deadline::NEVER);
            now = now.max(judge.looked + judge.pause.unwrap());
            looks += 1;
        }
        assert!((100..160).contains(&looks), "{looks}");
    }

    #[test]
    fn a_printing_program_is_checked_only_if_its_activity_may_change() {
        let begin = Instant::now();
        let mut judge = ActivityTracker::new(begin);
        judge.look(look(TerminalState::Prompt, 50), at(begin, 50));
        for time in 1..=10 {
            judge.note_printed(at(begin, 50 + time * 40));
        }
        assert_eq!(judge.deadline(Audience::Told, false), Deadline::at(at(begin, 340)));
        judge.look(look(TerminalState::Running, 0), at(begin, 400));
        judge.note_printed(at(begin, 410));
        judge.note_printed(at(begin, 790));
        assert_eq!(judge.deadline(Audience::Told, false), Deadline::at(at(begin, 840)));
        assert_eq!(judge.deadline(Audience::New, false), Deadline::at(at(begin, 660)));
    }

    #[test]
    fn an_early_reading_is_repeated_before_it_is_sent() {
        let begin = Instant::now();
        let mut judge = ActivityTracker::new(begin);
        judge.look(look(TerminalState::Line, 50), at(begin, 100));
        assert!(judge.is_settled());
        let seen = judge.seen();
        judge.note_typed(at(begin, 1_000));
        // The line is on its way.
        assert!(!judge.look(look(TerminalState::Line, 50), at(begin, 1_001)));
        assert!(!judge.is_settled());
        assert_eq!(judge.deadline(Audience::New, false), Deadline::at(at(begin, 1_050)));
        assert!(judge.look(look(TerminalState::Line, 50), at(begin, 1_050)));
        assert!(judge.is_settled());
        assert_eq!((judge.seen(), judge.since()), (seen + 1, at(begin, 1_000)));
    }

    #[test]
    fn a_program_waits_for_a_line_even_after_another_printed() {
        let begin = Instant::now();
        let mut judge = ActivityTracker::new(begin);
        judge.note_printed(at(begin, 100));
        // Too soon after that to be settled.
        judge.look(look(TerminalState::Line, 31), at(begin, 131));
        let told = |judge: &ActivityTracker| (judge.verdict().0, judge.since());
        assert_eq!(told(&judge), (Activity::Waiting, at(begin, 100)));
        judge.note_printed(at(begin, 1_000));
        for soon in [1, 2] {
            judge.look(look(TerminalState::Line, soon), at(begin, 1_000 + soon));
            assert_eq!(told(&judge), (Activity::Waiting, at(begin, 100)));
        }
        judge.note_typed(at(begin, 2_000));
        judge.look(look(TerminalState::Line, 0), at(begin, 2_001));
        assert_eq!(judge.verdict().0, Activity::Working);
    }

    #[test]
    fn a_report_takes_precedence_until_input() {
        let begin = Instant::now();
        let mut judge = ActivityTracker::new(begin);
        let report = |state| Some(Report { state, text: b"may I?".to_vec(), since: Duration::ZERO });
        judge.look(look(TerminalState::Running, 0), begin);
        let seen = judge.seen();
        assert!(!judge.note_report(report(ReportState::Waiting)));
        assert_eq!((judge.verdict().0, judge.seen()), (Activity::Waiting, seen + 1));
        judge.note_printed(begin);
        judge.look(look(TerminalState::Running, 0), begin);
        assert_eq!(judge.verdict().0, Activity::Waiting);
        assert!(judge.note_report(report(ReportState::Done)));
        assert_eq!(judge.verdict().0, Activity::Done);
        assert!(judge.note_typed(begin));
        assert_eq!((judge.verdict().0, judge.report()), (Activity::Working, None));
        let seen = judge.seen();
        assert!(!judge.note_report(None));
        assert_eq!(judge.seen(), seen);
    }

    #[test]
    fn a_turn_has_ended_since_something_was_typed_or_has_not() {
        use ReportState::{Done, Failed, Idle, Waiting, Working};
        let begin = Instant::now();
        // The program's report, whether it has just reported the end of a turn, and how the turn has ended
        // then; `None`: something is typed.
        for steps in [
            &[Some((Idle, false, None)), Some((Working, false, None)), Some((Done, true, Some(Done)))][..],
            // It is idle at the next key, and done again without a word in between.
            &[
                Some((Done, true, Some(Done))),
                None,
                Some((Idle, false, None)),
                Some((Failed, true, Some(Failed))),
            ],
            &[
                Some((Done, true, Some(Done))),
                None,
                Some((Done, false, None)),
                Some((Done, true, Some(Done))),
            ],
            &[
                Some((Waiting, false, None)),
                None,
                Some((Working, false, None)),
                Some((Idle, false, Some(Idle))),
            ],
            // A part of it is done.
            &[Some((Working, true, None)), Some((Done, true, Some(Done))), Some((Working, false, None))],
        ] {
            let mut judge = ActivityTracker::new(begin);
            for step in steps {
                match step {
                    Some((state, ended, turn)) => {
                        judge.note_said(Some(*state), *ended);
                        assert_eq!(judge.turn(), *turn, "{steps:?}");
                    }
                    None => {
                        judge.note_typed(begin);
                        assert_eq!(judge.turn(), None, "{steps:?}");
                    }
                }
            }
        }
        let report = |state| Some(Report { state, text: Vec::new(), since: Duration::ZERO });
        let mut judge = ActivityTracker::new(begin);
        for (state, turn) in [(Working, None), (Idle, Some(Idle)), (Failed, Some(Failed)), (Waiting, None)] {
            judge.note_report(report(state));
            assert_eq!(judge.turn(), turn, "{state:?}");
        }
        judge.note_report(report(Done));
        judge.note_report(None);
        assert_eq!(judge.turn(), Some(Done));
    }

    #[test]
    fn input_ends_the_state_done() {
        let begin = Instant::now();
        let mut judge = ActivityTracker::new(begin);
        judge.look(look(TerminalState::Raw, 2_000), at(begin, 3_000));
        assert_eq!(judge.verdict(), (Activity::Waiting, Because::Quiet));
        judge.note_said(Some(ReportState::Done), true);
        assert_eq!(judge.verdict(), (Activity::Done, Because::ProgramStatus));
        judge.note_typed(at(begin, 4_000));
        assert_eq!(judge.verdict(), (Activity::Idle, Because::ProgramStatus));
        judge.look(look(TerminalState::Line, 50), at(begin, 5_000));
        assert_eq!(judge.verdict(), (Activity::Waiting, Because::Kernel));
    }

    #[test]
    fn a_waiter_is_notified_of_a_turn() {
        let begin = Instant::now();
        for (waited_on, attended) in [(400, false), (500, true), (700, true)] {
            let mut judge = ActivityTracker::new(begin);
            judge.look(look(TerminalState::Running, 0), begin);
            judge.note_waited_on(at(begin, waited_on));
            judge.note_printed(at(begin, 500));
            judge.look(look(TerminalState::Line, 50), at(begin, 900));
            assert_eq!(judge.is_attended(), attended, "{waited_on}");
        }
    }
}
