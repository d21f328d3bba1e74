//! The foreground program, if it is not the shell at its prompt, and the next step.

use crate::{
    session::{
        SessionDir,
        client::{Snapshot, TerminalState, job::LeftJob},
    },
    sys::processes::Process,
};

/// The blocked command, on which the next step depends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocked {
    /// A command that is to be run after it.
    Next,
    /// The command of a run, which goes on once it is answered.
    Resumed,
    /// An interrupt, which has done nothing.
    Interrupt,
}

/// How to answer the foreground program, as this was seen, which has `Parts::PROGRAM`; or how to end it.
pub(super) fn next_step(session: &SessionDir, now: &Snapshot, blocked: Blocked) -> String {
    let handle = session.handle();
    let program = now.program.as_ref().filter(|program| !program.is_shell);
    match now.doing {
        TerminalState::Secret => format!("try 'nbs-ts send --secret-stdin {handle}' to type the secret"),
        // Or what mostly has one behind it.
        _ if program.is_some_and(|program| program.shell.is_some() || program.leads_elsewhere) => {
            format!(
                "try 'nbs-ts integrate {handle}' to make run work in it, 'nbs-ts ask {handle} TEXT' to \
                 type into it, 'nbs-ts eof {handle}' to end it"
            )
        }
        TerminalState::Line if blocked == Blocked::Next => {
            format!("try 'nbs-ts ask {handle} TEXT' to answer, 'nbs-ts key {handle} C-c' to interrupt")
        }
        TerminalState::Line if blocked == Blocked::Interrupt => {
            format!("try 'nbs-ts ask {handle} TEXT' to answer, 'nbs-ts eof {handle}' to end it")
        }
        TerminalState::Line => format!("try 'nbs-ts send {handle} TEXT' to answer"),
        // The latter is a builtin that reads a key.
        TerminalState::Raw if now.modes.alternate() || program.is_none() && blocked == Blocked::Resumed => {
            format!(
                "try 'nbs-ts screen {handle}' to see it, 'nbs-ts key {handle} KEY' and 'nbs-ts send \
                 {handle} TEXT' to answer"
            )
        }
        TerminalState::Raw => format!(
            "try 'nbs-ts ask {handle} TEXT' to type into it, 'nbs-ts key {handle} KEY' to type a key, \
             'nbs-ts eof {handle}' to type an end of file"
        ),
        TerminalState::Prompt | TerminalState::Running if blocked == Blocked::Interrupt => {
            format!("try the key C-\\ to end it, 'nbs-ts kill {handle}' to end the session")
        }
        TerminalState::Prompt | TerminalState::Running => {
            format!("try 'nbs-ts key {handle} C-c' to interrupt")
        }
    }
}

/// Why the shell at this place is not at its prompt, and the next step.
pub(super) fn in_the_way(session: &SessionDir, now: &Snapshot) -> (String, String) {
    let doing = now.doing;
    let asked = matches!(doing, TerminalState::Line | TerminalState::Raw | TerminalState::Secret);
    let runs = |left: LeftJob| (left.level, Some(left.last)) == (now.level, now.seq);
    if now.left.is_some_and(runs) {
        let program = now.named_program("; ");
        let (why, answer) = match asked {
            true => {
                let answer = next_step(session, now, Blocked::Resumed);
                (
                    format!("the command of an earlier 'run' waits for input{program}"),
                    format!("{answer}, then "),
                )
            }
            false => (
                format!("it is busy: the command of an earlier 'run' is still running{program}"),
                "try ".to_owned(),
            ),
        };
        return (why, format!("; {answer}'nbs-ts run --resume {}' to go on", session.handle()));
    }
    let answer = format!("; {}", next_step(session, now, Blocked::Next));
    if doing == TerminalState::Secret {
        return ("it is at a secret prompt".to_owned(), answer);
    }
    let leads_elsewhere = now.program.as_ref().is_none_or(|program| program.leads_elsewhere);
    let why = match now.named_program("it is busy: ") {
        named if !named.is_empty() => named,
        _ if asked && !leads_elsewhere => {
            "it is busy: its shell waits for input, but not at a prompt that it reports ('read', or a \
             startup file that prevents reports: a readonly PS1, a removed hook, 'exec 2>FILE')"
                .to_owned()
        }
        _ => "it is busy".to_owned(),
    };
    (why, answer)
}

/// Has the shell a child that has been stopped, so that a command of it is not over?
pub(super) fn has_stopped_job(session: &SessionDir) -> bool {
    let shell = session.pid().and_then(Process::read);
    let children = shell.map(|shell| shell.children()).unwrap_or_default();
    children.into_iter().filter_map(Process::read).any(|child| child.is_stopped())
}
