//! What keeps a shell from taking a command, and what to do about it.

use crate::{
    outcome::Result,
    session::{
        LeftRun, SessionDir,
        client::{Doing, RelayClient, ShellPlace},
    },
    sys::processes::Process,
};

/// Why the shell at this place is not at its prompt, and the next step.
pub(super) fn in_the_way(
    session: &SessionDir,
    turn: &mut RelayClient,
    place: &ShellPlace,
    doing: Doing,
) -> Result<(String, String)> {
    let handle = session.handle();
    let asked = matches!(doing, Doing::Line | Doing::Raw | Doing::Secret);
    // Of one that has ended since, what was left is still there.
    let runs = |left: LeftRun| (left.level, Some(left.last)) == (place.level, place.seq);
    if asked && session.left_run()?.is_some_and(runs) {
        let why = "it is busy with the command of a 'run', which waits for input".to_owned();
        return Ok((why, format!("; {}, 'nbs-ts run --resume {handle}' goes on", answer(session, doing))));
    }
    if doing == Doing::Secret {
        return Ok(("it waits for a secret".to_owned(), format!("; {}", answer(session, doing))));
    }
    let holder = turn.holder()?.ok_or_else(|| session.ended())?;
    let holder = match holder {
        Some(holder) if !holder.is_shell => holder,
        other => {
            let itself = asked && other.is_some_and(|holder| !holder.leads_elsewhere);
            let why = match itself {
                true => {
                    "it is busy: its shell itself waits for input, at no prompt that it reports ('read', or a \
                     startup file that keeps it from that: a readonly PS1, a removed hook, 'exec 2>FILE')"
                }
                false => "it is busy",
            };
            return Ok((why.to_owned(), format!("; {}", answer(session, doing))));
        }
    };
    // Or what mostly has one behind it.
    let mend = match holder.shell.is_some() || holder.leads_elsewhere {
        true => format!(
            "'nbs-ts integrate {handle}' makes run work in it, 'nbs-ts ask' talks to it, 'nbs-ts eof' ends it"
        ),
        false => answer(session, doing),
    };
    Ok((format!("it is busy: '{}' has the foreground", holder.name), format!("; {mend}")))
}

fn answer(session: &SessionDir, doing: Doing) -> String {
    let handle = session.handle();
    match doing {
        Doing::Secret => format!("'nbs-ts send --secret-stdin {handle}' types it"),
        Doing::Line => "'nbs-ts ask' answers, 'nbs-ts key C-c' interrupts".to_owned(),
        Doing::Raw => "'nbs-ts ask' talks to it, 'nbs-ts eof' or 'nbs-ts key C-c' mostly ends it".to_owned(),
        Doing::Prompt | Doing::Running => "'nbs-ts key C-c' interrupts".to_owned(),
    }
}

/// Has the shell a child that has been stopped, so that a command of it is not over?
pub(super) fn has_stopped_job(session: &SessionDir) -> bool {
    let shell = session.pid().and_then(Process::read);
    let children = shell.map(|shell| shell.children()).unwrap_or_default();
    children.into_iter().filter_map(Process::read).any(|child| child.is_stopped())
}
