//! ensure - print the handle of the live session with a name, or start it
//! Task: Start, 2
//!
//! Usage: nbs-ts ensure --name=NAME [options] [COMMAND...]
//!
//! If live sessions have the name, prints the handle of the newest one and ignores
//! the other options. If those confine the session and the live one may do more,
//! `ensure` fails. If none is alive, it starts one as `create` would. The default
//! command is `bash`, or `sh` if there is no bash. Concurrent calls start one
//! session, and all print its handle.
//!
//! Options:
//!   --name=NAME       the name: 1 to 64 of a-z A-Z 0-9 _ . -
//!   --cwd=DIR         the directory to start in (default: the caller's)
//!   --inherit-cwd=SESSION
//!                     start in the current directory of that session
//!   --size=COLSxROWS  the terminal's size (default: 80x24)
//!   --env=KEY=VALUE   set an environment variable (repeatable)
//!   --title=TEXT      a title, for `list --json` and events
//!   --description=TEXT
//!                     a description, shown in the same places
//!   --parent=TEXT     who requested it, shown there too
//!   --timeout=TIME    end the session this long after it starts
//!   --idle-timeout=TIME
//!                     end it after TIME without output or input
//!   --owner=PID       end it when that process ends
//!   --max-log=SIZE    limit the log on disk; the oldest output goes first
//!   --record          record the times of the output, for `cast`
//!   --write-root=DIR  let its processes write only under DIR, to the terminal and
//!                     in $TMPDIR, a private directory (repeatable)
//!   --read-root=DIR   let its processes read only under DIR, the write roots and
//!                     the system's directories, and write only under the write
//!                     roots and in $TMPDIR (repeatable; 'none': no DIR)
//!   --no-network      allow no sockets except socket pairs
//!   --connect=PORT    with --no-network: allow TCP connections to PORT
//!                     (repeatable)
//!   --clear-env       keep only HOME, PATH, TERM, LANG, USER, SHELL, TMPDIR,
//!                     what --env sets, and what nbs sets
//!   --hide-env=GLOB   remove variables with matching names, except those of --env
//!                     (repeatable)
//!   --memory=SIZE     end it when its processes together use more than SIZE
//!   --tasks=N         limit the total number of processes and threads
//!   --cpu=PERCENT     limit its processor time; 100 is one processor
//!   --profile=NAME    add the options from profiles/NAME in the state directory,
//!                     or from the built-in profile 'agent' ('nbs help limits');
//!                     if not given: $NBS_TS_PROFILE
//!   --no-helper       start it in this call's environment, without the helper
//!   --require-helper  start it through nbs-ts-helper, or fail
//!   --pager           do not disable pagers and credential prompts
//!   --on=MACHINE      start it on that machine, whose name prefixes the handle;
//!                     if not given: on $NBS_TS_ON, else here
//!   --json            print an object: handle, name, created
//!
//! Example:
//!   h=$(nbs-ts ensure --name=build)

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::Result,
    session::{SessionSpec, StateDir, Target},
    ts::create_options::CreateOptions,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let options = CreateOptions::given(call, Some(SessionSpec::shell()))?;
    let name = call.value("name", cli::name)?;

    let state_dir = StateDir::open_or_make()?;
    // Closed on exec: the relay of a new session does not hold it.
    let lock = state_dir.lock_ensuring()?;
    let living = state_dir.newest_live(&name)?;
    let created = living.is_none();
    if let Some(living) = &living {
        let session = state_dir.session(&Target::Handle(living.clone()))?;
        session.check_is_here()?;
        options.check_confines_as_much(&session)?;
    }
    let handle = living.map_or_else(|| options.start(), Ok)?;
    drop(lock);

    if call.json() {
        let object = Object::new().text("handle", handle.as_str()).text("name", name.as_str());
        return cli::print(object.truth("created", created).line());
    }
    cli::print(format!("{handle}\n"))
}
