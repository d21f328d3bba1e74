//! The process at the other end of a socket.
//!
//! The kernel identifies sockets by inodes, and /proc/PID/fd shows which processes have one open.
//!
//! A program that is connected to itself by a pair of sockets does not wait for another process. Every
//! event loop of Python wakes itself that way.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
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

/// Sizes of a header of netlink(7), and of `struct unix_diag_msg`.
const HEADER: usize = 16;
const MESSAGE: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherEnd {
    /// No process has it open: it was closed, or the socket listens.
    Nobody,
    /// The inode of the socket, which is on this machine.
    Socket(u32),
    /// On another machine, or in another network namespace.
    Elsewhere,
    /// The kernel does not support the query.
    Unknown,
}

/// Does the kernel report the other end of a Unix socket?
pub(crate) fn are_told() -> io::Result<bool> {
    let (one, _two) = UnixStream::pair()?;
    Ok(matches!(other_end(&one), OtherEnd::Socket(_)))
}

/// The candidates for the other end of a Unix socket that was connected to us. If the connection was
/// made in the network namespace of this process, these are all other sockets there; otherwise there
/// are none.
pub(crate) fn candidates(stream: &UnixStream, pid: u32) -> io::Result<Vec<u32>> {
    let own = own_inode(stream)?;
    let (mut others, mut is_there) = (Vec::new(), false);
    for line in BufReader::new(fs::File::open(format!("/proc/{pid}/net/unix"))?).lines() {
        let line = line?;
        let inode = line.split_ascii_whitespace().nth(6).and_then(|inode| inode.parse().ok());
        match inode {
            Some(inode) if own == Some(inode) => is_there = true,
            inode => others.extend(inode),
        }
    }
    Ok(if is_there { others } else { Vec::new() })
}

fn own_inode(stream: &UnixStream) -> io::Result<Option<u32>> {
    inode(&PathBuf::from(format!("/proc/self/fd/{}", stream.as_fd().as_raw_fd())))
}

/// The other end of a Unix socket. The kernel does not report it if the connection was made in another
/// network namespace.
pub(crate) fn other_end(stream: &UnixStream) -> OtherEnd {
    match own_inode(stream).ok().flatten().and_then(|inode| other_end_of(inode).ok()) {
        // A socket that no process has open no longer has an inode.
        Some(OtherEnd::Socket(0)) => OtherEnd::Nobody,
        Some(end) => end,
        None => OtherEnd::Unknown,
    }
}

/// The other end of a TCP connection. It is on this machine if the kernel lists it among the
/// sockets here, whatever its addresses are (proc_pid_net(5)).
pub(crate) fn tcp_other_end(stream: &TcpStream) -> io::Result<OtherEnd> {
    let (local, peer) = (stream.local_addr()?, stream.peer_addr()?);
    // While others come and go, a line may be missed.
    for _ in 0..2 {
        if let Some(inode) = tcp_inode(peer, local)? {
            return Ok(if inode == 0 { OtherEnd::Nobody } else { OtherEnd::Socket(inode) });
        }
    }
    Ok(if is_local(peer) { OtherEnd::Nobody } else { OtherEnd::Elsewhere })
}

/// Is this an address of this machine? Only to those may a socket be bound.
fn is_local(address: SocketAddr) -> bool {
    let any_port = |mut address: SocketAddr| {
        address.set_port(0);
        address
    };
    address.ip().to_canonical().is_loopback() || UdpSocket::bind(any_port(address)).is_ok()
}

/// The inode of the socket with these addresses, 0 if no process has it open any more. A socket for
/// IPv6 may be connected by IPv4.
fn tcp_inode(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u32>> {
    let canonical = |address: SocketAddr| (address.ip().to_canonical(), address.port());
    let wanted = (canonical(local), canonical(remote));
    for table in TCP_TABLES {
        let file = match fs::File::open(table) {
            // A kernel may have no version 6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        for line in BufReader::new(file).lines().skip(1) {
            match TcpLine::parse(&line?) {
                Some(line) if (line.local, line.remote) == wanted => return Ok(Some(line.inode)),
                _ => {}
            }
        }
    }
    Ok(None)
}

type Address = (IpAddr, u16);

/// The tables of TCP sockets (proc_pid_net(5)); a kernel without IPv6 has only the first.
pub(crate) const TCP_TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// A line of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TcpLine {
    pub(crate) local: Address,
    remote: Address,
    pub(crate) listens: bool,
    pub(crate) inode: u32,
}

impl TcpLine {
    pub(crate) fn parse(line: &str) -> Option<TcpLine> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, state, _, _, _, _, _, inode, ..] = fields[..] else { return None };
        let (local, remote) = (tcp_address(local)?, tcp_address(remote)?);
        Some(TcpLine { local, remote, listens: state == "0A", inode: inode.parse().ok()? })
    }
}

/// An address is there as words of 32 bits, each as it lies in memory.
fn tcp_address(field: &str) -> Option<Address> {
    let (ip, port) = field.split_once(':')?;
    let word = |at: usize| {
        let digits = ip.get(8 * at..8 * at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?)).to_canonical()
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

/// The inode of the socket that a link in /proc/PID/fd is, if it is one (proc_pid_fd(5)).
pub(crate) fn inode(link: &Path) -> io::Result<Option<u32>> {
    let target = fs::read_link(link)?;
    let number = |target: &str| target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    Ok(target.to_str().and_then(number))
}

/// Does this socket of a process lead to another process?
pub(crate) fn leads_elsewhere(inode: u32, own: impl Fn(u32) -> bool) -> bool {
    match other_end_of(inode).unwrap_or(OtherEnd::Unknown) {
        OtherEnd::Nobody => false,
        OtherEnd::Socket(peer) => !own(peer),
        // The two ends of a pair are made one after the other, and so are their numbers.
        OtherEnd::Unknown if is_unnamed(inode) => !own(inode.wrapping_sub(1)) && !own(inode.wrapping_add(1)),
        OtherEnd::Elsewhere | OtherEnd::Unknown => true,
    }
}

/// By sock_diag(7), which needs CONFIG_UNIX_DIAG.
fn other_end_of(inode: u32) -> io::Result<OtherEnd> {
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
    // The cookie is arbitrary.
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
    use crate::rounds::eventually;
    use std::os::{fd::AsRawFd, unix::net::UnixListener};

    fn inode_of(socket: impl AsFd) -> u32 {
        inode(Path::new(&format!("/proc/self/fd/{}", socket.as_fd().as_raw_fd()))).unwrap().unwrap()
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
    fn listening_and_other_sockets_have_no_unix_peer() {
        let folder = std::env::temp_dir().join(format!("nbs-peers-{}", std::process::id()));
        let listener = UnixListener::bind(&folder).unwrap();
        let inode = inode_of(&listener);
        fs::remove_file(&folder).unwrap();
        assert!(!is_unnamed(inode));
        assert!(matches!(other_end_of(inode).unwrap(), OtherEnd::Nobody | OtherEnd::Unknown));
        let network = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(leads_elsewhere(inode_of(&network), |_| true));
    }

    #[test]
    fn the_other_end_of_a_unix_socket_is_its_peer_until_that_is_closed() {
        let (one, two) = UnixStream::pair().unwrap();
        assert!(
            matches!(other_end(&one), end if end == OtherEnd::Socket(inode_of(&two)) || end == OtherEnd::Unknown)
        );
        let again = two.try_clone().unwrap();
        drop(two);
        assert_ne!(other_end(&one), OtherEnd::Nobody);
        drop(again);
        eventually("the end", || matches!(other_end(&one), OtherEnd::Nobody | OtherEnd::Unknown));
    }

    #[test]
    fn the_other_end_of_a_tcp_connection_is_found_by_every_address() {
        for (listens, connects) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("127.0.0.1:0", "::ffff:127.0.0.1"),
            ("0.0.0.0:0", "127.9.9.9"),
            ("[::1]:0", "::1"),
            ("[::]:0", "::1"),
            ("[::]:0", "127.0.0.1"),
            ("[::]:0", "::ffff:127.0.0.1"),
        ] {
            let listener = match std::net::TcpListener::bind(listens) {
                // A machine may have no version 6 of IP.
                Err(_) if listens.starts_with('[') => continue,
                listener => listener.unwrap(),
            };
            let to = SocketAddr::new(connects.parse().unwrap(), listener.local_addr().unwrap().port());
            let connected = match TcpStream::connect(to) {
                Err(_) if connects.contains(':') => continue,
                connected => connected.unwrap(),
            };
            let (accepted, _) = listener.accept().unwrap();
            let end = tcp_other_end(&accepted).unwrap();
            assert_eq!(end, OtherEnd::Socket(inode_of(&connected)), "{listens} {connects}");
            drop(connected);
            let has_gone = || tcp_other_end(&accepted).unwrap() == OtherEnd::Nobody;
            eventually(&format!("the end of {listens} {connects}"), has_gone);
        }
    }

    #[test]
    fn a_line_of_a_table_holds_both_addresses_and_the_inode() {
        let address = |text: &str| text.parse::<SocketAddr>().map(|at| (at.ip(), at.port())).unwrap();
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let rest = "01 00000000:00000000 00:00000000 00000000  1000        0 446447 1 0000000000000000 20 4";
        let (local, remote) = (word([127, 0, 0, 1]), word([192, 0, 2, 7]));
        let line = format!("   3: {local}:1F90 {remote}:0016 {rest}");
        let expected = (address("127.0.0.1:8080"), address("192.0.2.7:22"), false, 446_447);
        let parsed =
            |line: &str| TcpLine::parse(line).map(|line| (line.local, line.remote, line.listens, line.inode));
        assert_eq!(parsed(&line), Some(expected));
        let listening =
            line.replace(&format!("0016 {rest}"), &format!("0016 {}", rest.replacen("01", "0A", 1)));
        assert!(parsed(&listening).is_some_and(|(.., listens, _)| listens));
        let (none, mapped) = (word([0; 4]), word([0, 0, 0xff, 0xff]));
        let line = format!(
            "   3: {none}{none}{mapped}{local}:1F90 {none}{none}{none}{}:0016 {rest}",
            word([0, 0, 0, 1])
        );
        assert_eq!(parsed(&line), Some((address("127.0.0.1:8080"), address("[::1]:22"), false, 446_447)));
        for line in [
            "",
            "  sl  local_address rem_address   st",
            "0: 7F:1 7F:2 01 0 0 0 0 0 1",
            "0: x:y 0:0 0 0 0 0 0 0 z",
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }

    #[test]
    fn only_addresses_of_this_machine_are_local() {
        for (address, expected) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("192.0.2.1:1", false),
        ] {
            assert_eq!(is_local(address.parse().unwrap()), expected, "{address}");
        }
    }
}
