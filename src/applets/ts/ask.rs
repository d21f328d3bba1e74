//! ask - type text into a session, wait, and print what came of it
//!
//! Usage: nbs-ts ask [options] SESSION TEXT...
//!        nbs-ts ask --stdin [options] SESSION
//!
//! For any program: a shell, a debugger, a database, a Python. Waits until the
//! program waits for input, types the text and Enter, waits for the command to
//! be done (in a shell) or for the program to wait for input again, and prints
//! what came after the text: without the text's echo and the next prompt, if
//! that is the same as before. Escape sequences but for colours are left out.
//!
//! A command in a shell that itself waits for input is not done: ask it with
//! --input. A line that the shell does not execute is exit 1, at once: one that
//! is not complete (ask the rest, or drop it by `key C-c`), or that has a `!`.
//! What comes after SESSION is text, also where it begins with `--`.
//!
//! Of ssh and others that pass on what is typed it cannot be seen whether the
//! other end waits: there it counts that the last line ends as prompts and
//! questions do. Where none will, tell what to wait for.
//!
//! Several that ask one session get their answers one after another. A program
//! that asks for a secret is asked nothing. When it takes too long, or the
//! session ends, what has come is printed, and the program is left alone; of
//! more than there is time to print, a line tells how to read the rest. Where
//! a program has drawn its screen anew, row by row, the answer is what the
//! screen shows. Exit codes are those of `wait`; that of a command in a shell is
//! in --json's detail.
//!
//! Which wait when: none of them for a shell or a prompt that comes back;
//! --input where a command asks something; --pattern where it runs on (a
//! server); --idle where nothing else tells; --fail beside any of them.
//!
//! Options:
//!   --stdin           read the text from standard input instead
//!   --pattern=TEXT    wait until this text is printed (repeatable)
//!   --regex=REGEX     wait until what this matches is printed (repeatable)
//!   --fail=TEXT       this text is a failure, and ends the wait (repeatable)
//!   --complete        wait until the next command is done
//!   --idle=TIME       wait until nothing has been printed for so long
//!   --stable=TIME     wait until the screen has stayed as it is for so long
//!   --input           wait until the program waits for input
//!   --exit            wait until the session ends
//!   --strip           leave out colours, too
//!   --max=SIZE        at most so much: the first and the last part, and between
//!                     them a line that tells how to read what was left out
//!   --timeout=TIME    give up after this (default: 60)
//!   --json            print an object: handle, output, condition, detail, offset
//!                     (how far the output had come)
//!
//! Example:
//!   nbs-ts ask "$python" 'sum(range(10))'

use std::{collections::BTreeSet, io, iter, ops::Range, time::Duration};

use crate::{
    cli::{self, Args},
    json::Object,
    outcome::{Failure, Result, Trying},
    session::{
        OutputLog, Piece, ScreenCache, SessionDir, StateDir,
        client::{Diagnosis, Doing, News, Prompt, RelayClient, ShellPlace, Wait, sending, typing::Typing},
        shell::{self, LONGEST_SHOWN_HOOK, Mark, TextForm},
    },
    sys::{deadline::Deadline, pty::Size},
    terminal::{
        queries::{self, Part, Sequences},
        text::{self, Strip},
    },
    ts::{
        conditions::{self, Conditions, From, Met, SessionWatch, WatchEnd},
        output::{self, Newlines},
    },
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::{Long, Value};
    let (mut conditions, mut strip, mut timeout, mut max, mut from_stdin) =
        (Conditions::default(), false, Wait::TIMEOUT, None, false);
    let target = loop {
        match args.next()? {
            Some(Long("strip")) => strip = true,
            Some(Long("stdin")) => from_stdin = true,
            Some(Long("max")) => max = Some(args.size_value("max")?),
            Some(Long("timeout")) => timeout = args.time_value("timeout")?,
            Some(Long(option)) => {
                let option = option.to_owned();
                if !conditions.take(&option, args)? {
                    return Err(Long(&option).unexpected().into());
                }
            }
            Some(Value(word)) => break cli::parse_target(&word)?,
            Some(other) => return Err(other.unexpected().into()),
            None => return Err(cli::missing_handle()),
        }
    };
    let deadline = Deadline::after(timeout);
    let mut text = args.free_text(None)?;
    if from_stdin {
        if !text.is_empty() {
            return Err(Failure::BadArgs("--stdin and a text exclude each other".into()));
        }
        text = cli::whole_stdin(deadline)?;
        // Enter is typed anyway.
        text.pop_if(|last| *last == b'\n');
    }
    text.push(b'\r');

    let session = StateDir::open()?.session(&target)?.within(deadline);
    session.check_input()?;
    let ended = || session.ended();
    let mut turn = RelayClient::open(&session)?.ok_or_else(ended)?;
    match turn.take_turn(&session, deadline, None)? {
        News::Changed => {}
        News::Ended => return Err(ended()),
        News::TimedOut => {
            return Err(Failure::TimedOut(format!(
                "cannot ask session '{}': others who ask it have not been answered yet",
                session.handle()
            )));
        }
    }

    let mut ready = wait_until_ready(&session, deadline, timeout)?;
    if sending::wake(&session, &mut turn, deadline, None)? {
        ready = wait_until_ready(&session, deadline, timeout)?;
    }
    if ready == Doing::Secret {
        return Err(Failure::Failed(format!(
            "cannot ask session '{}': it waits for a secret; 'nbs-ts send --secret-stdin' types one",
            session.handle()
        )));
    }
    // At the prompt, or at PS2 with the rest of what was typed there.
    let entered = turn.shell_place()?.is_some_and(|place| place.prompt == Prompt::Entered);
    let in_shell = ready == Doing::Prompt || (entered && turn.shell()?.is_some_and(|(waits, _)| waits));
    if conditions.are_none() {
        conditions.complete = in_shell;
        conditions.input = !in_shell;
    }
    conditions.passed_over = in_shell && conditions.complete;

    let typed = turn.typing(0)?.ok_or_else(ended)?;
    let ShellPlace { offset, last, level, seq, .. } = turn.shell_place()?.ok_or_else(ended)?;
    let prompt = prompt(&session.log()?, &typed, offset)?;
    let typed_before = typed.total;
    if let (true, Some(last)) = (in_shell && conditions.complete, last) {
        turn.claim(last.saturating_add(1))?;
    }
    let mut typist = RelayClient::open(&session)?.ok_or_else(ended)?;
    let typed = typist.type_in(&text, deadline)?.ok_or_else(ended)?;
    if typed.count < text.len() as u64 {
        return Err(Failure::TimedOut(format!(
            "cannot ask session '{}': {} of {} bytes were typed, the program does not read",
            session.handle(),
            typed.count,
            text.len()
        )));
    }

    // It has been typed: a relay that is stopped from here on takes the rest of the time.
    let late = |failure| match failure {
        Failure::Failed(message) if deadline.has_passed() => Failure::TimedOut(message),
        other => other,
    };
    let from = From { offset: Some(offset), completion: last.map(|last| last.saturating_add(1)) };
    let mut watches = [SessionWatch::begin(&session, &conditions, from).map_err(late)?];
    // Whatever becomes of the wait, what has come is printed.
    let over = conditions::until(&mut watches, false, deadline).map_err(late);
    let [watch] = watches;
    let place = Place { offset, last: seq.filter(|_| in_shell), level, typed_before, prompt };
    let end = match &watch.met {
        Some(met) => met.offset,
        None => session.log()?.length().trying("read the log")?,
    };
    let Answer { mut output, unread, lost } = place.answer(&session, end).map_err(late)?;
    if strip {
        output = without_colours(&output);
    }
    let (mut output, left_out) = output::shortened(output, max, session.handle(), &(offset..end));
    let mut left_out = max.map(|_| left_out);
    if !unread.is_empty() {
        let last = output.last().copied().unwrap_or(b'\n');
        output.extend_from_slice(output::gap_line(session.handle(), &unread, last).as_bytes());
        left_out = Some(left_out.unwrap_or(0) + (unread.end - unread.start));
    }
    print(&session, &output, watch.met.as_ref(), end, left_out, lost, args.json())?;
    output::tell_lost(lost, args.json());
    match &watch.met {
        Some(met) if met.is_failure() => Err(Failure::Quiet),
        Some(met) if met.condition == "input" && !conditions.input => Err(passed_over(&session, met.offset)?),
        Some(_) => Ok(()),
        None => Err(with_hint(&session, &conditions, watch.in_vain(&over?, timeout))),
    }
}

/// What to say of a line that the shell has read, and does not execute.
fn passed_over(session: &SessionDir, offset: u64) -> Result<Failure> {
    let why = if session.ends_with_prompt(offset)? {
        "its shell did not execute it"
    } else {
        "it is not complete, and the shell waits for the rest: 'nbs-ts ask' types that, 'nbs-ts key C-c' drops it"
    };
    Ok(Failure::Failed(format!("cannot ask session '{}': {why}", session.handle())))
}

/// The same, and what may help.
fn with_hint(session: &SessionDir, conditions: &Conditions, failure: Failure) -> Failure {
    match failure {
        Failure::TimedOut(message) if !conditions.input && Diagnosis::now(session).is_asked_for_input() => {
            Failure::TimedOut(format!("{message}; with --input that is an answer"))
        }
        other => other,
    }
}

/// How many of the last places where something was typed tell what the prompt is.
const MOST_PROMPTS: usize = 64;
/// With its colours.
const LONGEST_PROMPT: usize = 1024;

/// Waits until somebody waits for what we are going to type, and tells as what.
fn wait_until_ready(session: &SessionDir, deadline: Deadline, timeout: Duration) -> Result<Doing> {
    let conditions = Conditions::for_input();
    let mut watches = [SessionWatch::begin(session, &conditions, From::default())?];
    let over = conditions::until(&mut watches, false, deadline)?;
    match (&watches[0].met, over) {
        (Some(met), _) => Ok(Doing::parse(&met.detail)),
        (None, WatchEnd::Ended(_)) => Err(session.ended()),
        (None, over) => Err(match watches[0].in_vain(&over, timeout) {
            Failure::TimedOut(message) => Failure::TimedOut(format!("{message}; the text was not typed")),
            other => other,
        }),
    }
}

/// The program's prompt, which stands on the line that has not been ended before
/// `offset`, perhaps behind an answer without an end of its own. So it is the
/// longest that was typed at before, if one of those ends that line.
fn prompt(log: &OutputLog, typed: &Typing, offset: u64) -> Result<Vec<u8>> {
    let places = typed.keys.iter().rev().map(|keys| keys.offset).take(MOST_PROMPTS);
    let mut places: Vec<u64> = places.filter(|place| *place < offset).collect();
    places.reverse();
    let mut known: Vec<Vec<u8>> = Vec::new();
    for place in places.into_iter().chain([offset]) {
        let line = unfinished_line(log, place)?;
        let ends_it = |prompt: &&Vec<u8>| line.ends_with(prompt);
        let prompt = known.iter().filter(ends_it).max_by_key(|prompt| prompt.len()).cloned();
        known.push(prompt.unwrap_or(line));
        known.retain(|prompt| !prompt.is_empty() || place == offset);
    }
    Ok(known.pop().unwrap_or_default())
}

/// What stands on the line that was not ended before `offset`.
fn unfinished_line(log: &OutputLog, offset: u64) -> Result<Vec<u8>> {
    let tail = log.bytes(offset.saturating_sub(4096), offset).trying("read the log")?;
    let start = memchr::memrchr(b'\n', &tail).map_or(0, |at| at + 1);
    let line = without_colours(&tail[start..]);
    Ok(line.into_iter().skip_while(|byte| *byte == b'\r').collect())
}

fn without_colours(bytes: &[u8]) -> Vec<u8> {
    let (mut strip, mut plain) = (Strip::new(), Vec::with_capacity(bytes.len()));
    strip.feed(bytes, &mut plain);
    strip.finish(&mut plain);
    plain
}

/// Where a session stood when it was asked.
struct Place {
    offset: u64,
    /// The number of the prompt that the text was typed at, if at one; and which of the
    /// session's shells that is.
    last: Option<u64>,
    level: usize,
    typed_before: u64,
    prompt: Vec<u8>,
}

/// What came of the text.
struct Answer {
    output: Vec<u8>,
    /// What there was no time to look at any more, at its end.
    unread: Range<u64>,
    /// How many bytes of it are gone, at its beginning.
    lost: u64,
}

/// Where in the log the output of a command in our shell lies.
struct Output {
    range: Range<u64>,
    /// Marks of ours in it, in order, as somebody may print them again.
    cuts: Vec<Range<u64>>,
    is_done: bool,
    unread: Range<u64>,
    lost: u64,
}

impl Place {
    /// It is looked at for as long as the call may take.
    fn answer(&self, session: &SessionDir, end: u64) -> Result<Answer> {
        let log = session.log()?;
        let until = session.patience().last();
        let what = format!("read the output of session '{}'", session.handle());
        let output = match self.last {
            Some(last) => self.output_of_command(session, &log, last, end, until)?,
            None => None,
        };
        // A line of a command that is not complete, or a mistake in it: what bash says
        // is all there is.
        let drawn = output.as_ref().map_or(self.offset..end, |output| output.range.clone());
        if !output.as_ref().is_some_and(|output| output.is_done) && draws_screen(session, &log, drawn, until)?
        {
            return Ok(Answer { output: screen(session, &log, end)?, unread: end..end, lost: 0 });
        }
        if let Some(Output { range, cuts, unread, lost, .. }) = output {
            let (shown, came_to) = shown(&log, range.clone(), cuts, until).trying(&what)?;
            let unread = if came_to < range.end { came_to..unread.end } else { unread };
            return Ok(Answer { output: shown, unread, lost });
        }
        // Where the relay does not answer, the text is part of the answer.
        let mut client = RelayClient::open(session)?;
        let typing = client.as_mut().and_then(|client| client.typing(self.typed_before).ok().flatten());
        let typing = typing.or_else(|| session.typed());
        let form = TextForm::Answer { colours: true };
        let (mut echo, start) = session.echo_from(&log, typing.as_ref(), self.offset, form)?;
        let (mut output, mut lost, mut at) = (Vec::new(), 0, start);
        let mut pieces = log.pieces(start, end);
        while let Some(piece) = pieces.next()? {
            match piece {
                Piece::Gap(gone) => {
                    echo.skip(gone, &mut output);
                    output.clear();
                    at += gone;
                    lost = at.saturating_sub(self.offset);
                }
                Piece::Bytes(block) => {
                    echo.feed(block, &mut output);
                    at += block.len() as u64;
                    if until.has_passed() {
                        break;
                    }
                }
            }
        }
        echo.finish(&mut output);
        Ok(Answer { output: self.without_prompt(output), unread: at.min(end)..end, lost })
    }

    /// `None` where the shell has executed nothing.
    fn output_of_command(
        &self,
        session: &SessionDir,
        log: &OutputLog,
        last: u64,
        end: u64,
        until: Deadline,
    ) -> Result<Option<Output>> {
        let what = "read the output";
        let mut marks = session.marks(self.offset, self.level, Some(last))?;
        let (mut found, mut lost) = (Vec::new(), 0);
        let mut pieces = log.pieces(self.offset, end);
        while let Some(piece) = pieces.next()? {
            match piece {
                Piece::Gap(gone) => {
                    marks.skip(gone);
                    lost += gone;
                }
                Piece::Bytes(block) => {
                    marks.feed(block, &mut found);
                    if until.has_passed() {
                        break;
                    }
                }
            }
        }
        let came_to = pieces.offset();
        let place = |wanted: fn(&Mark) -> Option<u64>| {
            found.iter().find(|found| wanted(&found.mark) == Some(last.saturating_add(1)))
        };
        let started = place(|mark| match mark {
            Mark::Started { seq } => Some(*seq),
            _ => None,
        });
        let done = place(|mark| match mark {
            Mark::Done { seq, .. } => Some(*seq),
            _ => None,
        });
        // Its beginning may be gone.
        let start = started.map(|started| started.end);
        let start = start.or(done.filter(|_| lost > 0).map(|_| self.offset + lost));
        let Some(start) = start else { return Ok(None) };
        let mut stop = done.map_or(came_to, |done| done.start);
        let tail = log.bytes(stop.saturating_sub(LONGEST_SHOWN_HOOK).max(start), stop).trying(what)?;
        stop -= shell::shown_hook(&tail, done.is_some()) as u64;
        let unread = if done.is_some() { end..end } else { came_to.min(end)..end };
        let is_done = done.is_some();
        let cuts = found.iter().filter(|found| found.start >= start && found.end <= stop);
        let cuts = cuts.map(|found| found.start..found.end).collect();
        Ok(Some(Output { range: start..stop, cuts, is_done, unread, lost }))
    }

    fn without_prompt(&self, mut output: Vec<u8>) -> Vec<u8> {
        if self.prompt.is_empty() {
            return output;
        }
        let start = memchr::memrchr(b'\n', &output).map_or(0, |at| at + 1);
        let plain = without_colours(&output[start..]);
        if self.prompt.ends_with(&plain) && shell::ends_like_a_prompt(&plain) {
            // Before the first text, the rest of something else may have stood
            // before it.
            output.truncate(start);
        } else if plain.ends_with(&self.prompt) {
            let start = start.max(output.len().saturating_sub(LONGEST_PROMPT));
            let is_prompt = |at: &usize| without_colours(&output[*at..]) == self.prompt;
            let at = (start..output.len()).find(is_prompt);
            output.truncate(at.unwrap_or(output.len()));
        }
        output
    }
}

/// Without escape sequences but colours, and with lines that end as they do in
/// files; and how far in the log there was time for.
fn shown(
    log: &OutputLog,
    range: Range<u64>,
    cuts: Vec<Range<u64>>,
    until: Deadline,
) -> io::Result<(Vec<u8>, u64)> {
    let (mut strip, mut newlines) = (Strip::new(), Newlines::default());
    let (mut waiting, mut plain, mut shown, mut at) = (Vec::new(), Vec::new(), Vec::new(), range.start);
    for cut in cuts.into_iter().chain(iter::once(range.end..range.end)) {
        let mut pieces = log.pieces(at, cut.start);
        while let Some(piece) = pieces.next()? {
            let Piece::Bytes(block) = piece else { continue };
            waiting.extend_from_slice(block);
            // A colour that is begun here comes whole with the next block.
            let whole = waiting.len() - queries::unfinished_length(&waiting);
            plain.clear();
            text::strip_but_colours(&mut strip, &waiting[..whole], &mut plain);
            waiting.drain(..whole);
            newlines.feed(&plain, &mut shown);
            if until.has_passed() {
                break;
            }
        }
        at = pieces.offset();
        if at < cut.start {
            break;
        }
        at = cut.end;
    }
    plain.clear();
    text::strip_but_colours(&mut strip, &waiting, &mut plain);
    strip.finish(&mut plain);
    newlines.feed(&plain, &mut shown);
    newlines.finish(&mut shown);
    Ok((shown, at))
}

/// Has a program drawn all of the screen there, row by row, so that the text of that is
/// no answer?
fn draws_screen(session: &SessionDir, log: &OutputLog, range: Range<u64>, until: Deadline) -> Result<bool> {
    let rows = session.sizes()?.last().map_or(Size::DEFAULT.rows, |(_, size)| size.rows);
    let (mut sequences, mut drawing) = (Sequences::default(), Drawing::default());
    let what = format!("read the output of session '{}'", session.handle());
    let mut pieces = log.pieces(range.start, range.end);
    // More lines than fit, one after another, are text.
    while drawing.longest <= usize::from(rows)
        && !until.has_passed()
        && let Some(piece) = pieces.next().trying(&what)?
    {
        if let Piece::Bytes(block) = piece {
            sequences.feed(block, &mut |part, _| drawing.heed(part));
        }
    }
    Ok(drawing.longest <= usize::from(rows) && drawing.rows.len() * 2 >= usize::from(rows))
}

/// What is known of a stretch of output that may be a drawing.
#[derive(Default)]
struct Drawing {
    /// The rows, but for the first, in which the cursor was placed.
    rows: BTreeSet<u16>,
    // How many lines have come since it was placed last.
    lines: usize,
    /// The most that have come between two.
    longest: usize,
}

impl Drawing {
    fn heed(&mut self, part: Part) {
        match part {
            Part::Other(text) => {
                self.lines += memchr::memchr_iter(b'\n', text).count();
                self.longest = self.longest.max(self.lines);
            }
            Part::Sequence(sequence) => {
                if let Some(row) = sequence.row().filter(|row| *row > 1) {
                    self.rows.insert(row);
                    self.lines = 0;
                }
            }
        }
    }
}

/// What the screen shows, but for empty rows at its end.
fn screen(session: &SessionDir, log: &OutputLog, end: u64) -> Result<Vec<u8>> {
    let cache = ScreenCache::look_at(session, log, end)?;
    let mut lines = cache.screen.coloured_lines(0);
    lines.truncate(lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1));
    Ok(lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect())
}

fn print(
    session: &SessionDir,
    output: &[u8],
    met: Option<&Met>,
    end: u64,
    left_out: Option<u64>,
    lost: u64,
    json: bool,
) -> Result<()> {
    if !json {
        return cli::print(output);
    }
    let object = Object::new()
        .text("handle", session.handle().as_str())
        .bytes("output", output)
        .bytes_or_null("condition", met.map(|met| met.condition.as_bytes()))
        .bytes_or_null("detail", met.map(|met| met.detail.as_bytes()))
        .number("offset", i64::try_from(end).unwrap_or(i64::MAX));
    let object = match left_out {
        Some(count) => object.number("left_out", i64::try_from(count).unwrap_or(i64::MAX)),
        None => object,
    };
    cli::print(object.count_if_any("lost", lost).line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_is_what_places_the_cursor_in_most_rows() {
        let rows = |text: &str| {
            let (mut sequences, mut drawing) = (Sequences::default(), Drawing::default());
            sequences.feed(text.as_bytes(), &mut |part, _| drawing.heed(part));
            (drawing.rows.len(), drawing.longest)
        };
        assert_eq!(rows("a\r\nb\r\n"), (0, 2));
        assert_eq!(rows("\x1b[H\x1b[2Ja\r\n\x1b[1;5Hb\n\x1b[;7Hc"), (0, 2));
        assert_eq!(rows("\x1b[2;1Ha\n\x1b[3fb\n\n\x1b[4dc\x1b[3Hd"), (3, 2));
        assert_eq!(rows("\x1b[2A\x1b[7G\x1b[99999H\x1b[?2H\x1b[2;3r"), (0, 0));
    }
}
