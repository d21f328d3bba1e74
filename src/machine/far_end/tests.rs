//! Both ends of calls, a bridge between them that passes their frames on, and a line that spoils
//! what it carries, by a random schedule.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;

use super::*;
use crate::{
    machine::{
        frames::HEADER,
        name::MachineName,
        near_end::{BridgeState, Came, End, NearEnd, Wanted},
        outgoing::{LEAST_ROOM, PIECE},
    },
    rounds::rounds,
};

/// One direction of a connection. What is in it is right; it is spoiled as it comes out.
#[derive(Default)]
struct Line {
    bytes: VecDeque<u8>,
    /// How much of the frame at its beginning has not come out.
    rest: usize,
    /// The beginning of a frame whose rest is to be put in.
    begun: Vec<u8>,
}

impl Line {
    fn put(&mut self, bytes: &[u8]) {
        self.begun.extend_from_slice(bytes);
        while let Some(length) = self.begun.first_chunk().map(|length| u32::from_le_bytes(*length))
            && let Some(frame) = self.begun.get(..length as usize + HEADER)
        {
            self.bytes.extend(frame);
            self.begun.drain(..length as usize + HEADER);
        }
    }

    fn frame_length(&self) -> usize {
        let length = [0, 1, 2, 3].map(|at| self.bytes[at]);
        u32::from_le_bytes(length) as usize + HEADER
    }

    fn take(&mut self, mut count: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        while count > 0 {
            if self.rest == 0 {
                self.rest = self.frame_length();
            }
            let piece = count.min(self.rest);
            taken.extend(self.bytes.drain(..piece));
            (self.rest, count) = (self.rest - piece, count - piece);
        }
        taken
    }

    /// Some of what is in it, as it arrives.
    fn carry(&mut self, spoils: bool, random: &mut Rng) -> Vec<u8> {
        let mut piece = self.take(random.usize(..=self.bytes.len().min(5_000)));
        if !spoils || piece.is_empty() {
            return piece;
        }
        let at = random.usize(..piece.len());
        match random.u8(..7) {
            // Some transports insert text between two pieces of about 11 bytes.
            0 => drop(piece.splice(at..at, *b"-inserted!\n")),
            1 => piece[at] ^= 1 << random.u8(..8),
            2 => piece.truncate(at),
            3 => piece.extend_from_within(at..),
            _ => {
                // A whole frame that is lost, repeated, or late.
                piece.extend(self.take(self.rest));
                if !self.bytes.is_empty() {
                    let frame = self.take(self.frame_length());
                    match random.u8(..3) {
                        0 => {}
                        1 => piece.extend([&frame[..], &frame].concat()),
                        _ if self.bytes.is_empty() => {}
                        _ => {
                            piece.extend(self.take(self.frame_length()));
                            piece.extend(frame);
                        }
                    }
                }
            }
        }
        piece
    }
}

/// Takes some of what is written, as a pipe that is nearly full.
struct Narrow {
    taken: Vec<u8>,
    room: usize,
}

impl Narrow {
    fn new(random: &mut Rng) -> Narrow {
        let room = if random.bool() { usize::MAX } else { random.usize(..20_000) };
        Narrow { taken: Vec::new(), room }
    }
}

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice]) -> io::Result<usize> {
        let before = self.taken.len();
        for piece in pieces {
            let count = piece.len().min(self.room);
            self.taken.extend_from_slice(&piece[..count]);
            self.room -= count;
        }
        let count = self.taken.len() - before;
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The program of a call: it prints its output, reads its input, and ends.
struct Program {
    printed: [usize; 2],
    read: Vec<u8>,
    reads: bool,
}

/// A call, and what its caller has of it.
struct Calling {
    end: NearEnd,
    key: u128,
    output: [Vec<u8>; 2],
    input: Vec<u8>,
    given: usize,
    input_ended: bool,
    code: u8,
    got: [Vec<u8>; 2],
    ended: Option<End>,
    // The bridge's, of this caller.
    number: u32,
    greeted: bool,
    open: bool,
    decoder: Decoder,
    unsent: FrameWriter,
}

/// The bridge's connection.
struct Connection {
    /// When something came over it that made sense.
    received: Instant,
    up: Option<u64>,
    decoder: Decoder,
    unsent: FrameWriter,
    there: Line,
    back: Line,
}

struct World {
    random: Rng,
    now: Instant,
    far: FarEnd,
    programs: BTreeMap<u128, Program>,
    begun: Vec<u128>,
    calls: Vec<Calling>,
    connection: Option<Connection>,
    connections: u32,
    next_number: u32,
    pinged: Instant,
    /// How much more may go wrong, and whether the far side may be killed.
    mishaps: u32,
    is_deadly: bool,
}

fn noise(random: &mut Rng, most: usize) -> Vec<u8> {
    (0..random.usize(..=most)).map(|_| random.u8(..)).collect()
}

impl World {
    fn new(mut random: Rng) -> World {
        let now = Instant::now();
        let machine = MachineName::parse(b"box").unwrap();
        let calls = (1..=random.u32(1..4)).map(|number| {
            let key = u128::from(number);
            let order = OpenCall { key, words: vec![b"run".into()], ..OpenCall::default() };
            let size = if random.bool() { 300 } else { 60_000 };
            Calling {
                end: NearEnd::new(&machine, order, None, now),
                key,
                output: [noise(&mut random, size), noise(&mut random, size)],
                input: if random.bool() { noise(&mut random, size) } else { Vec::new() },
                given: 0,
                input_ended: false,
                code: random.u8(..),
                got: Default::default(),
                ended: None,
                number,
                greeted: false,
                open: false,
                decoder: Decoder::default(),
                unsent: FrameWriter::default(),
            }
        });
        let (calls, mishaps, is_deadly) = (calls.collect(), random.u32(..8), random.u8(..3) == 0);
        World {
            far: FarEnd::new(1, now),
            programs: BTreeMap::new(),
            begun: Vec::new(),
            calls,
            connection: None,
            connections: 0,
            next_number: 100,
            pinged: now,
            mishaps,
            is_deadly,
            random,
            now,
        }
    }

    /// Does something go wrong now?
    fn goes_wrong(&mut self, one_in: u32) -> bool {
        let does = self.mishaps > 0 && self.random.u32(..one_in) == 0;
        self.mishaps -= u32::from(does);
        does
    }

    fn step(&mut self) {
        // Calls are quick, and wait sometimes.
        let milliseconds = if self.random.u8(..20) == 0 { 3_000 } else { 20 };
        self.now += Duration::from_millis(self.random.u64(..=milliseconds));
        if self.now - self.pinged >= Duration::from_secs(20) {
            self.pinged = self.now;
            if let Some(connection) = self.connection.as_mut().filter(|connection| connection.up.is_some()) {
                connection.unsent.put(0, &WireFrame::Ping);
            }
            self.calls.iter_mut().for_each(|call| call.unsent.put(0, &WireFrame::Pong));
        }
        if self.connection.is_none() && self.random.u8(..10) == 0 {
            self.connections += 1;
            self.far.connect(self.now);
            self.connection = Some(Connection {
                received: self.now,
                up: None,
                decoder: Decoder::default(),
                unsent: FrameWriter::default(),
                there: Line::default(),
                back: Line::default(),
            });
        }
        if self.goes_wrong(60) {
            match self.random.u8(..4) {
                0 if self.is_deadly => self.kill_the_far_side(),
                1 => self.kill_the_bridge(),
                _ => self.disconnect("cut"),
            }
        }
        for at in 0..self.calls.len() {
            self.drive_caller(at);
        }
        self.drive_line();
        self.drive_programs();
    }

    fn kill_the_far_side(&mut self) {
        self.programs.clear();
        self.far = FarEnd::new(u64::from(self.connections) + 2, self.now);
        self.disconnect("killed");
    }

    fn kill_the_bridge(&mut self) {
        self.far.disconnect(self.now);
        (self.connection, self.connections) = (None, self.connections + 1_000);
        for call in self.calls.iter_mut().filter(|call| call.ended.is_none()) {
            (call.decoder, call.unsent) = Default::default();
            (call.greeted, call.open, call.number) = (false, false, self.next_number);
            self.next_number += 1;
            call.end.change_bridge(self.now);
        }
    }

    fn disconnect(&mut self, why: &str) {
        self.far.disconnect(self.now);
        if self.connection.take().is_some() {
            for call in self.calls.iter_mut().filter(|call| call.greeted) {
                call.open = false;
                call.unsent.put(0, &WireFrame::Down { patience: 60, why: why.into() });
            }
        }
    }

    fn drive_caller(&mut self, at: usize) {
        let call = &mut self.calls[at];
        if call.ended.is_some() {
            return;
        }
        if call.end.wants_stdin() && call.given < call.input.len() {
            let more = (call.given + self.random.usize(..9_000)).min(call.input.len());
            call.end.stdin().push(&call.input[call.given..more]);
            call.given = more;
        }
        if call.given == call.input.len() && !call.input_ended {
            call.input_ended = true;
            call.end.end_stdin();
        }
        let mut narrow = Narrow::new(&mut self.random);
        call.end.flush(&mut narrow).unwrap();
        for (_, frame) in call.decoder.feed(&mut narrow.taken).unwrap() {
            match frame {
                WireFrame::Caller { .. } => {
                    call.greeted = true;
                    call.unsent.put(0, &WireFrame::Pong);
                    if let Some(instance) = self.connection.as_ref().and_then(|connection| connection.up) {
                        call.unsent.put(0, &WireFrame::Up { instance, connection: self.connections });
                    }
                }
                WireFrame::Open(order) => {
                    if let Some(connection) = self.connection.as_mut().filter(|other| other.up.is_some())
                        && order.connection == self.connections
                    {
                        call.open = true;
                        connection.unsent.put(call.number, &WireFrame::Open(order));
                    }
                }
                frame => {
                    if let Some(connection) = self.connection.as_mut().filter(|_| call.open) {
                        connection.unsent.put(call.number, &frame);
                    }
                }
            }
        }
        let (mut bytes, mut came) = (Vec::new(), Vec::new());
        call.unsent.flush(&mut bytes).unwrap();
        let bridge = || BridgeState { process: 1, stopped: String::new() };
        let received = call.end.receive(&mut bytes, self.now, &mut came).and_then(|wanted| {
            assert_eq!(wanted, Wanted::Nothing);
            call.end.look_at_the_clock(self.now, bridge)
        });
        if let Err(failure) = received {
            call.end.finish(failure, &mut came);
        }
        for came in came {
            match came {
                Came::Stdout(bytes) => call.got[0].extend(bytes),
                Came::Stderr(bytes) => call.got[1].extend(bytes),
                Came::Ended(end) => call.ended = Some(end),
            }
        }
        if call.ended.is_some()
            && let Some(connection) = self.connection.as_mut().filter(|_| call.open)
        {
            connection.unsent.put(call.number, &WireFrame::Close);
        }
    }

    fn drive_line(&mut self) {
        let (spoils_there, spoils_back) = (self.goes_wrong(40), self.goes_wrong(40));
        let Some(connection) = &mut self.connection else { return };
        let mut bytes = Vec::new();
        connection.unsent.flush(&mut bytes).unwrap();
        connection.there.bytes.extend(bytes);
        let mut narrow = Narrow::new(&mut self.random);
        self.far.flush(self.now, &mut narrow).unwrap();
        connection.back.put(&narrow.taken);

        let mut piece = connection.there.carry(spoils_there, &mut self.random);
        let (programs, random) = (&mut self.programs, &mut self.random);
        self.far.receive(&mut piece, self.now, &mut |key, pieces| {
            let Some(program) = programs.get_mut(&key) else { return 0 };
            let mut narrow = Narrow::new(random);
            let count = narrow.write_vectored(pieces).unwrap_or(0);
            program.read.extend(narrow.taken);
            count
        });
        let mut piece = connection.back.carry(spoils_back, &mut self.random);
        let frames = connection.decoder.feed(&mut piece);
        if frames.as_ref().is_ok_and(|frames| !frames.is_empty()) {
            connection.received = self.now;
        }
        let hung_up = !self.far.is_connected() && connection.back.bytes.is_empty();
        while let Some(effect) = self.far.next_effect(self.now, &|_| None) {
            self.act(effect);
        }
        for effect in self.far.look_at_the_clock(self.now) {
            self.act(effect);
        }
        match frames {
            Ok(frames) => frames.into_iter().for_each(|(number, frame)| self.pass_on(number, frame)),
            Err(nonsense) => {
                assert_eq!(nonsense, ProtocolError::Changed);
                self.disconnect("changed");
            }
        }
        // Some of what one of both says was lost.
        let is_late = |connection: &Connection| {
            let longest = Duration::from_secs(if connection.up.is_some() { 30 } else { 10 });
            self.now - connection.received >= longest
        };
        if hung_up || self.connection.as_ref().is_some_and(is_late) {
            self.disconnect("hung up, or silent");
        }
    }

    /// Handles a frame of the far side.
    fn pass_on(&mut self, number: u32, frame: WireFrame) {
        let Some(connection) = &mut self.connection else { return };
        match frame {
            WireFrame::Hello { instance, .. } => {
                connection.up = Some(instance);
                for call in self.calls.iter_mut().filter(|call| call.greeted) {
                    call.unsent.put(0, &WireFrame::Up { instance, connection: self.connections });
                }
            }
            WireFrame::Changed => self.disconnect("changed there"),
            WireFrame::Pong if number == 0 => {}
            frame => {
                let call = self.calls.iter_mut().find(|call| call.number == number && call.open);
                if let Some(call) = call {
                    call.unsent.put(number, &frame);
                }
            }
        }
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Begin { key, order } => {
                self.begun.push(key);
                let program = Program { printed: [0, 0], read: Vec::new(), reads: !order.is_silent };
                self.programs.insert(key, program);
                self.far.begun(key, Ok(()));
            }
            Effect::Kill { key } => drop(self.programs.remove(&key)),
            Effect::Input { .. } | Effect::HangUp { .. } => {}
            effect => panic!("{effect:?}"),
        }
    }

    fn drive_programs(&mut self) {
        let mut over = Vec::new();
        for (key, program) in &mut self.programs {
            let Some(call) = self.far.call(*key) else {
                over.push(*key);
                continue;
            };
            let calling = &self.calls[*key as usize - 1];
            let input: Vec<u8> = call.input().iter().flat_map(|piece| piece.to_vec()).collect();
            let count = self.random.usize(..=input.len());
            program.read.extend(&input[..count]);
            call.take_input(count);
            assert!(calling.input.starts_with(&program.read), "what was typed");
            for (stream, outgoing) in [&mut call.out, &mut call.err].into_iter().enumerate() {
                let (printed, all) = (&mut program.printed[stream], &calling.output[stream]);
                let more = (*printed + self.random.usize(..9_000)).min(all.len());
                outgoing.push(&all[*printed..more]);
                *printed = more;
            }
            let has_printed = (0..2).all(|stream| program.printed[stream] == calling.output[stream].len());
            if has_printed && (!program.reads || call.has_all_input()) && self.random.bool() {
                call.out.end();
                call.err.end();
                call.exited(calling.code, 0);
                assert_eq!(program.read, calling.input, "what was typed in all");
                over.push(*key);
            }
        }
        over.iter().for_each(|key| drop(self.programs.remove(key)));
    }

    /// Each call's effect once, each byte once, and in order.
    fn check(&self) {
        for call in &self.calls {
            let begun = self.begun.iter().filter(|key| **key == call.key).count();
            assert!(begun <= 1, "call {} was begun {begun} times", call.key);
            for (got, output) in call.got.iter().zip(&call.output) {
                assert!(output.starts_with(got), "call {}: other bytes", call.key);
            }
            match &call.ended {
                Some(End::Exit(code)) => {
                    assert_eq!((*code, &call.got, begun), (call.code, &call.output, 1));
                }
                // Only what is not known any more may be lost.
                Some(End::Lost(failure)) => assert!(self.is_deadly, "{failure:?}"),
                None => {}
            }
        }
    }
}

#[test]
fn each_call_is_executed_once_and_each_byte_comes_once_whatever_the_line_does() {
    for (seed, random) in rounds(400) {
        let mut world = World::new(random);
        let mut steps = 0;
        while world.calls.iter().any(|call| call.ended.is_none()) {
            let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                world.step();
                world.check();
            }));
            steps += 1;
            assert!(stepped.is_ok() && steps < 100_000, "seed {seed}, step {steps}");
        }
    }
}

fn order(key: u128) -> OpenCall {
    OpenCall { key, words: vec![b"status".into()], ..OpenCall::default() }
}

/// One connection, as the bridge has it.
struct Bridge(FrameWriter, Decoder);

impl Bridge {
    fn connect(far: &mut FarEnd, now: Instant) -> Bridge {
        far.connect(now);
        let mut bridge = Bridge(FrameWriter::default(), Decoder::default());
        assert!(matches!(bridge.receive(far, now)[..], [(0, WireFrame::Hello { instance: 7, .. })]));
        bridge
    }

    fn send(&mut self, far: &mut FarEnd, now: Instant, number: u32, frame: &WireFrame) -> Vec<Effect> {
        let mut bytes = Vec::new();
        self.0.put(number, frame);
        self.0.flush(&mut bytes).unwrap();
        far.receive(&mut bytes, now, &mut |_, _| 0);
        // For each call, the process with its key as PID is stopped.
        iter::from_fn(|| far.next_effect(now, &|key| Some(key as u32))).collect()
    }

    fn receive(&mut self, far: &mut FarEnd, now: Instant) -> Vec<(u32, WireFrame)> {
        let mut bytes = Vec::new();
        far.flush(now, &mut bytes).unwrap();
        self.1.feed(&mut bytes).unwrap()
    }
}

#[test]
fn the_bridge_is_told_which_processes_are_stopped() {
    let now = Instant::now();
    let mut far = FarEnd::new(7, now);
    let mut bridge = Bridge::connect(&mut far, now);
    for key in [41, 42] {
        let number = key as u32 + 100;
        let effects = bridge.send(&mut far, now, number, &WireFrame::Open(order(key)));
        assert!(matches!(effects[..], [Effect::Begin { .. }]));
        far.begun(key, Ok(()));
        assert_eq!(bridge.receive(&mut far, now), [(number, WireFrame::Opened { stdin: 0 })]);
    }
    let stopped = |key: u32| (key + 100, WireFrame::Stopped { process: key });
    bridge.send(&mut far, now, 0, &WireFrame::Ping);
    assert_eq!(bridge.receive(&mut far, now), [(0, WireFrame::Pong), stopped(41), stopped(42)]);
    bridge.send(&mut far, now, 142, &WireFrame::Ping);
    assert_eq!(bridge.receive(&mut far, now), [(142, WireFrame::Pong), stopped(42)]);
}

/// A caller adds whole pieces to what is under way, as long as it has room for a byte.
#[test]
fn a_slow_program_is_given_large_pieces_without_an_end_of_the_connection() {
    const LENGTH: usize = 4;
    let now = Instant::now();
    for is_apart in [true, false] {
        let mut far = FarEnd::new(7, now);
        let mut bridge = Bridge::connect(&mut far, now);
        let exec = OpenCall { words: vec![machine::EXEC.to_vec(), b"cat".to_vec()], ..order(41) };
        bridge.send(&mut far, now, 1, &WireFrame::Open(exec));
        far.begun(41, Ok(()));
        let mut stream = Outgoing::default();
        let mut fill = |piece: &mut Vec<u8>| {
            let count = piece.capacity() - piece.len();
            piece.resize(piece.capacity(), 7);
            Ok(count)
        };
        while far.call(41).unwrap().written < 8_000_000 {
            while stream.has_room() {
                if is_apart {
                    stream.extend_apart(LENGTH, PIECE, &mut fill).unwrap();
                } else {
                    stream.extend(LEAST_ROOM, &mut fill).unwrap();
                }
            }
            let mut bytes = Vec::new();
            while stream.send_next(Stream::Stdin, 1, true, AT_ONCE, (&mut bridge.0, &mut bytes)).unwrap() {}
            far.receive(&mut bytes, now, &mut |_, _| 0);
            while far.next_effect(now, &|_| None).is_some() {}
            assert!(far.is_connected());
            far.call(41).unwrap().take_input(4096);
            for (_, frame) in bridge.receive(&mut far, now) {
                if let WireFrame::Taken { stream: Stream::Stdin, offset } = frame {
                    assert!(stream.acknowledge(offset));
                }
            }
        }
    }
}

#[test]
fn changed_bytes_end_the_connection_with_a_reason() {
    let now = Instant::now();
    let mut far = FarEnd::new(7, now);
    let mut bridge = Bridge::connect(&mut far, now);
    far.receive(&mut b"what the bridge did not send".to_vec(), now, &mut |_, _| 0);
    assert!(!far.wants_bytes());
    assert_eq!(bridge.receive(&mut far, now), [(0, WireFrame::Changed)]);
    assert!(!far.is_connected());
}

#[test]
fn a_call_that_nobody_takes_up_ends_and_is_not_begun_again() {
    let now = Instant::now();
    let mut far = FarEnd::new(7, now);
    let mut bridge = Bridge::connect(&mut far, now);
    bridge.send(&mut far, now, 1, &WireFrame::Open(OpenCall { words: vec![b"run".into()], ..order(5) }));
    far.begun(5, Ok(()));
    far.disconnect(now);
    assert!(far.look_at_the_clock(now + LINGER / 2).is_empty());
    let later = now + LINGER;
    assert!(far.is_over(later));
    assert_eq!(far.look_at_the_clock(later), [Effect::Kill { key: 5 }]);
    let mut bridge = Bridge::connect(&mut far, later);
    assert!(bridge.send(&mut far, later, 2, &WireFrame::Open(order(5))).is_empty());
    assert!(matches!(bridge.receive(&mut far, later)[..], [(2, WireFrame::Refused { .. })]));
}

#[test]
fn a_brief_call_that_nobody_waits_for_comes_to_its_end_by_itself() {
    let now = Instant::now();
    let mut far = FarEnd::new(7, now);
    let mut bridge = Bridge::connect(&mut far, now);
    bridge.send(&mut far, now, 1, &WireFrame::Open(order(5)));
    far.begun(5, Ok(()));
    assert_eq!(bridge.send(&mut far, now, 1, &WireFrame::Close), [Effect::HangUp { key: 5 }]);
    assert!(far.look_at_the_clock(now).is_empty());
    far.call(5).unwrap().exited(0, 0);
    assert!(far.look_at_the_clock(now).is_empty() && far.call(5).is_none());
}

#[test]
fn a_program_that_nobody_takes_up_is_ended_with_what_it_has_started() {
    let now = Instant::now();
    let mut far = FarEnd::new(7, now);
    let mut bridge = Bridge::connect(&mut far, now);
    let words = vec![machine::EXEC.to_vec(), b"make".into()];
    bridge.send(&mut far, now, 1, &WireFrame::Open(OpenCall { words, ..order(5) }));
    far.begun(5, Ok(()));
    far.disconnect(now);
    let at = |seconds| now + Duration::from_secs(seconds);
    assert!(far.look_at_the_clock(at(59)).is_empty());
    assert!(far.until() <= at(60));
    assert_eq!(far.look_at_the_clock(at(60)), [Effect::HangUp { key: 5 }]);
    // The process that supervises it sees the end of the far side, and needs time to end the program.
    assert!(far.is_over(at(90)) && far.end_all(at(90)).is_empty());
}

#[test]
fn a_program_ends_as_soon_as_a_silent_connection_counts_as_lost() {
    let now = Instant::now();
    let mut far = FarEnd::new(7, now);
    let mut bridge = Bridge::connect(&mut far, now);
    for (key, kind) in [(5, &machine::EXEC.to_vec()), (6, &b"run".to_vec())] {
        let words = vec![kind.clone(), b"make".into()];
        bridge.send(&mut far, now, key as u32, &WireFrame::Open(OpenCall { words, ..order(key) }));
        far.begun(key, Ok(()));
    }
    let at = |seconds| now + Duration::from_secs(seconds);
    assert!(far.look_at_the_clock(at(74)).is_empty());
    assert_eq!(far.look_at_the_clock(at(75)), [Effect::HangUp { key: 5 }]);
    assert!(!far.is_connected() && far.look_at_the_clock(at(89)).is_empty());
    assert_eq!(far.look_at_the_clock(at(90)), [Effect::Kill { key: 6 }]);
}

#[test]
fn a_connection_that_takes_all_at_once_is_given_all_that_there_is() {
    let now = Instant::now();
    let mut far = FarEnd::new(7, now);
    let mut bridge = Bridge::connect(&mut far, now);
    bridge.send(&mut far, now, 1, &WireFrame::Open(order(5)));
    far.begun(5, Ok(()));
    far.call(5).unwrap().out().push(&[b'x'; 8 * MOST_UNSENT]);
    let length = |frame: &WireFrame| match frame {
        WireFrame::Data { bytes, .. } => bytes.len(),
        _ => 0,
    };
    let came = bridge.receive(&mut far, now);
    assert_eq!(came.iter().map(|(_, frame)| length(frame)).sum::<usize>(), 8 * MOST_UNSENT);
}

#[test]
fn the_end_of_a_program_s_streams_is_told_again_after_a_reconnection() {
    let now = Instant::now();
    let mut far = FarEnd::new(7, now);
    let mut bridge = Bridge::connect(&mut far, now);
    let words = vec![machine::EXEC.to_vec(), b"cat".into()];
    let open = OpenCall { words, ..order(5) };
    bridge.send(&mut far, now, 1, &WireFrame::Open(open.clone()));
    far.begun(5, Ok(()));
    far.call(5).unwrap().out().push(b"abc");
    far.call(5).unwrap().out().end();
    far.call(5).unwrap().drop_input();
    let data = WireFrame::Data { stream: Stream::Stdout, offset: 0, bytes: b"abc".into() };
    let ends = [Stream::Stdout, Stream::Stdin].map(|stream| (1, WireFrame::End { stream }));
    let first = bridge.receive(&mut far, now);
    assert_eq!(first[1..], [&[(1, data)], &ends[..]].concat());
    let mut bridge = Bridge::connect(&mut far, now);
    bridge.send(&mut far, now, 1, &WireFrame::Open(OpenCall { stdout: 3, ..open }));
    assert_eq!(bridge.receive(&mut far, now)[1..], ends);
}
