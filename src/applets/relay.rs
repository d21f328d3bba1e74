//! relay - the process behind a session
//!
//! An internal role. `nbs-relay HANDLE SESSIONS UMASK SIZE` is started by
//! `create` with the lock of the half-made session as standard input and a pipe
//! as standard output, on which it says `+` when the session is there for all
//! to see, or `-` and why it is not.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    path::Path,
    time::SystemTime,
};

use crate::{
    cli::{self, Args},
    outcome::{Failure, Result, Trying},
    relay::{Caught, Gate, Relay, Start},
    session::{Handle, INPUT, Launch, Making, SOCKET},
    sys::{child, inherited, pty::Master, socket},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [handle, sessions, umask, size] = &words[..] else { return Err(by_hand()) };
    inherited::close_descriptors().trying("close what was inherited")?;
    let handle = Handle::parse(handle.as_encoded_bytes()).ok_or_else(by_hand)?;
    let size = cli::parse_terminal_size(size).ok_or_else(by_hand)?;
    let sessions = Path::new(sessions);
    let lock = io::stdin().as_fd().try_clone_to_owned().map(File::from).map_err(|_| by_hand())?;
    let making = Making::take_over(sessions, handle, lock).ok().flatten().ok_or_else(by_hand)?;

    child::leave_session()
        .and_then(|()| child::call_ourselves("nbs-relay"))
        .trying("become a process of its own")?;
    let prepared = prepare(making, sessions, umask.to_string_lossy().into_owned(), size);
    let (start, gate, caught) = prepared.map_err(tell_failure)?;
    let relay = Relay::new(start).map_err(tell_failure)?;
    relay.publish().trying("let the session be seen").map_err(tell_failure)?;
    if tell("+").is_err() {
        // Whoever wanted it has gone, and nobody knows its handle.
        return relay.withdraw();
    }
    child::forget_stdout().trying("let go of standard output")?;
    gate.open().trying("let the command begin")?;
    relay.serve(caught)
}

fn prepare(
    making: Making,
    sessions: &Path,
    umask: String,
    size: crate::sys::pty::Size,
) -> Result<(Start, Gate, Caught)> {
    child::adopt_orphans().trying("become a subreaper")?;
    let caught = Caught::new().trying("catch signals")?;
    let master = Master::open(size).trying("open a PTY")?;
    let listener = socket::listen(&making.folder, SOCKET).trying("listen on the session's socket")?;
    let fifo = making.folder.open_fifo(INPUT).trying("open the input")?;
    let command = Launch::command(&making.folder).trying("read the command")?;
    let words = Launch::words(&command, &sessions.join(making.handle.as_str()));
    let gate = Gate::spawn(&master, &umask, &words).trying("start the command")?;
    // Not to hold on to the folder that `create` was called in.
    std::env::set_current_dir("/").trying("leave the caller's folder")?;
    child::raise_open_files().trying("raise the limit of open files")?;
    let slave = master.slave_path().ok();
    Launch::write_running(&making, gate.child(), slave.as_deref()).trying("write the session's files")?;
    let start = Start { making, master, child: gate.child(), listener, fifo, started: SystemTime::now() };
    Ok((start, gate, caught))
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

fn by_hand() -> Failure {
    Failure::BadArgs("this is an internal role of nbs, not to be run by hand".into())
}
