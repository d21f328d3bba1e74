//! The bridge: one process for each machine, which keeps one connection to it for all calls.
//!
//! Calls connect to a socket in the state directory. Each sends frames, which the bridge forwards
//! under the call's number; it returns the answers the same way. It keeps no state of a call: the two
//! ends know how far the call has come, and continue when there is a connection again, even by another
//! bridge. So killing a bridge loses nothing.

mod check;
mod transport;

use std::{
    env,
    fs::File,
    io,
    os::unix::net::{UnixListener, UnixStream},
    time::{Duration, Instant},
};

use crate::{
    jail::Admission,
    machine::{
        self,
        bootstrap::{Bootstrap, Step},
        bridge::transport::{Transport, last_of},
        call, daemon,
        executable::{self, Executable},
        frames::{
            Decoder, FrameWriter, LONGEST_WINDOW, PROTOCOL, ProtocolError, ReceivedFrame, Text, WireFrame,
        },
        name::{self, MachineName},
        outbox::{self, Buffer},
        silence::Silence,
    },
    outcome::{Failure, Result, Trying},
    session::{BRIDGE, BRIDGES, StateDir},
    sys::{
        child,
        deadline::Deadline,
        files::Folder,
        poll::{self, PollSet},
        random,
        socket::Entrance,
    },
    terminal::text,
};
pub(crate) use check::check;

/// The bridge ends after this long without a call.
const IDLE: Duration = Duration::from_secs(600);

/// The call that starts the bridge connects to it within this time, unless it was killed.
const FIRST_CALL: Duration = Duration::from_secs(5);

/// The interval at which we ask the far side for a sign of life, and send one to calls. Proxies close
/// connections that are silent for a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// If nothing arrives for this long, the connection is lost, whatever the transport says.
const SILENCE: Duration = Duration::from_secs(30);

/// How long it may take to get there, and between two signs of getting on.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The same for the first attempt after a loss; each further one has this much more. A transport
/// retries less and less often, and might miss the end of an outage for which calls still wait.
const FIRST_START_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for the far side to hang up when we announce our end.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long a call waits for a connection that was lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same where what came was no sense at all.
const PATIENCE_WITH_NONSENSE: Duration = Duration::from_secs(30);

/// The pause before the first try to connect again, and the longest: each is twice the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Is what came one of our frames?
type Sense = std::result::Result<(), ProtocolError>;

/// Why a connection was given up whose frames have wrong checksums.
const CHANGED: &str = "its connection is at fault: it changes the data";

/// The most bytes of one read.
const AT_ONCE: usize = 128 * 1024;

/// The most bytes that wait for the connection before we take more from any call.
const MOST_UNSENT: usize = 256 * 1024;

/// Becomes the bridge to a machine, until no call has come for a while.
pub(crate) fn serve(machine: &MachineName) -> Result<()> {
    let mut bridge = begin(machine).map_err(|failure| {
        // If our caller has gone, there is no one to notify.
        let _ = child::write_stdout(format!("-{failure}").as_bytes());
        Failure::quiet()
    })?;
    while !bridge.is_over() {
        bridge.turn().trying("wait for an event")?;
    }
    bridge.close();
    bridge.end();
    Ok(())
}

fn begin(machine: &MachineName) -> Result<Bridge> {
    let what = "become a process of its own";
    child::leave_session_as(BRIDGE).trying(what)?;
    child::leave_no_core().trying(what)?;
    child::raise_open_files().trying("raise the limit of open files")?;
    let state_dir = StateDir::open_or_make()?;
    let folder = machine::folder(&state_dir, BRIDGES)?;
    let (way, idle) = name::way_to(&state_dir, machine)?;
    let id = id(&folder, machine).trying("read the number of this bridge")?;
    let mut bridge = Bridge::new(way, id)?;
    bridge.idle = idle.unwrap_or(IDLE);
    bridge.until = Deadline::after(bridge.idle.min(FIRST_CALL));
    let listener = daemon::listen(&folder, machine.as_str()).trying("listen")?;
    // So that we do not keep the caller's directory in use.
    env::set_current_dir("/").trying("leave the caller's directory")?;
    bridge.door = Some(BridgeListener { listener, folder, file: daemon::socket(machine.as_str()) });
    Ok(bridge)
}

/// Our number at the far side. It is the same for each bridge of this state directory, so that the
/// next bridge takes over the calls of a killed one.
fn id(folder: &Folder, machine: &MachineName) -> io::Result<String> {
    let file = call::bridge_id(machine);
    match folder.read(&file, 64) {
        Ok(id) if id.len() == 16 && id.iter().all(u8::is_ascii_hexdigit) => {
            return Ok(String::from_utf8_lossy(&id).into_owned());
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let id = random::hex::<8>()?;
    folder.replace(&file, id.as_bytes())?;
    Ok(id)
}

struct Bridge {
    way: Vec<String>,
    id: String,
    copies: Vec<Executable>,
    /// When it is to be said again that we are there.
    tick: Deadline,
    /// `None`: it accepts no more calls.
    door: Option<BridgeListener>,
    entrance: Entrance,
    admission: Admission,
    idle: Duration,
    /// If no call comes until then, we end.
    until: Deadline,
    callers: Vec<Caller>,
    last: u32,
    link: Link,
    /// Why there is no connection.
    why: String,
    /// The line of the last one changed what passed over it: then it may be why the next fails.
    is_line_bad: bool,
    pause: Duration,
    /// How often it was tried to get there since there was a connection.
    tries: u32,
    connections: u32,
    patience: Duration,
    over: bool,
    /// It is wanted without a call, too.
    is_checking: bool,
    about: About,
    buffer: Buffer,
}

/// The socket for calls.
struct BridgeListener {
    listener: UnixListener,
    folder: Folder,
    file: String,
}

/// Facts about the connection, for users.
#[derive(Default)]
struct About {
    /// The version of the far side's file.
    version: Vec<u8>,
    /// How we got there last, or how far.
    bootstrap: Option<Bootstrap>,
    round_trip: Option<Duration>,
}

impl About {
    /// The directory of our file.
    fn machine(&self) -> String {
        let bootstrap = self.bootstrap.as_ref();
        bootstrap.map(|there| format!("{} {}", there.machine(), there.folder())).unwrap_or_default()
    }
}

enum Link {
    /// There is no connection; if a call needs one, the next attempt is then.
    Down { until: Deadline },
    /// We are getting there.
    Starting { transport: Transport, bootstrap: Bootstrap, gone: bool, decoder: Decoder, until: Deadline },
    Up {
        transport: Transport,
        decoder: Decoder,
        instance: u64,
        silence: Silence,
        /// When it was asked last whether it is there, if that is not answered.
        asked: Option<Instant>,
    },
}

struct Caller {
    /// The number of its call on this connection.
    number: u32,
    stream: UnixStream,
    decoder: Decoder,
    unsent: FrameWriter,
    /// It has our version, and has received the state of the connection.
    greeted: bool,
    /// Its call may have begun on a connection before, perhaps of another bridge.
    has_begun: bool,
    /// Its call is known on this connection.
    open: bool,
    gone: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BridgeEvent {
    Caller,
    FromCaller(u32),
    ToCaller(u32),
    Input,
    Output,
    Error,
}

/// Those that follow each other and belong to the same call, and are either all parts of a stream or not.
fn runs<'a, 'b>(frames: &'a mut [ReceivedFrame<'b>]) -> impl Iterator<Item = &'a mut [ReceivedFrame<'b>]> {
    frames.chunk_by_mut(|one, next| one.call() == next.call() && one.is_data() == next.is_data())
}

fn numbered(callers: &mut [Caller], number: u32) -> Option<&mut Caller> {
    callers.iter_mut().find(|caller| caller.number == number)
}

impl Bridge {
    /// A bridge without calls.
    fn new(way: Vec<String>, id: String) -> Result<Bridge> {
        Ok(Bridge {
            way,
            id,
            copies: executable::copies().trying("read our own file")?,
            tick: Deadline::after(KEEP_ALIVE),
            door: None,
            entrance: Entrance::default(),
            admission: Admission::new(None),
            idle: IDLE,
            until: Deadline::after(IDLE),
            callers: Vec::new(),
            last: 0,
            link: Link::Down { until: Deadline::after(Duration::ZERO) },
            why: String::new(),
            is_line_bad: false,
            pause: FIRST_PAUSE,
            tries: 0,
            connections: 0,
            patience: PATIENCE,
            over: false,
            is_checking: false,
            about: About::default(),
            buffer: Buffer::new(AT_ONCE),
        })
    }

    fn is_over(&self) -> bool {
        let idle = !self.is_wanted() && (self.until.has_passed() || self.door.is_none());
        idle || (self.over && self.callers.iter().all(|caller| caller.unsent.is_empty()))
    }

    /// Is there a call, and not only a query of the state?
    fn is_wanted(&self) -> bool {
        self.is_checking || self.callers.iter().any(|caller| caller.greeted)
    }

    /// Accepts no more callers; the next call starts another bridge. We remove the socket first, so
    /// that we do not remove the one of the next bridge.
    fn close(&mut self) {
        if let Some(door) = self.door.take() {
            // If it cannot be removed, calls find no listener, which has the same effect.
            let _ = door.folder.remove_file(door.file.as_ref());
        }
    }

    fn end(&mut self) {
        if let Link::Up { transport, .. } = &mut self.link {
            transport.unsent.put(0, &WireFrame::Bye);
            // If the far side does not receive this, its silence shows it later.
            transport.flush();
            transport.input = None;
            let until = Deadline::after(FAREWELL);
            while !until.has_passed()
                && poll::wait_readable(&transport.output, until).unwrap_or(false)
                && matches!(outbox::read(&mut transport.output, &mut [0; 4096]), Ok(None | Some(1..)))
            {
            }
        }
        self.link = Link::Down { until: Deadline::NEVER };
    }

    fn turn(&mut self) -> io::Result<()> {
        self.reconnect();
        let mut poll_set = PollSet::new();
        let mut deadline = if self.is_wanted() { self.tick } else { self.until };
        if let Some(door) = &self.door {
            deadline = deadline.min(self.entrance.watch(&door.listener, &mut poll_set, BridgeEvent::Caller));
        }
        let mut takes_more = true;
        match &self.link {
            Link::Down { until } if self.is_wanted() => deadline = deadline.min(*until),
            Link::Down { .. } => {}
            Link::Starting { transport, until, .. } => {
                transport.watch(&mut poll_set);
                deadline = deadline.min(*until);
            }
            Link::Up { transport, silence, .. } => {
                transport.watch(&mut poll_set);
                deadline = deadline.min(self.tick).min(silence.until());
                takes_more = transport.unsent.len() < MOST_UNSENT;
            }
        }
        for caller in &self.callers {
            poll_set.peer(
                &caller.stream,
                takes_more,
                !caller.unsent.is_empty(),
                BridgeEvent::FromCaller(caller.number),
                Some(BridgeEvent::ToCaller(caller.number)),
            );
        }
        for event in poll_set.wait(deadline)? {
            match event {
                BridgeEvent::Caller => self.accept(),
                BridgeEvent::FromCaller(number) => self.receive_caller(number, takes_more),
                // The caller has gone, and poll reports that again and again. So we read the
                // connection to its end, even if more than `MOST_UNSENT` waits. That is at most the
                // content of a socket's buffer.
                BridgeEvent::ToCaller(number) => self.receive_caller(number, true),
                BridgeEvent::Input => self.receive(),
                BridgeEvent::Output => {
                    // Our file goes there: while it gets on, nothing need come back.
                    let timeout = self.start_timeout();
                    if let Link::Starting { until, .. } = &mut self.link {
                        *until = Deadline::after(timeout);
                    }
                    self.flush();
                }
                BridgeEvent::Error => self.receive_error(),
            }
        }
        self.look_at_the_clock();
        self.flush();
        self.dismiss();
        Ok(())
    }

    fn look_at_the_clock(&mut self) {
        let (is_late, is_silent) = match &mut self.link {
            Link::Starting { until, .. } => (until.has_passed(), false),
            Link::Up { silence, .. } => (false, silence.is_too_long(Instant::now())),
            Link::Down { .. } => (false, false),
        };
        if is_late {
            let time = self.start_timeout().as_secs();
            self.disconnect(&format!("it has not responded for {time} s"), PATIENCE);
        }
        if is_silent {
            let why = format!("it has sent nothing for {} s", SILENCE.as_secs());
            // Calls have already waited this long.
            self.disconnect_since(&why, PATIENCE, SILENCE);
        }
        if self.tick.has_passed() {
            self.tick = Deadline::after(KEEP_ALIVE);
            self.ask();
            for caller in self.callers.iter_mut().filter(|caller| caller.greeted) {
                // A caller that does not read needs no further data.
                if caller.unsent.is_empty() {
                    caller.unsent.put(0, &WireFrame::Pong);
                }
            }
        }
    }

    /// Asks the far side whether it is there.
    fn ask(&mut self) {
        if let Link::Up { transport, asked, .. } = &mut self.link {
            transport.unsent.put(0, &WireFrame::Ping);
            *asked = Some(Instant::now());
        }
    }

    /// Drops callers that have gone, and notifies the far side.
    fn dismiss(&mut self) {
        self.callers.retain(|caller| {
            if let Link::Up { transport, .. } = &mut self.link
                && caller.gone
                && caller.open
            {
                transport.unsent.put(caller.number, &WireFrame::Close);
            }
            // Before the first attempt to connect, there is nothing to keep for the next call.
            if caller.gone && caller.greeted && self.tries + self.connections > 0 {
                self.until = Deadline::after(self.idle);
            }
            !caller.gone
        });
        self.flush();
    }

    fn accept(&mut self) {
        let Some(came) = self.door.as_ref().map(|door| door.listener.accept()) else { return };
        let Some(stream) = self.entrance.take(came) else { return };
        if self.admission.admit(&stream).is_err() || stream.set_nonblocking(true).is_err() {
            return;
        }
        self.last += 1;
        let caller = Caller {
            number: self.last,
            stream,
            decoder: Decoder::default(),
            unsent: FrameWriter::default(),
            greeted: false,
            has_begun: false,
            open: false,
            gone: false,
        };
        self.callers.push(caller);
    }

    fn receive_caller(&mut self, number: u32, takes_more: bool) {
        let Some(caller) = numbered(&mut self.callers, number) else { return };
        if caller.unsent.flush(&mut &caller.stream).is_err() {
            caller.gone = true;
            return;
        }
        if !takes_more {
            return;
        }
        let count = match outbox::read(&mut &caller.stream, &mut self.buffer) {
            Ok(None) => return,
            Ok(Some(count)) if count > 0 => count,
            _ => {
                caller.gone = true;
                return;
            }
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let handled = caller.decoder.receive(&mut buffer[..count]).and_then(|mut frames| {
            runs(&mut frames).try_for_each(|frames| self.receive_of_caller(number, frames))
        });
        // Secrets are among it.
        buffer[..count].fill(0);
        self.buffer = buffer;
        if let (Err(_), Some(caller)) = (handled, numbered(&mut self.callers, number)) {
            caller.gone = true;
        }
    }

    /// Takes frames of one [run](runs).
    fn receive_of_caller(&mut self, number: u32, frames: &mut [ReceivedFrame]) -> Sense {
        if !frames[0].is_data() {
            return frames.iter().try_for_each(|frame| {
                self.handle_caller(number, frame.parse()?);
                Ok(())
            });
        }
        if let Link::Up { transport, .. } = &mut self.link
            && numbered(&mut self.callers, number).is_some_and(|caller| caller.open)
        {
            transport.pass(number, frames);
        }
        Ok(())
    }

    fn handle_caller(&mut self, number: u32, frame: WireFrame) {
        let connections = self.connections;
        let Some(caller) = numbered(&mut self.callers, number) else { return };
        match frame {
            WireFrame::Caller { has_begun, version } if version == machine::VERSION.as_bytes() => {
                caller.greeted = true;
                caller.has_begun = has_begun;
                // So it sees that we are there, and not stopped.
                caller.unsent.put(0, &WireFrame::Pong);
                match &mut self.link {
                    Link::Up { instance, .. } => {
                        let up = WireFrame::Up { instance: *instance, connection: connections };
                        caller.unsent.put(0, &up);
                    }
                    // It need not wait for the rest of a long pause.
                    Link::Down { until } if connections > 0 => {
                        *until = until.min(Deadline::after(FIRST_PAUSE));
                        let (patience, why) = (self.patience.as_secs() as u16, self.why.clone().into_bytes());
                        caller.unsent.put(0, &WireFrame::Down { patience, why });
                        self.pause = FIRST_PAUSE;
                    }
                    _ => {}
                }
            }
            // We have another version: its calls need a bridge of their own, which can start when we
            // accept no more callers.
            WireFrame::Caller { .. } => {
                caller.unsent.put(0, &WireFrame::Again);
                self.close();
            }
            // The machine was removed. Callers notice our end.
            WireFrame::Bye => {
                caller.unsent.put(0, &WireFrame::Again);
                self.close();
            }
            // It is reached otherwise: calls go on with the next bridge, which is known by the
            // number that we are.
            WireFrame::Again => {
                self.close();
                self.link = Link::Down { until: Deadline::NEVER };
                self.over = true;
                for caller in &mut self.callers {
                    caller.open = false;
                    caller.unsent.put(0, &WireFrame::Again);
                }
            }
            WireFrame::Ask => {
                let answer = WireFrame::Answer {
                    calls: self.callers.len() as u32 - 1,
                    round_trip: self.about.round_trip.map_or(0, |time| time.as_micros() as u32),
                    version: Text(self.about.version.clone()),
                    machine: Text(self.about.machine().into_bytes()),
                };
                if let Some(caller) = numbered(&mut self.callers, number) {
                    caller.unsent.put(0, &answer);
                }
            }
            WireFrame::Open(order) => {
                // A message for an earlier connection is sent again.
                if let Link::Up { transport, .. } = &mut self.link
                    && order.connection == connections
                {
                    caller.open = true;
                    transport.unsent.put(number, &WireFrame::Open(order));
                }
            }
            frame => {
                if let Link::Up { transport, .. } = &mut self.link
                    && caller.open
                {
                    transport.unsent.put(number, &frame);
                }
            }
        }
    }

    /// Tries to connect, if a call needs it and the pause is over.
    fn reconnect(&mut self) {
        let Link::Down { until } = self.link else { return };
        if self.over || !self.is_wanted() || !until.has_passed() {
            return;
        }
        match self.start() {
            Ok(link) => self.link = link,
            Err(error) => self.disconnect(&error.to_string(), PATIENCE),
        }
    }

    fn start_timeout(&self) -> Duration {
        match self.connections {
            0 => START_TIMEOUT,
            _ => START_TIMEOUT.min(FIRST_START_TIMEOUT * self.tries),
        }
    }

    fn start(&mut self) -> io::Result<Link> {
        let mark = random::hex::<16>()?;
        let (bootstrap, script) = Bootstrap::new(&mark, &self.id, &self.copies);
        let mut transport = Transport::start(&self.way)?;
        transport.unsent.push(&script);
        self.tries += 1;
        let (decoder, until) = (Decoder::default(), Deadline::after(self.start_timeout()));
        Ok(Link::Starting { transport, bootstrap, gone: false, decoder, until })
    }

    /// The connection is lost, or there never was one. A call waits this long for the next one.
    fn disconnect(&mut self, why: &str, patience: Duration) {
        self.disconnect_since(why, patience, Duration::ZERO);
    }

    /// The same if calls have already waited for `waited` before we noticed.
    fn disconnect_since(&mut self, why: &str, patience: Duration, waited: Duration) {
        let link = std::mem::replace(&mut self.link, Link::Down { until: Deadline::after(self.pause) });
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let mut why = why.to_owned();
        let said = match link {
            Link::Starting { transport, bootstrap, .. } => {
                self.about.bootstrap = Some(bootstrap);
                if self.is_line_bad {
                    why = format!("{CHANGED}; since then {why}");
                }
                transport.last_words()
            }
            Link::Up { transport, .. } => {
                self.is_line_bad = why == CHANGED;
                transport.last_words()
            }
            Link::Down { .. } => String::new(),
        };
        self.why = if said.is_empty() { why } else { format!("{why}: {said}") };
        self.patience = patience;
        self.about.version.clear();
        self.about.round_trip = None;
        let why = self.why.clone().into_bytes();
        let left = patience.saturating_sub(waited).as_secs() as u16;
        let down = WireFrame::Down { patience: left, why: why.clone() };
        // A first attempt that fails is not a loss: nothing suggests that a retry would help.
        let failed = WireFrame::Failed { why };
        let has_worked = self.connections > 0;
        self.over = !has_worked && !self.callers.iter().any(|caller| caller.has_begun);
        for caller in &mut self.callers {
            caller.open = false;
            let frame = if has_worked || caller.has_begun { &down } else { &failed };
            caller.unsent.put(0, frame);
        }
        if self.over {
            self.close();
        }
    }

    fn receive(&mut self) {
        let transport = match &mut self.link {
            Link::Down { .. } => return,
            Link::Starting { transport, .. } | Link::Up { transport, .. } => transport,
        };
        match outbox::read(&mut transport.output, &mut self.buffer) {
            Ok(None) => {}
            Ok(Some(count)) if count > 0 => {
                let mut buffer = std::mem::take(&mut self.buffer);
                self.take(&mut buffer[..count]);
                self.buffer = buffer;
            }
            _ => self.ended(),
        }
    }

    /// The transport has hung up.
    fn ended(&mut self) {
        let (transport, why) = match &mut self.link {
            Link::Down { .. } => return,
            Link::Starting { transport, bootstrap, gone, .. } => {
                let noise = text::escaped(bootstrap.noise());
                let noise = noise.trim();
                let why = match *gone {
                    true => "our file ended there".to_owned(),
                    false if noise.is_empty() => "the command that connects ended".to_owned(),
                    false => format!("the command that connects ended, and printed '{}'", last_of(noise)),
                };
                (transport, why)
            }
            Link::Up { transport, .. } => (transport, "the connection was closed".to_owned()),
        };
        // By now its last message has arrived.
        transport.receive_last();
        self.disconnect(&why, PATIENCE);
    }

    fn take(&mut self, bytes: &mut [u8]) {
        let timeout = self.start_timeout();
        let mut rest;
        let frames = match &mut self.link {
            Link::Down { .. } => return,
            Link::Starting { bootstrap, gone: gone @ false, decoder, transport, until } => {
                *until = Deadline::after(timeout);
                match bootstrap.feed(bytes) {
                    None => return,
                    Some(Step::Failed(why)) => return self.disconnect(&why, PATIENCE),
                    Some(Step::Missing(machine)) => {
                        return self.disconnect(&executable::missing(&machine), PATIENCE);
                    }
                    Some(Step::Send(machine)) => {
                        let copy =
                            self.copies.iter().find(|copy| copy.machines().contains(&machine.as_str()));
                        match copy.map(|copy| File::open(&copy.path)) {
                            Some(Ok(file)) => transport.copy = Some(file),
                            Some(Err(error)) => {
                                return self.disconnect(&format!("our own file: {error}"), PATIENCE);
                            }
                            None => return self.disconnect(&executable::missing(&machine), PATIENCE),
                        }
                        return;
                    }
                    Some(Step::Gone(bytes)) => {
                        *gone = true;
                        rest = bytes;
                        decoder.receive(&mut rest)
                    }
                }
            }
            Link::Starting { decoder, .. } => decoder.receive(bytes),
            Link::Up { decoder, silence, .. } => {
                let frames = decoder.receive(bytes);
                // Part of a frame is not a sign of life: the rest may be lost.
                if frames.as_ref().is_ok_and(|frames| !frames.is_empty()) {
                    silence.end(Instant::now());
                }
                frames
            }
        };
        let handled =
            frames.and_then(|mut frames| runs(&mut frames).try_for_each(|frames| self.receive_run(frames)));
        match handled {
            Err(_) if matches!(self.link, Link::Down { .. }) => {}
            Err(nonsense) => {
                let is_up = matches!(self.link, Link::Up { .. });
                let why = match nonsense {
                    ProtocolError::Malformed(what) => format!("it sent {what}"),
                    ProtocolError::Changed if is_up => CHANGED.to_owned(),
                    ProtocolError::Changed => "it sent an invalid frame, or the line changed it".to_owned(),
                };
                self.disconnect(&why, PATIENCE_WITH_NONSENSE);
            }
            Ok(()) => {}
        }
    }

    /// Takes frames of one [run](runs) from the connection.
    fn receive_run(&mut self, frames: &mut [ReceivedFrame]) -> Sense {
        let number = frames[0].call();
        if frames[0].is_data() && matches!(self.link, Link::Up { .. }) {
            self.pass(number, &mut |caller| {
                caller.gone |= caller.unsent.pass(number, frames, &mut &caller.stream).is_err();
            });
            return Ok(());
        }
        frames.iter().try_for_each(|frame| {
            self.handle(number, frame.parse()?);
            Ok(())
        })
    }

    /// Passes frames on to their call.
    fn pass(&mut self, number: u32, put: &mut dyn FnMut(&mut Caller)) {
        // Frames of a call that has gone may still arrive.
        let Some(caller) = numbered(&mut self.callers, number).filter(|caller| caller.open) else {
            return;
        };
        put(caller);
        if caller.unsent.len() > LONGEST_WINDOW {
            self.disconnect("it sent more than allowed", PATIENCE_WITH_NONSENSE);
        }
    }

    fn handle(&mut self, number: u32, frame: WireFrame) {
        match (&mut self.link, frame) {
            (Link::Starting { .. }, WireFrame::Hello { protocol: PROTOCOL, instance, version }) => {
                self.about.version = version;
                self.up(instance);
            }
            (Link::Starting { .. }, WireFrame::Hello { .. }) => {
                self.disconnect("its file uses another version of our frames", PATIENCE_WITH_NONSENSE);
            }
            (Link::Up { .. }, WireFrame::Changed) => self.disconnect(CHANGED, PATIENCE_WITH_NONSENSE),
            (Link::Up { asked, .. }, WireFrame::Pong) if number == 0 => {
                self.about.round_trip = asked.take().map(|asked| asked.elapsed()).or(self.about.round_trip);
            }
            (
                Link::Up { .. },
                frame @ (WireFrame::Opened { .. }
                | WireFrame::End { .. }
                | WireFrame::Taken { .. }
                | WireFrame::Exit { .. }
                | WireFrame::Refused { .. }
                | WireFrame::Stopped { .. }
                | WireFrame::Pong),
            ) => {
                self.pass(number, &mut |caller| caller.unsent.put(number, &frame));
            }
            (Link::Down { .. }, _) => {}
            _ => self.disconnect("it sent a frame that it may not send", PATIENCE_WITH_NONSENSE),
        }
    }

    fn up(&mut self, instance: u64) {
        let link = std::mem::replace(&mut self.link, Link::Down { until: Deadline::NEVER });
        let Link::Starting { transport, decoder, bootstrap, .. } = link else { return };
        self.about.bootstrap = Some(bootstrap);
        let silence = Silence::new(SILENCE, Instant::now());
        self.link = Link::Up { transport, decoder, instance, silence, asked: None };
        self.connections += 1;
        // The reply measures the round trip.
        self.ask();
        (self.pause, self.tries) = (FIRST_PAUSE, 0);
        let up = WireFrame::Up { instance, connection: self.connections };
        for caller in self.callers.iter_mut().filter(|caller| caller.greeted) {
            caller.unsent.put(0, &up);
        }
    }

    fn receive_error(&mut self) {
        if let Link::Starting { transport, .. } | Link::Up { transport, .. } = &mut self.link {
            transport.receive_error();
        }
    }

    /// Sends what there is to send, both ways.
    fn flush(&mut self) {
        for caller in self.callers.iter_mut().filter(|caller| !caller.unsent.is_empty()) {
            caller.gone |= caller.unsent.flush(&mut &caller.stream).is_err();
        }
        if let Link::Starting { transport, .. } | Link::Up { transport, .. } = &mut self.link {
            transport.flush();
        }
    }
}
