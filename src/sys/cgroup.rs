//! A cgroup (version 2) of a session's own, by which the kernel limits all its processes together
//! (cgroups(7)).
//!
//! A cgroup with processes in it cannot limit others below it, so a session's is made beside ours, or else
//! below. That needs permission to write there, as root and containers with writable cgroups have it.
//! Otherwise the user's systemd delegates a cgroup.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

use super::user_manager::UserManager;

/// The limits of all processes of a session together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceLimits {
    /// Bytes.
    pub(crate) memory: Option<u64>,
    /// Processes and threads.
    pub(crate) tasks: Option<u64>,
    /// Percent of one processor.
    pub(crate) cpu: Option<u64>,
}

impl ResourceLimits {
    fn each(&self) -> [(&'static str, Option<u64>); 3] {
        [("memory", self.memory), ("tasks", self.tasks), ("cpu", self.cpu)]
    }

    /// The limits that are set, by their names.
    pub(crate) fn set(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.each().into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.set().next().is_none()
    }

    /// Sets the limit of that name; `false` if there is none.
    pub(crate) fn note(&mut self, name: &[u8], value: u64) -> bool {
        let place = match name {
            b"memory" => &mut self.memory,
            b"tasks" => &mut self.tasks,
            b"cpu" => &mut self.cpu,
            _ => return false,
        };
        *place = Some(value);
        true
    }

    /// The controllers that it takes.
    fn controllers(&self) -> impl Iterator<Item = &'static str> {
        self.set().map(|(name, _)| if name == "tasks" { "pids" } else { name })
    }

    /// The files of a cgroup, and their contents.
    fn files(&self) -> Vec<(&'static str, String)> {
        let mut files = Vec::new();
        for (name, value) in self.set() {
            match name {
                // All of a session ends, never one of its processes, which may be its shell.
                "memory" => {
                    files.extend([("memory.max", value.to_string()), ("memory.oom.group", "1".into())])
                }
                "tasks" => files.push(("pids.max", value.to_string())),
                _ => files.push(("cpu.max", format!("{} 100000", value * 1_000))),
            }
        }
        files
    }
}

/// The cgroup of one session.
#[derive(Debug)]
pub(crate) struct Cgroup(PathBuf);

/// Names of sessions' cgroups begin so.
const PREFIX: &str = "nbs-";

impl Cgroup {
    /// Makes one for a session, and moves a process of the session to it. The calling process must live as
    /// long as the session, and may be moved to another cgroup, too.
    pub(crate) fn make(session: u32, limits: &ResourceLimits, pid: u32) -> io::Result<Cgroup> {
        let made = in_one_of(&ours()?, |parent| Cgroup::make_in(parent, session, limits, pid));
        made.or_else(|why| Cgroup::make_delegated(session, limits, pid).map_err(|error| both(&why, error)))
    }

    /// That of a session, if this process is in it.
    pub(crate) fn of(session: u32, pid: u32) -> Option<Cgroup> {
        let (mount, root) = mount().ok()?;
        let path = path_in(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?, &root)?;
        (path.file_name()? == &*format!("{PREFIX}{session:08x}")).then(|| Cgroup(mount.join(path)))
    }

    fn make_delegated(session: u32, limits: &ResourceLimits, pid: u32) -> io::Result<Cgroup> {
        let us = process::id();
        // A scope of that name may still be about to go.
        UserManager::connect()?.delegate(&format!("{PREFIX}{session:08x}-{us}.scope"), &[us, pid])?;
        let (scope, _) = ours()?;
        // A cgroup with processes in it cannot limit those below.
        let relay = scope.join("relay");
        fs::create_dir(&relay).map_err(|error| naming(&relay, error))?;
        for moved in [us, pid] {
            fs::write(relay.join("cgroup.procs"), moved.to_string())
                .map_err(|error| naming(&relay, error))?;
        }
        Cgroup::make_in(&scope, session, limits, pid)
    }

    fn make_in(parent: &Path, session: u32, limits: &ResourceLimits, pid: u32) -> io::Result<Cgroup> {
        let failed = |error| naming(parent, error);
        delegated(parent, limits)?;
        let given = fs::read_to_string(parent.join("cgroup.subtree_control")).map_err(failed)?;
        for controller in limits.controllers() {
            if !given.split_whitespace().any(|word| word == controller) {
                fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}")).map_err(failed)?;
            }
        }
        let cgroup = Cgroup(parent.join(format!("{PREFIX}{session:08x}")));
        fs::create_dir(&cgroup.0).map_err(failed)?;
        let limited = || {
            for (file, content) in limits.files() {
                fs::write(cgroup.0.join(file), content)?;
            }
            if limits.memory.is_some() {
                // Without a swap there is no such file.
                let _ = fs::write(cgroup.0.join("memory.swap.max"), "0");
            }
            fs::write(cgroup.0.join("cgroup.procs"), pid.to_string())
        };
        limited().map_err(|error| {
            cgroup.remove();
            failed(error)
        })?;
        Ok(cgroup)
    }

    /// Has the kernel ended its processes because they reached their limit of memory?
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.0.join("memory.events")).unwrap_or_default();
        events.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count != "0"))
    }

    /// The processor time that its processes have taken.
    pub(crate) fn cpu_ms(&self) -> Option<i64> {
        let stat = fs::read_to_string(self.0.join("cpu.stat")).ok()?;
        let taken = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?.parse::<i64>().ok()?;
        Some(taken / 1_000)
    }

    /// The number in one of its files; `None` if this kernel has no such file, or the controller is off.
    pub(crate) fn number(&self, file: &str) -> Option<i64> {
        fs::read_to_string(self.0.join(file)).ok()?.trim_end().parse().ok()
    }

    /// Removes it, if no process is in it.
    pub(crate) fn remove(&self) {
        // Nothing depends on it, and root finds it by its name.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Why sessions cannot be limited here, if they cannot.
pub(crate) fn check() -> io::Result<()> {
    let all = ResourceLimits { memory: Some(1), tasks: Some(1), cpu: Some(1) };
    let found = in_one_of(&ours()?, |parent| {
        delegated(parent, &all)?;
        let procs = rustix::fs::access(parent.join("cgroup.procs"), rustix::fs::Access::WRITE_OK);
        procs.map_err(|error| naming(parent, error.into()))
    });
    found.or_else(|why| {
        let by_systemd = || {
            let (mount, root) = mount()?;
            let cgroup = UserManager::connect()?.cgroup()?;
            let cgroup = Path::new(&cgroup).strip_prefix(root).map_err(io::Error::other)?;
            delegated(&mount.join(cgroup), &all)
        };
        by_systemd().map_err(|error| both(&why, error))
    })
}

/// The reasons why neither we nor the user's systemd can make a cgroup; only ours if no systemd is running.
fn both(ours: &io::Error, systemd: io::Error) -> io::Error {
    match systemd.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            io::Error::new(ours.kind(), ours.to_string())
        }
        _ => io::Error::other(format!("{ours}; by the user's systemd: {systemd}")),
    }
}

/// Tries it with the cgroups that may hold that of a session: beside ours, or else in ours.
fn in_one_of<T>(
    (ours, mount): &(PathBuf, PathBuf),
    attempt: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<T> {
    match ours.parent().filter(|parent| parent.starts_with(mount)) {
        Some(parent) => attempt(parent).or_else(|why| attempt(ours).map_err(|_| why)),
        None => attempt(ours),
    }
}

/// Are all controllers there that these limits take?
fn delegated(parent: &Path, limits: &ResourceLimits) -> io::Result<()> {
    let there =
        fs::read_to_string(parent.join("cgroup.controllers")).map_err(|error| naming(parent, error))?;
    match limits.controllers().find(|controller| !there.split_whitespace().any(|word| word == *controller)) {
        None => Ok(()),
        Some(lacking) => {
            let why = format!("the controller '{lacking}' is not delegated");
            Err(naming(parent, io::Error::other(why)))
        }
    }
}

fn naming(parent: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("'{}': {error}", parent.display()))
}

/// Our cgroup, and where all of them are.
fn ours() -> io::Result<(PathBuf, PathBuf)> {
    let (mount, root) = mount()?;
    let path = path_in(&fs::read_to_string("/proc/self/cgroup")?, &root);
    let path = path.ok_or_else(|| io::Error::other("our own cgroup is not visible here"))?;
    Ok((mount.join(path), mount))
}

/// The mount point of the cgroups, and the cgroup at its root.
fn mount() -> io::Result<(PathBuf, String)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let found = mounts.lines().find_map(|line| {
        let (fields, rest) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        rest.starts_with("cgroup2 ").then(|| Some((fields.next()?, fields.next()?)))?
    });
    let (root, mount) = found.ok_or_else(|| io::Error::other("no cgroups of version 2 are mounted"))?;
    Ok((mount.into(), root.to_owned()))
}

/// The path of a process's cgroup below that root, by its file in /proc.
fn path_in(cgroup: &str, root: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(Path::new(path).strip_prefix(root).ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_a_file() {
        let all = ResourceLimits { memory: Some(1 << 32), tasks: Some(500), cpu: Some(150) };
        let files = [
            ("memory.max", "4294967296".to_owned()),
            ("memory.oom.group", "1".to_owned()),
            ("pids.max", "500".to_owned()),
            ("cpu.max", "150000 100000".to_owned()),
        ];
        assert_eq!(all.files(), files);
    }

    #[test]
    fn a_cgroup_is_made_where_its_controllers_are() {
        let parent = std::env::temp_dir().join(format!("nbs-cgroup-{}", process::id()));
        fs::create_dir(&parent).unwrap();
        fs::write(parent.join("cgroup.controllers"), "cpu pids\n").unwrap();
        fs::write(parent.join("cgroup.subtree_control"), "\n").unwrap();
        let tasks = ResourceLimits { tasks: Some(7), ..ResourceLimits::default() };
        let cgroup = Cgroup::make_in(&parent, 0xabc, &tasks, 4).unwrap();
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!(read(&parent.join("cgroup.subtree_control")), "+pids");
        assert_eq!(cgroup.0, parent.join("nbs-00000abc"));
        assert_eq!(
            (read(&cgroup.0.join("pids.max")), read(&cgroup.0.join("cgroup.procs"))),
            ("7".into(), "4".into())
        );
        assert!(!cgroup.ran_out_of_memory());
        fs::write(cgroup.0.join("memory.events"), "low 0\nmax 9\noom 2\noom_kill 3\n").unwrap();
        assert!(cgroup.ran_out_of_memory());
        fs::write(cgroup.0.join("cpu.stat"), "usage_usec 1234567\nuser_usec 9\n").unwrap();
        fs::write(cgroup.0.join("memory.peak"), "4096\n").unwrap();
        assert_eq!((cgroup.cpu_ms(), cgroup.number("memory.peak")), (Some(1_234), Some(4_096)));
        assert_eq!(cgroup.number("pids.peak"), None);
        let memory = ResourceLimits { memory: Some(7), ..ResourceLimits::default() };
        let why = Cgroup::make_in(&parent, 0xabd, &memory, 4).unwrap_err().to_string();
        assert!(why.contains("'memory' is not delegated"), "{why}");
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn the_path_of_a_cgroup_is_below_what_is_mounted() {
        let cgroup = "9:name=systemd:/\n0::/user.slice/a.scope\n";
        assert_eq!(path_in(cgroup, "/"), Some("user.slice/a.scope".into()));
        assert_eq!(path_in(cgroup, "/user.slice"), Some("a.scope".into()));
        assert_eq!(path_in(cgroup, "/other"), None);
        assert_eq!(path_in("1:cpu:/\n", "/"), None);
    }
}
