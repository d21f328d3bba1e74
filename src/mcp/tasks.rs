//! Long calls, as tasks that a client polls: the extension `io.modelcontextprotocol/tasks` of version
//! 2026-07-28 (SEP-2663).
//!
//! A task's result is kept for an hour. If its command waits for input, the task asks the client for it,
//! provided that the client has forms for its user; the answer is sent to the session, and the command goes
//! on.

use std::{
    ffi::OsString,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    json::{Fields, Object, Value},
    sys::clock,
};

pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How long a task is kept, and how often a client is to ask for it.
const KEPT: Duration = Duration::from_secs(3_600);
const KEPT_MS: i64 = 3_600_000;
const POLL_MS: i64 = 1_000;

/// The one field of the form.
const FIELD: &str = "answer";

#[derive(Debug)]
pub(crate) enum TaskState {
    Working,
    /// Its command has asked this, and the call's result then, as JSON.
    Asks {
        question: String,
        result: String,
    },
    /// The result, as JSON.
    Completed(String),
    Cancelled,
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) state: TaskState,
    /// The words of a `run`, which it is gone on with by, and what its command has printed so far.
    pub(crate) words: Vec<OsString>,
    pub(crate) printed: String,
    since: Instant,
    created: String,
    updated: String,
    /// Each question has a key of its own.
    questions: usize,
}

impl Task {
    pub(crate) fn new(id: String, words: Vec<OsString>) -> Task {
        let now = clock::utc(SystemTime::now());
        Task {
            id,
            state: TaskState::Working,
            words,
            printed: String::new(),
            since: Instant::now(),
            created: now.clone(),
            updated: now,
            questions: 0,
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.since.elapsed() < KEPT
    }

    pub(crate) fn become_state(&mut self, state: TaskState) {
        self.questions += usize::from(matches!(state, TaskState::Asks { .. }));
        self.state = state;
        self.updated = clock::utc(SystemTime::now());
    }

    fn key(&self) -> String {
        format!("question-{}", self.questions)
    }

    /// The task as a client sees it.
    pub(crate) fn object(&self) -> Object {
        let status = match self.state {
            TaskState::Working => "working",
            TaskState::Asks { .. } => "input_required",
            TaskState::Completed(_) => "completed",
            TaskState::Cancelled => "cancelled",
        };
        let object = Object::new()
            .text("taskId", &self.id)
            .text("status", status)
            .text("createdAt", &self.created)
            .text("lastUpdatedAt", &self.updated)
            .number("ttlMs", KEPT_MS)
            .number("pollIntervalMs", POLL_MS);
        match &self.state {
            TaskState::Asks { question, .. } => {
                let requests = Object::new().object_or_null(&self.key(), Some(form(question)));
                object.text("statusMessage", question).object_or_null("inputRequests", Some(requests))
            }
            TaskState::Completed(result) => object.json("result", result),
            TaskState::Working | TaskState::Cancelled => object,
        }
    }

    /// A client's answer to the open question: a text, or `None` if its user has declined; nothing, if it
    /// answers another question.
    pub(crate) fn answer(&self, responses: &Fields) -> Option<Option<String>> {
        let TaskState::Asks { .. } = self.state else { return None };
        let response = responses.get(&self.key())?;
        let is_accepted = response.get("action").and_then(Value::as_str) == Some("accept");
        let text = response.get("content").and_then(|content| content.get(FIELD)).and_then(Value::as_str);
        Some(text.filter(|_| is_accepted).map(str::to_owned))
    }

    /// The arguments of the call that types an answer, and of the one that resumes the command.
    pub(crate) fn answering(&self) -> (Vec<OsString>, Vec<OsString>) {
        let session = self.words.last().cloned().unwrap_or_default();
        let types = ["send", "--json", "--no-secret", "--stdin", "--"].map(OsString::from);
        (types.into_iter().chain([session]).collect(), resumed(&self.words))
    }
}

/// The words of the call that resumes a `run`.
pub(crate) fn resumed(words: &[OsString]) -> Vec<OsString> {
    words.iter().map(|word| if word == "--stdin" { "--resume".into() } else { word.clone() }).collect()
}

fn form(question: &str) -> Object {
    let field = Object::new().text("type", "string").text("title", question);
    let schema = Object::new()
        .text("type", "object")
        .object_or_null("properties", Some(Object::new().object_or_null(FIELD, Some(field))))
        .list("required", &[FIELD.into()]);
    let params = Object::new()
        .text("mode", "form")
        .text("message", question)
        .object_or_null("requestedSchema", Some(schema));
    Object::new().text("method", "elicitation/create").object_or_null("params", Some(params))
}
