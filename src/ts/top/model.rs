//! The state of `top`, and its reaction to keys. Pure: the caller performs the actions.

use crate::{
    session::{Activity, ActivityView, Address, ReplyKind},
    sorted::{Map, Set},
    ts::listing,
    ts::top::keys::Key,
};

/// The target of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    List,
    /// A text that the sessions shown have in them.
    Filter,
    /// A line for that session to read.
    Answer { address: Address, text: String, wanted: ReplyKind },
    /// It is asked whether that session is to be ended, or removed.
    End { address: Address },
}

/// The action for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Nothing,
    Quit,
    Redraw,
    Attach(Address),
    Answer {
        address: Address,
        text: String,
        wanted: ReplyKind,
    },
    /// To be ended, or, of a dead one, removed.
    End {
        address: Address,
        alive: bool,
    },
}

#[derive(Default)]
pub(crate) struct Model {
    /// In the order in which they are shown.
    pub(crate) overviews: Vec<ActivityView>,
    /// How people name them.
    names: Map<Address, String>,
    /// The sessions of which some shown data is missing.
    pub(crate) stale: Set<Address>,
    pub(crate) mode: Mode,
    pub(crate) filter: String,
    /// For the person, until the next key.
    pub(crate) message: Option<String>,
    selected: Option<Address>,
    /// Nothing was drawn yet: the first session is selected, whichever it is.
    pub(crate) is_new: bool,
    // The index of the selected session, for when it is removed.
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

    pub(crate) fn name(&self, address: &Address) -> String {
        self.names.get(address).cloned().unwrap_or_else(|| address.to_string())
    }

    /// Adds these, and replaces those of the same addresses; of several of one address, the last counts.
    pub(crate) fn put(&mut self, overviews: Vec<ActivityView>) {
        let (count, mut same) = (self.overviews.len(), true);
        let mut new = Set::new();
        let mut last = Vec::new();
        for overview in overviews.into_iter().rev() {
            if new.insert(overview.address()) {
                let before = self.overview(&overview.address());
                same &= before.is_some_and(|before| before.glance.alive == overview.glance.alive);
                last.push(overview);
            }
        }
        self.overviews.retain(|before| !new.contains(&before.address()));
        self.stale.extend(new);
        self.overviews.append(&mut last);
        self.overviews.sort_by(listing::order);
        // A name means the newest that is alive.
        if !same || self.overviews.len() != count {
            self.name_all();
        }
    }

    pub(crate) fn remove(&mut self, addresses: &[Address]) {
        if addresses.is_empty() {
            return;
        }
        let gone: Set<Address> = addresses.iter().cloned().collect();
        self.overviews.retain(|overview| !gone.contains(&overview.address()));
        self.stale.retain(|address| !gone.contains(address));
        self.name_all();
    }

    /// The activity of another machine's sessions is unknown from now on.
    pub(crate) fn forget(&mut self, machine: &str) {
        for overview in self.overviews.iter_mut().filter(|one| one.machine.as_deref() == Some(machine)) {
            if overview.glance.alive {
                (overview.activity, overview.report) = (None, None);
            }
        }
        self.overviews.sort_by(listing::order);
    }

    fn name_all(&mut self) {
        let addresses = self.overviews.iter().map(ActivityView::address);
        self.names = addresses.zip(listing::names(&self.overviews)).collect();
    }

    pub(crate) fn overview(&self, address: &Address) -> Option<&ActivityView> {
        self.overviews.iter().find(|overview| overview.key() == address.key())
    }

    pub(crate) fn overview_mut(&mut self, address: &Address) -> Option<&mut ActivityView> {
        self.overviews.iter_mut().find(|overview| overview.key() == address.key())
    }

    /// The sessions that match the filter.
    pub(crate) fn shown(&self) -> Vec<&ActivityView> {
        let text = lower(&self.filter);
        let has_it = |overview: &&ActivityView| {
            let glance = &overview.glance;
            text.is_empty()
                || lower(&self.name(&overview.address())).contains(&text)
                || glance.handle.as_str().contains(&text)
                || overview.word().contains(&text)
                || lower(&glance.command).contains(&text)
        };
        self.overviews.iter().filter(has_it).collect()
    }

    /// Scrolls the list to a window of this many rows; returns those in it, and the index of the
    /// selected one. One is always selected, if there is any.
    pub(crate) fn in_window(&mut self, rows: usize) -> (Vec<Address>, usize) {
        let shown = self.shown();
        let is_selected = |overview: &&ActivityView| {
            self.selected.as_ref().is_some_and(|selected| selected.key() == overview.key())
        };
        let (found, count) = (shown.iter().position(is_selected), shown.len());
        let place = if self.is_new { 0 } else { found.unwrap_or(self.place) };
        let (place, rows) = (place.min(count.saturating_sub(1)), rows.max(1));
        let first = self.first.clamp((place + 1).saturating_sub(rows), place);
        let first = first.min(count.saturating_sub(rows));
        let window: Vec<Address> =
            shown.iter().skip(first).take(rows).map(|overview| overview.address()).collect();
        (self.place, self.first, self.window) = (place, first, rows);
        self.selected = window.get(place - first).cloned();
        (window, place - first)
    }

    pub(crate) fn selected(&self) -> Option<&Address> {
        self.selected.as_ref()
    }

    /// The number of sessions by activity; activities that only some programs report only if there are any.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Activity, usize)> {
        use Activity::{Dead, Done, Failed, Idle, Waiting, Working};
        let count = |activity| self.overviews.iter().filter(|one| one.activity == Some(activity)).count();
        let counts = [Waiting, Failed, Done, Working, Idle, Dead].map(|activity| (activity, count(activity)));
        counts.into_iter().filter(|(activity, count)| *count > 0 || !activity.is_over())
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
            Mode::Answer { address, text, wanted } => match key {
                Key::Enter => {
                    let (address, text, wanted) = (address.clone(), std::mem::take(text), wanted.clone());
                    self.mode = Mode::List;
                    Act::Answer { address, text, wanted }
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
            Mode::End { address } => {
                let address = address.clone();
                self.mode = Mode::List;
                match self.overview(&address) {
                    Some(overview) if matches!(key, Key::Text('y' | 'Y')) => {
                        Act::End { alive: overview.glance.alive, address }
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
            Key::Enter => return self.of_live(|overview| Act::Attach(overview.address())),
            Key::Text('a') => {
                let address = |overview: &ActivityView| Mode::Answer {
                    address: overview.address(),
                    text: String::new(),
                    wanted: overview.wanted(),
                };
                let mut mode = None;
                self.of_live(|overview| {
                    mode = Some(address(overview));
                    Act::Nothing
                });
                self.mode = mode.unwrap_or_default();
            }
            Key::Text('x') => {
                if let Some(address) = self.selected.clone() {
                    self.mode = Mode::End { address };
                }
            }
            _ => {}
        }
        Act::Nothing
    }

    fn of_live(&mut self, act: impl FnOnce(&ActivityView) -> Act) -> Act {
        let Some(address) = self.selected.clone() else { return Act::Nothing };
        match self.overview(&address) {
            Some(overview) if overview.glance.alive => act(overview),
            _ => {
                self.message = Some(format!("{} has ended", self.name(&address)));
                Act::Nothing
            }
        }
    }

    fn go(&mut self, place: usize) {
        let shown = self.shown();
        let place = place.min(shown.len().saturating_sub(1));
        let selected = shown.get(place).map(|overview| overview.address());
        (self.place, self.selected) = (place, selected);
    }

    /// To the next after the one selected, and after the last to the first.
    fn go_to_next_waiting(&mut self) {
        let shown = self.shown();
        let waits = |place: &usize| shown[*place].activity == Some(Activity::Waiting);
        let after = (self.place + 1..shown.len()).chain(0..shown.len().min(self.place + 1)).find(waits);
        match after {
            Some(place) => self.go(place),
            None => self.message = Some("no session waits for input".into()),
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

/// As one is found whichever way it is typed.
fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Handle, ListEntry, client::ReportedState};
    use std::time::{Duration, UNIX_EPOCH};

    fn handle(number: u32) -> Address {
        let handle = Handle::parse(format!("{number:08x}").as_bytes()).unwrap();
        Address { machine: None, handle }
    }

    fn overview(number: u32, activity: Activity) -> ActivityView {
        let glance = ListEntry {
            handle: handle(number).handle,
            alive: activity != Activity::Dead,
            name: None,
            command: format!("command {number}"),
            started: Some(UNIX_EPOCH + Duration::from_secs(number.into())),
        };
        let mut overview = ActivityView::brief(glance, ReportedState::Nothing);
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
    fn the_first_session_is_selected_until_a_frame_is_drawn() {
        let mut model = Model::new();
        model.put(vec![overview(5, Activity::Dead)]);
        model.in_window(10);
        model.put(vec![overview(1, Activity::Working), overview(1, Activity::Waiting)]);
        assert_eq!(model.in_window(10), (vec![handle(1), handle(5)], 0));
        assert_eq!(model.selected(), Some(&handle(1)));
        model.is_new = false;
        model.put(vec![overview(0, Activity::Waiting)]);
        assert_eq!(model.in_window(10).1, 1);
        assert_eq!(model.selected(), Some(&handle(1)));
    }

    #[test]
    fn the_selection_follows_its_session_until_that_is_removed() {
        let mut model = model();
        press(&mut model, "jj");
        assert_eq!(model.selected(), Some(&handle(2)));
        model.put(vec![overview(2, Activity::Dead)]);
        assert_eq!(model.in_window(2), (vec![handle(3), handle(2)], 1));
        model.remove(&[handle(2)]);
        assert_eq!(model.in_window(2), (vec![handle(3), handle(5)], 1));
        for number in 1..=5 {
            model.remove(&[handle(number)]);
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
        model.remove(&[handle(1)]);
        model.press(Key::Backspace);
        model.press(Key::Text('q'));
        let answer = Act::Answer { address: handle(1), text: "yq".into(), wanted: ReplyKind::Answer(None) };
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
        assert_eq!(press(&mut model, "xy"), Act::End { address: handle(1), alive: true });
        assert_eq!(press(&mut model, "Gxy"), Act::End { address: handle(5), alive: false });
        press(&mut model, "x");
        model.remove(&[handle(5)]);
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
