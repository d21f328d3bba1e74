//! Requests and answers of HTTP/1.1 (RFC 9112), as far as a page of ours needs them.
//!
//! Pure: bytes in, a request out. A request has a body only with one Content-Length; what else
//! could be read in two ways is refused.

use crate::json::Object;

/// No browser needs half of that for a request to us.
pub(crate) const LONGEST_HEAD: usize = 8 * 1024;

/// The most text that can be typed or pasted at once.
pub(crate) const LONGEST_BODY: usize = 64 * 1024;

const MOST_HEADERS: usize = 64;

/// Why a request is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HttpError {
    pub(crate) status: &'static str,
    pub(crate) why: &'static str,
}

const fn refusal(status: &'static str, why: &'static str) -> HttpError {
    HttpError { status, why }
}

pub(crate) const BAD: HttpError = refusal("400 Bad Request", "this is not an HTTP/1.1 request");
pub(crate) const BAD_BODY: HttpError = refusal("400 Bad Request", "the body is invalid for this path");
pub(crate) const BAD_PORT: HttpError = refusal("400 Bad Request", "the port is not a number from 1 to 65535");
pub(crate) const UNAUTHORIZED: HttpError = refusal("401 Unauthorized", "the token is missing or wrong");
pub(crate) const FORBIDDEN: HttpError = refusal("403 Forbidden", "the request is from another site");
pub(crate) const CONFINED: HttpError =
    refusal("403 Forbidden", "a confined process (as by --write-root) is not served");
pub(crate) const UNTOLD: HttpError =
    refusal("403 Forbidden", "it is unknown whether the process is confined");
pub(crate) const NOT_FOUND: HttpError = refusal("404 Not Found", "not found");
pub(crate) const NOT_ALLOWED: HttpError = refusal("405 Method Not Allowed", "method not allowed");
pub(crate) const CHANGED: HttpError = refusal("409 Conflict", "the program no longer asks for this");
pub(crate) const GONE: HttpError = refusal("410 Gone", "the session has ended");
pub(crate) const TOO_LARGE: HttpError = refusal("413 Content Too Large", "the request is too large");
pub(crate) const MISDIRECTED: HttpError =
    refusal("421 Misdirected Request", "this is not the address of this page");
pub(crate) const TOO_MANY: HttpError =
    refusal("429 Too Many Requests", "the program has not read earlier input");
pub(crate) const HEAD_TOO_LARGE: HttpError =
    refusal("431 Request Header Fields Too Large", "the head is too long");
pub(crate) const NOT_IMPLEMENTED: HttpError = refusal("501 Not Implemented", "a body needs a Content-Length");
pub(crate) const UNREACHED: HttpError =
    refusal("502 Bad Gateway", "its machine cannot be reached; it is unknown whether it was done");
/// The same without a preceding request.
pub(crate) const UNASKED: HttpError =
    refusal("503 Service Unavailable", "its machine cannot be reached; nothing was done");
pub(crate) const UNAVAILABLE: HttpError = refusal("503 Service Unavailable", "too many pages are open");

/// A request whose head has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    /// Without its question mark.
    pub(crate) query: String,
    pub(crate) host: String,
    pub(crate) origin: Option<String>,
    /// Sec-Fetch-Site, which no script can set.
    pub(crate) fetch_site: Option<String>,
    pub(crate) authorization: Option<String>,
    pub(crate) last_event_id: Option<String>,
    /// How long the body is.
    pub(crate) length: usize,
    /// The client will not ask anything else on this connection.
    pub(crate) closes: bool,
}

impl HttpRequest {
    /// The value of a field of the query; none of ours needs an escape.
    pub(crate) fn asked(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The request that begins these bytes, and how long its head is; `None` where more of that has
/// to come.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(HttpRequest, usize)>, HttpError> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let length = match head.parse(&bytes[..bytes.len().min(LONGEST_HEAD)]) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => return Err(HEAD_TOO_LARGE),
        Err(_) => return Err(BAD),
    };
    let (path, query) =
        head.path.unwrap_or_default().split_once('?').unwrap_or((head.path.unwrap_or_default(), ""));
    let is_old = head.version != Some(1);
    let mut request = HttpRequest {
        method: head.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        closes: is_old,
        ..HttpRequest::default()
    };
    let (mut host, mut body) = (None, None);
    for header in head.headers.iter() {
        let value = std::str::from_utf8(header.value).map_err(|_| BAD)?;
        let name = header.name.to_ascii_lowercase();
        let place = match &*name {
            "host" => &mut host,
            "content-length" => &mut body,
            "origin" => &mut request.origin,
            "sec-fetch-site" => &mut request.fetch_site,
            "authorization" => &mut request.authorization,
            "last-event-id" => &mut request.last_event_id,
            "transfer-encoding" | "upgrade" | "expect" => return Err(NOT_IMPLEMENTED),
            "connection" => {
                request.closes |= value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"));
                continue;
            }
            _ => continue,
        };
        if place.replace(value.to_owned()).is_some() {
            return Err(BAD);
        }
    }
    request.host = host.ok_or(BAD)?;
    if let Some(digits) = body {
        // Not as `parse` has it, which takes a sign.
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BAD);
        }
        request.length = digits.parse().map_err(|_| TOO_LARGE)?;
        if request.length > LONGEST_BODY {
            return Err(TOO_LARGE);
        }
    }
    Ok(Some((request, length)))
}

/// The headers of every answer: no page of another site can use it, and ours can only do what it
/// needs.
const ALWAYS: &str = "Cache-Control: no-store\r\n\
    Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    Referrer-Policy: no-referrer\r\n\
    X-Content-Type-Options: nosniff\r\n\
    X-Frame-Options: DENY\r\n";

/// An answer with all of its body.
pub(crate) fn answer(status: &str, kind: &str, body: &str, closes: bool) -> Vec<u8> {
    let connection = if closes { "Connection: close\r\n" } else { "" };
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{connection}{ALWAYS}\r\n{body}")
        .into_bytes()
}

/// A page with a form. The browser may send the form only to us, and must name its origin when it does;
/// `no-referrer` would keep it from that.
pub(crate) fn form(text: &str, closes: bool) -> Vec<u8> {
    let page = answer(OK, "text/html; charset=utf-8", text, closes);
    let page = String::from_utf8_lossy(&page).replacen("form-action 'none'", "form-action 'self'", 1);
    page.replacen("no-referrer", "same-origin", 1).into_bytes()
}

/// The head of an answer that does not end.
pub(crate) fn stream() -> Vec<u8> {
    format!("HTTP/1.1 {OK}\r\nContent-Type: text/event-stream\r\nConnection: close\r\n{ALWAYS}\r\n")
        .into_bytes()
}

/// The statuses of what was done, with an answer and without one.
pub(crate) const OK: &str = "200 OK";
pub(crate) const DONE: &str = "204 No Content";

pub(crate) fn done(closes: bool) -> Vec<u8> {
    let connection = if closes { "Connection: close\r\n" } else { "" };
    format!("HTTP/1.1 {DONE}\r\n{connection}{ALWAYS}\r\n").into_bytes()
}

/// The answer for an error.
pub(crate) fn refused(refusal: HttpError, closes: bool) -> Vec<u8> {
    let body = Object::new().text("error", refusal.why).line();
    answer(refusal.status, JSON, &body, closes)
}

pub(crate) const JSON: &str = "application/json";

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &[u8] = b"POST /a/b?focus=1&since=2 HTTP/1.1\r\nHost: x:1\r\nOrigin: http://x:1\r\n\
        Content-Length: 3\r\nAuthorization: Bearer t\r\n\r\nabcGET";

    #[test]
    fn a_request_is_whole_or_not_yet_there() {
        let head = WHOLE.len() - b"abcGET".len();
        for length in 0..head {
            assert_eq!(parse(&WHOLE[..length]), Ok(None), "{length}");
        }
        let (request, length) = parse(WHOLE).unwrap().unwrap();
        assert_eq!(length, head);
        assert_eq!((&*request.method, &*request.path, request.length), ("POST", "/a/b", 3));
        assert_eq!(
            (request.asked("focus"), request.asked("since"), request.asked("s")),
            (Some("1"), Some("2"), None)
        );
        assert_eq!((&*request.host, request.authorization.as_deref()), ("x:1", Some("Bearer t")));
        assert!(!request.closes);
    }

    #[test]
    fn ambiguous_requests_are_rejected() {
        let asked = |headers: &str| parse(format!("GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes());
        assert!(asked("").is_ok());
        for (headers, refusal) in [
            ("Host: y\r\n", BAD),
            ("Content-Length: 1\r\nContent-Length: 1\r\n", BAD),
            ("Content-Length: +1\r\n", BAD),
            ("Content-Length: -1\r\n", BAD),
            ("Content-Length: \r\n", BAD),
            ("Content-Length: 65537\r\n", TOO_LARGE),
            ("Content-Length: 99999999999999999999999\r\n", TOO_LARGE),
            ("Transfer-Encoding: chunked\r\n", NOT_IMPLEMENTED),
            ("Expect: 100-continue\r\n", NOT_IMPLEMENTED),
            ("Content-Length : 1\r\n", BAD),
            (" folded: 1\r\n", BAD),
            ("A: \u{0}\r\n", BAD),
        ] {
            assert_eq!(asked(headers), Err(refusal), "{headers:?}");
        }
        assert_eq!(parse(b"GET / HTTP/1.1\r\n\r\n"), Err(BAD));
        assert_eq!(parse(&[b'a'; LONGEST_HEAD]), Err(HEAD_TOO_LARGE));
        assert_eq!(asked(&"A: b\r\n".repeat(MOST_HEADERS)), Err(HEAD_TOO_LARGE));
        let long = format!("A: {}\r\n", "b".repeat(LONGEST_HEAD));
        assert_eq!(asked(&long), Err(HEAD_TOO_LARGE));
    }
}
