use std::{fs, process::Command, time::Duration};

use rustix::{
    fs::{Mode, OFlags, open},
    io::ioctl_fionread,
};

use crate::support::{Scratch, SmallDisk, eventually, field, is_running, run, signal, timing_out};

#[test]
fn a_killed_relay_leaves_a_dead_session_with_all_that_it_had_read() {
    let (scratch, handle) = Scratch::with_session("seq 1000; echo end; exec sleep 1000");
    scratch.ts(&["wait-pattern", &handle, "end"]).code(0);
    let before = scratch.ts(&["read", &handle]).out();
    let waits =
        [scratch.start(&["wait-pattern", &handle, "never"]), scratch.start(&["wait-complete", &handle])];
    let following = scratch.start(&["attach", &handle, "--new"]);
    signal("-KILL", &scratch.file(&handle, "daemon_pid"));
    for wait in waits {
        wait.finish().code(1).stdout("").complains("unknown exit code");
    }
    following.finish().code(0).stdout_has("unknown");
    scratch.wait_for_end(&handle);
    scratch.ts(&["status", &handle]).code(0).stdout("dead\nexit_code: unknown\nended_by: unknown\n");
    scratch.ts(&["exit-code", &handle]).code(0).stdout("-1\n");
    let (status, list) = (scratch.ts(&["status", "--json", &handle]), scratch.ts(&["list", "--json"]));
    for name in ["command", "state", "exit_code", "started", "ended"] {
        assert_eq!(status.field(name), list.field(name), "{name}: {status:?}");
    }
    scratch.ts(&["send", &handle, "x"]).code(1).complains("has ended");
    scratch.ts(&["read", &handle]).code(0).stdout(before);
    assert_eq!(
        scratch.ts(&["list"]).out(),
        format!("{handle}\tdead\t-\tseq 1000; echo end; exec sleep 1000\n")
    );
    // The kernel hung the terminal up.
    let child = scratch.file(&handle, "pid");
    eventually("the child's end", || !is_running(&child));
}

#[test]
fn a_relay_that_is_told_to_go_hangs_the_terminal_up_and_tells_the_end() {
    let (scratch, handle) = Scratch::with_session("exec sleep 1000");
    signal("-TERM", &scratch.file(&handle, "daemon_pid"));
    scratch.wait_for_end(&handle);
    scratch.ts(&["status", &handle]).stdout("dead\nexit_code: 129\n");
    let handle = scratch.create("bash");
    scratch.ts(&["send", &handle, "true"]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0);
    signal("-TERM", &scratch.file(&handle, "daemon_pid"));
    scratch.wait_for_end(&handle);
}

#[test]
fn a_program_that_acts_on_a_hangup_only_after_another_signal_ends() {
    let program = "import signal, sys\n\
                   hung_up = []\n\
                   signal.signal(signal.SIGHUP, lambda *_: hung_up.append(1))\n\
                   signal.signal(signal.SIGWINCH, lambda *_: hung_up and sys.exit(3))\n\
                   print('ready', flush=True)\n\
                   while True: signal.pause()";
    let scratch = Scratch::new();
    fs::write(scratch.path.join("late.py"), program).unwrap();
    let handle = scratch.create("exec python3 late.py");
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    signal("-TERM", &scratch.file(&handle, "daemon_pid"));
    scratch.wait_for_end(&handle);
    scratch.ts(&["exit-code", &handle]).stdout("3\n");
}

#[test]
fn a_relay_that_is_told_to_go_while_its_child_still_begins_hangs_it_up() {
    use rustix::process::{Pid, Signal, kill_process};
    let child_of = |pid: u32| {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.trim().parse::<u32>().ok()
    };
    // Before that, its parent waits for it to be.
    let has_begun = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.starts_with(b"nbs-child\0"))
    };
    let scratch = Scratch::new();
    for _ in 0..40 {
        let creating = scratch.start(&["create", "--no-helper", "exec sleep 1000"]);
        // As early as can be: mostly it has not made the terminal its own yet.
        while is_running(&creating.pid().to_string()) {
            if let Some(child) = child_of(creating.pid()).and_then(child_of).filter(has_begun) {
                let _ = kill_process(Pid::from_raw(child.cast_signed()).unwrap(), Signal::STOP);
                break;
            }
        }
        let handle = creating.finish().code(0).out().trim().to_owned();
        signal("-TERM", &scratch.file(&handle, "daemon_pid"));
        scratch.wait_for_end(&handle);
        scratch.ts(&["exit-code", &handle]).stdout("129\n");
    }
}

#[test]
fn a_full_disk_loses_nothing_and_stops_nobody_else() {
    let disk = SmallDisk::new("512k");
    let ts = |arguments: &[&str]| disk.ts(arguments);
    let command = "stty -echo; read x; seq 200000; read y; echo \"sentinel, $y\"";
    let handle = ts(&["create", command]).code(0).out().trim().to_owned();
    let other = ts(&["create", "stty -echo; cat > /dev/null"]).code(0).out().trim().to_owned();
    ts(&["wait", &handle, "--input"]).code(0);
    ts(&["send", &handle, "go"]).code(0);
    eventually("the disk being full", || {
        ts(&["status", "--json", &handle]).field("stalled").contains("No space left")
    });
    ts(&["list", "--long"]).code(0).stdout_has("stalled: No space left");
    let listed = ts(&["list", "--long", "--json"]).code(0).out();
    let of_it = listed.lines().find(|line| line.contains(&handle)).unwrap();
    assert!(of_it.contains("\"stalled\":\"No space left"), "{of_it}");
    // Meanwhile all else works, what needs no room.
    ts(&["status", &handle]).code(0).stdout("alive\n");
    ts(&["send", &other, "x"]).code(0);
    ts(&["send", &handle, "typed while it stood still"]).code(0);
    // A session that cannot be completed leaves nothing, with a bound or without.
    ts(&["create", "--no-helper", "true"]).code(1).stdout("").complains("No space left");
    ts(&["create", "--no-helper", "--max-log=64K", "true"]).code(1).stdout("").complains("No space left");
    let mut left: Vec<_> = fs::read_dir(disk.path.join("nbs/sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    let mut there = [&*handle, &*other];
    there.sort();
    assert_eq!(left, there);
    disk.resize("16m");
    ts(&["wait-complete", &handle]).code(0).stdout("0\n");
    let expected: String = (1..=200_000).map(|n| format!("{n}\r\n")).collect();
    let printed = ts(&["read", &handle]).out();
    let last = "sentinel, typed while it stood still\r\n";
    assert!(printed == format!("{expected}{last}"), "{} bytes", printed.len());
    ts(&["kill", "--all"]).code(0);
    assert_eq!(ts(&["list"]).out(), "");
}

#[test]
fn on_a_full_disk_read_new_prints_each_part_once() {
    let disk = SmallDisk::new("512k");
    let ts = |arguments: &[&str]| disk.ts(arguments);
    let handle = ts(&["create", "--no-helper", "echo printed; exit 3"]).code(0).out().trim().to_owned();
    ts(&["wait", &handle, "--exit"]).code(0);
    let _ = fs::write(disk.path.join("filler"), vec![0; 1 << 20]);
    for _ in 0..2 {
        ts(&["read-new", &handle]).code(1).stdout("").complains("move the cursor");
        ts(&["wait-complete", &handle]).code(1).stdout("").complains("move the cursor");
    }
    fs::remove_file(disk.path.join("filler")).unwrap();
    ts(&["read-new", &handle]).code(0).stdout("printed\r\n");
    ts(&["wait-complete", &handle]).code(0).stdout("3\n");
    // Actions that need no space still work.
    let _ = fs::write(disk.path.join("filler"), vec![0; 1 << 20]);
    ts(&["read-new", &handle]).code(0).stdout("");
}

#[test]
fn a_create_that_has_too_few_descriptors_leaves_nothing() {
    let scratch = Scratch::new();
    scratch.ts(&["kill", &scratch.create("cat")]).code(0);
    let sessions = scratch.state().join("sessions");
    let mut failures = 0;
    for count in 3..40 {
        let create = format!("ulimit -n {count}; exec nbs-ts create --no-helper 'exec cat'");
        let ran = scratch.bash(&create);
        let left: Vec<_> = fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        if ran.status.success() {
            let handle = ran.out().trim().to_owned();
            assert_eq!(left, [&*handle], "{count}");
            scratch.ts(&["kill", &handle]).code(0);
        } else {
            failures += 1;
            assert!(left.is_empty(), "{count}: {left:?}, {ran:?}");
        }
    }
    assert!(failures > 5, "{failures}");
}

#[test]
fn the_last_output_waits_for_room_on_the_disk() {
    let disk = SmallDisk::new("512k");
    let ts = |arguments: &[&str]| disk.ts(arguments);
    let command = "stty -echo; read x; seq -w 10000 12999; exit 7";
    let handle = ts(&["create", "--no-helper", command]).code(0).out().trim().to_owned();
    ts(&["wait", &handle, "--input"]).code(0);
    let _ = fs::write(disk.path.join("filler"), vec![0; 1 << 20]);
    let filler = fs::File::options().write(true).open(disk.path.join("filler")).unwrap();
    ts(&["send", &handle, "go"]).code(0);
    // Room comes page by page, also when the child has ended, and is used up.
    let alive = || ts(&["status", &handle]).out() == "alive\n";
    while alive() {
        filler.set_len(filler.metadata().unwrap().len().saturating_sub(1) / 4096 * 4096).unwrap();
        let is_full = || rustix::fs::statvfs(&disk.path).unwrap().f_bavail == 0;
        eventually("the room being used", || is_full() || !alive());
    }
    filler.set_len(0).unwrap();
    ts(&["wait", &handle, "--exit"]).code(0);
    let expected: String = (10_000..13_000).map(|n| format!("{n}\r\n")).collect();
    assert_eq!(ts(&["read", &handle]).out(), expected);
    ts(&["exit-code", &handle]).stdout("7\n");
}

#[test]
fn a_session_whose_disk_is_full_can_be_killed() {
    let disk = SmallDisk::new("256k");
    let ts = |arguments: &[&str]| disk.ts(arguments);
    // Its relay has not to be waited for, which would take 5 s each time. Something else
    // may take as long once in a while.
    let goes_at_once = || {
        let handle = ts(&["create", "seq 100000; exec sleep 1000"]).code(0).out().trim().to_owned();
        eventually("the disk being full", || ts(&["status", "--json", &handle]).field("stalled") != "null");
        let ran = ts(&["kill", &handle]).code(0);
        ts(&["list"]).code(0).stdout("");
        ran.took < Duration::from_secs(4)
    };
    assert!((0..5).any(|_| goes_at_once()), "it is waited for");
}

#[test]
fn a_limit_of_file_size_stalls_and_does_not_kill() {
    let scratch = Scratch::new();
    let script = "ulimit -f 16; nbs-ts create --no-helper 'seq 10000; exec sleep 1000'";
    let handle = scratch.bash(script).code(0).out().trim().to_owned();
    let is_stalled = |handle: &str| {
        eventually("it being stalled", || {
            scratch.ts(&["status", "--json", handle]).field("stalled").contains("large")
        });
    };
    is_stalled(&handle);
    scratch.ts(&["status", &handle]).stdout("alive\n");
    scratch.ts(&["kill", &handle]).code(0);
    // In the middle of a single write; and raised again.
    let handle = scratch.create("stty -echo; read x; seq 10000; exit 0");
    let relay = scratch.file(&handle, "daemon_pid");
    let limit = |size| limit_files(&relay, size);
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    limit("10001");
    scratch.ts(&["send", &handle, "go"]).code(0);
    is_stalled(&handle);
    assert_eq!(scratch.file(&handle, "output.log").len(), 10_001);
    limit("unlimited");
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    let printed: String = (1..=10_000).map(|n| format!("{n}\r\n")).collect();
    scratch.ts(&["read", &handle]).code(0).stdout(&printed);
    assert_eq!(field(&scratch.file(&handle, "exit.json"), "output_bytes"), printed.len().to_string());
}

/// Limits the relay's files to this many bytes.
fn limit_files(relay: &str, size: &str) {
    run(Command::new("prlimit").args(["--pid", relay, &format!("--fsize={size}:unlimited")])).code(0);
}

const NO_ROOM: &str = "its output cannot be written: ";

#[test]
fn nothing_is_an_answer_while_output_cannot_be_written() {
    let (scratch, handle) = Scratch::with_session("while read x; do echo got $x; done");
    let relay = scratch.file(&handle, "daemon_pid");
    scratch.ts(&["ask", &handle, "a"]).code(0).stdout("got a\n");
    limit_files(&relay, &scratch.file(&handle, "output.log").len().to_string());
    scratch.ts(&["ask", "--timeout=1", &handle, "b"]).code(3).stdout("").complains(NO_ROOM);
    let ran = scratch.ts(&["ask", "--timeout=1", &handle, "c"]);
    ran.code(3).stdout("").complains(NO_ROOM).complains("the text was not typed");
    for condition in ["--input", "--idle=0.1", "--stable=0.1"] {
        scratch.ts(&["wait", "--timeout=1", condition, &handle]).code(3).stdout("").complains(NO_ROOM);
    }
    scratch.ts(&["doctor"]).code(1).stdout_has(&format!("session '{handle}': {NO_ROOM}"));
    limit_files(&relay, "unlimited");
    scratch.ts(&["ask", &handle, "d"]).code(0).stdout("got d\n");
    scratch.ts(&["read", &handle]).stdout("a\r\ngot a\r\nb\r\ngot b\r\nd\r\ngot d\r\n");
}

#[test]
fn a_shell_whose_output_cannot_be_written_is_not_said_to_wait_and_is_given_nothing_twice() {
    let scratch = Scratch::new();
    let (handle, count) = (scratch.create("bash"), scratch.path.join("count"));
    let relay = scratch.file(&handle, "daemon_pid");
    scratch.ts(&["ask", &handle, "true"]).code(0);
    let fill = || limit_files(&relay, &scratch.file(&handle, "output.log").len().to_string());
    // It is tried again now and then.
    let empty = || {
        limit_files(&relay, "unlimited");
        eventually("its going on", || scratch.ts(&["status", "--json", &handle]).field("stalled") == "null");
    };
    fill();
    scratch.ts(&["ask", "--timeout=1", &handle, "echo hi; (exit 3)"]).code(3).complains(NO_ROOM);
    let ran = scratch.ts(&["run", &handle, "echo no"]).code(125).stdout("").complains(NO_ROOM);
    assert!(!ran.err().contains("waits for input"), "{}", ran.shown());
    empty();
    scratch.ts(&["run", &handle, "echo yes"]).code(0).stdout("yes\n");
    fill();
    let command = format!("echo once >> {}; seq 5", count.display());
    let ran = scratch.ts(&["run", "--timeout=3", &handle, &command]).code(124).stdout("");
    assert_eq!(ran.err().matches(NO_ROOM).count(), 2, "it is told at once, and at the end: {}", ran.shown());
    assert!(!ran.err().contains("ignores the interrupt"), "{}", ran.shown());
    empty();
    scratch.ts(&["run", &handle, "echo yes"]).code(0).stdout("yes\n");
    assert_eq!(fs::read_to_string(&count).unwrap(), "once\n");
    fill();
    let filling = scratch.start(&["run", &handle, "seq 5; (exit 7)"]);
    eventually("it being stalled", || scratch.ts(&["status", "--json", &handle]).field("stalled") != "null");
    limit_files(&relay, "unlimited");
    filling.finish().code(7).stdout("1\n2\n3\n4\n5\n");
}

#[test]
fn a_command_that_fills_the_disk_is_told_why_it_does_not_end() {
    let disk = SmallDisk::new("512k");
    let ts = |arguments: &[&str]| disk.ts(arguments);
    let mut handle = String::new();
    let ran = timing_out(
        |ran| ran.err().matches(NO_ROOM).count() == 2,
        |timeout| {
            ts(&["kill", "--all"]).code(0);
            handle = ts(&["create", "--no-helper", "bash"]).code(0).out().trim().to_owned();
            ts(&["run", &handle, "true"]).code(0);
            ts(&["run", timeout, "--max=100", &handle, "seq 200000"]).code(124)
        },
    );
    assert_eq!(ran.err().matches(NO_ROOM).count(), 2, "{}", ran.err());
    disk.resize("16m");
    // It is tried again now and then.
    eventually("its going on", || ts(&["status", "--json", &handle]).field("stalled") == "null");
    ts(&["run", &handle, "echo yes"]).code(0).stdout("yes\n");
    ts(&["kill", "--all"]).code(0);
}

#[test]
fn a_log_that_is_removed_or_cut_takes_nobody_down() {
    let (scratch, handle) = Scratch::with_session("stty -echo; while read x; do echo $x; done");
    scratch.ts(&["send", &handle, "one"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "one"]).code(0);
    let log = scratch.folder(&handle).join("output.log");
    fs::File::options().write(true).open(&log).unwrap().set_len(0).unwrap();
    scratch.ts(&["send", &handle, "two"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "two"]).code(0);
    fs::remove_file(&log).unwrap();
    scratch.ts(&["read", &handle]).code(1).complains("open the log");
    scratch.ts(&["send", &handle, "three"]).code(0);
    scratch.ts(&["status", &handle]).stdout("alive\n");
}

#[test]
fn a_folder_that_vanishes_takes_nobody_with_it() {
    let (scratch, handle) = Scratch::with_session("exec sleep 1000");
    let (child, relay) = (scratch.file(&handle, "pid"), scratch.file(&handle, "daemon_pid"));
    fs::remove_dir_all(scratch.folder(&handle)).unwrap();
    scratch.ts(&["status", &handle]).code(2);
    scratch.ts(&["list"]).code(0).stdout("");
    signal("-TERM", &child);
    eventually("the relay's end", || !is_running(&relay));
}

#[test]
fn a_create_that_is_killed_leaves_nothing_that_gc_does_not_find() {
    let scratch = Scratch::new();
    scratch.create("exit 0");
    for delay in 0..60 {
        let creating = scratch.start(&["create", "--no-helper", "--name=half", "sleep 1000"]);
        for _ in 0..delay * 2_000 {
            std::hint::spin_loop();
        }
        signal("-KILL", &creating.pid().to_string());
        drop(creating.finish());
    }
    eventually("the makers being done", || {
        scratch.ts(&["kill", "--name=half", "--if-exists"]).code(0);
        scratch.ts(&["gc", "--hours=0"]).code(0);
        fs::read_dir(scratch.state().join("sessions")).unwrap().count() == 0
    });
    eventually("no process being left", || scratch.processes().is_empty());
}

#[test]
fn descriptors_running_out_is_told_and_passes() {
    let (scratch, handle) = Scratch::with_session("cat");
    let relay = scratch.file(&handle, "daemon_pid");
    let open = fs::read_dir(format!("/proc/{relay}/fd")).unwrap().count();
    run(Command::new("prlimit").args(["--pid", &relay, &format!("--nofile={}", open + 3)])).code(0);
    let waits: Vec<_> =
        (0..8).map(|_| scratch.start(&["wait-pattern", &handle, "later", "--timeout=30"])).collect();
    eventually("the relay being full", || {
        fs::read_dir(format!("/proc/{relay}/fd")).unwrap().count() >= open + 2
    });
    // Its own work goes on: the FIFO's input is typed and recorded.
    fs::write(scratch.folder(&handle).join("input.fifo"), "later\n").unwrap();
    for wait in waits {
        wait.finish().code(0);
    }
    scratch.ts(&["send", &handle, "x"]).code(0);
    comes_to_rest(&relay);
    for nofile in [3, 4, 6, 8, 10, 12] {
        let ran = scratch.bash(&format!("ulimit -n {nofile}; exec nbs-ts create --no-helper 'sleep 1000'"));
        if !ran.status.success() {
            assert!(ran.stdout.is_empty(), "{ran:?}");
        }
    }
}

/// Waits until it hardly does anything for a while. A process that spins always does.
fn comes_to_rest(pid: &str) {
    eventually("its coming to rest", || {
        let before = cpu_ticks(pid);
        std::thread::sleep(Duration::from_millis(500));
        cpu_ticks(pid) <= before + 1
    });
}

fn cpu_ticks(pid: &str) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_clock_that_is_wrong_in_the_files_harms_nobody() {
    let (scratch, handle) = Scratch::with_session("exit 0");
    scratch.wait_for_end(&handle);
    for date in ["2100-01-01", "1970-01-02"] {
        for file in ["meta", "exit_code"] {
            run(Command::new("touch").args(["-d", date]).arg(scratch.folder(&handle).join(file))).code(0);
        }
        scratch.ts(&["list"]).code(0);
        scratch.ts(&["status", "--json", &handle]).code(0);
    }
    scratch.ts(&["gc"]).code(0);
    scratch.ts(&["status", &handle]).code(2);
}

#[test]
fn rubbish_in_state_files_is_an_error_and_no_crash() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--name=x"], "exit 0");
    scratch.wait_for_end(&handle);
    let rubbish: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for file in
        ["name", "meta", "pid", "daemon_pid", "exit_code", "completion.log", "completion_cursor", "slave_pty"]
    {
        fs::write(scratch.folder(&handle).join(file), &rubbish).unwrap();
        for verb in ["status", "exit-code", "list", "read", "wait-complete", "attach"] {
            let arguments: &[&str] = if verb == "list" { &[verb] } else { &[verb, &handle] };
            let ran = scratch.ts(arguments);
            assert!(matches!(ran.status.code(), Some(0..=2)), "{file}: {ran:?}");
        }
    }
    scratch.ts(&["kill", &handle]).code(0);
}

/// A client gets the turn of one that is given up, although it sent all its messages long before.
#[test]
fn a_turn_that_comes_by_another_s_being_given_up_is_taken() {
    use std::io::{Read, Write};
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["run", &handle, "true"]).code(0);
    let socket = scratch.folder(&handle).join("relay.sock");
    let mut stalled = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    stalled.write_all(b"turn\n").unwrap();
    let mut answer = [0; 13];
    stalled.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"turn at-once\n");
    stalled.write_all(b"type 100\nabc").unwrap();
    let ran = scratch.ts(&["run", &handle, "echo mine"]);
    ran.code(0).stdout("mine\n");
}

#[test]
fn clients_that_misbehave_cost_the_session_nothing() {
    use std::io::{Read, Write};
    let (scratch, handle) =
        Scratch::with_session("stty -echo; echo ready; while read x; do echo \"<$x>\"; done");
    // By then the relay has all open that it will ever have for itself.
    eventually("the output", || scratch.file(&handle, "output.log").contains("ready"));
    let socket = scratch.folder(&handle).join("relay.sock");
    let relay = scratch.file(&handle, "daemon_pid");
    let open = || fs::read_dir(format!("/proc/{relay}/fd")).unwrap().count();
    // A relay that answers has let go of all that it was started with.
    scratch.ts(&["status", "--json", &handle]).code(0);
    let before = open();
    let connect = || std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let mut silent = connect();
    let mut dribbling = connect();
    dribbling.write_all(b"fol").unwrap();
    let mut promising = connect();
    promising.write_all(b"type 1000000\n").unwrap();
    drop(promising);
    let mut endless = connect();
    let _ = endless.write_all(&[b'x'; 100_000]);
    let mut odd = connect();
    odd.write_all(b"dance\n").unwrap();
    let mut answer = [0; 8];
    odd.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"unknown\n");
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..random.usize(..600)).map(|_| random.u8(..)).collect();
        let _ = connect().write_all(&bytes);
    }
    scratch.ts(&["send", &handle, "still here"]).code(0);
    scratch.ts(&["wait-pattern", &handle, "<still here>"]).code(0);
    silent.write_all(b"snapshot 0\n").unwrap();
    silent.read_exact(&mut answer).unwrap();
    drop((silent, dribbling, endless, odd));
    // Descriptors that it had open for a moment at its start may have been counted.
    eventually("every descriptor being given back", || open() <= before);
    assert_eq!(field(&scratch.ts(&["status", "--json", &handle]).out(), "state"), "\"alive\"");
}

#[test]
fn a_disk_that_is_full_at_the_end_costs_neither_output_nor_exit_code() {
    let disk = SmallDisk::new("400k");
    let ts = |arguments: &[&str]| disk.ts(arguments);
    let ballast = disk.path.join("ballast");
    for command in ["read x; seq -w 1 1800; exit 3", "read x; exit 3"] {
        let handle = ts(&["create", "--no-helper", command]).code(0).out().trim().to_owned();
        run(Command::new("dd").args(["if=/dev/zero", "bs=4k"]).arg(format!("of={}", ballast.display())));
        let child = fs::read_to_string(disk.path.join("nbs/sessions").join(&handle).join("pid")).unwrap();
        ts(&["send", &handle, "go"]).code(0);
        eventually("the child's end", || !is_running(&child));
        ts(&["status", &handle]).code(0).stdout("alive\n");
        fs::remove_file(&ballast).unwrap();
        ts(&["wait-complete", &handle]).code(0).stdout("3\n");
        eventually("the end", || ts(&["exit-code", &handle]).out() == "3\n");
        let printed = ts(&["read", &handle]).out();
        let lines = if command.contains("seq") { 1_800 } else { 0 };
        assert_eq!(printed.lines().count(), lines + 1, "{printed}");
    }
    disk.resize("1m");
    ts(&["kill", "--all"]).code(0);
}

#[test]
fn a_log_that_is_removed_takes_no_exit_code_with_it() {
    let (scratch, handle) = Scratch::with_session("read x; exit 3");
    fs::remove_file(scratch.folder(&handle).join("output.log")).unwrap();
    scratch.ts(&["send", &handle, "go"]).code(0);
    scratch.wait_for_end(&handle);
    scratch.ts(&["exit-code", &handle]).stdout("3\n");
    assert_eq!(scratch.file(&handle, "completion.log"), "0 3\n");
}

#[test]
fn more_clients_than_descriptors_cost_the_session_nothing() {
    let scratch = Scratch::new();
    let script = "ulimit -n 64; nbs-ts create --no-helper 'stty -echo; read x; echo now; exit 4'";
    let handle = scratch.bash(script).code(0).out().trim().to_owned();
    let waits: Vec<_> = (0..60).map(|_| scratch.start(&["wait-pattern", &handle, "now"])).collect();
    let relay = scratch.file(&handle, "daemon_pid");
    eventually("the relay being full", || fs::read_dir(format!("/proc/{relay}/fd")).unwrap().count() > 40);
    fs::write(scratch.folder(&handle).join("input.fifo"), "go\n").unwrap();
    for wait in waits {
        let ran = wait.finish();
        // Late calls find it dead, and the line in its log.
        assert!(ran.status.success(), "{ran:?}");
    }
    scratch.wait_for_end(&handle);
    scratch.ts(&["exit-code", &handle]).stdout("4\n");
    let script = "ulimit -n 40; nbs-ts create --no-helper 'sleep 1000'";
    let handle = scratch.bash(script).code(0).out().trim().to_owned();
    let followers: Vec<_> = (0..20).map(|_| scratch.start(&["attach", &handle])).collect();
    let relay = scratch.file(&handle, "daemon_pid");
    eventually("the relay being full", || fs::read_dir(format!("/proc/{relay}/fd")).unwrap().count() > 20);
    scratch.ts(&["kill", &handle]).code(0);
    drop(followers);
}

#[test]
fn a_relay_does_no_work_for_a_sender_whose_reader_has_gone() {
    let scratch = Scratch::new();
    let script = "mkfifo gate; ulimit -f 8; \
        nbs-ts create --no-helper 'stty raw -echo; echo ready; read x <gate; seq 1 3000'";
    let handle = scratch.bash(script).code(0).out().trim().to_owned();
    scratch.ts(&["wait-pattern", &handle, "ready"]).code(0);
    let (child, relay) = (scratch.file(&handle, "pid"), scratch.file(&handle, "daemon_pid"));
    let sending = {
        fs::write(scratch.path.join("text"), vec![b'x'; 300_000]).unwrap();
        let mut call = scratch.command("nbs-ts");
        call.args(["send", "--stdin", "--timeout=3", &handle]);
        call.stdin(fs::File::open(scratch.path.join("text")).unwrap());
        crate::support::start(&mut call)
    };
    let terminal = format!("/proc/{child}/fd/1");
    let terminal = open(terminal, OFlags::RDONLY | OFlags::NOCTTY, Mode::empty()).unwrap();
    eventually("its typing", || ioctl_fionread(&terminal).unwrap() > 0);
    drop(terminal);
    fs::write(scratch.path.join("gate"), "\n").unwrap();
    eventually("the child's end", || !is_running(&child));
    eventually("it being stalled", || {
        scratch.ts(&["status", "--json", &handle]).field("stalled").contains("large")
    });
    comes_to_rest(&relay);
    sending.finish().code(3);
    scratch.ts(&["kill", &handle]).code(0);
}

#[test]
fn a_stray_file_among_the_sessions_hides_none() {
    let (scratch, handle) = Scratch::with_session("sleep 1000");
    fs::write(scratch.state().join("sessions/00000000"), "").unwrap();
    scratch.ts(&["list"]).code(0).stdout(format!("{handle}\talive\t-\tsleep 1000\n"));
    scratch.ts(&["status", "00000000"]).code(2);
    scratch.ts(&["gc"]).code(0);
    scratch.ts(&["kill", "--all"]).code(0);
}

#[test]
fn a_session_whose_lock_or_socket_was_removed_is_not_taken_for_dead() {
    let (scratch, handle) = Scratch::with_session("sleep 1000");
    fs::remove_file(scratch.folder(&handle).join("meta")).unwrap();
    scratch.ts(&["gc", "--hours=0"]).code(0);
    scratch.ts(&["status", &handle]).code(0).stdout("alive\n");
    scratch.ts(&["kill", &handle]).code(0);
    let handle = scratch.create("sleep 1000");
    fs::remove_file(scratch.folder(&handle).join("relay.sock")).unwrap();
    scratch.ts(&["status", &handle]).code(0).stdout("alive\n");
    scratch.ts(&["send", &handle, "x"]).code(1).complains("which is alive");
    scratch.ts(&["kill", &handle]).code(0);
    assert!(scratch.processes().is_empty(), "{:?}", scratch.processes());
}

#[test]
fn a_handle_that_cannot_be_printed_is_of_no_session() {
    let scratch = Scratch::new();
    scratch.bash("nbs-ts create --no-helper 'sleep 1000' >/dev/full").code(1).complains("standard output");
    scratch.ts(&["list"]).code(0).stdout("");
    assert!(scratch.processes().is_empty(), "{:?}", scratch.processes());
}
