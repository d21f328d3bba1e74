//! `run` at a question: a question is answered, and a program that only polls the keyboard is not.

use std::fs;

use crate::support::{Ran, Scratch, eventually, executable, field, start, timing_out};

fn shell() -> (Scratch, String) {
    let (scratch, handle) = Scratch::with_session("bash");
    (scratch, handle)
}

/// Runs a command that asks, and returns its output.
fn asks(scratch: &Scratch, handle: &str, command: &str, terminal: &str) -> Ran {
    let state = format!("waits for input; the terminal's state is {terminal}");
    scratch.ts(&["run", "--input-after=300ms", handle, command]).code(123).complains(&state)
}

fn resume(scratch: &Scratch, handle: &str) -> Ran {
    scratch.ts(&["run", "--resume", handle])
}

#[test]
fn a_question_is_told_answered_and_gone_on_from() {
    let (scratch, handle) = shell();
    let command = "read -p 'Continue? [y/N] ' x; echo \"got $x\"; (exit 3)";
    let next = format!("'nbs-ts run --resume {handle}' to go on");
    let asked = scratch.ts(&["run", &handle, command]).code(123).stdout("Continue? [y/N] ");
    asked
        .complains("waits for input; the terminal's state is line; last line: 'Continue? [y/N]'")
        .complains(&next);
    scratch.ts(&["send", &handle, "y"]).code(0);
    resume(&scratch, &handle).code(3).stdout("got y\n").silent();
    // And then the shell is there again.
    resume(&scratch, &handle).code(125).complains("there is no command to resume");
    scratch.ts(&["run", &handle, "echo after"]).code(0).stdout("after\n").silent();
}

#[test]
fn several_questions_one_after_another() {
    let (scratch, handle) = shell();
    let command = "for n in 1 2 3; do IFS= read -rp \"$n? \" x; echo \"<$x>\"; done";
    asks(&scratch, &handle, command, "line").stdout("1? ");
    for (answer, output) in [("a", "<a>\n2? "), ("2? ", "<2? >\n3? ")] {
        scratch.ts(&["send", &handle, answer]).code(0);
        scratch.ts(&["run", "--resume", "--input-after=300ms", &handle]).code(123).stdout(output);
        // The shell itself waits, and it has begun long ago.
        scratch.ts(&["run", "--resume", "--input-after=2", &handle]).code(123).stdout("");
    }
    // There is no answer yet: it still waits, and reports that again.
    scratch.ts(&["run", "--resume", "--input-after=100ms", &handle]).code(123).stdout("");
    scratch.ts(&["send", &handle, "c"]).code(0);
    resume(&scratch, &handle).code(0).stdout("<c>\n").silent();
}

#[test]
fn an_answer_that_comes_while_it_is_resumed() {
    let (scratch, handle) = shell();
    asks(&scratch, &handle, "read -p 'A? ' a; sleep 0.3; read -p 'B? ' b; echo \"$a-$b\"", "line");
    let resumed = scratch.start(&["run", "--resume", "--no-input", &handle]);
    scratch.ts(&["send", &handle, "one"]).code(0);
    scratch.ts(&["wait", &handle, "--pattern=B? "]).code(0);
    scratch.ts(&["send", &handle, "two"]).code(0);
    resumed.finish().code(0).stdout("B? one-two\n").silent();
}

#[test]
fn a_question_in_json() {
    let (scratch, handle) = shell();
    let asked =
        scratch.ts(&["run", "--json", "--input-after=100ms", &handle, "read -sp 'PIN: ' x; echo; echo $x"]);
    let asked = asked.code(123).complains("send --secret-stdin");
    let of = |name| field(&asked.out(), name);
    assert_eq!([of("result"), of("terminal")], ["\"input\"", "\"secret\""]);
    assert_eq!([of("output"), of("exit_code")], ["\"PIN: \"", "null"]);
    assert_eq!(field(&asked.err(), "exit"), "123");
    scratch.ts_with_input(&["send", "--secret-stdin", &handle], b"1234\n").code(0);
    let done = scratch.ts(&["run", "--json", "--resume", &handle]).code(0);
    let of = |name| field(&done.out(), name);
    assert_eq!([of("result"), of("output"), of("exit_code")], ["\"done\"", "\"\\n1234\\n\"", "0"]);
}

/// Programs that ask, of those that most machines have: the command, the kind of its wait, the end of its
/// output then, and the keys that end it.
#[test]
fn dead_ends() {
    let (scratch, handle) = shell();
    let key = "openssl genpkey -algorithm ed25519 -aes256 -out key.pem";
    let git = "git init -q . && git -c user.name=a -c user.email=a@b -c core.editor=vi commit --allow-empty";
    fs::write(scratch.path.join("long.txt"), "line\n".repeat(100)).unwrap();
    fs::write(scratch.path.join("empty.py"), "pass\n").unwrap();
    fs::write(scratch.path.join("kept.txt"), "").unwrap();
    fs::set_permissions(scratch.path.join("kept.txt"), std::os::unix::fs::PermissionsExt::from_mode(0o400))
        .unwrap();
    executable(
        &scratch.path.join("install.sh"),
        "#!/bin/sh\nprintf 'Do you want to continue? [Y/n] '\nread -r answer\necho \"$answer\"\n",
    );
    // Nothing is done, whatever the answer is.
    let apt = "apt-get -o Debug::NoLocking=1 -o Dir::Bin::dpkg=/bin/false remove bc";
    let cases: [(&str, &str, &str, &[&str]); 23] = [
        ("./install.sh", "line", "Do you want to continue? [Y/n] ", &["n", "Enter"]),
        (apt, "line", "Do you want to continue? [Y/n] ", &["n", "Enter"]),
        (
            "setpriv --reuid=nobody --regid=nogroup --clear-groups sudo -k true",
            "secret",
            "password for nobody: ",
            &["C-c"],
        ),
        ("GIT_TERMINAL_PROMPT=1 git credential fill <<<$'protocol=https\nhost=a'", "line", "': ", &["C-c"]),
        ("read -rp 'Name: ' name", "line", "Name: ", &["Enter"]),
        ("read -rsp 'Password: ' secret", "secret", "Password: ", &["Enter"]),
        ("read -rn1 -p 'Any key ' key", "raw", "Any key ", &["x"]),
        ("select x in red green; do break; done", "line", "#? ", &["1", "Enter"]),
        ("sh -c 'read x'", "line", "", &["Enter"]),
        ("cat", "line", "", &["C-d"]),
        ("cat >/dev/null <(echo) -", "line", "", &["C-d"]),
        ("sort | wc -l", "line", "", &["C-d"]),
        ("rm -i kept.txt", "line", "'kept.txt'? ", &["n", "Enter"]),
        ("python3 -c \"input('Your name: ')\"", "line", "Your name: ", &["Enter"]),
        ("python3 -c 'import getpass; getpass.getpass()'", "secret", "Password: ", &["Enter"]),
        ("python3", "raw", ">>> ", &["C-d"]),
        ("python3 -m pdb empty.py", "raw", "(Pdb) ", &["q", "Enter"]),
        ("less long.txt", "raw", "", &["q"]),
        ("vi long.txt", "raw", "", &["Escape", ":", "q", "!", "Enter"]),
        (key, "secret", "Enter PEM pass phrase:", &["C-c"]),
        ("openssl req -new -newkey ed25519 -nodes -keyout k -out r", "line", "[AU]:", &["C-c"]),
        ("ssh-keygen -t ed25519", "line", "(", &["C-c"]),
        (git, "raw", "", &["Escape", ":", "q", "!", "Enter"]),
    ];
    for (command, terminal, end, keys) in cases {
        let asked = asks(&scratch, &handle, command, terminal);
        let shown = asked.out();
        let shown = if command == "ssh-keygen -t ed25519" { "(" } else { shown.as_str() };
        assert!(shown.ends_with(end), "{command}: {asked:?}");
        scratch.ts(&[&["key", &handle], keys].concat()).code(0);
        scratch.ts(&["run", "--resume", "--no-input", "--timeout=20", &handle]);
        scratch.ts(&["run", &handle, "echo fine"]).code(0).stdout("fine\n").silent();
    }
}

/// Programs that have the keyboard, or poll it, while they work.
#[test]
fn a_working_program_does_not_wait_for_input() {
    let (scratch, handle) = shell();
    let poll = "import os, select, sys, termios, time, tty
raw = 'raw' in sys.argv
before = termios.tcgetattr(0)
if raw: tty.setcbreak(0)
end = time.monotonic() + 0.8
while time.monotonic() < end:
    if select.select([0], [], [], 0.02)[0]: os.read(0, 1)
    if 'prints' in sys.argv: print('.', end='', flush=True)
    else: sum(range(200000))
termios.tcsetattr(0, termios.TCSANOW, before)
print('done')
";
    let thread = "import os, sys, threading, time, tty
tty.setcbreak(0)
threading.Thread(target=lambda: os.read(0, 1), daemon=True).start()
end = time.monotonic() + 0.8
while time.monotonic() < end: sum(range(10000))
print('done', flush=True)
os._exit(0)
";
    fs::write(scratch.path.join("poll.py"), poll).unwrap();
    fs::write(scratch.path.join("thread.py"), thread).unwrap();
    let quick = ["run", "--input-after=200ms", &handle];
    for command in
        ["python3 poll.py raw", "python3 poll.py", "python3 poll.py raw prints", "python3 thread.py"]
    {
        scratch.ts(&[&quick[..], &[command, "; stty sane"]].concat()).code(0).stdout_has("done\n").silent();
    }
    // Nor programs that do not read, with or without an echo.
    for command in ["sleep 0.6", "stty -echo; sleep 0.6; stty echo", "sleep 0.6 | cat", "(sleep 0.6 &  wait)"]
    {
        scratch.ts(&[&quick[..], &[command]].concat()).code(0).stdout("").silent();
    }
}

#[test]
fn whoever_wants_to_wait_waits() {
    let (scratch, handle) = shell();
    let running = scratch.start(&["run", "--no-input", &handle, "read -rp 'Go? ' x; echo \"$x\""]);
    // A prompt may be there before it is typed.
    eventually("the question", || scratch.ts(&["status", "--json", &handle]).out().contains("\"line\""));
    scratch.ts(&["send", &handle, "yes"]).code(0);
    running.finish().code(0).stdout("Go? yes\nyes\n").silent();
    scratch
        .ts(&["run", "--no-input", "--timeout=300ms", &handle, "read x"])
        .code(124)
        .complains("waits for input");
}

#[test]
fn resume_works_after_an_interrupt_and_returns_the_code_of_an_ended_command() {
    let (scratch, handle) = shell();
    asks(&scratch, &handle, "read -rp 'Go? ' x; echo \"$x\"; (exit 7)", "line");
    scratch.ts(&["send", &handle, "on"]).code(0);
    // It has ended before any call resumes it.
    scratch.ts(&["wait", &handle, "--complete"]).code(0);
    resume(&scratch, &handle).code(7).stdout("on\n").silent();
    asks(&scratch, &handle, "cat", "line");
    scratch.ts(&["run", "--resume", "--no-input", "--timeout=200ms", &handle]).code(124);
    scratch.ts(&["run", &handle, "echo fine"]).code(0).stdout("fine\n");
}

/// If a line fills its row, the editor goes to the next row before Enter, and the command prints nothing more.
#[test]
fn a_command_that_fills_its_row_and_prints_nothing_is_seen_to_wait() {
    let (scratch, handle) = Scratch::with_session("busybox ash");
    scratch.ts(&["run", &handle, "true"]).code(0);
    let screen = scratch.ts(&["screen", &handle]).out();
    let prompt = screen.lines().rfind(|line| !line.is_empty()).unwrap().len() + 1;
    for row in [79, 80, 81] {
        let command = format!("{:x<1$}", "cat #", row - prompt);
        asks(&scratch, &handle, &command, "line");
        scratch.ts(&["eof", &handle]).code(0);
        resume(&scratch, &handle).code(0).stdout("").silent();
    }
}

#[test]
fn the_next_run_says_what_is_in_its_way() {
    let (scratch, handle) = shell();
    asks(&scratch, &handle, "python3 -q", "raw");
    let busy = scratch.ts(&["run", &handle, "ls"]).code(125).stdout("");
    busy.complains("an earlier 'run' waits for input; 'python3' is in the foreground")
        .complains(&format!("'nbs-ts ask {handle} TEXT' to type into it"))
        .complains("run --resume");
    scratch.ts(&["eof", &handle]).code(0);
    resume(&scratch, &handle).code(0);
    // Nor is it stuck behind another client's command.
    scratch.ts(&["send", &handle, "exec 3<&0; cat <&3"]).code(0);
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    scratch.ts(&["run", &handle, "ls"]).code(125).complains("'cat' is in the foreground");
    scratch.ts(&["eof", &handle]).code(0);
    scratch.ts(&["wait", &handle, "--complete"]).code(0);
    scratch.ts(&["send", &handle, "bash --norc"]).code(0);
    scratch.ts(&["wait", &handle, "--input", "--fail=nothing"]).code(0);
    scratch
        .ts(&["run", &handle, "ls"])
        .code(125)
        .complains("'bash' is in the foreground")
        .complains("integrate");
}

/// The error names the waiting command, and the next step: for a shell, for an interactive program, and for a
/// program that draws a screen.
#[test]
fn run_names_the_foreground_program() {
    let (scratch, handle) = shell();
    fs::write(scratch.path.join("long.txt"), "line\n".repeat(100)).unwrap();
    let integrate = format!("'nbs-ts integrate {handle}' to make run work in it, 'nbs-ts ask {handle} TEXT'");
    let talk = format!("'nbs-ts ask {handle} TEXT' to type into it");
    let look = format!("'nbs-ts screen {handle}' to see it, 'nbs-ts key {handle} KEY'");
    for (command, terminal, program, next, end) in [
        ("bash --norc", "raw", "bash", &integrate, "C-d"),
        ("dash", "line", "dash", &integrate, "C-d"),
        ("python3", "raw", "python3", &talk, "C-d"),
        ("less -+X long.txt", "raw", "less", &look, "q"),
    ] {
        let named = format!("'{program}' is in the foreground; ");
        asks(&scratch, &handle, command, terminal).complains(&named).complains(next).complains("--resume");
        let busy = scratch.ts(&["run", &handle, "true"]).code(125).complains("of an earlier 'run'");
        busy.complains(&named.replace("; ", "")).complains(next).complains("--resume");
        scratch.ts(&["key", &handle, end]).code(0);
        resume(&scratch, &handle).code(0);
    }
    // A shell's own question names no other program.
    let asked = asks(&scratch, &handle, "read -rn1 x", "raw").complains(&look);
    assert!(!asked.err().contains("is in the foreground"), "{asked:?}");
    scratch.ts(&["key", &handle, "x"]).code(0);
    resume(&scratch, &handle).code(0);
}

/// The error names a program that survives an interrupt, and the way to end it.
#[test]
fn run_names_a_program_that_ignores_an_interrupt() {
    let (scratch, handle) = shell();
    for (command, program, next) in [
        ("python3", "python3", "'nbs-ts eof H' to type an end of file"),
        ("(trap '' INT; exec cat)", "cat", "'nbs-ts eof H' to end it"),
        ("(trap '' INT; exec sleep 1000)", "sleep", "the key C-\\ to end it, 'nbs-ts kill H'"),
    ] {
        let ran = timing_out(
            |ran| ran.err().contains(&format!("'{program}' is")),
            |timeout| {
                let ran = scratch.ts(&["run", "--no-input", timeout, &handle, command]);
                if ran.err().contains("ignores the interrupt") {
                    let end = if program == "sleep" { "C-\\" } else { "C-d" };
                    scratch.ts(&["key", &handle, end]).code(0);
                    scratch.ts(&["wait", &handle, "--complete"]).code(0);
                }
                ran
            },
        );
        ran.code(124)
            .complains(&format!("busy until it ends: '{program}' is in the foreground; "))
            .complains(&next.replace('H', &handle));
    }
}

#[test]
fn a_left_command_does_not_block_run_once_it_ended() {
    let (scratch, handle) = shell();
    asks(&scratch, &handle, "read x", "line");
    scratch.ts(&["send", &handle, "over"]).code(0);
    scratch.ts(&["wait", &handle, "--complete"]).code(0);
    scratch.ts(&["send", &handle, "cat"]).code(0);
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    let busy = scratch.ts(&["run", &handle, "ls"]).code(125).complains("'cat' is in the foreground");
    assert!(!busy.err().contains("--resume"), "{busy:?}");
}

#[test]
fn a_stopped_command_is_told_of() {
    let (scratch, handle) = shell();
    asks(&scratch, &handle, "cat", "line");
    scratch.ts(&["key", &handle, "C-z"]).code(0);
    resume(&scratch, &handle).complains("is stopped").complains("fg' to continue it");
    scratch.ts(&["run", "--input-after=100ms", &handle, "fg"]).code(123);
    scratch.ts(&["eof", &handle]).code(0);
    resume(&scratch, &handle).code(0);
}

#[test]
fn every_shell_is_left_and_gone_on_with() {
    for shell in ["dash", "zsh -f", "fish --no-config", "bash --posix"] {
        let (scratch, handle) = Scratch::with_session(shell);
        asks(&scratch, &handle, "sh -c 'printf \"Go? \"; read x; echo \"$x\"; exit 4'", "line")
            .stdout("Go? ");
        scratch.ts(&["send", &handle, "on"]).code(0);
        resume(&scratch, &handle).code(4).stdout("on\n").silent();
        scratch.ts(&["run", &handle, "echo fine"]).code(0).stdout("fine\n").silent();
    }
}

#[test]
fn several_who_resume_one_command_take_turns() {
    let (scratch, handle) = shell();
    asks(&scratch, &handle, "read -rp 'Go? ' x; echo \"$x\"", "line");
    let mut calls: Vec<_> = (0..3)
        .map(|_| start(scratch.command("nbs-ts").args(["run", "--resume", "--no-input", &handle])))
        .collect();
    scratch.ts(&["send", &handle, "on"]).code(0);
    let ran: Vec<Ran> = calls.drain(..).map(|call| call.finish()).collect();
    let answered = ran.iter().filter(|ran| ran.out() == "on\n").count();
    assert_eq!(answered, 1, "{ran:?}");
}
