//! The thread that syncs a file to the disk.
//!
//! The kernel has no way to sync without waiting for the disk, so this is the
//! one thread of nbs. Requests that come while a sync is under way are one
//! request: however fast the file grows, the disk is busy, and nobody waits.
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
};

pub(crate) struct Syncer {
    // Invariant: `None` only while dropped.
    requests: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<OnceLock<String>>,
}

/// It calls fdatasync(2) and sleeps; this is the least that musl and glibc take.
const STACK: usize = 32 * 1024;

impl Syncer {
    /// Starts the thread; `file` is its own, a clone of the one written to.
    pub(crate) fn start(file: File) -> io::Result<Syncer> {
        let (requests, received) = mpsc::sync_channel(1);
        let failure = Arc::new(OnceLock::new());
        let first = failure.clone();
        let thread = thread::Builder::new().name("sync".into()).stack_size(STACK).spawn(move || {
            while received.recv().is_ok() {
                if let Err(error) = rustix::fs::fdatasync(&file) {
                    first.get_or_init(|| io::Error::from(error).to_string());
                }
            }
        })?;
        Ok(Syncer { requests: Some(requests), thread: Some(thread), failure })
    }

    /// Why something that was written may not be on the disk, though it was synced.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    #[test]
    fn a_sync_that_failed_is_known() {
        // What is written to a pipe reaches no disk.
        let (_reader, writer) = io::pipe().unwrap();
        let syncer = Syncer::start(File::from(OwnedFd::from(writer))).unwrap();
        assert_eq!(syncer.failure(), None);
        syncer.request();
        while syncer.failure().is_none() {
            thread::yield_now();
        }
        assert!(syncer.failure().is_some_and(|why| why.contains("os error")));
    }
}
