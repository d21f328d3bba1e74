//! The TCP ports that processes listen on (proc_pid_net(5)).

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
};

use crate::sys::{peers, processes::Process};

/// The ports that are listened on in our network namespace, by the inode of the socket.
pub(crate) struct Listening(Vec<(u32, u16)>);

impl Listening {
    pub(crate) fn look() -> Listening {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        let files = tables.iter().filter_map(|table| File::open(table).ok());
        let lines = files.flat_map(|file| BufReader::new(file).lines().map_while(Result::ok));
        Listening(lines.filter_map(|line| parse(&line)).collect())
    }

    /// The ports of these processes, sorted. A process that we may not inspect counts as having none.
    pub(crate) fn of(&self, processes: impl Iterator<Item = Process>) -> Vec<u16> {
        let mut ports = Vec::new();
        if self.0.is_empty() {
            return ports;
        }
        for process in processes {
            let folder = format!("/proc/{}/fd", process.pid);
            for entry in fs::read_dir(Path::new(&folder)).into_iter().flatten().flatten() {
                if let Ok(Some(inode)) = peers::inode(&entry.path()) {
                    ports.extend(self.0.iter().filter(|(of, _)| *of == inode).map(|(_, port)| *port));
                }
            }
        }
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

/// A line of the table, if its socket listens.
fn parse(line: &str) -> Option<(u32, u16)> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    (*fields.get(3)? == LISTEN).then_some((fields.get(9)?.parse().ok()?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_ours_is_found_until_it_is_closed() {
        let ours = || Process::read(std::process::id()).into_iter();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(Listening::look().of(ours()).contains(&port));
        assert_eq!(parse("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when"), None);
        let line = "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1";
        assert_eq!(parse(line), Some((77, 8080)));
        assert_eq!(parse(&line.replace(" 0A ", " 01 ")), None);
    }
}
