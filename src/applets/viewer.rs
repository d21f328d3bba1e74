//! viewer - shows a session on a terminal, and types into it
//!
//! An internal role. `nbs-ts attach --interactive` starts `nbs-viewer HANDLE`, with its terminal as
//! standard input and output. Standard error is a pipe to `attach`, on which it says why it failed.
//! `nbs-viewer HANDLE --read-only` only shows the session, and with `--tmux` C-b is the prefix.
//! `nbs-viewer MACHINE: COMMAND...` shows the output of that call on that machine.
//! `nbs-viewer top [--on=MACHINE...] [--name=PART]` shows all sessions, for `nbs-ts top`.

use std::{
    io::{self, Write},
    os::unix::ffi::OsStrExt,
};

use crate::{
    cli::{self, Args},
    machine::name::MachineName,
    outcome::{Failure, Result, Trying},
    session::{self, Handle, StateDir, Target},
    sys::{child, inherited},
    ts::{attach, top},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [shown, words @ ..] = &words[..] else { return Err(cli::by_hand()) };
    let machine =
        shown.as_bytes().strip_suffix(b":").map(|name| MachineName::parse(name).ok_or_else(cli::by_hand));
    let machine = machine.transpose()?;
    let is_ours = words.is_empty() || words == [attach::READ_ONLY] || words == [attach::AS_TMUX];
    let handle = Handle::parse(shown.as_bytes()).filter(|_| is_ours);
    cli::started_by_us()?;
    inherited::shed().trying("close inherited descriptors")?;
    child::call_ourselves(session::VIEWER).trying("set the process name")?;
    let viewed = match (machine, handle) {
        (None, None) if shown == attach::BY_TOP => {
            let scope = top::Scope::parse(words).ok_or_else(cli::by_hand)?;
            StateDir::open().and_then(|state_dir| top::view(&state_dir, scope, &io::stderr()))
        }
        (Some(machine), _) => attach::pass_through(&machine, words.to_vec(), &io::stderr()),
        (None, Some(handle)) => StateDir::open().and_then(|state_dir| {
            let session = state_dir.session(&Target::Handle(handle))?;
            match words {
                [] => attach::view(&state_dir, &session, attach::PREFIX, &io::stderr()),
                [word] if word == attach::AS_TMUX => {
                    attach::view(&state_dir, &session, attach::PREFIX_OF_TMUX, &io::stderr())
                }
                _ => attach::look_on(&state_dir, &session, &io::stderr()),
            }
        }),
        (None, None) => return Err(cli::by_hand()),
    };
    viewed.map_err(|failure| {
        // If the reader has gone, there is no one to notify.
        let _ = io::stderr().write_all(failure.message().unwrap_or("the reader has gone").as_bytes());
        Failure::status(failure.code(), failure.kind(), None)
    })
}
