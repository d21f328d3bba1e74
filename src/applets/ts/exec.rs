//! exec - run a program on another machine, without a session
//! Task: On machines, 1
//!
//! Usage: nbs-ts exec MACHINE COMMAND...
//!
//! Joins the words of COMMAND with spaces and passes them to `sh -c` there, in the
//! home directory, as ssh does. Everything after MACHINE is the command, except a
//! leading `--`. There is no terminal. Standard input, output and error pass
//! through unchanged, each with its end of file.
//!
//! SIGINT, SIGTERM and SIGHUP are passed on. When the program or this call ends,
//! so does everything that the program has started there, except sessions. If the
//! connection is lost, the program goes on for up to 60 seconds; no output is lost
//! or repeated.
//!
//! It can replace ssh: `rsync -e 'nbs-ts exec'`,
//! `GIT_SSH_COMMAND='nbs-ts exec' git clone MACHINE:repo`.
//!
//! Exit codes:
//!   N                 the program's own, or 128 plus the number of the signal
//!                     that ended it
//!   4                 bad arguments
//!   126               the command cannot be executed
//!   127               the command was not found
//!   255               the machine is unreachable, or the call could not continue
//!                     within 60 seconds
//!
//! Example:
//!   tar c src | nbs-ts exec devbox 'tar x -C /srv && make -C /srv/src'

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt,
};

use crate::{
    call::CommandLine,
    machine::{call::RemoteCall, name, streams},
    outcome::{Failure, Reason, Result},
};

/// Why there is no such option. git asks by `-G` whether this is OpenSSH: that fails without a message.
pub(super) fn reject(option: &OsStr) -> Failure {
    if option == "-G" {
        return Failure::quiet();
    }
    Failure::bad_args(format!("invalid option '{}'; see 'nbs-ts help exec'", option.display()))
}

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let machine = name::parse(call.operand("MACHINE").unwrap_or_default().as_encoded_bytes())?;
    let words = match call.operands("COMMAND") {
        [dashes, words @ ..] if dashes == "--" => words,
        words => words,
    };
    if words.is_empty() {
        return Err(Failure::bad_args("missing COMMAND".into()));
    }
    let line = words.join(OsStr::new(" "));
    let code =
        RemoteCall::exec(&machine, vec![b"sh".to_vec(), OsString::into_vec(line)]).and_then(streams::carry);
    match code.map_err(of_exec)? {
        0 => Ok(()),
        code => Err(Failure::status(code, "failed", None)),
    }
}

/// No code of ours can be mistaken for the program's.
fn of_exec(failure: Failure) -> Failure {
    if failure.is(Reason::Failed) { failure.into_status(255, "failed") } else { failure }
}
