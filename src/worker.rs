//! Workers: agents that do one task each, in a session of their own.
//!
//! A worker is a task file, `<root>/.nbs/workers/<handle>.md`, in which it keeps its state; an agent, which
//! opens a session with that handle in its name; and a monitor, which ends the session when the task is over.
//! The state of a worker is read from these three each time; nothing else is written.

pub(crate) use foreground::ForegroundJob;
pub(crate) use handle::{Role, WorkerHandle};
pub(crate) use launch::{Launch, find_agent};
pub(crate) use monitor::{Monitor, Watched, WorkerLimits};
pub(crate) use task_file::TaskFile;
pub(crate) use view::{View, WorkerEnd, list, wait};

mod foreground;
mod handle;
mod launch;
mod lookout;
mod monitor;
mod phase;
mod remains;
mod sessions;
mod status;
mod task_file;
mod view;
