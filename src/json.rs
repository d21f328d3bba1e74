//! One JSON object, on one line.
//!
//! Fields come out in the order in which they were put in. Bytes that are not
//! UTF-8 are replaced by U+FFFD, and then the object says `"lossy": true`.

use std::{fmt::Write, time::Duration};

mod value;

pub(crate) use self::value::{Fields, Value};

use crate::{numbers, terminal::text};

/// One pointer, since it is handed on with each field.
#[derive(Debug, Default)]
pub(crate) struct Object(Box<Line>);

#[derive(Debug, Default)]
struct Line {
    text: String,
    lossy: bool,
}

impl Object {
    pub(crate) fn new() -> Object {
        Object::default()
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Object {
        let value = quoted(value);
        self.raw(name, &value)
    }

    /// Bytes that should be UTF-8.
    pub(crate) fn bytes(mut self, name: &str, value: &[u8]) -> Object {
        self.0.lossy |= std::str::from_utf8(value).is_err();
        self.text(name, &String::from_utf8_lossy(value))
    }

    /// Bytes, or `null` if there are none.
    pub(crate) fn bytes_or_null(self, name: &str, value: Option<&[u8]>) -> Object {
        match value {
            Some(value) => self.bytes(name, value),
            None => self.raw(name, "null"),
        }
    }

    /// A number of any type; the largest one if it is larger than that.
    pub(crate) fn number(self, name: &str, value: impl TryInto<i64>) -> Object {
        self.whole(name, value.try_into().unwrap_or(i64::MAX))
    }

    fn whole(self, name: &str, value: i64) -> Object {
        self.raw(name, &value.to_string())
    }

    /// A number, if it is not 0.
    pub(crate) fn count_if_any(self, name: &str, value: u64) -> Object {
        match value {
            0 => self,
            _ => self.number(name, value),
        }
    }

    pub(crate) fn number_or_null(self, name: &str, value: Option<impl TryInto<i64>>) -> Object {
        match value {
            Some(value) => self.number(name, value),
            None => self.raw(name, "null"),
        }
    }

    /// Seconds (since 1970, if it is a point in time) with six digits of fraction, or `null`.
    pub(crate) fn seconds_or_null(self, name: &str, value: Option<Duration>) -> Object {
        match value {
            Some(value) => self.raw(name, &numbers::seconds(value, 6)),
            None => self.raw(name, "null"),
        }
    }

    pub(crate) fn truth(self, name: &str, value: bool) -> Object {
        self.raw(name, if value { "true" } else { "false" })
    }

    pub(crate) fn truth_or_null(self, name: &str, value: Option<bool>) -> Object {
        match value {
            Some(value) => self.truth(name, value),
            None => self.raw(name, "null"),
        }
    }

    /// An object within this one, or `null`.
    pub(crate) fn object_or_null(mut self, name: &str, value: Option<Object>) -> Object {
        self.0.lossy |= value.as_ref().is_some_and(|value| value.0.lossy);
        let value = value.map_or("null".to_owned(), |value| format!("{{{}}}", value.0.text));
        self.raw(name, &value)
    }

    /// A list of strings.
    pub(crate) fn list(mut self, name: &str, values: &[Vec<u8>]) -> Object {
        self.0.lossy |= values.iter().any(|value| std::str::from_utf8(value).is_err());
        let values: Vec<String> =
            values.iter().map(|value| quoted(&String::from_utf8_lossy(value))).collect();
        self.raw(name, &format!("[{}]", values.join(",")))
    }

    /// A list of objects.
    pub(crate) fn objects(self, name: &str, mut values: impl Iterator<Item = Object>) -> Object {
        self.objects_of(name, &mut values)
    }

    /// For all kinds of iterators.
    fn objects_of(mut self, name: &str, values: &mut dyn Iterator<Item = Object>) -> Object {
        let mut list = String::from("[");
        for value in values {
            self.0.lossy |= value.0.lossy;
            if list.len() > 1 {
                list.push(',');
            }
            list.push('{');
            list += &value.0.text;
            list.push('}');
        }
        list.push(']');
        self.raw(name, &list)
    }

    /// A value that is JSON already, on one line.
    pub(crate) fn json(self, name: &str, value: &str) -> Object {
        self.raw(name, value)
    }

    /// Adds the fields of another object after those of this one.
    pub(crate) fn and(mut self, other: Option<&Object>) -> Object {
        let Some(other) = other.filter(|other| !other.0.text.is_empty()) else { return self };
        if !self.0.text.is_empty() {
            self.0.text.push(',');
        }
        self.0.text.push_str(&other.0.text);
        self.0.lossy |= other.0.lossy;
        self
    }

    /// The object, with a newline.
    pub(crate) fn line(self) -> String {
        let mut line = self.value();
        line.push('\n');
        line
    }

    /// The object as a value within something else.
    pub(crate) fn value(self) -> String {
        let object = if self.0.lossy { self.truth("lossy", true) } else { self };
        format!("{{{}}}", object.0.text)
    }

    fn raw(mut self, name: &str, value: &str) -> Object {
        if !self.0.text.is_empty() {
            self.0.text.push(',');
        }
        self.0.text += &quoted(name);
        self.0.text.push(':');
        self.0.text += value;
        self
    }
}

/// The message of an error that `--json` has printed.
pub(crate) fn error_of(line: &str) -> Option<String> {
    let object = Value::parse(line.as_bytes()).ok()?;
    object["error"].as_str().map(|message| text::escaped(message.as_bytes()))
}

/// The text of a JSON string; `None` if it is something else.
pub(crate) fn parse_text(json: &[u8]) -> Option<String> {
    if let Ok(Value::String(text)) = Value::parse(json) { Some(text) } else { None }
}

/// The texts in an array; empty if it is not an array.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A JSON string. Control characters (RFC 8259, section 7), DEL and characters that make a line look
/// different are escaped, so that an object can be shown on a terminal.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_control() || text::is_misleading(control) => {
                write!(quoted, "\\u{:04x}", u32::from(control)).expect("a String takes all");
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// An object that another program has printed, made harmless for a terminal: it is the same object.
pub(crate) fn shown(object: &str) -> String {
    let mut shown = String::with_capacity(object.len());
    for character in object.chars() {
        if character.is_control() || text::is_misleading(character) {
            write!(shown, "\\u{:04x}", u32::from(character)).expect("a String takes all");
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The fields of an object that another program has printed, in their order, each with its unchanged value;
/// `None` if it is not an object, or has two fields of one name.
pub(crate) fn fields(object: &str) -> Option<Vec<(String, &str)>> {
    let Ok(Value::Object(values)) = Value::parse(object.as_bytes()) else { return None };
    let inside = object.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inside.trim().is_empty() {
        return Some(Vec::new());
    }
    let field = |field| match split(field, b':')[..] {
        [name, value] => Some((parse_text(name.as_bytes())?, value.trim())),
        _ => None,
    };
    let fields: Vec<_> = split(inside, b',').into_iter().map(field).collect::<Option<_>>()?;
    (fields.len() == values.len()).then_some(fields)
}

/// The parts between the separators of valid JSON that are neither in a string nor nested.
fn split(json: &str, separator: u8) -> Vec<&str> {
    let (mut parts, mut begin, mut depth, mut in_string, mut is_escaped) = (Vec::new(), 0, 0, false, false);
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ if byte == separator && depth == 0 => {
                parts.push(&json[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&json[begin..]);
    parts
}

/// A value that another program has printed, with these fields in place of its own; it can be shown on a
/// terminal.
pub(crate) fn value_with(value: &Value, instead: &[(&str, &str)]) -> String {
    let mut json = String::new();
    put_value(&mut json, value, instead);
    json
}

/// An object of these fields.
pub(crate) fn object_of(fields: &Fields) -> String {
    let mut json = String::new();
    put_fields(&mut json, fields, &[]);
    json
}

fn put_value(json: &mut String, value: &Value, instead: &[(&str, &str)]) {
    match value {
        Value::String(text) => *json += &quoted(text),
        Value::Array(values) => {
            let mut begin = '[';
            for value in values {
                json.push(begin);
                put_value(json, value, &[]);
                begin = ',';
            }
            *json += if begin == '[' { "[]" } else { "]" };
        }
        Value::Object(fields) => put_fields(json, fields, instead),
        Value::Number(number) => *json += number,
        Value::Bool(truth) => *json += if *truth { "true" } else { "false" },
        Value::Null => *json += "null",
    }
}

fn put_fields(json: &mut String, fields: &Fields, instead: &[(&str, &str)]) {
    let mut begin = '{';
    for (name, value) in fields.iter() {
        json.push(begin);
        *json += &quoted(name);
        json.push(':');
        match instead.iter().find(|(other, _)| other == name) {
            Some((_, other)) => *json += other,
            None => put_value(json, value, &[]),
        }
        begin = ',';
    }
    *json += if begin == '{' { "{}" } else { "}" };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misleading_characters_are_escaped_without_loss() {
        let text = "a\u{2028}b\u{202e}c\u{2069}d\u{9b}e\x7f\u{e9}";
        let (ours, plain) = (quoted(text), format!("\"{text}\""));
        assert_eq!(ours, "\"a\\u2028b\\u202ec\\u2069d\\u009be\\u007f\u{e9}\"");
        assert_eq!(shown(&plain), ours);
        assert_eq!(parse_text(ours.as_bytes()).unwrap(), text);
    }

    #[test]
    fn every_kind_of_value_is_written_as_json() {
        let object = Object::new()
            .text("a", "q\"b\\n\n\u{1b}[0m\u{9b}é漢")
            .number("b", -1)
            .number_or_null("c", None::<i64>)
            .seconds_or_null("d", Some(Duration::from_millis(1_500)))
            .truth("e", true)
            .list("f", &[b"x".to_vec(), b"\xff".to_vec()])
            .bytes_or_null("g", None)
            .object_or_null("h", Some(Object::new().bytes("i", b"\xff")))
            .object_or_null("j", None)
            .objects("k", [Object::new().number("l", 1), Object::new()].into_iter());
        assert_eq!(
            object.line(),
            "{\"a\":\"q\\\"b\\\\n\\n\\u001b[0m\\u009bé漢\",\"b\":-1,\"c\":null,\"d\":1.500000,\
             \"e\":true,\"f\":[\"x\",\"\u{fffd}\"],\"g\":null,\"h\":{\"i\":\"\u{fffd}\"},\"j\":null,\
             \"k\":[{\"l\":1},{}],\"lossy\":true}\n"
        );
    }

    #[test]
    fn the_fields_of_an_object_keep_their_order_and_their_form() {
        let object = r#" {"z":1.50, "a,b":{"c":[1,"}"],"z":2} ,"d\"":"x:\\","e\u0031":[] } "#;
        let expected = [("z", "1.50"), ("a,b", r#"{"c":[1,"}"],"z":2}"#), ("d\"", r#""x:\\""#), ("e1", "[]")];
        let expected: Vec<_> = expected.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(fields(object), Some(expected));
        assert_eq!(fields("{ }"), Some(Vec::new()));
        for other in
            ["", "{", "[1]", "1", r#"{"a":1,"a":2}"#, r#"{"a":1} {"b":2}"#, r#"{"a":1,}"#, "{\"a\":\"\n\"}"]
        {
            assert_eq!(fields(other), None, "{other}");
        }
    }

    #[test]
    fn foreign_json_is_kept_except_replaced_fields() {
        let line = r#"{"a":[1,-2.5,"x\u009b\"",{"b":null}],"c":{"a":true},"d":"e"}"#;
        let value = Value::parse(line.as_bytes()).unwrap();
        assert_eq!(value_with(&value, &[]), line);
        let other = line.replace("\"e\"", "7");
        assert_eq!(value_with(&value, &[("d", "7"), ("b", "8"), ("z", "9")]), other);
    }

    #[test]
    fn only_what_was_not_utf8_is_lossy() {
        assert_eq!(Object::new().bytes("a", b"\xc3\xa9").line(), "{\"a\":\"é\"}\n");
        assert_eq!(Object::new().bytes("a", b"\xc3").line(), "{\"a\":\"\u{fffd}\",\"lossy\":true}\n");
    }
}
