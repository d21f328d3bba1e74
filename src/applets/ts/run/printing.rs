//! Printing what the command prints, as it comes or when it is over.

use std::{
    io::{self, Write},
    ops::{Range, RangeInclusive},
    time::Duration,
};

use super::{Cause, Outcome, Run, UNFINISHED, object};
use crate::{
    cli,
    outcome::{Result, Trying},
    session::{
        Piece,
        client::job::{Handed, Stage},
        shell::{self, LONGEST_SHOWN_HOOK},
    },
    ts::{
        output::{self, Colours},
        rendered,
    },
};

impl Run<'_> {
    pub(super) fn stream_what_came(&mut self) -> Result<()> {
        if !self.streams() || self.begun.is_none() || self.progress.unfinished {
            return Ok(());
        }
        let range = self.shown_output(false)?;
        self.leave_out_marks(&range)?;
        let settled = self.leave_out_echo(false)?;
        self.printer.from = self.printer.from.max(range.start);
        self.stream(range.end.min(settled))?;
        self.confirm();
        Ok(())
    }

    /// Sends, with the next request, how much of the output has been printed.
    fn confirm(&mut self) {
        let Some(printed) = self.printer.printed().filter(|printed| *printed > self.confirmed) else {
            return;
        };
        if self.unread.is_none() && self.progress.stage == Stage::Running {
            self.confirmed = printed;
            let job = self.job(Handed::Printed, printed);
            self.relay.note_job_with_next(&job);
        }
    }

    /// Finds the marks of the shell in this range of the output, as far as that was not done before.
    pub(super) fn leave_out_marks(&mut self, range: &Range<u64>) -> Result<()> {
        let at = self.marks.offset();
        self.marks.skip(range.start.saturating_sub(at));
        let mut found = Vec::new();
        let mut pieces = self.printer.log.pieces(self.marks.offset(), range.end);
        while let Some(piece) = pieces.next()? {
            match piece {
                Piece::Gap(gone) => self.marks.skip(gone),
                Piece::Bytes(block) => self.marks.feed(block, &mut found),
            }
        }
        for mark in found {
            let place = self.cuts.partition_point(|cut| cut.start < mark.start);
            self.cuts.insert(place, mark.start..mark.end);
        }
        Ok(())
    }

    /// The range of the output, without: a line of ours that `set -v` shows, the end mark of fish, the
    /// newline that bash prints if a command has died of an interrupt of ours, other traces of interrupts,
    /// and, as long as more may come, a possible prompt without marks.
    pub(super) fn shown_output(&self, complete: bool) -> Result<Range<u64>> {
        let Range { start, end } = self.progress.output();
        let start = start.max(self.printed_before);
        let mut range = start..end.max(start);
        let start = range.start.max(range.end.saturating_sub(LONGEST_SHOWN_HOOK));
        let tail = self.printer.log.bytes(start, range.end).trying("read the output")?;
        match (self.progress.shown, complete) {
            (Some(shown), _) if range.contains(&shown) => {
                let tail = self.printer.log.bytes(start.min(shown), shown).trying("read the output")?;
                range.end = shown - shell::shown_hook(&tail, true) as u64;
            }
            (_, true) => {}
            (_, false) => {
                let may_be_ours = shell::shown_hook(&tail, false);
                let may_be_prompt =
                    if self.handover.can_look() { shell::unreported_prompt(&tail) } else { 0 };
                // fish may report the end of an interrupted command only in its next prompt.
                let fish_prompt = if self.has_interrupted_fish() { shell::fish_prompt(&tail) } else { 0 };
                range.end -= may_be_ours.max(may_be_prompt).max(fish_prompt) as u64;
            }
        }
        if self.progress.marks_end {
            let tail = &tail[..(range.end.saturating_sub(start) as usize).min(tail.len())];
            range.end -= shell::own_end(tail, complete) as u64;
        }
        // A shell inside the session's own gets each as from a keyboard, which is echoed.
        let most = if self.level > 0 { self.interrupts as usize } else { 0 };
        let Some(interrupted) = self.interrupted_at else { return Ok(range) };
        // An interrupt before the command's start may be echoed behind its beginning.
        let (at, least) = if interrupted < range.start { (range.start, 1) } else { (interrupted, 0) };
        if range.contains(&at) && range.end - at <= 2 * most as u64 + 3 {
            let since = self.printer.log.bytes(at, range.end).trying("read the output")?;
            if may_be_of_interrupts(&since, least..=most) {
                range.end = at;
            }
        }
        Ok(range)
    }

    pub(super) fn stream(&mut self, end: u64) -> Result<()> {
        if self.begun.is_none() {
            return Ok(());
        }
        let range = self.printer.from..end;
        self.look_at_newlines(&range)?;
        let mut stdout = io::stdout().lock();
        let printed = self
            .printer
            .print(range, &mut self.cuts, |bytes| cli::written(stdout.write_all(bytes)))
            .and_then(|()| cli::written(stdout.flush()));
        // Without a reader the command is of no use any more: it is interrupted.
        self.unread = printed.err();
        Ok(())
    }

    /// Finds where in this stretch a `\r` before a `\n` is the program's own.
    pub(super) fn look_at_newlines(&mut self, range: &Range<u64>) -> Result<()> {
        // A remote terminal translates all newlines, and this one none.
        if range.start < self.relay.last_output().untranslated.min(range.end)
            && !self.is_remote
            && let Some(ranges) = self.relay.untranslated(range.start)?
        {
            self.printer.untranslated = ranges;
        }
        Ok(())
    }

    pub(super) fn write_rest(&mut self) {
        self.unread = cli::print(self.printer.rest()).err();
    }

    fn give_parts(
        &mut self,
        range: &Range<u64>,
        gap: Option<&Range<u64>>,
        give: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        for (number, part) in output::parts(range, gap).into_iter().enumerate() {
            if let (1, Some(gap)) = (number, gap) {
                let line = output::gap_line(self.session.handle(), gap, self.printer.last);
                give(line.as_bytes())?;
            }
            self.printer.from = part.start;
            self.printer.print(part, &mut self.cuts, &mut *give)?;
            give(self.printer.rest())?;
        }
        Ok(())
    }

    /// Prints the whole output, or its two parts.
    pub(super) fn print_at_once(
        &mut self,
        range: Range<u64>,
        outcome: &Outcome,
        cause: Option<Cause>,
        duration: Duration,
    ) -> Result<()> {
        let what = format!("read the output of session '{}'", self.session.handle());
        self.look_at_newlines(&range)?;
        let gap = self.printer.gap(&range, &self.cuts, self.wishes.max).trying(what)?;
        let mut collected = Vec::new();
        let json = self.wishes.json;
        let mut give = |bytes: &[u8]| match json {
            true => {
                collected.extend_from_slice(bytes);
                Ok(())
            }
            false => cli::print(bytes),
        };
        let mut left_out = gap.as_ref().map(|gap| gap.end - gap.start);
        if let Some(colours) = self.wishes.rendered {
            let (log, cuts) = (&self.printer.log, &self.cuts);
            let colours = colours == Colours::Kept;
            let (text, lost) = rendered::text(self.session, log, range.clone(), cuts, colours)?;
            let (text, count) = output::shortened(text, self.wishes.max, self.session.handle(), &range);
            left_out = (count > 0).then_some(count);
            self.printer.lost += lost;
            give(&text)?;
        } else {
            self.give_parts(&range, gap.as_ref(), &mut give)?;
        }
        if !json {
            output::warn_of_lost(self.printer.lost, json);
            return Ok(());
        }
        let code = match outcome {
            Outcome::Done(code) => Some(*code),
            Outcome::Ended => self.session.exit_code().unwrap_or(None),
            Outcome::Unfinished => Some(i32::from(UNFINISHED)),
            Outcome::InnerEnded(code) => Some(*code),
            Outcome::Asks(_) | Outcome::GivenUp | Outcome::Lost(_) => None,
        };
        let result = match (outcome, cause) {
            (Outcome::Ended | Outcome::InnerEnded(_) | Outcome::Lost(_), _) => "ended",
            (Outcome::Asks(_), _) => "input",
            (_, Some(Cause::Timeout)) => "timeout",
            (_, Some(Cause::Signal)) => "interrupted",
            (_, None) => "done",
        };
        let object = object(self.session, result, code, duration, &collected);
        let object = match outcome {
            Outcome::Asks(waiting) => {
                let question = self.session.question(waiting.doing)?;
                object
                    .text("terminal", waiting.doing.word())
                    .bytes_or_null("question", question.as_ref().map(|question| question.as_bytes()))
            }
            _ => object,
        };
        let object = object.count_if_any("left_out", left_out.unwrap_or(0));
        cli::print(object.count_if_any("lost", self.printer.lost).line())
    }
}

/// Can this output be the beginning of the text that interrupts leave? The terminal echoes as many of them as
/// `echoes` allows, and bash prints a newline. If an interrupt comes while bash prints a mark, bash prints only
/// the ESC of the mark.
fn may_be_of_interrupts(output: &[u8], echoes: RangeInclusive<usize>) -> bool {
    let begins = |count: usize, rest: &[u8]| [&b"^C".repeat(count)[..], rest].concat().starts_with(output);
    (0..=*echoes.end())
        .any(|count| (echoes.contains(&count) && begins(count, b"\r\n")) || begins(count, b"\x1b\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_interrupts_leave_is_not_output() {
        for (output, (least, most), is_theirs) in [
            (&b""[..], (0, 0), true),
            (b"\r\n", (0, 0), true),
            (b"\r\n", (1, 2), false),
            (b"^C^C\r\n", (1, 2), true),
            (b"^C^C^C\r\n", (1, 2), false),
            (b"\x1b", (0, 0), true),
            (b"\x1b\r\n", (0, 0), true),
            // The command began after the interrupt.
            (b"\x1b\r\n", (1, 0), true),
            (b"^C\x1b\r\n", (1, 1), true),
            (b"\x1b[m\r\n", (0, 0), false),
            (b"\x1b\r\nmore", (0, 0), false),
            (b"x", (0, 1), false),
        ] {
            assert_eq!(may_be_of_interrupts(output, least..=most), is_theirs, "{output:?}");
        }
    }
}
