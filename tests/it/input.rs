use std::{fs, io::Write, os::unix::fs::symlink};

use rustix::io::ioctl_fionread;

use crate::support::{Ran, Running, Scratch, eventually, signal, start, timing_out};

/// A program that takes every byte as it is, and writes them to the file `got`.
const RAW_READER: &str = "stty raw -echo; echo ready; exec cat > got";

#[test]
fn a_text_is_typed_with_its_enter() {
    let (scratch, handle) =
        Scratch::with_session("stty -echo; while read -r line; do printf '<%s>' \"$line\"; done");
    scratch.ts(&["send", &handle, "hello", "  wide  world"]).code(0).stdout("").silent();
    scratch.ts(&["send", &handle]).code(0);
    scratch.ts(&["send", &handle, "--stdin"]).code(0).complains("'--stdin' is typed as text");
    scratch.ts(&["send", &handle, "--", "--no-enter"]).code(0);
    scratch.ts(&["send", "--no-enter", &handle, "split "]).code(0).silent();
    scratch.ts(&["send", &handle, "line"]).code(0);
    scratch
        .ts(&["wait-pattern", &handle, "<hello   wide  world><><--stdin><-- --no-enter><split line>"])
        .code(0);
    let typed = scratch.ts(&["send", "--json", &handle, "abc"]).code(0);
    assert_eq!(typed.field("typed"), "4");
}

#[test]
fn standard_input_is_typed_as_it_is() {
    let (scratch, handle) = Scratch::with_session(RAW_READER);
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    scratch.ts_with_input(&["send", "--stdin", "--no-enter", "--timeout=30", &handle], &bytes).code(0);
    let got = scratch.path.join("got");
    eventually("all of it", || fs::metadata(&got).is_ok_and(|got| got.len() == bytes.len() as u64));
    assert!(fs::read(&got).unwrap() == bytes);
}

#[test]
fn the_fifo_is_a_keyboard_too() {
    let (scratch, handle) =
        Scratch::with_session("stty -echo; echo ready; while read x; do echo \"<$x>\"; done");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    for round in 0..50 {
        writeln!(scratch.fifo(&handle), "{round}").unwrap();
    }
    scratch.ts(&["wait-pattern", &handle, "<49>"]).code(0);
    let expected: String = (0..50).map(|round| format!("<{round}>\r\n")).collect();
    scratch.ts(&["read", &handle]).stdout(format!("ready\r\n{expected}"));
}

#[test]
fn a_dead_session_takes_no_input() {
    let (scratch, handle) = Scratch::with_session("exit 3");
    scratch.wait_for_end(&handle);
    scratch.ts(&["send", &handle, "x"]).code(1).complains("has ended with exit code 3");
    scratch.ts(&["send", "--json", &handle, "x"]).code(1).complains("\"kind\":\"failed\"");
}

#[test]
fn a_program_that_does_not_read_is_told_of_and_its_output_still_recorded() {
    let scratch = Scratch::new();
    let command = "trap 'echo tick' USR1; echo ready; while :; do sleep 1000 & wait $!; done";
    // Lines, so that the terminal's own limit of a line is not what stops it.
    fs::write(scratch.path.join("text"), "line\n".repeat(12_000)).unwrap();
    let typed = |ran: &Ran| {
        let line = ran.err();
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "60001").unwrap();
        words[at - 2].parse::<u64>().unwrap()
    };
    let ran = timing_out(
        |ran| typed(ran) > 4_000,
        |timeout| {
            let handle = scratch.create(command);
            scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
            let sending = send_text(&scratch, &handle, timeout);
            let child = scratch.file(&handle, "pid");
            for round in 1..=3 {
                signal("-USR1", &child);
                // The echo may come between the word and the end of its line.
                eventually("a tick", || {
                    scratch.ts(&["read", &handle]).out().matches("tick").count() == round
                });
            }
            let ran = sending.finish().code(3).complains("the program does not read");
            scratch.ts(&["status", &handle]).code(0).stdout("alive\n");
            ran.complains(&format!("of 60001 bytes were typed after {} s", &timeout["--timeout=".len()..]))
        },
    );
    assert!(typed(&ran) > 4_000 && typed(&ran) < 60_001, "{ran:?}");
}

/// Begins to type the file `text`.
fn send_text(scratch: &Scratch, handle: &str, timeout: &str) -> Running {
    let mut call = scratch.command("nbs-ts");
    call.args(["send", "--stdin", timeout, handle]);
    start(call.stdin(fs::File::open(scratch.path.join("text")).unwrap()))
}

#[test]
fn a_line_too_long_for_the_terminal_is_told_of_not_cut() {
    let (scratch, handle) =
        Scratch::with_session("stty -echo; echo ready; while read -r x; do echo \"<${#x}>\"; done");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    scratch.ts(&["send", &handle, &"a".repeat(4_095)]).code(0);
    scratch.ts(&["wait-pattern", &handle, "<4095>"]).code(0);
    let begins = |ran: &Ran| !ran.err().contains(" 0 of 5001");
    let ran = timing_out(begins, |timeout| scratch.ts(&["send", timeout, &handle, &"b".repeat(5_000)]));
    ran.code(3).complains("4095 of 5001 bytes were typed").complains("a terminal accepts 4095 bytes of one");
    scratch.ts(&["send", &handle]).code(0);
    scratch.ts(&["send", &handle, "after"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "<5>"]).code(0);
    // The same in a shell that edits lines itself goes in whole.
    let shell = scratch.create("bash");
    scratch.ts(&["send", &shell, &format!("x={}; echo ${{#x}}", "c".repeat(20_000))]).code(0);
    scratch.ts(&["wait-complete", &shell]).code(0).stdout("0\n");
    assert!(scratch.ts(&["read", "--strip", &shell]).out().contains("\r20000\n"));
}

#[test]
fn large_sends_at_once_do_not_mix() {
    let (scratch, handle) = Scratch::with_session(RAW_READER);
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    let texts: Vec<String> =
        (b'a'..b'i').map(|letter| char::from(letter).to_string().repeat(60_000)).collect();
    // Each may wait for all others.
    let sends = texts.iter().map(|text| scratch.start(&["send", "--timeout=30", &handle, text]));
    let sends: Vec<_> = sends.collect();
    for send in sends {
        send.finish().code(0);
    }
    let got = scratch.path.join("got");
    let length = texts.iter().map(|text| text.len() as u64 + 1).sum::<u64>();
    eventually("all of it", || fs::metadata(&got).is_ok_and(|got| got.len() == length));
    let got = fs::read(&got).unwrap();
    let mut runs: Vec<Vec<u8>> = got.split_inclusive(|byte| *byte == b'\r').map(<[u8]>::to_vec).collect();
    runs.sort();
    let expected: Vec<Vec<u8>> = texts.iter().map(|text| format!("{text}\r").into_bytes()).collect();
    assert!(runs == expected, "mixed");
}

#[test]
fn a_sender_that_is_killed_spoils_nothing() {
    let (scratch, handle) = Scratch::with_session("echo ready; sleep 1000");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    fs::write(scratch.path.join("text"), "line\n".repeat(50_000)).unwrap();
    let sender = send_text(&scratch, &handle, "--timeout=60");
    eventually("the terminal being full", || scratch.ts(&["read", &handle]).stdout.len() > 4_000);
    signal("-KILL", &sender.pid().to_string());
    sender.finish().signal(9);
    scratch.ts(&["status", &handle]).stdout("alive\n");
    scratch.ts_with_input(&["send", "--stdin", "--timeout=0.1", &handle], &[b'\n'; 60_000]).code(3);
}

#[test]
fn an_input_that_is_no_fifo_is_refused() {
    let (scratch, handle) = Scratch::with_session("cat");
    let fifo = scratch.folder(&handle).join("input.fifo");
    fs::remove_file(&fifo).unwrap();
    scratch.ts(&["send", &handle, "x"]).code(1).stdout("");
    fs::write(&fifo, "").unwrap();
    scratch.ts(&["send", &handle, "x"]).code(1).complains("FIFO");
    fs::remove_file(&fifo).unwrap();
    symlink("/dev/null", &fifo).unwrap();
    scratch.ts(&["send", &handle, "x"]).code(1).complains("FIFO");
    assert_eq!(fs::metadata(&fifo).unwrap().len(), 0);
}

#[test]
fn text_typed_right_after_create_runs_once() {
    let scratch = Scratch::new();
    for round in 0..20 {
        let handle = scratch.create("bash");
        scratch.ts(&["send", &handle, &format!("echo $((1000 + {round})) >> ran")]).code(0);
        scratch.ts(&["wait-complete", &handle]).code(0).stdout("0\n");
        scratch.ts(&["kill", &handle]).code(0);
    }
    let expected: String = (1000..1020).map(|n| format!("{n}\n")).collect();
    assert_eq!(fs::read_to_string(scratch.path.join("ran")).unwrap(), expected);
}

#[test]
fn a_long_line_through_the_fifo_stops_nobody_else() {
    let (scratch, handle) =
        Scratch::with_session("stty -echo; echo ready; while read -r x; do echo \"<${#x}>\"; done");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    let mut fifo = scratch.fifo(&handle);
    fifo.write_all("a".repeat(5_000).as_bytes()).unwrap();
    // It is read in pieces, and another `send` may come between them.
    eventually("all of it being read", || ioctl_fionread(&fifo).unwrap() == 0);
    scratch.ts(&["send", &handle]).code(0);
    scratch.ts(&["wait-pattern", &handle, "<4095>"]).code(0);
    scratch.ts(&["send", &handle, "after"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "<5>"]).code(0);
}

#[test]
fn emptying_a_line_makes_room_in_it() {
    let scratch = Scratch::new();
    let handle =
        scratch.create("trap '' INT; stty -echo; echo ready; while read -r x; do echo \"<${#x}>\"; done");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    for (round, key) in [(1, "\u{15}"), (2, "\u{3}")] {
        scratch.ts(&["send", "--no-enter", &handle, &"a".repeat(4_000)]).code(0);
        scratch.ts(&["send", "--no-enter", &handle, key]).code(0);
        scratch.ts(&["send", &handle, &"b".repeat(150)]).code(0);
        // A ^C discards unread input.
        scratch.ts(&["wait-pattern", &handle, &"<150>\r\n".repeat(round)]).code(0);
    }
}

#[test]
fn a_long_line_goes_in_once_the_program_takes_keys() {
    let scratch = Scratch::new();
    let command = "stty -echo; echo ready; sleep 0.3; stty raw; head -c 6000 | wc -c > got";
    let handle = scratch.create(command);
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    scratch.ts(&["send", "--no-enter", &handle, &"a".repeat(6_000)]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0);
    assert_eq!(fs::read_to_string(scratch.path.join("got")).unwrap().trim(), "6000");
}

#[test]
fn an_empty_send_behind_another_delays_nobody() {
    let (scratch, handle) = Scratch::with_session("echo ready; exec sleep 1000");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    fs::write(scratch.path.join("text"), "line\n".repeat(12_000)).unwrap();
    let first = send_text(&scratch, &handle, "--timeout=3");
    eventually("the terminal being full", || scratch.ts(&["read", &handle]).stdout.len() > 4_000);
    scratch.ts(&["send", "--no-enter", "--timeout=30", &handle]).code(0);
    first.finish().code(3);
}
