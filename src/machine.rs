//! Sessions on other machines.
//!
//! A call for another machine goes through the [`bridge`] to it, a process in the background that
//! keeps one connection for all calls: the standard input and output of a POSIX `sh` there, which
//! ssh, a container's engine, or any other command gives. [`bootstrap`] gets from there to our own
//! file, and the [`far`] side executes the verb as it would be executed here. What passes between
//! them are [`frames`]. The two ends of a call are machines of their own, [`near_end`] and [`far_end`];
//! [`call`] and [`far`] do for them what touches the system.
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
pub(crate) mod content;
mod daemon;
pub(crate) mod far;
mod far_end;
pub(crate) mod far_lines;
pub(crate) mod frames;
pub(crate) mod name;
mod near_end;
pub(crate) mod outbox;
mod silence;

use std::{env, ffi::OsStr, io, os::unix::ffi::OsStrExt};

use crate::{
    outcome::{Result, Trying},
    session::{Handle, StateDir},
    sys::{files::Folder, host::Host},
};

/// What this file says of itself: calls and bridges of one version belong together.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("NBS_COMMIT"), ")");

/// How our processes on the far side are called.
pub(crate) const FAR_ROLE: &str = "nbs-far";
pub(crate) const CALL: &str = "nbs-call";

/// What of its caller's environment a call has there, where it has a terminal.
pub(crate) const CARRIED: [&str; 2] = ["TERM", "COLORTERM"];

/// What the caller of a call calls that machine, in its environment there; no session has it.
pub(crate) const MACHINE_ENV: &str = "NBS_TS_MACHINE";

/// A session, as our caller types it.
pub(crate) fn as_called(handle: &Handle) -> String {
    let machine = env::var(MACHINE_ENV).ok().and_then(|name| name::MachineName::parse(name.as_bytes()));
    machine.map_or_else(|| handle.to_string(), |machine| format!("{machine}:{handle}"))
}

/// Opens a folder of ours in the state folder, and makes it where it is not. What listens there is
/// reached on its own machine only, so each that shares the state folder has one in it.
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

/// Is it a command that waits for something? Without whoever wants to know, it is of no use; the
/// others are brief.
pub(crate) fn waits<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> bool {
    match words.next() {
        // A worker in the foreground ends with whoever waits for it.
        Some(verb) if verb == WORKER.as_bytes() => {
            words.any(|word| word == b"--foreground" || word.starts_with(b"--wait"))
        }
        Some(verb) => {
            [&b"run"[..], b"ask", b"wait", b"wait-complete", b"wait-pattern", b"attach", b"events", PAGE]
                .contains(&verb)
        }
        None => false,
    }
}

/// What stands for a command of `nbs-ts` in a call of `nbs-spawn-worker`.
pub(crate) const WORKER: &str = "spawn-worker";

/// What a page calls, to be told of the sessions there.
pub(crate) const PAGE: &[u8] = b"page";
