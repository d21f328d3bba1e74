//! Printing a stretch of a session's output: `read`, `read-new`, `run`.

use std::{
    ffi::OsStr,
    io::{self, Write},
    ops::Range,
    os::unix::ffi::OsStrExt,
};

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    machine,
    outcome::{Failure, Result, Trying},
    session::{Handle, OutputLog, Piece, SessionDir, shell::MarkStripper},
    terminal::{
        queries,
        text::{Runs, Strip, cut_off_length, escaped},
    },
    ts::rendered,
};

/// How output is printed.
#[derive(Clone, Copy)]
pub(crate) struct OutputForm {
    /// Without escape sequences.
    pub(crate) strip: bool,
    /// As a person would have seen it, with colours or without.
    pub(crate) rendered: Option<Colours>,
    /// Nothing will be added to it: an incomplete sequence at its end stays incomplete.
    pub(crate) complete: bool,
    /// Print only the first and last part, if it is longer than this many bytes.
    pub(crate) max: Option<u64>,
    pub(crate) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    None,
    Kept,
}

/// The default if a call does not say.
const DEFAULT_FORM: &str = "NBS_TS_OUTPUT";

/// The output options of a call: whether it is stripped, and how it is rendered, if it is.
pub(crate) fn form_wanted(call: &CommandLine) -> Result<(bool, Option<Colours>)> {
    let (mut strip, mut rendered) = (call.has("strip"), call.has("rendered"));
    let colours = if call.has("ansi") { Colours::Kept } else { Colours::None };
    let default = std::env::var_os(DEFAULT_FORM).filter(|_| !strip && !rendered);
    match default.as_deref().map(OsStr::as_bytes) {
        None | Some(b"" | b"raw") => {}
        Some(b"strip") => strip = true,
        Some(b"rendered") => rendered = true,
        Some(word) => {
            let message = format!("{DEFAULT_FORM} is '{}'; it takes raw, strip or rendered", escaped(word));
            return Err(Failure::bad_args(message));
        }
    }
    if colours == Colours::Kept && !rendered {
        return Err(Failure::bad_args("--ansi requires --rendered".into()));
    }
    Ok((strip, rendered.then_some(colours)))
}

/// This many bytes at the end of a stretch are read one by one, to find a `\r` that may belong to a line's
/// end: more than the escape sequences that come between the two.
const TAIL: u64 = 4096;

/// The same for rendered output, all of it.
fn print_rendered(
    session: &SessionDir,
    range: Range<u64>,
    form: OutputForm,
    colours: Colours,
) -> Result<u64> {
    let log = session.log()?;
    // An incomplete sequence at the end is complete in the next call.
    let tail =
        log.bytes(range.end.saturating_sub(4096).max(range.start), range.end).trying("read the output")?;
    let cut_off =
        if form.complete { 0 } else { queries::unfinished_length(&tail).max(cut_off_length(&tail)) };
    let end = range.end - cut_off as u64;
    let (text, lost) = rendered::text(session, &log, range.start..end, &[], colours == Colours::Kept)?;
    let (text, left_out) = shortened(text, form.max, session.handle(), &(range.start..end));
    match form.json {
        true => cli::print(object(session, range.start..end, &text, left_out, lost).line())?,
        false => cli::print(text)?,
    }
    warn_of_lost(lost, form.json);
    Ok(end)
}

fn object(session: &SessionDir, range: Range<u64>, output: &[u8], left_out: u64, lost: u64) -> Object {
    Object::new()
        .text("handle", session.handle().as_str())
        .number("offset", range.start)
        .number("next_offset", range.end)
        .bytes("output", output)
        .count_if_any("left_out", left_out)
        .count_if_any("lost", lost)
}

/// Prints a range, and returns its end: with `strip`, an incomplete character or sequence at the end
/// is left for the next call.
pub(crate) fn print(session: &SessionDir, range: Range<u64>, form: OutputForm) -> Result<u64> {
    if let Some(colours) = form.rendered {
        return print_rendered(session, range, form, colours);
    }
    let log = session.log()?;
    let what = format!("read the output of '{}'", session.handle());
    let asked = range.start;
    let range = log.start().trying(&what)?.clamp(asked, range.end.max(asked))..range.end;
    let mut lost = range.start - asked;
    // Raw output has the original newlines.
    let new_filter = || -> Result<Filter> {
        let unmarked = if form.strip { Some(session.unmarked()?) } else { None };
        Ok(Filter::new(form.strip, form.strip, unmarked))
    };
    let gap = gap(&log, &range, &[], &new_filter()?, form.max).trying(what)?;
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
        let mut filter = new_filter()?;
        // Raw output holds nothing back.
        let ends_here = !form.strip || form.complete || number + 1 < count;
        let tail = if ends_here { part.end } else { part.end.saturating_sub(TAIL).max(part.start) };
        end = part.start;
        for (until, is_tail) in [(tail, false), (part.end, true)] {
            let mut pieces = log.pieces(end, until);
            while let Some(piece) = pieces.next()? {
                match piece {
                    Piece::Gap(gone) => lost += gone,
                    Piece::Bytes(block) if is_tail => {
                        for byte in block {
                            give(filter.feed_one(*byte))?;
                        }
                    }
                    Piece::Bytes(block) => drop(give(filter.feed(block))?),
                }
            }
            end = pieces.offset();
        }
        if ends_here {
            give(filter.finish())?;
            continue;
        }
        let (rest, unfinished) = filter.rest();
        give(rest)?;
        end -= unfinished;
    }
    if form.json {
        let left_out = gap.map_or(0, |gap| gap.end - gap.start);
        let object = object(session, range.start..end, &collected, left_out, lost);
        cli::written(stdout.write_all(object.line().as_bytes()))?;
    }
    cli::written(stdout.flush())?;
    warn_of_lost(lost, form.json);
    Ok(end)
}

/// Warns the reader of a bounded log about dropped output; in JSON the answer has it.
pub(crate) fn warn_of_lost(lost: u64, json: bool) {
    if lost > 0 && !json {
        cli::warn("nbs-ts", &format!("{lost} bytes of output are gone: --max-log dropped them"));
    }
}

/// How far from the ideal end of a part we search for a better one: not so far that the part gets much
/// smaller.
fn near(part: u64) -> u64 {
    (part / 2).min(4096)
}

/// The part of a range to omit, so that `filter` prints at most `max` bytes outside of `cuts`. It is the
/// middle, from one end of a line to another if they are near, otherwise between two characters.
pub(crate) fn gap(
    log: &OutputLog,
    range: &Range<u64>,
    cuts: &[Range<u64>],
    filter: &Filter,
    max: Option<u64>,
) -> io::Result<Option<Range<u64>>> {
    let reach = |range, most| reach(log, range, cuts, filter.clone(), most);
    let Some(max) = max.filter(|max| range.end.saturating_sub(range.start) > *max) else { return Ok(None) };
    let (first, last) = (max / 2, max - max / 2);
    let (Some(_), Some(start)) = (reach(range.clone(), max)?.1, reach(range.clone(), first)?.1) else {
        return Ok(None);
    };
    let before = log.bytes(start.saturating_sub(near(first)).max(range.start), start + 1)?;
    let start = start - shorter_by(&before);
    // The printed form is seldom much shorter than the range.
    let mut length = last.saturating_mul(2);
    let (from, printed) = loop {
        let from = range.end.saturating_sub(length).max(start);
        // No escape sequence is cut in two where a line begins.
        let from = if from > start { behind_line(log, from..range.end)? } else { from };
        let (printed, _) = reach(from..range.end, u64::MAX)?;
        if printed >= last || from == start {
            break (from, printed);
        }
        length = length.saturating_mul(2).max(1);
    };
    let end = reach(from..range.end, printed.saturating_sub(last))?.1.unwrap_or(range.end);
    let after = log.bytes(end.saturating_sub(1), (end + near(last)).min(range.end))?;
    Ok(Some(start..end + later_by(&after)))
}

/// Behind the first newline of a stretch, or its end.
fn behind_line(log: &OutputLog, range: Range<u64>) -> io::Result<u64> {
    let (mut at, mut pieces) = (range.start, log.pieces(range.start, range.end));
    while let Some(piece) = pieces.next()? {
        at += match piece {
            Piece::Gap(gone) => gone,
            Piece::Bytes(block) => match memchr::memchr(b'\n', block) {
                Some(newline) => return Ok(at + newline as u64 + 1),
                None => block.len() as u64,
            },
        };
    }
    Ok(at)
}

/// The printed length of a range, and the furthest offset up to which that is at most `most` bytes,
/// unless all of it is.
fn reach(
    log: &OutputLog,
    range: Range<u64>,
    cuts: &[Range<u64>],
    mut filter: Filter,
    most: u64,
) -> io::Result<(u64, Option<u64>)> {
    /// The part that is searched again, byte by byte, for the offset.
    const PIECE: usize = 4096;
    let mut printed = 0;
    for stretch in kept(&range, cuts.iter().cloned()) {
        let mut at = stretch.start;
        let mut pieces = log.pieces(stretch.start, stretch.end);
        while let Some(piece) = pieces.next()? {
            let block = match piece {
                Piece::Bytes(block) => block,
                Piece::Gap(gone) => {
                    at += gone;
                    continue;
                }
            };
            for piece in block.chunks(PIECE) {
                let before = filter.clone();
                let count = filter.feed(piece).len() as u64;
                if printed + count + filter.held() > most {
                    filter = before;
                    let fits = |byte: &&u8| {
                        printed += filter.feed(std::slice::from_ref(*byte)).len() as u64;
                        printed + filter.held() <= most
                    };
                    let place = at + piece.iter().take_while(fits).count() as u64;
                    return Ok((printed, Some(place)));
                }
                printed += count;
                at += piece.len() as u64;
            }
        }
    }
    Ok((printed + filter.held(), None))
}

/// The parts of a range outside of the cuts, which are in order.
fn kept(range: &Range<u64>, cuts: impl Iterator<Item = Range<u64>>) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = *range;
    let mut at = start;
    let cuts = cuts.filter(move |cut| cut.start < end && cut.end >= start);
    cuts.chain(std::iter::once(end..end)).map(move |cut| {
        let kept = at..cut.start;
        at = at.max(cut.end);
        kept
    })
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

/// The rest of a range.
pub(crate) fn parts(range: &Range<u64>, gap: Option<&Range<u64>>) -> Vec<Range<u64>> {
    if let Some(gap) = gap { vec![range.start..gap.start, gap.end..range.end] } else { vec![range.clone()] }
}

/// The same within the words of a failure.
pub(crate) fn lost_in_words(lost: u64) -> String {
    if lost > 0 { format!(" ({lost} bytes of output are gone)") } else { String::new() }
}

/// The line that replaces the omitted part; `last` is the byte before it.
pub(crate) fn gap_line(handle: &Handle, gap: &Range<u64>, last: u8) -> String {
    left_out_line(handle, gap.end - gap.start, gap, last)
}

/// The same for this many bytes of a range's answer.
fn left_out_line(handle: &Handle, left_out: u64, whole: &Range<u64>, last: u8) -> String {
    let (offset, limit) = (whole.start, whole.end - whole.start);
    let newline = if last == b'\n' { "" } else { "\n" };
    let handle = machine::as_called(handle);
    format!(
        "{newline}[nbs: {left_out} bytes left out; nbs-ts read {handle} --offset={offset} --limit={limit}]\n"
    )
}

/// The first and the last part of an answer that is not a copy of the log, so that at most `max` bytes are
/// left of it, and the number of bytes left out; `whole` is its range in the log.
pub(crate) fn shortened(
    answer: Vec<u8>,
    max: Option<u64>,
    handle: &Handle,
    whole: &Range<u64>,
) -> (Vec<u8>, u64) {
    let Some(max) = max.and_then(|max| usize::try_from(max).ok()).filter(|max| answer.len() > *max) else {
        return (answer, 0);
    };
    let (start, end) = (max / 2, answer.len() - (max - max / 2));
    let near = near(start as u64) as usize;
    let first = &answer[..start - shorter_by(&answer[start.saturating_sub(near)..=start]) as usize];
    let last = &answer[end + later_by(&answer[end - 1..(end + near).min(answer.len())]) as usize..];
    let left_out = (answer.len() - first.len() - last.len()) as u64;
    let line = left_out_line(handle, left_out, whole, first.last().copied().unwrap_or(b'\n'));
    ([first, line.as_bytes(), last].concat(), left_out)
}

/// Gives stretches of the log one after another, with `\n` for `\r\n`.
pub(crate) struct Printer {
    pub(crate) log: OutputLog,
    /// How far it has come.
    pub(crate) from: u64,
    /// How many bytes of the output were gone.
    pub(crate) lost: u64,
    filter: Filter,
    /// Ranges with untranslated newlines, in order: a `\r` there is the program's.
    pub(crate) untranslated: Vec<Range<u64>>,
    /// The last byte that it has given.
    pub(crate) last: u8,
}

impl Printer {
    /// `strip`: without escape sequences.
    pub(crate) fn new(log: OutputLog, strip: bool) -> Printer {
        Printer {
            log,
            from: 0,
            lost: 0,
            filter: Filter::new(strip, true, None),
            untranslated: Vec::new(),
            last: b'\n',
        }
    }

    /// The part of a range to omit, so that at most `max` bytes of it are printed.
    pub(crate) fn gap(
        &self,
        range: &Range<u64>,
        cuts: &[Range<u64>],
        max: Option<u64>,
    ) -> io::Result<Option<Range<u64>>> {
        gap(&self.log, range, cuts, &self.filter, max)
    }

    /// Passes on the bytes in `range` without the cuts, which it uses up.
    pub(crate) fn print(
        &mut self,
        range: Range<u64>,
        cuts: &mut Vec<Range<u64>>,
        mut give: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let passed = cuts.partition_point(|cut| cut.start < range.end);
        for stretch in kept(&range, cuts.drain(..passed)) {
            let within = |range: &Range<u64>| range.start.max(stretch.start)..range.end.min(stretch.end);
            let untranslated = self.untranslated.iter().map(within).filter(|range| !range.is_empty());
            let mut at = stretch.start;
            for translated in kept(&stretch, untranslated).collect::<Vec<_>>() {
                self.print_as(at..translated.start, false, &mut give)?;
                self.print_as(translated.clone(), true, &mut give)?;
                at = translated.end;
            }
        }
        self.from = range.end;
        Ok(())
    }

    /// Passes on the bytes in `range`, in which the terminal has `translated` newlines, or not.
    fn print_as(
        &mut self,
        range: Range<u64>,
        translated: bool,
        give: &mut impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut pieces = self.log.pieces(range.start, range.end);
        while let Some(piece) = pieces.next()? {
            match piece {
                Piece::Gap(gone) => self.lost += gone,
                Piece::Bytes(block) => {
                    let plain = self.filter.feed_as(block, translated);
                    self.last = plain.last().copied().unwrap_or(self.last);
                    give(plain)?;
                }
            }
        }
        Ok(())
    }

    /// The offset before which everything has been printed; `None` if bytes in the middle of a sequence are
    /// held back.
    pub(crate) fn printed(&self) -> Option<u64> {
        let before = self.from.saturating_sub(1);
        let is_begun = self.filter.held() > 0 || self.filter.unfinished() > 0;
        match is_begun {
            false => Some(self.from),
            // The end of a line, perhaps.
            true => self.log.bytes(before, self.from).is_ok_and(|last| last == b"\r").then_some(before),
        }
    }

    /// The bytes that were held back, now that nothing follows them.
    pub(crate) fn rest(&mut self) -> &[u8] {
        let rest = self.filter.finish();
        self.last = rest.last().copied().unwrap_or(self.last);
        rest
    }
}

/// Converts the log's bytes to printed output.
#[derive(Clone)]
pub(crate) struct Filter {
    unmarked: Option<MarkStripper>,
    strip: Option<Strip>,
    newlines: Option<Newlines>,
    // How many bytes ago the `\r` that `newlines` holds began, if that is known and it came alone. A
    // reader that goes back by that many gets nothing twice.
    held_since: Option<u64>,
    rest: Vec<u8>,
    stripped: Vec<u8>,
    plain: Vec<u8>,
}

impl Filter {
    /// `strip`: without escape sequences; `newlines`: with `\n` for `\r\n`; `unmarked`: if there may
    /// be prompts in it.
    fn new(strip: bool, newlines: bool, unmarked: Option<MarkStripper>) -> Filter {
        let newlines = newlines.then(Newlines::default);
        let [rest, stripped, plain] = [const { Vec::new() }; 3];
        Filter { unmarked, strip: strip.then(Strip::new), newlines, held_since: None, rest, stripped, plain }
    }

    fn feed<'a>(&'a mut self, bytes: &'a [u8]) -> &'a [u8] {
        self.feed_as(bytes, true)
    }

    /// `translated`: the terminal has put a `\r` before each `\n`.
    fn feed_as<'a>(&'a mut self, bytes: &'a [u8], translated: bool) -> &'a [u8] {
        let mut bytes = bytes;
        if let Some(unmarked) = &mut self.unmarked {
            self.rest.clear();
            unmarked.feed(bytes, &mut self.rest);
            bytes = &self.rest;
        }
        if let Some(strip) = &mut self.strip {
            self.stripped.clear();
            strip.feed(bytes, &mut self.stripped);
            bytes = &self.stripped;
        }
        if let Some(newlines) = &mut self.newlines {
            self.plain.clear();
            match translated {
                true => newlines.feed(bytes, &mut self.plain),
                false => {
                    newlines.finish(&mut self.plain);
                    self.plain.extend_from_slice(bytes);
                }
            }
            bytes = &self.plain;
        }
        bytes
    }

    /// The bytes that were held back, now that nothing follows them. After this the filter starts
    /// afresh.
    fn finish(&mut self) -> &[u8] {
        self.rest.clear();
        self.stripped.clear();
        self.plain.clear();
        if let Some(unmarked) = &mut self.unmarked {
            unmarked.finish(&mut self.rest);
        }
        if let Some(strip) = &mut self.strip {
            strip.feed(&self.rest, &mut self.stripped);
            strip.finish(&mut self.stripped);
            *strip = Strip::new();
        }
        let Some(newlines) = &mut self.newlines else { return &self.stripped };
        newlines.feed(&self.stripped, &mut self.plain);
        newlines.finish(&mut self.plain);
        &self.plain
    }

    /// The length of the output from held bytes, if nothing followed them.
    fn held(&self) -> u64 {
        self.clone().finish().len() as u64
    }

    /// The same for one byte, without escape sequences: from then on it is known how long a `\r` has been
    /// held back.
    fn feed_one(&mut self, byte: u8) -> &[u8] {
        let before = self.unfinished();
        self.feed(&[byte]);
        self.held_since = match self.stripped.as_slice() {
            [] => self.held_since.map(|since| since + 1),
            b"\r" => Some(before + 1),
            _ => None,
        };
        &self.plain
    }

    /// The bytes held back that are printed now, and how many of the log are left for the next call. A
    /// `\r` is left if only that is read again.
    fn rest(&mut self) -> (&[u8], u64) {
        let unfinished = self.unfinished();
        self.plain.clear();
        if let (None, Some(newlines)) = (self.held_since, &mut self.newlines) {
            newlines.finish(&mut self.plain);
        }
        (&self.plain, self.held_since.unwrap_or(unfinished))
    }

    /// How many bytes of the log are not complete text yet.
    fn unfinished(&self) -> u64 {
        self.unmarked.as_ref().map_or(0, MarkStripper::unfinished)
            + self.strip.as_ref().map_or(0, Strip::unfinished)
    }
}

/// Makes `\r\n`, as a terminal prints a line's end, `\n` again, however the two
/// are split; a lone `\r` stays.
#[derive(Clone, Default)]
pub(crate) struct Newlines {
    // A `\r` has come, and the next byte has not.
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
        let mut runs = Runs::new(plain);
        while let Some(at) = memchr::memchr(b'\r', rest) {
            let next = rest.get(at + 1);
            runs.push(rest, at + usize::from(next.is_some_and(|next| *next != b'\n')));
            self.held = next.is_none();
            rest = &rest[at + 1..];
        }
        runs.push(rest, rest.len());
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
    use crate::rounds::rounds;

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
    fn two_readers_one_after_another_print_what_one_does() {
        const PARTS: [&[u8]; 9] = [
            b"x",
            b"\r",
            b"\r",
            b"\n",
            b"\x1b[1m",
            b"\x1b]0;\r\x07",
            "é".as_bytes(),
            b"\x1b[3\n1m",
            b"\x1b[3\r1m",
        ];
        for (seed, mut random) in rounds(500) {
            let mut content = Vec::new();
            (0..random.usize(..30)).for_each(|_| content.extend_from_slice(random.choice(PARTS).unwrap()));
            let cut = random.usize(..=content.len());
            let new = || Filter::new(true, true, None);
            let (mut first, mut printed) = (new(), Vec::new());
            content[..cut].iter().for_each(|byte| printed.extend_from_slice(first.feed_one(*byte)));
            let (rest, left) = first.rest();
            printed.extend_from_slice(rest);
            let whole = |content: &[u8]| {
                let mut filter = new();
                [filter.feed(content).to_vec(), filter.finish().to_vec()].concat()
            };
            printed.extend(whole(&content[cut - usize::try_from(left).unwrap()..]));
            let case = format!("seed {seed}: {:?} at {cut}", content.escape_ascii().to_string());
            assert_eq!(
                printed.escape_ascii().to_string(),
                whole(&content).escape_ascii().to_string(),
                "{case}"
            );
        }
    }

    /// At most half of the allowed output comes from each end, and not much less.
    #[test]
    fn both_halves_are_counted_as_they_are_printed() {
        const PARTS: [&[u8]; 14] = [
            b"word ",
            b"a longer stretch of words ",
            b"\r\n",
            b"\r\n",
            b"\n",
            b"\r",
            b"\x1b[38;5;99m",
            b"\x1b[m",
            b"\x1b]0;a title, which nobody sees here\x07",
            "é€😀".as_bytes(),
            b"\xe2\x82",
            b"\xff",
            b"0123456789abcdefghijklmnopqrstuvwxyz",
            b"\0",
        ];
        for (seed, mut random) in rounds(300) {
            let (mut content, mut cuts) = (Vec::new(), Vec::new());
            for _ in 0..random.usize(..200) {
                let start = content.len() as u64;
                content.extend_from_slice(random.choice(PARTS).unwrap());
                if random.u8(..8) == 0 {
                    content.extend_from_slice(b"\x1b]133;A\x07");
                    cuts.push(start..content.len() as u64);
                }
            }
            let (log, whole) = (OutputLog::of(&content), 0..content.len() as u64);
            let max = random.u64(..1000);
            for (strip, newlines) in [(false, false), (true, false), (false, true), (true, true)] {
                let filter = Filter::new(strip, newlines, None);
                let printed = |range: Range<u64>| {
                    let kept = (range.start..range.end).filter(|at| !cuts.iter().any(|cut| cut.contains(at)));
                    let kept: Vec<u8> = kept.map(|at| content[at as usize]).collect();
                    let mut filter = filter.clone();
                    [filter.feed(&kept).to_vec(), filter.finish().to_vec()].concat()
                };
                let (all, seed) = (printed(whole.clone()), format!("seed {seed}, {strip}, {newlines}"));
                let Some(gap) = gap(&log, &whole, &cuts, &filter, Some(max)).unwrap() else {
                    assert!(all.len() as u64 <= max, "{seed}: {} of {max}", all.len());
                    continue;
                };
                assert!(all.len() as u64 > max, "{seed}: {} of {max}", all.len());
                let (first, last) = (printed(0..gap.start), printed(gap.end..whole.end));
                assert!(all.starts_with(&first) && all.ends_with(&last), "{seed}");
                for (part, most) in [(first, max / 2), (last, max - max / 2)] {
                    let least = most.saturating_sub(near(most) + 4);
                    assert!(
                        (least..=most).contains(&(part.len() as u64)),
                        "{seed}: {} of {most}",
                        part.len()
                    );
                }
            }
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
