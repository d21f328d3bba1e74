//! A screen as a picture (SVG 1.1).
//!
//! Each character is put where its cell is, whatever the width of the font's
//! characters that the viewer has; lines and blocks (U+2500..U+259F) are drawn, not
//! written, so that they join. No font, no script and no file from elsewhere is needed.

use std::fmt::Write;

use super::{
    Screen,
    grid::{Colour, Line, Pen},
};

/// The picture's unit is an eighth of a pixel, so that all its numbers are whole ones:
/// to print floating-point numbers would make the program 28 KB longer.
const PIXEL: usize = 8;
/// Of a cell.
const WIDTH: usize = 8 * PIXEL;
const HEIGHT: usize = 17 * PIXEL;
/// From the top of a cell to where letters stand.
const BASE: usize = 13 * PIXEL;
const FONT_SIZE: usize = 14 * PIXEL;
/// The breadth of a thin line; a heavy one has three of it.
const THIN: usize = PIXEL;
/// From the middle of a double line to that of each of its two.
const APART: usize = 3 * PIXEL / 2;

pub(crate) const FOREGROUND: [u8; 3] = [0xd0, 0xd0, 0xd0];
pub(crate) const BACKGROUND: [u8; 3] = [0x10, 0x10, 0x10];

/// The first sixteen colours as xterm has them.
const COLOURS: [[u8; 3]; 16] = [
    [0, 0, 0],
    [205, 0, 0],
    [0, 205, 0],
    [205, 205, 0],
    [0, 0, 238],
    [205, 0, 205],
    [0, 205, 205],
    [229, 229, 229],
    [127, 127, 127],
    [255, 0, 0],
    [0, 255, 0],
    [255, 255, 0],
    [92, 92, 255],
    [255, 0, 255],
    [0, 255, 255],
    [255, 255, 255],
];

impl Screen {
    /// Up to `scrollback` lines that have scrolled off come before the screen.
    pub(crate) fn svg(&self, scrollback: usize) -> String {
        let lines: Vec<&Line> = self.shown(scrollback).collect();
        let (width, height) = (self.cols() * WIDTH, lines.len() * HEIGHT);
        let mut picture = Picture(String::new());
        picture.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, \
             Consolas, 'Liberation Mono', monospace\" font-size=\"{FONT_SIZE}\">\n\
             <style>text {{ white-space: pre; }}</style>\n",
            width / PIXEL,
            height / PIXEL
        ));
        picture.rectangle(0, 0, width, height, BACKGROUND);
        for (row, line) in lines.iter().enumerate() {
            self.draw(line, row, &mut picture);
        }
        if self.cursor_visible {
            let (row, col) = (lines.len() - self.height() + self.cursor.row, self.cursor().1 - 1);
            picture.add(format_args!(
                "<rect x=\"{}\" y=\"{}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"{}\" \
                 fill-opacity=\"0.5\"/>\n",
                col * WIDTH,
                row * HEIGHT,
                hex(FOREGROUND)
            ));
        }
        picture.0 + "</svg>\n"
    }

    /// Stretches of one pen: first what is behind the text, then the text.
    fn draw(&self, line: &Line, row: usize, picture: &mut Picture) {
        let length = self.visible_length(line);
        let mut col = 0;
        while col < length {
            let pen = line.cell(col).pen;
            let goes_on = |at: &usize| line.cell(*at).is_right_half() || line.cell(*at).pen == pen;
            let end = (col + 1..length).find(|at| !goes_on(at)).unwrap_or(length);
            let (ink, paper) = colours(pen);
            if paper != BACKGROUND {
                picture.rectangle(col * WIDTH, row * HEIGHT, (end - col) * WIDTH, HEIGHT, paper);
            }
            if !pen.has(Pen::HIDDEN) {
                let mut at = col;
                while at < end {
                    at = picture.characters(line, at, end, row, ink, pen);
                }
            }
            col = end;
        }
    }
}

struct Picture(String);

impl Picture {
    fn add(&mut self, part: std::fmt::Arguments) {
        self.0.write_fmt(part).expect("a String takes all");
    }

    fn rectangle(&mut self, x: usize, y: usize, width: usize, height: usize, colour: [u8; 3]) {
        let colour = hex(colour);
        self.add(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>\n"
        ));
    }

    /// Draws what stands at `col`, and all that is like it; tells where that ends.
    fn characters(
        &mut self,
        line: &Line,
        col: usize,
        end: usize,
        row: usize,
        ink: [u8; 3],
        pen: Pen,
    ) -> usize {
        let cell = line.cell(col);
        let character = cell.character();
        let (x, y) = (col * WIDTH, row * HEIGHT);
        match character {
            '\u{2500}'..='\u{257f}' => self.lines_of(character, x, y, ink),
            '\u{2580}'..='\u{259f}' => self.block(character, x, y, ink),
            _ => {
                let is_plain = |at: usize| {
                    let cell = line.cell(at);
                    cell.character().is_ascii() && !cell.is_right_half() && line.marks_at(at).is_empty()
                };
                let after = match is_plain(col) {
                    true => (col..end).find(|at| !is_plain(*at)).unwrap_or(end),
                    false if cell.is_wide() => (col + 2).min(end),
                    false => col + 1,
                };
                let mut text = String::new();
                (col..after).for_each(|at| line.push_text(at, &mut text));
                let lines = pen.has(Pen::STRUCK | Pen::UNDERLINE | Pen::OVERLINE);
                if lines || !text.trim_end_matches(' ').is_empty() {
                    self.text(&text, x, y + BASE, (after - col) * WIDTH, ink, pen);
                }
                return after;
            }
        }
        col + 1
    }

    fn text(&mut self, text: &str, x: usize, y: usize, width: usize, ink: [u8; 3], pen: Pen) {
        let ink = hex(ink);
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{ink}\""
        ));
        if pen.has(Pen::BOLD) {
            self.0 += " font-weight=\"bold\"";
        }
        if pen.has(Pen::ITALIC) {
            self.0 += " font-style=\"italic\"";
        }
        if pen.has(Pen::DIM) {
            self.0 += " opacity=\"0.6\"";
        }
        let drawn =
            [(Pen::UNDERLINE, " underline"), (Pen::STRUCK, " line-through"), (Pen::OVERLINE, " overline")];
        let drawn: String =
            drawn.iter().filter(|(style, _)| pen.has(*style)).map(|(_, name)| *name).collect();
        if !drawn.is_empty() {
            let kind =
                ["solid", "solid", "double", "wavy", "dotted", "dashed"][pen.underline().min(5) as usize];
            self.add(format_args!(" style=\"text-decoration:{} {kind}\"", drawn.trim_start()));
        }
        self.0.push('>');
        for character in text.chars() {
            match character {
                '&' => self.0 += "&amp;",
                '<' => self.0 += "&lt;",
                '>' => self.0 += "&gt;",
                // XML has no such characters (XML 1.0, 2.2).
                '\u{fffe}' | '\u{ffff}' => self.0.push(char::REPLACEMENT_CHARACTER),
                other => self.0.push(other),
            }
        }
        self.0 += "</text>\n";
    }

    /// From the middle of the cell to those of its sides to which there is a line.
    fn lines_of(&mut self, character: char, x: usize, y: usize, ink: [u8; 3]) {
        let arms = ARMS[(u32::from(character) - 0x2500) as usize];
        let (left, right, top, bottom) = (x, x + WIDTH, y, y + HEIGHT);
        let (middle, centre) = (x + WIDTH / 2, y + HEIGHT / 2);
        let mut path = String::new();
        let mut heavy = String::new();
        match character {
            '╱' | '╲' | '╳' => {
                if character != '╲' {
                    path += &format!("M{left} {bottom}L{right} {top}");
                }
                if character != '╱' {
                    path += &format!("M{left} {top}L{right} {bottom}");
                }
            }
            '╭'..='╰' => {
                let side = if matches!(character, '╭' | '╰') { right } else { left };
                let end = if matches!(character, '╭' | '╮') { bottom } else { top };
                path += &format!("M{side} {centre}Q{middle} {centre} {middle} {end}");
            }
            _ => {
                for (index, end) in [top, right, bottom, left].into_iter().enumerate() {
                    let is_level = index % 2 == 1;
                    let from = if is_level { middle } else { centre };
                    let stroke = |path: &mut String, aside: usize, beyond: usize| {
                        // A little beyond the middle, so that corners are closed.
                        let from = if end < from { from + beyond } else { from - beyond };
                        *path += &match is_level {
                            true => format!("M{from} {aside}H{end}"),
                            false => format!("M{aside} {from}V{end}"),
                        };
                    };
                    let middle = if is_level { centre } else { middle };
                    match arms >> (2 * index) & 3 {
                        1 => stroke(&mut path, middle, THIN / 2),
                        2 => stroke(&mut heavy, middle, THIN / 2),
                        3 => [middle - APART, middle + APART]
                            .into_iter()
                            .for_each(|aside| stroke(&mut path, aside, APART)),
                        _ => {}
                    }
                }
            }
        }
        let dashes = match character {
            '┄'..='┇' => " stroke-dasharray=\"16 8\"",
            '┈'..='┋' => " stroke-dasharray=\"8 8\"",
            '╌'..='╏' => " stroke-dasharray=\"24 16\"",
            _ => "",
        };
        let ink = hex(ink);
        for (path, width) in [(path, THIN), (heavy, 3 * THIN)] {
            if !path.is_empty() {
                self.add(format_args!(
                    "<path d=\"{path}\" stroke=\"{ink}\" stroke-width=\"{width}\" fill=\"none\"{dashes}/>\n"
                ));
            }
        }
    }

    /// Parts of the cell in eighths; the shades are the whole of it, seen through.
    fn block(&mut self, character: char, x: usize, y: usize, ink: [u8; 3]) {
        let code = u32::from(character) as usize;
        let parts: &[(usize, usize, usize, usize)] = match code {
            0x2580 => &[(0, 0, 8, 4)],
            0x2581..=0x2588 => &[(0, 0x2588 - code, 8, code - 0x2580)],
            0x2589..=0x258f => &[(0, 0, 0x2590 - code, 8)],
            0x2590 => &[(4, 0, 4, 8)],
            0x2591..=0x2593 => &[(0, 0, 8, 8)],
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
        let seen = match code {
            0x2591..=0x2593 => format!(" fill-opacity=\"0.{}\"", 25 * (code - 0x2590)),
            _ => String::new(),
        };
        let ink = hex(ink);
        for &(left, top, width, height) in parts {
            self.add(format_args!(
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{ink}\"{seen}/>\n",
                x + left * WIDTH / 8,
                y + top * HEIGHT / 8,
                width * WIDTH / 8,
                height * HEIGHT / 8
            ));
        }
    }
}

/// What text is drawn with, and what is behind it.
fn colours(pen: Pen) -> ([u8; 3], [u8; 3]) {
    // Bold text in one of the first eight colours is bright, as in most terminals.
    let foreground = match pen.foreground.index() {
        Some(index @ 0..8) if pen.has(Pen::BOLD) => Colour::indexed(index + 8),
        _ => pen.foreground,
    };
    let (ink, paper) = (rgb(foreground).unwrap_or(FOREGROUND), rgb(pen.background).unwrap_or(BACKGROUND));
    if pen.has(Pen::INVERSE) { (paper, ink) } else { (ink, paper) }
}

/// The 256 colours are xterm's: a cube of 6, and 24 greys.
/// What one of 256 colours is, in red, green and blue.
pub(crate) fn colour(index: u8) -> [u8; 3] {
    rgb(Colour::indexed(index)).unwrap_or(FOREGROUND)
}

fn rgb(colour: Colour) -> Option<[u8; 3]> {
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    match colour.index() {
        Some(index @ 0..16) => Some(COLOURS[usize::from(index)]),
        Some(index @ 16..232) => {
            let index = index - 16;
            Some([level(index / 36), level(index / 6 % 6), level(index % 6)])
        }
        Some(index) => Some([8 + 10 * (index - 232); 3]),
        None => colour.parts(),
    }
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
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
