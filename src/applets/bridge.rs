//! bridge - keeps the connection to another machine
//!
//! An internal role. A call for a session on MACHINE starts `nbs-bridge MACHINE DIRECTORY`.
//! Its socket is in DIRECTORY: a process that only has its name has none there. It prints `+` when it
//! listens, or `-` and why it cannot.

use std::os::unix::ffi::OsStrExt;

use crate::{
    cli::{self, Args},
    machine::{bridge, name::MachineName},
    outcome::{Result, Trying},
    sys::inherited,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [machine, _folder] = &words[..] else { return Err(cli::by_hand()) };
    let machine = MachineName::parse(machine.as_bytes()).ok_or_else(cli::by_hand)?;
    cli::started_by_us()?;
    inherited::shed().trying("close inherited descriptors")?;
    bridge::serve(&machine)
}
