//! The identity of this machine and of its present boot.

use std::{fs, io, path::Path};

use crate::{numbers::fnv, sys::files::Folder};

/// More than a host name (64 bytes, gethostname(2)) or an id takes.
const LONGEST: u64 = 128;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// The kernel's random id of this start of it (random(4)). Containers of one kernel
    /// have the same.
    pub(crate) boot: Vec<u8>,
    /// As `hostname` prints it; a container may have another.
    pub(crate) name: Vec<u8>,
    /// Identifies the machine across reboots, and distinguishes machines of the same name. It is
    /// derived from machine-id(5), which itself must not be published. `None` if there is no lasting
    /// one.
    machine: Option<Vec<u8>>,
}

impl Host {
    pub(crate) fn ours() -> io::Result<Host> {
        let read = |folder: &str, file: &str| {
            let mut content = Folder::open(Path::new(folder))?.read(file, LONGEST)?;
            content.truncate(content.trim_ascii_end().len());
            Ok::<Vec<u8>, io::Error>(content)
        };
        let boot = read("/proc/sys/kernel/random", "boot_id")?;
        // systemd marks an id that it could not store, and that lasts only until the reboot, by this
        // file.
        let lasts = !Path::new("/run/machine-id").exists();
        let machine = if lasts { fs::read("/etc/machine-id").ok() } else { None };
        let machine = machine.and_then(|id| machine_of(id.trim_ascii_end()));
        Ok(Host { boot, name: read("/proc/sys/kernel", "hostname")?, machine })
    }

    /// Its line in a file.
    pub(crate) fn line(&self) -> Vec<u8> {
        let words = [Some(&self.boot), Some(&self.name), self.machine.as_ref()];
        let words: Vec<&[u8]> = words.into_iter().flatten().map(Vec::as_slice).collect();
        [&words.join(&b' ')[..], b"\n"].concat()
    }

    pub(crate) fn parse(line: &[u8]) -> Option<Host> {
        let mut words = line.strip_suffix(b"\n")?.split(|byte| *byte == b' ');
        let mut word = || words.next().map(<[u8]>::to_vec).filter(|word| !word.is_empty());
        Some(Host { boot: word()?, name: word()?, machine: word() })
    }

    /// Identifies the machine among those that share a directory, across reboots: its name and, if it
    /// has a lasting machine-id, the value derived from it.
    pub(crate) fn place(&self) -> Vec<u8> {
        [Some(&self.name), self.machine.as_ref()]
            .into_iter()
            .flatten()
            .cloned()
            .collect::<Vec<_>>()
            .join(&b' ')
    }

    /// The name in a place, if that is not this machine's. A place that was written without an id is
    /// compared by name alone.
    pub(crate) fn other_name<'a>(&self, place: &'a [u8]) -> Option<&'a [u8]> {
        let mut words = place.split(|byte| *byte == b' ');
        let (name, machine) = (words.next()?, words.next());
        let is_other_machine =
            self.machine.as_ref().zip(machine).is_some_and(|(ours, theirs)| ours.as_slice() != theirs);
        (self.name != name || is_other_machine).then_some(name)
    }

    /// Is that another machine, and not this one before a reboot? A host with our kernel's boot id sees our
    /// locks and sockets, whatever its name is.
    pub(crate) fn is_another(&self, other: &Host) -> bool {
        let is_other_machine =
            self.machine.as_ref().zip(other.machine.as_ref()).is_some_and(|(ours, theirs)| ours != theirs);
        self.boot != other.boot && (self.name != other.name || is_other_machine)
    }
}

/// 64 bits of a machine-id, which has twice as many: a hash of its 32 digits.
/// `None` if it is invalid, such as the word `uninitialized`.
fn machine_of(id: &[u8]) -> Option<Vec<u8>> {
    let is_id = id.len() == 32 && id.iter().all(u8::is_ascii_hexdigit);
    is_id.then(|| format!("{:016x}", fnv(id)).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_of_this_machine_if_its_name_and_its_id_are() {
        let host = |line: &str| Host::parse(line.as_bytes()).unwrap();
        for (ours, other, name) in [
            ("1-2 node1\n", "3-4 node1\n", None),
            ("1-2 node1\n", "1-2 box\n", Some("box")),
            ("1-2 node1 a\n", "3-4 node1 a\n", None),
            ("1-2 node1 a\n", "3-4 node1 b\n", Some("node1")),
            ("1-2 node1 a\n", "3-4 node1\n", None),
            ("1-2 node1\n", "3-4 node1 a\n", None),
        ] {
            let place = host(other).place();
            assert_eq!(host(ours).other_name(&place), name.map(str::as_bytes), "{ours}{other}");
        }
    }

    #[test]
    fn a_host_is_another_where_its_kernel_is_and_its_name_or_its_machine() {
        let host = |line: &str| Host::parse(line.as_bytes()).unwrap();
        for (ours, other, is_another) in [
            ("1-2 node1\n", "1-2 node1\n", false),
            ("1-2 node1\n", "1-2 box\n", false),
            ("1-2 node1\n", "3-4 node1\n", false),
            ("1-2 node1\n", "3-4 node2\n", true),
            ("1-2 node1 a\n", "3-4 node1 a\n", false),
            ("1-2 node1 a\n", "3-4 node1 b\n", true),
            // Images of virtual machines are copied with it.
            ("1-2 node1 a\n", "3-4 node2 a\n", true),
            ("1-2 node1 a\n", "1-2 node1 b\n", false),
            // An older version did not write the machine, or there is none.
            ("1-2 node1 a\n", "3-4 node1\n", false),
            ("1-2 node1\n", "3-4 node1 a\n", false),
        ] {
            assert_eq!(host(ours).is_another(&host(other)), is_another, "{ours}{other}");
            assert_eq!(host(ours).line(), ours.as_bytes());
        }
        for line in ["", "\n", "1-2\n", "1-2 \n", " node1\n", "1-2 node1"] {
            assert_eq!(Host::parse(line.as_bytes()), None, "{line:?}");
        }
        let ours = Host::ours().unwrap();
        assert_eq!(Host::parse(&ours.line()), Some(ours));
    }

    #[test]
    fn a_machine_id_is_shortened() {
        let (one, other) = ("3d1219c7c4c5404aaa1f6d2a48adfda4", "3d1219c7c4c5404aaa1f6d2a48adfda5");
        let kept = machine_of(one.as_bytes()).unwrap();
        assert!(kept.len() == 16 && kept != machine_of(other.as_bytes()).unwrap());
        for id in ["", "uninitialized", &one[1..], "3d1219c7-c4c5404aaa1f6d2a48adfda"] {
            assert_eq!(machine_of(id.as_bytes()), None, "{id}");
        }
    }
}
