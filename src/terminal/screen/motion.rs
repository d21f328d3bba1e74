//! Moves the cursor of a screen: by lines, by tab stops, to a place, and within margins.

use super::{Cursor, Screen, line::Cell, modes::Mode};

impl Screen {
    pub(super) fn is_between_sides(&self) -> bool {
        (self.left..=self.right).contains(&self.cursor.col)
    }

    pub(super) fn line_feed(&mut self, blank: Cell) {
        self.cursor.pending = false;
        if self.cursor.row == self.bottom {
            if self.is_between_sides() {
                self.scroll_up(self.top, 1, blank);
            }
        } else if self.cursor.row + 1 < self.height() {
            self.cursor.row += 1;
        }
    }

    pub(super) fn reverse_line_feed(&mut self) {
        self.cursor.pending = false;
        if self.cursor.row == self.top {
            if self.is_between_sides() {
                self.scroll_down(self.top, 1, self.blank());
            }
        } else {
            self.cursor.row = self.cursor.row.saturating_sub(1);
        }
    }

    pub(super) fn carriage_return(&mut self) {
        let is_outside = self.cursor.col < self.left && !self.state.origin;
        self.cursor = Cursor::at(if is_outside { 0 } else { self.left }, self.cursor.row);
    }

    /// Back by so many columns; with mode 45 or 1045 on to the lines above, and from the first
    /// one to the last. From the first place between the margins to the last one, and no further.
    pub(super) fn back(&mut self, count: usize) {
        let wraps = self.modes.has(Mode::WRAPS)
            && (self.modes.has(Mode::WRAPS_BACK) || self.modes.has(Mode::WRAPS_BACK_FAR));
        let Cursor { col, row, pending } = self.cursor;
        let left = if col < self.left { 0 } else { self.left };
        let room = col - left;
        let count = if wraps && pending { count - 1 } else { count };
        if count <= room || !wraps {
            self.cursor = Cursor::at(col - count.min(room), row);
            return;
        }
        if (col, row) == (self.left, self.top) {
            self.cursor = Cursor::at(self.right, self.bottom);
            return;
        }
        let (width, height, behind) = (self.right + 1 - left, self.height(), count - room - 1);
        let row = (row + (behind / width + 1) * (height - 1)) % height;
        self.cursor = Cursor::at(self.right - behind % width, row);
    }

    pub(super) fn tab(&mut self) {
        if self.cursor.pending && self.modes.has(Mode::MORE_FIX) && self.modes.has(Mode::WRAPS) {
            self.wrap();
        }
        let last = self.end_of_text() - 1;
        if self.cursor.col < last {
            let next = self.tabs[self.cursor.col + 1..last].iter().position(|stop| *stop);
            self.cursor.col = next.map_or(last, |distance| self.cursor.col + 1 + distance);
        }
    }

    pub(super) fn tab_back(&mut self) {
        let col = self.tabs[..self.cursor.col].iter().rposition(|stop| *stop).unwrap_or(0);
        self.cursor = Cursor::at(col, self.cursor.row);
    }

    pub(super) fn set_tab(&mut self, stop: bool) {
        if let Some(tab) = self.tabs.get_mut(self.cursor.col) {
            *tab = stop;
        }
    }

    pub(super) fn save_cursor(&mut self) {
        self.saved[usize::from(self.is_alternate())] = (self.cursor, self.state);
    }

    pub(super) fn restore_cursor(&mut self) {
        let (cursor, state) = self.saved[usize::from(self.is_alternate())];
        self.state = state;
        // With DECOM no further than the margins.
        let (left, right, top, bottom) = self.bounds();
        self.cursor = Cursor {
            col: cursor.col.clamp(left, right),
            row: cursor.row.clamp(top, bottom),
            pending: cursor.pending,
        };
        self.cursor.pending &= [self.right, self.cols() - 1].contains(&self.cursor.col);
    }

    /// The area in which the cursor may be placed: with DECOM, between the margins.
    pub(super) fn bounds(&self) -> (usize, usize, usize, usize) {
        match self.state.origin {
            true => (self.left, self.right, self.top, self.bottom),
            false => (0, self.cols() - 1, 0, self.height() - 1),
        }
    }

    /// Up to the margin, if it stands below that.
    pub(super) fn up(&mut self, count: usize) {
        let Cursor { col, row, .. } = self.cursor;
        let first = if row < self.top { 0 } else { self.top };
        self.cursor = Cursor::at(col, row.saturating_sub(count).max(first));
    }

    pub(super) fn down(&mut self, count: usize) {
        let Cursor { col, row, .. } = self.cursor;
        let last = if row > self.bottom { self.height() - 1 } else { self.bottom };
        self.cursor = Cursor::at(col, (row + count).min(last));
    }

    pub(super) fn forward(&mut self, count: usize) {
        let Cursor { col, row, .. } = self.cursor;
        self.cursor = Cursor::at((col + count).min(self.end_of_text() - 1), row);
    }

    pub(super) fn move_to(&mut self, col: usize, row: usize) {
        self.cursor = Cursor::at(col.min(self.cols() - 1), row.min(self.height() - 1));
    }

    /// To a place as a program names it.
    pub(super) fn move_from_origin(&mut self, col: usize, row: usize) {
        let (left, right, top, bottom) = self.bounds();
        self.cursor = Cursor::at((left + col).min(right), (top + row).min(bottom));
    }

    /// The place of the cursor, as a program numbers it.
    pub(super) fn place(&self) -> (usize, usize) {
        let (left, _, top, _) = self.bounds();
        (self.cursor.col.saturating_sub(left), self.cursor.row.saturating_sub(top))
    }
}
