//! The person's terminal is another session's: its screen, and how it is left, can be read.

use std::{fs, process::Command};

use crate::{
    person::{self, keys, person},
    support::{Scratch, eventually, is_running, run, signal, start, state_of, wait_for_tracer},
};

/// Has the person attach, and waits until the session has the window's size.
fn attach(scratch: &Scratch, person: &str, session: &str, size: &str) {
    call(scratch, person, session);
    has_size(scratch, session, size);
}

fn call(scratch: &Scratch, person: &str, session: &str) {
    person::call(scratch, person, &format!("nbs-ts attach --interactive {session}"));
}

fn has_size(scratch: &Scratch, session: &str, size: &str) {
    let wanted = format!("\"size\":{size}");
    eventually(&format!("the size {size} of {session}"), || {
        scratch.ts(&["status", "--json", session]).out().contains(&wanted)
    });
}

const WINDOW: &str = "{\"cols\":100,\"rows\":30}";
const USUAL: &str = "{\"cols\":80,\"rows\":24}";

fn sees(scratch: &Scratch, person: &str, text: &str) {
    eventually(&format!("{text:?} on the screen"), || scratch.ts(&["screen", person]).out().contains(text));
}

/// Waits for GREEDY's output, which is not on the shell's own screen.
fn sees_session(scratch: &Scratch, person: &str) {
    eventually("the session's screen", || {
        let screen = scratch.ts(&["screen", "--json", person]).out();
        screen.contains("ready") && screen.contains("\"alternate\":true")
    });
}

fn is_back(scratch: &Scratch, person: &str, code: i32) {
    let log = person::is_back(scratch, person, code);
    for mode in ["1002", "1006", "2004", "1"] {
        let (on, off) = (log.rfind(&format!("\u{1b}[?{mode}h")), log.rfind(&format!("\u{1b}[?{mode}l")));
        // The shell's own line editor sets this one.
        assert!(mode == "2004" || off >= on, "{mode}: {log:?}");
    }
}

/// A program that uses all features of a terminal, and shows its input.
const GREEDY: &str = r"stty raw -echo; printf '\33[?1049h\33[?25l\33[?1002h\33[?1006h\33[?2004h\33[?1h\33=\33]2;mine\7\33[31mready\33[5;9H'; exec cat -v";

#[test]
fn all_keys_go_to_the_session_but_the_one_to_leave() {
    let scratch = Scratch::new();
    let (person, session) = (person(&scratch, "100x30"), scratch.create(GREEDY));
    scratch.ts(&["wait-pattern", &session, "ready"]).code(0);
    attach(&scratch, &person, &session, WINDOW);
    sees(&scratch, &person, "ready");
    // It shows how to leave, until something is typed.
    let hint = "C-\\ and then d detaches";
    assert!(scratch.file(&person, "output.log").contains(hint));
    keys(&scratch, &person, b"a\x03\x1a\x13\x11\x04\x1c\x1c-\x1cx\x1b[Az\xc3\xa9");
    eventually("no hint", || !scratch.ts(&["screen", &person]).out().contains(hint));
    sees(&scratch, &person, "a^C^Z^S^Q^D^\\-^\\x^[[AzM-CM-)");
    let screen = scratch.ts(&["screen", "--json", &person]).out();
    assert!(screen.contains("\"alternate\":true") && screen.contains("\"title\":\"mine\""), "{screen}");
    assert!(screen.contains("\"visible\":false"), "{screen}");
    // Programs type and resize meanwhile, and everybody sees it.
    scratch.ts(&["send", "--no-enter", &session, "other"]).code(0);
    sees(&scratch, &person, "other");
    scratch.ts(&["resize", &person, "90x25"]).code(0);
    has_size(&scratch, &session, "{\"cols\":90,\"rows\":25}");
    scratch.ts(&["resize", &person, "100x30"]).code(0);
    has_size(&scratch, &session, WINDOW);
    keys(&scratch, &person, b"\x1cd");
    is_back(&scratch, &person, 0);
    has_size(&scratch, &session, USUAL);
    assert!(!scratch.file(&session, "output.log").contains("detached"));
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let scratch = Scratch::new();
    let person = person(&scratch, "100x30");
    let cases: [(&str, &str, i32); 7] = [
        ("nbs-ts attach --interactive", "-TERM", 1),
        ("nbs-viewer", "-TERM", 1),
        ("nbs-viewer", "-KILL", 1),
        ("nbs-viewer", "-ABRT", 1),
        ("nbs-ts attach --interactive", "-HUP", 1),
        ("nbs-ts attach --interactive", "-KILL", 137),
        ("relay", "-KILL", 0),
    ];
    for (who, name, code) in cases {
        let session = scratch.create(GREEDY);
        scratch.ts(&["wait-pattern", &session, "ready"]).code(0);
        attach(&scratch, &person, &session, WINDOW);
        sees(&scratch, &person, "ready");
        let pid = if who == "relay" { scratch.file(&session, "daemon_pid") } else { scratch.pid_of(who) };
        signal(name, &pid);
        is_back(&scratch, &person, code);
        if who != "relay" {
            has_size(&scratch, &session, USUAL);
        }
        scratch.ts(&["run", &person, "clear"]).code(0);
        scratch.ts(&["kill", &session]).code(0);
    }
    // By itself, and at once for a session that has ended.
    let session = scratch.create("read x; exit 3");
    attach(&scratch, &person, &session, WINDOW);
    keys(&scratch, &person, b"\r");
    sees(&scratch, &person, "[process exited with code 3]");
    is_back(&scratch, &person, 0);
    scratch.ts(&["run", &person, "clear"]).code(0);
    call(&scratch, &person, &session);
    sees(&scratch, &person, "[process exited with code 3]");
    is_back(&scratch, &person, 0);
}

/// dash takes the foreground as soon as the call is gone, and leaves the modes alone.
#[test]
fn the_terminal_is_given_back_to_a_shell_that_has_taken_it_already() {
    let (scratch, session) = Scratch::with_session(GREEDY);
    scratch.ts(&["wait-pattern", &session, "ready"]).code(0);
    for stop_viewer in [false, true] {
        let person = scratch.create_with(&["--size=100x30"], "dash -i");
        let terminal = scratch.file(&person, "slave_pty");
        let modes = || run(Command::new("stty").args(["-a", "-F", &terminal])).code(0).out();
        scratch.ts(&["wait", &person, "--input"]).code(0);
        let before = modes();
        scratch.ts(&["send", &person, &format!("nbs-ts attach --interactive {session}")]).code(0);
        has_size(&scratch, &session, WINDOW);
        sees(&scratch, &person, "ready");
        let (call, viewer) = (scratch.pid_of("attach --interactive"), scratch.pid_of("nbs-viewer"));
        assert_ne!(modes(), before);
        if stop_viewer {
            signal("-STOP", &viewer);
            eventually("the stop", || state_of(&viewer) == Some('T'));
        }
        signal("-KILL", &call);
        eventually("no viewer", || !is_running(&viewer));
        assert_eq!(modes(), before);
        scratch.ts(&["send", &person, "echo back$((1 + 1))"]).code(0);
        sees(&scratch, &person, "back2");
        scratch.ts(&["kill", &person]).code(0);
    }
}

#[test]
fn a_stopped_attach_gives_the_terminal_back_until_it_continues() {
    let scratch = Scratch::new();
    let (person, session) = (person(&scratch, "100x30"), scratch.create(GREEDY));
    scratch.ts(&["wait-pattern", &session, "ready"]).code(0);
    attach(&scratch, &person, &session, WINDOW);
    sees(&scratch, &person, "ready");
    signal("-TSTP", &scratch.pid_of("attach --interactive"));
    sees(&scratch, &person, "Stopped");
    scratch.ts(&["run", &person, "stty -a >after; cmp before after"]).code(0);
    let rc = scratch.path.join("rc");
    scratch.ts(&["send", &person, &format!("clear; fg; echo $? >{}", rc.display())]).code(0);
    sees_session(&scratch, &person);
    keys(&scratch, &person, b"again");
    sees(&scratch, &person, "again");
    keys(&scratch, &person, b"\x1cd");
    is_back(&scratch, &person, 0);
}

/// By then the viewer may not have done all that it does at a stop.
#[test]
fn a_stopped_attach_can_be_continued_at_once() {
    let scratch = Scratch::new();
    let (person, session) = (person(&scratch, "100x30"), scratch.create(GREEDY));
    scratch.ts(&["wait-pattern", &session, "ready"]).code(0);
    attach(&scratch, &person, &session, WINDOW);
    sees(&scratch, &person, "ready");
    let (call, viewer) = (scratch.pid_of("attach --interactive"), scratch.pid_of("nbs-viewer"));
    let mut strace = scratch.command("strace");
    strace.args(["-qq", "-o", "/dev/null", "-e", "trace=kill", "-e", "inject=kill:delay_enter=2000000"]);
    let tracing = start(strace.args(["-p", &viewer]));
    wait_for_tracer(&viewer);
    signal("-TSTP", &call);
    eventually("the stop", || state_of(&call) == Some('T'));
    sees(&scratch, &person, "Stopped");
    scratch.ts(&["send", &person, "clear; fg"]).code(0);
    sees_session(&scratch, &person);
    keys(&scratch, &person, b"again");
    sees(&scratch, &person, "again");
    keys(&scratch, &person, b"\x1cd");
    tracing.finish().code(0);
}

#[test]
fn the_terminal_of_a_person_is_never_asked() {
    let scratch = Scratch::new();
    let program = [
        "import os, tty, time",
        "tty.setraw(0)",
        "os.write(1, b'ready\\r\\n')",
        "os.read(0, 1)",
        "for byte in b'\\x1b[c\\x1b]11;?\\x07\\x1b[?u\\x1b[>1u\\x1b[6n\\x1b[5n':",
        "    os.write(1, bytes([byte]))",
        "answer = b''",
        "while not answer.endswith(b'\\x1b[0n'): answer += os.read(0, 99)",
        "os.write(1, b'\\r\\ngot ' + ascii(answer).encode() + b' ')",
        "os.write(1, b'then ' + ascii(os.read(0, 99)).encode())",
        "os.read(0, 1)",
    ];
    fs::write(scratch.path.join("asks.py"), program.join("\n")).unwrap();
    let (one, two) = (person(&scratch, "100x30"), person(&scratch, "100x30"));
    let session = scratch.create("exec python3 asks.py");
    scratch.ts(&["wait-pattern", &session, "ready"]).code(0);
    for person in [&one, &two] {
        attach(&scratch, person, &session, WINDOW);
    }
    keys(&scratch, &one, b"x");
    let answers = r"got b'\x1b[?64;6;21;22;28c\x1b]11;rgb:1010/1010/1010\x07\x1b[?0u\x1b[2;1R\x1b[0n'";
    for person in [&one, &two] {
        sees(&scratch, person, answers);
        let log = scratch.file(person, "output.log");
        for question in ["\u{1b}[c", "\u{1b}]11;?", "\u{1b}[?u", "\u{1b}[>1u", "\u{1b}[6n", "\u{1b}[5n"] {
            assert!(!log.contains(question), "{question:?}");
        }
    }
    keys(&scratch, &two, b"y");
    sees(&scratch, &one, "then b'y'");
    // One leaves, and then the other: only then is the previous size restored.
    scratch.ts(&["resize", &two, "70x20"]).code(0);
    has_size(&scratch, &session, "{\"cols\":70,\"rows\":20}");
    scratch.ts(&["kill", &two]).code(0);
    has_size(&scratch, &session, WINDOW);
    keys(&scratch, &one, b"\x1cd");
    has_size(&scratch, &session, USUAL);
    is_back(&scratch, &one, 0);
}

#[test]
fn a_slow_terminal_holds_nobody_up_and_sees_the_end() {
    let scratch = Scratch::new();
    let (person, session) = (person(&scratch, "100x30"), scratch.create("bash"));
    attach(&scratch, &person, &session, WINDOW);
    let relay = scratch.file(&person, "daemon_pid");
    signal("-STOP", &relay);
    scratch
        .ts(&["run", &session, "seq 1000000 | tail -c 1000000000; echo the end"])
        .code(0)
        .stdout_has("the end");
    let printed = fs::metadata(scratch.folder(&session).join("output.log")).unwrap().len();
    signal("-CONT", &relay);
    sees(&scratch, &person, "the end");
    let shown = fs::metadata(scratch.folder(&person).join("output.log")).unwrap().len();
    assert!(shown < printed / 2, "{shown} of {printed}");
    // A paste comes whole, however long it is. But if a program does not read for a long time, the bell
    // reports that; then once more.
    let paste: Vec<u8> = (0..300_000).map(|n| b'a' + (n % 17) as u8).collect();
    fs::write(scratch.path.join("paste"), &paste).unwrap();
    let sum = run(scratch.command("md5sum").arg("paste")).code(0).out();
    let has_come = || scratch.file(&session, "output.log").contains(sum.split(' ').next().unwrap());
    for number in 1..=5 {
        let line = format!("stty -icanon -echo; echo go {number}; head -c 300000 | md5sum; stty sane");
        scratch.ts(&["send", &session, &line]).code(0);
        scratch.ts(&["wait-pattern", &session, &format!("go {number}\r\n")]).code(0);
        let bells = || scratch.file(&person, "output.log").matches('\x07').count();
        let before = bells();
        keys(&scratch, &person, &paste);
        eventually("the paste or a bell", || has_come() || bells() > before);
        if has_come() {
            break;
        }
        keys(&scratch, &person, b"\x03");
        scratch.ts(&["wait", &session, "--input"]).code(0);
    }
    assert!(has_come());
    // A program that does not read blocks neither leaving nor interrupting it.
    scratch.ts(&["send", &session, "clear; sleep 1000"]).code(0);
    for _ in 0..20 {
        keys(&scratch, &person, &[b'x'; 1000]);
    }
    keys(&scratch, &person, b"\x03");
    scratch.ts(&["wait", &session, "--input"]).code(0);
    keys(&scratch, &person, b"\x1cd");
    is_back(&scratch, &person, 0);
}

#[test]
fn attach_requires_a_terminal() {
    let (scratch, session) = Scratch::with_session("exec sleep 1000");
    scratch.ts(&["attach", "--interactive", &session]).code(1).stdout("").complains("not a terminal");
    scratch.ts(&["attach", "--interactive", "00000000"]).code(2);
    for other in ["--new", "--last=3", "--json"] {
        scratch.ts(&["attach", "--interactive", other, &session]).code(4);
    }
    let shell = scratch.create("bash");
    scratch
        .ts(&["run", &shell, "nbs-ts attach --interactive $NBS_TS_SESSION"])
        .code(1)
        .stdout_has("its own terminal");
}

#[test]
fn a_read_only_attach_changes_nothing() {
    let scratch = Scratch::new();
    let program = r"stty raw -echo; printf '\33[?1049h\33[31mready\33[20;70Hthe end'; exec cat -v";
    let (person, session) = (person(&scratch, "100x30"), scratch.create(program));
    scratch.ts(&["wait-pattern", &session, "the end"]).code(0);
    let _ = fs::remove_file(scratch.path.join("rc"));
    let rc = scratch.path.join("rc");
    let line = format!("nbs-ts attach --read-only {session}; echo $? >{}", rc.display());
    scratch.ts(&["send", &person, &line]).code(0);
    eventually("all of it", || {
        let screen = scratch.ts(&["screen", &person]).out();
        screen.starts_with("ready\n") && screen.contains("the end") && !screen.contains("around")
    });
    assert!(scratch.file(&person, "output.log").contains("C-\\ and then d detaches"));
    let length = scratch.file(&session, "output.log").len();
    keys(&scratch, &person, b"xyz\x03\r");
    // A smaller window shows the part around the cursor.
    scratch.ts(&["resize", &person, "40x10"]).code(0);
    eventually("the part", || {
        let screen = scratch.ts(&["screen", &person]).out();
        let last = screen.lines().last().unwrap_or_default().to_owned();
        screen.contains("the end")
            && !screen.contains("ready")
            && last == "40x9 of 80x24, around the cursor; C-\\ d…"
    });
    has_size(&scratch, &session, USUAL);
    assert_eq!(scratch.file(&session, "output.log").len(), length);
    // Input of others is visible, and so is a new size.
    scratch.ts(&["send", "--no-enter", &session, "!"]).code(0);
    sees(&scratch, &person, "the end!");
    scratch.ts(&["resize", &session, "40x10"]).code(0);
    eventually("no row about it", || !scratch.ts(&["screen", &person]).out().contains("around"));
    scratch.ts(&["resize", &person, "100x30"]).code(0);
    keys(&scratch, &person, b"\x1cd");
    sees(&scratch, &person, "[detached from session");
    is_back(&scratch, &person, 0);
    // It ends with the session, and fails without a terminal.
    scratch.ts(&["run", &person, "clear"]).code(0);
    let _ = fs::remove_file(&rc);
    scratch.ts(&["send", &person, &line]).code(0);
    scratch.ts(&["resize", &session, "80x24"]).code(0);
    scratch.ts(&["send", "--no-enter", &session, "<"]).code(0);
    sees(&scratch, &person, "<");
    scratch.ts(&["kill", "--keep", &session]).code(0);
    sees(&scratch, &person, "[process exited with code");
    is_back(&scratch, &person, 0);
    scratch.ts(&["attach", "--read-only", &session]).code(1).complains("not a terminal");
    scratch.ts(&["attach", "--read-only", "--interactive", &session]).code(4).complains("cannot use --");
}

#[test]
fn what_a_program_copies_does_not_come_to_the_terminal_of_a_person() {
    let scratch = Scratch::new();
    let person = person(&scratch, "100x30");
    let copied = "printf 'begun\\033]52;c;'; printf 'YWJj%.0s' $(seq 20000); read -r line; \
                  printf 'YWJj%.0s' $(seq 5000); printf '\\aend'; read -r line";
    let session = scratch.create(&format!("stty -echo; {copied}; printf ' again '; {copied}"));
    scratch.ts(&["wait-pattern", &session, "YWJjYWJj"]).code(0);
    scratch.ts(&["wait", &session, "--input"]).code(0);
    // In the middle of it, and then while it comes.
    attach(&scratch, &person, &session, WINDOW);
    sees(&scratch, &person, "begun");
    keys(&scratch, &person, b"\r");
    sees(&scratch, &person, "end");
    keys(&scratch, &person, b"\r");
    sees(&scratch, &person, "again begun");
    scratch.ts(&["wait", &session, "--input"]).code(0);
    keys(&scratch, &person, b"\r");
    eventually("the end", || scratch.ts(&["screen", &person]).out().matches("end").count() == 2);
    let log = scratch.file(&person, "output.log");
    assert!(!log.contains("YWJj") && !log.contains("]52;"), "{log:?}");
    assert_eq!(scratch.ts(&["clipboard", &session]).code(0).out(), "abc".repeat(25_000));
}
