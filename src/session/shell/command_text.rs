//! The text of a command as the terminal shows it, from its prompt to where it begins.
//!
//! The line editor may have drawn it piece by piece, over a search or again on a cleared screen: so the text
//! is taken from an emulator's cells, and not from the bytes.
//!
//! Pure.

use memchr::{memchr, memmem, memrchr};

use crate::{
    session::shell::{command::Dialect, marks},
    terminal::{cells, screen::Screen, text, tokenizer::BEL},
};

/// Switches bracketed paste off, as line editors do when a line is entered.
const LEAVES_EDITOR: &[u8] = b"\x1b[?2004l";

/// No command that is looked at has more rows.
const MOST_ROWS: usize = 400;

/// `row` is the text of the row in which the prompt begins, and `drawn` all from there to where the command
/// begins.
pub(crate) fn command_text(row: &[u8], drawn: &[u8], cols: u16, dialect: Dialect) -> String {
    let is_fish = dialect == Dialect::Fish;
    let newlines = memchr::memchr_iter(b'\n', drawn).count();
    let rows = (newlines + (row.len() + drawn.len()) / usize::from(cols.max(1)) + 3).min(MOST_ROWS);
    let mut screen = Screen::showing(cols, rows as u16, row);
    // The start of the line drawn now, behind its prompt; and the lines before it.
    let (mut from, mut lines, mut at) = (screen.place_after(), Vec::new(), 0);
    loop {
        let mark = next_mark(&drawn[at..]);
        let piece = &drawn[at..mark.map_or(drawn.len(), |(_, next)| at + next)];
        let (end, may_have_more) = entered(piece);
        if dialect == Dialect::Posix {
            draw(&mut screen, &piece[..end], cols)
        } else {
            screen.feed(&piece[..end])
        }
        let to = screen.place_after();
        // fish leaves the cursor at the end.
        let mut line = screen.text(from, (to.0, if is_fish { to.1 } else { usize::MAX }));
        if may_have_more || is_fish && to.0 > from.0 {
            // It is not before the cursor.
            let own = if to.0 == from.0 { screen.text(from, to).len() } else { 0 };
            remove_right_prompt(&mut line, own, usize::from(cols).saturating_sub(from.1));
        }
        let Some((kind, next)) = mark else {
            if is_fish {
                line = without_margin(&line, from.1);
            }
            lines.push(line);
            return lines.join("\n").trim_end().to_owned();
        };
        screen.feed(&piece[end..]);
        at += next;
        let place = screen.place_after();
        if kind == b'B' {
            lines.clear();
        } else if place.0 > from.0 {
            lines.push(line);
        }
        from = place;
    }
}

/// The bytes by which busybox continues in the next row.
const NEXT_ROW: &[u8] = b"\r\r\n";

/// Draws a line on several rows as one.
fn draw(screen: &mut Screen, mut drawn: &[u8], cols: u16) {
    while let Some(at) = memmem::find(drawn, NEXT_ROW) {
        let (before, rest) = drawn.split_at(at);
        let (end, rest) = rest.split_at(NEXT_ROW.len());
        screen.feed(before);
        if screen.place_after().1 < usize::from(cols) {
            screen.feed(end);
        }
        drawn = rest;
    }
    screen.feed(drawn);
}

/// Does the drawing end at the end of a row, where busybox continues in the next one?
pub(crate) fn fills_row(row: &[u8], drawn: &[u8], cols: u16) -> bool {
    let Some(drawn) = drawn.strip_suffix(NEXT_ROW) else { return false };
    let mut screen = Screen::showing(cols, MOST_ROWS as u16, row);
    draw(&mut screen, drawn, cols);
    screen.place_after().1 == usize::from(cols)
}

/// Removes the blanks that fish draws before each line of a command but the first.
fn without_margin(command: &str, margin: usize) -> String {
    let mut lines = command.split('\n');
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |command, line| {
        let blanks = line.bytes().take(margin).take_while(|byte| *byte == b' ').count();
        command + "\n" + &line[blanks..]
    })
}

/// Removes a prompt at the right from a line's first row, which has `room` cells, and whose first `own` bytes
/// belong to the line.
fn remove_right_prompt(line: &mut String, own: usize, room: usize) {
    let row = line.find('\n').unwrap_or(line.len());
    let width = cells::width(&line[..row]);
    if width <= room
        && width + 2 >= room
        && let Some(rest) = line[..row].get(own..)
        && let Some(widest @ 2..) = rest.split(|character| character != ' ').map(str::len).max()
        && let Some(gap) = rest.rfind(&" ".repeat(widest))
    {
        let kept = line[..own + gap].trim_end().len();
        line.replace_range(kept..row, "");
    }
}

/// The position at which the line has been entered: the shell prints the rest. And whether such a shell may
/// have a prompt at the right.
fn entered(drawn: &[u8]) -> (usize, bool) {
    let left = memmem::find_iter(drawn, LEAVES_EDITOR).last();
    let cut = left.unwrap_or(drawn.len());
    let newline = memrchr(b'\n', &drawn[..cut]);
    let (end, may_have_more) = match newline {
        Some(newline) if left.is_none() || shows_nothing(&drawn[newline + 1..cut]) => (newline, false),
        // The editor is left before the newline.
        _ => (memchr(b'\n', &drawn[cut..]).map_or(cut, |newline| cut + newline), true),
    };
    let kept = drawn[..end].iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last + 1);
    (kept, may_have_more)
}

fn shows_nothing(bytes: &[u8]) -> bool {
    text::stripped(bytes).iter().all(|byte| matches!(byte, b'\r' | b' '))
}

/// The next mark at which a line begins, and where that ends.
fn next_mark(bytes: &[u8]) -> Option<(u8, usize)> {
    let mut at = 0;
    loop {
        at += memmem::find(&bytes[at..], marks::OPENING)? + marks::OPENING.len();
        let kind = *bytes.get(at)?;
        if matches!(kind, b'B' | b'P') && bytes[at + 1..].starts_with(marks::TAG.as_bytes()) {
            return Some((kind, at + memchr(BEL, &bytes[at..])? + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_what_stands_on_the_terminal() {
        let cases: &[(&str, &str, &str)] = &[
            ("plain, of bash", "$ @B@ls -l\r\n\x1b[?2004l\r", "ls -l"),
            ("without bracketed paste", "$ @B@ls -l\r\n", "ls -l"),
            ("behind it a PS0", "$ @B@ls\r\n\x1b[?2004l\r[12:00]\r\n", "ls"),
            ("edited", "$ @B@lx\x08s\x1b[K -l\r\n", "ls -l"),
            (
                "by a search",
                "$ @B@\r(reverse-i-search)`': \x1b[Ke\x08\x08\x08e': echo\r\x1b[K$ @B@echo x\r\n\x1b[?2004l\r",
                "echo x",
            ),
            ("cleared", "$ @B@ec\x1b[H\x1b[2J$ @B@echo\r\n", "echo"),
            ("on two rows", "$ @B@0123456789abcdefghijkl\r\n", "0123456789abcdefghijkl"),
            ("wide at the end of a row", "$ @B@0123456789abcdefg漢x\r\n", "0123456789abcdefg漢x"),
            ("of two lines", "$ @B@echo 'a\r\n> @P@b'\r\n\x1b[?2004l\r", "echo 'a\nb'"),
            ("the second drawn again", "$ @B@echo 'a\r\n> @P@\r> @P@b'\r\n", "echo 'a\nb'"),
            ("with a prompt at the right", "% @B@\x1b[12Cright\x1b[17Dls\x1b[?2004l\r\r\n", "ls"),
            (
                "of two lines, with one",
                "% @B@\x1b[12Cright\x1b[17Dls\x1b[?2004l\r\r\n> @P@-l\x1b[?2004l\r\r\n",
                "ls\n-l",
            ),
            (
                "edited, with a prompt at the right",
                "% @B@\x1b[12Cright\x1b[17Decho b\x08ab\x08\x1b[?2004l\r\r\n",
                "echo ab",
            ),
            ("nothing", "$ @B@\r\n", ""),
        ];
        for (name, drawn, text) in cases {
            let mark = |kind| format!("\x1b]133;{kind};nbs=secret.1\x07");
            let drawn = drawn.replace("@B@", &mark('B')).replace("@P@", &mark('P'));
            assert_eq!(command_text(b"", drawn.as_bytes(), 20, Dialect::Zsh), *text, "{name}");
        }
        let drawn = "$ \x1b]133;B;nbs=secret.1\x07echo 0123456789\r\n";
        assert_eq!(command_text(b"no end", drawn.as_bytes(), 20, Dialect::Bash), "echo 0123456789");
    }
    #[test]
    fn fish_shows_a_prompt_at_the_right_and_a_margin() {
        let cases = [
            ("a prompt at the right", "\r\x1b[15C12:34\r\x1b[2Cls -l\r\n\x1b[m", "ls -l"),
            ("with gaps", "\r\x1b[11Cat  12:34\r\x1b[2Cls\r\n\x1b[m", "ls"),
            (
                "lines",
                "begin\r\n      ls\r\n      'a\r\n    b'\r\n  end\r\n\x1b[m",
                "begin\n    ls\n    'a\n  b'\nend",
            ),
            (
                "lines and a prompt",
                "\r\x1b[11Cat  12:34\r\x1b[2Cif x\r\n      y\r\n  end\r\n",
                "if x\n    y\nend",
            ),
            ("a row that is full", "echo  '0123456789'\r\n", "echo  '0123456789'"),
        ];
        for (name, drawn, text) in cases {
            let drawn = "> \x1b]133;B;nbs=secret.1\x07".to_owned() + drawn;
            assert_eq!(command_text(b"", drawn.as_bytes(), 20, Dialect::Fish), text, "{name}");
        }
    }
}
