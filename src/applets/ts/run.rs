//! run - run a command in a session's shell and print its output
//! Task: Do, 1
//!
//! Usage: nbs-ts run [options] SESSION COMMAND...
//!        nbs-ts run --stdin [options] SESSION
//!        nbs-ts run --resume [options] SESSION
//!
//! The shell executes COMMAND as if it had been typed. `run` prints the exact
//! output as it arrives. The shell keeps its directory, variables and functions.
//! Everything after SESSION is the command, even `--words`. `exit`, or a failure
//! under `set -e`, ends the shell and the session.
//!
//! A second `run` waits for the first. If the shell is busy with anything else
//! for more than a second, `run` exits 125.
//!
//! If the command waits for input (a question, a pager, ssh, psql) for a second,
//! `run` exits 123 and the command keeps running. The output ends with the
//! question, and an error line says how to answer. `run --resume` then prints the
//! new output without the echo of the answer. A program that polls the keyboard
//! while it prints or uses the CPU is not waiting. For a nested shell, see
//! `integrate`. NBS_TS_OUTPUT (raw, strip or rendered) applies if neither --strip
//! nor --rendered is given.
//!
//! If `run` is killed by SIGKILL, its command keeps running. `run --resume` then
//! prints the output that the killed `run` did not print, and exits with the
//! command's code.
//!
//! Job messages printed while the command runs are part of its output. `read-new`
//! prints those that precede the next prompt (`[1]+  Done`).
//!
//! Options:
//!   --stdin           read the command, of any length, from standard input
//!   --resume          resume the command that the last run left running
//!   --input-after=TIME
//!                     exit 123 once the command has waited this long (default: 1)
//!   --no-input        never exit 123
//!   --strip           remove escape sequences
//!   --rendered        at the end, print the text as a person would see it:
//!                     without escape sequences or overwritten text
//!   --ansi            with --rendered: keep colours
//!   --timeout=TIME    interrupt the command TIME after the call begins
//!                     (default: never); give up 3 s later
//!   --max=SIZE        when the command has ended, print at most SIZE: start, end,
//!                     and how to read the rest
//!   --json            print an object: output, exit_code, duration_ms, result
//!                     (done, input, timeout, interrupted or ended); for input
//!                     also terminal (line, secret or raw) and question
//!
//! Exit codes:
//!   N                 the command's own, or 2 if it is incomplete (an open
//!                     quote) and was not executed
//!   4                 bad arguments
//!   123               the command waits for input
//!   124               timed out
//!   125               could not run it, or the shell ended, was replaced
//!                     (exec) or cannot report the exit code
//!   126               interrupted, with its command, by SIGINT, SIGTERM or (not
//!                     with nohup) SIGHUP
//!
//! Example:
//!   nbs-ts run --timeout=10m "$h" 'cd ~/project && make -j8'

mod foreground;
mod inner;
mod printing;
mod prompt;
mod question;
mod resume;
mod unreported;
mod watching;

use std::{
    ops::{Range, RangeInclusive},
    os::fd::AsFd,
    path::Path,
    time::{Duration, Instant},
};

use prompt::{await_prompt, replaced};
use question::QuestionWatch;
use resume::AnswerEchoes;

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Reason, Result, Trying},
    session::{
        OutputLog, SessionDir, StateDir,
        client::{
            Diagnosis, Parts, PromptState, RelayClient, Snapshot, TerminalState, WaitOutcome,
            job::{Handed, Job, OutputReport, Progress, Stage, Trouble},
        },
        shell::{self, CommandDelivery, Dialect, MarkParser, ShellCommand},
    },
    sys::{
        deadline::Deadline,
        signals::{self, Signals},
    },
    terminal::text,
    ts::output::{self, Colours, Printer},
};

/// As coreutils `timeout` has them.
const TIMED_OUT: u8 = 124;
const FAILED: u8 = 125;
const INTERRUPTED: u8 = 126;
/// The exit codes by which shells report that a command was stopped by SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU.
const STOPPED: RangeInclusive<u8> = 128 + 19..=128 + 22;
/// bash's exit code for a faulty text.
const UNFINISHED: u8 = 2;

/// How long we wait for it when all else is done: the answer is there already.
const LAST_PROMPT: Duration = Duration::from_secs(3);
/// How long a session that has reached a limit may take to end: processes that SIGTERM does not end are
/// killed after a grace, which is much shorter.
const LAST_END: Duration = Duration::from_secs(10);
/// How long the end of a prompt may take after its beginning. It never comes
/// where the shell's stderr goes elsewhere (`exec 2>file`).
const PROMPT_END: Duration = Duration::from_millis(300);
#[derive(Clone, Copy)]
struct RunOptions {
    timeout: Option<Duration>,
    // When that will have passed.
    deadline: Deadline,
    // How long the command may wait for input; `None`: as long as it likes.
    input_after: Option<Duration>,
    max: Option<u64>,
    strip: bool,
    rendered: Option<Colours>,
    json: bool,
}

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let target = call.session()?;
    let (timeout, max) = (call.optional("timeout", cli::time)?, call.optional("max", cli::size)?);
    let input_after = call.value("input-after", cli::time)?;
    let (strip, rendered) = output::form_wanted(call)?;
    let deadline = timeout.map_or(Deadline::NEVER, Deadline::after);
    let mut command = call.text();
    if call.has("stdin") {
        command = cli::whole_stdin(deadline).map_err(of_run)?;
    }
    if command.contains(&0) {
        return Err(Failure::bad_args("the command has a NUL, which no shell accepts".into()));
    }
    let input_after = (!call.has("no-input")).then_some(input_after);
    let wishes = RunOptions { timeout, deadline, input_after, max, strip, rendered, json: call.json() };

    // Before anything that may take time, or leave a command behind.
    let signals = Signals::catch(signals::to_end()).trying("catch signals").map_err(of_run)?;
    let opened =
        StateDir::open().and_then(|state_dir| Ok((state_dir.session(&target)?, state_dir.sessions_path())));
    let (session, sessions) = opened.map_err(of_run)?;
    let session = session.within(deadline);
    let begun = match call.has("resume") {
        true => Run::resume(&session, wishes, signals),
        false => Run::begin(&session, &sessions, &command, wishes, signals),
    };
    match begun.map_err(of_run) {
        Ok(run) => run.finish().map_err(of_run),
        Err(failure) => {
            if wishes.json && [TIMED_OUT, INTERRUPTED].contains(&failure.code()) {
                cli::print(object(&session, failure.kind(), None, Duration::ZERO, b"").line())?;
            }
            Err(failure)
        }
    }
}

/// The object of `--json` for a command.
fn object(
    session: &SessionDir,
    result: &str,
    exit_code: Option<i32>,
    duration: Duration,
    output: &[u8],
) -> Object {
    Object::new()
        .text("handle", session.handle().as_str())
        .text("result", result)
        .number_or_null("exit_code", exit_code)
        .number("duration_ms", duration.as_millis())
        .bytes("output", output)
}

/// An error that kept us from running the command, or from knowing its result, has a code that commands do
/// not use.
pub(super) fn of_run(failure: Failure) -> Failure {
    match failure.reason() {
        Reason::Status { .. } | Reason::ReaderGone => failure,
        Reason::TimedOut => failure.into_status(TIMED_OUT, "timeout"),
        _ => {
            let kind = failure.kind();
            failure.into_status(FAILED, kind)
        }
    }
}

fn status(code: u8, kind: &'static str, message: String) -> Failure {
    Failure::status(code, kind, Some(message))
}

/// Does the prompt that ends here come from another terminal? Then this one is raw, as no
/// line editor makes it.
fn is_remote(turn: &mut RelayClient, offset: u64) -> Result<bool> {
    let last = offset.saturating_sub(1);
    let untranslated = turn.untranslated(last)?.unwrap_or_default();
    Ok(untranslated.iter().any(|range| range.contains(&last)))
}

/// The error for a one-shot session.
fn not_a_shell(session: &SessionDir) -> Result<Failure> {
    let (handle, command) = (session.handle(), session.command()?);
    let shown = text::escaped(&command);
    let why = match ShellCommand::is_restricted_shell(&command) {
        true => format!("'{shown}' is a restricted shell, which cannot report its commands"),
        false => format!("it is not an interactive shell; it runs '{shown}'"),
    };
    Ok(Failure::failed(format!("cannot run a command in session '{handle}': {why}; see 'nbs-ts help ask'")))
}

/// A command that has been handed over.
struct Run<'a> {
    session: &'a SessionDir,
    wishes: RunOptions,
    signals: Signals,
    handover: CommandDelivery,
    is_nothing: bool,
    // The level of the shell that runs it.
    level: usize,
    // Its output comes from another terminal.
    is_remote: bool,
    // How long the log was when it was delivered.
    place: u64,
    // Up to where in the log earlier calls have printed its output.
    printed_before: u64,
    // Up to where the relay knows that it has been printed.
    confirmed: u64,
    // It goes on, and is for another call to resume.
    is_left: bool,
    // Has the turn, and so keeps other runs waiting, as long as it is open.
    relay: RelayClient,
    progress: Progress,
    trouble: Option<Trouble>,
    // The log's length then.
    seen: u64,
    // When its output was first seen to have begun.
    begun: Option<Instant>,
    printer: Printer,
    // The marks in its output, and what else is not to be printed, in order.
    marks: MarkParser,
    cuts: Vec<Range<u64>>,
    question: QuestionWatch,
    // For a resumed command.
    answers: Option<AnswerEchoes>,
    // How often it has been interrupted, and how long the log was the first time.
    interrupts: u64,
    interrupted_at: Option<u64>,
    // The diagnosis when it was to be interrupted.
    diagnosis: Option<Diagnosis>,
    // Why our output is not read: our reader has gone, or the terminal.
    unread: Option<Failure>,
    // The lack of space for the output was reported.
    has_told_stall: bool,
}

/// Why the command is being interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Timeout,
    Signal,
}

/// The state after the end of a command.
enum Next {
    Prompt,
    /// A call or a limit is ending the session.
    Ending,
    Ended,
}

/// The result of the command.
enum Outcome {
    Done(i32),
    Ended,
    /// It waits for input, and goes on.
    Asks(Box<Snapshot>),
    /// It still runs, or never has.
    GivenUp,
    /// The shell wanted more of it, and was interrupted.
    Unfinished,
    /// It will never be known, for this reason.
    Lost(String),
    /// The shell inside the session's own has ended, with this code.
    InnerEnded(i32),
}

impl<'a> Run<'a> {
    /// Waits until the shell is there for us, and has the relay deliver the command.
    fn begin(
        session: &'a SessionDir,
        sessions: &Path,
        command: &[u8],
        wishes: RunOptions,
        mut signals: Signals,
    ) -> Result<Run<'a>> {
        let mut turn = RelayClient::open(session)?.ok_or_else(|| session.ended())?;
        if !session.is_interactive()? && turn.snapshot(Parts::NONE)?.is_none_or(|place| place.level == 0) {
            return Err(not_a_shell(session)?);
        }
        // Its shell waits for us, and we would wait for it.
        let busy_with_us = session.is_around_us()
            && turn
                .snapshot(Parts::NONE)?
                .is_some_and(|place| matches!(place.prompt, PromptState::Left | PromptState::Entered));
        if busy_with_us {
            return Err(Failure::failed(format!(
                "cannot run a command in session '{}': its shell is executing this very call",
                session.handle()
            )));
        }
        // From here on the relay knows that there is a command, whatever happens to this call.
        turn.note_job_with_next(&Job::default());
        turn.note_text_with_next(command);
        loop {
            let place =
                await_prompt(session, wishes, &mut turn, &mut signals).inspect_err(|_| turn.note_told())?;
            let prepared = session.log().and_then(|log| {
                let levels = session.levels()?;
                let handover = session.hand_over(sessions, &log, command, &place, &levels)?;
                let is_remote = place.level > 0 && is_remote(&mut turn, place.offset)?;
                Ok((log, levels, handover, is_remote))
            });
            let (log, levels, handover, is_remote) = prepared.inspect_err(|_| turn.note_told())?;
            let marks = MarkParser::new(levels.iter().map(|level| level.secret.clone()), place.offset);
            let mut run = Run::new(session, wishes, signals, turn, log, marks, handover);
            run.is_nothing = shell::is_nothing(command);
            (run.level, run.is_remote) = (place.level, is_remote);
            run.progress.seq = place.seq.unwrap_or_default().saturating_add(1);
            (run.seen, run.place) = (place.offset, place.offset);
            let job = run.job(Handed::Queued, place.offset);
            let delivered = run.relay.deliver(&job, &run.handover.keys, place.offset);
            match delivered.inspect_err(|_| run.relay.note_told())? {
                Some(true) => return Ok(run),
                // Something was typed meanwhile: an interrupt, say.
                Some(false) => (turn, signals) = (run.relay, run.signals),
                None => return Err(session.ended()),
            }
        }
    }

    /// The data with which another call can resume it: our progress, at that offset of the log.
    fn job(&self, handed: Handed, place: u64) -> Job {
        let CommandDelivery { by, lines, beginning, .. } = self.handover;
        Job {
            handed,
            place,
            last: self.progress.seq.saturating_sub(1),
            level: self.level,
            lines,
            beginning,
            typed: 0,
            by,
            is_remote: self.is_remote,
            is_nothing: self.is_nothing,
        }
    }

    /// For a command of the session's own shell.
    fn new(
        session: &'a SessionDir,
        wishes: RunOptions,
        signals: Signals,
        relay: RelayClient,
        log: OutputLog,
        marks: MarkParser,
        handover: CommandDelivery,
    ) -> Run<'a> {
        Run {
            session,
            wishes,
            signals,
            handover,
            is_nothing: false,
            level: 0,
            is_remote: false,
            place: 0,
            printed_before: 0,
            confirmed: 0,
            is_left: false,
            relay,
            progress: Progress::default(),
            trouble: None,
            seen: 0,
            begun: None,
            printer: Printer::new(log, wishes.strip),
            marks,
            cuts: Vec::new(),
            question: QuestionWatch::new(wishes.input_after),
            answers: None,
            interrupts: 0,
            diagnosis: None,
            interrupted_at: None,
            unread: None,
            has_told_stall: false,
        }
    }

    fn streams(&self) -> bool {
        !self.wishes.json
            && self.wishes.max.is_none()
            && self.wishes.rendered.is_none()
            && self.unread.is_none()
    }

    /// Watches the command to its end, prints its output, and then has printed its result.
    fn finish(mut self) -> Result<()> {
        let seen = self.see_to_its_end();
        // If something of ours has failed, the command goes on nevertheless.
        let reason = seen.as_ref().err().map(Failure::reason);
        let has_told = matches!(reason, None | Some(Reason::Status { .. })) || self.begun.is_none();
        if has_told && !self.is_left {
            self.relay.note_told();
        }
        seen
    }

    fn see_to_its_end(&mut self) -> Result<()> {
        let typed = Instant::now();
        let (mut outcome, cause) = self.watch()?;
        let mut duration = self.begun.unwrap_or(typed).elapsed();
        if self.wishes.json
            && let Some(lasted) = self.relay.snapshot(Parts::NONE)?.and_then(|now| now.lasted)
        {
            // The relay reports output, and not its beginning.
            duration = lasted;
        }
        let is_marked = matches!(outcome, Outcome::Done(_));
        if is_marked || matches!(outcome, Outcome::Unfinished) {
            outcome = match self.await_next_prompt(cause.is_some())? {
                Next::Prompt => outcome,
                // The process that ends the shell may have ended the command, too.
                Next::Ending if cause.is_none() => {
                    self.await_end()?;
                    Outcome::Ended
                }
                Next::Ending => outcome,
                // fish reports an `exit`, too.
                Next::Ended => Outcome::Ended,
            };
        }
        if let Some(ended) = self.look_for_outer() {
            self.await_outer_prompt()?;
            outcome = ended;
        }
        if let Outcome::Done(code) = &mut outcome
            && self.is_nothing
            && !self.progress.has_started
        {
            // It is that of the command before.
            *code = 0;
        }
        // A prompt without marks is not output of the command.
        let mut range = self.shown_output(!matches!(outcome, Outcome::Lost(_)))?;
        self.printer.from = self.printer.from.max(range.start);
        if matches!(outcome, Outcome::Unfinished) {
            // Nothing of it was executed.
            range = range.end..range.end;
            self.printer.from = range.end;
        }
        if let (Outcome::InnerEnded(_), Some(outer)) = (&outcome, self.progress.outer) {
            range.end = range.end.min(outer).max(range.start);
        }
        if matches!(outcome, Outcome::Ended) && !is_marked && self.begun.is_some() {
            // Bytes that began like a mark will never be one.
            self.seen = self.printer.log.length().trying("read the output")?;
            range.end = self.seen;
        }
        self.leave_out_marks(&range)?;
        self.leave_out_echo(true)?;
        let end = range.end;
        if self.streams() {
            self.stream(end)?;
            if self.unread.is_none() {
                self.write_rest();
                output::warn_of_lost(self.printer.lost, false);
            }
        } else if self.unread.is_none() {
            self.print_at_once(range, &outcome, cause, duration)?;
        }
        match outcome {
            Outcome::Asks(_) | Outcome::GivenUp => self.leave(end),
            _ => {}
        }
        if let Some(failure) = self.unread.take() {
            return Err(failure);
        }
        self.verdict(&outcome, cause)
    }

    /// Waits until the shell has processed an interrupt, which must not hit the next input: a shell that
    /// waits for a key has processed all earlier input.
    fn await_shell(&mut self) -> Result<()> {
        let deadline = Deadline::after(LAST_PROMPT);
        let is_there = |now: &Snapshot| Ok(now.doing == TerminalState::Prompt);
        self.relay.await_view(Parts::TERMINAL, deadline, is_there).map(drop)
    }

    /// Waits until the next call finds the shell at its prompt, if there will be one.
    fn await_next_prompt(&mut self, interrupted: bool) -> Result<Next> {
        let mut deadline = Deadline::after(LAST_PROMPT);
        let mut begun = false;
        loop {
            match self.progress.stage {
                _ if self.progress.outer.is_some() => break,
                Stage::Prompt => break,
                Stage::PromptBegun if !begun => {
                    begun = true;
                    deadline = deadline.min(Deadline::after(PROMPT_END));
                }
                _ => {}
            }
            // There is no event when a prompt begins.
            let until = deadline.min(Deadline::after(PROMPT_END));
            match self.await_output(until)? {
                WaitOutcome::TimedOut if deadline.has_passed() => break,
                WaitOutcome::Ended => break,
                _ => {
                    self.signals.take();
                }
            }
        }
        if interrupted {
            self.await_shell()?;
        }
        let has_prompt = self.progress.stage > Stage::Done;
        if has_prompt {
            // The line in completion.log has been written, too.
            return Ok(if self.relay.last_output().is_ending { Next::Ending } else { Next::Prompt });
        }
        Ok(match self.relay.snapshot(Parts::NONE)? {
            Some(now) if now.ending => Next::Ending,
            Some(_) => Next::Prompt,
            None => Next::Ended,
        })
    }

    /// Until the session, which is being ended, has ended.
    fn await_end(&mut self) -> Result<()> {
        let deadline = Deadline::after(LAST_END);
        while !deadline.has_passed() && self.relay.news_or(deadline, None)? != WaitOutcome::Ended {}
        Ok(())
    }

    /// Waits until there is something new of the command, or looks at the deadline.
    fn await_output(&mut self, until: Deadline) -> Result<WaitOutcome> {
        let mut news = self.relay.output_or(self.seen, until, Some(self.signals.as_fd()))?;
        if news == WaitOutcome::TimedOut && !self.relay.look_at_output()? {
            news = WaitOutcome::Ended;
        }
        let report = match news {
            WaitOutcome::Ended => self.relay.final_output(),
            WaitOutcome::Changed | WaitOutcome::TimedOut => self.relay.last_output(),
        };
        self.note(report);
        Ok(news)
    }

    fn note(&mut self, report: OutputReport) {
        // A report from before the command was delivered says nothing about it.
        if report.processed < self.seen {
            return;
        }
        (self.progress, self.seen) = (report.progress, report.processed);
        (self.trouble, self.interrupts) = (report.trouble, report.interrupts);
        self.interrupted_at = report.interrupted_at.or(self.interrupted_at);
        if self.progress.has_begun() && self.begun.is_none() {
            self.begun = Some(Instant::now());
        }
    }

    /// An interrupt that was sent may keep fish from reporting something.
    fn has_interrupted_fish(&self) -> bool {
        self.interrupted_at.is_some() && self.handover.dialect == Dialect::Fish
    }

    fn verdict(&mut self, outcome: &Outcome, cause: Option<Cause>) -> Result<()> {
        let handle = self.session.handle();
        let now = match outcome {
            Outcome::GivenUp => self.relay.snapshot(Parts::TERMINAL.and(Parts::PROGRAM)).ok().flatten(),
            _ => None,
        };
        let stall = now.as_ref().and_then(Snapshot::stall);
        let still = match outcome {
            // The diagnosis from the timeout has it.
            _ if stall.is_some() && cause == Some(Cause::Timeout) => String::new(),
            _ if let Some(why) = stall => format!("; {why}"),
            Outcome::GivenUp if self.begun.is_none() => "; it had not started".to_owned(),
            Outcome::GivenUp => {
                let now = now.map(|now| self.goes_on(&now)).unwrap_or_default();
                format!("; it ignores the interrupt, and the session is busy until it ends{now}")
            }
            _ => String::new(),
        };
        match (outcome, cause) {
            (Outcome::Ended, _) => Err(self.session.ended()),
            (Outcome::Asks(waiting), _) => Err(self.asked(waiting)?),
            (Outcome::InnerEnded(code), _) => {
                let is_stopped = u8::try_from(*code).is_ok_and(|code| STOPPED.contains(&code));
                let what = match is_stopped {
                    true => "is stopped; after 'fg', try 'nbs-ts integrate'".to_owned(),
                    false => format!("has ended with exit code {code}"),
                };
                Err(Failure::failed(format!(
                    "cannot finish the command in session '{handle}': the nested shell that executed it \
                     {what}"
                )))
            }
            (Outcome::Lost(why), _) => {
                let message = format!("cannot finish the command in session '{handle}': {why}");
                Err(Diagnosis::add_last_line(self.session, Failure::failed(message)))
            }
            (_, Some(Cause::Timeout)) => {
                let diagnosis = self.diagnosis.take().unwrap_or_else(|| Diagnosis::now(self.session));
                let message =
                    format!("cannot finish the command in session '{handle}': timed out {diagnosis}{still}");
                let failure = status(TIMED_OUT, "timeout", message);
                Err(failure.with_evidence(diagnosis.evidence()))
            }
            (_, Some(Cause::Signal)) => Err(status(
                INTERRUPTED,
                "interrupted",
                format!("cannot finish the command in session '{handle}': interrupted{still}"),
            )),
            (Outcome::Unfinished, None) => Err(Failure::status(
                UNFINISHED,
                "status",
                Some(format!(
                    "cannot run a command in session '{handle}': the command is incomplete (an open quote?)"
                )),
            )),
            (Outcome::Done(0), None) => Ok(()),
            (Outcome::Done(code), None) => {
                let code = u8::try_from(*code).unwrap_or(FAILED);
                let is_stopped = STOPPED.contains(&code) && foreground::has_stopped_job(self.session);
                let message = is_stopped.then(|| {
                    format!(
                        "the command in session '{handle}' is stopped; try 'nbs-ts run {handle} fg' to \
                        continue it"
                    )
                });
                Err(Failure::status(code, "status", message))
            }
            (Outcome::GivenUp, None) => Ok(()),
        }
    }
}
