//! `top`: keys in, screens compared. The person's terminal is another session's, or one of tmux: its screen,
//! and how it is left, can be read.

use std::{fs, process::Command};

use crate::{
    person::{self, call, person},
    support::{Scratch, eventually, run, signal, state_of},
};

const LINE: &str = "printf 'Delete build/? [y/N] '; read x; echo got $x; exec sleep 1000";
const SECRET: &str = "read -s -p 'Password: ' x; echo; echo len ${#x}; exec sleep 1000";

fn keys(scratch: &Scratch, person: &str, keys: &str) {
    person::keys(scratch, person, keys.as_bytes());
}

fn screen(scratch: &Scratch, person: &str) -> Vec<String> {
    scratch.ts(&["screen", person]).code(0).out().lines().map(str::to_owned).collect()
}

/// Waits until the screen is as it should be, and gives it.
#[track_caller]
fn sees(scratch: &Scratch, person: &str, what: &str, fact: impl Fn(&[String]) -> bool) -> Vec<String> {
    let mut last = Vec::new();
    eventually(what, || {
        last = screen(scratch, person);
        fact(&last)
    });
    last
}

fn row<'s>(screen: &'s [String], name: &str) -> Option<Vec<&'s str>> {
    let found = screen.iter().find(|row| row.starts_with(&format!("{name} ")))?;
    Some(found.split_whitespace().collect())
}

/// Does it show that this one does that?
fn shows(screen: &[String], name: &str, state: &str) -> bool {
    row(screen, name).is_some_and(|row| row.get(1) == Some(&state))
}

/// The session whose screen is shown; empty while there is none.
fn selected(screen: &[String]) -> String {
    let rule = screen.iter().find(|row| row.starts_with("──"));
    rule.and_then(|rule| rule.split_whitespace().nth(1)).unwrap_or_default().to_owned()
}

fn last(screen: &[String]) -> &str {
    screen.last().map_or("", String::as_str)
}

fn is_back(scratch: &Scratch, person: &str, code: i32) {
    let log = person::is_back(scratch, person, code);
    assert!(log.rfind("\u{1b}[?7h") > log.rfind("\u{1b}[?7l"), "{log:?}");
}

#[test]
fn the_last_commands_of_the_selected_session_are_shown() {
    let scratch = Scratch::new();
    let shell = scratch.create_with(&["--name=shell"], "bash");
    for (command, code) in [("echo one", 0), ("echo two", 0), ("sh -c 'exit 3'", 3), ("echo 'a\nb'", 0)] {
        scratch.ts(&["run", &shell, command]).code(code);
    }
    let person = person(&scratch, "100x30");
    call(&scratch, &person, "nbs-ts top");
    let shows_all = |screen: &[String], all: &[&str]| {
        let rule = screen.iter().position(|row| row.starts_with("──")).unwrap_or(screen.len());
        let rows = screen.iter().skip(rule + 1);
        rows.zip(all).filter(|(row, end)| row.ends_with(**end)).count() == all.len()
    };
    sees(&scratch, &person, "the last three", |screen| {
        shows_all(screen, &["  0  echo two", "  3  sh -c 'exit 3'", "  0  echo 'a; b'"])
    });
    scratch.ts(&["run", &shell, "echo new"]).code(0);
    sees(&scratch, &person, "one more", |screen| shows_all(screen, &["'exit 3'", "'a; b'", "  0  echo new"]));
    keys(&scratch, &person, "q");
    is_back(&scratch, &person, 0);
}

#[test]
fn a_person_sees_all_sessions_and_answers_those_that_wait() {
    let scratch = Scratch::new();
    let ask = scratch.create_with(&["--name=ask"], LINE);
    // The session that has waited longest comes first.
    scratch.ts(&["wait", &ask, "--waiting"]).code(0);
    let secret = scratch.create_with(&["--name=pw"], SECRET);
    scratch.ts(&["wait", &secret, "--waiting"]).code(0);
    let shell = scratch.create_with(&["--name=shell"], "bash");
    let dead = scratch.create_with(&["--name=dead"], "echo gone; exit 3");
    scratch.wait_for_end(&dead);
    let person = person(&scratch, "100x30");
    call(&scratch, &person, "nbs-ts top");
    // It may be seen when only a part of it has been drawn.
    let first = sees(&scratch, &person, "all of them, and the screen of the first", |screen| {
        let is_row = |at: usize, name: &str, end: &str| {
            screen.get(at).is_some_and(|row| row.starts_with(&format!("{name} ")) && row.ends_with(end))
        };
        screen[0] == "nbs-ts top  2 waiting  0 working  1 idle  1 dead"
            && is_row(2, "@ask", "Delete build/? [y/N]")
            && shows(screen, "@pw", "waiting")
            && shows(screen, "@shell", "idle")
            && is_row(5, "@dead", "gone")
            && selected(screen) == "@ask"
            && screen.iter().any(|row| row == "Delete build/? [y/N]")
    });
    assert!(!first.iter().any(|row| row.starts_with("@person")), "{first:#?}");

    // A line, which the session reads.
    keys(&scratch, &person, "ayes é漢");
    sees(&scratch, &person, "the line", |screen| last(screen) == "answer @ask: yes é漢");
    keys(&scratch, &person, "\u{7f}\r");
    sees(&scratch, &person, "what became of it", |screen| shows(screen, "@ask", "working"));
    scratch.ts(&["wait-pattern", &ask, "got yes é\r\n"]).code(0);
    // A secret, which stays hidden.
    keys(&scratch, &person, "n");
    sees(&scratch, &person, "the next", |screen| selected(screen) == "@pw");
    keys(&scratch, &person, "ahorse");
    sees(&scratch, &person, "the prompt", |screen| last(screen) == "secret for @pw (not shown):");
    keys(&scratch, &person, "\r");
    scratch.ts(&["wait-pattern", &secret, "len 5"]).code(0);
    sees(&scratch, &person, "its screen", |screen| screen.iter().any(|row| row == "len 5"));
    sees(&scratch, &person, "that it works", |screen| shows(screen, "@pw", "working"));
    assert!(!scratch.file(&person, "output.log").contains("horse"));
    keys(&scratch, &person, "n");
    sees(&scratch, &person, "that none waits", |screen| last(screen) == "no session waits for input");

    // One is attached to, and left.
    keys(&scratch, &person, "/shell\r");
    sees(&scratch, &person, "the filter", |screen| {
        selected(screen) == "@shell" && row(screen, "@ask").is_none()
    });
    keys(&scratch, &person, "\r");
    eventually("the window's size", || {
        scratch.ts(&["status", "--json", &shell]).out().contains("\"size\":{\"cols\":100,\"rows\":30}")
    });
    keys(&scratch, &person, "echo at''tached\r");
    scratch.ts(&["wait-pattern", &shell, "attached"]).code(0);
    keys(&scratch, &person, "\u{1c}d");
    sees(&scratch, &person, "the list again", |screen| {
        selected(screen) == "@shell" && last(screen).contains("q quit")
    });
    keys(&scratch, &person, "\u{1b}");
    sees(&scratch, &person, "all again", |screen| row(screen, "@ask").is_some());

    // One is ended, and then removed; not unasked.
    keys(&scratch, &person, "xn");
    keys(&scratch, &person, "x");
    sees(&scratch, &person, "the question", |screen| last(screen).starts_with("end @shell? y"));
    keys(&scratch, &person, "y");
    sees(&scratch, &person, "its end", |screen| shows(screen, "@shell", "dead"));
    keys(&scratch, &person, "\r");
    sees(&scratch, &person, "why not", |screen| last(screen) == "@shell has ended");
    keys(&scratch, &person, "x");
    sees(&scratch, &person, "the other question", |screen| last(screen).starts_with("remove @shell? y"));
    keys(&scratch, &person, "y");
    sees(&scratch, &person, "that it is gone", |screen| row(screen, "@shell").is_none());
    scratch.ts(&["status", &shell]).code(2);
    keys(&scratch, &person, "q");
    is_back(&scratch, &person, 0);
}

#[test]
fn top_shows_changes_live() {
    let scratch = Scratch::new();
    let person = person(&scratch, "90x24");
    call(&scratch, &person, "nbs-ts top");
    sees(&scratch, &person, "that there is none", |screen| {
        screen.iter().any(|row| row.starts_with("no sessions"))
    });
    let prints = scratch.create_with(&["--name=prints"], "for i in 1 2 3; do read x; echo line $i; done");
    sees(&scratch, &person, "one that came", |screen| shows(screen, "@prints", "waiting"));
    scratch.ts(&["send", &prints, ""]).code(0);
    sees(&scratch, &person, "what it printed", |screen| screen.iter().any(|row| row == "line 1"));
    scratch.ts(&["report", &prints, "failed", "no disk"]).code(0);
    let told = sees(&scratch, &person, "its report", |screen| shows(screen, "@prints", "failed"));
    assert!(told.iter().any(|row| row.starts_with("@prints") && row.ends_with("no disk")), "{told:#?}");
    let nasty = "\u{1b}]0;x\u{7}\u{1b}[2J漢字";
    scratch.ts(&["report", &prints, "waiting", nasty]).code(0);
    sees(&scratch, &person, "a text with controls", |screen| {
        screen.iter().any(|row| row.starts_with("@prints") && row.ends_with("\\e]0;x\\x07\\e[2J漢字"))
            || screen.iter().any(|row| row.starts_with("@prints") && row.ends_with("漢字"))
    });
    // It ends under the cursor, in the middle of an answer, and is removed under it.
    keys(&scratch, &person, "aloud");
    sees(&scratch, &person, "the answer", |screen| last(screen) == "answer @prints: loud");
    scratch.ts(&["kill", "--keep", &prints]).code(0);
    sees(&scratch, &person, "its end", |screen| shows(screen, "@prints", "dead"));
    keys(&scratch, &person, "\r");
    sees(&scratch, &person, "why not", |screen| last(screen).contains("has ended"));
    scratch.ts(&["kill", &prints]).code(0);
    sees(&scratch, &person, "that there is none", |screen| {
        screen.iter().any(|row| row.starts_with("no sessions"))
    });
    keys(&scratch, &person, "jknG\rax\u{3}");
    is_back(&scratch, &person, 0);
}

#[test]
fn top_fits_into_a_terminal_of_any_size() {
    let scratch = Scratch::new();
    let _ask = scratch.create_with(&["--name=ask"], LINE);
    let wide = scratch.create_with(
        &["--name=wide", "--size=120x40"],
        "for i in $(seq 50); do printf '漢%.0s' $(seq 60); done; exec cat",
    );
    scratch.ts(&["wait", &wide, "--waiting"]).code(0);
    let person = person(&scratch, "100x30");
    call(&scratch, &person, "nbs-ts top");
    sees(&scratch, &person, "both", |screen| {
        shows(screen, "@ask", "waiting") && shows(screen, "@wide", "waiting")
    });
    keys(&scratch, &person, "j");
    for size in ["40x10", "300x100", "20x5", "5x3", "1x1", "2x2", "100x30"] {
        scratch.ts(&["resize", &person, size]).code(0);
        let (cols, rows): (usize, usize) =
            size.split_once('x').map(|(cols, rows)| (cols.parse().unwrap(), rows.parse().unwrap())).unwrap();
        let name: String = "@wide".chars().take(cols.saturating_sub(1).min(5)).collect();
        let screen = sees(&scratch, &person, size, |screen| {
            screen.iter().any(|row| row.starts_with(&name)) && (rows < 24 || last(screen).contains("q quit"))
        });
        assert!(screen.len() <= rows, "{size}: {screen:#?}");
        if rows >= 24 {
            assert!(screen.iter().any(|row| row.starts_with("漢漢漢")), "{size}: {screen:#?}");
        }
    }
    keys(&scratch, &person, "q");
    is_back(&scratch, &person, 0);
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let scratch = Scratch::new();
    let ask = scratch.create_with(&["--name=ask"], LINE);
    scratch.ts(&["wait", &ask, "--waiting"]).code(0);
    let person = person(&scratch, "100x30");
    let cases: [(&str, &str, i32); 7] = [
        ("nbs-ts top", "-TERM", 1),
        ("nbs-ts top", "-HUP", 1),
        ("nbs-ts top", "-KILL", 137),
        ("nbs-viewer top", "-TERM", 1),
        ("nbs-viewer top", "-INT", 1),
        ("nbs-viewer top", "-ABRT", 1),
        ("nbs-viewer top", "-KILL", 1),
    ];
    for (who, name, code) in cases {
        call(&scratch, &person, "nbs-ts top");
        sees(&scratch, &person, "the list", |screen| shows(screen, "@ask", "waiting"));
        signal(name, &scratch.pid_of(who));
        is_back(&scratch, &person, code);
        scratch.ts(&["run", &person, "clear"]).code(0);
    }
    // While it is attached to one.
    for (who, code) in [("nbs-ts top", 1), ("nbs-viewer top", 1)] {
        call(&scratch, &person, "nbs-ts top");
        sees(&scratch, &person, "the list", |screen| shows(screen, "@ask", "waiting"));
        keys(&scratch, &person, "\r");
        eventually("the window's size", || {
            scratch.ts(&["status", "--json", &ask]).out().contains("\"size\":{\"cols\":100,\"rows\":30}")
        });
        signal("-TERM", &scratch.pid_of(who));
        is_back(&scratch, &person, code);
        scratch.ts(&["run", &person, "clear"]).code(0);
    }
    // Stopped, and continued.
    call(&scratch, &person, "nbs-ts top");
    sees(&scratch, &person, "the list", |screen| shows(screen, "@ask", "waiting"));
    let top = scratch.pid_of("nbs-ts top");
    signal("-TSTP", &top);
    eventually("it being stopped", || state_of(&top) == Some('T'));
    sees(&scratch, &person, "the shell", |screen| screen.iter().any(|row| row.contains("Stopped")));
    scratch.ts(&["send", &person, "fg"]).code(0);
    sees(&scratch, &person, "the list again", |screen| shows(screen, "@ask", "waiting"));
    keys(&scratch, &person, "q");
    eventually("the shell", || screen(&scratch, &person).iter().any(|row| row.starts_with("out> ")));
}

#[test]
fn in_tmux_it_is_the_same() {
    let scratch = Scratch::new();
    let ask = scratch.create_with(&["--name=ask"], LINE);
    scratch.ts(&["wait", &ask, "--waiting"]).code(0);
    let socket = scratch.path.join("tmux");
    let tmux = |words: &[&str]| {
        let mut command = scratch.command("tmux");
        run(command.args(["-S", socket.to_str().unwrap(), "-f", "/dev/null"]).args(words))
    };
    tmux(&["new-session", "-d", "-x", "100", "-y", "30", "bash --norc"]).code(0);
    let shown = |part: &str| {
        eventually(part, || tmux(&["capture-pane", "-p"]).out().contains(part));
    };
    tmux(&["send-keys", "PS1='out> '; clear; nbs-ts top; echo rc=$?", "Enter"]).code(0);
    shown("1 waiting");
    shown("── @ask printf");
    tmux(&["send-keys", "a", "y", "e", "s", "Enter"]).code(0);
    shown("got yes");
    shown("0 waiting");
    tmux(&["send-keys", "Up", "Down", "Escape", "q"]).code(0);
    shown("rc=0");
    let back = tmux(&["capture-pane", "-p"]).out();
    assert!(!back.contains("waiting"), "{back}");
    tmux(&["kill-server"]).code(0);
}

#[test]
fn without_a_terminal_it_is_a_listing_and_without_colours_it_has_none() {
    let scratch = Scratch::new();
    let ask = scratch.create_with(&["--name=ask"], LINE);
    scratch.ts(&["wait", &ask, "--waiting"]).code(0);
    let listed = scratch.ts(&["top"]).code(0).silent().out();
    assert_eq!(listed, scratch.ts(&["list", "--long"]).code(0).out());
    scratch
        .ts(&["top", "--once", "--name=nobody"])
        .code(0)
        .stdout("SESSION  ACTIVITY  SINCE  PROGRAM  DIRECTORY  LAST LINE\n");
    scratch.ts(&["top", "--json"]).code(4).complains("list --long");
    let person = person(&scratch, "100x30");
    for without in ["TERM= ", "TERM=dumb "] {
        call(&scratch, &person, &format!("{without} nbs-ts top"));
        is_back_at_once(&scratch);
    }
    let log = scratch.file(&person, "output.log");
    assert!(!log.contains("\u{1b}[?1049h"), "{log:?}");
    call(&scratch, &person, "NO_COLOR=1 nbs-ts top --name=ask");
    sees(&scratch, &person, "the list", |screen| shows(screen, "@ask", "waiting"));
    keys(&scratch, &person, "q");
    is_back(&scratch, &person, 0);
    let log = scratch.file(&person, "output.log");
    let drawn = &log[log.find("\u{1b}[?1049h").unwrap()..log.find("\u{1b}[?1049l").unwrap()];
    assert!(!drawn.contains(";31") && !drawn.contains(";32") && !drawn.contains("[31"), "{drawn:?}");
    assert!(drawn.contains("\u{1b}[?2026h") && drawn.contains("\u{1b}[?2026l"), "{drawn:?}");
}

fn is_back_at_once(scratch: &Scratch) {
    let told = || fs::read_to_string(scratch.path.join("rc")).unwrap_or_default();
    eventually("its end", || told() == "0\n");
}

#[test]
fn while_nothing_happens_nothing_is_done() {
    let scratch = Scratch::new();
    for _ in 0..3 {
        scratch.ts(&["wait", &scratch.create(LINE), "--waiting"]).code(0);
    }
    let person = person(&scratch, "100x30");
    call(&scratch, &person, "nbs-ts top");
    sees(&scratch, &person, "the list", |screen| screen[0].starts_with("nbs-ts top  3 waiting"));
    let viewer = scratch.processes().into_iter().find(|process| process.contains("nbs-viewer top")).unwrap();
    let pid = viewer.split(':').next().unwrap().to_owned();
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let count = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        count("voluntary_ctxt_switches") + count("nonvoluntary_ctxt_switches")
    };
    // Its initial work ends at some time; then there is a second in which it does not run at all.
    eventually("a second without a wake-up", || {
        let before = switches();
        scratch.bash("sleep 1").code(0);
        switches() == before
    });
    keys(&scratch, &person, "q");
    is_back(&scratch, &person, 0);
}

#[test]
fn top_shows_a_session_with_a_stopped_relay_without_delay() {
    let scratch = Scratch::new();
    let stopped = scratch.create_with(&["--name=stopped"], "exec sleep 1000");
    let ask = scratch.create_with(&["--name=ask"], LINE);
    scratch.ts(&["wait", &ask, "--waiting"]).code(0);
    let relay = scratch.file(&stopped, "daemon_pid").trim().to_owned();
    let signal = |signal: &str| assert!(run(Command::new("kill").args([signal, &relay])).status.success());
    signal("-STOP");
    let person = person(&scratch, "100x30");
    call(&scratch, &person, "nbs-ts top");
    sees(&scratch, &person, "both", |screen| {
        shows(screen, "@ask", "waiting") && shows(screen, "@stopped", "?")
    });
    signal("-CONT");
    sees(&scratch, &person, "what it does", |screen| shows(screen, "@stopped", "working"));
    keys(&scratch, &person, "q");
    is_back(&scratch, &person, 0);
}
