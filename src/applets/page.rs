//! page - show the sessions on a web page
//!
//! Usage: nbs-page [options]
//!
//! Serves a page that shows all sessions live: a wall of their screens, with those
//! waiting for input first. Open one to enlarge it, see its scrollback, type a
//! line and press keys. The TCP ports that it listens on are links; a port on
//! another machine is forwarded for you. Prints the page's address, which contains
//! a token, and serves until it is interrupted.
//!
//! Anyone with the token can do what you can do, such as type into your shells.
//! The token is stored in the state directory. It is valid until --new-token. Only
//! this machine can reach the page. From elsewhere, use
//! `ssh -L 8080:127.0.0.1:PORT HOST`, and open http://127.0.0.1:8080/ with the
//! same `#TOKEN`. The page rejects local processes confined by --write-root,
//! whatever token they have.
//!
//! Options:
//!   --listen=IP:PORT  serve there (default: 127.0.0.1, and the last port used, if
//!                     it is free; port 0 is any), without encryption
//!   --on=MACHINE      show that machine's sessions (repeatable; 'all': this and
//!                     all known machines; default: $NBS_TS_ON)
//!   --new-token       make a new token, and reject the old one
//!   --json            print an object with address, port and token
//!
//! Example:
//!   nbs-page --listen=127.0.0.1:8080

use std::{
    ffi::OsStr,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

use crate::{
    call::CommandLine,
    cli,
    json::Object,
    outcome::{Result, Trying},
    page::{self, PageListener, Token},
    session::StateDir,
    sys::{
        child,
        signals::{SIGHUP, SIGINT, SIGTERM, Signals},
    },
    ts::remote,
};

pub(crate) fn run(call: &CommandLine) -> Result<()> {
    let (listen, new_token) = (call.optional("listen", address)?, call.has("new-token"));
    let machines = remote::shown(call)?;
    let state_dir = StateDir::open_or_make()?;
    let token = Token::of(&state_dir, new_token).trying("keep a token in the state directory")?;
    // Two connections to each relay.
    child::raise_open_files().trying("raise the limit of open files")?;
    let mut ending = Signals::catch(&[SIGINT, SIGTERM, SIGHUP]).trying("catch signals")?;
    let asked = listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let listener = bind(&state_dir, asked).trying(format_args!("listen on {asked}"))?;
    let address = listener.local_addr().trying("serve the page")?;
    // The lock is held until we end. If the port cannot be stored, the next page uses another one.
    let _kept = page::keep_port(&state_dir, address);
    if !address.ip().is_loopback() {
        let warning = format!("others can reach {address}, and the connection is not encrypted");
        cli::warn("nbs-page", &warning);
    }
    announce(address, &token, call.json())?;
    page::serve(&state_dir, PageListener { listener, address, token }, machines, &mut ending)
}

fn address(option: &str, value: &OsStr) -> Result<SocketAddr> {
    let address = value.to_str().and_then(|text| text.parse().ok());
    let why = "is not an address and port like 127.0.0.1:8080 or [::1]:0";
    address.ok_or_else(|| cli::bad_value(option, value, why))
}

/// The port may be any: then it is the one of last time, if that is free.
fn bind(state_dir: &StateDir, asked: SocketAddr) -> io::Result<TcpListener> {
    let kept = state_dir.page_port().filter(|_| asked.port() == 0);
    let again = kept.and_then(|port| TcpListener::bind((asked.ip(), port)).ok());
    let listener = if let Some(listener) = again { listener } else { TcpListener::bind(asked)? };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn announce(address: SocketAddr, token: &Token, json: bool) -> Result<()> {
    let mut seen = address;
    if address.ip().is_unspecified() {
        seen.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    // Browsers never send the part behind the # (RFC 9110, 4.2.5).
    let url = format!("http://{seen}/#{token}");
    if !json {
        return cli::print(format!("{url}\n"));
    }
    let object =
        Object::new().text("address", &url).number("port", address.port()).text("token", &token.to_string());
    cli::print(object.line())
}
