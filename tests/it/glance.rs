//! Views of many sessions: the activity of each, its start, and its question.

use std::fs;

use crate::support::{Scratch, eventually, field, run, signal, sockets_of, whole_lines};

fn activity(scratch: &Scratch, session: &str) -> String {
    scratch.ts(&["status", "--json", session]).code(0).field("activity")
}

fn is(scratch: &Scratch, session: &str, expected: &str) {
    eventually(&format!("{session} being {expected}"), || {
        activity(scratch, session) == format!("\"{expected}\"")
    });
}

/// A field of a session in the output of `status`.
fn told(scratch: &Scratch, session: &str, name: &str) -> String {
    scratch.ts(&["status", "--json", session]).code(0).field(name)
}

const LINE: &str = "printf 'Delete build/? [y/N] '; read x; echo $x; exec sleep 1000";

#[test]
fn each_session_is_told_as_it_is_and_those_that_wait_come_first() {
    let scratch = Scratch::new();
    let dead = scratch.create_with(&["--name=dead"], "echo gone; exit 3");
    scratch.wait_for_end(&dead);
    let idle = scratch.create_with(&["--name=idle"], "bash");
    scratch.ts(&["run", &idle, "echo printed before"]).code(0);
    let works = scratch.create_with(&["--name=works"], "echo begun; exec sleep 1000");
    let line = scratch.create_with(&["--name=line"], LINE);
    is(&scratch, &line, "waiting");
    let secret = scratch.create_with(&["--name=secret"], "read -s -p 'Password: ' x");
    is(&scratch, &secret, "waiting");
    let keys = scratch.create_with(
        &["--name=keys"],
        r"stty raw -echo; printf '\33[2J\33[3;1HProceed?\33[5;1H 1. yes\33[8;1H(keys)\33[5;1H'; exec cat",
    );
    is(&scratch, &keys, "waiting");
    // It has the keyboard, and works.
    let polls = scratch.create_with(
        &["--name=polls"],
        "exec python3 -c 'import tty,select\ntty.setraw(0)\nprint(1, flush=True)\nwhile True: select.select([0],[],[],0)'",
    );
    scratch.ts(&["wait-pattern", &polls, "1"]).code(0);
    is(&scratch, &idle, "idle");
    is(&scratch, &works, "working");
    is(&scratch, &polls, "working");
    is(&scratch, &dead, "dead");

    let long = scratch.ts(&["list", "--long"]).code(0).silent().out();
    let rows: Vec<Vec<&str>> = long.lines().map(|row| row.split_whitespace().collect()).collect();
    let firsts: Vec<String> = rows.iter().map(|row| format!("{} {}", row[0], row[1])).collect();
    assert_eq!(
        firsts,
        [
            "SESSION ACTIVITY",
            "@line waiting",
            "@secret waiting",
            "@keys waiting",
            "@works working",
            "@polls working",
            "@idle idle",
            "@dead dead"
        ],
        "{long}"
    );
    for (row, end) in
        [(1, "Delete build/? [y/N]"), (2, "Password:"), (4, "begun"), (6, "printed before"), (7, "gone")]
    {
        assert!(long.lines().nth(row).unwrap().ends_with(end), "{end:?}: {long}");
    }
    assert!(long.lines().all(|row| row.trim_end() == row), "{long}");
    let waiting = scratch.ts(&["list", "--waiting", "--json"]).code(0).silent().out();
    let names: Vec<String> = waiting.lines().map(|object| field(object, "name")).collect();
    assert_eq!(names, ["\"line\"", "\"secret\"", "\"keys\""]);
    let questions: Vec<String> = waiting.lines().map(|object| field(object, "question")).collect();
    assert_eq!(questions, ["\"Delete build/? [y/N]\"", "\"Password:\"", "\"Proceed?\""]);
    let programs: Vec<String> = waiting.lines().map(|object| field(object, "program")).collect();
    assert_eq!(programs, ["\"bash\"", "\"bash\"", "\"cat\""]);
    assert_eq!(told(&scratch, &line, "folder"), format!("\"{}\"", scratch.path.display()));
    assert_eq!(told(&scratch, &dead, "since"), told(&scratch, &dead, "ended"));

    // The output of `list` without them is unchanged, and `list --json` has all of it.
    let short = scratch.ts(&["list", "--name=dead"]).code(0).out();
    assert_eq!(short, format!("{dead}\tdead\tdead\techo gone; exit 3\n"));
    let all = scratch.ts(&["list", "--json", "--name=works"]).code(0).out();
    assert_eq!((field(&all, "activity"), field(&all, "question")), ("\"working\"".into(), "null".into()));
}

#[test]
fn the_program_is_who_has_the_foreground_and_waits_for_no_other() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path.join("below")).unwrap();
    // The last command of a shell's text replaces the shell, or the shell waits for it: the result is the
    // same.
    let cases = [
        ("sh -c 'echo x; sleep 1000'", "sleep"),
        ("sh -c 'echo x; sleep 1000; :'", "sleep"),
        ("bash -c 'sh -c \"sleep 1000; :\"; :'", "sleep"),
        ("python3 -c 'import os; os.system(\"cd below && sleep 1000; :\")'", "sleep"),
        ("sh -c 'sleep 1000 & while :; do :; done'", "sh"),
        // A python3 may be a script of pyenv's, which executes several programs before the last.
        ("exec tail -f /dev/null", "tail"),
        ("bash", "bash"),
    ];
    for (command, program) in cases {
        let handle = scratch.create(command);
        eventually(&format!("{program} in {command}"), || {
            told(&scratch, &handle, "program") == format!("\"{program}\"")
        });
        let folder =
            if command.contains("cd below") { scratch.path.join("below") } else { scratch.path.clone() };
        assert_eq!(scratch.ts(&["pwd", &handle]).out(), format!("{}\n", folder.display()), "{command}");
        // It is the same at each look.
        assert_eq!(told(&scratch, &handle, "program"), format!("\"{program}\""), "{command}");
        scratch.ts(&["kill", &handle]).code(0);
    }
}

#[test]
fn since_is_when_it_began_and_what_others_print_does_not_change_it() {
    let scratch = Scratch::new();
    let gate = scratch.path.join("gate");
    run(std::process::Command::new("mkfifo").arg(&gate)).code(0);
    // Its end wakes up the relay, and not the shell.
    let session = scratch.create(&format!("((read x < gate; echo other) &); {LINE}"));
    is(&scratch, &session, "waiting");
    let since = told(&scratch, &session, "since");
    fs::write(&gate, "\n").unwrap();
    scratch.ts(&["wait-pattern", &session, "other"]).code(0);
    is(&scratch, &session, "waiting");
    assert_eq!(told(&scratch, &session, "since"), since);
    scratch.ts(&["send", &session, "y"]).code(0);
    is(&scratch, &session, "working");
    assert_ne!(told(&scratch, &session, "since"), since);
}

#[test]
fn a_report_takes_precedence_until_something_is_typed() {
    let scratch = Scratch::new();
    let session = scratch.create_with(&["--name=agent"], "bash");
    scratch.ts(&["run", &session, "nbs-ts report waiting may I 'delete \"build\"/?'"]).code(0);
    // The line that was typed came before it.
    assert_eq!(activity(&scratch, &session), "\"waiting\"");
    assert_eq!(told(&scratch, &session, "question"), "\"may I delete \\\"build\\\"/?\"");
    assert_eq!(told(&scratch, &session, "terminal"), "\"prompt\"");
    scratch.ts(&["list", "--waiting"]).code(0).stdout_has("may I delete \"build\"/?");
    scratch.ts(&["send", "--no-enter", &session, "x"]).code(0);
    assert_eq!(told(&scratch, &session, "report"), "null");
    is(&scratch, &session, "idle");

    for (state, activity_then) in [
        ("working", "working"),
        ("done", "done"),
        ("failed", "failed"),
        ("idle", "idle"),
        ("waiting", "waiting"),
    ] {
        scratch.ts(&["report", "@agent", state]).code(0).silent().stdout("");
        assert_eq!(activity(&scratch, &session), format!("\"{activity_then}\""));
        let long = scratch.ts(&["list", "--long"]).code(0).out();
        assert_eq!(long.lines().nth(1).unwrap().split_whitespace().nth(1), Some(state), "{long}");
    }
    scratch.ts(&["report", &session, "clear"]).code(0).silent();
    assert_eq!(told(&scratch, &session, "report"), "null");
    // A dead session keeps it.
    let typed = "'--json' is typed as text; options go before SESSION";
    scratch.ts(&["report", &session, "done", "--json", "is", "text"]).code(0).complains(typed);
    scratch.ts(&["kill", "--keep", &session]).code(0);
    let report = scratch.ts(&["status", "--json", &session]).out();
    assert!(report.contains("\"report\":{\"state\":\"done\",\"text\":\"--json is text\","), "{report}");
    assert_eq!(activity(&scratch, &session), "\"dead\"");
    scratch.ts(&["doctor"]).code(0);
}

#[test]
fn a_report_that_cannot_be_is_refused_before_anything_happens() {
    let (scratch, session) = Scratch::with_session("exec sleep 1000");
    scratch.ts(&["report"]).code(4).complains("missing STATE");
    scratch.ts(&["report", &session]).code(4).complains("missing STATE");
    scratch.ts(&["report", &session, "asleep"]).code(4).complains("'asleep' is not a state");
    scratch.ts(&["report", "waiting"]).code(1).complains("not in a session");
    scratch.ts(&["report", "--sooner", &session, "idle"]).code(4).complains("--sooner");
    scratch.ts(&["report", &session, "waiting", &"x".repeat(4_001)]).code(4).complains("at most 4000");
    scratch.ts(&["report", "0badcafe", "idle"]).code(2).complains("no session");
    assert_eq!(told(&scratch, &session, "report"), "null");
    scratch.ts(&["report", &session, "waiting", &"x".repeat(4_000)]).code(0).silent();
    scratch.ts(&["kill", "--keep", &session]).code(0);
    scratch.ts(&["report", &session, "idle"]).code(1).complains("has ended");
}

#[test]
fn nothing_that_a_session_says_or_that_lies_in_its_folder_reaches_the_terminal_raw() {
    let scratch = Scratch::new();
    let nasty = "\u{1b}[2J\u{1b}]0;owned\u{7}\nreport done\u{9b}31m";
    let session = scratch.create("printf '\\33[2J\\33]0;x\\7\\302\\2331mred\\n'; exec sleep 1000");
    scratch.ts(&["wait-pattern", &session, "red"]).code(0);
    scratch.ts(&["report", &session, "waiting", nasty]).code(0);
    let shown = |arguments: &[&str]| {
        let out = scratch.ts(arguments).code(0).out();
        assert!(!out.replace('\n', "").chars().any(char::is_control), "{out:?}");
        out
    };
    shown(&["list", "--long"]);
    shown(&["list", "--waiting", "--json"]);
    scratch.ts(&["kill", "--keep", &session]).code(0);
    let file = scratch.folder(&session).join("report");
    let links: [&dyn Fn(); 5] = [
        &|| fs::write(&file, "waiting 1.5 \u{1b}[2J\n").unwrap(),
        &|| fs::write(&file, "x".repeat(1 << 20)).unwrap(),
        &|| fs::write(&file, [0xff; 64]).unwrap(),
        &|| std::os::unix::fs::symlink("/etc/passwd", &file).unwrap(),
        &|| fs::create_dir(&file).unwrap(),
    ];
    for forge in links {
        let _ = fs::remove_file(&file);
        forge();
        assert_eq!(told(&scratch, &session, "report"), "null");
        shown(&["list", "--long"]);
    }
    fs::remove_dir(&file).unwrap();
}

#[test]
fn a_relay_that_is_stopped_holds_a_listing_up_for_a_moment_only() {
    let scratch = Scratch::new();
    let (stopped, other) = (scratch.create("exec sleep 1000"), scratch.create(LINE));
    is(&scratch, &other, "waiting");
    let relay = scratch.file(&stopped, "daemon_pid");
    signal("-STOP", &relay);
    let long = scratch.ts(&["list", "--long"]).code(0).silent().out();
    signal("-CONT", &relay);
    let state = |row: usize| long.lines().nth(row).unwrap().split_whitespace().nth(1).unwrap().to_owned();
    assert_eq!((state(1), state(2)), ("waiting".to_owned(), "?".to_owned()), "{long}");
}

/// Waits until a file has this many lines, and returns them.
fn lines(path: &std::path::Path, count: usize) -> Vec<String> {
    eventually(&format!("{count} lines in {}", path.display()), || whole_lines(path).len() >= count);
    whole_lines(path)
}

#[test]
fn follow_prints_once_that_a_session_begins_to_wait_and_its_report() {
    let scratch = Scratch::new();
    let early = scratch.create_with(&["--name=early"], LINE);
    is(&scratch, &early, "waiting");
    let file = scratch.path.join("told");
    let mut command = scratch.command("nbs-ts");
    command.args(["events", "--follow", "--waiting"]).stdout(fs::File::create(&file).unwrap());
    let mut follower = command.spawn().unwrap();
    let first = lines(&file, 1);
    assert_eq!(field(&first[0], "session_id"), format!("\"{early}\""));
    assert_eq!(field(&first[0], "question"), "\"Delete build/? [y/N]\"");
    assert_eq!(
        (field(&first[0], "type"), field(&first[0], "terminal")),
        ("\"waiting\"".into(), "\"line\"".into())
    );

    // A later session: it waits for keys, then reports its own state.
    let late = scratch.create_with(&["--name=late"], "stty raw -echo; printf 'keys? '; exec cat");
    let told = lines(&file, 2);
    assert_eq!(field(&told[1], "pane_id"), "\"late\"");
    assert_eq!(
        (field(&told[1], "terminal"), field(&told[1], "question")),
        ("\"raw\"".into(), "\"keys?\"".into())
    );
    assert_eq!(field(&told[1], "since"), told_since(&scratch, &late));
    scratch.ts(&["report", &late, "done", "built"]).code(0);
    let told = lines(&file, 3);
    assert_eq!((field(&told[2], "type"), field(&told[2], "state")), ("\"report\"".into(), "\"done\"".into()));
    assert_eq!(field(&told[2], "text"), "\"built\"");
    scratch.ts(&["report", &late, "waiting", "may I?"]).code(0);
    let told = lines(&file, 5);
    assert_eq!(
        (field(&told[3], "type"), field(&told[4], "type")),
        ("\"report\"".into(), "\"waiting\"".into())
    );
    assert_eq!(field(&told[4], "question"), "\"may I?\"");

    // A call that waits on it notifies its caller.
    let asks =
        scratch.create_with(&["--name=asks"], "read a; printf 'sure? '; read b; printf 'really? '; read c");
    let told = lines(&file, 6);
    assert_eq!(field(&told[5], "question"), "null", "{}", told[5]);
    scratch.ts(&["ask", &asks, "x"]).code(0).stdout("sure? ");
    is(&scratch, &asks, "waiting");
    scratch.ts(&["send", &asks, "y"]).code(0);
    let told = lines(&file, 7);
    assert_eq!(field(&told[6], "question"), "\"really?\"");
    // Its end is reported as ever.
    scratch.ts(&["send", &asks, "z"]).code(0);
    let told = lines(&file, 8);
    assert_eq!(field(&told[7], "type"), "\"pty_exited\"");
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert_eq!(lines(&file, 8).len(), 8);
    scratch.ts(&["events", "--waiting"]).code(4).complains("--follow");
}

fn told_since(scratch: &Scratch, session: &str) -> String {
    told(scratch, session, "since")
}

#[test]
fn a_call_waits_for_whichever_session_waits_first() {
    let scratch = Scratch::new();
    let rests: Vec<String> =
        (0..5).map(|_| scratch.create_with(&["--name=rest"], "exec sleep 1000")).collect();
    let asks = scratch.create_with(&["--name=asks"], "read a; sleep 0.5; read -s -p 'Password: ' b; exit 7");
    scratch.ts(&["wait", &asks, "--waiting"]).code(0).stdout(format!("{asks}\twaiting\tline\n"));
    // The input has been read, or not: the session waits no longer.
    scratch.ts(&["send", &asks, "x"]).code(0);
    let any = ["wait", "--any", "--all", "--waiting", "--exit"];
    scratch.ts(&any).code(0).stdout(format!("{asks}\twaiting\tsecret\n"));
    scratch.ts(&["send", "--no-enter", &asks, ""]).code(0);
    let waits = scratch.start(&["wait", "--any", "--name=rest", "--waiting", "--exit"]);
    scratch.ts(&["report", &rests[3], "waiting", "x"]).code(0);
    waits.finish().code(0).stdout(format!("{}\twaiting\treport\n", rests[3]));
    scratch.ts(&["report", &rests[3], "clear"]).code(0);
    let waits = scratch.start(&["wait", "--any", "--name=rest", "--waiting", "--exit", "--pattern=never"]);
    // Sessions that live when it looks are waited for.
    eventually("its connections", || sockets_of(&waits.pid().to_string()) >= rests.len());
    scratch.ts(&["kill", "--keep", &rests[1]]).code(0);
    waits.finish().code(0).stdout(format!("{}\texit\t143\n", rests[1]));
    scratch.ts(&["wait", "--name=nobody", "--waiting"]).code(2).complains("there is no live session");
    scratch.ts(&["wait", "--all", &asks, "--waiting"]).code(4).complains("cannot use --");
    scratch.ts(&["wait", "--all"]).code(4).complains("missing a condition");
    scratch
        .ts(&["wait", "--timeout=0.2", &rests[0], "--waiting"])
        .code(3)
        .complains("did not start waiting for input");
}

#[test]
fn the_hooks_that_are_shown_report_what_they_say() {
    let scratch = Scratch::new();
    let shown = scratch.ts(&["hooks", "show", "claude"]).code(0).out();
    let (_, hooks) = shown.split_once('\n').unwrap();
    fs::write(scratch.path.join("hooks.json"), hooks).unwrap();
    fs::write(scratch.path.join("input.json"), "{\"tool_name\":\"Bash \\\"x\\\"\"}").unwrap();
    let hook = |event: &str| {
        format!("eval \"$(jq -r '.hooks.{event}[0].hooks[0].command' hooks.json)\" <input.json")
    };
    let session = scratch.create("bash");
    for (event, state, text) in [
        ("UserPromptSubmit", "working", ""),
        ("PermissionRequest", "waiting", "use Bash \\\"x\\\"?"),
        ("Stop", "done", ""),
    ] {
        scratch.ts(&["run", &session, &hook(event)]).code(0).silent().stdout("");
        let object = scratch.ts(&["status", "--json", &session]).code(0).out();
        let expected = format!("\"report\":{{\"state\":\"{state}\",\"text\":\"{text}\",");
        assert!(object.contains(&expected), "{expected}: {object}");
        scratch.bash(&hook(event)).code(0).stdout("");
    }
}

/// A follower of the sessions' states.
struct Listing {
    process: std::process::Child,
    file: std::path::PathBuf,
}

impl Listing {
    fn start(scratch: &Scratch, options: &[&str]) -> Listing {
        let file = scratch.path.join("listed");
        let mut command = scratch.command("nbs-ts");
        command.args(["list", "--json", "--follow"]).args(options);
        let process = command.stdout(fs::File::create(&file).unwrap()).spawn().unwrap();
        Listing { process, file }
    }

    fn lines(&self) -> Vec<String> {
        whole_lines(&self.file)
    }

    /// Waits until the last event of a session has this field.
    fn tells(&self, session: &str, name: &str, value: &str) {
        let of = |line: &&String| field(line, "handle") == format!("\"{session}\"");
        eventually(&format!("{session} having {value}"), || {
            self.lines().iter().rev().find(of).is_some_and(|line| field(line, name) == format!("\"{value}\""))
        });
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        signal(name, &pid);
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn follow_by_name_omits_other_sessions_even_when_removed() {
    let scratch = Scratch::new();
    let other = scratch.create_with(&["--name=other"], "cat");
    let build = scratch.create_with(&["--name=build"], "cat");
    let listing = Listing::start(&scratch, &["--name=buil"]);
    listing.tells(&build, "activity", "waiting");
    let later = scratch.create_with(&["--name=later"], "cat");
    scratch.ts(&["kill", &other, &later]).code(0);
    scratch.ts(&["kill", &build]).code(0);
    listing.tells(&build, "state", "removed");
    assert!(listing.lines().iter().all(|line| line.contains(&build)), "{:#?}", listing.lines());
}

#[test]
fn follow_prints_sessions_removed_during_an_overflow_of_inotify() {
    let scratch = Scratch::new();
    let [dead, live] = ["exit 3", "cat"].map(|command| scratch.create(command));
    scratch.wait_for_end(&dead);
    let listing = Listing::start(&scratch, &[]);
    listing.tells(&dead, "state", "dead");
    listing.tells(&live, "activity", "waiting");
    listing.signal("-STOP");
    let most: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let (inside, outside) = (scratch.state().join("sessions/x"), scratch.path.join("x"));
    fs::create_dir(&outside).unwrap();
    for _ in 0..=most / 2 {
        fs::rename(&outside, &inside).unwrap();
        fs::rename(&inside, &outside).unwrap();
    }
    scratch.ts(&["kill", &dead, &live]).code(0);
    let new = scratch.create("cat");
    listing.signal("-CONT");
    listing.tells(&new, "activity", "waiting");
    listing.tells(&dead, "state", "removed");
    listing.tells(&live, "state", "removed");
}

#[test]
fn follow_retries_a_session_when_another_appears() {
    let (scratch, hidden) = Scratch::with_session("cat");
    let folder = scratch.state().join("sessions").join(&hidden);
    fs::rename(folder.join("relay.sock"), folder.join("hidden")).unwrap();
    let listing = Listing::start(&scratch, &[]);
    listing.tells(&hidden, "state", "alive");
    assert_eq!(field(listing.lines().last().unwrap(), "activity"), "null");
    fs::rename(folder.join("hidden"), folder.join("relay.sock")).unwrap();
    let other = scratch.create("cat");
    listing.tells(&other, "activity", "waiting");
    listing.tells(&hidden, "activity", "waiting");
}

#[test]
fn follow_sees_that_a_read_with_a_timeout_has_ended() {
    let (scratch, patient) = Scratch::with_session("read -t 3 x; exec sleep 1000");
    let listing = Listing::start(&scratch, &[]);
    listing.tells(&patient, "activity", "waiting");
    listing.tells(&patient, "activity", "working");
}

#[test]
fn the_last_line_is_words_and_no_border() {
    let (scratch, handle) = Scratch::with_session("printf '╭───╮\\n│ box │\\n╰───╯\\n'; exec sleep 1000");
    scratch.ts(&["wait-pattern", &handle, "╰"]).code(0);
    assert_eq!(told(&scratch, &handle, "last_line"), "\"│ box │\"");
}

#[test]
fn a_follower_of_the_list_is_told_all_of_a_session_at_once_and_its_name_when_it_goes() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--name=one"], LINE);
    is(&scratch, &handle, "waiting");
    let file = scratch.path.join("told");
    let mut command = scratch.command("nbs-ts");
    command.args(["list", "--json", "--follow"]).stdout(fs::File::create(&file).unwrap());
    let mut follower = command.spawn().unwrap();
    let first = lines(&file, 1);
    assert_eq!(field(&first[0], "activity"), "\"waiting\"");
    assert!(first[0].contains("\"input\":{\"state\":\"waiting\",\"cause\":\"line\""), "{first:?}");
    // The same fields as everywhere.
    let names = |line: &str| {
        let parts = line.split("\":").map(|part| part.rsplit('"').next().unwrap().to_owned());
        let mut names: Vec<String> = parts.collect();
        // Behind the last colon there is a value.
        names.pop();
        names
    };
    assert_eq!(names(&first[0]), names(scratch.ts(&["list", "--json"]).code(0).out().trim_end()));
    scratch.ts(&["kill", &handle]).code(0);
    eventually("the removal", || {
        let told = whole_lines(&file);
        told.last().is_some_and(|line| line.contains("\"removed\"") && line.contains("\"name\":\"one\""))
    });
    follower.kill().unwrap();
    follower.wait().unwrap();
}
