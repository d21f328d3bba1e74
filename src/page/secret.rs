//! The form for one secret: it shows the prompt of one session, and types one line there.
//!
//! Its address is all that a request needs. It gives access to nothing else, and is not valid for long.

use crate::{
    page::http::{self, BAD_BODY, CHANGED, GONE, HttpError, HttpRequest, NOT_ALLOWED, NOT_FOUND},
    session::{
        StateDir,
        client::{RelayClient, sending},
    },
    sys::host::Host,
};

/// Shows a form, or types what was entered.
pub(super) fn answer(
    state_dir: &StateDir,
    id: &str,
    request: &HttpRequest,
    body: &[u8],
) -> Result<Vec<u8>, HttpError> {
    let form = state_dir.form(id).ok_or(NOT_FOUND)?;
    let text = match &*request.method {
        "GET" if !form.is_asked() => return Err(CHANGED),
        "GET" => {
            let host = Host::ours().map_or_else(|_| Vec::new(), |host| host.name);
            let (program, line) = form.asked.split_once('\n').unwrap_or_default();
            let told = [&*String::from_utf8_lossy(&host), form.session.handle().as_str(), program, line];
            let [host, handle, program, line] = told.map(escaped);
            format!(
                "<p>{host}, session {handle}: {program} asks for a secret.<p>{line}\
                 <form method=post enctype=text/plain><input type=password name=s autofocus> <button>Type it</button></form>"
            )
        }
        "POST" => {
            // The encoding of a form as text/plain (HTML, section 4.10.22.8).
            let line =
                body.strip_prefix(b"s=").and_then(|body| body.strip_suffix(b"\r\n")).ok_or(BAD_BODY)?;
            if line.len() > sending::LONGEST_SECRET || line.iter().any(|byte| *byte < b' ') {
                return Err(BAD_BODY);
            }
            let mut client = RelayClient::open(&form.session).ok().flatten().ok_or(GONE)?;
            // If two requests arrive at once, only one of them removes the form.
            form.take().map_err(|_| NOT_FOUND)?;
            let mut line = [line, b"\r"].concat();
            let typed = form.is_asked() && client.type_secret(&line).ok().flatten().ok_or(GONE)?;
            line.fill(0);
            if !typed {
                return Err(CHANGED);
            }
            "<p>Typed. You can close this page.".to_owned()
        }
        _ => return Err(NOT_ALLOWED),
    };
    let page =
        format!("<!doctype html><meta name=viewport content='width=device-width'><title>nbs</title>{text}\n");
    Ok(http::form(&page, request.closes))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
