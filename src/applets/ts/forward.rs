//! forward - make a port on another machine reachable here, or vice versa
//! Task: On machines, 3
//!
//! Usage: nbs-ts forward [options] MACHINE FORWARD...
//!
//! FORWARD is [BIND:]PORT[:HOST:PORT], as in `ssh -L`. nbs listens on PORT here
//! and connects from the machine to HOST:PORT, or to the same port on the machine.
//! Either side may also be the path of a socket, with a slash in it. nbs listens
//! on 127.0.0.1 unless BIND says otherwise (* for all addresses; [::1] for IPv6).
//!
//! Prints a line for each FORWARD when it is listening, such as
//! `forward: 127.0.0.1:8080 -> devbox:8080`. Forwarding ends with this call. While
//! the connection to the machine is lost, open connections wait for up to 60
//! seconds.
//!
//! Options:
//!   --reverse         listen on the machine, and connect from here
//!
//! Exit codes:
//!   1                 cannot listen; the port may be taken
//!   4                 bad arguments
//!   255               the machine is unreachable
//!
//! Example:
//!   nbs-ts forward devbox 8080 5433:db.internal:5432

use crate::{
    call::CommandLine,
    machine::{forwarding, name, port},
    outcome::{Failure, Result},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let machine = name::parse(call.operand("MACHINE").unwrap_or_default().as_encoded_bytes())?;
    let is_reverse = call.has("reverse");
    let parse = |word: &std::ffi::OsString| {
        port::parse_forward(word)
            .ok_or_else(|| Failure::bad_args(format!("'{}' is not [BIND:]PORT[:HOST:PORT]", word.display())))
    };
    let forwards = call.operands("FORWARD").iter().map(parse).collect::<Result<_>>()?;
    forwarding::forward(&machine, forwards, is_reverse)
}
