//! What the page shows: all sessions, as `list` and `screen` do, and as text.

use super::*;

#[test]
fn fifty_sessions_that_print_at_once_are_all_shown_as_they_are() {
    let (scratch, page) = Page::alone();
    let mut events = page.open("");
    // The end of the last line might be drawn by itself, later.
    let print = "for i in $(seq 1 200); do echo \"line $i of $$\"; done; printf \"last $((20 + 22))\"; cat";
    let handles: Vec<String> = (0..50).map(|_| scratch.create(print)).collect();
    for handle in &handles {
        events.until_text(handle, "last 42");
        let shown = scratch.ts(&["screen", handle]).code(0).out();
        assert_eq!(events.text(handle), shown.trim_end());
    }
}

#[test]
fn whatever_a_session_prints_is_text() {
    let (scratch, page) = Page::alone();
    let evil = "</script><img src=x onerror=alert(1)>\"'&lt;";
    let handle = scratch.create_with(&["--title", evil], &format!("cat >/dev/null # {evil}\n"));
    let mut events = page.open("");
    let about = events.until_about(&handle, |_| true);
    assert!(about["command"].as_str().unwrap().contains(evil), "{about}");
    let mut random = fastrand::Rng::with_seed(7);
    let pieces: [&[u8]; 14] = [
        evil.as_bytes(),
        b"\x1b]2;<b>\x07",
        b"\x1b]0;\xff\n",
        b"\x1b[",
        b"\x1b[38;2;1;2;3m",
        b"\x1b[7;4:3m",
        b"\r\n",
        b"\xe6\xbc\xa2",
        b"e\xcc\x81",
        b"\xe2\x80\xae\xe2\x80\x8d",
        b"\x00\x07\x0e\x9b",
        b"\"\\u003c\\",
        b"\xe2\x80\xa8data: {}\n\nid: 9\n",
        b"\x1b(0qqx\x1b(B",
    ];
    for round in 0..15 {
        let mut bytes = Vec::new();
        for _ in 0..random.usize(1..60) {
            match random.usize(..3) {
                0 => bytes.extend((0..random.usize(..8)).map(|_| random.u8(..))),
                _ => bytes.extend(pieces[random.usize(..pieces.len())]),
            }
        }
        // The end, on a line of its own, whatever mode the terminal is in.
        bytes.extend(format!("\x18\x1b[0m\x0f\x1b[?6l\x1b[r\x1b[20;1H\x1b[2Kround {round}.").bytes());
        let file = scratch.path.join("printed");
        fs::write(&file, &bytes).unwrap();
        let printing = scratch.create("stty -opost; cat printed; exec cat >/dev/null");
        // Every event is looked at as it comes: valid JSON on one line, without control characters.
        events.until_text(&printing, &format!("round {round}."));
        let shown = scratch.ts(&["screen", &printing]).code(0).out();
        let plain =
            |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n");
        eventually("the same on the page", || {
            if plain(&events.text(&printing)).trim_end() == shown.trim_end() {
                return true;
            }
            events.next();
            false
        });
        scratch.ts(&["kill", &printing]).code(0);
    }
    scratch.ts(&["kill", &handle]).code(0);
}

#[test]
fn a_stopped_relay_holds_up_no_other_session() {
    let scratch = Scratch::new();
    let (stopped, other) = (scratch.create("cat"), scratch.create("cat"));
    let relay = scratch.file(&stopped, "daemon_pid").trim().to_owned();
    let signal = |signal: &str| assert!(run(Command::new("kill").args([signal, &relay])).status.success());
    let page = Page::start(&scratch);
    let mut events = page.open("");
    events.settle();
    signal("-STOP");
    let status = page.ask("POST", &format!("/sessions/{stopped}/keys"), "Enter").0;
    assert_eq!(status, 410);
    page.type_in(&other, "line", "goes on");
    events.until_text(&other, "goes on\ngoes on");
    let mut late = page.open("");
    late.until_text(&other, "goes on");
    signal("-CONT");
    page.type_in(&stopped, "line", "again");
    events.until_text(&stopped, "again\nagain");
}

#[test]
fn the_page_shows_the_same_activity_as_list() {
    let (scratch, handle) = Scratch::with_session("printf 'Go on? '; read x; exec sleep 1000");
    let page = Page::start(&scratch);
    let mut events = page.open("");
    let about = events.until_about(&handle, |about| about["activity"] == "waiting");
    let told = |name: &str| -> Value {
        serde_json::from_str(&scratch.ts(&["status", "--json", &handle]).code(0).field(name)).unwrap()
    };
    assert_eq!((&about["question"], &about["since"]), (&told("question"), &told("since")));
    assert_eq!(about["question"], "Go on?");
    // Its own report goes before that, until something is typed.
    scratch.ts(&["report", &handle, "failed", "no disk"]).code(0);
    let about = events.until_about(&handle, |about| about["word"] == "failed");
    assert_eq!((&about["activity"], &about["question"]), (&json!("failed"), &json!("no disk")));
    page.type_in(&handle, "line", "y");
    let about = events.until_about(&handle, |about| about["activity"] == "working");
    assert_eq!((&about["word"], &about["question"]), (&json!("working"), &Value::Null));
}

#[test]
fn the_page_shows_the_newest_ended_sessions_even_unseen_ones() {
    let (scratch, first) = Scratch::with_session("read x; exit 4");
    for _ in 0..62 {
        let handle = scratch.create("true");
        scratch.wait_for_end(&handle);
    }
    let page = Page::start(&scratch);
    let mut events = page.open("");
    events.settle();
    eventually("those that are shown", || {
        events.abouts.len() == 61 || {
            events.next();
            false
        }
    });
    // The newest is the session that ended last.
    scratch.ts(&["send", &first, ""]).code(0);
    events.until_about(&first, |about| about["receipt"]["exit_code"] == 4);
    drop(events);
    let late = scratch.create("echo late");
    scratch.wait_for_end(&late);
    let mut events = page.open("");
    events.until_about(&late, |about| about["state"] == "dead");
}
