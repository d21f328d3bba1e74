//! How packed data is predicted: `build.rs` and the program must agree.

/// Longer texts repeat themselves more.
const LONG: usize = 64 << 10;

/// From how many preceding bytes, at most, the next one is predicted.
pub(crate) fn order(length: usize) -> u32 {
    if length > LONG { 12 } else { 6 }
}

/// How many bytes of memory the model gets for a text of that length: no more than it comes to use, because all
/// of it is cleared for each text (1 ms for 1 MB).
pub(crate) fn memory(length: usize) -> u32 {
    let each = if length > LONG { 24 } else { 16 };
    (each * length).clamp(64 << 10, 8 << 20) as u32
}
