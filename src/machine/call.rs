//! The caller's side of a call on another machine: a socket to the bridge, and a [`NearEnd`] that
//! produces its frames. The caller polls it and handles the results.

use std::{
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use crate::{
    jail,
    machine::{
        self, daemon,
        frames::{Decoder, FrameWriter, OpenCall, Stream, Text, Window, WireFrame},
        name::MachineName,
        near_end::{self, BridgeState, NearEnd, Wanted},
        outbox::{self, Buffer},
        outgoing::{LEAST_ROOM, Outgoing},
    },
    outcome::{Failure, Result, Trying},
    session::{BRIDGE, BRIDGES, SESSION_ENV, StateDir},
    sys::{
        as_fd, child,
        deadline::Deadline,
        files,
        poll::{self, PollSet},
        processes, random, socket,
    },
};
pub(crate) use near_end::{Came, End};

/// The most bytes of one read.
const AT_ONCE: usize = 128 * 1024;

/// The most of them before the caller handles what has come: it is passed on while the next comes.
const MOST_READS: usize = 2;

/// A bridge that ends this often does not work.
const MOST_BRIDGES: u32 = 20;

/// The size of a terminal, and the variables that describe its type.
pub(crate) type Terminal = (Window, Vec<(Vec<u8>, Vec<u8>)>);

pub(crate) struct RemoteCall {
    state_dir: StateDir,
    stream: UnixStream,
    end: NearEnd,
    /// The call's own timeout, if it has one.
    timeout: Option<Duration>,
    starts: u32,
    buffer: Buffer,
}

as_fd!(RemoteCall, stream);

impl RemoteCall {
    /// Calls; nothing is waited for but a bridge. `timeout` is the call's own, if it has one.
    pub(crate) fn begin(
        machine: &MachineName,
        words: Vec<Vec<u8>>,
        terminal: Option<Terminal>,
        timeout: Option<Duration>,
    ) -> Result<RemoteCall> {
        let state_dir = StateDir::open_or_make()?;
        let stream = connect(&state_dir, machine, near_end::patience(timeout))?;
        let key = u128::from_le_bytes(random::bytes().trying("generate a key")?);
        let (terminal, mut environment) =
            terminal.map_or((None, Vec::new()), |(window, kind)| (Some(window), kind));
        environment.push((machine::MACHINE_ENV.into(), machine.as_str().into()));
        let order = OpenCall { key, terminal, words, environment, ..OpenCall::default() };
        let end = NearEnd::new(machine, order, timeout, Instant::now());
        Ok(RemoteCall { state_dir, stream, end, timeout, starts: 1, buffer: Buffer::new(AT_ONCE) })
    }

    /// Runs a program there, with our own side's part of the words behind it; its output counts as
    /// under way until [`RemoteCall::take`].
    pub(crate) fn exec(machine: &MachineName, words: Vec<Vec<u8>>) -> Result<RemoteCall> {
        let words = [vec![machine::EXEC.to_vec()], words].concat();
        let mut call = RemoteCall::begin(machine, words, None, None)?;
        call.end.hold();
        Ok(call)
    }

    /// It does not come to its end, for this reason.
    pub(crate) fn lost(&self, why: &str) -> Failure {
        self.end.lost(why)
    }

    /// Notes that this many more bytes of its output have been printed.
    pub(crate) fn take(&mut self, stream: Stream, count: usize) {
        self.end.take(stream, count);
    }

    /// Has the program there closed this stream?
    pub(crate) fn has_closed(&self, stream: Stream) -> bool {
        self.end.has_closed(stream)
    }

    pub(crate) fn machine(&self) -> &MachineName {
        self.end.machine()
    }

    /// May more be given to it as standard input?
    pub(crate) fn wants_stdin(&self) -> bool {
        self.end.wants_stdin()
    }

    /// Its standard input; [`RemoteCall::end_stdin`] ends it.
    pub(crate) fn stdin(&mut self) -> &mut Outgoing {
        self.end.stdin()
    }

    /// Reads more of its standard input from a descriptor. Returns `None` if nothing is there yet, and 0 at the
    /// end: then call [`RemoteCall::end_stdin`].
    pub(crate) fn read_stdin(&mut self, from: &impl AsFd) -> io::Result<Option<usize>> {
        outbox::at_once(self.stdin().extend(LEAST_ROOM, &mut |piece| files::read_more(from, piece)))
    }

    pub(crate) fn end_stdin(&mut self) {
        self.end.end_stdin();
    }

    /// Passes a signal on.
    pub(crate) fn signal(&mut self, signal: i32) {
        self.end.signal(signal, Instant::now());
    }

    /// Does a signal reach it, or follow it?
    pub(crate) fn takes_signals(&self) -> bool {
        self.end.takes_signals()
    }

    pub(crate) fn resize(&mut self, window: Window) {
        self.end.resize(window);
    }

    /// Has it begun there, and is there a connection?
    pub(crate) fn is_open(&self) -> bool {
        self.end.is_open()
    }

    /// May it have begun there?
    pub(crate) fn was_sent(&self) -> bool {
        self.end.was_sent()
    }

    /// The reason why there is no connection, if there is none.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.end.trouble()
    }

    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        poll_set.peer(&self.stream, true, self.end.has_unsent(), event, None);
    }

    /// When it is to be tended at the latest.
    pub(crate) fn deadline(&self) -> Deadline {
        self.end.deadline()
    }

    /// Sends what there is to send, and takes what has come, as far as that can be done at once.
    pub(crate) fn drive(&mut self) -> Vec<Came> {
        let mut came = Vec::new();
        if !self.end.is_over()
            && let Err(failure) = self.try_to_drive(&mut came)
        {
            self.end.finish(failure, &mut came);
        }
        came
    }

    fn try_to_drive(&mut self, came: &mut Vec<Came>) -> Result<()> {
        self.flush();
        for _ in 0..MOST_READS {
            let wanted = match outbox::read(&mut &self.stream, &mut self.buffer) {
                Ok(None) => {
                    self.look_at_the_clock()?;
                    break;
                }
                Ok(Some(count)) if count > 0 => {
                    self.end.receive(&mut self.buffer[..count], Instant::now(), came)?
                }
                _ => Wanted::Bridge,
            };
            if wanted == Wanted::Bridge {
                return self.change_bridge();
            }
            if self.end.is_over() {
                return Ok(());
            }
        }
        self.flush();
        Ok(())
    }

    fn look_at_the_clock(&mut self) -> Result<()> {
        let stream = &self.stream;
        self.end.look_at_the_clock(Instant::now(), || {
            let process = socket::peer_pid(stream).unwrap_or_default();
            BridgeState { process, stopped: processes::stopped(process) }
        })
    }

    /// Sends what was given, as far as that can be done at once.
    pub(crate) fn send(&mut self) {
        if !self.end.is_over() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.end.flush(&mut &self.stream).is_err() {
            // Its end is read behind what it has said before.
            self.end.forget_unsent();
        }
    }

    /// The bridge was killed, or has just ended by itself: there is another one.
    fn change_bridge(&mut self) -> Result<()> {
        if socket::peer_pid(&self.stream).is_ok_and(|bridge| !jail::serves_us(bridge, None)) {
            let why = "its bridge rejects this process, which is confined (as by --write-root)";
            return Err(self.end.lost(why));
        }
        self.starts += 1;
        if self.starts > MOST_BRIDGES {
            return Err(self.end.lost("its bridge keeps ending"));
        }
        self.stream = connect(&self.state_dir, self.end.machine(), near_end::patience(self.timeout))
            .map_err(|failure| self.end.lost(failure.message().unwrap_or("its bridge ended")))?;
        self.end.change_bridge(Instant::now());
        Ok(())
    }
}

/// Connects to the bridge of a machine, and starts one if there is none.
fn connect(state_dir: &StateDir, machine: &MachineName, patience: Duration) -> Result<UnixStream> {
    let what = format!("start the bridge to '{machine}'");
    let deadline = Deadline::after(patience);
    let bridges = machine::folder(state_dir, BRIDGES)?;
    let stream = daemon::connect_or_start(&bridges, machine.as_str(), &what, deadline, &|| {
        let mut command = child::ourselves(BRIDGE);
        command.arg(machine.as_str()).arg(state_dir.path().join(BRIDGES)).env_remove(SESSION_ENV);
        command
    });
    let stream = stream.map_err(|failure| failure.into_status(255, "unreachable"))?;
    stream.set_nonblocking(true).trying(&what)?;
    Ok(stream)
}

/// The state that a bridge reports.
pub(crate) struct Told {
    pub(crate) calls: u32,
    pub(crate) round_trip: Duration,
    pub(crate) version: String,
    pub(crate) machine: String,
}

/// Requests the state of the bridge to a machine; `None` if there is none.
pub(crate) fn ask(state_dir: &StateDir, machine: &MachineName) -> Result<Option<Told>> {
    let what = format!("query the bridge to '{machine}'");
    let bridges = machine::folder(state_dir, BRIDGES)?;
    let deadline = Deadline::after(Duration::from_secs(5));
    let Some(stream) = daemon::connect(&bridges, machine.as_str(), deadline).trying(&what)? else {
        return Ok(None);
    };
    stream.set_nonblocking(true).trying(&what)?;
    let mut unsent = FrameWriter::default();
    unsent.put(0, &WireFrame::Ask);
    unsent.flush(&mut &stream).trying(&what)?;
    let (mut decoder, mut buffer) = (Decoder::default(), [0; 4096]);
    while poll::wait_readable(&stream, deadline).trying(&what)? {
        match outbox::read(&mut &stream, &mut buffer) {
            Ok(Some(count)) if count > 0 => {
                for (_, frame) in decoder.feed(&mut buffer[..count]).unwrap_or_default() {
                    if let WireFrame::Answer { calls, round_trip, version, machine } = frame {
                        let text = |Text(bytes): Text| crate::terminal::text::escaped(&bytes);
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
    Err(Failure::timed_out(format!("cannot {what}: it does not respond")))
}

/// Has the bridge to a machine end, since another way leads there: its calls go on with the next.
pub(crate) fn replace(state_dir: &StateDir, machine: &MachineName) -> Result<()> {
    dismiss(state_dir, machine, &WireFrame::Again)
}

/// Makes the bridge to a machine accept no more callers; `Bye`: and end after its calls, without our
/// waiting for it; `Again`: end at once.
fn dismiss(state_dir: &StateDir, machine: &MachineName, last: &WireFrame) -> Result<()> {
    let what = format!("end the bridge to '{machine}'");
    let bridges = machine::folder(state_dir, BRIDGES)?;
    let deadline = Deadline::after(Duration::from_secs(5));
    let Some(mut stream) = daemon::connect(&bridges, machine.as_str(), deadline).trying(&what)? else {
        return Ok(());
    };
    let mut unsent = FrameWriter::default();
    unsent.put(0, last);
    unsent.flush(&mut stream).trying(&what)?;
    if poll::wait_readable(&stream, deadline).trying(&what)? {
        return Ok(());
    }
    let bridge = socket::peer_pid(&stream).trying(&what)?;
    let is_stopped = processes::stopped(bridge);
    Err(Failure::timed_out(format!("cannot {what}: bridge process {bridge} does not respond{is_stopped}")))
}

/// The same, and removes its files; `false` if there were none.
pub(crate) fn forget(state_dir: &StateDir, machine: &MachineName) -> Result<bool> {
    let what = format!("forget the bridge to '{machine}'");
    let bridges = machine::folder(state_dir, BRIDGES)?;
    let was_known = bridges.has(&bridge_id(machine));
    // The lock keeps others from starting one meanwhile.
    let deadline = Deadline::after(Duration::from_secs(5));
    let _lock = daemon::lock(&bridges, machine.as_str(), deadline).trying(&what)?;
    dismiss(state_dir, machine, &WireFrame::Bye)?;
    for file in [daemon::socket(machine.as_str()), bridge_id(machine), daemon::lock_file(machine.as_str())] {
        bridges.remove_if_there(file.as_ref()).trying(&what)?;
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
