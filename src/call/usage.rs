//! The grammar of `Usage:` in a header. `build.rs` makes a table of it.
//!
//! ```text
//! Usage: nbs-ts verb [--one|--other] [--json [--more=N]] [options] SESSION TEXT...
//!        nbs-ts verb --way [options] [SESSION]
//! ```
//!
//! Each line is a form of the call, which its first option without brackets, or its first word,
//! selects. Of options with a bar between them, a call may have one. An option in brackets within
//! brackets requires the one before it. A form without `[options]` accepts only those that it names.
//! `TEXT...` and `COMMAND...` are free text, and `INSTRUCTIONS` is one word of it, which may begin
//! with a dash.

/// A line of the usage.
#[derive(Default)]
pub(crate) struct Form<'a> {
    /// Any option may be given that does not choose another form.
    pub(crate) takes_any: bool,
    /// Options that must be given, one of each list.
    pub(crate) required: Vec<Vec<&'a str>>,
    /// Options that may be given.
    pub(crate) allowed: Vec<&'a str>,
    /// The first word is one of these, if there are any.
    pub(crate) words: Vec<&'a str>,
    pub(crate) operands: Vec<Operand<'a>>,
    /// Options of which one may be given.
    pub(crate) exclusive: Vec<Vec<&'a str>>,
    /// Options that go only with another one.
    pub(crate) needs: Vec<(&'a str, &'a str)>,
}

pub(crate) struct Operand<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_optional: bool,
    pub(crate) is_many: bool,
    pub(crate) is_text: bool,
}

impl<'a> Form<'a> {
    /// Reads a line of the usage, behind the name of the command.
    pub(crate) fn parse(line: &'a str) -> Form<'a> {
        let mut form = Form::default();
        for item in items(line).into_iter().take_while(|item| *item != "<") {
            match item.strip_prefix('[').and_then(|item| item.strip_suffix(']')) {
                Some("options") => form.takes_any = true,
                Some(inner) if inner.starts_with("--") => form.optional(inner),
                Some(operand) => form.operands.push(Operand::parse(operand, true)),
                None if item.starts_with("--") => {
                    let names = form.alternatives(item);
                    form.required.push(names);
                }
                None if item.starts_with(|first: char| first.is_ascii_lowercase()) => {
                    form.words = item.split('|').collect();
                }
                None => form.operands.push(Operand::parse(item, false)),
            }
        }
        form
    }

    /// Parses the content of brackets.
    fn optional(&mut self, inner: &'a str) {
        let mut items = items(inner).into_iter();
        let names = items.next().map(|item| self.alternatives(item)).unwrap_or_default();
        for nested in items {
            let name = option(nested.trim_matches(['[', ']']));
            self.needs.push((name, names[0]));
            self.allowed.push(name);
        }
        self.allowed.extend(names);
    }

    fn alternatives(&mut self, item: &'a str) -> Vec<&'a str> {
        let names: Vec<&str> = item.split('|').map(option).collect();
        if names.len() > 1 {
            self.exclusive.push(names.clone());
        }
        names
    }
}

impl<'a> Operand<'a> {
    fn parse(word: &'a str, is_optional: bool) -> Operand<'a> {
        let name = word.trim_end_matches('.');
        let is_many = name != word;
        let is_text = if is_many { ["TEXT", "COMMAND"].contains(&name) } else { name == "INSTRUCTIONS" };
        Operand { name, is_optional, is_many, is_text }
    }
}

/// The name of `--name=VALUE`.
fn option(word: &str) -> &str {
    word.trim_start_matches('-').split('=').next().unwrap_or(word)
}

/// Splits a line at blanks outside of brackets.
fn items(line: &str) -> Vec<&str> {
    let mut depth = 0;
    let items = line.split(|letter| {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        letter == ' ' && depth == 0
    });
    items.filter(|item| !item.is_empty()).collect()
}
