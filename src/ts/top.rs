//! All sessions on a terminal, live: `top`.
//!
//! The relays wake it: each reports a change of its session's activity, and those in the window also
//! report output. While nothing happens, it sleeps until a displayed age changes.

pub(crate) mod drawing;
mod keys;
mod model;

use std::{
    env,
    ffi::OsString,
    io,
    os::fd::AsFd,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    feed::{Feed, FeedEvent, FeedNews},
    machine::{
        call::{self, Came},
        call_process::CallProcess,
        name::MachineName,
        renewed_call::keep_last,
    },
    outcome::{Failure, Result, Trying},
    session::{
        ActivityView, Address, CommandEntry, Handle, OutputLog, ReplyKind, SESSION_ENV, ScreenCache,
        SessionDir, StateDir, Target, VIEWER,
        client::{RelayClient, WaitOutcome},
    },
    sys::{child, deadline::Deadline, poll::PollSet, term},
    terminal::{screen::Screen, text},
    ts::{
        attach::{self, BY_TOP, PersonEvent, PersonSignals, PersonTerminal, read_keys},
        listing::Columns,
    },
};
use drawing::{Layout, Shown, TopFrame};
use keys::Keys;
use model::{Act, Model};

/// How long after an escape that is a key by itself nothing else comes.
const KEY_TIMEOUT: Duration = Duration::from_millis(50);

/// The shortest interval between redraws of the selected session's screen.
const SCREEN_EVERY: Duration = Duration::from_millis(33);

/// The same for the last lines of others.
const LINE_EVERY: Duration = Duration::from_millis(500);

/// By then all relays have reported the activity of their sessions.
const BEGINNING: Duration = Duration::from_millis(500);

/// Looking takes at most this fraction of the time.
const PART: u32 = 30;

/// How long a program that does not read may hold up an answer.
const ANSWER_TIMEOUT: &str = "--timeout=5";

/// Can this terminal show it?
pub(crate) fn is_possible() -> bool {
    let term = env::var_os("TERM").filter(|term| !term.is_empty() && term != "dumb");
    term.is_some() && term::Before::look().is_ok_and(|before| before.is_some())
}

/// A remote screen is shown whole up to this width and height.
const MOST_COLS: u16 = 500;
const MOST_ROWS: u16 = 200;
/// And of no more bytes.
const MOST_BYTES: usize = 4 << 20;

/// The sessions that are shown.
#[derive(Default)]
pub(crate) struct Scope {
    /// Those with this in their name, if it is given.
    pub(crate) pattern: Option<String>,
    /// The machines, `None` for this one.
    pub(crate) machines: Vec<Option<MachineName>>,
}

impl Scope {
    /// The arguments of the viewer.
    fn words(&self) -> Vec<String> {
        let machine =
            |machine: &Option<MachineName>| machine.as_ref().map_or("", MachineName::as_str).to_owned();
        let machines = self.machines.iter().map(|on| format!("{}{}", Scope::ON, machine(on)));
        let pattern = self.pattern.iter().map(|pattern| format!("{}{pattern}", Scope::NAME));
        machines.chain(pattern).collect()
    }

    /// `None` if these are not such arguments.
    pub(crate) fn parse(words: &[OsString]) -> Option<Scope> {
        let mut scope = Scope::default();
        for word in words {
            let word = word.to_str()?;
            match (word.strip_prefix(Scope::ON), word.strip_prefix(Scope::NAME)) {
                (Some(""), _) => scope.machines.push(None),
                (Some(machine), _) => scope.machines.push(Some(MachineName::parse(machine.as_bytes())?)),
                (_, Some(pattern)) => scope.pattern = Some(pattern.to_owned()),
                (None, None) => return None,
            }
        }
        Some(scope)
    }

    const ON: &str = "--on=";
    const NAME: &str = "--name=";
}

/// Shows it by a process of its own: whatever happens to that, the terminal's modes are restored.
pub(crate) fn show(scope: &Scope) -> Result<()> {
    let mut command = child::ourselves(VIEWER);
    command.arg(BY_TOP).args(scope.words());
    attach::supervise(command, "show the sessions")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TopEvent {
    Keys,
    Feed(FeedEvent),
    /// Something was printed in this one of the window.
    Printed(usize),
    Errand(usize),
    FarPreview,
    Room,
    Person(PersonEvent),
}

/// One in the window, and when something was printed there.
struct Ticker {
    handle: Handle,
    session: SessionDir,
    client: RelayClient,
    // The time before which it is not checked.
    due: Instant,
    // How long the last look took.
    cost: Duration,
}

/// The screen of the selected session.
struct Preview {
    session: SessionDir,
    log: OutputLog,
    cache: ScreenCache,
    /// The newest first.
    commands: Vec<CommandEntry>,
    // Something has been printed since.
    is_old: bool,
}

impl Preview {
    fn of(state_dir: &StateDir, handle: &Handle) -> Result<Preview> {
        let session = state_dir.session(&Target::Handle(handle.clone()))?;
        let log = session.log()?;
        let cache = ScreenCache::look(&session)?;
        let commands = session.last_commands(drawing::MOST_COMMANDS)?;
        Ok(Preview { session, log, cache, commands, is_old: false })
    }

    fn follow(&mut self) -> Result<()> {
        self.is_old = false;
        let length = self.log.length().trying("read the output")?;
        self.commands = self.session.last_commands(drawing::MOST_COMMANDS)?;
        let seen = self.cache.seen_length(&self.session, &self.log, length)?;
        self.cache.follow(&self.session, &self.log, seen)
    }
}

/// A call that a key has made: its errors are for the person.
struct KeyCall {
    call: CallProcess,
    words: Vec<u8>,
}

impl KeyCall {
    /// Reads its output; when it has ended, the reason of its failure, if it failed.
    fn receive(&mut self) -> Result<Option<Option<String>>> {
        let mut came = Vec::new();
        self.call.drive(&mut came)?;
        let mut ended = None;
        for came in came {
            match came {
                Came::Stdout(_) => {}
                Came::Stderr(bytes) => keep_last(&mut self.words, &bytes),
                Came::Ended(end) => {
                    let said = text::last_line_shown(&self.words);
                    let said = said.filter(|_| !matches!(end, call::End::Exit(0)));
                    ended = Some(said.map(|said| said.strip_prefix("nbs-ts: ").unwrap_or(&said).to_owned()));
                }
            }
        }
        Ok(ended)
    }
}

/// The screen of a session of another machine, as it was when it was asked for.
struct FarPreview {
    address: Address,
    // `None`: it is on this machine.
    call: Option<CallProcess>,
    rows: Vec<u8>,
    screen: Option<Screen>,
}

impl FarPreview {
    fn ask(address: &Address) -> Option<CallProcess> {
        CallProcess::start("screen", vec!["--ansi".into(), address.to_string().into()]).ok()
    }

    fn receive(&mut self) -> Result<()> {
        let mut came = Vec::new();
        if let Some(call) = &mut self.call {
            call.drive(&mut came)?;
        }
        for came in came {
            match came {
                Came::Stdout(bytes) if self.rows.len() < MOST_BYTES => self.rows.extend(bytes),
                Came::Stdout(_) => {}
                Came::Stderr(_) => {}
                Came::Ended(_) => {
                    self.call = None;
                    let rows = std::mem::take(&mut self.rows);
                    let count = memchr::memchr_iter(b'\n', &rows).take(MOST_ROWS.into()).count();
                    let mut screen = Screen::new(MOST_COLS, u16::try_from(count).unwrap_or(1).max(1));
                    for (index, row) in rows.split(|byte| *byte == b'\n').take(count).enumerate() {
                        screen.feed(if index > 0 { b"\r\n" } else { b"" });
                        screen.feed(row);
                    }
                    // The position of the cursor is unknown, so we show the beginning.
                    screen.feed(b"\x1b[H");
                    self.screen = Some(screen);
                }
            }
        }
        Ok(())
    }
}

struct Top<'a> {
    state_dir: &'a StateDir,
    terminal: PersonTerminal,
    feed: Feed,
    model: Model,
    keys: Keys,
    tickers: Vec<Ticker>,
    preview: Option<Preview>,
    far_preview: Option<FarPreview>,
    errands: Vec<KeyCall>,
    columns: Option<Columns>,
    size: (usize, usize),
    colours: bool,
    // The content of the terminal once all output is written.
    frame: TopFrame,
    // When an age that is shown will be another.
    older: Deadline,
    begun: Instant,
}

/// Shows the sessions on the terminal that is our standard input and output, until the person leaves.
/// `parent` is a pipe to the process that restores the terminal if we cannot.
pub(crate) fn view(state_dir: &StateDir, scope: Scope, parent: &impl AsFd) -> Result<()> {
    let terminal = PersonTerminal::look()?;
    let (feed, there_are) = Feed::begin(state_dir, scope.pattern.as_deref(), &scope.machines)?;
    let mut top = Top {
        state_dir,
        terminal,
        feed,
        model: Model::new(),
        keys: Keys::default(),
        tickers: Vec::new(),
        preview: None,
        far_preview: None,
        errands: Vec::new(),
        columns: None,
        size: (80, 24),
        colours: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        frame: TopFrame::default(),
        older: Deadline::NEVER,
        begun: Instant::now(),
    };
    // The relays will report the activities of live sessions.
    top.model.put(there_are.into_iter().filter(is_others).collect());
    let end = top.enter().and_then(|()| top.serve(parent));
    top.leave()?;
    top.terminal.give_back()?;
    match end? {
        End::Left => Ok(()),
        End::Told => Err(Failure::failed("ended by a signal".into())),
    }
}

/// Is it a session that we are not in? Showing our own would cause more output in it.
fn is_others(overview: &ActivityView) -> bool {
    let ours = || env::var_os(SESSION_ENV).is_some_and(|ours| ours == overview.glance.handle.as_str());
    overview.machine.is_some() || !ours()
}

enum End {
    /// The person has.
    Left,
    /// A signal ended us.
    Told,
}

impl Top<'_> {
    fn enter(&mut self) -> Result<()> {
        self.terminal.make_raw()?;
        // The alternate screen, without wrapping: text as wide as the row stays in it.
        self.terminal.print(b"\x1b[?1049h\x1b[?7l");
        self.redraw()
    }

    fn redraw(&mut self) -> Result<()> {
        let size = term::size().trying("read the terminal's size")?;
        self.size = size.map_or((80, 24), |size| (size.cols.into(), size.rows.into()));
        (self.frame, self.columns) = (TopFrame::default(), None);
        self.terminal.print(b"\x1b[0m\x1b[H\x1b[2J");
        Ok(())
    }

    /// Restores the terminal's previous screen.
    fn leave(&mut self) -> Result<()> {
        // CAN ends an incomplete sequence.
        self.terminal.out.clear();
        self.terminal.print(b"\x18\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l");
        self.terminal.finish()
    }

    fn serve(&mut self, parent: &impl AsFd) -> Result<End> {
        let what = "show the sessions";
        let mut signals = PersonSignals::catch(parent)?;
        let stdin = io::stdin();
        let mut key_ends = Deadline::NEVER;
        loop {
            self.take_news()?;
            self.draw()?;
            self.terminal.write_on()?;
            let now = Instant::now();
            self.tickers.retain_mut(|ticker| ticker.due > now || ticker.client.follow().unwrap_or(false));
            let mut poll_set = PollSet::new();
            poll_set.readable(&stdin, TopEvent::Keys);
            self.feed.watch(&mut poll_set, TopEvent::Feed);
            if let Some(call) = self.far_preview.as_ref().and_then(|preview| preview.call.as_ref()) {
                call.watch(&mut poll_set, TopEvent::FarPreview);
            }
            let mut deadline = self.older.min(self.feed.deadline());
            if let Some(preview) = &self.preview {
                deadline = deadline.min(preview.cache.hides_until());
            }
            for (index, ticker) in self.tickers.iter().enumerate() {
                match ticker.due > now {
                    true => deadline = deadline.min(Deadline::at(ticker.due)),
                    false => poll_set.readable(&ticker.client, TopEvent::Printed(index)),
                }
            }
            for (index, errand) in self.errands.iter().enumerate() {
                errand.call.watch(&mut poll_set, TopEvent::Errand(index));
            }
            self.terminal.watch(&mut poll_set, TopEvent::Room);
            signals.watch(&mut poll_set, TopEvent::Person);
            if self.keys.is_unfinished() {
                key_ends = key_ends.min(Deadline::after(KEY_TIMEOUT));
                deadline = deadline.min(key_ends);
            }
            let events = poll_set.wait(deadline).trying(what)?;
            let has_more = events.contains(&TopEvent::Keys);
            let is_over = !has_more && self.keys.is_unfinished() && key_ends.has_passed();
            if has_more || is_over {
                key_ends = Deadline::NEVER;
            }
            let mut keys = if is_over { self.keys.finish() } else { Vec::new() };
            let mut stirred = Vec::new();
            for event in events {
                match event {
                    TopEvent::Keys => match read_keys(&stdin)? {
                        Some(bytes) => keys.extend(self.keys.feed(&bytes)),
                        // The terminal has gone.
                        None => return Ok(End::Told),
                    },
                    TopEvent::Feed(event) => self.feed.note(event),
                    TopEvent::Printed(index) => self.receive_printed(index),
                    // Once for each of its streams that can be read.
                    TopEvent::Errand(index) => stirred.push(index),
                    TopEvent::FarPreview => self.far_preview.iter_mut().try_for_each(FarPreview::receive)?,
                    TopEvent::Room => {}
                    TopEvent::Person(event) => {
                        signals.take(event);
                        match event {
                            PersonEvent::Resized => self.redraw()?,
                            // Another process may have used the terminal while we were stopped.
                            PersonEvent::GoingOn => self.enter()?,
                            PersonEvent::Ending => return Ok(End::Told),
                            PersonEvent::Stopping => {
                                self.leave()?;
                                if !self.terminal.stop(&mut signals)? {
                                    return Ok(End::Told);
                                }
                                self.enter()?;
                            }
                        }
                    }
                }
            }
            stirred.dedup();
            for index in stirred.into_iter().rev() {
                if let Some(complaint) = self.errands[index].receive()? {
                    self.errands.remove(index);
                    self.model.message = complaint.or(self.model.message.take());
                }
            }
            for key in keys {
                let act = self.model.press(key);
                if act == Act::Quit {
                    return Ok(End::Left);
                }
                self.act(act)?;
                if signals.take(PersonEvent::Ending) {
                    return Ok(End::Told);
                }
            }
        }
    }

    fn act(&mut self, act: Act) -> Result<()> {
        match act {
            Act::Nothing | Act::Quit => {}
            Act::Redraw => self.redraw()?,
            Act::Attach(address) => {
                self.leave()?;
                self.terminal.put_back()?;
                let attached = match &address.machine {
                    None => attach::attach(address.handle.as_str(), &[]),
                    Some(machine) => {
                        let words = ["attach", "--interactive", address.handle.as_str()].map(OsString::from);
                        attach::attach(&format!("{machine}:"), &words)
                    }
                };
                self.model.message = attached
                    .err()
                    .and_then(|failure| failure.message().map(|why| text::escaped(why.as_bytes())));
                self.enter()?;
            }
            // Without text, it is just Enter.
            Act::Answer { address, text, wanted } if text.is_empty() && wanted != ReplyKind::Secret => {
                self.run("send", &["--no-secret", ANSWER_TIMEOUT], &address, None, None);
            }
            Act::Answer { address, text, wanted: ReplyKind::Answer(id) } => {
                let id = id.map(|id| format!("--question-id={id}"));
                let options: Vec<&str> = [ANSWER_TIMEOUT].into_iter().chain(id.as_deref()).collect();
                self.run("answer", &options, &address, Some(&text), None);
            }
            Act::Answer { address, text, wanted: ReplyKind::Task } => {
                self.run("send", &["--submit", ANSWER_TIMEOUT], &address, Some(&text), None);
            }
            Act::Answer { address, text, wanted: ReplyKind::Line } => {
                self.run("send", &["--no-secret", ANSWER_TIMEOUT], &address, Some(&text), None);
            }
            Act::Answer { address, text, wanted: ReplyKind::Secret } => {
                let mut secret = text.into_bytes();
                secret.push(b'\n');
                self.run("send", &["--secret-stdin", ANSWER_TIMEOUT], &address, None, Some(&secret));
                secret.fill(0);
            }
            Act::End { address, alive } => {
                let options: &[&str] = if alive { &["--keep"] } else { &[] };
                self.run("kill", options, &address, None, None);
            }
        }
        Ok(())
    }

    /// Has a command of ours executed, and does not wait for it.
    fn run(
        &mut self,
        verb: &str,
        options: &[&str],
        address: &Address,
        text: Option<&str>,
        input: Option<&[u8]>,
    ) {
        let address = address.to_string();
        let words = options.iter().copied().chain([&*address]).chain(text).map(OsString::from).collect();
        match CallProcess::start_with(verb, words, input) {
            Ok(call) => self.errands.push(KeyCall { call: call.outlives_us(), words: Vec::new() }),
            Err(failure) => self.model.message = failure.message().map(str::to_owned),
        }
    }

    fn take_news(&mut self) -> Result<()> {
        let (mut told, mut removed) = (Vec::new(), Vec::new());
        let Top { feed, model, .. } = self;
        feed.take_news(self.state_dir, &mut |news| match news {
            FeedNews::Told(overview) => told.extend(Some(*overview).filter(is_others)),
            FeedNews::Removed(address, _) => {
                // News of it may have come before.
                told.retain(|overview: &ActivityView| overview.key() != address.key());
                removed.push(address);
            }
            FeedNews::Lost { machine, why, is_over } => {
                model.message = Some(format!("{machine}: {why}"));
                if is_over {
                    model.forget(&machine);
                }
            }
        })?;
        self.model.remove(&removed);
        if !told.is_empty() {
            self.model.put(told);
        }
        Ok(())
    }

    /// There is output, so the shown part of it is outdated.
    fn receive_printed(&mut self, index: usize) {
        let ticker = &mut self.tickers[index];
        if ticker
            .client
            .receive_news(Deadline::after(Duration::ZERO), None)
            .is_ok_and(|news| news != WaitOutcome::TimedOut)
        {
            let address = Address { machine: None, handle: ticker.handle.clone() };
            let is_selected = self.model.selected() == Some(&address);
            let every = if is_selected { SCREEN_EVERY } else { LINE_EVERY };
            ticker.due = Instant::now() + every.max(ticker.cost * PART);
            self.model.stale.insert(address);
        }
    }

    /// Reads the outdated parts of what is shown, and draws the changes. Does nothing while the terminal has
    /// not accepted all earlier output.
    fn draw(&mut self) -> Result<()> {
        if !self.terminal.out.is_empty() && self.frame != TopFrame::default() {
            // Till there is room, however old something becomes.
            self.older = Deadline::NEVER;
            return Ok(());
        }
        let (cols, rows) = self.size;
        self.model.is_new &= self.begun.elapsed() < BEGINNING;
        let layout = Layout::of(cols, rows, self.model.shown().len());
        let (window, selected) = self.model.in_window(layout.list);
        self.follow(&window);
        for address in &window {
            if self.model.stale.remove(address) {
                self.look(address, window.get(selected) == Some(address));
            }
        }
        let previewed = window.get(selected).filter(|_| layout.has_screen());
        if previewed.is_none_or(|address| address.machine.is_some()) {
            self.preview = None;
        }
        match previewed {
            Some(address) if address.machine.is_some() => self.look_at_far_screen(address),
            Some(address) => self.look_at_screen(&address.handle),
            None => {}
        }
        let names: Vec<String> = window.iter().map(|address| self.model.name(address)).collect();
        let overviews = window.iter().filter_map(|address| self.model.overview(address));
        let columns = Columns::of(overviews.clone().zip(&names), Some(cols));
        let columns = if let Some(before) = &self.columns { columns.at_least(before) } else { columns };
        let now = SystemTime::now();
        let next = overviews.filter_map(|overview| overview.next_age(now)).min();
        self.older = next.map_or(Deadline::NEVER, Deadline::after);
        let far = self.far_preview.as_ref().filter(|far| previewed == Some(&far.address));
        let far = far.and_then(|far| far.screen.as_ref());
        let screen = self.preview.as_ref().map(|preview| &preview.cache.screen).or(far);
        let commands = self.preview.as_ref().map_or(&[][..], |preview| &preview.commands);
        let shown = Shown { screen, commands, colours: self.colours };
        let frame = drawing::frame(&self.model, layout, &columns, (&window, selected), &shown);
        self.columns = Some(columns);
        self.terminal.print(drawing::changes(&self.frame, &frame, cols).as_bytes());
        self.frame = frame;
        Ok(())
    }

    /// Makes the sessions in the window report output, and no others.
    fn follow(&mut self, window: &[Address]) {
        let model = &self.model;
        let is_alive =
            |address: &Address| model.overview(address).is_some_and(|overview| overview.glance.alive);
        let alive: Vec<&Handle> = window
            .iter()
            .filter(|address| address.machine.is_none() && is_alive(address))
            .map(|address| &address.handle)
            .collect();
        self.tickers.retain(|ticker| alive.contains(&&ticker.handle));
        for handle in alive {
            let is_followed = self.tickers.iter().any(|ticker| ticker.handle == *handle);
            if is_followed {
                continue;
            }
            // If a session cannot be followed, its last state is shown.
            let Ok(session) = self.state_dir.session(&Target::Handle(handle.clone())) else { continue };
            let Ok(Some(client)) = RelayClient::open(&session) else { continue };
            let (due, cost) = (Instant::now(), Duration::ZERO);
            self.tickers.push(Ticker { handle: handle.clone(), session, client, due, cost });
        }
    }

    /// Reads its screen and its question.
    fn look(&mut self, address: &Address, is_selected: bool) {
        if address.machine.is_some() {
            // The rest is sent with the activity; the screen comes separately.
            if let Some(far) = self.far_preview.as_mut().filter(|far| far.address == *address) {
                far.call = FarPreview::ask(address);
                far.rows.clear();
            }
            return;
        }
        let (begun, handle) = (Instant::now(), &address.handle);
        let ticker = self.tickers.iter_mut().find(|ticker| ticker.handle == *handle);
        let Some(overview) = self.model.overview_mut(address) else { return };
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

    fn look_at_far_screen(&mut self, address: &Address) {
        if self.far_preview.as_ref().is_none_or(|far| far.address != *address) {
            let (address, call) = (address.clone(), FarPreview::ask(address));
            self.far_preview = Some(FarPreview { address, call, rows: Vec::new(), screen: None });
        }
    }

    fn look_at_screen(&mut self, handle: &Handle) {
        let begun = Instant::now();
        let is_other = self.preview.as_ref().is_none_or(|preview| preview.session.handle() != handle);
        if is_other {
            self.preview = Preview::of(self.state_dir, handle).ok();
        } else if let Some(preview) = &mut self.preview
            && (preview.is_old || preview.cache.hides_until().has_passed())
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
