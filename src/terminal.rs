//! What a terminal is, as a program sees it: its screen, its keys, what may be asked of it,
//! and the text in what is printed on it.
//!
//! All of it is pure: bytes in, bytes out. Nothing here has heard of sessions, or of Linux.

pub(crate) mod cells;
pub(crate) mod keys;
pub(crate) mod notices;
mod parser;
pub(crate) mod program_status;
pub(crate) mod queries;
pub(crate) mod said;
pub(crate) mod screen;
pub(crate) mod text;
pub(crate) mod tokenizer;
