//! What keeps a shell from taking a command, and what to do about it.

use crate::{
    outcome::Result,
    session::{SessionDir, client::Doing, shell::ShellCommand},
    sys::processes::Process,
};

/// Why the shell is not at its prompt, and the next step.
pub(super) fn in_the_way(session: &SessionDir, doing: Doing) -> Result<(String, String)> {
    let handle = session.handle();
    let asked = matches!(doing, Doing::Line | Doing::Raw | Doing::Secret);
    if asked && session.left_run()?.is_some() {
        let why = "it is busy with the command of a 'run', which waits for input".to_owned();
        return Ok((why, format!("; {}, 'nbs-ts run --resume {handle}' goes on", answer(session, doing))));
    }
    if doing == Doing::Secret {
        return Ok(("it waits for a secret".to_owned(), format!("; {}", answer(session, doing))));
    }
    let Some(program) = program(session) else {
        return Ok(("it is busy".to_owned(), format!("; {}", answer(session, doing))));
    };
    let name = program.name.as_str();
    // Or what mostly has one inside it.
    let is_shell = ShellCommand::parse(name.as_bytes()).is_some() || LEADS_TO_SHELL.contains(&name);
    let mend = match is_shell {
        true => format!(
            "'nbs-ts integrate {handle}' makes run work in it, 'nbs-ts ask' talks to it, 'nbs-ts eof' ends it"
        ),
        false => answer(session, doing),
    };
    Ok((format!("it is busy: '{name}' has the foreground"), format!("; {mend}")))
}

const LEADS_TO_SHELL: [&str; 12] = [
    "ssh",
    "su",
    "sudo",
    "doas",
    "docker",
    "podman",
    "kubectl",
    "machinectl",
    "nsenter",
    "unshare",
    "chroot",
    "script",
];

fn answer(session: &SessionDir, doing: Doing) -> String {
    let handle = session.handle();
    match doing {
        Doing::Secret => format!("'nbs-ts send --secret-stdin {handle}' types it"),
        Doing::Line => "'nbs-ts ask' answers, 'nbs-ts key C-c' interrupts".to_owned(),
        Doing::Raw => "'nbs-ts ask' talks to it, 'nbs-ts eof' or 'nbs-ts key C-c' mostly ends it".to_owned(),
        Doing::Prompt | Doing::Running => "'nbs-ts key C-c' interrupts".to_owned(),
    }
}

/// The leader of the process group in the foreground, if that is not the shell itself.
fn program(session: &SessionDir) -> Option<Process> {
    let shell = Process::read(session.pid()?)?;
    let group = u32::try_from(shell.foreground).ok().filter(|group| *group != shell.pid)?;
    Process::read(group)
}

/// Has the shell a child that has been stopped, so that a command of it is not over?
pub(super) fn has_stopped_job(session: &SessionDir) -> bool {
    let shell = session.pid().and_then(Process::read);
    let children = shell.map(|shell| shell.children()).unwrap_or_default();
    children.into_iter().filter_map(Process::read).any(|child| child.is_stopped())
}
