//! What came from a machine, as it is printed here.

use std::io::{self, Write};

use crate::{
    cli, json,
    machine::{WORKER, name::MachineName},
    outcome::{Failure, Result},
    session::Handle,
    terminal::text,
    ts::elsewhere::{CHOOSE, Plan},
};

/// Commands that print what a session has printed, as it is.
const RAW: [&str; 6] = ["read", "read-new", "run", "ask", "attach", "cast"];

/// Prints what came from a machine.
pub(super) struct Printer {
    pub(super) verb: String,
    pub(super) machine: Option<MachineName>,
    pub(super) json: bool,
    raw: bool,
    /// What went wrong is told when it is known what it came to.
    errors_last: bool,
    /// Of each stream, what has come of a line.
    line: Vec<u8>,
    error_line: Vec<u8>,
    pub(super) kept: Vec<u8>,
    kept_errors: Vec<u8>,
    nonsense: bool,
    /// Of a table: errors are for a person all the same.
    pub(super) table: bool,
}

/// Who says what is said of a call.
pub(super) fn voice(verb: &str) -> &'static str {
    if verb == WORKER { "nbs-spawn-worker" } else { "nbs-ts" }
}

/// What an error says, as `--json` has it printed.
pub(crate) fn said_in_json(line: &str) -> Option<String> {
    let object: serde_json::Value = serde_json::from_slice(line.as_bytes()).ok()?;
    object["error"].as_str().map(|message| text::escaped(message.as_bytes()))
}

/// Does a line begin with the handle of a worker, and is no state?
fn is_of_worker(line: &str) -> bool {
    let first = line.split('\t').next().unwrap_or_default();
    first.rsplit_once('-').is_some_and(|(_, digits)| Handle::parse(digits.as_bytes()).is_some())
}

/// A line with commands that it names for what to do next, as they are to be typed here.
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

/// What holds a handle in an object.
const HANDLES: [&str; 4] = ["handle", "session_id", "restarted", "restarted_as"];

/// A line that is longer is cut; a command may be that long.
const LONGEST_LINE: usize = 4 << 20;
/// A machine that prints a larger object prints nonsense.
const LONGEST_OBJECT: usize = 1 << 30;
/// And so does one that prints more than this while others are to be printed before it.
const MOST_KEPT: usize = 1 << 30;

impl Printer {
    pub(super) fn new(verb: &str, machine: Option<MachineName>, plan: &Plan) -> Printer {
        let raw = RAW.contains(&verb) || (verb == "screen" && plan.ansi);
        let raw = raw && !plan.json;
        Printer {
            verb: verb.to_owned(),
            machine,
            json: plan.json || plan.table || verb == "events",
            raw,
            errors_last: CHOOSE.contains(&verb) && plan.picks,
            line: Vec::new(),
            error_line: Vec::new(),
            kept: Vec::new(),
            kept_errors: Vec::new(),
            nonsense: false,
            table: plan.table,
        }
    }

    pub(super) fn stdout(&mut self, bytes: &[u8]) -> Result<()> {
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
        self.print_kept(true)
    }

    pub(super) fn keep(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            // Half an object is none.
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
        let said = |line: &str| said_in_json(line).filter(|_| self.table);
        let Some(machine) = &self.machine else {
            return said(line).map_or_else(|| format!("{line}\n"), |said| format!("{who}: {said}\n"));
        };
        let line = &as_typed_here(line, machine);
        match said(line) {
            None if line.starts_with("{\"") => format!("{{\"machine\":\"{machine}\",{}\n", &line[1..]),
            said => {
                let said = said.as_deref().unwrap_or_else(|| line.strip_prefix("nbs-ts: ").unwrap_or(line));
                format!("{who}: {machine}: {said}\n")
            }
        }
    }

    /// A line with the machine in it.
    fn shown(&mut self, line: &[u8]) -> String {
        let Some(machine) = &self.machine else { return format!("{}\n", String::from_utf8_lossy(line)) };
        if self.json && line.starts_with(b"{\"") {
            let mut line = json::shown(&String::from_utf8_lossy(line));
            for key in HANDLES {
                let key = format!("\"{key}\":\"");
                line = line.replacen(&key, &format!("{key}{machine}:"), 1);
            }
            return format!("{{\"machine\":\"{machine}\",{}\n", &line[1..]);
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
            "list" | "wait" | WORKER => format!("{machine}:{line}\n"),
            "gc" | "doctor" => format!("{machine}: {line}\n"),
            _ => format!("{line}\n"),
        }
    }

    /// It has said what it cannot mean.
    pub(super) fn is_nonsense(&self) -> Option<Failure> {
        let machine = self.machine.as_ref().filter(|_| self.nonsense)?;
        let message = format!("{machine}: what came from there is no handle");
        Some(Failure::status(255, "lost", Some(message)))
    }

    pub(super) fn print_kept(&mut self, to_the_end: bool) -> Result<()> {
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
        // Where standard error is gone there is nobody left to tell.
        let _ = io::stderr().write_all(&std::mem::take(&mut self.kept_errors));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_next_is_said_as_it_is_typed_here() {
        let machine = MachineName::parse(b"box").unwrap();
        let cases = [
            (
                "it is stopped; 'nbs-ts run 0123abcd fg' goes on with session '0123abcd'",
                "it is stopped; 'nbs-ts run box:0123abcd fg' goes on with session '0123abcd'",
            ),
            (
                "there is no '@a'; 'nbs-ts list' shows all",
                "there is no '@a'; 'nbs-ts list --on=box' shows all",
            ),
            ("the shell's; 'nbs-ts kill @work'", "the shell's; 'nbs-ts kill box:@work'"),
            ("see 'nbs-ts help ask'", "see 'nbs-ts help ask'"),
        ];
        for (line, expected) in cases {
            assert_eq!(as_typed_here(line, &machine), expected);
        }
    }
}
