//! The thread that syncs a file to the disk.
//!
//! The kernel has no way to sync without waiting for the disk, so this is the
//! one thread of nbs, started when there is something to sync. Requests that come
//! while a sync is under way, or shortly after the first, are one request: however fast
//! the file grows, nobody waits, and most of the time the disk is free for writing.
//!
//! A sync that failed is not made good by one that succeeds: the kernel tells an
//! error once, and what could not be written to the disk then never may be
//! (fsync(2)). So the first failure stands.

use std::{
    fs::File,
    io,
    sync::{
        Arc, OnceLock,
        mpsc::{self, SyncSender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

pub(crate) struct Syncer {
    // Shared with the thread, and so no descriptor more.
    file: Arc<File>,
    failure: Arc<OnceLock<String>>,
    // `None` until there is something to sync, and while dropped.
    running: Option<Running>,
}

struct Running {
    requests: SyncSender<()>,
    // Nothing is ever sent: that it is closed ends the pause.
    going_on: SyncSender<()>,
    thread: JoinHandle<()>,
}

/// It calls fdatasync(2) and sleeps; this is the least that musl and glibc take.
const STACK: usize = 32 * 1024;

/// How long after a request its sync begins. A sync of a file that grows writes the
/// file system's journal too: it takes processor and disk from who prints, and holds
/// up who changes files in the folder, as those do who have waited for what was
/// printed. A crash of the machine loses this much more at most.
const PAUSE: Duration = Duration::from_millis(20);

impl Syncer {
    /// `file` is its own, a clone of the one written to.
    pub(crate) fn new(file: File) -> Syncer {
        Syncer { file: Arc::new(file), failure: Arc::default(), running: None }
    }

    /// Why something that was written may not be on the disk, though it was synced.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Asks for a sync of all that has been written so far; does not wait. An
    /// error is that of starting the thread.
    pub(crate) fn request(&mut self) -> io::Result<()> {
        if self.running.is_none() {
            self.running = Some(start(Arc::clone(&self.file), Arc::clone(&self.failure))?);
        }
        if let Some(running) = &self.running {
            // Full means that a sync which is yet to begin will cover this.
            let _ = running.requests.try_send(());
        }
        Ok(())
    }
}

fn start(file: Arc<File>, failure: Arc<OnceLock<String>>) -> io::Result<Running> {
    let (requests, received) = mpsc::sync_channel(1);
    let (going_on, over) = mpsc::sync_channel::<()>(0);
    let thread = thread::Builder::new().name("sync".into()).stack_size(STACK).spawn(move || {
        while received.recv().is_ok() {
            // Nothing ever comes: it is the time that is waited for, or our end.
            let _ = over.recv_timeout(PAUSE);
            // What is asked for from here on is another sync.
            let _ = received.try_recv();
            if let Err(error) = rustix::fs::fdatasync(&file) {
                failure.get_or_init(|| io::Error::from(error).to_string());
            }
        }
    })?;
    Ok(Running { requests, going_on, thread })
}

impl Drop for Syncer {
    /// Waits for the last sync.
    fn drop(&mut self) {
        if let Some(Running { requests, going_on, thread }) = self.running.take() {
            drop((requests, going_on));
            // A panic of the thread has been reported by the thread.
            let _ = thread.join();
        }
    }
}
