//! Starting a relay, as `create` does: the caller's side.
//!
//! It is this same file under another name. `create` passes the session's lock to the relay, so that there is
//! no moment in which no process holds it.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::Shutdown,
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, net::UnixStream},
    },
    path::Path,
};

use crate::{
    outcome::{Failure, Result, Trying},
    session::{Handle, PendingSession, SessionSpec, Settings},
    sys::{child, files::Folder, gate::Environment, socket, spawn::Role},
    worded::worded,
};

worded! {
    /// The process that starts the child of a session.
    pub(crate) enum SpawnVia {
        /// The relay starts it, in the caller's environment.
        Relay = "direct",
        /// The helper, in its own environment; if it is not running, the relay.
        HelperIfThere = "helper",
        /// The helper, or there is no session.
        Helper = "require-helper",
    }
}

/// The names of variables that the helper's child must have as the relay has them. Only names: the values are
/// in the relay's environment, and on no disk.
pub(super) const CHANGED: &str = "environment";

/// The prefix of a warning for the caller, which the relay sends before its `+` or `-`: this, a line, a
/// newline.
pub(crate) const WARNING: &str = "!";

/// The byte that `create` sends when all files of the session exist.
pub(super) const READY: &[u8] = b".";

/// Makes the files of a session, while its relay begins, and returns when the session is visible; with a
/// warning for the caller, if there is one.
pub(crate) fn start(
    pending: &PendingSession,
    sessions: &Path,
    spec: &SessionSpec,
    umask: u32,
    cwd: Option<&Path>,
    environment: &Environment,
    via: SpawnVia,
) -> Result<Option<String>> {
    let what = "start the relay";
    let pair = UnixStream::pair().trying(what);
    let (mut ours, theirs) = pair.or_else(|failure| check_sockets(&pending.handle).and(Err(failure)))?;
    let words = [
        pending.handle.as_str().into(),
        sessions.into(),
        format!("{umask:o}").into(),
        format!("{}x{}", spec.size.cols, spec.size.rows).into(),
        via.word().into(),
    ];
    let nowhere =
        File::options().write(true).open("/dev/null").map_err(child::why_not_ourselves).trying(what)?;
    let role = Role {
        name: crate::session::RELAY,
        words: &words,
        streams: [pending.lock.as_fd(), theirs.as_fd(), nowhere.as_fd()],
        folder: cwd,
        environment,
    };
    let relay = role.start().map_err(child::why_not_ourselves).trying(what)?;
    drop((theirs, nowhere));
    let prepare = || {
        if via != SpawnVia::Relay {
            write_changed(&pending.folder, environment)?;
        }
        send(&ours, &Order::encode(&spec.settings, &spec.command))
    };
    let write = || {
        spec.write(&pending.folder)?;
        spec.write_rest(pending, sessions, relay)
    };
    let making = format_args!("make a session in '{}'", sessions.display());
    // From the order on, the relay starts the command, which begins only when all is there.
    let made = prepare()
        .trying(making)
        .or_else(|failure| check_sockets(&pending.handle).and(Err(failure)))
        .and_then(|()| check_sockets(&pending.handle))
        .and_then(|()| write().trying(making));
    let made = made.and_then(|()| {
        spec.check_log_limit(&pending.folder)
            .trying(format_args!("free a part of a file, as --max-log requires, in '{}'", sessions.display()))
    });
    if let Err(failure) = made {
        // The relay removes the session's files and exits. If SIGCHLD is ignored, wait(2) waits for that as well,
        // and then reports an error, which says nothing.
        drop(ours);
        let _ = child::wait_for(relay);
        return Err(failure);
    }
    send(&ours, READY).trying(what)?;
    // If the shutdown fails, the error closes the socket, so the relay never waits for more.
    ours.shutdown(Shutdown::Write).trying(what)?;
    let mut words = Vec::new();
    match ours.read_to_end(&mut words) {
        // It has gone without reading our bytes.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        other => drop(other.trying(what)?),
    }
    handle(&words).map_err(|why| {
        Failure::failed(why.unwrap_or_else(|| format!("cannot {what}: it exited without a message")))
    })
}

/// By what a relay starts the command of a session, before that has any files.
pub(super) struct Order {
    pub(super) settings: Settings,
    pub(super) command: Vec<u8>,
}

impl Order {
    fn encode(settings: &Settings, command: &[u8]) -> Vec<u8> {
        let settings = settings.encode();
        let lengths = [settings.len(), command.len()].map(|length| (length as u64).to_ne_bytes());
        [&lengths.concat(), &settings, command].concat()
    }

    pub(super) fn read(mut from: impl Read) -> io::Result<Order> {
        let mut piece = |length: u64| {
            let mut bytes = Vec::new();
            from.by_ref().take(length).read_to_end(&mut bytes)?;
            if bytes.len() as u64 == length {
                Ok(bytes)
            } else {
                Err(io::Error::from(io::ErrorKind::UnexpectedEof))
            }
        };
        let lengths = piece(16)?;
        let length = |at: usize| {
            let length = lengths.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            length.map(u64::from_ne_bytes).ok_or(io::ErrorKind::InvalidData)
        };
        let settings = Settings::decode(&piece(length(0)?)?).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Order { settings, command: piece(length(8)?)? })
    }
}

/// If the relay has gone, its message has the reason.
fn send(mut relay: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    match relay.write_all(bytes) {
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
            Ok(())
        }
        other => other,
    }
}

/// Fails if a sandbox refuses a system call that every session needs: there a relay could not be reached, nor
/// report that.
fn check_sockets(handle: &Handle) -> Result<()> {
    match socket::refused_call(&format!("nbs-{handle}")) {
        Some((call, error)) => {
            Err(Failure::failed(format!("cannot start a session: {}; {SOCKETS_FIX}", refusal(call, &error))))
        }
        None => Ok(()),
    }
}

/// The sandbox refuses this call.
pub(crate) fn refusal(call: &str, error: &io::Error) -> String {
    format!("the sandbox refuses '{call}' on Unix sockets ({error})")
}

/// The remedy for that.
pub(crate) const SOCKETS_FIX: &str = "call nbs-ts outside of it, or let it use sockets (Codex: \
                                      'network_access = true' in [sandbox_workspace_write])";

/// The relay's message: a warning, if there is one, or why there is no session.
fn handle(words: &[u8]) -> std::result::Result<Option<String>, Option<String>> {
    let words = String::from_utf8_lossy(words);
    let (warning, word) = match words.strip_prefix(WARNING).and_then(|rest| rest.split_once('\n')) {
        Some((warning, word)) => (Some(warning.to_owned()), word),
        None => (None, &*words),
    };
    match word.strip_prefix('-') {
        Some(why) => Err(Some(why.to_owned())),
        None if word == "+" => Ok(warning),
        None => Err(None),
    }
}

fn write_changed(folder: &Folder, environment: &Environment) -> io::Result<()> {
    let names: Vec<&[u8]> = environment.iter().map(|(name, _)| name.as_bytes()).collect();
    folder.create(CHANGED, &names.join(&0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_back_as_a_whole() {
        let settings = Settings { record: true, title: Some(b"a\nb".to_vec()), ..Settings::default() };
        let bytes = Order::encode(&settings, b"echo \0");
        let order = Order::read(&bytes[..]).unwrap();
        assert_eq!((order.settings, order.command), (settings, b"echo \0".to_vec()));
        for length in 0..bytes.len() {
            assert!(Order::read(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_relay_says_yes_or_no_and_maybe_why() {
        assert_eq!(handle(b"+"), Ok(None));
        assert_eq!(handle(b"!helper not running\n+"), Ok(Some("helper not running".into())));
        assert_eq!(handle(b"-cannot open"), Err(Some("cannot open".into())));
        assert_eq!(handle(b"!helper not running\n-cannot open"), Err(Some("cannot open".into())));
        assert_eq!(handle(b""), Err(None));
        assert_eq!(handle(b"!half a line"), Err(None));
    }
}
