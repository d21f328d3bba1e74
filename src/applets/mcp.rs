//! mcp - sessions for clients of the Model Context Protocol
//!
//! Usage: nbs-mcp [options]
//!
//! Serves that protocol on standard input and output, for agents without a shell.
//! A client starts it. Its tools are create, run, send (text and keys), wait,
//! screen, read, list and kill. Each is the `nbs-ts` command of that name (`send`
//! with keys: `key`; with an answer: `answer`). Its arguments are the command's
//! options (`--idle-timeout` is idle_timeout). It returns the command's output as
//! text, or the object of --json if the client reads that. It cuts output at 10
//! KB, and says at the end how to read the rest. Options that are useless to a
//! client are not arguments: --owner, --parent, --pager, --no-helper and
//! --require-helper of `create`, --follow of `list`, --svg of `screen`, and those
//! for secrets.
//!
//! Speaks version 2026-07-28, and 2025-11-25, 2025-06-18 and 2025-03-26, which
//! begin with `initialize`. Calls run concurrently. A cancelled call ends: a
//! `wait` stops waiting, a `run` interrupts its command. When the client
//! disconnects, the sessions and their programs live on.
//!
//! Secrets never pass through a model: the tools type nothing at a secret
//! prompt. The user types it, in a shell: nbs-ts send --secret-stdin SESSION
//!
//! Options:
//!   --owner           end the sessions that are created here when the server
//!                     ends
//!   --structured      return objects (`structuredContent`) instead of text
//!
//! Example:
//!   claude mcp add nbs -- nbs-mcp

use std::io::{self, IsTerminal};

use crate::{
    applets,
    call::CommandLine,
    cli,
    mcp::{self, Tools},
    outcome::Result,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    if io::stdin().is_terminal() {
        let hint = "standard input is a terminal, not a client; see 'nbs-mcp --help'";
        cli::warn("nbs-mcp", hint);
    }
    mcp::serve(&Tools::new(applets::page_of_verb), call.has("owner"), call.has("structured"))
}
