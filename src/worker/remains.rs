//! The processes of a worker besides its sessions: its agent, and what that started.
//!
//! Only a worker in the foreground ends them: it is a job, and a job leaves nothing when it is over.

use std::{env, io};

use crate::{
    outcome::{Result, Trying},
    session::{MONITOR, SESSION_ENV, end_found},
    sys::processes::{self, Process},
    worker::{WorkerHandle, launch::HANDLE_ENV},
};

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
    end_found(&find).and_then(none_left).trying(format_args!("end what worker '{worker}' has started"))
}

/// Ends all that descends from us.
pub(crate) fn end_descendants() -> Result<()> {
    let find = || processes::descendants(std::process::id(), &|_| true);
    end_found(&find).and_then(none_left).trying("end what the worker has started")
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
