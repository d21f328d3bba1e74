//! How the packed data are foreseen: `build.rs` and the program must agree.

/// How many bytes before the next one it is foreseen from, at most.
pub(crate) const ORDER: u32 = 6;

/// How much memory the model takes, in bytes.
pub(crate) const MEMORY: u32 = 4 << 20;
