//! Drops what our caller left open by accident, at once, and checks what it closed.
//!
//! A shell passes more to its children than they need: the lock that it took with `flock 9`, the pipe
//! of a process substitution, blocked signals. If a process of ours that outlives the call kept these,
//! the lock and the pipe would live as long as a session.

use std::{
    env, fs, io,
    os::{
        fd::{AsFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
        unix::net::UnixListener,
    },
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    io::Errno,
};

use crate::sys::socket;

/// Have we the rights of another user than our caller, because our file has the bit for that (execve(2))?
/// Nothing here is made for that.
pub(crate) fn is_setuid() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    getuid() != geteuid() || getgid() != getegid()
}

static HAD_NO_STDOUT: AtomicBool = AtomicBool::new(false);

/// Fails (EBADF) if our caller closed standard output (`>&-`). Output would then be lost silently,
/// because /dev/null is open in its place. Python's `subprocess.DEVNULL` and daemon(3) open it on purpose.
pub(crate) fn check_stdout() -> io::Result<()> {
    if HAD_NO_STDOUT.load(Ordering::Relaxed) { Err(Errno::BADF.into()) } else { Ok(()) }
}

/// Opens /dev/null in place of each standard stream that our caller closed, so that no file of ours gets
/// its number. To be called before anything is open.
pub(crate) fn open_closed_streams() -> io::Result<()> {
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let mut all = streams.each_ref().map(|stream| PollFd::new(stream, PollFlags::empty()));
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_closed = match rustix::event::poll(&mut all, Some(&now)) {
        Ok(_) => all.map(|stream| stream.revents().contains(PollFlags::NVAL)),
        // The limit of descriptors is below three (poll(2)), or a signal came.
        Err(_) => streams.map(|stream| rustix::io::fcntl_getfd(stream) == Err(Errno::BADF)),
    };
    HAD_NO_STDOUT.store(is_closed[1], Ordering::Relaxed);
    for _ in is_closed.iter().filter(|is_closed| **is_closed) {
        // It gets the lowest number that is free.
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let _ = rustix::fs::open("/dev/null", flags, Mode::empty())?.into_raw_fd();
    }
    Ok(())
}

/// Closes every descriptor from 3 up, stops ignoring three signals, and lets
/// every signal through again that our caller has blocked: a mask outlives
/// exec(3), and std leaves it as it is. To be called first thing, before anything
/// of our own is open: `main` has opened nothing by then.
pub(crate) fn shed() -> io::Result<()> {
    // The three that the library for signals refuses to touch.
    shed_with(&[libc::SIGILL, libc::SIGFPE, libc::SIGSEGV])
}

/// The same for a process that is about to become a program by exec(3), which leaves an ignored signal
/// ignored: none is from here on.
pub(crate) fn shed_for_exec() -> io::Result<()> {
    /// The highest real-time signal number of Linux (signal(7)).
    const HIGHEST: i32 = 64;
    // The kernel rejects signals that cannot be ignored, and the C library rejects a few that it uses
    // itself.
    shed_with(&(1..=HIGHEST).collect::<Vec<i32>>())
}

fn shed_with(no_longer_ignored: &[i32]) -> io::Result<()> {
    const FIRST: libc::c_ulong = 3;
    const LAST: libc::c_ulong = libc::c_uint::MAX as libc::c_ulong;
    const NO_FLAGS: libc::c_ulong = 0;
    #[expect(unsafe_code, reason = "no safe call closes what a caller left open, or sets such signals")]
    // SAFETY: we have opened nothing yet, so no value of this process owns any of the descriptors,
    // and nothing can use them after us. All zeros is a valid signal set, and sigemptyset and
    // sigprocmask get sets that live.
    let unblocked = unsafe {
        for signal in no_longer_ignored {
            libc::signal(*signal, libc::SIG_DFL);
        }
        // All at once, as of Linux 5.9.
        if libc::syscall(libc::SYS_close_range, FIRST, LAST, NO_FLAGS) != 0 {
            leaked()?.for_each(|descriptor| drop(OwnedFd::from_raw_fd(descriptor)));
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut())
    };
    if unblocked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The open descriptors from 3 up.
fn leaked() -> io::Result<impl Iterator<Item = RawFd>> {
    let open: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 2)
        .collect();
    // The list includes the descriptor by which we read it, which is closed by now.
    let is_open = |number: &RawFd| fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    Ok(open.into_iter().filter(is_open))
}

/// The same, except for a socket that systemd opened for us (sd_listen_fds(3)): descriptor 3, if
/// LISTEN_PID is our PID.
pub(crate) fn shed_all_but_handed_socket() -> io::Result<Option<UnixListener>> {
    let for_us = env::var("LISTEN_PID").is_ok_and(|pid| pid == std::process::id().to_string());
    let handed =
        for_us && env::var("LISTEN_FDS").is_ok_and(|count| count.parse::<u32>().is_ok_and(|count| count > 0));
    if !handed {
        shed()?;
        return Ok(None);
    }
    // We get an owned descriptor by copying the number out of our own process (pidfd_getfd(2), Linux
    // 5.6). The copy is not among the descriptors that we close.
    let ourselves =
        rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())?;
    let socket = rustix::process::pidfd_getfd(&ourselves, 3, rustix::process::PidfdGetfdFlags::empty())?;
    rustix::stdio::dup2_stdin(&socket)?;
    drop((ourselves, socket));
    shed()?;
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    if !socket::listens(&listener)? {
        return Err(io::Error::other("descriptor 3 is not a listening socket"));
    }
    listener.set_nonblocking(true)?;
    Ok(Some(listener))
}
