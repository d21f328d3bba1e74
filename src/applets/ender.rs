//! ender - ends a session that has reached a limit
//!
//! An internal role. `nbs-ender HANDLE SESSIONS CAUSE` is started by the relay of
//! the session, whose child it must be: the relay itself never waits for
//! anybody, and to end all of a session takes waiting.

use std::{ffi::OsStr, os::unix::process::parent_id, path::Path};

use crate::{
    cli::{self, Args},
    outcome::{Result, Trying},
    session::{self, EndedBy, Handle, SessionDir},
    sys::{child, files::Folder, inherited},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [handle, sessions, cause] = &words[..] else {
        return Err(cli::by_hand());
    };
    inherited::shed().trying("shed what was inherited")?;
    let handle = Handle::parse(handle.as_encoded_bytes()).ok_or_else(cli::by_hand)?;
    let cause = EndedBy::parse(cause.as_encoded_bytes()).ok_or_else(cli::by_hand)?;
    let folder = Folder::open(Path::new(sessions))
        .and_then(|sessions| sessions.open_folder(OsStr::new(handle.as_str())))
        .map_err(|_| cli::by_hand())?;
    let session = SessionDir::new(handle, folder);
    if !session.is_served_by(parent_id()) {
        return Err(cli::by_hand());
    }
    child::call_ourselves(session::ENDER).trying("take our name")?;
    session::end_from_below(&session, session::GRACE, cause)?;
    Ok(())
}
