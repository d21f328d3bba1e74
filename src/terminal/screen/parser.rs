//! Escape sequences, taken apart.
//!
//! The same grammar as that of [`crate::terminal::text::Strip`], but with what stands in a
//! sequence: that one must give back what was no sequence, byte by byte, this one
//! wants the parameters. What is too long to be meant is passed over, not kept.

/// More parameters than any program uses; those after them are passed over.
pub(super) const PARAMETERS: usize = 32;

/// The longest control string that is kept (a title); a longer one is passed over.
pub(super) const LONGEST_STRING: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ParserState {
    #[default]
    Ground,
    Escape,
    /// ESC and intermediate bytes.
    Intermediate,
    /// CSI and what stands before its final byte.
    ControlSequence,
    /// OSC, and whether it has become too long.
    Command {
        too_long: bool,
    },
    /// DCS, SOS, PM, APC: nothing in them is for us.
    Other,
}

/// A sequence, as far as it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parser {
    pub(super) state: ParserState,
    /// `?`, `>`, `<` or `=` before the parameters, or 0.
    pub(super) private: u8,
    /// The last byte before the final one that is neither, or 0.
    pub(super) intermediate: u8,
    // Invariant: of these, `count` are valid.
    pub(super) parameters: [Parameter; PARAMETERS],
    pub(super) count: usize,
    pub(super) string: Vec<u8>,
    /// The first byte of a C1 control was the last one of a control string.
    pub(super) lead: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameter {
    /// `None` where it was left out.
    pub(super) value: Option<u16>,
    /// It came after a colon, and so belongs to the one before it.
    pub(super) is_sub: bool,
}

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// A control character.
    Control(u8),
    /// `ESC x`, perhaps with an intermediate byte.
    Escape(u8),
    /// A control sequence's final byte.
    ControlSequence(u8),
    /// An OSC has ended.
    Command,
    /// It was no sequence: the byte is to be looked at again.
    Again,
}

const C1_LEAD: u8 = 0xc2;

impl Parser {
    /// Takes ESC, or another byte while a sequence is under way.
    pub(super) fn take(&mut self, byte: u8) -> Action {
        use ParserState::*;
        match (self.state, byte) {
            (_, 0x18 | 0x1a) => self.end(Action::Nothing),
            (Command { .. }, 0x1b) => {
                let ended = self.end(Action::Command);
                self.begin();
                ended
            }
            (_, 0x1b) => {
                self.begin();
                Action::Nothing
            }

            (Command { .. }, 0x07) => self.end(Action::Command),
            (Command { .. } | Other, 0x80..=0x9f) if self.lead => self.c1_in_string(byte),
            (Command { .. }, _) => {
                self.lead = byte == C1_LEAD;
                self.keep(byte);
                Action::Nothing
            }
            (Other, _) => {
                self.lead = byte == C1_LEAD;
                Action::Nothing
            }

            (_, 0x00..=0x1f) => Action::Control(byte),
            (_, 0x7f) => Action::Nothing,
            (_, 0x80..) => self.end(Action::Again),

            (Escape, b'[') => self.enter(ControlSequence),
            (Escape, b']') => self.enter(Command { too_long: false }),
            (Escape, b'P' | b'X' | b'^' | b'_') => self.enter(Other),
            (Escape | Intermediate, 0x20..=0x2f) => {
                self.intermediate = byte;
                self.enter(Intermediate)
            }
            (ControlSequence, b'0'..=b'9') => self.digit(byte),
            (ControlSequence, b':' | b';') => self.next_parameter(byte == b':'),
            (ControlSequence, b'<'..=b'?') => {
                self.private = byte;
                Action::Nothing
            }
            (ControlSequence, 0x20..=0x2f) => {
                self.intermediate = byte;
                Action::Nothing
            }
            (ControlSequence, _) => self.end(Action::ControlSequence(byte)),
            _ => self.end(Action::Escape(byte)),
        }
    }

    /// A C1 control, which is short for ESC and the byte 0x40 below it.
    pub(super) fn c1(&mut self, byte: u8) -> Action {
        self.begin();
        self.take(byte - 0x40)
    }

    fn c1_in_string(&mut self, byte: u8) -> Action {
        if self.state == ParserState::Other {
            return self.c1(byte);
        }
        self.string.pop();
        let ended = self.end(Action::Command);
        if byte != 0x9c {
            self.begin();
            // None of them is an action by itself inside a string that ends.
            self.take(byte - 0x40);
        }
        ended
    }

    fn begin(&mut self) {
        self.state = ParserState::Escape;
        (self.private, self.intermediate, self.count, self.lead) = (0, 0, 0, false);
        self.parameters[0] = Parameter::default();
    }

    fn enter(&mut self, state: ParserState) -> Action {
        if matches!(state, ParserState::Command { .. }) {
            self.string.clear();
        }
        self.state = state;
        Action::Nothing
    }

    fn end(&mut self, action: Action) -> Action {
        self.state = ParserState::Ground;
        self.lead = false;
        action
    }

    fn keep(&mut self, byte: u8) {
        if self.string.len() == LONGEST_STRING {
            self.string.clear();
            self.state = ParserState::Command { too_long: true };
        }
        if self.state == (ParserState::Command { too_long: false }) {
            self.string.push(byte);
        }
    }

    fn digit(&mut self, byte: u8) -> Action {
        self.count = self.count.max(1);
        if let Some(parameter) = self.parameters[..self.count].last_mut() {
            let value = u32::from(parameter.value.unwrap_or(0)) * 10 + u32::from(byte - b'0');
            parameter.value = Some(value.min(u32::from(u16::MAX)) as u16);
        }
        Action::Nothing
    }

    fn next_parameter(&mut self, is_sub: bool) -> Action {
        self.count = self.count.max(1) + 1;
        if self.count > PARAMETERS {
            // The last one takes what is too much, and is worth nothing.
            self.count = PARAMETERS;
        }
        self.parameters[self.count - 1] = Parameter { value: None, is_sub };
        Action::Nothing
    }

    /// The value of a parameter that is at least 1, which it also is if it was left out.
    pub(super) fn count_at(&self, index: usize) -> usize {
        usize::from(self.value(index).unwrap_or(1).max(1))
    }

    pub(super) fn value(&self, index: usize) -> Option<u16> {
        self.parameters[..self.count].get(index)?.value
    }

    pub(super) fn has_subs(&self) -> bool {
        self.parameters[..self.count].iter().any(|parameter| parameter.is_sub)
    }

    /// How much of these bytes cannot end the control string that is under way.
    pub(super) fn string_length(&self, bytes: &[u8]) -> usize {
        let may_end = |byte: &u8| matches!(*byte, 0x07 | 0x18 | 0x1a | 0x1b | C1_LEAD);
        let passes_over = matches!(self.state, ParserState::Command { too_long: true } | ParserState::Other);
        if passes_over && !self.lead {
            return bytes.iter().position(may_end).unwrap_or(bytes.len());
        }
        0
    }
}
