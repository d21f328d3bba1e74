//! Rows of a screen as tmux's `capture-pane` prints them.
//!
//! As tmux 3.3a does: a row has as many cells as were written to, and a change of colours is the
//! shortest sequence from what was chosen before, also from the row above.

use super::{
    Screen,
    grid::LONGEST_HISTORY,
    line::{Line, Pen},
    shown::push_colour,
};

/// How rows are captured.
#[derive(Clone, Copy, Default)]
pub(crate) struct Capture {
    pub(crate) colours: bool,
    /// Rows that go on on the next one are joined, and blanks at their ends stay.
    pub(crate) joins: bool,
    /// Blanks at their ends stay.
    pub(crate) keeps_blanks: bool,
}

impl Screen {
    /// How many lines there are that have scrolled off.
    pub(crate) fn history(&self) -> usize {
        self.grid.history.len()
    }

    /// Keeps so many of them from now on.
    pub(crate) fn limit_history(&mut self, lines: usize) {
        self.grid.limit = lines.min(LONGEST_HISTORY);
    }

    pub(crate) fn clear_history(&mut self) {
        self.grid.clear_history();
    }

    /// The character at the cursor.
    pub(crate) fn at_cursor(&self) -> String {
        let mut text = String::new();
        self.grid.rows[self.cursor.row].push_text(self.cursor.col, &mut text);
        text
    }

    /// The rows from `first` to `last`, both included; 0 is the first of the screen, -1 the last that
    /// has scrolled off. `saved`: those of the screen that is not shown, while the alternate one is;
    /// `None` where it is not.
    pub(crate) fn captured(&self, first: i64, last: i64, saved: bool, form: Capture) -> Option<String> {
        let (mut text, mut pen) = (String::new(), Pen::default());
        let main = if saved { Some(&self.main.as_ref()?.1) } else { None };
        for row in first..=last {
            let line = match (main, usize::try_from(row)) {
                (Some(rows), Ok(row)) => rows.get(row).cloned(),
                (Some(_), Err(_)) => None,
                (None, Ok(row)) => self.grid.rows.get(row).cloned(),
                (None, Err(_)) => {
                    let back = usize::try_from(-row).unwrap_or(usize::MAX);
                    let at = self.grid.history.len().checked_sub(back);
                    at.and_then(|at| self.grid.history.get(at))
                }
            };
            let Some(line) = line else { continue };
            self.capture_line(&line, form, &mut pen, &mut text);
        }
        Some(text)
    }

    fn capture_line(&self, line: &Line, form: Capture, pen: &mut Pen, text: &mut String) {
        let start = text.len();
        for col in 0..usize::from(line.used).min(self.cols()) {
            let cell = line.cell(col);
            if cell.is_right_half() {
                continue;
            }
            if form.colours {
                push_change(*pen, cell.pen.seen(), text);
                *pen = cell.pen.seen();
            }
            line.push_text(col, text);
        }
        if !form.joins && !form.keeps_blanks {
            text.truncate(start + text[start..].trim_end_matches(' ').len());
        }
        if !form.joins || !line.wrapped {
            text.push('\n');
        }
    }
}

/// The sequences that lead from one pen to another.
fn push_change(old: Pen, new: Pen, text: &mut String) {
    if old == new {
        return;
    }
    let is_removed = old.style & !new.style & !Pen::UNDERLINE != 0
        || (old.underline() != 0 && old.underline() != new.underline());
    let before = if is_removed { Pen { style: 0, ..old } } else { old };
    let is_new = |style: u32| new.has(style) && !before.has(style);
    let is_underlined = |kind: u32| new.underline() == kind && before.underline() != kind;
    let codes = [
        (is_removed, "0"),
        (is_new(Pen::BOLD), "1"),
        (is_new(Pen::DIM), "2"),
        (is_new(Pen::ITALIC), "3"),
        (is_underlined(1), "4"),
        (is_new(Pen::BLINK), "5"),
        (is_new(Pen::INVERSE), "7"),
        (is_new(Pen::HIDDEN), "8"),
        (is_new(Pen::STRUCK), "9"),
        (is_underlined(2), "4:2"),
        (is_underlined(3), "4:3"),
        (is_underlined(4), "4:4"),
        (is_underlined(5), "4:5"),
        (is_new(Pen::OVERLINE), "5:3"),
    ];
    let codes: Vec<&str> = codes.into_iter().filter(|(is_sent, _)| *is_sent).map(|(_, code)| code).collect();
    if !codes.is_empty() {
        *text += &format!("\x1b[{}m", codes.join(";"));
    }
    for (old, new, base) in [(old.foreground, new.foreground, 30), (old.background, new.background, 40)] {
        if old != new || is_removed {
            *text += "\x1b[";
            push_colour(new, base, text);
            text.push('m');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As tmux 3.3a prints them.
    #[test]
    fn a_row_has_the_cells_that_were_written_to_or_moved_to() {
        let mut screen = Screen::new(20, 6);
        screen.feed(
            b"abc\x1b[1;2H\x1b[2@\x1b[2;1Habcdef\x1b[2;2H\x1b[2P\x1b[3;1Habcdef\x1b[3;3H\x1b[K\x1b[4;1H\x1b[42m\x1b[2K\
              \x1b[0m\x1b[5;1Hab\x1b[44m\x1b[K\x1b[0m\x1b[6;1Habcd\x1b[6;2H\x1b[45m\x1b[K\x1b[0m",
        );
        let screen = Screen::resumed(&screen.save()).unwrap();
        let captured = |form| screen.captured(0, 5, false, form).unwrap();
        let form = Capture { keeps_blanks: true, ..Capture::default() };
        assert_eq!(captured(form), "a  bc               \nadef              \nab    \n\nab\na   \n");
        let form = Capture { colours: true, ..Capture::default() };
        assert_eq!(captured(form), "a  bc\nadef\nab\n\nab\na\x1b[45m\n");
    }

    /// As tmux 3.3a prints them.
    #[test]
    fn colours_change_by_the_sequences_of_tmux() {
        let mut screen = Screen::new(20, 4);
        screen.feed(
            b"\x1b[1mX\x1b[0mY\r\n\x1b[31mR\x1b[0mS\r\n\x1b[1;31mR\x1b[0mS\r\n\x1b[1;42mG\x1b[0m\x1b[32mH",
        );
        let form = Capture { colours: true, ..Capture::default() };
        let text = screen.captured(0, 3, false, form).unwrap();
        assert_eq!(
            text,
            "\x1b[1mX\x1b[0m\x1b[39m\x1b[49mY\n\x1b[31mR\x1b[39mS\n\x1b[1m\x1b[31mR\x1b[0m\x1b[39m\x1b[49mS\n\
             \x1b[1m\x1b[42mG\x1b[0m\x1b[32m\x1b[49mH\n"
        );
    }
}
