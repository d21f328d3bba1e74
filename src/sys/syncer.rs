//! The thread that syncs a file to the disk.
//!
//! The kernel cannot sync without blocking, so a thread does it, started on the first request.
//! Requests during a sync, or shortly after the first, are merged. So however fast the file grows,
//! nothing waits for it, and most of the time the disk is free for writing.
//!
//! A later success does not repair a failed sync: the kernel reports an error once, and data that
//! could not be written then may never be (fsync(2)). So the first failure is kept.

use std::{
    fs::File,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::sys::lock::unpoisoned;

pub(crate) struct Syncer {
    // Shared with the thread, and so no descriptor more.
    shared: Arc<Shared>,
    // `None` until there is something to sync, and while dropped.
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    file: File,
    failure: OnceLock<String>,
    orders: Mutex<Orders>,
    // Signals that there are orders after there were none, and the end.
    given: Condvar,
}

#[derive(Default)]
struct Orders {
    // All that has been written so far is to be synced.
    sync: bool,
    // Nothing more will come.
    over: bool,
}

/// It calls fdatasync(2) and sleeps; this is the least that musl and glibc take.
const STACK: usize = 32 * 1024;

/// The delay between a request and its sync. Syncing a file that grows also writes the file system's
/// journal. That takes processor and disk from the program that prints, and delays changes of files in
/// the directory, such as those of a reader that waited for the output. A crash of the machine loses
/// at most this much more.
const PAUSE: Duration = Duration::from_millis(20);

impl Syncer {
    /// `file` is its own, a clone of the one written to.
    pub(crate) fn new(file: File) -> Syncer {
        let shared =
            Shared { file, failure: OnceLock::new(), orders: Mutex::default(), given: Condvar::new() };
        Syncer { shared: Arc::new(shared), thread: None }
    }

    /// Why something that was written may not be on the disk, though it was synced.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    /// Asks for a sync of all that has been written so far; does not wait. An
    /// error is that of starting the thread.
    pub(crate) fn request(&mut self) -> io::Result<()> {
        if self.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("sync".into()).stack_size(STACK);
            self.thread = Some(thread.spawn(move || shared.sync_until_over())?);
        }
        let mut orders = self.shared.orders();
        // A sync that is yet to begin will cover this.
        if !std::mem::replace(&mut orders.sync, true) {
            drop(orders);
            self.shared.given.notify_one();
        }
        Ok(())
    }
}

impl Shared {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        unpoisoned(self.orders.lock())
    }

    fn sync_until_over(&self) {
        let mut orders = self.orders();
        loop {
            orders = unpoisoned(self.given.wait_while(orders, |orders| !orders.sync && !orders.over));
            if !orders.sync {
                return;
            }
            orders = unpoisoned(self.given.wait_timeout_while(orders, PAUSE, |orders| !orders.over)).0;
            // A request from here on needs another sync.
            orders.sync = false;
            drop(orders);
            if let Err(error) = rustix::fs::fdatasync(&self.file) {
                self.failure.get_or_init(|| io::Error::from(error).to_string());
            }
            orders = self.orders();
        }
    }
}

impl Drop for Syncer {
    /// Waits for the last sync.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.orders().over = true;
            self.shared.given.notify_one();
            // An error is a panic, which the thread has reported, if we are still here.
            let _ = thread.join();
        }
    }
}
