//! The relay's end of a keeper: it asks the helper for a child, and receives how the child ended.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, net::UnixStream},
    },
    path::Path,
    time::Duration,
};

use crate::{
    helper::{
        self,
        protocol::{ERROR, FILES, Header, KeeperMessage, SpawnOrder, VERSION_IS},
    },
    outcome::{Failure, Result, Trying},
    session::{HELPER_SOCKET, Handle},
    sys::{
        child::ExitStatus,
        confinement::Confinement,
        deadline::Deadline,
        fdpass,
        files::Folder,
        gate::{Environment, Gate, HiddenVariables},
        poll::{self, PollSet},
        processes::{self, PidFd, Process},
        pty::{Master, Size},
        socket,
    },
};

/// How long the helper may take to answer. It needs milliseconds; a stopped helper must not hold up its
/// callers for long.
const HELPER_TIMEOUT: Duration = Duration::from_secs(5);

/// How many times as long if it is busy: then the machine is busy, or many others are served first.
const BUSY: u32 = 12;

/// How long an answer that is text may be.
const LONGEST_TEXT: usize = 4_096;

/// The request to the helper for a session.
pub(crate) struct SpawnRequest<'a> {
    pub(crate) handle: &'a Handle,
    pub(crate) folder: &'a Path,
    pub(crate) size: Size,
    pub(crate) umask: u32,
    pub(crate) command: &'a [u8],
    pub(crate) words: &'a [OsString],
    pub(crate) environment: &'a Environment,
    pub(crate) confinement: Option<&'a Confinement>,
    pub(crate) hidden: &'a HiddenVariables,
}

/// Why there is no child from the helper.
pub(crate) enum HelperError {
    /// No helper is there that could be asked.
    NotRunning(String),
    /// It was asked, and could not.
    Failed(Failure),
}

/// A child that the helper has made for us.
pub(crate) struct SpawnedChild {
    pub(crate) master: Master,
    pub(crate) gate: Gate,
    pub(crate) keeper: KeeperClient,
}

/// The connection to the process that is the child's parent.
pub(crate) struct KeeperClient {
    pub(crate) stream: UnixStream,
    pub(crate) pid: u32,
    held: PidFd,
    /// The child itself; to watch if the keeper was killed.
    pub(crate) child: PidFd,
    inbox: Vec<u8>,
    gone: bool,
}

/// The result of reading from a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeeperNews {
    Nothing,
    Ended(ExitStatus),
    /// It has gone, or has no process left.
    Gone,
}

/// Asks the helper whose socket is in the directory `state_dir`.
pub(crate) fn ask_helper(
    state_dir: &Path,
    spawn_request: &SpawnRequest<'_>,
) -> std::result::Result<SpawnedChild, HelperError> {
    let deadline = Deadline::after(HELPER_TIMEOUT);
    let stream = connect(state_dir)?;
    let order = spawn_request.order().encode();
    let handle = spawn_request.handle.as_str().as_bytes().try_into().expect("a handle has 8 digits");
    let request = [Header::Start { handle, length: order.len() }.encode(), order].concat();
    send_all(&stream, &request, deadline)?;
    let (answer, mut descriptors) = receive(&stream, deadline)?;
    match answer {
        FILES if descriptors.len() == 2 => {
            let gate = descriptors.pop().expect("there are two");
            let master = descriptors.pop().expect("there are two");
            kept(stream, master, gate, deadline)
        }
        ERROR => {
            let why = text(&stream, deadline)?;
            Err(HelperError::Failed(Failure::failed(why)))
        }
        VERSION_IS => {
            let version = text(&stream, deadline)?;
            Err(HelperError::NotRunning(format!(
                "it has version {version}, and this is {}; restart it",
                helper::OUR_VERSION
            )))
        }
        _ => Err(failed("it sent an invalid reply")),
    }
}

fn connect(state_dir: &Path) -> std::result::Result<UnixStream, HelperError> {
    let stream = Folder::open(state_dir).and_then(|folder| {
        let stream = socket::connect(&folder, HELPER_SOCKET, Deadline::after(HELPER_TIMEOUT))?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    });
    let stream = stream.map_err(|error| {
        HelperError::NotRunning(match error.kind() {
            io::ErrorKind::NotFound => "try nbs-ts-helper in a login shell".to_owned(),
            io::ErrorKind::ConnectionRefused => "it has ended; try nbs-ts-helper in a login shell".to_owned(),
            io::ErrorKind::WouldBlock => silent(),
            _ => error.to_string(),
        })
    })?;
    match socket::leads_to_us(&stream) {
        Ok(true) => Ok(stream),
        Ok(false) => Err(HelperError::NotRunning("its socket belongs to another user".into())),
        Err(error) => Err(failed(error)),
    }
}

fn silent() -> String {
    format!("it did not respond within {} s; is it stopped?", HELPER_TIMEOUT.as_secs())
}

fn failed(why: impl std::fmt::Display) -> HelperError {
    HelperError::Failed(Failure::failed(format!("cannot start the command through the helper: {why}")))
}

impl SpawnRequest<'_> {
    fn order(&self) -> SpawnOrder {
        let bytes = |word: &OsString| word.as_bytes().to_vec();
        SpawnOrder {
            folder: self.folder.as_os_str().as_bytes().to_vec(),
            cols: self.size.cols,
            rows: self.size.rows,
            umask: self.umask,
            command: self.command.to_vec(),
            environment: self
                .environment
                .iter()
                .map(|(name, value)| (bytes(name), value.as_ref().map(bytes)))
                .collect(),
            confinement: self
                .confinement
                .iter()
                .flat_map(|jail| jail.words())
                .map(|word| bytes(&word))
                .collect(),
            hidden: self.hidden.words().map(|word| bytes(&word)).collect(),
            words: self.words.iter().map(bytes).collect(),
        }
    }
}

fn send_all(
    stream: &UnixStream,
    mut bytes: &[u8],
    deadline: Deadline,
) -> std::result::Result<(), HelperError> {
    while !bytes.is_empty() {
        match (&mut &*stream).write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut poll_set = PollSet::new();
                poll_set.writable(stream, ());
                poll_set.wait(deadline).map_err(failed)?;
                if deadline.has_passed() {
                    return Err(HelperError::NotRunning(silent()));
                }
            }
            // It will send the reason.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// The first byte of the answer, and its descriptors.
fn receive(stream: &UnixStream, deadline: Deadline) -> std::result::Result<(u8, Vec<OwnedFd>), HelperError> {
    loop {
        let mut byte = [0];
        match fdpass::receive(stream, &mut byte) {
            Ok((0, _)) => return Err(failed("it hung up; see its log")),
            Ok((_, descriptors)) => return Ok((byte[0], descriptors)),
            Err(error) => wait(stream, error, deadline)?,
        }
    }
}

fn wait(
    stream: &UnixStream,
    error: io::Error,
    mut deadline: Deadline,
) -> std::result::Result<(), HelperError> {
    match error.kind() {
        io::ErrorKind::Interrupted => Ok(()),
        io::ErrorKind::WouldBlock => {
            for _ in 0..BUSY {
                match poll::wait_readable(stream, deadline) {
                    Ok(true) => return Ok(()),
                    Ok(false) if is_at_it(stream) => deadline = Deadline::after(HELPER_TIMEOUT),
                    Ok(false) => break,
                    Err(error) => return Err(failed(error)),
                }
            }
            Err(HelperError::NotRunning(silent()))
        }
        io::ErrorKind::ConnectionReset => Err(failed("it hung up; see its log")),
        _ => Err(failed(error)),
    }
}

/// Is a helper of ours, or a keeper that it has started, busy? Neither sleeps before there is an answer,
/// unless there are no descriptors left; nor runs, when stopped.
fn is_at_it(stream: &UnixStream) -> bool {
    let Ok(helper) = socket::peer_pid(stream) else { return false };
    let mut all = processes::all().unwrap_or_default().into_iter();
    all.any(|process| {
        [process.pid, process.parent].contains(&helper)
            && matches!(process.state, 'R' | 'D')
            && process.runs_our_file()
    })
}

/// The rest of an answer that is text.
fn text(stream: &UnixStream, deadline: Deadline) -> std::result::Result<String, HelperError> {
    let mut text = Vec::new();
    loop {
        let mut buffer = [0; 512];
        match (&mut &*stream).read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) => wait(stream, error, deadline)?,
        }
        if text.len() > LONGEST_TEXT {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn kept(
    stream: UnixStream,
    master: OwnedFd,
    gate: OwnedFd,
    deadline: Deadline,
) -> std::result::Result<SpawnedChild, HelperError> {
    let mut inbox = Vec::new();
    let line = loop {
        if let Some(line) = next_line(&mut inbox) {
            break line;
        }
        match receive(&stream, deadline)? {
            (byte, _) if inbox.len() < KeeperMessage::LONGEST => inbox.push(byte),
            _ => return Err(failed("it sent an invalid reply")),
        }
    };
    let Some(KeeperMessage::Ready { child, keeper }) = KeeperMessage::decode(&line) else {
        return Err(failed("it sent an invalid reply"));
    };
    // The PIDs are of the helper's namespace; if ours is another, they mean nothing here, and must not be
    // used. The child does not run yet, so while its parent is the keeper it is the right process.
    let pidfd = PidFd::open(child).map_err(failed)?;
    let held = PidFd::open(keeper).map_err(failed)?;
    let is_its_parent = Process::read(child).is_some_and(|process| process.parent == keeper);
    let (Some(pidfd), Some(held), true) = (pidfd, held, is_its_parent) else {
        return Err(HelperError::NotRunning("it is in another PID namespace".into()));
    };
    let master = Master::received(master).map_err(failed)?;
    let keeper = KeeperClient { stream, pid: keeper, held, child: pidfd, inbox, gone: false };
    Ok(SpawnedChild { master, gate: Gate::of_another(child, gate), keeper })
}

fn next_line(inbox: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = memchr::memchr(b'\n', inbox)?;
    let line: Vec<u8> = inbox.drain(..=end).collect();
    Some(line[..end].to_vec())
}

impl KeeperClient {
    /// Was it killed, or has it hung up because no process is left?
    pub(crate) fn has_gone(&self) -> bool {
        self.gone
    }

    /// The processor time of the children that it has collected. While the pidfd shows that it is there, no
    /// other process has its PID.
    pub(crate) fn collected_cpu_ms(&self) -> Option<i64> {
        let process = Process::read(self.pid)?;
        self.held.has_ended().is_ok_and(|ended| !ended).then_some(process.collected_cpu_ms)
    }

    pub(crate) fn child_runs(&self) -> bool {
        poll::wait_readable(&self.child, Deadline::after(Duration::ZERO)).is_ok_and(|ended| !ended)
    }

    /// Its pending message.
    pub(crate) fn receive(&mut self) -> KeeperNews {
        let received = if self.gone { KeeperNews::Gone } else { self.listen() };
        self.gone |= received == KeeperNews::Gone;
        received
    }

    fn listen(&mut self) -> KeeperNews {
        loop {
            if let Some(line) = next_line(&mut self.inbox) {
                match KeeperMessage::decode(&line) {
                    Some(KeeperMessage::Code(code)) => return KeeperNews::Ended(ExitStatus::Code(code)),
                    Some(KeeperMessage::Signal(signal)) => {
                        return KeeperNews::Ended(ExitStatus::Signal(signal));
                    }
                    Some(KeeperMessage::Ready { .. }) | None => return KeeperNews::Gone,
                }
            }
            let mut buffer = [0; KeeperMessage::LONGEST];
            match self.stream.read(&mut buffer) {
                Ok(0) => return KeeperNews::Gone,
                Ok(count) => self.inbox.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return KeeperNews::Nothing,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return KeeperNews::Gone,
            }
            if self.inbox.len() > 2 * KeeperMessage::LONGEST {
                return KeeperNews::Gone;
            }
        }
    }
}

/// Asks the helper for its version; `None` if the answer is something else.
pub(crate) fn helper_version(state_dir: &Path) -> Result<Option<String>> {
    let told = |refusal| match refusal {
        HelperError::NotRunning(why) => Failure::failed(format!("helper not running: {why}")),
        HelperError::Failed(failure) => failure,
    };
    let deadline = Deadline::after(HELPER_TIMEOUT);
    let stream = connect(state_dir).map_err(told)?;
    send_all(&stream, &Header::Version.encode(), deadline).map_err(told)?;
    // A helper of another make waits for the end of the command.
    stream.shutdown(std::net::Shutdown::Write).trying("ask the helper for its version")?;
    match receive(&stream, deadline).map_err(told)? {
        (VERSION_IS, _) => text(&stream, deadline).map(Some).map_err(told),
        _ => Ok(None),
    }
}
