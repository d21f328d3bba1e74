//! The connection: streams, lost bytes, and processes that are killed or stopped.

use super::*;
use std::os::unix::process::ExitStatusExt;

#[test]
fn streams_of_any_size_arrive_whole_in_both_directions() {
    let there = Elsewhere::new();
    let session = there.create("stty raw -echo; echo ready; sha1sum; sleep 60");
    there.ts(&["wait", &session, "--pattern=ready"]).code(0);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| b'a' + (number * 7 % 23) as u8).collect();
    there
        .scratch
        .ts_with_input(&["send", "--stdin", "--no-enter", "--timeout=100", &session], &bytes)
        .code(0);
    let session = there.create("seq 1 700000");
    there.ts(&["wait", &session, "--exit"]).code(0);
    let expected: String = (1..=700_000).map(|number| format!("{number}\r\n")).collect();
    there.ts(&["read", &session]).code(0).stdout(expected).silent();
}

#[test]
fn changed_bytes_are_not_delivered_and_no_byte_is_lost() {
    let there = Elsewhere::unadded();
    there.add_line();
    let log = there.create("seq 1 30000");
    there.ts(&["wait", &log, "--exit"]).code(0);
    let expected: String = (1..=30_000).map(|number| format!("{number}\r\n")).collect();
    let reader = there.create("stty -echo -icanon; echo ready; exec cat >>got");
    there.ts(&["wait", &reader, "--pattern=ready"]).code(0);
    let got = || fs::read_to_string(there.home.join("got")).unwrap_or_default();
    let mut typed = String::new();
    for (number, (how, after)) in
        [("turn", 300), ("insert", 300), ("turn", 60_000), ("insert", 60_000)].into_iter().enumerate()
    {
        there.spoil_line("back", how, after);
        there.ts(&["read", &log]).code(0).stdout(&expected).silent();
        there.spoil_line("there", how, after);
        let more: String = (1..=8_000).map(|line| format!("{number} {line}\n")).collect();
        let send = ["send", "--stdin", "--no-enter", "--timeout=100", &reader];
        there.scratch.ts_with_input(&send, more.as_bytes()).code(0).silent();
        typed += &more;
        eventually("all that was typed", || got().len() >= typed.len());
        assert!(got() == typed, "{how} after {after}");
    }
}

#[test]
fn a_line_that_always_changes_what_passes_over_it_is_named() {
    let expected: String = (1..=30_000).map(|number| format!("{number}\r\n")).collect();
    let named = |direction| {
        let there = Elsewhere::unadded();
        there.add_line();
        let log = there.create("seq 1 30000");
        there.ts(&["wait", &log, "--exit"]).code(0);
        there.spoil_line(direction, "always-turn", 10);
        let ran = there.ts(&["read", &log]).code(255).complains("its connection is at fault");
        assert!(expected.starts_with(&ran.out()), "{ran:?}");
        there.mend_line();
        there.ts(&["status", &log]).code(0);
    };
    // Each is tried again for half a minute.
    std::thread::scope(|scope| {
        scope.spawn(|| named("there"));
        named("back");
    });
}

#[test]
fn a_reader_that_has_gone_ends_what_follows_and_what_has_something_to_print() {
    let there = Elsewhere::new();
    let shell = there.create("bash");
    let script = format!(
        r#"
exec 3> >(:)
wait $!
nbs-ts run {shell} '(exit 7)' >&3
echo $?
nbs-ts status {shell} >&3
echo $?
nbs-ts attach {shell} >&3
echo $?
nbs-ts list --on=box --follow --json >&3
echo $?
nbs-ts run {shell} yes | head -1
echo ${{PIPESTATUS[0]}}
nbs-ts run {shell} 'echo on'
"#
    );
    there.scratch.bash(&script).code(0).stdout("7\n141\n141\n141\ny\n141\non\n").silent();
    let script = format!("nbs-ts run {shell} 'echo begun; sleep 1000' > /dev/full");
    there.scratch.bash(&script).code(125).complains("standard output");
    there.ts(&["run", &shell, "echo on"]).code(0).stdout("on\n").silent();
}

/// By a command that sets none, which has that of the call that began the bridge.
#[test]
fn a_session_has_the_umask_of_the_command_that_leads_there() {
    let there = Elsewhere::new();
    let create = "umask 027; exec nbs-ts create --on=box --no-helper bash";
    let created = run(there.scratch.command("sh").args(["-c", create])).code(0);
    there.ts(&["run", created.out().trim_end(), "umask"]).code(0).stdout("0027\n");
}

#[test]
fn a_killed_bridge_loses_nothing() {
    let there = Elsewhere::new();
    let session = there.create("bash");
    let go = there.scratch.path.join("go");
    let command = format!("echo one; until [ -e {} ]; do sleep 0.01; done; echo two; (exit 9)", go.display());
    let call = there.scratch.start(&["run", &session, &command]);
    there.ts(&["wait-pattern", &session, "one\r\n"]).code(0);
    kill(&there.bridge());
    fs::write(&go, "").unwrap();
    call.finish().code(9).stdout("one\ntwo\n").silent();
    there.ts(&["run", &session, "echo three"]).code(0).stdout("three\n").silent();
}

/// Leaves a process no more descriptors than it has once it has only the socket that callers
/// connect to: who has ended may have left it another one, which it is about to close.
fn exhaust(pid: &str) {
    eventually("no caller", || sockets_of(pid) == 1);
    let is_free = |number: &u32| !Path::new(&format!("/proc/{pid}/fd/{number}")).exists();
    let limit = format!("--nofile={}:", (0..).find(is_free).unwrap());
    run(Command::new("prlimit").args(["--pid", pid, &limit])).code(0);
}

/// Waits until a process has connected to another one, and both sleep.
fn rests_while_another_waits(resting: &str, waiting: &str) {
    let sleeps = |pid: &str| state_of(pid) == Some('S');
    let links = |pid: &str| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let has_socket = |pid: &str| {
        links(pid).any(|entry| {
            let link = entry.and_then(|entry| fs::read_link(entry.path())).unwrap_or_default();
            link.to_string_lossy().starts_with("socket:")
        })
    };
    eventually("somebody waiting", || has_socket(waiting) && sleeps(waiting));
    // A loop of attempts never sleeps.
    eventually("rest", || (0..200).all(|_| sleeps(resting)));
}

#[test]
fn a_bridge_without_descriptors_rests_until_there_are_some() {
    let there = Elsewhere::new();
    let session = there.create("cat");
    let bridge = there.bridge();
    exhaust(&bridge);
    let call = there.scratch.start(&["status", &session]);
    rests_while_another_waits(&bridge, &call.pid().to_string());
    run(Command::new("prlimit").args(["--pid", &bridge, "--nofile=1024:"])).code(0);
    call.finish().code(0).stdout("alive\n");
}

#[test]
fn a_far_side_without_descriptors_rests_until_there_are_some() {
    let there = Elsewhere::new();
    let session = there.create("cat");
    let far = |role: &str| {
        let pids = there.processes().into_iter();
        let words = |pid: &String| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        pids.filter(|pid| words(pid).contains(&format!("nbs-far\0{role}\0"))).collect::<Vec<_>>()
    };
    let serving = far("serve").pop().unwrap();
    kill(&there.bridge());
    eventually("the connection being lost", || far("connect").is_empty());
    exhaust(&serving);
    let call = there.scratch.start(&["status", &session]);
    eventually("another connection", || !far("connect").is_empty());
    rests_while_another_waits(&serving, &far("connect")[0]);
    run(Command::new("prlimit").args(["--pid", &serving, "--nofile=1024:"])).code(0);
    call.finish().code(0).stdout("alive\n");
}

/// Some of those between a call and its session stop: the call comes back all the same, and those
/// after it, when they go on.
fn call_while_some_are_stopped(who: impl Fn(&Elsewhere) -> Vec<String>, why: &str) {
    let there = Elsewhere::unadded();
    there.add(&["sh", "-c", &format!("cat | env HOME='{}' sh | cat", there.home.display())]);
    let session = there.create("cat");
    let who = who(&there);
    assert!(!who.is_empty());
    let waiting = there.scratch.start(&["wait", &session, "--exit", "--timeout=6"]);
    let is_call = |pid: &String| name_of(pid) == "nbs-call";
    eventually("the call's beginning", || there.processes().iter().any(is_call));
    signal("STOP", &who);
    waiting.finish().code(255).stdout("").complains(why);
    there.ts(&["wait", &session, "--exit", "--timeout=0.1"]).code(255).stdout("").complains("nbs-ts machine");
    signal("CONT", &who);
    there.ts(&["wait", &session, "--input", "--timeout=100"]).code(0);
    // With a connection, it is a timeout like any other.
    there.ts(&["wait", &session, "--exit", "--timeout=0"]).code(3);
}

#[test]
fn a_call_comes_back_in_its_time_while_the_bridge_is_stopped() {
    call_while_some_are_stopped(|there| vec![there.bridge()], "is stopped; try 'kill -CONT");
}

#[test]
fn a_call_comes_back_in_its_time_while_the_transport_is_stopped() {
    call_while_some_are_stopped(Elsewhere::transport, "it is unknown whether it was done");
}

#[test]
fn a_call_comes_back_in_its_time_while_the_far_side_is_stopped() {
    let far = |there: &Elsewhere| -> Vec<String> {
        there.processes().into_iter().filter(|pid| name_of(pid) == "nbs-far").collect()
    };
    call_while_some_are_stopped(far, "it is unknown whether it was done");
}

#[test]
fn a_call_ends_by_its_timeout_though_what_executes_it_there_is_stopped() {
    let there = Elsewhere::new();
    let (shell, session) = (there.create("bash"), there.create("cat"));
    there.ts(&["wait", &shell, "--input"]).code(0);
    let calls: [(&[&str], i32); 2] = [
        (&["wait", &session, "--exit", "--timeout=6"], 3),
        (&["run", "--timeout=6", &shell, "sleep 1000"], 124),
    ];
    for (words, code) in calls {
        let waiting = there.scratch.start(words);
        let calls = || there.processes().into_iter().filter(|pid| name_of(pid) == "nbs-call");
        eventually("the call's beginning", || calls().count() == 1);
        let executing: Vec<String> = calls().collect();
        signal("STOP", &executing);
        let why = format!("'kill -CONT {}' there", executing[0]);
        waiting.finish().code(code).stdout("").complains(&why);
        eventually("its process being ended", || calls().count() == 0);
    }
}

#[test]
fn a_bridge_that_is_stopped_is_not_removed_unheard() {
    let there = Elsewhere::new();
    there.create("cat");
    let bridge = [there.bridge()];
    signal("STOP", &bridge);
    there.ts(&["machine", "remove", "box"]).code(3).complains("does not respond, and is stopped");
    signal("CONT", &bridge);
}

#[test]
fn a_bridge_ends_when_nobody_has_called_for_so_long_and_what_is_removed_leaves_nothing() {
    let there = Elsewhere::unadded();
    let home = format!("HOME={}", there.home.display());
    there.ts(&["machine", "add", "--idle=1s", "box", "env", &home, "sh"]).code(0).silent();
    let [session, ending] = ["sleep 1000", "read x"].map(|command| there.create(command));
    // A call that waits is one, however long.
    let waiting = there.scratch.start(&["wait", &ending, "--exit", "--timeout=100"]);
    eventually("its being there", || there.processes().iter().any(|pid| is_wait(pid)));
    let bridge = there.bridge();
    let longer = there.scratch.create("sleep 2");
    there.ts(&["wait", &longer, "--exit"]).code(0);
    assert_eq!(there.bridge(), bridge);
    there.ts(&["send", &ending, ""]).code(0);
    waiting.finish().code(0);
    eventually("its end", || !Path::new("/proc").join(&bridge).join("exe").exists());
    eventually("the far side's, too", || there.processes().iter().all(|pid| name_of(pid) != "nbs-far"));
    there.ts(&["status", &session]).code(0).stdout("alive\n");
    there.ts(&["kill", &session]).code(0);
    there.ts(&["machine", "remove", "box"]).code(0);
    let names: Vec<_> = fs::read_dir(there.scratch.state().join("bridges")).unwrap().collect();
    assert!(names.is_empty(), "{names:?}");
    there.ts(&["machine", "remove", "box"]).code(2);
    there.add(&["env", &home, "sh"]);
}

#[test]
fn a_bridge_whose_call_was_killed_before_it_connected_ends() {
    let there = Elsewhere::new();
    // The third time, the bridge listens: without one, a call looks twice.
    let mut command = there.scratch.command("strace");
    command.args(["-o", "/dev/null", "-e", "inject=connect:signal=KILL:when=3"]);
    let ran = run(command.arg(links().join("nbs-ts")).args(["exec", "box", "true"]));
    assert!(ran.status.signal() == Some(9), "{ran:?}");
    assert_eq!(there.bridges().len(), 1);
    eventually("no bridge", || there.bridges().is_empty());
}

#[test]
fn a_call_whose_far_side_was_killed_does_not_guess() {
    let there = Elsewhere::new();
    let session = there.create("bash");
    let call = there.scratch.start(&["run", &session, "echo one; sleep 1000"]);
    there.ts(&["wait-pattern", &session, "one\r\n"]).code(0);
    // Both at once, before one of them does anything about the end of the other.
    let far: Vec<String> = there.processes().into_iter().filter(|pid| name_of(pid) == "nbs-far").collect();
    signal("KILL", &far);
    let ran = call.finish().code(255).complains("it is unknown whether it was done");
    assert!("one\n".starts_with(&ran.out()), "{ran:?}");
    // Sessions go on.
    there.ts(&["status", &session]).code(0).stdout("alive\n");
}
