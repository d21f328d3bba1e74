//! The far side of a bridge: it executes calls on its machine, and outlives the connection.
//!
//! It has two processes. The transport starts the first (`connect`), which passes its standard input
//! and output to the second. It stays as long as those are in use, because most transports end with
//! it. The second (`serve`) listens on a socket in the state directory. It serves one bridge,
//! identified by a number, and one content of our file. After a lost connection its calls continue for
//! a while, and their output is kept; a new connection takes them over.

use std::{
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
    time::{Duration, Instant},
};

use crate::{
    jail::Admission,
    machine::{
        self, daemon,
        far_end::{Effect, FarEnd, ServedCall},
        frames::OpenCall,
        outbox::{self, Buffer},
        outgoing::{LEAST_ROOM, Outgoing},
    },
    outcome::{Result, Trying},
    session::{FAR, StateDir},
    sys::{
        child,
        deadline::Deadline,
        fdpass,
        files::{self, Folder},
        poll::{self, PollSet},
        processes::{self, PidFd},
        pty::{Master, Size},
        random,
        signals::SIGUSR1,
        socket::Entrance,
        user,
    },
};

/// Becomes what the transport has started: see above. `id` is that of the bridge.
pub(crate) fn connect(id: &str, content: &str) -> Result<()> {
    let state_dir = StateDir::open_or_make()?;
    let folder = machine::folder(&state_dir, FAR)?;
    let name = format!("{id}-{content}");
    let deadline = Deadline::after(Duration::from_secs(20));
    let what = "start the process for calls here";
    let stream = daemon::connect_or_start(&folder, &name, what, deadline, &|| {
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

/// Executes calls until no bridge needs it any more.
pub(crate) fn serve(id: &str, content: &str) -> Result<()> {
    let listening = begin(id, content);
    let (folder, listener, instance) = match listening {
        Ok(begun) => begun,
        Err(failure) => {
            // If our caller has gone, there is no one to notify.
            let _ = child::write_stdout(format!("-{failure}").as_bytes());
            return Err(failure);
        }
    };
    let end = FarEnd::new(instance, Instant::now());
    let mut far = RemoteServer {
        listener,
        entrance: Entrance::default(),
        admission: Admission::new(None),
        end,
        link: None,
        processes: Vec::new(),
        buffer: Buffer::new(AT_ONCE),
    };
    while !far.end.is_over(Instant::now()) {
        far.turn().trying("wait for an event")?;
    }
    for effect in far.end.end_all(Instant::now()) {
        // A short process ends by itself, and the reaper of orphans collects it.
        far.act(effect);
    }
    let name = format!("{id}-{content}");
    for file in [daemon::socket(&name), daemon::lock_file(&name)] {
        // If it is already gone, the result is the same.
        let _ = folder.remove_file(file.as_ref());
    }
    Ok(())
}

fn begin(id: &str, content: &str) -> Result<(Folder, UnixListener, u64)> {
    let what = "become a process of its own";
    child::leave_session_as(machine::FAR_ROLE).trying(what)?;
    child::leave_no_core().trying(what)?;
    child::raise_open_files().trying("raise the limit of open files")?;
    let state_dir = StateDir::open_or_make()?;
    let folder = machine::folder(&state_dir, FAR)?;
    let home = user::home_or_root();
    env::set_current_dir(&home).trying(format_args!("go to '{}'", home.display()))?;
    let instance = u64::from_le_bytes(random::bytes().trying(what)?);
    let listener = daemon::listen(&folder, &format!("{id}-{content}")).trying("listen")?;
    Ok((folder, listener, instance))
}

/// The most bytes of one read.
const AT_ONCE: usize = 128 * 1024;

struct RemoteServer {
    listener: UnixListener,
    entrance: Entrance,
    admission: Admission,
    end: FarEnd,
    link: Option<Link>,
    /// The processes of calls, by their keys.
    processes: Vec<(u128, Process)>,
    buffer: Buffer,
}

/// The descriptors of a connection.
struct Link {
    input: File,
    output: File,
    /// The process that passed it to us. It ends when we close this.
    _holder: UnixStream,
}

/// The process of a call.
struct Process {
    child: Child,
    pidfd: Option<PidFd>,
    stdin: Option<File>,
    stdout: Option<File>,
    stderr: Option<File>,
    terminal: Option<Master>,
    /// It ends at SIGUSR1, with all that it has started.
    ends_by_signal: bool,
    /// It has ended, and was collected; the rest of what it has printed may still be read.
    is_collected: bool,
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

impl RemoteServer {
    fn turn(&mut self) -> io::Result<()> {
        self.flush();
        let mut poll_set = PollSet::new();
        let mut deadline = self.entrance.watch(&self.listener, &mut poll_set, FarEvent::Connection);
        if let Some(link) = &self.link {
            if self.end.wants_bytes() {
                poll_set.readable(&link.input, FarEvent::Input);
            }
            if self.end.has_unsent() {
                poll_set.writable(&link.output, FarEvent::Output);
            }
        }
        deadline = deadline.min(Deadline::at(self.end.until()));
        for (key, process) in &self.processes {
            if let Some(call) = self.end.call(*key) {
                process.watch(*key, call, &mut poll_set);
            }
        }
        for event in poll_set.wait(deadline)? {
            match event {
                FarEvent::Connection => self.accept(),
                FarEvent::Input => self.receive(),
                FarEvent::Output => self.flush(),
                FarEvent::Stdin(key) => self.with(key, |process, call| process.write_stdin(call)),
                FarEvent::Stdout(key) => {
                    self.with(key, |process, call| read(&mut process.stdout, call.out()))
                }
                FarEvent::Stderr(key) => {
                    self.with(key, |process, call| read(&mut process.stderr, call.err()))
                }
                FarEvent::Terminal(key) => self.with(key, |process, call| process.drive_terminal(call)),
                FarEvent::Ended(key) => self.with(key, |process, call| process.collect(call)),
            }
        }
        for effect in self.end.look_at_the_clock(Instant::now()) {
            self.act(effect);
        }
        self.let_go();
        // The rest of a process that has ended.
        let end = &mut self.end;
        self.processes.retain(|(key, _)| end.call(*key).is_some());
        Ok(())
    }

    fn with(&mut self, key: u128, act: impl FnOnce(&mut Process, &mut ServedCall)) {
        if let Some((_, process)) = self.processes.iter_mut().find(|(other, _)| *other == key)
            && let Some(call) = self.end.call(key)
        {
            act(process, call);
        }
    }

    fn accept(&mut self) {
        let Some(stream) = self.entrance.take(self.listener.accept()) else { return };
        // A connection that cannot be accepted is dropped, and its sender ends with it.
        let _ = self.take(stream);
    }

    fn take(&mut self, stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        if self.admission.admit(&stream).is_err()
            || !poll::wait_readable(&stream, Deadline::after(Duration::from_secs(5)))?
        {
            return Ok(());
        }
        let (_, descriptors) = fdpass::receive(&stream, &mut [0; 8])?;
        let Ok([input, output]) = <[OwnedFd; 2]>::try_from(descriptors) else { return Ok(()) };
        child::let_nothing_wait(&input)?;
        child::let_nothing_wait(&output)?;
        self.end.connect(Instant::now());
        self.link = Some(Link { input: input.into(), output: output.into(), _holder: stream });
        self.flush();
        Ok(())
    }

    fn disconnect(&mut self) {
        self.end.disconnect(Instant::now());
        self.let_go();
    }

    /// Closes the descriptors of a connection that is gone.
    fn let_go(&mut self) {
        self.link.take_if(|_| !self.end.is_connected());
    }

    fn receive(&mut self) {
        let Some(link) = &mut self.link else { return };
        match outbox::read(&mut link.input, &mut self.buffer) {
            Ok(None) => return,
            Ok(Some(count)) if count > 0 => {
                let processes = &mut self.processes;
                self.end.receive(&mut self.buffer[..count], Instant::now(), &mut |key, pieces| {
                    let mut found = processes.iter_mut().filter(|(other, _)| *other == key);
                    let stdin = found.next().and_then(|(_, process)| process.stdin.as_mut());
                    // The rest is written later, and an error shows then.
                    stdin.and_then(|stdin| stdin.write_vectored(pieces).ok()).unwrap_or(0)
                });
                // Secrets are among it.
                self.buffer[..count].fill(0);
            }
            _ => return self.disconnect(),
        }
        while let Some(effect) = self.next_effect() {
            self.act(effect);
        }
        self.let_go();
    }

    fn next_effect(&mut self) -> Option<Effect> {
        let processes = &self.processes;
        let stopped = |key: u128| {
            let (_, process) = processes.iter().find(|(other, _)| *other == key)?;
            let pid = process.child.id();
            (!processes::stopped(pid).is_empty()).then_some(pid)
        };
        self.end.next_effect(Instant::now(), &stopped)
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Begin { key, order } => match Process::start(&order) {
                Ok(process) => {
                    self.processes.push((key, process));
                    self.end.begun(key, Ok(()));
                }
                Err(error) => self.end.begun(key, Err(error.to_string())),
            },
            Effect::Input { key } => self.with(key, |process, call| process.write_stdin(call)),
            Effect::Signal { key, number } => self.with(key, |process, _| process.signal(number.into())),
            Effect::Resize { key, window: (cols, rows) } => self.with(key, |process, _| {
                // If the terminal has gone, so has the call.
                let _ = process.terminal.as_ref().map(|terminal| terminal.resize(Size { cols, rows }));
            }),
            Effect::HangUp { key } => self.with(key, |process, _| {
                (process.stdin, process.stdout, process.stderr) = (None, None, None);
                if process.ends_by_signal {
                    process.signal(SIGUSR1);
                }
            }),
            Effect::Kill { key } => {
                if let Some(at) = self.processes.iter().position(|(other, _)| *other == key) {
                    let (_, mut process) = self.processes.swap_remove(at);
                    // If it has already ended, the result is the same.
                    let _ = process.child.kill();
                    let _ = process.child.wait();
                }
            }
        }
    }

    fn flush(&mut self) {
        let Some(link) = &mut self.link else { return };
        if self.end.flush(Instant::now(), &mut link.output).is_err() {
            self.disconnect();
        }
        self.let_go();
    }
}

impl Process {
    fn start(order: &OpenCall) -> io::Result<Process> {
        let ends_by_signal = machine::ends_by_signal(&order.words);
        let how = if order.terminal.is_some() { "terminal" } else { "pipes" };
        let mut command = machine::call_of_ours(how);
        command.args(order.words.iter().map(|word| OsString::from_vec(word.clone())));
        for name in ["NBS_TS_ON", "NBS_TS_OUTPUT", "NBS_TS_SESSION"] {
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
        let mut child = files::with_callers_umask(|| command.spawn()).map_err(child::why_not_ourselves)?;
        // It holds the slave, which would so never hang up.
        drop(command);
        let mut held = || -> io::Result<_> {
            let of = |pipe: Option<OwnedFd>| -> io::Result<Option<File>> {
                pipe.map(|pipe| child::let_nothing_wait(&pipe).map(|()| File::from(pipe))).transpose()
            };
            let stdin = of(child.stdin.take().map(OwnedFd::from))?;
            let stdout = of(child.stdout.take().map(OwnedFd::from))?;
            let stderr = of(child.stderr.take().map(OwnedFd::from))?;
            if machine::is_exec(&order.words) {
                stdin.iter().chain(&stdout).for_each(child::widen);
            }
            Ok((stdin, stdout, stderr, PidFd::open(child.id())?))
        };
        match held() {
            Ok((stdin, stdout, stderr, pidfd)) => Ok(Process {
                child,
                pidfd,
                stdin,
                stdout,
                stderr,
                terminal,
                ends_by_signal,
                is_collected: false,
            }),
            // A process that we cannot watch must not continue.
            Err(error) => {
                child.kill().and_then(|()| child.wait())?;
                Err(error)
            }
        }
    }

    fn watch<'a>(&'a self, key: u128, call: &mut ServedCall, poll_set: &mut PollSet<'a, FarEvent>) {
        let has_input = call.has_input();
        if let Some(stdin) = self.stdin.as_ref().filter(|_| has_input) {
            poll_set.writable(stdin, FarEvent::Stdin(key));
        }
        if let Some(stdout) = self.stdout.as_ref().filter(|_| call.out().has_room()) {
            poll_set.readable(stdout, FarEvent::Stdout(key));
        }
        if let Some(stderr) = self.stderr.as_ref().filter(|_| call.err().has_room()) {
            poll_set.readable(stderr, FarEvent::Stderr(key));
        }
        if let Some(terminal) = self.terminal.as_ref().filter(|_| !call.out().has_ended()) {
            let reads = call.out().has_room();
            if reads || has_input {
                poll_set.peer(terminal, reads, has_input, FarEvent::Terminal(key), None);
            }
        }
        if let Some(pidfd) = self.pidfd.as_ref().filter(|_| !self.is_collected) {
            poll_set.readable(pidfd, FarEvent::Ended(key));
        }
    }

    fn write_stdin(&mut self, call: &mut ServedCall) {
        if let Some(terminal) = &self.terminal {
            while let Some(piece) = call.input().first() {
                match terminal.write(piece) {
                    Ok(count) => call.take_input(count),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                    Err(_) => call.drop_input(),
                }
            }
            return;
        }
        while let Some(stdin) = self.stdin.as_mut().filter(|_| call.has_input()) {
            match stdin.write_vectored(&call.input()) {
                Ok(count) => call.take_input(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It reads no more.
                Err(_) => self.stdin = None,
            }
        }
        if self.stdin.is_none() {
            call.drop_input();
        } else if call.has_all_input() {
            self.stdin = None;
        }
    }

    fn drive_terminal(&mut self, call: &mut ServedCall) {
        self.write_stdin(call);
        let out = call.out();
        let Some(terminal) = self.terminal.as_ref().filter(|_| out.has_room()) else { return };
        let mut buffer = [0; 16 * 1024];
        match terminal.read(&mut buffer) {
            Ok(0) => out.end(),
            Ok(count) => out.push(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => out.end(),
        }
    }

    fn collect(&mut self, call: &mut ServedCall) {
        self.is_collected = true;
        match self.child.wait() {
            Ok(status) => {
                call.exited(status.code().unwrap_or(0) as u8, status.signal().unwrap_or(0) as u8);
            }
            // It was ours, so this cannot be; what it came to is then not known.
            Err(_) => call.exited(255, 0),
        }
        if self.terminal.is_some() {
            // The rest of its output is available by now, and another process may hold it open.
            while !call.out().has_ended() && call.out().has_room() {
                let before = call.out().length();
                self.drive_terminal(call);
                if before == call.out().length() {
                    call.out().end();
                }
            }
        }
    }

    fn signal(&self, signal: i32) {
        if let Some(process) = self.pidfd.as_ref().filter(|_| !self.is_collected) {
            // If it has already ended, the result is the same.
            let _ = process.signal(signal);
        }
    }
}

/// Takes what has come of a stream of a call; the pipe is dropped when nothing will.
fn read(pipe: &mut Option<File>, onto: &mut Outgoing) {
    let Some(file) = pipe else { return };
    let read = onto.extend(LEAST_ROOM, &mut |piece| files::read_more(file, piece));
    // An error counts as its end: its exit code is what matters.
    if !matches!(outbox::at_once(read), Ok(None | Some(1..))) {
        *pipe = None;
        onto.end();
    }
}
