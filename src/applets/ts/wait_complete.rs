//! wait-complete - wait until the next command ends, and print its exit code
//! Task: Wait, 2
//!
//! Usage: nbs-ts wait-complete [options] SESSION
//!
//! Exit codes come in order, each once. When one is printed, all output of its
//! command can be read. Those of `run` and `ask` are skipped. A one-shot is
//! complete when it ends. If the session ends before a command does, the call
//! fails at once. `wait --input` waits until a shell has finished everything.
//!
//! Options:
//!   --timeout=TIME    give up after TIME (default: 60)
//!   --json            print an object: handle, seq, exit_code
//!
//! Example:
//!   nbs-ts send "$h" make && nbs-ts wait-complete "$h" --timeout=10m

use std::time::Duration;

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::Result,
    session::{Completion, SessionDir, StateDir, client::Wait},
    sorted::Set,
    sys::deadline::Deadline,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (target, timeout) = (call.session()?, call.value("timeout", cli::time)?);

    let session = StateDir::open()?.session(&target)?.within(Deadline::after(timeout));
    wait(&session, timeout, call.json()).map_err(Wait::cut_short)
}

fn wait(session: &SessionDir, timeout: Duration, json: bool) -> Result<()> {
    let mut wait = Wait::begin(session, timeout)?;
    let (cursor, mut completions) = (session.completion_cursor()?, session.completions());
    let mut claims = Set::new();
    loop {
        let last_look = wait.next();
        let reader = cursor.take()?;
        let mut place = reader.place()?;
        while let Some(completion) = completions.first_from(place)? {
            place = completion.seq.saturating_add(1);
            if !claims.contains(&completion.seq) {
                claims = session.claims()?;
            }
            if !claims.contains(&completion.seq) {
                reader.reserve()?;
                print(session, completion, json)?;
                return reader.advance(place);
            }
        }
        // Not to keep it from others while we sleep.
        drop(reader);
        if let Some(why) = last_look {
            return Err(wait.in_vain(why, "wait for a command to end"));
        }
    }
}

fn print(session: &SessionDir, completion: Completion, json: bool) -> Result<()> {
    if !json {
        return cli::print(format!("{}\n", completion.code));
    }
    let object = Object::new()
        .text("handle", session.handle().as_str())
        .number("seq", completion.seq)
        .number("exit_code", completion.code);
    cli::print(object.line())
}
