//! SGR: what the parameters of `CSI ... m` make of the pen.

use crate::terminal::{
    parser::Parser,
    screen::line::{Colour, Pen},
};

impl Pen {
    /// Takes what the parameters of an SGR choose.
    pub(super) fn choose(&mut self, parser: &Parser) {
        if parser.count == 0 {
            self.reset();
        }
        let mut index = 0;
        while index < parser.count {
            let subs = 1 + parser.parameters[index + 1..parser.count]
                .iter()
                .take_while(|parameter| parameter.is_sub)
                .count();
            index += if subs > 1 {
                self.choose_by_subs(parser, index, subs);
                subs
            } else {
                self.choose_one(parser, index)
            };
        }
    }

    /// Tells how many parameters that took.
    fn choose_one(&mut self, parser: &Parser, index: usize) -> usize {
        let value = parser.value(index).unwrap_or(0);
        match value {
            0 => self.reset(),
            1 => self.style |= Pen::BOLD,
            2 => self.style |= Pen::DIM,
            3 => self.style |= Pen::ITALIC,
            4 => self.set_underline(1),
            5 | 6 => self.style |= Pen::BLINK,
            7 => self.style |= Pen::INVERSE,
            8 => self.style |= Pen::HIDDEN,
            9 => self.style |= Pen::STRUCK,
            21 => self.set_underline(2),
            22 => self.style &= !(Pen::BOLD | Pen::DIM),
            23 => self.style &= !Pen::ITALIC,
            24 => self.set_underline(0),
            25 => self.style &= !Pen::BLINK,
            27 => self.style &= !Pen::INVERSE,
            28 => self.style &= !Pen::HIDDEN,
            29 => self.style &= !Pen::STRUCK,
            30..=37 => self.foreground = Colour::indexed((value - 30) as u8),
            39 => self.foreground = Colour::DEFAULT,
            40..=47 => self.background = Colour::indexed((value - 40) as u8),
            49 => self.background = Colour::DEFAULT,
            53 => self.style |= Pen::OVERLINE,
            55 => self.style &= !Pen::OVERLINE,
            59 => self.underline_colour = Colour::DEFAULT,
            90..=97 => self.foreground = Colour::indexed((value - 90 + 8) as u8),
            100..=107 => self.background = Colour::indexed((value - 100 + 8) as u8),
            38 | 48 | 58 => return self.choose_colour(parser, value, index + 1),
            _ => {}
        }
        1
    }

    /// `38;5;N` and `38;2;R;G;B`.
    fn choose_colour(&mut self, parser: &Parser, target: u16, index: usize) -> usize {
        let byte = |offset: usize| parser.value(index + offset).and_then(|value| u8::try_from(value).ok());
        match parser.value(index) {
            Some(2) => match (byte(1), byte(2), byte(3)) {
                (Some(red), Some(green), Some(blue)) => {
                    self.set_colour(target, Colour::rgb(red, green, blue));
                    5
                }
                _ => 2,
            },
            Some(5) => {
                let colour = byte(1).map_or(Colour::DEFAULT, Colour::indexed);
                self.set_colour(target, colour);
                3
            }
            _ => 2,
        }
    }

    fn set_colour(&mut self, target: u16, colour: Colour) {
        match target {
            38 => self.foreground = colour,
            48 => self.background = colour,
            58 => self.underline_colour = colour,
            _ => {}
        }
    }

    /// `4:3`, `38:5:N`, `38:2::R:G:B` and `38:2:R:G:B`.
    fn choose_by_subs(&mut self, parser: &Parser, index: usize, length: usize) {
        let value = |offset: usize| parser.value(index + offset);
        let byte = |offset: usize| value(offset).and_then(|value| u8::try_from(value).ok());
        match (value(0), value(1), length) {
            (Some(4), Some(kind @ 0..=5), 2) => self.set_underline(u32::from(kind)),
            (Some(target), Some(2), 5..) => {
                let first = if length == 5 { 2 } else { 3 };
                if let (Some(red), Some(green), Some(blue)) = (byte(first), byte(first + 1), byte(first + 2))
                {
                    self.set_colour(target, Colour::rgb(red, green, blue));
                }
            }
            (Some(target), Some(5), 3..) => {
                if let Some(number) = byte(2) {
                    self.set_colour(target, Colour::indexed(number));
                }
            }
            _ => {}
        }
    }
}
