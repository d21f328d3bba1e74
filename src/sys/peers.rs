//! Who is at the other end of a socket.
//!
//! A program that talks to itself through a pair of sockets, as every event loop of Python
//! does to wake itself, waits for nobody else.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    path::Path,
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// From include/uapi/linux/sock_diag.h, unix_diag.h and netlink.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
const TCP_LISTEN: u8 = 10;

/// Of a header of netlink(7), and of `struct unix_diag_msg`.
const HEADER: usize = 16;
const MESSAGE: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherEnd {
    /// It listens, and so has none.
    Nobody,
    Socket(u32),
    /// It is no UNIX socket, or the kernel does not tell.
    Unknown,
}

/// The inode of the socket that a link in /proc/PID/fd is (proc_pid_fd(5)).
pub(crate) fn inode(link: &Path) -> Option<u32> {
    let target = fs::read_link(link).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Is somebody else at the other end of this socket, which is one of those of a process?
pub(crate) fn leads_elsewhere(inode: u32, own: impl Fn(u32) -> bool) -> bool {
    match other_end(inode).unwrap_or(OtherEnd::Unknown) {
        OtherEnd::Nobody => false,
        OtherEnd::Socket(peer) => !own(peer),
        // The two ends of a pair are made one after the other, and so are their numbers.
        OtherEnd::Unknown if is_unnamed(inode) => !own(inode.wrapping_sub(1)) && !own(inode.wrapping_add(1)),
        OtherEnd::Unknown => true,
    }
}

/// By sock_diag(7), which needs CONFIG_UNIX_DIAG.
fn other_end(inode: u32) -> io::Result<OtherEnd> {
    let protocol = Some(netlink::SOCK_DIAG);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    send(&socket, &request(inode), SendFlags::empty())?;
    let mut answer = [0; 512];
    let (count, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    Ok(read(&answer[..count]))
}

fn request(inode: u32) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + 24);
    message.extend((HEADER as u32 + 24).to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    // Family, protocol, and in any state.
    message.extend([AddressFamily::UNIX.as_raw() as u8, 0, 0, 0]);
    message.extend(u32::MAX.to_ne_bytes());
    message.extend(inode.to_ne_bytes());
    message.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    // Whatever its cookie is.
    message.extend([0xff; 8]);
    message
}

fn read(answer: &[u8]) -> OtherEnd {
    let short = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    if short(4) != Some(SOCK_DIAG_BY_FAMILY) {
        return OtherEnd::Unknown;
    }
    if answer.get(HEADER + 2) == Some(&TCP_LISTEN) {
        return OtherEnd::Nobody;
    }
    let mut at = HEADER + MESSAGE;
    while let (Some(length), Some(kind)) = (short(at), short(at + 2)) {
        let value = answer.get(at + 4..at + 8).and_then(|value| value.try_into().ok());
        if let (UNIX_DIAG_PEER, Some(peer)) = (kind, value) {
            return OtherEnd::Socket(u32::from_ne_bytes(peer));
        }
        at += usize::from(length).max(4).next_multiple_of(4);
    }
    OtherEnd::Unknown
}

/// Is it a UNIX socket without a name, as those of a pair are (proc_pid_net(5))?
fn is_unnamed(inode: u32) -> bool {
    let Ok(table) = fs::File::open("/proc/net/unix") else { return false };
    let lines = BufReader::new(table).lines().map_while(Result::ok);
    let fields =
        lines.map(|line| line.split_ascii_whitespace().skip(6).map(str::to_owned).collect::<Vec<_>>());
    fields.into_iter().any(|fields| fields.len() == 1 && fields[0].parse() == Ok(inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::{
        fd::{AsFd, AsRawFd},
        unix::net::{UnixListener, UnixStream},
    };

    fn inode_of(socket: impl AsFd) -> u32 {
        inode(Path::new(&format!("/proc/self/fd/{}", socket.as_fd().as_raw_fd()))).unwrap()
    }

    #[test]
    fn a_pair_leads_to_its_other_end() {
        let (one, two) = UnixStream::pair().unwrap();
        let (one, two) = (inode_of(&one), inode_of(&two));
        assert!(!leads_elsewhere(one, |inode| inode == two));
        assert!(leads_elsewhere(one, |inode| inode == one));
        assert!(is_unnamed(one));
    }

    #[test]
    fn what_listens_leads_nowhere_and_what_is_no_unix_socket_elsewhere() {
        let folder = std::env::temp_dir().join(format!("nbs-peers-{}", std::process::id()));
        let listener = UnixListener::bind(&folder).unwrap();
        let inode = inode_of(&listener);
        fs::remove_file(&folder).unwrap();
        assert!(!is_unnamed(inode));
        assert!(matches!(other_end(inode).unwrap(), OtherEnd::Nobody | OtherEnd::Unknown));
        let network = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(leads_elsewhere(inode_of(&network), |_| true));
    }
}
