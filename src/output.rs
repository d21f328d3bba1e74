//! Printing a stretch of a session's output: `read`, `read-new`, `run`.

use std::{
    io::{self, Write},
    ops::Range,
};

use crate::{
    cli,
    json::Object,
    outcome::{Failure, Result, Trying},
    session::{Handle, Log, SessionDir},
    text::Strip,
};

/// How output is printed.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// Without escape sequences.
    pub(crate) strip: bool,
    /// Nothing will be added to it: what is cut off at its end stays so.
    pub(crate) complete: bool,
    /// Its first and its last part only, if it is longer than so many bytes.
    pub(crate) max: Option<u64>,
    pub(crate) json: bool,
}

/// Prints it, and tells how far: with `strip`, what is incomplete at the end
/// (half a character, half a sequence) is left for the next time.
pub(crate) fn print(session: &SessionDir, range: Range<u64>, form: Form) -> Result<u64> {
    let log = session.log()?;
    let what = format!("read the output of '{}'", session.handle());
    let asked = range.start;
    let range = log.start().trying(&what)?.clamp(asked, range.end.max(asked))..range.end;
    let mut lost = range.start - asked;
    let gap = gap(&log, &range, form.max).trying(what)?;
    let mut collected = Vec::new();
    let mut stdout = io::stdout().lock();
    let mut last = b'\n';
    let mut give = |bytes: &[u8]| {
        last = bytes.last().copied().unwrap_or(last);
        if form.json {
            collected.extend_from_slice(bytes);
            return Ok(last);
        }
        cli::written(stdout.write_all(bytes)).map(|()| last)
    };
    let mut end = range.end;
    let parts = parts(&range, gap.as_ref());
    let count = parts.len();
    for (number, part) in parts.into_iter().enumerate() {
        if let (1, Some(gap)) = (number, &gap) {
            let last = give(b"")?;
            give(gap_line(session.handle(), gap, last).as_bytes())?;
        }
        let mut strip = Strip::new();
        let mut plain = Vec::new();
        end = log.blocks(part.start, part.end, |block| {
            lost += log.take_lost();
            if form.strip {
                plain.clear();
                strip.feed(block, &mut plain);
                give(&plain)?;
            } else {
                give(block)?;
            }
            Ok::<bool, Failure>(true)
        })?;
        lost += log.take_lost();
        if form.strip {
            if form.complete || number + 1 < count {
                plain.clear();
                strip.finish(&mut plain);
                give(&plain)?;
            } else {
                end -= strip.unfinished();
            }
        }
    }
    if form.json {
        let object = Object::new()
            .text("handle", session.handle().as_str())
            .number("offset", number(range.start))
            .number("next_offset", number(end))
            .bytes("output", &collected);
        let object = with_left_out(object, gap.as_ref()).count_if_any("lost", lost);
        cli::written(stdout.write_all(object.line().as_bytes()))?;
    }
    cli::written(stdout.flush())?;
    tell_lost(lost, form.json);
    Ok(end)
}

/// Tells whoever reads a bounded log what of it is gone; in JSON the answer does.
pub(crate) fn tell_lost(lost: u64, json: bool) {
    if lost > 0 && !json {
        cli::warn("nbs-ts", &format!("{lost} bytes of output are gone: --max-log bounds what is kept"));
    }
}

/// How far from where a part should end a better place for it is looked for.
const NEAR: u64 = 4096;

/// What of a stretch to leave out, so that no more than `max` bytes are left of
/// it: its middle; from a line's end to a line's end, where they are near, else
/// between two characters.
pub(crate) fn gap(log: &Log, range: &Range<u64>, max: Option<u64>) -> io::Result<Option<Range<u64>>> {
    let length = range.end.saturating_sub(range.start);
    let Some(max) = max.filter(|max| length > *max) else {
        return Ok(None);
    };
    let first = max / 2;
    let (start, end) = (range.start + first, range.end - (max - first));
    let before = log.bytes(start.saturating_sub(NEAR).max(range.start), start + 1)?;
    let after = log.bytes(end.saturating_sub(1), (end + NEAR).min(range.end))?;
    Ok(Some(start - shorter_by(&before)..end + later_by(&after)))
}

/// By how much to end a part earlier; the last byte is the one behind it.
fn shorter_by(bytes: &[u8]) -> u64 {
    let Some((behind, part)) = bytes.split_last() else { return 0 };
    match memchr::memrchr(b'\n', part) {
        Some(at) => (part.len() - at - 1) as u64,
        None if !is_within_character(*behind) => 0,
        None => (1 + part.iter().rev().take(3).take_while(|byte| is_within_character(**byte)).count() as u64)
            .min(part.len() as u64),
    }
}

/// By how much to begin a part later; the first byte is the one before it.
fn later_by(bytes: &[u8]) -> u64 {
    match memchr::memchr(b'\n', bytes) {
        Some(at) => at as u64,
        None => bytes.iter().skip(1).take(3).take_while(|byte| is_within_character(**byte)).count() as u64,
    }
}

fn is_within_character(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// What is left of a stretch.
pub(crate) fn parts(range: &Range<u64>, gap: Option<&Range<u64>>) -> Vec<Range<u64>> {
    match gap {
        Some(gap) => vec![range.start..gap.start, gap.end..range.end],
        None => vec![range.clone()],
    }
}

/// The same within the words of a failure.
pub(crate) fn lost_in_words(lost: u64) -> String {
    if lost > 0 { format!(" ({lost} bytes of output are gone)") } else { String::new() }
}

/// The line that stands in the place of what is left out; `last` is the byte
/// before it.
pub(crate) fn gap_line(handle: &Handle, gap: &Range<u64>, last: u8) -> String {
    let (offset, limit) = (gap.start, gap.end - gap.start);
    let newline = if last == b'\n' { "" } else { "\n" };
    format!(
        "{newline}[nbs: {limit} bytes left out; nbs-ts read {handle} --offset={offset} --limit={limit}]\n"
    )
}

/// The first and the last part of an answer that is not as it stands in the log,
/// so that no more than `max` bytes are left of it, and how many were left out;
/// `whole` is where in the log it comes from.
pub(crate) fn shortened(
    answer: Vec<u8>,
    max: Option<u64>,
    handle: &Handle,
    whole: &Range<u64>,
) -> (Vec<u8>, u64) {
    let Some(max) = max.and_then(|max| usize::try_from(max).ok()).filter(|max| answer.len() > *max) else {
        return (answer, 0);
    };
    let (first, last) = (&answer[..max / 2], &answer[answer.len() - (max - max / 2)..]);
    let first = &first[..memchr::memrchr(b'\n', first).map_or(first.len(), |at| at + 1)];
    let last = &last[memchr::memchr(b'\n', last).map_or(0, |at| at + 1)..];
    let left_out = (answer.len() - first.len() - last.len()) as u64;
    let newline = if first.last().is_none_or(|byte| *byte == b'\n') { "" } else { "\n" };
    let line = format!(
        "{newline}[nbs: {left_out} bytes left out; nbs-ts read {handle} --offset={} --limit={} has them]\n",
        whole.start,
        whole.end - whole.start
    );
    ([first, line.as_bytes(), last].concat(), left_out)
}

/// The same for JSON: how many bytes were left out, where any could have been.
pub(crate) fn with_left_out(object: Object, gap: Option<&Range<u64>>) -> Object {
    match gap {
        Some(gap) => object.number("left_out", number(gap.end - gap.start)),
        None => object,
    }
}

fn number(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// Gives stretches of the log one after another, with `\n` for `\r\n`.
pub(crate) struct Printer {
    pub(crate) log: Log,
    /// How far it has come.
    pub(crate) from: u64,
    /// How many bytes of the output were gone.
    pub(crate) lost: u64,
    // Where escape sequences are to be left out.
    strip: Option<Strip>,
    newlines: Newlines,
    /// The last byte that it has given.
    pub(crate) last: u8,
}

impl Printer {
    /// `strip`: without escape sequences.
    pub(crate) fn new(log: Log, strip: bool) -> Printer {
        Printer {
            log,
            from: 0,
            lost: 0,
            strip: strip.then(Strip::new),
            newlines: Newlines::default(),
            last: b'\n',
        }
    }

    /// Gives what is in `range`, without the cuts, which it uses up.
    pub(crate) fn print(
        &mut self,
        range: Range<u64>,
        cuts: &mut Vec<Range<u64>>,
        mut give: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut plain = Vec::new();
        let mut at = range.start;
        let passed = cuts.partition_point(|cut| cut.start < range.end);
        let ends = cuts.drain(..passed).chain(std::iter::once(range.end..range.end));
        for cut in ends.filter(|cut| cut.end >= range.start) {
            let (strip, newlines, last) = (&mut self.strip, &mut self.newlines, &mut self.last);
            let (log, lost) = (&self.log, &mut self.lost);
            let mut stripped = Vec::new();
            log.blocks(at, cut.start, |block| {
                *lost += log.take_lost();
                plain.clear();
                if let Some(strip) = strip {
                    stripped.clear();
                    strip.feed(block, &mut stripped);
                }
                newlines.feed(if strip.is_some() { &stripped } else { block }, &mut plain);
                *last = plain.last().copied().unwrap_or(*last);
                give(&plain).map(|()| true)
            })?;
            *lost += log.take_lost();
            at = at.max(cut.end);
        }
        self.from = range.end;
        Ok(())
    }

    /// What of a stretch was held back, now that nothing follows it.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let (mut stripped, mut plain) = (Vec::new(), Vec::new());
        if let Some(strip) = &mut self.strip {
            strip.finish(&mut stripped);
            *strip = Strip::new();
        }
        self.newlines.feed(&stripped, &mut plain);
        self.newlines.finish(&mut plain);
        plain
    }
}

/// Makes `\r\n`, as a terminal prints a line's end, `\n` again, however the two
/// are split; a lone `\r` stays.
#[derive(Default)]
pub(crate) struct Newlines {
    // A `\r` has come, and what is behind it has not.
    held: bool,
}

impl Newlines {
    pub(crate) fn feed(&mut self, bytes: &[u8], plain: &mut Vec<u8>) {
        let mut rest = bytes;
        if let (true, Some(first)) = (self.held, bytes.first()) {
            if *first != b'\n' {
                plain.push(b'\r');
            }
            self.held = false;
        }
        while let Some(at) = memchr::memchr(b'\r', rest) {
            plain.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
            match rest.first() {
                Some(b'\n') => {}
                Some(_) => plain.push(b'\r'),
                None => self.held = true,
            }
        }
        plain.extend_from_slice(rest);
    }

    pub(crate) fn finish(&mut self, plain: &mut Vec<u8>) {
        if self.held {
            plain.push(b'\r');
            self.held = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pair_becomes_a_newline_however_it_is_split() {
        let text = b"a\r\nb\rc\n\r\r\n\r";
        for size in 1..=text.len() {
            let (mut newlines, mut plain) = (Newlines::default(), Vec::new());
            text.chunks(size).for_each(|chunk| newlines.feed(chunk, &mut plain));
            newlines.finish(&mut plain);
            assert_eq!(plain, b"a\nb\rc\n\r\n\r", "{size}");
        }
    }

    #[test]
    fn parts_end_with_lines_or_at_least_with_characters() {
        assert_eq!(shorter_by(b"ab\ncd"), 1);
        assert_eq!(shorter_by(b"ab\nc"), 0);
        assert_eq!(shorter_by(b"abcd"), 0);
        assert_eq!(shorter_by("a\u{20ac}".as_bytes()), 2);
        assert_eq!(shorter_by(b""), 0);
        assert_eq!(later_by(b"\nab"), 0);
        assert_eq!(later_by(b"xa\nb"), 2);
        assert_eq!(later_by(b"xab"), 0);
        assert_eq!(later_by("\u{20ac}b".as_bytes()), 2);
    }
}
