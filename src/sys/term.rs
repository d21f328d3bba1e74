//! The terminal that a person sits at, on our standard input and output.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
};

use rustix::{
    fs::OFlags,
    stdio::{stdin, stdout},
    termios::{self, OptionalActions, Termios},
};

use crate::sys::pty::Size;

/// How the terminal was, to be put back.
pub(crate) struct Before(Termios);

impl Before {
    /// `None` where standard input or output is no terminal.
    pub(crate) fn look() -> io::Result<Option<Before>> {
        if !termios::isatty(stdin()) || !termios::isatty(stdout()) {
            return Ok(None);
        }
        Ok(Some(Before(termios::tcgetattr(stdin())?)))
    }

    /// From now on every key comes as it is, and nothing is echoed.
    pub(crate) fn make_raw(&self) -> io::Result<()> {
        Ok(termios::tcsetattr(stdin(), OptionalActions::Now, &self.raw())?)
    }

    fn raw(&self) -> Termios {
        let mut raw = self.0.clone();
        raw.make_raw();
        raw
    }

    /// Puts it back; not where it is somebody else's by now (a shell's that has us in
    /// the background), which has modes of its own.
    pub(crate) fn put_back(&self) -> io::Result<()> {
        if is_anothers() {
            return Ok(());
        }
        Ok(termios::tcsetattr(stdin(), OptionalActions::Now, &self.0)?)
    }

    /// The same for who is about to end: also where it is somebody else's by now who has
    /// left it in our modes, as dash does when it takes it from a call that was killed.
    pub(crate) fn give_back(&self) -> io::Result<()> {
        let modes = |of: &Termios| (of.input_modes, of.output_modes, of.local_modes);
        if is_anothers() && modes(&termios::tcgetattr(stdin())?) != modes(&self.raw()) {
            return Ok(());
        }
        // Who changes its own terminal in the background is stopped (tcsetattr(3p)), and
        // there we may be at any moment: so it is no longer ours.
        rustix::process::setsid()?;
        Ok(termios::tcsetattr(stdin(), OptionalActions::Now, &self.0)?)
    }
}

/// Has another process group than ours the terminal?
fn is_anothers() -> bool {
    termios::tcgetpgrp(stdin()).is_ok_and(|group| group != rustix::process::getpgrp())
}

/// `None` where nobody has told the terminal.
pub(crate) fn size() -> io::Result<Option<Size>> {
    let size = termios::tcgetwinsize(stdout())?;
    let known = size.ws_col > 0 && size.ws_row > 0;
    Ok(known.then_some(Size { cols: size.ws_col, rows: size.ws_row }))
}

/// Standard output, such that no write waits. It is opened anew, for whether writes
/// wait would else change for everybody who has it.
pub(crate) fn output() -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let opened = OpenOptions::new().write(true).custom_flags(flags).open("/proc/self/fd/1");
    // Of a terminal that is another user's (su) we have but the descriptor.
    opened.or_else(|_| Ok(File::from(stdout().as_fd().try_clone_to_owned()?)))
}

/// Prints to the terminal that this process belongs to, wherever its output goes. What would
/// have to wait, as at a terminal that somebody has stopped, fails.
pub(crate) fn print_to_controlling(bytes: &[u8]) -> io::Result<()> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    OpenOptions::new().write(true).custom_flags(flags).open("/dev/tty")?.write_all(bytes)
}

/// Stops who started us, until somebody has it go on.
pub(crate) fn stop_parent() -> io::Result<()> {
    use rustix::process::{Signal, getppid, kill_process};
    Ok(getppid().map_or(Ok(()), |parent| kill_process(parent, Signal::STOP))?)
}
