//! read-new - print the output since the last read-new
//! Task: See, 1
//!
//! Usage: nbs-ts read-new [options] SESSION
//!
//! Concurrent calls never print a byte twice and never miss one. The cursor moves
//! only when everything has been written; if a reader is killed, the next one
//! prints the same output. Waits up to 10 s if the cursor is in use, then exits 3
//! and names the process that uses it. NBS_TS_OUTPUT (raw, strip or rendered)
//! applies if neither --strip nor --rendered is given.
//!
//! Options:
//!   --reader=NAME     use a cursor of this name instead of the common one
//!   --max=SIZE        print at most SIZE: start, end, and how to read the rest
//!   --strip           remove escape sequences, and the \r right before a \n;
//!                     leave an incomplete sequence for the next call
//!   --rendered        print the text as a person would see it: without escape
//!                     sequences or overwritten text, with wrapped lines joined
//!   --ansi            with --rendered: keep colours
//!   --json            print an object: output, offset, next_offset
//!
//! Example:
//!   nbs-ts read-new "$h" --strip

use crate::{
    call::CommandLine,
    cli,
    outcome::{Failure, Result, Trying},
    session::StateDir,
    ts::output::{self, OutputForm},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (max, reader) = (call.optional("max", cli::size)?, call.optional("reader", cli::name)?);
    let (strip, rendered) = output::form_wanted(call)?;

    let session = StateDir::open()?.session(&call.session()?)?;
    let what = || format!("read the output of session '{}'", session.handle());
    let cursor = session.read_cursor(reader.as_ref())?;
    let reader = cursor.take()?;
    let start = reader.place()?;
    // First whether it lives, then how much there is: so a dead one's is all.
    let complete = !session.is_alive()?;
    let length = session.log()?.length().trying(what())?;
    if start > length {
        return Err(Failure::failed(format!(
            "cannot {}: the cursor at {start} is beyond its end at {length}",
            what()
        )));
    }
    if length > start {
        reader.reserve()?;
    }
    let end = output::print(
        &session,
        start..length,
        OutputForm { strip, rendered, complete, max, json: call.json() },
    )?;
    if end == start { Ok(()) } else { reader.advance(end) }
}
