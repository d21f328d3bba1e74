//! `restart`: starts a dead session's command once more; and those that a reboot has ended.

use std::fs;

use crate::support::{Scratch, eventually, signal};

fn field(scratch: &Scratch, session: &str, name: &str) -> String {
    scratch.ts(&["status", "--json", session]).code(0).field(name)
}

fn restart(scratch: &Scratch, words: &[&str]) -> String {
    let ran = scratch.ts(&[&["restart", "--no-helper"], words].concat()).code(0).silent();
    ran.out().trim_end().to_owned()
}

#[test]
fn the_same_runs_in_the_same_folder_with_the_same_settings() {
    let scratch = Scratch::new();
    let folder = scratch.path.join("a folder's\n");
    fs::create_dir(&folder).unwrap();
    let options = [
        "--name=again",
        "--size=100x30",
        &format!("--cwd={}", folder.display()),
        "--title=a: \"b\"",
        "--max-log=1M",
        "--record",
        "--timeout=1h",
        "--pager",
        "--env=SECRET=horse",
    ];
    let command = "pwd; stty size; echo \"${PAGER-none} ${SECRET-none} ${NEW-none}\"; exit 3";
    let dead = scratch.create_with(&options, command);
    scratch.wait_for_end(&dead);
    let new = restart(&scratch, &["--env=NEW=here", &dead]);
    assert_ne!(new, dead);
    scratch.wait_for_end(&new);
    let printed = scratch.ts(&["read", "--strip", &new]).code(0).out().replace("\r\n", "\n");
    let shown = folder.display().to_string();
    assert_eq!(printed, format!("{shown}\n30 100\nnone none here\n"));
    for name in ["name", "command", "title", "max_log", "record", "timeout", "start_folder", "exit_code"] {
        assert_eq!(field(&scratch, &new, name), field(&scratch, &dead, name), "{name}");
    }
    assert_eq!(field(&scratch, &dead, "restarted_as"), format!("\"{new}\""));
    assert_eq!(field(&scratch, &new, "restarted_as"), "null");
    // No value of an environment is kept.
    for name in ["settings", "command", "meta"] {
        assert!(!scratch.file(&dead, name).contains("horse"), "{name}");
    }
    // A shell, by its name, which then is the new one's.
    let shell = scratch.create_with(&["--name=shell"], "bash");
    scratch.ts(&["run", &shell, "exit 4"]);
    scratch.wait_for_end(&shell);
    let new = restart(&scratch, &["@shell"]);
    scratch.ts(&["run", "@shell", "echo works"]).code(0).stdout("works\n");
    scratch.ts(&["restart", "@shell"]).code(1).complains(&format!("session '{new}': it is alive"));
    scratch.ts(&["doctor"]).code(0);
}

#[test]
fn however_many_restart_it_there_is_one_session() {
    let scratch = Scratch::new();
    let dead = scratch.create_with(&["--name=h"], "read x");
    scratch.ts(&["kill", "--keep", &dead]).code(0);
    let mut ends = vec![dead.clone()];
    // Also if the restarted session has ended, and by the handle of any of them.
    for _ in 0..3 {
        let calls: Vec<_> = (0..6)
            .map(|call| scratch.start(&["restart", "--no-helper", "--json", &ends[call % ends.len()]]))
            .collect();
        let ran: Vec<_> = calls.into_iter().map(|call| call.finish().code(0).silent()).collect();
        let last = ends.last().unwrap().clone();
        let new = field(&scratch, &last, "restarted_as").trim_matches('"').to_owned();
        for ran in ran {
            assert_eq!(ran.field("handle"), format!("\"{new}\""), "{ran:?}");
            assert_eq!(ran.field("restarted"), format!("\"{last}\""), "{ran:?}");
        }
        assert_eq!(restart(&scratch, &[&dead]), new);
        assert_eq!(scratch.ts(&["list"]).out().lines().count(), ends.len() + 1);
        scratch.ts(&["kill", "--keep", &new]).code(0);
        ends.push(new);
    }
    // A removed session does not count any more; nor do names in a circle, which only another program makes.
    scratch.ts(&["kill", &ends[3]]).code(0);
    fs::write(scratch.folder(&ends[2]).join("restarted_as"), &dead).unwrap();
    restart(&scratch, &[&dead]);
    assert_eq!(scratch.ts(&["list"]).out().lines().count(), 4);
}

#[test]
fn restart_leaves_a_session_that_it_cannot_restart() {
    let scratch = Scratch::new();
    let folder = scratch.path.join("gone");
    fs::create_dir(&folder).unwrap();
    let dead = scratch.create_with(&[&format!("--cwd={}", folder.display())], "true");
    scratch.wait_for_end(&dead);
    fs::remove_dir(&folder).unwrap();
    scratch.ts(&["restart", &dead]).code(1).complains("gone'");
    assert_eq!(field(&scratch, &dead, "restarted_as"), "null");
    scratch.ts(&["restart"]).code(4).complains("missing SESSION");
    scratch.ts(&["restart", "--boot", &dead]).code(4).complains("cannot use --");
    scratch.ts(&["restart", "--env=x", &dead]).code(4).complains("KEY=VALUE");
    scratch.ts(&["restart", "0badcafe"]).code(2).complains("no session");
    let list = scratch.ts(&["list"]).code(0).out();
    assert_eq!(list.lines().count(), 1, "{list}");
}

#[test]
fn restart_does_not_free_a_session_whose_settings_are_damaged() {
    let scratch = Scratch::new();
    let dead = scratch.create_with(&["--no-helper", "--hide-env=SECRET"], "true");
    scratch.wait_for_end(&dead);
    fs::write(scratch.folder(&dead).join("settings"), "hide_env SECRET").unwrap();
    scratch.ts(&["restart", &dead]).code(1).stdout("").complains("'settings' is damaged");
}

/// As if the machine had been rebooted since the session was made.
fn in_another_boot(scratch: &Scratch, session: &str) {
    let settings = scratch.file(session, "settings");
    let boot = settings.lines().find(|line| line.starts_with("boot: ")).unwrap();
    let file = scratch.folder(session).join("settings");
    fs::write(file, settings.replace(boot, "boot: 0badcafe-0000-0000-0000-000000000000")).unwrap();
}

#[test]
fn after_a_reboot_what_it_ended_is_started_again_once() {
    let scratch = Scratch::new();
    let relay = |session: &str| scratch.file(session, "daemon_pid");
    // A power cut, without a look before it, or with a look after it.
    let (cut, seen) = (scratch.create_with(&["--name=cut"], "bash"), scratch.create("exec sleep 1000"));
    // A shutdown.
    let told = scratch.create_with(&["--name=told"], "exec sleep 1000");
    // Sessions that ended before: by themselves, by kill, by their timeout.
    let done = scratch.create("true");
    let killed = scratch.create("exec sleep 1000");
    let late = scratch.create_with(&["--timeout=0.1"], "exec sleep 1000");
    scratch.ts(&["kill", "--keep", &killed]).code(0);
    // A session of this boot, whose relay was killed, and a live one.
    let (here, alive) = (scratch.create("exec sleep 1000"), scratch.create("exec sleep 1000"));
    for session in [&cut, &seen, &here] {
        signal("-KILL", &relay(session));
    }
    signal("-TERM", &relay(&told));
    for session in [&cut, &seen, &told, &done, &killed, &late, &here] {
        scratch.wait_for_end(session);
    }
    scratch.ts(&["kill", "--keep", &cut, &seen, &here]).code(0);
    for session in [&cut, &seen, &told, &done, &killed, &late] {
        in_another_boot(&scratch, session);
    }
    let _ = fs::remove_file(scratch.folder(&cut).join("exit.json"));
    let _ = fs::remove_file(scratch.state().join(format!("events/{cut}.json")));

    let calls: Vec<_> = (0..3).map(|_| scratch.start(&["restart", "--boot", "--no-helper"])).collect();
    let new: String = calls.into_iter().map(|call| call.finish().code(0).silent().out()).collect();
    let new: Vec<&str> = new.lines().collect();
    assert_eq!(new.len(), 3, "{new:?}");
    for session in [&cut, &seen, &told] {
        let as_what = field(&scratch, session, "restarted_as");
        assert!(new.contains(&as_what.trim_matches('"')), "{session}: {as_what}");
    }
    for session in [&done, &killed, &late, &here, &alive] {
        assert_eq!(field(&scratch, session, "restarted_as"), "null", "{session}");
    }
    scratch.ts(&["run", "@cut", "echo works"]).code(0).stdout("works\n");
    eventually("all being alive", || {
        new.iter().all(|session| scratch.ts(&["status", session]).out() == "alive\n")
    });
    scratch.ts(&["restart", "--boot"]).code(0).stdout("");
}
