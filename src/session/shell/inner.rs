//! A nested shell, to which we cannot pass a file: it may be another user's, in a chroot, or on another
//! machine. We type everything it needs.
//!
//! The first line is typed as people type, and visible for a moment: it switches the echo off, reports that,
//! and executes the next line, which reads the startup code. That clears the first line, removes it from the
//! history, and shows the shell's first prompt. `run` types a command as it is, if it is a line of plain
//! text; any other text is read in the same way. Hidden text is typed as short lines of plain text, ended by
//! `.`, in the form of printf's `%b`.

use memchr::memmem;

use crate::{
    session::shell::{Dialect, startup},
    sys::pty::Size,
    terminal::{screen::Screen, text},
};

/// A terminal in canonical mode takes 4,095 bytes of a line (termios(3)), and some shells
/// read a byte at a time: so not too many either.
const LONGEST_LINE: usize = 2_000;

/// The line typed to find out whether there is a shell. Its answer is recognised by `nonce`: hexadecimal
/// digits.
pub(crate) fn first_line(dialect: Dialect, nonce: &str) -> Vec<u8> {
    let said = format!("printf '\\33]133;Q;{nonce}\\a'");
    match dialect {
        Dialect::Fish => {
            format!(" sh -c 'stty -echo;printf \"\\33]133;Q;{nonce}\\7\">&2;read -r c;eval \"$c\"'|source\r")
        }
        _ => format!(" stty -echo;{said};read -r REPLY;eval \"$REPLY\"\r"),
    }
    .into_bytes()
}

/// How its answer begins.
pub(crate) const ANSWER: &[u8] = b"\x1b]133;Q;";

/// The answer that the shell prints to this line.
pub(crate) fn first_answer(nonce: &str) -> Vec<u8> {
    [ANSWER, nonce.as_bytes(), b"\x07"].concat()
}

/// Was it typed to a fish? That has another `read`, which shows a prompt. On another machine, nothing shows
/// this earlier.
pub(crate) fn is_fish(output: &[u8], nonce: &str) -> bool {
    let answer = first_answer(nonce);
    let Some(at) = memmem::find(output, &answer) else { return false };
    memmem::find(&text::stripped(&output[at + answer.len()..]), b"read> ").is_some()
}

/// The next line, hidden: it makes the shell print its kind, and read its script.
pub(crate) fn second_line(dialect: Dialect, nonce: &str) -> Vec<u8> {
    let read = "__nbs_c=;while IFS= read -r __nbs_l&&[ \"$__nbs_l\" != . ];do __nbs_c=$__nbs_c$__nbs_l;done";
    let line = match dialect {
        Dialect::Fish => {
            format!("printf '\\33]133;Q;%s;fish;\\7' {nonce} >&2;{read};printf %b \"$__nbs_c\"")
        }
        _ => format!(
            "printf '\\33]133;Q;%s;%s;%s\\7' {nonce} \"${{BASH_VERSION:+bash}}${{ZSH_VERSION:+zsh}}\" \
             \"${{BASH_VERSION-}}$( (: >/dev/tty) 2>&-&&printf ' tty')\";{read};eval \"$(printf %b \"$__nbs_c\")\""
        ),
    };
    (line + "\n").into_bytes()
}

/// The shell's kind, as it has printed it; `None`: it has not.
pub(crate) fn told(output: &[u8], nonce: &str) -> Option<Dialect> {
    let opening = format!("\x1b]133;Q;{nonce};");
    let at = memmem::find(output, opening.as_bytes())? + opening.len();
    let length = memchr::memchr(0x07, &output[at..])?;
    let (name, rest) = std::str::from_utf8(&output[at..at + length]).ok()?.split_once(';')?;
    let (version, has_terminal) = match rest.strip_suffix(" tty") {
        Some(version) => (version, true),
        None => (rest, false),
    };
    Some(match name {
        "fish" => Dialect::Fish,
        "zsh" if has_terminal => Dialect::Zsh,
        "bash" if has_terminal && is_new_bash(version) => Dialect::Bash,
        _ => Dialect::Posix,
    })
}

/// PS0 is of bash 4.4.
fn is_new_bash(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(4), Some(4))
}

/// The lines that make a shell report. `drawn` is the drawn form of the first line.
pub(crate) fn script(dialect: Dialect, secret: &str, nonce: &str, drawn: &Drawn) -> Vec<u8> {
    let mut script = startup::inner(dialect, secret);
    let clear = drawn.clearing_rows();
    let (show, unset) = match dialect {
        Dialect::Fish => ("printf '%b' '@CLEAR@' >/dev/tty", ""),
        _ => ("printf '%b' '@CLEAR@' >&2", "unset REPLY __nbs_c __nbs_l"),
    };
    if dialect == Dialect::Bash {
        script += "__nbs_c=$(HISTTIMEFORMAT= builtin history 1 2>&-)\n\
                   if [[ $__nbs_c == *@NONCE@* && $__nbs_c =~ ([0-9]+) ]]; then builtin history -d \"${BASH_REMATCH[1]}\"; fi\n";
    }
    script += &format!("stty echo 2>&- || :\n{show}\n{unset}\n");
    let script = script.replace("@NONCE@", nonce).replace("@CLEAR@", &escaped(clear.as_bytes()));
    lines(script.as_bytes())
}

/// The hidden text typed for a command of this number, behind [`clearing`]: the rest of the text to show in place of
/// the line, and the text.
pub(crate) fn text(secret: &str, seq: u64, command: &[u8]) -> Vec<u8> {
    let mut shown = hidden_up_to_here(secret);
    shown += &as_typed(command);
    shown += &format!("\n\x1b]133;S;nbs={secret}.{seq}\x07");
    [lines(shown.as_bytes()), lines(command)].concat()
}

/// What comes first: it clears the line that was `drawn`.
pub(crate) fn clearing(drawn: &Drawn) -> Vec<u8> {
    escaped(drawn.clearing_line().as_bytes()).into_bytes()
}

fn hidden_up_to_here(secret: &str) -> String {
    format!("\x1b]133;I;nbs={secret}.0\x07")
}

/// Its visible form: not more than a screen of it.
fn as_typed(command: &[u8]) -> String {
    /// A longer command is cut after so many lines or bytes.
    const MOST_LINES: usize = 40;
    const MOST_BYTES: usize = 4 * 1024;
    let command = command.trim_ascii_end();
    let shown = &command[..command.len().min(MOST_BYTES)];
    let all: Vec<&[u8]> = shown.split(|byte| *byte == b'\n').collect();
    let is_whole = shown.len() == command.len() && all.len() <= MOST_LINES;
    let mut lines: Vec<String> = all.iter().take(MOST_LINES).map(|line| text::escaped(line)).collect();
    if !is_whole {
        lines.push("...".to_owned());
    }
    lines.join("\n")
}

/// Lines of plain text from which `%b` makes these bytes, and the line that ends them.
fn lines(bytes: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(bytes.len() + bytes.len() / 8 + 16);
    let mut length = 0;
    for byte in bytes {
        let before = lines.len();
        push_escaped(&mut lines, *byte);
        length += lines.len() - before;
        if length > LONGEST_LINE {
            lines.push(b'\n');
            length = 0;
        }
    }
    if length > 0 {
        lines.push(b'\n');
    }
    lines.extend(b".\n");
    lines
}

fn escaped(bytes: &[u8]) -> String {
    let mut escaped = Vec::new();
    bytes.iter().for_each(|byte| push_escaped(&mut escaped, *byte));
    String::from_utf8_lossy(&escaped).into_owned()
}

fn push_escaped(out: &mut Vec<u8>, byte: u8) {
    match byte {
        // A line that is nothing but a dot would be the end.
        b' '..=b'~' if !b"\\'.".contains(&byte) => out.push(byte),
        _ => out.extend(format!("\\0{byte:03o}").bytes()),
    }
}

/// Is all of this line to be seen in its echo? Line editors print it in pieces, with sequences between, and parts
/// of it again.
pub(crate) fn shows(echo: &[u8], line: &[u8]) -> bool {
    let echo = text::stripped(echo);
    let mut echo = echo.iter();
    line.iter().filter(|byte| !byte.is_ascii_whitespace()).all(|byte| echo.any(|shown| shown == byte))
}

/// The position of a drawn line on the terminal, and of its end.
pub(crate) struct Drawn {
    /// How many rows the cursor is below the one where the typing began.
    rows: usize,
    /// In which column that was, from 1.
    col: usize,
}

impl Drawn {
    /// How much of the output is looked at before the line: prompts are shorter.
    pub(crate) const BEFORE: u64 = 16 * 1024;

    /// `before` is the output before it was typed, and `echo` that since then, by the shell's own editor or the
    /// terminal.
    pub(crate) fn of(size: Size, before: &[u8], echo: &[u8]) -> Drawn {
        /// All our lines have fewer rows.
        const ROWS: usize = 200;
        let before = &before[memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1)..];
        let newlines = memchr::memchr_iter(b'\n', echo).count();
        let rows = 2 + newlines + (before.len() + echo.len()) / usize::from(size.cols.max(1));
        let mut screen = Screen::showing(size.cols, rows.min(ROWS) as u16, before);
        let (row, col) = screen.cursor();
        screen.feed(echo);
        Drawn { rows: screen.cursor().0.saturating_sub(row), col }
    }

    /// The sequence that clears the rows, and places the cursor at the start of the first.
    fn clearing_rows(&self) -> String {
        format!("{}\r\x1b[J", self.up())
    }

    /// The sequence that clears the line, and places the cursor at its start.
    fn clearing_line(&self) -> String {
        format!("{}\x1b[{}G\x1b[J", self.up(), self.col)
    }

    fn up(&self) -> String {
        if self.rows > 0 { format!("\x1b[{}A", self.rows) } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_known_by_what_it_tells() {
        for (said, dialect) in [
            ("bash;5.2.15(1)-release tty", Some(Dialect::Bash)),
            ("bash;4.4.0(1)-release tty", Some(Dialect::Bash)),
            ("bash;4.3.30(1)-release tty", Some(Dialect::Posix)),
            ("bash;5.2.15(1)-release", Some(Dialect::Posix)),
            ("zsh; tty", Some(Dialect::Zsh)),
            ("zsh;", Some(Dialect::Posix)),
            (";", Some(Dialect::Posix)),
            ("fish;", Some(Dialect::Fish)),
            ("", None),
        ] {
            let output = format!("x\x1b]133;Q;abc\x07\x1b]133;Q;abc;{said}\x07y");
            assert_eq!(told(output.as_bytes(), "abc"), dialect, "{said}");
        }
        assert_eq!(told(b"\x1b]133;Q;abc;bash;5.2", "abc"), None);
    }

    #[test]
    fn hidden_lines_are_short_plain_text_and_a_dot() {
        let typed = lines(&[b"a.\n'\\\xff\r".as_slice(), &[b'x'; 5_000]].concat());
        let all: Vec<&[u8]> = typed.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n').collect();
        assert!(all[0].starts_with(b"a\\0056\\0012\\0047\\0134\\0377\\0015xxx"));
        assert!(all.iter().all(|line| line.len() <= LONGEST_LINE + 5));
        assert_eq!((all.len(), *all.last().unwrap()), (4, b".".as_slice()));
        assert_eq!(lines(b""), b".\n");
    }

    #[test]
    fn the_row_of_a_drawn_line_is_found() {
        let size = Size { cols: 20, rows: 24 };
        for (before, echo, rows, col) in [
            ("$ ", " ls\r\n", 1, 3),
            ("\x1b[1m$ \x1b[m", " 0123456789abcdefgh\r\n", 2, 3),
            ("$ ", " 0123456789abcdefg\r\n", 1, 3),
            ("", "", 0, 1),
            ("0123456789abcdefghi\r\n$ ", " ls\r\n", 1, 3),
        ] {
            let drawn = Drawn::of(size, before.as_bytes(), echo.as_bytes());
            assert_eq!((drawn.rows, drawn.col), (rows, col), "{echo}");
        }
    }
}
