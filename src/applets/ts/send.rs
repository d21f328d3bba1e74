//! send - type text and Enter into a session
//! Task: Do, 5
//!
//! Usage: nbs-ts send [options] SESSION [TEXT...]
//!        nbs-ts send --stdin [options] SESSION
//!        nbs-ts send --secret-fd=N|--secret-stdin [options] SESSION
//!
//! Types the words, if any, joined by spaces, and a carriage return. Everything
//! after SESSION is text, even `--words`: put options before it. Concurrent calls
//! never mix their text. When the call returns, the terminal has accepted all of
//! the text.
//!
//! --submit gives a task to a program that reads keys one by one, such as a coding
//! agent. It waits until the program, even one just started, is ready for a task,
//! and types the text as one paste. When the text appears, it presses Enter, and
//! again if the program did not accept the text. If the program never accepts it,
//! the error shows what is left in the input line. --submit also fails if a known
//! program asks a question (see 'nbs-ts answer').
//!
//! A secret, one line, is typed with a carriage return. Without --prompt, nbs
//! types it only while the program reads a line with echo off (`secret` in
//! `status --json`). The kernel sends no event for that, so nbs polls: after any
//! output, and at intervals growing from 5 to 50 ms. With ssh, tmux or a
//! container, nbs cannot see whether echo is off; use --prompt to name the
//! question that the secret answers.
//!
//! Options:
//!   --no-enter        do not type the carriage return
//!   --stdin           read the text from standard input
//!   --paste           send a bracketed paste if the program has enabled it, else
//!                     plain text
//!   --submit          exit 0 if the program accepted the text, 3 if it was not
//!                     ready in time and nothing was typed, else 1; wait up to
//!                     --timeout (60 if not given)
//!   --secret-fd=N     read a secret from the caller's descriptor N, up to end of
//!                     file; drop one trailing newline
//!   --secret-stdin    the same from standard input
//!   --prompt=REGEX    type the secret when the text before the cursor matches
//!                     REGEX, with echo on or off
//!   --no-secret       type nothing at a secret prompt; exit 1
//!   --timeout=TIME    wait this long for a program that does not read, or for a
//!                     secret prompt (default: 10); then drop untyped text
//!   --json            print an object with the number of bytes typed (for a
//!                     secret: only that it was typed)
//!
//! Example:
//!   nbs-ts send "$h" make -j8 && nbs-ts wait-complete "$h"

use std::time::Duration;

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Result},
    session::{
        InputSource, SessionDir, StateDir,
        client::{RelayClient, sending},
        submit,
    },
    sys::deadline::Deadline,
    ts::secret,
};

/// How long a program may take to start, and to take a text.
const TIME_TO_SUBMIT: Duration = Duration::from_secs(60);

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (mut timeout, target) = (call.value("timeout", cli::time)?, call.session()?);
    let submits = call.has("submit");
    if submits && !call.has("timeout") {
        timeout = TIME_TO_SUBMIT;
    }
    let (enter, paste, no_secret) = (!call.has("no-enter"), call.has("paste"), call.has("no-secret"));
    let secret = if call.has("secret-stdin") { Some(0) } else { call.optional("secret-fd", cli::number)? };
    let (prompt, mut text) = (call.optional("prompt", cli::regex)?, call.text());
    if secret.is_some() && (paste || no_secret || !enter || submits) {
        let options = "--paste, --no-secret, --no-enter or --submit";
        return Err(Failure::bad_args(format!("cannot use {options} with a secret")));
    }
    if submits && !enter {
        return Err(Failure::bad_args("cannot use --no-enter with --submit".into()));
    }
    if prompt.is_some() && secret.is_none() {
        return Err(Failure::bad_args("--prompt requires --secret-fd or --secret-stdin".into()));
    }
    if let Some(descriptor) = secret {
        let session = StateDir::open()?.session(&target)?;
        session.check_input()?;
        let mut secret = secret::read(descriptor)?;
        let session = session.within(Deadline::after(timeout));
        let typed = sending::type_secret(&session, &secret, prompt.as_ref(), timeout);
        secret.fill(0);
        typed?;
        return call.print_json(object(&session).truth("secret", true));
    }
    if call.has("stdin") {
        text = cli::whole_stdin(Deadline::NEVER)?;
    }

    let session = StateDir::open()?.session(&target)?.within(Deadline::after(timeout));
    session.check_input()?;
    if submits {
        let count = submit(&session, text, timeout)?;
        return call.print_json(object(&session).number("typed", count).truth("taken", true));
    }
    if paste || no_secret {
        let mut client = RelayClient::open(&session)?.ok_or_else(|| session.ended())?;
        let modes = client.modes()?.ok_or_else(|| session.ended())?;
        if no_secret && modes.secret {
            return Err(sending::is_secret(&session));
        }
        if paste && modes.bracketed_paste {
            text = sending::bracketed(text);
        }
    }
    if enter {
        text.push(b'\r');
    }
    let count = sending::type_all(&session, &text, InputSource::Send, timeout)?;
    call.print_json(object(&session).number("typed", count))
}

fn object(session: &SessionDir) -> Object {
    Object::new().text("handle", session.handle().as_str())
}
