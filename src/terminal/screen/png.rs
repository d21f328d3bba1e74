//! A screen as a picture of pixels (PNG), for who sees no SVG, as models do: its rows, and a margin.
//!
//! The glyphs are those of `font.hex`; what joins, lines and blocks, is drawn as in the other picture. What
//! is in no font of ours is a box. A picture has at most 256 colours: of more, the nearest is taken.

use super::{
    Screen,
    svg::{
        self, BACKGROUND, COLS, GlyphKind, MIDDLE_COL, MIDDLE_ROW, PIXEL, ROWS, Rect, Rgb, colours, mixed,
        underline_ink,
    },
};
use crate::{
    packed,
    terminal::screen::line::{Line, Pen},
};

/// Around the rows, in pixels.
const MARGIN: usize = 8;

/// How many rows of pixels a glyph has.
const GLYPH_ROWS: usize = 18;

const FONT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/font.packed"));
const FONT_LENGTH: usize = include!(concat!(env!("OUT_DIR"), "/font.length"));

impl Screen {
    /// Up to `scrollback` lines that have scrolled off come before the screen.
    pub(crate) fn png(&self, scrollback: usize) -> Vec<u8> {
        let lines = self.shown(scrollback);
        let mut canvas = Canvas::new(self.cols() * COLS + 2 * MARGIN, lines.len() * ROWS + 2 * MARGIN);
        let font = Font::unpacked();
        let cursor_row = lines.len() - self.height() + self.cursor.row;
        for (row, line) in lines.iter().enumerate() {
            let cursor = (self.has_visible_cursor() && row == cursor_row).then(|| self.cursor_cells(line));
            let length = self.visible_length(line).max(cursor.as_ref().map_or(0, |cursor| cursor.end));
            for col in (0..length).filter(|col| !line.cell(*col).is_right_half()) {
                let is_cursor = cursor.as_ref().is_some_and(|cursor| cursor.contains(&col));
                canvas.draw(&font, line, col, row, is_cursor);
            }
        }
        canvas.encoded()
    }
}

/// The glyphs, as `build.rs` makes a text of them.
struct Font {
    /// The first and the last character of each range.
    ranges: Vec<char>,
    /// The rows of all glyphs, in order.
    rows: Vec<char>,
}

impl Font {
    fn unpacked() -> Font {
        let text = packed::unpack(FONT, FONT_LENGTH);
        let (ranges, rows) = text.split_once('\n').unwrap_or_default();
        Font { ranges: ranges.chars().collect(), rows: rows.chars().collect() }
    }

    /// Row by row.
    fn glyph(&self, character: char) -> Option<[u16; GLYPH_ROWS]> {
        let mut before = 0;
        for range in self.ranges.chunks_exact(2) {
            let (first, last) = (range[0] as usize, range[1] as usize);
            if (first..=last).contains(&(character as usize)) {
                let number = before + character as usize - first;
                let rows = self.rows.get(number * GLYPH_ROWS..)?.first_chunk()?;
                return Some(rows.map(|row| (row as u16) << 1 & 0x1ff | row as u16 >> 8));
            }
            before += last + 1 - first;
        }
        None
    }
}

/// Pixels, each the number of its colour.
struct Canvas {
    width: usize,
    pixels: Vec<u8>,
    palette: Vec<Rgb>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Canvas {
        Canvas { width, pixels: vec![0; width * height], palette: vec![BACKGROUND] }
    }

    /// That of a colour.
    fn number(&mut self, colour: Rgb) -> u8 {
        let far = |other: &Rgb| -> u32 {
            (0..3).map(|part| u32::from(colour[part].abs_diff(other[part])).pow(2)).sum()
        };
        let numbered = self.palette.iter().zip(0..=u8::MAX);
        let nearest = numbered.map(|(other, number)| (far(other), number)).min();
        match (nearest, u8::try_from(self.palette.len())) {
            (Some((1.., _)) | None, Ok(number)) => {
                self.palette.push(colour);
                number
            }
            (nearest, _) => nearest.map_or(0, |(_, number)| number),
        }
    }

    fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Rgb) {
        let number = self.number(colour);
        for row in y..y + height {
            self.pixels[row * self.width..][x..x + width].fill(number);
        }
    }

    fn draw(&mut self, font: &Font, line: &Line, col: usize, row: usize, is_cursor: bool) {
        let cell = line.cell(col);
        let pen = cell.pen;
        let (ink, paper) = colours(pen, is_cursor);
        let (x, y) = (MARGIN + col * COLS, MARGIN + row * ROWS);
        // One that is wide in the last column is cut off.
        let width = (COLS * (1 + usize::from(cell.is_wide()))).min(self.width - MARGIN - x);
        if paper != BACKGROUND {
            self.fill(x, y, width, ROWS, paper);
        }
        if pen.has(Pen::HIDDEN) {
            return;
        }
        self.decorate(x, y, width, ink, pen);
        match GlyphKind::of(line, col) {
            GlyphKind::Blank => {}
            GlyphKind::Shape => self.shape(cell.character(), x, y, ink, paper),
            GlyphKind::Letter | GlyphKind::Other => match font.glyph(cell.character()) {
                Some(rows) if !cell.is_wide() => self.write(&rows, x, y, ink, pen.has(Pen::BOLD)),
                _ => {
                    for (left, top, width, height) in
                        [(1, 3, width - 2, 1), (1, 14, width - 2, 1), (1, 3, 1, 12), (width - 2, 3, 1, 12)]
                    {
                        self.fill(x + left, y + top, width, height, ink);
                    }
                }
            },
        }
    }

    fn write(&mut self, rows: &[u16; GLYPH_ROWS], x: usize, y: usize, ink: Rgb, bold: bool) {
        let number = self.number(ink);
        for (row, bits) in rows.iter().enumerate() {
            let bits = if bold { bits | bits >> 1 } else { *bits };
            let pixels = &mut self.pixels[(y + row) * self.width + x..][..COLS];
            let drawn = pixels.iter_mut().enumerate().filter(|(at, _)| bits >> (COLS - 1 - at) & 1 == 1);
            drawn.for_each(|(_, pixel)| *pixel = number);
        }
    }

    /// The lines under, through and above text.
    fn decorate(&mut self, x: usize, y: usize, width: usize, ink: Rgb, pen: Pen) {
        let (tops, on, off): (&[usize], _, _) = match pen.underline() {
            0 => (&[], 1, 0),
            2 => (&[15, 17], 1, 0),
            4 => (&[16], 1, 2),
            5 => (&[16], 5, 4),
            // One that is curly, too: in so few pixels it is a line.
            _ => (&[16], 1, 0),
        };
        for top in tops {
            for at in (0..width).filter(|at| at % (on + off) < on) {
                self.fill(x + at, y + top, 1, 1, underline_ink(pen, ink));
            }
        }
        for (is_there, top) in [(pen.has(Pen::STRUCK), 9), (pen.has(Pen::OVERLINE), 1)] {
            if is_there {
                self.fill(x, y + top, width, 1, ink);
            }
        }
    }

    fn shape(&mut self, character: char, x: usize, y: usize, ink: Rgb, paper: Rgb) {
        let code = u32::from(character) as usize;
        match character {
            // A row of pixels for each row of the cell, as far to the right as the slant is there.
            '╱'..='╳' => {
                for row in 0..ROWS {
                    let at = row * COLS / ROWS;
                    if character != '╱' {
                        self.fill(x + at, y + row, 1, 1, ink);
                    }
                    if character != '╲' {
                        self.fill(x + COLS - 1 - at, y + row, 1, 1, ink);
                    }
                }
            }
            // Powerline's separators.
            '\u{e0b0}'..='\u{e0b3}' => {
                for row in 0..ROWS {
                    let long = (row.min(ROWS - 1 - row) * COLS / MIDDLE_ROW).clamp(1, COLS);
                    let is_solid = matches!(character, '\u{e0b0}' | '\u{e0b2}');
                    let (from, width) = if is_solid { (0, long) } else { (long - 1, 1) };
                    let left = if code < 0xe0b2 { from } else { COLS - from - width };
                    self.fill(x + left, y + row, width, 1, ink);
                }
            }
            _ => {
                let (parts, ink) = match code {
                    // Round corners, of which only a pixel is missing.
                    0x256d..=0x2570 => (corner(code), ink),
                    0x2591..=0x2593 => (svg::block(0x2588), mixed(ink, paper, 25 * (code - 0x2590))),
                    0x2500..0x2580 => (svg::lines_of(code), ink),
                    0x2580..0x25a0 => (svg::block(code), ink),
                    _ => (svg::dots(code), ink),
                };
                for Rect { x: left, y: top, width, height } in parts {
                    self.fill(x + left / PIXEL, y + top / PIXEL, width / PIXEL, height / PIXEL, ink);
                }
            }
        }
    }

    fn encoded(&self) -> Vec<u8> {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes();
        let height = self.pixels.len() / self.width;
        let mut header = [number(self.width), number(height)].concat();
        // Eight bits a pixel, each a number of the palette's.
        header.extend([8, 3, 0, 0, 0]);
        // Each row begins with how it is filtered: not at all.
        let rows: Vec<u8> =
            self.pixels.chunks(self.width).flat_map(|row| std::iter::once(&0).chain(row)).copied().collect();
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        let chunks = [
            (b"IHDR", header),
            (b"PLTE", self.palette.concat()),
            (b"IDAT", zlib(&rows, self.width + 1)),
            (b"IEND", Vec::new()),
        ];
        for (name, content) in chunks {
            file.extend(number(content.len()));
            let checked = [&name[..], &content].concat();
            file.extend(&checked);
            file.extend(crc32(&checked).to_be_bytes());
        }
        file
    }
}

/// A corner from the middle of the cell to two of its sides, as `╭╮╯╰` have it.
fn corner(code: usize) -> Vec<Rect> {
    let (is_left, is_up) = (matches!(code, 0x256e | 0x256f), matches!(code, 0x256f | 0x2570));
    let side = match is_left {
        true => Rect::in_pixels(0, MIDDLE_ROW, MIDDLE_COL, 1),
        false => Rect::in_pixels(MIDDLE_COL + 1, MIDDLE_ROW, COLS - MIDDLE_COL - 1, 1),
    };
    let end = match is_up {
        true => Rect::in_pixels(MIDDLE_COL, 0, 1, MIDDLE_ROW),
        false => Rect::in_pixels(MIDDLE_COL, MIDDLE_ROW + 1, 1, ROWS - MIDDLE_ROW - 1),
    };
    vec![side, end]
}

/// The checksum of a chunk: CRC-32 as IEEE 802.3 defines it. A picture has too few bytes for a table.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Bytes as a stream of zlib (RFC 1950) that is compressed (RFC 1951), by the codes that are fixed. What
/// repeats is looked for where the same four bytes stood last, and a row before.
fn zlib(bytes: &[u8], row: usize) -> Vec<u8> {
    const WINDOW: usize = 1 << 15;
    const LONGEST: usize = 258;
    const LEAST: usize = 4;
    let mut bits = Bits { bytes: vec![0x78, 0x01], free: 0 };
    // The last block, of fixed codes.
    bits.push(0b011, 3);
    // By the four bytes, as far as their numbers differ.
    let mut last = vec![usize::MAX; WINDOW];
    let mut at = 0;
    while at < bytes.len() {
        let ahead = &bytes[at..];
        let same = |from: usize| {
            ahead.iter().zip(&bytes[from..]).take(LONGEST).take_while(|(one, other)| one == other).count()
        };
        let seen = ahead.first_chunk::<LEAST>().map_or(usize::MAX, |begin| {
            let place = u32::from_le_bytes(*begin).wrapping_mul(0x9e37_79b1) >> 17;
            std::mem::replace(&mut last[place as usize], at)
        });
        let is_near = |from: &usize| at.checked_sub(*from).is_some_and(|far| far <= WINDOW);
        let before = [at.wrapping_sub(row), seen].into_iter().filter(is_near);
        let found = before.map(|from| (same(from), from)).filter(|(length, _)| *length >= LEAST).max();
        match found {
            Some((length, from)) => {
                bits.push_match(length, at - from);
                at += length;
            }
            None => {
                bits.push_symbol(usize::from(bytes[at]));
                at += 1;
            }
        }
    }
    bits.push_symbol(256);
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    bits.bytes.extend((high << 16 | low).to_be_bytes());
    bits.bytes
}

/// Bits, from the lowest of each byte on.
struct Bits {
    bytes: Vec<u8>,
    /// How many of the last byte are free.
    free: usize,
}

impl Bits {
    fn push(&mut self, value: usize, count: usize) {
        for at in 0..count {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            if let Some(byte) = self.bytes.last_mut() {
                *byte |= u8::from(value >> at & 1 == 1) << (8 - self.free);
            }
            self.free -= 1;
        }
    }

    /// The same from the highest on, as codes are.
    fn push_code(&mut self, value: usize, count: usize) {
        (0..count).rev().for_each(|at| self.push(value >> at, 1));
    }

    fn push_symbol(&mut self, symbol: usize) {
        match symbol {
            0..144 => self.push_code(0x30 + symbol, 8),
            144..256 => self.push_code(0x190 + symbol - 144, 9),
            256..280 => self.push_code(symbol - 256, 7),
            _ => self.push_code(0xc0 + symbol - 280, 8),
        }
    }

    /// So many bytes that stood so far before.
    fn push_match(&mut self, length: usize, distance: usize) {
        // Four codes for each number of extra bits, and of distances two, but for the first.
        let extra = |number: usize, kept: u32| (number.max(1).ilog2().saturating_sub(kept)) as usize;
        let rest = length - 3;
        let bits = extra(rest, 2);
        match length {
            258 => self.push_symbol(285),
            _ => self.push_symbol(257 + 4 * bits + (rest >> bits)),
        }
        if length < 258 {
            self.push(rest, bits);
        }
        let rest = distance - 1;
        let bits = extra(rest, 1);
        self.push_code(2 * bits + (rest >> bits), 5);
        self.push(rest, bits);
    }
}

#[cfg(test)]
mod tests {
    use miniz_oxide::inflate::decompress_slice_iter_to_slice;

    use super::*;
    use crate::rounds::rounds;

    fn inflated(packed: &[u8], length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        // Its sum is checked, too.
        let count = decompress_slice_iter_to_slice(&mut bytes, [packed].into_iter(), true, false);
        assert_eq!(count, Ok(length));
        bytes
    }

    #[test]
    fn compressed_bytes_are_the_same_after_decompression() {
        for (seed, mut random) in rounds(300) {
            let row = random.usize(1..300);
            let mut bytes = Vec::new();
            for _ in 0..random.usize(..20) {
                let (start, long) = (random.usize(..=bytes.len()), random.usize(..2_000));
                match random.u8(..3) {
                    0 => bytes.extend((0..long).map(|_| random.u8(..))),
                    1 => bytes.extend(vec![random.u8(..); long]),
                    _ => bytes.extend_from_within(start..(start + long).min(bytes.len())),
                }
            }
            assert!(inflated(&zlib(&bytes, row), bytes.len()) == bytes, "seed {seed}");
        }
        assert!(zlib(&[7; 100_000], 753).len() < 1_000);
    }

    /// The pixels of a picture, as they are shown, row by row.
    fn shown(screen: &Screen) -> Vec<String> {
        let file = screen.png(0);
        let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let (width, height) = (number(16), number(20));
        let palette = 33 + 8;
        let data = palette + number(33) + 4;
        let rows = inflated(&file[data + 8..data + 8 + number(data)], (width + 1) * height);
        let shown = |pixel: &u8| match file[palette + 3 * usize::from(*pixel)..][..3] {
            [0x10, 0x10, 0x10] => ' ',
            _ => '#',
        };
        rows.chunks(width + 1).map(|row| row[1..].iter().map(shown).collect()).collect()
    }

    #[test]
    fn letters_lines_and_what_is_in_no_font_are_drawn() {
        let screen = Screen::showing(6, 2, "\x1b[?25lA─╮漢\r\n\x1b[7m \x1b[0m\u{10330}".as_bytes());
        let rows = shown(&screen);
        assert_eq!((rows.len(), rows[0].len()), (2 * ROWS + 2 * MARGIN, 6 * COLS + 2 * MARGIN));
        let cell = |col: usize, row: usize| -> Vec<String> {
            let rows = &rows[MARGIN + row * ROWS..][..ROWS];
            rows.iter().map(|row| row[MARGIN + col * COLS..][..COLS].to_owned()).collect()
        };
        let blank = " ".repeat(COLS);
        assert_eq!(
            cell(0, 0)[4..15],
            [
                "    #    ",
                "   # #   ",
                "   # #   ",
                "   # #   ",
                "  #   #  ",
                "  #####  ",
                "  #   #  ",
                " #     # ",
                " #     # ",
                " #     # ",
                &blank,
            ]
        );
        assert_eq!(cell(1, 0)[MIDDLE_ROW], "#".repeat(COLS));
        assert_eq!(cell(2, 0)[MIDDLE_ROW], "####     ");
        assert_eq!(cell(2, 0)[ROWS - 1], "    #    ");
        assert_eq!((&*cell(3, 0)[3], &*cell(4, 0)[3]), (" ########", "######## "));
        assert!(cell(0, 1).iter().all(|row| *row == "#".repeat(COLS)), "{rows:#?}");
        assert_eq!(cell(1, 1)[3], " ####### ");
        assert!(cell(5, 1).iter().all(|row| *row == blank));
    }

    #[test]
    fn the_font_has_what_agents_draw() {
        let font = Font::unpacked();
        let font_of = |character| font.glyph(character).is_some();
        for character in ('!'..='~').chain("äéßñøŁЖя€…—“”•→✓✗❯›●○◐◑✻✦✳⏸△■⬝▣".chars())
        {
            assert!(font_of(character), "{character}");
        }
        assert!(!font_of('漢') && !font_of('\u{10330}') && !font_of('\0'));
    }
}
