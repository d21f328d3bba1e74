//! `attach --read-only`: shows the screen and redraws changes. It types no key, and the session's
//! terminal keeps its size.

use std::{env, io, os::fd::AsFd, time::Duration};

use crate::{
    outcome::{Result, Trying},
    session::{
        OutputLog, ScreenCache, SessionDir, StateDir,
        client::{RelayClient, WaitOutcome},
    },
    sys::{deadline::Deadline, poll::PollSet, term},
    terminal::{cells, screen::Screen},
    ts::{
        attach::{
            person::{PersonEvent, PersonSignals, PersonTerminal, read_keys},
            viewer::{DETACH, End, HINT, PREFIX, how_to_leave, last_words},
        },
        top::drawing::{self, TopFrame},
    },
};

/// How often the screen is drawn of a session that prints without pause.
const PAUSE: Duration = Duration::from_millis(33);

#[derive(Clone, Copy, PartialEq, Eq)]
enum OnlookerEvent {
    Keys,
    News,
    Room,
    Person(PersonEvent),
}

struct Onlooker<'a> {
    session: &'a SessionDir,
    log: OutputLog,
    cache: ScreenCache,
    // `None`: the session has ended.
    relay: Option<RelayClient>,
    terminal: PersonTerminal,
    // The content of the terminal once all output is written.
    frame: TopFrame,
    colours: bool,
    // Something has changed that is not drawn yet; and before when it is not to be.
    is_old: bool,
    next: Deadline,
    // The time until which the hint how to detach is shown.
    hint: Option<Deadline>,
    // The prefix has been typed, and nothing after it.
    prefixed: bool,
    code: Option<i32>,
}

/// Shows the screen of a session on the terminal that is our standard input and output, until the session
/// ends, or the person leaves. `parent` is a pipe to the process that restores the terminal if we cannot.
pub(crate) fn look_on(state_dir: &StateDir, session: &SessionDir, parent: &impl AsFd) -> Result<()> {
    let mut onlooker = Onlooker {
        session,
        log: session.log()?,
        cache: ScreenCache::look(session)?,
        relay: RelayClient::open(session)?.map(RelayClient::sized),
        terminal: PersonTerminal::look()?,
        frame: TopFrame::default(),
        colours: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        is_old: true,
        next: Deadline::after(Duration::ZERO),
        hint: Some(Deadline::after(HINT)),
        prefixed: false,
        code: None,
    };
    let end = onlooker.enter().and_then(|()| onlooker.show(parent));
    let words = last_words(state_dir, session, &end);
    onlooker.leave(&words)?;
    onlooker.terminal.give_back()?;
    end?.outcome(session)
}

impl Onlooker<'_> {
    fn enter(&mut self) -> Result<()> {
        self.terminal.make_raw()?;
        // The alternate screen, without wrapping: text as wide as the row stays in it.
        self.terminal.print(b"\x1b[?1049h\x1b[?7l");
        self.redraw();
        Ok(())
    }

    fn redraw(&mut self) {
        self.terminal.print(b"\x1b[0m\x1b[H\x1b[2J");
        self.frame = TopFrame::default();
        self.is_old = true;
        self.next = Deadline::after(Duration::ZERO);
    }

    /// Restores the terminal's previous screen, with some last words on it.
    fn leave(&mut self, words: &str) -> Result<()> {
        // CAN ends an incomplete sequence.
        self.terminal.out.clear();
        self.terminal.print(b"\x18\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l");
        self.terminal.print(words.as_bytes());
        self.terminal.finish()
    }

    fn show(&mut self, parent: &impl AsFd) -> Result<End> {
        let what = "show the session";
        let mut signals = PersonSignals::catch(parent)?;
        let stdin = io::stdin();
        loop {
            if let Some(relay) = &mut self.relay
                && !relay.follow()?
            {
                (self.relay, self.is_old) = (None, true);
            }
            if self.is_old && self.terminal.out.is_empty() && self.next.has_passed() {
                self.draw()?;
            }
            self.terminal.write_on()?;
            if self.relay.is_none() && !self.is_old && self.terminal.out.is_empty() {
                return Ok(End::Session(self.code));
            }
            let mut poll_set = PollSet::new();
            poll_set.readable(&stdin, OnlookerEvent::Keys);
            if let Some(relay) = &self.relay {
                poll_set.readable(relay, OnlookerEvent::News);
            }
            self.terminal.watch(&mut poll_set, OnlookerEvent::Room);
            signals.watch(&mut poll_set, OnlookerEvent::Person);
            let is_due = self.is_old && self.terminal.out.is_empty();
            let deadline = match is_due {
                true => self.next,
                false => self.hint.unwrap_or(Deadline::NEVER).min(self.cache.hides_until()),
            };
            let events = poll_set.wait(deadline).trying(what)?;
            self.is_old |= self.cache.hides_until().has_passed();
            if self.hint.is_some_and(|hint| hint.has_passed()) {
                (self.hint, self.is_old) = (None, true);
            }
            for event in events {
                match event {
                    OnlookerEvent::Keys => {
                        if let Some(end) = self.take_keys(&stdin)? {
                            return Ok(end);
                        }
                    }
                    OnlookerEvent::News => self.receive_news()?,
                    OnlookerEvent::Room => {}
                    OnlookerEvent::Person(event) => {
                        signals.take(event);
                        match event {
                            PersonEvent::Resized => self.redraw(),
                            // Another process may have used the terminal while we were stopped.
                            PersonEvent::GoingOn => self.enter()?,
                            PersonEvent::Ending => return Ok(End::Told),
                            PersonEvent::Stopping => {
                                self.leave("")?;
                                if !self.terminal.stop(&mut signals)? {
                                    return Ok(End::Told);
                                }
                                self.enter()?;
                            }
                        }
                    }
                }
            }
        }
    }

    fn receive_news(&mut self) -> Result<()> {
        let Some(relay) = &mut self.relay else { return Ok(()) };
        match relay.receive_news(Deadline::after(Duration::ZERO), None)? {
            WaitOutcome::Changed => self.is_old = true,
            WaitOutcome::TimedOut => {}
            WaitOutcome::Ended => {
                self.code = relay.exit_code();
                (self.relay, self.is_old) = (None, true);
            }
        }
        Ok(())
    }

    /// Typed keys are not forwarded: they only serve to detach.
    fn take_keys(&mut self, stdin: &io::Stdin) -> Result<Option<End>> {
        let Some(keys) = read_keys(stdin)? else { return Ok(Some(End::Told)) };
        for key in keys {
            match (std::mem::take(&mut self.prefixed), key) {
                (true, DETACH) => return Ok(Some(End::Detached)),
                (_, PREFIX) => self.prefixed = true,
                _ => {}
            }
        }
        Ok(None)
    }

    fn draw(&mut self) -> Result<()> {
        let length = self.log.length().trying("read the output")?;
        let seen = self.cache.seen_length(self.session, &self.log, length)?;
        self.cache.follow(self.session, &self.log, seen)?;
        let size = term::size().trying("read the terminal's size")?;
        let (cols, rows) = size.map_or((80, 24), |size| (size.cols.into(), size.rows.into()));
        let mut frame = frame(&self.cache.screen, cols, rows, self.colours);
        if self.hint.is_some() {
            let (row, text) = how_to_leave(frame.cursor.map_or(0, |(row, _)| row), cols, rows);
            frame.rows[row - 1] = text;
        }
        self.terminal.print(drawing::changes(&self.frame, &frame, cols).as_bytes());
        self.frame = frame;
        self.is_old = false;
        self.next = Deadline::after(PAUSE);
        Ok(())
    }
}

/// A screen in a window of another size: all of it, or the part around the cursor, and below that a row with
/// a note.
fn frame(screen: &Screen, cols: usize, rows: usize, colours: bool) -> TopFrame {
    let ((width, height), (row, col)) = (screen.size(), screen.cursor());
    let is_whole = width <= cols && height <= rows;
    let room = rows - usize::from(!is_whole && rows > 1);
    let first = |cursor: usize, room: usize, all: usize| {
        (cursor - 1).saturating_sub(room / 2).min(all.saturating_sub(room))
    };
    let (top, left) = (first(row, room, height), first(col, cols, width));
    let lines = if colours { screen.coloured_lines(0) } else { screen.lines(0) };
    let lines = lines.iter().skip(top).map(|line| cells::part(line, left, cols));
    let mut shown: Vec<String> = lines.chain(std::iter::repeat(String::new())).take(room).collect();
    if room < rows {
        let about = format!("{cols}x{room} of {width}x{height}, around the cursor; C-\\ d detaches");
        shown.push(format!("\x1b[2m{}\x1b[0m", cells::shortened(&about, cols)));
    }
    let cursor = screen.has_visible_cursor().then_some((row - top, col - left));
    TopFrame { rows: shown, cursor }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, cols: usize, rows: usize) -> (Vec<String>, Option<(usize, usize)>) {
        let frame = frame(&Screen::showing(10, 6, text.as_bytes()), cols, rows, false);
        (frame.rows, frame.cursor)
    }

    #[test]
    fn a_small_window_shows_the_part_around_the_cursor() {
        let text = "0123456789\r\n1\r\n2\r\n3\r\n4\r\n5 3456漢x";
        let (whole, cursor) = shown(text, 12, 7);
        assert_eq!((whole[0].as_str(), whole[5].as_str(), whole.len()), ("0123456789", "5 3456漢x", 7));
        assert_eq!(cursor, Some((6, 10)));
        let (part, cursor) = shown(text, 3, 3);
        assert_eq!(part, ["", " x", "\u{1b}[2m3x…\u{1b}[0m"]);
        assert_eq!(cursor, Some((2, 3)));
        let (part, cursor) = shown("\x1b[?25l\x1b[H", 1, 1);
        assert_eq!((part, cursor), (vec![String::new()], None));
    }
}
