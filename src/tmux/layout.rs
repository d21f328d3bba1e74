//! How the panes of a window share its room: a tree of cells, as tmux writes it.
//!
//! Pure. Between two cells there is a line for the border.

/// The least room that a pane has.
const LEAST: u32 = 1;

#[cfg_attr(test, derive(Debug))]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) left: u32,
    pub(crate) top: u32,
    pub(crate) content: Content,
}

#[cfg_attr(test, derive(Debug))]
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Pane(u32),
    /// Side by side, or one above the other; at least two.
    Row(Vec<Cell>),
    Column(Vec<Cell>),
}

pub(crate) const PRESETS: [&str; 5] =
    ["even-horizontal", "even-vertical", "main-horizontal", "main-vertical", "tiled"];

impl Cell {
    pub(crate) fn of_pane(pane: u32, width: u32, height: u32) -> Cell {
        Cell { width, height, left: 0, top: 0, content: Content::Pane(pane) }
    }

    /// The panes' cells, in order.
    pub(crate) fn panes(&self) -> Vec<(u32, &Cell)> {
        let mut panes = Vec::new();
        match &self.content {
            Content::Pane(pane) => panes.push((*pane, self)),
            Content::Row(cells) | Content::Column(cells) => {
                for cell in cells {
                    panes.extend(cell.panes());
                }
            }
        }
        panes
    }

    pub(crate) fn of(&self, pane: u32) -> Option<&Cell> {
        self.panes().into_iter().find(|(id, _)| *id == pane).map(|(_, cell)| cell)
    }

    /// As `#{window_layout}` is, with its checksum.
    pub(crate) fn shown(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        format!("{:04x},{text}", checksum(&text))
    }

    fn write(&self, text: &mut String) {
        *text += &format!("{}x{},{},{}", self.width, self.height, self.left, self.top);
        let (cells, [open, close]) = match &self.content {
            Content::Pane(pane) => return *text += &format!(",{pane}"),
            Content::Row(cells) => (cells, ['{', '}']),
            Content::Column(cells) => (cells, ['[', ']']),
        };
        text.push(open);
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            cell.write(text);
        }
        text.push(close);
    }

    /// Reads that; `None` where it is not such a text.
    pub(crate) fn parse(text: &str) -> Option<Cell> {
        let (sum, body) = text.split_once(',')?;
        let mut rest = body;
        let cell = Cell::read(&mut rest)?;
        (rest.is_empty() && u16::from_str_radix(sum, 16) == Ok(checksum(body))).then_some(cell)
    }

    fn read(rest: &mut &str) -> Option<Cell> {
        let width = number(rest)?;
        skip(rest, 'x')?;
        let height = number(rest)?;
        skip(rest, ',')?;
        let left = number(rest)?;
        skip(rest, ',')?;
        let top = number(rest)?;
        let is_row = rest.starts_with('{');
        let content = if is_row || rest.starts_with('[') {
            let mut cells = Vec::new();
            while rest.starts_with(['{', '[', ',']) {
                *rest = &rest[1..];
                cells.push(Cell::read(rest)?);
            }
            skip(rest, if is_row { '}' } else { ']' })?;
            if is_row { Content::Row(cells) } else { Content::Column(cells) }
        } else {
            // A pane's number may be left out.
            let before = *rest;
            let pane = skip(rest, ',').and_then(|()| number(rest));
            if pane.is_none() || rest.starts_with('x') {
                *rest = before;
            }
            Content::Pane(pane.unwrap_or(0))
        };
        Some(Cell { width, height, left, top, content })
    }

    /// Puts these panes, in order, in the place of those that it has.
    pub(crate) fn assign(&mut self, panes: &mut impl Iterator<Item = u32>) -> Option<()> {
        match &mut self.content {
            Content::Pane(pane) => *pane = panes.next()?,
            Content::Row(cells) | Content::Column(cells) => {
                for cell in cells {
                    cell.assign(panes)?;
                }
            }
        }
        Some(())
    }

    /// The pane at each place changes to what `change` gives for it.
    pub(crate) fn rename(&mut self, change: &dyn Fn(u32) -> u32) {
        match &mut self.content {
            Content::Pane(pane) => *pane = change(*pane),
            Content::Row(cells) | Content::Column(cells) => {
                cells.iter_mut().for_each(|cell| cell.rename(change));
            }
        }
    }

    /// Makes room for a new pane beside one, or, if that is `None`, beside all. `size`: its size, else
    /// half. `None` where there is no room.
    pub(crate) fn split(
        &mut self,
        by: Option<u32>,
        new: u32,
        across: bool,
        size: Option<u32>,
        before: bool,
    ) -> Option<()> {
        let old = match by {
            Some(pane) => self.of(pane)?.clone(),
            None => self.clone(),
        };
        let room = if across { old.width } else { old.height };
        if room < 2 * LEAST + 1 {
            return None;
        }
        let second = match (size, before) {
            (None, _) => room.div_ceil(2) - 1,
            (Some(size), false) => size,
            (Some(size), true) => room.saturating_sub(size + 1),
        };
        let second = second.clamp(LEAST, room - 1 - LEAST);
        let first = room - 1 - second;
        let (of_old, of_new) = if before { (second, first) } else { (first, second) };
        let fit = |mut cell: Cell, size: u32| {
            let (width, height) = if across { (size, old.height) } else { (old.width, size) };
            cell.resize(width, height);
            cell
        };
        let added = fit(Cell::of_pane(new, old.width, old.height), of_new);
        let kept = fit(old.clone(), of_old);
        let mut pair = vec![kept, added];
        if before {
            pair.reverse();
        }
        match by {
            Some(pane) => self.replace(pane, &pair, across),
            None => *self = old.around(&pair, across),
        }
        self.place(self.left, self.top);
        Some(())
    }

    fn around(&self, cells: &[Cell], across: bool) -> Cell {
        // Rows in a row are one row.
        let mut flat = Vec::new();
        for cell in cells {
            match &cell.content {
                Content::Row(inner) if across => flat.extend_from_slice(inner),
                Content::Column(inner) if !across => flat.extend_from_slice(inner),
                _ => flat.push(cell.clone()),
            }
        }
        let content = if across { Content::Row(flat) } else { Content::Column(flat) };
        Cell { content, ..*self }
    }

    fn replace(&mut self, pane: u32, pair: &[Cell], across: bool) {
        if self.content == Content::Pane(pane) {
            *self = self.around(pair, across);
            return;
        }
        let is_row = matches!(self.content, Content::Row(_));
        let (Content::Row(cells) | Content::Column(cells)) = &mut self.content else { return };
        match cells.iter().position(|cell| cell.content == Content::Pane(pane)) {
            Some(at) if is_row == across => {
                cells[at] = pair[1].clone();
                cells.insert(at, pair[0].clone());
            }
            _ => cells.iter_mut().for_each(|cell| cell.replace(pane, pair, across)),
        }
    }

    /// Gives a pane's room to the one before it, or behind it; `None` if it was the last one.
    pub(crate) fn without(mut self, pane: u32) -> Option<Cell> {
        let is_row = matches!(self.content, Content::Row(_));
        let (Content::Row(cells) | Content::Column(cells)) = &mut self.content else {
            return (self.content != Content::Pane(pane)).then_some(self);
        };
        if let Some(at) = cells.iter().position(|cell| cell.of(pane).is_some()) {
            let (width, height) = (cells[at].width, cells[at].height);
            match cells.remove(at).without(pane) {
                Some(left) => cells.insert(at, left),
                None => {
                    let heir = &mut cells[at.saturating_sub(1)];
                    match is_row {
                        true => heir.resize(heir.width + width + 1, heir.height),
                        false => heir.resize(heir.width, heir.height + height + 1),
                    }
                }
            }
        }
        if cells.len() == 1 {
            let only = cells.remove(0);
            let content = only.content;
            self.content = content;
        }
        let (left, top) = (self.left, self.top);
        self.place(left, top);
        Some(self)
    }

    /// Changes the size, and shares the difference among the cells in it.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let (across, up) =
            (i64::from(width) - i64::from(self.width), i64::from(height) - i64::from(self.height));
        (self.width, self.height) = (width, height);
        match &mut self.content {
            Content::Pane(_) => {}
            Content::Row(cells) => {
                cells.iter_mut().for_each(|cell| cell.resize(cell.width, height));
                share(cells, across, true);
            }
            Content::Column(cells) => {
                cells.iter_mut().for_each(|cell| cell.resize(width, cell.height));
                share(cells, up, false);
            }
        }
        self.place(self.left, self.top);
    }

    /// Changes the size of a pane's cell in one direction by moving a border: that behind it, or, if
    /// it is the last one, that before it.
    pub(crate) fn resize_pane(&mut self, pane: u32, across: bool, by: i64) -> bool {
        let is_row = matches!(self.content, Content::Row(_));
        let (Content::Row(cells) | Content::Column(cells)) = &mut self.content else { return false };
        let Some(at) = cells.iter().position(|cell| cell.of(pane).is_some()) else { return false };
        let mut done = cells[at].resize_pane(pane, across, by);
        if !done && is_row == across {
            let (one, other) = if at + 1 < cells.len() { (at, at + 1) } else { (at - 1, at) };
            let size = |cell: &Cell| i64::from(if across { cell.width } else { cell.height });
            let least = i64::from(LEAST);
            let by = by.clamp(least - size(&cells[one]), size(&cells[other]) - least);
            for (at, by) in [(one, by), (other, -by)] {
                let size = (size(&cells[at]) + by) as u32;
                let (width, height) = (cells[at].width, cells[at].height);
                match across {
                    true => cells[at].resize(size, height),
                    false => cells[at].resize(width, size),
                }
            }
            done = true;
        }
        self.place(self.left, self.top);
        done
    }

    /// Is the pane's cell the last one of those beside it, so that the border before it moves?
    pub(crate) fn is_last(&self, pane: u32, across: bool) -> bool {
        let is_row = matches!(self.content, Content::Row(_));
        let (Content::Row(cells) | Content::Column(cells)) = &self.content else { return false };
        let Some(at) = cells.iter().position(|cell| cell.of(pane).is_some()) else { return false };
        let is_inner = matches!(cells[at].content, Content::Row(_) | Content::Column(_));
        let inner = is_inner && cells[at].is_last(pane, across);
        inner || (is_row == across && at + 1 == cells.len())
    }

    fn place(&mut self, left: u32, top: u32) {
        (self.left, self.top) = (left, top);
        let is_row = matches!(self.content, Content::Row(_));
        let (Content::Row(cells) | Content::Column(cells)) = &mut self.content else { return };
        let (mut left, mut top) = (left, top);
        for cell in cells {
            cell.place(left, top);
            if is_row {
                left += cell.width + 1;
            } else {
                top += cell.height + 1;
            }
        }
    }

    /// One of [`PRESETS`]; `main` is the size of the main pane's cell.
    pub(crate) fn preset(name: u32, panes: &[u32], width: u32, height: u32, main: u32) -> Cell {
        let line = |panes: &[u32], across: bool, width: u32, height: u32| {
            let mut cells: Vec<Cell> = panes.iter().map(|pane| Cell::of_pane(*pane, width, height)).collect();
            even(&mut cells, if across { width } else { height }, across);
            let whole = Cell { width, height, left: 0, top: 0, content: Content::Pane(panes[0]) };
            if panes.len() == 1 { whole } else { whole.around(&cells, across) }
        };
        let whole = Cell::of_pane(panes[0], width, height);
        let mut cell = match name {
            0 => line(panes, true, width, height),
            1 => line(panes, false, width, height),
            _ if panes.len() == 1 => whole,
            2 => {
                let main = main.clamp(LEAST, height.saturating_sub(2).max(LEAST));
                let first = Cell::of_pane(panes[0], width, main);
                let others = line(&panes[1..], true, width, height.saturating_sub(main + 1).max(LEAST));
                whole.around(&[first, others], false)
            }
            3 => {
                let main = main.clamp(LEAST, width.saturating_sub(2).max(LEAST));
                let first = Cell::of_pane(panes[0], main, height);
                let others = line(&panes[1..], false, width.saturating_sub(main + 1).max(LEAST), height);
                whole.around(&[first, others], true)
            }
            _ => {
                let count = panes.len();
                let (mut rows, mut cols) = (1, 1);
                while rows * cols < count {
                    rows += 1;
                    if rows * cols < count {
                        cols += 1;
                    }
                }
                let mut lines: Vec<Cell> =
                    panes.chunks(cols).map(|panes| line(panes, true, width, height)).collect();
                even(&mut lines, height, false);
                if lines.len() == 1 { lines.remove(0) } else { whole.around(&lines, false) }
            }
        };
        cell.place(0, 0);
        cell
    }
}

/// Makes all as large as each other; the last one takes what is left.
fn even(cells: &mut [Cell], room: u32, across: bool) {
    let count = cells.len() as u32;
    let each = (room.saturating_sub(count - 1) / count).max(LEAST);
    for (at, cell) in (1..).zip(cells.iter_mut()) {
        let size = if at == count { room.saturating_sub((each + 1) * (count - 1)).max(LEAST) } else { each };
        let (width, height) = (cell.width, cell.height);
        if across { cell.resize(size, height) } else { cell.resize(width, size) }
    }
}

/// Adds so much to the cells, one after the other, a line at a time.
fn share(cells: &mut [Cell], mut by: i64, across: bool) {
    let count = cells.len();
    let mut stuck = 0;
    for at in (0..count).cycle() {
        if by == 0 || stuck == count {
            return;
        }
        let (width, height) = (cells[at].width, cells[at].height);
        let size = if across { width } else { height };
        let step = by.signum();
        if step < 0 && size <= LEAST {
            stuck += 1;
            continue;
        }
        stuck = 0;
        let size = (i64::from(size) + step) as u32;
        if across {
            cells[at].resize(size, height)
        } else {
            cells[at].resize(width, size)
        }
        by -= step;
    }
}

fn checksum(text: &str) -> u16 {
    text.bytes().fold(0, |sum: u16, byte| sum.rotate_right(1).wrapping_add(u16::from(byte)))
}

fn number(rest: &mut &str) -> Option<u32> {
    let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    digits.parse().ok()
}

fn skip(rest: &mut &str, what: char) -> Option<()> {
    *rest = rest.strip_prefix(what)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As tmux 3.3a has them.
    #[test]
    fn a_layout_is_as_tmux_writes_it() {
        let mut cell = Cell::of_pane(0, 80, 24);
        cell.split(Some(0), 1, false, None, false).unwrap();
        assert_eq!(cell.shown(), "c195,80x24,0,0[80x12,0,0,0,80x11,0,13,1]");
        assert_eq!(Cell::parse(&cell.shown()), Some(cell.clone()));
        cell.split(Some(1), 2, true, Some(20), false).unwrap();
        let panes: Vec<_> =
            cell.panes().iter().map(|(pane, cell)| (*pane, cell.width, cell.height)).collect();
        assert_eq!(panes, [(0, 80, 12), (1, 59, 11), (2, 20, 11)]);
        let cell = cell.without(1).unwrap().without(0).unwrap();
        assert_eq!(cell, Cell::of_pane(2, 80, 24));
    }

    #[test]
    fn presets_fill_the_window() {
        for name in 0..5 {
            for count in 1..7 {
                let panes: Vec<u32> = (0..count).collect();
                let cell = Cell::preset(name, &panes, 80, 24, 40);
                assert_eq!(cell.panes().len(), panes.len());
                assert_eq!(Cell::parse(&cell.shown()), Some(cell.clone()), "{name} {count}");
                let right = cell.panes().iter().map(|(_, cell)| cell.left + cell.width).max();
                let bottom = cell.panes().iter().map(|(_, cell)| cell.top + cell.height).max();
                assert_eq!((right, bottom), (Some(80), Some(24)), "{name} {count}");
            }
        }
    }
}
