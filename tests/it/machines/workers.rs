//! Workers on other machines.

use super::*;

/// A project there, whose agent asks, and writes the answer into the task file.
fn furnish(there: &Elsewhere) {
    let agent = "#!/bin/bash\nexport task=${1#--root=}/.nbs/workers/$NBS_HANDLE.md\n\
        nbs-ts create --no-helper --name=\"$NBS_HANDLE\" -- 'read -rp \"How did it go? \" state\n\
            sed -i \"s/^State: running/State: $state/\" \"$task\"; sleep 1000'\n";
    executable(&there.home.join("project/.nbs/bin/nbs-claude"), agent);
    fs::write(there.home.join("skill.md"), "Do it well.\n").unwrap();
}

fn spawn_worker(there: &Elsewhere, words: &[&str]) -> Command {
    let mut command = there.scratch.applet("nbs-spawn-worker");
    command.args(words);
    command
}

#[test]
fn a_worker_is_started_seen_and_waited_for_on_another_machine() {
    let there = Elsewhere::new();
    furnish(&there);
    let spawn = ["--on=box", "tester", "project", "skill.md", "-x: as it is"];
    let said = run(&mut spawn_worker(&there, &spawn)).code(0).silent().out();
    let worker = said.trim_end();
    let handle = worker.strip_prefix("box:tester-").unwrap();
    let task = there.home.join(format!("project/.nbs/workers/tester-{handle}.md"));
    assert!(fs::read_to_string(&task).unwrap().contains("\n-x: as it is\n"));

    let session = format!("box:@tester-{handle}");
    eventually("its session", || there.ts(&["find", "--on=box", &session["box:@".len()..]]).out() != "");
    there.ts(&["wait", "--input", &session, "--timeout=30"]).code(0);
    fs::create_dir(there.scratch.path.join("project")).unwrap();
    let listed = run(&mut spawn_worker(&there, &["--list", "--on=box", "project"])).code(0).silent().out();
    // Its age may be another by then.
    let but_for_age = |line: &str| line.rsplit_once('\t').unwrap().0.to_owned();
    let session_of = but_for_age(&listed);
    assert!(session_of.starts_with(&format!("{worker}\trunning\t")), "{listed}");
    let of_all = run(&mut spawn_worker(&there, &["--list", "--on=all", "project"])).code(0).out();
    assert_eq!(but_for_age(&of_all), session_of);
    let object = run(&mut spawn_worker(&there, &["--list", "--on=all", "--json", "project"])).code(0).out();
    assert!(object.starts_with(r#"{"machine":"box","#), "{object}");
    assert!(object.contains(&format!(r#""handle":"{worker}""#)), "{object}");

    let mut wait = spawn_worker(&there, &["--wait", worker, "--root=project"]);
    let waiting = start(&mut wait);
    there.ts(&["send", &session, "escalated"]).code(0);
    waiting.finish().code(1).silent().stdout("escalated\n");

    run(&mut spawn_worker(&there, &["--on=box", "tester", "nowhere", "skill.md", "x"]))
        .code(1)
        .complains("nbs-spawn-worker: box: cannot use 'nowhere'");
    for words in
        [&["--on=all", "tester", "project", "skill.md", "x"][..], &["--wait=box:x"], &["--on=B", "--list"]]
    {
        run(&mut spawn_worker(&there, words)).code(4).stdout("");
    }
}

#[test]
fn a_job_on_another_machine_ends_with_who_waits_for_it() {
    let there = Elsewhere::new();
    furnish(&there);
    let job = || {
        let words = ["--foreground", "--on=box", "tester", "project", "skill.md", "x"];
        let job = start(&mut spawn_worker(&there, &words));
        eventually("its session", || there.ts(&["list", "--on=box"]).out().contains("\talive\t"));
        job
    };
    let told = job();
    run(Command::new("kill").arg(told.pid().to_string())).code(0);
    told.finish().code(143).stdout("").complains("was ended by SIGTERM");
    there.ts(&["list", "--on=box"]).code(0).stdout("");
    let asked = job();
    let session = there.ts(&["list", "--on=box"]).out().split('\t').next().unwrap().to_owned();
    there.ts(&["wait", "--input", &session, "--timeout=30"]).code(0);
    there.ts(&["send", &session, "completed"]).code(0);
    asked.finish().code(0).silent().stdout("completed\n");
}
