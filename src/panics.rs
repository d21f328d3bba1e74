//! The message of a panic, which is always an error of nbs.
//!
//! A panic ends the process at once (`panic = "abort"`). Before that, one line says what happened, where, and
//! what to report: on standard error, and in the state directory, because a relay's standard error goes
//! nowhere. `doctor` shows the last one.

use std::{ffi::OsStr, io::Write, panic, path::Path, time::SystemTime};

use crate::{
    machine::VERSION,
    session::{PANICS, StateDir},
    sys::{clock, files::Folder},
    terminal::text,
};

/// Installs the hook that says it; `called_as` is the name of this process (`argv[0]`).
pub(crate) fn install_hook(called_as: &OsStr) {
    let name = Path::new(called_as).file_name().unwrap_or(called_as).to_string_lossy().into_owned();
    panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("panic");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let line = line(&name, &place, message);
        // If standard error is gone, the file is left; if that fails too, the signal is.
        let _ = std::io::stderr().write_all(line.as_bytes());
        if let Ok(state_dir) = StateDir::open() {
            let _ = keep(state_dir.path(), &line);
        }
    }));
}

fn line(name: &str, place: &str, message: &str) -> String {
    let what = text::escaped(message.as_bytes());
    format!("{name}: internal error at {place}: {what}; please report this line (nbs {VERSION})\n")
}

/// Appends the line to the file of panics, with the time.
fn keep(state_dir: &Path, line: &str) -> std::io::Result<()> {
    let folder = Folder::open(state_dir)?;
    let now = clock::utc(SystemTime::now());
    folder.open_or_make_appending(PANICS)?.write_all(format!("[{now}] {line}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_line_that_says_where_and_what_to_report() {
        let line = line("nbs-relay", "src/relay.rs:7:3", "index\nout of bounds");
        let expected = "nbs-relay: internal error at src/relay.rs:7:3: index\\nout of bounds; please report";
        assert!(line.starts_with(expected), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
    }
}
