//! read-new - print what came since the last read-new
//!
//! Usage: nbs-ts read-new [options] SESSION
//!
//! Prints all of it. Two at a time never get the same byte twice, nor miss one;
//! the cursor moves only when everything has been written, so that what a
//! killed reader got comes again. Waits for one that is at it for 10 s at most;
//! then it exits 3, and says which process that is.
//!
//! Options:
//!   --reader=NAME     use a cursor of this name instead of the common one
//!   --max=SIZE        at most so much: the first and the last part, and between
//!                     them a line that tells how to read what is left out
//!   --strip           leave escape sequences out, and the \r right before a \n;
//!                     the next call prints what is incomplete at the end
//!   --rendered        print what a person would have seen of it: no escape
//!                     sequences, nothing that was drawn over, long lines whole
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
    let (max, strip) = (call.optional("max", cli::size)?, call.has("strip"));
    let (reader, rendered) =
        (call.optional("reader", cli::name)?, OutputForm::rendered(call.has("rendered"), call.has("ansi"))?);

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
