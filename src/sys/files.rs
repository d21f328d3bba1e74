//! An open directory, and the files in it.
//!
//! We reach files through the directory's descriptor, never by a long path, so a directory that is
//! renamed meanwhile stays the same. We follow no name that is a link, and check the type of a file
//! before we use it: a FIFO or a device in its place is an error, not a hang.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, TryLockError},
    io::{self, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::FileExt},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{
        self, AtFlags, Dir, FallocateFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, SeekFrom, Stat,
    },
    io::Errno,
};

const PRIVATE_FILE: Mode = Mode::from_raw_mode(0o600);
const PRIVATE_FOLDER: Mode = Mode::from_raw_mode(0o700);

/// The umask that we were called with, once ours is another one.
static CALLERS_UMASK: AtomicU32 = AtomicU32::new(0o077);

/// Appends what one read(2) returns, which is as much as there is memory for at most.
pub(crate) fn read_more(file: &impl AsFd, onto: &mut Vec<u8>) -> io::Result<usize> {
    Ok(rustix::io::read(file, rustix::buffer::spare_capacity(onto))?)
}

/// The same from an offset of a file, by pread(2).
pub(crate) fn read_more_at(file: &impl AsFd, at: u64, onto: &mut Vec<u8>) -> io::Result<usize> {
    Ok(rustix::io::pread(file, rustix::buffer::spare_capacity(onto), at)?)
}

/// Sets our umask to 077 and returns the one that we were called with.
pub(crate) fn set_private_umask() -> u32 {
    let callers = set_umask(0o077);
    CALLERS_UMASK.store(callers, Ordering::Relaxed);
    callers
}

/// Does something, as starting a program, with the umask that we were called with.
pub(crate) fn with_callers_umask<T>(work: impl FnOnce() -> T) -> T {
    let ours = set_umask(CALLERS_UMASK.load(Ordering::Relaxed));
    let came = work();
    set_umask(ours);
    came
}

/// Returns the previous umask.
pub(crate) fn set_umask(umask: u32) -> u32 {
    rustix::process::umask(Mode::from_raw_mode(umask)).as_raw_mode()
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    File,
    Folder,
    Fifo,
    Socket,
    Other,
}

impl std::fmt::Display for Nature {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Nature::File => "a file",
            Nature::Folder => "a directory",
            Nature::Fifo => "a FIFO",
            Nature::Socket => "a socket",
            Nature::Other => "a link or a device",
        })
    }
}

#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

/// A confined session may not list the state directory, but may get to its own files through it.
fn open_folder(from: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match fs::openat(&from, path, flags | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => Ok(fs::openat(&from, path, flags | OFlags::PATH, Mode::empty())?),
        opened => Ok(opened?),
    }
}

as_fd!(Folder, 0);

impl Folder {
    /// Opens a directory by its path, and follows the user's links.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        Ok(Folder(open_folder(fs::CWD, path, OFlags::empty())?))
    }

    /// The same, but `None` if the path itself is a link made by another user than us or root. A check before
    /// the open is not enough: the link may be made meanwhile.
    pub(crate) fn open_if_not_strangers_link(path: &Path) -> io::Result<Option<Folder>> {
        if let Ok(folder) = open_folder(fs::CWD, path, OFlags::NOFOLLOW) {
            return Ok(Some(Folder(folder)));
        }
        let found = fs::open(path, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?;
        let stat = fs::fstat(&found)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink if is_strangers(&stat) => Ok(None),
            FileType::Symlink => Folder::open(path).map(Some),
            _ => Folder(found).open_folder(OsStr::new(".")).map(Some),
        }
    }

    /// Opens the same directory once more.
    pub(crate) fn again(&self) -> io::Result<Folder> {
        Ok(Folder(self.0.try_clone()?))
    }

    pub(crate) fn open_folder(&self, name: &OsStr) -> io::Result<Folder> {
        Ok(Folder(open_folder(self, Path::new(name), OFlags::NOFOLLOW)?))
    }

    /// Makes a directory with mode 0700; fails if it exists. If it cannot be opened, it is removed.
    pub(crate) fn make_folder(&self, name: &OsStr) -> io::Result<Folder> {
        fs::mkdirat(self, name, PRIVATE_FOLDER)?;
        let opened = self.open_folder(name);
        if opened.is_err() {
            // If it is no longer empty, another process uses it.
            let _ = self.remove_empty(name);
        }
        opened
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        self.regular(name, OFlags::RDONLY)
    }

    /// Opens a regular file for appending, and creates it if it is missing.
    pub(crate) fn open_or_make_appending(&self, name: &str) -> io::Result<File> {
        self.regular(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
    }

    /// Opens a regular file for appending; it must be there.
    pub(crate) fn open_appending(&self, name: &str) -> io::Result<File> {
        self.regular(name, OFlags::WRONLY | OFlags::APPEND)
    }

    /// Opens a file that only serves as a lock; creates it if it is missing.
    pub(crate) fn open_lock(&self, name: &str) -> io::Result<File> {
        self.regular(name, OFlags::RDWR | OFlags::CREATE)
    }

    fn regular(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let file = match fs::openat(self, name, flags | NO_SURPRISE, PRIVATE_FILE) {
            // The last component is a link, with O_NOFOLLOW (open(2)).
            Err(Errno::LOOP) => return Err(io::Error::other(format!("'{name}' is a symbolic link"))),
            file => file?,
        };
        Ok(checked(file, name)?.0)
    }

    /// Opens a regular file in a subdirectory for reading, and returns its time of modification. It
    /// needs no descriptor for the subdirectory (openat2(2), Linux 5.6).
    pub(crate) fn open_file_within(&self, folder: &str, name: &str) -> io::Result<(File, SystemTime)> {
        let path = format!("{folder}/{name}");
        match fs::openat2(self, path, OFlags::RDONLY | NO_SURPRISE, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        {
            // Sandboxes that do not know the system call return one of these errors.
            Err(Errno::NOSYS | Errno::PERM) => {
                let file = self.open_folder(OsStr::new(folder))?.open_file(name)?;
                checked(file.into(), name)
            }
            file => checked(file?, name),
        }
    }

    /// Reads a small file. A file longer than `limit` bytes is not ours, and an error.
    pub(crate) fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        read(&self.open_file(name)?, name, limit)
    }

    /// Creates a file; fails if it exists. If the disk is full, it leaves nothing.
    pub(crate) fn create(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let written = File::from(fs::openat(self, name, flags, PRIVATE_FILE)?).write_all(content);
        if written.is_err() {
            // The write error is more useful.
            let _ = self.remove_file(OsStr::new(name));
        }
        written
    }

    /// Replaces a file as a whole: a reader sees the old or the new one. Concurrent callers must hold
    /// a lock.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let beside = self.write_beside(name, content)?;
        Ok(fs::renameat(self, &*beside, self, name)?)
    }

    /// The same as [`Folder::replace`], but never waits for the disk, as ext4 does if a file is renamed over
    /// another: the two are exchanged.
    pub(crate) fn exchange(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let beside = self.write_beside(name, content)?;
        self.change_places(&beside, name)
    }

    /// The same as [`Folder::exchange`], but the next call overwrites the previous file, so a process that
    /// has it open then may see it change: for files whose readers have read them by then.
    pub(crate) fn exchange_over(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let beside = beside(name);
        let write = |file: File| {
            if file.metadata()?.len() > content.len() as u64 {
                file.set_len(content.len() as u64)?;
            }
            file.write_all_at(content, 0)
        };
        let written = self.regular(&beside, OFlags::RDWR | OFlags::CREATE).and_then(write);
        if written.is_err() {
            // Another kind of file is in its place, or the disk is full; then `exchange` returns the
            // error.
            return self.exchange(name, content);
        }
        self.change_places(&beside, name)
    }

    /// Reserves the room that [`Folder::exchange_over`] needs for this many bytes. After that it works
    /// on a full disk, if the file can be overwritten in place.
    pub(crate) fn reserve_over(&self, name: &str, length: usize) -> io::Result<()> {
        let padding = vec![b' '; length];
        let reserve = |file: File| file.write_all_at(&padding, 0);
        let reserved = self.regular(&beside(name), OFlags::RDWR | OFlags::CREATE).and_then(reserve);
        // As in `exchange_over`.
        reserved.or_else(|_| self.write_beside(name, &padding).map(drop))
    }

    fn change_places(&self, beside: &str, name: &str) -> io::Result<()> {
        match fs::renameat_with(self, beside, self, name, RenameFlags::EXCHANGE) {
            // The file is missing, or the file system does not support the exchange.
            Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS) => Ok(fs::renameat(self, beside, self, name)?),
            other => Ok(other?),
        }
    }

    /// The same as [`Folder::replace`], but sets the time of the last change. Returns the time as the file
    /// system has stored it, whose clock may be coarser.
    pub(crate) fn replace_as_of(
        &self,
        name: &str,
        content: &[u8],
        time: SystemTime,
    ) -> io::Result<SystemTime> {
        let beside = self.write_beside(name, content)?;
        let file = self.open_appending(&beside)?;
        file.set_modified(time)?;
        let kept = file.metadata()?.modified()?;
        fs::renameat(self, &*beside, self, name)?;
        Ok(kept)
    }

    fn write_beside(&self, name: &str, content: &[u8]) -> io::Result<String> {
        let beside = beside(name);
        match self.create(&beside, content) {
            // Replaced the last time, left by a killed caller, or planted.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove_file(OsStr::new(&beside))?;
                self.create(&beside, content)?;
            }
            other => other?,
        }
        Ok(beside)
    }

    /// Makes a second name for a file, in `other`; an existing name is an error.
    pub(crate) fn link(&self, name: &str, other: &Folder, second: &str) -> io::Result<()> {
        Ok(fs::linkat(self, name, other, second, AtFlags::empty())?)
    }

    /// Reserves the disk space that the next [`Folder::replace`] of a small file of this name needs.
    pub(crate) fn reserve(&self, name: &str) -> io::Result<()> {
        self.create(&beside(name), b"-")
    }

    pub(crate) fn make_fifo(&self, name: &str) -> io::Result<()> {
        Ok(fs::mkfifoat(self, name, PRIVATE_FILE)?)
    }

    /// Opens a FIFO for reading and writing, non-blocking, so that the end of the last writer is not a
    /// hang-up (fifo(7)).
    pub(crate) fn open_fifo(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = File::from(fs::openat(self, name, flags, Mode::empty())?);
        match FileType::from_raw_mode(fs::fstat(&file)?.st_mode) {
            FileType::Fifo => Ok(file),
            _ => Err(io::Error::other(format!("'{name}' is not a FIFO"))),
        }
    }

    /// Is there a FIFO of that name, and of our own?
    pub(crate) fn has_fifo(&self, name: &str) -> io::Result<bool> {
        let stat = self.stat(OsStr::new(name))?;
        let ours = stat.st_uid == rustix::process::geteuid().as_raw();
        Ok(ours && FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.stat(OsStr::new(name)).is_ok()
    }

    /// The type of a file, and whether it is private: owned by us, with no mode bit for others.
    pub(crate) fn nature(&self, name: &OsStr) -> io::Result<(Nature, bool)> {
        let stat = self.stat(name)?;
        let nature = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Nature::File,
            FileType::Directory => Nature::Folder,
            FileType::Fifo => Nature::Fifo,
            FileType::Socket => Nature::Socket,
            _ => Nature::Other,
        };
        let ours = stat.st_uid == rustix::process::geteuid().as_raw();
        Ok((nature, ours && stat.st_mode & 0o077 == 0))
    }

    /// When a file was last written to.
    pub(crate) fn modified(&self, name: &str) -> io::Result<SystemTime> {
        Ok(modified(&self.stat(OsStr::new(name))?))
    }

    fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// May several machines have it, so that not all locks on its files are seen here? By
    /// its file system: those of networks, of hypervisors, and FUSE, which may be any.
    pub(crate) fn may_be_shared(&self) -> bool {
        /// linux/magic.h, and the sources of those that are not in the kernel.
        const SHARED: [u32; 15] = [
            0x6969,      // NFS
            0x517b,      // SMB
            0xff53_4d42, // CIFS
            0xfe53_4d42, // SMB 2
            0x0102_1997, // 9P
            0x00c3_6400, // Ceph
            0x5346_414f, // AFS
            0x6b41_4653, // AFS of the kernel
            0x7375_7245, // Coda
            0x0bd0_0bd0, // Lustre
            0x4750_4653, // GPFS
            0x1983_0326, // BeeGFS
            0xaad7_aaea, // PanFS
            0x786f_4256, // VirtualBox's
            0x6573_5546, // FUSE
        ];
        // All are numbers of 32 bits, whatever the type.
        fs::fstatfs(self).is_ok_and(|stat| SHARED.contains(&(stat.f_type as u32)))
    }

    /// The reason not to trust this directory with private files, if there is one.
    pub(crate) fn distrust(&self) -> io::Result<Option<&'static str>> {
        let stat = fs::fstat(self)?;
        Ok(if stat.st_uid != rustix::process::geteuid().as_raw() {
            Some("it belongs to another user")
        } else if stat.st_mode & 0o022 != 0 {
            Some("others may write to it; try 'chmod go-w'")
        } else {
            None
        })
    }

    /// Renames within the directory; fails instead of replacing a file.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match fs::renameat_with(self, from, self, to, RenameFlags::NOREPLACE) {
            // A file system without the flag; our names are random, or our own.
            Err(Errno::INVAL) => Ok(fs::renameat(self, from, self, to)?),
            other => Ok(other?),
        }
    }

    /// The same, replacing the file of that name.
    pub(crate) fn rename_over(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(self, from, self, to)?)
    }

    /// Does this name still refer to `file`?
    pub(crate) fn still_names(&self, name: &str, file: &impl AsFd) -> bool {
        let (Ok(named), Ok(held)) = (self.stat(OsStr::new(name)), fs::fstat(file)) else { return false };
        (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)
    }

    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        // A directory that we may not list is open by its path only (O_PATH), so `Dir::read_from` would get EBADF.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for entry in Dir::new(fs::openat(self, ".", flags, Mode::empty())?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(self, name, AtFlags::empty())?)
    }

    pub(crate) fn remove_if_there(&self, name: &OsStr) -> io::Result<()> {
        there(self.remove_file(name)).map(|_| ())
    }

    /// How many descriptors [`Folder::remove_folder`] takes.
    pub(crate) const TO_REMOVE: usize = 3;

    /// Removes a directory and its contents. It accepts that other processes remove files meanwhile,
    /// and also that they add some, as a reader does that locks a cursor, as long as they stop.
    pub(crate) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        const ROUNDS: usize = 100;
        let mut removed = Ok(());
        for _ in 0..ROUNDS {
            removed = self.remove_folder_once(name);
            match &removed {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                _ => break,
            }
        }
        removed
    }

    /// The same, but returns `DirectoryNotEmpty` if another process added a file meanwhile.
    ///
    /// It first moves nested directories up, however deep they are. So it needs three descriptors and
    /// no stack.
    pub(crate) fn remove_folder_once(&self, name: &OsStr) -> io::Result<()> {
        let Some(folder) = self.open_to_empty(name)? else { return Ok(()) };
        let mut folders = folder.remove_files()?;
        let mut moved = 0_u64;
        while let Some(name) = folders.pop() {
            let Some(deeper) = folder.open_to_empty(&name)? else { continue };
            for inner in deeper.remove_files()? {
                // Moving a directory requires the right to write to it.
                drop(deeper.open_to_empty(&inner)?);
                loop {
                    moved += 1;
                    let up = OsString::from(format!(".{moved}"));
                    match fs::renameat_with(&deeper, &inner, &folder, &up, RenameFlags::NOREPLACE) {
                        Ok(()) => folders.push(up),
                        Err(Errno::EXIST) => continue,
                        Err(Errno::NOENT) => {}
                        Err(error) => return Err(error.into()),
                    }
                    break;
                }
            }
            folder.remove_empty(&name)?;
        }
        self.remove_empty(name)
    }

    fn remove_empty(&self, name: &OsStr) -> io::Result<()> {
        match fs::unlinkat(self, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes everything except directories, and returns their names.
    fn remove_files(&self) -> io::Result<Vec<OsString>> {
        let mut folders = Vec::new();
        for name in self.names()? {
            match fs::unlinkat(self, &name, AtFlags::empty()) {
                Err(Errno::ISDIR) => folders.push(name),
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(folders)
    }

    /// Opens a directory, and gives us all rights in it; `None` if it is missing.
    fn open_to_empty(&self, name: &OsStr) -> io::Result<Option<Folder>> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let folder = match fs::openat(self, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        };
        if fs::fstat(&folder)?.st_mode & 0o700 != 0o700 {
            fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), PRIVATE_FOLDER)?;
        }
        Folder(folder).open_folder(OsStr::new(".")).map(Some)
    }
}

/// No link is followed, and a FIFO in the file's place must not hold the open up.
const NO_SURPRISE: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

/// The file, if it is a regular one, and when it was last written to.
fn checked(file: OwnedFd, name: &str) -> io::Result<(File, SystemTime)> {
    let stat = fs::fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((File::from(file), modified(&stat))),
        _ => Err(io::Error::other(format!("'{name}' is not a regular file"))),
    }
}

fn modified(stat: &Stat) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    UNIX_EPOCH + seconds + Duration::from_nanos(stat.st_mtime_nsec)
}

/// `None` if the error is that there is no such file.
pub(crate) fn there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// The content of a file that is open; see [`Folder::read`].
pub(crate) fn read(file: &File, name: &str, limit: u64) -> io::Result<Vec<u8>> {
    let too_long = || io::Error::other(format!("'{name}' is longer than {limit} bytes"));
    // Most are read at once, by a read that does not fill this.
    let mut content = vec![0; 256];
    let mut length = file.read_at(&mut content, 0)?;
    while length == content.len() {
        let there = file.metadata()?.len();
        if there > limit {
            return Err(too_long());
        }
        // One byte more, to see the end.
        content.resize(usize::try_from(there).unwrap_or(usize::MAX).max(length) + 1, 0);
        match file.read_at(&mut content[length..], length as u64)? {
            0 => break,
            count => length += count,
        }
    }
    content.truncate(length);
    if content.len() as u64 > limit { Err(too_long()) } else { Ok(content) }
}

/// Does any process hold the lock of a file?
pub(crate) fn is_locked(file: &File) -> io::Result<bool> {
    // We try a shared lock, so that two concurrent checks do not block each other.
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The temporary name under which a file is written before it replaces `name`.
fn beside(name: &str) -> String {
    format!(".{name}.new")
}

/// The unit in which a file's room on the disk is counted.
pub(crate) fn block_size(file: &File) -> io::Result<u64> {
    Ok(u64::try_from(fs::fstat(file)?.st_blksize).unwrap_or(0))
}

/// Frees the disk space of a stretch of a file; it reads as zeros then, and the file's length stays the same.
/// Not every file system can (fallocate(2)).
pub(crate) fn punch(file: &File, start: u64, end: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fs::fallocate(file, flags, start, end - start)?)
}

/// The offset of the first byte of a file that is not in a hole.
pub(crate) fn first_data(file: &File) -> io::Result<u64> {
    match fs::seek(file, SeekFrom::Data(0)) {
        // The file has only holes.
        Err(Errno::NXIO) => Ok(fs::fstat(file)?.st_size.unsigned_abs()),
        other => Ok(other?),
    }
}

/// Is there hope that what could not be written can be another time? There is
/// room then, or a descriptor to be had.
pub(crate) fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, ReadOnlyFilesystem};
    let descriptors = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    is_full(error)
        || matches!(error.kind(), FileTooLarge | ReadOnlyFilesystem)
        || descriptors.contains(&error.raw_os_error())
}

/// Is the disk, or our quota, full?
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The reason why we cannot use a directory as our own, if there is one.
pub(crate) fn check_can_enter(path: &Path) -> io::Result<()> {
    if !std::fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(fs::accessat(fs::CWD, path, fs::Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// Makes a directory and its parents, with mode 0700.
pub(crate) fn make_private_folders(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER.as_raw_mode()).create(path)
}

/// From the root, and without a slash at the end: behind one even a call that follows no
/// links goes on to where the link leads (path_resolution(7)).
pub(crate) fn absolute(path: &Path) -> io::Result<PathBuf> {
    Ok(std::path::absolute(path)?.components().collect())
}

/// The absolute path without links and dots, as the kernel names what it leads to.
pub(crate) fn real_path(path: &Path) -> io::Result<PathBuf> {
    let found = fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    std::fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// Is `path` itself a link that another user than us, or root, has laid?
pub(crate) fn is_strangers_link(path: &Path) -> io::Result<bool> {
    let stat = fs::lstat(path)?;
    Ok(is_strangers(&stat) && FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

fn is_strangers(stat: &Stat) -> bool {
    stat.st_uid != rustix::process::geteuid().as_raw() && stat.st_uid != 0
}
