//! kill - end sessions and remove them
//! Task: End, 1
//!
//! Usage: nbs-ts kill [options] SESSION...
//!        nbs-ts kill [options] --all|--name=PART
//!
//! Ends all processes of a session, including background jobs, stopped jobs, and
//! those that left it by setsid or a double fork. Sends SIGTERM first, then
//! SIGKILL to those that remain. Returns as soon as all are gone. With --all or
//! --name, prints a line for each session: handle, tab, name or `-`.
//!
//! Options:
//!   --grace=TIME      send SIGKILL this long after SIGTERM (default: 100ms)
//!   --all             all sessions
//!   --name=PART       all sessions with this in their name, dead ones too
//!   --on=MACHINE      with --all or --name: those on that machine (repeatable;
//!                     'all': this and all known machines; default: $NBS_TS_ON)
//!   --keep            do not remove them, so that output can still be read
//!   --if-exists       ignore a session that does not exist, or a PART that
//!                     matches none
//!   --json            print an object for each session ended
//!
//! Example:
//!   nbs-ts kill "$h"

use std::time::Duration;

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Reason, Result},
    session::{self, EndedBy, Handle, Name, StateDir, Target},
    sorted::Set,
    terminal::text,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let by_itself = |target| (target, None);
    let (mut targets, all) =
        (call.sessions()?.into_iter().map(by_itself).collect::<Vec<_>>(), call.has("all"));
    let (pattern, grace) = (call.optional("name", cli::text)?, call.value("grace", cli::time)?);
    let (keep, if_exists) = (call.has("keep"), call.has("if-exists"));

    let state_dir = StateDir::open()?;
    let is_picked = all || pattern.is_some();
    let picked = |name: Option<&Name>| all || Name::is_wanted(name, pattern.as_deref());
    if is_picked {
        let found = state_dir.glances(&picked)?;
        if let (Some(pattern), true) = (&pattern, found.is_empty() && !if_exists) {
            let message = format!("no session has '{}' in its name", text::escaped(pattern.as_bytes()));
            return Err(Failure::not_found(message));
        }
        targets.extend(found.into_iter().map(|glance| (Target::Handle(glance.handle), glance.name)));
    }
    // We resolve all names before any session ends, and end each session once.
    let (mut handles, mut seen, mut failures) = (Vec::new(), Set::new(), Vec::new());
    for (target, name) in targets {
        let handle = match target {
            Target::Handle(handle) => Ok(handle),
            Target::Name(name) => state_dir.newest(&name),
        };
        match handle {
            Ok(handle) if seen.insert(handle.clone()) => handles.push((handle, name)),
            Err(failure) if failure.is(Reason::NotFound) && if_exists => {}
            Ok(_) => {}
            Err(failure) => failures.push(failure),
        }
    }
    let borne = if handles.len() > 1 { Some(session::borne()?) } else { None };
    for (handle, name) in handles {
        match kill(&state_dir, handle, grace, keep, borne.as_ref()) {
            Ok(ended) if call.json() => cli::print(ended.object())?,
            // Another call may have removed it by now, and its name with it.
            Ok(ended) if is_picked => cli::print(ended.line(name.as_ref()))?,
            Ok(_) => {}
            Err(failure) if failure.is(Reason::NotFound) && (if_exists || is_picked) => {}
            Err(failure) => failures.push(failure),
        }
    }
    Failure::all(failures)
}

/// `borne`: the sessions that may have processes, if that is known.
fn kill(
    state_dir: &StateDir,
    handle: Handle,
    grace: Duration,
    keep: bool,
    borne: Option<&Set<Handle>>,
) -> Result<Killed> {
    let session = state_dir.session(&Target::Handle(handle))?;
    let mut cause = EndedBy::Unknown;
    if session.is_alive()? || borne.is_none_or(|borne| borne.contains(session.handle())) {
        cause = session::end_wholly(&session, grace, EndedBy::Kill)?;
    }
    // An unreadable session is removed as well.
    let code = session.exit_code().ok().flatten().map(i64::from);
    if !keep {
        state_dir.remove(session.handle(), cause)?;
    }
    Ok(Killed { handle: session.handle().clone(), code })
}

/// A session that has been ended.
struct Killed {
    handle: Handle,
    code: Option<i64>,
}

impl Killed {
    fn object(&self) -> String {
        Object::new().text("handle", self.handle.as_str()).number_or_null("exit_code", self.code).line()
    }

    fn line(&self, name: Option<&Name>) -> String {
        format!("{}\t{}\n", self.handle, name.map_or("-", Name::as_str))
    }
}
