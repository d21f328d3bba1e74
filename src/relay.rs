//! The relay: a session's background process.
//!
//! It holds the PTY master. It appends the terminal's output to output.log before anything else happens, and
//! writes input, from the FIFO or a client of its socket, to the terminal, in order and whole. It is one loop
//! over poll(2), whose set is rebuilt each time, so it sleeps while nothing happens, and neither direction
//! ever waits for the other.
//!
//! It keeps a slave of the terminal open, so that a program which closes its own and opens it again (EIO is
//! not final) is still in its session; the end is the child's end, and what comes after it is `Phase`.

mod activity_tracker;
mod awaited_prompt;
mod canonical_line;
mod clients;
pub(crate) mod command_tracker;
mod command_watch;
mod delivered_command;
mod delivery;
mod flow;
mod foreground;
mod helper_client;
mod history;
mod inbox;
mod input_scheduler;
mod job;
mod journal;
mod launch;
mod limits;
mod log_limit;
mod output_state;
mod phase;
mod prompt_wait;
mod query_replies;
mod recorder;
mod requests;
mod roles;
pub(crate) mod setup;
mod shutdown;
mod snapshot;
mod take_back;
mod views;
mod watched_command;

use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    jail::Admission,
    outcome::{Result, Trying},
    session::{
        EndedBy, Events, ExitRecord, INPUT, InputSource, PendingSession, SaidNotice, SessionDir, Settings,
        Usage,
        client::{
            protocol::{Response, SizeSince},
            snapshot::Input,
        },
    },
    sys::{
        cgroup::Cgroup,
        child::{self, ExitStatus},
        deadline::Deadline,
        poll::PollSet,
        processes::{PidFd, Process},
        pty::{Master, Size, TerminalModes},
        signals::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGWINCH, Signals},
    },
    terminal::program_status::ProgramStatus,
};
use activity_tracker::ActivityTracker;
use clients::{ClientId, Clients};
use command_watch::CommandWatch;
use delivery::Delivery;
use flow::Flow;
pub(crate) use helper_client::{HelperError, SpawnRequest, SpawnedChild, ask_helper, helper_version};
use helper_client::{KeeperClient, KeeperNews};
use input_scheduler::{Hold, InputScheduler};
use job::DeliveryEnd;
use journal::Journal;
pub(crate) use launch::{SOCKETS_FIX, SpawnVia, WARNING, refusal, start};
pub(crate) use limits::Limits;
use phase::{Change, Phase};
use prompt_wait::PromptWait;
use query_replies::QueryReplies;
use recorder::Recorder;
pub(crate) use roles::TERMINATOR_AT_ONCE;
use shutdown::Shutdown;
use snapshot::InputClock;
use take_back::TakeBack;
use views::Views;

/// The initial state of a relay.
pub(crate) struct RelayStart {
    pub(crate) is_kept: bool,
    pub(crate) pending: PendingSession,
    /// The path of the directory of all sessions.
    pub(crate) sessions: PathBuf,
    pub(crate) events: Events,
    pub(crate) alive: File,
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) master: Master,
    pub(crate) child: u32,
    /// `None` if the child is our own.
    pub(crate) keeper: Option<KeeperClient>,
    pub(crate) listener: UnixListener,
    /// Is the child a shell to converse with?
    pub(crate) interactive: bool,
}

/// The signals that a relay acts on; to be caught before its child is started,
/// so that no child's end is missed.
pub(crate) struct Caught {
    children: Signals,
    hang_up: Signals,
}

impl Caught {
    pub(crate) fn new() -> io::Result<Caught> {
        Ok(Caught {
            children: Signals::catch(&[SIGCHLD])?,
            hang_up: Signals::catch(&[SIGTERM, SIGINT, SIGHUP])?,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RelayEvent {
    Output,
    Input,
    CanType,
    Children,
    HangUp,
    Connection,
    Client(ClientId),
    ClientLeft(ClientId),
    Keeper,
    OwnersEnd,
    Screen,
}

pub(crate) struct Relay {
    // Holds the lock for as long as the session is alive.
    pending: PendingSession,
    sessions: PathBuf,
    events: Events,
    // Closed by our end, however it comes: followers of the events see that.
    _alive: File,
    settings: Settings,
    limits: Limits,
    session: SessionDir,
    master: Master,
    size: SizeSince,
    // Ours, so that the terminal does not hang up while the child lives.
    slave: Option<OwnedFd>,
    child: u32,
    keeper: Option<KeeperClient>,
    recorder: Recorder,
    // The group that had the foreground when a shell inside the session's own came to its first
    // prompt, and which shell that is, counted from the outermost.
    inner_group: Option<i32>,
    inner_level: usize,
    fifo: File,
    typed: Flow,
    keyboard: InputScheduler,
    journal: Journal,
    answers: QueryReplies,
    // The unread input, if there is any, consists of answers only.
    unread_is_answer: bool,
    // The process that stores the session's screen for later calls, while it runs.
    screen_process: Option<u32>,
    // How long the log will be when the next one is started.
    next_screen: u64,
    listener: UnixListener,
    clients: Clients,
    views: Views,
    input: InputClock,
    // The number of the completion that came next when something was typed last.
    awaited: Option<u64>,
    // The client that has seen a secret prompt of a remote program, and the log's length then.
    seen: Option<(ClientId, u64)>,
    judge: ActivityTracker,
    // The start of the current verdict, and the wall-clock time then.
    since: (Instant, SystemTime),
    // The program's most urgent status, and its start, since 1970.
    said_since: Option<(ProgramStatus, Duration)>,
    // The number of turns that the program had reported as ended at the last look.
    turns_ended: u64,
    // The last notices of the program, no more than `ProgramSaid::MOST_NOTICES`.
    notices: Vec<SaidNotice>,
    // The time of the last input; whether it, or the input before it, ended a line, because a turn that an
    // approval by a single key continues has begun by a line; and the log's length then.
    typed_last: Option<(Instant, bool, u64)>,
    // The input verdict that the judge received last.
    looked: Input,
    interactive: bool,
    // The wait of a call for a shell that is free, and how often the session had changed at the last look.
    prompt_wait: Option<(ClientId, PromptWait, u64)>,
    // When one was found to be free: was an interrupt still to be processed, and how much had been typed?
    found_free: (bool, u64),
    // The watch over the command that a call has delivered, and how long the log was at its last look.
    command_watch: Option<(ClientId, CommandWatch, u64)>,
    // What is typed to deliver a command, and the text for it that a nested shell reads.
    delivery: Option<(Delivery, Option<File>)>,
    // The lines of an `integrate` that has left are being taken back.
    take_back: Option<TakeBack>,
    // Until when a shell may begin to read a text that has been interrupted.
    strays: Deadline,
    phase: Phase,
    /// The cgroup that limits its processes, if there is one.
    cgroup: Option<Cgroup>,
    /// Its command is a child of a keeper.
    is_kept: bool,
    ending: Shutdown,
    // When to wake a program that was sent SIGHUP, if it still runs.
    hung_up: Deadline,
    started: Option<SystemTime>,
    // When it was first tried to record the end.
    ended: Option<SystemTime>,
}

impl Relay {
    /// All files of the session are there by now.
    pub(crate) fn new(start: RelayStart) -> Result<Relay> {
        let size @ Size { cols, rows } = start.master.size().trying("read the size of the terminal")?;
        let recorder =
            Recorder::open(&start.pending.folder, &start.settings, start.interactive, size, start.child)
                .trying("open the logs")?;
        let fifo = start.pending.folder.open_fifo(INPUT).trying("open the input")?;
        let slave = start.master.open_slave().trying("open the slave of the terminal")?;
        let session = start.pending.session().trying("open the session's directory")?;
        let started = session.started();
        let admission = Admission::with_root(Some(start.pending.handle.number()));
        let now = Instant::now();
        Ok(Relay {
            session,
            pending: start.pending,
            sessions: start.sessions,
            events: start.events,
            _alive: start.alive,
            settings: start.settings,
            limits: start.limits,
            master: start.master,
            size: SizeSince { cols, rows, offset: 0 },
            slave: Some(slave),
            child: start.child,
            keeper: start.keeper,
            recorder,
            inner_level: 0,
            inner_group: None,
            fifo,
            typed: Flow::new(),
            keyboard: InputScheduler::new(now),
            journal: Journal::default(),
            answers: QueryReplies::default(),
            unread_is_answer: false,
            screen_process: None,
            next_screen: SCREEN_EVERY,
            listener: start.listener,
            clients: Clients::new(child::open_files(), admission),
            views: Views::default(),
            input: InputClock::new(now),
            awaited: None,
            seen: None,
            judge: ActivityTracker::new(now),
            since: (now, SystemTime::now()),
            said_since: None,
            turns_ended: 0,
            notices: Vec::new(),
            typed_last: None,
            looked: Input::default(),
            interactive: start.interactive,
            prompt_wait: None,
            found_free: (false, 0),
            command_watch: None,
            delivery: None,
            take_back: None,
            strays: Deadline::after(Duration::ZERO),
            phase: Phase::Running,
            cgroup: None,
            is_kept: start.is_kept,
            ending: Shutdown::new(now),
            hung_up: Deadline::NEVER,
            started,
            ended: None,
        })
    }

    /// Lets everybody see the session, which is complete.
    pub(crate) fn publish(&self) -> io::Result<()> {
        self.pending.publish()
    }

    /// Removes a session that is not known to anyone; its child has not begun.
    pub(crate) fn withdraw(self) -> Result<()> {
        self.pending.withdraw().trying("remove the half-made session")
    }

    /// Serves the session until it has ended and all of it is written down.
    pub(crate) fn serve(mut self, mut caught: Caught, cgroup: Option<Cgroup>) -> Result<()> {
        self.cgroup = cgroup;
        loop {
            if self.phase.over().is_some() && self.conclude().trying("record the end")? {
                return self.let_go();
            }
            // A client that has been dismissed meanwhile makes no event.
            self.leave_jobs();
            let events = self.next_events(&caught).trying("wait for an event")?;
            self.note_size();
            let is_left = |id| events.contains(&RelayEvent::ClientLeft(id));
            let (leaving, others): (Vec<_>, Vec<_>) = events.iter().copied().partition(|event| match event {
                RelayEvent::Output => true,
                RelayEvent::Client(id) | RelayEvent::ClientLeft(id) => is_left(*id),
                _ => false,
            });
            // Calls that have left come first: others that are seen at the same time came later, and may type.
            self.take(&leaving, &mut caught)?;
            self.leave_jobs();
            self.take(&others, &mut caught)?;
            // It may read output that all code below must know of.
            self.judge(false);
            self.note_said();
            self.recorder.retry();
            self.answer_program();
            self.type_on();
            while let Some(id) = self.clients.unprocessed() {
                self.leave_jobs();
                self.handle(id);
                self.type_on();
            }
            self.await_shell();
            self.go_on_delivering();
            self.end_stray_reading();
            self.take_lines_back();
            self.watch_command();
            self.keep_screen();
            // Checked each time, because any write to a client may reveal that it has left.
            let runs = self.phase.command_runs();
            self.ending.forget_who_left(|id| self.clients.is_there(id), runs);
            self.leave_jobs();
            self.keep_limits().trying("enforce the session's limits")?;
            self.wake_if_hung_up();
            self.clients.keep_time();
            self.keep_views();
            self.clients.send(self.recorder.changes(), self.size);
            self.send_output(self.recorder.meaning().told());
            self.send_standing();
            self.linger().trying("read the terminal")?;
            self.recorder.sync();
        }
    }

    /// Handles these events, in this order.
    fn take(&mut self, events: &[RelayEvent], caught: &mut Caught) -> Result<()> {
        for event in events {
            match *event {
                RelayEvent::Output => self.take_flood().trying("read the terminal")?,
                RelayEvent::Input => self.take_input().trying("read the input")?,
                RelayEvent::CanType => {}
                RelayEvent::Children => {
                    caught.children.take();
                    self.collect_children().trying("collect a child")?;
                }
                RelayEvent::HangUp => {
                    caught.hang_up.take();
                    // If the disk is full, it ends all the same.
                    let _ = self.session.note_hung_up();
                    self.hang_up();
                }
                RelayEvent::Connection => {
                    // A new client has mostly sent its request by now, too.
                    if let Some(id) = self.clients.welcome(&self.listener) {
                        self.attend(id);
                    }
                }
                RelayEvent::Client(id) => self.attend(id),
                RelayEvent::ClientLeft(id) => self.clients.note_left(id),
                RelayEvent::Keeper => self.receive_keeper(),
                RelayEvent::OwnersEnd => self.limits.note_owners_end(),
                RelayEvent::Screen => self.answers.receive(),
            }
        }
        Ok(())
    }

    fn next_events(&self, caught: &Caught) -> io::Result<Vec<RelayEvent>> {
        let mut poll_set = PollSet::new();
        if self.recorder.is_idle() && !self.phase.terminal_is_closed() {
            poll_set.readable(&self.master, RelayEvent::Output);
        }
        if self.wants_input() {
            poll_set.readable(&self.fifo, RelayEvent::Input);
        }
        let types = self.wants_to_type();
        if types && self.keyboard.waits_for_room() || !self.answers.ready().is_empty() {
            poll_set.writable(&self.master, RelayEvent::CanType);
        }
        poll_set.readable(&caught.children, RelayEvent::Children);
        poll_set.readable(&caught.hang_up, RelayEvent::HangUp);
        match &self.keeper {
            Some(keeper) if !keeper.has_gone() => poll_set.readable(&keeper.stream, RelayEvent::Keeper),
            Some(keeper) if self.phase.command_runs() => poll_set.readable(&keeper.child, RelayEvent::Keeper),
            _ => {}
        }
        if let Some(screen) = self.answers.screen_process() {
            poll_set.readable(screen, RelayEvent::Screen);
        }
        let full = self.clients.watch(&self.listener, &mut poll_set, RelayEvent::Connection);
        for (id, client) in self.clients.all() {
            let (read, write) = (self.clients.wants_read(id, client), client.wants_write());
            let left = (!client.has_hung_up()).then_some(RelayEvent::ClientLeft(id));
            poll_set.peer(client, read, write, RelayEvent::Client(id), left);
        }
        let mut limit = Deadline::NEVER;
        let runs = self.phase.command_runs();
        if self.ending.may_reach_limit(runs) {
            limit = self.limits.deadline();
            if let Some(owner) = self.limits.owner() {
                poll_set.readable(owner, RelayEvent::OwnersEnd);
            }
        } else if let Some(start) = self.ending.start(runs) {
            limit = start;
        }
        // While it writes, or tries to, it does not linger.
        let linger = if self.may_finish() { self.phase.deadline() } else { Deadline::NEVER };
        let keyboard = self.keyboard.deadline(types, Instant::now());
        let changes = self.recorder.changes();
        let prompt = self.prompt_wait.as_ref().filter(|_| self.take_back.is_none());
        let prompt = prompt.map_or(Deadline::NEVER, |(_, wait, seen)| wait.deadline(*seen != changes));
        let command = self.command_watch.as_ref();
        let command = command.map_or(Deadline::NEVER, |(_, watch, seen)| {
            let has_printed = *seen != self.recorder.output_bytes();
            if has_printed { Deadline::after(Duration::ZERO) } else { watch.deadline() }
        });
        let delivery = self.delivery.as_ref().map_or(Deadline::NEVER, |(delivery, _)| delivery.deadline());
        let others = self.recorder.deadline().min(self.clients.deadline()).min(self.judge_deadline());
        // A request that was read already does not wake poll(2).
        let unprocessed = if self.clients.unprocessed().is_some() {
            Deadline::after(Duration::ZERO)
        } else {
            Deadline::NEVER
        };
        poll_set.wait(
            linger
                .min(keyboard)
                .min(limit)
                .min(others)
                .min(prompt)
                .min(command)
                .min(delivery)
                .min(self.take_back.as_ref().map_or(Deadline::NEVER, TakeBack::deadline))
                .min(full)
                .min(unprocessed)
                .min(self.hung_up),
        )
    }

    /// Ends the session if it has reached a limit. The limit is written first, so that the cause is known
    /// whatever happens to us then.
    fn keep_limits(&mut self) -> io::Result<()> {
        if !self.recorder.is_idle() {
            // It waits for us, and not for anything to happen.
            self.limits.note_activity();
        }
        if self.ending.may_reach_limit(self.phase.command_runs())
            && let Some(limit) = self.limits.reached()
        {
            // A command that has ended by now has ended by itself.
            self.collect_children()?;
            self.receive_keeper();
            if self.ending.may_reach_limit(self.phase.command_runs()) {
                self.ending.note_reached(limit);
                // If the disk is full, we still know it.
                let _ = self.session.note_ending(limit);
            }
        }
        if self.ending.start(self.phase.command_runs()).is_some_and(Deadline::has_passed)
            && let Some((limit, at_once)) = self.ending.order()
        {
            let terminator =
                roles::start_terminator(self.session.handle(), &self.sessions, limit, at_once).ok();
            self.ending.note_started(terminator, Instant::now());
            if terminator.is_none() {
                // The session's own processes may be what leaves no room for it.
                self.hang_up();
            }
        }
        Ok(())
    }

    /// A program may have changed the size (stty(1)), for which there is no event; but such a program mostly
    /// prints something then, and this runs before we read that.
    fn note_size(&mut self) {
        if let Ok(size @ Size { cols, rows }) = self.master.size()
            && (cols, rows) != (self.size.cols, self.size.rows)
        {
            self.size = SizeSince { cols, rows, offset: self.recorder.output_bytes() };
            self.recorder.note_size(size);
        }
    }

    /// Takes back the size of a window that has gone.
    fn keep_views(&mut self) {
        if let Some(size) = self.views.keep(|id| self.clients.is_there(id)) {
            // A terminal that has gone has no size.
            let _ = self.master.resize(size);
            self.note_size();
        }
    }

    /// Sends the calls that have delivered a command its progress, if the last reportable event ends at `told`.
    fn send_output(&mut self, told: u64) {
        let news = self.command_watch.as_ref().filter(|(_, watch, _)| watch.has_news()).map(|(id, ..)| *id);
        for id in self.clients.awaits_output(told, news) {
            let report = self.output_report(id);
            if let Some((other, watch, _)) = &mut self.command_watch
                && *other == id
            {
                watch.note_told();
            }
            self.clients.respond(id, &Response::Output(Box::new(report)));
        }
    }

    /// Sends the session's state to its followers.
    fn send_standing(&mut self) {
        let curious = self.clients.curious(self.judge.seen());
        if curious.is_empty() || !self.judge.is_settled() {
            return;
        }
        let standing = Response::Snapshot(Box::new(self.activity(crate::session::client::Parts::ACTIVITY)));
        for id in curious {
            self.clients.respond(id, &standing);
        }
    }

    /// These bytes have been typed in these modes: the session's report does not hold any longer.
    fn note_typed(&mut self, bytes: &[u8], modes: &TerminalModes) {
        let now = Instant::now();
        self.keyboard.note_typed(bytes, modes, now);
        self.input.note_typed(now);
        // As lines are ended, or as a program gets Enter that has asked for all keys (CSI u).
        let ends_line =
            bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n')) || bytes.ends_with(b"\x1b[13u");
        let entered = self.typed_last.is_some_and(|(_, entered, _)| entered);
        self.typed_last = Some((now, entered || ends_line, self.recorder.output_bytes()));
        self.unread_is_answer = false;
        let to_shell = self.master.foreground() == Some(self.reporting());
        self.recorder.meaning_mut().note_typed(bytes, self.keyboard.holds_half_line(), to_shell);
        self.limits.note_activity();
        if self.judge.note_typed(now) {
            // If the file cannot be removed, it counts only once the session is dead.
            self.keep_report(true);
        }
    }

    /// Once that time is over, reads the present output, which is the last.
    fn linger(&mut self) -> io::Result<()> {
        if !self.phase.deadline().has_passed() || !self.may_finish() {
            return Ok(());
        }
        if self.recorder.is_idle() {
            self.drain()?;
        }
        // Output that cannot be written now will be, and then there may be more.
        if self.may_finish() {
            self.phase = self.phase.after(Change::LingeredEnough);
        }
        Ok(())
    }

    /// Reads the pending output, but no more than a terminal holds: a program may print for ever.
    fn drain(&mut self) -> io::Result<()> {
        for _ in 0..MOST_HELD_BY_TERMINAL / flow::CAPACITY {
            if self.take_output()? == 0 || !self.recorder.is_idle() {
                break;
            }
        }
        Ok(())
    }

    /// Reads up to `MOST_READS` times in a row if a program prints faster than we read: everything else that the
    /// loop looks at takes longer than a read.
    fn take_flood(&mut self) -> io::Result<()> {
        for _ in 0..MOST_READS {
            if self.take_output()? < flow::FULL || !self.recorder.is_idle() {
                break;
            }
        }
        Ok(())
    }

    /// Appends the output of one read to the log before anything else happens. Returns how many bytes came.
    fn take_output(&mut self) -> io::Result<usize> {
        match self.recorder.record(|buffer| self.master.read(buffer)) {
            Ok(0) => {
                self.phase = self.phase.after(Change::TerminalClosed);
                Ok(0)
            }
            Ok(count) => {
                // The present modes mostly were those of the output, too.
                if self.master.modes().is_ok_and(|modes| !modes.translates_newlines()) {
                    self.recorder.note_untranslated(count as u64);
                }
                // Once: at a later prompt it may already execute typed-ahead input.
                let level = self.recorder.meaning().level().0;
                if level != self.inner_level && self.recorder.prompt().is_there() {
                    (self.inner_level, self.inner_group) = (level, self.master.foreground());
                }
                self.keyboard.release();
                self.limits.note_activity();
                let now = Instant::now();
                self.input.note_printed(now);
                self.judge.note_printed(now);
                Ok(count)
            }
            Err(error) if is_for_later(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Answers the program's queries of its terminal: before any other input, as a terminal does.
    fn answer_program(&mut self) {
        let asked = self.recorder.meaning_mut().take_asked();
        if !self.phase.command_runs() {
            return self.answers.forget();
        }
        let size = Size { cols: self.size.cols, rows: self.size.rows };
        let (session, sessions) = (&self.session, &self.sessions);
        let start = || roles::start_screen(session.handle(), sessions);
        self.answers.answer(asked, size, start);
        if self.answers.ready().is_empty() {
            return;
        }
        let Ok(modes) = self.master.modes() else { return };
        let is_alone = self.unread_is_answer || self.unread() == 0;
        if let Ok(count @ 1..) = self.master.write(self.answers.ready()) {
            self.unread_is_answer = is_alone;
            self.keyboard.note_typed(&self.answers.ready()[..count], &modes, Instant::now());
            if modes.is_canonical() {
                self.recorder.meaning_mut().note_answered_ahead();
            }
            self.answers.note_typed(count);
        }
    }

    /// Has the screen kept now and then, so that to look at it first does not cost
    /// as much as all that was printed.
    fn keep_screen(&mut self) {
        let length = self.recorder.output_bytes();
        if length >= self.next_screen && self.screen_process.is_none() {
            self.next_screen = length + SCREEN_EVERY;
            // If none can be started, the next look costs more.
            self.screen_process = roles::start_keeping_screen(self.session.handle(), &self.sessions).ok();
        }
    }

    /// From the FIFO only between the messages of clients, and one read's worth
    /// at a time: what one writer wrote at once (up to PIPE_BUF) stays whole.
    fn wants_input(&self) -> bool {
        !self.has_text() && self.phase.command_runs()
    }

    fn take_input(&mut self) -> io::Result<()> {
        self.journal.begin();
        match self.typed.fill(|buffer| io::Read::read(&mut self.fifo, buffer)) {
            Err(error) if !is_for_later(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Is there text that is to be typed, or may be on its way to us?
    fn has_text(&self) -> bool {
        !self.typed.is_empty() || self.typed_delivery().is_some() || self.clients.typist().is_some()
    }

    /// The delivery, if no other input may come into it now. It does not come into a text that is begun, either.
    fn typed_delivery(&self) -> Option<&Delivery> {
        let (delivery, _) = self.delivery.as_ref()?;
        let is_free = self.clients.typist().is_none() || self.clients.typist_begins();
        (delivery.excludes_others() && (delivery.has_begun() || is_free)).then_some(delivery)
    }

    /// Once the child has ended, no program reads it.
    fn wants_to_type(&self) -> bool {
        let text = !self.typed.is_empty()
            || match self.typed_delivery() {
                Some(delivery) => !delivery.keys().is_empty(),
                None => self.clients.typist().is_some_and(|client| !client.to_type().is_empty()),
            };
        text && self.phase.command_runs()
    }

    /// Types as much as the terminal accepts: first the FIFO's input, then a command that is delivered, then that of
    /// one client after another.
    fn type_on(&mut self) {
        while self.may_type() {
            if !self.typed.is_empty() {
                // The FIFO has no way to report a held rest, so it is typed as on a keyboard: the excess of a
                // line is lost.
                let text = self.typed.waiting().to_vec();
                let Some(count) = self.type_some(text, Hold::Nothing, InputSource::default()) else { return };
                self.typed.take(count);
                continue;
            }
            if let Some(delivery) = self.typed_delivery() {
                let (keys, begins) = (delivery.keys().to_vec(), !delivery.has_begun());
                if begins {
                    self.journal.begin();
                }
                let typed = self.type_some(keys, Hold::WhatIsTooLong, InputSource::Run);
                let (Some(count), Some((delivery, _))) = (typed, &mut self.delivery) else { return };
                delivery.note_typed(count);
                self.go_on_delivering();
                continue;
            }
            let Some(client) = self.clients.typist() else { return };
            let (bytes, source) = (client.to_type().to_vec(), client.source());
            if self.clients.typist_begins() {
                self.journal.begin();
            }
            let typed = self.type_some(bytes, Hold::WhatIsTooLong, source);
            self.clients.note_held(typed.is_none() && !self.keyboard.waits_for_room());
            let Some(count) = typed else { return };
            if let Some(id) = self.clients.note_typed(count) {
                self.recorder.jobs_mut().note_integrated(id);
            }
        }
    }

    fn may_type(&mut self) -> bool {
        let (wants, length) = (self.wants_to_type(), self.recorder.output_bytes());
        self.keyboard.may_type(wants, length, Instant::now(), |place| self.answers.are_due(place))
    }

    /// Types some of the bytes; `None` if none can be typed now.
    fn type_some(&mut self, bytes: Vec<u8>, hold: Hold, source: InputSource) -> Option<usize> {
        let modes = self.master.modes().ok()?;
        let room = self.keyboard.room_for(&bytes, &modes, hold);
        if room == 0 {
            return None;
        }
        let (offset, prompt) = (self.recorder.output_bytes(), self.recorder.prompt());
        let has_unread = modes.is_canonical() && self.unread() > 0;
        match self.master.write(&bytes[..room]) {
            Ok(count) if count > 0 => {
                let mode = journal::mode(&modes, prompt);
                self.recorder.note_input(source, mode, &bytes[..count], has_unread);
                if self.journal.note(&bytes[..count], offset, mode) {
                    let first = u64::from(self.interactive);
                    let last = self.recorder.meaning().last_completion();
                    let next = last.map_or(first, |last| last.saturating_add(1));
                    self.awaited = Some(next + self.recorder.jobs().untaken(self.clients.typist_id()));
                }
                self.note_typed(&bytes[..count], &modes);
                Some(count)
            }
            _ => None,
        }
    }

    /// Collects the child, and the orphans that have become ours.
    fn collect_children(&mut self) -> io::Result<()> {
        while let Some((pid, status)) = child::collect()? {
            if pid == self.child {
                self.child_has_ended(Some(status));
            } else if self.ending.is_terminator(pid) {
                let runs = self.phase.command_runs();
                if self.ending.note_terminator_ended(status, runs, Instant::now()) {
                    self.signal_child(&[SIGKILL]);
                }
            } else if Some(pid) == self.screen_process {
                self.screen_process = None;
            }
        }
        Ok(())
    }

    /// Receives how the child of a keeper ended. A keeper that was killed cannot report it; then we watch the
    /// child itself, and its exit code stays unknown.
    fn receive_keeper(&mut self) {
        let Some(keeper) = &mut self.keeper else { return };
        let ended = match keeper.receive() {
            KeeperNews::Nothing => return,
            KeeperNews::Ended(status) => Some(status),
            // It stays for as long as we do not let go of it.
            KeeperNews::Gone if !self.phase.command_runs() => return,
            KeeperNews::Gone if keeper.child_runs() => return,
            KeeperNews::Gone => {
                self.keeper = None;
                None
            }
        };
        self.child_has_ended(ended);
    }

    /// From here on, only remaining processes of the child have the terminal open.
    fn child_has_ended(&mut self, status: Option<ExitStatus>) {
        self.phase = self.phase.after(Change::CommandEnded(status));
        self.slave = None;
        self.typed = Flow::new();
        self.end_delivery(DeliveryEnd::Cut);
        self.recorder.meaning_mut().said_mut().note_over();
    }

    /// We were asked to go (a logout, a shutdown): to the programs on the terminal it looks as if it had been
    /// unplugged.
    fn hang_up(&mut self) {
        self.signal_all(&[SIGHUP, SIGCONT]);
        self.hung_up = Deadline::after(WAKE_AFTER);
    }

    /// A shell that is about to read when SIGHUP arrives may act on it only after another signal (seen in bash
    /// 5.2). SIGWINCH harms no program.
    fn wake_if_hung_up(&mut self) {
        if self.hung_up.has_passed() {
            self.hung_up = Deadline::NEVER;
            self.signal_all(&[SIGWINCH]);
        }
    }

    /// Signals the foreground process group and the child.
    fn signal_all(&self, signals: &[i32]) {
        foreground::signal_foreground(&self.master, self.child, signals);
        self.signal_child(signals);
    }

    /// Signals the child, also before it has made the terminal its own. While it runs for us, only processes
    /// that report to us can have collected it: so the PID of a child of our own is still its.
    fn signal_child(&self, signals: &[i32]) {
        if !self.phase.command_runs() {
            return;
        }
        let ours = if self.keeper.is_none() { PidFd::open(self.child).ok().flatten() } else { None };
        let child = self.keeper.as_ref().map(|keeper| &keeper.child).or(ours.as_ref());
        for signal in signals {
            // A process that has ended meanwhile, or is another user's by now, is left alone.
            let _ = child.map(|child| child.signal(*signal));
        }
    }

    fn attend(&mut self, id: ClientId) {
        self.clients.attend(id);
        self.handle(id);
    }

    fn handle(&mut self, id: ClientId) {
        while let Some(request) = self.clients.next_request(id) {
            if request.acts() && !self.clients.still_wants(id) {
                break;
            }
            if let Some(response) = self.respond(id, request) {
                self.clients.respond(id, &response);
            }
        }
    }

    /// Is everything written? A kill does not wait for a disk to have space.
    fn may_finish(&self) -> bool {
        self.recorder.is_idle() || self.ending.is_killed()
    }

    /// Writes down how the session ended; `false`: not yet.
    fn conclude(&mut self) -> io::Result<bool> {
        let Some((status, drained)) = self.phase.over() else { return Ok(false) };
        if self.ending.must_stay(self.phase.command_runs()) || !self.may_finish() {
            return Ok(false);
        }
        let ended = *self.ended.get_or_insert_with(SystemTime::now);
        let exit_record = ExitRecord {
            handle: self.session.handle().clone(),
            name: self.session.name(),
            status,
            ended_by: match self.ending.cause(status) {
                EndedBy::Itself if self.cgroup.as_ref().is_some_and(Cgroup::ran_out_of_memory) => {
                    EndedBy::Memory
                }
                cause => cause,
            },
            settings: self.settings.clone(),
            last_lines: self.session.last_lines(),
            started: self.started,
            ended: Some(ended),
            output_bytes: self.recorder.output_bytes(),
            drained,
            usage: self.usage(),
        };
        // Only waits need it, to recognise an echo and the completion they wait for; without it they treat
        // all text as output, and wait for no completion.
        let typed = format!("{}\n{}\n", self.journal.since(0).encode(), self.begun_last());
        let _ = self.pending.folder.replace(crate::session::TYPED, typed.as_bytes());
        match self.recorder.conclude(exit_record, self.interactive, &self.events) {
            Ok(written) => Ok(written || self.ending.is_killed()),
            // The directory has gone, and with it every reader.
            Err(_) => Ok(true),
        }
    }

    /// The resources that the session has used. Without a cgroup, only the processor time of the children that
    /// we have collected, or the keeper.
    fn usage(&self) -> Usage {
        if let Some(cgroup) = &self.cgroup {
            return Usage::of_cgroup(cgroup);
        }
        let cpu = match &self.keeper {
            Some(keeper) => keeper.collected_cpu_ms(),
            None if self.is_kept => None,
            None => Process::read(std::process::id()).map(|us| us.collected_cpu_ms),
        };
        Usage { cpu, ..Usage::default() }
    }

    /// The session is dead from here on; only then do waiting calls learn of its end.
    fn let_go(mut self) -> Result<()> {
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
        let status = self.phase.over().and_then(|(status, _)| status);
        let lock = &self.pending.lock;
        let delivers = |id: &ClientId| self.recorder.jobs().progress(*id).is_some();
        let last = self.clients.turn().filter(delivers).map(|id| (id, self.output_report(id)));
        let unlocked = self.clients.send_end(status.map(ExitStatus::number), last, || lock.unlock());
        drop((self.clients, self.listener));
        unlocked.trying("unlock the session")
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The amount of output after which the screen is stored again: reading this much takes some hundred
/// milliseconds, or some ten if it consists of lines.
const SCREEN_EVERY: u64 = 64 << 20;

/// More than the kernel buffers of a terminal's output (tried: 22,048 bytes).
const MOST_HELD_BY_TERMINAL: usize = 64 * 1024;

/// The time from SIGHUP until a program that still runs is woken.
const WAKE_AFTER: Duration = Duration::from_millis(500);

/// The most reads in a row. They take a few dozen microseconds together.
const MOST_READS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        session::{Handle, OUTPUT, SOCKET, SessionSpec},
        sys::{
            files::{self, Folder},
            socket,
        },
    };
    use std::{fs, io::Write};

    /// A session in a state directory of its own, whose shell was never started.
    pub(super) struct Rig {
        pub(super) relay: Relay,
        home: PathBuf,
    }

    impl Rig {
        pub(super) fn new(settings: Settings) -> Rig {
            let home = std::env::temp_dir().join(format!("nbs-relay-{:x}", fastrand::u64(..)));
            let (sessions, handle) = (home.join("sessions"), Handle::fresh().unwrap());
            files::make_private_folders(&sessions.join(format!(".new.{handle}"))).unwrap();
            let folder = Folder::open(&sessions.join(format!(".new.{handle}"))).unwrap();
            let lock = folder.open_lock("meta").unwrap();
            lock.try_lock().unwrap();
            let pending = PendingSession::take_over(&sessions, handle, lock).unwrap().unwrap();
            let size = Size::DEFAULT;
            let spec = SessionSpec {
                command: b"bash".into(),
                name: None,
                size,
                started: SystemTime::now(),
                settings,
            };
            spec.write(&pending.folder).and_then(|()| spec.write_rest(&pending, &sessions, 1)).unwrap();
            let events = Events::open(&home).unwrap();
            let start = RelayStart {
                is_kept: false,
                alive: events.live().unwrap(),
                events,
                sessions,
                limits: Limits::new(&spec.settings, None),
                settings: spec.settings,
                master: Master::open(size).unwrap(),
                // No process ever has this PID.
                child: u32::MAX >> 1,
                keeper: None,
                listener: socket::listen(&pending.folder, SOCKET).unwrap(),
                interactive: true,
                pending,
            };
            Rig { relay: Relay::new(start).unwrap(), home }
        }

        pub(super) fn file(&self, name: &str) -> String {
            String::from_utf8(self.relay.pending.folder.read(name, u64::MAX).unwrap()).unwrap()
        }
    }

    impl Drop for Rig {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.home).unwrap();
        }
    }

    #[test]
    fn late_output_is_read_at_the_end() {
        let mut rig = Rig::new(Settings::default());
        // A process that the command has left behind.
        let mut left = File::from(rig.relay.master.open_slave().unwrap());
        let printed = "x".repeat(flow::CAPACITY + 1_000);
        left.write_all(printed.as_bytes()).unwrap();
        rig.relay.phase = Phase::Lingering(None, Deadline::NEVER);
        rig.relay.linger().unwrap();
        assert_eq!((rig.relay.phase.over(), rig.file(OUTPUT)), (None, String::new()));
        rig.relay.phase = Phase::Lingering(None, Deadline::after(Duration::ZERO));
        rig.relay.linger().unwrap();
        assert_eq!(rig.relay.phase.over(), Some((None, false)));
        assert_eq!(rig.file(OUTPUT), printed);
    }
}
