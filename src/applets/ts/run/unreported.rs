//! Output that the relay has written but not reported, because it was killed.

use std::ops::Range;

use super::Run;
use crate::{
    outcome::{Result, Trying},
    relay::command_tracker::{CommandTracker, Stretch},
    session::{
        Piece,
        client::job::OutputReport,
        shell::{Dialect, MarkParser},
    },
};

impl Run<'_> {
    /// Follows the command through the log from where it was delivered, as the relay would have.
    pub(super) fn follow_unreported(&mut self) -> Result<()> {
        let log = &self.printer.log;
        let length = log.length().trying("read the output")?;
        if length <= self.seen {
            return Ok(());
        }
        let (handed, place) = self.handed;
        let is_fish = self.handover.dialect == Dialect::Fish;
        let mut tracker = CommandTracker::new(&self.job(handed, place), is_fish, place);
        tracker.note_handed(handed, place);
        if self.interrupts > 0 {
            tracker.note_interrupted();
        }
        let mut marks = MarkParser::new(self.session.secrets()?, place);
        let read = |range: Range<u64>| log.bytes(range.start, range.end).unwrap_or_default();
        let mut pieces = log.pieces(place, length);
        while let Some(piece) = pieces.next()? {
            match piece {
                Piece::Gap(gone) => marks.skip(gone),
                Piece::Bytes(bytes) => {
                    let (begin, mut found) = (marks.offset(), Vec::new());
                    marks.feed(bytes, &mut found);
                    let settled = marks.settled();
                    tracker.feed(&Stretch { bytes, begin, found: &found, settled, log: &read });
                }
            }
        }
        let progress = tracker.progress();
        if progress.stage > self.progress.stage {
            let report = OutputReport { processed: length, progress, ..self.relay.last_output() };
            self.note(report);
        }
        Ok(())
    }
}
