//! tmux-pipe - hands a pane's output to a command
//!
//! An internal role. `pipe-pane` starts `nbs-tmux-pipe HANDLE WAYS COMMAND`, and reads `+` from it when
//! the command runs. WAYS is two digits: the command gets the output, and its own is typed.

use crate::{
    cli::{self, Args},
    outcome::{Result, Trying},
    sys::{child, inherited},
    tmux,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let umask = args.umask;
    let words = args.words()?;
    let [handle, ways, command] = &words[..] else { return Err(cli::by_hand()) };
    cli::started_by_us()?;
    inherited::shed().trying("close inherited descriptors")?;
    child::leave_session().trying("leave the caller's terminal")?;
    child::call_ourselves(tmux::PIPE).trying("set the process name")?;
    crate::sys::files::set_umask(umask);
    tmux::follow(handle.as_encoded_bytes(), &ways.to_string_lossy(), &command.to_string_lossy())
}
