//! Starting an agent. No other code does.
//!
//! bash starts it, by a line that must not be changed: users tried every other way to start an agent
//! from inside another, and it died. Only if there is no bash does `sh` start it. If there is no
//! setsid(1), the line omits it; then the shell has a session of its own, and the agent is in that.
//! All values are arguments of the script, so none of them is parsed as shell text. The agent has our
//! standard input, and no other descriptor of ours or of our caller.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::{Path, PathBuf, absolute},
    process::{Command, Stdio},
};

use crate::{
    jail::PROFILE_ENV,
    outcome::{Failure, Result, Trying},
    session::Name,
    sys::{child, files, user},
};

/// A background command of a shell without job control has /dev/null as its
/// standard input, unless it says otherwise: so `<&0` (POSIX, 2.9.3.1).
const LINE: &str = r#"NBS_HANDLE=$1 NBS_TRANSPORT=ts NBS_INITIAL_PROMPT=$4 setsid "$3" --root="$2" --dangerously-skip-permissions <&0 >/dev/null 2>&1 &"#;

/// The variable with the agent's handle, as that line has it.
pub(super) const HANDLE_ENV: &str = "NBS_HANDLE";

/// An agent that is a bash script opens the terminal of its standard input when it starts. If our
/// caller's session has ended by then, that terminal becomes its controlling terminal (tty(4)) and is
/// about to hang up. So the agent ignores SIGHUP.
const DEAF: &str = r#"trap '' HUP; exec "$@""#;

/// The kernel takes no longer string than this, with its NUL, into a program's
/// arguments or environment (execve(2), MAX_ARG_STRLEN).
const LONGEST_STRING: usize = 128 * 1024;

/// The shells that can launch an agent, in order of preference. With -p they read neither the file of
/// BASH_ENV nor functions of the environment.
const SHELLS: [&[&str]; 2] = [&["bash", "-p"], &["sh"]];

/// The program that gives the agent a session of its own. If it is not installed, the shell gets one,
/// and the agent is in that.
const SETSID: &str = "setsid";

/// Becomes a program in a session of its own.
const STARTER: &str = "nbs-starter";

/// The agent where none is named.
const AGENT: &str = "nbs-claude";

pub(crate) struct Launch<'a> {
    pub(crate) handle: &'a OsStr,
    pub(crate) root: &'a OsStr,
    // Invariant: absolute, so that it is never read as an option.
    agent: PathBuf,
    // One of SHELLS.
    shell: &'static [&'static str],
}

impl<'a> Launch<'a> {
    /// Looks whether all is there that a launch needs. An agent without a slash
    /// in its name is looked for on PATH, as everywhere.
    pub(crate) fn check(handle: &'a OsStr, root: &'a OsStr, agent: &OsStr) -> Result<Launch<'a>> {
        let Some(shell) = SHELLS.into_iter().find(|shell| is_on_path(shell[0])) else {
            return Err(Failure::failed("cannot start an agent: neither 'bash' nor 'sh' is on PATH".into()));
        };
        let shown = agent.display();
        let what = format!("start the agent '{shown}'");
        let found = match agent.as_bytes().contains(&b'/') {
            true => Some(PathBuf::from(agent)).filter(|agent| agent.exists()),
            false => child::on_path(agent),
        };
        let Some(found) = found else {
            return Err(Failure::failed(format!("cannot {what}: there is no such program")));
        };
        if !child::is_program(&found) {
            return Err(Failure::failed(format!("cannot {what}: it is not executable")));
        }
        Ok(Launch { handle, root, agent: absolute(found).trying(what)?, shell })
    }

    /// Starts the agent and returns: nothing of what it does then is known here.
    pub(crate) fn start(&self, prompt: &OsStr, profile: Option<&Name>) -> Result<()> {
        let what = format!("start the agent '{}'", self.agent.display());
        let longest = LONGEST_STRING - "NBS_INITIAL_PROMPT=".len() - 1;
        if prompt.len() > longest {
            return Err(Failure::failed(format!(
                "cannot {what}: the prompt has {} bytes; a program accepts at most {longest}",
                prompt.len()
            )));
        }
        let shell = self.shell;
        let (mut command, line) = if is_on_path(SETSID) {
            let mut command = Command::new(shell[0]);
            // Until setsid has run, the agent would be in the foreground of our caller's
            // terminal, and be hung up with it if our caller ends with us.
            command.process_group(0);
            (command, LINE.to_owned())
        } else {
            let mut command = child::ourselves(STARTER);
            command.arg(shell[0]);
            (command, LINE.replace(&format!("{SETSID} "), ""))
        };
        command.args(&shell[1..]).args(["-c", DEAF, shell[0]]);
        command.args(shell).args(["-c", &line, "nbs-launch-agent"]);
        command.args([self.handle, self.root, self.agent.as_os_str(), prompt]);
        for name in env::vars_os().map(|(name, _)| name).filter(|name| tells_of_nesting(name)) {
            command.env_remove(name);
        }
        if let Some(profile) = profile {
            command.env(PROFILE_ENV, profile.as_str());
        }
        // The messages of bash are the reason if it fails; the agent does not write them.
        command.stdin(Stdio::inherit());
        let ended = files::with_callers_umask(|| command.output()).trying(&what)?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        let last = said.lines().last().unwrap_or_default();
        let code = child::ExitStatus::number_of(ended.status);
        Err(Failure::failed(format!("cannot {what}: {} ended with exit code {code}: {last}", shell[0])))
    }
}

fn is_on_path(program: &str) -> bool {
    child::on_path(program.as_ref()).is_some()
}

/// An agent with this in its environment takes itself for the part of another,
/// and ends. Some names cannot be `unset` in a shell, as `CODEX_A-B`; so none is.
fn tells_of_nesting(name: &OsStr) -> bool {
    const NAMES: [&[u8]; 4] = [b"CLAUDECODE", b"TMUX", b"TMUX_PANE", b"AGENT"];
    const BEGINNINGS: [&[u8]; 4] = [b"CLAUDE_CODE_", b"CODEX_", b"CODING_AGENT_", b"OTEL_"];
    let name = name.as_bytes();
    NAMES.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// The agent of a project: its own, else the user's, else that on PATH.
pub(crate) fn find_agent(root: &Path) -> Result<OsString> {
    let home = user::home().map(|home| home.join(".nbs"));
    let folders = [Some(root.join(".nbs/bin")), Some(root.join("bin")), home.map(|home| home.join("bin"))];
    let own = folders.into_iter().flatten().map(|folder| folder.join(AGENT));
    let found = own.into_iter().find(|agent| child::is_program(agent));
    found.or_else(|| child::on_path(AGENT.as_ref())).map(OsString::from).ok_or_else(|| {
        Failure::failed(format!(
            "cannot find the agent '{AGENT}' in '{}', in ~/.nbs/bin or on PATH; try --agent",
            root.join(".nbs/bin").display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nesting_variables_are_removed() {
        for name in ["CLAUDECODE", "CLAUDE_CODE_", "TMUX", "TMUX_PANE", "AGENT", "CODEX_A-B", "OTEL_X"] {
            assert!(tells_of_nesting(OsStr::new(name)), "{name}");
        }
        for name in ["CLAUDE_API_KEY", "CLAUDECODE2", "TMUX_TMPDIR", "AGENTS", "CODEX", "OTEL", "XOTEL_A"] {
            assert!(!tells_of_nesting(OsStr::new(name)), "{name}");
        }
    }
}
