//! `cp`: files to, from and between machines.

use super::{exec::noise, *};
use crate::support::Running;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// A tree with all that is kept, and what find(1) says of one.
fn make_tree(at: &Path) {
    let script = r#"
mkdir -p tree/empty tree/d1/d2 && cd tree
for number in $(seq 300); do echo $number > d1/f$number; done
ln -s d1 link; ln -s nowhere dangling
echo odd > d1/d2/$'a\nb\377 -x:'
echo run > d1/run; chmod 750 d1/run; chmod 500 d1/d2
truncate -s 100M sparse; echo end >>sparse
touch -d '2001-02-03 04:05:06.789' d1/f2 d1
"#;
    run(Command::new("bash").args(["-c", script]).current_dir(at)).code(0);
}

fn listed(tree: &Path) -> String {
    let script = "find . -printf '%P %y %m %T@ %l\\n' | grep -av ' l 777' | LC_ALL=C sort -z; \
        find . -type f ! -name sparse -exec sha1sum {} + | LC_ALL=C sort; tail -c 5 sparse";
    let ran = run(Command::new("bash").args(["-c", script]).current_dir(tree)).code(0);
    let mut lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}

fn use_cp(there: &Elsewhere, inside: &Path) {
    let here = &there.scratch.path;
    make_tree(here);
    let expected = listed(&here.join("tree"));
    there.ts(&["cp", "-r", "tree", "box:"]).code(0).stdout("").silent();
    assert_eq!(listed(&inside.join("tree")), expected);
    there.ts(&["cp", "-r", "box:tree", "back"]).code(0).silent();
    assert_eq!(listed(&here.join("back")), expected);
    let blocks = fs::metadata(here.join("back/sparse")).unwrap();
    assert!(blocks.blocks() < 1_000);
    there.ts(&["cp", "--recursive", "box:tree/.", "box:tree/d1/run", "box:tree/empty"]).code(0).silent();
    assert!(inside.join("tree/empty/d1/d2").is_dir() && inside.join("tree/empty/run").exists());
}

#[test]
fn a_tree_is_the_same_after_it_was_copied_there_and_back() {
    let there = Elsewhere::new();
    use_cp(&there, &there.home);
}

#[test]
fn a_tree_is_copied_where_there_is_only_busybox() {
    let there = Elsewhere::unadded();
    let root = Root::new(&there);
    root.add(&there);
    use_cp(&there, &root.path.join(there.home.strip_prefix("/").unwrap()));
}

#[test]
fn targets_are_as_cp_has_them_and_what_cannot_be_copied_is_told() {
    let there = Elsewhere::new();
    let here = &there.scratch.path;
    fs::create_dir_all(here.join("d/sub")).unwrap();
    fs::write(here.join("a"), "a").unwrap();
    fs::write(here.join("c:c"), "c").unwrap();
    fs::set_permissions(here.join("a"), fs::Permissions::from_mode(0o640)).unwrap();
    let cp = |words: &[&str]| there.ts(&[&["cp"], words].concat());
    let read = |name: &str| fs::read_to_string(there.home.join(name)).unwrap_or_default();
    cp(&["a", "box:b"]).code(0).silent();
    assert_eq!(read("b"), "a");
    assert_eq!(fs::metadata(there.home.join("b")).unwrap().permissions().mode() & 0o777, 0o640);
    cp(&["./c:c", "box:~/b"]).code(0).silent();
    assert_eq!(read("b"), "c");
    fs::create_dir(there.home.join("into")).unwrap();
    cp(&["a", "./c:c", "box:into"]).code(0).silent();
    assert_eq!(read("into/a") + &read("into/c:c"), "ac");
    cp(&["d", "box:into"]).code(1).complains("'d': it is a directory; add -r");
    cp(&["a", "gone", "box:into"]).code(1).complains("cannot copy 'gone': No such file");
    cp(&["a", "box:b/"]).code(1).complains("box: cannot copy to 'b/': Not a directory");
    cp(&["a", "./c:c", "box:b"]).code(1).complains("Not a directory");
    cp(&["a", "box:no/where"]).code(1).complains("box: cannot copy to 'no/where'");
    cp(&["a", "b"]).code(4).complains("neither file is on another machine");
    cp(&["box:a"]).code(4).complains("missing DEST");
    // Nothing is written through a link, and a name of another type is left.
    fs::write(there.home.join("safe"), "safe").unwrap();
    symlink(there.home.join("safe"), there.home.join("into/link")).unwrap();
    symlink(&there.home, there.home.join("into/d")).unwrap();
    fs::write(here.join("link"), "changed").unwrap();
    cp(&["link", "box:into"]).code(0).silent();
    assert_eq!(read("safe") + &read("into/link"), "safechanged");
    cp(&["-r", "d", "box:into"]).code(1).complains("box: cannot write 'into/d': Not a directory");
    assert!(!there.home.join("sub").exists());
    // Nothing but a file or a link is replaced.
    run(Command::new("mkfifo").arg(there.home.join("into/fifo"))).code(0);
    symlink("fifo", there.home.join("into/to_fifo")).unwrap();
    symlink("/proc/self/fd/1", there.home.join("into/stdout")).unwrap();
    for name in ["fifo", "to_fifo", "stdout"] {
        let before = fs::symlink_metadata(there.home.join("into").join(name)).unwrap();
        fs::write(here.join(name), "x").unwrap();
        cp(&[name, "box:into"])
            .code(1)
            .complains(&format!("cannot write 'into/{name}': it is a device, a FIFO"));
        assert_eq!(fs::symlink_metadata(there.home.join("into").join(name)).unwrap().ino(), before.ino());
    }
    // A link inside a directory is copied as a link, whatever its target is.
    symlink("/dev/null", here.join("d/sub/masked")).unwrap();
    for _ in 0..2 {
        cp(&["-r", "d/sub", "box:into"]).code(0).silent();
    }
    assert_eq!(fs::read_link(there.home.join("into/sub/masked")).unwrap(), Path::new("/dev/null"));
    // If two files had the same name, one would be lost.
    fs::write(here.join("d/a"), "another").unwrap();
    cp(&["a", "d/a", "box:into"]).code(4).complains("two SOURCEs are named 'a'");
    cp(&["box:b", "box:into/b", "d"]).code(4).complains("two SOURCEs are named 'b'");
    assert_eq!(read("into/a"), "a");
    let left = fs::read_dir(there.home.join("into")).unwrap().flatten();
    assert!(!left.into_iter().any(|entry| entry.file_name().as_bytes().starts_with(b".nbs-")));
}

/// How much has come of a file that has no name yet.
fn half(folder: &Path) -> Option<u64> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let is_half = |entry: &fs::DirEntry| entry.file_name().len() == ".nbs-0123456789abcdef".len();
    entries.into_iter().find(is_half).and_then(|entry| Some(entry.metadata().ok()?.len()))
}

#[test]
fn a_copy_goes_on_over_lost_connections_and_one_that_is_killed_leaves_nothing_half() {
    let there = Elsewhere::unadded();
    there.add_line();
    let bytes = noise(20_000_000);
    fs::write(there.scratch.path.join("big"), &bytes).unwrap();
    there.ts(&["exec", "box", "true"]).code(0);
    for (from, to, folder) in [("big", "box:big", &there.home), ("box:big", "back", &there.scratch.path)] {
        let mut call = there.scratch.start(&["cp", from, to]);
        for cut in 1..6 {
            eventually("more of it", || {
                call.is_over() || half(folder).is_some_and(|size| size > cut * 1_000_000)
            });
            if let Some(pid) = there.transport().first() {
                let _ = run(Command::new("kill").args(["-9", pid]));
            }
        }
        call.finish().code(0).silent();
    }
    assert!(fs::read(there.scratch.path.join("back")).unwrap() == bytes);
    let mut call = there.scratch.start(&["cp", "big", "box:half"]);
    eventually("its beginning", || call.is_over() || half(&there.home).is_some_and(|size| size > 0));
    signal("KILL", &[call.pid().to_string()]);
    eventually("nothing half", || half(&there.home).is_none());
    drop(call);
}

/// Begins a copy of a file from a machine whose line stalls in the middle of it.
fn begin_a_stalled_copy(there: &Elsewhere, name: &str, before: &str) -> Running {
    fs::write(there.home.join("big"), noise(16_000_000)).unwrap();
    let way = "env HOME=$0 sh | { stdbuf -o0 head -c 6000000; exec -a cat sleep 1000; }";
    there.ts(&["machine", "add", name, "bash", "-c", way, there.home.to_str().unwrap()]).code(0);
    let mut command = there.scratch.command("sh");
    command.args(["-c", &format!("{before} exec nbs-ts cp $0:big back"), name]);
    let call = start(&mut command);
    eventually("its beginning", || half(&there.scratch.path).is_some_and(|size| size > 0));
    call
}

#[test]
fn a_copy_to_here_that_a_signal_ends_leaves_nothing_half() {
    let there = Elsewhere::new();
    let cases: [(&str, &[&str], i32); 3] =
        [("", &["INT"], 2), ("", &["TERM"], 15), ("trap '' INT;", &["INT", "TERM"], 15)];
    for (number, (before, signals, expected)) in cases.into_iter().enumerate() {
        let name = format!("slow{number}");
        let call = begin_a_stalled_copy(&there, &name, before);
        for sent in signals {
            signal(sent, &[call.pid().to_string()]);
        }
        call.finish().signal(expected).silent();
        assert!(half(&there.scratch.path).is_none() && !there.scratch.path.join("back").exists());
        there.ts(&["machine", "remove", &name]).code(0);
    }
}

#[test]
fn a_file_that_was_not_copied_is_a_failure_between_any_two_machines() {
    let there = Elsewhere::new();
    let other = there.scratch.path.join("other");
    fs::create_dir(&other).unwrap();
    there.ts(&["machine", "add", "two", "env", &format!("HOME={}", other.display()), "sh"]).code(0);
    fs::write(there.home.join("a"), "a").unwrap();
    fs::create_dir(there.home.join("d")).unwrap();
    fs::create_dir(there.scratch.path.join("into")).unwrap();
    fs::create_dir(other.join("into")).unwrap();
    for into in ["into", "two:into"] {
        let cp = |words: &[&str]| there.ts(&[&["cp"], words, &[into]].concat());
        cp(&["box:a", "box:d"]).code(1).complains("box: cannot copy 'd': it is a directory");
        cp(&["-r", "box:a", "box:d"]).code(0).silent();
    }
    assert_eq!(fs::read_to_string(other.join("into/a")).unwrap(), "a");
    assert_eq!(fs::read_to_string(there.scratch.path.join("into/a")).unwrap(), "a");
    there.ts(&["cp", "box:a", "two:no/where"]).code(1).complains("two: cannot copy to 'no/where'");
    there.ts(&["machine", "remove", "two"]).code(0);
}

#[test]
fn a_copy_whose_other_end_is_killed_says_so() {
    let there = Elsewhere::new();
    let call = begin_a_stalled_copy(&there, "slow", "");
    eventually("the line's standing still", || !there.transport().is_empty());
    let calls = there.processes().into_iter().filter(|pid| name_of(pid) == "nbs-call");
    signal("KILL", &calls.collect::<Vec<String>>());
    // The next connection brings the news.
    signal("KILL", &there.transport());
    call.finish().code(255).complains("slow: it is unknown whether it was done: signal 9 ended the process");
    there.ts(&["machine", "remove", "slow"]).code(0);
}
