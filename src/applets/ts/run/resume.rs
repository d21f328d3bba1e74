//! Resumes a command that another call has left waiting for input.

use std::{collections::VecDeque, ops::Range};

use super::{Run, RunOptions, prompt::take_turn};
use crate::{
    outcome::{Failure, Result, Trying},
    session::{
        OutputLog, SessionDir,
        client::{
            Parts, RelayClient,
            input_history::{InputHistory, Mode},
        },
        shell::{CommandDelivery, MarkParser},
    },
    sys::signals::Signals,
};

impl<'a> Run<'a> {
    pub(super) fn resume(
        session: &'a SessionDir,
        wishes: RunOptions,
        mut signals: Signals,
    ) -> Result<Run<'a>> {
        let log = session.log()?;
        let mut turn = RelayClient::open(session)?.ok_or_else(|| session.ended())?;
        take_turn(session, wishes, &mut turn, &mut signals)?;
        let job = turn.attach()?.ok_or_else(|| {
            Failure::failed(format!(
                "cannot resume a command in session '{}': there is no command to resume",
                session.handle()
            ))
        })?;
        let handover = CommandDelivery::again_by(session.dialect(job.level)?, job.by, job.beginning);
        let marks = MarkParser::new(session.secrets()?, job.place);
        let mut run = Run::new(session, wishes, signals, turn, log, marks, handover);
        (run.level, run.is_remote, run.is_nothing) = (job.level, job.is_remote, job.is_nothing);
        run.place = job.place;
        if !run.relay.look_at_output()? {
            return Err(session.ended());
        }
        run.note(run.relay.last_output());
        run.answers = Some(AnswerEchoes { known: job.typed, pending: VecDeque::new() });
        (run.printed_before, run.confirmed) = (job.place, job.place);
        run.question.note_change();
        Ok(run)
    }

    /// Removes the echo of typed text from the output, as far as the log has been read; returns where the
    /// rest of one may begin. `over`: no more will come.
    pub(super) fn leave_out_echo(&mut self, over: bool) -> Result<u64> {
        let end = self.seen;
        let Some(answers) = &mut self.answers else { return Ok(end) };
        // Requested after the log was read: so we know the input for every echo.
        let now = self.relay.snapshot_with_typing(Parts::NONE, answers.known)?;
        if let Some(typing) = now.and_then(|now| now.typing) {
            answers.note(typing);
        }
        answers.cut(&self.printer.log, end, over, &mut self.cuts)
    }
}

/// The text typed while no call watched the command, or since.
pub(super) struct AnswerEchoes {
    // How much of all input was reported to us.
    known: u64,
    // The echoes that have not been seen, in order.
    pending: VecDeque<Echo>,
}

#[derive(Debug, PartialEq, Eq)]
struct Echo {
    // The first offset at which it can begin.
    from: u64,
    bytes: Vec<u8>,
    // It begins there: a line editor draws it, not the kernel.
    exactly: bool,
}

/// The kernel echoes at once. Text that was not echoed within this many bytes never will be.
const LATEST: u64 = 4 * 1024;

impl AnswerEchoes {
    fn note(&mut self, typing: InputHistory) {
        self.known = typing.total;
        for keys in typing.keys {
            let exactly = keys.mode != Mode::Lines;
            for line in keys.bytes.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
                let bytes = echo(line);
                self.pending.push_back(Echo { from: keys.offset, bytes, exactly });
            }
        }
    }

    /// Adds the echoes that have come before `end` to the cuts, which are in order.
    fn cut(&mut self, log: &OutputLog, end: u64, over: bool, cuts: &mut Vec<Range<u64>>) -> Result<u64> {
        while let Some(echo) = self.pending.front() {
            let from = echo.from.min(end);
            let bytes = log.bytes(from, end.min(from + LATEST)).trying("read the output")?;
            let at = match echo.exactly {
                true => bytes.starts_with(&echo.bytes).then_some(0),
                false => memchr::memmem::find(&bytes, &echo.bytes),
            };
            if let Some(at) = at {
                let start = from + at as u64;
                let range = start..start + echo.bytes.len() as u64;
                // The next one comes behind it.
                for later in self.pending.iter_mut() {
                    later.from = later.from.max(range.end);
                }
                let place = cuts.partition_point(|cut| cut.start < range.start);
                cuts.insert(place, range);
                self.pending.pop_front();
                continue;
            }
            let held = (0..=bytes.len().min(echo.bytes.len() - 1)).rev();
            let mut held = held.filter(|length| bytes.ends_with(&echo.bytes[..*length]));
            let held = held.find(|length| !echo.exactly || *length == bytes.len()).unwrap_or(0);
            let is_late = bytes.len() as u64 == LATEST || (echo.exactly && held < bytes.len());
            if !over && !is_late {
                return Ok(end - held as u64);
            }
            self.pending.pop_front();
        }
        Ok(end)
    }
}

/// How a line that was typed is echoed (termios(3), ECHOCTL).
fn echo(typed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(typed.len() + 1);
    for byte in typed {
        match byte {
            b'\r' | b'\n' => bytes.extend(b"\r\n"),
            b'\t' => bytes.push(b'\t'),
            0..0x20 | 0x7f => bytes.extend([b'^', byte ^ 0x40]),
            _ => bytes.push(*byte),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::client::input_history::Keys;

    fn cut(output: &str, typed: &[(u64, Mode, &str)], over: bool) -> (String, usize) {
        let mut answers = AnswerEchoes { known: 0, pending: VecDeque::new() };
        let keys = typed.iter();
        let keys = keys.map(|(offset, mode, text)| Keys {
            offset: *offset,
            mode: *mode,
            bytes: text.as_bytes().into(),
        });
        answers.note(InputHistory { anchor: 0, total: 9, keys: keys.collect() });
        let (log, mut cuts) = (OutputLog::of(output.as_bytes()), Vec::new());
        let settled = answers.cut(&log, output.len() as u64, over, &mut cuts).unwrap();
        let is_cut = |at: usize| cuts.iter().any(|cut| cut.contains(&(at as u64)));
        let kept = output.char_indices().filter(|(at, _)| !is_cut(*at)).map(|(_, kept)| kept);
        (kept.collect(), settled as usize)
    }

    #[test]
    fn the_kernels_echo_is_omitted_once() {
        let lines = Mode::Lines;
        assert_eq!(cut("y\r\ny\r\n", &[(0, lines, "y\r")], false), ("y\r\n".into(), 6));
        assert_eq!(cut("a^D\u{e9}\r\nb\r\n", &[(0, lines, "\x04\u{e9}\r")], false).0, "ab\r\n");
        let two = [(0, lines, "a\r"), (3, lines, "b\r")];
        assert_eq!(cut("a\r\nb? b\r\nb\r\n", &two, false).0, "b? b\r\n");
    }

    #[test]
    fn a_possible_beginning_of_an_echo_is_held_back_until_the_end() {
        let typed = [(2, Mode::Lines, "yes\r")];
        assert_eq!(cut("? ", &typed, false), ("? ".into(), 2));
        assert_eq!(cut("? ye", &typed, false), ("? ye".into(), 2));
        assert_eq!(cut("? ye", &typed, true), ("? ye".into(), 4));
        assert_eq!(cut("? no\r\n", &typed, false), ("? no\r\n".into(), 6), "it may come later");
    }

    #[test]
    fn a_text_that_a_program_draws_at_once_is_its_echo() {
        let raw = Mode::Raw;
        assert_eq!(cut("y\r\nok", &[(0, raw, "y\r")], false), ("ok".into(), 5));
        assert_eq!(cut("ok y\r\n", &[(0, raw, "y\r")], false), ("ok y\r\n".into(), 6));
    }
}
