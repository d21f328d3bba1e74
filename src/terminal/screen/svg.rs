//! A screen as a picture (SVG 1.1): a window, as people put it into a README.
//!
//! Browsers and librsvg, which makes most thumbnails, shall show the same, and every
//! character in its cell, whatever font there is. What surprised us:
//!
//! - librsvg knows no `textLength`, and joins blanks but for `xml:space`. So text is put
//!   down in short runs without two blanks in a row, each where its cell is; and a cell
//!   is as wide as the characters of the commonest fonts are at this size.
//! - Characters that fonts without them borrow from others have other widths: each is
//!   put in the middle of its cells.
//! - What has to join, lines and blocks (U+2500..U+259F, U+2800..U+28FF, U+E0B0..U+E0B3),
//!   underlines too, is drawn, not written; in whole pixels, or seams would be seen.
//!
//! All of one colour is one element, so that it is small. No font, no script and no file
//! from elsewhere is needed.

use std::ops::Range;

use super::{Screen, modes::Mode};
use crate::terminal::{
    screen::{
        line::{Colour, Line, Pen},
        width,
    },
    text::push,
};

/// The picture's unit is half a pixel, so that all its numbers are whole ones: to print
/// floating-point numbers would make the program 28 KB longer.
pub(super) const PIXEL: usize = 2;
/// The size of a cell.
const WIDTH: usize = 9 * PIXEL;
const HEIGHT: usize = 19 * PIXEL;
/// From the top of a cell to where letters stand.
const BASE: usize = 14 * PIXEL;

/// A cell in pixels, and the middle one of them, where a thin line is.
pub(super) const COLS: usize = WIDTH / PIXEL;
pub(super) const ROWS: usize = HEIGHT / PIXEL;
pub(super) const MIDDLE_COL: usize = COLS / 2;
pub(super) const MIDDLE_ROW: usize = ROWS / 2;

/// In units. The characters of DejaVu Sans Mono and Menlo are 0.602 of that wide: a cell.
const FONT_SIZE: &str = "29.9";
const FONTS: &str =
    "'DejaVu Sans Mono',Menlo,'Cascadia Mono',Consolas,'Liberation Mono',ui-monospace,monospace";
/// After so many characters a run of text ends where a word does, and after the other
/// number anywhere: so that in a font of another width none is far from its cell.
const RUN: usize = 16;
const LONGEST_RUN: usize = 32;

/// Around the rows, and the bar above them.
const MARGIN: usize = 16 * PIXEL;
const BAR: usize = 40 * PIXEL;
/// The space that stays free on either side of the title.
const BUTTONS: usize = 84 * PIXEL;

pub(super) type Rgb = [u8; 3];

pub(crate) const FOREGROUND: Rgb = [0xd0, 0xd0, 0xd0];
pub(crate) const BACKGROUND: Rgb = [0x10, 0x10, 0x10];
const EDGE: Rgb = [0x3a, 0x3a, 0x3a];
const TITLE: Rgb = [0x90, 0x90, 0x90];
const BUTTON_COLOURS: [Rgb; 3] = [[0xff, 0x5f, 0x57], [0xfe, 0xbc, 0x2e], [0x28, 0xc8, 0x40]];

/// The first sixteen colours. Text in them can be read on the background, and light text
/// on the first eight.
const COLOURS: [u32; 16] = [
    0x000000, 0xd5414b, 0x3fae58, 0xc89b2c, 0x3671c6, 0xb25bc4, 0x40b8c7, 0xd0d0d0, 0x767676, 0xff6b70,
    0x6fd988, 0xf5d76e, 0x6cb0ff, 0xdd8cf0, 0x66dbe6, 0xffffff,
];

impl Screen {
    /// Up to `scrollback` lines that have scrolled off come before the screen.
    pub(crate) fn svg(&self, scrollback: usize) -> String {
        let lines = self.shown(scrollback);
        let mut picture = Picture::default();
        let cursor_row = lines.len() - self.height() + self.cursor.row;
        for (row, line) in lines.iter().enumerate() {
            let cursor = (self.modes.has(Mode::CURSOR) && row == cursor_row).then(|| self.cursor_cells(line));
            self.draw(line, row * HEIGHT, cursor, &mut picture);
        }
        let (width, height) = (self.cols() * WIDTH + 2 * MARGIN, lines.len() * HEIGHT + BAR + MARGIN);
        let mut text = String::new();
        push(
            &mut text,
            format_args!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" width=\"{}\" height=\"{}\" \
                 viewBox=\"0 0 {width} {height}\" font-family=\"{FONTS}\" font-size=\"{FONT_SIZE}\" fill=\"{}\">\n\
                 <style>text{{white-space:pre;font-variant-ligatures:none}}</style>\n",
                width / PIXEL,
                height / PIXEL,
                hex(FOREGROUND)
            ),
        );
        self.frame(width, height, &mut text);
        push(&mut text, format_args!("<g transform=\"translate({MARGIN} {BAR})\">\n"));
        picture.write(&mut text);
        text + "</g>\n</svg>\n"
    }

    /// The window: its ground and edge, its buttons, its title.
    fn frame(&self, width: usize, height: usize, text: &mut String) {
        push(
            text,
            format_args!(
                "<rect x=\"1\" y=\"1\" width=\"{}\" height=\"{}\" rx=\"20\" fill=\"{}\" stroke=\"{}\" \
                 stroke-width=\"2\"/>\n",
                width - 2,
                height - 2,
                hex(BACKGROUND),
                hex(EDGE)
            ),
        );
        let middle = 20 * PIXEL;
        for (number, colour) in BUTTON_COLOURS.into_iter().enumerate() {
            let x = MARGIN + (6 + 20 * number) * PIXEL;
            if x + MARGIN > width {
                break;
            }
            push(
                text,
                format_args!("<circle cx=\"{x}\" cy=\"{middle}\" r=\"12\" fill=\"{}\"/>\n", hex(colour)),
            );
        }
        let room = width.saturating_sub(2 * BUTTONS) / WIDTH;
        let title = self.title().map_or(String::new(), |title| cut(title, room));
        if !title.is_empty() {
            push(
                text,
                format_args!(
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{}\">",
                    width / 2,
                    middle + 5 * PIXEL,
                    hex(TITLE)
                ),
            );
            push_escaped(text, &title);
            *text += "</text>\n";
        }
    }

    /// The columns that the cursor covers, which is on that line.
    pub(super) fn cursor_cells(&self, line: &Line) -> Range<usize> {
        let col = self.cursor().1 - 1;
        let start = col.saturating_sub(usize::from(line.cell(col).is_right_half()));
        start..(start + 1 + usize::from(line.cell(start).is_wide())).min(self.cols())
    }

    /// Stretches of one pen, and the cursor, which is one of its own.
    fn draw(&self, line: &Line, y: usize, cursor: Option<Range<usize>>, picture: &mut Picture) {
        let is_cursor = |at: usize| cursor.as_ref().is_some_and(|cursor| cursor.contains(&at));
        let length = self.visible_length(line).max(cursor.as_ref().map_or(0, |cursor| cursor.end));
        let mut col = 0;
        while col < length {
            let pen = line.cell(col).pen;
            let goes_on = |at: usize| {
                let cell = line.cell(at);
                is_cursor(at) == is_cursor(col) && (cell.is_right_half() || cell.pen == pen)
            };
            let end = (col + 1..length).find(|at| !goes_on(*at)).unwrap_or(length);
            let (ink, paper) = colours(pen, is_cursor(col));
            let ground = Rect { x: col * WIDTH, y, width: (end - col) * WIDTH, height: HEIGHT };
            if paper != BACKGROUND || is_cursor(col) {
                picture.papers.push(ground.of(paper));
            }
            if !pen.has(Pen::HIDDEN) {
                picture.decorate(ground, ink, pen);
                picture.characters(line, col..end, y, ink, paper);
            }
            col = end;
        }
    }
}

/// The ink of a piece comes first, so that in order the pieces of one ink are together. For a
/// rectangle, `y`, `height`, `x` and `width` follow, for others their place in
/// [`Picture::drawn`]. It is one type, since each type that is sorted makes the program larger.
type Pieces = Vec<[usize; 5]>;

/// The pieces, from the bottom to the top.
#[derive(Default)]
struct Picture {
    papers: Pieces,
    blocks: Pieces,
    lines: Pieces,
    // Shapes with slanting edges, and lines that slant or bend.
    solids: Pieces,
    strokes: Pieces,
    // By their colour, and the bits below.
    texts: Pieces,
    drawn: String,
}

const BOLD: usize = 1;
const ITALIC: usize = 1 << 1;
/// Each piece is one character.
const CENTRED: usize = 1 << 2;
const TEXT_BITS: usize = 3;

#[derive(Clone, Copy)]
pub(super) struct Rect {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Picture {
    fn write(&self, text: &mut String) {
        // Rectangles that meet must show no seam; but a line must not vanish if the picture is
        // made smaller.
        *text += "<g shape-rendering=\"crispEdges\">\n";
        push_rects(text, &self.papers);
        push_rects(text, &self.blocks);
        *text += "</g>\n";
        push_rects(text, &self.lines);
        let filled = |text: &mut String, colour: usize| {
            push(text, format_args!("<path fill=\"#{colour:06x}\" d=\""));
        };
        let stroked = |text: &mut String, colour: usize| {
            let width = PIXEL;
            push(
                text,
                format_args!("<path fill=\"none\" stroke=\"#{colour:06x}\" stroke-width=\"{width}\" d=\""),
            );
        };
        let written = |text: &mut String, style: usize| {
            *text += "<g";
            let colour = style >> TEXT_BITS;
            if colour != number(FOREGROUND) {
                push(text, format_args!(" fill=\"#{colour:06x}\""));
            }
            let names = [
                (BOLD, " font-weight=\"bold\""),
                (ITALIC, " font-style=\"italic\""),
                (CENTRED, " text-anchor=\"middle\""),
            ];
            names.iter().filter(|(bit, _)| style & bit != 0).for_each(|(_, name)| *text += name);
            *text += ">\n";
        };
        let drawn = |text: &mut String, piece: &[usize; 5]| *text += &self.drawn[piece[1]..piece[2]];
        push_groups(text, &self.solids, &filled, &drawn, "\"/>\n");
        push_groups(text, &self.strokes, &stroked, &drawn, "\"/>\n");
        push_groups(text, &self.texts, &written, &drawn, "</g>\n");
    }

    /// Draws what is not blank of some cells of one pen.
    fn characters(&mut self, line: &Line, cells: Range<usize>, y: usize, ink: Rgb, paper: Rgb) {
        let pen = line.cell(cells.start).pen;
        let mut col = cells.start;
        while col < cells.end {
            let (cell, x) = (line.cell(col), col * WIDTH);
            let (next, centred) = match GlyphKind::of(line, col) {
                GlyphKind::Blank => {
                    col += 1;
                    continue;
                }
                GlyphKind::Shape => {
                    self.shape(cell.character(), x, y, ink, paper);
                    col += 1;
                    continue;
                }
                GlyphKind::Letter => (end_of_run(line, col, cells.end), false),
                GlyphKind::Other => ((col + 1 + usize::from(cell.is_wide())).min(cells.end), true),
            };
            let bits = [(pen.has(Pen::BOLD), BOLD), (pen.has(Pen::ITALIC), ITALIC), (centred, CENTRED)];
            let bits: usize = bits.iter().filter(|(has, _)| *has).map(|(_, bit)| bit).sum();
            let width = (next - col) * WIDTH;
            let at = if centred { x + width / 2 } else { x };
            let start = self.drawn.len();
            let text = &mut self.drawn;
            push(text, format_args!("<text x=\"{at}\" y=\"{}\"", y + BASE));
            if !centred && next - col > 1 {
                push(text, format_args!(" textLength=\"{width}\""));
            }
            let mut characters = String::new();
            (col..next).for_each(|at| line.push_text(at, &mut characters));
            text.push('>');
            push_escaped(text, &characters);
            *text += "</text>\n";
            self.texts.push([number(ink) << TEXT_BITS | bits, start, text.len(), 0, 0]);
            col = next;
        }
    }

    /// The lines under, through and above text.
    fn decorate(&mut self, ground: Rect, ink: Rgb, pen: Pen) {
        let Rect { x, y, width, .. } = ground;
        let underline = underline_ink(pen, ink);
        let mut line = |top: usize, on: usize, off: usize, ink: Rgb| {
            for start in (0..width).step_by(on + off) {
                let width = on.min(width - start);
                let rect = Rect { x: x + start, y: y + top * PIXEL, width, height: PIXEL };
                self.lines.push(rect.of(ink));
            }
        };
        match pen.underline() {
            0 => {}
            1 => line(16, width, 0, underline),
            2 => [15, 17].into_iter().for_each(|top| line(top, width, 0, underline)),
            4 => line(16, PIXEL, 2 * PIXEL, underline),
            5 => line(16, 5 * PIXEL, 4 * PIXEL, underline),
            _ => {
                let start = self.drawn.len();
                push(&mut self.drawn, format_args!("M{x} {}", y + 33));
                (0..width / WIDTH).for_each(|_| self.drawn += "q5-6 9 0t9 0");
                self.strokes.push([number(underline), start, self.drawn.len(), 0, 0]);
            }
        }
        if pen.has(Pen::STRUCK) {
            line(9, width, 0, ink);
        }
        if pen.has(Pen::OVERLINE) {
            line(1, width, 0, ink);
        }
    }

    fn shape(&mut self, character: char, x: usize, y: usize, ink: Rgb, paper: Rgb) {
        let code = u32::from(character) as usize;
        let (right, bottom, centre) = (x + WIDTH, y + HEIGHT, y + HEIGHT / 2);
        let start = self.drawn.len();
        match character {
            '╭'..='╰' => {
                let (is_left, is_down) = (matches!(character, '╭' | '╰'), matches!(character, '╭' | '╮'));
                let (side, turn) = if is_left { (right, -9) } else { (x, 9) };
                let (end, rise) = if is_down { (bottom, 9) } else { (y, -9) };
                let sweep = u8::from(is_left != is_down);
                push(&mut self.drawn, format_args!("M{side} {centre}a9 9 0 0 {sweep} {turn} {rise}V{end}"));
            }
            '╱'..='╳' => {
                if character != '╲' {
                    push(&mut self.drawn, format_args!("M{x} {bottom}L{right} {y}"));
                }
                if character != '╱' {
                    push(&mut self.drawn, format_args!("M{x} {y}L{right} {bottom}"));
                }
            }
            // Powerline's separators.
            '\u{e0b0}'..='\u{e0b3}' => {
                let (back, tip) = if code < 0xe0b2 { (x, right) } else { (right, x) };
                push(&mut self.drawn, format_args!("M{back} {y}L{tip} {centre}L{back} {bottom}"));
            }
            _ => {
                let (pieces, parts, ink) = match code {
                    0x2500..0x2580 => (&mut self.lines, lines_of(code), ink),
                    // The shades are the whole of the cell, seen through.
                    0x2591..=0x2593 => {
                        (&mut self.blocks, block(0x2588), mixed(ink, paper, 25 * (code - 0x2590)))
                    }
                    0x2580..0x25a0 => (&mut self.blocks, block(code), ink),
                    _ => (&mut self.lines, dots(code), ink),
                };
                for part in parts {
                    pieces.push(Rect { x: x + part.x, y: y + part.y, ..part }.of(ink));
                }
                return;
            }
        }
        let is_solid = matches!(character, '\u{e0b0}' | '\u{e0b2}');
        let pieces = if is_solid { &mut self.solids } else { &mut self.strokes };
        pieces.push([number(ink), start, self.drawn.len(), 0, 0]);
    }
}

/// How what stands in a cell gets into the picture.
pub(super) enum GlyphKind {
    Blank,
    /// It is drawn.
    Shape,
    /// In every font whose characters have one width.
    Letter,
    Other,
}

impl GlyphKind {
    pub(super) fn of(line: &Line, col: usize) -> GlyphKind {
        let cell = line.cell(col);
        let is_bare = line.combining_at(col).is_empty();
        match cell.character() {
            ' ' if is_bare => GlyphKind::Blank,
            '\u{2500}'..='\u{259f}' | '\u{2800}'..='\u{28ff}' | '\u{e0b0}'..='\u{e0b3}' => GlyphKind::Shape,
            _ if !is_bare || cell.is_wide() => GlyphKind::Other,
            // Latin, Greek and Cyrillic; dashes and quotation marks.
            '!'..='~' | '\u{a1}'..='\u{24f}' | '\u{370}'..='\u{52f}' | '\u{2010}'..='\u{203a}' => {
                GlyphKind::Letter
            }
            _ => GlyphKind::Other,
        }
    }
}

/// The end of the run of letters that begins at `col`.
fn end_of_run(line: &Line, col: usize, end: usize) -> usize {
    let is_letter = |at: usize| at < end && matches!(GlyphKind::of(line, at), GlyphKind::Letter);
    let is_blank = |at: usize| at < end && matches!(GlyphKind::of(line, at), GlyphKind::Blank);
    let goes_on = |at: usize| {
        let is_between_words = at - col < RUN && is_blank(at) && is_letter(at + 1);
        at - col < LONGEST_RUN && (is_letter(at) || is_between_words)
    };
    (col..).find(|at| !goes_on(*at)).unwrap_or(end)
}

/// The parts of a box-drawing character: from the middle of the cell to those of its
/// sides to which there is a line. The two of a double one are to either side of the
/// middle, with a pixel between them.
pub(super) fn lines_of(code: usize) -> Vec<Rect> {
    let arm = |side: usize| ARMS[code - 0x2500] >> (2 * (side % 4)) & 3;
    let thickness = |kind: u8| if kind == 2 { 3 } else { 1 };
    let dashes = match code {
        0x2504..0x2508 => 3,
        0x2508..0x250c => 4,
        0x254c..0x2550 => 2,
        _ => 0,
    };
    if dashes > 0 {
        let (is_level, kind) = (arm(1) > 0, arm(0).max(arm(1)));
        let length = if is_level { COLS } else { ROWS };
        let dash = |number: usize| {
            let (start, long) = (length * number / dashes, (length / dashes * 2 / 3).max(1));
            match is_level {
                true => Rect::in_pixels(start, MIDDLE_ROW - thickness(kind) / 2, long, thickness(kind)),
                false => Rect::in_pixels(MIDDLE_COL - thickness(kind) / 2, start, thickness(kind), long),
            }
        };
        return (0..dashes).map(dash).collect();
    }
    let mut rects = Vec::new();
    for side in 0..4 {
        let goes_on = arm(side + 2) > 0;
        let [one, other] = if side % 2 == 0 { [arm(3), arm(1)] } else { [arm(0), arm(2)] };
        // How far it reaches beyond the side's half of the cell: 1 is the middle itself.
        let reach = match (one, other) {
            _ if goes_on => 1,
            (3, 3) => 0,
            (2 | 3, _) | (_, 2 | 3) => 2,
            _ => 1,
        };
        let reach_of_double = |near: u8, far: u8| match (near, far) {
            (3, _) => 0,
            (0, 3) if !goes_on => 2,
            _ => 1,
        };
        match arm(side) {
            0 => {}
            3 => {
                rects.push(line_to(side, reach_of_double(one, other), 0, 1));
                rects.push(line_to(side, reach_of_double(other, one), 2, 1));
            }
            kind => rects.push(line_to(side, reach, 1 - thickness(kind) / 2, thickness(kind))),
        }
    }
    rects
}

/// A line to that side; `aside` is 1 where it begins with the middle, counted across it.
fn line_to(side: usize, reach: usize, aside: usize, thickness: usize) -> Rect {
    let (col, row) = (MIDDLE_COL - 1 + aside, MIDDLE_ROW - 1 + aside);
    let (from_col, from_row) = (MIDDLE_COL + 1 - reach, MIDDLE_ROW + 1 - reach);
    match side {
        0 => Rect::in_pixels(col, 0, thickness, MIDDLE_ROW + reach),
        1 => Rect::in_pixels(from_col, row, COLS - from_col, thickness),
        2 => Rect::in_pixels(col, from_row, thickness, ROWS - from_row),
        _ => Rect::in_pixels(0, row, MIDDLE_COL + reach, thickness),
    }
}

/// The parts of a block, which are counted in eighths of the cell.
pub(super) fn block(code: usize) -> Vec<Rect> {
    let parts: &[(usize, usize, usize, usize)] = match code {
        0x2580 => &[(0, 0, 8, 4)],
        0x2581..=0x2588 => &[(0, 0x2588 - code, 8, code - 0x2580)],
        0x2589..=0x258f => &[(0, 0, 0x2590 - code, 8)],
        0x2590 => &[(4, 0, 4, 8)],
        0x2594 => &[(0, 0, 8, 1)],
        0x2595 => &[(7, 0, 1, 8)],
        0x2596 => &[(0, 4, 4, 4)],
        0x2597 => &[(4, 4, 4, 4)],
        0x2598 => &[(0, 0, 4, 4)],
        0x2599 => &[(0, 0, 4, 8), (4, 4, 4, 4)],
        0x259a => &[(0, 0, 4, 4), (4, 4, 4, 4)],
        0x259b => &[(0, 0, 8, 4), (0, 4, 4, 4)],
        0x259c => &[(0, 0, 8, 4), (4, 4, 4, 4)],
        0x259d => &[(4, 0, 4, 4)],
        0x259e => &[(4, 0, 4, 4), (0, 4, 4, 4)],
        _ => &[(4, 0, 4, 8), (0, 4, 4, 4)],
    };
    let part = |&(left, top, width, height): &(usize, usize, usize, usize)| {
        let (x, y) = (left * COLS / 8, top * ROWS / 8);
        Rect::in_pixels(x, y, (left + width) * COLS / 8 - x, (top + height) * ROWS / 8 - y)
    };
    parts.iter().map(part).collect()
}

/// The dots of a Braille pattern, which are numbered down the left column, then down the
/// right one, but for the lowest two.
pub(super) fn dots(code: usize) -> Vec<Rect> {
    const ROWS: [usize; 4] = [1, 6, 10, 15];
    const PLACES: [(usize, usize); 8] = [(1, 0), (1, 1), (1, 2), (6, 0), (6, 1), (6, 2), (1, 3), (6, 3)];
    let dots = PLACES.iter().enumerate().filter(|(bit, _)| code >> bit & 1 == 1);
    dots.map(|(_, &(col, row))| Rect::in_pixels(col, ROWS[row], 2, 2)).collect()
}

impl Rect {
    pub(super) fn in_pixels(x: usize, y: usize, width: usize, height: usize) -> Rect {
        Rect { x: x * PIXEL, y: y * PIXEL, width: width * PIXEL, height: height * PIXEL }
    }

    /// It as a piece of that colour.
    fn of(self, colour: Rgb) -> [usize; 5] {
        [number(colour), self.y, self.height, self.x, self.width]
    }
}

/// The same rectangles, where those that are of one height and touch are one; each with
/// `x`, `width`, `y` and `height` behind its colour: so it can be done again with those.
fn joined(rects: &Pieces) -> Pieces {
    let (mut all, mut last) = (Pieces::new(), None::<[usize; 5]>);
    let turned = |[colour, y, height, x, width]: [usize; 5]| [colour, x, width, y, height];
    for rect in sorted(rects) {
        match &mut last {
            Some([colour, y, height, x, width])
                if [*colour, *y, *height] == rect[..3] && rect[3] <= *x + *width =>
            {
                *width = (*width).max(rect[3] + rect[4] - *x);
            }
            _ => all.extend(last.replace(rect).map(turned)),
        }
    }
    all.extend(last.map(turned));
    all
}

/// Each once.
fn sorted(pieces: &Pieces) -> Pieces {
    let mut sorted = pieces.clone();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

/// All of one colour as one path.
fn push_rects(text: &mut String, rects: &Pieces) {
    let open = |text: &mut String, colour: usize| {
        push(text, format_args!("<path fill=\"#{colour:06x}\" d=\""));
    };
    let each = |text: &mut String, [_, y, height, x, width]: &[usize; 5]| {
        push(text, format_args!("M{x} {y}h{width}v{height}h-{width}z"));
    };
    push_groups(text, &joined(&joined(rects)), &open, &each, "\"/>\n");
}

fn push_groups(
    text: &mut String,
    pieces: &Pieces,
    open: &dyn Fn(&mut String, usize),
    each: &dyn Fn(&mut String, &[usize; 5]),
    close: &str,
) {
    let mut last = None;
    for piece in &sorted(pieces) {
        if last != Some(piece[0]) {
            *text += if last.is_some() { close } else { "" };
            open(text, piece[0]);
            last = Some(piece[0]);
        }
        each(text, piece);
    }
    *text += if last.is_some() { close } else { "" };
}

/// The colour of text, and of its background; the cursor is a block of another.
pub(super) fn colours(pen: Pen, is_cursor: bool) -> (Rgb, Rgb) {
    // Bold text in one of the first eight colours is bright, as in most terminals.
    let foreground = match pen.foreground.index() {
        Some(index @ 0..8) if pen.has(Pen::BOLD) => Colour::indexed(index + 8),
        _ => pen.foreground,
    };
    let (ink, paper) = (rgb(foreground).unwrap_or(FOREGROUND), rgb(pen.background).unwrap_or(BACKGROUND));
    let (ink, paper) = match if pen.has(Pen::INVERSE) { (paper, ink) } else { (ink, paper) } {
        (_, FOREGROUND) if is_cursor => (FOREGROUND, BACKGROUND),
        _ if is_cursor => (BACKGROUND, FOREGROUND),
        usual => usual,
    };
    (if pen.has(Pen::DIM) { mixed(ink, paper, 60) } else { ink }, paper)
}

/// The colour of the underline.
pub(super) fn underline_ink(pen: Pen, ink: Rgb) -> Rgb {
    rgb(pen.underline_colour).unwrap_or(ink)
}

/// So many hundredths of the one, and the rest of the other.
pub(super) fn mixed(one: Rgb, other: Rgb, hundredths: usize) -> Rgb {
    let part = |at: usize| {
        let sum = usize::from(one[at]) * hundredths + usize::from(other[at]) * (100 - hundredths);
        u8::try_from(sum / 100).unwrap_or(u8::MAX)
    };
    [part(0), part(1), part(2)]
}

/// One of the 256 colours, in red, green and blue.
pub(crate) fn colour(index: u8) -> Rgb {
    rgb(Colour::indexed(index)).unwrap_or(FOREGROUND)
}

/// Those behind the first sixteen are xterm's: a cube of 6, and 24 greys.
fn rgb(colour: Colour) -> Option<Rgb> {
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    match colour.index() {
        Some(index @ 0..16) => COLOURS[usize::from(index)].to_be_bytes().last_chunk().copied(),
        Some(index @ 16..232) => {
            let index = index - 16;
            Some([level(index / 36), level(index / 6 % 6), level(index % 6)])
        }
        Some(index) => Some([8 + 10 * (index - 232); 3]),
        None => colour.parts(),
    }
}

fn hex(colour: Rgb) -> String {
    format!("#{:06x}", number(colour))
}

fn number([red, green, blue]: Rgb) -> usize {
    usize::from(red) << 16 | usize::from(green) << 8 | usize::from(blue)
}

fn push_escaped(text: &mut String, part: &str) {
    for character in part.chars() {
        match character {
            '&' => *text += "&amp;",
            '<' => *text += "&lt;",
            '>' => *text += "&gt;",
            // XML has no such characters (XML 1.0, 2.2).
            '\u{fffe}' | '\u{ffff}' => text.push(char::REPLACEMENT_CHARACTER),
            other => text.push(other),
        }
    }
}

/// As much of a text as there is room for, in cells.
fn cut(text: &str, room: usize) -> String {
    let mut left = room;
    let fits = |character: &char| {
        let width = width::of(*character);
        let fits = width <= left;
        left -= width.min(left);
        fits
    };
    let fitting: String = text.chars().take_while(fits).collect();
    match fitting.len() == text.len() {
        true => fitting,
        false => fitting.chars().take(fitting.chars().count().saturating_sub(1)).chain(['…']).collect(),
    }
}

/// The lines of U+2500..U+257F from the middle: up, right, down and left, two bits
/// each from the low ones on: none, light, heavy, double. From the characters' names.
#[rustfmt::skip]
const ARMS: [u8; 128] = [
    0x44, 0x88, 0x11, 0x22, 0x44, 0x88, 0x11, 0x22, 0x44, 0x88, 0x11, 0x22, 0x14, 0x18, 0x24, 0x28,
    0x50, 0x90, 0x60, 0xa0, 0x05, 0x09, 0x06, 0x0a, 0x41, 0x81, 0x42, 0x82, 0x15, 0x19, 0x16, 0x25,
    0x26, 0x1a, 0x29, 0x2a, 0x51, 0x91, 0x52, 0x61, 0x62, 0x92, 0xa1, 0xa2, 0x54, 0x94, 0x58, 0x98,
    0x64, 0xa4, 0x68, 0xa8, 0x45, 0x85, 0x49, 0x89, 0x46, 0x86, 0x4a, 0x8a, 0x55, 0x95, 0x59, 0x99,
    0x56, 0x65, 0x66, 0x96, 0x5a, 0xa5, 0x69, 0x9a, 0xa9, 0xa6, 0x6a, 0xaa, 0x44, 0x88, 0x11, 0x22,
    0xcc, 0x33, 0x1c, 0x34, 0x3c, 0xd0, 0x70, 0xf0, 0x0d, 0x07, 0x0f, 0xc1, 0x43, 0xc3, 0x1d, 0x37,
    0x3f, 0xd1, 0x73, 0xf3, 0xdc, 0x74, 0xfc, 0xcd, 0x47, 0xcf, 0xdd, 0x77, 0xff, 0x14, 0x50, 0x41,
    0x05, 0x00, 0x00, 0x00, 0x40, 0x01, 0x04, 0x10, 0x80, 0x02, 0x08, 0x20, 0x48, 0x21, 0x84, 0x12,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::rounds;

    /// The pixels of a cell that are drawn, row by row.
    fn pixels(rects: &[Rect]) -> Vec<[bool; COLS]> {
        let mut rows = vec![[false; COLS]; ROWS];
        for rect in rects {
            assert!([rect.x, rect.y, rect.width, rect.height].iter().all(|number| number % PIXEL == 0));
            for row in &mut rows[rect.y / PIXEL..(rect.y + rect.height) / PIXEL] {
                row[rect.x / PIXEL..(rect.x + rect.width) / PIXEL].fill(true);
            }
        }
        rows
    }

    #[test]
    fn the_lines_of_a_box_meet_those_of_the_next_cell_and_each_other() {
        for code in 0x2500..0x2580 {
            let rows = pixels(&lines_of(code));
            let what = char::from_u32(code as u32).unwrap();
            let is_drawn_otherwise = matches!(what, '╭'..='╳');
            let is_dashed = matches!(code, 0x2504..0x250c | 0x254c..0x2550);
            if is_drawn_otherwise || is_dashed {
                continue;
            }
            // The edge of a neighbour that has such an arm.
            let edges: [Vec<bool>; 4] = [
                rows[0].to_vec(),
                rows.iter().map(|row| row[COLS - 1]).collect(),
                rows[ROWS - 1].to_vec(),
                rows.iter().map(|row| row[0]).collect(),
            ];
            for (side, edge) in edges.iter().enumerate() {
                let middle = edge.len() / 2;
                let around: Vec<usize> = match ARMS[code - 0x2500] >> (2 * side) & 3 {
                    0 => vec![],
                    1 => vec![middle],
                    2 => vec![middle - 1, middle, middle + 1],
                    _ => vec![middle - 1, middle + 1],
                };
                let drawn: Vec<usize> = (0..edge.len()).filter(|at| edge[*at]).collect();
                assert_eq!(drawn, around, "{what} {side}");
            }
            // All of it hangs together, but for two lines beside each other.
            let mut left = rows.clone();
            let mut parts = 0;
            while let Some((y, x)) =
                (0..ROWS).flat_map(|y| (0..COLS).map(move |x| (y, x))).find(|&(y, x)| left[y][x])
            {
                parts += 1;
                let mut next = vec![(y, x)];
                while let Some((y, x)) = next.pop() {
                    if y < ROWS && x < COLS && std::mem::take(&mut left[y][x]) {
                        next.extend([(y + 1, x), (y.wrapping_sub(1), x), (y, x + 1), (y, x.wrapping_sub(1))]);
                    }
                }
            }
            let expected = match what {
                '═' | '║' | '╔' | '╗' | '╚' | '╝' | '╟' | '╢' | '╤' | '╧' => 2,
                '╠' | '╣' | '╦' | '╩' => 3,
                '╬' => 4,
                _ => 1,
            };
            assert_eq!(parts, expected, "{what}");
        }
    }

    #[test]
    fn blocks_that_make_up_a_cell_do_so_without_a_seam() {
        let of = |character: char| pixels(&block(character as usize));
        for (one, other) in
            [('▀', '▄'), ('▌', '▐'), ('▞', '▚'), ('▘', '▟'), ('▝', '▙'), ('▖', '▜'), ('▗', '▛')]
        {
            let (one, other) = (of(one), of(other));
            for (row, (one, other)) in one.iter().zip(&other).enumerate() {
                assert!(one.iter().zip(other).all(|(one, other)| one != other), "{row}: {one:?} {other:?}");
            }
        }
        assert!(of('█').iter().flatten().all(|pixel| *pixel));
        let counts = dots(0x28ff).len();
        assert_eq!((counts, dots(0x2800).len(), dots(0x2881).len()), (8, 0, 2));
    }

    #[test]
    fn an_outline_covers_what_its_parts_do() {
        for (seed, mut random) in rounds(300) {
            let mut rects = Vec::new();
            for _ in 0..random.usize(..20) {
                let (x, y) = (random.usize(..COLS), random.usize(..ROWS));
                let (width, height) = (random.usize(1..=COLS - x), random.usize(1..=ROWS - y));
                rects.push(Rect::in_pixels(x, y, width, height));
            }
            let expected = pixels(&rects);
            let mut path = String::new();
            push_rects(&mut path, &rects.into_iter().map(|rect| rect.of(FOREGROUND)).collect());
            let path = path.rsplit_once("d=\"").map_or("", |(_, path)| path);
            let drawn: Vec<Rect> = path
                .split('M')
                .skip(1)
                .map(|part| {
                    let numbers: Vec<usize> = part
                        .split(|character: char| !character.is_ascii_digit())
                        .filter_map(|digits| digits.parse().ok())
                        .collect();
                    let [x, y, width, height, back] = numbers[..] else { panic!("{part}") };
                    assert_eq!(width, back);
                    Rect { x, y, width, height }
                })
                .collect();
            assert_eq!(pixels(&drawn), expected, "seed {seed}: {path}");
        }
        // A border is few of them.
        let cells = (0..10).map(|number| Rect { x: number * WIDTH, y: 0, width: WIDTH, height: PIXEL });
        let mut path = String::new();
        push_rects(&mut path, &cells.map(|rect| rect.of([0, 0, 1])).collect());
        assert_eq!(path, "<path fill=\"#000001\" d=\"M0 0h180v2h-180z\"/>\n");
    }

    #[test]
    fn runs_are_short_and_have_no_blanks_that_could_be_joined() {
        let text = "one two  three four five six seven eight\r\n".to_owned() + &"x".repeat(70) + "é漢a";
        let picture = Screen::showing(100, 3, text.as_bytes()).svg(0);
        let runs: Vec<&str> =
            picture.split("</text>").filter_map(|part| part.rsplit_once('>')).map(|(_, run)| run).collect();
        let runs: Vec<&str> = runs.into_iter().filter(|run| !run.trim().is_empty()).collect();
        let x = "x".repeat(LONGEST_RUN);
        assert_eq!(
            runs,
            ["one two", "three four five six", "seven eight", &x, &x, "xxxxxxé", "a", "漢"],
            "{picture}"
        );
    }

    #[test]
    fn the_cursor_is_a_block_with_the_character_in_it() {
        let mut screen = Screen::showing(10, 2, "ab漢\x1b[1;2H".as_bytes());
        let picture = screen.svg(0);
        let block = "<path fill=\"#d0d0d0\" d=\"M18 0h18v38h-18z\"/>";
        let character = "<g fill=\"#101010\">\n<text x=\"18\" y=\"28\">b</text>\n</g>";
        assert!(picture.contains(block) && picture.contains(character), "{picture}");
        // A wide one is covered from either half.
        for at in ["3", "4"] {
            screen.feed(format!("\x1b[1;{at}H").as_bytes());
            assert!(screen.svg(0).contains("M36 0h36v38h-36z"), "{}", screen.svg(0));
        }
        screen.feed(b"\x1b[2;10H");
        assert!(screen.svg(0).contains("M162 38h18v38h-18z"), "{}", screen.svg(0));
        screen.feed(b"\x1b[?25l");
        assert!(!screen.svg(0).contains("#101010\">\n"), "{}", screen.svg(0));
    }

    #[test]
    fn a_title_has_the_room_that_there_is() {
        for (title, room, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("漢字", 3, "…"),
            ("漢字x", 4, "漢…"),
            ("a", 0, "…"),
            ("", 0, ""),
        ] {
            assert_eq!(cut(title, room), expected, "{title}");
        }
    }
}
