//! Which machine this is, and since which start of it.

use std::{io, path::Path};

use crate::sys::files::Folder;

/// More than a host name (64 bytes, gethostname(2)) or an id takes.
const LONGEST: u64 = 128;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// The kernel's random id of this start of it (random(4)). Containers of one kernel
    /// have the same.
    pub(crate) boot: Vec<u8>,
    /// As `hostname` prints it; a container may have one of its own.
    pub(crate) name: Vec<u8>,
}

impl Host {
    pub(crate) fn ours() -> io::Result<Host> {
        let read = |folder: &str, file: &str| {
            let mut content = Folder::open(Path::new(folder))?.read(file, LONGEST)?;
            content.truncate(content.trim_ascii_end().len());
            Ok::<Vec<u8>, io::Error>(content)
        };
        let boot = read("/proc/sys/kernel/random", "boot_id")?;
        Ok(Host { boot, name: read("/proc/sys/kernel", "hostname")? })
    }

    /// As it stands in a file.
    pub(crate) fn line(&self) -> Vec<u8> {
        [&self.boot[..], b" ", &self.name, b"\n"].concat()
    }

    pub(crate) fn parse(line: &[u8]) -> Option<Host> {
        let line = line.strip_suffix(b"\n")?;
        let blank = line.iter().position(|byte| *byte == b' ')?;
        let (boot, name) = (line[..blank].to_vec(), line[blank + 1..].to_vec());
        (!boot.is_empty() && !name.is_empty()).then_some(Host { boot, name })
    }

    /// Is that another machine, and not this one before it was started again? What has
    /// our kernel sees our locks and sockets, whatever it is called.
    pub(crate) fn is_another(&self, other: &Host) -> bool {
        self.boot != other.boot && self.name != other.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_another_where_both_its_kernel_and_its_name_are() {
        let host = |line: &str| Host::parse(line.as_bytes()).unwrap();
        let ours = host("1-2 node1\n");
        for (other, is_another) in
            [("1-2 node1\n", false), ("1-2 box\n", false), ("3-4 node1\n", false), ("3-4 node2\n", true)]
        {
            assert_eq!(ours.is_another(&host(other)), is_another, "{other}");
        }
        for line in ["", "\n", "1-2\n", "1-2 \n", " node1\n", "1-2 node1"] {
            assert_eq!(Host::parse(line.as_bytes()), None, "{line:?}");
        }
        let ours = Host::ours().unwrap();
        assert_eq!(Host::parse(&ours.line()), Some(ours));
    }
}
