//! The setup of a relay: everything up to the moment at which its session becomes visible.
//!
//! If it fails before, `create` gets the error, and nothing is left.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{
        self,
        ErrorKind::{ConnectionReset, UnexpectedEof},
        Read, Write,
    },
    os::{
        fd::AsFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
    time::Duration,
};

use crate::{
    cli,
    outcome::{Failure, Result, Trying},
    relay::{
        Caught, HelperError, Limits, Relay, RelayStart, SpawnRequest, SpawnVia, SpawnedChild, WARNING,
        ask_helper,
        launch::{CHANGED, Order, READY},
    },
    session::{Events, PendingSession, SOCKET, SessionSpec, Settings},
    sys::{
        cgroup::{Cgroup, ResourceLimits},
        child,
        confinement::Confinement,
        deadline::Deadline,
        files::{self, Folder},
        gate::{Environment, Gate, HiddenVariables, Program},
        poll,
        processes::PidFd,
        pty::{Master, Size},
        socket,
    },
};

/// Becomes the relay of a session that is pending, and serves it to its end.
pub(crate) fn run(
    pending: PendingSession,
    sessions: &Path,
    umask: u32,
    size: Size,
    via: SpawnVia,
) -> Result<()> {
    child::leave_session_as(crate::session::RELAY).trying("become a process of its own")?;
    let caught = begin().map_err(send_failure)?;
    // If the process that sends it has gone, there will be no session.
    let order = match from_caller().and_then(Order::read) {
        Err(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => {
            return pending.abandon().trying("remove the session that failed");
        }
        other => other.trying("read what the caller wants").map_err(send_failure)?,
    };
    let (start, gate) = prepare(pending, order, sessions, umask, size, via).map_err(send_failure)?;
    if from_caller().and_then(|mut caller| caller.read_exact(&mut [0; READY.len()])).is_err() {
        return start.pending.abandon().trying("remove the session that failed");
    }
    let relay = Relay::new(start).map_err(send_failure)?;
    relay.publish().trying("publish the session").map_err(send_failure)?;
    if send("+").is_err() {
        // The caller has gone, and the handle is known to no one.
        return relay.withdraw();
    }
    child::point_stdout_at_stderr().trying("close standard output")?;
    let cgroup = gate.open().trying("start the command")?;
    relay.serve(caught, cgroup)
}

/// The setup that needs no file of the session.
pub(crate) fn begin() -> Result<Caught> {
    child::adopt_orphans().trying("become a subreaper")?;
    Caught::new().trying("catch signals")
}

fn prepare(
    pending: PendingSession,
    order: Order,
    sessions: &Path,
    umask: u32,
    size: Size,
    via: SpawnVia,
) -> Result<(RelayStart, Gate)> {
    let Order { settings, command } = order;
    let owner = settings.owner.map(hold_owner).transpose()?;
    let confinement = confinement(&pending, sessions, &settings).trying("find the state directory")?;
    let jailed = (confinement.as_ref(), &settings.jail.hidden);
    let spawned = match via {
        SpawnVia::Relay => None,
        SpawnVia::HelperIfThere | SpawnVia::Helper => {
            spawn_through_helper(&pending, sessions, (umask, size), &command, jailed, via)?
        }
    };
    let (master, mut gate, keeper, slave) = match spawned {
        Some(SpawnedChild { master, gate, keeper }) => (master, gate, Some(keeper), None),
        None => {
            let start = SessionSpec::start(&command, &sessions.join(pending.handle.as_str()));
            let master = Master::open(size).trying("open a PTY")?;
            let mut environment = Environment::new();
            if let Some((name, value, kept)) = start.variable {
                environment.push((kept.into(), env::var_os(name)));
                environment.push((name.into(), Some(value)));
            }
            let program = Program {
                words: &start.words,
                umask,
                folder: None,
                environment: &environment,
                confinement: confinement.as_ref(),
            };
            let gate = Gate::spawn(&master, &program).trying("start the command")?;
            // If it is not there, the child ends with the gate.
            check_program(&start.words)?;
            let slave = master.slave_path().ok();
            (master, gate, None, slave)
        }
    };
    // Before it does anything. If this fails, the child ends with the gate.
    if let Some(cgroup) = cgroup(&pending, &settings.jail.limits, gate.child()).trying("start the command")? {
        gate.limit(cgroup);
    }
    if keeper.as_ref().is_some_and(|keeper| !keeper.child_runs()) {
        return Err(Failure::failed("cannot start the command: its process was killed".into()));
    }
    // While it gets ready we do what else there is to do.
    let state_dir = sessions.parent().ok_or_else(cli::by_hand)?;
    let events = Events::open(state_dir).trying("open the events")?;
    let alive = events.live().trying("hold the events open")?;
    let listener = socket::listen(&pending.folder, SOCKET).trying("listen on the session's socket")?;
    // So that we do not keep the directory busy in which `create` was called.
    env::set_current_dir("/").trying("leave the caller's directory")?;
    child::raise_open_files().trying("raise the limit of open files")?;
    SessionSpec::write_running(&pending, gate.child(), slave.as_deref())
        .trying("write the session's files")?;
    let start = RelayStart {
        is_kept: keeper.is_some(),
        pending,
        sessions: sessions.to_owned(),
        events,
        alive,
        limits: Limits::new(&settings, owner),
        master,
        child: gate.child(),
        keeper,
        listener,
        interactive: SessionSpec::is_interactive(&command),
        settings,
    };
    Ok((start, gate))
}

/// The process whose end will be the session's.
fn hold_owner(pid: u32) -> Result<PidFd> {
    let what = format!("watch the owner, process {pid}");
    let pidfd = PidFd::open(pid).trying(&what)?;
    let pidfd = pidfd.ok_or_else(|| Failure::failed(format!("cannot {what}: there is no such process")))?;
    // A process that has not been collected yet still exists.
    if poll::wait_readable(&pidfd, Deadline::after(Duration::ZERO)).trying(&what)? {
        return Err(Failure::failed(format!("cannot {what}: it has ended")));
    }
    Ok(pidfd)
}

/// The cgroup that limits the session, if it is limited.
fn cgroup(pending: &PendingSession, limits: &ResourceLimits, child: u32) -> io::Result<Option<Cgroup>> {
    if limits.is_nothing() {
        return Ok(None);
    }
    Cgroup::make(pending.handle.number(), limits, child).map(Some).map_err(|error| {
        let names: Vec<String> = limits.set().map(|(name, _)| format!("--{name}")).collect();
        io::Error::other(format!("cannot make a cgroup for {}: {error}", names.join(", ")))
    })
}

/// The restrictions of the command that the kernel enforces.
fn confinement(
    pending: &PendingSession,
    sessions: &Path,
    settings: &Settings,
) -> io::Result<Option<Confinement>> {
    if !settings.jail.confines() {
        return Ok(None);
    }
    let private = SessionSpec::private_folder(&files::real_path(sessions)?.join(pending.handle.as_str()));
    Ok(settings.jail.confinement(private))
}

/// A child of the helper; `None` if there is no helper, and none is required.
fn spawn_through_helper(
    pending: &PendingSession,
    sessions: &Path,
    (umask, size): (u32, Size),
    command: &[u8],
    (confinement, hidden): (Option<&Confinement>, &HiddenVariables),
    via: SpawnVia,
) -> Result<Option<SpawnedChild>> {
    let mut environment = changed_environment(&pending.folder).trying("read the session's files")?;
    let folder = env::current_dir().trying("send the helper the directory to start in")?;
    let session = sessions.join(pending.handle.as_str());
    let words = if hidden.is_nothing() {
        SessionSpec::login_words(command, &session)
    } else {
        // The files of a login shell would set variables that are to be hidden.
        let start = SessionSpec::start(command, &session);
        if let Some((name, value, _)) = start.variable {
            environment.push((name.into(), Some(value)));
        }
        start.words
    };
    let spawn_request = SpawnRequest {
        handle: &pending.handle,
        folder: &folder,
        size,
        umask,
        command,
        words: &words,
        environment: &environment,
        confinement,
        hidden,
    };
    let state_dir = sessions.parent().ok_or_else(cli::by_hand)?;
    match ask_helper(state_dir, &spawn_request) {
        Ok(spawned) => Ok(Some(spawned)),
        Err(HelperError::Failed(failure)) => Err(failure),
        Err(HelperError::NotRunning(why)) if via == SpawnVia::Helper => Err(Failure::failed(format!(
            "cannot start the session through the helper: helper not running: {why}"
        ))),
        Err(HelperError::NotRunning(why)) => {
            // If `create` has gone, the `+` that follows fails.
            let _ = send(&format!(
                "{WARNING}helper not running: {why}; the session has this call's environment\n"
            ));
            Ok(None)
        }
    }
}

fn send(word: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(word.as_bytes())?;
    stdout.flush()
}

fn send_failure(failure: Failure) -> Failure {
    // If `create` has gone, no one reads the message.
    let _ = send(&format!("-{failure}"));
    Failure::quiet()
}

/// What `create` sends: the order, and a byte when all files are made.
fn from_caller() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// How the relay's environment was made to differ from its caller's.
fn changed_environment(folder: &Folder) -> io::Result<Environment> {
    /// As much as the kernel takes of a whole environment (execve(2)).
    const LONGEST: u64 = 8 * 1024 * 1024;
    let names = folder.read(CHANGED, LONGEST)?;
    folder.remove_file(CHANGED.as_ref())?;
    let names = names.split(|byte| *byte == 0).map(|name| OsString::from_vec(name.to_vec()));
    Ok(names.map(|name| (name.clone(), env::var_os(name))).collect())
}

/// Rejects a program that cannot be started. The helper has a PATH of its own; this checks ours, which is the
/// child's.
fn check_program(words: &[OsString]) -> Result<()> {
    let Some(program) = words.first() else { return Ok(()) };
    if program.as_bytes().contains(&b'/') || child::on_path(program).is_some() {
        return Ok(());
    }
    Err(Failure::failed(format!("cannot start '{}': it is not on PATH", program.display())))
}
