//! The sessions of a worker: found by its handle in their names, and held on to.

use std::{io, time::Duration};

use crate::{
    outcome::{Reason, Result, Trying},
    session::{self, EndedBy, Handle, ListEntry, Name, OutputLog, Piece, StateDir, Target},
    sys::{
        deadline::Deadline,
        poll,
        processes::{PidFd, Process},
    },
    worker::{TaskFile, WorkerHandle, launch::HANDLE_ENV},
};

/// A live session of a worker.
pub(crate) struct Followed {
    pub(crate) handle: Handle,
    // Its PID and pidfd; `None` if it could not be opened for lack of descriptors.
    relay: Option<(u32, PidFd)>,
    // Open, so that what was printed can be read when the session is removed; `None` as before.
    log: Option<OutputLog>,
}

/// Those that a look has found.
#[derive(Default)]
pub(crate) struct WorkerSessions {
    pub(crate) live: Vec<Handle>,
    pub(crate) dead: Vec<Handle>,
}

/// The sessions whose names say that they are this worker's; `workers` are all
/// of its project.
pub(crate) fn find(
    state_dir: &StateDir,
    worker: &WorkerHandle,
    workers: &[WorkerHandle],
) -> Result<WorkerSessions> {
    let is_its = |name: Option<&Name>| name.is_some_and(|name| worker.owns(name, workers));
    let (live, dead): (Vec<_>, Vec<_>) =
        state_dir.glances(&is_its)?.into_iter().partition(|glance| glance.alive);
    let handles = |glances: Vec<ListEntry>| glances.into_iter().map(|glance| glance.handle).collect();
    Ok(WorkerSessions { live: handles(live), dead: handles(dead) })
}

/// The live sessions that were created by descendants of the worker, whatever their names.
pub(crate) fn born_of(state_dir: &StateDir, worker: &WorkerHandle) -> Result<Vec<Handle>> {
    let handle = format!("{HANDLE_ENV}={worker}");
    let is_its = |session: &Handle| {
        let session = state_dir.session(&Target::Handle(session.clone())).ok();
        let relay = session.and_then(|session| session.hold_relay().ok()?);
        relay
            .and_then(|(pid, _)| Process::read(pid))
            .is_some_and(|relay| relay.had_in_environment(handle.as_bytes()))
    };
    let live = state_dir.glances(&|_| true)?.into_iter().filter(|glance| glance.alive);
    Ok(live.map(|glance| glance.handle).filter(is_its).collect())
}

impl Followed {
    pub(crate) fn open(state_dir: &StateDir, handle: &Handle) -> Result<Followed> {
        let session = state_dir.session(&Target::Handle(handle.clone()))?;
        let relay = session.hold_relay().ok().flatten();
        Ok(Followed { handle: handle.clone(), relay, log: session.log().ok() })
    }

    /// `None`: it has been removed.
    pub(crate) fn open_if_there(state_dir: &StateDir, handle: &Handle) -> Result<Option<Followed>> {
        match Followed::open(state_dir, handle) {
            Ok(session) => Ok(Some(session)),
            Err(failure) if failure.is(Reason::NotFound) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Readable once its relay has ended; `None` if that must be polled.
    pub(crate) fn relay(&self) -> Option<&PidFd> {
        self.relay.as_ref().map(|(_, pidfd)| pidfd)
    }

    pub(crate) fn into_relay(self) -> Option<PidFd> {
        self.relay.map(|(_, pidfd)| pidfd)
    }

    /// Has its relay ended? If that is unknown, no.
    pub(crate) fn has_ended(&self) -> bool {
        let ended = |relay| poll::wait_readable(relay, Deadline::after(Duration::ZERO)).unwrap_or(false);
        self.relay().is_some_and(ended)
    }

    /// Ends it, saves its output beside the task file, and removes it. If the output cannot be saved,
    /// as on a full disk, it is not removed.
    pub(crate) fn end(&self, cause: EndedBy, task: &TaskFile) -> Result<()> {
        let state_dir = StateDir::open();
        let session = state_dir.as_ref().ok().and_then(|state_dir| state_dir.session(&self.target()).ok());
        let cause = match (&session, &self.relay) {
            (Some(session), _) => session::end_wholly(session, session::GRACE, cause)?,
            // All that is left to act on is its relay.
            (None, Some((pid, pidfd))) => {
                session::end_without_folder(&self.handle, *pid, pidfd)?;
                cause
            }
            (None, None) => cause,
        };
        self.keep_output(task)?;
        state_dir?.remove(&self.handle, cause)
    }

    fn target(&self) -> Target {
        Target::Handle(self.handle.clone())
    }

    pub(crate) fn keep_output(&self, task: &TaskFile) -> Result<()> {
        let opened;
        let log = match &self.log {
            Some(log) => log,
            // There were no descriptors for it.
            None => match StateDir::open()?.session(&self.target()) {
                Ok(session) => {
                    opened = session.log()?;
                    &opened
                }
                Err(failure) if failure.is(Reason::NotFound) => return Ok(()),
                Err(failure) => return Err(failure),
            },
        };
        let copied = || -> io::Result<()> {
            let mut output = task.output()?;
            let mut pieces = log.pieces(0, log.length()?);
            while let Some(piece) = pieces.next()? {
                if let Piece::Bytes(block) = piece {
                    io::Write::write_all(&mut output, block)?;
                }
            }
            Ok(())
        };
        copied().trying(format_args!("keep the output of session '{}'", self.handle))
    }
}
