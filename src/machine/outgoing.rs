//! The sent part of a stream, kept until it is acknowledged, and its frames.

use std::{
    collections::VecDeque,
    io::{self, Write},
    ops::Deref,
};

use crate::machine::{
    frames::{FrameWriter, LONGEST_DATA, Stream, WINDOW, WireFrame},
    outbox::ALIGNMENT,
};

/// The most frames of one stream that are sent at once, if no other stream waits.
pub(crate) const AT_ONCE: usize = 8;

/// The least room for one read of bytes to send.
pub(crate) const LEAST_ROOM: usize = 16 * 1024;

/// How much of a stream is read at once, and kept as one piece. With what comes before its aligned start, it
/// fills whole frames: a small one behind them costs as much as a large one.
pub(crate) const PIECE: usize = LONGEST_PIECE - ALIGNMENT;
/// The most bytes of one piece.
pub(crate) const LONGEST_PIECE: usize = AT_ONCE * LONGEST_DATA;

/// The sent bytes of a stream that are not acknowledged.
#[derive(Default)]
pub(crate) struct Outgoing {
    // In pieces, so that none is moved when others before it are acknowledged.
    pieces: VecDeque<Piece>,
    /// The offset of the first piece's first byte, and of the end of the last piece.
    start: u64,
    end: u64,
    // Invariant: start <= acknowledged <= sent <= end.
    acknowledged: u64,
    sent: u64,
    ended: bool,
    end_sent: bool,
}

/// Part of a stream, at an address that is read to fast: see [`Buffer`](crate::machine::outbox::Buffer).
struct Piece {
    bytes: Vec<u8>,
    start: usize,
}

impl Piece {
    /// With room for `size` bytes, of which the one behind the first `before` is aligned.
    fn new(before: usize, size: usize) -> Piece {
        let mut bytes: Vec<u8> = Vec::with_capacity(ALIGNMENT + size);
        let start = bytes.as_ptr().wrapping_add(before).align_offset(ALIGNMENT);
        bytes.resize(start, 0);
        Piece { bytes, start }
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl Outgoing {
    pub(crate) fn has_room(&self) -> bool {
        !self.ended && self.end - self.acknowledged < WINDOW
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.piece(bytes.len()).extend_from_slice(bytes);
        self.end += bytes.len() as u64;
    }

    /// Lets `read` append to the bytes to send, where there is at least that much room.
    pub(crate) fn extend(
        &mut self,
        room: usize,
        read: &mut dyn FnMut(&mut Vec<u8>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let count = read(self.piece(room))?;
        self.end += count as u64;
        Ok(count)
    }

    /// The same with about `size` bytes in a piece of their own, of which the one behind the first `before` is aligned.
    pub(crate) fn extend_apart(
        &mut self,
        before: usize,
        size: usize,
        read: &mut dyn FnMut(&mut Vec<u8>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut piece = Piece::new(before, size);
        let count = read(&mut piece.bytes)?;
        if count < size / 2 {
            piece.bytes.shrink_to_fit();
        }
        self.pieces.push_back(piece);
        self.end += count as u64;
        Ok(count)
    }

    /// The last piece, or a new one if it has less room.
    fn piece(&mut self, room: usize) -> &mut Vec<u8> {
        let has_room = |piece: &Piece| piece.bytes.capacity() - piece.bytes.len() >= room;
        if !self.pieces.back().is_some_and(has_room) {
            self.pieces.push_back(Piece::new(0, room.max(PIECE)));
        }
        let last = self.pieces.len() - 1;
        &mut self.pieces[last].bytes
    }

    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// How much there has been of it.
    pub(crate) fn length(&self) -> u64 {
        self.end
    }

    /// Has all of it, and its end, been sent on this connection?
    pub(crate) fn is_sent(&self) -> bool {
        self.end_sent
    }

    /// The other side has it up to there; `false` for what cannot be.
    pub(crate) fn acknowledge(&mut self, offset: u64) -> bool {
        if offset < self.acknowledged || offset > self.end {
            return false;
        }
        self.acknowledged = offset;
        self.sent = self.sent.max(offset);
        while let Some(piece) = self.pieces.front()
            && (self.start + piece.len() as u64) <= offset
        {
            self.start += piece.len() as u64;
            self.pieces.pop_front();
        }
        true
    }

    /// On another connection, the other side has it up to there.
    pub(crate) fn resume(&mut self, offset: u64) -> bool {
        if !self.acknowledge(offset) {
            return false;
        }
        (self.sent, self.end_sent) = (offset, false);
        true
    }

    /// The same if they have arrived but are not processed yet: they count as under way.
    pub(crate) fn go_on(&mut self, offset: u64) -> bool {
        if offset < self.acknowledged || offset > self.end {
            return false;
        }
        (self.sent, self.end_sent) = (offset, false);
        true
    }

    /// Sends the next frames, at most that many, if there is one. With `with_end`, the end of the stream is one.
    /// Returns whether there was one.
    pub(crate) fn send_next(
        &mut self,
        stream: Stream,
        call: u32,
        with_end: bool,
        most: usize,
        (writer, onto): (&mut FrameWriter, &mut dyn Write),
    ) -> io::Result<bool> {
        let mut at = (self.sent - self.start) as usize;
        let mut bytes = Vec::new();
        for piece in &self.pieces {
            let unsent = piece.get(at..).unwrap_or_default();
            at = at.saturating_sub(piece.len());
            bytes.extend(unsent.chunks(LONGEST_DATA).take(most - bytes.len()));
        }
        if !bytes.is_empty() {
            writer.send_data(call, stream, self.sent, &bytes, onto)?;
            self.sent += bytes.iter().map(|piece| piece.len() as u64).sum::<u64>();
            return Ok(true);
        }
        if self.ended && !self.end_sent {
            self.end_sent = true;
            if with_end {
                writer.put(call, &WireFrame::End { stream });
            }
            return Ok(with_end);
        }
        Ok(false)
    }

    /// Is there something to send, besides the end?
    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{machine::frames::Decoder, rounds::rounds};

    fn next(stream: &mut Outgoing) -> Option<WireFrame> {
        let (mut writer, mut bytes) = (FrameWriter::default(), Vec::new());
        let is_put = stream.send_next(Stream::Stdin, 0, true, 1, (&mut writer, &mut bytes)).unwrap();
        writer.flush(&mut bytes).unwrap();
        let frame = Decoder::default().feed(&mut bytes.clone()).unwrap().pop();
        assert_eq!(is_put, frame.is_some());
        frame.map(|(_, frame)| frame)
    }

    #[test]
    fn acknowledged_frames_are_not_sent_again() {
        let mut stream = Outgoing::default();
        stream.push(b"abcdef");
        let data = |offset, bytes: &[u8]| {
            Some(WireFrame::Data { stream: Stream::Stdin, offset, bytes: bytes.to_vec() })
        };
        assert_eq!(next(&mut stream), data(0, b"abcdef"));
        // On the next connection: four have come, and two of them been written.
        assert!(stream.go_on(4) && !stream.go_on(7));
        assert_eq!(next(&mut stream), data(4, b"ef"));
        assert!(stream.acknowledge(2) && stream.acknowledge(6) && !stream.acknowledge(2));
        assert!(!stream.go_on(2));
    }

    #[test]
    fn a_stream_arrives_once_and_whole_over_connections_that_break_anywhere() {
        for (seed, mut random) in rounds(500) {
            let sent: Vec<u8> = (0..random.usize(..100_000)).map(|_| random.u8(..)).collect();
            let (mut outgoing, mut came, mut given, mut over) = (Outgoing::default(), Vec::new(), 0, false);
            while !over {
                assert!(outgoing.resume(came.len() as u64), "seed {seed}");
                for _ in 0..random.usize(..20) {
                    let more = random.usize(..=sent.len() - given).min(30_000);
                    outgoing.push(&sent[given..given + more]);
                    given += more;
                    if given == sent.len() {
                        outgoing.end();
                    }
                    match next(&mut outgoing) {
                        Some(WireFrame::Data { offset, bytes, .. }) => {
                            assert_eq!(offset, came.len() as u64, "seed {seed}");
                            came.extend(bytes);
                        }
                        Some(_) => over = true,
                        None => {}
                    }
                    if random.bool() {
                        assert!(outgoing.acknowledge(came.len() as u64), "seed {seed}");
                    }
                }
            }
            assert!(came == sent, "seed {seed}");
            assert!(!outgoing.acknowledge(sent.len() as u64 + 1), "seed {seed}");
        }
    }
}
