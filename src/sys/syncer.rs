//! The thread that syncs a file to the disk.
//!
//! The kernel has no way to sync without waiting for the disk, so this is the
//! one thread of nbs. Requests that come while a sync is under way are one
//! request: however fast the file grows, the disk is busy, and nobody waits.

use std::{
    fs::File,
    io,
    sync::mpsc::{self, SyncSender},
    thread::{self, JoinHandle},
};

pub(crate) struct Syncer {
    // Invariant: `None` only while dropped.
    requests: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// It calls fdatasync(2) and sleeps; this is the least that musl and glibc take.
const STACK: usize = 32 * 1024;

impl Syncer {
    /// Starts the thread; `file` is its own, a clone of the one written to.
    pub(crate) fn start(file: File) -> io::Result<Syncer> {
        let (requests, received) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("sync".into()).stack_size(STACK).spawn(move || {
            while received.recv().is_ok() {
                // An error here would be the disk's; the next write will tell.
                let _ = rustix::fs::fdatasync(&file);
            }
        })?;
        Ok(Syncer { requests: Some(requests), thread: Some(thread) })
    }

    /// Asks for a sync of all that has been written so far; does not wait.
    pub(crate) fn request(&self) {
        if let Some(requests) = &self.requests {
            // Full means that a sync which is yet to begin will cover this.
            let _ = requests.try_send(());
        }
    }
}

impl Drop for Syncer {
    /// Waits for the last sync.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by the thread.
            let _ = thread.join();
        }
    }
}
