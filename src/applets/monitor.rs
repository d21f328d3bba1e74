//! monitor - watches over a worker
//!
//! An internal role. `spawn-worker` starts `nbs-monitor WORKER ROOT STARTUP TIMEOUT`, times in
//! milliseconds, with a socket as standard input. The monitor writes `+` and the path of its log
//! there, or `-` and why it failed. Then it reads `+` when the agent is about to start.

use std::{ffi::OsString, path::Path, time::Duration};

use crate::{
    cli::{self, Args},
    outcome::{Result, Trying},
    session::MONITOR,
    sys::{child, inherited},
    worker::{Monitor, TaskFile, WorkerHandle, WorkerLimits},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [worker, root, startup, timeout] = &words[..] else { return Err(cli::by_hand()) };
    let worker = WorkerHandle::parse(worker.as_encoded_bytes()).ok_or_else(cli::by_hand)?;
    let limits = WorkerLimits { startup: milliseconds(startup)?, timeout: milliseconds(timeout)? };
    inherited::shed().trying("close inherited descriptors")?;
    let word = cli::socket_on_stdin()?;
    child::leave_session_as(MONITOR).trying("become a process of its own")?;
    Monitor::prepare(TaskFile::of(Path::new(root), worker), limits, word)?.run()
}

fn milliseconds(word: &OsString) -> Result<Duration> {
    let digits = word.to_str().and_then(|digits| digits.parse().ok());
    digits.map(Duration::from_millis).ok_or_else(cli::by_hand)
}
