//! Whatever is stopped or held, every call ends, and prints the reason.
//!
//! None of these tests is timed: a call that hangs is found by `support::PATIENCE`, and a late effect by its
//! traces.

use std::{
    fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::Stdio,
};

use crate::support::{Ran, Running, Scratch, eventually, signal, start, state_of};

fn stop(pid: &str) {
    signal("-STOP", pid);
    eventually("its stop", || state_of(pid) == Some('T'));
}

/// The PID of a session's relay.
fn relay(scratch: &Scratch, handle: &str) -> String {
    scratch.file(handle, "daemon_pid")
}

/// A shell at its prompt that has run one command.
fn shell(scratch: &Scratch) -> String {
    let handle = scratch.create_with(&["--record"], "bash");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    // Not by run, which reports the code itself.
    scratch.ts(&["send", &handle, "echo hello"]).code(0);
    scratch.ts(&["wait", &handle, "--complete"]).code(0);
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    handle
}

/// The result of a call while the relay of its session is stopped.
#[derive(Clone, Copy)]
enum Comes {
    /// It needs no relay.
    To(i32),
    /// It prints the fault, with this code.
    Short(i32),
}
use Comes::{Short, To};

/// Verbs that take a session, their options before the session, what follows it, and what that comes to. All
/// others are tried with the session alone: they work, or print the fault.
const CALLS: [(&[&str], &[&str], Comes); 46] = [
    (&["answer", "--timeout=1"], &["y"], Short(1)),
    (&["ask", "--timeout=1"], &["echo typed late"], Short(1)),
    (&["ask", "--timeout=0"], &["echo typed late"], Short(1)),
    (&["attach"], &[], Short(1)),
    (&["attach", "--new"], &[], Short(1)),
    (&["attach", "--json"], &[], Short(1)),
    (&["attach", "--interactive"], &[], To(1)),
    (&["cast"], &[], To(0)),
    (&["clipboard"], &[], To(1)),
    (&["eof", "--timeout=1"], &[], Short(1)),
    (&["exit-code"], &[], To(0)),
    (&["history"], &[], To(0)),
    (&["send", "--submit", "--timeout=1"], &["typed late"], Short(1)),
    (&["integrate", "--timeout=1"], &[], Short(1)),
    (&["key", "--timeout=1"], &["t", "C-c"], Short(1)),
    (&["pwd"], &[], Short(1)),
    (&["read"], &[], To(0)),
    (&["read", "--last=2", "--strip"], &[], To(0)),
    (&["read-new"], &[], To(0)),
    (&["report"], &["waiting", "told late"], Short(1)),
    (&["resize"], &["99x33"], Short(1)),
    (&["restart"], &[], To(1)),
    (&["run", "--timeout=1"], &["echo typed late"], Short(125)),
    (&["run", "--timeout=0"], &["echo typed late"], Short(125)),
    (&["run"], &["echo typed late"], Short(125)),
    (&["screen"], &[], To(0)),
    (&["send", "--timeout=1"], &["echo typed late"], Short(1)),
    (&["send", "--timeout=1", "--paste"], &["echo typed late"], Short(1)),
    (&["send", "--timeout=1", "--secret-stdin"], &[], Short(1)),
    (&["status"], &[], To(0)),
    (&["status", "--json"], &[], Short(1)),
    (&["wait", "--timeout=1", "--complete"], &[], Short(1)),
    (&["wait", "--timeout=1", "--exit"], &[], Short(1)),
    (&["wait", "--timeout=1", "--idle=100ms"], &[], Short(1)),
    (&["wait", "--timeout=1", "--input"], &[], Short(1)),
    (&["wait", "--timeout=1", "--pattern=nowhere"], &[], Short(1)),
    (&["wait", "--timeout=1", "--stable=100ms"], &[], Short(1)),
    (&["wait", "--timeout=1", "--waiting"], &[], Short(1)),
    (&["wait", "--input"], &[], Short(1)),
    (&["wait", "--waiting"], &[], Short(1)),
    // The first is there: that its shell has begun.
    (&["wait-complete", "--timeout=1"], &[], To(0)),
    (&["wait-complete", "--timeout=1"], &[], Short(1)),
    (&["wait-complete"], &[], Short(1)),
    (&["wait-pattern", "--timeout=1"], &["hello"], To(0)),
    (&["wait-pattern", "--timeout=1"], &["nowhere"], Short(1)),
    (&["wait-pattern"], &["nowhere"], Short(1)),
];

/// The same for calls that name a session in an option.
const BY_OPTION: [&[&str]; 2] =
    [&["create", "--no-helper", "--inherit-cwd"], &["ensure", "--no-helper", "--name=x", "--inherit-cwd"]];

#[test]
fn a_stopped_relay_holds_nobody_up_and_is_named() {
    let scratch = Scratch::new();
    let listed = CALLS.iter().map(|(before, ..)| before[0]).chain(BY_OPTION.map(|words| words[0]));
    let others = scratch.without_case(listed.chain(["kill"]), "CALLS in tests/it/stopped.rs");
    let handle = shell(&scratch);
    let relay = relay(&scratch, &handle);
    let length = || fs::metadata(scratch.folder(&handle).join("output.log")).unwrap().len();
    let before = length();
    stop(&relay);

    let wrong = format!("the relay of session '{handle}'");
    let mend = format!("'kill -CONT {relay}'");
    let judge = |ran: Ran, comes: Comes| match comes {
        To(code) => drop(ran.code(code)),
        Short(code) => drop(ran.code(code).complains(&wrong).complains("is stopped").complains(&mend)),
    };
    let secret = scratch.path.join("secret");
    fs::write(&secret, "typed late\n").unwrap();
    let called: Vec<(Running, Comes)> = CALLS
        .iter()
        .map(|(before, after, comes)| {
            let words = [before, &[&*handle][..], after].concat();
            let mut command = scratch.command("nbs-ts");
            let running = start(command.args(words).stdin(fs::File::open(&secret).unwrap()));
            // A call whose answer comes only once gives it to the first.
            match (before[0], comes) {
                ("wait-complete", To(_)) => {
                    judge(running.finish(), *comes);
                    None
                }
                _ => Some((running, *comes)),
            }
        })
        .collect::<Vec<_>>()
        .into_iter()
        .flatten()
        .collect();
    let by_option: Vec<Running> =
        BY_OPTION.iter().map(|words| scratch.start(&[*words, &[&handle, "true"]].concat())).collect();
    for (running, comes) in called {
        judge(running.finish(), comes);
    }
    for verb in others {
        let ran = scratch.ts(&[&*verb, &*handle]);
        let comes = if ran.status.code() == Some(0) { To(0) } else { Short(1) };
        judge(ran, comes);
    }
    by_option.into_iter().for_each(|running| judge(running.finish(), Short(1)));
    scratch.ts(&["list"]).code(0).stdout(format!("{handle}\talive\t-\tbash\n"));
    scratch.ts(&["doctor"]).code(0);
    scratch.ts(&["gc"]).code(0).stdout_has("kept 1 alive");
    scratch.ts(&["events"]).code(0).stdout("");

    // Requests of calls that reported a failure are not executed later.
    signal("-CONT", &relay);
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    assert_eq!(length(), before, "{}", scratch.file(&handle, "output.log"));
    assert!(scratch.ts(&["status", "--json", &handle]).code(0).out().contains("\"cols\":80"));
    scratch.ts(&["run", &handle, "echo on"]).code(0).stdout("on\n");
    stop(&relay);
    scratch.ts(&["kill", &handle]).code(0).silent();
}

#[test]
fn a_relay_that_is_stopped_meanwhile_is_named_too() {
    let scratch = Scratch::new();
    let calls: [(&[&str], &[&str], i32); 5] = [
        (&["run", "--timeout=3"], &["echo be''gun; sleep 1000"], 125),
        (&["run", "--timeout=3", "--json"], &["echo be''gun; sleep 1000"], 125),
        (&["ask", "--timeout=3"], &["echo be''gun; sleep 1000"], 3),
        (&["ask", "--timeout=3", "--complete"], &["echo be''gun; read x"], 3),
        (&["ask", "--timeout=3", "--pattern=never"], &["echo be''gun; read x"], 3),
    ];
    let called: Vec<_> = calls
        .iter()
        .map(|(before, after, code)| {
            let handle = shell(&scratch);
            let running = scratch.start(&[before, &[&*handle][..], after].concat());
            scratch.ts(&["wait-pattern", &handle, "begun"]).code(0);
            let relay = relay(&scratch, &handle);
            stop(&relay);
            (running, relay, *code)
        })
        .collect();
    for (running, relay, code) in called {
        let ran = running.finish().code(code).complains("is stopped");
        ran.complains(&format!("'kill -CONT {relay}'"));
        signal("-CONT", &relay);
    }
}

#[test]
fn a_relay_drops_the_requests_of_a_client_that_left() {
    let scratch = Scratch::new();
    let handle = shell(&scratch);
    let socket = scratch.folder(&handle).join("relay.sock");
    let relay = relay(&scratch, &handle);
    // A client that is accepted only then, and one that was accepted before.
    for is_known in [false, true] {
        for request in ["type 5\nlate\r", "press 3\n", "signal INT\n", "resize 99 33\n", "view 99 33\n"] {
            let before = scratch.file(&handle, "output.log");
            let mut early = UnixStream::connect(&socket).unwrap();
            if is_known {
                early.write_all(b"snapshot 0\n").unwrap();
                let mut answer = [0; 64];
                assert!(early.read(&mut answer).unwrap() > 0);
            }
            stop(&relay);
            early.write_all(request.as_bytes()).unwrap();
            // A process that another test starts may hold a copy for a moment.
            early.shutdown(Shutdown::Both).unwrap();
            drop(early);
            signal("-CONT", &relay);
            // It is served in the order in which it came.
            assert!(
                scratch.ts(&["status", "--json", &handle]).code(0).out().contains("\"cols\":80"),
                "{request}"
            );
            assert_eq!(scratch.file(&handle, "output.log"), before, "{request}");
        }
    }
    scratch.ts(&["run", &handle, "echo on"]).code(0).stdout("on\n");
}

#[test]
fn calls_give_up_on_a_held_lock_and_name_its_holder() {
    let scratch = Scratch::new();
    let (handle, killed) = (shell(&scratch), scratch.create("exec sleep 1000"));
    // The reader writes into a pipe that is never emptied.
    scratch.ts(&["run", "--max=1K", &handle, "seq 100000"]).code(0);
    let mut command = scratch.command("nbs-ts");
    let mut reader = command.args(["read-new", &handle]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = reader.id().to_string();
    let lock = scratch.folder(&handle).join("lock.read_cursor");
    eventually("the lock", || lock.exists() && fs::File::open(&lock).unwrap().try_lock_shared().is_err());
    stop(&pid);
    let held = |folder: PathBuf, name: &str| {
        let file = fs::File::create(folder.join(name)).unwrap();
        file.lock().unwrap();
        file
    };
    let cursor = held(scratch.folder(&handle), "lock.completion_cursor");
    let ensuring = held(scratch.state(), "lock.ensure");
    let exit_record = held(scratch.folder(&killed), "lock.exit");
    signal("-KILL", &relay(&scratch, &killed));
    scratch.wait_for_end(&killed);

    let calls: [(&[&str], &str); 6] = [
        (&["read-new", &handle], "lock.read_cursor"),
        (&["wait-complete", "--timeout=1", &handle], "lock.completion_cursor"),
        (&["ensure", "--name=x", "--no-helper", "cat"], "lock.ensure"),
        (&["events"], "lock.exit"),
        (&["doctor"], "lock.exit"),
        (&["attach", "--json", &killed], "lock.exit"),
    ];
    let called = calls.map(|(words, lock)| (scratch.start(words), words[0], lock));
    let ours = format!("process {}", std::process::id());
    for (running, verb, lock) in called {
        let ran = running.finish();
        match verb {
            "read-new" => {
                let ran = ran.code(3).stdout("").complains(lock).complains(&format!("process {pid}"));
                ran.complains("is stopped").complains(&format!("'kill -CONT {pid}'"));
            }
            // It reports the end nevertheless, and leaves the writing to another.
            "attach" => drop(ran.code(0).stdout_has("pty_exited").silent()),
            "doctor" => drop(ran.code(1).stdout_has(lock).stdout_has(&ours)),
            _ => drop(ran.code(3).stdout("").complains(lock).complains(&ours)),
        }
    }
    scratch.ts(&["read-new", "--reader=other", &handle]).code(0);
    reader.kill().unwrap();
    reader.wait().unwrap();
    drop((cursor, ensuring, exit_record));
    assert!(scratch.ts(&["read-new", &handle]).code(0).out().contains("\r\n99999\r\n"));
    scratch.ts(&["wait-complete", "--timeout=1", &handle]).code(0).stdout("0\n");
    scratch.ts(&["ensure", "--name=x", "--no-helper", "cat"]).code(0);
    scratch.ts(&["events"]).code(0).stdout_has(&killed);
}
