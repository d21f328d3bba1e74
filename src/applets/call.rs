//! call - one call of a command of nbs-ts, for another process
//!
//! An internal role. `nbs-mcp`, `nbs-page`, `nbs-far` or a `forward`, whose process ID is PARENT,
//! starts `nbs-call PARENT pipes|terminal COMMAND...`. It executes a command of `nbs-ts`, or
//! `nbs-spawn-worker` if COMMAND is `spawn-worker`. If COMMAND is `page`, it sends the sessions to a
//! page. If it is `exec`, it runs a program, copies files or carries a connection; when that or PARENT
//! has ended, it ends all that the program has started. With `terminal`, its standard input is the
//! terminal that it runs on. A call that waits is of no use without its parent, and ends with it; the
//! session that it waits for goes on. The other calls are brief, and end by themselves.

use std::os::unix::ffi::OsStrExt;

use crate::{
    applets,
    cli::{self, Args},
    machine::{self, copy, port, supervisor},
    outcome::{Result, Trying},
    page,
    session::StateDir,
    sys::{
        child, pty,
        signals::{SIGTERM, Signals},
    },
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let [parent, how, words @ ..] = &words[..] else { return Err(cli::by_hand()) };
    let parent = parent.to_str().and_then(|digits| digits.parse().ok()).ok_or_else(cli::by_hand)?;
    if std::os::unix::process::parent_id() != parent {
        return Err(cli::by_hand());
    }
    if how == "terminal" {
        pty::adopt_stdin_as_terminal().trying("take the terminal")?;
    }
    if let [exec, what @ ..] = words
        && exec.as_bytes() == machine::EXEC
    {
        return match what {
            [kind, line] if kind == "sh" => supervisor::run(parent, line),
            [kind, words @ ..] if kind == "send" => copy::send(words),
            [kind, words @ ..] if kind == "receive" => copy::receive(words),
            [kind, words @ ..] if kind == "connect" => port::connect(words),
            [kind, words @ ..] if kind == "dial" => port::dial(words),
            [kind, words @ ..] if kind == "listen" => port::listen(words),
            [kind, words @ ..] if kind == "accepted" => port::accepted(words),
            _ => Err(cli::by_hand()),
        };
    }
    if machine::waits(words.iter().map(|word| word.as_bytes())) {
        child::die_with_parent(parent).trying("end with the parent process")?;
    }
    match words {
        [worker, words @ ..] if worker.as_bytes() == machine::WORKER.as_bytes() => {
            *args = Args::new(words.to_vec(), args.umask);
            applets::run_worker(args)
        }
        [page] if page.as_bytes() == machine::PAGE => {
            let mut ending = Signals::catch(&[SIGTERM]).trying("catch signals")?;
            page::feed(&StateDir::open_or_make()?, &mut ending)
        }
        words => {
            *args = Args::new(words.to_vec(), args.umask);
            applets::run_verb(args)
        }
    }
}
