//! Unpacks the data that `build.rs` has packed (RFC 1951).

use miniz_oxide::inflate::decompress_slice_iter_to_slice;

/// The text of that length.
pub(crate) fn unpack(packed: &[u8], length: usize) -> String {
    let mut text = vec![0; length];
    let count = decompress_slice_iter_to_slice(&mut text, [packed].into_iter(), false, true);
    assert_eq!(count, Ok(length), "build.rs has packed it");
    String::from_utf8(text).expect("build.rs has packed what is UTF-8")
}
