//! How the packed data are foreseen: `build.rs` and the program must agree.

/// How many bytes before the next one it is foreseen from, at most: in a long text, more come again.
pub(crate) fn order(length: usize) -> u32 {
    if length > 64 << 10 { 10 } else { 6 }
}

/// How much memory the model takes for a text of that length, in bytes: as much as it comes to use, for all of
/// it is made ready for each text, 1 ms for 1 MB.
pub(crate) fn memory(length: usize) -> u32 {
    (16 * length).clamp(64 << 10, 4 << 20) as u32
}
