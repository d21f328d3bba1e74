//! Restricts a session's programs, for us and all our descendants.
//!
//! The kernel enforces it, and no process can undo it. For files and TCP it is landlock(7). We request
//! every right for writing by paths that Landlock knows: to make, open for writing, truncate, rename,
//! link and remove. That requires Landlock as of Linux 6.2, and ports that of 6.7; on older kernels it
//! is an error. Newer kernels also restrict ioctls of devices opened later (6.10), and signals and
//! abstract sockets to the outside (6.12). For all other system calls it is seccomp(2).
//!
//! Landlock has no rule that takes something away. So for a session that may read or write everywhere
//! except in the state directory, each entry of each directory above that gets a rule. Directories may
//! then be listed everywhere. What is made later directly in one of those above is out of reach.
//!
//! We tag confined processes so that others can see it, because the kernel does not report it.
//!
//! Landlock does not cover modes, owners, times and extended attributes of files (6.2 to 7.0), nor
//! sockets that are reached by a path (until 7.1).

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            fs::{FileTypeExt, PermissionsExt},
        },
    },
    path::{Path, PathBuf},
};

use landlock::{
    ABI, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Errno, NetPort, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::sys::{
    files, peers, processes,
    seccomp::{self, Filter, Sockets},
};

/// Less would let a file be emptied that may not be written to.
const LEAST: ABI = ABI::V3;

/// Devices that programs write to and that keep nothing, and the caller's own terminal.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

/// Two limits without effect since Linux 2.4 (getrlimit(2)), and their names in /proc/PID/limits. Only
/// root can raise a hard limit, and all descendants inherit it. So a tag in it cannot be removed.
const TAGGED_LIMITS: [(Resource, &str); 2] =
    [(Resource::Locks, "Max file locks"), (Resource::Rss, "Max resident set")];

/// More than any limit that a person would set, and less than unlimited.
const TAG: u64 = 1 << 48;

/// A process's rights to use the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Network {
    #[default]
    All,
    /// Connections by TCP to these ports, and pairs of sockets.
    Ports(Vec<u16>),
}

/// The restrictions of a session's processes. All paths are absolute and without links.
///
/// The state directory is never within reach, except for the directory of the session itself, from which its
/// shell reads the commands of `run`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Confinement {
    /// For temporary files, in the session's directory; it need not be there before this is enforced.
    pub(crate) private: PathBuf,
    /// The paths it may write besides; `None` for all outside the state directory.
    pub(crate) writes: Option<Vec<PathBuf>>,
    /// The paths it may read and execute, besides the system and those it may write; `None` for all outside
    /// the state directory.
    pub(crate) reads: Option<Vec<PathBuf>>,
    pub(crate) network: Network,
}

impl Confinement {
    /// It as words for another process: a letter, and its value.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let word = |letter: &str, path: &Path| {
            let mut word = OsString::from(letter);
            word.push(path);
            word
        };
        let mut words = vec![word("t", &self.private)];
        for (all, each, roots) in [("W", "w", &self.writes), ("R", "r", &self.reads)] {
            words.extend(roots.is_some().then(|| all.into()));
            words.extend(roots.iter().flatten().map(|root| word(each, root)));
        }
        if let Network::Ports(ports) = &self.network {
            words.push("n".into());
            words.extend(ports.iter().map(|port| format!("c{port}").into()));
        }
        words
    }

    /// `None` if they are not such words.
    pub(crate) fn of_words(words: &[OsString]) -> Option<Confinement> {
        let mut found = Confinement::default();
        for word in words {
            let (letter, rest) = word.as_bytes().split_first()?;
            let path = || Some(PathBuf::from(OsStr::from_bytes(rest))).filter(|path| path.is_absolute());
            match letter {
                b't' => found.private = path()?,
                b'W' => found.writes = Some(Vec::new()),
                b'w' => found.writes.as_mut()?.push(path()?),
                b'R' => found.reads = Some(Vec::new()),
                b'r' => found.reads.as_mut()?.push(path()?),
                b'n' => found.network = Network::Ports(Vec::new()),
                b'c' => match &mut found.network {
                    Network::Ports(ports) => ports.push(std::str::from_utf8(rest).ok()?.parse().ok()?),
                    Network::All => return None,
                },
                _ => return None,
            }
        }
        found.private.is_absolute().then_some(found)
    }

    /// Why it could not be enforced here and now, if it could not.
    pub(crate) fn check(&self) -> io::Result<()> {
        let too_low = |(resource, _)| getrlimit(resource).maximum.is_some_and(|most| most < 2 * TAG);
        if TAGGED_LIMITS.into_iter().any(too_low) {
            return Err(io::Error::other("there is already a hard limit on locks or on the resident set"));
        }
        self.ruleset()?;
        if self.filter().is_some() {
            seccomp::check()?;
        }
        // Without this we could not detect a confined process that connects.
        if !peers::are_told()? {
            return Err(io::Error::other("the kernel cannot list open sockets (CONFIG_UNIX_DIAG)"));
        }
        Ok(())
    }

    /// Confines this thread, which must be the only one, and all that it
    /// starts, and tags them with a number. The terminal on standard input stays
    /// open to reading and writing.
    pub(crate) fn enforce(&self, number: u32) -> io::Result<()> {
        for ((resource, _), tag) in TAGGED_LIMITS.into_iter().zip(tags(number)) {
            setrlimit(resource, Rlimit { current: Some(tag), maximum: Some(tag) })?;
        }
        let session = self.private.parent().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let session = PathBeneath::new(
            open(session, OFlags::DIRECTORY)?,
            self.to_read() & !BitFlags::from(AccessFs::Execute),
        );
        let terminal = PathBeneath::new(rustix::stdio::stdin(), of_devices());
        // For `report`, which hooks call.
        let ourselves = PathBeneath::new(std::fs::File::open("/proc/self/exe")?, self.to_read());
        let private = PathBeneath::new(open(&self.private, OFlags::DIRECTORY)?, to_write() | self.to_read());
        let restricted = self
            .ruleset()?
            .add_rule(private)
            .and_then(|ruleset| ruleset.add_rule(session))
            .and_then(|ruleset| ruleset.add_rule(ourselves))
            .and_then(|ruleset| ruleset.add_rule(terminal))
            .and_then(RulesetCreated::restrict_self)
            .map_err(told)?;
        if restricted.ruleset == RulesetStatus::NotEnforced {
            return Err(io::Error::other("the kernel did not do it"));
        }
        drop_capabilities()?;
        self.filter().map_or(Ok(()), |filter| seccomp::install(&filter))
    }

    /// The filter of system calls, if one is needed. A process that only may not write keeps the calls that
    /// lead to no writing.
    fn filter(&self) -> Option<Filter> {
        let network = match &self.network {
            Network::All => Sockets::All,
            Network::Ports(ports) if ports.is_empty() => Sockets::Pairs,
            Network::Ports(_) => Sockets::Tcp,
        };
        (self.reads.is_some() || network != Sockets::All).then(|| seccomp::filter(network))
    }

    /// The rights to read that it restricts. A rule may not give others.
    fn to_read(&self) -> BitFlags<AccessFs> {
        if self.reads.is_some() { to_read() } else { AccessFs::ReadFile.into() }
    }

    /// All rules, except those for the session's directory and the terminal.
    fn ruleset(&self) -> io::Result<RulesetCreated> {
        let mut handled = least()?.set_compatibility(CompatLevel::BestEffort);
        handled = handled.handle_access(AccessFs::IoctlDev).map_err(told)?;
        if self.reads.is_some() {
            handled = handled.handle_access(to_read()).map_err(told)?;
        }
        let ports: &[u16] = match &self.network {
            Network::Ports(ports) => ports,
            Network::All => &[],
        };
        if !ports.is_empty() {
            handled = handled
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)
                .map_err(|_| io::Error::other("the kernel has no Landlock of Linux 6.7 with CONFIG_INET"))?
                .set_compatibility(CompatLevel::BestEffort);
        }
        let ruleset = handled
            .scope(Scope::AbstractUnixSocket | Scope::Signal)
            .and_then(Ruleset::create)
            .and_then(|ruleset| {
                ruleset.add_rules(
                    ports
                        .iter()
                        .map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp))),
                )
            })
            .map_err(told)?;
        let mut rules: Vec<PathBeneath<OwnedFd>> = Vec::new();
        for device in DEVICES {
            rules.extend(
                open(Path::new(device), OFlags::empty())
                    .map(|found| PathBeneath::new(found, of_devices()))
                    .ok(),
            );
        }
        for root in self.writes.iter().flatten() {
            rules.push(PathBeneath::new(named(root)?, to_write() | self.to_read()));
        }
        match &self.reads {
            Some(roots) => {
                for root in roots {
                    rules.push(PathBeneath::new(named(root)?, self.to_read()));
                }
                rules.extend(system());
            }
            None => {
                let rights = if self.writes.is_none() { to_write() | self.to_read() } else { self.to_read() };
                rules.extend(self.beside_state(rights)?);
            }
        }
        ruleset.add_rules(rules.into_iter().map(Ok::<_, RulesetError>)).map_err(told)
    }

    /// Rules with these rights for all that lies beside the state directory, and for no more: each
    /// entry of each directory above it.
    fn beside_state(&self, rights: BitFlags<AccessFs>) -> io::Result<Vec<PathBeneath<OwnedFd>>> {
        let state =
            self.private.ancestors().nth(3).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut rules = Vec::new();
        let devices = Path::new("/dev");
        for above in state.ancestors().skip(1).chain([devices]) {
            // A directory that we cannot list we cannot grant, either.
            for entry in std::fs::read_dir(above).into_iter().flatten().flatten() {
                let path = entry.path();
                let is_device = above == devices;
                if state.starts_with(&path) || path == devices || (is_device && is_kept(&entry)) {
                    continue;
                }
                // The kernel's files change the machine, not the user's files.
                let is_kernel_s = path == Path::new("/proc") || path == Path::new("/sys");
                let rights = if is_kernel_s { rights & self.to_read() } else { rights };
                rules.extend(beneath(&path, rights));
            }
        }
        Ok(rules)
    }
}

/// Devices through which a process reaches disks, memory or the terminals of others.
fn is_kept(entry: &std::fs::DirEntry) -> bool {
    const KEPT: [&str; 10] = ["mem", "kmem", "port", "tty", "pts", "ptmx", "vcs", "console", "hvc", "vsock"];
    let name = entry.file_name();
    let name = name.to_string_lossy();
    entry.file_type().is_ok_and(|kind| kind.is_block_device())
        || KEPT.iter().any(|kept| name.starts_with(kept))
}

/// Rules for the files that programs need to run.
fn system() -> Vec<PathBeneath<OwnedFd>> {
    /// Some lead elsewhere, as /bin to /usr/bin. Only root changes them.
    const PLACES: [&str; 10] = [
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/nix/store",
        "/gnu/store",
        "/proc",
        "/sys/devices/system",
    ];
    const FILES: [&str; 3] = ["/dev/random", "/dev/urandom", "/etc/resolv.conf"];
    let mut rules: Vec<_> = PLACES
        .iter()
        .chain(&FILES)
        .filter_map(|place| beneath(&files::real_path(Path::new(place)).ok()?, to_read()))
        .collect();
    if rustix::process::geteuid().is_root() {
        if all_may_read(Path::new("/etc"), &mut rules) {
            rules.extend(beneath(Path::new("/etc"), to_read()));
        }
    } else {
        rules.extend(beneath(Path::new("/etc"), to_read()));
    }
    rules
}

/// May users other than root read everything in this directory? If not, it adds rules for the parts they may.
fn all_may_read(folder: &Path, rules: &mut Vec<PathBeneath<OwnedFd>>) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    let (mut readable, mut all) = (Vec::new(), true);
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(found) = entry.metadata() else { continue };
        let (mode, is_folder) = (found.permissions().mode(), found.is_dir());
        let may = found.is_symlink()
            || match is_folder {
                false => mode & 0o4 != 0,
                true => mode & 0o5 == 0o5 && all_may_read(&path, rules),
            };
        if may { readable.push(path) } else { all = false }
    }
    if !all {
        rules.extend(readable.iter().filter_map(|path| beneath(path, to_read())));
    }
    all
}

/// Leaves root only what it needs for its own files and processes. With the rest, it could read the
/// memory of processes outside (CAP_PERFMON, CAP_SYS_ADMIN), raise the limits that tag it
/// (CAP_SYS_RESOURCE), or change the kernel.
fn drop_capabilities() -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
    let kept = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::KILL
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID
        | CapabilitySet::SETPCAP
        | CapabilitySet::SETFCAP
        | CapabilitySet::NET_BIND_SERVICE;
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    let sets = CapabilitySets {
        effective: effective & kept,
        permitted: permitted & kept,
        inheritable: inheritable & kept,
    };
    // With no_new_privs, no program gives one back (capabilities(7)).
    Ok(set_capabilities(None, sets)?)
}

/// Can this kernel confine a process?
pub(crate) fn is_possible() -> bool {
    least().is_ok()
}

/// For each option and each further ability: why this kernel cannot enforce it, if it cannot.
pub(crate) fn abilities() -> [(&'static str, Option<String>); 6] {
    let lacks = |linux: &str, found: Result<Ruleset, RulesetError>| {
        found.err().map(|_| format!("the kernel has no Landlock of Linux {linux}"))
    };
    let hard = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let files = || least().err().map(|error| error.to_string());
    let filters = || seccomp::check().err().map(|error| error.to_string());
    let tcp = || lacks("6.7", hard().handle_access(AccessNet::ConnectTcp));
    [
        ("--write-root", files()),
        ("--read-root", files().or_else(filters)),
        ("--no-network", files().or_else(filters)),
        ("--connect", files().or_else(filters).or_else(tcp)),
        ("control of devices", lacks("6.10", hard().handle_access(AccessFs::IoctlDev))),
        ("signals to others", lacks("6.12", hard().scope(Scope::Signal))),
    ]
}

/// The version of the kernel.
pub(crate) fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim_end().to_owned()
}

/// A process can only lower limits. To change its number it would have to raise one of the two.
fn tags(number: u32) -> [u64; 2] {
    [number, !number].map(|number| TAG + u64::from(number))
}

/// The meaning of the two limits of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// It has no tag.
    Absent,
    Number(u32),
    /// It had a tag that was changed, or a user set these limits.
    Spoilt,
}

/// The tag of a process; `None` if it has gone.
pub(crate) fn tag_of(pid: u32) -> Option<Tag> {
    let limits = processes::hard_limits(pid, TAGGED_LIMITS)?;
    let [Some(first), Some(second)] = limits else { return Some(Tag::Spoilt) };
    let Some(first) = first else { return Some(Tag::Absent) };
    let number = first.checked_sub(TAG).and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| second.is_some_and(|second| [first, second] == tags(*number)));
    Some(number.map_or(Tag::Spoilt, Tag::Number))
}

/// Resolves a root: absolute, and without links. It rejects a path that another user's link is part
/// of.
pub(crate) fn root(path: &Path) -> io::Result<PathBuf> {
    let path = files::absolute(path)?;
    for part in path.ancestors() {
        if files::is_strangers_link(part)? {
            return Err(io::Error::other(format!("'{}' is another user's link", part.display())));
        }
    }
    let root = files::real_path(&path)?;
    open(&root, OFlags::DIRECTORY)?;
    Ok(root)
}

fn named(root: &Path) -> io::Result<OwnedFd> {
    open(root, OFlags::DIRECTORY)
        .map_err(|error| io::Error::new(error.kind(), format!("'{}': {error}", root.display())))
}

/// The rights that we require of the kernel.
fn least() -> io::Result<Ruleset> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(LEAST) | AccessFs::ReadFile)
        .map_err(|_| no_landlock())
}

/// All rights to write, except to make devices: those allow writing to any disk.
fn to_write() -> BitFlags<AccessFs> {
    let rights = AccessFs::from_write(LEAST) | AccessFs::IoctlDev;
    rights & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

/// All rights to read, of which the one to read files is always restricted.
fn to_read() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute
}

/// A rule for a file or a directory; `None` if we cannot open it, or if it is a link.
fn beneath(path: &Path, rights: BitFlags<AccessFs>) -> Option<PathBeneath<OwnedFd>> {
    Some(PathBeneath::new(open(path, OFlags::NOFOLLOW).ok()?, rights))
}

fn of_devices() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev
}

fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // A kernel from before Linux 5.6 has no openat2(2), and no Landlock either.
        Err(rustix::io::Errno::NOSYS) => Err(no_landlock()),
        opened => Ok(opened?),
    }
}

fn no_landlock() -> io::Error {
    io::Error::other("the kernel has no Landlock of Linux 6.2, or it is off")
}

/// The error's number shows it as well as the crate's messages, which take 30 KB.
fn told(error: RulesetError) -> io::Error {
    io::Error::from_raw_os_error(*Errno::from(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confinement_is_read_back_from_its_words() {
        let all = Confinement {
            private: "/s/tmp".into(),
            writes: Some(vec!["/w".into()]),
            reads: Some(vec!["/r".into(), "/q x".into()]),
            network: Network::Ports(vec![443]),
        };
        let none = Confinement { reads: Some(Vec::new()), writes: None, ..all.clone() };
        for confinement in [all, none, Confinement { private: "/t".into(), ..Confinement::default() }] {
            assert_eq!(Confinement::of_words(&confinement.words()), Some(confinement));
        }
        for bad in [&["x"][..], &["t/a", "w/b"], &["t/a", "c1"], &["t/a", "n", "cx"], &["ta"], &[""], &[]] {
            let words: Vec<OsString> = bad.iter().map(OsString::from).collect();
            assert_eq!(Confinement::of_words(&words), None, "{bad:?}");
        }
    }
}
