//! Formats: `#{...}` and what it stands for.

use std::{
    cell::RefCell,
    cmp::Ordering,
    env,
    rc::Rc,
    time::{Duration, UNIX_EPOCH},
};

use regex_lite::Regex;

use crate::{
    sys::{clock, host::Host},
    terminal::{cells, screen::Screen},
    tmux::{
        options,
        panes::{self, Facts, window_name},
        state::{Pane, Session, Setting, Space, State, Window},
        tables::{self, known},
        target::{self, Target},
        words,
    },
};

/// The version that we behave as.
pub(crate) const VERSION: &str = "3.3a";

/// Deeper than any format that is meant.
const DEEPEST: usize = 50;

/// Facts that are looked up at most once in a call.
#[derive(Default)]
pub(crate) struct Seen {
    facts: RefCell<Vec<(u32, Rc<Facts>)>>,
    screens: RefCell<Vec<(u32, Option<Rc<Screen>>)>>,
}

impl Seen {
    pub(crate) fn facts(&self, pane: &Pane) -> Rc<Facts> {
        if let Some((_, facts)) = self.facts.borrow().iter().find(|(id, _)| *id == pane.id) {
            return Rc::clone(facts);
        }
        let facts = Rc::new(if pane.dead.is_some() { Facts::default() } else { Facts::gather(pane) });
        self.facts.borrow_mut().push((pane.id, Rc::clone(&facts)));
        facts
    }

    fn screen(&self, pane: &Pane) -> Option<Rc<Screen>> {
        if let Some((_, screen)) = self.screens.borrow().iter().find(|(id, _)| *id == pane.id) {
            return screen.clone();
        }
        let screen = panes::screen(pane).map(Rc::new);
        self.screens.borrow_mut().push((pane.id, screen.clone()));
        screen
    }
}

/// The name of a window: the one it was given, or that of its program.
pub(crate) fn name_of_window(state: &State, seen: &Seen, window: u32) -> String {
    let window = state.window(window);
    let automatic = state.option_of_pane(window.id, None, "automatic-rename") == "on";
    let Some(pane) = state.pane(window.active).filter(|_| automatic) else { return window.name.clone() };
    let command = seen.facts(pane).command.clone();
    let name = if command.is_empty() { window.name.clone() } else { command };
    if pane.dead.is_some() { format!("{name}[dead]") } else { name }
}

/// The context in which a format is expanded.
#[derive(Clone)]
pub(crate) struct Format<'a> {
    pub(crate) state: &'a State,
    pub(crate) space: &'a Space,
    pub(crate) seen: &'a Seen,
    pub(crate) target: Option<Target>,
    /// Further variables.
    pub(crate) own: Vec<(&'static str, String)>,
    pub(crate) depth: usize,
}

impl Format<'_> {
    fn session(&self) -> Option<&Session> {
        self.state.session(self.target?.session)
    }

    fn window(&self) -> Option<&Window> {
        self.target.map(|target| self.state.window(target.window))
    }

    fn pane(&self) -> Option<&Pane> {
        self.state.pane(self.target?.pane)
    }

    pub(crate) fn with(&self, target: Target) -> Self {
        Format { target: Some(target), ..self.clone() }
    }

    /// Is the expansion neither empty nor `0`?
    pub(crate) fn holds(&self, text: &str) -> bool {
        is_true(&self.expand(text))
    }

    pub(crate) fn expand(&self, text: &str) -> String {
        if self.depth > DEEPEST {
            return String::new();
        }
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('#') {
            out += &rest[..at];
            rest = &rest[at + 1..];
            let Some(next) = rest.chars().next() else {
                out.push('#');
                break;
            };
            match next {
                '{' => match closing(&rest[1..]) {
                    Some(end) => {
                        out += &self.replaced(&rest[1..1 + end]);
                        rest = &rest[end + 2..];
                        continue;
                    }
                    None => return out,
                },
                '(' => {
                    let end = rest.find(')').map_or(rest.len(), |end| end + 1);
                    rest = &rest[end..];
                    continue;
                }
                '[' => {
                    out += "#[";
                }
                '#' => out.push('#'),
                ',' | '}' => out.push(next),
                letter => match short(letter) {
                    Some(name) => out += &self.variable(name).unwrap_or_default(),
                    None => {
                        out.push('#');
                        out.push(letter);
                    }
                },
            }
            rest = &rest[next.len_utf8()..];
        }
        out + rest
    }

    fn deeper(&self) -> Self {
        Format { depth: self.depth + 1, ..self.clone() }
    }

    /// The value of the text in braces.
    fn replaced(&self, text: &str) -> String {
        let inner = self.deeper();
        if let Some(condition) = text.strip_prefix('?') {
            let parts = parts(condition);
            let mut at = 0;
            while at + 1 < parts.len() {
                if inner.truth(parts[at]) {
                    return inner.expand(parts[at + 1]);
                }
                at += 2;
            }
            return parts.get(at).map_or(String::new(), |last| inner.expand(last));
        }
        let (modifiers, rest) = modifiers(text);
        if modifiers.is_empty() {
            return inner.value(text);
        }
        let mut value = None;
        let mut wants_expansion = false;
        for (name, arguments) in &modifiers {
            let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
            let both = || {
                let both = parts(rest);
                let side = |at: usize| both.get(at).map_or(String::new(), |side| inner.expand(side));
                (side(0), side(1))
            };
            let truth = |holds: bool| Some(truth(holds));
            match *name {
                "==" | "!=" | "<" | ">" | "<=" | ">=" => {
                    let (one, other) = both();
                    value = truth(compared(name, one.cmp(&other)).unwrap_or(false));
                }
                "||" => {
                    value = truth(parts(rest).iter().any(|part| is_true(&inner.expand(part))));
                }
                "&&" => value = truth(parts(rest).iter().all(|part| is_true(&inner.expand(part)))),
                "m" => {
                    let (pattern, text) = both();
                    let flags = argument(0);
                    let fold = |text: &str| match flags.contains('i') {
                        // That of `str` has tables for a sigma at the end of a word.
                        true => text.chars().flat_map(char::to_lowercase).collect(),
                        false => text.to_owned(),
                    };
                    value = truth(match flags.contains('r') {
                        true => Regex::new(&fold(&pattern)).is_ok_and(|regex| regex.is_match(&fold(&text))),
                        false => target::matches(&fold(&text), &fold(&pattern)),
                    });
                }
                "e" => {
                    let (one, other) = both();
                    value = Some(calculated(arguments, &one, &other));
                }
                "l" => return rest.to_owned(),
                "a" => {
                    let code = inner.expand(rest).parse().ok().and_then(char::from_u32);
                    return code.filter(char::is_ascii).map_or(String::new(), String::from);
                }
                "S" | "W" | "P" => value = Some(inner.loops(name, rest)),
                "N" => {
                    let wanted = inner.expand(rest);
                    let session = inner.session();
                    value = truth(match argument(0).contains('s') {
                        true => self.state.sessions.iter().any(|session| session.name == wanted),
                        false => session.is_some_and(|session| {
                            let mut links = session.links.iter();
                            links.any(|(_, window)| name_of_window(self.state, self.seen, *window) == wanted)
                        }),
                    });
                }
                "E" | "T" => wants_expansion = true,
                _ => {}
            }
        }
        let mut value = value.unwrap_or_else(|| inner.value(rest));
        if wants_expansion {
            value = inner.expand(&value);
        }
        for (name, arguments) in &modifiers {
            let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
            let number = || argument(0).parse::<i64>().unwrap_or(0);
            match *name {
                "t" => value = time(&value),
                "b" => value = value.rsplit('/').next().unwrap_or_default().to_owned(),
                "d" => {
                    value = match value.rsplit_once('/') {
                        Some(("", _)) => "/".to_owned(),
                        Some((folder, _)) => folder.to_owned(),
                        None => ".".to_owned(),
                    }
                }
                "q" => value = escaped(&value, argument(0).contains(['e', 'h'])),
                "n" => value = value.chars().count().to_string(),
                "w" => value = cells::width(&value).to_string(),
                "s" => {
                    let (pattern, with) = (inner.expand(argument(0)), inner.expand(argument(1)));
                    let pattern = if argument(2).contains('i') { format!("(?i){pattern}") } else { pattern };
                    if let Ok(regex) = Regex::new(&pattern) {
                        value = substituted(&regex, &value, &with);
                    }
                }
                "=" => {
                    value = trimmed(&value, number(), argument(1));
                }
                "p" => {
                    let width = number();
                    let missing = (width.unsigned_abs() as usize).saturating_sub(cells::width(&value));
                    let blanks = " ".repeat(missing);
                    value = if width < 0 { blanks + &value } else { value + &blanks };
                }
                _ => {}
            }
        }
        value
    }

    /// A condition: the name of a variable, or a format.
    fn truth(&self, text: &str) -> bool {
        is_true(&match text.contains('#') {
            true => self.expand(text),
            false => self.variable(text).unwrap_or_default(),
        })
    }

    /// The value of a variable, or of a format in its place.
    fn value(&self, text: &str) -> String {
        match text.contains("#{") {
            true => self.expand(text),
            false => self.variable(text).unwrap_or_default(),
        }
    }

    /// Each session, window or pane.
    fn loops(&self, kind: &str, text: &str) -> String {
        let parts = parts(text);
        let (all, current) = (parts[0], parts.get(1).copied().unwrap_or(parts[0]));
        let Some(target) = self.target else { return String::new() };
        let mut targets = Vec::new();
        match (kind, self.session()) {
            ("S", _) => {
                for session in &self.state.sessions {
                    targets.push(session.at(self.state, session.current));
                }
            }
            ("W", Some(session)) => {
                for (index, _) in &session.links {
                    targets.push(session.at(self.state, *index));
                }
            }
            _ => {
                for pane in self.state.panes_of(target.window) {
                    targets.push(Target { pane, ..target });
                }
            }
        }
        let mut text = String::new();
        for one in targets {
            let is_current = match kind {
                "S" => one.session == target.session,
                "W" => self.session().is_some_and(|session| session.current == one.index),
                _ => self.window().is_some_and(|window| window.active == one.pane),
            };
            text += &self.with(one).expand(if is_current { current } else { all });
        }
        text
    }

    /// The value of a variable, an option or a variable of the environment.
    fn variable(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = self.own.iter().find(|(known, _)| *known == name) {
            return Some(value.clone());
        }
        if let Some(value) = tables::variable(name).and_then(|number| self.known(number)) {
            return Some(value);
        }
        let (session, window) =
            (self.target.map(|target| target.session), self.target.map(|target| target.window));
        let scopes = options::scopes(session, window, self.target.map(|target| target.pane));
        if let Some(value) = self.state.option_in(&scopes, name) {
            return Some(value);
        }
        let scope = session.map(|session| format!("${session}")).unwrap_or_default();
        let is_set =
            |variable: &&Setting| variable.name == name && (variable.scope == "g" || variable.scope == scope);
        self.state.variables.iter().rev().find(is_set).and_then(|variable| variable.value.clone())
    }

    /// The value of a variable of tmux, by its number.
    fn known(&self, number: usize) -> Option<String> {
        let main = &self.state.main;
        Some(match number {
            known::SESSION_ACTIVITY..=known::SESSION_WINDOWS => return self.of_session(number),
            known::ACTIVE_WINDOW_INDEX | known::LAST_WINDOW_INDEX => return self.of_session(number),
            known::WINDOW_ACTIVE..=known::WINDOW_ZOOMED_FLAG => return self.of_window(number),
            known::VERSION => VERSION.to_owned(),
            known::HOST => host(),
            known::HOST_SHORT => host().split('.').next().unwrap_or_default().to_owned(),
            known::PID => main.pid.to_string(),
            known::START_TIME => main.started.to_string(),
            known::SOCKET_PATH => self.space.socket.display().to_string(),
            known::USER => env::var("USER").unwrap_or_default(),
            known::SESSIONS => self.state.sessions.len().to_string(),
            _ => return self.of_pane(number),
        })
    }

    /// The names of such sessions.
    fn names(&self, is_such: &dyn Fn(&Session) -> bool) -> Vec<&str> {
        let mut names = Vec::new();
        for session in &self.state.sessions {
            if is_such(session) {
                names.push(&*session.name);
            }
        }
        names
    }

    /// The names of the sessions that lead to a window, once for each place.
    fn linked(&self, window: u32, only_current: bool) -> Vec<&str> {
        let mut names = Vec::new();
        for session in &self.state.sessions {
            for (index, id) in &session.links {
                if *id == window && (!only_current || session.current == *index) {
                    names.push(&*session.name);
                }
            }
        }
        names
    }

    fn of_session(&self, number: usize) -> Option<String> {
        let session = self.session()?;
        let is_grouped = !session.group.is_empty();
        let is_in_group = |other: &Session| is_grouped && other.group == session.group;
        let attached = session.clients.len();
        Some(match number {
            known::SESSION_NAME => session.name.clone(),
            known::SESSION_ID => format!("${}", session.id),
            known::SESSION_WINDOWS => session.links.len().to_string(),
            known::SESSION_CREATED => session.created.to_string(),
            known::SESSION_ACTIVITY => session.activity.to_string(),
            known::SESSION_LAST_ATTACHED if session.attached > 0 => session.attached.to_string(),
            known::SESSION_ATTACHED => attached.to_string(),
            known::SESSION_ATTACHED_LIST => listed("client-", &session.clients),
            known::SESSION_MANY_ATTACHED => truth(attached > 1),
            known::SESSION_PATH => session.cwd.clone(),
            known::SESSION_GROUP => session.group.clone(),
            known::SESSION_GROUPED => truth(is_grouped),
            known::SESSION_GROUP_SIZE if is_grouped => self.names(&is_in_group).len().to_string(),
            known::SESSION_GROUP_LIST => self.names(&is_in_group).join(","),
            known::SESSION_GROUP_ATTACHED if is_grouped => {
                let mut all = 0;
                for session in self.state.sessions.iter().filter(|other| is_in_group(other)) {
                    all += session.clients.len();
                }
                all.to_string()
            }
            known::SESSION_GROUP_MANY_ATTACHED if is_grouped => truth(false),
            known::SESSION_FORMAT => truth(true),
            known::SESSION_MARKED => {
                let marked = self.state.main.marked.and_then(|pane| self.state.pane(pane));
                truth(marked.is_some_and(|pane| session.has_window(pane.window)))
            }
            known::SESSION_STACK => listed("", &[&[session.current], &*session.last].concat()),
            known::ACTIVE_WINDOW_INDEX => session.current.to_string(),
            known::LAST_WINDOW_INDEX => session.links.last()?.0.to_string(),
            _ => return None,
        })
    }

    fn of_window(&self, number: usize) -> Option<String> {
        let window = self.window()?;
        let target = self.target?;
        let session = self.session()?;
        let is_last = session.last.first() == Some(&target.index);
        let is_current = session.current == target.index;
        let marked = self.state.main.marked.and_then(|pane| self.state.pane(pane));
        let is_marked = marked.is_some_and(|pane| pane.window == window.id);
        let is_at = |link: Option<&(u32, u32)>| truth(link.is_some_and(|(index, _)| *index == target.index));
        let cell = || self.state.cell(window.id);
        Some(match number {
            known::WINDOW_INDEX => target.index.to_string(),
            known::WINDOW_NAME => name_of_window(self.state, self.seen, window.id),
            known::WINDOW_ID => format!("@{}", window.id),
            known::WINDOW_ACTIVE => truth(is_current),
            known::WINDOW_PANES => self.state.panes_of(window.id).len().to_string(),
            known::WINDOW_WIDTH => cell().width.to_string(),
            known::WINDOW_HEIGHT => cell().height.to_string(),
            known::WINDOW_VISIBLE_LAYOUT if window.zoomed => self.state.shown_cell(window.id).shown(),
            known::WINDOW_LAYOUT | known::WINDOW_VISIBLE_LAYOUT => window.layout.clone(),
            known::WINDOW_ZOOMED_FLAG => truth(window.zoomed),
            known::WINDOW_ACTIVITY => window.activity.to_string(),
            known::WINDOW_LAST_FLAG => truth(is_last),
            known::WINDOW_START_FLAG => is_at(session.links.first()),
            known::WINDOW_END_FLAG => is_at(session.links.last()),
            known::WINDOW_LINKED => {
                truth(self.linked(window.id, false).len() != self.state.group(session.id).len())
            }
            known::WINDOW_LINKED_SESSIONS => self.linked(window.id, false).len().to_string(),
            known::WINDOW_LINKED_SESSIONS_LIST => self.linked(window.id, false).join(","),
            known::WINDOW_ACTIVE_SESSIONS => self.linked(window.id, true).len().to_string(),
            known::WINDOW_ACTIVE_SESSIONS_LIST => self.linked(window.id, true).join(","),
            known::WINDOW_ACTIVE_CLIENTS => if is_current { session.clients.len() } else { 0 }.to_string(),
            known::WINDOW_ACTIVITY_FLAG
            | known::WINDOW_BELL_FLAG
            | known::WINDOW_SILENCE_FLAG
            | known::WINDOW_BIGGER => truth(false),
            known::WINDOW_MARKED_FLAG => truth(is_marked),
            known::WINDOW_FLAGS | known::WINDOW_RAW_FLAGS => {
                let mut flags = String::new();
                for (is_set, flag) in
                    [(is_current, '*'), (is_last, '-'), (is_marked, 'M'), (window.zoomed, 'Z')]
                {
                    if is_set {
                        flags.push(flag);
                    }
                }
                flags
            }
            known::WINDOW_FORMAT => truth(true),
            known::WINDOW_STACK_INDEX => {
                let at = session.last.iter().position(|index| *index == target.index);
                at.map_or(0, |at| at + 1).to_string()
            }
            _ => return None,
        })
    }

    /// `None`: it is no variable of a pane.
    fn of_pane(&self, number: usize) -> Option<String> {
        let pane = self.pane()?;
        let state = self.state;
        let window = state.window(pane.window);
        let maybe = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
        let size = state.size_of(pane);
        let whole = || state.cell(window.id);
        let cell = || {
            let (all, shown) = (whole(), state.shown_cell(window.id));
            shown.of(pane.id).or(all.of(pane.id)).unwrap_or(&all).clone()
        };
        let facts = || self.seen.facts(pane);
        let screen = || self.seen.screen(pane);
        let of_screen =
            |show: &dyn Fn(&Screen) -> String| screen().map_or(String::new(), |screen| show(&screen));
        let mode = |number: u16| truth(facts().now.as_ref().is_some_and(|now| now.modes.has(number)));
        let code = || pane.open().and_then(|session| session.exit_code().ok().flatten());
        Some(match number {
            known::PANE_ID => format!("%{}", pane.id),
            known::PANE_INDEX => state.pane_index(pane.id).to_string(),
            known::PANE_ACTIVE => truth(window.active == pane.id),
            known::PANE_LAST => truth(window.previous == Some(pane.id)),
            known::PANE_WIDTH => size.0.to_string(),
            known::PANE_HEIGHT => size.1.to_string(),
            known::PANE_LEFT => cell().left.to_string(),
            known::PANE_TOP => cell().top.to_string(),
            known::PANE_RIGHT => (cell().left + size.0 - 1).to_string(),
            known::PANE_BOTTOM => (cell().top + size.1 - 1).to_string(),
            known::PANE_AT_LEFT => truth(cell().left == 0),
            known::PANE_AT_TOP => truth(cell().top == 0),
            known::PANE_AT_RIGHT => truth(cell().left + cell().width == whole().width),
            known::PANE_AT_BOTTOM => truth(cell().top + cell().height == whole().height),
            known::PANE_DEAD => truth(pane.dead.is_some()),
            known::PANE_DEAD_TIME => maybe(pane.dead),
            known::PANE_DEAD_STATUS if pane.dead.is_some() => code()
                .filter(|code| *code < 128 || *code > 192)
                .map_or(String::new(), |code| code.to_string()),
            known::PANE_DEAD_SIGNAL if pane.dead.is_some() => code()
                .filter(|code| (129..=192).contains(code))
                .map_or(String::new(), |code| (code - 128).to_string()),
            known::PANE_DEAD_STATUS | known::PANE_DEAD_SIGNAL => String::new(),
            known::PANE_PID => maybe(pane.open().and_then(|session| session.pid()).map(u64::from)),
            known::PANE_TTY => pane.open().and_then(|session| session.terminal()).unwrap_or_default(),
            known::PANE_CURRENT_COMMAND => {
                let command = facts().command.clone();
                if command.is_empty() {
                    window_name(pane.words().first().map_or("", |word| word))
                } else {
                    command
                }
            }
            known::PANE_CURRENT_PATH => facts().folder.clone(),
            known::PANE_START_COMMAND => {
                let mut words = pane.words();
                words.iter_mut().for_each(|word| *word = words::shown(word));
                words.join(" ")
            }
            known::PANE_START_PATH => pane.cwd.clone(),
            known::PANE_TITLE => match &pane.title {
                Some(title) => title.clone(),
                None => screen().and_then(|screen| screen.title().map(str::to_owned)).unwrap_or_else(host),
            },
            known::PANE_PATH => String::new(),
            known::PANE_IN_MODE => pane.modes.len().to_string(),
            known::PANE_MODE => pane.mode().to_owned(),
            known::PANE_UNSEEN_CHANGES => truth(false),
            known::PANE_SEARCH_STRING => String::new(),
            known::PANE_INPUT_OFF => truth(pane.input_off),
            known::PANE_MARKED => truth(state.main.marked == Some(pane.id)),
            known::PANE_MARKED_SET => truth(state.main.marked.is_some()),
            known::PANE_PIPE => truth(pane.pipe.is_some()),
            known::PANE_SYNCHRONIZED => {
                truth(state.option_of_pane(window.id, Some(pane.id), "synchronize-panes") == "on")
            }
            known::PANE_BG | known::PANE_FG => "default".to_owned(),
            known::PANE_FORMAT => truth(true),
            known::PANE_TABS => {
                let mut tabs: Vec<u32> = (1..size.0.div_ceil(8)).collect();
                tabs.iter_mut().for_each(|tab| *tab *= 8);
                listed("", &tabs)
            }
            known::PANE_SESSION => pane.handle.clone(),
            known::CURSOR_X => of_screen(&|screen| (screen.cursor().1 - 1).to_string()),
            known::CURSOR_Y => of_screen(&|screen| (screen.cursor().0 - 1).to_string()),
            known::CURSOR_FLAG => of_screen(&|screen| truth(screen.has_visible_cursor())),
            known::CURSOR_CHARACTER => of_screen(&|screen| screen.at_cursor()),
            known::ALTERNATE_ON => of_screen(&|screen| truth(screen.is_alternate())),
            known::HISTORY_SIZE => of_screen(&|screen| screen.history().to_string()),
            known::HISTORY_BYTES => of_screen(&|screen| (screen.history() * 40).to_string()),
            // None is saved.
            known::ALTERNATE_SAVED_X | known::ALTERNATE_SAVED_Y => u32::MAX.to_string(),
            known::HISTORY_LIMIT => pane.limit.to_string(),
            known::SCROLL_REGION_UPPER => truth(false),
            known::SCROLL_REGION_LOWER => (size.1 - 1).to_string(),
            known::INSERT_FLAG => truth(false),
            known::KEYPAD_FLAG => truth(facts().keys.as_ref().is_some_and(|keys| keys.application.keypad)),
            known::KEYPAD_CURSOR_FLAG => {
                truth(facts().keys.as_ref().is_some_and(|keys| keys.application.cursor))
            }
            known::BRACKET_PASTE_FLAG => {
                truth(facts().keys.as_ref().is_some_and(|keys| keys.bracketed_paste))
            }
            known::WRAP_FLAG => mode(7),
            known::ORIGIN_FLAG => mode(6),
            known::MOUSE_STANDARD_FLAG => mode(1000),
            known::MOUSE_BUTTON_FLAG => mode(1002),
            known::MOUSE_ALL_FLAG => mode(1003),
            known::MOUSE_UTF8_FLAG => mode(1005),
            known::MOUSE_SGR_FLAG => mode(1006),
            known::MOUSE_ANY_FLAG => truth([1000, 1002, 1003].iter().any(|number| mode(*number) == "1")),
            _ => return None,
        })
    }
}

#[inline(never)]
fn truth(truth: bool) -> String {
    String::from(if truth { "1" } else { "0" })
}

/// Numbers, each behind this prefix.
fn listed(prefix: &str, numbers: &[u32]) -> String {
    let mut text = String::new();
    for number in numbers {
        if !text.is_empty() {
            text.push(',');
        }
        text += prefix;
        text += &number.to_string();
    }
    text
}

fn is_true(text: &str) -> bool {
    !text.is_empty() && text != "0"
}

fn short(letter: char) -> Option<&'static str> {
    Some(match letter {
        'D' => "pane_id",
        'F' => "window_flags",
        'H' => "host",
        'I' => "window_index",
        'P' => "pane_index",
        'S' => "session_name",
        'T' => "pane_title",
        'W' => "window_name",
        'h' => "host_short",
        _ => return None,
    })
}

/// The position of the brace that closes the one before this text.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut hash) = (0, false);
    for (at, character) in text.char_indices() {
        match (std::mem::take(&mut hash), character) {
            (true, '{') => depth += 1,
            (true, ',' | '}') => {}
            (_, '}') if depth == 0 => return Some(at),
            (_, '}') => depth -= 1,
            (was, '#') => hash = !was,
            _ => {}
        }
    }
    None
}

/// The parts between commas that are in no braces.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut hash) = (Vec::new(), 0, 0, false);
    for (at, character) in text.char_indices() {
        match (std::mem::take(&mut hash), character) {
            (true, '{') => depth += 1,
            (true, ',' | '}') => {}
            (_, '}') => depth -= 1,
            (_, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            (was, '#') => hash = !was,
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The modifiers before a colon, each with its arguments, and what follows it. None where it is no
/// such text.
fn modifiers(text: &str) -> (Vec<(&str, Vec<&str>)>, &str) {
    const TWO: [&str; 6] = ["||", "&&", "==", "!=", "<=", ">="];
    let (mut found, mut rest) = (Vec::new(), text);
    loop {
        if let Some(after) = rest.strip_prefix(':')
            && !found.is_empty()
        {
            return (found, after);
        }
        rest = rest.strip_prefix(';').filter(|_| !found.is_empty()).unwrap_or(rest);
        if let Some((name, after)) = rest.split_at_checked(2)
            && TWO.contains(&name)
            && after.starts_with([':', ';'])
        {
            rest = after;
            found.push((name, Vec::new()));
            continue;
        }
        let Some(first) = rest.chars().next().filter(|first| "labdnwETSWPN<>mCst=peqc".contains(*first))
        else {
            return (Vec::new(), text);
        };
        let name = &rest[..1];
        rest = &rest[1..];
        let mut arguments = Vec::new();
        if !rest.starts_with([':', ';']) {
            let Some(mark) = rest.chars().next() else { return (Vec::new(), text) };
            if mark.is_ascii_punctuation() && mark != '-' {
                // The arguments stand between marks.
                let Some(end) = end_of_arguments(rest, mark, first == 's') else { return (Vec::new(), text) };
                let inner = rest[1..end].trim_end_matches(mark);
                let is_closed = rest[1..end].ends_with(mark);
                arguments = inner.split(mark).collect();
                if is_closed {
                    arguments.push("");
                }
                rest = &rest[end..];
            } else {
                let end = rest.find([':', ';']);
                let Some(end) = end.filter(|_| "=pmCste".contains(first)) else { return (Vec::new(), text) };
                arguments.push(&rest[..end]);
                rest = &rest[end..];
            }
        }
        found.push((name, arguments));
    }
}

/// The end of the arguments: before a colon or semicolon that stands in no braces, and, of a
/// substitution, behind its third mark.
fn end_of_arguments(text: &str, mark: char, substitutes: bool) -> Option<usize> {
    let (mut depth, mut marks) = (0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ if character == mark => marks += 1,
            ':' | ';' if depth == 0 && (!substitutes || marks >= 3) => return Some(at),
            _ => {}
        }
    }
    None
}

/// Replaces each match; `\1` is the text of the first group.
fn substituted(regex: &Regex, text: &str, with: &str) -> String {
    let (mut out, mut at, mut from) = (String::new(), 0, 0);
    while let Some(captures) = regex.captures_at(text, from) {
        let Some(found) = captures.get(0) else { break };
        out += &text[at..found.start()];
        let mut characters = with.chars();
        while let Some(character) = characters.next() {
            let escaped = if character == '\\' { characters.next() } else { None };
            match escaped.map(|digit| digit.to_digit(10)) {
                Some(Some(group)) => {
                    out += captures.get(group as usize).map_or("", |group| group.as_str());
                }
                _ => out.push(escaped.unwrap_or(character)),
            }
        }
        (at, from) = (found.end(), found.end());
        if found.is_empty() {
            // The next match begins behind the next character.
            let Some(next) = text[at..].chars().next() else { break };
            from += next.len_utf8();
        }
    }
    out + &text[at..]
}

/// The first characters of a text, or, where the limit is negative, the last ones, that are no wider.
fn trimmed(text: &str, limit: i64, marker: &str) -> String {
    let most = limit.unsigned_abs() as usize;
    let mut kept = text;
    while limit != 0 && cells::width(kept) > most {
        let mut characters = kept.chars();
        let _ = if limit > 0 { characters.next_back() } else { characters.next() };
        kept = characters.as_str();
    }
    match kept.len() == text.len() {
        true => text.to_owned(),
        false if limit > 0 => [kept, marker].concat(),
        false => [marker, kept].concat(),
    }
}

fn escaped(text: &str, for_formats: bool) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if for_formats {
            if character == '#' {
                out.push('#');
            }
        } else if "|&;<>()$`\\\"'*?[# =%".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// Does a comparison by this operator hold? `None`: there is none of that name.
fn compared(operator: &str, order: Ordering) -> Option<bool> {
    Some(match operator {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        ">" => order.is_gt(),
        "<=" => order.is_le(),
        ">=" => order.is_ge(),
        _ => return None,
    })
}

fn calculated(arguments: &[&str], one: &str, other: &str) -> String {
    let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
    let float = argument(1).contains('f');
    let places: usize = argument(2).parse().unwrap_or(if float { 2 } else { 0 });
    let (Some(one), Some(other)) = (billionths(one), billionths(other)) else { return String::new() };
    let whole = |value: i128| if float { value } else { value / BILLION * BILLION };
    let (one, other) = (whole(one), whole(other));
    let result = match (argument(0), one.cmp(&other)) {
        ("+", _) => Some(one + other),
        ("-", _) => Some(one - other),
        ("*", _) => one.checked_mul(other).map(|product| product / BILLION),
        ("/", _) => (one * BILLION).checked_div(other),
        ("%" | "m", _) => one.checked_rem(other),
        (operator, order) => compared(operator, order).map(|holds| i128::from(holds) * BILLION),
    };
    result.map_or(String::new(), |result| decimal(whole(result), places))
}

/// Numbers are counted in this part of 1, so that their fractions need no floating point.
const BILLION: i128 = 1_000_000_000;

/// A decimal number.
fn billionths(text: &str) -> Option<i128> {
    let text = text.trim();
    let (digits, sign) = match text.strip_prefix('-') {
        Some(digits) => (digits, -1),
        None => (text.strip_prefix('+').unwrap_or(text), 1),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = whole.bytes().chain(fraction.bytes().chain(std::iter::repeat(b'0')).take(9));
    let mut value: i128 = 0;
    for digit in digits {
        value = value * 10 + i128::from(char::from(digit).to_digit(10)?);
    }
    // So neither a sum nor a quotient overflows.
    let is_number = !(whole.is_empty() && fraction.is_empty()) && whole.len() <= 18;
    is_number.then_some(value * sign)
}

/// A count of billionths, rounded to so many digits of a fraction.
fn decimal(value: i128, places: usize) -> String {
    let places = places.min(9);
    let unit = 10_i128.pow(9 - places as u32);
    let rounded = (value.abs() + unit / 2) / unit * unit;
    let sign = if value < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:09}", rounded / BILLION, rounded % BILLION);
    let end = text.len() - if places == 0 { 10 } else { 9 - places };
    text[..end].to_owned()
}

fn host() -> String {
    Host::ours().map_or(String::new(), |host| String::from_utf8_lossy(&host.name).into_owned())
}

/// A time as ctime(3) shows it, in UTC: nbs knows no zones.
fn time(seconds: &str) -> String {
    let Ok(seconds) = seconds.parse::<u64>() else { return String::new() };
    let shown = clock::plain(UNIX_EPOCH + Duration::from_secs(seconds));
    let part = |from: usize, to: usize| shown.get(from..to).unwrap_or_default();
    let name = |names: &'static str, at: usize| names.get(at * 3..at * 3 + 3).unwrap_or_default();
    let weekday = name("ThuFriSatSunMonTueWed", (seconds / 86_400 % 7) as usize);
    let month = part(5, 7).parse::<usize>().unwrap_or(1) - 1;
    let month = name("JanFebMarAprMayJunJulAugSepOctNovDec", month);
    let day = part(8, 10).trim_start_matches('0');
    format!("{weekday} {month} {day:>2} {} {}", part(11, 19), part(0, 4))
}

/// A name of a session without what tmux takes for separators.
pub(crate) fn session_name(name: &str) -> String {
    let name: String =
        name.chars().map(|character| if ":.".contains(character) { '_' } else { character }).collect();
    visible(&name)
}

/// A name as it is kept: with nothing in it that is no text.
pub(crate) fn visible(name: &str) -> String {
    crate::terminal::text::escaped(name.replace('\\', "\\\\").as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_calculated_without_floating_point() {
        for (arguments, one, other, expected) in [
            ("+", "1", "2", "3"),
            ("-", "1.9", "2.9", "-1"),
            ("*", "-3", "4", "-12"),
            ("/", "7", "2", "3"),
            ("/", "-7", "2", "-3"),
            ("m", "-7", "2", "-1"),
            ("/|f", "7", "3", "2.33"),
            ("/|f|4", "2", "3", "0.6667"),
            ("*|f|1", "1.5", "-.5", "-0.8"),
            ("+|f|0", "0.5", "1", "2"),
            ("+||2", " 1 ", "+1", "2.00"),
            ("*", "9000000000", "9000000000", "81000000000000000000"),
            ("==", "2", "2.0", "1"),
            (">|f", "2", "3", "0.00"),
            ("/", "1", "0", ""),
            ("+", "1", "x", ""),
            ("+", ".", "1", ""),
            ("?", "1", "1", ""),
        ] {
            let words: Vec<&str> = arguments.split('|').collect();
            assert_eq!(calculated(&words, one, other), expected, "{arguments} {one} {other}");
        }
    }
}
