//! The shared parts of the commands of `nbs-ts`: the options that start a session, the conditions of waits,
//! and the printing of output and screens.
//!
//! Only applets use this. Nothing here decides the name of a command, or its exit code.

pub(crate) mod agent_hooks;
pub(crate) mod attach;
pub(crate) mod conditions;
pub(crate) mod create_options;
pub(crate) mod frames;
pub(crate) mod listing;
pub(crate) mod notices;
pub(crate) mod output;
pub(crate) mod profile;
pub(crate) mod remote;
pub(crate) mod rendered;
pub(crate) mod screen_output;
pub(crate) mod secret;
pub(crate) mod top;
