//! output.log: the terminal's output, readable from any offset.
//!
//! A log may hold gigabytes, so it is read in blocks and never as a whole.
//!
//! A bounded log loses its oldest bytes at any time. Its new start is written before they go: so bytes are
//! valid only if they lie behind the start when that is read after them. Readers get dropped bytes as a gap.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt, time::Duration};

use crate::{
    numbers::number,
    sys::files::{self, Folder},
};

/// The file with the offset at which output.log begins now, if it is bounded.
pub(crate) const LOG_START: &str = "log_start";

pub(crate) struct OutputLog {
    file: File,
    // For a bounded log: the directory that has the offset of its start.
    bounded: Option<Folder>,
}

/// A stretch of a log, read piece by piece.
pub(crate) struct Pieces<'a> {
    log: &'a OutputLog,
    // The offset of the next piece.
    offset: u64,
    end: u64,
    // How much is read at once.
    length: usize,
    buffer: Vec<u8>,
    // The offset in the buffer at which its first page begins.
    page: usize,
    // The part of the buffer that was read and not yet returned.
    read: Range<usize>,
}

/// The next part of a log.
pub(crate) enum Piece<'a> {
    /// This many bytes are gone.
    Gap(u64),
    Bytes(&'a [u8]),
}

/// Large enough that the system calls cost nothing beside the copying, small
/// enough to stay in a processor's cache.
const BLOCK: usize = 256 * 1024;

/// The size of a read at the end of the log: a buffer costs the time to clear it.
const LITTLE: usize = 8 * 1024;

/// A byte has the same offset in the buffer's page as in the file's page: the kernel may take six times as
/// long to copy to 16 bytes behind that (seen on an AMD EPYC).
const PAGE: usize = 4096;

/// A number, and more.
const LONGEST_START: u64 = 128;

impl OutputLog {
    /// The size of the log's end that is searched for the last output.
    pub(crate) const TAIL: u64 = 64 * 1024;

    pub(crate) fn new(file: File, bounded: Option<Folder>) -> OutputLog {
        OutputLog { file, bounded }
    }

    /// The number of bytes, including those that are gone.
    pub(crate) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// How long nothing has been printed.
    pub(crate) fn age(&self) -> io::Result<Duration> {
        Ok(self.file.metadata()?.modified()?.elapsed().unwrap_or(Duration::MAX))
    }

    /// How many bytes are gone now.
    pub(crate) fn start(&self) -> io::Result<u64> {
        let Some(folder) = &self.bounded else { return Ok(0) };
        match folder.read(LOG_START, LONGEST_START) {
            // The session has been removed; the file that we hold changes no more.
            Err(error) if error.kind() == io::ErrorKind::NotFound => files::first_data(&self.file),
            digits => number(digits?.trim_ascii_end())
                .ok_or_else(|| io::Error::other(format!("'{LOG_START}' does not contain a number"))),
        }
    }

    /// The offset of the first byte that uses disk space.
    pub(crate) fn first_data(&self) -> io::Result<u64> {
        files::first_data(&self.file)
    }

    /// The bytes from `start` to `end`, or to the end of the log.
    pub(crate) fn pieces(&self, start: u64, end: u64) -> Pieces<'_> {
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or(BLOCK);
        let there =
            self.length().map_or(BLOCK, |there| there.saturating_sub(start).min(BLOCK as u64) as usize);
        let length = length.min(there.max(LITTLE));
        let buffer = vec![0; if length < BLOCK { length } else { 2 * PAGE + length }];
        let page = if length < BLOCK { 0 } else { buffer.as_ptr().align_offset(PAGE) };
        Pieces { log: self, offset: start, end, length, buffer, page, read: 0..0 }
    }

    /// The bytes from `start` to `end`; fewer if the log ends before. If some were dropped, those after them.
    pub(crate) fn bytes(&self, start: u64, end: u64) -> io::Result<Vec<u8>> {
        let (mut pieces, mut bytes) = (self.pieces(start, end), Vec::new());
        while let Some(piece) = pieces.next()? {
            match piece {
                Piece::Gap(_) => bytes.clear(),
                Piece::Bytes(block) => bytes.extend_from_slice(block),
            }
        }
        Ok(bytes)
    }

    /// The offset at which the last `count` lines before `end` begin. A newline at the very end ends the last
    /// line; it does not begin another. 0 if there are fewer lines (left).
    pub(crate) fn start_of_last_lines(&self, count: u64, end: u64) -> io::Result<u64> {
        if count == 0 {
            return Ok(end);
        }
        let mut left = count;
        let mut block_end = end;
        while block_end > 0 {
            let block_start = block_end.saturating_sub(BLOCK as u64);
            let block = self.bytes(block_start, block_end)?;
            let there = block_end - block.len() as u64;
            for at in memchr::memrchr_iter(b'\n', &block) {
                let next_line = there + at as u64 + 1;
                if next_line == end {
                    continue;
                }
                left -= 1;
                if left == 0 {
                    return Ok(next_line);
                }
            }
            if there > block_start {
                break;
            }
            block_end = block_start;
        }
        Ok(0)
    }

    /// The end of the log.
    pub(crate) fn tail(&self) -> io::Result<Vec<u8>> {
        let end = self.length()?;
        self.bytes(end.saturating_sub(OutputLog::TAIL), end)
    }
}

impl Pieces<'_> {
    /// `None` at the end of the range or of the log.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        if self.read.is_empty() {
            if self.offset >= self.end {
                return Ok(None);
            }
            let there = self.log.start()?.clamp(self.offset, self.end);
            if there > self.offset {
                return Ok(Some(self.gap_to(there)));
            }
            let wanted = self.length.min(usize::try_from(self.end - self.offset).unwrap_or(BLOCK));
            let at = match self.length < BLOCK {
                true => 0,
                false => self.page + usize::try_from(self.offset).unwrap_or(0) % PAGE,
            };
            let count = self.log.file.read_at(&mut self.buffer[at..at + wanted], self.offset)?;
            if count == 0 {
                return Ok(None);
            }
            self.read = at..at + count;
            // Bytes that were dropped during the read were read as zeros.
            let there = self.log.start()?.clamp(self.offset, self.offset + count as u64);
            if there > self.offset {
                self.read.start += usize::try_from(there - self.offset).unwrap_or(count);
                return Ok(Some(self.gap_to(there)));
            }
        }
        let read = std::mem::take(&mut self.read);
        self.offset += read.len() as u64;
        Ok(Some(Piece::Bytes(&self.buffer[read])))
    }

    fn gap_to(&mut self, offset: u64) -> Piece<'static> {
        let gone = offset - self.offset;
        self.offset = offset;
        Piece::Gap(gone)
    }

    /// How far in the log it has come.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

#[cfg(test)]
impl OutputLog {
    /// A log with this content.
    pub(crate) fn of(content: &[u8]) -> OutputLog {
        let path =
            std::env::temp_dir().join(format!("nbs-log-{}-{:x}", std::process::id(), fastrand::u64(..)));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        io::Write::write_all(&mut file, content).unwrap();
        OutputLog::new(file, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_begin_where_a_naive_count_says() {
        let mut long: Vec<u8> = (0..200_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        long.extend_from_slice(b"unfinished");
        for content in [&b""[..], b"a", b"a\n", b"a\nb", b"a\nb\n", b"\n\n\n", &long] {
            let log = OutputLog::of(content);
            for count in [0, 1, 2, 3, 1_000, 150_000, 1_000_000] {
                let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
                let kept = lines.len().min(count);
                let expected: usize = content.len() - lines[lines.len() - kept..].concat().len();
                let end = content.len() as u64;
                assert_eq!(log.start_of_last_lines(count as u64, end).unwrap(), expected as u64, "{count}");
            }
        }
    }

    #[test]
    fn blocks_are_all_the_bytes_in_order() {
        let content: Vec<u8> = (0..3 * BLOCK + 5).map(|n| (n % 251) as u8).collect();
        let log = OutputLog::of(&content);
        assert_eq!(log.bytes(0, u64::MAX).unwrap(), content);
        assert_eq!(log.bytes(7, 9).unwrap(), content[7..9]);
        assert_eq!(log.bytes(9, 7).unwrap(), b"");
    }

    #[test]
    fn output_dropped_while_reading_is_counted_and_not_returned() {
        let folder = std::env::temp_dir().join(format!("nbs-log-{}", fastrand::u64(..)));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("output.log");
        const LENGTH: usize = 16 * BLOCK;
        std::fs::write(&path, vec![b'x'; LENGTH]).unwrap();
        std::fs::write(folder.join(LOG_START), "0").unwrap();
        let open = || Folder::open(&folder).unwrap();
        let log = OutputLog::new(File::open(&path).unwrap(), Some(open()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (file, folder) = (File::options().write(true).open(&path).unwrap(), open());
                for start in (0..=LENGTH as u64).step_by(4096).skip(1) {
                    folder.replace(LOG_START, start.to_string().as_bytes()).unwrap();
                    files::punch(&file, 0, start).unwrap();
                }
            });
            while log.start().unwrap() < LENGTH as u64 {
                let (mut given, mut lost, mut pieces) = (0, 0, log.pieces(0, u64::MAX));
                while let Some(piece) = pieces.next().unwrap() {
                    match piece {
                        Piece::Gap(gone) => lost += usize::try_from(gone).unwrap(),
                        Piece::Bytes(block) => {
                            assert!(block.iter().all(|byte| *byte == b'x'));
                            given += block.len();
                        }
                    }
                }
                // All is either given or lost.
                assert_eq!((pieces.offset(), given + lost), (LENGTH as u64, LENGTH));
            }
        });
        assert_eq!(log.bytes(0, u64::MAX).unwrap(), b"");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
