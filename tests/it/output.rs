use std::{fs, process::Command};

use crate::support::{Scratch, eventually, field, run, signal, start, state_of};

#[test]
fn read_new_gives_each_byte_once_and_all_of_them() {
    let (scratch, handle) = Scratch::with_session("seq 100000");
    scratch.ts(&["wait-complete", &handle]).code(0);
    let all: String = (1..=100_000).map(|n| format!("{n}\r\n")).collect();
    assert!(all.len() > 64 * 1024);
    scratch.ts(&["read-new", &handle]).code(0).silent().stdout(&all);
    scratch.ts(&["read-new", &handle]).code(0).stdout("");
    assert_eq!(scratch.file(&handle, "read_cursor"), all.len().to_string());
    scratch.ts(&["read-new", &handle, "--reader=second"]).code(0).stdout(&all);
    scratch.ts(&["read-new", &handle, "--reader", "second"]).code(0).stdout("");
    scratch.ts(&["read", &handle]).code(0).stdout(&all);
}

#[test]
fn nuls_and_other_odd_bytes_are_bytes() {
    let (scratch, handle) = Scratch::with_session(r"stty -opost; printf 'a\0b\0\0c\377\n\033[1mx\033[0m\0'");
    scratch.ts(&["wait-complete", &handle]).code(0);
    scratch.ts(&["read-new", &handle]).code(0).stdout(b"a\0b\0\0c\xff\n\x1b[1mx\x1b[0m\0");
    scratch.ts(&["read", "--strip", &handle]).code(0).stdout(b"a\0b\0\0c\xff\nx\0");
    let object = scratch.ts(&["read", &handle, "--json"]).code(0);
    assert_eq!(object.field("lossy"), "true");
    assert_eq!(object.field("output"), "\"a\\u0000b\\u0000\\u0000c\u{fffd}\\n\\u001b[1mx\\u001b[0m\\u0000\"");
    assert_eq!(object.field("next_offset"), "18");
}

#[test]
fn read_picks_bytes_and_lines() {
    let (scratch, handle) = Scratch::with_session("stty -opost; printf 'one\\ntwo\\nthree\\nfour'");
    scratch.ts(&["wait-complete", &handle]).code(0);
    let read = |options: &[&str]| scratch.ts(&[&["read", &handle], options].concat());
    read(&["--last=2"]).stdout("three\nfour");
    read(&["--last=0"]).stdout("");
    read(&["--last=99"]).stdout("one\ntwo\nthree\nfour");
    read(&["--last=3", "--limit=5"]).stdout("two\nt");
    read(&["--offset=4"]).stdout("two\nthree\nfour");
    read(&["--offset=4", "--limit", "3"]).stdout("two");
    read(&["--limit=0"]).stdout("");
    read(&["--limit=1K"]).stdout("one\ntwo\nthree\nfour");
    read(&["--offset=18"]).code(0).stdout("");
    read(&["--offset=19"]).code(1).stdout("").complains("beyond its end at 18");
    scratch.ts(&["read-new", &handle]).stdout("one\ntwo\nthree\nfour");
}

#[test]
fn strip_lets_no_half_sequence_through_and_loses_no_character() {
    let steps: [&[u8]; 7] = [
        b"a\x1b[3",
        b"1mred\x1b]0;ti",
        b"tle\x07b\x1b",
        b"[0m\xc3",
        b"\xa9\xe6\xbc",
        b"\xa2\x1b]8;;x\x1b",
        b"\\z",
    ];
    assert_eq!(stripped_step_by_step(&steps), ["a", "red", "b", "", "é", "漢", "z"]);
}

/// The output of `read-new --strip` after each step of a program's output.
fn stripped_step_by_step(steps: &[&[u8]]) -> Vec<String> {
    let scratch = Scratch::new();
    for (number, step) in steps.iter().enumerate() {
        fs::write(scratch.path.join(number.to_string()), step).unwrap();
    }
    let handle = scratch.create("stty -opost -echo; printf R; while read n; do cat $n; done");
    scratch.ts(&["wait-pattern", &handle, "R"]).code(0);
    scratch.ts(&["read-new", &handle]).code(0).stdout("R");
    let mut length = 1;
    let read = |(number, step): (usize, &&[u8])| {
        scratch.ts(&["send", &handle, &number.to_string()]).code(0);
        length += step.len() as u64;
        let log = scratch.folder(&handle).join("output.log");
        eventually("the step's output", || fs::metadata(&log).unwrap().len() == length);
        scratch.ts(&["read-new", "--strip", &handle]).code(0).out()
    };
    steps.iter().enumerate().map(read).collect()
}

#[test]
fn nbs_ts_output_sets_the_form_that_no_option_chooses() {
    let (scratch, handle) = Scratch::with_session(r"printf 'a\033[1mb\033[m\nc\rd\n'");
    scratch.wait_for_end(&handle);
    let (raw, strip, rendered) = ("a\x1b[1mb\x1b[m\r\nc\rd\r\n", "ab\nc\rd\n", "ab\nd\n");
    for (form, printed) in [("", raw), ("raw", raw), ("strip", strip), ("rendered", rendered)] {
        let read = |words: &[&str]| {
            run(scratch.applet("nbs-ts").args(words).env("NBS_TS_OUTPUT", form)).code(0).out()
        };
        assert_eq!(read(&["read", &handle]), printed, "{form}");
        let reader = format!("--reader={form}x");
        assert_eq!(read(&["read-new", &reader, &handle]), printed, "{form}");
        assert_eq!(read(&["read", "--strip", &handle]), strip, "{form}");
        assert_eq!(read(&["read", "--rendered", &handle]), rendered, "{form}");
    }
    let shell = scratch.create("bash");
    let call = |words: &[&str], form| run(scratch.applet("nbs-ts").args(words).env("NBS_TS_OUTPUT", form));
    call(&["run", &shell, r"printf 'a\033[1mb\nc\rd\n'"], "strip").code(0).stdout("ab\nc\rd\n");
    call(&["run", &shell, r"printf 'a\033[1mb\nc\rd\n'"], "rendered").code(0).stdout("ab\nd\n");
    for verb in [&["read", &handle][..], &["read-new", &handle], &["run", &shell, "true"]] {
        call(verb, "plain").code(4).stdout("").complains("NBS_TS_OUTPUT is 'plain'");
    }
}

#[test]
fn strip_takes_the_carriage_return_right_before_a_newline_out() {
    let (scratch, handle) = Scratch::with_session("printf 'one\\ntwo\\r\\n\\033[1mthree\\033[m\\nfo\\rur'");
    scratch.wait_for_end(&handle);
    let text = "one\ntwo\r\nthree\nfo\rur";
    scratch.ts(&["read", "--strip", &handle]).code(0).stdout(text);
    scratch.ts(&["read", "--strip", "--last=2", &handle]).code(0).stdout("three\nfo\rur");
    let read = scratch.ts(&["read", "--strip", "--json", &handle]).code(0);
    assert_eq!(read.field("output"), r#""one\ntwo\r\nthree\nfo\rur""#);
    scratch.ts(&["read-new", "--strip", &handle]).code(0).stdout(text);
    scratch.ts(&["read", &handle]).code(0).stdout_has("one\r\ntwo\r\r\n");
}

#[test]
fn strip_finds_a_line_end_that_two_calls_of_read_new_share() {
    let steps: [&[u8]; 8] =
        [b"a\r", b"\nb\r\r", b"\n", b"c\r\x1b[1m", b"\x1b[m\x1b[", b"K\nd\r", b"e\xc3", b"\xa9\r"];
    assert_eq!(stripped_step_by_step(&steps), ["a", "\nb\r", "\n", "c", "", "\nd", "\re", "é"]);
}

#[test]
fn read_new_prints_an_incomplete_sequence_of_a_dead_session() {
    let (scratch, handle) = Scratch::with_session(r"stty -opost; printf 'end\303'");
    scratch.wait_for_end(&handle);
    scratch.ts(&["read-new", "--strip", &handle]).code(0).stdout(b"end\xc3");
    scratch.ts(&["read-new", "--strip", &handle]).code(0).stdout("");
}

#[test]
fn a_reader_that_fails_gets_its_bytes_again() {
    let (scratch, handle) = Scratch::with_session("seq 50000");
    scratch.ts(&["wait-complete", &handle]).code(0);
    scratch.bash(&format!("nbs-ts read-new {handle} > /dev/full")).code(1).complains("standard output");
    scratch
        .bash(&format!("nbs-ts read-new {handle} | head -c 1; exit ${{PIPESTATUS[0]}}"))
        .code(141)
        .stdout("1");
    let all: String = (1..=50_000).map(|n| format!("{n}\r\n")).collect();
    scratch.ts(&["read-new", &handle]).code(0).stdout(all);
}

#[test]
fn a_broken_cursor_is_told_not_guessed() {
    let (scratch, handle) = Scratch::with_session("echo hello");
    scratch.ts(&["wait-complete", &handle]).code(0);
    let cursor = scratch.folder(&handle).join("read_cursor");
    for content in ["rubbish", "-1", "99999999999999999999999999"] {
        fs::write(&cursor, content).unwrap();
        scratch.ts(&["read-new", &handle]).code(1).stdout("").complains("read_cursor");
    }
    fs::write(&cursor, "1000").unwrap();
    scratch
        .ts(&["read-new", &handle])
        .code(1)
        .stdout("")
        .complains("the cursor at 1000 is beyond its end at 7");
    fs::write(&cursor, "5\n").unwrap();
    scratch.ts(&["read-new", &handle]).code(0).stdout("\r\n");
}

#[test]
fn read_new_repeats_output_after_a_power_cut_emptied_the_cursor() {
    let (scratch, handle) = Scratch::with_session("echo hello");
    scratch.ts(&["wait-complete", &handle]).code(0);
    let cursor = scratch.folder(&handle).join("read_cursor");
    fs::write(&cursor, "").unwrap();
    scratch.ts(&["read-new", &handle]).code(0).stdout("hello\r\n");
    scratch.ts(&["read-new", &handle]).code(0).stdout("");
}

#[test]
fn nothing_is_left_of_what_a_cursor_was_and_of_what_was_planted_beside_it() {
    let (scratch, handle) = Scratch::with_session("echo hello");
    scratch.ts(&["wait-complete", &handle]).code(0);
    let cursor = scratch.folder(&handle).join("read_cursor");
    let beside = scratch.folder(&handle).join(".read_cursor.new");
    for content in ["5\n", "00005", "5  \n"] {
        for _ in 0..2 {
            fs::write(&cursor, content).unwrap();
            scratch.ts(&["read-new", &handle]).code(0).stdout("\r\n");
            assert_eq!(fs::read_to_string(&cursor).unwrap(), "7");
            scratch.ts(&["read-new", &handle]).code(0).stdout("");
        }
    }
    fs::remove_file(&beside).unwrap();
    run(Command::new("mkfifo").arg(&beside)).code(0);
    fs::write(&cursor, "5").unwrap();
    scratch.ts(&["read-new", &handle]).code(0).stdout("\r\n");
    scratch.ts(&["read-new", &handle]).code(0).stdout("");
}

#[test]
fn links_in_a_session_are_not_followed() {
    let (scratch, handle) = Scratch::with_session("cat");
    let secret = scratch.path.join("secret");
    fs::write(&secret, "secret").unwrap();
    for name in ["output.log", "read_cursor", "command"] {
        let file = scratch.folder(&handle).join(name);
        let _ = fs::remove_file(&file);
        std::os::unix::fs::symlink(&secret, &file).unwrap();
    }
    scratch.ts(&["read", &handle]).code(1).stdout("");
    scratch.ts(&["read-new", &handle]).code(1).stdout("");
    scratch.ts(&["status", "--json", &handle]).code(1).stdout("");
    assert_eq!(fs::read(secret).unwrap(), b"secret");
}

#[test]
fn a_fifo_in_a_files_place_hangs_nobody() {
    let (scratch, handle) = Scratch::with_session("echo hello");
    scratch.wait_for_end(&handle);
    for name in ["output.log", "exit_code", "read_cursor", "name"] {
        let file = scratch.folder(&handle).join(name);
        let _ = fs::remove_file(&file);
        run(Command::new("mkfifo").arg(file)).code(0);
    }
    scratch.ts(&["read", &handle]).code(1).complains("not a regular file");
    scratch.ts(&["read-new", &handle]).code(1).complains("not a regular file");
    scratch.ts(&["exit-code", &handle]).code(1).complains("not a regular file");
    scratch.ts(&["list"]).code(0);
}

#[test]
fn attach_follows_to_the_end_and_says_how_it_ended() {
    let (scratch, handle) = Scratch::with_session("read x; echo got $x; exit 3");
    let following = scratch.start(&["attach", &handle]);
    scratch.ts(&["send", &handle, "it"]).code(0);
    let notice = "\r\n\x1b[2m[process exited with code 3]\x1b[0m\r\n";
    following.finish().code(0).silent().stdout(format!("it\r\ngot it\r\n{notice}"));
    scratch.ts(&["attach", &handle, "--last=1"]).code(0).stdout(format!("got it\r\n{notice}"));
    scratch.ts(&["attach", &handle, "--new"]).code(0).stdout(notice);
}

#[test]
fn attach_shows_everything_that_a_fast_program_prints() {
    let (scratch, handle) = Scratch::with_session("seq 300000");
    let followed = scratch.ts(&["attach", &handle]).code(0);
    let all: String = (1..=300_000).map(|n| format!("{n}\r\n")).collect();
    assert!(followed.out().starts_with(&all));
}

#[test]
fn a_stopped_follower_holds_nobody_up() {
    let (scratch, handle) = Scratch::with_session("read x; seq 500000; echo sentinel");
    let follower = scratch.start(&["attach", &handle]);
    let stop = |name: &str| {
        signal(name, &follower.pid().to_string());
    };
    stop("-STOP");
    scratch.ts(&["send", &handle, "go"]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("0\n");
    stop("-CONT");
    follower.finish().code(0).stdout_has("sentinel\r\n");
}

#[test]
fn the_tail_is_there_however_fast_the_end_comes() {
    let scratch = Scratch::new();
    let expected: String = (1..=3_000).map(|n| format!("{n}\r\n")).collect::<String>() + "sentinel\r\n";
    for round in 0..4 {
        let handles: Vec<String> = (0..10).map(|_| scratch.create("seq 3000; echo sentinel")).collect();
        for handle in handles {
            scratch.ts(&["wait-complete", &handle]).code(0).stdout("0\n");
            let printed = scratch.ts(&["read", &handle]).code(0);
            assert!(printed.out() == expected, "round {round}: {}", printed.out().len());
        }
    }
}

#[test]
fn a_program_that_closes_its_terminal_and_opens_it_again_is_still_recorded() {
    let scratch = Scratch::new();
    let command =
        "exec <&- >&- 2>&-; sleep 0.3; echo back >/dev/tty; sleep 0.3; exec >/dev/tty; echo again; exit 6";
    let handle = scratch.create(command);
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("6\n");
    scratch.ts(&["read", &handle]).stdout("back\r\nagain\r\n");
}

#[test]
fn a_process_that_keeps_the_terminal_open_hardly_delays_the_end() {
    let scratch = Scratch::new();
    run(Command::new("mkfifo").arg(scratch.path.join("gate"))).code(0);
    let handle = scratch.create("trap '' HUP; (read x < gate; exit) & echo said; exit 4");
    // The process that holds the terminal goes on.
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("4\n");
    scratch.wait_for_end(&handle);
    fs::write(scratch.path.join("gate"), "go\n").unwrap();
    assert_eq!(field(&scratch.file(&handle, "exit.json"), "drained"), "false");
    scratch.ts(&["read", &handle]).stdout("said\r\n");
    let handle = scratch.create("echo said");
    scratch.wait_for_end(&handle);
    assert_eq!(field(&scratch.file(&handle, "exit.json"), "drained"), "true");
}

#[test]
fn the_exit_record_of_a_shell_has_none_of_our_marks() {
    let scratch = Scratch::new();
    for kill_relay in [false, true] {
        let handle = scratch.create("bash");
        scratch.ts(&["send", &handle, "printf '\\033]133;A\\007mine\\n'"]).code(0);
        scratch.ts(&["wait-complete", &handle]).code(0);
        // Its prompt comes after that.
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        if kill_relay {
            let relay = scratch.file(&handle, "daemon_pid");
            signal("-KILL", &relay);
            scratch.wait_for_end(&handle);
            scratch.ts(&["events"]).code(0);
        } else {
            scratch.ts(&["send", &handle, "exit"]).code(0);
            scratch.wait_for_end(&handle);
        }
        let lines = field(&scratch.file(&handle, "exit.json"), "last_lines");
        assert!(lines.contains(r#"\u001b]133;A\u0007mine""#) && lines.contains("$ "), "{lines}");
        assert!(!lines.contains("nbs="), "{lines}");
    }
}

#[test]
fn the_exit_record_has_the_last_lines_with_anything_in_them() {
    let (scratch, handle) =
        Scratch::with_session(r"printf 'a\nb\nc\n\n  \nd\n\033[1me\033[0m\n\033[0m\nf'; exit 2");
    scratch.wait_for_end(&handle);
    let exit_record = scratch.file(&handle, "exit.json");
    assert_eq!(field(&exit_record, "last_lines"), r#"["b","c","d","\u001b[1me\u001b[0m","f"]"#);
    assert_eq!(field(&exit_record, "exit_code"), "2");
    assert_eq!(field(&exit_record, "signal"), "null");
    assert_eq!(field(&exit_record, "ended_by"), "\"self\"");
    assert_eq!(field(&exit_record, "session_id"), format!("\"{handle}\""));
    assert_eq!(field(&exit_record, "output_bytes"), scratch.ts(&["read", &handle]).stdout.len().to_string());
}

#[test]
fn a_sessions_log_may_be_read_while_it_grows() {
    let (scratch, handle) = Scratch::with_session("stty -echo; cat");
    let mut expected = String::new();
    for n in 0..20 {
        let line = format!("line {n} {}", "x".repeat(n * 100));
        scratch.ts(&["send", &handle, &line]).code(0);
        let end = format!("{line}\r\n");
        scratch.ts(&["wait-pattern", &handle, &end]).code(0);
        expected += &end;
        scratch.ts(&["read-new", &handle]).code(0);
    }
    assert!(scratch.ts(&["read", &handle]).out().ends_with(&expected));
}

#[test]
fn follow_prints_the_end_of_a_session_that_was_removed() {
    let (scratch, handle) = Scratch::with_session("echo ready; exec sleep 1000");
    let script = "exec nbs-ts attach $0 > shown";
    let following = start(scratch.command("bash").args(["-c", script, &handle]));
    let (shown, pid) = (scratch.path.join("shown"), following.pid().to_string());
    eventually("the output", || fs::read(&shown).is_ok_and(|shown| shown == b"ready\r\n"));
    // From then on it has nothing to wait for but news.
    eventually("its following", || state_of(&pid) == Some('S'));
    signal("-STOP", &pid);
    scratch.ts(&["kill", &handle]).code(0);
    signal("-CONT", &pid);
    following.finish().code(0).silent();
    let shown = fs::read_to_string(shown).unwrap();
    assert!(shown.contains("[process exited with code 143]"), "{shown}");
}

#[test]
fn rendered_is_what_a_person_would_have_seen() {
    let (scratch, handle) =
        Scratch::with_session(r"printf 'one\r\e[1mtwo\e[m\n%090d\n' 5; seq 30; printf 'a\rb'");
    scratch.wait_for_end(&handle);
    let long = format!("{:090}\n", 5);
    let lines: String = (1..=30).map(|n| format!("{n}\n")).collect();
    let seen = format!("two\n{long}{lines}b");
    scratch.ts(&["read", "--rendered", &handle]).code(0).stdout(&seen);
    scratch.ts(&["read-new", "--rendered", &handle]).code(0).stdout(&seen);
    scratch.ts(&["read-new", "--rendered", &handle]).code(0).stdout("");
    scratch.ts(&["read", "--rendered", "--ansi", &handle]).code(0).stdout_has("\x1b[0;1mtwo\x1b[0m\n");
    scratch.ts(&["read", "--rendered", "--last=1", &handle]).code(0).stdout("b");
    scratch.ts(&["read", "--ansi", &handle]).code(4).complains("--rendered");
    let shell = scratch.create("bash");
    let bar = r"for n in 1 50 100; do printf '\r%d%%' $n; done; echo; (exit 3)";
    scratch.ts(&["run", "--rendered", &shell, bar]).code(3).stdout("100%\n").silent();
    let told = scratch.ts(&["run", "--rendered", "--json", &shell, bar]).code(3);
    assert_eq!(told.field("output"), "\"100%\\n\"");
}

#[test]
fn a_limit_of_open_files_below_the_standard_streams_hides_none_that_is_closed() {
    let scratch = Scratch::new();
    // The kernel looks at no three descriptors then.
    let limited = "strace -qq -o /dev/null -e inject=poll,ppoll:error=EINVAL:when=1 nbs-ts --version";
    scratch.bash(limited).code(0).stdout_has("nbs");
    scratch.bash(&format!("{limited} >&-")).code(1).complains("Bad file descriptor");
}

#[test]
fn without_standard_output_nothing_is_done_whose_answer_would_be_lost() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["run", &handle, "echo first"]).code(0);
    let closed = |call: &str| scratch.bash(&format!("h={handle}; nbs-ts {call} >&-"));
    let why = "cannot write to standard output: Bad file descriptor";
    closed("run $h 'touch typed'").code(125).complains(why);
    closed("ask $h 'touch typed'").code(1).complains(why);
    assert!(!scratch.path.join("typed").exists());
    for call in ["read-new $h", "read $h", "wait-complete $h", "list", "status $h", "create cat", "--help"] {
        closed(call).code(1).complains(why);
    }
    let listed = scratch.ts(&["list"]).code(0).out();
    assert_eq!(listed.lines().count(), 1, "{listed}");
    scratch.ts(&["read-new", "--strip", &handle]).code(0).stdout_has("first\n");
    // A command without output needs no output; and a caller that wants none may redirect it, as Python does:
    // its DEVNULL is the file that std opens for a closed descriptor.
    closed("send $h 'touch sent'").code(0).silent();
    eventually("what was sent", || scratch.path.join("sent").exists());
    scratch.bash(&format!("nbs-ts run {handle} 'touch ran' 1<>/dev/null")).code(0).silent();
    assert!(scratch.path.join("ran").exists());
    scratch.bash(&format!("nbs-ts run {handle} true >/dev/null; nbs-ts list <&- 2>&-")).code(0);
}
