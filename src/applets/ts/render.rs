//! render - print recorded output as a terminal would show it
//! Task: See, 14
//!
//! Usage: nbs-ts render [options] < FILE
//!        nbs-ts render --svg|--png [--size=COLSxROWS] [--scrollback=N] < FILE
//!
//! Does what `screen` does, but for any bytes on standard input, without a
//! session.
//!
//! Options:
//!   --size=COLSxROWS  the terminal's size (default: 80x24)
//!   --ansi            keep colours and styles; each line starts and ends in the
//!                     default style
//!   --svg             draw a picture of a window, for a README or a report
//!   --png             draw a picture of the rows, for an AI model
//!   --scrollback=N    first print the last N lines that have scrolled off the
//!                     screen, at most 2000
//!   --json            print an object: size, cursor (from 1), title, alternate
//!                     (the alternate screen is shown), lines
//!
//! Example:
//!   nbs-ts read "$h" | nbs-ts render --size=132x50 --svg > screen.svg

use std::io::{self, Read};

use crate::{
    call::CommandLine,
    cli,
    outcome::{Result, Trying},
    session::screen_of,
    ts::screen_output::ScreenForm,
};

/// As large as it pays for the emulator.
const BLOCK: usize = 4 << 20;

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (size, form) = (call.value("size", cli::terminal_size)?, ScreenForm::given(call)?);

    let mut screen = screen_of(size);
    let mut block = Vec::with_capacity(BLOCK);
    loop {
        block.clear();
        let read = io::stdin().lock().take(BLOCK as u64).read_to_end(&mut block);
        if read.trying("read standard input")? == 0 {
            break;
        }
        screen.feed(&block);
    }
    form.print(&screen, call.json())
}
