//! Options and hooks: those that tmux 3.3a has, their defaults, and where a value is set.

use std::env;

use memchr::memmem;

use crate::{
    outcome::{Failure, Result},
    sys::child,
    tmux::{
        state::{Setting, State},
        tables,
    },
};

/// A line of the table.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    /// `s` of the server, `g` of a session, `w` of a window, `p` of a window or pane, `h` a hook of a session,
    /// `i` one of a window.
    pub(crate) scope: char,
    /// `s` text, `y` a style, `k` a key, `c` a colour, `f` on or off, `n1-9` a number in a range, `=a,b` one of
    /// these words; empty: a hook.
    pub(crate) kind: &'static str,
    /// Without an index.
    pub(crate) name: &'static str,
    /// The text in its brackets.
    pub(crate) index: Option<&'static str>,
    pub(crate) default: &'static str,
}

pub(crate) fn known() -> impl Iterator<Item = Known> {
    tables::options().lines().map(parsed_line)
}

/// The lines of the option with that name: several if it is an array.
pub(crate) fn of_name(name: &str) -> impl Iterator<Item = Known> {
    let is_often = lines_of(tables::options_often(), name).next().is_some();
    lines_of(if is_often { tables::options_often() } else { tables::options() }, name)
}

/// Few lines have the name anywhere, so few are parsed: with many windows it is looked up for each.
fn lines_of(table: &'static str, name: &str) -> impl Iterator<Item = Known> {
    memmem::find_iter(table.as_bytes(), name).filter_map(move |at| {
        let start = table[..at].rfind('\n').map_or(0, |end| end + 1);
        let known = table[start..].lines().next().map(parsed_line)?;
        // It may also stand in the default.
        (known.name == name && known.name.as_ptr() == table[at..].as_ptr()).then_some(known)
    })
}

fn parsed_line(line: &'static str) -> Known {
    let (scope, rest) = line.split_once(' ').unwrap_or_default();
    let scope = scope.chars().next().unwrap_or('g');
    let is_hook = matches!(scope, 'h' | 'i');
    let (kind, rest) = if is_hook { ("", rest) } else { rest.split_once(' ').unwrap_or_default() };
    let (name, default) = rest.split_once(' ').unwrap_or((rest, ""));
    let (name, index) = match name.split_once('[') {
        Some((name, index)) => (name, Some(index.trim_end_matches(']'))),
        None => (name, None),
    };
    Known { scope, kind, name, index, default }
}

/// The name and the index of a word like `name[1]`; `None` where it is no such word.
pub(crate) fn parsed(word: &str) -> Option<(&str, Option<&str>)> {
    match word.split_once('[') {
        None => Some((word, None)).filter(|_| !word.is_empty()),
        Some((name, index)) => {
            let index = index.strip_suffix(']')?;
            let is_number = !index.is_empty() && index.bytes().all(|digit| digit.is_ascii_digit());
            is_number.then_some((name, Some(index)))
        }
    }
}

/// The option that a word names, also by its beginning; and the index that it has behind it.
pub(crate) fn find(word: &str) -> Result<(Known, Option<&str>)> {
    let invalid = || Failure::failed(format!("invalid option: {word}"));
    let (name, index) = parsed(word).ok_or_else(invalid)?;
    if let Some(known) = of_name(name).next() {
        return Ok((known, index));
    }
    let mut found: Option<Known> = None;
    let mut is_ambiguous = false;
    for known in known() {
        if known.name.starts_with(name) {
            is_ambiguous |= found.is_some_and(|found| found.name != known.name);
            found = found.or(Some(known));
        }
    }
    match found {
        Some(known) if !is_ambiguous => Ok((known, index)),
        Some(_) => Err(Failure::failed(format!("ambiguous option: {word}"))),
        None => Err(invalid()),
    }
}

impl Known {
    pub(crate) fn is_array(&self) -> bool {
        const ARRAYS: &str = "command-alias terminal-overrides user-keys update-environment pane-colours";
        self.index.is_some() || self.is_hook() || is_one_of(ARRAYS, self.name)
    }

    pub(crate) fn is_hook(&self) -> bool {
        matches!(self.scope, 'h' | 'i')
    }

    pub(crate) fn default(&self) -> String {
        match self.name {
            "default-shell" => default_shell(),
            // At the end of a line in the table a blank would be lost.
            "status-left" => format!("{} ", self.default),
            "window-status-separator" => " ".to_owned(),
            "editor" => env::var("EDITOR").unwrap_or_else(|_| "/usr/bin/vi".into()),
            _ => self.default.to_owned(),
        }
    }
}

/// Is it one of these words, between which there are blanks?
pub(crate) fn is_one_of(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

fn default_shell() -> String {
    let shell = env::var("SHELL").ok().filter(|shell| child::is_program(shell.as_ref()));
    shell.unwrap_or_else(|| "/bin/sh".into())
}

/// The scopes in which a value is looked for, the nearest first.
pub(crate) fn scopes(session: Option<u32>, window: Option<u32>, pane: Option<u32>) -> Vec<String> {
    let mut scopes = Vec::new();
    let some = |kind: char, id: Option<u32>| id.map(|id| format!("{kind}{id}"));
    let wide = |scope: &str| Some(scope.to_owned());
    for scope in [wide("s"), some('%', pane), some('@', window), wide("w"), some('$', session), wide("g")] {
        scopes.extend(scope);
    }
    scopes
}

impl State {
    pub(crate) fn setting<'a>(&'a self, scope: &str, name: &str) -> Option<&'a Setting> {
        self.options.iter().find(|setting| setting.scope == scope && setting.name == name)
    }

    /// The value of an option where these scopes are looked at in turn; its default if none has it.
    pub(crate) fn option_in(&self, scopes: &[String], name: &str) -> Option<String> {
        let set = scopes.iter().find_map(|scope| self.setting(scope, name)?.value.clone());
        set.or_else(|| {
            let known = of_name(name).find(|known| known.index.is_none());
            known.as_ref().map(Known::default)
        })
    }

    /// The value of an option as a format shows it.
    pub(crate) fn shown_option(&self, scopes: &[String], word: &str) -> Option<String> {
        let (name, index) = parsed(word)?;
        let known = of_name(name).next();
        let is_array = known.is_some_and(|known| known.is_array());
        let is_flag = known.is_some_and(|known| known.kind == "f");
        if !is_array {
            let value = self.option_in(scopes, name)?;
            return Some(if is_flag { u8::from(value == "on").to_string() } else { value });
        }
        let is_such = |setting: &&Setting| {
            let is_item =
                setting.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('['));
            is_item && scopes.contains(&setting.scope)
        };
        let items: Vec<&Setting> = self.options.iter().filter(is_such).collect();
        let set = items.iter().find(|setting| setting.name == word).and_then(|setting| setting.value.clone());
        let default = || {
            let item = of_name(name).find(|known| known.index == index)?;
            Some(item.default.to_owned()).filter(|_| items.is_empty() && index.is_some())
        };
        Some(set.or_else(default).unwrap_or_default())
    }

    pub(crate) fn option_of_session(&self, session: u32, name: &str) -> String {
        self.option_in(&scopes(Some(session), None, None), name).unwrap_or_default()
    }

    pub(crate) fn option_of_pane(&self, window: u32, pane: Option<u32>, name: &str) -> String {
        self.option_in(&scopes(None, Some(window), pane), name).unwrap_or_default()
    }

    /// The size of a new window that nobody shows.
    pub(crate) fn default_size(&self, session: u32) -> (u32, u32) {
        let size = self.option_of_session(session, "default-size");
        let (cols, rows) = size.split_once('x').unwrap_or_default();
        let side = |side: &str, usual: u32| side.parse().map_or(usual, |side: u32| side.clamp(1, 65_535));
        (side(cols, 80), side(rows, 24))
    }

    pub(crate) fn number_of_session(&self, session: u32, name: &str) -> u32 {
        self.option_of_session(session, name).parse().unwrap_or(0)
    }
}
