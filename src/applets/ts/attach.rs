//! attach - follow a session's output until it ends
//! Task: See, 5
//!
//! Usage: nbs-ts attach [--last=N|--new] [--json [--legacy-exit]] SESSION
//!        nbs-ts attach --interactive|--read-only SESSION
//!
//! Prints the output from its beginning and continues as more arrives. When the
//! session has ended, `attach` says so and exits 0.
//!
//! With --interactive, all keys go to the session, and its terminal gets the size
//! of the window. The last window to attach or resize sets the size. When all have
//! detached, the terminal returns to its own size.
//!
//! Options:
//!   --last=N          begin with the last N lines
//!   --new             skip the output so far
//!   --interactive     show the screen on this terminal and type into it; C-\
//!                     and then d detaches (C-\ twice types one)
//!   --read-only       only show the screen: no key goes to the session, and its
//!                     terminal keeps its size; if that is larger, show the part
//!                     around the cursor; C-\ and then d detaches
//!   --json            print frames, for a program that shows the terminal
//!                     elsewhere: one object per line, of type init, output,
//!                     resize and, at the end, pty_exited
//!   --legacy-exit     end the frames with {"type":"exit","code":N} instead
//!
//! Example:
//!   nbs-ts attach @build --last=20

use std::{
    io::{self, StdoutLock, Write},
    time::Duration,
};

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Result, Trying},
    session::{
        OutputLog, Piece, SessionDir, StateDir,
        client::{RelayClient, WaitOutcome, protocol::SizeSince},
    },
    sys::{deadline::Deadline, poll::PollSet},
    ts::{
        attach::{self, notice},
        frames::{self, Frames},
        output,
    },
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (target, last) = (call.session()?, call.optional("last", cli::number)?);
    let (new, legacy_exit, read_only) = (call.has("new"), call.has("legacy-exit"), call.has("read-only"));

    let state_dir = StateDir::open()?;
    let session = state_dir.session(&target)?;
    if read_only || call.has("interactive") {
        let words: Vec<_> = read_only.then(|| attach::READ_ONLY.into()).into_iter().collect();
        return attach::attach(session.handle().as_str(), &words);
    }
    let log = session.log()?;
    let length = log.length().trying("read the output")?;
    let start = match last {
        Some(last) => log.start_of_last_lines(last, length).trying("read the output")?,
        None if new => length,
        None => 0,
    };
    let frames = call.json().then(|| Frames::new(start));
    let mut follower =
        Follower { session: &session, log, shown: start, size: None, frames, stdout: io::stdout().lock() };
    let told = follower.follow()?;
    let code = told.or_else(|| session.exit_code().ok().flatten());
    follower.print(&match (call.json(), legacy_exit) {
        (false, _) => notice(code, state_dir.notice(&session).is_some_and(|notice| notice.timed_out())),
        (true, true) => frames::legacy_exit(code.unwrap_or(-1)),
        (true, false) => state_dir.exit_record(&session),
    })
}

struct Follower<'a> {
    session: &'a SessionDir,
    log: OutputLog,
    // How far the output has been printed.
    shown: u64,
    size: Option<SizeSince>,
    // `None` if the bytes are printed as they are.
    frames: Option<Frames>,
    stdout: StdoutLock<'static>,
}

impl Follower<'_> {
    /// Prints frames until the session ends. Returns the exit code, if the relay sent it.
    fn follow(&mut self) -> Result<Option<i32>> {
        let mut client = RelayClient::open(self.session)?.map(RelayClient::sized);
        let mut begun = false;
        loop {
            let news = match &mut client {
                Some(client) if begun => self.next_news(client)?,
                // It comes at once.
                Some(client) => client.news(Deadline::NEVER)?,
                None => WaitOutcome::Ended,
            };
            let size = client.as_ref().and_then(RelayClient::last_size);
            if self.frames.is_some() && !begun {
                self.begin(size)?;
            }
            begun = true;
            if let Some(size) = size.filter(|_| self.size != size) {
                self.resize(size)?;
            }
            self.show(self.log.length().trying("read the output")?)?;
            if news == WaitOutcome::Ended {
                self.finish()?;
                return Ok(client.and_then(|client| client.exit_code()));
            }
        }
    }

    /// Waits for it, but only as long as the reader of our output exists.
    fn next_news(&self, client: &mut RelayClient) -> Result<WaitOutcome> {
        if !client.follow()? {
            return Ok(WaitOutcome::Ended);
        }
        loop {
            let mut poll_set = PollSet::new();
            poll_set.readable(client, FollowerEvent::News);
            poll_set.gone(&self.stdout, FollowerEvent::ReaderGone);
            let events = poll_set.wait(Deadline::NEVER).trying("wait for output")?;
            if events.contains(&FollowerEvent::ReaderGone) {
                return Err(Failure::reader_gone());
            }
            match client.receive_news(Deadline::after(Duration::ZERO), None)? {
                WaitOutcome::TimedOut => {}
                news => return Ok(news),
            }
        }
    }

    fn begin(&mut self, size: Option<SizeSince>) -> Result<()> {
        let name = self.session.name();
        let init = Object::new()
            .text("type", "init")
            .text("session_id", self.session.handle().as_str())
            .bytes_or_null("name", name.as_ref().map(|name| name.as_str().as_bytes()))
            .bytes("command", &self.session.command()?)
            .object_or_null("size", size.map(|size| frames::size(size.cols, size.rows)))
            .number("offset", self.shown);
        self.size = size;
        self.print(&init.line())
    }

    /// Output before the change belongs to the old size.
    fn resize(&mut self, size: SizeSince) -> Result<()> {
        self.size = Some(size);
        self.show(size.offset)?;
        if self.frames.is_some() { self.print(&frames::resize(size.cols, size.rows)) } else { Ok(()) }
    }

    /// Prints the output up to `end`.
    fn show(&mut self, end: u64) -> Result<()> {
        let (log, stdout, frames) = (&self.log, &mut self.stdout, &mut self.frames);
        let mut pieces = log.pieces(self.shown, end);
        while let Some(piece) = pieces.next()? {
            let mut lines = String::new();
            let printed = match (frames.as_mut(), piece) {
                (None, Piece::Bytes(block)) => stdout.write_all(block),
                (None, Piece::Gap(gone)) => {
                    output::warn_of_lost(gone, false);
                    Ok(())
                }
                (Some(frames), piece) => {
                    match piece {
                        Piece::Gap(gone) => frames.skip(gone, &mut lines),
                        Piece::Bytes(block) => frames.output(block, &mut lines),
                    }
                    stdout.write_all(lines.as_bytes())
                }
            };
            cli::written(printed)?;
        }
        self.shown = pieces.offset();
        cli::written(stdout.flush())
    }

    fn finish(&mut self) -> Result<()> {
        let mut lines = String::new();
        if let Some(frames) = &mut self.frames {
            frames.finish(&mut lines);
        }
        self.print(&lines)
    }

    fn print(&mut self, text: &str) -> Result<()> {
        cli::written(self.stdout.write_all(text.as_bytes()).and_then(|()| self.stdout.flush()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FollowerEvent {
    News,
    ReaderGone,
}
