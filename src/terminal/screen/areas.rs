//! Sequences that act on a part of the screen: between the margins, in a rectangle, on cells that
//! are not protected.

use super::{Protection, Screen};
use crate::terminal::{
    parser::Parser,
    screen::{
        grid::Area,
        line::{Cell, Pen},
    },
};

impl Screen {
    fn has_sides(&self) -> bool {
        (self.left, self.right) != (0, self.cols() - 1)
    }

    /// Between the side margins, from this row on down to the bottom one.
    fn below(&self, top: usize) -> Area {
        Area { top, left: self.left, bottom: self.bottom, right: self.right }
    }

    /// Moves the rows from `top` to the bottom margin up.
    pub(super) fn scroll_up(&mut self, top: usize, count: usize, blank: Cell) {
        if self.has_sides() {
            return self.shift_up(top, count, blank);
        }
        self.grid.scroll_up(top, self.bottom, count, blank);
    }

    /// The same, where what leaves is gone.
    pub(super) fn delete_rows(&mut self, top: usize, count: usize, blank: Cell) {
        if self.has_sides() {
            return self.shift_up(top, count, blank);
        }
        self.grid.delete_rows(top, self.bottom, count, blank);
    }

    pub(super) fn scroll_down(&mut self, top: usize, count: usize, blank: Cell) {
        if !self.has_sides() {
            return self.grid.scroll_down(top, self.bottom, count, blank);
        }
        let area = self.below(top);
        let count = count.min(area.height());
        self.grid.copy(Area { bottom: area.bottom.wrapping_sub(count), ..area }, top + count, area.left);
        self.grid.fill(Area { bottom: top + count - 1, ..area }, blank);
    }

    fn shift_up(&mut self, top: usize, count: usize, blank: Cell) {
        let area = self.below(top);
        let count = count.min(area.height());
        self.grid.copy(Area { top: top + count, ..area }, top, area.left);
        self.grid.fill(Area { top: area.bottom + 1 - count, ..area }, blank);
    }

    /// Moves what is from `col` up to the right margin to the right.
    pub(super) fn insert_cells(&mut self, row: usize, col: usize, count: usize, blank: Cell) {
        if !(self.left..=self.right).contains(&col) {
            return;
        }
        if self.right + 1 == self.cols() {
            return self.grid.insert(row, col, count, blank);
        }
        let area = Area { top: row, left: col, bottom: row, right: self.right };
        let count = count.min(area.width());
        self.grid.copy(Area { right: area.right.wrapping_sub(count), ..area }, row, col + count);
        self.grid.fill(Area { right: col + count - 1, ..area }, blank);
    }

    pub(super) fn delete_cells(&mut self, row: usize, col: usize, count: usize, blank: Cell) {
        if !(self.left..=self.right).contains(&col) {
            return;
        }
        if self.right + 1 == self.cols() {
            return self.grid.delete(row, col, count, blank);
        }
        let area = Area { top: row, left: col, bottom: row, right: self.right };
        let count = count.min(area.width());
        self.grid.copy(Area { left: col + count, ..area }, row, col);
        self.grid.fill(Area { left: area.right + 1 - count, ..area }, blank);
    }

    /// DECIC and DECDC: in all rows between the margins, if the cursor stands there.
    fn shift_columns(&mut self, col: usize, count: usize, left: bool) {
        if !(self.top..=self.bottom).contains(&self.cursor.row) || !self.is_between_sides() {
            return;
        }
        let blank = self.blank();
        for row in self.top..=self.bottom {
            match left {
                true => self.delete_cells(row, col, count, blank),
                false => self.insert_cells(row, col, count, blank),
            }
        }
    }

    /// SL and SR: all between the margins.
    pub(super) fn scroll_sideways(&mut self, right: bool) {
        self.shift_columns(self.left, self.parser.count_at(0), !right);
    }

    /// DECBI.
    pub(super) fn back_index(&mut self) {
        if self.cursor.col == self.left { self.shift_columns(self.left, 1, false) } else { self.back(1) }
    }

    /// DECFI.
    pub(super) fn forward_index(&mut self) {
        if self.cursor.col == self.right { self.shift_columns(self.left, 1, true) } else { self.forward(1) }
    }

    /// Does what erases spare protected cells?
    pub(super) fn spares(&self, selective: bool) -> bool {
        match self.protection {
            Protection::None => false,
            Protection::Dec => selective,
            Protection::Iso => true,
        }
    }

    /// Erases the cells from `from` up to, and without, `to`.
    pub(super) fn erase(&mut self, row: usize, from: usize, to: usize, spares: bool) {
        let blank = self.blank();
        let mut from = from;
        if spares {
            let line = &self.grid.rows[row];
            let end = to.min(line.cells.len());
            let protected: Vec<usize> =
                (from..end).filter(|col| line.cells[*col].pen.has(Pen::PROTECTED)).collect();
            for col in protected {
                if from < col {
                    self.grid.erase(row, from, col, blank);
                }
                from = col + 1;
            }
        }
        if from < to {
            self.grid.erase(row, from, to, blank);
        }
    }

    /// The rectangle that the parameters from `first` on name, if it is one.
    pub(super) fn area(&self, parser: &Parser, first: usize) -> Option<Area> {
        let (left, right, top, bottom) = self.bounds();
        let side = |index: usize, start: usize| {
            parser.value(first + index).filter(|value| *value > 0).map(|value| start + usize::from(value) - 1)
        };
        // A rectangle that begins outside the screen is ignored; one that ends outside is cut at the edge.
        let area = Area {
            top: side(0, top).unwrap_or(top),
            left: side(1, left).unwrap_or(left),
            bottom: side(2, top).unwrap_or(bottom).min(bottom),
            right: side(3, left).unwrap_or(right).min(right),
        };
        (area.top <= area.bottom && area.left <= area.right).then_some(area)
    }

    /// The sequences with one of the intermediate bytes `'`, `$` and `*`.
    pub(super) fn area_sequence(&mut self, intermediate: u8, last: u8) {
        let count = self.parser.count_at(0);
        match (intermediate, last) {
            (b'\'', b'}') => self.shift_columns(self.cursor.col, count, false),
            (b'\'', b'~') => self.shift_columns(self.cursor.col, count, true),
            (b'*', b'x') => self.extent = self.parser.value(0).unwrap_or(0).min(2) as u8,
            (b'$', b'v') => self.copy_area(),
            (b'$', b'x') => {
                let character = self.parser.value(0).filter(|code| *code > 0).unwrap_or(32);
                let character = char::from_u32(u32::from(character)).filter(|code| !code.is_control());
                if let Some((character, area)) = character.zip(self.area(&self.parser, 1)) {
                    self.grid.fill(area, Cell::new(character, self.state.pen));
                }
            }
            (b'$', b'z') => {
                if let Some(area) = self.area(&self.parser, 0) {
                    self.grid.fill(area, Cell::new(' ', self.state.pen));
                }
            }
            (b'$', b'{') => self.erase_characters(),
            (b'$', b'r' | b't') => self.change_area(last == b't'),
            _ => {}
        }
    }

    /// DECSERA, which leaves the attributes.
    fn erase_characters(&mut self) {
        let Some(area) = self.area(&self.parser, 0) else { return };
        let spares = self.protection == Protection::Dec;
        for row in area.top..=area.bottom {
            let end = self.grid.rows[row].cells.len().min(area.right + 1);
            for col in area.left..end {
                let pen = self.grid.rows[row].cell(col).pen;
                if !(spares && pen.has(Pen::PROTECTED)) {
                    self.grid.erase(row, col, col + 1, Cell { glyph: 0, pen });
                }
            }
        }
    }

    /// DECCRA; there is one page only.
    fn copy_area(&mut self) {
        let Some(area) = self.area(&self.parser, 0) else { return };
        let (left, right, top, bottom) = self.bounds();
        let start = |index, first: usize| first + self.parser.count_at(index) - 1;
        let (row, col) = (start(5, top), start(6, left));
        if row <= bottom && col <= right {
            self.grid.copy(area, row, col);
        }
    }

    /// DECCARA, and DECRARA, which reverses.
    fn change_area(&mut self, reverses: bool) {
        let Some(area) = self.area(&self.parser, 0) else { return };
        let changes: Vec<u16> = match self.parser.values().skip(4).collect::<Vec<_>>() {
            none if none.is_empty() => vec![0],
            changes => changes,
        };
        let whole = Area { left: 0, right: self.cols() - 1, ..area };
        for row in area.top..=area.bottom {
            let is_part = |edge| self.extent == 2 || row == edge;
            let left = if is_part(area.top) { area.left } else { whole.left };
            let right = if is_part(area.bottom) { area.right } else { whole.right };
            self.grid.change(row, left, right, &|pen| {
                changes.iter().for_each(|change| pen.change(*change, reverses));
            });
        }
    }

    /// DECRQCRA: the sum of the characters and attributes of a rectangle, as xterm's default has
    /// it. Blanks count only as the first cell.
    pub(super) fn checksum(&self, area: Area) -> u16 {
        const STYLES: [(u32, u32); 4] =
            [(Pen::UNDERLINE, 0x10), (Pen::INVERSE, 0x20), (Pen::BLINK, 0x40), (Pen::BOLD, 0x80)];
        let mut sum = 0_u32;
        let mut is_first = true;
        for row in area.top..=area.bottom {
            for col in area.left..=area.right {
                let cell = self.grid.rows[row].cell(col);
                let styles = STYLES.iter().filter(|(style, _)| cell.pen.has(*style));
                let character = if cell.pen.has(Pen::HIDDEN) { ' ' } else { cell.character() };
                let value = u32::from(character) + styles.map(|(_, value)| value).sum::<u32>();
                if is_first || value != u32::from(' ') {
                    sum = sum.wrapping_add(value);
                }
                is_first = false;
            }
        }
        sum.wrapping_neg() as u16
    }
}
