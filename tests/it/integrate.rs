//! A shell inside the session's own: what `integrate` makes of it, and what it leaves alone.

use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt};

use crate::support::{Scratch, eventually};

/// A shell that is started inside another, and how the same is said to it.
struct Inner {
    outer: &'static str,
    /// What starts it.
    command: &'static str,
    /// What `integrate` calls it.
    shell: &'static str,
    /// Sets x to 5.
    set: &'static str,
    /// Prints 1 and 2, each on a line, in several lines.
    many: &'static str,
    /// Ends with 7, and leaves the shell.
    seven: &'static str,
    /// Which the outer shell has.
    status: &'static str,
}

const BASH: Inner = Inner {
    outer: "bash",
    command: "PS1='mine# ' bash --norc",
    shell: "bash",
    set: "x=5",
    many: "for i in 1 2\ndo\n  echo $i\ndone",
    seven: "(exit 7)",
    status: "echo $?",
};

const POSIX: Inner = Inner { shell: "posix", ..BASH };

fn integrate(scratch: &Scratch, handle: &str, shell: &str) {
    let integrated = scratch.ts(&["integrate", "--json", "--timeout=60", handle]).code(0).silent();
    assert_eq!(integrated.field("shell"), format!("\"{shell}\""));
    assert_eq!(integrated.field("new"), "true");
}

fn try_inner(inner: &Inner) {
    let Inner { outer, command, shell, set, many, seven, status } = inner;
    let scratch = Scratch::new();
    let handle = scratch.create(outer);
    let run = |text: &str| scratch.ts(&["run", "--timeout=60", &handle, text]);
    run("echo outer").code(0).stdout("outer\n");
    scratch.ts(&["send", &handle, command]).code(0);
    integrate(&scratch, &handle, shell);
    // Nothing of it is seen, and its prompt stands.
    let screen = scratch.ts(&["screen", &handle]).code(0).out();
    assert!(screen.trim_end().ends_with("mine#"), "{screen}");
    let prompts =
        |text: &str| text.lines().filter(|line| line.trim_start_matches('\r').starts_with("mine#")).count();
    assert_eq!(prompts(&screen), 1, "{screen}");
    assert!(!screen.contains("stty") && !screen.contains("__nbs"), "{screen}");
    let stripped = scratch.ts(&["read", "--strip", &handle]).code(0).out();
    assert!(!stripped.contains("stty"), "{stripped}");
    // The others draw their prompts with carriage returns.
    if !["zsh", "fish"].contains(shell) && !command.contains("ksh93") {
        assert!(stripped.ends_with("mine# "), "{stripped}");
        assert_eq!(prompts(&stripped), 1, "{stripped}");
    }
    assert_eq!(scratch.ts(&["status", "--json", &handle]).field("terminal"), "\"prompt\"");
    scratch.ts(&["wait", &handle, "--input"]).code(0).stdout(format!("{handle}\tinput\tprompt\n"));

    run("echo hi").code(0).stdout("hi\n").silent();
    run(seven).code(7).stdout("").silent();
    run("printf 'a\\nb'").code(0).stdout("a\nb").silent();
    run("printf '\\n\\nx\\n'").code(0).stdout("\n\nx\n").silent();
    run("cd /").code(0).stdout("").silent();
    run(set).code(0).stdout("").silent();
    run("pwd; echo $x").code(0).stdout("/\n5\n").silent();
    run(many).code(0).stdout("1\n2\n").silent();
    run("").code(0).stdout("").silent();
    run("echo '!x' \"a  b\" \u{e9}").code(0).stdout("!x a  b \u{e9}\n").silent();
    let room = 80 - "mine# echo ".len();
    for length in [room - 1, room, room + 1, 300, 5_000] {
        let long = "x".repeat(length);
        run(&format!("echo {long}")).code(0).stdout(format!("{long}\n")).silent();
    }
    run("echo 'a").code(2).stdout("").complains("wants the rest of it");
    run("echo on").code(0).stdout("on\n").silent();
    let wrong = run("echo a )");
    assert!(wrong.status.code().is_some_and(|code| code != 0 && code < 124), "{wrong:?}");
    assert!(!wrong.out().is_empty() && !wrong.out().contains("nbs="), "{wrong:?}");
    run("no-such-program").code(127);
    scratch.ts(&["run", "--timeout=0.3", &handle, "sleep 1000"]).code(124).stdout("");
    eventually("the shell", || run("echo usable").stdout == b"usable\n");
    assert!(scratch.file(&handle, "completion.log").contains(" 130\n"));
    run("echo seen").code(0);
    let screen = scratch.ts(&["screen", &handle]).code(0).out();
    assert!(screen.trim_end().ends_with("mine# echo seen\nseen\nmine#"), "{screen}");
    run("printf 'one\\n'\nprintf 'two\\n'").code(0).stdout("one\ntwo\n");
    let stripped = scratch.ts(&["read", "--strip", &handle]).code(0).out();
    assert!(!stripped.contains("__nbs"), "{stripped}");

    // Commands that were sent count, too.
    let before = scratch.file(&handle, "completion.log").lines().count();
    scratch.ts(&["send", &handle, seven]).code(0);
    eventually("the completion", || scratch.file(&handle, "completion.log").lines().count() > before);
    assert!(scratch.file(&handle, "completion.log").ends_with(" 7\n"));
    let cursor = scratch.folder(&handle).join("completion_cursor");
    let mut cursor = OpenOptions::new().write(true).create_new(true).mode(0o600).open(cursor).unwrap();
    cursor.write_all(before.to_string().as_bytes()).unwrap();
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("7\n");

    // It reports already.
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    let length = scratch.file(&handle, "output.log").len();
    let again = scratch.ts(&["integrate", "--json", &handle]).code(0);
    assert_eq!([again.field("shell"), again.field("new")], [format!("\"{shell}\""), "false".into()]);
    assert_eq!(scratch.file(&handle, "output.log").len(), length);

    run("exit 7").code(125).complains("has ended with exit code 7");
    run(status).code(0).stdout("7\n").silent();
    run("echo outer").code(0).stdout("outer\n").silent();
    scratch.ts(&["doctor"]).code(0);
}

macro_rules! inner_shells {
    ($($name:ident: $inner:expr;)*) => {$(
        #[test]
        fn $name() {
            try_inner(&$inner);
        }
    )*};
}

inner_shells! {
    bash_in_bash: BASH;
    bash_in_sh: Inner { outer: "sh", ..BASH };
    bash_in_fish: Inner { outer: "fish", command: "env PS1='mine# ' bash --norc", status: "echo $status", ..BASH };
    bash_in_vi_mode: Inner { command: "PS1='mine# ' bash --norc -o vi", ..BASH };
    bash_without_its_editor: Inner { command: "PS1='mine# ' bash --norc --noediting", ..BASH };
    sh_in_bash: Inner { command: "PS1='mine# ' sh", ..POSIX };
    dash_in_zsh: Inner { outer: "zsh", command: "PS1='mine# ' dash", ..POSIX };
    busybox_ash_in_bash: Inner { command: "PS1='mine# ' busybox ash", ..POSIX };
    ksh93_in_bash: Inner { command: "PS1='mine# ' ksh93", ..POSIX };
    mksh_in_bash: Inner { command: "PS1='mine# ' mksh", ..POSIX };
    zsh_in_bash: Inner { command: "PS1='mine# ' zsh -f", shell: "zsh", ..BASH };
    fish_in_bash: Inner {
        command: "fish --no-config -C 'function fish_prompt; echo -n \"mine# \"; end'",
        shell: "fish",
        set: "set x 5",
        many: "for i in 1 2\n  echo $i\nend",
        seven: "sh -c 'exit 7'",
        ..BASH
    };
    a_shell_without_jobs: Inner { command: "PS1='mine# ' sh +m -i", ..POSIX };
}
