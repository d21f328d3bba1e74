//! The colours that a program has set, by OSC 4, 5 and 10 to 19, and what they are else.

use std::fmt::Write;

use super::svg;

/// The number of the first special colour (of bold text and so on), after the 256, and their
/// count.
const SPECIAL: u16 = 256;
const SPECIALS: u16 = 8;

/// The number of the first dynamic colour: OSC 10 is `DYNAMIC`.
const DYNAMIC: u16 = 512;

/// Those that are not as at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Palette {
    // Invariant: each number once, and one of those above.
    pub(super) set: Vec<(u16, [u8; 3])>,
}

impl Palette {
    /// An OSC that sets or resets; what it asks is answered elsewhere.
    pub(super) fn command(&mut self, number: u16, text: &str) {
        match number {
            4 | 5 => {
                let mut fields = text.split(';');
                while let (Some(index), Some(value)) = (fields.next(), fields.next()) {
                    if let (Some(index), Some(colour)) = (place(number, index), parse(value)) {
                        self.set(index, colour);
                    }
                }
            }
            10..=19 => {
                for (index, value) in (number..=19).zip(text.split(';')) {
                    if let Some(colour) = parse(value) {
                        self.set(DYNAMIC + index - 10, colour);
                    }
                }
            }
            104 | 105 if text.is_empty() => {
                let all = if number == 104 { 0..SPECIAL } else { SPECIAL..SPECIAL + SPECIALS };
                self.set.retain(|(index, _)| !all.contains(index));
            }
            104 | 105 => {
                for index in text.split(';').filter_map(|index| place(number - 100, index)) {
                    self.set.retain(|(set, _)| *set != index);
                }
            }
            _ => self.set.retain(|(set, _)| *set != DYNAMIC + number - 110),
        }
    }

    fn set(&mut self, index: u16, colour: [u8; 3]) {
        self.set.retain(|(set, _)| *set != index);
        self.set.push((index, colour));
    }

    /// RIS leaves the dynamic ones.
    pub(super) fn reset(&mut self) {
        self.set.retain(|(index, _)| *index >= DYNAMIC);
    }

    pub(super) fn get(&self, index: u16) -> [u8; 3] {
        let set = self.set.iter().find(|(set, _)| *set == index);
        set.map_or_else(|| at_first(index), |(_, colour)| *colour)
    }

    /// The answers to the questions of an OSC, each with this end.
    pub(super) fn answer(&self, text: &str, end: &str) -> String {
        let mut answer = String::new();
        let Some((number, rest)) = text.split_once(';') else { return answer };
        let Ok(number) = number.parse::<u16>() else { return answer };
        let mut push = |what: std::fmt::Arguments, index: u16| {
            let [red, green, blue] = self.get(index);
            let colour = format_args!("rgb:{red:02x}{red:02x}/{green:02x}{green:02x}/{blue:02x}{blue:02x}");
            write!(answer, "\x1b]{what};{colour}{end}").expect("a String takes all");
        };
        match number {
            4 | 5 => {
                let mut fields = rest.split(';');
                while let (Some(index), Some(value)) = (fields.next(), fields.next()) {
                    if let (Some(place), "?") = (place(number, index), value) {
                        push(format_args!("{number};{index}"), place);
                    }
                }
            }
            10..=19 => {
                for (number, _) in (number..=19).zip(rest.split(';')).filter(|(_, value)| *value == "?") {
                    push(format_args!("{number}"), DYNAMIC + number - 10);
                }
            }
            _ => {}
        }
        answer
    }
}

/// Is it the number of one that can be set?
pub(super) fn is_known(index: u16) -> bool {
    index < SPECIAL + SPECIALS || (DYNAMIC..DYNAMIC + 10).contains(&index)
}

fn at_first(index: u16) -> [u8; 3] {
    match index {
        0..256 => svg::colour(index as u8),
        // The background of the text, of the pointer, of what is selected.
        513 | 516 | 517 => svg::BACKGROUND,
        _ => svg::FOREGROUND,
    }
}

/// The place of the colour that OSC 4 or 5 names so.
fn place(number: u16, index: &str) -> Option<u16> {
    let index: u16 = index.parse().ok()?;
    let index = if number == 5 { SPECIAL.checked_add(index)? } else { index };
    (index < SPECIAL + SPECIALS).then_some(index)
}

/// As X11 writes colours: `rgb:f/80/000`, `#f80`, and the names of a few.
fn parse(text: &str) -> Option<[u8; 3]> {
    const NAMES: [(&str, [u8; 3]); 9] = [
        ("black", [0, 0, 0]),
        ("red", [255, 0, 0]),
        ("green", [0, 255, 0]),
        ("yellow", [255, 255, 0]),
        ("blue", [0, 0, 255]),
        ("magenta", [255, 0, 255]),
        ("cyan", [0, 255, 255]),
        ("white", [255, 255, 255]),
        ("gray", [190, 190, 190]),
    ];
    let digits = |text: &str| u32::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'));
    if let Some(parts) = text.strip_prefix("rgb:") {
        let mut colour = [0; 3];
        let mut parts = parts.split('/');
        for value in &mut colour {
            let part = parts.next().filter(|part| (1..=4).contains(&part.len()))?;
            let most = (1 << (4 * part.len())) - 1;
            *value = (digits(part)? * 255 / most) as u8;
        }
        return parts.next().is_none().then_some(colour);
    }
    if let Some(all) = text.strip_prefix('#') {
        let each = all.len() / 3;
        if !all.is_ascii() || !matches!(all.len(), 3 | 6 | 9 | 12) {
            return None;
        }
        let mut colour = [0; 3];
        for (value, at) in colour.iter_mut().zip([0, each, 2 * each]) {
            *value = (digits(&all[at..at + each])? << 12 >> (4 * (each - 1)) >> 8) as u8;
        }
        return Some(colour);
    }
    NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, colour)| *colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_as_x11_writes_them() {
        for (text, colour) in [
            ("rgb:f0f0/8080/0000", Some([0xf0, 0x80, 0])),
            ("rgb:f/80/000", Some([0xff, 0x80, 0])),
            ("#fff", Some([0xf0; 3])),
            ("#f0f0f0", Some([0xf0; 3])),
            ("#f00f00f00", Some([0xf0; 3])),
            ("#aaaabbbbcccc", Some([0xaa, 0xbb, 0xcc])),
            ("Red", Some([255, 0, 0])),
            ("rgb:1/2", None),
            ("rgb:1/2/3/4", None),
            ("rgb:/2/3", None),
            ("rgb:+1/2/3", None),
            ("#ffff", None),
            ("#éf", None),
            ("?", None),
            ("", None),
        ] {
            assert_eq!(parse(text), colour, "{text}");
        }
    }

    #[test]
    fn colours_that_are_set_are_reported_and_reset() {
        let mut palette = Palette::default();
        palette.command(4, "1;#abc;256;#123;300;#fff;2;?");
        palette.command(5, "1;#456");
        palette.command(10, "#111;#222");
        assert_eq!(palette.set.len(), 5);
        assert_eq!(
            palette.answer("4;1;?;256;?;300;?", "\x07"),
            "\x1b]4;1;rgb:a0a0/b0b0/c0c0\x07\x1b]4;256;rgb:1010/2020/3030\x07"
        );
        assert_eq!(palette.answer("5;1;?", "\x07"), "\x1b]5;1;rgb:4040/5050/6060\x07");
        assert_eq!(
            palette.answer("10;?;?", "\x1b\\"),
            "\x1b]10;rgb:1010/1010/1010\x1b\\\x1b]11;rgb:2020/2020/2020\x1b\\"
        );
        palette.command(104, "");
        palette.command(105, "1");
        palette.command(111, "");
        assert_eq!(palette.set, [(256, [0x10, 0x20, 0x30]), (512, [0x10; 3])]);
        palette.reset();
        assert_eq!(palette.set, [(512, [0x10; 3])]);
    }
}
