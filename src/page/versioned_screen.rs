//! The part of a screen that a page needs.
//!
//! Each row has a number, larger than those of all rows that existed before it, in all sessions. An
//! unchanged row keeps its number, even if it has scrolled up. So a page that has seen everything up
//! to some number has all current rows with that number or a smaller one. We only need to remember one
//! number per page, however much it has missed.

use std::fmt::Write;

use crate::{
    json::{self, Object, Value},
    terminal::screen::{Ink, Screen, Span},
};

/// No larger a screen is shown; what is right of and below that is not.
const MOST_COLS: usize = 500;
const MOST_ROWS: usize = 200;

/// The most bytes of a row, and of a title. A longer row is shown without its styles: each cell may have one of its
/// own.
const LONGEST_ROW: usize = 16 * 1024;

/// The most scrollback that is sent at once.
const MOST_SCROLLBACK: usize = 2 << 20;

/// Gives numbers.
#[derive(Debug, Default)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    /// The largest one so far.
    pub(crate) fn last(&self) -> u64 {
        self.0
    }
}

/// The rows of a screen at some moment.
#[derive(Debug, Default)]
pub(crate) struct VersionedScreen {
    rows: Vec<Row>,
    head: Head,
    title: Option<String>,
    number: u64,
}

#[derive(Debug)]
struct Row {
    number: u64,
    json: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    cols: usize,
    // Those of the screen; there may be fewer in the frame.
    rows: usize,
    /// Row and column from 0, if the cursor is visible.
    cursor: Option<(usize, usize)>,
}

impl VersionedScreen {
    /// When it changed last.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Makes it what a screen shows now.
    pub(crate) fn take(&mut self, screen: &Screen, numbers: &mut Numbers) {
        let ((cols, rows), (row, col)) = (screen.size(), screen.cursor());
        let cursor = screen.has_visible_cursor().then_some((row - 1, col - 1));
        let fresh = screen.spans(0, MOST_COLS).take(MOST_ROWS).map(|spans| row_json(&spans)).collect();
        self.update(fresh, Head { cols, rows, cursor }, screen.title(), numbers);
    }

    fn update(&mut self, fresh: Vec<String>, head: Head, title: Option<&str>, numbers: &mut Numbers) {
        let same = fresh.len() == self.rows.len() && fresh.iter().zip(&self.rows).all(|(a, b)| *a == b.json);
        if same && head == self.head && title == self.title.as_deref() {
            return;
        }
        let shift = scrolled(&self.rows, &fresh);
        let before = std::mem::take(&mut self.rows);
        let number_of = |at: usize, json: &String| {
            let found = [at, at + shift].into_iter().filter_map(|at| before.get(at));
            found.into_iter().find(|row| row.json == *json).map(|row| row.number)
        };
        let rows = fresh.into_iter().enumerate().map(|(at, json)| {
            let number = number_of(at, &json).unwrap_or_else(|| numbers.next());
            Row { number, json }
        });
        self.rows = rows.collect();
        self.head = head;
        self.title = title.map(str::to_owned);
        self.number = numbers.next();
    }

    /// The title that its program has set.
    pub(crate) fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Makes it equal to another machine's [`VersionedScreen::object`], with its title; `theirs` are the numbers of
    /// its rows there, before and after. `None` if the object is invalid: it accepts only text and our own
    /// styles.
    pub(crate) fn take_told(
        &mut self,
        told: &Value,
        theirs: &mut Vec<u64>,
        numbers: &mut Numbers,
    ) -> Option<()> {
        let side =
            |value: &Value| value.as_u64().filter(|side| *side <= u16::MAX.into()).map(|side| side as usize);
        let cursor = match &told["cursor"] {
            Value::Null => None,
            place => Some((side(&place[0])?, side(&place[1])?)),
        };
        let head = Head { cols: side(&told["cols"])?.max(1), rows: side(&told["rows"])?.max(1), cursor };
        let at = told["at"].as_array()?.iter().take(MOST_ROWS);
        let at = at.map(Value::as_u64).collect::<Option<Vec<u64>>>()?;
        let row = |number: &u64| match told["fresh"].get(&number.to_string()) {
            Some(row) => row_told(row),
            None => Some(self.rows[theirs.iter().position(|before| before == number)?].json.clone()),
        };
        let fresh = at.iter().map(row).collect::<Option<Vec<String>>>()?;
        let title = told["title"].as_str().filter(|title| title.len() <= LONGEST_ROW);
        self.update(fresh, head, title, numbers);
        *theirs = at;
        Some(())
    }

    /// How much of it there is, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.rows.iter().map(|row| row.json.len()).sum::<usize>() + self.title.as_ref().map_or(0, String::len)
    }

    /// The object for a page that has seen everything up to that number.
    pub(crate) fn object(&self, seen: u64) -> Object {
        let Head { cols, rows, cursor } = self.head;
        let mut at = String::from("[");
        let mut fresh = String::from("{");
        for Row { number, json } in &self.rows {
            let comma = if at.len() > 1 { "," } else { "" };
            write!(at, "{comma}{number}").expect("a String takes all");
            if *number > seen {
                let comma = if fresh.len() > 1 { "," } else { "" };
                write!(fresh, "{comma}\"{number}\":{json}").expect("a String takes all");
            }
        }
        at.push(']');
        fresh.push('}');
        let cursor = cursor.map_or("null".to_owned(), |(row, col)| format!("[{row},{col}]"));
        Object::new()
            .number("cols", cols)
            .number("rows", rows)
            .json("cursor", &cursor)
            .json("at", &at)
            .json("fresh", &fresh)
    }
}

/// By how many rows what was there has moved up: the smallest number for which the first rows
/// are, and there is something to be seen in them.
fn scrolled(before: &[Row], now: &[String]) -> usize {
    let fits = |shift: &usize| {
        let pairs = || before[*shift..].iter().zip(now).take(2);
        pairs().all(|(old, new)| old.json == *new) && pairs().any(|(old, _)| old.json != "[]")
    };
    (1..before.len()).find(fits).unwrap_or(0)
}

/// The lines that have scrolled off, as a list of rows: the last of them, where that is much.
pub(crate) fn scrollback(screen: &Screen, lines: usize) -> String {
    let (_, rows) = screen.size();
    let mut all: Vec<String> = screen.spans(lines, MOST_COLS).map(|spans| row_json(&spans)).collect();
    all.truncate(all.len() - rows);
    let mut length = 0;
    let fits = |row: &&String| {
        length += row.len();
        length <= MOST_SCROLLBACK
    };
    let count = all.iter().rev().take_while(fits).count();
    format!("[{}]", all[all.len() - count..].join(","))
}

/// A list, of which a plain stretch is its text, and another one `[text, style]`,
/// `[text, style, cells]` or, with the address of a link and perhaps 0 cells, `[text, style, cells, link]`; a style is `foreground,background,bits,underline`, of which a colour is
/// nothing, a number, or `#rrggbb`, and the last one is left out if it is nothing.
fn row_json(spans: &[Span]) -> String {
    let list = spans.iter().map(span_json).collect::<Vec<String>>().join(",");
    if list.len() <= LONGEST_ROW {
        return format!("[{list}]");
    }
    let text: String = spans.iter().map(|span| &*span.text).collect();
    format!("[{}]", json::quoted(&text))
}

/// A row of plain stretches.
pub(crate) fn row_of_texts(texts: &[&str]) -> String {
    format!("[{}]", texts.iter().map(|text| json::quoted(text)).collect::<Vec<_>>().join(","))
}

/// A row as [`row_json`] makes it, received from another process.
fn row_told(row: &Value) -> Option<String> {
    let is_style = |style: &str| style.bytes().all(|byte| byte.is_ascii_hexdigit() || b"#,".contains(&byte));
    let is_span = |span: &Value| match span.as_array() {
        None => span.is_string(),
        Some([Value::String(_), Value::String(style), rest @ ..]) => {
            let is_width = |cells: &Value| cells.as_u64().is_some_and(|cells| cells <= MOST_COLS as u64);
            is_style(style)
                && match rest {
                    [cells, link] => is_width(cells) && link.is_string(),
                    _ => rest.iter().all(is_width),
                }
        }
        Some(_) => false,
    };
    let is_row = row.as_array()?.iter().all(is_span);
    is_row.then(|| json::value_with(row, &[])).filter(|row| row.len() <= 4 * LONGEST_ROW)
}

/// Rows as [`scrollback`] returns them, received from another process.
pub(crate) fn scrollback_told(rows: &Value) -> Option<String> {
    let rows = rows.as_array()?.iter().map(row_told).collect::<Option<Vec<String>>>()?;
    Some(format!("[{}]", rows.join(",")))
}

fn span_json(span: &Span) -> String {
    let text = json::quoted(&span.text);
    if span.is_plain() {
        return text;
    }
    let ink = |ink: Ink| match ink {
        Ink::Default => String::new(),
        Ink::Indexed(index) => index.to_string(),
        Ink::Rgb([red, green, blue]) => format!("#{red:02x}{green:02x}{blue:02x}"),
    };
    let underline = match span.underline {
        Ink::Default => String::new(),
        other => format!(",{}", ink(other)),
    };
    let style = format!("\"{},{},{}{underline}\"", ink(span.foreground), ink(span.background), span.style);
    match (&span.link, span.cells) {
        (Some(link), cells) => format!("[{text},{style},{},{}]", cells.unwrap_or(0), json::quoted(link)),
        (None, None) => format!("[{text},{style}]"),
        (None, Some(cells)) => format!("[{text},{style},{cells}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shown {
        screen: Screen,
        frame: VersionedScreen,
        numbers: Numbers,
    }

    impl Shown {
        fn new() -> Shown {
            Shown {
                screen: Screen::new(10, 4),
                frame: VersionedScreen::default(),
                numbers: Numbers::default(),
            }
        }

        /// The object after these bytes for a page that has seen everything before them.
        fn after(&mut self, bytes: &[u8]) -> String {
            let seen = self.numbers.last();
            self.screen.feed(bytes);
            self.frame.take(&self.screen, &mut self.numbers);
            if self.frame.number() > seen { self.frame.object(seen).value() } else { String::new() }
        }
    }

    #[test]
    fn only_rows_that_have_changed_are_told() {
        let mut shown = Shown::new();
        let first = shown.after(b"a\r\nb");
        assert_eq!(
            first,
            "{\"cols\":10,\"rows\":4,\"cursor\":[1,1],\"at\":[1,2,3,4],\
             \"fresh\":{\"1\":[\"a\"],\"2\":[\"b\"],\"3\":[],\"4\":[]}}"
        );
        assert_eq!(shown.after(b""), "");
        let second = shown.after(b"\r\n\x1b[31mc");
        assert!(second.ends_with("\"at\":[1,2,6,4],\"fresh\":{\"6\":[[\"c\",\"1,,0\"]]}}"), "{second}");
        // One line has scrolled off, and two have come.
        let scrolled = shown.after(b"\x1b[m\r\nd\r\ne");
        assert!(scrolled.contains("\"at\":[2,6,8,9]"), "{scrolled}");
        assert!(scrolled.ends_with("\"fresh\":{\"8\":[\"d\"],\"9\":[\"e\"]}}"), "{scrolled}");
        let moved = shown.after(b"\x1b[1;1H");
        assert!(moved.ends_with("\"cursor\":[0,0],\"at\":[2,6,8,9],\"fresh\":{}}"), "{moved}");
    }

    #[test]
    fn whoever_has_seen_a_number_can_draw_any_later_frame() {
        use std::collections::BTreeMap;
        let mut random = fastrand::Rng::with_seed(5);
        let mut shown = Shown::new();
        // The state of a page: the rows of the last frame that it received, and its number.
        let (mut seen, mut has): (u64, BTreeMap<u64, String>) = (0, BTreeMap::new());
        for _ in 0..2_000 {
            let text = ["\r\n", "x", "\x1b[H", "\x1b[2J", "line\r\n", "\x1b[3;2H", "\x1bM", "\x1b[L"];
            let bytes: String = (0..random.usize(1..6)).map(|_| text[random.usize(..text.len())]).collect();
            shown.screen.feed(bytes.as_bytes());
            shown.frame.take(&shown.screen, &mut shown.numbers);
            if random.bool() || shown.frame.number() <= seen {
                continue;
            }
            let fresh = shown.frame.rows.iter().filter(|row| row.number > seen);
            has.extend(fresh.map(|row| (row.number, row.json.clone())));
            for row in &shown.frame.rows {
                assert_eq!(has.get(&row.number), Some(&row.json));
            }
            has.retain(|number, _| shown.frame.rows.iter().any(|row| row.number == *number));
            seen = shown.numbers.last();
        }
    }

    #[test]
    fn links_are_told_with_their_addresses() {
        let mut shown = Shown::new();
        let row = r#"["a",["b",",,0",0,"https://x/?\"y"],["─",",,0",1,"https://x/?\"y"]]"#;
        let told = shown.after("a\x1b]8;;https://x/?\"y\x07b─".as_bytes());
        assert!(told.contains(row), "{told}");
        assert_eq!(row_told(&Value::parse(row.as_bytes()).unwrap()).as_deref(), Some(row));
        assert_eq!(row_told(&Value::parse(br#"[["b",",,0","https://x"]]"#).unwrap()), None);
    }

    #[test]
    fn remote_screens_are_bounded() {
        let at = "1,".repeat(100_000);
        let head = "{\"cols\":1,\"rows\":1,\"cursor\":null,\"fresh\":{\"1\":[\"a\"]}";
        let told = Value::parse(format!("{head},\"at\":[{at}1]}}").as_bytes()).unwrap();
        let (mut frame, mut theirs) = (VersionedScreen::default(), Vec::new());
        frame.take_told(&told, &mut theirs, &mut Numbers::default()).unwrap();
        assert_eq!((frame.rows.len(), theirs.len()), (MOST_ROWS, MOST_ROWS));
        assert!(theirs.capacity() < 2 * MOST_ROWS, "{}", theirs.capacity());
    }

    #[test]
    fn a_screen_of_any_size_and_colour_is_bounded() {
        let mut screen = Screen::new(2_000, 2_000);
        for cell in 0..100_000 {
            screen.feed(format!("\x1b[38;2;{};{};7m<", cell % 251, cell % 241).as_bytes());
        }
        let mut frame = VersionedScreen::default();
        frame.take(&screen, &mut Numbers::default());
        assert!(frame.object(0).value().len() < MOST_ROWS * (LONGEST_ROW + 10));
        assert_eq!(frame.rows.len(), MOST_ROWS);
        assert!(frame.rows[0].json.len() <= LONGEST_ROW);
    }
}
