//! An entry of `list`, read with as few system calls as possible.
//!
//! `meta` has most of it: its lock shows whether the session is alive, its time when it began, its first line
//! the command. So a live session costs that file and a lookup of the name. For anything else, such as a dead
//! session or one with changed files, we open its directory.

use std::time::SystemTime;

use crate::{
    session::{Handle, Name, SessionDir, dir},
    sys::files::{self, Folder},
    terminal::text,
};

#[derive(Clone)]
pub(crate) struct ListEntry {
    pub(crate) handle: Handle,
    pub(crate) alive: bool,
    pub(crate) name: Option<Name>,
    /// On one line, as people are shown it.
    pub(crate) command: String,
    /// `None` if the file with that time is gone.
    pub(crate) started: Option<SystemTime>,
}

impl ListEntry {
    /// Is it there? Every output has the same word for that.
    pub(crate) fn state(&self) -> &'static str {
        if self.alive { "alive" } else { "dead" }
    }

    /// The name of a session among others; `None` if it has none.
    pub(super) fn name(sessions: &Folder, handle: &Handle) -> Option<Name> {
        let (name, _) = sessions.open_file_within(handle.as_str(), dir::NAME).ok()?;
        Name::parse(&files::read(&name, dir::NAME, dir::LONGEST_WORD).ok()?)
    }

    /// At a live session of that name among others, if it is one, and its files are as
    /// they were made.
    pub(super) fn at_live(sessions: &Folder, handle: &Handle, name: Option<&Name>) -> Option<ListEntry> {
        let (meta, started) = sessions.open_file_within(handle.as_str(), dir::META).ok()?;
        if !files::is_locked(&meta).ok()? {
            return None;
        }
        let content = files::read(&meta, dir::META, dir::LONGEST_COMMAND).ok()?;
        Some(ListEntry {
            handle: handle.clone(),
            alive: true,
            name: name.cloned(),
            command: command(&content)?,
            started: Some(started),
        })
    }

    /// The entry of any session. `None` if it was removed meanwhile. Changed files must not hide a session
    /// from `list` and `kill --all`: an unreadable one is shown as empty.
    pub(crate) fn at(session: &SessionDir) -> Option<ListEntry> {
        let started = session.started();
        if started.is_none() && session.is_gone() {
            return None;
        }
        Some(ListEntry {
            handle: session.handle().clone(),
            // If this is unknown, callers must not do anything that harms a live session.
            alive: session.is_alive().unwrap_or(true),
            name: session.name(),
            command: text::escaped(&session.command().unwrap_or_default()),
            started,
        })
    }
}

/// The command as `meta` has it; `None` if the file was changed.
fn command(meta: &[u8]) -> Option<String> {
    let rest = meta.strip_prefix(b"command: ")?.strip_suffix(b"\n")?;
    let end = memchr::memchr(b'\n', rest).filter(|end| rest[*end..].starts_with(b"\nstart: "))?;
    // It is escaped already, unless another program wrote the file.
    Some(text::escaped(&rest[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_shows_valid_fields_of_meta_or_none() {
        let shown = |meta: &str| command(meta.as_bytes());
        assert_eq!(shown("command: a\\x1b\\nb \\\\é\nstart: 5\n").as_deref(), Some("a\\x1b\\nb \\\\é"));
        assert_eq!(shown("command: \u{1b}[2J\nstart: 5\n").as_deref(), Some("\\e[2J"));
        for other in
            ["", "command: a\n", "command: a\nb\nstart: 5\n", "a\nstart: 5\n", "command: a\nstart: 5"]
        {
            assert_eq!(shown(other), None, "{other:?}");
        }
    }
}
