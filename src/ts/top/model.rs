//! What `top` shows, and what its keys do. Pure: what is to be done, who has it does.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    session::{Activity, Handle, Overview},
    ts::listing,
    ts::top::keys::Key,
};

/// What the keys go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    List,
    /// A text that the sessions shown have in them.
    Filter,
    /// A line for that session to read; `secret`: which nobody is to see.
    Answer { handle: Handle, text: String, secret: bool },
    /// It is asked whether that session is to be ended, or removed.
    End { handle: Handle },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Nothing,
    Quit,
    Redraw,
    Attach(Handle),
    Answer {
        handle: Handle,
        text: String,
        secret: bool,
    },
    /// To be ended, or, of a dead one, removed.
    End {
        handle: Handle,
        alive: bool,
    },
}

#[derive(Default)]
pub(crate) struct Model {
    /// In the order in which they are shown.
    pub(crate) overviews: Vec<Overview>,
    /// How people name them.
    names: BTreeMap<Handle, String>,
    /// Those of which not all is known that is shown.
    pub(crate) stale: BTreeSet<Handle>,
    pub(crate) mode: Mode,
    pub(crate) filter: String,
    /// For the person, until the next key.
    pub(crate) message: Option<String>,
    selected: Option<Handle>,
    /// Nobody has seen it yet: the first is selected, whichever that comes to be.
    pub(crate) is_new: bool,
    // Where it stands among those that are shown, for when it goes.
    place: usize,
    // The first of those in the window, and how many rows that has.
    first: usize,
    window: usize,
}

/// How long a line may be that is typed here, in characters.
const LONGEST_LINE: usize = 2_000;

impl Model {
    pub(crate) fn new() -> Model {
        Model { is_new: true, ..Model::default() }
    }

    pub(crate) fn name(&self, handle: &Handle) -> String {
        self.names.get(handle).cloned().unwrap_or_else(|| handle.as_str().to_owned())
    }

    /// Takes these in, in place of those of the same handles.
    pub(crate) fn put(&mut self, overviews: Vec<Overview>) {
        let new: BTreeSet<Handle> = overviews.iter().map(|overview| overview.glance.handle.clone()).collect();
        self.overviews.retain(|overview| !new.contains(&overview.glance.handle));
        self.overviews.extend(overviews);
        self.overviews.sort_by(listing::order);
        self.stale.extend(new);
        self.name_all();
    }

    pub(crate) fn remove(&mut self, handle: &Handle) {
        self.overviews.retain(|overview| overview.glance.handle != *handle);
        self.stale.remove(handle);
        self.name_all();
    }

    fn name_all(&mut self) {
        let handles = self.overviews.iter().map(|overview| overview.glance.handle.clone());
        self.names = handles.zip(listing::names(&self.overviews)).collect();
    }

    pub(crate) fn overview(&self, handle: &Handle) -> Option<&Overview> {
        self.overviews.iter().find(|overview| overview.glance.handle == *handle)
    }

    pub(crate) fn overview_mut(&mut self, handle: &Handle) -> Option<&mut Overview> {
        self.overviews.iter_mut().find(|overview| overview.glance.handle == *handle)
    }

    /// Those that the filter lets through.
    pub(crate) fn shown(&self) -> Vec<&Overview> {
        let text = self.filter.to_lowercase();
        let has_it = |overview: &&Overview| {
            let glance = &overview.glance;
            text.is_empty()
                || self.name(&glance.handle).to_lowercase().contains(&text)
                || glance.handle.as_str().contains(&text)
                || overview.word().contains(&text)
                || glance.command.to_lowercase().contains(&text)
        };
        self.overviews.iter().filter(has_it).collect()
    }

    /// Has the list a window of so many rows; gives those in it, and which of them is
    /// selected. One always is, if there is any.
    pub(crate) fn in_window(&mut self, rows: usize) -> (Vec<Handle>, usize) {
        let handles: Vec<Handle> =
            self.shown().into_iter().map(|overview| overview.glance.handle.clone()).collect();
        let found =
            self.selected.as_ref().and_then(|selected| handles.iter().position(|each| each == selected));
        let place = if self.is_new { 0 } else { found.unwrap_or(self.place) };
        self.place = place.min(handles.len().saturating_sub(1));
        self.selected = handles.get(self.place).cloned();
        self.window = rows.max(1);
        self.first = self.first.clamp((self.place + 1).saturating_sub(self.window), self.place);
        self.first = self.first.min(handles.len().saturating_sub(self.window));
        let window = handles.into_iter().skip(self.first).take(self.window).collect();
        (window, self.place - self.first)
    }

    pub(crate) fn selected(&self) -> Option<&Handle> {
        self.selected.as_ref()
    }

    /// How many of them do what.
    pub(crate) fn counts(&self) -> [(Activity, usize); 4] {
        [Activity::Waiting, Activity::Working, Activity::Idle, Activity::Dead].map(|activity| {
            let count = self.overviews.iter().filter(|overview| overview.activity == Some(activity)).count();
            (activity, count)
        })
    }

    pub(crate) fn press(&mut self, key: Key) -> Act {
        (self.message, self.is_new) = (None, false);
        if key == Key::Redraw {
            return Act::Redraw;
        }
        match &mut self.mode {
            Mode::List => self.press_in_list(key),
            Mode::Filter => {
                match key {
                    Key::Enter => self.mode = Mode::List,
                    Key::Escape | Key::Interrupt => {
                        self.filter.clear();
                        self.mode = Mode::List;
                    }
                    other => edit(&mut self.filter, other),
                }
                Act::Nothing
            }
            Mode::Answer { handle, text, secret } => match key {
                Key::Enter => {
                    let (handle, text, secret) = (handle.clone(), std::mem::take(text), *secret);
                    self.mode = Mode::List;
                    Act::Answer { handle, text, secret }
                }
                Key::Escape | Key::Interrupt => {
                    self.mode = Mode::List;
                    Act::Nothing
                }
                other => {
                    edit(text, other);
                    Act::Nothing
                }
            },
            Mode::End { handle } => {
                let handle = handle.clone();
                self.mode = Mode::List;
                match self.overview(&handle) {
                    Some(overview) if matches!(key, Key::Text('y' | 'Y')) => {
                        Act::End { alive: overview.glance.alive, handle }
                    }
                    _ => Act::Nothing,
                }
            }
        }
    }

    fn press_in_list(&mut self, key: Key) -> Act {
        let page = self.window.saturating_sub(1).max(1);
        match key {
            Key::Up | Key::Text('k') => self.go(self.place.saturating_sub(1)),
            Key::Down | Key::Text('j') => self.go(self.place + 1),
            Key::PageUp => self.go(self.place.saturating_sub(page)),
            Key::PageDown => self.go(self.place + page),
            Key::Home | Key::Text('g') => self.go(0),
            Key::End | Key::Text('G') => self.go(usize::MAX),
            Key::Text('n') => self.go_to_next_waiting(),
            Key::Text('/') => self.mode = Mode::Filter,
            Key::Escape => self.filter.clear(),
            Key::Text('q') | Key::Interrupt => return Act::Quit,
            Key::Enter => return self.of_live(|overview| Act::Attach(overview.glance.handle.clone())),
            Key::Text('a') => {
                let handle = |overview: &Overview| Mode::Answer {
                    handle: overview.glance.handle.clone(),
                    text: String::new(),
                    secret: overview.terminal() == Some(b"secret"),
                };
                let mut mode = None;
                self.of_live(|overview| {
                    mode = Some(handle(overview));
                    Act::Nothing
                });
                self.mode = mode.unwrap_or_default();
            }
            Key::Text('x') => {
                if let Some(handle) = self.selected.clone() {
                    self.mode = Mode::End { handle };
                }
            }
            _ => {}
        }
        Act::Nothing
    }

    fn of_live(&mut self, act: impl FnOnce(&Overview) -> Act) -> Act {
        let Some(handle) = self.selected.clone() else { return Act::Nothing };
        match self.overview(&handle) {
            Some(overview) if overview.glance.alive => act(overview),
            _ => {
                self.message = Some(format!("{} has ended", self.name(&handle)));
                Act::Nothing
            }
        }
    }

    fn go(&mut self, place: usize) {
        let shown = self.shown();
        let place = place.min(shown.len().saturating_sub(1));
        let selected = shown.get(place).map(|overview| overview.glance.handle.clone());
        (self.place, self.selected) = (place, selected);
    }

    /// To the next after the one selected, and after the last to the first.
    fn go_to_next_waiting(&mut self) {
        let shown = self.shown();
        let waits = |place: &usize| shown[*place].activity == Some(Activity::Waiting);
        let after = (self.place + 1..shown.len()).chain(0..shown.len().min(self.place + 1)).find(waits);
        match after {
            Some(place) => self.go(place),
            None => self.message = Some("no session waits for anybody".into()),
        }
    }
}

fn edit(text: &mut String, key: Key) {
    match key {
        Key::Text(character) if text.chars().count() < LONGEST_LINE => text.push(character),
        Key::Backspace => drop(text.pop()),
        Key::Erase => text.clear(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Glance, client::ToldStanding};
    use std::time::{Duration, UNIX_EPOCH};

    fn handle(number: u32) -> Handle {
        Handle::parse(format!("{number:08x}").as_bytes()).unwrap()
    }

    fn overview(number: u32, activity: Activity) -> Overview {
        let glance = Glance {
            handle: handle(number),
            alive: activity != Activity::Dead,
            name: None,
            command: format!("command {number}"),
            started: Some(UNIX_EPOCH + Duration::from_secs(number.into())),
        };
        let mut overview = Overview::brief(glance, ToldStanding::Nothing);
        overview.activity = Some(activity);
        overview
    }

    /// 1 and 4 wait, 2 works, 3 is idle, 5 is dead.
    fn model() -> Model {
        use Activity::{Dead, Idle, Waiting, Working};
        let mut model = Model::default();
        let all = [(1, Waiting), (2, Working), (3, Idle), (4, Waiting), (5, Dead)];
        model.put(all.map(|(number, activity)| overview(number, activity)).into());
        model.in_window(10);
        model
    }

    fn press(model: &mut Model, keys: &str) -> Act {
        let mut act = Act::Nothing;
        for key in keys.chars() {
            act = model.press(match key {
                '\r' => Key::Enter,
                '\x1b' => Key::Escape,
                other => Key::Text(other),
            });
            model.in_window(10);
        }
        act
    }

    #[test]
    fn the_keys_go_through_the_list_which_has_those_that_wait_first() {
        let mut model = model();
        for (keys, expected) in [
            ("", 1),
            ("j", 4),
            ("j", 2),
            ("jjjj", 5),
            ("k", 3),
            ("g", 1),
            ("n", 4),
            ("n", 1),
            ("G", 5),
            ("n", 1),
        ] {
            press(&mut model, keys);
            assert_eq!(model.selected(), Some(&handle(expected)), "{keys}");
        }
        assert_eq!(press(&mut model, "\r"), Act::Attach(handle(1)));
        assert_eq!(press(&mut model, "G\r"), Act::Nothing);
        assert_eq!(model.message.as_deref(), Some("00000005 has ended"));
        assert_eq!(press(&mut model, "q"), Act::Quit);
    }

    #[test]
    fn what_comes_first_is_selected_until_somebody_has_seen_it() {
        let mut model = Model::new();
        model.put(vec![overview(5, Activity::Dead)]);
        model.in_window(10);
        model.put(vec![overview(1, Activity::Waiting)]);
        assert_eq!(model.in_window(10).1, 0);
        assert_eq!(model.selected(), Some(&handle(1)));
        model.is_new = false;
        model.put(vec![overview(0, Activity::Waiting)]);
        assert_eq!(model.in_window(10).1, 1);
        assert_eq!(model.selected(), Some(&handle(1)));
    }

    #[test]
    fn what_is_selected_stays_so_wherever_it_goes_and_when_it_goes_another_is() {
        let mut model = model();
        press(&mut model, "jj");
        assert_eq!(model.selected(), Some(&handle(2)));
        model.put(vec![overview(2, Activity::Dead)]);
        assert_eq!(model.in_window(2), (vec![handle(3), handle(2)], 1));
        model.remove(&handle(2));
        assert_eq!(model.in_window(2), (vec![handle(3), handle(5)], 1));
        for number in 1..=5 {
            model.remove(&handle(number));
            model.in_window(1);
        }
        assert_eq!(model.in_window(3), (vec![], 0));
        assert_eq!(press(&mut model, "jkngG\rax"), Act::Nothing);
        assert_eq!(model.mode, Mode::List);
    }

    #[test]
    fn an_answer_is_a_line_for_the_session_that_was_selected_then() {
        let mut model = model();
        press(&mut model, "aye");
        model.put(vec![overview(9, Activity::Waiting)]);
        model.remove(&handle(1));
        model.press(Key::Backspace);
        model.press(Key::Text('q'));
        let answer = Act::Answer { handle: handle(1), text: "yq".into(), secret: false };
        assert_eq!(press(&mut model, "\r"), answer);
        assert_eq!((press(&mut model, "ax\x1b"), &model.mode), (Act::Nothing, &Mode::List));
    }

    #[test]
    fn nothing_is_ended_unasked() {
        let mut model = model();
        for no in ["xn", "x\r", "x\x1b", "xx"] {
            assert_eq!(press(&mut model, no), Act::Nothing, "{no:?}");
            model.mode = Mode::List;
        }
        assert_eq!(press(&mut model, "xy"), Act::End { handle: handle(1), alive: true });
        assert_eq!(press(&mut model, "Gxy"), Act::End { handle: handle(5), alive: false });
        press(&mut model, "x");
        model.remove(&handle(5));
        assert_eq!(press(&mut model, "y"), Act::Nothing);
    }

    #[test]
    fn the_filter_shows_what_has_it_and_selects_among_that() {
        let mut model = model();
        press(&mut model, "/Command 3\r");
        assert_eq!(model.in_window(9), (vec![handle(3)], 0));
        assert_eq!(press(&mut model, "nq"), Act::Quit);
        press(&mut model, "/zzz\r");
        assert_eq!(model.in_window(9), (vec![], 0));
        press(&mut model, "\x1b");
        assert_eq!(model.in_window(9).0.len(), 5);
    }
}
