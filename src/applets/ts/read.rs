//! read - print a session's output from any position
//! Task: See, 2
//!
//! Usage: nbs-ts read [--offset=N|--last=N|--command=N] [options] SESSION
//!
//! Prints all output, or what the options select. Does not move the cursor of
//! `read-new`. NBS_TS_OUTPUT (raw, strip or rendered) applies if neither --strip
//! nor --rendered is given.
//!
//! Options:
//!   --offset=N        begin at byte N of the output
//!   --last=N          only the last N lines
//!   --command=N       only the output of command N, as numbered by `history`
//!   --limit=SIZE      read at most SIZE, from the selected start
//!   --max=SIZE        print at most SIZE: start, end, and how to read the rest
//!   --strip           remove escape sequences, and the \r right before a \n
//!   --rendered        print the text as a person would see it: without escape
//!                     sequences or overwritten text, with wrapped lines joined
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
    let command = call.optional("command", cli::number)?;
    let limit = call.optional("limit", cli::size)?.unwrap_or(u64::MAX);
    let max = call.optional("max", cli::size)?;
    let (target, (strip, rendered)) = (call.session()?, output::form_wanted(call)?);

    let session = StateDir::open()?.session(&target)?;
    let what = || format!("read the output of session '{}'", session.handle());
    let log = session.log()?;
    let length = log.length().trying(what())?;
    let command = command.map(|id| session.command_numbered(id)).transpose()?;
    let start = match (offset, last) {
        _ if command.is_some() => command.as_ref().map_or(0, |command| command.offset),
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
    let printed = command.and_then(|command| command.length).unwrap_or(u64::MAX);
    let end = length.min(start.saturating_add(limit.min(printed)));
    output::print(
        &session,
        start..end,
        OutputForm { strip, rendered, complete: true, max, json: call.json() },
    )?;
    Ok(())
}
