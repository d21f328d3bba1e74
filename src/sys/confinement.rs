//! Restricts writing to a few directories, for us and all our descendants.
//!
//! The kernel enforces it (landlock(7)), and no process can undo it. We request every right for
//! writing by paths that Landlock knows: to make, open for writing, truncate, rename, link and remove.
//! That requires Landlock as of Linux 6.2; on older kernels it is an error. Newer kernels also
//! restrict ioctls of devices opened later (6.10), and signals and abstract sockets to the outside
//! (6.12).
//!
//! We tag confined processes so that others can see it, because the kernel does not report it.
//!
//! Landlock does not cover modes, owners, times and extended attributes of files (6.2 to 7.0), nor
//! sockets that are reached by a path (until 7.1).

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, Errno, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::sys::{peers, processes};

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

/// The directories where a process may write. All paths are absolute and without links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Confinement {
    /// For temporary files; it need not be there before it is enforced.
    pub(crate) private: PathBuf,
    pub(crate) roots: Vec<PathBuf>,
}

impl Confinement {
    /// Why it could not be enforced here and now, if it could not.
    pub(crate) fn check(&self) -> io::Result<()> {
        let too_low = |(resource, _)| getrlimit(resource).maximum.is_some_and(|most| most < 2 * TAG);
        if TAGGED_LIMITS.into_iter().any(too_low) {
            return Err(io::Error::other("there already is a hard limit on locks or on the resident set"));
        }
        ruleset(&self.roots)?;
        // Without this we could not detect a confined process that connects.
        if !peers::are_told()? {
            return Err(io::Error::other("the kernel cannot list open sockets (CONFIG_UNIX_DIAG)"));
        }
        Ok(())
    }

    /// Confines this thread, which must be the only one, and all that it
    /// starts, and tags them with a number. The terminal on standard input stays
    /// open to writing.
    pub(crate) fn enforce(&self, number: u32) -> io::Result<()> {
        for ((resource, _), tag) in TAGGED_LIMITS.into_iter().zip(tags(number)) {
            setrlimit(resource, Rlimit { current: Some(tag), maximum: Some(tag) })?;
        }
        let terminal = PathBeneath::new(rustix::stdio::stdin(), of_devices());
        let restricted = ruleset(&self.roots)?
            .add_rule(beneath(&self.private)?)
            .and_then(|ruleset| ruleset.add_rule(terminal))
            .and_then(RulesetCreated::restrict_self)
            .map_err(told)?;
        match restricted.ruleset {
            RulesetStatus::NotEnforced => Err(io::Error::other("the kernel did not do it")),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }
}

/// Can this kernel confine anybody?
pub(crate) fn is_possible() -> bool {
    least().is_ok()
}

/// A process can only lower limits. To change its number it would have to raise one of the two.
fn tags(number: u32) -> [u64; 2] {
    [number, !number].map(|number| TAG + u64::from(number))
}

/// The meaning of the two limits of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// That it has none.
    Absent,
    Number(u32),
    /// It had a tag that was changed, or a user set these limits.
    Spoilt,
}

/// The tag of a process; `None` if it has gone.
pub(crate) fn tag_of(pid: u32) -> Option<Tag> {
    let limits = match pid == std::process::id() {
        true => TAGGED_LIMITS.map(|(resource, _)| Some(getrlimit(resource).maximum)),
        false => processes::hard_limits(pid, TAGGED_LIMITS.map(|(_, name)| name))?,
    };
    let [Some(first), Some(second)] = limits else { return Some(Tag::Spoilt) };
    let Some(first) = first else { return Some(Tag::Absent) };
    let number = first.checked_sub(TAG).and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| second.is_some_and(|second| [first, second] == tags(*number)));
    Some(number.map_or(Tag::Spoilt, Tag::Number))
}

/// Resolves a root: absolute, and without links. It rejects a path that another user's link is part
/// of.
pub(crate) fn root(path: &Path) -> io::Result<PathBuf> {
    let path = crate::sys::files::absolute(path)?;
    for part in path.ancestors() {
        if crate::sys::files::is_strangers_link(part)? {
            return Err(io::Error::other(format!("'{}' is another user's link", part.display())));
        }
    }
    let root = path.canonicalize()?;
    open(&root, OFlags::DIRECTORY)?;
    Ok(root)
}

fn ruleset(roots: &[PathBuf]) -> io::Result<RulesetCreated> {
    let ruleset = least()?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::IoctlDev)
        .and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(Ruleset::create)
        .map_err(told)?;
    let devices = DEVICES.iter().filter_map(|device| open(Path::new(device), OFlags::empty()).ok());
    let devices = devices.map(|device| Ok(PathBeneath::new(device, of_devices())));
    let roots = roots.iter().map(|root| {
        beneath(root).map_err(|error| io::Error::new(error.kind(), format!("'{}': {error}", root.display())))
    });
    let rules: Vec<PathBeneath<OwnedFd>> = devices.chain(roots).collect::<io::Result<_>>()?;
    ruleset.add_rules(rules.into_iter().map(Ok::<_, RulesetError>)).map_err(told)
}

/// The rights that we require of the kernel.
fn least() -> io::Result<Ruleset> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(LEAST))
        .map_err(|_| no_landlock())
}

/// All rights to write, except to make devices: those allow writing to any disk.
fn beneath(folder: &Path) -> io::Result<PathBeneath<OwnedFd>> {
    let rights = AccessFs::from_write(LEAST) | AccessFs::IoctlDev;
    let rights = rights & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    Ok(PathBeneath::new(open(folder, OFlags::DIRECTORY)?, rights))
}

fn of_devices() -> BitFlags<AccessFs> {
    AccessFs::WriteFile | AccessFs::IoctlDev
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

/// Its number says it as well as the words of the crate, which take 30 KB.
fn told(error: RulesetError) -> io::Error {
    io::Error::from_raw_os_error(*Errno::from(error))
}
