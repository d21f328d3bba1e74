//! Targets: which session, window or pane a word names.

use crate::{
    outcome::{Failure, Result},
    tmux::state::{Session, State},
};

/// A result: a session, the index of one of its windows, and a pane of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) session: u32,
    pub(crate) index: u32,
    pub(crate) window: u32,
    pub(crate) pane: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Session,
    Window,
    /// A window that need not be there: its index is what counts.
    Index,
    Pane,
}

/// Looks names up.
pub(crate) struct Finder<'a> {
    pub(crate) state: &'a State,
    /// The pane that the call comes from.
    pub(crate) own: Option<u32>,
    /// The name of a window, which may be its program's.
    pub(crate) name: &'a dyn Fn(u32) -> String,
}

type Found<T> = std::result::Result<T, Missing>;

/// The kind and the name of something that was not found.
struct Missing(&'static str, String);

impl Missing {
    fn failure(self) -> Failure {
        Failure::failed(format!("can't find {}: {}", self.0, self.1))
    }
}

impl Session {
    /// The active pane of the window of that index.
    pub(crate) fn at(&self, state: &State, index: u32) -> Target {
        let window = self.window_at(index).unwrap_or_else(|| self.current_window());
        Target { session: self.id, index, window, pane: state.window(window).active }
    }
}

impl Finder<'_> {
    fn at(&self, session: &Session, index: u32) -> Target {
        session.at(self.state, index)
    }

    fn of_session(&self, session: &Session) -> Target {
        self.at(session, session.current)
    }

    /// The default target: the pane that the call comes from, else the newest session.
    pub(crate) fn current(&self) -> Option<Target> {
        if let Some(pane) = self.own.and_then(|own| self.state.pane(own))
            && let Some((session, index)) = self.state.place_of(pane.window)
        {
            return Some(Target { session, index, window: pane.window, pane: pane.id });
        }
        let newest = self.state.sessions.iter().max_by_key(|session| (session.activity, session.id))?;
        Some(self.of_session(newest))
    }

    /// Finds what a word names.
    pub(crate) fn find(&self, word: Option<&str>, kind: Kind) -> Result<Target> {
        let found = match word {
            None | Some("") => self.current().ok_or_else(|| Missing("", String::new())),
            Some(word) => self.look(word, kind),
        };
        found.map_err(|missing| match missing.0 {
            "" => Failure::failed("no current target".into()),
            _ => missing.failure(),
        })
    }

    fn look(&self, word: &str, kind: Kind) -> Found<Target> {
        let state = self.state;
        if matches!(word, "~" | "{marked}") {
            let pane = state.main.marked.and_then(|pane| state.pane(pane));
            let place = pane.and_then(|pane| Some((pane.id, pane.window, state.place_of(pane.window)?)));
            let (pane, window, (session, index)) = place.ok_or_else(|| Missing("pane", word.to_owned()))?;
            return Ok(Target { session, index, window, pane });
        }
        if matches!(word, "=" | "{mouse}" | "@" | "{active}") && word != "@" {
            return self.current().ok_or_else(|| Missing("pane", word.to_owned()));
        }
        // An ID says all by itself.
        match word.split_at(1) {
            ("$", _) if !word.contains([':', '.']) => return Ok(self.in_session(self.session(word)?, kind)),
            ("@", id) if !word.contains([':', '.']) && id.parse::<u32>().is_ok() => {
                return self.by_window_id(None, word);
            }
            ("%", _) => return self.by_pane_id(word),
            _ => {}
        }
        let (session, rest) = match word.split_once(':') {
            Some((session, rest)) => (Some(session), Some(rest)),
            None => (None, None),
        };
        match (session, kind) {
            (None, Kind::Session) => Ok(self.of_session(self.session(word)?)),
            (None, Kind::Window | Kind::Index) => {
                let own = self.current();
                let current = own.and_then(|own| state.session(own.session));
                if let Some(session) = current
                    && let Some(found) = self.window(session, word, kind)
                {
                    return Ok(found);
                }
                match self.session(word) {
                    Ok(session) => Ok(self.in_session(session, kind)),
                    Err(_) => Err(Missing("window", bare(word))),
                }
            }
            (None, Kind::Pane) => self.pane_word(word),
            (Some(name), _) => {
                let session = match name {
                    "" => {
                        let own = self.current().and_then(|own| state.session(own.session));
                        own.ok_or_else(|| Missing("session", String::new()))?
                    }
                    name => self.session(name)?,
                };
                let rest = rest.unwrap_or_default();
                let (window, pane) = match (kind, rest.split_once('.')) {
                    (Kind::Session, _) => return Ok(self.of_session(session)),
                    (Kind::Pane, Some((window, pane))) => (window, pane),
                    (Kind::Pane, None) => (rest, ""),
                    _ => (rest, ""),
                };
                if window.is_empty() && pane.is_empty() {
                    return Ok(self.in_session(session, kind));
                }
                let found = match window {
                    "" => Some(self.of_session(session)),
                    window => self.window(session, window, kind),
                };
                let found = found.ok_or_else(|| Missing("window", bare(window)))?;
                if pane.is_empty() { Ok(found) } else { self.pane(found, pane) }
            }
        }
    }

    /// The current window; for a new one, none.
    fn in_session(&self, session: &Session, kind: Kind) -> Target {
        let target = self.of_session(session);
        if kind == Kind::Index { Target { index: u32::MAX, ..target } } else { target }
    }

    /// A word for a pane without a session: a pane, a window or a session.
    fn pane_word(&self, word: &str) -> Found<Target> {
        let current = self.current();
        let own = current.and_then(|own| Some((self.state.session(own.session)?, own)));
        if let Some((window, pane)) = word.split_once('.')
            && let Some((session, own)) = own
        {
            let found = match window {
                "" => Some(own),
                window => self.window(session, window, Kind::Window),
            };
            if let Some(found) = found {
                return if pane.is_empty() { Ok(found) } else { self.pane(found, pane) };
            }
        }
        if let Some((session, own)) = own {
            if let Ok(found) = self.pane(own, word) {
                return Ok(found);
            }
            if let Some(found) = self.window(session, word, Kind::Window) {
                return Ok(found);
            }
        }
        match self.session(word) {
            Ok(session) if !word.starts_with('=') => Ok(self.of_session(session)),
            _ => Err(Missing("pane", bare(word))),
        }
    }

    /// By its ID, its name, or the beginning of that, or a pattern.
    fn session(&self, word: &str) -> Found<&Session> {
        let sessions = &self.state.sessions;
        let missing = || Missing("session", bare(word));
        if let Some(id) = word.strip_prefix('$') {
            let id: u32 = id.parse().map_err(|_| missing())?;
            return self.state.session(id).ok_or_else(missing);
        }
        let name = bare(word);
        if let Some(exact) = sessions.iter().find(|session| session.name == name) {
            return Ok(exact);
        }
        if word.starts_with('=') {
            return Err(missing());
        }
        one(sessions, |session| session.name.starts_with(&name))
            .or_else(|| one(sessions, |session| matches(&session.name, &name)))
            .ok_or_else(missing)
    }

    fn window(&self, session: &Session, word: &str, kind: Kind) -> Option<Target> {
        if word.starts_with('@') && word.len() > 1 {
            return self.by_window_id(Some(session), word).ok();
        }
        let exact = word.starts_with('=');
        let word = word.strip_prefix('=').unwrap_or(word);
        let near = |by: i64| {
            let count = session.links.len() as i64;
            let at = session.links.iter().position(|(index, _)| *index == session.current)? as i64;
            let (index, _) = session.links[(at + by).rem_euclid(count) as usize];
            Some(self.at(session, index))
        };
        match word {
            "!" | "{last}" => return session.last.first().map(|index| self.at(session, *index)),
            "^" | "{start}" => return session.links.first().map(|(index, _)| self.at(session, *index)),
            "$" | "{end}" => return session.links.last().map(|(index, _)| self.at(session, *index)),
            "{next}" => return near(1),
            "{previous}" => return near(-1),
            _ if !exact && word.starts_with(['+', '-']) => {
                let by = if word.len() == 1 { 1 } else { word[1..].parse::<i64>().ok()? };
                let by = if word.starts_with('-') { -by } else { by };
                if kind == Kind::Index {
                    let index = i64::from(session.current) + by;
                    return Some(Target { index: index.max(0) as u32, ..self.of_session(session) });
                }
                return near(by);
            }
            _ => {}
        }
        if let Ok(index) = word.parse::<u32>()
            && !exact
            && (session.window_at(index).is_some() || kind == Kind::Index)
        {
            return Some(self.at(session, index));
        }
        let names: Vec<(u32, String)> =
            session.links.iter().map(|(index, window)| (*index, (self.name)(*window))).collect();
        let of = |(index, _): &(u32, String)| self.at(session, *index);
        if let Some(found) = names.iter().find(|(_, name)| name == word) {
            return Some(of(found));
        }
        if exact {
            return None;
        }
        let found = one(&names, |(_, name)| name.starts_with(word));
        found.or_else(|| one(&names, |(_, name)| matches(name, word))).map(of)
    }

    fn pane(&self, at: Target, word: &str) -> Found<Target> {
        if word.starts_with('%') {
            return self.by_pane_id(word);
        }
        let state = self.state;
        let (window, panes) = (state.window(at.window), state.panes_of(at.window));
        let base: u32 = state.option_of_pane(at.window, None, "pane-base-index").parse().unwrap_or(0);
        let near = |by: i64| {
            let here = panes.iter().position(|pane| *pane == window.active).unwrap_or(0) as i64;
            panes.get((here + by).rem_euclid(panes.len() as i64) as usize).copied()
        };
        let found = match word {
            "!" | "{last}" => window.last.first().copied(),
            "{next}" => near(1),
            "{previous}" => near(-1),
            _ if word.starts_with('{') => self.corner(at.window, word),
            _ if word.starts_with(['+', '-']) => {
                let by = if word.len() == 1 { Some(1) } else { word[1..].parse::<i64>().ok() };
                by.and_then(|by| near(if word.starts_with('-') { -by } else { by }))
            }
            _ => {
                word.parse().ok().and_then(|index: u32| panes.get(index.checked_sub(base)? as usize).copied())
            }
        };
        found.map(|pane| Target { pane, ..at }).ok_or_else(|| Missing("pane", word.to_owned()))
    }

    fn corner(&self, window: u32, word: &str) -> Option<u32> {
        let cell = self.state.cell(window);
        let active = cell.of(self.state.window(window).active)?.clone();
        let (right, bottom) = (cell.width, cell.height);
        let panes = cell.panes();
        let is = |at: &crate::tmux::layout::Cell| {
            let (left, top) = (at.left == 0, at.top == 0);
            let (right, bottom) = (at.left + at.width == right, at.top + at.height == bottom);
            match word {
                "{top}" => top,
                "{bottom}" => bottom,
                "{left}" => left,
                "{right}" => right,
                "{top-left}" => top && left,
                "{top-right}" => top && right,
                "{bottom-left}" => bottom && left,
                "{bottom-right}" => bottom && right,
                "{up-of}" => at.top + at.height + 1 == active.top,
                "{down-of}" => active.top + active.height + 1 == at.top,
                "{left-of}" => at.left + at.width + 1 == active.left,
                "{right-of}" => active.left + active.width + 1 == at.left,
                _ => false,
            }
        };
        panes.into_iter().find(|(_, at)| is(at)).map(|(pane, _)| pane)
    }

    fn by_window_id(&self, session: Option<&Session>, word: &str) -> Found<Target> {
        let missing = || Missing("window", word.to_owned());
        let id: u32 = word[1..].parse().map_err(|_| missing())?;
        let own = self.current().and_then(|own| self.state.session(own.session));
        let sessions: Vec<&Session> = match session {
            Some(session) => vec![session],
            None => own.into_iter().chain(&self.state.sessions).collect(),
        };
        let found = sessions.into_iter().find_map(|session| {
            let is_here = |index: &u32| session.window_at(*index) == Some(id);
            let first = || session.links.iter().map(|(index, _)| *index).find(is_here);
            let index = Some(session.current).filter(is_here).or_else(first)?;
            Some(self.at(session, index))
        });
        found.ok_or_else(missing)
    }

    fn by_pane_id(&self, word: &str) -> Found<Target> {
        let missing = || Missing("pane", word.to_owned());
        let pane = word[1..].parse().ok().and_then(|id| self.state.pane(id)).ok_or_else(missing)?;
        let at = self.by_window_id(None, &format!("@{}", pane.window)).map_err(|_| missing())?;
        Ok(Target { pane: pane.id, ..at })
    }
}

fn bare(word: &str) -> String {
    word.strip_prefix('=').unwrap_or(word).to_owned()
}

/// The only one that is such.
fn one<T>(all: &[T], is_such: impl Fn(&T) -> bool) -> Option<&T> {
    let mut found = all.iter().filter(|one| is_such(one));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Does a text match a pattern of `*`, `?` and `[...]`, as fnmatch(3) has them?
pub(crate) fn matches(text: &str, pattern: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => {
            let places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            places.into_iter().any(|at| matches(&text[at..], rest.as_str()))
        }
        Some(first) => {
            let mut text = text.chars();
            let Some(character) = text.next() else { return false };
            let is_same = match first {
                '?' => true,
                '[' => match rest.as_str().split_once(']') {
                    Some((set, after)) => {
                        rest = after.chars();
                        let (set, negated) = match set.strip_prefix(['!', '^']) {
                            Some(set) => (set, true),
                            None => (set, false),
                        };
                        in_set(character, set) != negated
                    }
                    None => character == '[',
                },
                '\\' => rest.next() == Some(character),
                other => other == character,
            };
            is_same && matches(text.as_str(), rest.as_str())
        }
    }
}

fn in_set(character: char, set: &str) -> bool {
    let set: Vec<char> = set.chars().collect();
    let mut at = 0;
    while at < set.len() {
        if at + 2 < set.len() && set[at + 1] == '-' {
            if (set[at]..=set[at + 2]).contains(&character) {
                return true;
            }
            at += 3;
        } else if set[at] == character {
            return true;
        } else {
            at += 1;
        }
    }
    false
}
