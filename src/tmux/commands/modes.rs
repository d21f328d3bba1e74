//! Modes of panes, and the keys: kept and shown, for nobody looks on.

use super::{Caller, Turn, setting};
use crate::{
    cli,
    outcome::{Failure, Result},
    terminal::keys,
    tmux::{
        state::{Keep, Pane, Setting, put, sorted},
        target::Kind,
        words::{self, Call},
    },
};

/// Begins the scope of the keys of a table.
const TABLE: char = 'k';

/// What the prefix does in `attach-session`.
const KEYS: [(&str, &str); 2] = [("C-b", "send-prefix"), ("d", "detach-client")];

/// A mode of a pane: as a pane keeps it, the beginning of the commands that enter it, and its name.
const MODES: [(char, &str, &str); 4] = [
    ('c', "copy", "copy-mode"),
    ('k', "clock", "clock-mode"),
    ('o', "customize", "options-mode"),
    // `choose-tree` and `find-window`.
    ('t', "", "tree-mode"),
];

impl Pane {
    /// The name of its mode; empty: it is in none.
    pub(crate) fn mode(&self) -> &'static str {
        let mode = self.modes.chars().next_back();
        MODES.iter().find(|(letter, ..)| Some(*letter) == mode).map_or("", |(_, _, name)| name)
    }
}

pub(super) fn enter(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    let pane = turn.state.pane_mut(at.pane);
    let name = call.command.name;
    if call.has('q') {
        pane.modes.clear();
    } else if !matches!(name, "choose-buffer" | "choose-client") {
        let mode = MODES.iter().find(|(_, start, _)| name.starts_with(start));
        let (letter, ..) = mode.expect("the last one takes all");
        // One that it is in already comes to the front.
        pane.modes.retain(|other| other != *letter);
        pane.modes.push(*letter);
    }
    Ok(())
}

/// Does this call of send-keys act on the modes, and not on the program?
pub(super) fn takes(pane: &mut Pane, call: &Call) -> Result<bool> {
    let word = call.operand(0).unwrap_or_default();
    let leaves = match (pane.modes.is_empty(), call.has('X')) {
        (true, true) => return Err(Failure::failed("not in a mode".into())),
        (true, false) => return Ok(false),
        (false, true) => word.ends_with("cancel"),
        (false, false) => matches!(word, "q" | "Escape" | "C-c"),
    };
    if leaves {
        pane.modes.pop();
    }
    Ok(true)
}

/// The table that the flags name.
fn table(call: &Call) -> String {
    let table = if call.has('n') { "root" } else { call.value('T').unwrap_or("prefix") };
    format!("{TABLE}{table}")
}

/// A key by its name.
fn key(name: &str) -> Result<&str> {
    match keys::parse(name) {
        Some(_) => Ok(name),
        None => Err(Failure::failed(format!("unknown key: {name}"))),
    }
}

pub(super) fn bind_key(_: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let (name, words) = call.operands.split_first().expect("the table wants one");
    let commands = match words {
        [commands] => commands.clone(),
        words => {
            let shown = |word: &String| if word == ";" { word.clone() } else { words::shown(word) };
            words.iter().map(shown).collect::<Vec<_>>().join(" ")
        }
    };
    let new = Setting::new(&table(call), key(name)?, Some(setting::canonical(&commands)?));
    put(&mut turn.state.options, Setting { hidden: call.has('r'), ..new });
    Ok(())
}

pub(super) fn unbind_key(_: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let table = table(call);
    let name = match call.operand(0) {
        Some(name) => Some(key(name)?),
        None if call.has('a') => None,
        None => return Err(Failure::failed("missing key".into())),
    };
    let is_other =
        |setting: &Setting| setting.scope != table || name.is_some_and(|name| setting.name != name);
    turn.state.options.keep(&is_other);
    Ok(())
}

pub(super) fn list_keys(_: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let mut all: Vec<Setting> = Vec::new();
    for (name, command) in KEYS {
        all.push(Setting::new("kprefix", name, Some(command.to_owned())));
    }
    for setting in turn.state.options.iter().filter(|setting| setting.scope.starts_with(TABLE)) {
        put(&mut all, setting.clone());
    }
    if let Some(table) = call.value('T') {
        all.keep(&|key| key.scope[1..] == *table);
        if all.is_empty() && !["root", "copy-mode", "copy-mode-vi"].contains(&table) {
            return Err(Failure::failed(format!("table {table} doesn't exist")));
        }
    }
    if let Some(name) = call.operand(0) {
        key(name)?;
        all.keep(&|key| key.name == name);
    }
    let mut text = String::new();
    // Those with a note: there are none.
    if !call.has('N') {
        for key in sorted(all) {
            let repeats = if key.hidden { "-r" } else { "  " };
            let command = key.value.unwrap_or_default();
            text += &format!("bind-key {repeats} -T {:<12} {:<20} {command}\n", &key.scope[1..], key.name);
        }
    }
    cli::print(text)
}

/// There is no prompt of tmux, so no history of one.
pub(super) fn prompt_history(_: &Caller, _: &mut Turn, call: &Call) -> Result<()> {
    let mut text = String::new();
    if call.command.name.starts_with("show") {
        for kind in ["command", "search", "target", "window-target"] {
            if call.value('T').is_none_or(|wanted| wanted == kind) {
                text += &format!("History for {kind}:\n\n\n");
            }
        }
    }
    cli::print(text)
}

/// For clients and users that there are not.
pub(super) fn nothing(_: &Caller, _: &mut Turn, call: &Call) -> Result<()> {
    match call.operand(0) {
        Some(user) => Err(Failure::failed(format!("unknown user: {user}"))),
        None => Ok(()),
    }
}
