//! The private modes (DEC's) that a program has set by what it printed, as far
//! as they change what a keyboard sends.
//!
//! A pure state machine that sees every byte once, so it is right across any
//! split. A sequence never outgrows its state: what is no sequence of ours, or
//! too long for one, is passed over to its end.

/// `CSI ? 1 h`, DECCKM.
const APPLICATION_CURSOR: u32 = 1;
/// `CSI ? 2004 h`.
const BRACKETED_PASTE: u32 = 2004;

/// More modes than anybody sets in one sequence.
const MOST: usize = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrivateModes {
    pub(crate) application_cursor: bool,
    pub(crate) bracketed_paste: bool,
    state: State,
    // The parameters so far. Invariant: `count <= MOST`.
    parameters: [u32; MOST],
    count: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// `CSI`, and nothing else yet.
    Begun,
    /// `CSI ?`, and parameters.
    Private,
    /// `CSI !`.
    Soft,
    /// A sequence that is none of ours, up to its end.
    Other,
}

impl PrivateModes {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.state == State::Ground {
                match memchr::memchr(0x1b, rest) {
                    Some(at) => rest = &rest[at..],
                    None => return,
                }
            }
            self.take(rest[0]);
            rest = &rest[1..];
        }
    }

    fn take(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            // ESC breaks off whatever it is in; CAN and SUB do, too.
            (_, 0x1b) => State::Escape,
            (_, 0x18 | 0x1a) => State::Ground,
            // Other controls are obeyed within a sequence, which goes on.
            (state, ..=0x1f | 0x7f) => state,
            (State::Escape, b'[') => State::Begun,
            (State::Escape, b'c') => {
                *self = PrivateModes::default();
                State::Ground
            }
            (State::Ground | State::Escape, _) => State::Ground,
            (State::Begun, b'?') => {
                (self.count, self.parameters[0]) = (1, 0);
                State::Private
            }
            (State::Begun, b'!') => State::Soft,
            (State::Private, digit @ b'0'..=b'9') => {
                let parameter = &mut self.parameters[self.count - 1];
                *parameter = parameter.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
                State::Private
            }
            (State::Private, b';') if self.count < MOST => {
                self.parameters[self.count] = 0;
                self.count += 1;
                State::Private
            }
            (State::Private, b'h' | b'l') => {
                self.set(byte == b'h');
                State::Ground
            }
            (State::Soft, b'p') => {
                *self = PrivateModes::default();
                State::Ground
            }
            (State::Begun | State::Private | State::Soft | State::Other, b'@'..=b'~') => State::Ground,
            (State::Begun | State::Private | State::Soft | State::Other, _) => State::Other,
        };
    }

    fn set(&mut self, on: bool) {
        for parameter in &self.parameters[..self.count] {
            match *parameter {
                APPLICATION_CURSOR => self.application_cursor = on,
                BRACKETED_PASTE => self.bracketed_paste = on,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{pieces, rounds, spoiled};

    fn after(bytes: &str) -> (bool, bool) {
        let mut modes = PrivateModes::default();
        modes.feed(bytes.as_bytes());
        let whole = (modes.application_cursor, modes.bracketed_paste);
        let mut modes = PrivateModes::default();
        bytes.as_bytes().iter().for_each(|byte| modes.feed(&[*byte]));
        assert_eq!((modes.application_cursor, modes.bracketed_paste), whole, "split: {bytes:?}");
        whole
    }

    #[test]
    fn modes_are_as_they_were_set_last() {
        let cases = [
            ("", (false, false)),
            ("\x1b[?1h", (true, false)),
            ("\x1b[?1h\x1b[?1l", (false, false)),
            ("text\x1b[?2004htext", (false, true)),
            ("\x1b[?1;2004h", (true, true)),
            ("\x1b[?12;25;2004;1h\x1b[?1l", (false, true)),
            ("\x1b[?1;2004h\x1bc", (false, false)),
            ("\x1b[?1;2004h\x1b[!p", (false, false)),
            // Not private, not set, not whole.
            ("\x1b[1h\x1b[2004h", (false, false)),
            ("\x1b[?1$p", (false, false)),
            ("\x1b[?1\x1b[?2004h", (false, true)),
            ("\x1b[?1\x18h", (false, false)),
            ("\x1b[?1\nh", (true, false)),
            ("\x1b[>?1h", (false, false)),
            ("\x1b[?99999999999999999999h", (false, false)),
            ("\x1b]0;\x1b[?1h", (true, false)),
            ("\x1b[?1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1h\x1b[?2004h", (false, true)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(after(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn no_split_and_no_rubbish_changes_what_follows() {
        let right = b"\x1b[?1h text \x1b[?2004;1;7l\x1b[!p\x1bc\x1b[?1;2004h \xc3\xa9\x1b]0;t\x07";
        for (seed, mut random) in rounds(500) {
            let printed = spoiled(right, &mut random);
            let after = |pieces: &[&[u8]]| {
                let mut modes = PrivateModes::default();
                pieces.iter().for_each(|piece| modes.feed(piece));
                let now = (modes.application_cursor, modes.bracketed_paste);
                modes.feed(b"\x1b[?1l\x1b[?2004h");
                assert_eq!((modes.application_cursor, modes.bracketed_paste), (false, true), "seed {seed}");
                now
            };
            assert_eq!(after(&pieces(&printed, 9, &mut random)), after(&[&printed]), "seed {seed}");
        }
    }
}
