//! Finds the applet that we were called as, runs it, and exits.
//!
//! Nothing below here ends the process, so every guard puts back what it
//! changed; and nothing below here prints an error, so all of nbs speaks with
//! one voice.

mod applets;
mod cli;
mod helper;
mod json;
mod keys;
mod outcome;
mod output;
mod picture;
mod relay;
mod screen;
mod session;
mod starting;
mod sys;
mod text;
mod waiting;

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let mut words = env::args_os();
    let called_as = words.next().unwrap_or_default();
    applets::call(&called_as, words.collect())
}
