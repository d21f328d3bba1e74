//! Unpacks the data that `build.rs` has packed (PPMd, variant H, with the range coder of 7z): a fifth less
//! than by RFC 1951.

use std::io::Read;

use ppmd_rust::Ppmd7Decoder;

use model::{memory, order};

mod model;

/// The text of that length.
pub(crate) fn unpack(packed: &[u8], length: usize) -> String {
    unpack_until(packed, length, length)
}

/// Unpacks only the first `end` bytes of a text of `length` bytes; the rest costs no time.
pub(crate) fn unpack_until(packed: &[u8], length: usize, end: usize) -> String {
    let text = if cfg!(plain_texts) { packed[..end].to_vec() } else { unpacked(packed, length, end) };
    String::from_utf8(text).expect("build.rs has packed what is UTF-8")
}

fn unpacked(packed: &[u8], length: usize, end: usize) -> Vec<u8> {
    let mut text = vec![0; end];
    let mut unpacking =
        Ppmd7Decoder::new(packed, order(length), memory(length)).expect("build.rs has packed it");
    unpacking.read_exact(&mut text).expect("build.rs has packed it");
    text
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ppmd_rust::Ppmd7Encoder;

    use super::*;

    #[test]
    fn what_was_packed_is_unpacked_whole() {
        for text in ["", "a", include_str!("packed.rs"), include_str!("terminal/screen.rs")] {
            let mut packing = Ppmd7Encoder::new(Vec::new(), order(text.len()), memory(text.len())).unwrap();
            packing.write_all(text.as_bytes()).unwrap();
            let packed = packing.finish(false).unwrap();
            for end in [text.len(), text.len() / 3] {
                assert_eq!(unpacked(&packed, text.len(), end), text.as_bytes()[..end]);
            }
        }
    }
}
