//! A session of another machine in the window of a terminal.
//!
//! There, the call has a terminal of its own, of our window's size, and is the one that shows the
//! session; here, what it prints is shown, and every key is passed on. So all but the loss of the
//! connection is as with a session here.

use std::{
    env,
    ffi::OsString,
    io::{self, Read},
    os::{fd::AsFd, unix::ffi::OsStringExt},
};

use crate::{
    machine::{
        CARRIED,
        call::{Call, Came, End},
        name::MachineName,
        outbox::Outbox,
    },
    outcome::{Failure, Result, Trying},
    sys::{
        deadline::Deadline,
        poll::PollSet,
        pty::Size,
        signals::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH, Signals},
        term,
    },
    terminal::queries::PrivateModes,
    ts::attach::reset,
};

/// So much may wait for a slow terminal, before no more is taken; then there it is seen that
/// nobody reads.
const MOST: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum PassEvent {
    Keys,
    Call,
    Room,
    Resized,
    Ending,
    Stopping,
    GoingOn,
    ParentGone,
}

/// Shows a session of a machine on the terminal that is our standard input and output; `words` are
/// those of the call. `parent` is a pipe to who gives the terminal back where we cannot.
pub(crate) fn pass_through(machine: &MachineName, words: Vec<OsString>, parent: &impl AsFd) -> Result<()> {
    let what = "take the terminal";
    let before = term::Before::look().trying(what)?;
    let before = before.ok_or_else(|| Failure::Failed(format!("cannot {what}: there is none")))?;
    let mut terminal = term::output().trying(what)?;
    let window =
        || Ok(term::size()?.unwrap_or(Size::DEFAULT)).map(|size| (size.cols, size.rows)).trying(what);
    let variables =
        CARRIED.iter().filter_map(|name| Some((name.as_bytes().to_vec(), env::var_os(name)?.into_vec())));
    let words = words.into_iter().map(OsString::into_vec).collect();
    let mut call = Call::begin(machine, words, Some((window()?, variables.collect())), None)?;

    let mut resized = Signals::catch(&[SIGWINCH]).trying(what)?;
    let ending = Signals::catch(&[SIGTERM, SIGHUP, SIGINT, SIGQUIT]).trying(what)?;
    // It would leave the terminal raw.
    let mut stopping = Signals::catch(&[SIGTSTP]).trying(what)?;
    let mut going_on = Signals::catch(&[SIGCONT]).trying(what)?;
    let (mut shown, mut said) = (Outbox::default(), Vec::new());
    let mut is_raw = false;
    let end = loop {
        let (mut came, mut end) = (Vec::new(), None);
        if shown.len() < MOST {
            call.tend(&mut came);
        }
        for came in came {
            match came {
                Came::Stdout(bytes) => shown.extend(bytes),
                Came::Stderr(bytes) => said.extend(bytes),
                Came::Ended(ended) => end = Some(ended),
            }
        }
        // Until then, somebody may interrupt what does not get there.
        if call.is_open() && !is_raw {
            before.make_raw().trying(what)?;
            is_raw = true;
        }
        shown.flush(&mut terminal).trying("write to the terminal")?;
        if let Some(end) = end {
            break end;
        }
        let stdin = io::stdin();
        let mut poll_set = PollSet::new();
        if shown.len() < MOST {
            call.watch(&mut poll_set, PassEvent::Call);
        }
        if is_raw && call.wants_stdin() {
            poll_set.readable(&stdin, PassEvent::Keys);
        }
        if !shown.is_empty() {
            poll_set.writable(&terminal, PassEvent::Room);
        }
        poll_set.readable(&resized, PassEvent::Resized);
        poll_set.readable(&ending, PassEvent::Ending);
        poll_set.readable(&stopping, PassEvent::Stopping);
        poll_set.readable(&going_on, PassEvent::GoingOn);
        poll_set.gone(parent, PassEvent::ParentGone);
        let mut told = false;
        for event in poll_set.wait(call.deadline()).trying("wait for the other machine")? {
            match event {
                PassEvent::Call | PassEvent::Room => {}
                PassEvent::Keys => {
                    let mut keys = [0; 4096];
                    match stdin.lock().read(&mut keys) {
                        Ok(0) => told = true,
                        Ok(count) => call.give_stdin(&keys[..count]),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => told = true,
                    }
                }
                PassEvent::Resized => {
                    resized.take();
                    call.resize(window()?);
                }
                PassEvent::Stopping => {
                    stopping.take();
                }
                PassEvent::GoingOn => {
                    going_on.take();
                    is_raw = false;
                }
                PassEvent::Ending | PassEvent::ParentGone => told = true,
            }
        }
        if told {
            let message = format!("cannot stay at a session of '{machine}': a signal says to leave it");
            break End::Lost(Failure::Failed(message));
        }
    };
    let is_lost = matches!(end, End::Lost(_));
    if is_lost && is_raw {
        shown.clear();
        shown.extend(reset(&PrivateModes::strange(), true).into_bytes());
    }
    let soon = Deadline::after(LEAVE_TIMEOUT);
    while !shown.is_empty() && !soon.has_passed() {
        shown.flush(&mut terminal).trying("write to the terminal")?;
        let mut poll_set = PollSet::new();
        if !shown.is_empty() {
            poll_set.writable(&terminal, PassEvent::Room);
            poll_set.wait(soon).trying("write to the terminal")?;
        }
    }
    before.give_back().trying("give the terminal back")?;
    match end {
        End::Lost(failure) => Err(failure),
        End::Exit { code: 0, signal: 0 } => Ok(()),
        End::Exit { code, .. } => {
            let said = String::from_utf8_lossy(&said);
            let said = said.trim().strip_prefix("nbs-ts: ").unwrap_or(said.trim()).to_owned();
            Err(Failure::Status { code, kind: "failed", message: Some(format!("{machine}: {said}")) })
        }
    }
}

/// How long a terminal that takes nothing may hold up our leaving it.
const LEAVE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);
