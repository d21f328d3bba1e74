//! The tables of commands and options, packed: together they are a tenth of what calls as `tmux` add.

use std::sync::OnceLock;

use crate::packed::unpack;

const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tmux.deflated"));
const LENGTH: usize = include!(concat!(env!("OUT_DIR"), "/tmux.length"));

/// A line for each command, and a line for each option.
pub(crate) fn commands() -> &'static str {
    parts().0
}

pub(crate) fn options() -> &'static str {
    parts().1
}

fn parts() -> (&'static str, &'static str) {
    static ALL: OnceLock<String> = OnceLock::new();
    ALL.get_or_init(|| unpack(PACKED, LENGTH)).split_once('\0').expect("build.rs puts it between both")
}
