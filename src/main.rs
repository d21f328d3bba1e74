//! Finds the applet that we were called as, runs it, and exits.
//!
//! Nothing below here ends the process, so what an owner does when it is dropped (wait for
//! the last sync, wipe a secret) is done; but a panic ends it, and drops nothing. And
//! nothing below here prints an error, so all of nbs speaks with one voice.

mod applet;
mod applets;
mod call;
mod cli;
mod feed;
mod help;
mod helper;
mod install;
mod jail;
mod json;
mod machine;
mod mcp;
mod numbers;
mod outcome;
mod packed;
mod page;
mod panics;
mod relay;
#[cfg(test)]
mod rounds;
mod session;
mod sorted;
mod sys;
mod terminal;
mod tmux;
mod ts;
mod worded;
mod worker;

use std::{env, process::ExitCode};

/// musl's allocator maps, and unmaps, a page or more for each size that is requested: that was half of a
/// call's cost besides the start of a process.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    let mut words = env::args_os();
    let called_as = words.next().unwrap_or_default();
    panics::install_hook(&called_as);
    applets::call(&called_as, words.collect())
}
