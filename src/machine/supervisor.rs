//! Runs a program for a call from another machine, as its `nbs-call`, and ends all that it has started.
//!
//! The program has our standard streams, and we keep none of them: so it can close each of them. We
//! adopt its orphans, so that none of its processes gets out of sight. They end when the program has
//! ended, when the far side wants it (SIGUSR1), and when the far side has ended. Sessions, and the
//! other processes of ours that outlive a call, go on.

use std::{ffi::OsStr, fs::File, io, os::unix::process::CommandExt, process::Command};

use crate::{
    machine::{self, FAR_ROLE},
    outcome::{Failure, Result, Trying},
    session::{BRIDGE, KEEPER, MONITOR, RELAY, end_found},
    sys::{
        child::{self, ExitStatus},
        deadline::Deadline,
        files,
        poll::PollSet,
        processes::{self, PidFd, Process},
        signals::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGUSR1, Signals},
    },
};

/// These go on when what has started them ends. A name proves nothing, but need not: a program that wants
/// to go on can create a session.
const DAEMONS: [&str; 7] = [RELAY, KEEPER, MONITOR, BRIDGE, FAR_ROLE, "nbs-ts-helper", "nbs-page"];

/// Signals that are for the program.
const PASSED: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// No program of that name.
const NOT_FOUND: u8 = 127;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Child,
    End,
    Passed(usize),
}

/// Runs a line of `sh` in the home directory; returns its exit code, as a shell has it.
pub(crate) fn run(far: u32, line: &OsStr) -> Result<()> {
    let what = "run a program here";
    child::adopt_orphans().trying(what)?;
    let far = PidFd::open(far).trying(what)?;
    let mut children = Signals::catch(&[SIGCHLD]).trying(what)?;
    let mut ending = Signals::catch(&[SIGUSR1]).trying(what)?;
    let mut passed = PASSED
        .iter()
        .map(|signal| Ok((*signal, Signals::catch(&[*signal])?)))
        .collect::<io::Result<Vec<_>>>()
        .trying(what)?;
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).env_remove(machine::MACHINE_ENV).process_group(0);
    let program = files::with_callers_umask(|| command.spawn())
        .map_err(|error| Failure::status(NOT_FOUND, "failed", Some(format!("cannot run sh: {error}"))))?;
    let null = File::open("/dev/null").trying(what)?;
    child::point_standard_streams_at(&null).trying(what)?;
    let mut result = None;
    // Without its number, the far side has ended already.
    let mut is_over = far.is_none();
    while result.is_none() && !is_over {
        let mut poll_set = PollSet::new();
        poll_set.readable(&children, Event::Child);
        poll_set.readable(&ending, Event::End);
        if let Some(far) = &far {
            poll_set.readable(far, Event::End);
        }
        for (index, (_, signals)) in passed.iter().enumerate() {
            poll_set.readable(signals, Event::Passed(index));
        }
        for event in poll_set.wait(Deadline::NEVER).trying(what)? {
            match event {
                Event::Child => {
                    children.take();
                    result = collect(program.id()).trying(what)?.or(result);
                }
                Event::End => is_over = true,
                Event::Passed(index) => {
                    let (signal, caught) = &mut passed[index];
                    caught.take();
                    if result.is_none() {
                        // If it has already ended, the result is the same.
                        let _ = child::signal_group(&program, *signal);
                        if *signal != SIGINT {
                            // A stopped program gets it only when it continues: timeout(1) sends this, too.
                            let _ = child::signal_group(&program, SIGCONT);
                        }
                    }
                }
            }
        }
    }
    ending.take();
    // A process that remains is one that we may not signal.
    end_found(&below_us).trying("end what the program has started")?;
    match result.map_or(255, ExitStatus::number) {
        0 => Ok(()),
        code => Err(Failure::status(code as u8, "failed", None)),
    }
}

/// Reaps all children that have ended; returns what became of the program, if it is one of them.
fn collect(program: u32) -> io::Result<Option<ExitStatus>> {
    let mut found = None;
    while let Some((pid, status)) = child::collect()? {
        if pid == program {
            found = Some(status);
        }
    }
    Ok(found)
}

/// All processes that descend from us, except daemons of ours and what those have started.
fn below_us() -> io::Result<Vec<Process>> {
    processes::descendants(std::process::id(), &|process| !DAEMONS.contains(&&*process.name))
}
