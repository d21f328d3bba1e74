//! Output that the relay has written but not reported, because it was killed.

use super::Run;
use crate::{
    outcome::{Result, Trying},
    relay::command_tracker::{CommandTracker, Stretch},
    session::{
        client::job::{Handed, OutputReport, Progress, Stage},
        shell::{DeliveredBy, Dialect, MarkParser, MarkStripper},
    },
};

impl Run<'_> {
    /// Follows the command through the rest of the log, as the relay would have.
    pub(super) fn follow_unreported(&mut self) -> Result<()> {
        let log = &self.printer.log;
        let end = log.length().trying("read the output")?;
        let (old, has_begun) = (self.progress, self.progress.has_begun());
        if end <= self.seen || old.is_done() {
            return Ok(());
        }
        let (handed, place) = match (old.stage, self.handover.by) {
            _ if has_begun => (Handed::Printed, old.start),
            (Stage::Typed, DeliveredBy::Key) => (Handed::Whole, self.place),
            (_, DeliveredBy::Text) => (Handed::InPart, self.place),
            _ => (Handed::Next, self.place.max(old.start)),
        };
        // The relay's last report may have come in the middle of a mark.
        let from = if has_begun { place.max(self.seen.saturating_sub(MarkStripper::LONGEST)) } else { place };
        let bytes = log.bytes(from, end).trying("read the output")?;
        let begin = end.saturating_sub(bytes.len() as u64);
        let (mut marks, mut found) = (MarkParser::new(self.session.secrets()?, begin), Vec::new());
        marks.feed(&bytes, &mut found);
        let is_fish = self.handover.dialect == Dialect::Fish;
        let mut tracker = CommandTracker::new(&self.job(handed, place), is_fish, place);
        tracker.note_handed(handed, place);
        if self.interrupts > 0 {
            tracker.note_interrupted();
        }
        tracker.feed(&Stretch {
            bytes: &bytes,
            begin,
            found: &found,
            settled: marks.settled(),
            log: &|range| log.bytes(range.start, range.end).unwrap_or_default(),
        });
        let mut progress = tracker.progress();
        if has_begun {
            // fish prints sequences of its own before the output, and may not have printed all of them by then.
            let start = if old.end > old.start { old.start } else { progress.start };
            let Progress { stage, end, code, .. } = progress;
            progress = Progress { stage, start, end, code, ..old };
        }
        let report = OutputReport { processed: end, progress, ..self.relay.last_output() };
        self.note(report);
        Ok(())
    }
}
