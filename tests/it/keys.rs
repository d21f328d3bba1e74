use std::fs;

use crate::support::{Scratch, eventually};

/// A program that takes every byte as it is, and writes them to the file `got`.
const RAW_READER: &str = "stty raw -echo; echo ready; exec cat > got";

/// A command that prints each line it reads.
const LINE_READER: &str = "echo ready; while IFS= read -r line; do echo \"<$line>\"; done; echo over";

fn got(scratch: &Scratch, expected: &[u8]) {
    eventually("all of it", || {
        fs::metadata(scratch.path.join("got")).is_ok_and(|got| got.len() >= expected.len() as u64)
    });
    let got = fs::read(scratch.path.join("got")).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(expected));
}

#[test]
fn keys_are_typed_in_order() {
    let (scratch, handle) = Scratch::with_session(RAW_READER);
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    let ran =
        scratch.ts(&["key", "--json", &handle, "C-c", "C-z", "M-x", "Up", "C-Left", "F5", "é", "Enter"]);
    assert_eq!(ran.code(0).field("typed"), "21");
    got(&scratch, "\x03\x1a\x1bx\x1b[A\x1b[1;5D\x1b[15~é\r".as_bytes());
    scratch.ts(&["eof", &handle]).code(0).stdout("").silent();
    scratch.ts(&["key", &handle, "--", "-", "--timeout=1"]).code(4).complains("'--timeout=1' is not a key");
    scratch.ts(&["key", "--timeout=5", &handle, "-"]).code(0).stdout("").silent();
    got(&scratch, "\x03\x1a\x1bx\x1b[A\x1b[1;5D\x1b[15~é\r\x04-".as_bytes());
}

#[test]
fn an_unknown_key_is_found_before_anything_is_typed() {
    let (scratch, handle) = Scratch::with_session("stty raw -echo; echo ready; exec cat > got");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    scratch.ts(&["key", &handle, "a", "Entr", "b"]).code(4).complains("'Entr' is not a key");
    scratch.ts(&["key", &handle, ""]).code(4);
    scratch.ts(&["key", &handle]).code(4).complains("missing KEY");
    scratch.ts(&["key", &handle, "z"]).code(0);
    got(&scratch, b"z");
    scratch.ts(&["key", "00000000", "a"]).code(2);
    let dead = scratch.create("exit 4");
    scratch.wait_for_end(&dead);
    scratch.ts(&["key", &dead, "a"]).code(1).complains("has ended with exit code 4");
    scratch.ts(&["eof", &dead]).code(1).complains("has ended with exit code 4");
}

#[test]
fn cursor_keys_are_sent_as_the_program_wants_them() {
    let (scratch, handle) =
        Scratch::with_session(r"stty raw -echo; printf '\033[?'; printf '1hready'; exec cat > got");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    scratch.ts(&["key", &handle, "Up", "Home", "S-Up"]).code(0);
    got(&scratch, b"\x1bOA\x1bOH\x1b[1;2A");
}

#[test]
fn the_keypad_sends_what_the_program_wants() {
    let keys = ["KP0", "KP9", "KPEnter", "KP+", "KP-", "KP*", "KP/", "KP.", "M-KP5"];
    for (asks, expected) in [
        ("", &b"09\r+-*/.\x1b5"[..]),
        (r"printf '\033='", b"\x1bOp\x1bOy\x1bOM\x1bOk\x1bOm\x1bOj\x1bOo\x1bOn\x1b\x1bOu"),
        (r"printf '\033=\033>'", b"09\r+-*/.\x1b5"),
    ] {
        let (scratch, handle) =
            Scratch::with_session(&format!("stty raw -echo; {asks}\necho ready; exec cat > got"));
        scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
        scratch.ts(&[&["key", &handle], &keys[..]].concat()).code(0);
        got(&scratch, expected);
    }
}

#[test]
fn an_interrupt_overtakes_what_is_queued() {
    let scratch = Scratch::new();
    let command =
        "trap 'printf interrupted' INT; echo ready; while ! [ -e go ]; do sleep 0.05; done; exec cat";
    let handle = scratch.create(command);
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    fs::write(scratch.path.join("text"), "line\n".repeat(50_000)).unwrap();
    let mut call = scratch.command("nbs-ts");
    call.args(["send", "--stdin", "--timeout=60", &handle]);
    call.stdin(fs::File::open(scratch.path.join("text")).unwrap());
    let flood = crate::support::start(&mut call);
    eventually("the terminal being full", || scratch.ts(&["read", &handle]).stdout.len() > 4_000);
    let waiting = scratch.start(&["send", &handle, "whole"]);
    scratch.ts(&["key", &handle, "C-c"]).code(0).stdout("").silent();
    // Half a flood is stopped; the waiting client gets its turn.
    flood.finish().code(1).complains("an interrupt discarded the rest");
    waiting.finish().code(0);
    scratch.ts(&["wait-pattern", &handle, "interrupted"]).code(0);
    fs::write(scratch.path.join("go"), "").unwrap();
    scratch.ts(&["eof", &handle]).code(0);
    scratch.wait_for_end(&handle);
    let output = scratch.ts(&["read", &handle]).out();
    let (_, after) = output.split_once("^C").unwrap();
    // Its echo, and then what cat got: nothing of the flood.
    assert_eq!(after.replace("interrupted", ""), "whole\r\nwhole\r\n", "{output}");
}

#[test]
fn keys_that_are_signals_do_what_they_do_on_a_terminal() {
    let (scratch, handle) = Scratch::with_session("bash");
    for (round, key, code) in [("1", "C-z", "148\n"), ("2", "C-\\", "131\n"), ("3", "^C", "130\n")] {
        // Before it is itself, bash may lose the signal.
        scratch.ts(&["send", &handle, &format!("sleep 100{round}")]).code(0);
        let sleep = format!(": sleep 100{round} ");
        eventually(&sleep, || scratch.processes().iter().any(|process| process.ends_with(&sleep)));
        scratch.ts(&["key", &handle, key]).code(0);
        scratch.ts(&["wait-complete", &handle]).code(0).stdout(code);
    }
    // At its prompt, `C-c` drops the line; before the prompt, there is no line.
    eventually("the prompt", || scratch.ts(&["status", "--json", &handle]).field("terminal") == "\"prompt\"");
    scratch.ts(&["send", "--no-enter", &handle, "echo no"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "echo no"]).code(0);
    scratch.ts(&["key", &handle, "C-c"]).code(0);
    // bash also discards input that comes before it has dropped the line.
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("130\n");
    scratch.ts(&["send", &handle, "echo $((6 * 7))"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "42"]).code(0);
    assert!(!scratch.ts(&["read", &handle]).out().contains("noecho"));
}

#[test]
fn another_interrupt_character_is_the_terminals_own() {
    let scratch = Scratch::new();
    let command = "stty intr ^G; trap 'echo interrupted' INT; echo ready; while :; do sleep 0.05; done";
    let handle = scratch.create(command);
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    scratch.ts(&["key", &handle, "C-c"]).code(0);
    assert!(!scratch.ts(&["read", &handle]).out().contains("interrupted"));
    scratch.ts(&["key", &handle, "C-g"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "^G"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "interrupted"]).code(0);
}

#[test]
fn the_end_of_input_is_the_terminals_own_character() {
    let scratch = Scratch::new();
    for settings in ["true", "stty eof ^B"] {
        let handle = scratch.create(&format!("{settings}; {LINE_READER}"));
        scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
        scratch.ts(&["send", &handle, "one"]).code(0);
        scratch.ts(&["wait-pattern", &handle, "<one>"]).code(0);
        scratch.ts(&["eof", &handle]).code(0).stdout("").silent();
        scratch.ts(&["wait-pattern", &handle, "over"]).code(0);
    }
    let handle = scratch.create(&format!("stty eof undef; {LINE_READER}"));
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    scratch.ts(&["eof", &handle]).code(1).complains("no end-of-file character");
    // A shell that edits its line ends, too.
    let shell = scratch.create("bash");
    eventually("the prompt", || scratch.ts(&["status", "--json", &shell]).field("terminal") == "\"prompt\"");
    scratch.ts(&["eof", &shell]).code(0);
    scratch.wait_for_end(&shell);
}

#[test]
fn the_end_of_input_comes_after_half_a_line_too() {
    let (scratch, handle) = Scratch::with_session("cat > got; echo over; read line; echo \"<$line>\"");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    scratch.ts(&["send", "--no-enter", &handle, "half"]).code(0);
    scratch.ts(&["eof", "--json", &handle]).code(0).silent().stdout_has("\"typed\":2");
    scratch.ts(&["wait", &handle, "--pattern=over"]).code(0);
    assert_eq!(fs::read(scratch.path.join("got")).unwrap(), b"half");
    // Nothing of it is left for the next reader.
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    scratch.ts(&["send", &handle, "next"]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=<next>"]).code(0);
    // Text that may have been erased does not count as a line.
    let erased = scratch.create("cat; echo over; read line; echo \"<$line>\"");
    scratch.ts(&["wait", &erased, "--input"]).code(0);
    scratch.ts(&["send", "--no-enter", &erased, "one two"]).code(0);
    scratch.ts(&["key", &erased, "C-u"]).code(0);
    scratch.ts(&["eof", "--json", &erased]).code(0).stdout_has("\"typed\":1");
    scratch.ts(&["wait", &erased, "--pattern=over"]).code(0);
}

#[test]
fn the_end_of_input_is_typed_only_where_a_program_reads_lines_or_keys() {
    let (scratch, deaf) = Scratch::with_session("echo ready; exec sleep 1000");
    scratch.ts(&["wait-pattern", &deaf, "ready"]).code(0);
    let refused = scratch.ts(&["eof", "--timeout=0.3", &deaf]).code(1).stdout("");
    refused
        .complains("no program was reading its terminal after 0.3 s")
        .complains("'sleep' is in the foreground");
    let editor = scratch.create(r"stty raw -echo; printf '\033[?'; printf '1049hready'; exec cat > got");
    scratch.ts(&["wait", &editor, "--pattern=ready", "--timeout=20"]).code(0);
    scratch.ts(&["eof", &editor]).code(1).complains("a full-screen program reads its terminal");
    scratch.ts(&["key", &editor, "x"]).code(0);
    got(&scratch, b"x");
    // A program that begins to read later is waited for.
    let late = scratch.create("echo ready; while ! [ -e go ]; do sleep 0.05; done; cat; echo over");
    scratch.ts(&["wait-pattern", &late, "ready"]).code(0);
    let typing = scratch.start(&["eof", "--timeout=60", &late]);
    fs::write(scratch.path.join("go"), "").unwrap();
    typing.finish().code(0);
    scratch.ts(&["wait", &late, "--pattern=over"]).code(0);
}

#[test]
fn a_paste_is_bracketed_where_that_is_asked_for() {
    let (scratch, handle) = Scratch::with_session(RAW_READER);
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    scratch.ts(&["send", "--paste", &handle, "a\x1b[201~b"]).code(0);
    got(&scratch, b"a\x1b[201~b\r");
    let asking = scratch.create(r"stty raw -echo; printf '\033[?2004h'; echo asked; exec cat > got");
    scratch.ts(&["wait-pattern", &asking, "asked"]).code(0);
    scratch.ts(&["send", "--paste", &asking, "a\x1b[201~\nb"]).code(0);
    got(&scratch, b"\x1b[200~a\nb\x1b[201~\r");
}

#[test]
fn a_shell_runs_a_paste_as_one() {
    let scratch = Scratch::new();
    fs::write(scratch.home().join(".bashrc"), "PS1='$ '\nbind 'set enable-bracketed-paste on'\n").unwrap();
    let handle = scratch.create("bash");
    eventually("the prompt", || scratch.ts(&["read", &handle]).out().contains("\x1b[?2004h"));
    scratch.ts(&["send", "--paste", &handle, "echo $((1 + 1))\necho $((2 + 2)); false"]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("1\n");
    scratch.ts(&["wait-complete", "--timeout=0.1", &handle]).code(3);
}
