//! Modes of panes, and the keys: kept and shown, for nobody looks on.

use super::{Caller, Turn, setting};
use crate::{
    cli,
    outcome::{Failure, Result},
    terminal::keys,
    tmux::{
        options::is_one_of,
        state::{Keep, Pane, Setting, put},
        target::Kind,
        words::{self, Call},
    },
};

/// Begins the scope of the keys of a table.
const TABLE: char = 'k';

/// The action of the prefix in `attach-session`.
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

/// Names that tmux gives keys, and the other ones by which it knows some.
const NAMES: &str = "None Any BSpace F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 IC=Insert DC=Delete Home End \
                     NPage=PageDown=PgDn PPage=PageUp=PgUp BTab Up Down Left Right Tab Enter Escape Space";

/// The name of a key as it is shown; `None` where there is no such key.
pub(super) fn canonical_key(name: &str) -> Option<String> {
    let (mut rest, mut has) = (name, [false; 3]);
    while let Some(at) =
        rest.split_at_checked(2).filter(|(_, key)| !key.is_empty()).and_then(|(prefix, _)| {
            ["C-", "M-", "S-"].into_iter().position(|known| known.eq_ignore_ascii_case(prefix))
        })
    {
        has[at] = true;
        rest = &rest[2..];
    }
    if let Some(key) = rest.strip_prefix('^').filter(|key| !key.is_empty()) {
        (has[0], rest) = (true, key);
    }
    let is_name = |names: &&str| names.split('=').any(|name| name.eq_ignore_ascii_case(rest));
    let key = match NAMES.split(' ').find(is_name) {
        Some(names) => names.split('=').next()?.to_owned(),
        None => {
            Some(rest).filter(|rest| rest.chars().count() == 1 || keys::parse(rest).is_some())?.to_owned()
        }
    };
    let mut shown = String::new();
    for (is_there, prefix) in has.into_iter().zip(["C-", "M-", "S-"]) {
        if is_there {
            shown += prefix;
        }
    }
    Some(shown + &key)
}

/// A key by its name.
fn key(name: &str) -> Result<String> {
    canonical_key(name).ok_or_else(|| Failure::failed(format!("unknown key: {name}")))
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
    let new = Setting::new(&table(call), &key(name)?, Some(setting::canonical(&commands, " \\; ")?));
    put(&mut turn.state.options, Setting { hidden: call.has('r'), ..new });
    Ok(())
}

fn missing_table(table: &str) -> Failure {
    Failure::failed(format!("table {table} doesn't exist"))
}

/// Is there such a table? Those of tmux are always there.
fn is_table(turn: &Turn, table: &str) -> bool {
    is_one_of("root prefix copy-mode copy-mode-vi", table)
        || turn.state.options.iter().any(|setting| setting.scope.strip_prefix(TABLE) == Some(table))
}

pub(super) fn unbind_key(_: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let table = table(call);
    let name = match call.operand(0) {
        Some(_) if call.has('a') => Err(Failure::failed("key given with -a".into())),
        Some(name) => key(name).map(Some),
        None if call.has('a') => Ok(None),
        None => Err(Failure::failed("missing key".into())),
    };
    let name = if is_table(turn, &table[1..]) { name } else { name.and(Err(missing_table(&table[1..]))) };
    let name = match name {
        Err(_) if call.has('q') => return Ok(()),
        other => other?,
    };
    let is_other =
        |setting: &Setting| setting.scope != table || name.as_ref().is_some_and(|name| setting.name != *name);
    turn.state.options.keep(&is_other);
    Ok(())
}

/// By it the keys of a table are in order: what they send, then those with names, then those with more
/// modifiers.
fn order(name: &str) -> u64 {
    let (mut rest, mut order) = (name, 0);
    for (prefix, bit) in [("C-", 2), ("M-", 1), ("S-", 4)] {
        if let Some(key) = rest.strip_prefix(prefix).filter(|key| !key.is_empty()) {
            (rest, order) = (key, order + (bit << 40));
        }
    }
    let first = u64::from(rest.chars().next().map_or(0, u32::from));
    let named = NAMES.split(' ').position(|names| names.split('=').next() == Some(rest));
    order
        + match (rest, named) {
            ("Tab", _) => 9,
            ("Enter", _) => 13,
            ("Escape", _) => 27,
            ("Space", _) => 32,
            (_, Some(at)) => (1 << 32) + at as u64,
            _ if order == 2 << 40 && rest.len() == 1 && first > 63 => return first & 31,
            _ => first,
        }
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
        if !is_table(turn, table) {
            return Err(missing_table(table));
        }
        all.keep(&|key| key.scope[1..] == *table);
    }
    if let Some(name) = call.operand(0) {
        let invalid = || Failure::failed(format!("invalid key: {name}"));
        let name = canonical_key(name).ok_or_else(invalid)?;
        all.keep(&|key| key.name == name);
        if all.is_empty() && !call.has('N') {
            return Err(Failure::failed(format!("unknown key: {name}")));
        }
    }
    setting::sort(&mut all, &|key| (key.scope.clone(), order(&key.name)));
    all.iter_mut().for_each(|key| key.name = words::shown(&key.name));
    let widest = |part: &dyn Fn(&Setting) -> usize| all.iter().map(part).max().unwrap_or(0);
    let (tables, keys) = (widest(&|key| key.scope.len() - 1), widest(&|key| key.name.chars().count()));
    let any_repeats = all.iter().any(|key| key.hidden);
    let mut text = String::new();
    // Those with a note: there are none.
    if !call.has('N') {
        for key in all {
            let repeats = if key.hidden { "-r " } else { "   " };
            let repeats = if any_repeats { repeats } else { "" };
            let command = key.value.unwrap_or_default();
            text +=
                &format!("bind-key {repeats}-T {:<tables$} {:<keys$} {command}\n", &key.scope[1..], key.name);
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
        None if call.command.name == "server-access" && !call.has('l') => {
            Err(Failure::failed("missing user argument".into()))
        }
        None => Ok(()),
    }
}
