//! Rules: they interpret the screens of programs that do not report their state.
//!
//! They are data (`rules/agents`, and files in the directory `rules` of the state directory): a stanza
//! for each program, with regular expressions for the rows of its screen, its title and its notices.
//! The relay does not use them: each reader of a session also reads its screen, if its program has
//! rules.
//!
//! Pure, except for reading the files.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
};

use regex_lite::{Regex, RegexBuilder};

use crate::{
    session::{Because, SessionDir, StateDir},
    sys::files::Folder,
    terminal::text,
};

/// The rules that come with nbs.
const BUILT_IN: &str = include_str!(concat!(env!("OUT_DIR"), "/agents"));

/// The directory of the user's own rules, in the state directory.
pub(crate) const FOLDER: &str = "rules";

/// The longest file that is read, and how many are.
const LONGEST_FILE: u64 = 64 << 10;
const MOST_FILES: usize = 100;

/// A row is matched against each line of a stanza, in a time that grows with their number and with the
/// bytes of each compiled regular expression.
const MOST_LINES: usize = 100;
const LONGEST_REGEX: usize = 32 << 10;

/// The longest question that is shown, in characters.
const LONGEST_QUESTION: usize = 400;

/// How many rows a question has at most, above its choices.
const MOST_ROWS: usize = 12;

/// The state of a program, by its screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    Asks(Keys),
    Works,
    /// It takes a task.
    Rests,
}

/// How a program wants a choice to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// By its number.
    Digit,
    /// By the arrows up and down to it, and Enter; or by those to the left and right.
    Arrows,
    Row,
    /// By the key that follows it.
    Letter,
    /// By its word, and Enter.
    Line,
}

impl Keys {
    const WORDS: [(&str, Keys); 5] = [
        ("digit", Keys::Digit),
        ("arrows", Keys::Arrows),
        ("row", Keys::Row),
        ("letter", Keys::Letter),
        ("line", Keys::Line),
    ];
}

/// The result of a program's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) shows: Shows,
    pub(crate) because: Because,
    /// If it asks, the position of its question on the screen.
    pub(crate) question: Option<Question>,
    /// No row shows that it was given a task which it has not begun.
    pub(crate) is_over: bool,
}

/// The question as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// In one line that can be shown.
    pub(crate) text: String,
    pub(crate) choices: Vec<Choice>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) text: String,
    /// Enter selects it.
    pub(crate) is_marked: bool,
}

/// The subject of a line of a stanza.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Row(Shows),
    Title(Shows),
    Notice(Shows),
    From,
    Choice,
    /// The preceding `asks` line counts only if such a row is below its row.
    Below,
    /// The end of a turn leaves such a row.
    Ends,
    /// It shows such a row while it starts, when it may keep a task for later; the row may stay on the screen.
    Begins,
}

/// The rules of a program.
#[derive(Debug)]
pub(crate) struct Rules {
    lines: Vec<(About, Regex)>,
}

impl Rules {
    /// Those for the program at this path, of a session: the user's own go first.
    pub(crate) fn of(session: &SessionDir, program: &[u8]) -> Option<Rules> {
        let program = String::from_utf8_lossy(program);
        let own = session.folder.open_folder(OsStr::new("../..")).and_then(|state| own_files(&state));
        let own = own.unwrap_or_default();
        let texts = own.iter().filter_map(|(_, text)| text.as_deref().ok()).chain([BUILT_IN]);
        texts.filter_map(|text| find(text, &program)).next()
    }

    /// Applies the rules to a screen of these rows, with this title; the notice is the last one since
    /// input.
    pub(crate) fn look(&self, rows: &[String], title: Option<&str>, notice: Option<&str>) -> Option<Seen> {
        let rows: Vec<&str> = rows.iter().map(|row| bare(row)).collect();
        let asks = self.question(&rows);
        let is_over = self.is_over(&rows);
        let question = |doing| match doing {
            Shows::Asks(_) => asks.as_ref().map(|(_, question)| question.clone()),
            Shows::Works | Shows::Rests => None,
        };
        // How it is answered is known by the screen.
        let keys = |doing| match (doing, &asks) {
            (Shows::Asks(_), Some((keys, _))) => Shows::Asks(*keys),
            _ => doing,
        };
        let told = |text: Option<&str>, wanted: &dyn Fn(About) -> Option<Shows>, because| {
            let text = text?;
            let mut lines = self.lines.iter().filter_map(|(about, regex)| Some((wanted(*about)?, regex)));
            let (doing, _) = lines.find(|(_, regex)| regex.is_match(text))?;
            Some(Seen { shows: keys(doing), because, question: question(doing), is_over })
        };
        let of_title = |about| if let About::Title(doing) = about { Some(doing) } else { None };
        let of_notice = |about| if let About::Notice(doing) = about { Some(doing) } else { None };
        told(title, &of_title, Because::Title).or_else(|| told(notice, &of_notice, Because::Notice)).or_else(
            || {
                let doing = match &asks {
                    Some((keys, _)) => Shows::Asks(*keys),
                    None => [Shows::Works, Shows::Rests]
                        .into_iter()
                        .find(|doing| rows.iter().any(|row| self.is_said(About::Row(*doing), row)))?,
                };
                let (because, question) = (Because::Rule, question(doing));
                Some(Seen { shows: doing, because, question, is_over })
            },
        )
    }

    /// Does a row show that it takes a task? If the rules have no such rows, any does.
    pub(super) fn has_input(&self, rows: &[String]) -> bool {
        let is_known = self.lines.iter().any(|(about, _)| *about == About::Row(Shows::Rests));
        !is_known || rows.iter().any(|row| self.is_input(bare(row)))
    }

    pub(super) fn is_input(&self, row: &str) -> bool {
        self.is_said(About::Row(Shows::Rests), row)
    }

    /// As [`Seen::is_over`].
    fn is_over(&self, rows: &[&str]) -> bool {
        let has = |wanted| self.lines.iter().any(|(about, _)| *about == wanted);
        let has_end = |rows: &[&str]| rows.iter().any(|row| self.is_said(About::Ends, row));
        match rows.iter().rposition(|row| self.is_said(About::Begins, row)) {
            Some(at) => has_end(&rows[at..]),
            None => has(About::Begins) || !has(About::Ends) || has_end(rows),
        }
    }

    fn is_said(&self, wanted: About, row: &str) -> bool {
        self.lines.iter().any(|(about, regex)| *about == wanted && regex.is_match(row))
    }

    /// The question, if there is one: the last row that asks, with the rows that belong to it above
    /// and below.
    fn question(&self, rows: &[&str]) -> Option<(Keys, Question)> {
        let below = |number: usize, rows: &[&str]| match self.lines.get(number + 1) {
            Some((About::Below, regex)) => rows.iter().any(|row| regex.is_match(row)),
            _ => true,
        };
        let asks = |at: usize| {
            self.lines.iter().enumerate().find_map(|(number, (about, regex))| match about {
                About::Row(Shows::Asks(keys)) if regex.is_match(rows[at]) && below(number, &rows[at..]) => {
                    Some(*keys)
                }
                _ => None,
            })
        };
        let (at, keys, first, choices) = (0..rows.len()).rev().find_map(|at| {
            let keys = asks(at)?;
            let (first, choices) = self.choices(&rows[at..]);
            // An answered question no longer has choices.
            (keys == Keys::Line || !choices.is_empty()).then_some((at, keys, first, choices))
        })?;
        let above = at.saturating_sub(MOST_ROWS);
        let from = (above..at).rev().find(|from| self.is_said(About::From, rows[*from])).unwrap_or(at);
        let end = if choices.is_empty() { at + 1 } else { (at + first).max(at + 1) };
        let said = rows[from..end.min(from + MOST_ROWS)].iter().filter(|row| !row.is_empty());
        let said = said.copied().collect::<Vec<_>>().join(" ");
        let said: String = said.chars().take(LONGEST_QUESTION).collect();
        let text = text::escaped(said.as_bytes());
        let choices = if choices.is_empty() { choices_in(&text) } else { choices };
        Some((keys, Question { text, choices }))
    }

    /// The choices on these rows, and the index of the row with the first one.
    fn choices(&self, rows: &[&str]) -> (usize, Vec<Choice>) {
        let groups = |row: &str, _: usize| -> Vec<String> {
            let mut regexes = self.lines.iter().filter(|(about, _)| *about == About::Choice);
            let Some(captures) = regexes.find_map(|(_, regex)| regex.captures(row)) else {
                return Vec::new();
            };
            (1..captures.len()).filter_map(|group| Some(captures.get(group)?.as_str().to_owned())).collect()
        };
        let numbers = |row: &str, number| numbered(row, number).map(str::to_owned).into_iter().collect();
        let own = choices_by(rows, &groups);
        if own.1.is_empty() { choices_by(rows, &numbers) } else { own }
    }
}

/// The choices that `find` finds on these rows, if it gets the number of the next one, too.
fn choices_by(rows: &[&str], find: &dyn Fn(&str, usize) -> Vec<String>) -> (usize, Vec<Choice>) {
    let (mut first, mut choices) = (0, Vec::new());
    for (at, row) in rows.iter().enumerate() {
        let (row, is_marked) = unmarked(row);
        let found = find(row, choices.len() + 1);
        if !found.is_empty() && choices.is_empty() {
            first = at;
        }
        choices.extend(found.into_iter().map(|text| Choice { text: text.trim().to_owned(), is_marked }));
    }
    (first, choices)
}

/// A row without the border and the blanks around it.
pub(super) fn bare(row: &str) -> &str {
    let is_border = |letter: char| matches!(letter, '\u{2500}'..='\u{259f}' | ' ' | '\u{a0}' | '|');
    row.trim_matches(is_border)
}

/// A row without the mark of a choice, and whether the choice is selected.
fn unmarked(row: &str) -> (&str, bool) {
    let row = row.trim_start();
    for (marks, is_marked) in [("❯›●→▶▸►◉>", true), ("○◯◌", false)] {
        if let Some(rest) = row.strip_prefix(|letter| marks.contains(letter))
            && let Some(rest) = rest.strip_prefix(' ')
        {
            return (rest.trim_start(), is_marked);
        }
    }
    (row, false)
}

/// The text behind a number, if it is this one.
fn numbered(row: &str, number: usize) -> Option<&str> {
    let rest = row.strip_prefix(&number.to_string())?;
    let text = rest.strip_prefix(['.', ')'])?;
    text.starts_with(' ').then(|| text.trim()).filter(|text| !text.is_empty())
}

/// The choices that a line names at its end: in lower case those of `[Y/n]` and `(yes/no)`, and unchanged the
/// keys of `[y,n,q,?]`, as git lists them.
pub(crate) fn choices_in(line: &str) -> Vec<Choice> {
    let line = line.trim_end().trim_end_matches([':', '?', ' ', '>']);
    let Some(end) = line.strip_suffix([']', ')']) else { return Vec::new() };
    let Some(at) = end.rfind(['[', '(']) else { return Vec::new() };
    let listed = &end[at + 1..];
    let keys: Vec<&str> = listed.split(',').collect();
    if keys.len() > 1 && keys.iter().all(|key| key.len() == 1 && key.as_bytes()[0].is_ascii_graphic()) {
        return keys.into_iter().map(|key| Choice { is_marked: false, text: key.to_owned() }).collect();
    }
    let words: Vec<&str> = listed.split('/').map(str::trim).collect();
    let is_word = |word: &&str| {
        !word.is_empty()
            && word.len() <= 12
            && word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'?')
    };
    if words.len() < 2 || !words.iter().all(is_word) {
        return Vec::new();
    }
    // Enter alone selects the one in capital letters.
    let capitals = words.iter().filter(|word| word.bytes().all(|byte| byte.is_ascii_uppercase())).count();
    let choice = |word: &str| Choice {
        is_marked: capitals == 1 && word.bytes().all(|byte| byte.is_ascii_uppercase()),
        text: word.to_ascii_lowercase(),
    };
    words.into_iter().map(choice).collect()
}

/// The rules for a program in such a file; other stanzas are not parsed.
fn find(text: &str, program: &str) -> Option<Rules> {
    let stanzas = stanzas(text);
    let stanza = stanzas.into_iter().find(|stanza| is_of(&stanza.names, program))?;
    compile(stanza).ok()
}

/// Is this path, or name, that of a program with one of these names?
fn is_of(names: &[String], program: &str) -> bool {
    let base = program.rsplit('/').next().unwrap_or(program);
    let stem = [".js", ".mjs", ".cjs", ".py"].iter().find_map(|end| base.strip_suffix(end)).unwrap_or(base);
    names.iter().any(|name| stem == name || program.contains(&format!("/{name}/")) || program == name)
}

/// A stanza as it was written, each line with its number.
struct Stanza<'a> {
    names: Vec<String>,
    lines: Vec<(usize, &'a str)>,
}

fn stanzas(text: &str) -> Vec<Stanza<'_>> {
    let mut stanzas: Vec<Stanza> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        // A regex may end with a blank.
        let line = line.trim_start();
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match (line.strip_prefix("program "), stanzas.last_mut()) {
            (Some(names), _) => {
                let names = names.split_whitespace().map(str::to_owned).collect();
                stanzas.push(Stanza { names, lines: Vec::new() });
            }
            (None, Some(stanza)) => stanza.lines.push((at + 1, line)),
            // Lines before the first stanza belong to none, and `compile` reports that.
            (None, None) => stanzas.push(Stanza { names: Vec::new(), lines: vec![(at + 1, line)] }),
        }
    }
    stanzas
}

fn compile(stanza: Stanza) -> Result<Rules, String> {
    let Stanza { names, lines: written } = stanza;
    let mut lines = Vec::new();
    for (number, line) in written {
        let bad = |why: &str| format!("line {number}: {why}");
        if lines.len() == MOST_LINES {
            return Err(bad(&format!("a stanza has at most {MOST_LINES} lines")));
        }
        if names.is_empty() {
            return Err(bad("a stanza must begin with 'program' and its names"));
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let doing = |word: &str| match word {
            "asks" => Some(Shows::Asks(Keys::Digit)),
            "works" => Some(Shows::Works),
            "rests" => Some(Shows::Rests),
            _ => None,
        };
        let second = || rest.split_once(' ').unwrap_or((rest, ""));
        let (about, regex) = match word {
            "asks" => {
                let (word, regex) = second();
                let keys = Keys::WORDS.into_iter().find(|(known, _)| *known == word);
                let Some((_, keys)) = keys else {
                    return Err(bad("'asks' must be followed by digit, arrows, row, letter or line"));
                };
                (About::Row(Shows::Asks(keys)), regex)
            }
            "title" | "notice" => {
                let (word_of, regex) = second();
                let Some(doing) = doing(word_of) else {
                    return Err(bad("'title' and 'notice' must be followed by asks, works or rests"));
                };
                (if word == "title" { About::Title(doing) } else { About::Notice(doing) }, regex)
            }
            "ends" => (About::Ends, rest),
            "begins" => (About::Begins, rest),
            "from" => (About::From, rest),
            "choice" => (About::Choice, rest),
            "below" => match lines.last() {
                Some((About::Row(Shows::Asks(_)), _)) => (About::Below, rest),
                _ => return Err(bad("'below' must follow a line 'asks'")),
            },
            _ => match doing(word) {
                Some(doing) => (About::Row(doing), rest),
                None => {
                    let known =
                        "program, asks, below, works, rests, begins, ends, title, notice, from or choice";
                    return Err(bad(&format!("'{}' is not {known}", text::escaped(word.as_bytes()))));
                }
            },
        };
        if regex.is_empty() {
            return Err(bad("a regular expression is missing"));
        }
        let regex = RegexBuilder::new(regex).size_limit(LONGEST_REGEX).build();
        let regex = regex.map_err(|error| bad(&format!("this is not a regular expression: {error}")))?;
        lines.push((about, regex));
    }
    Ok(Rules { lines })
}

/// The first fault in such a file; `None` if there is none.
fn fault(text: &str) -> Option<String> {
    let mut stanzas = stanzas(text).into_iter();
    stanzas.find_map(|stanza| compile(stanza).err())
}

/// The user's own, in the order of their names.
fn own_files(state: &Folder) -> io::Result<Vec<(String, Result<String, String>)>> {
    let folder = state.open_folder(OsStr::new(FOLDER))?;
    let mut names = folder.names()?;
    names.retain(|name| !name.as_bytes().starts_with(b"."));
    names.sort_unstable();
    names.truncate(MOST_FILES);
    let read = |name: &OsString| {
        let text = match name.to_str() {
            Some(name) => folder.read(name, LONGEST_FILE).map_err(|error| error.to_string()),
            None => Err("its name is not UTF-8".to_owned()),
        };
        let text = text.and_then(|text| String::from_utf8(text).map_err(|error| error.to_string()));
        (text::escaped(name.as_bytes()), text)
    };
    Ok(names.iter().map(read).collect())
}

impl StateDir {
    /// The user's rules files, each with its first fault, if it has one.
    pub(crate) fn own_rules(&self) -> Vec<(String, Option<String>)> {
        let state = Folder::open(self.path());
        let files = state.and_then(|state| own_files(&state)).unwrap_or_default();
        files.into_iter().map(|(name, text)| (name, text.map_or_else(Some, |text| fault(&text)))).collect()
    }
}

/// Programs that execute a script, by how their names begin.
const INTERPRETERS: [&str; 9] = ["node", "bun", "deno", "python", "bash", "sh", "dash", "zsh", "ruby"];

/// The name of a program, from its arguments: its own path, or that of the script or module that it
/// executes.
pub(crate) fn program_of(arguments: &[Vec<u8>]) -> Option<Vec<u8>> {
    let own = arguments.first()?;
    let name = own.rsplit(|byte| *byte == b'/').next().unwrap_or(own);
    let is_interpreter = INTERPRETERS.iter().any(|known| {
        name.strip_prefix(known.as_bytes())
            .is_some_and(|rest| rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'))
    });
    if !is_interpreter {
        return Some(own.clone());
    }
    let mut rest = arguments[1..].iter();
    while let Some(argument) = rest.next() {
        match &argument[..] {
            b"-m" => return rest.next().cloned(),
            b"-c" | b"-e" | b"-" | b"" => return Some(own.clone()),
            [b'-', ..] => {}
            _ => return Some(argument.clone()),
        }
    }
    Some(own.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(program: &str) -> Rules {
        find(BUILT_IN, program).unwrap_or_else(|| panic!("no rules for {program}"))
    }

    fn rows(screen: &str) -> Vec<String> {
        screen.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_program_is_known_by_its_path_or_that_of_its_script() {
        for (arguments, expected) in [
            (&["codex"][..], true),
            (&["/usr/lib/node_modules/@openai/codex-linux-x64/vendor/codex"], true),
            (&["node", "--no-warnings", "/usr/bin/codex", "-p"], true),
            (&["/usr/bin/node", "/usr/lib/node_modules/@openai/codex/bin/main.mjs"], true),
            (&["python3.12", "-m", "codex"], true),
            (&["vim", "/usr/bin/codex"], false),
            (&["bash", "-c", "codex"], false),
            (&["-bash"], false),
            (&["nodemon", "codex"], false),
        ] {
            let arguments: Vec<Vec<u8>> = arguments.iter().map(|word| word.as_bytes().to_vec()).collect();
            let program = String::from_utf8(program_of(&arguments).unwrap()).unwrap();
            assert_eq!(find(BUILT_IN, &program).is_some(), expected, "{program}");
        }
        assert_eq!(program_of(&[]), None);
        for name in
            ["claude", "gemini", "qwen", "opencode", "copilot", "cursor-agent", "aider", "goose", "amp"]
        {
            rules(name);
        }
        assert_eq!(fault(BUILT_IN), None);
    }

    #[test]
    fn a_task_that_has_not_begun_is_not_over() {
        for (program, screen, expected) in [
            ("opencode", "  ┃  Ask anything…", false),
            ("opencode", "  ┃  Do it\n     ▣  Build · scripted-1\n  ┃\n  ctrl+p commands", false),
            ("opencode", "  ┃  Do it\n     ▣  Build · scripted-1 · 2.3s\n  ┃\n  ctrl+p commands", true),
            ("opencode", "  ┃  Do it\n     ▣  Build · scripted-1 · 1m 2s\n  ┃\n  ctrl+p commands", true),
            ("opencode", "  ┃  Do it\n     ▣  Build · scripted-1 · interrupted\n  ctrl+p commands", true),
            ("qwen", "> Type your message", true),
            ("gemini", "Queued (press ↑ to edit):\n  Do it\n > Type your message", false),
            ("gemini", "ℹ Initializing... Prompts will be queued.\n > Type your message", false),
            ("gemini", "ℹ Initializing... Prompts will be queued.\n✦ Done.\n > Type your message", true),
            ("gemini", "It is done.\n > Type your message", true),
        ] {
            let seen = rules(program).look(&rows(screen), None, None).unwrap();
            assert_eq!((seen.shows, seen.is_over), (Shows::Rests, expected), "{screen}");
        }
    }

    #[test]
    fn each_screen_tells_what_is_done_and_what_is_asked() {
        use Keys::{Arrows, Digit, Row};
        let asks = |keys, question: &str, choices: &[&str]| {
            (
                Shows::Asks(keys),
                Some((question.to_owned(), choices.iter().map(|text| (*text).to_owned()).collect())),
            )
        };
        type Told = (Shows, Option<(String, Vec<String>)>);
        let cases: [(&str, &str, &str, Told); 24] = [
            (
                "codex",
                "[ ! ] Action Required | w",
                "  Would you like to run the following command?\n\n  Reason: need it\n\n  $ touch x\n\n\
                 › 1. Yes, proceed (y)\n  2. Yes, and don't ask again (p)\n  3. No, and tell Codex what to do (esc)\n\n  Press enter",
                asks(
                    Digit,
                    "Would you like to run the following command? Reason: need it $ touch x",
                    &[
                        "Yes, proceed (y)",
                        "Yes, and don't ask again (p)",
                        "No, and tell Codex what to do (esc)",
                    ],
                ),
            ),
            (
                "codex",
                "⠋ w",
                "• Working (3s • esc to interrupt)\n\n› Ask Codex to do anything",
                (Shows::Works, None),
            ),
            (
                "codex",
                "w",
                "• Working (3s • esc to interrupt)\n\n› Ask Codex to do anything",
                (Shows::Works, None),
            ),
            ("codex", "w", "• Done.\n\n› Ask Codex to do anything\n", (Shows::Rests, None)),
            (
                "codex",
                "[ ! ] Action Required | w",
                "  Question 1/2 (2 unanswered)\n  Which colour?\n\n  › 1. Red   Like blood\n    2. Blue  Like the sky\n\n  tab to add notes | enter to submit answer | esc to interrupt",
                asks(Digit, "Which colour?", &["Red   Like blood", "Blue  Like the sky"]),
            ),
            (
                "codex",
                "[ ! ] Action Required | w",
                "  Question 2/2 (1 unanswered)\n  Choose a colour.\n\n  › 1. Red   Like blood\n\n  enter to submit all",
                asks(Digit, "Question 2/2 (1 unanswered) Choose a colour.", &["Red   Like blood"]),
            ),
            (
                "claude",
                "✳ Claude Code",
                "❯ touch it\n╭──────────╮\n│ Bash command │\n╌╌╌╌╌╌╌\n   touch x\n╌╌╌╌╌╌╌\n Do you want to proceed?\n ❯ 1. Yes\n   2. Yes, and don't ask\n   3. No",
                asks(
                    Digit,
                    "Bash command touch x Do you want to proceed?",
                    &["Yes", "Yes, and don't ask", "No"],
                ),
            ),
            (
                "claude",
                "✳ Claude Code",
                "───────\n ☐ Choice\n\nWhich colour do you want?\n\n❯ 1. Red\n     Like blood\n  2. Blue\n     Like the sky\n  3. Type something.\n──────\n  4. Chat about this\n\nEnter to select",
                asks(
                    Arrows,
                    "☐ Choice Which colour do you want?",
                    &["Red", "Blue", "Type something.", "Chat about this"],
                ),
            ),
            ("claude", "◐ Claude Code", "❯ 1. Yes", (Shows::Works, None)),
            ("claude", "✳ Claude Code", "● Done\n\n────\n❯ \n────", (Shows::Rests, None)),
            (
                "gemini",
                "✋  Action Required (w)      ",
                "╭─────────╮\n│ Action Required │\n│ ?  Shell touch x │\n│ Allow execution of [Shell]?  │\n│                │\n│ ● 1. Allow once │\n│   2. Allow for this session │\n│   3. No, suggest changes (esc) │\n╰─────────╯",
                asks(
                    Digit,
                    "?  Shell touch x Allow execution of [Shell]?",
                    &["Allow once", "Allow for this session", "No, suggest changes (esc)"],
                ),
            ),
            ("gemini", "✦  Working… (w)", "> Type your message", (Shows::Works, None)),
            ("gemini", "◇  Ready (w)", "> Type your message", (Shows::Rests, None)),
            (
                "qwen",
                "✳︎ Qwen - w",
                "Allow execution of: 'touch'?\n\n› 1. Yes, allow once\n  2. Always\n  4. No, suggest changes (esc)\n⠏ Waiting for user confirmation...",
                asks(Digit, "Allow execution of: 'touch'?", &["Yes, allow once", "Always"]),
            ),
            ("qwen", "Qwen - w", ">   Type your message or @path/to/file", (Shows::Rests, None)),
            (
                "opencode",
                "OpenCode",
                "  ┃  △ Permission required\n  ┃    # Shell command\n  ┃  $ touch x\n  ┃\n  ┃   Allow once   Allow always   Reject      ⇆ select  enter confirm",
                asks(
                    Row,
                    "△ Permission required # Shell command $ touch x",
                    &["Allow once", "Allow always", "Reject"],
                ),
            ),
            ("opencode", "OC | x", "■■⬝⬝⬝⬝⬝⬝  esc interrupt", (Shows::Works, None)),
            (
                "opencode",
                "OC | x",
                "  ┃  Shall I?\n     → Asked 1 question\n     ▣  Build · scripted-1\n  ┃\n  ┃  Which colour?\n  ┃\n  ┃  1. Red\n  ┃     Like blood\n  ┃  2. Blue\n  ┃     Like the sky\n  ┃  3. Type your own answer\n  ┃\n  ┃  ↑↓ select  enter submit  esc dismiss",
                asks(Arrows, "Which colour?", &["Red", "Blue", "Type your own answer"]),
            ),
            (
                "opencode",
                "OC | x",
                "     What do you want?\n     1. This\n     2. That\n  ┃  Ask anything…",
                (Shows::Rests, None),
            ),
            ("opencode", "OpenCode", "  ┃  Ask anything… \"Fix broken tests\"", (Shows::Rests, None)),
            (
                "copilot",
                "",
                "$ Shell do it    ┃\n  touch x    ┃\n╭────────╮\n│ do it │\n│ ────── │\n│ │ touch x │ │\n│        │\n│ Do you want to run this command? │\n│        │\n│ ❯ 1. Yes │\n│   2. No, and tell Copilot what to do differently (Esc to stop) │\n│ ↑/↓ to navigate · enter to select · esc to cancel │",
                asks(
                    Digit,
                    "$ Shell do it touch x do it touch x Do you want to run this command?",
                    &["Yes", "No, and tell Copilot what to do differently (Esc to stop)"],
                ),
            ),
            (
                "copilot",
                "",
                "❯ touch it\n────────\n❯\n────────\n ◉ Working · 81 B esc esc interrupt    scripted-1",
                (Shows::Works, None),
            ),
            (
                "copilot",
                "",
                "▄▄▄▄\n┃\n▀▀▀▀\n ← open sidebar · Interactive · Manual Approval · / commands · ? help · tab next tab",
                (Shows::Rests, None),
            ),
            (
                "copilot",
                "",
                "────────\n❯ touch it\n────────\n Interactive · Manual Approval · @ files · # issues",
                (Shows::Rests, None),
            ),
        ];
        for (program, title, screen, (shows, question)) in cases {
            let seen = rules(program).look(&rows(screen), Some(title), None).unwrap();
            let told = seen.question.map(|question| {
                (question.text, question.choices.into_iter().map(|choice| choice.text).collect::<Vec<_>>())
            });
            assert_eq!((seen.shows, told), (shows, question), "{program}: {screen}");
        }
    }

    #[test]
    fn the_title_goes_before_a_notice_and_that_before_the_screen() {
        let screen = rows("› Ask Codex to do anything");
        let codex = rules("codex");
        let because =
            |title, notice| codex.look(&screen, title, notice).map(|seen| (seen.shows, seen.because));
        let asks = Shows::Asks(Keys::Digit);
        let notice = Some("Approval requested: touch x");
        assert_eq!(because(Some("w"), None), Some((Shows::Rests, Because::Rule)));
        assert_eq!(because(Some("w"), notice), Some((asks, Because::Notice)));
        assert_eq!(because(Some("⠋ w"), notice), Some((Shows::Works, Because::Title)));
        assert_eq!(because(Some("[ . ] Action Required | w"), None), Some((asks, Because::Title)));
        assert_eq!(codex.look(&rows("nothing that is known"), None, None), None);
    }

    #[test]
    fn an_invalid_rule_is_named_by_its_line() {
        for (text, why) in [
            ("works x", "line 1: a stanza must begin with 'program'"),
            ("program a\nworks [", "line 2: this is not a regular expression"),
            ("program a\n\n# b\nworks", "line 4: a regular expression is missing"),
            ("program a\nasks x", "line 2: 'asks' must be followed by digit, arrows, row, letter or line"),
            ("program a\ntitle x y", "line 2: 'title' and 'notice' must be followed by"),
            ("program a\nwoks x", "line 2: 'woks' is not program, asks"),
            (
                "program a\nworks ((a{1,20}){1,20}){1,20}b",
                "line 2: this is not a regular expression: compiled",
            ),
            (&format!("program a\n{}", "works x\n".repeat(101)), "line 102: a stanza has at most 100 lines"),
            ("program a\nworks x\nprogram b\nwo\u{1b}ks x", "line 4: 'wo\\eks' is not"),
        ] {
            let told = fault(text).unwrap_or_default();
            assert!(told.starts_with(why), "{text:?}: {told}");
        }
        // The other program's rules still apply.
        assert!(find("program a\nworks [\nprogram b\nworks x", "b").is_some());
    }

    #[test]
    fn a_line_names_its_choices() {
        let choices = |line: &str| -> Vec<(String, bool)> {
            choices_in(line).into_iter().map(|choice| (choice.text, choice.is_marked)).collect()
        };
        let pair = |first: &str, second: &str, marked: usize| {
            vec![(first.to_owned(), marked == 1), (second.to_owned(), marked == 2)]
        };
        assert_eq!(choices("Install now? [y/N]"), pair("y", "n", 2));
        assert_eq!(choices("Go on (yes/no)? "), pair("yes", "no", 0));
        assert_eq!(choices("Do it? [Y/n]: "), pair("y", "n", 1));
        let keys = |keys: &str| keys.chars().map(|key| (key.to_string(), false)).collect::<Vec<_>>();
        assert_eq!(choices("(1/2) Stage this hunk [y,n,q,a,d,J,j,/,?]? "), keys("ynqadJj/?"));
        for line in ["Name (a b): ", "Delete build/? ", "[1/2]", "see [x]", "", "a/b"] {
            assert_eq!(choices(line), [], "{line}");
        }
    }
}
