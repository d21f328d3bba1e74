//! What a session is: a handle, and a folder of files with fixed meanings.
//!
//! This layer knows the files and how to talk to the relay behind them. It
//! starts no processes.

/// What the internal roles are called, in `ps` too. `kill` knows them by it.
pub(crate) const RELAY: &str = "nbs-relay";
pub(crate) const KEEPER: &str = "nbs-keeper";
pub(crate) const TERMINATOR: &str = "nbs-ender";
pub(crate) const SCREEN: &str = "nbs-sight";
pub(crate) const VIEWER: &str = "nbs-viewer";

/// What the monitor of a worker is called. It may be started from inside a
/// session, and is not part of it.
pub(crate) const MONITOR: &str = "nbs-monitor";

/// The variable which tells every process of a session which one it is in.
pub(crate) const SESSION_ENV: &str = "NBS_TS_SESSION";

mod bounds;
mod completion;
mod contact;
mod dir;
mod echo;
mod end;
mod events;
mod evidence;
mod exit;
mod glance;
mod handle;
mod home;
mod log;
mod marks;
mod patience;
pub(crate) mod protocol;
mod runner;
pub(crate) mod sending;
mod settings;
mod shell;
mod sight;
mod soundness;
mod trace;
pub(crate) mod typing;
mod unmarked;
mod wait;

pub(crate) use bounds::WriteRootPolicy;
pub(crate) use completion::{Completion, completion_line};
pub(crate) use contact::{News, RelayClient, Typed};
pub(crate) use dir::{
    COMPLETIONS, EXIT_CODE, EXIT_RECORD, INPUT, LOG_START, OUTPUT, Removal, SIZES, SOCKET, SessionDir,
    SessionSpec, Summary, TIMES, TYPED, size_line,
};
pub(crate) use echo::{EchoFilter, TextForm, ends_like_a_prompt};
pub(crate) use end::{GRACE, end_from_below, end_wholly, end_without_folder};
pub(crate) use events::{ALIVE, EVENTS, Events, handle_of};
pub(crate) use evidence::Diagnosis;
pub(crate) use exit::{EndedBy, ExitRecord, Notice};
pub(crate) use glance::Glance;
pub(crate) use handle::{Handle, Name, Target};
pub(crate) use home::{HELPER_LOCK, HELPER_SOCKET, PendingSession, Retention, StateDir};
pub(crate) use log::OutputLog;
pub(crate) use marks::{FoundMark, Mark, Marks};
pub(crate) use patience::Patience;
pub(crate) use settings::Settings;
pub(crate) use shell::{LONGEST_SHOWN_HOOK, shown_hook};
pub(crate) use sight::{ScreenCache, screen_of};
pub(crate) use soundness::{CheckReport, Fault, TRIAL};
pub(crate) use trace::{Stage, Trace};
pub(crate) use unmarked::Unmarked;
pub(crate) use wait::{Wait, WaitEnd};
