//! Formats: `#{...}` and what it stands for.

use std::{
    cell::RefCell,
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
        state::{Pane, Session, Space, State, Window},
        target::{self, Target},
        words,
    },
};

/// The version that we behave as.
pub(crate) const VERSION: &str = "3.3a";

/// Deeper than any format that is meant.
const DEEPEST: usize = 50;

/// What is looked up at most once in a call.
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

/// What a format is expanded for.
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

    /// What stands in the braces.
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
            let both = || {
                let both = parts(rest);
                let side = |at: usize| both.get(at).map_or(String::new(), |side| inner.expand(side));
                (side(0), side(1))
            };
            let truth = |truth: bool| Some(u8::from(truth).to_string());
            match &**name {
                "==" | "!=" | "<" | ">" | "<=" | ">=" => {
                    let (one, other) = both();
                    let order = one.cmp(&other);
                    value = truth(match &**name {
                        "==" => order.is_eq(),
                        "!=" => order.is_ne(),
                        "<" => order.is_lt(),
                        ">" => order.is_gt(),
                        "<=" => order.is_le(),
                        _ => order.is_ge(),
                    });
                }
                "||" => {
                    value = truth(parts(rest).iter().any(|part| is_true(&inner.expand(part))));
                }
                "&&" => value = truth(parts(rest).iter().all(|part| is_true(&inner.expand(part)))),
                "m" => {
                    let (pattern, text) = both();
                    let flags = arguments.first().cloned().unwrap_or_default();
                    let fold =
                        |text: &str| if flags.contains('i') { text.to_lowercase() } else { text.to_owned() };
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
                    value = truth(match arguments.first().is_some_and(|flag| flag.contains('s')) {
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
            match &**name {
                "t" => value = time(&value),
                "b" => value = value.rsplit('/').next().unwrap_or_default().to_owned(),
                "d" => {
                    value = match value.rsplit_once('/') {
                        Some(("", _)) => "/".to_owned(),
                        Some((folder, _)) => folder.to_owned(),
                        None => ".".to_owned(),
                    }
                }
                "q" => {
                    value = escaped(&value, arguments.first().is_some_and(|flag| flag.contains(['e', 'h'])))
                }
                "n" => value = value.chars().count().to_string(),
                "w" => value = cells::width(&value).to_string(),
                "s" => {
                    let part = |at: usize| arguments.get(at).cloned().unwrap_or_default();
                    let (pattern, with) = (inner.expand(&part(0)), inner.expand(&part(1)));
                    let pattern = if part(2).contains('i') { format!("(?i){pattern}") } else { pattern };
                    let with = with.replace('$', "$$").replace('\\', "$");
                    if let Ok(regex) = Regex::new(&pattern) {
                        value = regex.replace_all(&value, braced(&with).as_str()).into_owned();
                    }
                }
                "=" => {
                    let limit: i64 = arguments.first().and_then(|limit| limit.parse().ok()).unwrap_or(0);
                    let marker = arguments.get(1).cloned().unwrap_or_default();
                    value = trimmed(&value, limit, &marker);
                }
                "p" => {
                    let width: i64 = arguments.first().and_then(|width| width.parse().ok()).unwrap_or(0);
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

    /// What a name stands for, or a format in its place.
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
        let of_session = |session: &Session| {
            let window = session.current_window();
            Target {
                session: session.id,
                index: session.current,
                window,
                pane: self.state.window(window).active,
            }
        };
        let targets: Vec<Target> = match (kind, self.session()) {
            ("S", _) => self.state.sessions.iter().map(of_session).collect(),
            ("W", Some(session)) => session
                .links
                .iter()
                .map(|(index, window)| Target {
                    session: session.id,
                    index: *index,
                    window: *window,
                    pane: self.state.window(*window).active,
                })
                .collect(),
            _ => {
                self.state.panes_of(target.window).into_iter().map(|pane| Target { pane, ..target }).collect()
            }
        };
        let is_current = |one: &Target| match kind {
            "S" => one.session == target.session,
            "W" => self.session().is_some_and(|session| session.current == one.index),
            _ => self.window().is_some_and(|window| window.active == one.pane),
        };
        let expand = |one: Target| self.with(one).expand(if is_current(&one) { current } else { all });
        targets.into_iter().map(expand).collect()
    }

    /// The value of a variable, an option or a variable of the environment.
    fn variable(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = self.own.iter().find(|(known, _)| *known == name) {
            return Some(value.clone());
        }
        let of = |value: Option<String>| Some(value.unwrap_or_default());
        match (name.split('_').next().unwrap_or_default(), self.session()) {
            (_, Some(session)) if name == "active_window_index" => return Some(session.current.to_string()),
            (_, Some(session)) if name == "last_window_index" => {
                return of(session.links.last().map(|(index, _)| index.to_string()));
            }
            ("session", _) => {
                if let Some(value) = self.session().map(|session| self.of_session(session, name)) {
                    return of(value);
                }
            }
            ("window", _) => {
                if let Some(value) = self.window().map(|window| self.of_window(window, name)) {
                    return of(value);
                }
            }
            _ => {}
        }
        if let Some(pane) = self.pane()
            && let Some(value) = self.of_pane(pane, name)
        {
            return Some(value);
        }
        let main = &self.state.main;
        match name {
            "version" => return Some(VERSION.to_owned()),
            "host" | "host_short" => {
                let host = host();
                let short = host.split('.').next().unwrap_or_default().to_owned();
                return Some(if name == "host" { host } else { short });
            }
            "pid" => return Some(main.pid.to_string()),
            "start_time" => return Some(main.started.to_string()),
            "socket_path" => return Some(self.space.socket.display().to_string()),
            "user" => return of(env::var("USER").ok()),
            "sessions" => return Some(self.state.sessions.len().to_string()),
            _ => {}
        }
        let (session, window) =
            (self.target.map(|target| target.session), self.target.map(|target| target.window));
        let scopes = options::scopes(session, window, self.target.map(|target| target.pane));
        if let Some(value) = self.state.option_in(&scopes, name) {
            return Some(value);
        }
        let scope = session.map(|session| format!("${session}")).unwrap_or_default();
        let set = self.state.variables.iter().filter(|variable| variable.name == name);
        let mut set = set.filter(|variable| variable.scope == "g" || variable.scope == scope);
        set.next_back().and_then(|variable| variable.value.clone())
    }

    fn of_session(&self, session: &Session, name: &str) -> Option<String> {
        let group = self.state.group(session.id);
        let grouped = !session.group.is_empty();
        let names = || {
            let names = group.iter().filter_map(|id| Some(self.state.session(*id)?.name.clone()));
            names.collect::<Vec<_>>().join(",")
        };
        let attached = session.clients.len();
        Some(match &name["session".len()..] {
            "_name" => session.name.clone(),
            "_id" => format!("${}", session.id),
            "_windows" => session.links.len().to_string(),
            "_created" => session.created.to_string(),
            "_activity" => session.activity.to_string(),
            "_last_attached" if session.attached > 0 => session.attached.to_string(),
            "_attached" => attached.to_string(),
            "_attached_list" => {
                session.clients.iter().map(|pid| format!("client-{pid}")).collect::<Vec<_>>().join(",")
            }
            "_many_attached" => u8::from(attached > 1).to_string(),
            "_path" => session.cwd.clone(),
            "_group" => session.group.clone(),
            "_grouped" => u8::from(grouped).to_string(),
            "_group_size" if grouped => group.len().to_string(),
            "_group_list" if grouped => names(),
            "_group_attached" if grouped => group
                .iter()
                .filter_map(|id| self.state.session(*id))
                .map(|one| one.clients.len())
                .sum::<usize>()
                .to_string(),
            "_group_many_attached" if grouped => "0".to_owned(),
            "_format" => "1".to_owned(),
            "_marked" => {
                let marked = self.state.main.marked.and_then(|pane| self.state.pane(pane));
                let is_here = |pane: &Pane| session.links.iter().any(|(_, window)| *window == pane.window);
                u8::from(marked.is_some_and(is_here)).to_string()
            }
            "_stack" => [session.current]
                .iter()
                .chain(&session.last)
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(","),
            _ => return None,
        })
    }

    fn of_window(&self, window: &Window, name: &str) -> Option<String> {
        let target = self.target?;
        let session = self.session()?;
        let truth = |truth: bool| u8::from(truth).to_string();
        let linked: Vec<&str> = self
            .state
            .sessions
            .iter()
            .filter(|session| session.links.iter().any(|(_, id)| *id == window.id))
            .map(|session| &*session.name)
            .collect();
        let is_last = session.last.first() == Some(&target.index);
        let is_current = session.current == target.index;
        let marked = self.state.main.marked.and_then(|pane| self.state.pane(pane));
        let is_marked = marked.is_some_and(|pane| pane.window == window.id);
        let cell = || self.state.cell(window.id);
        Some(match &name["window".len()..] {
            "_index" => target.index.to_string(),
            "_name" => name_of_window(self.state, self.seen, window.id),
            "_id" => format!("@{}", window.id),
            "_active" => truth(is_current),
            "_panes" => self.state.panes_of(window.id).len().to_string(),
            "_width" => cell().width.to_string(),
            "_height" => cell().height.to_string(),
            "_layout" => window.layout.clone(),
            "_visible_layout" if window.zoomed => {
                let cell = cell();
                super::layout::Cell::of_pane(window.active, cell.width, cell.height).shown()
            }
            "_visible_layout" => window.layout.clone(),
            "_zoomed_flag" => truth(window.zoomed),
            "_activity" => window.activity.to_string(),
            "_last_flag" => truth(is_last),
            "_start_flag" => truth(session.links.first().is_some_and(|(index, _)| *index == target.index)),
            "_end_flag" => truth(session.links.last().is_some_and(|(index, _)| *index == target.index)),
            "_linked" => truth(linked.len() > 1),
            "_linked_sessions" => linked.len().to_string(),
            "_linked_sessions_list" => linked.join(","),
            "_active_sessions" => {
                let is_active = |session: &&Session| session.current_window() == window.id;
                self.state.sessions.iter().filter(is_active).count().to_string()
            }
            "_active_sessions_list" => {
                let is_active = |session: &&Session| session.current_window() == window.id;
                let names = self.state.sessions.iter().filter(is_active).map(|session| &*session.name);
                names.collect::<Vec<_>>().join(",")
            }
            "_active_clients" => if is_current { session.clients.len() } else { 0 }.to_string(),
            "_activity_flag" | "_bell_flag" | "_silence_flag" | "_bigger" => "0".to_owned(),
            "_marked_flag" => truth(is_marked),
            "_flags" | "_raw_flags" => {
                let flags = [(is_current, "*"), (is_last, "-"), (is_marked, "M"), (window.zoomed, "Z")];
                flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| *flag).collect()
            }
            "_format" => "1".to_owned(),
            "_stack_index" => {
                let at = session.last.iter().position(|index| *index == target.index);
                at.map_or(0, |at| at + 1).to_string()
            }
            _ => return None,
        })
    }

    /// `None`: it is no variable of a pane.
    fn of_pane(&self, pane: &Pane, name: &str) -> Option<String> {
        let state = self.state;
        let window = state.window(pane.window);
        let truth = |truth: bool| u8::from(truth).to_string();
        let maybe = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
        let size = state.size_of(pane);
        let whole = || state.cell(window.id);
        let cell = || {
            let cell = whole();
            cell.of(pane.id).cloned().unwrap_or(cell)
        };
        let facts = || self.seen.facts(pane);
        let screen = || self.seen.screen(pane);
        let of_screen =
            |show: &dyn Fn(&Screen) -> String| screen().map_or(String::new(), |screen| show(&screen));
        let mode = |number: u16| truth(facts().now.as_ref().is_some_and(|now| now.modes.has(number)));
        let code = || pane.open().and_then(|session| session.exit_code().ok().flatten());
        Some(match name {
            "pane_id" => format!("%{}", pane.id),
            "pane_index" => state.pane_index(pane.id).to_string(),
            "pane_active" => truth(window.active == pane.id),
            "pane_last" => truth(window.last.first() == Some(&pane.id)),
            "pane_width" => size.0.to_string(),
            "pane_height" => size.1.to_string(),
            "pane_left" => cell().left.to_string(),
            "pane_top" => cell().top.to_string(),
            "pane_right" => (cell().left + size.0 - 1).to_string(),
            "pane_bottom" => (cell().top + size.1 - 1).to_string(),
            "pane_at_left" => truth(cell().left == 0),
            "pane_at_top" => truth(cell().top == 0),
            "pane_at_right" => truth(cell().left + cell().width == whole().width),
            "pane_at_bottom" => truth(cell().top + cell().height == whole().height),
            "pane_dead" => truth(pane.dead.is_some()),
            "pane_dead_time" => maybe(pane.dead),
            "pane_dead_status" if pane.dead.is_some() => code()
                .filter(|code| *code < 128 || *code > 192)
                .map_or(String::new(), |code| code.to_string()),
            "pane_dead_signal" if pane.dead.is_some() => code()
                .filter(|code| (129..=192).contains(code))
                .map_or(String::new(), |code| (code - 128).to_string()),
            "pane_dead_status" | "pane_dead_signal" => String::new(),
            "pane_pid" => maybe(pane.open().and_then(|session| session.pid()).map(u64::from)),
            "pane_tty" => pane.open().and_then(|session| session.terminal()).unwrap_or_default(),
            "pane_current_command" => {
                let command = facts().command.clone();
                if command.is_empty() {
                    window_name(pane.words().first().map_or("", |word| word))
                } else {
                    command
                }
            }
            "pane_current_path" => facts().folder.clone(),
            "pane_start_command" => {
                pane.words().iter().map(|word| words::shown(word)).collect::<Vec<_>>().join(" ")
            }
            "pane_start_path" => pane.cwd.clone(),
            "pane_title" => match &pane.title {
                Some(title) => title.clone(),
                None => screen().and_then(|screen| screen.title().map(str::to_owned)).unwrap_or_else(host),
            },
            "pane_path" => String::new(),
            "pane_in_mode" | "pane_unseen_changes" => "0".to_owned(),
            "pane_mode" | "pane_search_string" => String::new(),
            "pane_input_off" => truth(pane.input_off),
            "pane_marked" => truth(state.main.marked == Some(pane.id)),
            "pane_marked_set" => truth(state.main.marked.is_some()),
            "pane_pipe" => truth(pane.pipe.is_some()),
            "pane_synchronized" => {
                truth(state.option_of_pane(window.id, Some(pane.id), "synchronize-panes") == "on")
            }
            "pane_bg" | "pane_fg" => "default".to_owned(),
            "pane_format" => "1".to_owned(),
            "pane_tabs" => {
                (1..size.0.div_ceil(8)).map(|tab| (tab * 8).to_string()).collect::<Vec<_>>().join(",")
            }
            "pane_session" => pane.handle.clone(),
            "cursor_x" => of_screen(&|screen| (screen.cursor().1 - 1).to_string()),
            "cursor_y" => of_screen(&|screen| (screen.cursor().0 - 1).to_string()),
            "cursor_flag" => of_screen(&|screen| truth(screen.has_visible_cursor())),
            "cursor_character" => of_screen(&|screen| screen.at_cursor()),
            "alternate_on" => of_screen(&|screen| truth(screen.is_alternate())),
            "history_size" => of_screen(&|screen| pane.history(screen).to_string()),
            "history_bytes" => of_screen(&|screen| (pane.history(screen) * 40).to_string()),
            // None is saved.
            "alternate_saved_x" | "alternate_saved_y" => u32::MAX.to_string(),
            "history_limit" => pane.limit.to_string(),
            "scroll_region_upper" => "0".to_owned(),
            "scroll_region_lower" => (size.1 - 1).to_string(),
            "insert_flag" => "0".to_owned(),
            "keypad_flag" => truth(facts().keys.as_ref().is_some_and(|keys| keys.application.keypad)),
            "keypad_cursor_flag" => truth(facts().keys.as_ref().is_some_and(|keys| keys.application.cursor)),
            "bracket_paste_flag" => truth(facts().keys.as_ref().is_some_and(|keys| keys.bracketed_paste)),
            "wrap_flag" => mode(7),
            "origin_flag" => mode(6),
            "mouse_standard_flag" => mode(1000),
            "mouse_button_flag" => mode(1002),
            "mouse_all_flag" => mode(1003),
            "mouse_utf8_flag" => mode(1005),
            "mouse_sgr_flag" => mode(1006),
            "mouse_any_flag" => truth([1000, 1002, 1003].iter().any(|number| mode(*number) == "1")),
            _ => return None,
        })
    }
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

/// Where the brace is closed that was opened before this text.
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
fn modifiers(text: &str) -> (Vec<(String, Vec<String>)>, &str) {
    const TWO: [&str; 6] = ["||", "&&", "==", "!=", "<=", ">="];
    let (mut found, mut rest) = (Vec::new(), text);
    loop {
        if let Some(after) = rest.strip_prefix(':')
            && !found.is_empty()
        {
            return (found, after);
        }
        rest = rest.strip_prefix(';').filter(|_| !found.is_empty()).unwrap_or(rest);
        if let Some(name) =
            TWO.into_iter().find(|name| rest.starts_with(*name) && rest[2..].starts_with([':', ';']))
        {
            rest = &rest[2..];
            found.push((name.to_owned(), Vec::new()));
            continue;
        }
        let Some(first) = rest.chars().next().filter(|first| "labdnwETSWPN<>mCst=peqc".contains(*first))
        else {
            return (Vec::new(), text);
        };
        rest = &rest[1..];
        let mut arguments = Vec::new();
        if !rest.starts_with([':', ';']) {
            let Some(mark) = rest.chars().next() else { return (Vec::new(), text) };
            if mark.is_ascii_punctuation() && mark != '-' {
                // The arguments stand between marks.
                let Some(end) = end_of_arguments(rest, mark, first == 's') else { return (Vec::new(), text) };
                let inner = rest[1..end].trim_end_matches(mark);
                let is_closed = rest[1..end].ends_with(mark);
                arguments = inner.split(mark).map(str::to_owned).collect();
                if is_closed {
                    arguments.push(String::new());
                }
                rest = &rest[end..];
            } else {
                let end = rest.find([':', ';']);
                let Some(end) = end.filter(|_| "=pmCste".contains(first)) else { return (Vec::new(), text) };
                arguments.push(rest[..end].to_owned());
                rest = &rest[end..];
            }
        }
        found.push((first.to_string(), arguments));
    }
}

/// Where the arguments end: before a colon or semicolon that stands in no braces, and, of a
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

/// `\1` in the replacement is what the first group matched.
fn braced(with: &str) -> String {
    let (mut text, mut chars) = (String::new(), with.chars().peekable());
    while let Some(character) = chars.next() {
        text.push(character);
        if character == '$'
            && let Some(digit) = chars.next_if(char::is_ascii_digit)
        {
            text += &format!("{{{digit}}}");
        }
    }
    text
}

fn trimmed(text: &str, limit: i64, marker: &str) -> String {
    let most = limit.unsigned_abs() as usize;
    if limit == 0 || cells::width(text) <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    let characters: Vec<char> = text.chars().collect();
    if limit > 0 {
        for character in characters {
            if cells::width(&kept) + cells::width(&character.to_string()) > most {
                break;
            }
            kept.push(character);
        }
        return kept + marker;
    }
    for character in characters.into_iter().rev() {
        if cells::width(&kept) + cells::width(&character.to_string()) > most {
            break;
        }
        kept.insert(0, character);
    }
    marker.to_owned() + &kept
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

fn calculated(arguments: &[String], one: &str, other: &str) -> String {
    let argument = |at: usize| arguments.get(at).cloned().unwrap_or_default();
    let float = argument(1).contains('f');
    let places: usize = argument(2).parse().unwrap_or(if float { 2 } else { 0 });
    let (Ok(one), Ok(other)) = (one.trim().parse::<f64>(), other.trim().parse::<f64>()) else {
        return String::new();
    };
    let (one, other) = if float { (one, other) } else { (one.trunc(), other.trunc()) };
    let truth = |truth: bool| f64::from(u8::from(truth));
    let result = match &*argument(0) {
        "+" => one + other,
        "-" => one - other,
        "*" => one * other,
        "/" => one / other,
        "%" | "m" => one % other,
        "==" => truth(one == other),
        "!=" => truth(one != other),
        "<" => truth(one < other),
        ">" => truth(one > other),
        "<=" => truth(one <= other),
        ">=" => truth(one >= other),
        _ => return String::new(),
    };
    let result = if float { result } else { result.trunc() };
    format!("{result:.places$}")
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
