//! Access to the page: a request needs the token, must name our address, and must not come from
//! another site.
//!
//! The token is in the state directory and is read for each check, so that a new one invalidates the
//! old one at once.

use std::{
    fmt,
    fs::File,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use crate::{
    jail::Denial,
    page::http::{CONFINED, FORBIDDEN, HttpError, HttpRequest, MISDIRECTED, UNAUTHORIZED, UNTOLD},
    session::{PAGE_PORT, PAGE_TOKEN, StateDir},
    sys::{files::Folder, random},
};

/// 128 random bits.
const BYTES: usize = 16;

/// In hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// The token in the state directory. If it is missing or invalid, or a new one is wanted, this
    /// writes a new one.
    pub(crate) fn of(state_dir: &StateDir, another: bool) -> io::Result<Token> {
        let folder = Folder::open(state_dir.path())?;
        if let Some(token) = Token::read(&folder).filter(|_| !another) {
            return Ok(token);
        }
        let token = random::hex::<BYTES>()?;
        folder.replace(PAGE_TOKEN, format!("{token}\n").as_bytes())?;
        Ok(Token(token))
    }

    /// Is it still the one in the state directory?
    pub(crate) fn holds(&self, state_dir: &StateDir) -> bool {
        Folder::open(state_dir.path()).ok().and_then(|folder| Token::read(&folder)).as_ref() == Some(self)
    }

    fn read(folder: &Folder) -> Option<Token> {
        let line = folder.read(PAGE_TOKEN, 2 * BYTES as u64 + 1).ok()?;
        let token = String::from_utf8(line).ok()?.trim_ascii_end().to_owned();
        let is_one = token.len() == 2 * BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_one.then_some(Token(token))
    }

    fn is(&self, guess: &str) -> bool {
        random::is_same(&self.0, guess)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Stores the port, so that an open page finds the next `nbs-page`, too. If a browser on this machine can reach
/// the address, the file is locked as long as the result is open: then other processes of nbs refer to it.
pub(crate) fn keep_port(state_dir: &StateDir, address: SocketAddr) -> io::Result<File> {
    let folder = Folder::open(state_dir.path())?;
    folder.replace(PAGE_PORT, format!("{}\n", address.port()).as_bytes())?;
    let file = folder.open_file(PAGE_PORT)?;
    if address.ip().is_unspecified() || address.ip() == Ipv4Addr::LOCALHOST {
        // Another page may have been quicker; then it is the one.
        let _ = file.try_lock();
    }
    Ok(file)
}

/// The error for a process of this machine that we do not serve, with any token.
pub(crate) fn refusal(denial: Denial) -> HttpError {
    match denial {
        Denial::Confined => CONFINED,
        Denial::OtherUser | Denial::Unknown => UNTOLD,
    }
}

/// Rejects a request for a name that an attacker pointed at our address (DNS rebinding): the name is
/// in `Host`, and is not ours.
pub(crate) fn check_host(request: &HttpRequest, address: SocketAddr) -> Result<(), HttpError> {
    if is_ours(&request.host, address.ip()) { Ok(()) } else { Err(MISDIRECTED) }
}

/// Rejects requests that a browser sends on behalf of another site: `Origin` and `Sec-Fetch-Site` name
/// the site.
pub(crate) fn check_site(request: &HttpRequest) -> Result<(), HttpError> {
    let is_ours = |origin: &String| origin.strip_prefix("http://") == Some(&request.host);
    let other_origin = request.origin.as_ref().is_some_and(|origin| !is_ours(origin));
    let other_site = request.fetch_site.as_ref().is_some_and(|site| site != "same-origin" && site != "none");
    // Every browser names the origin of a request that types.
    let nobody = request.method != "GET" && request.origin.is_none();
    if other_origin || other_site || nobody { Err(FORBIDDEN) } else { Ok(()) }
}

/// Does this name refer only to us? The port may differ: an `ssh -L` has its own.
fn is_ours(host: &str, listens_on: IpAddr) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    match literal.parse::<IpAddr>() {
        // An address cannot be pointed elsewhere.
        Ok(named) => named.is_loopback() || named == listens_on || listens_on.is_unspecified(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

/// Refuses who does not have the token.
pub(crate) fn check_token(request: &HttpRequest, token: &Token) -> Result<(), HttpError> {
    let guess = request.authorization.as_ref().and_then(|value| value.strip_prefix("Bearer "));
    if guess.is_some_and(|guess| token.is(guess)) { Ok(()) } else { Err(UNAUTHORIZED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_else_can_have_are_ours() {
        let here = "127.0.0.1:1".parse().unwrap();
        let there = "192.0.2.1:1".parse().unwrap();
        let anywhere = "[::]:1".parse().unwrap();
        let asked = |host: &str, address: SocketAddr| {
            let request = HttpRequest { method: "GET".into(), host: host.into(), ..HttpRequest::default() };
            check_host(&request, address).is_ok()
        };
        for host in ["localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:8080", "[::1]:9", "127.9.9.9:1"] {
            assert!(asked(host, here) && asked(host, there) && asked(host, anywhere), "{host}");
        }
        for host in ["192.0.2.1", "192.0.2.1:1"] {
            assert!(!asked(host, here) && asked(host, there) && asked(host, anywhere), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example:1", "127.0.0.1.nip.io", "x@127.0.0.1", "127.0.0.1:x"]
        {
            assert!(!asked(host, here) && !asked(host, there) && !asked(host, anywhere), "{host}");
        }
    }

    #[test]
    fn another_site_gets_nothing_typed_and_nothing_read() {
        let asked = |method: &str, origin: Option<&str>, site: Option<&str>| {
            let request = HttpRequest {
                method: method.into(),
                host: "localhost:1".into(),
                origin: origin.map(str::to_owned),
                fetch_site: site.map(str::to_owned),
                ..HttpRequest::default()
            };
            check_site(&request)
        };
        let own = Some("http://localhost:1");
        assert_eq!(asked("POST", own, Some("same-origin")), Ok(()));
        assert_eq!(asked("GET", None, Some("none")), Ok(()));
        assert_eq!(asked("GET", None, None), Ok(()));
        for (method, origin, site) in [
            ("POST", None, None),
            ("POST", Some("null"), None),
            ("POST", Some("http://localhost:2"), Some("same-site")),
            ("POST", Some("https://localhost:1"), None),
            ("POST", own, Some("cross-site")),
            ("GET", Some("http://evil.example"), None),
            ("GET", None, Some("cross-site")),
            ("GET", None, Some("same-site")),
        ] {
            assert_eq!(asked(method, origin, site), Err(FORBIDDEN), "{method} {origin:?} {site:?}");
        }
    }

    #[test]
    fn a_token_is_itself_and_nothing_else() {
        let token = Token("0123456789abcdef0123456789abcdef".into());
        assert!(token.is("0123456789abcdef0123456789abcdef"));
        for guess in ["", "0", "0123456789abcdef0123456789abcdee", "0123456789abcdef0123456789abcdef0"] {
            assert!(!token.is(guess), "{guess}");
        }
    }
}
