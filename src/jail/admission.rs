//! Decides which processes nbs serves on a socket: one test for the relay, the helper, the bridge, the
//! far side and the page. It checks who owns the peer's process, whether it is confined, and by which
//! session.
//!
//! A session that may write only to some directories must not make nbs write, type or start anything
//! for it. The kernel does not keep such a process from our sockets, so each socket asks here. A
//! confined process carries the tag of its session wherever it goes, even when the session has ended,
//! so a process without a tag needs no second check. It can never drop `no_new_privs` either; without
//! that, the limits in the tag are a user's own.
//!
//! Only the process that connected counts (by TCP, all that have the other end), and only at that
//! time: a process that gets a connection later could also ask the process that gave it. The kernel
//! keeps the PID of the process that connected. That PID may be another process's by now, if the
//! first one ended while we were stopped or busy. So we use the pidfd that the kernel keeps as well
//! (Linux 6.5). Older kernels have none: there the process that has the PID now must have the other
//! end of the connection open. We do not serve a process that has ended, even if a child inherited
//! its connection.

use std::{
    fmt,
    net::TcpStream,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use crate::sys::{
    confinement::{self, Tag},
    peers::{self, OtherEnd},
    poll,
    processes::{self, Holds, PidFd},
    socket,
};

/// Why nbs does not serve a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    OtherUser,
    /// Confined by what does not bind us.
    Confined,
    /// It has gone, or cannot be distinguished from others.
    Unknown,
}

impl fmt::Display for Denial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Denial::OtherUser => "it is another user's",
            Denial::Confined => "it is confined itself",
            Denial::Unknown => "it has ended, or cannot be identified",
        })
    }
}

/// Whom the sockets of this process serve.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The numbers of the sessions whose write roots bind every process that we serve.
    bound: Vec<u32>,
    serves_root: bool,
    /// Reserved descriptors. They are closed if none is free to inspect a process, because the
    /// connection may have taken the last one.
    spares: Vec<OwnedFd>,
}

/// Inspecting a process opens no more at the same time: a pidfd, a directory, and a file.
const SPARES: usize = 3;

/// The limit of scans for a confined process if processes start or end meanwhile.
const MOST_LOOKS: u32 = 64;

impl Admission {
    /// For sockets of this process that serve its own user. `own` is the number of the session that
    /// it serves, whose processes may talk to it; those of a session that confines this process may,
    /// too.
    pub(crate) fn new(own: Option<u32>) -> Admission {
        Admission::of(std::process::id(), own)
    }

    /// The same for sockets that serve root as well.
    pub(crate) fn with_root(own: Option<u32>) -> Admission {
        Admission { serves_root: true, ..Admission::new(own) }
    }

    fn of(server: u32, own: Option<u32>) -> Admission {
        let number = match confined_by(server) {
            Some(Tag::Number(number)) => Some(number),
            Some(Tag::Absent | Tag::Spoilt) | None => None,
        };
        let bound = number.into_iter().chain(own).collect();
        Admission { bound, serves_root: false, spares: spares() }
    }

    /// Admits who has connected to a Unix socket of ours, and gives its PID. A process of another
    /// PID namespace that is not below ours has none here, and is refused.
    pub(crate) fn admit(&mut self, stream: &UnixStream) -> Result<u32, Denial> {
        let peer = socket::peer(stream).map_err(|_| Denial::Unknown)?;
        let is_served = socket::is_our_user(peer.uid) || (self.serves_root && peer.uid == 0);
        if !is_served {
            return Err(Denial::OtherUser);
        }
        self.with_spares(|admission| admission.judge(peer.pid, stream)).map(|()| peer.pid)
    }

    /// Admits a peer by TCP. If it is on this machine, we must be able to serve every process that has
    /// the other end open. A peer from elsewhere needs a token.
    pub(crate) fn admit_tcp(&mut self, stream: &TcpStream) -> Result<(), Denial> {
        self.with_spares(|admission| match peers::tcp_other_end(stream) {
            Ok(OtherEnd::Elsewhere) => Ok(()),
            Ok(OtherEnd::Socket(inode)) => admission.judge_holders(inode),
            Ok(OtherEnd::Nobody | OtherEnd::Unknown) | Err(_) => deny_unknown(),
        })
    }

    /// Judges once more with all free descriptors, if there may have been too few.
    fn with_spares(&mut self, judge: impl Fn(&Admission) -> Result<(), Denial>) -> Result<(), Denial> {
        let mut judged = judge(self);
        if judged == Err(Denial::Unknown) {
            self.spares.clear();
            judged = judge(self);
            self.spares = spares();
        }
        judged
    }

    fn judge(&self, pid: u32, stream: &UnixStream) -> Result<(), Denial> {
        let held = PidFd::of_peer(stream).map_err(|_| Denial::Unknown)?;
        let is_certain = held.is_some();
        let process = match held {
            Some(process) => process,
            None => PidFd::open(pid).ok().flatten().ok_or(Denial::Unknown)?,
        };
        match self.serves(pid) {
            Some(true) => {}
            Some(false) => return Err(Denial::Confined),
            None => return Err(Denial::Unknown),
        }
        if !is_certain {
            self.check_holds(pid, stream)?;
        }
        // Until here the PID was that process's, if it has not ended.
        match process.has_ended() {
            Ok(false) => Ok(()),
            Ok(true) | Err(_) => Err(Denial::Unknown),
        }
    }

    /// A process with the PID of who connected must have the other end of the connection open.
    fn check_holds(&self, pid: u32, stream: &UnixStream) -> Result<(), Denial> {
        let ends = match peers::other_end(stream) {
            OtherEnd::Socket(inode) => vec![inode],
            OtherEnd::Nobody => Vec::new(),
            // In another network namespace; or netlink(7) is out of our reach.
            OtherEnd::Elsewhere | OtherEnd::Unknown => peers::candidates(stream, pid).unwrap_or_default(),
        };
        match processes::holds_socket(pid, &ends) {
            Holds::Yes if ends.len() == 1 => {}
            Holds::No => deny_unknown()?,
            // The kernel reports too little of the process or the socket. Then no process may be
            // confined.
            Holds::Yes | Holds::Unknown => {
                if poll::has_hung_up(stream).unwrap_or(true) {
                    deny_unknown()?;
                }
                match self.look(&ends) {
                    Look::Confined => return Err(Denial::Confined),
                    Look::Held | Look::Hidden { .. } => {}
                    Look::Failed => deny_unknown()?,
                }
            }
        }
        Ok(())
    }

    /// May we serve this process, by its confinement? `None` if it has gone.
    fn serves(&self, pid: u32) -> Option<bool> {
        confined_by(pid).map(|tag| match tag {
            Tag::Absent => true,
            Tag::Number(session) => self.bound.contains(&session),
            Tag::Spoilt => false,
        })
    }

    /// Judges all processes that have the other end of a TCP connection open.
    ///
    /// If we see none, the holder may be a process that we may not inspect, as the sshd of an `ssh
    /// -L`, or one of another PID namespace. But it may also be a confined process that has its socket
    /// where /proc/PID/fd does not show it, as in the queue of another socket. So then no process may
    /// be confined.
    fn judge_holders(&self, inode: u32) -> Result<(), Denial> {
        judge_looks(|| self.look(&[inode])).unwrap_or_else(deny_unknown)
    }

    /// Looks at all processes for who has the other end of a connection open, which is one of
    /// these sockets.
    fn look(&self, ends: &[u32]) -> Look {
        let (Ok(newest), Ok(pids)) = (processes::newest_pid(), processes::pids()) else {
            return Look::Failed;
        };
        let is_known = ends.len() == 1;
        let (mut is_held, mut may_be_held) = (false, false);
        let (mut is_anybody_confined, mut saw_all) = (false, true);
        for pid in pids {
            let served = match self.serves(pid) {
                // Another user's can read no token of ours, and never becomes one of ours.
                Some(false) => processes::is_our_user_s(pid).map(|is_ours| !is_ours),
                served => served,
            };
            if served == Some(true) && is_held {
                continue;
            }
            match (served, processes::holds_socket(pid, ends)) {
                (Some(true), Holds::Yes) => is_held |= is_known,
                (Some(true), Holds::No | Holds::Unknown) => {}
                (Some(false), Holds::No) => is_anybody_confined = true,
                (Some(false), Holds::Yes) if is_known => return Look::Confined,
                (Some(false), Holds::Yes | Holds::Unknown) => may_be_held = true,
                // It may have left the connection to another.
                (None, _) => saw_all = false,
            }
        }
        match () {
            () if is_held => Look::Held,
            () if may_be_held => Look::Confined,
            () => {
                saw_all &= processes::newest_pid().is_ok_and(|now| now == newest);
                Look::Hidden { is_anybody_confined, saw_all }
            }
        }
    }
}

/// The result of scans of all processes; `None` if they neither show who has the connection open nor
/// that no process is confined. It takes one complete scan: a process that ended during a scan may
/// have passed the connection to another.
fn judge_looks(mut look: impl FnMut() -> Look) -> Option<Result<(), Denial>> {
    for _ in 0..MOST_LOOKS {
        match look() {
            Look::Confined => return Some(Err(Denial::Confined)),
            Look::Held | Look::Hidden { is_anybody_confined: false, saw_all: true } => return Some(Ok(())),
            Look::Hidden { is_anybody_confined: true, .. } | Look::Failed => return None,
            Look::Hidden { .. } => {}
        }
    }
    None
}

/// The result of a scan of all processes.
#[derive(Clone, Copy)]
enum Look {
    /// A process that we do not serve has it open, or may have it if no holder is visible.
    Confined,
    /// Only processes that we serve have it open.
    Held,
    /// No visible process has it open. `saw_all`: no process started or ended meanwhile.
    Hidden {
        is_anybody_confined: bool,
        saw_all: bool,
    },
    Failed,
}

/// Does the process with this PID serve us? `session` is the number of the session that it serves, if
/// it is a relay. A process that has gone counts as serving us.
pub(crate) fn serves_us(server: u32, session: Option<u32>) -> bool {
    confined_by(server).is_none()
        || Admission::of(server, session).serves(std::process::id()).unwrap_or(false)
}

fn spares() -> Vec<OwnedFd> {
    (0..SPARES).map_while(|_| std::io::stderr().as_fd().try_clone_to_owned().ok()).collect()
}

/// If this kernel cannot confine processes, an unknown one is not confined.
fn deny_unknown() -> Result<(), Denial> {
    if confinement::is_possible() { Err(Denial::Unknown) } else { Ok(()) }
}

/// The tag of the session that confines a process; `None` if it has gone.
fn confined_by(pid: u32) -> Option<Tag> {
    match confinement::tag_of(pid)? {
        Tag::Absent => Some(Tag::Absent),
        tag if processes::has_no_new_privileges(pid)? => Some(tag),
        Tag::Number(_) | Tag::Spoilt => Some(Tag::Absent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::eventually;
    use std::{
        io::{BufRead, BufReader},
        net::TcpListener,
        os::fd::OwnedFd,
        process::{Command, Stdio},
    };

    #[test]
    fn a_process_that_connected_and_exists_is_admitted() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut admission = Admission::new(None);
        assert_eq!(admission.admit(&ours), Ok(std::process::id()));
        // Whether others have it open, too, makes no difference.
        let mut child =
            Command::new("cat").stdin(OwnedFd::from(theirs.try_clone().unwrap())).spawn().unwrap();
        assert_eq!(admission.admit(&ours), Ok(std::process::id()));
        // If the kernel does not keep a pidfd of the peer, the process itself must have the
        // connection open.
        drop(theirs);
        if PidFd::of_peer(&ours).unwrap().is_none() && confinement::is_possible() {
            assert_eq!(admission.admit(&ours), Err(Denial::Unknown));
        }
        drop(ours);
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_holder_that_no_look_shows_is_admitted_only_after_a_look_that_saw_all() {
        let hidden = |is_anybody_confined, saw_all| Look::Hidden { is_anybody_confined, saw_all };
        for (looks, expected) in [
            (&[Look::Held][..], Some(Ok(()))),
            (&[Look::Confined], Some(Err(Denial::Confined))),
            (&[hidden(false, true)], Some(Ok(()))),
            (&[hidden(false, false), hidden(false, true)], Some(Ok(()))),
            (&[hidden(false, false), Look::Confined], Some(Err(Denial::Confined))),
            (&[hidden(true, true)], None),
            (&[hidden(false, false), hidden(true, false)], None),
            (&[Look::Failed], None),
            (&[hidden(false, false)], None),
        ] {
            let mut next = looks.iter().chain(looks.last().into_iter().cycle());
            assert_eq!(judge_looks(|| *next.next().unwrap()), expected);
        }
    }

    #[test]
    fn whoever_connects_by_tcp_is_looked_for_among_all_processes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut admission = Admission::new(None);
        let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(admission.admit_tcp(&accepted), Ok(()));
        // A confined process has it open, too: one that has no_new_privs and two limits.
        let mut child = Command::new("prlimit")
            .args(["--locks=1000:1000", "setpriv", "--no-new-privs", "sh", "-c", "echo; exec cat <&0 >&2"])
            .stdin(OwnedFd::from(connected.try_clone().unwrap()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        assert_eq!(admission.admit_tcp(&accepted), Err(Denial::Confined));
        drop(accepted);
        child.wait().unwrap();
        let (accepted, _) = {
            drop(connected);
            let gone = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            drop(gone);
            listener.accept().unwrap()
        };
        if confinement::is_possible() {
            let accepted = &accepted;
            eventually("its being gone", || Admission::new(None).admit_tcp(accepted) == Err(Denial::Unknown));
        }
    }
}
