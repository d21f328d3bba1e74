//! wait - wait until a condition is met, and print which
//! Task: Wait, 1
//!
//! Usage: nbs-ts wait [options] SESSION...
//!        nbs-ts wait [options] --all|--name=PART
//!
//! Prints a line `HANDLE<tab>CONDITION<tab>DETAIL` for each session. CONDITION is
//! the option's name. DETAIL is the text found, the exit code, the terminal's
//! state (prompt, line, secret, raw), the outcome (done, failed, idle), or the
//! seconds without output or change. `wait` waits for every SESSION. It exits 1
//! if --fail matches, or if a session (with --any: every session) ends before its
//! condition is met.
//!
//! `wait` searches what was printed since the last input, without escape sequences
//! or the echo of that input, and with \n for \r\n. A regex must match within a
//! line, which may be unfinished. Idle time before the call does not count.
//!
//! Use --complete for a shell command, and --pattern for one that keeps running (a
//! server). Use --input for a question or a REPL's answer, --stable before a
//! `screen`, and --exit for a one-shot. Use --idle if nothing else works, and
//! --fail with any of them. `run` and `ask` send and wait in one call.
//!
//! With ssh, nbs cannot see whether the remote program is reading input. It then
//! counts as waiting only if the last line looks like a prompt or a question.
//!
//! Options:
//!   --pattern=TEXT    TEXT is printed (repeatable)
//!   --regex=REGEX     REGEX matches what is printed (repeatable)
//!   --fail=TEXT       TEXT is printed: fail (repeatable)
//!   --complete        the last command typed has ended, even before this call; or
//!                     a one-shot has ended
//!   --idle=TIME       nothing is printed for TIME
//!   --stable=TIME     the screen is unchanged for TIME, whatever is printed (a
//!                     spinner changes it, a cursor movement does not)
//!   --input           the program waits for input, and has read what was typed
//!   --waiting         `list --long` shows the session as waiting: it reports
//!                     that, or a program waits for a line, a secret or (after a
//!                     second) keys
//!   --done            the program has finished its work on the last input:
//!                     done, failed or idle again
//!   --exit            the session ends
//!   --offset=N        search the output from byte N onward
//!   --all             all live sessions
//!   --name=PART       all live sessions with this in their name
//!   --on=MACHINE      with --all or --name: those on that machine (repeatable;
//!                     'all': this and all known machines; default: $NBS_TS_ON)
//!   --any             wait for any one session, not all
//!   --timeout=TIME    give up after TIME (default: 60)
//!   --json            print objects: handle, condition, detail, offset (in the
//!                     output); for exit also ended_by, timed_out and signal
//!
//! Example:
//!   nbs-ts wait "$h" --pattern='listening on' --fail='error:' --timeout=30

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Reason, Result, Trying},
    session::{Name, Notice, SessionDir, StateDir, Target},
    sorted::Set,
    sys::{child, deadline::Deadline},
    ts::{
        conditions::{self, Conditions, Met, WatchEnd, WatchStart},
        output,
    },
};

/// For this many sessions a failed wait prints the evidence.
const MOST_TOLD: usize = 10;

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (conditions, timeout) = (Conditions::given(call)?, call.value("timeout", cli::time)?);
    let (mut targets, any) = (call.sessions()?, call.has("any"));
    let (pattern, offset) = (call.optional("name", cli::text)?, call.optional("offset", cli::number)?);
    let picks = call.has("all") || pattern.is_some();
    if conditions.are_none() && !conditions.can_fail() {
        return Err(Failure::bad_args(
            "missing a condition; try --pattern, --regex, --fail, --complete, --idle, --stable, --input, \
             --waiting, --done or --exit"
                .into(),
        ));
    }

    let deadline = Deadline::after(timeout);
    let state_dir = StateDir::open()?;
    if picks {
        targets = picked(&state_dir, pattern.as_deref())?;
    }
    if targets.len() > 1 {
        // Each takes a few, and a login has 1,024.
        child::raise_open_files().trying("open as many files as there are sessions")?;
    }
    let within = if targets.len() > 1 { SessionDir::within_with_others } else { SessionDir::within };
    let (mut sessions, mut known) = (Vec::new(), Set::new());
    for target in &targets {
        match state_dir.session(target) {
            // It was removed since it was picked.
            Err(failure) if failure.is(Reason::NotFound) && picks => {}
            // A call on that machine waits for it.
            Ok(session) if picks && session.elsewhere().is_some() => {}
            other => {
                let session = other?;
                // A session that is named twice counts once.
                if known.insert(session.handle().clone()) {
                    sessions.push(within(session, deadline));
                }
            }
        }
    }
    if sessions.is_empty() {
        return Err(nothing_to_wait_for());
    }
    let from = WatchStart { offset, completion: None };
    let mut watches = conditions::begin_all(&sessions, &conditions, from)?;
    let over = conditions::until(&mut watches, any, deadline)?;
    let mut failed = false;
    for (session, watch) in sessions.iter().zip(&watches) {
        if let Some(met) = &watch.met {
            failed |= met.is_failure();
            print(&state_dir, session, met, watch.lost, call.json())?;
            output::warn_of_lost(watch.lost, call.json());
        }
    }
    match over {
        WatchEnd::Met if failed => Err(Failure::quiet()),
        WatchEnd::Met => Ok(()),
        WatchEnd::Ended(index) => Err(watches[index].in_vain(&over, timeout)),
        WatchEnd::TimedOut => {
            let mut late = watches.iter().filter(|watch| watch.met.is_none());
            let told = late.by_ref().take(MOST_TOLD).map(|watch| watch.in_vain(&over, timeout));
            let mut told: Vec<Failure> = told.collect();
            let others = late.count();
            if others > 0 {
                told.push(Failure::timed_out(format!("and the same for {others} more sessions")));
            }
            Failure::all(told)
        }
    }
}

/// The live sessions, with this in their names if it is given.
fn picked(state_dir: &StateDir, pattern: Option<&str>) -> Result<Vec<Target>> {
    let found = state_dir.glances(&|name| Name::is_wanted(name, pattern))?;
    let alive = found.into_iter().filter(|glance| glance.alive);
    let targets: Vec<Target> = alive.map(|glance| Target::Handle(glance.handle)).collect();
    if targets.is_empty() { Err(nothing_to_wait_for()) } else { Ok(targets) }
}

fn nothing_to_wait_for() -> Failure {
    Failure::not_found("there is no live session to wait for; try 'nbs-ts list'".into())
}

fn print(state_dir: &StateDir, session: &SessionDir, met: &Met, lost: u64, json: bool) -> Result<()> {
    let handle = session.handle().as_str();
    if !json {
        return cli::print(format!("{handle}\t{}\t{}\n", met.condition, met.detail));
    }
    let object = Object::new()
        .text("handle", handle)
        .text("condition", met.condition)
        .text("detail", &met.detail)
        .number("offset", met.offset);
    let object = match met.condition {
        "exit" => Notice::describe(state_dir.end_of(session).as_ref(), object),
        _ => object,
    };
    cli::print(object.count_if_any("lost", lost).line())
}
