//! One answer to "does it wait for input?": every verb is asked about the same programs.

use std::fs;

use crate::{
    integrate::Sshd,
    page::Page,
    support::{Scratch, eventually, field, whole_lines},
};

/// The answer of every command about a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It waits for input, and `wait` prints which.
    Waits(&'static str),
    /// The session's shell is at its prompt.
    Prompt,
    Works,
}
use Answer::{Prompt, Waits, Works};

impl Answer {
    fn activity(self) -> &'static str {
        match self {
            Waits(_) => "waiting",
            Prompt => "idle",
            Works => "working",
        }
    }

    /// A wait that is in vain lasts longer than any program below sleeps, and longer than one must
    /// have rested.
    fn timeout(self) -> &'static str {
        if self == Works { "--timeout=3" } else { "--timeout=60" }
    }
}

/// Types a command into a bash, waits until it has printed `ready`, and asks every verb.
fn every_verb_says(command: &str, ready: &str, expected: Answer) {
    let (scratch, handle) = Scratch::with_session("bash");
    say_all(&scratch, &handle, command, ready, expected);
    if expected == Prompt {
        return;
    }
    // A command of `run`, and one of `ask`.
    let (runs, asks) = (scratch.create("bash"), scratch.create("bash"));
    let run = scratch.start(&["run", expected.timeout(), &runs, command]);
    let ask = scratch.start(&["ask", "--json", expected.timeout(), &asks, command]);
    let (run, ask) = (run.finish(), ask.finish());
    match expected {
        Works => {
            let run = run.code(124);
            assert!(!run.err().contains("waits for input"), "{}", run.shown());
            let ask = ask.code(3);
            assert!(!ask.err().contains("waits for input"), "{}", ask.shown());
        }
        _ => {
            run.code(123);
            assert_eq!(ask.code(0).field("condition"), "\"input\"");
        }
    }
}

/// The same, but for `run` and `ask`.
fn say_all(scratch: &Scratch, handle: &str, command: &str, ready: &str, expected: Answer) {
    let file = scratch.path.join("told");
    let mut follower = scratch.command("nbs-ts");
    follower.args(["events", "--follow", "--waiting"]).stdout(fs::File::create(&file).unwrap());
    let mut follower = follower.spawn().unwrap();
    scratch.ts(&["wait", handle, "--input"]).code(0);
    scratch.ts(&["send", handle, command]).code(0);
    // No call waits on it meanwhile: so its state is news.
    eventually("its first words", || {
        String::from_utf8_lossy(&fs::read(scratch.folder(handle).join("output.log")).unwrap()).contains(ready)
    });

    let line = |words: &[&str]| {
        let all = scratch.ts(words).code(0).out();
        all.lines().find(|line| line.contains(handle)).unwrap_or_default().to_owned()
    };
    let quoted = format!("\"{}\"", expected.activity());
    eventually("the activity", || field(&line(&["list", "--json"]), "activity") == quoted);
    if matches!(expected, Waits(_)) {
        eventually("the event", || whole_lines(&file).iter().any(|line| line.contains(handle)));
    }

    // In vain, if it does not wait: until then it may begin to.
    let seen = ["--input", "--waiting"].map(|condition| {
        let timeout = match (expected, condition) {
            (Prompt, "--waiting") => Works.timeout(),
            _ => expected.timeout(),
        };
        let ran = scratch.ts(&["wait", condition, timeout, handle]);
        (ran.out().split_whitespace().nth(2).unwrap_or_default().to_owned(), ran.err())
    });
    let words = match expected {
        Waits(what) => [what, what],
        Prompt => ["prompt", ""],
        Works => ["", ""],
    };
    assert_eq!([&seen[0].0, &seen[1].0], words, "{seen:?}");
    let in_vain = scratch.ts(&["wait", "--pattern=nowhere", "--timeout=0", handle]).code(3).err();
    for evidence in [&seen[0].1, &seen[1].1, &in_vain].into_iter().filter(|evidence| !evidence.is_empty()) {
        assert_eq!(evidence.contains("a program waits"), matches!(expected, Waits(_)), "{evidence}");
    }
    let status = scratch.ts(&["status", "--json", handle]).code(0);
    let activities = [
        status.field("activity"),
        field(&line(&["list", "--json"]), "activity"),
        format!("\"{}\"", line(&["list", "--long"]).split_whitespace().nth(1).unwrap_or_default()),
        format!("\"{}\"", line(&["top", "--once"]).split_whitespace().nth(1).unwrap_or_default()),
    ];
    assert!(activities.iter().all(|activity| *activity == quoted), "{activities:?}");
    assert_eq!(line(&["list", "--waiting"]).contains(handle), matches!(expected, Waits(_)));
    Page::start_with(scratch, &[])
        .open("")
        .until_about(handle, |about| about["activity"] == expected.activity());
    let input = status.field("input");
    assert_eq!(input.contains("\"waiting\""), expected != Works, "{input}");

    follower.kill().unwrap();
    follower.wait().unwrap();
    // Once, and no more: it has not gone to and fro meanwhile.
    let told = whole_lines(&file).iter().filter(|line| line.contains(handle)).count();
    assert_eq!(told, usize::from(matches!(expected, Waits(_))), "{:?}", whole_lines(&file));
}

#[test]
fn bash_at_its_prompt_is_idle() {
    every_verb_says("echo $((6 * 7))", "42", Prompt);
}

#[test]
fn bash_with_a_stopped_job_is_idle() {
    every_verb_says("sh -c 'kill -STOP $$'; echo $((6 * 7))", "42", Prompt);
}

#[test]
fn bash_at_ps2_waits() {
    let (scratch, handle) = Scratch::with_session("bash");
    say_all(&scratch, &handle, "echo 'a", "\x1b[?2004h> ", Waits("raw"));
}

#[test]
fn read_waits_for_a_line() {
    every_verb_says("read -p go''on? x", "goon?", Waits("line"));
}

#[test]
fn read_with_the_echo_off_waits_for_a_secret() {
    every_verb_says("read -s -p go''on? x", "goon?", Waits("secret"));
}

#[test]
fn read_that_gives_up_after_a_while_waits() {
    every_verb_says("read -t 500 -p go''on? x", "goon?", Waits("line"));
}

#[test]
fn python_at_its_prompt_waits() {
    every_verb_says("python3 -q", ">>> ", Waits("raw"));
}

#[test]
fn vim_waits() {
    every_verb_says("vim -N -u NONE -i NONE", "~", Waits("raw"));
}

#[test]
fn less_waits() {
    every_verb_says("seq 1000 | less", "17", Waits("raw"));
}

#[test]
fn a_pipeline_whose_first_reads_the_terminal_waits() {
    every_verb_says("echo go''on; cat | sort", "goon", Waits("line"));
}

#[test]
fn a_pipeline_that_reads_a_pipe_works() {
    every_verb_says("echo go''on; sleep 1000 | cat", "goon", Works);
}

#[test]
fn a_sleeping_program_works() {
    every_verb_says("echo go''on; sleep 1000", "goon", Works);
}

#[test]
fn git_add_p_waits() {
    let words = "git init -q . && echo a >f && git add f && echo b >f && git add -p";
    every_verb_says(&format!("cd $(mktemp -d -p .) && {words}"), "Stage this hunk", Waits("line"));
}

#[test]
fn fzf_waits() {
    every_verb_says("seq 100 | fzf", "100/100", Waits("raw"));
}

/// It draws changes each time it wakes up, every one and a half seconds.
#[test]
fn htop_which_redraws_by_a_timer_works() {
    every_verb_says("htop", "Tasks", Works);
}

#[test]
fn a_tmux_inside_waits_where_its_shell_does() {
    let tmux = "tmux -L own$$ -f /dev/null new -s x \"env PS1='mi''ne# ' bash --norc\"";
    every_verb_says(&format!("unset TMUX; {tmux}"), "mine# ", Waits("raw"));
}

#[test]
fn ssh_waits_where_the_shell_behind_it_does() {
    let scratch = Scratch::new();
    let sshd = Sshd::start(&scratch, "env PS1='mine# ' bash --norc");
    let handle = scratch.create("bash");
    say_all(&scratch, &handle, &sshd.command, "mine# ", Waits("raw"));
}

/// It computes for a few milliseconds, and looks for a key for a few.
const POLLER: &str = "\
import select, sys, termios, time, tty
tty.setcbreak(0)
print('go' + 'on', flush=True)
while True:
    until = time.monotonic() + 0.005
    while time.monotonic() < until: pass
    if select.select([0], [], [], 0.01)[0]: break
";

#[test]
fn a_program_that_polls_the_keyboard_while_computing_works() {
    every_verb_says(&format!("python3 -c \"{POLLER}\""), "goon", Works);
}

#[test]
fn a_progress_bar_that_looks_for_a_key_works() {
    let bar = "echo go''on; until read -r -s -n 1 -t 0.2; do printf .; done";
    every_verb_says(bar, "goon", Works);
}

#[test]
fn a_program_that_prints_by_a_timer_works() {
    every_verb_says("echo go''on; until read -r -t 1.4; do printf .; done", "goon", Works);
}
