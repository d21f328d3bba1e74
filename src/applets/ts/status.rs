//! status - show whether a session is alive
//! Task: See, 9
//!
//! Usage: nbs-ts status [--json] SESSION
//!
//! Prints `alive`, or `dead` and a line `exit_code: N`, where N may be `unknown`.
//! If the program did not end by itself, a line `ended_by: WORD` follows: kill,
//! timeout, idle_timeout, memory, owner or unknown.
//!
//! Options:
//!   --json            print an object that also has the terminal's state (prompt,
//!                     line, secret, raw or running) and size; the start and end
//!                     of its log; the reason, if output cannot be written or
//!                     synced; the activity (waiting, failed, done, working, idle,
//!                     dead), as in `list --long`, and its source; the question of
//!                     a waiting program; what the session has used (cpu_ms,
//!                     memory_peak_bytes, processes: see 'nbs help limits'); for a
//!                     dead session, ended_by, timed_out and signal; for a
//!                     restarted one, the new handle (restarted_as)
//!
//! Example:
//!   nbs-ts status "$h"

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::Result,
    session::{End, EndedBy, Notice, SessionDir, StateDir},
    ts::frames,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let target = call.session()?;

    let state_dir = StateDir::open()?;
    let session = state_dir.session(&target)?;
    if call.json() {
        return cli::print(json(&state_dir, &session)?);
    }
    if session.is_alive()? {
        return cli::print("alive\n");
    }
    let code = session.exit_code()?.map_or("unknown".to_owned(), |code| code.to_string());
    let ended_by = state_dir.end_of(&session).and_then(|end| end.ended_by());
    let ended_by = ended_by.filter(|ended_by| *ended_by != EndedBy::Itself);
    let ended_by = ended_by.map(|ended_by| format!("ended_by: {}\n", ended_by.word())).unwrap_or_default();
    cli::print(format!("dead\nexit_code: {code}\n{ended_by}"))
}

fn json(state_dir: &StateDir, session: &SessionDir) -> Result<String> {
    let mut overview = session.overview()?.ok_or_else(|| session.removed())?;
    // `list` shows an unreadable field as empty; here it is an error.
    session.command()?;
    if !overview.glance.alive {
        session.exit_code()?;
        overview.end = state_dir.end_of(session).as_ref().map(Notice::end).unwrap_or_default();
    } else {
        overview.end = End::not_yet(session.usage());
    }
    let size = overview.size.map(|size| frames::size(size.cols, size.rows));
    // A session without a log is still shown.
    let log = session.log().ok().and_then(|log| Some((log.start().ok()?, log.length().ok()?)));
    let log = log.map(|(start, end)| Object::new().number("start", start).number("end", end));
    Ok(overview
        .json()
        .number_or_null("pid", session.pid())
        .bytes_or_null(
            "restarted_as",
            session.restarted_as().as_ref().map(|handle| handle.as_str().as_bytes()),
        )
        .object_or_null("size", size)
        .object_or_null("log", log)
        .bytes_or_null("sync_error", overview.sync_error.as_deref().map(str::as_bytes))
        .line())
}
