//! Prints the output of calls on a machine.

use std::io::{self, Write};

use crate::{
    cli,
    json::{self, Object, Value},
    machine::{WORKER, name::MachineName},
    outcome::{Failure, Result},
    session::Handle,
    terminal::text::{self, Strip},
    ts::remote::{CHOOSE, LOST, Plan},
    worker::WorkerHandle,
};

/// Commands that print a session's output unchanged.
const RAW: [&str; 5] = ["read", "read-new", "run", "ask", "attach"];

/// Commands whose lines are useless if incomplete.
const WHOLE: [&str; 8] = ["cast", "create", "ensure", "find", "kill", "list", "restart", "wait"];

/// Prints a machine's output.
pub(super) struct Printer {
    pub(super) verb: String,
    pub(super) machine: Option<MachineName>,
    pub(super) json: bool,
    raw: bool,
    /// Removes escape sequences from the output of a session there.
    strip: Option<Strip>,
    /// Errors are printed once the result is known.
    errors_last: bool,
    /// The incomplete line of each stream.
    line: Vec<u8>,
    error_line: Vec<u8>,
    pub(super) kept: Vec<u8>,
    kept_errors: Vec<u8>,
    nonsense: bool,
    /// The output is part of a table.
    table: bool,
    pub(super) json_errors: bool,
}

/// The name before the errors of a call.
pub(super) fn voice(verb: &str) -> &'static str {
    if verb == WORKER { "nbs-spawn-worker" } else { "nbs-ts" }
}

/// Does a line begin with the handle of a worker, and is not a state?
fn is_of_worker(line: &str) -> bool {
    WorkerHandle::parse(line.split('\t').next().unwrap_or_default().as_bytes()).is_some()
}

/// Is it the handle of a session, or of a worker?
fn is_handle(word: &str) -> bool {
    Handle::parse(word.as_bytes()).is_some() || WorkerHandle::parse(word.as_bytes()).is_some()
}

/// An object that a machine printed, with the machine's name in it and in each handle; its own
/// statement about the machine is ignored. `None` if it is not an object, or has an invalid handle.
fn object_of(machine: &MachineName, line: &str) -> Option<String> {
    let mut object = Object::new().text("machine", machine.as_str());
    for (name, value) in json::fields(line)?.into_iter().filter(|(name, _)| name != "machine") {
        object = match HANDLES.contains(&&*name) && value != "null" {
            true => {
                let handle = json::parse_text(value.as_bytes()).filter(|word| is_handle(word))?;
                object.text(&name, &format!("{machine}:{handle}"))
            }
            false => object.json(&name, &json::shown(value)),
        };
    }
    Some(object.line())
}

/// A line with the commands that it suggests, in the form to type here.
fn as_typed_here(line: &str, machine: &MachineName) -> String {
    let word_here = |word: &str| match Handle::parse(word.as_bytes()).is_some() || word.starts_with('@') {
        true => format!("{machine}:{word}"),
        false if word == "list" => format!("list --on={machine}"),
        false => word.to_owned(),
    };
    let part_here = |part: &str| match part.strip_prefix("nbs-ts ") {
        Some(words) => format!("nbs-ts {}", words.split(' ').map(word_here).collect::<Vec<_>>().join(" ")),
        None => part.to_owned(),
    };
    line.split('\'').map(part_here).collect::<Vec<_>>().join("'")
}

/// The fields with a handle in an object.
const HANDLES: [&str; 4] = ["handle", "session_id", "restarted", "restarted_as"];

/// A line that is longer is cut; a command may be that long.
const LONGEST_LINE: usize = 4 << 20;
/// A machine that prints a larger object prints nonsense.
const LONGEST_OBJECT: usize = 1 << 30;
/// And so does a machine that prints more than this while others are to be printed before it.
const MOST_KEPT: usize = 1 << 30;

/// The text of these bytes, as far as it is complete.
fn stripped(strip: &mut Strip, bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    strip.feed(bytes, &mut text);
    text
}

impl Printer {
    pub(super) fn new(verb: &str, machine: Option<MachineName>, plan: &Plan) -> Printer {
        let raw = RAW.contains(&verb) || (verb == "screen" && plan.ansi);
        let raw = raw && !plan.json;
        let strip = (raw && plan.strips && machine.is_some()).then(Strip::new);
        Printer {
            verb: verb.to_owned(),
            machine,
            json: plan.json || plan.table || verb == "events",
            raw,
            strip,
            errors_last: CHOOSE.contains(&verb) && plan.picks,
            line: Vec::new(),
            error_line: Vec::new(),
            kept: Vec::new(),
            kept_errors: Vec::new(),
            nonsense: false,
            table: plan.table,
            json_errors: plan.json || verb == "events",
        }
    }

    pub(super) fn stdout(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(strip) = &mut self.strip {
            return cli::print(stripped(strip, bytes));
        }
        if self.raw {
            return cli::print(bytes);
        }
        self.keep(bytes);
        self.print_kept(false)
    }

    pub(super) fn stderr(&mut self, bytes: &[u8]) {
        self.keep_error(bytes);
        self.print_errors();
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some(strip) = &mut self.strip {
            let mut rest = Vec::new();
            strip.finish(&mut rest);
            cli::print(rest)?;
        }
        self.print_kept(true)
    }

    pub(super) fn keep(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            // An incomplete object is invalid.
            self.nonsense |= self.json && self.line.len() > LONGEST_OBJECT || self.kept.len() > MOST_KEPT;
            if self.nonsense {
                return;
            }
            if piece.ends_with(b"\n") || !self.json && self.line.len() > LONGEST_LINE {
                let line = std::mem::take(&mut self.line);
                let line = self.shown(line.strip_suffix(b"\n").unwrap_or(&line));
                self.kept.extend(line.into_bytes());
            }
        }
    }

    pub(super) fn keep_error(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.error_line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.error_line.len() > LONGEST_LINE {
                let line = std::mem::take(&mut self.error_line);
                let line = text::escaped(line.strip_suffix(b"\n").unwrap_or(&line));
                let line = self.error_shown(&line);
                self.kept_errors.extend(line.into_bytes());
            }
        }
    }

    fn error_shown(&self, line: &str) -> String {
        let who = voice(&self.verb);
        let said = |line: &str| json::error_of(line).filter(|_| self.table && !self.json_errors);
        let Some(machine) = &self.machine else {
            return said(line).map_or_else(|| format!("{line}\n"), |said| format!("{who}: {said}\n"));
        };
        let line = &as_typed_here(line, machine);
        match said(line) {
            None if json::fields(line).is_some_and(|fields| !fields.is_empty()) => {
                // Its session has no handle, or one of that machine.
                object_of(machine, line).unwrap_or_default()
            }
            said => {
                let said = said.as_deref().unwrap_or_else(|| line.strip_prefix("nbs-ts: ").unwrap_or(line));
                format!("{who}: {machine}: {said}\n")
            }
        }
    }

    /// A line with the machine in it.
    fn shown(&mut self, line: &[u8]) -> String {
        let Some(machine) = &self.machine else { return format!("{}\n", String::from_utf8_lossy(line)) };
        if self.json || self.verb == "cast" {
            let line = std::str::from_utf8(line).ok();
            let line = line.and_then(|line| match self.verb == "cast" {
                true => Value::parse(line.as_bytes()).ok().map(|_| json::shown(line) + "\n"),
                false => object_of(machine, line),
            });
            self.nonsense |= line.is_none();
            return line.unwrap_or_default();
        }
        // Between the columns of a list there are tabs.
        let columns: Vec<String> = line.split(|byte| *byte == b'\t').map(text::escaped).collect();
        let line = columns.join("\t");
        match self.verb.as_str() {
            "create" | "ensure" | "find" | "restart" => {
                self.nonsense |= Handle::parse(line.as_bytes()).is_none();
                format!("{machine}:{line}\n")
            }
            WORKER if !is_of_worker(&line) => format!("{line}\n"),
            "history" => {
                // The history of several sessions begins with their handles.
                let handle = line.split(' ').next().unwrap_or_default();
                let is_of_several = Handle::parse(handle.as_bytes()).is_some();
                format!("{}{line}\n", if is_of_several { format!("{machine}:") } else { String::new() })
            }
            "kill" | "list" | "wait" => {
                let handle = line.split('\t').next().unwrap_or_default();
                self.nonsense |= Handle::parse(handle.as_bytes()).is_none();
                format!("{machine}:{line}\n")
            }
            WORKER => format!("{machine}:{line}\n"),
            "gc" | "doctor" => format!("{machine}: {line}\n"),
            _ => format!("{line}\n"),
        }
    }

    /// It has printed something invalid.
    pub(super) fn is_nonsense(&self) -> Option<Failure> {
        let machine = self.machine.as_ref().filter(|_| self.nonsense)?;
        let message = format!("{machine}: it sent invalid data");
        Some(Failure::status(LOST, "lost", Some(message)))
    }

    pub(super) fn print_kept(&mut self, to_the_end: bool) -> Result<()> {
        // An incomplete object or handle is invalid: the connection cut it off.
        if to_the_end && (self.json || WHOLE.contains(&&*self.verb)) {
            self.line.clear();
        }
        if to_the_end && !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            let line = self.shown(&line);
            self.kept.extend(line.into_bytes());
        }
        if to_the_end && !self.error_line.is_empty() {
            self.keep_error(b"\n");
        }
        if to_the_end || !self.errors_last {
            self.print_errors();
        }
        if self.table {
            return Ok(());
        }
        let kept = std::mem::take(&mut self.kept);
        if kept.is_empty() || self.nonsense {
            return Ok(());
        }
        cli::print(kept)
    }

    fn print_errors(&mut self) {
        // If standard error is closed, there is no one to notify.
        let _ = io::stderr().write_all(&std::mem::take(&mut self.kept_errors));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_of_the_machine_that_printed_it_whatever_it_says() {
        let machine = MachineName::parse(b"box").unwrap();
        let shown = |line: &str| object_of(&machine, line);
        let right =
            r#"{"handle":"0123abcd","name":"a","machine":"local","started":5.50,"restarted_as":null}"#;
        let expected =
            r#"{"machine":"box","handle":"box:0123abcd","name":"a","started":5.50,"restarted_as":null}"#;
        assert_eq!(shown(right), Some(format!("{expected}\n")));
        let worker = shown(r#"{"handle":"coder-0123abcd","state":"done"}"#);
        assert_eq!(
            worker.as_deref(),
            Some("{\"machine\":\"box\",\"handle\":\"box:coder-0123abcd\",\"state\":\"done\"}\n")
        );
        assert_eq!(shown("{}").as_deref(), Some("{\"machine\":\"box\"}\n"));
        let nested = shown("{\"a\":{\"machine\":\"x\",\"b\":\"\u{9b}\"}}");
        assert_eq!(
            nested.as_deref(),
            Some("{\"machine\":\"box\",\"a\":{\"machine\":\"x\",\"b\":\"\\u009b\"}}\n")
        );
        for wrong in [
            r#"{"handle":"other:0123abcd"}"#,
            r#"{"handle":"0123abcd","handle":"0123abce"}"#,
            r#"{"handle":7}"#,
            r#"{"session_id":"../../x"}"#,
            r#"{"handle":"0123abcd"},{"handle":"0123abcd"}"#,
            r#"["handle"]"#,
            "\u{1b}[2J",
        ] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
    }

    fn call(verb: &str, strips: bool, json: bool) -> Printer {
        let plan = Plan {
            parts: Vec::new(),
            json,
            stdin: None,
            timeout: None,
            any: false,
            picks: false,
            interactive: false,
            ansi: false,
            strips,
            table: false,
            last: None,
            at_once: false,
            follows: false,
        };
        Printer::new(verb, MachineName::parse(b"box"), &plan)
    }

    #[test]
    fn no_escape_sequence_comes_through_where_it_was_asked_for_text() {
        let lie = b"a\x1b]52;c;aGVsbG8=\x07b\x1b[2Jc\n";
        let mut read = call("read", true, false);
        assert_eq!(stripped(read.strip.as_mut().unwrap(), lie), b"abc\n");
        // Text that was stripped there stays as it is.
        let text = "ä\t1\n2\r3 漢\n".as_bytes();
        assert_eq!(stripped(read.strip.as_mut().unwrap(), text), text);
        assert!(call("read", false, false).strip.is_none());
        let (mut cast, line) = (call("cast", false, false), r#"[0.5,"o","\u001b[m"]"#);
        assert_eq!(cast.shown(line.as_bytes()), format!("{line}\n"));
        assert!(cast.is_nonsense().is_none());
        assert_eq!(cast.shown(lie), "");
        assert!(cast.is_nonsense().is_some());
    }

    #[test]
    fn a_line_of_another_machine_begins_with_a_handle_of_its_own() {
        for (line, expected) in [
            (&b"0123abcd\talive\t-\tcat"[..], Some("box:0123abcd\talive\t-\tcat\n")),
            (b"other:0123abcd\talive\t-\tcat", None),
            (b"\x1b[2J", None),
        ] {
            let mut list = call("list", false, false);
            let shown = list.shown(line);
            assert_eq!(list.is_nonsense().is_none().then_some(&*shown), expected);
        }
    }

    #[test]
    fn advice_of_a_machine_names_commands_for_this_one() {
        let machine = MachineName::parse(b"box").unwrap();
        let cases = [
            (
                "it is stopped; 'nbs-ts run 0123abcd fg' goes on with session '0123abcd'",
                "it is stopped; 'nbs-ts run box:0123abcd fg' goes on with session '0123abcd'",
            ),
            ("there is no '@a'; try 'nbs-ts list'", "there is no '@a'; try 'nbs-ts list --on=box'"),
            ("the shell's; 'nbs-ts kill @work'", "the shell's; 'nbs-ts kill box:@work'"),
            ("see 'nbs-ts help ask'", "see 'nbs-ts help ask'"),
        ];
        for (line, expected) in cases {
            assert_eq!(as_typed_here(line, &machine), expected);
        }
    }
}
