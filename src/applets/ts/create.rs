//! create - start a session and print its handle
//!
//! Usage: nbs-ts create [options] COMMAND...
//!
//! A shell with plain options (`bash`, `/bin/bash -l`, `zsh`, `fish`, `sh`) is an
//! interactive one, whose commands are reported to `run` and `wait-complete`;
//! anything else is run once, by `bash -c`, or by `sh -c` where there is no bash.
//! The words of COMMAND are joined by spaces; options end where it begins. When
//! the call returns, `send`, `wait-complete` and `kill` work at once.
//!
//! Options:
//!   --name=NAME       a name for it: 1 to 64 of a-z A-Z 0-9 _ . -
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
//!   --json            print an object with the handle
//!
//! Example:
//!   h=$(nbs-ts create --name=build bash)

use crate::{
    cli::{self, Args},
    json::Object,
    outcome::Result,
    ts::create_options::{self, CreateOptions},
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let options = CreateOptions::parse(args, None)?;

    let handle = options.start()?;
    let printed = if args.json() {
        cli::print(Object::new().text("handle", handle.as_str()).line())
    } else {
        cli::print(format!("{handle}\n"))
    };
    if printed.is_err() {
        create_options::withdraw(&handle)?;
    }
    printed
}
