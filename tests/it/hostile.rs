use std::{
    fs,
    io::{ErrorKind, Read, Write},
    os::unix::{
        fs::{PermissionsExt, chown, symlink},
        net::UnixStream,
    },
    path::Path,
    process::Command,
};

use crate::support::{
    Mount, Ran, Scratch, binary, copy_of_binary, eventually, executable, is_running, most_memory, run,
    signal, start,
};

/// The user nobody, who owns nothing of any test.
const STRANGER: u32 = 65_534;

/// Only root can become another user: the tests that need one test nothing if another user runs them.
pub(crate) fn is_root() -> bool {
    run(Command::new("id").arg("-u")).out() == "0\n"
}

/// A program as another user, who may enter this test's directory.
fn stranger(scratch: &Scratch, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = scratch.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program);
    command
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// A copy of the file under test that everybody can reach.
fn public_copy(scratch: &Scratch) -> std::path::PathBuf {
    let copy = scratch.path.join("nbs");
    copy_of_binary(&copy);
    copy
}

/// An end within 0 to 4, and nothing on standard error that a terminal acts on.
fn ended_well(ran: &Ran) {
    assert!(ran.status.code().is_some_and(|code| (0..=4).contains(&code)), "{ran:?}");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!said.contains("internal error at"), "{ran:?}");
    assert!(
        said.lines().count() <= 1 && !said.trim_end_matches('\n').chars().any(char::is_control),
        "{ran:?}"
    );
}

#[test]
fn a_stranger_is_refused_by_the_helper_and_by_a_relay() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let log = scratch.path.join("helper.log");
    let _helper =
        start(scratch.command("bash").args(["-c", "exec \"$0\" ts-helper > \"$1\""]).args([&binary(), &log]));
    let helper_socket = scratch.state().join("helper.sock");
    eventually("the helper", || UnixStream::connect(&helper_socket).is_ok());
    let handle = scratch.create("cat");
    // As if there were no modes to keep them out.
    let relay_socket = scratch.folder(&handle).join("relay.sock");
    let mut path = relay_socket.clone();
    while path.starts_with(&scratch.path) {
        set_mode(&path, 0o755);
        path.pop();
    }
    set_mode(&relay_socket, 0o777);
    set_mode(&helper_socket, 0o777);
    let ask = "import socket, sys\n\
               s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n\
               try:\n    s.sendall(sys.argv[2].encode()); s.shutdown(1); print(s.recv(100))\n\
               except (BrokenPipeError, ConnectionResetError): print(b'')\n";
    let request = format!("touch {}/got-in", scratch.path.display());
    for (socket, request) in
        [(&helper_socket, &request[..]), (&relay_socket, "snapshot 0\n"), (&relay_socket, "snapshot 64\n")]
    {
        let mut command = stranger(&scratch, "/usr/bin/python3");
        run(command.args(["-c", ask]).arg(socket).arg(request)).code(0).stdout("b''\n").silent();
        // Root's own is answered: it is not the socket that is deaf.
        let mut command = scratch.command("/usr/bin/python3");
        let ran = run(command.args(["-c", ask]).arg(socket).arg(request.replace("got-in", "mine"))).code(0);
        assert_ne!(ran.out(), "b''\n", "{ran:?}");
    }
    eventually("the helper's word on it", || {
        fs::read_to_string(&log).unwrap().contains("reject: it is another user's")
    });
    assert!(!scratch.path.join("got-in").exists());
}

#[test]
fn a_stranger_gets_nothing_from_a_state_folder_and_leaves_nothing_in_one() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let nbs = public_copy(&scratch);
    let handle = scratch.create("echo secret; exec cat");
    scratch.ts(&["wait-pattern", &handle, "secret"]).code(0);
    let ours = scratch.state();
    set_mode(&scratch.path, 0o755);
    let attempts: [&[&str]; 6] = [
        &["list"],
        &["read", &handle],
        &["send", &handle, "x"],
        &["kill", &handle],
        &["gc", "--hours=0"],
        &["create", "--no-helper", "cat"],
    ];
    // With its first mode, and after its owner has opened it to all.
    for mode in [0o700, 0o755] {
        set_mode(&ours, mode);
        for words in attempts {
            let ran = run(stranger(&scratch, &nbs).arg("ts").args(words)).code(1).stdout("");
            ended_well(&ran);
        }
    }
    assert!(scratch.ts(&["status", &handle]).code(0).out().starts_with("alive"));

    // And theirs are refused, whether they lie there or are linked to.
    let theirs = scratch.path.join("theirs");
    let link = scratch.path.join("link");
    fs::create_dir(&theirs).unwrap();
    symlink(&ours, &link).unwrap();
    chown(&theirs, Some(STRANGER), None).unwrap();
    std::os::unix::fs::lchown(&link, Some(STRANGER), None).unwrap();
    let [with_slash, with_dot] = ["", "."].map(|end| link.join(end));
    for (planted, why) in [
        (&theirs, "belongs to another user"),
        (&link, "another user's link"),
        (&with_slash, "another user's link"),
        (&with_dot, "another user's link"),
    ] {
        for words in attempts {
            let mut command = scratch.command(&nbs);
            let ran = run(command.arg("ts").args(words).env("NBS_TS_HOME", planted));
            ran.code(1).stdout("").complains(why);
        }
    }
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
}

/// Replaces a directory by a link, and the link by the directory, again and again.
const FLICKER: &str = r#"
import ctypes, os, sys
folder, target = sys.argv[1:]
home, other = (os.path.join(folder, name).encode() for name in ('home', 'other'))
os.symlink(target, home)
os.mkdir(other, 0o777)
libc = ctypes.CDLL(None)
while True:
    libc.renameat2(-100, home, -100, other, 2)
"#;

#[test]
fn a_strangers_link_that_comes_and_goes_leads_nowhere() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    set_mode(&scratch.path, 0o755);
    let (open, ours) = (scratch.path.join("open"), scratch.path.join("ours"));
    fs::create_dir(&open).unwrap();
    set_mode(&open, 0o1777);
    fs::create_dir(&ours).unwrap();
    set_mode(&ours, 0o700);
    let mut command = stranger(&scratch, "/usr/bin/python3");
    let _flicker = start(command.args(["-c", FLICKER]).arg(&open).arg(&ours));
    eventually("the stranger", || open.join("other").symlink_metadata().is_ok());
    for _ in 0..200 {
        let mut command = scratch.command(binary());
        let ran = run(command.args(["ts", "list"]).env("NBS_TS_HOME", open.join("home")));
        ran.code(1).stdout("").complains("another user");
    }
}

#[test]
fn a_state_directory_that_others_may_write_to_is_rejected() {
    let scratch = Scratch::new();
    let is_refused = |state: &Path| {
        for words in [&["list"][..], &["create", "--no-helper", "cat"], &["gc"]] {
            let mut command = scratch.command(binary());
            let ran = run(command.arg("ts").args(words).env("NBS_TS_HOME", state));
            ran.code(1).stdout("").complains("others may write to it");
        }
    };
    for mode in [0o770, 0o777, 0o702, 0o1777] {
        let open = scratch.path.join(format!("open-{mode:o}"));
        fs::create_dir(&open).unwrap();
        set_mode(&open, mode);
        is_refused(&open);
        assert_eq!(fs::read_dir(&open).unwrap().count(), 0, "mode {mode:o}");
    }
    // Nor is a directory whose sessions they may write to.
    let open = scratch.path.join("open");
    fs::create_dir_all(open.join("sessions")).unwrap();
    set_mode(&open, 0o700);
    set_mode(&open.join("sessions"), 0o777);
    is_refused(&open);
    assert_eq!(fs::read_dir(open.join("sessions")).unwrap().count(), 0);
}

#[test]
fn a_file_with_the_bit_of_another_user_does_nothing() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    // In the tests' own directory, the bit may have no effect (mount(8), nosuid).
    let folder = scratch.path.join("mounted");
    fs::create_dir(&folder).unwrap();
    let _mounted = Mount::tmpfs(&folder, "suid");
    let nbs = folder.join("nbs");
    copy_of_binary(&nbs);
    set_mode(&folder, 0o755);
    set_mode(&scratch.path, 0o755);
    for mode in [0o4755, 0o2755] {
        set_mode(&nbs, mode);
        for words in [&["ts", "create", "cat"][..], &["ts", "list"], &["--version"], &["ts-helper"]] {
            let mut command = stranger(&scratch, &nbs);
            run(command.args(words)).code(1).stdout("").complains("take it off");
        }
    }
    assert!(!scratch.state().exists());
}

/// The commands that take a session, with the words before and after the handle. All others are tried with the
/// handle alone.
const COMMANDS: [(&[&str], &[&str]); 26] = [
    (&["status"], &[]),
    (&["status", "--json"], &[]),
    (&["history", "--last=2", "--json"], &[]),
    (&["read", "--command=1"], &[]),
    (&["read", "--last=2"], &[]),
    (&["read", "--strip", "--max=1K", "--json"], &[]),
    (&["read-new", "--reader=r", "--max=10"], &[]),
    (&["wait-complete", "--timeout=100ms"], &[]),
    (&["wait-pattern", "--timeout=100ms"], &["nowhere"]),
    (&["wait", "--exit", "--timeout=100ms"], &[]),
    (&["send", "--timeout=100ms"], &["true"]),
    (&["answer", "--timeout=100ms"], &["y"]),
    (&["send", "--submit", "--timeout=100ms"], &["true"]),
    (&["key"], &["C-l"]),
    (&["integrate", "--timeout=100ms"], &[]),
    (&["run", "--timeout=100ms"], &["true"]),
    (&["ask", "--timeout=100ms"], &["true"]),
    (&["screen", "--json"], &[]),
    (&["screen", "--svg", "--scrollback=9"], &[]),
    (&["screen", "--png", "--scrollback=9"], &[]),
    (&["resize"], &["81x25"]),
    (&["report"], &["waiting", "may I?"]),
    (&["restart", "--no-helper"], &[]),
    (&["wait", "--waiting", "--timeout=100ms"], &[]),
    (&["attach"], &[]),
    (&["kill"], &[]),
];

type Plant<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn whatever_the_files_of_a_session_are_every_command_comes_to_an_end() {
    let scratch = Scratch::new();
    let listed = COMMANDS.iter().map(|(words, _)| words[0]);
    let others = scratch.without_case(listed.chain(["create", "ensure"]), "COMMANDS in tests/it/hostile.rs");
    let others: Vec<[&str; 1]> = others.iter().map(|verb| [&**verb]).collect();
    let commands: Vec<(&[&str], &[&str])> =
        others.iter().map(|words| (&words[..], &[][..])).chain(COMMANDS).collect();
    let recorded = || {
        let command = "printf '\\033]0;title\\007text\\n'; while :; do cat; done";
        let handle = scratch.create_with(&["--record"], command);
        scratch.ts(&["wait-pattern", &handle, "text"]).code(0);
        handle
    };
    let handle = recorded();
    let files: Vec<String> = fs::read_dir(scratch.folder(&handle))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .chain(
            [
                "settings",
                "exit_code",
                "exit.json",
                "typed",
                "report",
                "restarted_as",
                "ending",
                "read_cursor",
                "read_cursor.r",
                "lock.read_cursor",
                "completion_cursor",
                "completion.log",
                "sizes",
                "secret",
            ]
            .map(str::to_owned),
        )
        .collect();
    assert!(files.len() > 15, "{files:?}");
    let all_bytes: Vec<u8> = (0..=255).rev().cycle().take(70_000).collect();
    let plants: [Plant; 8] = [
        ("nothing", &|_| ()),
        ("empty", &|file| fs::write(file, "").unwrap()),
        ("all bytes", &|file| fs::write(file, &all_bytes).unwrap()),
        ("a number too high", &|file| fs::write(file, "99999999999999999999999").unwrap()),
        ("huge", &|file| fs::File::create(file).unwrap().set_len(3 << 30).unwrap()),
        ("a folder", &|file| fs::create_dir(file).unwrap()),
        ("a link", &|file| symlink("/etc/passwd", file).unwrap()),
        ("a FIFO", &|file| drop(run(Command::new("mkfifo").arg(file)).code(0))),
    ];
    let (all, mut turn) = (std::env::var_os("NBS_ROUNDS").is_some(), 0);
    for name in files {
        let file = scratch.folder(&handle).join(&name);
        let aside = scratch.path.join("aside");
        let had = file.exists();
        if had {
            fs::rename(&file, &aside).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        // Searching three gigabytes is not a fault, but takes too long.
        for (what, plant) in plants.iter().filter(|(what, _)| name != "output.log" || *what != "huge") {
            plant(&file);
            turn += 1;
            // All of them take a minute.
            for (_, (before, after)) in
                commands.iter().enumerate().filter(|(at, _)| all || (at + turn) % 4 == 0)
            {
                // A session that is ended must be a separate one.
                let doomed = (before[0] == "kill").then(|| {
                    let doomed = recorded();
                    let file = scratch.folder(&doomed).join(&name);
                    let _ = fs::remove_file(&file);
                    plant(&file);
                    doomed
                });
                let handle = doomed.as_ref().unwrap_or(&handle);
                let words = [*before, &[&handle[..]], *after].concat();
                let ran = match before[0] {
                    // It goes on for as long as the session lives.
                    "attach" => run(scratch.command("timeout").args(["0.1", "nbs-ts"]).args(words)),
                    _ => scratch.ts(&words),
                };
                let code = ran.status.code();
                assert!(
                    code.is_some_and(|code| code <= 4 || (124..=126).contains(&code)),
                    "{name} is {what}: {ran:?}"
                );
                let said = String::from_utf8_lossy(&ran.stderr).into_owned();
                let raw = said.trim_end_matches('\n').chars().any(char::is_control);
                assert!(!raw && !said.contains("internal error at"), "{name} is {what}: {ran:?}");
            }
            for words in [&["list"][..], &["list", "--json"], &["gc", "--hours=0"], &["find", "x"]] {
                let ran = scratch.ts(words);
                ended_well(&ran);
                assert!(words[0] != "list" || ran.out().contains(&handle), "{name} is {what}: {ran:?}");
            }
            let gone = if file.is_dir() && !file.is_symlink() {
                fs::remove_dir_all(&file)
            } else {
                fs::remove_file(&file)
            };
            assert!(gone.is_ok() || *what == "nothing" || !file.exists(), "{name} is {what}");
        }
        if had {
            fs::rename(&aside, &file).unwrap();
        }
    }
    scratch.ts(&["kill", &handle]).code(0);
    assert!(fs::read_to_string("/etc/passwd").unwrap().contains("root"));
}

#[test]
fn the_highest_numbers_in_the_files_of_a_session_are_numbers() {
    let (scratch, handle) = Scratch::with_session("echo text");
    scratch.wait_for_end(&handle);
    fs::write(scratch.folder(&handle).join("typed"), format!("0 1 {}l61\n", u64::MAX)).unwrap();
    scratch.ts(&["wait", &handle, "--pattern=text"]).code(0).silent();
    fs::write(scratch.folder(&handle).join("completion.log"), format!("{} 7\n", u64::MAX)).unwrap();
    scratch.ts(&["wait-complete", &handle]).code(0).stdout("7\n").silent();
    ended_well(&scratch.ts(&["doctor"]));

    // In a mark, by a program that has read the secret.
    let handle = scratch.create("bash");
    let secret = scratch.file(&handle, "secret");
    for letter in ["C", "R", "D;7", "A", "B"] {
        let mark = format!("printf '\\e]133;{letter};nbs={}.{}\\a'", secret.trim(), u64::MAX);
        scratch.ts(&["send", &handle, &mark]).code(0);
    }
    for words in [
        &["wait", &handle, "--input"][..],
        &["wait", &handle, "--complete", "--timeout=100ms"],
        &["ask", &handle, "--timeout=100ms", "true"],
        &["run", "--timeout=100ms", &handle, "true"],
        &["doctor"],
    ] {
        let ran = scratch.ts(words);
        assert!(ran.status.code().is_some_and(|code| code <= 4 || (124..=126).contains(&code)), "{ran:?}");
    }
    assert!(scratch.ts(&["status", &handle]).code(0).out().starts_with("alive"));
}

/// Stands in for a relay, after the code for how it serves: it has the lock and the socket.
const FORGED_RELAY: &str = r#"
import fcntl, os, socket, sys, threading
def safely(stream):
    try: serve(stream)
    except OSError: pass
os.chdir(sys.argv[1])
lock = open('meta')
fcntl.flock(lock, fcntl.LOCK_EX)
os.unlink('relay.sock')
listener = socket.socket(socket.AF_UNIX)
listener.bind('relay.sock')
listener.listen()
open('../../ready', 'w')
while True: threading.Thread(target=safely, args=[listener.accept()[0]], daemon=True).start()
"#;

#[test]
fn a_forged_relay_that_says_no_end_of_things_holds_nobody_up() {
    let (scratch, handle) = Scratch::with_session("sleep 1000");
    signal("-KILL", &scratch.file(&handle, "daemon_pid"));
    scratch.wait_for_end(&handle);
    let flood = "def serve(stream):\n    while True: stream.sendall(b'x' * 65536)";
    let script = format!("{flood}{FORGED_RELAY}");
    let mut command = scratch.command("python3");
    let _forger = start(command.args(["-c", &script]).arg(scratch.folder(&handle)));
    eventually("the forged relay", || scratch.state().join("ready").exists());
    for words in [&["status", "--json", &handle][..], &["send", &handle, "x"], &["pwd", &handle]] {
        scratch.ts(words).code(1).complains("of another version");
    }
}

/// The most memory that a relay has used, in kilobytes (proc_pid_status(5)).
#[test]
fn however_many_never_read_what_they_ask_for_a_relay_stays_small() {
    let (scratch, handle) = Scratch::with_session("stty raw -echo; echo ready; cat > /dev/null");
    let relay = scratch.file(&handle, "daemon_pid");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    // As much as it remembers.
    scratch.ts_with_input(&["send", "--stdin", &handle], &b"x".repeat(70_000)).code(0);
    let socket = scratch.folder(&handle).join("relay.sock");
    let come = || {
        let stream = UnixStream::connect(&socket).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let floods: [(&[u8], usize); 5] = [
        (b"typing 0 0\n", 28),
        (b"type 15000\n", 1),
        (b"secret 4096\nx", 1),
        (b"snapshot 0\ntyping 0 0\nfollow 0\nturn\n", 8),
        (b"ending a\nturn\n", 16),
    ];
    let mut all: Vec<(UnixStream, Vec<u8>)> =
        (0..200).flat_map(|_| floods).map(|(words, count)| (come(), words.repeat(count))).collect();
    let mut reader = come();
    for _ in 0..20 {
        // The relay has closed the connections that it does not accept any more.
        all.retain_mut(|(stream, flood)| {
            !matches!(stream.write(flood), Err(error) if error.kind() == ErrorKind::BrokenPipe)
        });
        // A client that reads may send any number of requests.
        for _ in 0..1_000 {
            reader.write_all(b"ending a\n").unwrap();
            let mut answer = [0; 6];
            reader.set_nonblocking(false).unwrap();
            reader.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"noted\n");
        }
        scratch.ts(&["status", "--json", &handle]).code(0);
    }
    assert!(!all.is_empty());
    let peak = most_memory(&relay).unwrap();
    assert!(peak < 8 * 1024, "{peak} kB");
}

#[test]
fn a_secret_of_which_only_a_part_went_in_is_told_of() {
    let (scratch, handle) = Scratch::with_session("sleep 1000");
    signal("-KILL", &scratch.file(&handle, "daemon_pid"));
    scratch.wait_for_end(&handle);
    // A relay that reports a secret prompt, and types three bytes of the secret.
    let serve = "def serve(stream):\n    while said := stream.recv(256):\n        \
                 answers = {b'snapshot': b'snapshot keys= secret= signals=031c1a', b'secret': b'typed 3'}\n        \
                 answer = answers.get(said.split()[0])\n        \
                 if answer: stream.sendall(answer + b'\\n')";
    let mut command = scratch.command("python3");
    command.args(["-c", &format!("{serve}{FORGED_RELAY}")]).arg(scratch.folder(&handle));
    let _forger = start(&mut command);
    eventually("the forged relay", || scratch.state().join("ready").exists());
    let ran = scratch.ts_with_input(&["send", "--secret-stdin", &handle], b"correct horse\n").code(1);
    ran.complains("only part of it was typed");
}

#[test]
fn a_strangers_socket_is_neither_a_relay_nor_a_helper() {
    if !is_root() {
        return;
    }
    let (scratch, handle) = Scratch::with_session("cat");
    let (relay, helper) = (scratch.folder(&handle).join("relay.sock"), scratch.state().join("helper.sock"));
    let (theirs, kept) = (scratch.path.join("theirs"), scratch.path.join("kept"));
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(STRANGER), None).unwrap();
    set_mode(&scratch.path, 0o755);
    let listen = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); \
                  open(sys.argv[2], 'w'); time.sleep(1000)";
    let mut command = stranger(&scratch, "/usr/bin/python3");
    let _listens = start(command.args(["-c", listen]).args([theirs.join("socket"), theirs.join("ready")]));
    eventually("the stranger", || theirs.join("ready").exists());
    fs::rename(&relay, &kept).unwrap();
    // As if there were no modes to keep it out.
    fs::rename(theirs.join("socket"), &relay).unwrap();
    scratch.ts(&["send", &handle, "x"]).code(1).complains("it belongs to another user");
    fs::rename(&relay, &helper).unwrap();
    scratch.ts(&["create", "--require-helper", "true"]).code(1).complains(
        "its socket belongs to another \
        user",
    );
    fs::remove_file(&helper).unwrap();
    fs::rename(&kept, &relay).unwrap();
    scratch.ts(&["send", &handle, "x"]).code(0);
}

#[test]
fn no_terminal_acts_on_what_users_and_programs_call_things() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[31m\u{9b}2J\r\u{202e}x";
    let scratch = Scratch::new();
    let folder = scratch.path.join(evil);
    fs::create_dir(&folder).unwrap();
    let command = format!("printf '%s' '{evil}'; cat; : '{evil}'");
    let options =
        [format!("--title={evil}"), format!("--parent={evil}"), format!("--cwd={}", folder.display())];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let handle = scratch.create_with(&options, &command);
    scratch.ts(&["wait-pattern", &handle, "owned"]).code(0);
    let shown = |ran: Ran| {
        let said = [&ran.stdout[..], &ran.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let raw = |character: char| character.is_control() && !['\n', '\t'].contains(&character);
        assert!(!said.chars().any(raw), "{ran:?}");
        assert!(!said.contains('\u{202e}') || said.starts_with('{'), "{ran:?}");
    };
    let missing = folder.join("missing");
    let missing = missing.to_str().unwrap();
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["status", "--json", &handle],
        &["pwd", "--json", &handle],
        &["wait", &handle, "--exit", "--timeout=50ms"],
        &["wait", &handle, "--pattern=x", "--offset=0", "--timeout=50ms"],
        &["wait-complete", &handle, "--timeout=50ms"],
        &["wait-pattern", &handle, evil, "--new", "--timeout=50ms"],
        &["run", &handle, evil],
        &["find", evil],
        &["kill", evil],
        &["status", evil],
        &[evil],
        &["create", "--no-helper", "--cwd", missing, "true"],
        &["create", "--no-helper", "--write-root", missing, "true"],
        &["create", &format!("--{evil}"), "true"],
        &["create", &format!("--size={evil}"), "true"],
        &["key", &handle, evil],
        &["help", evil],
        &["doctor"],
        &["gc", "--hours=0"],
    ] {
        shown(scratch.ts(words));
    }
    let state = folder.join("state");
    for words in
        [&["ts", "doctor"][..], &["ts", "list"], &["ts", "status", "01234567"], &[evil], &["--install", evil]]
    {
        let mut command = scratch.command(binary());
        shown(run(command.args(words).env("NBS_TS_HOME", &state)));
    }
    // An exit record that was changed, as any program of ours can.
    let changed = scratch.create("true");
    scratch.wait_for_end(&changed);
    let exit_record = format!("{{\"a\":\"{evil}\",\"ended\":1}}\n");
    fs::write(scratch.folder(&changed).join("exit.json"), exit_record).unwrap();
    for words in [&["events"][..], &["attach", "--json", &changed]] {
        shown(scratch.ts(words));
    }
    // A bash that lies about its version, and a helper's log of a command.
    let hostile = scratch.path.join("hostile");
    executable(&hostile.join("bash"), format!("#!/bin/sh\nprintf '{evil}'\n"));
    let mut command = scratch.command(binary());
    shown(run(command.args(["ts", "doctor"]).env("PATH", &hostile)));
    fs::write(folder.join("file"), "").unwrap();
    let mut command = scratch.command(binary());
    shown(run(command.args(["ts", "list"]).env("NBS_TS_HOME", folder.join("file"))));
    scratch.ts(&["kill", &handle]).code(0);
}

#[test]
fn a_strange_environment_changes_nothing() {
    let scratch = Scratch::new();
    let variables = [
        ("LC_ALL", "xx_YY.UTF-99"),
        ("LANG", "../../../etc/passwd"),
        ("LANGUAGE", "\u{1b}[31m"),
        ("TMPDIR", "/nonexistent/\u{1b}]0;x\u{7}"),
        ("TZ", ":/etc/shadow"),
        ("COLUMNS", "-1"),
        ("NBS_TS_SESSION", "../../x"),
        ("RUST_BACKTRACE", "full"),
        ("BASH_ENV", "/nonexistent"),
        ("IFS", "0123456789abcdef"),
        ("GREP_OPTIONS", "--x"),
        ("POSIXLY_CORRECT", "1"),
    ];
    let ts = |words: &[&str]| run(scratch.command(binary()).arg("ts").args(words).envs(variables));
    let handle = ts(&["create", "--no-helper", "bash"]).code(0).silent().out().trim_end().to_owned();
    ts(&["run", &handle, "echo $NBS_TS_SESSION; printf '\\u00e9' | wc -c"])
        .code(0)
        .stdout_has(&format!("{handle}\n"));
    assert_eq!(ts(&["run", &handle, "(exit 9)"]).status.code(), Some(9));
    ts(&["list"]).code(0).stdout(format!("{handle}\talive\t-\tbash\n"));
    ts(&["kill", &handle]).code(0).silent();
}

#[test]
fn kill_ends_nobody_whom_a_file_or_a_forged_relay_names() {
    let scratch = Scratch::new();
    let innocent = start(Command::new("bash").args(["-c", "sleep 1000; true"]));
    let pid = innocent.pid().to_string();
    let child = || run(Command::new("pgrep").args(["-P", &pid])).out();
    eventually("the innocent's child", || !child().is_empty());

    // A recycled PID, and a lock that another process holds.
    let handle = scratch.create("true");
    scratch.wait_for_end(&handle);
    let folder = scratch.folder(&handle);
    fs::write(folder.join("daemon_pid"), &pid).unwrap();
    let lock = fs::File::open(folder.join("meta")).unwrap();
    lock.lock().unwrap();
    scratch.ts(&["kill", &handle]).code(1);
    assert!(!child().is_empty());
    lock.unlock().unwrap();
    scratch.ts(&["kill", &handle]).code(0);
    assert!(!child().is_empty());

    let handle = scratch.create("sleep 1000");
    signal("-KILL", &scratch.file(&handle, "daemon_pid"));
    scratch.wait_for_end(&handle);
    // It has the name, and the PID in the file, too; and claims that its keeper is the process it is told.
    let serve = "import os, sys\n\
                 open('/proc/self/comm', 'w').write('nbs-relay')\n\
                 open(sys.argv[1] + '/daemon_pid', 'w').write(str(os.getpid()))\n\
                 def serve(stream):\n    while line := stream.recv(256):\n        \
                 keeper = b'keeper %s\\n' % sys.argv[2].encode()\n        \
                 stream.sendall(keeper if line == b'keeper\\n' else b'noted\\n')";
    // Python takes its first argument for the program: the handle.
    fs::write(scratch.path.join(&handle), format!("{serve}{FORGED_RELAY}")).unwrap();
    let forge = format!("cd {} && exec -a nbs-relay python3 \"$@\"", scratch.path.display());
    let mut command = scratch.command("bash");
    let _forger = start(command.args(["-c", &forge, "bash", &handle]).arg(scratch.folder(&handle)).arg(&pid));
    eventually("the forged relay", || scratch.state().join("ready").exists());
    ended_well(&scratch.ts(&["kill", &handle]));
    assert!(!child().is_empty());
}

#[test]
fn a_stranger_s_process_is_of_no_session_of_ours() {
    if !is_root() {
        return;
    }
    let (scratch, handle) = Scratch::with_session("sleep 1000");
    signal("-KILL", &scratch.file(&handle, "daemon_pid"));
    scratch.wait_for_end(&handle);
    let mut command = stranger(&scratch, "sleep");
    let stranger = start(command.arg("1000").env("NBS_TS_SESSION", &handle));
    eventually("the stranger", || {
        fs::read_to_string(format!("/proc/{}/comm", stranger.pid())).is_ok_and(|name| name == "sleep\n")
    });
    let said = scratch.ts(&["doctor"]).out();
    assert!(!said.contains(&format!("process {}", stranger.pid())), "{said}");
    scratch.ts(&["kill", &handle]).code(0).silent();
    assert!(is_running(&stranger.pid().to_string()));
}
