use std::{fs, process::Command};

use crate::support::{Scratch, eventually, field, is_running, run, signal, start};

/// Waits until a session has written PIDs, a line each, into a file.
fn pids(scratch: &Scratch, file: &str, count: usize) -> Vec<String> {
    let path = scratch.path.join(file);
    let lines =
        || fs::read_to_string(&path).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    eventually("the PIDs", || lines().len() == count);
    lines()
}

/// Waits until a process executes the program that it is started for: by then it has the
/// environment that is meant for it, too.
fn is_called(pid: &str, name: &str) {
    let comm = || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    eventually(name, || comm().trim_end() == name);
}

#[test]
fn a_session_that_is_named_twice_is_ended_once() {
    let scratch = Scratch::new();
    let (other, handle) =
        (scratch.create_with(&["--name=twice"], "sleep 1000"), scratch.create("sleep 1000"));
    let newest = scratch.create_with(&["--name=twice"], "sleep 1000");
    let ran = scratch.ts(&["kill", "--json", &handle, &handle, "@twice", &newest, "@twice"]).code(0).silent();
    assert_eq!(ran.out().lines().count(), 2, "{ran:?}");
    scratch.ts(&["find", "twice"]).code(0).stdout(format!("{other}\n"));
    scratch.ts(&["kill", &handle, &handle]).code(2).complains(&handle);
}

#[test]
fn kill_removes_the_session() {
    let (scratch, handle) = Scratch::with_session("sleep 1000");
    let child = scratch.file(&handle, "pid");
    let relay = scratch.file(&handle, "daemon_pid");
    scratch.ts(&["kill", &handle]).code(0).stdout("").silent();
    assert!(!is_running(&child) && !is_running(&relay));
    scratch.ts(&["status", &handle]).code(2);
    scratch.ts(&["list"]).stdout("");
    assert_eq!(fs::read_dir(scratch.state().join("sessions")).unwrap().count(), 0);
    scratch.ts(&["kill", &handle]).code(2);
    scratch.ts(&["kill", "--if-exists", &handle, "@nobody"]).code(0).silent();
}

#[test]
fn kill_prints_the_sessions_that_a_pattern_picked_and_fails_if_there_is_none() {
    let scratch = Scratch::new();
    scratch.ts(&["kill", "--name=work"]).code(2).complains("no session has 'work' in its name");
    scratch.ts(&["kill", "--name=work", "--if-exists"]).code(0).silent();
    scratch.ts(&["kill", "--all"]).code(0).silent();
    let named = |name| scratch.ts(&["create", name, "sleep 1000"]).code(0).out().trim_end().to_owned();
    let (one, two, other) = (named("--name=work.1"), named("--name=work.2"), scratch.create("sleep 1000"));
    let killed = scratch.ts(&["kill", "--name=work"]).code(0).out();
    let mut lines: Vec<&str> = killed.lines().collect();
    lines.sort_unstable_by_key(|line| line.split('\t').nth(1));
    assert_eq!(lines, [format!("{one}\twork.1"), format!("{two}\twork.2")]);
    scratch.ts(&["kill", "--all"]).code(0).stdout(format!("{other}\t-\n"));
}

#[test]
fn kills_of_one_pattern_at_the_same_time_print_every_name() {
    let scratch = Scratch::new();
    for number in 0..8 {
        scratch.create_with(&[&format!("--name=job-{number}")], "sleep 1000");
    }
    let calls: Vec<_> = (0..4).map(|_| scratch.start(&["kill", "--name=job"])).collect();
    for call in calls {
        let killed = call.finish();
        for line in killed.out().lines() {
            assert!(line.contains("\tjob-"), "{killed:?}");
        }
    }
    assert_eq!(scratch.ts(&["list"]).code(0).out(), "");
}

#[test]
fn keep_leaves_what_was_said() {
    let (scratch, handle) = Scratch::with_session("echo said; exec sleep 1000");
    scratch.ts(&["wait-pattern", &handle, "said"]).code(0);
    let ran = scratch.ts(&["kill", "--keep", "--grace=60", "--json", &handle]).code(0);
    assert_eq!(ran.field("exit_code"), "143");
    scratch.ts(&["status", &handle]).stdout("dead\nexit_code: 143\nended_by: kill\n");
    scratch.ts(&["read", &handle]).stdout("said\r\n");
    let exit_record = scratch.file(&handle, "exit.json");
    assert_eq!(field(&exit_record, "ended_by"), "\"kill\"");
    assert_eq!(field(&exit_record, "signal"), "\"SIGTERM\"");
    scratch.ts(&["kill", &handle]).code(0);
    scratch.ts(&["status", &handle]).code(2);
}

#[test]
fn kill_ends_all_processes_of_a_session() {
    let scratch = Scratch::new();
    // A background job, a stopped one, one that ignores all signals it can, a group of its own, a session of
    // its own, and a double fork that has lost its mark.
    let handle = scratch.create("bash");
    let script = [
        "sleep 1001 & echo $! >> pids",
        "sleep 1002 & echo $! >> pids; kill -STOP $!",
        "(trap '' TERM HUP INT; sleep 1003 & echo $! >> pids; wait) & echo $! >> pids",
        "nohup sleep 1004 >/dev/null 2>&1 & echo $! >> pids",
        "setsid bash -c 'echo $$ >> pids; exec sleep 1005' &",
        "(setsid env -i PATH=\"$PATH\" bash -c 'echo $$ >> pids; sleep 1006 & echo $! >> pids; wait' & )",
        "(env -i bash -c 'trap \"\" TERM; echo $BASHPID >> pids; while :; do sleep 1007; done' & )",
    ];
    for line in script {
        scratch.ts(&["send", &handle, line]).code(0);
    }
    let pids = pids(&scratch, "pids", 9);
    assert!(pids.iter().all(|pid| is_running(pid)));
    scratch.ts(&["kill", &handle]).code(0).silent();
    for pid in pids {
        assert!(!is_running(&pid), "{pid} is left");
    }
}

#[test]
fn kill_finds_processes_of_a_killed_relay_by_their_mark() {
    let scratch = Scratch::new();
    let handle = scratch
        .create("trap '' HUP TERM; echo $$ >> pids; (setsid sleep 1000 & echo $! >> pids); sleep 1000");
    let pids = pids(&scratch, "pids", 2);
    signal("-KILL", &scratch.file(&handle, "daemon_pid"));
    scratch.wait_for_end(&handle);
    scratch.ts(&["status", &handle]).code(0).stdout("dead\nexit_code: unknown\nended_by: unknown\n");
    assert!(pids.iter().any(|pid| is_running(pid)));
    scratch.ts(&["kill", &handle]).code(0);
    for pid in pids {
        assert!(!is_running(&pid), "{pid} is left");
    }
}

#[test]
fn kill_all_ends_only_dead_sessions_with_processes_left() {
    let (scratch, over) = Scratch::with_session("true");
    scratch.wait_for_end(&over);
    let left = scratch
        .create("trap '' HUP TERM; echo $$ >> pids; (setsid sleep 1000 & echo $! >> pids); sleep 1000");
    let pids = pids(&scratch, "pids", 2);
    signal("-KILL", &scratch.file(&left, "daemon_pid"));
    scratch.wait_for_end(&left);
    assert!(pids.iter().any(|pid| is_running(pid)));
    scratch.ts(&["kill", "--all"]).code(0);
    for pid in pids {
        assert!(!is_running(&pid), "{pid} is left");
    }
    scratch.ts(&["list"]).code(0).stdout("");
}

#[test]
fn kill_waits_for_those_who_need_their_time_and_no_longer() {
    let scratch = Scratch::new();
    let handle = scratch
        .create("trap 'sleep 0.3; echo bye > bye; exit 5' TERM; echo ready; while :; do sleep 0.01; done");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    // The grace is longer than anything may take.
    scratch.ts(&["kill", "--keep", "--grace=600", &handle]).code(0);
    scratch.ts(&["exit-code", &handle]).stdout("5\n");
    assert!(scratch.path.join("bye").exists());
}

#[test]
fn a_process_that_ignores_sigterm_is_killed_after_the_grace() {
    let (scratch, handle) =
        Scratch::with_session("trap 'echo no' TERM; echo ready; while :; do sleep 0.01; done");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    scratch.ts(&["kill", "--keep", &handle]).code(0);
    scratch.ts(&["exit-code", &handle]).stdout("137\n");
    assert_eq!(field(&scratch.file(&handle, "exit.json"), "signal"), "\"SIGKILL\"");
}

#[test]
fn processes_started_by_a_handler_of_sigterm_have_the_grace() {
    let scratch = Scratch::new();
    run(scratch.command("mkfifo").args(["one", "two"])).code(0);
    let ignores = "(trap '' TERM; echo deaf; cat one >/dev/null; echo one was there)";
    let handles = "trap 'echo asked; cat two; exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let handle = scratch.create(&format!("{ignores} & {handles}"));
    for part in ["deaf", "ready"] {
        scratch.ts(&["wait-pattern", &handle, part]).code(0);
    }
    let killing = scratch.start(&["kill", "--keep", "--grace=600", &handle]);
    eventually("the handler's cat", || scratch.processes().iter().any(|process| process.contains("cat two")));
    // By a call with a time limit: without a reader, this waits.
    let write =
        |fifo: &str| run(scratch.command("bash").args(["-c", "echo $0 was there > $0", fifo])).code(0);
    write("one");
    scratch.ts(&["wait-pattern", &handle, "\none was there"]).code(0);
    write("two");
    killing.finish().code(0);
    assert!(scratch.file(&handle, "output.log").contains("two was there"));
    scratch.ts(&["exit-code", &handle]).stdout("5\n");
}

#[test]
fn an_idle_shell_which_ignores_sigterm_does_not_cost_the_grace() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["send", &handle, "true"]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0);
    scratch.ts(&["kill", "--grace=600", &handle]).code(0);
}

#[test]
fn a_session_made_inside_a_session_is_not_of_it() {
    let (scratch, outer) =
        Scratch::with_session("nbs-ts create --no-helper --name=inner 'sleep 1000'; sleep 1000");
    // Once its handle is printed: a session whose caller has gone is removed.
    scratch.ts(&["wait-pattern", &outer, "\n"]).code(0);
    let inner = scratch.ts(&["find", "inner"]).out().trim().to_owned();
    scratch.ts(&["kill", &outer]).code(0);
    scratch.ts(&["status", &inner]).code(0).stdout("alive\n");
    assert!(is_running(&scratch.file(&inner, "pid")));
    scratch.ts(&["kill", &inner]).code(0);
}

#[test]
fn a_session_can_end_itself() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["send", &handle, "sleep 1000 & nbs-ts kill $NBS_TS_SESSION"]).code(0);
    eventually("its end", || scratch.ts(&["status", &handle]).status.code() == Some(2));
}

#[test]
fn several_can_be_killed_by_handle_by_name_or_all() {
    let scratch = Scratch::new();
    let first = scratch.create_with(&["--name=job-1"], "sleep 1000");
    let second = scratch.create_with(&["--name=job-2"], "sleep 1000");
    let third = scratch.create_with(&["--name=job-3"], "exit 0");
    scratch.wait_for_end(&third);
    let other = scratch.create("sleep 1000");
    scratch.ts(&["kill", &first, "00000000", &second]).code(2).complains("00000000");
    scratch.ts(&["status", &second]).code(2);
    scratch.ts(&["kill", "--name=job"]).code(0);
    scratch.ts(&["status", &third]).code(2);
    scratch.ts(&["status", &other]).code(0).stdout("alive\n");
    scratch.ts(&["kill", "--name=job"]).code(2);
    scratch.ts(&["kill", "--all"]).code(0);
    scratch.ts(&["list"]).stdout("");
}

#[test]
fn an_unknown_session_costs_no_other_its_life() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--name=one"], "sleep 1000");
    for target in ["00000000", "@on", "@onee"] {
        scratch.ts(&["kill", target]).code(2);
    }
    scratch.ts(&["kill", "one"]).code(4);
    scratch.ts(&["status", &handle]).stdout("alive\n");
}

#[test]
fn a_stopped_relay_does_not_save_its_session() {
    let (scratch, handle) = Scratch::with_session("sleep 1000");
    let (child, relay) = (scratch.file(&handle, "pid"), scratch.file(&handle, "daemon_pid"));
    signal("-STOP", &relay);
    scratch.ts(&["status", &handle]).code(0).stdout("alive\n");
    scratch.ts(&["kill", "--keep", &handle]).code(0);
    assert!(!is_running(&child) && !is_running(&relay));
    // It has gone on, and seen how its child ended.
    scratch.ts(&["exit-code", &handle]).stdout("143\n");
    assert_eq!(field(&scratch.file(&handle, "exit.json"), "ended_by"), "\"kill\"");
}

#[test]
fn a_stopped_process_that_is_told_to_end_has_its_say() {
    let (scratch, handle) = Scratch::with_session("trap 'echo bye; exit 5' TERM; kill -STOP $$");
    let child = scratch.file(&handle, "pid");
    eventually("its being stopped", || crate::support::state_of(&child) == Some('T'));
    scratch.ts(&["kill", "--keep", "--grace=600", &handle]).code(0);
    scratch.ts(&["read", &handle]).stdout("bye\r\n");
    scratch.ts(&["exit-code", &handle]).stdout("5\n");
}

#[test]
fn a_process_that_kills_its_relay_on_sigterm_is_ended() {
    let scratch = Scratch::new();
    let command = "trap 'kill -KILL $PPID' TERM; echo $$ >> pids; \
                   (trap '' TERM HUP; exec setsid sleep 1000) & echo $! >> pids; while :; do sleep 0.01; done";
    let handle = scratch.create(command);
    let pids = pids(&scratch, "pids", 2);
    is_called(&pids[1], "sleep");
    scratch.ts(&["kill", "--grace=0.5", &handle]).code(0);
    assert!(!pids.iter().any(|pid| is_running(pid)));
}

#[test]
fn a_relay_that_does_not_answer_or_cannot_write_does_not_hide_who_ended_its_session() {
    let (scratch, cannot_write) = Scratch::with_session("sleep 1000");
    let relay = scratch.file(&cannot_write, "daemon_pid");
    run(Command::new("prlimit").args(["--pid", &relay, "--fsize=0"])).code(0);
    scratch.ts(&["kill", "--keep", &cannot_write]).code(0);
    let event = scratch.ts(&["events"]).code(0).out();
    assert_eq!(field(&event, "ended_by"), "\"kill\"");
    // A relay that cannot accept clients, and is killed in the middle.
    let script = "ulimit -n 64; nbs-ts create --no-helper 'trap \"echo no\" TERM; echo ready; while :; do sleep 0.01; done'";
    let silent = scratch.bash(script).code(0).out().trim().to_owned();
    scratch.ts(&["wait-pattern", &silent, "ready"]).code(0);
    let connect = |_| std::os::unix::net::UnixStream::connect(scratch.folder(&silent).join("relay.sock"));
    let _guests: Vec<_> = (0..64).map(connect).collect();
    let killing = scratch.start(&["kill", "--keep", "--grace=600", &silent]);
    eventually("the cause being noted", || {
        fs::read(scratch.folder(&silent).join("ending")).is_ok_and(|cause| cause == b"kill")
    });
    assert_eq!(scratch.ts(&["status", &silent]).out(), "alive\n");
    signal("-KILL", &scratch.file(&silent, "daemon_pid"));
    killing.finish().code(0);
}

#[test]
fn kill_spares_unmarked_processes_of_a_kernel_session() {
    let (scratch, handle) = Scratch::with_session("sleep 1000");
    signal("-KILL", &scratch.file(&handle, "daemon_pid"));
    scratch.wait_for_end(&handle);
    let script = "exec > /dev/null 2>&1; NBS_TS_SESSION=$0 sleep 1001 & echo $! >> pids; \
                  sleep 1002 & echo $! >> pids; echo $$ >> pids; wait";
    let mut stranger = scratch.command("setsid").args(["bash", "-c", script, &handle]).spawn().unwrap();
    let pids = pids(&scratch, "pids", 3);
    is_called(&pids[0], "sleep");
    scratch.ts(&["kill", &handle]).code(0);
    assert!(!is_running(&pids[0]));
    assert!(is_running(&pids[1]) && is_running(&pids[2]));
    run(Command::new("kill").args(&pids[1..])).code(0);
    stranger.wait().unwrap();
}

#[test]
fn kill_ends_a_process_that_only_has_the_name_of_a_monitor() {
    let scratch = Scratch::new();
    // It does not mind that its terminal hangs up.
    let command = "cp \"$(type -P sleep)\" nbs-monitor; \
                   (trap '' HUP; exec setsid ./nbs-monitor 1000) & echo $! >> pids; wait";
    let handle = scratch.create(command);
    let pids = pids(&scratch, "pids", 1);
    is_called(&pids[0], "nbs-monitor");
    scratch.ts(&["kill", &handle]).code(0);
    assert!(!is_running(&pids[0]));
}

#[test]
fn a_pid_that_is_now_anothers_is_left_alone() {
    let scratch = Scratch::new();
    let mut innocent = Command::new("sleep").arg("1000").spawn().unwrap();
    let handle = scratch.create("exit 0");
    scratch.wait_for_end(&handle);
    let pid = innocent.id().to_string();
    for file in ["pid", "daemon_pid"] {
        fs::write(scratch.folder(&handle).join(file), &pid).unwrap();
    }
    scratch.ts(&["status", &handle]).stdout("dead\nexit_code: 0\n");
    scratch.ts(&["kill", &handle]).code(0);
    assert!(is_running(&pid));
    innocent.kill().unwrap();
    innocent.wait().unwrap();
}

#[test]
fn readers_at_work_do_not_keep_a_session_from_going() {
    let scratch = Scratch::new();
    for round in 0..10 {
        let handle = scratch.create("while :; do echo x; sleep 0.01; done");
        let script = format!("for n in $(seq 40); do nbs-ts read-new --reader=r{round}-$n {handle}; done");
        let readers: Vec<_> = (0..3).map(|_| start(scratch.command("bash").args(["-c", &script]))).collect();
        scratch.ts(&["kill", &handle]).code(0).silent();
        for reader in readers {
            reader.finish();
        }
    }
    let left: Vec<_> = fs::read_dir(scratch.state().join("sessions")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_process_whose_first_thread_has_ended_is_killed_all_the_same() {
    let scratch = Scratch::new();
    let program = "import threading,time,ctypes,os;open('pids','w').write(str(os.getpid())+'\\n');\
threading.Thread(target=lambda:time.sleep(1000)).start();ctypes.CDLL(None).pthread_exit(None)";
    let handle = scratch.create(&format!("exec python3 -c \"{program}\""));
    let pids = pids(&scratch, "pids", 1);
    eventually("its first thread's end", || crate::support::state_of(&pids[0]) == Some('Z'));
    scratch.ts(&["kill", &handle]).code(0);
    eventually("its end", || {
        let tasks = fs::read_dir(format!("/proc/{}/task", pids[0]));
        tasks.map_or(0, Iterator::count) <= 1
    });
}

#[test]
fn a_kill_that_is_interrupted_leaves_no_cause_behind() {
    let (scratch, handle) = Scratch::with_session("trap 'echo no' TERM; echo ready; read x; read x; exit 5");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    // A process in the background, as the tests may be, starts with SIGINT ignored.
    let mut interruptible = scratch.command("env");
    interruptible.args(["--default-signal=INT", "nbs-ts", "kill", "--keep", "--grace=600", &handle]);
    let killing = start(&mut interruptible);
    scratch.ts(&["wait-pattern", &handle, "no"]).code(0);
    signal("-INT", &killing.pid().to_string());
    killing.finish();
    scratch.ts(&["send", &handle, "go"]).code(0);
    scratch.ts(&["send", &handle, "go"]).code(0);
    scratch.wait_for_end(&handle);
    assert_eq!(field(&scratch.file(&handle, "exit.json"), "ended_by"), "\"self\"");
}
