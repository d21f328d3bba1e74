//! Does a program wait for somebody to type something?
//!
//! Judged for who waits on one session (`run`, `ask`, `wait`); what those are shown who
//! look at many, the relay judges by itself (`relay::judge`). The terminal alone does not
//! tell: who polls the keyboard while it works has the keyboard, too, and ssh always has.

use std::time::Duration;

use crate::{
    outcome::Result,
    session::{
        ScreenCache, SessionDir,
        client::{Doing, RelayClient},
    },
    sys::deadline::Deadline,
    terminal::text,
};

/// What the relay knows of who waits for input.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    /// A `secret` only where somebody reads it.
    pub(crate) doing: Doing,
    /// How long, as far as anybody has looked, nothing has been printed or typed, and who
    /// waits has done nothing else: neither woken up, nor used the CPU. Zero at the first
    /// look, but for who sleeps until a line comes; the relay remembers it for the next.
    pub(crate) rest: Duration,
    /// Who waits may wait for a time to pass, too.
    pub(crate) has_timer: bool,
    /// It passes on what is typed, as ssh.
    pub(crate) passes_on: bool,
    /// How long the log is.
    pub(crate) offset: u64,
}

/// Whether a program waits for input, as far as one look can tell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InputVerdict {
    /// It waits, for a `line`, a `secret`, or `raw` keys.
    Waiting(Waiting),
    /// It may: look again then, or when something has changed.
    Perhaps(Deadline),
    /// It does not. The kernel tells nobody when it begins to.
    None,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) doing: Doing,
    /// How long the log was when that was seen.
    pub(crate) offset: u64,
}

/// Whether it does so, and has done nothing else for so long; `None` where the session has
/// ended. Costs the relay a look at the processes in the foreground, and of who passes on
/// what is typed, one at the screen.
pub(crate) fn look(
    session: &SessionDir,
    client: &mut RelayClient,
    after: Duration,
) -> Result<Option<InputVerdict>> {
    let Some(Rest { doing, rest, passes_on, offset, .. }) = client.rest()? else { return Ok(None) };
    if matches!(doing, Doing::Prompt | Doing::Running) {
        return Ok(Some(InputVerdict::None));
    }
    if rest < after {
        // To the millisecond it is told, and then it is over.
        return Ok(Some(InputVerdict::Perhaps(Deadline::after(after - rest + Duration::from_millis(1)))));
    }
    if passes_on && !asks(session, offset)? {
        return Ok(Some(InputVerdict::None));
    }
    Ok(Some(InputVerdict::Waiting(Waiting { doing, offset })))
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
