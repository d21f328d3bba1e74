//! create - start a session and print its handle
//! Task: Start, 1
//!
//! Usage: nbs-ts create [options] COMMAND...
//!
//! A bash, zsh, fish or POSIX shell (`bash -l`, `sh`) without a script or -c is
//! interactive and reports its commands to `run` and `wait-complete`. Any other
//! command is a one-shot: `bash -c` runs it once, or `sh -c` if there is no bash.
//! The words of COMMAND are joined by spaces; options end where it begins. When
//! the call returns, `send`, `wait-complete` and `kill` already work.
//!
//! Options:
//!   --name=NAME       a name: 1 to 64 of a-z A-Z 0-9 _ . -
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
//!   --json            print an object with the handle
//!
//! Example:
//!   h=$(nbs-ts create --name=build bash)

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::Result,
    ts::create_options::{self, CreateOptions},
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let options = CreateOptions::given(call, None)?;

    let handle = options.start()?;
    let printed = if call.json() {
        cli::print(Object::new().text("handle", handle.as_str()).line())
    } else {
        cli::print(format!("{handle}\n"))
    };
    if printed.is_err() {
        create_options::withdraw(&handle)?;
    }
    printed
}
