//! Ending a session: every process of it, proved to be of it, and no other.
//!
//! The relay is a subreaper: a process that leaves the session by `setsid` or a double fork becomes its child
//! when its parent ends. So the session is all descendants of the relay, or of the keeper if the helper made
//! the terminal, and we search only below this root. If the root is gone (killed), we search by the session's
//! environment variable, and by the kernel sessions of the processes that have it. A process without both is
//! out of reach then. A session that was created from inside this one is not part of it.

mod usage;

use std::{ffi::OsStr, io, os::unix::ffi::OsStrExt, path::Path, time::Duration};

use crate::{
    outcome::{Failure, Result, Trying},
    session::{
        BRIDGE, EndedBy, Handle, KEEPER, MONITOR, RELAY, SESSION_ENV, SessionDir,
        client::{RelayClient, TerminalState},
        roles::names,
    },
    sorted::Set,
    sys::{
        deadline::Deadline,
        files::Folder,
        poll::{self, PollSet},
        processes::{self, PidFd, Process},
        signals::{self, SIGCONT, SIGKILL, SIGTERM},
        socket,
    },
};

/// How long a bridge that does not let us in may keep us from knowing it.
const LOOK: Duration = Duration::from_millis(500);

/// How long a killed process may take to be gone, and a relay to write down
/// the end. Only a process inside a system call that cannot be interrupted, or
/// a machine in trouble, takes longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The default time from SIGTERM to SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_millis(100);

/// The result of ending a session.
enum KillResult {
    /// No process is left. This is the cause: the caller's, or unknown if the relay was ending before.
    Wholly(EndedBy),
    /// These are left: we may not signal them, or they do not die.
    But(Vec<Process>),
}

/// The sessions that some process has in its environment. A dead session that is not among them has no
/// process left and gets none again: so callers that end many scan once for all.
pub(crate) fn borne() -> Result<Set<Handle>> {
    let mut borne = Vec::new();
    for process in processes::all().trying("list the processes of sessions")? {
        let environment = process.environment();
        let entries = environment.split(|byte| *byte == 0);
        let values =
            entries.filter_map(|entry| entry.strip_prefix(SESSION_ENV.as_bytes())?.strip_prefix(b"="));
        borne.extend(values.filter_map(Handle::parse));
    }
    Ok(borne.into_iter().collect())
}

/// Ends a session as [`end`] does; a remaining process is an error. Returns the cause of the end, which is
/// unknown if another process had just killed the relay.
pub(crate) fn end_wholly(session: &SessionDir, grace: Duration, cause: EndedBy) -> Result<EndedBy> {
    let handle = session.handle();
    if session.is_alive()? {
        session.check_is_here()?;
    }
    let cause = match end(session, grace, cause)? {
        KillResult::Wholly(cause) => cause,
        KillResult::But(left) => {
            return Err(Failure::failed(format!(
                "cannot end all processes of session '{handle}': these remain: {}",
                shown(&left)
            )));
        }
    };
    if session.is_alive()? {
        return Err(Failure::failed(format!("cannot end session '{handle}': its relay remains")));
    }
    Ok(cause)
}

/// Ends a session: SIGTERM to all processes, SIGKILL to those left after `grace`. Returns as soon as all have
/// gone. The directory stays.
fn end(session: &SessionDir, grace: Duration, cause: EndedBy) -> Result<KillResult> {
    let what = || format!("end session '{}'", session.handle());
    let (mut relay, members) = begin(session, cause).trying(what())?;
    let cause = relay.as_ref().map_or(EndedBy::Unknown, |relay| relay.cause);
    let survivors = end_processes(&members, relay.as_mut(), grace).trying(what())?;
    if !survivors.is_empty() {
        return Ok(KillResult::But(survivors));
    }
    if let Some(relay) = relay {
        if let Some(relay) = relay.wait_or_kill(session).trying(what())? {
            return Ok(KillResult::But(vec![relay]));
        }
        if session.notice().is_none() {
            // If the disk is full, the cause stays unknown.
            let _ = session.note_ending(cause);
        }
    }
    match members.keepers_left().trying(what())? {
        left if left.is_empty() => Ok(KillResult::Wholly(cause)),
        left => Ok(KillResult::But(left)),
    }
}

/// The same for a process that the relay itself has started: the relay is not
/// waited for. It has the end to write down, which may take as long as a disk
/// is full.
pub(crate) fn end_from_below(session: &SessionDir, grace: Duration, cause: EndedBy) -> Result<()> {
    let what = || format!("end session '{}'", session.handle());
    let (mut relay, members) = begin(session, cause).trying(what())?;
    end_processes(&members, relay.as_mut(), grace).trying(what())?;
    Ok(())
}

/// Ends a session whose directory is gone, or cannot be reached; `pidfd` refers to its relay.
pub(crate) fn end_without_folder(handle: &Handle, relay: u32, pidfd: &PidFd) -> Result<()> {
    let what = || format!("end session '{handle}', whose directory is gone");
    let root = Root::new(relay, pidfd).trying(what())?;
    let members = Members {
        handle: handle.clone(),
        child: None,
        interactive: false,
        relay: Some(root),
        above: false,
        keeper: None,
    };
    let left = end_processes(&members, None, GRACE).trying(what())?;
    // The relay ends by itself after its child, unless it is stopped.
    let ended = poll::wait_readable(pidfd, Deadline::after(KILL_TIMEOUT)).and_then(|ended| match ended {
        true => Ok(()),
        false => pidfd.signal(SIGKILL),
    });
    ended.trying(what())?;
    match &left[..] {
        [] => Ok(()),
        left => Err(Failure::failed(format!("cannot {}: these remain: {}", what(), shown(left)))),
    }
}

fn shown(left: &[Process]) -> String {
    let each = left.iter().map(|process| format!("{} ({})", process.pid, process.name));
    each.collect::<Vec<String>>().join(", ")
}

/// Opens the relay, sends it the cause, and finds the session's processes.
fn begin(session: &SessionDir, cause: EndedBy) -> io::Result<(Option<HeldRelay>, Members)> {
    // We may be inside the session, whose terminal hangs up before we are done.
    signals::disregard(signals::SIGHUP)?;
    let mut relay = HeldRelay::of(session, cause)?;
    let keeper = match &mut relay {
        Some(relay) => {
            // A stopped relay must continue, to see its child end.
            relay.pidfd.signal(SIGCONT)?;
            relay.send_cause()?;
            if !relay.stays {
                // A process that sees it end may be quicker than we are. If the disk is full, the cause stays
                // unknown.
                let _ = session.note_ending(relay.cause);
            }
            relay.keeper(session.handle())?
        }
        None => None,
    };
    let members = Members {
        handle: session.handle().clone(),
        child: session.pid(),
        interactive: session.is_interactive().unwrap_or(false),
        above: relay.as_ref().is_some_and(|relay| relay.stays) && !session.was_made_by_helper(),
        relay: relay.as_ref().map(|relay| Root::new(relay.pid, &relay.pidfd)).transpose()?,
        keeper,
    };
    Ok((relay, members))
}

/// The relay of a live session, held on to.
struct HeldRelay {
    pid: u32,
    pidfd: PidFd,
    // `None` if the relay does not answer: it is stopped, or has no descriptors left to accept us.
    client: Option<RelayClient>,
    // It knows that we end the session, and stays until we are done.
    stays: bool,
    // The cause of the end.
    cause: EndedBy,
}

impl HeldRelay {
    /// `None` if the session is dead.
    fn of(session: &SessionDir, cause: EndedBy) -> io::Result<Option<HeldRelay>> {
        let Some((pid, pidfd)) = session.hold_relay()? else { return Ok(None) };
        let client = RelayClient::open(session).ok().flatten();
        Ok(Some(HeldRelay { pid, pidfd, client, stays: false, cause }))
    }

    /// The relay ends even if the cause could not be sent; then it records another cause. If it does not
    /// answer because it is already ending, as after a kill by another process, the cause is unknown.
    fn send_cause(&mut self) -> io::Result<()> {
        let word = self.cause.word();
        self.stays = self.client.as_mut().is_some_and(|client| client.ending(word).unwrap_or(false));
        if self.stays {
            return Ok(());
        }
        // Nor would it answer another time.
        self.client = None;
        if self.pidfd.has_ended()? || Process::read(self.pid).is_some_and(|relay| relay.is_ending()) {
            self.cause = EndedBy::Unknown;
        }
        Ok(())
    }

    /// Does a program wait for input?
    fn awaits_input(&mut self) -> bool {
        let doing = self.client.as_mut().and_then(|client| client.doing().ok().flatten());
        doing.is_some_and(|doing| {
            matches!(doing, TerminalState::Prompt | TerminalState::Line | TerminalState::Raw)
        })
    }

    /// The keeper of its child, opened.
    fn keeper(&mut self, handle: &Handle) -> io::Result<Option<Root>> {
        match self.client.as_mut().filter(|_| self.stays) {
            Some(client) => keeper_of(client, handle),
            None => Ok(None),
        }
    }

    /// The relay ends by itself once its child has ended and we are done. If it does not, we kill it. Returns
    /// it if even that was in vain.
    fn wait_or_kill(mut self, session: &SessionDir) -> io::Result<Option<Process>> {
        if let Some(client) = &mut self.client {
            // If this does not arrive, our closed connection does the same.
            let _ = client.done();
        }
        drop(self.client);
        if poll::wait_readable(&self.pidfd, Deadline::after(KILL_TIMEOUT))? {
            return Ok(None);
        }
        // The relay will not record the cause.
        let _ = session.note_ending(self.cause);
        self.pidfd.signal(SIGKILL)?;
        let gone = poll::wait_readable(&self.pidfd, Deadline::after(KILL_TIMEOUT))?;
        Ok(Process::read(self.pid).filter(|_| !gone))
    }
}

/// The keeper of the relay's child, opened. If the relay still has it after we opened it, it is no other process.
fn keeper_of(client: &mut RelayClient, handle: &Handle) -> io::Result<Option<Root>> {
    let Some(pid) = client.keeper().ok().flatten() else { return Ok(None) };
    let pidfd = PidFd::open(pid)?;
    let same = client.keeper().ok().flatten() == Some(pid);
    let is_keeper = || Process::read(pid).is_some_and(|process| names(&process, KEEPER, handle));
    Ok(pidfd.filter(|_| same && is_keeper()).map(|pidfd| Root { pid, pidfd }))
}

/// The processes of a session.
struct Members {
    handle: Handle,
    // The PID of its command: the number of its kernel session, too.
    child: Option<u32>,
    // Is that an interactive bash?
    interactive: bool,
    relay: Option<Root>,
    // Does the relay stay, as an ancestor of them all?
    above: bool,
    keeper: Option<Root>,
}

/// A process from which a session's processes descend.
struct Root {
    pid: u32,
    pidfd: PidFd,
}

impl Root {
    fn new(pid: u32, pidfd: &PidFd) -> io::Result<Root> {
        Ok(Root { pid, pidfd: pidfd.again()? })
    }
}

impl Members {
    /// The common ancestor of them all, while it exists.
    fn root(&self) -> Option<&Root> {
        self.keeper.as_ref().or(self.relay.as_ref().filter(|_| self.above))
    }

    /// The present processes. Never the relay, and never our own.
    fn now(&self) -> io::Result<Vec<Process>> {
        let Some(root) = self.root() else { return self.among_all(true) };
        let found = if processes::lists_children() { self.below(root) } else { self.among_all(false)? };
        // While the root was there, its PID was its own, and it saw every descendant.
        let stays =
            Process::read(root.pid).is_some_and(|root| !root.is_ending()) && !root.pidfd.has_ended()?;
        if stays { Ok(found) } else { self.among_all(true) }
    }

    /// Empty only if there was a moment without a process below the root.
    fn below(&self, root: &Root) -> Vec<Process> {
        first_sure(|| {
            let (top, roots) = (Process::read(root.pid)?, [root.pid]);
            let family = processes::family(&roots, |process| !self.is_anothers_root(process));
            let found: Vec<Process> = family.filter(|process| self.is_to_end(process)).collect();
            let nobodys = |child: &Process| !self.is_to_end(child) || self.is_anothers_root(child);
            let was_nobody = found.is_empty() && top.had_only(nobodys);
            Some((found, was_nobody))
        })
    }

    /// Those among all processes of this machine.
    fn among_all(&self, by_variable: bool) -> io::Result<Vec<Process>> {
        let all = processes::all()?;
        let mut ours = Set::new();
        for root in self.relay.iter().chain(&self.keeper) {
            if !root.pidfd.has_ended()? {
                ours.insert(root.pid);
            }
        }
        if by_variable {
            let bearers = all.iter().filter(|process| self.has_session_env(process));
            let bearers: Vec<&Process> = bearers.filter(|process| !self.is_anothers_root(process)).collect();
            // No other session can have the number of a kernel session that one of our processes is in: so a
            // process that dropped the variable but stayed is ours.
            let sessions: Set<i32> = bearers.iter().map(|process| process.session).collect();
            let sessions: Set<i32> =
                sessions.into_iter().filter(|session| self.leads(*session, &bearers)).collect();
            ours.extend(bearers.iter().map(|process| process.pid));
            ours.extend(
                all.iter().filter(|process| sessions.contains(&process.session)).map(|process| process.pid),
            );
        }
        // A parent may come after its children, so we repeat until none is added.
        let mut strangers = Set::new();
        loop {
            let known = |pid: &u32| ours.contains(pid) || strangers.contains(pid);
            let (relays, children): (Vec<&Process>, Vec<&Process>) = all
                .iter()
                .filter(|process| ours.contains(&process.parent) && !known(&process.pid))
                .partition(|process| self.is_anothers_root(process));
            if relays.is_empty() && children.is_empty() {
                break;
            }
            strangers.extend(relays.iter().map(|process| process.pid));
            ours.extend(children.iter().map(|process| process.pid));
        }
        Ok(all.into_iter().filter(|process| ours.contains(&process.pid) && self.is_to_end(process)).collect())
    }

    /// Must this process end, if it is ours? We do not signal our own keeper: it ends when the relay does.
    fn is_to_end(&self, process: &Process) -> bool {
        let roots = self.relay.iter().chain(&self.keeper).map(|root| root.pid);
        let keeps = || self.keeper.is_none() && self.is_keeper(process);
        !process.has_ended() && !roots.chain([std::process::id()]).any(|pid| pid == process.pid) && !keeps()
    }

    /// Do its name and arguments show that it is our keeper?
    fn is_keeper(&self, process: &Process) -> bool {
        self.has_session_env(process) && names(process, KEEPER, &self.handle)
    }

    /// Is a kernel session all ours: does its leader have the variable, or did it
    /// begin with our child?
    fn leads(&self, session: i32, bearers: &[&Process]) -> bool {
        let leader = u32::try_from(session).ok();
        leader == self.child || bearers.iter().any(|process| Some(process.pid) == leader)
    }

    /// Any user can put the variable into the environment of their own process, so a process of another user
    /// does not count.
    fn has_session_env(&self, process: &Process) -> bool {
        process.had_in_environment(format!("{SESSION_ENV}={}", self.handle).as_bytes())
            && process.is_of_our_user()
    }

    /// The keepers that do not end. A relay that is an ancestor of all has none.
    fn keepers_left(&self) -> io::Result<Vec<Process>> {
        let keepers = match &self.keeper {
            Some(keeper) => {
                let process = Process::read(keeper.pid);
                process.filter(|_| keeper.pidfd.has_ended().is_ok_and(|ended| !ended)).into_iter().collect()
            }
            None if self.above => Vec::new(),
            None => {
                let all = processes::all()?.into_iter();
                all.filter(|process| !process.has_ended() && self.is_keeper(process)).collect()
            }
        };
        wait_or_kill(&keepers)
    }

    /// Is it the relay or the keeper of another session, or the monitor of a worker, or the bridge to another
    /// machine, and so not ours to end, wherever it is? A relay and a keeper have the role in their
    /// arguments, and the lock and `daemon_pid` of the session that they name, or the relay there, show
    /// whether that is true; a monitor is a process that runs our own file under that name; a bridge, whose
    /// file we may not see, listens on the socket that it names.
    fn is_anothers_root(&self, process: &Process) -> bool {
        if process.name == MONITOR {
            return process.runs_our_file();
        }
        if process.name == BRIDGE {
            return is_bridge(process);
        }
        if process.name != RELAY && process.name != KEEPER {
            return false;
        }
        let arguments = process.arguments();
        let [role, handle, sessions, ..] = &arguments[..] else { return false };
        let Some(handle) = Handle::parse(handle).filter(|_| *role == process.name.as_bytes()) else {
            return false;
        };
        if handle == self.handle {
            return false;
        }
        let folder = Folder::open(&Path::new(OsStr::from_bytes(sessions)).join(handle.as_str()));
        let session = folder.map(|folder| SessionDir::new(handle.clone(), folder));
        session.is_ok_and(|session| match process.name == RELAY {
            true => session.is_served_by(process.pid),
            false => RelayClient::is_kept_by(&session, process.pid),
        })
    }
}

fn is_bridge(process: &Process) -> bool {
    let arguments = process.arguments();
    let [_, machine, bridges] = &arguments[..] else { return false };
    let listener = || {
        let (folder, soon) = (Folder::open(Path::new(OsStr::from_bytes(bridges)))?, Deadline::after(LOOK));
        let socket = format!("{}.sock", String::from_utf8_lossy(machine));
        socket::peer_pid(&socket::connect(&folder, &socket, soon)?)
    };
    listener().is_ok_and(|pid| pid == process.pid)
}

/// Searches until it finds a process, or a search proves that there was none (`true`), or there is nothing
/// more to search (`None`); returns the processes found.
fn first_sure<T>(mut look: impl FnMut() -> Option<(Vec<T>, bool)>) -> Vec<T> {
    while let Some((found, was_nobody)) = look() {
        if !found.is_empty() || was_nobody {
            return found;
        }
    }
    Vec::new()
}

/// Waits until these have ended; kills those that do not, and returns those that are left.
fn wait_or_kill(keepers: &[Process]) -> io::Result<Vec<Process>> {
    for (_, pidfd) in hold_all(keepers)? {
        if !poll::wait_readable(&pidfd, Deadline::after(KILL_TIMEOUT))? {
            pidfd.signal(SIGKILL)?;
            poll::wait_readable(&pidfd, Deadline::after(KILL_TIMEOUT))?;
        }
    }
    Ok(keepers
        .iter()
        .filter(|keeper| keeper.hold().is_ok_and(|pidfd| pidfd.is_some()) && !has_ended(keeper))
        .cloned()
        .collect())
}

fn has_ended(process: &Process) -> bool {
    Process::read(process.pid).is_none_or(|now| now.has_ended())
}

/// Signals in rounds until no process is left. Returns those that remain.
///
/// Processes that a SIGTERM handler starts, to clean up, get no SIGTERM: they have the grace, too. So have
/// their children.
fn end_processes(
    members: &Members,
    mut relay: Option<&mut HeldRelay>,
    grace: Duration,
) -> io::Result<Vec<Process>> {
    let grace = Deadline::after(grace);
    // The processes that were asked to end; and those whose children are not asked to.
    let (mut asked, mut left_alone) = (Set::new(), Set::new());
    loop {
        let left = members.now()?;
        if left.is_empty() {
            return Ok(left);
        }
        if grace.has_passed() || is_idle_shell(&left, members, relay.as_deref_mut()) {
            break;
        }
        let handling = |process: &&Process| asked.contains(&process.pid) && process.catches(SIGTERM);
        left_alone.extend(left.iter().filter(handling).map(|process| process.pid));
        let pidfds = hold_all(&left)?;
        for (process, pidfd) in &pidfds {
            if asked.contains(&process.pid) || left_alone.contains(&process.pid) {
                continue;
            }
            if left_alone.contains(&process.parent) {
                left_alone.insert(process.pid);
                continue;
            }
            asked.insert(process.pid);
            ask_to_end(pidfd);
        }
        wait_for_any(&pidfds, grace)?;
    }
    kill_processes(members)
}

/// Is the only process left a shell that runs nothing? Interactive shells ignore SIGTERM, and no one will
/// type the input it waits for, so we need not wait out the grace.
fn is_idle_shell(left: &[Process], members: &Members, relay: Option<&mut HeldRelay>) -> bool {
    let [only] = left else { return false };
    only.ignores(SIGTERM) && (members.interactive || relay.is_some_and(HeldRelay::awaits_input))
}

fn kill_processes(members: &Members) -> io::Result<Vec<Process>> {
    let patience = Deadline::after(KILL_TIMEOUT);
    loop {
        let left = members.now()?;
        if left.is_empty() {
            return Ok(left);
        }
        let pidfds = hold_all(&left)?;
        let refused = pidfds.iter().filter(|(_, pidfd)| pidfd.signal(SIGKILL).is_err()).count();
        if patience.has_passed() || refused == pidfds.len() && !pidfds.is_empty() {
            return Ok(left);
        }
        wait_for_any(&pidfds, patience)?;
    }
}

/// Ends what `find` finds, which belongs to no session: SIGTERM, then SIGKILL after [`GRACE`] to those that are
/// left. One of our own has longer: it may have sessions to end. Returns the survivors.
pub(crate) fn end_found(find: &dyn Fn() -> io::Result<Vec<Process>>) -> io::Result<Vec<Process>> {
    let (grace, patience) = (Deadline::after(GRACE), Deadline::after(KILL_TIMEOUT));
    let last = Deadline::after(2 * KILL_TIMEOUT);
    let mut asked = Set::new();
    loop {
        let left: Vec<Process> = find()?.into_iter().filter(|process| !process.has_ended()).collect();
        if left.is_empty() || last.has_passed() {
            return Ok(left);
        }
        let pidfds = hold_all(&left)?;
        for (process, pidfd) in &pidfds {
            if asked.insert(process.pid) {
                ask_to_end(pidfd);
            } else if patience.has_passed() || grace.has_passed() && !process.runs_our_file() {
                let _ = pidfd.signal(SIGKILL);
            }
        }
        let next = [grace, patience, last].into_iter().find(|deadline| !deadline.has_passed());
        wait_for_any(&pidfds, next.unwrap_or(last))?;
    }
}

fn ask_to_end(pidfd: &PidFd) {
    // A process that we may not signal is found among the survivors.
    let _ = pidfd.signal(SIGTERM);
    // A stopped process gets no signal but this and SIGKILL.
    let _ = pidfd.signal(SIGCONT);
}

fn hold_all(processes: &[Process]) -> io::Result<Vec<(&Process, PidFd)>> {
    let mut all = Vec::new();
    for process in processes {
        if let Some(pidfd) = process.hold()? {
            all.push((process, pidfd));
        }
    }
    Ok(all)
}

/// Waits until one of them has ended.
fn wait_for_any(pidfds: &[(&Process, PidFd)], deadline: Deadline) -> io::Result<()> {
    if pidfds.is_empty() {
        return Ok(());
    }
    let mut poll_set = PollSet::new();
    for (_, pidfd) in pidfds {
        poll_set.readable(pidfd, ());
    }
    poll_set.wait(deadline)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_missed_by_a_scan_is_searched_again() {
        let found = |looks: &[(&[u32], bool)]| {
            let mut looks = looks.iter();
            let found = first_sure(|| looks.next().map(|(found, was_nobody)| (found.to_vec(), *was_nobody)));
            (found, looks.len())
        };
        let nobody: &[u32] = &[];
        assert_eq!(found(&[(nobody, false), (&[7, 8], false), (nobody, true)]), (vec![7, 8], 1));
        assert_eq!(found(&[(nobody, false), (nobody, true), (&[7], false)]), (vec![], 1));
        assert_eq!(found(&[(nobody, false)]), (vec![], 0));
    }
}
