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
    part(row, 0, cells)
}

/// The same, without the first `from` cells. Of a wide character that is cut there a blank
/// is left.
pub(crate) fn part(row: &str, from: usize, cells: usize) -> String {
    let (mut part_of_it, mut at, mut coloured) = (String::new(), 0, false);
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
            part_of_it += part;
            coloured = true;
            continue;
        }
        let end = at + width::of(character);
        if end > from + cells {
            break;
        }
        if at >= from && end > from {
            part_of_it += part;
        } else if end > from {
            part_of_it.extend(std::iter::repeat_n(' ', end - from));
        }
        at = end;
    }
    if coloured {
        part_of_it += "\x1b[0m";
    }
    part_of_it
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_row_is_cut_at_cells_on_both_sides() {
        for (row, from, cells, expected) in [
            ("abcdef", 2, 3, "cde"),
            ("abc", 3, 2, ""),
            ("漢字", 1, 3, " 字"),
            ("漢字", 0, 3, "漢"),
            ("e\u{301}x", 0, 1, "e\u{301}"),
            ("\x1b[31mab\x1b[0mcd", 1, 2, "\x1b[31mb\x1b[0mc\x1b[0m"),
        ] {
            assert_eq!(part(row, from, cells), expected, "{row:?} from {from}, {cells}");
        }
    }

    #[test]
    fn long_text_is_cut_at_a_cell_and_short_text_filled() {
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
