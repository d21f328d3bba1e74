//! The bridge: one process for each machine, which keeps one connection to it for all calls.
//!
//! Calls come on a socket in the state folder. Each tells it what it has to say in frames, which
//! are passed on under the call's number; what comes back is passed back. Nothing of a call is
//! kept here: its two ends know how far it has come, and go on by themselves when there is a
//! connection again, also with another bridge. So one that is killed loses nothing.

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
    machine::{
        self,
        bootstrap::{Bootstrap, Step},
        bridge::transport::{Transport, last_of},
        call,
        content::{self, Copy},
        daemon,
        frames::{Decoder, Frame, PROTOCOL},
        name::{self, MachineName},
        outbox::{self, Outbox},
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
        socket::{self, Entrance},
    },
    terminal::text,
};
pub(crate) use check::check;

/// Without a call for so long, we end.
const IDLE: Duration = Duration::from_secs(600);

/// How often we ask the far side whether it is there, and tell calls that we are. Proxies cut what
/// is silent for a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// When nothing has come for so long, the connection is lost, whatever the transport says.
const SILENCE: Duration = Duration::from_secs(30);

/// How long it may take to get there, and between two signs of getting on.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the far side may take to hang up when it is told that we end.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long a call waits for a connection that was lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same where what came was no sense at all.
const PATIENCE_WITH_NONSENSE: Duration = Duration::from_secs(30);

/// The pause before the first try to connect again, and the longest: each is twice the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// So much waits for the connection at most, before more is taken of any call.
const MOST_UNSENT: usize = 256 * 1024;

/// Becomes the bridge to a machine, until nobody has called for a while.
pub(crate) fn serve(machine: &MachineName) -> Result<()> {
    let mut bridge = begin(machine).map_err(|failure| {
        // Where who started us has gone there is nobody left to tell.
        let _ = child::write_stdout(format!("-{failure}").as_bytes());
        Failure::Quiet
    })?;
    while !bridge.is_over() {
        bridge.turn().trying("wait for something to happen")?;
    }
    bridge.close();
    bridge.end();
    Ok(())
}

fn begin(machine: &MachineName) -> Result<Bridge> {
    let what = "become a process of its own";
    child::leave_session().trying(what)?;
    child::call_ourselves(BRIDGE).trying(what)?;
    child::leave_no_core().trying(what)?;
    child::raise_open_files().trying("raise the limit of open files")?;
    let state_dir = StateDir::open_or_make()?;
    let folder = machine::folder(&state_dir, BRIDGES)?;
    let (way, idle) = name::way_to(&state_dir, machine)?;
    let id = id(&folder, machine).trying("read the number of this bridge")?;
    let mut bridge = Bridge::new(way, id)?;
    bridge.idle = idle.unwrap_or(IDLE);
    bridge.until = Deadline::after(bridge.idle);
    let listener = daemon::listen(&folder, machine.as_str()).trying("listen")?;
    // Not to hold on to the folder that we were started in.
    env::set_current_dir("/").trying("leave the caller's folder")?;
    bridge.door = Some(Door { listener, folder, file: daemon::socket(machine.as_str()) });
    Ok(bridge)
}

/// The number that the far side knows us by: the same for each bridge of this state folder, so that
/// the next one takes up what one that was killed has left.
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
    copies: Vec<Copy>,
    /// When it is to be said again that we are there.
    tick: Deadline,
    /// `None`: nobody is let in any more.
    door: Option<Door>,
    entrance: Entrance,
    idle: Duration,
    /// When nobody calls until then, we end.
    until: Deadline,
    callers: Vec<Caller>,
    last: u32,
    link: Link,
    /// Why there is no connection.
    why: String,
    pause: Duration,
    connections: u32,
    patience: Duration,
    over: bool,
    /// It is wanted without a call, too.
    is_checking: bool,
    about: About,
}

/// Where calls come in.
struct Door {
    listener: UnixListener,
    folder: Folder,
    file: String,
}

/// What is told of the connection.
#[derive(Default)]
struct About {
    /// Of the far side's file.
    version: Vec<u8>,
    /// How we got there last, or how far.
    bootstrap: Option<Bootstrap>,
    round_trip: Option<Duration>,
}

impl About {
    /// Where our file is.
    fn machine(&self) -> String {
        let bootstrap = self.bootstrap.as_ref();
        bootstrap.map(|there| format!("{} {}", there.machine(), there.folder())).unwrap_or_default()
    }
}

enum Link {
    /// There is none; when there is somebody who wants one, the next try is then.
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
    /// Of its call, on this connection.
    number: u32,
    stream: UnixStream,
    decoder: Decoder,
    unsent: Outbox,
    /// It is of our version, and has been told how the connection is.
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

fn numbered(callers: &mut [Caller], number: u32) -> Option<&mut Caller> {
    callers.iter_mut().find(|caller| caller.number == number)
}

impl Bridge {
    /// One that nobody knows of yet.
    fn new(way: Vec<String>, id: String) -> Result<Bridge> {
        Ok(Bridge {
            way,
            id,
            copies: content::copies().trying("read our own file")?,
            tick: Deadline::after(KEEP_ALIVE),
            door: None,
            entrance: Entrance::default(),
            idle: IDLE,
            until: Deadline::after(IDLE),
            callers: Vec::new(),
            last: 0,
            link: Link::Down { until: Deadline::after(Duration::ZERO) },
            why: String::new(),
            pause: FIRST_PAUSE,
            connections: 0,
            patience: PATIENCE,
            over: false,
            is_checking: false,
            about: About::default(),
        })
    }

    fn is_over(&self) -> bool {
        let idle = !self.is_wanted() && (self.until.has_passed() || self.door.is_none());
        idle || (self.over && self.callers.iter().all(|caller| caller.unsent.is_empty()))
    }

    /// Is there a call, and not just somebody who asks how we are?
    fn is_wanted(&self) -> bool {
        self.is_checking || self.callers.iter().any(|caller| caller.greeted)
    }

    /// Lets nobody in any more: who wants to call starts another bridge. The socket goes first, so
    /// that it is not the other's that goes.
    fn close(&mut self) {
        if let Some(door) = self.door.take() {
            // Where it cannot be removed, nobody is behind it, which is as good.
            let _ = door.folder.remove_file(door.file.as_ref());
        }
    }

    fn end(&mut self) {
        if let Link::Up { transport, .. } = &mut self.link {
            Frame::Bye.put(0, &mut transport.unsent);
            // What is not taken at once is found out by its silence.
            let _ = transport.flush();
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
                BridgeEvent::FromCaller(number) => self.hear_caller(number, takes_more),
                // It has gone, which poll tells of for ever: it is read to its end, also where more
                // waits for the connection than `MOST_UNSENT`. That is no more than a socket holds.
                BridgeEvent::ToCaller(number) => self.hear_caller(number, true),
                BridgeEvent::Input => self.hear(),
                BridgeEvent::Output => {
                    // Our file goes there: while it gets on, nothing need come back.
                    if let Link::Starting { until, .. } = &mut self.link {
                        *until = Deadline::after(START_TIMEOUT);
                    }
                    self.flush();
                }
                BridgeEvent::Error => self.hear_error(),
            }
        }
        self.look_at_the_clock();
        self.flush();
        self.dismiss();
        Ok(())
    }

    fn look_at_the_clock(&mut self) {
        let late = match &mut self.link {
            Link::Starting { until, .. } => {
                until.has_passed().then_some(("it does not answer", START_TIMEOUT))
            }
            Link::Up { silence, .. } => {
                silence.is_too_long(Instant::now()).then_some(("nothing has come from it", SILENCE))
            }
            Link::Down { .. } => None,
        };
        if let Some((what, time)) = late {
            self.lose(&format!("{what} for {} s", time.as_secs()), PATIENCE);
        }
        if self.tick.has_passed() {
            self.tick = Deadline::after(KEEP_ALIVE);
            self.ask();
            for caller in self.callers.iter_mut().filter(|caller| caller.greeted) {
                // One that takes nothing needs no more to take.
                if caller.unsent.is_empty() {
                    Frame::Pong.put(0, &mut caller.unsent);
                }
            }
        }
    }

    /// Asks the far side whether it is there.
    fn ask(&mut self) {
        if let Link::Up { transport, asked, .. } = &mut self.link {
            Frame::Ping.put(0, &mut transport.unsent);
            *asked = Some(Instant::now());
        }
    }

    /// Lets go of callers that have gone, and tells the far side.
    fn dismiss(&mut self) {
        self.callers.retain(|caller| {
            if let Link::Up { transport, .. } = &mut self.link
                && caller.gone
                && caller.open
            {
                Frame::Close.put(caller.number, &mut transport.unsent);
            }
            if caller.gone && caller.greeted {
                self.until = Deadline::after(self.idle);
            }
            !caller.gone
        });
        self.flush();
    }

    fn accept(&mut self) {
        let Some(came) = self.door.as_ref().map(|door| door.listener.accept()) else { return };
        let Some(stream) = self.entrance.take(came) else { return };
        let ours = socket::peer_is_us(&stream).unwrap_or(false);
        if !ours || stream.set_nonblocking(true).is_err() {
            return;
        }
        self.last += 1;
        let caller = Caller {
            number: self.last,
            stream,
            decoder: Decoder::default(),
            unsent: Outbox::default(),
            greeted: false,
            has_begun: false,
            open: false,
            gone: false,
        };
        self.callers.push(caller);
    }

    fn hear_caller(&mut self, number: u32, takes_more: bool) {
        let Some(caller) = numbered(&mut self.callers, number) else { return };
        if caller.unsent.flush(&mut &caller.stream).is_err() {
            caller.gone = true;
            return;
        }
        if !takes_more {
            return;
        }
        let mut buffer = [0; 64 * 1024];
        let frames = match outbox::read(&mut &caller.stream, &mut buffer) {
            Ok(None) => return,
            Ok(Some(count)) if count > 0 => caller.decoder.feed(&buffer[..count]),
            _ => {
                caller.gone = true;
                return;
            }
        };
        // Secrets are among it.
        buffer.fill(0);
        let Ok(frames) = frames else {
            caller.gone = true;
            return;
        };
        for (_, frame) in frames {
            self.heed_caller(number, frame);
        }
    }

    fn heed_caller(&mut self, number: u32, frame: Frame) {
        let connections = self.connections;
        let Some(caller) = numbered(&mut self.callers, number) else { return };
        match frame {
            Frame::Caller { has_begun, version } if version == machine::VERSION.as_bytes() => {
                caller.greeted = true;
                caller.has_begun = has_begun;
                match &mut self.link {
                    Link::Up { instance, .. } => {
                        let up = Frame::Up { instance: *instance, connection: connections };
                        up.put(0, &mut caller.unsent);
                    }
                    // It need not wait for the rest of a long pause.
                    Link::Down { until } if connections > 0 => {
                        *until = until.min(Deadline::after(FIRST_PAUSE));
                        let (patience, why) = (self.patience.as_secs() as u16, self.why.clone().into_bytes());
                        Frame::Down { patience, why }.put(0, &mut caller.unsent);
                        self.pause = FIRST_PAUSE;
                    }
                    _ => {}
                }
            }
            // We are of another version: its calls need a bridge of its own, and it can have one
            // when we let nobody in.
            Frame::Caller { .. } => {
                Frame::Again.put(0, &mut caller.unsent);
                self.close();
            }
            // The machine is no more. Our end is told by itself.
            Frame::Bye => {
                Frame::Again.put(0, &mut caller.unsent);
                self.close();
            }
            // It is reached otherwise: calls go on with the next bridge, which is known by the
            // number that we are.
            Frame::Again => {
                self.close();
                self.link = Link::Down { until: Deadline::NEVER };
                self.over = true;
                for caller in &mut self.callers {
                    caller.open = false;
                    Frame::Again.put(0, &mut caller.unsent);
                }
            }
            Frame::Ask => {
                let answer = Frame::Answer {
                    calls: self.callers.len() as u32 - 1,
                    round_trip: self.about.round_trip.map_or(0, |time| time.as_micros() as u32),
                    version: self.about.version.clone(),
                    machine: self.about.machine().into_bytes(),
                };
                if let Some(caller) = numbered(&mut self.callers, number) {
                    answer.put(0, &mut caller.unsent);
                }
            }
            Frame::Open(order) => {
                // One that was meant for a connection before is sent anew.
                if let Link::Up { transport, .. } = &mut self.link
                    && order.connection == connections
                {
                    caller.open = true;
                    Frame::Open(order).put(number, &mut transport.unsent);
                }
            }
            frame => {
                if let Link::Up { transport, .. } = &mut self.link
                    && caller.open
                {
                    frame.put(number, &mut transport.unsent);
                }
            }
        }
    }

    /// Tries to get there, where somebody wants that and it is time.
    fn reconnect(&mut self) {
        let Link::Down { until } = self.link else { return };
        if self.over || !self.is_wanted() || !until.has_passed() {
            return;
        }
        match self.start() {
            Ok(link) => self.link = link,
            Err(error) => self.lose(&error.to_string(), PATIENCE),
        }
    }

    fn start(&mut self) -> io::Result<Link> {
        let mark = random::hex::<16>()?;
        let (bootstrap, script) = Bootstrap::new(&mark, &self.id, &self.copies);
        let mut transport = Transport::start(&self.way)?;
        transport.unsent.extend(script);
        let (decoder, until) = (Decoder::default(), Deadline::after(START_TIMEOUT));
        Ok(Link::Starting { transport, bootstrap, gone: false, decoder, until })
    }

    /// There is no connection (any more).
    fn lose(&mut self, why: &str, patience: Duration) {
        let link = std::mem::replace(&mut self.link, Link::Down { until: Deadline::after(self.pause) });
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let said = match link {
            Link::Starting { transport, bootstrap, .. } => {
                self.about.bootstrap = Some(bootstrap);
                transport.last_words()
            }
            Link::Up { transport, .. } => transport.last_words(),
            Link::Down { .. } => String::new(),
        };
        self.why = if said.is_empty() { why.to_owned() } else { format!("{why}: {said}") };
        self.patience = patience;
        self.about.version.clear();
        self.about.round_trip = None;
        let why = self.why.clone().into_bytes();
        let down = Frame::Down { patience: patience.as_secs() as u16, why: why.clone() };
        // What has never worked is not a loss: nothing tells that trying again would help.
        let failed = Frame::Failed { why };
        let has_worked = self.connections > 0;
        self.over = !has_worked && !self.callers.iter().any(|caller| caller.has_begun);
        for caller in &mut self.callers {
            caller.open = false;
            let frame = if has_worked || caller.has_begun { &down } else { &failed };
            frame.put(0, &mut caller.unsent);
        }
        if self.over {
            self.close();
        }
    }

    fn hear(&mut self) {
        let transport = match &mut self.link {
            Link::Down { .. } => return,
            Link::Starting { transport, .. } | Link::Up { transport, .. } => transport,
        };
        let mut buffer = [0; 64 * 1024];
        let count = match outbox::read(&mut transport.output, &mut buffer) {
            Ok(None) => return,
            Ok(Some(count)) if count > 0 => count,
            _ => return self.ended(),
        };
        self.take(&buffer[..count]);
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
                    false if noise.is_empty() => "its command ended".to_owned(),
                    false => format!("its command ended, and printed '{}'", last_of(noise)),
                };
                (transport, why)
            }
            Link::Up { transport, .. } => (transport, "the connection was closed".to_owned()),
        };
        // What it says at last, it has said by now.
        transport.hear_last();
        self.lose(&why, PATIENCE);
    }

    fn take(&mut self, bytes: &[u8]) {
        let frames = match &mut self.link {
            Link::Down { .. } => return,
            Link::Starting { bootstrap, gone: gone @ false, decoder, transport, until } => {
                *until = Deadline::after(START_TIMEOUT);
                match bootstrap.feed(bytes) {
                    None => return,
                    Some(Step::Failed(why)) => return self.lose(&why, PATIENCE),
                    Some(Step::Missing(machine)) => return self.lose(&content::missing(&machine), PATIENCE),
                    Some(Step::Send(machine)) => {
                        let copy =
                            self.copies.iter().find(|copy| copy.machines().contains(&machine.as_str()));
                        match copy.map(|copy| File::open(&copy.path)) {
                            Some(Ok(file)) => transport.copy = Some(file),
                            Some(Err(error)) => {
                                return self.lose(&format!("our own file: {error}"), PATIENCE);
                            }
                            None => return self.lose(&content::missing(&machine), PATIENCE),
                        }
                        return;
                    }
                    Some(Step::Gone(bytes)) => {
                        *gone = true;
                        decoder.feed(&bytes)
                    }
                }
            }
            Link::Starting { decoder, .. } => decoder.feed(bytes),
            Link::Up { decoder, silence, .. } => {
                silence.end(Instant::now());
                decoder.feed(bytes)
            }
        };
        match frames {
            Err(nonsense) => self.lose(&format!("it sends {}", nonsense.0), PATIENCE_WITH_NONSENSE),
            Ok(frames) => {
                for (number, frame) in frames {
                    self.heed(number, frame);
                }
            }
        }
    }

    fn heed(&mut self, number: u32, frame: Frame) {
        match (&mut self.link, frame) {
            (Link::Starting { .. }, Frame::Hello { protocol: PROTOCOL, instance, version }) => {
                self.about.version = version;
                self.up(instance);
            }
            (Link::Starting { .. }, Frame::Hello { .. }) => {
                self.lose("its file speaks another version of our frames", PATIENCE_WITH_NONSENSE);
            }
            (Link::Up { asked, .. }, Frame::Pong) if number == 0 => {
                self.about.round_trip = asked.take().map(|asked| asked.elapsed()).or(self.about.round_trip);
            }
            (
                Link::Up { .. },
                frame @ (Frame::Opened { .. }
                | Frame::Data { .. }
                | Frame::Taken { .. }
                | Frame::Exit { .. }
                | Frame::Refused { .. }
                | Frame::Pong),
            ) => {
                // Of one that has gone, some may still be under way.
                let Some(caller) = numbered(&mut self.callers, number).filter(|caller| caller.open) else {
                    return;
                };
                frame.put(number, &mut caller.unsent);
                if caller.unsent.len() > machine::frames::WINDOW as usize * 3 {
                    self.lose("it sends more than it may", PATIENCE_WITH_NONSENSE);
                }
            }
            (Link::Down { .. }, _) => {}
            _ => self.lose("it sends what is not its to send", PATIENCE_WITH_NONSENSE),
        }
    }

    fn up(&mut self, instance: u64) {
        let link = std::mem::replace(&mut self.link, Link::Down { until: Deadline::NEVER });
        let Link::Starting { transport, decoder, bootstrap, .. } = link else { return };
        self.about.bootstrap = Some(bootstrap);
        let silence = Silence::new(SILENCE, Instant::now());
        self.link = Link::Up { transport, decoder, instance, silence, asked: None };
        self.connections += 1;
        // Which tells the round trip.
        self.ask();
        self.pause = FIRST_PAUSE;
        let up = Frame::Up { instance, connection: self.connections };
        for caller in self.callers.iter_mut().filter(|caller| caller.greeted) {
            up.put(0, &mut caller.unsent);
        }
    }

    fn hear_error(&mut self) {
        if let Link::Starting { transport, .. } | Link::Up { transport, .. } = &mut self.link {
            transport.hear_error();
        }
    }

    /// Sends what there is to send, both ways.
    fn flush(&mut self) {
        for caller in self.callers.iter_mut().filter(|caller| !caller.unsent.is_empty()) {
            caller.gone |= caller.unsent.flush(&mut &caller.stream).is_err();
        }
        let failed = match &mut self.link {
            Link::Starting { transport, .. } | Link::Up { transport, .. } => transport.flush().is_err(),
            Link::Down { .. } => false,
        };
        // It says why by its end.
        if failed && let Link::Starting { transport, .. } | Link::Up { transport, .. } = &mut self.link {
            transport.input = None;
            transport.unsent.clear();
        }
    }
}
