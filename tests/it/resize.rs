use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    process::{Child, ChildStdout, Stdio},
};

use crate::support::{Scratch, eventually, field, is_running, signal};

#[test]
fn a_resized_terminal_has_the_size_and_its_program_is_told() {
    let scratch = Scratch::new();
    // A shell's trap could come between a look and a wait; this cannot.
    let program = [
        "import os, signal",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])",
        "print('ready', flush=True)",
        "while signal.sigwait([signal.SIGWINCH]):",
        "    print('%d %d' % tuple(reversed(os.get_terminal_size())), flush=True)",
    ];
    fs::write(scratch.path.join("sizes.py"), program.join("\n")).unwrap();
    let handle = scratch.create("exec python3 sizes.py");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    assert!(scratch.ts(&["status", "--json", &handle]).out().contains("\"size\":{\"cols\":80,\"rows\":24}"));
    scratch.ts(&["resize", &handle, "132x43"]).code(0).silent().stdout("");
    scratch.ts(&["wait-pattern", &handle, "43 132"]).code(0);
    assert!(scratch.ts(&["status", "--json", &handle]).out().contains("\"size\":{\"cols\":132,\"rows\":43}"));
    // To the size that it has: nothing happens.
    scratch.ts(&["resize", &handle, "132x43"]).code(0);
    scratch.ts(&["resize", &handle, "9999x1"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "1 9999\r\n"]).code(0);
    scratch.ts(&["read", &handle]).stdout("ready\r\n43 132\r\n1 9999\r\n");
}

#[test]
fn only_a_live_session_and_a_sane_size_will_do() {
    let (scratch, handle) = Scratch::with_session("exit 3");
    scratch.wait_for_end(&handle);
    scratch.ts(&["resize", &handle, "80x24"]).code(1).complains("has ended with exit code 3");
    assert_eq!(field(&scratch.ts(&["status", "--json", &handle]).out(), "size"), "null");
    scratch.ts(&["resize", "00000000", "80x24"]).code(2);
    for size in ["0x24", "80x0", "10000x24", "80", "80x24x1", "-1x5", ""] {
        scratch.ts(&["resize", &handle, "--", size]).code(4).complains("is not a size like 80x24");
    }
    scratch.ts(&["resize", &handle]).code(4);
    scratch.ts(&["resize", &handle, "80x24", "x"]).code(4);
}

#[test]
fn a_relay_refuses_a_terminal_without_columns_or_rows() {
    let (scratch, handle) = Scratch::with_session("cat");
    let mut relay = UnixStream::connect(scratch.folder(&handle).join("relay.sock")).unwrap();
    let mut answers = BufReader::new(relay.try_clone().unwrap());
    for request in ["resize 0 0", "resize 0 24", "resize 80 0", "view 0 0", "view 0 24", "view 80 0"] {
        writeln!(relay, "{request}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.starts_with("refused "), "{request}: {answer}");
    }
    assert!(scratch.ts(&["status", "--json", &handle]).out().contains("\"size\":{\"cols\":80,\"rows\":24}"));
}

/// A follower with frames that are read one by one.
struct Following {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    fn new(scratch: &Scratch, arguments: &[&str]) -> Following {
        let mut command = scratch.command("nbs-ts");
        let mut child =
            command.args(["attach", "--json"]).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Following { child, lines }
    }

    fn next(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

#[test]
fn frames_tell_all_that_a_terminal_elsewhere_needs() {
    let scratch = Scratch::new();
    let command = "stty -echo; echo ready; while read x; do eval \"$x\"; done";
    let handle = scratch.create_with(&["--name=it", "--size=90x30"], command);
    // The newline may come by itself, and be a frame.
    scratch.ts(&["wait-pattern", &handle, "ready\r\n"]).code(0);
    let mut following = Following::new(&scratch, &["@it"]);
    let init = following.next();
    assert_eq!(field(&init, "type"), "\"init\"");
    assert_eq!(field(&init, "session_id"), format!("\"{handle}\""));
    assert_eq!(field(&init, "name"), "\"it\"");
    assert!(init.ends_with("\"size\":{\"cols\":90,\"rows\":30},\"offset\":0}\n"), "{init}");
    assert_eq!(following.next(), "{\"type\":\"output\",\"offset\":0,\"data\":\"ready\\r\\n\"}\n");
    scratch.ts(&["resize", &handle, "132x43"]).code(0);
    assert_eq!(following.next(), "{\"type\":\"resize\",\"cols\":132,\"rows\":43}\n");
    // By the program itself; stty changes rows by another call, and either may be seen.
    scratch.ts(&["send", &handle, "stty cols 99; echo; read y"]).code(0);
    assert_eq!(following.next(), "{\"type\":\"resize\",\"cols\":99,\"rows\":43}\n");
    assert_eq!(following.next(), "{\"type\":\"output\",\"offset\":7,\"data\":\"\\r\\n\"}\n");
    scratch.ts(&["send", &handle, "", "exit 3"]).code(0);
    scratch.ts(&["send", &handle, "exit 3"]).code(0);
    assert_eq!(following.next(), scratch.file(&handle, "exit.json"));
    assert_eq!(following.next(), "");
    let dead = scratch.ts(&["attach", "--json", "--legacy-exit", &handle]).code(0).out();
    let lines: Vec<&str> = dead.lines().collect();
    assert_eq!(field(lines[0], "size"), "null");
    assert_eq!(
        lines[1..],
        [
            "{\"type\":\"output\",\"offset\":0,\"data\":\"ready\\r\\n\\r\\n\"}",
            "{\"type\":\"exit\",\"code\":3}"
        ]
    );
    scratch.ts(&["attach", "--legacy-exit", &handle]).code(4).stdout("");
}

#[test]
fn a_frame_holds_whole_characters_however_they_were_printed() {
    let scratch = Scratch::new();
    for (byte, name) in [(&b"\xf0"[..], "0"), (b"\x9f\x90", "1"), (b"\xa7\xff", "2"), (b"z\xc3", "3")] {
        fs::write(scratch.path.join(name), byte).unwrap();
    }
    let handle = scratch.create("stty -opost -echo; printf R; while read n; do cat $n; done");
    let mut following = Following::new(&scratch, &[&handle]);
    following.next();
    assert_eq!(field(&following.next(), "data"), "\"R\"");
    let log = scratch.folder(&handle).join("output.log");
    for (step, length) in [("0", 2), ("1", 4)] {
        scratch.ts(&["send", &handle, step]).code(0);
        eventually("the step's output", || fs::metadata(&log).unwrap().len() == length);
    }
    scratch.ts(&["send", &handle, "2"]).code(0);
    let frame = following.next();
    assert_eq!((field(&frame, "offset"), field(&frame, "data")), ("1".into(), "\"🐧\u{fffd}\"".into()));
    assert_eq!(field(&frame, "lossy"), "true");
    scratch.ts(&["send", &handle, "3"]).code(0);
    let frame = following.next();
    assert_eq!((field(&frame, "offset"), field(&frame, "data")), ("6".into(), "\"z\"".into()));
    assert!(!frame.contains("lossy"), "{frame}");
    scratch.ts(&["eof", &handle]).code(0);
    let frame = following.next();
    assert_eq!((field(&frame, "offset"), field(&frame, "data")), ("7".into(), "\"\u{fffd}\"".into()));
}

#[test]
fn a_follower_of_a_killed_relay_is_told_the_end_too() {
    let (scratch, handle) = Scratch::with_session("echo last; exec sleep 1000");
    scratch.ts(&["wait-pattern", &handle, "last\r\n"]).code(0);
    let mut following = Following::new(&scratch, &[&handle]);
    let mut legacy = Following::new(&scratch, &[&handle, "--legacy-exit"]);
    for follower in [&mut following, &mut legacy] {
        assert_eq!(field(&follower.next(), "type"), "\"init\"");
        assert_eq!(field(&follower.next(), "data"), "\"last\\r\\n\"");
    }
    let relay = scratch.file(&handle, "daemon_pid");
    signal("-KILL", &relay);
    let end = following.next();
    assert_eq!(field(&end, "type"), "\"pty_exited\"");
    assert_eq!(field(&end, "exit_code"), "-1");
    assert_eq!(field(&end, "ended_by"), "\"unknown\"");
    assert_eq!(field(&end, "last_lines"), "[\"last\"]");
    assert_eq!(legacy.next(), "{\"type\":\"exit\",\"code\":-1}\n");
}

#[test]
fn a_follower_without_a_reader_goes_though_nothing_happens() {
    let (scratch, handle) = Scratch::with_session("echo once; exec sleep 1000");
    scratch.ts(&["wait-pattern", &handle, "once"]).code(0);
    for arguments in [&["attach", "--json", &*handle][..], &["attach", &handle]] {
        let mut child = scratch.command("nbs-ts").args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        drop(stdout);
        let pid = child.id().to_string();
        eventually("the follower's end", || !is_running(&pid));
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(13), "{arguments:?}");
    }
}
