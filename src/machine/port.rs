//! A port, or a socket by its path: to connect to, to listen on, and to carry to our standard streams.
//!
//! Each connection that is forwarded is a call of its own, so that none holds up another. A process
//! beside the socket carries it (`connect`, `accepted`); another one listens (`listen`). That prints a
//! token for each connection that comes, and gives it to the process that says the token.

use std::{
    ffi::{OsStr, OsString},
    fmt, fs, io,
    net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    cli,
    machine::{
        self,
        call_stream::AT_ONCE,
        outbox::{self, Buffer, Outbox},
    },
    outcome::{Failure, Result, Trying},
    session::{FAR, StateDir},
    sys::{
        child,
        deadline::Deadline,
        fdpass,
        poll::PollSet,
        random,
        signals::{SIGUSR1, Signals},
        socket::{self, Entrance},
        stdio::{self, Output},
    },
    terminal::text,
};

/// How long one address may take to answer.
const CONNECTING: Duration = Duration::from_secs(20);

/// How long the process that fetches a connection may take to say which.
const FETCHING: Duration = Duration::from_secs(5);

/// The most bytes that are kept in each direction.
const MOST_PENDING: usize = 256 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Port(String, u16),
    Path(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Port(host, port) if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Address::Port(host, port) => write!(formatter, "{host}:{port}"),
            Address::Path(path) => formatter.write_str(&text::escaped(path.as_os_str().as_bytes())),
        }
    }
}

impl Address {
    /// The word for it in a call.
    pub(crate) fn word(&self) -> OsString {
        match self {
            Address::Path(path) => path.into(),
            port => port.to_string().into(),
        }
    }

    fn parse(word: &OsStr) -> Option<Address> {
        if word.as_bytes().contains(&b'/') {
            return Some(Address::Path(word.into()));
        }
        let (host, port) = word.to_str()?.rsplit_once(':')?;
        Some(Address::Port(host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?))
    }

    /// A connection to it. What std calls a Unix stream is one of any kind here.
    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        let stream = match self {
            Address::Path(path) => UnixStream::connect(path)?,
            Address::Port(host, port) => {
                let mut failed = io::Error::from(io::ErrorKind::NotFound);
                let mut connect = |address| {
                    TcpStream::connect_timeout(&address, CONNECTING).map_err(|error| failed = error).ok()
                };
                let stream = (host.as_str(), *port).to_socket_addrs()?.find_map(&mut connect);
                of_tcp(stream.ok_or(failed)?)?
            }
        };
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    pub(crate) fn listen(&self) -> io::Result<Listener> {
        Ok(match self {
            Address::Port(host, port) => {
                let listener = TcpListener::bind((host.as_str(), *port))?;
                listener.set_nonblocking(true)?;
                Listener::Port(listener)
            }
            Address::Path(path) => {
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Listener::Path(listener, path.clone())
            }
        })
    }
}

fn of_tcp(stream: TcpStream) -> io::Result<UnixStream> {
    stream.set_nodelay(true)?;
    Ok(UnixStream::from(OwnedFd::from(stream)))
}

/// Its path is removed when it is dropped.
pub(crate) enum Listener {
    Port(TcpListener),
    Path(UnixListener, PathBuf),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Port(listener) => listener.as_fd(),
            Listener::Path(listener, _) => listener.as_fd(),
        }
    }
}

impl Listener {
    pub(crate) fn accept(&self) -> io::Result<(UnixStream, ())> {
        let stream = match self {
            Listener::Port(listener) => of_tcp(socket::accept(listener)?.0)?,
            Listener::Path(listener, _) => listener.accept()?.0,
        };
        stream.set_nonblocking(true)?;
        Ok((stream, ()))
    }

    /// The port that it has, if the kernel has chosen it.
    pub(crate) fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Listener::Port(listener) => {
                let address = listener.local_addr()?;
                Address::Port(address.ip().to_string(), address.port())
            }
            Listener::Path(_, path) => Address::Path(path.clone()),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Path(_, path) = self {
            // If it has gone already, the result is the same.
            let _ = fs::remove_file(path);
        }
    }
}

/// Carries a connection to an address to our standard streams.
pub(crate) fn connect(words: &[OsString]) -> Result<()> {
    let address = words.first().and_then(|word| Address::parse(word)).ok_or_else(cli::by_hand)?;
    let stream = address.connect().trying(format_args!("connect to {address}"))?;
    carry(stream).trying(format_args!("forward to {address}"))
}

/// The same with a connection that the process which listens has accepted.
pub(crate) fn accepted(words: &[OsString]) -> Result<()> {
    let [name, token] = words else { return Err(cli::by_hand()) };
    let what = "fetch a connection";
    let folder = machine::folder(&StateDir::open_or_make()?, FAR)?;
    let name = name.to_str().filter(|name| !name.contains('/')).ok_or_else(cli::by_hand)?;
    let mut stream = socket::connect(&folder, name, Deadline::after(FETCHING)).trying(what)?;
    io::Write::write_all(&mut stream, token.as_bytes()).trying(what)?;
    let (_, descriptors) = fdpass::receive(&stream, &mut [0; 8]).trying(what)?;
    let Ok([connection]) = <[OwnedFd; 1]>::try_from(descriptors) else {
        return Err(Failure::failed("cannot fetch a connection: it has gone".into()));
    };
    carry(UnixStream::from(connection)).trying(what)
}

/// Connects to an address, and passes the connection to the socket that our standard input is.
pub(crate) fn dial(words: &[OsString]) -> Result<()> {
    let address = words.first().and_then(|word| Address::parse(word)).ok_or_else(cli::by_hand)?;
    let what = format!("connect to {address}");
    let stream = address.connect().trying(&what)?;
    let socket = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from).trying(&what)?;
    fdpass::send(&socket, b"C", &[stream.as_fd()]).trying(&what)
}

#[derive(Clone, Copy)]
enum Event {
    Stdin,
    Socket,
    Stdout,
}

/// Until both directions have ended, or one of the two sides has gone.
fn carry(stream: UnixStream) -> io::Result<()> {
    let mut stdout = Some(Output::stdout()?);
    let stdin = io::stdin();
    let (mut there, mut back) = (Outbox::default(), Outbox::default());
    let (mut input_over, mut is_shut, mut socket_over) = (false, false, false);
    let mut buffer = Buffer::new(AT_ONCE);
    loop {
        if there.flush(&mut &stream).is_err() {
            return Ok(());
        }
        if input_over && there.is_empty() && !is_shut {
            is_shut = true;
            // If it has gone, that is seen at the next read.
            let _ = stream.shutdown(Shutdown::Write);
        }
        if let Some(output) = &stdout {
            if back.flush(&mut &*output).is_err() {
                return Ok(());
            }
            if socket_over && back.is_empty() {
                stdout = None;
                stdio::close_stdout()?;
            }
        }
        if is_shut && stdout.is_none() {
            return Ok(());
        }
        let mut poll_set = PollSet::new();
        if !input_over && there.len() < MOST_PENDING {
            poll_set.readable(&stdin, Event::Stdin);
        }
        let reads = !socket_over && back.len() < MOST_PENDING;
        if reads || !there.is_empty() {
            poll_set.peer(&stream, reads, !there.is_empty(), Event::Socket, None);
        }
        match &stdout {
            Some(output) if back.is_empty() => poll_set.gone(output, Event::Stdout),
            Some(output) => poll_set.writable(output, Event::Stdout),
            None => {}
        }
        for event in poll_set.wait(Deadline::NEVER)? {
            match event {
                Event::Stdin => match child::read_stdin(&mut buffer) {
                    Ok(0) | Err(_) => input_over = true,
                    Ok(count) => there.push(&buffer[..count]),
                },
                Event::Socket if reads => match outbox::read(&mut &stream, &mut buffer) {
                    Ok(Some(0)) => socket_over = true,
                    Ok(Some(count)) => back.push(&buffer[..count]),
                    Ok(None) => {}
                    Err(_) => return Ok(()),
                },
                Event::Stdout if back.is_empty() => return Ok(()),
                Event::Socket | Event::Stdout => {}
            }
        }
    }
}

/// Listens on an address, and prints a line: a name by which `accepted` reaches us, and our address.
/// For each connection it prints a line with its token, until standard input ends. A token there means
/// that nobody wants that connection.
pub(crate) fn listen(words: &[OsString]) -> Result<()> {
    let address = words.first().and_then(|word| Address::parse(word)).ok_or_else(cli::by_hand)?;
    let what = format!("listen on {address}");
    let listener = address.listen().trying(&what)?;
    let folder = machine::folder(&StateDir::open_or_make()?, FAR)?;
    let name = format!("listen-{}", random::hex::<8>().trying(&what)?);
    let fetchers = socket::listen(&folder, &name).trying(&what)?;
    let listened = serve(&listener, &fetchers, &name).trying(&what);
    // If it has gone already, the result is the same.
    let _ = folder.remove_file(OsStr::new(&name));
    listened
}

#[derive(Clone, Copy)]
enum Listening {
    Connection,
    Fetcher,
    Token,
    Stdin,
    End,
}

fn serve(listener: &Listener, fetchers: &UnixListener, name: &str) -> io::Result<()> {
    let ending = Signals::catch(&[SIGUSR1])?;
    let stdin = io::stdin();
    let (mut entrance, mut fetchers_entrance) = (Entrance::default(), Entrance::default());
    let mut unread = Vec::new();
    let mut waiting: Vec<(String, UnixStream)> = Vec::new();
    let mut unnamed: Vec<(UnixStream, Deadline)> = Vec::new();
    say(&format!("{name} {}\n", listener.address()?))?;
    loop {
        let mut poll_set = PollSet::new();
        let mut deadline = entrance.watch(listener, &mut poll_set, Listening::Connection);
        deadline = deadline.min(fetchers_entrance.watch(fetchers, &mut poll_set, Listening::Fetcher));
        for (fetcher, until) in &unnamed {
            poll_set.readable(fetcher, Listening::Token);
            deadline = deadline.min(*until);
        }
        poll_set.readable(&stdin, Listening::Stdin);
        poll_set.readable(&ending, Listening::End);
        let events = poll_set.wait(deadline)?;
        unnamed.retain_mut(|(fetcher, until)| !until.has_passed() && !hand_over(fetcher, &mut waiting));
        for event in events {
            match event {
                Listening::Token => {}
                Listening::Connection => {
                    if let Some(stream) = entrance.take(listener.accept()) {
                        let token = random::hex::<16>()?;
                        say(&format!("{token}\n"))?;
                        waiting.push((token, stream));
                    }
                }
                Listening::Fetcher => {
                    if let Some(fetcher) = fetchers_entrance.take(fetchers.accept()) {
                        fetcher.set_nonblocking(true)?;
                        unnamed.push((fetcher, Deadline::after(FETCHING)));
                    }
                }
                Listening::Stdin => {
                    let mut buffer = [0; 4096];
                    let count = child::read_stdin(&mut buffer)?;
                    if count == 0 {
                        return Ok(());
                    }
                    unread.extend(&buffer[..count]);
                    while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                        let line: Vec<u8> = unread.drain(..=end).collect();
                        waiting.retain(|(token, _)| token.as_bytes() != line.trim_ascii());
                    }
                }
                Listening::End => return Ok(()),
            }
        }
    }
}

fn say(line: &str) -> io::Result<()> {
    child::write_stdout(line.as_bytes()).map(drop)
}

/// Gives the connection whose token has come; a wrong token gets none. Returns whether `fetcher` is done.
fn hand_over(fetcher: &mut UnixStream, waiting: &mut Vec<(String, UnixStream)>) -> bool {
    let mut token = [0; 32];
    let read = outbox::read(fetcher, &mut token);
    if let Ok(None) = read {
        return false;
    }
    if read.is_ok_and(|count| count == Some(token.len()))
        && let Some(at) = waiting.iter().position(|(known, _)| known.as_bytes() == token)
    {
        let (_, stream) = waiting.swap_remove(at);
        // If it has gone, so has the connection.
        let _ = fdpass::send(fetcher, b"C", &[stream.as_fd()]);
    }
    true
}

/// An address of ours, as ssh has it: `[BIND:]PORT[:HOST:PORT]`, each side also a path.
pub(crate) fn parse_forward(word: &OsStr) -> Option<(Address, Address)> {
    let parts = parts(word.as_bytes());
    let is_path = |part: &&[u8]| part.contains(&b'/');
    let path = |part: &[u8]| Address::Path(Path::new(OsStr::from_bytes(part)).to_owned());
    let port = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<u16>().ok();
    let host = |part: &[u8]| String::from_utf8(part.to_vec()).ok().filter(|host| !host.is_empty());
    let (listens, rest) = match &parts[..] {
        [first, rest @ ..] if is_path(first) => (path(first), rest),
        [first, rest @ ..] if port(first).is_some() => {
            (Address::Port("127.0.0.1".into(), port(first)?), rest)
        }
        [bind, second, rest @ ..] => {
            let bind = if *bind == b"*" || bind.is_empty() { "0.0.0.0".into() } else { host(bind)? };
            (Address::Port(bind, port(second)?), rest)
        }
        _ => return None,
    };
    let target = match (rest, &listens) {
        ([], Address::Port(_, port)) => Address::Port("localhost".into(), *port),
        ([target], _) if is_path(target) => path(target),
        ([name, number], _) => Address::Port(host(name)?, port(number)?),
        _ => return None,
    };
    Some((listens, target))
}

/// The parts between colons; brackets enclose a part that has colons.
fn parts(mut word: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    loop {
        let bracketed = word.strip_prefix(b"[").and_then(|rest| {
            let end = rest.iter().position(|byte| *byte == b']')?;
            Some((&rest[..end], &rest[end + 1..]))
        });
        let (part, rest) = bracketed.unwrap_or_else(|| {
            word.split_at(word.iter().position(|byte| *byte == b':').unwrap_or(word.len()))
        });
        parts.push(part);
        match rest {
            [b':', rest @ ..] => word = rest,
            _ => return parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_is_as_ssh_has_it() {
        let cases = [
            ("8080", "127.0.0.1:8080 localhost:8080"),
            ("0:db:5432", "127.0.0.1:0 db:5432"),
            ("*:80", "0.0.0.0:80 localhost:80"),
            ("[::1]:80:[fe80::1]:81", "[::1]:80 [fe80::1]:81"),
            ("10.0.0.1:80:db:81", "10.0.0.1:80 db:81"),
            ("80:/run/x.sock", "127.0.0.1:80 /run/x.sock"),
            ("./x:/run/x.sock", "./x /run/x.sock"),
            ("/x:db:80", "/x db:80"),
            ("", ""),
            ("/x", ""),
            ("x", ""),
            ("70000", ""),
            ("80:db", ""),
            ("80:db:81:82", ""),
            ("80::81", ""),
        ];
        for (word, expected) in cases {
            let parsed = parse_forward(OsStr::new(word));
            let shown = parsed.map(|(listens, target)| format!("{listens} {target}")).unwrap_or_default();
            assert_eq!(shown, expected, "{word}");
        }
        let address = Address::Port("::1".into(), 80);
        assert_eq!(Address::parse(&address.word()), Some(address));
    }
}
