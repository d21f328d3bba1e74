//! Printing a stretch of a session's output, as `read` and `read-new` do.

use std::{
    io::{self, Write},
    ops::Range,
};

use crate::{
    cli,
    json::Object,
    outcome::{Failure, Result},
    session::SessionDir,
    text::Strip,
};

/// How output is printed.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// Without escape sequences.
    pub(crate) strip: bool,
    /// Nothing will be added to it: what is cut off at its end stays so.
    pub(crate) complete: bool,
    pub(crate) json: bool,
}

/// Prints it, and tells how far: with `strip`, what is incomplete at the end
/// (half a character, half a sequence) is left for the next time.
pub(crate) fn print(session: &SessionDir, range: Range<u64>, form: Form) -> Result<u64> {
    let mut collected = Vec::new();
    let mut stdout = io::stdout().lock();
    let mut give = |bytes: &[u8]| {
        if form.json {
            collected.extend_from_slice(bytes);
            return Ok(());
        }
        cli::written(stdout.write_all(bytes))
    };
    let mut strip = Strip::new();
    let mut plain = Vec::new();
    let mut end = session.log()?.blocks(range.start, range.end, |block| {
        if form.strip {
            plain.clear();
            strip.feed(block, &mut plain);
            give(&plain)?;
        } else {
            give(block)?;
        }
        Ok::<bool, Failure>(true)
    })?;
    if form.strip {
        if form.complete {
            plain.clear();
            strip.finish(&mut plain);
            give(&plain)?;
        } else {
            end -= strip.unfinished();
        }
    }
    if form.json {
        let object = Object::new()
            .text("handle", session.handle().as_str())
            .number("offset", number(range.start))
            .number("next_offset", number(end))
            .bytes("output", &collected);
        cli::written(stdout.write_all(object.line().as_bytes()))?;
    }
    cli::written(stdout.flush())?;
    Ok(end)
}

fn number(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}
