use std::{thread, time::Duration};

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

/// What was printed, as it is written, in however many pieces it came.
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
    // The times are those of the session.
    let python = format!(
        "import json; lines = open('cast').read().splitlines(); {}",
        "[json.loads(line) for line in lines]"
    );
    std::fs::write(scratch.path.join("cast"), &cast).unwrap();
    run(scratch.command("python3").args(["-c", &python])).code(0);
}

#[test]
fn a_pause_is_as_long_as_it_was() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--record"], "stty -echo; echo one; read x; printf two");
    // The relay may see later what is printed, but not after it is in the log.
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
    // The screen is made of what there is, too.
    scratch.ts(&["screen", &handle]).code(0).stdout_has("\n99999\n100000\nbye\n");
    scratch.ts(&["screen", &handle]).code(0).stdout_has("\n99999\n100000\nbye\n");
}

#[test]
fn what_was_not_recorded_cannot_be_shown() {
    let scratch = Scratch::new();
    let handle = scratch.create("true");
    scratch.ts(&["cast", &handle]).code(1).stdout("").complains("without --record");
    scratch.ts(&["cast", "00000000"]).code(2);
    // One that has printed nothing is a recording.
    let handle = scratch.create_with(&["--record"], "true");
    scratch.wait_for_end(&handle);
    assert_eq!(scratch.ts(&["cast", &handle]).code(0).out().lines().count(), 1);
    // Whoever does not read all of it ends it.
    let handle = scratch.create_with(&["--record"], "seq 100000");
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    let call = format!("nbs-ts cast {handle} | head -1; exit ${{PIPESTATUS[0]}}");
    run(scratch.command("bash").args(["-c", &call])).code(141);
}
