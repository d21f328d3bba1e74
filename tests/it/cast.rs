use std::{fs, thread, time::Duration};

use crate::support::{Scratch, run};

/// Gives the header of a recording, and its events: seconds, kind, data as it is written.
fn events(cast: &str) -> (String, Vec<(f64, String, String)>) {
    let mut lines = cast.lines();
    let header = lines.next().unwrap().to_owned();
    let event = |line: &str| {
        let parts: Vec<&str> = line[1..line.len() - 1].splitn(3, ", ").collect();
        (parts[0].parse().unwrap(), parts[1].to_owned(), parts[2].to_owned())
    };
    (header, lines.map(event).collect())
}

/// The recorded output as text, in however many pieces it came.
fn text_of(events: &[(f64, String, String)]) -> String {
    let printed = events.iter().filter(|(_, kind, _)| kind == "\"o\"");
    printed.map(|(.., data)| data.trim_matches('"')).collect()
}

#[test]
fn a_recording_has_what_was_printed_and_when_and_every_size() {
    let scratch = Scratch::new();
    // Columns alone: stty changes rows by another call, and either may be seen.
    let command = "stty -echo; echo one; read x; stty cols 60; printf 'h\\303'; read x; \
                   printf '\\251llo\\n'; printf '\\377'";
    let handle = scratch.create_with(&["--record", "--name=demo", "--size=90x20"], command);
    scratch.ts(&["wait-pattern", &handle, "one\r\n"]).code(0);
    let (header, begun) = events(&scratch.ts(&["cast", &handle]).code(0).silent().out());
    assert!(header.starts_with("{\"version\":2,\"width\":90,\"height\":20,\"timestamp\":"), "{header}");
    assert!(header.contains("\"title\":\"demo\""), "{header}");
    assert!(begun.iter().all(|(_, kind, _)| kind == "\"o\""), "{begun:?}");
    assert_eq!(text_of(&begun), "one\\r\\n");
    scratch.ts(&["send", &handle, ""]).code(0);
    scratch.ts(&["wait-pattern", &handle, "h"]).code(0);
    scratch.ts(&["resize", &handle, "70x10"]).code(0);
    scratch.ts(&["send", &handle, ""]).code(0);
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    let cast = scratch.ts(&["cast", "@demo"]).code(0).out();
    let (_, all) = events(&cast);
    assert_eq!(text_of(&all), "one\\r\\nhéllo\\r\\n\u{fffd}");
    let sizes: Vec<&str> =
        all.iter().filter(|(_, kind, _)| kind == "\"r\"").map(|(.., data)| &**data).collect();
    assert_eq!(sizes, ["\"60x20\"", "\"70x10\""]);
    assert!(all.is_sorted_by(|(one, ..), (other, ..)| one <= other), "{cast}");
    // The times are relative to the session's start.
    let python = format!(
        "import json; lines = open('cast').read().splitlines(); {}",
        "[json.loads(line) for line in lines]"
    );
    fs::write(scratch.path.join("cast"), &cast).unwrap();
    run(scratch.command("python3").args(["-c", &python])).code(0);
}

#[test]
fn a_pause_is_as_long_as_it_was() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--record"], "stty -echo; echo one; read x; printf two");
    // The relay may see output later than it is printed, but not after it is in the log.
    scratch.ts(&["wait-pattern", &handle, "one\r\n"]).code(0);
    thread::sleep(Duration::from_millis(700));
    scratch.ts(&["send", &handle, ""]).code(0);
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    let (_, all) = events(&scratch.ts(&["cast", &handle]).code(0).out());
    let [.., (before, ..), (after, ..)] = &all[..] else { panic!("{all:?}") };
    assert!(after - before >= 0.69 && text_of(&all) == "one\\r\\ntwo", "{all:?}");
}

#[test]
fn a_bounded_log_is_shown_from_where_it_begins() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--record", "--max-log=64K"], "seq 100000; echo bye");
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    let cast = scratch.ts(&["cast", &handle]).code(0).out();
    let (header, all) = events(&cast);
    assert!(header.starts_with("{\"version\":2,"), "{header}");
    assert!(all[0].0 == 0.0, "{cast}");
    let text: String = all.iter().map(|(.., data)| data.trim_matches('"')).collect();
    assert!(text.ends_with("\\r\\n100000\\r\\nbye\\r\\n"), "{text}");
    assert!(!text.contains("\\r\\n1000\\r\\n"), "{text}");
    // The screen is made of the remaining output, too.
    scratch.ts(&["screen", &handle]).code(0).stdout_has("\n99999\n100000\nbye\n");
    scratch.ts(&["screen", &handle]).code(0).stdout_has("\n99999\n100000\nbye\n");
}

#[test]
fn marks_are_in_no_recording_and_no_screen() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--record", "--max-log=1M"], "bash");
    scratch.ts(&["run", &handle, "cd /"]).code(0);
    // A program's own stay.
    let command = r"printf '\e]133;A\a\e]7;file://host/x\e\\mine\n'";
    scratch.ts(&["run", &handle, command]).code(0);
    scratch.ts(&["send", &handle, "cat"]).code(0);
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    scratch.ts(&["key", &handle, "C-c"]).code(0);
    let secret = scratch.file(&handle, "secret");
    let tag = format!("nbs={secret}.");
    scratch.ts(&["wait-pattern", &handle, &format!("]133;D;130;{tag}")]).code(0);
    scratch.ts(&["ask", &handle, "echo asked"]).code(0).stdout("asked\n");
    assert!(scratch.file(&handle, "output.log").contains(&tag));
    let looks = [
        &["cast"][..],
        &["screen", "--ansi", "--scrollback=100"],
        &["screen", "--json"],
        &["screen", "--svg"],
    ];
    let shows_none = || {
        for look in looks {
            let out = scratch.ts(&[look, &[&handle]].concat()).code(0).silent().out();
            // Not even the end of the secret.
            assert!(!out.contains("nbs=") && !out.contains(&secret[24..]), "{look:?}: {out}");
        }
    };
    shows_none();
    let printed = text_of(&events(&scratch.ts(&["cast", &handle]).out()).1);
    let theirs = r"\u001b]133;A\u0007\u001b]7;file://host/x\u001b\\mine\r\n";
    // Once as it was typed.
    assert_eq!(printed.matches("]133;").count(), 2, "{printed}");
    assert_eq!(printed.matches("]7;").count(), 2, "{printed}");
    assert!(printed.contains(theirs), "{printed}");
    // While one of them is being printed, however far it has come.
    scratch.ts(&["send", &handle, "exit"]).code(0);
    scratch.wait_for_end(&handle);
    assert!(!scratch.file(&handle, "exit.json").contains(&tag));
    assert!(!scratch.ts(&["events"]).code(0).out().contains(&secret[24..]));
    let log = fs::read(scratch.folder(&handle).join("output.log")).unwrap();
    let find = |what: &str| log.windows(what.len()).rposition(|bytes| bytes == what.as_bytes()).unwrap();
    let at = find(&tag);
    for length in at - 8..at + tag.len() + 4 {
        fs::write(scratch.folder(&handle).join("output.log"), &log[..length]).unwrap();
        let _ = fs::remove_file(scratch.folder(&handle).join("screen"));
        let printed = text_of(&events(&scratch.ts(&["cast", &handle]).code(0).out()).1);
        assert!(printed.matches("]133;").count() == 2 && !printed.contains("nbs="), "{length}: {printed}");
    }
    fs::write(scratch.folder(&handle).join("output.log"), &log).unwrap();
    // And where a bounded log begins within one.
    for start in at - 8..at + tag.len() {
        fs::write(scratch.folder(&handle).join("log_start"), start.to_string()).unwrap();
        let _ = fs::remove_file(scratch.folder(&handle).join("screen"));
        shows_none();
    }
}

#[test]
fn times_that_are_no_times_end_a_recording_and_take_no_memory() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--record"], "stty -echo; echo one; read x; printf two");
    scratch.ts(&["wait-pattern", &handle, "one\r\n"]).code(0);
    scratch.ts(&["send", &handle, ""]).code(0);
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    let times = scratch.folder(&handle).join("times");
    fs::write(&times, "0 1000\n5 2000000").unwrap();
    // An incomplete last line is not read yet.
    let (_, all) = events(&scratch.ts(&["cast", &handle]).code(0).out());
    assert_eq!(all, [(0.001, "\"o\"".to_owned(), "\"one\\r\\ntwo\"".to_owned())]);
    fs::File::options().write(true).open(&times).unwrap().set_len(3 << 30).unwrap();
    let cast = format!("ulimit -v 1000000; nbs-ts cast {handle}");
    assert_eq!(text_of(&events(&scratch.bash(&cast).code(0).silent().out()).1), "one\\r\\ntwo");
}

#[test]
fn cast_fails_without_a_recording() {
    let (scratch, handle) = Scratch::with_session("true");
    scratch.ts(&["cast", &handle]).code(1).stdout("").complains("without --record");
    scratch.ts(&["cast", "00000000"]).code(2);
    // A session without output is a recording.
    let handle = scratch.create_with(&["--record"], "true");
    scratch.wait_for_end(&handle);
    assert_eq!(scratch.ts(&["cast", &handle]).code(0).out().lines().count(), 1);
    // A reader that stops early ends it.
    let handle = scratch.create_with(&["--record"], "seq 100000");
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    let call = format!("nbs-ts cast {handle} | head -1; exit ${{PIPESTATUS[0]}}");
    run(scratch.command("bash").args(["-c", &call])).code(141);
}
