//! status - tell whether a session is alive
//!
//! Usage: nbs-ts status [--json] SESSION
//!
//! Prints `alive`, or `dead` and a line `exit_code: N`, where N is `unknown` if
//! nobody could see it.
//!
//! Options:
//!   --json            print an object that also tells what the terminal is
//!                     doing: prompt, line, secret, raw or running; its
//!                     size; where its log begins and ends; and what keeps
//!                     output from being written, or synced, if anything
//!
//! Example:
//!   nbs-ts status "$h"

use std::time::SystemTime;

use crate::{
    cli::{self, Args},
    frames,
    json::Object,
    outcome::Result,
    session::{Contact, Home, SessionDir},
    sys::clock::unix_seconds,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let target = cli::sole_target(args)?;

    let session = Home::open()?.session(&target)?;
    let alive = session.is_alive()?;
    if args.json() {
        return cli::print(json(&session, alive)?);
    }
    if alive {
        return cli::print("alive\n");
    }
    let code = session.exit_code()?.map_or("unknown".to_owned(), |code| code.to_string());
    cli::print(format!("dead\nexit_code: {code}\n"))
}

fn json(session: &SessionDir, alive: bool) -> Result<String> {
    let mut contact = if alive { Contact::open(session)? } else { None };
    let (state, size, sync_error) = match &mut contact {
        Some(contact) => (contact.state()?, contact.size()?, contact.sync_error()?),
        None => (None, None, None),
    };
    let size = size.map(|size| frames::size(size.cols, size.rows));
    let (doing, stalled) = state.map_or((None, None), |(doing, stalled)| (Some(doing), stalled));
    // One whose log has been removed is still worth a look.
    let log = session.log().ok().and_then(|log| Some((log.start().ok()?, log.length().ok()?)));
    let number = |offset| i64::try_from(offset).unwrap_or(i64::MAX);
    let log = log.map(|(start, end)| Object::new().number("start", number(start)).number("end", number(end)));
    let exit_code = if alive { None } else { session.exit_code()? };
    let ended: Option<SystemTime> = if alive { None } else { session.end_time() };
    Ok(session
        .described()?
        .text("state", if alive { "alive" } else { "dead" })
        .number_or_null("exit_code", exit_code.map(i64::from))
        .seconds_or_null("ended", ended.map(unix_seconds))
        .bytes_or_null("terminal", doing.as_deref().map(str::as_bytes))
        .object_or_null("size", size)
        .object_or_null("log", log)
        .bytes_or_null("stalled", stalled.as_deref().map(str::as_bytes))
        .bytes_or_null("sync_error", sync_error.as_deref().map(str::as_bytes))
        .line())
}
