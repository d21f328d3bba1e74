//! A session is a handle, and a directory of files with fixed meanings.
//!
//! This layer reads and writes the files and talks to the relay behind them. It starts no processes.

mod activity;
mod activity_view;
mod answering;
mod check;
pub(crate) mod client;
mod completion;
mod dir;
mod end;
mod events;
mod exit;
mod handle;
mod history;
mod list_entry;
mod log;
mod ports;
mod program_said;
mod prompts;
mod reply_timeout;
mod roles;
mod rules;
mod scene;
mod screen_cache;
mod secret_form;
mod settings;
pub(crate) mod shell;
mod state_dir;
mod submission;
mod verdict;

pub(crate) use activity::{Activity, Because, REPORT, Report, ReportState};
pub(crate) use activity_view::{ActivityView, ReplyKind, removed, removed_of};
pub(crate) use answering::answer;
pub(crate) use check::{CheckReport, Fault, TRIAL};
pub(crate) use completion::{Completion, completion_line};
pub(crate) use dir::{
    CLAIMS, COMPLETIONS, EXIT_CODE, INPUT, OUTPUT, RUN_TEXT, Removal, SIZES, SOCKET, SessionDir, SessionSpec,
    TIMES, TYPED, size_line,
};
pub(crate) use end::{GRACE, borne, end_found, end_from_below, end_wholly, end_without_folder};
pub(crate) use events::{ALIVE, EVENTS, Events, handle_of};
pub(crate) use exit::{EXIT_RECORD, End, EndedBy, ExitRecord, Notice, Usage};
pub(crate) use handle::{Address, Handle, Name, Target};
pub(crate) use history::{CommandEntry, HISTORY, InputSource, by_time};
pub(crate) use list_entry::ListEntry;
pub(crate) use log::{LOG_START, OutputLog, Piece};
pub(crate) use program_said::{ProgramSaid, SaidNotice, program_state};
pub(crate) use reply_timeout::ReplyTimeout;
pub(crate) use roles::{BRIDGE, KEEPER, MONITOR, RELAY, SCREEN, SESSION_ENV, TERMINATOR, VIEWER};
pub(crate) use rules::program_of;
pub(crate) use screen_cache::{ScreenCache, screen_of};
pub(crate) use secret_form::OpenForm;
pub(crate) use settings::Settings;
pub(crate) use state_dir::{
    BRIDGES, FAR, HELPER_LOCK, HELPER_SOCKET, MACHINES, MACHINES_LOCK, PAGE_PORT, PAGE_TOKEN, PANICS,
    PROFILES, PendingSession, Retention, StateDir, TMUX,
};
pub(crate) use submission::submit;
pub(crate) use verdict::Verdict;
