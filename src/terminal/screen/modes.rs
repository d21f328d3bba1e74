//! The modes that a program can set and ask about.

/// ANSI's modes, which have numbers of their own.
pub(super) const ANSI: u16 = 1 << 15;

/// A mode, by its place in [`NUMBERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode(u8);

/// The initial value of a mode, and the effect of DECSTR on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Off,
    On,
    /// Off at first, and DECSTR makes it so again.
    Reset,
    /// On, the same.
    Set,
}

use At::*;

/// Those that can be set. Some change nothing here: of a keyboard, of a mouse, of a window.
#[rustfmt::skip]
const NUMBERS: [u16; 55] = [
    7, ANSI + 4, 25, 45, 1045, ANSI + 20, 41, 69, 40, 2026, 3, 5, ANSI + 2, ANSI + 12, 1, 4, 9, 12, 18, 19,
    30, 35, 42, 44, 46, 66, 67, 95, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1010, 1011, 1015, 1016,
    1034, 1035, 1036, 1037, 1039, 1040, 1041, 1042, 1043, 1046, 2004, 2031, 2048, 1070, 80,
];

/// Is it a mode of ANSI's, and which one?
fn split(number: u16) -> (bool, u16) {
    (number & ANSI != 0, number & !ANSI)
}

fn at(number: u16) -> At {
    match split(number) {
        (false, 7 | 25) => Set,
        (false, 19 | 1035 | 1036 | 1046 | 1070) => On,
        (false, 1 | 42 | 45 | 66 | 69 | 1045 | 2004 | 2026) | (true, 2 | 4) => Reset,
        _ => Off,
    }
}

impl Mode {
    /// DECAWM.
    pub(super) const WRAPS: Mode = Mode(0);
    /// IRM.
    pub(super) const INSERTS: Mode = Mode(1);
    /// DECTCEM.
    pub(super) const CURSOR: Mode = Mode(2);
    pub(super) const WRAPS_BACK: Mode = Mode(3);
    pub(super) const WRAPS_BACK_FAR: Mode = Mode(4);
    /// LNM.
    pub(super) const NEW_LINE: Mode = Mode(5);
    /// A tab at a pending wrap is on the next line.
    pub(super) const MORE_FIX: Mode = Mode(6);
    /// DECLRMM.
    pub(super) const SIDE_MARGINS: Mode = Mode(7);
    /// DECCOLM is obeyed.
    pub(super) const MAY_CHANGE_COLUMNS: Mode = Mode(8);
    /// Synchronized output.
    pub(super) const UPDATES: Mode = Mode(9);

    pub(super) fn of(number: u16) -> Option<Mode> {
        NUMBERS.iter().position(|known| *known == number).map(|at| Mode(at as u8))
    }
}

/// Is it one that is always off? DECRQM distinguishes them from unknown ones. They are DECARM, and of
/// ANSI GATM, SRTM, VEM, HEM, PUM, FEAM, FETM, MATM, TTM, SATM, TSM and EBM; and DECHCCM.
pub(super) fn is_never_set(number: u16) -> bool {
    matches!(split(number), (false, 8 | 60) | (true, 1 | 5 | 7 | 10 | 11 | 13..=19))
}

/// Which are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modes {
    // A bit for each of `NUMBERS`.
    set: u64,
    /// As XTSAVE has kept them.
    saved: u64,
}

impl Default for Modes {
    fn default() -> Modes {
        let set = bits(|at| matches!(at, On | Set));
        Modes { set, saved: set }
    }
}

fn bits(is: fn(At) -> bool) -> u64 {
    let ones = NUMBERS.into_iter().enumerate().filter(|(_, number)| is(at(*number)));
    ones.fold(0, |bits, (place, _)| bits | 1 << place)
}

impl Modes {
    pub(super) fn has(self, mode: Mode) -> bool {
        self.set & 1 << mode.0 != 0
    }

    pub(super) fn set(&mut self, mode: Mode, on: bool) {
        self.set = self.set & !(1 << mode.0) | u64::from(on) << mode.0;
    }

    pub(super) fn save(&mut self, mode: Mode) {
        self.saved = self.saved & !(1 << mode.0) | self.set & 1 << mode.0;
    }

    pub(super) fn was_saved(self, mode: Mode) -> bool {
        self.saved & 1 << mode.0 != 0
    }

    /// DECSTR leaves alone what is about a mouse, a window or a printer.
    pub(super) fn soft_reset(&mut self) {
        self.set = self.set & !bits(|at| at == Reset) | bits(|at| at == Set);
    }

    /// As numbers, and back.
    pub(super) fn encode(self) -> [u64; 2] {
        [self.set, self.saved]
    }

    pub(super) fn decode([set, saved]: [u64; 2]) -> Option<Modes> {
        ((set | saved) >> NUMBERS.len() == 0).then_some(Modes { set, saved })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_is_at_its_place() {
        for (mode, number) in [
            (Mode::WRAPS, 7),
            (Mode::INSERTS, ANSI + 4),
            (Mode::CURSOR, 25),
            (Mode::WRAPS_BACK, 45),
            (Mode::WRAPS_BACK_FAR, 1045),
            (Mode::NEW_LINE, ANSI + 20),
            (Mode::MORE_FIX, 41),
            (Mode::SIDE_MARGINS, 69),
            (Mode::MAY_CHANGE_COLUMNS, 40),
            (Mode::UPDATES, 2026),
        ] {
            assert_eq!(Mode::of(number), Some(mode), "{number}");
        }
        let numbers = std::collections::HashSet::from(NUMBERS);
        assert_eq!(numbers.len(), NUMBERS.len());
        assert!(!NUMBERS.into_iter().any(is_never_set));
    }

    #[test]
    fn a_soft_reset_leaves_what_is_not_about_writing() {
        let mut modes = Modes::default();
        for number in [7, 25] {
            modes.set(Mode::of(number).unwrap(), false);
        }
        for number in [45, 1000, ANSI + 4] {
            modes.set(Mode::of(number).unwrap(), true);
        }
        modes.soft_reset();
        let on = [7, 25, 45, 1000, ANSI + 4].map(|number| modes.has(Mode::of(number).unwrap()));
        assert_eq!(on, [true, true, false, true, false]);
    }
}
