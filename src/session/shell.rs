//! What a session's shell is told, and what it tells: its startup file, the script of `run`,
//! and the marks that both make it print.

mod echo;
mod marks;
pub(crate) mod run_script;
mod startup;
mod trace;
mod unmarked;

pub(crate) use echo::{EchoFilter, TextForm, ends_like_a_prompt};
pub(crate) use marks::{FoundMark, Mark, Marks};
pub(crate) use startup::{LONGEST_SHOWN_HOOK, rcfile, shown_hook};
pub(crate) use trace::{Stage, Trace};
pub(crate) use unmarked::Unmarked;
