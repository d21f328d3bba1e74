//! The keeper: the parent of a session's child, in the helper's environment.
//!
//! It opens the terminal, starts the child, and passes the terminal to the relay without keeping it.
//! So if the relay ends, the terminal hangs up. The keeper adopts every orphan of the session, so that
//! `kill` finds them below it, and tells the relay how the child ended.
//!
//! When it has no children left, it shuts down its half of the connection. It ends only when the child
//! has ended and the relay has closed its half, as a relay without a helper would (or by SIGKILL). So
//! its existence proves to `kill` that no process of the session has escaped. The relay handles a
//! shutdown.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read, Write},
    net::Shutdown,
    os::{fd::AsFd, unix::ffi::OsStringExt, unix::net::UnixStream},
    path::PathBuf,
    time::Duration,
};

use crate::{
    helper::{
        death,
        protocol::{ERROR, FILES, KeeperMessage, SpawnOrder},
    },
    outcome::{Failure, Result, Trying},
    sys::{
        child::{self, ExitStatus},
        confinement::Confinement,
        deadline::Deadline,
        fdpass,
        gate::{Gate, HiddenVariables, Program},
        poll::{self, PollSet},
        pty::{Master, Size},
        signals::{self, SIGCHLD, SIGHUP, SIGINT, SIGTERM, Signals},
    },
    terminal::text,
};

/// How long the rest of a request may take to arrive.
const ORDER_TIMEOUT: Duration = Duration::from_secs(5);

/// A line for the helper's log arrives whole in a pipe that others write to, too, only up to PIPE_BUF
/// (pipe(7)); the shown part of a command leaves room for the words around it.
const LONGEST_SHOWN: usize = 3_000;

#[derive(Clone, Copy)]
enum KeeperEvent {
    Children,
    Relay,
    Log,
}

struct Keeper {
    relay: Option<UnixStream>,
    children: Signals,
    child: u32,
    ended: bool,
    reports: Vec<String>,
}

/// Starts the command that the relay at the other end of `relay` orders, in `length` bytes, and keeps it
/// until its end.
pub(crate) fn keep(relay: UnixStream, peer: u32, length: usize) -> Result<()> {
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signals::disregard(signal).trying("stay")?;
    }
    let children = Signals::catch(&[SIGCHLD]).trying("catch signals")?;
    child::adopt_orphans().trying("become a subreaper")?;
    let mut keeper = Keeper { relay: None, children, child: 0, ended: false, reports: Vec::new() };
    match receive(&relay, length).and_then(|order| start(&relay, &order, peer, &mut keeper)) {
        Ok(()) => {}
        Err(failure) => {
            keeper.report(format!(
                "reject: {} (peer_pid={peer})",
                text::escaped(failure.to_string().as_bytes())
            ));
            // If the relay has gone, there is no one to notify.
            let _ = (&relay).write_all(format!("{}{failure}", char::from(ERROR)).as_bytes());
            if keeper.child == 0 {
                return Ok(());
            }
        }
    }
    // So that we do not keep the helper's directory in use.
    std::env::set_current_dir("/").trying("leave the helper's directory")?;
    keeper.relay = Some(relay);
    keeper.serve().trying("wait for the child")
}

fn receive(relay: &UnixStream, length: usize) -> Result<SpawnOrder> {
    let what = "read the order";
    let deadline = Deadline::after(ORDER_TIMEOUT);
    let mut bytes = vec![0; length];
    let mut came = 0;
    while came < length {
        match (&mut &*relay).read(&mut bytes[came..]) {
            Ok(0) => return Err(Failure::failed("half a request".into())),
            Ok(count) => came += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !poll::wait_readable(relay, deadline).trying(what)? {
                    return Err(Failure::failed(format!(
                        "no whole request within {} s",
                        ORDER_TIMEOUT.as_secs()
                    )));
                }
            }
            Err(error) => return Err(error).trying(what),
        }
        if deadline.has_passed() && came < length {
            return Err(Failure::failed(format!("no whole request within {} s", ORDER_TIMEOUT.as_secs())));
        }
    }
    SpawnOrder::decode(&bytes).ok_or_else(|| Failure::failed("rubbish".into()))
}

/// Nothing of the terminal is ours when it returns.
fn start(relay: &UnixStream, order: &SpawnOrder, peer: u32, keeper: &mut Keeper) -> Result<()> {
    let folder = PathBuf::from(OsString::from_vec(order.folder.clone()));
    fs::read_dir(&folder)
        .map(drop)
        .trying(format_args!("start in '{}', where the helper is", folder.display()))?;
    let master = Master::open(Size { cols: order.cols, rows: order.rows }).trying("open a PTY")?;
    let word = |word: &Vec<u8>| OsString::from_vec(word.clone());
    let words: Vec<OsString> = order.words.iter().map(word).collect();
    let words_of = |words: &[Vec<u8>]| -> Vec<OsString> { words.iter().map(word).collect() };
    let mut environment = HiddenVariables::of_words(words_of(&order.hidden)).removals();
    environment.extend(order.environment.iter().map(|(name, value)| (word(name), value.as_ref().map(word))));
    let confinement = match &order.confinement[..] {
        [] => None,
        words => {
            Some(Confinement::of_words(&words_of(words)).ok_or_else(|| Failure::failed("rubbish".into()))?)
        }
    };
    let program = Program {
        words: &words,
        umask: order.umask,
        folder: Some(&folder),
        environment: &environment,
        confinement: confinement.as_ref(),
    };
    let gate = Gate::spawn(&master, &program).trying("start the command")?;
    keeper.child = gate.child();
    keeper.report(format!("spawn: \"{}\" -> pid {} (peer_pid={peer})", shown(&order.command), gate.child()));
    let ready = KeeperMessage::Ready { child: gate.child(), keeper: std::process::id() };
    fdpass::send(relay, &[FILES], &[master.as_fd(), gate.as_fd()])
        .and_then(|()| (&mut &*relay).write_all(ready.encode().as_bytes()))
        .trying("hand over the terminal")
}

fn shown(command: &[u8]) -> String {
    let mut shown = text::escaped(command);
    if shown.len() > LONGEST_SHOWN {
        let cut = (0..=LONGEST_SHOWN).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0);
        shown.truncate(cut);
        shown.push('…');
    }
    shown
}

impl Keeper {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            while let Some((pid, status)) = child::collect()? {
                if pid == self.child {
                    self.child_has_ended(status);
                }
            }
            match &self.relay {
                None if self.ended => return Ok(()),
                // If the relay has gone, its end is the next event.
                Some(relay) if !child::any_left()? => _ = relay.shutdown(Shutdown::Write),
                _ => {}
            }
            let stdout = io::stdout();
            let mut poll_set = PollSet::new();
            poll_set.readable(&self.children, KeeperEvent::Children);
            if let Some(relay) = &self.relay {
                poll_set.left(relay, KeeperEvent::Relay);
            }
            if !self.reports.is_empty() {
                poll_set.writable(&stdout, KeeperEvent::Log);
            }
            for event in poll_set.wait(Deadline::NEVER)? {
                match event {
                    KeeperEvent::Children => _ = self.children.take(),
                    // It sends nothing after its order: this is its end.
                    KeeperEvent::Relay => self.relay = None,
                    KeeperEvent::Log => self.write_reports(),
                }
            }
        }
    }

    fn child_has_ended(&mut self, status: ExitStatus) {
        self.ended = true;
        self.report(death(self.child, status));
        let line = match status {
            ExitStatus::Code(code) => KeeperMessage::Code(code),
            ExitStatus::Signal(signal) => KeeperMessage::Signal(signal),
        };
        if let Some(mut relay) = self.relay.as_ref() {
            // If the relay has gone, nothing records the status.
            let _ = relay.write_all(line.encode().as_bytes());
        }
    }

    fn report(&mut self, line: String) {
        self.reports.push(line + "\n");
        self.write_reports();
    }

    /// A helper that is stopped gets them later; one that has gone, never.
    fn write_reports(&mut self) {
        while let Some(line) = self.reports.first() {
            // Past std's buffer: a line must be one write to arrive whole.
            match child::write_stdout(line.as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.reports.clear(),
                Ok(_) => drop(self.reports.remove(0)),
            }
        }
    }
}
