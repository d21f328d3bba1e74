//! screen - print what a person would see now
//! Task: See, 3
//!
//! Usage: nbs-ts screen [options] SESSION
//!        nbs-ts screen --svg|--png [--scrollback=N] SESSION
//!
//! Prints a line for each row of the session's terminal, without trailing blanks.
//! If the session is dead, prints its last screen. The cost of a call grows with
//! the output since the last call.
//!
//! Options:
//!   --ansi            keep colours and styles; each line starts and ends in the
//!                     default style
//!   --svg             draw a picture of a window, for a README or a report
//!   --png             draw a picture of the rows, for an AI model
//!   --scrollback=N    first print the last N lines that have scrolled off the
//!                     screen, at most 2000
//!   --json            print an object: size, cursor (from 1), title, alternate
//!                     (the alternate screen is shown), lines, links (each
//!                     with row, col, length and url)
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
