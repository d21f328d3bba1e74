mod ends;
mod foreground;
mod monitor;

use std::{
    ffi::OsString,
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{MetadataExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::support::{
    Mount, Ran, Running, Scratch, eventually, executable, field, is_running, links, run, signal, start,
};

/// An agent as nbs-claude is one: it opens a session for itself, in which
/// `$AGENT_RUNS` runs.
const AGENT: &str = r#"#!/bin/bash
root=${1#--root=}
printf '%s' "$NBS_INITIAL_PROMPT" > "$root/prompt"
nbs-ts create ${AGENT_OPTIONS---no-helper} --name="nbs-$NBS_HANDLE-poem" -- "${AGENT_RUNS:-sleep 1000}"
[[ ! $AGENT_STAYS ]] || until [[ -e $root/go ]]; do read -r -t 0.05 <> <(:); done
"#;

/// A project with an agent and a skill in it.
struct Project<'a> {
    scratch: &'a Scratch,
    root: PathBuf,
}

impl<'a> Project<'a> {
    fn new(scratch: &'a Scratch) -> Project<'a> {
        Project::at(scratch, "project")
    }

    fn at(scratch: &'a Scratch, name: impl AsRef<Path>) -> Project<'a> {
        let root = scratch.path.join(name);
        let agent = root.join(".nbs/bin/nbs-claude");
        fs::create_dir_all(agent.parent().unwrap()).unwrap();
        executable(&agent, AGENT);
        fs::write(scratch.path.join("skill.md"), "# A skill\n").unwrap();
        Project { scratch, root }
    }

    /// `nbs-spawn-worker`, in the environment that its agent will have, too.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.scratch.applet("nbs-spawn-worker");
        command.args(arguments);
        command
    }

    fn spawning(&self, options: &[&str]) -> Command {
        let mut command = self.command(options);
        command.arg("tester").arg(&self.root).args(["skill.md", "Test it."]);
        command
    }

    fn spawn(&self, options: &[&str]) -> Worker<'_> {
        self.spawn_by(&mut self.spawning(options))
    }

    fn spawn_by(&self, command: &mut Command) -> Worker<'_> {
        let said = run(command.arg("--json")).code(0).silent().out();
        let text = |name| field(&said, name).trim_matches('"').to_owned();
        let log = self.scratch.path.join("tmp").join(text("monitor_log").rsplit('/').next().unwrap());
        Worker { project: self, handle: text("handle"), monitor: text("monitor"), log }
    }

    fn list(&self) -> String {
        run(self.command(&["--list"]).arg(&self.root)).code(0).silent().out()
    }

    fn live_sessions(&self) -> String {
        let all = self.scratch.ts(&["list"]).code(0).out();
        all.lines().filter(|line| line.contains("\talive\t")).map(|line| format!("{line}\n")).collect()
    }
}

struct Worker<'a> {
    project: &'a Project<'a>,
    handle: String,
    monitor: String,
    log: PathBuf,
}

impl Worker<'_> {
    fn task(&self) -> PathBuf {
        self.project.root.join(format!(".nbs/workers/{}.md", self.handle))
    }

    fn content(&self) -> String {
        fs::read_to_string(self.task()).unwrap()
    }

    /// Writes the state as an agent does.
    fn says(&self, state: &str) {
        fs::write(self.task(), self.content().replace("State: running", &format!("State: {state}"))).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn log_has(&self, what: &str) {
        eventually(&format!("'{what}' in the monitor's log"), || self.log().contains(what));
    }

    /// The session that its monitor has found.
    fn session(&self) -> String {
        self.log_has("found session ");
        self.log().split_once("found session ").unwrap().1[..8].to_owned()
    }

    /// Has strace change its monitor's syscalls, from now on, as these words say. It writes to the file
    /// `trace`.
    fn with_changed_syscalls(&self, words: &[&str]) -> Running {
        let scratch = self.project.scratch;
        // Its messages go to a file, because they show when it has attached.
        let said = scratch.path.join("strace");
        let script = r#"exec strace -o trace -p "$0" "$@" 2> strace"#;
        let tracing = start(scratch.command("bash").args(["-c", script, &self.monitor]).args(words));
        eventually("the tracer", || fs::read_to_string(&said).is_ok_and(|said| said.contains(" attached")));
        tracing
    }

    /// Makes its monitor find another session in its session's place, and no descriptor for the first opening
    /// of this file of it, or of its directory. The session runs this command, which prints something or
    /// nothing, and has by then.
    fn finds_another(&self, command: &str, file: Option<&str>) -> (String, Running) {
        let (scratch, first) = (self.project.scratch, self.session());
        signal("-STOP", &self.monitor);
        let second = scratch.create_with(&[&format!("--name=nbs-{}-second", self.handle)], command);
        if file.is_some() {
            scratch.ts(&["wait-pattern", &second, "the end"]).code(0);
        }
        scratch.ts(&["kill", &first]).code(0);
        let inject = "inject=openat:error=EMFILE:when=1";
        let tracing = self.with_changed_syscalls(&["-P", file.unwrap_or(&second), "-e", inject]);
        signal("-CONT", &self.monitor);
        (second, tracing)
    }

    /// The end of all that belongs to it.
    fn is_cleaned_up(&self) {
        eventually("the monitor's end", || !is_running(&self.monitor));
        assert!(!self.project.live_sessions().contains(&self.handle), "{}", self.log());
    }

    fn wait(&self, options: &[&str]) -> Ran {
        let mut command = self.project.command(options);
        run(command.args(["--wait", &self.handle, "--root"]).arg(&self.project.root))
    }
}

#[test]
fn a_worker_is_started_and_seen_and_cleaned_up() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let said = run(&mut project.spawning(&[])).code(0).silent().out();
    let handle = said.strip_suffix('\n').unwrap();
    let hex = handle.strip_prefix("tester-").unwrap();
    assert!(hex.len() == 8 && hex.bytes().all(|byte| b"0123456789abcdef".contains(&byte)), "{said}");

    let task = project.root.join(format!(".nbs/workers/{handle}.md"));
    let content = fs::read_to_string(&task).unwrap();
    for part in ["\n# A skill\n", "\nTest it.\n", "\nCompleted:\n\n## Log\n", "nbs-ts"] {
        assert!(content.contains(part), "{content}");
    }
    let status = content.rsplit_once("\n## Status\n\nState: running\nStarted: ").unwrap().1;
    let form: String = status[..20].chars().map(|c| if c.is_ascii_digit() { 'd' } else { c }).collect();
    assert_eq!(form, "dddd-dd-dd dd:dd:dd\n");
    eventually("its session", || !project.list().contains("\t-\t"));
    let prompt = format!(
        "Read {} and execute the task. Update the Status and Log sections when complete.",
        task.display()
    );
    assert_eq!(fs::read_to_string(project.root.join("prompt")).unwrap(), prompt);
    let sessions = scratch.ts(&["list"]).out();
    let session = &sessions[..8];
    assert_eq!(sessions, format!("{session}\talive\tnbs-{handle}-poem\tsleep 1000\n"), "one, its own");
    let listed = project.list();
    assert!(listed.starts_with(&format!("{handle}\trunning\t{session}\t")), "{listed}");
    assert_eq!(listed.matches('\t').count(), 3, "{listed}");
    let object = run(project.command(&["--list", "--json"]).arg(&project.root)).out();
    assert_eq!(field(&object, "session"), format!("\"{session}\""));

    fs::write(&task, content.replace("State: running", "State: completed")).unwrap();
    let mut wait = project.command(&["--wait", handle]);
    run(wait.current_dir(&project.root)).code(0).silent().stdout("completed\n");
    eventually("its session's end", || scratch.ts(&["list"]).out().is_empty());
    eventually("what it printed", || project.root.join(format!(".nbs/workers/{handle}.log")).exists());
    assert!(project.list().starts_with(&format!("{handle}\tcompleted\t-\t")), "{}", project.list());
}

/// The wrapper of the reference, with python as an agent that is not an agent: its message about the prompt
/// is a syntax error.
#[test]
fn the_agent_of_the_reference_gives_any_program_its_prompt() {
    let scratch = Scratch::new();
    let project = Project::at(&scratch, "my project");
    let page = scratch.ts(&["help", "workers"]).code(0).silent().out();
    let script = page.split_once("```bash\n").unwrap().1.split_once("```").unwrap().0;
    executable(&project.root.join(".nbs/bin/nbs-claude"), script);
    let worker = project.spawn_by(project.spawning(&[]).env("NBS_AGENT", "python3 -q"));
    let session = worker.session();
    scratch.ts(&["wait-pattern", &session, "SyntaxError", "--timeout=30"]).code(0);
    let name = format!("nbs-{}-my_project", worker.handle);
    scratch.ts(&["find", &name]).code(0).stdout(format!("{session}\n"));
    worker.says("done");
    worker.is_cleaned_up();
    let output = fs::read_to_string(worker.task().with_extension("log")).unwrap();
    assert!(output.contains(&format!("Read {}", worker.task().display())[..40]), "{output}");
}

#[test]
fn every_final_state_ends_it_however_it_is_written() {
    let in_place = |worker: &Worker, state: &str| worker.says(state);
    let editors_rename = |worker: &Worker, state: &str| {
        let (task, beside) = (worker.task(), worker.task().with_extension("swp"));
        fs::write(&beside, worker.content().replace("State: running", &format!("State: {state}"))).unwrap();
        fs::rename(&task, task.with_extension("md~")).unwrap();
        fs::rename(&beside, &task).unwrap();
    };
    let new_block = |worker: &Worker, state: &str| {
        let content =
            worker.content() + "done what I could\r\n\r\n## Status\r\n\r\nState: " + state + " \t\r\n";
        fs::write(worker.task(), content).unwrap();
    };
    let sed = |worker: &Worker, state: &str| {
        let script = format!("s/State: running/state:{state}/");
        run(Command::new("sed").args(["-i", &script]).arg(worker.task())).code(0);
    };
    type Way<'a> = &'a dyn Fn(&Worker, &str);
    let cases: [(&str, Way, i32); 6] = [
        ("completed", &in_place, 0),
        ("Done", &editors_rename, 0),
        ("FAILED", &new_block, 1),
        ("escalated", &sed, 1),
        ("COMPLETED", &new_block, 0),
        ("failed", &editors_rename, 1),
    ];
    for (state, way, code) in cases {
        let scratch = Scratch::new();
        let project = Project::new(&scratch);
        let worker = project.spawn(&[]);
        let session = worker.session();
        way(&worker, state);
        worker.wait(&[]).code(code).silent().stdout(format!("{}\n", state.to_lowercase()));
        worker.is_cleaned_up();
        scratch.ts(&["status", &session]).code(2);
        let log = worker.log();
        for line in log.lines() {
            let form: String =
                line.chars().take(23).map(|c| if c.is_ascii_digit() { 'd' } else { c }).collect();
            assert_eq!(form, "[dddd-dd-ddTdd:dd:ddZ] ", "{log}");
        }
        assert!(log.contains(&format!("the task is over: {}", state.to_lowercase())), "{log}");
        assert!(log.contains(&format!("ended session {session}")), "{log}");
        assert_eq!(fs::metadata(&worker.log).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_state_that_is_not_final_ends_no_worker() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    fs::write(
        scratch.path.join("skill.md"),
        "An example:\n```\n## Status\n\nState: done\n```\nand unclosed:\n```\nState: failed\n",
    )
    .unwrap();
    // A worker that writes the file in pieces is not judged by an incomplete one; but after half a second it
    // is, and if the machine is that slow, the test begins again.
    let (worker, session, content) = loop {
        let worker = project.spawn(&[]);
        let session = worker.session();
        for state in ["done when the tests pass", "not done", "complete", ""] {
            worker.says(&format!("running\nState: {state}\nState: running"));
        }
        let content = worker.content();
        let half = content.find("and unclosed").unwrap();
        let begun = Instant::now();
        fs::write(worker.task(), &content[..half]).unwrap();
        fs::write(worker.task(), &content).unwrap();
        if begun.elapsed() < Duration::from_millis(400) {
            break (worker, session, content);
        }
        worker.says("done");
        worker.is_cleaned_up();
    };
    fs::remove_file(worker.task()).unwrap();
    fs::write(worker.task(), &content).unwrap();
    worker.wait(&["--timeout=1.5"]).code(3).stdout("").complains("timed out");
    scratch.ts(&["status", &session]).code(0).stdout("alive\n");
    worker.says("done");
    worker.is_cleaned_up();
}

#[test]
fn skill_and_instructions_and_paths_arrive_byte_for_byte() {
    let bytes = b"it's \"q\" `id` $(id) ${HOME}\\\n\n-n \xff\xfe \x01\x1b[31m &;|\r\n";
    let scratch = Scratch::new();
    let name = OsString::from_vec(b"- pro'\"ject $(id) \xff\n".to_vec());
    let project = Project::at(&scratch, &name);
    fs::write(scratch.path.join("skill.md"), bytes).unwrap();
    for text in [&bytes[..], b"--dangerous text", b"-x", b"", b"## Status\nState: done"] {
        let mut command = project.command(&[]);
        command.args(["--", "-tester"]).arg(&name).arg("skill.md");
        command.arg(OsString::from_vec(text.to_vec()));
        let handle = run(&mut command).code(0).silent().out();
        let task = project.root.join(format!(".nbs/workers/{}.md", handle.trim_end()));
        let content = fs::read(&task).unwrap();
        for part in [&bytes[..], text] {
            let part = [b"\n\n", part, b"\n\n## "].concat();
            assert!(content.windows(part.len()).any(|window| window == part), "{text:?}");
        }
        let prompt = project.root.join("prompt");
        let expected = [b"Read ", task.as_os_str().as_bytes(), b" and execute"].concat();
        eventually("the prompt", || fs::read(&prompt).is_ok_and(|prompt| prompt.starts_with(&expected)));
        eventually("its session", || project.live_sessions().contains(handle.trim_end()));
        let state = content.len() - b"State: running".len();
        let at = (0..=state).rev().find(|at| content[*at..].starts_with(b"State: running")).unwrap();
        let content = [&content[..at], b"State: done", &content[at + 14..]].concat();
        fs::write(&task, content).unwrap();
        eventually("the end of its session", || project.live_sessions().is_empty());
    }
}

#[test]
fn twenty_of_one_role_at_once_each_end_their_own() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let running: Vec<_> = (0..20).map(|_| start(&mut project.spawning(&["--json"]))).collect();
    let workers: Vec<Worker> = running
        .into_iter()
        .map(|running| {
            let said = running.finish().code(0).silent().out();
            let text = |name| field(&said, name).trim_matches('"').to_owned();
            let log = PathBuf::from(text("monitor_log"));
            Worker { project: &project, handle: text("handle"), monitor: text("monitor"), log }
        })
        .collect();
    workers.iter().for_each(|worker| drop(worker.session()));
    assert_eq!(project.live_sessions().lines().count(), 20);
    for (done, left) in [(&workers[..1], &workers[1..]), (&workers[1..12], &workers[12..])] {
        done.iter().for_each(|worker| worker.says("done"));
        done.iter().for_each(Worker::is_cleaned_up);
        let live = project.live_sessions();
        assert!(left.iter().all(|worker| live.contains(&worker.handle)), "{live}");
    }
    workers[12..].iter().for_each(|worker| worker.says("failed"));
    workers[12..].iter().for_each(Worker::is_cleaned_up);
    assert!(workers.iter().all(|worker| worker.log().matches("ended session").count() == 1));
}

#[test]
fn a_state_that_could_not_be_read_at_once_is_read_later() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn(&[]);
    worker.session();
    let beside = worker.task().with_extension("swp");
    fs::write(&beside, worker.content().replace("State: running", "State: done")).unwrap();
    let tracing = worker.with_changed_syscalls(&["-e", "inject=openat:error=EMFILE:when=1..2"]);
    fs::rename(&beside, worker.task()).unwrap();
    worker.is_cleaned_up();
    // glibc and musl have other words for it.
    assert!(worker.log().contains("(os error 24)"), "{}", worker.log());
    tracing.finish();
}

#[test]
fn a_session_that_could_not_be_held_at_once_is_no_session_that_has_ended() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn(&[]);
    let (second, tracing) = worker.finds_another("sleep 1000", None);
    worker.log_has(&format!("found session {second}"));
    assert!(worker.log().contains("(os error 24)"), "{}", worker.log());
    worker.says("done");
    worker.is_cleaned_up();
    tracing.finish();
}

/// The monitor lists the sessions, and another is created before it goes on and sees that the first has ended.
#[test]
fn a_session_that_takes_the_place_of_one_during_a_look_is_found() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn(&[]);
    let (first, sessions) = (worker.session(), scratch.path.join("state/sessions"));
    let stop = "inject=getdents64:signal=SIGSTOP:when=2";
    let tracing = worker.with_changed_syscalls(&["-P", sessions.to_str().unwrap(), "-e", stop]);
    scratch.create("sleep 1000");
    let trace = scratch.path.join("trace");
    eventually("a stop", || {
        fs::read_to_string(&trace).is_ok_and(|trace| trace.contains("stopped by SIGSTOP"))
    });
    let second = scratch.create_with(&[&format!("--name=nbs-{}-second", worker.handle)], "sleep 1000");
    scratch.ts(&["kill", &first]).code(0);
    signal("-CONT", &worker.monitor);
    worker.log_has(&format!("found session {second}"));
    worker.says("done");
    worker.is_cleaned_up();
    tracing.finish();
}

#[test]
fn a_session_whose_output_could_not_be_opened_at_once_loses_none() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let worker = project.spawn(&[]);
    let (second, tracing) = worker.finds_another("echo said before the end; sleep 1000", Some("output.log"));
    worker.log_has(&format!("found session {second}"));
    worker.says("done");
    worker.is_cleaned_up();
    let kept = fs::read_to_string(worker.task().with_extension("log")).unwrap();
    assert!(kept.contains("said before the end"), "{kept}");
    tracing.finish();
}

#[test]
fn the_log_of_the_monitor_is_nobody_elses() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let victim = scratch.path.join("victim");
    fs::write(&victim, "untouched").unwrap();
    // For every process that may come next.
    let last: u32 =
        fs::read_to_string("/proc/loadavg").unwrap().trim().rsplit(' ').next().unwrap().parse().unwrap();
    let most: u32 = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse().unwrap();
    for pid in (1..1_000).map(|next| (last + next) % most) {
        let log = scratch.path.join(format!("tmp/nbs-spawn-worker-monitor-{pid}.log"));
        symlink(&victim, log).unwrap();
    }
    let worker = project.spawn(&[]);
    worker.says("done");
    worker.is_cleaned_up();
    let log = fs::symlink_metadata(&worker.log).unwrap();
    assert!(log.is_file() && log.permissions().mode() & 0o777 == 0o600, "{log:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
}

#[test]
fn a_worker_that_cannot_start_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let root = project.root.to_str().unwrap();
    let before = tree(&scratch.path);
    let spawn = |arguments: &[&str]| project.command(arguments);
    run(&mut spawn(&["a", "./nowhere", "skill.md", "x"]))
        .code(1)
        .complains("use './nowhere' as a project's root");
    run(&mut spawn(&["a", "skill.md", "skill.md", "x"])).code(1).complains("not a directory");
    run(&mut spawn(&["a", root, "nothing.md", "x"])).code(1).complains("read the skill file 'nothing.md'");
    run(&mut spawn(&["a", root, "/", "x"])).code(1).complains("read the skill file '/'");
    run(&mut spawn(&["a", root, "skill.md", "x", "--agent=./nothing"])).code(1).complains("'./nothing'");
    run(&mut spawn(&["a", ".", "skill.md", "x"])).code(1).complains("cannot find the agent 'nbs-claude'");
    run(spawn(&["a", root, "skill.md", "x"]).env("TMPDIR", "/no/where"))
        .code(1)
        .complains("the monitor's log");
    run(spawn(&["a", root, "skill.md", "x"]).env("NBS_TS_HOME", "/tmp")).code(1).complains("state directory");
    fs::write(project.root.join(".nbs/workers"), "a file").unwrap();
    run(&mut spawn(&["a", root, "skill.md", "x"])).code(1).complains("cannot write '");
    fs::remove_file(project.root.join(".nbs/workers")).unwrap();
    let too_long = "x".repeat(47);
    for role in ["", ".", ".a", "a/b", "a b", "../a", &too_long] {
        run(&mut spawn(&[role, root, "skill.md", "x"])).code(4).complains("is not a role");
    }
    for arguments in [&[][..], &["a"], &["a", root, "skill.md"], &["--", "a", root, "skill.md"]] {
        run(&mut spawn(arguments))
            .code(4)
            .complains("usage: nbs-spawn-worker [options] ROLE PROJECT-ROOT SKILL-FILE INSTRUCTIONS")
            .stdout("");
    }
    for arguments in [
        &["a", root, "skill.md", "x", "y"][..],
        &["a", root, "skill.md", "x", "--timeout=-1"],
        &["a", root, "skill.md", "x", "--root=."],
        &["--frobnicate", "a", root, "skill.md", "x"],
        &["--list", root, root],
        &["--list", "--timeout=1"],
        &["--wait=a"],
        &["--wait=../a-01234abc"],
        &["--wait=a-01234abc", "--list"],
        &["--wait=a-01234abc", "x"],
        &["--wait=a-01234abc", "--agent=x"],
        &["--wait=a-01234abc", "--foreground"],
        &["--list", "--foreground"],
    ] {
        run(&mut spawn(arguments)).code(4).complains("nbs-spawn-worker: ");
    }
    run(&mut spawn(&["--wait=a-01234abc", "--root", root])).code(2).complains("no worker 'a-01234abc'");
    run(&mut spawn(&["--list", root])).code(0).stdout("").silent();
    assert_eq!(tree(&scratch.path), before);
    // A monitor that could not begin reports that before it ends.
    eventually("no monitor being left", || scratch.processes().is_empty());
}

#[test]
fn an_agent_that_ends_without_a_session_is_lost_when_the_startup_time_is_over() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let options = ["--foreground", "--agent=/bin/false", "--startup=200ms", "--timeout=1h"];
    run(&mut project.spawning(&options)).code(1).stdout("lost\n").complains("is lost");
    assert!(scratch.processes().is_empty(), "{:?}", scratch.processes());
}

#[test]
fn the_first_process_of_a_container_may_be_a_worker() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    // Its orphans are children of the first process.
    let script = format!("{AGENT}for n in 1 2 3 4 5 6 7 8; do (setsid true &); done\nwait\n");
    executable(&project.root.join(".nbs/bin/nbs-claude"), script);
    let mut container = scratch.command("unshare");
    container.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]);
    container.arg(links().join("nbs-spawn-worker")).args(["--foreground", "tester"]);
    container.arg(&project.root).args(["skill.md", "x"]);
    // It ends its worker itself, when nothing is left to be collected.
    let runs = r#"until ! ps -eo stat= | grep -q Z && ! pgrep -x nbs-claude; do read -t 0.05 <> <(:); done
        sed -i 's/^State: running/State: done/' "$OLDPWD"/project/.nbs/workers/*.md; sleep 1000"#;
    container.env("AGENT_RUNS", runs).env("OLDPWD", &scratch.path);
    run(&mut container).code(0).stdout("done\n").silent();
    assert!(scratch.processes().is_empty(), "{:?}", scratch.processes());
}

/// Every path below a directory.
pub(crate) fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(tree(&path));
        }
        all.push(path);
    }
    all.sort();
    all
}

#[test]
fn a_skill_may_lie_in_the_users_own_folder_and_an_agent_too() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let nbs = scratch.home().join(".nbs");
    fs::create_dir_all(nbs.join("skills")).unwrap();
    fs::write(nbs.join("skills/own.md"), "my own\n").unwrap();
    fs::rename(project.root.join(".nbs/bin"), nbs.join("bin")).unwrap();
    fs::remove_dir(project.root.join(".nbs")).unwrap();
    let mut command = project.command(&["a"]);
    let worker = project.spawn_by(command.arg(&project.root).args(["skills/own.md", "x"]));
    assert!(worker.content().contains("my own\n"));
    worker.session();
    worker.says("done");
    worker.is_cleaned_up();
}

#[test]
fn the_projects_files_have_the_callers_umask() {
    let scratch = Scratch::new();
    let project = Project::new(&scratch);
    let script = "umask 0027; exec nbs-spawn-worker a project skill.md x --json --agent=/bin/true --startup=0 --timeout=0";
    let ran = run(scratch.command("bash").args(["-c", script]).env("TMPDIR", "tmp")).code(0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = project.root.join(".nbs/workers");
    assert_eq!(mode(&folder), 0o750);
    // Its monitor may be writing another beside it, to be renamed.
    let task = format!("{}.md", ran.field("handle").trim_matches('"'));
    assert_eq!(mode(&folder.join(task)), 0o640);
}

#[test]
fn a_stranger_s_process_is_no_monitor_whatever_it_calls_itself() {
    let scratch = Scratch::new();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let project = Project::new(&scratch);
    let handle = "tester-0123abcd";
    fs::create_dir(project.root.join(".nbs/workers")).unwrap();
    fs::write(project.root.join(format!(".nbs/workers/{handle}.md")), "## Status\n\nState: running\n")
        .unwrap();
    fs::set_permissions(&scratch.path, fs::Permissions::from_mode(0o755)).unwrap();
    // Python takes its first argument for the program: the handle.
    let program = "import time; open('/proc/self/comm', 'w').write('nbs-monitor'); time.sleep(1000)";
    fs::write(scratch.path.join(handle), program).unwrap();
    let pretend = format!("cd {} && exec -a nbs-monitor /usr/bin/python3 {handle}", scratch.path.display());
    let mut command = scratch.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "bash", "-c", &pretend]);
    let stranger = start(&mut command);
    let comm = format!("/proc/{}/comm", stranger.pid());
    eventually("the stranger", || fs::read_to_string(&comm).is_ok_and(|name| name == "nbs-monitor\n"));
    let waited = run(project.command(&["--wait", handle, "--timeout=10", "--root"]).arg(&project.root));
    waited.code(1).stdout("lost\n").complains("its session ended");
    assert!(project.list().starts_with(&format!("{handle}\tlost\t-\t")), "{}", project.list());
}
