//! attach - follow a session's output until it ends
//!
//! Usage: nbs-ts attach [options] SESSION
//!
//! Prints the output from its beginning, and goes on as more comes. When the
//! session has ended, says so, and exits 0.
//!
//! Options:
//!   --last=N          begin with the last N lines
//!   --new             begin with what comes from now on
//!
//! Example:
//!   nbs-ts attach @build --last=20

use std::io::{self, Write};

use crate::{
    cli::{self, Args},
    outcome::{Failure, Result, Trying},
    session::{Contact, Home, News, SessionDir},
    sys::deadline::Deadline,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::{Long, Value};
    let (mut target, mut last, mut new) = (None, None, false);
    while let Some(arg) = args.next()? {
        match arg {
            Long("last") => last = Some(args.number_value("last")?),
            Long("new") => new = true,
            Value(word) if target.is_none() => target = Some(cli::parse_target(&word)?),
            other => return Err(other.unexpected().into()),
        }
    }
    let target = target.ok_or_else(cli::missing_handle)?;
    if new && last.is_some() {
        return Err(Failure::BadArgs("--last and --new exclude each other".into()));
    }

    let home = Home::open()?;
    let session = home.session(&target)?;
    let log = session.log()?;
    let length = log.length().trying("read the output")?;
    let start = match last {
        Some(last) => log.start_of_last_lines(last, length).trying("read the output")?,
        None if new => length,
        None => 0,
    };
    let told = follow(&session, start)?;
    let code = told.or_else(|| session.exit_code().ok().flatten());
    let timed_out = home.notice(&session).is_some_and(|notice| notice.timed_out());
    cli::print(notice(code, timed_out))
}

/// Returns the exit code, if the relay has told it.
fn follow(session: &SessionDir, start: u64) -> Result<Option<i32>> {
    let log = session.log()?;
    let mut contact = Contact::open(session)?;
    let mut stdout = io::stdout().lock();
    let mut shown = start;
    loop {
        let news = match &mut contact {
            Some(contact) => contact.news(Deadline::NEVER)?,
            None => News::Ended,
        };
        let length = log.length().trying("read the output")?;
        shown = log
            .blocks(shown, length, |block| {
                cli::written(stdout.write_all(block))?;
                Ok::<bool, Failure>(true)
            })?
            .max(shown);
        cli::written(stdout.flush())?;
        if news == News::Ended {
            return Ok(contact.and_then(|contact| contact.exit_code()));
        }
    }
}

/// The last line that a follower sees, dim (ECMA-48, SGR 2).
fn notice(code: Option<i32>, timed_out: bool) -> String {
    let code = code.map_or("unknown".to_owned(), |code| code.to_string());
    let what = match timed_out {
        true => "timed out and was killed".to_owned(),
        false => format!("exited with code {code}"),
    };
    format!("\r\n\x1b[2m[process {what}]\x1b[0m\r\n")
}
