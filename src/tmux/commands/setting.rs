//! Options, hooks and variables of the environment.

use std::env;

use super::{Caller, Turn};
use crate::{
    cli,
    outcome::{Failure, Result},
    tmux::{
        options::{self, Known, is_one_of, known},
        panes::quoted,
        state::{Keep, Setting, put, sorted},
        target::{Kind, Target},
        words::{self, Call},
    },
};

/// The scope that the flags, or the option, choose.
fn scope(caller: &Caller, turn: &Turn, call: &Call, known: Option<Known>) -> Result<String> {
    let kind = known.map_or('g', |known| known.scope);
    // An option that is known tells by itself where it is set.
    let is_window = match known {
        Some(_) => matches!(kind, 'w' | 'i'),
        None => call.has('w') || call.command.name.contains("window"),
    };
    let target = |kind| -> Result<Target> {
        caller.at(turn, call, kind).map_err(|failure| match call.value('t') {
            Some(_) => failure,
            None => Failure::failed(
                match kind {
                    Kind::Pane => "no current pane",
                    Kind::Window => "no current window",
                    _ => "no current session",
                }
                .into(),
            ),
        })
    };
    if call.has('s') || kind == 's' {
        return Ok("s".to_owned());
    }
    if call.has('g') {
        return Ok(if is_window { "w" } else { "g" }.to_owned());
    }
    if call.has('p') && !known.is_some_and(|known| matches!(known.scope, 'g' | 'h')) {
        return Ok(format!("%{}", target(Kind::Pane)?.pane));
    }
    match is_window {
        true => Ok(format!("@{}", target(Kind::Window)?.window)),
        false => Ok(format!("${}", target(Kind::Session)?.session)),
    }
}

pub(super) fn set(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.near(turn, call);
    let is_hook = call.command.name == "set-hook";
    let word = caller.expand(turn, at, &call.operands[0]);
    let is_own = word.starts_with('@');
    let quiet = call.has('q');
    let found = match is_own {
        true => None,
        false => match options::find(&word) {
            Ok((known, _)) if known.is_hook() || !is_hook => Some(known),
            Ok(_) => return Err(Failure::failed(format!("invalid option: {word}"))),
            Err(_) if quiet => return Ok(()),
            Err(failure) => return Err(failure),
        },
    };
    if is_hook && call.has('R') {
        return caller.hooks(turn, &word);
    }
    let scope = match scope(caller, turn, call, found) {
        Err(_) if quiet => return Ok(()),
        other => other?,
    };
    let index = word.split_once('[').map(|(_, index)| index.trim_end_matches(']').to_owned());
    let name = found.map_or(word.clone(), |known| known.name.to_owned());
    let is_array = found.is_some_and(|known| known.is_array());
    let full = index.as_ref().map_or(name.clone(), |index| format!("{name}[{index}]"));
    let is_of = |setting: &Setting, scope: &str| {
        setting.scope == scope
            && (setting.name == full || (index.is_none() && setting.name.starts_with(&format!("{name}["))))
    };
    if call.has('u') || call.has('U') {
        turn.state.options.keep(&|setting| !is_of(setting, &scope));
        if is_array && index.is_some() && scope.starts_with(['$', '@', '%']) {
            put(&mut turn.state.options, Setting::new(&scope, &name, None));
        }
        if call.has('U') && scope.starts_with('@') {
            let panes: Vec<String> = at
                .map_or(Vec::new(), |at| turn.state.panes_of(at.window))
                .iter()
                .map(|pane| format!("%{pane}"))
                .collect();
            turn.state.options.keep(&|setting| !panes.iter().any(|pane| is_of(setting, pane)));
        }
        return Ok(());
    }
    let value = call.operand(1).map(str::to_owned);
    let value = if call.has('F') { value.map(|value| caller.expand(turn, at, &value)) } else { value };
    let there = turn.state.setting(&scope, &full).and_then(|setting| setting.value.clone());
    if call.has('o') && there.is_some() {
        return if quiet { Ok(()) } else { Err(Failure::failed(format!("already set: {word}"))) };
    }
    let value = match (value, found) {
        (None, Some(known)) if known.is_flag() => {
            let now = there.clone().unwrap_or_else(|| known.default());
            if now == "on" { "off".to_owned() } else { "on".to_owned() }
        }
        (None, None) => return Err(Failure::failed("empty value".into())),
        (None, Some(_)) => return Err(Failure::failed("empty value".into())),
        (Some(value), Some(known)) if known.is_hook() => canonical(&value)?,
        (Some(value), Some(known)) => checked(known, value)?,
        (Some(value), None) => value,
    };
    if is_array && index.is_none() {
        let last = |turn: &Turn| {
            let mut next = 0;
            for setting in turn.state.options.iter().filter(|setting| is_of(setting, &scope)) {
                let index = setting.name[name.len()..].trim_matches(['[', ']']).parse::<u32>();
                next = next.max(index.map_or(0, |index| index + 1));
            }
            next
        };
        if !call.has('a') {
            turn.state.options.keep(&|setting| !is_of(setting, &scope));
        }
        let is_hook = found.is_some_and(|known| known.is_hook());
        let parts: Vec<&str> = if is_hook { vec![&*value] } else { value.split(',').collect() };
        for part in parts {
            let at = last(turn);
            put(
                &mut turn.state.options,
                Setting::new(&scope, &format!("{name}[{at}]"), Some(part.to_owned())),
            );
        }
        return Ok(());
    }
    let value = if call.has('a') {
        let is_style = name.ends_with("-style");
        let before = there.or_else(|| found.map(|known| known.default())).unwrap_or_default();
        if is_style && !before.is_empty() { format!("{before},{value}") } else { before + &value }
    } else {
        value
    };
    put(&mut turn.state.options, Setting::new(&scope, &full, Some(value)));
    Ok(())
}

/// Colours and attributes, or a format that makes some.
fn is_style(value: &str) -> bool {
    const WORDS: &str = "default none bright bold dim italics underscore blink reverse hidden overline strikethrough \
                         acs double-underscore curly-underscore dotted-underscore dashed-underscore push-default \
                         pop-default ignore";
    const COLOURS: &str = "default terminal black red green yellow blue magenta cyan white";
    let is_colour = |colour: &str| {
        let name = colour.strip_prefix("bright").unwrap_or(colour);
        let number = colour.strip_prefix("colour").or(colour.strip_prefix("color")).unwrap_or(colour);
        let hex = colour
            .strip_prefix('#')
            .is_some_and(|hex| hex.len() == 6 && u32::from_str_radix(hex, 16).is_ok());
        hex || is_one_of(COLOURS, name) || number.parse::<u8>().is_ok()
    };
    let is_part = |part: &str| match part.split_once('=') {
        Some(("fg" | "bg" | "us" | "fill", colour)) => is_colour(colour),
        Some((name, _)) => is_one_of("align list range width pad", name),
        None => is_one_of(WORDS, part) || is_one_of(WORDS, part.strip_prefix("no").unwrap_or(part)),
    };
    value.contains("#{")
        || value.parse::<u8>().is_ok()
        || value.split([',', ' ']).all(|part| part.is_empty() || is_part(part))
}

/// The commands of a hook as they are shown.
pub(super) fn canonical(commands: &str) -> Result<String> {
    let mut shown = Vec::new();
    for (_, words) in words::parse(commands)? {
        let (name, rest) = words.split_first().ok_or_else(|| Failure::failed("no command".into()))?;
        let rest = rest.iter().map(|word| words::shown(word));
        let words: Vec<String> = std::iter::once(words::find(name)?.name.to_owned()).chain(rest).collect();
        shown.push(words.join(" "));
    }
    Ok(shown.join(" \\; "))
}

/// Options whose values are more than `on` and `off`.
const CHOICES: &str = "remain-on-exit set-clipboard extended-keys allow-passthrough detach-on-destroy \
                       pane-border-status visual-bell visual-activity visual-silence destroy-unattached";

fn checked(known: Known, value: String) -> Result<String> {
    if known.is_flag() {
        let choice = match (&*value, known.name) {
            ("on" | "1" | "yes", _) => Ok("on"),
            ("off" | "0" | "no", _) => Ok("off"),
            ("failed", "remain-on-exit") => Ok("failed"),
            (_, name) if is_one_of(CHOICES, name) => return Ok(value),
            _ => Err(Failure::failed(format!("bad value: {value}"))),
        };
        return choice.map(str::to_owned);
    }
    if known.name.ends_with("-style") && !is_style(&value) {
        return Err(Failure::failed(format!("invalid style: {value}")));
    }
    if known.is_number() && value.parse::<u32>().is_err() {
        return Err(Failure::failed(format!("value is invalid: {value}")));
    }
    Ok(value)
}

pub(super) fn show(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let hooks = call.command.name == "show-hooks";
    let quiet = call.has('q');
    let word = call.operand(0).map(|word| caller.expand(turn, caller.current(turn), word));
    let found = match &word {
        Some(word) if !word.starts_with('@') => match options::find(word) {
            Ok((known, _)) => Some(known),
            Err(_) if quiet => return Ok(()),
            Err(failure) => return Err(failure),
        },
        _ => None,
    };
    let scope = match scope(caller, turn, call, found) {
        Err(_) if quiet => return Ok(()),
        other => other?,
    };
    let global = match scope.as_bytes()[0] {
        b'$' => Some("g"),
        b'@' | b'%' => Some("w"),
        _ => None,
    };
    // One that is hidden is inherited here.
    let mut lines = Vec::new();
    match global {
        None => defaults(turn, &scope, hooks, &mut lines),
        Some(global) => {
            let is_hook = |name: &str| options::find(name).is_ok_and(|(known, _)| known.is_hook());
            for setting in turn.state.options.iter().filter(|setting| setting.scope == scope) {
                if !(setting.name.starts_with('@') && hooks) && is_hook(&setting.name) == hooks {
                    lines.push(setting.clone());
                }
            }
            lines = sorted(lines);
            if call.has('A') {
                let mut inherited = Vec::new();
                defaults(turn, global, hooks, &mut inherited);
                let own = lines.len();
                for setting in inherited {
                    if !lines[..own].iter().any(|known| stem(&known.name) == stem(&setting.name)) {
                        lines.push(Setting { hidden: true, ..setting });
                    }
                }
            }
        }
    }
    if let Some(word) = &word {
        let name = found.map_or(&**word, |known| known.name);
        let full = match word.split_once('[') {
            Some((_, index)) => format!("{name}[{index}"),
            None => name.to_owned(),
        };
        let is_array = found.is_some_and(|known| known.is_array());
        lines.keep(&|line| line.name == full || (is_array && stem(&line.name) == name));
        let is_there = global.is_none() || lines.iter().any(|line| line.name == name);
        if word.contains('[') {
            lines.keep(&|line| line.name == full);
        }
        if lines.is_empty() && is_array && is_there && word.contains('[') {
            lines.push(Setting::new("", &full, Some(String::new())));
        }
        if lines.is_empty() && found.is_none() && !quiet {
            return Err(Failure::failed(format!("invalid option: {word}")));
        }
    }
    let mut text = String::new();
    for line in lines {
        let shows_value = call.has('v');
        if !shows_value {
            text += &line.name;
            text += if line.hidden { "*" } else { "" };
        }
        match line.value {
            Some(value) if shows_value => text += &value,
            Some(value) => {
                text.push(' ');
                text += &if hooks { value } else { words::shown(&value) };
            }
            None if shows_value => continue,
            None => {}
        }
        text.push('\n');
    }
    cli::print(text)
}

/// The name of an option without its index.
fn stem(name: &str) -> &str {
    name.split('[').next().unwrap_or_default()
}

/// The options of a wide scope, each with the value that is set, or its default.
fn defaults(turn: &Turn, scope: &str, hooks: bool, lines: &mut Vec<Setting>) {
    let kind = match (scope, hooks) {
        ("g", true) => 'h',
        ("w", true) => 'i',
        ("s", _) => 's',
        ("g", _) => 'g',
        _ => 'w',
    };
    let mut set = turn.state.options.clone();
    set.keep(&|setting| setting.scope == scope);
    for setting in &set {
        if setting.name.starts_with('@') && !hooks {
            lines.push(setting.clone());
        }
    }
    let mut done = "";
    for known in known() {
        if known.scope != kind || known.name == done {
            continue;
        }
        for setting in &set {
            if stem(&setting.name) == known.name {
                lines.push(setting.clone());
                done = known.name;
            }
        }
        if known.name != done {
            let name = known.index.map_or(known.name.to_owned(), |index| format!("{}[{index}]", known.name));
            let is_bare = known.is_hook() || (known.is_array() && known.index.is_none());
            lines.push(Setting::new(scope, &name, (!is_bare).then(|| known.default())));
        }
    }
}

fn scope_of_variables(caller: &Caller, turn: &Turn, call: &Call) -> Result<String> {
    match call.has('g') {
        true => Ok("g".to_owned()),
        false => Ok(format!("${}", caller.at(turn, call, Kind::Session)?.session)),
    }
}

pub(super) fn set_environment(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let scope = scope_of_variables(caller, turn, call)?;
    let name = &call.operands[0];
    if name.is_empty() {
        return Err(Failure::failed("empty variable name".into()));
    }
    if name.contains('=') {
        return Err(Failure::failed("variable name contains =".into()));
    }
    let value = call.operand(1).map(|value| match call.has('F') {
        true => caller.expand(turn, caller.current(turn), value),
        false => value.to_owned(),
    });
    match (call.has('u'), call.has('r'), value) {
        (true, _, None) => turn.state.variables.keep(&|one| one.scope != scope || one.name != *name),
        (true, ..) => return Err(Failure::failed("can't specify a value with -u".into())),
        (_, true, None) => put(&mut turn.state.variables, Setting::new(&scope, name, None)),
        (_, true, _) => return Err(Failure::failed("can't specify a value with -r".into())),
        (_, _, None) => return Err(Failure::failed("no value specified".into())),
        (_, _, Some(value)) => {
            let hidden = call.has('h');
            put(&mut turn.state.variables, Setting { hidden, ..Setting::new(&scope, name, Some(value)) });
        }
    }
    Ok(())
}

pub(super) fn show_environment(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let scope = scope_of_variables(caller, turn, call)?;
    let mut all: Vec<Setting> = Vec::new();
    if scope == "g" {
        for (name, value) in env::vars_os() {
            if name != "TMUX" && name != "TMUX_PANE" {
                let value = value.to_string_lossy().into_owned();
                all.push(Setting::new("g", &name.to_string_lossy(), Some(value)));
            }
        }
    }
    for variable in turn.state.variables.iter().filter(|variable| variable.scope == scope) {
        put(&mut all, variable.clone());
    }
    all.keep(&|variable| variable.hidden == call.has('h'));
    let mut all = sorted(all);
    if let Some(name) = call.operand(0) {
        all.keep(&|variable| variable.name == name);
        if all.is_empty() {
            return Err(Failure::failed(format!("unknown variable: {name}")));
        }
    }
    let mut text = String::new();
    for Setting { name, value, .. } in all {
        text += &match (value, call.has('s')) {
            (Some(value), false) => format!("{name}={value}\n"),
            (None, false) => format!("-{name}\n"),
            (Some(value), true) => {
                format!("{name}=\"{}\"; export {name};\n", value.replace(['"', '$', '`', '\\'], "\\$0"))
            }
            (None, true) => format!("unset {};\n", quoted(&name)),
        };
    }
    cli::print(text)
}
