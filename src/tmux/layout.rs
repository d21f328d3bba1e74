//! How the panes of a window share its room: a tree of cells, as tmux writes it.
//!
//! Pure. Between two cells there is a line for the border.

/// The least room that a pane has.
const LEAST: u32 = 1;
/// The largest side of a window.
pub(crate) const MOST: u32 = 65_535;
/// More cells in cells than anybody makes.
const DEEPEST: u32 = 200;

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
        let cell = Cell::read(&mut rest, DEEPEST)?;
        (rest.is_empty() && u16::from_str_radix(sum, 16) == Ok(checksum(body))).then_some(cell)
    }

    fn read(rest: &mut &str, depth: u32) -> Option<Cell> {
        let side = |rest: &mut &str| number(rest).filter(|side| (1..=MOST).contains(side));
        let width = side(rest)?;
        skip(rest, 'x')?;
        let height = side(rest)?;
        skip(rest, ',')?;
        let left = number(rest)?;
        skip(rest, ',')?;
        let top = number(rest)?;
        let is_row = rest.starts_with('{');
        let content = if is_row || rest.starts_with('[') {
            let mut cells = Vec::new();
            while rest.starts_with(['{', '[', ',']) {
                *rest = &rest[1..];
                cells.push(Cell::read(rest, depth.checked_sub(1)?)?);
            }
            skip(rest, if is_row { '}' } else { ']' })?;
            match cells.len() {
                // It is nothing but its only cell.
                1 => cells.remove(0).content,
                _ if is_row => Content::Row(cells),
                _ => Content::Column(cells),
            }
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

    fn side(&self, across: bool) -> u32 {
        if across { self.width } else { self.height }
    }

    fn set_side(&mut self, across: bool, side: u32) {
        *(if across { &mut self.width } else { &mut self.height }) = side;
    }

    /// Are its cells side by side, or with `false`, one above the other?
    fn runs(&self, across: bool) -> bool {
        match self.content {
            Content::Row(_) => across,
            Content::Column(_) => !across,
            Content::Pane(_) => false,
        }
    }

    fn cells(&self) -> &[Cell] {
        match &self.content {
            Content::Row(cells) | Content::Column(cells) => cells,
            Content::Pane(_) => &[],
        }
    }

    fn cells_mut(&mut self) -> &mut [Cell] {
        match &mut self.content {
            Content::Row(cells) | Content::Column(cells) => cells,
            Content::Pane(_) => &mut [],
        }
    }

    fn over(&self, cells: Vec<Cell>, across: bool) -> Cell {
        let content = if across { Content::Row(cells) } else { Content::Column(cells) };
        Cell { content, ..*self }
    }

    /// How much of its size it could lose.
    fn spare(&self, across: bool) -> u32 {
        let spares = self.cells().iter().map(|cell| cell.spare(across));
        match &self.content {
            Content::Pane(_) => self.side(across).saturating_sub(LEAST),
            _ if self.runs(across) => spares.sum(),
            _ => spares.min().unwrap_or(0),
        }
    }

    /// Changes its size, and shares the difference among the cells in it, a line at a time.
    fn adjust(&mut self, across: bool, mut by: i64) {
        let side = i64::from(self.side(across)) + by;
        self.set_side(across, side.max(0) as u32);
        let runs = self.runs(across);
        let cells = self.cells_mut();
        if !runs {
            cells.iter_mut().for_each(|cell| cell.adjust(across, by));
            return;
        }
        while by != 0 {
            let before = by;
            for cell in &mut *cells {
                if by > 0 || (by < 0 && cell.spare(across) > 0) {
                    cell.adjust(across, by.signum());
                    by -= by.signum();
                }
            }
            if by == before {
                return;
            }
        }
    }

    /// The size of one of its cells when it becomes `size` large itself, and `left` of that is for `count`
    /// cells.
    fn portion(&self, before: u32, across: bool, size: u32, count: u32, left: u32) -> u32 {
        if count == 1 {
            return left;
        }
        let side = self.side(across);
        let least = ((LEAST + 1) * (count - 1)).max(side - self.spare(across));
        let portion = (u64::from(side) * u64::from(size) / u64::from(before.max(1))) as u32;
        portion.min(left.wrapping_sub(least)).max(LEAST)
    }

    /// Could it have this size?
    fn fits(&self, across: bool, size: u32) -> bool {
        let cells = self.cells();
        let count = cells.len() as u32;
        if !self.runs(across) {
            let is_pane = matches!(self.content, Content::Pane(_));
            return (!is_pane || size >= LEAST) && cells.iter().all(|cell| cell.fits(across, size));
        }
        let mut left = size;
        size >= count * 2 - 1
            && (0..count).zip(cells).all(|(at, cell)| {
                let portion = cell.portion(self.side(across), across, size, count - at, left);
                let taken = portion.saturating_add(u32::from(at + 1 < count));
                let has_room = taken <= left;
                left = left.saturating_sub(taken);
                has_room && cell.fits(across, portion)
            })
    }

    /// Makes the cells in it as large as it is, in proportion.
    fn fill(&mut self) {
        let across = matches!(self.content, Content::Row(_));
        let (width, height, size) = (self.width, self.height, self.side(across));
        let cells = self.cells_mut();
        let count = cells.len() as u32;
        let before = cells.iter().map(|cell| cell.side(across) + 1).sum::<u32>().saturating_sub(1);
        let mut left = size;
        for (at, cell) in (0..).zip(cells) {
            let portion = cell.portion(before, across, size, count - at, left);
            left = left.wrapping_sub(portion + 1);
            (cell.width, cell.height) = (width, height);
            cell.set_side(across, portion);
            cell.fill();
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
        let old = if let Some(pane) = by { self.of(pane)?.clone() } else { self.clone() };
        let room = old.side(across);
        if room < 2 * LEAST + 1 {
            return None;
        }
        let second = match (size, before) {
            (None, _) => room.div_ceil(2) - 1,
            (Some(size), false) => size,
            // So a size that is too large is one, and not the least, as in tmux.
            (Some(size), true) => room.wrapping_sub(size).wrapping_sub(1),
        };
        let second = second.clamp(LEAST, room - 1 - LEAST);
        let first = room - 1 - second;
        let (of_old, of_new) = if before { (second, first) } else { (first, second) };
        let mut added = Cell::of_pane(new, old.width, old.height);
        added.set_side(across, of_new);
        let mut kept = old.clone();
        kept.set_side(across, of_old);
        match by {
            Some(pane) => {
                let mut pair = [kept, added];
                if before {
                    pair.reverse();
                }
                self.replace(pane, &pair, across);
            }
            None if !old.fits(across, of_old) => return None,
            None => {
                kept.fill();
                let mut cells = vec![kept];
                if old.runs(across) {
                    cells = cells.remove(0).cells().to_vec();
                }
                cells.insert(if before { 0 } else { cells.len() }, added);
                *self = old.over(cells, across);
            }
        }
        self.place(self.left, self.top);
        Some(())
    }

    fn replace(&mut self, pane: u32, pair: &[Cell], across: bool) {
        if self.content == Content::Pane(pane) {
            *self = self.over(pair.to_vec(), across);
            return;
        }
        let runs = self.runs(across);
        let (Content::Row(cells) | Content::Column(cells)) = &mut self.content else { return };
        match cells.iter().position(|cell| cell.content == Content::Pane(pane)) {
            Some(at) if runs => {
                cells[at] = pair[1].clone();
                cells.insert(at, pair[0].clone());
            }
            _ => cells.iter_mut().for_each(|cell| cell.replace(pane, pair, across)),
        }
    }

    /// Gives a pane's room to the one before it, or behind it; `None` if it was the last one.
    pub(crate) fn without(mut self, pane: u32) -> Option<Cell> {
        let across = matches!(self.content, Content::Row(_));
        let (Content::Row(cells) | Content::Column(cells)) = &mut self.content else {
            return (self.content != Content::Pane(pane)).then_some(self);
        };
        if let Some(at) = cells.iter().position(|cell| cell.of(pane).is_some()) {
            let side = cells[at].side(across);
            match cells.remove(at).without(pane) {
                Some(left) => cells.insert(at, left),
                None => cells[at.saturating_sub(1)].adjust(across, i64::from(side) + 1),
            }
        }
        if cells.len() == 1 {
            self = Cell { left: self.left, top: self.top, ..cells.remove(0) };
        }
        let (left, top) = (self.left, self.top);
        self.place(left, top);
        Some(self)
    }

    /// Changes the size, as far as the cells in it allow that.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        for (across, wanted) in [(true, width), (false, height)] {
            let by = i64::from(wanted) - i64::from(self.side(across));
            self.adjust(across, by.max(-i64::from(self.spare(across))));
        }
        self.place(self.left, self.top);
    }

    /// The size of a pane's cell among those beside it, and whether that is the last one of these.
    fn among(&self, pane: u32, across: bool) -> Option<(u32, bool)> {
        let cells = self.cells();
        let at = cells.iter().position(|cell| cell.of(pane).is_some())?;
        let here = || self.runs(across).then(|| (cells[at].side(across), at + 1 == cells.len()));
        cells[at].among(pane, across).or_else(here)
    }

    /// Gives a pane's cell a size in one direction.
    pub(crate) fn resize_pane_to(&mut self, pane: u32, across: bool, size: i64) {
        if let Some((side, is_last)) = self.among(pane, across) {
            let by = size - i64::from(side);
            self.resize_pane(pane, across, if is_last { -by } else { by });
        }
    }

    /// Changes the size of a pane's cell in one direction by moving a border: that behind it, or, if
    /// it is the last one, that before it.
    pub(crate) fn resize_pane(&mut self, pane: u32, across: bool, by: i64) -> bool {
        let runs = self.runs(across);
        let cells = self.cells_mut();
        let Some(at) = cells.iter().position(|cell| cell.of(pane).is_some()) else { return false };
        let done = cells[at].resize_pane(pane, across, by);
        if done || !runs {
            return done;
        }
        let at = if at + 1 < cells.len() { at } else { at - 1 };
        let mut left = by.unsigned_abs();
        while left > 0 {
            // It is taken from the nearest one that has any.
            let has_spare = |other: &usize| cells[*other].spare(across) > 0;
            let (gains, loses) = match by > 0 {
                true => (at, (at + 1..cells.len()).chain((0..at).rev()).find(has_spare)),
                false => (at + 1, (0..=at).rev().find(has_spare)),
            };
            let Some(loses) = loses else { break };
            let size = left.min(u64::from(cells[loses].spare(across)));
            cells[gains].adjust(across, size as i64);
            cells[loses].adjust(across, -(size as i64));
            left -= size;
        }
        let (left, top) = (self.left, self.top);
        self.place(left, top);
        true
    }

    /// Makes the cells in it equally large; did that change any?
    fn spread(&mut self) -> bool {
        let across = matches!(self.content, Content::Row(_));
        let size = self.side(across);
        let cells = self.cells_mut();
        let count = cells.len() as u32;
        if count < 2 || size < count * 2 - 1 {
            return false;
        }
        let each = (size - (count - 1)) / count;
        let mut changed = false;
        for (at, cell) in (1..).zip(cells) {
            let side = if at == count { size - (each + 1) * (count - 1) } else { each };
            let by = i64::from(side) - i64::from(cell.side(across));
            changed |= by != 0;
            cell.adjust(across, by);
        }
        changed
    }

    /// The same for the innermost cells around a pane that are not yet equal.
    pub(crate) fn spread_around(&mut self, pane: u32) -> bool {
        let cells = self.cells_mut();
        let Some(at) = cells.iter().position(|cell| cell.of(pane).is_some()) else { return false };
        let done = cells[at].spread_around(pane) || self.spread();
        let (left, top) = (self.left, self.top);
        self.place(left, top);
        done
    }

    /// Takes out the cells at the bottom right until it has so many.
    pub(crate) fn shorten(mut self, count: usize) -> Option<Cell> {
        while self.panes().len() > count {
            // Numbers may stand for several panes in a text.
            let mut numbers = 0..;
            self.assign(&mut numbers)?;
            let last = self.panes().len() as u32 - 1;
            self = self.without(last)?;
        }
        Some(self)
    }

    /// Do the sizes of the cells in it add up to its own? That of the outermost follows from them.
    pub(crate) fn adds_up(&mut self) -> bool {
        if let [first, ..] = self.cells() {
            let across = self.runs(true);
            let side = self.cells().iter().map(|cell| u64::from(cell.side(across)) + 1).sum::<u64>() - 1;
            let other = if across { first.height } else { first.width };
            self.set_side(!across, other);
            self.set_side(across, side.min(u32::MAX.into()) as u32);
        }
        self.is_sound() && self.width <= MOST && self.height <= MOST
    }

    fn is_sound(&self) -> bool {
        let across = self.runs(true);
        let cells = self.cells();
        let sum: u64 = cells.iter().map(|cell| u64::from(cell.side(across)) + 1).sum();
        cells.is_empty()
            || (sum == u64::from(self.side(across)) + 1
                && cells.iter().all(|cell| cell.side(!across) == self.side(!across) && cell.is_sound()))
    }

    /// The pane next to this one on that side, and at the edge the one on the opposite side. If there are
    /// several, the one that was active last.
    pub(crate) fn beside(
        &self,
        pane: u32,
        across: bool,
        forward: bool,
        age: &dyn Fn(u32) -> usize,
    ) -> Option<u32> {
        let start = |cell: &Cell, across: bool| if across { cell.left } else { cell.top };
        let here = self.of(pane)?;
        let edge = match forward {
            true => Some(start(here, across) + here.side(across) + 1)
                .filter(|edge| *edge < self.side(across))
                .unwrap_or(0),
            false => Some(start(here, across)).filter(|edge| *edge > 0).unwrap_or(self.side(across) + 1),
        };
        let (from, to) = (start(here, !across), start(here, !across) + here.side(!across));
        let is_beside = |(id, cell): &(u32, &Cell)| {
            let at = start(cell, across) + if forward { 0 } else { cell.side(across) + 1 };
            let (first, last) = (start(cell, !across), start(cell, !across) + cell.side(!across) - 1);
            *id != pane && at == edge && first <= to && last >= from
        };
        self.panes().into_iter().filter(is_beside).map(|(id, _)| id).min_by_key(|id| age(*id))
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

    /// These panes as the last one of [`PRESETS`] has them.
    pub(crate) fn tiled(panes: &[u32], width: u32, height: u32) -> Cell {
        let whole = Cell::of_pane(panes[0], width, height);
        if panes.len() == 1 {
            return whole;
        }
        whole
            .over(panes.iter().map(|pane| Cell::of_pane(*pane, width, height)).collect(), true)
            .preset(4, 0, 0)
    }

    /// One of [`PRESETS`], in place of this one; `main` and `other` are the sizes that the main pane's
    /// cell and the others are to have, where 0 is what is left.
    pub(crate) fn preset(&self, name: u32, main: u32, other: u32) -> Cell {
        let panes: Vec<u32> = self.panes().into_iter().map(|(pane, _)| pane).collect();
        let (width, height) = (self.width, self.height);
        let line = |panes: &[u32], across: bool, width: u32, height: u32| {
            let cells: Vec<Cell> = panes.iter().map(|pane| Cell::of_pane(*pane, width, height)).collect();
            let mut line = Cell::of_pane(panes[0], width, height);
            if panes.len() > 1 {
                line = line.over(cells, across);
                let least = panes.len() as u32 * (LEAST + 1) - 1;
                line.set_side(across, line.side(across).max(least));
                line.spread();
            }
            line
        };
        let count = panes.len();
        let mut cell = match name {
            _ if count == 1 => self.clone(),
            0 | 1 => line(&panes, name == 0, width, height),
            2 | 3 => {
                // The border between the two is across where they are above each other.
                let across = name == 3;
                let room = self.side(across).saturating_sub(1).max(2 * LEAST);
                let (main, other) = match main {
                    main if main + LEAST >= room => ((room - LEAST).max(LEAST), LEAST),
                    main if other == 0 || other > room || room - other < main => (main, room - main),
                    _ => (room - other, other),
                };
                let (mut first, mut others) = (Cell::of_pane(panes[0], width, height), self.clone());
                first.set_side(across, main);
                others.set_side(across, other);
                let others = line(&panes[1..], !across, others.width, others.height);
                first.set_side(!across, others.side(!across));
                let mut whole = first.clone();
                whole.set_side(across, main + other + 1);
                whole.over(vec![first, others], across)
            }
            _ => {
                let (mut rows, mut cols) = (1, 1);
                while rows * cols < count {
                    rows += 1;
                    if rows * cols < count {
                        cols += 1;
                    }
                }
                let each = |room: u32, count: usize| {
                    (room.saturating_sub(count as u32 - 1) / count as u32).max(LEAST)
                };
                let (wide, high) = (each(width, cols), each(height, rows));
                let mut lines = Vec::new();
                for panes in panes.chunks(cols) {
                    let mut cells: Vec<Cell> =
                        panes.iter().map(|pane| Cell::of_pane(*pane, wide, high)).collect();
                    let used = cells.len() as u32 * (wide + 1) - 1;
                    let whole = Cell::of_pane(panes[0], width, high);
                    if let [.., last] = &mut cells[..] {
                        last.width += width.saturating_sub(used);
                    }
                    lines.push(if cells.len() == 1 { whole } else { whole.over(cells, true) });
                }
                let (across, up) = ((wide + 1) * cols as u32 - 1, (high + 1) * rows as u32 - 1);
                if let Some(last) = lines.last_mut() {
                    last.adjust(false, i64::from(height.saturating_sub(up)));
                }
                Cell::of_pane(0, across.max(width), up.max(height)).over(lines, false)
            }
        };
        cell.place(0, 0);
        cell
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
                let mut cell = Cell::of_pane(0, 80, 24);
                for new in 1..count {
                    cell.split(None, new, new % 2 == 0, None, false).unwrap();
                }
                let mut cell = cell.preset(name, 40, 0);
                assert_eq!(cell.panes().len(), count as usize);
                assert_eq!((cell.width, cell.height), (80, 24), "{name} {count}");
                assert!(cell.adds_up(), "{name} {count}");
                assert_eq!(Cell::parse(&cell.shown()), Some(cell), "{name} {count}");
            }
        }
    }
}
