//! The shell's own output around that of a command, where none of our marks separates the two.

use memchr::{memmem, memrchr};

use crate::{
    terminal::tokenizer::{BEL, ESC},
    worded::worded,
};

worded! {
    /// The position at which the output of a command begins.
    #[derive(Default)]
    pub(crate) enum Beginning {
        /// Behind the mark that reports it.
        #[default]
        Mark = "mark",
        /// There too, behind what fish does to its terminal: escape sequences, and a `\r`.
        MarkAndSequences = "sequences",
        /// In the next line, because no mark reports it.
        Line = "line",
        /// Behind the mark that reports it, once the shell has read the text.
        Text = "text",
    }
}

/// The length of a prompt of fish that has begun at the end of this output. After an interrupt, fish may report
/// the end of a command only in the prompt that follows.
pub(crate) fn fish_prompt(output: &[u8]) -> usize {
    /// Shows a missing newline; it is followed by blanks to the end of the row.
    const BEGINNING: &str = "\x1b[2m\u{23ce}";
    let at =
        memmem::find_iter(output, BEGINNING.as_bytes()).last().filter(|at| !output[*at..].contains(&b'\n'));
    at.map_or(0, |at| output.len() - at)
}

/// The length, in the text that a line editor has drawn or the kernel has echoed, of a command of so many
/// lines, to the typed end.
pub(crate) fn after_lines(shown: &[u8], lines: usize) -> usize {
    let Some(newline) = memchr::memchr_iter(b'\n', shown).nth(lines.saturating_sub(1)) else {
        return shown.len();
    };
    let rest = &shown[newline + 1..];
    let off = rest.strip_prefix(PASTE_OFF).and_then(|rest| rest.strip_prefix(b"\r"));
    shown.len() - off.unwrap_or(rest).len()
}

/// A line editor enables bracketed paste at its prompt, and not while a command runs.
const PASTE_ON: &[u8] = b"\x1b[?2004h";
const PASTE_OFF: &[u8] = b"\x1b[?2004l";

/// How much of the end of the present output may be the prompt of a line editor.
pub(crate) fn unreported_prompt(bytes: &[u8]) -> usize {
    let held = (1..PASTE_ON.len()).rev().find(|length| bytes.ends_with(&PASTE_ON[..*length])).unwrap_or(0);
    match memmem::find_iter(bytes, PASTE_ON).last() {
        Some(at) if memmem::find(&bytes[at..], PASTE_OFF).is_none() => bytes.len() - at,
        _ => held,
    }
}

/// Does the line at the end of these bytes, at most `longest`, have the mark by which fish, since 4.0, itself
/// reports that a command begins?
pub(crate) fn has_own_beginning(before: &[u8], longest: usize) -> bool {
    const OWN: &[u8] = b"\x1b]133;C;cmdline_url=";
    match memrchr(b'\n', before) {
        Some(newline) => memmem::find(&before[newline..], OWN).is_some(),
        None => before.len() == longest || memmem::find(before, OWN).is_some(),
    }
}

/// The length of the mark, at the end of a command's output, by which fish, since 4.0, itself reports the
/// end; or, if more may come, of the part that may be its beginning.
pub(crate) fn own_end(output: &[u8], complete: bool) -> usize {
    const OWN: &[u8] = b"\x1b]133;D;";
    let Some(start) = memrchr(ESC, output) else { return 0 };
    let mark = &output[start..];
    let is_it = match mark.strip_prefix(OWN) {
        Some([digits @ .., BEL]) => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        Some(digits) => !complete && digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit),
        None => !complete && OWN.starts_with(mark),
    };
    if is_it { mark.len() } else { 0 }
}

/// The length of a prompt without marks at the end of this output: the editor enables bracketed paste before the
/// prompt, or else the prompt has its own line.
pub(crate) fn unmarked_prompt(output: &[u8]) -> usize {
    let at = memmem::find_iter(output, PASTE_ON)
        .last()
        .or_else(|| memrchr(b'\n', output).map(|newline| newline + 1))
        .unwrap_or(0);
    output.len() - at
}

/// The length of the escape sequences at the start of these bytes, with a `\r` if one ends them; `None`: it
/// depends on bytes that are still to come.
pub(crate) fn sequences(bytes: &[u8], over: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let length = match rest {
            [b'\r', ..] => return Some(at + 1),
            [0x1b, b']', body @ ..] => body.iter().position(|byte| *byte == 0x07).map(|end| end + 3),
            [0x1b, b'[', body @ ..] => {
                body.iter().position(|byte| (0x40..=0x7e).contains(byte)).map(|end| end + 3)
            }
            [0x1b, b'(', _, ..] => Some(3),
            [0x1b, byte, ..] if *byte != b'(' => Some(2),
            [] | [0x1b, ..] => None,
            _ => return Some(0),
        };
        match length {
            Some(length) => at += length,
            None => return over.then_some(0),
        }
    }
}

/// How long what fish does to its terminal is before the output that begins with it.
pub(crate) fn own_sequences(output: &[u8]) -> usize {
    sequences(output, true).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_command_ends_with_its_last_line() {
        for (shown, lines, rest) in [
            ("\r\x1b[K\r$ a)\r\n\x1b[?2004l\rbash: x", 1, "bash: x"),
            ("$ a\r\nb)\r\nbash: x\r\n", 2, "bash: x\r\n"),
            ("$ a", 1, ""),
            ("$ a\r\n\x1b[?2004lx", 1, "\x1b[?2004lx"),
        ] {
            assert_eq!(&shown[after_lines(shown.as_bytes(), lines)..], rest, "{shown:?}");
        }
    }

    #[test]
    fn a_shell_with_a_start_mark_of_its_own_is_recognised() {
        for (before, is_told) in [
            ("$ \x1b]133;C;cmdline_url=x\x07\r\n", false),
            ("$ x\r\n\x1b[30m\x1b]133;C;cmdline_url=x\x07", true),
            ("$ x\r\n\x1b[30m\x1b]133;C;cmdline_url=x\x07\x1b[?2004l\x1b>", true),
            ("$ x\r\n\x1b[30m\x1b(B\x1b[m", false),
            ("\x1b]133;C;cmdline_url=x\x07", true),
            ("", false),
            (&"x".repeat(100), true),
            (&("x".repeat(99) + "\n"), false),
        ] {
            assert_eq!(has_own_beginning(before.as_bytes(), 100), is_told, "{before:?}");
        }
    }

    #[test]
    fn the_end_that_fish_marks_is_no_output() {
        for (output, complete, length) in [
            ("on\r\n\x1b]133;D;0\x07", true, 10),
            ("on\x1b]133;D;127\x07", false, 12),
            ("\x1b]133;D;0\x07\x1b]133;D;0\x07", true, 10),
            ("on\x1b]133;D;0", false, 9),
            ("on\x1b]13", false, 4),
            ("on\x1b]13", true, 0),
            ("on\x1b]133;D;0", true, 0),
            ("on\x1b]133;D;0\x07\n", false, 0),
            ("on\x1b]133;D;\x07", false, 0),
            ("on\x1b]133;D;1234", false, 0),
            ("on\x1b]133;A\x07", false, 0),
            ("on", false, 0),
        ] {
            assert_eq!(own_end(output.as_bytes(), complete), length, "{output:?}");
        }
    }

    #[test]
    fn the_output_of_an_interrupted_command_ends_before_the_prompt_of_fish() {
        let prompt = "\x1b[2m\u{23ce}\x1b(B\x1b[m  \r\u{23ce} \r\x1b[K\x1b]0;/\x07";
        for (output, length) in [
            (format!("out\r\n{prompt}"), prompt.len()),
            (prompt.to_owned(), prompt.len()),
            ("out\r\n".to_owned(), 0),
            (format!("{prompt}out\r\n"), 0),
        ] {
            assert_eq!(fish_prompt(output.as_bytes()), length, "{output:?}");
        }
    }

    #[test]
    fn the_terminal_setup_of_fish_ends_at_its_carriage_return() {
        for (bytes, over, length) in [
            ("\x1b[?2004l\x1b]0;x\x07\x1b(B\x1b[m\rhi", false, Some(21)),
            ("\x1b[?2004l\x1b]0;x", false, None),
            ("\x1b[?2004l\x1b]0;x", true, Some(0)),
            ("\x1b[1mhi", false, Some(0)),
            ("", false, None),
            ("", true, Some(0)),
            ("\rx", false, Some(1)),
        ] {
            assert_eq!(sequences(bytes.as_bytes(), over), length, "{bytes:?}");
        }
    }
}
