//! The processes of this machine, as /proc shows them, and handles to them.
//!
//! The kernel reuses a PID once it is free. A [`PidFd`] always refers to the same process, so a signal
//! through it cannot hit another one.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    os::unix::net::UnixStream,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::{FileExt, FileTypeExt, MetadataExt},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Resource, Signal},
};
use signal_hook::consts::SIGKILL;

use crate::{
    sorted::Set,
    sys::{deadline::Deadline, hard_limit, peers, poll, socket},
};

/// A line of /proc/PID/stat (proc_pid_stat(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The name of its file, cut to 15 bytes.
    pub(crate) name: String,
    /// `R` running, `S` sleeping, `T` stopped, `Z` ended but not collected, ….
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// The foreground process group of its terminal; -1 if it has none.
    pub(crate) foreground: i32,
    /// In clock ticks since boot: with the PID, it names a process for good.
    started: u64,
    pub(crate) threads: u32,
    /// The processor time that it has taken, in milliseconds.
    pub(crate) cpu_ms: i64,
    /// The same of all children that it has waited for, and of those that these have.
    pub(crate) collected_cpu_ms: i64,
    flags: u32,
    /// The signals below 32 that its first thread is still to get.
    pending: u32,
    /// The address of its arguments. Each exec chooses it at random; 0 if the kernel hides it from us.
    arguments_at: u64,
}

impl Process {
    pub(crate) fn read(pid: u32) -> Option<Process> {
        // Its 52 fields are less than this, and given whole; to read on until
        // the end would be half of all system calls of a `kill`.
        let mut stat = [0; 2048];
        let count = File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut stat)).ok()?;
        Process::parse(pid, &stat[..count])
    }

    /// The name is in parentheses and may hold any byte, so the fields are those after the last `)`.
    fn parse(pid: u32, stat: &[u8]) -> Option<Process> {
        let opening = stat.iter().position(|byte| *byte == b'(')?;
        let closing = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(closing + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // On every architecture of ours, a tick in /proc is a hundredth of a second.
        let cpu_ms = |field: usize| {
            let ticks = |field: usize| fields.get(field)?.parse::<i64>().ok();
            Some((ticks(field)? + ticks(field + 1)?) * 10)
        };
        Some(Process {
            pid,
            name: String::from_utf8_lossy(stat.get(opening + 1..closing)?).into_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            foreground: fields.get(5)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            cpu_ms: cpu_ms(11)?,
            collected_cpu_ms: cpu_ms(13)?,
            flags: fields.get(6)?.parse().ok()?,
            pending: fields.get(28)?.parse().ok()?,
            arguments_at: fields.get(45).and_then(|field| field.parse().ok()).unwrap_or(0),
        })
    }

    /// Is it a copy of its parent that has executed no program since, as a shell's subshells are
    /// and, in many a busybox, its applets? Its arguments are those of the parent.
    pub(crate) fn is_copy(&self) -> bool {
        self.arguments_at != 0
            && Process::read(self.parent).is_some_and(|parent| parent.arguments_at == self.arguments_at)
    }

    pub(crate) fn has_ended(&self) -> bool {
        // A zombie with threads left still runs: only its first thread has ended.
        self.state == 'X' || (self.state == 'Z' && self.threads <= 1)
    }

    /// Has it ended, or is it about to: it runs no more of its code, since it has
    /// been killed, and the kernel may be closing its files (PF_EXITING,
    /// proc_pid_stat(5)).
    pub(crate) fn is_ending(&self) -> bool {
        const EXITING: u32 = 0x4;
        self.has_ended() || self.flags & EXITING != 0 || self.pending & (1 << (SIGKILL - 1)) != 0
    }

    /// By a signal (SIGCONT continues it), or by its tracer.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Whether its environment, as it was at its start, has this entry.
    pub(crate) fn had_in_environment(&self, entry: &[u8]) -> bool {
        self.environment().split(|byte| *byte == 0).any(|each| each == entry)
    }

    /// Its environment, as it was at its start: entries, each ended by NUL.
    pub(crate) fn environment(&self) -> Vec<u8> {
        whole(format!("/proc/{}/environ", self.pid)).unwrap_or_default()
    }

    /// The values that these variables had at its start.
    pub(crate) fn variables<const N: usize>(&self, names: [&str; N]) -> [Option<Vec<u8>>; N] {
        let environment = self.environment();
        let value = |name: &str| {
            let mut entries = environment.split(|byte| *byte == 0);
            entries.find_map(|entry| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec()))
        };
        names.map(value)
    }

    /// Its arguments, as they are now.
    pub(crate) fn arguments(&self) -> Vec<Vec<u8>> {
        let arguments = whole(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        arguments.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    }

    /// Is it our very own user's (proc_pid(5))?
    pub(crate) fn is_of_our_user(&self) -> bool {
        let ours = rustix::process::geteuid().as_raw();
        fs::metadata(format!("/proc/{}", self.pid)).is_ok_and(|folder| folder.uid() == ours)
    }

    /// Does it run the same file as we do, so that its name is true?
    pub(crate) fn runs_our_file(&self) -> bool {
        let file = |pid: &str| {
            let file = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
            Some((file.dev(), file.ino()))
        };
        let its = file(&self.pid.to_string());
        its.is_some() && its == file("self")
    }

    /// Does it ignore this signal, so that sending it cannot end it?
    pub(crate) fn ignores(&self, signal: i32) -> bool {
        self.has_in("SigIgn:", signal)
    }

    /// Does it have a handler for this signal?
    pub(crate) fn catches(&self, signal: i32) -> bool {
        self.has_in("SigCgt:", signal)
    }

    /// Is a signal in one of its masks (proc_pid_status(5))?
    fn has_in(&self, mask: &str, signal: i32) -> bool {
        status(self.pid, mask)
            .flatten()
            .and_then(|mask| u64::from_str_radix(&mask, 16).ok())
            .is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
    }

    pub(crate) fn threads(&self) -> impl Iterator<Item = Thread> {
        let folder = PathBuf::from(format!("/proc/{}/task", self.pid));
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| Thread(entry.path()))
    }

    /// Its children, as its threads list them (proc_tid_children(5)).
    pub(crate) fn children(&self) -> Vec<u32> {
        let lists = self.threads().filter_map(|thread| whole(thread.0.join("children")).ok());
        let lists = lists.filter_map(|list| String::from_utf8(list).ok());
        lists
            .flat_map(|list| list.split_ascii_whitespace().flat_map(str::parse).collect::<Vec<u32>>())
            .collect()
    }

    /// Was there a moment at which all its children passed a test? The test must not change back to
    /// false: an ended process, for example, stays ended.
    ///
    /// An empty list is exact. A longer one may miss a process, but only if the kernel reaped one that
    /// it had listed before; and that one is missing from the next list.
    pub(crate) fn had_only(&self, test: impl Fn(&Process) -> bool) -> bool {
        let children = self.children();
        let passed = || children.iter().copied().filter_map(Process::read).all(|child| test(&child));
        children.is_empty() || passed() && self.children() == children && self.children() == children
    }

    /// Its current directory.
    ///
    /// For a removed directory the kernel returns the old path and ` (deleted)`. A name may end like
    /// that, so we check what exists.
    pub(crate) fn folder(&self) -> io::Result<Whereabouts> {
        let link = PathBuf::from(format!("/proc/{}/cwd", self.pid));
        let path = fs::read_link(&link)?.into_os_string().into_vec();
        let (here, there) = (fs::metadata(&link), fs::metadata(OsStr::from_bytes(&path)));
        let same = match (here, there) {
            (Ok(here), Ok(there)) => (here.dev(), here.ino()) == (there.dev(), there.ino()),
            _ => false,
        };
        // It may have ended while we looked, and its PID be another's.
        if Process::read(self.pid).is_none_or(|now| now.started != self.started) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(match path.strip_suffix(b" (deleted)") {
            Some(path) if !same => Whereabouts { path: path.to_vec(), removed: true },
            _ => Whereabouts { path, removed: false },
        })
    }

    /// Opens a pidfd; `None` if the process has gone and its PID may belong to another.
    pub(crate) fn hold(&self) -> io::Result<Option<PidFd>> {
        let Some(pidfd) = PidFd::open(self.pid)? else { return Ok(None) };
        let same = Process::read(self.pid).is_some_and(|now| now.started == self.started);
        Ok(same.then_some(pidfd))
    }
}

/// A remark for an error about a process that does not respond: empty unless it is stopped.
pub(crate) fn stopped(pid: u32) -> String {
    match Process::read(pid).filter(Process::is_stopped) {
        Some(_) => format!(", and is stopped; try 'kill -CONT {pid}'"),
        None => String::new(),
    }
}

/// Has it set PR_SET_NO_NEW_PRIVS, so that neither it nor a descendant can gain rights by exec(3)?
/// `None` if it has gone.
pub(crate) fn has_no_new_privileges(pid: u32) -> Option<bool> {
    // An older kernel without this field does not have the feature.
    Some(status(pid, "NoNewPrivs:")?.as_deref() == Some("1"))
}

/// Does our own user run it, by the real user ID? `None` if it has gone.
pub(crate) fn is_our_user_s(pid: u32) -> Option<bool> {
    let real = status(pid, "Uid:")??.split_ascii_whitespace().next()?.parse::<u32>().ok()?;
    Some(real == rustix::process::geteuid().as_raw())
}

/// Hard limits of this process: a number, or none (`Some(None)`). `limits` names each as /proc/PID/limits does,
/// too (proc_pid_limits(5)). An entry is `None` if the file lacks it. `None` if the process has gone.
pub(crate) fn hard_limits<const N: usize>(
    pid: u32,
    limits: [(Resource, &str); N],
) -> Option<[Option<Option<u64>>; N]> {
    let asked = limits.map(|(resource, _)| hard_limit::of(pid, resource));
    if asked.iter().all(Option::is_some) {
        return Some(asked);
    }
    // We may not ask for those of another user, or of anyone if we are confined. The file shows them.
    let file = whole(format!("/proc/{pid}/limits")).ok()?;
    let limit = |name: &str| match value(&file, name)?.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(limits.map(|(_, name)| limit(name)))
}

/// A line of /proc/PID/status (proc_pid_status(5)) without its key, if there is one;
/// `None` if the process has gone.
fn status(pid: u32, key: &str) -> Option<Option<String>> {
    Some(value(&whole(format!("/proc/{pid}/status")).ok()?, key))
}

fn value(content: &[u8], key: &str) -> Option<String> {
    let mut lines = content.split(|byte| *byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(key.as_bytes()))?;
    Some(String::from_utf8_lossy(value).trim().to_owned())
}

/// The content of a file of /proc. Their reported size is 0, for which `fs::read` begins with reads of a few
/// bytes.
fn whole(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut content = Vec::with_capacity(4096);
    File::open(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// Has a process a certain socket open?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Yes,
    No,
    /// We may not look, or it has gone.
    Unknown,
}

/// Has this process a socket of one of these inodes open?
pub(crate) fn holds_socket(pid: u32, inodes: &[u32]) -> Holds {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let Ok(entries) = fs::read_dir(&folder) else { return Holds::Unknown };
    let mut descriptors = Vec::new();
    for entry in entries {
        let Ok(entry) = entry else { return Holds::Unknown };
        descriptors.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    // The descriptor that was opened last mostly has the highest number.
    descriptors.sort_unstable();
    for descriptor in descriptors.into_iter().rev() {
        let link = folder.join(descriptor.to_string());
        match peers::inode(&link) {
            Ok(Some(found)) if inodes.contains(&found) => return Holds::Yes,
            Ok(_) => {}
            // It was closed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return Holds::Unknown,
        }
    }
    Holds::No
}

/// The PIDs of every process that we may see.
pub(crate) fn pids() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(pids)
}

/// The PID that was given out last: as long as it stays the same, there is no new process
/// (proc_loadavg(5)).
pub(crate) fn newest_pid() -> io::Result<u32> {
    let load = whole("/proc/loadavg")?;
    let last = load.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let number = std::str::from_utf8(last).ok().and_then(|text| text.trim_end().parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The current directory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    pub(crate) path: Vec<u8>,
    pub(crate) removed: bool,
}

/// A thread, by its directory in /proc. We read all of its data there, because the data of its process
/// is gone once the first thread has ended.
pub(crate) struct Thread(PathBuf);

/// The reason why a thread sleeps, if we may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Input from one of these descriptors.
    Input(Vec<i32>),
    /// It sleeps as in a read of a terminal; which file it reads we may not see.
    SomeRead,
    /// It sleeps in a poll or select; of which files we may not see.
    SomePoll,
    /// It sleeps, and we may see nothing else of it.
    Hidden,
    /// Something else, or nothing: it runs, or is stopped.
    Other,
}

/// How long a thread sleeps at most, as far as we may see; the longer, the later in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timeout {
    /// Until something happens.
    Never,
    After(Duration),
    Unknown,
}

impl Thread {
    /// The event it waits for, if it sleeps.
    ///
    /// /proc/PID/syscall has the system call and its arguments (proc_pid_syscall(5)), and we can read the
    /// memory that they point to (proc_pid_mem(5)). Both require the right to trace the process (ptrace(2)),
    /// but neither stops it nor attaches to it. Yama (ptrace_scope 1) gives that right to ancestors only.
    /// Without it, /proc/PID/wchan names the kernel function, which says less but only requires the right to
    /// read.
    pub(crate) fn awaits(&self) -> Awaited {
        let awaited = match self.called() {
            None => self.sleeps_in(),
            Some(called) => Awaited::Input(self.inputs(called.kind(), &called)),
        };
        // The call of a stopped thread is still shown, so this comes last.
        if awaited == Awaited::Input(Vec::new()) || !self.is_asleep() { Awaited::Other } else { awaited }
    }

    /// Does it sleep until a child of its process has ended?
    pub(crate) fn awaits_child(&self) -> bool {
        let awaits = match self.called() {
            None => self.wchan().starts_with("do_wait"),
            Some(called) => called.kind() == SyscallKind::Wait,
        };
        awaits && self.is_asleep()
    }

    /// How long it sleeps in its call at most. A read has no timeout.
    pub(crate) fn timeout(&self) -> Timeout {
        self.called().map_or(Timeout::Unknown, |called| called.timeout(|address| self.memory(address, 16)))
    }

    /// The system call that it is in, if we may see it and know its number.
    fn called(&self) -> Option<Called> {
        let called = Called::parse(&fs::read_to_string(self.0.join("syscall")).ok()?)?;
        (called.kind() != SyscallKind::Unknown).then_some(called)
    }

    fn wchan(&self) -> String {
        fs::read_to_string(self.0.join("wchan")).unwrap_or_default().trim().to_owned()
    }

    /// Its total CPU time, in nanoseconds: the first word of its schedstat (the kernel's
    /// Documentation/scheduler/sched-stats.rst), which is readable for all. `None` if it has gone, or
    /// the kernel does not count (CONFIG_SCHED_INFO).
    pub(crate) fn cpu_time(&self) -> Option<u64> {
        fs::read_to_string(self.0.join("schedstat")).ok()?.split_ascii_whitespace().next()?.parse().ok()
    }

    fn is_asleep(&self) -> bool {
        let stat = fs::read(self.0.join("stat")).unwrap_or_default();
        Process::parse(0, &stat).is_some_and(|thread| thread.state == 'S')
    }

    /// The descriptors that the call waits for input from.
    fn inputs(&self, kind: SyscallKind, called: &Called) -> Vec<i32> {
        let [first, second, ..] = called.arguments;
        // An int is in the lower half of a register; in the other may be anything.
        let int = |argument: u64| argument & u64::from(u32::MAX);
        match kind {
            SyscallKind::Read => i32::try_from(int(first)).into_iter().collect(),
            SyscallKind::Poll => polled(&self.memory(first, int(second) * 8)),
            SyscallKind::Select => selected(&self.memory(second, int(first).div_ceil(64) * 8), int(first)),
            SyscallKind::Epoll => {
                let fdinfo = self.0.join(format!("fdinfo/{}", int(first)));
                epolled(&fs::read_to_string(fdinfo).unwrap_or_default())
            }
            // Among our kinds only poll(2) is resumed in this way, after a stop,
            // and its arguments are still in the registers.
            SyscallKind::Restart if self.sleeps_in() == Awaited::SomePoll => {
                self.inputs(SyscallKind::Poll, called)
            }
            SyscallKind::Wait | SyscallKind::Restart | SyscallKind::Other | SyscallKind::Unknown => {
                Vec::new()
            }
        }
    }

    /// Some memory of the process; empty if we may not read it.
    fn memory(&self, address: u64, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX).min(LARGEST_SET)];
        let read = File::open(self.0.join("mem")).and_then(|memory| memory.read_at(&mut bytes, address));
        bytes.truncate(read.unwrap_or(0));
        bytes
    }

    /// Interprets the name of the kernel function in which it sleeps.
    fn sleeps_in(&self) -> Awaited {
        // A compiler's clone of a function has a suffix: `.constprop.0`.
        match self.wchan().split('.').next().unwrap_or_default() {
            // "0" means a running thread, or one that we may not inspect.
            "" | "0" => Awaited::Hidden,
            // Linux 5.4 to 6.18 sleep in the former, which sockets use as well.
            "wait_woken" | "n_tty_read" => Awaited::SomeRead,
            // The name depends on the functions that the compiler has inlined.
            "poll_schedule_timeout"
            | "do_select"
            | "core_sys_select"
            | "do_poll"
            | "do_sys_poll"
            | "ep_poll"
            | "do_epoll_wait" => Awaited::SomePoll,
            _ => Awaited::Other,
        }
    }

    /// The device that a descriptor of it is, if it is a device.
    pub(crate) fn device(&self, descriptor: i32) -> Option<u64> {
        device(&self.0.join(format!("fd/{descriptor}")))
    }

    /// Is this descriptor a socket with another process at its other end, or the master of a terminal?
    pub(crate) fn leads_elsewhere(&self, descriptor: i32) -> bool {
        let link = self.0.join(format!("fd/{descriptor}"));
        if let Ok(Some(inode)) = peers::inode(&link) {
            return peers::leads_elsewhere(inode, |other| {
                self.links().any(|link| peers::inode(&link).is_ok_and(|inode| inode == Some(other)))
            });
        }
        let target = fs::read_link(link).unwrap_or_default();
        let target = target.as_os_str().as_bytes();
        target.starts_with(b"/dev/") && target.ends_with(b"/ptmx")
    }

    /// The devices among its descriptors.
    pub(crate) fn devices(&self) -> impl Iterator<Item = u64> {
        self.links().filter_map(|link| device(&link))
    }

    /// Its descriptors.
    fn links(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(self.0.join("fd")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    }
}

/// We only inspect files in /dev: elsewhere a stat may block for as long as a remote file system takes
/// to answer.
fn device(path: &Path) -> Option<u64> {
    fs::read_link(path).ok().filter(|target| target.starts_with("/dev"))?;
    let found = fs::metadata(path).ok()?;
    found.file_type().is_char_device().then(|| found.rdev())
}

/// We read at most this much of a set of descriptors. It is far more than a program uses that waits
/// for a terminal, and cheap.
const LARGEST_SET: usize = 64 << 10;

/// A line of /proc/PID/syscall.
#[derive(Debug, PartialEq, Eq)]
struct Called {
    /// -1 where the thread runs, or is blocked outside a system call.
    number: i64,
    arguments: [u64; 6],
}

/// The kind of event that a system call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyscallKind {
    Read,
    Poll,
    Select,
    Epoll,
    /// For a child.
    Wait,
    Restart,
    Other,
    /// We do not know the numbers of this architecture.
    Unknown,
}

impl Called {
    fn parse(line: &str) -> Option<Called> {
        let mut words = line.split_ascii_whitespace();
        let mut arguments = [0; 6];
        let number = match words.next()? {
            "running" => -1,
            word => word.parse().ok()?,
        };
        // -1 is followed by the stack pointer and the program counter alone.
        if number >= 0 {
            for argument in &mut arguments {
                *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
            }
        }
        Some(Called { number, arguments })
    }

    /// From the kernel's arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h. A
    /// 32-bit program has other numbers and counts as waiting for something else.
    fn kind(&self) -> SyscallKind {
        match self.number {
            -1 => SyscallKind::Other,
            number if cfg!(target_arch = "x86_64") => match number {
                // read, readv (musl's stdio), splice (some cats)
                0 | 19 | 275 => SyscallKind::Read,
                // poll, ppoll
                7 | 271 => SyscallKind::Poll,
                // select, pselect6
                23 | 270 => SyscallKind::Select,
                // wait4, waitid
                61 | 247 => SyscallKind::Wait,
                // epoll_wait, epoll_pwait, epoll_pwait2
                232 | 281 | 441 => SyscallKind::Epoll,
                219 => SyscallKind::Restart,
                _ => SyscallKind::Other,
            },
            number if cfg!(target_arch = "aarch64") => match number {
                63 | 65 | 76 => SyscallKind::Read,
                73 => SyscallKind::Poll,
                72 => SyscallKind::Select,
                260 | 95 => SyscallKind::Wait,
                22 | 441 => SyscallKind::Epoll,
                _ => SyscallKind::Other,
            },
            _ => SyscallKind::Unknown,
        }
    }

    /// The timeout of a poll, a select or an epoll; `memory` reads a `struct timespec` or `timeval`.
    fn timeout(&self, memory: impl Fn(u64) -> Vec<u8>) -> Timeout {
        let [_, _, third, fourth, fifth, _] = self.arguments;
        let millis = |argument: u64| match u32::try_from(argument & u64::from(u32::MAX)) {
            Ok(millis) if millis <= i32::MAX as u32 => Timeout::After(Duration::from_millis(millis.into())),
            _ => Timeout::Never,
        };
        let pointer = |address, fraction: fn(u64) -> Duration| {
            let bytes = if address == 0 { return Timeout::Never } else { memory(address) };
            let Ok(words) = <[u8; 16]>::try_from(bytes) else { return Timeout::Unknown };
            let word = |at: usize| words[at..at + 8].try_into().map(u64::from_ne_bytes).unwrap_or(0);
            Timeout::After(Duration::from_secs(word(0)).saturating_add(fraction(word(8))))
        };
        match (self.kind(), self.number) {
            (SyscallKind::Read, _) => Timeout::Never,
            (SyscallKind::Poll, 7) => millis(third),
            (SyscallKind::Poll, _) => pointer(third, Duration::from_nanos),
            (SyscallKind::Select, 23) => pointer(fifth, Duration::from_micros),
            (SyscallKind::Select, _) => pointer(fifth, Duration::from_nanos),
            // epoll_pwait2
            (SyscallKind::Epoll, 441) => pointer(fourth, Duration::from_nanos),
            (SyscallKind::Epoll, _) => millis(fourth),
            (SyscallKind::Wait | SyscallKind::Restart | SyscallKind::Other | SyscallKind::Unknown, _) => {
                Timeout::Unknown
            }
        }
    }
}

/// POLLIN and POLLRDNORM, or EPOLLIN and EPOLLRDNORM, which are the same.
const READABLE: u32 = 0x41;

/// The descriptors whose input an array of `struct pollfd` (poll(2)) asks for.
fn polled(array: &[u8]) -> Vec<i32> {
    let entries = array.chunks_exact(8).map(|entry| {
        let [a, b, c, d, e, f, ..] = *entry else { unreachable!("a chunk has 8 bytes") };
        (i32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([e, f]))
    });
    entries
        .filter(|(_, events)| u32::from(*events) & READABLE != 0)
        .map(|(descriptor, _)| descriptor)
        .collect()
}

/// The descriptors, among the first `count`, in an `fd_set` (select(2)).
fn selected(set: &[u8], count: u64) -> Vec<i32> {
    let words =
        set.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("a chunk has 8 bytes")));
    let bits = words.flat_map(|word| (0..64).map(move |bit| word >> bit & 1 == 1));
    (0..).zip(bits).filter(|(at, is_in)| *is_in && (*at as u64) < count).map(|(at, _)| at).collect()
}

/// The descriptors whose input an epoll asks for: in its /proc/PID/fdinfo (proc_pid_fdinfo(5)) are lines like
/// `tfd: 0 events: 19 data: 0 pos:0 ino:3 sdev:18`.
fn epolled(fdinfo: &str) -> Vec<i32> {
    let watched = |line: &str| {
        let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
        let descriptor = words.next()?.parse().ok()?;
        let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
        (events & READABLE != 0).then_some(descriptor)
    };
    fdinfo.lines().filter_map(watched).collect()
}

/// Does a process of this group pass a test?
///
/// The kernel does not list the members of a group, and reading all of /proc is slow on a busy
/// machine. But the members are the roots, or descendants of them in the terminal's session, so we
/// check these, the last root first. This misses a process that was reparented to a process elsewhere.
/// So we read all of /proc only if that happened to the whole group, or if the kernel does not list
/// children (CONFIG_PROC_CHILDREN).
pub(crate) fn any_in_group(group: i32, session: i32, roots: &[u32], test: impl Fn(&Process) -> bool) -> bool {
    let mut found = false;
    if lists_children() {
        let near = |process: &Process| process.session == session || roots.contains(&process.pid);
        let mut members = family(roots, near).filter(|process| process.group == group);
        if members.any(|process| {
            found = true;
            test(&process)
        }) {
            return true;
        }
    }
    !found && all().unwrap_or_default().iter().any(|process| process.group == group && test(process))
}

/// Does the kernel list the children of a process (CONFIG_PROC_CHILDREN)?
pub(crate) fn lists_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

/// The roots, the last one first, and all descendants that belong to them. We do not search below a
/// process that does not belong. We read a process's children only after the caller has seen it, so
/// this may miss a process that is reparented meanwhile.
pub(crate) fn family(roots: &[u32], belongs: impl Fn(&Process) -> bool) -> impl Iterator<Item = Process> {
    let mut pending = roots.to_vec();
    let mut seen = Set::new();
    let mut last: Option<Process> = None;
    std::iter::from_fn(move || {
        pending.extend(last.take().iter().flat_map(Process::children));
        while let Some(pid) = pending.pop() {
            let process = Process::read(pid).filter(|_| seen.insert(pid));
            last = process.filter(|process| belongs(process));
            if last.is_some() {
                return last.clone();
            }
        }
        None
    })
}

/// All processes that descend from this one. We do not search below a process that does not belong.
pub(crate) fn descendants(of: u32, belongs: &dyn Fn(&Process) -> bool) -> io::Result<Vec<Process>> {
    if !lists_children() {
        return Ok(below(of, all()?, belongs));
    }
    let roots = [of];
    let found = family(&roots, |process| process.pid == of || belongs(process));
    Ok(found.filter(|process| process.pid != of).collect())
}

/// Finds them in this list, by their parents.
fn below(of: u32, mut all: Vec<Process>, belongs: &dyn Fn(&Process) -> bool) -> Vec<Process> {
    let (mut found, mut parents) = (Vec::new(), vec![of]);
    while let Some(parent) = parents.pop() {
        for child in all.extract_if(.., |process| process.parent == parent).filter(belongs) {
            parents.push(child.pid);
            found.push(child);
        }
    }
    found
}

/// Every process that we may see.
pub(crate) fn all() -> io::Result<Vec<Process>> {
    Ok(pids()?.into_iter().filter_map(Process::read).collect())
}

/// A process that cannot be mistaken for another: a pidfd (pidfd_open(2),
/// Linux 5.3). It is readable once the process has ended.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

as_fd!(PidFd, 0);

impl PidFd {
    pub(crate) fn open(pid: u32) -> io::Result<Option<PidFd>> {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Ok(Some(PidFd(descriptor))),
            // The second where a process group or session has that number still, whose leader
            // has gone, and for a thread; the third is newer kernels' for that.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The process that connected to a Unix socket; `None` if the kernel only has its PID.
    pub(crate) fn of_peer(stream: &UnixStream) -> io::Result<Option<PidFd>> {
        Ok(socket::peer_pidfd(stream)?.map(PidFd))
    }

    /// The same process, held on to once more.
    pub(crate) fn again(&self) -> io::Result<PidFd> {
        Ok(PidFd(self.0.try_clone()?))
    }

    pub(crate) fn has_ended(&self) -> io::Result<bool> {
        poll::wait_readable(self, Deadline::after(Duration::ZERO))
    }

    /// Sends a signal. A process that has already ended is not an error.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
        match rustix::process::pidfd_send_signal(self, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_parentheses_and_spaces() {
        let stat =
            b"7 (a) R (b) S 3 4 5 34816 6 4194304 1 2 3 4 5 6 7 8 20 0 1 0 99 1000 10 18446744073709551615 \
                     1 2 3 4 5 256 0 0 0";
        let process = Process::parse(7, stat).unwrap();
        assert_eq!((process.name.as_str(), process.state), ("a) R (b", 'S'));
        assert_eq!((process.parent, process.group, process.session, process.started), (3, 4, 5, 99));
    }

    #[test]
    fn descendants_are_found_by_their_parents_where_the_kernel_lists_no_children() {
        let process = |(pid, name, parent)| {
            let stat = format!(
                "{pid} ({name}) S {parent} 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 99 1000 10 1 1 2 3 4 5 256 0 \
                 0 0"
            );
            Process::parse(pid, stat.as_bytes()).unwrap()
        };
        let all = [
            (9, "c", 7),
            (5, "us", 1),
            (7, "a", 5),
            (8, "daemon", 5),
            (10, "d", 8),
            (6, "b", 1),
            (11, "e", 9),
        ];
        let found = below(5, all.into_iter().map(process).collect(), &|process| process.name != "daemon");
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [7, 9, 11]);
    }

    #[test]
    fn a_process_before_exec_is_a_copy_of_its_parent() {
        use std::process::{Command, Stdio};

        // The subshell prints a line, and then waits for its input.
        let script = "(echo; read x); :";
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let parent = Process::read(shell.id()).unwrap();
        let copies: Vec<bool> =
            parent.children().into_iter().filter_map(Process::read).map(|child| child.is_copy()).collect();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!((parent.is_copy(), copies), (false, vec![true]));
    }

    #[test]
    fn a_leader_that_has_gone_before_its_group_is_no_process() {
        use std::{
            os::unix::process::CommandExt,
            process::{Command, Stdio},
        };

        let mut leader = Command::new("sh");
        leader.args(["-c", "sleep 1000 >&- & echo $!"]).process_group(0).stdout(Stdio::piped());
        let leader = leader.spawn().unwrap();
        let pid = leader.id();
        let printed = leader.wait_with_output().unwrap();
        let left = String::from_utf8(printed.stdout).unwrap().trim().parse().unwrap();
        assert!(PidFd::open(pid).unwrap().is_none());
        PidFd::open(left).unwrap().unwrap().signal(SIGKILL).unwrap();
    }

    #[test]
    fn a_short_line_is_no_process() {
        assert_eq!(Process::parse(7, b"7 (a) S 3"), None);
        assert_eq!(Process::parse(7, b""), None);
    }

    #[test]
    fn a_system_call_is_read_with_its_arguments() {
        let cases = [
            ("0 0x3 0x7f00 0x1000 0x22 0x0 0x0 0x7ffc 0x7f3b\n", Some((0, [3, 0x7f00, 0x1000, 0x22, 0, 0]))),
            ("-1 0x7ffc 0x7f3b\n", Some((-1, [0; 6]))),
            ("running\n", Some((-1, [0; 6]))),
            ("7 0xffffffffffffffff 0x1 0x0 0x0 0x0 0x0 0x1 0x2", Some((7, [u64::MAX, 1, 0, 0, 0, 0]))),
            ("0 0x3 0x7f00", None),
            ("0 3 4 5 6 7 8 9 10", None),
            ("nonsense", None),
            ("", None),
        ];
        for (line, expected) in cases {
            let called = Called::parse(line).map(|called| (called.number, called.arguments));
            assert_eq!(called, expected, "{line:?}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_call_has_a_timeout_or_none() {
        let after = |millis| Timeout::After(Duration::from_millis(millis));
        for (line, expected) in [
            ("0 0x0 0x7f00 0x1000 0x0 0x0 0x0 0x1 0x2", Timeout::Never),
            ("7 0x7f00 0x1 0xffffffff 0x0 0x0 0x0 0x1 0x2", Timeout::Never),
            ("7 0x7f00 0x1 0x64 0x0 0x0 0x0 0x1 0x2", after(100)),
            ("271 0x7f00 0x1 0x0 0x0 0x8 0x0 0x1 0x2", Timeout::Never),
            ("271 0x7f00 0x1 0x7ffc 0x0 0x8 0x0 0x1 0x2", after(2_005)),
            ("270 0x1 0x7f00 0x0 0x0 0x0 0x0 0x1 0x2", Timeout::Never),
            ("23 0x1 0x7f00 0x0 0x0 0x7ffc 0x0 0x1 0x2", after(7_000)),
            ("232 0x4 0x7f00 0x20 0xffffffffffffffff 0x0 0x0 0x1 0x2", Timeout::Never),
            ("281 0x4 0x7f00 0x20 0x64 0x0 0x8 0x1 0x2", after(100)),
            ("441 0x4 0x7f00 0x20 0x0 0x0 0x8 0x1 0x2", Timeout::Never),
            ("61 0xffffffff 0x7f00 0x0 0x0 0x0 0x0 0x1 0x2", Timeout::Unknown),
        ] {
            let time = [2_u64.to_ne_bytes(), 5_000_000_u64.to_ne_bytes()].concat();
            let called = Called::parse(line).unwrap();
            assert_eq!(called.timeout(|_| time.clone()), expected, "{line}");
        }
    }

    #[test]
    fn a_poll_without_input_does_not_count() {
        let mut array = Vec::new();
        for (descriptor, events) in [(0_i32, 1_u16), (5, 4), (7, 0x40), (-1, 1), (9, 0)] {
            array.extend(descriptor.to_ne_bytes());
            array.extend(events.to_ne_bytes());
            array.extend([0, 0]);
        }
        assert_eq!(polled(&array), [0, 7, -1]);
        assert!(polled(&array[..7]).is_empty());
    }

    #[test]
    fn the_bits_of_a_set_count_up_to_a_number() {
        let set: Vec<u8> = [1_u64 | 1 << 63, 1 << 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(selected(&set, 66), [0, 63, 65]);
        assert_eq!(selected(&set, 65), [0, 63]);
        assert_eq!(selected(&set, 1), [0]);
        assert!(selected(&set, 0).is_empty());
        assert!(selected(&[], 64).is_empty());
    }

    #[test]
    fn an_epoll_lists_what_it_watches() {
        let fdinfo = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1057\n\
            tfd:        0 events:       19 data:                0  pos:0 ino:3 sdev:18\n\
            tfd:       12 events: 80000001 data:               1f  pos:0 ino:1 sdev:8\n\
            tfd:        6 events:        4 data: ffffffffffffffff  pos:0 ino:1 sdev:8\n";
        assert_eq!(epolled(fdinfo), [0, 12]);
    }

    #[test]
    fn a_thread_that_sleeps_in_a_poll_names_its_descriptor() {
        use rustix::event::{PollFd, PollFlags, poll};
        use std::os::fd::AsRawFd;
        let (reader, writer) = io::pipe().unwrap();
        let expected = Awaited::Input(vec![reader.as_raw_fd()]);
        let other = std::thread::spawn(move || poll(&mut [PollFd::new(&reader, PollFlags::IN)], None));
        let ourselves = Process::read(std::process::id()).unwrap();
        let found = loop {
            if let Some(found) = ourselves.threads().find(|thread| thread.awaits() == expected) {
                break found;
            }
            assert!(!other.is_finished());
        };
        assert_eq!(found.sleeps_in(), Awaited::SomePoll, "where we may see less");
        drop(writer);
        other.join().unwrap().unwrap();
    }

    #[test]
    fn a_child_is_found_by_its_group_and_only_then() {
        let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let ourselves = Process::read(std::process::id()).unwrap();
        let finds = |group, session, roots: &[u32]| {
            any_in_group(group, session, roots, |process| process.pid == child.id())
        };
        assert!(finds(ourselves.group, ourselves.session, &[ourselves.pid]));
        assert!(finds(ourselves.group, ourselves.session, &[]), "by reading all of /proc");
        assert!(!finds(-1, ourselves.session, &[ourselves.pid]));
        assert!(!finds(ourselves.group, -1, &[ourselves.pid]), "not in the session");
        PidFd::open(child.id()).unwrap().unwrap().signal(9).unwrap();
        { child }.wait().unwrap();
    }

    #[test]
    fn a_test_of_all_children_holds_for_none() {
        use std::process::{Command, Stdio};
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", "sleep 600 & sleep 600 & echo; wait"]).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let parent = Process::read(shell.id()).unwrap();
        let children: Vec<Process> = parent.children().into_iter().filter_map(Process::read).collect();
        assert_eq!(children.len(), 2);
        let has = |those: &[Process], child: &Process| those.iter().any(|each| each.pid == child.pid);
        assert!(parent.had_only(|child| has(&children, child)));
        assert!(!parent.had_only(|child| has(&children[..1], child)));
        assert!(children[0].had_only(|_| false));
        for process in children.iter().chain([&parent]) {
            process.hold().unwrap().unwrap().signal(9).unwrap();
        }
        shell.wait().unwrap();
    }

    #[test]
    fn we_are_among_the_processes_and_can_be_held() {
        let ourselves = std::process::id();
        let process = all().unwrap().into_iter().find(|process| process.pid == ourselves).unwrap();
        assert!(!process.has_ended());
        assert!(process.hold().unwrap().is_some());
    }
}
