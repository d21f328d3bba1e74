//! mcp-call - one call of a tool
//!
//! An internal role. `nbs-mcp-call SERVER UMASK COMMAND...` is started by `nbs-mcp`, whose number
//! is SERVER, and executes a command of `nbs-ts` as if called with that umask. One that waits is of no use without the server, and
//! ends with it: the command that it waits for goes on. The others are brief, and end by themselves.

use crate::{
    applets,
    cli::{self, Args},
    mcp,
    outcome::{Result, Trying},
    sys::child,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [server, umask, words @ ..] = &words[..] else { return Err(cli::by_hand()) };
    let server = server.to_str().and_then(|digits| digits.parse().ok()).ok_or_else(cli::by_hand)?;
    if std::os::unix::process::parent_id() != server {
        return Err(cli::by_hand());
    }
    if words.first().is_some_and(|command| mcp::waits(command)) {
        child::die_with_parent(server).trying("end with the server")?;
    }
    *args = Args::new(words.to_vec(), cli::umask(umask)?);
    applets::run_verb(args)
}
