use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

use crate::support::{Scratch, eventually, links, run};

#[test]
fn concurrent_ensures_start_one_session() {
    let scratch = Scratch::new();
    let calls: Vec<_> =
        (0..12).map(|_| scratch.start(&["ensure", "--json", "--no-helper", "--name=it"])).collect();
    let ran: Vec<_> = calls.into_iter().map(|call| call.finish().code(0).silent()).collect();
    let handle = ran[0].field("handle");
    assert!(ran.iter().all(|ran| ran.field("handle") == handle && ran.field("name") == "\"it\""));
    assert_eq!(ran.iter().filter(|ran| ran.field("created") == "true").count(), 1);
    assert_eq!(scratch.ts(&["list"]).out().lines().count(), 1);
    let handle = handle.trim_matches('"');
    assert_eq!(scratch.file(handle, "command"), "bash");
    scratch
        .ts(&["ensure", "--name=it", "sleep", "--whatever"])
        .code(0)
        .stdout(format!("{handle}\n"))
        .silent();
    // A dead session does not count.
    scratch.ts(&["kill", "--keep", handle]).code(0);
    let next = scratch.ts(&["ensure", "--no-helper", "--name", "it", "sleep", "1000"]).code(0).silent();
    let next = next.out().trim_end().to_owned();
    assert_ne!(next, handle);
    assert_eq!(scratch.file(&next, "command"), "sleep 1000");
    // The lock is free when no call runs.
    let lock = fs::File::open(scratch.state().join("lock.ensure")).unwrap();
    lock.try_lock().unwrap();
}

#[test]
fn ensure_starts_sh_if_there_is_no_bash() {
    let scratch = Scratch::new();
    let bin = scratch.path.join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink("/bin/sh", bin.join("sh")).unwrap();
    let mut ensure = scratch.command(links().join("nbs-ts"));
    let ensured = run(ensure.args(["ensure", "--no-helper", "--name=it"]).env("PATH", &bin)).code(0).silent();
    let handle = ensured.out().trim_end().to_owned();
    assert_eq!(scratch.file(&handle, "command"), "sh");
    scratch.ts(&["run", &handle, "echo hi"]).code(0).stdout("hi\n").silent();
}

#[test]
fn ensure_requires_a_name() {
    let scratch = Scratch::new();
    let cases: [&[&str]; 5] = [
        &["ensure"],
        &["ensure", "bash"],
        &["ensure", "--name=a b"],
        &["ensure", "--name=a", "--frobnicate"],
        &["ensure", "--name=a", "--cwd=/", "--inherit-cwd=00000000"],
    ];
    for arguments in cases {
        scratch.ts(arguments).code(4).stdout("");
    }
    scratch.ts(&["ensure", "--name=a", "--cwd=/nowhere"]).code(1);
    scratch.ts(&["list"]).code(0).stdout("");
}

#[test]
fn the_folder_has_one_name_in_all_answers_and_where_it_started_another() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["run", &handle, "mkdir one && cd one"]).code(0);
    let (start, now) = (format!("\"{}\"", scratch.path.display()), scratch.path.join("one"));
    let now = format!("\"{}\"", now.display());
    let answers = [&["pwd", "--json", &handle][..], &["status", "--json", &handle], &["list", "--json"]];
    for (arguments, has_start) in answers.into_iter().zip([false, true, true]) {
        let answer = scratch.ts(arguments).code(0);
        assert_eq!(answer.field("folder"), now, "{arguments:?}");
        assert!(!answer.out().contains("\"cwd\""), "{arguments:?}");
        if has_start {
            assert_eq!(answer.field("start_folder"), start, "{arguments:?}");
        }
    }
}

#[test]
fn the_folder_is_that_of_the_foreground_process() {
    let (scratch, handle) = Scratch::with_session("bash");
    scratch.ts(&["pwd", &handle]).code(0).stdout(format!("{}\n", scratch.path.display())).silent();
    scratch.ts(&["send", &handle, "mkdir one two; cd one; echo $((1+1)); (cd ../two && exec cat)"]).code(0);
    let (one, two) = (scratch.path.join("one"), scratch.path.join("two"));
    eventually("the folder", || scratch.ts(&["pwd", &handle]).out() == format!("{}\n", two.display()));
    scratch.ts(&["eof", &handle]).code(0);
    scratch.ts(&["wait-complete", &handle]).code(0);
    let there = scratch.ts(&["pwd", "--json", &handle]).code(0);
    assert_eq!(there.field("folder"), format!("\"{}\"", one.display()));
    fs::remove_dir(&one).unwrap();
    scratch.ts(&["pwd", &handle]).code(1).stdout("").complains("one' has been removed");
    scratch.ts(&["create", "--inherit-cwd", &handle, "true"]).code(1).complains("has been removed");
    scratch.ts(&["pwd", "00000000"]).code(2);
    scratch.ts(&["pwd"]).code(4);
    let dead = scratch.create("exit 3");
    scratch.wait_for_end(&dead);
    scratch.ts(&["pwd", &dead]).code(1).complains("has ended with exit code 3");
    scratch.ts(&["create", "--inherit-cwd", &dead, "true"]).code(1).complains("has ended with exit code 3");
    scratch.ts(&["create", "--inherit-cwd=00000000", "true"]).code(2);
    scratch.ts(&["create", "--inherit-cwd=@-", "true"]).code(4);
    scratch.ts(&["create", "--inherit-cwd", &handle, "--cwd=/", "true"]).code(4).complains("cannot use --");
}

#[test]
fn a_folder_may_have_any_name() {
    let scratch = Scratch::new();
    let names: [&[u8]; 4] = [b"a b\nc", b"\xff\x1b[31m", b"gone (deleted)", &[b'x'; 255]];
    for name in names {
        let folder = scratch.path.join(OsStr::from_bytes(name)).join("inner");
        fs::create_dir_all(&folder).unwrap();
        let mut call = scratch.command("nbs-ts");
        call.args(["create", "--no-helper", "--cwd"]).arg(&folder).arg("cat");
        let handle = run(&mut call).code(0).out().trim_end().to_owned();
        let expected = [folder.as_os_str().as_bytes(), b"\n"].concat();
        scratch.ts(&["pwd", &handle]).code(0).stdout(&expected).silent();
        let heir = scratch.create_with(&["--inherit-cwd", &handle], "cat");
        scratch.ts(&["pwd", &heir]).code(0).stdout(&expected);
    }
}
