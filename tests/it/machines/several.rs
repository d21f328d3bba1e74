//! Several machines in one call.

use super::*;

#[test]
fn several_machines_in_one_call() {
    let there = Elsewhere::new();
    let other = there.scratch.path.join("other");
    fs::create_dir(&other).unwrap();
    let way = format!("HOME={}", other.display());
    let mark = way.as_bytes().to_vec();
    there.ts(&["machine", "add", "other", "env", &way, "sh"]).code(0);
    let here = there.scratch.create("sleep 1000");
    let (one, two) =
        (there.create("exit 4"), there.ts(&["create", "--on=other", "--no-helper", "sleep 1000"]));
    let two = two.code(0).out().trim_end().to_owned();
    let listed = there.ts(&["list", "--on=all"]).code(0).silent().out();
    let handles: Vec<&str> = listed.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(handles, [&here, &one, &two]);
    let waited = there.ts(&["wait", "--any", "--exit", &one, &two, &here]).code(0);
    waited.stdout(format!("{one}\texit\t4\n"));
    there.ts(&["find", "--on=all", "nobody"]).code(2);
    let work = there.ts(&["create", "--on=other", "--no-helper", "--name=work", "sleep 1000"]).code(0).out();
    there.ts(&["find", "--on=all", "work"]).code(0).stdout(&work).silent();
    there.ts(&["kill", work.trim_end()]).code(0);
    // Only live sessions count; one machine has none.
    let any = there.scratch.start(&["wait", "--any", "--all", "--on=all", "--exit", "--timeout=100"]);
    // It waits for those that live when it looks, and has connected to one.
    eventually("its call", || {
        processes(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark))
            .iter()
            .any(|pid| is_wait(pid) && sockets_of(pid) >= 1)
    });
    there.ts(&["kill", "--keep", &two]).code(0);
    let met = any.finish().code(0).silent().out();
    assert!(met.starts_with(&format!("{two}\texit\t")), "{met}");
    there.ts(&["kill", "--keep", &here]).code(0);
    for line in there.ts(&["wait", "--all", "--on=all", "--exit"]).code(2).stdout("").err().lines() {
        assert!(line.contains("there is no live session"), "{line}");
    }
    there.ts(&["machine", "add", "gone", "false"]).code(0);
    let listed = there.ts(&["list", "--on=all"]).code(255).complains("gone: nothing was done");
    assert_eq!(listed.out().lines().count(), 3, "{listed:?}");
    there.ts(&["machine", "remove", "gone"]).code(0);
    there.ts(&["kill", &one, &two, &here]).code(0).silent();
    there.ts(&["machine", "remove", "other"]).code(0);
    let left = || processes(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark));
    eventually("no process being left", || left().is_empty());
}

/// A machine of that name, in a home of its own.
fn add_another(there: &Elsewhere, name: &str) -> PathBuf {
    let home = there.scratch.path.join(name);
    fs::create_dir(&home).unwrap();
    there.ts(&["machine", "add", name, "env", &format!("HOME={}", home.display()), "sh"]).code(0);
    home
}

fn remove_another(there: &Elsewhere, name: &str, home: &Path) {
    there.ts(&["kill", "--all", &format!("--on={name}")]).code(0);
    there.ts(&["machine", "remove", name]).code(0);
    let mark = [b"HOME=", home.as_os_str().as_bytes()].concat();
    let left = || processes(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark));
    eventually("no process being left", || left().is_empty());
}

#[test]
fn a_machine_that_cannot_be_reached_keeps_no_wait_from_the_others() {
    let there = Elsewhere::new();
    there.create("cat");
    there.ts(&["machine", "add", "gone", "false"]).code(0);
    for (words, code) in [(&["wait", "--any", "--exit"][..], 0), (&["wait", "--exit"], 255)] {
        let session = there.create("read word; exit 4");
        let waiting = there.scratch.start(&[words, &["gone:01234567", &session]].concat());
        eventually("the call there", || there.processes().iter().any(|pid| is_wait(pid)));
        // The other one was called before, and its bridge has ended.
        eventually("only one bridge", || there.bridges().len() == 1);
        there.ts(&["send", &session, "now"]).code(0);
        let ran = waiting.finish().code(code).stdout(format!("{session}\texit\t4\n"));
        assert!(ran.err().starts_with("nbs-ts: gone: nothing was done: "), "{ran:?}");
    }
    there.ts(&["wait", "--any", "--exit", "gone:01234567"]).code(255);
    there.ts(&["machine", "remove", "gone"]).code(0);
}

#[test]
fn a_bridge_that_is_stopped_is_told_of_behind_what_the_other_machines_list() {
    let there = Elsewhere::new();
    let session = there.create("cat");
    let still = add_another(&there, "still");
    there.ts(&["create", "--on=still", "--no-helper", "cat"]).code(0);
    let command = |pid: &String| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let bridges = there.bridges().into_iter();
    let bridge: Vec<String> = bridges.filter(|pid| command(pid).contains("\0still\0")).collect();
    signal("STOP", &bridge);
    // It comes back long before a bridge is given up that does not answer.
    let is_quick = || {
        let longer = there.scratch.create("sleep 30");
        let ran = there.scratch.bash("nbs-ts list --on=still --on=box 2>&1; echo $?").code(0);
        let said = format!("still: nothing was done: its bridge, process {}, does not respond, ", bridge[0]);
        let lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
        assert!(lines.len() == 3 && lines[0].starts_with(&session), "{ran:?}");
        assert!(lines[1].contains(&said) && lines[1].contains("'kill -CONT") && lines[2] == "255", "{ran:?}");
        let is_quick = there.ts(&["status", &longer]).code(0).out() == "alive\n";
        there.ts(&["kill", &longer]).code(0);
        is_quick
    };
    assert!((0..3).any(|_| is_quick()));
    signal("CONT", &bridge);
    remove_another(&there, "still", &still);
}

#[test]
fn a_look_at_all_machines_makes_nothing() {
    let scratch = Scratch::new();
    scratch.ts(&["machine", "list"]).code(0).stdout("").silent();
    scratch.ts(&["list", "--on=all"]).code(0).silent();
    assert!(!scratch.state().join("bridges").exists());
}

#[test]
fn a_part_of_a_call_that_a_signal_ends_is_told_as_shells_tell_it() {
    let there = Elsewhere::new();
    let (here, one) = (there.scratch.create("sleep 1000"), there.create("sleep 1000"));
    let waiting = there.scratch.start(&["wait", "--exit", &here, &one]);
    // The part for sessions that are here is a process of its own.
    let children = format!("/proc/{0}/task/{0}/children", waiting.pid());
    let part = || fs::read_to_string(&children).unwrap().trim().to_owned();
    eventually("its part for this machine", || !part().is_empty());
    run(Command::new("kill").args(["-KILL", &part()])).code(0);
    waiting.finish().code(128 + 9).stdout("");
    there.ts(&["kill", &here, &one]).code(0);
}

#[test]
fn sessions_of_several_machines_are_seen_and_waited_for_together() {
    let there = Elsewhere::new();
    let named = |words: &[&str]| there.ts(words).code(0).out().trim_end().to_owned();
    let works = named(&["create", "--no-helper", "--name=works", "exec sleep 1000"]);
    let read = "printf 'Delete? \\033[31mred'; read x; echo got $x; exec sleep 1000";
    let asks = named(&["create", "--on=box", "--no-helper", "--name=asks", read]);
    there.ts(&["create", "--on=box", "--no-helper", "--name=works", "exec sleep 1000"]).code(0);
    // The first session that waits counts, on any machine; a machine without sessions is left out.
    let waited = there.ts(&["wait", "--any", "--all", "--on=all", "--waiting", "--exit"]).code(0);
    waited.stdout(format!("{asks}\twaiting\tline\n"));
    let empty = there.scratch.path.join("empty");
    fs::create_dir(&empty).unwrap();
    there.ts(&["machine", "add", "empty", "env", &format!("HOME={}", empty.display()), "sh"]).code(0);
    there.ts(&["wait", "--any", "--all", "--on=empty", "--waiting"]).code(2);
    there
        .ts(&["wait", "--any", "--all", "--on=empty", "--on=box", "--waiting"])
        .code(0)
        .stdout_has("waiting");
    there.ts(&["wait", "--any", "--all", "--on=empty", "--on=box", "--exit", "--timeout=0"]).code(3);
    there.ts(&["wait", "--any", "--name=asks", "--on=empty", "--on=box", "--exit", "--timeout=0"]).code(3);

    let rows = |words: &[&str]| -> Vec<String> {
        let listed = there.ts(words).code(0).silent().out();
        let firsts = listed.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
        firsts.collect()
    };
    let all = ["SESSION ACTIVITY", "box:@asks waiting", "@works working", "box:@works working"];
    eventually("all of them", || rows(&["list", "--long", "--on=all"]) == all);
    assert_eq!(rows(&["list", "--waiting", "--on=box", "--on=empty"]), all[..2]);
    assert_eq!(rows(&["top", "--once", "--on=all"]), all);
    // One that cannot be reached keeps nobody from the others.
    there.ts(&["machine", "add", "gone", "false"]).code(0);
    let listed = there.ts(&["list", "--long", "--on=gone", "--on=box"]).code(255);
    assert!(listed.complains("nbs-ts: gone: nothing was done").out().contains("box:@asks"));
    there.ts(&["machine", "remove", "gone"]).code(0);

    // Later changes are printed as they come.
    let mut follow = there.scratch.command("nbs-ts");
    let mut follow =
        follow.args(["list", "--json", "--follow", "--on=all"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |parts: &[&str]| {
        let found = lines.find(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found.is_some(), "{parts:?}");
    };
    until(&[&asks, "\"activity\":\"waiting\"", "\"question\":\"Delete? red\""]);
    there.ts(&["send", &asks, "yes"]).code(0);
    until(&[&asks, "\"activity\":\"working\""]);
    there.ts(&["kill", &works]).code(0);
    until(&[&works, "\"state\":\"removed\""]);
    drop(lines);
    // It sees that nobody reads any more.
    follow.wait().unwrap();
    there.ts(&["machine", "remove", "empty"]).code(0);
    let mark = [b"HOME=", empty.as_os_str().as_bytes()].concat();
    let left = || processes(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark));
    eventually("no process being left", || left().is_empty());
}

#[test]
fn a_person_sees_the_sessions_of_a_machine_in_top_and_answers_them() {
    let there = Elsewhere::new();
    let asks = "printf 'Delete? \\033[31mred'; read x; echo got $x; exec sleep 1000";
    let asks = there.ts(&["create", "--on=box", "--no-helper", "--name=asks", asks]).code(0).out();
    there.ts(&["wait", asks.trim_end(), "--waiting"]).code(0);
    let person = there.scratch.create_with(&["--size=100x24"], "bash");
    there.ts(&["send", &person, "nbs-ts top --on=box; echo over $?"]).code(0);
    let sees = |what: &str, fact: &dyn Fn(&str) -> bool| {
        eventually(what, || fact(&there.ts(&["screen", &person]).code(0).out()));
    };
    let row = |screen: &str, state: &str| {
        screen.lines().any(|line| line.starts_with("box:@asks ") && line.contains(state))
    };
    let last = |screen: &str, text: &str| screen.trim_end().ends_with(text);
    sees("the one there", &|screen| row(screen, " waiting ") && screen.contains("\nDelete? red\n"));
    assert!(!there.ts(&["screen", &person]).out().contains(&person), "those here were not asked for");
    there.ts(&["send", "--no-enter", &person, "ayes"]).code(0);
    sees("the line", &|screen| last(screen, "answer box:@asks: yes"));
    there.ts(&["key", &person, "Enter"]).code(0);
    sees("what became of it", &|screen| row(screen, " working ") && screen.contains("\ngot yes\n"));
    // It is attached to, and left.
    there.ts(&["key", &person, "Enter"]).code(0);
    sees("the session alone", &|screen| screen.starts_with("Delete?"));
    there.ts(&["send", "--no-enter", &person, "\u{1c}d"]).code(0);
    sees("the list again", &|screen| row(screen, " working "));
    there.ts(&["send", "--no-enter", &person, "xy"]).code(0);
    sees("its end", &|screen| row(screen, " dead "));
    there.ts(&["send", "--no-enter", &person, "q"]).code(0);
    there.ts(&["wait", &person, "--pattern=over 0"]).code(0);
    // One that cannot be reached is told of.
    there.ts(&["machine", "add", "gone", "false"]).code(0);
    there.ts(&["send", &person, "nbs-ts top --on=gone; echo over $?"]).code(0);
    sees("that it is gone", &|screen| {
        screen.contains("\ngone: nothing was done: the command that connects ended")
    });
    there.ts(&["send", "--no-enter", &person, "q"]).code(0);
    there.ts(&["machine", "remove", "gone"]).code(0);
}
