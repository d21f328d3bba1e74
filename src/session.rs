//! What a session is: a handle, and a folder of files with fixed meanings.
//!
//! This layer knows the files and how to talk to the relay behind them. It
//! starts no processes.

/// What the internal roles are called, in `ps` too. `kill` knows them by it.
pub(crate) const RELAY: &str = "nbs-relay";
pub(crate) const KEEPER: &str = "nbs-keeper";

/// The variable which tells every process of a session which one it is in.
pub(crate) const MARK: &str = "NBS_TS_SESSION";

mod completion;
mod contact;
mod dir;
mod echo;
mod end;
mod evidence;
mod exit;
mod handle;
mod home;
mod log;
mod marks;
pub(crate) mod protocol;
mod runner;
pub(crate) mod sending;
mod shell;
pub(crate) mod typing;
mod wait;

pub(crate) use completion::{Completion, completion_line};
pub(crate) use contact::{Contact, News, Typed};
pub(crate) use dir::{
    COMPLETIONS, EXIT_CODE, INPUT, Launch, OUTPUT, RECEIPT, SOCKET, SessionDir, Summary, TYPED, unix_seconds,
};
pub(crate) use echo::{Echo, Form, ends_like_a_prompt};
pub(crate) use end::{Ended, end};
pub(crate) use evidence::Evidence;
pub(crate) use exit::{EndedBy, Receipt};
pub(crate) use handle::{Handle, Name, Target};
pub(crate) use home::{Home, Making};
pub(crate) use log::Log;
pub(crate) use marks::{Found, Mark, Marks};
pub(crate) use shell::{LONGEST_SHOWN_HOOK, shown_hook};
pub(crate) use wait::Wait;
