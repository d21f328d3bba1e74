//! eof - end the input of a session's program
//! Task: Do, 7
//!
//! Usage: nbs-ts eof [options] SESSION
//!
//! Waits until a program reads the terminal, then types the terminal's end-of-file
//! character (usually C-d), or C-d if the program reads single keys. After a
//! partial line, it types the character twice, because the first only ends that
//! line, without a newline.
//!
//! If no program reads the terminal, or a full-screen program does, types nothing
//! and exits 1. `key C-d` types the key regardless.
//!
//! Options:
//!   --timeout=TIME    wait this long for a program that does not read
//!                     (default: 10); the rest is never typed
//!   --json            print an object with the number of bytes typed
//!
//! Example:
//!   nbs-ts eof "$h"

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Result},
    session::{
        InputSource, StateDir,
        client::{Diagnosis, Parts, RelayClient, Snapshot, TerminalState, sending},
    },
    sys::deadline::Deadline,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (target, timeout) = (call.session()?, call.value("timeout", cli::time)?);

    let session = StateDir::open()?.session(&target)?.within(Deadline::after(timeout));
    session.check_input()?;
    let handle = session.handle();
    let refused =
        |why: String| Err(Failure::failed(format!("cannot end the input of session '{handle}': {why}")));
    let regardless = format!("try 'nbs-ts key {handle} C-d' to type the key regardless");
    let mut client = RelayClient::open(&session)?.ok_or_else(|| session.ended())?;
    let parts = Parts::TERMINAL.and(Parts::PROGRAM).and(Parts::KEYS);
    let reads = |now: &Snapshot| Ok(now.doing != TerminalState::Running);
    let now = client.await_view(parts, session.patience().over(), reads)?.ok_or_else(|| session.ended())?;
    if now.doing == TerminalState::Running {
        let diagnosis = Diagnosis::gather(&session, timeout);
        return refused(format!("no program was reading its terminal {diagnosis}; {regardless}"));
    }
    if now.doing == TerminalState::Raw && now.modes.alternate() {
        let program = now.named_program("; ");
        return refused(format!("a full-screen program reads its terminal{program}; {regardless}"));
    }
    let modes = client.key_modes(now)?;
    let Some(byte) = modes.end_of_input else {
        return refused("its terminal has no end-of-file character (stty eof undef)".into());
    };
    let keys = if modes.half_line { &[byte, byte][..] } else { &[byte] };
    let typed = sending::type_all(&session, keys, InputSource::Key, timeout)?;
    call.print_json(Object::new().text("handle", handle.as_str()).number("typed", typed))
}
