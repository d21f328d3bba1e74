//! How a session's shell is made to report: its startup file, how it receives a command, and the marks
//! that both make it print.

mod command;
mod echo;
pub(crate) mod inner;
mod marks;
mod run_script;
mod startup;
mod trace;
mod unmarked;

pub(crate) use command::{Dialect, ShellCommand, ShellStart};
pub(crate) use echo::EchoFilter;
pub(crate) use marks::{FoundMark, Mark, Marks};
pub(crate) use run_script::{ACCEPT, CLEAR, Handover, LOOK, Task, is_nothing};
pub(crate) use startup::{LONGEST_SHOWN_HOOK, shown_hook, startup};
pub(crate) use trace::{Beginning, Stage, Trace, own_end, unreported_prompt};
pub(crate) use unmarked::Unmarked;
