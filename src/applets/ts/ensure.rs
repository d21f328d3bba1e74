//! ensure - print the handle of the live session of a name, or start it
//!
//! Usage: nbs-ts ensure --name=NAME [options] [COMMAND...]
//!
//! Where a session of that name lives, its handle is printed (the newest one's,
//! as @NAME has it), and the other options are not looked at, but --write-root:
//! a session that may write elsewhere is an error. Where none lives, one is
//! started as `create` would, with `bash` as the default command, or `sh` where
//! there is no bash. However many callers do this at once, there will be one
//! session, and all get its handle.
//!
//! Options:
//!   --name=NAME       the name: 1 to 64 of a-z A-Z 0-9 _ . -
//!   --cwd=DIR         the folder to start in (default: the caller's)
//!   --inherit-cwd=SESSION
//!                     start where that session is now
//!   --size=COLSxROWS  the terminal's size (default: 80x24)
//!   --env=KEY=VALUE   an environment variable for it; may be repeated
//!   --title=TEXT      what it is, for whoever lists sessions or hears of its end
//!   --description=TEXT
//!                     more about that
//!   --parent=TEXT     who asked for it
//!   --timeout=TIME    end it so long after its start
//!   --idle-timeout=TIME
//!                     end it when nothing was printed or typed for so long
//!   --owner=PID       end it when that process ends
//!   --max-log=SIZE    keep its log on disk so small: the oldest output goes
//!   --record          note when what is printed, for `cast`
//!   --write-root=DIR  let its processes write below DIR only, and to the terminal
//!                     and $TMPDIR, a folder of its own; may be repeated
//!   --no-helper       start it in this call's environment, and ask no helper
//!   --require-helper  start it through nbs-ts-helper, or not at all
//!   --pager           leave the caller's pagers and credential prompts on
//!   --on=MACHINE      on that machine; its name begins the handle (where this is
//!                     not given: on $NBS_TS_ON, else here)
//!   --json            print an object: handle, name, created
//!
//! Example:
//!   h=$(nbs-ts ensure --name=build)

use crate::{
    cli::{self, Args},
    json::Object,
    outcome::{Failure, Result},
    session::{SessionSpec, StateDir, Target},
    ts::create_options::CreateOptions,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let options = CreateOptions::parse(args, Some(SessionSpec::shell()))?;
    let name = options.name.clone().ok_or_else(|| Failure::bad_args("missing --name=NAME".into()))?;

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

    if args.json() {
        let object = Object::new().text("handle", handle.as_str()).text("name", name.as_str());
        return cli::print(object.truth("created", created).line());
    }
    cli::print(format!("{handle}\n"))
}
