//! A connection to the relay of a session.
//!
//! Its holder receives every change as it happens, without inotify watches, which are limited. The connection
//! ends when the session ends, also if the relay is killed. To miss nothing: ask for changes, look, and ask
//! for changes since then.

mod diagnosis;
mod fields;
pub(crate) mod input_history;
pub(crate) mod job;
pub(crate) mod protocol;
mod reach;
pub(crate) mod sending;
pub(crate) mod snapshot;
mod wait;
mod wait_outcome;
pub(crate) mod waiting;

use std::{
    ffi::OsString,
    io::{self, IoSlice, Read, Write},
    ops::Range,
    os::{
        fd::BorrowedFd,
        unix::{ffi::OsStringExt, net::UnixStream},
    },
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{
    outcome::{Failure, Result, Trying},
    session::{Handle, InputSource, ReplyTimeout, SessionDir, shell::Dialect},
    sys::{as_fd, deadline::Deadline, poll::PollSet, pty::Size, socket},
};
pub(crate) use diagnosis::Diagnosis;
use job::{Job, OutputReport};
pub(crate) use protocol::{Asked, ForegroundProgram, INTERRUPT, PromptState, TerminalState};
use protocol::{Follower, KeyModes, LONGEST_LINE, RelayRequest, Response, SizeSince};
pub(crate) use reach::refuses_sockets;
use snapshot::Folder;
pub(crate) use snapshot::{Parts, Snapshot};
pub(crate) use wait::{Wait, WaitEnd};
use wait_outcome::Follows;
pub(crate) use wait_outcome::{Looks, ReportedState, WaitOutcome};

/// Far more than a path or typed text takes. Only another program sends more.
const LONGEST_RESPONSE: usize = 512 << 10;

pub(crate) struct RelayClient {
    handle: Handle,
    stream: UnixStream,
    patience: ReplyTimeout,
    // The received bytes of the next response.
    inbox: Vec<u8>,
    // How many changes have been reported.
    seen: u64,
    // The kind of follower we are; the terminal's size and the session's state, as last reported.
    follows: Follows,
    size: Option<SizeSince>,
    standing: Option<(Snapshot, Instant)>,
    // The session's exit code, once it was reported.
    exit_code: Option<i32>,
    // The changes we have asked for, without a response yet.
    following: Option<Follows>,
    // How much of the log we have read, and the last report of our command.
    read: u64,
    output: OutputReport,
    // The lines to send with the next request.
    ahead: String,
}

/// How long the report that a text was typed may take even if the call's time is over.
const TYPED_AT_ONCE: Duration = Duration::from_millis(300);

/// How soon to look again whether a shell waits for a key, of which the kernel sends no event.
pub(crate) const GLANCE: Duration = Duration::from_millis(10);

/// How a call came to have the session to itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    /// Others had it when the call asked for it.
    pub(crate) queued: bool,
    /// The place at which the last call that reported one typed its text.
    pub(crate) asked: Option<Asked>,
}

/// The result of typing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    pub(crate) count: u64,
    /// The rest is a line that is too long for the terminal's present mode.
    pub(crate) held: bool,
    /// An interrupt has discarded the rest.
    pub(crate) cut: bool,
}

impl RelayClient {
    /// `None` if the session has ended.
    pub(crate) fn open(session: &SessionDir) -> Result<Option<RelayClient>> {
        let Some(stream) = reach::connect(session)? else { return Ok(None) };
        let what = format!("reach the relay of session '{}'", session.handle());
        if !socket::leads_to_us_or_root(&stream).trying(&what)? {
            return Err(Failure::failed(format!("cannot {what}: it belongs to another user")));
        }
        stream.set_nonblocking(true).trying(&what)?;
        Ok(Some(RelayClient::over(stream, session.handle().clone(), session.patience())))
    }

    /// Is it alive, and does its relay report this as its keeper?
    pub(crate) fn is_kept_by(session: &SessionDir, pid: u32) -> bool {
        let client = RelayClient::open(session).ok().flatten();
        client.is_some_and(|mut client| client.keeper().ok().flatten() == Some(pid))
    }

    fn over(stream: UnixStream, handle: Handle, patience: ReplyTimeout) -> RelayClient {
        RelayClient {
            handle,
            stream,
            patience,
            inbox: Vec::new(),
            seen: 0,
            follows: Follows::Changes(Follower::Viewer),
            size: None,
            standing: None,
            exit_code: None,
            following: None,
            read: 0,
            output: OutputReport::default(),
            ahead: String::new(),
        }
    }

    /// Sets the source that the history records for text that this client types.
    pub(crate) fn typing_as(mut self, source: InputSource) -> RelayClient {
        self.ahead.push_str(&RelayRequest::Source(source).encode());
        self
    }

    fn what(&self) -> String {
        format!("talk to the relay of session '{}'", self.handle)
    }

    /// The PID of the relay, as the kernel knows it.
    pub(crate) fn relay_pid(&self) -> Result<u32> {
        socket::peer_pid(&self.stream).trying(self.what())
    }

    /// Sends the relay the session's report: `said` is a state, a space and a text. `false` if the session
    /// has ended.
    pub(crate) fn report(&mut self, said: &[u8]) -> Result<bool> {
        let request = RelayRequest::Report { length: said.len() as u64 };
        Ok(self.send(&request)? && self.write(said)? && self.receive_noted("store the report")?)
    }

    /// Types, and waits until the terminal has accepted everything. `None` if the session ended first. When
    /// the deadline passes, the rest is never typed, and this client cannot be used any more.
    pub(crate) fn type_in(&mut self, bytes: &[u8], deadline: Deadline) -> Result<Option<Typed>> {
        // In one piece, so that the relay need not be woken twice.
        let line = self.with_ahead(&RelayRequest::Type { length: bytes.len() as u64 });
        let mut message = [line.as_bytes(), bytes].map(IoSlice::new);
        let mut rest = &mut message[..];
        // An empty slice sends nothing.
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.stream.write_vectored(rest) {
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.wait(Way::Out, deadline, None)? {
                        return self.stop_typing();
                    }
                }
                Err(error) if has_hung_up(&error) => break,
                Err(error) => return Err(error).trying(self.what()),
            }
        }
        // It usually answers at once; and once typing was stopped, no more requests can be sent.
        match self.receive(deadline.at_least(TYPED_AT_ONCE))? {
            Received::Nothing => self.stop_typing(),
            received => self.typed(received),
        }
    }

    /// Has the relay deliver this command by these keys, even if this call ends, and requests at once the report that
    /// [`RelayClient::output_or`] waits for, for a log of which `read` bytes have been read. `Some(false)`: its shell
    /// is not at that prompt any more. `None` if the session has ended.
    pub(crate) fn deliver(&mut self, job: &Job, keys: &[u8], read: u64) -> Result<Option<bool>> {
        self.note_job_with_next(job);
        self.read = read;
        let line = self.with_ahead(&RelayRequest::Deliver { length: keys.len() as u64 });
        // In one piece, so that the relay need not be woken twice. A socket always has room for it.
        let then = self.follow_request(Follows::Output).encode();
        if !self.write(&[line.as_bytes(), keys, then.as_bytes()].concat())? {
            return Ok(None);
        }
        // It usually answers at once: to look at the relay, for how long it may take, takes longer.
        let answer = match self.receive(Deadline::after(TYPED_AT_ONCE))? {
            Received::Response(response) => Some(response),
            Received::End => None,
            Received::Nothing => self.receive_answer()?,
        };
        match answer {
            Some(Response::Noted) => {
                self.following = Some(Follows::Output);
                Ok(Some(true))
            }
            Some(Response::Stale) => Ok(Some(false)),
            Some(Response::Refused { why }) => Err(self.refused("run a command in the terminal", &why)),
            Some(_) => Err(self.misunderstood()),
            None => Ok(None),
        }
    }

    /// Shuts down our half of the connection: nothing more is to be typed.
    fn stop_typing(&mut self) -> Result<Option<Typed>> {
        // If the relay has gone, `receive` reports it.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        match self.receive(self.patience())? {
            Received::Nothing => Err(self.silent_and("; the call's remaining text is never typed")),
            received => self.typed(received),
        }
    }

    fn typed(&self, received: Received) -> Result<Option<Typed>> {
        match received {
            Received::Response(Response::Typed { count, held }) => {
                Ok(Some(Typed { count, held, cut: false }))
            }
            Received::Response(Response::Cut { count }) => Ok(Some(Typed { count, held: false, cut: true })),
            Received::End => Ok(None),
            Received::Response(_) => Err(self.misunderstood()),
            Received::Nothing => Err(self.silent()),
        }
    }

    /// The relay's view of these parts, and of everything that needs no look at a process. `None` if the
    /// session has ended.
    pub(crate) fn snapshot(&mut self, parts: Parts) -> Result<Option<Snapshot>> {
        let request = RelayRequest::Snapshot { parts, seen: None, waits: false };
        if self.send(&request)? { self.receive_snapshot() } else { Ok(None) }
    }

    pub(crate) fn receive_snapshot(&mut self) -> Result<Option<Snapshot>> {
        match self.receive_answer()? {
            Some(Response::Snapshot(snapshot)) => Ok(Some(*snapshot)),
            Some(_) => Err(self.misunderstood()),
            None => Ok(None),
        }
    }

    /// The state of the terminal. `None` if the session has ended.
    pub(crate) fn doing(&mut self) -> Result<Option<TerminalState>> {
        Ok(self.snapshot(Parts::TERMINAL)?.map(|snapshot| snapshot.doing))
    }

    /// The PID of the child's keeper; `None` if the relay itself is the
    /// parent, or the keeper has gone.
    pub(crate) fn keeper(&mut self) -> Result<Option<u32>> {
        if let Some(Response::Keeper { pid }) = self.ask(&RelayRequest::Keeper)? { Ok(pid) } else { Ok(None) }
    }

    /// Waits for exclusive access to the session, and has it as long as this connection lasts; returns the
    /// state then. It does not exclude calls that never ask for access. `None`: not in time; or `stop` became
    /// readable first.
    pub(crate) fn take_turn(
        &mut self,
        session: &SessionDir,
        deadline: Deadline,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Option<(Snapshot, Waited)>> {
        self.ahead.push_str(&RelayRequest::Turn { at_prompt: false }.encode());
        let then = RelayRequest::Snapshot { parts: Parts::NONE, seen: None, waits: false };
        let (waited, now) = self.await_turn(&then, session, deadline, stop)?;
        Ok(now.zip(waited))
    }

    /// The same, and then for the shell's prompt: the state there, or that in which no command can be handed
    /// over. Without that also whether the access was had by then.
    pub(crate) fn take_turn_at_prompt(
        &mut self,
        session: &SessionDir,
        deadline: Deadline,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<(bool, Option<Snapshot>)> {
        let request = RelayRequest::Turn { at_prompt: true };
        let (waited, now) = self.await_turn(&request, session, deadline, stop)?;
        Ok((waited.is_some(), now))
    }

    /// Sends the shell another interrupt if it has lost one, as bash may: it would process that only at the
    /// next key, which is then lost. Returns whether it had; `None`: it has not processed it in time, and this
    /// connection is of no more use.
    pub(crate) fn wake(&mut self, session: &SessionDir, deadline: Deadline) -> Result<Option<bool>> {
        let (_, now) = self.await_turn(&RelayRequest::Wake, session, deadline, None)?;
        Ok(now.map(|now| !now.free))
    }

    /// Waits for the turn, or for the shell, and for the snapshot that follows.
    fn await_turn(
        &mut self,
        request: &RelayRequest,
        session: &SessionDir,
        deadline: Deadline,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<(Option<Waited>, Option<Snapshot>)> {
        if !self.send(request)? {
            return Err(session.ended());
        }
        let mut waited = None;
        loop {
            let look = self.patience().min(deadline);
            match self.receive_or(look, stop)? {
                Received::Response(Response::Turn { queued, asked }) => {
                    waited = Some(Waited { queued, asked });
                    continue;
                }
                Received::Response(Response::Snapshot(now)) => return Ok((waited, Some(*now))),
                // News that were on their way when we asked for it.
                Received::Response(Response::Output(_) | Response::Changed { .. }) => continue,
                Received::Response(Response::Ended { .. }) => return Err(session.ended()),
                Received::Response(_) => return Err(self.misunderstood()),
                Received::End => return Err(session.ended()),
                Received::Nothing if !look.has_passed() => return Ok((waited, None)),
                // Others have it, the shell is not ready, or the relay is stopped and does not answer.
                Received::Nothing => match RelayClient::open(session)? {
                    Some(mut client) => drop(client.snapshot(Parts::NONE)?),
                    None => return Err(session.ended()),
                },
            }
            if deadline.has_passed() {
                return Ok((waited, None));
            }
        }
    }

    /// Makes the relay remember the prompt at which this call types its text. `false` if the session has
    /// ended.
    pub(crate) fn note_asked(&mut self, asked: Asked) -> Result<bool> {
        self.noted(&RelayRequest::Asked(asked), "type")
    }

    /// Announces one more shell that reports, with this secret. `false` if the session
    /// has ended.
    pub(crate) fn announce(&mut self, secret: &str, dialect: Dialect) -> Result<bool> {
        self.noted(&RelayRequest::Level { secret: secret.to_owned(), dialect }, "type")
    }

    /// Hides the following input, up to the mark that ends it, from readers of the output without marks.
    /// `false` if the session has ended.
    pub(crate) fn hide(&mut self, secret: &str) -> Result<bool> {
        self.noted(&RelayRequest::Hide { secret: secret.to_owned() }, "type")
    }

    /// `what` is refused, if the relay refuses the request. `false` if the session has ended.
    fn noted(&mut self, request: &RelayRequest, what: &str) -> Result<bool> {
        Ok(self.send(request)? && self.receive_noted(what)?)
    }

    fn receive_noted(&mut self, what: &str) -> Result<bool> {
        match self.receive_answer()? {
            Some(Response::Noted) => Ok(true),
            Some(Response::Refused { why }) => Err(self.refused(what, &why)),
            Some(_) => Err(self.misunderstood()),
            None => Ok(false),
        }
    }

    /// The same, with the text typed after the first `typed` bytes.
    pub(crate) fn snapshot_with_typing(&mut self, parts: Parts, typed: u64) -> Result<Option<Snapshot>> {
        if self.ask_typing(parts, typed)? { self.receive_snapshot() } else { Ok(None) }
    }

    /// Requests that; [`RelayClient::receive_snapshot`] receives the response, before any other request.
    /// `false` if the session has ended.
    pub(crate) fn ask_typing(&mut self, parts: Parts, typed: u64) -> Result<bool> {
        self.send(&RelayRequest::Typing { parts, typed })
    }

    /// Sends, with the next request, the command of this call.
    pub(crate) fn note_text_with_next(&mut self, command: &[u8]) {
        /// As hexadecimal digits they fit a line.
        const PIECE: usize = LONGEST_LINE / 2 - 8;
        /// The relay keeps no more.
        const MOST: usize = 8 * 1024;
        for bytes in command[..command.len().min(MOST)].chunks(PIECE) {
            self.ahead.push_str(&RelayRequest::Text { bytes: bytes.to_vec() }.encode());
        }
    }

    /// Sends, with the next request, the progress of this call's command.
    pub(crate) fn note_job_with_next(&mut self, job: &Job) {
        self.ahead.push_str(&RelayRequest::Job(*job).encode());
    }

    /// The same at once.
    pub(crate) fn note_job(&mut self, job: &Job) {
        // If the session has ended, there is none.
        let _ = self.send(&RelayRequest::Job(*job));
    }

    /// Asks for the progress of this call's command; `false` if the session has ended.
    pub(crate) fn look_at_output(&mut self) -> Result<bool> {
        if !self.send(&RelayRequest::Progress)? {
            return Ok(false);
        }
        match self.receive_or(self.patience(), None)? {
            Received::Response(Response::Output(report)) => {
                self.output = *report;
                Ok(true)
            }
            Received::Response(Response::Ended { .. }) | Received::End => Ok(false),
            Received::Response(_) => Err(self.misunderstood()),
            Received::Nothing => Err(self.silent()),
        }
    }

    /// Reports that this call has printed the result of its command, or that there is none.
    pub(crate) fn note_told(&mut self) {
        // If this fails, another call gets the result.
        let _ = self.send(&RelayRequest::Told);
    }

    /// Takes over a command that another call has left; `None`: there is none, or the session has ended.
    pub(crate) fn attach(&mut self) -> Result<Option<Job>> {
        match self.ask(&RelayRequest::Attach)? {
            Some(Response::Job(job)) => Ok(Some(*job)),
            Some(Response::NoJob) | None => Ok(None),
            Some(Response::Refused { why }) => {
                Err(Failure::failed(format!("cannot resume a command in session '{}': {why}", self.handle)))
            }
            Some(_) => Err(self.misunderstood()),
        }
    }

    /// Reports that the secret typed next was asked for when the log had this length, although the terminal's
    /// modes do not show it.
    pub(crate) fn has_seen(&mut self, offset: u64) -> Result<()> {
        self.ask(&RelayRequest::Seen { offset })?;
        Ok(())
    }

    /// Interrupts the foreground process group as the key would, past all that is queued.
    /// `false` if the session has ended.
    pub(crate) fn interrupt(&mut self) -> Result<bool> {
        self.noted(&RelayRequest::Interrupt, "interrupt the program")
    }

    /// Interrupts this call's command until it ends, or for a while. `false` if the session has ended.
    pub(crate) fn interrupt_command(&mut self) -> Result<bool> {
        self.noted(&RelayRequest::InterruptCommand, "interrupt the command")
    }

    /// `None` if the session has ended.
    fn is_done(&self, answer: Option<Response>) -> Result<Option<bool>> {
        match answer {
            Some(Response::Noted) => Ok(Some(true)),
            Some(Response::Refused { .. }) => Ok(Some(false)),
            Some(_) => Err(self.misunderstood()),
            None => Ok(None),
        }
    }

    /// How the terminal encodes keys at the moment. `None` if the session has ended.
    pub(crate) fn modes(&mut self) -> Result<Option<KeyModes>> {
        self.snapshot(Parts::KEYS)?.map(|now| self.key_modes(now)).transpose()
    }

    /// The same, as a view with `Parts::KEYS` has them.
    pub(crate) fn key_modes(&self, now: Snapshot) -> Result<KeyModes> {
        now.keys.ok_or_else(|| self.refused("inspect the terminal", "the terminal has gone"))
    }

    /// Lets a signal character act at once; `Some(false)` if it is not a signal character at the moment.
    /// `None` if the session has ended.
    pub(crate) fn press(&mut self, byte: u8) -> Result<Option<bool>> {
        let answer = self.ask(&RelayRequest::Press { byte })?;
        self.is_done(answer)
    }

    /// Types a secret if the terminal shows a secret prompt now; else returns `Some(false)`. `None` if the
    /// session has ended.
    pub(crate) fn type_secret(&mut self, secret: &[u8]) -> Result<Option<bool>> {
        // It is shorter than a socket's buffer.
        let request = RelayRequest::Secret { length: secret.len() as u64 };
        if !self.send(&request)? || !self.write(secret)? {
            return Ok(None);
        }
        match self.receive_answer()? {
            Some(Response::Typed { count, .. }) if count == secret.len() as u64 => Ok(Some(true)),
            Some(Response::Typed { .. }) => {
                Err(self.refused("type the secret into the terminal", "only part of it was typed"))
            }
            Some(Response::Refused { .. }) => Ok(Some(false)),
            Some(_) => Err(self.misunderstood()),
            None => Ok(None),
        }
    }

    /// The directory of the foreground process. `None` if the session has ended.
    pub(crate) fn folder(&mut self) -> Result<Option<PathBuf>> {
        let what = "find the current directory";
        match self.snapshot(Parts::FOLDER)?.and_then(|now| now.folder) {
            Some(Folder::There(path)) => Ok(Some(OsString::from_vec(path).into())),
            Some(Folder::Removed(path)) => {
                let path = OsString::from_vec(path);
                Err(self.refused(what, &format!("'{}' has been removed", path.display())))
            }
            Some(Folder::Unknown(why)) => Err(self.refused(what, &why)),
            None => Ok(None),
        }
    }

    /// The ranges of the log, from this offset on, in which newlines were printed untranslated. `None` if the
    /// session has ended.
    pub(crate) fn untranslated(&mut self, since: u64) -> Result<Option<Vec<Range<u64>>>> {
        match self.ask(&RelayRequest::Untranslated { since })? {
            Some(Response::Untranslated { ranges }) => Ok(Some(ranges)),
            Some(_) => Err(self.misunderstood()),
            None => Ok(None),
        }
    }

    /// Sets the terminal's size to that of a window that shows it, for as long as this connection lasts;
    /// `false` if the session has ended.
    pub(crate) fn view(&mut self, size: Size) -> Result<bool> {
        self.noted(&RelayRequest::View { cols: size.cols, rows: size.rows }, "resize the terminal")
    }

    /// Has some bytes typed, no more than `RelayClient::MOST_KEYS`, and does not wait until
    /// they are: then [`RelayClient::has_typed`] is to be asked when there is something to
    /// read, and nothing else before it was true. `false` if the session has ended.
    pub(crate) fn begin_typing(&mut self, bytes: &[u8]) -> Result<bool> {
        Ok(self.send(&RelayRequest::Type { length: bytes.len() as u64 })? && self.write(bytes)?)
    }

    /// As many as a socket always has room for.
    pub(crate) const MOST_KEYS: usize = 4096;

    /// Have they been typed, or been discarded by an interrupt? `WaitOutcome::TimedOut`: not yet.
    pub(crate) fn has_typed(&mut self) -> Result<WaitOutcome> {
        match self.receive(Deadline::after(Duration::ZERO))? {
            Received::Response(Response::Typed { .. } | Response::Cut { .. }) => Ok(WaitOutcome::Changed),
            Received::Response(_) => Err(self.misunderstood()),
            Received::End => Ok(WaitOutcome::Ended),
            Received::Nothing => Ok(WaitOutcome::TimedOut),
        }
    }

    /// Changes that; `false` if the session has ended.
    pub(crate) fn resize(&mut self, size: Size) -> Result<bool> {
        self.noted(&RelayRequest::Resize { cols: size.cols, rows: size.rows }, "resize the terminal")
    }

    fn refused(&self, what: &str, why: &str) -> Failure {
        Failure::failed(format!("cannot {what} of session '{}': {why}", self.handle))
    }

    /// Sends the relay the reason why the session is about to end; `false` if the relay ended first.
    pub(crate) fn ending(&mut self, cause: &str) -> Result<bool> {
        Ok(self.ask(&RelayRequest::Ending { cause: cause.to_owned() })?.is_some())
    }

    /// Tells the relay, which stays as the parent of the remaining processes while a session is being ended,
    /// that none remain.
    pub(crate) fn done(&mut self) -> Result<()> {
        self.ask(&RelayRequest::Done)?;
        Ok(())
    }

    fn ask(&mut self, request: &RelayRequest) -> Result<Option<Response>> {
        if !self.send(request)? {
            return Ok(None);
        }
        self.receive_answer()
    }

    fn receive_answer(&mut self) -> Result<Option<Response>> {
        match self.receive(self.patience())? {
            Received::Response(response) => Ok(Some(response)),
            Received::End => Ok(None),
            Received::Nothing => Err(self.silent()),
        }
    }

    /// `false` if the relay has gone. The line always fits into the socket's buffer, because we send only a
    /// few lines before we receive a response.
    fn send(&mut self, request: &RelayRequest) -> Result<bool> {
        let line = self.with_ahead(request);
        self.write(line.as_bytes())
    }

    /// The same for bytes behind a line.
    fn write(&mut self, bytes: &[u8]) -> Result<bool> {
        match self.stream.write_all(bytes) {
            Ok(()) => Ok(true),
            Err(error) if has_hung_up(&error) => Ok(false),
            Err(error) => Err(error).trying(self.what()),
        }
    }

    /// The request's line, after the lines to be sent before it. It cancels our request for changes.
    fn with_ahead(&mut self, request: &RelayRequest) -> String {
        self.following = None;
        std::mem::take(&mut self.ahead) + &request.encode()
    }

    fn receive(&mut self, deadline: Deadline) -> Result<Received> {
        loop {
            match self.receive_or(deadline, None)? {
                // News that were on their way when we asked for something else.
                Received::Response(Response::Changed { .. }) => {}
                Received::Response(Response::Output(report)) => self.output = *report,
                Received::Response(Response::Ended { code }) => {
                    self.exit_code = code;
                    return Ok(Received::End);
                }
                received => return Ok(received),
            }
        }
    }

    fn receive_or(&mut self, deadline: Deadline, stop: Option<BorrowedFd<'_>>) -> Result<Received> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.inbox[searched..].iter().position(|&byte| byte == b'\n') {
                let end = searched + end;
                let line: Vec<u8> = self.inbox.drain(..=end).collect();
                let response = Response::decode(&line[..end]).ok_or_else(|| self.misunderstood())?;
                return Ok(Received::Response(response));
            }
            if self.inbox.len() > LONGEST_RESPONSE {
                return Err(self.misunderstood());
            }
            searched = self.inbox.len();
            let mut buffer = [0; LONGEST_LINE];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(Received::End),
                Ok(count) => self.inbox.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.wait(Way::In, deadline, stop)? {
                        return Ok(Received::Nothing);
                    }
                }
                Err(error) if has_hung_up(&error) => return Ok(Received::End),
                Err(error) => return Err(error).trying(self.what()),
            }
        }
    }

    fn wait(&self, way: Way, deadline: Deadline, stop: Option<BorrowedFd<'_>>) -> Result<bool> {
        loop {
            let mut poll_set = PollSet::new();
            match way {
                Way::In => poll_set.readable(&self.stream, true),
                Way::Out => poll_set.writable(&self.stream, true),
            }
            if let Some(stop) = &stop {
                poll_set.readable(stop, false);
            }
            let events = poll_set.wait(deadline).trying(self.what())?;
            if events.contains(&true) {
                return Ok(true);
            }
            if !events.is_empty() || deadline.has_passed() {
                return Ok(false);
            }
        }
    }

    /// The deadline for the response to a request that is sent now.
    fn patience(&self) -> Deadline {
        match self.relay_pid() {
            Ok(pid) => self.patience.deadline_for(pid),
            Err(_) => self.patience.deadline(),
        }
    }

    fn silent(&self) -> Failure {
        self.silent_and("")
    }

    fn silent_and(&self, more: &str) -> Failure {
        self.patience.failure(&self.handle, self.relay_pid().ok(), more)
    }

    /// Why the relay has not answered, as part of a sentence.
    pub(crate) fn reason(&self) -> String {
        self.patience.reason(&self.handle, self.relay_pid().ok())
    }

    fn misunderstood(&self) -> Failure {
        let what = self.what();
        Failure::failed(format!(
            "cannot {what}: it is of another version of nbs; try 'nbs-ts restart {}'",
            self.handle
        ))
    }
}

as_fd!(RelayClient, stream);

#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

enum Received {
    Response(Response),
    End,
    Nothing,
}

/// A peer that has gone with something of ours unread is a reset (unix(7)).
fn has_hung_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
