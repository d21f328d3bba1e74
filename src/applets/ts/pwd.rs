//! pwd - print the current folder of a session
//!
//! Usage: nbs-ts pwd [--json] SESSION
//!
//! The folder of the session's foreground process, also in the middle of a
//! command. Where that may not be looked at (sudo), it is an error, and so it is
//! where the folder has been removed.
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
