//! The one place that decides where escape sequences begin and end in output.
//!
//! The grammar is that of ECMA-48 as Paul Williams' parser for the VT500 reads it
//! (vt100.net/emu/dec_ansi_parser) and xterm does (ctlseqs, and `VTPrsTbl.c`). Terminals
//! disagree on some of it; here
//!
//! - BEL ends an OSC, and no other control string: in a DCS, SOS, PM or APC it is a part;
//! - a control string is whole where ST ends it (or BEL, an OSC). CAN, SUB and whatever
//!   else begins with ESC break it off, and then it is not obeyed;
//! - a C0 control within a sequence is obeyed at once, as if it stood before it, and the
//!   sequence goes on; within a control string it is a part of that;
//! - DEL within a sequence is nothing;
//! - C1 controls are known as characters only: U+009B is CSI, while the byte 9B is the middle
//!   of many letters (so VTE and GNU screen; xterm where it decodes UTF-8). They break off a
//!   control string as ESC does, and U+009C ends it;
//! - any other byte from 80 on breaks off what is no control string, and is text;
//! - a control sequence with a parameter where none can be (`CSI 1 ? h`, `CSI $ 1 p`) is
//!   passed over as a whole.
//!
//! Nothing is kept here: what a sequence consists of is for [`super::parser`].

use memchr::memchr2_iter;

pub(crate) const BEL: u8 = 0x07;
pub(crate) const CAN: u8 = 0x18;
pub(crate) const SUB: u8 = 0x1a;
pub(crate) const ESC: u8 = 0x1b;

/// The first byte of U+0080..U+00BF in UTF-8, and so of every C1 control.
pub(crate) const C1_LEAD: u8 = 0xc2;

/// How far a sequence has come. A control string is known by the final byte of what
/// introduced it: `]` of OSC, `P` of DCS, `X` of SOS, `^` of PM, `_` of APC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// There is none.
    #[default]
    Ground,
    /// ESC.
    Escape,
    /// ESC and intermediate bytes: `ESC ( B`, `ESC # 8`.
    Intermediate,
    /// CSI.
    Control,
    /// CSI and parameters.
    ControlParameters,
    /// CSI and intermediate bytes, before which there may be parameters.
    ControlIntermediate,
    /// CSI and what can be none.
    ControlMalformed,
    String(u8),
    /// A control string whose last byte was the first of a C1 control, perhaps of ST.
    StringLead(u8),
    /// ESC in a control string, which may be that of ST.
    StringEscape(u8),
}

/// The role of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A part of a sequence that goes on.
    Part,
    /// A C0 control within a sequence, which goes on.
    Control(u8),
    /// The final byte of `ESC x`, perhaps with intermediate bytes.
    Escape(u8),
    /// The final byte of a control sequence.
    ControlSequence(u8),
    /// The last byte of a control string, which began with this.
    String(u8),
    /// The last byte of what is not obeyed.
    Cancelled,
    /// The ESC of another sequence, or of ST. It ends the present one.
    Begin,
    /// With the byte before it a C1 control, which breaks off a control string. To be
    /// given to [`State::c1`].
    C1(u8),
    /// No part of what was under way, which is over: to be looked at again, as text.
    Again,
}

impl State {
    /// Takes ESC, or another byte while a sequence is under way.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> Step {
        use State::*;
        let (next, step) = match (*self, byte) {
            (StringEscape(introducer), b'\\') => (Ground, Step::String(introducer)),
            (StringEscape(_), _) => {
                *self = Escape;
                return self.take(byte);
            }
            (StringLead(introducer), 0x9c) => (Ground, Step::String(introducer)),
            (StringLead(_), 0x80..=0x9f) => (Ground, Step::C1(byte)),
            (_, CAN | SUB) => (Ground, Step::Cancelled),
            (String(introducer) | StringLead(introducer), ESC) => (StringEscape(introducer), Step::Begin),
            (_, ESC) => (Escape, Step::Begin),
            (String(b']') | StringLead(b']'), BEL) => (Ground, Step::String(b']')),
            (String(introducer) | StringLead(introducer), C1_LEAD) => (StringLead(introducer), Step::Part),
            (String(introducer) | StringLead(introducer), _) => (String(introducer), Step::Part),

            (state, 0x00..=0x1f) => (state, Step::Control(byte)),
            (state, 0x7f) => (state, Step::Part),
            (_, 0x80..) => (Ground, Step::Again),

            (Escape, b'[') => (Control, Step::Part),
            (Escape, b']' | b'P' | b'X' | b'^' | b'_') => (String(byte), Step::Part),
            (Escape | Intermediate, 0x20..=0x2f) => (Intermediate, Step::Part),
            (Ground | Escape | Intermediate, _) => (Ground, Step::Escape(byte)),

            (Control, b'<'..=b'?') => (ControlParameters, Step::Part),
            (Control | ControlParameters, b'0'..=b';') => (ControlParameters, Step::Part),
            (Control | ControlParameters | ControlIntermediate, 0x20..=0x2f) => {
                (ControlIntermediate, Step::Part)
            }
            (_, 0x20..=0x3f) => (ControlMalformed, Step::Part),
            (ControlMalformed, _) => (Ground, Step::Cancelled),
            (_, _) => (Ground, Step::ControlSequence(byte)),
        };
        *self = next;
        step
    }

    /// Takes the last byte of a C1 control, which is short for ESC and the byte 0x40 below
    /// it (ECMA-48, 5.3).
    pub(crate) fn c1(&mut self, byte: u8) -> Step {
        *self = State::Escape;
        self.take(byte - 0x40)
    }

    /// That of the control string which is under way, or may be at its end.
    pub(crate) fn introducer(self) -> Option<u8> {
        match self {
            State::String(introducer) | State::StringLead(introducer) | State::StringEscape(introducer) => {
                Some(introducer)
            }
            _ => None,
        }
    }
}

/// How much text there is before the next ESC, or C1 control or what may become one.
pub(crate) fn text_length(bytes: &[u8]) -> usize {
    memchr2_iter(ESC, C1_LEAD, bytes)
        .find(|&at| bytes[at] == ESC || bytes.get(at + 1).is_none_or(|&next| is_c1(next)))
        .unwrap_or(bytes.len())
}

/// How many of these bytes cannot end a control string: pictures are megabytes of that.
pub(crate) fn string_length(bytes: &[u8]) -> usize {
    let may_end = |byte: &u8| matches!(*byte, BEL | CAN | SUB | ESC | C1_LEAD);
    bytes.iter().position(may_end).unwrap_or(bytes.len())
}

/// The length of the control sequence that stands here whole and without controls in it.
/// Most sequences are that, and one byte at a time takes three times as long.
pub(crate) fn control_sequence_length(bytes: &[u8]) -> Option<usize> {
    let [ESC, b'[', parameters @ ..] = bytes else { return None };
    let length = parameters.iter().position(|byte| !matches!(byte, 0x20..=0x3f))?;
    matches!(parameters[length], 0x40..=0x7e).then_some(length + 3)
}

/// Is it the last byte of a C1 control whose first is [`C1_LEAD`]?
pub(crate) fn is_c1(byte: u8) -> bool {
    matches!(byte, 0x80..=0x9f)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The role of each byte; `(` is a C1 control that introduces more, `()` one that does not.
    fn steps(bytes: &[u8]) -> String {
        let mut state = State::Ground;
        let mut shown = String::new();
        for &byte in bytes {
            let step = match state {
                State::Ground if byte != ESC => Step::Again,
                _ => state.take(byte),
            };
            shown += match step {
                Step::Part => ".",
                Step::Control(_) => "c",
                Step::Escape(_) => "E",
                Step::ControlSequence(_) => "F",
                Step::String(_) => "S",
                Step::Cancelled => "x",
                Step::Begin => "<",
                Step::C1(byte) => match state.c1(byte) {
                    Step::Part => "(",
                    _ => "()",
                },
                Step::Again => "-",
            };
        }
        shown
    }

    #[test]
    fn disputed_sequences_end_as_documented() {
        for (bytes, shown) in [
            // BEL ends an OSC alone; ST ends all, in two forms.
            (&b"\x1b]0;t\x07a"[..], "<....S-"),
            (b"\x1bPq\x07a\x1b\\a", "<....<S-"),
            (b"\x1b_G\x07\x1b\\", "<...<S"),
            (b"\x1b]0\xc2\x9ca", "<...S-"),
            (b"\x1bXs\xc2\x9ca", "<...S-"),
            // Half a C1 control is a part, and so is a whole one's last byte alone.
            (b"\x1b]0\xc2\xc2\x9c", "<....S"),
            (b"\x1b]0\x9c\xc2\x07", "<....S"),
            // The start of another sequence breaks it off.
            (b"\x1b]0\x1b[m", "<..<.F"),
            (b"\x1b]0\x1b\x1b\\", "<..<<E"),
            (b"\x1b]0\x1bc", "<..<E"),
            (b"\x1b]0\x1b\n\\", "<..<cE"),
            (b"\x1b]0\xc2\x9bm", "<...(F"),
            (b"\x1bP0\xc2\x85a", "<...()-"),
            (b"\x1b]0\x18a", "<..x-"),
            (b"\x1bP0\x1aa", "<..x-"),
            (b"\x1b]0\x1b\x18a", "<..<x-"),
            // Controls within a sequence, and DEL.
            (b"\x1b\n[3\x071\x7fm", "<c..c..F"),
            (b"\x1b]0;\n\t\x7f\x07", "<......S"),
            (b"\x1b[3\x18m", "<..x-"),
            (b"\x1b(\x1aB", "<.x-"),
            (b"\x1b[3\x1b[m", "<..<.F"),
            // Text breaks off what is no control string.
            (b"\x1b[3\xc3\xa9", "<..--"),
            (b"\x1b\xff", "<-"),
            (b"\x1b(\x9bB", "<.--"),
            (b"\x1b]0\xc3\xa9\x07", "<....S"),
            // After intermediate bytes nothing is an introducer.
            (b"\x1b#[a", "<.E-"),
            (b"\x1b$(C", "<..E"),
            // Control sequences, whole and malformed.
            (b"\x1b[?1;2:3$pa", "<........F-"),
            (b"\x1b[>?1ha", "<....x-"),
            (b"\x1b[1?ha", "<...x-"),
            (b"\x1b[$1pa", "<...x-"),
            (b"\x1b[@\x1b[~", "<.F<.F"),
        ] {
            assert_eq!(steps(bytes), shown, "{}", bytes.escape_ascii());
        }
    }
}
