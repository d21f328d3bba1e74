//! Copying of many short runs of text.

/// Appends runs of bytes to a buffer.
///
/// Most runs are a few words long, and musl's memcpy(3) takes longer to start than to copy
/// those. Pieces of one size need no call; what is too much in the last piece is overwritten.
pub(crate) struct Runs<'a> {
    out: &'a mut Vec<u8>,
    // `out` has room behind it, which belongs to nobody.
    end: usize,
}

const PIECE: usize = 32;
/// From so many pieces on memcpy(3) is faster.
const LONG: usize = 16;

impl<'a> Runs<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Runs<'a> {
        let end = out.len();
        Runs { out, end }
    }

    /// Appends the first `length` of `bytes`, which may be read beyond that.
    pub(crate) fn push(&mut self, bytes: &[u8], length: usize) {
        let (count, pieces) = (length.div_ceil(PIECE), bytes.as_chunks::<PIECE>().0);
        if count > pieces.len().min(LONG) {
            self.out.truncate(self.end);
            self.out.extend_from_slice(&bytes[..length]);
            self.end = self.out.len();
            return;
        }
        if self.out.len() < self.end + count * PIECE {
            // Makes room for all bytes that may still come. Copying them is faster than filling with zeros.
            self.out.truncate(self.end);
            self.out.extend_from_slice(bytes);
        }
        let places = self.out[self.end..].as_chunks_mut::<PIECE>().0;
        places.iter_mut().zip(&pieces[..count]).for_each(|(place, piece)| *place = *piece);
        self.end += length;
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.out.truncate(self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::rounds;

    #[test]
    fn runs_of_any_length_are_appended_whole() {
        for (seed, mut random) in rounds(200) {
            let text: Vec<u8> = (0..2000).map(|_| random.u8(..)).collect();
            let mut out = b"before".to_vec();
            let mut expected = out.clone();
            let mut runs = Runs::new(&mut out);
            let mut at = 0;
            while at < text.len() {
                let longest = if random.bool() { 40 } else { 700 };
                let length = random.usize(0..=longest).min(text.len() - at);
                runs.push(&text[at..], length);
                expected.extend_from_slice(&text[at..at + length]);
                at += length;
            }
            drop(runs);
            assert_eq!(out, expected, "seed {seed}");
        }
    }
}
