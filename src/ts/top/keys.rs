//! The keys that a user presses, from the bytes that a terminal sends.
//!
//! Pure. Unused keys are ignored.

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Text(char),
    Enter,
    Escape,
    Backspace,
    /// `C-u`: all that has been typed.
    Erase,
    /// `C-c`.
    Interrupt,
    /// `C-l`.
    Redraw,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// Longer than any sequence that is a key.
const LONGEST: usize = 32;

#[derive(Default)]
pub(crate) struct Keys {
    // The beginning of a sequence, or of a character.
    begun: Vec<u8>,
}

impl Keys {
    /// Something has come that may be a key by itself, or the beginning of one.
    pub(crate) fn is_unfinished(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Nothing else has come: it was a key by itself.
    pub(crate) fn finish(&mut self) -> Vec<Key> {
        let begun = std::mem::take(&mut self.begun);
        (begun.first() == Some(&0x1b)).then_some(Key::Escape).into_iter().collect()
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.begun.extend_from_slice(bytes);
        let mut keys = Vec::new();
        loop {
            match Keys::first(&self.begun) {
                First::None => return keys,
                First::Unfinished if self.begun.len() < LONGEST => return keys,
                First::Unfinished => self.begun.clear(),
                First::Key(key, length) => {
                    keys.extend(key);
                    self.begun.drain(..length);
                }
            }
        }
    }

    fn first(bytes: &[u8]) -> First {
        let Some(&byte) = bytes.first() else { return First::None };
        let control = |key| First::Key(Some(key), 1);
        match byte {
            b'\r' | b'\n' => control(Key::Enter),
            0x7f | 0x08 => control(Key::Backspace),
            0x15 => control(Key::Erase),
            0x03 => control(Key::Interrupt),
            0x0c => control(Key::Redraw),
            0x0e => control(Key::Down),
            0x10 => control(Key::Up),
            0x1b => Keys::sequence(bytes),
            0x00..=0x1f => First::Key(None, 1),
            _ => Keys::character(bytes),
        }
    }

    /// CSI and SS3; of another byte after an escape, that was a key by itself.
    fn sequence(bytes: &[u8]) -> First {
        let from = match bytes.get(1) {
            None => return First::Unfinished,
            Some(b'[' | b'O') => 2,
            Some(_) => return First::Key(Some(Key::Escape), 1),
        };
        let Some(length) = bytes[from..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
            let is_sequence = bytes[from..].iter().all(|byte| (0x20..=0x3f).contains(byte));
            return if is_sequence { First::Unfinished } else { First::Key(None, bytes.len()) };
        };
        let parameter = bytes[from..from + length].split(|byte| *byte == b';').next().unwrap_or_default();
        let key = match (bytes[from + length], parameter) {
            (b'A', _) => Some(Key::Up),
            (b'B', _) => Some(Key::Down),
            (b'H', _) | (b'~', b"1" | b"7") => Some(Key::Home),
            (b'F', _) | (b'~', b"4" | b"8") => Some(Key::End),
            (b'~', b"5") => Some(Key::PageUp),
            (b'~', b"6") => Some(Key::PageDown),
            (b'M', b"") if bytes[1] == b'O' => Some(Key::Enter),
            _ => None,
        };
        First::Key(key, from + length + 1)
    }

    fn character(bytes: &[u8]) -> First {
        let most = &bytes[..bytes.len().min(4)];
        let chunk = most.utf8_chunks().next();
        match chunk.as_ref().and_then(|chunk| chunk.valid().chars().next()) {
            Some(character) => {
                let key = (!character.is_control()).then_some(Key::Text(character));
                First::Key(key, character.len_utf8())
            }
            None => {
                let invalid = chunk.map_or(1, |chunk| chunk.invalid().len().max(1));
                // As far as it goes it may be one.
                let may_be = std::str::from_utf8(most).is_err_and(|error| error.error_len().is_none());
                if may_be { First::Unfinished } else { First::Key(None, invalid) }
            }
        }
    }
}

enum First {
    None,
    Unfinished,
    /// A key of this many bytes, or an unknown sequence.
    Key(Option<Key>, usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::rounds;

    fn pressed(bytes: &[u8]) -> Vec<Key> {
        let mut keys = Keys::default();
        let mut pressed = keys.feed(bytes);
        pressed.extend(keys.finish());
        pressed
    }

    #[test]
    fn keys_are_known_in_whichever_mode_the_terminal_is() {
        let text = |text: &str| text.chars().map(Key::Text).collect::<Vec<_>>();
        assert_eq!(pressed("jé漢".as_bytes()), text("jé漢"));
        assert_eq!(pressed(b"\x1b[A\x1bOA\x10"), [Key::Up; 3]);
        assert_eq!(pressed(b"\x1b[B\x1bOB\x0e\x1b[1;5B"), [Key::Down; 4]);
        assert_eq!(pressed(b"\x1b[5~\x1b[6~"), [Key::PageUp, Key::PageDown]);
        assert_eq!(pressed(b"\x1b[H\x1b[1~\x1bOF"), [Key::Home, Key::Home, Key::End]);
        assert_eq!(
            pressed(b"\r\x7f\x15\x03\x0c"),
            [Key::Enter, Key::Backspace, Key::Erase, Key::Interrupt, Key::Redraw]
        );
        assert_eq!(pressed(b"\x1b"), [Key::Escape]);
        assert_eq!(pressed(b"\x1bq"), [Key::Escape, Key::Text('q')]);
        assert_eq!(pressed(b"\x1b[15~\x1b[?1;2c\x00\x01"), []);
        assert_eq!(pressed(b"a\xffb\xc3"), text("ab"));
    }

    #[test]
    fn splitting_bytes_changes_no_key_and_nothing_accumulates() {
        let all = "j\x1b[A漢\x1bOB\x1b[5~\r".as_bytes();
        let whole = pressed(all);
        for cut in 0..all.len() {
            let mut keys = Keys::default();
            let mut pressed = keys.feed(&all[..cut]);
            pressed.extend(keys.feed(&all[cut..]));
            assert_eq!(pressed, whole, "{cut}");
        }
        for (seed, mut random) in rounds(500) {
            let mut keys = Keys::default();
            for _ in 0..20 {
                let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
                keys.feed(&bytes);
                assert!(keys.begun.len() <= LONGEST, "seed {seed}");
            }
        }
    }
}
