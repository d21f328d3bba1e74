//! read - print a session's output from anywhere
//!
//! Usage: nbs-ts read [options] SESSION
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
    cli::{self, Args},
    outcome::{Failure, Result, Trying},
    session::StateDir,
    ts::output::{self, OutputForm},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::{Long, Value};
    let (mut target, mut offset, mut last, mut limit) = (None, None, None, u64::MAX);
    let (mut max, mut strip, mut rendered, mut ansi) = (None, false, false, false);
    while let Some(arg) = args.next()? {
        match arg {
            Long("offset") => offset = Some(args.number_value("offset")?),
            Long("last") => last = Some(args.number_value("last")?),
            Long("limit") => limit = args.size_value("limit")?,
            Long("max") => max = Some(args.size_value("max")?),
            Long("strip") => strip = true,
            Long("rendered") => rendered = true,
            Long("ansi") => ansi = true,
            Value(word) if target.is_none() => target = Some(cli::parse_target(&word)?),
            other => return Err(other.unexpected().into()),
        }
    }
    let target = target.ok_or_else(cli::missing_handle)?;
    let rendered = OutputForm::rendered(rendered, ansi)?;
    if offset.is_some() && last.is_some() {
        return Err(Failure::bad_args("--offset and --last exclude each other".into()));
    }

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
        OutputForm { strip, rendered, complete: true, max, json: args.json() },
    )?;
    Ok(())
}
