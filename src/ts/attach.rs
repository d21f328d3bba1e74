//! A person at a session: `attach --interactive`, and `attach --read-only`.
//!
//! There are two processes: one shows the session and types into it (`nbs-viewer`), its parent only waits.
//! Whatever happens to the one, the other restores the terminal: also after a crash or a SIGKILL, when no
//! code of the one that had it runs.

mod onlooker;
mod passthrough;
mod person;
mod viewer;

use std::{
    env,
    ffi::OsString,
    io::{Read, Write},
    os::fd::AsFd,
    process::{Command, Stdio},
};

use crate::{
    outcome::{Failure, Result, Trying},
    session::{SESSION_ENV, VIEWER},
    sys::{
        child,
        deadline::Deadline,
        poll::PollSet,
        processes::PidFd,
        signals::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, Signals},
        term,
    },
    terminal::queries::PrivateModes,
};
pub(crate) use onlooker::look_on;
pub(crate) use passthrough::pass_through;
pub(crate) use person::{PersonEvent, PersonSignals, PersonTerminal, read_keys};
pub(crate) use viewer::{PREFIX, PREFIX_OF_TMUX, view};

/// Lets the person at our terminal see a session, and type into it; on a machine, if there is
/// one, by these words of a call.
pub(crate) fn attach(handle: &str, words: &[OsString]) -> Result<()> {
    let what = format!("attach to session '{handle}'");
    if env::var_os(SESSION_ENV).is_some_and(|ours| ours == handle) {
        return Err(Failure::failed(format!("cannot {what}: this is its own terminal")));
    }
    let mut command = child::ourselves(VIEWER);
    command.arg(handle).args(words);
    supervise(command, &what)
}

/// The same for who calls us as `tmux`: its prefix detaches.
pub(crate) fn attach_as_tmux(handle: &str, read_only: bool) -> Result<()> {
    let word = if read_only { READ_ONLY } else { AS_TMUX };
    attach(handle, &[word.into()])
}

/// The word by which `nbs-viewer` has the keys of tmux.
pub(crate) const AS_TMUX: &str = "--tmux";

/// The word by which `nbs-viewer` only shows a session.
pub(crate) const READ_ONLY: &str = "--read-only";

/// The word by which `nbs-viewer` shows all sessions.
pub(crate) const BY_TOP: &str = "top";

/// Runs a viewer on our terminal, and waits for it. If it cannot restore the terminal, we do.
pub(crate) fn supervise(mut command: Command, what: &str) -> Result<()> {
    let before = term::Before::look().trying(what)?;
    let no_terminal = || {
        Failure::failed(format!(
            "cannot {what}: standard input and output are not a \
        terminal"
        ))
    };
    let before = before.ok_or_else(no_terminal)?;
    let mut ending = Signals::catch(&[SIGTERM, SIGHUP, SIGINT, SIGQUIT]).trying(what)?;
    let mut stopping = Signals::catch(&[SIGTSTP]).trying(what)?;
    command.stderr(Stdio::piped());
    let mut viewer = command.spawn().map_err(child::why_not_ourselves).trying(what)?;
    drop(command);
    let pidfd = PidFd::open(viewer.id()).trying(what)?;
    let pass_on = |signal| pidfd.as_ref().map_or(Ok(()), |pidfd| pidfd.signal(signal)).trying(what);
    let mut said = Vec::new();
    if let Some(mut words) = viewer.stderr.take() {
        loop {
            let mut poll_set = PollSet::new();
            poll_set.readable(&words, AttachEvent::Words);
            poll_set.readable(&ending, AttachEvent::Ending);
            poll_set.readable(&stopping, AttachEvent::Stopping);
            let events = poll_set.wait(Deadline::NEVER).trying(what)?;
            if events.contains(&AttachEvent::Ending) && ending.take() {
                pass_on(SIGTERM)?;
            }
            if events.contains(&AttachEvent::Stopping) && stopping.take() {
                pass_on(SIGTSTP)?;
            }
            let mut buffer = [0; 1024];
            if events.contains(&AttachEvent::Words) {
                match words.read(&mut buffer).trying(what)? {
                    0 => break,
                    count => said.extend_from_slice(&buffer[..count]),
                }
            }
        }
    }
    let status = viewer.wait().trying(what)?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) if !said.is_empty() => Err(Failure::failed(String::from_utf8_lossy(&said).into_owned())),
        Some(code @ 2..=255) if !said.is_empty() => {
            let message = Some(String::from_utf8_lossy(&said).into_owned());
            Err(Failure::status(code as u8, "failed", message))
        }
        _ => {
            if let Ok(mut terminal) = term::output() {
                // If the terminal accepts nothing, we cannot do more.
                let _ = terminal.write_all(reset(&PrivateModes::strange(), true).as_bytes());
            }
            before.put_back().trying("restore the terminal")?;
            let code = child::ExitStatus::number_of(status);
            Err(Failure::failed(format!("cannot {what}: the viewer ended with exit code {code}")))
        }
    }
}

/// Restores the terminal and stops our parent, until another process continues it; `false` if it has
/// gone. `going_on`: SIGCONT.
fn stop(before: &term::Before, going_on: &mut Signals, parent: &impl AsFd) -> Result<bool> {
    before.put_back().trying("restore the terminal")?;
    // We are not stopped ourselves: our parent could be continued before we are stopped, and we would stop
    // for good.
    going_on.take();
    term::stop_parent().trying("stop")?;
    while !going_on.take() {
        let mut poll_set = PollSet::new();
        poll_set.readable(going_on, true);
        poll_set.gone(parent, false);
        if poll_set.wait(Deadline::NEVER).trying("stop")?.contains(&false) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AttachEvent {
    Words,
    Ending,
    Stopping,
}

/// Resets a terminal with these modes, as far as a session's program changes it by output, and puts
/// the cursor below everything.
fn reset(modes: &PrivateModes, coloured: bool) -> String {
    // CAN ends an incomplete sequence.
    let mut text = format!("\x18{}", modes.change(&PrivateModes::default()));
    // Cursor and screen; colours and margins; character sets and the cursor's shape;
    // a link; the title.
    text += if modes.alternate() { "\x1b[?1049l" } else { "" };
    text += "\x1b[0m\x1b[r\x1b(B\x1b)B\x0f\x1b[0 q\x1b]8;;\x1b\\";
    text += if coloured { "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\" } else { "" };
    text + "\x1b[23;0t\x1b[9999;1H\r\n"
}

/// The last line that a follower sees, dim (ECMA-48, SGR 2).
pub(crate) fn notice(code: Option<i32>, timed_out: bool) -> String {
    let code = code.map_or("unknown".to_owned(), |code| code.to_string());
    let what = match timed_out {
        true => "timed out and was killed".to_owned(),
        false => format!("exited with code {code}"),
    };
    format!("\r\n\x1b[2m[process {what}]\x1b[0m\r\n")
}
