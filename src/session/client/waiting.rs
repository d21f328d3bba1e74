//! Does a program wait for somebody to type something?
//!
//! The relay alone decides that (`relay/snapshot.rs`), and everybody takes its verdict; they
//! differ in how long it must have held. Of ssh and its kin it sees that they read, which they always
//! do: there it counts what stands before the cursor, which takes a look at the screen.

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

/// It is told to the millisecond, and then it is over.
pub(crate) const OVER: Duration = Duration::from_millis(1);

/// What one look at a program tells that reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waits {
    Now,
    /// Look again then, or when something has changed.
    Perhaps(Deadline),
}

impl Snapshot {
    /// Whether a program waits for input, and has for so long: now, or when it may. `None`: it does
    /// not. Takes a look at the screen where that alone tells.
    pub(crate) fn waits(&self, session: &SessionDir, held: Duration) -> Result<Option<Waits>> {
        let Some(remaining) = self.input.remaining(held) else { return Ok(None) };
        if !self.input.is_waiting(held) {
            return Ok(Some(Waits::Perhaps(Deadline::after(remaining + OVER))));
        }
        let is_so = self.input.reads != Some(Reads::Far) || asks(session, self.offset)?;
        Ok(is_so.then_some(Waits::Now))
    }

    /// The same of something other than a shell at its prompt.
    pub(crate) fn asks(&self, session: &SessionDir, held: Duration) -> Result<Option<Waits>> {
        if self.input.reads == Some(Reads::Prompt) { Ok(None) } else { self.waits(session, held) }
    }
}

/// What stands before the cursor, as a question does. Of one that draws all of the screen,
/// nothing.
pub(crate) fn question(session: &SessionDir, offset: u64) -> Result<Option<String>> {
    let log = session.log()?;
    let screen = ScreenCache::look_at(session, &log, offset)?.screen;
    let row = screen.before_cursor();
    Ok((!screen.is_alternate() && !row.trim().is_empty()).then_some(row))
}

/// What stands before the cursor, when the log has come to `offset`.
pub(crate) fn before_cursor(session: &SessionDir, offset: u64) -> Result<String> {
    Ok(ScreenCache::look_at(session, &session.log()?, offset)?.screen.up_to_cursor())
}

/// Does what stands before the cursor, when the log has come to `offset`, look like a prompt
/// or a question? All that is known of who passes on what is typed.
pub(crate) fn asks(session: &SessionDir, offset: u64) -> Result<bool> {
    Ok(text::asks(&before_cursor(session, offset)?))
}
