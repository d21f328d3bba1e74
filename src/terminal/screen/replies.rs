//! Answers that only the screen can tell.

use super::{
    Cursor, HIGHEST_LEVEL, Screen, Writing,
    modes::{ANSI, Mode, is_never_set},
    shown::pen_sequence,
};
use crate::terminal::{
    parser::Parser,
    screen::line::Pen,
    text::push,
    tokenizer::{BEL, Step},
};

/// The attributes of a pen that DECCIR reports, in the order of its bits.
const RENDITIONS: [u32; 4] = [Pen::BOLD, 1 << 8, Pen::BLINK, Pen::INVERSE];

impl Screen {
    /// DECRSPS: restores the cursor, or the tab stops, from an answer to DECRQPSR.
    pub(super) fn restore_presentation(&mut self) {
        let string = std::str::from_utf8(&self.parser.string).unwrap_or_default().to_owned();
        if let Some(stops) = string.strip_prefix("2$t") {
            self.tabs.fill(false);
            for stop in stops.split('/').filter_map(|stop| stop.parse::<usize>().ok()?.checked_sub(1)) {
                self.tabs.iter_mut().skip(stop).take(1).for_each(|tab| *tab = true);
            }
        } else if let Some(fields) = string.strip_prefix("1$t") {
            let fields: Vec<&str> = fields.split(';').collect();
            let &[row, col, _, rendition, protected, flags, left, _, _, sets] = &fields[..] else { return };
            let place = |text: &str| text.parse::<usize>().ok()?.checked_sub(1);
            let (Some(row), Some(col)) = (place(row), place(col)) else { return };
            let bits = |text: &str| text.bytes().next().unwrap_or(0);
            let styles = RENDITIONS.into_iter().enumerate().map(|(bit, style)| (rendition, bit, style));
            for (field, bit, style) in styles.chain([(protected, 0, Pen::PROTECTED)]) {
                let pen = &mut self.state.pen;
                pen.style &= !style;
                pen.style |= if bits(field) >> bit & 1 == 1 { style } else { 0 };
            }
            self.state.origin = bits(flags) & 1 == 1;
            self.move_to(col, row);
            self.cursor.pending = bits(flags) & 8 != 0 && self.cursor.col + 1 == self.end_of_text();
            self.state.shifted = left == "1";
            let mut sets = sets.bytes();
            self.state.graphics = [sets.next(), sets.next()].map(|set| set == Some(b'0'));
        }
        self.last = None;
    }

    /// The answer to a question, which is one whole sequence ([`Query::Screen`]); empty if there
    /// is none.
    ///
    /// [`Query::Screen`]: crate::terminal::queries::Query::Screen
    pub(crate) fn answer(&self, question: &[u8]) -> String {
        let mut parser = Parser::default();
        let mut last = Step::Part;
        let c1 = std::str::from_utf8(question).ok().and_then(|text| text.chars().next());
        let rest = match c1.filter(|character| ('\u{80}'..='\u{9f}').contains(character)) {
            Some(character) => {
                parser.c1(u32::from(character) as u8);
                &question[character.len_utf8()..]
            }
            None => question,
        };
        for byte in rest {
            last = parser.take(*byte);
        }
        let text = std::str::from_utf8(&parser.string).unwrap_or_default();
        match last {
            Step::ControlSequence(last) => self.answer_control(&parser, last),
            Step::String(b']') => {
                let end = if question.ends_with(&[BEL]) { "\x07" } else { "\x1b\\" };
                self.palette.answer(text, end)
            }
            Step::String(b'P') => match text.strip_prefix("$q").and_then(|setting| self.setting(setting)) {
                Some(value) => format!("\x1bP1$r{value}\x1b\\"),
                None => String::from("\x1bP0$r\x1b\\"),
            },
            _ => String::new(),
        }
    }

    fn answer_control(&self, parser: &Parser, last: u8) -> String {
        let first = parser.value(0).unwrap_or(0);
        let mut answer = String::new();
        match (parser.private, parser.intermediate, last) {
            (0, 0, b'n') => {
                let (row, col) = self.reported_cursor();
                push(&mut answer, format_args!("\x1b[{row};{col}R"));
            }
            (b'?', 0, b'n') => {
                let (row, col) = self.reported_cursor();
                push(&mut answer, format_args!("\x1b[?{row};{col};1R"));
            }
            (private, b'$', b'p') if self.level > 2 => {
                let (mark, number) = if private == 0 { ("", first | ANSI) } else { ("?", first) };
                push(&mut answer, format_args!("\x1b[{mark}{first};{}$y", self.mode_state(number)));
            }
            (0, b'*', b'y') if self.level >= HIGHEST_LEVEL => {
                let sum = self.area(parser, 2).map_or(0, |area| self.checksum(area));
                push(&mut answer, format_args!("\x1bP{first}!~{sum:04X}\x1b\\"));
            }
            (0, b'$', b'w') => match first {
                1 => {
                    let Cursor { col, row, pending } = self.cursor;
                    let Writing { pen, graphics, shifted, origin } = self.state;
                    let styles = RENDITIONS.iter().enumerate();
                    let rendition: u8 = styles.map(|(bit, style)| u8::from(pen.has(*style)) << bit).sum();
                    let [rendition, protected, flags] = [
                        rendition,
                        u8::from(pen.has(Pen::PROTECTED)),
                        u8::from(origin) | u8::from(pending) << 3,
                    ]
                    .map(|bits| char::from(b'@' + bits));
                    let sets = graphics.map(|is_graphics| if is_graphics { '0' } else { 'B' });
                    let (row, col, left) = (row + 1, col + 1, u8::from(shifted));
                    let places = format_args!("\x1bP1$u{row};{col};1;{rendition};{protected};{flags};");
                    push(&mut answer, places);
                    push(&mut answer, format_args!("{left};2;@;{}{}BB\x1b\\", sets[0], sets[1]));
                }
                2 => {
                    let stops = self.tabs.iter().enumerate().filter(|(_, stop)| **stop);
                    let stops: Vec<String> = stops.map(|(col, _)| (col + 1).to_string()).collect();
                    push(&mut answer, format_args!("\x1bP2$u{}\x1b\\", stops.join("/")));
                }
                _ => answer += "\x1bP0$u\x1b\\",
            },
            (0, 0, b't') => match first {
                19 => push(&mut answer, format_args!("\x1b[9;{};{}t", self.height(), self.cols())),
                20 => {
                    let title = self.titles.told(self.titles.icon.as_deref());
                    push(&mut answer, format_args!("\x1b]L{title}\x1b\\"));
                }
                21 => {
                    let title = self.titles.told(self.titles.window.as_deref());
                    push(&mut answer, format_args!("\x1b]l{title}\x1b\\"));
                }
                _ => {}
            },
            _ => {}
        }
        answer
    }

    /// As DECRPM has it: 0 not known, 1 set, 2 reset, 3 and 4 the same for ever.
    fn mode_state(&self, number: u16) -> u8 {
        let on = match number {
            6 => self.state.origin,
            47 | 1047 | 1049 => self.is_alternate(),
            1048 => true,
            // Clusters take the columns that they are shown in, whatever a program thinks.
            2027 => return 3,
            _ if is_never_set(number) => return 4,
            _ => match Mode::of(number) {
                Some(mode) => self.modes.has(mode),
                None => return 0,
            },
        };
        if on { 1 } else { 2 }
    }

    /// DECRQSS: what would make it as it is.
    fn setting(&self, setting: &str) -> Option<String> {
        Some(match setting {
            "m" => {
                let mut text = pen_sequence(self.state.pen);
                text.drain(..2);
                text
            }
            "r" => format!("{};{}r", self.top + 1, self.bottom + 1),
            "s" => format!("{};{}s", self.left + 1, self.right + 1),
            "t" => format!("{}t", self.height()),
            "*|" => format!("{}*|", self.height()),
            "$|" => format!("{}$|", self.cols()),
            " q" => format!("{} q", self.cursor_shape),
            "\"p" => format!("6{};1\"p", self.level),
            "\"q" => format!("{}\"q", u8::from(self.state.pen.has(Pen::PROTECTED))),
            "*x" => format!("{}*x", self.extent),
            // There is no status line.
            "$}" => String::from("0$}"),
            "$~" => String::from("0$~"),
            _ => return None,
        })
    }
}
