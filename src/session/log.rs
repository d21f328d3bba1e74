//! output.log: what the terminal printed, read from any offset.
//!
//! A log may hold gigabytes, so it is read in blocks and never as a whole.

use std::{fs::File, io, os::unix::fs::FileExt};

use crate::{session::Evidence, text};

pub(crate) struct Log(File);

/// Large enough that the system calls cost nothing beside the copying, small
/// enough to stay in a processor's cache.
const BLOCK: usize = 256 * 1024;

impl Log {
    pub(crate) fn new(file: File) -> Log {
        Log(file)
    }

    /// How many bytes there are now.
    pub(crate) fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Gives the bytes from `start` to `end`, block by block, until `each`
    /// says `false` or there are no more. Returns the offset that it came to.
    pub(crate) fn blocks<E: From<io::Error>>(
        &self,
        start: u64,
        end: u64,
        mut each: impl FnMut(&[u8]) -> Result<bool, E>,
    ) -> Result<u64, E> {
        let mut buffer = vec![0; BLOCK.min(usize::try_from(end.saturating_sub(start)).unwrap_or(BLOCK))];
        let mut offset = start;
        while offset < end {
            let wanted = buffer.len().min(usize::try_from(end - offset).unwrap_or(BLOCK));
            let count = self.0.read_at(&mut buffer[..wanted], offset)?;
            if count == 0 {
                break;
            }
            offset += count as u64;
            if !each(&buffer[..count])? {
                break;
            }
        }
        Ok(offset)
    }

    /// The bytes from `start` to `end`; fewer where the log ends before.
    pub(crate) fn bytes(&self, start: u64, end: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.blocks(start, end, |block| {
            bytes.extend_from_slice(block);
            Ok::<bool, io::Error>(true)
        })?;
        Ok(bytes)
    }

    /// Where the last `count` lines before `end` begin. A newline at the very
    /// end ends the last line; it does not begin another.
    pub(crate) fn start_of_last_lines(&self, count: u64, end: u64) -> io::Result<u64> {
        if count == 0 {
            return Ok(end);
        }
        let mut left = count;
        let mut block_end = end;
        while block_end > 0 {
            let block_start = block_end.saturating_sub(BLOCK as u64);
            let block = self.bytes(block_start, block_end)?;
            for at in memchr::memrchr_iter(b'\n', &block) {
                let next_line = block_start + at as u64 + 1;
                if next_line == end {
                    continue;
                }
                left -= 1;
                if left == 0 {
                    return Ok(next_line);
                }
            }
            block_end = block_start;
        }
        Ok(0)
    }

    /// The last lines with anything visible in them, looked for in the last
    /// `Evidence::TAIL` bytes.
    pub(crate) fn last_visible_lines(&self, count: usize) -> io::Result<Vec<Vec<u8>>> {
        Ok(text::last_visible_lines(&self.tail()?, count))
    }

    /// The end of the log.
    pub(crate) fn tail(&self) -> io::Result<Vec<u8>> {
        let end = self.length()?;
        self.bytes(end.saturating_sub(Evidence::TAIL), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn log_of(content: &[u8]) -> Log {
        let path =
            std::env::temp_dir().join(format!("nbs-log-{}-{:x}", std::process::id(), fastrand::u64(..)));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(content).unwrap();
        Log::new(file)
    }

    #[test]
    fn the_last_lines_begin_where_a_naive_count_says() {
        let mut long: Vec<u8> = (0..200_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        long.extend_from_slice(b"unfinished");
        for content in [&b""[..], b"a", b"a\n", b"a\nb", b"a\nb\n", b"\n\n\n", &long] {
            let log = log_of(content);
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
        let log = log_of(&content);
        assert_eq!(log.bytes(0, u64::MAX).unwrap(), content);
        assert_eq!(log.bytes(7, 9).unwrap(), content[7..9]);
        assert_eq!(log.bytes(9, 7).unwrap(), b"");
    }
}
