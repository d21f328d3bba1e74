//! A shell's output without its marks.
//!
//! They show nothing on a terminal, but they carry the session's secret: so they are removed from all text
//! made from the log for others. Besides whole marks, we remove those that were cut off, as by a `^C`, after
//! which the kernel discards pending output (termios(3), NOFLSH); and the report of the directory, right
//! before a mark.
//!
//! And if bash takes a command by its key, readline clears the prompt and draws it again, which a terminal
//! does not show: the first of the two stays. Text that is typed to a nested shell by nbs comes behind a mark
//! (H), up to another (I) or its prompt (B), and shows nothing, because the shell clears it.
//!
//! Pure: bytes in, bytes out, the same for any way of splitting them. Bytes that may become a mark are held
//! back.

use memchr::{memchr, memmem};

use crate::{
    session::shell::marks::{self, OPENING},
    terminal::tokenizer::{BEL, ESC},
};

/// The beginning of an operating system command (OSC): marks and directory reports are such commands.
const COMMAND: &[u8] = b"\x1b]";
/// The beginning of the shell's report of its directory (OSC 7).
const FOLDER: &[u8] = b"\x1b]7;file://";
/// A path has no more bytes than 4,096 (PATH_MAX), each of them three here.
const LONGEST_FOLDER: usize = 3 * 4096 + 256;

/// How readline clears a prompt of one row. An older one leaves out the last.
const CLEAR: &[u8] = b"\r\x1b[K\r";
/// A redrawn prompt has fewer bytes, with the mark before it.
const LONGEST_DRAWN: u64 = 16 * 1024;
/// Hidden text has fewer bytes, even if it is drawn key by key.
const LONGEST_HIDDEN: u64 = 64 * 1024;

#[derive(Clone)]
pub(crate) struct MarkStripper {
    tags: Vec<Vec<u8>>,
    longest: usize,
    // A complete report of the directory, if a mark follows at once.
    folder: Vec<u8>,
    // Invariant: empty, or an ESC and what makes a mark, or a report, of it so far.
    held: Vec<u8>,
    // If nothing else has come since a prompt: the beginning of `CLEAR`.
    cleared: Option<Vec<u8>>,
    // The number of bytes left out of a prompt that is being redrawn.
    drawn: Option<u64>,
    // The number of bytes left out of hidden text.
    hidden: Option<u64>,
    // A command has ended since that began.
    is_done: bool,
}

impl MarkStripper {
    /// More than a mark has bytes.
    pub(crate) const LONGEST: u64 = 128;

    /// `secrets` as of [`MarkParser::new`].
    ///
    /// [`MarkParser::new`]: crate::session::shell::marks::MarkParser::new
    pub(crate) fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> MarkStripper {
        let tags: Vec<_> = secrets.into_iter().map(|secret| marks::tag(secret.as_ref())).collect();
        MarkStripper {
            longest: tags.iter().map(|tag| marks::longest(tag)).max().unwrap_or(0),
            tags,
            hidden: None,
            is_done: false,
            folder: Vec::new(),
            held: Vec::new(),
            cleared: Some(Vec::new()),
            drawn: None,
        }
    }

    /// How many of these bytes are the end of a mark whose beginning is gone: a bounded log may begin within
    /// one.
    pub(crate) fn rest_of_mark(&self, bytes: &[u8]) -> usize {
        let Some(length) = memchr(BEL, &bytes[..bytes.len().min(self.longest)]) else { return 0 };
        let digits = bytes[..length].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let stem = &bytes[..length - digits];
        let has_no_beginning = !stem.is_empty() && !stem.contains(&ESC);
        let is_rest =
            has_no_beginning && self.tags.iter().any(|tag| tag.ends_with(stem) || stem.ends_with(tag));
        if is_rest { length + 1 } else { 0 }
    }

    /// Appends to `out` the bytes that are certain not to be in a mark, and were not appended before.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.held.is_empty() {
                let length = self.plain_length(&bytes[at..]);
                if length > 0 {
                    self.give_folder(out);
                    self.give(&bytes[at..at + length], out);
                    at += length;
                    continue;
                }
                self.held.push(ESC);
                at += 1;
            } else if self.can_go_on_with(byte) {
                self.held.push(byte);
                at += 1;
            } else if byte == BEL && self.length_of_ours() == self.held.len() {
                self.handle_mark(out);
                self.held.clear();
                self.folder.clear();
                at += 1;
            } else if byte == BEL && self.held.starts_with(FOLDER) {
                self.give_folder(out);
                self.folder.append(&mut self.held);
                self.folder.push(BEL);
                at += 1;
            } else {
                self.give_held(out);
            }
        }
    }

    /// The number of bytes before the next possible mark or directory report. While text is left out, this stops
    /// at every escape sequence: the limit of that text is checked once for each piece.
    fn plain_length(&self, bytes: &[u8]) -> usize {
        if self.hidden.is_some() || self.drawn.is_some() {
            return memchr(ESC, bytes).unwrap_or(bytes.len());
        }
        memmem::find(bytes, COMMAND).unwrap_or(bytes.len() - usize::from(bytes.ends_with(&[ESC])))
    }

    /// Nothing follows: what begins like a mark at the end shows nothing, either.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.held.starts_with(OPENING) {
            self.held.clear();
        }
        self.give_held(out);
        self.give_folder(out);
        out.append(&mut self.cleared.take().unwrap_or_default());
    }

    /// How many bytes at the end of the stream so far may still come out, or turn out to
    /// be nothing.
    pub(crate) fn unfinished(&self) -> u64 {
        let cleared = self.cleared.as_ref().map_or(0, Vec::len);
        (self.held.len() + self.folder.len() + cleared) as u64
            + self.drawn.unwrap_or(0)
            + self.hidden.unwrap_or(0)
    }

    /// Handles the held mark, for its effect on the prompt.
    fn handle_mark(&mut self, out: &mut Vec<u8>) {
        let kind = self.held.get(OPENING.len());
        match kind {
            Some(b'H') => {
                self.give_cleared(out);
                self.hidden = Some(self.held.len() as u64 + 1);
                self.is_done = false;
                return;
            }
            Some(b'D') => self.is_done = true,
            Some(b'I') => self.hidden = None,
            // If it comes again, a prompt is drawn again.
            Some(b'B') if self.is_done => self.hidden = None,
            _ => {}
        }
        match kind {
            Some(b'B') => {
                self.drawn = None;
                self.give_cleared(out);
                self.cleared = Some(Vec::new());
            }
            Some(b'R') if self.cleared.as_ref().is_some_and(|cleared| cleared.len() + 1 >= CLEAR.len()) => {
                self.cleared = None;
                self.drawn = Some((CLEAR.len() + self.held.len() + 1) as u64);
            }
            // The report of a hook that it must repair first.
            Some(b'D' | b'N') if self.drawn.is_none() => {}
            _ => self.give_cleared(out),
        }
    }

    /// Passes on bytes that are not a mark.
    fn give(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if let Some(hidden) = &mut self.hidden {
            *hidden += bytes.len() as u64;
            if *hidden > LONGEST_HIDDEN {
                self.hidden = None;
            }
            return;
        }
        if let Some(drawn) = &mut self.drawn {
            *drawn += bytes.len() as u64;
            if *drawn > LONGEST_DRAWN {
                self.drawn = None;
            }
            return;
        }
        if let Some(cleared) = &mut self.cleared {
            let length = cleared.len() + bytes.len();
            cleared.extend_from_slice(bytes);
            if CLEAR.get(..length) != Some(cleared) {
                self.give_cleared(out);
            }
            return;
        }
        out.extend_from_slice(bytes);
    }

    fn give_cleared(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.cleared.take().unwrap_or_default());
    }

    fn give_folder(&mut self, out: &mut Vec<u8>) {
        let folder = std::mem::take(&mut self.folder);
        if !folder.is_empty() {
            self.give(&folder, out);
        }
    }

    fn can_go_on_with(&self, byte: u8) -> bool {
        let length = self.held.len();
        [(OPENING, self.longest), (FOLDER, LONGEST_FOLDER)].into_iter().any(
            |(opening, longest)| match opening.get(length) {
                Some(&expected) => opening.starts_with(&self.held) && byte == expected,
                None => self.held.starts_with(opening) && matches!(byte, b' '..=b'~') && length < longest,
            },
        )
    }

    /// It is not a whole mark; but if some of the secret is in it, it is an incomplete one.
    fn give_held(&mut self, out: &mut Vec<u8>) {
        self.held.drain(..self.length_of_ours());
        self.give_folder(out);
        let held = std::mem::take(&mut self.held);
        self.give(&held, out);
    }

    /// The length of the mark, or incomplete mark, in it: 0 if nothing of the secret is in it.
    fn length_of_ours(&self) -> usize {
        self.tags.iter().map(|tag| self.length_of_mark(tag)).max().unwrap_or(0)
    }

    fn length_of_mark(&self, tag: &[u8]) -> usize {
        let (name, secret) = tag.split_at(marks::TAG.len());
        let at = memmem::find(&self.held, name).filter(|_| self.held.starts_with(OPENING));
        let Some(at) = at.map(|at| at + name.len()) else { return 0 };
        let rest = &self.held[at..];
        match rest.iter().zip(secret).take_while(|(one, other)| one == other).count() {
            0 => 0,
            length if length < secret.len() => at + length,
            length => at + length + rest[length..].iter().take_while(|byte| byte.is_ascii_digit()).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{pieces, rounds};

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn mark(kind: &str, seq: u64) -> String {
        format!("\x1b]133;{kind};nbs={SECRET}.{seq}\x07")
    }

    fn without(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut unmarked, mut rest) = (MarkStripper::new(Some(SECRET)), Vec::new());
        pieces.iter().for_each(|piece| unmarked.feed(piece, &mut rest));
        unmarked.finish(&mut rest);
        rest
    }

    #[test]
    fn hidden_setup_of_a_shell_is_removed_with_its_marks() {
        let (hide, show, prompt) = (mark("H", 0), mark("I", 0), mark("B", 0));
        let long = "x".repeat(100_000);
        for (text, rest) in [
            (format!("# {hide} eval\r\n{}\x1b[A{show}ls\r\nx", mark("Q", 3)), "# ls\r\nx".to_owned()),
            (format!("# {hide} stty{}{}# {prompt}ls", mark("D;0", 0), mark("A", 0)), "# ls".to_owned()),
            (hide.replace(SECRET, "f") + "seen", hide.replace(SECRET, "f") + "seen"),
            (format!("# {hide} ls{prompt} ls{show}!"), "# !".to_owned()),
            // It never ends.
            (format!("a{hide}{long}\x1b[mb"), "a\x1b[mb".to_owned()),
        ] {
            assert_eq!(String::from_utf8(without(&[text.as_bytes()])).unwrap(), rest, "{text:.100}");
        }
    }

    #[test]
    fn marks_go_and_all_else_stays() {
        let (d, a, b) = (mark("D;130", 7), mark("A", 7), mark("B", 7));
        let folder = "\x1b]7;file://host/a%20b\x07";
        let title = "\x1b]0;title\x07";
        for (text, rest) in [
            (format!("x{d}{folder}{a}$ {b}ls"), "x$ ls".to_owned()),
            // Also out of their order, of a log that is printed again.
            (format!("{a}{a}{b}{d}"), String::new()),
            // The report of a directory is ours only if a mark of ours follows.
            (format!("{folder}x{a}"), format!("{folder}x")),
            (format!("{folder}{folder}{a}"), folder.to_owned()),
            (format!("{folder}{title}{a}"), format!("{folder}{title}")),
            (folder.to_owned(), folder.to_owned()),
            ("\x1b]7;file://host/a\x1b\\x".to_owned(), "\x1b]7;file://host/a\x1b\\x".to_owned()),
            (format!("\x1b]133;A\x07{title}{a}"), format!("\x1b]133;A\x07{title}")),
            (format!("\x1b\x1b{a}\x1b["), "\x1b\x1b\x1b[".to_owned()),
            (mark("E", 1), String::new()),
            (a.replace(SECRET, "0123"), ".7\x07".to_owned()),
            (a.replace(SECRET, &SECRET.replace('0', "f")), a.replace(SECRET, &SECRET.replace('0', "f"))),
        ] {
            assert_eq!(String::from_utf8(without(&[text.as_bytes()])).unwrap(), rest, "{text:?}");
        }
        assert!(marks::longest(&marks::tag(SECRET)) as u64 <= MarkStripper::LONGEST);
    }

    #[test]
    fn of_a_prompt_that_is_drawn_anew_the_first_is_left() {
        let (a, b, r, c) = (mark("A", 7), mark("B", 7), mark("R", 7), mark("C", 8));
        for clear in ["\r\x1b[K\r", "\r\x1b[K"] {
            let taken = format!("{a}$ {b}{clear}{r}\x1b[1m$ {b}ls\r\n{c}x");
            for (text, rest) in [
                (taken.clone(), "$ ls\r\nx".to_owned()),
                // From the prompt's end on, as a reader comes to it.
                (taken[a.len() + 2..].to_owned(), "ls\r\nx".to_owned()),
                (taken[a.len() + 2 + b.len()..].to_owned(), "ls\r\nx".to_owned()),
                // Others clear a line, too.
                (format!("$ {b}{clear}ls"), format!("$ {clear}ls")),
                (format!("$ {b}l{clear}{r}$ {b}ls"), format!("$ l{clear}$ ls")),
                (format!("$ {b}{clear}{c}x"), format!("$ {clear}x")),
                // zsh does not.
                (format!("$ {b}{r}ls\r\n"), "$ ls\r\n".to_owned()),
                (format!("$ {b}{clear}"), format!("$ {clear}")),
            ] {
                assert_eq!(String::from_utf8(without(&[text.as_bytes()])).unwrap(), rest, "{text:?}");
                let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
                assert_eq!(String::from_utf8(without(&bytes)).unwrap(), rest, "{text:?}");
            }
        }
        // If the log ends within it, all of it is still to come.
        let mut unmarked = MarkStripper::new(Some(SECRET));
        let begun = format!("\r\x1b[K\r{r}$");
        unmarked.feed(format!("$ {b}{begun}").as_bytes(), &mut Vec::new());
        assert_eq!(unmarked.unfinished(), begun.len() as u64);
    }

    #[test]
    fn of_a_mark_that_is_cut_off_nothing_of_the_secret_is_left() {
        let whole = mark("D;0", 12);
        for length in 0..whole.len() {
            let (start, rest) = whole.split_at(length);
            let begun = format!("$ {start}\r\nnext");
            let shown = String::from_utf8(without(&[begun.as_bytes()])).unwrap();
            assert!(shown.starts_with("$ ") && shown.ends_with("\r\nnext"), "{shown:?}");
            assert!(!shown.contains("nbs=0"), "{shown:?}");
            let ended = String::from_utf8(without(&[format!("$ {start}").as_bytes()])).unwrap();
            assert!(ended.len() < "$ \x1b]133;".len(), "{ended:?}");
            // The same for the end of a mark, after text that was cut off.
            let unmarked = MarkStripper::new(Some(SECRET));
            let behind = format!("{rest}text");
            let left = &behind[unmarked.rest_of_mark(behind.as_bytes())..];
            let is_whole = length == 0;
            let is_number = rest.len() <= "12\x07".len();
            assert_eq!(left, if is_whole || is_number { &behind } else { "text" });
        }
        let text = format!("text {whole}");
        assert_eq!(MarkStripper::new(Some(SECRET)).rest_of_mark(text.as_bytes()), 0);
    }

    #[test]
    fn any_split_gives_what_one_feed_gives() {
        for (seed, mut random) in rounds(300) {
            let (mut text, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..random.usize(..60) {
                let number = random.u64(..20);
                let ours = mark(random.choice(["A", "B", "C", "D;-5", "R"]).unwrap(), number);
                match random.u8(..6) {
                    0..3 => text.extend_from_slice(ours.as_bytes()),
                    3 => {
                        text.extend_from_slice(&ours.as_bytes()[..random.usize(18..ours.len())]);
                        text.push(b'\n');
                        expected.push(b'\n');
                    }
                    4 => {
                        let noise: Vec<u8> = (0..random.usize(..30))
                            .map(|_| *random.choice(b"\x1b\x1b]]1337;;ADfile:/nbs=0\x07 z\n").unwrap())
                            .chain([b'\n'])
                            .collect();
                        text.extend_from_slice(&noise);
                        expected.extend_from_slice(&noise);
                    }
                    _ => {
                        let folder = "\x1b]7;file://host/tmp/%41\x07";
                        text.extend_from_slice(format!("{folder}{ours}").as_bytes());
                    }
                }
            }
            let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
            assert_eq!(shown(&without(&[&text])), shown(&expected), "seed {seed}");
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            assert_eq!(shown(&without(&bytes)), shown(&expected), "seed {seed}");
            assert_eq!(shown(&without(&pieces(&text, 90, &mut random))), shown(&expected), "seed {seed}");
        }
    }
}
