//! The notices for a person, once each: sessions that have begun to wait, are done, have failed or have
//! ended. Pure: the caller passes the time in.

use std::time::{Duration, Instant};

use crate::{
    json::Object,
    session::{Activity, ActivityView, Address},
    sorted::Map,
    sys::deadline::Deadline,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PersonNotice {
    pub(crate) address: Address,
    pub(crate) name: Option<String>,
    /// `waiting`, `done`, `failed` or `ended`.
    pub(crate) event: &'static str,
    /// The question, the report, or the last output, as one line.
    pub(crate) text: String,
}

impl PersonNotice {
    /// In one line that can be shown.
    pub(crate) fn line(&self) -> String {
        let who = match (&self.name, &self.address.machine) {
            (None, _) => self.address.to_string(),
            (Some(name), None) => format!("@{name}"),
            (Some(name), Some(machine)) => format!("{machine}:@{name}"),
        };
        let between = if self.text.is_empty() { "" } else { ": " };
        format!("{who} {}{between}{}", self.event, self.text)
    }

    pub(crate) fn json(&self) -> Object {
        Object::new()
            .text("event", self.event)
            .text("handle", &self.address.to_string())
            .bytes_or_null("name", self.name.as_ref().map(|name| name.as_bytes()))
            .text("text", &self.text)
    }
}

/// The known state of a session, and its pending notice.
#[derive(Default)]
struct OfOne {
    name: Option<String>,
    /// It began while we looked, so its first state is news.
    is_new: bool,
    /// The activity and question that were reported already, or need not be.
    known: Option<(Activity, Option<String>)>,
    pending: Option<PersonNotice>,
    told: Option<Instant>,
}

pub(crate) struct Notices {
    /// The least time between two notices of a session.
    every: Duration,
    sessions: Map<Address, OfOne>,
}

impl Notices {
    pub(crate) fn new(every: Duration) -> Notices {
        Notices { every, sessions: Map::new() }
    }

    /// There is this session. If it is new, its first state is news.
    pub(crate) fn begin(&mut self, address: Address, is_new: bool) {
        self.sessions.or_insert(address, OfOne { is_new, ..OfOne::default() });
    }

    /// Adds the session's present state.
    pub(crate) fn see(&mut self, overview: &ActivityView) {
        let address = overview.address();
        let of_one = self.sessions.or_insert(address.clone(), OfOne::default());
        of_one.name = overview.glance.name.as_ref().map(|name| name.as_str().to_owned());
        let Some(activity) = overview.activity else { return };
        let is_first = of_one.known.is_none() && !of_one.is_new;
        let now = (activity, overview.question_id());
        if of_one.known.as_ref() == Some(&now) {
            return;
        }
        // A question that is drawn a moment after the session began to wait is the same event.
        let goes_on = of_one.known.as_ref().is_some_and(|(known, id)| *known == activity && id.is_none());
        of_one.known = Some(now);
        let event = match activity {
            // A call that waits on it notifies its caller.
            Activity::Waiting if !overview.attended => "waiting",
            // A state that we find at the first look is not news.
            Activity::Done if !is_first => "done",
            Activity::Failed if !is_first => "failed",
            _ => {
                of_one.pending = None;
                return;
            }
        };
        if goes_on && of_one.pending.is_none() {
            return;
        }
        let text = overview.question.clone().filter(|_| activity == Activity::Waiting);
        let text = text.or_else(|| overview.said_in_words()).unwrap_or_default();
        let name = of_one.name.clone();
        of_one.pending = Some(PersonNotice { address, name, event, text });
    }

    /// The session has ended; `text` has the known facts. Those that were given first remain.
    pub(crate) fn end(&mut self, address: &Address, text: String) {
        if let Some(of_one) = self.sessions.get_mut(address)
            && of_one.pending.as_ref().is_none_or(|notice| notice.event != "ended")
        {
            let name = of_one.name.clone();
            of_one.pending = Some(PersonNotice { address: address.clone(), name, event: "ended", text });
        }
    }

    /// The notices that are due now.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<PersonNotice> {
        let every = self.every;
        let mut due = Vec::new();
        self.sessions.retain(|_, of_one| {
            if of_one.told.is_some_and(|told| now < told + every) {
                return true;
            }
            let Some(notice) = of_one.pending.take() else { return true };
            of_one.told = Some(now);
            let ended = notice.event == "ended";
            due.push(notice);
            !ended
        });
        due
    }

    /// When something will be.
    pub(crate) fn deadline(&self) -> Deadline {
        let waiting = self.sessions.values().filter(|of_one| of_one.pending.is_some());
        let times = waiting.filter_map(|of_one| of_one.told).map(|told| Deadline::at(told + self.every));
        times.fold(Deadline::NEVER, Deadline::min)
    }

    pub(crate) fn has_some(&self) -> bool {
        self.sessions.values().any(|of_one| of_one.pending.is_some())
    }
}

/// The hours without notices, in minutes of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuietHours {
    from: u32,
    to: u32,
}

const DAY: u32 = 24 * 60;

impl QuietHours {
    /// As in `22:00-07:00`.
    pub(crate) fn parse(text: &str) -> Option<QuietHours> {
        let (from, to) = text.split_once('-')?;
        let hours = QuietHours { from: minute_of_day(from)?, to: minute_of_day(to)? };
        (hours.from != hours.to).then_some(hours)
    }

    /// The minutes until they are over; `None`: it is not in them.
    pub(crate) fn left_at(self, minute: u32) -> Option<u32> {
        let since = (minute + DAY - self.from) % DAY;
        let length = (self.to + DAY - self.from) % DAY;
        (since < length).then(|| length - since)
    }
}

/// Parses a time like `22:05`.
pub(crate) fn minute_of_day(text: &str) -> Option<u32> {
    let (hour, minute) = text.trim().split_once(':')?;
    let number = |text: &str, below: u32| {
        let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|number| is_number && *number < below)
    };
    Some(number(hour, 24)? * 60 + number(minute, 60)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Handle, ListEntry, client::ReportedState};

    fn address() -> Address {
        Address { machine: None, handle: Handle::parse(b"0000000a").unwrap() }
    }

    fn overview(activity: Activity, question: Option<&str>) -> ActivityView {
        let glance = ListEntry {
            handle: address().handle,
            alive: true,
            name: None,
            command: "x".into(),
            started: None,
        };
        let mut overview = ActivityView::brief(glance, ReportedState::Nothing);
        overview.activity = Some(activity);
        overview.question = question.map(str::to_owned);
        overview
    }

    #[test]
    fn each_event_is_told_once_and_no_more_often_than_is_wanted() {
        use Activity::{Done, Failed, Idle, Waiting, Working};
        let start = Instant::now();
        let mut notices = Notices::new(Duration::from_secs(10));
        let mut send = |second: u64, activity, question| {
            notices.see(&overview(activity, question));
            let due = notices.due(start + Duration::from_secs(second));
            due.iter().map(PersonNotice::line).collect::<Vec<_>>().join("\n")
        };
        // A session that is done at the first look is not news; one that waits is.
        assert_eq!(send(0, Done, None), "");
        assert_eq!(send(1, Working, None), "");
        assert_eq!(send(2, Waiting, None), "0000000a waiting");
        assert_eq!(send(3, Waiting, Some("may I?")), "", "it is the same event");
        assert_eq!(send(20, Waiting, Some("may I?")), "");
        assert_eq!(send(21, Waiting, Some("and now?")), "0000000a waiting: and now?");
        // Too soon; and by then it works.
        assert_eq!(send(22, Failed, None), "");
        assert_eq!(send(23, Working, None), "");
        assert_eq!(send(40, Idle, None), "");
        assert_eq!(send(41, Done, None), "0000000a done");
        // A notice that is held back is sent later.
        assert_eq!(send(42, Failed, None), "");
        assert!(notices.has_some());
        assert_eq!(notices.deadline(), Deadline::at(start + Duration::from_secs(51)));
        notices.end(&address(), "exit code 3".into());
        // It is removed before the notice of its end is sent.
        notices.end(&address(), String::new());
        assert_eq!(notices.due(start + Duration::from_secs(51))[0].line(), "0000000a ended: exit code 3");
        assert!(!notices.has_some());
        // It is forgotten.
        notices.end(&address(), String::new());
        assert!(!notices.has_some());
    }

    #[test]
    fn the_first_state_of_a_new_session_is_news() {
        let mut notices = Notices::new(Duration::ZERO);
        notices.begin(address(), true);
        notices.see(&overview(Activity::Done, None));
        assert_eq!(notices.due(Instant::now())[0].line(), "0000000a done");
        // For a session that was there before, only its end is news, even before its first state.
        let mut notices = Notices::new(Duration::ZERO);
        notices.begin(address(), false);
        notices.see(&overview(Activity::Done, None));
        assert!(!notices.has_some());
        notices.end(&address(), String::new());
        assert_eq!(notices.due(Instant::now())[0].line(), "0000000a ended");
    }

    #[test]
    fn quiet_hours_may_pass_midnight() {
        let night = QuietHours::parse("22:00-07:00").unwrap();
        for (time, left) in [
            ("21:59", None),
            ("22:00", Some(540)),
            ("23:59", Some(421)),
            ("0:00", Some(420)),
            ("6:59", Some(1)),
            ("7:00", None),
        ] {
            assert_eq!(night.left_at(minute_of_day(time).unwrap()), left, "{time}");
        }
        for bad in ["", "22:00", "22-07", "24:00-07:00", "22:00-22:00", "22:60-1:00", "+1:00-2:00", "a:b-c:d"]
        {
            assert_eq!(QuietHours::parse(bad), None, "{bad}");
        }
    }
}
