//! Locks on files, and waiting for one with a deadline.
//!
//! flock(2) waits without a limit, and no event reports that a lock was released. So a thread waits
//! for it. It has a copy of the descriptor and shares nothing else. The lock belongs to the open file,
//! so the lock that it takes is ours as well. If we give up, the thread waits on until our process
//! ends.

use std::{
    fs::{File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use rustix::fs::{major, minor};

use crate::sys::{deadline::Deadline, processes};

/// It makes one system call; this is the least that musl and glibc take.
const STACK: usize = 32 * 1024;

/// Whether others may hold it at the same time.
#[derive(Clone, Copy)]
pub(crate) enum LockKind {
    Alone,
    Shared,
}

impl LockKind {
    fn try_lock(self, file: &File) -> Result<(), TryLockError> {
        match self {
            LockKind::Alone => file.try_lock(),
            LockKind::Shared => file.try_lock_shared(),
        }
    }

    fn lock(self, file: &File) -> io::Result<()> {
        match self {
            LockKind::Alone => file.lock(),
            LockKind::Shared => file.lock_shared(),
        }
    }
}

/// Locks a file, known as `name`, for as long as it is open.
pub(crate) fn take(file: File, name: &str, kind: LockKind, deadline: Deadline) -> io::Result<File> {
    wait(&file, name, kind, deadline)?;
    Ok(file)
}

/// Waits until we have locked a file. If another process keeps it locked until the deadline, this is a
/// `TimedOut` error that names the process.
pub(crate) fn wait(file: &File, name: &str, kind: LockKind, deadline: Deadline) -> io::Result<()> {
    if is_taken(file, kind, deadline)? {
        return Ok(());
    }
    let holder = holder(file);
    let who = if let Some(pid) = &holder { format!("process {pid}") } else { "another process".to_owned() };
    let stopped = holder.map(processes::stopped).unwrap_or_default();
    let why = format!("{who} has '{name}' locked{stopped}");
    Err(io::Error::new(io::ErrorKind::TimedOut, why))
}

fn is_taken(file: &File, kind: LockKind, deadline: Deadline) -> io::Result<bool> {
    match kind.try_lock(file) {
        Ok(()) => return Ok(true),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let Some(time) = deadline.remaining() else { return kind.lock(file).map(|()| true) };
    let copy = file.try_clone()?;
    let came = Arc::new((Mutex::new(None), Condvar::new()));
    let told = Arc::clone(&came);
    let wait = move || {
        let locked = kind.lock(&copy);
        *unpoisoned(told.0.lock()) = Some(locked);
        told.1.notify_one();
    };
    thread::Builder::new().name("lock".into()).stack_size(STACK).spawn(wait)?;
    let (locked, news) = &*came;
    let waited = news.wait_timeout_while(unpoisoned(locked.lock()), time, |locked| locked.is_none());
    unpoisoned(waited).0.take().map_or(Ok(false), |locked| locked.map(|()| true))
}

/// The data is consistent at any time, even if a thread panicked, which is only possible in a build
/// that unwinds.
pub(crate) fn unpoisoned<T>(locked: Result<T, PoisonError<T>>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// The PID of a process that has a file locked, where the kernel shows one (proc_locks(5)).
fn holder(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let (device, inode) = (metadata.dev(), metadata.ino());
    let ours = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        // The line of a waiting process has an arrow before that word.
        [_, "FLOCK", _, _, pid, file, ..] if file == ours => pid.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, time::Duration};

    #[test]
    fn a_lock_is_waited_for_until_it_is_given_back_or_the_time_is_over() {
        let path = std::env::temp_dir().join(format!("nbs-lock-{:x}", fastrand::u64(..)));
        let [one, two, three] =
            [(); 3].map(|()| File::options().write(true).create(true).truncate(false).open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let far = Deadline::after(Duration::from_secs(1_000));
        let soon = Deadline::after(Duration::from_millis(1));
        let ours = format!("process {} has 'it' locked", std::process::id());
        let one = take(one, "it", LockKind::Alone, soon).unwrap();
        let refused = take(three, "it", LockKind::Shared, soon).unwrap_err();
        assert_eq!((refused.kind(), refused.to_string()), (io::ErrorKind::TimedOut, ours));
        let (begun, waits) = mpsc::channel();
        let waiting = thread::spawn(move || {
            begun.send(()).unwrap();
            take(two, "it", LockKind::Shared, far)
        });
        waits.recv().unwrap();
        drop(one);
        waiting.join().unwrap().unwrap();
    }
}
