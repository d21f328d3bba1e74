//! A client's requests to the session, and their responses.
//!
//! Typing, turns and news are not here: they take more than one answer, and `clients` keeps them.

use std::{
    io,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{
    relay::{
        Relay, activity_tracker::Look, clients::ClientId, command_watch::CommandWatch, flow::Flow, foreground,
    },
    session::{
        Because, ProgramSaid, REPORT, Report, ReportState, SaidNotice,
        client::{
            INTERRUPT, PromptState, TerminalState,
            job::{LeftJob, OutputReport, Progress},
            protocol::{KeyModes, RelayRequest, Response},
            snapshot::{Folder, Front, Input, Parts, Reads, Snapshot},
        },
        program_of,
    },
    sys::{
        clock::unix_seconds,
        deadline::Deadline,
        files,
        processes::Whereabouts,
        pty::{self, Size},
        signals::SIGINT,
    },
    terminal::{
        keys::Application,
        program_status::{ProgramState, ProgramStatus},
    },
};

/// The most looks that are repeated because of output during a look.
pub(super) const LOOKS_AGAIN: u32 = 3;

impl Relay {
    /// `None`: there is no response.
    pub(super) fn respond(&mut self, id: ClientId, request: RelayRequest) -> Option<Response> {
        Some(match request {
            RelayRequest::Job(job) => {
                let typed = self.journal.total();
                self.recorder.note_job(id, job, typed);
                return None;
            }
            RelayRequest::Deliver { length } => {
                let keys = self.clients.take_sent(id, length).to_vec();
                self.deliver(id, keys)
            }
            RelayRequest::Text { bytes } => {
                self.recorder.jobs_mut().note_text(id, &bytes);
                return None;
            }
            RelayRequest::Told => {
                self.recorder.jobs_mut().note_told(id);
                return None;
            }
            RelayRequest::Attach => match self.recorder.jobs_mut().attach(id) {
                Some(Ok(job)) => {
                    self.watch(id, &job, job.place);
                    Response::Job(Box::new(job))
                }
                Some(Err(lost)) => Response::Refused { why: lost.why().into() },
                None => Response::NoJob,
            },
            RelayRequest::Progress => Response::Output(Box::new(self.output_report(id))),
            RelayRequest::Snapshot { parts, .. } => Response::Snapshot(Box::new(self.snapshot(parts))),
            RelayRequest::Ending { cause } => {
                self.ending.begin(id, &cause);
                Response::Noted
            }
            RelayRequest::Done => {
                self.ending.note_done(id);
                Response::Noted
            }
            RelayRequest::Keeper => {
                // Its pending messages come first: a client that gets a PID may rely on its being the
                // keeper's still.
                self.receive_keeper();
                let there = self.keeper.as_ref().filter(|keeper| !keeper.has_gone());
                Response::Keeper { pid: there.map(|keeper| keeper.pid) }
            }
            RelayRequest::Level { secret, dialect } => {
                self.recorder.await_level(secret, dialect);
                Response::Noted
            }
            RelayRequest::Hide { secret } => self.hide(&secret),
            RelayRequest::Typing { parts, typed } => {
                let typing = Some(self.journal.since(typed));
                Response::Snapshot(Box::new(Snapshot { typing, ..self.snapshot(parts) }))
            }
            RelayRequest::Interrupt => {
                self.interrupt();
                Response::Noted
            }
            RelayRequest::InterruptCommand => {
                self.recorder.jobs_mut().note_interrupted(id);
                self.interrupt_delivery_of(id);
                if let Some((_, watch, _)) = self.command_watch.as_mut().filter(|(other, ..)| *other == id) {
                    watch.interrupt();
                }
                Response::Noted
            }
            RelayRequest::Press { byte } => self.press(byte),
            RelayRequest::Secret { length } => {
                let secret = self.clients.take_sent(id, length);
                let seen = self.seen.take().is_some_and(|seen| seen == (id, self.recorder.output_bytes()));
                self.type_secret(&secret, seen)
            }
            RelayRequest::Untranslated { since } => {
                Response::Untranslated { ranges: self.recorder.untranslated(since) }
            }
            RelayRequest::Resize { cols, rows } | RelayRequest::View { cols, rows }
                if cols == 0 || rows == 0 =>
            {
                Response::Refused { why: "a terminal needs at least one column and one row".into() }
            }
            RelayRequest::Resize { cols, rows } => {
                self.views.note_resized(Size { cols, rows });
                self.resize(Size { cols, rows })
            }
            RelayRequest::View { cols, rows } => {
                self.views.show(id, Size { cols, rows }, self.master.size().ok());
                self.resize(Size { cols, rows })
            }
            RelayRequest::Seen { offset } => {
                self.seen = Some((id, offset));
                Response::Noted
            }
            RelayRequest::Report { length } => {
                let said = self.clients.take_sent(id, length);
                self.take_report(&said)
            }
            // Those they take care of themselves.
            RelayRequest::Follow { .. }
            | RelayRequest::Type { .. }
            | RelayRequest::Source(_)
            | RelayRequest::Turn { .. }
            | RelayRequest::Wake
            | RelayRequest::Asked(_) => Response::Unknown,
        })
    }

    /// Prints the mark, with this secret, that what follows is not to be seen.
    pub(super) fn hide(&self, secret: &str) -> Response {
        let mark = format!("\x1b]133;H;nbs={secret}.0\x07");
        match self.slave.as_ref().map(|slave| pty::print_some(slave, mark.as_bytes())) {
            Some(Ok(count)) if count == mark.len() => Response::Noted,
            _ => Response::Refused { why: "its terminal accepts no input".into() },
        }
    }

    /// The report on this call's command.
    pub(super) fn output_report(&self, id: ClientId) -> OutputReport {
        let watch = self.command_watch.as_ref().filter(|(other, ..)| *other == id).map(|(_, watch, _)| watch);
        let progress = self.recorder.jobs().progress(id).unwrap_or_default();
        let is_incomplete = watch.is_some_and(CommandWatch::is_incomplete);
        OutputReport {
            processed: self.recorder.output_bytes(),
            is_ending: self.ending.has_cause(),
            progress: Progress { unfinished: progress.unfinished || is_incomplete, ..progress },
            trouble: watch.and_then(CommandWatch::trouble),
            is_stalled: watch.is_some_and(CommandWatch::is_stalled),
            interrupts: watch.map_or(0, |watch| u64::from(watch.interrupts())),
            interrupted_at: watch.and_then(CommandWatch::interrupted_at),
            untranslated: self.recorder.last_untranslated(),
        }
    }

    /// The effect of the key, ahead of all pending input.
    pub(super) fn interrupt(&mut self) {
        let prompt = self.recorder.prompt();
        if prompt == PromptState::Touched && self.master.foreground() != Some(self.reporting()) {
            // The shell has executed the line meanwhile that we wanted to drop.
            return;
        }
        // If a line is interrupted before anything of it is executed, the part that the shell, which may be
        // slow, has not read is dropped, too.
        let drops_line = matches!(prompt, PromptState::Touched | PromptState::Entered);
        if drops_line {
            self.discard_typed();
            self.cut_delivery();
        }
        // A line editor that reads it as a key restores the terminal only then.
        let is_key = drops_line && self.master.modes().is_ok_and(|modes| modes.signals().is_empty());
        self.recorder.note_interrupted();
        match self.recorder.meaning().level() {
            (0, _) if !is_key => foreground::signal_foreground(&self.master, self.child, &[SIGINT]),
            // The receiver may be another user's, or on another machine: it gets the key from the terminal,
            // as from a keyboard. If the terminal is full of unread input, the caller repeats the request.
            _ => drop(self.master.write(&[INTERRUPT])),
        }
    }

    /// Has the shell of that level, if it is the one that reports, reported that command as done?
    pub(super) fn has_ended(&mut self, level: usize, seq: u64) -> bool {
        self.read_what_was_printed();
        let (now, last) = self.recorder.meaning().level();
        now == level && last.is_some_and(|last| last >= seq)
    }

    /// Has a call been killed whose command is typed, and which the shell has not begun?
    pub(super) fn has_left_unbegun(&self) -> bool {
        let jobs = self.recorder.jobs();
        // A shell that takes it by a key draws it first.
        let (level, seq) = self.recorder.meaning().level();
        let is_next = |left: LeftJob| (left.level, Some(left.last)) == (level, seq);
        jobs.is_left_untaken()
            || self.recorder.prompt() == PromptState::Touched && jobs.left().is_some_and(is_next)
    }

    /// Has the shell, which executes nothing, not read all that was typed?
    pub(super) fn is_queued(&self) -> bool {
        matches!(self.recorder.prompt(), PromptState::Stands | PromptState::Entered) && self.is_typed_ahead()
    }

    /// Does the terminal take whole lines, so that no line editor has it?
    pub(super) fn takes_lines(&self) -> bool {
        self.master.modes().is_ok_and(|modes| modes.is_canonical())
    }

    /// Does the shell that reports wait for input itself?
    pub(super) fn shell_waits(&self) -> bool {
        match self.recorder.meaning().level().0 {
            0 => foreground::shell_waits(&self.master, self.child),
            _ => foreground::group_waits(&self.master, self.child, self.reporting()),
        }
    }

    /// Is there typed input that no program has read?
    fn is_typed_ahead(&self) -> bool {
        !self.unread_is_answer && self.unread() > 0
    }

    /// The number of typed bytes that no program has read.
    pub(super) fn unread(&self) -> u64 {
        self.slave.as_ref().map_or(0, |slave| pty::unread(slave).unwrap_or(0))
    }

    pub(super) fn read_what_was_printed(&mut self) {
        if self.recorder.is_idle() && !self.phase.terminal_is_closed() {
            // If that fails, the loop's own read fails too and reports why.
            let _ = self.drain();
        }
    }

    /// The view of these parts at this moment.
    pub(super) fn snapshot(&mut self, parts: Parts) -> Snapshot {
        if parts.has(Parts::ACTIVITY) {
            self.judge(true);
        }
        if parts.has(Parts::SAID) {
            self.read_what_was_printed();
        }
        if parts.has(Parts::SAID) || parts.has(Parts::ACTIVITY) {
            self.note_said();
        }
        if parts.has(Parts::ACTIVITY) {
            return self.activity(parts);
        }
        let of_processes = [Parts::TERMINAL, Parts::PROGRAM, Parts::SHELL];
        let of_processes = of_processes.into_iter().any(|part| parts.has(part));
        let mut looks = 0;
        loop {
            if of_processes {
                // What they are seen to do comes after what they have printed.
                self.read_what_was_printed();
            }
            let length = self.recorder.output_bytes();
            let (doing, input) = match parts.has(Parts::INPUT) {
                true => self.look_at_input(Instant::now()),
                false if parts.has(Parts::TERMINAL) => (self.doing(), Input::default()),
                false => Default::default(),
            };
            let now = self.seen_as(parts, doing, input);
            if !of_processes || looks == LOOKS_AGAIN {
                return now;
            }
            looks += 1;
            // Nothing is printed meanwhile: it is one moment.
            self.read_what_was_printed();
            self.answer_program();
            self.note_said();
            if self.recorder.output_bytes() == length {
                return now;
            }
        }
    }

    /// The session's activity, as of the last judgement.
    pub(super) fn activity(&self, parts: Parts) -> Snapshot {
        let (activity, because) = self.judge.verdict();
        let since = match because {
            Because::Report => self.judge.report().map(|report| report.since),
            Because::ProgramStatus => self.said_since.as_ref().map(|(_, since)| *since),
            _ => None,
        };
        let process = foreground::foreground_process(&self.master, self.child);
        let path = process.as_ref().and_then(|process| program_of(&process.arguments()));
        let foreground = process.map(|process| process.name);
        let typed = self.typed_last;
        let front = Front {
            path: path.filter(|path| !path.is_empty()),
            typed: typed.map(|(typed, ..)| typed.elapsed()),
            entered: typed.is_some_and(|(_, entered, _)| entered),
            length: typed.map_or(0, |(.., length)| length),
        };
        Snapshot {
            seen: self.judge.seen(),
            activity: Some(activity),
            because: Some(because),
            turn: self.judge.turn(),
            since: since.unwrap_or_else(|| unix_seconds(self.since.1)),
            attended: self.judge.is_attended(),
            foreground,
            front,
            ..self.seen_as(parts, self.judge.doing(), self.looked)
        }
    }

    /// The view of everything besides the terminal's state.
    fn seen_as(&self, parts: Parts, doing: TerminalState, input: Input) -> Snapshot {
        let (level, seq) = self.recorder.meaning().level();
        let prompt = self.recorder.prompt();
        let program = parts.has(Parts::PROGRAM);
        let program =
            program.then(|| foreground::holder(&self.master, self.child, self.reporting())).flatten();
        let shell_waits = parts.has(Parts::SHELL) && self.shell_waits();
        let folder = parts.has(Parts::FOLDER).then(|| match foreground::folder(&self.master, self.child) {
            Ok(Whereabouts { path, removed: false }) => Folder::There(path),
            Ok(Whereabouts { path, removed: true }) => Folder::Removed(path),
            Err(error) => Folder::Unknown(error.to_string()),
        });
        let may_be_replaced = parts.has(Parts::SHELL) && level == 0;
        let successor = may_be_replaced.then(|| foreground::successor(self.child, &self.session)).flatten();
        Snapshot {
            offset: self.recorder.output_bytes(),
            ending: self.ending.has_cause(),
            last: self.recorder.meaning().last_completion(),
            awaited: self.awaited(),
            prompt,
            lines: self.takes_lines(),
            level,
            seq,
            lasted: self.recorder.lasted(),
            unread: self.unread(),
            size: self.master.size().ok(),
            modes: self.recorder.meaning().private(),
            stalled: self.recorder.stalled(),
            sync_error: self.recorder.sync_failure().map(str::to_owned),
            report: self.judge.report().cloned(),
            said: self.said(match parts.has(Parts::SAID) {
                true => ProgramSaid::MOST_ASKED,
                false => ProgramSaid::MOST_SHOWN,
            }),
            folder,
            keys: parts.has(Parts::KEYS).then(|| self.key_modes().ok()).flatten(),
            doing,
            input,
            program,
            shell_waits,
            successor,
            left: self.recorder.jobs().left(),
            ..Snapshot::default()
        }
    }

    /// The terminal's state, and whether a program waits for input.
    fn look_at_input(&mut self, now: Instant) -> (TerminalState, Input) {
        // First this: a program that reads it afterwards must not seem to wait.
        let unread = self.unread();
        let sample = foreground::sample(&self.master, self.child, self.reporting(), self.recorder.prompt());
        // Last of all the output that it printed before it waited. A program that waits for an answer to a
        // query in it does not wait for a person.
        self.read_what_was_printed();
        self.answer_program();
        let doing = sample.doing;
        let is_told = self.unread() > 0 || self.answers.are_due(u64::MAX);
        let has_input = unread > 0 || is_told && doing != TerminalState::Prompt;
        (if has_input { TerminalState::Running } else { doing }, self.input.look(sample, has_input, now))
    }

    /// How the program that has the terminal waits for input, if it does.
    pub(super) fn reads_input(&mut self) -> Option<Reads> {
        self.look_at_input(Instant::now()).1.reads
    }

    /// Determines the session's activity, if it is time to, or at once.
    pub(super) fn judge(&mut self, at_once: bool) {
        let now = Instant::now();
        if self.clients.wait_on_it() {
            self.judge.note_waited_on(now);
        }
        if at_once || self.judge_deadline().has_passed() {
            let (doing, input) = self.look_at_input(now);
            self.judge.look(Look { doing, input, has_keys: self.has_keys() }, now);
            self.looked = input;
            let since = self.judge.since();
            if since != self.since.0 {
                // Once, for the clocks go each its way.
                self.since = (since, SystemTime::now().checked_sub(since.elapsed()).unwrap_or(UNIX_EPOCH));
            }
        }
    }

    /// When it is to be looked.
    pub(super) fn judge_deadline(&self) -> Deadline {
        if !self.phase.command_runs() {
            return Deadline::NEVER;
        }
        self.judge.deadline(self.clients.audience(), self.has_keys())
    }

    /// Has a program disabled canonical mode that is not a shell at its prompt?
    fn has_keys(&self) -> bool {
        !self.recorder.prompt().is_there() && self.master.modes().is_ok_and(|modes| !modes.is_canonical())
    }

    /// The program's own reports, with at most this many bytes of records.
    fn said(&self, most: usize) -> ProgramSaid {
        let said = self.recorder.meaning().said();
        let statuses = ProgramSaid::shown(said.records().by_urgency(), most);
        ProgramSaid { statuses, progress: said.progress(), notices: self.notices.clone() }
    }

    /// Notes the program's own reports since the last call.
    pub(super) fn note_said(&mut self) {
        let (changed, notices) = self.recorder.meaning_mut().said_mut().take_changes();
        if !changed {
            return;
        }
        let now = now_to_the_microsecond();
        for notice in notices {
            let number = self.notices.last().map_or(1, |last| last.number + 1);
            self.notices.push(SaidNotice { number, since: now, notice });
        }
        self.notices.drain(..self.notices.len().saturating_sub(ProgramSaid::MOST_NOTICES));
        let records = self.recorder.meaning().said().records();
        let (statuses, ended) = (records.by_urgency(), records.turns_ended());
        let has_ended = std::mem::replace(&mut self.turns_ended, ended) != ended;
        self.judge.note_said(ProgramSaid::state(&statuses), has_ended);
        let asks_the_same = |before: &ProgramStatus, status: &ProgramStatus| {
            let question = |status: &ProgramStatus| (status.kind, status.message.clone());
            before.state == status.state
                && (status.state != ProgramState::Blocked || question(before) == question(status))
        };
        self.said_since = statuses.into_iter().next().map(|status| match &self.said_since {
            Some((before, since)) if asks_the_same(before, &status) => (status, *since),
            _ => (status, now),
        });
    }

    fn take_report(&mut self, said: &[u8]) -> Response {
        let (state, text) = match memchr::memchr(b' ', said) {
            Some(space) => (&said[..space], &said[space + 1..]),
            None => (said, &[][..]),
        };
        let report = match ReportState::parse(state) {
            Some(state) if text.len() <= Report::LONGEST => {
                Some(Report { state, text: text.to_vec(), since: now_to_the_microsecond() })
            }
            None if state == b"clear" => None,
            _ => return Response::Refused { why: "that is not a report".into() },
        };
        let had_one = self.judge.note_report(report);
        self.keep_report(had_one)
    }

    /// Stores it where readers of a dead session find it, too.
    pub(super) fn keep_report(&self, had_one: bool) -> Response {
        let folder = &self.pending.folder;
        let kept = match self.judge.report() {
            Some(report) => folder.replace(REPORT, &report.encode()),
            None if had_one => folder.remove_file(REPORT.as_ref()),
            None => Ok(()),
        };
        match files::there(kept) {
            Ok(_) => Response::Noted,
            Err(error) => Response::Refused { why: error.to_string() },
        }
    }

    /// Text typed ahead of a command that was being executed belongs to a later one.
    fn awaited(&self) -> Option<u64> {
        let awaited = self.awaited?;
        let Some(last) = self.recorder.meaning().last_completion() else { return Some(awaited) };
        // Behind what calls have handed over, which may never be executed.
        let awaited = awaited.min(last.saturating_add(1 + self.recorder.jobs().ahead()));
        Some(awaited.max(if self.goes_on() { last.saturating_add(1) } else { last }))
    }

    fn goes_on(&self) -> bool {
        self.is_typed_ahead() || matches!(self.recorder.prompt(), PromptState::Entered | PromptState::Left)
    }

    /// For a session that ends: the number of the completion that ends, or would have ended, the last
    /// command.
    pub(super) fn begun_last(&self) -> u64 {
        match self.recorder.meaning().last_completion() {
            Some(last) if self.interactive && !self.goes_on() => last.max(1),
            Some(last) => last.saturating_add(1),
            None => u64::from(self.interactive),
        }
    }

    pub(super) fn doing(&self) -> TerminalState {
        foreground::doing(&self.master, self.child, self.reporting(), self.recorder.prompt())
    }

    /// The foreground process group while the shell that reports is at its prompt; 0 if no shell reports.
    pub(super) fn reporting(&self) -> i32 {
        match self.recorder.meaning().level() {
            (0, _) if !self.interactive => 0,
            (0, _) => i32::try_from(self.child).unwrap_or_default(),
            _ => self.inner_group.unwrap_or_default(),
        }
    }

    fn resize(&mut self, size: Size) -> Response {
        match self.master.resize(size) {
            Ok(()) => {
                self.note_size();
                Response::Noted
            }
            Err(error) => Response::Refused { why: error.to_string() },
        }
    }

    fn key_modes(&self) -> io::Result<KeyModes> {
        let (modes, private) = (self.master.modes()?, self.recorder.meaning().private());
        Ok(KeyModes {
            application: Application {
                cursor: private.has(1),
                keypad: private.has_keypad(),
                kitty: self.recorder.meaning().kitty_flags(),
            },
            bracketed_paste: private.has(2004),
            secret: modes.hide_line(),
            half_line: modes.is_canonical() && self.keyboard.surely_holds_half_line(),
            end_of_input: modes.end_of_input(),
            signals: modes.signals().into_iter().map(|(byte, _)| byte).collect(),
        })
    }

    /// A signal character acts at once, as on a terminal whose program has read all before it. Typed-ahead
    /// input is discarded, as a terminal does, and so is the rest of a text that is being typed: half a
    /// command must not come to a shell that is back at its prompt. Texts that have not been begun are kept,
    /// because they are whole.
    pub(super) fn press(&mut self, byte: u8) -> Response {
        let Ok(modes) = self.master.modes() else { return Response::Unknown };
        let Some((_, signal)) = modes.signals().into_iter().find(|(each, _)| *each == byte) else {
            return Response::Refused { why: "it is not a signal now".into() };
        };
        if modes.discard_at_signal() {
            self.discard_typed();
            self.typed = Flow::new();
            self.keyboard.release();
            self.clients.cut_typist();
            self.cut_delivery();
        }
        if let (Some(slave), Some(shown)) = (&self.slave, modes.shown(byte)) {
            // Before the signal, so that it comes before its effects.
            let _ = pty::print_some(slave, &shown);
        }
        if signal == SIGINT {
            self.recorder.note_interrupted();
        }
        foreground::signal_foreground(&self.master, self.child, &[signal]);
        Response::Noted
    }

    /// Discards typed input that no program has read.
    fn discard_typed(&mut self) {
        if let Some(slave) = &self.slave {
            // Input that cannot be discarded is read after all, as if NOFLSH were set.
            let _ = self.master.discard_typed(slave);
            self.keyboard.note_discarded();
            self.recorder.note_discarded();
        }
    }

    /// Types a secret if there is a secret prompt at this moment, or the client has `seen` that a remote
    /// program asks for one, and nothing else is to be typed before it.
    fn type_secret(&mut self, secret: &[u8], seen: bool) -> Response {
        let refused = |why: &str| Response::Refused { why: why.to_owned() };
        let Ok(modes) = self.master.modes() else { return refused("the terminal has gone") };
        let unread = self.slave.as_ref().is_none_or(|slave| pty::unread(slave).unwrap_or(0) > 0);
        let others = unread || self.has_text();
        if let Err(why) = self.keyboard.takes_secret(secret, &modes, others, seen, Instant::now()) {
            return refused(why);
        }
        match self.master.write(secret) {
            Ok(count) => {
                self.note_typed(&secret[..count], &modes);
                Response::Typed { count: count as u64, held: false }
            }
            Err(error) => refused(&error.to_string()),
        }
    }
}

/// Since 1970, with the precision of our files.
fn now_to_the_microsecond() -> Duration {
    let now = unix_seconds(SystemTime::now());
    now - Duration::from_nanos((now.subsec_nanos() % 1_000).into())
}
