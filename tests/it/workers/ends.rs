//! How workers end.

use super::*;

#[test]
fn a_session_that_is_gone_ends_the_monitor() {
    for how in ["kill", "exit", "relay"] {
        let scratch = Scratch::new();
        let project = Project::new(&scratch);
        let worker = project.spawn(&[]);
        let session = worker.session();
        match how {
            "kill" => drop(scratch.ts(&["kill", &session]).code(0)),
            "exit" => signal("-KILL", &scratch.file(&session, "pid")),
            _ => signal("-KILL", &scratch.file(&session, "daemon_pid")),
        }
        worker.wait(&[]).code(1).stdout("lost\n").complains("its session ended");
        worker.is_cleaned_up();
        assert!(project.list().starts_with(&format!("{}\tlost\t-\t", worker.handle)), "{}", project.list());
        assert!(worker.content().contains("\nState: running\n"));
    }
}

#[test]
fn a_session_that_ends_before_it_is_seen_ends_the_monitor() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn_by(project.spawning(&[]).env("AGENT_RUNS", "echo so short"));
    worker.is_cleaned_up();
    let output = fs::read_to_string(worker.task().with_extension("log")).unwrap();
    assert!(output.contains("so short"), "{output}");
}

#[test]
fn a_worker_that_has_lost_its_file_or_its_project_is_ended() {
    let ways: [&dyn Fn(&Worker); 4] = [
        &|worker| fs::remove_file(worker.task()).unwrap(),
        &|worker| fs::remove_dir_all(worker.task().parent().unwrap()).unwrap(),
        &|worker| fs::remove_dir_all(&worker.project.root).unwrap(),
        &|worker| fs::rename(&worker.project.root, worker.project.root.with_extension("away")).unwrap(),
    ];
    let scratches = ways.map(|_| Scratch::new());
    let projects: Vec<Project> = scratches.iter().map(Project::new).collect();
    let workers: Vec<Worker> = projects.iter().map(|project| project.spawn(&[])).collect();
    for (worker, way) in workers.iter().zip(ways) {
        worker.session();
        way(worker);
    }
    for worker in workers {
        worker.is_cleaned_up();
        assert!(worker.log().contains("the task file is gone"), "{}", worker.log());
    }
}

#[test]
fn a_worker_whose_state_folder_is_removed_is_ended() {
    let scratches = [false, true].map(|is_stopped| (is_stopped, Scratch::new()));
    let projects = scratches.each_ref().map(|(_, scratch)| Project::new(scratch));
    // It does not mind that its terminal hangs up.
    let runs = "trap '' HUP; setsid sleep 1001 & sleep 1000";
    let workers = projects.each_ref().map(|project| {
        let worker = project.spawn_by(project.spawning(&[]).env("AGENT_RUNS", runs));
        let session = worker.session();
        let pids = ["pid", "daemon_pid"].map(|file| project.scratch.file(&session, file));
        (worker, pids)
    });
    for ((is_stopped, scratch), (worker, [child, relay])) in scratches.iter().zip(&workers) {
        fs::remove_dir_all(scratch.state()).unwrap();
        assert!(is_running(child));
        if *is_stopped {
            signal("-STOP", relay);
        }
        worker.says("done");
    }
    for (worker, pids) in &workers {
        worker.is_cleaned_up();
        eventually("the end of the session", || !pids.iter().any(|pid| is_running(pid)));
    }
}

#[test]
fn a_worker_whose_state_folder_is_out_of_reach_is_ended() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn(&[]);
    let session = worker.session();
    let (child, relay) = (scratch.file(&session, "pid"), scratch.file(&session, "daemon_pid"));
    let set_mode = |mode| fs::set_permissions(scratch.state(), fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o777);
    worker.says("done");
    eventually("the end of all", || ![&child, &relay, &worker.monitor].iter().any(|pid| is_running(pid)));
    set_mode(0o700);
    assert!(worker.log().contains("others may write to it"), "{}", worker.log());
    worker.is_cleaned_up();
}

#[test]
fn a_worker_of_a_helper_that_is_killed_is_ended_all_the_same() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let helper = start(&mut scratch.applet("nbs-ts-helper"));
    let socket = scratch.state().join("helper.sock");
    eventually("the helper", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let worker = project.spawn_by(project.spawning(&[]).env("AGENT_OPTIONS", "--require-helper"));
    worker.session();
    signal("-KILL", &helper.pid().to_string());
    drop(helper.finish());
    worker.says("failed");
    worker.is_cleaned_up();
}

#[test]
fn a_worker_has_so_much_time_and_no_more() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn(&["--timeout=2"]);
    worker.is_cleaned_up();
    assert!(worker.log().contains("timed out after 2 s"), "{}", worker.log());
    assert!(project.list().contains("\ttimeout\t-\t"), "{}", project.list());
    worker.wait(&[]).code(3).stdout("timeout\n").complains("timed out");
}

#[test]
fn an_agent_that_opens_no_session_is_told_of_and_its_monitor_ends() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let spawning = || project.spawning(&["--agent=/bin/true", "--startup=100ms", "--timeout=60"]);
    let worker = project.spawn_by(&mut spawning());
    worker.log_has("no session has appeared in 0.1 s");
    assert!(project.list().contains("\trunning\t-\t"), "{}", project.list());
    worker.says("failed");
    worker.is_cleaned_up();
    // A late session is found.
    let worker = project.spawn_by(&mut spawning());
    worker.log_has("no session has appeared in 0.1 s");
    let name = format!("--name=late-{}", worker.handle);
    let late = scratch.create_with(&[&name], "sleep 1000");
    assert_eq!(worker.session(), late);
    // And so is another, which is a session of the worker as well.
    scratch.create_with(&[&name], "sleep 1000");
    eventually("the second", || worker.log().matches("found session").count() == 2);
    worker.says("done");
    worker.is_cleaned_up();
}

#[test]
fn a_session_that_comes_after_the_state_is_ended() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn(&["--agent=/bin/true"]);
    worker.says("failed");
    worker.log_has("the task is failed");
    scratch.create_with(&[&format!("--name=nbs-{}", worker.handle)], "sleep 1000");
    worker.is_cleaned_up();
}

#[test]
fn a_worker_whose_handle_cannot_be_printed_is_ended() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let mut spawning = scratch.command("bash");
    spawning.args(["-c", "exec nbs-spawn-worker tester project skill.md 'Test it.' > /dev/full"]);
    run(&mut spawning).code(1).complains("standard output");
    eventually("its end", || project.list().contains("\tended\t-\t"));
    eventually("no process being left", || scratch.processes().is_empty());
    scratch.ts(&["list"]).code(0).stdout("");
}

#[test]
fn a_session_that_comes_after_the_monitor_was_told_to_end_is_ended() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn(&["--agent=/bin/true"]);
    signal("-TERM", &worker.monitor);
    worker.log_has("ended by a signal");
    scratch.create_with(&[&format!("--name=nbs-{}", worker.handle)], "sleep 1000");
    worker.is_cleaned_up();
}

#[test]
fn a_monitor_that_is_told_to_end_takes_its_worker_along() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn(&[]);
    worker.session();
    let begun = worker.content();
    fs::set_permissions(worker.task(), fs::Permissions::from_mode(0o640)).unwrap();
    signal("-TERM", &worker.monitor);
    worker.is_cleaned_up();
    assert!(worker.log().contains("ended by a signal"), "{}", worker.log());
    assert!(project.list().contains("\tended\t-\t"), "{}", project.list());
    worker.wait(&[]).code(1).stdout("ended\n").complains("was ended before it was done");
    let (before, status) = worker
        .content()
        .rsplit_once("\n## Status\n")
        .map(|(before, status)| (before.to_owned(), status.to_owned()))
        .unwrap();
    assert!(begun.starts_with(&before) && status.contains("\nState: ended\nStarted: 2"), "{status}");
    assert!(status.contains("\nCompleted: 2") && status.ends_with("\n\n## Log\n\n"), "{status}");
    assert_eq!(fs::metadata(worker.task()).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_state_that_there_is_no_room_for_leaves_the_task_file_and_nothing_beside_it() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let folder = project.root.join(".nbs/workers");
    fs::create_dir(&folder).unwrap();
    let _mounted = Mount::tmpfs(&folder, "size=64k");
    let worker = project.spawn(&[]);
    worker.session();
    let content = worker.content();
    let full = fs::write(folder.join("full"), [0; 65_536]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    signal("-TERM", &worker.monitor);
    worker.is_cleaned_up();
    assert!(worker.log().contains("cannot write the state into"), "{}", worker.log());
    assert_eq!(worker.content(), content);
    let left = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = left.filter(|name| name.ends_with(".new")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn output_that_there_is_no_room_for_beside_the_task_file_stays_in_the_session() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let folder = project.root.join(".nbs/workers");
    fs::create_dir(&folder).unwrap();
    let _mounted = Mount::tmpfs(&folder, "size=64k");
    let worker = project.spawn(&[]);
    let session = worker.session();
    scratch.ts(&["send", &session, "said before the end"]).code(0);
    scratch.ts(&["wait-pattern", &session, "the end"]).code(0);
    fs::write(folder.join("full"), [0; 65_536]).unwrap_err();
    signal("-TERM", &worker.monitor);
    eventually("its end", || !is_running(&worker.monitor));
    scratch.ts(&["status", &session]).code(0).stdout_has("dead");
    scratch.ts(&["read", &session]).code(0).stdout_has("said before the end");
    scratch.ts(&["kill", &session]).code(0);
}
