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
        state::{Keep, Pane, Session, Setting, State, Window},
        target::{Kind, Target},
        words::{self, Call, LARGEST},
    },
};

pub(super) fn new_session(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let detached = call.has('d');
    let name = caller.expanded(turn, caller.current(turn), call, 's');
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
        if !detached {
            terminal()?;
            turn.shown = Some(session);
        }
        return Ok(());
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
    let cwd = caller.expanded(turn, caller.current(turn), call, 'c');
    let cwd = cwd.unwrap_or_else(|| caller.cwd.clone());
    let start_dir = caller.start_dir(turn, caller.current(turn), call);
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
            // tmux makes a window first, and replaces it.
            turn.state.main.windows += 1;
            turn.state.main.panes += 1;
            (session.current, session.links) = (found.links[0].0, found.links);
            turn.state.sessions.push(session);
            return shown(caller, turn, call, id, detached);
        }
    }
    turn.state.sessions.push(session);
    let window =
        add_window(caller, turn, id, base, size, call.value('n'), &call.operands, &start_dir, Vec::new());
    if let Err(failure) = window {
        turn.state.sessions.keep(&|session| session.id != id);
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

fn shown(caller: &Caller, turn: &mut Turn, call: &Call, id: u32, detached: bool) -> Result<()> {
    let session = turn.state.found(id);
    print_place(caller, turn, call, session.at(&turn.state, session.current))?;
    turn.shown = (!detached).then_some(id);
    Ok(())
}

/// The variables that `-e` gives.
fn variables(call: &Call) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for word in call.values('e') {
        if let Some((key, value)) = word.split_once('=') {
            variables.push((key.to_owned(), value.to_owned()));
        }
    }
    variables
}

/// Starts the program of a pane of this window.
fn started(caller: &Caller, state: &State, start: Start<'_>, window: u32) -> Result<Pane> {
    let mut pane = Pane {
        id: start.pane,
        window,
        command: Pane::command_of(start.words),
        cwd: start.cwd.to_owned(),
        size: start.size,
        limit: state.history_limit(start.session),
        ..Pane::default()
    };
    pane.handle = panes::start(&caller.space, state, start)?.as_str().to_owned();
    Ok(pane)
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
    let made = started(caller, state, start, window)?;
    state.main.windows += 1;
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
    state.add_pane(made);
    if name.is_some() {
        state.set_of_window(window, "automatic-rename", "off");
    }
    state.link(session, index, window);
    Ok(window)
}

pub(super) fn new_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let mut at = caller.at(turn, call, Kind::Index)?;
    let name = caller.expanded(turn, Some(at), call, 'n');
    let session = turn.state.found(at.session).clone();
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
    let is_beside = call.has('a') || call.has('b');
    let is_named = !is_beside && at.index != u32::MAX;
    at.index = super::placing::index_for(turn, call, at);
    if is_named && session.window_at(at.index).is_some() {
        if !call.has('k') {
            return Err(Failure::failed(format!("create window failed: index {} in use", at.index)));
        }
        turn.state.session_mut(session.id).last.keep(&|index| *index != at.index);
    }
    let old = session.window_at(at.index);
    let cwd = caller.start_dir(turn, Some(at), call);
    let size = match session.clients.is_empty() {
        true => turn.state.default_size(session.id),
        false => {
            let cell = turn.state.cell(session.current_window());
            (cell.width, cell.height)
        }
    };
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

pub(super) fn print_place(caller: &Caller, turn: &Turn, call: &Call, target: Target) -> Result<()> {
    if !call.has('P') {
        return Ok(());
    }
    let usual = match call.command.name {
        "new-session" => "#{session_name}:",
        _ => "#{session_name}:#{window_index}.#{pane_index}",
    };
    cli::print(caller.expand(turn, Some(target), call.value('F').unwrap_or(usual)) + "\n")
}

pub(super) fn split_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    let session = turn.state.found(at.session).clone();
    let across = call.has('h');
    let full = call.has('f');
    let size = size(call, turn, at, across, full)?;
    let cell = turn.state.cell(at.window);
    let new = turn.state.main.panes;
    let by = (!full).then_some(at.pane);
    let mut after = cell;
    let before = call.has('b');
    after
        .split(by, new, across, size, before)
        .ok_or_else(|| Failure::failed("no space for new pane".into()))?;
    let cwd = caller.start_dir(turn, Some(at), call);
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
    let made = started(caller, &turn.state, start, at.window)?;
    let state = &mut turn.state;
    state.add_pane(made);
    let window = state.window_mut(at.window);
    window.layout = after.shown();
    window.zoomed = call.has('Z');
    window.unfitted = window.zoomed.then_some(new);
    if !call.has('d') {
        window.select(new);
    }
    print_place(caller, turn, call, Target { pane: new, ..at })
}

/// The size that `-l` or `-p` gives.
fn size(call: &Call, turn: &Turn, at: Target, across: bool, full: bool) -> Result<Option<u32>> {
    let (word, share, what) = match (call.value('l'), call.value('p')) {
        (Some(word), _) => match word.strip_suffix('%') {
            Some(share) => (share, true, "percentage"),
            None => (word, false, "lines"),
        },
        (None, Some(share)) => (share, true, "create pane failed: -p"),
        (None, None) => return Ok(None),
    };
    let number = words::number(word, 0, LARGEST);
    let number = number.map_err(|why| Failure::failed(format!("{what} {why}")))? as u32;
    if !share {
        return Ok(Some(number));
    }
    let cell = turn.state.cell(at.window);
    let pane = turn.state.pane(at.pane).map(|pane| turn.state.size_of(pane));
    let (cols, rows) = pane.filter(|_| !full).unwrap_or((cell.width, cell.height));
    Ok(Some((if across { cols } else { rows }).wrapping_mul(number) / 100))
}

pub(super) fn respawn(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let is_window = call.command.name == "respawn-window";
    let at = caller.at(turn, call, if is_window { Kind::Window } else { Kind::Pane })?;
    let session = turn.state.found(at.session).name.clone();
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
    let pane = turn.state.pane(kept).expect("it is there").clone();
    let cwd = if call.has('c') { caller.start_dir(turn, Some(at), call) } else { pane.cwd.clone() };
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
    let made = started(caller, &turn.state, start, pane.window)?;
    *turn.state.pane_mut(kept) = Pane { title: pane.title, limit: pane.limit, ..made };
    Ok(())
}
