//! mcp - the sessions for clients of the model context protocol
//!
//! Usage: nbs-mcp [options]
//!
//! A server of that protocol on standard input and output, for agents that have
//! no shell: a client starts it. Its tools are create, run, send (text and keys),
//! wait, screen, read, list and kill; each is the command of `nbs-ts` of that
//! name (`send` with keys: of `key`), takes its options as arguments
//! (`--idle-timeout` is idle_timeout), and gives what that prints: as text, and
//! as the object of --json. What is more than 40 KB is cut, and tells how to read
//! the rest. No arguments are what is of no use to such a client: of `create`
//! --owner, --parent, --pager, --no-helper and --require-helper, of `list`
//! --follow, and what is about secrets.
//!
//! Speaks version 2026-07-28, and 2025-11-25, 2025-06-18 and 2025-03-26, which
//! begin with `initialize`. Calls run side by side. One that is cancelled ends:
//! a `wait` waits no more, a `run` interrupts its command. A session is none of
//! the server's: when the client has gone, it lives on, with all that runs in it.
//!
//! A secret does not go through a model: at a prompt for one, nothing is typed.
//! The user types it, in a shell: nbs-ts send --secret-stdin SESSION
//!
//! Options:
//!   --owner           end the sessions that are created here when the server
//!                     ends
//!
//! Example:
//!   claude mcp add nbs -- nbs-mcp

use std::io::{self, IsTerminal};

use crate::{
    applets,
    cli::{self, Args},
    mcp::{self, Tools},
    outcome::Result,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let mut owner = false;
    while let Some(arg) = args.next()? {
        match arg {
            lexopt::Arg::Long("owner") => owner = true,
            other => return Err(other.unexpected().into()),
        }
    }

    if io::stdin().is_terminal() {
        let hint =
            "waits for messages of the model context protocol, which a client sends; see 'nbs-mcp --help'";
        cli::warn("nbs-mcp", hint);
    }
    mcp::serve(&Tools::new(applets::page_of_verb), owner)
}
