//! The cells of a screen, and the lines that have scrolled off it.
//!
//! A line holds the cells up to the last that was written to; what is right of them
//! all looks the same, and is kept as one cell. So an empty screen of any size costs
//! nothing, and erasing costs as much as there was.

use std::{collections::VecDeque, mem};

/// How many lines are kept that have scrolled off, unless more or less are wanted.
const HISTORY: usize = 2_000;

/// As many as are kept at most: an empty line takes memory, too.
pub(super) const LONGEST_HISTORY: usize = 200_000;

/// How many cells a screen keeps, and how many the lines that have scrolled off it.
/// A larger screen (2,000 x 2,000 is not) keeps the first columns of each line:
/// nobody looks at the others, and a few bytes of a hostile program could fill
/// gigabytes with them.
const CELLS: usize = 4 << 20;

/// The longest text that may be added to one cell, in bytes: as much as any emoji has, of two
/// people with colours of their own.
const LONGEST_COMBINING: usize = 32;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pen {
    pub(super) foreground: Colour,
    pub(super) background: Colour,
    /// The colour of the underline; [`Colour::DEFAULT`] is that of the text.
    pub(super) underline_colour: Colour,
    /// The bits below; [`Pen::UNDERLINE`] is a number of its own.
    pub(super) style: u32,
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
    const WIDE: u32 = 1 << 24;
    /// The right half of one.
    const RIGHT: u32 = 1 << 25;

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

/// A rectangle of cells: its rows and columns, all included. One whose end is before its start,
/// or wrapped around, has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) top: usize,
    pub(super) left: usize,
    pub(super) bottom: usize,
    pub(super) right: usize,
}

impl Area {
    pub(super) fn height(self) -> usize {
        self.bottom + 1 - self.top
    }

    pub(super) fn width(self) -> usize {
        self.right + 1 - self.left
    }

    fn is_empty(self) -> bool {
        let is_empty = |first: usize, last: usize| last == usize::MAX || last < first;
        is_empty(self.top, self.bottom) || is_empty(self.left, self.right)
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
    fn clear(&mut self, blank: Cell) {
        self.cells.clear();
        self.combining.clear();
        self.rest = blank;
        self.wrapped = false;
        self.used = 0;
    }

    fn use_up_to(&mut self, col: usize) {
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
    fn reach(&mut self, col: usize) {
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

    fn drop_combining(&mut self, from: usize, to: usize) {
        if !self.combining.is_empty() {
            self.combining.retain(|(at, _)| !(from..to).contains(&usize::from(*at)));
        }
    }

    /// Half a wide character is none: both halves go if an edit begins or ends
    /// between them.
    fn part(&mut self, col: usize) {
        if self.cells.get(col).is_some_and(|cell| cell.is_right_half()) {
            for at in [col.saturating_sub(1), col] {
                self.cells[at] = Cell::blank(self.cells[at].pen.background);
            }
            self.drop_combining(col.saturating_sub(1), col + 1);
        }
    }

    /// Adds the line that this one goes on on.
    fn join(&mut self, next: Line) {
        let length = self.cells.len();
        self.use_up_to(length + usize::from(next.used));
        self.cells.extend(next.cells);
        self.append_combining(next.combining, length);
        (self.rest, self.wrapped) = (next.rest, next.wrapped);
    }

    /// Those at a column that no line has are dropped.
    fn append_combining(&mut self, combining: Vec<(u16, char)>, after: usize) {
        let moved = |(at, combined)| Some((u16::try_from(usize::from(at) + after).ok()?, combined));
        self.combining.extend(combining.into_iter().filter_map(moved));
    }

    /// Makes lines of at most so many columns of it.
    fn break_into(mut self, cols: usize, lines: &mut VecDeque<Line>) {
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
    fn of(cells: &[Cell], combining: &[(u16, char)], start: usize) -> Line {
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
    fn taken(&self, col: usize, width: usize) -> (Vec<Cell>, Vec<(u16, char)>) {
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
    fn place(&mut self, col: usize, (cells, combining): (Vec<Cell>, Vec<(u16, char)>)) {
        let end = col + cells.len();
        self.use_up_to(end);
        self.reach(end);
        self.part(col);
        self.part(end);
        self.drop_combining(col, end);
        self.cells[col..end].copy_from_slice(&cells);
        let at = self.combining.partition_point(|(at, _)| usize::from(*at) < col);
        let moved = combining.into_iter().map(|(at, mark)| (at + col as u16, mark));
        self.combining.splice(at..at, moved);
    }

    fn write(&mut self, col: usize, text: &[u8], pen: Pen) {
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

    fn erase(&mut self, from: usize, to: usize, blank: Cell) {
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

    fn insert(&mut self, col: usize, count: usize, cols: usize, blank: Cell) {
        if col >= self.cells.len() && self.rest == blank {
            return;
        }
        self.reach(col);
        self.part(col);
        let count = count.min(cols - col);
        self.cells.splice(col..col, std::iter::repeat_n(blank, count));
        self.part(cols);
        self.cells.truncate(cols);
        for (at, _) in self.combining.iter_mut().filter(|(at, _)| usize::from(*at) >= col) {
            // As far to the right as that, no line has a cell.
            *at = at.saturating_add(u16::try_from(count).unwrap_or(u16::MAX));
        }
        let length = self.cells.len();
        self.combining.retain(|(at, _)| usize::from(*at) < length);
    }

    fn delete(&mut self, col: usize, count: usize, cols: usize, blank: Cell) {
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

/// The rows of a screen, and those that have scrolled off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) cols: usize,
    // Invariant: as many as the screen has, and that is at least one.
    pub(super) rows: VecDeque<Line>,
    pub(super) history: VecDeque<Line>,
    /// Lines that scroll off are kept; those of the alternate screen are not.
    pub(super) keeps_history: bool,
    /// How many lines of it are kept.
    pub(super) limit: usize,
    /// How many of the last lines of the history come back when the screen grows.
    pub(super) returning: usize,
    // How many cells the history has.
    history_cells: usize,
}

impl Grid {
    pub(super) fn new(cols: usize, rows: usize) -> Grid {
        Grid {
            cols,
            rows: blank_lines(rows),
            history: VecDeque::new(),
            keeps_history: true,
            limit: HISTORY,
            returning: 0,
            history_cells: 0,
        }
    }

    /// A grid that was saved.
    pub(super) fn of(cols: usize, rows: VecDeque<Line>, history: VecDeque<Line>, returning: usize) -> Grid {
        let history_cells = history.iter().map(|line| line.cells.len()).sum();
        let limit = HISTORY.max(history.len());
        Grid { cols, rows, history, keeps_history: true, limit, returning, history_cells }
    }

    pub(super) fn height(&self) -> usize {
        self.rows.len()
    }

    /// How many columns of a line are kept.
    fn kept(&self) -> usize {
        self.cols.min(CELLS / self.height())
    }

    /// Writes text of one cell a byte, which must fit on the line.
    pub(super) fn write(&mut self, row: usize, col: usize, text: &[u8], pen: Pen) {
        let text = &text[..text.len().min(self.kept().saturating_sub(col))];
        if !text.is_empty() {
            self.rows[row].write(col, text, pen);
        }
    }

    /// Writes a character of one or two cells, which must fit on the line.
    pub(super) fn put(&mut self, row: usize, col: usize, character: char, width: usize, pen: Pen) {
        if col + width > self.kept() {
            return;
        }
        let line = &mut self.rows[row];
        line.write(col, &b"  "[..width], pen);
        line.cells[col] = Cell::new(character, pen);
        if width == 2 {
            line.cells[col].glyph |= Cell::WIDE;
            line.cells[col + 1].glyph = Cell::RIGHT;
        }
    }

    /// Adds a character that has no cell of its own to the one before `col`.
    pub(super) fn combine(&mut self, row: usize, col: usize, character: char) {
        let line = &mut self.rows[row];
        let Some(mut at) = col.checked_sub(1).filter(|at| *at < line.cells.len()) else {
            return;
        };
        if line.cells[at].is_right_half() {
            at = at.saturating_sub(1);
        }
        let length: usize = line.combining_at(at).iter().map(|(_, combined)| combined.len_utf8()).sum();
        if length + character.len_utf8() <= LONGEST_COMBINING {
            let end = line.combining.partition_point(|(other, _)| usize::from(*other) <= at);
            line.combining.insert(end, (at as u16, character));
        }
    }

    /// Does a character of one cell stand before `col`?
    pub(super) fn is_narrow(&self, row: usize, col: usize) -> bool {
        let before = col.checked_sub(1).and_then(|at| self.rows[row].cells.get(at));
        before.is_some_and(|cell| !cell.is_right_half() && !cell.is_wide())
    }

    /// Makes that one wide. Tells whether there is room.
    pub(super) fn widen(&mut self, row: usize, col: usize) -> bool {
        let has_room = col < self.kept() && self.is_narrow(row, col);
        if has_room {
            let line = &mut self.rows[row];
            let pen = line.cells[col - 1].pen;
            line.write(col, b" ", pen);
            line.cells[col].glyph = Cell::RIGHT;
            line.cells[col - 1].glyph |= Cell::WIDE;
        }
        has_room
    }

    /// Makes one of two cells before `col` one of one. Tells whether it was there.
    pub(super) fn narrow(&mut self, row: usize, col: usize, blank: Cell) -> bool {
        let Some(cells) = col.checked_sub(2).and_then(|at| self.rows[row].cells.get_mut(at..col)) else {
            return false;
        };
        let is_wide = cells[0].is_wide();
        if is_wide {
            cells[0].glyph &= !Cell::WIDE;
            cells[1] = blank;
        }
        is_wide
    }

    /// Erases the cells from `from` up to, and without, `to`.
    pub(super) fn erase(&mut self, row: usize, from: usize, to: usize, blank: Cell) {
        let kept = self.kept();
        // Right of all cells is where the rest begins.
        let to = if to >= self.cols { usize::MAX } else { to.min(kept) };
        if from == 0 && to == usize::MAX {
            self.rows[row].clear(blank);
        } else if from < kept {
            self.rows[row].erase(from, to, blank);
        }
    }

    pub(super) fn erase_rows(&mut self, from: usize, to: usize, blank: Cell) {
        for row in from..to {
            self.rows[row].clear(blank);
        }
    }

    pub(super) fn insert(&mut self, row: usize, col: usize, count: usize, blank: Cell) {
        let kept = self.kept();
        if col < kept {
            self.rows[row].insert(col, count, kept, blank);
            self.note_moved(row, col, kept.saturating_sub(col + count), kept);
        }
    }

    pub(super) fn delete(&mut self, row: usize, col: usize, count: usize, blank: Cell) {
        let kept = self.kept();
        if col < kept {
            self.rows[row].delete(col, count, kept, blank);
            let moved = kept.saturating_sub(col + count);
            self.note_moved(row, col, moved, col + moved);
        }
    }

    /// So many cells have been moved within a row, the last of them to before `end`.
    fn note_moved(&mut self, row: usize, col: usize, moved: usize, end: usize) {
        if moved > 0 {
            self.rows[row].use_up_to(end);
        } else if col == 0 {
            self.rows[row].used = 0;
        }
    }

    /// Copies an area to another place; what does not fit there is left out.
    pub(super) fn copy(&mut self, area: Area, row: usize, col: usize) {
        let kept = self.kept();
        if area.is_empty() || area.left >= kept || col >= kept || row >= self.height() {
            return;
        }
        let width = (area.right.min(kept - 1) + 1 - area.left).min(kept - col);
        let rows = area.height().min(self.height() - row);
        // From whichever end nothing is overwritten that is still to be copied.
        let is_down = row > area.top;
        for index in 0..rows {
            let index = if is_down { rows - 1 - index } else { index };
            let part = self.rows[area.top + index].taken(area.left, width);
            self.rows[row + index].place(col, part);
        }
    }

    /// Makes all of an area such a cell.
    pub(super) fn fill(&mut self, area: Area, cell: Cell) {
        if !area.is_empty() {
            for row in area.top..=area.bottom {
                self.erase(row, area.left, area.right + 1, cell);
                if cell.glyph != 0 {
                    let end = (area.right + 1).min(self.kept());
                    self.rows[row].use_up_to(end);
                }
            }
        }
    }

    /// Changes how some cells of a row look.
    pub(super) fn change(&mut self, row: usize, left: usize, right: usize, change: &dyn Fn(&mut Pen)) {
        let end = (right + 1).min(self.kept());
        if left < end {
            let line = &mut self.rows[row];
            line.reach(end);
            line.cells[left..end].iter_mut().for_each(|cell| change(&mut cell.pen));
        }
    }

    /// Moves the rows from `top` to `bottom` up by one; the first goes into the
    /// history, also where it is not the first of the screen, as in tmux.
    pub(super) fn scroll_up(&mut self, top: usize, bottom: usize, count: usize, blank: Cell) {
        let whole = top == 0 && bottom + 1 == self.height();
        if count == 1 && whole {
            let gone = self.rows.pop_front().expect("a screen has at least one row");
            let mut fresh = self.retire(gone);
            fresh.clear(blank);
            self.rows.push_back(fresh);
            return;
        }
        let count = count.min(bottom + 1 - top);
        self.rows.make_contiguous()[top..=bottom].rotate_left(count);
        for row in bottom + 1 - count..=bottom {
            let gone = mem::take(&mut self.rows[row]);
            self.rows[row] = self.retire(gone);
            self.rows[row].clear(blank);
        }
    }

    /// Moves the rows from `top` to `bottom` down.
    pub(super) fn scroll_down(&mut self, top: usize, bottom: usize, count: usize, blank: Cell) {
        let count = count.min(bottom + 1 - top);
        self.rows.make_contiguous()[top..=bottom].rotate_right(count);
        self.erase_rows(top, top + count, blank);
    }

    /// Moves the rows from `top` to `bottom` up, and what leaves is gone.
    pub(super) fn delete_rows(&mut self, top: usize, bottom: usize, count: usize, blank: Cell) {
        let count = count.min(bottom + 1 - top);
        self.rows.make_contiguous()[top..=bottom].rotate_left(count);
        self.erase_rows(bottom + 1 - count, bottom + 1, blank);
    }

    /// Erases the whole screen; what was on it goes into the history.
    pub(super) fn clear(&mut self, blank: Cell) {
        if self.keeps_history {
            let used = self.rows.iter().rposition(|line| !line.is_unused()).map_or(0, |row| row + 1);
            if used > 0 {
                self.scroll_up(0, self.height() - 1, used, blank);
                self.returning = 0;
            }
        }
        self.erase_rows(0, self.height(), blank);
    }

    pub(super) fn clear_history(&mut self) {
        self.history.clear();
        self.history_cells = 0;
        self.returning = 0;
    }

    /// Puts a line into the history, if it is kept; gives one to use anew.
    fn retire(&mut self, line: Line) -> Line {
        if !self.keeps_history {
            return line;
        }
        self.history_cells += line.cells.len();
        // Once for all of them: what is not used takes no memory, and to grow is to copy.
        self.history.reserve((self.limit.min(HISTORY) + 1).saturating_sub(self.history.len()));
        self.history.push_back(line);
        let mut spare = Line::default();
        while self.history.len() > self.limit || self.history_cells > CELLS {
            let Some(oldest) = self.history.pop_front() else { break };
            self.history_cells -= oldest.cells.len();
            spare = oldest;
        }
        self.returning = (self.returning + 1).min(self.history.len());
        spare
    }

    /// Changes the size, and returns the new place of the cursor.
    ///
    /// As tmux does it: a screen that gets lower loses the rows below the cursor,
    /// then the first ones, to the history; one that gets higher takes them back.
    /// Lines that were broken at the right margin are broken anew.
    pub(super) fn resize(&mut self, cols: usize, height: usize, cursor: (usize, usize)) -> (usize, usize) {
        let (mut col, mut row) = cursor;
        let kept = self.kept();
        while self.height() > height {
            if row + 1 < self.height() {
                self.rows.pop_back();
            } else {
                let gone = self.rows.pop_front().expect("there are more rows than one");
                self.retire(gone);
                row = row.saturating_sub(1);
            }
        }
        while self.height() < height {
            let returns = self.keeps_history && self.returning > 0;
            match if returns { self.history.pop_back() } else { None } {
                Some(line) => {
                    self.history_cells -= line.cells.len();
                    self.returning -= 1;
                    self.rows.push_front(line);
                    row += 1;
                }
                None => self.rows.push_back(Line::default()),
            }
        }
        if cols != self.cols {
            if self.keeps_history {
                (col, row) = self.reflow(cols, kept, (col, row));
            }
            self.cols = cols;
        }
        (col, row)
    }

    /// Breaks all lines anew, for another width; so many columns of each were kept.
    fn reflow(&mut self, cols: usize, kept: usize, (col, row): (usize, usize)) -> (usize, usize) {
        let (height, cursor_line) = (self.height(), self.history.len() + row);
        let mut lines = self.history.drain(..).chain(self.rows.drain(..)).enumerate();
        let mut broken: VecDeque<Line> = VecDeque::new();
        let mut cursor = (0, 0);
        // A line that was cut short is filled up again, within bounds.
        let mut blanks = CELLS;
        while let Some((index, mut line)) = lines.next() {
            let mut place = (index == cursor_line).then_some(col);
            while line.wrapped {
                let full = line.cells.len().next_multiple_of(kept);
                let Some(room) = blanks.checked_sub(full - line.cells.len()) else { break };
                let Some((index, next)) = lines.next() else { break };
                blanks = room;
                line.reach(full);
                if index == cursor_line {
                    place = Some(line.cells.len() + col);
                }
                line.join(next);
            }
            let first = broken.len();
            line.break_into(cols, &mut broken);
            if let Some(mut place) = place {
                let mut at = first;
                while at + 1 < broken.len() && place >= broken[at].cells.len() {
                    place -= broken[at].cells.len();
                    at += 1;
                }
                cursor = (place.min(cols), at);
            }
        }
        drop(lines);
        while broken.len() < height {
            broken.push_back(Line::default());
        }
        self.rows = broken.split_off(broken.len() - height);
        let gone = broken.len();
        self.history_cells = 0;
        let returning = self.returning;
        for line in broken {
            self.retire(line);
        }
        self.returning = returning.min(self.history.len());
        match cursor.1.checked_sub(gone) {
            Some(row) => (cursor.0, row),
            None => (0, 0),
        }
    }
}

pub(super) fn blank_lines(count: usize) -> VecDeque<Line> {
    std::iter::repeat_with(Line::default).take(count).collect()
}
