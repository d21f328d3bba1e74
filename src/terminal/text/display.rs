//! Output and typed text, shown on a line: control characters escaped, and the last lines that a
//! person can see.

use std::{collections::VecDeque, fmt};

use crate::terminal::text::strip::Strip;

pub(crate) fn push(text: &mut String, part: fmt::Arguments) {
    fmt::Write::write_fmt(text, part).expect("a String takes all");
}

/// Other people's bytes on one line, so that no terminal acts on any of them.
///
/// For reading, not for parsing back: a backslash stays as it is.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut line = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            push_escaped(character, &mut line);
        }
        for byte in chunk.invalid() {
            line += &format!("\\x{byte:02x}");
        }
    }
    line
}

/// Line and paragraph separators, and what turns the direction of writing: it can make a
/// line read as what it is not.
pub(crate) fn is_misleading(character: char) -> bool {
    matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push_escaped(character: char, line: &mut String) {
    match character {
        '\n' => *line += "\\n",
        '\r' => *line += "\\r",
        '\t' => *line += "\\t",
        '\x1b' => *line += "\\e",
        '\0'..='\x1f' | '\x7f' => *line += &format!("\\x{:02x}", u32::from(character)),
        '\u{80}'..='\u{9f}' => line.extend(character.escape_unicode()),
        _ if is_misleading(character) => line.extend(character.escape_unicode()),
        _ => line.push(character),
    }
}

/// The last `count` lines with anything visible in them, oldest first.
///
/// They are as they were printed, escape sequences and all, but without `\n` and the
/// `\r`s before it. A last line without `\n` counts and is taken as it is.
pub(crate) fn last_visible_lines(tail: &[u8], count: usize) -> Vec<Vec<u8>> {
    let mut last = VecDeque::new();
    for line in visible_lines(tail) {
        last.push_back(line.printed);
        if last.len() > count {
            last.pop_front();
        }
    }
    last.into_iter().map(|printed| without_line_end(printed).to_vec()).collect()
}

/// The last visible line as a person would read it, for a message of one line: of a progress bar that
/// overwrote itself with `\r`, only the last state.
pub(crate) fn last_line_shown(tail: &[u8]) -> Option<String> {
    line_shown(&visible_lines(tail).last()?)
}

/// The same; if that is a border, the last line that is none, if there is any.
pub(crate) fn last_words_shown(tail: &[u8]) -> Option<String> {
    let shown: Vec<String> = visible_lines(tail).filter_map(|line| line_shown(&line)).collect();
    shown.iter().rev().find(|line| !is_border(line)).or(shown.last()).cloned()
}

fn line_shown(line: &VisibleLine) -> Option<String> {
    let part = line.text.rsplit(|&byte| byte == b'\r').find(|part| is_visible(part))?;
    Some(shortened(escaped(part.trim_ascii()).trim()))
}

/// Is it the edge of a box, or a rule across the screen? No words are in it.
fn is_border(row: &str) -> bool {
    let is_drawn = |character| ('\u{2500}'..='\u{259f}').contains(&character);
    let is_rule = || row.chars().count() > 3 && row.chars().all(|character| "-=_+|".contains(character));
    !row.contains(is_letter_or_digit) && (row.contains(is_drawn) || is_rule())
}

/// Is it a letter or a digit of any script? This is an approximation by blocks: the exact tables of
/// `char::is_alphanumeric` would take 2 KB of the file. No shell gives any of these a meaning: those that compose
/// to ASCII characters (U+037E, U+1FEF) and those that fish uses internally (from U+FDD0) are left out.
pub(crate) fn is_letter_or_digit(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || matches!(character, 'ª' | 'µ' | 'º' | 'À'..='Ö' | 'Ø'..='ö' | 'ø'..='\u{37d}' | '\u{37f}'..='\u{61b}')
        || matches!(character, '\u{61d}'..='\u{1fee}' | '\u{1ff0}'..='\u{1fff}')
        || matches!(character, '\u{2c00}'..='\u{2dff}' | '々'..='〇' | '\u{3041}'..='\u{d7ff}')
        || matches!(character, '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
        || matches!(character, '０'..='９' | 'Ａ'..='Ｚ' | 'ａ'..='ｚ' | 'ｦ'..='\u{ffdc}')
        || matches!(character, '\u{10000}'..='\u{1cfff}' | '\u{20000}'..='\u{3ffff}')
}

struct VisibleLine<'a> {
    printed: &'a [u8],
    /// The line without escape sequences.
    text: Vec<u8>,
}

/// One `Strip` reads all lines, because a sequence may go on beyond the end of a line
/// (sixel pictures do) and what it has there is no text either.
fn visible_lines(tail: &[u8]) -> impl Iterator<Item = VisibleLine<'_>> {
    let mut strip = Strip::new();
    tail.split_inclusive(|&byte| byte == b'\n')
        .map(move |printed| {
            let mut text = Vec::new();
            strip.feed(printed, &mut text);
            if !printed.ends_with(b"\n") {
                strip.finish(&mut text);
            }
            VisibleLine { printed, text }
        })
        .filter(|line| is_visible(&line.text))
}

/// Invalid bytes are visible: terminals draw a replacement character for them.
fn is_visible(text: &[u8]) -> bool {
    let has_ink = |character: char| !character.is_whitespace() && !character.is_control();
    text.utf8_chunks().any(|chunk| chunk.valid().chars().any(has_ink) || !chunk.invalid().is_empty())
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let Some(mut line) = line.strip_suffix(b"\n") else { return line };
    while let Some(shorter) = line.strip_suffix(b"\r") {
        line = shorter;
    }
    line
}

/// Enough to recognise a line by, and still one line of a message.
const SHOWN_LIMIT: usize = 200;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_LIMIT) {
        None => text.to_owned(),
        Some(_) => text.chars().take(SHOWN_LIMIT - 1).chain(['…']).collect(),
    }
}

/// Does a line end as prompts and questions do? Nothing else is known of a program that does not
/// report whether it waits.
pub(crate) fn asks(line: &str) -> bool {
    let line = line.trim();
    line == "..." || line.ends_with(['$', '#', '>', '%', ')', ']', ':', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_or_a_question_is_known_by_its_end() {
        for line in ["me@host:~$ ", "root# ", ">>> ", "...", "% ", "Go on? [y/N] ", "(gdb)", "Password: "] {
            assert!(asks(line), "{line:?}");
        }
        for line in ["", "Compiling", "50.", "* Starting ..", "loading...", "say \"no\""] {
            assert!(!asks(line), "{line:?}");
        }
    }
    use crate::{
        rounds::rounds,
        terminal::text::tests::{Bytes, noise, shown},
    };

    #[test]
    fn letters_and_digits_of_any_script_are_words_and_drawings_are_not() {
        for character in "aZ0éßΩжאاअก漢々かカ한ｱ９Ａµﻣ".chars() {
            assert!(is_letter_or_digit(character) && character.is_alphanumeric(), "{character}");
        }
        for character in
            " $_-%>❯λ→─│█»×…€。、“\u{85}\u{9b}\u{a0}\u{200b}\u{2028}\u{feff}\u{e0b0}\u{37e}\u{1fef}\u{fdd2}😀"
                .chars()
        {
            assert_eq!(is_letter_or_digit(character), character == 'λ', "{character}");
        }
    }

    #[test]
    fn other_peoples_bytes_are_shown_on_one_line() {
        let cases: &[(Bytes, &str)] = &[
            (b"plain text", "plain text"),
            ("café 漢 😀".as_bytes(), "café 漢 😀"),
            (b"\n\r\t\x1b[1m", r"\n\r\t\e[1m"),
            (b"\0\x07\x08\x1f\x7f", r"\x00\x07\x08\x1f\x7f"),
            (b"C:\\new", r"C:\new"),
            (b"\xff\x9b caf\xc3", r"\xff\x9b caf\xc3"),
            ("\u{80}\u{9b}\u{9f}\u{a0}".as_bytes(), "\\u{80}\\u{9b}\\u{9f}\u{a0}"),
            ("\u{2027}\u{2028}\u{2029}".as_bytes(), "\u{2027}\\u{2028}\\u{2029}"),
            ("\u{202a}\u{202e}\u{202f}".as_bytes(), "\\u{202a}\\u{202e}\u{202f}"),
            ("\u{2065}\u{2066}\u{2069}\u{206a}".as_bytes(), "\u{2065}\\u{2066}\\u{2069}\u{206a}"),
        ];
        for (bytes, line) in cases {
            assert_eq!(escaped(bytes), *line);
        }
    }

    #[test]
    fn escaped_text_has_no_controls() {
        for (seed, mut random) in rounds(200) {
            let mut bytes = noise(&mut random);
            bytes.extend((0..300).map(|_| random.u8(..)));
            assert!(!escaped(&bytes).chars().any(char::is_control), "seed {seed}");
        }
    }

    #[test]
    fn the_last_lines_are_those_with_anything_visible_in_them() {
        let cases: &[(Bytes, usize, &[Bytes])] = &[
            (b"", 5, &[]),
            (b"\n\r\n \t\n", 5, &[]),
            (b"one\ntwo\nthree\n", 2, &[b"two", b"three"]),
            (b"one\ntwo\n", 0, &[]),
            (b"one\n\n  \ntwo\n\n", 5, &[b"one", b"two"]),
            (b"one\r\ntwo\r\r\n", 5, &[b"one", b"two"]),
            (b"10%\r20%\r\n", 5, &[b"10%\r20%"]),
            (b"one\ncut o", 5, &[b"one", b"cut o"]),
            (b"one\ncut\r", 5, &[b"one", b"cut\r"]),
            (b"one\ncaf\xc3", 5, &[b"one", b"caf\xc3"]),
            (b"one\n\xc3", 5, &[b"one", b"\xc3"]),
            (b"  indented  \n", 5, &[b"  indented  "]),
            (b"\x1b[31mred\x1b[0m\n\x1b[0m\n", 5, &[b"\x1b[31mred\x1b[0m"]),
            (b"\x1b]133;A\x07$ \n\x1b]133;D;0\x07\x1b]7;file:///\x07\n", 5, &[b"\x1b]133;A\x07$ "]),
            (b"\x07\x08\0\n", 5, &[]),
            ("\u{a0}\u{3000}\n漢\n".as_bytes(), 5, &["漢".as_bytes()]),
            // A picture is not visible text, on however many lines its data stands.
            (b"one\n\x1bPq#0~~\n#1@@\n\x1b\\\ntwo\n", 5, &[b"one", b"two"]),
            // A control goes on with the line before, a final byte with the sequence.
            (b"one\x1b[3\n1mtwo\n", 5, &[b"one\x1b[3", b"1mtwo"]),
        ];
        for (tail, count, lines) in cases {
            assert_eq!(last_visible_lines(tail, *count), *lines, "{}", shown(tail));
        }
    }

    #[test]
    fn the_last_line_is_shown_as_a_person_would_read_it() {
        let cases: &[(Bytes, Option<&str>)] = &[
            (b"", None),
            (b"\r\n\x1b[0m\n", None),
            (b"one\ntwo\n\n", Some("two")),
            (b"  \x1b[1merror:\x1b[0m no such file \r\n", Some("error: no such file")),
            (b"10%\r20%\r30%\n", Some("30%")),
            (b"10%\r20%\r \r\x1b[K", Some("20%")),
            (b"Password: ", Some("Password:")),
            (b"a\tb\x07\xff", Some(r"a\tb\x07\xff")),
            ("\u{3000}漢\u{a0}\n".as_bytes(), Some("漢")),
            (b"one\x1b[3\n1mtwo\n", Some("two")),
        ];
        for (tail, line) in cases {
            assert_eq!(last_line_shown(tail).as_deref(), *line, "{}", shown(tail));
        }
    }

    #[test]
    fn a_long_last_line_is_cut() {
        let line = |length| "é".repeat(length);
        assert_eq!(last_line_shown(line(200).as_bytes()), Some(line(200)));
        assert_eq!(last_line_shown(line(201).as_bytes()), Some(line(199) + "…"));
    }
}
