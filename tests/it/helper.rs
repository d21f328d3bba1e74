//! The helper: its protocols, the life of its children, and abuse of it.
//!
//! Every test has a state directory of its own, and fails if a process of its sessions is left behind.

mod ends;
mod protocol;
mod support;

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{binary, eventually, links, sockets_of, start};
use support::{Helper, Scratch, state_of, within};

#[test]
fn a_session_has_the_helpers_world_and_nothing_of_its_callers() {
    let scratch = Scratch::new();
    let helper = Helper::start_with(&scratch, |command| {
        command.env("OF_THE_HELPER", "yes").env("TMUX", "helper's");
    });
    let folder = scratch.path("a folder");
    fs::create_dir(&folder).unwrap();
    let mut command = scratch.command("bash");
    command.args(["-c", "umask 027; exec \"$0\" \"$@\""]).arg(links().join("nbs-ts"));
    command.args(["create", "--env=ASKED=a b=c", "--size=100x30", "env; pwd; umask; stty size; exit 3"]);
    command.env("OF_THE_CALLER", "leak").env("TMUX", "caller's").current_dir(&folder);
    let handle = within(&mut command).ok();
    let handle = handle.trim();
    scratch.ended(handle);
    let out = scratch.output(handle);
    let has = |line: &str| out.lines().any(|each| each == line);
    assert!(!out.contains("OF_THE_CALLER") && !out.contains("TMUX"), "{out}");
    for line in [
        "OF_THE_HELPER=yes",
        "ASKED=a b=c",
        "TERM=xterm-256color",
        "COLORTERM=truecolor",
        "PAGER=cat",
        "0027",
        "30 100",
    ] {
        assert!(has(line), "{line} is not in {out}");
    }
    assert!(has(&format!("NBS_TS_SESSION={handle}")) && has(&folder.display().to_string()), "{out}");
    assert_eq!(scratch.file(handle, "slave_pty"), "");
    assert_eq!(scratch.file(handle, "exit_code"), "3");
    helper.stop();
}

#[test]
fn a_child_is_clean_whatever_the_helper_inherited() {
    let scratch = Scratch::new();
    // Ignored and blocked signals, a leaked descriptor, as of nohup or a runner.
    let mut command = scratch.command("python3");
    command.arg("-c").arg(
        r#"
import os, signal, sys
for s in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTSTP, signal.SIGUSR1):
    signal.signal(s, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGWINCH, signal.SIGALRM])
os.dup2(os.open('/dev/null', os.O_RDONLY), 50, inheritable=True)
os.execv(sys.argv[1], sys.argv[1:])
"#,
    );
    let helper = Helper::start_as(&scratch, command.arg(links().join("nbs-ts-helper")));
    let told =
        "grep -E 'SigBlk|SigIgn' /proc/self/status; ls /proc/self/fd | tr '\\n' ' '; echo; ls /proc/$$/task";
    let handle = scratch.create(&["--require-helper", told]);
    scratch.ended(&handle);
    let out = scratch.output(&handle);
    assert!(out.contains("SigBlk:\t0000000000000000"), "{out}");
    let ignored = out.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    // 32 to 34 are the C library's own, and cannot be set.
    let ignored = u64::from_str_radix(ignored, 16).unwrap() & !(0b111 << 31);
    assert_eq!(ignored, 0, "{out}");
    // 3 is the directory that `ls` reads.
    assert!(out.contains("0 1 2 3 \r"), "{out}");
    let base = scratch.python(
        r#"
master, pid, rest = base(b"grep -E 'SigBlk|SigIgn' /proc/self/status; ls /proc/self/fd | tr '\\n' ' '; pwd")
print(drain(master).decode())
"#,
    );
    assert!(base.contains("SigBlk:\t0000000000000000") && base.contains("0 1 2 3 "), "{base}");
    // Not the directory that the helper was started in.
    assert!(
        base.contains(&scratch.path("").display().to_string().trim_end_matches('/').to_owned()),
        "{base}"
    );
    helper.stop();
}

#[test]
fn every_exit_code_arrives_unchanged() {
    let (scratch, _helper) = Scratch::with_helper();
    let script = r#"
create() { printf '%s %s\n' "$1" "$("$TS" create --require-helper "exit $1")"; }
export -f create
seq "$0" $(($0 + 7)) | xargs -P 8 -I N bash -c 'create N'
"#;
    let mut seen = 0;
    for first in (0..256).step_by(8) {
        let mut command = scratch.command("bash");
        command.args(["-c", script, &first.to_string()]).env("TS", links().join("nbs-ts"));
        for line in within(&mut command).ok().lines() {
            let (code, handle) = line.split_once(' ').unwrap();
            scratch.ended(handle);
            assert_eq!(scratch.file(handle, "exit_code"), code);
            assert_eq!(scratch.file(handle, "completion.log"), format!("0 {code}\n"));
            seen += 1;
        }
    }
    assert_eq!(seen, 256);
}

#[test]
fn every_way_to_end_arrives_as_what_it_was() {
    let (scratch, helper) = Scratch::with_helper();
    let cases = [
        ("exec bash -c 'exit 41'", "41", "null"),
        ("trap 'echo mine' EXIT; exit 42", "42", "null"),
        ("trap 'exit 43' EXIT; false", "43", "null"),
        ("set -e; (exit 44); true", "44", "null"),
        ("no-such-command-at-all", "127", "null"),
        ("exec /etc/passwd", "126", "null"),
        ("exit 137", "137", "null"),
        ("kill -1 $$", "129", "\"SIGHUP\""),
        ("kill -2 $$; sleep 1", "130", "\"SIGINT\""),
        ("exec sh -c 'kill -3 $$'", "131", "\"SIGQUIT\""),
        ("kill -6 $$", "134", "\"SIGABRT\""),
        ("kill -9 $$", "137", "\"SIGKILL\""),
        ("kill -10 $$", "138", "\"SIGUSR1\""),
        ("kill -11 $$", "139", "\"SIGSEGV\""),
        ("kill -13 $$", "141", "\"SIGPIPE\""),
        ("kill -14 $$", "142", "\"SIGALRM\""),
        ("kill -15 $$", "143", "\"SIGTERM\""),
        ("kill -40 $$", "168", "\"SIG40\""),
        ("kill -64 $$", "192", "\"SIG64\""),
    ];
    for (command, code, signal) in cases {
        let handle = scratch.create(&["--require-helper", command]);
        scratch.ended(&handle);
        assert_eq!(scratch.file(&handle, "exit_code"), code, "{command}");
        let exit_record = scratch.file(&handle, "exit.json");
        assert!(exit_record.contains(&format!("\"signal\":{signal}")), "{command}: {exit_record}");
        assert!(exit_record.contains("\"ended_by\":\"self\""), "{command}: {exit_record}");
    }
    helper.log_has("signal=9 (SIGKILL)");
    helper.log_has("signal=15 (SIGTERM)");
}

#[test]
fn output_up_to_the_last_byte_is_there() {
    let (scratch, _helper) = Scratch::with_helper();
    for _ in 0..5 {
        let handle = scratch.create(&["--require-helper", "seq 3000; echo sentinel"]);
        scratch.ended(&handle);
        let expected: String =
            (1..=3000).map(|n| format!("{n}\r\n")).chain(["sentinel\r\n".into()]).collect();
        assert_eq!(scratch.output(&handle), expected);
    }
}

#[test]
fn a_shell_through_the_helper_can_be_talked_to() {
    let (scratch, _helper) = Scratch::with_helper();
    let handle = scratch.create(&["--require-helper", "bash"]);
    within(&mut scratch.ts(&["send", &handle, "echo a$((40+2))b; tty; set -o | grep monitor"])).ok();
    within(&mut scratch.ts(&["wait-pattern", &handle, "a42b"])).ok();
    within(&mut scratch.ts(&["wait-pattern", &handle, "monitor"])).ok();
    eventually("job control", || scratch.output(&handle).contains("on\r\n"));
    assert!(!scratch.output(&handle).contains("no job control"));
    within(&mut scratch.ts(&["send", &handle, "exit 6"])).ok();
    scratch.ended(&handle);
    assert_eq!(scratch.file(&handle, "exit_code"), "6");
}

#[test]
fn long_commands_arrive_whole() {
    let (scratch, helper) = Scratch::with_helper();
    let long = "x".repeat(100_000);
    let handle = scratch.create(&["--require-helper", &format!("printf %s {long} | wc -c")]);
    scratch.ended(&handle);
    assert_eq!(scratch.output(&handle).trim(), "100000");
    // And of the base protocol, up to its limit, or not at all.
    scratch.python(
        r#"
command = b'echo ok #'.ljust(4096, b'x')
master, pid, rest = base(command)
assert drain(master) == b'ok\r\n'
for length in (4097, 10000, 300000):
    s = connect()
    s.sendall(b'touch /tmp/cut-off-$$ #'.ljust(length, b'x'))
    s.shutdown(socket.SHUT_WR)
    assert s.recv(10) == b'', length
"#,
    );
    helper.log_has("reject: a command of more than 4096 bytes (peer_pid=");
}

#[test]
fn slow_silent_and_vanishing_clients_delay_nobody_and_leave_nothing() {
    let (scratch, helper) = Scratch::with_helper();
    let before = helper.descriptors();
    scratch.python(
        r#"
while True:
    silent = [connect() for _ in range(20)]
    dribblers = [connect() for _ in range(20)]
    for s in dribblers: s.sendall(b'e')
    halves = [connect() for _ in range(20)]
    for s in halves: s.sendall(b'\0\1S0123')
    master, pid, rest = base(b'echo quick')
    assert drain(master) == b'quick\r\n'
    # It was not served after them. Where the machine has taken longer over it than
    # they have, that cannot be told.
    if not select.select(silent + dribblers + halves, [], [], 0)[0]: break
    for s in silent + dribblers + halves: s.close()
# Those that hang up before the answer.
for _ in range(50):
    s = connect()
    s.sendall(b'sleep 600')
    s.close()
for _ in range(20):
    s = connect()
    s.sendall(b'\0\1S0123abcd\0\0\1\0half')
    s.close()
for s in silent[:10] + dribblers[:10] + halves[:10]: s.close()
# Its limit of time comes for those that stay.
for s in silent[10:] + dribblers[10:] + halves[10:]:
    assert s.recv(1) == b''
"#,
    );
    helper.log_has("reject: no request within 5 s (peer_pid=");
    eventually("no child is left", || helper.children().is_empty());
    eventually("every descriptor is closed", || helper.descriptors() == before);
    let handle = scratch.create(&["--require-helper", "exit 8"]);
    scratch.ended(&handle);
    helper.stop();
}

#[test]
fn random_requests_do_no_harm() {
    let (scratch, helper) = Scratch::with_helper();
    let before = helper.descriptors();
    let script = r#"
import random, struct
for seed in range(300):
    r = random.Random(seed)
    s = connect()
    kind = r.randrange(4)
    body = r.randbytes(r.randrange(6000))
    if kind == 1: body = b'\0' + body
    if kind == 2: body = b'\0\1S' + b'%08x' % seed + struct.pack('>I', len(body)) + body
    if kind == 3: body = b'\0\1S' + b'%08x' % seed + body
    try:
        if kind == 0: body = b'false #' + body.replace(b'\n', b' ')
        s.sendall(body)
        if r.random() < 0.7: s.shutdown(socket.SHUT_WR)
        if r.random() < 0.5:
            s.settimeout(0.1)
            s.recv(10)
    except OSError: pass
    s.close()
"#;
    scratch.python(script);
    eventually("no child is left", || helper.children().is_empty());
    eventually("every descriptor is closed", || helper.descriptors() == before);
    let handle = scratch.create(&["--require-helper", "exit 8"]);
    scratch.ended(&handle);
    assert_eq!(scratch.file(&handle, "exit_code"), "8");
}

#[test]
fn children_killed_at_every_stage_leave_nothing() {
    let (scratch, helper) = Scratch::with_helper();
    let before = helper.descriptors();
    for round in 0..40_u64 {
        let mut create = scratch.ts(&["create", "--require-helper", "sleep 600"]);
        let mut create = create.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // The rounds vary the stage.
        std::thread::sleep(Duration::from_micros(round * 400));
        for (pid, _) in helper.children() {
            kill(pid, if round % 2 == 0 { 9 } else { 15 });
        }
        create.wait().unwrap();
    }
    within(&mut scratch.ts(&["kill", "--all"])).ok();
    eventually("no child is left", || helper.children().is_empty());
    eventually("every descriptor is closed", || helper.descriptors() == before);
    helper.stop();
}

#[test]
fn two_hundred_creates_at_once() {
    let (scratch, helper) = Scratch::with_helper();
    let before = helper.descriptors();
    let creates: Vec<_> = (0..200)
        .map(|n| {
            let mut create = scratch.ts(&["create", "--require-helper", &format!("exit {}", n % 256)]);
            create.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for (n, create) in creates.into_iter().enumerate() {
        let output = create.wait_with_output().unwrap();
        assert!(output.status.success(), "{}: {}", n, String::from_utf8_lossy(&output.stderr));
        let handle = String::from_utf8(output.stdout).unwrap();
        scratch.ended(handle.trim());
        assert_eq!(scratch.file(handle.trim(), "exit_code"), n.to_string());
    }
    eventually("no child is left", || helper.children().is_empty());
    eventually("every descriptor is closed", || helper.descriptors() == before);
}

#[test]
fn a_helper_without_descriptors_refuses_and_recovers() {
    let (scratch, helper) = Scratch::with_helper();
    let before = helper.descriptors();
    let limit = |limit: &str| {
        let pid = helper.pid().to_string();
        within(scratch.command("prlimit").args(["--pid", &pid, &format!("--nofile={limit}")])).ok();
    };
    let highest = helper.highest_descriptor();
    for room in 0..6 {
        limit(&format!("{}:", highest + 1 + room));
        within(&mut scratch.ts(&["create", "--require-helper", "true"]));
        scratch.python(
            r#"
s = connect()
s.sendall(b'true')
s.shutdown(socket.SHUT_WR)
s.settimeout(1)
try: s.recv(1)
except TimeoutError: pass
"#,
        );
    }
    limit(&format!("{}:", highest + 1));
    // There is a waiting client, and no process spins.
    let waiting =
        start(&mut scratch.python_command(
            "s = connect(); s.sendall(b'true'); s.shutdown(socket.SHUT_WR); print(s.recv(1))",
        ));
    let cpu = helper.cpu_ticks();
    std::thread::sleep(Duration::from_secs(1));
    assert!(helper.cpu_ticks() - cpu < 10, "{} ticks", helper.cpu_ticks() - cpu);
    limit("200:");
    // It has been let in, or refused with a word in the log.
    if waiting.finish().code(0).out() != "b'F'\n" {
        helper.log_has("reject: cannot start a command");
    }
    let handle = scratch.create(&["--require-helper", "exit 9"]);
    scratch.ended(&handle);
    eventually("no child is left", || helper.children().is_empty());
    eventually("every descriptor is closed", || helper.descriptors() == before);
}

#[test]
fn calls_do_not_wait_for_a_stopped_helper() {
    let (scratch, helper) = Scratch::with_helper();
    kill(helper.pid(), 19);
    eventually("the helper is stopped", || state_of(helper.pid()) == Some('T'));
    let ran = within(&mut scratch.ts(&["create", "exit 5"]));
    assert!(ran.err.starts_with("nbs-ts: helper not running: it did not respond within 5 s"), "{ran:?}");
    let handle = ran.ok();
    scratch.ended(handle.trim());
    let ran = within(&mut scratch.ts(&["create", "--require-helper", "exit 5"]));
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    kill(helper.pid(), 18);
    // The clients in its queue have gone.
    eventually("no child is left", || helper.children().is_empty());
    let handle = scratch.create(&["--require-helper", "exit 5"]);
    scratch.ended(&handle);
}

#[test]
fn a_helper_that_is_not_there_is_told_once_or_not_at_all() {
    let scratch = Scratch::new();
    // The note is printed, though the first call wanted no helper.
    for (options, lines) in [(&["--no-helper"][..], 0), (&[], 1)] {
        let ran = within(scratch.ts(&["create"]).args(options).arg("exit 2"));
        assert_eq!(ran.err.lines().count(), lines, "{ran:?}");
        assert!(lines == 0 || ran.err.starts_with("nbs-ts: helper not running: "), "{ran:?}");
        scratch.ended(ran.ok().trim());
    }
    let ran = within(&mut scratch.ts(&["create", "--require-helper", "exit 2"]));
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    assert!(ran.err.contains("helper not running: "), "{ran:?}");
    let ran = within(&mut scratch.ts(&["create", "--require-helper", "--no-helper", "exit 2"]));
    assert_eq!(ran.code, 4, "{ran:?}");
    let left: Vec<_> = fs::read_dir(scratch.home().join("sessions")).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    // A running helper is not asked.
    let _helper = Helper::start_with(&scratch, |command| {
        command.env("OF_THE_HELPER", "yes");
    });
    let handle = scratch.create(&["--no-helper", "echo ${OF_THE_HELPER-no}"]);
    scratch.ended(&handle);
    assert_eq!(scratch.output(&handle), "no\r\n");
}

#[test]
fn that_there_is_no_helper_is_told_once_in_a_boot() {
    let scratch = Scratch::new();
    // The number of concurrent calls that print it.
    let told = |calls: usize| {
        let calls: Vec<_> = (0..calls).map(|_| start(&mut scratch.ts(&["create", "true"]))).collect();
        let ran: Vec<_> = calls.into_iter().map(|call| call.finish().code(0)).collect();
        ran.iter().for_each(|ran| scratch.ended(ran.out().trim()));
        let said: Vec<String> = ran.iter().map(|ran| ran.err()).filter(|said| !said.is_empty()).collect();
        assert!(said.iter().all(|said| said.starts_with("nbs-ts: helper not running: ")), "{said:?}");
        said.len()
    };
    assert_eq!(told(16), 1);
    assert_eq!(told(2), 0);
    within(&mut scratch.ts(&["doctor"])).ok();
    // As the boot before has left it, and as no boot has.
    let note = scratch.home().join("helper.missed");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim_end().to_owned();
    assert_eq!(fs::read_to_string(&note).unwrap(), boot);
    for other in ["01234567-89ab-cdef-0123-456789abcdef\n", "", &"x".repeat(1000)] {
        fs::write(&note, other).unwrap();
        assert_eq!(told(8), 1, "{other:?}");
        assert_eq!(fs::read_to_string(&note).unwrap(), boot);
        assert_eq!(told(1), 0, "{other:?}");
    }
    // If the note cannot be written, the warning is printed, and the session is there nevertheless.
    fs::remove_file(&note).unwrap();
    fs::create_dir(&note).unwrap();
    assert_eq!(told(2), 2);
    fs::remove_dir(&note).unwrap();
    assert_eq!(told(1), 1);
    // The end of a running helper is news.
    drop(Helper::start(&scratch));
    assert_eq!(told(2), 1);
}

#[test]
fn a_second_helper_does_not_take_the_socket() {
    let (scratch, helper) = Scratch::with_helper();
    let ran = within(&mut scratch.command(links().join("nbs-ts-helper")));
    let expected =
        format!("nbs-ts-helper: cannot start: a helper is already running (pid {})\n", helper.pid());
    assert_eq!((ran.code, ran.err.as_str()), (1, expected.as_str()), "{ran:?}");
    let mode = fs::metadata(scratch.home().join("helper.sock")).unwrap();
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(scratch.home()).unwrap().permissions().mode() & 0o777, 0o700);
    kill(helper.pid(), 19);
    let ran = within(&mut scratch.command(links().join("nbs-ts-helper")));
    assert_eq!((ran.code, ran.err.as_str()), (1, expected.as_str()), "{ran:?}");
    kill(helper.pid(), 18);
    let handle = scratch.create(&["--require-helper", "exit 4"]);
    scratch.ended(&handle);
    helper.stop();
    // A helper of another make, which takes no lock.
    let script = "s.listen(9); print('up', flush=True); time.sleep(600)";
    let mut other = scratch.command("python3");
    other.arg("-c").arg(format!(
        "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('helper.sock'); {script}"
    ));
    let mut other = other.current_dir(scratch.home()).stdout(Stdio::piped()).spawn().unwrap();
    eventually("it listens", || scratch.python_quietly("connect()"));
    let ran = within(&mut scratch.command(links().join("nbs-ts-helper")));
    assert!(ran.code == 1 && ran.err.contains(&format!("(pid {})", other.id())), "{ran:?}");
    other.kill().unwrap();
    other.wait().unwrap();
    Helper::start(&scratch).stop();
}

#[test]
fn a_state_folder_may_have_a_path_longer_than_a_socket_address() {
    let scratch = Scratch::in_folder(&"d".repeat(200));
    let helper = Helper::start(&scratch);
    let handle = scratch.create(&["--require-helper", "exit 4"]);
    scratch.ended(&handle);
    assert_eq!(scratch.file(&handle, "exit_code"), "4");
    helper.stop();
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    let scratch = Scratch::new();
    let mut command = scratch.command(links().join("nbs-ts-helper"));
    let mut helper = command.stdout(Stdio::piped()).spawn().unwrap();
    let log = helper.stdout.take().unwrap();
    eventually("it serves", || scratch.python_quietly("connect()"));
    // More than a pipe holds: each line is some 3,000 bytes.
    let long = "y".repeat(2_900);
    for _ in 0..30 {
        let handle = scratch.create(&["--require-helper", &format!("true {long}")]);
        scratch.ended(&handle);
    }
    drop(log);
    let handle = scratch.create(&["--require-helper", "exit 4"]);
    scratch.ended(&handle);
    assert_eq!(scratch.file(&handle, "exit_code"), "4");
    kill(helper.id(), 15);
    assert!(helper.wait().unwrap().success());
}

#[test]
fn a_socket_that_was_handed_to_it_is_served_and_left() {
    let scratch = Scratch::new();
    let mut command = scratch.command("python3");
    command.arg("-c").arg(
        r#"
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
os.chdir(os.environ['NBS_TS_HOME'])
s.bind('helper.sock'); s.listen(5)
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES='x')
os.execv(sys.argv[1], sys.argv[1:])
"#,
    );
    let helper = Helper::start_as(&scratch, command.arg(links().join("nbs-ts-helper")));
    let handle = scratch.create(&["--require-helper", "env | grep LISTEN_; exit 4"]);
    scratch.ended(&handle);
    assert_eq!((scratch.output(&handle).as_str(), scratch.file(&handle, "exit_code").as_str()), ("", "4"));
    helper.stop();
    assert!(scratch.home().join("helper.sock").exists());
}

#[test]
fn idle_processes_do_not_wake_up() {
    let (scratch, helper) = Scratch::with_helper();
    let handle = scratch.create(&["--require-helper", "sleep 600"]);
    let keeper = scratch.keeper(&handle).unwrap();
    let switches = |pid: u32| -> u64 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
        counts.map(|line| line.split_whitespace().next_back().unwrap().parse::<u64>().unwrap()).sum()
    };
    // The work that create began may take some time to end.
    eventually("two seconds of rest", || {
        let before = (switches(helper.pid()), switches(keeper));
        std::thread::sleep(Duration::from_secs(2));
        (switches(helper.pid()), switches(keeper)) == before
    });
    within(&mut scratch.ts(&["kill", &handle])).ok();
}

#[test]
fn the_session_is_whole_whenever_the_child_looks() {
    let (scratch, _helper) = Scratch::with_helper();
    for _ in 0..20 {
        let look = "for f in command daemon_pid input.fifo meta output.log pid slave_pty; do \
                    test -e $NBS_TS_HOME/sessions/$NBS_TS_SESSION/$f || echo missing $f; done";
        let handle = scratch.create(&["--require-helper", look]);
        scratch.ended(&handle);
        assert_eq!(scratch.output(&handle), "");
    }
}

#[test]
fn doctor_tells_what_is_bad_and_how_to_mend_it() {
    let scratch = Scratch::new();
    let ran = within(&mut scratch.ts(&["doctor"]));
    // Sessions can do without a helper.
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.contains("note helper: helper not running")
            && ran.out.contains("     fix: run nbs-ts-helper"),
        "{ran:?}"
    );
    let ran = scratch.ts(&["doctor"]).env("PATH", "/no/such").output().unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.code() == Some(1) && out.contains("bad  shell: cannot run 'sh'"), "{ran:?}");
    let _helper = Helper::start(&scratch);
    let ran = within(&mut scratch.ts(&["doctor", "--json"]));
    let helper = ran.out.lines().find(|line| line.contains("\"check\":\"helper\"")).unwrap();
    assert!(helper.contains("\"ok\":true") && helper.contains("\"fix\":null"), "{ran:?}");
    assert_eq!(ran.out.lines().count(), 9, "{ran:?}");
}

#[test]
fn roles_refuse_to_run_by_hand() {
    let scratch = Scratch::new();
    let link = scratch.path("nbs-keeper");
    std::os::unix::fs::symlink(fs::canonicalize(binary()).unwrap(), &link).unwrap();
    for arguments in [&[][..], &["0123abcd", "/", "1", "0"]] {
        let ran = within(scratch.command(&link).args(arguments));
        assert!(ran.code == 4 && ran.err.contains("not to be run by hand"), "{ran:?}");
    }
}

fn kill(pid: u32, signal: i32) {
    let status =
        Command::new("bash").arg("-c").arg(format!("kill -{signal} {pid}")).stderr(Stdio::null()).status();
    status.unwrap();
}

#[test]
fn the_helpers_bash_will_do_where_the_caller_has_none() {
    let (scratch, _helper) = Scratch::with_helper();
    let nbs_ts = links().join("nbs-ts");
    let mut call = Command::new(nbs_ts);
    call.args(["create", "--require-helper", "exit 3"]).env_clear();
    let ran = call.env("PATH", "/no/such").env("NBS_TS_HOME", scratch.home()).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let handle = String::from_utf8(ran.stdout).unwrap().trim().to_owned();
    scratch.ended(&handle);
    assert_eq!(scratch.file(&handle, "exit_code"), "3");
}
