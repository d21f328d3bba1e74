//! The caller's end of a call on another machine, as a machine of its own: bytes from the bridge
//! and the time go in, bytes for the bridge and what came of the call come out.
//!
//! It is here that a call goes on when there is a connection again: what was sent and is not
//! acknowledged is kept, and how much has come is counted. A call that may have begun is never
//! begun again: it goes on with the process of the far side that it was sent to, or is lost.
//!
//! Pure. [`far_end`](crate::machine::far_end) is the other end; its tests drive both.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use crate::{
    machine::{
        self,
        frames::{ACKNOWLEDGE, Decoder, FrameWriter, OpenCall, ProtocolError, Stream, Window, WireFrame},
        name::MachineName,
        outgoing::{AT_ONCE, Outgoing},
        silence::Silence,
    },
    outcome::{Failure, Result},
    sys::deadline::Deadline,
};

/// How long a call waits to begin, or to go on, or for a sign of its bridge, which says every 20 s
/// that it is there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// After a call's own timeout the verb is about to report it, and we ask the far side for a sign of
/// life. Silence for this long means that it is lost: a busy machine, or a line that loses a packet
/// twice, takes seconds.
const GRACE: Duration = Duration::from_secs(5);

/// How many times GRACE the command has for reporting its timeout, if the far side answers: `run` gives up
/// 3 s after its timeout.
const MOST_GRACES: u32 = 2;

/// A bridge answers at once, unless it is stopped, or the machine is very busy: then we look which.
const GREETING: Duration = Duration::from_secs(2);

/// The far side begins a call at once. After this long without that, we ask it for a sign of life; its
/// answer can only come after the beginning.
const OPENING: Duration = Duration::from_secs(20);

/// A connection of this length was more than an interval between two losses.
const SETTLED: Duration = Duration::from_secs(10);

/// The process of a call may be stopped for a moment, but not for longer than this.
const LONGEST_STOP: Duration = Duration::from_secs(10);

/// As much comes at once from a bridge that has more.
const READ_AT_ONCE: usize = 128 * 1024;

/// A result for the caller.
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

/// A request of the bridge to its caller, besides data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Nothing,
    /// Connect to another bridge: this one accepts no more callers.
    Bridge,
}

/// The process at the other end of our socket: its PID, and what to say if it is stopped.
pub(crate) struct BridgeState {
    pub(crate) process: u32,
    pub(crate) stopped: String,
}

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

/// Why there was, or is, no connection, and when the call is given up if it does not get on.
struct Trouble {
    until: Instant,
    why: String,
}

/// Messages to the bridge or the far side without an answer yet.
struct Unanswered {
    since: Instant,
    /// When it is to be looked whether it was.
    until: Instant,
    /// There is something amiss already: it is stopped, or was asked whether it is there.
    suspect: bool,
}

/// The call's own. The verb says itself that it has passed, where the connection stands.
struct Timeout {
    time: Duration,
    /// When it is to be looked whether the far side has said anything; `None`: never.
    until: Option<Instant>,
    /// How often it was looked since the time has passed.
    graces: u32,
    /// Frames since the last check: any of the far side; any of the call itself.
    far_answered: bool,
    call_got_on: bool,
}

pub(crate) struct NearEnd {
    machine: MachineName,
    decoder: Decoder,
    unsent: FrameWriter,
    order: OpenCall,
    progress: Progress,
    /// It is known on this connection, so that its streams go on.
    open: bool,
    /// Since when there is a connection; `None`: there is none.
    up: Option<Instant>,
    /// Invariant: without a connection, there is trouble.
    trouble: Option<Trouble>,
    /// The silence of the bridge.
    silence: Silence,
    greeting: Option<Unanswered>,
    opening: Option<Unanswered>,
    /// A signal followed the call on this connection, and it has not been reported as begun.
    is_interrupted: bool,
    /// The process that executes it there, if it is stopped, and since when it is known.
    stopped: Option<(u32, Instant)>,
    timeout: Option<Timeout>,
    /// How often it was sent.
    tries: u32,
    stdin: Outgoing,
    /// How much of its standard output and error our caller has taken, and the acknowledged part.
    taken: [u64; 2],
    told: [u64; 2],
    /// Our caller says itself what it has taken.
    holds: bool,
    /// Its standard input, output and error: the program has closed them.
    closed: [bool; 3],
    over: bool,
}

impl Progress {
    fn has_begun(self) -> bool {
        matches!(self, Progress::Begun { .. })
    }
}

impl Timeout {
    fn new(time: Duration, now: Instant) -> Timeout {
        Timeout { time, until: now.checked_add(time), graces: 0, far_answered: false, call_got_on: false }
    }
}

impl Unanswered {
    fn new(now: Instant, patience: Duration) -> Option<Unanswered> {
        Some(Unanswered { since: now, until: now + patience, suspect: false })
    }
}

/// How long a call with this timeout, if it has one, waits for a bridge.
pub(crate) fn patience(timeout: Option<Duration>) -> Duration {
    timeout.map_or(PATIENCE, |time| time.saturating_add(GRACE).min(PATIENCE))
}

impl NearEnd {
    /// `timeout` is the call's own, if it has one.
    pub(crate) fn new(
        machine: &MachineName,
        order: OpenCall,
        timeout: Option<Duration>,
        now: Instant,
    ) -> NearEnd {
        let mut end = NearEnd {
            machine: machine.clone(),
            decoder: Decoder::default(),
            unsent: FrameWriter::default(),
            order,
            progress: Progress::NotBegun,
            open: false,
            up: None,
            trouble: Some(Trouble { until: now + PATIENCE, why: "it has not been reached yet".into() }),
            silence: Silence::new(PATIENCE, now),
            greeting: None,
            opening: None,
            is_interrupted: false,
            stopped: None,
            timeout: timeout.map(|time| Timeout::new(time, now)),
            tries: 0,
            stdin: Outgoing::default(),
            taken: [0; 2],
            told: [0; 2],
            holds: false,
            closed: [false; 3],
            over: false,
        };
        end.greet(now);
        end
    }

    fn greet(&mut self, now: Instant) {
        self.decoder = Decoder::default();
        self.unsent = FrameWriter::default();
        self.greeting = Unanswered::new(now, GREETING);
        self.silence.end(now);
        let has_begun = self.was_sent();
        self.unsent.put(0, &WireFrame::Caller { has_begun, version: machine::VERSION.as_bytes().to_vec() });
    }

    /// The bridge has ended; there is another one.
    pub(crate) fn change_bridge(&mut self, now: Instant) {
        self.down(PATIENCE, "its bridge ended", now);
        self.greet(now);
    }

    pub(crate) fn machine(&self) -> &MachineName {
        &self.machine
    }

    /// May more be given to it as standard input?
    pub(crate) fn wants_stdin(&self) -> bool {
        self.open && self.stdin.has_room()
    }

    /// Its standard input; [`NearEnd::end_stdin`] ends it.
    pub(crate) fn stdin(&mut self) -> &mut Outgoing {
        &mut self.stdin
    }

    pub(crate) fn end_stdin(&mut self) {
        self.stdin.end();
        self.order.is_silent = self.progress == Progress::NotBegun && self.stdin.length() == 0;
    }

    /// Passes a signal on. If the call has been sent and not reported as begun, the signal follows it, and the
    /// call waits at most GREETING for that report.
    pub(crate) fn signal(&mut self, signal: i32, now: Instant) {
        let frame = WireFrame::Signal { number: signal as u8 };
        match &mut self.opening {
            Some(opening) => {
                (opening.suspect, opening.until) = (true, opening.until.min(now + GREETING));
                self.is_interrupted = true;
                self.unsent.put(0, &frame);
            }
            None => self.send(&frame),
        }
    }

    /// Does a signal reach it, or follow it?
    pub(crate) fn takes_signals(&self) -> bool {
        self.open || self.opening.is_some()
    }

    pub(crate) fn resize(&mut self, window: Window) {
        self.order.terminal = Some(window);
        self.send(&WireFrame::Resize(window));
    }

    /// Has it begun there, and is there a connection?
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// May it have begun there?
    pub(crate) fn was_sent(&self) -> bool {
        self.progress != Progress::NotBegun
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// The reason why there is no connection, if there is none.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().filter(|_| self.up.is_none()).map(|trouble| &*trouble.why)
    }

    fn send(&mut self, frame: &WireFrame) {
        if self.open {
            self.unsent.put(0, frame);
        }
    }

    /// Is there something that the bridge has not taken yet?
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The bridge takes no more; what it has said is still to be read.
    pub(crate) fn forget_unsent(&mut self) {
        self.unsent.clear();
    }

    /// Gives the bridge what it takes at once.
    pub(crate) fn flush(&mut self, onto: &mut dyn Write) -> io::Result<()> {
        self.unsent.flush(onto)?;
        while self.open
            && !self.order.is_silent
            && self.unsent.is_empty()
            && self.stdin.send_next(Stream::Stdin, 0, true, AT_ONCE, (&mut self.unsent, onto))?
        {
            self.unsent.flush(onto)?;
        }
        Ok(())
    }

    /// The latest time of the next check.
    pub(crate) fn deadline(&self) -> Deadline {
        let at = |moment: Option<Instant>| moment.map_or(Deadline::NEVER, Deadline::at);
        let trouble = self.trouble.as_ref().filter(|_| self.up.is_none());
        at(trouble.map(|trouble| trouble.until))
            .min(self.silence.until())
            .min(at(self.greeting.as_ref().map(|greeting| greeting.until)))
            .min(at(self.opening.as_ref().map(|opening| opening.until)))
            .min(at(self.timeout.as_ref().and_then(|timeout| timeout.until)))
    }

    /// Checks all deadlines. Call it when everything that arrived was received. `bridge` returns the
    /// state of the process at the other end of the socket.
    pub(crate) fn look_at_the_clock(&mut self, now: Instant, bridge: impl Fn() -> BridgeState) -> Result<()> {
        let trouble = self.trouble.as_ref().filter(|_| self.up.is_none());
        let has_waited = trouble.is_some_and(|trouble| now >= trouble.until);
        if has_waited || self.silence.is_too_long(now) {
            return Err(self.unreceived(&bridge()));
        }
        if let Some(greeting) = self.greeting.as_mut().filter(|greeting| now >= greeting.until) {
            let state = bridge();
            if greeting.suspect && !state.stopped.is_empty() {
                return Err(self.unreceived(&state));
            }
            greeting.suspect = !state.stopped.is_empty();
            greeting.until = now + GREETING;
        }
        if let Some(opening) = self.opening.as_mut().filter(|opening| now >= opening.until) {
            if opening.suspect {
                return Err(self.lost("it does not report whether the call started"));
            }
            (opening.suspect, opening.until) = (true, opening.since + PATIENCE);
            self.unsent.put(0, &WireFrame::Ping);
        }
        self.look_at_its_timeout(now, bridge)
    }

    fn look_at_its_timeout(&mut self, now: Instant, bridge: impl Fn() -> BridgeState) -> Result<()> {
        let Some(timeout) = self.timeout.as_mut() else { return Ok(()) };
        if timeout.until.is_none_or(|until| now < until) {
            return Ok(());
        }
        if timeout.graces > 0 && !timeout.call_got_on {
            if !timeout.far_answered {
                return Err(self.unreceived(&bridge()));
            }
            if let Some((process, _)) = self.stopped {
                return Err(self.timed_out(&why_stopped(process)));
            }
            if timeout.graces >= MOST_GRACES {
                return Err(self.timed_out("the process that executes it there does not end"));
            }
        }
        timeout.graces = if timeout.call_got_on { 1 } else { timeout.graces + 1 };
        (timeout.far_answered, timeout.call_got_on) = (false, false);
        timeout.until = Some(now + GRACE);
        self.send(&WireFrame::Ping);
        Ok(())
    }

    /// Nothing has come for too long.
    fn unreceived(&self, bridge: &BridgeState) -> Failure {
        let BridgeState { process, stopped } = bridge;
        match &self.trouble {
            _ if !stopped.is_empty() => {
                self.lost(&format!("its bridge, process {process}, does not respond{stopped}"))
            }
            Some(trouble) => self.lost(&trouble.why),
            None => self.lost(&format!("its bridge, process {process}, does not respond")),
        }
    }

    /// Takes what has come from the bridge.
    pub(crate) fn receive(&mut self, bytes: &mut [u8], now: Instant, came: &mut Vec<Came>) -> Result<Wanted> {
        let frames = self.decoder.receive(bytes).map_err(|nonsense| self.malformed(nonsense))?;
        self.silence.end(now);
        self.greeting = None;
        for frame in frames {
            let number = frame.call();
            // Frames of the connection come from the bridge itself.
            if let Some(timeout) = self.timeout.as_mut().filter(|_| number != 0) {
                timeout.far_answered = true;
            }
            if let Some((stream @ (Stream::Stdout | Stream::Stderr), offset, bytes)) = frame.data() {
                self.data(stream, offset, bytes, came)?;
                continue;
            }
            let frame = frame.parse().map_err(|nonsense| self.malformed(nonsense))?;
            if self.handle(number, frame, now, came)? == Wanted::Bridge {
                return Ok(Wanted::Bridge);
            }
            if self.over {
                break;
            }
        }
        Ok(Wanted::Nothing)
    }

    fn handle(
        &mut self,
        number: u32,
        frame: WireFrame,
        now: Instant,
        came: &mut Vec<Came>,
    ) -> Result<Wanted> {
        match frame {
            WireFrame::Up { instance, connection } => self.up(instance, connection, now)?,
            WireFrame::Down { patience, why } => {
                self.down(Duration::from_secs(patience.into()), &String::from_utf8_lossy(&why), now);
            }
            // A new bridge may say so before it has read that this call has begun; the next one knows.
            WireFrame::Failed { .. } if self.was_sent() => return Ok(Wanted::Bridge),
            WireFrame::Failed { why } => return Err(self.lost(&String::from_utf8_lossy(&why))),
            WireFrame::Again => return Ok(Wanted::Bridge),
            WireFrame::Opened { stdin } => self.opened(stdin, now)?,
            WireFrame::Pong if number != 0 && self.opening.is_some() => {
                return Err(self.lost("it responds, but does not report that the call started"));
            }
            WireFrame::Pong => {}
            WireFrame::Taken { stream: Stream::Stdin, offset } => {
                if !self.stdin.acknowledge(offset) {
                    return Err(self.nonsense());
                }
                self.get_on();
            }
            WireFrame::End { stream } => {
                self.closed[stream as usize] = true;
                self.get_on();
            }
            WireFrame::Stopped { process } => match self.stopped {
                Some((before, since)) if before == process => {
                    if now.saturating_duration_since(since) >= LONGEST_STOP {
                        return Err(self.lost(&why_stopped(process)));
                    }
                }
                _ => self.stopped = Some((process, now)),
            },
            WireFrame::Exit { code, signal: 0 } if self.progress.has_begun() => {
                self.over = true;
                came.push(Came::Ended(End::Exit(code)));
            }
            // This is not an exit code of the verb.
            WireFrame::Exit { signal, .. } if self.progress.has_begun() => {
                return Err(self.lost(&format!("signal {signal} ended the process that executed it there")));
            }
            WireFrame::Refused { why } => {
                let why = String::from_utf8_lossy(&why).into_owned();
                // It may have begun on a connection before.
                if self.tries > 1 {
                    return Err(self.lost(&why));
                }
                return Err(Failure::failed(format!("cannot call there: {why}")).on(&self.machine));
            }
            _ => return Err(self.nonsense()),
        }
        Ok(Wanted::Nothing)
    }

    /// There is a connection: the call is made, or goes on.
    fn up(&mut self, instance: u64, connection: u32, now: Instant) -> Result<()> {
        match self.progress {
            Progress::NotBegun => self.progress = Progress::Sent { instance },
            Progress::Sent { instance: before } | Progress::Begun { instance: before }
                if before != instance =>
            {
                return Err(self.lost("the process that executed it there has ended"));
            }
            _ => {}
        }
        if self.is_interrupted {
            return Err(self.lost("interrupted"));
        }
        self.up = Some(now);
        self.open = false;
        self.opening = Unanswered::new(now, OPENING);
        self.order.connection = connection;
        self.tries += 1;
        if !self.holds {
            self.told = [self.order.stdout, self.order.stderr];
        }
        self.unsent.put(0, &WireFrame::Open(self.order.clone()));
        Ok(())
    }

    fn down(&mut self, patience: Duration, why: &str, now: Instant) {
        if self.up.take().is_some_and(|since| now.saturating_duration_since(since) >= SETTLED) {
            self.trouble = None;
        }
        self.open = false;
        self.opening = None;
        // An interrupted call does not wait for another connection.
        let patience = if self.is_interrupted { Duration::ZERO } else { patience };
        // If several losses follow each other, the first counts.
        let before = self.trouble.take().map(|trouble| trouble.until);
        let until = before.into_iter().fold(now + patience, Instant::min);
        self.trouble = Some(Trouble { until, why: why.to_owned() });
    }

    fn opened(&mut self, stdin: u64, now: Instant) -> Result<()> {
        let (Progress::Sent { instance } | Progress::Begun { instance }) = self.progress else {
            return Err(self.nonsense());
        };
        if !self.stdin.go_on(stdin) {
            return Err(self.nonsense());
        }
        if !self.progress.has_begun() {
            self.timeout = self.timeout.take().map(|timeout| Timeout::new(timeout.time, now));
            self.get_on();
        }
        self.progress = Progress::Begun { instance };
        self.open = true;
        self.opening = None;
        self.is_interrupted = false;
        // An earlier acknowledgement may have been lost.
        if self.holds {
            for (stream, offset) in [Stream::Stdout, Stream::Stderr].into_iter().zip(self.taken) {
                self.send(&WireFrame::Taken { stream, offset });
            }
            self.told = self.taken;
        }
        // The size may have changed while there was no connection.
        if let Some(window) = self.order.terminal {
            self.send(&WireFrame::Resize(window));
        }
        Ok(())
    }

    fn data(&mut self, stream: Stream, offset: u64, bytes: &[u8], came: &mut Vec<Came>) -> Result<()> {
        let count = match stream {
            Stream::Stdout => &mut self.order.stdout,
            _ => &mut self.order.stderr,
        };
        if offset != *count || bytes.is_empty() {
            return Err(self.nonsense());
        }
        *count += bytes.len() as u64;
        if !self.holds {
            self.take(stream, bytes.len());
        }
        self.get_on();
        match (stream, came.last_mut()) {
            // Adjacent pieces of one stream are passed on together.
            (Stream::Stdout, Some(Came::Stdout(before))) | (Stream::Stderr, Some(Came::Stderr(before))) => {
                before.reserve(READ_AT_ONCE);
                before.extend_from_slice(bytes);
            }
            (Stream::Stdout, _) => came.push(Came::Stdout(bytes.to_vec())),
            _ => came.push(Came::Stderr(bytes.to_vec())),
        }
        Ok(())
    }

    /// Our caller has done with so many more bytes of it.
    pub(crate) fn take(&mut self, stream: Stream, count: usize) {
        let at = usize::from(stream != Stream::Stdout);
        self.taken[at] += count as u64;
        let offset = self.taken[at];
        // Without a connection, it is said on the next one.
        if self.open && offset - self.told[at] >= ACKNOWLEDGE {
            self.told[at] = offset;
            self.send(&WireFrame::Taken { stream, offset });
        }
    }

    /// Our caller may be slow: only what it says that it has taken is acknowledged.
    pub(crate) fn hold(&mut self) {
        self.holds = true;
    }

    /// Has the program there closed this stream?
    pub(crate) fn has_closed(&self, stream: Stream) -> bool {
        self.closed[stream as usize]
    }

    /// There is something new of the call itself.
    fn get_on(&mut self) {
        if self.up.is_some() {
            self.trouble = None;
        }
        self.stopped = None;
        if let Some(timeout) = &mut self.timeout {
            timeout.call_got_on = true;
        }
    }

    fn malformed(&self, nonsense: ProtocolError) -> Failure {
        let what = match nonsense {
            ProtocolError::Changed => "an invalid frame",
            ProtocolError::Malformed(what) => what,
        };
        self.lost(&format!("the bridge sent {what}"))
    }

    fn nonsense(&self) -> Failure {
        self.lost("it sent invalid data")
    }

    /// The call's own timeout has passed, and the connection stands.
    fn timed_out(&self, why: &str) -> Failure {
        Failure::timed_out(format!("timed out: {why}")).on(&self.machine)
    }

    /// Ends it: exit 255, with what is known.
    pub(crate) fn lost(&self, why: &str) -> Failure {
        let (known, kind) = match self.progress {
            Progress::NotBegun => ("nothing was done", "unreachable"),
            _ if self.up.is_some() => ("it is unknown whether it was done", "lost"),
            _ => ("the connection was lost, and it is unknown whether it was done", "lost"),
        };
        let machine = &self.machine;
        let message = format!("{machine}: {known}: {why}; see 'nbs-ts machine check {machine}'");
        Failure::status(255, kind, Some(message))
    }

    /// Nothing more will come of it.
    pub(crate) fn finish(&mut self, failure: Failure, came: &mut Vec<Came>) {
        if !self.over {
            self.over = true;
            came.push(Came::Ended(End::Lost(failure)));
        }
    }
}

fn why_stopped(process: u32) -> String {
    format!("process {process}, which executes it there, is stopped; try 'kill -CONT {process}' there")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call, its bridge, and a clock.
    struct Talk {
        end: NearEnd,
        bridge: FrameWriter,
        begun: Instant,
        seconds: u64,
        is_stopped: bool,
        wanted: Wanted,
        ended: Option<End>,
    }

    const UP: WireFrame = WireFrame::Up { instance: 1, connection: 1 };
    const OPENED: WireFrame = WireFrame::Opened { stdin: 0 };
    /// The number of a call, as the bridge uses it.
    const OURS: u32 = 9;

    impl Talk {
        fn begin(timeout: Option<u64>) -> Talk {
            let (machine, begun) = (MachineName::parse(b"box").unwrap(), Instant::now());
            let timeout = timeout.map(Duration::from_secs);
            let end = NearEnd::new(&machine, OpenCall::default(), timeout, begun);
            let (bridge, wanted) = (FrameWriter::default(), Wanted::Nothing);
            Talk { end, bridge, begun, seconds: 0, is_stopped: false, wanted, ended: None }
        }

        /// A call that has begun there.
        fn open(timeout: Option<u64>) -> Talk {
            let mut talk = Talk::begin(timeout);
            talk.says(0, &UP);
            talk.says(OURS, &OPENED);
            talk
        }

        fn changes_bridge(&mut self) {
            self.end.change_bridge(self.begun);
            self.bridge = FrameWriter::default();
        }

        fn says(&mut self, number: u32, frame: &WireFrame) {
            let mut bytes = Vec::new();
            self.bridge.put(number, frame);
            self.bridge.flush(&mut bytes).unwrap();
            self.receives(&bytes);
        }

        fn receives(&mut self, bytes: &[u8]) {
            let (now, stopped) = (self.begun + Duration::from_secs(self.seconds), self.is_stopped);
            let mut came = Vec::new();
            let received = self.end.receive(&mut bytes.to_vec(), now, &mut came).and_then(|wanted| {
                self.wanted = wanted;
                let stopped = if stopped { ", and is stopped".to_owned() } else { String::new() };
                self.end.look_at_the_clock(now, || BridgeState { process: 5, stopped: stopped.clone() })
            });
            if let Err(failure) = received {
                self.end.finish(failure, &mut came);
            }
            for came in came {
                if let Came::Ended(end) = came {
                    self.ended = Some(end);
                }
            }
        }

        /// The frames sent to the bridge since the last check.
        fn sent(&mut self) -> Vec<WireFrame> {
            let mut bytes = Vec::new();
            self.end.flush(&mut bytes).unwrap();
            self.end.unsent = FrameWriter::default();
            let frames = Decoder::default().feed(&mut bytes).unwrap();
            frames.into_iter().map(|(_, frame)| frame).collect()
        }

        /// Passes second by second until it has ended, and something is said in each; gives when
        /// it ended, its exit code, and what was said.
        fn ends(&mut self, most: u64, mut each: impl FnMut(&mut Talk)) -> (u64, u8, String) {
            while self.ended.is_none() && self.seconds < most {
                self.seconds += 1;
                each(self);
                if self.ended.is_none() {
                    // Nothing but the time.
                    self.silence();
                }
            }
            match self.ended.take() {
                Some(End::Lost(failure)) => {
                    (self.seconds, failure.code(), failure.message().unwrap_or_default().to_owned())
                }
                other => panic!("{other:?} after {} s", self.seconds),
            }
        }

        fn silence(&mut self) {
            let (now, stopped) = (self.begun + Duration::from_secs(self.seconds), self.is_stopped);
            let stopped = if stopped { ", and is stopped".to_owned() } else { String::new() };
            let bridge = || BridgeState { process: 5, stopped: stopped.clone() };
            if let Err(failure) = self.end.look_at_the_clock(now, bridge) {
                let mut came = Vec::new();
                self.end.finish(failure, &mut came);
                self.ended = came.pop().map(|came| match came {
                    Came::Ended(end) => end,
                    _ => panic!("no end"),
                });
            }
        }

        /// The bridge says every 20 s that it is there.
        fn keep_alive(&mut self) {
            if self.seconds.is_multiple_of(20) {
                self.says(0, &WireFrame::Pong);
            }
        }
    }

    #[test]
    fn a_bridge_that_is_stopped_is_found_out_in_seconds_and_one_that_is_slow_is_waited_for() {
        let mut talk = Talk::begin(None);
        talk.is_stopped = true;
        let (seconds, code, said) = talk.ends(100, |_| ());
        assert!((3..=6).contains(&seconds) && code == 255, "{seconds} {said}");
        assert_eq!(
            said,
            "box: nothing was done: its bridge, process 5, does not respond, and is stopped; \
             see 'nbs-ts machine check box'"
        );
        // Stopped for a moment only.
        let mut talk = Talk::begin(None);
        let (seconds, code, said) = talk.ends(100, |talk| talk.is_stopped = talk.seconds == 2);
        assert!(seconds == 60 && code == 255, "{seconds} {said}");
        // It has said that it is there, and nothing else.
        let mut talk = Talk::begin(None);
        talk.says(0, &WireFrame::Pong);
        talk.is_stopped = true;
        assert_eq!(talk.ends(100, |_| ()).0, 60);
    }

    #[test]
    fn a_far_side_that_answers_and_does_not_begin_is_given_up_within_30_s() {
        let mut talk = Talk::begin(None);
        talk.says(0, &UP);
        let (seconds, code, said) = talk.ends(100, |talk| {
            talk.keep_alive();
            if talk.sent().contains(&WireFrame::Ping) {
                talk.says(OURS, &WireFrame::Pong);
            }
        });
        assert!(
            seconds <= 30 && code == 255 && said.contains("does not report that the call started"),
            "{said}"
        );
        // On a line that is slow, its answer may take longer.
        let mut talk = Talk::begin(None);
        talk.says(0, &UP);
        assert_eq!(talk.ends(100, Talk::keep_alive).0, 60);
    }

    #[test]
    fn a_timeout_that_passes_while_the_connection_stands_is_a_timeout() {
        let answers = |talk: &mut Talk| {
            talk.keep_alive();
            if talk.sent().contains(&WireFrame::Ping) {
                talk.says(OURS, &WireFrame::Pong);
            }
        };
        let (seconds, code, said) = Talk::open(Some(7)).ends(100, answers);
        assert!((12..=17).contains(&seconds) && code == 3, "{seconds} {code} {said}");
        let (seconds, code, said) = Talk::open(Some(7)).ends(100, |talk| {
            talk.keep_alive();
            if talk.sent().contains(&WireFrame::Ping) {
                talk.says(OURS, &WireFrame::Pong);
                talk.says(OURS, &WireFrame::Stopped { process: 77 });
            }
        });
        assert!(seconds == 12 && code == 3 && said.contains("'kill -CONT 77' there"), "{seconds} {said}");
        // If nothing arrives from there, it is a loss and not a timeout.
        let (seconds, code, said) = Talk::open(Some(7)).ends(100, Talk::keep_alive);
        assert!(seconds == 12 && code == 255, "{seconds} {code} {said}");
    }

    #[test]
    fn a_call_that_still_prints_after_its_timeout_is_awaited() {
        let mut talk = Talk::open(Some(2));
        let mut offset = 0;
        let (seconds, code, _) = talk.ends(200, |talk| {
            talk.keep_alive();
            if talk.sent().contains(&WireFrame::Ping) {
                talk.says(OURS, &WireFrame::Pong);
            }
            if talk.seconds < 100 {
                talk.says(OURS, &WireFrame::Data { stream: Stream::Stdout, offset, bytes: b"x".into() });
                offset += 1;
            }
        });
        assert!((105..=115).contains(&seconds) && code == 3, "{seconds}");
    }

    #[test]
    fn a_call_whose_process_stays_stopped_ends_and_one_that_was_stopped_for_a_moment_does_not() {
        let stopped = WireFrame::Stopped { process: 77 };
        let (seconds, code, said) = Talk::open(None).ends(100, |talk| {
            talk.keep_alive();
            if talk.seconds.is_multiple_of(20) {
                talk.says(OURS, &stopped);
            }
        });
        assert!(seconds == 40 && code == 255 && said.contains("process 77, "), "{seconds} {said}");
        let mut talk = Talk::open(None);
        talk.says(OURS, &stopped);
        talk.seconds = 15;
        talk.says(OURS, &WireFrame::Data { stream: Stream::Stderr, offset: 0, bytes: b"x".into() });
        talk.says(OURS, &stopped);
        assert!(talk.ended.is_none());
    }

    #[test]
    fn a_call_that_no_connection_gets_on_is_given_up_with_the_reason() {
        let down = WireFrame::Down { patience: 30, why: b"its connection is at fault".into() };
        // Each connection stands, opens it, and is lost before anything of it comes.
        let mut talk = Talk::open(None);
        let (seconds, code, said) = talk.ends(100, |talk| match talk.seconds % 3 {
            0 => talk.says(0, &down),
            1 => talk.says(0, &UP),
            _ => talk.says(OURS, &OPENED),
        });
        assert!((30..=36).contains(&seconds) && code == 255, "{seconds}");
        assert!(said.contains("its connection is at fault"), "{said}");
        // The same with a byte each time.
        let (mut talk, mut offset) = (Talk::open(None), 0);
        while talk.seconds < 300 {
            talk.seconds += 1;
            match talk.seconds % 4 {
                0 => talk.says(0, &down),
                1 => talk.says(0, &UP),
                2 => talk.says(OURS, &OPENED),
                _ => {
                    talk.says(OURS, &WireFrame::Data { stream: Stream::Stdout, offset, bytes: b"x".into() });
                    offset += 1;
                }
            }
            assert!(talk.ended.is_none());
        }
        // The same with connections that stand for a while.
        let mut talk = Talk::open(None);
        for round in 1..20 {
            talk.seconds = round * 25;
            talk.says(0, &down);
            talk.seconds += 5;
            talk.says(0, &UP);
            talk.says(OURS, &OPENED);
            assert!(talk.ended.is_none());
        }
    }

    #[test]
    fn a_call_that_has_begun_survives_a_first_attempt_of_a_new_bridge() {
        let failed = WireFrame::Failed { why: b"its command ended".to_vec() };
        let mut talk = Talk::open(None);
        talk.changes_bridge();
        talk.says(0, &failed);
        assert!(talk.ended.is_none() && talk.wanted == Wanted::Bridge);
        talk.changes_bridge();
        talk.says(0, &UP);
        talk.says(OURS, &OPENED);
        assert!(talk.ended.is_none() && talk.end.is_open());
        let mut talk = Talk::begin(None);
        talk.says(0, &failed);
        assert!(matches!(talk.ended, Some(End::Lost(_))));
    }

    #[test]
    fn a_signal_follows_a_call_that_has_been_sent() {
        let down = WireFrame::Down { patience: 60, why: Vec::new() };
        for (answer, ends_after) in
            [(Some((OURS, &OPENED)), None), (Some((0, &down)), Some(0)), (None, Some(2))]
        {
            let mut talk = Talk::begin(None);
            assert!(!talk.end.takes_signals());
            talk.says(0, &UP);
            assert!(talk.end.takes_signals());
            talk.end.signal(15, talk.begun);
            let sent = talk.sent();
            assert!(
                matches!(sent[..], [.., WireFrame::Open(_), WireFrame::Signal { number: 15 }]),
                "{sent:?}"
            );
            if let Some((number, frame)) = answer {
                talk.says(number, frame);
            }
            if ends_after.is_none() {
                talk.seconds = 10;
                talk.silence();
                talk.says(0, &down);
                assert!(talk.ended.is_none());
            } else {
                let (seconds, code, _) = talk.ends(10, |_| ());
                assert_eq!((Some(seconds), code), (ends_after, 255));
            }
        }
    }

    /// The next connection may stand before the call has looked at the clock.
    #[test]
    fn a_signal_is_not_forgotten_with_its_connection() {
        let mut talk = Talk::begin(None);
        talk.says(0, &UP);
        talk.end.signal(15, talk.begun);
        let mut bytes = Vec::new();
        talk.bridge.put(0, &WireFrame::Down { patience: 60, why: Vec::new() });
        talk.bridge.put(0, &WireFrame::Up { instance: 1, connection: 2 });
        talk.bridge.flush(&mut bytes).unwrap();
        talk.receives(&bytes);
        let (seconds, code, said) = talk.ends(0, |_| ());
        assert_eq!((seconds, code), (0, 255), "{said}");
    }

    #[test]
    fn a_call_that_may_have_begun_is_not_sent_to_another_process_of_the_far_side() {
        for has_begun in [false, true] {
            let mut talk = Talk::begin(None);
            talk.says(0, &UP);
            assert!(talk.sent().iter().any(|frame| matches!(frame, WireFrame::Open(_))));
            if has_begun {
                talk.says(OURS, &OPENED);
            }
            talk.says(0, &WireFrame::Down { patience: 60, why: Vec::new() });
            talk.says(0, &WireFrame::Up { instance: 2, connection: 2 });
            assert!(!talk.sent().iter().any(|frame| matches!(frame, WireFrame::Open(_))));
            let (_, code, said) = talk.ends(0, |_| ());
            assert!(code == 255 && said.contains("it is unknown whether it was done"), "{said}");
        }
    }
}
