//! Escape sequences, taken apart.
//!
//! The [`tokenizer`](super::tokenizer) finds where they begin and end; this parses their content.
//! It skips sequences that are too long to be meant, and does not keep them.

use crate::terminal::tokenizer::{State, Step, string_length};

/// More parameters than any program uses; those after them are passed over.
pub(super) const PARAMETERS: usize = 32;

/// The longest control string that is kept (a title); a longer one is passed over.
pub(super) const LONGEST_STRING: usize = 4096;

/// The beginning of a control string that fills a clipboard.
const CLIPBOARD: &[u8] = b"52;";

/// The longest that fills a clipboard.
pub(super) const LONGEST_CLIPBOARD: usize = 256 * 1024;

/// A sequence, as far as it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parser {
    pub(super) state: State,
    /// `?`, `>`, `<` or `=` before the parameters, or 0.
    pub(super) private: u8,
    /// The last byte before the final one that is neither, or 0.
    pub(super) intermediate: u8,
    // Invariant: of these, `count` are valid.
    pub(super) parameters: [Parameter; PARAMETERS],
    pub(super) count: usize,
    /// The content of a control string; none of one that has become too long, except `52;` of a
    /// clipboard's.
    pub(super) string: Vec<u8>,
    pub(super) too_long: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameter {
    /// `None` where it was left out.
    pub(super) value: Option<u16>,
    /// It came after a colon, and so belongs to the one before it.
    pub(super) is_sub: bool,
}

impl Parser {
    /// Takes ESC, or another byte while a sequence is under way.
    pub(super) fn take(&mut self, byte: u8) -> Step {
        let before = self.state;
        let step = self.state.take(byte);
        match (self.state, step) {
            (_, Step::Begin) => self.begin(),
            // The first byte of that ST has been kept.
            (_, Step::String(_)) if byte == 0x9c => drop(self.string.pop()),
            (State::String(_) | State::StringLead(_), _) => match before {
                State::String(_) | State::StringLead(_) => self.keep(&[byte]),
                _ => {
                    self.string.clear();
                    self.too_long = false;
                }
            },
            (_, Step::Part) if byte == 0x7f => {}
            (State::ControlParameters, Step::Part) => self.parameter(byte),
            (State::Intermediate | State::ControlIntermediate, Step::Part) => self.intermediate = byte,
            _ => {}
        }
        step
    }

    /// The same as [`Parser::take`] of each byte, for a control sequence that is whole and
    /// has no control in it: most sequences are that, and are taken twice as fast.
    pub(super) fn take_control_sequence(&mut self, sequence: &[u8]) -> Step {
        self.begin();
        self.state = State::Ground;
        let [_, _, inner @ .., last] = sequence else { return Step::Cancelled };
        let has_private = matches!(inner.first(), Some(b'<'..=b'?'));
        let is_parameter = |byte: &&u8| matches!(**byte, b'0'..=b';');
        let end = inner.iter().skip(usize::from(has_private)).take_while(is_parameter).count();
        let (parameters, intermediates) = inner.split_at(end + usize::from(has_private));
        if intermediates.iter().any(|byte| *byte >= b'0') {
            return Step::Cancelled;
        }
        parameters.iter().for_each(|byte| self.parameter(*byte));
        self.intermediate = intermediates.last().copied().unwrap_or(0);
        Step::ControlSequence(*last)
    }

    /// Takes the last byte of a C1 control.
    pub(super) fn c1(&mut self, byte: u8) -> Step {
        self.begin();
        self.state = State::Escape;
        self.take(byte - 0x40)
    }

    fn begin(&mut self) {
        (self.private, self.intermediate, self.count) = (0, 0, 0);
        self.parameters[0] = Parameter::default();
    }

    /// Is the control string one that fills the clipboard, whole or not?
    pub(super) fn is_clipboard(&self) -> bool {
        self.state.introducer() == Some(b']') && self.string.starts_with(CLIPBOARD)
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.too_long {
            return;
        }
        // Its first bytes decide how long it may be, however it is split.
        let (first, rest) =
            bytes.split_at(bytes.len().min(CLIPBOARD.len().saturating_sub(self.string.len())));
        self.string.extend_from_slice(first);
        let is_clipboard = self.is_clipboard();
        let longest = if is_clipboard { LONGEST_CLIPBOARD } else { LONGEST_STRING };
        if self.string.len() + rest.len() > longest {
            // That it is a clipboard's is still to be seen.
            self.string.truncate(if is_clipboard { CLIPBOARD.len() } else { 0 });
            self.too_long = true;
        } else {
            self.string.extend_from_slice(rest);
        }
    }

    fn parameter(&mut self, byte: u8) {
        match byte {
            b'0'..=b'9' => self.digit(byte),
            b':' | b';' => self.next_parameter(byte == b':'),
            _ => self.private = byte,
        }
    }

    fn digit(&mut self, byte: u8) {
        self.count = self.count.max(1);
        if let Some(parameter) = self.parameters[..self.count].last_mut() {
            let value = u32::from(parameter.value.unwrap_or(0)) * 10 + u32::from(byte - b'0');
            parameter.value = Some(value.min(u32::from(u16::MAX)) as u16);
        }
    }

    fn next_parameter(&mut self, is_sub: bool) {
        // The last one takes what is too much, and is worth nothing.
        self.count = (self.count.max(1) + 1).min(PARAMETERS);
        self.parameters[self.count - 1] = Parameter { value: None, is_sub };
    }

    /// The value of a parameter that is at least 1, which it also is if it was left out.
    pub(super) fn count_at(&self, index: usize) -> usize {
        usize::from(self.value(index).unwrap_or(1).max(1))
    }

    pub(super) fn value(&self, index: usize) -> Option<u16> {
        self.parameters[..self.count].get(index)?.value
    }

    /// The values of all parameters, 0 being that of one which was left out.
    pub(super) fn values(&self) -> impl Iterator<Item = u16> {
        self.parameters[..self.count].iter().map(|parameter| parameter.value.unwrap_or(0))
    }

    pub(super) fn has_subs(&self) -> bool {
        self.parameters[..self.count].iter().any(|parameter| parameter.is_sub)
    }

    /// Takes what of these bytes only makes a control string longer; gives how many it took.
    pub(super) fn take_string(&mut self, bytes: &[u8]) -> usize {
        let State::String(_) = self.state else { return 0 };
        let length = string_length(bytes);
        self.keep(&bytes[..length]);
        length
    }
}
