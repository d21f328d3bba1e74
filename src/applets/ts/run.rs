//! run - run a command in a session's shell, print what it prints
//!
//! Usage: nbs-ts run [options] SESSION COMMAND...
//!
//! Has the shell execute the words, joined by spaces, as if they had been typed,
//! and prints exactly what they print, as it comes. The folder, variables and
//! functions stay from call to call. What comes after SESSION is the command,
//! also where it begins with `--`. A second run waits for the first. Mind that
//! `exit`, or `set -e` and a failure, end the shell and so the session.
//!
//! Options:
//!   --timeout=TIME    interrupt the command after this, counted from its start
//!                     (default: never); one that ignores that has 3 s more
//!   --max=SIZE        at most so much output: the first and the last part, and
//!                     between them a line that tells how to read what is left
//!                     out; printed at the end
//!   --json            print an object: output, exit_code, duration_ms, and
//!                     result: done, timeout, interrupted or ended
//!
//! Exit codes:
//!   N                 the command's own
//!   4                 the arguments are bad
//!   124               it timed out
//!   125               it could not be run, or the shell has ended
//!   126               this call was interrupted, and with it the command
//!
//! Example:
//!   nbs-ts run --timeout=10m "$h" 'cd ~/project && make -j8'

use std::{
    ffi::OsStr,
    io::{self, Write},
    ops::Range,
    os::{fd::AsFd, unix::ffi::OsStringExt},
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    cli::{self, Args},
    json::Object,
    outcome::{Failure, Result, Trying},
    output::{self, Newlines},
    session::{Contact, Evidence, Found, Home, Log, Mark, Marks, News, SessionDir},
    sys::{
        deadline::Deadline,
        signals::{SIGINT, SIGTERM, Signals},
    },
};

/// As coreutils `timeout` has them.
const TIMED_OUT: u8 = 124;
const FAILED: u8 = 125;
const INTERRUPTED: u8 = 126;

/// How long a new shell may take to its first prompt.
const FIRST_PROMPT: Duration = Duration::from_secs(60);
/// How long the prompt may take to come after a command, which is what the
/// user's own PROMPT_COMMAND takes; then it counts as busy.
const NEXT_PROMPT: Duration = Duration::from_secs(5);
/// How long we wait for it when all else is done: the answer is there already.
const LAST_PROMPT: Duration = Duration::from_secs(3);
/// How long the end of a prompt may take after its beginning. It never comes
/// where the shell's stderr goes elsewhere (`exec 2>file`).
const PROMPT_END: Duration = Duration::from_millis(300);
/// How long a command may take to begin, before we look whether it ever will.
const BEGIN: Duration = Duration::from_secs(5);
/// An interrupt may be lost on the way: bash can lose one between fork and exec.
const REPEAT: Duration = Duration::from_millis(200);
/// How long a command may go on after the first.
const STUBBORN: Duration = Duration::from_secs(3);
/// How long to look a second time at a terminal that seems to be busy: its modes
/// and who reads it are not seen at one moment.
const SECOND_LOOK: Duration = Duration::from_millis(200);
/// The kernel tells nobody when a shell begins to wait for a key.
const GLANCE: Duration = Duration::from_millis(10);

#[derive(Clone, Copy)]
struct Wishes {
    timeout: Option<Duration>,
    max: Option<u64>,
    json: bool,
}

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::{Long, Value};
    let (mut timeout, mut max) = (None, None);
    let target = loop {
        match args.next()? {
            Some(Long("timeout")) => timeout = Some(args.time_value("timeout")?),
            Some(Long("max")) => max = Some(args.size_value("max")?),
            Some(Value(word)) => break cli::parse_target(&word)?,
            Some(other) => return Err(other.unexpected().into()),
            None => return Err(cli::missing_handle()),
        }
    };
    let words = args.words()?;
    if words.is_empty() {
        return Err(Failure::BadArgs("missing a command to run".into()));
    }
    let command = words.join(OsStr::new(" ")).into_vec();
    let wishes = Wishes { timeout, max, json: args.json() };

    // Before anything that may take time, or leave a command behind.
    let signals = Signals::catch(&[SIGINT, SIGTERM]).trying("catch signals").map_err(of_run)?;
    let opened = Home::open().and_then(|home| Ok((home.session(&target)?, home.sessions_path())));
    let (session, sessions) = opened.map_err(of_run)?;
    let run = Run::begin(&session, &sessions, &command, wishes, signals);
    run.and_then(Run::finish).map_err(of_run)
}

/// What kept us from running the command has a code that no command gives.
fn of_run(failure: Failure) -> Failure {
    match failure {
        Failure::Status { .. } | Failure::ReaderGone => failure,
        other => {
            Failure::Status { code: FAILED, kind: other.kind(), message: other.message().map(str::to_owned) }
        }
    }
}

fn status(code: u8, kind: &'static str, message: String) -> Failure {
    Failure::Status { code, kind, message: Some(message) }
}

/// A command that has been typed.
struct Run<'a> {
    session: &'a SessionDir,
    wishes: Wishes,
    signals: Signals,
    // Has the turn, and so keeps other runs waiting for as long as it is there.
    turn: Contact,
    news: Contact,
    trace: Trace,
    printer: Printer,
    // Our reader has gone.
    unread: bool,
}

/// Why the command is being interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Timeout,
    Signal,
}

/// What became of the command.
enum Outcome {
    Done(i32),
    Ended,
    /// It still runs.
    GivenUp,
}

impl<'a> Run<'a> {
    /// Waits until the shell is there for us, and types the command.
    fn begin(
        session: &'a SessionDir,
        sessions: &Path,
        command: &[u8],
        wishes: Wishes,
        mut signals: Signals,
    ) -> Result<Run<'a>> {
        let log = session.log()?;
        let mut turn = Contact::open(session)?.ok_or_else(|| session.ended())?;
        if !session.is_interactive()? {
            return Err(Failure::Failed(format!(
                "cannot run a command in session '{}': it is no interactive shell, but runs '{}'; see 'nbs-ts help ask'",
                session.handle(),
                String::from_utf8_lossy(&session.command()?)
            )));
        }
        // However long the others' commands take: each has a deadline of its own,
        // and who waits can be interrupted.
        match turn.take_turn(Deadline::NEVER, Some(signals.as_fd()))? {
            News::Changed => {}
            News::Ended => return Err(session.ended()),
            News::TimedOut => return Err(never_begun(session)),
        }
        let mut news = Contact::open(session)?.ok_or_else(|| session.ended())?;
        let (offset, last) = await_prompt(session, &mut turn, &mut news, &mut signals)?;
        let line = session.prepare_run(sessions, command, last)?;
        let trace = Trace {
            marks: session.marks(offset, Some(last))?,
            stage: Stage::Typed,
            last,
            gap: false,
            unseen: 0,
            next: offset,
            found: Vec::new(),
            begun: None,
            cuts: Vec::new(),
        };
        let typist = Contact::open(session)?.ok_or_else(|| session.ended())?;
        let typed = typist.type_in(&line, Deadline::after(NEXT_PROMPT))?.ok_or_else(|| session.ended())?;
        if typed.count < line.len() as u64 {
            return Err(Failure::Failed(format!(
                "cannot run a command in session '{}': its shell does not read {}",
                session.handle(),
                Evidence::gather(session, NEXT_PROMPT)
            )));
        }
        let printer = Printer { log, from: 0, lost: 0, newlines: Newlines::default(), last: b'\n' };
        Ok(Run { session, wishes, signals, turn, news, trace, printer, unread: false })
    }

    fn streams(&self) -> bool {
        !self.wishes.json && self.wishes.max.is_none() && !self.unread
    }

    /// Sees the command to its end, and prints what it prints.
    fn finish(mut self) -> Result<()> {
        let typed = Instant::now();
        let mut cause = None;
        let outcome = self.watch(&mut cause)?;
        let duration = self.trace.begun.map_or(typed, |begun| begun).elapsed();
        if matches!(outcome, Outcome::Done(_)) {
            self.await_next_prompt(cause.is_some())?;
        }
        let mut range = self.trace.output();
        if matches!(outcome, Outcome::Ended) {
            // What began like a mark will never be one.
            range.end = self.trace.next;
        }
        if self.streams() {
            self.stream(range.end)?;
            if !self.unread {
                self.write_rest()?;
                output::tell_lost(self.printer.lost, false);
            }
        } else if !self.unread {
            self.print_at_once(range, &outcome, cause, duration)?;
        }
        if self.unread {
            return Err(Failure::ReaderGone);
        }
        self.verdict(&outcome, cause)
    }

    /// Until the command is done, or we give up on it.
    fn watch(&mut self, cause: &mut Option<Cause>) -> Result<Outcome> {
        let mut deadline = Deadline::NEVER;
        let mut begin = Deadline::after(BEGIN);
        let (mut again, mut give_up) = (Deadline::NEVER, Deadline::NEVER);
        let mut interrupted = false;
        let mut over = false;
        loop {
            let had_begun = self.trace.begun.is_some();
            self.trace.look(&self.printer.log)?;
            if std::mem::take(&mut self.trace.gap) {
                self.look_behind_gap()?;
            }
            if let Some(begun) = self.trace.begun
                && !had_begun
            {
                begin = Deadline::NEVER;
                self.printer.from = self.trace.output().start;
                self.printer.lost = self.trace.unseen;
                let timeout = self.wishes.timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
                deadline = timeout.map_or(Deadline::NEVER, Deadline::after);
            }
            self.stream_what_came()?;
            if let Stage::Done { code, .. } | Stage::Prompt { code, .. } = self.trace.stage {
                return Ok(Outcome::Done(code));
            }
            if over {
                return Ok(Outcome::Ended);
            }
            let signalled = self.signals.take() || self.unread;
            if cause.is_none() && (signalled || deadline.has_passed()) {
                *cause = Some(if signalled { Cause::Signal } else { Cause::Timeout });
                (again, give_up) = (Deadline::after(Duration::ZERO), Deadline::after(STUBBORN));
                deadline = Deadline::NEVER;
            }
            if give_up.has_passed() {
                return Ok(Outcome::GivenUp);
            }
            if again.has_passed() {
                // Who waits for input after the first has had it: another shell,
                // say, which would draw a prompt for each that follows.
                let had_it = interrupted
                    && self.turn.state()?.is_some_and(|(doing, _)| doing == "raw" || doing == "line");
                over = !had_it && !self.turn.signal("INT")?;
                interrupted = true;
                again = Deadline::after(REPEAT);
                continue;
            }
            if begin.has_passed() {
                self.check_begun()?;
                begin = Deadline::after(BEGIN);
            }
            let until = deadline.min(begin).min(again).min(give_up);
            over = self.news.news_or(until, Some(self.signals.as_fd()))? == News::Ended;
        }
    }

    /// Marks may have been in what is gone of a bounded log: the command's end,
    /// too, which the relay has seen.
    fn look_behind_gap(&mut self) -> Result<()> {
        let last = self.turn.place()?.and_then(|(_, last)| last);
        self.trace.look(&self.printer.log)?;
        if let Stage::Running { seq, start } = self.trace.stage
            && last >= Some(seq)
            && let Some(done) = self.session.completion_from(seq)?
        {
            self.trace.stage = Stage::Done { start, end: self.trace.next.max(start), code: done.code };
        }
        Ok(())
    }

    /// Our line has been typed a while ago, and the text has not begun: is that
    /// still to come?
    fn check_begun(&mut self) -> Result<()> {
        let stands = self.turn.shell_place()?.is_some_and(|(_, _, prompt)| prompt == "stands");
        let waits = self.turn.state()?.is_some_and(|(doing, _)| doing == "prompt");
        if !stands || !waits {
            return Ok(());
        }
        Err(Failure::Failed(format!(
            "cannot run a command in session '{}': its shell did not execute it; what may keep it from that \
             are a DEBUG trap under 'shopt -s extdebug', key bindings, or functions named as builtins; {}",
            self.session.handle(),
            Evidence::gather(self.session, BEGIN)
        )))
    }

    /// Until the next call finds the shell at its prompt.
    ///
    /// An interrupt that came too late for the command must not hit the next: a
    /// shell that waits for a key has dealt with all that came before.
    fn await_next_prompt(&mut self, interrupted: bool) -> Result<()> {
        let mut deadline = Deadline::after(LAST_PROMPT);
        let mut begun = false;
        loop {
            self.trace.look(&self.printer.log)?;
            match self.trace.stage {
                Stage::Prompt { ended: true, .. } => break,
                Stage::Prompt { ended: false, .. } if !begun => {
                    begun = true;
                    deadline = deadline.min(Deadline::after(PROMPT_END));
                }
                _ => {}
            }
            if self.news.news_or(deadline, Some(self.signals.as_fd()))? != News::Changed
                && !self.signals.take()
            {
                break;
            }
        }
        let deadline = Deadline::after(LAST_PROMPT);
        while interrupted && !deadline.has_passed() {
            match self.turn.state()? {
                Some((doing, _)) if doing != "prompt" => {}
                _ => break,
            }
            self.news.news_or(Deadline::after(GLANCE), None)?;
        }
        // The relay answers one after the other: by now it has written down what
        // it has read, the line in completion.log too.
        self.turn.place()?;
        Ok(())
    }

    fn stream_what_came(&mut self) -> Result<()> {
        if !self.streams() || self.trace.begun.is_none() {
            return Ok(());
        }
        self.stream(self.trace.output().end)
    }

    fn stream(&mut self, end: u64) -> Result<()> {
        if self.trace.begun.is_none() {
            return Ok(());
        }
        let range = self.printer.from..end;
        let mut stdout = io::stdout().lock();
        let printed = self
            .printer
            .print(range, &mut self.trace.cuts, |bytes| cli::written(stdout.write_all(bytes)))
            .and_then(|()| cli::written(stdout.flush()));
        self.note_reader(printed)
    }

    fn write_rest(&mut self) -> Result<()> {
        let mut rest = Vec::new();
        self.printer.newlines.finish(&mut rest);
        let printed = cli::print(&rest);
        self.note_reader(printed)
    }

    /// Without a reader the command is of no use any more: it is interrupted.
    fn note_reader(&mut self, printed: Result<()>) -> Result<()> {
        match printed {
            Err(Failure::ReaderGone) => {
                self.unread = true;
                Ok(())
            }
            other => other,
        }
    }

    /// Prints the whole output, or its two parts.
    fn print_at_once(
        &mut self,
        range: Range<u64>,
        outcome: &Outcome,
        cause: Option<Cause>,
        duration: Duration,
    ) -> Result<()> {
        let what = format!("read the output of session '{}'", self.session.handle());
        let gap = output::gap(&self.printer.log, &range, self.wishes.max).trying(what)?;
        let mut collected = Vec::new();
        let json = self.wishes.json;
        let mut give = |bytes: &[u8]| match json {
            true => {
                collected.extend_from_slice(bytes);
                Ok(())
            }
            false => cli::print(bytes),
        };
        for (number, part) in output::parts(&range, gap.as_ref()).into_iter().enumerate() {
            if let (1, Some(gap)) = (number, &gap) {
                let line = output::gap_line(self.session.handle(), gap, self.printer.last);
                give(line.as_bytes())?;
            }
            self.printer.from = part.start;
            self.printer.print(part, &mut self.trace.cuts, &mut give)?;
            let mut rest = Vec::new();
            self.printer.newlines.finish(&mut rest);
            give(&rest)?;
        }
        if !json {
            output::tell_lost(self.printer.lost, json);
            return Ok(());
        }
        let code = match outcome {
            Outcome::Done(code) => Some(*code),
            Outcome::Ended => self.session.exit_code().unwrap_or(None),
            Outcome::GivenUp => None,
        };
        let result = match (outcome, cause) {
            (Outcome::Ended, _) => "ended",
            (_, Some(Cause::Timeout)) => "timeout",
            (_, Some(Cause::Signal)) => "interrupted",
            (_, None) => "done",
        };
        let object = Object::new()
            .text("handle", self.session.handle().as_str())
            .text("result", result)
            .number_or_null("exit_code", code.map(i64::from))
            .number("duration_ms", i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
            .bytes("output", &collected);
        let object = output::with_left_out(object, gap.as_ref());
        cli::print(object.count_if_any("lost", self.printer.lost).line())
    }

    fn verdict(&self, outcome: &Outcome, cause: Option<Cause>) -> Result<()> {
        let handle = self.session.handle();
        let still = match outcome {
            Outcome::GivenUp => "; it ignores the interrupt, and the session is busy until it ends",
            _ => "",
        };
        match (outcome, cause) {
            (Outcome::Ended, _) => Err(self.session.ended()),
            (_, Some(Cause::Timeout)) => Err(status(
                TIMED_OUT,
                "timeout",
                format!(
                    "cannot finish the command in session '{handle}': timed out {}{still}",
                    Evidence::gather(self.session, self.wishes.timeout.unwrap_or_default())
                ),
            )),
            (_, Some(Cause::Signal)) => Err(status(
                INTERRUPTED,
                "interrupted",
                format!("cannot finish the command in session '{handle}': interrupted{still}"),
            )),
            (Outcome::Done(0), None) => Ok(()),
            (Outcome::Done(code), None) => {
                let code = u8::try_from(*code).unwrap_or(FAILED);
                Err(Failure::Status { code, kind: "status", message: None })
            }
            (Outcome::GivenUp, None) => Ok(()),
        }
    }
}

fn never_begun(session: &SessionDir) -> Failure {
    let message =
        format!("cannot run a command in session '{}': interrupted before it could begin", session.handle());
    status(INTERRUPTED, "interrupted", message)
}

/// Waits for a prompt that is about to come, and gives the shell's place there:
/// the log's length, and the number of its last completion.
fn await_prompt(
    session: &SessionDir,
    turn: &mut Contact,
    news: &mut Contact,
    signals: &mut Signals,
) -> Result<(u64, u64)> {
    let (first, next) = (Deadline::after(FIRST_PROMPT), Deadline::after(NEXT_PROMPT));
    let (mut second_look, mut clear) = (None, Deadline::after(Duration::ZERO));
    loop {
        let (offset, last, prompt) = turn.shell_place()?.ok_or_else(|| session.ended())?;
        let (doing, _) = turn.state()?.ok_or_else(|| session.ended())?;
        let deadline = match (prompt.as_str(), doing.as_str(), last) {
            // Between its prompt and its read a shell is `running`; without its
            // line editor (`set +o emacs`) it reads a `line`.
            ("stands", "prompt" | "running" | "line", Some(last)) => return Ok((offset, last)),
            // Half a line, half a search or half a key: an interrupt ends them all,
            // at the price of a line in completion.log.
            ("touched", "prompt" | "running" | "line", _) => {
                if clear.has_passed() {
                    turn.signal("INT")?;
                    clear = Deadline::after(REPEAT);
                }
                clear
            }
            ("unknown", "running" | "prompt", _) => first,
            ("coming", "running" | "prompt", _) => next,
            ("unknown" | "coming", ..) => *second_look.get_or_insert_with(|| Deadline::after(SECOND_LOOK)),
            _ => return Err(busy(session, &doing)),
        };
        match news.news_or(deadline, Some(signals.as_fd()))? {
            News::Changed => {}
            News::Ended => return Err(session.ended()),
            News::TimedOut if signals.take() => return Err(never_begun(session)),
            News::TimedOut if prompt == "touched" && !next.has_passed() => {}
            News::TimedOut => return Err(busy(session, &doing)),
        }
    }
}

fn busy(session: &SessionDir, doing: &str) -> Failure {
    let line = Evidence::last_line(session);
    let line = line.map(|line| format!("; last line: '{line}'")).unwrap_or_default();
    Failure::Failed(format!(
        "cannot run a command in session '{}': it is busy; the terminal is at: {doing}{line}; 'nbs-ts key C-c' interrupts",
        session.handle()
    ))
}

/// The command's way through the log.
struct Trace {
    marks: Marks,
    stage: Stage,
    // The number of the completion before the command's.
    last: u64,
    // Something was gone of the log that should have been read.
    gap: bool,
    // How much of that was gone before it was seen to begin.
    unseen: u64,
    // How far the log has been read.
    next: u64,
    found: Vec<Found>,
    // When we saw it begin.
    begun: Option<Instant>,
    // Marks within the output, or what looks like them, in order.
    cuts: Vec<Range<u64>>,
}

#[derive(Clone, Copy)]
enum Stage {
    Typed,
    /// Its output begins at `start`.
    Running {
        seq: u64,
        start: u64,
    },
    Done {
        start: u64,
        end: u64,
        code: i32,
    },
    /// The next prompt has begun, or has ended.
    Prompt {
        start: u64,
        end: u64,
        code: i32,
        ended: bool,
    },
}

impl Trace {
    /// Reads on.
    fn look(&mut self, log: &Log) -> Result<()> {
        let mut lost = 0;
        let (marks, found) = (&mut self.marks, &mut self.found);
        let mut skip = |marks: &mut Marks| {
            let gone = log.take_lost();
            marks.skip(gone);
            lost += gone;
        };
        self.next = log.blocks(self.next, u64::MAX, |block| {
            skip(marks);
            marks.feed(block, found);
            Ok::<bool, Failure>(true)
        })?;
        skip(marks);
        for found in std::mem::take(&mut self.found) {
            self.heed(&found);
        }
        if lost > 0 {
            self.gap = true;
            // So much has not been printed by the echo of our line.
            if matches!(self.stage, Stage::Typed) {
                self.begun = Some(Instant::now());
                self.unseen = lost;
                self.stage =
                    Stage::Running { seq: self.last + 1, start: log.start().trying("read the output")? };
            }
        }
        Ok(())
    }

    fn heed(&mut self, found: &Found) {
        self.stage = match (self.stage, found.mark) {
            // Of the command whose turn it is: ours, whatever completed before it.
            (Stage::Typed, Mark::Running { seq }) => {
                self.begun = Some(Instant::now());
                Stage::Running { seq, start: found.end }
            }
            (Stage::Running { seq, start }, Mark::Done { seq: done, code }) if done == seq => {
                Stage::Done { start, end: found.start, code }
            }
            (Stage::Running { .. }, _) => {
                self.cuts.push(found.start..found.end);
                self.stage
            }
            (Stage::Done { start, end, code }, Mark::PromptStart { .. }) => {
                Stage::Prompt { start, end, code, ended: false }
            }
            (
                Stage::Done { start, end, code } | Stage::Prompt { start, end, code, .. },
                Mark::PromptEnd { .. },
            ) => Stage::Prompt { start, end, code, ended: true },
            (stage, _) => stage,
        };
    }

    /// Where the output lies, as far as that is known by now.
    fn output(&self) -> Range<u64> {
        match self.stage {
            Stage::Typed => self.next..self.next,
            Stage::Running { start, .. } => start..self.marks.settled(),
            Stage::Done { start, end, .. } | Stage::Prompt { start, end, .. } => start..end,
        }
    }
}

/// Prints stretches of the log one after another.
struct Printer {
    log: Log,
    // How far it has come.
    from: u64,
    // How many bytes of the output were gone.
    lost: u64,
    newlines: Newlines,
    // The last byte that it has given.
    last: u8,
}

impl Printer {
    /// Gives what is in `range`, without the cuts, which it uses up.
    fn print(
        &mut self,
        range: Range<u64>,
        cuts: &mut Vec<Range<u64>>,
        mut give: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut plain = Vec::new();
        let mut at = range.start;
        let passed = cuts.partition_point(|cut| cut.start < range.end);
        let ends = cuts.drain(..passed).chain(std::iter::once(range.end..range.end));
        for cut in ends.filter(|cut| cut.end >= range.start) {
            let (newlines, last) = (&mut self.newlines, &mut self.last);
            let (log, lost) = (&self.log, &mut self.lost);
            log.blocks(at, cut.start, |block| {
                *lost += log.take_lost();
                plain.clear();
                newlines.feed(block, &mut plain);
                *last = plain.last().copied().unwrap_or(*last);
                give(&plain).map(|()| true)
            })?;
            *lost += log.take_lost();
            at = at.max(cut.end);
        }
        self.from = range.end;
        Ok(())
    }
}
