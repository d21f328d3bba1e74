//! How many cells a character takes, and what belongs to the one before it.
//!
//! Text is drawn in clusters, as people count letters, which ucs-detect measures terminals by: an
//! emoji with what is joined to it, a flag, a consonant with its marks. A cluster takes as many
//! cells as its first character; two, where a variation selector, a mark that is a column of its
//! own, or a joined consonant makes it wider. The tables are Unicode's (`width/tables.rs`).

mod tables;

pub(super) const TEXT_SELECTOR: char = '\u{fe0e}';
pub(super) const EMOJI_SELECTOR: char = '\u{fe0f}';

/// The cells that a character takes: 0, 1 or 2. It is no control character.
pub(crate) fn of(character: char) -> usize {
    let code = u32::from(character);
    // Most text is one of these.
    match code {
        0..0x300 | 0x370..0x483 | 0x2500..=0x25fc => return 1,
        0x3041..=0x3096 | 0x30a1..=0x30fa | 0x4e00..=0x9fff | 0xac00..=0xd7a3 => return 2,
        _ => {}
    }
    if is_in(tables::ZERO, code) { 0 } else { 1 + usize::from(is_in(tables::WIDE, code)) }
}

/// Does an emoji selector make it wider?
pub(super) fn widens(character: char) -> bool {
    is_in(tables::EMOJI, u32::from(character))
}

/// Does a text selector make it narrower?
pub(super) fn narrows(character: char) -> bool {
    is_in(tables::TEXT, u32::from(character))
}

/// A mark that is a column of its own beside what it belongs to.
pub(super) fn is_spacing(character: char) -> bool {
    is_in(tables::SPACING, u32::from(character))
}

/// Does it join the next consonant?
pub(super) fn is_virama(character: char) -> bool {
    is_in(tables::VIRAMA, u32::from(character))
}

/// Two of these are a flag.
pub(super) fn is_regional(character: char) -> bool {
    ('\u{1f1e6}'..='\u{1f1ff}').contains(&character)
}

/// The colour of a skin, behind an emoji.
pub(super) fn is_skin_tone(character: char) -> bool {
    ('\u{1f3fb}'..='\u{1f3ff}').contains(&character)
}

fn is_in(table: &[Range], code: u32) -> bool {
    let behind = table.partition_point(|range| range.first() <= code);
    behind.checked_sub(1).is_some_and(|at| code - table[at].first() < table[at].length())
}

/// A range of code points: the first one, above eleven bits for how many follow it.
#[derive(Clone, Copy)]
struct Range(u32);

impl Range {
    const BITS: u32 = 11;

    const fn new(first: u32, last: u32) -> Range {
        assert!(last - first < 1 << Range::BITS);
        Range(first << Range::BITS | (last - first))
    }

    fn first(self) -> u32 {
        self.0 >> Range::BITS
    }

    fn length(self) -> u32 {
        self.0 % (1 << Range::BITS) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_in_order() {
        for table in
            [tables::ZERO, tables::WIDE, tables::EMOJI, tables::TEXT, tables::SPACING, tables::VIRAMA]
        {
            assert!(table.windows(2).all(|pair| pair[0].first() + pair[0].length() <= pair[1].first()));
        }
    }

    #[test]
    fn the_fast_path_agrees_with_the_tables() {
        for character in (0xa0..0x20000).filter_map(char::from_u32) {
            let code = u32::from(character);
            let slow = if is_in(tables::ZERO, code) { 0 } else { 1 + usize::from(is_in(tables::WIDE, code)) };
            assert_eq!(of(character), slow, "{code:x}");
        }
    }
}
