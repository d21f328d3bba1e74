//! Text in so many cells of a terminal's row.

use crate::terminal::screen::width;

/// How many cells a text takes. It has no control characters.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(width::of).sum()
}

/// A text in exactly so many cells: cut, with `…` for what is missing, or filled with
/// blanks. A wide character that does not fit leaves a blank.
pub(crate) fn fitted(text: &str, cells: usize) -> String {
    let mut text = shortened(text, cells);
    text.extend(std::iter::repeat_n(' ', cells - width(&text)));
    text
}

/// A text in no more than so many cells.
pub(crate) fn shortened(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut left = cells.saturating_sub(1);
    for character in text.chars() {
        let width = width::of(character);
        if width > left {
            break;
        }
        left -= width;
        short.push(character);
    }
    if cells > 0 {
        short.push('…');
    }
    short
}

/// As much of a row with its colours (`Screen::coloured_lines`) as fits into so many
/// cells; none of its colours go on after it.
pub(crate) fn clipped(row: &str, cells: usize) -> String {
    let (mut clipped, mut left, mut coloured) = (String::new(), cells, false);
    let mut rest = row;
    while let Some(character) = rest.chars().next() {
        // Such a row has no other sequences than SGR.
        let length = match character {
            '\x1b' => rest.find('m').map_or(rest.len(), |end| end + 1),
            other => other.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        rest = after;
        if character == '\x1b' {
            clipped += part;
            coloured = true;
            continue;
        }
        let width = width::of(character);
        if width > left {
            break;
        }
        left -= width;
        clipped += part;
    }
    if coloured {
        clipped += "\x1b[0m";
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_at_a_cell_and_what_is_short_is_filled() {
        for (text, cells, expected) in [
            ("abc", 5, "abc  "),
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("abcd", 1, "…"),
            ("abcd", 0, ""),
            ("", 2, "  "),
            ("漢字漢", 6, "漢字漢"),
            ("漢字漢", 5, "漢字…"),
            ("漢字漢", 4, "漢… "),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
        ] {
            assert_eq!(fitted(text, cells), expected, "{text:?} in {cells}");
        }
    }

    #[test]
    fn colours_take_no_cell_and_end_with_the_row() {
        let row = "\x1b[0;31mred\x1b[0;32m漢x";
        assert_eq!(clipped(row, 9), "\x1b[0;31mred\x1b[0;32m漢x\x1b[0m");
        assert_eq!(clipped(row, 4), "\x1b[0;31mred\x1b[0;32m\x1b[0m");
        assert_eq!(clipped(row, 0), "\x1b[0;31m\x1b[0m");
        assert_eq!(clipped("plain", 3), "pla");
    }
}
