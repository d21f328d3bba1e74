//! launch-agent - start one agent, in the one way that works
//!
//! Usage: nbs-launch-agent HANDLE PROJECT-ROOT AGENT PROMPT
//!
//! Has bash, or else sh, start the program AGENT in the background, in a session
//! of its own (setsid), with --root=PROJECT-ROOT and
//! --dangerously-skip-permissions, and NBS_HANDLE, NBS_TRANSPORT=ts and
//! NBS_INITIAL_PROMPT in its environment; and returns. What would make an agent
//! think that it is part of another one is not in its environment: CLAUDECODE,
//! CLAUDE_CODE_*, TMUX, TMUX_PANE, AGENT, CODEX_*, CODING_AGENT_*, OTEL_*. Its
//! standard input is the caller's, its output goes nowhere: an agent opens a
//! session for itself (nbs-ts).
//!
//! Options stand before HANDLE; from there on, every word is taken as it is.
//! Needs bash or else sh. Where setsid (util-linux, busybox) is not installed, the
//! shell gets a session of its own from nbs, and the agent is in that.
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
            "{} operands of four; usage: nbs-launch-agent HANDLE PROJECT-ROOT AGENT PROMPT",
            operands.len()
        )));
    };

    inherited::shed().trying("shed what was inherited")?;
    Launch::check(handle, root, agent)?.start(prompt)
}
