//! nbs as its users call it: the built file, real PTYs, real programs.
//!
//! Every test has a state folder of its own and leaves no process behind. The
//! file under test is the one that cargo built, or `$NBS_UNDER_TEST`.

mod support;

mod ask; // ask: one program after another, and their answers
mod crash; // what is killed, filled, emptied and taken away
mod exit_codes; // the shortest way to each code, and the line that goes with it
mod help; // what the program says of itself, word for word
mod helper; // the daemon, its keepers, and sessions through it
mod input; // send: order, wholeness, limits
mod keys; // key, eof, send --paste
mod kill; // who dies, who does not, and how fast
mod lifecycle; // create, status, list, find, gc
mod multicall; // nbs itself: names, links, --install
mod output; // read, read-new, attach: every byte, once
mod places; // ensure, pwd, --inherit-cwd
mod races; // twenty at once
mod run; // a command in a shell: its output, its code, and nothing else
mod screen; // screen, render, wait --stable: as tmux shows it
mod secrets; // send --secret-fd and --secret-stdin
mod shell; // the interactive shell: its completions and the user's own settings
mod terminal; // what the terminal is doing, by the kernel's word
mod wait; // wait: its conditions, and what is no echo
mod waits; // wait-complete, wait-pattern
