//! Output that scrolls away before anybody sees it, passed over.
//!
//! A build that prints gigabytes is lines, and colours in them. Where the cursor stands
//! on the last row and nothing but lines come, no more of them can be seen than the
//! screen and the history hold: the state after all of them is that after the last
//! ones, if what acts on more than cells (colours, titles, modes) is acted on. So only
//! those are drawn. It is exact, not a guess: what could move the cursor up, change the
//! margins or the character set ends the stretch.

use memchr::{memchr, memchr2, memchr3, memrchr_iter};

use super::Screen;
use crate::terminal::tokenizer::{BEL, C1_LEAD, ESC, State, control_sequence_length, is_c1};

/// Shorter output is drawn, since finding out costs as much.
const WORTH_IT: usize = 512 * 1024;

/// How many ends of lines are tried for one that no program could have made otherwise.
const MOST_TRIED: usize = 2_000;

/// How much is drawn where a stretch ends, before the next one is looked for.
const STEP: usize = 64 * 1024;

impl Screen {
    /// Takes the next bytes of the stream; how it is cut makes no difference.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while rest.len() >= WORTH_IT {
            let used = self.skim(rest);
            rest = &rest[used..];
        }
        self.emulate(rest);
    }

    /// Processes some of these bytes, and returns how many.
    fn skim(&mut self, bytes: &[u8]) -> usize {
        let plain = if self.only_scrolls() { plain_length(bytes) } else { 0 };
        if let Some(end) = self.end_of_what_goes(&bytes[..plain]) {
            self.act_on(&bytes[..end]);
            (self.cursor.col, self.cursor.pending) = (0, false);
            self.emulate(&bytes[end..plain]);
            return plain;
        }
        let used = (plain + STEP).min(bytes.len());
        self.emulate(&bytes[..used]);
        used
    }

    /// Does every line from here on move all others up, and nothing else?
    fn only_scrolls(&self) -> bool {
        let last = self.height() - 1;
        let sides = (self.left, self.right) == (0, self.cols() - 1);
        let is_whole = sides && (self.top, self.bottom, self.cursor.row) == (0, last, last);
        is_whole && self.parser.state == State::Ground && self.held.is_empty()
    }

    /// The start of the last lines, after which nothing of the bytes before them is left.
    fn end_of_what_goes(&self, bytes: &[u8]) -> Option<usize> {
        let history = if self.grid.keeps_history { self.grid.limit } else { 0 };
        let ends = memrchr_iter(b'\n', bytes).skip(history + self.height());
        ends.take(MOST_TRIED).find(|at| *at > 0 && bytes[at - 1] == b'\r').map(|at| at + 1)
    }

    /// Does what sequences among these bytes do to more than cells.
    fn act_on(&mut self, bytes: &[u8]) {
        // Whatever colours were chosen before all of them were given up do not matter.
        let gives_up =
            |at: &usize| [&b"\x1b[0m"[..], b"\x1b[m"].iter().any(|all| bytes[*at..].starts_with(all));
        let given_up = memrchr_iter(ESC, bytes).find(gives_up).unwrap_or(0);
        let mut at = 0;
        while let Some(distance) = memchr(ESC, &bytes[at..]) {
            at += distance;
            let length = sequence_length(&bytes[at..]).unwrap_or(1);
            let sequence = &bytes[at..at + length];
            let acts = match (sequence.get(1), sequence.last()) {
                (Some(b'['), Some(b'm')) => at >= given_up,
                (Some(b'['), Some(b'K')) => false,
                _ => true,
            };
            if acts {
                self.emulate(sequence);
            }
            at += length;
        }
    }
}

/// How much of this is lines, and sequences that change neither the place of the cursor
/// nor that of lines.
fn plain_length(bytes: &[u8]) -> usize {
    const BACKSPACE: u8 = 0x08;
    const SHIFT_OUT: u8 = 0x0e;
    const SHIFT_IN: u8 = 0x0f;
    let mut at = 0;
    loop {
        let next = memchr2(ESC, C1_LEAD, &bytes[at..]).map_or(bytes.len(), |distance| at + distance);
        if let Some(distance) = memchr3(BACKSPACE, SHIFT_OUT, SHIFT_IN, &bytes[at..next]) {
            return at + distance;
        }
        let length = match bytes.get(next) {
            None => return next,
            Some(&ESC) => sequence_length(&bytes[next..]),
            Some(_) => bytes.get(next + 1).is_some_and(|byte| !is_c1(*byte)).then_some(1),
        };
        match length {
            Some(length) => at = next + length,
            None => return next,
        }
    }
}

/// The length of the sequence that stands here, if it is whole and harmless: colours,
/// what erases within the line, titles and the shell's marks, and the modes that
/// shells set.
fn sequence_length(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'[' => {
            let length = control_sequence_length(bytes)?;
            let (parameters, last) = (&bytes[2..length - 1], bytes[length - 1]);
            let harmless = match last {
                b'h' | b'l' => matches!(parameters, b"?1" | b"?12" | b"?25" | b"?2004" | b"?1004"),
                last => matches!(last, b'm' | b'K'),
            };
            harmless.then_some(length)
        }
        b']' => {
            let length = bytes.iter().skip(2).position(|byte| !matches!(byte, 0x20..=0x7e))?;
            (bytes[2 + length] == BEL).then_some(length + 3)
        }
        b'=' | b'>' => Some(2),
        _ => None,
    }
}
