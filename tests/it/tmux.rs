mod answers; // what tmux 3.3a answers to many commands

use std::{fs, process::Command};

use crate::support::{Ran, Scratch, binary, eventually, run, start};

/// `tmux` with these arguments.
fn tmux(scratch: &Scratch, arguments: &[&str]) -> Ran {
    run(scratch.command(binary()).arg("tmux").args(arguments))
}

/// The same, which must go well.
fn told(scratch: &Scratch, arguments: &[&str]) -> String {
    tmux(scratch, arguments).code(0).silent().out().trim_end_matches('\n').to_owned()
}

/// Has a session `a`, which runs `cat`.
fn with_session() -> Scratch {
    let scratch = Scratch::new();
    told(&scratch, &["new-session", "-d", "-s", "a", "cat"]);
    scratch
}

fn refused(scratch: &Scratch, arguments: &[&str], why: &str) {
    let ran = tmux(scratch, arguments).code(1).stdout("");
    assert_eq!(ran.err(), format!("{why}\n"), "{arguments:?}");
}

fn screen_has(scratch: &Scratch, target: &str, text: &str) {
    eventually(text, || told(scratch, &["capture-pane", "-p", "-t", target]).contains(text));
}

#[test]
fn a_pane_is_a_session_and_ends_with_its_program() {
    let scratch = Scratch::new();
    told(&scratch, &["new-session", "-d", "-s", "a.b", "-x", "100", "-y", "30", "cat"]);
    assert_eq!(told(&scratch, &["list-sessions", "-F", "#S #{session_windows}"]), "a_b 1");
    let pane =
        told(&scratch, &["new-window", "-dP", "-n", "two", "-F", "#D", "-t", "a_b", "sh", "-c", "exit 3"]);
    assert_eq!(pane, "%1");
    scratch.ts(&["list"]).code(0).stdout_has("tmux.a_b.0.0").stdout_has("cat");
    eventually("the window's end", || told(&scratch, &["list-windows", "-F", "#I:#W"]) == "0:cat");
    tmux(&scratch, &["has-session", "-t", "a_b"]).code(0).silent().stdout("");
    let size = told(&scratch, &["display-message", "-p", "-t", "a_b", "#{pane_width}x#{pane_height}"]);
    assert_eq!(size, "100x30");
    told(&scratch, &["rename-session", "-t", "a_b", "c"]);
    scratch.ts(&["list"]).code(0).stdout_has("tmux.c.0.0");
    scratch.ts(&["doctor"]).code(0);
    told(&scratch, &["kill-session", "-t", "c"]);
    let socket = scratch.state().join("tmux/default");
    refused(&scratch, &["ls"], &format!("no server running on {}", socket.display()));
}

/// Not in that of the session: tmux does the same.
#[test]
fn a_pane_starts_in_the_folder_of_the_call() {
    let scratch = Scratch::new();
    for folder in ["one", "two"] {
        fs::create_dir(scratch.path.join(folder)).unwrap();
    }
    let call = |folder: &str, arguments: &[&str]| {
        let folder = scratch.path.join(folder);
        let ran = run(scratch.command(binary()).arg("tmux").current_dir(folder).args(arguments));
        ran.code(0).silent();
    };
    call("one", &["new-session", "-d", "-s", "a", "cat"]);
    call("two", &["new-window", "-d", "-t", "a", "cat"]);
    call("two", &["split-window", "-d", "-t", "a:0", "cat"]);
    call("two", &["new-window", "-d", "-t", "a", "-c", "../one", "cat"]);
    call("two", &["new-window", "-d", "-t", "a", "-c", "missing", "cat"]);
    let path = scratch.path.display();
    let paths = |format: &str| told(&scratch, &["list-panes", "-s", "-t", "a", "-F", format]);
    assert_eq!(
        paths("#I.#P #{pane_start_path}"),
        format!(
            "0.0 {path}/one\n0.1 {path}/two\n1.0 {path}/two\n2.0 {path}/two/../one\n3.0 {path}/two/missing"
        )
    );
    let home = scratch.path.join("home");
    let home = home.display();
    eventually("where they are", || {
        paths("#I.#P #{pane_current_path}")
            == format!("0.0 {path}/one\n0.1 {path}/two\n1.0 {path}/two\n2.0 {path}/one\n3.0 {home}")
    });
    let user = |format: &str| told(&scratch, &["display-message", "-p", format]);
    let id = |option: &str| run(Command::new("id").arg(option)).code(0).out().trim_end().to_owned();
    assert_eq!(user("#{uid} #{user}"), format!("{} {}", id("-u"), id("-un")));
    told(&scratch, &["kill-server"]);
}

#[test]
fn errors_are_those_of_tmux() {
    let scratch = Scratch::new();
    let socket = scratch.state().join("tmux/x");
    let why = format!("error connecting to {} (No such file or directory)", socket.display());
    refused(&scratch, &["-L", "x", "list-sessions"], &why);
    refused(&scratch, &["new-session", "-s", "a"], "open terminal failed: not a terminal");
    told(&scratch, &["new-session", "-d", "-s", "a", "cat"]);
    for (arguments, why) in [
        (&["new-session", "-d", "-s", "a"][..], "duplicate session: a"),
        (&["has-session", "-t", "b"], "can't find session: b"),
        (&["kill-session", "-t", "=b"], "can't find session: b"),
        (&["kill-window", "-t", "b"], "can't find window: b"),
        (&["kill-pane", "-t", "%9"], "can't find pane: %9"),
        (&["kill-pane", "-t", "=a"], "can't find pane: =a"),
        (&["new-window", "-t", "a:0"], "create window failed: index 0 in use"),
        (&["respawn-pane", "-t", "a"], "respawn pane failed: pane a:0.0 still active"),
        (&["show-buffer", "-b", "x"], "no buffer x"),
        (&["delete-buffer", "-b", "x"], "unknown buffer: x"),
        (&["send-keys", "-X", "cancel"], "not in a mode"),
        (&["wait-for", "-U", "x"], "channel x not locked"),
        (&["show-options", "-g", "nosuch"], "invalid option: nosuch"),
        (&["set-option", "-g", "s", "1"], "ambiguous option: s"),
        (&["show-environment", "X"], "unknown variable: X"),
        (&["frobnicate"], "unknown command: frobnicate"),
        (&["list-s", "-Z"], "command list-sessions: unknown flag -Z"),
        (&["rename-window"], "command rename-window: too few arguments (need at least 1)"),
        (&["kill-server", "x"], "command kill-server: too many arguments (need at most 0)"),
        (&["attach-session"], "open terminal failed: not a terminal"),
    ] {
        refused(&scratch, arguments, why);
    }
    assert_eq!(told(&scratch, &["display-message", "-p", "-t", "b", "x#{pane_id}y"]), "xy");
    assert_eq!(told(&scratch, &["-V"]), "tmux 3.3a");
    assert_eq!(told(&scratch, &["display", "-p", "one", ";", "display", "-p", "two\\;"]), "one\ntwo;");
}

#[test]
fn times_are_local() {
    let scratch = with_session();
    let created = told(&scratch, &["display-message", "-p", "#{session_created}"]);
    for zone in ["UTC0", "<+0530>-5:30", "EST5EDT,M3.2.0,M11.1.0"] {
        let shown = "%F %T %z %Z";
        let words = ["tmux", "list-sessions", "-F", &format!("#{{t/f/{shown}:session_created}}")];
        let ran = run(scratch.command(binary()).args(words).env("TZ", zone));
        let date = run(scratch
            .command("date")
            .args([&format!("-d@{created}"), &format!("+{shown}")])
            .env("TZ", zone));
        assert_eq!(ran.code(0).out(), date.code(0).out(), "{zone}");
    }
}

#[test]
fn what_looks_like_a_variable_in_a_name_is_escaped() {
    let scratch = Scratch::new();
    told(&scratch, &["new-session", "-d", "-s", "${USER} $x $1 a\\b$", "cat"]);
    assert_eq!(told(&scratch, &["list-sessions", "-F", "#S"]), "\\${USER} \\$x $1 a\\\\b$");
}

#[test]
fn flags_of_tmux_3_5_are_known() {
    let scratch = Scratch::new();
    told(&scratch, &["new-session", "-d", "-s", "a", "echo text; exec cat"]);
    screen_has(&scratch, "a", "text");
    assert_eq!(told(&scratch, &["capture-pane", "-pTN"]), "text");
    assert_eq!(told(&scratch, &["display-message", "-pl", "#{session_name} %H"]), "#{session_name} %H");
    assert_eq!(told(&scratch, &["list-clients", "-f", "1"]), "");
}

#[test]
fn ten_thousand_typed_characters_all_arrive() {
    let scratch = Scratch::new();
    let file = scratch.path.join("typed");
    let text: String = (0..1_000).map(|number| format!("{number:>9}\n")).collect();
    told(&scratch, &["new-session", "-d", "-s", "a", "sleep 0.3; cat >typed"]);
    told(&scratch, &["send-keys", "-l", &text]);
    told(&scratch, &["send-keys", "-t", "a", "C-d"]);
    eventually("all of it", || fs::read_to_string(&file).is_ok_and(|typed| typed == text));
}

#[test]
fn any_count_of_repeats_takes_little_memory() {
    let scratch = Scratch::new();
    told(&scratch, &["new-session", "-d", "-s", "a", "stty raw -echo; echo ready; exec sleep 1000"]);
    screen_has(&scratch, "a", "ready");
    for (count, why) in [
        ("4294967295", "the program does not read"),
        ("4294967296", "repeat count too large"),
        ("-1", "repeat count too small"),
        ("x", "repeat count invalid"),
    ] {
        let mut bash = scratch.command("bash");
        bash.args(["-c", "ulimit -v 200000; exec \"$@\"", "bash"]);
        run(bash.arg(binary()).args(["tmux", "send-keys", "-N", count, "abc"])).code(1).complains(why);
    }
}

#[test]
fn keys_are_typed_by_their_names() {
    let scratch = Scratch::new();
    told(&scratch, &["new-session", "-d", "-s", "a", "stty raw -echo; echo ready; cat -v"]);
    screen_has(&scratch, "a", "ready");
    told(&scratch, &["send-keys", "-N", "2", "ab", "Up", "Enter"]);
    told(&scratch, &["send-keys", "-H", "41", "0x42"]);
    screen_has(&scratch, "a", "ab^[[A^Mab^[[A^MAB");
}

#[test]
fn panes_share_their_window() {
    let scratch = with_session();
    let id = told(
        &scratch,
        &["split-window", "-d", "-t", "a", "-h", "-l", "70%", "-PF", "#{pane_id}", "--", "cat"],
    );
    assert_eq!(id, "%1");
    let layout = || told(&scratch, &["display", "-p", "-t", "a", "#{window_layout}"]);
    assert_eq!(layout(), "95c5,80x24,0,0{23x24,0,0,0,56x24,24,0,1}");
    told(&scratch, &["resize-pane", "-t", "%0", "-R", "5"]);
    assert_eq!(told(&scratch, &["list-panes", "-F", "#{pane_width}"]), "28\n51");
    let command = "cd /; echo here; exec cat";
    told(&scratch, &["respawn-pane", "-k", "-t", "%1", "--", command]);
    screen_has(&scratch, "%1", "here");
    eventually("its folder", || {
        told(&scratch, &["display", "-p", "-t", "%1", "#{pane_current_path}"]) == "/"
    });
    eventually("its program", || {
        told(&scratch, &["display", "-p", "-t", "%1", "#{pane_current_command}"]) == "cat"
    });
    told(&scratch, &["resize-pane", "-Z", "-t", "%1"]);
    assert_eq!(told(&scratch, &["display", "-p", "-t", "%1", "#{pane_width} #{window_zoomed_flag}"]), "80 1");
    let pane = told(&scratch, &["break-pane", "-d", "-s", "%1", "-PF", "#{window_index} #{pane_id}"]);
    assert_eq!(pane, "1 %1");
    told(&scratch, &["join-pane", "-s", "%1", "-t", "%0"]);
    assert_eq!(layout(), "c195,80x24,0,0[80x12,0,0,0,80x11,0,13,1]");
    told(&scratch, &["swap-pane", "-s", "%0", "-t", "%1"]);
    assert_eq!(told(&scratch, &["list-panes", "-F", "#{pane_index} #D"]), "0 %1\n1 %0");
    told(&scratch, &["kill-pane", "-t", "%1"]);
    assert_eq!(layout(), "b25d,80x24,0,0,0");
}

#[test]
fn a_dead_pane_stays_if_that_is_wanted() {
    let scratch = with_session();
    told(&scratch, &["set-option", "-g", "remain-on-exit", "on"]);
    let status = "#{pane_dead} #{pane_dead_status}#{pane_dead_signal}";
    for (command, expected) in [("exit 7", "1 7"), ("kill -KILL $$", "1 9"), ("true", "1 0")] {
        let pane = told(&scratch, &["new-window", "-dPF", "#D", command]);
        eventually("its end", || told(&scratch, &["display", "-p", "-t", &pane, status]) == expected);
        told(&scratch, &["respawn-pane", "-t", &pane, "cat"]);
        assert_eq!(told(&scratch, &["display", "-p", "-t", &pane, "#{pane_dead}"]), "0");
        told(&scratch, &["kill-window", "-t", &pane]);
    }
}

#[test]
fn what_a_screen_shows_is_captured() {
    let scratch = Scratch::new();
    let script = "seq 30; printf '\\033[31mred\\033[0m  \\nblue'; exec cat";
    told(&scratch, &["new-session", "-d", "-s", "a", "-x", "20", "-y", "5", script]);
    screen_has(&scratch, "a", "blue");
    let capture = |flags: &[&str]| {
        let arguments = [&["capture-pane", "-p", "-t", "a"], flags].concat();
        tmux(&scratch, &arguments).code(0).silent().out()
    };
    assert_eq!(capture(&[]), "28\n29\n30\nred\nblue\n");
    assert_eq!(capture(&["-S", "-2", "-E", "0"]), "26\n27\n28\n");
    assert_eq!(capture(&["-S", "-"]).lines().count(), 32);
    assert!(capture(&["-e"]).contains("\x1b[31mred\x1b[39m"), "{:?}", capture(&["-e"]));
    assert!(capture(&["-N"]).contains("red  "));
    told(&scratch, &["capture-pane", "-b", "x"]);
    assert_eq!(tmux(&scratch, &["show-buffer", "-b", "x"]).code(0).out(), "28\n29\n30\nred\nblue\n");
    told(&scratch, &["clear-history", "-t", "a"]);
    assert_eq!(capture(&["-S", "-"]).lines().count(), 5);
    tmux(&scratch, &["capture-pane", "-pa"]).code(1).stdout("");
}

#[test]
fn a_pane_keeps_as_many_lines_as_its_history_limit() {
    let scratch = Scratch::new();
    let script = "seq 2500; read x; seq 40; read x; echo end; exec cat";
    told(&scratch, &["new-session", "-d", "-s", "a", script]);
    told(&scratch, &["set-option", "-g", "history-limit", "3000"]);
    told(&scratch, &["new-window", "-d", "-t", "a:1", "seq 4000; exec cat"]);
    let lines = |pane: &str| {
        let size = told(&scratch, &["display", "-p", "-t", pane, "#{history_size} #{history_limit}"]);
        let text = tmux(&scratch, &["capture-pane", "-p", "-S", "-", "-t", pane]).code(0).out();
        (text.lines().count() - 24, text.lines().next().unwrap_or_default().to_owned(), size)
    };
    screen_has(&scratch, "a:1", "4000");
    assert_eq!(lines("a:1"), (3000, "978".into(), "3000 3000".into()));
    screen_has(&scratch, "a:0", "2500");
    assert_eq!(lines("a:0"), (2000, "478".into(), "2000 2000".into()));
    // A full one, too, is empty when it has been cleared.
    told(&scratch, &["clear-history", "-t", "a:0"]);
    assert_eq!(lines("a:0"), (0, "2478".into(), "0 2000".into()));
    told(&scratch, &["send-keys", "-t", "a:0", "Enter"]);
    screen_has(&scratch, "a:0", "40");
    assert_eq!(lines("a:0"), (41, "2478".into(), "41 2000".into()));
    told(&scratch, &["clear-history", "-t", "a:0", ";", "send-keys", "-t", "a:0", "-R", "Enter"]);
    screen_has(&scratch, "a:0", "end");
    let shown = tmux(&scratch, &["capture-pane", "-p", "-S", "-", "-t", "a:0"]).code(0).out();
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), ["end"]);
    scratch.ts(&["doctor"]).code(0);
}

#[test]
fn a_pipe_gets_what_comes_and_outlives_the_call() {
    let scratch = Scratch::new();
    let file = scratch.path.join("piped");
    told(&scratch, &["new-session", "-d", "-s", "a", "cat"]);
    told(&scratch, &["pipe-pane", "-t", "a", "cat > piped"]);
    assert_eq!(told(&scratch, &["display", "-p", "-t", "a", "#{pane_pipe}"]), "1");
    told(&scratch, &["send-keys", "-t", "a", "hello", "Enter"]);
    eventually("the output", || fs::read_to_string(&file).is_ok_and(|text| text == "hello\r\nhello\r\n"));
    told(&scratch, &["pipe-pane", "-t", "a"]);
    told(&scratch, &["send-keys", "-t", "a", "more", "Enter"]);
    screen_has(&scratch, "a", "more\nmore");
    assert_eq!(fs::read_to_string(&file).unwrap(), "hello\r\nhello\r\n");
}

#[test]
fn channels_wake_all_who_wait_and_lock_one() {
    let scratch = with_session();
    let waits = |scratch: &Scratch| start(scratch.command(binary()).args(["tmux", "wait-for", "done"]));
    let waiting: Vec<_> = (0..3).map(|_| waits(&scratch)).collect();
    let state = scratch.state().join("tmux/default/state");
    let waiters = || {
        fs::read_to_string(&state)
            .unwrap()
            .lines()
            .find(|line| line.starts_with("c\tdone"))
            .map_or(0, |line| line.matches(',').count())
    };
    eventually("three who wait", || waiters() == 3);
    told(&scratch, &["wait-for", "-S", "done"]);
    for one in waiting {
        one.finish().code(0);
    }
    told(&scratch, &["wait-for", "-S", "done"]);
    told(&scratch, &["wait-for", "done"]);
    told(&scratch, &["wait-for", "-L", "done"]);
    let locker = start(scratch.command(binary()).args(["tmux", "wait-for", "-L", "done"]));
    eventually("one who waits", || waiters() == 1);
    told(&scratch, &["wait-for", "-U", "done"]);
    locker.finish().code(0);
    told(&scratch, &["wait-for", "-U", "done"]);
    refused(&scratch, &["wait-for", "-U", "done"], "channel done not locked");
}

#[test]
fn options_variables_and_hooks_are_kept() {
    let scratch = Scratch::new();
    told(&scratch, &["new-session", "-d", "-s", "a", "-e", "GIVEN=1 2", "cat"]);
    assert_eq!(told(&scratch, &["show-environment", "GIVEN"]), "GIVEN=1 2");
    told(&scratch, &["set-environment", "LATER", "3"]);
    let pane = told(&scratch, &["new-window", "-dPF", "#D", "echo $GIVEN-$LATER-$TMUX_PANE; exec cat"]);
    screen_has(&scratch, &pane, &format!("1 2-3-{pane}"));
    told(&scratch, &["set-option", "-g", "@own", "a b"]);
    assert_eq!(told(&scratch, &["show-options", "-gv", "@own"]), "a b");
    assert_eq!(told(&scratch, &["display", "-p", "#{@own}"]), "a b");
    refused(&scratch, &["set-option", "-go", "@own", "c"], "already set: @own");
    refused(&scratch, &["set-option", "-g", "status-interval", "x"], "value is invalid: x");
    told(&scratch, &["set-option", "-g", "base-index", "1"]);
    told(&scratch, &["new-session", "-d", "-s", "b", "cat"]);
    assert_eq!(told(&scratch, &["list-windows", "-t", "b", "-F", "#I"]), "1");
    told(&scratch, &["set-hook", "-g", "after-new-window", "set-option -g @hooked '#{session_name}'"]);
    told(&scratch, &["new-window", "-d", "-t", "b", "cat"]);
    assert_eq!(told(&scratch, &["show-options", "-gv", "@hooked"]), "#{session_name}");
    let hook = "session-renamed[0]";
    told(&scratch, &["set-hook", "-p", hook, "set -g @c 1"]);
    assert_eq!(told(&scratch, &["show-hooks", hook]), format!("{hook} set-option -g @c 1"));
    told(&scratch, &["set-hook", "-u", hook]);
    assert_eq!(told(&scratch, &["show-hooks", "-w", hook]), format!("{hook} "));
    told(&scratch, &["set-hook", "-u", "session-renamed"]);
    assert_eq!(told(&scratch, &["show-hooks", hook]), "");
    fs::write(scratch.path.join("conf"), "set -g @a 'x;y' # no\nif-shell true { set -g @b 2 }\n").unwrap();
    told(&scratch, &["source-file", "conf"]);
    assert_eq!(told(&scratch, &["display", "-p", "#{@a} #{@b}"]), "x;y 2");
    tmux(&scratch, &["run-shell", "echo out; exit 5"]).code(5).stdout("out\n");
}

#[test]
fn a_mode_takes_the_keys_until_it_ends() {
    let scratch = Scratch::new();
    let pane = told(&scratch, &["new-session", "-d", "-s", "a", "-P", "-F", "#{pane_id}", "cat"]);
    let mode = || told(&scratch, &["display", "-p", "#{pane_in_mode} #{pane_mode}"]);
    assert_eq!(mode(), "0 ");
    told(&scratch, &["copy-mode"]);
    told(&scratch, &["find-window", "x"]);
    assert_eq!(mode(), "2 tree-mode");
    told(&scratch, &["send-keys", "lost", ";", "send-keys", "q", ";", "send-keys", "-X", "page-up"]);
    assert_eq!(mode(), "1 copy-mode");
    told(&scratch, &["send-keys", "-X", "copy-pipe-and-cancel"]);
    assert_eq!(mode(), "0 ");
    refused(&scratch, &["send-keys", "-X", "page-up"], "not in a mode");
    told(
        &scratch,
        &["clock-mode", ";", "customize-mode", ";", "copy-mode", "-q", ";", "send-keys", "q1", "Enter"],
    );
    screen_has(&scratch, &pane, "q1\nq1");
    assert!(!told(&scratch, &["capture-pane", "-p"]).contains("lost"));
    told(&scratch, &["copy-mode"]);
    told(&scratch, &["respawn-pane", "-k"]);
    assert_eq!(mode(), "0 ");
}

#[test]
fn an_error_does_not_write_control_sequences_to_the_terminal() {
    let scratch = with_session();
    refused(&scratch, &["select-layout", "\x1b]0;é\x07"], "invalid layout: \\e]0;é\\x07");
}

#[test]
fn no_other_users_have_access() {
    let scratch = with_session();
    assert_eq!(told(&scratch, &["server-access", "-l"]), "");
    refused(&scratch, &["server-access"], "missing user argument");
}

#[test]
fn keys_are_kept_and_listed() {
    let scratch = with_session();
    told(&scratch, &["bind-key", "-n", "F12", "display", "a b", "\\;", "kill-pane"]);
    told(&scratch, &["bind-key", "-r", "x", "set -g @x 1"]);
    told(&scratch, &["bind-key", "C-b", "kill-pane"]);
    let root = "bind-key -T root F12 display-message \"a b\" \\; kill-pane";
    let prefix = [
        "bind-key    -T prefix C-b kill-pane",
        "bind-key    -T prefix d   detach-client",
        "bind-key -r -T prefix x   set-option -g @x 1",
    ];
    assert_eq!(told(&scratch, &["list-keys", "-T", "root"]), root);
    assert_eq!(told(&scratch, &["list-keys", "-T", "prefix"]), prefix.join("\n"));
    assert_eq!(told(&scratch, &["list-keys", "x"]), prefix[2].replace("x  ", "x"));
    told(&scratch, &["unbind-key", "-n", "F12"]);
    told(&scratch, &["unbind-key", "-a"]);
    refused(&scratch, &["list-keys", "F12"], "unknown key: F12");
    assert_eq!(told(&scratch, &["list-keys"]).lines().count(), 2);
    refused(&scratch, &["bind-key", "Foo", "kill-pane"], "unknown key: Foo");
    refused(&scratch, &["list-keys", "-T", "other"], "table other doesn't exist");
    refused(&scratch, &["bind-key", "x", "frobnicate"], "unknown command: frobnicate");
}

#[test]
fn what_is_killed_leaves_the_others_as_they_are() {
    let scratch = Scratch::new();
    for name in ["a", "b", "c"] {
        told(&scratch, &["new-session", "-d", "-s", name, "cat"]);
    }
    let handle = told(&scratch, &["display", "-p", "-t", "b", "#{pane_session}"]);
    let relay = scratch.file(&handle, "daemon_pid");
    run(scratch.command("kill").args(["-KILL", &relay])).code(0);
    eventually("its end", || told(&scratch, &["list-sessions", "-F", "#S"]) == "a\nc");
    told(&scratch, &["send-keys", "-t", "c", "still", "Enter"]);
    screen_has(&scratch, "c", "still\nstill");
    let other = scratch.path.join("other");
    run(scratch.command(binary()).args(["tmux", "-L", "o", "new-session", "-d", "cat"]).env("X", &other))
        .code(0);
    assert_eq!(told(&scratch, &["-L", "o", "ls", "-F", "#S"]), "0");
    told(&scratch, &["kill-server"]);
    assert_eq!(told(&scratch, &["-L", "o", "ls", "-F", "#S"]), "0");
    scratch.ts(&["list"]).code(0).stdout_has("tmux-o.0.0.0");
}

#[test]
fn a_window_has_the_name_of_its_command_until_something_is_printed() {
    let scratch = Scratch::new();
    told(&scratch, &["new-session", "-d", "-s", "b", "cat"]);
    told(&scratch, &["set-option", "-g", "default-shell", "/bin/bash"]);
    told(&scratch, &["new-session", "-d", "-s", "c", "read x; cat"]);
    eventually("the shell", || {
        told(&scratch, &["display", "-p", "-t", "c", "#{pane_current_command}"]) == "bash"
    });
    // That shell is not the window that `b` names.
    assert_eq!(told(&scratch, &["display", "-p", "-t", "b", "#S"]), "b");
    assert_eq!(told(&scratch, &["display", "-p", "-t", "c", "#W"]), "read");
    told(&scratch, &["send-keys", "-t", "c", "1", "Enter"]);
    eventually("its new name", || told(&scratch, &["display", "-p", "-t", "c", "#W"]) == "cat");
}

/// The system calls of a call as `tmux`, each with how many of its kind there were up to it.
fn system_calls(scratch: &Scratch, arguments: &[&str]) -> Vec<(String, usize)> {
    let file = scratch.path.join("calls");
    let mut strace = scratch.command("strace");
    strace.args(["-qq", "-o"]).arg(&file).arg(binary()).arg("tmux").args(arguments);
    run(&mut strace).code(0);
    let mut calls: Vec<(String, usize)> = Vec::new();
    for line in fs::read_to_string(file).unwrap().lines() {
        let Some((name, _)) = line.split_once('(') else { continue };
        let count = calls.iter().filter(|(other, _)| other == name).count() + 1;
        calls.push((name.to_owned(), count));
    }
    calls
}

#[test]
fn a_killed_call_leaves_no_pipe_that_no_pane_names() {
    let scratch = with_session();
    let file = scratch.path.join("piped");
    let making = ["pipe-pane", "-t", "a", &format!("exec cat > {}", file.display())];
    let calls = system_calls(&scratch, &making);
    let started = calls.iter().position(|(name, _)| name.contains("fork") || name.contains("clone")).unwrap();
    let pipes = || {
        let pane = told(&scratch, &["display", "-p", "-t", "a", "#{pane_session}"]);
        let found = run(Command::new("pgrep").args(["-f", &format!("^nbs-tmux-pipe {pane} ")]));
        found.out().lines().count()
    };
    assert_eq!(pipes(), 1);
    for (name, count) in &calls[started + 1..] {
        let mut strace = scratch.command("strace");
        strace.args(["-qq", "-o", "/dev/null", "-e", &format!("inject={name}:signal=KILL:when={count}")]);
        run(strace.arg(binary()).arg("tmux").args(making));
        eventually("the pipes that are named", || {
            pipes() == usize::from(told(&scratch, &["display", "-p", "-t", "a", "#{pane_pipe}"]) == "1")
        });
    }
    told(&scratch, &["kill-server"]);
}

#[test]
fn a_killed_call_leaves_no_session_that_no_window_names() {
    let scratch = with_session();
    let making = ["new-window", "-d", "cat"];
    let calls = system_calls(&scratch, &making);
    // From when the relay is ready to when all is written down.
    let ready = calls.iter().position(|(name, _)| name == "shutdown").unwrap();
    let mut left = 0;
    for (name, count) in calls[ready..].iter().step_by((calls.len() - ready).div_ceil(8)) {
        let mut strace = scratch.command("strace");
        strace.args(["-qq", "-o", "/dev/null", "-e", &format!("inject={name}:signal=KILL:when={count}")]);
        run(strace.arg(binary()).arg("tmux").args(making));
        let alive = scratch.ts(&["list"]).out().matches("\talive\t").count();
        let panes = || told(&scratch, &["list-panes", "-a"]).lines().count();
        if alive != panes() {
            left += 1;
            let doctor = run(scratch.command(binary()).args(["ts", "doctor"])).code(1).out();
            assert!(doctor.contains("no pane names it"), "{doctor}");
        }
        told(&scratch, &["set-option", "-g", "@any", "1"]);
        let list = scratch.ts(&["list"]).out();
        assert_eq!(list.matches("\talive\ttmux.a.").count(), panes(), "{name} {count}: {list}");
        assert_eq!(list.lines().count(), panes(), "{name} {count}: {list}");
    }
    assert!(left > 0);
    scratch.ts(&["doctor"]).code(0);
    // The next call ends the sessions that are still to be ended, also if no server runs any more.
    told(&scratch, &["kill-server"]);
    told(&scratch, &["new-session", "-d", "-s", "a", "cat"]);
    let calls = system_calls(&scratch, &["kill-server"]);
    told(&scratch, &["new-session", "-d", "-s", "a", "cat"]);
    let stored = calls.iter().position(|(name, _)| name == "renameat").unwrap();
    let (name, count) = &calls[stored + 1];
    let mut strace = scratch.command("strace");
    strace.args(["-qq", "-o", "/dev/null", "-e", &format!("inject={name}:signal=KILL:when={count}")]);
    run(strace.arg(binary()).args(["tmux", "kill-server"]));
    scratch.ts(&["list"]).code(0).stdout_has("alive");
    tmux(&scratch, &["kill-server"]).code(1);
    scratch.ts(&["list"]).code(0).stdout("");
}

#[test]
fn a_person_attaches_and_detaches_by_the_keys_of_tmux() {
    let scratch = Scratch::new();
    told(&scratch, &["new-session", "-d", "-s", "a", "echo inside; exec cat"]);
    let person = scratch.create("bash");
    scratch.ts(&["send", &person, &format!("{} tmux attach -t a", binary().display())]).code(0);
    let sees = |text: &str| eventually(text, || scratch.ts(&["screen", &person]).out().contains(text));
    sees("inside");
    let attached = || told(&scratch, &["display", "-p", "-t", "a", "#{session_attached}"]);
    eventually("a client", || attached() == "1");
    scratch.ts(&["send", &person, "typed"]).code(0);
    screen_has(&scratch, "a", "typed\ntyped");
    scratch.ts(&["key", &person, "C-b", "d"]).code(0);
    sees("[detached (from session a)]");
    eventually("no client", || attached() == "0");
    scratch.ts(&["send", &person, &format!("{} tmux attach", binary().display())]).code(0);
    eventually("a client", || attached() == "1");
    told(&scratch, &["detach-client", "-s", "a"]);
    eventually("no client", || attached() == "0");
}

#[test]
fn a_damaged_state_is_told_and_harms_nobody() {
    let scratch = with_session();
    told(&scratch, &["split-window", "-d", "-t", "a", "cat"]);
    scratch.ts(&["doctor"]).code(0);
    let file = scratch.state().join("tmux/default/state");
    let state = fs::read_to_string(&file).unwrap();
    fs::write(&file, state.replace("80x24", "0x")).unwrap();
    scratch.ts(&["doctor"]).code(1).stdout_has("tmux/default/state' is damaged");
    assert_eq!(told(&scratch, &["list-panes", "-F", "#D"]), "%0\n%1");
    told(&scratch, &["select-pane", "-t", "%1"]);
    scratch.ts(&["doctor"]).code(0);
    fs::write(&file, "m\t1\nw\t7\n").unwrap();
    tmux(&scratch, &["list-sessions"]).code(1).stdout("");
    let stray = scratch.state().join("tmux/default/stray");
    fs::write(&stray, "").unwrap();
    scratch.ts(&["doctor"]).code(1).stdout_has("stray' is not a file of nbs");
    fs::remove_file(stray).unwrap();
    fs::remove_file(file).unwrap();
}

#[test]
fn a_link_is_made_only_if_it_is_wanted() {
    let scratch = Scratch::new();
    let install = |words: &[&str]| run(scratch.command(binary()).arg("--install").args(words));
    install(&["."]).code(0);
    assert!(!scratch.path.join("tmux").exists());
    install(&["--tmux", "."]).code(0);
    run(scratch.command(scratch.path.join("tmux")).arg("-V")).code(0).stdout("tmux 3.3a\n");
}
