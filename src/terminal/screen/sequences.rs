//! The effects of the sequences.

use super::{
    Cursor, HIGHEST_LEVEL, Links, Protection, Screen,
    modes::{ANSI, Mode},
};
use crate::{numbers::parse_base64, terminal::screen::line::Pen};

impl Screen {
    pub(super) fn escape(&mut self, last: u8) {
        match (self.parser.intermediate, last) {
            (0, b'6') => self.back_index(),
            (0, b'7') => self.save_cursor(),
            (0, b'8') => self.restore_cursor(),
            (0, b'9') => self.forward_index(),
            (0, b'D') => self.line_feed(self.blank()),
            (0, b'E') => {
                self.line_feed(self.blank());
                self.carriage_return();
            }
            (0, b'H') => self.set_tab(true),
            (0, b'M') => self.reverse_line_feed(),
            (0, b'V') => {
                self.protection = Protection::Iso;
                self.state.pen.style |= Pen::PROTECTED;
            }
            (0, b'W') => self.state.pen.style &= !Pen::PROTECTED,
            (0, b'c') => self.reset(),
            (b'#', b'8') => self.align(),
            (b'(', set) => self.state.graphics[0] = set == b'0',
            (b')', set) => self.state.graphics[1] = set == b'0',
            _ => {}
        }
        self.last = None;
    }

    pub(super) fn control_sequence(&mut self, last: u8) {
        let (private, intermediate) = (self.parser.private, self.parser.intermediate);
        match (private, intermediate, last) {
            (0, 0, b'm') => self.state.pen.choose(&self.parser),
            _ if self.parser.has_subs() => {}
            (0, 0, last) => self.standard(last),
            (b'?', 0, b'h') => self.set_modes(true),
            (b'?', 0, b'l') => self.set_modes(false),
            (b'?', 0, b's') => self.each_mode(|screen, number| {
                if let Some(mode) = Mode::of(number) {
                    screen.modes.save(mode);
                }
            }),
            (b'?', 0, b'r') => self.each_mode(|screen, number| {
                if let Some(mode) = Mode::of(number) {
                    screen.set_mode(number, screen.modes.was_saved(mode));
                }
            }),
            (b'?', 0, b'J') => self.erase_screen(true),
            (b'?', 0, b'K') => self.erase_line(true),
            (b'>', 0, b't') => self.titles.set_modes(&self.parser, true),
            (b'>', 0, b'T') => self.titles.set_modes(&self.parser, false),
            (0, b'!', b'p') => self.soft_reset(),
            (0, b'"', b'p') => self.set_level(),
            (0, b'"', b'q') => {
                self.protection = Protection::Dec;
                self.state.pen.style &= !Pen::PROTECTED;
                if self.parser.value(0) == Some(1) {
                    self.state.pen.style |= Pen::PROTECTED;
                }
            }
            (0, b' ', b'q') => self.cursor_shape = self.parser.value(0).unwrap_or(0).min(6) as u8,
            (0, b' ', b'@') => self.scroll_sideways(false),
            (0, b' ', b'A') => self.scroll_sideways(true),
            (0, b'\'' | b'$' | b'*', last) if self.level >= HIGHEST_LEVEL => {
                self.area_sequence(intermediate, last)
            }
            _ => {}
        }
        self.last = None;
    }

    /// DECSCL, which resets as DECSTR does.
    fn set_level(&mut self) {
        let level = self.parser.value(0).unwrap_or(0);
        if (61..=60 + u16::from(HIGHEST_LEVEL)).contains(&level) {
            self.soft_reset();
            self.level = (level - 60) as u8;
        }
    }

    fn standard(&mut self, last: u8) {
        let count = self.parser.count_at(0);
        let Cursor { col, row, .. } = self.cursor;
        let blank = self.blank();
        match last {
            b'@' => {
                self.cursor.pending = false;
                self.insert_cells(row, col, count, blank);
            }
            b'A' => self.up(count),
            b'B' => self.down(count),
            b'C' => self.forward(count),
            b'D' => self.back(count),
            b'E' => {
                self.down(count);
                self.carriage_return();
            }
            b'F' => {
                self.up(count);
                self.carriage_return();
            }
            b'G' | b'`' => {
                let (_, row) = self.place();
                self.move_from_origin(count - 1, row);
            }
            b'H' | b'f' => self.move_from_origin(self.parser.count_at(1) - 1, count - 1),
            b'I' => (0..count.min(self.cols())).for_each(|_| self.tab()),
            b'J' => self.erase_screen(false),
            b'K' => self.erase_line(false),
            b'L' | b'M' if (self.top..=self.bottom).contains(&row) && self.is_between_sides() => {
                match last {
                    b'L' => self.scroll_down(row, count, blank),
                    _ => self.delete_rows(row, count, blank),
                }
                self.cursor = Cursor::at(self.left, row);
            }
            b'P' => {
                self.cursor.pending = false;
                self.delete_cells(row, col, count, blank);
            }
            b'S' => self.scroll_up(self.top, count, blank),
            // With more parameters, or a zero, it is about highlighting by the mouse.
            b'T' if self.parser.count <= 1 && self.parser.value(0) != Some(0) => {
                self.scroll_down(self.top, count, blank)
            }
            b'^' => self.scroll_down(self.top, count, blank),
            b'X' => {
                self.cursor.pending = false;
                let end = (col + count).min(self.cols());
                self.erase(row, col, end, self.spares(false));
            }
            b'Z' => (0..count.min(self.cols())).for_each(|_| self.tab_back()),
            b'a' => {
                let (col, row) = self.place();
                self.move_from_origin(col + count, row);
            }
            b'b' => self.repeat(count),
            b'd' => {
                let (col, _) = self.place();
                self.move_from_origin(col, count - 1);
            }
            b'e' => {
                let (col, row) = self.place();
                self.move_from_origin(col, row + count);
            }
            b'g' => match self.parser.value(0).unwrap_or(0) {
                0 => self.set_tab(false),
                3 => self.tabs.fill(false),
                _ => {}
            },
            b'h' | b'l' => self.each_mode(|screen, number| {
                if let Some(mode) = Mode::of(number | ANSI) {
                    screen.modes.set(mode, last == b'h');
                }
            }),
            b'r' => self.set_margins(self.height(), |screen, rows| (screen.top, screen.bottom) = rows),
            b's' if self.modes.has(Mode::SIDE_MARGINS) => {
                self.set_margins(self.cols(), |screen, cols| (screen.left, screen.right) = cols)
            }
            b's' => self.save_cursor(),
            b't' => self.titles.stack(&self.parser),
            b'u' => self.restore_cursor(),
            _ => {}
        }
    }

    /// DECSTBM and DECSLRM: the first row or column, and the last, of this many.
    fn set_margins(&mut self, count: usize, set: fn(&mut Screen, (usize, usize))) {
        let first = self.parser.count_at(0) - 1;
        let last = self.parser.value(1).filter(|last| *last > 0).map_or(count, usize::from).min(count) - 1;
        if first < last {
            set(self, (first, last));
            self.move_from_origin(0, 0);
        }
    }

    fn erase_screen(&mut self, selective: bool) {
        let (blank, spares) = (self.blank(), self.spares(selective));
        let Cursor { col, row, .. } = self.cursor;
        let (cols, height) = (self.cols(), self.height());
        let what = self.parser.value(0).unwrap_or(0);
        if what < 3 {
            self.cursor.pending = false;
        }
        match what {
            0 if (col, row) == (0, 0) && !spares => self.grid.clear(blank),
            2 if !spares => self.grid.clear(blank),
            0 => {
                self.erase(row, col, cols, spares);
                (row + 1..height).for_each(|row| self.erase(row, 0, cols, spares));
            }
            1 => {
                (0..row).for_each(|row| self.erase(row, 0, cols, spares));
                self.erase(row, 0, col + 1, spares);
            }
            2 => (0..height).for_each(|row| self.erase(row, 0, cols, spares)),
            3 if !self.is_endless => self.grid.clear_history(),
            _ => {}
        }
    }

    fn erase_line(&mut self, selective: bool) {
        let spares = self.spares(selective);
        let Cursor { col, row, .. } = self.cursor;
        self.cursor.pending = false;
        match self.parser.value(0).unwrap_or(0) {
            0 => self.erase(row, col, self.cols(), spares),
            1 => self.erase(row, 0, col + 1, spares),
            2 => self.erase(row, 0, self.cols(), spares),
            _ => {}
        }
    }

    /// REP, at most as often as there are cells: a few bytes must not make more work than erasing the screen does.
    fn repeat(&mut self, count: usize) {
        let Some(character) = self.last else { return };
        let count = count.min(self.cols() * self.height());
        match u8::try_from(character) {
            Ok(byte @ b' '..=b'~') => drop(self.ascii(&vec![byte; count])),
            _ => (0..count).for_each(|_| self.put(character)),
        }
    }

    fn each_mode(&mut self, act: impl Fn(&mut Screen, u16)) {
        for index in 0..self.parser.count {
            let number = self.parser.value(index).unwrap_or(0);
            act(self, number);
        }
    }

    fn set_modes(&mut self, set: bool) {
        self.each_mode(|screen, number| screen.set_mode(number, set));
    }

    fn set_mode(&mut self, number: u16, set: bool) {
        match number {
            // DECCOLM: the size stays, but the screen is erased.
            3 if self.modes.has(Mode::MAY_CHANGE_COLUMNS) => {
                self.reset_margins();
                self.modes.set(Mode::SIDE_MARGINS, false);
                self.grid.clear(self.blank());
                self.cursor = Cursor::default();
            }
            3 => return,
            6 => {
                self.state.origin = set;
                self.move_from_origin(0, 0);
            }
            69 if self.level < HIGHEST_LEVEL => return,
            69 if !set => (self.left, self.right) = (0, self.cols() - 1),
            47 | 1047 if set => self.enter_alternate(false),
            1049 if set => self.enter_alternate(true),
            47 | 1047 | 1049 => self.leave_alternate(number != 1047, number == 1049),
            1048 if set => self.save_cursor(),
            1048 => self.restore_cursor(),
            _ => {}
        }
        if let Some(mode) = Mode::of(number) {
            self.modes.set(mode, set);
        }
    }

    /// OSC 8: what is written from now on is a part of this link, or of none.
    fn link(&mut self, address: &str) {
        let mut number = 0;
        if Links::is_fit(address) {
            number = match self.links.find(address) {
                None if self.links.may_look() => {
                    let used = self.links_in_use();
                    self.links.keep(&used);
                    self.links.find(address)
                }
                found => found,
            }
            .unwrap_or(0);
        }
        self.state.pen.set_link(number);
    }

    fn links_in_use(&self) -> Vec<bool> {
        let mut used = vec![false; self.links.addresses.len()];
        let mut note = |pen: Pen| {
            if let Some(place) = (pen.link() as usize).checked_sub(1).and_then(|at| used.get_mut(at)) {
                *place = true;
            }
        };
        let others = [&self.main, &self.alternate].into_iter().flatten().flat_map(|(_, rows)| rows);
        for line in self.shown(usize::MAX).iter().chain(others) {
            line.cells.iter().for_each(|cell| note(cell.pen));
        }
        self.saved.iter().for_each(|(_, writing)| note(writing.pen));
        self.entered.iter().for_each(|(_, pen)| note(*pen));
        used
    }

    /// OSC.
    pub(super) fn command(&mut self) {
        let string = match self.parser.too_long {
            true => "",
            false => std::str::from_utf8(&self.parser.string).unwrap_or_default(),
        };
        if let Some((Ok(number), text)) =
            string.split_once(';').or(Some((string, ""))).map(|(number, text)| (number.parse::<u16>(), text))
        {
            match number {
                0..=2 => self.titles.set(number, text),
                8 => {
                    let address = text.split_once(';').map_or("", |(_, address)| address).to_owned();
                    self.link(&address);
                }
                52 => {
                    let data = text.split_once(';').map_or("", |(_, data)| data);
                    if data != "?" {
                        self.clipboard = parse_base64(data.as_bytes()).filter(|data| !data.is_empty());
                    }
                }
                // A command's output begins, so it is no rest of a row that was typed to its very end.
                133 if text.starts_with('C') && self.cursor.after() == 0 && self.cursor.row > 0 => {
                    self.grid.rows[self.cursor.row - 1].wrapped = false;
                }
                4 | 5 | 10..=19 | 104 | 105 | 110..=119 => self.palette.command(number, text),
                _ => {}
            }
        }
        self.last = None;
    }
}
