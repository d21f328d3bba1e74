//! A command for a nested shell, to which everything is typed.

use std::os::fd::AsFd;

use super::{LAST_PROMPT, Outcome, READING, Run};
use crate::{
    outcome::{Result, Trying},
    session::{
        ReportingShell,
        client::{GLANCE, Parts, PromptState, Snapshot, WaitOutcome, job::Handed, sending},
        shell::{DeliveredBy, inner},
    },
    sys::deadline::Deadline,
};

/// How much of a text is typed at once.
const PART: usize = 32 * 1024;

pub(super) struct Inner {
    secret: String,
    /// The text to deliver, and the number that the command will have.
    command: Vec<u8>,
    seq: u64,
    /// How far the log had come before it was typed.
    offset: u64,
    /// The text has been typed.
    is_typed: bool,
}

impl Inner {
    /// `None` if the shell at this place is the session's own.
    pub(super) fn of(levels: &[ReportingShell], place: &Snapshot, command: &[u8]) -> Option<Inner> {
        let level = levels.get(place.level).filter(|_| place.level > 0);
        level.map(|level| Inner {
            secret: level.secret.clone(),
            command: command.to_owned(),
            seq: place.seq.unwrap_or_default() + 1,
            offset: place.offset,
            is_typed: false,
        })
    }
}

impl Run<'_> {
    /// Hides the shell's reaction to a text that it reads.
    pub(super) fn hide_line(&mut self) -> Result<()> {
        match &self.inner {
            Some(inner) if self.handover.by == DeliveredBy::Text && !self.relay.hide(&inner.secret)? => {
                Err(self.session.ended())
            }
            _ => Ok(()),
        }
    }

    /// Waits until the shell, which may be remote, has drawn the typed text; returns the log's length then.
    pub(super) fn await_echo(&mut self) -> Result<u64> {
        let Some(inner) = &self.inner else { return Ok(self.seen) };
        let until = Deadline::after(READING).min(self.wishes.deadline);
        let (offset, keys) = (inner.offset, self.handover.keys.clone());
        loop {
            let length = self.printer.log.length().trying("read the output")?;
            let drawn = sending::drawn(self.session, &mut self.relay, offset, length)?;
            if drawn.shows(&keys) || until.has_passed() {
                return Ok(length);
            }
            // A line editor may show only a part of it: then the kernel shows that it was read.
            if !self.is_remote && length > offset {
                return self.await_drawn();
            }
            let soon = if self.is_remote { Deadline::NEVER } else { Deadline::after(GLANCE) };
            self.relay.news_or(until.min(soon), None)?;
        }
    }

    /// Has this shell ended, so that one around it reports?
    pub(super) fn look_for_outer(&self) -> Option<Outcome> {
        self.progress.outer.map(|_| Outcome::InnerEnded(self.progress.code))
    }

    /// Waits until the next call finds the outer shell at its prompt.
    pub(super) fn await_outer_prompt(&mut self) -> Result<()> {
        let deadline = Deadline::after(LAST_PROMPT);
        while self.relay.snapshot(Parts::NONE)?.is_some_and(|place| place.prompt != PromptState::Stands)
            && self.relay.news_or(deadline, Some(self.signals.as_fd()))? == WaitOutcome::Changed
        {}
        Ok(())
    }

    /// Types the text, if the shell reads it by now.
    pub(super) fn hand_text_over(&mut self) -> Result<()> {
        let Some(inner) = self.inner.as_mut().filter(|inner| !inner.is_typed) else { return Ok(()) };
        let Some(reads) = self.progress.reads else { return Ok(()) };
        inner.is_typed = true;
        let drawn = sending::drawn(self.session, &mut self.relay, inner.offset, reads)?;
        let text = inner::text(&inner.secret, inner.seq, &drawn, &inner.command);
        // Some shells read it byte by byte: each part has its time.
        let mut parts = text.chunks(PART).peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                self.note_with_next(Handed::Next, self.seen);
            }
            self.type_in(part)?;
        }
        Ok(())
    }
}
