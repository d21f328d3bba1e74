//! Sessions, windows and panes that begin.

use std::io::{self, IsTerminal};

use super::{Caller, Turn};
use crate::{
    cli,
    outcome::{Failure, Result},
    tmux::{
        format::{self, session_name},
        layout::Cell,
        panes::{self, Start, window_name},
        state::{Pane, Session, Setting, Window},
        target::{Kind, Target},
        words::Call,
    },
};

pub(super) fn new_session(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<Option<u32>> {
    let detached = call.has('d');
    let name = call.value('s').map(|name| caller.format(turn, caller.current(turn)).expand(name));
    let name = name.map(|name| session_name(&name));
    if name.as_deref() == Some("") {
        return Err(Failure::failed("invalid session: ".into()));
    }
    let there =
        name.as_ref().and_then(|name| turn.state.sessions.iter().find(|session| session.name == *name));
    if let Some(there) = there {
        if !call.has('A') {
            return Err(Failure::failed(format!("duplicate session: {}", there.name)));
        }
        let session = there.id;
        if detached {
            return Ok(None);
        }
        terminal()?;
        return Ok(Some(session));
    }
    if !detached {
        terminal()?;
    }
    let group = match call.value('t') {
        Some(_) if call.value('n').is_some() || !call.operands.is_empty() => {
            return Err(Failure::failed("command or window name given with target".into()));
        }
        Some(word) => Some((word, caller.find(turn, Some(word), Kind::Session).ok())),
        None => None,
    };
    let side = |flag: char, default: u32, what: &str| match call.value(flag) {
        None | Some("-") => Ok(default),
        Some(digits) => match digits.parse::<u32>() {
            Ok(0) => Err(Failure::failed(format!("{what} too small"))),
            Ok(side) if side <= 65535 => Ok(side),
            Ok(_) => Err(Failure::failed(format!("{what} too large"))),
            Err(_) => Err(Failure::failed(format!("{what} invalid"))),
        },
    };
    let default = turn.state.option_in(&["g".to_owned()], "default-size").unwrap_or_default();
    let (cols, rows) = default.split_once('x').unwrap_or(("80", "24"));
    let size =
        (side('x', cols.parse().unwrap_or(80), "width")?, side('y', rows.parse().unwrap_or(24), "height")?);
    let id = turn.state.main.sessions;
    let name = name.unwrap_or_else(|| {
        let prefix = group.as_ref().map(|(word, _)| format!("{word}-"));
        let name = |number: u32| format!("{}{number}", prefix.as_deref().unwrap_or_default());
        let is_free = |name: &String| turn.state.sessions.iter().all(|session| session.name != *name);
        (id..).map(name).find(is_free).expect("there are fewer sessions than numbers")
    });
    let cwd = call.value('c').map(|cwd| caller.format(turn, caller.current(turn)).expand(cwd));
    let cwd = cwd.unwrap_or_else(|| caller.cwd.clone());
    turn.state.main.sessions += 1;
    let now = panes::now();
    let base = turn.state.option_in(&["g".to_owned()], "base-index");
    let base: u32 = base.and_then(|base| base.parse().ok()).unwrap_or(0);
    let mut session = Session {
        id,
        name,
        created: now,
        activity: now,
        cwd: cwd.clone(),
        current: base,
        ..Session::default()
    };
    for (key, value) in variables(call) {
        turn.state.variables.push(Setting::new(&format!("${id}"), &key, Some(value)));
    }
    if call.value('x').is_some() || call.value('y').is_some() {
        let sides = format!("{}x{}", size.0, size.1);
        turn.state.options.push(Setting::new(&format!("${id}"), "default-size", Some(sides)));
    }
    if let Some((word, found)) = group {
        let found = found.and_then(|found| turn.state.session(found.session)).cloned();
        session.group = match &found {
            Some(found) if !found.group.is_empty() => found.group.clone(),
            Some(found) => found.name.clone(),
            None => word.to_owned(),
        };
        if let Some(found) = found {
            turn.state.session_mut(found.id).group = session.group.clone();
            (session.links, session.current) = (found.links.clone(), found.current);
            turn.state.sessions.push(session);
            return shown(caller, turn, call, id, detached);
        }
    }
    turn.state.sessions.push(session);
    let window = add_window(caller, turn, id, base, size, call.value('n'), &call.operands, &cwd, Vec::new());
    if let Err(failure) = window {
        turn.state.sessions.retain(|session| session.id != id);
        return Err(failure);
    }
    caller.hooks(turn, "session-created")?;
    shown(caller, turn, call, id, detached)
}

fn terminal() -> Result<()> {
    match io::stdin().is_terminal() && io::stdout().is_terminal() {
        true => Ok(()),
        false => Err(Failure::failed("open terminal failed: not a terminal".into())),
    }
}

fn shown(caller: &Caller, turn: &Turn, call: &Call, id: u32, detached: bool) -> Result<Option<u32>> {
    if call.has('P') {
        let session = turn.state.session(id).expect("it was made");
        let window = session.current_window();
        let pane = turn.state.window(window).active;
        let target = Target { session: id, index: session.current, window, pane };
        let text = caller.format(turn, Some(target)).expand(call.value('F').unwrap_or("#{session_name}:"));
        cli::print(text + "\n")?;
    }
    Ok((!detached).then_some(id))
}

/// The variables that `-e` gives.
fn variables(call: &Call) -> Vec<(String, String)> {
    call.values('e')
        .filter_map(|word| word.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

#[expect(clippy::too_many_arguments, reason = "each is one option of two commands")]
fn add_window(
    caller: &Caller,
    turn: &mut Turn,
    session: u32,
    index: u32,
    size: (u32, u32),
    name: Option<&str>,
    words: &[String],
    cwd: &str,
    variables: Vec<(String, String)>,
) -> Result<u32> {
    let state = &mut turn.state;
    let (window, pane) = (state.main.windows, state.main.panes);
    let start = Start { words, cwd, size, variables, session, pane, umask: caller.umask };
    let handle = panes::start(&caller.space, state, start)?;
    state.main.windows += 1;
    state.main.panes += 1;
    let default = match words.first() {
        Some(first) => window_name(first),
        None => window_name(&state.option_of_session(session, "default-shell")),
    };
    let cell = Cell::of_pane(pane, size.0, size.1);
    state.windows.push(Window {
        id: window,
        name: name.map_or(default, format::visible),
        layout: cell.shown(),
        active: pane,
        activity: panes::now(),
        ..Window::default()
    });
    let limit = state.history_limit(session);
    state.panes.push(Pane {
        id: pane,
        window,
        handle: handle.as_str().to_owned(),
        command: Pane::command_of(words),
        cwd: cwd.to_owned(),
        size,
        limit,
        ..Pane::default()
    });
    if name.is_some() {
        state.options.push(Setting::new(&format!("@{window}"), "automatic-rename", Some("off".into())));
    }
    state.link(session, index, window);
    Ok(window)
}

pub(super) fn new_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let mut at = caller.find(
        turn,
        call.value('t'),
        if call.has('a') || call.has('b') { Kind::Window } else { Kind::Index },
    )?;
    let name = call.value('n').map(|name| caller.format(turn, Some(at)).expand(name));
    let session = turn.state.session(at.session).expect("it was found").clone();
    if call.has('S')
        && let Some(name) = &name
    {
        let is_such = |link: &&(u32, u32)| format::name_of_window(&turn.state, &turn.seen, link.1) == *name;
        if let Some((index, _)) = session.links.iter().find(is_such) {
            if !call.has('d') {
                turn.state.session_mut(session.id).select(*index);
            }
            return Ok(());
        }
    }
    let is_named = call.value('t').is_some_and(|word| !word.is_empty());
    if call.has('a') || call.has('b') {
        at.index =
            super::placing::make_room(turn, session.id, if call.has('b') { at.index } else { at.index + 1 });
    } else if !is_named || at.index == u32::MAX {
        at.index = super::placing::free_index(turn, session.id);
    } else if session.window_at(at.index).is_some() {
        if !call.has('k') {
            return Err(Failure::failed(format!("create window failed: index {} in use", at.index)));
        }
        turn.state.session_mut(session.id).last.retain(|index| *index != at.index);
    }
    let old = session.window_at(at.index);
    let cell = turn.state.cell(session.current_window());
    let cwd = call.value('c').map(|cwd| caller.format(turn, Some(at)).expand(cwd));
    let cwd = cwd.unwrap_or_else(|| cwd_of(caller, &session));
    let size = (cell.width, cell.height);
    let window = add_window(
        caller,
        turn,
        session.id,
        at.index,
        size,
        name.as_deref(),
        &call.operands,
        &cwd,
        variables(call),
    )?;
    if old.is_some() {
        turn.state.sweep();
    }
    if !call.has('d') {
        turn.state.session_mut(session.id).select(at.index);
    }
    let pane = turn.state.window(window).active;
    let target = Target { session: session.id, index: at.index, window, pane };
    print_place(caller, turn, call, target)
}

/// Where a pane starts if nothing is said: the directory of the call, as that of tmux's client.
fn cwd_of(caller: &Caller, session: &Session) -> String {
    if caller.own.is_some() || session.cwd.is_empty() { caller.cwd.clone() } else { session.cwd.clone() }
}

fn print_place(caller: &Caller, turn: &Turn, call: &Call, target: Target) -> Result<()> {
    if !call.has('P') {
        return Ok(());
    }
    let usual = match call.command.name {
        "new-window" => "#{session_name}:#{window_index}.#{pane_index}",
        _ => "#{session_name}:#{window_index}.#{pane_index}",
    };
    cli::print(caller.format(turn, Some(target)).expand(call.value('F').unwrap_or(usual)) + "\n")
}

pub(super) fn split_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.find(turn, call.value('t'), Kind::Pane)?;
    let session = turn.state.session(at.session).expect("it was found").clone();
    let across = call.has('h');
    let cell = turn.state.cell(at.window);
    let full = call.has('f');
    let size = size(call, turn, at, across, full)?;
    let new = turn.state.main.panes;
    let by = (!full).then_some(at.pane);
    let mut after = cell;
    let before = call.has('b');
    after
        .split(by, new, across, size, before)
        .ok_or_else(|| Failure::failed("no space for new pane".into()))?;
    let cwd = call.value('c').map(|cwd| caller.format(turn, Some(at)).expand(cwd));
    let cwd = cwd.unwrap_or_else(|| cwd_of(caller, &session));
    let room = after.of(new).map_or((80, 24), |cell| (cell.width, cell.height));
    let words = &call.operands;
    // A pane without a program is one whose program waits.
    let start = Start {
        words,
        cwd: &cwd,
        size: room,
        variables: variables(call),
        session: session.id,
        pane: new,
        umask: caller.umask,
    };
    let handle = panes::start(&caller.space, &turn.state, start)?;
    let state = &mut turn.state;
    state.main.panes += 1;
    let limit = state.history_limit(session.id);
    state.panes.push(Pane {
        id: new,
        window: at.window,
        handle: handle.as_str().to_owned(),
        command: Pane::command_of(words),
        cwd,
        size: room,
        limit,
        ..Pane::default()
    });
    let window = state.window_mut(at.window);
    window.layout = after.shown();
    if !call.has('d') {
        window.select(new);
    }
    window.zoomed = call.has('Z');
    print_place(caller, turn, call, Target { pane: new, ..at })
}

/// The size that `-l` or `-p` gives.
pub(super) fn size(call: &Call, turn: &Turn, at: Target, across: bool, full: bool) -> Result<Option<u32>> {
    let share = call.value('p').map(|share| format!("{share}%"));
    let Some(word) = call.value('l').or(share.as_deref()) else { return Ok(None) };
    let cell = turn.state.cell(at.window);
    let cell = if full { &cell } else { cell.of(at.pane).unwrap_or(&cell) };
    let room = if across { cell.width } else { cell.height };
    let number = |digits: &str| digits.parse::<u32>().ok();
    let size = match word.strip_suffix('%') {
        Some(digits) => number(digits).map(|share| room * share / 100),
        None => number(word),
    };
    match size {
        Some(size) => Ok(Some(size)),
        None => Err(Failure::failed("size invalid".into())),
    }
}

pub(super) fn respawn(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let is_window = call.command.name == "respawn-window";
    let at = caller.find(turn, call.value('t'), if is_window { Kind::Window } else { Kind::Pane })?;
    let session = turn.state.session(at.session).expect("it was found").name.clone();
    let all = if is_window { turn.state.panes_of(at.window) } else { vec![at.pane] };
    let is_active = |id: &u32| turn.state.pane(*id).is_some_and(|pane| pane.dead.is_none());
    if !call.has('k') && all.iter().any(is_active) {
        let place = format!("{session}:{}", at.index);
        return Err(Failure::failed(match is_window {
            true => format!("respawn window failed: window {place} still active"),
            false => {
                let index = turn.state.pane_index(at.pane);
                format!("respawn pane failed: pane {place}.{index} still active")
            }
        }));
    }
    let kept = if is_window { all[0] } else { at.pane };
    for other in all.into_iter().filter(|other| *other != kept) {
        turn.state.remove_pane(other, true);
    }
    let cwd = call.value('c').map(|cwd| caller.format(turn, Some(at)).expand(cwd));
    let pane = turn.state.pane(kept).expect("it is there").clone();
    let cwd = cwd.unwrap_or(pane.cwd.clone());
    let given = !call.operands.is_empty();
    let before = pane.words();
    let words: &[String] = if given { &call.operands } else { &before };
    let size = turn.state.size_of(&pane);
    let start = Start {
        words,
        cwd: &cwd,
        size,
        variables: variables(call),
        session: at.session,
        pane: kept,
        umask: caller.umask,
    };
    // The old one ends first: both would write to the same files.
    panes::end(&pane.handle)?;
    let handle = panes::start(&caller.space, &turn.state, start)?;
    let command = Pane::command_of(words);
    let limit = pane.limit;
    *turn.state.pane_mut(kept) = Pane {
        id: kept,
        window: pane.window,
        handle: handle.as_str().to_owned(),
        title: pane.title,
        command,
        cwd,
        size,
        limit,
        ..Pane::default()
    };
    Ok(())
}
