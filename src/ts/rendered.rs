//! A stretch of the log as a person would have seen it (`--rendered`).

use std::{iter, ops::Range};

use crate::{
    outcome::{Result, Trying},
    session::{OutputLog, Piece, SessionDir, screen_of},
    sys::{deadline::Deadline, pty::Size},
    terminal::screen::{Rendering, Screen},
};

/// An empty screen of the size that the session's had at this place of its log.
pub(crate) fn empty_screen(session: &SessionDir, offset: u64) -> Result<Screen> {
    let sizes = session.sizes()?;
    let size = sizes.iter().rev().find(|(from, _)| *from <= offset);
    Ok(screen_of(size.map_or(Size::DEFAULT, |(_, size)| *size)))
}

/// How far there was time for, and how many bytes of it were gone.
pub(crate) struct Fed {
    pub(crate) came_to: u64,
    pub(crate) lost: u64,
}

/// Draws what lies in `range`, but not in the cuts, which are in order, on a terminal that
/// changes its size where the session's did.
pub(crate) fn feed(
    session: &SessionDir,
    log: &OutputLog,
    range: Range<u64>,
    cuts: &[Range<u64>],
    rendering: &mut Rendering,
    until: Deadline,
) -> Result<Fed> {
    let what = format!("read the output of session '{}'", session.handle());
    let sizes = session.sizes()?;
    let resized = sizes.iter().filter(|(from, _)| range.contains(from) && *from > range.start);
    // A cut of no bytes, where the size is another one.
    let resized = resized.map(|(from, size)| (*from..*from, Some(*size)));
    let cuts = cuts.iter().filter(|cut| cut.start < range.end && cut.end >= range.start);
    let mut stops: Vec<_> = cuts.map(|cut| (cut.clone(), None)).chain(resized).collect();
    stops.sort_unstable_by_key(|(stop, _)| stop.start);
    let (mut at, mut lost) = (range.start, 0);
    for (stop, size) in stops.into_iter().chain(iter::once((range.end..range.end, None))) {
        let mut pieces = log.pieces(at, stop.start.max(at));
        while let Some(piece) = pieces.next().trying(&what)? {
            match piece {
                Piece::Gap(gone) => {
                    // Ends an incomplete sequence (CAN).
                    rendering.feed(b"\x18");
                    lost += gone;
                }
                Piece::Bytes(block) => rendering.feed(block),
            }
            if until.has_passed() {
                return Ok(Fed { came_to: pieces.offset(), lost });
            }
        }
        if let Some(Size { cols, rows }) = size {
            rendering.resize(cols, rows);
        }
        at = at.max(stop.end);
    }
    Ok(Fed { came_to: range.end, lost })
}

/// The text of a stretch that begins on a line of its own, and the number of its bytes that were dropped.
pub(crate) fn text(
    session: &SessionDir,
    log: &OutputLog,
    range: Range<u64>,
    cuts: &[Range<u64>],
    colours: bool,
) -> Result<(Vec<u8>, u64)> {
    let mut rendering = Rendering::new(empty_screen(session, range.start)?, colours);
    let fed = feed(session, log, range, cuts, &mut rendering, Deadline::NEVER)?;
    Ok((rendering.finish().text.into_bytes(), fed.lost))
}
