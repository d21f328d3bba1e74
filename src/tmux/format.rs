//! Formats: `#{...}` and what it stands for.

mod text;

use std::{
    cell::{OnceCell, RefCell},
    env,
    rc::Rc,
};

use regex_lite::Regex;

use self::text::{closing, skip, strftime};
use crate::{
    sys::{host::Host, user},
    terminal::{
        cells,
        screen::{Capture, Screen},
    },
    tmux::{
        options,
        panes::{self, Facts, window_name},
        state::{Pane, Session, Setting, Space, State, Window},
        tables::{self, known},
        target::{self, Target},
        words,
        zone::Zone,
    },
};

/// The version that we behave as.
pub(crate) const VERSION: &str = "3.3a";

/// Deeper than any format that is meant.
const DEEPEST: usize = 50;
/// More columns than a screen has.
const WIDEST: usize = 10_000;

/// Facts that are looked up at most once in a call.
#[derive(Default)]
pub(crate) struct Seen {
    facts: RefCell<Vec<(u32, Rc<Facts>)>>,
    screens: RefCell<Vec<(u32, Option<Rc<Screen>>)>>,
    zone: OnceCell<Zone>,
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

    fn zone(&self) -> &Zone {
        self.zone.get_or_init(Zone::local)
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
    let facts = seen.facts(pane);
    // As with tmux, it keeps the name of its command until something is printed. Its shell, which first runs,
    // must not be taken for what a target names.
    let has_printed = facts.now.as_ref().is_some_and(|now| now.offset > 0);
    let is_named = !has_printed || facts.command.is_empty();
    let name = if is_named { window.name.clone() } else { facts.command.clone() };
    if pane.dead.is_some() { format!("{name}[dead]") } else { name }
}

/// A modifier before the colon of `#{...}`.
struct Modifier<'a> {
    name: &'a str,
    arguments: Vec<String>,
}

/// Does a text match a pattern of a shell, or with the flag `r` a regular expression?
fn matches(pattern: &str, text: &str, flags: &str) -> bool {
    let fold = |text: &str| match flags.contains('i') {
        // That of `str` has tables for a sigma at the end of a word.
        true => text.chars().flat_map(char::to_lowercase).collect(),
        false => text.to_owned(),
    };
    match flags.contains('r') {
        true => Regex::new(&fold(pattern)).is_ok_and(|regex| regex.is_match(&fold(text))),
        false => target::matches(&fold(text), &fold(pattern)),
    }
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
    pub(crate) is_timed: bool,
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

    /// The same, with what strftime(3) knows replaced by the time, too.
    pub(crate) fn timed(self) -> Self {
        Format { is_timed: true, ..self }
    }

    pub(crate) fn expand(&self, text: &str) -> String {
        if self.depth > DEEPEST {
            return String::new();
        }
        let timed = if self.is_timed && text.contains('%') {
            strftime(text, panes::now(), self.seen.zone())
        } else {
            String::new()
        };
        let (mut out, mut rest) = (String::new(), if timed.is_empty() { text } else { &*timed });
        while let Some(at) = rest.find('#') {
            out += &rest[..at];
            rest = &rest[at + 1..];
            let Some(next) = rest.chars().next() else {
                out.push('#');
                break;
            };
            let hashes = 1 + rest.len() - rest.trim_start_matches('#').len();
            match next {
                '{' => {
                    let end = closing(&rest[1..]);
                    let value = end.and_then(|end| self.deeper().replaced(&rest[1..1 + end]));
                    let (Some(end), Some(value)) = (end, value) else { return out };
                    out += &value;
                    rest = &rest[end + 2..];
                    continue;
                }
                '(' => {
                    let mut depth = 0;
                    let end = rest.find(|character| {
                        depth += i32::from(character == '(') - i32::from(character == ')');
                        depth == 0
                    });
                    let Some(end) = end else { return out };
                    rest = &rest[end + 1..];
                    continue;
                }
                // Styles are for what draws them.
                '#' if rest[hashes - 1..].starts_with('[') => {
                    out += &"#".repeat(hashes);
                    out.push('[');
                    rest = &rest[hashes..];
                    continue;
                }
                '#' | ',' | '}' => out.push(next),
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

    /// The text before a comma and that behind it, expanded.
    fn both(&self, text: &str) -> Option<(String, String)> {
        let comma = skip(text, ",")?;
        Some((self.expand(&text[..comma]), self.expand(&text[comma + 1..])))
    }

    /// The value of the text in braces; `None` if that makes no sense, which ends the expansion.
    fn replaced(&self, text: &str) -> Option<String> {
        let (modifiers, rest) = self.modifiers(text);
        let last = |names: &[&str]| modifiers.iter().rev().find(|modifier| names.contains(&modifier.name));
        let argument = |modifier: &Modifier<'_>, at: usize| modifier.arguments.get(at).cloned();
        let first = |name: &str| last(&[name]).map(|modifier| argument(modifier, 0).unwrap_or_default());
        let kind = last(&["N"]).map(|modifier| argument(modifier, 0));
        let comparison = last(&["m", "<", ">", "||", "&&", "==", "!=", "<=", ">="]);
        let calculation = last(&["e"]).filter(|modifier| (1..4).contains(&modifier.arguments.len()));
        let mut value = if last(&["l"]).is_some() {
            rest.to_owned()
        } else if last(&["a"]).is_some() {
            let code = words::number(&self.expand(rest), 32, 126).unwrap_or(0) as u8;
            if code == 0 { String::new() } else { char::from(code).into() }
        } else if let Some(name) = ["S", "W", "P"].into_iter().find(|name| last(&[name]).is_some()) {
            self.loops(name, rest)
        } else if let Some(kind) =
            kind.filter(|kind| kind.as_ref().is_none_or(|kind| kind.contains(['w', 's'])))
        {
            let wanted = self.expand(rest);
            truth(match kind.is_none_or(|kind| kind.contains('w')) {
                false => self.state.sessions.iter().any(|session| session.name == wanted),
                true => self
                    .session()?
                    .links
                    .iter()
                    .any(|(_, window)| name_of_window(self.state, self.seen, *window) == wanted),
            })
        } else if let Some(flags) = first("C") {
            self.line_with(&self.expand(rest), &flags).to_string()
        } else if let Some(comparison) = comparison {
            let (one, other) = self.both(rest)?;
            truth(match comparison.name {
                "||" => is_true(&one) || is_true(&other),
                "&&" => is_true(&one) && is_true(&other),
                "m" => matches(&one, &other, &argument(comparison, 0).unwrap_or_default()),
                operator => text::compared(operator, one.cmp(&other)).unwrap_or(false),
            })
        } else if let Some(condition) = rest.strip_prefix('?') {
            let comma = skip(condition, ",")?;
            let (condition, choices) = (&condition[..comma], &condition[comma + 1..]);
            let comma = skip(choices, ",")?;
            // A text that is no variable is false, even `1`.
            let found = self.found(condition, &modifiers);
            let found = found.unwrap_or_else(|| {
                Some(self.expand(condition)).filter(|text| text != condition).unwrap_or_default()
            });
            self.expand(if is_true(&found) { &choices[..comma] } else { &choices[comma + 1..] })
        } else if let Some(calculation) = calculation {
            let both = self.both(rest);
            both.map_or(String::new(), |(one, other)| text::calculated(&calculation.arguments, &one, &other))
        } else if rest.contains("#{") {
            self.expand(rest)
        } else {
            self.found(rest, &modifiers).unwrap_or_default()
        };
        if last(&["E"]).is_some() {
            value = self.expand(&value);
        } else if last(&["T"]).is_some() {
            value = self.clone().timed().expand(&value);
        }
        for modifier in &modifiers {
            if let ("s", [pattern, with, flags @ ..]) = (modifier.name, &modifier.arguments[..]) {
                let (pattern, with) = (self.expand(pattern), self.expand(with));
                let ignores_case = flags.first().is_some_and(|flags| flags.contains('i'));
                value = text::substituted(&pattern, ignores_case, &value, &with);
            }
        }
        let bound = i64::from(i32::MAX);
        let number = |text: String| words::number(&text, -bound, bound).unwrap_or(0);
        if let Some(limit) = first("=") {
            let marker = last(&["="]).and_then(|modifier| argument(modifier, 1)).unwrap_or_default();
            value = text::trimmed(&value, number(limit), &marker);
        }
        if let Some(width) = first("p").map(number) {
            let missing = (width.unsigned_abs() as usize).min(WIDEST).saturating_sub(cells::width(&value));
            let blanks = " ".repeat(missing);
            value = if width < 0 { blanks + &value } else { value + &blanks };
        }
        if last(&["n"]).is_some() {
            value = value.len().to_string();
        }
        if last(&["w"]).is_some() {
            value = cells::width(&value).to_string();
        }
        Some(value)
    }

    /// The value of a variable as these modifiers show it.
    fn found(&self, name: &str, modifiers: &[Modifier<'_>]) -> Option<String> {
        let last = |name: &str| modifiers.iter().rev().find(|modifier| modifier.name == name);
        let Some(time) = last("t") else {
            let mut value = self.variable(name).or_else(|| self.of_environment(name))?;
            if last("b").is_some() {
                value = match value.trim_end_matches('/') {
                    "" if value.is_empty() => ".".to_owned(),
                    "" => "/".to_owned(),
                    path => path.rsplit('/').next().unwrap_or_default().to_owned(),
                };
            }
            if last("d").is_some() {
                value = match value.trim_end_matches('/').rsplit_once('/') {
                    Some(("", _)) => "/".to_owned(),
                    Some((folder, _)) => folder.to_owned(),
                    None if value.starts_with('/') => "/".to_owned(),
                    None => ".".to_owned(),
                };
            }
            return Some(match last("q").map(|modifier| modifier.arguments.first()) {
                None => value,
                Some(None) => text::escaped(&value, false),
                Some(Some(kind)) if kind.contains(['e', 'h']) => text::escaped(&value, true),
                Some(Some(_)) => value,
            });
        };
        let seconds = words::number(&self.variable(name)?, 0, i64::MAX).unwrap_or(0) as u64;
        let kind = time.arguments.first().map_or("", String::as_str);
        match time.arguments.get(1).filter(|_| kind.contains('f')) {
            _ if seconds == 0 => None,
            _ if kind.contains('p') => Some(text::pretty(seconds, panes::now(), self.seen.zone())),
            Some(format) => Some(strftime(&format.replace("#:", ":"), seconds, self.seen.zone())),
            None => Some(strftime("%c", seconds, self.seen.zone())),
        }
    }

    /// The modifiers before a colon, and what follows it. None where it is no such text.
    fn modifiers<'t>(&self, text: &'t str) -> (Vec<Modifier<'t>>, &'t str) {
        const TWO: [&str; 6] = ["||", "&&", "==", "!=", "<=", ">="];
        let none = || (Vec::new(), text);
        let is_end = |text: &str| text.starts_with([':', ';']);
        let (mut found, mut rest) = (Vec::new(), text);
        loop {
            if let Some(after) = rest.strip_prefix(':') {
                return (found, after);
            }
            rest = rest.strip_prefix(';').unwrap_or(rest);
            let mut arguments = Vec::new();
            let one = rest
                .split_at_checked(1)
                .filter(|(name, after)| "labcdnwETSWP<>".contains(name) && is_end(after));
            let two = || rest.split_at_checked(2).filter(|(name, after)| TWO.contains(name) && is_end(after));
            let (name, mut after) = match one.or_else(two) {
                Some(both) => both,
                None => match rest.split_at_checked(1).filter(|(name, _)| "mCNst=peq".contains(name)) {
                    Some((name, after)) => (name, after),
                    None => return none(),
                },
            };
            if !is_end(after) {
                let Some(mark) = after.chars().next() else { return none() };
                if !mark.is_ascii_punctuation() || mark == '-' {
                    let Some(end) = skip(after, ":;") else { return none() };
                    arguments.push(self.expand(&after[..end]));
                    after = &after[end..];
                } else {
                    // The arguments stand between marks.
                    let ends = format!("{mark};:");
                    while !is_end(after) {
                        if after.starts_with(mark) && is_end(&after[1..]) {
                            after = &after[1..];
                            break;
                        }
                        let Some(end) = skip(&after[1..], &ends) else { return none() };
                        arguments.push(self.expand(&after[1..1 + end]));
                        after = &after[1 + end..];
                    }
                }
            }
            found.push(Modifier { name, arguments });
            rest = after;
        }
    }

    /// The number of the first line of the screen that has such a text; 0: none has.
    fn line_with(&self, wanted: &str, flags: &str) -> usize {
        let form = Capture { colours: false, joins: false, keeps_blanks: false };
        let screen = self.pane().and_then(|pane| self.seen.screen(pane));
        let text = screen.and_then(|screen| screen.captured(0, screen.size().1 as i64 - 1, false, form));
        let pattern = if flags.contains('r') { wanted.to_owned() } else { format!("*{wanted}*") };
        let text = text.unwrap_or_default();
        let mut lines = text.lines().map(|line| matches(&pattern, line.trim_end(), flags));
        lines.position(|is_such| is_such).map_or(0, |at| at + 1)
    }

    /// Each session, window or pane.
    fn loops(&self, kind: &str, text: &str) -> String {
        let comma = skip(text, ",").filter(|_| kind != "S");
        let (all, current) = comma.map_or((text, text), |comma| (&text[..comma], &text[comma + 1..]));
        let Some(target) = self.target else { return String::new() };
        let mut targets = Vec::new();
        match (kind, self.session()) {
            ("S", _) => {
                let mut sessions: Vec<&Session> = Vec::new();
                for session in &self.state.sessions {
                    sessions.insert(sessions.partition_point(|other| other.name < session.name), session);
                }
                targets.extend(sessions.into_iter().map(|session| session.at(self.state, session.current)));
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
                "S" => false,
                "W" => self.session().is_some_and(|session| session.current == one.index),
                _ => self.window().is_some_and(|window| window.active == one.pane),
            };
            text += &self.with(one).expand(if is_current { current } else { all });
        }
        text
    }

    /// The value of a variable or of an option.
    fn variable(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = self.own.iter().find(|(known, _)| *known == name) {
            return Some(value.clone());
        }
        if let Some(number) = tables::variable(name) {
            return self.known(number);
        }
        let target = self.target;
        let (session, window) = (target.map(|target| target.session), target.map(|target| target.window));
        self.state.shown_option(&options::scopes(session, window, target.map(|target| target.pane)), name)
    }

    fn of_environment(&self, name: &str) -> Option<String> {
        let scope = self.target.map_or(String::new(), |target| format!("${}", target.session));
        let is_set =
            |variable: &&Setting| variable.name == name && (variable.scope == "g" || variable.scope == scope);
        match self.state.variables.iter().rev().find(is_set) {
            Some(variable) => variable.value.clone(),
            None => env::var(name).ok().filter(|_| !name.is_empty() && !name.contains(['=', '\0'])),
        }
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
            known::UID => user::id().to_string(),
            known::USER => user::name(),
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
            known::SESSION_FORMAT => truth(false),
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
            known::WINDOW_ACTIVITY_FLAG | known::WINDOW_BELL_FLAG | known::WINDOW_SILENCE_FLAG => {
                truth(false)
            }
            known::WINDOW_BIGGER => String::new(),
            // In pixels: what tmux says as long as no terminal has said it.
            known::WINDOW_CELL_HEIGHT => "32".to_owned(),
            known::WINDOW_CELL_WIDTH => "16".to_owned(),
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
            known::WINDOW_FORMAT => truth(false),
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
        let whole = || state.cell(window.id);
        let place = || state.place_of(pane);
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
            known::PANE_WIDTH => place().width.to_string(),
            known::PANE_HEIGHT => place().height.to_string(),
            known::PANE_LEFT => place().left.to_string(),
            known::PANE_TOP => place().top.to_string(),
            known::PANE_RIGHT => (place().left + place().width - 1).to_string(),
            known::PANE_BOTTOM => (place().top + place().height - 1).to_string(),
            known::PANE_AT_LEFT => truth(place().left == 0),
            known::PANE_AT_TOP => truth(place().top == 0),
            known::PANE_AT_RIGHT => truth(place().left + place().width == whole().width),
            known::PANE_AT_BOTTOM => truth(place().top + place().height == whole().height),
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
            known::PANE_CURRENT_PATH => facts().folder(),
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
            known::PANE_UNSEEN_CHANGES if pane.modes.is_empty() => String::new(),
            known::PANE_UNSEEN_CHANGES => truth(false),
            known::PANE_SEARCH_STRING => String::new(),
            known::PANE_INPUT_OFF => truth(pane.input_off),
            known::PANE_MARKED => truth(state.main.marked == Some(pane.id)),
            known::PANE_MARKED_SET => truth(state.main.marked.is_some()),
            known::PANE_PIPE => truth(pane.has_pipe()),
            known::PANE_SYNCHRONIZED => {
                truth(state.option_of_pane(window.id, Some(pane.id), "synchronize-panes") == "on")
            }
            known::PANE_BG | known::PANE_FG => "default".to_owned(),
            known::PANE_FORMAT => truth(true),
            known::PANE_TABS => {
                let mut tabs: Vec<u32> = (1..place().width.div_ceil(8)).collect();
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
            known::SCROLL_REGION_LOWER => (place().height - 1).to_string(),
            known::INSERT_FLAG => truth(false),
            known::KEYPAD_FLAG => truth(facts().keys().is_some_and(|keys| keys.application.keypad)),
            known::KEYPAD_CURSOR_FLAG => truth(facts().keys().is_some_and(|keys| keys.application.cursor)),
            known::BRACKET_PASTE_FLAG => truth(facts().keys().is_some_and(|keys| keys.bracketed_paste)),
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

fn host() -> String {
    Host::ours().map_or(String::new(), |host| String::from_utf8_lossy(&host.name).into_owned())
}

/// A name of a session without what tmux takes for separators.
pub(crate) fn session_name(name: &str) -> String {
    let name: String =
        name.chars().map(|character| if ":.".contains(character) { '_' } else { character }).collect();
    visible(&name)
}

/// A name as it is kept: with nothing in it that is no text.
pub(crate) fn visible(name: &str) -> String {
    let (mut text, mut rest) = (String::new(), name.chars());
    while let Some(character) = rest.next() {
        let is_variable =
            rest.as_str().starts_with(|next: char| next.is_ascii_alphabetic() || "_{".contains(next));
        if character == '\\' || (character == '$' && is_variable) {
            text.push('\\');
        }
        text.push(character);
    }
    crate::terminal::text::escaped(text.as_bytes()).to_string()
}
