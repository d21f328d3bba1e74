//! How a session's shell is made to report: its startup file, how it receives a command, and the marks
//! that both make it print.

mod command;
mod command_text;
mod command_tracker;
mod echo;
pub(crate) mod inner;
mod mark_stripper;
mod marks;
mod run_script;
mod startup;

pub(crate) use command::{Dialect, ShellCommand, ShellStart, fish_quoted};
pub(crate) use command_text::{command_text, fills_row};
pub(crate) use command_tracker::{
    Beginning, CommandTracker, Stage, fish_prompt, own_end, own_sequences, unreported_prompt,
};
pub(crate) use echo::EchoFilter;
pub(crate) use mark_stripper::MarkStripper;
pub(crate) use marks::{FoundMark, Mark, MarkParser};
pub(crate) use run_script::{ACCEPT, CLEAR, CommandDelivery, DeliveredBy, LOOK, Task, is_nothing};
pub(crate) use startup::{LONGEST_SHOWN_HOOK, shown_hook, startup};
