//! Output, screen and history: nothing of nbs is seen.

use super::*;

#[test]
fn a_long_output_can_be_cut_in_the_middle() {
    let (scratch, handle) = shell();
    let out = scratch.ts(&["run", "--max=100", &handle, "seq 10000"]).code(0).silent().out();
    assert!(out.starts_with("1\n2\n") && out.ends_with("\n9999\n10000\n"), "{out}");
    let gap = out.lines().find(|line| line.starts_with("[nbs: ")).unwrap();
    let words = gap.split_once("; ").unwrap().1.trim_end_matches(']');
    let rest = scratch.bash(words).code(0).out().replace("\r\n", "\n");
    let whole: String = (1..=10_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(out.replace(&format!("{gap}\n"), &rest), whole);
    scratch.ts(&["run", "--max=1K", &handle, "seq 3"]).code(0).stdout("1\n2\n3\n");
    let out = scratch.ts(&["read", "--max=100", &handle]).code(0).out();
    assert!(out.contains(" bytes left out; nbs-ts read "), "{out}");
    // The printed length counts, not that of removed sequences.
    let fits = scratch.ts(&["run", "--max=48894", &handle, "seq 10000"]).code(0).silent();
    fits.stdout(whole);
    for options in [&["--max=4K"][..], &["--strip", "--max=4K"]] {
        let words = [&["run"], options, &[&handle, "printf '\\e[1m%s\\e[m\\n' {1..10000}"]].concat();
        let out = scratch.ts(&words).code(0).silent().out();
        let (first, rest) = out.split_once("[nbs: ").unwrap();
        let last = rest.split_once("]\n").unwrap().1;
        let line = 14;
        assert!((2048 - line..=2048).contains(&first.len()), "{}", first.len());
        assert!((2048 - line..=2048).contains(&last.len()), "{}", last.len());
    }
    let out = scratch.ts(&["run", "--max=100", "--json", &handle, "seq 10000"]).code(0).out();
    assert!(field(&out, "left_out").parse::<u64>().unwrap() > 40_000);
}

#[test]
fn the_screen_keeps_output_without_a_newline_beside_the_prompt() {
    let scratch = Scratch::new();
    for prompt in ["$ ", "one\\n$ ", "\\[\\e[31m\\]$ \\[\\e[m\\]"] {
        let [by_run, typed] = [(); 2].map(|()| scratch.create("bash"));
        for handle in [&by_run, &typed] {
            scratch.run(handle, &format!("PS1='{prompt}'")).code(0);
        }
        for output in [
            "printf abc",
            "printf 'é日本'",
            "printf '\\e[32mgreen\\e[m '",
            "printf '1%%\\r100%%'",
            "printf 'one\\r'",
            "printf 'one\\ntwo\\nthree'",
            "printf %078d 7",
            "printf %080d 7",
            "printf %0100d 7",
            "printf %05000d 7",
            "printf '\\e[5;10Hthere\\e[J'",
        ] {
            scratch.run(&by_run, output).code(0).silent();
            scratch.run(&by_run, "true").code(0).stdout("").silent();
            for line in [output, "true"] {
                scratch.ts(&["send", &typed, line]).code(0);
                scratch.ts(&["wait", &typed, "--complete"]).code(0);
                // The terminal shows text typed before the prompt is drawn before it.
                scratch.ts(&["wait", &typed, "--input"]).code(0);
            }
            let screens = [&by_run, &typed].map(|handle| {
                scratch.ts(&["wait", handle, "--input"]).code(0);
                scratch.ts(&["screen", "--ansi", handle]).code(0).out()
            });
            assert_eq!(screens[0], screens[1], "{output}");
        }
    }
    // If readline does not clear it, it is there once.
    for (terminal, setting) in [("xterm", "exec 2>/dev/null"), ("dumb", ":")] {
        let handle = scratch.create_with(&[&format!("--env=TERM={terminal}")], "bash");
        for command in [setting, "printf ab; printf cd", "true"] {
            scratch.run(&handle, command).code(0);
        }
        let screen = scratch.ts(&["screen", &handle]).code(0).out();
        assert_eq!(screen.matches("abcd").count(), 1, "{screen}");
    }
    // No part of a long prompt counts as text beside it.
    let handle = scratch.create("bash");
    scratch.run(&handle, &format!("PS1='\\[{}\\]here$ '", "\\e[m".repeat(1_500))).code(0);
    for command in ["printf ab", "true"] {
        scratch.run(&handle, command).code(0);
    }
    let screen = scratch.ts(&["screen", &handle]).code(0).out();
    assert_eq!(screen.matches("here$").count(), 3, "{screen}");
}

#[test]
fn a_reader_that_goes_ends_the_command() {
    let (scratch, handle) = shell();
    let ran = scratch.bash(&format!("nbs-ts run {handle} yes | head -2; echo ${{PIPESTATUS[0]}}"));
    ran.code(0).stdout("y\ny\n141\n");
    scratch.run(&handle, "echo usable").code(0).stdout("usable\n");
}

#[test]
fn the_history_has_the_command_and_the_cursor_stays() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "true").code(0);
    scratch.run(&handle, "(exit 4)").code(4);
    let history = scratch.run(&handle, "history").code(0).out();
    let listed: Vec<&str> =
        history.lines().map(|line| line.trim_start().split_once("  ").unwrap().1).collect();
    assert_eq!(listed, ["true", "(exit 4)", "history"]);
    scratch.run(&handle, "set -a").code(0);
    let environment = scratch.run(&handle, "env").code(0).out();
    assert!(!environment.contains("__nbs"), "{environment}");
    assert_eq!(scratch.file(&handle, "completion.log"), "0 0\n1 0\n2 4\n3 0\n4 0\n5 0\n");
}

#[test]
fn run_streams_output() {
    let (scratch, handle) = shell();
    let script = format!(
        "nbs-ts run {handle} 'echo begun; read x; echo $x' | {{ read line; nbs-ts send {handle} on; echo $line; cat; }}"
    );
    scratch.bash(&script).code(0).stdout("begun\non\non\n");
    let pid = scratch.file(&handle, "pid");
    assert!(is_running(&pid));
}

#[test]
fn a_failing_command_shows_no_line_of_nbs() {
    let (scratch, handle) = shell();
    let ran = scratch.ts(&["run", "--timeout=0.3", &handle, "sleep 1000"]).code(124);
    ran.complains("after 0.3 s; the terminal's state is running; nothing was printed");
    let evidence = "the terminal's state is running; last line: 'said'";
    let ran = timing_out(
        |ran| ran.err().contains(evidence),
        |timeout| scratch.ts(&["run", timeout, &handle, "echo said; sleep 1000"]).code(124),
    );
    ran.complains(evidence);
    scratch.run(&handle, "echo on").code(0);
    let log = scratch.ts(&["read", &handle]).out().replace("\x1b]133;", "").replace("\x1b]7;", "");
    let bells = log.matches('\x07').count();
    assert_eq!(bells, log.matches("nbs=").count() + log.matches("file://").count(), "{log:?}");
    // The line editor shows text typed before the prompt is drawn again.
    scratch.run(&handle, "PS1='$(sleep 1)slow> '").code(0);
    let ran = scratch.ts(&["run", "--timeout=0.3", &handle, "sleep 1000"]).code(124);
    ran.complains("after 0.3 s; the terminal's state is running; nothing was printed");
}

#[test]
fn the_line_that_calls_us_is_not_shown_by_set_v() {
    let (scratch, handle) = shell();
    all(
        &scratch,
        &handle,
        &[
            ("set -v; echo a", "a\n", 0),
            ("echo b; (exit 3)", "b\n", 3),
            ("case $- in *v*) echo on;; esac", "on\n", 0),
            ("echo \"$PROMPT_COMMAND\" | wc -l", "1\n", 0),
            ("set +v", "", 0),
            ("echo c", "c\n", 0),
        ],
    );
}

#[test]
fn output_that_equals_a_line_of_ours_is_output() {
    let (scratch, handle) = shell();
    let hook = scratch.run(&handle, "x=$PROMPT_COMMAND; echo ${#x}").code(0).out();
    for set in ["+v", "-v"] {
        scratch.run(&handle, &format!("set {set}")).code(0);
        let printed = scratch.run(&handle, "echo \"$PROMPT_COMMAND\"").code(0).silent().out();
        assert_eq!(printed.trim_end().len(), hook.trim().parse::<usize>().unwrap(), "{set}: {printed:?}");
    }
}

#[test]
fn a_return_that_the_program_printed_stays() {
    let (scratch, handle) = shell();
    all(
        &scratch,
        &handle,
        &[
            ("stty -onlcr", "", 0),
            ("printf 'a\\r\\nb\\nc\\r\\n'", "a\r\nb\nc\r\n", 0),
            ("stty onlcr", "", 0),
            ("printf 'a\\r\\nb\\n'", "a\r\nb\n", 0),
        ],
    );
    // It stays so until that has been read.
    let until_read = "until [[ $(nbs-ts read $NBS_TS_SESSION) == *b'e'e ]]; do :; done";
    let command = format!("stty raw; printf 'a\\r\\n%s' bee; {until_read}; stty sane");
    assert_eq!(scratch.run(&handle, &command).code(0).out(), "a\r\nbee");
    let ran = scratch.ts(&["run", "--json", &handle, &command]).code(0);
    assert_eq!(ran.field("output"), "\"a\\r\\nbee\"", "{ran:?}");
}

#[test]
fn a_key_that_kills_a_line_need_not_be_the_usual() {
    for kill in ["^X", "undef"] {
        let (scratch, handle) = shell();
        all(&scratch, &handle, &[(&format!("stty kill {kill}"), "", 0), ("echo on; (exit 4)", "on\n", 4)]);
    }
}

#[test]
fn no_code_is_that_of_our_own_commands() {
    for setting in [
        ":() { false; }",
        "enable -n .",
        "enable -n source . return",
        "alias if=false then=false else=false fi=false for=false while=false",
        "shopt -s expand_aliases; alias local=false declare=false shopt=false '!=false' '[[=false'",
        "trap() { false; }; test() { false; }; [() { false; }; source() { false; }; .() { false; }",
        "printf() { false; }; eval() { false; }; local() { false; }; return() { false; }; history() { false; }",
        "set() { false; }; shopt() { false; }; unset() { false; }; declare() { false; }; mapfile() { false; }",
        "declare -i __nbs_text __nbs_line; declare -u __nbs_status",
    ] {
        let (scratch, handle) = shell();
        scratch.run(&handle, setting).code(0).stdout("").silent();
        let ran = scratch.run(&handle, "builtin echo \"$?\"; (builtin exit 7)");
        match setting.starts_with("enable") {
            true => drop(ran.code(125).stdout("").complains("did not accept it")),
            false => drop(ran.code(7).stdout("0\n").silent()),
        }
    }
}
