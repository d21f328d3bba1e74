//! An applet's page of the manual, which its header is, and what is made of it.

pub(crate) mod completion;
pub(crate) mod page;
pub(crate) mod roff;
pub(crate) mod texts;
pub(crate) mod topics;

use crate::{call::Syntax, json::Object};
use page::{Entry, Page};

/// A parsed header. `build.rs` has parsed it, so it is valid.
pub(crate) fn parse(header: &str) -> Page<'_> {
    Page::parse(header).expect("build.rs has read it")
}

/// A command for programs; `common` are the exit codes that it has where its
/// own page says nothing of them.
pub(crate) fn object(page: &Page, syntax: &Syntax, common: &[Entry]) -> Object {
    let options = page.options.iter().zip(syntax.options()).map(|(option, syntax)| {
        Object::new()
            .text("name", option.option())
            .bytes_or_null("value", option.value().map(str::as_bytes))
            .bytes_or_null("default", option.default().map(str::as_bytes))
            .truth("repeatable", syntax.is_repeatable())
            .text("help", &option.help)
    });
    let operands = syntax.operands().into_iter().map(|(operand, is_optional)| {
        Object::new()
            .text("name", operand.name)
            .truth("optional", is_optional)
            .truth("repeatable", operand.is_many)
            .truth("text", operand.is_text)
    });
    let exits = if page.exits.is_empty() { common } else { &page.exits };
    Object::new()
        .text("name", page.name)
        .text("summary", page.summary)
        .text("usage", &page.usage.join("\n"))
        .objects("options", options)
        .objects("operands", operands)
        .object_or_null(
            "exits",
            Some(exits.iter().fold(Object::new(), |exits, exit| exits.text(exit.term, &exit.help))),
        )
}
