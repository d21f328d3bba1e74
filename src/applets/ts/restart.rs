//! restart - start again what a dead session ran
//!
//! Usage: nbs-ts restart [--no-helper|--require-helper] [options] SESSION
//!        nbs-ts restart --boot [options]
//!
//! A new session, whose handle it prints: the same command in the same folder,
//! with the same name, size and settings (but --owner). Its environment is that
//! of this call, for no value of an environment is ever kept. The dead one
//! stays; its `status --json` names the new one (restarted_as). Where that lives,
//! its handle is printed, and where it has ended, it is restarted: however many
//! callers do this at once, there will be one session, and all get its handle.
//!
//! With --boot: all that a reboot ended, by a shutdown or by a power cut, and
//! nobody has restarted. So that it is called at each start, a line for cron is
//! `@reboot nbs-ts restart --boot`, and a systemd user unit is shown in
//! `help sessions`.
//!
//! Options:
//!   --boot            all that a reboot ended
//!   --env=KEY=VALUE   set this variable (repeatable)
//!   --no-helper       start it here, though a helper is running
//!   --require-helper  fail where no helper is running
//!   --json            print an object for each: handle, and restarted, the dead
//!                     one's
//!
//! Example:
//!   nbs-ts restart @build

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Failure, Result},
    session::{Handle, SessionDir, StateDir, Target},
    sorted::Set,
    ts::create_options::{self, CreateOptions},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let variables = call.values("env", create_options::variable)?;
    let via = create_options::via(call)?;

    let state_dir = StateDir::open()?;
    let tell = |handle: &Handle, session: &SessionDir| {
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
        // Who has the handle can look after it, whatever else goes wrong.
        tell(&handle, session)?;
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
                Err(Failure::NotFound(_)) => break,
                Ok(next) if next.is_alive()? => return tell(next.handle(), &session),
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
