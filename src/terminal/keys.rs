//! Keys by tmux's names, and the bytes that xterm sends for them.
//!
//! A table, and three rules for its modifiers: a key of the first kind takes
//! them as a number in its sequence (`CSI 1;5A`), a character takes Ctrl by the
//! ASCII table and Meta by an ESC before it, and where a terminal sends the same
//! with Shift as without, so do we.

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    code: Code,
    shift: bool,
    meta: bool,
    control: bool,
    /// As it was named, before its modifiers made another key of it.
    named: Code,
    /// The modifiers by kitty's bits: 1 Shift, 2 Alt, 4 Ctrl, 8 Super.
    modifiers: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// `CSI` and this letter, `SS3` in application mode.
    Cursor(u8),
    /// `SS3` and this letter in either mode: F1 to F4.
    Function(u8),
    /// `CSI`, this number, `~`.
    Number(u8),
    /// The tab that goes back.
    BackTab,
    /// A key of the keypad: its character, which is 0x40 below the letter after `SS3` in application mode.
    Keypad(u8),
    /// A key that is one control character, and what it is with Ctrl.
    Control(u8, u8),
    Character(char),
}

/// The key of a name in lower case: tmux's names have no case.
fn named(name: &str) -> Option<Code> {
    Some(match name.as_bytes() {
        b"up" => Code::Cursor(b'A'),
        b"down" => Code::Cursor(b'B'),
        b"right" => Code::Cursor(b'C'),
        b"left" => Code::Cursor(b'D'),
        b"home" => Code::Cursor(b'H'),
        b"end" => Code::Cursor(b'F'),
        b"f1" => Code::Function(b'P'),
        b"f2" => Code::Function(b'Q'),
        b"f3" => Code::Function(b'R'),
        b"f4" => Code::Function(b'S'),
        b"f5" => Code::Number(15),
        b"f6" => Code::Number(17),
        b"f7" => Code::Number(18),
        b"f8" => Code::Number(19),
        b"f9" => Code::Number(20),
        b"f10" => Code::Number(21),
        b"f11" => Code::Number(23),
        b"f12" => Code::Number(24),
        b"insert" | b"ic" => Code::Number(2),
        b"delete" | b"dc" => Code::Number(3),
        b"pageup" | b"pgup" | b"ppage" => Code::Number(5),
        b"pagedown" | b"pgdn" | b"pgdown" | b"npage" => Code::Number(6),
        [b'k', b'p', key @ (b'0'..=b'9' | b'+' | b'-' | b'*' | b'/' | b'.')] => Code::Keypad(*key),
        b"kpenter" => Code::Keypad(b'\r'),
        b"btab" => Code::BackTab,
        b"tab" => Code::Control(b'\t', b'\t'),
        b"enter" | b"return" | b"cr" => Code::Control(b'\r', b'\r'),
        b"escape" | b"esc" => Code::Control(0x1b, 0x1b),
        b"bspace" | b"backspace" | b"bs" => Code::Control(0x7f, 0x08),
        b"space" | b"spc" => Code::Character(' '),
        _ => return None,
    })
}

/// The names that completion offers: the most readable one of each key.
#[rustfmt::skip]
pub(crate) const OFFERED: [&str; 33] = [
    "Enter", "Tab", "Escape", "Space", "BSpace", "Insert", "Delete", "Home", "End", "PageUp", "PageDown",
    "Up", "Down", "Left", "Right", "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F12",
    "BTab", "C-c", "C-d", "C-l", "C-r", "C-z",
];

/// The key of a name; `None` where there is none, or where no terminal could
/// send it.
pub(crate) fn parse(name: &str) -> Option<Key> {
    let mut key = Key {
        code: Code::BackTab,
        shift: false,
        meta: false,
        control: false,
        named: Code::BackTab,
        modifiers: 0,
    };
    let mut rest = name;
    loop {
        // Only kitty's protocol has it.
        if let Some((before, after)) = rest.split_at_checked("super-".len())
            && before.eq_ignore_ascii_case("super-")
            && !after.is_empty()
        {
            key.modifiers |= SUPER;
            rest = after;
            continue;
        }
        let mut characters = rest.chars();
        match (characters.next()?, characters.next(), characters.next().is_some()) {
            ('C' | 'c', Some('-'), true) => (key.control, rest) = (true, &rest[2..]),
            ('M' | 'm', Some('-'), true) => (key.meta, rest) = (true, &rest[2..]),
            ('S' | 's', Some('-'), true) => (key.shift, rest) = (true, &rest[2..]),
            ('^', Some(_), _) => (key.control, rest) = (true, &rest[1..]),
            (character, None, _) => {
                key.code = Code::Character(character);
                break;
            }
            _ => {
                key.code = named(&rest.to_ascii_lowercase())?;
                break;
            }
        }
    }
    key.named = key.code;
    key.modifiers |= u8::from(key.shift) + ALT * u8::from(key.meta) + CONTROL * u8::from(key.control);
    if let Code::BackTab = key.code {
        (key.named, key.modifiers) = (Code::Control(b'\t', b'\t'), key.modifiers | SHIFT);
    }
    if let (Code::Control(b'\t', _), true) = (key.code, key.shift) {
        (key.code, key.shift) = (Code::BackTab, false);
    }
    if let Code::Keypad(..) = key.code
        && (key.control || key.shift)
    {
        return None;
    }
    if let Code::Character(character) = key.code {
        key.code = Code::Character(modified(character, key.shift, key.control)?);
        (key.shift, key.control) = (false, false);
    }
    Some(key)
}

/// A character with Shift or Ctrl, which is another character, if one exists.
fn modified(character: char, shift: bool, control: bool) -> Option<char> {
    if control {
        return Some(match character {
            'a'..='z' | 'A'..='Z' => char::from(character as u8 & 0x1f),
            '@' | ' ' | '2' => '\0',
            '[' | '3' => '\x1b',
            '\\' | '4' => '\x1c',
            ']' | '5' => '\x1d',
            '^' | '6' => '\x1e',
            '_' | '/' | '7' => '\x1f',
            '?' | '8' => '\x7f',
            _ => return None,
        });
    }
    match (shift, character) {
        (false, _) | (true, 'A'..='Z' | ' ') => Some(character),
        (true, 'a'..='z') => Some(character.to_ascii_uppercase()),
        (true, _) => None,
    }
}

/// In which mode a program has asked for keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Application {
    /// Application cursor keys (DECCKM).
    pub(crate) cursor: bool,
    /// The application keypad (DECKPAM, DECNKM).
    pub(crate) keypad: bool,
    /// Kitty's keyboard protocol: its bits are 1 disambiguate, 2 report releases, 4 report
    /// alternate keys, 8 report all keys as sequences, 16 report the text.
    pub(crate) kitty: u8,
}

const SHIFT: u8 = 1;
const ALT: u8 = 2;
const CONTROL: u8 = 4;
const SUPER: u8 = 8;

const DISAMBIGUATE: u8 = 1;
const RELEASES: u8 = 2;
const ALTERNATES: u8 = 4;
const ALL: u8 = 8;
const TEXT: u8 = 16;

impl Key {
    /// The bytes that a terminal sends for it.
    pub(crate) fn bytes(self, application: Application) -> Vec<u8> {
        let kitty = if application.kitty == 0 { None } else { self.kitty(application.kitty) };
        kitty.unwrap_or_else(|| self.legacy(application))
    }

    /// The bytes that a terminal sends in kitty's protocol; `None` if they are the same.
    fn kitty(self, flags: u8) -> Option<Vec<u8>> {
        let all = flags & ALL != 0;
        if !all && flags & DISAMBIGUATE == 0 {
            return None;
        }
        let (mut modifiers, mut shifted, mut text) = (self.modifiers, None, None);
        let (code, last) = match self.named {
            Code::Cursor(letter) => (1, letter),
            Code::Function(b'R') => (13, b'~'),
            Code::Function(letter) => (1, letter),
            Code::Number(number) => (u32::from(number), b'~'),
            Code::Control(byte, _) if !all && byte != 0x1b && modifiers == 0 => return None,
            Code::Control(byte, _) => (u32::from(byte), b'u'),
            Code::BackTab => (9, b'u'),
            Code::Keypad(b'\r') => (57414, b'u'),
            Code::Keypad(character) => {
                let at = b"0123456789./*-+".iter().position(|known| *known == character)?;
                (57399 + at as u32, b'u')
            }
            Code::Character(_) if !all && modifiers & !SHIFT == 0 => return None,
            Code::Character(character) => {
                let lower = character.to_lowercase().next().unwrap_or(character);
                // A capital letter is typed with Shift.
                if lower != character && modifiers & CONTROL == 0 {
                    modifiers |= SHIFT;
                }
                let upper = lower.to_uppercase().next().filter(|upper| *upper != lower);
                shifted = upper.filter(|_| modifiers & SHIFT != 0);
                text = Some(shifted.unwrap_or(lower)).filter(|_| modifiers & !SHIFT == 0);
                (u32::from(lower), b'u')
            }
        };
        let last = char::from(last);
        let press = |event: &str| {
            let shifted = shifted.filter(|_| flags & ALTERNATES != 0);
            let shifted = shifted.map_or(String::new(), |shifted| format!(":{}", u32::from(shifted)));
            let text = text.filter(|_| flags & TEXT != 0 && all && event.is_empty());
            let text = text.map_or(String::new(), |text| format!(";{}", u32::from(text)));
            let modified = match (modifiers, event, text.is_empty()) {
                (0, "", true) => String::new(),
                (0, "", false) => String::from(";"),
                _ => format!(";{}{event}", modifiers + 1),
            };
            match (code, modified.is_empty()) {
                (1, true) => format!("\x1b[{last}"),
                _ => format!("\x1b[{code}{shifted}{modified}{text}{last}"),
            }
        };
        let release = if all && flags & RELEASES != 0 { press(":3") } else { String::new() };
        Some((press("") + &release).into_bytes())
    }

    fn legacy(self, application: Application) -> Vec<u8> {
        let modifiers = 1 + u8::from(self.shift) + 2 * u8::from(self.meta) + 4 * u8::from(self.control);
        let sequence = match (self.code, modifiers) {
            (Code::Cursor(letter), 1) if application.cursor => format!("\x1bO{}", char::from(letter)),
            (Code::Cursor(letter), 1) => format!("\x1b[{}", char::from(letter)),
            (Code::Function(letter), 1) => format!("\x1bO{}", char::from(letter)),
            (Code::Cursor(letter) | Code::Function(letter), _) => {
                format!("\x1b[1;{modifiers}{}", char::from(letter))
            }
            (Code::Number(number), 1) => format!("\x1b[{number}~"),
            (Code::Number(number), _) => format!("\x1b[{number};{modifiers}~"),
            (Code::Keypad(character), _) if application.keypad => {
                self.after_meta(format!("\x1bO{}", char::from(character + 0x40)))
            }
            (Code::Keypad(character), _) => self.after_meta(char::from(character).to_string()),
            (Code::BackTab, _) => self.after_meta("\x1b[Z"),
            (Code::Control(_, byte), _) if self.control => self.after_meta(char::from(byte).to_string()),
            (Code::Control(byte, _), _) => self.after_meta(char::from(byte).to_string()),
            (Code::Character(character), _) => self.after_meta(character.to_string()),
        };
        sequence.into_bytes()
    }

    fn after_meta(self, sequence: impl Into<String>) -> String {
        if self.meta { format!("\x1b{}", sequence.into()) } else { sequence.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{rounds, spoiled};

    #[test]
    fn offered_keys_are_known() {
        assert!(OFFERED.iter().all(|name| parse(name).is_some()));
    }

    #[test]
    fn every_name_is_what_xterm_sends() {
        let cases: [(&str, &str); 72] = [
            ("a", "a"),
            ("A", "A"),
            ("é", "é"),
            ("-", "-"),
            ("^", "^"),
            (" ", " "),
            ("C", "C"),
            ("C-c", "\x03"),
            ("c-c", "\x03"),
            ("C-C", "\x03"),
            ("^C", "\x03"),
            ("^c", "\x03"),
            ("^[", "\x1b"),
            ("^?", "\x7f"),
            ("^^", "\x1e"),
            ("C-\\", "\x1c"),
            ("C-]", "\x1d"),
            ("C-_", "\x1f"),
            ("C-/", "\x1f"),
            ("C-@", "\0"),
            ("C-Space", "\0"),
            ("M-x", "\x1bx"),
            ("M--", "\x1b-"),
            ("M-X", "\x1bX"),
            ("M-é", "\x1bé"),
            ("C-M-x", "\x1b\x18"),
            ("M-C-x", "\x1b\x18"),
            ("M-^X", "\x1b\x18"),
            ("M-Enter", "\x1b\r"),
            ("M-Space", "\x1b "),
            ("S-a", "A"),
            ("Enter", "\r"),
            ("S-Enter", "\r"),
            ("Tab", "\t"),
            ("S-Tab", "\x1b[Z"),
            ("BTab", "\x1b[Z"),
            ("M-BTab", "\x1b\x1b[Z"),
            ("Escape", "\x1b"),
            ("Space", " "),
            ("BSpace", "\x7f"),
            ("C-BSpace", "\x08"),
            ("M-BSpace", "\x1b\x7f"),
            ("Up", "\x1b[A"),
            ("up", "\x1b[A"),
            ("Down", "\x1b[B"),
            ("Right", "\x1b[C"),
            ("Left", "\x1b[D"),
            ("S-Up", "\x1b[1;2A"),
            ("M-Up", "\x1b[1;3A"),
            ("C-Left", "\x1b[1;5D"),
            ("C-S-Right", "\x1b[1;6C"),
            ("C-M-S-Down", "\x1b[1;8B"),
            ("Home", "\x1b[H"),
            ("C-End", "\x1b[1;5F"),
            ("F1", "\x1bOP"),
            ("F4", "\x1bOS"),
            ("S-F1", "\x1b[1;2P"),
            ("F5", "\x1b[15~"),
            ("C-F5", "\x1b[15;5~"),
            ("F10", "\x1b[21~"),
            ("F12", "\x1b[24~"),
            ("Insert", "\x1b[2~"),
            ("IC", "\x1b[2~"),
            ("DC", "\x1b[3~"),
            ("S-Delete", "\x1b[3;2~"),
            ("PageUp", "\x1b[5~"),
            ("PgUp", "\x1b[5~"),
            ("PPage", "\x1b[5~"),
            ("PageDown", "\x1b[6~"),
            ("PgDn", "\x1b[6~"),
            ("NPage", "\x1b[6~"),
            ("C-PageDown", "\x1b[6;5~"),
        ];
        for (name, bytes) in cases {
            let key = parse(name).unwrap_or_else(|| panic!("no {name:?}"));
            assert_eq!(String::from_utf8(key.bytes(Application::default())).unwrap(), bytes, "{name:?}");
        }
    }

    const CURSOR: Application = Application { cursor: true, keypad: false, kitty: 0 };
    const KEYPAD: Application = Application { cursor: false, keypad: true, kitty: 0 };
    const NEITHER: Application = Application { cursor: false, keypad: false, kitty: 0 };

    /// By kitty's specification of its protocol: without flags, with 1, 8, and all.
    #[test]
    fn in_kitty_s_protocol_every_key_can_be_told_from_every_other() {
        let cases = [
            ("a", ["a", "a", "\x1b[97u", "\x1b[97;;97u\x1b[97;1:3u"]),
            ("A", ["A", "A", "\x1b[97;2u", "\x1b[97:65;2;65u\x1b[97:65;2:3u"]),
            ("S-a", ["A", "A", "\x1b[97;2u", "\x1b[97:65;2;65u\x1b[97:65;2:3u"]),
            ("é", ["é", "é", "\x1b[233u", "\x1b[233;;233u\x1b[233;1:3u"]),
            ("C-x", ["\x18", "\x1b[120;5u", "\x1b[120;5u", "\x1b[120;5u\x1b[120;5:3u"]),
            ("C-S-x", ["\x18", "\x1b[120;6u", "\x1b[120;6u", "\x1b[120:88;6u\x1b[120:88;6:3u"]),
            ("M-x", ["\x1bx", "\x1b[120;3u", "\x1b[120;3u", "\x1b[120;3u\x1b[120;3:3u"]),
            ("Super-x", ["x", "\x1b[120;9u", "\x1b[120;9u", "\x1b[120;9u\x1b[120;9:3u"]),
            ("Enter", ["\r", "\r", "\x1b[13u", "\x1b[13u\x1b[13;1:3u"]),
            ("S-Enter", ["\r", "\x1b[13;2u", "\x1b[13;2u", "\x1b[13;2u\x1b[13;2:3u"]),
            ("Tab", ["\t", "\t", "\x1b[9u", "\x1b[9u\x1b[9;1:3u"]),
            ("S-Tab", ["\x1b[Z", "\x1b[9;2u", "\x1b[9;2u", "\x1b[9;2u\x1b[9;2:3u"]),
            ("BTab", ["\x1b[Z", "\x1b[9;2u", "\x1b[9;2u", "\x1b[9;2u\x1b[9;2:3u"]),
            ("Escape", ["\x1b", "\x1b[27u", "\x1b[27u", "\x1b[27u\x1b[27;1:3u"]),
            ("C-Space", ["\0", "\x1b[32;5u", "\x1b[32;5u", "\x1b[32;5u\x1b[32;5:3u"]),
            ("Up", ["\x1b[A", "\x1b[A", "\x1b[A", "\x1b[A\x1b[1;1:3A"]),
            ("C-Up", ["\x1b[1;5A", "\x1b[1;5A", "\x1b[1;5A", "\x1b[1;5A\x1b[1;5:3A"]),
            ("F1", ["\x1bOP", "\x1b[P", "\x1b[P", "\x1b[P\x1b[1;1:3P"]),
            ("F3", ["\x1bOR", "\x1b[13~", "\x1b[13~", "\x1b[13~\x1b[13;1:3~"]),
            ("Delete", ["\x1b[3~", "\x1b[3~", "\x1b[3~", "\x1b[3~\x1b[3;1:3~"]),
            ("KP5", ["5", "\x1b[57404u", "\x1b[57404u", "\x1b[57404u\x1b[57404;1:3u"]),
            ("KPEnter", ["\r", "\x1b[57414u", "\x1b[57414u", "\x1b[57414u\x1b[57414;1:3u"]),
        ];
        for (name, sent) in cases {
            let key = parse(name).unwrap_or_else(|| panic!("no {name:?}"));
            let bytes = [0, 1, 8, 31].map(|kitty| key.bytes(Application { kitty, ..NEITHER }));
            assert_eq!(bytes.map(|bytes| String::from_utf8(bytes).unwrap()), sent, "{name}");
            assert_eq!(key.bytes(Application { kitty: 4, ..CURSOR }), key.bytes(CURSOR), "{name}");
        }
    }

    /// As xterm's and tmux's tables have them.
    #[test]
    fn the_keypad_has_a_mode_of_its_own() {
        let cases = [
            ("KP0", "0", "\x1bOp"),
            ("kp1", "1", "\x1bOq"),
            ("KP9", "9", "\x1bOy"),
            ("KPEnter", "\r", "\x1bOM"),
            ("KP+", "+", "\x1bOk"),
            ("KP-", "-", "\x1bOm"),
            ("KP*", "*", "\x1bOj"),
            ("KP/", "/", "\x1bOo"),
            ("KP.", ".", "\x1bOn"),
            ("M-KP5", "\x1b5", "\x1b\x1bOu"),
        ];
        for (name, plain, keypad) in cases {
            let key = parse(name).unwrap_or_else(|| panic!("no {name:?}"));
            let sent = [NEITHER, CURSOR, KEYPAD].map(|mode| String::from_utf8(key.bytes(mode)).unwrap());
            assert_eq!(sent, [plain, plain, keypad], "{name}");
        }
        for name in ["Up", "Home", "5", "Enter", "F1"] {
            let key = parse(name).unwrap();
            assert_eq!(key.bytes(KEYPAD), key.bytes(NEITHER), "{name}");
        }
    }

    #[test]
    fn application_mode_changes_the_plain_cursor_keys_only() {
        let changed = [("Up", "\x1bOA"), ("Left", "\x1bOD"), ("Home", "\x1bOH"), ("End", "\x1bOF")];
        for (name, bytes) in changed {
            assert_eq!(parse(name).unwrap().bytes(CURSOR), bytes.as_bytes(), "{name}");
        }
        for name in ["C-Up", "M-Home", "F1", "F5", "PageUp", "a", "Enter", "BTab"] {
            let key = parse(name).unwrap();
            assert_eq!(key.bytes(CURSOR), key.bytes(NEITHER), "{name}");
        }
    }

    #[test]
    fn unknown_keys_are_rejected() {
        for name in [
            "", "KP", "KP10", "C-KP5", "S-KP+", "hello", "F0", "F13", "C-", "M-", "C-M-", "C-é", "C-1",
            "S-1", "X-a", "Ctrl-c", "C-hello",
        ] {
            assert_eq!(parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn any_name_is_a_key_or_none() {
        for (seed, mut random) in rounds(500) {
            for name in ["C-M-S-F12", "C-Left", "M-x", "PageUp", "S-Tab", "é", "^C", "C-@", "M-KP+"] {
                let name = String::from_utf8_lossy(&spoiled(name.as_bytes(), &mut random)).into_owned();
                for application in [NEITHER, CURSOR, KEYPAD] {
                    let bytes = parse(&name).map(|key| key.bytes(application));
                    assert!(
                        bytes.is_none_or(|bytes| (1..=16).contains(&bytes.len())),
                        "seed {seed}: {name:?}"
                    );
                }
            }
        }
    }
}
