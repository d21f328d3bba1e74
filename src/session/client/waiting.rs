//! Does a program wait for a person to type?
//!
//! The relay alone decides that (`relay/snapshot.rs`), and all calls take its verdict; they differ in how
//! long it must have held. The relay sees only that ssh and similar programs read, which they always do: for
//! these the text before the cursor counts, which takes a look at the screen.

use std::time::Duration;

pub(crate) use crate::session::client::snapshot::{HELD, HELD_LONG};
use crate::{
    outcome::Result,
    session::{
        ScreenCache, SessionDir,
        client::snapshot::{Reads, Snapshot},
    },
    sys::deadline::Deadline,
    terminal::text,
};

/// The relay reports it to the millisecond, and then it is over.
pub(crate) const OVER: Duration = Duration::from_millis(1);

/// The result of one look at a reading program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waits {
    Now,
    /// Look again then, or when something has changed.
    Perhaps(Deadline),
}

impl Snapshot {
    /// Whether a program waits for input, and has for this long: now, or when it may have. `None`: it does
    /// not. Looks at the screen if nothing else shows it.
    pub(crate) fn waits(&self, session: &SessionDir, held: Duration) -> Result<Option<Waits>> {
        let Some(remaining) = self.input.remaining(held) else { return Ok(None) };
        if !self.input.is_waiting(held) {
            return Ok(Some(Waits::Perhaps(Deadline::after(remaining + OVER))));
        }
        let is_so = self.input.reads != Some(Reads::Far) || asks(session, self.offset)?;
        Ok(is_so.then_some(Waits::Now))
    }

    /// The same for a program other than a shell at its prompt.
    pub(crate) fn asks(&self, session: &SessionDir, held: Duration) -> Result<Option<Waits>> {
        if self.input.reads == Some(Reads::Prompt) { Ok(None) } else { self.waits(session, held) }
    }
}

/// The text before the cursor, if it looks like a question. Nothing for a program that draws the whole
/// screen.
pub(crate) fn question(session: &SessionDir, offset: u64) -> Result<Option<String>> {
    let log = session.log()?;
    let screen = ScreenCache::look_at(session, &log, offset)?.screen;
    let row = screen.before_cursor();
    Ok((!screen.is_alternate() && !row.trim().is_empty()).then_some(row))
}

/// The text before the cursor at this offset of the log.
pub(crate) fn before_cursor(session: &SessionDir, offset: u64) -> Result<String> {
    Ok(ScreenCache::look_at(session, &session.log()?, offset)?.screen.up_to_cursor())
}

/// Does the text before the cursor at this offset of the log look like a prompt or a question? Nothing else
/// is known of a program that passes on its input.
pub(crate) fn asks(session: &SessionDir, offset: u64) -> Result<bool> {
    Ok(text::asks(&before_cursor(session, offset)?))
}
