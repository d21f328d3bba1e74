//! machine - add, list, check and remove machines
//! Task: On machines, 4
//!
//! Usage: nbs-ts machine add [--idle=TIME] NAME COMMAND...
//!        nbs-ts machine list [--json]
//!        nbs-ts machine check [--json] NAME
//!        nbs-ts machine remove NAME
//!
//! Sessions on a machine are called MACHINE:HANDLE or MACHINE:@NAME. COMMAND must
//! connect its standard input and output to a POSIX sh there. If a machine was not
//! added, nbs connects to the host of that name by ssh. nbs stores the words as
//! they are in $NBS_TS_HOME/machines, and expands nothing in them.
//!
//! `list` prints a tab-separated line for each machine that was added or is
//! connected: name, connection (up or down), version of nbs there, system and
//! architecture, round trip. `check` connects, and prints a line for each step:
//! ok or bad, and what to do. `remove` leaves its sessions alone.
//!
//! Options:
//!   --idle=TIME       disconnect after this long without a call (default: 10m)
//!   --json            print an object for each line
//!
//! Example:
//!   nbs-ts machine add pod7 kubectl exec -i pod7 -c main -- sh

use std::{ffi::OsString, os::unix::ffi::OsStrExt, time::Duration};

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    machine::{
        bridge, call,
        name::{self, Machine, MachineName},
    },
    numbers,
    outcome::{Failure, Result},
    session::StateDir,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let idle = call.optional("idle", cli::some_time)?;
    let name = call.operand("NAME").map(|word| name::parse(word.as_bytes())).transpose()?;

    let state_dir = StateDir::open_or_make()?;
    match (call.word(), name) {
        ("add", Some(name)) => {
            // As for any command, `--` may separate them from our options.
            let words = call.operands("COMMAND");
            let has_dashes = words.first().is_some_and(|word| word == "--");
            add(&state_dir, name, idle, &words[usize::from(has_dashes)..])
        }
        ("remove", Some(name)) => remove(&state_dir, &name),
        ("check", Some(name)) => check(&state_dir, &name, call.json()),
        _ => list(&state_dir, call.json()),
    }
}

fn add(state_dir: &StateDir, name: MachineName, idle: Option<Duration>, words: &[OsString]) -> Result<()> {
    let text =
        |word: &OsString| word.to_str().filter(|word| !word.chars().any(char::is_control)).map(name::quoted);
    let words: Option<Vec<String>> = words.iter().map(text).collect();
    let command = words
        .ok_or_else(|| Failure::bad_args("a command must be UTF-8 text without control characters".into()))?;
    if command.is_empty() {
        return Err(Failure::bad_args("missing COMMAND, which connects to an sh there".into()));
    }
    // Less than a second is not worth printing.
    let idle = idle.map(|idle| idle.max(Duration::from_secs(1)));
    name::add(state_dir, Machine { name: name.clone(), idle, command: command.join(" ") })?;
    // The next call uses the new data.
    call::replace(state_dir, &name)
}

fn remove(state_dir: &StateDir, name: &MachineName) -> Result<()> {
    let had_bridge = call::forget(state_dir, name)?;
    if name::remove(state_dir, name)? || had_bridge {
        return Ok(());
    }
    Err(Failure::not_found(format!("there is no machine '{name}'; try 'nbs-ts machine list'")))
}

fn list(state_dir: &StateDir, json: bool) -> Result<()> {
    let mut names: Vec<MachineName> =
        name::machines(state_dir)?.into_iter().map(|machine| machine.name).collect();
    for name in call::bridged(state_dir)? {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut lines = String::new();
    for name in names {
        // A bridge that does not respond counts as none; `check` shows why.
        let told = call::ask(state_dir, &name).ok().flatten().filter(|told| !told.version.is_empty());
        let state = if told.is_some() { "up" } else { "down" };
        let round_trip = told.as_ref().map(|told| told.round_trip);
        if json {
            let text = |text: Option<&String>| text.cloned();
            let version = text(told.as_ref().map(|told| &told.version));
            let machine = text(told.as_ref().map(|told| &told.machine));
            let object = Object::new()
                .text("machine", name.as_str())
                .text("state", state)
                .bytes_or_null("version", version.as_ref().map(String::as_bytes))
                .bytes_or_null("system", machine.as_ref().map(String::as_bytes))
                .seconds_or_null("round_trip", round_trip)
                .number_or_null("calls", told.as_ref().map(|told| told.calls));
            lines += &object.line();
            continue;
        }
        let (version, machine) = told.map_or(("-".into(), "-".into()), |told| (told.version, told.machine));
        let round_trip =
            round_trip.map_or("-".into(), |time| format!("{}ms", numbers::seconds(time * 1_000, 1)));
        lines += &format!("{name}\t{state}\t{version}\t{machine}\t{round_trip}\n");
    }
    cli::print(lines)
}

fn check(state_dir: &StateDir, name: &MachineName, json: bool) -> Result<()> {
    let (way, _) = name::way_to(state_dir, name)?;
    let mut bad = false;
    bridge::check(way, &mut |step| {
        bad |= !step.ok;
        let line = match json {
            true => Object::new()
                .text("check", step.name)
                .truth("ok", step.ok)
                .text("detail", &step.detail)
                .line(),
            false => format!("{:4}  {:9}  {}\n", if step.ok { "ok" } else { "bad" }, step.name, step.detail),
        };
        cli::print(line)
    })?;
    if bad { Err(Failure::quiet()) } else { Ok(()) }
}
