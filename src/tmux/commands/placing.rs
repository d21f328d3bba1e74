//! Moving, naming and ending sessions, windows and panes.

use super::{Caller, Turn, making};
use crate::{
    cli,
    outcome::{Failure, Result},
    tmux::{
        format::{session_name, visible},
        layout::{Cell, MOST, PRESETS},
        state::{Keep, Setting, Window, put},
        target::{Kind, Target},
        words::{self, Call, LARGEST},
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

/// The index behind a target's window with `-a`, and its own with `-b`, where there is then room for a
/// window; else the target's, or the first free one where it names none.
pub(super) fn index_for(turn: &mut Turn, call: &Call, to: Target) -> u32 {
    let session = turn.state.found(to.session);
    let beside = if session.window_at(to.index).is_some() { to.index } else { session.current };
    let is_new = call.command.name == "new-window" && to.index != u32::MAX && beside != to.index;
    match (call.has('b'), call.has('a')) {
        _ if is_new => to.index,
        (true, _) => make_room(turn, to.session, beside),
        (_, true) => make_room(turn, to.session, beside + 1),
        _ if to.index == u32::MAX => free_index(turn, to.session),
        _ => to.index,
    }
}

/// Gives the windows the indexes from base-index on.
fn renumber(turn: &mut Turn, session: u32) {
    let base = turn.state.number_of_session(session, "base-index");
    for id in turn.state.group(session) {
        let session = turn.state.session_mut(id);
        let links = session.links.clone();
        let old: Vec<u32> = session.links.iter().map(|(index, _)| *index).collect();
        let new = |index: u32| old.iter().position(|old| *old == index).map_or(index, |at| base + at as u32);
        session.links.iter_mut().for_each(|(index, _)| *index = new(*index));
        // A window that has two places counts as at its first one.
        let place = |index: u32| {
            let window = links.iter().find(|(at, _)| *at == index).map(|(_, window)| *window);
            links.iter().find(|(_, other)| Some(*other) == window).map_or(index, |(at, _)| *at)
        };
        session.last.iter_mut().for_each(|index| *index = new(place(*index)));
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

/// Takes a window out of all sessions.
fn end_window(turn: &mut Turn, window: u32, renumbers: bool) {
    let places = places(turn, window);
    for (session, index) in &places {
        turn.state.session_mut(*session).drop_link(*index);
    }
    turn.state.sweep();
    for (session, _) in places.into_iter().filter(|_| renumbers) {
        renumber_if_wanted(turn, session);
    }
}

pub(super) fn kill_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Window)?;
    if call.command.name == "unlink-window" {
        if !call.has('k') && places(turn, at.window).len() == turn.state.group(at.session).len() {
            return Err(Failure::failed("window only linked to one session".into()));
        }
        turn.state.unlink(at.session, at.index);
        return Ok(());
    }
    if !call.has('a') {
        end_window(turn, at.window, true);
        return Ok(());
    }
    let links = turn.state.found(at.session).links.clone();
    if links.len() == 1 {
        return Ok(());
    }
    let is_linked_twice = links.iter().filter(|(_, window)| *window == at.window).count() > 1;
    for (_, window) in links {
        if window != at.window || is_linked_twice {
            end_window(turn, window, false);
        }
    }
    let all: Vec<u32> = turn.state.sessions.iter().map(|session| session.id).collect();
    all.into_iter().for_each(|session| renumber_if_wanted(turn, session));
    Ok(())
}

pub(super) fn kill_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    let panes = turn.state.panes_of(at.window);
    if call.has('a') {
        turn.state.window_mut(at.window).fit(false);
        for pane in panes.into_iter().filter(|pane| *pane != at.pane) {
            turn.state.remove_pane(pane, true);
        }
    } else if panes.len() == 1 {
        end_window(turn, at.window, true);
    } else {
        turn.state.remove_pane(at.pane, true);
    }
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
        // With `-a` only those count in which something happened, and nobody tells us that.
        step if count < 2 || call.has('a') => Err(if step > 0 { "next" } else { "previous" }),
        step => Ok(session.links[(here + step).rem_euclid(count) as usize].0),
    };
    let index = index.map_err(|which| Failure::failed(format!("no {which} window")))?;
    turn.state.session_mut(at.session).select(index);
    Ok(())
}

/// Makes a window show one pane again, if it did and the flag `-Z` says so.
fn select(turn: &mut Turn, call: &Call, window: u32, pane: u32) {
    let window = turn.state.window_mut(window);
    window.fit(call.has('Z'));
    window.select(pane);
}

pub(super) fn select_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let is_last = call.command.name == "last-pane" || call.has('l');
    let mut at =
        caller.at(turn, call, if call.command.name == "last-pane" { Kind::Window } else { Kind::Pane })?;
    if is_last {
        let window = turn.state.window(at.window);
        let panes = turn.state.panes_of(at.window);
        let other = || panes.iter().copied().find(|pane| panes.len() == 2 && *pane != window.active);
        at.pane = window.previous.or_else(other).ok_or_else(|| Failure::failed("no last pane".into()))?;
    } else if call.has('m') || call.has('M') {
        let window = turn.state.window(at.window);
        let is_hidden = window.zoomed && window.active != at.pane;
        let marked = turn.state.main.marked;
        if !(call.has('m') && is_hidden) {
            turn.state.main.marked = (!call.has('M') && marked != Some(at.pane)).then_some(at.pane);
        }
        return Ok(());
    }
    if let Some(style) = call.value('P').filter(|_| !is_last) {
        let scope = format!("%{}", at.pane);
        for name in ["window-style", "window-active-style"] {
            put(&mut turn.state.options, Setting::new(&scope, name, Some(style.to_owned())));
        }
    }
    if call.has('g') && !is_last {
        let style = turn.state.option_of_pane(at.window, Some(at.pane), "window-style");
        return cli::print(style + "\n");
    }
    let ways = [('L', true, false), ('R', true, true), ('U', false, false), ('D', false, true)];
    if let Some((_, across, forward)) = ways.into_iter().find(|(flag, ..)| call.has(*flag) && !is_last) {
        match turn.state.beside(at.window, at.pane, across, forward) {
            Some(pane) => at.pane = pane,
            None => return Ok(()),
        }
    }
    if call.has('e') || call.has('d') {
        turn.state.pane_mut(at.pane).input_off = !call.has('e');
    } else if let Some(title) = call.value('T').filter(|_| !is_last) {
        let title = caller.expand(turn, Some(at), title);
        turn.state.pane_mut(at.pane).title = Some(title);
    } else if is_last || turn.state.window(at.window).active != at.pane {
        select(turn, call, at.window, at.pane);
    }
    Ok(())
}

pub(super) fn select_layout(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let name = call.command.name;
    let at = caller.at(turn, call, if name == "select-layout" { Kind::Pane } else { Kind::Window })?;
    let window = turn.state.window_mut(at.window);
    window.fit(false);
    let (before, count) = (window.preset, PRESETS.len() as u32);
    let old = std::mem::replace(&mut window.old, window.layout.clone());
    let preset = if call.has('p') || name == "previous-layout" {
        if before <= 1 { count } else { before - 1 }
    } else if call.has('n') || name == "next-layout" {
        before % count + 1
    } else if call.has('E') {
        let mut cell = turn.state.cell(at.window);
        cell.spread_around(at.pane);
        turn.state.window_mut(at.window).layout = cell.shown();
        return Ok(());
    } else {
        let given = call.operand(0).or(Some(&*old).filter(|old| call.has('o') && !old.is_empty()));
        let preset = match given {
            _ if call.has('o') => 0,
            None => before,
            Some(word) => {
                let mut found = PRESETS.iter().enumerate().filter(|(_, name)| name.starts_with(word));
                match (found.next(), found.next()) {
                    (Some((at, _)), None) => at as u32 + 1,
                    _ => 0,
                }
            }
        };
        match (preset, given) {
            (0, Some(word)) => {
                let done = custom_layout(turn, at, word);
                if done.is_err() {
                    turn.state.window_mut(at.window).old = old;
                }
                return done;
            }
            (0, None) => return Ok(()),
            (preset, _) => preset,
        }
    };
    let is_wide = preset == 4;
    let cell = turn.state.cell(at.window);
    let room = i64::from(if is_wide { cell.width } else { cell.height }) - 1;
    let [main, other] = match is_wide {
        true => ["main-pane-width", "other-pane-width"],
        false => ["main-pane-height", "other-pane-height"],
    };
    let side = |name: &str, usual: u32| {
        let value = turn.state.option_of_pane(at.window, None, name);
        words::percentage(&value, 0, room, room).map_or(usual, |side| side as u32)
    };
    let layout = cell.preset(preset - 1, side(main, if is_wide { 80 } else { 24 }), side(other, 0));
    place(turn, at.window, layout, Some(&cell));
    turn.state.window_mut(at.window).preset = preset;
    Ok(())
}

/// Gives a window a layout. One whose size was set by hand keeps that size.
fn place(turn: &mut Turn, window: u32, mut cell: Cell, old: Option<&Cell>) {
    if let Some(old) = old
        && turn.state.option_of_pane(window, None, "window-size") == "manual"
    {
        cell.resize(old.width, old.height);
    }
    let window = turn.state.window_mut(window);
    window.layout = cell.shown();
    window.fit(false);
}

fn custom_layout(turn: &mut Turn, at: Target, word: &str) -> Result<()> {
    let refused = |why: &str| Failure::failed(format!("{why}: {word}"));
    let invalid = || refused("invalid layout");
    let cell = Cell::parse(word).ok_or_else(invalid)?;
    let panes = turn.state.panes_of(at.window);
    let count = cell.panes().len();
    if count < panes.len() {
        return Err(refused(&format!("have {} panes but need {count}", panes.len())));
    }
    let mut cell = cell.shorten(panes.len()).ok_or_else(invalid)?;
    if !cell.adds_up() {
        return Err(refused("size mismatch after applying layout"));
    }
    cell.assign(&mut panes.into_iter()).ok_or_else(invalid)?;
    let old = turn.state.cell(at.window);
    cell.resize(cell.width, cell.height);
    place(turn, at.window, cell, Some(&old));
    Ok(())
}

/// The number of an operand, or 1.
fn adjustment(call: &Call) -> Result<i64> {
    let number = words::number(call.operand(0).unwrap_or("1"), 1, LARGEST);
    number.map_err(|why| Failure::failed(format!("adjustment {why}")))
}

pub(super) fn resize_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    if call.has('T') || call.has('M') {
        return Ok(());
    }
    let count = turn.state.panes_of(at.window).len();
    let window = turn.state.window_mut(at.window);
    if call.has('Z') {
        let zooms = !window.zoomed && count > 1;
        window.fit(false);
        window.zoomed = zooms;
        if zooms {
            window.select(at.pane);
        }
        return Ok(());
    }
    window.fit(false);
    let by = adjustment(call)?;
    let mut cell = turn.state.cell(at.window);
    for (flag, across, what) in [('x', true, "width"), ('y', false, "height")] {
        let Some(word) = call.value(flag) else { continue };
        let room = i64::from(if across { cell.width } else { cell.height });
        let wanted =
            words::percentage(word, 0, LARGEST, room).map_err(|why| Failure::failed(format!("{what} {why}")));
        match wanted {
            Ok(wanted) => cell.resize_pane_to(at.pane, across, wanted),
            Err(failure) => {
                place(turn, at.window, cell, None);
                return Err(failure);
            }
        }
    }
    for (flag, across, by) in [('L', true, -by), ('R', true, by), ('U', false, -by), ('D', false, by)] {
        if call.has(flag) {
            cell.resize_pane(at.pane, across, by);
            break;
        }
    }
    place(turn, at.window, cell, None);
    Ok(())
}

pub(super) fn resize_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Window)?;
    let by = adjustment(call)?;
    let mut cell = turn.state.cell(at.window);
    let side = |flag: char, now: u32, what: &str| match call.value(flag) {
        None => Ok(i64::from(now)),
        Some(word) => {
            words::number(word, 1, MOST.into()).map_err(|why| Failure::failed(format!("{what} {why}")))
        }
    };
    let (mut width, mut height) = (side('x', cell.width, "width")?, side('y', cell.height, "height")?);
    match ['L', 'R', 'U', 'D'].into_iter().find(|flag| call.has(*flag)) {
        Some('L') if width >= by => width -= by,
        Some('R') => width += by,
        Some('U') if height >= by => height -= by,
        Some('D') => height += by,
        _ => {}
    }
    if call.has('A') || call.has('a') {
        // Nobody else shows it in another size.
        let (cols, rows) = turn.state.default_size(at.session);
        (width, height) = (cols.into(), rows.into());
    }
    let side = |side: i64| side.clamp(1, MOST.into()) as u32;
    cell.resize(side(width), side(height));
    let window = turn.state.window_mut(at.window);
    window.layout = cell.shown();
    window.fit(true);
    turn.state.set_of_window(at.window, "window-size", "manual");
    Ok(())
}

fn grouped(turn: &Turn, from: Target, to: Target) -> bool {
    from.session != to.session && turn.state.group(from.session).contains(&to.session)
}

/// Gives a window a place in another session, or a second one.
fn link(turn: &mut Turn, from: Target, to: Target, replaces: bool, selects: bool) -> Result<()> {
    if grouped(turn, from, to) {
        return Err(Failure::failed("sessions are grouped".into()));
    }
    let session = turn.state.found(to.session);
    let (there, is_current) = (session.window_at(to.index), session.current == to.index);
    match there {
        Some(there) if there == from.window => {
            return Err(Failure::failed(format!("same index: {}", to.index)));
        }
        Some(_) if !replaces => return Err(Failure::failed(format!("index in use: {}", to.index))),
        Some(_) => turn.state.session_mut(to.session).last.keep(&|index| *index != to.index),
        None => {}
    }
    turn.state.link(to.session, to.index, from.window);
    if selects && !(there.is_some() && is_current) {
        turn.state.session_mut(to.session).select(to.index);
    }
    Ok(())
}

pub(super) fn move_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    if call.has('r') {
        // Like tmux 3.3a, ignores a session that does not exist.
        if let Ok(at) = caller.at(turn, call, Kind::Session) {
            renumber(turn, at.session);
        }
        return Ok(());
    }
    let mut from = caller.find(turn, call.value('s'), Kind::Window)?;
    let to = caller.at(turn, call, Kind::Index)?;
    let at = turn.state.found(from.session).links.iter().position(|(index, _)| *index == from.index);
    let to = Target { index: index_for(turn, call, to), ..to };
    // It may have moved to make room.
    if let Some(at) = at {
        from.index = turn.state.found(from.session).links[at].0;
    }
    link(turn, from, to, call.has('k'), !call.has('d'))?;
    if call.command.name == "move-window" {
        turn.state.unlink(from.session, from.index);
    }
    turn.state.sweep();
    if call.value('s').is_none() {
        renumber_if_wanted(turn, from.session);
    }
    Ok(())
}

pub(super) fn swap_window(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let from = caller.find(turn, call.value('s'), Kind::Window)?;
    let to = caller.at(turn, call, Kind::Window)?;
    if grouped(turn, from, to) {
        return Err(Failure::failed("can't move window, sessions are grouped".into()));
    }
    if from.window == to.window {
        return Ok(());
    }
    for (at, window) in [(from, to.window), (to, from.window)] {
        turn.state.link(at.session, at.index, window);
    }
    // This is what `-d` does in tmux 3.3a.
    if call.has('d') {
        turn.state.session_mut(to.session).select(to.index);
        if from.session != to.session {
            turn.state.session_mut(from.session).select(from.index);
        }
    }
    Ok(())
}

pub(super) fn swap_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let from = match call.has('U') || call.has('D') {
        true => None,
        false => Some(caller.find(turn, call.value('s').or(marked(turn)), Kind::Pane)?),
    };
    let to = caller.at(turn, call, Kind::Pane)?;
    let from = from.unwrap_or_else(|| {
        let panes = turn.state.panes_of(to.window);
        let here = panes.iter().position(|pane| *pane == to.pane).unwrap_or(0);
        let count = panes.len();
        let pane = panes[if call.has('D') { (here + 1) % count } else { (here + count - 1) % count }];
        Target { pane, ..to }
    });
    let (one, other, is_same) = (from.pane, to.pane, from.window == to.window);
    for window in [from.window, to.window] {
        turn.state.window_mut(window).fit(call.has('Z'));
    }
    if one == other {
        return Ok(());
    }
    let change = |pane: u32| {
        if pane == one {
            other
        } else if pane == other {
            one
        } else {
            pane
        }
    };
    for window in [Some(from.window), Some(to.window).filter(|_| !is_same)].into_iter().flatten() {
        let mut cell = turn.state.cell(window);
        cell.rename(&change);
        turn.state.window_mut(window).layout = cell.shown();
    }
    turn.state.pane_mut(one).window = to.window;
    turn.state.pane_mut(other).window = from.window;
    for (window, leaves, comes) in [(from.window, one, other), (to.window, other, one)] {
        let window = turn.state.window_mut(window);
        let is_wanted = if is_same { comes == other } else { true };
        if (!call.has('d') && is_wanted) || (call.has('d') && window.active == leaves) {
            window.select(comes);
        }
        if !is_same {
            window.previous = window.previous.filter(|previous| *previous != leaves);
            window.last.keep(&|pane| *pane != leaves);
        }
    }
    Ok(())
}

/// The word for the marked pane, if there is one.
fn marked(turn: &Turn) -> Option<&'static str> {
    turn.state.main.marked.map(|_| "~")
}

pub(super) fn join_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let from = caller.find(turn, call.value('s').or(marked(turn)), Kind::Pane)?;
    let to = caller.at(turn, call, Kind::Pane)?;
    for window in [from.window, to.window] {
        turn.state.window_mut(window).fit(false);
    }
    if from.pane == to.pane {
        return Err(Failure::failed("source and target panes must be different".into()));
    }
    let across = call.has('h');
    let mut cell = turn.state.cell(to.window);
    let here = cell.of(to.pane).unwrap_or(&cell);
    let room = i64::from(if across { here.width } else { here.height });
    let size = match (call.value('l'), call.value('p')) {
        (Some(word), _) => words::percentage(word, 0, LARGEST, room).map(Some),
        (None, Some(word)) => words::number(word, 0, 100).map(|share| Some(room * share / 100)),
        (None, None) => Ok(None),
    };
    let size = size.map_err(|why| Failure::failed(format!("size {why}")))?;
    let by = (!call.has('f')).then_some(to.pane);
    // While it is in both places, the one where it was needs another name.
    if from.window == to.window {
        cell.rename(&|pane| if pane == from.pane { u32::MAX } else { pane });
    }
    cell.split(by, from.pane, across, size.map(|size| size as u32), call.has('b'))
        .ok_or_else(|| Failure::failed("create pane failed: pane too small".into()))?;
    if from.window == to.window {
        cell = cell.without(u32::MAX).expect("there are two others");
        let window = turn.state.window_mut(to.window);
        window.layout = cell.shown();
        // It was lost for a moment.
        if window.active == from.pane {
            let order = cell.panes();
            let at = order.iter().position(|(pane, _)| *pane == from.pane).unwrap_or(0);
            let beside = order[if at > 0 { at - 1 } else { 1 }].0;
            window.active = window.previous.take().unwrap_or(beside);
        }
        window.previous = window.previous.filter(|previous| *previous != from.pane);
    } else {
        turn.state.detach_pane(from.pane, from.window);
        turn.state.pane_mut(from.pane).window = to.window;
        turn.state.window_mut(to.window).layout = cell.shown();
    }
    turn.state.main.marked = turn.state.main.marked.filter(|marked| *marked != from.pane);
    if !call.has('d') {
        turn.state.window_mut(to.window).select(from.pane);
        turn.state.session_mut(to.session).select(to.index);
    }
    turn.state.sweep();
    Ok(())
}

pub(super) fn break_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let mut from = caller.find(turn, call.value('s'), Kind::Pane)?;
    let to = caller.at(turn, call, Kind::Index)?;
    let at = turn.state.found(from.session).links.iter().position(|(index, _)| *index == from.index);
    let to = Target { index: index_for(turn, call, to), ..to };
    if let Some(at) = at {
        from.index = turn.state.found(from.session).links[at].0;
    }
    turn.state.window_mut(from.window).fit(false);
    let name = call.value('n').map(visible);
    if turn.state.panes_of(from.window).len() == 1 {
        // The window itself moves.
        link(turn, from, to, false, !call.has('d'))?;
        if let Some(name) = name {
            turn.state.window_mut(from.window).name = name;
            turn.state.set_of_window(from.window, "automatic-rename", "off");
        }
        turn.state.unlink(from.session, from.index);
        return Ok(());
    }
    if turn.state.found(to.session).window_at(to.index).is_some() {
        return Err(Failure::failed(format!("index in use: {}", to.index)));
    }
    let cell = turn.state.cell(from.window);
    turn.state.detach_pane(from.pane, from.window);
    turn.state.main.marked = turn.state.main.marked.filter(|marked| *marked != from.pane);
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
    turn.state.link(to.session, to.index, id);
    if !call.has('d') {
        turn.state.session_mut(to.session).select(to.index);
    }
    making::print_place(caller, turn, call, Target { window: id, pane: from.pane, ..to })
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
    turn.state.window_mut(at.window).layout = cell.shown();
    select(turn, call, at.window, next);
    Ok(())
}
