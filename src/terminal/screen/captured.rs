//! Rows of a screen as tmux's `capture-pane` prints them.
//!
//! As tmux 3.3a does: a row has as many cells as were written to, and a change of colours is the
//! shortest sequence from what was chosen before, also from the row above.

use super::{
    Screen,
    grid::LONGEST_HISTORY,
    line::{Colour, Line, Pen},
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
    const STYLES: [(u32, &str); 7] = [
        (Pen::BOLD, "1"),
        (Pen::DIM, "2"),
        (Pen::ITALIC, "3"),
        (0, "4"),
        (Pen::BLINK, "5"),
        (Pen::INVERSE, "7"),
        (Pen::HIDDEN, "8"),
    ];
    const LATER: [(u32, &str); 2] = [(Pen::STRUCK, "9"), (Pen::OVERLINE, "5:3")];
    const UNDERLINES: [&str; 5] = ["4", "4:2", "4:3", "4:4", "4:5"];
    let styles = Pen::BOLD
        | Pen::DIM
        | Pen::ITALIC
        | Pen::BLINK
        | Pen::INVERSE
        | Pen::HIDDEN
        | Pen::STRUCK
        | Pen::OVERLINE;
    let is_removed =
        old.style & !new.style & styles != 0 || (old.underline() != 0 && old.underline() != new.underline());
    let before = if is_removed { Pen { style: 0, ..old } } else { old };
    let mut codes: Vec<&str> = if is_removed { vec!["0"] } else { Vec::new() };
    let mut push = |styles: &[(u32, &'static str)]| {
        for (style, code) in styles {
            match style {
                0 if new.underline() == 1 && before.underline() != 1 => codes.push(code),
                0 => {}
                style if new.has(*style) && !before.has(*style) => codes.push(code),
                _ => {}
            }
        }
    };
    push(&STYLES);
    push(&LATER[..1]);
    if new.underline() > 1 && before.underline() != new.underline() {
        codes.push(UNDERLINES[new.underline() as usize - 1]);
    }
    if new.has(Pen::OVERLINE) && !before.has(Pen::OVERLINE) {
        codes.push(LATER[1].1);
    }
    if !codes.is_empty() {
        *text += &format!("\x1b[{}m", codes.join(";"));
    }
    for (old, new, base) in [(old.foreground, new.foreground, 30), (old.background, new.background, 40)] {
        if old != new || is_removed {
            *text += &format!("\x1b[{}m", code(new, base));
        }
    }
}

fn code(colour: Colour, base: u32) -> String {
    match (colour.index(), colour.parts()) {
        (Some(index @ 0..8), _) => (base + u32::from(index)).to_string(),
        (Some(index @ 8..16), _) => (base + 52 + u32::from(index)).to_string(),
        (Some(index), _) => format!("{};5;{index}", base + 8),
        (_, Some([red, green, blue])) => format!("{};2;{red};{green};{blue}", base + 8),
        _ => (base + 9).to_string(),
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
