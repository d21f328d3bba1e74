//! The lines that have scrolled off a screen.
//!
//! Each is kept as the bytes that a saved screen has of it: plain text takes a tenth of the memory, and a screen
//! is resumed without making lines that nobody looks at.

use std::collections::VecDeque;

use super::{
    encoding::{Reader, Writer},
    line::Line,
};

/// Before a line: the number of its cells, and of its bytes.
const HEAD: usize = 2 + 4;

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    // The lines, each after its head; before them are those that have been dropped.
    bytes: Vec<u8>,
    // The place in `bytes` at which each begins.
    starts: VecDeque<usize>,
    cells: usize,
}

impl History {
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// How many cells its lines have.
    pub(super) fn cells(&self) -> usize {
        self.cells
    }

    pub(super) fn push(&mut self, line: &Line) {
        let start = self.bytes.len();
        let mut out = Writer(std::mem::take(&mut self.bytes));
        out.0.extend([0; HEAD]);
        out.line(line);
        self.bytes = out.0;
        let cells = line.cells.len() as u16;
        let length = (self.bytes.len() - start - HEAD) as u32;
        self.bytes[start..start + 2].copy_from_slice(&cells.to_le_bytes());
        self.bytes[start + 2..start + HEAD].copy_from_slice(&length.to_le_bytes());
        self.starts.push_back(start);
        self.cells += usize::from(cells);
    }

    /// Drops the oldest line.
    pub(super) fn drop_first(&mut self) {
        let Some(start) = self.starts.pop_front() else { return };
        self.cells -= head(&self.bytes[start..]).map_or(0, |(cells, _)| cells);
        let first = self.first();
        // So seldom that each byte is moved once at most, on average.
        if first > self.bytes.len() / 2 {
            self.bytes.drain(..first);
            self.starts.iter_mut().for_each(|start| *start -= first);
        }
    }

    /// Takes the newest line.
    pub(super) fn pop(&mut self) -> Option<Line> {
        let line = self.get(self.len().checked_sub(1)?);
        let start = self.starts.pop_back()?;
        self.cells -= head(&self.bytes[start..]).map_or(0, |(cells, _)| cells);
        self.bytes.truncate(start);
        line
    }

    /// The line at this place; an empty one if its bytes are damaged.
    pub(super) fn get(&self, at: usize) -> Option<Line> {
        let (_, line) = head(&self.bytes[*self.starts.get(at)?..])?;
        Some(Reader::line_of(line).unwrap_or_default())
    }

    /// The lines from this place on.
    pub(super) fn lines(&self, from: usize) -> impl Iterator<Item = Line> {
        (from..self.len()).filter_map(|at| self.get(at))
    }

    fn first(&self) -> usize {
        self.starts.front().copied().unwrap_or(self.bytes.len())
    }

    /// The bytes from which it can be resumed.
    pub(super) fn saved(&self) -> &[u8] {
        &self.bytes[self.first()..]
    }

    /// `None` if there are more than so many lines, or none of the bytes can be.
    pub(super) fn resumed(saved: &[u8], most: usize) -> Option<History> {
        let mut history = History { bytes: saved.to_vec(), ..History::default() };
        let mut at = 0;
        while at < saved.len() && history.len() < most {
            let (cells, line) = head(&saved[at..])?;
            history.starts.push_back(at);
            history.cells += cells;
            at += HEAD + line.len();
        }
        (at == saved.len()).then_some(history)
    }
}

/// The number of cells and the bytes of the line that begins there.
fn head(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (cells, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    Some((u16::from_le_bytes(*cells).into(), rest.get(..u32::from_le_bytes(*length) as usize)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{rounds::rounds, terminal::screen::Screen};

    #[test]
    fn lines_come_back_as_they_were() {
        for (seed, mut random) in rounds(200) {
            let (mut history, mut lines) = (History::default(), VecDeque::new());
            let mut screen = Screen::new(20, 1);
            for _ in 0..random.usize(1..200) {
                match random.u8(..5) {
                    0 => assert_eq!(history.pop(), lines.pop_back(), "seed {seed}"),
                    1 => {
                        history.drop_first();
                        lines.pop_front();
                    }
                    _ => {
                        let colour = random.u8(..);
                        screen.feed(format!("\r\x1b[48;5;{colour}m\x1b[Ka\u{301}{seed}").as_bytes());
                        let line = screen.shown(0).remove(0);
                        history.push(&line);
                        lines.push_back(line);
                    }
                }
                let resumed = History::resumed(history.saved(), 200).unwrap();
                for history in [&history, &resumed] {
                    assert!(history.lines(0).eq(lines.iter().cloned()), "seed {seed}");
                    assert_eq!(
                        history.cells(),
                        lines.iter().map(|line| line.cells.len()).sum::<usize>(),
                        "seed {seed}"
                    );
                    assert_eq!(history.len(), lines.len(), "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn a_damaged_line_is_empty_and_a_damaged_head_is_no_history() {
        let screen = Screen::showing(20, 1, b"abc\r\ndef\r\n");
        let saved = screen.grid.history.saved().to_vec();
        assert!(History::resumed(&saved, 1).is_none());
        assert!(History::resumed(&saved[..saved.len() - 1], 2).is_none());
        let mut damaged = saved;
        // Neither true nor false.
        damaged[HEAD] = 2;
        let history = History::resumed(&damaged, 2).unwrap();
        assert_eq!(history.get(0), Some(Line::default()));
        assert_eq!(history.get(1).map(|line| line.cells.len()), Some(3));
    }
}
