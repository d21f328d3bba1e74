//! The state of a terminal, read from the kernel.
//!
//! The modes and the foreground process group come from the master; the members of the group that sleep until
//! the terminal can be read come from /proc. The kernel only does not know whether a shell is at its prompt:
//! its own marks show that.
//!
//! A program that waits for the terminal through an io_uring, an epoll within an epoll, or in a 32-bit
//! program cannot be seen to wait: it is `running`.

use std::{cell::RefCell, io};

use crate::{
    relay::snapshot::Sample,
    session::{
        SessionDir,
        client::{ForegroundProgram, PromptState, TerminalState},
        shell::{Dialect, Mark},
    },
    sys::{
        processes::{self, Awaited, Process, Thread, Whereabouts},
        pty::{self, Master},
    },
};

impl PromptState {
    pub(crate) fn after(self, mark: &Mark) -> PromptState {
        match mark {
            Mark::PromptEnd { .. } if self == PromptState::Touched => self,
            Mark::PromptStart { .. } | Mark::PromptEnd { .. } => PromptState::Stands,
            Mark::Taken { .. } | Mark::Unfinished { .. } | Mark::Reads { .. } => PromptState::Entered,
            Mark::Started { .. } | Mark::Begun { .. } => PromptState::Left,
            Mark::Done { .. } | Mark::OutputEnd { .. } => PromptState::Coming,
            Mark::Mended { .. } | Mark::Cleared { .. } | Mark::Shown { .. } | Mark::Stale => self,
        }
    }

    /// Input at a prompt that ends a line ends the prompt: it is followed by a command, or the rest of one
    /// (PS2), until the shell reports something else.
    pub(crate) fn after_typing(self, ends_line: bool) -> PromptState {
        match self {
            PromptState::Stands | PromptState::Touched if ends_line => PromptState::Entered,
            PromptState::Stands => PromptState::Touched,
            other => other,
        }
    }
}

/// The terminal's state. `reporting` is the foreground process group while the shell that reports is at its
/// prompt.
pub(crate) fn doing(master: &Master, shell: u32, reporting: i32, prompt: PromptState) -> TerminalState {
    let (Ok(modes), Ok(device)) = (master.modes(), master.slave_device()) else {
        return TerminalState::Running;
    };
    let Some(group) = master.foreground() else { return TerminalState::Running };
    let line = modes.is_canonical();
    let is_read =
        any_in_foreground(device, group, shell, |thread| waits_for(device, thread, modes.shows_lines()));
    match is_read {
        false => TerminalState::Running,
        true if modes.hide_line() => TerminalState::Secret,
        true if prompt.is_there() && group == reporting => TerminalState::Prompt,
        true if line => TerminalState::Line,
        true => TerminalState::Raw,
    }
}

/// The observations of the programs that seem to wait for input.
pub(crate) fn sample(master: &Master, shell: u32, reporting: i32, prompt: PromptState) -> Sample {
    let doing = doing(master, shell, reporting, prompt);
    let mut sample = Sample::of(doing);
    let (Some(device), Some(group)) = (master.slave_device().ok(), master.foreground()) else {
        return sample;
    };
    if matches!(doing, TerminalState::Running | TerminalState::Prompt) {
        return sample;
    }
    let all = members(group, shell);
    let servers = all.iter().rfind(|process| server_of(process).is_some());
    let servers = servers.map(|client| servers_of(client, device)).unwrap_or_default();
    let members: Vec<u32> = all.iter().chain(&servers).map(|process| process.pid).collect();
    // Their helper processes may have groups of their own, as a shell's jobs have.
    for process in processes::family(&members, |_| true) {
        sample.processes.insert(process.pid);
        let is_member = members.contains(&process.pid);
        for thread in process.threads() {
            sample.threads += 1;
            sample.cpu_time += thread.cpu_time().unwrap_or_default();
            let attention =
                if is_member { attention(device, &thread, doing == TerminalState::Line) } else { None };
            if let Some(attention) = attention {
                sample.is_remote |= attention == Attention::PassesOn;
                sample.timeout = sample.timeout.max(thread.timeout());
                sample.readers += 1;
            }
        }
    }
    if sample.readers == 0 {
        sample.doing = TerminalState::Running;
    }
    sample
}

/// The ancestors of the foreground group's processes, and their kernel session. The reader mostly is the
/// group's leader; the others are below the shell, or orphans that we have adopted.
fn roots(group: i32, shell: u32) -> (Vec<u32>, i32) {
    let roots = [Some(std::process::id()), Some(shell), u32::try_from(group).ok()];
    (roots.into_iter().flatten().collect(), i32::try_from(shell).unwrap_or_default())
}

/// All of the foreground group.
fn members(group: i32, shell: u32) -> Vec<Process> {
    let (roots, session) = roots(group, shell);
    let members = RefCell::new(Vec::new());
    processes::any_in_group(group, session, &roots, |process| {
        members.borrow_mut().push(process.clone());
        // Not to stop before the last.
        false
    });
    members.into_inner()
}

/// Does a thread of the foreground group, or of a process to which it has handed the terminal, pass a test?
fn any_in_foreground(terminal: u64, group: i32, shell: u32, test: impl Fn(&Thread) -> bool) -> bool {
    let (roots, session) = roots(group, shell);
    let client = RefCell::new(None);
    let tests = |process: &Process| process.threads().any(|thread| test(&thread));
    processes::any_in_group(group, session, &roots, |process| {
        if server_of(process).is_some() {
            *client.borrow_mut() = Some(process.clone());
        }
        tests(process)
    }) || client.into_inner().is_some_and(|client| servers_of(&client, terminal).iter().any(tests))
}

/// Programs that hand the terminal to a server of theirs, by the names of both: the server opens
/// it, and reads it, but is neither of the group nor of the session.
const HANDING_ON: [(&str, &str); 2] = [("tmux: client", "tmux: server"), ("screen", "screen")];

/// The name of the server that a program hands the terminal to, if it does.
fn server_of(process: &Process) -> Option<&'static str> {
    HANDING_ON.iter().find(|(client, _)| *client == process.name).map(|(_, server)| *server)
}

/// All processes to which such a program may have handed the terminal: those that have it open. A process
/// without devices may be hidden from us; each server has some.
fn servers_of(client: &Process, terminal: u64) -> Vec<Process> {
    let Some(name) = server_of(client) else { return Vec::new() };
    let has_it = |process: &Process| {
        process.threads().next().is_some_and(|thread| {
            let mut devices = thread.devices().peekable();
            devices.peek().is_none() || devices.any(|device| device == terminal)
        })
    };
    let mut servers = processes::all().unwrap_or_default();
    servers.retain(|process| process.name == name && process.group != client.group && has_it(process));
    servers
}

/// Is it the session's leader itself that waits for input?
pub(crate) fn shell_waits(master: &Master, shell: u32) -> bool {
    let (Ok(modes), Ok(device)) = (master.modes(), master.slave_device()) else { return false };
    let leads = master.foreground().is_some_and(|group| group.unsigned_abs() == shell);
    let waits =
        |process: Process| process.threads().any(|thread| waits_for(device, &thread, modes.is_canonical()));
    leads && Process::read(shell).is_some_and(waits)
}

/// Does a program of the foreground group wait for input, and is that this group?
pub(crate) fn group_waits(master: &Master, shell: u32, group: i32) -> bool {
    let (Ok(modes), Ok(device)) = (master.modes(), master.slave_device()) else { return false };
    let line = modes.is_canonical();
    master.foreground() == Some(group) && {
        // A program that has handed the terminal on does not read it.
        let (roots, session) = roots(group, shell);
        processes::any_in_group(group, session, &roots, |process| {
            process.threads().any(|thread| waits_for(device, &thread, line))
        })
    }
}

/// The foreground program: the member of the group that waits for input, else the foreground process.
/// `reporting` is the group of the shell that reports.
pub(crate) fn holder(master: &Master, shell: u32, reporting: i32) -> Option<ForegroundProgram> {
    let (Ok(modes), Ok(device)) = (master.modes(), master.slave_device()) else { return None };
    let group = master.foreground()?;
    let (mut waiting, mut any, mut client, mut leads_elsewhere) = (None, None, None, false);
    for process in members(group, shell) {
        if server_of(&process).is_some() {
            client = Some(process.clone());
        }
        // Both of one look: at the next it may be busy.
        let looks = process.threads().filter_map(|thread| attention(device, &thread, modes.is_canonical()));
        let looks: Vec<Attention> = looks.collect();
        if !looks.is_empty() {
            leads_elsewhere |= looks.contains(&Attention::PassesOn);
            // The process that was started last is the one that the others have left the terminal to.
            waiting = Some(process.clone());
        }
        if process.pid == group.unsigned_abs() || any.is_none() {
            any = Some(process);
        }
    }
    let reads =
        |server: &Process| server.threads().any(|thread| waits_for(device, &thread, modes.is_canonical()));
    let handing_on = client.filter(|_| waiting.is_none());
    let handing_on = handing_on.filter(|client| servers_of(client, device).iter().any(reads));
    let by_server = handing_on.is_some();
    let waits = waiting.is_some() || by_server;
    // The shell that reports is the program itself, whatever it waits for.
    let front = || if group == reporting { None } else { foreground_process(master, shell) };
    let process = waiting.or(handing_on).or_else(front).or(any)?;
    // It may have executed the program that was seen to wait only after it was read the first time.
    let process = Process::read(process.pid).unwrap_or(process);
    let is_hidden = process.threads().any(|thread| matches!(thread.awaits(), Awaited::Hidden));
    Some(ForegroundProgram {
        is_shell: group == reporting && process.pid == group.unsigned_abs(),
        pid: process.pid,
        waits,
        // A copy of a shell reads no commands: it is a subshell, or an applet of a busybox.
        shell: Dialect::of_process(&process.arguments()).filter(|_| !process.is_copy()),
        leads_elsewhere: leads_elsewhere || by_server || is_hidden && PASSING_ON.contains(&&*process.name),
        name: process.name,
    })
}

/// Programs of other users, which we may not inspect, that pass on their input.
const PASSING_ON: [&str; 7] = ["sudo", "su", "doas", "ssh", "runuser", "pkexec", "screen"];

/// The name of the program that has replaced the shell (`exec`); `None` if there is none. A shell of ours has
/// the arguments that it was started with.
pub(crate) fn successor(shell: u32, session: &SessionDir) -> Option<String> {
    let process = Process::read(shell)?;
    let arguments = process.arguments();
    // An ending process has no arguments at all.
    let has_none = arguments.iter().all(Vec::is_empty);
    (!has_none && !session.is_shell(&arguments)).then_some(process.name)
}

/// The event for which a thread of the foreground group sleeps that has the terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attention {
    /// Input from the terminal.
    Waits,
    /// Input from the terminal, or from a socket or another terminal.
    PassesOn,
}

/// Does a thread of the foreground group sleep until there is input?
fn waits_for(terminal: u64, thread: &Thread, line: bool) -> bool {
    attention(terminal, thread, line).is_some()
}

/// `None`: it does not sleep until there is input.
///
/// If we may not see the event for which it sleeps, the modes show what is probable. A program that has
/// disabled canonical mode wants keys, and sleeps to get them. But with the default modes of a terminal, a
/// process that is in a poll, or hidden from us, mostly waits for a network or a child.
fn attention(terminal: u64, thread: &Thread, line: bool) -> Option<Attention> {
    let is_it = |device| device == terminal || device == pty::CONTROLLING_TERMINAL;
    let has_it = || thread.devices().any(is_it);
    let waits = match thread.awaits() {
        Awaited::Input(descriptors) => {
            let waits = descriptors.iter().any(|each| thread.device(*each).is_some_and(is_it));
            if waits && descriptors.iter().any(|each| thread.leads_elsewhere(*each)) {
                return Some(Attention::PassesOn);
            }
            waits
        }
        Awaited::SomeRead => has_it(),
        Awaited::SomePoll => !line && has_it(),
        Awaited::Hidden => !line,
        Awaited::Other => false,
    };
    waits.then_some(Attention::Waits)
}

/// The foreground process: the leader of its group or, if that has ended, another member of the group; if
/// that waits for a child of the group, then this child. Without such a group, the session's leader.
pub(crate) fn foreground_process(master: &Master, shell: u32) -> Option<Process> {
    let of_group = |group: i32| {
        let leader = Process::read(group.unsigned_abs()).filter(|leader| !leader.has_ended());
        leader.or_else(|| members(group, shell).into_iter().next())
    };
    let mut process = master.foreground().and_then(of_group).or_else(|| Process::read(shell))?;
    // Each is the child of another, unless their PIDs become those of others while we look.
    for _ in 0..DEEPEST {
        let is_of_group = |child: &Process| child.group == process.group && !child.has_ended();
        if !process.threads().any(|thread| thread.awaits_child()) {
            break;
        }
        // The child that was started last is mostly the one waited for.
        let mut children = process.children().into_iter().filter_map(Process::read);
        let Some(child) = children.rfind(is_of_group) else { break };
        process = child;
    }
    Some(process)
}

/// How many processes wait for one another at most.
const DEEPEST: usize = 100;

/// The foreground process's directory; if we may not inspect that process, another's of its group.
pub(crate) fn folder(master: &Master, shell: u32) -> io::Result<Whereabouts> {
    let Some(group) = master.foreground() else { return folder_of(shell) };
    let found =
        foreground_process(master, shell).ok_or(io::ErrorKind::NotFound.into()).and_then(|it| it.folder());
    let Err(error) = found else { return found };
    let session = i32::try_from(shell).unwrap_or_default();
    let other = RefCell::new(None);
    processes::any_in_group(group, session, &[std::process::id(), shell], |process| {
        *other.borrow_mut() = process.folder().ok();
        other.borrow().is_some()
    });
    match other.into_inner() {
        Some(found) => Ok(found),
        None if error.kind() == io::ErrorKind::NotFound => folder_of(shell),
        None => Err(error),
    }
}

fn folder_of(pid: u32) -> io::Result<Whereabouts> {
    Process::read(pid).ok_or(io::ErrorKind::NotFound)?.folder()
}

/// Signals each process of the foreground group that is in the session which
/// `shell` leads.
pub(crate) fn signal_foreground(master: &Master, shell: u32, signals: &[i32]) {
    for process in master.foreground().iter().flat_map(|group| members(*group, shell)) {
        signal_all(&process, signals);
    }
}

/// A process that has ended meanwhile, or that we may not signal, is left alone.
fn signal_all(process: &Process, signals: &[i32]) {
    if let Ok(Some(pidfd)) = process.hold() {
        for signal in signals {
            let _ = pidfd.signal(*signal);
        }
    }
}
