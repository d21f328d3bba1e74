//! How a session's shell is made to report: its startup file, how it receives a command, and the marks
//! that both make it print.

mod command;
mod command_text;
mod echo;
pub(crate) mod inner;
mod mark_stripper;
mod marks;
mod own_output;
mod run_script;
mod startup;

pub(crate) use command::{Dialect, ShellCommand, ShellStart, fish_quoted};
pub(crate) use command_text::{command_text, fills_row};
pub(crate) use echo::EchoFilter;
pub(crate) use mark_stripper::MarkStripper;
pub(crate) use marks::{FoundMark, Mark, MarkParser};
pub(crate) use own_output::{
    Beginning, after_lines, fish_prompt, has_own_beginning, own_end, own_sequences, sequences,
    unmarked_prompt, unreported_prompt,
};
pub(crate) use run_script::{ACCEPT, CLEAR, CommandDelivery, DeliveredBy, LOOK, Task, is_nothing};
pub(crate) use startup::{LONGEST_SHOWN_HOOK, shown_hook, startup};
