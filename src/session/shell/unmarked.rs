//! What a shell printed, without the marks that it reports by.
//!
//! They show nothing on a terminal, but they carry the session's secret: so they are
//! in nothing that is made of the log for others. Besides whole marks, there are those
//! that were cut off, as by a `^C`, after which the kernel throws away what it has of
//! the output (termios(3), NOFLSH); and the report of the folder, right before a mark.
//!
//! Pure: bytes in, bytes out, the same for any way of splitting them. What may still
//! become a mark is held back.

use memchr::{memchr, memmem};

use crate::{
    session::shell::marks::{self, OPENING},
    terminal::tokenizer::{BEL, ESC},
};

/// How the shell's report of its folder begins (OSC 7).
const FOLDER: &[u8] = b"\x1b]7;file://";
/// A path has no more bytes than 4,096 (PATH_MAX), each of them three here.
const LONGEST_FOLDER: usize = 3 * 4096 + 256;

pub(crate) struct Unmarked {
    tag: Vec<u8>,
    longest: usize,
    // A report of the folder that is whole, if a mark follows at once.
    folder: Vec<u8>,
    // Invariant: empty, or an ESC and what makes a mark, or a report, of it so far.
    held: Vec<u8>,
}

impl Unmarked {
    /// More than a mark has bytes.
    pub(crate) const LONGEST: u64 = 128;

    /// `secret` as of [`Marks::new`].
    ///
    /// [`Marks::new`]: crate::session::shell::marks::Marks::new
    pub(crate) fn new(secret: Option<&str>) -> Unmarked {
        let tag = marks::tag(secret);
        Unmarked { longest: marks::longest(&tag), tag, folder: Vec::new(), held: Vec::new() }
    }

    /// How many of these bytes are the end of a mark whose beginning is gone: those of a
    /// log that is bounded may be its middle.
    pub(crate) fn rest_of_mark(&self, bytes: &[u8]) -> usize {
        let Some(length) = memchr(BEL, &bytes[..bytes.len().min(self.longest)]) else { return 0 };
        let digits = bytes[..length].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let stem = &bytes[..length - digits];
        let has_no_beginning = !stem.is_empty() && !stem.contains(&ESC);
        let is_rest = has_no_beginning && (self.tag.ends_with(stem) || stem.ends_with(&self.tag));
        if is_rest { length + 1 } else { 0 }
    }

    /// Appends to `out` what of the bytes so far is no mark, and was not appended before.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.held.is_empty() {
                let length = memchr(ESC, &bytes[at..]).unwrap_or(bytes.len() - at);
                if length > 0 {
                    out.append(&mut self.folder);
                    out.extend_from_slice(&bytes[at..at + length]);
                    at += length;
                    continue;
                }
                self.held.push(ESC);
                at += 1;
            } else if self.can_go_on_with(byte) {
                self.held.push(byte);
                at += 1;
            } else if byte == BEL && self.length_of_ours() == self.held.len() {
                self.held.clear();
                self.folder.clear();
                at += 1;
            } else if byte == BEL && self.held.starts_with(FOLDER) {
                out.append(&mut self.folder);
                self.folder.append(&mut self.held);
                self.folder.push(BEL);
                at += 1;
            } else {
                self.give_held(out);
            }
        }
    }

    /// Nothing follows: what begins like a mark at the end shows nothing, either.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.held.starts_with(OPENING) {
            self.held.clear();
        }
        self.give_held(out);
        out.append(&mut self.folder);
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

    /// It is no whole mark; but where some of the secret is in it, it was to be one.
    fn give_held(&mut self, out: &mut Vec<u8>) {
        self.held.drain(..self.length_of_ours());
        out.append(&mut self.folder);
        out.append(&mut self.held);
    }

    /// How much of it is a mark, or was to be one: 0 where nothing of the secret is in it.
    fn length_of_ours(&self) -> usize {
        let (name, secret) = self.tag.split_at(marks::TAG.len());
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
        let (mut unmarked, mut rest) = (Unmarked::new(Some(SECRET)), Vec::new());
        pieces.iter().for_each(|piece| unmarked.feed(piece, &mut rest));
        unmarked.finish(&mut rest);
        rest
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
            // The folder is ours only where a mark of ours follows.
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
        assert!(marks::longest(&marks::tag(Some(SECRET))) as u64 <= Unmarked::LONGEST);
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
            // The same of its end, where something was cut off before it.
            let unmarked = Unmarked::new(Some(SECRET));
            let behind = format!("{rest}text");
            let left = &behind[unmarked.rest_of_mark(behind.as_bytes())..];
            let is_whole = length == 0;
            let is_number = rest.len() <= "12\x07".len();
            assert_eq!(left, if is_whole || is_number { &behind } else { "text" });
        }
        let text = format!("text {whole}");
        assert_eq!(Unmarked::new(Some(SECRET)).rest_of_mark(text.as_bytes()), 0);
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
