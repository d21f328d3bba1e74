//! The far side of a bridge: it executes calls on its machine, and outlives the connection.
//!
//! Two processes. One is what the transport has started (`connect`): it hands its standard input
//! and output to the other, and stays for as long as those are in use, since most transports end
//! with it. The other (`serve`) listens on a socket in the state folder; it is there for one
//! bridge, which is known by a number, and for one content of our file. When the connection is
//! lost its calls go on, for a while, and so does what they print; a new connection takes them up.

use std::{
    collections::VecDeque,
    env,
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStringExt,
            net::{UnixListener, UnixStream},
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{Child, Stdio},
    time::Duration,
};

use crate::{
    machine::{
        self, daemon,
        frames::{ACKNOWLEDGE, Decoder, Frame, Order, Outgoing, PROTOCOL, Stream, WINDOW},
        outbox::{self, Outbox},
    },
    outcome::{Result, Trying},
    session::{FAR, StateDir},
    sys::{
        child,
        deadline::Deadline,
        fdpass,
        files::{self, Folder},
        poll::{self, PIPE_ROOM, PollSet},
        processes::PidFd,
        pty::{Master, Size},
        random,
        socket::{self, Entrance},
    },
};

/// How long a connection that was lost is waited for, and a call that nobody takes up. It is
/// longer than callers wait, so what they are told is true.
const LINGER: Duration = Duration::from_secs(90);

/// A bridge says something at least every 20 s. One that has not for so long is gone, whatever
/// the transport says.
const SILENCE: Duration = Duration::from_secs(75);

/// So much waits for the connection at most, before more is taken of any call: what comes behind
/// it, of another call, is held up no longer than that takes.
const MOST_UNSENT: usize = 128 * 1024;

/// A caller that has room sends all that it has read.
const READ_AT_ONCE: u64 = 64 * 1024;

/// Calls at a time; each is a process with three descriptors of ours.
const MOST_CALLS: usize = 200;

/// Becomes what the transport has started: see above. `id` is that of the bridge.
pub(crate) fn connect(id: &str, content: &str) -> Result<()> {
    let state_dir = StateDir::open_or_make()?;
    let folder = machine::folder(&state_dir, FAR)?;
    let name = format!("{id}-{content}");
    let deadline = Deadline::after(Duration::from_secs(20));
    let what = "start what executes calls here";
    let stream = daemon::connect_or_start(&folder, &name, what, deadline, || {
        let mut command = child::ourselves(machine::FAR_ROLE);
        command.args(["serve", id, content]);
        command
    })?;
    let (stdin, stdout) = (io::stdin(), io::stdout());
    fdpass::send(&stream, b"C", &[stdin.as_fd(), stdout.as_fd()]).trying("hand over the connection")?;
    // Nothing is ever said on it: it ends when the connection is no longer in use, or has gone.
    let mut poll_set = PollSet::new();
    poll_set.readable(&stream, ());
    poll_set.gone(&stdout, ());
    poll_set.wait(Deadline::NEVER).trying("wait for the end of the connection").map(drop)
}

/// Becomes what executes calls, until nobody wants it any more.
pub(crate) fn serve(id: &str, content: &str) -> Result<()> {
    let listening = begin(id, content);
    let (folder, listener, instance) = match listening {
        Ok(begun) => begun,
        Err(failure) => {
            // Where who started us has gone there is nobody left to tell.
            let _ = child::write_stdout(format!("-{failure}").as_bytes());
            return Err(failure);
        }
    };
    let mut far = Far {
        listener,
        entrance: Entrance::default(),
        instance,
        link: None,
        calls: Vec::new(),
        abandoned: Vec::new(),
        next: 0,
        until: Deadline::after(LINGER),
        farewell: false,
    };
    while !far.is_over() {
        far.turn().trying("wait for something to happen")?;
    }
    for call in &mut far.calls {
        // What is brief finds out by itself, and whoever collects orphans collects it.
        call.end();
    }
    let name = format!("{id}-{content}");
    for file in [daemon::socket(&name), daemon::lock_file(&name)] {
        // Where it is gone already, that is as good.
        let _ = folder.remove_file(file.as_ref());
    }
    Ok(())
}

fn begin(id: &str, content: &str) -> Result<(Folder, UnixListener, u64)> {
    let what = "become a process of its own";
    child::leave_session().trying(what)?;
    child::call_ourselves(machine::FAR_ROLE).trying(what)?;
    child::leave_no_core().trying(what)?;
    child::raise_open_files().trying("raise the limit of open files")?;
    let state_dir = StateDir::open_or_make()?;
    let folder = machine::folder(&state_dir, FAR)?;
    let home = env::home_dir().filter(|home| home.is_dir()).unwrap_or_else(|| "/".into());
    env::set_current_dir(&home).trying(format_args!("go to '{}'", home.display()))?;
    let instance = u64::from_le_bytes(random::bytes().trying(what)?);
    let listener = daemon::listen(&folder, &format!("{id}-{content}")).trying("listen")?;
    Ok((folder, listener, instance))
}

struct Far {
    listener: UnixListener,
    entrance: Entrance,
    instance: u64,
    link: Option<Link>,
    calls: Vec<Call>,
    /// The keys of calls that nobody has taken up in time: whoever comes later must not begin one
    /// again that has been.
    abandoned: Vec<u128>,
    /// Which one's turn it is to send.
    next: usize,
    /// Without a connection, until when one is waited for.
    until: Deadline,
    farewell: bool,
}

/// A connection.
struct Link {
    input: File,
    output: File,
    /// Who has handed it to us, and ends when we let go.
    _holder: UnixStream,
    decoder: Decoder,
    unsent: Outbox,
    silence: Deadline,
}

struct Call {
    /// Which one it is, on every connection.
    key: u128,
    /// Its number on this connection; `None`: nobody has taken it up.
    number: Option<u32>,
    /// Where nobody has, until when it is kept.
    orphaned: Deadline,
    waits: bool,
    child: Option<(Child, Option<PidFd>)>,
    stdin: Option<File>,
    stdout: Option<File>,
    stderr: Option<File>,
    terminal: Option<Master>,
    out: Outgoing,
    err: Outgoing,
    /// What is to be written to its standard input, and how much has come, and been told of.
    pending: VecDeque<u8>,
    came: u64,
    acknowledged: u64,
    stdin_ended: bool,
    status: Option<(u8, u8)>,
    exit_sent: bool,
    refused: Option<String>,
    /// Nobody wants it any more; it is kept to be collected.
    forgotten: bool,
    /// Nothing is left of it.
    is_over: bool,
}

#[derive(Clone, Copy)]
enum FarEvent {
    Connection,
    Input,
    Output,
    Stdin(u128),
    Stdout(u128),
    Stderr(u128),
    Terminal(u128),
    Ended(u128),
}

impl Far {
    fn is_over(&self) -> bool {
        self.farewell || (self.link.is_none() && self.until.has_passed())
    }

    fn turn(&mut self) -> io::Result<()> {
        self.fill();
        let mut poll_set = PollSet::new();
        let mut deadline = self.entrance.watch(&self.listener, &mut poll_set, FarEvent::Connection);
        match &self.link {
            Some(link) => {
                poll_set.readable(&link.input, FarEvent::Input);
                if !link.unsent.is_empty() {
                    poll_set.writable(&link.output, FarEvent::Output);
                }
                deadline = deadline.min(link.silence);
            }
            None => deadline = deadline.min(self.until),
        }
        for call in &self.calls {
            let key = call.key;
            if let Some(stdin) = call.stdin.as_ref().filter(|_| !call.pending.is_empty()) {
                poll_set.writable(stdin, FarEvent::Stdin(key));
            }
            if let Some(stdout) = call.stdout.as_ref().filter(|_| call.out.has_room()) {
                poll_set.readable(stdout, FarEvent::Stdout(key));
            }
            if let Some(stderr) = call.stderr.as_ref().filter(|_| call.err.has_room()) {
                poll_set.readable(stderr, FarEvent::Stderr(key));
            }
            if let Some(terminal) = call.terminal.as_ref().filter(|_| !call.out.has_ended()) {
                let (read, write) = (call.out.has_room(), !call.pending.is_empty());
                if read || write {
                    poll_set.peer(terminal, read, write, FarEvent::Terminal(key), None);
                }
            }
            if let Some((_, Some(pidfd))) = &call.child {
                poll_set.readable(pidfd, FarEvent::Ended(key));
            }
            deadline = deadline.min(call.orphaned);
        }
        for event in poll_set.wait(deadline)? {
            match event {
                FarEvent::Connection => self.accept(),
                FarEvent::Input => self.hear(),
                FarEvent::Output => self.flush(),
                FarEvent::Stdin(key) => self.of(key, Call::write_stdin),
                FarEvent::Stdout(key) => self.of(key, |call| read(&mut call.stdout, &mut call.out)),
                FarEvent::Stderr(key) => self.of(key, |call| read(&mut call.stderr, &mut call.err)),
                FarEvent::Terminal(key) => self.of(key, Call::tend_terminal),
                FarEvent::Ended(key) => self.of(key, Call::collect),
            }
        }
        if self.link.as_ref().is_some_and(|link| link.silence.has_passed()) {
            self.lose();
        }
        let is_dropped = |call: &Call| call.orphaned.has_passed() || (call.forgotten && call.child.is_none());
        for call in self.calls.iter_mut().filter(|call| is_dropped(call)) {
            if !call.forgotten {
                self.abandoned.push(call.key);
            }
            call.end();
        }
        self.calls.retain(|call| !call.is_over);
        Ok(())
    }

    fn of(&mut self, key: u128, act: impl FnOnce(&mut Call)) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.key == key) {
            act(call);
        }
    }

    /// A connection takes the place of the one before, which the bridge has given up.
    fn accept(&mut self) {
        let Some(stream) = self.entrance.take(self.listener.accept()) else { return };
        // What cannot be taken is dropped, and whoever has handed it over ends with it.
        let _ = self.take(stream);
    }

    fn take(&mut self, stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        if !socket::peer_is_us(&stream)?
            || !poll::wait_readable(&stream, Deadline::after(Duration::from_secs(5)))?
        {
            return Ok(());
        }
        let (_, descriptors) = fdpass::receive(&stream, &mut [0; 8])?;
        let Ok([input, output]) = <[OwnedFd; 2]>::try_from(descriptors) else { return Ok(()) };
        child::let_nothing_wait(&input)?;
        child::let_nothing_wait(&output)?;
        self.lose();
        let mut link = Link {
            input: input.into(),
            output: output.into(),
            _holder: stream,
            decoder: Decoder::default(),
            unsent: Outbox::default(),
            silence: Deadline::after(SILENCE),
        };
        let version = machine::VERSION.as_bytes().to_vec();
        Frame::Hello { protocol: PROTOCOL, instance: self.instance, version }.put(0, &mut link.unsent);
        self.link = Some(link);
        self.flush();
        Ok(())
    }

    /// The connection is no more; its calls go on.
    fn lose(&mut self) {
        if self.link.take().is_none() {
            return;
        }
        self.until = Deadline::after(LINGER);
        for call in &mut self.calls {
            call.number = None;
            call.orphaned = Deadline::after(LINGER);
        }
    }

    fn hear(&mut self) {
        let Some(link) = &mut self.link else { return };
        let mut buffer = [0; 64 * 1024];
        let frames = match outbox::read(&mut link.input, &mut buffer) {
            Ok(None) => return,
            Ok(Some(count)) if count > 0 => {
                link.silence = Deadline::after(SILENCE);
                link.decoder.feed(&buffer[..count])
            }
            _ => return self.lose(),
        };
        // Secrets are among it.
        buffer.fill(0);
        let Ok(frames) = frames else { return self.lose() };
        for (number, frame) in frames {
            // A frame that made no sense was the last of that connection.
            if self.link.is_some() {
                self.heed(number, frame);
            }
        }
    }

    fn heed(&mut self, number: u32, frame: Frame) {
        match frame {
            Frame::Ping => self.say(number, &Frame::Pong),
            Frame::Bye => self.farewell = true,
            Frame::Open(order) => self.open(number, order),
            frame => {
                // Of one that is over by now, some may still be under way.
                let Some(call) = self.calls.iter_mut().find(|call| call.number == Some(number)) else {
                    return;
                };
                if frame == Frame::Close {
                    call.end();
                } else if !call.heed(frame) {
                    self.lose();
                }
            }
        }
    }

    /// Begins a call, or goes on with it.
    fn open(&mut self, number: u32, order: Order) {
        let is_it = |call: &Call| call.key == order.key && !call.forgotten;
        if !self.calls.iter().any(is_it) {
            let call = match self.calls.len() < MOST_CALLS {
                _ if self.abandoned.contains(&order.key) => Err(io::Error::other("it was given up there")),
                true => Call::start(&order),
                false => Err(io::Error::other("too many calls at the same time")),
            };
            let call = call.unwrap_or_else(|error| Call { refused: Some(error.to_string()), ..Call::none() });
            self.calls.push(Call { key: order.key, ..call });
        }
        let Some(call) = self.calls.iter_mut().find(|call| is_it(call)) else { return };
        call.number = Some(number);
        call.orphaned = Deadline::NEVER;
        call.exit_sent = false;
        let known = call.out.resume(order.stdout) && call.err.resume(order.stderr);
        let answer = match &call.refused {
            _ if !known => Frame::Refused { why: b"more was received of it than it has printed".to_vec() },
            Some(why) => Frame::Refused { why: why.clone().into_bytes() },
            None => Frame::Opened { stdin: call.came },
        };
        // What was told of that on another connection may have been lost.
        call.acknowledged = call.came - call.pending.len() as u64;
        let taken = Frame::Taken { stream: Stream::Stdin, offset: call.acknowledged };
        let is_opened = matches!(answer, Frame::Opened { .. }) && call.acknowledged > 0;
        self.say(number, &answer);
        if is_opened {
            self.say(number, &taken);
        }
    }

    fn say(&mut self, number: u32, frame: &Frame) {
        if let Some(link) = &mut self.link {
            frame.put(number, &mut link.unsent);
        }
    }

    /// Takes what calls have to send, of each in turn, as long as it can be sent soon.
    fn fill(&mut self) {
        let Some(link) = &mut self.link else { return };
        let mut without = 0;
        while without < self.calls.len() && link.unsent.len() < MOST_UNSENT {
            self.next = (self.next + 1) % self.calls.len();
            without += 1;
            if let Some((number, frame)) = self.calls[self.next].next_frame() {
                frame.put(number, &mut link.unsent);
                without = 0;
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        let Some(link) = &mut self.link else { return };
        if link.unsent.flush(&mut link.output).is_err() {
            self.lose();
        }
    }
}

impl Call {
    fn start(order: &Order) -> io::Result<Call> {
        let mut command = child::ourselves(machine::CALL);
        let how = if order.terminal.is_some() { "terminal" } else { "pipes" };
        command.args([&std::process::id().to_string(), how]);
        command.args(order.words.iter().map(|word| OsString::from_vec(word.clone())));
        for name in ["NBS_TS_ON", "NBS_TS_SESSION"] {
            command.env_remove(name);
        }
        for (name, value) in &order.environment {
            let [term, colour] = machine::CARRIED;
            if [term, colour, machine::MACHINE_ENV].iter().any(|carried| carried.as_bytes() == name) {
                command.env(OsString::from_vec(name.clone()), OsString::from_vec(value.clone()));
            }
        }
        command.stderr(Stdio::piped());
        let mut terminal = None;
        match order.terminal {
            Some((cols, rows)) => {
                let master = Master::open(Size { cols, rows })?;
                let slave = master.open_slave()?;
                command.stdin(slave.try_clone()?).stdout(slave);
                terminal = Some(master);
            }
            None => {
                let stdin = if order.is_silent { Stdio::null() } else { Stdio::piped() };
                command.stdin(stdin).stdout(Stdio::piped()).process_group(0);
            }
        }
        let mut process = files::with_callers_umask(|| command.spawn()).map_err(child::why_not_ourselves)?;
        // It holds the slave, which would so never hang up.
        drop(command);
        let mut held = || -> io::Result<_> {
            let of = |pipe: Option<OwnedFd>| -> io::Result<Option<File>> {
                pipe.map(|pipe| child::let_nothing_wait(&pipe).map(|()| File::from(pipe))).transpose()
            };
            let stdin = of(process.stdin.take().map(OwnedFd::from))?;
            let stdout = of(process.stdout.take().map(OwnedFd::from))?;
            let stderr = of(process.stderr.take().map(OwnedFd::from))?;
            Ok((stdin, stdout, stderr, PidFd::open(process.id())?))
        };
        let (stdin, stdout, stderr, pidfd) = match held() {
            Ok(held) => held,
            // What cannot be looked after is not left to itself.
            Err(error) => {
                process.kill().and_then(|()| process.wait())?;
                return Err(error);
            }
        };
        let waits = machine::waits(order.words.iter().map(Vec::as_slice));
        let child = Some((process, pidfd));
        Ok(Call { waits, child, stdin, stdout, stderr, terminal, ..Call::none() })
    }

    fn none() -> Call {
        Call {
            key: 0,
            number: None,
            orphaned: Deadline::NEVER,
            waits: false,
            child: None,
            stdin: None,
            stdout: None,
            stderr: None,
            terminal: None,
            out: Outgoing::default(),
            err: Outgoing::default(),
            pending: VecDeque::new(),
            came: 0,
            acknowledged: 0,
            stdin_ended: false,
            status: None,
            exit_sent: false,
            refused: None,
            forgotten: false,
            is_over: false,
        }
    }

    /// `false` for what cannot be.
    fn heed(&mut self, frame: Frame) -> bool {
        match frame {
            Frame::Data { stream: Stream::Stdin, mut bytes } => {
                self.came += bytes.len() as u64;
                self.pending.extend(&bytes);
                bytes.fill(0);
                self.write_stdin();
                self.pending.len() as u64 <= WINDOW + READ_AT_ONCE
            }
            Frame::End { stream: Stream::Stdin } => {
                self.stdin_ended = true;
                self.write_stdin();
                true
            }
            Frame::Taken { stream: Stream::Stdout, offset } => self.out.acknowledge(offset),
            Frame::Taken { stream: Stream::Stderr, offset } => self.err.acknowledge(offset),
            Frame::Signal { number } => {
                self.signal(number.into());
                true
            }
            Frame::Resize((cols, rows)) if cols > 0 && rows > 0 => {
                // Where the terminal has gone, so has the call.
                let _ = self.terminal.as_ref().map(|terminal| terminal.resize(Size { cols, rows }));
                true
            }
            _ => false,
        }
    }

    fn next_frame(&mut self) -> Option<(u32, Frame)> {
        let number = self.number?;
        let written = self.came - self.pending.len() as u64;
        if written - self.acknowledged >= ACKNOWLEDGE {
            self.acknowledged = written;
            return Some((number, Frame::Taken { stream: Stream::Stdin, offset: written }));
        }
        for (stream, outgoing) in [(Stream::Stdout, &mut self.out), (Stream::Stderr, &mut self.err)] {
            if let Some(frame @ Frame::Data { .. }) = outgoing.next(stream) {
                return Some((number, frame));
            }
        }
        let (code, signal) =
            self.status.filter(|_| !self.exit_sent && self.out.is_sent() && self.err.is_sent())?;
        self.exit_sent = true;
        Some((number, Frame::Exit { code, signal }))
    }

    fn write_stdin(&mut self) {
        if let Some(terminal) = &self.terminal {
            while !self.pending.is_empty() {
                match terminal.write(self.pending.as_slices().0) {
                    Ok(count) => drop(self.pending.drain(..count)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                    Err(_) => self.pending.clear(),
                }
            }
            return;
        }
        while let Some(stdin) = self.stdin.as_mut().filter(|_| !self.pending.is_empty()) {
            let bytes = self.pending.as_slices().0;
            match stdin.write(&bytes[..bytes.len().min(PIPE_ROOM)]) {
                Ok(count) => {
                    self.pending.iter_mut().take(count).for_each(|byte| *byte = 0);
                    drop(self.pending.drain(..count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It reads no more.
                Err(_) => self.stdin = None,
            }
        }
        if self.stdin.is_none() {
            self.pending.clear();
        } else if self.stdin_ended {
            self.stdin = None;
        }
    }

    fn tend_terminal(&mut self) {
        self.write_stdin();
        let Some(terminal) = self.terminal.as_ref().filter(|_| self.out.has_room()) else { return };
        let mut buffer = [0; 16 * 1024];
        match terminal.read(&mut buffer) {
            Ok(0) => self.out.end(),
            Ok(count) => self.out.push(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.out.end(),
        }
    }

    fn collect(&mut self) {
        let Some((mut process, _)) = self.child.take() else { return };
        self.status = match process.wait() {
            Ok(status) => Some((status.code().unwrap_or(0) as u8, status.signal().unwrap_or(0) as u8)),
            // It was ours, so this cannot be; what it came to is then not known.
            Err(_) => Some((255, 0)),
        };
        if self.terminal.is_some() {
            // What is left of its output is there by now, and somebody else may hold it open.
            while !self.out.has_ended() && self.out.has_room() {
                let before = self.out.length();
                self.tend_terminal();
                if before == self.out.length() {
                    self.out.end();
                }
            }
        }
    }

    fn signal(&self, signal: i32) {
        if let Some((_, Some(process))) = &self.child {
            // Where it has ended by now, that is as good.
            let _ = process.signal(signal);
        }
    }

    /// Nobody wants to know what it comes to. One that waits ends, and what it waits for goes on;
    /// the others are brief, and find out by themselves: until they have, they are kept.
    fn end(&mut self) {
        self.is_over = true;
        let Some((process, _)) = &mut self.child else { return };
        if !self.waits && self.terminal.is_none() && !self.forgotten {
            (self.stdin, self.stdout, self.stderr) = (None, None, None);
            (self.number, self.orphaned, self.forgotten) = (None, Deadline::after(LINGER), true);
            self.is_over = false;
            return;
        }
        // Where it has ended by now, that is as good.
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// Takes what has come of a stream of a call; the pipe is dropped when nothing will.
fn read(pipe: &mut Option<File>, onto: &mut Outgoing) {
    let Some(file) = pipe else { return };
    let mut buffer = [0; 64 * 1024];
    match outbox::read(file, &mut buffer) {
        Ok(None) => {}
        Ok(Some(count)) if count > 0 => onto.push(&buffer[..count]),
        // An error is as good as its end: what it came to, its exit code tells.
        _ => {
            *pipe = None;
            onto.end();
        }
    }
}
