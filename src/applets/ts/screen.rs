//! screen - print what a person would see now
//!
//! Usage: nbs-ts screen [options] SESSION
//!        nbs-ts screen --svg [--scrollback=N] SESSION
//!
//! Prints the session's output as a terminal of its size shows it: a line for
//! each row, without the blanks at its end. Works for a dead session, too: its
//! last screen. A look costs what has been printed since the last one.
//!
//! Options:
//!   --ansi            with the sequences that choose colours and styles; each
//!                     line begins and ends with none chosen
//!   --svg             as a picture of a window, for a README or a report
//!   --scrollback=N    before the screen, up to N of the last 2000 lines that
//!                     have scrolled off it
//!   --json            print an object: size, cursor (from 1), title, alternate
//!                     (the alternate screen is shown), lines
//!
//! Example:
//!   nbs-ts wait @edit --stable=200ms && nbs-ts screen @edit

use std::mem::ManuallyDrop;

use crate::{
    call::CommandLine,
    outcome::Result,
    session::{ScreenCache, StateDir},
    ts::screen_output::ScreenForm,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (target, form) = (call.session()?, ScreenForm::given(call)?);

    let session = StateDir::open()?.session(&target)?;
    // The kernel takes back the memory when we end; line by line it takes longer.
    let cache = ManuallyDrop::new(ScreenCache::look(&session)?);
    form.print(&cache.screen, call.json())
}
