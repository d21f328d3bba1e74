//! Commands that take their time: shells, channels, files of commands, and a person who looks.

use std::{
    io::{self, IsTerminal, Read, Write},
    path::Path,
    process::{Command, Stdio, id},
};

use super::{Caller, Turn, typing};
use crate::{
    cli, numbers,
    outcome::{Failure, Reason, Result, Trying},
    sys::{
        child::ExitStatus,
        deadline::Deadline,
        files,
        poll::{self, PollSet},
        processes::PidFd,
        signals::SIGTERM,
    },
    tmux::{
        panes,
        state::{Channel, Keep, State},
        target::{Kind, Target},
        words::{self, Call},
    },
    ts::attach,
};

/// The words for a waiting call: go on, or give up.
const GO: &[u8] = b"+";
const GONE: &[u8] = b"-";

/// `-c`: a command by the shell.
pub(super) fn shell(command: &str, umask: u32) -> Result<()> {
    files::set_umask(umask);
    let status = Command::new("sh").arg("-c").arg(command).status().trying("run 'sh'")?;
    match ExitStatus::number_of(status) {
        0 => Ok(()),
        code => Err(Failure::status(code as u8, "failed", None)),
    }
}

/// A shell for a command, in this name space.
fn job(caller: &Caller, turn: &Turn, at: Option<Target>, command: &str) -> Command {
    let mut job = Command::new("sh");
    let session = at.map_or(0, |at| at.session);
    job.arg("-c").arg(command).stdin(Stdio::null());
    job.env("TMUX", format!("{},1,{session}", caller.space.socket.display()));
    if let Some(pane) = at.and_then(|at| turn.state.pane(at.pane)) {
        job.env("TMUX_PANE", format!("%{}", pane.id));
    }
    job
}

/// run-shell and if-shell as commands of the call itself.
pub(super) fn shell_command(caller: &Caller, _: &mut Turn, call: &Call) -> Result<()> {
    let mut turn = caller.begin(false, false)?;
    if call.command.name == "run-shell" {
        return match call.operand(0) {
            Some(command) if call.has('C') => {
                drop(turn);
                execute_all(caller, command)
            }
            Some(command) => run_shell(caller, &mut turn, call, command),
            None => Ok(()),
        };
    }
    let holds = condition(caller, &turn, call, &call.operands[0])?;
    drop(turn);
    match call.operand(if holds { 1 } else { 2 }) {
        Some(commands) => execute_all(caller, commands),
        None => Ok(()),
    }
}

fn execute_all(caller: &Caller, commands: &str) -> Result<()> {
    words::parse(commands)?.iter().try_for_each(|(_, words)| caller.execute(words))
}

/// Does the condition of an if-shell hold?
pub(super) fn condition(caller: &Caller, turn: &Turn, call: &Call, condition: &str) -> Result<bool> {
    let at = caller.at(turn, call, Kind::Pane).ok();
    let format = caller.format(turn, at);
    if call.has('F') {
        return Ok(format.holds(condition));
    }
    let status =
        job(caller, turn, at, &format.expand(condition)).stdout(Stdio::null()).stderr(Stdio::null()).status();
    Ok(status.trying("run 'sh'")?.success())
}

pub(super) fn run_shell(caller: &Caller, turn: &mut Turn, call: &Call, command: &str) -> Result<()> {
    let at = match call.value('t') {
        None => caller.current(turn),
        word => Some(caller.find(turn, word, Kind::Pane)?),
    };
    let command = caller.expand(turn, at, command);
    // Others may go on meanwhile, and so may what it calls itself.
    let held = turn.lock.is_some();
    if held {
        turn.state.settle(&caller.space);
        caller.space.store(Some(&mut turn.state))?;
        turn.lock = None;
    }
    if let Some(delay) = call.value('d') {
        let delay = numbers::parse_seconds(delay.as_bytes());
        let delay = delay.ok_or_else(|| {
            Failure::failed(format!("invalid delay time: {}", call.value('d').unwrap_or_default()))
        })?;
        PollSet::<()>::new().wait(Deadline::after(delay)).trying("wait")?;
    }
    let mut job = job(caller, turn, at, &command);
    let done = if call.has('b') {
        job.stdout(Stdio::null()).stderr(Stdio::null());
        files::with_callers_umask(|| job.spawn()).map(|_| 0)
    } else {
        job.stdout(Stdio::piped()).stderr(Stdio::piped());
        files::with_callers_umask(|| job.output()).and_then(|output| {
            cli::print([output.stdout, output.stderr].concat())
                .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Ok(ExitStatus::number_of(output.status))
        })
    };
    if held {
        turn.lock = Some(caller.space.lock()?);
        turn.state = caller.space.load()?.ok_or_else(|| caller.space.not_running())?;
        turn.state.reap(None);
    }
    match done.trying("run 'sh'")? {
        0 => Ok(()),
        code => Err(Failure::status(code as u8, "failed", None)),
    }
}

/// Executes the commands of a file. If a line is not a command, reports it with its number and executes none.
pub(super) fn source(caller: &Caller, turn: &mut Turn, path: &Path, quiet: bool) -> Result<()> {
    let path = path.display().to_string();
    let text = match typing::text_of(&path) {
        Err(error) if quiet && error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|error| Failure::failed(format!("{path}: {}", typing::reason(&error))))?,
    };
    let commands = words::parse(&text)?;
    for (line, words) in &commands {
        super::parse(Some(&turn.state), words).map_err(|failure| {
            Failure::failed(format!("{path}:{line}: {}", failure.message().unwrap_or_default()))
        })?;
    }
    let mut faults = Vec::new();
    turn.depth += 1;
    for (_, words) in commands {
        faults.extend(caller.nested(turn, &words).err());
    }
    turn.depth -= 1;
    all(faults)
}

/// One failure with a line for each.
fn all(mut failures: Vec<Failure>) -> Result<()> {
    match failures.len() {
        0 => Ok(()),
        1 => Err(failures.remove(0)),
        _ => {
            let lines: Vec<&str> = failures.iter().filter_map(Failure::message).collect();
            Err(Failure::failed(lines.join("\n")))
        }
    }
}

pub(super) fn start_server(_: &Caller, _: &mut Turn, _: &Call) -> Result<()> {
    Ok(())
}

pub(super) fn source_files(caller: &Caller, _: &mut Turn, call: &Call) -> Result<()> {
    let mut turn = caller.begin(true, false)?;
    let mut failures = Vec::new();
    for file in &call.operands {
        failures.extend(source(caller, &mut turn, Path::new(file), call.has('q')).err());
    }
    failures.extend(caller.finish(turn).err());
    all(failures)
}

pub(super) fn wait_for(caller: &Caller, _: &mut Turn, call: &Call) -> Result<()> {
    let name = &call.operands[0];
    let mut turn = caller.begin_for(true, false, Some(call))?;
    let channels = &mut turn.state.channels;
    let at = channels.iter().position(|channel| channel.name == *name).unwrap_or_else(|| {
        channels.push(Channel { name: name.clone(), ..Channel::default() });
        channels.len() - 1
    });
    let channel = &mut channels[at];
    let mut waits = false;
    if call.has('S') {
        let waiters = std::mem::take(&mut channel.waiters);
        let woken = waiters.into_iter().filter(|waiter| wake(caller, *waiter, GO)).count();
        channel.woken = woken == 0;
    } else if call.has('U') {
        if !channel.locked {
            return Err(Failure::failed(format!("channel {name} not locked")));
        }
        let mut lockers = std::mem::take(&mut channel.lockers).into_iter();
        channel.locked = lockers.by_ref().any(|locker| wake(caller, locker, GO));
        channel.lockers = lockers.collect();
    } else if call.has('L') {
        waits = std::mem::replace(&mut channel.locked, true);
        channel.lockers.extend(waits.then(id));
    } else {
        waits = !std::mem::take(&mut channel.woken);
        channel.waiters.extend(waits.then(id));
    }
    let is_idle = |channel: &Channel| {
        !channel.locked && !channel.woken && channel.waiters.is_empty() && channel.lockers.is_empty()
    };
    turn.state.channels.keep(&|channel| !is_idle(channel));
    if !waits {
        return caller.finish(turn);
    }
    let fifo = fifo_of(id());
    let mut file = caller.space.within(|folder| {
        // One that was killed may have had our number.
        let _ = folder.remove_file(fifo.as_ref());
        folder.make_fifo(&fifo)?;
        let file = folder.open_fifo(&fifo)?;
        // As long as we hold it, we are known to wait.
        file.lock()?;
        Ok(file)
    })?;
    caller.finish(turn)?;
    let mut word = [0];
    poll::wait_readable(&file, Deadline::NEVER).trying("wait")?;
    file.read_exact(&mut word).trying("wait")?;
    let removed = caller.space.within(|folder| folder.remove_file(fifo.as_ref()));
    if word == GO { removed } else { Err(Failure::failed("server exited".into())) }
}

fn fifo_of(pid: u32) -> String {
    format!("w{pid}")
}

/// Sends a word to one who waits; `false` where nobody does.
fn wake(caller: &Caller, waiter: u32, word: &[u8]) -> bool {
    let woken = caller.space.within(|folder| {
        let mut file = folder.open_fifo(&fifo_of(waiter))?;
        let waits = file.try_lock().is_err();
        if waits {
            file.write_all(word)?;
        } else {
            folder.remove_file(fifo_of(waiter).as_ref())?;
        }
        Ok(waits)
    });
    woken.unwrap_or(false)
}

/// Ends the waits of all when the server would have gone.
pub(super) fn give_up(caller: &Caller, state: &State) {
    for channel in &state.channels {
        for waiter in channel.waiters.iter().chain(&channel.lockers) {
            wake(caller, *waiter, GONE);
        }
    }
}

pub(super) fn attach_session(caller: &Caller, _: &mut Turn, call: &Call) -> Result<()> {
    let turn = match caller.begin(false, false) {
        Err(failure) if failure.is(Reason::Failed) => return Err(Failure::failed("no sessions".into())),
        other => other?,
    };
    let kind = match call.value('t') {
        Some(word) if word.contains([':', '.']) => Kind::Pane,
        _ => Kind::Session,
    };
    let at = caller.find(&turn, call.value('t'), kind)?;
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(Failure::failed("open terminal failed: not a terminal".into()));
    }
    drop(turn);
    if call.value('t').is_some_and(|word| word.contains([':', '.', '%', '@'])) {
        let mut turn = caller.begin(true, false)?;
        turn.state.session_mut(at.session).select(at.index);
        turn.state.window_mut(at.window).select(at.pane);
        caller.finish(turn)?;
    }
    attach(caller, at.session, call.has('r'))
}

/// Shows the active pane of a session until the person detaches, or nothing of it is left.
pub(super) fn attach(caller: &Caller, id: u32, read_only: bool) -> Result<()> {
    let ours = std::process::id();
    let note = |attached: bool| -> Result<Option<(String, String)>> {
        let Ok(mut turn) = caller.begin(true, false) else { return Ok(None) };
        let Some(session) = turn.state.session(id) else {
            caller.finish(turn)?;
            return Ok(None);
        };
        let (window, name) = (session.current_window(), session.name.clone());
        let pane = turn.state.pane(turn.state.window(window).active).map(|pane| pane.handle.clone());
        let session = turn.state.session_mut(id);
        session.clients.keep(&|client| *client != ours);
        if attached {
            session.clients.push(ours);
            session.attached = panes::now();
            session.activity = session.attached;
        }
        caller.finish(turn)?;
        Ok(pane.map(|pane| (pane, name)))
    };
    let mut last = None;
    loop {
        let Some((handle, name)) = note(true)? else { return cli::print("[exited]\n") };
        if last.as_ref() == Some(&handle) {
            note(false)?;
            return cli::print(format!("[detached (from session {name})]\n"));
        }
        let shown = attach::attach_as_tmux(&handle, read_only);
        if let Err(failure) = shown {
            note(false)?;
            return Err(failure);
        }
        last = Some(handle);
    }
}

pub(super) fn detach(caller: &Caller, _: &mut Turn, call: &Call) -> Result<()> {
    let turn = caller.begin(false, false)?;
    let only = match call.value('s') {
        None => None,
        word => Some(caller.find(&turn, word, Kind::Session)?.session),
    };
    let client = call.value('t').map(|client| client.trim_start_matches("client-").to_owned());
    let mut clients = Vec::new();
    for session in turn.state.sessions.iter().filter(|session| only.is_none_or(|only| session.id == only)) {
        for pid in &session.clients {
            if client.as_ref().is_none_or(|client| *client == pid.to_string()) {
                clients.push(*pid);
            }
        }
    }
    if clients.is_empty() {
        return match &client {
            Some(client) => Err(Failure::failed(format!("can't find client: {client}"))),
            None if only.is_some() => Ok(()),
            None => Err(Failure::failed("no current client".into())),
        };
    }
    for pid in clients {
        if let Some(pidfd) = PidFd::open(pid).trying("reach a client")? {
            pidfd.signal(SIGTERM).trying("detach a client")?;
        }
    }
    Ok(())
}
