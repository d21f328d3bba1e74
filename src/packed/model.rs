//! How the packed data are foreseen: `build.rs` and the program must agree.

/// In a longer text, more comes again.
const LONG: usize = 64 << 10;

/// How many bytes before the next one it is foreseen from, at most.
pub(crate) fn order(length: usize) -> u32 {
    if length > LONG { 12 } else { 6 }
}

/// How much memory the model takes for a text of that length, in bytes: as much as it comes to use, for all of
/// it is made ready for each text, 1 ms for 1 MB.
pub(crate) fn memory(length: usize) -> u32 {
    let each = if length > LONG { 24 } else { 16 };
    (each * length).clamp(64 << 10, 8 << 20) as u32
}
