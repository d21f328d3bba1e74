//! relay - the process behind a session
//!
//! An internal role. `nbs-relay HANDLE SESSIONS UMASK SIZE THROUGH` is started by
//! `create` with the lock of the half-made session as standard input and a socket
//! as standard output, on which it says `+` when the session is there for all
//! to see, or `-` and why it is not; before that, `!` and a line of warning. On the
//! same socket it hears when the files are made by which it starts the command, and
//! when all of the session's are.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Write},
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::Path,
    time::Duration,
};

use crate::{
    cli::{self, Args},
    outcome::{Failure, Result, Trying},
    relay::{
        Caught, Gate, Limits, Refusal, Relay, RelayStart, SpawnRequest, SpawnVia, SpawnedChild, WARNING,
        ask_helper, await_files, changed_environment, check_bash,
    },
    session::{Events, Handle, PendingSession, SOCKET, SessionSpec, Settings},
    sys::{
        child,
        confinement::Confinement,
        deadline::Deadline,
        gate::Program,
        inherited, poll,
        processes::PidFd,
        pty::{Master, Size},
        socket,
    },
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [handle, sessions, umask, size, via] = &words[..] else {
        return Err(cli::by_hand());
    };
    inherited::shed().trying("shed what was inherited")?;
    let handle = Handle::parse(handle.as_encoded_bytes()).ok_or_else(cli::by_hand)?;
    let size = cli::parse_terminal_size(size).ok_or_else(cli::by_hand)?;
    let umask = cli::umask(umask)?;
    let via = SpawnVia::parse(via).ok_or_else(cli::by_hand)?;
    let sessions = Path::new(sessions);
    let lock = io::stdin().as_fd().try_clone_to_owned().map(File::from).map_err(|_| cli::by_hand())?;
    let pending =
        PendingSession::take_over(sessions, handle, lock).ok().flatten().ok_or_else(cli::by_hand)?;

    child::leave_session()
        .and_then(|()| child::call_ourselves(crate::session::RELAY))
        .trying("become a process of its own")?;
    let caught = begin().map_err(tell_failure)?;
    // Where they cannot be made, or who makes them has gone, there will be no session.
    if await_files().is_err() {
        return pending.abandon().trying("remove the session that failed");
    }
    let (start, gate) = prepare(pending, sessions, umask, size, via).map_err(tell_failure)?;
    if await_files().is_err() {
        return start.pending.abandon().trying("remove the session that failed");
    }
    let relay = Relay::new(start).map_err(tell_failure)?;
    relay.publish().trying("let the session be seen").map_err(tell_failure)?;
    if tell("+").is_err() {
        // Whoever wanted it has gone, and nobody knows its handle.
        return relay.withdraw();
    }
    child::point_stdout_at_stderr().trying("let go of standard output")?;
    gate.open().trying("let the command begin")?;
    relay.serve(caught)
}

/// What takes no file of the session.
fn begin() -> Result<Caught> {
    child::adopt_orphans().trying("become a subreaper")?;
    Caught::new().trying("catch signals")
}

fn prepare(
    pending: PendingSession,
    sessions: &Path,
    umask: u32,
    size: Size,
    via: SpawnVia,
) -> Result<(RelayStart, Gate)> {
    let settings = Settings::read(&pending.folder).trying("read the session's settings")?;
    let owner = settings.owner.map(hold_owner).transpose()?;
    let command = SessionSpec::command(&pending.folder).trying("read the command")?;
    let confinement = confinement(&pending, sessions, &settings).trying("find the state folder")?;
    let confinement = confinement.as_ref();
    let spawned = match via {
        SpawnVia::Relay => None,
        SpawnVia::HelperIfThere | SpawnVia::Helper => {
            spawn_through_helper(&pending, sessions, umask, size, &command, confinement, via)?
        }
    };
    let (master, gate, keeper, slave) = match spawned {
        Some(SpawnedChild { master, gate, keeper }) => (master, gate, Some(keeper), None),
        None => {
            check_bash()?;
            let master = Master::open(size).trying("open a PTY")?;
            let words = SessionSpec::words(&command, &sessions.join(pending.handle.as_str()));
            let program =
                Program { words: &words, umask, folder: None, environment: &Vec::new(), confinement };
            let gate = Gate::spawn(&master, &program).trying("start the command")?;
            let slave = master.slave_path().ok();
            (master, gate, None, slave)
        }
    };
    // While it gets ready we do what else there is to do.
    let state_dir = sessions.parent().ok_or_else(cli::by_hand)?;
    let events = Events::open(state_dir).trying("open the events")?;
    let alive = events.live().trying("let our end be seen")?;
    let listener = socket::listen(&pending.folder, SOCKET).trying("listen on the session's socket")?;
    // Not to hold on to the folder that `create` was called in.
    std::env::set_current_dir("/").trying("leave the caller's folder")?;
    child::raise_open_files().trying("raise the limit of open files")?;
    SessionSpec::write_running(&pending, gate.child(), slave.as_deref())
        .trying("write the session's files")?;
    let start = RelayStart {
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
    let pidfd = pidfd.ok_or_else(|| Failure::Failed(format!("cannot {what}: there is none")))?;
    // One that nobody has collected yet is still there.
    if poll::wait_readable(&pidfd, Deadline::after(Duration::ZERO)).trying(&what)? {
        return Err(Failure::Failed(format!("cannot {what}: it has ended")));
    }
    Ok(pidfd)
}

/// Where alone the command may write, if it was said.
fn confinement(
    pending: &PendingSession,
    sessions: &Path,
    settings: &Settings,
) -> io::Result<Option<Confinement>> {
    if settings.write_roots.is_empty() {
        return Ok(None);
    }
    let private = SessionSpec::private_folder(&sessions.canonicalize()?.join(pending.handle.as_str()));
    let roots = settings.write_roots.iter().map(|root| OsStr::from_bytes(root).into()).collect();
    Ok(Some(Confinement { private, roots }))
}

/// A child of the helper; `None` where there is no helper, and need not be.
fn spawn_through_helper(
    pending: &PendingSession,
    sessions: &Path,
    umask: u32,
    size: Size,
    command: &[u8],
    confinement: Option<&Confinement>,
    via: SpawnVia,
) -> Result<Option<SpawnedChild>> {
    let environment = changed_environment(&pending.folder).trying("read the session's files")?;
    let folder = std::env::current_dir().trying("tell the helper the folder to start in")?;
    let words = SessionSpec::login_words(command, &sessions.join(pending.handle.as_str()));
    let spawn_request = SpawnRequest {
        handle: &pending.handle,
        folder: &folder,
        size,
        umask,
        command,
        words: &words,
        environment: &environment,
        confinement,
    };
    let state_dir = sessions.parent().ok_or_else(cli::by_hand)?;
    match ask_helper(state_dir, &spawn_request) {
        Ok(spawned) => Ok(Some(spawned)),
        Err(Refusal::Failed(failure)) => Err(failure),
        Err(Refusal::NotRunning(why)) if via == SpawnVia::Helper => Err(Failure::Failed(format!(
            "cannot start the session through the helper: helper not running: {why}"
        ))),
        Err(Refusal::NotRunning(why)) => {
            // Where `create` has gone, the `+` that follows finds out.
            let _ = tell(&format!(
                "{WARNING}helper not running: {why}; the session has this call's own environment\n"
            ));
            Ok(None)
        }
    }
}

fn tell(word: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(word.as_bytes())?;
    stdout.flush()
}

fn tell_failure(failure: Failure) -> Failure {
    // Where `create` has gone there is nobody left to tell.
    let _ = tell(&format!("-{failure}"));
    Failure::Quiet
}
