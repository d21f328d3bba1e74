//! Pseudoterminals: the master, its slave, and becoming a slave's session.
//!
//! Facts (pty(7), tty_ioctl(2), and tried on Linux 6.18): a fresh terminal has the size 0 x 0. Reading
//! a master whose last slave has been closed gives EIO once all output has been read. tcgetattr(3) and
//! tcgetpgrp(3) on the master return values of the slave.

use std::{io, os::fd::OwnedFd, path::PathBuf, time::Duration};

use rustix::{
    io::Errno,
    pty::OpenptFlags,
    termios::{
        self, InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, SpecialCodeIndex, Termios,
        Winsize,
    },
};

use crate::sys::{
    deadline::Deadline,
    poll,
    signals::{SIGINT, SIGQUIT, SIGTSTP},
};

/// The columns and rows of a terminal; each is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

impl Size {
    /// The size of terminals since the VT100.
    pub(crate) const DEFAULT: Size = Size { cols: 80, rows: 24 };
}

/// The device /dev/tty, 5:0, which is another terminal for each session (tty(4)).
pub(crate) const CONTROLLING_TERMINAL: u64 = 5 << 8;

/// The master side of a PTY.
#[derive(Debug)]
pub(crate) struct Master(OwnedFd);

as_fd!(Master, 0);

impl Master {
    /// Opens a new PTY of a size. Its erase character erases whole UTF-8
    /// characters.
    pub(crate) fn open(size: Size) -> io::Result<Master> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = Master(rustix::pty::openpt(flags)?);
        rustix::pty::grantpt(&master)?;
        rustix::pty::unlockpt(&master)?;
        master.resize(size)?;
        let mut modes = termios::tcgetattr(&master)?;
        modes.input_modes.insert(InputModes::IUTF8);
        termios::tcsetattr(&master, OptionalActions::Now, &modes)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        Ok(master)
    }

    /// A master that another process opened and passed to us.
    pub(crate) fn received(master: OwnedFd) -> io::Result<Master> {
        rustix::io::ioctl_fionbio(&master, true)?;
        Ok(Master(master))
    }

    /// Makes reads block, as the next owner of the descriptor expects.
    pub(crate) fn let_reads_wait(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(self, false)?)
    }

    /// The path of the slave device, in the mount namespace that made it.
    pub(crate) fn slave_path(&self) -> io::Result<PathBuf> {
        let path = rustix::pty::ptsname(self, Vec::new())?;
        Ok(PathBuf::from(std::ffi::OsString::from(path.into_string().map_err(io::Error::other)?)))
    }

    /// The device that the slave is, wherever it is mounted: every slave's major
    /// number is 136, and its minor number is its own (the kernel's
    /// drivers/tty/pty.c).
    pub(crate) fn slave_device(&self) -> io::Result<u64> {
        let path = rustix::pty::ptsname(self, Vec::new())?;
        let number = path.to_str().ok().and_then(|path| path.rsplit('/').next()?.parse().ok());
        Ok(rustix::fs::makedev(136, number.ok_or(io::ErrorKind::InvalidData)?))
    }

    /// Opens the slave without making it our controlling terminal, by
    /// TIOCGPTPEER (Linux 4.13), which needs no path.
    pub(crate) fn open_slave(&self) -> io::Result<OwnedFd> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        Ok(rustix::pty::ioctl_tiocgptpeer(self, flags)?)
    }

    /// The kernel sends the foreground process group SIGWINCH, if the size is
    /// another than before.
    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        let size = Winsize { ws_col: size.cols, ws_row: size.rows, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(termios::tcsetwinsize(self, size)?)
    }

    pub(crate) fn size(&self) -> io::Result<Size> {
        let size = termios::tcgetwinsize(self)?;
        Ok(Size { cols: size.ws_col, rows: size.ws_row })
    }

    /// Reads the output; `Ok(0)` if all slaves have been closed and all output has been read, which the
    /// kernel reports as EIO.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match rustix::io::retry_on_intr(|| rustix::io::read(self, &mut *buffer)) {
            Err(Errno::IO) => Ok(0),
            other => Ok(other?),
        }
    }

    /// Types; less than all where the terminal's queue is full.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self, bytes)?)
    }

    pub(crate) fn modes(&self) -> io::Result<TerminalModes> {
        Ok(TerminalModes(termios::tcgetattr(self)?))
    }

    /// Discards unread input: the part in the slave's line discipline, and the part that waits before it
    /// (which `tcflush` on the master treats as output that was written and not transmitted).
    pub(crate) fn discard_typed(&self, slave: &OwnedFd) -> io::Result<()> {
        termios::tcflush(self, QueueSelector::OFlush)?;
        Ok(termios::tcflush(slave, QueueSelector::IFlush)?)
    }

    /// The foreground process group; `None` if there is none.
    pub(crate) fn foreground(&self) -> Option<i32> {
        termios::tcgetpgrp(self).ok().map(|group| group.as_raw_nonzero().get())
    }
}

/// How the terminal treats its input (termios(3)).
pub(crate) struct TerminalModes(Termios);

impl TerminalModes {
    pub(crate) fn is_canonical(&self) -> bool {
        self.0.local_modes.contains(LocalModes::ICANON)
    }

    /// Canonical mode, with echo.
    pub(crate) fn shows_lines(&self) -> bool {
        self.is_canonical() && self.echoes()
    }

    /// Does the terminal put a `\r` before each `\n` that is printed?
    pub(crate) fn translates_newlines(&self) -> bool {
        self.0.output_modes.contains(OutputModes::OPOST | OutputModes::ONLCR)
    }

    pub(crate) fn echoes(&self) -> bool {
        self.0.local_modes.contains(LocalModes::ECHO)
    }

    /// Does this byte, typed in canonical mode, empty the line that it is typed
    /// in, as ^U and ^C do?
    pub(crate) fn empties_line(&self, byte: u8) -> bool {
        use SpecialCodeIndex as Code;
        let is = |code| byte != 0 && self.0.special_codes[code] == byte;
        let modes = self.0.local_modes;
        let signals = modes.contains(LocalModes::ISIG) && !modes.contains(LocalModes::NOFLSH);
        is(Code::VKILL) || (signals && (is(Code::VINTR) || is(Code::VQUIT) || is(Code::VSUSP)))
    }

    /// Does it erase earlier input, as Backspace and ^W do?
    pub(crate) fn erases(&self, byte: u8) -> bool {
        use SpecialCodeIndex as Code;
        let is = |code| byte != 0 && self.0.special_codes[code] == byte;
        is(Code::VERASE) || is(Code::VWERASE)
    }

    /// Does the terminal wait for a line that it does not show?
    pub(crate) fn hide_line(&self) -> bool {
        self.is_canonical() && !self.echoes()
    }

    /// The character that ends the input: the terminal's own in canonical mode, if it has one;
    /// otherwise the usual one.
    pub(crate) fn end_of_input(&self) -> Option<u8> {
        if !self.is_canonical() {
            return Some(0x04);
        }
        Some(self.0.special_codes[SpecialCodeIndex::VEOF]).filter(|byte| *byte != 0)
    }

    /// The characters that are signals when typed, and the signals.
    pub(crate) fn signals(&self) -> Vec<(u8, i32)> {
        use SpecialCodeIndex as Code;
        if !self.0.local_modes.contains(LocalModes::ISIG) {
            return Vec::new();
        }
        let all = [(Code::VINTR, SIGINT), (Code::VQUIT, SIGQUIT), (Code::VSUSP, SIGTSTP)];
        let all = all.map(|(code, signal)| (self.0.special_codes[code], signal));
        all.into_iter().filter(|(byte, _)| *byte != 0).collect()
    }

    /// Does a typed signal character discard earlier input?
    pub(crate) fn discard_at_signal(&self) -> bool {
        !self.0.local_modes.contains(LocalModes::NOFLSH)
    }

    /// How the terminal shows a control character that is typed, if it does.
    pub(crate) fn shown(&self, byte: u8) -> Option<Vec<u8>> {
        let as_two = self.0.local_modes.contains(LocalModes::ECHOCTL) && byte.is_ascii_control();
        self.echoes().then(|| if as_two { vec![b'^', byte ^ 0x40] } else { vec![byte] })
    }

    /// Does this byte, typed in canonical mode, end a line?
    pub(crate) fn ends_line(&self, byte: u8) -> bool {
        use SpecialCodeIndex as Code;
        let is = |code| byte != 0 && self.0.special_codes[code] == byte;
        byte == b'\n'
            || (byte == b'\r' && self.0.input_modes.contains(InputModes::ICRNL))
            || is(Code::VEOF)
            || is(Code::VEOL)
            || is(Code::VEOL2)
    }
}

#[cfg(test)]
impl TerminalModes {
    /// The modes of a new terminal, with these settings for lines and echo.
    pub(crate) fn of(lines: bool, echo: bool) -> TerminalModes {
        let mut modes = Master::open(Size::DEFAULT).unwrap().modes().unwrap();
        modes.0.local_modes.set(LocalModes::ICANON, lines);
        modes.0.local_modes.set(LocalModes::ECHO, echo);
        modes
    }
}

/// Makes us a session leader, with the terminal on standard input as our controlling terminal; `false`
/// if its other end is closed, so that it has hung up.
pub(crate) fn adopt_stdin_as_terminal() -> io::Result<bool> {
    rustix::process::setsid()?;
    match rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()) {
        Ok(()) => Ok(true),
        // A hung-up terminal returns this error for every ioctl (hung_up_tty_ioctl of the kernel).
        Err(Errno::IO) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// How much typed input could be read from the slave at this moment; in canonical
/// mode, of whole lines.
pub(crate) fn unread(slave: &OwnedFd) -> io::Result<u64> {
    // Data written to the master arrives by a work queue, for which FIONREAD does not wait. poll
    // does, if there is no data yet (n_tty_poll, since Linux 4.5).
    poll::wait_readable(slave, Deadline::after(Duration::ZERO))?;
    Ok(rustix::io::ioctl_fionread(slave)?)
}

/// Prints through the slave that we hold as much as fits at once; a terminal that is stopped, or full,
/// accepts nothing.
pub(crate) fn print_some(slave: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    rustix::io::ioctl_fionbio(slave, true)?;
    Ok(rustix::io::write(slave, bytes)?)
}

/// Puts standard error where standard input is.
pub(crate) fn point_stderr_at_stdin() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stderr(rustix::stdio::stdin())?)
}
