//! What the commands of `nbs-ts` share: the options that start a session, the conditions that
//! are waited for, and how output and screens are printed and shown.
//!
//! Only applets come here. Nothing here decides what a command is called, or its exit code.

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
