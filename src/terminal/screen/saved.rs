//! A screen as bytes, and back.
//!
//! All of it, also a sequence that is half read, so that going on from the bytes is
//! the same as never having stopped. Whatever bytes there are, what is made of them is
//! a sound screen or none: each invariant is looked at, and no more memory is taken
//! than the bytes account for.

use super::{
    Cursor, HIGHEST_LEVEL, Join, Protection, Screen, Writing, colours,
    links::{self, Links},
    modes::Modes,
    titles::{self, Pushed},
};
use crate::terminal::screen::{
    encoding::{LONGEST_SIDE, Reader, Writer},
    grid::{Grid, LONGEST_HISTORY},
    history::History,
};
use crate::terminal::{
    parser::{LONGEST_CLIPBOARD, LONGEST_STRING, PARAMETERS, Parameter},
    tokenizer::State,
};

/// The number of this format. Another one is that of another version, and is not read.
const FORM: u64 = 7;

impl Screen {
    pub(crate) fn save(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        out.number(FORM);
        out.size(self.links.addresses.len());
        self.links.addresses.iter().for_each(|address| out.bytes(address.as_bytes()));
        out.option(self.clipboard.as_ref(), |out, clipboard| out.bytes(clipboard));
        out.size(self.cols());
        out.lines(&self.grid.rows);
        out.bytes(self.grid.history.saved());
        out.size(self.grid.returning);
        out.cursor(self.cursor);
        out.writing(self.state);
        out.size(self.top);
        out.size(self.bottom);
        out.size(self.left);
        out.size(self.right);
        out.number(self.join as u64);
        self.modes.encode().into_iter().for_each(|modes| out.number(modes));
        out.bytes(&[self.protection as u8, self.extent, self.level, self.cursor_shape]);
        out.flags(&self.tabs);
        for (cursor, writing) in self.saved {
            out.cursor(cursor);
            out.writing(writing);
        }
        for other in [&self.main, &self.alternate] {
            out.option(other.as_ref(), |out, (cols, rows)| {
                out.size(*cols);
                out.lines(rows);
            });
        }
        out.option(self.entered.as_ref(), |out, (cursor, pen)| {
            out.cursor(*cursor);
            out.pen(*pen);
        });
        out.option(self.last.as_ref(), |out, last| out.number(u64::from(u32::from(*last))));
        out.bytes(&self.held);
        let titles = &self.titles;
        out.title(&titles.window);
        out.title(&titles.icon);
        out.flags(&[titles.set_by_digits, titles.told_by_digits]);
        out.size(titles.stack.len());
        for pushed in &titles.stack {
            out.flags(&[pushed.has_icon, pushed.has_window]);
            out.title(&pushed.icon);
            out.title(&pushed.window);
        }
        out.size(self.palette.set.len());
        for (index, colour) in &self.palette.set {
            out.number(u64::from(*index));
            out.bytes(colour);
        }
        let parser = &self.parser;
        let introducer = parser.state.introducer().unwrap_or(0);
        out.size(states(introducer).into_iter().position(|state| state == parser.state).unwrap_or(0));
        if parser.state != State::Ground {
            out.bytes(&[introducer, parser.private, parser.intermediate]);
            out.flags(&[parser.too_long && introducer != 0]);
            out.size(parser.count);
            for parameter in &parser.parameters[..parser.count.max(1)] {
                out.flags(&[parameter.is_sub]);
                out.option(parameter.value.as_ref(), |out, value| out.number(u64::from(*value)));
            }
            out.bytes(if introducer != 0 { &parser.string } else { b"" });
        }
        out.0
    }

    /// `None` if it was not saved by this version of ours.
    pub(crate) fn resumed(saved: &[u8]) -> Option<Screen> {
        let mut reader = Reader(saved, 0);
        let screen = reader.screen()?;
        reader.0.is_empty().then_some(screen)
    }
}

/// Those that a sequence can be in, by the numbers that they are written as.
fn states(introducer: u8) -> [State; 10] {
    [
        State::Ground,
        State::Escape,
        State::Intermediate,
        State::Control,
        State::ControlParameters,
        State::ControlIntermediate,
        State::ControlMalformed,
        State::String(introducer),
        State::StringLead(introducer),
        State::StringEscape(introducer),
    ]
}

impl Writer {
    fn title(&mut self, title: &Option<String>) {
        self.option(title.as_ref(), |out, title| out.bytes(title.as_bytes()));
    }

    fn cursor(&mut self, cursor: Cursor) {
        self.size(cursor.col);
        self.size(cursor.row);
        self.flags(&[cursor.pending]);
    }

    fn writing(&mut self, state: Writing) {
        self.pen(state.pen);
        self.flags(&[state.graphics[0], state.graphics[1], state.shifted, state.origin]);
    }
}

impl<'a> Reader<'a> {
    fn screen(&mut self) -> Option<Screen> {
        if self.number(FORM)? != FORM {
            return None;
        }
        let mut links = Links::default();
        for _ in 0..self.size(links::MOST)? {
            let address = std::str::from_utf8(self.bytes(LONGEST_STRING)?).ok()?;
            if !address.is_empty() && !Links::is_fit(address) {
                return None;
            }
            links.addresses.push(address.to_owned());
        }
        self.1 = links.addresses.len();
        let clipboard = self.option(|reader| Some(reader.bytes(LONGEST_CLIPBOARD)?.to_vec()))?;
        let cols = self.side()?;
        let rows = self.lines(LONGEST_SIDE)?;
        let height = rows.len();
        if height == 0 {
            return None;
        }
        let mut screen = Screen::new(cols as u16, 1);
        (screen.links, screen.clipboard) = (links, clipboard);
        let history = History::resumed(self.bytes(usize::MAX)?, LONGEST_HISTORY)?;
        let returning = self.size(history.len())?;
        screen.grid = Grid::of(cols, rows, history, returning);
        screen.cursor = self.cursor(cols - 1, height - 1)?;
        screen.state = self.writing()?;
        (screen.top, screen.bottom) = (self.size(height - 1)?, self.size(height - 1)?);
        if screen.top >= screen.bottom && height > 1 {
            return None;
        }
        (screen.left, screen.right) = (self.size(cols - 1)?, self.size(cols - 1)?);
        if screen.left >= screen.right && cols > 1 {
            return None;
        }
        screen.join = [Join::None, Join::Any, Join::Letter].into_iter().nth(self.size(2)?)?;
        screen.modes = Modes::decode([self.number(u64::MAX)?, self.number(u64::MAX)?])?;
        let &[protection, extent, level, shape] = self.bytes(4)? else { return None };
        screen.protection =
            [Protection::None, Protection::Dec, Protection::Iso].into_iter().nth(protection.into())?;
        if extent > 2 || !(1..=HIGHEST_LEVEL).contains(&level) || shape > 6 {
            return None;
        }
        (screen.extent, screen.level, screen.cursor_shape) = (extent, level, shape);
        for tab in &mut screen.tabs {
            [*tab] = self.flags()?;
        }
        let anywhere = LONGEST_SIDE as usize;
        for saved in &mut screen.saved {
            *saved = (self.cursor(anywhere, anywhere)?, self.writing()?);
        }
        for other in [&mut screen.main, &mut screen.alternate] {
            *other = self.option(|reader| {
                let cols = reader.side()?;
                let rows = reader.lines(LONGEST_SIDE)?;
                (!rows.is_empty()).then_some((cols, rows))
            })?;
        }
        screen.grid.keeps_history = screen.main.is_none();
        screen.entered = self.option(|reader| Some((reader.cursor(anywhere, anywhere)?, reader.pen()?)))?;
        screen.last = self.option(Reader::character)?;
        screen.held = self.bytes(3)?.to_vec();
        let is_begun = std::str::from_utf8(&screen.held)
            .is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0);
        if !screen.held.is_empty() && !is_begun {
            return None;
        }
        let titles = &mut screen.titles;
        (titles.window, titles.icon) = (self.title()?, self.title()?);
        [titles.set_by_digits, titles.told_by_digits] = self.flags()?;
        for _ in 0..self.size(titles::MOST)? {
            let [has_icon, has_window] = self.flags()?;
            let (icon, window) = (self.title()?, self.title()?);
            titles.stack.push(Pushed { has_icon, has_window, icon, window });
        }
        for _ in 0..self.count(LONGEST_SIDE)? {
            let index = self.number(LONGEST_SIDE)? as u16;
            let colour = self.bytes(3)?.try_into().ok()?;
            if !colours::is_known(index) || screen.palette.set.iter().any(|(set, _)| *set == index) {
                return None;
            }
            screen.palette.set.push((index, colour));
        }
        self.parser(&mut screen)?;
        Some(screen)
    }

    fn parser(&mut self, screen: &mut Screen) -> Option<()> {
        let parser = &mut screen.parser;
        let state = self.size(states(0).len() - 1)?;
        if state == 0 {
            return Some(());
        }
        let &[introducer, private, intermediate] = self.bytes(3)? else { return None };
        parser.state = states(introducer)[state];
        let is_known = matches!(introducer, b']' | b'P' | b'X' | b'^' | b'_');
        if parser.state.introducer().is_some() != is_known {
            return None;
        }
        (parser.private, parser.intermediate) = (private, intermediate);
        [parser.too_long] = self.flags()?;
        parser.count = self.size(PARAMETERS)?;
        for parameter in &mut parser.parameters[..parser.count.max(1)] {
            let [is_sub] = self.flags()?;
            let value = self.option(|reader| reader.number(u64::from(u16::MAX)))?;
            *parameter = Parameter { value: value.map(|value| value as u16), is_sub };
        }
        parser.string = self.bytes(LONGEST_CLIPBOARD)?.to_vec();
        screen.held.is_empty().then_some(())
    }

    fn side(&mut self) -> Option<usize> {
        self.size(LONGEST_SIDE as usize).filter(|side| *side > 0)
    }

    fn title(&mut self) -> Option<Option<String>> {
        self.option(|reader| {
            let title = std::str::from_utf8(reader.bytes(LONGEST_STRING)?).ok()?;
            (!title.contains(char::is_control)).then(|| title.to_owned())
        })
    }

    fn cursor(&mut self, last_col: usize, last_row: usize) -> Option<Cursor> {
        let (col, row, [pending]) = (self.size(last_col)?, self.size(last_row)?, self.flags()?);
        Some(Cursor { col, row, pending })
    }

    fn writing(&mut self) -> Option<Writing> {
        let pen = self.pen()?;
        let [first, second, shifted, origin] = self.flags()?;
        Some(Writing { pen, graphics: [first, second], shifted, origin })
    }
}
