//! resize - change the size of a session's terminal
//!
//! Usage: nbs-ts resize SESSION COLSxROWS
//!
//! The program in it is told, as when a window is resized (SIGWINCH). Each of
//! the two is from 1 to 9999.
//!
//! Example:
//!   nbs-ts resize "$h" 132x43

use crate::{
    cli::{self, Args},
    outcome::{Failure, Result},
    session::{StateDir, client::RelayClient},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::Value;
    let (mut target, mut size) = (None, None);
    while let Some(arg) = args.next()? {
        match arg {
            Value(word) if target.is_none() => target = Some(cli::parse_target(&word)?),
            Value(word) if size.is_none() => {
                let wrong = || Failure::bad_args(format!("'{}' {}", word.display(), cli::NO_TERMINAL_SIZE));
                size = Some(cli::parse_terminal_size(&word).ok_or_else(wrong)?);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let target = target.ok_or_else(cli::missing_handle)?;
    let size = size.ok_or_else(|| Failure::bad_args("missing a size like 80x24".into()))?;

    let session = StateDir::open()?.session(&target)?;
    let client = RelayClient::open(&session)?;
    match client.map(|mut client| client.resize(size)).transpose()? {
        Some(true) => Ok(()),
        Some(false) | None => Err(session.ended()),
    }
}
