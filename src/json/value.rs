//! Reads JSON (RFC 8259) that another program has printed.
//!
//! Rejects more than the standard requires: text that is not UTF-8, half a surrogate pair, and nesting beyond a
//! limit, because each level is a recursive call. If two fields have the same name, the last one counts. Numbers
//! stay text, because they may be larger than any type.

use std::ops::Index;

use crate::sorted::Map;

/// How deep lists and objects may be nested.
const DEEPEST: usize = 127;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Value {
    #[default]
    Null,
    Bool(bool),
    /// As it was written.
    Number(String),
    String(String),
    Array(Vec<Value>),
    Object(Fields),
}

/// By name.
pub(crate) type Fields = Map<String, Value>;

impl Value {
    /// The value in the text; otherwise, why it is none.
    pub(crate) fn parse(text: &[u8]) -> Result<Value, String> {
        let text = std::str::from_utf8(text)
            .map_err(|error| format!("invalid UTF-8 at byte {}", error.valid_up_to()))?;
        let mut parser = Parser { text, at: 0, depth: 0 };
        parser.whole().map_err(|why| format!("{why} at byte {}", parser.at))
    }

    /// The field of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.as_object()?.get(name)
    }

    pub(crate) fn as_object(&self) -> Option<&Fields> {
        if let Value::Object(fields) = self { Some(fields) } else { None }
    }

    pub(crate) fn as_array(&self) -> Option<&[Value]> {
        if let Value::Array(values) = self { Some(values) } else { None }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(truth) = self { Some(*truth) } else { None }
    }

    /// A number's text.
    pub(crate) fn as_number(&self) -> Option<&str> {
        if let Value::Number(number) = self { Some(number) } else { None }
    }

    pub(crate) fn as_u64(&self) -> Option<u64> {
        self.as_number()?.parse().ok()
    }

    pub(crate) fn as_i64(&self) -> Option<i64> {
        self.as_number()?.parse().ok()
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub(crate) fn is_string(&self) -> bool {
        self.as_str().is_some()
    }
}

/// The field of an object, or null.
impl Index<&str> for Value {
    type Output = Value;

    fn index(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&Value::Null)
    }
}

/// An item of a list, or null.
impl Index<usize> for Value {
    type Output = Value;

    fn index(&self, at: usize) -> &Value {
        self.as_array().and_then(|values| values.get(at)).unwrap_or(&Value::Null)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(other)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

type Parsed<T> = Result<T, &'static str>;

impl Parser<'_> {
    fn whole(&mut self) -> Parsed<Value> {
        let value = self.value()?;
        self.skip_blank();
        if self.at < self.text.len() { Err(self.unexpected()) } else { Ok(value) }
    }

    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.next() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Parsed<()> {
        if self.take(byte) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> &'static str {
        if self.at < self.text.len() { "unexpected character" } else { "unexpected end" }
    }

    fn skip_blank(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.next() {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        self.skip_blank();
        match self.next() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'[') => {
                let mut values = Vec::new();
                self.enter()?;
                while self.has_more(b']', values.is_empty())? {
                    values.push(self.value()?);
                }
                Ok(Value::Array(values))
            }
            Some(b'{') => {
                let mut fields = Vec::new();
                self.enter()?;
                while self.has_more(b'}', fields.is_empty())? {
                    self.skip_blank();
                    let name = self.string()?;
                    self.skip_blank();
                    self.expect(b':')?;
                    fields.push((name, self.value()?));
                }
                // Sorted at once, since the names may come in any order.
                Ok(Value::Object(fields.into_iter().collect()))
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.unexpected()),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Parsed<Value> {
        word.bytes().try_for_each(|byte| self.expect(byte))?;
        Ok(value)
    }

    /// Begins a list or an object.
    fn enter(&mut self) -> Parsed<()> {
        if self.depth == DEEPEST {
            return Err("nested too deeply");
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Does another item follow, before which there may have to be a comma? Otherwise it ends here.
    fn has_more(&mut self, close: u8, is_first: bool) -> Parsed<bool> {
        self.skip_blank();
        if self.take(close) {
            self.depth -= 1;
            return Ok(false);
        }
        if !is_first {
            self.expect(b',')?;
        }
        Ok(true)
    }

    fn number(&mut self) -> Parsed<Value> {
        let begin = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(Value::Number(self.text[begin..self.at].to_owned()))
    }

    /// At least one.
    fn digits(&mut self) -> Parsed<()> {
        let begin = self.at;
        while let Some(b'0'..=b'9') = self.next() {
            self.at += 1;
        }
        if self.at > begin { Ok(()) } else { Err(self.unexpected()) }
    }

    fn string(&mut self) -> Parsed<String> {
        self.expect(b'"')?;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let is_special = |byte| matches!(byte, b'"' | b'\\' | 0..b' ');
            let plain = rest.bytes().position(is_special).unwrap_or(rest.len());
            string += &rest[..plain];
            self.at += plain;
            if self.take(b'"') {
                return Ok(string);
            }
            self.expect(b'\\')?;
            string.push(self.escaped()?);
        }
    }

    /// The character that the rest of an escape sequence stands for.
    fn escaped(&mut self) -> Parsed<char> {
        let character = match self.next() {
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.utf16();
            }
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(character)
    }

    fn utf16(&mut self) -> Parsed<char> {
        let first = self.unit()?;
        let code = match first {
            0xd800..0xdc00 => {
                self.expect(b'\\')?;
                self.expect(b'u')?;
                // Below the second half of a pair it is none, nor is it a character above it.
                let second = self.unit()?.checked_sub(0xdc00).filter(|low| *low < 0x400);
                second.map(|low| 0x10000 + ((first - 0xd800) << 10) + low)
            }
            _ => Some(first),
        };
        code.and_then(char::from_u32).ok_or("half a surrogate pair")
    }

    fn unit(&mut self) -> Parsed<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.next().and_then(|byte| char::from(byte).to_digit(16));
            unit = unit << 4 | digit.ok_or_else(|| self.unexpected())?;
            self.at += 1;
        }
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        json::value_with,
        rounds::{rounds, spoiled},
    };

    fn read(text: &str) -> Option<String> {
        Value::parse(text.as_bytes()).ok().map(|value| value_with(&value, &[]))
    }

    #[test]
    fn every_kind_of_value_is_read_as_it_stands() {
        let long = "9".repeat(1000);
        for (text, read_as) in [
            (" \t\r\n null\n", "null"),
            ("true", "true"),
            ("false", "false"),
            ("-0", "-0"),
            ("0.0e-0", "0.0e-0"),
            ("12E+34", "12E+34"),
            ("18446744073709551616.000", "18446744073709551616.000"),
            (&long, &long),
            (r#""""#, r#""""#),
            (r#""\u0041\/\b\f\n\r\t\"\\\u00e9é漢""#, "\"A/\\u0008\\u000c\\n\\r\\t\\\"\\\\éé漢\""),
            (r#""\uD83D\ude00\uffff""#, "\"😀\u{ffff}\""),
            ("[ ]", "[]"),
            ("[[1 , [ ]],{ } ]", "[[1,[]],{}]"),
            (r#"{"b":1,"a":{"":2},"b":[3]}"#, r#"{"a":{"":2},"b":[3]}"#),
        ] {
            assert_eq!(read(text).as_deref(), Some(read_as), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        for (text, why) in [
            (&b""[..], "unexpected end at byte 0"),
            (b" ", "unexpected end at byte 1"),
            (b"nul", "unexpected end at byte 3"),
            (b"True", "unexpected character at byte 0"),
            (b"1 2", "unexpected character at byte 2"),
            (b"01", "unexpected character at byte 1"),
            (b"-", "unexpected end at byte 1"),
            (b"+1", "unexpected character at byte 0"),
            (b".5", "unexpected character at byte 0"),
            (b"1.", "unexpected end at byte 2"),
            (b"1.e1", "unexpected character at byte 2"),
            (b"1e", "unexpected end at byte 2"),
            (b"1e+-1", "unexpected character at byte 3"),
            (b"NaN", "unexpected character at byte 0"),
            (b"[1,]", "unexpected character at byte 3"),
            (b"[,1]", "unexpected character at byte 1"),
            (b"[1 2]", "unexpected character at byte 3"),
            (b"[1", "unexpected end at byte 2"),
            (b"[1}", "unexpected character at byte 2"),
            (b"{\"a\"}", "unexpected character at byte 4"),
            (b"{\"a\":}", "unexpected character at byte 5"),
            (b"{\"a\":1,}", "unexpected character at byte 7"),
            (b"{a:1}", "unexpected character at byte 1"),
            (b"{1:1}", "unexpected character at byte 1"),
            (b"// x\n1", "unexpected character at byte 0"),
            (b"\xef\xbb\xbf1", "unexpected character at byte 0"),
            (b"\"a", "unexpected end at byte 2"),
            (b"\"\n\"", "unexpected character at byte 1"),
            (b"\"\x1f\"", "unexpected character at byte 1"),
            (b"'a'", "unexpected character at byte 0"),
            (b"\"\\x\"", "unexpected character at byte 2"),
            (b"\"\\\xc3\xa9\"", "unexpected character at byte 2"),
            (b"\"\\u12\"", "unexpected character at byte 5"),
            (b"\"\\u+123\"", "unexpected character at byte 3"),
            (b"\"\\ud800\"", "unexpected character at byte 7"),
            (b"\"\\ud800\\n\"", "unexpected character at byte 8"),
            (b"\"\\ud800\\u0041\"", "half a surrogate pair at byte 13"),
            (b"\"\\ud800\\ud800\"", "half a surrogate pair at byte 13"),
            (b"\"\\ud800\\ue000\"", "half a surrogate pair at byte 13"),
            (b"\"\\udc00\"", "half a surrogate pair at byte 7"),
            (b"\"\xff\"", "invalid UTF-8 at byte 1"),
            (b"\"\xed\xa0\x80\"", "invalid UTF-8 at byte 1"),
        ] {
            assert_eq!(Value::parse(text).unwrap_err(), why, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn nesting_has_a_bound_and_what_is_beside_it_has_none() {
        let nested = |levels| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(read(&nested(DEEPEST)), Some(nested(DEEPEST)));
        for open in ["[", "{\"a\":"] {
            let why = Value::parse(open.repeat(1_000_000).as_bytes()).unwrap_err();
            assert_eq!(why, format!("nested too deeply at byte {}", DEEPEST * open.len()));
        }
        let beside = format!("[{}1]", "[[[]]],{\"a\":{}},".repeat(1000));
        assert_eq!(read(&beside), Some(beside));
    }

    #[test]
    fn a_large_text_is_read_in_time_that_grows_with_its_length() {
        // Names in the order that is worst for a list to insert into, and texts that are all escapes.
        let fields: Vec<String> = (0..200_000).rev().map(|number| format!("\"{number:06}\":1")).collect();
        let object = Value::parse(format!("{{{}}}", fields.join(",")).as_bytes()).unwrap();
        assert_eq!(object.as_object().unwrap().len(), fields.len());
        let text = format!("\"{}\"", "\\u00e9".repeat(1_000_000));
        assert_eq!(Value::parse(text.as_bytes()).unwrap(), &*"é".repeat(1_000_000));
    }

    #[test]
    fn fields_and_items_that_are_not_there_are_null() {
        let value = Value::parse(br#"{"a":[true,-7,18446744073709551615,"b",1.5]}"#).unwrap();
        let item = |at: usize| &value["a"][at];
        assert_eq!((item(0).as_bool(), item(0).as_str(), item(0).as_number()), (Some(true), None, None));
        assert_eq!((item(1).as_i64(), item(1).as_u64()), (Some(-7), None));
        assert_eq!((item(2).as_i64(), item(2).as_u64()), (None, Some(u64::MAX)));
        assert_eq!((item(4).as_i64(), item(4).as_number()), (None, Some("1.5")));
        assert!(*item(3) == "b" && *item(3) != "c");
        assert!(
            [item(5), &value["b"], &value["b"]["c"], &value[0], &value["a"]["a"]].map(Value::is_null)
                == [true; 5]
        );
        assert_eq!(Value::default(), Value::Null);
    }

    /// The same by the parser that ours has replaced, with numbers as they stand.
    fn by_serde(value: serde_json::Value) -> Value {
        match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(truth) => Value::Bool(truth),
            serde_json::Value::Number(number) => Value::Number(number.as_str().to_owned()),
            serde_json::Value::String(text) => Value::String(text),
            serde_json::Value::Array(values) => Value::Array(values.into_iter().map(by_serde).collect()),
            serde_json::Value::Object(fields) => {
                Value::Object(fields.into_iter().map(|(name, value)| (name, by_serde(value))).collect())
            }
        }
    }

    /// serde_json writes each exponent as `e` and a sign.
    fn with_signs(mut value: Value) -> Value {
        match &mut value {
            Value::Number(number) => {
                *number = number.replace('E', "e");
                if let Some(at) = number
                    .find('e')
                    .filter(|at| number[at + 1..].starts_with(|next: char| next.is_ascii_digit()))
                {
                    number.insert(at + 1, '+');
                }
            }
            Value::Array(values) => {
                values.iter_mut().for_each(|value| *value = with_signs(std::mem::take(value)))
            }
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| *value = with_signs(std::mem::take(value)))
            }
            _ => {}
        }
        value
    }

    fn random_text(random: &mut fastrand::Rng, depth: usize) -> String {
        let many = |random: &mut fastrand::Rng| random.usize(..5);
        let string = |random: &mut fastrand::Rng| {
            let pieces = [
                "a",
                "é",
                "漢",
                "😀",
                "\\n",
                "\\u00e9",
                "\\ud83d\\ude00",
                "\\\"",
                "\\\\",
                "\\/",
                "\\u0000",
                "\u{7f}",
                "\u{2028}",
                "\\uD800",
                "\\x",
                "\n",
                "\t",
            ];
            // The last ones are faults.
            let known = if random.u8(..20) == 0 { pieces.len() } else { pieces.len() - 4 };
            let text: String = (0..many(random)).map(|_| pieces[random.usize(..known)]).collect();
            format!("\"{text}\"")
        };
        let blank = ["", "", "", " ", "\n", "\t\r"][random.usize(..6)];
        let value = match random.u8(..if depth == 0 { 5 } else { 8 }) {
            0 => ["null", "true", "false"][random.usize(..3)].to_owned(),
            1 => random.i64(..).to_string(),
            2 => format!("{}.{}e{}", random.i8(..), random.u64(..), random.i8(..)),
            3 => ["0", "-0", "1E5", "1e+5", "00", "-", "1.", ".1", "1e", "18446744073709551616"]
                [random.usize(..10)]
            .to_owned(),
            4 => string(random),
            5 | 6 => {
                let items: Vec<String> = (0..many(random)).map(|_| random_text(random, depth - 1)).collect();
                format!("[{}]", items.join(","))
            }
            _ => {
                let fields: Vec<String> = (0..many(random))
                    .map(|_| format!("{}{blank}:{}", string(random), random_text(random, depth - 1)))
                    .collect();
                format!("{{{}}}", fields.join(","))
            }
        };
        format!("{blank}{value}{blank}")
    }

    #[test]
    fn random_and_spoiled_texts_are_read_as_serde_json_reads_them() {
        let mut accepted = 0;
        for (seed, mut random) in rounds(3_000) {
            let text = random_text(&mut random, 4).into_bytes();
            let spoiled = spoiled(&text, &mut random);
            for text in [text, spoiled] {
                let ours = Value::parse(&text).ok().map(with_signs);
                let theirs = serde_json::from_slice(&text).ok().map(by_serde);
                assert_eq!(ours, theirs, "seed {seed}: {}", text.escape_ascii());
                accepted += usize::from(ours.is_some());
            }
        }
        assert!(accepted > 0);
    }
}
