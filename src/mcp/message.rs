//! Reads a client's messages, and writes ours (JSON-RPC 2.0, as the model context protocol narrows it).

use crate::json::{self, Fields, Object, Value};

/// The version without a handshake: each request has everything needed to answer it.
pub(crate) const STATELESS: &str = "2026-07-28";

/// Those before it, which begin with `initialize`; the newest first.
pub(crate) const WITH_HANDSHAKE: [&str; 3] = ["2025-11-25", "2025-06-18", BATCHING];

/// The one in which several messages may come as one.
pub(crate) const BATCHING: &str = "2025-03-26";

/// Error codes of JSON-RPC, and two of the protocol's own.
pub(crate) const PARSE_ERROR: i64 = -32_700;
pub(crate) const INVALID_REQUEST: i64 = -32_600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32_601;
pub(crate) const INVALID_PARAMS: i64 = -32_602;
pub(crate) const INTERNAL_ERROR: i64 = -32_603;
pub(crate) const MISSING_CAPABILITY: i64 = -32_021;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32_022;

/// A number or a string that a client has chosen, as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Id(String);

impl Id {
    /// Only a string or a whole number is one.
    pub(crate) fn of(value: &Value) -> Option<Id> {
        match value {
            Value::String(text) => Some(Id(json::quoted(text))),
            Value::Number(number) => Some(Id(number.clone())).filter(Id::is_whole),
            _ => None,
        }
    }

    fn is_whole(&self) -> bool {
        self.0.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    }

    pub(crate) fn json(&self) -> &str {
        &self.0
    }
}

#[derive(Debug)]
pub(crate) struct RpcRequest {
    pub(crate) id: Id,
    pub(crate) method: String,
    pub(crate) params: Fields,
}

#[derive(Debug)]
pub(crate) enum Message {
    Request(RpcRequest),
    Notification {
        method: String,
        params: Fields,
    },
    /// To a request of ours.
    Response(Fields),
    Invalid(RpcError),
    /// Several, in the version that has that.
    Batch(Vec<Message>),
}

/// Why something is not answered as was meant.
#[derive(Debug)]
pub(crate) struct RpcError {
    /// The id of the request that failed, if it could be read.
    pub(crate) id: Option<Id>,
    pub(crate) code: i64,
    pub(crate) why: String,
    /// More about it, as JSON.
    pub(crate) data: Option<String>,
}

impl RpcError {
    pub(crate) fn new(id: Option<&Id>, code: i64, why: impl Into<String>) -> RpcError {
        RpcError { id: id.cloned(), code, why: why.into(), data: None }
    }

    /// The response that reports it, without the line's end.
    pub(crate) fn answer(&self) -> String {
        let error = Object::new().number("code", self.code).text("message", &self.why);
        let error = if let Some(data) = &self.data { error.json("data", data) } else { error };
        let answer = Object::new().text("jsonrpc", "2.0");
        // An unknown id is left out: the protocol has no null there.
        let answer = if let Some(id) = &self.id { answer.json("id", id.json()) } else { answer };
        answer.object_or_null("error", Some(error)).value()
    }
}

/// Reads a message.
pub(crate) fn read(frame: &[u8]) -> Message {
    match Value::parse(frame) {
        Ok(Value::Array(messages)) if messages.is_empty() => invalid(None, "an empty batch"),
        Ok(Value::Array(messages)) => Message::Batch(messages.into_iter().map(one).collect()),
        Ok(value) => one(value),
        Err(error) => {
            Message::Invalid(RpcError::new(None, PARSE_ERROR, format!("it is not valid JSON: {error}")))
        }
    }
}

/// Reads an object; `None` if it is something else.
pub(crate) fn read_object(text: &str) -> Option<Fields> {
    if let Ok(Value::Object(fields)) = Value::parse(text.as_bytes()) { Some(fields) } else { None }
}

fn one(value: Value) -> Message {
    let Value::Object(mut fields) = value else { return invalid(None, "a message must be an object") };
    let id = fields.get("id").map(Id::of);
    let known = id.clone().flatten();
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid(known, "jsonrpc is not \"2.0\"");
    }
    let method = match fields.remove("method") {
        Some(Value::String(method)) => method,
        None if fields.contains_key("result") || fields.contains_key("error") => {
            return Message::Response(fields);
        }
        _ => return invalid(known, "method is not a string"),
    };
    let params = match fields.remove("params") {
        Some(Value::Object(params)) => params,
        None => Fields::new(),
        Some(_) => return invalid(known, "params is not an object"),
    };
    match id {
        Some(Some(id)) => Message::Request(RpcRequest { id, method, params }),
        Some(None) => invalid(None, "id is not a string or a whole number"),
        None => Message::Notification { method, params },
    }
}

fn invalid(id: Option<Id>, why: &str) -> Message {
    Message::Invalid(RpcError::new(id.as_ref(), INVALID_REQUEST, format!("invalid request: {why}")))
}

/// An answer, without the line's end.
pub(crate) fn response(id: &Id, result: Object) -> String {
    Object::new().text("jsonrpc", "2.0").json("id", id.json()).object_or_null("result", Some(result)).value()
}

/// A request of ours, without the line's end.
pub(crate) fn request(id: &str, method: &str, params: Object) -> String {
    let request = Object::new().text("jsonrpc", "2.0").text("id", id).text("method", method);
    request.object_or_null("params", Some(params)).value()
}

/// A notification, without the line's end.
pub(crate) fn notification(method: &str, params: Object) -> String {
    let notification = Object::new().text("jsonrpc", "2.0").text("method", method);
    notification.object_or_null("params", Some(params)).value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{rounds, spoiled};

    fn refused(frame: &str) -> (Option<String>, i64) {
        match read(frame.as_bytes()) {
            Message::Invalid(refusal) => (refusal.id.map(|id| id.0), refusal.code),
            other => panic!("{frame}: {other:?}"),
        }
    }

    #[test]
    fn a_request_has_an_id_and_a_notification_has_none() {
        for (id, read_as) in [
            ("7", "7"),
            ("-1", "-1"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("\"a\\u0000\\\"\"", "\"a\\u0000\\\"\""),
            ("\"\"", "\"\""),
        ] {
            let frame =
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\",\"params\":{{\"a\":1}}}}");
            match read(frame.as_bytes()) {
                Message::Request(request) => {
                    assert_eq!((request.id.json(), &*request.method), (read_as, "m"));
                    assert_eq!(request.params.get("a").and_then(Value::as_u64), Some(1));
                }
                other => panic!("{frame}: {other:?}"),
            }
        }
        let notification = read(b"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}");
        assert!(matches!(notification, Message::Notification { method, .. } if method == "m"));
        let answer = read(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
        assert!(matches!(answer, Message::Response(_)));
    }

    #[test]
    fn an_invalid_message_is_refused_with_its_id_if_it_has_one() {
        let cases = [
            ("", None, PARSE_ERROR),
            ("{", None, PARSE_ERROR),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\u{0}\"}", None, PARSE_ERROR),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"} x", None, PARSE_ERROR),
            ("[]", None, INVALID_REQUEST),
            ("7", None, INVALID_REQUEST),
            ("null", None, INVALID_REQUEST),
            ("{}", None, INVALID_REQUEST),
            ("{\"id\":1,\"method\":\"m\"}", Some("1"), INVALID_REQUEST),
            ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}", Some("1"), INVALID_REQUEST),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":2}", Some("1"), INVALID_REQUEST),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"m\",\"params\":[]}",
                Some("\"x\""),
                INVALID_REQUEST,
            ),
            ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", None, INVALID_REQUEST),
            ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"m\"}", None, INVALID_REQUEST),
            ("{\"jsonrpc\":\"2.0\",\"id\":1e3,\"method\":\"m\"}", None, INVALID_REQUEST),
            ("{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"m\"}", None, INVALID_REQUEST),
        ];
        for (frame, id, code) in cases {
            assert_eq!(refused(frame), (id.map(str::to_owned), code), "{frame}");
        }
    }

    #[test]
    fn no_depth_and_no_bytes_are_too_much() {
        assert_eq!(refused(&"[".repeat(100_000)).1, PARSE_ERROR);
        assert_eq!(refused(&"{\"a\":".repeat(100_000)).1, PARSE_ERROR);
        assert!(matches!(read(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}"), Message::Invalid(_)));
        assert_eq!(refused("{\"jsonrpc\":\"2.0\",\"id\":\"\\ud800\",\"method\":\"m\"}").1, PARSE_ERROR);
    }

    #[test]
    fn whatever_comes_is_one_of_these() {
        let right = b"[{\"jsonrpc\":\"2.0\",\"id\":12,\"method\":\"tools/call\",\"params\":{\"_meta\":{\"x\":[1.5e3,true]}}}]";
        for (seed, mut random) in rounds(2_000) {
            let frame = spoiled(right, &mut random);
            if let Message::Invalid(refusal) = read(&frame) {
                let answer = refusal.answer();
                assert!(serde_json::from_str::<serde_json::Value>(&answer).is_ok(), "seed {seed}: {answer}");
            }
        }
    }
}
