//! `run`: exactly the output, exactly the code, and the shell is usable again.

mod display;
mod ends;

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use crate::support::{
    Ran, Scratch, eventually, field, is_running, start, state_of, timing_out, wait_for_tracer,
};

fn shell() -> (Scratch, String) {
    let (scratch, handle) = Scratch::with_session("bash");
    (scratch, handle)
}

impl Scratch {
    fn run(&self, handle: &str, command: &str) -> Ran {
        self.ts(&["run", handle, command])
    }
}

/// Runs each, which must print exactly this, exit with that, and be silent.
fn all(scratch: &Scratch, handle: &str, cases: &[(&str, &str, i32)]) {
    for (command, output, code) in cases {
        scratch.run(handle, command).code(*code).stdout(output).silent();
    }
}

#[test]
fn output_and_code_are_the_commands_own() {
    let (scratch, handle) = shell();
    all(
        &scratch,
        &handle,
        &[
            ("true", "", 0),
            ("false", "", 1),
            ("echo $?", "1\n", 0),
            ("printf 'no newline'", "no newline", 0),
            ("(exit 255)", "", 255),
            ("echo out; echo err >&2", "out\nerr\n", 0),
            ("printf 'a\\rb\\r\\nc\\n\\r'", "a\rb\r\nc\n\r", 0),
            ("", "", 0),
            ("   ", "", 0),
            ("# nothing but a comment", "", 0),
            ("false # and a comment", "", 1),
            ("\n\n", "", 0),
            ("echo one\n\necho two\n\n", "one\ntwo\n", 0),
            ("echo 'it''s' \"$((6*7))\" `echo x` \\$ '!!' \"!x\" !y 'a\tb'", "its 42 x $ !! !x !y a\tb\n", 0),
            ("cat <<END\n$((1+1)) 'q' !!\nEND\necho after", "2 'q' !!\nafter\n", 0),
            ("cat <<'END'\n$x `y`\nEND", "$x `y`\n", 0),
            ("for i in 1 2 3\ndo\n  echo $i\ndone", "1\n2\n3\n", 0),
            ("if false\nthen echo a\nelse echo b; fi", "b\n", 0),
            ("--version || echo \"$?\" >&2", "bash: --version: command not found\n127\n", 0),
            ("no-such-program-here", "bash: no-such-program-here: command not found\n", 127),
            ("printf '%s' \"$LINES x $COLUMNS\"", "24 x 80", 0),
            ("stty size", "24 80\n", 0),
        ],
    );
    let binary = b"a\0b\x1b[31m\x80\xff\x1b]133;D;0\x07\x1b";
    scratch.run(&handle, "printf 'a\\0b\\e[31m\\x80\\xff\\e]133;D;0\\a\\e'").code(0).stdout(binary);
    let cleared = scratch.run(&handle, "clear; echo cleared").code(0).out();
    assert!(cleared.starts_with("\x1b[") && cleared.ends_with("cleared\n"), "{cleared:?}");
}

#[test]
fn a_syntax_error_is_output() {
    let (scratch, handle) = shell();
    for text in
        ["if", "echo 'a", "echo \"a", "echo `a", "echo $(a", "echo ${a", "{ a", "((", "[[", "echo a\\"]
    {
        scratch.run(&handle, text).code(2).stdout("").complains("is incomplete");
        scratch.run(&handle, "echo fine").code(0).stdout("fine\n").silent();
    }
    for text in ["a)", "for", "echo one\na)", "echo one\necho 'a", "if\ntrue", "fi\n:"] {
        let ran = scratch.run(&handle, text).code(2).silent();
        assert!(ran.out().contains("bash: "), "{ran:?}");
        scratch.run(&handle, "echo fine").code(0).stdout("fine\n").silent();
    }
    // This bash forgives.
    scratch.run(&handle, "cat <<END\nx").code(0).stdout_has("x\n");
    scratch.run(&handle, "echo $((1 +))").code(1);
    scratch.run(&handle, "return 3").stdout_has("return");
    scratch.run(&handle, "echo fine").code(0).stdout("fine\n").silent();
}

#[test]
fn text_may_be_of_any_bytes_and_any_length() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let (scratch, handle) = shell();
    let every: Vec<u8> = (1..=255).filter(|byte| *byte != b'\'').collect();
    let command = [b"printf %s '", &every[..], b"' >bytes"].concat();
    let mut call = scratch.command("nbs-ts");
    crate::support::run(call.args(["run", &handle]).arg(OsStr::from_bytes(&command))).code(0).stdout("");
    assert_eq!(fs::read(scratch.path.join("bytes")).unwrap(), every);
    let long = "x".repeat(120_000);
    scratch.run(&handle, &format!("echo {long}")).code(0).stdout(format!("{long}\n"));
    let many: String = (0..5_000).map(|n| format!("echo {n}\n")).collect();
    let expected: String = (0..5_000).map(|n| format!("{n}\n")).collect();
    scratch.run(&handle, &many).code(0).stdout(expected);
}

#[test]
fn a_megabyte_comes_whole() {
    let (scratch, handle) = shell();
    let expected: String = (1..=150_000).map(|n| format!("{n}\n")).collect();
    scratch.run(&handle, "seq 150000").code(0).stdout(expected);
}

#[test]
fn the_shell_keeps_changes_of_a_command() {
    let (scratch, handle) = shell();
    fs::create_dir(scratch.path.join("sub")).unwrap();
    let pwd = format!("{}/sub\n", scratch.path.display());
    all(
        &scratch,
        &handle,
        &[
            ("cd sub", "", 0),
            ("pwd", &pwd, 0),
            ("x=1; declare y=2; f() { echo f$1; }; alias ll='echo alias'", "", 0),
            ("echo $x$y; f 3; ll", "12\nf3\nalias\n", 0),
            ("local z=1 2>/dev/null || echo top", "top\n", 0),
            ("alias q='echo q'\nq", "q\n", 0),
            ("set -- a b; shift", "", 0),
            ("echo $1 $#", "b 1\n", 0),
            ("histchars=''", "", 0),
            ("echo '[]'", "[]\n", 0),
            ("echo \"<${histchars-unset}>\"", "<>\n", 0),
        ],
    );
}

#[test]
fn a_command_may_read_the_terminal() {
    let (scratch, handle) = shell();
    let asked = scratch.start(&["run", &handle, "read -p 'name? ' x; echo \"<$x>\""]);
    eventually("the question", || scratch.ts(&["status", "--json", &handle]).out().contains("\"line\""));
    scratch.ts(&["send", &handle, "me"]).code(0);
    asked.finish().code(0).stdout("name? me\n<me>\n").silent();
}

#[test]
fn jobs_are_told_of_where_bash_tells_of_them() {
    let (scratch, handle) = shell();
    let started = scratch.run(&handle, "sleep 1000 &").code(0).out();
    assert!(started.starts_with("[1] "), "{started:?}");
    scratch.run(&handle, "jobs").code(0).stdout_has("[1]+  Running");
    scratch.run(&handle, "kill %1; wait %1").code(143);
    scratch.run(&handle, "echo on").code(0).stdout("on\n");
}

#[test]
fn options_and_traps_of_the_user_do_not_touch_it() {
    for setting in [
        "set -u",
        "set -e",
        "set -C",
        "set -f",
        "set -k",
        "set -a",
        "set -b",
        "set -h",
        "set +H",
        "set -o posix",
        "set -o vi",
        "set +o emacs; set +o vi",
        "set +m",
        "set +o history",
        "set -o functrace; set -o errtrace",
        "shopt -s extdebug",
        "shopt -s failglob nullglob dotglob extglob nocasematch nocaseglob",
        "shopt -s nocasematch; PROMPT_COMMAND=(: :)",
        "shopt -u interactive_comments",
        "shopt -u promptvars",
        "shopt -s histverify histreedit lithist",
        "IFS=",
        "IFS=0123456789abcdefghijklmnopqrstuvwxyz",
        "trap 'echo debug >/dev/null' DEBUG",
        "trap 'echo err >/dev/null' ERR",
        "trap 'echo return >/dev/null' RETURN",
        "PS1='> '; PS0=; PS2=",
        "PS1=",
        "unset PS1 PS0 PS2 PROMPT_COMMAND",
        "PROMPT_COMMAND=",
        "PROMPT_COMMAND=:",
        "PROMPT_COMMAND=(': a' ': b')",
        "PROMPT_COMMAND=(); PS1='%'",
        "unset -f __nbs_hook __nbs_done __nbs_prompt __nbs_report __nbs_add_folder __nbs_end",
        "unset -f __nbs_prompt",
        "unset __nbs_seq",
        "unset __nbs_tag __nbs_first __nbs_last __nbs_told __nbs_folder __nbs_pipe __nbs_shell",
        "__nbs_seq=nonsense",
        "alias printf=false builtin=false eval=false .=false history=false unset=false mapfile=false",
        "HISTCONTROL=ignoreboth HISTSIZE=0",
        "HISTSIZE=1",
        "LC_ALL=C",
        "cd /; PATH=",
        "stty -echo",
        "stty raw",
        "stty -onlcr",
        "stty -icanon min 0",
        "bind 'set editing-mode vi'",
        "exec 3>&1 4>&2 0</dev/tty",
        "umask 777",
        "TIMEFORMAT=x; BASH_XTRACEFD=",
        "readonly x=1",
    ] {
        let (scratch, handle) = shell();
        scratch.run(&handle, setting).code(0).stdout("").silent();
        scratch.run(&handle, "echo \"a  b\"; ! :").code(1).stdout("a  b\n").silent();
        scratch.run(&handle, "echo \"$?\"").code(0).stdout("1\n").silent();
        scratch.run(&handle, "(exit 7) || echo '!' >&2").code(0).stdout("!\n").silent();
        // One run is one completion.
        let completions = scratch.file(&handle, "completion.log");
        assert_eq!(completions, "0 0\n1 0\n2 1\n3 0\n4 0\n", "{setting}");
    }
}

#[test]
fn traps_and_traces_print_only_about_the_command() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "set -x").code(0).stdout("");
    scratch.run(&handle, "echo a").code(0).stdout("+ echo a\na\n");
    scratch.run(&handle, "set +x; trap 'echo \"[$BASH_COMMAND]\"' DEBUG").code(0);
    scratch.run(&handle, "echo c; echo d").code(0).stdout("[echo c]\nc\n[echo d]\nd\n");
    scratch.run(&handle, "trap - DEBUG").code(0);
    scratch.run(&handle, "trap 'echo err:$?' ERR").code(0).stdout("");
    scratch.run(&handle, "(exit 3)").code(3).stdout("err:3\n");
    scratch.run(&handle, "echo $?").code(0).stdout("3\n");
}

#[test]
fn output_that_is_sent_elsewhere_is_not_waited_for() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "exec 5>&1 6>&2 >elsewhere 2>&1").code(0).stdout("");
    scratch.run(&handle, "echo hidden; (exit 9)").code(9).stdout("");
    scratch.run(&handle, "exec >&5 2>&6").code(0).stdout("");
    scratch.run(&handle, "echo seen").code(0).stdout("seen\n");
}

#[test]
fn marks_cannot_be_forged_or_replayed() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "echo first").code(0);
    let log = scratch.folder(&handle).join("output.log");
    fs::copy(&log, scratch.path.join("replay")).unwrap();
    let replayed = scratch.run(&handle, "cat replay; (exit 5)").code(5).silent().out();
    assert!(replayed.contains("first\r\n") && !replayed.contains("nbs="), "{replayed:?}");
    for kind in ["D;0;", "A;", "B;", "C;", "R;", "N;", "P;", "V;", "E;"] {
        for seq in 0..5 {
            let forged = format!("\x1b]133;{kind}nbs=0123456789abcdef0123456789abcdef.{seq}\x07");
            scratch
                .run(&handle, &format!("printf '{forged}'; echo on"))
                .code(0)
                .stdout(format!("{forged}on\n"));
        }
    }
}

#[test]
fn twenty_at_once_each_get_their_own() {
    let (scratch, handle) = shell();
    let calls: Vec<_> = (0..20)
        .map(|n| scratch.start(&["run", &handle, &format!("echo {n}; x=$((x+1)); (exit {n})")]))
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        call.finish().code(i32::try_from(n).unwrap()).stdout(format!("{n}\n")).silent();
    }
    scratch.run(&handle, "echo $x").code(0).stdout("20\n");
    assert_eq!(scratch.file(&handle, "completion.log").lines().count(), 22);
}

#[test]
fn run_waits_for_a_prompt_that_is_about_to_appear() {
    let scratch = Scratch::new();
    fs::write(scratch.home().join(".bashrc"), "PS1='$ '\nsleep 0.3\nPROMPT_COMMAND='sleep 0.1'\n").unwrap();
    let handle = scratch.create("bash");
    all(&scratch, &handle, &[("echo 1", "1\n", 0), ("echo 2", "2\n", 0)]);
    for n in 1..5 {
        scratch.ts(&["send", &handle, "true"]).code(0);
        eventually("the completion", || scratch.file(&handle, "completion.log").lines().count() == 3 * n + 1);
        all(&scratch, &handle, &[("echo 1", "1\n", 0), ("echo 2", "2\n", 0)]);
    }
}

#[test]
fn text_typed_at_the_prompt_is_not_part_of_the_command() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "true").code(0);
    for keys in ["echo 'half", "foo\u{1}", "\u{12}tr", "\u{16}", "\u{1b}", "\u{18}", "x\u{1b}5", "\t\t"] {
        scratch.ts(&["send", "--no-enter", &handle, keys]).code(0);
        scratch.run(&handle, "echo whole").code(0).stdout("whole\n").silent();
    }
    scratch.run(&handle, "set -o vi").code(0);
    for keys in ["abc\u{1b}", "\u{1b}", "\u{1b}c", "abc\u{1b}0"] {
        scratch.ts(&["send", "--no-enter", &handle, keys]).code(0);
        scratch.run(&handle, "echo whole").code(0).stdout("whole\n").silent();
    }
}

#[test]
fn unread_text_at_the_prompt_is_not_part_of_the_command() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "true").code(0);
    let pid = scratch.file(&handle, "pid");
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    let has_interrupt = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:\t")).unwrap();
        u64::from_str_radix(pending, 16).unwrap() & 2 != 0
    };
    // In the middle of the line, and in a question whether to list all commands.
    for keys in ["foo\u{1}", "\t\t"] {
        signal("-STOP");
        eventually("its stop", || state_of(&pid) == Some('T'));
        scratch.ts(&["send", "--no-enter", &handle, keys]).code(0);
        let call = scratch.start(&["run", &handle, "echo whole"]);
        eventually("the interrupt", has_interrupt);
        signal("-CONT");
        call.finish().code(0).stdout("whole\n").silent();
    }
}

#[test]
fn a_shell_that_ends_at_errors_survives_what_it_would_survive_as_typed() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "set -e; trap 'echo ERR' ERR").code(0).stdout("");
    all(&scratch, &handle, &[("! true", "", 1), ("if false; then :; fi", "", 0), ("echo $?", "0\n", 0)]);
    for broken in ["echo 'a", "if", "{ a"] {
        scratch.run(&handle, broken).code(2);
    }
    scratch.run(&handle, "cat <<END\nhi").code(0).stdout_has("hi\n");
    scratch.run(&handle, "false").code(125).stdout("ERR\n").complains("exit code 1");
}

#[test]
fn only_a_free_shell_will_do() {
    let scratch = Scratch::new();
    scratch.ts(&["run", "12345678", "true"]).code(125).complains("12345678");
    scratch.ts(&["run", "@nobody", "true"]).code(125).complains("nobody");
    scratch.ts(&["run", "x", "true"]).code(4).complains("not a handle");
    scratch.ts(&["run"]).code(4).complains("missing");
    let handle = scratch.create("sleep 1000");
    scratch.run(&handle, "true").code(125).complains("not an interactive shell");
    let handle = scratch.create("bash");
    scratch.ts(&["run", &handle]).code(4).complains("missing COMMAND");
    scratch.ts(&["run", "--timeout=-1", &handle, "true"]).code(4).complains("timeout");
    scratch.run(&handle, "true").code(0);
    for (command, doing) in
        [("bash --norc", "raw"), ("cat", "line"), ("sleep 1000", "running"), ("read -s x", "secret")]
    {
        scratch.ts(&["send", &handle, command]).code(0);
        // Before it is itself, the shell may seem to do the same, and lose a signal.
        let program = format!(": {command} ");
        let is_itself = || scratch.processes().iter().any(|process| process.ends_with(&program));
        eventually(command, || command.starts_with("read") || is_itself());
        let shown = format!("\"{doing}\"");
        eventually(command, || scratch.ts(&["status", "--json", &handle]).out().contains(&shown));
        // An interrupt would abort what asks for a secret.
        let (why, mend) = match command {
            "read -s x" => ("it is at a secret prompt", "'nbs-ts send --secret-stdin H'"),
            "cat" => (
                "it is busy: 'cat' is in the foreground",
                "'nbs-ts ask H TEXT' to answer, 'nbs-ts key H C-c' to interrupt",
            ),
            "sleep 1000" => {
                ("it is busy: 'sleep' is in the foreground", "; try 'nbs-ts key H C-c' to interrupt")
            }
            _ => (
                "it is busy: 'bash' is in the foreground",
                "'nbs-ts integrate H' to make run work in it, 'nbs-ts ask H TEXT' to type into it",
            ),
        };
        let mend = &mend.replace('H', &handle);
        let ran = scratch.run(&handle, "echo no").code(125).stdout("").complains(why).complains(mend);
        assert!(!ran.err().contains("C-c") || doing != "secret", "{ran:?}");
        let log = scratch.ts(&["read", &handle]).out();
        assert!(!log.contains("echo no"), "{log}");
        scratch
            .ts(&["send", "--no-enter", &handle, if command.starts_with("bash") { "\x04" } else { "\x03" }])
            .code(0);
        eventually("the prompt", || scratch.run(&handle, "true").status.code() == Some(0));
    }
}

/// An interrupt that comes while readline begins to read is processed at the next key only, which is lost.
/// The test prints by other means what the terminal shows then.
#[test]
fn a_shell_that_has_lost_an_interrupt_is_woken() {
    let (scratch, handle) = shell();
    for words in [["run", &handle, "echo woken"], ["ask", &handle, "echo woken"]] {
        scratch.ts(&["send", &handle, r"stty -echoctl; printf '^C\e[?2004l\r'; read -e x"]).code(0);
        let asks = || scratch.ts(&["status", "--json", &handle]).field("terminal") == "\"raw\"";
        eventually("the key being waited for", asks);
        scratch.ts(&words).code(0).stdout("woken\n");
    }
}

#[test]
fn ask_types_nothing_before_an_interrupt_that_is_never_processed() {
    let (scratch, handle) = shell();
    let deaf = r"trap '' INT; stty -icanon -echo; printf '^C\e[?2004l\r\e[?2004h'; read x; echo got-$x";
    scratch.ts(&["send", &handle, deaf]).code(0);
    let asks = || scratch.ts(&["status", "--json", &handle]).field("terminal") == "\"raw\"";
    eventually("the key being waited for", asks);
    scratch.ts(&["ask", "--timeout=1", &handle, "no"]).code(3).complains("the text was not typed");
    scratch.ts(&["key", &handle, "Enter"]).code(0);
    scratch.ts(&["wait", "--complete", &handle]).code(0);
    assert!(!scratch.ts(&["read", &handle]).out().contains("got-no"));
}

#[test]
fn json_tells_it_all() {
    let (scratch, handle) = shell();
    let ran =
        scratch.ts(&["run", "--json", &handle, "printf 'a\\r\\n\\xff'; exit_() { return 124; }; exit_"]);
    let ran = ran.code(124).silent();
    let out = ran.out();
    assert_eq!(field(&out, "handle"), format!("\"{handle}\""));
    assert_eq!(field(&out, "result"), "\"done\"");
    assert_eq!(field(&out, "exit_code"), "124");
    assert_eq!(field(&out, "output"), "\"a\\r\\n\u{fffd}\"");
    assert_eq!(field(&out, "lossy"), "true");
    let duration: u64 = field(&out, "duration_ms").parse().unwrap();
    assert!(Duration::from_millis(duration) <= ran.took, "{ran:?}");
    let ran = scratch.ts(&["run", "--json", "--timeout=0.2", &handle, "sleep 1000"]).code(124);
    assert_eq!(ran.field("result"), "\"timeout\"");
    // Not even the newline that bash prints then.
    assert_eq!(ran.field("output"), "\"\"");
    let ran = scratch.ts(&["run", "--json", &handle]).code(4);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("\"exit\":4"), "{ran:?}");
}

#[test]
fn a_state_folder_of_any_name_will_do() {
    let scratch = Scratch::new();
    let call = |state: &Path, words: &[&str]| {
        let mut call = scratch.command("nbs-ts");
        crate::support::run(call.env("NBS_TS_HOME", state).args(words))
    };
    let state = scratch.path.join("it's a \"$HOME\" !x \u{e9}\n");
    let ts = |words: &[&str]| call(&state, words);
    let handle = ts(&["create", "--no-helper", "bash"]).code(0).out().trim().to_owned();
    ts(&["run", &handle, "echo here"]).code(0).stdout("here\n").silent();
    ts(&["run", &handle, "unset -f __nbs_hook"]).code(0).stdout("").silent();
    ts(&["run", &handle, "echo again"]).code(0).stdout("again\n").silent();
    ts(&["kill", "--all"]).code(0);
    // fish opens no file with a name that is not UTF-8.
    let state = scratch.path.join(OsStr::from_bytes(b"f\xff"));
    let ts = |words: &[&str]| call(&state, words);
    let handle = ts(&["create", "--no-helper", "fish --no-config"]).code(0).out().trim().to_owned();
    ts(&["run", &handle, "echo no"]).code(125).stdout("").complains("did not accept it");
    ts(&["kill", "--all"]).code(0);
}

#[test]
fn a_program_in_the_shells_place_is_told_of() {
    let scratch = Scratch::new();
    for (command, name) in [("exec dash", "'dash'"), ("exec bash --norc", "'bash'"), ("exec cat", "'cat'")] {
        let handle = scratch.create("bash");
        let ran = scratch.run(&handle, command).code(125);
        ran.complains(&format!("{name} replaced the shell"));
        scratch.run(&handle, "true").code(125).stdout("").complains(&format!("{name} replaced"));
        scratch.ts(&["ask", "--input", &handle, "echo still 42"]).code(0).stdout_has("still 42");
    }
    // A program that waits for nothing ends, and reports its code.
    let handle = scratch.create("bash");
    scratch.run(&handle, "exec sh -c 'sleep 0.3; exit 4'").code(125).complains("ended with exit code 4");
}

#[test]
fn a_program_that_is_conversed_with_is_a_command_that_runs() {
    let (scratch, handle) = shell();
    let evidence = "the terminal's state is raw (a program waits for input)";
    let has_come = |ran: &Ran| ran.err().contains(evidence);
    let ran = timing_out(has_come, |timeout| {
        let ran = scratch.ts(&["run", timeout, "--no-input", &handle, "bash --norc"]);
        let ran = ran.code(124).complains("timed out after");
        // A program that has not begun to read by then is interrupted.
        if has_come(&ran) {
            scratch.ts(&["ask", "--input", &handle, "exit 3"]).code(0);
            scratch.run(&handle, "echo $?").code(0).stdout("3\n");
        }
        ran
    });
    ran.complains(evidence);
}

#[test]
fn a_shell_that_cannot_report_is_told_of_and_not_waited_for() {
    let unreported = |setting: &str| {
        let (scratch, handle) = shell();
        let ran = scratch.run(&handle, &format!("echo said; {setting}"));
        assert!(ran.out().starts_with("said\n") && !ran.out().contains('$'), "{ran:?}");
        // Remaining hooks show the loss in the first run, and may in the next.
        if !setting.starts_with("unset") {
            ran.code(125).complains("the shell did not report the exit code");
        }
        let ran = scratch.run(&handle, "(exit 5)");
        assert!(ran.status.code().is_some_and(|code| code == 125 || code == 5), "{setting}: {ran:?}");
    };
    // Settings that cannot be undone, but leave a usable shell once they are reported.
    let usable = |setting: &str| {
        let (scratch, handle) = shell();
        scratch.run(&handle, setting).code(0).stdout("");
        scratch.run(&handle, "echo fine").code(0).stdout("fine\n");
    };
    let mended = |setting: &str, mending: &str| {
        let (scratch, handle) = shell();
        scratch.run(&handle, setting).code(0).stdout("");
        for _ in 0..2 {
            scratch.run(&handle, "echo no").code(125).stdout("").complains("did not accept it");
        }
        scratch.ts(&["send", &handle, mending]).code(0);
        eventually("the mended shell", || scratch.run(&handle, "echo on").status.code() == Some(0));
    };
    // At once: each waits for a shell that never reports.
    thread::scope(|scope| {
        for setting in [
            "builtin() { :; }",
            "enable -n builtin",
            "enable -n printf",
            "readonly __nbs_set",
            "ulimit -n 5",
            "unset PROMPT_COMMAND; declare -A PROMPT_COMMAND=([a]=b)",
            "trap 'return 1' DEBUG; shopt -s extdebug",
        ] {
            scope.spawn(move || unreported(setting));
        }
        for setting in ["histchars=_", "bind '\"\\C-m\": self-insert'", "declare -i PS0"] {
            scope.spawn(move || usable(setting));
        }
        let mending = "bind '\"\\e[25;8~\": \"\\e[25;9~\\e[25;7~\"'";
        scope.spawn(move || mended("bind '\"\\e[25;8~\": \"\"'", mending));
    });
}

#[test]
fn a_command_that_is_slow_to_begin_is_waited_for_asleep() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "PS0='$(sleep 2)'").code(0).stdout("");
    let script = format!("TIMEFORMAT='%3U %3S'; time nbs-ts run {handle} 'echo late'");
    let ran = scratch.bash(&script).code(0).stdout("late\n");
    let seconds: f64 = ran.err().split_whitespace().map(|time| time.parse::<f64>().unwrap()).sum();
    assert!(seconds < 0.4, "of computing: {ran:?}");
}

#[test]
fn hooks_that_somebody_typed_away_are_put_back() {
    let (scratch, handle) = shell();
    for typed in ["PROMPT_COMMAND=", "unset PROMPT_COMMAND", "unset -f __nbs_done __nbs_prompt"] {
        scratch.run(&handle, "true").code(0);
        scratch.ts(&["send", &handle, typed]).code(0);
        eventually("the shell's being found", || scratch.run(&handle, "true").status.code() == Some(0));
        scratch.run(&handle, "echo on; (exit 3)").code(3).stdout("on\n").silent();
    }
}

#[test]
fn run_in_its_own_session_does_not_wait_for_itself() {
    let (scratch, handle) = shell();
    let ran = scratch.run(&handle, "nbs-ts run $NBS_TS_SESSION true; echo $?").code(0);
    assert!(ran.out().ends_with("\n125\n") && ran.out().contains("is executing this very call"), "{ran:?}");
    let ran = scratch.run(&handle, "x=$(nbs-ts run $NBS_TS_SESSION true); echo $?").code(0);
    assert!(ran.out().ends_with("\n125\n"), "{ran:?}");
}

#[test]
fn the_command_may_come_from_standard_input() {
    let (scratch, handle) = shell();
    let mut long = vec![b' '; 10_000_000];
    long.extend_from_slice(b"\necho long; (exit 3)\n");
    scratch.ts_with_input(&["run", "--stdin", &handle], &long).code(3).stdout("long\n").silent();
    scratch.ts_with_input(&["run", &handle, "--stdin"], b"x").code(127).stdout_has("--stdin: command not");
    scratch.ts_with_input(&["run", "--stdin", &handle], b"").code(0).stdout("").silent();
    let bytes = b"printf '%s' '\xff\xfe \x01\x7f\xc3'";
    scratch.ts_with_input(&["run", "--stdin", &handle], bytes).code(0).stdout(b"\xff\xfe \x01\x7f\xc3");
    scratch.ts_with_input(&["run", "--stdin", &handle], b"echo a\0b").code(4).stdout("").complains("NUL");
    scratch.ts_with_input(&["run", "--stdin", &handle, "x"], b"").code(4).complains("cannot use --");
    scratch.ts_with_input(&["ask", "--stdin", &handle], b"echo asked\n").code(0).stdout("asked\n");
}

#[test]
fn escape_sequences_can_be_left_out() {
    let (scratch, handle) = shell();
    let command = r"printf '\e[31mred\e[m\e[K\nx\e]0;title\a'; printf 'y\e[3'";
    scratch.ts(&["run", "--strip", &handle, command]).code(0).stdout("red\nxy");
    let ran = scratch.ts(&["run", "--strip", "--json", &handle, command]).code(0);
    assert_eq!(ran.field("output"), "\"red\\nxy\"");
    let ran = scratch.ts(&["run", "--strip", "--max=64", &handle, "printf '\\e[1m%s\\n' {1..100}"]).code(0);
    assert!(!ran.out().contains('\x1b') && ran.out().ends_with("99\n100\n"), "{ran:?}");
}

#[test]
fn job_messages_at_a_prompt_are_not_output() {
    let (scratch, handle) = shell();
    scratch.run(&handle, "sleep 0.01 & job=$!").code(0);
    let job = scratch.run(&handle, "echo $job").code(0).out();
    eventually("its end", || !is_running(job.trim()));
    // By now the shell may have said it at the prompt before, or will at the next.
    scratch.run(&handle, "echo on").code(0).stdout("on\n");
    scratch.run(&handle, "echo on").code(0).stdout("on\n");
    let log = scratch.ts(&["read", "--strip", &handle]).out();
    assert_eq!(log.matches("Done").count(), 1, "{log}");
    // While a text runs, it is output.
    let ran = scratch.run(&handle, "set -b; sleep 0.01 & wait; echo waited").code(0);
    assert!(ran.out().ends_with("waited\n"), "{ran:?}");
    let command = "sleep 0.01 & while kill -0 $! 2>/dev/null; do sleep 0.01; done; jobs";
    scratch.run(&handle, command).code(0).stdout_has("Done");
}

#[test]
fn a_commands_duration_is_that_from_its_beginning_to_its_end() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish", "sh"] {
        let handle = scratch.create(shell);
        for _ in 0..4 {
            // Nothing is printed in between that would wake a waiting call.
            let ran = scratch.ts(&["run", "--json", &handle, "sleep 1"]).code(0);
            let duration: u64 = ran.field("duration_ms").parse().unwrap();
            assert!(duration >= 700 && u128::from(duration) <= ran.took.as_millis(), "{shell}: {duration}");
        }
    }
}
