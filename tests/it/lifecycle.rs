use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use crate::support::{Mount, Scratch, eventually, field, run, signal};

#[test]
fn create_prints_the_handle_and_nothing_else() {
    let scratch = Scratch::new();
    let ran = scratch.ts(&["create", "--no-helper", "true"]).code(0).silent();
    assert_eq!(ran.stdout.len(), 9, "{ran:?}");
    let ran = scratch.ts(&["create", "--no-helper", "--json", "true"]).code(0).silent();
    assert_eq!(ran.field("handle").len(), 10, "{ran:?}");
}

#[test]
fn a_session_is_made_of_the_files_that_the_contract_names() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--name=work.1"], "echo one; exit 7");
    scratch.wait_for_end(&handle);
    let file = |name| scratch.file(&handle, name);
    assert_eq!(file("name"), "work.1");
    assert_eq!(file("command"), "echo one; exit 7");
    assert_eq!(file("exit_code"), "7");
    assert_eq!(file("completion.log"), "0 7\n");
    let meta = file("meta");
    let [command, start] = meta.lines().collect::<Vec<_>>()[..] else { panic!("{meta}") };
    assert_eq!(command, "command: echo one; exit 7");
    assert!(start.strip_prefix("start: ").unwrap().parse::<u64>().unwrap() > 1_700_000_000);
    for number in ["pid", "daemon_pid"] {
        file(number).parse::<u64>().unwrap();
    }
    // These have a position for the next call, once there is one.
    for (call, number, place) in
        [("read-new", "read_cursor", "5"), ("wait-complete", "completion_cursor", "1")]
    {
        assert!(!scratch.folder(&handle).join(number).exists(), "{number}");
        scratch.ts(&[call, &handle]).code(0);
        assert_eq!(file(number), place);
    }
    assert!(file("slave_pty").starts_with("/dev/pts/"));
    assert!(file("exit.json").starts_with("{\"type\":\"pty_exited\","));
    assert!(!scratch.folder(&scratch.create("true")).join("name").exists());
}

#[test]
fn a_session_begins_with_the_files_that_have_something_to_tell() {
    let scratch = Scratch::new();
    let files = |handle: &str| {
        let entries = fs::read_dir(scratch.folder(handle)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<std::collections::BTreeSet<String>>()
    };
    let all = [
        "command",
        "daemon_pid",
        "input.fifo",
        "meta",
        "output.log",
        "pid",
        "relay.sock",
        "settings",
        "slave_pty",
    ];
    let and = |more: &[&str]| all.iter().chain(more).map(|name| (*name).to_owned()).collect();
    let once = scratch.create("exec cat");
    assert_eq!(files(&once), and(&[]));
    assert_eq!(files(&scratch.create("bash")), and(&["bashrc", "completion.log", "secret"]));
    assert_eq!(files(&scratch.create_with(&["--size=100x30", "--name=x"], "cat")), and(&["name", "sizes"]));
    // A session whose size changes gets this file.
    scratch.ts(&["resize", &once, "132x43"]).code(0);
    eventually("the sizes", || files(&once).contains("sizes"));
    assert_eq!(scratch.file(&once, "sizes"), "0 80 24\n0 132 43\n");
    scratch.ts(&["wait-complete", "--timeout=0", &once]).code(3);
    scratch.ts(&["read-new", &once]).code(0).stdout("");
    scratch.ts(&["eof", &once]).code(0);
    scratch.ts(&["wait-complete", &once]).code(0).stdout("0\n");
    assert_eq!(scratch.file(&once, "completion.log"), "0 0\n");
}

#[test]
fn everything_is_private_whatever_the_umask() {
    let scratch = Scratch::new();
    for umask in ["000", "077", "777"] {
        let ran = scratch.bash(&format!("umask {umask}; nbs-ts create --no-helper umask")).code(0);
        let handle = ran.out().trim().to_owned();
        scratch.wait_for_end(&handle);
        scratch.ts(&["read-new", &handle]).code(0).stdout(format!("0{umask}\r\n"));
        for entry in fs::read_dir(scratch.folder(&handle)).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", entry.file_name());
        }
        assert_eq!(fs::metadata(scratch.folder(&handle)).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(scratch.state()).unwrap().mode() & 0o777, 0o700);
    }
}

#[test]
fn the_words_of_a_command_are_joined_and_options_end_where_it_begins() {
    let scratch = Scratch::new();
    let ran = scratch.ts(&["create", "printf", "'<%s>'", "--name=x", "--", "$((6*7))"]).code(0);
    let handle = ran.out().trim().to_owned();
    scratch.wait_for_end(&handle);
    scratch.ts(&["read", &handle]).stdout("<--name=x><--><42>");
    let ran = scratch.ts(&["create", "--", "--help"]).code(0);
    let handle = ran.out().trim().to_owned();
    scratch.wait_for_end(&handle);
    assert_eq!(scratch.file(&handle, "command"), "--help");
    scratch.ts(&["status", &handle]).stdout("dead\nexit_code: 127\n");
}

#[test]
fn a_command_of_any_bytes_is_kept_as_it_is() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    let command = b"printf '\xff\t\x1b[1m%s' \"a'b\"\nexit 3";
    let mut call = scratch.command("nbs-ts");
    let ran = run(call.arg("create").arg(std::ffi::OsStr::from_bytes(command))).code(0);
    let handle = ran.out().trim().to_owned();
    scratch.wait_for_end(&handle);
    assert_eq!(fs::read(scratch.folder(&handle).join("command")).unwrap(), command);
    assert_eq!(scratch.file(&handle, "meta").lines().count(), 2);
    scratch.ts(&["read", &handle]).stdout(b"\xff\t\x1b[1ma'b");
    let listed = scratch.ts(&["list"]).code(0);
    assert_eq!(listed.out().lines().count(), 1, "{listed:?}");
    assert!(!listed.stdout.contains(&0x1b), "{listed:?}");
    assert_eq!(scratch.ts(&["list", "--json"]).field("lossy"), "true");
}

#[test]
fn exit_codes_are_the_childs_own() {
    let scratch = Scratch::new();
    let all: Vec<String> = [0, 1, 2, 3, 42, 126, 127, 128, 129, 137, 200, 254, 255]
        .map(|code| scratch.create(&format!("exit {code}")))
        .into();
    for (handle, code) in all.iter().zip([0, 1, 2, 3, 42, 126, 127, 128, 129, 137, 200, 254, 255]) {
        scratch.ts(&["wait-complete", handle]).code(0).stdout(format!("{code}\n"));
        scratch.wait_for_end(handle);
        scratch.ts(&["exit-code", handle]).code(0).stdout(format!("{code}\n"));
    }
    for (signal, number) in [("HUP", 1), ("INT", 2), ("KILL", 9), ("SEGV", 11), ("TERM", 15), ("USR1", 10)] {
        let handle = scratch.create(&format!("kill -{signal} $$"));
        scratch.ts(&["wait-complete", &handle]).code(0).stdout(format!("{}\n", 128 + number));
        scratch.wait_for_end(&handle);
        let exit_record = scratch.file(&handle, "exit.json");
        assert_eq!(field(&exit_record, "signal"), format!("\"SIG{signal}\""), "{exit_record}");
    }
}

#[test]
fn exec_and_traps_change_no_exit_code() {
    let scratch = Scratch::new();
    for (command, code) in [
        ("exec sh -c 'exit 9'", 9),
        ("trap 'exit 4' EXIT; exit 1", 4),
        ("trap '' EXIT; exit 5", 5),
        ("exec /no/such/program", 127),
        ("set -e; false; true", 1),
    ] {
        let handle = scratch.create(command);
        scratch.ts(&["wait-complete", &handle]).code(0).stdout(format!("{code}\n"));
    }
}

#[test]
fn while_it_runs_there_is_no_exit_code() {
    let (scratch, handle) = Scratch::with_session("sleep 1000");
    scratch.ts(&["status", &handle]).code(0).stdout("alive\n").silent();
    scratch.ts(&["exit-code", &handle]).code(0).stdout("-1\n");
    let status = scratch.ts(&["status", "--json", &handle]).code(0);
    assert_eq!(status.field("state"), "\"alive\"");
    assert_eq!(status.field("exit_code"), "null");
    assert_eq!(status.field("pid"), scratch.file(&handle, "pid"));
    assert_eq!(status.field("stalled"), "null");
}

#[test]
fn the_child_gets_a_terminal_of_its_own_and_nothing_of_the_caller() {
    let scratch = Scratch::new();
    // Descriptors 7 and 50 are the caller's, and so are the signals that it ignores and blocks. Without
    // close_range(2), before Linux 5.9, descriptors are closed one by one.
    for through in ["", "strace --daemonize -qq -f -o /dev/null -e inject=close_range:error=ENOSYS"] {
        nothing_of_the_caller_is_in_a_session_of(&scratch, through);
    }
}

fn nothing_of_the_caller_is_in_a_session_of(scratch: &Scratch, through: &str) {
    let script = r#"
        exec 7</dev/null 50>/dev/null
        trap '' HUP INT QUIT PIPE TERM TSTP TTOU USR1 ALRM
        THROUGH nbs-ts create --no-helper 'ls /proc/self/fd; grep -E "^Sig(Ign|Blk)" /proc/self/status; stty size; tty; ps -o sid=,pgid=,tpgid= -p $$; echo $$ $TERM'
    "#;
    let script = script.replace("THROUGH", through);
    let handle = scratch.bash(&script).code(0).silent().out().trim().to_owned();
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("0\n");
    let printed = scratch.ts(&["read", &handle]).out().replace("\r\n", "\n");
    let lines: Vec<&str> = printed.lines().collect();
    // The view of a program of the session, as bash itself ignores SIGQUIT. 3 is the directory that `ls`
    // reads.
    let descriptors: Vec<&str> = lines.iter().take_while(|line| !line.starts_with("Sig")).copied().collect();
    assert!(
        descriptors
            .iter()
            .flat_map(|line| line.split_whitespace())
            .all(|fd| ["0", "1", "2", "3"].contains(&fd)),
        "{printed}"
    );
    let rest = &lines[descriptors.len()..];
    for line in &rest[..2] {
        let mask = u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
        // glibc's posix_spawn leaves its own two signals, 32 and 33, ignored.
        assert_eq!(mask & !(0b11 << 31), 0, "{printed}");
    }
    assert_eq!(rest[2], "24 80");
    assert_eq!(rest[3], scratch.file(&handle, "slave_pty"));
    let pid = scratch.file(&handle, "pid");
    assert_eq!(rest[4].split_whitespace().collect::<Vec<_>>(), [&pid; 3], "{printed}");
    assert_eq!(rest[5], format!("{pid} xterm-256color"));
}

#[test]
fn signals_that_the_caller_blocks_reach_the_child() {
    let scratch = Scratch::new();
    let program = "import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
for ignored in (signal.SIGILL, signal.SIGFPE, signal.SIGSEGV, signal.SIGHUP): signal.signal(ignored, signal.SIG_IGN)
os.execvp('nbs-ts', ['nbs-ts', 'create', '--no-helper', 'grep -E \"^Sig(Ign|Blk)\" /proc/self/status; exit 3'])";
    let handle = run(scratch.command("python3").args(["-c", program])).code(0).out().trim().to_owned();
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("3\n");
    for line in scratch.ts(&["read", &handle]).out().lines() {
        let mask = u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
        assert_eq!(mask & !(0b11 << 31), 0, "{line}");
    }
}

#[test]
fn a_session_has_the_size_folder_and_environment_that_were_asked_for() {
    let scratch = Scratch::new();
    let folder = scratch.path.join("a folder");
    fs::create_dir(&folder).unwrap();
    let mut call = scratch.command("nbs-ts");
    call.env("TMUX", "x").env("TMUX_PANE", "y").env("KEPT", "kept").args([
        "create",
        "--cwd=a folder",
        "--size=132x43",
        "--env=ONE=1=1",
        "--env",
        "TWO=zwei drei",
        "pwd; stty size; echo ${TMUX-none} ${TMUX_PANE-none} $KEPT $ONE $TWO $PAGER $NBS_TS_SESSION",
    ]);
    let handle = run(&mut call).code(0).out().trim().to_owned();
    scratch.ts(&["wait-complete", &handle]).code(0);
    let expected = format!("{}\r\n43 132\r\nnone none kept 1=1 zwei drei cat {handle}\r\n", folder.display());
    scratch.ts(&["read", &handle]).stdout(expected);
    let handle = scratch.create("pwd");
    scratch.ts(&["wait-complete", &handle]).code(0);
    scratch.ts(&["read", &handle]).stdout(format!("{}\r\n", scratch.path.display()));
}

#[test]
fn a_create_that_fails_leaves_nothing_behind() {
    let scratch = Scratch::new();
    scratch.ts(&["create", "--cwd=/no/such/folder", "true"]).code(1).stdout("").complains("/no/such/folder");
    scratch.ts(&["create", "--cwd=/etc/passwd", "true"]).code(1).stdout("").complains("/etc/passwd");
    let nbs = fs::canonicalize(crate::support::binary()).unwrap();
    let mut call = scratch.command(nbs);
    run(call.env("PATH", "/no/such").args(["ts", "create", "true"]))
        .code(1)
        .complains("nbs-ts: cannot start 'sh'");
    assert_eq!(fs::read_dir(scratch.state().join("sessions")).map_or(0, Iterator::count), 0);
}

#[test]
fn the_relay_holds_no_folder_of_the_caller() {
    let (scratch, handle) = Scratch::with_session("sleep 1000");
    let relay = scratch.file(&handle, "daemon_pid");
    assert_eq!(fs::read_link(format!("/proc/{relay}/cwd")).unwrap().to_str(), Some("/"));
    let words = fs::read(format!("/proc/{relay}/cmdline")).unwrap();
    assert!(words.starts_with(format!("nbs-relay\0{handle}\0").as_bytes()), "{words:?}");
    assert_eq!(fs::read_to_string(format!("/proc/{relay}/comm")).unwrap(), "nbs-relay\n");
}

#[test]
fn the_callers_pipes_and_locks_are_let_go() {
    let scratch = Scratch::new();
    // If the relay kept a pipe of the caller, `cat` would never see its end.
    let script = "x=$(nbs-ts create --no-helper 'sleep 1000'; nbs-ts create --no-helper 'sleep 1000' 2>&1 | cat); echo ${#x}";
    scratch.bash(script).code(0).stdout("17\n");
    let script = "exec 9>lock; flock 9; nbs-ts create --no-helper 'sleep 1000' >/dev/null; exec 9>&-; flock -n lock echo free";
    scratch.bash(script).code(0).stdout("free\n");
    let script = "cat < <(nbs-ts create --no-helper 'sleep 1000') | wc -l; nbs-ts create --no-helper 'sleep 1000' > >(wc -l)";
    scratch.bash(script).code(0).stdout("1\n1\n");
}

#[test]
fn list_shows_the_oldest_first_and_escapes_what_is_not_text() {
    let scratch = Scratch::new();
    let first = scratch.create_with(&["--name=build-1"], "exit 0");
    scratch.wait_for_end(&first);
    let second = scratch.create("sleep 1000 # a\tb\nc");
    let third = scratch.create_with(&["--name=build-2"], "sleep 1000");
    scratch.ts(&["list"]).code(0).silent().stdout(format!(
        "{first}\tdead\tbuild-1\texit 0\n{second}\talive\t-\tsleep 1000 # a\\tb\\nc\n{third}\talive\tbuild-2\tsleep 1000\n"
    ));
    scratch
        .ts(&["list", "--name=build"])
        .stdout(format!("{first}\tdead\tbuild-1\texit 0\n{third}\talive\tbuild-2\tsleep 1000\n"));
    scratch.ts(&["list", "--name", "d-2"]).stdout(format!("{third}\talive\tbuild-2\tsleep 1000\n"));
    scratch.ts(&["list", "--name=nobody"]).code(0).stdout("");
    let objects = scratch.ts(&["list", "--json"]).code(0).out();
    assert_eq!(objects.lines().count(), 3);
    assert_eq!(field(objects.lines().next().unwrap(), "exit_code"), "0");
    assert_eq!(field(objects.lines().nth(1).unwrap(), "name"), "null");
}

#[test]
fn any_number_is_listed_in_the_order_of_making() {
    let scratch = Scratch::new();
    // The file system has them in an order of its own, which for few may be the same.
    let made: Vec<String> = (0..8).map(|_| scratch.create("exit 0")).collect();
    let listed = scratch.ts(&["list"]).code(0).out();
    let listed: Vec<&str> = listed.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(listed, made);
}

#[test]
fn a_name_stands_for_the_newest_live_session_else_the_newest_dead_one() {
    let scratch = Scratch::new();
    let old = scratch.create_with(&["--name=x"], "exit 1");
    scratch.wait_for_end(&old);
    let newer = scratch.create_with(&["--name=x"], "exit 2");
    scratch.wait_for_end(&newer);
    scratch.ts(&["find", "x"]).code(0).stdout(format!("{newer}\n"));
    scratch.ts(&["exit-code", "@x"]).code(0).stdout("2\n");
    let live = scratch.create_with(&["--name=x"], "sleep 1000");
    let dead = scratch.create_with(&["--name=x"], "exit 3");
    scratch.wait_for_end(&dead);
    scratch.ts(&["find", "x"]).code(0).stdout(format!("{live}\n"));
    scratch.ts(&["status", "@x"]).stdout("alive\n");
    let newest = scratch.create_with(&["--name=x"], "sleep 1000");
    scratch.ts(&["find", "x"]).stdout(format!("{newest}\n"));
    scratch.create_with(&["--name=xx"], "sleep 1000");
    scratch.ts(&["find", "x"]).stdout(format!("{newest}\n"));
}

#[test]
fn a_listing_is_the_same_however_much_of_a_session_must_be_looked_at() {
    let scratch = Scratch::new();
    let long = format!("exec sleep 1000 # {}", "x".repeat(500));
    let handle = scratch.create_with(&["--name=a"], "printf '\\e[1m\t'; exec sleep 1000");
    let other = scratch.create(&long);
    let expected =
        format!("{handle}\talive\ta\tprintf '\\e[1m\\t'; exec sleep 1000\n{other}\talive\t-\t{long}\n");
    scratch.ts(&["list"]).code(0).stdout(&expected);
    // Before Linux 5.6, and where a filter of system calls knows no newer ones.
    for errno in ["ENOSYS", "EPERM"] {
        let mut strace = scratch.command("strace");
        strace.args([
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            &format!("inject=openat2:error={errno}"),
            "nbs-ts",
            "list",
        ]);
        run(&mut strace).code(0).stdout(&expected);
    }
    // Written over, the file is the same one, and its lock is held.
    let meta = scratch.folder(&handle).join("meta");
    let before = fs::read(&meta).unwrap();
    for content in [&b""[..], b"command: \x1b[2J\n", b"\xff\n\nstart: 1\n"] {
        fs::write(&meta, content).unwrap();
        // The age of the file does not affect the output.
        run(std::process::Command::new("touch").args(["-d", "1 hour ago"]).arg(&meta)).code(0);
        scratch.ts(&["list"]).code(0).stdout(&expected);
    }
    fs::write(&meta, before).unwrap();
    // Another file in its place is not locked; but the relay is there.
    for put in ["cp meta other; mv other meta", "rm meta", "ln -s /etc/passwd meta", "rm meta; mkdir meta"] {
        let script = format!("cd {} && {put}", scratch.folder(&handle).display());
        scratch.bash(&script).code(0);
        let listed = scratch.ts(&["list"]).code(0).out();
        for line in expected.lines() {
            assert!(listed.contains(line), "{put}: {listed}");
        }
        scratch.ts(&["status", &handle]).code(0).stdout("alive\n");
        scratch.ts(&["send", "@a", "x"]).code(0);
    }
    scratch.ts(&["gc", "--hours=0"]).code(0).stdout_has("kept 2 alive");
    scratch.ts(&["kill", &handle]).code(0);
}

#[test]
fn a_session_has_one_start_and_one_end_wherever_they_are_told() {
    let (scratch, handle) = Scratch::with_session("read x; exit 3");
    let live = [scratch.ts(&["status", "--json", &handle]), scratch.ts(&["list", "--json"])];
    let started = live[0].field("started");
    for told in &live {
        assert_eq!(
            (told.field("started"), told.field("ended")),
            (started.clone(), "null".into()),
            "{told:?}"
        );
    }
    let seconds = started.split('.').next().unwrap();
    assert!(scratch.file(&handle, "meta").ends_with(&format!("\nstart: {seconds}\n")), "{started}");
    scratch.ts(&["send", &handle, "go"]).code(0);
    scratch.wait_for_end(&handle);
    let exit_record = scratch.file(&handle, "exit.json");
    let ended = field(&exit_record, "ended");
    let others = [&["status", "--json", &handle][..], &["list", "--json"], &["events"]];
    let others: Vec<String> = others.iter().map(|call| scratch.ts(call).out()).collect();
    let removed = scratch.ts(&["gc", "--hours=0", "--json"]).out();
    for told in others.iter().chain([&exit_record, &removed]) {
        assert_eq!(
            (field(told, "started"), field(told, "ended")),
            (started.clone(), ended.clone()),
            "{told}"
        );
    }
    let micros = |time: &str| time.replace('.', "").parse::<i64>().unwrap();
    let lasted = (micros(&ended) - micros(&started)) / 1_000;
    assert!(
        (field(&exit_record, "duration_ms").parse::<i64>().unwrap() - lasted).abs() <= 1,
        "{exit_record}"
    );
}

#[test]
fn unknown_values_of_a_session_are_null() {
    let (scratch, handle) = Scratch::with_session("exec sleep 1000");
    fs::remove_file(scratch.folder(&handle).join("meta")).unwrap();
    let both = || [scratch.ts(&["status", "--json", &handle]).out(), scratch.ts(&["list", "--json"]).out()];
    for told in both() {
        for (name, value) in
            [("state", "\"alive\""), ("started", "null"), ("ended", "null"), ("exit_code", "null")]
        {
            assert_eq!(field(&told, name), value, "{name}: {told}");
        }
    }
    // No process knows when it ended, and no file has the time of its last output.
    signal("-KILL", &scratch.file(&handle, "daemon_pid"));
    fs::remove_file(scratch.folder(&handle).join("output.log")).unwrap();
    scratch.wait_for_end(&handle);
    let event = scratch.ts(&["events"]).code(0).silent().out();
    assert_eq!(field(&event, "duration_ms"), "null", "{event}");
    for told in both().iter().chain([&event]) {
        assert_eq!((field(told, "started"), field(told, "ended")), ("null".into(), "null".into()), "{told}");
    }
    let removed = format!("gc: removed {handle} (-), dead for unknown time");
    scratch.ts(&["gc"]).code(0).silent().stdout_has(&removed);
}

#[test]
fn gc_removes_what_has_long_been_dead_and_says_so() {
    let scratch = Scratch::new();
    let named = scratch.create_with(&["--name=old"], "exit 0");
    let unnamed = scratch.create("exit 0");
    let recent = scratch.create("exit 0");
    let alive = scratch.create("sleep 1000");
    for handle in [&named, &unnamed, &recent] {
        scratch.wait_for_end(handle);
    }
    for (handle, hours) in [(&named, "5"), (&unnamed, "100")] {
        let end = scratch.folder(handle).join("exit_code");
        run(std::process::Command::new("touch").args(["-d", &format!("{hours} hours ago")]).arg(end)).code(0);
    }
    let ran = scratch.ts(&["gc"]).code(0).silent();
    ran.stdout(format!(
        "gc: removed {named} (old), dead for 5h\ngc: removed {unnamed} (-), dead for 100h\n\
         gc: removed 2 sessions, kept 1 alive + 1 recent dead\n"
    ));
    scratch.ts(&["status", &named]).code(2);
    scratch.ts(&["gc", "--hours=0"]).code(0).stdout(format!(
        "gc: removed {recent} (-), dead for 0h\ngc: removed 1 sessions, kept 1 alive + 0 recent dead\n"
    ));
    scratch.ts(&["status", &alive]).code(0).stdout("alive\n");
}

#[test]
fn gc_collects_what_was_left_half_made_and_spares_what_is_being_made() {
    let scratch = Scratch::new();
    scratch.create("exit 0");
    let sessions = scratch.state().join("sessions");
    for name in [".new.0000abcd", ".gone.0000abce"] {
        fs::create_dir(sessions.join(name)).unwrap();
        fs::write(sessions.join(name).join("meta"), "").unwrap();
        fs::write(sessions.join(name).join("output.log"), "x").unwrap();
    }
    let held = sessions.join(".new.0000abcf");
    fs::create_dir(&held).unwrap();
    let lock = fs::File::create(held.join("meta")).unwrap();
    lock.lock().unwrap();
    scratch.ts(&["gc"]).code(0);
    assert!(!sessions.join(".new.0000abcd").exists() && !sessions.join(".gone.0000abce").exists());
    assert!(held.exists());
    lock.unlock().unwrap();
    {
        // A file that cannot be removed is reported.
        let _mounted = Mount::tmpfs(&held, "size=64k");
        fs::write(held.join("lock"), "").unwrap();
        scratch.ts(&["gc"]).code(1).complains("cannot remove '.new.0000abcf'");
    }
    scratch.ts(&["gc"]).code(0);
    assert!(!held.exists());
}

#[test]
fn an_idle_session_costs_no_wake_up() {
    let (scratch, handle) = Scratch::with_session("cat");
    scratch.ts(&["send", &handle, "ready"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "ready\r\nready"]).code(0);
    let relay = scratch.file(&handle, "daemon_pid");
    let switches = || {
        let tasks = fs::read_dir(format!("/proc/{relay}/task")).unwrap();
        let statuses = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap());
        let lines = statuses.flat_map(|status| status.lines().map(str::to_owned).collect::<Vec<_>>());
        let counts = lines.filter(|line| line.contains("ctxt_switches"));
        counts.map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    // The last sync may still be under way, and a disk may be slow.
    eventually("a time in which the relay does not wake up", || {
        let before = switches();
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        switches() == before
    });
}

#[test]
fn a_folder_that_is_gone_is_still_a_place_to_start_from() {
    let scratch = Scratch::new();
    let script = "mkdir gone; cd gone; rmdir ../gone; nbs-ts create --no-helper 'echo here'";
    let handle = scratch.bash(script).code(0).out().trim().to_owned();
    scratch.ts(&["wait-pattern", &handle, "here"]).code(0);
}

#[test]
fn state_under_a_very_long_path_works() {
    let scratch = Scratch::new();
    let long = scratch.path.join("d".repeat(120)).join("e".repeat(120));
    let mut call = scratch.command("nbs-ts");
    let handle = run(call.env("NBS_TS_HOME", &long).args(["create", "cat"])).code(0).out().trim().to_owned();
    for arguments in
        [&["send", &handle, "hello"][..], &["wait-pattern", &handle, "hello\r\nhello"], &["kill", &handle]]
    {
        run(scratch.command("nbs-ts").env("NBS_TS_HOME", &long).args(arguments)).code(0);
    }
    fs::set_permissions(&long, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_relative_state_folder_is_the_same_from_inside() {
    let scratch = Scratch::new();
    let mut call = scratch.command("nbs-ts");
    call.env("NBS_TS_HOME", "relative")
        .args(["create", "cd /; echo $NBS_TS_HOME; nbs-ts status $NBS_TS_SESSION"]);
    let handle = run(&mut call).code(0).out().trim().to_owned();
    let ts =
        |arguments: &[&str]| run(scratch.command("nbs-ts").env("NBS_TS_HOME", "relative").args(arguments));
    ts(&["wait-complete", &handle]).code(0).stdout("0\n");
    ts(&["read", &handle]).stdout(format!("{}\r\nalive\r\n", scratch.path.join("relative").display()));
}
