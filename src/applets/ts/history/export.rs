//! The history in other forms: spans of OpenTelemetry, and a script.

use std::time::Duration;

use crate::{
    json::Object,
    outcome::Result,
    session::{
        CommandEntry, SESSION_ENV, SessionDir,
        shell::{Dialect, ShellCommand, fish_quoted},
    },
    sys::{clock::unix_seconds, processes::Process},
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExportForm {
    Otel,
    Sh,
}

impl ExportForm {
    pub(super) fn parse(word: &[u8]) -> Option<ExportForm> {
        match word {
            b"otel" => Some(ExportForm::Otel),
            b"sh" => Some(ExportForm::Sh),
            _ => None,
        }
    }
}

pub(super) fn export(form: ExportForm, session: &SessionDir, entries: &[CommandEntry]) -> Result<String> {
    match form {
        ExportForm::Otel => Ok(spans(session, entries)),
        ExportForm::Sh => script(session, entries),
    }
}

/// For each command, the place of the nested shell in which it was executed, if it was in one.
fn around(entries: &[CommandEntry]) -> Vec<Option<usize>> {
    let (mut all, mut open): (_, Vec<usize>) = (Vec::new(), Vec::new());
    for (at, entry) in entries.iter().enumerate() {
        while open.pop_if(|outer| entries[*outer].shell >= entry.shell).is_some() {}
        all.push(open.last().copied());
        open.push(at);
    }
    all
}

/// An OTLP request a line, as the file exporter of OpenTelemetry's collector has them.
fn spans(session: &SessionDir, entries: &[CommandEntry]) -> String {
    let handle = session.handle();
    let given = traceparent(session);
    let started = session.started().map(unix_seconds).unwrap_or_default();
    let trace = given.as_ref().map_or_else(
        || format!("{handle}{:024x}", started.as_nanos() & u128::from(u64::MAX)),
        |(trace, _)| trace.clone(),
    );
    let span_of = |entry: &CommandEntry| format!("{handle}{:08x}", entry.id & u64::from(u32::MAX));
    let nanoseconds = |time: Duration| time.as_nanos().to_string();
    let attribute = |key: &str, kind: &str, value: &str| {
        Object::new().text("key", key).object_or_null("value", Some(Object::new().text(kind, value)))
    };
    let mut lines = String::new();
    for (entry, around) in entries.iter().zip(around(entries)) {
        // A span has an end.
        let Some(duration) = entry.duration else { continue };
        let program = entry.command.split_whitespace().next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or(program);
        let parent = around.map(|around| span_of(&entries[around]));
        let parent = parent.or_else(|| given.as_ref().map(|(_, parent)| parent.clone()));
        let mut attributes = vec![
            attribute("process.executable.name", "stringValue", program),
            attribute("process.command_line", "stringValue", &entry.command),
            attribute("nbs.source", "stringValue", entry.source.word()),
        ];
        if let Some(code) = entry.exit_code {
            attributes.push(attribute("process.exit.code", "intValue", &code.to_string()));
        }
        if let Some(folder) = &entry.folder {
            attributes.push(attribute("process.working_directory", "stringValue", folder));
        }
        let span = Object::new().text("traceId", &trace).text("spanId", &span_of(entry));
        let span = if let Some(parent) = parent { span.text("parentSpanId", &parent) } else { span };
        let status = Object::new().number("code", if entry.has_failed() { 2 } else { 0 });
        let span = span
            .text("name", program)
            .number("kind", 1)
            .text("startTimeUnixNano", &nanoseconds(entry.started))
            .text("endTimeUnixNano", &nanoseconds(entry.started + duration))
            .objects("attributes", attributes.into_iter())
            .object_or_null("status", Some(status));
        let resource = [
            attribute("service.name", "stringValue", "nbs"),
            attribute("nbs.session", "stringValue", handle.as_str()),
        ];
        let scope = Object::new()
            .object_or_null("scope", Some(Object::new().text("name", "nbs")))
            .objects("spans", [span].into_iter());
        let resource = Object::new().objects("attributes", resource.into_iter());
        let spans = Object::new()
            .object_or_null("resource", Some(resource))
            .objects("scopeSpans", [scope].into_iter());
        lines += &Object::new().objects("resourceSpans", [spans].into_iter()).line();
    }
    lines
}

/// The trace and the span that its program was started in (W3C trace context), as its environment has
/// it; only while it is alive.
fn traceparent(session: &SessionDir) -> Option<(String, String)> {
    let process = Process::read(session.pid()?)?;
    let ours = format!("{SESSION_ENV}={}", session.handle());
    if !process.had_in_environment(ours.as_bytes()) {
        return None;
    }
    let [value] = process.variables(["TRACEPARENT"]);
    let value = String::from_utf8(value?).ok()?;
    let parts: Vec<&str> = value.split('-').collect();
    let is_hex =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    match parts[..] {
        [_, trace, span, _, ..] if is_hex(trace, 32) && is_hex(span, 16) => Some((trace.into(), span.into())),
        _ => None,
    }
}

/// The commands of the session's own shell; those of nested shells are comments.
fn script(session: &SessionDir, entries: &[CommandEntry]) -> Result<String> {
    let shell = ShellCommand::parse(&session.command()?).map(|shell| shell.dialect);
    let program = match shell {
        Some(Dialect::Bash) => "bash",
        Some(Dialect::Zsh) => "zsh",
        Some(Dialect::Fish) => "fish",
        Some(Dialect::Posix) | None => "sh",
    };
    let around = around(entries);
    let mut script = format!("#!/usr/bin/env {program}\n# The commands of session {}\n", session.handle());
    let mut folder = None;
    for (at, entry) in entries.iter().enumerate() {
        if entry.shell > 0 {
            script += &format!("# In a nested shell: {}\n", entry.on_one_line());
        } else if around.contains(&Some(at)) {
            script += &format!("# It started a nested shell: {}\n", entry.on_one_line());
        } else {
            if entry.folder != folder
                && let Some(there) = &entry.folder
            {
                let there = match shell {
                    Some(Dialect::Fish) => fish_quoted(there.as_ref()).to_string_lossy().into_owned(),
                    _ => format!("'{}'", there.replace('\'', "'\\''")),
                };
                script += &format!("cd -- {there}\n");
            }
            folder = entry.folder.clone();
            script += &format!("{}\n", entry.command);
        }
    }
    Ok(script)
}
