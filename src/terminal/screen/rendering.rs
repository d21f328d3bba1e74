//! A stretch of output as a person would have seen it on a terminal of endless height.
//!
//! Text that was drawn over is gone: of a progress bar its last state is left, and a line that an
//! editor has drawn many times is one line. Rows that were broken at the right margin are one line
//! again. Rows are removed as they scroll off, so they take no more memory than their text.

use std::mem;

use super::Screen;
use crate::terminal::screen::line::Line;

/// How much is drawn between two looks at what has scrolled off: a screen keeps more lines
/// than that can have.
const STEP: usize = 512;

pub(crate) struct Rendering {
    screen: Screen,
    colours: bool,
    // How many of the next rows were there before.
    before: usize,
    // Whole lines, but for the last one if it goes on.
    text: String,
}

/// The result so far.
pub(crate) struct Rendered {
    /// Lines that end with `\n`, but the last one where the cursor stands behind it; there
    /// blanks before the cursor count.
    pub(crate) text: String,
    /// The place of the cursor: the line, and the number of characters before it.
    pub(crate) cursor_line: usize,
    pub(crate) cursor_chars: usize,
    /// A program has drawn all of the screen, and that is not in it.
    pub(crate) is_alternate: bool,
}

impl Rendering {
    /// Renders what comes on this screen from now on: the cursor's line is the first one, with
    /// the text that it has.
    pub(crate) fn new(mut screen: Screen, colours: bool) -> Rendering {
        screen.grid.clear_history();
        screen.is_endless = true;
        let before = screen.first_row();
        Rendering { screen, colours, before, text: String::new() }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for step in bytes.chunks(STEP) {
            self.screen.feed(step);
            self.take_history();
        }
    }

    pub(crate) fn resize(&mut self, cols: u16, rows: u16) {
        self.screen.resize(cols, rows);
        self.take_history();
    }

    fn take_history(&mut self) {
        let history = mem::take(&mut self.screen.grid.history);
        self.screen.grid.clear_history();
        history.lines(0).for_each(|line| self.take(&line, 0));
    }

    /// So much of it is there even if it is blank.
    fn take(&mut self, line: &Line, least: usize) {
        if self.before > 0 {
            self.before -= 1;
            return;
        }
        let screen = &self.screen;
        let length = screen.visible_length(line).max(least);
        let length = if line.wrapped { length.max(line.cells.len().min(screen.cols())) } else { length };
        self.text += &if self.colours { screen.coloured(line, length) } else { screen.plain(line, length) };
        if !line.wrapped {
            self.text.push('\n');
        }
    }

    pub(crate) fn finish(mut self) -> Rendered {
        let is_alternate = self.screen.is_alternate();
        let (rows, cursor) = match self.screen.main.take() {
            Some((_, rows)) => (rows, self.screen.entered.unwrap_or_default().0),
            None => (mem::take(&mut self.screen.grid.rows), self.screen.cursor),
        };
        let used = rows.iter().rposition(|line| self.screen.visible_length(line) > 0);
        let end = used.map_or(0, |row| row + 1).max(cursor.row + 1);
        let (mut cursor_line, mut cursor_chars) = (0, 0);
        for (row, line) in rows.iter().enumerate().take(end) {
            let length = if row == cursor.row { cursor.after().min(self.screen.cols()) } else { 0 };
            if row == cursor.row {
                let start = memchr::memrchr(b'\n', self.text.as_bytes()).map_or(0, |at| at + 1);
                cursor_line = memchr::memchr_iter(b'\n', self.text.as_bytes()).count();
                let wrapped = self.text[start..].chars().count();
                cursor_chars = wrapped + self.screen.plain(line, length).chars().count();
            }
            self.take(line, length);
        }
        // The cursor's row has not been ended, and may be empty.
        if end == cursor.row + 1 {
            self.text.pop();
        }
        Rendered { text: self.text, cursor_line, cursor_chars, is_alternate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(cols: u16, rows: u16, bytes: &str) -> String {
        let mut rendering = Rendering::new(Screen::new(cols, rows), false);
        rendering.feed(bytes.as_bytes());
        rendering.finish().text
    }

    #[test]
    fn all_visible_text_is_rendered() {
        for (bytes, text) in [
            ("", ""),
            ("a\r\n", "a\n"),
            ("a", "a"),
            ("a? ", "a? "),
            ("a\r\nb  \r\n\r\n", "a\nb\n\n"),
            ("10%\r20%\r100%\r\ndone\r\n", "100%\ndone\n"),
            ("abcdefghij12345\r\nx", "abcdefghij12345\nx"),
            ("abcdefgh  12345\r\nx", "abcdefgh  12345\nx"),
            ("abcdefghi\u{4e2d}x\r\n", "abcdefghi\u{4e2d}x\n"),
            ("\x1b[31mred\x1b[0m\x1b]0;title\x07\r\n", "red\n"),
            ("one\r\ntwo\r\n\x1b[2Aeins\x1b[2B\r", "eins\ntwo\n"),
            ("x\x08y\tz\r\n", "y       z\n"),
        ] {
            assert_eq!(rendered(10, 4, bytes), text, "{bytes:?}");
        }
    }

    #[test]
    fn nothing_that_scrolls_off_is_lost() {
        let lines: String = (0..10_000).map(|n| format!("{n}\r\n")).collect();
        assert_eq!(rendered(10, 4, &lines), lines.replace('\r', ""));
        assert_eq!(rendered(10, 1, &lines), lines.replace('\r', ""));
    }

    #[test]
    fn earlier_output_is_left_out_except_on_the_same_line() {
        let mut rendering = Rendering::new(Screen::showing(10, 4, b"before\r\n>>> "), false);
        rendering.feed(b"1+1\r\n2\r\n3\r\n4\r\n5\r\n>>> ");
        assert_eq!(rendering.finish().text, ">>> 1+1\n2\n3\n4\n5\n>>> ");
    }

    #[test]
    fn a_screen_that_is_drawn_as_a_whole_is_none_of_it() {
        let mut rendering = Rendering::new(Screen::new(10, 4), false);
        rendering.feed(b"a\r\n\x1b[?1049h\x1b[Hvim\x1b[4;1H:");
        let rendered = rendering.finish();
        assert_eq!((rendered.text.as_str(), rendered.is_alternate), ("a\n", true));
        assert_eq!(self::rendered(10, 4, "a\r\n\x1b[?1049h\x1b[Hvim\x1b[?1049lb"), "a\nb");
    }
}
