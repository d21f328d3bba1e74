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

/// Why nothing was found.
struct Missing {
    why: String,
    /// As far as the word led.
    near: Option<Target>,
}

impl Missing {
    fn new(why: &str, near: Option<Target>) -> Missing {
        Missing { why: why.to_owned(), near }
    }

    fn of(kind: &str, word: &str, near: Option<Target>) -> Missing {
        Missing { why: format!("can't find {kind}: {word}"), near }
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

    fn best(&self, is_such: &dyn Fn(&&Session) -> bool) -> Option<&Session> {
        let all = self.state.sessions.iter();
        all.filter(is_such).max_by_key(|session| (session.activity, session.id))
    }

    /// The default target: the session that the call comes from, else the newest one.
    pub(crate) fn current(&self) -> Option<Target> {
        let own = self.own.and_then(|own| self.state.pane(own));
        let session = own.and_then(|own| self.best(&|session| session.has_window(own.window)));
        Some(self.of_session(session.or_else(|| self.best(&|_| true))?))
    }

    /// Finds what a word names.
    pub(crate) fn find(&self, word: Option<&str>, kind: Kind) -> Result<Target> {
        self.look(word.unwrap_or_default(), kind).map_err(|missing| Failure::failed(missing.why))
    }

    /// The pane that a word names, or what it named before it led nowhere.
    pub(crate) fn near(&self, word: Option<&str>) -> Option<Target> {
        self.look(word.unwrap_or_default(), Kind::Pane).map_or_else(|missing| missing.near, Some)
    }

    /// If the word names no index, and the command takes one (`Kind::Index`), it has none (`u32::MAX`).
    fn whole(&self, at: Target, kind: Kind) -> Target {
        let index = if kind == Kind::Index { u32::MAX } else { at.index };
        Target { index, ..at }
    }

    fn look(&self, word: &str, kind: Kind) -> Found<Target> {
        let current = self.current().ok_or_else(|| Missing::new("no current target", None))?;
        match word {
            "" => return Ok(self.whole(current, kind)),
            "=" | "{mouse}" => return Err(Missing::new("no mouse target", None)),
            "~" | "{marked}" => {
                let pane = self.state.main.marked.and_then(|pane| self.state.pane(pane));
                let found =
                    pane.and_then(|pane| Some(Target { pane: pane.id, ..self.of_window(pane.window)? }));
                return found.ok_or_else(|| Missing::new("no marked target", None));
            }
            _ => {}
        }
        let (colon, rest) = match word.split_once(':') {
            Some((session, rest)) => (Some(session), rest),
            None => (None, word),
        };
        let (before, dot) = match rest.split_once('.') {
            Some((window, pane)) => (window, Some(pane)),
            None => (rest, None),
        };
        let (session, window, pane) = match (colon, dot, word.as_bytes()[0], kind) {
            (None, None, b'$', _) => (word, "", ""),
            (None, None, b'@', _) => ("", word, ""),
            (None, None, b'%', _) => ("", "", word),
            (None, None, _, Kind::Session) => (word, "", ""),
            (None, None, _, Kind::Window | Kind::Index) => ("", word, ""),
            (None, None, _, Kind::Pane) => ("", "", word),
            _ => (colon.unwrap_or_default(), before, dot.unwrap_or_default()),
        };
        let exactly = |word| match str::strip_prefix(word, '=') {
            Some(word) => (word, true),
            None => (word, false),
        };
        let ((session, exact_session), (window, exact)) = (exactly(session), exactly(window));
        let (window, pane) = (plain(window, true), plain(pane, false));
        if !pane.is_empty() && kind == Kind::Index {
            return Err(Missing::new("can't specify pane here", None));
        }
        if !session.is_empty() {
            let found = self.session(session, exact_session);
            let found = found.ok_or_else(|| Missing::of("session", session, None))?;
            let near = self.of_session(found);
            let at = match (window, pane) {
                ("", "") => return Ok(self.whole(near, kind)),
                ("", pane) if pane.starts_with('%') => self
                    .by_id(pane)
                    .and_then(|id| {
                        Some(Target { pane: id, ..self.link(found, self.state.pane(id)?.window)? })
                    })
                    .ok_or_else(|| Missing::of("pane", pane, Some(near)))?,
                ("", _) => near,
                (window, _) => self
                    .window(found, window, exact, kind)
                    .ok_or_else(|| Missing::of("window", window, Some(near)))?,
            };
            return self.pane_at(at, pane);
        }
        if !window.is_empty() {
            let at = self.any_window(current, window, exact, kind, colon.is_some());
            let near = Some(current).filter(|_| colon.is_some() && !window.starts_with('@'));
            return self.pane_at(at.ok_or_else(|| Missing::of("window", window, near))?, pane);
        }
        if pane.starts_with('%') {
            let found = self
                .by_id(pane)
                .and_then(|id| Some(Target { pane: id, ..self.of_window(self.state.pane(id)?.window)? }));
            return found.ok_or_else(|| Missing::of("pane", pane, None));
        }
        if pane.is_empty() {
            return Ok(self.whole(current, kind));
        }
        let by_window = || match dot {
            Some(_) => None,
            None => self.any_window(current, pane, false, kind, false),
        };
        let found = self.pane(current, pane).or_else(by_window);
        found.ok_or_else(|| Missing::of("pane", pane, Some(current).filter(|_| dot.is_some())))
    }

    fn pane_at(&self, at: Target, pane: &str) -> Found<Target> {
        match pane {
            "" => Ok(at),
            _ => self.pane(at, pane).ok_or_else(|| Missing::of("pane", pane, Some(at))),
        }
    }

    fn session(&self, word: &str, exact: bool) -> Option<&Session> {
        let sessions = &self.state.sessions;
        if let Some(id) = word.strip_prefix('$') {
            return self.state.session(id.parse().ok()?);
        }
        let found = sessions.iter().find(|session| session.name == word);
        match exact {
            true => found,
            false => found
                .or_else(|| one(sessions, |session| session.name.starts_with(word)))
                .or_else(|| one(sessions, |session| matches(&session.name, word))),
        }
    }

    /// A window of the session of the default target, or, unless it is `only` that, a session.
    fn any_window(&self, current: Target, word: &str, exact: bool, kind: Kind, only: bool) -> Option<Target> {
        if let Some(id) = word.strip_prefix('@') {
            return self.of_window(id.parse().ok()?);
        }
        let found = self.window(self.state.session(current.session)?, word, exact, kind);
        let by_session = || Some(self.whole(self.of_session(self.session(word, false)?), kind));
        found.or_else(|| if only { None } else { by_session() })
    }

    /// The best place of a window.
    fn of_window(&self, window: u32) -> Option<Target> {
        self.link(self.best(&|session| session.has_window(window))?, window)
    }

    /// The place of a window in a session.
    fn link(&self, session: &Session, window: u32) -> Option<Target> {
        let is_here = |index: &u32| session.window_at(*index) == Some(window);
        let first = || session.links.iter().map(|(index, _)| *index).find(is_here);
        Some(self.at(session, Some(session.current).filter(is_here).or_else(first)?))
    }

    fn window(&self, session: &Session, word: &str, exact: bool, kind: Kind) -> Option<Target> {
        if let Some(id) = word.strip_prefix('@') {
            return self.link(session, id.parse().ok()?);
        }
        let place = |index: u32| Some(self.at(session, index));
        let by = if exact { None } else { step(word) };
        match word {
            _ if exact => {}
            "!" => return place(*session.last.first()?),
            "^" => return place(session.links.first()?.0),
            "$" => return place(session.links.last()?.0),
            _ => {}
        }
        if let (Some(by), Kind::Index) = (by, kind) {
            return place(u32::try_from(i64::from(session.current) + by).ok()?);
        }
        if let Some(by) = by {
            let here = session.links.iter().position(|(index, _)| *index == session.current)? as i64;
            return place(session.links[(here + by).rem_euclid(session.links.len() as i64) as usize].0);
        }
        if let Ok(index) = word.parse::<u32>()
            && index <= i32::MAX as u32
            && (session.window_at(index).is_some() || kind == Kind::Index)
        {
            return place(index);
        }
        let names: Vec<(u32, String)> =
            session.links.iter().map(|(index, window)| (*index, (self.name)(*window))).collect();
        let mut same = names.iter().filter(|(_, name)| name == word);
        match (same.next(), same.next()) {
            (Some((index, _)), None) => return place(*index),
            (Some(_), Some(_)) => return None,
            (None, _) if exact => return None,
            _ => {}
        }
        let found = one(&names, |(_, name)| name.starts_with(word));
        place(found.or_else(|| one(&names, |(_, name)| matches(name, word)))?.0)
    }

    fn by_id(&self, word: &str) -> Option<u32> {
        let id = word.strip_prefix('%')?.parse().ok()?;
        self.state.pane(id).map(|pane| pane.id)
    }

    /// A pane of a window.
    fn pane(&self, at: Target, word: &str) -> Option<Target> {
        let state = self.state;
        let (window, panes) = (state.window(at.window), state.panes_of(at.window));
        let here = || panes.iter().position(|pane| *pane == window.active);
        let pane = match (word, step(word)) {
            ("!", _) => window.previous?,
            ("{up-of}", _) => state.beside(at.window, window.active, false, false)?,
            ("{down-of}", _) => state.beside(at.window, window.active, false, true)?,
            ("{left-of}", _) => state.beside(at.window, window.active, true, false)?,
            ("{right-of}", _) => state.beside(at.window, window.active, true, true)?,
            (_, Some(by)) => panes[(here()? as i64 + by).rem_euclid(panes.len() as i64) as usize],
            _ if word.starts_with('%') => self.by_id(word).filter(|id| panes.contains(id))?,
            _ => {
                let base: u32 = state.option_of_pane(at.window, None, "pane-base-index").parse().unwrap_or(0);
                let index = word.parse::<u32>().ok().and_then(|index| index.checked_sub(base));
                let by_index = index.and_then(|index| panes.get(index as usize)).copied();
                by_index.or_else(|| self.corner(at.window, word))?
            }
        };
        Some(Target { pane, ..at })
    }

    fn corner(&self, window: u32, word: &str) -> Option<u32> {
        let cell = self.state.shown_cell(window);
        let (right, bottom) = (cell.width - 1, cell.height - 1);
        let (middle, centre) = (cell.width / 2, cell.height / 2);
        let (across, down) = match &*word.to_ascii_lowercase() {
            "top" => (middle, 0),
            "bottom" => (middle, bottom),
            "left" => (0, centre),
            "right" => (right, centre),
            "top-left" => (0, 0),
            "top-right" => (right, 0),
            "bottom-left" => (0, bottom),
            "bottom-right" => (right, bottom),
            _ => return None,
        };
        // The border behind a pane belongs to it.
        let is_there = |at: &crate::tmux::layout::Cell| {
            (at.left..=at.left + at.width).contains(&across) && (at.top..=at.top + at.height).contains(&down)
        };
        cell.panes().into_iter().find(|(_, at)| is_there(at)).map(|(pane, _)| pane)
    }
}

/// The short form of a word in braces.
fn plain(word: &str, is_window: bool) -> &str {
    match word {
        "{last}" => "!",
        "{next}" => "+",
        "{previous}" => "-",
        "{start}" if is_window => "^",
        "{end}" if is_window => "$",
        "{top}" | "{bottom}" | "{left}" | "{right}" | "{top-left}" | "{top-right}" | "{bottom-left}"
        | "{bottom-right}"
            if !is_window =>
        {
            &word[1..word.len() - 1]
        }
        _ => word,
    }
}

/// The number of steps that `+2` or `-` asks for.
fn step(word: &str) -> Option<i64> {
    let (sign, digits) = match word.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let steps = if digits.is_empty() { 1 } else { digits.parse::<u32>().unwrap_or(0) };
    Some(sign * i64::from(steps))
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
