//! keeper - the parent of a session's child that the helper starts
//!
//! An internal role. The helper starts `nbs-keeper HANDLE SESSIONS PEER LENGTH`. Its standard input
//! is the connection of a relay, from which it reads an order of LENGTH bytes. Its standard output
//! is the helper's pipe for lines of its log.

use crate::{
    cli::{self, Args},
    helper::{self, protocol::LONGEST_ORDER},
    outcome::{Result, Trying},
    sys::{child, inherited},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [_handle, _sessions, peer, length] = &words[..] else { return Err(cli::by_hand()) };
    let number = |word: &std::ffi::OsString| word.to_str().and_then(|digits| digits.parse::<u32>().ok());
    let peer = number(peer).ok_or_else(cli::by_hand)?;
    let length = number(length).map(|length| length as usize).filter(|length| *length <= LONGEST_ORDER);
    let length = length.ok_or_else(cli::by_hand)?;
    inherited::shed().trying("close inherited descriptors")?;
    let relay = cli::socket_on_stdin()?;
    child::leave_session_as(crate::session::KEEPER).trying("become a process of its own")?;
    helper::keep(relay, peer, length)
}
