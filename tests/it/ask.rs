use std::{fs, time::Duration};

use crate::support::{Ran, Scratch, eventually, executable, sockets_of, state_of, timing_out};

/// One answer after another, of a program that needs no time to begin.
fn answers(command: &str, talk: &[(&str, &str)]) {
    let (scratch, handle) = Scratch::with_session(command);
    for (question, answer) in talk {
        scratch.ts(&["ask", "--strip", &handle, question]).code(0).stdout(answer).silent();
    }
}

#[test]
fn bash_answers() {
    answers(
        "bash",
        &[
            ("echo hello", "hello\n"),
            ("cd /; pwd", "/\n"),
            ("printf 'no end'", "no end"),
            ("true", ""),
            ("echo echo hello", "echo hello\n"),
            ("printf 'a\\nb\\n'; false", "a\nb\n"),
            (&format!("echo {}", "x".repeat(300)), &format!("{}\n", "x".repeat(300))),
        ],
    );
}

#[test]
fn dash_answers() {
    answers(
        "dash",
        &[
            ("echo hello", "hello\n"),
            ("printf 'no end'", "no end"),
            ("true", ""),
            ("sleep 0.3; echo hi", "hi\n"),
        ],
    );
}

/// Python has the keyboard itself then, and so is reported only after a second.
#[test]
fn a_question_that_ask_printed_can_be_answered_at_once() {
    let (scratch, handle) = Scratch::with_session("/usr/bin/env python3 -q");
    scratch.ts(&["ask", &handle, "got = input('Name? ')"]).code(0).stdout("Name? ").silent();
    scratch.ts(&["answer", &handle, "some one"]).code(0).silent();
    scratch.ts(&["ask", &handle, "got"]).code(0).stdout("'some one'\n");
}

#[test]
fn python_answers() {
    answers(
        "/usr/bin/env python3 -q",
        &[
            ("1 + 1", "2\n"),
            ("'1 + 1'", "'1 + 1'\n"),
            ("x = 5", ""),
            ("for n in range(3): print(n)", "... "),
            ("", "0\n1\n2\n>>> "),
            ("import time; time.sleep(0.3); print(x, end='')", "5"),
            (&format!("'{}'", "x".repeat(300)), &format!("'{}'\n", "x".repeat(300))),
        ],
    );
}

#[test]
fn gdb_answers() {
    answers("gdb -q", &[("print 1 + 1", "$1 = 2\n"), ("echo hello\\n", "hello\n"), ("set $x = 1", "")]);
}

#[test]
fn sqlite_answers() {
    answers(
        "sqlite3",
        &[
            ("create table t(x);", ""),
            ("insert into t values(1),(2);", ""),
            ("select * from t;", "1\n2\n"),
            (".print select * from t;", "select * from t;\n"),
        ],
    );
}

#[test]
fn bc_answers() {
    answers("bc -q", &[("1 + 1", "2\n"), ("2 ^ 10", "1024\n"), ("x = 3", ""), ("x", "3\n"), ("3", "3\n")]);
}

#[test]
fn cat_says_the_question_again() {
    answers("cat", &[("hello", "hello\n"), ("hello", "hello\n"), ("--json é", "--json é\n")]);
}

#[test]
fn colours_stay_if_they_are_asked_for_and_switches_of_modes_go() {
    let (scratch, handle) = Scratch::with_session("bash");
    let text = r"printf '\033[31mred\033[m\033[?1h\033]0;title\007\033=\n'";
    scratch.ts(&["ask", "--ansi", &handle, text]).code(0).stdout("\x1b[0;31mred\x1b[0m\n");
    for plain in [&["ask", &handle, text][..], &["ask", "--strip", &handle, text]] {
        scratch.ts(plain).code(0).stdout("red\n");
    }
}

#[test]
fn the_error_message_of_a_shell_is_its_answer() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["ask", &handle, "echo )"]).code(0).stdout_has("syntax error");
    scratch.ts(&["ask", &handle, "cat <<X\nDONE\nX"]).code(0).stdout("DONE\n");
}

#[test]
fn the_object_tells_the_code_and_where_to_go_on() {
    let (scratch, handle) = Scratch::with_session("bash");
    let ran = scratch.ts(&["ask", "--json", &handle, "echo hi; (exit 3)"]).code(0);
    assert_eq!(ran.field("output"), "\"hi\\n\"");
    assert_eq!(ran.field("condition"), "\"complete\"");
    assert_eq!(ran.field("detail"), "\"3\"");
    assert!(ran.field("offset").parse::<u64>().unwrap() > 0);
}

#[test]
fn the_answer_may_be_a_text_or_a_failure() {
    let (scratch, handle) = Scratch::with_session("bash");
    let ran = scratch.ts(&["ask", "--pattern=three", &handle, "echo three; sleep 1000"]).code(0);
    assert!(ran.out().starts_with("three"), "{ran:?}");
    let handle = scratch.create("bash");
    let ran = scratch.ts(&["ask", "--fail=oops", &handle, "echo oops; sleep 1000"]).code(1).silent();
    assert!(ran.out().starts_with("oops"), "{ran:?}");
}

#[test]
fn a_question_that_takes_too_long_leaves_the_program_alone() {
    let scratch = Scratch::new();
    let evidence = "the terminal's state is line";
    let ran = timing_out(
        |ran| ran.err().contains(evidence),
        |timeout| {
            let handle = scratch.create("bash");
            scratch.ts(&["wait", &handle, "--input"]).code(0);
            let ran = scratch
                .ts(&["ask", timeout, "--pattern=nowhere", &handle, "echo begun; read x; echo $x"])
                .code(3);
            scratch.ts(&["ask", &handle, "go on"]).code(0).stdout_has("go on\n");
            ran.complains("timed out after")
        },
    );
    ran.stdout("begun\n").complains(evidence);
}

#[test]
fn a_secret_prompt_is_asked_nothing() {
    let (scratch, handle) = Scratch::with_session("read -s x; echo $x; cat");
    scratch.ts(&["wait", &handle, "--input"]).code(0).stdout(format!("{handle}\tinput\tsecret\n"));
    scratch.ts(&["ask", &handle, "hello"]).code(1).stdout("").complains("it is at a secret prompt");
    scratch.ts(&["send", &handle, "s3cret"]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=s3cret"]).code(0);
}

#[test]
fn a_session_that_ends_gives_its_last_words() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["ask", &handle, "echo bye; exit 4"]).code(0).stdout_has("bye\n").silent();
    scratch.ts(&["ask", &handle, "hello?"]).code(1).complains("has ended with exit code 4");
}

#[test]
fn each_of_many_gets_its_own_answer() {
    let scratch = Scratch::new();
    for command in ["bash", "/usr/bin/env python3 -q"] {
        let handle = scratch.create(command);
        let question = |n: usize| match command {
            "bash" => format!("echo {}", n * 1000),
            _ => format!("{n} * 1000"),
        };
        let asked: Vec<_> = (1..9).map(|n| scratch.start(&["ask", &handle, &question(n)])).collect();
        for (n, asked) in (1..9).zip(asked) {
            asked.finish().code(0).stdout(format!("{}\n", n * 1000));
        }
    }
}

#[test]
fn an_answer_comes_at_once() {
    let (scratch, handle) = Scratch::with_session("/usr/bin/env python3 -q");
    scratch.ts(&["ask", &handle, "1"]).code(0);
    // Unless something else keeps the machine busy.
    eventually("a quick answer", || {
        scratch.ts(&["ask", &handle, "2"]).code(0).stdout("2\n").took < Duration::from_secs(2)
    });
}

#[test]
fn a_long_answer_is_cut_in_the_middle_and_says_so() {
    let (scratch, handle) = Scratch::with_session("bash");
    let ran = scratch.ts(&["ask", "--max=1K", &handle, "seq 10000"]).code(0);
    let out = ran.out();
    assert!(out.starts_with("1\n2\n") && out.ends_with("9999\n10000\n") && out.len() < 1_200, "{out}");
    let line = out.lines().find(|line| line.starts_with("[nbs: ")).unwrap();
    let command = line.split_once("nbs-ts ").unwrap().1.strip_suffix("]").unwrap();
    let whole = scratch.ts(&command.split(' ').collect::<Vec<_>>()).code(0).out();
    assert!(whole.contains("\r\n5000\r\n"), "{}", whole.len());
    let short = scratch.ts(&["ask", "--max=1K", "--json", &handle, "echo short"]).code(0);
    assert_eq!((short.field("output"), short.field("left_out")), ("\"short\\n\"".into(), "0".into()));
}

#[test]
fn a_question_that_ends_at_the_right_margin_is_no_answer() {
    let scratch = Scratch::new();
    for command in ["python3 -q", IN_NO_LOCALE] {
        let handle = scratch.create(command);
        for length in [73, 74, 75, 76, 154] {
            let text = format!("'{}'", "y".repeat(length));
            scratch.ts(&["ask", &handle, &text]).code(0).stdout(format!("{text}\n"));
            let text = format!("s = '{}Error'", "y".repeat(length - 9));
            scratch.ts(&["ask", "--fail=Error", "--input", &handle, &text]).code(0).stdout("");
        }
    }
}

/// As by ssh from another machine: readline draws differently then.
const IN_NO_LOCALE: &str = "env LC_ALL=xx_XX.UTF-8 python3 -q";

#[test]
fn a_line_that_is_drawn_over_at_the_margin_is_an_echo() {
    let x = format!("'{}'", "x".repeat(300));
    answers(IN_NO_LOCALE, &[("x = 5", ""), ("print(x, end='')", "5"), (&x, &format!("{x}\n"))]);
    answers(IN_NO_LOCALE, &[("print('abc', end='')", "abc"), (&x, &format!("{x}\n"))]);
}

#[test]
fn a_prompt_behind_an_answer_without_an_end_is_none_of_the_answer() {
    answers(
        "/usr/bin/env python3 -q",
        &[
            ("import sys", ""),
            ("_ = sys.stdout.write('x')", "x"),
            ("_ = sys.stdout.write('x')", "x"),
            ("_ = sys.stdout.write('y')", "y"),
            ("1", "1\n"),
            ("_ = sys.stdout.write('>>> ')", ">>> "),
        ],
    );
    answers("dash", &[("true", ""), ("printf x", "x"), ("printf x", "x"), ("echo y", "y\n")]);
    // Only the prompt that this text was typed at is not part of the answer.
    let reader = "read -p 'db=> ' x; read -p \"$x\"$'\\ndb-> ' x; read -p $'db=> ' x; read x";
    answers(reader, &[("one", "one\ndb-> "), ("two", "db=> ")]);
}

#[test]
fn a_line_that_the_shell_does_not_execute_is_told_of_at_once() {
    let (scratch, handle) = Scratch::with_session("bash");
    let long = "--timeout=1000";
    for (begun, wants, rest, answer) in [
        ("for i in 1 2", "> ", "do echo $i; done", "1\n2\n"),
        ("echo 'a", "> ", "b'", "a\nb\n"),
        ("cat <<X", "> ", "x\nX", "x\n"),
    ] {
        scratch.ts(&["ask", long, &handle, begun]).code(1).stdout(wants).complains("is incomplete");
        scratch.ts(&["ask", long, &handle, rest]).code(0).stdout(answer).silent();
    }
    let ran = scratch.ts(&["ask", long, &handle, "echo !nosuch"]).code(1);
    ran.stdout("bash: !nosuch: event not found\n").complains("did not execute it");
    scratch.ts(&["ask", long, &handle, "echo on"]).code(0).stdout("on\n").silent();
    // A command that reads has asked, unless it is to be waited for.
    scratch.ts(&["ask", long, &handle, "read x"]).code(0).stdout("").silent();
    scratch.ts(&["ask", long, &handle, "it"]).code(0).stdout("").silent();
    scratch.ts(&["ask", long, &handle, "echo $x"]).code(0).stdout("it\n");
    let evidence = "(a program waits for input); nothing was printed; try --input to end the answer there";
    let ran = timing_out(
        |ran| ran.err().contains(evidence),
        |timeout| {
            let ran = scratch.ts(&["ask", "--complete", timeout, &handle, "read x"]).code(3);
            scratch.ts(&["ask", "--input", &handle, "it"]).code(0);
            ran
        },
    );
    ran.complains(evidence);
}

#[test]
fn a_small_shell_reads_too() {
    let scratch = Scratch::new();
    for shell in ["dash", "busybox ash", "ksh93", "mksh"] {
        let handle = scratch.create(shell);
        for _ in 0..2 {
            scratch.ts(&["ask", &handle, "read x"]).code(0).stdout("").silent();
            scratch.ts(&["ask", &handle, "it"]).code(0).stdout("").silent();
            scratch.ts(&["ask", &handle, "echo $x"]).code(0).stdout("it\n").silent();
            let ran = scratch.ts(&["ask", &handle, "for i in 1 2"]).code(1);
            ran.complains("is incomplete");
            scratch.ts(&["ask", &handle, "do echo $i; done"]).code(0).stdout("1\n2\n").silent();
        }
    }
}

#[test]
fn a_screen_that_is_drawn_anew_is_answered_once() {
    let scratch = Scratch::new();
    let text: String =
        (1..=1000).map(|n| format!("line {n}{}\n", if n == 500 { " word" } else { "" })).collect();
    fs::write(scratch.path.join("text"), text).unwrap();
    let handle = scratch.create("less text");
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    let shown = (501..=522).map(|n| format!("line {n}\n")).collect::<String>();
    let expected = format!("line 500 word\n{shown}:\n");
    let asked = scratch.ts(&["ask", "--strip", &handle, "/word"]).code(0).stdout(&expected);
    asked.complains(&format!("'nbs-ts screen {handle}'"));
    scratch.ts(&["screen", &handle]).code(0).stdout(expected);
    // Not so the output of a command, wherever it placed the cursor: the answer includes the scrollback.
    let handle = scratch.create("bash");
    let draw = "clear; for n in {1..24}; do printf '\\e[%dHrow %02d\\n' $n $n; done";
    let drawn = (1..=24).map(|n| format!("row {n:02}\n")).collect::<String>();
    scratch.ts(&["ask", &handle, &format!("{draw}; {draw}")]).code(0).stdout(drawn.repeat(2)).silent();
    // Nor lines that are text, with a drawing after them.
    let handle = scratch.create("PS1='> ' dash");
    let text = "seq 100; n=1; while [ $n -lt 25 ]; do printf '\\033[%dH' $n; n=$((n+1)); done";
    scratch.ts(&["ask", &handle, text]).code(0).stdout_has("1\n2\n3\n").stdout_has("\n100\n");
}

#[test]
fn ask_waits_for_work_at_the_far_end_of_a_terminal() {
    let (scratch, handle) = Scratch::with_session("script -q -c 'PS1=\"other> \" dash -i' /dev/null");
    scratch.ts(&["wait", &handle, "--input"]).code(0).stdout(format!("{handle}\tinput\traw\n"));
    for (question, answer) in
        [("sleep 0.5; echo late", "late\n"), ("echo on", "on\n"), ("sleep 0.3", ""), ("printf x", "x")]
    {
        scratch.ts(&["ask", &handle, question]).code(0).stdout(answer).silent();
    }
    scratch.ts(&["ask", "--timeout=0.5", &handle, "cat"]).code(3).complains("timed out");
    scratch.ts(&["ask", "--pattern=said", &handle, "said"]).code(0).stdout_has("said");
}

/// Asks again where the prompt has not come in the time that a call gives it.
fn ask_to_the_prompt(scratch: &Scratch, handle: &str, text: &str) -> Ran {
    let mut asked = None;
    eventually("its prompt", || {
        let ran = scratch.ts(&["ask", "--json", handle, text]).code(0);
        let is_late = ran.took >= Duration::from_secs(1) && ran.field("terminal") == "\"running\"";
        asked = Some(ran);
        !is_late
    });
    asked.unwrap()
}

/// The prompt comes after the command's end, and is there when the call returns.
#[test]
fn after_a_command_the_terminal_is_at_the_prompt() {
    for shell in ["bash", "zsh -f", "fish --no-config", "dash"] {
        let (scratch, handle) = Scratch::with_session(shell);
        let asked = ask_to_the_prompt(&scratch, &handle, "echo hi; sh -c 'exit 3'");
        let of = ["output", "condition", "detail", "terminal"].map(|name| asked.field(name));
        assert_eq!(of, ["\"hi\\n\"", "\"complete\"", "\"3\"", "\"prompt\""], "{shell}");
    }
    // A prompt that takes some time is waited for, but not as long as the call may take.
    let (scratch, handle) = Scratch::with_session("bash");
    let hook = "mkfifo free; PROMPT_COMMAND+=('sleep 0.2; [ ! -e held ] || read x <free')";
    scratch.ts(&["ask", &handle, hook]).code(0);
    let asked = ask_to_the_prompt(&scratch, &handle, "true");
    assert_eq!(["condition", "terminal"].map(|name| asked.field(name)), ["\"complete\"", "\"prompt\""]);
    let asked = scratch.ts(&["ask", "--json", &handle, "touch held"]).code(0);
    assert_eq!(["condition", "terminal"].map(|name| asked.field(name)), ["\"complete\"", "\"running\""]);
}

/// So is the blank line that a prompt has above it, where several lines are asked at once.
#[test]
fn each_line_of_a_text_is_asked_at_a_prompt_of_its_own() {
    let scratch = Scratch::new();
    let program = "import readline
while True:
    print()
    print('<' + input('In [1]: ') + '>')
";
    fs::write(scratch.path.join("asks.py"), program).unwrap();
    let handle = scratch.create("python3 asks.py");
    scratch.ts(&["ask", &handle, "one"]).code(0).stdout("<one>\n").silent();
    let asked = scratch.ts(&["ask", "--pattern=<three>", &handle, "two\nthree"]).code(0).silent();
    assert!(asked.out().starts_with("<two>\n<three>"), "{asked:?}");
}

/// The contents of a terminal of endless height, without text that was drawn over.
#[test]
fn an_answer_is_what_is_seen() {
    let (scratch, handle) = Scratch::with_session("bash");
    let draws = r"for n in 1 50 100; do printf '\r%d%%' $n; done; echo; printf 'one\ntwo\n\e[2A1\e[2B\r'";
    scratch.ts(&["ask", &handle, draws]).code(0).stdout("100%\n1ne\ntwo\n");
    let long = format!("{}\n", "0123456789".repeat(20));
    scratch.ts(&["ask", &handle, "printf '0123456789%.0s' {1..20}; echo"]).code(0).stdout(&long);
    let many: String = (1..=10_000).map(|n| format!("{n}\n")).collect();
    scratch.ts(&["ask", &handle, "seq 10000"]).code(0).stdout(many);
    scratch.ts(&["ask", &handle, "echo 日本 é; clear; echo after"]).code(0).stdout("日本 é\nafter\n");
}

#[test]
fn a_question_is_an_answer() {
    let (scratch, handle) = Scratch::with_session("bash");
    let asked = scratch.ts(&["ask", "--json", &handle, "read -sp 'PIN: ' x; (exit $x)"]).code(0);
    let of = |name| asked.field(name);
    assert_eq!([of("output"), of("condition"), of("terminal")], ["\"PIN: \"", "\"input\"", "\"secret\""]);
    scratch.ts(&["ask", &handle, "5"]).code(1).complains("it is at a secret prompt");
    scratch.ts_with_input(&["send", "--secret-stdin", &handle], b"5\n").code(0);
    scratch.ts(&["wait", &handle, "--complete"]).code(0).stdout_has("5");
    scratch.ts(&["ask", &handle, "read -p 'Name: ' x"]).code(0).stdout("Name: ").silent();
    scratch.ts(&["ask", &handle, "me"]).code(0).stdout("").silent();
    // The shell's text was not typed at that.
    scratch.ts(&["ask", &handle, "read -p 'Name: ' x"]).code(0).stdout("Name: ").silent();
    scratch.ts(&["ask", &handle, "you"]).code(0).stdout("").silent();
    scratch.ts(&["ask", &handle, "python3 -q"]).code(0).stdout(">>> ").silent();
    scratch.ts(&["ask", &handle, "1 + 1"]).code(0).stdout("2\n").silent();
    scratch.ts(&["ask", &handle, "exit()"]).code(0).stdout("").silent();
}

#[test]
fn a_question_is_printed_each_time_unless_the_same_process_asks_it_again() {
    let scratch = Scratch::new();
    let script = "printf 'Install now? [y/N] '; read x; echo \"<$x>\"; \
                  printf 'Install now? [y/N] '; read x; printf 'Really? '; read x; echo end";
    executable(&scratch.path.join("q.sh"), format!("#!/bin/sh\n{script}\n"));
    for shell in ["bash", "dash", "env PS1='> ' python3 -c 'import os; os.execvp(\"sh\", [\"sh\", \"-i\"])'"]
    {
        let handle = scratch.create(shell);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        for _ in 0..2 {
            let asked = scratch.ts(&["ask", "--json", &handle, "./q.sh"]).code(0);
            let of = |name| asked.field(name);
            assert_eq!(of("output"), "\"Install now? [y/N] \"", "{shell}: {asked:?}");
            assert_eq!([of("condition"), of("question")], ["\"input\"", "\"Install now? [y/N]\""]);
            scratch.ts(&["ask", &handle, "y"]).code(0).stdout("<y>\n").silent();
            scratch.ts(&["ask", &handle, "y"]).code(0).stdout("Really? ").silent();
            let asked = scratch.ts(&["ask", &handle, "y"]).code(0).silent();
            assert!(asked.out().starts_with("end\n"), "{shell}: {asked:?}");
        }
    }
}

#[test]
fn the_object_has_the_row_that_asks() {
    let (scratch, handle) = Scratch::with_session("bash");
    for (text, question) in [
        ("true", "null"),
        ("read -p 'Go on? ' x", "\"Go on?\""),
        ("yes", "null"),
        ("echo 'Go on? [y/N]'; read x", "\"Go on? [y/N]\""),
        ("yes", "null"),
        ("python3 -q", "\">>>\""),
        ("1 + 1", "null"),
        ("input('Name: ')", "\"Name:\""),
    ] {
        let asked = scratch.ts(&["ask", "--json", &handle, text]).code(0);
        assert_eq!(asked.field("question"), question, "{text}: {asked:?}");
    }
    let handle = scratch.create("bash");
    let ran = scratch.ts(&["run", "--json", &handle, "read -p 'Go on? ' x"]).code(123);
    assert_eq!(ran.field("question"), "\"Go on?\"");
    let status = scratch.ts(&["status", "--json", &handle]).code(0);
    assert_eq!(status.field("question"), "\"Go on?\"");
}

#[test]
fn an_answer_that_ends_the_dialogue_is_an_answer() {
    let (scratch, handle) = Scratch::with_session("printf 'Name? '; read x; echo \"<$x>\"; exit 3");
    let asked = scratch.ts(&["ask", "--json", &handle, "me"]).code(0).silent();
    let of = |name| asked.field(name);
    assert_eq!([of("output"), of("detail"), of("question")], ["\"<me>\\n\"", "\"3\"", "null"]);
    // An answer that ends a program in a shell: the shell's prompt is not part of it.
    for shell in ["bash", "dash"] {
        let handle = scratch.create(shell);
        scratch.ts(&["ask", &handle, "sh -c 'printf \"Name? \"; read x; echo \"<$x>\"; exit 3'"]).code(0);
        let asked = scratch.ts(&["ask", "--json", &handle, "me"]).code(0).silent();
        let of = |name| asked.field(name);
        assert_eq!([of("output"), of("condition"), of("detail")], ["\"<me>\\n\"", "\"complete\"", "\"3\""]);
    }
}

#[test]
fn a_text_that_was_queued_is_not_typed_into_a_question_that_came_meanwhile() {
    let (scratch, handle) = Scratch::with_session("bash");
    let command = "while ! [ -e go ]; do sleep 0.05; done; read -p 'Go on? ' x; echo \"got <$x>\"";
    for first in [["ask", "--timeout=60"], ["run", "--timeout=60"]] {
        let asks = scratch.start(&[first[0], first[1], &handle, command]);
        let begun = format!("the command of {first:?}");
        eventually(&begun, || scratch.ts(&["status", "--json", &handle]).field("program") == "\"sleep\"");
        let queued = scratch.start(&["ask", &handle, "echo second"]);
        // It has asked the relay, and sleeps until that answers.
        let pid = queued.pid().to_string();
        eventually("the second call", || sockets_of(&pid) > 0 && state_of(&pid) == Some('S'));
        fs::write(scratch.path.join("go"), "").unwrap();
        let asks = asks.finish();
        assert!(asks.out().ends_with("Go on? "), "{asks:?}");
        let queued = queued.finish().code(125).stdout("");
        queued.complains("asked a question while this call was queued: 'Go on?'").complains("was not typed");
        // A call that comes now answers.
        scratch.ts(&["ask", &handle, "yes"]).code(0).stdout("got <yes>\n");
        fs::remove_file(scratch.path.join("go")).unwrap();
    }
    // A prompt that has come back is not a question; of a session's own program, and of one in a shell.
    scratch.ts(&["ask", &handle, "python3 -q"]).code(0);
    for python in [scratch.create("/usr/bin/env python3 -q"), handle] {
        let first = scratch.start(&["ask", &python, "import time; time.sleep(0.5); 1"]);
        let pid = first.pid().to_string();
        eventually("the first", || sockets_of(&pid) > 0 && state_of(&pid) == Some('S'));
        let second = scratch.start(&["ask", &python, "2"]);
        let answers = [first, second].map(|ask| ask.finish().code(0).out());
        assert_eq!(answers, ["1\n", "2\n"]);
    }
}

/// A program that reads while it works shows only by its prompt that it has answered.
#[test]
fn a_prompt_that_is_known_is_waited_for() {
    let scratch = Scratch::new();
    let program = "import asyncio, sys, tty, os
tty.setcbreak(0)
line, loop = b'', asyncio.new_event_loop()
def prompt(): print('calc> ', end='', flush=True)
def answer(text):
    if text.endswith('.'): print('answer', text)
    prompt()
def typed():
    global line
    for byte in os.read(0, 100):
        os.write(1, bytes([byte]))
        if byte != 10: line += bytes([byte]); continue
        text, line = line.decode(), b''
        loop.call_later(0.7 if text.startswith('slow') else 0, answer, text)
loop.add_reader(0, typed)
prompt()
loop.run_forever()
";
    fs::write(scratch.path.join("calc.py"), program).unwrap();
    let handle = scratch.create("python3 calc.py");
    for (text, answer) in
        [("one.", "answer one.\n"), ("slow.", "answer slow.\n"), ("slow", ""), ("two.", "answer two.\n")]
    {
        scratch.ts(&["ask", &handle, text]).code(0).stdout(answer).silent();
    }
}

#[test]
fn a_paste_is_one_text() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch
        .ts(&["ask", "--paste", &handle, "for i in 1 2\ndo echo $i\ndone"])
        .code(0)
        .stdout("1\n2\n")
        .silent();
}

/// A typed line that fills its rows to the last column goes on in no other row.
#[test]
fn a_question_after_a_line_of_exactly_the_width_is_only_the_question() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "dash", "mksh"] {
        let handle = scratch.create(shell);
        for longer in [0, 1, 2] {
            scratch.ts(&["run", &handle, "true"]).code(0);
            let prompt = scratch.ts(&["screen", &handle]).out();
            let prompt = prompt.trim_end().lines().last().unwrap().chars().count() + 1;
            let command = "printf 'sure? '; read x; : ";
            let rest = "a".repeat(79 + longer - prompt - command.len());
            let ran = scratch.ts(&["run", "--json", &handle, &format!("{command}{rest}")]).code(123);
            assert_eq!(ran.field("question"), "\"sure?\"", "{shell} {longer}: {}", ran.out());
            scratch.ts(&["send", &handle, "yes"]).code(0);
            scratch.ts(&["run", "--resume", &handle]).code(0);
        }
    }
}
