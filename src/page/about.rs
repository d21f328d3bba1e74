//! The state of a session besides its screen, as a browser receives it. Sessions of other machines have the same.

use crate::{
    json::Object,
    session::{Activity, ActivityView, ListEntry},
    sys::clock::unix_seconds,
    terminal::text,
};

/// The object of a session whose screen has this title. `word` is its activity, as people are shown it.
pub(super) fn about(overview: &ActivityView, title: Option<&str>, word: &str) -> String {
    let ListEntry { name, command, started, alive, .. } = &overview.glance;
    let name = name.as_ref().map(|name| match &overview.machine {
        Some(machine) => format!("{machine}:{}", name.as_str()),
        None => name.as_str().to_owned(),
    });
    let bytes = |text: &Option<String>| text.clone().map(String::into_bytes);
    // The report of an ended session is no question.
    let said = overview.report.as_ref().filter(|_| *alive);
    let said = said.and_then(|report| text::last_line_shown(&report.text));
    let question_id = overview.question_id().filter(|_| !overview.choices.is_empty());
    let choices: Vec<Vec<u8>> = overview.choices.iter().map(|text| text.clone().into_bytes()).collect();
    Object::new()
        .bytes_or_null("name", bytes(&name).as_deref())
        .text("command", command)
        .text("state", overview.glance.state())
        .text("activity", overview.activity.map_or("unknown", Activity::word))
        .text("word", word)
        .bytes_or_null("terminal", overview.terminal())
        .seconds_or_null("since", overview.since)
        .bytes_or_null("question", bytes(&overview.question).or(bytes(&said)).as_deref())
        .bytes_or_null("question_id", bytes(&question_id).as_deref())
        .list("choices", &choices)
        .seconds_or_null("started", started.map(unix_seconds))
        .bytes_or_null("title", title.map(str::as_bytes))
        .object_or_null("receipt", (!*alive).then(|| receipt(overview)))
        .value()
}

/// How a session has ended.
fn receipt(overview: &ActivityView) -> Object {
    let (started, ended) = (overview.glance.started.map(unix_seconds), overview.since);
    let lasted = started.zip(ended).map(|(started, ended)| ended.saturating_sub(started).as_millis());
    let object = Object::new().number("exit_code", overview.exit_code.unwrap_or(-1));
    let object = object.seconds_or_null("started", started).seconds_or_null("ended", ended);
    overview.end.describe_in_full(object.number_or_null("duration_ms", lasted))
}
