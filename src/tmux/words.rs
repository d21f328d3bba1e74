//! Command lines: those of a shell, split at `;`, and those of a file, with quotes.
//!
//! Pure.

use std::env;

use crate::{
    outcome::{Failure, Result},
    tmux::tables,
};

/// A line of the table.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    /// Its line in the table.
    pub(crate) number: usize,
    pub(crate) name: &'static str,
    pub(crate) alias: &'static str,
    pub(crate) usage: Usage,
    least: usize,
    most: Option<usize>,
    /// As `list-commands` shows them.
    pub(crate) flags: &'static str,
}

/// How a command uses the state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    Looks,
    Changes,
    /// It changes the state, and makes one if there is none.
    Starts,
    /// It loads the state by itself.
    Alone,
}

/// All commands, sorted by name.
pub(crate) fn commands() -> Vec<Command> {
    let mut commands = Vec::new();
    tables::COMMANDS.iter().for_each(|table| read(table(), &mut commands));
    commands.sort_unstable_by(|one, other| one.name.cmp(other.name));
    commands
}

fn read(table: &'static str, commands: &mut Vec<Command>) {
    for line in table.lines() {
        let mut words = line.splitn(6, ' ');
        let mut next = || words.next().unwrap_or_default();
        let (name, alias) = (next(), next());
        let usage = match next() {
            "looks" => Usage::Looks,
            "changes" => Usage::Changes,
            "starts" => Usage::Starts,
            _ => Usage::Alone,
        };
        let number = commands.len();
        let (least, most) = (next().parse().unwrap_or(0), next().parse().ok());
        let alias = if alias == "-" { "" } else { alias };
        commands.push(Command { number, name, alias, usage, least, most, flags: next() });
    }
}

pub(crate) fn find(word: &str) -> Result<Command> {
    let mut found = Vec::new();
    for table in tables::COMMANDS {
        read(table(), &mut found);
        if let Some(exact) = found.iter().find(|command| command.alias == word || command.name == word) {
            return Ok(*exact);
        }
    }
    let mut found = commands();
    found.retain(|command| command.name.starts_with(word));
    match &found[..] {
        [command] => Ok(*command),
        [] => Err(Failure::failed(format!("unknown command: {word}"))),
        several => {
            let names: Vec<&str> = several.iter().map(|command| command.name).collect();
            Err(Failure::failed(format!("ambiguous command: {word}, could be: {}", names.join(", "))))
        }
    }
}

/// A command with its words, as they were understood.
pub(crate) struct Call {
    pub(crate) command: Command,
    flags: Vec<(char, String)>,
    pub(crate) operands: Vec<String>,
}

impl Call {
    /// All that it was given, but for the flags.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &String> {
        self.flags.iter().map(|(_, value)| value).chain(&self.operands)
    }
}

impl Command {
    /// Does it take this flag, and has that a value?
    fn flag(&self, flag: char) -> Option<bool> {
        self.flags.split('[').find_map(|group| {
            let group = group.split(']').next()?;
            group.strip_prefix('-')?;
            match group.split_once(' ') {
                Some((letters, _)) => letters.ends_with(flag).then_some(true),
                None => group.chars().any(|letter| letter == flag && letter != '|').then_some(false),
            }
        })
    }

    pub(crate) fn parse(self, words: &[String]) -> Result<Call> {
        let refused = |why: String| Err(Failure::failed(format!("command {}: {why}", self.name)));
        let mut call = Call { command: self, flags: Vec::new(), operands: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.as_slice().first() {
            if !word.starts_with('-') || word == "-" {
                break;
            }
            words.next();
            if word == "--" {
                break;
            }
            let mut letters = word[1..].chars();
            while let Some(flag) = letters.next() {
                let has_value = match self.flag(flag) {
                    Some(has_value) => has_value,
                    None => return refused(format!("unknown flag -{flag}")),
                };
                let mut value = String::new();
                if has_value {
                    value = letters.as_str().to_owned();
                    letters = "".chars();
                    if value.is_empty() {
                        match words.next() {
                            Some(next) => value = next.clone(),
                            None => return refused(format!("-{flag} expects an argument")),
                        }
                    }
                }
                call.flags.push((flag, value));
            }
        }
        call.operands = words.cloned().collect();
        let count = call.operands.len();
        if count < self.least {
            return refused(format!("too few arguments (need at least {})", self.least));
        }
        match self.most {
            Some(most) if count > most => refused(format!("too many arguments (need at most {most})")),
            _ => Ok(call),
        }
    }
}

impl Call {
    #[inline(never)]
    pub(crate) fn has(&self, flag: char) -> bool {
        self.flags.iter().any(|(given, _)| *given == flag)
    }

    #[inline(never)]
    pub(crate) fn value(&self, flag: char) -> Option<&str> {
        self.flags.iter().rev().find(|(given, _)| *given == flag).map(|(_, value)| &**value)
    }

    pub(crate) fn values(&self, flag: char) -> impl Iterator<Item = &str> {
        self.flags.iter().filter(move |(given, _)| *given == flag).map(|(_, value)| &**value)
    }

    pub(crate) fn operand(&self, at: usize) -> Option<&str> {
        self.operands.get(at).map(String::as_str)
    }
}

/// The commands in the words of a shell's command line: a word that ends in `;` ends one, `\;` is text.
pub(crate) fn split(words: Vec<String>) -> Vec<Vec<String>> {
    let (mut all, mut command) = (Vec::new(), Vec::new());
    for word in words {
        match word.strip_suffix(';') {
            None => command.push(word),
            Some(stem) => match stem.strip_suffix('\\') {
                Some(stem) => command.push(format!("{stem};")),
                None => {
                    if !stem.is_empty() {
                        command.push(stem.to_owned());
                    }
                    all.push(std::mem::take(&mut command));
                }
            },
        }
    }
    all.push(command);
    all.retain(|command| !command.is_empty());
    all
}

/// The commands of a file or of a string, with the number of the line on which each begins.
pub(crate) fn parse(text: &str) -> Result<Vec<(usize, Vec<String>)>> {
    let mut parser = Parser { rest: text.chars().peekable(), line: 1 };
    let (mut all, mut command, mut start) = (Vec::new(), Vec::new(), 1);
    loop {
        let end = parser.rest.peek().copied();
        match end {
            Some(' ' | '\t') => drop(parser.next()),
            Some('#') => {
                while parser.rest.peek().is_some_and(|next| *next != '\n') {
                    parser.next();
                }
            }
            None | Some('\n' | ';') => {
                if !command.is_empty() {
                    all.push((start, std::mem::take(&mut command)));
                }
                if parser.next().is_none() {
                    return Ok(all);
                }
            }
            Some(_) => {
                if command.is_empty() {
                    start = parser.line;
                }
                command.extend(parser.word()?);
            }
        }
    }
}

struct Parser<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn error<T>(&self, why: &str) -> Result<T> {
        Err(Failure::failed(why.to_owned()))
    }

    /// `None`: a line that goes on behind a backslash.
    fn word(&mut self) -> Result<Option<String>> {
        let (mut word, mut any) = (String::new(), false);
        loop {
            match self.rest.peek() {
                None | Some(' ' | '\t' | '\n' | ';') => return Ok(any.then_some(word)),
                _ => {}
            }
            let is_first = !any;
            any = true;
            match self.next() {
                Some('\'') => loop {
                    match self.next() {
                        Some('\'') => break,
                        Some(other) => word.push(other),
                        None => return self.error("unterminated quote"),
                    }
                },
                Some('"') => loop {
                    match self.next() {
                        Some('"') => break,
                        Some('\\') => self.escape(&mut word),
                        Some('$') => self.variable(&mut word),
                        Some(other) => word.push(other),
                        None => return self.error("unterminated quote"),
                    }
                },
                Some('\\') if self.rest.peek() == Some(&'\n') => {
                    self.next();
                    any = !word.is_empty();
                    if !any {
                        return Ok(None);
                    }
                }
                Some('\\') => self.escape(&mut word),
                Some('$') => self.variable(&mut word),
                Some('~') if is_first => word += &env::var("HOME").unwrap_or_default(),
                Some('{') if is_first => {
                    self.block(&mut word)?;
                    return Ok(Some(word));
                }
                Some(other) => word.push(other),
                None => return Ok(Some(word)),
            }
        }
    }

    fn block(&mut self, word: &mut String) -> Result<()> {
        let mut depth = 1;
        loop {
            let Some(next) = self.next() else { return self.error("syntax error") };
            match next {
                '{' => depth += 1,
                '}' if depth == 1 => return Ok(()),
                '}' => depth -= 1,
                _ => {}
            }
            // It is read when the block is executed.
            word.push(next);
        }
    }

    fn escape(&mut self, word: &mut String) {
        let Some(next) = self.next() else { return word.push('\\') };
        word.push(match next {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'e' => '\x1b',
            'u' | 'U' => {
                let most = if next == 'u' { 4 } else { 8 };
                let mut digits = String::new();
                while let Some(digit) =
                    self.rest.peek().filter(|next| next.is_ascii_hexdigit() && digits.len() < most)
                {
                    digits.push(*digit);
                    self.rest.next();
                }
                u32::from_str_radix(&digits, 16)
                    .ok()
                    .and_then(char::from_u32)
                    .unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            other => other,
        });
    }

    fn variable(&mut self, word: &mut String) {
        let braced = self.rest.peek() == Some(&'{');
        if braced {
            self.next();
        }
        let mut name = String::new();
        while let Some(next) = self.rest.peek().filter(|next| next.is_ascii_alphanumeric() || **next == '_') {
            name.push(*next);
            self.rest.next();
        }
        if braced && self.rest.peek() == Some(&'}') {
            self.next();
        }
        if name.is_empty() { word.push('$') } else { *word += &env::var(&name).unwrap_or_default() }
    }
}

/// The largest number that tmux reads.
pub(crate) const LARGEST: i64 = i32::MAX as i64;

/// A number in a range, or in a word why it is none, as strtonum(3).
pub(crate) fn number(text: &str, least: i64, most: i64) -> std::result::Result<i64, &'static str> {
    let text = text.trim_start();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("invalid");
    }
    let bound = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    match text.parse().unwrap_or(bound) {
        number if number < least => Err("too small"),
        number if number > most => Err("too large"),
        number => Ok(number),
    }
}

/// The same, or up to `100%` of the whole.
pub(crate) fn percentage(
    text: &str,
    least: i64,
    most: i64,
    whole: i64,
) -> std::result::Result<i64, &'static str> {
    match text.strip_suffix('%') {
        Some(share) => {
            let part = whole * number(share, 0, 100)? / 100;
            number(&part.to_string(), least, most)
        }
        None => number(text, least, most),
    }
}

/// A value as a word that would give it.
pub(crate) fn shown(value: &str) -> String {
    let quote = if value.contains([' ', '#', '\'', ';', '$', '{', '}', '%']) {
        "\""
    } else if value.contains('"') {
        "'"
    } else {
        ""
    };
    if value.is_empty() {
        return "''".to_owned();
    }
    if value.len() == 1 && value != " " && (!quote.is_empty() || value == "~") {
        return format!("\\{value}");
    }
    let mut text = String::new();
    let mut rest = value.chars().peekable();
    while let Some(character) = rest.next() {
        let next = rest.peek().copied();
        let is_name = |next: char| next.is_ascii_alphabetic() || "_{".contains(next);
        match character {
            '$' if next.is_some_and(is_name) => text += "\\$",
            '"' if quote == "\"" => text += "\\\"",
            '\\' => text += "\\\\",
            '\n' => text += "\\n",
            '\t' => text += "\\t",
            '\r' => text += "\\r",
            '\x07' => text += "\\a",
            '\x08' => text += "\\b",
            '\x0b' => text += "\\v",
            '\x0c' => text += "\\f",
            other if other.is_ascii_control() => text += &format!("\\{:03o}", other as u32),
            other => text.push(other),
        }
    }
    let tilde = if value.starts_with('~') && quote != "'" { "\\" } else { "" };
    format!("{quote}{tilde}{text}{quote}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_and_quoted_as_in_tmux() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let split = |all: &[&str]| split(words(all));
        assert_eq!(
            split(&["a", ";", "b", "c;", "d\\;", "e"]),
            [words(&["a"]), words(&["b", "c"]), words(&["d;", "e"])]
        );
        let parsed = parse("a 'b c' \"d\\\"e\"; # x\nf {g; h}\\\n i\n").unwrap();
        let commands: Vec<_> = parsed.into_iter().map(|(_, command)| command).collect();
        assert_eq!(commands, [words(&["a", "b c", "d\"e"]), words(&["f", "g; h", "i"])]);
        assert!(parse("a 'b").is_err());
        let command = find("neww").unwrap();
        let call = command.parse(&words(&["-dPF", "#S", "-t", "x", "--", "-z"])).unwrap();
        assert!(
            call.has('d') && call.has('P') && call.value('F') == Some("#S") && call.operand(0) == Some("-z")
        );
        assert!(command.parse(&words(&["-Z"])).is_err());
    }
}
