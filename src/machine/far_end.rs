//! The far side's end of all calls of a bridge, as a state machine: it takes bytes from the connection
//! and the time, and returns bytes for the connection and [`Effect`]s.
//!
//! Each call has a key. A known call continues where it was, on whichever connection it is opened. It
//! is begun only once, even if it was given up because no bridge took it over in time.
//!
//! Pure. [`near_end`](crate::machine::near_end) is the other end; the tests drive both.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, Write},
    iter,
    time::{Duration, Instant},
};

use crate::machine::{
    self,
    frames::{
        ACKNOWLEDGE, Decoder, FrameWriter, LONGEST, OpenCall, PROTOCOL, ProtocolError, ReceivedFrame, Stream,
        WINDOW, Window, WireFrame,
    },
    outgoing::{AT_ONCE, LONGEST_PIECE, Outgoing},
};

/// How long we keep a lost connection, and a call that no bridge takes over. It is longer than callers
/// wait, so that their errors are true.
pub(crate) const LINGER: Duration = Duration::from_secs(90);

/// How long a program goes on without a connection: callers give it up then.
const PROGRAM_LINGER: Duration = Duration::from_secs(60);

/// A bridge sends something at least every 20 s. If it sends nothing for this long, it is gone,
/// whatever the transport says.
const SILENCE: Duration = Duration::from_secs(75);

/// The most bytes that wait for the connection before we take more from any call. They delay the data of
/// another call for as long as the connection takes to send them.
const MOST_UNSENT: usize = 128 * 1024;

/// A caller that has room sends all that it has read.
const READ_AT_ONCE: u64 = LONGEST_PIECE as u64;

/// The most pieces of its input that a program is given at once: a pipe holds no more.
const MOST_PIECES: usize = 16;

/// Calls at a time; each is a process with three descriptors of ours.
const MOST_CALLS: usize = 200;

/// An action for the caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Execute the call of that key, then call [`FarEnd::begun`].
    Begin {
        key: u128,
        order: Box<OpenCall>,
    },
    /// Something came for its standard input, or its end.
    Input {
        key: u128,
    },
    Signal {
        key: u128,
        number: u8,
    },
    Resize {
        key: u128,
        window: Window,
    },
    /// No one reads its output any more, nor writes its input.
    HangUp {
        key: u128,
    },
    /// It is to be killed and collected.
    Kill {
        key: u128,
    },
}

pub(crate) struct FarEnd {
    instance: u64,
    link: Option<Link>,
    calls: Vec<ServedCall>,
    /// The keys of calls that were given up. A later bridge must not begin one of them again.
    abandoned: Vec<u128>,
    /// Which one's turn it is to send.
    next: usize,
    /// Without a connection, until when one is waited for.
    until: Instant,
    farewell: bool,
}

/// A connection.
struct Link {
    decoder: Decoder,
    /// Received frames that are not processed yet.
    frames: VecDeque<(u32, WireFrame)>,
    unsent: FrameWriter,
    silent_until: Instant,
    /// Received bytes were changed: we read no more, and end once we have reported it.
    changed: bool,
}

pub(crate) struct ServedCall {
    /// Which one it is, on every connection.
    key: u128,
    /// Its number on this connection; `None` if no bridge has taken it over.
    number: Option<u32>,
    /// If so, the time until which it is kept.
    orphaned: Option<Instant>,
    /// It is useless without its caller.
    waits: bool,
    has_terminal: bool,
    /// It runs a program, whose streams end apart, and whose processes end with the call.
    is_exec: bool,
    /// There is a process that executes it.
    runs: bool,
    out: Outgoing,
    err: Outgoing,
    /// Bytes for its standard input, as they came, and how many of the first ones are written.
    pending: VecDeque<Vec<u8>>,
    start: usize,
    /// How many have arrived, been written and been acknowledged.
    came: u64,
    written: u64,
    acknowledged: u64,
    stdin_ended: bool,
    /// The program reads no more, and whether that has been sent on this connection.
    stdin_closed: bool,
    close_sent: bool,
    status: Option<(u8, u8)>,
    exit_sent: bool,
    refused: Option<String>,
    /// Its caller is gone; it is kept until its process is reaped.
    forgotten: bool,
    /// Nothing is left of it.
    is_over: bool,
}

impl FarEnd {
    /// `instance` is a number that no other one of these has.
    pub(crate) fn new(instance: u64, now: Instant) -> FarEnd {
        FarEnd {
            instance,
            link: None,
            calls: Vec::new(),
            abandoned: Vec::new(),
            next: 0,
            until: now + LINGER,
            farewell: false,
        }
    }

    /// Is it no longer needed?
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.farewell || (self.link.is_none() && now >= self.until)
    }

    /// A connection takes the place of the one before, which the bridge has given up.
    pub(crate) fn connect(&mut self, now: Instant) {
        self.disconnect(now);
        let mut link = Link {
            decoder: Decoder::default(),
            frames: VecDeque::new(),
            unsent: FrameWriter::default(),
            silent_until: now + SILENCE,
            changed: false,
        };
        let version = machine::VERSION.as_bytes().to_vec();
        link.unsent.put(0, &WireFrame::Hello { protocol: PROTOCOL, instance: self.instance, version });
        self.link = Some(link);
    }

    /// The connection is lost since then; its calls continue.
    pub(crate) fn disconnect(&mut self, since: Instant) {
        if self.link.take().is_none() {
            return;
        }
        self.until = since + LINGER;
        for call in self.calls.iter_mut().filter(|call| !call.forgotten) {
            call.number = None;
            call.orphaned = Some(since + if call.is_exec { PROGRAM_LINGER } else { LINGER });
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Is more to be read of the connection?
    pub(crate) fn wants_bytes(&self) -> bool {
        self.link.as_ref().is_some_and(|link| !link.changed)
    }

    /// Is there something that the connection has not taken yet?
    pub(crate) fn has_unsent(&self) -> bool {
        self.link.as_ref().is_some_and(|link| !link.unsent.is_empty())
    }

    /// The latest time of the next check.
    pub(crate) fn until(&self) -> Instant {
        let until = self.link.as_ref().map_or(self.until, |link| link.silent_until);
        self.calls.iter().filter_map(|call| call.orphaned).fold(until, Instant::min)
    }

    pub(crate) fn call(&mut self, key: u128) -> Option<&mut ServedCall> {
        self.calls.iter_mut().find(|call| call.key == key)
    }

    /// Takes what has come on the connection; [`FarEnd::next_effect`] says what comes of it. `write` passes
    /// standard input to the process of a call, and returns how many bytes it accepted at once.
    pub(crate) fn receive(
        &mut self,
        bytes: &mut [u8],
        now: Instant,
        write: &mut dyn FnMut(u128, &[IoSlice]) -> usize,
    ) {
        let Some(link) = self.link.as_mut().filter(|link| !link.changed) else { return };
        let received = link.decoder.receive(bytes).and_then(|mut frames| {
            // Part of a frame is not a sign of life: the rest may be lost.
            if !frames.is_empty() {
                link.silent_until = now + SILENCE;
            }
            let mut rest = &mut frames[..];
            // Input that the process accepts at once is not copied.
            while let (true, Some(frame)) = (link.frames.is_empty(), rest.first())
                && let Some(call) = self.calls.iter_mut().find(|call| call.number == Some(frame.call()))
            {
                match call
                    .pass_input(rest, write)
                    .map_err(|Senseless| ProtocolError::Malformed("a frame out of place"))?
                {
                    0 => break,
                    count => rest = &mut rest[count..],
                }
            }
            for frame in rest {
                link.frames.push_back((frame.call(), frame.parse()?));
            }
            Ok(())
        });
        match received {
            Ok(()) => {}
            Err(ProtocolError::Changed) => self.send_changed(),
            Err(ProtocolError::Malformed(_)) => self.disconnect(now),
        }
    }

    /// The bridge is to know why this connection ends: not even what it sends it knows to be right.
    fn send_changed(&mut self) {
        if let Some(link) = &mut self.link {
            link.changed = true;
            link.frames.clear();
            link.unsent.put(0, &WireFrame::Changed);
        }
    }

    /// The next action, before further frames are processed. `stopped` returns the PID of a call's
    /// process if that is stopped.
    pub(crate) fn next_effect(
        &mut self,
        now: Instant,
        stopped: &dyn Fn(u128) -> Option<u32>,
    ) -> Option<Effect> {
        while let Some((number, frame)) = self.link.as_mut().and_then(|link| link.frames.pop_front()) {
            let effect = self.handle(number, frame, now, stopped);
            // Several pieces of its input are written at once.
            let next = self.link.as_ref().and_then(|link| link.frames.front());
            let goes_on = |(other, frame): &(u32, WireFrame)| {
                *other == number && matches!(frame, WireFrame::Data { .. })
            };
            if matches!(effect, Some(Effect::Input { .. })) && next.is_some_and(goes_on) {
                continue;
            }
            if effect.is_some() {
                return effect;
            }
        }
        None
    }

    fn handle(
        &mut self,
        number: u32,
        frame: WireFrame,
        now: Instant,
        stopped: &dyn Fn(u128) -> Option<u32>,
    ) -> Option<Effect> {
        match frame {
            WireFrame::Ping => self.pong(number, stopped),
            WireFrame::Bye => self.farewell = true,
            WireFrame::Open(order) => return self.open(number, order),
            frame => {
                // Frames of a call that is over may still arrive.
                let call = self.calls.iter_mut().find(|call| call.number == Some(number))?;
                if frame == WireFrame::Close {
                    return call.end(now);
                }
                match call.handle(frame) {
                    Ok(effect) => return effect,
                    Err(Senseless) => self.disconnect(now),
                }
            }
        }
        None
    }

    /// Answers, and reports calls that cannot end because their process is stopped: that call or, for
    /// the bridge itself, all of them.
    fn pong(&mut self, number: u32, stopped: &dyn Fn(u128) -> Option<u32>) {
        let Some(link) = &mut self.link else { return };
        link.unsent.put(number, &WireFrame::Pong);
        for call in self.calls.iter().filter(|call| call.runs) {
            if let Some(caller) = call.number.filter(|caller| number == 0 || number == *caller)
                && let Some(process) = stopped(call.key)
            {
                link.unsent.put(caller, &WireFrame::Stopped { process });
            }
        }
    }

    /// Begins a call, or goes on with it.
    fn open(&mut self, number: u32, order: OpenCall) -> Option<Effect> {
        let is_it = |call: &ServedCall| call.key == order.key && !call.forgotten;
        let Some(call) = self.calls.iter_mut().find(|call| is_it(call)) else {
            let refused = match self.calls.len() < MOST_CALLS {
                // This includes a call that was given up, but whose process still exists.
                _ if self.abandoned.contains(&order.key) => Some("it was abandoned there"),
                _ if self.calls.iter().any(|call| call.key == order.key) => Some("it was abandoned there"),
                true => None,
                false => Some("too many calls at the same time"),
            };
            if let Some(why) = refused {
                self.send(number, &WireFrame::Refused { why: why.into() });
                return None;
            }
            self.calls.push(ServedCall::new(number, &order));
            return Some(Effect::Begin { key: order.key, order: Box::new(order) });
        };
        call.number = Some(number);
        call.orphaned = None;
        (call.exit_sent, call.close_sent) = (false, false);
        // The caller acknowledges a program's output when it has printed it, and may not have printed all
        // that it received.
        let resume: fn(&mut Outgoing, u64) -> bool =
            if call.is_exec { Outgoing::go_on } else { Outgoing::resume };
        let known = resume(&mut call.out, order.stdout) && resume(&mut call.err, order.stderr);
        let answer = match &call.refused {
            _ if !known => WireFrame::Refused { why: b"more was received than it has printed".to_vec() },
            Some(why) => WireFrame::Refused { why: why.clone().into_bytes() },
            None => WireFrame::Opened { stdin: call.came },
        };
        // An earlier acknowledgement, on another connection, may have been lost.
        call.acknowledged = call.written;
        let taken = WireFrame::Taken { stream: Stream::Stdin, offset: call.acknowledged };
        let is_opened = matches!(answer, WireFrame::Opened { .. }) && call.acknowledged > 0;
        self.send(number, &answer);
        if is_opened {
            self.send(number, &taken);
        }
        None
    }

    /// How it went to begin a call: it runs, or why it does not.
    pub(crate) fn begun(&mut self, key: u128, begun: Result<(), String>) {
        let Some(call) = self.call(key) else { return };
        let answer = match begun {
            Ok(()) => {
                call.runs = true;
                WireFrame::Opened { stdin: 0 }
            }
            Err(why) => {
                call.refused = Some(why.clone());
                WireFrame::Refused { why: why.into_bytes() }
            }
        };
        if let Some(number) = call.number {
            self.send(number, &answer);
        }
    }

    fn send(&mut self, number: u32, frame: &WireFrame) {
        if let Some(link) = &mut self.link {
            link.unsent.put(number, frame);
        }
    }

    /// Looks what has taken too long, and lets go of what is over.
    pub(crate) fn look_at_the_clock(&mut self, now: Instant) -> Vec<Effect> {
        if let Some(link) = self.link.as_ref().filter(|link| now >= link.silent_until) {
            // Callers, too, count from the last sign of life.
            self.disconnect(link.silent_until - SILENCE);
        }
        let mut effects = Vec::new();
        let is_dropped = |call: &ServedCall| {
            call.orphaned.is_some_and(|until| now >= until) || (call.forgotten && !call.runs)
        };
        for call in self.calls.iter_mut().filter(|call| is_dropped(call)) {
            if !call.forgotten {
                self.abandoned.push(call.key);
            }
            effects.extend(call.end(now));
        }
        self.calls.retain(|call| !call.is_over);
        effects
    }

    /// Ends all calls, since we end. A program is ended by what watches over it, which sees our end.
    pub(crate) fn end_all(&mut self, now: Instant) -> Vec<Effect> {
        self.calls.iter_mut().filter(|call| !call.is_exec).filter_map(|call| call.end(now)).collect()
    }

    /// Gives the connection what it takes at once: of each call in turn, what it has to send.
    pub(crate) fn flush(&mut self, now: Instant, onto: &mut dyn Write) -> io::Result<()> {
        loop {
            self.fill(onto)?;
            let Some(link) = &mut self.link else { return Ok(()) };
            if link.unsent.is_empty() {
                break;
            }
            link.unsent.flush(onto)?;
            // If it took all, it may take more, and does not tell us of that.
            if !link.unsent.is_empty() {
                return Ok(());
            }
        }
        if self.link.as_ref().is_some_and(|link| link.changed) {
            self.disconnect(now);
        }
        Ok(())
    }

    /// If only one call has output to send, it sends many frames at once, and they are not copied.
    fn fill(&mut self, onto: &mut dyn Write) -> io::Result<()> {
        let Some(link) = self.link.as_mut().filter(|link| !link.changed) else { return Ok(()) };
        let is_alone = self.calls.iter().filter(|call| call.out.has_unsent()).count() == 1;
        let most = if is_alone { AT_ONCE } else { 1 };
        let mut without = 0;
        while without < self.calls.len() && link.unsent.len() < MOST_UNSENT {
            self.next = (self.next + 1) % self.calls.len();
            without += 1;
            if self.calls[self.next].send_next(most, (&mut link.unsent, onto))? {
                without = 0;
            }
        }
        Ok(())
    }
}

/// A frame that no right caller sends then.
struct Senseless;

impl ServedCall {
    fn new(number: u32, order: &OpenCall) -> ServedCall {
        ServedCall {
            key: order.key,
            number: Some(number),
            orphaned: None,
            waits: machine::waits(order.words.iter().map(Vec::as_slice)),
            has_terminal: order.terminal.is_some(),
            is_exec: machine::is_exec(&order.words),
            runs: false,
            out: Outgoing::default(),
            err: Outgoing::default(),
            pending: VecDeque::new(),
            start: 0,
            came: 0,
            written: 0,
            acknowledged: 0,
            stdin_ended: false,
            stdin_closed: false,
            close_sent: false,
            status: None,
            exit_sent: false,
            refused: None,
            forgotten: false,
            is_over: false,
        }
    }

    fn handle(&mut self, frame: WireFrame) -> Result<Option<Effect>, Senseless> {
        let key = self.key;
        match frame {
            WireFrame::Data { stream: Stream::Stdin, offset, bytes } if offset == self.came => {
                self.keep_input(bytes)?;
                Ok(Some(Effect::Input { key }))
            }
            WireFrame::End { stream: Stream::Stdin } => {
                self.stdin_ended = true;
                Ok(Some(Effect::Input { key }))
            }
            WireFrame::Taken { stream: Stream::Stdout, offset } if self.out.acknowledge(offset) => Ok(None),
            WireFrame::Taken { stream: Stream::Stderr, offset } if self.err.acknowledge(offset) => Ok(None),
            WireFrame::Signal { number } => Ok(Some(Effect::Signal { key, number })),
            WireFrame::Resize(window @ (1.., 1..)) => Ok(Some(Effect::Resize { key, window })),
            _ => Err(Senseless),
        }
    }

    fn keep_input(&mut self, mut bytes: Vec<u8>) -> Result<(), Senseless> {
        self.came += bytes.len() as u64;
        match self.pending.back_mut() {
            // Pieces of a byte would take much memory.
            Some(last) if last.len() + bytes.len() <= LONGEST => {
                last.extend_from_slice(&bytes);
                bytes.fill(0);
            }
            _ if bytes.is_empty() => {}
            _ => self.pending.push_back(bytes),
        }
        if self.came - self.written > WINDOW + READ_AT_ONCE { Err(Senseless) } else { Ok(()) }
    }

    /// Passes the first of these frames on, if they are input and nothing before them waits. Returns how many; the
    /// bytes that the process does not accept at once are kept.
    fn pass_input(
        &mut self,
        frames: &[ReceivedFrame],
        write: &mut dyn FnMut(u128, &[IoSlice]) -> usize,
    ) -> Result<usize, Senseless> {
        if !self.runs || self.has_terminal || self.has_input() || self.stdin_ended || self.stdin_closed {
            return Ok(0);
        }
        let mut end = self.came;
        let mut pieces = Vec::new();
        for frame in frames.iter().take(MOST_PIECES).take_while(|frame| Some(frame.call()) == self.number) {
            match frame.data() {
                Some((Stream::Stdin, offset, bytes)) if offset == end => {
                    end += bytes.len() as u64;
                    pieces.push(IoSlice::new(bytes));
                }
                _ => break,
            }
        }
        let mut taken = if pieces.is_empty() { 0 } else { write(self.key, &pieces) };
        for piece in &pieces {
            let of_it = taken.min(piece.len());
            taken -= of_it;
            self.came += of_it as u64;
            self.written += of_it as u64;
            self.keep_input(piece[of_it..].to_vec())?;
        }
        Ok(pieces.len())
    }

    /// Sends its next frame, if there is one, or at most that many pieces of a stream.
    fn send_next(
        &mut self,
        most: usize,
        (writer, onto): (&mut FrameWriter, &mut dyn Write),
    ) -> io::Result<bool> {
        let Some(number) = self.number else { return Ok(false) };
        if self.written - self.acknowledged >= ACKNOWLEDGE {
            self.acknowledged = self.written;
            writer.put(number, &WireFrame::Taken { stream: Stream::Stdin, offset: self.written });
            return Ok(true);
        }
        if self.out.send_next(Stream::Stdout, number, self.is_exec, most, (writer, onto))?
            || self.err.send_next(Stream::Stderr, number, self.is_exec, most, (writer, onto))?
        {
            return Ok(true);
        }
        if self.is_exec && self.stdin_closed && !self.close_sent {
            self.close_sent = true;
            writer.put(number, &WireFrame::End { stream: Stream::Stdin });
            return Ok(true);
        }
        let is_last = !self.exit_sent && self.out.is_sent() && self.err.is_sent();
        let Some((code, signal)) = self.status.filter(|_| is_last) else { return Ok(false) };
        self.exit_sent = true;
        writer.put(number, &WireFrame::Exit { code, signal });
        Ok(true)
    }

    /// Are there bytes for its standard input that are still unwritten?
    pub(crate) fn has_input(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Those, or the first of them.
    pub(crate) fn input(&self) -> Vec<IoSlice<'_>> {
        let starts = iter::once(self.start).chain(iter::repeat(0));
        self.pending
            .iter()
            .zip(starts)
            .take(MOST_PIECES)
            .map(|(piece, start)| IoSlice::new(&piece[start..]))
            .collect()
    }

    /// This many bytes were written. We do not keep them, because they may be a secret.
    pub(crate) fn take_input(&mut self, mut count: usize) {
        while let Some(piece) = self.pending.front_mut() {
            let of_it = count.min(piece.len() - self.start);
            piece[self.start..][..of_it].fill(0);
            self.start += of_it;
            self.written += of_it as u64;
            count -= of_it;
            if self.start < piece.len() {
                return;
            }
            self.pending.pop_front();
            self.start = 0;
        }
    }

    /// It reads no more.
    pub(crate) fn drop_input(&mut self) {
        self.stdin_closed |= !self.stdin_ended;
        self.take_input(usize::MAX);
    }

    /// Has its standard input ended, and all of it been written?
    pub(crate) fn has_all_input(&self) -> bool {
        self.stdin_ended && self.pending.is_empty()
    }

    /// Its standard output, and its standard error.
    pub(crate) fn out(&mut self) -> &mut Outgoing {
        &mut self.out
    }

    pub(crate) fn err(&mut self) -> &mut Outgoing {
        &mut self.err
    }

    /// Its process was collected: what it came to, an exit code or a signal.
    pub(crate) fn exited(&mut self, code: u8, signal: u8) {
        self.runs = false;
        self.status = Some((code, signal));
    }

    /// Its caller is gone. A waiting call is ended, and what it waits for continues. Other calls are
    /// short and end by themselves, and a program is ended with all that it has started; until then
    /// they are kept.
    fn end(&mut self, now: Instant) -> Option<Effect> {
        let key = self.key;
        if !self.runs {
            self.is_over = true;
            return None;
        }
        if !self.waits && !self.has_terminal && !self.forgotten {
            (self.number, self.orphaned, self.forgotten) = (None, Some(now + LINGER), true);
            return Some(Effect::HangUp { key });
        }
        (self.is_over, self.number) = (true, None);
        Some(Effect::Kill { key })
    }
}

#[cfg(test)]
mod tests;
