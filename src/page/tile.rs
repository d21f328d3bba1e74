//! One session on the page: its screen, its activity, and the input to it.
//!
//! While a page is open, the session's relay reports the first change. We update at our own pace, and
//! only then request the next report. So a session that prints without end wakes us no more often than
//! we update, and an idle one not at all. Nothing here waits for a relay, so a stopped one blocks no
//! other session.

use std::{
    os::fd::AsFd,
    time::{Duration, Instant},
};

use crate::{
    outcome::{Result, Trying},
    page::{
        about::about,
        http::{BAD_BODY, GONE, HttpError, TOO_MANY},
        stream::Entry,
        versioned_screen::{self, Numbers},
    },
    session::{
        ActivityView, CommandEntry, Handle, InputSource, ListEntry, ReplyKind, ScreenCache, SessionDir,
        StateDir, Target,
        client::{RelayClient, ReportedState, WaitOutcome, sending},
    },
    sys::{deadline::Deadline, ports::Listening},
    terminal::{cells, keys, text},
};

/// How many commands a page shows, and how much of one, or of a line of its output, in cells.
const MOST_COMMANDS: usize = 50;
const LONGEST_COMMAND: usize = 8 * 1024;
/// How much of a command's output it shows.
const MOST_OUTPUT: u64 = 64 * 1024;

/// How much of a log is taken in at one look: others wait meanwhile.
const STEP: u64 = 16 << 20;

/// How many keys may wait for a program that does not read.
const MOST_KEYS: usize = 64 * 1024;

/// A connection on which the relay reports changes.
struct Watching {
    client: RelayClient,
    // A report is requested and has not arrived.
    following: bool,
}

struct PendingInput {
    client: RelayClient,
    // Invariant: no longer than `MOST_KEYS`.
    keys: Vec<u8>,
    under_way: bool,
}

pub(crate) struct Tile {
    pub(crate) handle: Handle,
    pub(crate) entry: Entry,
    // Always shortened by `of_page`.
    overview: ActivityView,
    screen: Option<ScreenCache>,
    // The last time that it was visible, to choose which screens to drop.
    looked: Instant,
    watching: Option<Watching>,
    typing: Option<PendingInput>,
    // There are changes that we have not read; and the same for its screen.
    stale: bool,
    unseen: bool,
    next_look: Deadline,
}

impl Tile {
    pub(crate) fn new(key: u64, overview: ActivityView) -> Tile {
        let handle = overview.glance.handle.clone();
        Tile {
            entry: Entry::new(handle.to_string(), key),
            handle,
            overview: of_page(overview),
            screen: None,
            looked: Instant::now(),
            watching: None,
            typing: None,
            stale: true,
            unseen: true,
            next_look: Deadline::after(Duration::ZERO),
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.overview.glance.alive
    }

    fn open(&self, state_dir: &StateDir) -> Result<SessionDir> {
        let session = state_dir.session(&Target::Handle(self.handle.clone()))?;
        // A relay that does not answer at once is stopped; we do not wait for it.
        Ok(session.within(Deadline::after(Duration::ZERO)))
    }

    /// Begins to receive changes. If the session has ended, reads how and when instead.
    pub(crate) fn watch(&mut self, state_dir: &StateDir) {
        if !self.is_alive()
            && self.overview.end.ended_by.is_none()
            && let Ok(session) = self.open(state_dir)
        {
            // If its relay was killed, this records the end.
            state_dir.exit_record(&session);
            self.overview.look_beside(&session, None);
        }
        if self.watching.is_some() || !self.is_alive() {
            return;
        }
        // If the session cannot be reached, we show its last state.
        let client = self.open(state_dir).and_then(|session| RelayClient::open(&session));
        self.watching = client.ok().flatten().map(|client| Watching { client, following: false });
        (self.stale, self.unseen) = (true, true);
    }

    /// No page is open any more.
    pub(crate) fn rest(&mut self) {
        self.watching = None;
        self.screen = None;
        self.stale = true;
        self.unseen |= self.is_alive();
    }

    /// The descriptor to wait for.
    pub(crate) fn news(&self) -> Option<&impl AsFd> {
        self.watching.as_ref().filter(|watching| watching.following).map(|watching| &watching.client)
    }

    pub(crate) fn typed(&self) -> Option<&impl AsFd> {
        self.typing.as_ref().filter(|typing| typing.under_way).map(|typing| &typing.client)
    }

    /// The time of the next update, if one is due.
    pub(crate) fn due(&self, with_screen: bool) -> Option<Deadline> {
        (self.stale || with_screen && self.unseen).then_some(self.next_look)
    }

    /// Has its screen never been shown?
    pub(crate) fn is_new(&self) -> bool {
        self.entry.frame.number() == 0
    }

    pub(crate) fn receive_news(&mut self) {
        let Some(watching) = &mut self.watching else { return };
        match watching.client.receive_news(Deadline::after(Duration::ZERO), None) {
            Ok(WaitOutcome::Changed) => {
                watching.following = false;
                (self.stale, self.unseen) = (true, true);
            }
            Ok(WaitOutcome::TimedOut) => {}
            // The roster reports its end.
            Ok(WaitOutcome::Ended) | Err(_) => self.watching = None,
        }
    }

    /// The relay sent its status.
    pub(crate) fn receive_status(&mut self, told: ActivityView) {
        self.overview = of_page(told);
        self.stale = true;
    }

    /// When it ended, if that is known.
    pub(crate) fn ended(&self) -> Option<Duration> {
        self.overview.since
    }

    /// It has ended.
    pub(crate) fn end(&mut self, state_dir: &StateDir) {
        let Ok(session) = self.open(state_dir) else { return };
        let Some(glance) = ListEntry::at(&session) else { return };
        self.overview = of_page(ActivityView::brief(glance, ReportedState::Ended));
        self.watching = None;
        self.typing = None;
        (self.stale, self.unseen) = (true, true);
        self.next_look = Deadline::after(Duration::ZERO);
        self.watch(state_dir);
    }

    /// Reads new output, if a page needs the screen, and makes the update, or the line for another machine's
    /// page. The next update comes after `pause` at the earliest. `false`: it was removed.
    pub(crate) fn look(
        &mut self,
        state_dir: &StateDir,
        numbers: &mut Numbers,
        screen: bool,
        pause: Duration,
        is_for_machine: bool,
    ) -> bool {
        self.stale = false;
        self.looked = Instant::now();
        let Ok(session) = self.open(state_dir) else { return false };
        if screen {
            // If the output cannot be read, we retry when there is more.
            let is_behind = self.advance(&session).unwrap_or(false);
            self.unseen = is_behind;
            if let Some(cache) = &self.screen {
                self.entry.frame.take(&cache.screen, numbers);
            }
            if !self.is_alive() && !is_behind {
                // It does not change any more.
                self.forget(state_dir);
            }
        }
        // A question is on the last row, and only a waiting session has one.
        if self.overview.wants_look() {
            self.overview.look_beside(&session, self.screen.as_ref().map(|cache| &cache.screen));
        }
        if let Some(watching) = self.watching.as_mut().filter(|watching| !watching.following) {
            // If the relay has gone, the request is lost; but then we read its end.
            let _ = watching.client.follow();
            watching.following = true;
        }
        self.next_look = Deadline::after(pause);
        let about = match is_for_machine {
            true => self.overview.json().value(),
            false => about(&self.overview, self.entry.frame.title(), self.overview.word()),
        };
        self.entry.describe(about, numbers);
        true
    }

    /// Takes in some of the log; is there more?
    fn advance(&mut self, session: &SessionDir) -> Result<bool> {
        let log = session.log()?;
        let length = log.length()?;
        if self.screen.is_none() {
            self.screen = Some(ScreenCache::begin(session, &log)?);
        }
        let Some(cache) = &mut self.screen else { return Ok(false) };
        let end = cache.seen_length(session, &log, length)?.min(cache.offset() + STEP);
        cache.advance(session, &log, end)?;
        Ok(end < length)
    }

    /// The last time that it was visible.
    pub(crate) fn looked(&self) -> Instant {
        self.looked
    }

    /// Is its screen kept in memory?
    pub(crate) fn has_screen(&self) -> bool {
        self.screen.is_some()
    }

    /// Keeps its screen on the disk only.
    pub(crate) fn forget(&mut self, state_dir: &StateDir) {
        if let Some(mut cache) = self.screen.take()
            && let Ok(session) = self.open(state_dir)
            && let Ok(log) = session.log()
        {
            cache.keep_if_worth(&session, &log);
        }
    }

    /// Is a line that a person types a task for its program?
    pub(crate) fn wants_task(&self) -> bool {
        self.overview.wanted() == ReplyKind::Task
    }

    /// The lines that have scrolled off.
    pub(crate) fn scrollback(&self, state_dir: &StateDir, lines: usize) -> Result<String> {
        if let Some(cache) = &self.screen {
            return Ok(versioned_screen::scrollback(&cache.screen, lines));
        }
        let session = self.open(state_dir)?;
        Ok(versioned_screen::scrollback(&ScreenCache::look(&session)?.screen, lines))
    }

    /// The last commands of its shells, the newest first, as rows of: number, exit code, duration,
    /// directory, command.
    pub(crate) fn commands(&self, state_dir: &StateDir) -> Result<String> {
        let row = |entry: &CommandEntry| {
            let (took, code) = entry.outcome();
            let folder = entry.folder.clone().unwrap_or_default();
            let command = cells::shortened(&entry.command, LONGEST_COMMAND);
            versioned_screen::row_of_texts(&[&entry.id.to_string(), &code, &took, &folder, &command])
        };
        let rows: Vec<String> = self.open(state_dir)?.last_commands(MOST_COMMANDS)?.iter().map(row).collect();
        Ok(format!("[{}]", rows.join(",")))
    }

    /// The TCP ports that its processes listen on, as rows of one text.
    pub(crate) fn ports(&self, state_dir: &StateDir) -> Result<String> {
        let ports = self.open(state_dir)?.ports(&Listening::look());
        let row = |port: &u16| versioned_screen::row_of_texts(&[&port.to_string()]);
        Ok(format!("[{}]", ports.iter().map(row).collect::<Vec<_>>().join(",")))
    }

    /// The output of the command of this number, as rows; of a long one the end.
    pub(crate) fn output(&self, state_dir: &StateDir, id: u64) -> Result<String> {
        let session = self.open(state_dir)?;
        let entry = session.command_numbered(id)?;
        let log = session.log()?;
        let end = entry.length.map_or(u64::MAX, |length| entry.offset.saturating_add(length));
        let end = end.min(log.length().trying("read the output")?);
        let start = entry.offset.max(end.saturating_sub(MOST_OUTPUT));
        let bytes = log.bytes(start, end).trying("read the output")?;
        let mut shown = String::from_utf8_lossy(&text::stripped(&bytes)).into_owned();
        if start > entry.offset {
            shown.insert_str(0, &format!("({} bytes before this are left out)\n", start - entry.offset));
        }
        let row = |line: &str| {
            // Only the last state of a progress bar counts.
            let last = line.rsplit('\r').find(|state| !state.is_empty()).unwrap_or_default();
            versioned_screen::row_of_texts(&[&cells::shortened(last, LONGEST_COMMAND)])
        };
        Ok(format!("[{}]", shown.lines().map(row).collect::<Vec<_>>().join(",")))
    }

    /// Types some text. It is pasted, if that is what the program has asked for.
    pub(crate) fn paste(&mut self, state_dir: &StateDir, text: &str) -> std::result::Result<(), HttpError> {
        let text = text.replace("\r\n", "\r").replace('\n', "\r").into_bytes();
        let (session, mut client) = self.client(state_dir)?;
        let modes = client.modes().ok().flatten().ok_or(GONE)?;
        let keys = if modes.bracketed_paste { sending::bracketed(text) } else { text };
        self.enqueue(&session, &keys)
    }

    /// Types some text as it is.
    pub(crate) fn type_text(
        &mut self,
        state_dir: &StateDir,
        text: &[u8],
    ) -> std::result::Result<(), HttpError> {
        let session = self.open(state_dir).map_err(|_| GONE)?;
        self.enqueue(&session, text)
    }

    /// Types a line that is not to be seen, if one is asked for now; `false` if not.
    pub(crate) fn type_secret(
        &mut self,
        state_dir: &StateDir,
        line: &[u8],
    ) -> std::result::Result<bool, HttpError> {
        let (_, mut client) = self.client(state_dir)?;
        if line.len() > sending::LONGEST_SECRET || line.iter().any(|byte| *byte < b' ') {
            return Err(BAD_BODY);
        }
        let mut line = [line, b"\r"].concat();
        let typed = client.type_secret(&line);
        line.fill(0);
        typed.ok().flatten().ok_or(GONE)
    }

    /// Presses keys by their names, between which there are spaces.
    pub(crate) fn press(&mut self, state_dir: &StateDir, names: &str) -> std::result::Result<(), HttpError> {
        let keys: Vec<keys::Key> =
            names.split(' ').map(keys::parse).collect::<Option<_>>().ok_or(BAD_BODY)?;
        let (session, mut client) = self.client(state_dir)?;
        let modes = client.modes().ok().flatten().ok_or(GONE)?;
        for key in keys {
            let bytes = key.bytes(modes.application);
            if let [byte] = bytes[..]
                && modes.signals.contains(&byte)
                && client.press(byte).ok().flatten().ok_or(GONE)?
            {
                // It goes past what is queued, which is discarded.
                if let Some(typing) = &mut self.typing {
                    typing.keys.clear();
                }
                continue;
            }
            self.enqueue(&session, &bytes)?;
        }
        Ok(())
    }

    fn client(&self, state_dir: &StateDir) -> std::result::Result<(SessionDir, RelayClient), HttpError> {
        let session = self.open(state_dir).map_err(|_| GONE)?;
        let client = RelayClient::open(&session).ok().flatten().ok_or(GONE)?;
        Ok((session, client))
    }

    fn enqueue(&mut self, session: &SessionDir, keys: &[u8]) -> std::result::Result<(), HttpError> {
        let typing = match &mut self.typing {
            Some(typing) => typing,
            none => {
                let client = RelayClient::open(session).ok().flatten().ok_or(GONE)?;
                let client = client.typing_as(InputSource::Attached);
                none.insert(PendingInput { client, keys: Vec::new(), under_way: false })
            }
        };
        if typing.keys.len() + keys.len() > MOST_KEYS {
            return Err(TOO_MANY);
        }
        typing.keys.extend_from_slice(keys);
        self.type_on();
        // The echo should be visible at once.
        self.next_look = Deadline::after(Duration::ZERO);
        Ok(())
    }

    pub(crate) fn receive_typed(&mut self) {
        let Some(typing) = &mut self.typing else { return };
        match typing.client.has_typed() {
            Ok(WaitOutcome::Changed) => typing.under_way = false,
            Ok(WaitOutcome::TimedOut) => return,
            Ok(WaitOutcome::Ended) | Err(_) => self.typing = None,
        }
        self.type_on();
    }

    fn type_on(&mut self) {
        let Some(typing) = self.typing.as_mut().filter(|typing| !typing.under_way) else { return };
        let count = typing.keys.len().min(RelayClient::MOST_KEYS);
        typing.under_way = count > 0 && typing.client.begin_typing(&typing.keys[..count]).unwrap_or(false);
        if !typing.under_way {
            self.typing = None;
            return;
        }
        typing.keys[..count].fill(0);
        typing.keys.drain(..count);
    }
}

/// Leaves out what no page shows: most of a long command, and the time of the last input, which differs in each
/// report.
fn of_page(mut overview: ActivityView) -> ActivityView {
    const LONGEST: usize = 500;
    let command = &mut overview.glance.command;
    if let Some((end, _)) = command.char_indices().nth(LONGEST) {
        command.truncate(end);
        command.push('…');
    }
    overview.input = None;
    overview
}
