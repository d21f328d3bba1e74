//! launch-agent - start one agent in a clean environment
//!
//! Usage: nbs-launch-agent HANDLE PROJECT-ROOT AGENT PROMPT
//!
//! Starts the program AGENT in the background, through bash or else sh, and
//! returns. The agent is in a Unix session of its own (setsid). It gets the
//! arguments --root=PROJECT-ROOT and --dangerously-skip-permissions, and
//! NBS_HANDLE, NBS_TRANSPORT=ts and NBS_INITIAL_PROMPT in its environment.
//!
//! The environment omits variables that would make an agent think that it runs
//! inside another: CLAUDECODE, CLAUDE_CODE_*, TMUX, TMUX_PANE, AGENT, CODEX_*,
//! CODING_AGENT_*, OTEL_*. The agent's standard input is the caller's. Its output
//! is discarded, because an agent opens a terminal session for itself (nbs-ts).
//!
//! Options go before HANDLE; everything from there on is an operand. If setsid
//! (util-linux, busybox) is not installed, nbs puts the shell into a Unix session
//! of its own, and the agent with it.
//!
//! Example:
//!   nbs-launch-agent aide-1 ~/project ~/.nbs/bin/nbs-claude 'Tidy up.'

use crate::{
    cli::Args,
    outcome::{Failure, Result, Trying},
    sys::inherited,
    worker::Launch,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let mut operands = match args.next()? {
        Some(lexopt::Arg::Value(first)) => vec![first],
        Some(other) => return Err(other.unexpected().into()),
        None => Vec::new(),
    };
    operands.extend(args.words()?);
    let [handle, root, agent, prompt] = &operands[..] else {
        return Err(Failure::bad_args(format!(
            "got {} operands, needs 4; usage: nbs-launch-agent HANDLE PROJECT-ROOT AGENT PROMPT",
            operands.len()
        )));
    };

    inherited::shed().trying("close inherited descriptors")?;
    Launch::check(handle, root, agent)?.start(prompt, None)
}
