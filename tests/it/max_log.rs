use std::{fs, os::unix::fs::MetadataExt, process::Stdio};

use crate::support::{Mount, Scratch, SmallDisk, eventually, field, is_running, run, signal};

/// The log's size on the disk.
fn disk(scratch: &Scratch, handle: &str) -> u64 {
    fs::metadata(scratch.folder(handle).join("output.log")).unwrap().blocks() * 512
}

fn start(scratch: &Scratch, handle: &str) -> u64 {
    scratch.file(handle, "log_start").parse().unwrap()
}

fn gone(bytes: u64) -> String {
    format!("nbs-ts: {bytes} bytes of output are gone: --max-log dropped them\n")
}

/// The numbers from 1 up, as a terminal prints them.
fn numbers(last: u64) -> String {
    (1..=last).map(|n| format!("{n}\r\n")).collect()
}

#[test]
fn the_screen_of_a_bounded_log_is_its_end() {
    let scratch = Scratch::new();
    // The part read first is gone as a whole, and the next one in part.
    let handle = scratch.create_with(&["--max-log=64K"], "yes | head -c 7M; seq 90");
    scratch.ts(&["wait", &handle, "--exit", "--timeout=110"]).code(0);
    let last = |first: u64| (first..=90).map(|n| format!("{n}\n")).collect::<String>();
    scratch.ts(&["screen", &handle]).code(0).stdout(last(68) + "\n");
    let seen = scratch.ts(&["screen", "--scrollback=67", &handle]).code(0).out();
    assert_eq!(seen, last(1) + "\n");

    // With a cursor that a piece which is drawn twice would have moved.
    let handle = scratch.create_with(&["--max-log=64K"], "yes | head -c 99K; printf '\\nend\\033[A'");
    scratch.ts(&["wait", &handle, "--exit"]).code(0);
    let seen = scratch.ts(&["screen", "--scrollback=20000", &handle]).code(0).out();
    assert_eq!(seen.matches("end").count(), 1, "{} lines", seen.lines().count());
}

#[test]
fn a_bounded_log_keeps_its_offsets_and_its_end() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--max-log=256K"], "seq 1000000");
    let mut most = 0;
    while scratch.ts(&["status", &handle]).out().starts_with("alive") {
        most = most.max(disk(&scratch, &handle));
    }
    let most = most.max(disk(&scratch, &handle));
    assert!(most <= 256 * 1024, "{most} bytes of disk");
    let all = numbers(1_000_000);
    let (start, end) = (start(&scratch, &handle), all.len() as u64);
    let left = &all[usize::try_from(start).unwrap()..];
    assert!(left.len() >= 64 * 1024, "{} bytes are left", left.len());
    assert_eq!(fs::metadata(scratch.folder(&handle).join("output.log")).unwrap().len(), end);
    let status = scratch.ts(&["status", "--json", &handle]).code(0).out();
    assert!(status.contains(&format!("\"log\":{{\"start\":{start},\"end\":{end}}}")), "{status}");
    assert_eq!(field(&status, "max_log"), "262144");

    let read = |options: &[&str]| scratch.ts(&[&["read", &handle], options].concat()).code(0);
    assert_eq!(read(&[]).stdout(left).err(), gone(start));
    read(&["--last=2"]).silent().stdout("999999\r\n1000000\r\n");
    assert_eq!(read(&["--last=999999"]).stdout(left).err(), gone(start));
    read(&[&format!("--offset={start}")]).silent().stdout(left);
    let before = (start - 5).to_string();
    assert_eq!(read(&["--offset", &before, "--limit=8"]).stdout(&left[..3]).err(), gone(5));
    assert_eq!(read(&["--offset=0", "--limit=10"]).stdout("").err(), gone(10));
    let object = read(&["--json"]).silent();
    assert_eq!(object.field("offset"), start.to_string());
    assert_eq!(object.field("lost"), start.to_string());
    assert_eq!(object.field("next_offset"), end.to_string());
    assert!(!read(&["--json", "--last=1"]).out().contains("lost"));
    assert_eq!(scratch.ts(&["read-new", &handle]).code(0).stdout(left).err(), gone(start));
    scratch.ts(&["read-new", &handle]).code(0).stdout("").silent();

    scratch.ts(&["wait-pattern", &handle, "1000000"]).code(0);
    let found = scratch.ts(&["wait-pattern", "--json", &handle, "\r\n1000000\r\n"]).code(0);
    assert_eq!(found.field("offset"), (end - 11).to_string());
    assert_eq!(found.field("lost"), start.to_string());
    scratch
        .ts(&["wait-pattern", &handle, "\r\n7\r\n"])
        .code(1)
        .complains(&format!("({start} bytes of output are gone)"));
    scratch.ts(&["wait", &handle, "--pattern=1000000"]).code(0).stdout_has("pattern\t1000000");
    let frames = scratch.ts(&["attach", "--json", &handle]).code(0).out();
    let first = frames.lines().nth(1).unwrap();
    assert_eq!((field(first, "offset"), field(first, "lost")), (start.to_string(), start.to_string()));
    assert_eq!(frames.matches("\"lost\"").count(), 1);
}

#[test]
fn a_reader_that_is_overtaken_is_told_how_much_it_missed() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--max-log=64K"], "stty -opost; read x; yes; exit");
    let mut follower = scratch
        .command("nbs-ts")
        .args(["attach", &handle])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    scratch.ts(&["send", &handle, ""]).code(0);
    let log = scratch.folder(&handle).join("output.log");
    // It does not read on while its own reader does not.
    eventually("it being overtaken", || fs::metadata(&log).unwrap().len() > 4 * 1024 * 1024);
    let mut reads = 0;
    while reads < 50 {
        let ran = scratch.ts(&["read-new", &handle]).code(0);
        // Never a zero: dropped bytes are not output.
        let text = ran.out();
        assert!(text.bytes().all(|byte| b"y\n\r".contains(&byte)), "{:?}", &text[..text.len().min(100)]);
        reads += 1;
    }
    scratch.ts(&["key", &handle, "C-c"]).code(0);
    let output = {
        let mut stdout = follower.stdout.take().unwrap();
        let mut stderr = follower.stderr.take().unwrap();
        let errors = std::thread::spawn(move || std::io::read_to_string(&mut stderr).unwrap());
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut stdout, &mut bytes).unwrap();
        (bytes, errors.join().unwrap())
    };
    assert!(follower.wait().unwrap().success());
    let notice = b"\r\n\x1b[2m[process exited";
    let length = output.0.windows(notice.len()).rposition(|window| window == notice).unwrap();
    let told: u64 =
        output.1.lines().map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(length as u64 + told, fs::metadata(&log).unwrap().len(), "{}", output.1);
    assert!(!output.0.contains(&0));
    assert!(told > 0);
}

#[test]
fn run_and_ask_know_what_of_an_answer_is_gone() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--max-log=64K"], "bash");
    let all = numbers(300_000).replace('\r', "");
    let ran = scratch.ts(&["run", "--json", &handle, "seq 300000; (exit 7)"]).code(7);
    // The amount depends on which process was faster. The bytes that are left are right.
    let output = ran.field("output").trim_matches('"').replace("\\n", "\n");
    assert!(all.ends_with(&output) && output.len() >= 8 * 1024, "{} bytes", output.len());
    assert_eq!(ran.field("exit_code"), "7");
    let printed = scratch.ts(&["ask", "--json", &handle, "seq 300000"]).code(0);
    let output = printed.field("output").trim_matches('"').replace("\\n", "\n");
    assert!(all.ends_with(&output) && output.len() >= 8 * 1024, "{} bytes", output.len());
    assert!(printed.field("lost").parse::<u64>().unwrap() > 1_000_000);
    scratch.ts(&["run", &handle, "echo fine"]).code(0).silent().stdout("fine\n");
}

#[test]
fn an_end_that_is_gone_from_a_bounded_log_is_known_all_the_same() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--max-log=64K"], "bash");
    run(scratch.command("mkfifo").args(["one", "two"])).code(0);
    let command = "echo begun; read x < one; (read x < two; seq 100000; echo over) & (exit 7)";
    let running = scratch.start(&["run", &handle, command]);
    scratch.ts(&["wait-pattern", &handle, "begun\r\n"]).code(0);
    let signal = |name: &str| signal(name, &running.pid().to_string());
    signal("-STOP");
    let write = |fifo: &str| run(scratch.command("bash").args(["-c", "echo > $0", fifo])).code(0);
    write("one");
    eventually("its end", || scratch.file(&handle, "completion.log").ends_with(" 7\n"));
    write("two");
    scratch.ts(&["wait-pattern", &handle, "over\r\n"]).code(0);
    signal("-CONT");
    running.finish().code(7);
}

#[test]
fn a_full_disk_takes_what_a_bounded_log_can_spare() {
    let disk = SmallDisk::new("600k");
    let ts = |arguments: &[&str]| disk.ts(arguments);
    // More than there is room for.
    let command = "read x; seq 300000; exit 4";
    let handle = ts(&["create", "--no-helper", "--max-log=1M", command]).code(0).out().trim().to_owned();
    ts(&["send", &handle, "go"]).code(0);
    let read = |what: &str| fs::read_to_string(disk.path.join("nbs/sessions").join(&handle).join(what));
    eventually("the end, though nobody makes room", || read("exit_code").is_ok());
    disk.resize("8m");
    ts(&["wait-complete", &handle]).code(0).stdout("4\n");
    let all = format!("go\r\n{}", numbers(300_000));
    let start: usize = read("log_start").unwrap().parse().unwrap();
    ts(&["read", &handle]).code(0).stdout(&all[start..]);
    ts(&["kill", "--all"]).code(0);
}

#[test]
fn max_log_is_rejected_if_the_file_system_cannot_punch_holes() {
    let scratch = Scratch::new();
    let state = scratch.path.join("plain");
    fs::create_dir(&state).unwrap();
    let _mounted = Mount::ramfs(&state);
    let home = state.join("nbs");
    let ts = |arguments: &[&str]| run(scratch.command("nbs-ts").env("NBS_TS_HOME", &home).args(arguments));
    ts(&["create", "--no-helper", "--max-log=64K", "true"]).code(1).stdout("").complains("--max-log");
    assert_eq!(fs::read_dir(home.join("sessions")).unwrap().count(), 0);
}

#[test]
fn a_folder_that_vanishes_stops_no_program() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--max-log=64K"], "read x; seq 100000");
    let (child, relay) = (scratch.file(&handle, "pid"), scratch.file(&handle, "daemon_pid"));
    let mut fifo = fs::File::options().write(true).open(scratch.folder(&handle).join("input.fifo")).unwrap();
    fs::remove_dir_all(scratch.folder(&handle)).unwrap();
    std::io::Write::write_all(&mut fifo, b"go\n").unwrap();
    eventually("the program's end", || !is_running(&child));
    eventually("the relay's end", || !is_running(&relay));
}

#[test]
fn a_bound_is_a_size_that_is_worth_one() {
    let scratch = Scratch::new();
    for size in ["0", "1", "63K", "-1", "", "x"] {
        scratch.ts(&["create", "--max-log", size, "true"]).code(4).stdout("").complains("--max-log");
    }
}

#[test]
fn a_follower_gets_the_rest_of_a_session_that_was_removed() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--max-log=1M"], "stty -opost; seq 300000; exec sleep 1000");
    scratch.ts(&["wait-pattern", &handle, "\n300000\n"]).code(0);
    let begin = start(&scratch, &handle);
    let mut command = scratch.command("nbs-ts");
    let mut follower = command.args(["attach", "--json", &handle]).stdout(Stdio::piped()).spawn().unwrap();
    let mut frames = std::io::BufReader::new(follower.stdout.take().unwrap());
    let mut lines = vec![String::new(); 2];
    for line in &mut lines {
        std::io::BufRead::read_line(&mut frames, line).unwrap();
    }
    assert_eq!(field(&lines[1], "lost"), begin.to_string());
    // The rest is more than a pipe holds, so it is still writing.
    scratch.ts(&["kill", &handle]).code(0);
    let rest: Vec<String> = std::io::BufRead::lines(frames).map(Result::unwrap).collect();
    assert!(follower.wait().unwrap().success());
    let (end, output) = rest.split_last().unwrap();
    assert_eq!((field(end, "type"), field(end, "ended_by")), ("\"pty_exited\"".into(), "\"kill\"".into()));
    // However it is divided into frames.
    let data: String = output.iter().map(|frame| field(frame, "data").trim_matches('"').to_owned()).collect();
    assert!(data.ends_with("299999\\n300000\\n"));
    assert!(output.iter().all(|frame| !frame.contains("\"lost\"") && !frame.contains("\\u0000")));
}
