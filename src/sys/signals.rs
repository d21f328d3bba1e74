//! Signals: as something to poll, and as errors.

use std::{
    io::{self, Read},
    os::unix::net::UnixStream,
};

use crate::sys::processes::Process;
pub(crate) use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGWINCH, SIGXFSZ,
};

/// A set of signals that make a descriptor readable instead of ending us.
pub(crate) struct Signals(UnixStream);

as_fd!(Signals, 0);

impl Signals {
    pub(crate) fn catch(signals: &[i32]) -> io::Result<Signals> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        for signal in signals {
            signal_hook::low_level::pipe::register(*signal, writer.try_clone()?)?;
        }
        Ok(Signals(reader))
    }

    /// Clears the caught signals, and returns whether there were any.
    pub(crate) fn take(&mut self) -> bool {
        let mut noted = [0; 64];
        let mut any = false;
        while matches!(self.0.read(&mut noted), Ok(count) if count > 0) {
            any = true;
        }
        any
    }
}

/// The signals that end us. SIGHUP is not among them if our caller ignores it (nohup).
pub(crate) fn to_end() -> &'static [i32] {
    let deaf = Process::read(std::process::id()).is_some_and(|process| process.ignores(SIGHUP));
    if deaf { &[SIGTERM, SIGINT] } else { &[SIGTERM, SIGINT, SIGHUP] }
}

/// Catches each of the signals that end us, but for those that our caller ignores, as a shell does for a
/// command in its background.
pub(crate) fn catch_those_to_end() -> io::Result<Vec<(i32, Signals)>> {
    let ours = Process::read(std::process::id());
    let is_heeded = |signal: &&i32| !ours.as_ref().is_some_and(|ours| ours.ignores(**signal));
    to_end().iter().filter(is_heeded).map(|signal| Ok((*signal, Signals::catch(&[*signal])?))).collect()
}

/// Catches a signal and does nothing, so that the system call returns an error instead; to be called last: a
/// [`Signals`] catches it no longer.
pub(crate) fn disregard(signal: i32) -> io::Result<()> {
    extern "C" fn nothing(_: i32) {}
    handle(signal, nothing as *const () as libc::sighandler_t)
}

/// Ignores a signal, as the programs do that we start (exec(3)), but for those that are started by std.
pub(crate) fn ignore(signal: i32) {
    // Only a signal that cannot be ignored is an error.
    let _ = handle(signal, libc::SIG_IGN);
}

#[expect(unsafe_code, reason = "no safe call sets a handler without a table of all")]
fn handle(signal: i32, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: the handler is none of Rust's, or does nothing.
    if unsafe { libc::signal(signal, handler) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Ends the process by the default action of that signal.
pub(crate) fn end_as_by(signal: i32) {
    // If even that fails, the exit code that follows must do.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
}

/// The name of a signal, as `SIGKILL`; a real-time one by its number.
pub(crate) fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| format!("SIG{signal}"), str::to_owned)
}
