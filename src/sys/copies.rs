//! The attributes of a file that a copy keeps: type, mode, time, holes.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
};

use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_OMIT},
    io::Errno,
    pipe::{self, PipeFlags, SpliceFlags},
};

use crate::sys::{child, files::Folder};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
}

impl Attributes {
    fn of(stat: &Stat) -> (Kind, Attributes) {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            _ => Kind::Other,
        };
        let (seconds, nanoseconds) = (stat.st_mtime, stat.st_mtime_nsec as u32);
        (kind, Attributes { mode: stat.st_mode & 0o1777, seconds, nanoseconds })
    }

    fn times(self) -> Timestamps {
        let modified = Timespec { tv_sec: self.seconds, tv_nsec: self.nanoseconds.into() };
        Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: modified }
    }

    /// Gives them to a file or a directory.
    pub(crate) fn set(self, file: &impl AsFd) -> io::Result<()> {
        fs::fchmod(file, Mode::from_raw_mode(self.mode))?;
        Ok(fs::futimens(file, &self.times())?)
    }

    /// Gives a link the time; its mode means nothing.
    pub(crate) fn set_of_link(self, folder: &Folder, name: &OsStr) -> io::Result<()> {
        Ok(fs::utimensat(folder, name, &self.times(), AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// The attributes of the file of that name; `follows`: of a link's target.
pub(crate) fn look(folder: &Folder, name: &OsStr, follows: bool) -> io::Result<(Kind, Attributes)> {
    let flags = if follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    Ok(Attributes::of(&fs::statat(folder, name, flags)?))
}

/// Fails if a device, a FIFO or a socket has that name; `follows`: or a link to one, or into /proc, as /dev/stdout
/// is.
pub(crate) fn check_replaceable(folder: &Folder, name: &OsStr, follows: bool) -> io::Result<()> {
    let is_special = match look(folder, name, false) {
        Ok((Kind::Other, _)) => true,
        Ok((Kind::Link, _)) if follows => {
            target_of(folder, name)?.as_encoded_bytes().starts_with(b"/proc/")
                || look(folder, name, true).is_ok_and(|(kind, _)| kind == Kind::Other)
        }
        _ => false,
    };
    if is_special {
        Err(io::Error::other("it is a device, a FIFO or a socket, or a link to one"))
    } else {
        Ok(())
    }
}

/// Opens a regular file for reading, and nothing else. Returns its attributes, and its size if it is known to
/// have no holes.
pub(crate) fn open(
    folder: &Folder,
    name: &OsStr,
    follows: bool,
) -> io::Result<(File, Attributes, Option<u64>)> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    flags.set(OFlags::NOFOLLOW, !follows);
    let file = fs::openat(folder, name, flags, Mode::empty())?;
    let stat = fs::fstat(&file)?;
    // A file in /proc has content although its size is 0. `st_blocks` counts units of 512 bytes (stat(2)).
    let size = Some(stat.st_size as u64).filter(|size| *size > 0 && stat.st_blocks as u64 * 512 >= *size);
    match Attributes::of(&stat) {
        (Kind::File, attributes) => Ok((File::from(file), attributes, size)),
        _ => Err(io::Error::other("it is no longer a file")),
    }
}

/// Makes a private file of a name that does not exist.
pub(crate) fn create(folder: &Folder, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?))
}

pub(crate) fn target_of(folder: &Folder, link: &OsStr) -> io::Result<OsString> {
    Ok(OsString::from_vec(fs::readlinkat(folder, link, Vec::new())?.into_bytes()))
}

pub(crate) fn make_link(folder: &Folder, target: &OsStr, name: &str) -> io::Result<()> {
    Ok(fs::symlinkat(target, folder, name)?)
}

/// The start and end of a file's next data; `None`: only a hole follows.
pub(crate) fn next_data(file: &File, from: u64) -> io::Result<Option<(u64, u64)>> {
    match fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => Ok(Some((start, fs::seek(file, SeekFrom::Hole(start))?))),
        Err(Errno::NXIO) => Ok(None),
        // Not every file knows its holes.
        Err(Errno::INVAL) => Ok(Some((from, u64::MAX))),
        Err(error) => Err(error.into()),
    }
}

/// Sends data of files into a pipe without copying it (splice(2)). The data first goes into a pipe of our own,
/// so that its length is known before any of it is sent.
pub(crate) struct SplicePipe {
    read: OwnedFd,
    write: OwnedFd,
    onto: File,
}

impl SplicePipe {
    pub(crate) fn new(onto: File) -> io::Result<SplicePipe> {
        let (read, write) = pipe::pipe_with(PipeFlags::CLOEXEC)?;
        child::widen(&write);
        Ok(SplicePipe { read, write, onto })
    }

    /// Takes at most `most` bytes of a file from offset `at`, and returns how many: 0 at its end. All that was
    /// taken before must have been passed on. Not every file system supports that.
    pub(crate) fn take(&self, file: &File, mut at: u64, most: usize) -> io::Result<usize> {
        Ok(pipe::splice(file, Some(&mut at), &self.write, None, most, SpliceFlags::empty())?)
    }

    /// Sends the `count` bytes that were taken.
    pub(crate) fn pass_on(&self, mut count: usize) -> io::Result<()> {
        while count > 0 {
            count -= pipe::splice(&self.read, None, &self.onto, None, count, SpliceFlags::empty())?;
        }
        Ok(())
    }
}
