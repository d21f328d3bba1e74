//! The layout of `top`, in a terminal of any size, and drawing of the changes.
//!
//! Pure.

use crate::{
    session::{Activity, ActivityView, Address, CommandEntry, ReplyKind},
    terminal::{cells, screen::Screen},
    ts::listing::Columns,
    ts::top::model::{Mode, Model},
};

/// The content of a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopFrame {
    /// Each no wider than the terminal, with its colours, and none of them at its end.
    pub(crate) rows: Vec<String>,
    /// The position of the input: a row and a column, from 1.
    pub(crate) cursor: Option<(usize, usize)>,
}

/// The rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    cols: usize,
    summary: bool,
    titles: bool,
    pub(crate) list: usize,
    /// With the line above it.
    screen: usize,
    footer: bool,
}

impl Layout {
    /// The layout for this many sessions.
    pub(crate) fn of(cols: usize, rows: usize, sessions: usize) -> Layout {
        let (summary, titles, footer) = (rows >= 4, rows >= 6, rows >= 2);
        let rest = rows - [summary, titles, footer].into_iter().map(usize::from).sum::<usize>();
        // Fewer rows are useless for a screen.
        let list = if rest >= 8 { sessions.clamp(3, (rest * 2 / 5).max(3)) } else { rest };
        Layout { cols, summary, titles, list, screen: rest - list, footer }
    }

    pub(crate) fn has_screen(self) -> bool {
        self.screen > 1
    }
}

/// The visible state of the selected session.
pub(crate) struct Shown<'a> {
    pub(crate) screen: Option<&'a Screen>,
    /// The last of its shells, the newest first.
    pub(crate) commands: &'a [CommandEntry],
    pub(crate) colours: bool,
}

pub(crate) fn frame(
    model: &Model,
    layout: Layout,
    columns: &Columns,
    (window, selected): (&[Address], usize),
    shown: &Shown,
) -> TopFrame {
    let colours = shown.colours;
    let mut rows = Vec::new();
    if layout.summary {
        rows.push(summary(model, layout.cols, colours));
    }
    if layout.titles {
        rows.push(styled("4", &cells::fitted(&columns.title(), layout.cols)));
    }
    for index in 0..layout.list {
        let overview = window.get(index).and_then(|address| model.overview(address));
        rows.push(match overview {
            Some(overview) => row(model, columns, overview, index == selected, layout.cols, colours),
            None if index == 0 => nothing(model, layout.cols),
            None => String::new(),
        });
    }
    if layout.screen > 0 {
        let overview = window.get(selected).and_then(|address| model.overview(address));
        rows.push(rule(model, overview, layout.cols));
        let commands = command_rows(shown, layout);
        let left = layout.screen - 1 - commands.len();
        rows.extend(commands);
        rows.extend(screen_rows(shown, left, layout.cols));
    }
    let mut cursor = None;
    if layout.footer {
        let (footer, col) = footer(model, layout.cols);
        rows.push(footer);
        cursor = col.map(|col| (rows.len(), col));
    }
    TopFrame { rows, cursor }
}

/// The bytes that change a terminal from one frame to the other; none if they are equal. A terminal
/// that supports it shows them at once (DEC private mode 2026).
pub(crate) fn changes(before: &TopFrame, now: &TopFrame, cols: usize) -> String {
    if before == now {
        return String::new();
    }
    let mut text = "\x1b[?2026h\x1b[?25l".to_owned();
    for (index, row) in now.rows.iter().enumerate() {
        if before.rows.get(index) != Some(row) {
            text += &format!("\x1b[{};1H{row}", index + 1);
            // After the last column there is nothing to erase, and the cursor is on it.
            if width_of(row) < cols {
                text += "\x1b[K";
            }
        }
    }
    if let Some((row, col)) = now.cursor {
        text += &format!("\x1b[{row};{col}H\x1b[?25h");
    }
    text + "\x1b[?2026l"
}

fn width_of(row: &str) -> usize {
    let mut rest = row;
    let mut width = 0;
    while let Some(at) = rest.find('\x1b') {
        width += cells::width(&rest[..at]);
        rest = rest[at..].split_once('m').map_or("", |(_, rest)| rest);
    }
    width + cells::width(rest)
}

/// In a style (SGR), which ends with it.
fn styled(style: &str, text: &str) -> String {
    if style.is_empty() { text.to_owned() } else { format!("\x1b[{style}m{text}\x1b[0m") }
}

/// The colours, among eight, that are legible on light and on dark.
fn style(activity: Option<Activity>, colours: bool) -> &'static str {
    match (activity, colours) {
        (Some(Activity::Waiting), true) => "1;31",
        (Some(Activity::Waiting), false) => "1",
        (Some(Activity::Failed), true) => "31",
        (Some(Activity::Done), true) => "36",
        (Some(Activity::Working), true) => "32",
        (Some(Activity::Dead), _) => "2",
        _ => "",
    }
}

fn summary(model: &Model, cols: usize, colours: bool) -> String {
    let mut text = "nbs-ts top".to_owned();
    let mut parts = vec![styled("1", &text)];
    for (activity, count) in model.counts() {
        let part = format!("  {count} {}", activity.word());
        text += &part;
        let style =
            if count > 0 && activity == Activity::Waiting { style(Some(activity), colours) } else { "" };
        parts.push(styled(style, &part));
    }
    if !model.filter.is_empty() {
        let part = format!("  /{}", model.filter);
        text += &part;
        parts.push(part);
    }
    if cells::width(&text) <= cols { parts.concat() } else { cells::shortened(&text, cols) }
}

fn row(
    model: &Model,
    columns: &Columns,
    overview: &ActivityView,
    selected: bool,
    cols: usize,
    colours: bool,
) -> String {
    let text = columns.row(overview, &model.name(&overview.address()));
    let style = style(overview.activity, colours);
    match selected {
        true => styled(
            &format!("{style}{}7", if style.is_empty() { "" } else { ";" }),
            &cells::fitted(&text, cols),
        ),
        false => styled(style, &cells::shortened(&text, cols)),
    }
}

fn nothing(model: &Model, cols: usize) -> String {
    let text = match model.overviews.is_empty() {
        true => "no sessions; try nbs-ts create",
        false => "no session matches; Escape shows all",
    };
    styled("2", &cells::shortened(text, cols))
}

/// The line above the screen, with the session's name.
fn rule(model: &Model, overview: Option<&ActivityView>, cols: usize) -> String {
    let title = overview.map_or(String::new(), |overview| {
        let glance = &overview.glance;
        format!(" {} {} ", model.name(&overview.address()), glance.command)
    });
    let mut text = format!("──{}", cells::shortened(&title, cols.saturating_sub(4)));
    while cells::width(&text) < cols {
        text.push('─');
    }
    styled("2", &cells::shortened(&text, cols))
}

/// The last commands, the newest below, if there is room for the screen, too.
fn command_rows(shown: &Shown, layout: Layout) -> Vec<String> {
    let row = |entry: &CommandEntry| {
        let (took, code) = entry.outcome();
        let text = format!("{took:>7} {code:>3}  {}", entry.on_one_line());
        let style = match (entry.has_failed(), shown.colours) {
            (true, true) => "31",
            (true, false) => "1",
            _ => "2",
        };
        styled(style, &cells::shortened(&text, layout.cols))
    };
    let count = if layout.screen > ROOM_FOR_COMMANDS { MOST_COMMANDS.min(shown.commands.len()) } else { 0 };
    shown.commands[..count].iter().rev().map(row).collect()
}

/// How many commands are shown, where the screen has more rows than these.
pub(crate) const MOST_COMMANDS: usize = 3;
const ROOM_FOR_COMMANDS: usize = 12;

/// If a screen has more rows than fit, the rows down to the last one with text, or to the cursor.
fn screen_rows(shown: &Shown, rows: usize, cols: usize) -> Vec<String> {
    let Some(screen) = shown.screen else { return vec![String::new(); rows] };
    let lines = if shown.colours { screen.coloured_lines(0) } else { screen.lines(0) };
    let (cursor, _) = screen.cursor();
    let last = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    let first = last.max(cursor).saturating_sub(rows).min(cursor.saturating_sub(1));
    let lines = lines.iter().skip(first).map(|line| cells::clipped(line, cols));
    lines.chain(std::iter::repeat(String::new())).take(rows).collect()
}

const KEYS: &str = "Enter attach  a answer  n next waiting  / filter  x end  q quit";

/// The last row, and the column at which something is typed, if it is.
fn footer(model: &Model, cols: usize) -> (String, Option<usize>) {
    let typed = |before: &str, text: &str| {
        // Show the end of a long line.
        let room = cols.saturating_sub(cells::width(before) + 1);
        let mut end = text;
        while cells::width(end) > room {
            end = end.char_indices().nth(1).map_or("", |(at, _)| &end[at..]);
        }
        let line = format!("{before}{end}");
        let col = cells::width(&line).min(cols.saturating_sub(1)) + 1;
        (cells::shortened(&line, cols), Some(col))
    };
    match &model.mode {
        Mode::Filter => typed("/", &model.filter),
        Mode::Answer { address, wanted: ReplyKind::Secret, .. } => {
            typed(&format!("secret for {} (not shown): ", model.name(address)), "")
        }
        Mode::Answer { address, text, .. } => typed(&format!("answer {}: ", model.name(address)), text),
        Mode::End { address } => {
            let alive = model.overview(address).is_some_and(|overview| overview.glance.alive);
            let what = if alive { "end" } else { "remove" };
            let question = format!("{what} {}? y, or any other key for no", model.name(address));
            (styled("1", &cells::shortened(&question, cols)), None)
        }
        Mode::List => match &model.message {
            Some(message) => (styled("1", &cells::shortened(message, cols)), None),
            None => (styled("2", &cells::shortened(KEYS, cols)), None),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Handle, ListEntry, client::ReportedState};
    use std::time::UNIX_EPOCH;

    fn overview(number: u32, command: &str) -> ActivityView {
        let glance = ListEntry {
            handle: Handle::parse(format!("{number:08x}").as_bytes()).unwrap(),
            alive: true,
            name: None,
            command: command.into(),
            started: Some(UNIX_EPOCH),
        };
        let mut overview = ActivityView::brief(glance, ReportedState::Nothing);
        overview.activity = Some([Activity::Waiting, Activity::Working, Activity::Dead][number as usize % 3]);
        overview.question = Some("漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字?".into());
        overview
    }

    fn drawn(model: &mut Model, screen: &Screen, cols: usize, rows: usize, colours: bool) -> TopFrame {
        let layout = Layout::of(cols, rows, model.shown().len());
        let (window, selected) = model.in_window(layout.list);
        let names: Vec<String> = window.iter().map(|address| model.name(address)).collect();
        let overviews = window.iter().filter_map(|address| model.overview(address));
        let columns = Columns::of(overviews.zip(&names), Some(cols));
        let shown = Shown { screen: Some(screen), commands: &[], colours };
        frame(model, layout, &columns, (&window, selected), &shown)
    }

    #[test]
    fn the_frame_fits_into_every_terminal() {
        let mut screen = Screen::showing(80, 24, "\x1b[31mred 漢字\r\n\x1b[7m".as_bytes());
        screen.feed(&b"x".repeat(80 * 24));
        for sessions in [0, 1, 40] {
            let mut model = Model::default();
            model.put((0..sessions).map(|number| overview(number, "vim a\u{301}漢")).collect());
            model.filter = "v".into();
            for mode in [Mode::List, Mode::Filter] {
                model.mode = mode;
                for cols in [1, 2, 3, 7, 40, 80, 300] {
                    for rows in [1, 2, 3, 4, 5, 6, 7, 10, 11, 24, 100] {
                        let frame = drawn(&mut model, &screen, cols, rows, true);
                        assert_eq!(frame.rows.len(), rows, "{cols}x{rows}");
                        let wide = frame.rows.iter().find(|row| width_of(row) > cols);
                        assert_eq!(wide, None, "{cols}x{rows}");
                        let at = frame.cursor.unwrap_or((1, 1));
                        assert!(at.0 <= rows && at.1 <= cols, "{cols}x{rows}: {at:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn unchanged_rows_are_not_redrawn() {
        let screen = Screen::new(80, 24);
        let mut model = Model::default();
        model.put((0..5).map(|number| overview(number, "bash")).collect());
        let before = drawn(&mut model, &screen, 80, 24, true);
        assert_eq!(changes(&before, &before, 80), "");
        model.message = Some("hello".into());
        let now = drawn(&mut model, &screen, 80, 24, true);
        assert_eq!(
            changes(&before, &now, 80),
            "\x1b[?2026h\x1b[?25l\x1b[24;1H\x1b[1mhello\x1b[0m\x1b[K\x1b[?2026l"
        );
        // Drawing the changes has the same result as drawing everything.
        let mut followed = Screen::showing(80, 24, changes(&TopFrame::default(), &before, 80).as_bytes());
        followed.feed(changes(&before, &now, 80).as_bytes());
        let redrawn = Screen::showing(80, 24, changes(&TopFrame::default(), &now, 80).as_bytes());
        assert_eq!(followed.coloured_lines(0), redrawn.coloured_lines(0));
    }

    #[test]
    fn without_colours_there_are_none() {
        let screen = Screen::showing(80, 24, b"\x1b[31mred");
        let mut model = Model::default();
        model.put((0..5).map(|number| overview(number, "bash")).collect());
        let frame = drawn(&mut model, &screen, 80, 24, false);
        let sequences: Vec<&str> = frame.rows.iter().flat_map(|row| row.split('\x1b').skip(1)).collect();
        for sequence in sequences {
            let style = sequence.strip_prefix('[').unwrap().split('m').next().unwrap();
            assert!(style.split(';').all(|code| ["0", "1", "2", "4", "7"].contains(&code)), "{style}");
        }
    }
}
