//! Unix sockets in an open directory, and connections by TCP.
//!
//! A Unix socket address holds 108 bytes (unix(7)), and the path of a state directory may be longer.
//! So an address is always `/proc/self/fd/N/name`, where N is the directory's descriptor.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    time::Duration,
};

use rustix::{
    fs::{Mode, fchmod},
    net::{
        self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType,
        sockopt::{self, Timeout},
    },
};

use crate::sys::{deadline::Deadline, files::Folder, poll::PollSet};

fn address(folder: &Folder, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_fd().as_raw_fd()))
}

/// Listens, non-blocking, on a socket that does not exist yet.
pub(crate) fn listen(folder: &Folder, name: &str) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The mode that the kernel gives it in the directory, before the umask.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(address(folder, name))?)?;
    // As many may wait as the machine allows (listen(2)).
    net::listen(&socket, i32::MAX)?;
    Ok(UnixListener::from(socket))
}

/// The first system call on Unix sockets that a session needs and that is not permitted here, with its
/// error; `None` if all are. A sandbox may refuse only some of them (seccomp(2)). This tries each on a
/// socket of this abstract name (unix(7)), since a file costs `create` more than all of this. It ignores
/// other errors: the code that needs the socket reports those.
pub(crate) fn refused_call(name: &str) -> Option<(&'static str, io::Error)> {
    let is_refused = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported)
    };
    try_calls(name).err().filter(|(_, error)| is_refused(error))
}

fn try_calls(name: &str) -> Result<(), (&'static str, io::Error)> {
    let refused = |call| move |error: io::Error| (call, error);
    let no = |call| move |error: rustix::io::Errno| (call, error.into());
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(no("bind"))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(no("socket"))?;
    net::bind(&listener, &address).map_err(no("bind"))?;
    net::listen(&listener, 1).map_err(no("listen"))?;
    let client =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(no("socket"))?;
    sockopt::set_socket_timeout(&client, Timeout::Send, None).map_err(no("setsockopt"))?;
    net::connect(&client, &address).map_err(no("connect"))?;
    let (mut server, _) = UnixListener::from(listener).accept().map_err(refused("accept4"))?;
    sockopt::socket_peercred(&server).map_err(no("getsockopt"))?;
    server.write_all(b".").map_err(refused("sendto"))?;
    UnixStream::from(client).read_exact(&mut [0]).map_err(refused("recvfrom"))?;
    server.shutdown(Shutdown::Write).map_err(refused("shutdown"))
}

/// Is this a socket that listens?
pub(crate) fn listens(socket: &UnixListener) -> io::Result<bool> {
    Ok(sockopt::socket_acceptconn(socket)?)
}

/// Accepts a connection on a listener of TCP. The kernel detects a peer that has gone without closing it
/// (tcp(7)).
pub(crate) fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, address) = listener.accept()?;
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    Ok((stream, address))
}

/// Was there no connection to accept, or is there none any more (accept(2))?
pub(crate) fn is_nobody(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | ConnectionAborted | Interrupted)
}

/// A listening socket.
///
/// Without free descriptors a connection stays in the queue, and poll(2) reports it again and again.
/// No event reports a free descriptor, so we retry after a pause.
#[derive(Default)]
pub(crate) struct Entrance {
    shut: Option<Deadline>,
}

impl Entrance {
    const RETRY: Duration = Duration::from_millis(250);

    /// Waits for a connection, or returns the end of the pause.
    pub(crate) fn watch<'a, Event: Copy>(
        &self,
        listener: &'a impl AsFd,
        poll_set: &mut PollSet<'a, Event>,
        event: Event,
    ) -> Deadline {
        if let Some(until) = self.shut.filter(|until| !until.has_passed()) {
            return until;
        }
        poll_set.readable(listener, event);
        Deadline::NEVER
    }

    /// Returns the accepted connection, if there is one.
    pub(crate) fn take<Stream, Address>(&mut self, came: io::Result<(Stream, Address)>) -> Option<Stream> {
        let is_full = came.as_ref().is_err_and(|error| !is_nobody(error));
        self.shut = is_full.then(|| Deadline::after(Entrance::RETRY));
        came.ok().map(|(stream, _)| stream)
    }
}

/// Connects. If the listen queue stays full, gives up at the deadline: `WouldBlock` (connect(2),
/// SO_SNDTIMEO in socket(7)).
pub(crate) fn connect(folder: &Folder, name: &str, deadline: Deadline) -> io::Result<UnixStream> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // No time at all would be for ever.
    let patience = deadline.remaining().map(|time| time.max(Duration::from_millis(1)));
    sockopt::set_socket_timeout(&socket, Timeout::Send, patience)?;
    let address = SocketAddrUnix::new(address(folder, name))?;
    // With a timeout, no call is begun again after a signal (signal(7)).
    rustix::io::retry_on_intr(|| net::connect(&socket, &address))?;
    Ok(UnixStream::from(socket))
}

/// A process at the other end of a Unix socket, as it was when the connection was made (SO_PEERCRED): for the
/// listener, the process that connected, and the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
}

/// Returns the process at the other end.
pub(crate) fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let peer = sockopt::socket_peercred(stream)?;
    Ok(Peer { pid: peer.pid.as_raw_nonzero().get().unsigned_abs(), uid: peer.uid.as_raw() })
}

/// SO_PEERPIDFD, from asm-generic/socket.h.
const PEER_PIDFD: libc::c_int = 77;

/// A pidfd of the process that connected, even if its PID was reused (SO_PEERPIDFD); `None` if the
/// kernel lacks it (before Linux 6.5). For a process that was reaped, older kernels return an error,
/// newer ones a pidfd that shows it.
pub(crate) fn peer_pidfd(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut pidfd: RawFd = -1;
    let mut length = size_of::<RawFd>() as libc::socklen_t;
    #[expect(unsafe_code, reason = "rustix 1.1 does not know this option")]
    // SAFETY: the kernel writes at most `length` bytes to `pidfd`. If it succeeds, that is a new
    // descriptor, which it marks close-on-exec, and nothing else owns it.
    let pidfd = unsafe {
        match libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            PEER_PIDFD,
            (&raw mut pidfd).cast(),
            &raw mut length,
        ) {
            0 => Ok(OwnedFd::from_raw_fd(pidfd)),
            _ => Err(io::Error::last_os_error()),
        }
    };
    match pidfd {
        Ok(pidfd) => Ok(Some(pidfd)),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn peer_pid(stream: &UnixStream) -> io::Result<u32> {
    Ok(peer(stream)?.pid)
}

pub(crate) fn is_our_user(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
}

/// Does this socket lead to a process of our own user? For a process that has connected, or was started with
/// it. `jail::Admission` decides whom a listener serves.
pub(crate) fn leads_to_us(stream: &UnixStream) -> io::Result<bool> {
    Ok(is_our_user(peer(stream)?.uid))
}

/// The same, or to one of root?
pub(crate) fn leads_to_us_or_root(stream: &UnixStream) -> io::Result<bool> {
    let uid = peer(stream)?.uid;
    Ok(is_our_user(uid) || uid == 0)
}
