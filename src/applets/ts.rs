//! ts - create and control terminal sessions
//!
//! Usage: nbs-ts COMMAND [arguments]
//!
//! Each call does its work and exits. A session lives on in its own process, and
//! keeps its state in plain files in $NBS_TS_HOME (or ~/.nbs-ts). Calls name a
//! session by its handle, which `create` prints, or by @NAME. `run`,
//! `ask` and `exec` have further exit codes.
//!
//! Exit codes:
//!   0                 success
//!   1                 error
//!   2                 not found
//!   3                 timeout
//!   4                 bad arguments
//!   255               a machine cannot be reached

mod answer;
mod ask;
mod attach;
mod cast;
mod clipboard;
mod cp;
mod create;
mod doctor;
mod ensure;
mod eof;
mod events;
mod exec;
mod exit_code;
mod find;
mod forward;
mod gc;
mod help;
mod history;
mod hooks;
mod integrate;
mod key;
mod kill;
mod list;
mod machine;
mod notify;
mod pwd;
mod read;
mod read_new;
mod render;
mod report;
mod resize;
mod restart;
mod run;
mod screen;
mod send;
mod status;
mod top;
mod wait;
mod wait_complete;
mod wait_pattern;

use crate::{
    applet::{self, Applet, Run, TS, find},
    call::{Form, Operand, Syntax},
    cli::{self, Args},
    help::{texts::Text, topics},
    outcome::{Failure, Reason, Result},
};

include!(concat!(env!("OUT_DIR"), "/verbs.rs"));

/// Commands of tmux, screen and docker, and ours for the same.
const OTHERS: [(&str, &str); 16] = [
    ("attach-session", "attach --interactive"),
    ("capture-pane", "screen"),
    ("has-session", "find"),
    ("inspect", "status --json"),
    ("kill-session", "kill"),
    ("list-sessions", "list"),
    ("logs", "read"),
    ("ls", "list"),
    ("new", "create"),
    ("new-session", "create"),
    ("ps", "list"),
    ("rm", "kill"),
    ("send-keys", "send"),
    ("start", "create"),
    ("stop", "kill"),
    ("stuff", "send"),
];

pub(crate) fn run(args: &mut Args) -> Result<()> {
    use lexopt::Arg::Value;
    let word = match args.next() {
        Err(failure) if failure.is(Reason::HelpAsked) => return overview(args.json_asked()),
        Ok(Some(Value(word))) => word,
        Ok(Some(other)) => return Err(other.unexpected().into()),
        Ok(None) => {
            return Err(Failure::bad_args("missing COMMAND; try 'nbs-ts help'".into()));
        }
        Err(failure) => return Err(failure),
    };
    let verb = find(VERBS, &word).ok_or_else(|| {
        let ours = OTHERS.iter().find(|(theirs, _)| word == *theirs);
        let next = ours.map_or("try 'nbs-ts help'".to_owned(), |(_, ours)| format!("try 'nbs-ts {ours}'"));
        Failure::bad_args(format!("nbs-ts has no command '{}'; {next}", word.display()))
    })?;
    check_stdout(verb)?;
    if verb.name == "exec"
        && let Some(option) = args.text_but_for(|_| false)
    {
        return Err(exec::reject(&option));
    }
    applet::run(verb, args).map_err(|failure| with_next_step(failure, verb))
}

/// The commands that act, and seldom print anything: they may be wanted without standard output.
const SILENT: [&str; 10] =
    ["answer", "cp", "eof", "exec", "integrate", "key", "kill", "report", "resize", "send"];

/// Does nothing at all where the answer could not be given: no cursor moves, nothing is typed.
fn check_stdout(verb: &Applet) -> Result<()> {
    if SILENT.contains(&verb.name) {
        return Ok(());
    }
    cli::check_stdout().map_err(|failure| if verb.name == "run" { run::of_run(failure) } else { failure })
}

fn with_next_step(failure: Failure, verb: &Applet) -> Failure {
    if failure.is(Reason::BadArgs) && verb.name != "help" {
        return failure.reworded(|message| format!("{message}; see 'nbs-ts help {}'", verb.name));
    }
    failure
}

/// The output of `nbs-ts help`.
pub(crate) fn overview(json: bool) -> Result<()> {
    if json {
        return cli::print(applet::objects(VERBS));
    }
    cli::print(format!(
        "{}\n{}\nTopics:\n{}\nMore: nbs-ts help COMMAND, nbs-ts help TOPIC\n",
        TS.get(),
        by_task(),
        topics::listing()
    ))
}

/// A line for each command: its name and its summary.
fn by_task() -> String {
    let mut lines = "Commands:\n".to_owned();
    for (task, names) in TASKS {
        lines += &format!(" {task}\n");
        for verb in names.iter().filter_map(|name| find(VERBS, name.as_ref())) {
            lines += &format!("  {:13}  {}\n", verb.name, verb.summary);
        }
    }
    lines
}
