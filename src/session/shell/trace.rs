//! A command's way through the log, by the marks of its shell: where its output
//! begins and ends, and how it ended.
//!
//! The command is the one that `run` has typed; what else the shell prints about
//! it (the echo of our line, its prompt) lies outside of that.

use std::{ops::Range, time::Instant};

use crate::{
    outcome::{Result, Trying},
    session::{
        OutputLog, Piece,
        shell::{FoundMark, Mark, Marks},
    },
};

pub(crate) struct Trace {
    marks: Marks,
    pub(crate) stage: Stage,
    // The number of the completion before the command's.
    last: u64,
    /// Something was gone of the log that should have been read.
    pub(crate) gap: bool,
    /// How much of that was gone before it was seen to begin.
    pub(crate) unseen: u64,
    /// How far the log has been read.
    pub(crate) next: u64,
    found: Vec<FoundMark>,
    /// The shell has begun to execute a line, which may be ours.
    pub(crate) has_entered: bool,
    /// When we saw it begin.
    pub(crate) begun: Option<Instant>,
    /// Marks within the output, or what looks like them, in order.
    pub(crate) cuts: Vec<Range<u64>>,
}

/// How far the command has come, as the marks tell.
#[derive(Clone, Copy)]
pub(crate) enum Stage {
    /// It has been typed, and has not begun.
    Typed,
    /// Its output begins at `start`.
    Running {
        seq: u64,
        start: u64,
    },
    Done {
        start: u64,
        end: u64,
        code: i32,
    },
    /// The next prompt has begun, or has ended.
    Prompt {
        start: u64,
        end: u64,
        code: i32,
        ended: bool,
    },
}

impl Trace {
    /// Of a command that is typed where the log has come to `offset`, and the
    /// shell's last completion was `last`, for which `marks` were made.
    pub(crate) fn new(marks: Marks, offset: u64, last: u64) -> Trace {
        Trace {
            marks,
            stage: Stage::Typed,
            last,
            gap: false,
            unseen: 0,
            next: offset,
            found: Vec::new(),
            has_entered: false,
            begun: None,
            cuts: Vec::new(),
        }
    }

    /// Reads on.
    pub(crate) fn look(&mut self, log: &OutputLog) -> Result<()> {
        let mut lost = 0;
        let mut pieces = log.pieces(self.next, u64::MAX);
        while let Some(piece) = pieces.next()? {
            match piece {
                Piece::Gap(gone) => {
                    self.marks.skip(gone);
                    lost += gone;
                }
                Piece::Bytes(block) => self.marks.feed(block, &mut self.found),
            }
        }
        self.next = pieces.offset();
        for found in std::mem::take(&mut self.found) {
            self.heed(&found);
        }
        if lost > 0 {
            self.gap = true;
            // So much has not been printed by the echo of our line.
            if matches!(self.stage, Stage::Typed) {
                self.begun = Some(Instant::now());
                self.unseen = lost;
                self.stage = Stage::Running {
                    seq: self.last.saturating_add(1),
                    start: log.start().trying("read the output")?,
                };
            }
        }
        Ok(())
    }

    fn heed(&mut self, found: &FoundMark) {
        self.stage = match (self.stage, found.mark) {
            // Of the command whose turn it is: ours, whatever completed before it.
            (Stage::Typed, Mark::Running { seq }) => {
                self.begun = Some(Instant::now());
                Stage::Running { seq, start: found.end }
            }
            (Stage::Typed, Mark::Started { .. }) => {
                self.has_entered = true;
                Stage::Typed
            }
            (Stage::Running { seq, start }, Mark::Done { seq: done, code }) if done == seq => {
                Stage::Done { start, end: found.start, code }
            }
            (Stage::Running { .. }, _) => {
                self.cuts.push(found.start..found.end);
                self.stage
            }
            (Stage::Done { start, end, code }, Mark::PromptStart { .. }) => {
                Stage::Prompt { start, end, code, ended: false }
            }
            (
                Stage::Done { start, end, code } | Stage::Prompt { start, end, code, .. },
                Mark::PromptEnd { .. },
            ) => Stage::Prompt { start, end, code, ended: true },
            (stage, _) => stage,
        };
    }

    /// Where the output lies, as far as that is known by now.
    pub(crate) fn output(&self) -> Range<u64> {
        match self.stage {
            Stage::Typed => self.next..self.next,
            Stage::Running { start, .. } => start..self.marks.settled(),
            Stage::Done { start, end, .. } | Stage::Prompt { start, end, .. } => start..end,
        }
    }
}
