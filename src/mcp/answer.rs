//! The result of a call, as the result of a tool: a text for the model, or the objects that `--json` prints.
//!
//! It is one of the two, never both: of clients that got both, some showed the model both, and some only the
//! structure, escaped. Text is the default; structure is for a client that declares that it reads it.
//!
//! A result is never larger than a model can bear, unless the model asks for that: the output of a tool
//! without a limit is cut at [`MOST`] bytes. A note at the end names the omitted part, in terms of the tools.

use crate::{
    json::{self, Fields, Object, Value},
    mcp::{call::Ended, message, tools::ToolName},
    numbers::base64,
};

/// How many bytes a result has, that was not asked to have more.
pub(crate) const MOST: usize = 10_000;

/// How much of the omitted part one `read` should read: within [`MOST`], with the line behind it.
const PART: &str = "8000";

/// The same for a call's messages, which a model reads to their end.
const MOST_SAID: usize = 4_000;

/// The size of the array around the objects of several sessions.
const FRAME: usize = 100;

/// The part of a result that a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    Text,
    /// The objects of `--json`, if the tool has them, and else text.
    Structure,
}

/// The result of a tool whose call has ended; `picture` is the type of the picture that it printed.
pub(crate) fn result(tool: ToolName, form: AnswerForm, picture: Option<&str>, ended: &Ended) -> Object {
    let said = said(&ended.stderr);
    if ended.too_much {
        return failed("the answer is larger than 32 MB: ask for less");
    }
    if let (Some(kind), 0) = (picture, ended.code) {
        let picture =
            Object::new().text("type", "image").text("data", &base64(&ended.stdout)).text("mimeType", kind);
        return Object::new().objects("content", [picture].into_iter());
    }
    let stdout = if picture.is_some() { b"" } else { &ended.stdout[..] };
    let Some(mut printed) = printed(stdout) else { return failed("the call printed an invalid answer") };
    let is_error = ended.code != 0 && !is_of_the_command(tool, &printed);
    let mut left_out = None;
    if let (true, [(line, fields)]) = (has_a_bound(tool), &mut printed[..])
        && let Some(rest) = name_left_out(fields)
    {
        *line = json::object_of(fields);
        left_out = Some(rest);
    }
    let (mut text, mut shown, mut room) = (String::new(), 0, MOST);
    for (line, fields) in &printed {
        let told = told(tool, fields);
        let taken = 1 + match form {
            AnswerForm::Text => told.len(),
            AnswerForm::Structure => line.len(),
        };
        if is_many(tool) && shown > 0 && taken > room {
            break;
        }
        room = room.saturating_sub(taken);
        text += &told;
        shown += 1;
    }
    let unlisted = printed.len() - shown;
    if !has_a_bound(tool) {
        (text, left_out) = cut(tool, text);
    }
    if unlisted > 0 {
        left_out = Some(format!("{unlisted} more sessions left out; select fewer by name"));
    }
    for message in said.message.iter().chain(&left_out) {
        text = format!("{}[nbs: {message}]\n", ended_line(&text));
    }
    if text.is_empty() {
        text += &match tool {
            _ if is_error => format!("the call ended with exit code {}", ended.code),
            ToolName::List => "no sessions".to_owned(),
            ToolName::Run | ToolName::Read => "(no output)".to_owned(),
            _ => "done".to_owned(),
        };
    }
    let structured = match (&printed[..shown], is_many(tool)) {
        _ if form == AnswerForm::Text => None,
        ([], _) if is_error => said.object,
        (shown, true) => Some(sessions(shown, unlisted)),
        ([(_, fields)], false) => Some(with_message(fields, said.message.or(left_out))),
        _ => None,
    };
    match structured.filter(|json| is_error || has_a_bound(tool) || json.len() <= MOST + FRAME) {
        Some(json) => Object::new()
            .objects("content", std::iter::empty())
            .json("structuredContent", &json)
            .truth("isError", is_error),
        None => with_text(&text, is_error),
    }
}

/// The output of a `run` until its command asked for a line, and the question, for a form. Not for a secret,
/// which would pass through the client.
pub(crate) fn asked_for(ended: &Ended) -> Option<(String, String)> {
    let [(_, fields)] = &printed(&ended.stdout)?[..] else { return None };
    let text = |name: &str| text_of(fields, name);
    let is_asked = text("result") == "input" && text("terminal") == "line" && !text("question").is_empty();
    is_asked.then(|| (text("output").to_owned(), text("question").trim().to_owned()))
}

/// Did a `run` end because its command asks for a secret?
pub(crate) fn wants_secret(ended: &Ended) -> bool {
    let printed = printed(&ended.stdout).unwrap_or_default();
    let is_asked =
        |fields: &Fields| text_of(fields, "result") == "input" && text_of(fields, "terminal") == "secret";
    matches!(&printed[..], [(_, fields)] if is_asked(fields))
}

/// The output of a `run`.
pub(crate) fn output(ended: &Ended) -> String {
    let printed = printed(&ended.stdout).unwrap_or_default();
    printed.first().map(|(_, fields)| text_of(fields, "output").to_owned()).unwrap_or_default()
}

/// Adds to the message of a call.
pub(crate) fn add(ended: &mut Ended, more: &str) {
    let line = String::from_utf8_lossy(&ended.stderr).into_owned();
    if let Some(mut fields) = message::read_object(line.trim_end()) {
        let message = format!("{}{more}", text_of(&fields, "error"));
        fields.insert("error".to_owned(), Value::String(message));
        ended.stderr = json::object_of(&fields).into_bytes();
    }
}

/// Prepends a command's output before it was resumed to its output since.
pub(crate) fn put_before(before: &str, ended: &mut Ended) {
    if before.is_empty() {
        return;
    }
    if let Some([(_, fields)]) = printed(&ended.stdout).as_deref_mut() {
        let output = format!("{before}{}", text_of(fields, "output"));
        fields.insert("output".to_owned(), Value::String(output));
        ended.stdout = json::object_of(fields).into_bytes();
    }
}

/// The result of a call that could not begin.
pub(crate) fn failed(why: &str) -> Object {
    with_text(why, true)
}

fn with_text(text: &str, is_error: bool) -> Object {
    let content = Object::new().text("type", "text").text("text", text);
    Object::new().objects("content", [content].into_iter()).truth("isError", is_error)
}

/// The object, with the message.
fn with_message(fields: &Fields, message: Option<String>) -> String {
    let mut fields = fields.clone();
    if let Some(message) = message {
        fields.insert("message".to_owned(), Value::String(message));
    }
    json::object_of(&fields)
}

/// Replaces the line that says how the command line would read the omitted part by a mark, and returns the
/// text that says how a client does.
fn name_left_out(fields: &mut Fields) -> Option<String> {
    let count = fields.get("left_out").and_then(Value::as_u64)?;
    let output = text_of(fields, "output");
    let begin = format!("[nbs: {count} bytes left out; nbs-ts read ");
    let at = output.find(&begin)?;
    let length = output[at..].find("]\n")?;
    let mut words = output[at + begin.len()..at + length].split(' ');
    let handle = words.next()?;
    let number = |word: &str, option| word.strip_prefix(option)?.parse::<u64>().ok();
    let offset = number(words.next()?, "--offset=")?;
    let limit = number(words.next()?, "--limit=")?;
    let rest = format!(
        "{count} bytes left out, see \"…\": they are between offset {offset} and {}; call `read` with session \
         \"{handle}\", offset {offset} and limit \"{PART}\", then again with offset set to the next offset",
        offset.saturating_add(limit)
    );
    let output = format!("{}… {count} bytes left out …{}", &output[..at], &output[at + length + 1..]);
    fields.insert("output".to_owned(), Value::String(output));
    Some(rest)
}

/// The tools whose calls print an object for each of several sessions.
fn is_many(tool: ToolName) -> bool {
    matches!(tool, ToolName::Wait | ToolName::List | ToolName::Kill)
}

/// The command itself limits its output.
fn has_a_bound(tool: ToolName) -> bool {
    matches!(tool, ToolName::Run | ToolName::Read)
}

/// The objects that a call printed, each unchanged and parsed; `None` if the output is something else.
fn printed(stdout: &[u8]) -> Option<Vec<(String, Fields)>> {
    let lines = std::str::from_utf8(stdout).ok()?.lines();
    lines.map(|line| Some((line.to_owned(), message::read_object(line)?))).collect()
}

/// `run` passes on the exit code of its command, which is not an error of the tool; nor is a question.
fn is_of_the_command(tool: ToolName, printed: &[(String, Fields)]) -> bool {
    let result = printed.last().map(|(_, fields)| text_of(fields, "result"));
    tool == ToolName::Run && result.is_some_and(|result| matches!(result, "done" | "input"))
}

/// The contents of standard error.
#[derive(Default)]
struct Said {
    message: Option<String>,
    object: Option<String>,
}

fn said(stderr: &[u8]) -> Said {
    let line = String::from_utf8_lossy(stderr);
    let line = line.trim_end();
    if line.is_empty() {
        return Said::default();
    }
    match message::read_object(line) {
        Some(mut fields) => {
            let message = shortened(&in_words_of_tools(text_of(&fields, "error")));
            fields.insert("error".to_owned(), Value::String(message.clone()));
            Said { message: Some(message), object: Some(json::object_of(&fields)) }
        }
        None => {
            let who = line.strip_prefix("nbs-ts: ");
            let message = shortened(&in_words_of_tools(who.unwrap_or(line)));
            Said { message: Some(message), object: None }
        }
    }
}

/// A message about calls of `nbs-ts`, in terms of tools: `'nbs-ts run --resume H'` is the tool `run` with
/// resume=true. A call that the user must type stays as it is.
fn in_words_of_tools(message: &str) -> String {
    let mut parts = message.split("'nbs-ts ");
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let call = part.split_once('\'').and_then(|(call, rest)| Some((tool_of(call)?, rest)));
        told += &call.map_or_else(|| format!("'nbs-ts {part}"), |(tool, rest)| tool + rest);
    }
    told
}

/// The tool for such a call; `None`: there is none.
fn tool_of(call: &str) -> Option<String> {
    let mut words = call.split_whitespace();
    let (verb, words): (&str, Vec<&str>) = (words.next()?, words.collect());
    let options: Vec<&str> = words.iter().filter_map(|word| word.strip_prefix("--")).collect();
    if options.iter().any(|option| option.starts_with("secret")) {
        return None;
    }
    Some(match verb {
        "key" => {
            let keys: Vec<&str> = words.iter().skip(1).filter(|word| **word != "KEY").copied().collect();
            match keys[..] {
                [] => "the tool `send` with keys".to_owned(),
                _ => format!("the tool `send` with keys [\"{}\"]", keys.join("\", \"")),
            }
        }
        "ask" => "the tool `send`, then `wait` and `read`,".to_owned(),
        "create" | "run" | "send" | "wait" | "screen" | "read" | "list" | "kill" => {
            let given: Vec<String> = options
                .iter()
                .map(|option| match option.split_once('=') {
                    Some((name, value)) => format!("{}={value}", name.replace('-', "_")),
                    None => format!("{}=true", option.replace('-', "_")),
                })
                .collect();
            let with = if given.is_empty() { "" } else { " with " };
            format!("the tool `{verb}`{with}{}", given.join(", "))
        }
        _ => return None,
    })
}

/// The beginning and the end of a message that is too long: they have the failed action and the reason, which
/// mostly follows the call's arguments.
fn shortened(message: &str) -> String {
    if message.len() <= MOST_SAID {
        return message.to_owned();
    }
    let is_boundary = |at: &usize| message.is_char_boundary(*at);
    let start = (0..=MOST_SAID / 2).rfind(is_boundary).unwrap_or(0);
    let end = (message.len() - MOST_SAID / 2..).find(is_boundary).unwrap_or(message.len());
    format!("{}[… {} bytes left out …]{}", &message[..start], end - start, &message[end..])
}

/// The text of an object for a model: the command's output without `--json`, and what the model needs to go
/// on.
fn told(tool: ToolName, fields: &Fields) -> String {
    let text = |name: &str| text_of(fields, name);
    let number = |name: &str| fields.get(name).and_then(Value::as_i64);
    let handle = text("handle");
    match tool {
        ToolName::Create => format!("{handle}\n"),
        ToolName::Run => match number("exit_code") {
            Some(code) if code != 0 => format!("{}[exit code {code}]\n", ended_line(text("output"))),
            _ => text("output").to_owned(),
        },
        ToolName::Send => match number("typed") {
            Some(count) => format!("{count} bytes typed\n"),
            None if text("answer").is_empty() => String::new(),
            None => format!("answered: {}\n", text("answer")),
        },
        ToolName::Wait => format!("{handle}\t{}\t{}\n", text("condition"), text("detail")),
        ToolName::Screen => {
            let lines = fields.get("lines").and_then(Value::as_array);
            let lines = lines.into_iter().flatten().map(|line| line.as_str().unwrap_or_default());
            let screen: String = lines.flat_map(|line| [line, "\n"]).collect();
            // Rows below all that there is are nothing to read.
            format!("{}\n", screen.trim_end_matches('\n'))
        }
        ToolName::Read => match number("next_offset") {
            Some(offset) => format!("{}[next offset: {offset}]\n", ended_line(text("output"))),
            None => text("output").to_owned(),
        },
        ToolName::List => {
            let name = fields.get("name").and_then(Value::as_str).unwrap_or("-");
            let does = match text("activity") {
                does @ ("waiting" | "done" | "failed") => format!("\t{does}{}", asked(fields)),
                _ => String::new(),
            };
            format!("{handle}\t{}\t{name}\t{}{does}\n", text("state"), text("command"))
        }
        ToolName::Kill => match number("exit_code") {
            Some(code) => format!("{handle} has ended, with exit code {code}\n"),
            None => format!("{handle} has ended\n"),
        },
    }
}

/// The question of a session that waits, and its choices.
fn asked(fields: &Fields) -> String {
    let question = text_of(fields, "question");
    let choices = fields.get("choices").and_then(Value::as_array).into_iter().flatten();
    let choices: Vec<&str> = choices.filter_map(Value::as_str).collect();
    match (question, &choices[..]) {
        ("", _) => String::new(),
        (question, []) => format!(": {question}"),
        (question, choices) => format!(": {question} ({})", choices.join(" | ")),
    }
}

fn text_of<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A text that ends with a newline, if there is any.
fn ended_line(text: &str) -> String {
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{newline}")
}

/// The end of a text that is too long: for a screen with its scrollback, the screen is at the end. And the
/// text that says how to see the rest.
fn cut(tool: ToolName, text: String) -> (String, Option<String>) {
    if text.len() <= MOST {
        return (text, None);
    }
    let mut start = text.len() - MOST;
    start += text.as_bytes()[start..].iter().take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
    let next = match tool {
        ToolName::Screen => format!(
            "; ask for fewer lines by scrollback, or call `read` with offset and limit {PART}, which has \
             all that was printed"
        ),
        _ => String::new(),
    };
    (text[start..].to_owned(), Some(format!("the first {start} bytes left out{next}")))
}

fn sessions(printed: &[(String, Fields)], left_out: usize) -> String {
    let lines: Vec<&str> = printed.iter().map(|(line, _)| &**line).collect();
    let sessions = Object::new().json("sessions", &format!("[{}]", lines.join(",")));
    sessions.count_if_any("left_out", left_out as u64).value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn in_form(form: AnswerForm, tool: ToolName, code: i32, stdout: &str, stderr: &str) -> Value {
        let ended = Ended { code, stdout: stdout.into(), stderr: stderr.into(), too_much: false };
        let result: Value = serde_json::from_str(&result(tool, form, None, &ended).value()).unwrap();
        let has_text = !result["content"].as_array().unwrap().is_empty();
        assert_ne!(has_text, result.get("structuredContent").is_some(), "it is given once: {result}");
        result
    }

    fn of(tool: ToolName, code: i32, stdout: &str, stderr: &str) -> Value {
        let result = in_form(AnswerForm::Text, tool, code, stdout, stderr);
        assert!(result.get("structuredContent").is_none());
        result
    }

    fn object_of(tool: ToolName, code: i32, stdout: &str, stderr: &str) -> Value {
        in_form(AnswerForm::Structure, tool, code, stdout, stderr)["structuredContent"].clone()
    }

    fn text(result: &Value) -> &str {
        result["content"][0]["text"].as_str().unwrap()
    }

    #[test]
    fn the_exit_code_of_a_command_is_no_error() {
        let done = "{\"output\":\"no newline\",\"exit_code\":2,\"result\":\"done\"}\n";
        let result = of(ToolName::Run, 2, done, "");
        assert_eq!((text(&result), &result["isError"]), ("no newline\n[exit code 2]\n", &Value::Bool(false)));
        assert_eq!(object_of(ToolName::Run, 2, done, "")["exit_code"], 2);
        let late = "{\"output\":\"so far\\n\",\"exit_code\":null,\"result\":\"timeout\"}\n";
        let why = "{\"error\":\"it took too long\",\"kind\":\"timeout\",\"exit\":124}\n";
        let result = of(ToolName::Run, 124, late, why);
        assert_eq!(
            (text(&result), &result["isError"]),
            ("so far\n[nbs: it took too long]\n", &Value::Bool(true))
        );
        let object = object_of(ToolName::Run, 124, late, why);
        assert_eq!((&object["output"], &object["message"]), (&"so far\n".into(), &"it took too long".into()));
        assert_eq!(text(&of(ToolName::Run, 125, "", why)), "[nbs: it took too long]\n");
        assert_eq!(object_of(ToolName::Run, 125, "", why)["exit"], 124);
    }

    #[test]
    fn an_error_is_whole_or_says_what_is_left_out() {
        let why = |given: &str| format!("cannot start in '{given}': it is no folder");
        let error =
            |given: &str| format!("{{\"error\":\"{}\",\"kind\":\"failed\",\"exit\":1}}\n", why(given));
        let result = of(ToolName::Create, 1, "", &error(&"é".repeat(1_900)));
        assert_eq!(text(&result), format!("[nbs: {}]\n", why(&"é".repeat(1_900))));
        for given in ["é".repeat(2_000), "x".repeat(100_000)] {
            let result = of(ToolName::Create, 1, "", &error(&given));
            let shown = text(&result);
            assert!(shown.starts_with("[nbs: cannot start in '") && shown.ends_with("': it is no folder]\n"));
            let left_out = shown.split("[… ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
            let mark = format!("[… {left_out} bytes left out …]");
            let kept = shown.len() - "[nbs: ]\n".len() - mark.len();
            assert_eq!(kept + left_out.parse::<usize>().unwrap(), why(&given).len());
            assert!((MOST_SAID - 2..=MOST_SAID).contains(&kept), "{kept}");
            let object = object_of(ToolName::Create, 1, "", &error(&given));
            assert_eq!(object["exit"], 1);
            assert_eq!(object["error"], shown[6..shown.len() - 2]);
        }
        let plain = of(ToolName::Create, 1, "", &format!("nbs-ts: {}\n", why(&"x".repeat(100_000))));
        assert!(text(&plain).len() < MOST_SAID + 100);
    }

    #[test]
    fn of_many_sessions_those_are_told_that_there_is_room_for() {
        let line = "{\"handle\":\"12345678\",\"state\":\"alive\",\"name\":null,\"command\":\"bash\"}\n";
        let result = of(ToolName::List, 0, &line.repeat(2), "");
        assert_eq!(text(&result), "12345678\talive\t-\tbash\n".repeat(2));
        assert_eq!(
            object_of(ToolName::List, 0, &line.repeat(2), "")["sessions"].as_array().unwrap().len(),
            2
        );
        let result = of(ToolName::List, 0, &line.repeat(5_000), "");
        let shown = text(&result);
        assert!(
            shown.len() < MOST + 100 && shown.ends_with(" more sessions left out; select fewer by name]\n")
        );
        let object = object_of(ToolName::List, 0, &line.repeat(5_000), "");
        let listed = object["sessions"].as_array().unwrap().len();
        assert_eq!(object["left_out"], 5_000 - listed);
        assert!(listed > 100 && object.to_string().len() < MOST + 100);
        let result = of(ToolName::List, 0, "", "");
        assert_eq!(text(&result), "no sessions");
        assert_eq!(object_of(ToolName::List, 0, "", "")["sessions"], serde_json::json!([]));
        let asks = "{\"handle\":\"1\",\"state\":\"alive\",\"name\":\"n\",\"command\":\"claude\",\"activity\":\"waiting\",\
                    \"question\":\"Proceed?\",\"choices\":[\"Yes\",\"No\"]}\n";
        let result = of(ToolName::List, 0, asks, "");
        assert_eq!(text(&result), "1\talive\tn\tclaude\twaiting: Proceed? (Yes | No)\n");
    }

    #[test]
    fn output_without_a_bound_of_its_own_is_cut() {
        let row = "é".repeat(100);
        let screen = format!("{{\"lines\":[{}]}}", vec![format!("\"{row}\""); 1_000].join(","));
        let result = of(ToolName::Screen, 0, &screen, "");
        assert!(text(&result).len() < MOST + 200, "{}", text(&result).len());
        let (rows, end) = text(&result).split_once("[nbs: the first ").unwrap();
        assert!(rows.ends_with("é\n") && end.contains("call `read` with offset"), "{end}");
        // Output that is too long for an object becomes text.
        in_form(AnswerForm::Structure, ToolName::Screen, 0, &screen, "");
    }

    #[test]
    fn the_end_names_what_is_left_out_in_the_words_of_the_tools() {
        let gap = "[nbs: 900 bytes left out; nbs-ts read box:12345678 --offset=40 --limit=900]";
        let line = |output: &str| {
            let object = Object::new().text("output", output).number("next_offset", 999);
            object.number("left_out", 900).value()
        };
        let told = "… 900 bytes left out …\nlast\n[next offset: 999]\n[nbs: 900 bytes left out, see \"…\": they are \
                    between offset 40 and 940; call `read` with session \"box:12345678\", offset 40 and limit \"8000\", \
                    then again with offset set to the next offset]\n";
        let printed = line(&format!("first\n{gap}\nlast\n"));
        let result = of(ToolName::Read, 0, &printed, "");
        assert_eq!(text(&result), format!("first\n{told}"));
        let object = object_of(ToolName::Read, 0, &printed, "");
        assert_eq!(object["output"], "first\n… 900 bytes left out …\nlast\n");
        assert!(object["message"].as_str().unwrap().contains("offset 40 and limit \"8000\""));
        // A similar line that the program itself printed is not ours.
        for other in ["[nbs: 900 bytes left out; nbs-ts read x]\n", &gap.replace("900 ", "901 ")] {
            assert!(text(&of(ToolName::Read, 0, &line(other), "")).starts_with(other));
        }
    }

    #[test]
    fn messages_about_calls_name_tools() {
        for (message, told) in [
            ("try 'nbs-ts list'", "try the tool `list`"),
            (
                "try 'nbs-ts send 12345678 TEXT' to answer, 'nbs-ts run --resume 12345678' to go on",
                "try the tool `send` to answer, the tool `run` with resume=true to go on",
            ),
            ("try 'nbs-ts key 1 C-c' to interrupt", "try the tool `send` with keys [\"C-c\"] to interrupt"),
            ("'nbs-ts key 1 KEY' to type", "the tool `send` with keys to type"),
            (
                "let the user try 'nbs-ts send --secret-stdin 1'",
                "let the user try 'nbs-ts send --secret-stdin 1'",
            ),
            ("it ran 'nbs-ts doctor', or 'nbs-ts ", "it ran 'nbs-ts doctor', or 'nbs-ts "),
            ("it's all", "it's all"),
        ] {
            assert_eq!(in_words_of_tools(message), told);
        }
    }

    #[test]
    fn an_invalid_answer_is_an_error() {
        for (code, stdout) in [(0, "text\n"), (0, "[]\n"), (139, "{\"a\":")] {
            assert_eq!(of(ToolName::Read, code, stdout, "")["isError"], true, "{stdout}");
        }
        let plain = of(ToolName::Screen, 2, "", "nbs-ts: there is none\n");
        assert_eq!((text(&plain), &plain["isError"]), ("[nbs: there is none]\n", &Value::Bool(true)));
    }
}
