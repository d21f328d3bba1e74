//! Timeouts, interrupts and ends of a command.

use super::*;

#[test]
fn a_timeout_gives_the_shell_back() {
    let (scratch, handle) = shell();
    let codes = || -> Vec<String> {
        let completions = scratch.file(&handle, "completion.log");
        completions.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    };
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    for command in ["sleep 1000", "while :; do :; done", "cat", "sleep 1000 | cat; echo never", "read x"] {
        let has_begun = |ran: &Ran| ran.out().starts_with("begun\n");
        let ran = timing_out(has_begun, |timeout| {
            let before = codes().len();
            let ran = scratch.ts(&["run", timeout, &handle, &format!("echo begun; {command}")]);
            let ran =
                ran.code(124).complains(&format!("timed out after {} s", &timeout["--timeout=".len()..]));
            usable_after(&scratch, &handle, &ran);
            // An interrupt is repeated, and the shell that was slow to process the first is at its prompt.
            let mut told = codes().split_off(before);
            told.dedup();
            assert!(!has_begun(&ran) || told == ["130", "0"], "{told:?}");
            ran
        });
        assert!(has_begun(&ran) && !ran.out().contains("never"), "{ran:?}");
    }
    let before = codes().len();
    scratch.ts(&["run", "--timeout=20", &handle, "echo quick"]).code(0).stdout("quick\n");
    assert_eq!(codes()[before..], ["0"]);
}

/// The shell is usable after a call that interrupts its command; unless the shell was slow, which the call
/// has reported.
fn usable_after(scratch: &Scratch, handle: &str, ran: &Ran) {
    if ran.err().contains("ignores the interrupt") {
        eventually("the shell", || scratch.run(handle, "true").status.code() == Some(0));
    } else {
        scratch.run(handle, "echo usable").code(0).stdout("usable\n").silent();
    }
}

#[test]
fn run_fails_and_names_the_kill_that_ends_its_command() {
    let scratch = Scratch::new();
    for round in 0..20 {
        for options in [&["kill", "--keep"][..], &["kill"]] {
            let handle = scratch.create("bash");
            let call = scratch.start(&["run", &handle, "echo x; sleep 1000"]);
            eventually("the command", || scratch.ts(&["read", &handle]).out().contains("x\r\n"));
            scratch.ts(&[options, &[&handle]].concat()).code(0);
            let ran = call.finish();
            assert_eq!(ran.status.code(), Some(125), "round {round} {options:?}: {ran:?}");
            ran.complains("a kill");
        }
    }
}

#[test]
fn a_timeout_covers_all_that_comes_before_the_command() {
    let scratch = Scratch::new();
    let nothing_was_typed = |handle: &str| {
        scratch.ts(&["kill", "--keep", handle]).code(0);
        assert!(scratch.file(handle, "typed").starts_with("0 0"), "{}", scratch.file(handle, "typed"));
    };
    // A shell that does not come to its prompt.
    fs::write(scratch.home().join(".bashrc"), "sleep 1000").unwrap();
    let handle = scratch.create("bash");
    for timeout in ["--timeout=0", "--timeout=1"] {
        let ran = scratch.ts(&["run", timeout, "--json", &handle, "echo typed"]).code(124);
        assert_eq!([ran.field("result"), ran.field("exit_code")], ["\"timeout\"", "null"], "{ran:?}");
        ran.complains("timed out after").complains("nothing was typed");
    }
    nothing_was_typed(&handle);
    // A shell behind another program.
    let tmux = "tmux -f /dev/null -S \"$HOME/tmux\" new-session 'sleep 1000'";
    fs::write(scratch.home().join(".bashrc"), tmux).unwrap();
    let handle = scratch.create("bash");
    eventually("its tmux", || scratch.ts(&["status", "--json", &handle]).out().contains("\"raw\""));
    let ran = scratch.ts(&["run", "--timeout=60", &handle, "echo typed"]).code(125);
    ran.complains("it is busy: 'tmux: client' is in the foreground");
    nothing_was_typed(&handle);
    fs::write(scratch.home().join(".bashrc"), "").unwrap();
    let handle = scratch.create("bash");
    let first = scratch.start(&["run", &handle, "read x"]);
    // A prompt may be there before it is typed.
    eventually("its read", || scratch.ts(&["status", "--json", &handle]).out().contains("\"line\""));
    let second = scratch.ts(&["run", "--timeout=0.3", &handle, "true"]).code(124).stdout("");
    second.complains("timed out while other calls use it").complains("nothing was typed");
    scratch.ts(&["send", &handle, ""]).code(0);
    first.finish().code(0);
    // Nor does the call wait for its input.
    for words in
        [&["run", "--timeout=0.3", "--stdin", &handle][..], &["ask", "--timeout=0.3", "--stdin", &handle]]
    {
        let mut call = scratch.command("nbs-ts");
        let mut call = call.args(words).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdin = call.stdin.take();
        let mut code = None;
        eventually("its end", || {
            code = call.try_wait().unwrap().and_then(|status| status.code());
            code.is_some()
        });
        assert_eq!(code, Some(if words[0] == "run" { 124 } else { 3 }));
        drop(stdin);
    }
}

#[test]
fn a_shell_does_not_execute_a_command_after_the_timeout() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "true").code(0);
    let pid = scratch.file(&handle, "pid");
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    signal("-STOP");
    eventually("its stop", || state_of(&pid) == Some('T'));
    let ran = scratch.ts(&["run", "--timeout=0.3", &handle, "touch late"]).code(124).stdout("");
    ran.complains("timed out after 0.3 s").complains("it had not started");
    signal("-CONT");
    eventually("the shell", || scratch.run(&handle, "true").status.code() == Some(0));
    scratch.run(&handle, "ls late").code(2);
}

#[test]
fn an_interrupted_call_gives_the_shell_back() {
    let (scratch, handle) = shell();
    for signal in ["INT", "TERM", "HUP"] {
        let call = scratch.start(&["run", &handle, "echo begun; sleep 1000"]);
        eventually("the sleep", || scratch.ts(&["read", &handle, "--last=1"]).out().contains("begun\r\n"));
        let pid = call.pid().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let ran = call.finish().code(126).complains("interrupted");
        assert!(ran.out().starts_with("begun\n"), "{ran:?}");
        usable_after(&scratch, &handle, &ran);
        scratch.run(&handle, "clear").code(0);
    }
    // A call that waits for its turn has nothing to interrupt.
    let first = scratch.start(&["run", &handle, "echo first; read x"]);
    eventually("the first", || scratch.ts(&["read", &handle, "--last=1"]).out().contains("first\r\n"));
    let second = scratch.start(&["run", &handle, "echo second"]);
    let pid = second.pid().to_string();
    eventually("its catching signals", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
        u64::from_str_radix(caught, 16).unwrap() & 2 != 0
    });
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    second.finish().code(126).stdout("").complains("before it started");
    scratch.ts(&["send", &handle, ""]).code(0);
    first.finish().code(0);
}

#[test]
fn a_call_that_is_to_live_on_is_not_interrupted_when_its_terminal_closes() {
    let (scratch, handle) = shell();
    let ran = scratch.bash(&format!(
        "trap '' HUP; nbs-ts run --no-input {handle} 'echo begun; read x; echo $x' & \
         until nbs-ts read {handle} --last=1 | grep -q $'begun\\r'; do sleep 0.01; done; \
         kill -HUP $!; nbs-ts send {handle} later; wait $!"
    ));
    ran.code(0).stdout("begun\nlater\nlater\n");
}

#[test]
fn a_command_is_interrupted_where_its_output_cannot_be_printed_any_more() {
    let (scratch, handle) = shell();
    for command in ["echo begun; sleep 1000", "while echo begun; do sleep 0.01; done"] {
        let outer = scratch.create_with(&["--name=outer"], &format!("exec nbs-ts run {handle} '{command}'"));
        scratch.ts(&["wait", &outer, "--pattern=begun"]).code(0);
        let relay = scratch.file(&outer, "daemon_pid");
        assert!(Command::new("kill").args(["-s", "KILL", &relay]).status().unwrap().success());
        scratch.ts(&["wait", &handle, "--input"]).code(0).stdout(format!("{handle}\tinput\tprompt\n"));
        scratch.run(&handle, "true").code(0);
    }
    let script = format!("nbs-ts run {handle} 'echo begun; sleep 1000' > /dev/full");
    scratch.bash(&script).code(125).complains("standard output");
    scratch.run(&handle, "echo usable").code(0).stdout("usable\n");
}

#[test]
fn a_command_that_ignores_interrupts_does_not_hold_it_up() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "trap '' INT").code(0);
    let command = "while [[ ! -e go ]]; do sleep 0.05; done";
    scratch.ts(&["run", "--timeout=0.2", &handle, command]).code(124).complains("ignores the interrupt");
    scratch.run(&handle, "true").code(125).complains("busy");
    fs::write(scratch.path.join("go"), "").unwrap();
    eventually("its end", || scratch.run(&handle, "true").status.code() == Some(0));
}

#[test]
fn the_end_of_the_shell_is_told() {
    let (scratch, handle) = shell();
    scratch
        .run(&handle, "echo last; exit 3")
        .code(125)
        .stdout_has("last\n")
        .complains("ended with exit code 3");
    scratch.run(&handle, "true").code(125).stdout("").complains("ended with exit code 3");
    for (command, why) in [
        ("echo x; kill -9 $$", "ended with exit code 137"),
        ("echo x; exec sh -c 'exit 4'", "ended with exit code 4"),
        ("echo x; set -e; false", "ended with exit code 1"),
        ("echo x; nbs-ts kill $NBS_TS_SESSION", "nbs-ts: session "),
    ] {
        let handle = scratch.create("bash");
        let ran = scratch.run(&handle, command).code(125).complains(why);
        assert!(ran.out().starts_with("x\n"), "{ran:?}");
    }
    let handle = scratch.create("bash");
    let call = scratch.start(&["run", &handle, "echo x; read y"]);
    eventually("the command", || scratch.ts(&["read", &handle, "--last=1"]).out().contains("x\r\n"));
    let relay = scratch.file(&handle, "daemon_pid");
    assert!(Command::new("kill").args(["-9", &relay]).status().unwrap().success());
    call.finish().code(125).stdout("x\n").complains("unknown exit code");
    let handle = scratch.create("bash");
    let ran = scratch.ts(&["run", "--json", &handle, "exit 6"]).code(125);
    assert_eq!((ran.field("result"), ran.field("exit_code")), ("\"ended\"".into(), "6".into()));
}

#[test]
fn text_that_begins_like_a_mark_is_output() {
    let (scratch, handle) = shell();
    let ran = scratch.run(&handle, r"printf 'x\033]133;D;nbs'; kill -9 $$").code(125);
    assert_eq!(ran.out(), "x\x1b]133;D;nbs");
}

#[test]
fn a_command_waiting_for_input_is_interrupted_once() {
    let (scratch, handle) = shell();
    let program = "import os, signal\n\
                   signal.signal(signal.SIGINT, lambda *_: os.write(1, b'no\\n'))\n\
                   os.write(1, b'ready\\n')\n\
                   while os.read(0, 9) != b'go\\n': pass";
    fs::write(scratch.path.join("stays.py"), program).unwrap();
    let run = |timeout: &str| scratch.ts(&["run", "--no-input", timeout, &handle, "python3 stays.py"]);
    let ran = timing_out(|ran| ran.out().contains("ready"), run).code(124).complains("ignores the interrupt");
    assert_eq!(ran.out(), "ready\nno\n");
    scratch.ts(&["send", &handle, "go"]).code(0);
    scratch.run(&handle, "true").code(0);
}

#[test]
fn what_a_killed_relay_wrote_and_did_not_report_is_printed() {
    for shell in ["bash", "zsh", "fish", "dash"] {
        // After the second, its prompt may have been written, too.
        for (command, codes) in [("echo x; sleep 60", &[125][..]), ("echo x; sh -c 'exit 3'", &[3, 125])] {
            let scratch = Scratch::new();
            let handle = scratch.create(shell);
            scratch.run(&handle, "true").code(0);
            let relay = scratch.file(&handle, "daemon_pid");
            let log = scratch.folder(&handle).join("output.log");
            let mut strace = scratch.command("strace");
            strace.args(["-qq", "-o", "/dev/null", "-e", "inject=write:delay_exit=1000000", "-P"]);
            let tracing = start(strace.arg(&log).args(["-p", &relay]));
            wait_for_tracer(&relay);
            let call = scratch.start(&["run", &handle, command]);
            eventually("the output", || scratch.file(&handle, "output.log").contains("x\r\n"));
            assert!(Command::new("kill").args(["-9", &relay]).status().unwrap().success());
            let ran = call.finish().stdout("x\n");
            assert!(codes.contains(&ran.status.code().unwrap()), "{ran:?}");
            drop(tracing);
        }
    }
}

#[test]
fn its_line_in_completion_log_is_there_when_it_returns() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "true").code(0);
    let relay = scratch.file(&handle, "daemon_pid");
    let log = scratch.folder(&handle).join("completion.log");
    let mut strace = scratch.command("strace");
    strace.args(["-qq", "-o", "/dev/null", "-e", "inject=write:delay_enter=1000000", "-P"]).arg(log);
    let tracing = start(strace.args(["-p", &relay]));
    wait_for_tracer(&relay);
    scratch.run(&handle, "(exit 7)").code(7);
    assert_eq!(scratch.file(&handle, "completion.log"), "0 0\n1 0\n2 7\n");
    drop(tracing);
}
