//! Runs a program for a call from another machine, as its `nbs-call`, and ends all that it has started.
//!
//! The program has our standard streams, and we keep none of them: so it can close each of them. We
//! adopt its orphans, so that none of its processes gets out of sight. They end when the program has
//! ended, when the far side wants it (SIGUSR1), and when the far side has ended. Sessions, and the
//! other processes of ours that outlive a call, go on.

use std::{ffi::OsStr, fs::File, io, os::unix::process::CommandExt, process::Command, time::Duration};

use crate::{
    machine::{self, FAR_ROLE},
    outcome::{Failure, Result, Trying},
    session::{BRIDGE, GRACE, KEEPER, MONITOR, RELAY},
    sys::{
        child::{self, ExitStatus},
        deadline::Deadline,
        files,
        poll::PollSet,
        processes::{self, PidFd, Process},
        signals::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGUSR1, Signals},
    },
};

/// These go on when what has started them ends. A name proves nothing, but need not: a program that wants
/// to go on can create a session.
const DAEMONS: [&str; 7] = [RELAY, KEEPER, MONITOR, BRIDGE, FAR_ROLE, "nbs-ts-helper", "nbs-page"];

/// Signals that are for the program.
const PASSED: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// How long killed processes may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

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
    end_all(&children).trying("end what the program has started")?;
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

/// SIGTERM to all processes below us, SIGKILL to those that are left after a moment.
fn end_all(children: &Signals) -> io::Result<()> {
    let (grace, patience) = (Deadline::after(GRACE), Deadline::after(GRACE + KILL_TIMEOUT));
    let mut asked: Vec<u32> = Vec::new();
    loop {
        collect(0)?;
        let left = below_us()?;
        if left.is_empty() || patience.has_passed() {
            return Ok(());
        }
        let mut held = Vec::new();
        for process in &left {
            let Some(pidfd) = process.hold()? else { continue };
            // A process that we may not signal is only waited for.
            if grace.has_passed() {
                let _ = pidfd.signal(SIGKILL);
            } else if !asked.contains(&process.pid) {
                asked.push(process.pid);
                let _ = pidfd.signal(SIGTERM);
                let _ = pidfd.signal(SIGCONT);
            }
            held.push(pidfd);
        }
        let mut poll_set = PollSet::new();
        poll_set.readable(children, ());
        held.iter().for_each(|pidfd| poll_set.readable(pidfd, ()));
        poll_set.wait(if grace.has_passed() { patience } else { grace })?;
    }
}

/// All processes that descend from us, except daemons of ours and what those have started.
fn below_us() -> io::Result<Vec<Process>> {
    let ends = |process: &Process| !DAEMONS.contains(&&*process.name);
    let mut found = processes::descendants(std::process::id(), &ends)?;
    found.retain(|process| !process.has_ended());
    Ok(found)
}
