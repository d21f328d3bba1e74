//! Called as `tmux`: its commands over sessions of nbs.
//!
//! There is no server. What would be its memory is a file in the state directory (`state.rs`), and each
//! call reads it, does what it is asked, and replaces it.

mod commands;
mod format;
mod layout;
mod options;
mod panes;
mod pipe;
mod state;
mod tables;
mod target;
mod words;
mod zone;

pub(crate) use commands::run;
pub(crate) use pipe::{PIPE, follow};
pub(crate) use state::faults;
