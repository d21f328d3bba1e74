//! spawn-worker - give a task to an agent, and watch over it
//!
//! Usage: nbs-spawn-worker [options] ROLE PROJECT-ROOT SKILL-FILE INSTRUCTIONS
//!        nbs-spawn-worker --list [options] [PROJECT-ROOT]
//!        nbs-spawn-worker --wait=WORKER [options]
//!
//! Writes the task file PROJECT-ROOT/.nbs/workers/WORKER.md (the skill, the
//! instructions, a Status block, a Log), starts an agent on it, prints the
//! worker's handle, ROLE-XXXXXXXX, and returns.
//!
//! A background monitor ends the worker's sessions, that is, those with its handle
//! in their names. It does so when the State in the task file is completed, done,
//! failed or escalated; at the timeout; or when the task file has been gone for 5
//! s. It saves their output in WORKER.log beside the task file (whose times are
//! UTC). Its own log is $TMPDIR/nbs-spawn-worker-monitor-PID.log (--json prints
//! the path). SIGTERM to the monitor ends the worker and the monitor.
//!
//! SKILL-FILE is relative to the current directory or to ~/.nbs. The agent is
//! nbs-claude, from PROJECT-ROOT/.nbs/bin, PROJECT-ROOT/bin, ~/.nbs/bin or PATH.
//! INSTRUCTIONS may be any text except an option of this command.
//!
//! --list prints a tab-separated line for each worker, oldest first: handle,
//! state, session (or -), age. The monitor writes the states timeout and ended
//! (by a person or a signal) into the task file. A lost worker has an open task
//! but no session or monitor. --wait waits until a worker has ended, and prints
//! its state. It exits 0 for completed and done, 1 for failed, escalated, ended
//! and lost, 2 if there is no such worker, 3 for timeout.
//!
//! --foreground is for schedulers and cron: it returns when the worker has ended,
//! and prints its state (with --json: a second object). It exits 0 for completed
//! and done, 1 for failed, escalated and lost, 3 for timeout. SIGTERM, SIGINT and
//! SIGHUP first end the worker, all its sessions and its agent (exit 143, 130,
//! 129); the task file and WORKER.log stay. If it is killed, its monitor ends the
//! sessions.
//!
//! Options:
//!   --foreground      wait until the worker has ended; a signal ends it
//!   --list            list the workers of a project
//!   --wait=WORKER     wait until that worker has ended, and print its state
//!   --timeout=TIME    limit the task's time (default: 10m); with --wait, the
//!                     wait's time (default: unlimited)
//!   --startup=TIME    if no session appears within this time, the monitor notes
//!                     it (default: 15s)
//!   --agent=PATH      the agent's program
//!   --profile=NAME    the agent's sessions have that profile ('nbs help limits'),
//!                     or the monitor ends the worker; if not given:
//!                     $NBS_TS_PROFILE
//!   --root=DIR        the project of --wait and --list (default: .)
//!   --on=MACHINE      on that machine, with PROJECT-ROOT and SKILL-FILE there,
//!                     relative to its home directory; if not given: on
//!                     $NBS_TS_ON. Workers there are MACHINE:WORKER, also for
//!                     --wait. With --list repeatable; 'all': this and all known
//!                     machines ('nbs help machines')
//!   --json            print an object for each worker
//!
//! Example:
//!   w=$(nbs-spawn-worker tester ~/project skills/test.md 'Test the parser.')

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf, absolute},
    time::{Duration, SystemTime},
};

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    numbers::shown_seconds,
    outcome::{Failure, Result, Trying},
    session::StateDir,
    sys::{clock::unix_seconds, deadline::Deadline, files, inherited, user},
    terminal::text,
    ts::profile::Profile,
    worker::{
        self, ForegroundJob, Launch, Role, TaskFile, View, Watched, WorkerEnd, WorkerHandle, WorkerLimits,
    },
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    cli::check_stdout()?;
    let timeout = call.optional("timeout", cli::time)?;
    let root = call.optional("root", cli::some)?;
    let starts = ["startup", "agent", "foreground", "profile"].map(|option| call.has(option)).contains(&true);
    let (lists, wait_for) = (call.has("list"), call.optional("wait", worker_handle)?);
    if starts && (lists || wait_for.is_some()) {
        return exclude("cannot use --startup, --agent, --foreground or --profile with --list or --wait");
    }
    if let Some(worker) = wait_for {
        return wait(Path::new(&root.unwrap_or(".".into())), &worker, timeout, call.json());
    }
    if !lists {
        return if root.is_some() {
            exclude("--root requires --wait or --list")
        } else {
            spawn(call, timeout)
        };
    }
    match (root.as_deref(), call.operand("PROJECT-ROOT")) {
        _ if timeout.is_some() => exclude("cannot use --timeout with --list"),
        (Some(_), Some(_)) => exclude("--list needs at most one project"),
        (root, operand) => list(Path::new(root.or(operand).unwrap_or(".".as_ref())), call.json()),
    }
}

fn worker_handle(option: &str, value: &OsStr) -> Result<WorkerHandle> {
    let why = "is not a worker's handle like tester-0123abcd";
    WorkerHandle::parse(value.as_encoded_bytes()).ok_or_else(|| cli::bad_value(option, value, why))
}

fn exclude(why: &str) -> Result<()> {
    Err(Failure::bad_args(why.into()))
}

fn spawn(call: &CommandLine, timeout: Option<Duration>) -> Result<()> {
    let word = |name| call.operand(name).unwrap_or_default();
    let (role, root, skill) = (word("ROLE"), word("PROJECT-ROOT"), word("SKILL-FILE"));
    let instructions = word("INSTRUCTIONS");
    let role = Role::parse(role.as_encoded_bytes()).ok_or_else(|| {
        Failure::bad_args(format!(
            "'{}' is not a role: 1 to 46 of a-z, A-Z, 0-9, '_', '.' and '-', and must not begin with a dot",
            role.display()
        ))
    })?;
    let limits = WorkerLimits {
        startup: call.value("startup", cli::time)?,
        timeout: timeout.unwrap_or(WorkerLimits::DEFAULT.timeout),
    };

    let profile = call.optional("profile", cli::name)?;
    if let Some(profile) = &profile {
        Profile::read(profile)?;
    }

    // The skill may be a descriptor, such as /dev/fd/63, which is closed afterwards.
    let skill = read_skill(Path::new(skill))?;
    inherited::shed().trying("close inherited descriptors")?;
    let root = &project(Path::new(root))?;
    StateDir::open()?;
    let agent = call.optional("agent", cli::some)?.map_or_else(|| worker::find_agent(root), Ok)?;
    let task = TaskFile::fresh(root, &role)?;
    let handle = task.worker().as_str();
    let launch = Launch::check(handle.as_ref(), root.as_ref(), &agent)?;

    let mut foreground = call.has("foreground").then(ForegroundJob::prepare).transpose()?;
    let mut monitor = Watched::start(root, &task, limits, profile.as_ref())?;
    let mut prompt = OsString::from("Read ");
    prompt.push(task.path());
    prompt.push(" and execute the task. Update the Status and Log sections when complete.");
    // The project's files are as its other files are.
    let written = files::with_callers_umask(|| task.write(root, &skill, instructions.as_encoded_bytes()));
    let began = written.and_then(|()| match foreground {
        Some(_) => monitor.go_in_foreground(),
        None => monitor.go(),
    });
    let started = began.and_then(|()| {
        // A signal may end it before there is an agent.
        let is_over = foreground.as_mut().is_some_and(ForegroundJob::is_told);
        if is_over { Ok(()) } else { launch.start(&prompt, profile.as_ref()) }
    });
    let (pid, log) = (monitor.pid(), monitor.log.clone());
    if let Err(failure) = started {
        monitor.withdraw(&task);
        return Err(failure);
    }
    let printed = if call.json() {
        let object = Object::new()
            .text("handle", handle)
            .bytes("task_file", task.path().as_os_str().as_encoded_bytes())
            .number("monitor", pid)
            .bytes("monitor_log", log.as_os_str().as_encoded_bytes());
        cli::print(object.line())
    } else if foreground.is_some() {
        Ok(())
    } else {
        cli::print(format!("{handle}\n"))
    };
    // A worker whose handle was not printed is ended.
    monitor.started(printed.is_ok());
    let Some(mut foreground) = foreground else { return printed };
    let ended = foreground.wait(root, &task, limits, monitor)?;
    printed?;
    if let Some(told) = foreground.told(&task) {
        return Err(told);
    }
    report(&task, &ended, Some(limits.timeout), call.json())
}

/// The root of a project, as an absolute path: the agent need not be where we are.
fn project(root: &Path) -> Result<PathBuf> {
    let what = format!("use '{}' as a project's root", root.display());
    files::check_can_enter(root).and_then(|()| absolute(root)).trying(what)
}

fn read_skill(skill: &Path) -> Result<Vec<u8>> {
    let what = format!("read the skill file '{}'", skill.display());
    match fs::read(skill) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let nbs = user::home().map(|home| home.join(".nbs").join(skill));
            nbs.map_or(Err(error), fs::read).trying(what)
        }
        other => other.trying(what),
    }
}

fn list(root: &Path, json: bool) -> Result<()> {
    let views = worker::list(&project(root)?)?;
    let lines: String = views.iter().map(if json { object } else { line }).collect();
    cli::print(lines)
}

fn line(view: &View) -> String {
    let session = view.session.as_ref().map_or("-", |session| session.as_str());
    let age = view.started.map_or("-".into(), age);
    let state = text::escaped(view.state.as_bytes());
    format!("{}\t{state}\t{session}\t{age}\n", view.task.worker())
}

/// In the largest unit that there is a whole one of.
fn age(started: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(started).unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn object(view: &View) -> String {
    let session = view.session.as_ref().map(|session| session.as_str().as_bytes());
    Object::new()
        .text("handle", view.task.worker().as_str())
        .text("state", &view.state)
        .bytes_or_null("session", session)
        .seconds_or_null("started", view.started.map(unix_seconds))
        .bytes("task_file", view.task.path().as_os_str().as_encoded_bytes())
        .number_or_null("monitor", view.monitor)
        .line()
}

fn wait(root: &Path, worker: &WorkerHandle, timeout: Option<Duration>, json: bool) -> Result<()> {
    let deadline = timeout.map_or(Deadline::NEVER, Deadline::after);
    let task = TaskFile::of(&project(root)?, worker.clone());
    let Some(ended) = worker::wait(&task, deadline)? else {
        return Err(Failure::timed_out(format!(
            "cannot wait for worker '{worker}': timed out after {}; it is still working",
            shown_seconds(timeout.unwrap_or_default())
        )));
    };
    report(&task, &ended, None, json)
}

/// Prints the state in which a worker has ended; `timeout` is its timeout, if that is known.
fn report(task: &TaskFile, ended: &WorkerEnd, timeout: Option<Duration>, json: bool) -> Result<()> {
    let (worker, path) = (task.worker(), task.path());
    cli::print(match json {
        true => Object::new().text("handle", worker.as_str()).text("state", ended.state()).line(),
        false => format!("{}\n", ended.state()),
    })?;
    match ended {
        WorkerEnd::State(_, true) => Ok(()),
        WorkerEnd::State(..) => Err(Failure::quiet()),
        WorkerEnd::TimedOut => Err(Failure::timed_out(format!(
            "worker '{worker}' timed out{} and was ended; see '{}'",
            timeout.map_or(String::new(), |timeout| format!(" after {}", shown_seconds(timeout))),
            path.display()
        ))),
        WorkerEnd::Ended => Err(Failure::failed(format!(
            "worker '{worker}' was ended before it was done; see '{}'",
            path.display()
        ))),
        WorkerEnd::Lost => Err(Failure::failed(format!(
            "worker '{worker}' is lost: its session ended without a final state; see '{}'",
            path.display()
        ))),
    }
}
