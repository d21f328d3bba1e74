//! An applet's page of the manual: its header, taken apart.
//!
//! `build.rs` reads every header with this file, so one that it cannot read
//! fails the build, and what is made of pages later (JSON, man pages,
//! completions) says what `--help` says.
//!
//! ```text
//! name - what it does in one line
//!
//! Usage: name [options] OPERAND
//!        name --another WAY
//!
//! Anything; paragraphs that do not begin like one of these sections.
//!
//! Options:
//!   --name=VALUE      what it does (default: nothing)
//!
//! Exit codes:
//!   125               what it means
//!
//! Example:
//!   name it
//! ```

/// Invariant: every field except `about` and `exits` has what the header must have; `example` is empty
/// if the header has none.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) name: &'a str,
    pub(crate) summary: &'a str,
    /// The ways to call it.
    pub(crate) usage: Vec<&'a str>,
    /// The paragraphs, each with its line breaks.
    pub(crate) about: Vec<&'a str>,
    pub(crate) options: Vec<Entry<'a>>,
    /// Its exit codes, if they differ from the common ones.
    pub(crate) exits: Vec<Entry<'a>>,
    /// Command lines.
    pub(crate) example: Vec<&'a str>,
}

/// A line of a section: a term, and what it means.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) term: &'a str,
    /// On one line.
    pub(crate) help: String,
}

impl<'a> Page<'a> {
    /// Takes a header apart, or says what is wrong with it.
    pub(crate) fn parse(header: &'a str) -> Result<Page<'a>, String> {
        let mut paragraphs = header.trim_end().split("\n\n");
        let title = paragraphs.next().and_then(|line| line.split_once(" - "));
        let (name, summary) = title.ok_or("the header does not begin `name - summary`")?;
        let usage = paragraphs.next().and_then(|lines| lines.strip_prefix("Usage: "));
        let usage = usage.ok_or("the second paragraph does not begin `Usage: `")?;
        let mut page = Page {
            name,
            summary,
            usage: usage.lines().map(str::trim).collect(),
            about: Vec::new(),
            options: Vec::new(),
            exits: Vec::new(),
            example: Vec::new(),
        };
        for paragraph in paragraphs {
            match paragraph.split_once('\n') {
                Some(("Options:", lines)) => page.options = entries(lines)?,
                Some(("Exit codes:", lines)) => page.exits = entries(lines)?,
                Some(("Example:", lines)) => page.example = lines.lines().map(str::trim).collect(),
                _ => page.about.push(paragraph),
            }
        }
        match page.options.iter().find(|option| !option.term.starts_with("--")) {
            Some(option) => Err(format!("'{}' is not an option", option.term)),
            None => Ok(page),
        }
    }
}

/// An entry begins two columns in; what is further in goes on with the last one.
fn entries(lines: &str) -> Result<Vec<Entry<'_>>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in lines.lines() {
        let more = match line.strip_prefix("  ") {
            Some(entry) if !entry.starts_with(' ') => {
                let (term, help) = entry.split_once("  ").unwrap_or((entry, ""));
                entries.push(Entry { term, help: String::new() });
                help
            }
            _ => line,
        };
        let entry = entries.last_mut().ok_or_else(|| format!("'{line}' belongs to no entry"))?;
        if !entry.help.is_empty() {
            entry.help.push(' ');
        }
        entry.help += more.trim();
    }
    match entries.iter().find(|entry| entry.help.is_empty()) {
        Some(entry) => Err(format!("'{}' is not explained", entry.term)),
        None => Ok(entries),
    }
}

impl<'a> Entry<'a> {
    /// An option's name, with its dashes.
    pub(crate) fn option(&self) -> &'a str {
        self.term.split(['=', ' ']).next().unwrap_or(self.term)
    }

    /// The name of the option's value.
    pub(crate) fn value(&self) -> Option<&'a str> {
        self.term.split_once(['=', ' ']).map(|(_, value)| value)
    }

    /// The value if the option is not given.
    pub(crate) fn default(&self) -> Option<&str> {
        Some(self.help.split_once("(default: ")?.1.split_once(')')?.0)
    }
}
