//! Processes that we start, and how they end.
//!
//! A child is always this same file under another name, which then executes the wanted program by exec(3): so
//! no code of ours ever runs between fork and exec. It is collected by waiting for any child, since a
//! subreaper gets children that it has not started.

use std::{
    env,
    ffi::{CStr, OsStr, OsString},
    fs, io,
    os::{
        fd::AsFd,
        unix::{
            ffi::OsStrExt,
            fs::PermissionsExt,
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::{WaitOptions, WaitStatus};

/// There where /proc is.
pub(super) const OURSELVES: &CStr = c"/proc/self/exe";

/// Variables to set in a child's environment, or (`None`) to remove.
pub(crate) type Environment = Vec<(OsString, Option<OsString>)>;

fn path_of_ourselves() -> &'static Path {
    Path::new(OsStr::from_bytes(OURSELVES.to_bytes()))
}

/// This file, to be started as one of its internal roles.
pub(crate) fn ourselves(role: &str) -> Command {
    let mut command = Command::new(path_of_ourselves());
    command.arg0(role);
    command
}

/// Why we could not be started, in words that name /proc if it is that.
pub(crate) fn why_not_ourselves(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound || path_of_ourselves().exists() {
        return error;
    }
    io::Error::new(error.kind(), "/proc is not mounted; sessions need it")
}

/// The program of that name on our PATH.
pub(crate) fn on_path(name: &OsStr) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))
}

/// Is there a file that can be executed?
pub(crate) fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    Code(i32),
    Signal(i32),
}

impl ExitStatus {
    /// The one number that shells and files have for both.
    pub(crate) fn number(self) -> i32 {
        match self {
            ExitStatus::Code(code) => code,
            ExitStatus::Signal(signal) => 128 + signal,
        }
    }

    /// The number of a child that was started by std.
    pub(crate) fn number_of(status: std::process::ExitStatus) -> i32 {
        let signal = || ExitStatus::Signal(status.signal().unwrap_or(0));
        status.code().map_or_else(signal, ExitStatus::Code).number()
    }

    fn of(status: WaitStatus) -> Option<ExitStatus> {
        let code = status.exit_status().map(ExitStatus::Code);
        code.or_else(|| status.terminating_signal().map(ExitStatus::Signal))
    }
}

/// Reaps one ended child, of any origin; `None` if there is none now.
pub(crate) fn collect() -> io::Result<Option<(u32, ExitStatus)>> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if let Some(status) = ExitStatus::of(status) {
                    return Ok(Some((pid.as_raw_nonzero().get().unsigned_abs(), status)));
                }
            }
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(None),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until this child has ended, and reaps it.
pub(crate) fn wait_for(child: u32) -> io::Result<()> {
    let pid = rustix::process::Pid::from_raw(child as i32).ok_or(io::ErrorKind::InvalidInput)?;
    while let Err(error) = rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
        if error != rustix::io::Errno::INTR {
            return Err(error.into());
        }
    }
    Ok(())
}

/// Is there any child left, running or ended?
pub(crate) fn any_left() -> io::Result<bool> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    // Looked at only: the child stays to be collected.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::All, look) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
        Err(rustix::io::Errno::CHILD) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Changes the environment of a command.
pub(crate) fn change_environment(command: &mut Command, changes: &Environment) {
    for (name, value) in changes {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// Lets orphans among our descendants become our children, so that none escapes by a double fork (prctl(2),
/// PR_SET_CHILD_SUBREAPER).
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Leaves our caller's session, and so its terminal.
pub(crate) fn leave_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Leaves our caller's session, and takes this name (see [`call_ourselves`]).
pub(crate) fn leave_session_as(name: &str) -> io::Result<()> {
    leave_session()?;
    call_ourselves(name)
}

/// Makes the kernel kill us when our parent ends, which must be this one (prctl(2), PR_SET_PDEATHSIG);
/// `false` if it has already ended.
pub(crate) fn die_with_parent(parent: u32) -> io::Result<bool> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(std::os::unix::process::parent_id() == parent)
}

/// Lets everybody else have the processor first, while they want it.
pub(crate) fn be_nice() -> io::Result<()> {
    rustix::process::setpriority_process(None, 19)?;
    Ok(())
}

/// Sets the name by which `ps` and `top` show us.
pub(crate) fn call_ourselves(name: &str) -> io::Result<()> {
    let name = std::ffi::CString::new(name)?;
    Ok(rustix::thread::set_name(&name)?)
}

/// Makes reads and writes return where they would wait.
pub(crate) fn let_nothing_wait(descriptor: &impl AsFd) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(descriptor, true)?)
}

/// Lets a pipe hold more, so that those at its ends take fewer turns: their processor time is a fifth less.
/// Past what its user may have in pipes (pipe(7), pipe-user-pages-soft), it stays as it is.
pub(crate) fn widen(pipe: &impl AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, 256 * 1024);
}

/// Writes to standard output in one system call, past every buffer.
pub(crate) fn write_stdout(bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(rustix::stdio::stdout(), bytes)?)
}

/// Reads from standard input in one system call, past every buffer.
pub(crate) fn read_stdin(buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(rustix::stdio::stdin(), buffer)?)
}

/// Puts standard output where standard error is; takes no further descriptor.
pub(crate) fn point_stdout_at_stderr() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdout(rustix::stdio::stderr())?)
}

/// Puts a file in place of all three standard streams.
pub(crate) fn point_standard_streams_at(file: &impl AsFd) -> io::Result<()> {
    rustix::stdio::dup2_stdin(file)?;
    rustix::stdio::dup2_stdout(file)?;
    Ok(rustix::stdio::dup2_stderr(file)?)
}

/// Signals a child that leads a process group and was not collected, and all of the group.
pub(crate) fn signal_group(leader: &std::process::Child, signal: i32) -> io::Result<()> {
    let signal = rustix::process::Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process_group(rustix::process::Pid::from_child(leader), signal)?)
}

/// From now on the kernel writes no core dump of us, and no other process of our user may read our
/// memory (prctl(2), PR_SET_DUMPABLE).
pub(crate) fn leave_no_core() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// How many files we may have open.
pub(crate) fn open_files() -> usize {
    use rustix::process::{Resource, getrlimit};
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Raises the limit of open files as far as we may.
pub(crate) fn raise_open_files() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(())
}
