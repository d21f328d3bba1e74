//! Typing into panes, and the buffers.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    time::Duration,
};

use super::{Caller, Turn, modes};
use crate::{
    cli,
    outcome::{Failure, Result, Trying},
    session::client::{RelayClient, sending},
    sys::{deadline::Deadline, files},
    terminal::{
        keys::{self, Application},
        text,
    },
    tmux::{
        panes, pipe,
        state::{Buffer, Pane},
        target::{Kind, Target},
        words::{self, Call},
    },
};

/// How long a call waits for a program that does not read. What is left then is typed when it reads.
const PATIENCE: Duration = Duration::from_secs(1);

const LONGEST_BUFFER: u64 = 256 << 20;

/// How much is typed at once, so that many repeats take no memory.
const PIECE: usize = 64 << 10;

/// The panes that are typed into where this one is: those of its window, with synchronize-panes.
fn typed_into(turn: &Turn, at: Target) -> Vec<Pane> {
    let is_on = |pane: u32| turn.state.option_of_pane(at.window, Some(pane), "synchronize-panes") == "on";
    let all = if is_on(at.pane) { turn.state.panes_of(at.window) } else { vec![at.pane] };
    let mut panes = Vec::new();
    for id in all {
        let pane = turn.state.pane(id).filter(|pane| pane.dead.is_none() && !pane.input_off);
        if let Some(pane) = pane.filter(|_| id == at.pane || is_on(id)) {
            panes.push(pane.clone());
        }
    }
    panes
}

pub(super) fn send_keys(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    if call.has('R') {
        turn.state.pane_mut(at.pane).cut(true)?;
    }
    if modes::takes(turn.state.pane_mut(at.pane), call)? {
        return Ok(());
    }
    let count = words::number(call.value('N').unwrap_or("1"), 1, u32::MAX.into());
    let repeat = count.map_err(|why| Failure::failed(format!("repeat count {why}")))?;
    for pane in typed_into(turn, at) {
        let Some(session) = pane.open() else { continue };
        let Some(mut client) = RelayClient::open(&session)? else { continue };
        let Some(modes) = client.modes()? else { continue };
        let mut pending = Vec::new();
        for word in std::iter::repeat_n(&call.operands, repeat as usize).flatten() {
            let bytes = key(call, word, modes.application);
            match bytes[..] {
                [byte] if modes.signals.contains(&byte) && !call.has('l') => {
                    type_all(&pane, &std::mem::take(&mut pending))?;
                    if client.press(byte)? == Some(false) {
                        pending.push(byte);
                    }
                }
                _ => pending.extend(bytes),
            }
            if pending.len() >= PIECE {
                type_all(&pane, &std::mem::take(&mut pending))?;
            }
        }
        type_all(&pane, &pending)?;
    }
    Ok(())
}

/// The bytes that a word of send-keys types: those of the key of that name, else itself.
fn key(call: &Call, word: &str, application: Application) -> Vec<u8> {
    if call.has('l') {
        return word.as_bytes().to_vec();
    }
    if call.has('H') {
        let code = u32::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        return if let Some(byte @ 0..256) = code { vec![byte as u8] } else { Vec::new() };
    }
    let code = word.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    match code.and_then(char::from_u32) {
        Some(character) => character.to_string().into_bytes(),
        None => keys::parse(word).map_or_else(|| word.as_bytes().to_vec(), |key| key.bytes(application)),
    }
}

pub(super) fn send_prefix(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    let name = if call.has('2') { "prefix2" } else { "prefix" };
    let prefix = turn.state.option_of_session(at.session, name);
    let bytes = keys::parse(&prefix).map(|key| key.bytes(Application::default())).unwrap_or_default();
    for pane in typed_into(turn, at) {
        type_all(&pane, &bytes)?;
    }
    Ok(())
}

fn type_all(pane: &Pane, bytes: &[u8]) -> Result<()> {
    let Some(session) = pane.open().filter(|_| !bytes.is_empty()) else { return Ok(()) };
    let Some(mut client) = RelayClient::open(&session)? else { return Ok(()) };
    let Some(typed) = client.type_in(bytes, Deadline::after(PATIENCE))? else { return Ok(()) };
    if typed.cut {
        return Ok(());
    }
    let rest = &bytes[(typed.count as usize).min(bytes.len())..];
    let left = session.type_later(rest).trying("type the rest of it")?;
    match left {
        0 => Ok(()),
        left => Err(Failure::failed(format!(
            "the program does not read; {left} of {} bytes are lost",
            bytes.len()
        ))),
    }
}

pub(super) fn pipe_pane(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    let pane = turn.state.pane(at.pane).expect("it was found").clone();
    let was_open = pane.has_pipe();
    if let Some(pid) = pane.pipe {
        turn.state.keep_pipes();
        pipe::stop(pid, &pane.handle)?;
        turn.state.pane_mut(at.pane).pipe = None;
    }
    let Some(command) = call.operand(0).filter(|command| !command.is_empty()) else { return Ok(()) };
    if pane.dead.is_some() || (call.has('o') && was_open) {
        return Ok(());
    }
    let command = caller.format(turn, Some(at)).timed().expand(command);
    let takes_output = call.has('O') || !call.has('I');
    let (pid, begun) = pipe::start(&pane.handle, &command, takes_output, call.has('I'))?;
    turn.state.pane_mut(at.pane).pipe = Some(pid);
    turn.state.begun_pipes.push(begun);
    Ok(())
}

/// Keeps a text in a buffer, of that name if there is one.
pub(super) fn keep(caller: &Caller, turn: &mut Turn, name: Option<&str>, content: &[u8]) -> Result<()> {
    let state = &mut turn.state;
    if content.is_empty() {
        return Ok(());
    }
    let file = state.buffers.iter().map(|buffer| buffer.file + 1).max().unwrap_or(0);
    let automatic = name.is_none();
    let name = match name {
        Some(name) => name.to_owned(),
        None => {
            state.main.buffers += 1;
            format!("buffer{}", state.main.buffers - 1)
        }
    };
    caller.space.within(|folder| folder.replace(&format!("b{file}"), content))?;
    remove(caller, turn, &name)?;
    let created = panes::now();
    turn.state.buffers.insert(0, Buffer { name, file, automatic, created, size: content.len() as u64 });
    let limit = turn.state.option_in(&["s".to_owned()], "buffer-limit").and_then(|limit| limit.parse().ok());
    while turn.state.buffers.iter().filter(|buffer| buffer.automatic).count() > limit.unwrap_or(50) {
        let oldest =
            turn.state.buffers.iter().rev().find(|buffer| buffer.automatic).map(|buffer| buffer.name.clone());
        remove(caller, turn, &oldest.unwrap_or_default())?;
    }
    Ok(())
}

fn remove(caller: &Caller, turn: &mut Turn, name: &str) -> Result<bool> {
    let Some(at) = turn.state.buffers.iter().position(|buffer| buffer.name == name) else { return Ok(false) };
    let buffer = turn.state.buffers.remove(at);
    caller.space.within(|folder| folder.remove_if_there(format!("b{}", buffer.file).as_ref()))?;
    Ok(true)
}

/// The buffer of that name, else the newest one.
fn buffer<'a>(turn: &'a Turn, name: Option<&str>) -> Option<&'a Buffer> {
    turn.state.buffers.iter().find(|buffer| name.is_none_or(|name| buffer.name == name))
}

fn content(caller: &Caller, buffer: &Buffer) -> Result<Vec<u8>> {
    caller.space.within(|folder| folder.read(&format!("b{}", buffer.file), LONGEST_BUFFER))
}

pub(super) fn set_buffer(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let name = call.value('b');
    if let Some(new) = call.value('n') {
        let old = buffer(turn, name).map(|buffer| buffer.name.clone());
        let old = old.ok_or_else(|| {
            Failure::failed(match name {
                Some(name) => format!("unknown buffer: {name}"),
                None => "no buffer".to_owned(),
            })
        })?;
        remove(caller, turn, new)?;
        let buffer = turn.state.buffers.iter_mut().find(|buffer| buffer.name == old);
        let buffer = buffer.expect("it was found");
        (buffer.name, buffer.automatic) = (new.to_owned(), false);
        return Ok(());
    }
    if call.command.name == "load-buffer" {
        let path = caller.expand(turn, caller.current(turn), &call.operands[0]);
        let mut loaded = Vec::new();
        let read = match &*path {
            "-" => io::stdin().read_to_end(&mut loaded),
            path => File::open(path).and_then(|mut file| file.read_to_end(&mut loaded)),
        };
        read.map_err(|error| Failure::failed(format!("{path}: {}", reason(&error))))?;
        return keep(caller, turn, name, &loaded);
    }
    let data = call.operand(0).ok_or_else(|| Failure::failed("no data specified".into()))?;
    let mut whole = Vec::new();
    if call.has('a')
        && let Some(buffer) = buffer(turn, name)
    {
        whole = content(caller, buffer)?;
    }
    whole.extend_from_slice(data.as_bytes());
    keep(caller, turn, name, &whole)
}

/// As strerror(3) has it.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

pub(super) fn show_buffer(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let name = call.value('b');
    let found = buffer(turn, name).ok_or_else(|| {
        Failure::failed(name.map_or("no buffers".to_owned(), |name| format!("no buffer {name}")))
    })?;
    let content = content(caller, found)?;
    let path = call.operand(0).map(|path| caller.expand(turn, caller.current(turn), path));
    match path.as_deref() {
        None if call.command.name == "show-buffer" => cli::print(content),
        None | Some("-") => cli::print(content),
        Some(path) => {
            let open = || {
                let mut options = OpenOptions::new();
                options.write(true).create(true).append(call.has('a')).truncate(!call.has('a'));
                options.open(path)
            };
            let written = files::with_callers_umask(open).and_then(|mut file| file.write_all(&content));
            written.map_err(|error| Failure::failed(format!("{path}: {}", reason(&error))))
        }
    }
}

pub(super) fn delete_buffer(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let name = call.value('b');
    let found = buffer(turn, name).map(|buffer| buffer.name.clone());
    let found = found.ok_or_else(|| {
        Failure::failed(name.map_or("no buffer".to_owned(), |name| format!("unknown buffer: {name}")))
    })?;
    remove(caller, turn, &found).map(drop)
}

pub(super) fn list_buffers(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let usual = "#{buffer_name}: #{buffer_size} bytes: \"#{buffer_sample}\"";
    let mut text = String::new();
    for buffer in &turn.state.buffers {
        let start: String = String::from_utf8_lossy(&content(caller, buffer)?).chars().take(200).collect();
        let sample: String =
            text::escaped(start.replace('\\', "\\\\").as_bytes()).to_string().chars().take(50).collect();
        let mut expander = caller.format(turn, caller.current(turn));
        let sample = if start.chars().count() > 50 { sample + "..." } else { sample };
        expander.own = vec![
            ("buffer_name", buffer.name.clone()),
            ("buffer_size", buffer.size.to_string()),
            ("buffer_created", buffer.created.to_string()),
            ("buffer_sample", sample),
        ];
        if call.value('f').is_none_or(|filter| expander.holds(filter)) {
            text += &expander.expand(call.value('F').unwrap_or(usual));
            text.push('\n');
        }
    }
    cli::print(text)
}

pub(super) fn paste_buffer(caller: &Caller, turn: &mut Turn, call: &Call) -> Result<()> {
    let at = caller.at(turn, call, Kind::Pane)?;
    let name = call.value('b');
    let found = match (buffer(turn, name), name) {
        (Some(found), _) => found.clone(),
        (None, Some(name)) => return Err(Failure::failed(format!("no buffer {name}"))),
        (None, None) => return Ok(()),
    };
    let text = content(caller, &found)?;
    let separator = call.value('s').unwrap_or(if call.has('r') { "\n" } else { "\r" });
    let text = text.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(separator.as_bytes());
    for pane in typed_into(turn, at) {
        let is_bracketed =
            call.has('p') && panes::Facts::gather(&pane).keys().is_some_and(|keys| keys.bracketed_paste);
        let text = if is_bracketed { sending::bracketed(text.clone()) } else { text.clone() };
        type_all(&pane, &text)?;
    }
    if call.has('d') {
        remove(caller, turn, &found.name)?;
    }
    Ok(())
}

/// The text of a file, or of standard input.
pub(super) fn text_of(path: &str) -> io::Result<String> {
    match path {
        "-" => io::read_to_string(io::stdin()),
        path => fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    }
}
