//! bridge - the connection to another machine
//!
//! An internal role. `nbs-bridge MACHINE FOLDER` is started by a call for a session on that
//! machine; FOLDER is where its socket is, so that it can be told from what is merely called so. It
//! says on standard output `+` when it listens, or `-` and why it does not.

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
    inherited::shed().trying("shed what was inherited")?;
    bridge::serve(&machine)
}
