//! Text as other programs print it: escape sequences taken out, bytes found, lines shown.
//!
//! Everything here is pure: bytes in, bytes out. [`Strip`] and [`Finder`] take a
//! stream in pieces, and where the pieces are cut never changes what comes out.
//! Nothing is an error: what is no UTF-8, or no known sequence, is somebody's output.

mod display;
mod find;
mod prompt;
mod runs;
mod strip;

pub(crate) use display::{
    asks, escaped, is_letter_or_digit, is_misleading, last_line_shown, last_visible_lines, last_words_shown,
    push,
};
pub(crate) use find::Finder;
pub(crate) use prompt::{AnsweredPrompt, Prompts, begin_alike};
pub(crate) use runs::Runs;
pub(crate) use strip::{Strip, cut_off_length, stripped};

#[cfg(test)]
mod tests {

    pub(super) type Bytes = &'static [u8];

    /// A stream where it is hardest: beginnings, ends and halves of everything.
    pub(super) fn noise(random: &mut fastrand::Rng) -> Vec<u8> {
        const BYTES: &[u8] = b"\x1b\x1b\x1b[]PX^_\\( #;3m~\x07\x18\x1a\n\0\x7f\xc2\xc2\x9b\x9c\xc3\xa9\xe6\xbc\xf0\x9f\xed\xff";
        const CHARACTERS: [char; 9] =
            ['\u{85}', '\u{90}', '\u{9b}', '\u{9c}', '\u{9d}', '\u{a0}', 'é', '漢', '😀'];
        const BEGINNINGS: [&str; 6] = ["text", "\x1b[", "\x1b[1;3", "\x1b]0;", "\x1bP", "\x1b("];

        let mut noise = Vec::new();
        for _ in 0..random.usize(..60) {
            match random.u8(..5) {
                0 => noise.extend(random.choice(BEGINNINGS).unwrap().bytes()),
                1 => noise.extend(random.choice(CHARACTERS).unwrap().to_string().bytes()),
                _ => noise.push(*random.choice(BYTES).unwrap()),
            }
        }
        noise
    }

    /// For messages of failed assertions; unlike `escaped` not under test here.
    pub(super) fn shown(bytes: &[u8]) -> String {
        bytes.escape_ascii().to_string()
    }
}
