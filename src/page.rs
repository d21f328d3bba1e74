//! The sessions as a web page: a server of HTTP for one user's browsers.
//!
//! What is served are three files of ours, and what the verbs would print: events out
//! (text/event-stream), a few requests in. The page starts a call only to
//! submit a task or an answer, and makes no files but the token and the port, in the state directory.
//! For the sessions of another machine it uses the bridge, as any call does.
//!
//! Who may: whoever has the token, which comes in a header that our own script sets. There is
//! no cookie, since a browser sends those to every port of a machine, and so to other users'
//! servers on it. `http.rs` reads requests, `guard.rs` judges them, `versioned_screen.rs` tells what of a
//! screen has changed, `stream.rs` what of all sessions, `tile.rs` looks after one, `far.rs` after
//! those of another machine, where `feed.rs` tells of them; `server.rs` is the loop.

mod connection;
mod far;
mod feed;
mod guard;
mod http;
mod server;
mod stream;
mod tile;
mod versioned_screen;
mod waiting_call;

pub(crate) use guard::{Token, keep_port, kept_port};
pub(crate) use server::{PageListener, feed, serve};
