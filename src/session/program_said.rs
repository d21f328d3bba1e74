//! The state that a program reports by its output, as a relay sends it, and as JSON.

use std::time::Duration;

use crate::{
    json::{Object, Value},
    numbers::parse_seconds,
    session::ReportState,
    terminal::{
        notices::{Notice, TaskProgress},
        program_status::{BlockKind, ProgramState, ProgramStatus},
    },
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramSaid {
    /// The most urgent one first.
    pub(crate) statuses: Vec<ProgramStatus>,
    pub(crate) progress: Option<TaskProgress>,
    /// The last ones, in order.
    pub(crate) notices: Vec<SaidNotice>,
}

/// A notice as clients receive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SaidNotice {
    /// The how many-th of its session it is.
    pub(crate) number: u64,
    /// Since 1970, to the microsecond.
    pub(crate) since: Duration,
    pub(crate) notice: Notice,
}

impl ProgramSaid {
    /// The most notices that a client which reads at its own pace may miss.
    pub(crate) const MOST_NOTICES: usize = 8;

    /// The most bytes of records in every view of a session, and in the full list: a relay keeps no more for
    /// its clients. The least urgent ones are left out.
    pub(crate) const MOST_SHOWN: usize = 16 << 10;
    pub(crate) const MOST_ASKED: usize = 80 << 10;

    /// The records that fit into this many bytes, at least one, if there is one.
    pub(crate) fn shown(mut statuses: Vec<ProgramStatus>, most: usize) -> Vec<ProgramStatus> {
        const FIELDS: usize = 200;
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let mut room = most;
        let count = statuses.iter().take_while(|status| {
            let texts =
                status.id.len() + length(&status.app) + length(&status.title) + length(&status.message);
            let left = room.checked_sub(FIELDS + 2 * texts);
            room = left.unwrap_or(0);
            left.is_some()
        });
        statuses.truncate(count.count().max(1));
        statuses
    }

    /// The state of the session according to its records. A record that waits for a person goes first; then
    /// the program's own, because a part of it may be done while it works; then that of a part that works.
    pub(crate) fn state(statuses: &[ProgramStatus]) -> Option<ReportState> {
        let find = |wanted: &dyn Fn(&ProgramStatus) -> bool| statuses.iter().find(|status| wanted(status));
        let status = find(&|status| status.state == ProgramState::Blocked)
            .or_else(|| find(&|status| status.id.is_empty()))
            .or_else(|| find(&|status| status.state == ProgramState::Working))
            .or(statuses.first());
        status.map(|status| report_state(status.state))
    }

    /// The message of the most urgent record.
    pub(crate) fn text(&self) -> Option<&str> {
        let first = self.statuses.first()?;
        first.message.as_deref().or(first.title.as_deref())
    }

    /// The fields of an object that describes a session.
    pub(crate) fn describe(&self, object: Object) -> Object {
        let progress = self.progress.map(|progress| {
            Object::new().text("state", progress.word()).number_or_null("percent", progress.percent())
        });
        object
            .objects("program_status", self.statuses.iter().map(status_object))
            .object_or_null("progress", progress)
    }

    /// Parses an object that has these fields. Values not in our format are left out.
    pub(crate) fn parse(told: &Value) -> ProgramSaid {
        let list = |name: &str| told[name].as_array().unwrap_or_default();
        let progress = &told["progress"];
        let progress =
            progress["state"].as_str().and_then(|word| TaskProgress::of(word, percent(&progress["percent"])));
        ProgramSaid {
            statuses: list("program_status").iter().filter_map(parse_status).collect(),
            progress,
            notices: list("notices").iter().filter_map(SaidNotice::parse).collect(),
        }
    }

    /// All of it in one line, for a client of the relay.
    pub(crate) fn encode(&self) -> String {
        let object = self.describe(Object::new());
        object.objects("notices", self.notices.iter().map(SaidNotice::object)).value()
    }

    pub(crate) fn decode(text: &[u8]) -> Option<ProgramSaid> {
        Some(ProgramSaid::parse(&Value::parse(text).ok()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == ProgramSaid::default()
    }
}

/// The activity in `report`'s terms of a program's own state.
fn report_state(state: ProgramState) -> ReportState {
    match state {
        ProgramState::Blocked => ReportState::Waiting,
        ProgramState::Error => ReportState::Failed,
        ProgramState::Done => ReportState::Done,
        ProgramState::Working => ReportState::Working,
        ProgramState::Idle => ReportState::Idle,
    }
}

/// The program's own word for a state of `report`.
pub(crate) fn program_state(state: ReportState) -> ProgramState {
    match state {
        ReportState::Waiting => ProgramState::Blocked,
        ReportState::Failed => ProgramState::Error,
        ReportState::Done => ProgramState::Done,
        ReportState::Working => ProgramState::Working,
        ReportState::Idle => ProgramState::Idle,
    }
}

fn status_object(status: &ProgramStatus) -> Object {
    let text = |text: &'_ Option<String>| text.clone().map(String::into_bytes);
    Object::new()
        .text("id", &status.id)
        .text("state", status.state.word())
        .bytes_or_null("kind", status.kind.map(|kind| kind.word().as_bytes()))
        .number_or_null("progress", status.progress)
        .bytes_or_null("app", text(&status.app).as_deref())
        .bytes_or_null("title", text(&status.title).as_deref())
        .bytes_or_null("msg", text(&status.message).as_deref())
}

fn parse_status(told: &Value) -> Option<ProgramStatus> {
    Some(ProgramStatus {
        id: told["id"].as_str()?.to_owned(),
        state: ProgramState::parse(told["state"].as_str()?)?,
        kind: told["kind"].as_str().and_then(BlockKind::parse),
        progress: percent(&told["progress"]),
        app: parse_text(&told["app"]),
        title: parse_text(&told["title"]),
        message: parse_text(&told["msg"]),
    })
}

fn percent(told: &Value) -> Option<u8> {
    told.as_u64().and_then(|percent| u8::try_from(percent).ok()).filter(|percent| *percent <= 100)
}

fn parse_text(told: &Value) -> Option<String> {
    told.as_str().map(str::to_owned)
}

impl SaidNotice {
    /// The fields of an object that describes it.
    pub(crate) fn describe(&self, object: Object) -> Object {
        object
            .text("text", &self.notice.text)
            .bytes_or_null("title", self.notice.title.as_ref().map(|title| title.as_bytes()))
            .seconds_or_null("since", Some(self.since))
    }

    fn object(&self) -> Object {
        self.describe(Object::new().number("number", self.number))
    }

    fn parse(told: &Value) -> Option<SaidNotice> {
        let notice = Notice { title: parse_text(&told["title"]), text: parse_text(&told["text"])? };
        let since = parse_seconds(told["since"].as_number()?.as_bytes())?;
        Some(SaidNotice { number: told["number"].as_u64()?, since, notice })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_itself_goes_before_its_parts_unless_one_of_them_waits() {
        use ProgramState::{Blocked, Done, Error, Working};
        for (records, expected) in [
            (&[][..], None),
            (&[("a", Done), ("", Working)], Some(ReportState::Working)),
            (&[("a", Error), ("", ProgramState::Idle)], Some(ReportState::Idle)),
            (&[("a", Done), ("b", Working)], Some(ReportState::Working)),
            (&[("a", Blocked), ("", Done)], Some(ReportState::Waiting)),
            (&[("a", Error), ("b", Done)], Some(ReportState::Failed)),
        ] {
            let status = |(id, state): &(&str, ProgramState)| ProgramStatus {
                id: (*id).into(),
                state: *state,
                kind: None,
                progress: None,
                app: None,
                title: None,
                message: None,
            };
            let statuses: Vec<ProgramStatus> = records.iter().map(status).collect();
            assert_eq!(ProgramSaid::state(&statuses), expected, "{records:?}");
        }
    }

    #[test]
    fn a_programs_status_is_passed_on_unchanged() {
        let status = ProgramStatus {
            id: "a/b".into(),
            state: ProgramState::Blocked,
            kind: Some(BlockKind::Permission),
            progress: Some(7),
            app: Some("claude-code".into()),
            title: None,
            message: Some("may I \"x\" é?".into()),
        };
        let root =
            ProgramStatus { id: String::new(), kind: None, progress: None, message: None, ..status.clone() };
        let notice = Notice { title: Some("t".into()), text: "x".into() };
        let since = Duration::from_micros(1_790_000_000_000_001);
        for said in [
            ProgramSaid::default(),
            ProgramSaid { statuses: vec![status, root], ..ProgramSaid::default() },
            ProgramSaid { progress: Some(TaskProgress::Busy), ..ProgramSaid::default() },
            ProgramSaid {
                progress: Some(TaskProgress::Paused(50)),
                notices: vec![SaidNotice { number: 3, since, notice }],
                ..ProgramSaid::default()
            },
        ] {
            assert_eq!(ProgramSaid::decode(said.encode().as_bytes()), Some(said));
        }
        assert_eq!(
            ProgramSaid::decode(b"{\"program_status\":[{\"id\":1}],\"progress\":7}"),
            Some(ProgramSaid::default())
        );
        assert_eq!(ProgramSaid::decode(b"no"), None);
    }
}
