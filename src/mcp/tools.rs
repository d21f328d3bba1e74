//! The tools: their names, their arguments, and the call of `nbs-ts` that each one is.
//!
//! Their descriptions for clients come from the headers that `--help` prints. So an argument is an option's
//! name with `_` for `-`, or an operand of the usage line; its type is the option's.

use std::ffi::OsString;

use crate::{
    call::{OptionSyntax, Syntax},
    help::page::{Entry, Page},
    json::{Fields, Object, Value},
};

/// A row: a tool, and how it differs from the commands that it is.
struct Row {
    name: ToolName,
    /// The second one is for calls with `keys`, also where they have a `text`, and the third for those
    /// with an `answer`.
    commands: &'static [&'static str],
    /// The options that are not arguments.
    without: &'static [&'static str],
    /// How the paragraphs of their help begin that are of no use to a tool.
    untold: &'static [&'static str],
    /// The options that are always set.
    always: &'static [&'static str],
    /// The defaults of arguments.
    defaults: &'static [(&'static str, Preset)],
    /// The hints about the tool's effects for clients, as JSON.
    hints: &'static str,
}

#[derive(Clone, Copy)]
enum Preset {
    On,
    Value(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolName {
    Create,
    Run,
    Send,
    Wait,
    Screen,
    Read,
    List,
    Kill,
}

impl ToolName {
    /// Does a call of it wait for other commands, as long as they take?
    pub(crate) fn waits(self) -> bool {
        matches!(self, ToolName::Run | ToolName::Wait)
    }
}

/// So that the shortened output, and the lines that say how to read the rest, are within
/// [`super::answer::MOST`].
const MAX: &str = "9K";

/// Less than the minute after which many clients give up on a call, and then do not report any of its output.
const PATIENCE: &str = "50";

const READS_ONLY: &str = "{\"readOnlyHint\":true,\"openWorldHint\":false}";
const ADDS: &str = "{\"readOnlyHint\":false,\"destructiveHint\":false,\"openWorldHint\":true}";
const DOES_ANYTHING: &str = "{\"readOnlyHint\":false,\"destructiveHint\":true,\"openWorldHint\":true}";
const ENDS: &str = "{\"readOnlyHint\":false,\"destructiveHint\":true,\"openWorldHint\":false}";

/// The usual values of a row.
const PLAIN: Row = Row {
    name: ToolName::List,
    commands: &[],
    without: &[],
    untold: &[],
    always: &["--json"],
    defaults: &[],
    hints: READS_ONLY,
};

/// In the order in which they are mostly wanted, which is always the same.
const ROWS: [Row; 8] = [
    Row {
        name: ToolName::Create,
        commands: &["create"],
        without: &["owner", "parent", "no-helper", "require-helper", "pager"],
        hints: ADDS,
        ..PLAIN
    },
    Row {
        name: ToolName::Run,
        commands: &["run"],
        defaults: &[("strip", Preset::On), ("max", Preset::Value(MAX))],
        hints: DOES_ANYTHING,
        ..PLAIN
    },
    Row {
        name: ToolName::Send,
        commands: &["send", "key", "answer"],
        untold: &["A secret, one line, is typed"],
        always: &["--json", "--no-secret"],
        hints: DOES_ANYTHING,
        ..PLAIN
    },
    Row {
        name: ToolName::Wait,
        commands: &["wait"],
        defaults: &[("timeout", Preset::Value(PATIENCE))],
        ..PLAIN
    },
    // A picture excludes objects. Clients show models only PNG.
    Row { name: ToolName::Screen, commands: &["screen"], without: &["svg"], always: &[], ..PLAIN },
    Row {
        name: ToolName::Read,
        commands: &["read"],
        defaults: &[("strip", Preset::On), ("max", Preset::Value(MAX))],
        ..PLAIN
    },
    // A call that never ends has no answer.
    Row { name: ToolName::List, commands: &["list"], without: &["follow"], ..PLAIN },
    Row { name: ToolName::Kill, commands: &["kill"], hints: ENDS, ..PLAIN },
];

/// Options that no tool has: the format of an answer, and input that is passed in another way than by
/// arguments. In all tools, MACHINE selects the machine of a call.
const NEVER: [&str; 7] = ["json", "stdin", "secret-fd", "secret-stdin", "prompt", "no-secret", "on"];

/// A call of `nbs-ts`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) tool: ToolName,
    /// The command, and all that follows it.
    pub(crate) words: Vec<OsString>,
    pub(crate) input: Vec<u8>,
    /// The type of the picture that it prints, instead of objects.
    pub(crate) picture: Option<&'static str>,
}

pub(crate) struct Tools<'a> {
    tools: Vec<Tool<'a>>,
}

struct Tool<'a> {
    row: &'static Row,
    pages: Vec<Page<'a>>,
    arguments: Vec<Argument<'a>>,
}

struct Argument<'a> {
    name: String,
    takes: Takes,
    place: Place<'a>,
    help: String,
    required: bool,
    default: Option<Preset>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Number,
    Text,
    Texts,
}

#[derive(Clone, Copy)]
enum Place<'a> {
    /// Behind an option's name, with its dashes.
    Option(&'a str),
    Operand,
    /// On standard input, where a text may be of any length.
    Input,
    /// Before each session, or behind `--on` if none is named.
    Machine,
}

impl<'a> Tools<'a> {
    /// `page` returns the page of a command of `nbs-ts`, and its syntax.
    pub(crate) fn new(page: impl Fn(&str) -> (Page<'a>, &'static Syntax)) -> Tools<'a> {
        let tools = ROWS.iter().map(|row| {
            let (mut pages, mut arguments) = (Vec::new(), Vec::<Argument>::new());
            for command in row.commands {
                let (page, syntax) = page(command);
                for argument in arguments_of(row, &page, syntax) {
                    if arguments.iter().all(|known| known.name != argument.name) {
                        arguments.push(argument);
                    }
                }
                pages.push(page);
            }
            Tool { row, pages, arguments }
        });
        Tools { tools: tools.collect() }
    }

    /// All of them, as JSON.
    pub(crate) fn list(&self) -> impl Iterator<Item = Object> {
        self.tools.iter().map(Tool::object)
    }

    /// The invocation for this call, or the fault in its arguments; `None` if there is no such tool.
    pub(crate) fn invocation(&self, name: &str, arguments: &Fields) -> Option<Result<Invocation, String>> {
        self.tools.iter().find(|tool| tool.name() == name).map(|tool| tool.invocation(arguments))
    }
}

/// A command's arguments, except those that its tool omits.
fn arguments_of<'a>(row: &Row, page: &Page<'a>, syntax: &Syntax) -> Vec<Argument<'a>> {
    let reads_input = syntax.options().any(|option| option.name() == "stdin");
    let operands = syntax.operands().into_iter().map(|(operand, is_optional)| {
        let (name, takes, place, help, required) = match (operand.name, operand.is_many) {
            ("SESSION", false) => ("session", Takes::Text, Place::Operand, SESSION, true),
            ("SESSION", true) => ("sessions", Takes::Texts, Place::Operand, SESSIONS, !is_optional),
            ("KEY", _) => ("keys", Takes::Texts, Place::Operand, KEYS, false),
            ("TEXT", _) if !reads_input => ("answer", Takes::Text, Place::Operand, ANSWER, false),
            ("TEXT", _) => ("text", Takes::Text, Place::Input, TEXT, false),
            _ if reads_input => ("command", Takes::Text, Place::Input, COMMAND, !is_optional),
            _ => ("command", Takes::Text, Place::Operand, COMMAND, !is_optional),
        };
        Argument { name: name.to_owned(), takes, place, help: help.to_owned(), required, default: None }
    });
    let is_argument = |(option, _): &(&Entry<'a>, OptionSyntax)| {
        let name = option.option().trim_start_matches('-');
        !NEVER.contains(&name) && !row.without.contains(&name)
    };
    let options = page.options.iter().zip(syntax.options()).filter(is_argument).map(|(option, syntax)| {
        let name = option.option().trim_start_matches('-').replace('-', "_");
        let takes = match option.value() {
            None => Takes::Nothing,
            Some(_) if syntax.is_repeatable() => Takes::Texts,
            Some("N" | "PID") => Takes::Number,
            Some(_) => Takes::Text,
        };
        let default = row.defaults.iter().find(|(default, _)| *default == name).map(|(_, preset)| *preset);
        let mut help = option.help.clone();
        if let (Some(_), Some(other)) = (default, option.default()) {
            help = help.replace(&format!(" (default: {other})"), "");
        }
        let help = match option.value() {
            None | Some("N" | "TEXT" | "NAME") => help,
            Some("TIME") => format!("{TIME}: {help}"),
            Some("SIZE") => format!("{SIZE}: {help}"),
            Some(value) => format!("{value}: {help}"),
        };
        Argument { name, takes, place: Place::Option(option.option()), help, required: false, default }
    });
    let mut arguments: Vec<Argument> = operands.collect();
    arguments.extend(options);
    arguments.push(Argument {
        name: MACHINE.to_owned(),
        takes: Takes::Text,
        place: Place::Machine,
        help: ON_MACHINE.to_owned(),
        required: false,
        default: None,
    });
    let names: Vec<String> = arguments.iter().map(|argument| argument.name.clone()).collect();
    for argument in &mut arguments {
        argument.help = in_words_of_arguments(&argument.help, &names);
    }
    arguments
}

const MACHINE: &str = "machine";
const ON_MACHINE: &str = "the session's machine, if it is not this one: a host that ssh reaches, or a \
    name that was added by nbs-ts machine add";
const TIME: &str = "a time like 30, 500ms or 2m";
const SIZE: &str = "a size like 512, 64K or 2M";
const SESSION: &str = "a session: its handle, or @ and its name";
const SESSIONS: &str = "sessions: their handles, or @ and their names";
const KEYS: &str = "keys to type, after the text if there is one, like Enter, C-c, Up";
const TEXT: &str = "the text to type; Enter follows, unless there are keys or no_enter is true; with \
    keys and no_enter false, Enter follows, too";
const ANSWER: &str = "instead of text: the answer to the program's question: the number of a choice, how it begins, \
    yes or no, or free text; `list` with waiting shows the question";
const COMMAND: &str = "the command line, of any length; for a shell, it may have several lines";

/// A text about options in terms of arguments: `--idle-timeout` is `idle_timeout`.
fn in_words_of_arguments(text: &str, names: &[String]) -> String {
    let mut parts = text.split("--");
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
        let (option, rest) = part.split_at(end.unwrap_or(part.len()));
        let name = option.replace('-', "_");
        told += &if names.contains(&name) { format!("{name}{rest}") } else { format!("--{part}") };
    }
    told
}

impl Tool<'_> {
    fn name(&self) -> &'static str {
        // A tool is named as its first command.
        self.row.commands[0]
    }

    fn object(&self) -> Object {
        let properties = self.arguments.iter().fold(Object::new(), |properties, argument| {
            properties.object_or_null(&argument.name, Some(argument.schema()))
        });
        let required = self.arguments.iter().filter(|argument| argument.required);
        let required: Vec<Vec<u8>> = required.map(|argument| argument.name.clone().into_bytes()).collect();
        let schema = Object::new()
            .text("type", "object")
            .object_or_null("properties", Some(properties))
            .list("required", &required)
            .truth("additionalProperties", false);
        Object::new()
            .text("name", self.name())
            .text("description", &self.description())
            .object_or_null("inputSchema", Some(schema))
            .json("annotations", self.row.hints)
    }

    fn description(&self) -> String {
        let names: Vec<String> = self.arguments.iter().map(|argument| argument.name.clone()).collect();
        let mut description = String::new();
        for page in &self.pages {
            let summary = page.summary;
            description += &match description.is_empty() {
                true => format!("{}.", in_sentence_case(summary)),
                false if summary.starts_with("answer") => format!("\n\nWith `answer`: {summary}."),
                false => format!("\n\nWith `keys`: {summary}."),
            };
            let is_told =
                |paragraph: &&&str| !self.row.untold.iter().any(|begin| paragraph.starts_with(begin));
            for paragraph in page.about.iter().filter(is_told) {
                let paragraph = paragraph.replace('\n', if paragraph.starts_with(' ') { "\n" } else { " " });
                description += &format!("\n\n{}", in_words_of_arguments(&paragraph, &names));
            }
        }
        description
    }

    fn invocation(&self, given: &Fields) -> Result<Invocation, String> {
        let given = &self.in_our_words(given);
        if let Some(name) = given.keys().find(|name| self.arguments.iter().all(|known| known.name != **name))
        {
            let names: Vec<&str> = self.arguments.iter().map(|argument| &*argument.name).collect();
            return Err(format!(
                "'{name}' is not an argument of {}; try one of: {}",
                self.name(),
                names.join(", ")
            ));
        }
        let is_given = |name: &str| given.get(name).is_some_and(|value| !value.is_null());
        if let Some(missing) = self.arguments.iter().find(|known| known.required && !is_given(&known.name)) {
            return Err(format!("missing the argument '{}': {}", missing.name, missing.help));
        }
        let has_keys = is_given("keys");
        if has_keys && given.get("paste").and_then(Value::as_bool) == Some(true) {
            return Err("cannot paste keys; send the paste with no_enter, and then the keys".to_owned());
        }
        let answers = is_given("answer");
        if answers && (has_keys || is_given("text")) {
            return Err("cannot answer and type text or keys; give only one of them".to_owned());
        }
        let which = if answers { 2 } else { usize::from(has_keys) };
        let command = self.row.commands[which];
        let picture = (given.get("png").and_then(Value::as_bool) == Some(true)).then_some("image/png");
        let mut invocation =
            Invocation { tool: self.row.name, words: vec![command.into()], input: Vec::new(), picture };
        let options = &self.pages[which].options;
        let has = |option: &&&str| options.iter().any(|known| known.option() == **option);
        invocation.words.extend(self.row.always.iter().filter(has).map(OsString::from));
        if self.row.name == ToolName::Screen && picture.is_none() {
            invocation.words.push("--json".into());
        }
        let machine = given.get(MACHINE).and_then(Value::as_str);
        let names_session = is_given("session") || is_given("sessions");
        let mut operands: Vec<OsString> = Vec::new();
        for argument in &self.arguments {
            let value = given.get(&argument.name).filter(|value| !value.is_null());
            for word in argument.words(value)? {
                let word = match machine {
                    Some(machine) if argument.is_session() && !word.contains(':') => {
                        format!("{machine}:{word}")
                    }
                    _ => word,
                };
                match argument.place {
                    // A text with keys gets Enter only on request.
                    Place::Option("--no-enter") if has_keys => {}
                    Place::Machine if names_session => {}
                    Place::Machine => invocation.words.push(format!("--on={word}").into()),
                    Place::Option(option) if argument.takes == Takes::Nothing => {
                        invocation.words.push(option.into());
                    }
                    Place::Option(option) => invocation.words.push(format!("{option}={word}").into()),
                    Place::Operand => operands.push(word.into()),
                    Place::Input => {
                        invocation.words.push("--stdin".into());
                        invocation.input = word.into_bytes();
                        if has_keys && given.get("no_enter").and_then(Value::as_bool) == Some(false) {
                            invocation.input.push(b'\r');
                        }
                    }
                }
            }
        }
        invocation.words.push("--".into());
        invocation.words.extend(operands);
        Ok(invocation)
    }
}

impl Tool<'_> {
    /// The arguments under our names: a model that means one session calls it so everywhere.
    fn in_our_words(&self, given: &Fields) -> Fields {
        let has = |name: &str| self.arguments.iter().any(|argument| argument.name == name);
        let mut given = given.clone();
        if has("sessions")
            && !has("session")
            && !given.contains_key("sessions")
            && let Some(session) = given.remove("session")
        {
            given.insert("sessions".to_owned(), session);
        }
        given
    }
}

fn in_sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

impl Argument<'_> {
    /// Does it name a session, or several?
    fn is_session(&self) -> bool {
        ["session", "sessions", "inherit_cwd"].contains(&&*self.name)
    }

    fn schema(&self) -> Object {
        let schema = match self.takes {
            Takes::Nothing => Object::new().text("type", "boolean"),
            Takes::Number => Object::new().text("type", "integer").number("minimum", 0),
            Takes::Text => Object::new().text("type", "string"),
            Takes::Texts => Object::new().text("type", "array").json("items", "{\"type\":\"string\"}"),
        };
        let schema = schema.text("description", &self.help);
        match self.default {
            Some(Preset::On) => schema.truth("default", true),
            Some(Preset::Value(value)) => schema.text("default", value),
            None => schema,
        }
    }

    /// A word for each occurrence on the command line.
    fn words(&self, value: Option<&Value>) -> Result<Vec<String>, String> {
        let Some(value) = value else {
            return Ok(match self.default {
                Some(Preset::On) => vec![String::new()],
                Some(Preset::Value(value)) => vec![value.to_owned()],
                None => Vec::new(),
            });
        };
        let wrong = || {
            let wanted = match self.takes {
                Takes::Nothing => "true or false",
                Takes::Number => "a whole number",
                Takes::Text => "a string",
                Takes::Texts => "a list of strings",
            };
            format!("the value of {} is not {wanted}", self.name)
        };
        match (self.takes, value) {
            (Takes::Nothing, Value::Bool(on)) => Ok(if *on { vec![String::new()] } else { Vec::new() }),
            (Takes::Texts, Value::Array(values)) => {
                values.iter().map(|value| word(value).ok_or_else(wrong)).collect()
            }
            (Takes::Number | Takes::Text | Takes::Texts, value) => {
                word(value).map(|word| vec![word]).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }
}

/// A text, or a number, as times and sizes may be: the command judges it.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn tools() -> Tools<'static> {
        Tools::new(crate::applets::page_of_verb)
    }

    fn words(tool: &str, arguments: &str) -> Result<(String, Vec<u8>), String> {
        let arguments = crate::json::Value::parse(arguments.as_bytes()).unwrap();
        let arguments = arguments.as_object().unwrap();
        let invocation = tools().invocation(tool, arguments).expect("there is such a tool")?;
        let words: Vec<_> = invocation.words.iter().map(|word| word.to_str().unwrap()).collect();
        Ok((words.join(" "), invocation.input))
    }

    #[test]
    fn arguments_become_the_words_of_a_command_line() {
        let run = "run --json --stdin --strip --max=9K -- @a";
        assert_eq!(words("run", r#"{"session":"@a","command":"-x"}"#), Ok((run.to_owned(), b"-x".into())));
        let cases = [
            (
                "run",
                r#"{"session":"@a","resume":true,"strip":false,"max":7,"timeout":1.5}"#,
                "run --json --resume --timeout=1.5 --max=7 -- @a",
            ),
            (
                "create",
                r#"{"command":"b","env":["A=1","B=2"],"cwd":null}"#,
                "create --json --env=A=1 --env=B=2 -- b",
            ),
            (
                "read",
                r#"{"session":"a","offset":"7","limit":9}"#,
                "read --json --offset=7 --limit=9 --max=9K --strip -- a",
            ),
            ("screen", r#"{"session":"a"}"#, "screen --json -- a"),
            ("screen", r#"{"session":"a","png":true}"#, "screen --png -- a"),
            ("send", r#"{"session":"a","keys":["C-c","--all"]}"#, "key --json --no-secret -- a C-c --all"),
            ("send", r#"{"session":"a","keys":"C-c"}"#, "key --json --no-secret -- a C-c"),
        ];
        for (tool, arguments, line) in cases {
            assert_eq!(words(tool, arguments), Ok((line.to_owned(), Vec::new())), "{arguments}");
        }
        for (no_enter, typed) in [("", "x"), (",\"no_enter\":true", "x"), (",\"no_enter\":false", "x\r")] {
            let given = format!("{{\"session\":\"a\",\"text\":\"x\",\"keys\":[\"Up\"]{no_enter}}}");
            let line = "key --json --no-secret --stdin -- a Up".to_owned();
            assert_eq!(words("send", &given), Ok((line, typed.into())), "{given}");
        }
        let (line, input) =
            words("send", "{\"session\":\"a\",\"text\":\"x\\u0000--y\",\"paste\":true}").unwrap();
        assert_eq!((&*line, &*input), ("send --json --no-secret --stdin --paste -- a", &b"x\0--y"[..]));
    }

    #[test]
    fn an_error_names_what_is_wrong_with_arguments() {
        let cases = [
            ("create", "{\"name\":\"a\"}", "missing the argument 'command'"),
            ("run", "{\"command\":\"a\",\"session\":null}", "missing the argument 'session'"),
            (
                "run",
                "{\"session\":\"a\",\"command\":\"b\",\"json\":true}",
                "'json' is not an argument of run",
            ),
            ("run", "{\"session\":{},\"command\":\"b\"}", "the value of session is not a string"),
            ("run", "{\"session\":\"a\",\"command\":\"b\",\"strip\":1}", "is not true or false"),
            ("create", "{\"command\":\"b\",\"env\":[[]]}", "is not a list of strings"),
            ("send", "{\"session\":\"a\",\"keys\":[\"b\"],\"paste\":true}", "cannot paste keys"),
            ("list", "{\"follow\":true}", "'follow' is not an argument of list"),
            ("kill", "{\"session\":\"a\",\"sessions\":[\"b\"]}", "'session' is not an argument of kill"),
        ];
        for (tool, arguments, why) in cases {
            let said = words(tool, arguments).unwrap_err();
            assert!(said.contains(why), "{arguments}: {said}");
        }
        assert!(tools().invocation("none", &Fields::new()).is_none());
    }

    #[test]
    fn a_tool_is_told_in_the_words_of_its_arguments() {
        let list: Vec<Value> =
            tools().list().map(|tool| serde_json::from_str(&tool.value()).unwrap()).collect();
        let names: Vec<&str> = list.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["create", "run", "send", "wait", "screen", "read", "list", "kill"]);
        let (create, run, send) = (&list[0]["inputSchema"], &list[1]["inputSchema"], &list[2]);
        let told = list[3]["description"].as_str().unwrap();
        assert!(told.starts_with("Wait ") && told.contains("\n\n") && !told.contains("--idle"), "{told}");
        assert_eq!(create["required"], serde_json::json!(["command"]));
        assert_eq!(create["properties"]["idle_timeout"]["type"], "string");
        assert_eq!(create["properties"]["env"]["items"]["type"], "string");
        assert_eq!(run["required"], serde_json::json!(["session"]));
        assert_eq!(run["properties"]["strip"]["default"], true);
        assert_eq!(list[5]["inputSchema"]["properties"]["last"]["type"], "integer");
        assert!(send["description"].as_str().unwrap().contains("\n\nWith `keys`: type "), "{send}");
        assert_eq!(send["inputSchema"]["required"], serde_json::json!(["session"]));
        assert!(list[2]["inputSchema"]["properties"].get("stdin").is_none());
    }
}
