//! Typing into a session, to the end or until it has taken too long.

use std::{ops::Range, time::Duration};

use regex_lite::Regex;

use crate::{
    outcome::{Failure, Result, Trying},
    session::{
        InputSource, SessionDir,
        client::{Diagnosis, Looks, Parts, RelayClient, Typed, waiting},
        shell::inner::Drawn,
    },
    sys::deadline::Deadline,
};

/// The longest line that a terminal in canonical mode accepts (termios(3)).
pub(crate) const LONGEST_SECRET: usize = 4_095;

/// How long a shell may take to deal with an interrupt, before it is sent another: one
/// may be lost on the way, as bash can lose one between fork and exec.
pub(crate) const REPEAT: Duration = Duration::from_millis(200);

/// The part of the log, up to `end`, that draws a line which was typed when the log had the length `offset`.
pub(crate) fn drawn(session: &SessionDir, client: &mut RelayClient, offset: u64, end: u64) -> Result<Drawn> {
    let size = client.snapshot(Parts::NONE)?.and_then(|now| now.size).ok_or_else(|| session.ended())?;
    let log = session.log()?;
    let bytes = |range: Range<u64>| log.bytes(range.start, range.end).trying("read the output");
    Ok(Drawn::of(size, &bytes(offset.saturating_sub(Drawn::BEFORE)..offset)?, &bytes(offset..end)?))
}

/// Types all of it, and returns the number of bytes. The limit is the session's patience; `timeout` is for
/// messages.
pub(crate) fn type_all(
    session: &SessionDir,
    bytes: &[u8],
    source: InputSource,
    timeout: Duration,
) -> Result<u64> {
    let client = RelayClient::open(session)?.ok_or_else(|| session.ended())?;
    let mut client = client.typing_as(source);
    let typed = client.type_in(bytes, session.patience().over())?.ok_or_else(|| session.ended())?;
    if typed.count < bytes.len() as u64 {
        return Err(incomplete(session, typed, bytes.len(), timeout));
    }
    Ok(typed.count)
}

pub(crate) fn incomplete(session: &SessionDir, typed: Typed, length: usize, timeout: Duration) -> Failure {
    let what = format!("type all of it into session '{}'", session.handle());
    if typed.cut {
        return Failure::failed(format!(
            "cannot {what}: an interrupt discarded the rest; {} of {length} bytes were typed",
            typed.count
        ));
    }
    let why = if typed.held {
        "the program reads whole lines, and a terminal accepts 4095 bytes of one; "
    } else {
        "the program does not read; "
    };
    let diagnosis = Diagnosis::gather(session, timeout);
    diagnosis
        .timed_out(format!("cannot {what}: {why}{} of {length} bytes were typed {diagnosis}", typed.count))
}

/// The error if a text that is not a secret would be read as one.
pub(crate) fn is_secret(session: &SessionDir) -> Failure {
    let handle = session.handle();
    Failure::failed(format!(
        "cannot type into session '{handle}': it is at a secret prompt; let the user try 'nbs-ts send \
         --secret-stdin {handle}' in a shell"
    ))
}

/// Types a secret, and a carriage return, as soon as there is a secret prompt, or the text before the cursor
/// matches `prompt`; within the same time.
pub(crate) fn type_secret(
    session: &SessionDir,
    secret: &[u8],
    prompt: Option<&Regex>,
    timeout: Duration,
) -> Result<()> {
    let what = format!("type the secret into session '{}'", session.handle());
    if secret.len() > LONGEST_SECRET {
        return Err(Failure::failed(format!("cannot {what}: a terminal accepts 4095 bytes of a line")));
    }
    if secret.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Err(Failure::failed(format!("cannot {what}: it has more than one line")));
    }
    if secret.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        let why = "it has a control character, which a terminal would execute";
        return Err(Failure::failed(format!("cannot {what}: {why}")));
    }
    let mut line = Vec::with_capacity(secret.len() + 1);
    line.extend_from_slice(secret);
    line.push(b'\r');
    let done = deliver(session, &line, prompt, session.patience().over());
    line.fill(0);
    match done? {
        true => Ok(()),
        false => {
            let diagnosis = Diagnosis::gather(session, timeout);
            Err(diagnosis.timed_out(format!("cannot {what}: it was at no secret prompt {diagnosis}")))
        }
    }
}

/// `false` if the deadline passed first.
fn deliver(session: &SessionDir, line: &[u8], prompt: Option<&Regex>, deadline: Deadline) -> Result<bool> {
    let mut client = RelayClient::open(session)?.ok_or_else(|| session.ended())?;
    let mut looks = Looks::new();
    loop {
        // So the secret does not leave us before there is reason to think that
        // it will be wanted; whether it is, typing it decides.
        let wanted = match prompt {
            None => client.modes()?.ok_or_else(|| session.ended())?.secret,
            Some(prompt) => {
                let offset = client.snapshot(Parts::NONE)?.ok_or_else(|| session.ended())?.offset;
                // The expression may include the prompt's last blank, or not.
                let row = waiting::before_cursor(session, offset)?;
                let matches = prompt.is_match(&row) || prompt.is_match(row.trim_end_matches(' '));
                if matches {
                    client.has_seen(offset)?;
                }
                matches
            }
        };
        if wanted && client.type_secret(line)?.ok_or_else(|| session.ended())? {
            return Ok(true);
        }
        if deadline.has_passed() {
            return Ok(false);
        }
        if !looks.wait(&mut client, deadline)? {
            return Err(session.ended());
        }
    }
}

/// The sequences that a terminal puts around pasted text, if the program has enabled them.
pub(crate) const PASTE: &[u8] = b"\x1b[200~";
pub(crate) const PASTE_END: &[u8] = b"\x1b[201~";

/// The text as a terminal pastes it. The end mark must not be in it, or what
/// follows it would be commands.
pub(crate) fn bracketed(text: Vec<u8>) -> Vec<u8> {
    let mut pasted = PASTE.to_vec();
    for byte in text {
        pasted.push(byte);
        // Removing one may make another from the text around it.
        if pasted.len() >= PASTE.len() + PASTE_END.len() && pasted.ends_with(PASTE_END) {
            pasted.truncate(pasted.len() - PASTE_END.len());
        }
    }
    pasted.extend_from_slice(PASTE_END);
    pasted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paste_ends_only_at_its_end() {
        let cases: [(&[u8], &[u8]); 4] = [
            (b"", b""),
            (b"a\nb", b"a\nb"),
            (b"a\x1b[201~b\x1b[200~c", b"ab\x1b[200~c"),
            (b"\x1b[20\x1b[201~1~rm", b"rm"),
        ];
        for (text, inner) in cases {
            assert_eq!(bracketed(text.to_vec()), [PASTE, inner, PASTE_END].concat());
        }
    }
}
