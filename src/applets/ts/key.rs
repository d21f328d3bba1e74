//! key - type keys by their names
//! Task: Do, 6
//!
//! Usage: nbs-ts key [options] SESSION KEY...
//!
//! The names are tmux's: Enter, Tab, Escape, Space, BSpace, Insert, Delete, Home,
//! End, PageUp, PageDown, Up, Down, Left, Right, F1 to F12 and BTab. The keypad
//! has KP0 to KP9, KPEnter, KP+, KP-, KP*, KP/ and `KP.`. Any single character is
//! a name, too. The prefixes C- (or ^), M-, S- and Super- mean Ctrl, Meta, Shift
//! and Super: C-c, M-x, C-Left, ^D. `key` sends what xterm would send, in the
//! modes that the program has set (application cursor keys, application keypad).
//! If the program has enabled kitty's keyboard protocol, it can tell all
//! combinations apart: S-Enter, C-S-x, Super-x. Otherwise S-Enter is Enter.
//!
//! A key that the terminal currently turns into a signal (C-c, C-\, C-z) acts at
//! once, even if the program is not reading and typed input is queued. The
//! terminal then discards that input, up to the end of what was being typed. A
//! `send` that had begun fails; one that is still queued proceeds.
//!
//! Options:
//!   --stdin           first type the text from standard input, without Enter
//!   --no-secret       type keys but no text at a secret prompt; exit 1
//!   --timeout=TIME    wait this long for a program that does not read
//!                     (default: 10); the rest is never typed
//!   --json            print an object with the number of bytes typed
//!
//! Example:
//!   nbs-ts key "$h" Escape : w q Enter

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Result},
    session::{
        InputSource, SessionDir, StateDir,
        client::{RelayClient, sending},
    },
    sys::deadline::Deadline,
    terminal::keys::{self, Application, Key},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (target, timeout) = (call.session()?, call.value("timeout", cli::time)?);
    let names = call.operands("KEY").iter().map(|word| key(word)).collect::<Result<Vec<Key>>>()?;
    let (from_stdin, no_secret) = (call.has("stdin"), call.has("no-secret"));

    let text = if from_stdin { cli::whole_stdin(Deadline::NEVER)? } else { Vec::new() };
    let session = StateDir::open()?.session(&target)?.within(Deadline::after(timeout));
    session.check_input()?;
    let type_all = |bytes: &[u8]| sending::type_all(&session, bytes, InputSource::Key, timeout);
    let count = press_all(&session, text, &names, no_secret, type_all)?;
    call.print_json(Object::new().text("handle", session.handle().as_str()).number("typed", count))
}

fn key(word: &std::ffi::OsStr) -> Result<Key> {
    word.to_str().and_then(keys::parse).ok_or_else(|| {
        let hint = "not a key; try Enter, C-c, M-x, Up, F5 and the like";
        Failure::bad_args(format!("'{}' is {hint}; for text, try 'nbs-ts send'", word.display()))
    })
}

/// Types the text, then the keys. Everything between two signals is one request, so that no other call
/// can type in between.
fn press_all(
    session: &SessionDir,
    text: Vec<u8>,
    keys: &[Key],
    no_secret: bool,
    type_all: impl Fn(&[u8]) -> Result<u64>,
) -> Result<u64> {
    let mut client = RelayClient::open(session)?.ok_or_else(|| session.ended())?;
    let modes = client.modes()?.ok_or_else(|| session.ended())?;
    let is_text = |key: &Key| key.bytes(Application::default()).iter().all(|byte| !byte.is_ascii_control());
    if no_secret && modes.secret && (!text.is_empty() || keys.iter().any(is_text)) {
        return Err(sending::is_secret(session));
    }
    let (mut pending, mut count) = (text, 0);
    for key in keys {
        let bytes = key.bytes(modes.application);
        match bytes[..] {
            [byte] if modes.signals.contains(&byte) => {
                if !pending.is_empty() {
                    count += type_all(&pending)?;
                    pending.clear();
                }
                if client.press(byte)?.ok_or_else(|| session.ended())? {
                    count += 1;
                } else {
                    pending.push(byte);
                }
            }
            _ => pending.extend(bytes),
        }
    }
    if !pending.is_empty() {
        count += type_all(&pending)?;
    }
    Ok(count)
}
