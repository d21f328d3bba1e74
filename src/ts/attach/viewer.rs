//! A session in the window of a terminal.
//!
//! The viewer reads the session's output from its log, at its own pace, so it blocks no one. If it
//! falls far behind, it shows the current screen instead. It omits queries and key modes: the relay
//! answers those, as the session's terminal; this terminal does not.
//!
//! Keys are typed as they come, one message after another, without blocking here.

use std::{io, os::fd::AsFd, time::Duration};

use crate::{
    outcome::{Failure, Result, Trying},
    session::{
        InputSource, OutputLog, ScreenCache, SessionDir, StateDir,
        client::{Parts, RelayClient, WaitOutcome},
    },
    sys::{deadline::Deadline, poll::PollSet, term},
    terminal::{
        cells,
        queries::{self, Part, PrivateModes, Query, Sequences},
        screen::Screen,
        text,
    },
    ts::attach::{
        notice,
        person::{PersonEvent, PersonSignals, PersonTerminal, read_keys},
        reset,
    },
};

/// `C-\`, before `d`.
pub(crate) const PREFIX: u8 = 0x1c;
/// C-b, for who calls us as `tmux`.
pub(crate) const PREFIX_OF_TMUX: u8 = 0x02;
pub(super) const DETACH: u8 = b'd';

/// The keys that act at once, whatever was typed before them: `C-c`, `C-\`, `C-z`.
const AT_ONCE: [u8; 3] = [0x03, PREFIX, 0x1a];

/// How many keys may wait for a program that does not read.
const MOST_KEYS: usize = 64 * 1024;

/// A program that has read nothing for this long will not read more, and a user who types then wants
/// to detach.
const STUCK: Duration = Duration::from_secs(2);

/// The time for which the hint how to detach is shown, if no key is typed.
pub(super) const HINT: Duration = Duration::from_secs(3);

/// How much is read from the log at once.
const BLOCK: u64 = 32 * 1024;

/// A viewer that is this far behind shows the current screen instead. A slow terminal takes some
/// seconds for this much.
const FAR: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ViewerEvent {
    Keys,
    News,
    Typed,
    Room,
    Person(PersonEvent),
}

/// How it ends.
pub(super) enum End {
    Detached,
    /// The session ended, with its exit code if the relay sent it.
    Session(Option<i32>),
    /// A signal ended us.
    Told,
}

/// The connections to the relay of a live session: for changes, for input, and for queries. Our window
/// exists as long as the last one.
struct ViewerClients {
    news: RelayClient,
    keys: RelayClient,
    control: RelayClient,
}

struct Viewer<'a> {
    session: &'a SessionDir,
    log: OutputLog,
    // `None`: the session has ended.
    relay: Option<ViewerClients>,
    terminal: PersonTerminal,
    // The offset up to which the log has been shown, or is about to be.
    shown: u64,
    // The time until which a row of the screen shows the hint. Until then we redraw the screen on
    // changes, from the log up to this offset.
    hint: Option<Deadline>,
    drawn: u64,
    sequences: Sequences,
    // The terminal's modes.
    modes: PrivateModes,
    // The terminal's colours may have been changed.
    coloured: bool,
    // The key before the one that detaches; it has been typed, and nothing after it.
    prefix: u8,
    prefixed: bool,
    // Invariant: no longer than `MOST_KEYS` and one read.
    keys: Vec<u8>,
    typing: bool,
    // When it will be too long that nothing was typed.
    stuck: Deadline,
    code: Option<i32>,
}

/// Shows a session on the terminal that is our standard input and output, until one of them ends this.
/// `parent` is a pipe to the process that restores the terminal if we cannot.
pub(crate) fn view(state_dir: &StateDir, session: &SessionDir, prefix: u8, parent: &impl AsFd) -> Result<()> {
    let terminal = PersonTerminal::look()?;
    let clients = (RelayClient::open(session)?, RelayClient::open(session)?, RelayClient::open(session)?);
    let relay = match clients {
        (Some(news), Some(keys), Some(control)) => {
            Some(ViewerClients { news: news.sized(), keys: keys.typing_as(InputSource::Attached), control })
        }
        _ => None,
    };
    let mut viewer = Viewer {
        session,
        log: session.log()?,
        relay,
        terminal,
        shown: 0,
        hint: Some(Deadline::after(HINT)),
        drawn: 0,
        sequences: Sequences::default(),
        modes: PrivateModes::default(),
        coloured: false,
        prefix,
        prefixed: false,
        keys: Vec::new(),
        typing: false,
        stuck: Deadline::NEVER,
        code: None,
    };
    let end = viewer.enter().and_then(|()| viewer.show(parent));
    let words = last_words(state_dir, session, &end);
    viewer.leave(&words)?;
    viewer.terminal.give_back()?;
    end?.outcome(session)
}

/// The last message to the user.
pub(super) fn last_words(state_dir: &StateDir, session: &SessionDir, end: &Result<End>) -> String {
    match end {
        Ok(End::Detached) => format!("\x1b[2m[detached from session {}]\x1b[0m\r\n", session.handle()),
        Ok(End::Session(code)) => {
            let code = code.or_else(|| session.exit_code().ok().flatten());
            let timed_out = state_dir.notice(session).is_some_and(|notice| notice.timed_out());
            notice(code, timed_out).trim_start().to_owned()
        }
        Ok(End::Told) | Err(_) => String::new(),
    }
}

impl End {
    pub(super) fn outcome(self, session: &SessionDir) -> Result<()> {
        match self {
            End::Detached | End::Session(_) => Ok(()),
            End::Told => {
                let handle = session.handle();
                Err(Failure::failed(format!("detached from session '{handle}' by a signal")))
            }
        }
    }
}

impl Viewer<'_> {
    fn enter(&mut self) -> Result<()> {
        // The title, to be put back.
        self.terminal.print(b"\x1b[22;0t");
        self.take_terminal()
    }

    fn take_terminal(&mut self) -> Result<()> {
        self.terminal.make_raw()?;
        self.fit()?;
        self.draw()
    }

    fn show(&mut self, parent: &impl AsFd) -> Result<End> {
        let what = "show the session";
        let mut signals = PersonSignals::catch(parent)?;
        let stdin = io::stdin();
        loop {
            self.read_on()?;
            self.terminal.write_on()?;
            let is_behind = self.reached() < self.log.length().trying(what)?;
            if self.relay.is_none() && self.terminal.out.is_empty() && !is_behind {
                return Ok(End::Session(self.code));
            }
            self.type_on()?;
            if let Some(relay) = &mut self.relay
                && !relay.news.follow()?
            {
                self.relay = None;
                continue;
            }
            let mut poll_set = PollSet::new();
            // We read no more of a large paste than we can type.
            let is_full = self.keys.len() >= MOST_KEYS;
            if !is_full || self.stuck.has_passed() {
                poll_set.readable(&stdin, ViewerEvent::Keys);
            }
            if let Some(relay) = &self.relay {
                poll_set.readable(&relay.news, ViewerEvent::News);
                if self.typing {
                    poll_set.readable(&relay.keys, ViewerEvent::Typed);
                }
            }
            self.terminal.watch(&mut poll_set, ViewerEvent::Room);
            signals.watch(&mut poll_set, ViewerEvent::Person);
            let goes_on = is_behind && self.terminal.out.is_empty();
            let deadline = match is_full && !self.stuck.has_passed() {
                _ if goes_on => Deadline::after(Duration::ZERO),
                true => self.stuck,
                false => self.hint.unwrap_or(Deadline::NEVER),
            };
            let events = poll_set.wait(deadline).trying(what)?;
            if self.hint.is_some_and(|hint| hint.has_passed()) {
                self.take_hint()?;
            }
            for event in events {
                match event {
                    ViewerEvent::Keys => {
                        if let Some(end) = self.take_keys(&stdin)? {
                            return Ok(end);
                        }
                    }
                    ViewerEvent::News => self.receive_news()?,
                    ViewerEvent::Typed => self.receive_typed()?,
                    ViewerEvent::Room => {}
                    ViewerEvent::Person(event) => {
                        signals.take(event);
                        match event {
                            PersonEvent::Resized => self.fit()?,
                            // Another process may have used the terminal while we were stopped.
                            PersonEvent::GoingOn => self.take_terminal()?,
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

    /// Sets the session's size to that of our window.
    fn fit(&mut self) -> Result<()> {
        let size = term::size().trying("read the terminal's size")?;
        if let (Some(size), Some(relay)) = (size, &mut self.relay)
            && !relay.control.view(size)?
        {
            self.relay = None;
        }
        Ok(())
    }

    /// Draws the present screen; the unwritten rest of an earlier one is dropped.
    fn draw(&mut self) -> Result<()> {
        let what = "read the output";
        let length = self.log.length().trying(what)?;
        // The terminal continues a partly drawn update.
        let cache = ScreenCache::look_at(self.session, &self.log, length)?;
        let tail = self.log.bytes(cache.offset().saturating_sub(TAIL), cache.offset()).trying(what)?;
        // A sequence that begins there is shown as a whole.
        let copies = cache.screen.is_copying();
        let begun = match copies {
            true => 0,
            false => queries::unfinished_length(&tail).max(text::cut_off_length(&tail)),
        };
        (self.shown, self.drawn) = (cache.offset() - begun as u64, cache.offset());
        // Requested now: later output repeats any change since then.
        let modes = match &mut self.relay {
            Some(relay) => relay.control.snapshot(Parts::NONE)?,
            None => None,
        };
        let mut modes = modes.unwrap_or_default().modes;
        // Even if the relay does not answer, because we have to leave that screen.
        modes.show_alternate(cache.screen.is_alternate());
        let leave = if self.modes.alternate() { "\x1b[?1049l" } else { "" };
        let parts = [
            "\x18",
            &self.modes.change(&PrivateModes::default()),
            leave,
            &cache.screen.drawing(),
            &self.hint.map_or(String::new(), |_| hint(&cache.screen)),
            &PrivateModes::default().change(&modes),
            &cache.screen.placing(),
        ];
        self.terminal.print(parts.concat().as_bytes());
        self.sequences = if copies { Sequences::copying() } else { Sequences::default() };
        self.modes = modes;
        Ok(())
    }

    fn reached(&self) -> u64 {
        if self.hint.is_some() { self.drawn } else { self.shown }
    }

    fn take_hint(&mut self) -> Result<()> {
        if self.hint.take().is_some() { self.draw() } else { Ok(()) }
    }

    /// Takes more of the log, once all before it is written.
    fn read_on(&mut self) -> Result<()> {
        let what = "read the output";
        if !self.terminal.out.is_empty() {
            return Ok(());
        }
        let length = self.log.length().trying(what)?;
        if length.saturating_sub(self.shown) > FAR || (self.hint.is_some() && length > self.drawn) {
            return self.draw();
        }
        if self.hint.is_some() {
            return Ok(());
        }
        let end = length.min(self.shown + BLOCK);
        let bytes = self.log.bytes(self.shown, end).trying(what)?;
        self.shown = end.max(self.shown);
        let (terminal, modes, coloured) = (&mut self.terminal, &mut self.modes, &mut self.coloured);
        self.sequences.feed(&bytes, &mut |part, _| match part {
            Part::Other(bytes) => terminal.print(bytes),
            Part::Copied(_) => {}
            Part::Sequence(sequence) if Query::parse(sequence).is_some() => {}
            Part::Sequence(sequence) if sequence.changes_keyboard() || sequence.copies() => {}
            Part::Sequence(sequence) => {
                modes.handle(sequence);
                *coloured |= sequence.chooses_colours();
                terminal.print(sequence.bytes);
            }
        });
        Ok(())
    }

    /// Handles the typed keys; returns the end, if they request it.
    fn take_keys(&mut self, stdin: &io::Stdin) -> Result<Option<End>> {
        // Without a terminal there is no user any more.
        let Some(keys) = read_keys(stdin)? else { return Ok(Some(End::Told)) };
        self.take_hint()?;
        let prefix = self.prefix;
        for key in keys {
            match (std::mem::take(&mut self.prefixed), key) {
                (true, DETACH) => return Ok(Some(End::Detached)),
                (true, key) if key == prefix => self.press(prefix)?,
                (false, key) if key == prefix => self.prefixed = true,
                (true, key) => {
                    self.press(prefix)?;
                    self.press(key)?;
                }
                (false, key) => self.press(key)?,
            }
        }
        Ok(None)
    }

    fn press(&mut self, key: u8) -> Result<()> {
        let waits = self.typing || !self.keys.is_empty();
        if let Some(relay) = self.relay.as_mut().filter(|_| waits && AT_ONCE.contains(&key))
            && relay.control.press(key)? == Some(true)
        {
            self.keys.clear();
        } else if self.keys.len() < MOST_KEYS || !self.stuck.has_passed() {
            self.keys.push(key);
        } else {
            // BEL: the key was not accepted.
            self.terminal.print(&[0x07]);
        }
        Ok(())
    }

    fn type_on(&mut self) -> Result<()> {
        if let Some(relay) = &mut self.relay
            && !self.typing
            && !self.keys.is_empty()
        {
            let count = self.keys.len().min(RelayClient::MOST_KEYS);
            self.typing = relay.keys.begin_typing(&self.keys[..count])?;
            self.stuck = Deadline::after(STUCK);
            self.keys.drain(..count);
        }
        Ok(())
    }

    fn receive_typed(&mut self) -> Result<()> {
        if let Some(relay) = &mut self.relay
            && relay.keys.has_typed()? != WaitOutcome::TimedOut
        {
            self.typing = false;
        }
        Ok(())
    }

    fn receive_news(&mut self) -> Result<()> {
        if let Some(relay) = &mut self.relay
            && relay.news.receive_news(Deadline::after(Duration::ZERO), None)? == WaitOutcome::Ended
        {
            self.code = relay.news.exit_code();
            self.relay = None;
        }
        Ok(())
    }

    /// Restores the terminal's previous screen, with some last words on it.
    fn leave(&mut self, words: &str) -> Result<()> {
        // The terminal is given back also where the log cannot be read any more.
        let _ = self.take_hint();
        self.terminal.print(reset(&self.modes, self.coloured).as_bytes());
        self.terminal.print(words.as_bytes());
        (self.modes, self.coloured, self.sequences) = Default::default();
        self.terminal.finish()
    }
}

fn hint(screen: &Screen) -> String {
    let ((cols, rows), (cursor, _)) = (screen.size(), screen.cursor());
    let (row, text) = how_to_leave(cursor, cols, rows);
    format!("\x1b[{row};1H{text}\x1b[K")
}

/// A dim line, and the row it is for: the last of a screen, or where the cursor is in
/// that, the first.
pub(super) fn how_to_leave(cursor: usize, cols: usize, rows: usize) -> (usize, String) {
    let text = cells::shortened("C-\\ and then d detaches", cols);
    (if cursor == rows { 1 } else { rows }, format!("\x1b[0;2m{text}\x1b[0m"))
}

/// Longer than any sequence that is kept until it is whole.
const TAIL: u64 = 1024;
