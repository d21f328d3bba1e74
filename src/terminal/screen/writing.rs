//! Writes characters to a screen: their place, their width, and the clusters that they join.

use std::mem;

use super::{Cursor, Join, Screen, line::Cell, modes::Mode, width};
use crate::terminal::tokenizer::State;

/// Joins the character after it to the one before it.
const ZERO_WIDTH_JOINER: char = '\u{200d}';

impl Screen {
    pub(super) fn go_on_with_character(&mut self, byte: u8) -> usize {
        self.held.push(byte);
        match std::str::from_utf8(&self.held) {
            Ok(text) => {
                let character = text.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
                self.held.clear();
                self.character(character);
                1
            }
            Err(error) if error.error_len().is_none() => 1,
            Err(_) => {
                self.held.clear();
                self.put(char::REPLACEMENT_CHARACTER);
                0
            }
        }
    }

    /// Text that is not ASCII, up to where it is.
    pub(super) fn characters(&mut self, bytes: &[u8]) -> usize {
        let length = bytes.iter().position(u8::is_ascii).unwrap_or(bytes.len());
        let mut used = 0;
        for chunk in bytes[..length].utf8_chunks() {
            for character in chunk.valid().chars() {
                used += character.len_utf8();
                self.character(character);
                if self.parser.state != State::Ground {
                    return used;
                }
            }
            let invalid = chunk.invalid();
            used += invalid.len();
            let is_cut_off = used == bytes.len()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_cut_off {
                self.held.extend_from_slice(invalid);
            } else if !invalid.is_empty() {
                self.put(char::REPLACEMENT_CHARACTER);
            }
        }
        used
    }

    pub(super) fn character(&mut self, character: char) {
        match u32::from(character) {
            code @ 0x80..=0x9f => self.c1(code as u8),
            _ => self.put(character),
        }
    }

    /// ASCII text, up to where it is not. It is what most output consists of.
    pub(super) fn ascii(&mut self, bytes: &[u8]) -> usize {
        let length = bytes.iter().position(|byte| !matches!(byte, b' '..=b'~')).unwrap_or(bytes.len());
        let text = &bytes[..length];
        self.join = Join::None;
        let is_plain = self.modes.has(Mode::WRAPS) && !self.modes.has(Mode::INSERTS);
        if self.state.graphics[usize::from(self.state.shifted)] || !is_plain {
            for byte in text {
                self.put(self.translated(*byte));
            }
            return length;
        }
        let mut rest = text;
        while !rest.is_empty() {
            if self.cursor.pending {
                self.wrap();
            }
            let end = self.end_of_text();
            let (part, after) = rest.split_at(rest.len().min(end - self.cursor.col));
            self.grid.write(self.cursor.row, self.cursor.col, part, self.state.pen);
            self.advance(part.len(), end);
            rest = after;
        }
        self.last = text.last().map(|byte| char::from(*byte));
        length
    }

    /// The end of text that is written from the cursor on: after the right margin, or, if the
    /// cursor is right of that, after the last column.
    pub(super) fn end_of_text(&self) -> usize {
        if self.cursor.col > self.right { self.cols() } else { self.right + 1 }
    }

    /// Moves the cursor behind what has been written.
    fn advance(&mut self, width: usize, end: usize) {
        self.cursor.col += width;
        if self.cursor.col >= end {
            self.cursor.col = end - 1;
            self.cursor.pending = true;
        }
    }

    fn translated(&self, byte: u8) -> char {
        const GRAPHICS: [char; 31] = [
            '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼',
            '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
        ];
        match byte {
            b'`'..=b'~' if self.state.graphics[usize::from(self.state.shifted)] => {
                GRAPHICS[usize::from(byte - b'`')]
            }
            _ => char::from(byte),
        }
    }

    pub(super) fn put(&mut self, character: char) {
        let width = width::of(character);
        let (col, row) = (self.cursor.after(), self.cursor.row);
        let mut join = mem::take(&mut self.join);
        if join == Join::Any && !(1..=self.grid.rows[row].cells.len()).contains(&col) {
            join = Join::None;
        }
        // A letter that has only marks to be joined to stands for itself, with room for them.
        let is_alone = join == Join::Letter && self.last.is_none() && width > 0;
        if is_alone {
            join = Join::None;
        }
        if character == ZERO_WIDTH_JOINER && join != Join::Letter {
            self.join = Join::Any;
            return;
        }
        if join == Join::Any {
            self.grid.combine(row, col, ZERO_WIDTH_JOINER);
        }
        let belongs =
            width == 0 || join != Join::None || self.last.is_some_and(|last| self.is_pair(last, character));
        if belongs {
            self.grid.combine(row, col, character);
            self.change_width(width, join, character);
            return;
        }
        if width > self.cols() {
            return;
        }
        let wraps = self.modes.has(Mode::WRAPS);
        if self.cursor.pending && wraps {
            self.wrap();
        }
        let mut end = self.end_of_text();
        if self.cursor.col + width > end {
            if !wraps {
                self.cursor.pending = false;
                return;
            }
            self.wrap();
            end = self.end_of_text();
            if self.cursor.col + width > end {
                return;
            }
        }
        let Cursor { col, row, .. } = self.cursor;
        if self.modes.has(Mode::INSERTS) {
            self.insert_cells(row, col, width, Cell::default());
        }
        self.grid.put(row, col, character, width, self.state.pen);
        self.advance(width, end);
        self.last = Some(character);
        if is_alone {
            self.widen();
        }
    }

    /// Does it belong to the cluster before the cursor, though it takes cells elsewhere?
    fn is_pair(&self, first: char, character: char) -> bool {
        if width::is_skin_tone(character) {
            return width::widens(first) || width::of(first) == 2;
        }
        let is_flag = || {
            let line = &self.grid.rows[self.cursor.row];
            let at = self.cursor.after().saturating_sub(2);
            line.combining_at(at).is_empty()
        };
        width::is_regional(first) && width::is_regional(character) && is_flag()
    }

    /// Makes the cluster before the cursor as wide as it is with this character.
    fn change_width(&mut self, width: usize, join: Join, character: char) {
        let first = self.last;
        match character {
            width::EMOJI_SELECTOR if first.is_some_and(width::widens) => self.widen(),
            width::TEXT_SELECTOR if first.is_some_and(width::narrows) => self.narrow(),
            ZERO_WIDTH_JOINER => self.join = join,
            _ if width > 0 && join == Join::Letter => self.widen(),
            _ if width > 0 => {}
            _ if width::is_virama(character) => self.join = Join::Letter,
            _ if first.is_some() && width::is_spacing(character) => self.widen(),
            _ => {}
        }
    }

    /// Makes it two cells wide, if there is room.
    pub(super) fn widen(&mut self) {
        let Cursor { col, row, pending } = self.cursor;
        if pending || !self.grid.is_narrow(row, col) {
            return;
        }
        let end = self.end_of_text();
        if self.modes.has(Mode::INSERTS) {
            self.insert_cells(row, col, 1, Cell::default());
        }
        if self.grid.widen(row, col) {
            self.advance(1, end);
        }
    }

    pub(super) fn narrow(&mut self) {
        let blank = self.blank();
        if self.grid.narrow(self.cursor.row, self.cursor.after(), blank) {
            if self.cursor.pending { self.cursor.pending = false } else { self.cursor.col -= 1 }
        }
    }

    pub(super) fn wrap(&mut self) {
        let is_whole = (self.left, self.right) == (0, self.cols() - 1);
        self.grid.rows[self.cursor.row].wrapped = is_whole;
        self.line_feed(Cell::default());
        self.cursor.col = self.left;
    }
}
