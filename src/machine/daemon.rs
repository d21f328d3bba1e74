//! Processes in the background that a call finds by a socket, or starts.

use std::{
    fs::File,
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
    sys::{
        self, child,
        deadline::Deadline,
        files::{self, Folder},
        lock, poll,
    },
};

/// How long the start of one may take, on a machine that is busy.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// So often is one started that ends at once.
const MOST_STARTS: u32 = 3;

/// The message that it listens.
const READY: &[u8] = b"+";

/// The file of the socket of the one of that name.
pub(crate) fn socket(name: &str) -> String {
    format!("{name}.sock")
}

/// The lock file of callers that start the daemon of that name.
pub(crate) fn lock_file(name: &str) -> String {
    format!("{name}.lock")
}

/// Takes that lock. Its file may be removed by who has it: then it is another one's.
pub(crate) fn lock(folder: &Folder, name: &str, deadline: Deadline) -> io::Result<File> {
    let name = lock_file(name);
    loop {
        let lock = lock::take(folder.open_lock(&name)?, &name, lock::LockKind::Alone, deadline)?;
        if folder.still_names(&name, &lock) {
            return Ok(lock);
        }
    }
}

/// Connects to the daemon that listens as `name`.sock; `None` if there is none.
pub(crate) fn connect(folder: &Folder, name: &str, deadline: Deadline) -> io::Result<Option<UnixStream>> {
    match sys::socket::connect(folder, &socket(name), deadline) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The same, but starts one by that command if there is none. Of several concurrent callers, one
/// starts it.
pub(crate) fn connect_or_start(
    folder: &Folder,
    name: &str,
    what: &str,
    deadline: Deadline,
    start: &dyn Fn() -> Command,
) -> Result<UnixStream> {
    if let Some(stream) = connect(folder, name, deadline).trying(what)? {
        return Ok(stream);
    }
    let patience = Deadline::after(START_TIMEOUT).min(deadline);
    let lock = lock(folder, name, patience).trying(what)?;
    // Another call may have started it meanwhile.
    if let Some(stream) = connect(folder, name, deadline).trying(what)? {
        return Ok(stream);
    }
    for _ in 0..MOST_STARTS {
        // A daemon that was killed has left its socket.
        folder.remove_if_there(socket(name).as_ref()).trying(what)?;
        if become_ready(start(), &lock, patience, what)?
            && let Some(stream) = connect(folder, name, deadline).trying(what)?
        {
            return Ok(stream);
        }
    }
    Err(Failure::failed(format!("cannot {what}: it ended at once")))
}

/// Starts it, and waits until it listens; `false` if it ended without a message, as a killed one does.
///
/// Its standard input is the lock, until it listens. So if we are killed meanwhile, the next call waits
/// for it and does not start a second one.
fn become_ready(mut command: Command, lock: &File, patience: Deadline, what: &str) -> Result<bool> {
    let (mut reader, writer) = io::pipe().trying(what)?;
    let lock = lock.try_clone().trying(what)?;
    command.stdin(lock).stdout(writer).stderr(Stdio::null());
    // It is independent and outlives us, so the reaper of orphans collects it.
    let started =
        files::with_callers_umask(|| command.spawn()).map_err(child::why_not_ourselves).trying(what)?;
    drop((command, started));
    let mut said = Vec::new();
    while said != READY {
        if !poll::wait_readable(&reader, patience).trying(what)? {
            return Err(Failure::timed_out(format!("cannot {what}: it does not become ready")));
        }
        let mut buffer = [0; 4096];
        match reader.read(&mut buffer).trying(what)? {
            0 if said.is_empty() => return Ok(false),
            0 => {
                let why = String::from_utf8_lossy(&said);
                return Err(Failure::failed(format!("cannot {what}: {}", why.trim_start_matches('-'))));
            }
            count => said.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(true)
}

/// For the one that was started: listens, says so, and lets go of what it was started with.
pub(crate) fn listen(folder: &Folder, name: &str) -> io::Result<UnixListener> {
    let listener = sys::socket::listen(folder, &socket(name))?;
    child::write_stdout(READY)?;
    let null: OwnedFd = File::options().read(true).write(true).open("/dev/null")?.into();
    child::point_standard_streams_at(&null)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starting_daemon_keeps_the_lock_when_its_starter_has_ended() {
        let root = std::env::temp_dir().join(format!("nbs-daemon-{:x}", fastrand::u64(..)));
        std::fs::create_dir(&root).unwrap();
        let folder = Folder::open(&root).unwrap();
        let start = || {
            let mut command = Command::new("sh");
            command.args(["-c", "read -r word <go; exit 0"]).current_dir(&root);
            command
        };
        assert!(Command::new("mkfifo").arg(root.join("go")).status().unwrap().success());
        let soon = Deadline::after(Duration::from_millis(300));
        assert!(connect_or_start(&folder, "x", "start", soon, &start).is_err());
        let taken = lock(&folder, "x", Deadline::after(Duration::from_millis(1))).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::TimedOut);
        std::fs::write(root.join("go"), "\n").unwrap();
        lock(&folder, "x", Deadline::after(START_TIMEOUT)).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
    }
}
