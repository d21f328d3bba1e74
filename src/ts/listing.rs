//! Sessions in lines for a person: `list --long`, and the upper part of `top`.

use std::{cmp::Ordering, env, ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, time::SystemTime};

use crate::{
    session::{Activity, ActivityView, Name},
    sorted::Map,
    sys::term,
    terminal::{cells, text},
};

const TITLES: [&str; 6] = ["SESSION", "ACTIVITY", "SINCE", "PROGRAM", "DIRECTORY", "LAST LINE"];

/// The widest that a column but the last may be, in cells.
const WIDEST: [usize; 5] = [24, 8, 5, 15, 32];

/// With fewer cells than this, first the directory is omitted, then the program.
const ROOM_FOR_FOLDER: usize = 90;
const ROOM_FOR_PROGRAM: usize = 60;

/// Between two columns.
const GAP: usize = 2;

/// The widths of columns, for all lines.
pub(crate) struct Columns {
    widths: [usize; 5],
    /// How many cells a line may take; `None`: as many as it has.
    cells: Option<usize>,
    home: Option<Vec<u8>>,
    now: SystemTime,
}

/// In the order in which people look for them: first those that wait, then those that have failed or are
/// done, each with the longest first; then those that work, are idle, and are dead; the oldest first.
pub(crate) fn order(a: &ActivityView, b: &ActivityView) -> Ordering {
    let rank = |overview: &ActivityView| {
        overview.activity.map_or(4, |activity| match activity {
            Activity::Waiting => 0,
            Activity::Failed => 1,
            Activity::Done => 2,
            Activity::Working => 3,
            Activity::Idle => 5,
            Activity::Dead => 6,
        })
    };
    let so_since = |overview: &ActivityView| match overview.activity {
        Some(Activity::Waiting | Activity::Failed | Activity::Done) => overview.since,
        _ => None,
    };
    let key = |overview: &ActivityView| (rank(overview), so_since(overview), overview.glance.started);
    key(a).cmp(&key(b)).then_with(|| a.glance.handle.cmp(&b.glance.handle))
}

/// How a person names each of these: by its name, if that means this one among them, else
/// by its handle.
pub(crate) fn names(overviews: &[ActivityView]) -> Vec<String> {
    let mut meant = Map::new();
    let rank = |overview: &ActivityView| (overview.glance.alive, overview.glance.started);
    for (index, overview) in overviews.iter().enumerate() {
        if let Some(name) = overview.glance.name.as_ref().map(Name::as_str) {
            let best = meant.or_insert((&overview.machine, name), index);
            if rank(overview) > rank(&overviews[*best]) {
                *best = index;
            }
        }
    }
    let shown = |(index, overview): (usize, &ActivityView)| {
        let address = overview.address();
        match (&overview.glance.name, &overview.machine) {
            (Some(name), machine) if meant.get(&(machine, name.as_str())) == Some(&index) => match machine {
                Some(machine) => format!("{machine}:@{}", name.as_str()),
                None => format!("@{}", name.as_str()),
            },
            _ => address.to_string(),
        }
    };
    overviews.iter().enumerate().map(shown).collect()
}

/// The output of `list --long`. It is as wide as the terminal, if it is printed to one.
pub(crate) fn table(overviews: &[ActivityView]) -> String {
    let names = names(overviews);
    let cells = term::size().ok().flatten().map(|size| size.cols.into());
    let columns = Columns::of(overviews.iter().zip(&names), cells);
    let rows = overviews.iter().zip(&names).map(|(overview, name)| columns.row(overview, name));
    [columns.title()].into_iter().chain(rows).map(|line| line + "\n").collect()
}

impl Columns {
    /// The columns for these sessions and names, in lines of this many cells.
    pub(crate) fn of<'a>(
        overviews: impl Iterator<Item = (&'a ActivityView, &'a String)>,
        cells: Option<usize>,
    ) -> Columns {
        let home = env::var_os("HOME").map(|home| home.as_bytes().to_vec()).filter(|home| home.len() > 1);
        let mut columns = Columns { widths: [0; 5], cells, home, now: SystemTime::now() };
        let mut widths = TITLES.map(cells::width);
        for (overview, name) in overviews {
            for (width, field) in widths.iter_mut().zip(columns.fields(overview, name)) {
                *width = cells::width(&field).max(*width);
            }
        }
        columns.widths = std::array::from_fn(|column| widths[column].min(WIDEST[column]));
        let room = cells.unwrap_or(usize::MAX);
        if room < ROOM_FOR_FOLDER {
            columns.widths[4] = 0;
        }
        if room < ROOM_FOR_PROGRAM {
            columns.widths[3] = 0;
        }
        columns
    }

    /// At least as wide as before, so that a new table does not move the old columns.
    pub(crate) fn at_least(mut self, before: &Columns) -> Columns {
        if self.cells == before.cells {
            self.widths = std::array::from_fn(|column| self.widths[column].max(before.widths[column]));
        }
        self
    }

    pub(crate) fn title(&self) -> String {
        self.line(TITLES.map(str::to_owned))
    }

    pub(crate) fn row(&self, overview: &ActivityView, name: &str) -> String {
        self.line(self.fields(overview, name))
    }

    fn fields(&self, overview: &ActivityView, name: &str) -> [String; 6] {
        let program = overview.program.as_deref().map(text::escaped);
        let command = || overview.glance.command.clone();
        let stalled = overview.stalled.as_ref().map(|why| format!("stalled: {why}"));
        let line = stalled
            .or_else(|| overview.question.clone())
            .or_else(|| overview.said_in_words())
            .or_else(|| overview.last_line.clone());
        [
            name.to_owned(),
            overview.word().to_owned(),
            overview.age(self.now),
            program.unwrap_or_else(command),
            overview.folder.as_deref().map(|folder| self.folder(folder)).unwrap_or_else(|| "-".to_owned()),
            line.unwrap_or_default(),
        ]
    }

    /// A directory as a shell's prompt shows it; the end of it, if it is long.
    fn folder(&self, folder: &[u8]) -> String {
        let path = Path::new(OsStr::from_bytes(folder));
        let below = self.home.as_deref().and_then(|home| path.strip_prefix(OsStr::from_bytes(home)).ok());
        let shown = match below {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~/{}", text::escaped(rest.as_os_str().as_bytes())),
            None => text::escaped(folder),
        };
        let mut end = shown.as_str();
        while cells::width(end) >= WIDEST[4] {
            end = end.char_indices().nth(1).map_or("", |(at, _)| &end[at..]);
        }
        if end.len() == shown.len() { shown } else { format!("…{end}") }
    }

    fn line(&self, fields: [String; 6]) -> String {
        let mut line = String::new();
        let [first @ .., last] = fields;
        for (field, width) in first.iter().zip(self.widths).filter(|(_, width)| *width > 0) {
            line += &cells::fitted(field, width);
            line.extend([' '; GAP]);
        }
        line += &last;
        match self.cells {
            Some(cells) => cells::shortened(line.trim_end(), cells),
            None => line.trim_end().to_owned(),
        }
    }
}
