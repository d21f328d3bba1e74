//! Printing a screen: `screen` and `render`.

use crate::{
    cli::{self, Args},
    json::Object,
    outcome::{Failure, Result},
    terminal::screen::Screen,
};

/// How a screen is printed.
#[derive(Default)]
pub(crate) struct ScreenForm {
    colours: bool,
    svg: bool,
    scrollback: usize,
}

impl ScreenForm {
    /// Takes an option and its value; `false` if it is none of ours.
    pub(crate) fn take(&mut self, option: &str, args: &mut Args) -> Result<bool> {
        match option {
            "ansi" => self.colours = true,
            "svg" => self.svg = true,
            "scrollback" => {
                self.scrollback = usize::try_from(args.number_value("scrollback")?).unwrap_or(usize::MAX);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// One form only; to be called when all options are read.
    pub(crate) fn check(&self, json: bool) -> Result<()> {
        if self.svg && (self.colours || json) {
            return Err(Failure::bad_args("--svg excludes --ansi and --json".into()));
        }
        Ok(())
    }

    pub(crate) fn print(&self, screen: &Screen, json: bool) -> Result<()> {
        if self.svg {
            return cli::print(screen.svg(self.scrollback));
        }
        let lines =
            if self.colours { screen.coloured_lines(self.scrollback) } else { screen.lines(self.scrollback) };
        if json {
            return cli::print(described(screen, lines).line());
        }
        let mut text = lines.join("\n");
        text.push('\n');
        cli::print(text)
    }
}

fn described(screen: &Screen, lines: Vec<String>) -> Object {
    let number = |side: usize| i64::try_from(side).unwrap_or(i64::MAX);
    let ((cols, rows), (row, col)) = (screen.size(), screen.cursor());
    let lines: Vec<Vec<u8>> = lines.into_iter().map(String::into_bytes).collect();
    let size = Object::new().number("cols", number(cols)).number("rows", number(rows));
    let cursor = Object::new()
        .number("row", number(row))
        .number("col", number(col))
        .truth("visible", screen.has_visible_cursor());
    Object::new()
        .object_or_null("size", Some(size))
        .object_or_null("cursor", Some(cursor))
        .bytes_or_null("title", screen.title().map(str::as_bytes))
        .truth("alternate", screen.is_alternate())
        .list("lines", &lines)
}
