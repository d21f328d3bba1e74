//! A pattern, found in a stream of bytes.

use memchr::memmem;

/// Finds the first place where a pattern occurs in a stream of bytes.
pub(crate) struct Finder {
    finder: memmem::Finder<'static>,
    /// The offset of the next bytes in the stream.
    offset: u64,
    // Invariant: the last bytes of the stream, one fewer than the pattern has at most,
    // so no match lies in it whole.
    tail: Vec<u8>,
}

impl Finder {
    /// The first byte that will be fed stands at `start_offset`.
    pub(crate) fn new(pattern: &[u8], start_offset: u64) -> Finder {
        Finder { finder: memmem::Finder::new(pattern).into_owned(), offset: start_offset, tail: Vec::new() }
    }

    /// The offset at which the first match starts, as soon as its last byte was fed;
    /// feed no more after that. An empty pattern matches at the first byte.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Option<u64> {
        if bytes.is_empty() {
            return None;
        }
        let found = self.find_across_seam(bytes).or_else(|| self.find_within(bytes));
        self.offset += bytes.len() as u64;
        found
    }

    /// The next so many bytes are not there: no match lies across them.
    pub(crate) fn skip(&mut self, count: u64) {
        if count > 0 {
            self.offset += count;
            self.tail.clear();
        }
    }

    /// A match that starts in the tail. It comes before any that starts in `bytes`.
    fn find_across_seam(&mut self, bytes: &[u8]) -> Option<u64> {
        let start = self.offset - self.tail.len() as u64;
        let keep = self.finder.needle().len().saturating_sub(1);
        let (joined, rest) = bytes.split_at(keep.min(bytes.len()));
        self.tail.extend_from_slice(joined);
        let found = self.finder.find(&self.tail);

        self.tail.extend_from_slice(&rest[rest.len().saturating_sub(keep)..]);
        self.tail.drain(..self.tail.len().saturating_sub(keep));
        found.map(|at| start + at as u64)
    }

    fn find_within(&self, bytes: &[u8]) -> Option<u64> {
        self.finder.find(bytes).map(|at| self.offset + at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rounds::{pieces, rounds},
        terminal::text::tests::{Bytes, shown},
    };

    #[test]
    fn no_match_lies_across_what_is_not_there() {
        let fed = |skipped: u64| {
            let mut finder = Finder::new(b"ab", 5);
            assert_eq!(finder.feed(b"xa"), None);
            finder.skip(skipped);
            (finder.feed(b"b"), finder.feed(b"ab"))
        };
        assert_eq!(fed(0).0, Some(6));
        assert_eq!(fed(3), (None, Some(11)));
    }

    #[test]
    fn a_pattern_is_found_where_it_starts() {
        let cases: &[(Bytes, &[Bytes], Option<u64>)] = &[
            (b"done", &[b"all done\n"], Some(104)),
            (b"done", &[b"all do", b"ne\n"], Some(104)),
            (b"done", &[b"d", b"o", b"n", b"", b"e"], Some(100)),
            (b"done", &[b"all don", b"t"], None),
            (b"aab", &[b"aa", b"ab"], Some(101)),
            (b"abab", &[b"aba", b"cabab"], Some(104)),
            (b"\0\0x", &[b"\0\0", b"\0x\0\0x"], Some(101)),
            (b"x", &[b"", b"abc", b"dxx"], Some(104)),
            (b"ab", &[b"xa", b"bab"], Some(101)),
            (b"longer than all of it", &[b"longer", b" than"], None),
            (b"", &[b""], None),
            (b"", &[b"", b"x"], Some(100)),
        ];
        for (pattern, pieces, found) in cases {
            let mut finder = Finder::new(pattern, 100);
            let got = pieces.iter().find_map(|piece| finder.feed(piece));
            assert_eq!(got, *found, "{} in {pieces:?}", shown(pattern));
        }
    }

    #[test]
    fn a_pattern_is_found_as_in_the_whole_however_it_is_cut() {
        for (seed, mut random) in rounds(200) {
            // Two letters, so that there are many beginnings that come to nothing.
            let mut letters =
                |length| -> Vec<u8> { (0..length).map(|_| b"\0a"[random.usize(..2)]).collect() };
            let (pattern, printed) = (letters(1 + seed as usize % 9), letters(300));
            let naive = printed.windows(pattern.len()).position(|window| window == pattern);

            let (mut finder, mut found) = (Finder::new(&pattern, 7), None);
            let mut fed = 0;
            for piece in pieces(&printed, 12, &mut random) {
                found = finder.feed(piece);
                fed += piece.len();
                let is_in = naive.is_some_and(|at| at + pattern.len() <= fed);
                assert_eq!(found.is_some(), is_in, "seed {seed}: known as soon as it is in");
                assert!(finder.tail.len() < pattern.len(), "seed {seed}");
                if found.is_some() {
                    break;
                }
            }
            assert_eq!(found, naive.map(|at| 7 + at as u64), "seed {seed}");
        }
    }
}
