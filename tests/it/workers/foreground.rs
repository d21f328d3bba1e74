//! Workers in the foreground, as jobs.

use super::*;

/// The command of a worker's session, which sets its state, and stays.
fn saying(state: &str) -> String {
    format!("cd $OLDPWD/project/.nbs/workers; sed -i 's/^State: running/State: {state}/' *.md; sleep 1000")
}

#[test]
fn a_worker_in_the_foreground_is_a_job_that_ends_as_it_has() {
    let cases = [
        (saying("completed"), &[][..], "completed\n", 0, ""),
        (saying("Done"), &[], "done\n", 0, ""),
        (saying("failed"), &[], "failed\n", 1, ""),
        (saying("escalated"), &[], "escalated\n", 1, ""),
        ("true".into(), &[], "lost\n", 1, "is lost"),
        ("sleep 1000".into(), &["--timeout=2"], "timeout\n", 3, "timed out after 2 s"),
    ];
    for (runs, options, said, code, complaint) in cases {
        let scratch = Scratch::new();
        let project = Project::new(&scratch);
        let mut spawning = project.spawning(options);
        // A child of the agent that the agent does not wait for ends with the worker, too.
        let script = AGENT.to_owned() + "sleep 1001 &\n";
        executable(&project.root.join(".nbs/bin/nbs-claude"), script);
        spawning.arg("--foreground").env("AGENT_RUNS", runs).env("OLDPWD", &scratch.path);
        let ran = run(&mut spawning).code(code).stdout(said);
        let ran = if complaint.is_empty() { ran.silent() } else { ran.complains(complaint) };
        assert!(scratch.processes().is_empty(), "{} {:?}", ran.err(), scratch.processes());
        assert_eq!(project.live_sessions(), "");
        let listed = project.list();
        assert!(listed.contains(&format!("\t{}\t-\t", said.trim_end())), "{listed}");
    }
}

#[test]
fn a_worker_in_the_foreground_tells_programs_of_both_its_ends() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let mut spawning = project.spawning(&["--foreground", "--json"]);
    spawning.env("AGENT_RUNS", saying("failed")).env("OLDPWD", &scratch.path);
    let said = run(&mut spawning).code(1).silent().out();
    let [begun, ended] = &said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(Path::new(field(begun, "task_file").trim_matches('"')).exists(), "{said}");
    let handle = field(begun, "handle");
    assert_eq!(*ended, format!(r#"{{"handle":{handle},"state":"failed"}}"#));
}

/// An agent that leaves more behind than its session: a session of another name, a process outside of all,
/// and one that has removed its environment.
const STRAY: &str = r#"#!/bin/bash
nbs-ts create --no-helper 'sleep 1001' > /dev/null
setsid sleep 1002 &
(setsid env -i sleep 1003 &)
nbs-ts create --no-helper --name="nbs-$NBS_HANDLE-poem" -- 'nbs-ts create --no-helper "sleep 1004"; sleep 1005'
exec sleep 1006
"#;

fn strays(scratch: &Scratch) -> Vec<String> {
    scratch.processes().into_iter().filter(|process| process.contains("sleep 100")).collect()
}

#[test]
fn a_worker_in_the_foreground_ends_with_all_its_sessions_when_it_is_told_to() {
    for (name, code) in [("-TERM", 143), ("-INT", 130), ("-HUP", 129)] {
        let scratch = Scratch::new();
        let project = Project::new(&scratch);
        executable(&project.root.join(".nbs/bin/nbs-claude"), STRAY);
        let job = start(&mut project.spawning(&["--foreground"]));
        eventually("all that it starts", || strays(&scratch).len() == 5);
        let shed = || {
            let script = r#"pgrep -f '^sleep 1003$' | while read pid; do
                [[ $(readlink /proc/$pid/cwd) == "$PWD" ]] && echo $pid; done; :"#;
            scratch.bash(script).code(0).out()
        };
        eventually("one without an environment", || !shed().is_empty());
        signal(name, &job.pid().to_string());
        let ran = job.finish().code(code).stdout("").complains("was ended by SIG");
        assert!(scratch.processes().is_empty(), "{} {:?}", ran.err(), scratch.processes());
        assert_eq!((shed().as_str(), project.live_sessions().as_str()), ("", ""));
        let mut left: Vec<_> = tree(&project.root.join(".nbs/workers"))
            .into_iter()
            .map(|file| file.extension().unwrap().to_owned())
            .collect();
        left.sort();
        assert_eq!(left, ["log", "md"]);
        assert!(project.list().contains("\tended\t-\t"), "{}", project.list());
    }
}

#[test]
fn a_worker_whose_foreground_is_killed_is_ended_by_its_monitor() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    executable(&project.root.join(".nbs/bin/nbs-claude"), STRAY.replace("(setsid env -i sleep 1003 &)", ""));
    let job = start(&mut project.spawning(&["--foreground"]));
    eventually("all that it starts", || strays(&scratch).len() == 5);
    signal("-KILL", &job.pid().to_string());
    job.finish().signal(9);
    eventually("the end of all", || scratch.processes().is_empty());
    assert_eq!(project.live_sessions(), "");
}

/// A session that is being made when the worker is ended, and becomes visible while others of the worker's
/// sessions take their time to end.
#[test]
fn a_session_that_is_being_made_meanwhile_is_ended_too() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let agent = r#"#!/bin/bash
for n in {1..15}; do
    nbs-ts create --no-helper --name="nbs-$NBS_HANDLE-$n" -- 'trap "" TERM HUP; sleep 1004'
done
slow='strace -f -o /dev/null -e inject=rename,renameat,renameat2:delay_enter=700000'
nbs-ts create --no-helper "$slow nbs-ts create --no-helper 'sleep 1005'; sleep 1006"
exec sleep 1007
"#;
    executable(&project.root.join(".nbs/bin/nbs-claude"), agent);
    let job = start(&mut project.spawning(&["--foreground"]));
    let relays = || scratch.processes().iter().filter(|process| process.contains("nbs-relay")).count();
    eventually("the relay of the one that is being made", || relays() >= 17);
    signal("-KILL", &job.pid().to_string());
    job.finish().signal(9);
    eventually("the end of all", || scratch.processes().is_empty());
    assert_eq!(project.live_sessions(), "");
}

#[test]
fn a_monitor_that_is_killed_is_replaced_in_the_foreground() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let job = start(&mut project.spawning(&["--foreground"]));
    let monitor = || {
        let listed = run(project.command(&["--list", "--json"]).arg(&project.root)).out();
        let monitor = listed.lines().next().map(|line| field(line, "monitor"));
        monitor.filter(|monitor| monitor != "null")
    };
    eventually("its session", || !project.live_sessions().is_empty());
    let first = monitor().unwrap();
    signal("-KILL", &first);
    eventually("another", || monitor().is_some_and(|monitor| monitor != first));
    signal("-TERM", &job.pid().to_string());
    job.finish().code(143);
    assert!(scratch.processes().is_empty(), "{:?}", scratch.processes());
}

/// The end comes between the task file and the agent's start, while the agent is being started, and then by a
/// signal that cannot be caught.
#[test]
fn a_job_that_is_cancelled_as_it_begins_leaves_its_task_file_and_nothing_else() {
    let (bash, path) = ("/bin/bash", std::env::var("PATH").unwrap());
    for (strike, code) in [("", 143), ("-TERM", 143), ("-INT", 130), ("-KILL", 0)] {
        let scratch = Scratch::new();
        let project = Project::new(&scratch);
        let mut job = if strike.is_empty() {
            let mut tracer = scratch.command("strace");
            // As the task file gets its name.
            tracer.args(["-o", "/dev/null", "-e", "inject=rename,renameat,renameat2:signal=SIGTERM:when=1"]);
            tracer.arg(links().join("nbs-spawn-worker")).args(["--foreground", "tester"]);
            tracer.arg(&project.root).args(["skill.md", "x"]);
            tracer
        } else {
            let stub = format!("#!{bash}\nkill {strike} $PPID\nexec {bash} \"$@\"\n");
            executable(&scratch.path.join("bin/bash"), stub);
            let mut spawning = project.spawning(&["--foreground", "--startup=5"]);
            let bin = scratch.path.join("bin");
            spawning.env("PATH", format!("{}:{}:{path}", bin.display(), links().display()));
            spawning
        };
        let ran = run(&mut job);
        if strike == "-KILL" {
            ran.signal(9)
        } else {
            ran.code(code).complains("was ended by SIG")
        };
        eventually("the end of all", || scratch.processes().is_empty());
        let has_begun = project.root.join("prompt").exists();
        match strike {
            "" => assert!(!has_begun),
            "-KILL" => assert!(has_begun, "its monitor waits for one that may be on its way"),
            // It may be ended before or after.
            _ => {}
        }
        assert!(project.list().contains("\tended\t-\t"), "{}", project.list());
        assert_eq!(project.live_sessions(), "");
    }
}
