//! Unpacks the data that `build.rs` has packed (PPMd, variant H, with the range coder of 7z): a fifth less
//! than by RFC 1951.

use std::io::Read;

use ppmd_rust::Ppmd7Decoder;

use model::{ORDER, memory};

mod model;

/// The text of that length.
pub(crate) fn unpack(packed: &[u8], length: usize) -> String {
    let mut text = vec![0; length];
    let mut unpacking = Ppmd7Decoder::new(packed, ORDER, memory(text.len())).expect("build.rs has packed it");
    unpacking.read_exact(&mut text).expect("build.rs has packed it");
    String::from_utf8(text).expect("build.rs has packed what is UTF-8")
}
