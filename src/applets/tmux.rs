//! tmux - the commands of tmux that programs use, on nbs sessions
//!
//! Usage: nbs tmux [-L NAME|-S PATH] [-f FILE] [COMMAND [FLAGS...]]...
//!
//! For programs that drive a terminal by running `tmux`. There is no server: a
//! pane is a session of nbs, which `nbs-ts list` shows by the name
//! `tmux.SESSION.WINDOW.PANE`. Only `nbs --install --tmux` makes a `tmux` link.
//!
//! For commands, flags and format variables: nbs help tmux
//!
//! Example:
//!   nbs tmux new-session -d -s build 'make; exec bash'

use std::io::Write;

use crate::{
    cli::Args,
    outcome::{Failure, Reason, Result},
    terminal::text,
    tmux,
};

/// Errors are as tmux's, without our name before them.
pub(crate) fn run(args: &mut Args) -> Result<()> {
    tmux::run(args).map_err(|failure| match failure.reason() {
        Reason::ReaderGone | Reason::Status { .. } => failure,
        _ => {
            // Commands of a file may have an error each, on a line of its own.
            for line in failure.message().unwrap_or_default().lines() {
                // If standard error is closed, no one reads this.
                let _ = writeln!(std::io::stderr(), "{}", text::escaped(line.as_bytes()));
            }
            Failure::quiet()
        }
    })
}
