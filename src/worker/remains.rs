//! The processes of a worker besides its sessions: its agent, and what that started.
//!
//! Only a worker in the foreground ends them: it is a job, and a job leaves nothing when it is over.

use std::{env, io, time::Duration};

use crate::{
    outcome::{Result, Trying},
    session::{GRACE, MONITOR, SESSION_ENV},
    sorted::Set,
    sys::{
        deadline::Deadline,
        poll::PollSet,
        processes::{self, PidFd, Process},
        signals::{SIGCONT, SIGKILL, SIGTERM},
    },
    worker::{WorkerHandle, launch::HANDLE_ENV},
};

/// How long one of our own may take, as the monitor of a worker of the worker, which
/// has sessions to end; and a killed process, to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends processes that have the worker's handle in their environment and are in none of its sessions.
pub(crate) fn end_bearers_outside(worker: &WorkerHandle) -> Result<()> {
    // Its sessions are others than the one that we may be in.
    let ours = env::var_os(SESSION_ENV).map(|session| session.into_encoded_bytes());
    end_bearers(worker, &|process| {
        process.variables([SESSION_ENV])[0] == ours || process.name == MONITOR && process.runs_our_file()
    })
}

/// Ends all processes that carry the handle. The sessions have been ended before, so a remaining one
/// belongs to a session that was not visible yet.
pub(crate) fn end_all_bearers(worker: &WorkerHandle) -> Result<()> {
    end_bearers(worker, &|_| true)
}

fn end_bearers(worker: &WorkerHandle, belongs: &dyn Fn(&Process) -> bool) -> Result<()> {
    let handle = format!("{HANDLE_ENV}={worker}");
    let is_its = |process: &Process| {
        process.had_in_environment(handle.as_bytes()) && process.is_of_our_user() && belongs(process)
    };
    let find = || Ok(processes::all()?.into_iter().filter(is_its).collect());
    end(&find).and_then(none_left).trying(format_args!("end what worker '{worker}' has started"))
}

/// Ends all that descends from us.
pub(crate) fn end_descendants() -> Result<()> {
    let find = || processes::descendants(std::process::id(), &|_| true);
    end(&find).and_then(none_left).trying("end what the worker has started")
}

/// Does a process other than this one descend from us?
pub(crate) fn has_descendants_but(pid: u32) -> bool {
    let is_other = |process: &Process| process.pid != pid && !process.has_ended();
    processes::descendants(std::process::id(), &|_| true).is_ok_and(|found| found.iter().any(is_other))
}

fn none_left(left: Vec<Process>) -> io::Result<()> {
    let shown: Vec<String> =
        left.iter().map(|process| format!("{} ({})", process.pid, process.name)).collect();
    match shown.is_empty() {
        true => Ok(()),
        false => Err(io::Error::other(format!("still there: {}", shown.join(", ")))),
    }
}

/// Sends SIGTERM, then SIGKILL after [`GRACE`] to those that are left; our own processes have longer.
/// Returns the survivors.
fn end(find: &dyn Fn() -> io::Result<Vec<Process>>) -> io::Result<Vec<Process>> {
    let (grace, patience) = (Deadline::after(GRACE), Deadline::after(PATIENCE));
    let last = Deadline::after(2 * PATIENCE);
    let mut asked = Set::new();
    loop {
        let left: Vec<Process> = find()?.into_iter().filter(|process| !process.has_ended()).collect();
        if left.is_empty() || last.has_passed() {
            return Ok(left);
        }
        let mut held: Vec<PidFd> = Vec::new();
        for process in &left {
            let Some(pidfd) = process.hold()? else { continue };
            // A process that we may not signal is among the survivors.
            if asked.insert(process.pid) {
                let _ = pidfd.signal(SIGTERM);
                // A stopped process gets no signal but this and SIGKILL.
                let _ = pidfd.signal(SIGCONT);
            } else if patience.has_passed() || grace.has_passed() && !process.runs_our_file() {
                let _ = pidfd.signal(SIGKILL);
            }
            held.push(pidfd);
        }
        let next = [grace, patience, last].into_iter().find(|deadline| !deadline.has_passed());
        let mut poll_set = PollSet::new();
        for pidfd in &held {
            poll_set.readable(pidfd, ());
        }
        poll_set.wait(next.unwrap_or(last))?;
    }
}
