//! resize - change the size of a session's terminal
//! Task: Do, 8
//!
//! Usage: nbs-ts resize SESSION COLSxROWS
//!
//! The program gets SIGWINCH, as when a window is resized. Both numbers are from
//! 1 to 9999.
//!
//! Example:
//!   nbs-ts resize "$h" 132x43

use crate::{
    call::CommandLine,
    cli,
    outcome::{Failure, Result},
    session::{StateDir, client::RelayClient},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let word = call.operand("COLSxROWS").unwrap_or_default();
    let wrong = || Failure::bad_args(format!("'{}' {}", word.display(), cli::NO_TERMINAL_SIZE));
    let (target, size) = (call.session()?, cli::parse_terminal_size(word).ok_or_else(wrong)?);

    let session = StateDir::open()?.session(&target)?;
    let client = RelayClient::open(&session)?;
    match client.map(|mut client| client.resize(size)).transpose()? {
        Some(true) => Ok(()),
        Some(false) | None => Err(session.ended()),
    }
}
