//! The titles of the window and of its icon.

use crate::{
    numbers::{hex, parse_hex},
    terminal::{parser::Parser, text::is_letter_or_digit},
};

/// As many are kept on the stack as xterm keeps.
pub(super) const MOST: usize = 10;

/// The titles of the window and of the icon; OSC 0 sets both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Titles {
    pub(super) window: Option<String>,
    pub(super) icon: Option<String>,
    // Invariant: no more than `MOST`, the last pushed first.
    pub(super) stack: Vec<Pushed>,
    /// They are set, and reported, as hexadecimal digits.
    pub(super) set_by_digits: bool,
    pub(super) told_by_digits: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pushed {
    pub(super) has_icon: bool,
    pub(super) has_window: bool,
    pub(super) icon: Option<String>,
    pub(super) window: Option<String>,
}

impl Titles {
    /// OSC 0, 1 and 2.
    pub(super) fn set(&mut self, number: u16, text: &str) {
        let digits = Some(text).filter(|_| self.set_by_digits);
        let decoded = digits.and_then(|digits| String::from_utf8(parse_hex(digits)?).ok());
        let text = decoded.as_deref().unwrap_or(text);
        let title: String = text.chars().filter(|character| !character.is_control()).collect();
        if number != 1 {
            self.window = Some(title.clone());
        }
        if number != 2 {
            self.icon = Some(title);
        }
    }

    /// XTSMTITLE and XTRMTITLE.
    pub(super) fn set_modes(&mut self, parser: &Parser, on: bool) {
        for mode in parser.values() {
            match mode {
                0 => self.set_by_digits = on,
                1 => self.told_by_digits = on,
                _ => {}
            }
        }
    }

    pub(super) fn reset(&mut self) {
        (self.set_by_digits, self.told_by_digits) = (false, false);
    }

    /// XTWINOPS 22 and 23.
    pub(super) fn stack(&mut self, parser: &Parser) {
        let which = parser.value(1).unwrap_or(0);
        let (has_icon, has_window) = (matches!(which, 0 | 1), matches!(which, 0 | 2));
        match parser.value(0) {
            Some(22) if has_icon || has_window => {
                self.stack.truncate(MOST - 1);
                // A title that is not pushed is pushed as it was the last time.
                let mut pushed = self.stack.first().cloned().unwrap_or_default();
                if has_icon {
                    (pushed.has_icon, pushed.icon) = (true, self.icon.clone());
                }
                if has_window {
                    (pushed.has_window, pushed.window) = (true, self.window.clone());
                }
                self.stack.insert(0, pushed);
            }
            Some(23) if (has_icon || has_window) && !self.stack.is_empty() => {
                let pushed = self.stack.remove(0);
                if has_icon && pushed.has_icon {
                    self.icon = pushed.icon;
                }
                if has_window && pushed.has_window {
                    self.window = pushed.window;
                }
            }
            _ => {}
        }
    }

    /// The answer to XTWINOPS 20 and 21. Anything that a program prints, even a log, can set a
    /// title, and an answer is typed: only characters that mean nothing to a shell are returned
    /// unchanged.
    pub(super) fn told(&self, title: Option<&str>) -> String {
        let title = title.unwrap_or_default();
        if self.told_by_digits { hex(title.as_bytes()) } else { title.chars().map(harmless).collect() }
    }
}

fn harmless(character: char) -> char {
    match character {
        ' ' | '.' | ',' | ':' | '-' | '+' | '/' | '@' | '_' => character,
        _ if is_letter_or_digit(character) => character,
        _ => '_',
    }
}
