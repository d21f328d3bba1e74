//! The frames between a call, the bridge and the far side.
//!
//! ```text
//! length 4 (of the body)   kind 1   call 4   checksum of the body 4   of the header 4   body
//! ```
//!
//! Numbers are little-endian. All three use the same frames. Only the number of the call differs,
//! which the bridge assigns on each connection (0: the connection itself). Stream positions are
//! offsets in bytes, so that a call continues after a lost connection where it was: the sender keeps
//! what was not acknowledged.
//!
//! A line may insert, drop, repeat or change bytes. The checksum of a header covers the number of the
//! frame on its connection, which is not sent. So a missing or repeated frame is detected as well as a
//! changed one, before any of it is used. The header has a checksum of its own, so that we never wait
//! for a changed length.
//!
//! Pure: bytes in, frames out. Anything else is [`ProtocolError`], and ends the connection.

use std::{
    io::{self, IoSlice, Write},
    ops::{Deref, DerefMut},
};

use twox_hash::XxHash64;

use crate::machine::outbox::{self, Outbox};

/// Increase this number when older versions would not understand the frames.
pub(crate) const PROTOCOL: u8 = 3;

/// The longest body. So long holds up others on a slow line: 16 KiB are 13 ms at 10 Mbit/s.
pub(crate) const LONGEST: usize = 16 * 1024;

/// The most bytes of a stream in a frame, which then has the size of whole pages of memory: a pipe passes
/// those on faster.
pub(super) const LONGEST_DATA: usize = LONGEST - HEADER - PLACE;

/// The arguments of a call may be longer, as execve(2) has it.
const LONGEST_OPEN: usize = 2 << 20;

/// How much of a stream may be under way, not acknowledged: what a line of 50 ms takes at 40 MB/s.
pub(crate) const WINDOW: u64 = 2 << 20;

/// How many bytes of frames a window can be: each of its bytes may come in a frame of its own.
pub(crate) const LONGEST_WINDOW: usize = WINDOW as usize * (HEADER + PLACE + 1);

/// After this many bytes we acknowledge them.
pub(crate) const ACKNOWLEDGE: u64 = WINDOW / 8;

pub(super) const HEADER: usize = 17;

/// The length of the start of a data frame's body: the stream, and the offset of its bytes.
const PLACE: usize = 9;

/// The kind of a piece of a stream.
const DATA: u8 = 22;

/// The offsets of parts of a header.
const KIND: usize = 4;
const CALL: usize = 5;
const BODY_CHECKSUM: usize = 9;
const HEADER_CHECKSUM: usize = 13;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdin,
    Stdout,
    Stderr,
}

impl Stream {
    fn number(self) -> u8 {
        match self {
            Stream::Stdin => 0,
            Stream::Stdout => 1,
            Stream::Stderr => 2,
        }
    }

    fn of(number: u8) -> Option<Stream> {
        [Stream::Stdin, Stream::Stdout, Stream::Stderr].into_iter().find(|stream| stream.number() == number)
    }
}

/// The columns and rows of a window.
pub(crate) type Window = (u16, u16);

/// The call to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenCall {
    /// Identifies the call on every connection; the caller chooses it.
    pub(crate) key: u128,
    /// The number of the connection that it is meant for.
    pub(crate) connection: u32,
    /// How much of its standard output and error the caller has.
    pub(crate) stdout: u64,
    pub(crate) stderr: u64,
    /// A terminal of that size, instead of pipes.
    pub(crate) terminal: Option<Window>,
    /// Nothing will come on its standard input.
    pub(crate) is_silent: bool,
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) environment: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Declares the frames, each by its number and its fields, in the order in which they are sent.
macro_rules! wire_frames {
    ($(
        $(#[$note:meta])*
        $name:ident = $number:tt $(($value:ident: $inner:ty))? $({ $($field:ident: $type:ty),+ })?
    )+) => {
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum WireFrame {
            $($(#[$note])* $name $(($inner))? $({ $($field: $type),+ })?,)+
        }

        impl WireFrame {
            fn kind(&self) -> u8 {
                match self {
                    $(WireFrame::$name { .. } => $number,)+
                }
            }

            fn put_body(&self, body: &mut Vec<u8>) {
                match self {
                    $(WireFrame::$name $(($value))? $({ $($field),+ })? => {
                        $($value.put(body);)?
                        $($($field.put(body);)+)?
                    })+
                }
            }

            fn read(kind: u8, bytes: &[u8]) -> Option<WireFrame> {
                let mut body = Body(bytes);
                let frame = match kind {
                    $($number => WireFrame::$name
                        $((<$inner>::read(&mut body)?))?
                        $({ $($field: Field::read(&mut body)?),+ })?,)+
                    _ => return None,
                };
                body.0.is_empty().then_some(frame)
            }
        }
    };
}

wire_frames! {
    // Frames of the connection.
    /// The far side, once: which process it is, and what for.
    Hello = 1 { protocol: u8, instance: u64, version: Vec<u8> }
    /// To be answered.
    Ping = 2
    Pong = 3
    /// The bridge ends and will not come back. To a bridge: end after its calls have ended.
    Bye = 4
    /// The far side received bytes that the bridge did not send, and hangs up.
    Changed = 5

    // Between a call and its bridge.
    /// Which version calls, and whether its call may have begun on a connection before.
    Caller = 10 { has_begun: bool, version: Vec<u8> }
    /// There is a connection, of that number, to that process of the far side.
    Up = 11 { instance: u64, connection: u32 }
    /// There is no connection, for this reason; callers that have waited this many seconds should give
    /// up.
    Down = 12 { patience: u16, why: Vec<u8> }
    /// There will be none.
    Failed = 13 { why: Vec<u8> }
    /// Call again: this bridge accepts no more callers. To a bridge: accept no more callers.
    Again = 14
    /// Requests the state of the connection.
    Ask = 15
    /// The number of calls, and the last round trip in microseconds (0: not known).
    Answer = 16 { calls: u32, round_trip: u32, version: Text, machine: Text }

    // Frames of a call.
    /// Begin the call or, if it is known, continue it.
    Open = 20 (order: OpenCall)
    /// The call is known; this much of its standard input has arrived.
    Opened = 21 { stdin: u64 }
    /// `offset`: where in the stream its first byte belongs.
    Data = DATA { stream: Stream, offset: u64, bytes: Vec<u8> }
    /// Standard input has ended. The exit code shows the end of the other streams.
    End = 23 { stream: Stream }
    /// The number of its bytes that have been taken.
    Taken = 24 { stream: Stream, offset: u64 }
    Signal = 25 { number: u8 }
    Resize = 26 (window: Window)
    /// The result: an exit code, or 128 and the number of a signal. All output came before.
    Exit = 27 { code: u8, signal: u8 }
    /// It could not be started.
    Refused = 28 { why: Vec<u8> }
    /// The caller does not need the call any more.
    Close = 29
    /// The process that executes it is stopped (SIGSTOP).
    Stopped = 30 { process: u32 }
}

/// The received bytes are not one of our frames.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProtocolError {
    /// A checksum is wrong: it was changed on the way.
    Changed,
    /// It was sent like that.
    Malformed(&'static str),
}

/// A value in the body of a frame.
trait Field: Sized {
    fn put(&self, body: &mut Vec<u8>);
    fn read(body: &mut Body) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty)+) => {$(
        impl Field for $type {
            fn put(&self, body: &mut Vec<u8>) {
                body.extend_from_slice(&self.to_le_bytes());
            }

            fn read(body: &mut Body) -> Option<$type> {
                let bytes = body.take(size_of::<$type>())?;
                bytes.try_into().ok().map(<$type>::from_le_bytes)
            }
        }
    )+};
}

numbers! { u8 u16 u32 u64 u128 }

impl Field for bool {
    fn put(&self, body: &mut Vec<u8>) {
        body.push((*self).into());
    }

    fn read(body: &mut Body) -> Option<bool> {
        u8::read(body).map(|byte| byte != 0)
    }
}

impl Field for Stream {
    fn put(&self, body: &mut Vec<u8>) {
        body.push(self.number());
    }

    fn read(body: &mut Body) -> Option<Stream> {
        u8::read(body).and_then(Stream::of)
    }
}

impl Field for Window {
    fn put(&self, body: &mut Vec<u8>) {
        self.0.put(body);
        self.1.put(body);
    }

    fn read(body: &mut Body) -> Option<Window> {
        Some((u16::read(body)?, u16::read(body)?))
    }
}

/// The rest of the body.
impl Field for Vec<u8> {
    fn put(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(self);
    }

    fn read(body: &mut Body) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut body.0).to_vec())
    }
}

/// Bytes with their length before them, so that more can follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Vec<u8>);

impl Field for Text {
    fn put(&self, body: &mut Vec<u8>) {
        put_text(&self.0, body);
    }

    fn read(body: &mut Body) -> Option<Text> {
        read_text(body).map(Text)
    }
}

fn put_text(text: &[u8], body: &mut Vec<u8>) {
    (text.len() as u32).put(body);
    body.extend_from_slice(text);
}

fn read_text(body: &mut Body) -> Option<Vec<u8>> {
    let length = u32::read(body)? as usize;
    body.take(length).map(<[u8]>::to_vec)
}

impl Field for OpenCall {
    fn put(&self, body: &mut Vec<u8>) {
        self.key.put(body);
        self.connection.put(body);
        self.stdout.put(body);
        self.stderr.put(body);
        // No window has nothing of either.
        self.terminal.unwrap_or((0, 0)).put(body);
        self.is_silent.put(body);
        (self.words.len() as u32).put(body);
        let variables = self.environment.iter().flat_map(|(name, value)| [name, value]);
        self.words.iter().chain(variables).for_each(|word| put_text(word, body));
    }

    fn read(body: &mut Body) -> Option<OpenCall> {
        let (key, connection) = (Field::read(body)?, Field::read(body)?);
        let (stdout, stderr) = (Field::read(body)?, Field::read(body)?);
        let (window, is_silent) = (Window::read(body)?, Field::read(body)?);
        let count = u32::read(body)?;
        let words = (0..count).map(|_| read_text(body)).collect::<Option<_>>()?;
        let mut environment = Vec::new();
        while !body.0.is_empty() {
            environment.push((read_text(body)?, read_text(body)?));
        }
        let terminal = (window.0 > 0 && window.1 > 0).then_some(window);
        Some(OpenCall { key, connection, stdout, stderr, terminal, is_silent, words, environment })
    }
}

/// The unread rest of a body.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
}

/// The checksum of a body.
fn body_checksum(kind: u8, body: &[u8]) -> u32 {
    match body.split_at_checked(PLACE).filter(|_| kind == DATA) {
        Some((place, bytes)) => data_checksum(place, bytes),
        None => XxHash64::oneshot(0, body) as u32,
    }
}

/// The checksum of a data frame's body, whose two parts need not be adjacent.
fn data_checksum(place: &[u8], bytes: &[u8]) -> u32 {
    XxHash64::oneshot(XxHash64::oneshot(0, place), bytes) as u32
}

/// The checksum of a header, without this field, for the frame of that number on its connection.
fn header_checksum(header: &[u8], number: u64) -> u32 {
    XxHash64::oneshot(number, &header[..HEADER_CHECKSUM]) as u32
}

/// Gives a frame its number on a connection, and there that of its call.
fn seal(frame: &mut [u8], call: u32, number: u64) {
    frame[CALL..BODY_CHECKSUM].copy_from_slice(&call.to_le_bytes());
    let checksum = header_checksum(frame, number);
    frame[HEADER_CHECKSUM..HEADER].copy_from_slice(&checksum.to_le_bytes());
}

/// Bytes to send on a connection.
#[derive(Default)]
pub(crate) struct FrameWriter {
    unsent: Outbox,
    /// How many frames were put so far.
    count: u64,
}

impl FrameWriter {
    /// Bytes before the first frame.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.unsent.push(bytes);
    }

    pub(crate) fn put(&mut self, call: u32, frame: &WireFrame) {
        self.put_with(call, frame.kind(), &|body| frame.put_body(body));
    }

    fn put_with(&mut self, call: u32, kind: u8, put_body: &dyn Fn(&mut Vec<u8>)) {
        let bytes = self.unsent.tail();
        let at = bytes.len();
        bytes.resize(at + HEADER, 0);
        put_body(bytes);
        let (header, body) = bytes[at..].split_at_mut(HEADER);
        header[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
        header[KIND] = kind;
        header[BODY_CHECKSUM..HEADER_CHECKSUM].copy_from_slice(&body_checksum(kind, body).to_le_bytes());
        seal(header, call, self.count);
        self.count += 1;
    }

    /// Sends adjacent pieces of a stream, each in its own frame. The bytes that `onto` accepts at once are not copied.
    pub(super) fn send_data(
        &mut self,
        call: u32,
        stream: Stream,
        mut offset: u64,
        pieces: &[&[u8]],
        onto: &mut dyn Write,
    ) -> io::Result<()> {
        let mut starts = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let mut start = [0; HEADER + PLACE];
            start[..4].copy_from_slice(&((PLACE + piece.len()) as u32).to_le_bytes());
            start[KIND] = DATA;
            start[HEADER] = stream.number();
            start[HEADER + 1..].copy_from_slice(&offset.to_le_bytes());
            let checksum = data_checksum(&start[HEADER..], piece);
            start[BODY_CHECKSUM..HEADER_CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
            seal(&mut start, call, self.count);
            self.count += 1;
            offset += piece.len() as u64;
            starts.push(start);
        }
        let frames = starts.iter().zip(pieces);
        let parts: Vec<_> =
            frames.flat_map(|(start, piece)| [IoSlice::new(start), IoSlice::new(piece)]).collect();
        self.send(&parts, onto)
    }

    /// Writes what is taken at once, and keeps the rest.
    fn send(&mut self, parts: &[IoSlice], onto: &mut dyn Write) -> io::Result<()> {
        let mut taken = 0;
        if self.is_empty() {
            taken = outbox::at_once(onto.write_vectored(parts))?.unwrap_or(0);
        }
        for part in parts {
            let of_it = taken.min(part.len());
            taken -= of_it;
            self.push(&part[of_it..]);
        }
        Ok(())
    }

    /// Passes on what came on another connection. Bodies, and their checksums, stay as they are. Only what
    /// is not taken at once is kept, and so copied.
    pub(crate) fn pass(
        &mut self,
        call: u32,
        frames: &mut [ReceivedFrame],
        onto: &mut dyn Write,
    ) -> io::Result<()> {
        self.flush(onto)?;
        for frame in frames.iter_mut() {
            seal(frame, call, self.count);
            self.count += 1;
        }
        let parts: Vec<_> = frames.iter().map(|frame| IoSlice::new(frame)).collect();
        self.send(&parts, onto)
    }

    pub(crate) fn len(&self) -> usize {
        self.unsent.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unsent.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.unsent.clear();
    }

    /// Writes what is taken at once.
    pub(crate) fn flush(&mut self, onto: &mut dyn Write) -> io::Result<()> {
        self.unsent.flush(onto)
    }
}

/// Puts together what comes in pieces.
#[derive(Default)]
pub(crate) struct Decoder {
    // Invariant: less than one frame, between two calls of `feed`.
    bytes: Vec<u8>,
    /// How many frames have come so far.
    count: u64,
}

/// A frame as it came, from its header on; its checksums are right.
pub(crate) enum ReceivedFrame<'a> {
    Whole(&'a mut [u8]),
    /// Put together.
    Pieced(Vec<u8>),
}

impl Deref for ReceivedFrame<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            ReceivedFrame::Whole(bytes) => bytes,
            ReceivedFrame::Pieced(bytes) => bytes,
        }
    }
}

impl DerefMut for ReceivedFrame<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            ReceivedFrame::Whole(bytes) => bytes,
            ReceivedFrame::Pieced(bytes) => bytes,
        }
    }
}

impl ReceivedFrame<'_> {
    pub(crate) fn call(&self) -> u32 {
        u32_at(self, CALL)
    }

    pub(crate) fn is_data(&self) -> bool {
        self.data().is_some()
    }

    /// The stream, the offset and the bytes of a piece of a stream.
    pub(crate) fn data(&self) -> Option<(Stream, u64, &[u8])> {
        let mut body = Body(self.get(HEADER..).filter(|_| self[KIND] == DATA)?);
        Some((Stream::read(&mut body)?, u64::read(&mut body)?, body.0))
    }

    pub(crate) fn parse(&self) -> Result<WireFrame, ProtocolError> {
        WireFrame::read(self[KIND], &self[HEADER..]).ok_or(ProtocolError::Malformed("an invalid frame"))
    }
}

impl Decoder {
    /// The frames that are complete with these bytes, each with its call's number.
    pub(crate) fn feed(&mut self, bytes: &mut [u8]) -> Result<Vec<(u32, WireFrame)>, ProtocolError> {
        self.receive(bytes)?.iter().map(|frame| Ok((frame.call(), frame.parse()?))).collect()
    }

    /// The same, as they came.
    pub(crate) fn receive<'a>(
        &mut self,
        mut bytes: &'a mut [u8],
    ) -> Result<Vec<ReceivedFrame<'a>>, ProtocolError> {
        let mut frames = Vec::new();
        loop {
            // Only what is missing of a frame is put together with its beginning.
            let is_begun = !self.bytes.is_empty();
            match measure(if is_begun { &self.bytes } else { bytes }, self.count)? {
                Parsed::Frame(length) => {
                    self.count += 1;
                    frames.push(if is_begun {
                        ReceivedFrame::Pieced(std::mem::take(&mut self.bytes))
                    } else {
                        let (frame, rest) = bytes.split_at_mut(length);
                        bytes = rest;
                        ReceivedFrame::Whole(frame)
                    });
                }
                Parsed::Missing(_) if bytes.is_empty() => return Ok(frames),
                Parsed::Missing(count) => {
                    let count = if is_begun { count.min(bytes.len()) } else { bytes.len() };
                    let (begun, rest) = bytes.split_at_mut(count);
                    self.bytes.extend_from_slice(begun);
                    bytes = rest;
                }
            }
        }
    }
}

enum Parsed {
    /// A whole one, of that length.
    Frame(usize),
    /// The least number of missing bytes.
    Missing(usize),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Checks the frame of that number on its connection at the start of these bytes.
fn measure(bytes: &[u8], count: u64) -> Result<Parsed, ProtocolError> {
    let Some((header, rest)) = bytes.split_at_checked(HEADER) else {
        return Ok(Parsed::Missing(HEADER - bytes.len()));
    };
    if u32_at(header, HEADER_CHECKSUM) != header_checksum(header, count) {
        return Err(ProtocolError::Changed);
    }
    let (length, kind) = (u32_at(header, 0) as usize, header[KIND]);
    if length > if kind == 20 { LONGEST_OPEN } else { LONGEST + 64 } {
        return Err(ProtocolError::Malformed("a frame that is too long"));
    }
    let Some(body) = rest.get(..length) else { return Ok(Parsed::Missing(length - rest.len())) };
    if u32_at(header, BODY_CHECKSUM) != body_checksum(kind, body) {
        return Err(ProtocolError::Changed);
    }
    Ok(Parsed::Frame(HEADER + length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{pieces, rounds, spoiled};

    fn some_frames(random: &mut fastrand::Rng) -> Vec<(u32, WireFrame)> {
        let bytes = |random: &mut fastrand::Rng| -> Vec<u8> {
            (0..random.usize(..40)).map(|_| random.u8(..)).collect()
        };
        let stream = |random: &mut fastrand::Rng| Stream::of(random.u8(..3)).unwrap();
        let frame = |random: &mut fastrand::Rng| match random.u8(..23) {
            0 => {
                WireFrame::Hello { protocol: random.u8(..), instance: random.u64(..), version: bytes(random) }
            }
            1 => WireFrame::Ping,
            2 => WireFrame::Pong,
            3 => WireFrame::Bye,
            4 => WireFrame::Caller { has_begun: random.bool(), version: bytes(random) },
            5 => WireFrame::Up { instance: random.u64(..), connection: random.u32(..) },
            6 => WireFrame::Down { patience: random.u16(..), why: bytes(random) },
            7 => WireFrame::Failed { why: bytes(random) },
            8 => WireFrame::Again,
            9 => WireFrame::Ask,
            10 => WireFrame::Answer {
                calls: random.u32(..),
                round_trip: random.u32(..),
                version: Text(bytes(random)),
                machine: Text(bytes(random)),
            },
            11 => WireFrame::Open(OpenCall {
                key: random.u128(..),
                connection: random.u32(..),
                stdout: random.u64(..),
                stderr: random.u64(..),
                terminal: random.bool().then(|| (random.u16(1..), random.u16(1..))),
                is_silent: random.bool(),
                words: (0..random.usize(..4)).map(|_| bytes(random)).collect(),
                environment: (0..random.usize(..3)).map(|_| (bytes(random), bytes(random))).collect(),
            }),
            12 => WireFrame::Opened { stdin: random.u64(..) },
            13 => WireFrame::Data { stream: stream(random), offset: random.u64(..), bytes: bytes(random) },
            14 => WireFrame::End { stream: stream(random) },
            15 => WireFrame::Taken { stream: stream(random), offset: random.u64(..) },
            16 => WireFrame::Signal { number: random.u8(..) },
            17 => WireFrame::Resize((random.u16(..), random.u16(..))),
            18 => WireFrame::Exit { code: random.u8(..), signal: random.u8(..) },
            19 => WireFrame::Refused { why: bytes(random) },
            20 => WireFrame::Changed,
            21 => WireFrame::Stopped { process: random.u32(..) },
            _ => WireFrame::Close,
        };
        (0..random.usize(..12)).map(|_| (random.u32(..), frame(random))).collect()
    }

    fn encoded(frames: &[(u32, WireFrame)]) -> Vec<u8> {
        let (mut writer, mut bytes) = (FrameWriter::default(), Vec::new());
        frames.iter().for_each(|(call, frame)| writer.put(*call, frame));
        writer.flush(&mut bytes).unwrap();
        bytes
    }

    fn encoded_as(frame: &WireFrame, number: u64) -> Vec<u8> {
        let (mut writer, mut bytes) = (FrameWriter { count: number, ..FrameWriter::default() }, Vec::new());
        writer.put(0, frame);
        writer.flush(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        for (seed, mut random) in rounds(2_000) {
            let sent = some_frames(&mut random);
            let (bytes, mut decoder, mut came) = (encoded(&sent), Decoder::default(), Vec::new());
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(random.usize(1..=rest.len()));
                came.extend(decoder.feed(&mut piece.to_vec()).unwrap());
                rest = after;
            }
            assert!(came == sent && decoder.bytes.is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn no_frame_that_a_line_changed_is_delivered() {
        for (seed, mut random) in rounds(4_000) {
            let sent = some_frames(&mut random);
            let right = encoded(&sent);
            let bytes = spoiled(&right, &mut random);
            let whole = bytes.iter().zip(&right).take_while(|(came, sent)| came == sent).count();
            let (mut decoder, mut came, mut ended) = (Decoder::default(), Vec::new(), None);
            for piece in pieces(&bytes, 60, &mut random) {
                match decoder.feed(&mut piece.to_vec()) {
                    Ok(frames) => came.extend(frames),
                    Err(nonsense) => {
                        ended = Some(nonsense);
                        break;
                    }
                }
            }
            assert!(came.len() <= sent.len() && came == sent[..came.len()], "seed {seed}");
            // As soon as the header after the last right frame is there.
            assert!(ended.is_some() || bytes.len() < whole + HEADER + LONGEST, "seed {seed}");
            assert!(ended.is_none_or(|nonsense| nonsense == ProtocolError::Changed), "seed {seed}");
        }
    }

    #[test]
    fn a_frame_that_a_line_drops_repeats_or_delays_is_found_out() {
        let frames: Vec<Vec<u8>> = (0..3).map(|number| encoded_as(&WireFrame::Ping, number)).collect();
        for order in [&[0, 2][..], &[1], &[0, 0], &[0, 1, 1], &[1, 0], &[0, 2, 1]] {
            let bytes: Vec<u8> = order.iter().flat_map(|number| frames[*number].clone()).collect();
            assert_eq!(Decoder::default().feed(&mut bytes.clone()), Err(ProtocolError::Changed), "{order:?}");
        }
        assert_eq!(Decoder::default().feed(&mut frames.concat()).map(|frames| frames.len()), Ok(3));
    }

    #[test]
    fn a_header_of_a_gigabyte_is_nonsense_at_once() {
        let mut header = encoded_as(&WireFrame::Close, 0);
        header[..4].copy_from_slice(&(1_u32 << 30).to_le_bytes());
        assert_eq!(Decoder::default().feed(&mut header), Err(ProtocolError::Changed));
        let checksum = header_checksum(&header, 0);
        header[HEADER_CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(
            Decoder::default().feed(&mut header),
            Err(ProtocolError::Malformed("a frame that is too long"))
        );
    }
}
