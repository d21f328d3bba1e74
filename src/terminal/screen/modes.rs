//! The modes that a program can set and ask about.

/// ANSI's modes, which have numbers of their own.
pub(super) const ANSI: u16 = 1 << 15;

/// A mode, by its place in [`MODES`].
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
const MODES: [(u16, At); 55] = [
    (7, Set),
    (ANSI + 4, Reset),
    (25, Set),
    (45, Reset),
    (1045, Reset),
    (ANSI + 20, Off),
    (41, Off),
    (69, Reset),
    (40, Off),
    (2026, Reset),
    (3, Off),
    (5, Off),
    (ANSI + 2, Reset),
    (ANSI + 12, Off),
    (1, Reset),
    (4, Off),
    (9, Off),
    (12, Off),
    (18, Off),
    (19, On),
    (30, Off),
    (35, Off),
    (42, Reset),
    (44, Off),
    (46, Off),
    (66, Reset),
    (67, Off),
    (95, Off),
    (1000, Off),
    (1001, Off),
    (1002, Off),
    (1003, Off),
    (1004, Off),
    (1005, Off),
    (1006, Off),
    (1007, Off),
    (1010, Off),
    (1011, Off),
    (1015, Off),
    (1016, Off),
    (1034, Off),
    (1035, On),
    (1036, On),
    (1037, Off),
    (1039, Off),
    (1040, Off),
    (1041, Off),
    (1042, Off),
    (1043, Off),
    (1046, On),
    (2004, Reset),
    (2031, Off),
    (2048, Off),
    (1070, On),
    (80, Off),
];

/// Modes that are always off: DECRQM distinguishes them from unknown ones. DECARM, and of
/// ANSI GATM, SRTM, VEM, HEM, PUM, FEAM, FETM, MATM, TTM, SATM, TSM and EBM; and DECHCCM.
const NEVER: [u16; 14] = [
    8,
    60,
    ANSI + 1,
    ANSI + 5,
    ANSI + 7,
    ANSI + 10,
    ANSI + 11,
    ANSI + 13,
    ANSI + 14,
    ANSI + 15,
    ANSI + 16,
    ANSI + 17,
    ANSI + 18,
    ANSI + 19,
];

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
        MODES.iter().position(|(known, _)| *known == number).map(|at| Mode(at as u8))
    }
}

/// Is it one that is always off?
pub(super) fn is_never_set(number: u16) -> bool {
    NEVER.contains(&number)
}

/// Which are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modes {
    // A bit for each of `MODES`.
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
    let ones = MODES.iter().enumerate().filter(|(_, (_, at))| is(*at));
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
        ((set | saved) >> MODES.len() == 0).then_some(Modes { set, saved })
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
        let numbers: std::collections::HashSet<_> = MODES.iter().map(|(number, _)| number).collect();
        assert_eq!(numbers.len(), MODES.len());
        assert!(!NEVER.iter().any(|number| numbers.contains(number)));
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
