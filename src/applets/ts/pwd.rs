//! pwd - print the current directory of a session
//! Task: See, 12
//!
//! Usage: nbs-ts pwd [--json] SESSION
//!
//! Prints the directory of the foreground program, even while a command runs.
//! Fails if nbs may not inspect the process (sudo), or if the directory has been
//! removed.
//!
//! Options:
//!   --json            print an object: handle, folder
//!
//! Example:
//!   nbs-ts pwd "$h"

use std::os::unix::ffi::OsStrExt;

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::Result,
    session::{StateDir, client::RelayClient},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let target = call.session()?;

    let session = StateDir::open()?.session(&target)?;
    let mut client = RelayClient::open(&session)?.ok_or_else(|| session.ended())?;
    let folder = client.folder()?.ok_or_else(|| session.ended())?;
    let path = folder.as_os_str().as_bytes();
    if call.json() {
        let object = Object::new().text("handle", session.handle().as_str()).bytes("folder", path);
        return cli::print(object.line());
    }
    cli::print([path, b"\n"].concat())
}
