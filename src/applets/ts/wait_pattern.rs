//! wait-pattern - wait until the output contains a string
//! Task: Wait, 3
//!
//! Usage: nbs-ts wait-pattern [--offset=N|--new] [options] SESSION PATTERN
//!
//! PATTERN is plain bytes. The search starts at the beginning of the output, or
//! where the options say. An empty PATTERN matches any output. The echo of typed
//! text matches, too. If the session ends before a match, `wait-pattern` fails at
//! once.
//!
//! Options:
//!   --offset=N        search from byte N on
//!   --new             search only what is printed from now on
//!   --timeout=TIME    give up after TIME (default: 60)
//!   --json            print an object: handle, pattern, offset
//!
//! Example:
//!   nbs-ts wait-pattern "$h" 'listening on' --timeout=30

use std::os::unix::ffi::OsStrExt;

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Result, Trying},
    session::{
        Piece, StateDir,
        client::{Wait, WaitEnd},
    },
    sys::deadline::Deadline,
    terminal::text::Finder,
    ts::output,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (target, timeout) = (call.session()?, call.value("timeout", cli::time)?);
    let (offset, new) = (call.optional("offset", cli::number)?, call.has("new"));
    let pattern = call.operand("PATTERN").unwrap_or_default().as_bytes();

    let session = StateDir::open()?.session(&target)?.within(Deadline::after(timeout));
    let what = || format!("read the output of session '{}'", session.handle());
    let log = session.log()?;
    let mut looked_at = match offset {
        Some(offset) => offset,
        None if new => log.length().trying(what())?,
        None => 0,
    };
    let mut finder = Finder::new(pattern, looked_at);
    let mut lost = 0;
    let mut wait = Wait::begin(&session, timeout)?;
    loop {
        let last_look = wait.next();
        let (mut found, mut is_late) = (None, false);
        let until = session.patience().last();
        let mut pieces = log.pieces(looked_at, log.length().trying(what())?);
        while found.is_none()
            && !is_late
            && let Some(piece) = pieces.next().trying(what())?
        {
            match piece {
                Piece::Gap(gone) => {
                    finder.skip(gone);
                    lost += gone;
                }
                Piece::Bytes(block) => {
                    found = finder.feed(block);
                    is_late = until.has_passed();
                }
            }
        }
        looked_at = pieces.offset();
        if let Some(found) = found {
            output::warn_of_lost(lost, call.json());
            return if call.json() { print(session.handle().as_str(), pattern, found, lost) } else { Ok(()) };
        }
        if let Some(why) = last_look {
            let pattern = String::from_utf8_lossy(pattern);
            let gone = output::lost_in_words(lost);
            // Output may be left to search, even if the session has ended.
            let why = if is_late { WaitEnd::TimedOut } else { why };
            return Err(wait.in_vain(why, &format!("find '{pattern}'{gone}")));
        }
    }
}

fn print(handle: &str, pattern: &[u8], offset: u64, lost: u64) -> Result<()> {
    let object = Object::new().text("handle", handle).bytes("pattern", pattern).number("offset", offset);
    cli::print(object.count_if_any("lost", lost).line())
}
