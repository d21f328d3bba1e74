//! Commands that show something: lists, formats, screens.

use super::{Caller, Turn, typing};
use crate::{
    cli,
    outcome::{Failure, Result},
    terminal::screen::Capture,
    tmux::{
        panes,
        state::{Keep, Session},
        tables,
        target::{Kind, Target},
        words::{self, Call},
    },
};

const SESSION: &str = "#{session_name}: #{session_windows} windows (created #{t:session_created})\
                       #{?session_grouped, (group ,}#{session_group}#{?session_grouped,),}\
                       #{?session_attached, (attached),}";
const WINDOW: &str = "#{window_index}: #{window_name}#{window_raw_flags} (#{window_panes} panes) \
                      [#{window_width}x#{window_height}]";
const PANE: &str = "[#{pane_width}x#{pane_height}] [history #{history_size}/#{history_limit}, \
                    #{history_bytes} bytes] #{pane_id}#{?pane_active, (active),}#{?pane_dead, (dead),}";

pub(super) fn has_session(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    caller.at(turn, call, Kind::Session).map(drop)
}

pub(super) fn list_commands(_: &Caller, _: &mut Turn, call: &Call) -> Result<()> {
    let Ok(wanted) = call.operand(0).map(words::find).transpose() else { return Ok(()) };
    let mut text = String::new();
    for command in words::commands() {
        if wanted.is_some_and(|wanted| wanted.name != command.name) {
            continue;
        }
        // Further flags are not told.
        let flags = command.flags.split(" ~").next().unwrap_or_default();
        let alias = if command.alias.is_empty() { String::new() } else { format!(" ({})", command.alias) };
        match call.value('F') {
            None => text += format!("{}{alias} {flags}", command.name).trim_end(),
            Some(format) => {
                text += &format
                    .replace("#{command_list_name}", command.name)
                    .replace("#{command_list_alias}", command.alias)
                    .replace("#{command_list_usage}", flags);
            }
        }
        text.push('\n');
    }
    cli::print(text)
}

pub(super) fn list(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let state = &turn.state;
    let name = call.command.name;
    let mut sessions: Vec<&Session> = Vec::new();
    for session in &state.sessions {
        let at = sessions.partition_point(|other| other.name < session.name);
        sessions.insert(at, session);
    }
    let (of_windows, all) = (name == "list-windows", call.has('a'));
    let mut windows = Vec::new();
    if name == "list-sessions" {
        for session in sessions {
            windows.push(session.at(state, session.current));
        }
    } else if all || of_windows || call.has('s') {
        if !all {
            let at = caller.at(turn, call, Kind::Session)?;
            sessions.keep(&|session| session.id == at.session);
        }
        for session in sessions {
            for (index, _) in &session.links {
                windows.push(session.at(state, *index));
            }
        }
    } else {
        windows.push(caller.at(turn, call, Kind::Window)?);
    }
    let mut targets = Vec::new();
    for window in windows {
        if name != "list-panes" {
            targets.push(window);
            continue;
        }
        for pane in state.panes_of(window.window) {
            targets.push(Target { pane, ..window });
        }
    }
    let (before, usual, behind) = match name {
        "list-sessions" => ("", SESSION, ""),
        "list-windows" if all => ("#{session_name}:", WINDOW, " "),
        "list-windows" => ("", WINDOW, " [layout #{window_layout}] #{window_id}#{?window_active, (active),}"),
        _ if all => ("#{session_name}:#{window_index}.#{pane_index}: ", PANE, ""),
        _ if call.has('s') => ("#{window_index}.#{pane_index}: ", PANE, ""),
        _ => ("#{pane_index}: ", PANE, ""),
    };
    let usual = [before, usual, behind].concat();
    let format = call.value('F').unwrap_or(&usual);
    let mut text = String::new();
    for (line, target) in targets.into_iter().enumerate() {
        let mut expander = caller.format(turn, Some(target));
        expander.own.push(("line", line.to_string()));
        for (kind, owner) in [
            ("session_format", "list-sessions"),
            ("window_format", "list-windows"),
            ("pane_format", "list-panes"),
        ] {
            expander.own.push((kind, u8::from(name == owner).to_string()));
        }
        if call.value('f').is_none_or(|filter| expander.holds(filter)) {
            text += &expander.expand(format);
            text.push('\n');
        }
    }
    cli::print(text)
}

pub(super) fn list_clients(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let only = match call.value('t') {
        None => None,
        word => Some(caller.find(turn, word, Kind::Session)?.session),
    };
    let usual = "#{client_name}: #{session_name} [#{client_width}x#{client_height} #{client_termname}] ";
    let mut text = String::new();
    for session in turn.state.sessions.iter().filter(|session| only.is_none_or(|only| session.id == only)) {
        let target = session.at(&turn.state, session.current);
        for pid in &session.clients {
            let mut expander = caller.format(turn, Some(target));
            let cell = turn.state.cell(target.window);
            expander.own = vec![
                ("client_name", format!("client-{pid}")),
                ("client_pid", pid.to_string()),
                ("client_session", session.name.clone()),
                ("client_width", cell.width.to_string()),
                ("client_height", cell.height.to_string()),
                ("client_termname", "xterm-256color".to_owned()),
                ("client_control_mode", "0".to_owned()),
            ];
            if call.value('f').is_none_or(|filter| expander.holds(filter)) {
                text += &expander.expand(call.value('F').unwrap_or(usual));
                text.push('\n');
            }
        }
    }
    cli::print(text)
}

pub(super) fn display_message(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let target = caller.near(turn, call);
    if call.has('F') && call.operand(0).is_some() {
        return Err(Failure::failed("only one of -F or argument must be given".into()));
    }
    if call.has('a') {
        let format = caller.format(turn, target);
        let line = |name: &str| format!("{name}={}\n", format.expand(&format!("#{{{name}}}")));
        return cli::print(
            tables::variables().lines().filter(|name| !name.starts_with('-')).map(line).collect::<String>(),
        );
    }
    let usual =
        "[#{session_name}] #{window_index}:#{window_name}, current pane #{pane_index} - (#{pane_title})";
    let format = call.value('F').or(call.operand(0)).unwrap_or(usual);
    let text = match call.has('l') {
        true => format.to_owned(),
        false => caller.format(turn, target).timed().expand(format),
    };
    if call.has('v') {
        cli::print(format!("# expanding format: {format}\n# result is: {text}\n"))?;
    }
    if call.has('p') { cli::print(text + "\n") } else { Ok(()) }
}

pub(super) fn capture_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    let pane = turn.state.pane(at.pane).expect("it was found").clone();
    let screen =
        panes::screen(&pane).ok_or_else(|| Failure::failed(format!("can't find pane: %{}", pane.id)))?;
    let (_, rows) = screen.size();
    let history = screen.history() as i64;
    let last = rows as i64 - 1;
    let edge = |flag: char, open: i64, usual: i64| match call.value(flag) {
        None => usual,
        Some("-") => open,
        Some(word) => word.parse::<i64>().map_or(usual, |row| row.clamp(-history, last)),
    };
    let (mut first, mut end) = (edge('S', -history, 0), edge('E', last, last));
    if end < first {
        (first, end) = (end, first);
    }
    let form = Capture { colours: call.has('e'), joins: call.has('J'), keeps_blanks: call.has('N') };
    let text =
        if call.has('P') { Some(String::new()) } else { screen.captured(first, end, call.has('a'), form) };
    let mut text = match text {
        Some(text) => text,
        None if call.has('q') => String::new(),
        None => return Err(Failure::failed("no alternate screen".into())),
    };
    if call.has('C') {
        let octal = |character: char| match character {
            '\\' => "\\\\".to_owned(),
            '\n' => "\n".to_owned(),
            other if (other as u32) < 32 => format!("\\{:03o}", other as u32),
            other => other.to_string(),
        };
        text = text.chars().map(octal).collect();
    }
    if call.has('p') {
        let text = text.strip_suffix('\n').unwrap_or(&text);
        return cli::print(format!("{text}\n"));
    }
    typing::keep(caller, turn, call.value('b'), text.as_bytes())
}

pub(super) fn clear_history(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    turn.state.pane_mut(at.pane).cut(false)
}
