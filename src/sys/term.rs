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
    /// `None` if standard input or output is not a terminal.
    pub(crate) fn look() -> io::Result<Option<Before>> {
        if !termios::isatty(stdin()) || !termios::isatty(stdout()) {
            return Ok(None);
        }
        Ok(Some(Before(termios::tcgetattr(stdin())?)))
    }

    /// From now on every key arrives unchanged, and nothing is echoed.
    pub(crate) fn make_raw(&self) -> io::Result<()> {
        Ok(termios::tcsetattr(stdin(), OptionalActions::Now, &self.raw())?)
    }

    fn raw(&self) -> Termios {
        let mut raw = self.0.clone();
        raw.make_raw();
        raw
    }

    /// Restores the modes, unless another process owns the terminal now. A shell that runs us in the
    /// background has modes of its own.
    pub(crate) fn put_back(&self) -> io::Result<()> {
        if is_anothers() {
            return Ok(());
        }
        Ok(termios::tcsetattr(stdin(), OptionalActions::Now, &self.0)?)
    }

    /// The same for a process that is about to end. It also restores a terminal that another process
    /// owns but left in our modes, as dash does when it takes it from a killed call.
    pub(crate) fn give_back(&self) -> io::Result<()> {
        let modes = |of: &Termios| (of.input_modes, of.output_modes, of.local_modes);
        if is_anothers() && modes(&termios::tcgetattr(stdin())?) != modes(&self.raw()) {
            return Ok(());
        }
        // The kernel stops a process that changes its own terminal in the background (tcsetattr(3p)),
        // and we may be there at any moment. So we leave the terminal first.
        rustix::process::setsid()?;
        Ok(termios::tcsetattr(stdin(), OptionalActions::Now, &self.0)?)
    }
}

/// Has another process group than ours the terminal?
fn is_anothers() -> bool {
    termios::tcgetpgrp(stdin()).is_ok_and(|group| group != rustix::process::getpgrp())
}

/// `None` if the terminal has no size set.
pub(crate) fn size() -> io::Result<Option<Size>> {
    let size = termios::tcgetwinsize(stdout())?;
    let known = size.ws_col > 0 && size.ws_row > 0;
    Ok(known.then_some(Size { cols: size.ws_col, rows: size.ws_row }))
}

/// Standard output, with writes that do not block. We open it again, because the flag would otherwise
/// change for all processes that share it.
pub(crate) fn output() -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let opened = OpenOptions::new().write(true).custom_flags(flags).open("/proc/self/fd/1");
    // If the terminal belongs to another user (su), we only have the descriptor.
    opened.or_else(|_| Ok(File::from(stdout().as_fd().try_clone_to_owned()?)))
}

/// Prints to the controlling terminal of this process, wherever its output goes. A write that would
/// block, as on a stopped terminal, fails.
pub(crate) fn print_to_controlling(bytes: &[u8]) -> io::Result<()> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    OpenOptions::new().write(true).custom_flags(flags).open("/dev/tty")?.write_all(bytes)
}

/// Stops our parent, until another process continues it.
pub(crate) fn stop_parent() -> io::Result<()> {
    use rustix::process::{Signal, getppid, kill_process};
    Ok(getppid().map_or(Ok(()), |parent| kill_process(parent, Signal::STOP))?)
}
