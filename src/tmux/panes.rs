//! The session of nbs behind a pane: its start, its end, and what it shows.

use std::{
    ffi::OsString,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use crate::{
    outcome::Result,
    relay::SpawnVia,
    session::{
        self, EndedBy, Handle, Name, ScreenCache, SessionDir, Settings, StateDir, Target,
        client::{Parts, RelayClient, Snapshot, protocol::KeyModes, snapshot::Folder},
    },
    sys::{clock, processes::Process, pty::Size, user},
    terminal::{screen::Screen, text},
    tmux::{
        layout::Cell,
        options, pipe,
        state::{Keep, Pane, Space, State},
    },
    ts::create_options::CreateOptions,
};

/// The PID in the variable TMUX: that of the process by which the name space is served, and nobody is.
const NOBODY: u32 = 1;

/// The options of a new pane.
pub(crate) struct Start<'a> {
    pub(crate) words: &'a [String],
    pub(crate) cwd: &'a str,
    pub(crate) size: (u32, u32),
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) session: u32,
    pub(crate) pane: u32,
    pub(crate) umask: u32,
}

pub(crate) fn now() -> u64 {
    clock::unix_seconds(std::time::SystemTime::now()).as_secs()
}

/// Starts the session of a pane, and returns its handle.
pub(crate) fn start(space: &Space, state: &State, start: Start<'_>) -> Result<Handle> {
    let socket = space.socket.display();
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    let session = format!("${}", start.session);
    for scope in ["g", &session] {
        for variable in &state.variables {
            if variable.scope == *scope && !variable.hidden {
                variables.keep(&|(known, _)| *known != *variable.name);
                let value = variable.value.as_ref();
                variables.extend(value.map(|value| (OsString::from(&variable.name), value.into())));
            }
        }
    }
    let mut all = start.variables;
    let term = state.setting("s", "default-terminal").and_then(|setting| setting.value.clone());
    if let Some(term) = term {
        all.insert(0, ("TERM".to_owned(), term));
    }
    all.push(("TMUX".to_owned(), format!("{socket},{NOBODY},{}", start.session)));
    all.push(("TMUX_PANE".to_owned(), format!("%{}", start.pane)));
    for (name, value) in all {
        variables.push((name.into(), value.into()));
    }

    let cwd = Some(Path::new(start.cwd)).filter(|path| path.is_dir());
    let command = command(state, start.session, start.words);
    let history = Some(u64::from(state.history_limit(start.session)));
    let settings = Settings { pager: true, history, ..Settings::default() };
    let size = size(start.size);
    let cwd = cwd.map_or_else(user::home_or_root, Path::to_owned);
    let options = CreateOptions::plain(command, cwd, size, variables, start.umask, SpawnVia::Relay, settings);
    options.start_noting(&|handle| space.note_begun(handle))
}

/// Is the session of that handle still being made?
pub(crate) fn is_being_made(handle: &Handle) -> Result<bool> {
    Ok(StateDir::open()?.is_being_made(handle))
}

pub(crate) fn size((cols, rows): (u32, u32)) -> Size {
    let side = |side: u32| side.clamp(1, 9999) as u16;
    Size { cols: side(cols), rows: side(rows) }
}

/// The command line for a shell: one word is a command of a shell, several are a program and its arguments.
fn command(state: &State, session: u32, words: &[String]) -> Vec<u8> {
    let shell = state.option_of_session(session, "default-shell");
    let default = state.option_of_session(session, "default-command");
    let line = match words {
        [] if default.is_empty() => return format!("{} -l", quoted(&shell)).into_bytes(),
        [] => default,
        [line] => line.clone(),
        several => several.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    };
    let program = shell.rsplit('/').next().unwrap_or_default();
    match program {
        "bash" | "sh" | "dash" | "ash" => line.into_bytes(),
        _ => format!("exec {} -c {}", quoted(&shell), quoted(&line)).into_bytes(),
    }
}

/// One word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+=:,@%".contains(character);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

impl Pane {
    pub(crate) fn open(&self) -> Option<SessionDir> {
        let handle = Handle::parse(self.handle.as_bytes())?;
        StateDir::open().ok()?.session(&Target::Handle(handle)).ok()
    }

    /// Is its output handed to a command?
    pub(crate) fn has_pipe(&self) -> bool {
        self.pipe.is_some_and(|pid| pipe::running(pid, &self.handle).is_some())
    }

    /// Has its program ended? If that is unknown, it lives.
    pub(crate) fn has_ended(&self) -> bool {
        self.open().is_none_or(|session| !session.is_alive().unwrap_or(true))
    }
}

/// Ends the session of a pane, and removes it.
pub(crate) fn end(handle: &str) -> Result<()> {
    let Some(handle) = Handle::parse(handle.as_bytes()) else { return Ok(()) };
    let state_dir = StateDir::open()?;
    if let Ok(session) = state_dir.session(&Target::Handle(handle.clone())) {
        let cause = session::end_wholly(&session, session::GRACE, EndedBy::Kill)?;
        state_dir.remove(&handle, cause)?;
    }
    Ok(())
}

impl State {
    /// The panes of a window, in order, with their places.
    pub(crate) fn panes_of(&self, window: u32) -> Vec<u32> {
        let cell = self.cell(window);
        cell.panes().into_iter().map(|(pane, _)| pane).collect()
    }

    pub(crate) fn cell(&self, window: u32) -> Cell {
        let window = self.window(window);
        Cell::parse(&window.layout).unwrap_or_else(|| Cell::of_pane(window.active, 80, 24))
    }

    /// The part of a window that is shown: all of it, or one pane.
    pub(crate) fn shown_cell(&self, window: u32) -> Cell {
        let cell = self.cell(window);
        let window = self.window(window);
        if window.zoomed { Cell::of_pane(window.active, cell.width, cell.height) } else { cell }
    }

    /// The pane next to one: of several, the last one that was active.
    pub(crate) fn beside(&self, window: u32, pane: u32, across: bool, forward: bool) -> Option<u32> {
        let record = self.window(window);
        let age = |pane: u32| match pane == record.active {
            true => 0,
            false => record.last.iter().position(|other| *other == pane).map_or(usize::MAX, |at| at + 1),
        };
        self.cell(window).beside(pane, across, forward, &age)
    }

    pub(crate) fn pane_index(&self, pane: u32) -> u32 {
        let Some(window) = self.pane(pane).map(|pane| pane.window) else { return 0 };
        let base: u32 = self.option_of_pane(window, None, "pane-base-index").parse().unwrap_or(0);
        let at = self.panes_of(window).iter().position(|other| *other == pane);
        base + at.unwrap_or(0) as u32
    }

    /// The place that a pane has now.
    pub(crate) fn place_of(&self, pane: &Pane) -> Cell {
        let all = self.cell(pane.window);
        let window = self.window(pane.window);
        let is_whole = (window.zoomed && window.active == pane.id) || window.unfitted == Some(pane.id);
        let place = all.of(pane.id).filter(|_| !is_whole).cloned();
        place.unwrap_or_else(|| Cell::of_pane(pane.id, all.width, all.height))
    }

    pub(crate) fn size_of(&self, pane: &Pane) -> (u32, u32) {
        let place = self.place_of(pane);
        (place.width, place.height)
    }

    /// Takes out what has ended, of these panes or of all. A pane stays if remain-on-exit says so. Was there
    /// any?
    pub(crate) fn reap(&mut self, only: Option<Vec<u32>>) -> bool {
        for session in &mut self.sessions {
            session.clients.keep(&|pid| Process::read(*pid).is_some_and(|process| process.runs_our_file()));
        }
        let looked_at = only.unwrap_or_else(|| self.panes.iter().map(|pane| pane.id).collect());
        let state_dir = StateDir::open().ok();
        let lives = |pane: &Pane| {
            let handle = Handle::parse(pane.handle.as_bytes());
            // The lock is a quick check; only a pane that fails it is opened.
            let is_surely_alive = handle.is_some_and(|handle| {
                state_dir.as_ref().is_some_and(|state_dir| state_dir.is_surely_alive(&handle))
            });
            is_surely_alive || pane.dead.is_some() || !pane.has_ended()
        };
        let mut changed = false;
        for id in looked_at {
            let Some(pane) = self.pane(id).filter(|pane| !lives(pane)) else { continue };
            changed = true;
            let (window, session) = (pane.window, pane.open());
            let code = session.as_ref().and_then(|session| session.exit_code().ok().flatten());
            let stays = match &*self.option_of_pane(window, Some(id), "remain-on-exit") {
                "on" => true,
                "failed" => code != Some(0),
                _ => false,
            };
            if stays {
                let ended = session.and_then(|session| session.last_sign());
                let ended = ended.and_then(|ended| ended.duration_since(UNIX_EPOCH).ok());
                self.pane_mut(id).dead = Some(ended.map_or_else(now, |ended| ended.as_secs()));
            } else {
                self.remove_pane(id, false);
            }
        }
        changed
    }

    /// The panes of all windows of a session.
    pub(crate) fn panes_of_session(&self, session: u32) -> Vec<u32> {
        let mut panes = Vec::new();
        for (_, window) in self.session(session).map_or(&[][..], |session| &session.links) {
            panes.extend(self.panes_of(*window));
        }
        panes
    }

    /// Takes a pane out of its window, which goes with the last one. `ends`: its session is to be ended.
    pub(crate) fn remove_pane(&mut self, id: u32, ends: bool) {
        let Some(pane) = self.pane(id).cloned() else { return };
        if ends || pane.dead.is_some() {
            self.doomed.push(crate::tmux::state::Setting::new("", &pane.handle, None));
        }
        self.panes.keep(&|pane| pane.id != id);
        if self.main.marked == Some(id) {
            self.main.marked = None;
        }
        self.detach_pane(id, pane.window);
        self.sweep();
    }

    /// Takes it out of the window's layout.
    pub(crate) fn detach_pane(&mut self, id: u32, window: u32) {
        let order = self.panes_of(window);
        match self.cell(window).without(id) {
            Some(cell) => {
                let renumbered = self.window_mut(window);
                renumbered.layout = cell.shown();
                renumbered.last.keep(&|other| *other != id);
                renumbered.fit(false);
                if renumbered.active == id {
                    let at = order.iter().position(|other| *other == id).unwrap_or(0);
                    let beside = if at > 0 { order[at - 1] } else { order[1] };
                    renumbered.active = renumbered.previous.take().unwrap_or(beside);
                    let active = renumbered.active;
                    renumbered.last.keep(&|other| *other != active);
                } else if renumbered.previous == Some(id) {
                    renumbered.previous = None;
                }
            }
            None => {
                for session in &self.sessions.iter().map(|session| session.id).collect::<Vec<_>>() {
                    while let Some(index) = self
                        .session(*session)
                        .and_then(|session| session.links.iter().find(|(_, id)| *id == window))
                        .map(|(index, _)| *index)
                    {
                        self.session_mut(*session).drop_link(index);
                    }
                }
                self.windows.keep(&|other| other.id != window);
            }
        }
    }

    /// The name of the session of nbs for a pane at that index of that window.
    fn name_of(space: &Space, name: &str, index: u32, pane: u32) -> String {
        let end = format!(".{index}.{pane}");
        let start = format!("{}.{name}", space.prefix);
        let allowed = |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
        let start = start.chars().map(|character| if allowed(character) { character } else { '_' });
        start.take(64 - end.len()).collect::<String>() + &end
    }

    /// Makes the names and the sizes of the sessions of nbs what they are here.
    pub(crate) fn settle(&mut self, space: &Space) {
        let mut all = Vec::new();
        for session in &self.sessions {
            for (index, window) in &session.links {
                let base: u32 = self.option_of_pane(*window, None, "pane-base-index").parse().unwrap_or(0);
                for (at, pane) in self.panes_of(*window).into_iter().enumerate() {
                    all.push((pane, State::name_of(space, &session.name, *index, base + at as u32)));
                }
            }
        }
        // The first place of a window counts.
        all.sort_by_key(|(pane, _)| *pane);
        all.dedup_by_key(|(pane, _)| *pane);
        for (id, name) in all {
            let Some(pane) = self.pane(id).filter(|pane| pane.dead.is_none()) else { continue };
            let new_size = self.size_of(pane);
            if (&name, new_size) == (&pane.named, pane.size) {
                continue;
            }
            if let Some(session) = pane.open() {
                if name != pane.named
                    && let Some(name) = Name::parse(name.as_bytes())
                {
                    // If the session is gone, it needs no name.
                    let _ = session.rename(&name);
                }
                if new_size != pane.size
                    && let Ok(Some(mut client)) = RelayClient::open(&session)
                {
                    let _ = client.resize(size(new_size));
                }
            }
            let pane = self.pane_mut(id);
            (pane.named, pane.size) = (name, new_size);
        }
    }

    pub(crate) fn history_limit(&self, session: u32) -> u32 {
        self.option_in(&options::scopes(Some(session), None, None), "history-limit")
            .and_then(|limit| limit.parse().ok())
            .unwrap_or(2000)
    }
}

/// The present state of a pane's program.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) now: Option<Snapshot>,
    pub(crate) command: String,
}

impl Facts {
    pub(crate) fn gather(pane: &Pane) -> Facts {
        let Some(session) = pane.open() else { return Facts::default() };
        let client = RelayClient::open(&session.within(crate::sys::deadline::Deadline::after(PATIENCE)));
        let Ok(Some(mut client)) = client else { return Facts::default() };
        let now = client.snapshot(Parts::PROGRAM.and(Parts::FOLDER).and(Parts::KEYS)).ok().flatten();
        let program = now.as_ref().and_then(|now| now.program.as_ref());
        let command = program.map(|program| command_of(program.pid, &program.name)).unwrap_or_default();
        Facts { now, command }
    }

    pub(crate) fn folder(&self) -> String {
        match self.now.as_ref().and_then(|now| now.folder.as_ref()) {
            Some(Folder::There(path)) => String::from_utf8_lossy(path).into_owned(),
            _ => String::new(),
        }
    }

    pub(crate) fn keys(&self) -> Option<&KeyModes> {
        self.now.as_ref()?.keys.as_ref()
    }
}

/// How long a relay may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The name by which a process was called.
fn command_of(pid: u32, name: &str) -> String {
    let arguments = Process::read(pid).map(|process| process.arguments()).unwrap_or_default();
    let called = arguments.first().map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
    let called = window_name(&called);
    if called.is_empty() { name.to_owned() } else { called }
}

/// The name that tmux makes of a command line.
pub(crate) fn window_name(command: &str) -> String {
    let command = command.trim_start_matches('"').strip_prefix("exec ").unwrap_or(command);
    let word = command.trim_start_matches([' ', '-', '"']).split(' ').next().unwrap_or_default();
    let word = word.trim_end_matches('"');
    let name = if word.starts_with('/') { word.rsplit('/').next().unwrap_or(word) } else { word };
    text::escaped(name.as_bytes()).to_string()
}

/// The screen of a pane, since it was reset.
pub(crate) fn screen(pane: &Pane) -> Option<Screen> {
    Some(ScreenCache::look_from(&pane.open()?, pane.from).ok()?.screen)
}

impl Pane {
    /// Forgets what has scrolled off its screen or, if `resets`, all of it.
    pub(crate) fn cut(&mut self, resets: bool) -> Result<()> {
        if let Some(session) = self.open() {
            self.from = ScreenCache::cut(&session, self.from, resets)?;
        }
        Ok(())
    }
}
