//! The monitor, and the callers that start it.

use super::*;

#[test]
fn a_monitor_that_is_killed_leaves_a_worker_that_can_be_waited_for() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn(&[]);
    let session = worker.session();
    signal("-KILL", &worker.monitor);
    eventually("its end", || !is_running(&worker.monitor));
    assert!(project.list().contains(&format!("\trunning\t{session}\t")), "{}", project.list());
    worker.says("done");
    worker.wait(&[]).code(0).stdout("done\n");
    worker.says("running");
    scratch.ts(&["kill", &session]).code(0);
}

#[test]
fn callers_get_back_at_once_with_all_their_pipes_and_locks() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    // bash's processes for the pipes would have the lock, too, if they started later.
    let script = r#"exec 7< <(echo by a pipe) 8> >(cat) 9> lock; flock 9 || exit
        w=$(nbs-spawn-worker tester project /dev/fd/7 'Test it.') || exit
        exec 9>&-; flock --nonblock lock echo "$w""#;
    let mut command = scratch.command("bash");
    command.args(["-c", script]).env("AGENT_STAYS", "1");
    let said = run(&mut command);
    let handle = said.code(0).silent().out().trim_end().to_owned();
    let task = project.root.join(format!(".nbs/workers/{handle}.md"));
    let content = fs::read_to_string(&task).unwrap();
    assert!(content.contains("by a pipe"), "{content}");
    eventually("its session", || project.live_sessions().contains(&handle));
    fs::write(&task, content.replace("State: running", "State: done")).unwrap();
    eventually("the end of its session", || project.live_sessions().is_empty());
    fs::write(project.root.join("go"), "").unwrap();
}

#[test]
fn the_monitor_outlives_its_callers_interrupt_terminal_and_session() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let lead = scratch.create_with(&["--env=TMPDIR=tmp", "--env=AGENT_RUNS=sleep 1000"], "bash");
    let ran =
        scratch.ts(&["run", &lead, "nbs-spawn-worker tester project skill.md 'Test it.' --json"]).code(0);
    let text = |name| field(&ran.out(), name).trim_matches('"').to_owned();
    let log = PathBuf::from(text("monitor_log"));
    let worker = Worker { project: &project, handle: text("handle"), monitor: text("monitor"), log };
    worker.session();
    let stat = fs::read_to_string(format!("/proc/{}/stat", worker.monitor)).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!((fields[3], fields[4]), (&*worker.monitor, "0"), "a session of its own, and no terminal");
    scratch.ts(&["key", &lead, "C-c"]).code(0);
    scratch.ts(&["kill", &lead]).code(0);
    assert!(is_running(&worker.monitor), "{}", worker.log());
    worker.says("done");
    worker.is_cleaned_up();
}

#[test]
fn the_agent_outlives_a_terminal_that_goes_as_soon_as_it_is_started() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    for _ in 0..5 {
        let lead = scratch.create_with(
            &["--env=TMPDIR=tmp"],
            "exec nbs-spawn-worker tester project skill.md 'Test it.' > worker",
        );
        scratch.wait_for_end(&lead);
        let handle = fs::read_to_string(scratch.path.join("worker")).unwrap();
        let handle = handle.trim_end();
        eventually("its session", || project.live_sessions().contains(handle));
        let task = project.root.join(format!(".nbs/workers/{handle}.md"));
        fs::write(&task, fs::read_to_string(&task).unwrap().replace(": running", ": done")).unwrap();
    }
    eventually("the end of all sessions", || project.live_sessions().is_empty());
}

#[test]
fn the_monitor_holds_on_to_nothing_of_its_callers() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let mut spawning = project.spawning(&[]);
    let worker = project.spawn_by(spawning.current_dir(&scratch.path));
    worker.session();
    let link = |name: &str| fs::read_link(format!("/proc/{}/{name}", worker.monitor)).unwrap();
    assert_eq!(link("cwd"), Path::new("/"));
    for number in [1, 2] {
        assert_eq!(link(&format!("fd/{number}")), Path::new("/dev/null"));
    }
    assert!(link("fd/0").display().to_string().starts_with("socket:"));
    assert!(
        fs::read(format!("/proc/{}/cmdline", worker.monitor)).unwrap().starts_with(b"nbs-monitor\0tester-")
    );
    worker.says("done");
    worker.is_cleaned_up();
}

#[test]
fn the_monitor_sleeps_while_nothing_happens_to_its_worker() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn(&[]);
    worker.session();
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{}/status", worker.monitor)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u32>().unwrap()
    };
    let before = switches();
    for number in 0..500 {
        fs::write(project.root.join(format!("file{number}")), "x").unwrap();
        fs::write(project.root.join(".nbs").join(format!("file{number}")), "x").unwrap();
        fs::write(scratch.state().join("file"), "x").unwrap();
    }
    // It may have been on its way to sleep.
    assert!(switches() - before < 20, "{before} {}", switches());
    worker.says("done");
    worker.is_cleaned_up();
}

#[test]
fn a_caller_that_is_killed_before_it_has_started_the_agent_leaves_no_monitor() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let bin = scratch.path.join("bin");
    // The process that starts the agent is killed by it.
    executable(&bin.join("bash"), "#!/bin/sh\nkill -9 $PPID\n");
    let mut path = OsString::from(&bin);
    path.push(":");
    path.push(scratch.command("true").get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap());
    run(project.spawning(&["--startup=0.5", "--timeout=1h"]).env("PATH", path)).signal(9);
    eventually("it being lost", || project.list().contains("\tlost\t-\t"));
    let log = fs::read_dir(scratch.path.join("tmp")).unwrap().next().unwrap().unwrap().path();
    eventually("the end of the log", || fs::read_to_string(&log).unwrap().contains("] ends\n"));
    assert!(fs::read_to_string(&log).unwrap().contains("was killed"));
}

#[test]
fn an_agent_that_cannot_be_started_leaves_nothing_though_its_monitor_was_killed() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let bin = scratch.path.join("bin");
    // As bash ends where the process table is full.
    let script = "#!/bin/sh\n$STRIKE\necho 'fork: retry' >&2\necho 'fork: no room' >&2\nexit 254\n";
    executable(&bin.join("bash"), "");
    fs::create_dir(project.root.join(".nbs/workers")).unwrap();
    let path = format!("{}:{}:{}", bin.display(), links().display(), std::env::var("PATH").unwrap());
    scratch.ts(&["list"]).code(0);
    let before = tree(&scratch.path);
    for strike in ["", "pkill -KILL -P $PPID nbs-monitor"] {
        executable(&bin.join("bash"), script.replace("$STRIKE", strike));
        run(project.spawning(&[]).env("PATH", &path))
            .code(1)
            .stdout("")
            .complains("bash ended with exit code 254: fork: no room");
        assert_eq!(tree(&scratch.path), before);
        assert!(scratch.processes().is_empty(), "{:?}", scratch.processes());
    }
}

#[test]
fn the_monitor_polls_the_task_file_if_inotify_is_missing() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let script = r#"echo 0 > /proc/sys/user/max_inotify_instances || exit
        exec nbs-spawn-worker tester project skill.md 'Test it.' "$@""#;
    let mut command = scratch.command("unshare");
    command.args(["--user", "--map-root-user", "bash", "-c", script]);
    let worker = project.spawn_by(command.arg("bash"));
    worker.log_has("cannot watch for changes");
    worker.session();
    worker.says("done");
    worker.is_cleaned_up();
}
