//! One declared call: the syntax in a command's header, and the words of a call, parsed by it.
//!
//! `build.rs` makes a table of each header. By that table words are parsed, completed, described to programs
//! and sent to other machines; a command gets the parsed words, and checks only what the table cannot.

#[cfg(test)]
mod usage;

use std::{
    cell::Cell,
    ffi::{OsStr, OsString},
    iter,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

use crate::{
    cli::{self, Args},
    json::Object,
    outcome::{Failure, Result},
    session::Target,
};

/// The syntax of a command.
pub(crate) struct Syntax {
    /// A line for each option, in the order of the help. One text, since the table of all options is large.
    pub(crate) options: &'static str,
    pub(crate) forms: &'static [Form],
    /// Options of which one may be given.
    pub(crate) exclusive: &'static [&'static [&'static str]],
    /// Options that go only with another one.
    pub(crate) needs: &'static [(&'static str, &'static str)],
}

/// An option: `name`, `name=VALUE` or `name=VALUE=default`, with a `*` before it if it is repeatable.
#[derive(Clone, Copy)]
pub(crate) struct OptionSyntax(&'static str);

/// An option of a call.
struct GivenOption {
    option: OptionSyntax,
    value: OsString,
    // A given option that the command does not read is a bug of ours.
    is_read: Cell<bool>,
}

/// One of the ways to call it; see `call/usage.rs`.
pub(crate) struct Form {
    pub(crate) takes_any: bool,
    pub(crate) required: &'static [&'static [&'static str]],
    pub(crate) allowed: &'static [&'static str],
    pub(crate) words: &'static [&'static str],
    pub(crate) operands: &'static [Operand],
}

#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) name: &'static str,
    pub(crate) is_optional: bool,
    pub(crate) is_many: bool,
    pub(crate) is_text: bool,
}

impl Syntax {
    pub(crate) fn options(&self) -> impl Iterator<Item = OptionSyntax> {
        let mut rest = self.options;
        // Each call looks through them often, and `lines` is slower.
        iter::from_fn(move || {
            let (option, behind) = rest.split_at(rest.bytes().position(|byte| byte == b'\n')?);
            rest = &behind[1..];
            Some(OptionSyntax(option))
        })
    }

    fn option(&self, name: &str) -> Option<OptionSyntax> {
        self.options().find(|option| option.is(name))
    }

    /// The operands of all forms, and whether there are calls without them.
    pub(crate) fn operands(&self) -> Vec<(&'static Operand, bool)> {
        let mut all: Vec<(&Operand, bool)> = Vec::new();
        for operand in self.forms.iter().flat_map(|form| form.operands) {
            let is_it = |other: &&Operand| other.name == operand.name && !other.is_optional;
            let is_optional = !self.forms.iter().all(|form| form.operands.iter().any(|other| is_it(&other)));
            if all.iter().all(|(known, _)| known.name != operand.name) {
                all.push((operand, is_optional));
            }
        }
        all
    }

    /// The words of which a call begins with one.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'static str> {
        self.forms.iter().flat_map(|form| form.words).copied()
    }

    /// The operand that comes after these.
    pub(crate) fn operand_after(&self, given: &[OsString]) -> Option<&'static Operand> {
        let form = self.forms.iter().find(|form| given.first().is_none_or(|first| form.has_word(first)))?;
        let place = given.len().checked_sub(usize::from(!form.words.is_empty()))?;
        form.operands.get(place).or(form.operands.last().filter(|operand| operand.is_many))
    }

    /// Is the word after these operands free text, in which nothing is an option?
    pub(crate) fn text_follows(&self, given: &[OsString]) -> bool {
        self.forms.iter().any(|form| {
            let is_chosen = given.first().is_none_or(|first| form.has_word(first));
            let place = form.operands.iter().position(|operand| operand.is_text && operand.is_many);
            let skipped = usize::from(form.skips_first(given));
            let place = place.map(|place| place + usize::from(!form.words.is_empty()) - skipped);
            is_chosen && place.is_some_and(|place| given.len() >= place.max(1))
        })
    }
}

impl Form {
    fn has_word(&self, word: &OsStr) -> bool {
        self.words.is_empty() || self.words.iter().any(|known| word == *known)
    }

    /// Is the first operand left out? It is optional, a session's, and others follow it.
    fn skips_first(&self, given: &[OsString]) -> bool {
        let is_session = |word: &[u8]| {
            Target::parse(word).is_some() || word.first() == Some(&b'@') || word.contains(&b':')
        };
        let may_be_skipped =
            matches!(self.operands, [first, second, ..] if first.is_optional && !second.is_optional);
        may_be_skipped && given.first().is_some_and(|first| !is_session(first.as_bytes()))
    }

    fn names(&self, option: &str) -> bool {
        self.allowed.contains(&option) || self.required.iter().any(|names| names.contains(&option))
    }

    /// The options that choose it.
    fn chosen_by(&self) -> &'static [&'static str] {
        self.required.first().copied().unwrap_or_default()
    }
}

/// The words of a call.
pub(crate) struct CommandLine {
    syntax: &'static Syntax,
    form: &'static Form,
    options: Vec<GivenOption>,
    // The word that chose the form.
    word: Option<OsString>,
    // The words for each operand of the form.
    operands: Vec<(&'static Operand, Vec<OsString>)>,
    json: bool,
    /// Our caller's umask.
    pub(crate) umask: u32,
}

impl CommandLine {
    /// Parses all words, or describes their fault.
    pub(crate) fn read(syntax: &'static Syntax, args: &mut Args) -> Result<CommandLine> {
        use lexopt::Arg::{Long, Short, Value};
        let (mut options, mut words) = (Vec::new(), Vec::new());
        loop {
            if syntax.text_follows(&words) {
                words.extend(args.words()?);
                break;
            }
            if syntax.operand_after(&words).is_some_and(|operand| operand.is_text && !operand.is_many)
                && let Some(text) = args.text_but_for(|name| syntax.option(name).is_some())
            {
                words.push(text);
                continue;
            }
            let option = match args.next()? {
                None => break,
                Some(Value(word)) => {
                    words.push(word);
                    continue;
                }
                Some(Long(name)) => {
                    syntax.option(name).ok_or_else(|| Failure::from(Long(name).unexpected()))?
                }
                // The one letter of cp(1) that fingers know.
                Some(Short('r')) if let Some(option) = syntax.option("recursive") => option,
                Some(other) => return Err(other.unexpected().into()),
            };
            let value = if option.value().is_none() { OsString::new() } else { args.value()? };
            options.push(GivenOption { option, value, is_read: Cell::new(false) });
        }
        let mut call = CommandLine {
            syntax,
            form: &syntax.forms[0],
            options,
            word: None,
            operands: Vec::new(),
            json: args.json(),
            umask: args.umask,
        };
        call.form = call.choose_form(&mut words)?;
        call.check_options()?;
        call.assign(words)?;
        Ok(call)
    }

    fn choose_form(&mut self, words: &mut Vec<OsString>) -> Result<&'static Form> {
        let forms = self.syntax.forms;
        if !forms[0].words.is_empty() {
            let all = || self.syntax.words().collect::<Vec<_>>().join(", ");
            if words.is_empty() {
                return Err(Failure::bad_args(format!("missing one of {}", all())));
            }
            let word = words.remove(0);
            let form = forms.iter().find(|form| form.has_word(&word));
            let none = || Failure::bad_args(format!("'{}' is not one of {}", word.display(), all()));
            let form = form.ok_or_else(none)?;
            self.word = Some(word);
            return Ok(form);
        }
        let given = |form: &&Form| form.chosen_by().iter().any(|name| self.is_given(name));
        let mut chosen = forms.iter().skip(1).filter(given);
        let Some(form) = chosen.next() else { return Ok(&forms[0]) };
        match chosen.next() {
            Some(other) => Err(self.exclude(form.chosen_by(), other.chosen_by())),
            None => Ok(form),
        }
    }

    fn check_options(&self) -> Result<()> {
        let form = self.form;
        for names in form.required {
            if !names.iter().any(|name| self.is_given(name)) {
                let name = self.syntax.option(names[0]).map_or(names[0].to_owned(), |option| option.term());
                return Err(Failure::bad_args(match self.given_of(form.chosen_by()) {
                    Some(chosen) => format!("--{chosen} requires --{name}"),
                    None => format!("missing --{name}"),
                }));
            }
        }
        for name in self.given() {
            let is_of_another = || self.syntax.forms.iter().any(|form| form.chosen_by().contains(&name));
            if form.names(name) || (form.takes_any && !is_of_another()) {
                continue;
            }
            return Err(match &self.word {
                Some(word) => Failure::bad_args(format!("cannot use --{name} with '{}'", word.display())),
                None => self.exclude(form.chosen_by(), &[name]),
            });
        }
        for names in self.syntax.exclusive {
            let mut given = names.iter().filter(|name| self.is_given(name));
            if let (Some(one), Some(other)) = (given.next(), given.next()) {
                return Err(self.exclude(&[one], &[other]));
            }
        }
        match self.syntax.needs.iter().find(|(name, other)| self.is_given(name) && !self.is_given(other)) {
            Some((name, other)) => Err(Failure::bad_args(format!("--{name} requires --{other}"))),
            None => Ok(()),
        }
    }

    fn assign(&mut self, words: Vec<OsString>) -> Result<()> {
        let skipped = usize::from(self.form.skips_first(&words));
        let mut words = words.into_iter();
        for (number, operand) in self.form.operands.iter().enumerate() {
            let others = self.form.operands[number + 1..].iter().filter(|other| !other.is_optional).count();
            let count = match operand.is_many {
                true => words.len().saturating_sub(others).max(1),
                false => usize::from(number >= skipped),
            };
            let given: Vec<OsString> = words.by_ref().take(count).collect();
            if given.is_empty() && !operand.is_optional {
                return Err(operand.missing());
            }
            self.operands.push((operand, given));
        }
        let Some(surplus) = words.next() else { return Ok(()) };
        let there = self.operands.len();
        Err(match (self.given_of(self.form.chosen_by()), self.syntax.forms[0].operands.get(there)) {
            (Some(chosen), Some(operand)) => {
                Failure::bad_args(format!("cannot use --{chosen} with {}", operand.name))
            }
            _ => lexopt::Arg::Value(surplus).unexpected().into(),
        })
    }

    fn given(&self) -> impl Iterator<Item = &'static str> {
        let json = self.json.then(|| self.syntax.option("json")).flatten();
        self.options.iter().map(|given| given.option).chain(json).map(OptionSyntax::name)
    }

    fn is_given(&self, name: &str) -> bool {
        self.given().any(|given| given == name)
    }

    fn given_of(&self, names: &[&'static str]) -> Option<&'static str> {
        self.given().find(|given| names.contains(given))
    }

    fn exclude(&self, one: &[&'static str], other: &[&'static str]) -> Failure {
        let name = |names| self.given_of(names).unwrap_or_default();
        Failure::bad_args(format!("cannot use --{} with --{}", name(one), name(other)))
    }
}

/// The parsed words, as a command reads them.
impl CommandLine {
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Prints the object if the caller wants JSON, else nothing.
    pub(crate) fn print_json(&self, object: Object) -> Result<()> {
        if self.json { cli::print(object.line()) } else { Ok(()) }
    }

    /// Is this option given?
    pub(crate) fn has(&self, name: &str) -> bool {
        self.last(name).is_some()
    }

    /// The value of an option, as `kind` reads it.
    pub(crate) fn optional<T>(&self, name: &str, kind: fn(&str, &OsStr) -> Result<T>) -> Result<Option<T>> {
        self.last(name).map(|value| kind(name, value)).transpose()
    }

    /// The same for an option with a default, which the header has.
    pub(crate) fn value<T>(&self, name: &str, kind: fn(&str, &OsStr) -> Result<T>) -> Result<T> {
        let value = self.last(name);
        let default = || self.syntax.option(name).expect("the header has it").default().as_ref();
        kind(name, value.unwrap_or_else(default))
    }

    /// The values of a repeatable option.
    pub(crate) fn values<T>(&self, name: &str, kind: fn(&str, &OsStr) -> Result<T>) -> Result<Vec<T>> {
        self.all_of(name).map(|given| kind(given.option.name(), &given.value)).collect()
    }

    fn last(&self, name: &str) -> Option<&OsStr> {
        self.all_of(name).last().map(|given| given.value.as_os_str())
    }

    /// The command reads these.
    fn all_of(&self, name: &str) -> impl Iterator<Item = &GivenOption> {
        let all = self.options.iter().filter(move |given| given.option.is(name));
        all.inspect(|given| given.is_read.set(true))
    }

    /// The word that selects the form, among those of the usage.
    pub(crate) fn word(&self) -> &str {
        self.word.as_deref().and_then(OsStr::to_str).unwrap_or_default()
    }

    /// The words for an operand, by its name in the usage.
    pub(crate) fn operands(&self, name: &str) -> &[OsString] {
        let found = self.operands.iter().find(|(operand, _)| operand.name == name);
        found.map_or(&[], |(_, words)| words)
    }

    pub(crate) fn operand(&self, name: &str) -> Option<&OsStr> {
        self.operands(name).first().map(OsString::as_os_str)
    }

    /// The session that it is for, where the usage has one.
    pub(crate) fn session(&self) -> Result<Target> {
        cli::parse_target(self.operand("SESSION").ok_or_else(cli::missing_handle)?)
    }

    pub(crate) fn sessions(&self) -> Result<Vec<Target>> {
        self.operands("SESSION").iter().map(|word| cli::parse_target(word)).collect()
    }

    /// The words of the free text, joined by spaces.
    pub(crate) fn text(&self) -> Vec<u8> {
        let text = self.operands.iter().find(|(operand, _)| operand.is_text);
        text.map(|(_, words)| words.join(OsStr::new(" ")).into_vec()).unwrap_or_default()
    }

    /// Is this one of its options?
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.syntax.option(name).is_some()
    }

    /// The words of the same call for other sessions; `change` may replace an option's word, or drop it.
    pub(crate) fn words_for(
        &self,
        sessions: &[OsString],
        change: impl Fn(&'static str, &OsStr) -> Option<OsString>,
    ) -> Vec<OsString> {
        let options = self.options.iter().filter_map(|GivenOption { option, value, .. }| {
            match change(option.name(), value) {
                None => Some(option.word(value)).filter(|_| option.name() != "on"),
                changed => changed,
            }
        });
        let mut words: Vec<OsString> = options.collect();
        words.extend(self.json.then(|| "--json".into()));
        words.push("--".into());
        words.extend(self.word.clone());
        words.extend_from_slice(sessions);
        let others = self.operands.iter().filter(|(operand, _)| operand.name != "SESSION");
        words.extend(others.flat_map(|(_, words)| words).cloned());
        words
    }

    /// The option that the text to be typed begins with, which may be meant for us.
    pub(crate) fn option_in_text(&self) -> Option<&'static str> {
        let has_session = self.operands.iter().any(|(operand, _)| operand.name == "SESSION");
        let (_, words) = self.operands.iter().find(|(operand, _)| operand.is_text && has_session)?;
        let word = words.first()?.to_str()?.strip_prefix("--").filter(|_| !self.json)?;
        self.syntax.option(word.split('=').next()?).map(|option| option.name())
    }

    /// The option of ours among the options of a program, if the text is a call of a program that `is_such`.
    pub(crate) fn option_behind(&self, is_such: impl Fn(&[u8]) -> bool) -> Option<&str> {
        let (_, words) = self.operands.iter().find(|(operand, _)| operand.is_text)?;
        let (_, rest) = words.split_first().filter(|(program, _)| is_such(program.as_bytes()))?;
        let mut options = rest.iter().map_while(|word| word.to_str().filter(|word| word.starts_with('-')));
        let name = |word: &str| word.strip_prefix("--")?.split('=').next().map(str::to_owned);
        options.find(|word| name(word).is_some_and(|name| self.syntax.option(&name).is_some()))
    }

    /// Called when the command is done: has it processed all given options?
    pub(crate) fn check_processed(&self) {
        let is_left = |given: &&GivenOption| !given.is_read.get() && !given.option.is("on");
        let left = self.options.iter().find(is_left).map(|given| given.option.name());
        debug_assert_eq!(left, None, "nothing looks at this option");
    }
}

impl OptionSyntax {
    pub(crate) fn is_repeatable(self) -> bool {
        self.0.starts_with('*')
    }

    fn is(self, name: &str) -> bool {
        let text = self.0.strip_prefix('*').unwrap_or(self.0);
        text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    }

    /// Without dashes.
    pub(crate) fn name(self) -> &'static str {
        self.0.trim_start_matches('*').split('=').next().unwrap_or_default()
    }

    /// The name of its value in the help, if it has one.
    fn value(self) -> Option<&'static str> {
        self.0.split('=').nth(1)
    }

    /// Its default; empty if the help has none.
    fn default(self) -> &'static str {
        self.0.splitn(3, '=').nth(2).unwrap_or_default()
    }

    /// The word that sets it to this value.
    pub(crate) fn word(self, value: &OsStr) -> OsString {
        let mut word = OsString::from(format!("--{}", self.name()));
        if self.value().is_some() {
            word.push("=");
            word.push(value);
        }
        word
    }

    /// As the help has it, without dashes.
    fn term(self) -> String {
        self.value().map_or(self.name().to_owned(), |value| format!("{}={value}", self.name()))
    }
}

impl Operand {
    fn missing(&self) -> Failure {
        match self.name {
            "SESSION" => cli::missing_handle(),
            name => Failure::bad_args(format!("missing {name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::usage;

    #[test]
    fn a_usage_says_what_goes_with_what() {
        let form =
            usage::Form::parse("[--last=N|--new] [--json [--legacy]] [options] SESSION [TEXT...] < FILE");
        assert!(form.takes_any && form.required.is_empty() && form.words.is_empty());
        assert_eq!(form.exclusive, [["last", "new"]]);
        assert_eq!(form.needs, [("legacy", "json")]);
        assert_eq!(form.allowed, ["last", "new", "legacy", "json"]);
        let operands: Vec<_> =
            form.operands.iter().map(|one| (one.name, one.is_optional, one.is_text)).collect();
        assert_eq!(operands, [("SESSION", false, false), ("TEXT", true, true)]);
        let form = usage::Form::parse("show|hide --one|--other=N KEY...");
        assert_eq!((form.words, form.required), (vec!["show", "hide"], vec![vec!["one", "other"]]));
        assert!(form.operands[0].is_many && !form.operands[0].is_text && !form.takes_any);
    }
}
