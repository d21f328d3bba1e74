//! The answers of tmux 3.3a to many commands, as recorded by `tests/terminal/tmux-answers`.

use std::fs;

use super::{tmux, told};
use crate::support::Scratch;

/// The parts of a file of commands, each for a call of its own, with the number of each line before its answer.
fn parts(commands: &str) -> Vec<String> {
    let places = include_str!("../golden/tmux/places.format").trim();
    let mut parts = vec![String::new()];
    for (number, line) in (1..).zip(commands.lines()) {
        let part = parts.last_mut().unwrap();
        match line {
            "---" => parts.push(String::new()),
            "=" => *part += &format!("display-message -p '{number}:'\nlist-panes -a -F '{places}'\n"),
            line => *part += &format!("display-message -p '{number}:'\n{line}\n"),
        }
    }
    parts
}

fn answers_as(commands: &str, expected: &str) {
    let scratch = Scratch::new();
    told(&scratch, &["new-session", "-d", "-s", "a", "-x", "80", "-y", "24", "cat -"]);
    let (mut out, mut errors) = (String::new(), String::new());
    let file = scratch.state().join("commands");
    for part in parts(commands) {
        fs::write(&file, part).unwrap();
        let ran = tmux(&scratch, &["source-file", file.to_str().unwrap()]);
        out += &ran.out();
        errors += &ran.err();
    }
    fs::remove_file(file).unwrap();
    let answers = format!("{out}--\n{errors}");
    let mut last = "";
    for (line, (ours, theirs)) in (1..).zip(answers.lines().zip(expected.lines())) {
        if theirs.trim_end_matches(':').parse::<u32>().is_ok() {
            last = theirs;
        }
        assert_eq!(ours, theirs, "line {line} of the answers, to command {last}");
    }
    assert_eq!(answers.lines().count(), expected.lines().count());
    told(&scratch, &["kill-server"]);
}

#[test]
fn formats_expand_as_in_tmux() {
    answers_as(include_str!("../golden/tmux/formats.conf"), include_str!("../golden/tmux/formats.txt"));
}

#[test]
fn options_variables_and_buffers_answer_as_in_tmux() {
    answers_as(include_str!("../golden/tmux/options.conf"), include_str!("../golden/tmux/options.txt"));
}

#[test]
fn targets_are_found_as_in_tmux() {
    answers_as(include_str!("../golden/tmux/targets.conf"), include_str!("../golden/tmux/targets.txt"));
}

#[test]
fn windows_are_divided_as_in_tmux() {
    answers_as(include_str!("../golden/tmux/layouts.conf"), include_str!("../golden/tmux/layouts.txt"));
}

#[test]
fn windows_move_as_in_tmux() {
    answers_as(include_str!("../golden/tmux/places.conf"), include_str!("../golden/tmux/places.txt"));
}
