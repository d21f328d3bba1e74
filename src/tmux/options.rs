//! Options and hooks: those that tmux 3.3a has, their defaults, and where a value is set.

use std::env;

use crate::{
    outcome::{Failure, Result},
    sys::child,
    tmux::{
        state::{Setting, State},
        tables,
    },
};

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// `s` of the server, `g` of a session, `w` of a window or pane, `h` a hook of a session, `i` one of
    /// a window.
    pub(crate) scope: char,
    /// Without an index.
    pub(crate) name: &'static str,
    /// What it has in brackets.
    pub(crate) index: Option<&'static str>,
    pub(crate) default: &'static str,
}

pub(crate) fn known() -> impl Iterator<Item = Known> {
    tables::options().lines().map(|line| {
        let (scope, rest) = line.split_at(1);
        let (name, default) = rest[1..].split_once(' ').unwrap_or((&rest[1..], ""));
        let (name, index) = match name.split_once('[') {
            Some((name, index)) => (name, Some(index.trim_end_matches(']'))),
            None => (name, None),
        };
        Known { scope: scope.chars().next().unwrap_or('g'), name, index, default }
    })
}

/// The option that a word names, also by its beginning; and the index that it has behind it.
pub(crate) fn find(word: &str) -> Result<(Known, Option<&str>)> {
    let (name, index) = match word.split_once('[') {
        Some((name, index)) => (name, Some(index.trim_end_matches(']'))),
        None => (word, None),
    };
    if let Some(known) = known().find(|known| known.name == name) {
        return Ok((known, index));
    }
    let mut found: Vec<Known> = known().filter(|known| known.name.starts_with(name)).collect();
    found.dedup_by_key(|known| known.name);
    match found[..] {
        [known] => Ok((known, index)),
        [] => Err(Failure::failed(format!("invalid option: {word}"))),
        _ => Err(Failure::failed(format!("ambiguous option: {word}"))),
    }
}

impl Known {
    pub(crate) fn is_array(&self) -> bool {
        let arrays =
            ["command-alias", "terminal-overrides", "user-keys", "update-environment", "pane-colours"];
        self.index.is_some() || self.is_hook() || arrays.contains(&self.name)
    }

    pub(crate) fn is_hook(&self) -> bool {
        matches!(self.scope, 'h' | 'i')
    }

    pub(crate) fn is_flag(&self) -> bool {
        matches!(self.default, "on" | "off") && self.name != "status"
    }

    pub(crate) fn is_number(&self) -> bool {
        self.index.is_none()
            && self.default.parse::<u32>().is_ok()
            && !["main-pane-height", "main-pane-width", "other-pane-height", "other-pane-width"]
                .contains(&self.name)
    }

    pub(crate) fn default(&self) -> String {
        match self.name {
            "default-shell" => default_shell(),
            "editor" => env::var("EDITOR").unwrap_or_else(|_| "/usr/bin/vi".into()),
            _ => self.default.to_owned(),
        }
    }
}

fn default_shell() -> String {
    let shell = env::var("SHELL").ok().filter(|shell| child::is_program(shell.as_ref()));
    shell.unwrap_or_else(|| "/bin/sh".into())
}

/// The scopes in which a value is looked for, the nearest first.
pub(crate) fn scopes(session: Option<u32>, window: Option<u32>, pane: Option<u32>) -> Vec<String> {
    let scope = |kind, id: Option<u32>| id.map(|id| format!("{kind}{id}"));
    let near = [scope('%', pane), scope('@', window), scope('$', session)];
    near.into_iter().flatten().chain(["s", "g", "w"].map(String::from)).collect()
}

impl State {
    pub(crate) fn setting<'a>(&'a self, scope: &str, name: &str) -> Option<&'a Setting> {
        self.options.iter().find(|setting| setting.scope == scope && setting.name == name)
    }

    /// The value of an option where these scopes are looked at in turn; its default if none has it.
    pub(crate) fn option_in(&self, scopes: &[String], name: &str) -> Option<String> {
        let set = scopes.iter().find_map(|scope| self.setting(scope, name)?.value.clone());
        set.or_else(|| {
            known().find(|known| known.name == name && known.index.is_none()).map(|known| known.default())
        })
    }

    pub(crate) fn option_of_session(&self, session: u32, name: &str) -> String {
        self.option_in(&scopes(Some(session), None, None), name).unwrap_or_default()
    }

    pub(crate) fn option_of_pane(&self, window: u32, pane: Option<u32>, name: &str) -> String {
        self.option_in(&scopes(None, Some(window), pane), name).unwrap_or_default()
    }

    pub(crate) fn number_of_session(&self, session: u32, name: &str) -> u32 {
        self.option_of_session(session, name).parse().unwrap_or(0)
    }
}
