//! A server of the model context protocol on standard input and output.
//!
//! A tool is a command of `nbs-ts`, and its call a process of our own file that executes that command: so
//! calls run concurrently, a signal cancels one, and none can crash the server. [`message`], [`frames`],
//! [`tools`], [`tasks`] and [`answer`] are pure; [`server`] is the one loop, and [`call`] the process behind
//! a call.

mod answer;
mod call;
mod input_line;
mod message;
mod server;
mod tasks;
mod tools;

pub(crate) use server::serve;
pub(crate) use tools::Tools;
