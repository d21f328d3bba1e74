//! Numbers and lines as bytes, and back.
//!
//! Whatever bytes there are, what is made of them is sound or nothing, and takes no more memory than the
//! bytes account for.

use std::collections::VecDeque;

use super::{
    line::{Cell, Colour, Line, Pen},
    links,
};

/// No terminal is larger (the kernel counts in 16 bits).
pub(super) const LONGEST_SIDE: u64 = u16::MAX as u64;

pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    /// Seven bits a byte, the low ones first.
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn size(&mut self, size: usize) {
        self.number(size as u64);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.size(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn flags(&mut self, flags: &[bool]) {
        self.0.extend(flags.iter().map(|flag| u8::from(*flag)));
    }

    pub(super) fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Writer, &T)) {
        self.flags(&[value.is_some()]);
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(super) fn pen(&mut self, pen: Pen) {
        // Few have a colour under them.
        let is_underlined = pen.underline_colour != Colour::DEFAULT;
        self.number(u64::from(pen.foreground.0) << 1 | u64::from(is_underlined));
        for number in [pen.background.0, pen.style] {
            self.number(u64::from(number));
        }
        if is_underlined {
            self.number(u64::from(pen.underline_colour.0));
        }
    }

    pub(super) fn cell(&mut self, cell: Cell) {
        self.number(u64::from(cell.glyph));
        self.pen(cell.pen);
    }

    pub(super) fn lines(&mut self, lines: &VecDeque<Line>) {
        self.size(lines.len());
        lines.iter().for_each(|line| self.line(line));
    }

    pub(super) fn line(&mut self, line: &Line) {
        self.flags(&[line.wrapped]);
        self.number(u64::from(line.used));
        self.cell(line.rest);
        self.size(line.combining.len());
        for (col, combined) in &line.combining {
            self.number(u64::from(*col));
            self.number(u64::from(u32::from(*combined)));
        }
        self.size(line.cells.len());
        for run in line.cells.chunk_by(|a, b| a.pen == b.pen) {
            self.size(run.len());
            self.pen(run[0].pen);
            // Most text is ASCII, of a byte each.
            let ascii = run.iter().position(|cell| cell.glyph >= 0x80).unwrap_or(run.len());
            let (ascii, others) = run.split_at(ascii);
            self.0.extend(ascii.iter().map(|cell| cell.glyph as u8));
            others.iter().for_each(|cell| self.number(u64::from(cell.glyph)));
        }
    }
}

/// The bytes that are left, and how many links there are.
pub(super) struct Reader<'a>(pub(super) &'a [u8], pub(super) usize);

impl<'a> Reader<'a> {
    /// A line of a screen whose links are not known.
    pub(super) fn line_of(bytes: &[u8]) -> Option<Line> {
        Reader(bytes, links::MOST).line()
    }

    /// A number of at most `limit`.
    pub(super) fn number(&mut self, limit: u64) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return (number <= limit).then_some(number);
            }
        }
        None
    }

    pub(super) fn size(&mut self, limit: usize) -> Option<usize> {
        Some(self.number(limit as u64)? as usize)
    }

    /// The number of items that follow, each of at least a byte.
    pub(super) fn count(&mut self, limit: u64) -> Option<usize> {
        let count = self.number(limit)? as usize;
        (count <= self.0.len()).then_some(count)
    }

    pub(super) fn bytes(&mut self, limit: usize) -> Option<&'a [u8]> {
        let count = self.size(limit)?;
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn flags<const N: usize>(&mut self) -> Option<[bool; N]> {
        let (flags, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        flags.iter().all(|flag| *flag < 2).then(|| flags.map(|flag| flag == 1))
    }

    pub(super) fn option<T>(&mut self, read: impl FnOnce(&mut Reader<'a>) -> Option<T>) -> Option<Option<T>> {
        let [is_some] = self.flags()?;
        if is_some { read(self).map(Some) } else { Some(None) }
    }

    pub(super) fn character(&mut self) -> Option<char> {
        let character = char::from_u32(u32::try_from(self.number(u64::from(u32::MAX))?).ok()?)?;
        (!character.is_control()).then_some(character)
    }

    pub(super) fn pen(&mut self) -> Option<Pen> {
        // Most are that of plain text.
        if let Some(rest) = self.0.strip_prefix(&[0; 3]) {
            self.0 = rest;
            return Some(Pen::default());
        }
        let first = self.number(u64::from(u32::MAX) << 1 | 1)?;
        let mut part = || u32::try_from(self.number(u64::from(u32::MAX))?).ok();
        let (foreground, background, style) = (Colour((first >> 1) as u32), Colour(part()?), part()?);
        let underline_colour = if first & 1 == 1 { Colour(part()?) } else { Colour::DEFAULT };
        let pen = Pen { foreground, background, underline_colour, style };
        (pen.is_sound() && pen.link() as usize <= self.1).then_some(pen)
    }

    pub(super) fn glyph(&mut self) -> Option<u32> {
        u32::try_from(self.number(u64::from(u32::MAX))?).ok()
    }

    pub(super) fn cell(&mut self, glyph: u32, pen: Pen) -> Option<Cell> {
        let cell = Cell { glyph, pen };
        cell.is_sound().then_some(cell)
    }

    pub(super) fn lines(&mut self, limit: u64) -> Option<VecDeque<Line>> {
        let count = self.count(limit)?;
        let mut lines = VecDeque::with_capacity(count);
        for _ in 0..count {
            lines.push_back(self.line()?);
        }
        Some(lines)
    }

    pub(super) fn line(&mut self) -> Option<Line> {
        let [wrapped] = self.flags()?;
        let used = self.number(LONGEST_SIDE)? as u16;
        let (glyph, pen) = (self.glyph()?, self.pen()?);
        let rest = self.cell(glyph, pen)?;
        let mut combining = Vec::new();
        for _ in 0..self.count(u64::MAX)? {
            combining.push((self.number(LONGEST_SIDE)? as u16, self.character()?));
        }
        let length = self.count(LONGEST_SIDE)?;
        let mut cells = Vec::with_capacity(length);
        while cells.len() < length {
            let count = self.count((length - cells.len()) as u64)?;
            let pen = self.pen()?;
            // Most text is ASCII: one valid byte for each character.
            let is_text = |byte: &&u8| matches!(**byte, b' '..=b'~');
            let text = self.0.iter().take(count).take_while(is_text).count();
            let (ascii, rest) = self.0.split_at(text);
            self.0 = rest;
            cells.extend(ascii.iter().map(|byte| Cell { glyph: u32::from(*byte), pen }));
            for _ in text..count.max(1) {
                let glyph = self.glyph()?;
                cells.push(self.cell(glyph, pen)?);
            }
        }
        let is_sound = combining.is_sorted_by_key(|(col, _)| *col)
            && combining.last().is_none_or(|(col, _)| usize::from(*col) < length);
        if !is_sound {
            return None;
        }
        Some(Line { cells, rest, combining, wrapped, used })
    }
}
