use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::support::{Scratch, binary, eventually, field, is_running, run, signal, start, whole_lines};

/// A follower of the events, into a file.
struct Follower {
    child: Child,
    file: PathBuf,
}

impl Follower {
    fn start(scratch: &Scratch, name: &str) -> Follower {
        let file = scratch.path.join(format!("follower.{name}"));
        let mut command = scratch.command("nbs-ts");
        command.args(["events", "--follow"]).stdout(fs::File::create(&file).unwrap());
        let child = command.stderr(fs::File::create(file.with_extension("errors")).unwrap()).spawn().unwrap();
        Follower { child, file }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn lines(&self) -> Vec<String> {
        whole_lines(&self.file)
    }

    /// Waits until it has printed exactly these, each once.
    fn tells(&self, handles: &BTreeSet<String>) {
        eventually("the follower telling of all", || self.lines().len() >= handles.len());
        let told: Vec<String> = self.lines().iter().map(|line| handle_in(line)).collect();
        assert_eq!(told.len(), handles.len(), "one was told twice: {told:?}");
        assert_eq!(&told.into_iter().collect::<BTreeSet<_>>(), handles);
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    fn is_quiet(&self) {
        assert_eq!(fs::read_to_string(self.file.with_extension("errors")).unwrap(), "");
    }

    /// Has it begun to watch?
    fn watches(&self) -> bool {
        let open = fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let links: Vec<_> = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).collect();
        links.iter().any(|link| link.ends_with("alive"))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn handle_in(event: &str) -> String {
    field(event, "session_id").trim_matches('"').to_owned()
}

/// The names in the directory of the events.
fn names(scratch: &Scratch) -> BTreeSet<String> {
    let names = fs::read_dir(scratch.state().join("events")).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The helper, in the foreground, until it is dropped.
struct Helper(Child);

impl Helper {
    fn start(scratch: &Scratch) -> Helper {
        let mut command = scratch.command(binary());
        let child = command.arg("ts-helper").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let socket = scratch.state().join("helper.sock");
        eventually("the helper", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        Helper(child)
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A session that waits for a line, so that it ends on request.
const READY: &str = "echo ready; read x;";

fn create_ready(scratch: &Scratch, options: &[&str], rest: &str) -> String {
    let mut arguments = vec!["create"];
    arguments.extend(options);
    let command = format!("{READY} {rest}");
    arguments.push(&command);
    let handle = scratch.ts(&arguments).code(0).out().trim().to_owned();
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    handle
}

/// Ends a session in this way; returns its handle, and its facts.
type Way = fn(&Scratch) -> (String, [&'static str; 4]);

#[test]
fn a_hundred_sessions_end_in_every_way_and_each_leaves_one_true_exit_record() {
    let scratch = Scratch::new();
    scratch.ts(&["create", "--no-helper", "true"]).code(0);
    let mut helper = Helper::start(&scratch);
    let first = Follower::start(&scratch, "first");
    eventually("the follower watching", || first.watches());
    // The follower has printed the one that was there before.
    eventually("the first event", || first.lines().len() == 1);
    let open_files = first.open_files();

    // exit_code, signal, ended_by, timed_out
    let ways: [Way; 11] = [
        |scratch| {
            let handle = create_ready(scratch, &["--no-helper"], "exit 7");
            scratch.ts(&["send", &handle, ""]).code(0);
            (handle, ["7", "null", "\"self\"", "false"])
        },
        |scratch| {
            let handle = create_ready(scratch, &["--no-helper"], "kill -KILL $$");
            scratch.ts(&["send", &handle, ""]).code(0);
            (handle, ["137", "\"SIGKILL\"", "\"self\"", "false"])
        },
        |scratch| {
            let handle = create_ready(scratch, &["--no-helper", "--name=killed"], "");
            scratch.ts(&["kill", &handle]).code(0);
            (handle, ["143", "\"SIGTERM\"", "\"kill\"", "false"])
        },
        |scratch| {
            let handle = scratch.create_with(&["--timeout=0.2"], "setsid sleep 1000 & sleep 1000");
            (handle, ["143", "\"SIGTERM\"", "\"timeout\"", "true"])
        },
        |scratch| {
            let handle = scratch.create_with(&["--idle-timeout=0.1"], "echo ready; exec sleep 1000");
            (handle, ["143", "\"SIGTERM\"", "\"idle_timeout\"", "true"])
        },
        |scratch| {
            let mut owner = Command::new("sleep").arg("1000").spawn().unwrap();
            let option = format!("--owner={}", owner.id());
            let handle = create_ready(scratch, &["--no-helper", &option], "");
            owner.kill().unwrap();
            owner.wait().unwrap();
            (handle, ["143", "\"SIGTERM\"", "\"owner\"", "false"])
        },
        |scratch| {
            let handle = create_ready(scratch, &["--no-helper"], "");
            signal("-TERM", &scratch.file(&handle, "daemon_pid"));
            (handle, ["129", "\"SIGHUP\"", "\"self\"", "false"])
        },
        |scratch| {
            let handle = create_ready(scratch, &["--no-helper"], "");
            signal("-KILL", &scratch.file(&handle, "daemon_pid"));
            (handle, ["-1", "null", "\"unknown\"", "false"])
        },
        |scratch| {
            let handle = create_ready(scratch, &["--require-helper"], "exit 3");
            scratch.ts(&["send", &handle, ""]).code(0);
            (handle, ["3", "null", "\"self\"", "false"])
        },
        |scratch| {
            let handle = scratch.ts(&[
                "create",
                "--require-helper",
                "--timeout=0.2",
                "setsid sleep 1000 & sleep 1000",
            ]);
            (handle.code(0).out().trim().to_owned(), ["143", "\"SIGTERM\"", "\"timeout\"", "true"])
        },
        |scratch| {
            let handle = create_ready(scratch, &["--require-helper"], "");
            signal("-KILL", &scratch.ts(&["status", "--json", &handle]).field("pid"));
            (handle, ["137", "\"SIGKILL\"", "\"self\"", "false"])
        },
    ];
    let mut expected = BTreeMap::new();
    for _ in 0..9 {
        expected.extend(ways.iter().map(|way| way(&scratch)));
    }
    // A helper that is killed ends no session.
    let survivor = create_ready(&scratch, &["--require-helper"], "exit 4");
    helper.kill();
    scratch.ts(&["send", &survivor, ""]).code(0);
    expected.insert(survivor, ["4", "null", "\"self\"", "false"]);
    assert_eq!(expected.len(), 100);

    let before = handle_in(&first.lines()[0]);
    let all: BTreeSet<String> = expected.keys().cloned().chain([before.clone()]).collect();
    first.tells(&all);
    let last = Follower::start(&scratch, "last");
    last.tells(&all);
    let there = scratch.ts(&["events"]).code(0).silent().out();
    assert_eq!(there.lines().count(), 101);
    scratch.ts(&["events", "--json"]).stdout(&there);
    let ends: Vec<f64> = there.lines().map(|line| field(line, "ended").parse().unwrap()).collect();
    assert!(ends.is_sorted(), "{ends:?}");
    for event in first.lines().iter().chain(&last.lines()) {
        assert!(there.contains(&format!("{event}\n")), "{event}");
        let Some(truth) = expected.get(&handle_in(event)) else { continue };
        let mut told = ["exit_code", "signal", "ended_by", "timed_out"].map(|name| field(event, name));
        if told[0] == "137" && truth[0] == "143" {
            // On a busy machine the grace may be over first.
            told[0] = "143".to_owned();
            told[1] = told[1].replace("KILL", "TERM");
        }
        assert_eq!(&told, truth, "{event}");
        // The sessions whose timeouts were over first have printed nothing.
        if field(event, "output_bytes") != "0" {
            assert!(field(event, "last_lines").contains("ready"), "{event}");
        } else {
            assert_eq!(field(event, "timed_out"), "true", "{event}");
        }
    }
    // The same as the exit record in the directory, if it still exists.
    for handle in expected.keys().filter(|handle| scratch.folder(handle).exists()) {
        let exit_record = scratch.file(handle, "exit.json");
        assert!(there.contains(&exit_record), "{exit_record}");
        assert_eq!(fs::metadata(scratch.folder(handle).join("exit.json")).unwrap().nlink(), 2);
    }

    eventually("every file being closed", || first.open_files() <= open_files);
    first.is_quiet();
    last.is_quiet();
    // An end is published before its relay has released the session.
    eventually("all being dead", || !scratch.ts(&["list"]).out().contains("\talive\t"));
    // While there is a follower, recent events stay; then none do.
    scratch.ts(&["gc", "--hours=0"]).code(0).silent();
    assert_eq!(scratch.ts(&["events"]).out(), there);
    drop((first, last));
    scratch.ts(&["gc", "--hours=0"]).code(0).silent();
    assert_eq!(names(&scratch), BTreeSet::from(["alive".to_owned()]));
    assert_eq!(fs::read_dir(scratch.state().join("sessions")).unwrap().count(), 0);
    scratch.ts(&["events"]).code(0).stdout("").silent();
    drop(helper);
    eventually("nobody being left", || scratch.processes().is_empty());
}

#[test]
fn thirty_that_end_at_once_and_are_removed_at_once_are_all_told() {
    let scratch = Scratch::new();
    let gate = scratch.path.join("gate");
    run(Command::new("mkfifo").arg(&gate)).code(0);
    let follower = Follower::start(&scratch, "one");
    let other = Follower::start(&scratch, "other");
    let mut all = BTreeSet::new();
    for _ in 0..3 {
        let command = format!("echo ready; cat {}", gate.display());
        let handles: Vec<String> = (0..30).map(|_| scratch.create(&command)).collect();
        for handle in &handles {
            scratch.ts(&["wait-pattern", handle, "ready"]).code(0);
        }
        all.extend(handles.iter().cloned());
        // A process that has it open for reading reads its end when the last writer goes.
        let killed: Vec<&str> = handles.iter().take(10).map(String::as_str).collect();
        let kills: Vec<_> =
            (0..2).map(|_| scratch.start(&[&["kill", "--if-exists"][..], &killed[..]].concat())).collect();
        drop(fs::File::options().read(true).write(true).open(&gate).unwrap());
        let collecting: Vec<_> = (0..4).map(|_| scratch.start(&["gc", "--hours=0"])).collect();
        kills.into_iter().chain(collecting).for_each(|call| drop(call.finish().code(0).silent()));
        // A process that opened the gate late has not seen it closed.
        eventually("all being dead", || {
            drop(fs::File::options().read(true).write(true).open(&gate).unwrap());
            scratch.ts(&["gc", "--hours=0"]).code(0);
            scratch.ts(&["list"]).out().is_empty()
        });
        follower.tells(&all);
        other.tells(&all);
    }
    follower.is_quiet();
}

#[test]
fn many_who_kill_one_leave_one_exit_record_and_no_nonsense() {
    let scratch = Scratch::new();
    let follower = Follower::start(&scratch, "one");
    let mut all = BTreeSet::new();
    for _ in 0..5 {
        let handle = scratch.create("trap '' TERM; setsid sleep 1000 & while :; do sleep 1; done");
        let kills: Vec<_> = (0..20).map(|_| scratch.start(&["kill", &handle])).collect();
        for kill in kills {
            let ran = kill.finish();
            match ran.status.code() {
                Some(0) => drop(ran.silent()),
                _ => drop(ran.code(2).complains(&handle)),
            }
        }
        all.insert(handle);
        follower.tells(&all);
    }
    for event in follower.lines() {
        assert_eq!(field(&event, "ended_by"), "\"kill\"", "{event}");
    }
}

#[test]
fn an_end_that_nobody_wrote_down_is_told_by_whoever_looks_first() {
    let scratch = Scratch::new();
    let options = ["--name=n", "--title=t", "--parent=p"];
    let looks: [&[&str]; 3] = [&["events"], &["kill", "@n"], &["gc", "--hours=0"]];
    for look in looks {
        let handle = scratch.create_with(&options, "echo one; printf two; exec sleep 1000");
        scratch.ts(&["wait-pattern", &handle, "two"]).code(0);
        let log = scratch.folder(&handle).join("output.log");
        run(Command::new("touch").args(["-d", "@2000000000.25"]).arg(&log)).code(0);
        signal("-KILL", &scratch.file(&handle, "daemon_pid"));
        scratch.wait_for_end(&handle);
        scratch.ts(look).code(0);
        if look[0] == "gc" {
            // It ended in the future, by that clock; so it is no older than 0 h.
            assert!(!scratch.folder(&handle).exists());
            continue;
        }
        let event = scratch.ts(&["events", "--name=n"]).code(0).silent().out();
        for (name, value) in [
            ("session_id", format!("\"{handle}\"").as_str()),
            ("pane_id", "\"n\""),
            ("exit_code", "-1"),
            ("last_lines", "[\"one\",\"two\"]"),
            ("session_title", "\"t\""),
            ("session_description", "null"),
            ("parent_agent", "\"p\""),
            ("timed_out", "false"),
            ("signal", "null"),
            ("ended_by", "\"unknown\""),
            ("ended", "2000000000.250000"),
            ("output_bytes", "8"),
            ("drained", "false"),
        ] {
            assert_eq!(field(&event, name), value, "{event}");
        }
        let status = scratch.ts(&["status", "--json", &handle]);
        if look[0] == "events" {
            assert_eq!(status.code(0).field("ended"), "2000000000.250000");
            scratch.ts(&["status", &handle]).stdout("dead\nexit_code: unknown\nended_by: unknown\n");
        }
        // This one is not published again, whatever call looks.
        assert_eq!(scratch.ts(&["events", "--name=n"]).out(), event);
        scratch.ts(&["gc", "--hours=0"]).code(0);
        scratch.ts(&["events"]).stdout("");
    }
}

#[test]
fn a_relay_that_does_not_answer_is_killed_by_kill_and_that_is_told() {
    let (scratch, handle) = Scratch::with_session("exec sleep 1000");
    let follower = Follower::start(&scratch, "one");
    eventually("the follower watching", || follower.watches());
    // It has no descriptor left to accept a client, and is stopped each time that it is continued.
    let relay = scratch.file(&handle, "daemon_pid");
    let open = fs::read_dir(format!("/proc/{relay}/fd")).unwrap();
    let highest = open.map(|entry| entry.unwrap().file_name().into_string().unwrap().parse::<u32>().unwrap());
    let limit = format!("--nofile={}", highest.max().unwrap() + 1);
    run(Command::new("prlimit").args(["--pid", &relay, &limit])).code(0);
    let script =
        format!("while [ -e /proc/{relay}/fd/0 ] && kill -STOP {relay}; do sleep 0.001; done 2> /dev/null");
    let mut again = Command::new("bash").args(["-c", &script]).spawn().unwrap();
    scratch.ts(&["kill", &handle]).code(0);
    again.wait().unwrap();
    follower.tells(&BTreeSet::from([handle]));
    let event = follower.lines().remove(0);
    assert_eq!(field(&event, "ended_by"), "\"kill\"", "{event}");
    // Between two stops it may have come to see its child end, which may have been slow.
    assert!(["-1", "143", "137"].contains(&&*field(&event, "exit_code")), "{event}");
}

#[test]
fn a_follower_that_slept_through_it_looks_again() {
    let scratch = Scratch::new();
    scratch.create("true");
    let follower = Follower::start(&scratch, "one");
    eventually("the follower telling", || follower.lines().len() == 1);
    let mut all: BTreeSet<String> = follower.lines().iter().map(|line| handle_in(line)).collect();
    signal("-STOP", &follower.pid());
    // The queue of the kernel takes 16,384 changes.
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let events = scratch.state().join("events");
    for n in 0..limit.trim().parse::<u32>().unwrap() {
        let name = events.join(format!("noise.{}", n % 2));
        fs::write(&name, "").unwrap();
    }
    let killed = scratch.create("exec sleep 1000");
    signal("-KILL", &scratch.file(&killed, "daemon_pid"));
    scratch.wait_for_end(&killed);
    let removed = scratch.create("exec sleep 1000");
    scratch.ts(&["kill", &removed]).code(0);
    // A concurrent `gc` keeps unread events.
    scratch.ts(&["gc", "--hours=0"]).code(0);
    all.extend([killed, removed]);
    signal("-CONT", &follower.pid());
    follower.tells(&all);
    follower.is_quiet();
    fs::remove_file(events.join("noise.0")).unwrap();
    fs::remove_file(events.join("noise.1")).unwrap();
}

#[test]
fn a_follower_whose_reader_has_gone_goes_too_though_nothing_happens() {
    let scratch = Scratch::new();
    let ran = scratch.bash("nbs-ts events --follow | exec true; echo ${PIPESTATUS[0]}");
    ran.code(0).stdout("141\n").silent();
    // A peer that has nothing more to say may listen still.
    let script = r#"
import os, signal, socket, subprocess
ours, theirs = socket.socketpair()
follower = subprocess.Popen(['nbs-ts', 'events', '--follow'], stdin=theirs, stdout=theirs)
theirs.close()
ours.shutdown(socket.SHUT_WR)
subprocess.run(['nbs-ts', 'create', '--no-helper', 'exit 9'], stdout=subprocess.DEVNULL, check=True)
assert b'"exit_code":9' in ours.recv(65536)
ours.close()
assert follower.wait(30) == -signal.SIGPIPE
"#;
    run(scratch.command("python3").args(["-c", script])).code(0).silent();
}

#[test]
fn the_error_names_the_limit_of_inotify_watches() {
    let scratch = Scratch::new();
    // In a user namespace of its own, so that it affects no other process.
    let script = "echo 0 > /proc/sys/user/max_inotify_instances; exec nbs-ts events --follow";
    let ran = run(scratch.command("unshare").args(["-Ur", "bash", "-c", script]));
    ran.code(1).stdout("").complains("fs.inotify.max_user_instances");
}

#[test]
fn events_are_told_by_name_and_before_anything_has_happened() {
    let scratch = Scratch::new();
    scratch.ts(&["events"]).code(0).stdout("").silent();
    assert_eq!(fs::metadata(scratch.state().join("events")).unwrap().mode() & 0o777, 0o700);
    let build = scratch.create_with(&["--name=build"], "exit 1");
    let other = scratch.create_with(&["--name=other"], "exit 2");
    let unnamed = scratch.create("exit 3");
    for handle in [&build, &other, &unnamed] {
        scratch.wait_for_end(handle);
    }
    let named = scratch.ts(&["events", "--name=uil"]).code(0).out();
    assert_eq!((named.lines().count(), handle_in(&named)), (1, build));
    // Its handle is in the place of a name; it does not count as one.
    scratch.ts(&["events", &format!("--name={unnamed}")]).code(0).stdout("");
    assert_eq!(scratch.ts(&["events"]).code(0).out().lines().count(), 3);
    scratch.ts(&["events", "x"]).code(4);
    scratch.ts(&["events", "--name"]).code(4);
}

#[test]
fn gc_goes_by_age_by_count_or_by_both() {
    let scratch = Scratch::new();
    let handles: Vec<String> = (0..5).map(|_| scratch.create("exit 0")).collect();
    let alive = scratch.create("exec sleep 1000");
    for (n, handle) in handles.iter().enumerate() {
        scratch.wait_for_end(handle);
        // The first has died last.
        for file in ["exit_code", "exit.json"] {
            let file = scratch.folder(handle).join(file);
            run(Command::new("touch").args(["-d", &format!("{} minutes ago", 10 * n + 10)]).arg(file))
                .code(0);
        }
    }
    scratch.ts(&["gc", "--hours=1", "--ttl=1h"]).code(4).complains("cannot use --");
    for bad in [&["--keep=-1"][..], &["--keep"], &["--keep=x"], &["--ttl="], &["--ttl=-5m"], &["--ttl=x"]] {
        scratch.ts(&[&["gc"], bad].concat()).code(4).stdout("");
    }
    let count = |removed: usize, dead: usize| {
        format!("gc: removed {removed} sessions, kept 1 alive + {dead} recent dead\n")
    };
    let gone = |handle: &String| format!("gc: removed {handle} (-), dead for 0h\n");
    scratch.ts(&["gc"]).code(0).stdout(count(0, 5));
    scratch.ts(&["gc", "--keep=5"]).code(0).stdout(count(0, 5));
    scratch.ts(&["gc", "--keep=4"]).code(0).stdout(gone(&handles[4]) + &count(1, 4));
    scratch.ts(&["gc", "--ttl=35m"]).code(0).stdout(gone(&handles[3]) + &count(1, 3));
    scratch
        .ts(&["gc", "--ttl=25m", "--keep=1"])
        .code(0)
        .stdout(gone(&handles[1]) + &gone(&handles[2]) + &count(2, 1));
    // Events older than the requested age are gone, too.
    let told = || scratch.ts(&["events"]).out().lines().map(handle_in).collect::<BTreeSet<_>>();
    assert_eq!(told(), BTreeSet::from([handles[0].clone(), handles[1].clone()]));
    scratch.ts(&["gc", "--keep=0"]).code(0).stdout(gone(&handles[0]) + &count(1, 0));
    assert_eq!(told().len(), 2, "--keep is about sessions");
    scratch.ts(&["gc", "--ttl=0"]).code(0).stdout(count(0, 0));
    assert_eq!(told().len(), 0);
    scratch.ts(&["status", &alive]).stdout("alive\n");
}

#[test]
fn events_of_an_existing_session_are_kept() {
    let (scratch, handle) = Scratch::with_session("exit 0");
    scratch.wait_for_end(&handle);
    scratch.ts(&["events"]).code(0).stdout_has(&handle);
    for file in ["exit_code", "exit.json"] {
        let file = scratch.folder(&handle).join(file);
        run(Command::new("touch").args(["-d", "1 week ago"]).arg(file)).code(0);
    }
    // A follower would get it a second time.
    scratch.ts(&["gc", "--keep=1"]).code(0).stdout("gc: removed 0 sessions, kept 0 alive + 1 recent dead\n");
    assert!(scratch.state().join(format!("events/{handle}.json")).exists());
}

#[test]
fn gc_knows_what_a_killed_call_left_among_the_events() {
    let (scratch, dead) = Scratch::with_session("exit 0");
    scratch.wait_for_end(&dead);
    let events = scratch.state().join("events");
    let left = |handle: &str| events.join(format!(".{handle}.json.new"));
    for handle in ["00000000", &dead] {
        fs::write(left(handle), "{").unwrap();
    }
    fs::write(events.join("of-somebody-else"), "").unwrap();
    scratch.ts(&["gc"]).code(0);
    let is_there = |path: &Path| path.exists();
    assert!(!is_there(&left("00000000")), "nobody writes it any more");
    assert!(is_there(&left(&dead)), "somebody may write it");
    scratch.ts(&["gc", "--hours=0"]).code(0);
    assert_eq!(names(&scratch), BTreeSet::from(["alive".to_owned(), "of-somebody-else".to_owned()]));
    scratch.ts(&["events"]).code(0).stdout("");
}

#[test]
fn a_file_system_without_links_gets_copies() {
    let (scratch, before) = Scratch::with_session("true");
    scratch.wait_for_end(&before);
    // No process may link across mounts, and every rename there is a copy's.
    let events = scratch.state().join("events");
    let mounted = Mount::over(&events);
    let follower = Follower::start(&scratch, "one");
    eventually("the first being told", || follower.lines().len() == 1);
    let mut all: BTreeSet<String> = follower.lines().iter().map(|line| handle_in(line)).collect();
    let ended = scratch.create("exit 5");
    let killed = scratch.create("exec sleep 1000");
    signal("-KILL", &scratch.file(&killed, "daemon_pid"));
    all.extend([ended.clone(), killed]);
    follower.tells(&all);
    let event = follower.lines().into_iter().find(|line| handle_in(line) == ended).unwrap();
    assert_eq!(field(&event, "exit_code"), "5");
    assert!(names(&scratch).iter().all(|name| !name.starts_with('.')));
    drop(follower);
    scratch.ts(&["kill", "--all"]).code(0);
    drop(mounted);
}

#[test]
fn a_full_disk_keeps_no_end_from_being_told() {
    let scratch = Scratch::new();
    let small = scratch.path.join("small");
    fs::create_dir(&small).unwrap();
    let mounted = Mount::small(&small);
    let ts = |arguments: &[&str]| {
        run(scratch.command("nbs-ts").env("NBS_TS_HOME", small.join("nbs")).args(arguments))
    };
    let create = |options: &[&str]| {
        let command = "echo ready; read x; seq 100000; exec sleep 1000";
        let ran = ts(&[&["create", "--no-helper"], options, &[command]].concat());
        ran.code(0).out().trim().to_owned()
    };
    let killed = create(&[]);
    let timed = create(&["--timeout=1"]);
    ts(&["send", &killed, ""]).code(0);
    eventually("the disk being full", || ts(&["status", "--json", &killed]).field("stalled") != "null");
    // Fills the remaining space; the other's timeout is over meanwhile, or was before.
    let child = fs::read_to_string(small.join(format!("nbs/sessions/{timed}/pid"))).unwrap();
    eventually("the end of the other", || !is_running(&child));
    ts(&["kill", &killed]).code(0);
    // That one has freed space by its end.
    eventually("both being told", || ts(&["events"]).code(0).out().lines().count() == 2);
    let told = ts(&["events"]).out();
    let of = |handle: &str| told.lines().find(|line| line.contains(handle)).unwrap().to_owned();
    assert_eq!(field(&of(&killed), "ended_by"), "\"kill\"");
    assert_eq!(field(&of(&timed), "ended_by"), "\"timeout\"");
    assert!(["143", "137"].contains(&field(&of(&timed), "exit_code").as_str()), "{told}");
    ts(&["kill", "--all"]).code(0);
    drop(mounted);
}

/// A file system for one test; such tests need root, as CI has it.
struct Mount(PathBuf);

impl Mount {
    fn over(at: &Path) -> Mount {
        run(Command::new("mount").args(["-t", "tmpfs", "-o", "mode=700", "tmpfs"]).arg(at)).code(0);
        Mount(at.to_owned())
    }

    fn small(at: &Path) -> Mount {
        run(Command::new("mount").args(["-t", "tmpfs", "-o", "mode=700,size=384k", "tmpfs"]).arg(at)).code(0);
        Mount(at.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run(Command::new("umount").arg("-l").arg(&self.0));
    }
}

#[test]
fn a_session_whose_relay_was_just_killed_was_not_ended_by_kill() {
    use rustix::process::{Pid, Signal, kill_process};
    let scratch = Scratch::new();
    for _ in 0..20 {
        let handle = scratch.create("exec sleep 1000");
        let relay = scratch.file(&handle, "daemon_pid").parse().ok().and_then(Pid::from_raw).unwrap();
        kill_process(relay, Signal::KILL).unwrap();
        scratch.ts(&["kill", &handle]).code(0);
    }
    let told = scratch.ts(&["events"]).code(0).out();
    assert_eq!(told.lines().count(), 20);
    for event in told.lines() {
        assert_eq!(field(event, "ended_by"), "\"unknown\"", "{event}");
    }
}

/// The relay is killed between two system calls of the `kill`: before it is opened, and before it is asked.
#[test]
fn a_kill_does_not_take_the_end_of_a_relay_that_was_killed_meanwhile_for_its_own() {
    let scratch = Scratch::new();
    for call in ["pidfd_open", "connect"] {
        let handle = scratch.create("exec sleep 1000");
        let trace = scratch.path.join(call);
        let mut strace = scratch.command("strace");
        strace.args(["-f", "-qq", "-e", &format!("inject={call}:signal=SIGSTOP:when=1"), "-o"]).arg(&trace);
        let killing = start(strace.arg(binary()).args(["nbs-ts", "kill", &handle]));
        let stopped = || {
            let trace = fs::read_to_string(&trace).ok()?;
            let line = trace.lines().find(|line| line.contains("stopped by SIGSTOP"))?;
            Some(line.split_ascii_whitespace().next()?.to_owned())
        };
        eventually("the stop of the kill", || stopped().is_some());
        signal("-KILL", &scratch.file(&handle, "daemon_pid"));
        signal("-CONT", &stopped().unwrap());
        killing.finish().code(0);
        let told = scratch.ts(&["events"]).code(0).out();
        let event = told.lines().find(|event| event.contains(&handle)).unwrap();
        assert_eq!(field(event, "ended_by"), "\"unknown\"", "{call}: {event}");
    }
}
