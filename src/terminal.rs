//! A terminal, as a program sees it: its screen, its keys, the queries that it answers, and the
//! text in the output.
//!
//! All of it is pure: bytes in, bytes out. Nothing here depends on sessions, or on Linux.

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
