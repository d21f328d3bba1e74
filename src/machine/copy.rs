//! The two ends of a copy: one reads files and describes them as a stream, the other writes what the
//! stream describes. Each is a process beside its files, here or on another machine.
//!
//! ```text
//! F name attributes chunks      a file; a chunk: length 4, bytes; or a hole, the end, a failure
//! D name attributes             a directory, and what is in it up to
//! U                             the way out of it
//! L name attributes target      a symbolic link
//! E                             all has been sent
//! ```
//!
//! The writer trusts nothing: a name is one component, at the top one that was asked for, and it reaches
//! each directory from the one above and follows no link. So whatever comes, it writes nothing outside
//! its target, and nothing in it beside what was asked for. A file appears by a rename.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{
        self, BufRead, BufWriter,
        ErrorKind::{BrokenPipe, Interrupted, UnexpectedEof},
        Read, Write,
    },
    ops::Range,
    os::{
        fd::AsFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::FileExt,
        },
    },
    path::{Path, PathBuf},
    rc::Rc,
};

use crate::{
    cli,
    machine::outbox::{ALIGNMENT, Buffer},
    outcome::{Failure, Result, Trying},
    sys::{
        child,
        copies::{self, Attributes, Kind, SplicePipe},
        files::Folder,
        random,
    },
    terminal::text,
};

/// In place of a chunk's length.
const END: u32 = 0;
const HOLE: u32 = u32::MAX;
const FAILED: u32 = u32::MAX - 1;

const LONGEST_CHUNK: usize = 512 * 1024;

const READ_AT_ONCE: usize = 128 * 1024;

/// A piece of a file that is at least this long is sent by [`CopySink::send_chunk`].
const WORTH_SENDING: usize = 64 * 1024;

/// A chunk is read behind its length, to an address that is read to fast.
const LENGTH: Range<usize> = ALIGNMENT - 4..ALIGNMENT;

/// The longest target of a link (PATH_MAX), and more than any name.
const LONGEST_NAME: usize = 4096;

/// More directories inside each other are an attack on our memory.
const DEEPEST: usize = 1_000;

fn complain(what: &str, path: &Path, why: &dyn std::fmt::Display) {
    let path = text::escaped(path.as_os_str().as_bytes());
    cli::warn("nbs-ts", &format!("cannot {what} '{path}': {why}"));
}

/// Describes files on standard output. The first word is `recursive`, or not; the others are paths.
pub(crate) fn send(words: &[OsString]) -> Result<()> {
    let what = "send files";
    let [how, paths @ ..] = words else { return Err(cli::by_hand()) };
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned().trying(what)?);
    child::widen(&stdout);
    let splice_pipe = Some(SplicePipe::new(stdout.try_clone().trying(what)?).trying(what)?);
    result_of(send_onto(&mut SplicedOutput { stdout, splice_pipe }, how == RECURSIVE, paths), what)
}

/// The destination of the stream that describes files.
pub(crate) trait CopySink: Write {
    /// Sends at most `most` bytes of a file from offset `at`, with their length before them, in fewer copies than
    /// writing them takes. Returns how many: 0 at the end of the file, and `None` if they must be written instead.
    /// Errors are the sink's.
    fn send_chunk(&mut self, file: &File, at: u64, most: usize) -> io::Result<Option<usize>>;
}

struct SplicedOutput {
    stdout: File,
    /// `None`: a file could not be sent by it.
    splice_pipe: Option<SplicePipe>,
}

impl Write for SplicedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stdout.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CopySink for SplicedOutput {
    fn send_chunk(&mut self, file: &File, at: u64, most: usize) -> io::Result<Option<usize>> {
        let Some(splice_pipe) = &self.splice_pipe else { return Ok(None) };
        loop {
            match splice_pipe.take(file, at, most) {
                Ok(0) => return Ok(Some(0)),
                Ok(count) => {
                    self.stdout.write_all(&(count as u32).to_le_bytes())?;
                    splice_pipe.pass_on(count)?;
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == Interrupted => {}
                // The file system does not support it, or a sandbox forbids it. Reading shows other errors.
                Err(_) => {
                    self.splice_pipe = None;
                    return Ok(None);
                }
            }
        }
    }
}

/// The result of a process that is one end of a copy. If the other end has gone, that one prints the reason.
fn result_of(done: io::Result<bool>, what: &str) -> Result<()> {
    match done {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::quiet()),
        Err(error) if matches!(error.kind(), BrokenPipe | UnexpectedEof) => Err(Failure::quiet()),
        Err(error) => Err(error).trying(what),
    }
}

/// Describes files; returns whether everything could be read. Errors are the sink's.
pub(crate) fn send_onto(sink: &mut dyn CopySink, recursive: bool, paths: &[OsString]) -> io::Result<bool> {
    child::raise_open_files()?;
    let out = BufWriter::with_capacity(READ_AT_ONCE, sink);
    let buffer = Buffer::new(LENGTH.end + LONGEST_CHUNK);
    let mut sender = Sender { out, recursive, failed: false, buffer };
    for path in paths {
        sender.top(Path::new(path))?;
    }
    sender.out.write_all(b"E")?;
    sender.out.flush()?;
    Ok(!sender.failed)
}

pub(crate) const RECURSIVE: &str = "recursive";

/// The name that is sent for a path: none for `.` and the like, which are copied without their own.
pub(crate) fn sent_name(path: &Path) -> Option<&OsStr> {
    let ends_in_dot = path.as_os_str().as_bytes().ends_with(b"/.") || path == Path::new(".");
    path.file_name().filter(|_| !ends_in_dot)
}

struct Sender<'a> {
    out: BufWriter<&'a mut dyn CopySink>,
    recursive: bool,
    /// Something could not be read.
    failed: bool,
    /// A chunk with its length.
    buffer: Buffer,
}

/// Errors are those of the stream.
impl Sender<'_> {
    fn complain(&mut self, path: &Path, why: &dyn std::fmt::Display) {
        self.failed = true;
        complain("copy", path, why);
    }

    fn top(&mut self, path: &Path) -> io::Result<()> {
        let name = sent_name(path);
        let parent = match name {
            Some(_) => path.parent().filter(|parent| !parent.as_os_str().is_empty()),
            None => Some(path),
        };
        match Folder::open(parent.unwrap_or(Path::new("."))) {
            Ok(folder) => self.entry(
                &folder,
                name.unwrap_or(OsStr::new(".")),
                name.unwrap_or_default(),
                path,
                !self.recursive,
            ),
            Err(error) => {
                self.complain(path, &error);
                Ok(())
            }
        }
    }

    fn entry(
        &mut self,
        folder: &Folder,
        name: &OsStr,
        sent_as: &OsStr,
        path: &Path,
        follows: bool,
    ) -> io::Result<()> {
        let (kind, attributes) = match copies::look(folder, name, follows) {
            Ok(found) => found,
            Err(error) => {
                self.complain(path, &error);
                return Ok(());
            }
        };
        let failed = match kind {
            Kind::File => match copies::open(folder, name, follows) {
                Ok((file, attributes, size)) => {
                    self.header(b'F', sent_as, attributes)?;
                    return self.data(&file, size, path);
                }
                Err(error) => error,
            },
            Kind::Folder if !self.recursive => io::Error::other("it is a directory; add -r"),
            Kind::Folder => match folder.open_folder(name).and_then(|inner| Ok((inner.names()?, inner))) {
                Ok((mut names, inner)) => {
                    names.sort_unstable();
                    self.header(b'D', sent_as, attributes)?;
                    for name in names {
                        self.entry(&inner, &name, &name, &path.join(&name), false)?;
                    }
                    return self.out.write_all(b"U");
                }
                Err(error) => error,
            },
            Kind::Link => match copies::target_of(folder, name) {
                Ok(target) => {
                    self.header(b'L', sent_as, attributes)?;
                    return self.text(&target);
                }
                Err(error) => error,
            },
            Kind::Other => io::Error::other("it is not a file, a directory or a link"),
        };
        self.complain(path, &failed);
        Ok(())
    }

    fn text(&mut self, text: &OsStr) -> io::Result<()> {
        self.out.write_all(&(text.len() as u32).to_le_bytes())?;
        self.out.write_all(text.as_bytes())
    }

    fn header(&mut self, kind: u8, name: &OsStr, attributes: Attributes) -> io::Result<()> {
        self.out.write_all(&[kind])?;
        self.text(name)?;
        self.out.write_all(&attributes.mode.to_le_bytes())?;
        self.out.write_all(&attributes.seconds.to_le_bytes())?;
        self.out.write_all(&attributes.nanoseconds.to_le_bytes())
    }

    fn hole(&mut self, length: u64) -> io::Result<()> {
        self.out.write_all(&HOLE.to_le_bytes())?;
        self.out.write_all(&length.to_le_bytes())
    }

    /// `size`: that of a file without holes.
    fn data(&mut self, file: &File, size: Option<u64>, path: &Path) -> io::Result<()> {
        let (mut at, mut end) = (0, size.unwrap_or(0));
        let whole = file.metadata().map_or(0, |found| found.len());
        let failed = loop {
            if at >= end {
                if size.is_some() {
                    break None;
                }
                let start;
                (start, end) = match copies::next_data(file, at) {
                    Ok(Some(data)) => data,
                    Ok(None) => match file.metadata() {
                        Ok(found) if found.len() > at => {
                            self.hole(found.len() - at)?;
                            break None;
                        }
                        Ok(_) => break has_shrunk(file, whole),
                        Err(error) => break Some(error),
                    },
                    Err(error) => break Some(error),
                };
                if start > at {
                    self.hole(start - at)?;
                    at = start;
                }
            }
            let most = (end - at).min(LONGEST_CHUNK as u64) as usize;
            if most >= WORTH_SENDING {
                self.out.flush()?;
                match self.out.get_mut().send_chunk(file, at, most)? {
                    Some(0) => break has_shrunk(file, whole),
                    Some(count) => {
                        at += count as u64;
                        continue;
                    }
                    None => {}
                }
            }
            match file.read_at(&mut self.buffer[LENGTH.end..][..most], at) {
                Ok(0) => break has_shrunk(file, whole),
                Ok(count) => {
                    self.buffer[LENGTH].copy_from_slice(&(count as u32).to_le_bytes());
                    self.out.write_all(&self.buffer[LENGTH.start..][..LENGTH.len() + count])?;
                    at += count as u64;
                }
                Err(error) if error.kind() == Interrupted => {}
                Err(error) => break Some(error),
            }
        };
        let last = if failed.is_some() { FAILED } else { END };
        if let Some(error) = failed {
            self.complain(path, &error);
        }
        self.out.write_all(&last.to_le_bytes())
    }
}

/// The error if this file has fewer bytes than `whole`, which it had before.
fn has_shrunk(file: &File, whole: u64) -> Option<io::Error> {
    let has = file.metadata().is_ok_and(|found| found.len() < whole);
    has.then(|| io::Error::other("it became shorter while it was copied"))
}

/// Writes what standard input describes; the words are those of [`receive_from`].
pub(crate) fn receive(words: &[OsString]) -> Result<()> {
    let what = "receive files";
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned().trying(what)?);
    child::widen(&stdin);
    let mut input = Input { stdin, buffer: Buffer::new(READ_AT_ONCE), unread: 0..0 };
    result_of(receive_from(&mut input, words)?, what)
}

/// Writes what that reader describes; returns whether everything could be written. The inner errors are the
/// reader's. The first word is `into`, if the target must be a directory; the second is `recursive`, or not;
/// the third is the target, and the others are the names to come.
pub(crate) fn receive_from(input: &mut dyn BufRead, words: &[OsString]) -> Result<io::Result<bool>> {
    let [how, recursive, target, names @ ..] = words else { return Err(cli::by_hand()) };
    child::raise_open_files().trying("receive files")?;
    let target = Target::open(Path::new(target), how == INTO)?;
    let recursive = recursive == RECURSIVE;
    let last = random::bytes().map(u64::from_le_bytes).trying("choose names")?;
    let mut receiver = Receiver { input, target, recursive, names, levels: Vec::new(), failed: false, last };
    Ok(receiver.receive().map(|()| !receiver.failed))
}

/// Standard input, buffered.
struct Input {
    stdin: File,
    buffer: Buffer,
    /// The place of the unread bytes in it.
    unread: Range<usize>,
}

impl Read for Input {
    fn read(&mut self, onto: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(onto)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.unread.is_empty() {
            self.unread = 0..self.stdin.read(&mut self.buffer)?;
        }
        Ok(&self.buffer[self.unread.clone()])
    }

    fn consume(&mut self, count: usize) {
        self.unread.start += count;
    }
}

pub(crate) const INTO: &str = "into";

/// The target of the copies, by the rules of cp(1).
struct Target {
    path: PathBuf,
    folder: Rc<Folder>,
    /// `None`: into that directory.
    name: Option<OsString>,
}

impl Target {
    fn open(path: &Path, must_be_folder: bool) -> Result<Target> {
        let trying = |path: &Path| format!("copy to '{}'", text::escaped(path.as_os_str().as_bytes()));
        let is_folder = must_be_folder || path.as_os_str().as_bytes().ends_with(b"/");
        match Folder::open(path) {
            Ok(folder) => return Ok(Target { path: path.to_owned(), folder: folder.into(), name: None }),
            Err(error) if is_folder => return Err(error).trying(trying(path)),
            Err(_) => {}
        }
        let Some(name) = path.file_name() else {
            return Err(io::Error::from(io::ErrorKind::NotADirectory)).trying(trying(path));
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = Folder::open(parent).trying(trying(path))?;
        Ok(Target { path: parent.to_owned(), folder: folder.into(), name: Some(name.to_owned()) })
    }
}

/// A directory that is being written.
struct Level {
    /// `None`: it could not be made, and what is in it is passed over.
    folder: Option<Rc<Folder>>,
    path: PathBuf,
    /// `None`: it keeps its own.
    attributes: Option<Attributes>,
}

struct Receiver<'a> {
    input: &'a mut dyn BufRead,
    target: Target,
    /// May there be other things than files?
    recursive: bool,
    names: &'a [OsString],
    levels: Vec<Level>,
    /// Something could not be written.
    failed: bool,
    /// The number in the last temporary name. The first one is random.
    last: u64,
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other end sent invalid data")
}

/// Errors are those of the stream.
impl Receiver<'_> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn text(&mut self) -> io::Result<OsString> {
        let length = self.u32()? as usize;
        if length > LONGEST_NAME {
            return Err(nonsense());
        }
        let mut bytes = vec![0; length];
        self.input.read_exact(&mut bytes)?;
        if bytes.contains(&0) { Err(nonsense()) } else { Ok(OsString::from_vec(bytes)) }
    }

    fn complain(&mut self, path: &Path, why: &dyn std::fmt::Display) {
        self.failed = true;
        complain("write", path, why);
    }

    fn temporary_name(&mut self) -> String {
        self.last = self.last.wrapping_add(1);
        format!(".nbs-{:016x}", self.last)
    }

    fn receive(&mut self) -> io::Result<()> {
        loop {
            match self.array()? {
                [b'E'] if self.levels.is_empty() => return Ok(()),
                [b'U'] => self.leave()?,
                [kind @ (b'F' | b'D' | b'L')] => self.entry(kind)?,
                _ => return Err(nonsense()),
            }
        }
    }

    fn leave(&mut self) -> io::Result<()> {
        let level = self.levels.pop().ok_or_else(nonsense)?;
        if let (Some(folder), Some(attributes)) = (&level.folder, level.attributes)
            && let Err(error) = attributes.set(folder)
        {
            self.complain(&level.path, &error);
        }
        Ok(())
    }

    fn entry(&mut self, kind: u8) -> io::Result<()> {
        let name = self.text()?;
        let attributes = Attributes {
            mode: self.u32()? & 0o1777,
            seconds: self.array().map(i64::from_le_bytes)?,
            nanoseconds: self.u32()?,
        };
        let is_component =
            !name.is_empty() && name != "." && name != ".." && !name.as_bytes().contains(&b'/');
        let is_top = self.levels.is_empty();
        let is_right = (is_component || name.is_empty() && kind == b'D' && is_top)
            && (!is_top || self.names.contains(&name))
            && (kind == b'F' || self.recursive && self.levels.len() < DEEPEST);
        if !is_right || attributes.nanoseconds >= 1_000_000_000 {
            return Err(nonsense());
        }
        let (folder, name, path) = match self.levels.last() {
            Some(level) => (level.folder.clone(), name.clone(), level.path.join(&name)),
            None => {
                let name = self.target.name.clone().unwrap_or(name);
                (Some(self.target.folder.clone()), name.clone(), self.target.path.join(&name))
            }
        };
        match kind {
            b'D' => {
                self.folder(folder, &name, path, attributes);
                Ok(())
            }
            b'L' => {
                let target = self.text()?;
                let temporary = self.temporary_name();
                let made =
                    folder.map_or(Ok(()), |folder| make_link(&folder, temporary, &name, &target, attributes));
                if let Err(error) = made {
                    self.complain(&path, &error);
                }
                Ok(())
            }
            _ => self.file(folder, &name, &path, attributes),
        }
    }

    fn folder(&mut self, above: Option<Rc<Folder>>, name: &OsStr, path: PathBuf, attributes: Attributes) {
        let opened = above.map(|above| match name.is_empty() {
            true => Ok((above, None)),
            false => match above.make_folder(name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    above.open_folder(name).map(|folder| (folder.into(), Some(attributes)))
                }
                made => made.map(|folder| (folder.into(), Some(attributes))),
            },
        });
        let (folder, attributes) = match opened.transpose() {
            Ok(opened) => opened.map_or((None, None), |(folder, attributes)| (Some(folder), attributes)),
            Err(error) => {
                self.complain(&path, &error);
                (None, None)
            }
        };
        self.levels.push(Level { folder, path, attributes });
    }

    fn file(
        &mut self,
        folder: Option<Rc<Folder>>,
        name: &OsStr,
        path: &Path,
        attributes: Attributes,
    ) -> io::Result<()> {
        let temporary = self.temporary_name();
        let begun = folder.map(|folder| Unfinished::begin(folder, temporary)).transpose();
        let mut unfinished = begun.unwrap_or_else(|error| {
            self.complain(path, &error);
            None
        });
        let (mut at, mut ends_in_hole) = (0_u64, false);
        loop {
            let written = match self.u32()? {
                END => break,
                // The sender has said why.
                FAILED => return Ok(()),
                HOLE => {
                    ends_in_hole = true;
                    let length = self.array().map(u64::from_le_bytes)?;
                    at = at
                        .checked_add(length)
                        .filter(|at| i64::try_from(*at).is_ok())
                        .ok_or_else(nonsense)?;
                    Ok(())
                }
                length if length as usize <= LONGEST_CHUNK => {
                    let place = at;
                    ends_in_hole = false;
                    at = at.checked_add(length.into()).ok_or_else(nonsense)?;
                    self.chunk(unfinished.as_ref(), place..at)?
                }
                _ => return Err(nonsense()),
            };
            if let Err(error) = written {
                // The rest of it is read and passed over.
                unfinished = None;
                self.complain(path, &error);
            }
        }
        let size = ends_in_hole.then_some(at);
        let is_top = self.levels.is_empty();
        let finished =
            unfinished.map_or(Ok(()), |unfinished| unfinished.finish(name, size, attributes, is_top));
        if let Err(error) = finished {
            self.complain(path, &error);
        }
        Ok(())
    }

    /// Writes that part of a file from the input's buffer. The inner error is the file's.
    fn chunk(
        &mut self,
        unfinished: Option<&Unfinished>,
        mut range: Range<u64>,
    ) -> io::Result<io::Result<()>> {
        let mut written = Ok(());
        while range.start < range.end {
            let bytes = match self.input.fill_buf() {
                Ok([]) => return Err(UnexpectedEof.into()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == Interrupted => continue,
                Err(error) => return Err(error),
            };
            let count = bytes.len().min((range.end - range.start) as usize);
            if let (Some(unfinished), Ok(())) = (unfinished, &written) {
                written = unfinished.file.write_all_at(&bytes[..count], range.start);
            }
            self.input.consume(count);
            range.start += count as u64;
        }
        Ok(written)
    }
}

/// A link, too, appears by a rename, in the place of what has that name.
fn make_link(
    folder: &Folder,
    temporary: String,
    name: &OsStr,
    target: &OsStr,
    attributes: Attributes,
) -> io::Result<()> {
    copies::check_replaceable(folder, name, false)?;
    copies::make_link(folder, target, &temporary)?;
    let temporary = OsStr::new(&temporary);
    // Not every file system has times of links.
    let _ = attributes.set_of_link(folder, temporary);
    folder.rename_over(temporary, name).inspect_err(|_| {
        let _ = folder.remove_file(temporary);
    })
}

/// A file under a temporary name, which is removed unless it gets its own.
struct Unfinished {
    folder: Rc<Folder>,
    temporary: String,
    file: File,
    is_finished: bool,
}

impl Unfinished {
    fn begin(folder: Rc<Folder>, temporary: String) -> io::Result<Unfinished> {
        let file = copies::create(&folder, &temporary)?;
        Ok(Unfinished { folder, temporary, file, is_finished: false })
    }

    /// `size`: of a file that ends in a hole. `is_top`: the caller named it.
    fn finish(
        mut self,
        name: &OsStr,
        size: Option<u64>,
        attributes: Attributes,
        is_top: bool,
    ) -> io::Result<()> {
        size.map_or(Ok(()), |size| self.file.set_len(size))?;
        attributes.set(&self.file)?;
        copies::check_replaceable(&self.folder, name, is_top)?;
        self.folder.rename_over(OsStr::new(&self.temporary), name)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_finished {
            // If it has gone already, the result is the same.
            let _ = self.folder.remove_file(OsStr::new(&self.temporary));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{rounds, spoiled};

    /// A directory that goes with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Scratch {
            let path = std::env::temp_dir().join(format!("nbs-copy-{}", random::hex::<8>().unwrap()));
            std::fs::create_dir(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Truncates the file as soon as some of it has been sent.
    struct Cutting(PathBuf, Vec<u8>);

    impl Write for Cutting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.extend_from_slice(bytes);
            std::fs::write(&self.0, "")?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl CopySink for Cutting {
        fn send_chunk(&mut self, _: &File, _: u64, _: usize) -> io::Result<Option<usize>> {
            Ok(None)
        }
    }

    #[test]
    fn a_file_that_becomes_shorter_meanwhile_is_not_copied() {
        let scratch = Scratch::new();
        let path = scratch.0.join("f");
        std::fs::write(&path, vec![b'x'; 3 * LONGEST_CHUNK]).unwrap();
        let mut writer = Cutting(path.clone(), Vec::new());
        assert!(!send_onto(&mut writer, false, &[path.into()]).unwrap());
        assert!(writer.1.ends_with(&[&FAILED.to_le_bytes()[..], b"E"].concat()));
    }

    fn header(kind: u8, name: &[u8]) -> Vec<u8> {
        let length = (name.len() as u32).to_le_bytes();
        let attributes = [&0o755_u32.to_le_bytes()[..], &1_i64.to_le_bytes(), &2_u32.to_le_bytes()].concat();
        [&[kind], &length[..], name, &attributes].concat()
    }

    fn file(name: &[u8], content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_le_bytes();
        [&header(b'F', name)[..], &length, content, &END.to_le_bytes()].concat()
    }

    fn link(name: &[u8], target: &[u8]) -> Vec<u8> {
        [&header(b'L', name)[..], &(target.len() as u32).to_le_bytes(), target].concat()
    }

    /// As an answer to what asked for all names with one letter.
    fn receive(target: &Path, stream: &[u8]) -> (io::Result<()>, bool) {
        let names: Vec<OsString> = ('a'..='z').map(|letter| letter.to_string().into()).collect();
        receive_of(target, true, &names, stream)
    }

    fn receive_of(
        target: &Path,
        recursive: bool,
        names: &[OsString],
        mut input: &[u8],
    ) -> (io::Result<()>, bool) {
        let target = Target::open(target, false).unwrap();
        let input = &mut input;
        let levels = Vec::new();
        let mut receiver = Receiver { input, target, recursive, names, levels, failed: false, last: 0 };
        (receiver.receive(), receiver.failed)
    }

    #[test]
    fn only_what_was_asked_for_is_written() {
        let scratch = Scratch::new();
        let end = b"E".to_vec();
        let folder = [header(b'D', b"a"), file(b".bashrc", b"x"), b"U".to_vec(), end.clone()].concat();
        let unnamed = [header(b'D', b""), file(b".bashrc", b"x"), b"U".to_vec(), end.clone()].concat();
        // Asked for with `-r`, the name asked for, what came, and whether it is right.
        let cases = [
            (false, "a", [file(b"a", b"x"), end.clone()].concat(), true),
            (false, "a", [file(b".bashrc", b"x"), end.clone()].concat(), false),
            (false, "a", [file(b"a", b"x"), file(b".bashrc", b"x"), end.clone()].concat(), false),
            (false, "a", [link(b"a", b"/"), end.clone()].concat(), false),
            (false, "a", folder.clone(), false),
            (false, "", unnamed.clone(), false),
            (true, "a", folder.clone(), true),
            (true, "b", folder, false),
            (true, "a", unnamed.clone(), false),
            (true, "", unnamed, true),
            (true, "", [file(b"", b"x"), end.clone()].concat(), false),
        ];
        for (number, (recursive, name, stream, is_right)) in cases.into_iter().enumerate() {
            let target = scratch.0.join(number.to_string());
            std::fs::create_dir(&target).unwrap();
            let (received, _) = receive_of(&target, recursive, &[name.into()], &stream);
            assert_eq!(received.is_ok(), is_right, "{number}");
            assert_eq!(target.join(".bashrc").exists(), is_right && name.is_empty(), "{number}");
        }
        // A size that no file can have, and pieces that do not fit in.
        let hole = |length: u64| [HOLE.to_le_bytes().to_vec(), length.to_le_bytes().to_vec()].concat();
        for (pieces, is_right) in [
            (hole(u64::MAX), false),
            (hole(i64::MAX as u64 + 1), false),
            ([hole(i64::MAX as u64), hole(1)].concat(), false),
            ([hole(i64::MAX as u64), 1_u32.to_le_bytes().to_vec(), vec![b'x']].concat(), true),
            ((LONGEST_CHUNK as u32 + 1).to_le_bytes().to_vec(), false),
        ] {
            let stream =
                [header(b'F', b"a"), pieces.clone(), END.to_le_bytes().to_vec(), end.clone()].concat();
            let (received, _) = receive_of(&scratch.0, false, &["a".into()], &stream);
            assert_eq!(received.is_ok(), is_right, "{pieces:?}");
            assert!(!scratch.0.join("a").exists());
        }
        // Directories inside each other, without an end.
        std::fs::write(scratch.0.join("a"), "no directory").unwrap();
        for (depth, is_right) in [(DEEPEST, true), (DEEPEST + 1, false)] {
            let stream = [header(b'D', b"a").repeat(depth), b"U".repeat(depth), end.clone()].concat();
            assert_eq!(receive_of(&scratch.0, true, &["a".into()], &stream).0.is_ok(), is_right);
        }
    }

    #[test]
    fn nothing_is_written_outside_the_target() {
        let scratch = Scratch::new();
        let (inside, outside) = (scratch.0.join("in"), scratch.0.join("out"));
        for folder in [&inside, &outside] {
            std::fs::create_dir(folder).unwrap();
        }
        let out = outside.as_os_str().as_bytes();
        let names: [&[u8]; 7] = [b"..", b".", b"", b"../x", b"/x", b"a/b", b"a\0b"];
        for name in names {
            assert!(receive(&inside, &file(name, b"x")).0.is_err(), "{name:?}");
            let within = [header(b'D', b"d"), header(b'D', name)].concat();
            assert!(receive(&inside, &within).0.is_err(), "{name:?}");
        }
        // A link, and then something by its name.
        let by_link = [link(b"l", out), header(b'D', b"l"), file(b"x", b"x"), b"U".to_vec(), b"E".to_vec()];
        let (received, failed) = receive(&inside, &by_link.concat());
        assert!(received.is_ok() && failed);
        std::fs::write(outside.join("safe"), "safe").unwrap();
        let to_file = [out, b"/safe"].concat();
        let by_link = [link(b"m", &to_file), file(b"m", b"changed"), b"E".to_vec()].concat();
        assert!(matches!(receive(&inside, &by_link), (Ok(()), false)));
        assert_eq!(std::fs::read(outside.join("safe")).unwrap(), b"safe");
        assert_eq!(std::fs::read(inside.join("m")).unwrap(), b"changed");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
        // More ways out than in.
        assert!(receive(&inside, b"UE").0.is_err());
    }

    #[test]
    fn no_mode_gives_the_rights_of_another_user_and_a_name_that_comes_twice_is_one_file() {
        use std::os::unix::fs::PermissionsExt;

        let scratch = Scratch::new();
        let mut special = file(b"s", b"x");
        // The mode follows the kind, and the length and the only byte of the name.
        special[6..10].copy_from_slice(&u32::MAX.to_le_bytes());
        let folder = |name: &[u8]| [header(b'D', name), b"U".to_vec()].concat();
        // A file in the place of a directory, and the reverse, is not written.
        let twice = [file(b"a", b"1"), file(b"a", b"2"), folder(b"a"), folder(b"d"), file(b"d", b"x")];
        let (received, failed) = receive(&scratch.0, &[special, twice.concat(), b"E".to_vec()].concat());
        assert!(received.is_ok() && failed);
        let mode = std::fs::metadata(scratch.0.join("s")).unwrap().permissions().mode();
        assert_eq!(mode & 0o6000, 0, "{mode:o}");
        assert_eq!(std::fs::read(scratch.0.join("a")).unwrap(), b"2");
        assert!(scratch.0.join("d").is_dir());
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 3);
    }

    #[test]
    fn whatever_comes_is_an_error_or_lands_inside_and_nothing_is_left_half() {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.0.join("in")).unwrap();
        let parts = [
            file(b"a", b"12345"),
            header(b'D', b"d"),
            file(b"b", &[b'x'; 100]),
            link(b"c", b"../.."),
            header(b'D', b"e"),
            b"UU".to_vec(),
            file(b"f", b""),
            b"E".to_vec(),
        ];
        let right = parts.concat();
        for (seed, mut random) in rounds(300) {
            let _ = receive(&scratch.0.join("in"), &spoiled(&right, &mut random));
            let _ = receive(&scratch.0.join("in"), &right[..random.usize(..right.len())]);
            assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1, "seed {seed}");
            let left = std::fs::read_dir(scratch.0.join("in")).unwrap();
            let is_half = |name: &OsStr| name.as_bytes().starts_with(b".nbs-");
            assert!(!left.flatten().any(|entry| is_half(&entry.file_name())), "seed {seed}");
            // A mode may be one that nobody can write with.
            std::fs::remove_dir_all(scratch.0.join("in")).unwrap();
            std::fs::create_dir(scratch.0.join("in")).unwrap();
        }
    }
}
