//! A screen as lines of text.

use super::{Link, Screen, modes::Mode};
use crate::terminal::{
    screen::line::{Cell, Colour, Line, Pen},
    text::push,
};

impl Screen {
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.cols(), self.height())
    }

    /// The row and the column of the cursor, from 1. After the last column has been
    /// written to, it is still there.
    pub(crate) fn cursor(&self) -> (usize, usize) {
        (self.cursor.row + 1, self.cursor.col + 1)
    }

    /// The same, as reported to a program that asks: with DECOM, counted from the margins.
    pub(crate) fn reported_cursor(&self) -> (usize, usize) {
        let (col, row) = self.place();
        (row + 1, col + 1)
    }

    /// The text before the cursor on its line, without blanks at the end.
    pub(crate) fn before_cursor(&self) -> String {
        let mut text = self.up_to_cursor();
        text.truncate(text.trim_end_matches(' ').len());
        text
    }

    /// The text before the cursor on its line, which may have several rows.
    pub(crate) fn up_to_cursor(&self) -> String {
        let row = self.cursor.row;
        let first = self.first_row();
        let whole =
            self.grid.rows.range(first..row).map(|line| self.plain(line, self.cols().min(line.cells.len())));
        let mut text: String = whole.collect();
        text += &self.plain(&self.grid.rows[row], self.cursor.after());
        text
    }

    /// The text on the cursor's row before the last `columns` up to it, with the sequences that
    /// choose colours.
    pub(crate) fn before_last(&self, columns: usize) -> String {
        self.coloured(&self.grid.rows[self.cursor.row], self.cursor.after().saturating_sub(columns))
    }

    /// Is there a row above that line, and is it empty?
    pub(crate) fn is_below_blank(&self) -> bool {
        let above = self.first_row().checked_sub(1);
        above.is_some_and(|row| self.visible_length(&self.grid.rows[row]) == 0)
    }

    /// The first row of the line that the cursor is on.
    pub(super) fn first_row(&self) -> usize {
        let row = self.cursor.row;
        row - self.grid.rows.range(..row).rev().take_while(|line| line.wrapped).count()
    }

    /// The row of the cursor, and the column after what has been written last, from 0.
    pub(crate) fn place_after(&self) -> (usize, usize) {
        (self.cursor.row, self.cursor.after())
    }

    /// The text from one cell to before another, each a row and a column from 0. A line whose rows are
    /// several is one.
    pub(crate) fn text(&self, from: (usize, usize), to: (usize, usize)) -> String {
        let mut text = String::new();
        for row in from.0..=to.0.min(self.height() - 1) {
            let line = &self.grid.rows[row];
            let goes_on = line.wrapped && row < to.0;
            let length = if goes_on { line.cells.len().min(self.cols()) } else { self.visible_length(line) };
            let end = if row == to.0 { length.min(to.1) } else { length };
            for col in if row == from.0 { from.1 } else { 0 }..end {
                line.push_text(col, &mut text);
            }
            if !goes_on {
                text.truncate(text.trim_end_matches(' ').len());
                if row < to.0 {
                    text.push('\n');
                }
            }
        }
        text
    }

    pub(crate) fn has_visible_cursor(&self) -> bool {
        self.modes.has(Mode::CURSOR)
    }

    /// Has an update begun that is to be shown as a whole (DEC private mode 2026)?
    pub(crate) fn is_updating(&self) -> bool {
        self.modes.has(Mode::UPDATES)
    }

    pub(crate) fn title(&self) -> Option<&str> {
        self.titles.window.as_deref()
    }

    pub(crate) fn is_alternate(&self) -> bool {
        self.main.is_some()
    }

    /// A line for each row, and before them up to so many of those that have scrolled
    /// off, without the blanks at their ends.
    pub(crate) fn lines(&self, scrollback: usize) -> Vec<String> {
        self.shown(scrollback)
            .iter()
            .map(|line| self.plain(line, self.visible_length(line)).trim_end_matches(' ').to_owned())
            .collect()
    }

    /// The same with the sequences that choose colours. Each line stands for itself:
    /// it begins and ends with none chosen.
    pub(crate) fn coloured_lines(&self, scrollback: usize) -> Vec<String> {
        self.shown(scrollback).iter().map(|line| self.coloured(line, self.visible_length(line))).collect()
    }

    pub(super) fn shown(&self, scrollback: usize) -> Vec<Line> {
        let hidden = self.grid.history.len().saturating_sub(scrollback);
        let mut lines: Vec<Line> = self.grid.history.lines(hidden).collect();
        lines.extend(self.grid.rows.iter().cloned());
        lines
    }

    /// The links of the rows, in order.
    pub(crate) fn links(&self) -> Vec<Link<'_>> {
        let mut links: Vec<Link> = Vec::new();
        for (row, line) in self.grid.rows.iter().enumerate() {
            let cells = &line.cells[..line.cells.len().min(self.cols())];
            let mut col = 0;
            for run in cells.chunk_by(|a, b| a.pen.link() == b.pen.link()) {
                if let Some(address) = self.links.get(run[0].pen.link()) {
                    links.push(Link { row, col, length: run.len(), address });
                }
                col += run.len();
            }
        }
        links
    }

    /// Set by a program (OSC 52).
    pub(crate) fn clipboard(&self) -> Option<&[u8]> {
        self.clipboard.as_deref()
    }

    /// Is the clipboard being filled by what has come?
    pub(crate) fn is_copying(&self) -> bool {
        self.parser.is_clipboard()
    }

    /// The sequences that draw the screen on a terminal of its size in its initial modes. The
    /// modes are to follow, and then [`Screen::placing`].
    pub(crate) fn drawing(&self) -> String {
        let mut text = String::from("\x1b[0m\x1b[?69l\x1b[r\x1b(B\x0f");
        if let Some((_, rows)) = &self.main {
            self.draw_rows(rows.iter(), &mut text);
            let (cursor, _) = self.entered.unwrap_or_default();
            push(&mut text, format_args!("\x1b[{};{}H\x1b[?1049h", cursor.row + 1, cursor.col + 1));
        }
        self.draw_rows(self.grid.rows.iter(), &mut text);
        if let Some(title) = &self.titles.window {
            push(&mut text, format_args!("\x1b]2;{title}\x07"));
        }
        if (self.top, self.bottom) != (0, self.height() - 1) {
            push(&mut text, format_args!("\x1b[{};{}r", self.top + 1, self.bottom + 1));
        }
        if self.modes.has(Mode::SIDE_MARGINS) {
            push(&mut text, format_args!("\x1b[?69h\x1b[{};{}s", self.left + 1, self.right + 1));
        }
        text
    }

    fn draw_rows<'a>(&self, rows: impl Iterator<Item = &'a Line>, text: &mut String) {
        *text += "\x1b[H\x1b[2J";
        for (row, line) in (1..).zip(rows).filter(|(_, line)| self.visible_length(line) > 0) {
            push(text, format_args!("\x1b[{row};1H{}", self.coloured(line, self.visible_length(line))));
        }
    }

    /// The sequences after which such a terminal goes on where this one is.
    pub(crate) fn placing(&self) -> String {
        let (row, col) = self.reported_cursor();
        let mut text = format!("\x1b[{row};{col}H");
        push_pen(self.state.pen, &mut text);
        for (is_graphics, select) in self.state.graphics.into_iter().zip(["\x1b(0", "\x1b)0"]) {
            text += if is_graphics { select } else { "" };
        }
        text += if self.state.shifted { "\x0e" } else { "" };
        text
    }

    /// The first so many columns of it.
    pub(super) fn plain(&self, line: &Line, length: usize) -> String {
        let mut text = String::with_capacity(length);
        for col in 0..length {
            line.push_text(col, &mut text);
        }
        text
    }

    /// The same with the sequences that choose colours.
    pub(super) fn coloured(&self, line: &Line, length: usize) -> String {
        let (mut text, mut pen) = (String::new(), Pen::default());
        for col in 0..length {
            let cell = line.cell(col);
            if cell.pen != pen && !cell.is_right_half() && cell.pen.seen() != pen {
                pen = cell.pen.seen();
                push_pen(pen, &mut text);
            }
            line.push_text(col, &mut text);
        }
        if pen != Pen::default() {
            text += "\x1b[0m";
        }
        text
    }

    /// How many columns of it there is anything to be seen in.
    pub(super) fn visible_length(&self, line: &Line) -> usize {
        let is_seen = |cell: &Cell| {
            let pen = cell.pen;
            let styled = Pen::INVERSE | Pen::UNDERLINE | Pen::STRUCK | Pen::OVERLINE;
            cell.character() != ' '
                || cell.is_right_half()
                || pen.background != Colour::DEFAULT
                || pen.has(styled)
        };
        let kept = line.cells.len().min(self.cols());
        if is_seen(&line.rest) && kept < self.cols() {
            return self.cols();
        }
        let cells = line.cells[..kept].iter().enumerate();
        let is_seen_at = |(col, cell): &(usize, &Cell)| is_seen(cell) || !line.combining_at(*col).is_empty();
        cells.rev().find(is_seen_at).map_or(0, |(col, _)| col + 1)
    }
}

impl Line {
    /// Appends what stands at a column, with what belongs to it.
    pub(super) fn push_text(&self, col: usize, text: &mut String) {
        let cell = self.cell(col);
        if !cell.is_right_half() {
            text.push(cell.character());
            text.extend(self.combining_at(col).iter().map(|(_, mark)| *mark));
        }
    }
}

/// The sequence that chooses a pen, whatever was chosen before.
pub(super) fn pen_sequence(pen: Pen) -> String {
    let mut text = String::new();
    push_pen(pen, &mut text);
    text
}

fn push_pen(pen: Pen, text: &mut String) {
    const STYLES: [(u32, u8); 8] = [
        (Pen::BOLD, 1),
        (Pen::DIM, 2),
        (Pen::ITALIC, 3),
        (Pen::BLINK, 5),
        (Pen::INVERSE, 7),
        (Pen::HIDDEN, 8),
        (Pen::STRUCK, 9),
        (Pen::OVERLINE, 53),
    ];
    *text += "\x1b[0";
    for (style, code) in STYLES {
        if pen.has(style) {
            push(text, format_args!(";{code}"));
        }
    }
    match pen.underline() {
        0 => {}
        1 => *text += ";4",
        kind => push(text, format_args!(";4:{kind}")),
    }
    for (colour, base) in [(pen.foreground, 30), (pen.background, 40)] {
        if colour != Colour::DEFAULT {
            text.push(';');
            push_colour(colour, base, text);
        }
    }
    // With colons: a terminal that does not know it takes the numbers for styles of their own.
    match (pen.underline_colour.index(), pen.underline_colour.parts()) {
        (Some(index), _) => push(text, format_args!(";58:5:{index}")),
        (_, Some([red, green, blue])) => push(text, format_args!(";58:2::{red}:{green}:{blue}")),
        _ => {}
    }
    text.push('m');
}

/// The numbers by which SGR chooses a colour; the `base` is 30 for that of text and 40 for the background.
pub(super) fn push_colour(colour: Colour, base: u8, text: &mut String) {
    match (colour.index(), colour.parts()) {
        (Some(index @ 0..8), _) => push(text, format_args!("{}", base + index)),
        (Some(index @ 8..16), _) => push(text, format_args!("{}", base + 52 + index)),
        (Some(index), _) => push(text, format_args!("{};5;{index}", base + 8)),
        (_, Some([red, green, blue])) => push(text, format_args!("{};2;{red};{green};{blue}", base + 8)),
        _ => push(text, format_args!("{}", base + 9)),
    }
}
