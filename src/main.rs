//! Finds the applet that we were called as, runs it, and exits.
//!
//! Nothing below here ends the process, so what an owner does when it is dropped (wait for
//! the last sync, wipe a secret) is done; but a panic ends it, and drops nothing. And
//! nothing below here prints an error, so all of nbs speaks with one voice.

#![cfg_attr(not(test), no_main)]

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

use std::{
    ffi::{c_char, c_int},
    process,
};

use sys::{allocator::Allocator, start};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator::new();

#[cfg_attr(not(test), expect(unsafe_code, reason = "the C library calls it by its name"))]
#[cfg_attr(not(test), unsafe(export_name = "main"))]
#[cfg_attr(test, expect(dead_code, reason = "tests have a start of their own"))]
extern "C" fn main_of_c(count: c_int, words: *const *const c_char) -> c_int {
    let mut words = start::begin(count, words).into_iter();
    let called_as = words.next().unwrap_or_default();
    panics::install_hook(&called_as);
    process::exit(applets::call(&called_as, words.collect()).into())
}
