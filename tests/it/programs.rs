//! Real programs, each with the same tests: an answer of one line, a definition of several, no answer, a
//! mistake, ten thousand lines, a long one, text that is not ASCII, a question, an interrupt, a slow answer.
//! Programs that are large to install have a step of their own in CI.

use std::process::Command;

use crate::support::{Scratch, binary, run};

/// Through the table's row of that name.
fn answers(row: &str, command: &str) {
    let scratch = Scratch::new();
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/table.py");
    let mut python = Command::new("python3");
    python.arg(table).arg(binary()).arg(format!("{row}={command}"));
    run(python.current_dir(&scratch.path)).code(0).stdout(format!("{row}: as it should be\n"));
}

#[test]
fn python() {
    answers("python", "python3");
}

#[test]
fn sqlite() {
    answers("sqlite3", "sqlite3");
}

#[test]
fn gdb() {
    answers("gdb", "gdb -q");
}

#[test]
fn bash() {
    answers("shell", "bash");
}

#[test]
fn dash() {
    answers("shell", "dash");
}

#[test]
fn zsh() {
    answers("shell", "zsh -f");
}

#[test]
fn fish() {
    answers("fish", "fish --no-config");
}

#[test]
fn tmux() {
    answers("tmux", "tmux -S \"$HOME/tmux\" -f /dev/null new-session 'bash --norc'");
}
