//! A session of another machine in the window of a terminal.
//!
//! There, the call has a terminal of its own, of our window's size, and shows the session; here, its output
//! is shown, and every key is passed on. So all but the loss of the connection is as with a session here.

use std::{
    env,
    ffi::OsString,
    io,
    os::{fd::AsFd, unix::ffi::OsStringExt},
};

use crate::{
    machine::{
        CARRIED,
        call::{Came, End, RemoteCall},
        name::MachineName,
        renewed_call::keep_last,
    },
    outcome::{Failure, Result, Trying},
    sys::{deadline::Deadline, poll::PollSet, pty::Size, term},
    terminal::queries::PrivateModes,
    ts::attach::{
        person::{PersonEvent, PersonSignals, PersonTerminal, read_keys},
        reset,
    },
};

/// This much output may wait for a slow terminal before we accept more. Then the far side notices that
/// the terminal does not read.
const MOST: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum PassEvent {
    Keys,
    Call,
    Room,
    Person(PersonEvent),
}

/// Shows a session of a machine on the terminal that is our standard input and output; `words` are those of
/// the call. `parent` is a pipe to the process that restores the terminal if we cannot.
pub(crate) fn pass_through(machine: &MachineName, words: Vec<OsString>, parent: &impl AsFd) -> Result<()> {
    let what = "take the terminal";
    let mut terminal = PersonTerminal::look()?;
    let window =
        || Ok(term::size()?.unwrap_or(Size::DEFAULT)).map(|size| (size.cols, size.rows)).trying(what);
    let variables =
        CARRIED.iter().filter_map(|name| Some((name.as_bytes().to_vec(), env::var_os(name)?.into_vec())));
    let words = words.into_iter().map(OsString::into_vec).collect();
    let mut call = RemoteCall::begin(machine, words, Some((window()?, variables.collect())), None)?;

    let mut signals = PersonSignals::catch(parent)?;
    let mut said = Vec::new();
    let mut is_raw = false;
    let end = loop {
        let mut end = None;
        let came = if terminal.out.len() < MOST { call.drive() } else { Vec::new() };
        for came in came {
            match came {
                Came::Stdout(bytes) => terminal.print(&bytes),
                Came::Stderr(bytes) => keep_last(&mut said, &bytes),
                Came::Ended(ended) => end = Some(ended),
            }
        }
        // Until then, an interrupt may end keys that do not arrive.
        if call.is_open() && !is_raw {
            terminal.make_raw()?;
            is_raw = true;
        }
        terminal.write_on()?;
        if let Some(end) = end {
            break end;
        }
        let stdin = io::stdin();
        let mut poll_set = PollSet::new();
        if terminal.out.len() < MOST {
            call.watch(&mut poll_set, PassEvent::Call);
        }
        if is_raw && call.wants_stdin() {
            poll_set.readable(&stdin, PassEvent::Keys);
        }
        terminal.watch(&mut poll_set, PassEvent::Room);
        signals.watch(&mut poll_set, PassEvent::Person);
        let mut told = false;
        // We read what has arrived before we check the time.
        let deadline = if terminal.out.len() < MOST { call.deadline() } else { Deadline::NEVER };
        for event in poll_set.wait(deadline).trying("wait for the other machine")? {
            match event {
                PassEvent::Call | PassEvent::Room => {}
                PassEvent::Keys => match read_keys(&stdin)? {
                    Some(keys) => call.stdin().push(&keys),
                    None => told = true,
                },
                PassEvent::Person(event) => {
                    signals.take(event);
                    match event {
                        PersonEvent::Resized => call.resize(window()?),
                        PersonEvent::Stopping => {}
                        PersonEvent::GoingOn => is_raw = false,
                        PersonEvent::Ending => told = true,
                    }
                }
            }
        }
        if told {
            let message = format!("detached from a session of '{machine}' by a signal");
            break End::Lost(Failure::failed(message));
        }
    };
    let is_lost = matches!(end, End::Lost(_));
    if is_lost && is_raw {
        terminal.out.clear();
        terminal.print(reset(&PrivateModes::strange(), true).as_bytes());
    }
    terminal.finish()?;
    terminal.give_back()?;
    match end {
        End::Lost(failure) => Err(failure),
        End::Exit(0) => Ok(()),
        End::Exit(code) => {
            let said = String::from_utf8_lossy(&said);
            let said = said.trim().strip_prefix("nbs-ts: ").unwrap_or(said.trim()).to_owned();
            Err(Failure::status(code, "failed", Some(format!("{machine}: {said}"))))
        }
    }
}
