//! send - type text into a session, and Enter
//!
//! Usage: nbs-ts send [options] SESSION TEXT...
//!
//! Types the words, joined by spaces, and a carriage return; without words just
//! that. What comes after SESSION is text, also where it begins with `--`. Two
//! sends at once never interleave. When the call returns, the terminal has
//! taken all of it.
//!
//! Options:
//!   --no-enter        do not type the carriage return
//!   --stdin           read the text from standard input instead
//!   --timeout=TIME    how long a program that does not read may hold this up
//!                     (default: 10); what was not typed by then never will be
//!   --json            print an object that tells how many bytes were typed
//!
//! Example:
//!   nbs-ts send "$h" make -j8

use std::{
    io::{self, Read},
    time::Duration,
};

use crate::{
    cli::{self, Args},
    json::Object,
    outcome::{Failure, Result, Trying},
    session::{Contact, Evidence, Home, SessionDir, Typed},
    sys::deadline::Deadline,
};

const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::{Long, Value};
    let (mut enter, mut from_stdin, mut timeout) = (true, false, TIMEOUT);
    let target = loop {
        match args.next()? {
            Some(Long("no-enter")) => enter = false,
            Some(Long("stdin")) => from_stdin = true,
            Some(Long("timeout")) => timeout = args.time_value("timeout")?,
            Some(Value(word)) => break cli::parse_target(&word)?,
            Some(other) => return Err(other.unexpected().into()),
            None => return Err(cli::missing_handle()),
        }
    };
    let mut text = args.free_text(None)?;
    if from_stdin {
        if !text.is_empty() {
            return Err(Failure::BadArgs("--stdin and a text exclude each other".into()));
        }
        io::stdin().lock().read_to_end(&mut text).trying("read standard input")?;
    }
    if enter {
        text.push(b'\r');
    }

    let session = Home::open()?.session(&target)?;
    session.check_input()?;
    let contact = Contact::open(&session)?.ok_or_else(|| session.ended())?;
    let typed = contact.type_in(&text, Deadline::after(timeout))?.ok_or_else(|| session.ended())?;
    if typed.count < text.len() as u64 {
        return Err(incomplete(&session, typed, text.len(), timeout));
    }
    if args.json() {
        let count = i64::try_from(typed.count).unwrap_or(i64::MAX);
        return cli::print(
            Object::new().text("handle", session.handle().as_str()).number("typed", count).line(),
        );
    }
    Ok(())
}

fn incomplete(session: &SessionDir, typed: Typed, length: usize, timeout: Duration) -> Failure {
    let why = if typed.held {
        "the program reads whole lines, and a terminal takes 4095 bytes of one; "
    } else {
        "the program does not read; "
    };
    Failure::TimedOut(format!(
        "cannot type all of it into session '{}': {why}{} of {length} bytes went in {}",
        session.handle(),
        typed.count,
        Evidence::gather(session, timeout)
    ))
}
