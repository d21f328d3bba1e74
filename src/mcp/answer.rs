//! What a call came to, as the result of a tool: a text for the model, and the objects that
//! `--json` prints.
//!
//! A result is never larger than a model can bear, unless it was asked to be: a tool without a
//! bound of its own is cut at [`MOST`] bytes, and says so.

use serde_json::{Map, Value};

use crate::{
    json::Object,
    mcp::{call::Ended, message, tools::ToolName},
    numbers::base64,
};

/// How many bytes a result has, that was not asked to have more.
pub(crate) const MOST: usize = 40_000;

/// The same of what a call says of itself, which a model reads to its end.
const MOST_SAID: usize = 4_000;

/// What stands around the objects of several sessions.
const FRAME: usize = 100;

type Fields = Map<String, Value>;

/// The result of a tool whose call has ended.
pub(crate) fn result(tool: ToolName, draws: bool, ended: &Ended) -> Object {
    let said = said(&ended.stderr);
    if ended.too_much {
        return failed("the answer is larger than 32 MB: ask for less");
    }
    if draws && ended.code == 0 {
        let picture = Object::new()
            .text("type", "image")
            .text("data", &base64(&ended.stdout))
            .text("mimeType", "image/svg+xml");
        return Object::new().objects("content", [picture].into_iter());
    }
    let stdout = if draws { b"" } else { &ended.stdout[..] };
    let Some(printed) = printed(stdout) else {
        return failed("the call printed an invalid answer");
    };
    let is_error = ended.code != 0 && !is_of_the_command(tool, &printed);
    let (mut text, mut shown, mut room) = (String::new(), 0, MOST);
    for (line, fields) in &printed {
        let told = told(tool, fields);
        // Both are in the result, and each within its bound.
        let taken = line.len().max(told.len()) + 1;
        if is_many(tool) && shown > 0 && taken > room {
            break;
        }
        room = room.saturating_sub(taken);
        text += &told;
        shown += 1;
    }
    let left_out = printed.len() - shown;
    if !has_a_bound(tool) {
        text = cut(tool, text);
    }
    if left_out > 0 {
        text += &format!("[nbs: {left_out} more sessions left out; select fewer by name]\n");
    }
    if let Some(message) = &said.message {
        text +=
            &format!("{}[nbs: {message}]\n", if text.is_empty() || text.ends_with('\n') { "" } else { "\n" });
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
        ([], _) if is_error => said.object,
        (shown, true) => Some(sessions(shown, left_out)),
        ([(line, _)], false) => Some((*line).to_owned()),
        _ => None,
    };
    with_text(&text, structured.filter(|json| has_a_bound(tool) || json.len() <= MOST + FRAME), is_error)
}

/// The result of what could not even be begun.
pub(crate) fn failed(why: &str) -> Object {
    with_text(why, None, true)
}

fn with_text(text: &str, structured: Option<String>, is_error: bool) -> Object {
    let content = Object::new().text("type", "text").text("text", text);
    let result = Object::new().objects("content", [content].into_iter());
    let result = match structured {
        Some(json) => result.json("structuredContent", &json),
        None => result,
    };
    result.truth("isError", is_error)
}

/// The tools whose calls print an object for each of several sessions.
fn is_many(tool: ToolName) -> bool {
    matches!(tool, ToolName::Wait | ToolName::List | ToolName::Kill)
}

/// The command itself leaves out what is too much.
fn has_a_bound(tool: ToolName) -> bool {
    matches!(tool, ToolName::Run | ToolName::Read)
}

/// The objects that a call printed, each as it stands and read; `None` if it is something else.
fn printed(stdout: &[u8]) -> Option<Vec<(&str, Fields)>> {
    let lines = std::str::from_utf8(stdout).ok()?.lines();
    lines.map(|line| Some((line, message::read_object(line)?))).collect()
}

/// `run` hands on the exit code of its command, which is nobody's error; nor is a question.
fn is_of_the_command(tool: ToolName, printed: &[(&str, Fields)]) -> bool {
    let result = printed.last().map(|(_, fields)| text_of(fields, "result"));
    tool == ToolName::Run && result.is_some_and(|result| matches!(result, "done" | "input"))
}

/// What was said on standard error.
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
            let message = shortened(text_of(&fields, "error"));
            fields.insert("error".to_owned(), message.clone().into());
            Said { message: Some(message), object: Some(Value::Object(fields).to_string()) }
        }
        None => {
            let who = line.strip_prefix("nbs-ts: ");
            Said { message: Some(shortened(who.unwrap_or(line))), object: None }
        }
    }
}

/// The beginning and the end of a message that is too long: what could not be done stands there, and
/// why, mostly behind what the call was given.
fn shortened(message: &str) -> String {
    if message.len() <= MOST_SAID {
        return message.to_owned();
    }
    let is_boundary = |at: &usize| message.is_char_boundary(*at);
    let start = (0..=MOST_SAID / 2).rfind(is_boundary).unwrap_or(0);
    let end = (message.len() - MOST_SAID / 2..).find(is_boundary).unwrap_or(message.len());
    format!("{}[… {} bytes left out …]{}", &message[..start], end - start, &message[end..])
}

/// What a model reads of an object: what the command prints without `--json`, and what it needs
/// to go on.
fn told(tool: ToolName, fields: &Fields) -> String {
    let text = |name: &str| text_of(fields, name);
    let number = |name: &str| fields.get(name).and_then(Value::as_i64);
    let handle = text("handle");
    match tool {
        ToolName::Create => format!("{handle}\n"),
        ToolName::Run => match number("exit_code") {
            Some(code) if code != 0 => format!("{}[exit code {code}]\n", ended(text("output"))),
            _ => text("output").to_owned(),
        },
        ToolName::Send => match number("typed") {
            Some(count) => format!("{count} bytes typed\n"),
            None => String::new(),
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
            Some(offset) => format!("{}[next offset: {offset}]\n", ended(text("output"))),
            None => text("output").to_owned(),
        },
        ToolName::List => {
            let name = fields.get("name").and_then(Value::as_str).unwrap_or("-");
            format!("{handle}\t{}\t{name}\t{}\n", text("state"), text("command"))
        }
        ToolName::Kill => match number("exit_code") {
            Some(code) => format!("{handle} has ended, with exit code {code}\n"),
            None => format!("{handle} has ended\n"),
        },
    }
}

fn text_of<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A text that ends with a newline, if there is any.
fn ended(text: &str) -> String {
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{newline}")
}

/// The end of a text that is too long: of a screen with what has scrolled off it, that is where
/// the screen is.
fn cut(tool: ToolName, text: String) -> String {
    if text.len() <= MOST {
        return text;
    }
    let mut start = text.len() - MOST;
    start += text.as_bytes()[start..].iter().take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
    let next = match tool {
        ToolName::Screen => "; `read` has all that was printed",
        _ => "",
    };
    format!("[nbs: {start} bytes left out{next}]\n{}", &text[start..])
}

fn sessions(printed: &[(&str, Fields)], left_out: usize) -> String {
    let lines: Vec<&str> = printed.iter().map(|(line, _)| *line).collect();
    let sessions = Object::new().json("sessions", &format!("[{}]", lines.join(",")));
    sessions.count_if_any("left_out", left_out as u64).value()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tool: ToolName, code: i32, stdout: &str, stderr: &str) -> Value {
        let ended = Ended { code, stdout: stdout.into(), stderr: stderr.into(), too_much: false };
        serde_json::from_str(&result(tool, false, &ended).value()).unwrap()
    }

    fn text(result: &Value) -> &str {
        result["content"][0]["text"].as_str().unwrap()
    }

    #[test]
    fn the_exit_code_of_a_command_is_no_error() {
        let done = "{\"output\":\"no newline\",\"exit_code\":2,\"result\":\"done\"}\n";
        let result = of(ToolName::Run, 2, done, "");
        assert_eq!((text(&result), &result["isError"]), ("no newline\n[exit code 2]\n", &Value::Bool(false)));
        assert_eq!(result["structuredContent"]["exit_code"], 2);
        let late = "{\"output\":\"so far\\n\",\"exit_code\":null,\"result\":\"timeout\"}\n";
        let why = "{\"error\":\"it took too long\",\"kind\":\"timeout\",\"exit\":124}\n";
        let result = of(ToolName::Run, 124, late, why);
        assert_eq!(
            (text(&result), &result["isError"]),
            ("so far\n[nbs: it took too long]\n", &Value::Bool(true))
        );
        let result = of(ToolName::Run, 125, "", why);
        assert_eq!(text(&result), "[nbs: it took too long]\n");
        assert_eq!(result["structuredContent"]["exit"], 124);
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
            assert_eq!(result["structuredContent"]["exit"], 1);
            assert_eq!(result["structuredContent"]["error"], shown[6..shown.len() - 2]);
        }
        let plain = of(ToolName::Create, 1, "", &format!("nbs-ts: {}\n", why(&"x".repeat(100_000))));
        assert!(text(&plain).len() < MOST_SAID + 100);
    }

    #[test]
    fn of_many_sessions_those_are_told_that_there_is_room_for() {
        let line = "{\"handle\":\"12345678\",\"state\":\"alive\",\"name\":null,\"command\":\"bash\"}\n";
        let result = of(ToolName::List, 0, &line.repeat(2), "");
        assert_eq!(text(&result), "12345678\talive\t-\tbash\n".repeat(2));
        assert_eq!(result["structuredContent"]["sessions"].as_array().unwrap().len(), 2);
        let result = of(ToolName::List, 0, &line.repeat(5_000), "");
        let (shown, object) = (text(&result), &result["structuredContent"]);
        assert!(shown.len() < MOST + 100 && shown.contains("more sessions left out"));
        let listed = object["sessions"].as_array().unwrap().len();
        assert_eq!(object["left_out"], 5_000 - listed);
        assert!(listed > 400 && object.to_string().len() < MOST + 100);
        let result = of(ToolName::List, 0, "", "");
        assert_eq!(text(&result), "no sessions");
        assert_eq!(result["structuredContent"]["sessions"], serde_json::json!([]));
    }

    #[test]
    fn what_has_no_bound_of_its_own_is_cut() {
        let row = "é".repeat(100);
        let screen = format!("{{\"lines\":[{}]}}", vec![format!("\"{row}\""); 1_000].join(","));
        let result = of(ToolName::Screen, 0, &screen, "");
        assert!(text(&result).len() < MOST + 100, "{}", text(&result).len());
        assert!(text(&result).starts_with("[nbs: ") && text(&result).ends_with("é\n"));
        assert!(result.get("structuredContent").is_none());
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for (code, stdout) in [(0, "text\n"), (0, "[]\n"), (139, "{\"a\":")] {
            assert_eq!(of(ToolName::Read, code, stdout, "")["isError"], true, "{stdout}");
        }
        let plain = of(ToolName::Screen, 2, "", "nbs-ts: there is none\n");
        assert_eq!((text(&plain), &plain["isError"]), ("[nbs: there is none]\n", &Value::Bool(true)));
    }
}
