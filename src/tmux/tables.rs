//! The tables of commands and options, packed: together they are a tenth of what calls as `tmux` add.
//!
//! Most calls need only the lines that are marked by a leading `*` in the files. These come first and are unpacked
//! alone: unpacking the rest, too, would take half as much time again as the whole call.

use std::sync::OnceLock;

use crate::packed::unpack_until;

const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tmux.packed"));
/// The end of each part in the unpacked text; a NUL follows.
const ENDS: [usize; 5] = include!(concat!(env!("OUT_DIR"), "/tmux.ends"));

/// A line for each command: first the usual commands, then the others.
pub(crate) const COMMANDS: [fn() -> &'static str; 2] = [|| part(0), || part(3)];

/// A line for each option.
pub(crate) fn options() -> &'static str {
    part(4)
}

/// A line for each option that most calls look up.
pub(crate) fn options_often() -> &'static str {
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
    static TEXTS: [OnceLock<String>; 2] = [const { OnceLock::new() }; 2];
    let is_rare = at > 2;
    let end = if is_rare { ENDS[4] } else { ENDS[2] };
    let text = TEXTS[usize::from(is_rare)].get_or_init(|| unpack_until(PACKED, ENDS[4] + 1, end));
    text.split('\0').nth(at).unwrap_or_default()
}
