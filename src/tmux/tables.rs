//! The tables of commands and options, packed: together they are a tenth of what calls as `tmux` add.

use std::sync::OnceLock;

use crate::packed::unpack;

const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tmux.packed"));
const LENGTH: usize = include!(concat!(env!("OUT_DIR"), "/tmux.length"));

/// A line for each command.
pub(crate) fn commands() -> &'static str {
    part(0)
}

/// A line for each option.
pub(crate) fn options() -> &'static str {
    part(1)
}

/// The names of all variables of formats; `-` stands before those that are not listed.
pub(crate) fn variables() -> &'static str {
    part(2)
}

/// The number of a variable, as in [`known`].
pub(crate) fn variable(name: &str) -> Option<usize> {
    variables().lines().position(|line| line.trim_start_matches('-') == name)
}

/// The numbers of all variables, by their names in capitals.
pub(crate) mod known {
    include!(concat!(env!("OUT_DIR"), "/tmux_variables.rs"));
}

fn part(at: usize) -> &'static str {
    static ALL: OnceLock<String> = OnceLock::new();
    ALL.get_or_init(|| unpack(PACKED, LENGTH)).split('\0').nth(at).unwrap_or_default()
}
