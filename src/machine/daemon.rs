//! Processes in the background that a call finds by a socket, or starts.

use std::{
    io::{self, Read},
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    outcome::{Failure, Result, Trying},
    sys::{child, deadline::Deadline, files::Folder, lock, poll, socket},
};

/// How long the start of one may take, on a machine that is busy.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// What it says when it listens.
const READY: &[u8] = b"+";

/// Connects to the one that listens as `name`.sock; `None` where there is none.
pub(crate) fn connect(folder: &Folder, name: &str, deadline: Deadline) -> io::Result<Option<UnixStream>> {
    match socket::connect(folder, &format!("{name}.sock"), deadline) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The same, but starts one by that command where there is none; of several callers at the
/// same time, one does.
pub(crate) fn connect_or_start(
    folder: &Folder,
    name: &str,
    what: &str,
    deadline: Deadline,
    start: impl FnOnce() -> Command,
) -> Result<UnixStream> {
    if let Some(stream) = connect(folder, name, deadline).trying(what)? {
        return Ok(stream);
    }
    let lock_name = format!("{name}.lock");
    let lock = folder.open_lock(&lock_name).trying(what)?;
    let patience = Deadline::after(START_TIMEOUT).min(deadline);
    let _lock = lock::take(lock, &lock_name, lock::LockKind::Alone, patience).trying(what)?;
    // Another call may have started it meanwhile.
    if let Some(stream) = connect(folder, name, deadline).trying(what)? {
        return Ok(stream);
    }
    // What has ended without a word has left its socket.
    match folder.remove_file(format!("{name}.sock").as_ref()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).trying(what),
        _ => {}
    }
    let (mut reader, writer) = io::pipe().trying(what)?;
    let mut command = start();
    command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
    // It goes its own way, and outlives us: nobody need collect it, but whoever gets orphans.
    let started = command.spawn().map_err(child::why_not_ourselves).trying(what)?;
    drop((command, started));
    let mut said = Vec::new();
    while said != READY {
        if !poll::wait_readable(&reader, patience).trying(what)? {
            return Err(Failure::TimedOut(format!("cannot {what}: it does not get ready")));
        }
        let mut buffer = [0; 4096];
        match reader.read(&mut buffer).trying(what)? {
            0 => {
                let why = String::from_utf8_lossy(&said);
                let why = if why.is_empty() { "it ended at once" } else { why.trim_start_matches('-') };
                return Err(Failure::Failed(format!("cannot {what}: {why}")));
            }
            count => said.extend_from_slice(&buffer[..count]),
        }
    }
    connect(folder, name, deadline)
        .trying(what)?
        .ok_or_else(|| Failure::Failed(format!("cannot {what}: it ended at once")))
}

/// For the one that was started: listens, says so, and lets go of what it was started with.
pub(crate) fn listen(folder: &Folder, name: &str) -> io::Result<UnixListener> {
    let listener = socket::listen(folder, &format!("{name}.sock"))?;
    child::write_stdout(READY)?;
    let null: OwnedFd = std::fs::File::options().read(true).write(true).open("/dev/null")?.into();
    child::point_standard_streams_at(&null)?;
    Ok(listener)
}
