use std::{fs, os::unix::fs::PermissionsExt};

use crate::support::{Scratch, SmallDisk, eventually, is_running, signal};

/// The faults of the sessions in the output of `doctor`, which make it fail; `None` if all is in order.
fn faults(scratch: &Scratch) -> Option<String> {
    let ran = scratch.ts(&["doctor"]);
    let told: Vec<String> =
        ran.out().lines().filter(|line| line.starts_with("bad")).map(str::to_owned).collect();
    if told.is_empty() {
        ran.code(0).stdout_has("all in order");
        return None;
    }
    ran.code(1);
    Some(told.join("\n"))
}

/// Waits until nothing is wrong; on a slow machine, processes may still be ending.
fn all_in_order(scratch: &Scratch) {
    eventually("all being in order", || {
        let told = faults(scratch).unwrap_or_default();
        assert!(told.lines().all(|line| line.contains(" is left over from session ")), "{told}");
        told.is_empty()
    });
}

#[test]
fn doctor_finds_no_fault_while_sessions_work() {
    let scratch = Scratch::new();
    assert_eq!(faults(&scratch), None);
    let shell = scratch.create("bash");
    scratch.ts(&["run", &shell, "seq 5"]).code(0);
    scratch.ts(&["send", &shell, "echo hi"]).code(0);
    scratch.ts(&["wait-complete", &shell]).code(0);
    scratch.ts(&["read-new", &shell, "--reader=a"]).code(0);
    scratch.ts(&["resize", &shell, "100x30"]).code(0);
    scratch.ts(&["screen", &shell]).code(0);
    let inner = "nbs-ts create --no-helper --name=inner 'read x'";
    let once = scratch.create_with(&["--max-log=64K"], "seq 100000; exit 3");
    scratch.wait_for_end(&once);
    scratch.ts(&["run", &shell, inner]).code(0);
    all_in_order(&scratch);
    // The file of a killed doctor does no harm.
    let left = scratch.state().join(".doctor.1");
    fs::write(&left, "").unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o600)).unwrap();
    all_in_order(&scratch);
    // The one from inside outlives that from which it was started.
    scratch.ts(&["kill", "--keep", &shell]).code(0);
    all_in_order(&scratch);
}

#[test]
fn doctor_shows_the_last_panic_until_its_file_is_removed() {
    let scratch = Scratch::new();
    scratch.create("true");
    let file = scratch.state().join("panics.log");
    let line = |number| {
        format!("[2026-03-25T14:30:00Z] nbs-relay: internal error at src/relay.rs:{number}:1: why\n")
    };
    fs::write(&file, line(1) + &line(2)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    scratch
        .ts(&["doctor"])
        .code(1)
        .stdout_has(&format!("bad  sessions: {}", line(2)))
        .stdout_has(&format!("report that line, then remove '{}'", file.display()));
    fs::remove_file(&file).unwrap();
    all_in_order(&scratch);
}

#[test]
fn each_thing_that_ought_not_to_be_is_told() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--max-log=64K"], "echo one; read x");
    scratch.ts(&["wait-pattern", &handle, "one\r\n"]).code(0);
    let folder = scratch.folder(&handle);
    let cases = [
        ("read_cursor", "6", "'read_cursor' is 6, and the log has 5 bytes"),
        ("read_cursor.r", "x", "'read_cursor.r' does not contain a number"),
        ("completion_cursor", "1", "'completion_cursor' is 1"),
        ("completion.log", "1 0\n1 0\n", "'completion.log' has a line '1 0' out of order"),
        ("completion.log", "x\n", "has a line 'x' out of order"),
        ("sizes", "0 80 24\n9 80 24\n", "'sizes' has the offset 9 out of order"),
        ("log_start", "4096", "'log_start' is 4096, and the log has 5 bytes"),
        ("notes", "", "/notes' is not a file of nbs"),
        ("lock.notes", "", "/lock.notes' is not a file of nbs"),
    ];
    for (file, content, told) in cases {
        let path = folder.join(file);
        let before = fs::read(&path).ok();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let found = faults(&scratch).unwrap_or_default();
        assert!(found.contains(told) && found.lines().count() == 1, "{file}: {found:?}");
        match before {
            Some(before) => fs::write(&path, before).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        assert_eq!(faults(&scratch), None, "{file}");
    }
    // A power cut may empty a cursor; then it counts as 0.
    for file in ["read_cursor.r", "completion_cursor"] {
        fs::write(folder.join(file), "").unwrap();
        fs::set_permissions(folder.join(file), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(faults(&scratch), None, "{file}");
    }
    let meta = folder.join("meta");
    fs::set_permissions(&meta, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(faults(&scratch).unwrap().contains("/meta' is accessible to others"));
    fs::set_permissions(&meta, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(folder.join("command"), scratch.path.join("command")).unwrap();
    assert!(faults(&scratch).unwrap().contains("has lost its 'command'"));
    fs::create_dir(folder.join("command")).unwrap();
    assert!(faults(&scratch).unwrap().contains("/command' is a directory, but should be a file"));
    fs::remove_dir(folder.join("command")).unwrap();
    fs::rename(scratch.path.join("command"), folder.join("command")).unwrap();
    for (path, told) in [("x", "/x'"), ("sessions/y", "/sessions/y'"), ("events/z", "/events/z'")] {
        fs::write(scratch.state().join(path), "").unwrap();
        assert!(faults(&scratch).unwrap().contains(told));
        fs::remove_file(scratch.state().join(path)).unwrap();
    }
    fs::write(scratch.state().join("events/0badcafe.json"), "rubbish").unwrap();
    assert!(faults(&scratch).unwrap().contains("is not an exit record of session '0badcafe'"));
    fs::remove_file(scratch.state().join("events/0badcafe.json")).unwrap();
    assert_eq!(faults(&scratch), None);
}

#[test]
fn a_lock_that_somebody_else_holds_is_told() {
    let (scratch, handle) = Scratch::with_session("true");
    scratch.wait_for_end(&handle);
    let lock = fs::File::open(scratch.folder(&handle).join("meta")).unwrap();
    lock.lock().unwrap();
    // Its relay lets go of it before it ends itself.
    eventually("somebody else's being told", || {
        faults(&scratch).is_some_and(|told| told.contains("is locked by a process that is not its relay"))
    });
    lock.unlock().unwrap();
    all_in_order(&scratch);
}

#[test]
fn doctor_names_processes_left_and_its_advice_helps() {
    let (scratch, handle) = Scratch::with_session("setsid sleep 1000 & echo $!; read x");
    scratch.ts(&["wait-pattern", &handle, "\n"]).code(0);
    let left = scratch.ts(&["read", &handle]).out().trim().to_owned();
    // Before that it is not out of reach of the hang-up.
    eventually("its being what it is told to be", || {
        fs::read_to_string(format!("/proc/{left}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    let shell = scratch.file(&handle, "pid");
    signal("-KILL", &scratch.file(&handle, "daemon_pid"));
    scratch.wait_for_end(&handle);
    eventually("the end of what has its terminal", || !is_running(&shell));
    let found = faults(&scratch).unwrap();
    assert!(
        found.lines().count() == 1 && found.contains(&format!("process {left} (sleep) is left over from")),
        "{found}"
    );
    // The exit record that the relay could not write is there by now.
    assert!(scratch.folder(&handle).join("exit.json").exists());
    scratch.ts(&["kill", &handle]).code(0);
    eventually("its end", || !is_running(&left));
    all_in_order(&scratch);
}

#[test]
fn doctor_names_processes_of_an_incomplete_session() {
    let scratch = Scratch::new();
    scratch.create("exit 0");
    let half = scratch.state().join("sessions/.new.0123abcd");
    fs::create_dir(&half).unwrap();
    let lock = fs::File::create(half.join("meta")).unwrap();
    let mut left = scratch.command("sleep").arg("1000").env("NBS_TS_SESSION", "0123abcd").spawn().unwrap();
    let is_told = || {
        let told = scratch.ts(&["doctor"]).out();
        told.contains(&format!("process {} (sleep) is left over from", left.id()))
    };
    // It is being made for as long as its lock is held.
    lock.lock().unwrap();
    assert!(!is_told());
    lock.unlock().unwrap();
    assert!(is_told());
    left.kill().unwrap();
    left.wait().unwrap();
}

#[test]
fn an_exit_record_that_cannot_be_written_is_told_and_nothing_is_left_of_what_cannot() {
    let disk = SmallDisk::new("256k");
    let ts = |arguments: &[&str]| disk.ts(arguments);
    let handle = ts(&["create", "--no-helper", "seq 100000; exec sleep 1000"]).out().trim().to_owned();
    eventually("the disk being full", || ts(&["status", "--json", &handle]).field("stalled") != "null");
    let relay = fs::read_to_string(disk.path.join("nbs/sessions").join(&handle).join("daemon_pid")).unwrap();
    signal("-KILL", &relay);
    eventually("its end", || ts(&["status", &handle]).out().starts_with("dead"));
    ts(&["doctor"]).code(1).stdout_has("No space left");
    ts(&["machine", "add", "box", "true"]).code(1).complains("No space left");
    let left = fs::read_dir(disk.path.join("nbs")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.as_encoded_bytes().starts_with(b".")).collect();
    assert!(left.is_empty(), "{left:?}");
    disk.resize("1m");
    // The processes that printed may still be ending.
    eventually("all being in order", || {
        let ran = ts(&["doctor"]);
        ran.status.success() && ran.out().contains("0 alive and 1 dead, all in order")
    });
    ts(&["kill", "--all"]).code(0);
}
