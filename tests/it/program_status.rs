use std::fs;

use crate::support::{Scratch, eventually, field, run, whole_lines};

/// Prints the content of a file after each typed line, and works meanwhile as far as the kernel shows.
const SAYS: &str = "while read -r x; do printf \"$x\"; (sleep 1000 & wait) </dev/null & done; exit";

fn status(scratch: &Scratch, session: &str, name: &str) -> String {
    scratch.ts(&["status", "--json", session]).code(0).field(name)
}

/// Has the program print this, and waits until the session is shown in that state.
fn says(scratch: &Scratch, session: &str, printed: &str, activity: &str) {
    scratch.ts(&["send", session, printed]).code(0);
    eventually(&format!("{printed} making it {activity}"), || {
        status(scratch, session, "activity") == format!("\"{activity}\"")
    });
}

fn base64(text: &str) -> String {
    use std::io::Write;
    let mut child = std::process::Command::new("base64");
    let mut child = child
        .arg("-w0")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn the_status_of_a_program_is_shown_and_takes_precedence() {
    let scratch = Scratch::new();
    let session = scratch.create_with(&["--name=agent"], SAYS);
    assert_eq!(status(&scratch, &session, "program_status"), "[]");
    says(&scratch, &session, r"\033]7501;state=working:app=codex:progress=40\033\\\\", "working");
    let msg = base64("approve Bash: touch x");
    says(
        &scratch,
        &session,
        &format!(r"\033]7501;state=blocked:kind=permission:id=a:msg={msg}\007"),
        "waiting",
    );
    let shown = status(&scratch, &session, "program_status");
    assert_eq!(
        shown,
        "[{\"id\":\"a\",\"state\":\"blocked\",\"kind\":\"permission\",\"progress\":null,\"app\":\"codex\",\"title\":null,\
         \"msg\":\"approve Bash: touch x\"},{\"id\":\"\",\"state\":\"working\",\"kind\":null,\"progress\":40,\
         \"app\":\"codex\",\"title\":null,\"msg\":null}]"
    );
    assert_eq!(status(&scratch, &session, "question"), "\"approve Bash: touch x\"");
    let row = scratch.ts(&["list", "--long"]).code(0).out();
    assert!(
        row.lines()
            .any(|row| row.contains("@agent") && row.contains("waiting") && row.contains("approve Bash")),
        "{row}"
    );
    scratch.ts(&["list", "--json"]).code(0).stdout_has("\"state\":\"blocked\"");
    scratch
        .ts(&["wait", &session, "--waiting"])
        .code(0)
        .stdout(format!("{session}\twaiting\tprogram-status\n"));
    // A report comes before that.
    scratch.ts(&["report", &session, "working"]).code(0);
    assert_eq!(status(&scratch, &session, "activity"), "\"working\"");
    scratch.ts(&["report", &session, "clear"]).code(0);
    says(&scratch, &session, r"\033]7501;state=clear:id=a\007\033]7501;state=error\007", "failed");
    let row = scratch.ts(&["list", "--long"]).code(0).out();
    assert!(row.contains("failed"), "{row}");
    // After a reset, the observed state counts again.
    says(&scratch, &session, r"\033c", "waiting");
    assert_eq!(status(&scratch, &session, "program_status"), "[]");
    says(&scratch, &session, r"\033]9;4;1;30\007\033]7501;state=idle\007", "idle");
    let all = scratch.ts(&["status", "--json", &session]).code(0).out();
    assert!(all.contains("\"progress\":{\"state\":\"running\",\"percent\":30}"), "{all}");
}

#[test]
fn a_new_prompt_ends_what_was_going_on_and_leaves_what_is_done() {
    let (scratch, shell) = Scratch::with_session("bash");
    let say = |state: &str| format!(r"printf '\033]7501;state={state}\007'");
    for (state, kept) in [("working", "[]"), ("blocked", "[]"), ("done", "done"), ("error", "error")] {
        scratch.ts(&["run", &shell, &say(state)]).code(0);
        scratch.ts(&["run", &shell, "true"]).code(0);
        eventually(&format!("{state} becoming {kept}"), || {
            status(&scratch, &shell, "program_status").contains(kept)
        });
    }
    // There was input since.
    assert_eq!(status(&scratch, &shell, "activity"), "\"idle\"");
    assert_eq!(status(&scratch, &shell, "because"), "\"shell\"");
}

#[test]
fn a_turn_that_has_ended_since_the_last_input_is_waited_for() {
    let scratch = Scratch::new();
    // It works for a moment on each line, and says how that ended by its first word.
    let agent = r"
import sys
def say(state): print(f'\033]7501;state={state}\007', end='', flush=True)
say('idle')
for line in sys.stdin:
    word = line.split()[0]
    if word != 'silently': say('working')
    if word == 'asks':
        say('blocked:kind=permission'); sys.stdin.readline(); say('working')
    open(word).read()
    say('error' if word == 'fails' else 'idle' if word == 'stops' else 'done')
";
    fs::write(scratch.path.join("agent.py"), agent).unwrap();
    for word in ["works", "fails", "stops", "asks", "silently"] {
        run(std::process::Command::new("mkfifo").arg(scratch.path.join(word))).code(0);
    }
    let go_on = |word: &str| fs::write(scratch.path.join(word), "x").unwrap();
    let session = scratch.create_with(&["--name=agent"], "exec /usr/bin/python3 agent.py");
    eventually("its first word", || status(&scratch, &session, "activity") == "\"idle\"");
    // It has done nothing yet.
    scratch.ts(&["wait", &session, "--done", "--timeout=0.1"]).code(3).complains("did not end a turn");
    for (word, state, activity) in [
        ("works", "done", "done"),
        ("silently", "done", "done"),
        ("fails", "failed", "failed"),
        ("stops", "idle", "idle"),
    ] {
        scratch.ts(&["send", &session, word]).code(0);
        scratch.ts(&["wait", &session, "--done", "--timeout=0.1"]).code(3);
        let waits = scratch.start(&["wait", &session, "--done"]);
        go_on(word);
        waits.finish().code(0).stdout(format!("{session}\tdone\t{state}\n"));
        // It still has, beside any other condition.
        let again = scratch.ts(&["wait", &session, "--done", "--pattern=never"]).code(0);
        again.stdout(format!("{session}\tdone\t{state}\n"));
        assert_eq!(status(&scratch, &session, "activity"), format!("\"{activity}\""), "{word}");
        assert_eq!(status(&scratch, &session, "because"), "\"program-status\"");
        let listed = scratch.ts(&["list", "--waiting"]).code(0).out();
        assert_eq!(listed.contains("@agent"), state != "idle", "{listed}");
    }
    // A question in the middle of a turn does not end it, and neither does the answer.
    scratch.ts(&["send", &session, "asks"]).code(0);
    let waits = scratch.ts(&["wait", &session, "--done", "--waiting"]).code(0);
    waits.stdout(format!("{session}\twaiting\tprogram-status\n"));
    scratch.ts(&["send", &session, "y"]).code(0);
    let waits = scratch.start(&["wait", &session, "--done"]);
    go_on("asks");
    waits.finish().code(0).stdout(format!("{session}\tdone\tdone\n"));
    // Sessions that wait come before those that are done.
    let asks = scratch.create_with(&["--name=asks"], "printf 'Go on? '; read x");
    scratch.ts(&["wait", &asks, "--waiting"]).code(0);
    let listed = scratch.ts(&["list", "--waiting"]).code(0).out();
    let rows: Vec<&str> = listed.lines().map(|row| row.split_whitespace().next().unwrap()).collect();
    assert_eq!(rows, ["SESSION", "@asks", "@agent"], "{listed}");
    // A report counts as much.
    scratch.ts(&["report", &asks, "failed"]).code(0);
    scratch.ts(&["wait", &asks, "--done"]).code(0).stdout(format!("{asks}\tdone\tfailed\n"));
}

#[test]
fn the_question_for_it_is_answered_before_that_for_the_terminal_and_by_nobody_else() {
    let scratch = Scratch::new();
    let asks = r"
import os, tty
tty.setraw(0)
os.write(1, b'\x1b]7501;?\x1b\\\x1b[c')
answer = b''
while not answer.endswith(b'c'):
    answer += os.read(0, 1000)
while True:
    os.write(1, b'\r\n' + ascii(answer)[2:-1].encode())
    answer = os.read(0, 1000)
";
    fs::write(scratch.path.join("asks.py"), asks).unwrap();
    // A person's terminal is attached already, and answers, too.
    let session = scratch.create("read -r x; exec python3 asks.py");
    let person = scratch.create("bash");
    scratch.ts(&["send", &person, &format!("nbs-ts attach --interactive {session}")]).code(0);
    scratch.ts(&["wait", &person, "--pattern=detaches"]).code(0);
    scratch.ts(&["send", &session, ""]).code(0);
    let answer = r"\x1b]7501;?:states=idle,working,done,blocked,error:kinds=permission,question,auth\x1b\\\x1b[?64;6;21;22;28c";
    scratch.ts(&["wait", &session, &format!("--pattern={answer}")]).code(0);
    scratch.ts(&["send", "--no-enter", &session, "after"]).code(0);
    scratch.ts(&["wait-pattern", &session, "after"]).code(0);
    let printed = scratch.ts(&["read", "--strip", &session]).code(0).out();
    assert_eq!(printed.matches("states=").count(), 1, "{printed}");
    assert!(!scratch.file(&person, "output.log").contains("\x1b]7501;?"));
}

#[test]
fn events_tell_each_notice_once() {
    let scratch = Scratch::new();
    let file = scratch.path.join("told");
    fs::write(&file, "").unwrap();
    let session = scratch.create_with(&["--name=agent"], SAYS);
    scratch.ts(&["send", &session, r"\033]9;before\007"]).code(0);
    scratch.ts(&["wait-pattern", &session, "\x1b]9;before\x07"]).code(0);
    let follow = scratch.create(&format!("nbs-ts events --follow --waiting >{}", file.display()));
    let told = || -> Vec<String> {
        let lines = whole_lines(&file).into_iter();
        lines.filter(|line| line.contains("\"type\":\"notice\"")).collect()
    };
    scratch.ts(&["report", &session, "working", "followed"]).code(0);
    eventually("the session being followed", || {
        whole_lines(&file).iter().any(|line| line.contains("\"text\":\"followed\""))
    });
    scratch
        .ts(&["send", &session, r"\033]9;Approval requested\007\033]777;notify;Title;bo\342\200\256dy\007"])
        .code(0);
    eventually("two notices", || told().len() == 2);
    scratch.ts(&["send", &session, r"\033]99;i=1:d=0;Turn \033\\\\\033]99;i=1;complete\033\\\\"]).code(0);
    eventually("a third", || told().len() == 3);
    let told = told();
    let shown: Vec<_> = told.iter().map(|line| (field(line, "title"), field(line, "text"))).collect();
    let expected =
        [("null", "\"Approval requested\""), ("\"Title\"", "\"body\""), ("null", "\"Turn complete\"")];
    assert_eq!(shown, expected.map(|(title, text)| (title.to_owned(), text.to_owned())));
    assert!(told.iter().all(|line| field(line, "session_id") == format!("\"{session}\"")), "{told:?}");
    scratch.ts(&["kill", &follow]).code(0);
}

#[test]
fn a_relay_stays_small_whatever_a_program_says_of_itself() {
    let scratch = Scratch::new();
    let floods = r"
import base64, os
text = base64.b64encode(b'x' * 2048).decode()
for number in range(2000):
    os.write(1, f'\x1b]7501;state=working:id={number}:msg={text}\x07\x1b]9;{text}\x07'.encode())
print('flooded')
input()
";
    fs::write(scratch.path.join("floods.py"), floods).unwrap();
    let session = scratch.create("python3 floods.py");
    scratch.ts(&["wait", &session, "--pattern=flooded"]).code(0);
    let all = scratch.ts(&["status", "--json", &session]).code(0).out();
    // The least urgent have no room.
    assert!((16..256).contains(&all.matches("\"kind\":null").count()), "{all}");
    scratch.ts(&["list", "--json"]).code(0).stdout_has("\"kind\":null");
    let relay = scratch.file(&session, "daemon_pid");
    let most = crate::support::most_memory(relay.trim()).unwrap();
    assert!(most < 8 << 20, "{most}");
}

#[test]
fn a_report_outside_of_a_session_goes_to_the_terminal() {
    let scratch = Scratch::new();
    let outside = |words: &str| format!("env -u NBS_TS_SESSION nbs-ts report {words} >out 2>&1 </dev/null");
    let shell = scratch.create("bash");
    scratch.ts(&["run", &shell, &outside("waiting 'may I?'")]).code(0);
    eventually("the terminal being told", || {
        let said = format!("\x1b]7501;state=blocked:msg={}\x1b\\", base64("may I?"));
        scratch.file(&shell, "output.log").contains(&said)
    });
    scratch.ts(&["run", &shell, &outside("done")]).code(0);
    eventually("it being done", || status(&scratch, &shell, "program_status").contains("\"done\""));
    scratch.ts(&["run", &shell, &outside("clear")]).code(0);
    eventually("nothing being said", || status(&scratch, &shell, "program_status") == "[]");
    // Without a terminal, too.
    let without = |words: &[&str]| {
        let mut command = scratch.command("setsid");
        run(command.args(["--wait", "nbs-ts", "report"]).args(words))
    };
    without(&["waiting", "x"]).code(1).complains("cannot report: not in a session, and without a terminal: ");
    without(&["--quiet", "waiting", "x"]).code(0).silent().stdout("");
    without(&["--quiet", "asleep"]).code(4).complains("'asleep' is not a state");
    let mut gone = scratch.command("nbs-ts");
    run(gone.args(["report", "--quiet", "idle"]).env("NBS_TS_SESSION", "0badcafe")).code(0).silent();
}
