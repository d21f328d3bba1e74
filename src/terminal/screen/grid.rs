//! The rows of a screen, and the lines that have scrolled off it.

use std::{collections::VecDeque, mem};

use super::{
    history::History,
    line::{Cell, Line, Pen},
};

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

/// The rows of a screen, and those that have scrolled off.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) cols: usize,
    // Invariant: as many as the screen has, and that is at least one.
    pub(super) rows: VecDeque<Line>,
    pub(super) history: History,
    /// Lines that scroll off are kept; those of the alternate screen are not.
    pub(super) keeps_history: bool,
    /// How many lines of it are kept.
    pub(super) limit: usize,
    /// How many of the last lines of the history come back when the screen grows.
    pub(super) returning: usize,
}

impl Grid {
    pub(super) fn new(cols: usize, rows: usize) -> Grid {
        Grid {
            cols,
            rows: blank_lines(rows),
            history: History::default(),
            keeps_history: true,
            limit: HISTORY,
            returning: 0,
        }
    }

    /// A grid that was saved.
    pub(super) fn of(cols: usize, rows: VecDeque<Line>, history: History, returning: usize) -> Grid {
        let limit = HISTORY.max(history.len());
        Grid { cols, rows, history, keeps_history: true, limit, returning }
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
        let Some(mut at) = col.checked_sub(1).filter(|at| *at < line.cells.len()) else { return };
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
        self.history = History::default();
        self.returning = 0;
    }

    /// Puts a line into the history, if it is kept; returns one for reuse.
    fn retire(&mut self, line: Line) -> Line {
        if !self.keeps_history {
            return line;
        }
        self.history.push(&line);
        while self.history.len() > self.limit || self.history.cells() > CELLS {
            self.history.drop_first();
        }
        self.returning = (self.returning + 1).min(self.history.len());
        line
    }

    /// Changes the size, and returns the new place of the cursor.
    ///
    /// As tmux does it: a screen that gets lower loses the rows below the cursor,
    /// then the first ones, to the history; one that gets higher takes them back.
    /// Lines that were broken at the right margin are wrapped again.
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
            match if returns { self.history.pop() } else { None } {
                Some(line) => {
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

    /// Wraps all lines again for another width; so many columns of each were kept.
    fn reflow(&mut self, cols: usize, kept: usize, (col, row): (usize, usize)) -> (usize, usize) {
        let (height, cursor_line) = (self.height(), self.history.len() + row);
        let history = mem::take(&mut self.history);
        let mut lines = history.lines(0).chain(mem::take(&mut self.rows)).enumerate();
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
        let returning = self.returning;
        for line in broken {
            self.retire(line);
        }
        self.returning = returning.min(self.history.len());
        if let Some(row) = cursor.1.checked_sub(gone) { (cursor.0, row) } else { (0, 0) }
    }
}

pub(super) fn blank_lines(count: usize) -> VecDeque<Line> {
    std::iter::repeat_with(Line::default).take(count).collect()
}
