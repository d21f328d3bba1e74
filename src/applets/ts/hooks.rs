//! hooks - make a coding agent report its activity through its hooks
//! Task: Maintain, 1
//!
//! Usage: nbs-ts hooks install|remove|show [--json] AGENT
//!
//! AGENT is claude, codex, copilot, cursor, gemini, opencode or qwen. `install`
//! adds hooks to its settings that call `report` when it begins to work, asks for
//! permission, or is done (cursor: only when it is done). Everything else in its
//! settings stays unchanged, including comments. If the hooks are already there,
//! `install` changes nothing. It prints what you still have to confirm in the
//! agent. `remove` removes the hooks. `show` prints the file's path, whether they
//! are in it, and its content with them.
//!
//! The settings are where the agent looks for them: in your home directory, or
//! where CLAUDE_CONFIG_DIR, CODEX_HOME, COPILOT_HOME or XDG_CONFIG_HOME points.
//! Outside a session, the hooks do nothing.
//!
//! Options:
//!   --json            print an object: agent, file, installed, changed, confirm;
//!                     for `show`, content
//!
//! Example:
//!   nbs-ts hooks show claude

use std::{
    env,
    ffi::OsStr,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Result, Trying},
    sys::files,
    ts::agent_hooks::{AGENTS, Agent},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let action = call.word();
    let name = call.operand("AGENT").and_then(OsStr::to_str).unwrap_or("?");
    let names = AGENTS.map(|agent| agent.name).join(", ");
    let agent = Agent::named(name)
        .ok_or_else(|| Failure::bad_args(format!("nbs has no hooks for '{name}'; try one of: {names}")))?;

    let path = path(agent)?;
    let before = files::there(fs::read_to_string(&path)).trying(format_args!("read '{}'", path.display()))?;
    let not_understood = |why: String| Failure::failed(format!("cannot change '{}': {why}", path.display()));
    let with = agent.with_hooks(before.as_deref()).map_err(not_understood)?;
    let mut installed = before.as_ref() == Some(&with);
    let after = match action {
        "install" => Some(with.clone()),
        "remove" => before
            .as_deref()
            .map(|text| agent.without_hooks(text))
            .transpose()
            .map_err(not_understood)?
            .flatten(),
        _ => before.clone(),
    };
    let changed = after != before;
    if changed {
        write(&path, after.as_deref()).trying(format_args!("write '{}'", path.display()))?;
        installed = action == "install";
    }

    let confirm = agent.confirm.filter(|_| installed);
    if call.json() {
        let object = Object::new()
            .text("agent", agent.name)
            .bytes("file", path.as_os_str().as_encoded_bytes())
            .truth("installed", installed)
            .truth("changed", changed)
            .bytes_or_null("confirm", confirm.map(str::as_bytes));
        return cli::print(if action == "show" { object.text("content", &with) } else { object }.line());
    }
    let state = match (installed, changed) {
        (true, true) => "installed",
        (false, true) => "removed",
        (true, false) => "installed already",
        (false, false) => "not installed",
    };
    let content = if action == "show" { with } else { String::new() };
    let confirm = confirm.map(|confirm| format!("{confirm}\n")).unwrap_or_default();
    cli::print(format!("{}: {state}\n{confirm}{content}", path.display()))
}

/// The file of its hooks; of a link, what that leads to.
fn path(agent: Agent) -> Result<PathBuf> {
    let told = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = Some(agent.variable).filter(|name| !name.is_empty()).and_then(told);
    let folder = match (folder, told("HOME")) {
        (Some(folder), _) => folder,
        (None, Some(home)) => home.join(agent.folder),
        (None, None) => {
            return Err(Failure::failed("cannot find the agent's settings: HOME is not set".into()));
        }
    };
    let path = folder.join(agent.file);
    Ok(files::real_path(&path).unwrap_or(path))
}

/// Whole: the agent reads the old file or the new one.
fn write(path: &Path, content: Option<&str>) -> io::Result<()> {
    let Some(content) = content else { return fs::remove_file(path) };
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let mode = match fs::metadata(path) {
        Ok(metadata) => metadata.permissions(),
        Err(_) => fs::Permissions::from_mode(0o600),
    };
    let beside = folder.join(format!(".nbs-hooks.{}", std::process::id()));
    let written = fs::write(&beside, content)
        .and_then(|()| fs::set_permissions(&beside, mode))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The write error is more useful.
        let _ = fs::remove_file(&beside);
    }
    written
}
