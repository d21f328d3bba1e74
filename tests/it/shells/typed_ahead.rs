//! Lines and half lines that were typed ahead of a command.

use super::*;

#[test]
fn half_a_line_that_was_typed_ahead_is_not_part_of_what_is_run() {
    let scratch = Scratch::new();
    let all = [
        "bash",
        "bash --noediting",
        "zsh",
        "fish",
        "dash",
        "busybox ash",
        "ksh93",
        "mksh",
        "bash inside",
        "dash inside",
    ];
    for command in all {
        let handle = shell_of(&scratch, command);
        scratch.ts(&["run", &handle, "cd /"]).code(0);
        // Until the line has been typed ahead, the command does not end.
        let gate = scratch.path.join("gate");
        crate::support::run(Command::new("mkfifo").arg(&gate)).code(0);
        scratch.ts(&["send", &handle, &format!("cat {}", gate.display())]).code(0);
        eventually("cat", || {
            scratch.ts(&["status", "--json", &handle]).out().contains("\"program\":\"cat\"")
        });
        scratch.ts(&["send", "--no-enter", &handle, "echo ahead "]).code(0);
        fs::write(&gate, "").unwrap();
        scratch.ts(&["wait", &handle, "--input"]).code(0).stdout(format!("{handle}\tinput\tprompt\n"));
        let ran = scratch.ts(&["run", &handle, "echo whole"]).code(0);
        assert_eq!(ran.out(), "whole\n", "{command}");
        scratch.ts(&["run", &handle, "echo again"]).code(0).stdout("again\n").silent();
        fs::remove_file(gate).unwrap();
    }
}

/// Its prompt is there already when it reads them.
#[test]
fn lines_that_were_typed_ahead_of_a_slow_read_come_before_what_is_run() {
    let scratch = Scratch::new();
    for command in ["dash", "busybox ash", "ksh93", "mksh", "bash", "zsh inside", "busybox ash inside"] {
        let handle = shell_of(&scratch, command);
        let pid = scratch.ts(&["run", &handle, "echo $$"]).code(0).out().trim().to_owned();
        let mut strace = scratch.command("strace");
        strace.args(["-qq", "-o", "/dev/null", "-e", "trace=read", "-e", "inject=read:delay_enter=10000"]);
        let tracing = start(strace.args(["-p", &pid]));
        wait_for_tracer(&pid);
        for _ in 0..3 {
            scratch.ts(&["send", &handle, "sleep 0.1"]).code(0);
            scratch.ts(&["send", &handle, "sh -c 'exit 42'"]).code(0);
            let ran = scratch.ts(&["run", "--timeout=60", &handle, "echo whole; sh -c 'exit 9'"]);
            assert_eq!((ran.out().as_str(), ran.status.code()), ("whole\n", Some(9)), "{command}: {ran:?}");
        }
        drop(tracing);
    }
}

#[test]
fn a_key_that_a_program_has_read_is_no_half_line() {
    let scratch = Scratch::new();
    fs::write(scratch.path.join("long"), "of less\n".repeat(100)).unwrap();
    for command in ["bash", "zsh", "dash", "busybox ash", "ksh93", "mksh", "bash inside", "dash inside"] {
        let handle = shell_of(&scratch, command);
        scratch.ts(&["run", &handle, "true"]).code(0);
        scratch.ts(&["send", &handle, "sh -c 'less long; exit 7'"]).code(0);
        // Line editors of shells are raw, too.
        scratch.ts(&["wait", &handle, "--pattern=of less"]).code(0);
        eventually("less", || scratch.ts(&["wait", &handle, "--input"]).code(0).out().ends_with("\traw\n"));
        scratch.ts(&["key", &handle, "q"]).code(0);
        scratch.ts(&["wait", &handle, "--complete"]).code(0).stdout_has("\tcomplete\t7\n");
        scratch.ts(&["run", &handle, "echo $?"]).code(0).stdout("7\n").silent();
    }
}

#[test]
fn a_command_that_was_typed_ahead_is_not_interrupted_for_half_a_line_behind_it() {
    let (scratch, handle) = Scratch::with_session("dash");
    scratch.ts(&["run", &handle, "cd /"]).code(0);
    let gate = |name: &str| {
        let gate = scratch.path.join(name);
        crate::support::run(Command::new("mkfifo").arg(&gate)).code(0);
        gate
    };
    let (first, second) = (gate("first"), gate("second"));
    let runs = |name: &str| {
        let name = format!("\"{name}\"");
        eventually(&name, || scratch.ts(&["status", "--json", &handle]).out().contains(&name));
    };
    scratch.ts(&["send", &handle, &format!("cat {}", first.display())]).code(0);
    runs("cat");
    scratch.ts(&["send", &handle, &format!("head {}", second.display())]).code(0);
    scratch.ts(&["send", "--no-enter", &handle, "echo ahead "]).code(0);
    fs::write(first, "").unwrap();
    runs("head");
    scratch.ts(&["run", "--timeout=0.5", &handle, "echo whole"]).code(124).stdout("");
    fs::write(second, "whole\n").unwrap();
    eventually("the second", || scratch.file(&handle, "completion.log").ends_with("3 0\n"));
    scratch.ts(&["run", &handle, "echo whole"]).code(0).stdout("whole\n").silent();
}

#[test]
fn a_command_that_was_typed_ahead_is_not_taken_for_what_is_run() {
    let scratch = Scratch::new();
    let all = ["dash", "ksh93", "mksh", "bash --noediting", "dash inside", "bash inside"];
    let ashes = busyboxes().map(|busybox| format!("{busybox} ash"));
    for command in all.into_iter().chain(ashes.iter().map(String::as_str)) {
        let handle = shell_of(&scratch, command);
        scratch.ts(&["run", &handle, "cd /"]).code(0);
        let gates = ["first", "second"].map(|name| scratch.path.join(name));
        for gate in &gates {
            crate::support::run(Command::new("mkfifo").arg(gate)).code(0);
        }
        let runs = |name: &str| {
            let name = format!("\"{name}\"");
            eventually(&name, || scratch.ts(&["status", "--json", &handle]).out().contains(&name));
        };
        // A program that only runs, and one that reads the typed text.
        for (head, code) in
            [(format!("head {}; (exit 9)", gates[1].display()), 9), ("head -n1; (exit 8)".into(), 8)]
        {
            scratch.ts(&["send", &handle, &format!("cat {}", gates[0].display())]).code(0);
            runs("cat");
            scratch.ts(&["send", &handle, &head]).code(0);
            fs::write(&gates[0], "").unwrap();
            runs("head");
            let ran = scratch.ts(&["run", "--timeout=20", &handle, "echo whole"]);
            assert!(ran.status.code() == Some(125) && ran.err().contains("'head' is"), "{command}: {ran:?}");
            if code == 8 {
                scratch.ts(&["integrate", &handle]).code(1).complains("'head' is in the foreground");
            }
            match code {
                9 => fs::write(&gates[1], "").unwrap(),
                _ => drop(scratch.ts(&["send", &handle, "a line"]).code(0)),
            }
            eventually("its end", || {
                scratch.file(&handle, "completion.log").ends_with(&format!(" {code}\n"))
            });
            scratch.ts(&["run", &handle, "echo whole"]).code(0).stdout("whole\n").silent();
        }
        gates.iter().for_each(|gate| fs::remove_file(gate).unwrap());
    }
}
