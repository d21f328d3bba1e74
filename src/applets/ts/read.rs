//! read - print a session's output from anywhere
//!
//! Usage: nbs-ts read [--offset=N|--last=N] [options] SESSION
//!
//! Prints all of it, or what the options pick. Reading moves no cursor.
//!
//! Options:
//!   --offset=N        begin at this byte of the output
//!   --last=N          only the last N lines
//!   --limit=SIZE      at most so many bytes, from where it begins
//!   --max=SIZE        at most so much: the first and the last part, and between
//!                     them a line that tells how to read what is left out
//!   --strip           leave escape sequences out, and the \r right before a \n
//!   --rendered        print what a person would have seen of it: no escape
//!                     sequences, nothing that was drawn over, long lines whole
//!   --ansi            with --rendered: keep colours
//!   --json            print an object: output, offset, next_offset
//!
//! Example:
//!   nbs-ts read "$h" --last=20 --strip

use crate::{
    call::CommandLine,
    cli,
    outcome::{Failure, Result, Trying},
    session::StateDir,
    ts::output::{self, OutputForm},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (offset, last) = (call.optional("offset", cli::number)?, call.optional("last", cli::number)?);
    let limit = call.optional("limit", cli::size)?.unwrap_or(u64::MAX);
    let (max, strip) = (call.optional("max", cli::size)?, call.has("strip"));
    let (target, rendered) = (call.session()?, OutputForm::rendered(call.has("rendered"), call.has("ansi"))?);

    let session = StateDir::open()?.session(&target)?;
    let what = || format!("read the output of session '{}'", session.handle());
    let log = session.log()?;
    let length = log.length().trying(what())?;
    let start = match (offset, last) {
        (Some(offset), _) if offset > length => {
            return Err(Failure::failed(format!(
                "cannot {}: offset {offset} is beyond its end at {length}",
                what()
            )));
        }
        (Some(offset), _) => offset,
        (None, Some(last)) => log.start_of_last_lines(last, length).trying(what())?,
        (None, None) => 0,
    };
    let end = length.min(start.saturating_add(limit));
    output::print(
        &session,
        start..end,
        OutputForm { strip, rendered, complete: true, max, json: call.json() },
    )?;
    Ok(())
}
