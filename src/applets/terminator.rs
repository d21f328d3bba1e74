//! terminator - ends a session that has reached a limit
//!
//! An internal role. The session's relay starts `nbs-terminator HANDLE SESSIONS CAUSE [at-once]`. It
//! must be the relay's child, because ending a session means waiting for its processes, which the
//! relay never does. `at-once`: it waits for none of them before it kills.

use std::time::Duration;

use crate::{
    cli::{self, Args},
    outcome::{Result, Trying},
    relay::TERMINATOR_AT_ONCE,
    session::{self, EndedBy},
    sys::{child, inherited},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let (grace, words) = match &words[..] {
        [words @ .., last] if last == TERMINATOR_AT_ONCE => (Duration::ZERO, words),
        words => (session::GRACE, words),
    };
    let [handle, sessions, cause] = words else { return Err(cli::by_hand()) };
    inherited::shed().trying("close inherited descriptors")?;
    let cause = EndedBy::parse(cause.as_encoded_bytes()).ok_or_else(cli::by_hand)?;
    let session = cli::session_of_parent(handle, sessions)?;
    child::call_ourselves(session::TERMINATOR).trying("set the process name")?;
    session::end_from_below(&session, grace, cause)?;
    Ok(())
}
