//! A set of descriptors and events for poll(2).
//!
//! A set is built from the state of its owner, waited for once, and dropped. Nothing is registered, so
//! nothing can differ from the state. It borrows its descriptors, so none can be closed meanwhile.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::sys::deadline::Deadline;

/// A writable pipe accepts at least this many bytes without blocking (pipe(7), PIPE_BUF).
pub(crate) const PIPE_ROOM: usize = 4096;

/// Invariant: the meanings are as many as the descriptors, in one order.
pub(crate) struct PollSet<'a, Event> {
    descriptors: Vec<PollFd<'a>>,
    meanings: Vec<Readiness<Event>>,
}

/// The event for a ready descriptor, and the one for the end of its peer.
type Readiness<Event> = (Option<Event>, Option<Event>);

impl<'a, Event: Copy> PollSet<'a, Event> {
    pub(crate) fn new() -> Self {
        PollSet { descriptors: Vec::new(), meanings: Vec::new() }
    }

    pub(crate) fn readable(&mut self, descriptor: &'a impl AsFd, event: Event) {
        self.watch(descriptor.as_fd(), PollFlags::IN, Some(event), None);
    }

    pub(crate) fn writable(&mut self, descriptor: &'a impl AsFd, event: Event) {
        self.watch(descriptor.as_fd(), PollFlags::OUT, Some(event), None);
    }

    /// A socket whose peer may go at any time: when it does, or hangs up its half, `left` is an event even if
    /// we want neither to read nor to write. It stays one for ever; so without `left`, the caller knows it
    /// already.
    pub(crate) fn peer(
        &mut self,
        descriptor: &'a impl AsFd,
        read: bool,
        write: bool,
        event: Event,
        left: Option<Event>,
    ) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, read);
        flags.set(PollFlags::OUT, write);
        flags.set(PollFlags::RDHUP, left.is_some());
        self.watch(descriptor.as_fd(), flags, Some(event), left);
    }

    /// The other end of a pipe, a socket or a terminal is closed for good.
    pub(crate) fn gone(&mut self, descriptor: &'a impl AsFd, event: Event) {
        self.watch(descriptor.as_fd(), PollFlags::empty(), Some(event), None);
    }

    /// The peer of a socket has gone, or has hung up its half.
    pub(crate) fn left(&mut self, descriptor: &'a impl AsFd, event: Event) {
        self.watch(descriptor.as_fd(), PollFlags::RDHUP, None, Some(event));
    }

    /// One entry for each descriptor: poll(2) takes no more of them than we may
    /// have open.
    fn watch(
        &mut self,
        descriptor: BorrowedFd<'a>,
        flags: PollFlags,
        event: Option<Event>,
        left: Option<Event>,
    ) {
        self.meanings.push((event, left));
        self.descriptors.push(PollFd::from_borrowed_fd(descriptor, flags));
    }

    /// Waits, and returns the events that have come: none when the deadline has passed or a signal came in
    /// between. Any `revents` at all is the event, since hang-ups and errors come unasked (poll(2)).
    pub(crate) fn wait(mut self, deadline: Deadline) -> io::Result<Vec<Event>> {
        let ready = ready(&mut self.descriptors, deadline)?;
        let event = |(at, is_left): (usize, bool)| {
            let (event, left) = self.meanings[at];
            if is_left { left } else { event }
        };
        Ok(ready.into_iter().filter_map(event).collect())
    }
}

/// The places of the ready descriptors: for data, and again if the peer has gone. For all kinds of events.
fn ready(descriptors: &mut [PollFd<'_>], deadline: Deadline) -> io::Result<Vec<(usize, bool)>> {
    const GONE: PollFlags = PollFlags::RDHUP.union(PollFlags::HUP).union(PollFlags::ERR);
    let timeout = deadline.remaining().map(|remaining| Timespec {
        tv_sec: i64::try_from(remaining.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: remaining.subsec_nanos().into(),
    });
    match rustix::event::poll(descriptors, timeout.as_ref()) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut came = Vec::new();
    for (at, descriptor) in descriptors.iter().enumerate() {
        let flags = descriptor.revents();
        // Data of a peer that has gone comes first.
        if flags != (flags & PollFlags::RDHUP) {
            came.push((at, false));
        }
        if flags.intersects(GONE) {
            came.push((at, true));
        }
    }
    Ok(came)
}

/// Has the peer of a socket gone by now, or hung up its half?
pub(crate) fn has_left(socket: &impl AsFd) -> io::Result<bool> {
    let mut poll_set = PollSet::new();
    poll_set.left(socket, ());
    Ok(!poll_set.wait(Deadline::after(Duration::ZERO))?.is_empty())
}

/// Has the peer of a socket closed its end, and no other process has it open?
pub(crate) fn has_hung_up(socket: &impl AsFd) -> io::Result<bool> {
    let mut poll_set = PollSet::new();
    poll_set.gone(socket, ());
    Ok(!poll_set.wait(Deadline::after(Duration::ZERO))?.is_empty())
}

/// Can something be written to `descriptor` now?
pub(crate) fn is_writable(descriptor: &impl AsFd) -> io::Result<bool> {
    let mut poll_set = PollSet::new();
    poll_set.writable(descriptor, ());
    Ok(!poll_set.wait(Deadline::after(Duration::ZERO))?.is_empty())
}

/// Waits until `descriptor` can be read, or has ended; `false` when the
/// deadline has passed first.
pub(crate) fn wait_readable(descriptor: &impl AsFd, deadline: Deadline) -> io::Result<bool> {
    loop {
        let mut poll_set = PollSet::new();
        poll_set.readable(descriptor, ());
        if !poll_set.wait(deadline)?.is_empty() {
            return Ok(true);
        }
        if deadline.has_passed() {
            return Ok(false);
        }
    }
}
