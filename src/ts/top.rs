//! All sessions on a terminal, live: `top`.
//!
//! What wakes it are the relays: each tells when what its session does has changed, and
//! those in the window also when something was printed. While nothing happens, it sleeps
//! until an age that is shown is another.

mod drawing;
mod keys;
mod model;

use std::{
    env,
    io::{self, Read, Write},
    os::fd::AsFd,
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use crate::{
    outcome::{Failure, Result, Trying},
    session::{
        Glance, Handle, OutputLog, Overview, Roster, RosterEvent, RosterNews, SESSION_ENV, ScreenCache,
        SessionDir, StateDir, Target, VIEWER,
        client::{News, RelayClient, ToldStanding},
    },
    sys::{
        child,
        deadline::Deadline,
        poll::PollSet,
        signals::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH, Signals},
        term,
    },
    terminal::text,
    ts::{
        attach::{self, BY_TOP, PersonTerminal, read_keys},
        listing::Columns,
    },
};
use drawing::{Frame, Layout, Shown};
use keys::Keys;
use model::{Act, Model};

/// How long after an escape that is a key by itself nothing else comes.
const KEY_TIMEOUT: Duration = Duration::from_millis(50);

/// How often the screen of the session that is selected is drawn anew, at most.
const SCREEN_EVERY: Duration = Duration::from_millis(33);

/// The same of the last lines of others.
const LINE_EVERY: Duration = Duration::from_millis(500);

/// By then all relays have told what their sessions do.
const BEGINNING: Duration = Duration::from_millis(500);

/// To look takes no more than such a part of the time.
const PART: u32 = 30;

/// How long a program that does not read may hold up an answer.
const ANSWER_TIMEOUT: &str = "--timeout=5";

/// Can this terminal show it?
pub(crate) fn is_possible() -> bool {
    let term = env::var_os("TERM").filter(|term| !term.is_empty() && term != "dumb");
    term.is_some() && term::Before::look().is_ok_and(|before| before.is_some())
}

/// Shows it, of the sessions with this in their name, by a process of its own: whatever
/// becomes of that, the terminal is given back.
pub(crate) fn show(pattern: Option<&str>) -> Result<()> {
    let mut command = child::ourselves(VIEWER);
    command.arg(BY_TOP).args(pattern);
    attach::supervise(command, "show the sessions")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TopEvent {
    Keys,
    Roster(RosterEvent),
    /// Something was printed in this one of the window.
    Printed(usize),
    Errand(usize),
    Room,
    Resized,
    Ending,
    Stopping,
    GoingOn,
    ParentGone,
}

/// One in the window, and when something was printed there.
struct Ticker {
    handle: Handle,
    session: SessionDir,
    client: RelayClient,
    // Not to be looked at before that.
    due: Instant,
    // How long the last look took.
    cost: Duration,
}

/// The screen of the one that is selected.
struct Preview {
    session: SessionDir,
    log: OutputLog,
    cache: ScreenCache,
    // Something has been printed since.
    is_old: bool,
}

impl Preview {
    fn of(state_dir: &StateDir, handle: &Handle) -> Result<Preview> {
        let session = state_dir.session(&Target::Handle(handle.clone()))?;
        let log = session.log()?;
        let cache = ScreenCache::look(&session)?;
        Ok(Preview { session, log, cache, is_old: false })
    }

    fn follow(&mut self) -> Result<()> {
        self.is_old = false;
        let length = self.log.length().trying("read the output")?;
        self.cache.follow(&self.session, &self.log, length)
    }
}

/// A call that a key has made: its errors are for the person.
struct Errand {
    child: Child,
    words: Vec<u8>,
}

impl Errand {
    /// Takes what it says; has it ended?
    fn hear(&mut self) -> bool {
        let mut buffer = [0; 1024];
        match self.child.stderr.as_mut().map(|words| words.read(&mut buffer)) {
            Some(Ok(count @ 1..)) => {
                self.words.extend_from_slice(&buffer[..count]);
                false
            }
            _ => true,
        }
    }

    /// Why it failed, if it did.
    fn complaint(mut self) -> Option<String> {
        let failed = self.child.wait().is_ok_and(|status| !status.success());
        let words = text::last_line_shown(&self.words)?;
        failed.then(|| words.strip_prefix("nbs-ts: ").map_or(words.clone(), str::to_owned))
    }
}

struct Top<'a> {
    state_dir: &'a StateDir,
    terminal: PersonTerminal,
    roster: Roster,
    model: Model,
    keys: Keys,
    tickers: Vec<Ticker>,
    preview: Option<Preview>,
    errands: Vec<Errand>,
    columns: Option<Columns>,
    size: (usize, usize),
    colours: bool,
    // What the terminal shows once all that it is to show is written.
    frame: Frame,
    // When an age that is shown will be another.
    older: Deadline,
    begun: Instant,
}

/// Shows the sessions on the terminal that is our standard input and output, until the
/// person has enough. `parent` is a pipe to who gives the terminal back where we cannot.
pub(crate) fn view(state_dir: &StateDir, pattern: Option<String>, parent: &impl AsFd) -> Result<()> {
    let terminal = PersonTerminal::look()?;
    let (roster, glances) = Roster::begin(state_dir, pattern)?;
    let mut top = Top {
        state_dir,
        terminal,
        roster,
        model: Model::new(),
        keys: Keys::default(),
        tickers: Vec::new(),
        preview: None,
        errands: Vec::new(),
        columns: None,
        size: (80, 24),
        colours: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        frame: Frame::default(),
        older: Deadline::NEVER,
        begun: Instant::now(),
    };
    top.take_all(glances);
    let end = top.enter().and_then(|()| top.serve(parent));
    top.leave()?;
    top.terminal.give_back()?;
    match end? {
        End::Left => Ok(()),
        End::Told => Err(Failure::Failed("cannot go on: a signal says to leave".into())),
    }
}

/// Is it the session that we are in? To show that would be news for us.
fn is_ours(handle: &Handle) -> bool {
    env::var_os(SESSION_ENV).is_some_and(|ours| ours == handle.as_str())
}

enum End {
    /// The person has.
    Left,
    /// Somebody wants us to go.
    Told,
}

impl Top<'_> {
    /// Takes in those that there are; what the live ones do, their relays will tell.
    fn take_all(&mut self, glances: Vec<Glance>) {
        let glances = glances.into_iter().filter(|glance| !is_ours(&glance.handle));
        self.model.put(glances.map(Overview::untold).collect());
    }

    fn enter(&mut self) -> Result<()> {
        self.terminal.make_raw()?;
        // The alternate screen, without wrapping: what is as wide as the row stays there.
        self.terminal.say(b"\x1b[?1049h\x1b[?7l");
        self.redraw()
    }

    fn redraw(&mut self) -> Result<()> {
        let size = term::size().trying("ask the terminal's size")?;
        self.size = size.map_or((80, 24), |size| (size.cols.into(), size.rows.into()));
        (self.frame, self.columns) = (Frame::default(), None);
        self.terminal.say(b"\x1b[0m\x1b[H\x1b[2J");
        Ok(())
    }

    /// Makes the terminal show what it would without us.
    fn leave(&mut self) -> Result<()> {
        // CAN ends what may have been under way.
        self.terminal.out.clear();
        self.terminal.say(b"\x18\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l");
        self.terminal.finish()
    }

    fn serve(&mut self, parent: &impl AsFd) -> Result<End> {
        let what = "show the sessions";
        let mut resized = Signals::catch(&[SIGWINCH]).trying(what)?;
        let mut ending = Signals::catch(&[SIGTERM, SIGHUP, SIGINT, SIGQUIT]).trying(what)?;
        let mut stopping = Signals::catch(&[SIGTSTP]).trying(what)?;
        let mut going_on = Signals::catch(&[SIGCONT]).trying(what)?;
        let stdin = io::stdin();
        loop {
            self.take_news()?;
            self.draw()?;
            self.terminal.write_on()?;
            let now = Instant::now();
            self.tickers.retain_mut(|ticker| ticker.due > now || ticker.client.follow().unwrap_or(false));
            let mut poll_set = PollSet::new();
            poll_set.readable(&stdin, TopEvent::Keys);
            self.roster.watch(&mut poll_set, TopEvent::Roster);
            let mut deadline = self.older;
            for (index, ticker) in self.tickers.iter().enumerate() {
                match ticker.due > now {
                    true => deadline = deadline.min(Deadline::at(ticker.due)),
                    false => poll_set.readable(&ticker.client, TopEvent::Printed(index)),
                }
            }
            for (index, errand) in self.errands.iter().enumerate() {
                if let Some(words) = &errand.child.stderr {
                    poll_set.readable(words, TopEvent::Errand(index));
                }
            }
            self.terminal.watch(&mut poll_set, TopEvent::Room);
            poll_set.readable(&resized, TopEvent::Resized);
            poll_set.readable(&ending, TopEvent::Ending);
            poll_set.readable(&stopping, TopEvent::Stopping);
            poll_set.readable(&going_on, TopEvent::GoingOn);
            poll_set.gone(parent, TopEvent::ParentGone);
            if self.keys.is_unfinished() {
                deadline = deadline.min(Deadline::after(KEY_TIMEOUT));
            }
            let events = poll_set.wait(deadline).trying(what)?;
            let mut keys = match self.keys.is_unfinished() && !events.contains(&TopEvent::Keys) {
                true => self.keys.finish(),
                false => Vec::new(),
            };
            let mut ended = Vec::new();
            for event in events {
                match event {
                    TopEvent::Keys => match read_keys(&stdin)? {
                        Some(bytes) => keys.extend(self.keys.feed(&bytes)),
                        // The terminal has gone.
                        None => return Ok(End::Told),
                    },
                    TopEvent::Roster(event) => self.roster.note(event),
                    TopEvent::Printed(index) => self.hear_printed(index),
                    TopEvent::Errand(index) => ended.extend(self.errands[index].hear().then_some(index)),
                    TopEvent::Room => {}
                    TopEvent::Resized | TopEvent::GoingOn => {
                        // Whoever stopped us may have used the terminal.
                        if going_on.take() {
                            self.enter()?;
                        }
                        resized.take();
                        self.redraw()?;
                    }
                    TopEvent::Ending | TopEvent::ParentGone => {
                        ending.take();
                        return Ok(End::Told);
                    }
                    TopEvent::Stopping => {
                        stopping.take();
                        self.leave()?;
                        if !self.terminal.stop(&mut going_on, parent)? {
                            return Ok(End::Told);
                        }
                        self.enter()?;
                    }
                }
            }
            for index in ended.into_iter().rev() {
                let errand = self.errands.remove(index);
                self.model.message = errand.complaint().or(self.model.message.take());
            }
            for key in keys {
                let act = self.model.press(key);
                if act == Act::Quit {
                    return Ok(End::Left);
                }
                self.act(act)?;
                if ending.take() {
                    return Ok(End::Told);
                }
            }
        }
    }

    fn act(&mut self, act: Act) -> Result<()> {
        match act {
            Act::Nothing | Act::Quit => {}
            Act::Redraw => self.redraw()?,
            Act::Attach(handle) => {
                self.leave()?;
                self.terminal.put_back()?;
                let attached = attach::attach(handle.as_str(), &[]);
                self.model.message = attached
                    .err()
                    .and_then(|failure| failure.message().map(|why| text::escaped(why.as_bytes())));
                self.enter()?;
            }
            Act::Answer { handle, text, secret: false } => {
                let words = ["send", "--no-secret", ANSWER_TIMEOUT, handle.as_str()];
                // Where there is no text, it is just Enter.
                self.run(words.into_iter().chain(Some(text.as_str()).filter(|text| !text.is_empty())), None);
            }
            Act::Answer { handle, text, secret: true } => {
                let words = ["send", "--secret-stdin", ANSWER_TIMEOUT, handle.as_str()];
                let mut secret = text.into_bytes();
                secret.push(b'\n');
                self.run(words.into_iter(), Some(&secret));
                secret.fill(0);
            }
            Act::End { handle, alive: true } => {
                self.run(["kill", "--keep", handle.as_str()].into_iter(), None)
            }
            Act::End { handle, alive: false } => self.run(["kill", handle.as_str()].into_iter(), None),
        }
        Ok(())
    }

    /// Has a command of ours executed, and does not wait for it.
    fn run<'w>(&mut self, words: impl Iterator<Item = &'w str>, input: Option<&[u8]>) {
        let mut command: Command = child::ourselves("nbs-ts");
        command.args(words).stdout(Stdio::null()).stderr(Stdio::piped());
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        match command.spawn() {
            Ok(mut child) => {
                if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
                    // It is less than a pipe holds; one that has gone says why.
                    let _ = stdin.write_all(input);
                }
                self.errands.push(Errand { child, words: Vec::new() });
            }
            Err(error) => self.model.message = Some(format!("cannot start a call: {error}")),
        }
    }

    fn take_news(&mut self) -> Result<()> {
        let (mut told, mut ended, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        self.roster.take_news(self.state_dir, |news| match news {
            RosterNews::Told(session, standing) => {
                if let Some(glance) = Glance::at(session).filter(|glance| !is_ours(&glance.handle)) {
                    told.push(Overview::brief(glance, standing));
                }
            }
            RosterNews::Ended(handle) => ended.push(handle),
            RosterNews::Removed(handle) => removed.push(handle),
        })?;
        for handle in ended.into_iter().filter(|handle| !is_ours(handle)) {
            // One that is removed is seen to be gone, too.
            let session = self.state_dir.session(&Target::Handle(handle.clone())).ok();
            match session.and_then(|session| Glance::at(&session)) {
                Some(glance) => told.push(Overview::brief(glance, ToldStanding::Ended)),
                None => removed.push(handle),
            }
        }
        if !told.is_empty() {
            self.model.put(told);
        }
        for handle in removed {
            self.model.remove(&handle);
        }
        Ok(())
    }

    /// Something was printed: what is shown of it is old.
    fn hear_printed(&mut self, index: usize) {
        let ticker = &mut self.tickers[index];
        if ticker
            .client
            .hear_news(Deadline::after(Duration::ZERO), None)
            .is_ok_and(|news| news != News::TimedOut)
        {
            let is_selected = self.model.selected() == Some(&ticker.handle);
            let every = if is_selected { SCREEN_EVERY } else { LINE_EVERY };
            ticker.due = Instant::now() + every.max(ticker.cost * PART);
            self.model.stale.insert(ticker.handle.clone());
        }
    }

    /// Looks at what is shown and old, and draws what that changes. Nothing while the
    /// terminal has not taken what was drawn before.
    fn draw(&mut self) -> Result<()> {
        if !self.terminal.out.is_empty() && self.frame != Frame::default() {
            return Ok(());
        }
        let (cols, rows) = self.size;
        self.model.is_new &= self.begun.elapsed() < BEGINNING;
        let layout = Layout::of(cols, rows, self.model.shown().len());
        let (window, selected) = self.model.in_window(layout.list);
        self.follow(&window);
        for handle in &window {
            if self.model.stale.remove(handle) {
                self.look(handle, window.get(selected) == Some(handle));
            }
        }
        match window.get(selected) {
            Some(handle) if layout.has_screen() => self.look_at_screen(&handle.clone()),
            _ => self.preview = None,
        }
        let names: Vec<String> = window.iter().map(|handle| self.model.name(handle)).collect();
        let overviews = window.iter().filter_map(|handle| self.model.overview(handle));
        let columns = Columns::of(overviews.clone().zip(&names), Some(cols));
        let columns = match &self.columns {
            Some(before) => columns.at_least(before),
            None => columns,
        };
        let now = SystemTime::now();
        let next = overviews.filter_map(|overview| overview.next_age(now)).min();
        self.older = next.map_or(Deadline::NEVER, Deadline::after);
        let screen = self.preview.as_ref().map(|preview| &preview.cache.screen);
        let shown = Shown { screen, colours: self.colours };
        let frame = drawing::frame(&self.model, layout, &columns, (&window, selected), &shown);
        self.columns = Some(columns);
        self.terminal.say(drawing::changes(&self.frame, &frame, cols).as_bytes());
        self.frame = frame;
        Ok(())
    }

    /// Has those in the window tell when something is printed, and no others.
    fn follow(&mut self, window: &[Handle]) {
        let model = &self.model;
        let is_alive = |handle: &Handle| model.overview(handle).is_some_and(|overview| overview.glance.alive);
        self.tickers.retain(|ticker| window.contains(&ticker.handle) && is_alive(&ticker.handle));
        for handle in window {
            let is_followed = self.tickers.iter().any(|ticker| ticker.handle == *handle);
            if is_followed || !is_alive(handle) {
                continue;
            }
            // What cannot be followed is shown as it was when we looked.
            let Ok(session) = self.state_dir.session(&Target::Handle(handle.clone())) else { continue };
            let Ok(Some(client)) = RelayClient::open(&session) else { continue };
            let (due, cost) = (Instant::now(), Duration::ZERO);
            self.tickers.push(Ticker { handle: handle.clone(), session, client, due, cost });
        }
    }

    /// What it shows, and asks.
    fn look(&mut self, handle: &Handle, is_selected: bool) {
        let begun = Instant::now();
        let ticker = self.tickers.iter_mut().find(|ticker| ticker.handle == *handle);
        let Some(overview) = self.model.overview_mut(handle) else { return };
        match &ticker {
            Some(ticker) => overview.look(&ticker.session),
            None => {
                if let Ok(session) = self.state_dir.session(&Target::Handle(handle.clone())) {
                    overview.look(&session);
                }
            }
        }
        if let Some(preview) = self.preview.as_mut().filter(|_| is_selected) {
            preview.is_old = true;
        }
        if let Some(ticker) = ticker {
            ticker.cost = begun.elapsed();
        }
    }

    fn look_at_screen(&mut self, handle: &Handle) {
        let begun = Instant::now();
        let is_other = self.preview.as_ref().is_none_or(|preview| preview.session.handle() != handle);
        if is_other {
            self.preview = Preview::of(self.state_dir, handle).ok();
        } else if let Some(preview) = self.preview.as_mut().filter(|preview| preview.is_old)
            && preview.follow().is_err()
        {
            // It has been removed.
            self.preview = None;
        }
        if let Some(ticker) = self.tickers.iter_mut().find(|ticker| ticker.handle == *handle) {
            ticker.cost = ticker.cost.max(begun.elapsed());
        }
    }
}
