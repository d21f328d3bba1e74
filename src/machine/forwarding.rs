//! Makes ports of another machine reachable here, and ports of here there.

use std::{
    ffi::OsString,
    io,
    net::Shutdown,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStringExt, net::UnixStream},
    },
    process::{Child, Stdio},
};

use crate::{
    cli,
    machine::{
        self,
        call::{Came, End, RemoteCall},
        call_stream::print_errors,
        frames::Stream,
        name::MachineName,
        outbox::Outbox,
        port::{Address, Listener},
    },
    outcome::{Failure, Result, Trying},
    sys::{
        child,
        deadline::Deadline,
        fdpass,
        poll::PollSet,
        signals::{self, Signals},
        socket::Entrance,
    },
};

/// The longest line of what listens there: a name and an address, whose path may be long.
const LONGEST_LINE: usize = 8 * 1024;

#[derive(Clone, Copy)]
enum Event {
    Some,
    Connection(usize),
    Signal,
}

/// A connection under way.
struct Forwarded {
    stream: UnixStream,
    call: RemoteCall,
    unsent: Outbox,
    input_over: bool,
    is_shut: bool,
    ended: bool,
    is_over: bool,
}

/// A listener for connections, here or there.
enum Door {
    Here {
        listener: Listener,
        entrance: Entrance,
        target: Address,
    },
    There {
        call: Box<RemoteCall>,
        unread: Vec<u8>,
        name: Option<String>,
        listens: Address,
        target: Address,
        dialled: Vec<Dialled>,
    },
}

/// A connection to a target here, which another process makes: a name or an address may take long to
/// answer, and holds up no other connection meanwhile.
struct Dialled {
    process: Child,
    socket: UnixStream,
    /// The name of the connection there that it is for.
    token: String,
}

impl Dialled {
    fn start(target: &Address, token: String) -> io::Result<Dialled> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut command = machine::call_of_ours("pipes");
        command.args(["exec", "dial"]).arg(target.word());
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        let process = command.spawn().map_err(child::why_not_ourselves)?;
        Ok(Dialled { process, socket, token })
    }

    /// `None`: it is not known yet. It has said itself why there is no connection.
    fn connection(&self) -> Option<Option<UnixStream>> {
        match fdpass::receive(&self.socket, &mut [0; 8]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            received => {
                Some(received.ok().and_then(|(_, came)| came.into_iter().next()).map(UnixStream::from))
            }
        }
    }
}

impl Drop for Dialled {
    fn drop(&mut self) {
        // If it has already ended, the result is the same.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn words(kind: &str, words: Vec<OsString>) -> Vec<Vec<u8>> {
    [OsString::from(kind)].into_iter().chain(words).map(OsString::into_vec).collect()
}

/// Forwards until a signal ends it; prints a line for each forward that listens.
pub(crate) fn forward(
    machine: &MachineName,
    forwards: Vec<(Address, Address)>,
    is_reverse: bool,
) -> Result<()> {
    let mut doors = Vec::new();
    for (listens, target) in forwards {
        doors.push(match is_reverse {
            true => {
                let call = Box::new(RemoteCall::exec(machine, words("listen", vec![listens.word()]))?);
                Door::There { call, unread: Vec::new(), name: None, listens, target, dialled: Vec::new() }
            }
            false => {
                let listener = listens.listen().trying(format_args!("listen on {listens}"))?;
                Door::Here { listener, entrance: Entrance::default(), target }
            }
        });
    }
    reach(machine)?;
    for door in &doors {
        if let Door::Here { listener, target, .. } = door {
            announce(&listener.address().trying("listen")?.to_string(), &on(machine, target))?;
        }
    }
    let mut caught = signals::to_end()
        .iter()
        .map(|signal| Ok((*signal, Signals::catch(&[*signal])?)))
        .collect::<io::Result<Vec<_>>>()
        .trying("catch signals")?;
    let mut connections: Vec<Forwarded> = Vec::new();
    loop {
        for door in &mut doors {
            connections.extend(door.drive(machine)?);
        }
        connections.iter_mut().for_each(Forwarded::drive);
        connections.retain(|connection| !connection.is_over);
        let mut poll_set = PollSet::new();
        let mut deadline = Deadline::NEVER;
        for (_, signals) in &caught {
            poll_set.readable(signals, Event::Signal);
        }
        for (index, door) in doors.iter().enumerate() {
            deadline = deadline.min(match door {
                Door::Here { listener, entrance, .. } => {
                    entrance.watch(listener, &mut poll_set, Event::Connection(index))
                }
                Door::There { call, dialled, .. } => {
                    dialled.iter().for_each(|dialled| poll_set.readable(&dialled.socket, Event::Some));
                    call.watch(&mut poll_set, Event::Some);
                    call.deadline()
                }
            });
        }
        for connection in &connections {
            deadline = deadline.min(connection.watch(&mut poll_set));
        }
        for event in poll_set.wait(deadline).trying("wait for a connection")? {
            match event {
                Event::Some => {}
                Event::Connection(index) => connections.extend(doors[index].accept(machine)),
                Event::Signal => {
                    let signal =
                        caught.iter_mut().find_map(|(signal, caught)| caught.take().then_some(*signal));
                    if let Some(signal) = signal {
                        // Dropped first, so that no path is left.
                        drop(doors);
                        signals::end_as_by(signal);
                        return Err(Failure::quiet());
                    }
                }
            }
        }
    }
}

/// How an address there is called here: without the host, if it is the machine itself.
fn on(machine: &MachineName, address: &Address) -> String {
    match address {
        Address::Port(host, port) if ["localhost", "127.0.0.1"].contains(&host.as_str()) => {
            format!("{machine}:{port}")
        }
        address => format!("{machine}:{address}"),
    }
}

fn announce(listens: &str, target: &str) -> Result<()> {
    cli::print(format!("forward: {listens} -> {target}\n"))
}

/// Fails if the machine cannot be reached now.
fn reach(machine: &MachineName) -> Result<()> {
    let mut call = RemoteCall::exec(machine, words("sh", vec![":".into()]))?;
    loop {
        for came in call.drive() {
            match came {
                Came::Ended(End::Lost(failure)) => return Err(failure),
                Came::Ended(End::Exit(_)) => return Ok(()),
                _ => {}
            }
        }
        let mut poll_set = PollSet::new();
        call.watch(&mut poll_set, ());
        poll_set.wait(call.deadline()).trying("wait for the other machine")?;
    }
}

impl Door {
    fn accept(&mut self, machine: &MachineName) -> Option<Forwarded> {
        let Door::Here { listener, entrance, target } = self else { return None };
        let stream = entrance.take(listener.accept())?;
        begin(machine, stream, words("connect", vec![target.word()]))
    }

    /// Reads what the listener there has said.
    fn drive(&mut self, machine: &MachineName) -> Result<Vec<Forwarded>> {
        let Door::There { call, unread, name, listens, target, dialled } = self else {
            return Ok(Vec::new());
        };
        let mut begun = Vec::new();
        for came in call.drive() {
            match came {
                Came::Stdout(bytes) => {
                    call.take(Stream::Stdout, bytes.len());
                    unread.extend(bytes);
                }
                Came::Stderr(bytes) => print_errors(call, &bytes),
                Came::Ended(End::Exit(_)) => return Err(Failure::quiet()),
                Came::Ended(End::Lost(failure)) => return Err(failure),
            }
        }
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            let line = String::from_utf8_lossy(line.trim_ascii()).into_owned();
            if name.is_none() {
                let (first, address) = line.split_once(' ').unwrap_or((&line, ""));
                let listening = match (&*listens, address.rsplit_once(':')) {
                    (Address::Port(..), Some((_, port))) => match port.parse() {
                        Ok(port) => on(machine, &with_port(listens, port)),
                        Err(_) => on(machine, listens),
                    },
                    _ => on(machine, listens),
                };
                *name = Some(first.to_owned());
                announce(&listening, &target.to_string())?;
                continue;
            }
            match Dialled::start(target, line.clone()) {
                Ok(started) => dialled.push(started),
                Err(error) => {
                    cli::warn("nbs-ts", &format!("cannot connect to {target}: {error}"));
                    refuse(call, &line);
                }
            }
        }
        if let Some(name) = name {
            dialled.retain(|dialled| match dialled.connection() {
                None => true,
                Some(None) => {
                    refuse(call, &dialled.token);
                    false
                }
                Some(Some(stream)) => {
                    let words = words("accepted", vec![name.as_str().into(), dialled.token.as_str().into()]);
                    begun.extend(begin(machine, stream, words));
                    false
                }
            });
        }
        if unread.len() > LONGEST_LINE {
            return Err(call.lost("it sent invalid data"));
        }
        Ok(begun)
    }
}

/// Nobody wants that connection there.
fn refuse(call: &mut RemoteCall, token: &str) {
    call.stdin().push(format!("{token}\n").as_bytes());
    call.send();
}

fn with_port(address: &Address, port: u16) -> Address {
    match address {
        Address::Port(host, _) => Address::Port(host.clone(), port),
        path => path.clone(),
    }
}

fn begin(machine: &MachineName, stream: UnixStream, words: Vec<Vec<u8>>) -> Option<Forwarded> {
    match RemoteCall::exec(machine, words) {
        Ok(call) => {
            let unsent = Outbox::default();
            Some(Forwarded {
                stream,
                call,
                unsent,
                input_over: false,
                is_shut: false,
                ended: false,
                is_over: false,
            })
        }
        Err(failure) => {
            cli::warn("nbs-ts", failure.message().unwrap_or_default());
            None
        }
    }
}

impl Forwarded {
    fn drive(&mut self) {
        let came = if self.ended { Vec::new() } else { self.call.drive() };
        for came in came {
            match came {
                Came::Stdout(bytes) => self.unsent.push(&bytes),
                Came::Stderr(bytes) => print_errors(&mut self.call, &bytes),
                Came::Ended(End::Exit(_)) => self.ended = true,
                Came::Ended(End::Lost(failure)) => {
                    cli::warn("nbs-ts", failure.message().unwrap_or_default());
                    self.is_over = true;
                }
            }
        }
        let before = self.unsent.len();
        if self.unsent.flush(&mut &self.stream).is_err() {
            self.is_over = true;
        }
        self.call.take(Stream::Stdout, before - self.unsent.len());
        if self.unsent.is_empty() && !self.is_shut && self.call.has_closed(Stream::Stdout) {
            self.is_shut = true;
            // If it has gone, that is seen at the next read.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        self.is_over |= self.ended && self.unsent.is_empty();
        if self.input_over || self.is_over {
            return;
        }
        while self.call.wants_stdin() && !self.input_over && !self.is_over {
            match self.call.read_stdin(&self.stream) {
                Ok(None) => break,
                Ok(Some(0)) => {
                    self.call.end_stdin();
                    self.input_over = true;
                }
                Ok(Some(_)) => {}
                Err(_) => self.is_over = true,
            }
        }
        self.call.send();
    }

    fn watch<'a>(&'a self, poll_set: &mut PollSet<'a, Event>) -> Deadline {
        let reads = !self.input_over && self.call.wants_stdin();
        if reads || !self.unsent.is_empty() {
            poll_set.peer(&self.stream, reads, !self.unsent.is_empty(), Event::Some, None);
        }
        if self.ended {
            return Deadline::NEVER;
        }
        self.call.watch(poll_set, Event::Some);
        self.call.deadline()
    }
}
