//! cast - print a recorded session as an asciicast
//! Task: See, 13
//!
//! Usage: nbs-ts cast [--command=N] SESSION
//!
//! Prints the output of a session that was created with --record, with its times
//! and the terminal's sizes. If the session is alive, prints the recording so far.
//! Omits the shell's marks. The format is asciicast v2, one JSON value per line,
//! which asciinema plays.
//!
//! Options:
//!   --command=N       only the output of command N, as numbered by `history`
//!
//! Example:
//!   nbs-ts cast @demo > demo.cast; asciinema play demo.cast

use std::{
    io::{self, BufRead, BufReader, Read, StdoutLock, Write},
    iter,
    time::Duration,
};

use crate::{
    call::CommandLine,
    cli,
    json::{self, Object},
    outcome::{Failure, Result, Trying},
    session::{OutputLog, Piece, SessionDir, StateDir, shell::MarkStripper},
    sys::{clock::unix_seconds, pty::Size},
    terminal::text,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (target, command) = (call.session()?, call.optional("command", cli::number)?);

    let session = StateDir::open()?.session(&target)?;
    let what = format!("print a recording of session '{}'", session.handle());
    let times = session.times()?;
    let times =
        times.ok_or_else(|| Failure::failed(format!("cannot {what}: it was created without --record")))?;
    let log = session.log()?;
    let (mut start, mut end) = (log.start().trying(&what)?, log.length().trying(&what)?);
    let command = command.map(|id| session.command_numbered(id)).transpose()?;
    if let Some(command) = &command {
        start = start.max(command.offset);
        end = end.min(command.length.map_or(u64::MAX, |length| command.offset.saturating_add(length)));
    }
    let mut sizes = session.sizes()?.into_iter().peekable();
    let size = sizes.next_if(|(offset, _)| *offset == 0).map_or(Size::DEFAULT, |(_, size)| size);
    let mut times = BufReader::new(times);
    let stages = iter::from_fn(|| stage(&mut times));
    let stages: &mut dyn Iterator<Item = (u64, Duration)> =
        &mut stages.take_while(|(offset, _)| *offset <= end).chain(iter::once((end, Duration::ZERO)));
    let unmarked = session.unmarked()?;
    let mut cast =
        Cast { stdout: io::stdout().lock(), begun: None, now: Duration::ZERO, unmarked, held: Vec::new() };

    if start == 0 {
        cast.begin(&session, size)?;
    }
    let start = match start {
        0 => 0,
        _ if command.is_some_and(|command| command.offset == start) => start,
        // It may be the middle of a mark.
        _ => {
            let first = log.bytes(start, start + MarkStripper::LONGEST).trying(&what)?;
            start + cast.unmarked.rest_of_mark(&first) as u64
        }
    };
    let mut size = size;
    let mut last: Option<(u64, Duration)> = None;
    for (until, next) in stages {
        if let Some((from, time)) = last {
            cast.now = time;
            let resized = sizes.next_if(|(offset, _)| *offset <= from);
            size = resized.map_or(size, |(_, size)| size);
            // Dropped output of a bounded log is omitted.
            if cast.begun.is_none() && until > start {
                cast.begin(&session, size)?;
            } else if cast.begun.is_some() && resized.is_some() {
                cast.event("r", &format!("{}x{}", size.cols, size.rows))?;
            }
            cast.output(&log, from.max(start), until)?;
        }
        last = Some((until, next));
    }
    cast.finish()?;
    cli::written(cast.stdout.flush())
}

/// The offset in the log at which the next line's stretch begins, and its time.
fn stage(times: &mut impl BufRead) -> Option<(u64, Duration)> {
    /// Two numbers.
    const LONGEST: u64 = 64;
    let mut line = String::new();
    times.take(LONGEST).read_line(&mut line).ok()?;
    let (offset, time) = line.strip_suffix('\n')?.split_once(' ')?;
    Some((offset.parse().ok()?, Duration::from_micros(time.parse().ok()?)))
}

struct Cast {
    stdout: StdoutLock<'static>,
    // When that was, from the session's start on; `None`: the header is still to come.
    begun: Option<Duration>,
    now: Duration,
    unmarked: MarkStripper,
    // Invariant: empty, or the beginning of a character.
    held: Vec<u8>,
}

impl Cast {
    fn begin(&mut self, session: &SessionDir, size: Size) -> Result<()> {
        self.begun = Some(self.now);
        let begun = session.started().map(|started| unix_seconds(started) + self.now);
        let title = session.settings().title;
        let name = session.name();
        let title = title.as_deref().or(name.as_ref().map(|name| name.as_str().as_bytes()));
        let header =
            Object::new().number("version", 2).number("width", size.cols).number("height", size.rows);
        // A session with an unknown start has none.
        let header = match begun {
            Some(begun) => header.number("timestamp", begun.as_secs()),
            None => header,
        };
        let header = header.bytes("command", &session.command()?);
        let header = if let Some(title) = title { header.bytes("title", title) } else { header };
        let header = header.object_or_null("env", Some(Object::new().text("TERM", "xterm-256color")));
        cli::written(self.stdout.write_all(header.line().as_bytes()))
    }

    /// Prints what of the log came now; of characters, whole ones.
    fn output(&mut self, log: &OutputLog, from: u64, until: u64) -> Result<()> {
        let mut pieces = log.pieces(from, until);
        while let Some(piece) = pieces.next()? {
            let Piece::Bytes(block) = piece else { continue };
            let mut bytes = std::mem::take(&mut self.held);
            self.unmarked.feed(block, &mut bytes);
            self.held = bytes.split_off(bytes.len() - text::cut_off_length(&bytes));
            self.text(&bytes)?;
        }
        Ok(())
    }

    /// Prints the held bytes, now that nothing follows them.
    fn finish(&mut self) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.held);
        self.unmarked.finish(&mut bytes);
        self.text(&bytes)
    }

    fn text(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() { Ok(()) } else { self.event("o", &String::from_utf8_lossy(bytes)) }
    }

    fn event(&mut self, code: &str, data: &str) -> Result<()> {
        let time = self.now.saturating_sub(self.begun.unwrap_or_default());
        let (seconds, micros) = (time.as_secs(), time.subsec_micros());
        let event = format!("[{seconds}.{micros:06}, \"{code}\", {}]\n", json::quoted(data));
        cli::written(self.stdout.write_all(event.as_bytes()))
    }
}
