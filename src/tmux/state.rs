//! The windows and panes of a name space, as a file in the state directory.
//!
//! The file is replaced as a whole, under a lock. A pane is a session of nbs, and the kernel tells
//! whether it lives; so the state is true after any kill as soon as it is read: a pane whose session
//! has ended is taken out then. No file means that no server runs.
//!
//! Before a session for a pane is begun, an empty file with its handle is made here. It goes when the state
//! with that pane has been written. If the call was killed before that, the next one finds it, and ends
//! the session, which no pane names.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    process::ChildStdin,
    str::FromStr,
    time::Duration,
};

use crate::{
    numbers::fnv,
    outcome::{Failure, Result, Trying},
    session::{Handle, StateDir, TMUX, Target},
    sys::{
        deadline::Deadline,
        files::{self, Folder},
        lock::{self, LockKind},
    },
    tmux::{layout::Cell, pipe},
};

const STATE: &str = "state";
const LOCK: &str = "lock";
/// Begins the name of the file of a session that is begun for a pane.
const BEGUN: &str = "n";
/// Begins the name of a folder for `-S`.
const BY_PATH: char = '@';
const LONGEST: u64 = 64 << 20;
/// How long to wait for other calls that change the same name space.
const PATIENCE: Duration = Duration::from_secs(60);

/// A name space: that of `-L NAME`, or that of `-S PATH`.
pub(crate) struct Space {
    /// The value of `#{socket_path}`; nothing listens there.
    pub(crate) socket: PathBuf,
    pub(crate) folder: PathBuf,
    /// The names of its panes begin with it.
    pub(crate) prefix: String,
}

impl Space {
    pub(crate) fn named(name: &str) -> Result<Space> {
        let root = spaces()?;
        if name.is_empty() || name.contains('/') || name.starts_with(['.', BY_PATH]) {
            let path = root.join(name);
            return Err(Failure::failed(format!("error creating {} (Invalid argument)", path.display())));
        }
        let prefix = if name == "default" { "tmux".to_owned() } else { format!("tmux-{name}") };
        let folder = root.join(name);
        Ok(Space { socket: folder.clone(), folder, prefix })
    }

    pub(crate) fn at(path: &Path) -> Result<Space> {
        let root = spaces()?;
        let path = files::absolute(path).trying(format_args!("find '{}'", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.parent() == Some(&*root) {
            return Space::named(&name);
        }
        let folder = root.join(format!("{BY_PATH}{:016x}", fnv(path.as_os_str().as_encoded_bytes())));
        Ok(Space { socket: path, folder, prefix: format!("tmux-{name}") })
    }

    /// That of a pane's variable TMUX; `None` if it is a real tmux's.
    pub(crate) fn of_variable(value: &str) -> Option<Space> {
        let space = Space::at(Path::new(value.split(',').next()?)).ok()?;
        space.folder.is_dir().then_some(space)
    }

    fn open(&self) -> io::Result<Folder> {
        Folder::open(&self.folder)
    }

    /// Makes the folder for a first session.
    pub(crate) fn make(&self) -> Result<()> {
        StateDir::open_or_make()?;
        files::make_private_folders(&self.folder).trying(format_args!("create '{}'", self.folder.display()))
    }

    /// Keeps other calls from changing it for as long as the file is open.
    pub(crate) fn lock(&self) -> Result<File> {
        let locked = self.open().and_then(|folder| {
            lock::take(folder.open_lock(LOCK)?, LOCK, LockKind::Alone, Deadline::after(PATIENCE))
        });
        locked.map_err(|error| self.unreachable(&error))
    }

    pub(crate) fn unreachable(&self, error: &io::Error) -> Failure {
        let path = self.socket.display();
        Failure::failed(match error.kind() {
            io::ErrorKind::NotFound => format!("error connecting to {path} (No such file or directory)"),
            _ => format!("error connecting to {path} ({error})"),
        })
    }

    pub(crate) fn not_running(&self) -> Failure {
        match self.folder.is_dir() {
            true => Failure::failed(format!("no server running on {}", self.socket.display())),
            false => self.unreachable(&io::ErrorKind::NotFound.into()),
        }
    }

    /// `None`: no server runs.
    pub(crate) fn load(&self) -> Result<Option<State>> {
        Ok(self.text()?.map(|text| State::decode(&text)))
    }

    /// The state, if this text is in it.
    pub(crate) fn load_if_it_has(&self, name: &str) -> Result<Option<State>> {
        Ok(self.text()?.filter(|text| text.contains(name)).map(|text| State::decode(&text)))
    }

    fn text(&self) -> Result<Option<String>> {
        let read = files::there(self.open().and_then(|folder| folder.read(STATE, LONGEST)));
        let text = read.trying(format_args!("read '{}'", self.folder.join(STATE).display()))?;
        Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    /// The caller has the lock.
    pub(crate) fn store(&self, state: Option<&mut State>) -> Result<()> {
        let done = self.open().and_then(|folder| match state {
            Some(state) => {
                folder.replace(STATE, state.encode().as_bytes())?;
                state.keep_pipes();
                Ok(())
            }
            None => folder.remove_if_there(STATE.as_ref()),
        });
        done.trying(format_args!("write '{}'", self.folder.join(STATE).display()))
    }

    /// Notes that the session of a new pane is begun.
    pub(crate) fn note_begun(&self, handle: &Handle) -> Result<()> {
        self.within(|folder| folder.create(&format!("{BEGUN}{handle}"), b""))
    }

    /// Those that are noted.
    pub(crate) fn begun(&self) -> Result<Vec<Handle>> {
        self.within(|folder| {
            Ok(folder.names()?.iter().filter_map(|name| begun(&name.to_string_lossy())).collect())
        })
    }

    pub(crate) fn forget_begun(&self, handle: &Handle) -> Result<()> {
        self.within(|folder| folder.remove_file(format!("{BEGUN}{handle}").as_ref()))
    }

    /// A file of this name space, as one of a buffer.
    pub(crate) fn within<T>(&self, work: impl FnOnce(&Folder) -> io::Result<T>) -> Result<T> {
        self.open().and_then(|folder| work(&folder)).trying(format_args!("use '{}'", self.folder.display()))
    }
}

/// The handle in the name of such a file.
fn begun(name: &str) -> Option<Handle> {
    Handle::parse(name.strip_prefix(BEGUN)?.as_bytes())
}

fn spaces() -> Result<PathBuf> {
    Ok(StateDir::open()?.path().join(TMUX))
}

#[derive(Default)]
pub(crate) struct State {
    /// When the first session was made, in seconds since 1970; the PID of that call; the next IDs.
    pub(crate) main: Main,
    pub(crate) sessions: Vec<Session>,
    pub(crate) windows: Vec<Window>,
    pub(crate) panes: Vec<Pane>,
    /// Options and hooks.
    pub(crate) options: Vec<Setting>,
    pub(crate) variables: Vec<Setting>,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) channels: Vec<Channel>,
    /// Handles of sessions of nbs that are to be ended.
    pub(crate) doomed: Vec<Setting>,
    /// Pipes of panes that the state as it is stored does not name yet.
    pub(crate) begun_pipes: Vec<ChildStdin>,
}

#[derive(Default)]
pub(crate) struct Main {
    pub(crate) started: u64,
    pub(crate) pid: u32,
    pub(crate) sessions: u32,
    pub(crate) windows: u32,
    pub(crate) panes: u32,
    pub(crate) buffers: u32,
    /// The marked pane, if there is one.
    pub(crate) marked: Option<u32>,
}

#[derive(Clone, Default)]
pub(crate) struct Session {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// Empty: it is in none.
    pub(crate) group: String,
    pub(crate) created: u64,
    pub(crate) activity: u64,
    pub(crate) attached: u64,
    /// The index and the ID of each window. Invariant: sorted, and not empty.
    pub(crate) links: Vec<(u32, u32)>,
    pub(crate) current: u32,
    /// Indexes that were current before, the last one first.
    pub(crate) last: Vec<u32>,
    pub(crate) cwd: String,
    /// The PIDs of calls that show it.
    pub(crate) clients: Vec<u32>,
}

#[derive(Default)]
pub(crate) struct Window {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) layout: String,
    pub(crate) active: u32,
    /// Panes that were active before, the last one first.
    pub(crate) last: Vec<u32>,
    /// Only the active pane is shown, in the window's size.
    pub(crate) zoomed: bool,
    /// The pane that was split off in the background while this was zoomed: it has the window's size, too.
    pub(crate) unfitted: Option<u32>,
    pub(crate) preset: u32,
    pub(crate) activity: u64,
    /// The pane that was active before, unless it or its successor has ended since.
    pub(crate) previous: Option<u32>,
    /// The layout before the last select-layout.
    pub(crate) old: String,
}

#[derive(Clone, Default)]
pub(crate) struct Pane {
    pub(crate) id: u32,
    pub(crate) window: u32,
    pub(crate) handle: String,
    pub(crate) title: Option<String>,
    /// Its words, with [`BETWEEN`] between them.
    pub(crate) command: String,
    pub(crate) cwd: String,
    /// When it was seen dead; it stays by remain-on-exit.
    pub(crate) dead: Option<u64>,
    /// The name and the size that its session of nbs has been given.
    pub(crate) named: String,
    pub(crate) size: (u32, u32),
    /// The process that pipe-pane has started.
    pub(crate) pipe: Option<u32>,
    /// The position in the log at which its history was cleared, or its terminal reset.
    pub(crate) from: u64,
    pub(crate) input_off: bool,
    pub(crate) limit: u32,
    /// A letter for each mode that it is in; the last one is in front.
    pub(crate) modes: String,
}

#[derive(Clone, Default)]
pub(crate) struct Setting {
    /// `s`, `g`, `w`, the ID of a session, a window or a pane, or a table of keys.
    pub(crate) scope: String,
    pub(crate) name: String,
    /// `None`: a variable that is removed, an option whose indexes are unset.
    pub(crate) value: Option<String>,
    /// For a key: it repeats.
    pub(crate) hidden: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) file: u32,
    pub(crate) automatic: bool,
    pub(crate) created: u64,
    pub(crate) size: u64,
}

/// A channel of wait-for.
#[derive(Default)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) locked: bool,
    /// It was signalled while nobody waited.
    pub(crate) woken: bool,
    /// The FIFOs of those who wait for the signal, and of those for the lock, by number.
    pub(crate) waiters: Vec<u32>,
    pub(crate) lockers: Vec<u32>,
}

/// Reads the fields of a record, or writes them.
struct Fields<'a> {
    given: Vec<&'a str>,
    at: usize,
    out: String,
    reads: bool,
}

impl Fields<'_> {
    fn next(&mut self) -> &str {
        let field = self.given.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        field
    }

    fn put(&mut self, value: &str) {
        self.out.push('\t');
        if !value.bytes().any(|byte| matches!(byte, b'\\' | b'\t' | b'\n' | b'\0')) {
            self.out += value;
            return;
        }
        for character in value.chars() {
            match character {
                '\\' => self.out += "\\\\",
                '\t' => self.out += "\\t",
                '\n' => self.out += "\\n",
                '\0' => {}
                other => self.out.push(other),
            }
        }
    }

    fn text(&mut self, value: &mut String) {
        if self.reads {
            *value = plain(self.next());
        } else {
            self.put(value);
        }
    }

    fn maybe_text(&mut self, value: &mut Option<String>) {
        if self.reads {
            *value = self.next().strip_prefix('=').map(plain);
        } else {
            let text = value.as_ref().map_or("-".to_owned(), |value| format!("={value}"));
            self.put(&text);
        }
    }

    fn big(&mut self, value: &mut u64) {
        if self.reads {
            *value = number(self.next());
        } else {
            self.put(&value.to_string());
        }
    }

    fn number(&mut self, value: &mut u32) {
        let mut big = u64::from(*value);
        self.big(&mut big);
        *value = big as u32;
    }

    fn truth(&mut self, value: &mut bool) {
        let mut big = u64::from(*value);
        self.big(&mut big);
        *value = big != 0;
    }

    /// One more than the number; 0 is none.
    fn maybe(&mut self, value: &mut Option<u64>) {
        let mut big = value.map_or(0, |value| value + 1);
        self.big(&mut big);
        *value = big.checked_sub(1);
    }

    fn maybe_id(&mut self, value: &mut Option<u32>) {
        let mut big = value.map(u64::from);
        self.maybe(&mut big);
        *value = big.map(|value| value as u32);
    }

    fn numbers(&mut self, value: &mut Vec<u32>) {
        let mut text: String = value.iter().map(|number| format!("{number},")).collect();
        self.text(&mut text);
        *value = text.split_terminator(',').map(number).collect();
    }
}

fn number<N: FromStr + Default>(text: &str) -> N {
    text.parse().unwrap_or_default()
}

fn plain(field: &str) -> String {
    if memchr::memchr(b'\\', field.as_bytes()).is_none() {
        return field.to_owned();
    }
    let (mut text, mut escaped) = (String::with_capacity(field.len()), false);
    for character in field.chars() {
        match (std::mem::take(&mut escaped), character) {
            (false, '\\') => escaped = true,
            (true, 't') => text.push('\t'),
            (true, 'n') => text.push('\n'),
            (_, other) => text.push(other),
        }
    }
    text
}

type Visit<T> = fn(&mut T, &mut Fields<'_>);

impl State {
    pub(crate) fn keep_pipes(&mut self) {
        std::mem::take(&mut self.begun_pipes).into_iter().for_each(pipe::keep);
    }

    fn encode(&mut self) -> String {
        let mut fields = Fields { given: Vec::new(), at: 0, out: String::new(), reads: false };
        fields.out.push('m');
        main(&mut self.main, &mut fields);
        write(&mut fields, 's', &mut self.sessions, session);
        write(&mut fields, 'w', &mut self.windows, window);
        write(&mut fields, 'p', &mut self.panes, pane);
        write(&mut fields, 'o', &mut self.options, setting);
        write(&mut fields, 'e', &mut self.variables, setting);
        write(&mut fields, 'b', &mut self.buffers, buffer);
        write(&mut fields, 'c', &mut self.channels, channel);
        write(&mut fields, 'd', &mut self.doomed, setting);
        fields.out.push('\n');
        fields.out
    }

    fn decode(text: &str) -> State {
        let mut state = State::parse(text);
        state.mend();
        state
    }

    fn parse(text: &str) -> State {
        let mut state = State::default();
        for line in text.lines() {
            let mut fields =
                Fields { given: line.split('\t').collect(), at: 1, out: String::new(), reads: true };
            match fields.given[0] {
                "m" => main(&mut state.main, &mut fields),
                "s" => read(&mut fields, &mut state.sessions, session),
                "w" => read(&mut fields, &mut state.windows, window),
                "p" => read(&mut fields, &mut state.panes, pane),
                "o" => read(&mut fields, &mut state.options, setting),
                "e" => read(&mut fields, &mut state.variables, setting),
                "b" => read(&mut fields, &mut state.buffers, buffer),
                "c" => read(&mut fields, &mut state.channels, channel),
                "d" => read(&mut fields, &mut state.doomed, setting),
                _ => {}
            }
        }
        state
    }

    /// Makes a damaged state one that holds together: what leads nowhere goes. Was there any?
    fn mend(&mut self) -> bool {
        let State { sessions, windows, panes, .. } = self;
        let before = (panes.len(), windows.len(), sessions.iter().map(|one| one.links.len()).sum::<usize>());
        // One of two of an ID goes.
        let mut changed = in_order(sessions) | in_order(windows) | in_order(panes);
        panes.keep(&|pane| place(windows, pane.window).is_some());
        let mut of_windows: Vec<(u32, u32)> = panes.iter().map(|pane| (pane.window, pane.id)).collect();
        of_windows.sort_unstable();
        let panes_of = |window: u32| {
            let start = of_windows.partition_point(|(of, _)| *of < window);
            let length = of_windows[start..].partition_point(|(of, _)| *of == window);
            &of_windows[start..start + length]
        };
        windows.keep(&|window| !panes_of(window.id).is_empty());
        for session in sessions.iter_mut() {
            session.links.keep(&|(_, id)| place(windows, *id).is_some());
            if let Some((first, _)) = session.links.first()
                && session.window_at(session.current).is_none()
            {
                session.current = *first;
                changed = true;
            }
        }
        for window in windows.iter_mut() {
            let ids: Vec<u32> = panes_of(window.id).iter().map(|(_, id)| *id).collect();
            if !ids.contains(&window.active) {
                window.active = ids[0];
                changed = true;
            }
            let cell = Cell::parse(&window.layout);
            let has_all = |cell: &Cell| {
                cell.panes().len() == ids.len() && cell.panes().iter().all(|(pane, _)| ids.contains(pane))
            };
            if !cell.as_ref().is_some_and(has_all) {
                let (width, height) = cell.map_or((80, 24), |cell| (cell.width, cell.height));
                window.layout = Cell::tiled(&ids, width, height).shown();
                changed = true;
            }
        }
        self.sweep();
        let State { sessions, windows, panes, .. } = self;
        changed || before != (panes.len(), windows.len(), sessions.iter().map(|one| one.links.len()).sum())
    }
}

/// The faults in the directories of name spaces, each with its remedy.
pub(crate) fn faults() -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let Ok(root) = spaces() else { return faults };
    let Ok(names) = Folder::open(&root).and_then(|folder| folder.names()) else { return faults };
    for name in names {
        let path = root.join(&name);
        let Ok(folder) = Folder::open(&path) else {
            faults.push((format!("'{}' is not a directory of nbs", path.display()), "remove it".into()));
            continue;
        };
        for file in folder.names().unwrap_or_default() {
            let file = file.to_string_lossy();
            let is_numbered =
                |kind| file.strip_prefix(kind).is_some_and(|digits: &str| digits.parse::<u32>().is_ok());
            let name = file.strip_prefix('.').and_then(|name| name.strip_suffix(".new")).unwrap_or(&file);
            let is_buffer = name.strip_prefix('b').is_some_and(|digits| digits.parse::<u32>().is_ok());
            let is_begun = begun(&file).is_some();
            if ![STATE, LOCK].contains(&name) && !is_buffer && !is_numbered('w') && !is_begun {
                let what = format!("'{}' is not a file of nbs", path.join(&*file).display());
                faults.push((what, "remove it".into()));
            }
        }
        let text = folder.read(STATE, LONGEST);
        // A call that has the lock may be making it.
        if folder.open_lock(LOCK).is_ok_and(|lock| lock.try_lock().is_ok()) {
            faults.extend(left_sessions(&folder));
        }
        let Ok(text) = text else { continue };
        let text = String::from_utf8_lossy(&text);
        let is_whole = text.starts_with("m\t") && text.ends_with('\n') && !State::parse(&text).mend();
        if !is_whole {
            let what = format!("'{}' is damaged", path.join(STATE).display());
            faults.push((what, "'nbs tmux kill-server' ends what is left".into()));
        }
    }
    faults
}

/// The sessions that killed calls have left, and that no pane names.
fn left_sessions(folder: &Folder) -> Vec<(String, String)> {
    let state = folder.read(STATE, LONGEST).unwrap_or_default();
    let state = State::parse(&String::from_utf8_lossy(&state));
    let mut faults = Vec::new();
    for name in folder.names().unwrap_or_default() {
        let Some(handle) = begun(&name.to_string_lossy()).filter(|handle| !state.names(handle)) else {
            continue;
        };
        let target = Target::Handle(handle.clone());
        if StateDir::open().and_then(|state_dir| state_dir.session(&target)).is_ok() {
            let what =
                format!("session '{handle}' was started by a call that was killed, and no pane names it");
            faults.push((
                what,
                format!("'nbs-ts kill {handle}' ends it, and so does the next pane that is made"),
            ));
        }
    }
    faults
}

fn write<T>(fields: &mut Fields<'_>, kind: char, records: &mut [T], visit: Visit<T>) {
    for record in records {
        fields.out.push('\n');
        fields.out.push(kind);
        visit(record, fields);
    }
}

fn read<T: Default>(fields: &mut Fields<'_>, records: &mut Vec<T>, visit: Visit<T>) {
    let mut record = T::default();
    visit(&mut record, fields);
    records.push(record);
}

fn main(main: &mut Main, fields: &mut Fields<'_>) {
    fields.big(&mut main.started);
    for value in [&mut main.pid, &mut main.sessions, &mut main.windows, &mut main.panes, &mut main.buffers] {
        fields.number(value);
    }
    fields.maybe_id(&mut main.marked);
}

fn session(session: &mut Session, fields: &mut Fields<'_>) {
    fields.number(&mut session.id);
    fields.text(&mut session.name);
    fields.text(&mut session.group);
    fields.big(&mut session.created);
    fields.big(&mut session.activity);
    fields.big(&mut session.attached);
    let mut links: Vec<u32> = session.links.iter().flat_map(|(index, id)| [*index, *id]).collect();
    fields.numbers(&mut links);
    session.links = links.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    fields.number(&mut session.current);
    fields.numbers(&mut session.last);
    fields.text(&mut session.cwd);
    fields.numbers(&mut session.clients);
}

fn window(window: &mut Window, fields: &mut Fields<'_>) {
    fields.number(&mut window.id);
    fields.text(&mut window.name);
    fields.text(&mut window.layout);
    fields.number(&mut window.active);
    fields.numbers(&mut window.last);
    fields.truth(&mut window.zoomed);
    fields.number(&mut window.preset);
    fields.big(&mut window.activity);
    fields.maybe_id(&mut window.previous);
    fields.text(&mut window.old);
    fields.maybe_id(&mut window.unfitted);
}

fn pane(pane: &mut Pane, fields: &mut Fields<'_>) {
    fields.number(&mut pane.id);
    fields.number(&mut pane.window);
    fields.text(&mut pane.handle);
    fields.maybe_text(&mut pane.title);
    fields.text(&mut pane.command);
    fields.text(&mut pane.cwd);
    fields.maybe(&mut pane.dead);
    fields.text(&mut pane.named);
    fields.number(&mut pane.size.0);
    fields.number(&mut pane.size.1);
    fields.maybe_id(&mut pane.pipe);
    fields.big(&mut pane.from);
    fields.truth(&mut pane.input_off);
    fields.number(&mut pane.limit);
    fields.text(&mut pane.modes);
}

fn setting(setting: &mut Setting, fields: &mut Fields<'_>) {
    fields.text(&mut setting.scope);
    fields.text(&mut setting.name);
    fields.maybe_text(&mut setting.value);
    fields.truth(&mut setting.hidden);
}

fn buffer(buffer: &mut Buffer, fields: &mut Fields<'_>) {
    fields.text(&mut buffer.name);
    fields.number(&mut buffer.file);
    fields.truth(&mut buffer.automatic);
    fields.big(&mut buffer.created);
    fields.big(&mut buffer.size);
}

fn channel(channel: &mut Channel, fields: &mut Fields<'_>) {
    fields.text(&mut channel.name);
    fields.truth(&mut channel.locked);
    fields.truth(&mut channel.woken);
    fields.numbers(&mut channel.waiters);
    fields.numbers(&mut channel.lockers);
}

impl Setting {
    pub(crate) fn new(scope: &str, name: &str, value: Option<String>) -> Setting {
        Setting { scope: scope.to_owned(), name: name.to_owned(), value, hidden: false }
    }
}

/// Puts a setting in the place of the one of its name, or at the end.
pub(crate) fn put(settings: &mut Vec<Setting>, new: Setting) {
    match settings.iter_mut().find(|old| old.scope == new.scope && old.name == new.name) {
        Some(old) => *old = new,
        None => settings.push(new),
    }
}

/// `Vec::retain` whose code is there once for each type, and not for each use.
pub(crate) trait Keep<T> {
    fn keep(&mut self, stays: &dyn Fn(&T) -> bool);
}

impl<T> Keep<T> for Vec<T> {
    #[inline(never)]
    fn keep(&mut self, stays: &dyn Fn(&T) -> bool) {
        let mut kept = 0;
        for at in 0..self.len() {
            if stays(&self[at]) {
                self.swap(kept, at);
                kept += 1;
            }
        }
        self.truncate(kept);
    }
}

/// The same by name.
pub(crate) fn sorted(settings: Vec<Setting>) -> Vec<Setting> {
    let mut sorted: Vec<Setting> = Vec::new();
    for setting in settings {
        let at = sorted.partition_point(|other| other.name <= setting.name);
        sorted.insert(at, setting);
    }
    sorted
}

/// A session, window or pane. The state keeps each kind sorted by ID.
trait Numbered {
    fn id(&self) -> u32;
}

impl Numbered for Session {
    fn id(&self) -> u32 {
        self.id
    }
}

impl Numbered for Window {
    fn id(&self) -> u32 {
        self.id
    }
}

impl Numbered for Pane {
    fn id(&self) -> u32 {
        self.id
    }
}

fn place<T: Numbered>(all: &[T], id: u32) -> Option<usize> {
    let at = all.partition_point(|one| one.id() < id);
    all.get(at).filter(|one| one.id() == id).map(|_| at)
}

/// Puts them in order, for a damaged file may have them otherwise. Was that so?
fn in_order<T: Numbered>(all: &mut Vec<T>) -> bool {
    let is_sound = all.is_sorted_by(|one, next| one.id() < next.id());
    if !is_sound {
        all.sort_unstable_by_key(T::id);
        all.dedup_by_key(|one| one.id());
    }
    !is_sound
}

impl State {
    pub(crate) fn session(&self, id: u32) -> Option<&Session> {
        self.sessions.get(place(&self.sessions, id)?)
    }

    pub(crate) fn session_mut(&mut self, id: u32) -> &mut Session {
        let at = place(&self.sessions, id).expect("a target names one that is there");
        &mut self.sessions[at]
    }

    pub(crate) fn window(&self, id: u32) -> &Window {
        &self.windows[place(&self.windows, id).expect("a link leads to one that is there")]
    }

    pub(crate) fn window_mut(&mut self, id: u32) -> &mut Window {
        let at = place(&self.windows, id).expect("a link leads to one that is there");
        &mut self.windows[at]
    }

    pub(crate) fn pane(&self, id: u32) -> Option<&Pane> {
        self.panes.get(place(&self.panes, id)?)
    }

    pub(crate) fn pane_mut(&mut self, id: u32) -> &mut Pane {
        let at = place(&self.panes, id).expect("a target names one that is there");
        &mut self.panes[at]
    }

    /// The IDs of windows to which a session has a link.
    fn linked(&self) -> Vec<u32> {
        let mut linked = Vec::new();
        for session in &self.sessions {
            linked.extend(session.links.iter().map(|(_, window)| *window));
        }
        linked.sort_unstable();
        linked
    }

    /// The sessions whose windows are the same; it alone where it is in no group.
    pub(crate) fn group(&self, id: u32) -> Vec<u32> {
        let group = self.session(id).map(|session| session.group.clone()).unwrap_or_default();
        let is_in = |other: &&Session| other.id == id || (!group.is_empty() && other.group == group);
        self.sessions.iter().filter(is_in).map(|session| session.id).collect()
    }

    /// Gives a window an index in a session, and in those of its group.
    pub(crate) fn link(&mut self, session: u32, index: u32, window: u32) {
        for id in self.group(session) {
            let session = self.session_mut(id);
            session.links.keep(&|(there, _)| *there != index);
            let at = session.links.partition_point(|(there, _)| *there < index);
            session.links.insert(at, (index, window));
        }
    }

    /// Takes a window out of a session and its group. What is in no session any more goes; a session
    /// without a window, too.
    pub(crate) fn unlink(&mut self, session: u32, index: u32) {
        for id in self.group(session) {
            self.session_mut(id).drop_link(index);
        }
        self.sweep();
    }

    /// Removes what nothing leads to.
    pub(crate) fn sweep(&mut self) {
        self.sessions.keep(&|session| !session.links.is_empty());
        let linked = self.linked();
        let State { sessions, windows, panes, doomed, options, variables, .. } = self;
        windows.keep(&|window| linked.binary_search(&window.id).is_ok());
        let has_window = |pane: &Pane| place(windows, pane.window).is_some();
        for pane in panes.iter().filter(|pane| !has_window(pane)) {
            doomed.push(Setting::new("", &pane.handle, None));
        }
        panes.keep(&has_window);
        let is_there = |setting: &Setting| match setting.scope.split_at_checked(1) {
            Some(("$", id)) => place(sessions, number(id)).is_some(),
            Some(("@", id)) => place(windows, number(id)).is_some(),
            Some(("%", id)) => place(panes, number(id)).is_some(),
            _ => true,
        };
        options.keep(&is_there);
        variables.keep(&is_there);
    }

    /// Is it the session of a pane?
    pub(crate) fn names(&self, handle: &Handle) -> bool {
        self.panes.iter().any(|pane| pane.handle == handle.as_str())
    }

    /// Is nothing left for which a server would run?
    pub(crate) fn is_over(&self) -> bool {
        self.sessions.is_empty()
            && self.setting("s", "exit-empty").and_then(|setting| setting.value.as_deref()) != Some("off")
    }

    pub(crate) fn add_pane(&mut self, pane: Pane) {
        self.main.panes += 1;
        self.panes.push(pane);
    }

    /// Sets an option of a window.
    pub(crate) fn set_of_window(&mut self, window: u32, name: &str, value: &str) {
        put(&mut self.options, Setting::new(&format!("@{window}"), name, Some(value.to_owned())));
    }

    /// The session of a target that was found.
    pub(crate) fn found(&self, session: u32) -> &Session {
        self.session(session).expect("a target names one that is there")
    }
}

impl Session {
    pub(crate) fn window_at(&self, index: u32) -> Option<u32> {
        self.links.iter().find(|(there, _)| *there == index).map(|(_, window)| *window)
    }

    pub(crate) fn has_window(&self, window: u32) -> bool {
        self.links.iter().any(|(_, id)| *id == window)
    }

    pub(crate) fn current_window(&self) -> u32 {
        self.window_at(self.current).unwrap_or(self.links[0].1)
    }

    pub(crate) fn select(&mut self, index: u32) {
        if self.current != index {
            let before = self.current;
            self.last.keep(&|there| *there != index && *there != before);
            self.last.insert(0, before);
            self.current = index;
        }
    }

    pub(crate) fn drop_link(&mut self, index: u32) {
        let at = self.links.iter().position(|(there, _)| *there == index);
        self.links.keep(&|(there, _)| *there != index);
        self.last.keep(&|there| *there != index);
        if self.current == index && !self.links.is_empty() {
            let before = at.unwrap_or(0).checked_sub(1).unwrap_or(self.links.len() - 1);
            self.current = if self.last.is_empty() { self.links[before].0 } else { self.last.remove(0) };
        }
    }
}

/// Stands between words, in which it has no place.
const BETWEEN: char = '\u{1f}';

impl Pane {
    pub(crate) fn words(&self) -> Vec<String> {
        self.command.split(BETWEEN).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    pub(crate) fn command_of(words: &[String]) -> String {
        words.join(&BETWEEN.to_string())
    }
}

impl Window {
    pub(crate) fn select(&mut self, pane: u32) {
        if self.active != pane {
            let before = self.active;
            self.last.keep(&|there| *there != pane && *there != before);
            self.last.insert(0, before);
            self.active = pane;
            self.previous = Some(before);
        }
    }

    /// Gives each pane its place again. `zooms`: a window that was zoomed shows only its active pane afterwards.
    pub(crate) fn fit(&mut self, zooms: bool) {
        self.zoomed &= zooms;
        self.unfitted = None;
    }
}
