//! screen - answers what a program asks of its terminal, and keeps a session's screen
//!
//! An internal role. The session's relay starts `nbs-screen HANDLE SESSIONS ask`, with a connection
//! to it as standard input. Each line it reads has an offset in the log and, in hexadecimal, the query
//! that ends there; it writes a line with the answer. `nbs-screen HANDLE SESSIONS keep` computes
//! the screen once, so that the next call is cheap.

use std::{
    io::{self, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    time::Duration,
};

use crate::{
    cli::{self, Args},
    outcome::{Result, Trying},
    session::{self, ScreenCache, SessionDir},
    sys::{child, deadline::Deadline, inherited, poll},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [handle, sessions, job] = &words[..] else { return Err(cli::by_hand()) };
    inherited::shed().trying("close inherited descriptors")?;
    let session = cli::session_of_parent(handle, sessions)?;
    child::call_ourselves(session::SCREEN).trying("set the process name")?;
    if job == "keep" {
        child::be_nice().trying("lower the priority")?;
        return ScreenCache::look(&session).map(|_| ());
    }
    let stdin = io::stdin().as_fd().try_clone_to_owned().trying("take standard input")?;
    serve(&session, UnixStream::from(stdin))
}

/// Longer than a person waits between two prompts, mostly.
const IDLE: Duration = Duration::from_secs(10);

fn serve(session: &SessionDir, mut relay: UnixStream) -> Result<()> {
    let what = "talk to the relay";
    let log = session.log()?;
    let mut cache: Option<ScreenCache> = None;
    let mut line = Vec::new();
    while poll::wait_readable(&relay, Deadline::after(IDLE)).trying(what)? {
        let mut buffer = [0; 4096];
        let count = relay.read(&mut buffer).trying(what)?;
        if count == 0 {
            break;
        }
        line.extend_from_slice(&buffer[..count]);
        let Some(asked) = line.strip_suffix(b"\n") else { continue };
        let (offset, question) = parsed(asked).ok_or_else(cli::by_hand)?;
        line.clear();
        let mut now = match cache.take().filter(|cache| cache.offset() <= offset) {
            Some(cache) => cache,
            None => ScreenCache::look_at(session, &log, offset)?,
        };
        now.follow(session, &log, offset)?;
        let answer = now.screen.answer(&question) + "\n";
        cache = Some(now);
        relay.write_all(answer.as_bytes()).trying(what)?;
    }
    Ok(())
}

/// The offset of a line, and the question.
fn parsed(line: &[u8]) -> Option<(u64, Vec<u8>)> {
    let (offset, digits) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let question: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
    Some((offset.parse().ok()?, question?))
}
