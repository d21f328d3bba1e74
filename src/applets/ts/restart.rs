//! restart - start the command of a dead session again
//! Task: Start, 3
//!
//! Usage: nbs-ts restart [--no-helper|--require-helper] [options] SESSION
//!        nbs-ts restart --boot [options]
//!
//! Starts a session with the same command, directory, name, size and settings
//! (except --owner), and prints its handle. The new session gets its environment
//! as with `create`: nbs never stores environment values. The dead session stays,
//! and its `status --json` names the new one (restarted_as). While that one is
//! alive, `restart` prints its handle; if it has ended, `restart` restarts it.
//! Concurrent calls start one session, and all print its handle.
//!
//! With --boot: restarts all sessions that a reboot ended, by a shutdown or a
//! power cut, and that were not restarted yet. To do so at each boot, give cron
//! the line `@reboot nbs-ts restart --boot`; `help sessions` shows a systemd user
//! unit.
//!
//! Options:
//!   --boot            all sessions that a reboot ended
//!   --env=KEY=VALUE   set an environment variable (repeatable)
//!   --no-helper       start it in this call's environment, without the helper
//!   --require-helper  start it through nbs-ts-helper, or fail
//!   --json            print an object for each: handle, and restarted (the dead
//!                     session's handle)
//!
//! Example:
//!   nbs-ts restart @build

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Reason, Result},
    session::{Handle, SessionDir, StateDir, Target},
    sorted::Set,
    ts::create_options::{self, CreateOptions},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let variables = call.values("env", create_options::variable)?;
    let via = create_options::via(call)?;

    let state_dir = StateDir::open()?;
    let send = |handle: &Handle, session: &SessionDir| {
        cli::print(match call.json() {
            true => {
                let object = Object::new().text("handle", handle.as_str());
                object.text("restarted", session.handle().as_str()).line()
            }
            false => format!("{handle}\n"),
        })
    };
    let restart = |session: &SessionDir| {
        let handle = CreateOptions::again(session, variables.clone(), via, call.umask)?.start()?;
        let noted = session.note_restarted_as(&handle);
        // We print the handle first, so that the caller has it even if a later step fails.
        send(&handle, session)?;
        noted
    };
    if !call.has("boot") {
        let mut session = state_dir.session(&call.session()?)?;
        if session.is_alive()? {
            let handle = session.handle();
            return Err(Failure::failed(format!("cannot restart session '{handle}': it is alive")));
        }
        let _locked = state_dir.lock_ensuring()?;
        let mut seen = Set::new();
        while let Some(next) = session.restarted_as().filter(|next| seen.insert(next.clone())) {
            match state_dir.session(&Target::Handle(next)) {
                Err(failure) if failure.is(Reason::NotFound) => break,
                Ok(next) if next.is_alive()? => return send(next.handle(), &session),
                next => session = next?,
            }
        }
        return restart(&session);
    }
    // Two at a time would each start all of them.
    let _locked = state_dir.lock_ensuring()?;
    let restarted = state_dir.ended_by_reboot()?.iter().map(restart).filter_map(Result::err).collect();
    Failure::all(restarted)
}
