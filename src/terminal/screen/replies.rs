//! Answers that only the screen can tell.

use std::fmt::Write;

use super::{
    HIGHEST_LEVEL, Screen,
    modes::{ANSI, Mode, is_never_set},
    shown::pen_sequence,
};
use crate::terminal::{
    parser::Parser,
    screen::grid::Pen,
    tokenizer::{BEL, Step},
};

impl Screen {
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

fn push(text: &mut String, part: std::fmt::Arguments) {
    text.write_fmt(part).expect("a String takes all");
}
