//! Moving, naming and ending sessions, windows and panes.

use super::{Caller, Turn, making};
use crate::{
    outcome::{Failure, Result},
    tmux::{
        format::{session_name, visible},
        layout::{Cell, PRESETS},
        state::{Keep, Window},
        target::{Kind, Target},
        words::Call,
    },
};

/// The first index that no window has, from base-index on.
pub(super) fn free_index(turn: &Turn, session: u32) -> u32 {
    let base = turn.state.number_of_session(session, "base-index");
    let session = turn.state.found(session);
    (base..).find(|index| session.window_at(*index).is_none()).unwrap_or(base)
}

/// Moves the windows from this index on by one, as far as they are in the way.
pub(super) fn make_room(turn: &mut Turn, session: u32, index: u32) -> u32 {
    for id in turn.state.group(session) {
        let session = turn.state.session_mut(id);
        let mut end = index;
        while session.window_at(end).is_some() {
            end += 1;
        }
        let moved = |at: u32| if (index..end).contains(&at) { at + 1 } else { at };
        session.links.iter_mut().for_each(|(at, _)| *at = moved(*at));
        session.last.iter_mut().for_each(|at| *at = moved(*at));
        session.current = moved(session.current);
    }
    index
}

/// The index behind a target's with `-a`, and its own with `-b`, where there is then room for a window;
/// else the target's, or the first free one where it names none.
pub(super) fn index_for(turn: &mut Turn, call: &Call, to: Target) -> u32 {
    match (call.has('b'), call.has('a')) {
        (true, _) => make_room(turn, to.session, to.index),
        (_, true) => make_room(turn, to.session, to.index + 1),
        _ if to.index == u32::MAX => free_index(turn, to.session),
        _ => to.index,
    }
}

/// Gives the windows the indexes from base-index on.
fn renumber(turn: &mut Turn, session: u32) {
    let base = turn.state.number_of_session(session, "base-index");
    for id in turn.state.group(session) {
        let session = turn.state.session_mut(id);
        let old: Vec<u32> = session.links.iter().map(|(index, _)| *index).collect();
        let new = |index: u32| old.iter().position(|old| *old == index).map_or(index, |at| base + at as u32);
        session.links.iter_mut().for_each(|(index, _)| *index = new(*index));
        session.last.iter_mut().for_each(|index| *index = new(*index));
        session.current = new(session.current);
    }
}

fn renumber_if_wanted(turn: &mut Turn, session: u32) {
    if turn.state.session(session).is_some()
        && turn.state.option_of_session(session, "renumber-windows") == "on"
    {
        renumber(turn, session);
    }
}

pub(super) fn kill_server(_: &Caller, turn: &mut Turn, _: &Call) -> Result<()> {
    turn.state.sessions.clear();
    turn.state.sweep();
    turn.state.options.keep(&|setting| setting.name != "exit-empty");
    Ok(())
}

fn end_session(turn: &mut Turn, id: u32) {
    turn.state.sessions.keep(&|session| session.id != id);
    turn.state.sweep();
}

pub(super) fn kill_session(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Session)?;
    if call.has('a') {
        let others: Vec<u32> =
            turn.state.sessions.iter().map(|session| session.id).filter(|id| *id != at.session).collect();
        others.into_iter().for_each(|id| end_session(turn, id));
    } else if !call.has('C') {
        end_session(turn, at.session);
    }
    Ok(())
}

/// The sessions and indexes that lead to a window.
fn places(turn: &Turn, window: u32) -> Vec<(u32, u32)> {
    let mut places = Vec::new();
    for session in &turn.state.sessions {
        for (index, id) in &session.links {
            if *id == window {
                places.push((session.id, *index));
            }
        }
    }
    places
}

pub(super) fn kill_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Window)?;
    if call.command.name == "unlink-window" {
        if !call.has('k') && places(turn, at.window).len() < 2 {
            return Err(Failure::failed("window only linked to one session".into()));
        }
        turn.state.unlink(at.session, at.index);
        renumber_if_wanted(turn, at.session);
        return Ok(());
    }
    let session = turn.state.found(at.session);
    let windows: Vec<u32> = session.links.iter().map(|(_, window)| *window).collect();
    for window in windows.into_iter().filter(|window| (*window == at.window) != call.has('a')) {
        for (session, index) in places(turn, window) {
            if turn.state.session(session).is_some() {
                turn.state.session_mut(session).drop_link(index);
            }
        }
    }
    turn.state.sweep();
    renumber_if_wanted(turn, at.session);
    Ok(())
}

pub(super) fn kill_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    let panes = turn.state.panes_of(at.window);
    for pane in panes.into_iter().filter(|pane| (*pane == at.pane) != call.has('a')) {
        turn.state.remove_pane(pane, true);
    }
    renumber_if_wanted(turn, at.session);
    Ok(())
}

pub(super) fn rename_session(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Session)?;
    let name = session_name(&caller.expand(turn, Some(at), &call.operands[0]));
    if name.is_empty() {
        return Err(Failure::failed(format!("invalid session: {}", call.operands[0])));
    }
    if turn.state.sessions.iter().any(|session| session.name == name && session.id != at.session) {
        return Err(Failure::failed(format!("duplicate session: {name}")));
    }
    turn.state.session_mut(at.session).name = name;
    Ok(())
}

pub(super) fn rename_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Window)?;
    let name = caller.expand(turn, Some(at), &call.operands[0]);
    turn.state.window_mut(at.window).name = visible(&name);
    turn.state.set_of_window(at.window, "automatic-rename", "off");
    Ok(())
}

pub(super) fn select_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let is_select = call.command.name == "select-window";
    let at = caller.at(turn, call, if is_select { Kind::Window } else { Kind::Session })?;
    let session = turn.state.found(at.session);
    let step = match call.command.name {
        "next-window" => 1,
        "previous-window" => -1,
        "last-window" => 0,
        _ if call.has('n') => 1,
        _ if call.has('p') => -1,
        _ if call.has('l') || (call.has('T') && session.current == at.index) => 0,
        _ => {
            turn.state.session_mut(at.session).select(at.index);
            return Ok(());
        }
    };
    let count = session.links.len() as i64;
    let here = session.links.iter().position(|(index, _)| *index == session.current).unwrap_or(0) as i64;
    let index = match step {
        0 => session.last.first().copied().ok_or("last"),
        step if count < 2 => Err(if step > 0 { "next" } else { "previous" }),
        step => Ok(session.links[(here + step).rem_euclid(count) as usize].0),
    };
    let index = index.map_err(|which| Failure::failed(format!("no {which} window")))?;
    turn.state.session_mut(at.session).select(index);
    Ok(())
}

pub(super) fn select_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let is_last = call.command.name == "last-pane" || call.has('l');
    let mut at =
        caller.at(turn, call, if call.command.name == "last-pane" { Kind::Window } else { Kind::Pane })?;
    if is_last {
        let last = turn.state.window(at.window).last.first().copied();
        at.pane = last.ok_or_else(|| Failure::failed("no last pane".into()))?;
    }
    if let Some(title) = call.value('T') {
        let title = caller.expand(turn, Some(at), title);
        turn.state.pane_mut(at.pane).title = Some(title);
        return Ok(());
    }
    if call.has('m') || call.has('M') {
        let marked = turn.state.main.marked;
        turn.state.main.marked = (call.has('m') && marked != Some(at.pane)).then_some(at.pane);
        return Ok(());
    }
    if call.has('d') || call.has('e') {
        turn.state.pane_mut(at.pane).input_off = call.has('d');
        return Ok(());
    }
    for (flag, way) in [('U', "{up-of}"), ('D', "{down-of}"), ('L', "{left-of}"), ('R', "{right-of}")] {
        if call.has(flag) {
            turn.state.window_mut(at.window).select(at.pane);
            let session =
                turn.state.session(at.session).map_or(String::new(), |session| session.name.clone());
            // At the edge of the window it stays.
            let word = format!("={session}:{}.{way}", at.index);
            at = caller.find(turn, Some(&word), Kind::Pane).unwrap_or(at);
        }
    }
    let window = turn.state.window_mut(at.window);
    if window.active != at.pane && !call.has('Z') {
        window.zoomed = false;
    }
    window.select(at.pane);
    Ok(())
}

pub(super) fn select_layout(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let kind = if call.command.name == "select-layout" { Kind::Pane } else { Kind::Window };
    let at = caller.at(turn, call, kind)?;
    let window = turn.state.window(at.window);
    let (before, count) = (window.preset, PRESETS.len() as u32);
    let preset = match (call.command.name, call.operand(0)) {
        ("next-layout", _) => (before % count) + 1,
        ("previous-layout", _) => {
            if before <= 1 {
                count
            } else {
                before - 1
            }
        }
        _ if call.has('n') => (before % count) + 1,
        _ if call.has('p') => {
            if before <= 1 {
                count
            } else {
                before - 1
            }
        }
        (_, None) if call.has('E') => return Ok(()),
        (_, None) if before == 0 => return Ok(()),
        (_, None) => before,
        (_, Some(word)) => {
            let mut found = PRESETS.iter().enumerate().filter(|(_, name)| name.starts_with(word));
            match (found.next(), found.next()) {
                (Some((at, _)), None) => at as u32 + 1,
                _ => return custom_layout(turn, at, word),
            }
        }
    };
    let panes = turn.state.panes_of(at.window);
    let cell = turn.state.cell(at.window);
    let name = if preset == 3 { "main-pane-height" } else { "main-pane-width" };
    let main = turn.state.option_of_pane(at.window, None, name);
    let room = if preset == 3 { cell.height } else { cell.width };
    let main = match main.strip_suffix('%') {
        Some(share) => room * share.parse::<u32>().unwrap_or(50) / 100,
        None => main.parse().unwrap_or(room / 2),
    };
    let layout = Cell::preset(preset - 1, &panes, cell.width, cell.height, main);
    let window = turn.state.window_mut(at.window);
    (window.layout, window.preset, window.zoomed) = (layout.shown(), preset, false);
    Ok(())
}

fn custom_layout(turn: &mut Turn, at: Target, word: &str) -> Result<()> {
    let invalid = || Failure::failed(format!("invalid layout: {word}"));
    let mut cell = Cell::parse(word).ok_or_else(invalid)?;
    let panes = turn.state.panes_of(at.window);
    let count = cell.panes().len();
    if count != panes.len() {
        let why = format!("have {} panes but need {count}", panes.len());
        return Err(Failure::failed(format!("{why}: {word}")));
    }
    cell.assign(&mut panes.into_iter()).ok_or_else(invalid)?;
    let old = turn.state.cell(at.window);
    cell.resize(old.width, old.height);
    let window = turn.state.window_mut(at.window);
    (window.layout, window.zoomed) = (cell.shown(), false);
    Ok(())
}

fn number(word: Option<&str>, what: &str) -> Result<Option<i64>> {
    let invalid = || Failure::failed(format!("{what} invalid"));
    word.map(|word| word.parse::<i64>().ok().filter(|number| *number >= 0).ok_or_else(invalid)).transpose()
}

pub(super) fn resize_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    if call.has('T') || call.has('M') {
        return Ok(());
    }
    if call.has('Z') {
        let count = turn.state.panes_of(at.window).len();
        let window = turn.state.window_mut(at.window);
        window.select(at.pane);
        window.zoomed = !window.zoomed && count > 1;
        return Ok(());
    }
    let by = number(call.operand(0), "adjustment")?.unwrap_or(1);
    let mut cell = turn.state.cell(at.window);
    for (flag, across, what) in [('x', true, "width"), ('y', false, "height")] {
        let Some(word) = call.value(flag) else { continue };
        let room = i64::from(if across { cell.width } else { cell.height });
        let wanted = match word.strip_suffix('%') {
            Some(share) => number(Some(share), what)?.map(|share| room * share / 100),
            None => number(Some(word), what)?,
        };
        let now = cell.of(at.pane).map_or(0, |cell| i64::from(if across { cell.width } else { cell.height }));
        let by = wanted.unwrap_or(now).max(1) - now;
        let by = if cell.is_last(at.pane, across) { -by } else { by };
        cell.resize_pane(at.pane, across, by);
    }
    for (flag, across, by) in [('L', true, -by), ('R', true, by), ('U', false, -by), ('D', false, by)] {
        if call.has(flag) {
            cell.resize_pane(at.pane, across, by);
        }
    }
    let window = turn.state.window_mut(at.window);
    (window.layout, window.zoomed) = (cell.shown(), false);
    Ok(())
}

pub(super) fn resize_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Window)?;
    let by = number(call.operand(0), "adjustment")?.unwrap_or(1);
    let mut cell = turn.state.cell(at.window);
    let side = |side: u32, by: i64| (i64::from(side) + by).clamp(1, 10_000) as u32;
    let (mut width, mut height) = (cell.width, cell.height);
    for (flag, across, by) in [('L', true, -by), ('R', true, by), ('U', false, -by), ('D', false, by)] {
        if call.has(flag) && across {
            width = side(width, by);
        } else if call.has(flag) {
            height = side(height, by);
        }
    }
    if call.has('A') || call.has('a') {
        // Nobody else shows it in another size.
        let size = turn.state.option_of_session(at.session, "default-size");
        if let Some((cols, rows)) = size.split_once('x') {
            (width, height) = (cols.parse().unwrap_or(width), rows.parse().unwrap_or(height));
        }
    }
    if let Some(wanted) = number(call.value('x'), "width")? {
        width = side(0, wanted);
    }
    if let Some(wanted) = number(call.value('y'), "height")? {
        height = side(0, wanted);
    }
    cell.resize(width, height);
    turn.state.window_mut(at.window).layout = cell.shown();
    turn.state.set_of_window(at.window, "window-size", "manual");
    Ok(())
}

pub(super) fn move_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    if call.has('r') {
        let at = caller.at(turn, call, Kind::Session)?;
        renumber(turn, at.session);
        return Ok(());
    }
    let from = caller.find(turn, call.value('s'), Kind::Window)?;
    let beside = call.has('a') || call.has('b');
    let mut to = caller.at(turn, call, if beside { Kind::Window } else { Kind::Index })?;
    let moves = call.command.name == "move-window";
    let mut from_index = from.index;
    if !beside && call.value('t').is_none() {
        to.index = u32::MAX;
    }
    to.index = index_for(turn, call, to);
    if beside {
        // It may have been moved.
        let session = turn.state.found(from.session);
        let link = session.links.iter().find(|(_, window)| *window == from.window);
        from_index = link.map_or(from_index, |(index, _)| *index);
    }
    let there = turn.state.session(to.session).and_then(|session| session.window_at(to.index));
    if let Some(there) = there {
        if there == from.window && from.session == to.session {
            return match call.has('k') {
                true => Ok(()),
                false => Err(Failure::failed(format!("same index: {}", to.index))),
            };
        }
        if !call.has('k') {
            return Err(Failure::failed(format!("index in use: {}", to.index)));
        }
    }
    turn.state.link(to.session, to.index, from.window);
    if !call.has('d') {
        turn.state.session_mut(to.session).select(to.index);
    }
    if moves {
        turn.state.unlink(from.session, from_index);
    }
    turn.state.sweep();
    renumber_if_wanted(turn, from.session);
    Ok(())
}

pub(super) fn swap_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let from = caller.find(turn, call.value('s'), Kind::Window)?;
    let to = caller.at(turn, call, Kind::Window)?;
    for (at, window) in [(from, to.window), (to, from.window)] {
        turn.state.link(at.session, at.index, window);
    }
    if !call.has('d') {
        turn.state.session_mut(to.session).select(to.index);
        if from.session != to.session {
            turn.state.session_mut(from.session).select(from.index);
        }
    }
    Ok(())
}

pub(super) fn swap_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let to = caller.at(turn, call, Kind::Pane)?;
    let from = if call.has('U') || call.has('D') {
        let panes = turn.state.panes_of(to.window);
        let here = panes.iter().position(|pane| *pane == to.pane).unwrap_or(0);
        let count = panes.len();
        let pane = panes[if call.has('D') { (here + 1) % count } else { (here + count - 1) % count }];
        Target { pane, ..to }
    } else {
        caller.find(turn, call.value('s'), Kind::Pane)?
    };
    if from.pane == to.pane {
        return Ok(());
    }
    let (one, other) = (from.pane, to.pane);
    let change = |pane: u32| {
        if pane == one {
            other
        } else if pane == other {
            one
        } else {
            pane
        }
    };
    for window in [from.window, to.window] {
        let mut cell = turn.state.cell(window);
        cell.rename(&change);
        let record = turn.state.window_mut(window);
        record.layout = cell.shown();
        record.zoomed = false;
        if from.window != to.window {
            record.active = change(record.active);
        } else {
            break;
        }
    }
    turn.state.pane_mut(one).window = to.window;
    turn.state.pane_mut(other).window = from.window;
    if from.window == to.window && !call.has('d') {
        turn.state.window_mut(to.window).select(to.pane);
    }
    Ok(())
}

pub(super) fn join_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let from = match call.value('s') {
        None if turn.state.main.marked.is_some() => caller.find(turn, Some("~"), Kind::Pane)?,
        word => caller.find(turn, word, Kind::Pane)?,
    };
    let to = caller.at(turn, call, Kind::Pane)?;
    if from.pane == to.pane {
        return Err(Failure::failed("source and target panes must be different".into()));
    }
    let across = call.has('h');
    let full = call.has('f');
    let size = making::size(call, turn, to, across, full)?;
    let by = (!full).then_some(to.pane);
    let no_room = || Failure::failed("create pane failed: pane too small".into());
    if from.window == to.window {
        let rest = turn.state.cell(to.window).without(from.pane);
        let mut cell = rest.ok_or_else(no_room)?;
        cell.split(by, from.pane, across, size, call.has('b')).ok_or_else(no_room)?;
        turn.state.window_mut(to.window).layout = cell.shown();
    } else {
        let mut cell = turn.state.cell(to.window);
        cell.split(by, from.pane, across, size, call.has('b')).ok_or_else(no_room)?;
        turn.state.detach_pane(from.pane, from.window);
        turn.state.pane_mut(from.pane).window = to.window;
        turn.state.window_mut(to.window).layout = cell.shown();
    }
    let window = turn.state.window_mut(to.window);
    window.zoomed = false;
    if !call.has('d') {
        window.select(from.pane);
        turn.state.session_mut(to.session).select(to.index);
    }
    turn.state.sweep();
    Ok(())
}

pub(super) fn break_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let from = caller.find(turn, call.value('s'), Kind::Pane)?;
    let to = match call.value('t') {
        None => Target { index: u32::MAX, ..from },
        word => caller.find(turn, word, Kind::Index)?,
    };
    let index = index_for(turn, call, to);
    if turn.state.session(to.session).is_some_and(|session| session.window_at(index).is_some()) {
        return Err(Failure::failed(format!("index in use: {index}")));
    }
    let name = call.value('n').map(str::to_owned);
    if turn.state.panes_of(from.window).len() == 1 {
        // The window itself moves.
        turn.state.link(to.session, index, from.window);
        turn.state.unlink(from.session, from.index);
        if let Some(name) = name {
            turn.state.window_mut(from.window).name = name;
        }
    } else {
        let cell = turn.state.cell(from.window);
        turn.state.detach_pane(from.pane, from.window);
        let id = turn.state.main.windows;
        turn.state.main.windows += 1;
        let command = turn.state.pane(from.pane).and_then(|pane| pane.words().into_iter().next());
        if name.is_some() {
            turn.state.set_of_window(id, "automatic-rename", "off");
        }
        turn.state.windows.push(Window {
            id,
            name: name.unwrap_or_else(|| crate::tmux::panes::window_name(&command.unwrap_or_default())),
            layout: Cell::of_pane(from.pane, cell.width, cell.height).shown(),
            active: from.pane,
            ..Window::default()
        });
        turn.state.pane_mut(from.pane).window = id;
        turn.state.link(to.session, index, id);
    }
    if !call.has('d') {
        turn.state.session_mut(to.session).select(index);
    }
    let window = turn.state.pane(from.pane).map_or(from.window, |pane| pane.window);
    making::print_place(caller, turn, call, Target { session: to.session, index, window, pane: from.pane })
}

pub(super) fn rotate_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Window)?;
    let mut panes = turn.state.panes_of(at.window);
    let active = panes.iter().position(|pane| *pane == turn.state.window(at.window).active).unwrap_or(0);
    if call.has('D') {
        panes.rotate_right(1)
    } else {
        panes.rotate_left(1)
    }
    let next = panes[active];
    let mut cell = turn.state.cell(at.window);
    cell.assign(&mut panes.into_iter()).expect("there are as many");
    let window = turn.state.window_mut(at.window);
    window.layout = cell.shown();
    window.select(next);
    Ok(())
}
