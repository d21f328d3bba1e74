//! The state of the terminal, tried with real programs.

use std::{process::Command, time::Instant};

use crate::support::{PATIENCE, Scratch, eventually};

/// A session with an environment of its own.
struct Session {
    scratch: Scratch,
    handle: String,
}

impl Session {
    fn new(command: &str) -> Session {
        let scratch = Scratch::new();
        let handle = scratch.create_with(&["--env=PYTHON_HISTORY=/dev/null"], command);
        Session { scratch, handle }
    }

    /// Returns the output of a call.
    fn ts(&self, words: &[&str]) -> String {
        self.scratch.ts(words).code(0).out()
    }

    fn send(&self, text: &str) {
        self.ts(&["send", &self.handle, text]);
    }

    /// Types a signal character, once there is a program of this command line: before, the shell loses it, or
    /// drops the text typed with it.
    fn press(&self, key: &str, program: &str) {
        let program = format!(": {program} ");
        eventually(&program, || self.scratch.processes().iter().any(|process| process.ends_with(&program)));
        self.ts(&["send", "--no-enter", &self.handle, key]);
    }

    /// Sends a signal to the program that the session was made with.
    fn signal(&self, name: &str) {
        let status = self.ts(&["status", "--json", &self.handle]);
        let (_, after) = status.split_once("\"pid\":").unwrap();
        let pid = after.split(',').next().unwrap();
        assert!(Command::new("kill").args(["-s", name, pid]).status().unwrap().success());
    }

    fn log(&self) -> String {
        self.ts(&["read", &self.handle])
    }

    fn doing(&self) -> String {
        let status = self.ts(&["status", "--json", &self.handle]);
        let (_, after) =
            status.split_once("\"terminal\":\"").unwrap_or_else(|| panic!("no word in {status}"));
        after.split('"').next().unwrap().to_owned()
    }

    fn prints(&self, text: &str) {
        let start = Instant::now();
        while !self.log().contains(text) {
            assert!(start.elapsed() < 2 * PATIENCE, "no {text:?} in {:?}", self.log());
        }
    }

    /// It comes to this, and stays so for some looks on end: before, while it
    /// starts, it may be anything.
    fn is(&self, expected: &str) {
        let (start, mut on_end) = (Instant::now(), 0);
        while on_end < 12 {
            let doing = self.doing();
            on_end = if doing == expected { on_end + 1 } else { 0 };
            assert!(start.elapsed() < 2 * PATIENCE, "{doing}, not {expected}: {:?}", self.log());
        }
    }

    /// It is this at some time.
    fn becomes(&self, expected: &str) {
        let start = Instant::now();
        while self.doing() != expected {
            assert!(start.elapsed() < 2 * PATIENCE, "never {expected}: {:?}", self.log());
        }
    }
}

/// A command of which nothing more is to be typed.
fn check(command: &str, expected: &str) {
    Session::new(command).is(expected);
}

/// A command that prints `ready` before the tested state.
fn check_when_ready(command: &str, expected: &str) {
    let session = Session::new(command);
    session.prints("ready");
    session.is(expected);
}

fn check_python(program: &str, expected: &str) {
    check_when_ready(&format!("exec python3 -c '{program}'"), expected);
}

#[test]
fn a_shell_at_its_prompt() {
    let session = Session::new("bash");
    session.is("prompt");
    session.send("sleep 600");
    session.is("running");
    session.press("\x03", "sleep 600");
    session.is("prompt");
    session.send("echo $((40 + 2)); while :; do :; done");
    session.prints("42");
    session.is("running");
    session.ts(&["send", "--no-enter", &session.handle, "\x03"]);
    session.is("prompt");
    session.send("echo \"");
    session.prints("> ");
    session.is("raw");
}

#[test]
fn a_shell_that_waits_for_its_jobs() {
    let session = Session::new("bash");
    session.is("prompt");
    // The group's leader ends at once, and the shell collects it.
    session.send("echo $((40 + 2)) | { cat; cat /dev/tty; }");
    session.prints("42");
    session.is("line");
    session.press("\x1a", "cat /dev/tty");
    session.is("prompt");
    // A stopped program, once continued, reads on.
    session.send("fg");
    session.is("line");
    session.press("\x03", "cat /dev/tty");
    session.is("prompt");
    // A background program does not read the terminal.
    session.send("cat /dev/tty & sleep 600");
    session.is("running");
}

#[test]
fn a_stopped_program_waits_for_nothing() {
    let session = Session::new("exec cat");
    session.is("line");
    session.signal("STOP");
    session.is("running");
    session.signal("CONT");
    session.is("line");
}

#[test]
fn a_shell_that_reads() {
    check("read -p 'go on? [y/N] ' answer", "line");
    check("read -t 600 answer", "line");
    check("read -n 1 key", "raw");
    check("read -s secret", "secret");
    check("read -e line", "raw");
    check_when_ready("echo ready; read line <> <(exec sleep 600)", "running");
    check("dash -c 'read line'", "line");
    check("dash -i", "prompt");
    check("exec dash -i", "line");
}

#[test]
fn a_program_that_reads_lines() {
    check("exec cat", "line");
    check("exec cat /dev/tty", "line");
    check("cat", "line");
    check("cat | cat | cat", "line");
    check("bc -q < <(cat)", "line");
}

#[test]
fn a_program_that_reads_something_else() {
    check_when_ready("echo ready; sleep 600 | cat", "running");
    check_when_ready("echo ready; sleep 600", "running");
    check_when_ready("echo ready; cat < <(exec sleep 600)", "running");
    check_when_ready("echo ready; while :; do :; done", "running");
}

#[test]
fn adopted_processes_are_found() {
    // The inner shell ends, and so only we are the reader's parent.
    check("(cat </dev/tty &); exec sleep 600", "line");
}

#[test]
fn python_asks() {
    check("exec python3 -q", "raw");
    check("exec python3 -c 'input(\"name: \")'", "line");
    // With the editor of lines.
    check("exec python3 -c 'import readline; input(\"name: \")'", "raw");
    check("exec python3 -c 'import getpass; getpass.getpass()'", "secret");
    check_python("print(\"ready\", flush=True)\nwhile True: pass", "running");
}

#[test]
fn python_polls_its_input() {
    let begin = "import select, selectors, socket, sys, os; print(\"ready\", flush=True)";
    let ways = [
        "select.select([0], [], [])",
        "select.select([0], [], [], 600)",
        "poll = select.poll(); poll.register(0, select.POLLIN); poll.poll()",
        "epoll = select.epoll(); epoll.register(0, select.EPOLLIN); epoll.poll()",
        "chosen = selectors.DefaultSelector(); chosen.register(sys.stdin, 1); chosen.select()",
        "far = os.dup2(0, 900); os.close(0); select.select([900], [], [])",
        "select.select([os.open(\"/dev/tty\", os.O_RDONLY)], [], [])",
        "os.readv(0, [bytearray(9)])",
    ];
    for way in ways {
        check_python(&format!("{begin}; {way}"), "line");
        check_python(&format!("{begin}; import tty; tty.setraw(0); {way}"), "raw");
    }
}

/// Though all of them have the terminal open.
#[test]
fn python_polls_something_else() {
    let begin = "import select, socket, os; one, other = socket.socketpair(); print(\"ready\", flush=True)";
    let ways = [
        "select.select([one], [0], [], 600) and select.select([one], [], [0])",
        "select.select([one], [], [0])",
        "poll = select.poll(); poll.register(one, 1); poll.register(0, select.POLLPRI); poll.poll()",
        "epoll = select.epoll(); epoll.register(one, 1); epoll.poll()",
        "one.recv(1)",
        "import time; time.sleep(600)",
        "os.read(os.openpty()[1], 1)",
    ];
    for way in ways {
        check_python(&format!("{begin}; {way}"), "running");
        check_python(&format!("{begin}; import tty; tty.setraw(0); {way}"), "running");
    }
}

#[test]
fn a_poll_that_was_stopped_goes_on_waiting() {
    let poll = "poll = select.poll(); poll.register(0, 1); poll.poll()";
    let stopped = "print(\"re\" + \"ady\", flush=True)";
    let session = Session::new(&format!(
        "set -m; exec 2>&1; python3 -c 'import select; {stopped}; {poll}'; echo stop; fg"
    ));
    session.prints("ready");
    session.is("line");
    session.ts(&["send", "--no-enter", &session.handle, "\x1a"]);
    session.prints("stop");
    session.is("line");
}

#[test]
fn a_reading_thread_of_many_is_found() {
    let begin = "import sys, threading, time; print(\"ready\", flush=True)";
    let other = "threading.Thread(target=sys.stdin.readline).start()";
    check_python(&format!("{begin}; {other}; time.sleep(600)"), "line");
    check_python(
        &format!("{begin}; threading.Thread(target=time.sleep, args=[600]).start(); time.sleep(600)"),
        "running",
    );
    // The first thread ends, and takes its view of the open files with it.
    let ends = "import ctypes; ctypes.CDLL(None).pthread_exit(None)";
    check_python(&format!("{begin}; {other}; {ends}"), "line");
}

#[test]
fn full_screen_programs() {
    check("seq 1000 >$HOME/long; exec less $HOME/long", "raw");
    check("seq 1000 | less", "raw");
    check("exec vim -u NONE -N", "raw");
    // It looks around now and then.
    Session::new("exec top").becomes("raw");
}

#[test]
fn programs_of_commands() {
    check("exec sqlite3", "raw");
    check("exec gdb -q -nx", "raw");
    let bc = Session::new("exec bc -q");
    let start = Instant::now();
    // With an editor of lines, or without.
    while !["line", "raw"].contains(&bc.doing().as_str()) {
        assert!(start.elapsed() < 2 * PATIENCE);
    }
}

/// An event loop wakes itself through a pair of sockets, which leads to no other process; through a
/// connection, another process may be at work.
#[test]
fn a_program_with_a_pipe_to_itself_is_not_a_relay_of_input() {
    let scratch = Scratch::new();
    let program = "import asyncio, os, socket, sys, tty
tty.setcbreak(0)
async def main():
    loop = asyncio.get_running_loop()
    if sys.argv[1:]:
        listener = socket.create_server((\"127.0.0.1\", 0))
        other = socket.create_connection(listener.getsockname())
        loop.add_reader(other, print)
    loop.add_reader(0, lambda: print(os.read(0, 9)))
    print(\"no question\")
    await loop.create_future()
asyncio.run(main())
";
    std::fs::write(scratch.path.join("loop.py"), program).unwrap();
    for (argument, condition) in [("", "input"), ("connected", "idle")] {
        let handle = scratch.create(&format!("python3 loop.py {argument}"));
        scratch.ts(&["wait", &handle, "--pattern=no question"]).code(0);
        scratch.ts(&["wait", &handle, "--input", "--idle=1500ms"]).code(0).stdout_has(condition);
    }
}
