//! ask - type text into a program and print its answer
//! Task: Do, 2
//!
//! Usage: nbs-ts ask [options] SESSION [TEXT...]
//!        nbs-ts ask --stdin [options] SESSION
//!
//! Waits until the program reads input, types TEXT and Enter, and prints the
//! answer without the echo. In a shell, the answer ends when the command ends or
//! asks a question; the next `ask` answers it. In any other program, it ends when
//! the program waits for input again.
//!
//! `ask` omits the prompt after the answer only if TEXT was typed at that prompt,
//! in the same process (digits may differ). It prints any other last line, because
//! that may be a question. If the program draws the whole screen, `ask` prints the
//! screen; use `key` and `screen` instead.
//!
//! Everything after SESSION is text, even `--words`. Calls to one session are
//! queued. If a program asks a question in the meantime, a queued call types
//! nothing and exits 125. On timeout, `ask` prints the output so far and how to
//! read the rest. The program keeps running.
//!
//! If the shell does not execute the text, `ask` exits 1 at once. The text may be
//! incomplete (`ask` the rest, or cancel with `key C-c`), or contain a `!` that
//! matches no command in the history.
//!
//! With ssh, nbs cannot see whether the remote program is reading input. The
//! answer then ends at a line that looks like a prompt or a question. If there is
//! none, give a condition: --pattern for a server, --idle if nothing else works.
//! Add --fail to any of them.
//!
//! Options:
//!   --stdin           read the text from standard input
//!   --paste           send a bracketed paste if the program has enabled it; keeps
//!                     editors from indenting the text
//!   --pattern=TEXT    wait until TEXT is printed (repeatable)
//!   --regex=REGEX     wait until REGEX matches (repeatable)
//!   --fail=TEXT       fail when TEXT is printed (repeatable)
//!   --complete        wait until the next command ends
//!   --idle=TIME       wait until nothing is printed for TIME
//!   --stable=TIME     wait until the screen is unchanged for TIME
//!   --input           wait until the program waits for input
//!   --exit            wait until the session ends
//!   --ansi            keep colours
//!   --strip           remove colours, even with --ansi
//!   --max=SIZE        print at most SIZE: start, end, and how to read the rest
//!   --timeout=TIME    give up after TIME (default: 60)
//!   --json            print an object: handle, output, condition, detail (such as
//!                     a command's exit code), terminal (its state), question (its
//!                     line, or null), offset (in the output log)
//!
//! Exit codes:
//!   0                 a condition was met; by default: the command ended, the
//!                     program waits for input, or the session ended
//!   1                 --fail matched, the session ended before the condition
//!                     was met, the shell did not execute the text, or a secret
//!                     prompt is open
//!   2                 no such session
//!   3                 timed out
//!   4                 bad arguments
//!   125               a program asked a question while the call was queued; the
//!                     text was not typed
//!
//! Example:
//!   nbs-ts ask "$python" 'sum(range(10))'

mod seen;

use std::{ops::Range, time::Duration};

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Reason, Result, Trying},
    session::{
        InputSource, OutputLog, Piece, ScreenCache, SessionDir, StateDir,
        client::{
            Asked, Diagnosis, Parts, PromptState, RelayClient, Snapshot, TerminalState,
            job::{Handed, Job, Progress},
            sending,
        },
        shell::{self, Dialect, LONGEST_SHOWN_HOOK},
    },
    sorted::Set,
    sys::{deadline::Deadline, pty::Size},
    terminal::{
        queries::{Part, Sequences},
        screen::{Rendered, Rendering, Screen},
        text::{AnsweredPrompt, Prompts, Strip},
    },
    ts::{
        conditions::{self, Conditions, Met, SessionWatch, WatchEnd, WatchStart},
        output,
        rendered::{self, Fed},
    },
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (mut conditions, timeout) = (Conditions::given(call)?, call.value("timeout", cli::time)?);
    let (target, max, ansi) = (call.session()?, call.optional("max", cli::size)?, call.has("ansi"));
    let (strip, paste) = (call.has("strip"), call.has("paste"));
    let (deadline, mut text) = (Deadline::after(timeout), call.text());
    if call.has("stdin") {
        text = cli::whole_stdin(deadline)?;
        // Enter is typed anyway.
        text.pop_if(|last| *last == b'\n');
    }

    let session = StateDir::open()?.session(&target)?.within(deadline);
    session.check_input()?;
    let ended = || session.ended();
    let mut turn = RelayClient::open(&session)?.ok_or_else(ended)?;
    let Some((_, waited)) = turn.take_turn(&session, deadline, None)? else {
        return Err(Failure::timed_out(cannot(&session, "timed out while other calls use it")));
    };
    let ready = await_ready(&session, &mut turn, deadline, timeout)?;
    let now = turn.snapshot_with_typing(Parts::PROGRAM.and(Parts::SHELL), 0)?.ok_or_else(ended)?;
    if let Some(last) = now.seq {
        // Before anything that takes time: the command may end by itself.
        let (place, level) = (now.offset, now.level);
        turn.note_job(&Job { handed: Handed::Foreign, place, last, level, ..Job::default() });
    }
    // At the prompt, or at PS2 with the rest of the text typed there.
    let in_shell = ready == TerminalState::Prompt || now.wants_rest();
    let by_default = conditions.are_none();
    if by_default {
        conditions.complete = true;
        conditions.input = !in_shell;
        conditions.exit = true;
        conditions.asks = in_shell;
    }
    conditions.passed_over = in_shell && conditions.complete;

    let (offset, last, level, seq) = (now.offset, now.last, now.level, now.seq);
    let pid = now.program.as_ref().map(|holder| holder.pid);
    let mut context = AskContext::look(&session, now, in_shell, &text)?;
    let prompt = context.prompt.as_ref().map_or(0, AnsweredPrompt::hash);
    let asked = pid.map(|pid| Asked { pid, prompt });
    if waited.queued && ready != TerminalState::Prompt && (asked.is_none() || asked != waited.asked) {
        return Err(began_to_ask(&session, &mut turn, ready)?);
    }
    if let Some(asked) = asked
        && !turn.note_asked(asked)?
    {
        return Err(ended());
    }
    conditions.prompts = (by_default && !context.at.is_empty()).then(|| context.prompts.clone());
    if let (true, Some(last)) = (in_shell && conditions.complete, seq) {
        // Calls that wait for the next completion skip this one.
        turn.note_job_with_next(&Job { handed: Handed::Asked, last, level, ..Job::default() });
    }
    type_text(&session, &mut turn, text, paste, deadline)?;

    // It has been typed: a relay that is stopped from here on uses up the rest of the time.
    let late = |failure: Failure| match failure.reason() {
        Reason::Failed if deadline.has_passed() => failure.because(Reason::TimedOut),
        _ => failure,
    };
    let from = WatchStart { offset: Some(offset), completion: last.map(|last| last.saturating_add(1)) };
    let mut watches = [SessionWatch::begin(&session, &conditions, from).map_err(late)?];
    // Whatever the result of the wait, we print the output so far.
    let over = conditions::until(&mut watches, false, deadline).map_err(late);
    let [watch] = watches;
    // If another program has the terminal, the same text may be that program's question.
    let holder = turn.snapshot(Parts::PROGRAM).ok().flatten().and_then(|now| now.program);
    context.prompt.take_if(|_| holder.is_none_or(|holder| Some(holder.pid) != pid));
    let end = match &watch.met {
        Some(met) => met.offset,
        None => session.log()?.length().trying("read the log")?,
    };
    let is_complete = watch.met.as_ref().is_some_and(|met| met.condition == "complete");
    let report =
        if turn.look_at_output().unwrap_or(false) { turn.last_output() } else { turn.final_output() };
    context.command = seq.map(|_| report.progress).filter(|_| in_shell || is_complete);
    let answer = context.answer(&session, end, is_complete, ansi && !strip).map_err(late)?;
    show(call, &session, answer, watch.met.as_ref(), offset..end, max, deadline)?;
    match &watch.met {
        Some(met) if met.is_failure() => Err(Failure::quiet()),
        Some(met) if met.condition == "input" && !conditions.input => {
            if let Some(why) = passed_over(&session, offset..met.offset)? { Err(why) } else { Ok(()) }
        }
        Some(_) => Ok(()),
        None => Err(with_hint(&session, &conditions, watch.in_vain(&over?, timeout))),
    }
}

fn cannot(session: &SessionDir, why: &str) -> String {
    format!("cannot ask session '{}': {why}", session.handle())
}

/// Waits until a program waits for our text, and its shell has lost no interrupt; returns how it waits.
fn await_ready(
    session: &SessionDir,
    turn: &mut RelayClient,
    deadline: Deadline,
    timeout: Duration,
) -> Result<TerminalState> {
    let mut ready = wait_until_ready(session, deadline, timeout)?;
    match turn.wake(session, deadline)? {
        Some(false) => {}
        Some(true) => ready = wait_until_ready(session, deadline, timeout)?,
        None => {
            let why = "timed out: its shell has not processed an interrupt; the text was not typed";
            return Err(Failure::timed_out(cannot(session, why)));
        }
    }
    if ready == TerminalState::Secret {
        let way = format!("it is at a secret prompt; try 'nbs-ts send --secret-stdin {}'", session.handle());
        return Err(Failure::failed(cannot(session, &way)));
    }
    Ok(ready)
}

/// Types the text, and Enter, on another connection. The question about the modes comes back only when the relay has
/// the job.
fn type_text(
    session: &SessionDir,
    turn: &mut RelayClient,
    mut text: Vec<u8>,
    paste: bool,
    deadline: Deadline,
) -> Result<()> {
    let ended = || session.ended();
    let modes = turn.modes()?.ok_or_else(ended)?;
    if paste && modes.bracketed_paste {
        text = sending::bracketed(text);
    }
    text.push(b'\r');
    let mut typist = RelayClient::open(session)?.ok_or_else(ended)?.typing_as(InputSource::Ask);
    let typed = typist.type_in(&text, deadline)?.ok_or_else(ended)?.count;
    if typed < text.len() as u64 {
        let why = format!("the program does not read; {typed} of {} bytes were typed", text.len());
        return Err(Failure::timed_out(cannot(session, &why)));
    }
    Ok(())
}

/// Learns the text before the cursor at each of these places.
fn learn_prompts(prompts: &mut Prompts, log: &OutputLog, places: impl Iterator<Item = u64>) -> Result<()> {
    for place in places {
        let line = unfinished_line(log, place)?;
        if prompts.place(&line).is_none() {
            prompts.add(&line, false);
        }
    }
    Ok(())
}

/// Prints the answer, at most `max` bytes of it, which is in `range` of the log.
fn show(
    call: &CommandLine,
    session: &SessionDir,
    answer: Answer,
    met: Option<&Met>,
    range: Range<u64>,
    max: Option<u64>,
    deadline: Deadline,
) -> Result<()> {
    let Answer { output, unread, lost, is_screen, is_prompt } = answer;
    let (mut output, left_out) = output::shortened(output, max, session.handle(), &range);
    let mut left_out = max.map(|_| left_out);
    if !unread.is_empty() {
        let last = output.last().copied().unwrap_or(b'\n');
        output.extend_from_slice(output::gap_line(session.handle(), &unread, last).as_bytes());
        left_out = Some(left_out.unwrap_or(0) + (unread.end - unread.start));
    }
    match call.json() {
        true => print(session, &output, &Told { met, end: range.end, left_out, lost, is_prompt }, deadline)?,
        false => cli::print(&output)?,
    }
    output::warn_of_lost(lost, call.json());
    if is_screen && !call.json() {
        let handle = session.handle();
        let how = format!(
            "the program draws its screen; try 'nbs-ts screen {handle}' and 'nbs-ts key {handle} KEY'"
        );
        cli::warn("nbs-ts", &how);
    }
    Ok(())
}

/// The error for a text that was meant for the previous program: another has begun to ask something while the
/// call was queued.
fn began_to_ask(session: &SessionDir, turn: &mut RelayClient, doing: TerminalState) -> Result<Failure> {
    let question = session.question(doing)?;
    let question = question.map(|question| format!(": '{question}'")).unwrap_or_default();
    let now = turn.snapshot(Parts::PROGRAM)?.unwrap_or_default();
    let program = now.named_program("; ");
    let message = format!(
        "cannot ask session '{}': a program asked a question while this call was queued{question}; the \
         terminal is \
         at: {doing}{program}; the text was not typed",
        session.handle()
    );
    Ok(Failure::status(NOT_ASKED, "failed", Some(message)))
}

/// The error for a line that the shell has read, and does not execute; `None`: it executes the line, and the
/// command waits. `since` is the output since the line was typed.
fn passed_over(session: &SessionDir, since: Range<u64>) -> Result<Option<Failure>> {
    let mut level = 0;
    if let Some(mut client) = RelayClient::open(session)? {
        let now = client.snapshot(Parts::SHELL)?.ok_or_else(|| session.ended())?;
        level = now.level;
        if now.prompt == PromptState::Left || !now.shell_waits {
            return Ok(None);
        }
    }
    let tail = since.start.max(since.end.saturating_sub(4096))..since.end;
    let tail = session.log()?.bytes(tail.start, tail.end).trying("read the log")?;
    let why = if session.ends_with_prompt(since.end)? {
        "its shell did not execute it"
    } else if session.dialect(level)? != Dialect::Posix
        || memchr::memmem::find(&tail, b"\x1b]133;P;nbs=").is_some()
    {
        "the text is incomplete; try 'nbs-ts ask SESSION' with the rest, 'nbs-ts key SESSION C-c' to cancel it"
    } else {
        // A small shell does not report that it executes something: this is its `read`.
        return Ok(None);
    };
    Ok(Some(Failure::failed(format!("cannot ask session '{}': {why}", session.handle()))))
}

/// The same, with a hint.
fn with_hint(session: &SessionDir, conditions: &Conditions, failure: Failure) -> Failure {
    if failure.is(Reason::TimedOut) && !conditions.input && Diagnosis::now(session).is_asked_for_input() {
        return failure.reworded(|message| format!("{message}; try --input to end the answer there"));
    }
    failure
}

/// The exit code where a program began to ask something else before the text was typed.
const NOT_ASKED: u8 = 125;

/// How long the prompt may take to come after a command, if the result includes whether it has.
const NEXT_PROMPT: Duration = Duration::from_secs(1);

/// The number of recent inputs from which we learn the prompt.
const MOST_PROMPTS: usize = 64;

/// Waits until a program waits for our text, and returns how.
fn wait_until_ready(session: &SessionDir, deadline: Deadline, timeout: Duration) -> Result<TerminalState> {
    let conditions = Conditions::for_input();
    let mut watches = [SessionWatch::begin(session, &conditions, WatchStart::default())?];
    let over = conditions::until(&mut watches, false, deadline)?;
    match (&watches[0].met, over) {
        (Some(met), _) => Ok(TerminalState::parse(&met.detail).unwrap_or_default()),
        (None, WatchEnd::Ended(_)) => Err(session.ended()),
        (None, over) => Err(match watches[0].in_vain(&over, timeout) {
            late if late.is(Reason::TimedOut) => {
                late.reworded(|message| format!("{message}; the text was not typed"))
            }
            other => other,
        }),
    }
}

/// The text of the line that was not ended before `offset`.
fn unfinished_line(log: &OutputLog, offset: u64) -> Result<String> {
    let tail = log.bytes(offset.saturating_sub(4096), offset).trying("read the log")?;
    let start = memchr::memrchr(b'\n', &tail).map_or(0, |at| at + 1);
    let (mut strip, mut plain) = (Strip::new(), Vec::new());
    strip.feed(&tail[start..], &mut plain);
    strip.finish(&mut plain);
    let line = String::from_utf8_lossy(&plain);
    Ok(line.rsplit('\r').next().unwrap_or_default().to_owned())
}

/// The state of a session when the text was typed.
struct AskContext {
    offset: u64,
    /// The text was typed at the prompt of a shell that reports.
    in_shell: bool,
    /// The command that was typed, or was running when the text was typed.
    command: Option<Progress>,
    /// The screen, and the text before the cursor.
    screen: Screen,
    at: String,
    /// The text.
    words: String,
    prompts: Prompts,
    /// The prompt that may be left out.
    prompt: Option<AnsweredPrompt>,
}

/// The answer to the text.
struct Answer {
    output: Vec<u8>,
    /// The part at the end that there was no time to look at.
    unread: Range<u64>,
    /// The number of bytes dropped at its beginning.
    lost: u64,
    /// It is the content of the screen.
    is_screen: bool,
    /// The prompt that the text was typed at follows it.
    is_prompt: bool,
}

impl AskContext {
    /// Looks at the session, as this was seen of it, before the text is typed.
    fn look(session: &SessionDir, now: Snapshot, in_shell: bool, text: &[u8]) -> Result<AskContext> {
        let log = session.log()?;
        let offset = now.offset;
        let screen = ScreenCache::look_at(session, &log, offset)?.screen;
        let at = screen.before_cursor();
        let mut prompts = session.remember_prompt(&at, screen.is_below_blank())?;
        let keys = now.typing.map_or(Vec::new(), |typing| typing.keys);
        let places: Vec<u64> = keys.iter().rev().map(|keys| keys.offset).take(MOST_PROMPTS).collect();
        learn_prompts(&mut prompts, &log, places.into_iter().rev().filter(|place| *place < offset))?;
        let prompt = AnsweredPrompt::of(&at, &prompts);
        let words = String::from_utf8_lossy(text).into_owned();
        Ok(AskContext { offset, in_shell, command: None, screen, at, words, prompts, prompt })
    }

    /// It is looked at for as long as the call may take.
    fn answer(self, session: &SessionDir, end: u64, is_complete: bool, colours: bool) -> Result<Answer> {
        let log = session.log()?;
        let until = session.patience().last();
        let output = match self.command.as_ref().filter(|_| self.in_shell) {
            Some(command) => output(command, &log, end)?,
            None => None,
        };
        // The shell's prompt behind a program that has ended, or behind a command whose beginning the shell
        // does not report, is not part of the answer.
        let done = self.command.filter(|command| is_done(command, end));
        let end = match &done {
            Some(command) if is_complete && output.is_none() => command.end,
            _ => end,
        };
        let is_done = output.is_some() && done.is_some();
        // An incomplete command, or one with a mistake: bash's message is the whole output.
        let drawn = output.clone().unwrap_or(self.offset..end);
        let draws = !is_done && draws_screen(session, &log, drawn, until)?;
        let in_shell = output.is_some();
        let (begin, range) = match output {
            Some(range) => (rendered::empty_screen(session, range.start)?, range),
            None => (self.screen.clone(), self.offset..end),
        };
        let render = |colours| -> Result<(Rendered, Fed)> {
            let mut rendering = Rendering::new(begin.clone(), colours);
            let fed = rendered::feed(session, &log, range.clone(), &[], &mut rendering, until)?;
            Ok((rendering.finish(), fed))
        };
        let (plain, fed) = render(false)?;
        if !is_done && (draws || plain.is_alternate) {
            let output = screen(session, &log, end, colours)?;
            return Ok(Answer { output, unread: end..end, lost: 0, is_screen: true, is_prompt: false });
        }
        let unread = if fed.came_to < range.end { fed.came_to..end } else { end..end };
        let prompt = self.prompt.as_ref();
        let shown = if colours { &render(true)?.0 } else { &plain };
        let output = match (in_shell, is_done) {
            (true, true) => shown.text.clone(),
            // A question of the command's, or the first prompt of a program.
            (true, false) => seen::without_prompt(&plain, shown, prompt),
            (false, _) => seen::answer(&plain, shown, &self.at, &self.words, &self.prompts, prompt),
        };
        let is_prompt = prompt.is_some_and(|prompt| prompt.place(seen::before_cursor(&plain)).is_some());
        Ok(Answer { output: output.into_bytes(), unread, lost: fed.lost, is_screen: false, is_prompt })
    }
}

/// The range of the command's output, as far as it had come at `end` of the log; `None` if the shell had executed
/// nothing.
fn output(command: &Progress, log: &OutputLog, end: u64) -> Result<Option<Range<u64>>> {
    if !command.has_started || command.start > end {
        return Ok(None);
    }
    let stop = if is_done(command, end) { command.end } else { end };
    let tail = log.bytes(stop.saturating_sub(LONGEST_SHOWN_HOOK).max(command.start), stop);
    let hook = shell::shown_hook(&tail.trying("read the output")?, is_done(command, end));
    Ok(Some(command.start..stop - hook as u64))
}

/// Had its shell reported its end at `end` of the log?
fn is_done(command: &Progress, end: u64) -> bool {
    command.is_done() && command.end <= end
}

/// Has a program drawn the whole screen there, row by row, so that its text is not an answer?
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
            sequences.feed(block, &mut |part, _| drawing.handle(part));
        }
    }
    Ok(drawing.longest <= usize::from(rows) && drawing.rows.len() * 2 >= usize::from(rows))
}

/// The known properties of output that may be a drawing.
#[derive(Default)]
struct Drawing {
    /// The rows, but for the first, in which the cursor was placed.
    rows: Set<u16>,
    // How many lines have come since it was placed last.
    lines: usize,
    /// The most that have come between two.
    longest: usize,
}

impl Drawing {
    fn handle(&mut self, part: Part) {
        match part {
            Part::Other(text) | Part::Copied(text) => {
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

/// The screen's contents, without empty rows at its end.
fn screen(session: &SessionDir, log: &OutputLog, end: u64, colours: bool) -> Result<Vec<u8>> {
    let screen = ScreenCache::look_at(session, log, end)?.screen;
    let mut lines = if colours { screen.coloured_lines(0) } else { screen.lines(0) };
    lines.truncate(lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1));
    Ok(lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect())
}

/// The terminal's state, at the shell's next prompt if that comes before `until`; `None` if the session has
/// ended.
fn terminal(session: &SessionDir, until: Deadline) -> Result<Option<TerminalState>> {
    let Some(mut client) = RelayClient::open(session)? else { return Ok(None) };
    let has_come = |now: &Snapshot| {
        let comes = matches!(now.prompt, PromptState::Coming | PromptState::Stands);
        Ok(!comes || now.doing != TerminalState::Running)
    };
    Ok(client.await_view(Parts::TERMINAL, until, has_come)?.map(|now| now.doing))
}

/// The data of an answer for `--json`.
struct Told<'a> {
    met: Option<&'a Met>,
    /// How long the log was.
    end: u64,
    left_out: Option<u64>,
    lost: u64,
    /// The session is back at the prompt that the text was typed at.
    is_prompt: bool,
}

/// Prints the object of `--json`. `deadline`: when the call is over.
fn print(session: &SessionDir, output: &[u8], told: &Told, deadline: Deadline) -> Result<()> {
    let Told { met, end, left_out, lost, is_prompt } = *told;
    let is_complete = met.is_some_and(|met| met.condition == "complete");
    let prompt = if is_complete {
        Deadline::after(NEXT_PROMPT).min(deadline)
    } else {
        Deadline::after(Duration::ZERO)
    };
    // A relay that does not respond was asked before, or has ended.
    let doing = terminal(session, prompt).ok().flatten();
    let question = match doing {
        Some(doing) if !is_prompt => session.question(doing)?,
        _ => None,
    };
    let object = Object::new()
        .text("handle", session.handle().as_str())
        .bytes("output", output)
        .bytes_or_null("condition", met.map(|met| met.condition.as_bytes()))
        .bytes_or_null("detail", met.map(|met| met.detail.as_bytes()))
        .bytes_or_null("terminal", doing.map(|doing| doing.word().as_bytes()))
        .bytes_or_null("question", question.as_ref().map(|question| question.as_bytes()))
        .number("offset", end);
    let object = if let Some(count) = left_out { object.number("left_out", count) } else { object };
    cli::print(object.count_if_any("lost", lost).line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_is_what_places_the_cursor_in_most_rows() {
        let rows = |text: &str| {
            let (mut sequences, mut drawing) = (Sequences::default(), Drawing::default());
            sequences.feed(text.as_bytes(), &mut |part, _| drawing.handle(part));
            (drawing.rows.len(), drawing.longest)
        };
        assert_eq!(rows("a\r\nb\r\n"), (0, 2));
        assert_eq!(rows("\x1b[H\x1b[2Ja\r\n\x1b[1;5Hb\n\x1b[;7Hc"), (0, 2));
        assert_eq!(rows("\x1b[2;1Ha\n\x1b[3fb\n\n\x1b[4dc\x1b[3Hd"), (3, 2));
        assert_eq!(rows("\x1b[2A\x1b[7G\x1b[99999H\x1b[?2H\x1b[2;3r"), (0, 0));
    }
}
