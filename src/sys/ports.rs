//! The TCP ports that processes listen on (proc_pid_net(5)).

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
};

use crate::sys::{
    peers::{self, TCP_TABLES, TcpLine},
    processes::Process,
};

/// The ports that are listened on in our network namespace, by the inode of the socket.
pub(crate) struct Listening(Vec<(u32, u16)>);

impl Listening {
    pub(crate) fn look() -> Listening {
        let files = TCP_TABLES.iter().filter_map(|table| File::open(table).ok());
        let lines = files.flat_map(|file| BufReader::new(file).lines().map_while(Result::ok));
        let listening = lines.filter_map(|line| TcpLine::parse(&line).filter(|line| line.listens));
        Listening(listening.map(|line| (line.inode, line.local.1)).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_ours_is_found_until_it_is_closed() {
        let ours = || Process::read(std::process::id()).into_iter();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(Listening::look().of(ours()).contains(&port));
    }
}
