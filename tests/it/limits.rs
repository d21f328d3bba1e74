use std::{
    fs,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::support::{Scratch, eventually, field, is_running, run};

#[test]
fn status_shows_title_description_and_parent() {
    let scratch = Scratch::new();
    let options = [
        "--title=a \\ b\nc: \u{e9}",
        "--description=two words",
        "--parent=me",
        "--timeout=1.5h",
        "--idle-timeout=90m",
        "--max-log=64K",
    ];
    let told = scratch.create_with(&options, "exec sleep 1000");
    let untold = scratch.create("exec sleep 1000");
    let expected = [
        ("title", "\"a \\\\ b\\nc: \u{e9}\""),
        ("description", "\"two words\""),
        ("parent", "\"me\""),
        ("timeout", "5400.000000"),
        ("idle_timeout", "5400.000000"),
        ("owner", "null"),
        ("max_log", "65536"),
    ];
    let listed = scratch.ts(&["list", "--json"]).code(0).out();
    let of = |handle: &str| listed.lines().find(|line| line.contains(handle)).unwrap().to_owned();
    for shown in [scratch.ts(&["status", "--json", &told]).code(0).out(), of(&told)] {
        for (name, value) in expected {
            assert_eq!(field(&shown, name), value, "{shown}");
        }
    }
    for shown in [scratch.ts(&["status", "--json", &untold]).code(0).out(), of(&untold)] {
        for (name, _) in expected {
            assert_eq!(field(&shown, name), "null", "{shown}");
        }
    }
    let mut arguments = vec!["ensure", "--name=n", "--no-helper"];
    arguments.extend(options);
    scratch.ts(&arguments).code(0);
    assert_eq!(scratch.ts(&["status", "--json", "@n"]).field("parent"), "\"me\"");
}

#[test]
fn invalid_limits_are_rejected() {
    let scratch = Scratch::new();
    for option in [
        "--title=",
        "--description=",
        "--parent=",
        "--timeout=0",
        "--timeout=-1",
        "--timeout=",
        "--timeout=x",
        "--idle-timeout=0ms",
        "--idle-timeout=1000000000h",
        "--owner=0",
        "--owner=-1",
        "--owner=x",
        "--owner=4294967297",
        "--max-log=0",
        "--max-log=-1K",
        "--max-log=99999999999G",
    ] {
        scratch.ts(&["create", option, "true"]).code(4).stdout("").complains(&option[2..6]);
        scratch.ts(&["ensure", "--name=n", option]).code(4).stdout("");
    }
    scratch.ts(&["create", "--timeout"]).code(4).stdout("");
    scratch.ts(&["list"]).stdout("");
}

/// Tries one limit after another, in seconds: on a busy machine a session may reach its limit before it has
/// reached the tested state, and then it gets more time.
fn in_time<T>(attempt: impl FnMut(u32) -> Option<T>) -> T {
    [1, 4, 16].into_iter().find_map(attempt).expect("a session that comes to anything before its limit")
}

/// A session with that `--timeout` which has come to say that it is ready.
fn ready_in_time(scratch: &Scratch, options: &[&str], command: &str) -> (u32, String) {
    in_time(|limit| {
        // A failed attempt's file.
        let _ = fs::remove_file(scratch.path.join("pids"));
        let limited = format!("--timeout={limit}");
        let created = scratch.ts(&[&["create", &limited], options, &[command]].concat()).code(0);
        let handle = created.out().trim().to_owned();
        let waited = scratch.ts(&["wait-pattern", &handle, "ready"]);
        waited.status.success().then_some((limit, handle))
    })
}

/// Waits until a session has written PIDs, a line each, into a file.
fn pids(scratch: &Scratch, file: &str, count: usize) -> Vec<String> {
    let path = scratch.path.join(file);
    let lines = || -> Vec<String> {
        fs::read_to_string(&path).unwrap_or_default().lines().map(str::to_owned).collect()
    };
    eventually("the PIDs", || lines().len() == count);
    lines()
}

/// A process that does not end by itself, in every possible way.
const STAYS: &str = "trap '' TERM HUP; echo $$ >> pids; setsid sleep 1000 & echo $! >> pids; \
                     (setsid sleep 1001 & echo $! >> pids); echo ready; while :; do sleep 1000; done";

#[test]
fn all_of_a_session_ends_when_its_time_is_up_and_what_it_said_stays() {
    let scratch = Scratch::new();
    let (limit, handle) = ready_in_time(&scratch, &["--no-helper"], STAYS);
    let attached = scratch.start(&["attach", &handle]);
    let pids = pids(&scratch, "pids", 3);
    scratch.wait_for_end(&handle);
    eventually("all being gone", || pids.iter().all(|pid| !is_running(pid)));
    attached.finish().code(0).stdout_has("\r\n\u{1b}[2m[process timed out and was killed]\u{1b}[0m\r\n");
    scratch.ts(&["read", &handle]).stdout("ready\r\n");
    let exit_record = scratch.file(&handle, "exit.json");
    assert_eq!([field(&exit_record, "ended_by"), field(&exit_record, "timed_out")], ["\"timeout\"", "true"]);
    assert_eq!(scratch.file(&handle, "ending"), "timeout");
    assert!(field(&exit_record, "duration_ms").parse::<u32>().unwrap() >= limit * 1_000, "{exit_record}");
    eventually("no process being left", || scratch.processes().is_empty());
}

#[test]
fn output_and_input_postpone_the_idle_timeout() {
    let scratch = Scratch::new();
    let printing = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done; exec sleep 1000";
    let printing = scratch.create_with(&["--idle-timeout=3"], printing);
    // It reads, and shows nothing of it.
    let typed = scratch.create_with(&["--idle-timeout=3"], "stty -echo; exec cat > /dev/null");
    let idle = scratch.create_with(&["--idle-timeout=3"], "exec sleep 1000");
    let way: [&[&str]; 3] =
        [&["send", &typed, "x"], &["key", &typed, "a"], &["send", "--no-enter", &typed, "x"]];
    // On a busy machine something may be so late that the time is up before it.
    let mut last_typed = UNIX_EPOCH;
    for n in 0..6 {
        let begun = SystemTime::now();
        if scratch.ts(way[n % 3]).status.success() {
            last_typed = begun;
        }
        std::thread::sleep(Duration::from_millis(700).saturating_sub(begun.elapsed().unwrap()));
    }
    for handle in [&printing, &typed, &idle] {
        scratch.wait_for_end(handle);
    }
    let last_printed =
        fs::metadata(scratch.folder(&printing).join("output.log")).unwrap().modified().unwrap();
    let ended = |handle: &str| {
        let exit_record = scratch.file(handle, "exit.json");
        assert_eq!(
            [field(&exit_record, "ended_by"), field(&exit_record, "timed_out")],
            ["\"idle_timeout\"", "true"]
        );
        assert!(field(&exit_record, "duration_ms").parse::<u64>().unwrap() >= 3_000, "{exit_record}");
        UNIX_EPOCH + Duration::from_secs_f64(field(&exit_record, "ended").parse().unwrap())
    };
    ended(&idle);
    let least = Duration::from_millis(2_990);
    let since = |last| move |end: SystemTime| end.duration_since(last).is_ok_and(|idle| idle >= least);
    assert!(since(last_printed)(ended(&printing)), "{:?}", scratch.file(&printing, "output.log"));
    assert!(since(last_typed)(ended(&typed)), "typed into at {last_typed:?}");
}

#[test]
fn a_session_ends_with_its_owner_and_is_not_begun_without() {
    let scratch = Scratch::new();
    let mut owner = Command::new("sleep").arg("1000").spawn().unwrap();
    let option = format!("--owner={}", owner.id());
    let handle = scratch.create_with(&[&option], STAYS);
    assert_eq!(scratch.ts(&["status", "--json", &handle]).field("owner"), owner.id().to_string());
    let pids = pids(&scratch, "pids", 3);
    owner.kill().unwrap();
    // Not collected yet, it has ended all the same.
    scratch.wait_for_end(&handle);
    eventually("all being gone", || pids.iter().all(|pid| !is_running(pid)));
    let exit_record = scratch.file(&handle, "exit.json");
    assert_eq!([field(&exit_record, "ended_by"), field(&exit_record, "timed_out")], ["\"owner\"", "false"]);
    scratch.ts(&["kill", &handle]).code(0);
    scratch.ts(&["create", "--no-helper", &option, "true"]).code(1).stdout("").complains("it has ended");
    owner.wait().unwrap();
    for owner in [&option, "--owner=2147483647"] {
        scratch
            .ts(&["create", "--no-helper", owner, "true"])
            .code(1)
            .stdout("")
            .complains("there is no such process");
        scratch.ts(&["ensure", "--name=n", "--no-helper", owner]).code(1).stdout("").complains("owner");
    }
    assert_eq!(fs::read_dir(scratch.state().join("sessions")).unwrap().count(), 0);
    scratch.bash("nbs-ts create --no-helper --name=mine --owner=$$ 'exec sleep 1000'").code(0);
    scratch.wait_for_end("@mine");
}

#[test]
fn a_program_that_ends_before_its_limit_ended_by_itself() {
    let scratch = Scratch::new();
    let handle = in_time(|limit| {
        let options = ["--timeout", "--idle-timeout"].map(|option| format!("{option}={limit}"));
        let options = options.each_ref().map(String::as_str);
        let handle = scratch.create_with(&options, &format!("setsid sleep {limit}.2 & exit 5"));
        scratch.wait_for_end(&handle);
        let exit_record = scratch.file(&handle, "exit.json");
        let ended = [field(&exit_record, "ended_by"), field(&exit_record, "exit_code")];
        (ended == ["\"self\"", "5"]).then_some(handle)
    });
    let ran = scratch.ts(&["attach", &handle]).code(0);
    ran.stdout_has("[process exited with code 5]");
    // Either it was in time or it was not: never both.
    for _ in 0..20 {
        let handle = scratch.create_with(&["--timeout=50ms"], "sleep 0.045; exit 5");
        scratch.wait_for_end(&handle);
        let exit_record = scratch.file(&handle, "exit.json");
        let ended = [
            field(&exit_record, "ended_by"),
            field(&exit_record, "timed_out"),
            field(&exit_record, "exit_code"),
        ];
        let in_time = ended == ["\"self\"", "false", "5"];
        assert!(in_time || ended[..2] == ["\"timeout\"", "true"], "{exit_record}");
        assert_eq!(in_time, !scratch.folder(&handle).join("ending").exists(), "{exit_record}");
    }
}

#[test]
fn the_first_cause_of_an_end_is_kept() {
    let scratch = Scratch::new();
    let command = "trap '' TERM; echo ready; while :; do sleep 1000; done";
    let handle = scratch.create_with(&["--timeout=0.2"], command);
    let marked = scratch.folder(&handle).join("ending");
    eventually("the limit being noted", || marked.exists());
    scratch.ts(&["kill", "--keep", &handle]).code(0);
    assert_eq!(field(&scratch.file(&handle, "exit.json"), "ended_by"), "\"timeout\"");
    // The other way round: a kill that takes longer than the session may.
    let exit_record = in_time(|limit| {
        let command = format!(
            "trap 'echo asked; let end=SECONDS+{limit}+1; while ((SECONDS < end)); do sleep 0.1; done; exit 7' TERM; \
             echo ready; while :; do sleep 0.01; done"
        );
        let handle = scratch.create_with(&[&format!("--timeout={limit}")], &command);
        let began = scratch.ts(&["wait-pattern", &handle, "ready"]).status.success();
        let killing = scratch.start(&["kill", "--keep", "--grace=600", &handle]);
        let asked = scratch.ts(&["wait-pattern", &handle, "asked"]).status.success();
        let marked = scratch.folder(&handle).join("ending").exists();
        killing.finish().code(0);
        (began && asked && !marked).then(|| scratch.file(&handle, "exit.json"))
    });
    assert_eq!([field(&exit_record, "ended_by"), field(&exit_record, "exit_code")], ["\"kill\"", "7"]);
}

#[test]
fn each_command_that_tells_an_end_tells_what_ended_it() {
    let scratch = Scratch::new();
    let limited = scratch.create_with(&["--timeout=0.2"], "exec sleep 1000");
    let killed = scratch.create("exec sleep 1000");
    let own = scratch.create("exit 7");
    let alive = scratch.create("exec sleep 1000");
    scratch.ts(&["kill", "--keep", "--grace=60", &killed]).code(0);
    for (handle, code, told) in [
        (&limited, "143", ["\"timeout\"", "true", "\"SIGTERM\""]),
        (&killed, "143", ["\"kill\"", "false", "\"SIGTERM\""]),
        (&own, "7", ["\"self\"", "false", "null"]),
    ] {
        let waited = scratch.ts(&["wait", handle, "--exit", "--json"]).code(0);
        let exited = scratch.ts(&["exit-code", handle, "--json"]).code(0);
        let status = scratch.ts(&["status", handle, "--json"]).code(0);
        for ran in [waited, exited, status] {
            let fields = ["ended_by", "timed_out", "signal"].map(|name| ran.field(name));
            assert_eq!(fields, told, "{ran:?}");
        }
        let word = told[0].trim_matches('"');
        let line = if word == "self" { String::new() } else { format!("ended_by: {word}\n") };
        scratch.ts(&["status", handle]).code(0).stdout(format!("dead\nexit_code: {code}\n{line}"));
    }
    for verb in ["exit-code", "status"] {
        let ran = scratch.ts(&[verb, &alive, "--json"]).code(0);
        let fields = ["ended_by", "timed_out", "signal"].map(|name| ran.field(name));
        assert_eq!(fields, ["null"; 3], "{ran:?}");
    }
}

#[test]
fn a_relay_that_is_killed_while_it_ends_a_session_has_said_why() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--timeout=0.2"], "trap '' TERM HUP; while :; do sleep 0.01; done");
    let relay = scratch.file(&handle, "daemon_pid");
    let marked = scratch.folder(&handle).join("ending");
    eventually("the limit being noted", || fs::read(&marked).is_ok_and(|cause| !cause.is_empty()));
    // It may have been quicker than we are.
    run(Command::new("kill").args(["-KILL", &relay]));
    scratch.wait_for_end(&handle);
    let told = scratch.ts(&["events"]).code(0);
    assert_eq!([told.field("ended_by"), told.field("timed_out")], ["\"timeout\"", "true"]);
}

#[test]
fn a_limit_holds_where_the_session_cannot_be_found() {
    let scratch = Scratch::new();
    let command = "trap '' TERM HUP; echo ready; while :; do sleep 0.01; done";
    let (_, handle) = ready_in_time(&scratch, &["--no-helper"], command);
    let child = scratch.file(&handle, "pid");
    let elsewhere = scratch.path.join("elsewhere");
    fs::rename(scratch.folder(&handle), &elsewhere).unwrap();
    eventually("the end", || elsewhere.join("exit.json").exists());
    assert!(!is_running(&child));
    let exit_record = fs::read_to_string(elsewhere.join("exit.json")).unwrap();
    assert_eq!(
        [field(&exit_record, "ended_by"), field(&exit_record, "signal")],
        ["\"timeout\"", "\"SIGKILL\""]
    );
    // The next reader publishes it.
    eventually("its being told", || scratch.ts(&["events"]).code(0).out().contains(&exit_record));
}

#[test]
fn limits_hold_through_the_helper_as_well() {
    let scratch = Scratch::new();
    let mut helper = scratch.command(crate::support::binary());
    let mut helper = helper.arg("ts-helper").stdout(std::process::Stdio::null()).spawn().unwrap();
    let socket = scratch.state().join("helper.sock");
    eventually("the helper", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let (_, handle) = ready_in_time(&scratch, &["--require-helper"], STAYS);
    let pids = pids(&scratch, "pids", 3);
    scratch.wait_for_end(&handle);
    eventually("all being gone", || pids.iter().all(|pid| !is_running(pid)));
    assert_eq!(field(&scratch.file(&handle, "exit.json"), "ended_by"), "\"timeout\"");
    helper.kill().unwrap();
    helper.wait().unwrap();
}

#[test]
fn the_one_who_ends_it_is_no_command() {
    let (scratch, handle) = Scratch::with_session("exec sleep 1000");
    let sessions = scratch.state().join("sessions");
    let script = format!(
        "exec -a nbs-terminator {} {handle} {} timeout",
        crate::support::binary().display(),
        sessions.display()
    );
    scratch.bash(&script).code(4).stdout("").complains("not to be run by hand");
    run(scratch.command(crate::support::binary()).args(["terminator", &handle])).code(4).stdout("");
    scratch.ts(&["status", &handle]).stdout("alive\n");
}

#[test]
fn whoever_kills_the_one_who_ends_it_saves_nobody() {
    let scratch = Scratch::new();
    // On SIGTERM, it kills the process that sent it; and its children do not end by themselves.
    let command = "trap 'pkill -KILL -P $PPID nbs-terminator' TERM; echo $$ >> pids; \
                   (trap '' TERM; exec setsid sleep 1000) & echo $! >> pids; echo ready; while :; do sleep 0.01; done";
    let (_, handle) = ready_in_time(&scratch, &["--no-helper"], command);
    let pids = pids(&scratch, "pids", 2);
    scratch.wait_for_end(&handle);
    eventually("all being gone", || pids.iter().all(|pid| !is_running(pid)));
    assert_eq!(field(&scratch.file(&handle, "exit.json"), "ended_by"), "\"timeout\"");
    scratch.ts(&["doctor"]).code(0).stdout_has("all in order");
}

#[test]
fn a_run_whose_session_a_limit_ends_says_which() {
    let scratch = Scratch::new();
    // The limit ends the command first, and the shell may report that end; and a command may choose how it
    // ends.
    for command in ["sleep 1000", "sh -c 'trap \"exit 3\" TERM; while :; do sleep 0.01; done'"] {
        let mut owner = Command::new("sleep").arg("1000").spawn().unwrap();
        let limits = [
            ("--timeout=1.5".to_owned(), "its --timeout of 1.5 s ended it"),
            ("--idle-timeout=1.5".to_owned(), "its --idle-timeout of 1.5 s ended it"),
            (format!("--owner={}", owner.id()), "its --owner has ended"),
        ];
        let running: Vec<_> = limits
            .iter()
            .map(|(limit, why)| {
                let handle = scratch.create_with(&[limit], "bash");
                let run = scratch.start(&["run", "--no-input", &handle, command]);
                let wait = scratch.start(&["wait", &handle, "--pattern=never"]);
                eventually("the command", || scratch.ts(&["read", &handle]).out().contains("0"));
                (handle, why, run, wait)
            })
            .collect();
        owner.kill().unwrap();
        owner.wait().unwrap();
        for (handle, why, run, wait) in running {
            let ran = run.finish().code(125);
            ran.complains(&format!("'{handle}' has ended with exit code")).complains(why);
            wait.finish().code(1).complains(why);
        }
    }
    let handle = scratch.create("cat");
    scratch.ts(&["kill", "--keep", &handle]).code(0);
    scratch.ts(&["send", &handle, "x"]).code(1).complains("; a kill ended it");
}
