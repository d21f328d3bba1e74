//! Typing what hands a command over to its shell, whether its call is still there or not.
//!
//! A key, or a line with its end, is typed at once. The end of another line waits until the line editor has drawn
//! the line: only then is what comes behind it the command's. A text waits until the shell reads it. Pure: what is
//! to be typed is taken from here, and what is seen of the shell is passed in.

use std::time::Duration;

use crate::{
    session::{
        client::job::{Handed, READING},
        shell::DeliveredBy,
    },
    sys::deadline::Deadline,
};

/// The kernel sends no event when a line editor waits for a key again: we look when there was output, and then at
/// intervals that grow from the first of these to the second.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LATER_LOOKS: Duration = Duration::from_millis(20);

pub(crate) struct Delivery {
    by: DeliveredBy,
    step: Step,
    // What is typed in this step, and how much of it has been.
    keys: Vec<u8>,
    typed: usize,
    // How long the log was at the beginning, and at the last look.
    since: u64,
    seen: u64,
    // Until when the shell may take no more of it, or draw it.
    give_up: Deadline,
    look: Deadline,
    interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The first keys are being typed.
    Keys,
    /// The line editor draws them.
    Drawing,
    /// The end of the line is being typed.
    Enter,
    /// The shell is about to read the text.
    Reading,
    /// The text is being typed, piece by piece.
    Text,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Wait,
    /// To look whether the line is drawn, and then [`Delivery::note_drawn`].
    Look,
    /// To pass on the next piece of the text, by [`Delivery::go_on`].
    Piece,
    /// All of it is typed.
    Done,
    /// The shell does not read.
    GiveUp,
}

impl Delivery {
    /// Of a command, by these keys, when the log has this length.
    pub(crate) fn new(by: DeliveredBy, keys: Vec<u8>, length: u64) -> Delivery {
        let mut delivery = Delivery {
            by,
            step: Step::Keys,
            keys,
            typed: 0,
            since: length,
            seen: length,
            give_up: Deadline::NEVER,
            look: Deadline::NEVER,
            interval: FIRST_LOOK,
        };
        // An empty command is an empty line.
        delivery.note_typed(0);
        delivery
    }

    /// How far the command has been handed over when the typing begins. `is_hidden`: nothing shows what is typed.
    pub(crate) fn handed(&self, is_hidden: bool) -> Handed {
        match self.by {
            DeliveredBy::Key => Handed::Whole,
            DeliveredBy::Line if is_hidden => Handed::Printed,
            DeliveredBy::Line => Handed::Next,
            DeliveredBy::DrawnLine | DeliveredBy::Text => Handed::InPart,
        }
    }

    /// What is to be typed now.
    pub(crate) fn keys(&self) -> &[u8] {
        &self.keys[self.typed..]
    }

    /// The line that is being drawn, and how long the log was before.
    pub(crate) fn line(&self) -> (&[u8], u64) {
        (&self.keys, self.since)
    }

    /// Must other input wait, because it would come into the middle?
    pub(crate) fn excludes_others(&self) -> bool {
        self.step != Step::Reading
    }

    /// Has the shell the line that makes it read the text? Then it reports how that has ended.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.step, Step::Reading | Step::Text)
    }

    /// Has some of it been typed?
    pub(crate) fn has_begun(&self) -> bool {
        self.step != Step::Keys || self.typed > 0
    }

    pub(crate) fn note_typed(&mut self, count: usize) {
        self.typed += count;
        self.give_up = Deadline::after(READING);
        if self.keys().is_empty() && self.step == Step::Keys {
            self.step = match self.by {
                DeliveredBy::Key | DeliveredBy::Line => Step::Enter,
                DeliveredBy::DrawnLine => Step::Drawing,
                DeliveredBy::Text => Step::Reading,
            };
            self.look = Deadline::after(Duration::ZERO);
        }
    }

    /// What to do now that the log has this length; `reads`: the shell reads the text.
    pub(crate) fn next(&self, length: u64, reads: bool) -> Next {
        let has_time = !self.give_up.has_passed();
        match self.step {
            Step::Drawing if length != self.seen || self.look.has_passed() || !has_time => Next::Look,
            Step::Drawing => Next::Wait,
            Step::Reading if reads => Next::Piece,
            Step::Reading => Next::Wait,
            _ if !self.keys().is_empty() => {
                if has_time {
                    Next::Wait
                } else {
                    Next::GiveUp
                }
            }
            Step::Text => Next::Piece,
            Step::Keys | Step::Enter => Next::Done,
        }
    }

    /// When to look, if nothing happens before.
    pub(crate) fn deadline(&self) -> Deadline {
        match self.step {
            Step::Drawing => self.look.min(self.give_up),
            Step::Reading => Deadline::NEVER,
            _ => self.give_up,
        }
    }

    /// The line is drawn, or not, as far as the log has this length. Returns whether its end is typed now: a shell
    /// that has not drawn it in time may draw nothing.
    pub(crate) fn note_drawn(&mut self, is_drawn: bool, length: u64) -> bool {
        let has_printed = length != std::mem::replace(&mut self.seen, length);
        if is_drawn || self.give_up.has_passed() {
            (self.step, self.keys, self.typed) = (Step::Enter, b"\r".to_vec(), 0);
            self.give_up = Deadline::after(READING);
            return true;
        }
        self.interval = if has_printed { FIRST_LOOK } else { (self.interval * 2).min(LATER_LOOKS) };
        self.look = Deadline::after(self.interval);
        false
    }

    /// Does the text begin now?
    pub(crate) fn is_first_piece(&self) -> bool {
        self.step == Step::Reading
    }

    /// The text goes on with this piece, which is empty if that was all.
    pub(crate) fn go_on(&mut self, piece: Vec<u8>) {
        let step = if piece.is_empty() { Step::Enter } else { Step::Text };
        (self.step, self.keys, self.typed) = (step, piece, 0);
        self.give_up = Deadline::after(READING);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One byte after the other is typed, as far as that goes; returns what was, and what comes next.
    fn typed(delivery: &mut Delivery, length: u64, reads: bool) -> (String, Next) {
        let mut typed = String::new();
        while let Some(byte) = delivery.keys().first().copied() {
            assert_eq!(delivery.next(length, reads), Next::Wait, "{typed:?}");
            typed.push(char::from(byte));
            delivery.note_typed(1);
        }
        (typed, delivery.next(length, reads))
    }

    fn delivery(by: DeliveredBy, keys: &str) -> Delivery {
        Delivery::new(by, keys.into(), 7)
    }

    #[test]
    fn each_way_types_what_it_has_in_its_order() {
        for by in [DeliveredBy::Key, DeliveredBy::Line] {
            let mut once = delivery(by, "ls\r");
            assert!(once.excludes_others() && !once.has_begun());
            assert_eq!(typed(&mut once, 9, false), ("ls\r".into(), Next::Done), "{by:?}");
        }
        let mut drawn = delivery(DeliveredBy::DrawnLine, "ls");
        assert_eq!(typed(&mut drawn, 7, false), ("ls".into(), Next::Look));
        assert_eq!(drawn.line(), (b"ls".as_slice(), 7));
        assert!(!drawn.note_drawn(false, 7));
        assert_eq!((drawn.next(7, false), drawn.next(8, false)), (Next::Wait, Next::Look));
        assert!(drawn.excludes_others() && drawn.deadline() != Deadline::NEVER);
        assert!(drawn.note_drawn(true, 8));
        assert_eq!(typed(&mut drawn, 8, false), ("\r".into(), Next::Done));

        assert_eq!(delivery(DeliveredBy::DrawnLine, "").next(7, false), Next::Look);

        let mut text = delivery(DeliveredBy::Text, "read\r");
        assert_eq!(typed(&mut text, 7, false), ("read\r".into(), Next::Wait));
        assert_eq!(
            (text.excludes_others(), text.deadline(), text.next(7, true)),
            (false, Deadline::NEVER, Next::Piece)
        );
        assert!(text.is_first_piece() && text.is_read());
        text.go_on("one".into());
        assert_eq!(typed(&mut text, 7, true), ("one".into(), Next::Piece));
        assert!(!text.is_first_piece() && text.is_read());
        text.go_on("two".into());
        assert_eq!(typed(&mut text, 7, true), ("two".into(), Next::Piece));
        text.go_on(Vec::new());
        assert_eq!(text.next(7, true), Next::Done);
    }

    #[test]
    fn what_comes_first_tells_how_far_it_is_handed_over() {
        let handed = |by, is_hidden| delivery(by, "").handed(is_hidden);
        assert_eq!(handed(DeliveredBy::Key, true), Handed::Whole);
        assert_eq!(
            [false, true].map(|hidden| handed(DeliveredBy::Line, hidden)),
            [Handed::Next, Handed::Printed]
        );
        assert_eq!(
            [DeliveredBy::DrawnLine, DeliveredBy::Text].map(|by| handed(by, true)),
            [Handed::InPart; 2]
        );
    }

    #[test]
    fn a_shell_that_does_not_read_is_given_up_and_one_that_does_not_draw_is_not() {
        let passed = Deadline::after(Duration::ZERO);
        let mut stuck = delivery(DeliveredBy::Line, "ls\r");
        stuck.note_typed(1);
        stuck.give_up = passed;
        assert_eq!(stuck.next(7, false), Next::GiveUp);
        let mut blind = delivery(DeliveredBy::DrawnLine, "ls");
        blind.note_typed(2);
        blind.give_up = passed;
        assert_eq!(blind.next(7, false), Next::Look);
        assert!(blind.note_drawn(false, 7));
        assert_eq!(typed(&mut blind, 7, false), ("\r".into(), Next::Done));
    }

    #[test]
    fn it_is_looked_at_less_and_less_often_until_something_is_printed() {
        let mut drawn = delivery(DeliveredBy::DrawnLine, "ls");
        drawn.note_typed(2);
        let mut interval = |length| {
            assert!(!drawn.note_drawn(false, length));
            drawn.interval
        };
        assert_eq!([interval(7), interval(7)], [FIRST_LOOK * 2, FIRST_LOOK * 4]);
        assert_eq!([interval(8), interval(8)], [FIRST_LOOK, FIRST_LOOK * 2]);
        assert_eq!((0..9).map(|_| interval(8)).last(), Some(LATER_LOOKS));
    }
}
