//! The updates of sessions for an open page.
//!
//! For each client we only remember up to which number it has seen each session (`versioned_screen.rs`).

use crate::{
    json::{Object, Value},
    page::versioned_screen::{Numbers, VersionedScreen},
};

/// The most that is sent to a client before it must have read it.
pub(super) const AT_ONCE: usize = 128 * 1024;

/// The state of one session that is sent.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// `HANDLE`, or `MACHINE:HANDLE`.
    pub(crate) name: String,
    /// None comes again, but that of a machine itself.
    pub(crate) key: u64,
    pub(crate) frame: VersionedScreen,
    // The state besides the screen, and its number.
    pub(super) about: String,
    pub(super) about_number: u64,
}

impl Entry {
    pub(crate) fn new(name: String, key: u64) -> Entry {
        Entry { name, key, ..Entry::default() }
    }

    pub(crate) fn describe(&mut self, about: String, numbers: &mut Numbers) {
        if about != self.about {
            self.about = about;
            self.about_number = numbers.next();
        }
    }

    /// The update for a client that has seen the state up to one number and the screen up to another,
    /// if there is any; without the screen if that is `None`.
    fn object(&self, seen: u64, screen: Option<u64>) -> Option<Object> {
        let mut object = Object::new().text("handle", &self.name);
        let screen = screen.filter(|screen| self.frame.number() > *screen);
        if self.about_number > seen {
            object = object.json("about", &self.about);
        } else if screen.is_none() {
            return None;
        }
        Some(match screen {
            Some(screen) => object.object_or_null("screen", Some(self.frame.object(screen))),
            None => object,
        })
    }
}

/// The visible sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// All of them, on the wall.
    pub(crate) wall: bool,
    /// Sessions that are shown large, each on a client's page.
    pub(crate) large: Vec<String>,
}

impl View {
    pub(crate) fn is_large(&self, name: &str) -> bool {
        self.large.iter().any(|large| large == name)
    }

    pub(crate) fn shows(&self, name: &str) -> bool {
        self.wall || self.is_large(name)
    }

    pub(crate) fn add(&mut self, other: &View) {
        self.wall |= other.wall;
        self.large.extend(
            other.large.iter().filter(|name| !self.large.contains(name)).cloned().collect::<Vec<_>>(),
        );
    }

    /// The part of the view that concerns a machine, in its own handles.
    pub(crate) fn line(&self, machine: &str) -> String {
        let there = |name: &String| Some(name.strip_prefix(machine)?.strip_prefix(':')?.as_bytes().to_vec());
        let large: Vec<Vec<u8>> = self.large.iter().filter_map(there).collect();
        Object::new().truth("wall", self.wall).list("large", &large).line()
    }

    pub(crate) fn parse(told: &Value) -> View {
        let large = told["large"].as_array().into_iter().flatten();
        let large = large.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        View { wall: told["wall"].as_bool() == Some(true), large }
    }
}

/// A client that receives updates.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) view: View,
    /// The progress of the client in each session, by keys.
    seen: Vec<Seen>,
    /// It has seen all there was up to that number, before we knew of it.
    since: u64,
    greeted: bool,
}

struct Seen {
    key: u64,
    name: String,
    number: u64,
    /// The same of its screen.
    screen: u64,
    is_there: bool,
}

impl Stream {
    pub(crate) fn new(view: View, since: u64) -> Stream {
        Stream { view, since, ..Stream::default() }
    }

    fn seen(&self, entry: &Entry) -> Result<usize, usize> {
        self.seen.binary_search_by_key(&entry.key, |seen| seen.key)
    }

    fn news(&self, entry: &Entry) -> Option<Object> {
        let since = (self.since, self.since);
        let (number, screen) =
            self.seen(entry).map_or(since, |at| (self.seen[at].number, self.seen[at].screen));
        entry.object(number, self.view.shows(&entry.name).then_some(screen))
    }

    /// Is there something that it has not seen?
    pub(crate) fn lacks(&self, entries: &[&Entry]) -> bool {
        let is_news = |entry: &&Entry| {
            let seen = self.seen(entry).ok().map(|at| &self.seen[at]);
            seen.is_none_or(|seen| {
                let screen = self.view.shows(&entry.name) && entry.frame.number() > seen.screen;
                screen || entry.about_number > seen.number
            })
        };
        // As many, and none that is new: the same.
        !self.greeted || entries.len() != self.seen.len() || entries.iter().any(is_news)
    }

    /// Adds to `out` what it has not seen, or some of it, and with the last of that the number
    /// up to which it has seen all.
    pub(crate) fn send(&mut self, entries: &[&Entry], last: u64, epoch: &str, out: &mut Vec<u8>) {
        if !self.greeted {
            // All other sessions that it has are gone.
            let names: Vec<Vec<u8>> = entries.iter().map(|entry| entry.name.as_str().into()).collect();
            send(out, Object::new().list("sessions", &names));
            self.greeted = true;
        }
        for entry in entries {
            if let Ok(at) = self.seen(entry) {
                self.seen[at].is_there = true;
            }
        }
        self.seen.retain_mut(|seen| {
            let is_there = std::mem::take(&mut seen.is_there);
            if !is_there {
                send(out, Object::new().text("gone", &seen.name));
            }
            is_there
        });
        for entry in entries {
            if let Some(object) = self.news(entry) {
                send(out, object);
            }
            let at = self.seen(entry).unwrap_or_else(|at| {
                let Entry { key, name, .. } = entry;
                let (number, screen) = (self.since, self.since);
                self.seen.insert(at, Seen { key: *key, name: name.clone(), number, screen, is_there: false });
                at
            });
            self.seen[at].number = last;
            if self.view.shows(&entry.name) {
                self.seen[at].screen = last;
            }
            if out.len() > AT_ONCE {
                return;
            }
        }
        out.extend_from_slice(format!("id: {epoch}-{last}\ndata: {{}}\n\n").as_bytes());
    }
}

/// An event (HTML, 9.2.6).
fn send(out: &mut Vec<u8>, object: Object) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(object.value().as_bytes());
    out.extend_from_slice(b"\n\n");
}
