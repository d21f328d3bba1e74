//! The helper: the daemon in whose environment the children of sessions run.
//!
//! It is one loop over poll(2), whose set is rebuilt each time; it sleeps while nothing happens. Each client
//! is a [`Conversation`] with a small buffer and a deadline, so a client that sends nothing, sends slowly or
//! sends invalid data delays no other and costs little.
//!
//! The helper itself serves the base protocol only. A client of the extended protocol gets a keeper, a
//! process of its own ([`keeper`]), to which the connection is passed: so sessions do not end with the
//! helper, and the true exit status arrives without it. The keepers' log lines come through one pipe that all
//! of them share: a line of up to PIPE_BUF bytes arrives whole (pipe(7)).

mod keeper;
mod log;
pub(crate) mod protocol;

use std::{
    fs::File,
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStringExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use crate::{
    jail::Admission,
    outcome::{Result, Trying},
    session::{HELPER_SOCKET, Handle},
    sorted::{Map, Set},
    sys::{
        as_fd,
        child::{self, ExitStatus},
        deadline::Deadline,
        fdpass,
        files::Folder,
        gate::{Environment, Gate, Program},
        poll::PollSet,
        pty::{Master, Size},
        signals::{self, SIGCHLD, Signals},
        socket::{self, Entrance},
    },
    terminal::text,
};
pub(crate) use keeper::keep;
use log::HelperLog;
use protocol::{Bad, HEADER, Header, LONGEST_COMMAND};

/// How long a request may take to arrive. A client prepares it before it connects; only a machine in trouble
/// takes seconds for it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The most conversations at a time; more clients wait in the socket's queue. Each costs a descriptor, of
/// which many systems give 1,024.
const MOST: usize = 256;

/// How much further input of a refused client is read and discarded, so that it sees the end of the
/// connection and not an error (unix(7)).
const THROWN_AWAY: usize = 1024 * 1024;

/// The version that this file reports.
pub(crate) const OUR_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("NBS_COMMIT"), ")");

/// The initial state of a helper.
pub(crate) struct HelperStart {
    pub(crate) listener: UnixListener,
    /// The state directory, if the socket in it is ours to remove.
    pub(crate) made_socket_in: Option<Folder>,
    pub(crate) sessions: PathBuf,
    /// Our caller's umask, for the children.
    pub(crate) umask: u32,
    /// How the children's environment differs from ours.
    pub(crate) environment: Environment,
    /// Held for as long as we live.
    pub(crate) lock: File,
}

#[derive(Clone, Copy)]
enum HelperEvent {
    Connection,
    Client(u64),
    Children,
    Stop,
    Reports,
    Log,
}

/// Serves until SIGINT or SIGTERM.
pub(crate) fn serve(start: HelperStart, stop: &mut Signals) -> Result<()> {
    let mut helper = Helper::new(start).trying("prepare to serve")?;
    helper.log.append(&format!("nbs-ts-helper started (pid {})", std::process::id()));
    while helper.serve_once(stop).trying("wait for an event")? {}
    stop.take();
    helper.stop();
    Ok(())
}

struct Helper {
    start: HelperStart,
    admission: Admission,
    conversations: Map<u64, Conversation>,
    last: u64,
    entrance: Entrance,
    ended: Signals,
    // The children of the base protocol.
    children: Set<u32>,
    keepers: Map<u32, Handle>,
    reports: PipeReader,
    // For keepers to come; and so the pipe has no end.
    reporter: PipeWriter,
    // The received part of the next report.
    report: Vec<u8>,
    log: HelperLog,
}

impl Helper {
    fn new(start: HelperStart) -> io::Result<Helper> {
        let (reports, reporter) = io::pipe()?;
        child::let_nothing_wait(&reports)?;
        // A keeper must not be held up by a helper that is stopped.
        child::let_nothing_wait(&reporter)?;
        Ok(Helper {
            start,
            admission: Admission::new(None),
            conversations: Map::new(),
            last: 0,
            entrance: Entrance::default(),
            ended: Signals::catch(&[SIGCHLD])?,
            children: Set::new(),
            keepers: Map::new(),
            reports,
            reporter,
            report: Vec::new(),
            log: HelperLog::default(),
        })
    }

    /// Waits once, and does the work that is due; `false` when that was the last time.
    fn serve_once(&mut self, stop: &Signals) -> io::Result<bool> {
        let stdout = io::stdout();
        let mut poll_set = PollSet::new();
        let mut deadline = Deadline::NEVER;
        let late = self.late();
        if self.conversations.len() < MOST {
            deadline = self.entrance.watch(&self.start.listener, &mut poll_set, HelperEvent::Connection);
        }
        for (id, conversation) in self.conversations.iter() {
            poll_set.readable(conversation, HelperEvent::Client(*id));
            deadline = deadline.min(conversation.deadline);
        }
        poll_set.readable(&self.ended, HelperEvent::Children);
        poll_set.readable(stop, HelperEvent::Stop);
        poll_set.readable(&self.reports, HelperEvent::Reports);
        if self.log.wants_write() {
            poll_set.writable(&stdout, HelperEvent::Log);
        }
        for event in poll_set.wait(deadline)? {
            match event {
                HelperEvent::Connection => self.welcome(),
                HelperEvent::Client(id) => self.attend(id),
                HelperEvent::Children => self.collect_children()?,
                HelperEvent::Reports => self.receive_reports(),
                HelperEvent::Log => self.log.write(),
                HelperEvent::Stop => return Ok(false),
            }
        }
        self.dismiss(late);
        Ok(true)
    }

    fn welcome(&mut self) {
        let Some(stream) = self.entrance.take(self.start.listener.accept()) else { return };
        let peer = match self.admission.admit(&stream) {
            Ok(peer) => peer,
            Err(denial) => {
                let peer = socket::peer(&stream).map_or(0, |peer| peer.pid);
                return self.refuse(&denial.to_string(), peer);
            }
        };
        if let Err(error) = stream.set_nonblocking(true) {
            return self.refuse(&error.to_string(), peer);
        }
        self.last += 1;
        self.conversations.insert(self.last, Conversation::new(stream, peer));
    }

    fn refuse(&mut self, why: &str, peer: u32) {
        self.log.append(&format!("reject: {why} (peer_pid={peer})"));
    }

    fn attend(&mut self, id: u64) {
        let Some(conversation) = self.conversations.get_mut(&id) else { return };
        let peer = conversation.peer;
        match conversation.receive() {
            RequestProgress::More => {}
            RequestProgress::Over => drop(self.conversations.remove(&id)),
            RequestProgress::Refused(why) => {
                conversation.throw_away();
                self.refuse(&why, peer);
            }
            RequestProgress::Command(command) => {
                let Some(conversation) = self.conversations.remove(&id) else { return };
                if let Err(error) = self.start_command(&conversation, command) {
                    self.refuse(&format!("cannot start a command: {error}"), peer);
                }
            }
            RequestProgress::Request(Header::Start { handle, length }) => {
                let Some(conversation) = self.conversations.remove(&id) else { return };
                match Handle::parse(&handle) {
                    None => self.refuse("rubbish", peer),
                    Some(handle) => {
                        if let Err(error) = self.start_keeper(conversation, handle, length) {
                            self.refuse(&format!("cannot start a keeper: {error}"), peer);
                        }
                    }
                }
            }
            RequestProgress::Request(Header::Version) => conversation.send_version(),
            RequestProgress::OtherVersion(version) => {
                conversation.send_version();
                self.refuse(
                    &format!("it uses version {version} of the protocol, not {}", protocol::VERSION),
                    peer,
                );
            }
        }
    }

    /// The base protocol: a command on its own terminal, as our child.
    fn start_command(&mut self, conversation: &Conversation, command: Vec<u8>) -> io::Result<()> {
        let shown = text::escaped(&command);
        let mut words = vec!["bash".into(), "--login".into(), "-c".into()];
        if command.starts_with(b"-") || command.starts_with(b"+") {
            // Still a command, though bash would take it for options.
            words.push("--".into());
        }
        words.push(OsStringExt::from_vec(command));
        let master = Master::open(Size::DEFAULT)?;
        // Not every client expects a descriptor that does not wait.
        master.let_reads_wait()?;
        let program = Program {
            words: &words,
            umask: self.start.umask,
            folder: None,
            environment: &self.start.environment,
            confinement: None,
        };
        let gate = Gate::spawn(&master, &program)?;
        let child = gate.child();
        self.children.insert(child);
        self.log.append(&format!("spawn: \"{shown}\" -> pid {child} (peer_pid={})", conversation.peer));
        // A client that has gone by now wants no child: it has not begun, and
        // ends with the gate.
        fdpass::send(&conversation.stream, &[protocol::FILES], &[master.as_fd()])?;
        (&conversation.stream).write_all(child.to_string().as_bytes())?;
        gate.open().map(drop)
    }

    fn start_keeper(&mut self, conversation: Conversation, handle: Handle, length: usize) -> io::Result<()> {
        let mut command = child::ourselves(crate::session::KEEPER);
        command
            .arg(handle.as_str())
            .arg(&self.start.sessions)
            .arg(conversation.peer.to_string())
            .arg(length.to_string())
            .stdin(OwnedFd::from(conversation.stream))
            .stdout(self.reporter.try_clone()?)
            .stderr(Stdio::null());
        child::change_environment(&mut command, &self.start.environment);
        // By which it is known for the session's, also when its relay has gone.
        command.env(crate::session::SESSION_ENV, handle.as_str());
        let keeper = command.spawn()?;
        self.keepers.insert(keeper.id(), handle);
        Ok(())
    }

    fn collect_children(&mut self) -> io::Result<()> {
        self.ended.take();
        while let Some((pid, status)) = child::collect()? {
            if self.children.remove(&pid) {
                self.log.append(&death(pid, status));
            }
            let keeper = self.keepers.remove(&pid);
            if let (Some(handle), ExitStatus::Signal(_)) = (keeper, status) {
                self.log.append(&format!("keeper of session {handle}: {}", death(pid, status)));
            }
        }
        Ok(())
    }

    /// Logs the keepers' reports.
    fn receive_reports(&mut self) {
        let mut buffer = [0; 16 * 1024];
        let Ok(count) = self.reports.read(&mut buffer) else { return };
        self.report.extend_from_slice(&buffer[..count]);
        while let Some(end) = memchr::memchr(b'\n', &self.report) {
            let line: Vec<u8> = self.report.drain(..=end).collect();
            self.log.append(&text::escaped(&line[..end]));
        }
    }

    /// The conversations whose deadlines have passed. Their pending input is read before they are closed: we
    /// may be the ones who are late.
    fn late(&self) -> Vec<u64> {
        let conversations = self.conversations.iter();
        conversations.filter(|(_, each)| each.deadline.has_passed()).map(|(id, _)| *id).collect()
    }

    fn dismiss(&mut self, late: Vec<u64>) {
        for id in late {
            let Some(conversation) = self.conversations.remove(&id) else { continue };
            if !conversation.is_refused() {
                self.refuse(&format!("no request within {} s", REQUEST_TIMEOUT.as_secs()), conversation.peer);
            }
        }
    }

    /// Sessions live on, and so do the children of clients that hold their
    /// terminals.
    fn stop(mut self) {
        self.receive_reports();
        if let Some(folder) = &self.start.made_socket_in {
            // If it has been removed already, there is nothing to do.
            let _ = folder.remove_file(HELPER_SOCKET.as_ref());
        }
        self.log.append("nbs-ts-helper stopped");
        drop(self.start.lock);
    }
}

/// The log's text about a process's end.
fn death(pid: u32, status: ExitStatus) -> String {
    match status {
        ExitStatus::Code(code) => format!("child exited: pid {pid} exit_code={code}"),
        ExitStatus::Signal(signal) => {
            format!("child killed: pid {pid} signal={signal} ({})", signals::name(signal))
        }
    }
}

/// One client.
struct Conversation {
    stream: UnixStream,
    peer: u32,
    deadline: Deadline,
    state: ConversationState,
}

enum ConversationState {
    /// The received part of the request: at most one byte more than it may have.
    Hearing(Vec<u8>),
    /// Refused; `left` bytes of further input are discarded.
    Refused { left: usize },
}

/// The result of reading from a client.
enum RequestProgress {
    More,
    /// The client has gone, or nothing more is to be read.
    Over,
    Command(Vec<u8>),
    Request(Header),
    OtherVersion(u8),
    Refused(String),
}

as_fd!(Conversation, stream);

impl Conversation {
    fn new(stream: UnixStream, peer: u32) -> Conversation {
        Conversation {
            stream,
            peer,
            deadline: Deadline::after(REQUEST_TIMEOUT),
            state: ConversationState::Hearing(Vec::new()),
        }
    }

    fn is_refused(&self) -> bool {
        matches!(self.state, ConversationState::Refused { .. })
    }

    fn throw_away(&mut self) {
        self.state = ConversationState::Refused { left: THROWN_AWAY };
    }

    /// Sends our version. It always fits: nothing has been sent before.
    fn send_version(&mut self) {
        // If the client has gone, no one needs it.
        let _ =
            self.stream.write_all(format!("{}{OUR_VERSION}", char::from(protocol::VERSION_IS)).as_bytes());
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        self.throw_away();
    }

    /// One read's worth.
    fn receive(&mut self) -> RequestProgress {
        let mut buffer = [0; LONGEST_COMMAND + 1];
        let wanted = match &self.state {
            ConversationState::Hearing(inbox) => wanted(inbox),
            ConversationState::Refused { left } => *left,
        };
        let read = self.stream.read(&mut buffer[..wanted.min(LONGEST_COMMAND + 1)]);
        let count = match read {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return RequestProgress::More;
            }
            Err(_) => 0,
        };
        match &mut self.state {
            ConversationState::Refused { left } => {
                *left -= count;
                if count == 0 || *left == 0 { RequestProgress::Over } else { RequestProgress::More }
            }
            ConversationState::Hearing(inbox) => {
                inbox.extend_from_slice(&buffer[..count]);
                judge(inbox, count == 0)
            }
        }
    }
}

/// How many more bytes of a request to read: of an extended one the header and not a byte more, for the
/// keeper reads the rest.
fn wanted(inbox: &[u8]) -> usize {
    match inbox.first() {
        None | Some(0) => HEADER - inbox.len(),
        Some(_) => LONGEST_COMMAND + 1 - inbox.len(),
    }
}

/// The meaning of a request's bytes, so far or (`ended`) for good.
fn judge(inbox: &[u8], ended: bool) -> RequestProgress {
    if inbox.first() == Some(&0) {
        return match inbox.try_into().map(Header::decode) {
            Ok(Ok(header)) => RequestProgress::Request(header),
            Ok(Err(Bad::Version(version))) => RequestProgress::OtherVersion(version),
            Ok(Err(Bad::Rubbish)) => RequestProgress::Refused("rubbish".into()),
            Ok(Err(Bad::TooLong)) => {
                RequestProgress::Refused(format!("an order of more than {} bytes", protocol::LONGEST_ORDER))
            }
            Err(_) if ended => RequestProgress::Refused("half a request".into()),
            Err(_) => RequestProgress::More,
        };
    }
    if inbox.len() > LONGEST_COMMAND {
        return RequestProgress::Refused(format!("a command of more than {LONGEST_COMMAND} bytes"));
    }
    match ended {
        false => RequestProgress::More,
        true if inbox.is_empty() => RequestProgress::Refused("no command".into()),
        true if inbox.contains(&0) => RequestProgress::Refused("a NUL in the command".into()),
        true => RequestProgress::Command(inbox.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(inbox: &[u8], ended: bool) -> String {
        match judge(inbox, ended) {
            RequestProgress::More => "more".into(),
            RequestProgress::Over => "over".into(),
            RequestProgress::Command(command) => format!("command {}", command.len()),
            RequestProgress::Request(header) => format!("{header:?}"),
            RequestProgress::OtherVersion(version) => format!("version {version}"),
            RequestProgress::Refused(why) => why,
        }
    }

    #[test]
    fn requests_are_judged_by_what_has_come() {
        let longest = [b'x'; LONGEST_COMMAND];
        assert_eq!(judged(b"", false), "more");
        assert_eq!(judged(b"", true), "no command");
        assert_eq!(judged(b"ls", false), "more");
        assert_eq!(judged(b"ls", true), "command 2");
        assert_eq!(judged(b"l\0s", true), "a NUL in the command");
        assert_eq!(judged(&longest, true), "command 4096");
        assert_eq!(judged(&[&longest[..], b"x"].concat(), false), "a command of more than 4096 bytes");
        let version = Header::Version.encode();
        assert_eq!(judged(&version, false), "Version");
        for end in 1..version.len() {
            assert_eq!(judged(&version[..end], false), "more");
            assert_eq!(judged(&version[..end], true), "half a request");
        }
        assert_eq!(judged(&[0; HEADER], false), "version 0");
    }

    #[test]
    fn data_after_the_header_of_an_extended_request_is_not_read() {
        assert_eq!(wanted(b""), HEADER);
        assert_eq!(wanted(b"\0"), HEADER - 1);
        assert_eq!(wanted(b"e"), LONGEST_COMMAND);
        assert_eq!(wanted(&[b'x'; LONGEST_COMMAND]), 1);
    }
}
