//! Every shell through one table: what `run` promises of bash, it promises of all.

mod startup;
mod typed_ahead;

use std::{fs, process::Command};

use crate::support::{Scratch, busyboxes, eventually, start, timing_out, wait_for_tracer};

/// A shell, its form of each test command, and the user's files for it.
struct Shell {
    command: &'static str,
    /// The user's own startup file, in the home directory.
    rcfile: &'static str,
    /// Sets x to 5.
    set: &'static str,
    /// Prints 1 and 2, each on a line, in several lines.
    many: &'static str,
    /// Ends with 7, and leaves the shell.
    seven: &'static str,
    /// The prompt that the startup file sets.
    prompt: &'static str,
}

const BASH: Shell = Shell {
    command: "bash",
    rcfile: ".bashrc",
    set: "x=5",
    many: "for i in 1 2\ndo\n  echo $i\ndone",
    seven: "(exit 7)",
    prompt: "mine> ",
};

const POSIX: Shell = Shell { rcfile: ".shrc", ..BASH };

/// The checks of a command that every shell passes; `room` is what the row has behind the prompt.
pub(crate) fn runs_what_all_do(scratch: &Scratch, handle: &str, [set, many]: [&str; 2], room: usize) {
    let run = |text: &str| scratch.ts(&["run", "--timeout=60", handle, text]);
    run("printf 'a\\nb'").code(0).stdout("a\nb").silent();
    run("printf '\\n\\nx\\n'").code(0).stdout("\n\nx\n").silent();
    run("cd /").code(0).stdout("").silent();
    run(set).code(0).stdout("").silent();
    run("pwd; echo $x").code(0).stdout("/\n5\n").silent();
    run(many).code(0).stdout("1\n2\n").silent();
    run("").code(0).stdout("").silent();
    // As long as the row behind the prompt, and one more and less; and over several rows.
    let room = room - "echo ".len();
    for length in [room - 1, room, room + 1, 300, 5_000] {
        let long = "x".repeat(length);
        run(&format!("echo {long}")).code(0).stdout(format!("{long}\n")).silent();
    }
    // Nothing of an unfinished command is executed.
    run("echo 'a").code(2).stdout("").complains("is incomplete");
    run("echo on").code(0).stdout("on\n").silent();
    let wrong = run("echo a )");
    assert!(wrong.status.code().is_some_and(|code| code != 0 && code < 124), "{wrong:?}");
    assert!(!wrong.out().is_empty() && !wrong.out().contains("nbs="), "{wrong:?}");
    run("no-such-program").code(127);
    timing_out(
        |_| scratch.file(handle, "completion.log").contains(" 130\n"),
        |timeout| scratch.ts(&["run", timeout, handle, "sleep 1000"]).code(124).stdout(""),
    );
    eventually("the shell", || run("echo usable").stdout == b"usable\n");
}

fn try_shell(shell: &Shell) {
    let Shell { command, rcfile, set, many, seven, prompt } = shell;
    let scratch = Scratch::new();
    let home = scratch.home();
    let text = match command.split(' ').next().unwrap() {
        "fish" => "function fish_prompt; echo -n 'mine> '; end\nset -g mine yes\n".to_owned(),
        _ => "PS1='mine> '\nmine=yes\n".to_owned(),
    };
    fs::create_dir_all(home.join(rcfile).parent().unwrap()).unwrap();
    fs::write(home.join(rcfile), text).unwrap();
    let env = format!("--env=ENV={}/.shrc", home.display());
    let cwd = format!("--cwd={}", home.display());
    let handle = scratch.create_with(&[&env, &cwd], command);
    let run = |text: &str| scratch.ts(&["run", "--timeout=60", &handle, text]);
    run("echo hi").code(0).stdout("hi\n").silent();
    run(seven).code(7).stdout("").silent();
    run("echo $mine").code(0).stdout("yes\n").silent();
    runs_what_all_do(&scratch, &handle, [set, many], 80 - prompt.len());
    run("echo '!x' \"!y  !!\" \u{e9}").code(0).stdout("!x !y  !! \u{e9}\n").silent();
    let completions = scratch.file(&handle, "completion.log");
    assert!(completions.contains(" 130\n"), "{completions}");
    scratch.ts(&["wait", &handle, "--input"]).code(0).stdout(format!("{handle}\tinput\tprompt\n"));
    // The recording is the same as a person's.
    run("echo seen").code(0);
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    let screen = scratch.ts(&["screen", &handle]).code(0).out();
    let record = format!("{prompt}echo seen\nseen\n{}", prompt.trim_end());
    assert!(screen.trim_end().ends_with(&record), "{screen:?}");
    assert!(!screen.contains("__nbs"), "{screen:?}");
    let before = scratch.file(&handle, "completion.log").lines().count();
    scratch.ts(&["send", &handle, seven]).code(0);
    eventually("the completion", || scratch.file(&handle, "completion.log").lines().count() > before);
    assert!(scratch.file(&handle, "completion.log").ends_with(" 7\n"));
    run("exit 7").code(125).complains("ended with exit code 7");
}

macro_rules! shells {
    ($($name:ident: $shell:expr;)*) => {$(
        #[test]
        fn $name() {
            try_shell(&$shell);
        }
    )*};
}

shells! {
    bash_by_its_path: Shell { command: "/bin/bash", ..BASH };
    bash_in_vi_mode: Shell { command: "bash -o vi", ..BASH };
    bash_behind_env: Shell { command: "env A=1 bash", ..BASH };
    bash_with_an_rcfile_of_its_own: Shell { command: "bash --init-file .shrc", rcfile: ".shrc", ..BASH };
    bash_as_a_login_shell: Shell { command: "bash -l", rcfile: ".bash_profile", ..BASH };
    bash_in_posix_mode: Shell { command: "bash --posix", ..POSIX };
    zsh: Shell { command: "zsh", rcfile: ".zshrc", ..BASH };
    zsh_as_a_login_shell: Shell { command: "zsh -l -i", rcfile: ".zprofile", ..BASH };
    fish: Shell {
        command: "fish",
        rcfile: ".config/fish/config.fish",
        set: "set x 5",
        many: "for i in 1 2\n  echo $i\nend",
        seven: "sh -c 'exit 7'",
        ..BASH
    };
    sh: Shell { command: "sh", ..POSIX };
    dash: Shell { command: "dash", ..POSIX };
    busybox_ash: Shell { command: "busybox ash", ..POSIX };
    ksh93: Shell { command: "ksh93", ..POSIX };
    mksh: Shell { command: "mksh", ..POSIX };
}

#[test]
fn a_busybox_with_its_applets_inside_and_one_without() {
    for busybox in busyboxes() {
        try_shell(&Shell { command: format!("{busybox} ash").leak(), ..POSIX });
    }
}

/// A session of a shell whose user has this startup file.
fn with_startup_file(scratch: &Scratch, shell: &str, text: &str) -> String {
    let home = scratch.home();
    // Without such a directory, fish makes one of all manuals, which takes long.
    for folder in [".config/fish", ".local/share/fish/generated_completions"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    for file in [".bashrc", ".bash_profile", ".zshrc", ".config/fish/config.fish", ".shrc"] {
        fs::write(home.join(file), text).unwrap();
    }
    scratch.create_with(&[&format!("--env=ENV={}/.shrc", home.display())], shell)
}

/// A session of this shell, or of a bash with that shell inside, which reports.
fn shell_of(scratch: &Scratch, command: &str) -> String {
    let Some(inner) = command.strip_suffix(" inside") else { return scratch.create(command) };
    let handle = scratch.create("bash");
    scratch.ts(&["send", &handle, inner]).code(0);
    scratch.ts(&["integrate", "--timeout=60", &handle]).code(0);
    handle
}

#[test]
fn the_traps_of_who_uses_zsh_are_set_off_by_their_commands() {
    let scratch = Scratch::new();
    for (text, failed, done) in [
        ("trap 'print ERR' ZERR", "ERR\n", ""),
        ("TRAPZERR() { print ERR }", "ERR\n", ""),
        ("trap 'print D' DEBUG", "D\n", "D\n"),
    ] {
        let text = format!("{text}\np() {{ seen+=($?) }}\nprecmd_functions+=(p)");
        let handle = with_startup_file(&scratch, "zsh", &text);
        scratch.ts(&["run", &handle, "false"]).code(1).stdout(failed);
        scratch.ts(&["run", &handle, "true"]).code(0).stdout(done);
        let printed = scratch.ts(&["read", &handle]).out();
        assert_eq!(printed.matches("ERR").count(), failed.matches("ERR").count(), "{text}: {printed}");
        let seen = scratch.ts(&["run", &handle, "echo $seen"]).code(0).out();
        assert!(seen.ends_with("0 1 0\n"), "{text}: {seen}");
    }
    let handle = with_startup_file(&scratch, "zsh", "setopt xtrace");
    scratch.ts(&["run", &handle, "true"]).code(0);
    let printed = scratch.ts(&["read", &handle]).out();
    assert!(!printed.contains("__nbs"), "{printed}");
}

#[test]
fn run_says_why_a_shell_cannot_report() {
    let scratch = Scratch::new();
    for (shell, text, why) in [
        ("zsh", "precmd() { precmd_functions=() }", "not at a prompt that it reports"),
        ("zsh", "disable printf", "did not accept it"),
        ("fish", "function p --on-event fish_prompt; functions -e __nbs_prompt; end", "not at a prompt"),
        ("dash", "exec 2>/dev/null", "not at a prompt"),
        ("dash", "readonly PS1", "not at a prompt"),
        ("busybox ash", "readonly PS1", "not at a prompt"),
        ("ksh93", "readonly PS1", "not at a prompt"),
        ("bash", "readonly PROMPT_COMMAND", "not at a prompt"),
    ] {
        let handle = with_startup_file(&scratch, shell, text);
        let ran =
            scratch.ts(&["run", "--timeout=60", &handle, "echo hi"]).code(125).stdout("").complains(why);
        assert_eq!(ran.err().lines().count(), 1, "{shell}, {text}: {ran:?}");
        scratch.ts(&["kill", &handle]).code(0);
    }
    // A failure ends a shell under `set -e`.
    for shell in ["zsh", "dash", "busybox ash", "ksh93"] {
        let handle = with_startup_file(&scratch, shell, "set -e");
        scratch.ts(&["run", "--timeout=60", &handle, "echo hi"]).code(0).stdout("hi\n");
        scratch.ts(&["run", "--timeout=60", &handle, "false"]).code(125).complains("ended with exit code 1");
    }
}

#[test]
fn hooks_that_are_removed_from_a_zsh_are_put_back() {
    let (scratch, handle) = Scratch::with_session("zsh");
    let run = |text: &str| scratch.ts(&["run", "--timeout=60", &handle, text]);
    run("echo hi").code(0).stdout("hi\n").silent();
    let removals =
        ["precmd_functions=(); preexec_functions=()", "precmd_functions=()", "preexec_functions=()"];
    for (prompt, removal) in
        ["", "; PROMPT='x> '"].iter().flat_map(|prompt| removals.map(|each| (prompt, each)))
    {
        let before = scratch.file(&handle, "completion.log").lines().count();
        run(&format!("printf said; {removal}{prompt}; (exit 3)")).code(3).stdout("said").silent();
        run("echo on; (exit 5)").code(5).stdout("on\n").silent();
        let completions = scratch.file(&handle, "completion.log");
        let codes: Vec<&str> =
            completions.lines().skip(before).filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(codes, ["3", "5"], "{removal}{prompt}");
        scratch.ts(&["send", &handle, &format!("{removal}{prompt}")]).code(0);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        eventually("the shell's being found", || run("true").status.code() == Some(0));
        run("echo on; (exit 5)").code(5).stdout("on\n").silent();
    }
    // A line that a program reads is not a prompt.
    let asked = scratch.ts(&["run", &handle, "precmd_functions=(); x=; vared -p 'which? ' x"]).code(123);
    assert!(asked.out().contains("which? "), "{asked:?}");
    scratch.ts(&["send", &handle, "this"]).code(0);
    scratch.ts(&["run", "--resume", &handle]).code(0);
    run("echo $x").code(0).stdout("this\n").silent();
}

#[test]
fn the_users_environment_is_kept() {
    let scratch = Scratch::new();
    let env = format!("--env=ZDOTDIR={}/z", scratch.path.display());
    fs::create_dir(scratch.path.join("z")).unwrap();
    fs::write(scratch.path.join("z/.zshrc"), "echo theirs\n").unwrap();
    let handle = scratch.create_with(&[&env], "zsh");
    let printed = scratch.ts(&["run", &handle, "echo $ZDOTDIR; env | grep NBS_TS_"]).out();
    assert!(printed.starts_with(&format!("{}/z\nNBS_TS_", scratch.path.display())), "{printed}");
    assert!(!printed.contains("NBS_TS_ZDOTDIR"), "{printed}");
    assert!(scratch.ts(&["read", &handle]).out().contains("theirs"));
    let handle = scratch.create_with(&["--env=ENV=/none"], "sh");
    scratch
        .ts(&["run", &handle, "echo $ENV ${NBS_TS_ENV-none}; sh -c 'echo $ENV'"])
        .stdout("/none none\n/none\n");
    let handle = scratch.create("sh");
    scratch.ts(&["run", &handle, "echo \"<$ENV>\""]).stdout("<>\n");
}

/// ksh93 draws its prompt first, and its line editor takes the terminal then. Without echo, a shell that does
/// not read yet looks like a secret prompt.
#[test]
fn a_shell_may_be_slow_between_its_prompt_and_its_read() {
    let scratch = Scratch::new();
    let all = ["bash", "zsh", "fish", "sh", "busybox ash", "ksh93", "mksh"];
    let silent = ["dash", "busybox ash", "ksh93"];
    let cases =
        all.map(|shell| (shell, "")).into_iter().chain(silent.map(|shell| (shell, "stty -echo; sleep 1")));
    for (shell, text) in cases {
        let handle = with_startup_file(&scratch, shell, text);
        scratch.ts(&["wait", &handle, "--input"]).code(0);
        let pid = scratch.file(&handle, "pid");
        let mut strace = scratch.command("strace");
        strace.args(["-qq", "-o", "/dev/null", "-e", "trace=ioctl,read"]);
        strace.args(["-e", "inject=ioctl,read:delay_enter=40000", "-p", &pid]);
        let tracing = start(&mut strace);
        wait_for_tracer(&pid);
        for word in ["one", "two"] {
            let ran = scratch.ts(&["run", &handle, &format!("echo {word}")]);
            ran.code(0).stdout(format!("{word}\n"));
        }
        drop(tracing);
    }
}

#[test]
fn an_empty_command_exits_0_and_others_with_their_own_code() {
    let scratch = Scratch::new();
    for command in ["bash", "zsh", "fish", "sh", "busybox ash", "ksh93", "mksh"] {
        let handle = scratch.create(command);
        for nothing in ["", " \n "] {
            scratch.ts(&["run", &handle, "no-such-program"]).code(127);
            let ran = scratch.ts(&["run", "--json", &handle, nothing]).code(0);
            assert_eq!(
                [ran.field("result"), ran.field("exit_code")],
                ["\"done\"", "0"],
                "{command}: {ran:?}"
            );
        }
        // zsh knows no comments by default; nor does a bash that has them disabled.
        let code = if command == "zsh" { 127 } else { 0 };
        scratch.ts(&["run", &handle, "# a comment"]).code(code);
        scratch.ts(&["run", &handle, "echo on"]).code(0).stdout("on\n");
        if command == "bash" {
            scratch.ts(&["run", &handle, "shopt -u interactive_comments"]).code(0);
            scratch.ts(&["run", &handle, "# a command"]).code(127);
        }
    }
}

/// Remains at a prompt do not keep `run` from it.
#[test]
fn a_line_that_is_empty_half_or_given_up_ends_at_the_next_prompt() {
    let scratch = Scratch::new();
    for command in ["bash", "zsh", "fish", "fish --no-config inside"] {
        let handle = shell_of(&scratch, command);
        let ts = |words: &[&str]| scratch.ts(&[&[words[0], "--timeout=60", &handle], &words[1..]].concat());
        let runs_on = || ts(&["run", "echo on"]).code(0).stdout("on\n").silent();
        runs_on();
        scratch.ts(&["key", &handle, "Enter"]).code(0);
        runs_on();
        scratch.ts(&["send", &handle, ""]).code(0);
        ts(&["wait", "--complete"]).code(0);
        runs_on();
        // The second is seen before the interrupt, and the third never.
        scratch.ts(&["send", "--no-enter", &handle, "half"]).code(0);
        runs_on();
        if command.starts_with("fish") {
            // It has a key for that, and so no command is interrupted.
            ts(&["run", "sh -c 'exit 7'"]).code(7);
            scratch.ts(&["send", "--no-enter", &handle, "half"]).code(0);
            ts(&["run", "echo $status"]).code(0).stdout("7\n");
        }
        scratch.ts(&["send", "--no-enter", &handle, "whole"]).code(0);
        ts(&["wait-pattern", "whole"]).code(0);
        runs_on();
        scratch.ts(&["send", "--no-enter", &handle, "x"]).code(0);
        scratch.ts(&["key", &handle, "BSpace"]).code(0);
        runs_on();
        scratch.ts(&["send", "--paste", "--no-enter", &handle, "echo one\necho two"]).code(0);
        ts(&["wait-pattern", "two"]).code(0);
        runs_on();
        scratch.ts(&["send", &handle, "echo 'more"]).code(0);
        ts(&["wait-pattern", "more"]).code(0);
        scratch.ts(&["key", &handle, "C-c"]).code(0);
        runs_on();
    }
}

/// As fish does it itself since 4.0.
#[test]
fn the_end_that_fish_marks_itself_is_not_part_of_the_output() {
    let scratch = Scratch::new();
    let marks =
        "function begins --on-event fish_preexec; printf '\\e]133;C;cmdline_url=%s\\a' $argv >/dev/tty; end
                 function ends --on-event fish_postexec; printf '\\e]133;D;%s\\a' $status >/dev/tty; end";
    let handle = with_startup_file(&scratch, "fish", marks);
    for (text, output, code) in [
        ("echo on", "on\n", 0),
        ("printf on; false", "on", 1),
        ("printf '\\e]133;D;0\\a'", "\x1b]133;D;0\x07", 0),
        ("true", "", 0),
    ] {
        scratch.ts(&["run", &handle, text]).code(code).stdout(output);
    }
    let ran = scratch.ts(&["run", "--json", &handle, "printf on"]).code(0);
    assert_eq!(ran.field("output"), "\"on\"");
    let asked = "read -P 'Name? ' name; printf %s $name";
    scratch.ts(&["run", "--input-after=0.1", &handle, asked]).code(123);
    scratch.ts(&["send", &handle, "eve"]).code(0);
    let rest = scratch.ts(&["run", "--resume", &handle]).code(0).out();
    assert!(rest.ends_with("eve") && !rest.contains("133;"), "{rest:?}");
    // For another fish it is the program's.
    let handle = scratch.create("fish --no-config");
    scratch.ts(&["run", &handle, "printf '\\e]133;D;0\\a'"]).code(0).stdout("\x1b]133;D;0\x07");
}

/// fish processes an interrupt only while it waits for a key: if one comes while it draws, it leaves the line
/// as it is.
#[test]
fn half_a_line_in_a_slow_fish_is_not_part_of_the_command() {
    let scratch = Scratch::new();
    for command in ["fish --no-config", "fish --no-config inside"] {
        let handle = shell_of(&scratch, command);
        let pid = scratch.ts(&["run", &handle, "echo $fish_pid"]).code(0).out().trim().to_owned();
        let mut strace = scratch.command("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=write,writev"]);
        strace.args(["-e", "inject=write,writev:delay_enter=5000", "-p", &pid]);
        let tracing = start(&mut strace);
        wait_for_tracer(&pid);
        for (typed, seen, interrupted) in [
            ("half", "", false),
            ("half", "half", false),
            ("half", "", true),
            ("half", "half", true),
            ("", "", true),
            ("echo 'more\r", "", true),
            ("echo 'more\r", "more", true),
        ] {
            scratch.ts(&["send", "--no-enter", &handle, typed]).code(0);
            scratch.ts(&["wait-pattern", "--timeout=60", &handle, seen]).code(0);
            if interrupted {
                scratch.ts(&["key", &handle, "C-c"]).code(0);
            }
            let ran = scratch.ts(&["run", "--timeout=60", &handle, "echo on"]);
            ran.code(0).stdout("on\n").silent();
        }
        drop(tracing);
    }
}

/// A prompt that is interrupted twice, by a call that has timed out on a busy machine, say, is not drawn.
#[test]
fn fish_takes_a_command_although_its_prompt_was_interrupted() {
    let scratch = Scratch::new();
    let at = scratch.path.join("at").display().to_string();
    let slow = |name: &str, words: &str| {
        format!("function {name}; test -e {at} && echo {name} >>{at} && sleep 1000; {words}; end")
    };
    let slow = format!(
        "{}; {}",
        slow("drawing --on-event fish_prompt", "true"),
        slow("fish_prompt", "echo -n '> '")
    );
    let handle = with_startup_file(&scratch, "fish", &slow);
    scratch.ts(&["run", &handle, "true"]).code(0);
    let interrupted = |text: &str| {
        fs::write(&at, "").unwrap();
        scratch.ts(&["send", &handle, text]).code(0);
        for lines in 1..=2 {
            // Before that sleeps, an interrupt is fish's, and may be one of the whole prompt.
            eventually("the prompt being drawn", || {
                fs::read_to_string(&at).unwrap().lines().count() == lines
                    && scratch.processes().iter().any(|process| process.contains("sleep 1000"))
            });
            if lines == 2 {
                fs::remove_file(&at).unwrap();
            }
            scratch.ts(&["key", &handle, "C-c"]).code(0);
        }
        let is_back = || scratch.ts(&["status", "--json", &handle]).field("terminal") == "\"raw\"";
        eventually("fish reading", is_back);
    };
    interrupted("true");
    scratch.ts(&["run", &handle, "echo on; sh -c 'exit 7'"]).code(7).stdout("on\n").silent();
    // A command that was typed at such a prompt is not reported to begin.
    for (asks, name) in
        [("read -P 'Na''me? ' line", "line"), ("function f; read -gP 'Na''me? ' word; end; f", "word")]
    {
        interrupted("true");
        scratch.ts(&["send", &handle, asks]).code(0);
        scratch.ts(&["wait-pattern", &handle, "Name?"]).code(0);
        scratch.ts(&["run", &handle, "echo no"]).code(125).stdout("");
        scratch.ts(&["run", &handle, &format!("echo \"<${name}>\"")]).code(0).stdout("<>\n");
    }
    // What a program of the prompt asks for is no command.
    let asks =
        "function drawing --on-event fish_prompt; functions -e drawing; read -gP 'Upd''ate? ' answer; end";
    scratch.ts(&["send", &handle, asks]).code(0);
    scratch.ts(&["wait-pattern", &handle, "Update"]).code(0);
    scratch.ts(&["run", &handle, "echo no"]).code(125).stdout("");
    scratch.ts(&["run", &handle, "echo \"<$answer>\""]).code(0).stdout("<>\n");
}

#[test]
fn a_state_folder_of_any_name_will_do_for_every_shell() {
    let scratch = Scratch::new();
    let long = format!("echo {}", "x".repeat(5_000));
    for command in ["bash -l", "bash --posix", "zsh", "fish", "sh", "busybox ash", "ksh93", "mksh"] {
        // In ENV, ksh93 does not accept such a quote, however it is written.
        let quote = if command == "ksh93" { "" } else { "'" };
        let state = scratch.path.join(format!("it{quote}s a \"$HOME\" `x` \\n !x \u{e9}"));
        let ts = |words: &[&str]| {
            let mut call = scratch.command("nbs-ts");
            crate::support::run(call.env("NBS_TS_HOME", &state).args(words))
        };
        let handle = ts(&["create", "--no-helper", command]).code(0).out().trim().to_owned();
        let run = |text: &str| ts(&["run", "--timeout=20", &handle, text]);
        run("echo here").code(0).stdout("here\n").silent();
        run("echo one\necho two").code(0).stdout("one\ntwo\n").silent();
        run(&long).code(0).stdout(format!("{}\n", &long["echo ".len()..])).silent();
        ts(&["kill", &handle]).code(0);
    }
}

#[test]
fn a_small_shell_does_not_execute_a_command_after_the_timeout() {
    let scratch = Scratch::new();
    for command in ["sh", "busybox ash"] {
        let handle = scratch.create(command);
        scratch.ts(&["run", &handle, "echo on"]).code(0).stdout("on\n");
        let pid = scratch.file(&handle, "pid");
        let signal = |name: &str| drop(crate::support::run(Command::new("kill").args([name, &pid])).code(0));
        signal("-STOP");
        eventually("its stop", || crate::support::state_of(&pid) == Some('T'));
        scratch.ts(&["run", "--timeout=0.3", &handle, "touch late"]).code(124).stdout("");
        signal("-CONT");
        eventually("the shell", || {
            scratch.ts(&["run", "--timeout=20", &handle, "echo usable"]).stdout == b"usable\n"
        });
        assert!(!scratch.path.join("late").exists(), "{command}");
    }
}

#[test]
fn a_command_after_a_dropped_line_has_the_terminal_in_canonical_mode() {
    for command in ["bash", "zsh", "fish", "dash", "busybox ash", "ksh93", "mksh"] {
        let (scratch, handle) = Scratch::with_session(command);
        scratch.ts(&["send", "--no-enter", &handle, "half a line"]).code(0);
        eventually("its echo", || scratch.ts(&["screen", &handle]).out().contains("half a line"));
        for _ in 0..2 {
            let modes = scratch.ts(&["run", &handle, "stty -a"]).code(0);
            for mode in [" isig", " icanon", " echo "] {
                assert!(modes.out().replace('\n', " ").contains(mode), "{command}: {modes:?}");
            }
        }
    }
}

/// As by a shell that is slow between its editor's start and its prompt.
#[test]
fn half_a_line_that_is_typed_before_the_first_prompt_is_dropped() {
    for command in ["busybox ash", "mksh"] {
        let scratch = Scratch::new();
        scratch.bash("mkfifo gate").code(0);
        fs::write(scratch.path.join("rc"), "stty -icanon -echo; echo begun; : <gate").unwrap();
        let rc = format!("--env=ENV={}", scratch.path.join("rc").display());
        let handle = scratch.create_with(&[&rc], command);
        eventually("its start", || scratch.ts(&["read", &handle]).out().contains("begun"));
        scratch.ts(&["send", "--no-enter", &handle, "half a line"]).code(0);
        scratch.bash(": >gate").code(0);
        scratch.ts(&["run", &handle, "echo whole"]).code(0).stdout("whole\n");
    }
}

#[test]
fn run_prints_no_mark_of_a_shell_that_exits() {
    for command in ["bash", "zsh", "fish", "dash", "busybox ash", "ksh93", "mksh"] {
        let (scratch, handle) = Scratch::with_session(command);
        let ran = scratch.ts(&["run", &handle, "echo on; exit 8"]).code(125).complains("exit code 8");
        assert!(!ran.out().contains("133;"), "{command}: {ran:?}");
    }
}

#[test]
fn a_shell_that_is_not_there_is_told_of() {
    let scratch = Scratch::new();
    let nbs = fs::canonicalize(crate::support::binary()).unwrap();
    let mut call = scratch.command(nbs);
    crate::support::run(call.env("PATH", "/no/such").args(["ts", "create", "--no-helper", "fish"]))
        .code(1)
        .complains("cannot start 'fish': it is not on PATH");
}

/// However that was asked for; of the small ones nothing is needed that they forbid.
#[test]
fn a_restricted_shell_is_a_program_as_any_and_told_of() {
    let scratch = Scratch::new();
    for command in ["rbash", "bash -r", "bash --restricted --norc"] {
        let handle = scratch.create(command);
        let why = format!("'{command}' is a restricted shell");
        scratch.ts(&["run", &handle, "true"]).code(125).stdout("").complains(&why);
        scratch
            .ts(&["ask", &handle, "echo hi; cd /"])
            .code(0)
            .stdout_has("hi\n")
            .stdout_has("cd: restricted");
        assert!(!scratch.ts(&["read", &handle]).out().contains("/dev/null"));
    }
    let handle = scratch.create("mksh -r");
    scratch.ts(&["run", &handle, "echo hi"]).code(0).stdout("hi\n");
}

#[test]
fn run_names_a_program_that_replaced_a_small_shell() {
    let (scratch, handle) = Scratch::with_session("sh");
    scratch.ts(&["run", &handle, "exec cat"]).code(125).complains("'cat' replaced the shell");
    let mut kill = Command::new("kill");
    crate::support::run(kill.args(["-KILL", &scratch.file(&handle, "pid")])).code(0);
    scratch.wait_for_end(&handle);
}
