//! Sessions on other machines.
//!
//! A call for another machine goes through the [`bridge`] to it. That is a process in the background
//! that keeps one connection for all calls: the standard input and output of a POSIX `sh` there, which
//! ssh, a container's engine, or any other command provides. [`bootstrap`] starts our own file there,
//! and the [`far`] side executes the verb as it would be executed here. They exchange [`frames`]. The
//! two ends of a call are state machines, [`near_end`] and [`far_end`]; [`call`] and [`far`] make
//! their system calls.
//!
//! ```text
//! nbs-ts VERB box:h   nbs-bridge box       on the machine
//!   |                   |                   nbs-far connect    nbs-far serve
//!   +-- socket, frames--+-- ssh box sh ------ its pipes are handed over --+-- nbs-call VERB h
//! ```
//!
//! [`name`], [`frames`], the two ends and [`bootstrap`] are pure, but for the file of the machines.

pub(crate) mod bootstrap;
pub(crate) mod bridge;
pub(crate) mod call;
pub(crate) mod call_process;
pub(crate) mod call_stream;
pub(crate) mod copy;
mod daemon;
pub(crate) mod executable;
pub(crate) mod far;
mod far_end;
pub(crate) mod forwarding;
pub(crate) mod frames;
pub(crate) mod name;
mod near_end;
pub(crate) mod outbox;
mod outgoing;
pub(crate) mod port;
pub(crate) mod pump;
pub(crate) mod renewed_call;
mod silence;
pub(crate) mod streams;
pub(crate) mod supervisor;

use std::{env, ffi::OsStr, io, os::unix::ffi::OsStrExt, process::Command};

use crate::{
    outcome::{Result, Trying},
    session::{Handle, StateDir},
    sys::{child, files::Folder, host::Host},
};

/// The version of this file: calls and bridges must have the same one.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("NBS_COMMIT"), ")");

/// How our processes on the far side are called.
pub(crate) const FAR_ROLE: &str = "nbs-far";
const CALL: &str = "nbs-call";

/// The variables that a call with a terminal takes along from its caller's environment.
pub(crate) const CARRIED: [&str; 2] = ["TERM", "COLORTERM"];

/// The caller's name for that machine, in the environment of its calls there; no session has it.
pub(crate) const MACHINE_ENV: &str = "NBS_TS_MACHINE";

/// A session, as our caller types it.
pub(crate) fn as_called(handle: &Handle) -> String {
    let machine = env::var(MACHINE_ENV).ok().and_then(|name| name::MachineName::parse(name.as_bytes()));
    machine.map_or_else(|| handle.to_string(), |machine| format!("{machine}:{handle}"))
}

/// Opens our directory in the state directory, and creates it if it is missing. Its sockets can only
/// be reached on their own machine, so each machine that shares the state directory has its own.
pub(crate) fn folder(state_dir: &StateDir, name: &str) -> Result<Folder> {
    let inside = |folder: &Folder, name: &OsStr| match folder.make_folder(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => folder.open_folder(name),
        other => other,
    };
    let make = || {
        let folder = inside(&Folder::open(state_dir.path())?, name.as_ref())?;
        if folder.may_be_shared() {
            inside(&folder, OsStr::from_bytes(&Host::ours()?.place()))
        } else {
            Ok(folder)
        }
    };
    make().trying(format_args!("open '{}'", state_dir.path().join(name).display()))
}

/// Our process for one call that is of no use without us; `how` is `pipes` or `terminal`. The words of
/// the call are still to be added.
pub(crate) fn call_of_ours(how: &str) -> Command {
    let mut command = child::ourselves(CALL);
    command.args([&std::process::id().to_string(), how]);
    command
}

/// Does the command wait for something? Such a call is useless without its caller; others are short.
pub(crate) fn waits<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> bool {
    match words.next() {
        // A worker in the foreground ends with its caller.
        Some(verb) if verb == WORKER.as_bytes() => {
            words.any(|word| word == b"--foreground" || word.starts_with(b"--wait"))
        }
        Some(verb) => [
            &b"run"[..],
            b"ask",
            b"wait",
            b"wait-complete",
            b"wait-pattern",
            b"attach",
            b"events",
            b"forward",
            PAGE,
        ]
        .contains(&verb),
        None => false,
    }
}

/// The name in place of a command of `nbs-ts` in a call of `nbs-spawn-worker`.
pub(crate) const WORKER: &str = "spawn-worker";

/// The word in place of a command of `nbs-ts` for what only carries streams. Which it is follows: `sh`
/// with a line, or a part of our own.
pub(crate) const EXEC: &[u8] = b"exec";

/// Is a call of that kind?
pub(crate) fn is_exec(words: &[Vec<u8>]) -> bool {
    words.first().is_some_and(|word| word == EXEC)
}

/// Does such a call end at SIGUSR1? What receives files cleans up at the end of its input instead.
fn ends_by_signal(words: &[Vec<u8>]) -> bool {
    is_exec(words) && words.get(1).is_some_and(|word| word != b"receive")
}

/// The call by which a page receives the sessions there.
pub(crate) const PAGE: &[u8] = b"page";
