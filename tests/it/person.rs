//! A person's terminal, which is another session's: its screen, and how it is left, can be read.

use std::fs;

use crate::support::{Scratch, eventually};

/// A shell at a person's terminal, before the call.
pub(crate) fn person(scratch: &Scratch, size: &str) -> String {
    let shell = scratch.create_with(&["--name=person", &format!("--size={size}")], "bash");
    scratch.ts(&["run", &shell, "stty -a >before; PS1='out> '"]).code(0);
    shell
}

/// Writes the call's exit code to a file: text printed right after a call that was killed may be on the
/// screen that is then restored.
pub(crate) fn call(scratch: &Scratch, person: &str, words: &str) {
    let rc = scratch.path.join("rc");
    let _ = fs::remove_file(&rc);
    scratch.ts(&["send", person, &format!("{words}; echo $? >{}", rc.display())]).code(0);
}

pub(crate) fn keys(scratch: &Scratch, person: &str, keys: &[u8]) {
    scratch.ts_with_input(&["send", "--stdin", "--no-enter", person], keys).code(0);
}

/// The person is back at the shell, and the terminal's modes are restored. Gives all that it was sent.
pub(crate) fn is_back(scratch: &Scratch, person: &str, code: i32) -> String {
    eventually("no viewer", || scratch.processes().iter().all(|process| !process.contains("nbs-viewer")));
    let told = || fs::read_to_string(scratch.path.join("rc")).unwrap_or_default();
    eventually(&format!("exit code {code}"), || told() == format!("{code}\n"));
    scratch.ts(&["wait", person, "--input"]).code(0);
    scratch.ts(&["run", person, "stty -a >after; cmp before after"]).code(0);
    let screen = scratch.ts(&["screen", "--json", person]).out();
    assert!(screen.contains("\"visible\":true") && screen.contains("\"alternate\":false"), "{screen}");
    scratch.file(person, "output.log")
}
