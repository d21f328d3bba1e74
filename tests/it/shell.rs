use std::fs;

use crate::support::{Scratch, eventually};

/// A shell of a user with this in their ~/.bashrc.
fn shell(scratch: &Scratch, bashrc: &str) -> String {
    fs::write(scratch.home().join(".bashrc"), bashrc).unwrap();
    scratch.create("bash")
}

/// Runs a line, and gives its exit code and everything printed since the last.
fn line(scratch: &Scratch, handle: &str, text: &str) -> (String, String) {
    scratch.ts(&["send", handle, text]).code(0);
    let code = scratch.ts(&["wait-complete", handle]).code(0).out();
    (code.trim_end().to_owned(), scratch.ts(&["read-new", handle, "--strip"]).code(0).out())
}

#[test]
fn the_first_prompt_is_number_0() {
    let (scratch, handle) = Scratch::with_session("bash");
    eventually("the first prompt", || scratch.file(&handle, "completion.log") == "0 0\n");
    for command in ["bash -i", "bash"] {
        let handle = scratch.create(command);
        assert_eq!(line(&scratch, &handle, "false").0, "1");
        assert_eq!(scratch.file(&handle, "completion.log"), "0 0\n1 1\n");
    }
}

#[test]
fn a_shell_keeps_its_folder_and_variables() {
    let (scratch, handle) = Scratch::with_session("bash");
    fs::create_dir(scratch.path.join("sub")).unwrap();
    line(&scratch, &handle, "cd sub; x=42; f() { echo \"f:$x\"; }");
    let (code, printed) = line(&scratch, &handle, "pwd; f");
    assert_eq!(code, "0");
    assert!(printed.contains(&format!("{}/sub\nf:42\n", scratch.path.display())), "{printed}");
}

#[test]
fn every_command_is_reported_with_its_own_code() {
    let (scratch, handle) = Scratch::with_session("bash");
    for (text, code) in [
        ("true", "0"),
        ("false", "1"),
        ("(exit 42)", "42"),
        ("true | false", "1"),
        ("kill -9 $BASHPID & wait $!", "137"),
        ("sh -c 'kill -TERM $$'", "143"),
        ("no-such-program-here", "127"),
        ("if", "2"),
    ] {
        if text == "if" {
            // An unfinished command does not count; ^C ends it, and is reported as 130.
            scratch.ts(&["send", &handle, "if"]).code(0);
            scratch.ts(&["wait-complete", &handle, "--timeout=0.2"]).code(3);
            scratch.ts(&["wait-pattern", &handle, "> "]).code(0);
            scratch.ts(&["send", "--no-enter", &handle, "\u{3}"]).code(0);
            scratch.ts(&["wait-complete", &handle]).code(0).stdout("130\n");
            continue;
        }
        assert_eq!(line(&scratch, &handle, text).0, code, "{text}");
    }
}

#[test]
fn the_users_own_settings_hold() {
    let scratch = Scratch::new();
    let cases = [
        ("PS1='> '; PROMPT_COMMAND='echo status:$?'", "status:3\n"),
        ("PS1='> '; PROMPT_COMMAND=('echo one:$?' 'echo two:$?')", "one:3\ntwo:3\n"),
        ("PS1='> '; prompt() { PS1=\"[$?]> \"; }; PROMPT_COMMAND=prompt", "[3]> "),
        ("PS1='> '; PS0='before '; set -u", "before "),
        ("PS1='> '; set -o noclobber; IFS=0123456789; shopt -s extdebug; trap ': debug' DEBUG", "> "),
        ("PS1='> '; alias printf=false local=false builtin=false echo=echo", "> "),
        ("return; echo never", "\n"),
        ("PS1='> '; set -o vi; HISTCONTROL=ignoredups; readonly NBS=1", "> "),
    ];
    for (bashrc, expected) in cases {
        let handle = shell(&scratch, bashrc);
        let first = line(&scratch, &handle, "(exit 3)");
        assert_eq!(first.0, "3", "{bashrc}: {first:?}");
        // The prompt that follows is printed after the command is reported.
        scratch.ts(&["send", &handle, "true"]).code(0);
        scratch.ts(&["wait-complete", &handle]).code(0).stdout("0\n");
        let printed = first.1 + &scratch.ts(&["read-new", "--strip", &handle]).out();
        assert!(printed.contains(expected), "{bashrc}: {printed:?}");
        assert!(!printed.contains("nbs=") && !printed.contains("__nbs"), "{bashrc}: {printed:?}");
        assert_eq!(scratch.file(&handle, "completion.log"), "0 0\n1 3\n2 0\n", "{bashrc}");
        scratch.ts(&["kill", &handle]).code(0);
    }
}

#[test]
fn output_that_is_sent_elsewhere_hides_no_completion() {
    let (scratch, handle) = Scratch::with_session("bash");
    assert_eq!(line(&scratch, &handle, "exec >elsewhere 2>&1").0, "0");
    assert_eq!(line(&scratch, &handle, "echo hidden; (exit 9)").0, "9");
    let elsewhere = fs::read_to_string(scratch.path.join("elsewhere")).unwrap();
    assert!(elsewhere.contains("hidden\n"), "{elsewhere}");
}

#[test]
fn marks_bound_the_output_and_name_the_folder() {
    let (scratch, handle) = Scratch::with_session("bash");
    line(&scratch, &handle, "mkdir 'a b'; cd 'a b'");
    line(&scratch, &handle, "printf 'just this'");
    let printed = scratch.ts(&["read", &handle]).out();
    let begin = printed.rfind("\u{1b}]133;C;").unwrap();
    let begin = begin + printed[begin..].find('\u{7}').unwrap() + 1;
    let end = begin + printed[begin..].find("\u{1b}]133;D;0;").unwrap();
    assert_eq!(&printed[begin..end], "just this");
    assert!(printed.contains(&format!("{}/a%20b\u{7}", scratch.path.display())), "{printed:?}");
}

#[test]
fn a_mark_cannot_be_forged_by_what_a_program_prints() {
    let (scratch, handle) = Scratch::with_session("bash");
    line(&scratch, &handle, "true");
    let log = scratch.folder(&handle).join("output.log");
    fs::copy(log, scratch.path.join("replay")).unwrap();
    assert_eq!(line(&scratch, &handle, "cat replay; printf '\\e]133;D;0;nbs=x.3\\a'; (exit 5)").0, "5");
    assert_eq!(scratch.file(&handle, "completion.log"), "0 0\n1 0\n2 5\n");
}

#[test]
fn nothing_of_ours_is_in_the_environment_of_commands_or_in_the_history() {
    let (scratch, handle) = Scratch::with_session("bash");
    let (_, printed) = line(&scratch, &handle, "env | grep -i __nbs; history");
    assert!(!printed.contains("__nbs_"), "{printed}");
    let listed: Vec<&str> = printed.lines().filter(|line| line.contains("  ")).collect();
    assert_eq!(listed.len(), 1, "{printed}");
}

#[test]
fn job_control_works() {
    let (scratch, handle) = Scratch::with_session("bash");
    let (_, printed) = line(&scratch, &handle, "true");
    assert!(!printed.contains("no job control"), "{printed}");
    scratch.ts(&["send", &handle, "sleep 1000"]).code(0);
    // Before it is itself, bash may lose the signal.
    eventually("sleep", || scratch.processes().iter().any(|process| process.ends_with(": sleep 1000 ")));
    scratch.ts(&["send", "--no-enter", &handle, "\u{1a}"]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("148\n");
    assert_eq!(line(&scratch, &handle, "bg; kill %1; wait %1").0, "143");
}

#[test]
fn interrupted_floods_stop_no_completions() {
    let (scratch, handle) = Scratch::with_session("bash");
    // An interrupt that comes while bash starts ends it.
    scratch.ts(&["run", &handle, "true"]).code(0);
    // ^C makes the kernel discard unread output, and with it, at times, the shell's report.
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..60 {
        scratch.ts(&["send", &handle, "seq 1 6000"]).code(0);
        for _ in 0..random.usize(..400_000) {
            std::hint::spin_loop();
        }
        scratch.ts(&["send", "--no-enter", &handle, "\u{3}"]).code(0);
    }
    // bash also discards input that comes before it has processed the last ^C.
    eventually("its completion", || {
        scratch.ts(&["send", &handle, "(exit 77)"]).code(0);
        scratch.file(&handle, "completion.log").contains(" 77\n")
    });
}
