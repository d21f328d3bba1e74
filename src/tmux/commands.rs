//! A call as `tmux`: its options, and one command after the other.

mod looking;
mod making;
mod modes;
mod placing;
mod setting;
mod typing;
mod waiting;

use std::{
    env,
    fs::File,
    path::{Path, PathBuf},
};

use crate::{
    cli::{self, Args},
    outcome::{Failure, Result},
    session::Handle,
    sys::files,
    tmux::{
        format::{Format, Seen, VERSION, name_of_window, session_name},
        options, panes,
        state::{Keep, Setting, Space, State},
        target::{Finder, Kind, Target},
        words::{self, Call, Usage},
    },
};

const USAGE: &str = "usage: tmux [-2CDlNuvV] [-c shell-command] [-f file] [-L socket-name]\n            \
                     [-S socket-path] [-T features] [command [flags]]";

/// More than files that read each other need.
const DEEPEST: u32 = 50;

/// The values that all commands of a call share.
struct Caller {
    space: Space,
    umask: u32,
    /// The pane that the call comes from.
    own: Option<u32>,
    cwd: String,
    /// Read before the first session is made.
    files: Vec<String>,
}

/// The state while a command is executed.
#[derive(Default)]
struct Turn {
    state: State,
    seen: Seen,
    // `None`: it is only looked at.
    lock: Option<File>,
    depth: u32,
    /// The session to show when it has ended.
    shown: Option<u32>,
    /// Sessions that a killed call has begun, and of which it is not known yet whether they will be.
    unsettled: Vec<Handle>,
}

/// Executes the words of a call.
pub(crate) fn run(args: &mut Args) -> Result<()> {
    let umask = args.umask;
    let words = args.words()?.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (mut name, mut path, mut files, words) = (None, None, Vec::new(), options(words)?);
    let (given, words) = words;
    for (flag, value) in given {
        match flag {
            'V' => return cli::print(format!("tmux {VERSION}\n")),
            'C' => return Err(Failure::failed("control mode is not supported".into())),
            'L' => name = Some(value),
            'S' => path = Some(value),
            'f' => files.push(value),
            'c' => return waiting::shell(&value, umask),
            _ => {}
        }
    }
    let variable = env::var("TMUX").ok().filter(|value| !value.is_empty());
    let ours = variable.and_then(|value| Space::of_variable(&value));
    let is_given = name.is_some() || path.is_some();
    let space = match (path, name, &ours) {
        (Some(path), _, _) => Space::at(Path::new(&path))?,
        (None, Some(name), _) => Space::named(&name)?,
        (None, None, Some(_)) => Space::of_variable(&env::var("TMUX").unwrap_or_default())
            .ok_or_else(|| Failure::failed("no such name space".into()))?,
        (None, None, None) => Space::named("default")?,
    };
    let is_own = ours.is_some_and(|ours| !is_given || ours.folder == space.folder);
    let pane = env::var("TMUX_PANE").ok().filter(|_| is_own);
    let own = pane.and_then(|pane| pane.strip_prefix('%')?.parse().ok());
    let cwd = env::var("PWD").ok().map(PathBuf::from).filter(|path| is_here(path));
    let cwd = cwd.or_else(|| env::current_dir().ok()).unwrap_or_else(|| "/".into());
    let caller = Caller { space, umask, own, cwd: cwd.display().to_string(), files };
    let words = if words.is_empty() { vec!["new-session".to_owned()] } else { words };
    let commands = words::split(words);
    // A word that is no command ends the call before anything is done.
    for command in &commands {
        if let Err(failure) = parse(None, command) {
            // A server would have to tell it.
            return Err(if caller.space.load()?.is_some() { failure } else { caller.space.not_running() });
        }
    }
    for command in commands {
        caller.execute(&command)?;
    }
    Ok(())
}

/// Is that path our directory? It may have links in it, which the user knows it by.
fn is_here(path: &Path) -> bool {
    path.is_absolute() && files::real_path(path).ok() == env::current_dir().ok()
}

type Given = Vec<(char, String)>;

/// The options before the commands, and the rest.
fn options(words: Vec<String>) -> Result<(Given, Vec<String>)> {
    let mut words = words.into_iter().peekable();
    let mut given = Vec::new();
    while let Some(word) = words.next_if(|word| word.starts_with('-') && word != "-") {
        if word == "--" {
            break;
        }
        let mut letters = word[1..].chars();
        while let Some(letter) = letters.next() {
            let value = match letter {
                '2' | 'C' | 'D' | 'l' | 'N' | 'u' | 'v' | 'V' => String::new(),
                'c' | 'f' | 'L' | 'S' | 'T' => {
                    let rest = std::mem::replace(&mut letters, "".chars()).as_str().to_owned();
                    let value = if rest.is_empty() { words.next() } else { Some(rest) };
                    let missing =
                        || Failure::failed(format!("option requires an argument -- {letter}\n{USAGE}"));
                    value.ok_or_else(missing)?
                }
                _ => return Err(Failure::failed(format!("unknown option -- {letter}\n{USAGE}"))),
            };
            given.push((letter, value));
        }
    }
    Ok((given, words.collect()))
}

/// Reads a command; `state` has further names for some.
fn parse(state: Option<&State>, words: &[String]) -> Result<Call> {
    let no_command = || Failure::failed("no command".into());
    let (name, rest) = words.split_first().ok_or_else(no_command)?;
    let mut aliases = Vec::new();
    for setting in state.map_or(&[][..], |state| &state.options) {
        if setting.name.starts_with("command-alias[") {
            aliases.extend(setting.value.as_deref());
        }
    }
    aliases.extend_from_slice(&["split-pane=split-window", "splitp=split-window"]);
    let mut words = Vec::new();
    match aliases.iter().find_map(|alias| alias.strip_prefix(&**name)?.strip_prefix('=')) {
        Some(meaning) => {
            for (_, meant) in words::parse(meaning)? {
                words.extend(meant);
            }
        }
        None => words.push(name.clone()),
    }
    words.extend_from_slice(rest);
    let (name, rest) = words.split_first().ok_or_else(no_command)?;
    words::find(name)?.parse(rest)
}

/// Executes a command.
type Handler = fn(&Caller, &mut Turn, &Call) -> Result<()>;

// `HANDLERS`, in the order of `commands.txt`.
include!(concat!(env!("OUT_DIR"), "/tmux_commands.rs"));

/// Does a command that has been read change the state?
fn changes(call: &Call) -> bool {
    match call.command.name {
        "capture-pane" => !call.has('p'),
        "send-keys" => {
            call.has('R') || call.has('X') || matches!(call.operand(0), Some("q" | "Escape" | "C-c"))
        }
        _ => call.command.usage != Usage::Looks,
    }
}

impl Caller {
    /// Executes one command.
    fn execute(&self, words: &[String]) -> Result<()> {
        let call = parse(self.space.load_if_it_has("command-alias[")?.as_ref(), words)?;
        let starts = call.command.usage == Usage::Starts;
        match call.command.usage {
            Usage::Alone => return self.handle(&mut Turn::default(), &call),
            Usage::Starts => self.space.make()?,
            _ => {}
        }
        let mut turn = self.begin_for(changes(&call), starts, Some(&call))?;
        let done = self.in_turn(&mut turn, &call);
        let shown = turn.shown;
        let told = self.finish(turn);
        done?;
        told?;
        // The lock is free by now: a person may look for hours.
        if let Some(session) = shown { waiting::attach(self, session, call.has('r')) } else { Ok(()) }
    }

    fn handle(&self, turn: &mut Turn, call: &Call) -> Result<()> {
        HANDLERS[call.command.number](self, turn, call)
    }

    /// Reads the state as it is now.
    fn begin(&self, changes: bool, starts: bool) -> Result<Turn> {
        self.begin_for(changes, starts, None)
    }

    /// The same for a call: if there is one, only the panes that it may be about are looked at.
    fn begin_for(&self, changes: bool, starts: bool, call: Option<&Call>) -> Result<Turn> {
        let lock = if changes && self.space.folder.is_dir() { Some(self.space.lock()?) } else { None };
        let state = self.space.load()?;
        let mut turn = Turn { lock, ..Turn::default() };
        turn.state = state.unwrap_or_default();
        let panes = call.and_then(|call| self.panes_about(&turn, call));
        let is_part = panes.is_some();
        // If one has ended, the call may be about others.
        if turn.state.reap(panes) && is_part {
            turn.state.reap(None);
        }
        let runs = !turn.state.is_over();
        if turn.lock.is_some() {
            self.settle_begun(&mut turn)?;
        }
        match runs {
            true => return Ok(turn),
            false if starts => turn.state = self.given_up(&mut turn.state)?,
            false => {
                self.finish(turn)?;
                return Err(self.space.not_running());
            }
        }
        turn.state.main.started = panes::now();
        turn.state.main.pid = std::process::id();
        for file in &self.files {
            // A fault in it keeps nobody from working, as in tmux.
            let _ = waiting::source(self, &mut turn, Path::new(file), true);
        }
        Ok(turn)
    }

    /// The panes of the sessions that a call may be about; `None`: it may be about all.
    ///
    /// If a word names a pane, it still does after other panes have ended. The others matter only if the named
    /// one has ended, or if the call names none.
    fn panes_about(&self, turn: &Turn, call: &Call) -> Option<Vec<u32>> {
        const LOCAL: &str = "has-session send-keys send-prefix capture-pane clear-history display-message \
                            list-panes list-windows new-session new-window split-window pipe-pane \
                            paste-buffer kill-pane kill-window kill-session select-pane select-window \
                            resize-pane respawn-pane set-option show-options set-buffer load-buffer \
                            show-buffer list-buffers delete-buffer wait-for";
        let is_wide = |text: &str| ["S:", "N/", "sessions", "group"].iter().any(|part| text.contains(part));
        let is_new = call.command.name == "new-session";
        if !options::is_one_of(LOCAL, call.command.name)
            || call.has('a') && options::is_one_of("list-panes list-windows kill-session", call.command.name)
            || is_new && call.has('t')
            || call.texts().any(|text| is_wide(text))
        {
            return None;
        }
        let mut sessions = vec![self.current(turn)?.session];
        match call.value('t') {
            Some(word) => {
                let found =
                    [Kind::Session, Kind::Window, Kind::Pane].map(|kind| self.find(turn, Some(word), kind));
                let named = sessions.len();
                sessions.extend(found.into_iter().flatten().map(|target| target.session));
                if sessions.len() == named {
                    return None;
                }
            }
            None if is_new => {
                let name = call.value('s').map(session_name);
                let session = turn.state.sessions.iter().find(|session| name.as_ref() == Some(&session.name));
                sessions.extend(session.map(|session| session.id));
            }
            None => {}
        }
        sessions.sort_unstable();
        sessions.dedup();
        Some(sessions.into_iter().flat_map(|session| turn.state.panes_of_session(session)).collect())
    }

    /// Marks the sessions that a killed call began, so that they are ended. A session that is still being created
    /// may never exist: a later call decides.
    fn settle_begun(&self, turn: &mut Turn) -> Result<()> {
        for handle in self.space.begun()? {
            if turn.state.names(&handle) {
                continue;
            }
            match panes::is_being_made(&handle)? {
                true => turn.unsettled.push(handle),
                false => turn.state.doomed.push(Setting::new("", handle.as_str(), None)),
            }
        }
        Ok(())
    }

    /// Clears the state after the last session has ended; keeps the sessions that are still to be ended.
    fn given_up(&self, state: &mut State) -> Result<State> {
        waiting::give_up(self, state);
        self.clear_files()?;
        Ok(State { doomed: std::mem::take(&mut state.doomed), ..State::default() })
    }

    /// Writes the state down, and ends what is to end.
    fn finish(&self, mut turn: Turn) -> Result<()> {
        if turn.lock.is_none() {
            return Ok(());
        }
        turn.state.settle(&self.space);
        if turn.state.is_over() {
            turn.state = self.given_up(&mut turn.state)?;
        }
        self.store(&mut turn.state)?;
        // They are panes now, or to be ended.
        for handle in self.space.begun()? {
            if !turn.unsettled.contains(&handle) {
                self.space.forget_begun(&handle)?;
            }
        }
        let doomed: Vec<String> = turn.state.doomed.iter().map(|doomed| doomed.name.clone()).collect();
        if doomed.is_empty() {
            return Ok(());
        }
        drop(turn.lock.take());
        let ended: Vec<Result<()>> = doomed.iter().map(|handle| panes::end(handle)).collect();
        let _lock = self.space.lock()?;
        if let Some(mut state) = self.space.load()? {
            state.doomed.keep(&|left| !doomed.contains(&left.name));
            self.store(&mut state)?;
        }
        Failure::all(ended.into_iter().filter_map(Result::err).collect())
    }

    /// Writes the state down; no file, if there is nothing in it.
    fn store(&self, state: &mut State) -> Result<()> {
        let is_empty = state.is_over() && state.doomed.is_empty();
        self.space.store((!is_empty).then_some(state))
    }

    /// Removes the files of buffers and channels.
    fn clear_files(&self) -> Result<()> {
        self.space.within(|folder| {
            for name in folder.names()? {
                if name.to_string_lossy().starts_with(['b', 'w']) {
                    folder.remove_file(&name)?;
                }
            }
            Ok(())
        })
    }

    /// Executes a command on a state that has been read.
    fn in_turn(&self, turn: &mut Turn, call: &Call) -> Result<()> {
        if turn.depth > DEEPEST {
            return Err(Failure::failed("too many nested commands".into()));
        }
        self.handle(turn, call)?;
        if turn.lock.is_some() {
            self.hooks(turn, &format!("after-{}", call.command.name))?;
        }
        Ok(())
    }

    /// Executes what is set for a hook.
    fn hooks(&self, turn: &mut Turn, name: &str) -> Result<()> {
        let start = format!("{name}[");
        let set = turn.state.options.iter().filter(|setting| setting.name.starts_with(&start));
        let commands: Vec<String> = set.filter_map(|setting| setting.value.clone()).collect();
        turn.depth += 1;
        for command in commands {
            for (_, words) in words::parse(&command)? {
                self.nested(turn, &words)?;
            }
        }
        turn.depth -= 1;
        Ok(())
    }

    /// Executes a command inside another one.
    fn nested(&self, turn: &mut Turn, words: &[String]) -> Result<()> {
        let call = parse(Some(&turn.state), words)?;
        match (call.command.name, call.operand(0)) {
            ("source-file", Some(_)) => {
                for file in &call.operands {
                    waiting::source(self, turn, Path::new(file), call.has('q'))?;
                }
                Ok(())
            }
            ("if-shell", Some(condition)) => {
                let holds = waiting::condition(self, turn, &call, condition)?;
                match call.operand(if holds { 1 } else { 2 }) {
                    Some(command) => {
                        for (_, words) in words::parse(command)? {
                            self.nested(turn, &words)?;
                        }
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
            ("run-shell", Some(command)) => waiting::run_shell(self, turn, &call, command),
            _ if call.command.usage == Usage::Alone => Ok(()),
            _ => self.in_turn(turn, &call),
        }
    }

    /// Finds what a word names.
    fn find(&self, turn: &Turn, word: Option<&str>, kind: Kind) -> Result<Target> {
        let name = |window| name_of_window(&turn.state, &turn.seen, window);
        Finder { state: &turn.state, own: self.own, name: &name }.find(word, kind)
    }

    /// The target that `-t` names, for a command that goes on without one.
    fn near(&self, turn: &Turn, call: &Call) -> Option<Target> {
        let name = |window| name_of_window(&turn.state, &turn.seen, window);
        Finder { state: &turn.state, own: self.own, name: &name }.near(call.value('t'))
    }

    /// The default target, if there is any session.
    fn current(&self, turn: &Turn) -> Option<Target> {
        self.find(turn, None, Kind::Pane).ok()
    }

    /// The target that `-t` names, or the default one.
    #[inline(never)]
    fn at(&self, turn: &Turn, call: &Call, kind: Kind) -> Result<Target> {
        self.find(turn, call.value('t'), kind)
    }

    #[inline(never)]
    fn expand(&self, turn: &Turn, target: Option<Target>, text: &str) -> String {
        self.format(turn, target).expand(text)
    }

    /// The expanded value of a flag.
    #[inline(never)]
    fn expanded(&self, turn: &Turn, target: Option<Target>, call: &Call, flag: char) -> Option<String> {
        Some(self.expand(turn, target, call.value(flag)?))
    }

    /// The directory in which a new pane starts: that of `-c`, or that of the call, as in tmux that of the client.
    fn start_dir(&self, turn: &Turn, target: Option<Target>, call: &Call) -> String {
        let given = self.expanded(turn, target, call, 'c');
        let path = given.map_or_else(|| self.cwd.clone().into(), |given| Path::new(&self.cwd).join(given));
        path.display().to_string()
    }

    fn format<'a>(&'a self, turn: &'a Turn, target: Option<Target>) -> Format<'a> {
        Format {
            state: &turn.state,
            space: &self.space,
            seen: &turn.seen,
            target,
            own: Vec::new(),
            depth: 0,
            is_timed: false,
        }
    }
}
