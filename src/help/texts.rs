//! The texts that people read, and what is sent elsewhere as it is: packed, for together
//! they would be a tenth of the file.
//!
//! `build.rs` packs them as one stream, which takes time to unpack: up to the end of the first text that is
//! read, and whole only if another one is further behind. Most calls read none.

use std::sync::OnceLock;

use crate::packed::unpack_until;

include!(concat!(env!("OUT_DIR"), "/texts.rs"));

const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/texts.packed"));

/// The position of a text among all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    start: usize,
    end: usize,
}

impl Text {
    pub(crate) const fn at(start: usize, end: usize) -> Text {
        Text { start, end }
    }

    /// The text of a file, by its path under `src`. For constants: an unknown name does not compile.
    pub(crate) const fn of(path: &str) -> Text {
        let mut place = 0;
        loop {
            let (name, start, end) = PLACES[place];
            if is_same(name.as_bytes(), path.as_bytes()) {
                return Text { start, end };
            }
            place += 1;
        }
    }

    pub(crate) fn get(self) -> &'static str {
        static TEXTS: [OnceLock<String>; 2] = [const { OnceLock::new() }; 2];
        let [beginning, all] = &TEXTS;
        let beginning = beginning.get_or_init(|| unpack_until(PACKED, LENGTH, self.end));
        let texts = match self.end <= beginning.len() {
            true => beginning,
            false => all.get_or_init(|| unpack_until(PACKED, LENGTH, LENGTH)),
        };
        &texts[self.start..self.end]
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacked_texts_equal_the_originals() {
        const SKILL: Text = Text::of("applets/ts/skill.md");
        assert_eq!(SKILL.get(), include_str!("../applets/ts/skill.md"));
        let (_, start, end) = PLACES[PLACES.len() - 1];
        assert_eq!((end, Text::at(start, end).get().len()), (LENGTH, end - start));
    }
}
