//! Options, hooks and variables of the environment.

use std::{cell::LazyCell, env};

use super::{Caller, Turn};
use crate::{
    cli,
    outcome::{Failure, Result},
    sys::child,
    tmux::{
        options::{self, Known, is_one_of, known},
        panes::quoted,
        state::{Keep, Setting, put, sorted},
        target::{Kind, Target, matches},
        words::{self, Call, LARGEST},
    },
};

/// The scopes in which an option is looked for, by its kind or by the flags; it is set in the first one.
fn scopes(call: &Call, at: Option<Target>, known: Option<Known>) -> Result<Vec<String>> {
    let kind = match known {
        // An option that is known tells by itself where it is set.
        Some(known) => known.scope,
        None if call.has('s') => 's',
        None if call.has('p') || call.has('w') || call.command.name.contains("window") => 'w',
        None => 'g',
    };
    let missing = |kind: &str| {
        Err(Failure::failed(match call.value('t') {
            Some(word) => format!("no such {kind}: {word}"),
            None => format!("no current {kind}"),
        }))
    };
    let is_pane = call.has('p') && (known.is_none() || matches!(kind, 'p' | 'i'));
    let wide = call.has('g');
    Ok(match (kind, at) {
        ('s', _) => vec!["s".to_owned()],
        ('g' | 'h', _) if wide => vec!["g".to_owned()],
        ('g' | 'h', Some(at)) => vec![format!("${}", at.session), "g".to_owned()],
        ('g' | 'h', None) => return missing("session"),
        (_, Some(at)) if is_pane => vec![format!("%{}", at.pane), format!("@{}", at.window), "w".to_owned()],
        (_, None) if is_pane => return missing("pane"),
        _ if wide => vec!["w".to_owned()],
        (_, Some(at)) => vec![format!("@{}", at.window), "w".to_owned()],
        (_, None) => return missing("window"),
    })
}

/// The items of an array that stand in this scope, as they are set or by default.
fn items(turn: &Turn, scope: &str, name: &str) -> Vec<Setting> {
    let mut items = turn.state.options.clone();
    items.keep(&|setting| setting.scope == scope && stem(&setting.name) == name);
    if items.is_empty() && matches!(scope, "s" | "g" | "w") {
        for known in options::of_name(name) {
            if let Some(index) = known.index {
                items.push(Setting::new(scope, &format!("{name}[{index}]"), Some(known.default.to_owned())));
            }
        }
    }
    items
}

/// By these keys, of which each is computed more than once.
pub(super) fn sort(items: &mut [Setting], key: &dyn Fn(&Setting) -> (String, u64)) {
    items.sort_by_key(key);
}

fn index_of(item: &Setting) -> u32 {
    let (_, index) = options::parsed(&item.name).unwrap_or_default();
    index.and_then(|index| index.parse().ok()).unwrap_or(0)
}

/// Puts items in the place of those that an array has. One without items is set, too.
fn set_items(turn: &mut Turn, scope: &str, name: &str, mut items: Vec<Setting>) {
    turn.state.options.keep(&|setting| setting.scope != scope || stem(&setting.name) != name);
    items.keep(&|item| item.value.is_some());
    sort(&mut items, &|item| (String::new(), u64::from(index_of(item))));
    if items.is_empty() {
        items.push(Setting::new(scope, name, None));
    }
    turn.state.options.extend(items);
}

pub(super) fn set(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.near(turn, call);
    let word = caller.expand(turn, at, &call.operands[0]);
    if call.command.name == "set-hook" && call.has('R') {
        return caller.hooks(turn, &word);
    }
    let failed = |why: String| Err(Failure::failed(why));
    let quiet = call.has('q');
    let found = match word.starts_with('@') {
        true => None,
        false => match options::find(&word) {
            Ok((known, _)) => Some(known),
            Err(_) if quiet => return Ok(()),
            Err(failure) => return Err(failure),
        },
    };
    let Some((name, index)) = options::parsed(&word) else {
        return failed(format!("invalid option: {word}"));
    };
    let value = call.operand(1).map(|value| match call.has('F') {
        true => caller.expand(turn, at, value),
        false => value.to_owned(),
    });
    let chain = match scopes(call, at, found) {
        Err(_) if quiet => return Ok(()),
        other => other?,
    };
    let scope = &*chain[0];
    let name = found.map_or(name, |known| known.name);
    let is_array = found.is_some_and(|known| known.is_array());
    if index.is_some() && !is_array {
        return failed(format!("not an array: {word}"));
    }
    let item = index.map_or(name.to_owned(), |index| format!("{name}[{index}]"));
    let (is_wide, unsets) = (chain.len() == 1, call.has('u') || call.has('U'));
    let there = if is_array { items(turn, scope, name) } else { Vec::new() };
    if call.has('o') && !unsets {
        let is_set = match index {
            Some(_) => there.iter().any(|other| other.name == item),
            None => !there.is_empty() || turn.state.setting(scope, name).is_some(),
        };
        if is_set || (is_wide && found.is_some() && index.is_none()) {
            return if quiet { Ok(()) } else { failed(format!("already set: {word}")) };
        }
    }
    if unsets {
        let mut places = vec![scope.to_owned()];
        if let (true, Some(at)) = (call.has('U') && scope.starts_with('@'), at) {
            places.extend(turn.state.panes_of(at.window).iter().map(|pane| format!("%{pane}")));
        }
        for place in places {
            let mut left = items(turn, &place, name);
            if index.is_some() && !left.is_empty() {
                left.keep(&|other| other.name != item);
                set_items(turn, &place, name, left);
            } else {
                turn.state.options.keep(&|other| other.scope != place || stem(&other.name) != name);
            }
        }
        return Ok(());
    }
    let Some(known) = found.filter(|_| !is_array) else {
        let Some(value) = value else { return failed("empty value".to_owned()) };
        let Some(known) = found else {
            let before = turn.state.setting(scope, name).and_then(|setting| setting.value.clone());
            let value = before.filter(|_| call.has('a')).unwrap_or_default() + &value;
            put(&mut turn.state.options, Setting::new(scope, name, Some(value)));
            return Ok(());
        };
        let all = with_items(known, scope, there, index.map(|_| item), value, call.has('a'))?;
        set_items(turn, scope, name, all);
        return Ok(());
    };
    let now = turn.state.option_in(&chain, name).unwrap_or_default();
    let value = match value {
        Some(value) if call.has('a') && matches!(known.kind, "s" | "y") => {
            let own = turn.state.setting(scope, name).and_then(|setting| setting.value.clone());
            match own.or_else(|| is_wide.then(|| known.default())) {
                Some(before) if known.kind == "y" => Some(format!("{before},{value}")),
                Some(before) => Some(before + &value),
                None => Some(value),
            }
        }
        value => value,
    };
    let value = checked(known, value, &now)?;
    put(&mut turn.state.options, Setting::new(scope, name, Some(value)));
    Ok(())
}

/// The items of an array with this value: of this item, or of all, separated.
fn with_items(
    known: Known,
    scope: &str,
    mut all: Vec<Setting>,
    item: Option<String>,
    mut value: String,
    adds: bool,
) -> Result<Vec<Setting>> {
    if known.is_hook() {
        value = canonical(&value, " ; ")?;
    }
    let checked = |item: &str, value: String| -> Result<Setting> {
        Ok(Setting::new(scope, item, Some(checked_item(known, value)?)))
    };
    if let Some(item) = item {
        let before = all.iter().find(|other| other.name == item).and_then(|other| other.value.clone());
        let before = before.filter(|_| adds && !known.is_hook()).unwrap_or_default();
        put(&mut all, checked(&item, before + &value)?);
        return Ok(all);
    }
    if !adds {
        all.clear();
    }
    let separators: &[char] = match known.name {
        name if known.is_hook() || name == "status-format" => &[],
        "update-environment" | "pane-colours" => &[' ', ','],
        _ => &[','],
    };
    for part in value.split(separators).filter(|part| !part.is_empty()) {
        let is_free =
            |index: &u32| !all.iter().any(|other| other.value.is_some() && index_of(other) == *index);
        let free = (0..).find(is_free).unwrap_or(0);
        put(&mut all, checked(&format!("{}[{free}]", known.name), part.to_owned())?);
    }
    Ok(all)
}

fn is_colour(colour: &str) -> bool {
    const COLOURS: &str = "default terminal black red green yellow blue magenta cyan white 0 1 2 3 4 5 6 7 90 91 92 93 \
                           94 95 96 97";
    let colour = colour.to_ascii_lowercase();
    let name = colour.strip_prefix("bright").filter(|name| !matches!(*name, "default" | "terminal"));
    let number = colour.strip_prefix("colour").or(colour.strip_prefix("color"));
    let hex =
        colour.strip_prefix('#').is_some_and(|hex| hex.len() == 6 && u32::from_str_radix(hex, 16).is_ok());
    hex || is_one_of(COLOURS, name.unwrap_or(&colour))
        || number.is_some_and(|number| number.parse::<u8>().is_ok())
}

/// Colours and attributes, or a format that makes some.
fn is_style(value: &str) -> bool {
    const WORDS: &str = "default none bright bold dim italics underscore blink reverse hidden overline strikethrough \
                         acs double-underscore curly-underscore dotted-underscore dashed-underscore push-default \
                         pop-default ignore list range align";
    let is_part = |part: &str| match part.split_once('=') {
        Some(("fg" | "bg" | "us" | "fill", colour)) => is_colour(colour),
        Some((name, _)) => is_one_of("align list range width pad", name),
        None => is_one_of(WORDS, part) || is_one_of(WORDS, part.strip_prefix("no").unwrap_or(part)),
    };
    value.contains("#{") || value.split([',', ' ']).all(|part| part.is_empty() || is_part(part))
}

/// The commands of a hook as they are shown.
pub(super) fn canonical(commands: &str, between: &str) -> Result<String> {
    let mut shown = Vec::new();
    for (_, words) in words::parse(commands)? {
        let (name, rest) = words.split_first().ok_or_else(|| Failure::failed("no command".into()))?;
        let command = words::find(name)?;
        command.parse(rest)?;
        let rest = rest.iter().map(|word| words::shown(word));
        let words: Vec<String> = std::iter::once(command.name.to_owned()).chain(rest).collect();
        shown.push(words.join(" "));
    }
    Ok(shown.join(between))
}

fn checked_item(known: Known, value: String) -> Result<String> {
    if known.kind.is_empty() { Ok(value) } else { checked(known, Some(value), "") }
}

/// The value that an option gets, which is `now` so far.
fn checked(known: Known, value: Option<String>, now: &str) -> Result<String> {
    let failed = |why: &str, value: &str| Err(Failure::failed(format!("{why}: {value}")));
    let (kind, rest) = known.kind.split_at(1);
    let Some(value) = value.filter(|value| kind != "f" || !value.is_empty()) else {
        let mut words = if kind == "=" { rest.split(',') } else { "off,on".split(',') };
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        return match kind {
            "f" | "=" if now == first => Ok(second.to_owned()),
            "f" | "=" if now == second => Ok(first.to_owned()),
            "=" => Ok(now.to_owned()),
            _ => Err(Failure::failed("empty value".into())),
        };
    };
    match kind {
        "f" => match &*value.to_ascii_lowercase() {
            "on" | "1" | "yes" => return Ok("on".to_owned()),
            "off" | "0" | "no" => return Ok("off".to_owned()),
            _ => return failed("bad value", &value),
        },
        "=" if !rest.split(',').any(|word| word == value) => return failed("unknown value", &value),
        "n" => {
            let (least, most) = rest.split_once('-').unwrap_or_default();
            let most = most.parse().unwrap_or(LARGEST);
            return match words::number(&value, least.parse().unwrap_or(0), most) {
                Ok(number) => Ok(number.to_string()),
                Err(why) => failed(&format!("value is {why}"), &value),
            };
        }
        "c" if !is_colour(&value) => return failed("bad colour", &value),
        "k" => match super::modes::canonical_key(&value) {
            Some(key) => return Ok(key),
            None => return failed("bad key", &value),
        },
        "y" if !is_style(&value) => return failed("invalid style", &value),
        _ => {}
    }
    match known.name {
        "default-shell" if !(value.starts_with('/') && child::is_program(value.as_ref())) => {
            failed("not a suitable shell", &value)
        }
        "default-size" if !matches(&value, "[0-9]*x[0-9]*") => failed("value is invalid", &value),
        _ => Ok(value),
    }
}

pub(super) fn show(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let only_hooks = call.command.name == "show-hooks";
    let quiet = call.has('q');
    let at = caller.near(turn, call);
    let word = call.operand(0).map(|word| caller.expand(turn, at, word));
    let found = match &word {
        Some(word) if !word.starts_with('@') => match options::find(word) {
            Ok((known, _)) => Some(known),
            Err(_) if quiet => return Ok(()),
            Err(failure) => return Err(failure),
        },
        _ => None,
    };
    let chain = match scopes(call, at, found) {
        Err(_) if quiet => return Ok(()),
        other => other?,
    };
    let mut lines = Vec::new();
    if !only_hooks || word.is_some() {
        lines = listed(turn, &chain, false, call.has('A'));
    }
    if only_hooks || word.is_some() || call.has('H') {
        lines.extend(listed(turn, &chain, true, call.has('A')));
    }
    if let Some(word) = &word {
        let (given, index) = options::parsed(word).unwrap_or((word, None));
        let name = found.map_or(given, |known| known.name);
        lines.keep(&|line| stem(&line.name) == name);
        if lines.is_empty() && found.is_none() && !quiet {
            return Err(Failure::failed(format!("invalid option: {word}")));
        }
        if let (Some(index), Some(first)) = (index, lines.first().cloned()) {
            let item = format!("{name}[{index}]");
            let is_array = found.is_some_and(|known| known.is_array());
            lines.keep(&|line| line.name == item);
            if lines.is_empty() {
                let value = if is_array { Some(String::new()) } else { first.value };
                lines.push(Setting { hidden: first.hidden, ..Setting::new("", &item, value) });
            }
        }
    }
    let known: LazyCell<Vec<Known>> = LazyCell::new(|| known().collect());
    let mut text = String::new();
    for line in lines {
        match (call.has('v'), line.value) {
            (true, Some(value)) => text += &value,
            (true, None) => continue,
            (false, value) => {
                text += &line.name;
                text += if line.hidden { "*" } else { "" };
                if let Some(value) = value {
                    text.push(' ');
                    let known = known.iter().find(|known| known.name == stem(&line.name));
                    let kind = known.map_or("s", |known| known.kind);
                    text += &if matches!(kind, "s" | "y") { words::shown(&value) } else { value };
                }
            }
        }
        text.push('\n');
    }
    cli::print(text)
}

/// The name of an option without its index.
fn stem(name: &str) -> &str {
    name.split('[').next().unwrap_or_default()
}

/// The options of a scope, each with the value that is set, or in a wide one its default. `inherits`: also
/// those of the scopes behind it.
fn listed(turn: &Turn, chain: &[String], hooks: bool, inherits: bool) -> Vec<Setting> {
    let kinds = match (chain[0].as_bytes()[0], hooks) {
        (b's', false) => "s",
        (b's', true) => "",
        (b'g' | b'$', true) => "h",
        (b'g' | b'$', false) => "g",
        (_, true) => "i",
        (b'%', false) => "p",
        _ => "wp",
    };
    let mut lines = turn.state.options.clone();
    lines.keep(&|setting| setting.scope == chain[0] && setting.name.starts_with('@') && !hooks);
    lines = sorted(lines);
    let mut done = "";
    for known in known() {
        if !kinds.contains(known.scope) || known.name == done {
            continue;
        }
        done = known.name;
        for (at, scope) in chain.iter().enumerate() {
            let is_wide = at + 1 == chain.len();
            if at > 0 && !inherits {
                break;
            }
            let mut set = items(turn, scope, known.name);
            if set.is_empty() && is_wide {
                let value = (!known.is_array()).then(|| known.default());
                set.push(Setting::new(scope, known.name, value));
            }
            if !set.is_empty() {
                for setting in set {
                    lines.push(Setting { hidden: at > 0, ..setting });
                }
                break;
            }
        }
    }
    lines
}

fn scope_of_variables(caller: &Caller, turn: &Turn, call: &Call) -> Result<String> {
    match call.has('g') {
        true => Ok("g".to_owned()),
        false => match (caller.at(turn, call, Kind::Session), call.value('t')) {
            (Err(_), Some(word)) => Err(Failure::failed(format!("no such session: {word}"))),
            (at, _) => Ok(format!("${}", at?.session)),
        },
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
    let mut all = sorted(all);
    if let Some(name) = call.operand(0) {
        all.keep(&|variable| variable.name == name);
        if all.is_empty() {
            return Err(Failure::failed(format!("unknown variable: {name}")));
        }
    }
    all.keep(&|variable| variable.hidden == call.has('h'));
    let mut text = String::new();
    for Setting { name, value, .. } in all {
        text += &match (value, call.has('s')) {
            (Some(value), false) => format!("{name}={value}\n"),
            (None, false) => format!("-{name}\n"),
            (Some(value), true) => {
                let mut escaped = String::new();
                for character in value.chars() {
                    if "\"$`\\".contains(character) {
                        escaped.push('\\');
                    }
                    escaped.push(character);
                }
                format!("{name}=\"{escaped}\"; export {name};\n")
            }
            (None, true) => format!("unset {};\n", quoted(&name)),
        };
    }
    cli::print(text)
}
