//! The sessions as a web page: a server of HTTP for one user's browsers.
//!
//! It serves three files of ours, sends events (text/event-stream) with the same content as the
//! output of our commands, and accepts a few requests. It starts a call only to submit a task or
//! an answer, and makes no files but the token and the port, in the state directory. For the
//! sessions of another machine it uses the bridge, as any call does.
//!
//! A request is accepted if it has the token, in a header that our own script sets. There is no
//! cookie, since a browser sends those to every port of a machine, and so to other users' servers
//! on it. `http.rs` reads requests and `guard.rs` judges them. `versioned_screen.rs` finds the changes
//! of a screen, and `stream.rs` those of all sessions. `tile.rs` follows one session, `far.rs` those of
//! another machine, where `feed.rs` reports them, and `about.rs` describes any of them. `forwards.rs`
//! makes ports of other machines reachable here. `server.rs` is the loop.
//!
//! One request needs no token: that for a form of `secret.rs`, whose address has an id of its own.

mod about;
mod collected_call;
mod connection;
mod far;
mod feed;
mod forwards;
mod guard;
mod http;
mod secret;
mod server;
mod stream;
mod tile;
mod versioned_screen;

pub(crate) use guard::{Token, keep_port};
pub(crate) use server::{PageListener, feed, serve};
