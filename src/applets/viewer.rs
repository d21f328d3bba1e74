//! viewer - shows a session on a terminal, and types into it
//!
//! An internal role. `nbs-viewer HANDLE` is started by `nbs-ts attach --interactive`,
//! with its terminal as standard input and output; standard error is a pipe to it, for
//! why this failed.

use std::{
    io::{self, Write},
    os::unix::process::parent_id,
};

use crate::{
    cli::{self, Args},
    outcome::{Failure, Result, Trying},
    session::{self, Handle, StateDir, Target},
    sys::{child, inherited, processes::Process},
    ts::attach,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [handle] = &words[..] else {
        return Err(cli::by_hand());
    };
    let handle = Handle::parse(handle.as_encoded_bytes()).ok_or_else(cli::by_hand)?;
    if !Process::read(parent_id()).is_some_and(|parent| parent.runs_our_file()) {
        return Err(cli::by_hand());
    }
    inherited::shed().trying("shed what was inherited")?;
    child::call_ourselves(session::VIEWER).trying("take our name")?;
    let viewed = StateDir::open().and_then(|state_dir| {
        let session = state_dir.session(&Target::Handle(handle))?;
        attach::view(&state_dir, &session, &io::stderr())
    });
    viewed.map_err(|failure| {
        // Where nobody listens there is nobody left to tell.
        let _ = io::stderr().write_all(failure.message().unwrap_or("the reader has gone").as_bytes());
        Failure::Quiet
    })
}
