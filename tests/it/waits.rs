use std::{fs, process::Command};

use crate::support::{Scratch, eventually, run, sockets_of, start, wait_for_tracer};

#[test]
fn a_pattern_is_found_wherever_it_lies() {
    let scratch = Scratch::new();
    // Beyond the first MiB, after NULs, and across the seams of reads and writes.
    let handle = scratch
        .create(r"stty -opost; head -c 3000000 /dev/zero; printf nee; sleep 0.1; printf 'dle\0end'; cat");
    scratch.ts(&["wait-pattern", &handle, "needle"]).code(0).stdout("").silent();
    let found = scratch.ts(&["wait-pattern", "--json", &handle, "needle"]).code(0);
    assert_eq!(found.field("offset"), "3000000");
    scratch.ts(&["wait-pattern", &handle, "end", "--offset=3000001"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "needle", "--offset=3000001", "--timeout=0.1"]).code(3);
}

#[test]
fn a_pattern_that_comes_later_is_waited_for() {
    let (scratch, handle) = Scratch::with_session("stty -echo; while read x; do echo \"<$x>\"; done");
    let waiting = scratch.start(&["wait-pattern", &handle, "<two>"]);
    scratch.ts(&["send", &handle, "one"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "<one>"]).code(0);
    scratch.ts(&["send", &handle, "two"]).code(0);
    waiting.finish().code(0);
}

#[test]
fn new_means_from_now_on() {
    let (scratch, handle) = Scratch::with_session("stty -echo; echo ready; while read x; do echo $x; done");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "ready", "--new", "--timeout=0.1"]).code(3);
    let length = scratch.ts(&["read", &handle]).stdout.len();
    let waiting = scratch.start(&["wait-pattern", &handle, "ready", "--offset", &length.to_string()]);
    scratch.ts(&["send", &handle, "ready"]).code(0);
    waiting.finish().code(0);
}

#[test]
fn an_empty_pattern_is_found_as_soon_as_there_is_output() {
    let (scratch, handle) = Scratch::with_session("stty -echo; read x; echo");
    scratch.ts(&["wait-pattern", &handle, "", "--timeout=0.1"]).code(3).complains("nothing was printed");
    scratch.ts(&["send", &handle, "x"]).code(0);
    scratch.ts(&["wait-pattern", &handle, ""]).code(0);
}

#[test]
fn wait_fails_at_once_if_its_condition_cannot_be_met() {
    let (scratch, handle) = Scratch::with_session("echo hello; exit 3");
    let ran = scratch.ts(&["wait-pattern", &handle, "never"]).code(1).stdout("");
    ran.complains("has ended with exit code 3").complains("last line: 'hello'");
    scratch.ts(&["wait-pattern", &handle, "hello"]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("3\n");
    scratch.ts(&["wait-complete", &handle]).code(1).stdout("").complains("has ended");
}

#[test]
fn a_session_that_ends_under_a_wait_ends_the_wait() {
    let (scratch, handle) = Scratch::with_session("bash");
    let pattern = scratch.start(&["wait-pattern", &handle, "never"]);
    let complete = scratch.start(&["wait-complete", &handle]);
    scratch.ts(&["send", &handle, "exit 5"]).code(0);
    pattern.finish().code(1).complains("exit code 5");
    complete.finish().code(1).stdout("").complains("exit code 5");
}

#[test]
fn a_session_that_is_removed_under_a_wait_ends_the_wait() {
    let (scratch, handle) = Scratch::with_session("sleep 1000");
    let waits =
        [scratch.start(&["wait-pattern", &handle, "never"]), scratch.start(&["wait-complete", &handle])];
    eventually("both being connected", || waits.iter().all(|wait| sockets_of(&wait.pid().to_string()) > 0));
    scratch.ts(&["kill", &handle]).code(0);
    for wait in waits {
        let ran = wait.finish();
        assert!(matches!(ran.status.code(), Some(0..=1)), "{ran:?}");
    }
}

#[test]
fn completions_come_in_order_and_none_is_lost() {
    let (scratch, handle) = Scratch::with_session("bash");
    for code in [3, 0, 7, 1] {
        scratch.ts(&["send", &handle, &format!("(exit {code})")]).code(0);
    }
    eventually("all four being done", || scratch.file(&handle, "completion.log").lines().count() == 5);
    for code in [3, 0, 7, 1] {
        scratch.ts(&["wait-complete", &handle]).code(0).stdout(format!("{code}\n"));
    }
    scratch.ts(&["wait-complete", &handle, "--timeout=0.1"]).code(3).stdout("");
    assert_eq!(scratch.file(&handle, "completion.log"), "0 0\n1 3\n2 0\n3 7\n4 1\n");
}

#[test]
fn when_a_completion_is_told_all_of_its_output_can_be_read() {
    let (scratch, handle) = Scratch::with_session("bash");
    for round in 0..10 {
        scratch.ts(&["send", &handle, &format!("seq 20000; echo end-{round}-$((round))x")]).code(0);
        scratch.ts(&["wait-complete", &handle]).code(0).stdout("0\n");
        let printed = scratch.ts(&["read-new", "--strip", &handle]).out();
        assert!(printed.contains(&format!("\n20000\nend-{round}-0x\n")), "{round}: {}", printed.len());
    }
}

#[test]
fn a_wait_that_times_out_leaves_no_trace() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["send", &handle, "read x"]).code(0);
    for _ in 0..3 {
        scratch.ts(&["wait-complete", &handle, "--timeout=0.05"]).code(3);
    }
    scratch.ts(&["send", &handle, "go"]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("0\n");
}

/// A log of this many bytes, most of which the program never printed, takes hours to read.
const ENDLESS: u64 = 8 << 40;

#[test]
fn a_log_that_takes_hours_to_read_keeps_nobody_longer_than_was_said() {
    let scratch = Scratch::new();
    let (shell, ended) = (scratch.create("bash"), scratch.create("echo text; exit 3"));
    scratch.ts(&["wait", &shell, "--input"]).code(0);
    scratch.wait_for_end(&ended);
    for handle in [&shell, &ended] {
        let log = scratch.folder(handle).join("output.log");
        fs::File::options().write(true).open(log).unwrap().set_len(ENDLESS).unwrap();
        for words in [
            &["wait-pattern", "--timeout=1", handle, "nowhere"][..],
            &["wait-pattern", "--timeout=0", handle, "nowhere"],
            &["wait", "--offset=0", "--timeout=1", "--pattern=nowhere", handle],
            &["wait", "--offset=0", "--timeout=0", "--fail=nowhere", handle],
            &["wait", "--offset=0", "--timeout=1", "--regex=nowhere", "--exit", handle],
        ] {
            scratch.ts(words).code(3).stdout("").complains("timed out");
        }
        // Text near its beginning is found nevertheless.
        let first = if *handle == ended { "text" } else { "$ " };
        scratch.ts(&["wait-pattern", "--timeout=0", handle, first]).code(0);
        scratch.ts(&["wait", "--offset=0", "--timeout=0", "--pattern", first, handle]).code(0);
    }
    scratch.ts(&["wait", "--exit", "--timeout=1", &ended]).code(0);
    scratch.ts(&["wait", "--input", "--timeout=20", &shell]).code(0);
    scratch.ts(&["wait", "--idle=100ms", "--timeout=20", &shell]).code(0);
    let conditions = ["--stable=100ms", "--fail=nowhere"];
    scratch.ts(&[&["wait", "--offset=0", "--timeout=1", &shell], &conditions[..]].concat()).code(3);
    let program = scratch.create("read x; while :; do sleep 0.1; done");
    scratch.ts(&["wait", "--input", &program]).code(0);
    let log = scratch.folder(&program).join("output.log");
    fs::File::options().write(true).open(log).unwrap().set_len(ENDLESS).unwrap();
    let asked = scratch.ts(&["ask", "--timeout=2", "--pattern=nowhere", &program, "hi"]).code(3);
    assert!(asked.out().contains("bytes left out; nbs-ts read"), "{asked:?}");
}

#[test]
fn time_spent_searching_does_not_count_as_silence() {
    let scratch = Scratch::new();
    let handle =
        scratch.create("head -c 20000000 /dev/zero | tr '\\0' y; while :; do echo y; sleep 0.01; done");
    scratch.ts(&["wait-pattern", &handle, "y\r\ny"]).code(0);
    let words = ["wait", "--offset=0", "--regex=nowhere", "--idle=2", "--timeout=4", &handle];
    scratch.ts(&words).code(3).stdout("");
}

#[test]
fn more_waits_than_inotify_has_instances_all_work() {
    let (scratch, handle) = Scratch::with_session("stty -echo; read x; echo now");
    let waits: Vec<_> = (0..150).map(|_| scratch.start(&["wait-pattern", &handle, "now"])).collect();
    scratch.ts(&["send", &handle, "go"]).code(0);
    for wait in waits {
        wait.finish().code(0);
    }
}

#[test]
fn wait_complete_skips_commands_of_run_and_ask() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["send", &handle, "(exit 1)"]).code(0);
    scratch.ts(&["run", &handle, "(exit 2)"]).code(2);
    scratch.ts(&["ask", &handle, "(exit 3)"]).code(0);
    let waiting = scratch.start(&["wait-complete", "--timeout=20", &handle]);
    waiting.finish().code(0).stdout("1\n");
    // The interrupt of a run does not belong to the typed command. A repeated one that reaches the prompt of
    // a shell that was slow to process the first belongs to no command.
    let completions = || scratch.file(&handle, "completion.log").lines().count();
    let before = completions();
    scratch.ts(&["run", "--timeout=100ms", &handle, "sleep 100"]).code(124);
    scratch.ts(&["run", &handle, "true"]).code(0);
    for _ in before + 2..completions() {
        scratch.ts(&["wait-complete", &handle]).code(0);
    }
    scratch.ts(&["send", &handle, "echo be''gun; sleep 1000; (exit 4)"]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=begun"]).code(0);
    // Before it is itself, a shell may lose the signal.
    eventually("sleep", || scratch.processes().iter().any(|process| process.ends_with(": sleep 1000 ")));
    scratch.ts(&["key", &handle, "C-c"]).code(0);
    scratch.ts(&["wait", &handle, "--complete"]).code(0);
    scratch.ts(&["send", &handle, "(exit 5)"]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("130\n");
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("5\n");
    scratch.ts(&["wait-complete", "--timeout=50ms", &handle]).code(3);
}

#[test]
fn a_command_typed_ahead_is_not_the_one_of_run() {
    let scratch = Scratch::new();
    let gate = scratch.path.join("gate");
    run(Command::new("mkfifo").arg(&gate)).code(0);
    fs::write(scratch.home().join(".bashrc"), format!("read -r < {}\n", gate.display())).unwrap();
    let handle = scratch.create("bash");
    scratch.ts(&["send", &handle, "(exit 1)"]).code(0);
    let running = scratch.start(&["run", &handle, "(exit 2)"]);
    // Typed-ahead text is read long after the prompt is there.
    let pid = scratch.file(&handle, "pid");
    let mut strace = scratch.command("strace");
    strace.args(["-qq", "-o", "/dev/null", "-e", "trace=read", "-e", "inject=read:delay_enter=300000"]);
    let tracing = start(strace.args(["-p", &pid]));
    wait_for_tracer(&pid);
    fs::write(&gate, "go\n").unwrap();
    running.finish().code(2);
    drop(tracing);
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("1\n");
    scratch.ts(&["wait-complete", "--timeout=50ms", &handle]).code(3);
}

#[test]
fn only_run_prints_the_code_of_its_command() {
    let (scratch, handle) = Scratch::with_session("bash");
    let asks = "read -p '? ' x; (exit \"$x\")";
    scratch.ts(&["run", "--input-after=100ms", &handle, asks]).code(123);
    scratch.ts(&["send", &handle, "6"]).code(0);
    // It has ended; only `run` prints how.
    scratch.ts(&["wait", &handle, "--complete"]).code(0).stdout(format!("{handle}\tcomplete\t-1\n"));
    scratch.ts(&["wait-complete", "--timeout=50ms", &handle]).code(3);
    scratch.ts(&["run", "--resume", &handle]).code(6);
    scratch.ts(&["run", "--input-after=100ms", &handle, asks]).code(123);
    scratch.ts(&["send", &handle, "7"]).code(0);
    scratch.ts(&["run", "--resume", &handle]).code(7);
    scratch.ts(&["run", &handle, "(exit 8)"]).code(8);
    scratch.ts(&["wait-complete", "--timeout=50ms", &handle]).code(3);
}
