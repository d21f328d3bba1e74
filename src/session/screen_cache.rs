//! The screen of a session's terminal, kept in step with its log.
//!
//! An update reads only the output since the last one: the last screen is stored in the session's directory,
//! with its offset. It is only a cache. A damaged one, or one of another version or log, is rebuilt from the
//! log. Failing to write it does no harm.
//!
//! A program may draw an update between two sequences (DEC private mode 2026), to be shown as a whole.
//! Until it is finished, calls see the screen before it, but not for long, and not after a resize.
//!
//! A screen may also be cut: from then on there is nothing that had scrolled off before, or nothing at all.
//! Such a screen has a file of its own, which is no cache: the log does not have where it was cut.
//!
//! The log does not contain the terminal's size; the file `sizes` does. Each of its lines, `<offset> <cols>
//! <rows>`, is a size that is valid from that byte of the log on. A process that changes the size adds the
//! line before anything is logged after it.

use std::{io, time::Duration};

use memchr::memmem;

use crate::{
    numbers::fnv,
    outcome::{Result, Trying},
    session::{OutputLog, SessionDir, dir},
    sys::{deadline::Deadline, pty::Size},
    terminal::{screen::Screen, text},
};

/// How much is read at once. The emulator passes over what scrolls away in it, and
/// the more there is of that, the less it draws.
const BLOCK: u64 = 8 << 20;

/// The screen is stored after this much output: emulating less takes no longer than writing.
const WORTH_KEEPING: u64 = 64 * 1024;

/// The beginning of a stored screen.
const MAGIC: &[u8] = b"nbs-screen\n";

/// How much of the log before it a kept screen is known by.
const KNOWN_BY: u64 = 4096;

/// The longest end of the output that has a prompt and the shell's marks before it.
const LONG_ENOUGH: u64 = 4096;

/// The beginning of a prompt's mark.
const PROMPT: &[u8] = b"\x1b]133;A;nbs=";

/// The beginning and the end of an update.
const UPDATE: &[u8] = b"\x1b[?2026h";
const UPDATE_END: &[u8] = b"\x1b[?2026l";

/// An update is hidden for this long, also since the program last printed.
const HIDDEN: Duration = Duration::from_secs(1);

/// A longer update is shown while it comes.
const LONGEST_UPDATE: u64 = 1 << 20;

/// How long others may take to store a screen before one that is cut.
const CUTTING: Duration = Duration::from_secs(5);

/// The screen of a session, at some place in its log.
pub(crate) struct ScreenCache {
    pub(crate) screen: Screen,
    offset: u64,
    // The name of the file in which it is stored.
    file: String,
    // The offset of the stored screen; 0 if there is none. And whether it hides an update there.
    kept: (u64, bool),
    // The offset of the update that is hidden, and the end of that time.
    hidden: Option<(u64, Deadline)>,
}

impl ScreenCache {
    /// The present screen.
    pub(crate) fn look(session: &SessionDir) -> Result<ScreenCache> {
        ScreenCache::look_from(session, 0)
    }

    /// The present screen, if it was cut at `from`.
    pub(crate) fn look_from(session: &SessionDir, from: u64) -> Result<ScreenCache> {
        let log = session.log()?;
        let length = log.length().trying(what(session))?;
        let mut cache = ScreenCache::begin_from(session, &log, from)?;
        let seen = cache.seen_length(session, &log, length)?;
        cache.follow(session, &log, seen)?;
        // The next reader sees by its age for how long the update has been hidden.
        if cache.hidden.is_some() && cache.kept != (seen, true) {
            let _ = cache.keep(session, &log, Duration::ZERO);
        }
        Ok(cache)
    }

    /// Cuts the screen that was cut at `from` before: forgets what has scrolled off or, if `resets`, all of
    /// it. Returns where it has been cut now.
    pub(crate) fn cut(session: &SessionDir, from: u64, resets: bool) -> Result<u64> {
        let mut cache = ScreenCache::look_from(session, from)?;
        let at = cache.offset;
        if at == 0 {
            return Ok(0);
        }
        if resets {
            cache.screen.feed(b"\x18\x1bc");
        }
        cache.screen.clear_history();
        cache.file = file_from(at);
        let log = session.log()?;
        cache
            .keep(session, &log, CUTTING)
            .trying(format_args!("cut the screen of '{}'", session.handle()))?;
        if ![0, at].contains(&from) {
            // If it stays, it goes with the session.
            let _ = session.drop_screen(&file_from(from));
        }
        Ok(at)
    }

    /// The screen with all of an update that is not finished, when the log had this `length`; or a later one, if the cache is newer.
    pub(crate) fn look_at(session: &SessionDir, log: &OutputLog, length: u64) -> Result<ScreenCache> {
        let mut cache = ScreenCache::begin(session, log)?;
        cache.follow(session, log, length)?;
        Ok(cache)
    }

    /// The screen of the last update, or the initial one.
    pub(crate) fn begin(session: &SessionDir, log: &OutputLog) -> Result<ScreenCache> {
        ScreenCache::begin_from(session, log, 0)
    }

    fn begin_from(session: &SessionDir, log: &OutputLog, from: u64) -> Result<ScreenCache> {
        let now = log.length().trying(what(session))?;
        let file = file_from(from);
        let mut cache = match ScreenCache::kept(session, log, now, &file) {
            Some(cache) => cache,
            None => {
                let screen = screen_of(Size::DEFAULT);
                ScreenCache { screen, offset: from, file, kept: (0, false), hidden: None }
            }
        };
        if let Some(lines) = session.settings().history {
            cache.screen.limit_history(usize::try_from(lines).unwrap_or(usize::MAX));
        }
        Ok(cache)
    }

    /// The offset in the log that it has come to.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// How much of a log of this length a person sees: what comes before an update that is hidden.
    pub(crate) fn seen_length(&mut self, session: &SessionDir, log: &OutputLog, length: u64) -> Result<u64> {
        let hidden = self.hidden.take();
        let start = self.offset.max(length.saturating_sub(LONGEST_UPDATE));
        let bytes = log.bytes(start, length).trying(what(session))?;
        let ended = memmem::find_iter(&bytes, UPDATE_END).last();
        let rest = &bytes[ended.unwrap_or(0)..];
        let is_shown = ended.is_none() && self.screen.is_updating();
        let Some(at) = memmem::find(rest, UPDATE).filter(|_| !is_shown) else { return Ok(length) };
        let begun = length - (rest.len() - at) as u64;
        let until = match hidden {
            Some((same, until)) if same == begun => until,
            _ => Deadline::after(HIDDEN),
        };
        let is_over = until.has_passed()
            || log.age().trying(what(session))? >= HIDDEN
            || (begun, true) == self.kept && session.kept_screen_age().is_none_or(|age| age >= HIDDEN)
            // The screen before it has another size.
            || session.sizes()?.last().is_some_and(|(from, _)| *from > begun)
            || !session.is_alive()?;
        if is_over {
            return Ok(length);
        }
        self.hidden = Some((begun, until));
        Ok(begun)
    }

    /// Until when an update is hidden, if one was by [`ScreenCache::seen_length`].
    pub(crate) fn hides_until(&self) -> Deadline {
        self.hidden.map_or(Deadline::NEVER, |(_, until)| until)
    }

    /// Adds the output up to `length`, which must have been read before the sizes are read here.
    pub(crate) fn follow(&mut self, session: &SessionDir, log: &OutputLog, length: u64) -> Result<()> {
        self.advance(session, log, length)?;
        self.keep_if_worth(session, log);
        Ok(())
    }

    /// Stores it for later calls, if that is less work than to rebuild it.
    pub(crate) fn keep_if_worth(&mut self, session: &SessionDir, log: &OutputLog) {
        if self.offset - self.kept.0 >= WORTH_KEEPING {
            // Without it, the next reader reads more.
            let _ = self.keep(session, log, Duration::ZERO);
        }
    }

    /// The same as [`ScreenCache::follow`], for a caller that keeps it: it is not stored.
    pub(crate) fn advance(&mut self, session: &SessionDir, log: &OutputLog, length: u64) -> Result<()> {
        let sizes = session.sizes()?;
        let mut begins_anew = false;
        loop {
            let now = sizes.iter().rev().find(|(from, _)| *from <= self.offset);
            let size = now.map_or(Size::DEFAULT, |(_, size)| *size);
            self.screen.resize(size.cols, size.rows);
            if self.offset >= length {
                break;
            }
            let start = log.start().trying(what(session))?.min(length);
            if start > self.offset {
                self.screen.feed(b"\x18");
                begins_anew = true;
                self.offset = start;
                continue;
            }
            let next = sizes.iter().map(|(from, _)| *from).find(|from| *from > self.offset);
            let end = length.min(next.unwrap_or(u64::MAX)).min(self.offset + BLOCK);
            let bytes = log.bytes(self.offset, end).trying(what(session))?;
            let mut there = &bytes[..];
            if std::mem::take(&mut begins_anew) || (bytes.len() as u64) < end - self.offset {
                // Part of a bounded log was dropped: an incomplete sequence ends here (CAN), and the
                // rest of a mark is not text.
                self.screen.feed(b"\x18");
                there = &bytes[session.unmarked().map_or(0, |unmarked| unmarked.rest_of_mark(&bytes))..];
            }
            self.screen.feed(there);
            // Not as far as there are bytes: of a bounded log the first may be gone.
            self.offset = end;
        }
        Ok(())
    }

    fn kept(session: &SessionDir, log: &OutputLog, length: u64, file: &str) -> Option<ScreenCache> {
        let kept = session.kept_screen(file)?;
        let (sum, rest) = kept.strip_prefix(MAGIC)?.split_first_chunk()?;
        if u64::from_le_bytes(*sum) != fnv(rest) {
            return None;
        }
        let (offset, rest) = rest.split_first_chunk()?;
        let (print, rest) = rest.split_first_chunk()?;
        let (hides, saved) = rest.split_first()?;
        let offset = u64::from_le_bytes(*offset);
        if offset > length {
            return None;
        }
        // The dropped part of a bounded log cannot be compared.
        let there = log.start().ok()? <= offset.saturating_sub(KNOWN_BY);
        if there && u64::from_le_bytes(*print) != fingerprint(log, offset).ok()? {
            return None;
        }
        Some(ScreenCache {
            screen: Screen::resumed(saved)?,
            offset,
            file: file.to_owned(),
            kept: (offset, *hides != 0),
            hidden: None,
        })
    }

    fn keep(&mut self, session: &SessionDir, log: &OutputLog, patience: Duration) -> io::Result<()> {
        let hides = self.hidden.is_some();
        let print = fingerprint(log, self.offset)?.to_le_bytes();
        let rest = [&self.offset.to_le_bytes()[..], &print, &[hides.into()], &self.screen.save()].concat();
        let content = [MAGIC, &fnv(&rest).to_le_bytes(), &rest].concat();
        session.keep_screen(&self.file, &content, Deadline::after(patience))?;
        self.kept = (self.offset, hides);
        Ok(())
    }
}

/// The text before the shell's prompt in the row in which it ends the log, at this offset: the end of
/// output without a newline, with its colours.
pub(crate) fn beside_prompt(session: &SessionDir, log: &OutputLog, offset: u64) -> Result<String> {
    let tail = log.bytes(offset.saturating_sub(LONG_ENOUGH), offset).trying(what(session))?;
    // We do not find the beginning of a longer prompt.
    let Some(at) = memmem::find_iter(&tail, PROMPT).last() else { return Ok(String::new()) };
    let (before, prompt) = tail.split_at(at);
    let line = memchr::memrchr(b'\n', before).map_or(before, |end| &before[end..]);
    if text::stripped(line).iter().all(|byte| byte.is_ascii_control()) {
        return Ok(String::new());
    }
    // It is not stored: if there is little room, the output needs it.
    let mut cache = ScreenCache::begin(session, log)?;
    cache.advance(session, log, offset)?;
    let screen = cache.screen;
    // With unlimited width it does not wrap.
    let (row, end) = Screen::showing(u16::MAX, 2, prompt).cursor();
    Ok(if row == 1 { screen.before_last(end - 1) } else { String::new() })
}

/// The file of a screen that was cut there.
fn file_from(from: u64) -> String {
    match from {
        0 => dir::SCREEN_CACHE.to_owned(),
        from => format!("{}{from}", dir::CUT),
    }
}

pub(crate) fn screen_of(size: Size) -> Screen {
    Screen::new(size.cols, size.rows)
}

fn what(session: &SessionDir) -> String {
    format!("read the output of session '{}'", session.handle())
}

fn fingerprint(log: &OutputLog, offset: u64) -> io::Result<u64> {
    Ok(fnv(&log.bytes(offset.saturating_sub(KNOWN_BY), offset)?))
}
