//! A nested shell: the effects of `integrate`, and the parts that it does not change.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    net::TcpListener,
    os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{
    shells::runs_what_all_do,
    support::{Scratch, eventually, libraries_of, run, signal},
};

/// A shell that is started inside another, and how the same is said to it.
struct Inner {
    outer: &'static str,
    /// The command that starts it.
    command: &'static str,
    /// Its name in the output of `integrate`.
    shell: &'static str,
    /// Sets x to 5.
    set: &'static str,
    /// Prints 1 and 2, each on a line, in several lines.
    many: &'static str,
    /// Ends with 7, and leaves the shell.
    seven: &'static str,
    /// The outer shell has this status.
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

const FISH: Inner = Inner {
    command: "fish --no-config -C 'function fish_prompt; echo -n \"mine# \"; end'",
    shell: "fish",
    set: "set x 5",
    many: "for i in 1 2\n  echo $i\nend",
    seven: "sh -c 'exit 7'",
    ..BASH
};

fn integrate(scratch: &Scratch, handle: &str, shell: &str) {
    let integrated = scratch.ts(&["integrate", "--json", "--timeout=60", handle]).code(0).silent();
    assert_eq!(integrated.field("shell"), format!("\"{shell}\""));
    assert_eq!(integrated.field("new"), "true");
}

fn try_inner(inner: &Inner) {
    try_inner_of(&Scratch::new(), inner, inner.command);
}

fn try_inner_of(scratch: &Scratch, inner: &Inner, command: &str) {
    let Inner { outer, shell, set, many, seven, status, .. } = inner;
    let handle = scratch.create(outer);
    let run = |text: &str| scratch.ts(&["run", "--timeout=60", &handle, text]);
    run("echo outer").code(0).stdout("outer\n");
    // It may be longer than the terminal is wide.
    scratch.ts(&["resize", &handle, "200x50"]).code(0);
    scratch.ts(&["send", &handle, command]).code(0);
    integrate(scratch, &handle, shell);
    // Nothing of it is visible, and the shell is at its prompt.
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
    let own_status = if *shell == "fish" { "echo $status" } else { "echo $?" };
    run(own_status).code(0).stdout("7\n").silent();
    runs_what_all_do(scratch, &handle, [set, many], 200 - "mine# ".len());
    run("echo '!x' \"a  b\" \u{e9}").code(0).stdout("!x a  b \u{e9}\n").silent();
    assert!(scratch.file(&handle, "completion.log").contains(" 130\n"));
    run("echo seen").code(0);
    scratch.ts(&["wait", &handle, "--input"]).code(0);
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
    fish_in_bash: FISH;
    a_shell_without_jobs: Inner { command: "PS1='mine# ' sh +m -i", ..POSIX };
}

#[test]
fn sh_in_a_chroot() {
    let scratch = Scratch::new();
    let root = scratch.path.join("root");
    // The whole of it: no terminals, no /proc, nothing of ours.
    let busybox = Path::new("/bin/busybox");
    for file in libraries_of(busybox).into_iter().chain([busybox.to_owned()]) {
        let place = root.join(file.strip_prefix("/").unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(file, place).unwrap();
    }
    for applet in ["sh", "stty", "sleep"] {
        symlink("busybox", root.join("bin").join(applet)).unwrap();
    }
    let command = format!("PS1='mine# ' unshare -rm chroot {} /bin/sh", root.display());
    try_inner_of(&scratch, &POSIX, &command);
}

#[test]
fn integrate_works_in_a_shell_of_su() {
    let scratch = Scratch::new();
    fs::set_permissions(&scratch.path, fs::Permissions::from_mode(0o755)).unwrap();
    try_inner_of(&scratch, &POSIX, "PS1='mine# ' su -p -s /bin/dash nobody");
}

#[test]
fn integrate_works_in_a_shell_of_sudo() {
    // It has a terminal of its own (use_pty).
    try_inner(&Inner { command: "SHELL=/bin/dash sudo -s PS1='mine# '", ..POSIX });
}

/// An sshd for one test, on a port of its own; every login gets the same program.
pub(crate) struct Sshd {
    server: Child,
    /// The command that starts a session there.
    pub(crate) command: String,
}

impl Sshd {
    pub(crate) fn start(scratch: &Scratch, program: &str) -> Sshd {
        let folder = scratch.path.join("ssh");
        fs::create_dir(&folder).unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        for key in ["host", "user"] {
            run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)])).code(0);
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let conf = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPermitRootLogin yes\nSetEnv HOME={}\nForceCommand {program}\n",
            path("host"),
            path("user.pub"),
            // Else shells there would write into the history of the user that runs the tests.
            scratch.home().display()
        );
        fs::write(path("conf"), conf).unwrap();
        // As root, it separates its privileges and needs this directory, which Debian makes at boot.
        if Path::new("/run").metadata().is_ok_and(|run| !run.permissions().readonly()) {
            let _ = fs::create_dir("/run/sshd");
        }
        let mut server = Command::new("/usr/sbin/sshd");
        let server = server.args(["-D", "-f", &path("conf"), "-E", &path("log")]).stdin(Stdio::null());
        let command = format!(
            "ssh -F none -i {} -p {port} -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no \
             -o LogLevel=ERROR 127.0.0.1",
            path("user")
        );
        let sshd = Sshd { server: server.spawn().unwrap(), command };
        eventually("the sshd", || {
            fs::read_to_string(path("log")).is_ok_and(|log| log.contains("Server listening"))
        });
        sshd
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

#[test]
fn bash_behind_ssh() {
    let scratch = Scratch::new();
    let sshd = Sshd::start(&scratch, "env PS1='mine# ' bash --norc");
    try_inner_of(&scratch, &BASH, &sshd.command);
}

#[test]
fn busybox_ash_behind_ssh() {
    let scratch = Scratch::new();
    let sshd = Sshd::start(&scratch, "env PS1='mine# ' busybox ash");
    try_inner_of(&scratch, &POSIX, &sshd.command);
}

#[test]
fn fish_behind_ssh() {
    let scratch = Scratch::new();
    fs::write(scratch.path.join("prompt.fish"), "function fish_prompt; echo -n 'mine# '; end\n").unwrap();
    let fish = format!("fish --no-config -C 'source {}'", scratch.path.join("prompt.fish").display());
    let sshd = Sshd::start(&scratch, &fish);
    let handle = scratch.create("bash");
    scratch.ts(&["send", &handle, &sshd.command]).code(0);
    integrate(&scratch, &handle, "fish");
    let run = |text: &str| scratch.ts(&["run", "--timeout=60", &handle, text]);
    run("echo hi").code(0).stdout("hi\n").silent();
    run(FISH.seven).code(7).stdout("").silent();
    run(FISH.many).code(0).stdout("1\n2\n").silent();
    run("exit 7").code(125).complains("has ended with exit code 7");
    run("echo $?").code(0).stdout("7\n");
}

#[test]
fn questions_of_ssh_and_of_programs_behind_it_are_seen() {
    let scratch = Scratch::new();
    let sshd = Sshd::start(&scratch, "env PS1='mine# ' bash --norc");
    let handle = scratch.create("bash");
    let ssh = sshd.command.replace("StrictHostKeyChecking=no", "StrictHostKeyChecking=ask");
    let asked = scratch.ts(&["run", &handle, &ssh]).code(123).complains("the terminal's state is line");
    assert!(asked.out().ends_with("(yes/no/[fingerprint])? "), "{asked:?}");
    scratch.ts(&["integrate", &handle]).code(1).complains("is not a known shell");
    scratch.ts(&["ask", &handle, "yes"]).code(0);
    let asked = scratch.ts(&["ask", &handle, "read -rsp 'Password: ' x"]).code(0);
    assert!(asked.out().ends_with("Password: "), "{asked:?}");
    scratch.ts(&["integrate", &handle]).code(1).complains("is at a secret prompt");
    let words = ["send", "--secret-stdin", "--prompt=Password: *$", &handle];
    scratch.ts_with_input(&words, b"hidden\n").code(0);
    scratch.ts(&["ask", &handle, "echo; echo ${#x}"]).code(0).stdout("\n6\n");
    let home = format!("{}/.bash_history\n", scratch.home().display());
    scratch.ts(&["ask", &handle, "echo $HISTFILE"]).code(0).stdout(home);
    assert!(!scratch.file(&handle, "output.log").contains("hidden"));
}

#[test]
fn integrate_reports_a_remote_hang_and_types_nothing_later() {
    let scratch = Scratch::new();
    let sshd = Sshd::start(&scratch, "printf 'mine# '; sleep 1000");
    let handle = scratch.create("bash");
    scratch.ts(&["send", &handle, &sshd.command]).code(0);
    scratch.ts(&["wait", "--pattern=mine#", &handle]).code(0);
    scratch.ts(&["integrate", "--timeout=2", &handle]).code(1).complains("no shell answered");
    // It has been interrupted, and that was its end.
    eventually("the outer shell", || {
        scratch.ts(&["run", "--timeout=60", &handle, "echo usable"]).stdout == b"usable\n"
    });
}

/// At any moment when it is killed: no shell is left that reads hidden lines, or does not echo.
#[test]
fn a_killed_integrate_leaves_the_shell_as_it_was_or_integrated() {
    for nested in ["bash --norc", "dash", "zsh -f", "fish --no-config"] {
        let (scratch, handle) = Scratch::with_session("bash --norc");
        for round in 0..12_u64 {
            scratch.ts(&["send", &handle, nested]).code(0);
            scratch.ts(&["wait", "--input", "--timeout=60", &handle]).code(0);
            let call = scratch.start(&["integrate", "--timeout=60", &handle]);
            std::thread::sleep(Duration::from_millis(round * 2));
            signal("-KILL", &call.pid().to_string());
            let killed = call.finish();
            let again = scratch.ts(&["integrate", "--timeout=60", &handle]);
            assert!(again.status.success(), "{nested}, {round}: {killed:?} {again:?}");
            let ran = scratch.ts(&[
                "run",
                "--timeout=60",
                &handle,
                "stty -a | tr ' ' '\\n' | command grep -x echo",
            ]);
            assert_eq!(ran.out(), "echo\n", "{nested}, {round}: {killed:?} {ran:?}");
            scratch.ts(&["eof", &handle]).code(0);
            scratch.ts(&["run", "--timeout=60", &handle, "true"]).code(0);
        }
    }
}

#[test]
fn a_text_is_shown_in_place_of_the_line_that_reads_it_at_any_width() {
    for nested in ["PS1='mine# ' bash --norc", "PS1='mine# ' dash", "PROMPT='mine# ' zsh -f", FISH.command] {
        let (scratch, handle) = Scratch::with_session("bash --norc");
        scratch.ts(&["send", &handle, nested]).code(0);
        scratch.ts(&["integrate", "--timeout=60", &handle]).code(0);
        for cols in 22..32 {
            scratch.ts(&["resize", &handle, &format!("{cols}x24")]).code(0);
            scratch.ts(&["run", "--timeout=60", &handle, "echo one\necho two"]).code(0).stdout("one\ntwo\n");
            let screen = scratch.ts(&["screen", &handle]).code(0).out();
            let shown = "mine# echo one\necho two\none\ntwo\nmine# ";
            let (above, _) = screen.trim_end().rsplit_once(shown.trim_end()).unwrap_or_default();
            assert!(above.ends_with('\n') && !above.contains("nbs_read"), "{nested}, {cols}:\n{screen}");
        }
    }
}

#[test]
fn a_shell_that_ends_meanwhile_is_told_of() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["send", &handle, "PS1='mine# ' dash -c 'printf \"mine# \"; read x; exit 5' || :"]).code(0);
    scratch.ts(&["wait", "--pattern=mine# ", &handle]).code(0);
    // By its arguments it is not interactive.
    scratch.ts(&["integrate", &handle]).code(1).complains("is not a known shell");
    scratch.ts(&["key", &handle, "Enter"]).code(0);
    let sshd = Sshd::start(&scratch, "printf 'mine# '; read x; exit 5");
    scratch.ts(&["send", &handle, &sshd.command]).code(0);
    eventually("ssh", || scratch.file(&handle, "output.log").matches("mine# \x1b").count() == 0);
    scratch.ts(&["wait", "--regex=^mine# $", &handle]).code(0);
    scratch.ts(&["integrate", "--timeout=60", &handle]).code(1).complains("it has ended");
    scratch.ts(&["run", &handle, "echo $?"]).code(0).stdout("5\n");
}

#[test]
fn half_a_line_that_was_typed_ahead_of_the_end_of_an_inner_shell_is_dropped() {
    let (scratch, handle) = Scratch::with_session("bash");
    for shell in ["dash", "bash"] {
        scratch.ts(&["send", &handle, shell]).code(0);
        scratch.ts(&["integrate", "--timeout=60", &handle]).code(0);
    }
    let gate = scratch.path.join("gate");
    run(Command::new("mkfifo").arg(&gate)).code(0);
    scratch.ts(&["send", &handle, &format!("cat {}; exit", gate.display())]).code(0);
    eventually("cat", || scratch.ts(&["status", "--json", &handle]).out().contains("\"program\":\"cat\""));
    scratch.ts(&["send", "--no-enter", &handle, "echo half "]).code(0);
    fs::write(&gate, "").unwrap();
    scratch.ts(&["wait", &handle, "--pattern=exit"]).code(0);
    scratch.ts(&["run", "--timeout=60", &handle, "echo whole"]).code(0).stdout("whole\n").silent();
}

#[test]
fn integrate_types_nothing_into_a_program_that_is_not_a_shell() {
    let (scratch, handle) = Scratch::with_session("bash");
    fs::write(scratch.path.join("long"), "line\n".repeat(100)).unwrap();
    scratch.ts(&["integrate", "12345678"]).code(2);
    scratch.ts(&["integrate"]).code(4).complains("missing SESSION");
    for (command, doing, name, quit) in [
        ("cat", "line", "'cat'", "C-d"),
        ("python3 -q", "raw", "'python3'", "C-d"),
        ("vim -u NONE", "raw", "'vim'", "vim"),
        ("less long", "raw", "'less'", "q"),
        ("bash -c 'read x'", "line", "'bash'", "Enter"),
        ("read -s x", "secret", "is at a secret prompt", "Enter"),
    ] {
        scratch.ts(&["send", &handle, command]).code(0);
        // The prompt that it was typed at may be there for a moment.
        let waits = || scratch.ts(&["wait", "--input", "--timeout=60", &handle]).code(0).out();
        eventually(command, || waits() == format!("{handle}\tinput\t{doing}\n"));
        let length = scratch.file(&handle, "output.log").len();
        scratch.ts(&["integrate", "--timeout=60", &handle]).code(1).stdout("").complains(name);
        assert_eq!(scratch.file(&handle, "output.log").len(), length, "{command}");
        match quit {
            "vim" => drop(scratch.ts(&["send", &handle, ":q!"]).code(0)),
            key => drop(scratch.ts(&["key", &handle, key]).code(0)),
        }
        scratch.ts(&["run", "--timeout=60", &handle, "echo usable"]).code(0).stdout("usable\n");
    }
    // A program that reads nothing is waited for.
    scratch.ts(&["send", &handle, "sleep 1000"]).code(0);
    scratch.ts(&["integrate", "--timeout=0.2", &handle]).code(1).complains("is in the foreground");
    scratch.ts(&["key", &handle, "C-c"]).code(0);
    scratch.ts(&["run", "--timeout=60", &handle, "exit 4"]).code(125);
    scratch.ts(&["integrate", &handle]).code(1).complains("has ended with exit code 4");
}

#[test]
fn the_sessions_own_shell_reports_already() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["run", &handle, "true"]).code(0);
    let told = scratch.ts(&["integrate", "--json", &handle]).code(0);
    assert_eq!([told.field("shell"), told.field("new")], ["\"bash\"", "false"]);
    scratch.ts(&["integrate", &handle]).code(0).stdout("").silent();
}

#[test]
fn the_second_of_two_concurrent_integrates_finds_it_done() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["send", &handle, "bash --norc"]).code(0);
    let words = ["integrate", "--json", "--timeout=60", &handle];
    let both = [scratch.start(&words), scratch.start(&words)];
    let mut new = both.map(|running| running.finish().code(0).field("new"));
    new.sort();
    assert_eq!(new, ["false", "true"]);
    scratch.ts(&["run", &handle, "echo once"]).code(0).stdout("once\n");
}

#[test]
fn integrate_types_nothing_into_a_busy_shell_that_reports() {
    let scratch = Scratch::new();
    let sshd = Sshd::start(&scratch, "bash --norc");
    for command in ["bash --norc", &sshd.command] {
        let handle = scratch.create("bash");
        scratch.ts(&["send", &handle, command]).code(0);
        integrate(&scratch, &handle, "bash");
        scratch.ts(&["send", &handle, "read -p 'which? ' x"]).code(0);
        scratch.ts(&["wait", &handle, "--pattern=which? "]).code(0);
        let busy = scratch.ts(&["run", &handle, "true"]).code(125);
        assert!(busy.err().contains("it is busy") && !busy.err().contains("integrate"), "{busy:?}");
        let length = scratch.file(&handle, "output.log").len();
        if command == "bash --norc" {
            scratch
                .ts(&["integrate", "--timeout=0.3", &handle])
                .code(1)
                .complains("no nested shell shows a prompt");
            assert_eq!(scratch.file(&handle, "output.log").len(), length);
        }
        scratch.ts(&["send", &handle, "this"]).code(0);
        scratch.ts(&["run", "--timeout=60", &handle, "echo $x"]).code(0).stdout("this\n");
    }
}

#[test]
fn nothing_is_printed_of_interrupts_that_are_not_heeded() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["send", &handle, "bash --norc"]).code(0);
    integrate(&scratch, &handle, "bash");
    // It ends before it is given up, and a second interrupt has come by then.
    let deaf = scratch.start(&["run", &handle, "sh -c \"trap '' INT; printf deaf; sleep 1\""]);
    eventually("its output", || scratch.file(&handle, "output.log").ends_with("deaf"));
    assert!(Command::new("kill").args(["-s", "INT", &deaf.pid().to_string()]).status().unwrap().success());
    deaf.finish().code(126).stdout("deaf");
    assert!(scratch.file(&handle, "output.log").contains("deaf^C^C"));
}

#[test]
fn what_a_slow_call_has_not_seen_before_its_interrupt_is_output_and_no_echo() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["send", &handle, "bash --norc"]).code(0);
    integrate(&scratch, &handle, "bash");
    let gate = scratch.path.join("gate");
    run(Command::new("mkfifo").arg(&gate)).code(0);
    let text = format!("sh -c \"trap '' INT; printf a; cat {}\"", gate.display());
    let call = scratch.start(&["run", &handle, &text]);
    let printed = |what: &str| eventually(what, || scratch.file(&handle, "output.log").ends_with(what));
    printed("a");
    let mut gate = OpenOptions::new().write(true).open(&gate).unwrap();
    let pid = call.pid().to_string();
    signal("-STOP", &pid);
    // It is told of the first output only, since it asks for no more.
    for (piece, so_far) in [("b", "ab"), ("c", "abc"), ("d", "abcd")] {
        gate.write_all(piece.as_bytes()).unwrap();
        printed(so_far);
    }
    signal("-INT", &pid);
    signal("-CONT", &pid);
    printed("abcd^C^C");
    drop(gate);
    call.finish().code(126).stdout("abcd");
}

#[test]
fn integrate_works_again_after_suspend_and_fg() {
    let (scratch, handle) = Scratch::with_session("bash");
    let run = |text: &str| scratch.ts(&["run", "--timeout=60", &handle, text]);
    scratch.ts(&["send", &handle, "level=1 bash --norc"]).code(0);
    integrate(&scratch, &handle, "bash");
    run("suspend").code(125).complains("is stopped");
    run("echo \"<$level>\"").code(0).stdout("<>\n").silent();
    scratch.ts(&["send", &handle, "fg"]).code(0);
    scratch.ts(&["wait", "--regex=^bash-.*# $", &handle]).code(0);
    run("true").code(125).complains("integrate");
    integrate(&scratch, &handle, "bash");
    run("echo \"<$level>\"").code(0).stdout("<1>\n").silent();
}

#[test]
fn shells_inside_each_other_are_told_apart() {
    let (scratch, handle) = Scratch::with_session("bash");
    let ran = |text: &str, printed: &str| {
        scratch.ts(&["run", "--timeout=60", &handle, text]).code(0).stdout(printed);
    };
    ran("level=0", "");
    for (level, shell, command) in
        [("1", "bash", "bash --norc"), ("2", "posix", "dash"), ("3", "zsh", "zsh -f"), ("4", "posix", "sh")]
    {
        scratch.ts(&["send", &handle, command]).code(0);
        integrate(&scratch, &handle, shell);
        ran(&format!("level={level}; echo $level"), &format!("{level}\n"));
    }
    for level in ["3", "2", "1", "0"] {
        scratch.ts(&["run", "--timeout=60", &handle, "exit"]).code(125);
        ran("echo $level", &format!("{level}\n"));
    }
    // And one after another, with the earlier output printed again.
    scratch.ts(&["send", &handle, "bash --norc"]).code(0);
    integrate(&scratch, &handle, "bash");
    let log = scratch.folder(&handle).join("output.log");
    scratch.ts(&["run", "--timeout=60", &handle, &format!("cat {}; (exit 3)", log.display())]).code(3);
    ran("echo still", "still\n");
    scratch.ts(&["doctor"]).code(0);
}

#[test]
fn text_typed_by_integrate_is_not_in_the_history() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["send", &handle, "HISTFILE= HISTCONTROL= bash --norc"]).code(0);
    integrate(&scratch, &handle, "bash");
    scratch
        .ts(&["run", &handle, "history | sed 's/^ *[0-9]* *//'"])
        .stdout("history | sed 's/^ *[0-9]* *//'\n");
}

#[test]
fn a_shell_in_the_place_of_the_sessions_own_can_be_taught() {
    let scratch = Scratch::new();
    for (command, shell) in [("exec zsh -f", "zsh"), ("exec bash --norc", "bash"), ("exec dash", "posix")] {
        let handle = scratch.create("bash");
        let replaced = scratch.ts(&["run", &handle, command]).code(125);
        replaced.complains(&format!("'nbs-ts integrate {handle}' to make run work in it"));
        integrate(&scratch, &handle, shell);
        let run = |text: &str| scratch.ts(&["run", "--timeout=60", &handle, text]);
        run("echo hi; (exit 7)").code(7).stdout("hi\n").silent();
        run("echo $?").code(0).stdout("7\n").silent();
        run("exit 5").code(125).complains("ended with exit code 5");
    }
    // A program that is not a shell is reported at once.
    let handle = scratch.create("bash");
    scratch.ts(&["run", &handle, "exec cat"]).code(125).complains("try 'nbs-ts ask'");
    let refused = scratch.ts(&["integrate", "--timeout=1h", &handle]).code(1);
    refused.complains("'cat' is in the foreground and is not a known shell");
}

#[test]
fn a_program_that_ends_in_a_shell_can_be_taught_too() {
    let (scratch, handle) = Scratch::with_session("PS1='mine# ' dash -i; exit 3");
    scratch.ts(&["run", &handle, "true"]).code(125).complains("not an interactive shell");
    integrate(&scratch, &handle, "posix");
    scratch.ts(&["run", &handle, "echo hi; (exit 7)"]).code(7).stdout("hi\n");
    scratch.ts(&["send", &handle, "(exit 5)"]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("5\n");
    scratch.ts(&["run", &handle, "exit 9"]).code(125).complains("ended with exit code 3");
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("3\n");
    scratch.ts(&["doctor"]).code(0);
}
