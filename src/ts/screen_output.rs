//! Printing a screen: `screen` and `render`.

use crate::{call::CommandLine, cli, json::Object, outcome::Result, terminal::screen::Screen};

/// How a screen is printed.
pub(crate) struct ScreenForm {
    colours: bool,
    svg: bool,
    png: bool,
    scrollback: usize,
}

impl ScreenForm {
    pub(crate) fn given(call: &CommandLine) -> Result<ScreenForm> {
        let scrollback = call.optional("scrollback", cli::number)?.unwrap_or(0);
        let scrollback = usize::try_from(scrollback).unwrap_or(usize::MAX);
        Ok(ScreenForm { colours: call.has("ansi"), svg: call.has("svg"), png: call.has("png"), scrollback })
    }

    pub(crate) fn print(&self, screen: &Screen, json: bool) -> Result<()> {
        if self.svg {
            return cli::print(screen.svg(self.scrollback));
        }
        if self.png {
            return cli::print(screen.png(self.scrollback));
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
    let ((cols, rows), (row, col)) = (screen.size(), screen.cursor());
    let lines: Vec<Vec<u8>> = lines.into_iter().map(String::into_bytes).collect();
    let size = Object::new().number("cols", cols).number("rows", rows);
    let cursor =
        Object::new().number("row", row).number("col", col).truth("visible", screen.has_visible_cursor());
    let links = screen.links();
    let links = links.iter().map(|link| {
        Object::new()
            .number("row", link.row + 1)
            .number("col", link.col + 1)
            .number("length", link.length)
            .text("url", link.address)
    });
    Object::new()
        .object_or_null("size", Some(size))
        .object_or_null("cursor", Some(cursor))
        .bytes_or_null("title", screen.title().map(str::as_bytes))
        .truth("alternate", screen.is_alternate())
        .list("lines", &lines)
        .objects("links", links)
}
