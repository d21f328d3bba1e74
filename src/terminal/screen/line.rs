//! A line of a screen: its cells, and how each looks.
//!
//! A line holds the cells up to the last that was written to; what is right of them
//! all looks the same, and is kept as one cell. So an empty screen of any size costs
//! nothing, and erasing costs as much as there was.

use std::collections::VecDeque;

/// A colour: the default, one of 256, or red, green and blue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Colour(pub(super) u32);

impl Colour {
    pub(super) const DEFAULT: Colour = Colour(0);
    const INDEXED: u32 = 1 << 24;
    const RGB: u32 = 2 << 24;

    pub(super) fn indexed(index: u8) -> Colour {
        Colour(Colour::INDEXED | u32::from(index))
    }

    pub(super) fn rgb(red: u8, green: u8, blue: u8) -> Colour {
        Colour(Colour::RGB | u32::from_be_bytes([0, red, green, blue]))
    }

    /// Its number, if it is one of 256.
    pub(super) fn index(self) -> Option<u8> {
        (self.0 & !0xff == Colour::INDEXED).then_some(self.0 as u8)
    }

    /// Its parts, if it is given by them.
    pub(super) fn parts(self) -> Option<[u8; 3]> {
        let [kind, red, green, blue] = self.0.to_be_bytes();
        (kind == 2).then_some([red, green, blue])
    }
}

/// The attributes with which text is written.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub(super) struct Pen {
    pub(super) foreground: Colour,
    pub(super) background: Colour,
    /// The colour of the underline; [`Colour::DEFAULT`] is that of the text.
    pub(super) underline_colour: Colour,
    /// The bits below; [`Pen::UNDERLINE`] is a number of its own.
    pub(super) style: u32,
}

impl PartialEq for Pen {
    // Each cell that scrolls off is compared with the next.
    #[inline(always)]
    fn eq(&self, other: &Pen) -> bool {
        self.style == other.style
            && self.foreground == other.foreground
            && self.background == other.background
            && self.underline_colour == other.underline_colour
    }
}

impl Pen {
    pub(super) const BOLD: u32 = 1;
    pub(super) const DIM: u32 = 1 << 1;
    pub(super) const ITALIC: u32 = 1 << 2;
    pub(super) const BLINK: u32 = 1 << 3;
    pub(super) const INVERSE: u32 = 1 << 4;
    pub(super) const HIDDEN: u32 = 1 << 5;
    pub(super) const STRUCK: u32 = 1 << 6;
    pub(super) const OVERLINE: u32 = 1 << 7;
    /// From being erased: no style, but kept as one.
    pub(super) const PROTECTED: u32 = 1 << 11;
    /// The number of the link that it is a part of, or 0.
    const LINK: u32 = !0 << 12;
    /// None, or how it is underlined: 1 plain, 2 double, 3 curly, 4 dotted, 5 dashed.
    pub(super) const UNDERLINE: u32 = 7 << 8;

    pub(super) fn has(self, style: u32) -> bool {
        self.style & style != 0
    }

    pub(super) fn underline(self) -> u32 {
        (self.style & Pen::UNDERLINE) >> 8
    }

    pub(super) fn set_underline(&mut self, kind: u32) {
        self.style = self.style & !Pen::UNDERLINE | kind << 8 & Pen::UNDERLINE;
    }

    /// Is it what a program could have made it?
    pub(super) fn is_sound(self) -> bool {
        let is_colour =
            |colour: Colour| colour.0 >> 24 <= 2 && (colour.0 >> 24 == 2 || colour.0 & 0xff_ff00 == 0);
        is_colour(self.foreground) && is_colour(self.background) && is_colour(self.underline_colour)
    }

    /// The same, but for what is not seen.
    pub(super) fn seen(self) -> Pen {
        let underline_colour = if self.has(Pen::UNDERLINE) { self.underline_colour } else { Colour::DEFAULT };
        Pen { style: self.style & !(Pen::PROTECTED | Pen::LINK), underline_colour, ..self }
    }

    pub(super) fn link(self) -> u32 {
        self.style >> 12
    }

    pub(super) fn set_link(&mut self, number: u32) {
        self.style = self.style & !Pen::LINK | number << 12;
    }

    /// Leaves the colours, and what SGR does not choose: protection and a link.
    pub(super) fn drop_styles(&mut self) {
        self.style &= Pen::PROTECTED | Pen::LINK;
    }

    /// SGR 0.
    pub(super) fn reset(&mut self) {
        self.drop_styles();
        *self = Pen { style: self.style, ..Pen::default() };
    }

    /// Changes it as DECCARA does or, if `reverses`, DECRARA.
    pub(super) fn change(&mut self, change: u16, reverses: bool) {
        const PLAIN: u32 = 1 << 8;
        let (styles, on) = match change {
            0 => (Pen::BOLD | Pen::BLINK | Pen::INVERSE | PLAIN, false),
            1 => (Pen::BOLD, true),
            4 => (PLAIN, true),
            5 => (Pen::BLINK, true),
            7 => (Pen::INVERSE, true),
            8 => (Pen::HIDDEN, true),
            22 => (Pen::BOLD, false),
            24 => (Pen::UNDERLINE, false),
            25 => (Pen::BLINK, false),
            27 => (Pen::INVERSE, false),
            28 => (Pen::HIDDEN, false),
            _ => return,
        };
        self.style = match (reverses, on) {
            (true, _) if (1..10).contains(&change) => self.style ^ styles,
            (true, _) => self.style,
            (false, true) => self.style | styles,
            (false, false) => self.style & !styles,
        };
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    // A character, and the bits below; 0 where nothing has been written.
    pub(super) glyph: u32,
    pub(super) pen: Pen,
}

impl Cell {
    /// The left half of a wide character.
    pub(super) const WIDE: u32 = 1 << 24;
    /// The right half of one.
    pub(super) const RIGHT: u32 = 1 << 25;

    /// An erased cell keeps nothing but the background (terminfo's `bce`).
    pub(super) fn blank(background: Colour) -> Cell {
        Cell { glyph: 0, pen: Pen { background, ..Pen::default() } }
    }

    pub(super) fn new(character: char, pen: Pen) -> Cell {
        Cell { glyph: u32::from(character), pen }
    }

    /// The character; a space where there is none.
    pub(super) fn character(self) -> char {
        match char::from_u32(self.glyph & 0x1f_ffff) {
            None | Some('\0') => ' ',
            Some(character) => character,
        }
    }

    pub(super) fn is_wide(self) -> bool {
        self.glyph & Cell::WIDE != 0
    }

    pub(super) fn is_right_half(self) -> bool {
        self.glyph & Cell::RIGHT != 0
    }

    /// Is it what a program could have made it? Its pen is looked at by itself.
    pub(super) fn is_sound(self) -> bool {
        let flags = self.glyph & !0x1f_ffff;
        matches!(flags, 0 | Cell::WIDE | Cell::RIGHT)
            && char::from_u32(self.glyph & 0x1f_ffff)
                .is_some_and(|character| character == '\0' || !character.is_control())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) cells: Vec<Cell>,
    /// The look of all cells after those.
    pub(super) rest: Cell,
    // Combining characters, and what else has no cell of its own, by column, each in
    // the order in which it came. Invariant: sorted by column, and each of those is
    // one of `cells`.
    pub(super) combining: Vec<(u16, char)>,
    /// It was full, and what came next went on on the line below.
    pub(super) wrapped: bool,
    /// How many cells tmux would have of it: up to the last that text was written to or moved to, also if that
    /// was erased since. Only captures show that.
    pub(super) used: u16,
}

impl Line {
    pub(super) fn clear(&mut self, blank: Cell) {
        self.cells.clear();
        self.combining.clear();
        self.rest = blank;
        self.wrapped = false;
        self.used = 0;
    }

    pub(super) fn use_up_to(&mut self, col: usize) {
        self.used = self.used.max(u16::try_from(col).unwrap_or(u16::MAX));
    }

    pub(super) fn cell(&self, col: usize) -> Cell {
        self.cells.get(col).copied().unwrap_or(self.rest)
    }

    /// Has nothing ever been written to it?
    pub(super) fn is_unused(&self) -> bool {
        self.rest == Cell::default() && self.cells.iter().all(|cell| *cell == Cell::default())
    }

    /// Makes all cells before `col` cells of its own.
    pub(super) fn reach(&mut self, col: usize) {
        if self.cells.len() < col {
            self.cells.resize(col, self.rest);
        }
    }

    /// The combining characters at `col`.
    pub(super) fn combining_at(&self, col: usize) -> &[(u16, char)] {
        let start = self.combining.partition_point(|(at, _)| usize::from(*at) < col);
        let length = self.combining[start..].partition_point(|(at, _)| usize::from(*at) == col);
        &self.combining[start..start + length]
    }

    pub(super) fn drop_combining(&mut self, from: usize, to: usize) {
        if !self.combining.is_empty() {
            self.combining.retain(|(at, _)| !(from..to).contains(&usize::from(*at)));
        }
    }

    /// Half a wide character is none: both halves go if an edit begins or ends
    /// between them.
    pub(super) fn part(&mut self, col: usize) {
        if self.cells.get(col).is_some_and(|cell| cell.is_right_half()) {
            for at in [col.saturating_sub(1), col] {
                self.cells[at] = Cell::blank(self.cells[at].pen.background);
            }
            self.drop_combining(col.saturating_sub(1), col + 1);
        }
    }

    /// Adds the line that this one goes on on.
    pub(super) fn join(&mut self, next: Line) {
        let length = self.cells.len();
        self.use_up_to(length + usize::from(next.used));
        self.cells.extend(next.cells);
        self.append_combining(next.combining, length);
        (self.rest, self.wrapped) = (next.rest, next.wrapped);
    }

    /// Those at a column that no line has are dropped.
    pub(super) fn append_combining(&mut self, combining: Vec<(u16, char)>, after: usize) {
        let moved = |(at, combined)| Some((u16::try_from(usize::from(at) + after).ok()?, combined));
        self.combining.extend(combining.into_iter().filter_map(moved));
    }

    /// Makes lines of at most so many columns of it.
    pub(super) fn break_into(mut self, cols: usize, lines: &mut VecDeque<Line>) {
        let used = self.cells.iter().rposition(|cell| *cell != Cell::default()).map_or(0, |last| last + 1);
        if self.rest == Cell::default() {
            // An accent may stand on nothing.
            let marked = self.combining.last().map_or(0, |(last, _)| usize::from(*last) + 1);
            self.cells.truncate(used.max(marked));
        }
        let (mut cells, mut combining) = (self.cells.as_slice(), self.combining.as_slice());
        let mut start = 0;
        let used = usize::from(self.used);
        while cells.len() > cols {
            // A wide character is not broken, unless there is room for nothing else.
            let end = if cells[cols].is_right_half() { (cols - 1).max(1) } else { cols };
            let (first, behind) = cells.split_at(end);
            let here = combining.partition_point(|(at, _)| usize::from(*at) < start + end);
            let broken =
                Line { rest: Cell::default(), wrapped: true, ..Line::of(first, &combining[..here], start) };
            lines.push_back(broken);
            (cells, combining, start) = (behind, &combining[here..], start + end);
        }
        let mut last = Line { rest: self.rest, wrapped: self.wrapped, ..Line::of(cells, combining, start) };
        last.used = 0;
        last.use_up_to(used.saturating_sub(start).min(cols));
        lines.push_back(last);
    }

    /// A part of a line that begins at the column `start` of it.
    pub(super) fn of(cells: &[Cell], combining: &[(u16, char)], start: usize) -> Line {
        let moved =
            |(at, combined): &(u16, char)| Some((u16::try_from(usize::from(*at) - start).ok()?, *combined));
        let mut line = Line {
            cells: cells.to_vec(),
            combining: combining.iter().filter_map(moved).collect(),
            ..Line::default()
        };
        line.use_up_to(cells.len());
        line
    }

    /// A part of it, in which no half of a wide character is.
    pub(super) fn taken(&self, col: usize, width: usize) -> (Vec<Cell>, Vec<(u16, char)>) {
        let mut cells: Vec<Cell> = (col..col + width).map(|col| self.cell(col)).collect();
        let mut combining: Vec<(u16, char)> = Vec::new();
        let end = self.combining.partition_point(|(at, _)| usize::from(*at) < col + width);
        let start = self.combining[..end].partition_point(|(at, _)| usize::from(*at) < col);
        combining.extend(self.combining[start..end].iter().map(|(at, mark)| (*at - col as u16, *mark)));
        if let Some(first) = cells.first_mut().filter(|cell| cell.is_right_half()) {
            *first = Cell::blank(first.pen.background);
        }
        if let Some(last) = cells.last_mut().filter(|cell| cell.is_wide()) {
            *last = Cell::blank(last.pen.background);
            combining.retain(|(at, _)| usize::from(*at) + 1 < width);
        }
        (cells, combining)
    }

    /// Puts such a part somewhere.
    pub(super) fn place(&mut self, col: usize, (cells, combining): (Vec<Cell>, Vec<(u16, char)>)) {
        let end = col + cells.len();
        self.use_up_to(end);
        self.reach(end);
        self.part(col);
        self.part(end);
        self.drop_combining(col, end);
        self.cells[col..end].copy_from_slice(&cells);
        let at = self.combining.partition_point(|(at, _)| usize::from(*at) < col);
        let moved = combining.into_iter().map(|(at, mark)| (at + col as u16, mark));
        let behind = self.combining.split_off(at);
        self.combining.extend(moved.chain(behind));
    }

    pub(super) fn write(&mut self, col: usize, text: &[u8], pen: Pen) {
        self.reach(col);
        self.part(col);
        let end = col + text.len();
        self.use_up_to(end);
        self.part(end);
        self.drop_combining(col, end);
        let over = text.len().min(self.cells.len() - col);
        let cell = |byte: &u8| Cell { glyph: u32::from(*byte), pen };
        for (place, byte) in self.cells[col..col + over].iter_mut().zip(text) {
            *place = cell(byte);
        }
        self.cells.extend(text[over..].iter().map(cell));
    }

    pub(super) fn erase(&mut self, from: usize, to: usize, blank: Cell) {
        if to == usize::MAX {
            if from < self.cells.len() {
                self.part(from);
                self.drop_combining(from, to);
                self.cells.truncate(from);
            } else if self.rest != blank {
                self.reach(from);
            }
            self.rest = blank;
            return;
        }
        // Columns without a cell of their own stay so, if they look the same after this.
        let to = if self.rest == blank { to.min(self.cells.len()) } else { to };
        if from >= to {
            return;
        }
        self.reach(to);
        self.part(from);
        self.part(to);
        self.drop_combining(from, to);
        self.cells[from..to].fill(blank);
    }

    pub(super) fn insert(&mut self, col: usize, count: usize, cols: usize, blank: Cell) {
        if col >= self.cells.len() && self.rest == blank {
            return;
        }
        self.reach(col);
        self.part(col);
        let count = count.min(cols - col);
        let length = self.cells.len();
        self.cells.resize(length + count, blank);
        self.cells.copy_within(col..length, col + count);
        self.cells[col..col + count].fill(blank);
        self.part(cols);
        self.cells.truncate(cols);
        for (at, _) in self.combining.iter_mut().filter(|(at, _)| usize::from(*at) >= col) {
            // As far to the right as that, no line has a cell.
            *at = at.saturating_add(u16::try_from(count).unwrap_or(u16::MAX));
        }
        let length = self.cells.len();
        self.combining.retain(|(at, _)| usize::from(*at) < length);
    }

    pub(super) fn delete(&mut self, col: usize, count: usize, cols: usize, blank: Cell) {
        let count = count.min(cols - col);
        if self.rest != blank {
            self.reach(cols);
        }
        let length = self.cells.len();
        if col >= length {
            return;
        }
        let end = (col + count).min(length);
        self.part(col);
        self.part(end);
        self.drop_combining(col, end);
        for (at, _) in self.combining.iter_mut().filter(|(at, _)| usize::from(*at) >= end) {
            *at -= (end - col) as u16;
        }
        self.cells.drain(col..end);
        if self.rest != blank {
            self.cells.resize(cols, blank);
        }
    }
}
