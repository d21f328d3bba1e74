//! Calls of `run` that are killed: the command goes on, and nothing of it is lost.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::Command,
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags, open},
    io::ioctl_fionread,
};

use crate::support::{Ran, Running, Scratch, eventually, field, run, signal, sockets_of, state_of};

fn shell(command: &str) -> (Scratch, String) {
    let (scratch, handle) = Scratch::with_session(command);
    scratch.ts(&["run", &handle, "true"]).code(0);
    (scratch, handle)
}

fn kill(call: Running) -> String {
    signal("-KILL", &call.pid().to_string());
    call.finish().signal(9).out()
}

fn resume(scratch: &Scratch, handle: &str) -> Ran {
    scratch.ts(&["run", "--resume", "--no-input", handle])
}

/// Until the command, which makes this file, has begun.
fn begun(scratch: &Scratch, name: &str) {
    eventually("the command has begun", || scratch.path.join(name).exists());
}

#[test]
fn a_killed_call_leaves_all_that_it_has_not_printed_and_the_code_and_once() {
    for shell_command in ["bash --norc", "zsh -f", "fish --no-config", "dash", "bash --norc"] {
        let (scratch, handle) = shell(shell_command);
        let gate = "while [ ! -e on ]; do sleep 0.01; done";
        let loops =
            if shell_command.starts_with("fish") { "while test ! -e on; sleep 0.01; end" } else { gate };
        let command = format!("echo one; touch begun; {loops}; echo two; sh -c 'exit 7'");
        let call = scratch.start(&["run", &handle, &command]);
        begun(&scratch, "begun");
        scratch.ts(&["wait-pattern", &handle, "one\r\n"]).code(0);
        let first = kill(call);
        scratch
            .ts(&["run", &handle, "echo other"])
            .code(125)
            .complains("of an earlier 'run' is still running")
            .complains("--resume");
        std::fs::write(scratch.path.join("on"), "").unwrap();
        let rest = resume(&scratch, &handle).code(7).silent().out();
        // Output printed at the moment of its end may come twice.
        assert!(rest == "two\n" || rest == "one\ntwo\n", "{shell_command}: {first:?}, {rest:?}");
        assert!(rest != "two\n" || first == "one\n", "{shell_command}: {first:?}, {rest:?}");
        resume(&scratch, &handle).code(125).complains("there is no command to resume");
        scratch.ts(&["run", &handle, "echo after"]).code(0).stdout("after\n").silent();
    }
}

/// At any moment when the call is killed.
#[test]
fn whenever_a_call_is_killed_its_command_is_executed_once_or_never_begun() {
    for shell_command in ["bash --norc", "zsh -f", "fish --no-config", "dash", "mksh", "ksh93", "busybox sh"]
    {
        let (scratch, handle) = shell(shell_command);
        for round in 0..30 {
            a_killed_call(&scratch, &handle, "; ", round, Duration::from_micros(round * 500));
        }
    }
}

#[test]
fn whenever_a_call_to_a_nested_shell_is_killed_its_command_is_executed_once_or_never_begun() {
    let long = format!("\n: {}\n", "x".repeat(30_000));
    for nested in ["bash --norc", "zsh -f", "fish --no-config", "dash"] {
        let (scratch, handle) = shell("bash --norc");
        scratch.ts(&["send", &handle, nested]).code(0);
        scratch.ts(&["integrate", "--timeout=60", &handle]).code(0);
        for round in 0..20 {
            // A line that is typed, a text that the shell reads, and one that is read in many pieces.
            let (between, pause) = [("; ", 500), ("\n", 700), (long.as_str(), 3_000)][round as usize % 3];
            a_killed_call(&scratch, &handle, between, round, Duration::from_micros(round * pause));
        }
    }
}

/// However it is interrupted while a text is typed for it, the shell executes nothing of the text as commands.
#[test]
fn an_interrupt_in_the_middle_of_a_text_leaves_a_nested_shell_at_its_prompt() {
    let text = format!("touch made\n: {}\n", "x".repeat(30_000));
    for nested in ["bash --norc", "zsh -f", "fish --no-config", "dash"] {
        let (scratch, handle) = shell("bash --norc");
        scratch.ts(&["send", &handle, nested]).code(0);
        scratch.ts(&["integrate", "--timeout=60", &handle]).code(0);
        for round in 0..12_u64 {
            let call = scratch.start(&["run", &handle, &text]);
            std::thread::sleep(Duration::from_millis(5 + round * 5));
            match round % 3 {
                0 => drop(scratch.ts(&["key", &handle, "C-c"]).code(0)),
                1 => signal("-TERM", &call.pid().to_string()),
                // Another call goes on with it, and interrupts it.
                _ => {
                    signal("-KILL", &call.pid().to_string());
                    call.finish();
                    scratch.ts(&["run", "--resume", "--timeout=1ms", &handle]);
                    scratch.ts(&["run", &handle, "echo after"]).code(0).stdout("after\n").silent();
                    continue;
                }
            }
            let ran = call.finish();
            let after = scratch.ts(&["run", &handle, "echo after"]);
            assert_eq!(after.out(), "after\n", "{nested}, {round}: {ran:?} {after:?}");
        }
        let log = scratch.file(&handle, "output.log");
        assert!(!log.contains("not found") && !log.contains("nown command"), "{nested}: {log}");
    }
}

/// Runs a command whose call is killed after this pause, and resumes it.
fn a_killed_call(scratch: &Scratch, handle: &str, between: &str, round: u64, pause: Duration) {
    let name = format!("made{round}");
    let parts =
        [format!("echo {round}a"), format!("echo x >>{name}; sleep 0.01; echo {round}b; sh -c 'exit 9'")];
    let call = scratch.start(&["run", handle, &parts.join(between)]);
    std::thread::sleep(pause);
    let running = run(Command::new("kill").args(["-KILL", &call.pid().to_string()]));
    let ran = call.finish();
    let context = format!("{round}: {ran:?} {running:?}");
    let made = || std::fs::read_to_string(scratch.path.join(&name)).unwrap_or_default();
    if ran.status.code().is_some() {
        return assert_eq!((ran.status.code(), made()), (Some(9), "x\n".into()), "{context}");
    }
    let rest = resume(scratch, handle);
    let (code, rest_out) = (rest.status.code().unwrap(), rest.out());
    let context = format!("{context}\n{rest:?}");
    match code {
        9 => {
            let whole = format!("{round}a\n{round}b\n");
            // Nothing is lost; output comes twice if the call was killed before it confirmed it.
            assert!(whole.starts_with(&ran.out()) && whole.ends_with(&rest_out), "{context}");
            assert!(ran.out().len() + rest_out.len() >= whole.len(), "{context}");
            assert_eq!(made(), "x\n", "{context}");
        }
        // It was not requested yet, or all of it was reported.
        _ if rest.err().contains("there is no command") => {
            let told = ran.out() == format!("{round}a\n{round}b\n") && made() == "x\n";
            assert!(told || made().is_empty(), "{context}");
        }
        _ => {
            assert!(rest.err().contains("never executed"), "{context}");
            assert_eq!(made(), "", "{context}");
        }
    }
    scratch.ts(&["run", handle, "echo after"]).code(0).stdout("after\n").silent();
}

#[test]
fn the_code_of_a_killed_call_is_told_to_nobody_who_waits_for_the_next() {
    let (scratch, handle) = shell("bash --norc");
    let call =
        scratch.start(&["run", &handle, "touch begun; while [ ! -e on ]; do sleep 0.01; done; (exit 7)"]);
    begun(&scratch, "begun");
    kill(call);
    scratch.ts(&["send", &handle, "(exit 3)"]).code(0);
    let waits = [
        scratch.start(&["wait-complete", &handle]),
        scratch.start(&["wait", &handle, "--complete"]),
        scratch.start(&["wait", &handle, "--complete"]),
    ];
    for wait in &waits {
        let pid = wait.pid().to_string();
        eventually("it waits", || sockets_of(&pid) > 0 && state_of(&pid) == Some('S'));
    }
    std::fs::write(scratch.path.join("on"), "").unwrap();
    let [first, second, third] = waits.map(|wait| wait.finish().code(0).out());
    assert_eq!(first, "3\n");
    assert_eq!([second, third], [format!("{handle}\tcomplete\t3\n"), format!("{handle}\tcomplete\t3\n")]);
    resume(&scratch, &handle).code(7).stdout("").silent();
}

/// The relay sees both at the same moment, once it goes on.
#[test]
fn text_typed_right_after_a_call_is_killed_is_no_output() {
    let (scratch, handle) = shell("bash --norc");
    let call =
        scratch.start(&["run", &handle, "touch begun; while [ ! -e on ]; do sleep 0.01; done; (exit 7)"]);
    begun(&scratch, "begun");
    let relay = scratch.file(&handle, "daemon_pid");
    signal("-STOP", &relay);
    kill(call);
    let mut typist = UnixStream::connect(scratch.folder(&handle).join("relay.sock")).unwrap();
    typist.write_all(b"type 9\n(exit 3)\r").unwrap();
    signal("-CONT", &relay);
    let mut reply = [0; "typed 9\n".len()];
    typist.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"typed 9\n");
    std::fs::write(scratch.path.join("on"), "").unwrap();
    resume(&scratch, &handle).code(7).stdout("").silent();
}

#[test]
fn a_slow_shell_executes_what_a_killed_call_has_typed_and_it_is_that_calls() {
    let (scratch, handle) = shell("bash --norc");
    let shell_pid = scratch.file(&handle, "pid");
    let signal = |name: &str| signal(name, &shell_pid);
    signal("-STOP");
    let call = scratch.start(&["run", &handle, "echo late; (exit 5)"]);
    eventually("it is typed", || {
        let typed = scratch.ts(&["status", "--json", &handle]);
        typed.out().contains("running") && scratch.folder(&handle).join("run").exists()
    });
    let terminal = format!("/proc/{shell_pid}/fd/0");
    let terminal = open(terminal, OFlags::RDONLY | OFlags::NOCTTY, Mode::empty()).unwrap();
    let unread = || ioctl_fionread(&terminal).unwrap();
    eventually("the terminal has it", || unread() > 0);
    std::thread::sleep(Duration::from_millis(300));
    kill(call);
    let before = unread();
    scratch.ts(&["send", &handle, "echo sent; (exit 3)"]).code(0);
    // The kernel hands it on by a work queue, and would echo what comes late.
    eventually("the terminal has this, too", || unread() == before + "echo sent; (exit 3)\r".len() as u64);
    let wait = scratch.start(&["wait", &handle, "--complete"]);
    signal("-CONT");
    wait.finish().code(0).stdout(format!("{handle}\tcomplete\t3\n"));
    resume(&scratch, &handle).code(5).stdout("late\n").silent();
}

#[test]
fn half_a_line_is_dropped_and_a_command_that_a_killed_call_has_left_is_not() {
    let (scratch, handle) = shell("bash --norc");
    let call =
        scratch.start(&["run", &handle, "touch begun; while [ ! -e on ]; do sleep 0.01; done; (exit 7)"]);
    begun(&scratch, "begun");
    kill(call);
    scratch
        .ts(&["run", &handle, "echo after"])
        .code(125)
        .complains("the command of an earlier 'run' is still running");
    std::fs::write(scratch.path.join("on"), "").unwrap();
    resume(&scratch, &handle).code(7);
    scratch.ts(&["send", "--no-enter", &handle, "half"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "half"]).code(0);
    scratch.ts(&["run", &handle, "echo after"]).code(0).stdout("after\n");
}

#[test]
fn the_call_that_resumes_prints_the_last_output() {
    let (scratch, handle) = shell("bash --norc");
    let command =
        "echo one; touch begun; while [ ! -e on ]; do sleep 0.01; done; read -p '? ' x; echo \"$x\"";
    let call = scratch.start(&["run", "--json", &handle, command]);
    begun(&scratch, "begun");
    kill(call);
    std::fs::write(scratch.path.join("on"), "").unwrap();
    let asked = scratch.ts(&["run", "--resume", "--json", &handle]).code(123);
    assert_eq!(field(&asked.out(), "output"), "\"one\\n? \"");
    scratch.ts(&["send", &handle, "yes"]).code(0);
    let done = scratch.ts(&["run", "--resume", "--json", &handle]).code(0);
    assert_eq!([field(&done.out(), "output"), field(&done.out(), "exit_code")], ["\"yes\\n\"", "0"]);
}

#[test]
fn a_call_that_is_killed_while_others_have_the_session_has_typed_nothing() {
    let (scratch, handle) = shell("bash --norc");
    let first = scratch.start(&["run", &handle, "touch begun; while [ ! -e on ]; do sleep 0.01; done"]);
    begun(&scratch, "begun");
    let second = scratch.start(&["run", &handle, "touch second"]);
    std::thread::sleep(Duration::from_millis(300));
    kill(second);
    std::fs::write(scratch.path.join("on"), "").unwrap();
    first.finish().code(0);
    resume(&scratch, &handle).code(125).complains("killed before its command was typed");
    scratch.ts(&["run", &handle, "ls second"]).code(2);
}

#[test]
fn inside_another_shell_it_is_the_same() {
    let (scratch, handle) = shell("bash --norc");
    scratch.ts(&["run", &handle, "dash"]).code(123);
    scratch.ts(&["integrate", &handle]).code(0);
    for name in ["one", "two"] {
        // The second is typed as a text that is read.
        let lines = if name == "two" { "\n" } else { ";" };
        let command = format!(
            "echo {name}{lines}touch {name}; while [ ! -e on.{name} ]; do sleep 0.01; done; sh -c 'exit 7'"
        );
        let call = scratch.start(&["run", &handle, &command]);
        begun(&scratch, name);
        scratch.ts(&["wait-pattern", &handle, &format!("{name}\r\n")]).code(0);
        kill(call);
        std::fs::write(scratch.path.join(format!("on.{name}")), "").unwrap();
        let rest = resume(&scratch, &handle).code(7).silent().out();
        assert!(rest.is_empty() || rest == format!("{name}\n"), "{rest:?}");
        scratch.ts(&["run", &handle, "echo after"]).code(0).stdout("after\n");
    }
    // And the program that it was part of goes on.
    scratch.ts(&["eof", &handle]).code(0);
    let rest = resume(&scratch, &handle).code(0).out();
    assert!(rest.contains("two") && !rest.contains("nbs="), "{rest:?}");
}

/// `--resume` does not start a command that was given up before it began.
#[test]
fn a_call_that_timed_out_in_a_slow_shell_leaves_nothing() {
    let (scratch, handle) = shell("bash --norc");
    let shell_pid = scratch.file(&handle, "pid");
    let signal = |name: &str| signal(name, &shell_pid);
    signal("-STOP");
    scratch.ts(&["run", "--timeout=300ms", &handle, "touch late"]).code(124);
    signal("-CONT");
    resume(&scratch, &handle).code(125).complains("there is no command to resume");
    scratch.ts(&["run", &handle, "ls late"]).code(2);
}

#[test]
fn a_call_that_timed_out_before_its_turn_or_before_the_prompt_leaves_nothing() {
    let scratch = Scratch::new();
    std::fs::write(scratch.home().join(".bashrc"), "while [ ! -e go ]; do sleep 0.01; done\n").unwrap();
    let handle = scratch.create("bash");
    let in_vain = || {
        let timeout = "--timeout=300ms";
        scratch.ts(&["run", timeout, &handle, "touch late"]).code(124).complains("nothing was typed")
    };
    in_vain();
    std::fs::write(scratch.path.join("go"), "").unwrap();
    scratch.ts(&["run", "--resume", &handle]).code(125).complains("there is no command to resume");
    let other = scratch.start(&["run", &handle, "touch begun; while [ ! -e on ]; do sleep 0.01; done"]);
    begun(&scratch, "begun");
    in_vain();
    std::fs::write(scratch.path.join("on"), "").unwrap();
    other.finish().code(0);
    scratch.ts(&["run", "--resume", &handle]).code(125).complains("there is no command to resume");
    scratch.ts(&["run", &handle, "ls late"]).code(2);
}

/// Two clients use one session, and some of their calls are killed. `NBS_ROUNDS`: how many calls each makes in
/// each shell.
#[test]
fn nothing_of_two_agents_calls_is_mixed() {
    let rounds = std::env::var("NBS_ROUNDS").map_or(30, |rounds| rounds.parse().unwrap());
    for shell_command in ["bash --norc", "zsh -f", "fish --no-config", "dash"] {
        let (scratch, handle) = shell(shell_command);
        std::thread::scope(|scope| {
            scope.spawn(|| calls_of_an_agent(&scratch, &handle, "a", rounds));
            scope.spawn(|| calls_of_an_agent(&scratch, &handle, "b", rounds));
        });
    }
}

/// Those of `b` are killed now and then.
fn calls_of_an_agent(scratch: &Scratch, handle: &str, agent: &str, rounds: u64) {
    for round in 0..rounds {
        let code = round % 100 + 1;
        let call = scratch.start(&["run", handle, &format!("echo {agent}{round}; sh -c 'exit {code}'")]);
        let whole = format!("{agent}{round}\n");
        if agent == "b" && round % 5 == 0 {
            std::thread::sleep(Duration::from_millis(round % 13));
            signal("-KILL", &call.pid().to_string());
            let ran = call.finish();
            if ran.status.code().is_some() {
                continue;
            }
            let rest = resume(scratch, handle);
            let all = format!("{}{}", ran.out(), rest.out());
            let came = rest.status.code() == Some(code as i32) && all.contains(&whole);
            assert!(came || rest.status.code() == Some(125), "{ran:?} {rest:?}");
            // A call that was killed before it confirmed what it had printed: that comes again.
            let is_right = (0..3).any(|times| all == whole.repeat(times));
            assert!(is_right, "{ran:?} {rest:?}");
        } else {
            // A command that a call has left does not block others for long.
            call.finish().code(code as i32).stdout(whole);
        }
    }
}

/// An interrupt may come at any time: before the command is typed, started or reported, and after it has ended.
/// `NBS_ROUNDS`: how often in each shell.
#[test]
fn a_run_that_times_out_at_any_moment_says_so_and_leaves_the_shell_to_the_next() {
    let rounds = std::env::var("NBS_ROUNDS").map_or(30, |rounds| rounds.parse().unwrap());
    for shell_command in ["bash --norc", "zsh -f", "fish --no-config", "dash"] {
        let (scratch, handle) = shell(shell_command);
        for round in 0..rounds {
            let command = ["sleep 5", "sh -c 'sleep 5'", "sleep 0.03", "true"][round % 4];
            let timeout = format!("--timeout={}ms", 1 + round * 7 % 60);
            let ran = scratch.ts(&["run", &timeout, &handle, command]);
            // The shell prints a newline where the interrupt came.
            let is_empty = ran.out().trim_matches('\n').is_empty();
            assert!(is_empty && matches!(ran.status.code(), Some(0 | 124)), "{ran:?}");
            if round % 3 == 0 {
                let next = scratch.ts(&["run", &handle, &format!("echo {round}; sh -c 'exit 7'")]);
                next.code(7).stdout(format!("{round}\n"));
            }
        }
    }
}
