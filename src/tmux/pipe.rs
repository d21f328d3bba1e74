//! pipe-pane: a process that hands a pane's output to a command, and outlives the call.

use std::{
    io::{self, Read, Write},
    process::{ChildStdin, Command, Stdio},
};

use crate::{
    outcome::{Failure, Result, Trying},
    session::{
        Handle, Piece, SessionDir, StateDir, Target,
        client::{RelayClient, WaitOutcome},
    },
    sys::{
        child,
        deadline::Deadline,
        files,
        poll::{PIPE_ROOM, PollSet},
        processes::Process,
        signals::{SIGTERM, Signals},
    },
};

/// The name of that process.
pub(crate) const PIPE: &str = "nbs-tmux-pipe";

/// Says that the command has been started.
const READY: u8 = b'+';

/// Starts it, and returns its PID. It hands nothing over until [`keep`] says that the state names it: if the
/// call is killed before, it ends.
pub(crate) fn start(handle: &str, command: &str, output: bool, input: bool) -> Result<(u32, ChildStdin)> {
    let what = "start the pipe";
    let mut role = child::ourselves(PIPE);
    role.arg(handle).arg(format!("{}{}", u8::from(output), u8::from(input))).arg(command);
    role.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut role =
        files::with_callers_umask(|| role.spawn()).map_err(child::why_not_ourselves).trying(what)?;
    let mut word = [0];
    let told = role.stdout.take().map(|mut stdout| stdout.read_exact(&mut word));
    match (told, role.stdin.take()) {
        (Some(Ok(())), Some(stdin)) if word == [READY] => Ok((role.id(), stdin)),
        _ => Err(Failure::failed(format!("cannot {what}: it exited without a message"))),
    }
}

/// Tells it that the state names it.
pub(crate) fn keep(mut pipe: ChildStdin) {
    // If it has ended, that is as if it had ended later.
    let _ = pipe.write(&[READY]);
}

/// The process of this number, if it is the pipe of that session.
pub(crate) fn running(pid: u32, handle: &str) -> Option<Process> {
    Process::read(pid).filter(|process| {
        let arguments = process.arguments();
        process.name == PIPE && arguments.get(1).is_some_and(|word| word == handle.as_bytes())
    })
}

/// Has it hand over what there is by now, and waits until it has gone.
pub(crate) fn stop(pid: u32, handle: &str) -> Result<()> {
    let what = "stop the pipe";
    let Some(process) = running(pid, handle) else { return Ok(()) };
    if let Some(pidfd) = process.hold().trying(what)? {
        pidfd.signal(SIGTERM).trying(what)?;
        crate::sys::poll::wait_readable(&pidfd, Deadline::after(PATIENCE)).trying(what)?;
    }
    Ok(())
}

/// How long it may take to hand over the rest to a command that reads slowly.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    News,
    Room,
    Gone,
    Input,
    Stop,
}

/// The process itself: `ways` says whether the command gets the output, and types its own.
pub(crate) fn follow(handle: &[u8], ways: &str, command: &str) -> Result<()> {
    let handle = Handle::parse(handle).ok_or_else(|| Failure::failed("no such session".into()))?;
    let session = StateDir::open()?.session(&Target::Handle(handle))?;
    let log = session.log()?;
    let what = "read the output";
    let mut at = log.length().trying(what)?;
    let (output, input) = (ways.starts_with('1'), ways.ends_with('1'));
    let mut stop = Signals::catch(&[SIGTERM]).trying("catch signals")?;
    let piped = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
    let mut command = {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(piped(output)).stdout(piped(input)).stderr(Stdio::null());
        shell.spawn().trying("run 'sh'")?
    };
    io::stdout().write_all(&[READY]).and_then(|()| io::stdout().flush()).trying("answer")?;
    let is_kept = io::stdin().read(&mut [0]).is_ok_and(|count| count > 0);
    child::point_standard_streams_at(&std::fs::File::open("/dev/null").trying("open '/dev/null'")?)
        .trying("leave the caller")?;
    let (mut to, mut from) = (command.stdin.take(), command.stdout.take());
    if !is_kept {
        (to, from) = (None, None);
    }
    let mut client = RelayClient::open(&session)?;
    let mut stripper = session.unmarked()?;
    let (mut pending, mut stops) = (Vec::new(), false);
    while to.is_some() || from.is_some() {
        let follows = match &mut client {
            Some(client) if !stops => client.follow()?,
            _ => false,
        };
        if to.is_some() && pending.len() < PIPE_ROOM {
            read(&session, &mut at, &mut stripper, &mut pending)?;
        }
        let is_over = stops || !follows;
        if is_over && pending.is_empty() {
            break;
        }
        let mut poll_set = PollSet::new();
        if let Some(client) = client.as_ref().filter(|_| follows) {
            poll_set.readable(client, Event::News);
        }
        if let Some(to) = &to {
            match pending.is_empty() {
                true => poll_set.gone(to, Event::Gone),
                false => poll_set.writable(to, Event::Room),
            }
        }
        if let Some(from) = &from {
            poll_set.readable(from, Event::Input);
        }
        poll_set.readable(&stop, Event::Stop);
        for event in poll_set.wait(Deadline::NEVER).trying("wait")? {
            match event {
                Event::News => {
                    if let Some(relay) = &mut client
                        && relay.receive_news(Deadline::after(std::time::Duration::ZERO), None)?
                            == WaitOutcome::Ended
                    {
                        client = None;
                    }
                }
                Event::Gone => to = None,
                Event::Room => {
                    let part = &pending[..pending.len().min(PIPE_ROOM)];
                    match to.as_mut().map(|to| to.write(part)) {
                        Some(Ok(count)) => drop(pending.drain(..count)),
                        _ => to = None,
                    }
                }
                Event::Input => {
                    let mut buffer = [0; PIPE_ROOM];
                    match from.as_mut().map(|from| from.read(&mut buffer)) {
                        Some(Ok(count @ 1..)) => drop(session.type_later(&buffer[..count]).trying("type")?),
                        _ => from = None,
                    }
                }
                Event::Stop => stops |= stop.take(),
            }
        }
    }
    drop((to, from));
    command.wait().trying("wait for the command")?;
    Ok(())
}

/// Reads some of what has come.
fn read(
    session: &SessionDir,
    at: &mut u64,
    stripper: &mut crate::session::shell::MarkStripper,
    pending: &mut Vec<u8>,
) -> Result<()> {
    const BLOCK: u64 = 64 * 1024;
    let log = session.log()?;
    let end = log.length().trying("read the output")?.min(*at + BLOCK);
    let mut pieces = log.pieces(*at, end);
    while let Some(piece) = pieces.next().trying("read the output")? {
        if let Piece::Bytes(bytes) = piece {
            stripper.feed(bytes, pending);
        }
    }
    *at = pieces.offset();
    Ok(())
}
