//! eof - end the input of a session's program
//!
//! Usage: nbs-ts eof [options] SESSION
//!
//! Types the terminal's end-of-file character (mostly C-d), or C-d where a
//! program takes each key. As from a keyboard, it ends the input only at the
//! beginning of a line; within one it ends that, without a newline.
//!
//! Options:
//!   --timeout=TIME    how long a program that does not read may hold this up
//!                     (default: 10); what was not typed by then never will be
//!   --json            print an object that tells how many bytes were typed
//!
//! Example:
//!   nbs-ts eof "$h"

use crate::{
    cli::{self, Args},
    json::Object,
    outcome::{Failure, Result},
    session::{
        StateDir,
        client::{RelayClient, sending},
    },
    sys::deadline::Deadline,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::{Long, Value};
    let (mut target, mut timeout) = (None, sending::TIMEOUT);
    while let Some(arg) = args.next()? {
        match arg {
            Long("timeout") => timeout = args.time_value("timeout")?,
            Value(word) if target.is_none() => target = Some(cli::parse_target(&word)?),
            other => return Err(other.unexpected().into()),
        }
    }
    let target = target.ok_or_else(cli::missing_handle)?;

    let session = StateDir::open()?.session(&target)?.within(Deadline::after(timeout));
    session.check_input()?;
    let mut client = RelayClient::open(&session)?.ok_or_else(|| session.ended())?;
    let modes = client.modes()?.ok_or_else(|| session.ended())?;
    let byte = modes.end_of_input.ok_or_else(|| {
        let why = "its terminal has no end-of-file character (stty eof undef)";
        Failure::failed(format!("cannot end the input of session '{}': {why}", session.handle()))
    })?;
    sending::type_all(&session, &[byte], timeout)?;
    if args.json() {
        let object = Object::new().text("handle", session.handle().as_str()).number("typed", 1);
        return cli::print(object.line());
    }
    Ok(())
}
