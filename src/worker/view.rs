//! Workers as their lead sees them: in a list, and waited for.

use std::{
    path::Path,
    time::{Instant, SystemTime},
};

use crate::{
    outcome::{Result, Trying},
    session::{Handle, MONITOR, StateDir},
    sys::{
        deadline::Deadline,
        poll::PollSet,
        processes::{self, PidFd, Process},
    },
    worker::{
        TaskFile, WorkerHandle,
        lookout::Lookout,
        phase::{Reading, StableReading},
        sessions::{self, Followed},
        status::{self, verdict},
    },
};

/// The state of a worker that says it is at work, with no session and no monitor.
const LOST: &str = "lost";

pub(crate) struct View {
    pub(crate) task: TaskFile,
    pub(crate) state: String,
    /// Its live session; the oldest, if there are several.
    pub(crate) session: Option<Handle>,
    /// The PID of its monitor.
    pub(crate) monitor: Option<u32>,
    /// As its task file has it.
    pub(crate) started: Option<SystemTime>,
}

/// Every worker of a project, oldest first.
pub(crate) fn list(root: &Path) -> Result<Vec<View>> {
    let files = TaskFile::all(root)?;
    let workers: Vec<WorkerHandle> = files.iter().map(|file| file.worker().clone()).collect();
    let (state_dir, monitors) = (StateDir::open()?, monitors()?);
    let mut views = Vec::new();
    for task in files {
        let worker = task.worker();
        let session = sessions::find(&state_dir, worker, &workers)?.live.into_iter().next();
        let monitor = monitors.iter().find(|monitor| watches(monitor, worker)).map(|monitor| monitor.pid);
        // We read the file after we checked for processes that could write it.
        let Some((state, started)) = task.read()? else { continue };
        let state = state.unwrap_or_else(|| "unknown".into());
        let is_here = || task.elsewhere().is_none();
        let has_ended = WorkerEnd::of(&state).is_some();
        let is_lost = !has_ended && session.is_none() && monitor.is_none() && is_here();
        let state = if is_lost { LOST.into() } else { state };
        views.push(View { task, state, session, monitor, started });
    }
    views.sort_unstable_by(|a, b| (a.started, a.task.worker()).cmp(&(b.started, b.task.worker())));
    Ok(views)
}

fn monitors() -> Result<Vec<Process>> {
    let all = processes::all().trying("list monitors")?;
    let is_one =
        |process: &Process| process.name == MONITOR && !process.has_ended() && process.is_of_our_user();
    Ok(all.into_iter().filter(is_one).collect())
}

fn watches(monitor: &Process, worker: &WorkerHandle) -> bool {
    matches!(&monitor.arguments()[..], [role, handle, ..] if role == MONITOR.as_bytes() && handle == worker.as_str().as_bytes())
}

/// How a worker has ended.
pub(crate) enum WorkerEnd {
    /// By this state, which is a final one; `true` where the task was done.
    State(String, bool),
    /// It has no state, and no process is left that could write one.
    Lost,
    TimedOut,
    /// Its monitor ended it by request.
    Ended,
}

impl WorkerEnd {
    /// The end that its task file reports, if no process can write another state.
    pub(super) fn of(state: &str) -> Option<WorkerEnd> {
        match (verdict(state), state) {
            (Some(done), _) => Some(WorkerEnd::State(state.to_owned(), done)),
            (None, status::TIMED_OUT) => Some(WorkerEnd::TimedOut),
            (None, status::ENDED) => Some(WorkerEnd::Ended),
            (None, _) => None,
        }
    }

    /// The same for a task file; lost, if it has no state.
    pub(super) fn read(task: &TaskFile) -> Result<WorkerEnd> {
        let state = task.read()?.and_then(|(state, _)| state);
        Ok(state.and_then(|state| WorkerEnd::of(&state)).unwrap_or(WorkerEnd::Lost))
    }

    pub(crate) fn state(&self) -> &str {
        match self {
            WorkerEnd::State(state, _) => state,
            WorkerEnd::Lost => LOST,
            WorkerEnd::TimedOut => status::TIMED_OUT,
            WorkerEnd::Ended => status::ENDED,
        }
    }
}

/// Waits until a worker has ended; `None`: it has not within the time.
pub(crate) fn wait(task: &TaskFile, deadline: Deadline) -> Result<Option<WorkerEnd>> {
    let state_dir = StateDir::open()?;
    let mut lookout = Lookout::default();
    let mut standing = StableReading::new(Instant::now());
    loop {
        let watched = lookout.watch(&[task.folder(), &state_dir.sessions_path()]);
        let followed = followed(task)?;
        // We read it after the check for processes: a process that is gone cannot write later.
        let reading = task.reading()?;
        standing.note(reading.clone(), Instant::now());
        let is_over = followed.is_empty();
        let counts = standing.counts_from().filter(|_| !is_over);
        let stands = counts.is_none_or(|counts| Instant::now() >= counts);
        match reading {
            Reading::Final(state) if stands => return Ok(WorkerEnd::of(&state)),
            Reading::Absent if stands => return Err(task.missing()),
            Reading::Open if is_over => return WorkerEnd::read(task).map(Some),
            _ if deadline.has_passed() => return Ok(None),
            _ => {}
        }
        let until = counts.map_or(deadline, |counts| deadline.min(Deadline::at(counts)));
        let blind = watched.is_err() || followed.iter().any(Option::is_none);
        let until = lookout.at_the_latest(until, blind);
        let mut poll_set = PollSet::new();
        if let Some(watch) = lookout.watched() {
            poll_set.readable(watch, ());
        }
        for pidfd in followed.iter().flatten() {
            poll_set.readable(pidfd, ());
        }
        poll_set.wait(until).trying(format_args!("wait for worker '{}'", task.worker()))?;
    }
}

/// The processes whose end may be the worker's: its monitor, else its sessions' relays; `None` is one that
/// could not be opened.
fn followed(task: &TaskFile) -> Result<Vec<Option<PidFd>>> {
    let worker = task.worker();
    if let Some(monitor) = monitors()?.iter().find(|monitor| watches(monitor, worker))
        && let Some(pidfd) = monitor.hold().trying("open the monitor")?
    {
        return Ok(vec![Some(pidfd)]);
    }
    let state_dir = StateDir::open()?;
    let found = sessions::find(&state_dir, worker, &task.all_workers())?;
    if found.live.is_empty() && task.elsewhere().is_some() {
        return Ok(vec![None]);
    }
    let held = |handle| Followed::open_if_there(&state_dir, handle).transpose();
    found.live.iter().filter_map(held).map(|session| session.map(Followed::into_relay)).collect()
}
