//! A worker in the foreground: a job, whose process is the call that waits for it.
//!
//! That process starts the monitor, which ends the sessions as for any worker, and watches it all the
//! time: if the process ends, by whatever signal, the worker ends. It is also the subreaper of
//! everything that the worker starts. So a job is one tree of processes, by which schedulers account
//! and kill. As the first process of a container it also reaps orphans.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    outcome::{Failure, Result, Trying},
    session::StateDir,
    sys::{
        child::{self, ExitStatus},
        deadline::Deadline,
        poll::PollSet,
        signals::{self, SIGCHLD, Signals},
    },
    worker::{TaskFile, Watched, WorkerEnd, WorkerLimits, remains, sessions},
};

/// How long the sessions of a worker may take to end, once it is over. Less than
/// schedulers wait before they kill, which is 30 s mostly.
const ENDING: Duration = Duration::from_secs(20);

/// How often a monitor that was killed is replaced.
const MONITORS: usize = 3;

pub(crate) struct ForegroundJob {
    // Each by itself, for which it was is our exit code.
    stop: Vec<(i32, Signals)>,
    children: Signals,
    told: Option<i32>,
    // Do orphans come to us?
    adopts: bool,
}

impl ForegroundJob {
    /// From here on we do not end before the worker has.
    pub(crate) fn prepare() -> Result<ForegroundJob> {
        let stop = signals::to_end().iter();
        let stop = stop.map(|signal| Ok((*signal, Signals::catch(&[*signal]).trying("catch signals")?)));
        Ok(ForegroundJob {
            stop: stop.collect::<Result<_>>()?,
            children: Signals::catch(&[SIGCHLD]).trying("catch signals")?,
            told: None,
            // Without it we find processes by the worker's handle in their environment.
            adopts: child::adopt_orphans().is_ok(),
        })
    }

    /// Has a signal told us to end?
    pub(crate) fn is_told(&mut self) -> bool {
        for (signal, signals) in &mut self.stop {
            if signals.take() {
                self.told = self.told.or(Some(*signal));
            }
        }
        self.told.is_some()
    }

    /// The error to print in that case.
    pub(crate) fn told(&self, task: &TaskFile) -> Option<Failure> {
        let signal = self.told?;
        Some(Failure::status(
            u8::try_from(128 + signal).unwrap_or(u8::MAX),
            "interrupted",
            Some(format!(
                "worker '{}' was ended by {}; see '{}'",
                task.worker(),
                signals::name(signal),
                task.path().display()
            )),
        ))
    }

    /// Waits until the worker has ended, and nothing of it is left.
    pub(crate) fn wait(
        &mut self,
        root: &Path,
        task: &TaskFile,
        limits: WorkerLimits,
        mut monitor: Watched,
    ) -> Result<WorkerEnd> {
        let begun = Instant::now();
        let startup = Deadline::after(limits.startup);
        // When it ought to be over by: a monitor may have been stopped.
        let mut over = Deadline::after(limits.timeout.saturating_add(ENDING));
        let (mut monitors, mut stops) = (1, false);
        loop {
            let is_told = self.is_told();
            if !stops && (is_told || startup.has_passed() && self.is_forsaken(task, monitor.pid())?) {
                stops = true;
                monitor.stop(!is_told);
                over = over.min(Deadline::after(ENDING));
            }
            if let Some(ended) = collect(monitor.pid())? {
                if !matches!(ended, ExitStatus::Signal(_)) || monitors == MONITORS {
                    break;
                }
                // It was killed: another one goes on.
                monitors += 1;
                let timeout = limits.timeout.saturating_sub(begun.elapsed());
                monitor =
                    Watched::start(root, task, WorkerLimits { timeout, ..limits }, monitor.profile.as_ref())?;
                monitor.go_in_foreground()?;
                monitor.started(true);
                stops = false;
                continue;
            }
            if over.has_passed() {
                break;
            }
            let mut poll_set = PollSet::new();
            for (_, signals) in &self.stop {
                poll_set.readable(signals, ());
            }
            poll_set.readable(&self.children, ());
            let until = if startup.has_passed() { over } else { over.min(startup) };
            poll_set.wait(until).trying("wait for the worker")?;
            self.children.take();
        }
        if self.adopts {
            remains::end_descendants()?;
        }
        Ok(match WorkerEnd::read(task)? {
            // Its monitor was stopped, or killed too often.
            WorkerEnd::Lost if begun.elapsed() >= limits.timeout => WorkerEnd::TimedOut,
            end => end,
        })
    }

    /// Can no process do the task any more: no session, and nothing that was started?
    fn is_forsaken(&self, task: &TaskFile, monitor: u32) -> Result<bool> {
        if !self.adopts || remains::has_descendants_but(monitor) {
            return Ok(false);
        }
        let found = sessions::find(&StateDir::open()?, task.worker(), &task.all_workers())?;
        Ok(found.live.is_empty())
    }
}

/// Reaps all ended children, and returns the status of this one.
fn collect(monitor: u32) -> Result<Option<ExitStatus>> {
    let mut ended = None;
    while let Some((pid, status)) = child::collect().trying("collect a child")? {
        if pid == monitor {
            ended = Some(status);
        }
    }
    Ok(ended)
}
