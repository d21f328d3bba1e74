//! A call of a verb on another machine, as its caller sees it.
//!
//! It is here that a call goes on when there is a connection again: what was sent and is not
//! acknowledged is kept, and how much has come is counted. Whoever has it polls it, and takes what
//! comes of it.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use crate::{
    machine::{
        self, daemon,
        frames::{ACKNOWLEDGE, Decoder, Frame, Order, Outgoing, Stream, Window},
        name::MachineName,
        outbox::{self, Outbox},
        silence::Silence,
    },
    outcome::{Failure, Result, Trying},
    session::{BRIDGE, BRIDGES, SESSION_ENV, StateDir},
    sys::{
        child,
        deadline::Deadline,
        poll::{self, PollSet},
        processes, random, socket,
    },
};

/// How long a call waits to begin, or to go on, or for a sign of its bridge, which says every 20 s
/// that it is there.
const PATIENCE: Duration = Duration::from_secs(60);

/// When its own timeout has passed, the verb is about to say so, and the far side, which is asked,
/// that it is there. Who says nothing for so long is not: a busy machine, and a line that loses a
/// packet twice, take seconds.
const GRACE: Duration = Duration::from_secs(5);

/// A bridge that ends time and again is no bridge.
const MOST_BRIDGES: u32 = 20;

/// What has come of it.
pub(crate) enum Came {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Ended(End),
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum End {
    /// As the verb did there, with this exit code.
    Exit(u8),
    /// It did not come to its end, as far as is known.
    Lost(Failure),
}

/// A terminal's size, and the variables that tell of what kind it is.
pub(crate) type Terminal = (Window, Vec<(Vec<u8>, Vec<u8>)>);

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It was never sent.
    NotBegun,
    /// It was sent to that process of the far side; whether it has arrived is not known.
    Sent {
        instance: u64,
    },
    Begun {
        instance: u64,
    },
}

/// The call's own. The verb says itself that it has passed, where the connection stands.
struct Timeout {
    time: Duration,
    /// When it is to be looked whether the far side has said anything.
    until: Deadline,
    has_said: bool,
}

pub(crate) struct Call {
    pub(crate) machine: MachineName,
    state_dir: StateDir,
    stream: UnixStream,
    decoder: Decoder,
    unsent: Outbox,
    order: Order,
    progress: Progress,
    /// It is known on this connection, so that its streams go on.
    open: bool,
    /// When it is given up, and why there is no connection; `None`: there is one.
    waits: Option<(Deadline, String)>,
    /// Of the bridge.
    silence: Silence,
    timeout: Option<Timeout>,
    starts: u32,
    /// How often it was sent.
    tries: u32,
    stdin: Outgoing,
    stdout_told: u64,
    stderr_told: u64,
    over: bool,
}

impl Progress {
    fn has_begun(self) -> bool {
        matches!(self, Progress::Begun { .. })
    }
}

impl Timeout {
    fn new(time: Duration) -> Timeout {
        Timeout { time, until: Deadline::after(time), has_said: true }
    }
}

impl AsFd for Call {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Call {
    /// Calls; nothing is waited for but a bridge. `timeout` is the call's own, if it has one.
    pub(crate) fn begin(
        machine: &MachineName,
        words: Vec<Vec<u8>>,
        terminal: Option<Terminal>,
        timeout: Option<Duration>,
    ) -> Result<Call> {
        let state_dir = StateDir::open_or_make()?;
        let patience = timeout.map_or(PATIENCE, |time| time.saturating_add(GRACE).min(PATIENCE));
        let stream = connect(&state_dir, machine, patience)?;
        let key = u128::from_le_bytes(random::bytes().trying("make up a key")?);
        let (terminal, mut environment) =
            terminal.map_or((None, Vec::new()), |(window, kind)| (Some(window), kind));
        environment.push((machine::MACHINE_ENV.into(), machine.as_str().into()));
        let order = Order { key, terminal, words, environment, ..Order::default() };
        let mut call = Call {
            machine: machine.clone(),
            state_dir,
            stream,
            decoder: Decoder::default(),
            unsent: Outbox::default(),
            order,
            progress: Progress::NotBegun,
            open: false,
            waits: Some((Deadline::after(PATIENCE), "it has not been reached yet".into())),
            silence: Silence::new(PATIENCE, Instant::now()),
            timeout: timeout.map(Timeout::new),
            starts: 1,
            tries: 0,
            stdin: Outgoing::default(),
            stdout_told: 0,
            stderr_told: 0,
            over: false,
        };
        call.greet();
        Ok(call)
    }

    fn greet(&mut self) {
        self.decoder = Decoder::default();
        self.unsent.clear();
        let has_begun = self.was_sent();
        Frame::Caller { has_begun, version: machine::VERSION.as_bytes().to_vec() }.put(0, &mut self.unsent);
    }

    /// May more be given to it as standard input?
    pub(crate) fn wants_stdin(&self) -> bool {
        self.open && self.stdin.has_room()
    }

    pub(crate) fn give_stdin(&mut self, bytes: &[u8]) {
        self.stdin.push(bytes);
    }

    pub(crate) fn end_stdin(&mut self) {
        self.stdin.end();
        self.order.is_silent = self.progress == Progress::NotBegun && self.stdin.length() == 0;
    }

    /// Passes a signal on.
    pub(crate) fn signal(&mut self, signal: i32) {
        self.say(&Frame::Signal { number: signal as u8 });
    }

    pub(crate) fn resize(&mut self, window: Window) {
        self.order.terminal = Some(window);
        self.say(&Frame::Resize(window));
    }

    /// Has it begun there, and is there a connection?
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// May it have begun there?
    pub(crate) fn was_sent(&self) -> bool {
        self.progress != Progress::NotBegun
    }

    /// Why there is no connection, where there is none.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.waits.as_ref().map(|(_, why)| &**why)
    }

    fn say(&mut self, frame: &Frame) {
        if self.open {
            frame.put(0, &mut self.unsent);
        }
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        poll_set.peer(&self.stream, true, !self.unsent.is_empty(), event, None);
    }

    /// When it is to be tended at the latest.
    pub(crate) fn deadline(&self) -> Deadline {
        let waits = self.waits.as_ref().map_or(Deadline::NEVER, |(until, _)| *until);
        let timeout = self.timeout.as_ref().map_or(Deadline::NEVER, |timeout| timeout.until);
        waits.min(self.silence.until()).min(timeout)
    }

    /// Sends what there is to send, and takes what has come, as far as that can be done at once.
    pub(crate) fn tend(&mut self, came: &mut Vec<Came>) {
        if self.over {
            return;
        }
        if let Err(failure) = self.try_to_tend(came) {
            self.finish(came, End::Lost(failure));
        }
    }

    /// To be done when all that has come was read.
    fn look_at_the_clock(&mut self) -> Result<()> {
        let has_waited = self.waits.as_ref().is_some_and(|(until, _)| until.has_passed());
        if has_waited || self.silence.is_too_long(Instant::now()) {
            return Err(self.unheard());
        }
        match self.timeout.as_mut().filter(|timeout| timeout.until.has_passed()) {
            Some(Timeout { has_said: false, .. }) => return Err(self.unheard()),
            Some(timeout) => {
                (timeout.until, timeout.has_said) = (Deadline::after(GRACE), false);
                self.say(&Frame::Ping);
            }
            None => {}
        }
        Ok(())
    }

    /// Nothing has come for too long.
    fn unheard(&self) -> Failure {
        let bridge = socket::peer_pid(&self.stream).unwrap_or_default();
        match (processes::stopped(bridge), &self.waits) {
            (is_stopped, _) if !is_stopped.is_empty() => {
                self.lost(&format!("its bridge does not answer{is_stopped}"))
            }
            (_, Some((_, why))) => self.lost(why),
            _ => self.lost(&format!("its bridge, process {bridge}, says nothing")),
        }
    }

    fn finish(&mut self, came: &mut Vec<Came>, end: End) {
        if !self.over {
            self.over = true;
            came.push(Came::Ended(end));
        }
    }

    fn try_to_tend(&mut self, came: &mut Vec<Came>) -> Result<()> {
        if self.flush().is_err() {
            // Its end is read below, behind what it has said before.
            self.unsent.clear();
        }
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let frames = match outbox::read(&mut &self.stream, &mut buffer) {
                Ok(None) => break,
                Ok(Some(count)) if count > 0 => self.decoder.feed(&buffer[..count]),
                _ => return self.bridge_ended(),
            };
            let frames = frames.map_err(|_| self.lost("the bridge talks nonsense"))?;
            self.silence.end(Instant::now());
            for (number, frame) in frames {
                // What is of the connection says the bridge.
                if let Some(timeout) = self.timeout.as_mut().filter(|_| number != 0) {
                    timeout.has_said = true;
                }
                self.heed(frame, came)?;
                if self.over {
                    return Ok(());
                }
            }
        }
        self.look_at_the_clock()?;
        if self.flush().is_err() {
            self.unsent.clear();
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unsent.flush(&mut &self.stream)?;
        while self.open
            && !self.order.is_silent
            && self.unsent.is_empty()
            && let Some(frame) = self.stdin.next(Stream::Stdin)
        {
            frame.put(0, &mut self.unsent);
            self.unsent.flush(&mut &self.stream)?;
        }
        Ok(())
    }

    fn heed(&mut self, frame: Frame, came: &mut Vec<Came>) -> Result<()> {
        match frame {
            Frame::Up { instance, connection } => return self.up(instance, connection),
            Frame::Down { patience, why } => {
                self.down(Duration::from_secs(patience.into()), &String::from_utf8_lossy(&why));
            }
            Frame::Failed { why } => return Err(self.lost(&String::from_utf8_lossy(&why))),
            Frame::Again => return self.bridge_ended(),
            Frame::Opened { stdin } => {
                let (Progress::Sent { instance } | Progress::Begun { instance }) = self.progress else {
                    return Err(self.nonsense());
                };
                if !self.stdin.go_on(stdin) {
                    return Err(self.nonsense());
                }
                if let Some(timeout) = self.timeout.as_mut().filter(|_| !self.progress.has_begun()) {
                    *timeout = Timeout::new(timeout.time);
                }
                self.progress = Progress::Begun { instance };
                self.open = true;
                // It may have changed while there was nobody to tell.
                if let Some(window) = self.order.terminal {
                    self.say(&Frame::Resize(window));
                }
            }
            Frame::Pong => {}
            Frame::Data { stream: Stream::Stdout, bytes } => {
                self.order.stdout += bytes.len() as u64;
                came.push(Came::Stdout(bytes));
                if self.order.stdout - self.stdout_told >= ACKNOWLEDGE {
                    self.stdout_told = self.order.stdout;
                    self.say(&Frame::Taken { stream: Stream::Stdout, offset: self.order.stdout });
                }
            }
            Frame::Data { stream: Stream::Stderr, bytes } => {
                self.order.stderr += bytes.len() as u64;
                came.push(Came::Stderr(bytes));
                if self.order.stderr - self.stderr_told >= ACKNOWLEDGE {
                    self.stderr_told = self.order.stderr;
                    self.say(&Frame::Taken { stream: Stream::Stderr, offset: self.order.stderr });
                }
            }
            Frame::Taken { stream: Stream::Stdin, offset } => {
                if !self.stdin.acknowledge(offset) {
                    return Err(self.nonsense());
                }
            }
            Frame::Exit { code, signal: 0 } if self.progress.has_begun() => {
                self.finish(came, End::Exit(code));
            }
            // Which is no exit code of the verb's.
            Frame::Exit { signal, .. } if self.progress.has_begun() => {
                return Err(self.lost(&format!("what executed it there was ended by signal {signal}")));
            }
            Frame::Refused { why } => {
                let why = String::from_utf8_lossy(&why).into_owned();
                // It may have begun on a connection before.
                if self.tries > 1 {
                    return Err(self.lost(&why));
                }
                return Err(Failure::failed(format!("cannot call there: {why}")).on(&self.machine));
            }
            _ => return Err(self.nonsense()),
        }
        Ok(())
    }

    /// There is a connection: the call is made, or goes on.
    fn up(&mut self, instance: u64, connection: u32) -> Result<()> {
        match self.progress {
            Progress::NotBegun => self.progress = Progress::Sent { instance },
            Progress::Sent { instance: before } | Progress::Begun { instance: before }
                if before != instance =>
            {
                return Err(self.lost("what executed it there has ended"));
            }
            _ => {}
        }
        self.waits = None;
        self.open = false;
        self.order.connection = connection;
        self.tries += 1;
        (self.stdout_told, self.stderr_told) = (self.order.stdout, self.order.stderr);
        Frame::Open(self.order.clone()).put(0, &mut self.unsent);
        Ok(())
    }

    fn down(&mut self, patience: Duration, why: &str) {
        self.open = false;
        let until = Deadline::after(patience);
        // Of several in a row, the first tells since when.
        self.waits = match self.waits.take() {
            Some((before, _)) => Some((before.min(until), why.to_owned())),
            None => Some((until, why.to_owned())),
        };
    }

    /// The bridge was killed, or has just ended by itself: there is another one.
    fn bridge_ended(&mut self) -> Result<()> {
        self.starts += 1;
        if self.starts > MOST_BRIDGES {
            return Err(self.lost("its bridge ends time and again"));
        }
        self.down(PATIENCE, "its bridge ended");
        let patience = self.timeout.as_ref().map_or(PATIENCE, |timeout| timeout.time.min(PATIENCE));
        self.stream = connect(&self.state_dir, &self.machine, patience)
            .map_err(|failure| self.lost(failure.message().unwrap_or("its bridge ended")))?;
        self.silence.end(Instant::now());
        self.greet();
        Ok(())
    }

    fn nonsense(&self) -> Failure {
        self.lost("it sends what makes no sense")
    }

    /// Exit 255, with what is known.
    fn lost(&self, why: &str) -> Failure {
        let (known, kind) = match self.progress {
            Progress::NotBegun => ("nothing was done", "unreachable"),
            Progress::Sent { .. } | Progress::Begun { .. } => {
                ("the connection was lost, and whether it was done is not known", "lost")
            }
        };
        let machine = &self.machine;
        let message = format!("{machine}: {known}: {why}; see 'nbs-ts machine check {machine}'");
        Failure::status(255, kind, Some(message))
    }
}

/// Connects to the bridge of a machine, and starts it where there is none.
fn connect(state_dir: &StateDir, machine: &MachineName, patience: Duration) -> Result<UnixStream> {
    let what = format!("start the bridge to '{machine}'");
    let deadline = Deadline::after(patience);
    let bridges = machine::folder(state_dir, BRIDGES)?;
    let stream = daemon::connect_or_start(&bridges, machine.as_str(), &what, deadline, || {
        let mut command = child::ourselves(BRIDGE);
        command.arg(machine.as_str()).arg(state_dir.path().join(BRIDGES)).env_remove(SESSION_ENV);
        command
    });
    let stream = stream
        .map_err(|failure| Failure::status(255, "unreachable", failure.message().map(str::to_owned)))?;
    stream.set_nonblocking(true).trying(&what)?;
    Ok(stream)
}

/// What a bridge tells of itself.
pub(crate) struct Told {
    pub(crate) calls: u32,
    pub(crate) round_trip: Duration,
    pub(crate) version: String,
    pub(crate) machine: String,
}

/// Asks the bridge to a machine how it is; `None` where there is none.
pub(crate) fn ask(state_dir: &StateDir, machine: &MachineName) -> Result<Option<Told>> {
    let what = format!("ask the bridge to '{machine}'");
    let bridges = machine::folder(state_dir, BRIDGES)?;
    let deadline = Deadline::after(Duration::from_secs(5));
    let Some(stream) = daemon::connect(&bridges, machine.as_str(), deadline).trying(&what)? else {
        return Ok(None);
    };
    stream.set_nonblocking(true).trying(&what)?;
    let mut unsent = Outbox::default();
    Frame::Ask.put(0, &mut unsent);
    unsent.flush(&mut &stream).trying(&what)?;
    let (mut decoder, mut buffer) = (Decoder::default(), [0; 4096]);
    while poll::wait_readable(&stream, deadline).trying(&what)? {
        match outbox::read(&mut &stream, &mut buffer) {
            Ok(Some(count)) if count > 0 => {
                for (_, frame) in decoder.feed(&buffer[..count]).unwrap_or_default() {
                    if let Frame::Answer { calls, round_trip, version, machine } = frame {
                        let text = |bytes: Vec<u8>| crate::terminal::text::escaped(&bytes);
                        let round_trip = Duration::from_micros(round_trip.into());
                        return Ok(Some(Told {
                            calls,
                            round_trip,
                            version: text(version),
                            machine: text(machine),
                        }));
                    }
                }
            }
            Ok(None) => {}
            // It has just ended.
            _ => return Ok(None),
        }
    }
    Err(Failure::timed_out(format!("cannot {what}: it does not answer")))
}

/// Has the bridge to a machine end, since another way leads there: its calls go on with the next.
pub(crate) fn replace(state_dir: &StateDir, machine: &MachineName) -> Result<()> {
    dismiss(state_dir, machine, &Frame::Again)
}

/// Has the bridge to a machine let nobody in any more; `Bye`: and end when its calls have, which
/// are not waited for; `Again`: at once.
fn dismiss(state_dir: &StateDir, machine: &MachineName, last: &Frame) -> Result<()> {
    let what = format!("end the bridge to '{machine}'");
    let bridges = machine::folder(state_dir, BRIDGES)?;
    let deadline = Deadline::after(Duration::from_secs(5));
    let Some(mut stream) = daemon::connect(&bridges, machine.as_str(), deadline).trying(&what)? else {
        return Ok(());
    };
    let mut unsent = Outbox::default();
    last.put(0, &mut unsent);
    unsent.flush(&mut stream).trying(&what)?;
    if poll::wait_readable(&stream, deadline).trying(&what)? {
        return Ok(());
    }
    let bridge = socket::peer_pid(&stream).trying(&what)?;
    let is_stopped = processes::stopped(bridge);
    Err(Failure::timed_out(format!("cannot {what}: process {bridge} does not answer{is_stopped}")))
}

/// The same, and removes what it was known by; `false` where there was nothing of it.
pub(crate) fn forget(state_dir: &StateDir, machine: &MachineName) -> Result<bool> {
    let what = format!("forget the bridge to '{machine}'");
    let bridges = machine::folder(state_dir, BRIDGES)?;
    let was_known = bridges.has(&bridge_id(machine));
    // Nobody starts one meanwhile.
    let deadline = Deadline::after(Duration::from_secs(5));
    let _lock = daemon::lock(&bridges, machine.as_str(), deadline).trying(&what)?;
    dismiss(state_dir, machine, &Frame::Bye)?;
    for file in [daemon::socket(machine.as_str()), bridge_id(machine), daemon::lock_file(machine.as_str())] {
        match bridges.remove_file(file.as_ref()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).trying(&what),
            _ => {}
        }
    }
    Ok(was_known)
}

/// The file with the number that the far side knows the bridge by.
pub(crate) fn bridge_id(machine: &MachineName) -> String {
    format!("{machine}.id")
}

/// The machines that a bridge runs for, or has run for.
pub(crate) fn bridged(state_dir: &StateDir) -> Result<Vec<MachineName>> {
    // Nothing is made for a look.
    if !state_dir.path().join(BRIDGES).exists() {
        return Ok(Vec::new());
    }
    let names = machine::folder(state_dir, BRIDGES)?.names().trying("list the bridges")?;
    let of_socket = |name: std::ffi::OsString| {
        let name = name.to_str()?.strip_suffix(".sock")?.to_owned();
        MachineName::parse(name.as_bytes())
    };
    Ok(names.into_iter().filter_map(of_socket).collect())
}
