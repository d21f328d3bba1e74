use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use crate::support::{
    Running, Scratch, eventually, field, run, sockets_of, start, state_of, timing_out, wait_for_tracer,
};

fn line(handle: &str, condition: &str, detail: &str) -> String {
    format!("{handle}\t{condition}\t{detail}\n")
}

/// Types a text with DONE in it that prints DONE a second later, and waits.
fn takes_a_second(command: &str, ready: bool, text: &str) {
    let (scratch, handle) = Scratch::with_session(command);
    if ready {
        scratch.ts(&["wait", &handle, "--input"]).code(0);
    }
    let begun = Instant::now();
    scratch.ts(&["send", &handle, text]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=DONE"]).code(0).stdout(line(&handle, "pattern", "DONE"));
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(1), "{command}: {took:?}");
}

const PYTHON: &str = "import time; time.sleep(1); print('DONE')";

#[test]
fn an_echo_is_not_taken_for_output_in_bash() {
    takes_a_second("bash", true, "sleep 1; echo DONE");
}

#[test]
fn an_echo_is_not_taken_for_output_in_a_bash_that_begins() {
    takes_a_second("bash", false, "sleep 1; echo DONE");
}

#[test]
fn an_echo_is_not_taken_for_output_in_dash() {
    takes_a_second("dash", true, "sleep 1; echo DONE");
}

#[test]
fn an_echo_is_not_taken_for_output_in_python() {
    takes_a_second("/usr/bin/env python3", true, PYTHON);
}

#[test]
fn an_echo_is_not_taken_for_output_in_a_python_that_begins() {
    takes_a_second("/usr/bin/env python3", false, PYTHON);
}

#[test]
fn an_echo_is_not_taken_for_output_in_sqlite() {
    takes_a_second("sqlite3", true, ".shell sleep 1; echo DONE");
}

#[test]
fn an_echo_is_not_taken_for_output_in_gdb() {
    takes_a_second("gdb -q", true, "shell sleep 1; echo DONE");
}

#[test]
fn an_echo_that_wraps_is_not_taken_for_output() {
    let filler = "x".repeat(300);
    takes_a_second("bash", true, &format!(": {filler}; sleep 1; echo DONE"));
    takes_a_second("/usr/bin/env python3", true, &format!("'{filler}'; {PYTHON}"));
    takes_a_second("dash", true, &format!(": {filler}; sleep 1; echo DONE"));
}

#[test]
fn text_typed_key_by_key_that_wraps_is_not_output() {
    let (scratch, handle) = Scratch::with_session("/usr/bin/env python3");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    let text = format!("'{}'; {PYTHON}", "x".repeat(60));
    for part in text.as_bytes().chunks(3) {
        scratch.ts(&["send", "--no-enter", &handle, std::str::from_utf8(part).unwrap()]).code(0);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
    }
    scratch.ts(&["wait", &handle, "--pattern=DONE", "--timeout=0.2"]).code(3);
    let waiting = scratch.start(&["wait", &handle, "--pattern=DONE"]);
    scratch.ts(&["send", &handle, ""]).code(0);
    let ran = waiting.finish().code(0);
    assert!(ran.took >= Duration::from_millis(900), "{ran:?}");
}

#[test]
fn the_late_echo_of_text_typed_ahead_is_not_output() {
    for (command, first, second) in [
        ("bash", "sleep 1", "sleep 1; echo DONE"),
        ("dash", "sleep 1", "sleep 1; echo DONE"),
        ("/usr/bin/env python3", "import time; time.sleep(1)", PYTHON),
    ] {
        let (scratch, handle) = Scratch::with_session(command);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        let begun = Instant::now();
        scratch.ts(&["send", &handle, first]).code(0);
        scratch.ts(&["send", &handle, second]).code(0);
        scratch.ts(&["wait", &handle, "--pattern=DONE"]).code(0);
        assert!(begun.elapsed() >= Duration::from_secs(2), "{command}: {:?}", begun.elapsed());
    }
}

#[test]
fn the_copy_that_cat_prints_is_output() {
    let (scratch, handle) = Scratch::with_session("cat");
    scratch.ts(&["send", &handle, "DONE"]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=DONE"]).code(0).stdout(line(&handle, "pattern", "DONE"));
    let handle = scratch.create("read x; sleep 1000");
    scratch.ts(&["send", &handle, "DONE"]).code(0);
    let evidence = "s; the terminal's state is running; nothing was printed";
    let ran = timing_out(
        |ran| ran.err().contains(evidence),
        |timeout| scratch.ts(&["wait", &handle, "--pattern=DONE", timeout]).code(3).stdout(""),
    );
    ran.complains("timed out after").complains(evidence);
}

#[test]
fn a_wait_that_times_out_names_the_program_that_has_the_foreground() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["send", &handle, "echo said; sleep 1000"]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=said"]).code(0);
    let evidence = "the terminal's state is running; last line: 'said'; 'sleep' is in the foreground";
    for condition in ["--input", "--complete"] {
        let ran = timing_out(
            |ran| ran.err().contains(evidence),
            |timeout| scratch.ts(&["wait", &handle, condition, timeout]).code(3).stdout(""),
        );
        ran.complains(evidence);
    }
    let ran = timing_out(
        |ran| ran.err().contains(evidence),
        |timeout| scratch.ts(&["wait-complete", &handle, timeout]).code(3).stdout(""),
    );
    ran.complains(evidence);
    scratch.ts(&["key", &handle, "C-c"]).code(0);
    let at_prompt = scratch.ts(&["wait", &handle, "--pattern=never", "--timeout=0.1"]).code(3);
    assert!(!at_prompt.err().contains("'bash' is in the foreground"), "{at_prompt:?}");
}

#[test]
fn nothing_older_than_the_last_input_is_found_unless_asked_for() {
    let (scratch, handle) = Scratch::with_session("stty -echo; echo old; while read x; do echo new-$x; done");
    scratch.ts(&["wait", &handle, "--pattern=old"]).code(0);
    scratch.ts(&["send", &handle, "1"]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=new-1"]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=old", "--timeout=.1"]).code(3);
    // Present text needs no time.
    scratch.ts(&["wait", &handle, "--pattern=old", "--offset=0", "--timeout=0"]).code(0);
}

#[test]
fn a_text_is_found_across_writes_lines_and_colours() {
    let (scratch, handle) = Scratch::with_session(
        r"stty -echo; read x; printf '\033[1mne'; sleep 0.1; printf '\033[mee\r\nd'; sleep 0.1; echo le; cat",
    );
    scratch.ts(&["send", &handle, ""]).code(0);
    let found = scratch.ts(&["wait", &handle, "--pattern=neee\nd", "--pattern=never"]);
    found.code(0).stdout(line(&handle, "pattern", r"neee\nd"));
}

#[test]
fn a_regex_is_matched_on_lines() {
    let (scratch, handle) = Scratch::with_session("echo one 12; echo two 345; printf 'name: '; cat");
    let found = scratch.ts(&["wait", &handle, r"--regex=^two \d+$"]).code(0);
    found.stdout(line(&handle, "regex", "two 345"));
    scratch.ts(&["wait", &handle, "--regex=: $"]).code(0).stdout(line(&handle, "regex", ": "));
    scratch.ts(&["wait", &handle, "--regex=("]).code(4).complains("is not a regex");
}

#[test]
fn a_failure_is_told_and_ends_the_wait() {
    let (scratch, handle) = Scratch::with_session("echo error: no; echo ready; cat");
    scratch.ts(&["wait", &handle, "--pattern=ready"]).code(0);
    let failed = scratch.ts(&["wait", &handle, "--pattern=ready", "--fail=error:"]).code(1).silent();
    failed.stdout(line(&handle, "fail", "error:"));
    // Also if two patterns end with the same byte.
    let failed = scratch.ts(&["wait", &handle, "--pattern=ready", "--fail=eady"]).code(1);
    failed.stdout(line(&handle, "fail", "eady"));
    scratch.ts(&["wait", &handle, "--fail=error:"]).code(1).stdout(line(&handle, "fail", "error:"));
    scratch.ts(&["wait", &handle, "--fail=none", "--timeout=0.1"]).code(3).complains("did not print 'none'");
    scratch.ts(&["wait", &handle, "--fail="]).code(4).complains("is empty");
    scratch.ts(&["wait", &handle]).code(4).complains("missing a condition");
}

#[test]
fn completion_idleness_input_and_end_are_waited_for() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["wait", &handle, "--input"]).code(0).stdout(line(&handle, "input", "prompt"));
    // It waits for the next one after the call, and nothing shows when it begins to.
    let mut waiting = scratch.start(&["wait", &handle, "--complete"]);
    eventually("a completion", || {
        scratch.ts(&["send", &handle, "(exit 3)"]).code(0);
        scratch.ts(&["wait-complete", &handle]).code(0).stdout("3\n");
        waiting.is_over()
    });
    waiting.finish().code(0).stdout(line(&handle, "complete", "3"));
    scratch.ts(&["send", &handle, "read x"]).code(0);
    scratch.ts(&["wait", &handle, "--input"]).code(0).stdout(line(&handle, "input", "line"));
    let idle = scratch.ts(&["wait", &handle, "--json", "--idle=0.3"]).code(0);
    assert_eq!(field(&idle.out(), "condition"), "\"idle\"");
    assert!(idle.took >= Duration::from_millis(300), "{idle:?}");
    scratch.ts(&["send", &handle, "go"]).code(0);
    let begun = Instant::now();
    scratch.ts(&["send", &handle, "sleep 0.5; echo $((6 * 7)); sleep 1000"]).code(0);
    scratch.ts(&["wait", &handle, "--idle=1"]).code(0);
    assert!(begun.elapsed() >= Duration::from_millis(1_500), "what was printed did not count");
    scratch.ts(&["key", &handle, "C-c"]).code(0);
    let exit = scratch.start(&["wait", &handle, "--exit"]);
    let vain = scratch.start(&["wait", &handle, "--pattern=never"]);
    scratch.ts(&["send", &handle, "exit 7"]).code(0);
    exit.finish().code(0).stdout(line(&handle, "exit", "7"));
    vain.finish().code(1).stdout("").complains("did not print 'never'");
    scratch.ts(&["wait", &handle, "--exit"]).code(0).stdout(line(&handle, "exit", "7"));
}

#[test]
fn a_one_shot_is_complete_at_its_end_and_its_echo_is_not_output() {
    let (scratch, handle) = Scratch::with_session("read x; echo bye; exit 5");
    scratch.ts(&["send", &handle, "DONE"]).code(0);
    scratch.ts(&["wait", &handle, "--complete"]).code(0).stdout(line(&handle, "complete", "5"));
    scratch.wait_for_end(&handle);
    scratch.ts(&["wait", &handle, "--pattern=bye"]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=DONE"]).code(1).complains("has ended with exit code 5");
}

/// A wait that has begun, and is stopped.
fn stopped(scratch: &Scratch, handle: &str, conditions: &[&str]) -> Running {
    let waiting = scratch.start(&[&["wait", handle], conditions].concat());
    let pid = waiting.pid().to_string();
    eventually("its having come", || sockets_of(&pid) == 1 && state_of(&pid) == Some('S'));
    signal("-STOP", &waiting);
    waiting
}

fn signal(signal: &str, waiting: &Running) {
    run(Command::new("kill").args([signal, &waiting.pid().to_string()])).code(0);
}

/// busybox ash queries the cursor's position at its prompt.
#[test]
fn an_unread_reply_of_the_terminal_is_not_typed_input() {
    let (scratch, handle) = Scratch::with_session("busybox ash");
    scratch.ts(&["run", &handle, "true"]).code(0);
    let pid = scratch.file(&handle, "pid");
    let mut strace = scratch.command("strace");
    strace.args(["-qq", "-o", "/dev/null", "-e", "trace=read", "-e", "inject=read:delay_enter=100000"]);
    let tracing = start(strace.args(["-p", &pid]));
    wait_for_tracer(&pid);
    for seq in 2..4 {
        scratch.ts(&["send", &handle, "false"]).code(0);
        let end = format!("\n{seq} 1\n");
        eventually("its end", || scratch.file(&handle, "completion.log").contains(&end));
        scratch.ts(&["wait", &handle, "--complete"]).code(0).stdout(format!("{handle}\tcomplete\t1\n"));
    }
    drop(tracing);
}

#[test]
fn an_echo_that_comes_while_it_is_stopped_is_not_taken_for_output() {
    let scratch = Scratch::new();
    // By a session that has ended when it goes on.
    let handle = scratch.create("read x; exit 5");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    let waiting = stopped(&scratch, &handle, &["--pattern=WORD"]);
    scratch.ts(&["send", &handle, "WORD"]).code(0);
    scratch.wait_for_end(&handle);
    assert_eq!(scratch.file(&handle, "output.log"), "WORD\r\n");
    signal("-CONT", &waiting);
    waiting.finish().code(1).stdout("").complains("has ended with exit code 5");
    // And behind much that is gone by then.
    let command = "read x; seq 100000; read x; echo over; read x";
    let handle = scratch.create_with(&["--max-log=64K"], command);
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    let waiting = stopped(&scratch, &handle, &["--pattern=WORD", "--pattern=over"]);
    scratch.ts(&["send", &handle, "go"]).code(0);
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    scratch.ts(&["send", &handle, "WORD"]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=over"]).code(0);
    signal("-CONT", &waiting);
    waiting.finish().code(0).stdout(line(&handle, "pattern", "over"));
}

#[test]
fn a_possible_beginning_of_an_echo_is_output_at_the_end() {
    let (scratch, handle) = Scratch::with_session("stty raw -echo; head -c 6 > /dev/null; printf hel");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    scratch.ts(&["send", &handle, "hello"]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=hel"]).code(0).stdout(line(&handle, "pattern", "hel"));
}

#[test]
fn the_first_prompt_completes_nothing() {
    let scratch = Scratch::new();
    fs::write(scratch.home().join(".bashrc"), "until [[ -e ~/go ]]; do sleep 0.01; done\n").unwrap();
    let handle = scratch.create("bash");
    let waiting = stopped(&scratch, &handle, &["--complete"]);
    signal("-CONT", &waiting);
    fs::write(scratch.home().join("go"), "").unwrap();
    eventually("the first prompt", || scratch.file(&handle, "completion.log") == "0 0\n");
    scratch.ts(&["send", &handle, "(exit 3)"]).code(0);
    waiting.finish().code(0).stdout(line(&handle, "complete", "3"));
}

#[test]
fn several_sessions_are_waited_for_all_or_any() {
    let (scratch, one) = Scratch::with_session("stty -echo; read x; echo ready; cat");
    let two = scratch.create("stty -echo; read x; echo ready; cat");
    let all = scratch.start(&["wait", &one, &two, "--pattern=ready"]);
    let any = scratch.start(&["wait", "--any", &one, &two, "--pattern=ready"]);
    scratch.ts(&["send", &two, ""]).code(0);
    any.finish().code(0).stdout(line(&two, "pattern", "ready"));
    scratch
        .ts(&["wait", &one, &two, "--pattern=ready", "--timeout=0.2"])
        .code(3)
        .stdout(line(&two, "pattern", "ready"));
    scratch.ts(&["send", &one, ""]).code(0);
    let both = [line(&one, "pattern", "ready"), line(&two, "pattern", "ready")].concat();
    all.finish().code(0).stdout(both);
    let vain = scratch.start(&["wait", "--any", "--timeout=600", &one, &two, "--pattern=never"]);
    scratch.ts(&["kill", "--keep", &one, &two]).code(0);
    vain.finish().code(1).stdout("").complains("has ended");
}

#[test]
fn a_session_that_is_named_many_times_is_one_and_takes_one_connection() {
    let (scratch, dead) = Scratch::with_session("exit 3");
    scratch.wait_for_end(&dead);
    let handle = scratch.create_with(&["--name=live"], "cat");
    let relay = scratch.file(&handle, "daemon_pid");
    let before = sockets_of(&relay);
    let mut words = vec!["wait", "--timeout=600", "--pattern=never", "--complete"];
    words.extend([&*handle; 500]);
    words.extend(["@live", &dead]);
    let waiting = scratch.start(&words);
    eventually("the wait", || sockets_of(&relay) > before);
    // The relay serves others, and gets their input.
    scratch.ts(&["send", &handle, "something"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "something\r\nsomething"]).code(0);
    eventually("the other calls having gone", || sockets_of(&relay) == before + 1);
    scratch.ts(&["send", &handle, "never"]).code(0);
    let lines = [line(&handle, "pattern", "never"), line(&dead, "complete", "3")].concat();
    waiting.finish().code(0).stdout(lines);
    let vain = scratch.ts(&["wait", "--exit", "--timeout=0.1", &handle, "@live", &handle]).code(3);
    assert_eq!(vain.err().matches("timed out").count(), 1, "{vain:?}");
}

#[test]
fn more_sessions_than_there_are_descriptors_are_waited_for() {
    let scratch = Scratch::new();
    let create = "for n in $(seq 60); do nbs-ts create --no-helper 'read x; echo done'; done";
    let handles = scratch.bash(create).code(0).out();
    let handles: Vec<&str> = handles.split_whitespace().collect();
    let wait = |options: &str| format!("ulimit -Sn 50; nbs-ts wait {options} {}", handles.join(" "));
    // The output has all of them, in words or in numbers.
    let vain = scratch.bash(&wait("--exit --timeout=0.1")).code(3).stdout("");
    vain.complains("and the same for 50 more sessions");
    let send = format!("for h in {}; do nbs-ts send $h ''; done", handles.join(" "));
    scratch.bash(&send).code(0);
    let expected: String = handles.iter().map(|handle| line(handle, "exit", "0")).collect();
    scratch.bash(&wait("--exit")).code(0).stdout(expected);
    let expected: String = handles.iter().map(|handle| line(handle, "pattern", "done")).collect();
    scratch.bash(&wait("--pattern=done")).code(0).stdout(expected);
}

#[test]
fn a_command_that_was_done_before_the_wait_is_done() {
    let (scratch, handle) = Scratch::with_session("bash");
    for code in ["1", "2"] {
        scratch.ts(&["send", &handle, &format!("(exit {code})")]).code(0);
        // By now it is done, mostly; and that is so however often we ask.
        scratch.ts(&["wait-complete", &handle]).code(0).stdout(format!("{code}\n"));
        for _ in 0..2 {
            scratch.ts(&["wait", &handle, "--complete"]).code(0).stdout(line(&handle, "complete", code));
        }
    }
    // It waits for the command that was typed ahead, and not for the one typed before it.
    scratch.ts(&["send", &handle, "sleep 0.3; (exit 3)"]).code(0);
    scratch.ts(&["send", &handle, "(exit 4)"]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("3\n");
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("4\n");
    scratch.ts(&["wait", &handle, "--complete"]).code(0).stdout(line(&handle, "complete", "4"));
    // Nor does the end of a command that answers a question count for another.
    scratch.ts(&["send", &handle, "read x; sleep 0.2; (exit $x)"]).code(0);
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    scratch.ts(&["send", &handle, "5"]).code(0);
    scratch.ts(&["wait", &handle, "--complete"]).code(0).stdout(line(&handle, "complete", "5"));
}

#[test]
fn wait_complete_waits_for_a_command_typed_before_the_first_prompt() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["send", &handle, "(exit 3)"]).code(0);
    scratch.ts(&["wait", &handle, "--complete"]).code(0).stdout(line(&handle, "complete", "3"));
}

/// A tmux server reads the terminal that its client has passed to it; other servers are independent of it.
#[test]
fn a_program_waiting_in_tmux_is_seen_despite_another_tmux() {
    let scratch = Scratch::new();
    let tmux = |name: &str| format!("tmux -f /dev/null -S {}", scratch.path.join(name).display());
    let (own, other) = (tmux("own"), tmux("other"));
    let handle = scratch.create("bash");
    scratch.ts(&["run", &handle, &format!("{other} new-session -d 'while :; do :; done'")]).code(0);
    scratch.ts(&["send", &handle, &format!("{own} new-session 'read -p name? x'")]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=name?"]).code(0);
    scratch.ts(&["wait", &handle, "--waiting", "--timeout=60"]).code(0);
    scratch.ts(&["key", &handle, "Enter"]).code(0);
    scratch.ts(&["run", "--timeout=60", &handle, &format!("{other} kill-server")]).code(0);
}

/// A command that has not reported its end has no known code, and that of an older one does not count.
#[test]
fn wait_complete_on_an_ended_shell_returns_the_last_command() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish", "sh", "busybox sh"] {
        let after = |commands: &[(&str, i32)]| {
            let handle = scratch.create(shell);
            for (command, code) in commands {
                scratch.ts(&["run", &handle, command]).code(*code);
            }
            handle
        };
        let wait = |handle: &str| {
            scratch.wait_for_end(handle);
            scratch.ts(&["wait", handle, "--complete"])
        };
        for (last, code) in [("exit 5", "5"), ("exec false", "1")] {
            for before in [&[("true", 0), ("sh -c 'exit 3'", 3)][..], &[]] {
                let handle = after(before);
                scratch.ts(&["send", &handle, last]).code(0);
                let ran = wait(&handle);
                if shell == "fish" && last == "exit 5" {
                    // That end is reported, too.
                    ran.code(0).stdout(line(&handle, "complete", code));
                } else {
                    ran.code(1).stdout("").complains(&format!("has ended with exit code {code}"));
                }
            }
        }
        let handle = after(&[("true", 0)]);
        scratch.ts(&["send", &handle, "sh -c 'kill -9 $PPID'"]).code(0);
        wait(&handle).code(1).stdout("").complains("has ended with exit code 137");
        // The shell has reported the command's end, and then the session has ended otherwise.
        let handle = after(&[("true", 0)]);
        scratch.ts(&["send", &handle, "sleep 0; false"]).code(0);
        scratch.ts(&["wait", &handle, "--complete"]).code(0).stdout(line(&handle, "complete", "1"));
        scratch.ts(&["kill", "--keep", &handle]).code(0);
        wait(&handle).code(0).stdout(line(&handle, "complete", "1"));
        let handle = after(&[("true", 0), ("sh -c 'exit 3'", 3)]);
        scratch.ts(&["eof", &handle]).code(0);
        // `run` has reported its code.
        wait(&handle).code(0).stdout(line(&handle, "complete", "-1"));
    }
}
