//! The screen of a terminal: bytes in, a screen out.
//!
//! The emulator behind `screen`, `render` and `wait --stable`. Pure: no file, no clock.
//!
//! It is the terminal that `TERM=xterm-256color` promises. If terminals differ, it behaves as
//! xterm does (379, at VT level 4), by ctlseqs and by the expectations of esctest2, the suite of
//! xterm's maintainer (`../../tests/terminal` runs it, and names what is left out). As tmux 3.3
//! does, and not xterm: what scrolls off a region, and what ED 2 erases, goes into the history;
//! a screen that changes its width wraps its lines again; C1 controls in UTF-8 are obeyed.
//!
//! Why not another's: 210 moments of ten recorded programs and 900 generated streams
//! were shown to tmux and to each. Of the recorded, avt 0.19 drew 10 otherwise,
//! alacritty_terminal 0.26 none, this none; of the generated, they 514 and 582, this ten.
//! avt's dump leaves
//! out what has scrolled off, and alacritty_terminal has none (and brings forty crates).
//! This takes 80 KB of the static file; it reads 100 to 400 MB/s, avt 30 to 50,
//! alacritty_terminal 110; and knowing its own state, it can pass over what scrolls
//! away unseen (`skim.rs`).
//!
//! Other files answer the questions of programs (`terminal/queries.rs`, `relay/query_replies.rs`);
//! `replies.rs` answers those that only the screen can answer.

mod areas;
mod captured;
mod colours;
mod encoding;
mod grid;
mod history;
mod line;
mod links;
mod modes;
mod motion;
mod png;
mod rendering;
mod replies;
mod saved;
mod sequences;
mod sgr;
mod shown;
mod skim;
mod spans;
mod svg;
mod titles;
pub(super) mod width;
mod writing;

use std::{collections::VecDeque, mem};

pub(crate) use captured::Capture;
use colours::Palette;
use grid::Grid;
use line::{Cell, Line, Pen};
pub(crate) use links::Link;
use links::Links;
use modes::{Mode, Modes};
pub(crate) use rendering::{Rendered, Rendering};
pub(crate) use spans::{Ink, Span};
use titles::Titles;

use crate::terminal::{
    parser::Parser,
    tokenizer::{State, Step, control_sequence_length},
};

/// The highest VT level that there is: that of a VT420.
const HIGHEST_LEVEL: u8 = 4;

#[derive(Clone)]
pub(crate) struct Screen {
    parser: Parser,
    // Invariant: the first bytes of a character, at most three; empty but in ground state.
    held: Vec<u8>,
    join: Join,
    /// REP repeats this: the first character of the cluster before the cursor.
    last: Option<char>,

    grid: Grid,
    cursor: Cursor,
    state: Writing,
    // The margins, all included. Invariant: `top` is above `bottom`, but on a screen of one
    // row; `left` is before `right`, but on one of one column. Without DECLRMM, the last two
    // are the first column and the last.
    top: usize,
    bottom: usize,
    left: usize,
    right: usize,
    tabs: Vec<bool>,
    modes: Modes,
    /// Which cells are protected from being erased.
    protection: Protection,
    /// DECSACE: 2 if attributes are changed in a rectangle, else from its first cell to its last.
    extent: u8,
    /// DECSCL: 1 to [`HIGHEST_LEVEL`].
    level: u8,
    /// DECSCUSR.
    cursor_shape: u8,

    /// Saved by DECSC, on the main screen and on the alternate one.
    saved: [(Cursor, Writing); 2],
    /// The rows of the screen that is not shown, and its columns: the main one, while the
    /// alternate one is shown; else the alternate one, if a program left something on it.
    main: Option<(usize, VecDeque<Line>)>,
    alternate: Option<(usize, VecDeque<Line>)>,
    /// The cursor and the pen at the time when the alternate screen was entered.
    entered: Option<(Cursor, Pen)>,
    titles: Titles,
    palette: Palette,
    links: Links,
    /// Set by a program (OSC 52).
    clipboard: Option<Vec<u8>>,
    /// Rows that have scrolled off stay, even if a program erases them.
    is_endless: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    col: usize,
    row: usize,
    /// The last column, or that of the right margin, has been written to: the next character
    /// goes to the line below, if lines are wrapped by then.
    pending: bool,
}

impl Cursor {
    fn at(col: usize, row: usize) -> Cursor {
        Cursor { col, row, pending: false }
    }

    /// The column after what has been written last.
    fn after(self) -> usize {
        self.col + usize::from(self.pending)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Protection {
    #[default]
    None,
    /// DECSCA: from what erases selectively.
    Dec,
    /// SPA: from all that erases but rectangles.
    Iso,
}

/// Does the next character belong to the one before it?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Join {
    #[default]
    None,
    /// A zero width joiner has come, and is not kept if it has nothing to join.
    Any,
    /// A virama has come: if it is a letter.
    Letter,
}

/// The state that DECSC saves beside the cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Writing {
    pen: Pen,
    /// Are G0 and G1 the DEC special graphics?
    graphics: [bool; 2],
    /// SO: text is in G1.
    shifted: bool,
    /// DECOM: places are counted from the margins.
    origin: bool,
}

impl Screen {
    /// An empty screen; both sides are at least 1.
    pub(crate) fn new(cols: u16, rows: u16) -> Screen {
        let (cols, rows) = (usize::from(cols.max(1)), usize::from(rows.max(1)));
        Screen {
            parser: Parser::default(),
            held: Vec::new(),
            join: Join::None,
            last: None,
            grid: Grid::new(cols, rows),
            cursor: Cursor::default(),
            state: Writing::default(),
            top: 0,
            bottom: rows - 1,
            left: 0,
            right: cols - 1,
            tabs: tab_stops(cols),
            modes: Modes::default(),
            protection: Protection::None,
            extent: 0,
            level: HIGHEST_LEVEL,
            cursor_shape: 0,
            saved: Default::default(),
            main: None,
            alternate: None,
            entered: None,
            titles: Titles::default(),
            palette: Palette::default(),
            links: Links::default(),
            clipboard: None,
            is_endless: false,
        }
    }

    /// A screen to which these bytes were written.
    pub(crate) fn showing(cols: u16, rows: u16, bytes: &[u8]) -> Screen {
        let mut screen = Screen::new(cols, rows);
        screen.feed(bytes);
        screen
    }

    fn cols(&self) -> usize {
        self.grid.cols
    }

    fn height(&self) -> usize {
        self.grid.height()
    }

    /// Changes the size, as when somebody pulls at the terminal's window.
    pub(crate) fn resize(&mut self, cols: u16, rows: u16) {
        self.resize_to(usize::from(cols.max(1)), usize::from(rows.max(1)));
    }

    fn resize_to(&mut self, cols: usize, rows: usize) {
        if (cols, rows) == (self.cols(), self.height()) {
            return;
        }
        if cols != self.cols() {
            self.tabs = tab_stops(cols);
            (self.left, self.right) = (0, cols - 1);
        }
        if rows != self.height() {
            (self.top, self.bottom) = (0, rows - 1);
        }
        let (col, row) = self.grid.resize(cols, rows, (self.cursor.after(), self.cursor.row));
        let pending = self.cursor.pending && col >= cols;
        self.cursor = Cursor { col: col.min(cols - 1), row: row.min(rows - 1), pending };
    }

    /// Does the same as [`Screen::feed`], byte by byte.
    fn emulate(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            let used = if self.parser.state != State::Ground {
                match self.parser.take_string(rest) {
                    0 => self.sequence(byte),
                    length => length,
                }
            } else if !self.held.is_empty() {
                self.go_on_with_character(byte)
            } else {
                match byte {
                    b' '..=b'~' => self.ascii(rest),
                    0x80.. => self.characters(rest),
                    0x1b => match control_sequence_length(rest) {
                        Some(length) => {
                            let step = self.parser.take_control_sequence(&rest[..length]);
                            self.act(step);
                            length
                        }
                        None => self.sequence(byte),
                    },
                    _ => {
                        self.control(byte);
                        1
                    }
                }
            };
            rest = &rest[used..];
        }
    }

    fn sequence(&mut self, byte: u8) -> usize {
        let step = self.parser.take(byte);
        self.act(step)
    }

    /// Tells how many bytes that took: none, if it is to be looked at again.
    fn act(&mut self, step: Step) -> usize {
        match step {
            Step::Control(byte) => self.control(byte),
            Step::Escape(last) => self.escape(last),
            Step::ControlSequence(last) => self.control_sequence(last),
            Step::String(b']') => self.command(),
            Step::String(b'P') => self.restore_presentation(),
            Step::C1(byte) => self.c1(byte),
            Step::Again => return 0,
            Step::Part | Step::String(_) | Step::Cancelled | Step::Begin => {}
        }
        1
    }

    fn c1(&mut self, byte: u8) {
        let step = self.parser.c1(byte);
        self.act(step);
    }

    /// The cell that erasing leaves.
    fn blank(&self) -> Cell {
        Cell::blank(self.state.pen.background)
    }

    fn control(&mut self, byte: u8) {
        self.join = Join::None;
        match byte {
            0x08 => self.back(1),
            b'\t' => self.tab(),
            b'\n' | 0x0b | 0x0c => {
                self.line_feed(self.blank());
                if self.modes.has(Mode::NEW_LINE) {
                    self.carriage_return();
                }
            }
            b'\r' => self.carriage_return(),
            0x0e => self.state.shifted = true,
            0x0f => self.state.shifted = false,
            _ => {}
        }
        self.last = None;
    }

    /// RIS. The scrollback stays, and so does the title.
    fn reset(&mut self) {
        self.leave_alternate(false, false);
        self.alternate = None;
        self.grid.clear(Cell::default());
        let cols = self.cols();
        self.soft_reset();
        self.modes = Modes::default();
        self.cursor = Cursor::default();
        self.tabs = tab_stops(cols);
        self.entered = None;
        self.level = HIGHEST_LEVEL;
        self.cursor_shape = 0;
        self.titles.reset();
        self.palette.reset();
    }

    /// DECSTR.
    fn soft_reset(&mut self) {
        self.state = Writing::default();
        self.saved = Default::default();
        self.protection = Protection::None;
        self.extent = 0;
        self.modes.soft_reset();
        self.reset_margins();
    }

    fn reset_margins(&mut self) {
        (self.top, self.bottom) = (0, self.height() - 1);
        (self.left, self.right) = (0, self.cols() - 1);
    }

    /// DECALN.
    fn align(&mut self) {
        self.grid.erase_rows(0, self.height(), Cell::new('E', Pen::default()));
        self.state.pen.drop_styles();
        self.state.origin = false;
        self.cursor = Cursor::default();
        self.reset_margins();
    }

    fn enter_alternate(&mut self, with_cursor: bool) {
        let cursor = self.cursor;
        if with_cursor {
            self.save_cursor();
            self.cursor.pending = false;
        }
        if self.main.is_some() {
            if with_cursor {
                self.grid.clear(self.blank());
            }
            return;
        }
        self.entered = Some((cursor, self.state.pen));
        let (cols, rows) = (self.cols(), self.height());
        let blank = grid::blank_lines(rows);
        let kept = self.alternate.take().filter(|_| !with_cursor);
        let main = mem::replace(&mut self.grid.rows, blank);
        self.main = Some((cols, main));
        self.grid.keeps_history = false;
        if let Some((kept_cols, kept_rows)) = kept {
            (self.grid.cols, self.grid.rows) = (kept_cols, kept_rows);
            self.grid.resize(cols, rows, (0, 0));
        }
    }

    /// Leaves the alternate screen; what is on it stays there, if it `keeps` that.
    fn leave_alternate(&mut self, keeps: bool, with_cursor: bool) {
        let (cols, rows) = (self.cols(), self.height());
        let margins = (self.top, self.bottom, self.left, self.right);
        if let Some((main_cols, main_rows)) = self.main.take() {
            let alternate = mem::replace(&mut self.grid.rows, main_rows);
            let is_used = keeps && alternate.iter().any(|line| !line.is_unused());
            self.alternate = is_used.then_some((cols, alternate));
            (self.grid.cols, self.grid.keeps_history) = (main_cols, true);
        }
        if with_cursor {
            self.restore_cursor();
        }
        self.cursor.pending &= keeps;
        self.cursor.col = self.cursor.col.min(self.cols() - 1);
        self.cursor.row = self.cursor.row.min(self.height() - 1);
        self.resize_to(cols, rows);
        (self.top, self.bottom, self.left, self.right) = margins;
    }
}

fn tab_stops(cols: usize) -> Vec<bool> {
    (0..cols).map(|col| col > 0 && col % 8 == 0).collect()
}

#[cfg(test)]
mod tests;
