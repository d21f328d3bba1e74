//! Our standard streams, without waiting for them and without changing modes of others that share them.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{FileType, Mode, OFlags},
    net::SendFlags,
};

use crate::sys::poll::PIPE_ROOM;

/// Standard output, or standard error. To be written to when it is writable.
pub(crate) struct Output {
    descriptor: OwnedFd,
    kind: Kind,
}

enum Kind {
    /// A write returns at once with the number of accepted bytes.
    Whole,
    Socket,
    /// When writable, it takes so little at once.
    InPieces,
}

as_fd!(Output, descriptor);

impl Output {
    pub(crate) fn stdout() -> io::Result<Output> {
        Output::of(1, rustix::stdio::stdout())
    }

    pub(crate) fn stderr() -> io::Result<Output> {
        Output::of(2, rustix::stdio::stderr())
    }

    fn of(number: u8, descriptor: BorrowedFd) -> io::Result<Output> {
        let kind = match FileType::from_raw_mode(rustix::fs::fstat(descriptor)?.st_mode) {
            FileType::Fifo => {
                // Reopened, so that only we do not block.
                let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
                if let Ok(descriptor) =
                    rustix::fs::open(format!("/proc/self/fd/{number}"), flags, Mode::empty())
                {
                    return Ok(Output { descriptor, kind: Kind::Whole });
                }
                Kind::InPieces
            }
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice if rustix::termios::isatty(descriptor) => Kind::InPieces,
            _ => Kind::Whole,
        };
        Ok(Output { descriptor: descriptor.try_clone_to_owned()?, kind })
    }
}

impl Write for &Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(match self.kind {
            Kind::Whole => rustix::io::write(&self.descriptor, bytes)?,
            Kind::Socket => {
                rustix::net::send(&self.descriptor, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?
            }
            Kind::InPieces => {
                // It may be that another one has filled it since.
                if !crate::sys::poll::is_writable(&self.descriptor)? {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                rustix::io::write(&self.descriptor, &bytes[..bytes.len().min(PIPE_ROOM)])?
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Closes one of our standard streams; nothing of ours takes its number.
pub(crate) fn close_stdin() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdin(null()?)?)
}

pub(crate) fn close_stdout() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdout(null()?)?)
}

pub(crate) fn close_stderr() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stderr(null()?)?)
}

fn null() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}
