//! A screen as stretches of text, for who draws it with styles of their own.

use super::Screen;
use crate::terminal::screen::{
    line::{Colour, Line, Pen},
    svg::GlyphKind,
};

/// A colour of a [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Default,
    /// One of 256.
    Indexed(u8),
    Rgb([u8; 3]),
}

impl Ink {
    fn of(colour: Colour) -> Ink {
        match (colour.index(), colour.parts()) {
            (Some(index), _) => Ink::Indexed(index),
            (_, Some(parts)) => Ink::Rgb(parts),
            _ => Ink::Default,
        }
    }
}

/// Some cells of a row, written with one pen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) foreground: Ink,
    pub(crate) background: Ink,
    /// [`Ink::Default`] is that of the text.
    pub(crate) underline: Ink,
    /// The bits of 1 bold, 2 dim, 4 italic, 8 blink, 16 inverse, 32 hidden, 64 struck out,
    /// 128 overlined, and times 256 how it is underlined: 1 plain, 2 double, 3 curly, 4 dotted,
    /// 5 dashed.
    pub(crate) style: u32,
    /// How many cells it takes, where a font may have other widths for it.
    pub(crate) cells: Option<usize>,
    /// The address of the link that it is a part of.
    pub(crate) link: Option<String>,
}

/// How text is drawn that has not been written with any pen, and one of whose characters takes
/// a cell.
impl Span {
    pub(crate) fn is_plain(&self) -> bool {
        let inks = (self.foreground, self.background);
        inks == (Ink::Default, Ink::Default) && self.style == 0 && self.cells.is_none() && self.link.is_none()
    }
}

impl Screen {
    /// A row each, and before them up to so many of the lines that have scrolled off, without
    /// the blanks at their ends, and without what is right of so many columns.
    pub(crate) fn spans(&self, scrollback: usize, cols: usize) -> impl Iterator<Item = Vec<Span>> {
        self.shown(scrollback)
            .into_iter()
            .map(move |line| self.spans_of(&line, self.visible_length(&line).min(cols)))
    }

    fn spans_of(&self, line: &Line, length: usize) -> Vec<Span> {
        let kind = |col: usize| match GlyphKind::of(line, col) {
            GlyphKind::Blank | GlyphKind::Letter => Kind::Letters,
            GlyphKind::Shape => Kind::Shapes,
            GlyphKind::Other => Kind::Alone,
        };
        let (mut spans, mut col): (Vec<Span>, usize) = (Vec::new(), 0);
        while col < length {
            let (pen, first) = (line.cell(col).pen, kind(col));
            let is_same = |other: Pen| other.seen() == pen.seen() && other.link() == pen.link();
            let goes_on = |at: usize| {
                let cell = line.cell(at);
                cell.is_right_half() || first != Kind::Alone && is_same(cell.pen) && kind(at) == first
            };
            let end = (col + 1..length).find(|at| !goes_on(*at)).unwrap_or(length);
            let mut text = String::new();
            (col..end).for_each(|at| line.push_text(at, &mut text));
            let Pen { foreground, background, underline_colour, style } = pen.seen();
            spans.push(Span {
                text,
                foreground: Ink::of(foreground),
                background: Ink::of(background),
                underline: Ink::of(underline_colour),
                style,
                cells: (first != Kind::Letters).then_some(end - col),
                link: self.links.get(pen.link()).map(str::to_owned),
            });
            col = end;
        }
        spans
    }
}

/// How a character gets into a stretch: with those before it that are alike, or alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letters,
    Shapes,
    Alone,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> Vec<Span> {
        Screen::showing(20, 2, bytes).spans(0, 20).next().unwrap()
    }

    #[test]
    fn cells_of_one_style_are_one_span_with_its_column() {
        let spans = shown("ab c\x1b[1;31;48;2;1;2;3md\x1b[0m漢e\u{301}──".as_bytes());
        let texts: Vec<(&str, Option<usize>)> = spans.iter().map(|span| (&*span.text, span.cells)).collect();
        let expected = [("ab c", None), ("d", None), ("漢", Some(2)), ("e\u{301}", Some(1)), ("──", Some(2))];
        assert_eq!(texts, expected);
        let styled = (spans[1].foreground, spans[1].background, spans[1].style);
        assert_eq!(styled, (Ink::Indexed(1), Ink::Rgb([1, 2, 3]), 1));
        assert!(spans[0].is_plain() && !spans[1].is_plain() && !spans[2].is_plain());
    }

    #[test]
    fn a_link_is_a_stretch_of_its_own() {
        let spans = shown(b"a\x1b]8;;http://x\x1b\\b\x1b]8;;http://y\x1b\\c\x1b]8;;\x1b\\d");
        let links: Vec<(&str, Option<&str>)> =
            spans.iter().map(|span| (&*span.text, span.link.as_deref())).collect();
        assert_eq!(links, [("a", None), ("b", Some("http://x")), ("c", Some("http://y")), ("d", None)]);
        assert!(!spans[1].is_plain());
    }

    #[test]
    fn no_stretch_goes_beyond_the_columns() {
        assert_eq!(shown(b"").len(), 0);
        let screen = Screen::showing(20, 1, "aaaaaaaaa漢漢".as_bytes());
        let row: String = screen.spans(0, 10).next().unwrap().iter().map(|span| span.text.clone()).collect();
        assert_eq!(row, "aaaaaaaaa漢");
    }
}
