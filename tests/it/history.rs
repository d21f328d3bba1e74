use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use serde_json::Value;

use crate::{
    integrate::Sshd,
    machines::Elsewhere,
    support::{Scratch, eventually, run, start, wait_for_tracer},
};

/// The commands of a session, as `history --json` tells them.
fn commands(scratch: &Scratch, arguments: &[&str]) -> Vec<Value> {
    let ran = scratch.ts(&[&["history", "--json"], arguments].concat()).code(0);
    ran.out().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How many of them have ended.
fn ended(scratch: &Scratch, handle: &str) -> usize {
    commands(scratch, &[handle]).iter().filter(|command| !command["duration_ms"].is_null()).count()
}

/// The text of each command, its source, and its exit code.
fn told(scratch: &Scratch, handle: &str) -> Vec<(String, String, i64)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let told = |command: &Value| {
        let code = command["exit_code"].as_i64().unwrap_or(-1);
        (word(&command["command"]), word(&command["source"]), code)
    };
    commands(scratch, &[handle]).iter().map(told).collect()
}

const SHELLS: [&str; 7] = ["bash", "zsh", "fish", "dash", "ksh93", "mksh", "busybox sh"];

#[test]
fn history_has_each_command_whoever_typed_it_in_every_shell() {
    for shell in SHELLS {
        let (scratch, handle) = Scratch::with_session(shell);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        scratch.ts(&["run", &handle, "echo one"]).code(0);
        scratch.ts(&["run", &handle, "cd /usr; false"]).code(1);
        scratch.ts(&["run", &handle, "echo 'a\n\u{e9}'"]).code(0);
        scratch.ts(&["ask", &handle, "echo asked"]).code(0);
        scratch.ts(&["send", &handle, "echo sent"]).code(0);
        eventually("the sent command has ended", || ended(&scratch, &handle) == 5);
        // Lines that are typed at once.
        scratch.ts(&["send", "--no-enter", &handle, "echo p1\necho p2\nsh -c 'exit 3'\n"]).code(0);
        eventually("the three have ended", || ended(&scratch, &handle) == 8);
        // Edited, and left with an interrupt.
        scratch.ts(&["send", "--no-enter", &handle, "echo abx"]).code(0);
        scratch.ts(&["key", &handle, "BackSpace", "c", "Enter"]).code(0);
        eventually("the edited command has ended", || ended(&scratch, &handle) == 9);
        scratch.ts(&["send", "--no-enter", &handle, "echo never"]).code(0);
        scratch.ts(&["key", &handle, "C-c"]).code(0);
        scratch.ts(&["run", &handle, "echo end"]).code(0);
        scratch.ts(&["send", &handle, "exit 7"]).code(0);
        scratch.ts(&["wait", &handle, "--exit"]).code(0);
        let expected = [
            ("echo one", "run", 0),
            ("cd /usr; false", "run", 1),
            ("echo 'a\n\u{e9}'", "run", 0),
            ("echo asked", "ask", 0),
            ("echo sent", "send", 0),
            ("echo p1", "send", 0),
            ("echo p2", "send", 0),
            ("sh -c 'exit 3'", "send", 3),
            ("echo abc", "key", 0),
            ("echo end", "run", 0),
            ("exit 7", "send", 7),
        ];
        let expected = expected.map(|(command, source, code)| (command.to_owned(), source.to_owned(), code));
        assert_eq!(told(&scratch, &handle), expected, "{shell}");
        let all = commands(&scratch, &[&handle]);
        let folders: Vec<&str> = all.iter().map(|command| command["folder"].as_str().unwrap()).collect();
        assert!(folders[1] != "/usr" && folders[2..].iter().all(|folder| *folder == "/usr"), "{folders:?}");
        // Numbers leave none out, and each has its output.
        let numbers: Vec<u64> = all.iter().map(|command| command["command_id"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=11).collect::<Vec<u64>>(), "{shell}");
        for (number, output) in
            [("1", "one\n"), ("2", ""), ("3", "a\n\u{e9}\n"), ("5", "sent\n"), ("6", "p1\n"), ("7", "p2\n")]
        {
            scratch.ts(&["read", &handle, "--command", number, "--strip"]).code(0).stdout(output);
        }
    }
}

#[test]
fn history_has_what_a_line_editor_executed_and_not_what_it_drew() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh"] {
        let handle = scratch.create(shell);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        scratch.ts(&["run", &handle, "PS0='[before] '; PS1='\u{6f22} $ '; RPROMPT='at the right'"]).code(0);
        let long = format!("echo {}", "0123456789".repeat(9));
        for (count, keys) in
            [(2, vec!["echo searched"]), (3, vec![&*long]), (4, vec!["for i in 1 2; do", "echo $i", "done"])]
        {
            keys.iter().for_each(|line| drop(scratch.ts(&["send", &handle, line]).code(0)));
            eventually("it has ended", || ended(&scratch, &handle) == count);
        }
        let keys: [&[&str]; 4] = [
            &["C-r", "s", "e", "a", "r", "C-l", "C-e", "x", "Enter"],
            &["Up", "Up", "Up", "Enter"],
            &["l", "x", "C-l", "BackSpace", "s", "Enter"],
            &["e", "c", "h", "o", "Space", "b", "C-a", "C-e", "Left", "a", "Enter"],
        ];
        for (count, keys) in (5..).zip(keys) {
            // Without its editor, the kernel takes C-r.
            scratch.ts(&["wait", &handle, "--input"]).code(0);
            scratch.ts(&[&["key", &handle], keys].concat()).code(0);
            eventually("it has ended", || ended(&scratch, &handle) == count);
        }
        let told: Vec<String> = told(&scratch, &handle).into_iter().map(|(command, ..)| command).collect();
        let expected = ["echo searched", &long, "for i in 1 2; do\necho $i\ndone", "echo searchedx"];
        assert_eq!(told[1..5], expected, "{shell}");
        // The lines of one are one row of the history of a zsh, where Up takes each.
        assert_eq!(told[5], if shell == "bash" { &*long } else { expected[2] }, "{shell}");
        assert_eq!(told[6..], ["ls", "echo ab"], "{shell}");
    }
}

#[test]
fn history_has_what_fish_executed_without_its_prompt_at_the_right() {
    let (scratch, handle) = Scratch::with_session("fish");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    scratch.ts(&["run", &handle, "function fish_right_prompt; echo 'at  12:34'; end"]).code(0);
    let all = ["echo one", "echo 'a  b'", "for i in 1 2\n    echo  $i\nend", "echo 'a\nb'"];
    for (count, typed) in (2..).zip(all) {
        typed.lines().for_each(|line| drop(scratch.ts(&["send", &handle, line.trim_start()]).code(0)));
        eventually("it has ended", || ended(&scratch, &handle) == count);
    }
    let told = told(&scratch, &handle);
    let told: Vec<&str> = told[1..].iter().map(|(command, ..)| &**command).collect();
    assert_eq!(told, all);
}

#[test]
fn the_output_of_a_command_has_no_echo_of_what_was_typed_before_it_printed() {
    for shell in SHELLS {
        let (scratch, handle) = Scratch::with_session(shell);
        // Until the next line is typed, the command does not end.
        let gate = scratch.path.join("gate");
        run(Command::new("mkfifo").arg(&gate)).code(0);
        scratch.ts(&["run", &handle, "true"]).code(0);
        scratch.ts(&["send", &handle, &format!("cat {}", gate.display())]).code(0);
        // Its program, not the line that the shell shows while it is typed.
        eventually("cat", || {
            scratch.ts(&["status", "--json", &handle]).out().contains("\"program\":\"cat\"")
        });
        scratch.ts(&["send", &handle, "echo ahead"]).code(0);
        // The kernel echoes when it gets to it.
        eventually("its echo", || scratch.ts(&["read", &handle]).out().contains("echo ahead"));
        fs::write(&gate, "from the gate\n").unwrap();
        eventually("both have ended", || ended(&scratch, &handle) == 3);
        scratch.ts(&["send", &handle, "cat"]).code(0);
        scratch.ts(&["wait", &handle, "--input"]).code(0).stdout_has("line");
        scratch.ts(&["send", &handle, "twice"]).code(0);
        scratch.ts(&["eof", &handle]).code(0);
        eventually("cat has ended", || ended(&scratch, &handle) == 4);
        for (number, output) in [("2", "from the gate\n"), ("3", "ahead\n"), ("4", "twice\n")] {
            let read = scratch.ts(&["read", &handle, "--command", number, "--strip"]).code(0);
            assert_eq!(read.out(), output, "{shell}");
        }
    }
}

#[test]
fn lines_that_were_typed_at_once_to_a_shell_without_an_editor_are_told_apart() {
    for shell in ["dash", "bash --norc --noediting"] {
        let (scratch, handle) = Scratch::with_session(shell);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        let all = [
            ("cat <<end\nbody\nend", "body\n"),
            ("echo 'a\tb'", "a\tb\n"),
            ("if true\nthen echo yes\nfi", "yes\n"),
            ("cat <<end\nlast\nend", "last\n"),
        ];
        let lines = all[..3].iter().map(|(text, _)| format!("{text}\n")).collect::<String>();
        scratch.ts(&["send", "--no-enter", &handle, &lines]).code(0);
        eventually("they have ended", || ended(&scratch, &handle) == 3);
        // One by one.
        all[3].0.lines().for_each(|line| drop(scratch.ts(&["send", &handle, line]).code(0)));
        eventually("it has ended", || ended(&scratch, &handle) == 4);
        for ((number, told), (text, output)) in (1..).zip(told(&scratch, &handle)).zip(all) {
            assert_eq!(told, (text.to_owned(), "send".to_owned(), 0), "{shell}");
            scratch.ts(&["read", &handle, "--strip", &format!("--command={number}")]).code(0).stdout(output);
        }
    }
}

/// Their echo is behind the prompt of a line before them.
#[test]
fn lines_that_are_typed_while_others_are_unread_stay_in_order() {
    for shell in ["dash", "bash --norc --noediting"] {
        let (scratch, handle) = Scratch::with_session(shell);
        let pid = scratch.ts(&["run", &handle, "echo $$"]).code(0).out().trim().to_owned();
        let mut strace = scratch.command("strace");
        strace.args(["-qq", "-o", "/dev/null", "-e", "trace=read", "-e", "inject=read:delay_enter=50000"]);
        let tracing = start(strace.args(["-p", &pid]));
        wait_for_tracer(&pid);
        let lines: Vec<String> = (1..=9).map(|line| format!(": {line}")).collect();
        scratch.ts(&["send", &handle, &lines[..6].join("\n")]).code(0);
        lines[6..].iter().for_each(|line| drop(scratch.ts(&["send", &handle, line]).code(0)));
        eventually("they have ended", || {
            let last = commands(&scratch, &["--last=1", &handle]);
            last.iter().any(|told| told["command"] == lines[8] && !told["duration_ms"].is_null())
        });
        drop(tracing);
        let told: Vec<String> = told(&scratch, &handle).into_iter().map(|(command, ..)| command).collect();
        assert_eq!(told[1..], lines, "{shell}");
    }
}

#[test]
fn history_has_the_commands_of_nested_shells() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    for shell in ["bash --norc", "fish", "dash", "zsh -f"] {
        scratch.ts(&["send", &handle, shell]).code(0);
        scratch.ts(&["integrate", &handle]).code(0);
        scratch.ts(&["run", &handle, "echo 'it''s\nnested!'"]).code(0);
        scratch.ts(&["ask", &handle, "echo typed"]).code(0);
        scratch.ts(&["send", &handle, "exit 3"]).code(0);
        scratch.ts(&["wait", &handle, "--complete"]).code(0);
        scratch.ts(&["run", &handle, "true"]).code(0);
        let all = commands(&scratch, &[&handle, "--last=5"]);
        let told: Vec<(&str, &str, u64, i64)> = all
            .iter()
            .map(|command| {
                let word = |name: &str| command[name].as_str().unwrap();
                let (level, code) = (&command["shell"], &command["exit_code"]);
                (word("command"), word("source"), level.as_u64().unwrap(), code.as_i64().unwrap())
            })
            .collect();
        let inner = told[1].2;
        assert!(inner > 0, "{shell}: {told:?}");
        let expected = [
            (shell, "send", 0, 3),
            ("echo 'it''s\nnested!'", "run", inner, 0),
            ("echo typed", "ask", inner, 0),
            ("exit 3", "send", inner, 3),
            ("true", "run", 0, 0),
        ];
        assert_eq!(told, expected, "{shell}");
    }
}

#[test]
fn history_survives_the_kill_of_the_relay() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["run", &handle, "echo done"]).code(0);
    scratch.ts(&["send", &handle, "sleep 987"]).code(0);
    eventually("it has begun", || commands(&scratch, &[&handle]).len() == 2);
    let relay = scratch.file(&handle, "daemon_pid");
    scratch.bash(&format!("kill -9 {relay}; while kill -0 {relay} 2>&-; do :; done")).code(0);
    let all = [("echo done".to_owned(), "run".to_owned(), 0), ("sleep 987".into(), "send".into(), -1)];
    assert_eq!(told(&scratch, &handle), all);
    // A line that is torn is none.
    let path = scratch.folder(&handle).join("history");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.clone() + &whole[..40]).unwrap();
    assert_eq!(told(&scratch, &handle), all);
    scratch.ts(&["history", &handle]).code(0).stdout_has("    -    -  ");
    scratch.ts(&["kill", &handle]).code(0);
}

#[test]
fn history_has_no_secret() {
    for shell in ["bash", "dash"] {
        let (scratch, handle) = Scratch::with_session(shell);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        scratch.ts(&["send", &handle, "stty -echo; read x; stty echo; read y"]).code(0);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        scratch.ts_with_input(&["send", "--secret-stdin", &handle], b"hunter2").code(0);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        scratch.ts(&["send", &handle, "an answer"]).code(0);
        eventually("it has ended", || ended(&scratch, &handle) == 1);
        scratch.ts(&["run", &handle, "true"]).code(0);
        let history = scratch.file(&handle, "history");
        assert!(!history.contains("hunter2") && !history.contains("answer"), "{shell}: {history}");
        assert_eq!(commands(&scratch, &[&handle]).len(), 2, "{shell}");
    }
}

#[test]
fn history_shows_those_that_are_asked_for() {
    let scratch = Scratch::new();
    let one = scratch.create_with(&["--name=one"], "bash");
    let two = scratch.create_with(&["--name=two"], "bash");
    for (handle, command, code) in
        [(&one, "cd /usr/share", 0), (&two, "false", 1), (&one, "sh -c 'exit 4'", 4), (&one, "echo three", 0)]
    {
        scratch.ts(&["run", handle, command]).code(code);
    }
    let shown = |arguments: &[&str]| {
        let told = commands(&scratch, arguments).into_iter();
        told.map(|command| command["command"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&["--failed", "@one"]), ["sh -c 'exit 4'"]);
    assert_eq!(shown(&["--last=1", "@one"]), ["echo three"]);
    assert_eq!(shown(&["--last=0", "@one"]), [""; 0]);
    assert_eq!(shown(&["--grep=^cd |three", "@one"]), ["cd /usr/share", "echo three"]);
    assert_eq!(shown(&["--grep=share$", "--last=2", "@one"]), ["sh -c 'exit 4'", "echo three"]);
    assert_eq!(shown(&["--since=0", "@one"]), [""; 0]);
    assert_eq!(shown(&["--since=1h", "--all", "--failed"]), ["false", "sh -c 'exit 4'"]);
    assert_eq!(shown(&["--name=tw"]), ["false"]);
    let all = scratch.ts(&["history", "--all"]).code(0).out();
    assert!(all.lines().nth(1).unwrap().starts_with(&format!("{two}     1  20")), "{all}");
    assert!(all.lines().last().unwrap().ends_with("  /usr/share            echo three"), "{all}");
    // The session that the call is in.
    let program = env!("CARGO_BIN_EXE_nbs");
    scratch
        .ts(&["run", &one, &format!("(exec -a nbs-ts {program} history --last=2)")])
        .code(0)
        .stdout_has("three");
    scratch.ts(&["history"]).code(4).complains("SESSION");
    scratch.ts(&["read", &one, "--command=99"]).code(2).complains("has no command 99");
    // Dead ones keep it; what is no shell has none, and it says so.
    scratch.ts(&["kill", "--keep", &two]).code(0);
    assert_eq!(shown(&[&two]), ["false"]);
    let plain = scratch.create("sleep 987");
    scratch.ts(&["history", &plain]).code(0).stdout("").complains("no shell that reports");
}

#[test]
fn history_follows_a_session_to_its_end() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["run", &handle, "echo before"]).code(0);
    let following = scratch.start(&["history", "--follow", "--json", &handle]);
    scratch.ts(&["run", &handle, "sh -c 'exit 3'"]).code(3);
    scratch.ts(&["send", &handle, "exit 5"]).code(0);
    let out = following.finish().code(0).out();
    let told: Vec<(String, i64)> = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|told| (told["command"].as_str().unwrap().to_owned(), told["exit_code"].as_i64().unwrap()))
        .collect();
    assert_eq!(told, [("echo before".into(), 0), ("sh -c 'exit 3'".into(), 3), ("exit 5".into(), 5)]);
}

#[test]
fn history_cannot_be_written_by_a_confined_session() {
    let scratch = Scratch::new();
    let work = scratch.home().join("work");
    fs::create_dir(&work).unwrap();
    let handle = scratch.create_with(&["--write-root", work.to_str().unwrap()], "bash");
    let path = scratch.folder(&handle).join("history");
    scratch.ts(&["run", &handle, "echo first"]).code(0);
    let before = fs::read_to_string(&path).unwrap();
    let path = path.to_str().unwrap();
    for command in [format!("echo x >>{path}"), format!("rm -f {path}"), format!("mv {path} {path}2")] {
        scratch.ts(&["run", &handle, &format!("{{ {command}; }} 2>&- || sh -c 'exit 9'")]).code(9);
    }
    let after = fs::read_to_string(path).unwrap();
    assert!(after.starts_with(&before), "{after}");
    assert_eq!(commands(&scratch, &[&handle]).len(), 4);
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn history_is_exported_as_spans_and_as_a_script() {
    let scratch = Scratch::new();
    let trace = ["--env=TRACEPARENT=00-0123456789abcdef0123456789abcdef-fedcba9876543210-01", "--record"];
    let handle = scratch.create_with(&trace, "bash");
    let file = scratch.path.join("out");
    for (command, code) in [("cd /usr", 0), ("false", 1)] {
        scratch.ts(&["run", &handle, command]).code(code);
    }
    scratch.ts(&["send", &handle, "sh"]).code(0);
    scratch.ts(&["integrate", &handle]).code(0);
    scratch.ts(&["run", &handle, "/usr/bin/printf inner"]).code(0);
    scratch.ts(&["send", &handle, "exit"]).code(0);
    scratch.ts(&["wait", &handle, "--complete"]).code(0);
    scratch
        .ts(&["run", &handle, &format!("for i in 1 2; do\necho $i $PWD\ndone >{}", file.display())])
        .code(0);
    let otel = scratch.ts(&["history", "--export=otel", &handle]).code(0).out();
    let spans: Vec<Value> = otel
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|request| request["resourceSpans"][0]["scopeSpans"][0]["spans"][0].clone())
        .collect();
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cd", "false", "sh", "printf", "exit", "for"]);
    assert!(spans.iter().all(|span| span["traceId"] == "0123456789abcdef0123456789abcdef"), "{otel}");
    assert_eq!(
        (&spans[0]["parentSpanId"], &spans[3]["parentSpanId"]),
        (&"fedcba9876543210".into(), &spans[2]["spanId"])
    );
    assert_eq!(spans[1]["status"]["code"], 2);
    assert!(otel.contains(r#"{"key":"process.exit.code","value":{"intValue":"1"}}"#), "{otel}");
    let nanoseconds = |name: &str| spans[2][name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanoseconds("startTimeUnixNano") <= nanoseconds("endTimeUnixNano"));
    // It goes on after what fails.
    fs::remove_file(&file).unwrap();
    let script = scratch.ts(&["history", "--export=sh", &handle]).code(0).out();
    assert!(script.starts_with("#!/usr/bin/env bash\n") && script.contains("\n# In a nested shell: exit\n"));
    scratch.bash(&script).code(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "1 /usr\n2 /usr\n");
    scratch.ts(&["history", "--export=x", &handle]).code(4).complains("otel");
    // In a directory whose name is to be quoted.
    let folder = scratch.home().join(r"it's\\ \' $x");
    fs::create_dir(&folder).unwrap();
    for shell in ["fish", "bash", "zsh", "dash"] {
        let there = scratch.create_with(&["--cwd", folder.to_str().unwrap()], shell);
        scratch.ts(&["run", &there, "pwd"]).code(0);
        let script = scratch.ts(&["history", "--export=sh", &there]).code(0).out();
        let path = scratch.path.join("script");
        fs::write(&path, &script).unwrap();
        let ran = run(Command::new(shell).arg(&path)).code(0);
        assert_eq!(ran.out().trim_end(), folder.to_str().unwrap(), "{shell}: {script}");
    }
    // One command of the recording.
    scratch.ts(&["run", &handle, "echo recorded"]).code(0);
    let cast = scratch.ts(&["cast", "--command=7", &handle]).code(0).out();
    let lines: Vec<&str> = cast.lines().collect();
    assert!(lines[0].contains("\"version\":2") && lines.len() == 2, "{cast}");
    assert!(lines[1].ends_with("\"o\", \"recorded\\r\\n\"]"), "{cast}");
}

#[test]
fn history_has_what_a_person_typed() {
    let (scratch, person) = Scratch::with_session("bash");
    let handle = scratch.create("bash");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    scratch.ts(&["send", &person, &format!("nbs-ts attach --interactive {handle}")]).code(0);
    let keys = |keys: &str| {
        drop(scratch.ts_with_input(&["send", "--stdin", "--no-enter", &person], keys.as_bytes()).code(0))
    };
    for (count, typed) in [
        (1, "echo one\r"),
        (2, "echo two\r"),
        (3, "\u{12}one\u{1b}[C\u{5} more\r"),
        (4, "\u{1b}[A\u{1b}[A\u{7f}x\r"),
        (5, "for i in 1 2\rdo echo $i\rdone\r"),
    ] {
        // Before the line editor reads, C-r is the terminal's.
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        keys(typed);
        eventually("it has ended", || ended(&scratch, &handle) == count);
    }
    let expected = ["echo one", "echo two", "echo one more", "echo twx", "for i in 1 2\ndo echo $i\ndone"];
    let expected = expected.map(|command| (command.to_owned(), "attached".to_owned(), 0));
    assert_eq!(told(&scratch, &handle), expected);
    scratch.ts(&["kill", &handle]).code(0);
    scratch.ts(&["wait", &person, "--input"]).code(0);
}

#[test]
fn history_shows_other_machines_and_merges_all() {
    let there = Elsewhere::new();
    let one = there.create("bash");
    let two = there.scratch.create("bash");
    for (handle, command, code) in [
        (&one, "echo first", 0),
        (&two, "echo second", 0),
        (&one, "sh -c 'exit 3'", 3),
        (&two, "false", 1),
        (&one, "echo last", 0),
    ] {
        there.ts(&["run", handle, command]).code(code);
    }
    let shown = |arguments: &[&str]| {
        let of =
            |command: &Value| ["handle", "command"].map(|name| command[name].as_str().unwrap().to_owned());
        commands(&there.scratch, arguments).iter().map(of).collect::<Vec<_>>()
    };
    let on = |handle: &String, command: &str| [handle.clone(), command.to_owned()];
    assert_eq!(shown(&["--failed", &one]), [on(&one, "sh -c 'exit 3'")]);
    assert_eq!(shown(&["--on=box", "--all", "--last=1"]), [on(&one, "echo last")]);
    let all = [on(&one, "sh -c 'exit 3'"), on(&two, "false"), on(&one, "echo last")];
    assert_eq!(shown(&["--on=all", "--all", "--last=3"]), all);
    let rows = there.ts(&["history", "--on=all", "--all", "--last=3"]).code(0).silent().out();
    for (row, [handle, command]) in rows.lines().zip(all) {
        assert!(row.starts_with(&format!("{handle}   ")) && row.ends_with(&command), "{rows}");
    }
    there.ts(&["read", &one, "--strip", "--command=1"]).code(0).stdout("first\n");
    let script = there.ts(&["history", "--export=sh", &one]).code(0).out();
    assert!(script.contains("\necho first\n"), "{script}");
    let following = there.scratch.start(&["history", "--follow", "--last=1", &one]);
    there.ts(&["send", &one, "exit 5"]).code(0);
    let followed = following.finish().code(0).out();
    assert!(followed.lines().last().unwrap().ends_with("  exit 5"), "{followed}");
    // If one machine cannot be reached, the commands of the others are shown.
    there.ts(&["machine", "add", "gone", "false"]).code(0);
    let ran = there.ts(&["history", "--on=all", "--all", "--json", "--last=1"]).code(255);
    assert!(ran.out().contains("exit 5"), "{ran:?}");
    assert!(serde_json::from_str::<Value>(&ran.err()).is_ok_and(|error| error["exit"] == 255), "{ran:?}");
    there.ts(&["machine", "remove", "gone"]).code(0);
    there.ts(&["kill", &two]).code(0);
}

#[test]
fn history_has_what_shells_of_su_and_ssh_executed() {
    let scratch = Scratch::new();
    let sshd = Sshd::start(&scratch, "env PS1='mine# ' bash --norc");
    let handle = scratch.create("bash");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    for command in ["PS1='mine# ' su -p -s /bin/dash nobody", &sshd.command] {
        scratch.ts(&["run", &handle, "cd /usr"]).code(0);
        scratch.ts(&["send", &handle, command]).code(0);
        scratch.ts(&["wait", &handle, "--pattern=mine# "]).code(0);
        scratch.ts(&["integrate", "--timeout=30", &handle]).code(0);
        scratch.ts(&["run", &handle, "cd /usr/share"]).code(0);
        scratch.ts(&["run", &handle, "echo 'it''s\nthere'"]).code(0).stdout("its\nthere\n");
        scratch.ts(&["ask", &handle, "echo typed"]).code(0);
        scratch.ts(&["send", &handle, "exit 3"]).code(0);
        scratch.ts(&["wait", &handle, "--complete"]).code(0);
        let all = commands(&scratch, &[&handle, "--last=5"]);
        let told: Vec<_> = all
            .iter()
            .map(|told| {
                let word = |name: &str| told[name].as_str().unwrap();
                (word("command"), word("source"), told["shell"].as_u64().unwrap() > 0, &told["exit_code"])
            })
            .collect();
        let expected = [
            (command, "send", false, 3),
            ("cd /usr/share", "run", true, 0),
            ("echo 'it''s\nthere'", "run", true, 0),
            ("echo typed", "ask", true, 0),
            ("exit 3", "send", true, 3),
        ];
        let expected = expected.map(|(text, source, inside, code)| (text, source, inside, Value::from(code)));
        assert_eq!(
            told,
            expected.each_ref().map(|(text, source, inside, code)| (*text, *source, *inside, code))
        );
        let number = all[2]["command_id"].to_string();
        scratch.ts(&["read", &handle, "--strip", "--command", &number]).code(0).stdout("its\nthere\n");
    }
}

#[test]
fn the_history_of_many_commands_is_bounded_and_counted() {
    const PART: usize = 5_000;
    // The file has room for about ten thousand. A hundred thousand take a minute.
    let parts = if std::env::var_os("NBS_ROUNDS").is_some() { 20 } else { 4 };
    let text = |number: usize| format!(": {number} {}", "x".repeat(60));
    let (scratch, handle) = Scratch::with_session("bash --norc");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    for part in 0..parts {
        let lines: String = (1..=PART).map(|line| text(part * PART + line) + "\n").collect();
        // As long as the shell takes for all but the last of them.
        let send = ["send", "--stdin", "--no-enter", "--timeout=100", &handle];
        scratch.ts_with_input(&send, lines.as_bytes()).code(0);
        let last = (part + 1) * PART;
        eventually("they have ended", || {
            let last_one = commands(&scratch, &["--last=1", &handle]);
            last_one.iter().any(|told| told["command_id"] == last && !told["duration_ms"].is_null())
        });
        let size = fs::metadata(scratch.folder(&handle).join("history")).unwrap().len();
        assert!(size < 5 << 20, "{size}");
    }
    scratch.ts(&["run", &handle, "sh -c 'exit 3'"]).code(3);
    let all = commands(&scratch, &[&handle]);
    assert!((3_000..12_000).contains(&all.len()), "{}", all.len());
    let last = parts * PART + 1;
    for (number, told) in (1..=last).rev().zip(all.iter().rev()) {
        assert_eq!(told["command_id"], number);
        let text = if number == last { "sh -c 'exit 3'".to_owned() } else { text(number) };
        assert_eq!(told["command"], text);
    }
    assert_eq!(commands(&scratch, &["--last=20", &handle]), all[all.len() - 20..]);
    let number = &all[0]["command_id"];
    scratch.ts(&["read", &handle, "--command", &number.to_string()]).code(0);
    let gone = number.as_u64().unwrap() - 1;
    scratch.ts(&["read", &handle, "--command", &gone.to_string()]).code(2).complains("has no command");
}

/// By which way a command is typed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Run,
    Ask,
    Send,
    /// With the lines after it, at once.
    Ahead,
    Paste,
    /// A mistake in it, and mended.
    Keys,
    /// By a person.
    Attached,
}

/// Each has a tag of its own in the arguments of what it executes.
const TWENTY: [(Way, &str, i64); 20] = [
    (Way::Run, "/bin/echo t1", 0),
    (Way::Run, "cd /usr; /bin/echo t2", 0),
    (Way::Run, "/bin/echo 'two\nlines' t3", 0),
    (Way::Run, "/bin/sh -c 'exit 4' t4", 4),
    (Way::Run, "/bin/echo t5 \u{e9} \"$HOME\" | /bin/cat", 0),
    (Way::Ask, "/bin/echo t6  'with  blanks'", 0),
    (Way::Send, "/bin/echo \"t7\nand more\"", 0),
    (Way::Ask, "/bin/sh -c 'kill -TERM $$' t8", 143),
    (Way::Send, "/bin/echo t9", 0),
    (Way::Send, "/bin/echo t10 \"a quoted \\\"word\\\"\" # and a comment", 0),
    (Way::Send, LONG, 0),
    (Way::Send, "/bin/sh -c 'exit 12' t12; /bin/echo on", 0),
    (Way::Ahead, "/bin/echo t13", 0),
    (Way::Ahead, "/bin/echo t14", 0),
    (Way::Send, "/bin/sh -c 'exit 15' t15", 15),
    (Way::Paste, "/bin/echo t16 pasted", 0),
    (Way::Keys, "/bin/echo t17 without a mistake", 0),
    (Way::Keys, "/bin/sh -c 'exit 18' t18", 18),
    (Way::Attached, "/bin/echo t19", 0),
    (Way::Attached, "/bin/echo 't20\nof a person'", 0),
];

/// It takes more than a row.
const LONG: &str = "/bin/echo t11 one two three four five six seven eight nine ten eleven twelve thirteen \
                    fourteen fifteen sixteen seventeen eighteen nineteen twenty";

/// The first word that is a tag.
fn tag(text: &str) -> Option<&str> {
    text.split(|character: char| !character.is_ascii_alphanumeric())
        .find(|word| word.strip_prefix('t').is_some_and(|digits| digits.parse::<u8>().is_ok()))
}

#[test]
fn history_agrees_with_the_system_calls_of_each_shell_and_with_the_history_of_bash() {
    for shell in SHELLS {
        let (scratch, person) = Scratch::with_session("bash");
        let handle = scratch.create(shell);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        let (pid, calls) = (scratch.file(&handle, "pid"), scratch.path.join("calls"));
        let mut strace = scratch.command("strace");
        strace.args(["-qq", "-f", "-e", "trace=execve", "-e", "signal=none", "-o"]).arg(&calls);
        let tracing = start(strace.args(["-p", pid.trim()]));
        wait_for_tracer(pid.trim());
        scratch.ts(&["send", &person, &format!("nbs-ts attach --interactive {handle}")]).code(0);
        let (mut count, mut ahead) = (0, String::new());
        for (way, text, code) in TWENTY {
            count += 1;
            if way != Way::Ahead && !ahead.is_empty() {
                let lines = std::mem::take(&mut ahead) + text + "\n";
                scratch.ts(&["send", "--no-enter", &handle, &lines]).code(0);
                eventually("they have ended", || ended(&scratch, &handle) == count);
                continue;
            }
            match way {
                Way::Run => drop(scratch.ts(&["run", &handle, text]).code(code as i32)),
                Way::Ask => drop(scratch.ts(&["ask", &handle, text]).code(0)),
                Way::Send => text.lines().for_each(|line| drop(scratch.ts(&["send", &handle, line]))),
                Way::Ahead => {
                    ahead += &format!("{text}\n");
                    continue;
                }
                Way::Paste => drop(scratch.ts(&["send", "--paste", &handle, text]).code(0)),
                Way::Keys => {
                    scratch.ts(&["send", "--no-enter", &handle, &format!("{text}xyz")]).code(0);
                    scratch.ts(&["key", &handle, "BSpace", "BSpace", "BSpace", "Enter"]).code(0);
                }
                Way::Attached => {
                    let keys = format!("{text}\r").replace('\n', "\r");
                    let typing = ["send", "--stdin", "--no-enter", &person];
                    scratch.ts_with_input(&typing, keys.as_bytes()).code(0);
                }
            }
            eventually("it has ended", || ended(&scratch, &handle) == count);
        }
        let all = told(&scratch, &handle);
        let expected: Vec<_> = TWENTY
            .iter()
            .map(|(way, text, code)| {
                let source = match way {
                    Way::Run => "run",
                    Way::Ask => "ask",
                    Way::Send | Way::Ahead | Way::Paste => "send",
                    Way::Keys => "key",
                    Way::Attached => "attached",
                };
                ((*text).to_owned(), source.to_owned(), *code)
            })
            .collect();
        assert_eq!(all, expected, "{shell}");
        if shell == "bash" {
            let listed = scratch.ts(&["run", &handle, "fc -ln 1"]).code(0).out();
            let listed: Vec<&str> = listed.split("\t ").skip(1).map(str::trim_end).collect();
            let recorded: Vec<&str> = all.iter().map(|(text, ..)| &**text).collect();
            assert_eq!(listed[..20], recorded);
        }
        scratch.ts(&["send", &handle, "exit"]).code(0);
        scratch.ts(&["wait", &handle, "--exit"]).code(0);
        tracing.finish();
        let calls = fs::read_to_string(calls).unwrap();
        // If calls overlap, their beginnings count.
        let mut executed: Vec<&str> = calls
            .lines()
            .filter(|call| call.ends_with(" = 0") || call.ends_with("<unfinished ...>"))
            .filter_map(tag)
            .collect();
        executed.dedup();
        let recorded: Vec<&str> = all.iter().filter_map(|(text, ..)| tag(text)).collect();
        assert_eq!(executed, recorded, "{shell}: {calls}");
        scratch.ts(&["wait", &person, "--input"]).code(0);
    }
}
