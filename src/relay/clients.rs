//! The clients of the relay's socket.
//!
//! Each has a bounded inbox; a client that sends slowly or hangs up half-way costs that and a descriptor, and
//! delays no other. Clients that want to type are served one after another, each to its end, in the order in
//! which they came; a client that then has nothing to type for a while is skipped.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    time::Duration,
};

use crate::{
    jail::Admission,
    relay::{activity_tracker::Audience, inbox::Inbox, prompt_wait::ShellWait},
    session::{
        InputSource, Report,
        client::{
            job::{Handed, OutputReport},
            protocol::{Asked, Follower, LONGEST_LINE, RelayRequest, Response, SizeSince},
        },
    },
    sorted::Map,
    sys::{
        as_fd,
        deadline::Deadline,
        poll::{self, PollSet},
        socket::Entrance,
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId(u64);

#[cfg(test)]
impl ClientId {
    pub(crate) fn of(number: u64) -> ClientId {
        ClientId(number)
    }
}

/// How much of a client's text is kept here; the rest waits in its socket.
const INBOX: usize = 16 * 1024;

/// A canonical line and its end are no longer.
const LONGEST_SECRET: usize = 4_096;

/// The request of a client that has given up, or has printed all; see `RelayRequest::Told`.
const TOLD: &[u8] = b"told\n";

/// A state, a space and a text.
const LONGEST_REPORT: usize = Report::LONGEST + 16;

/// The keys that deliver a command: a path, or a line that is typed.
const LONGEST_DELIVERY: usize = 8 * 1024;

/// The descriptors that the relay needs for itself.
const RESERVE: usize = 32;

/// How many there may be, though there were descriptors for more: each takes some hundred
/// bytes.
const MOST: usize = 1_000;

/// The most memory for all of them: unprocessed input, and unread output. For a client that reads its
/// responses, there mostly is none.
const MOST_KEPT: usize = 256 * 1024;

/// How long a client whose turn it is to type may keep the others waiting before it sends more of its text.
/// It was stopped, or never meant to.
const TYPIST_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Clients {
    admission: Admission,
    all: Map<ClientId, Client>,
    // The most clients at a time; more wait in the socket's queue.
    most: usize,
    // The client with exclusive access to the session, and those queued for it.
    turns: VecDeque<ClientId>,
    // Nobody is given that now.
    is_turn_held: bool,
    // The prompt at which the last call that reported one typed its text.
    asked: Option<Asked>,
    // The client that types now, and those queued behind it.
    typists: VecDeque<ClientId>,
    // Until when the first of them has time to send more of its text.
    patience: Deadline,
    last: u64,
    // How many times there has been much to be kept for one.
    dawdlers: u64,
    entrance: Entrance,
}

pub(crate) struct Client {
    stream: UnixStream,
    inbox: Inbox,
    // Invariant: one response, or its rest. No request is processed before the socket has accepted it.
    outbox: Vec<u8>,
    wish: PendingRequest,
    // It is a call that waits on the session.
    waits: bool,
    // It integrates a shell, which is taken back if it leaves, before others have the session; and what it types
    // now is the last of it.
    integrates: bool,
    types_last: bool,
    // The source of its input.
    source: InputSource,
    hung_up: bool,
    // Set while its inbox or outbox is large: a number that grows, so that the smallest is
    // the one which has been so for longest.
    slow_since: Option<u64>,
}

/// What a client sends behind its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Report,
    Secret,
    Delivery,
}

impl Sent {
    fn longest(self) -> usize {
        match self {
            Sent::Report => LONGEST_REPORT,
            Sent::Secret => LONGEST_SECRET,
            Sent::Delivery => LONGEST_DELIVERY,
        }
    }

    fn request(self, length: usize) -> RelayRequest {
        let length = length as u64;
        match self {
            Sent::Report => RelayRequest::Report { length },
            Sent::Secret => RelayRequest::Secret { length },
            Sent::Delivery => RelayRequest::Deliver { length },
        }
    }
}

/// A client's unanswered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingRequest {
    None,
    /// To report when the session has changed more often than this.
    News {
        seen: u64,
        sized: bool,
    },
    /// To report when a reportable event (`OutputState::told`) ends behind this many bytes.
    Output {
        seen: u64,
    },
    /// To report when the session's state has changed more often than this.
    Standing {
        seen: u64,
    },
    /// To have the session to itself, and then perhaps the next.
    Turn {
        queued: bool,
        at_prompt: bool,
    },
    /// To have the shell take a command.
    Prompt,
    /// To have the shell woken, if it has lost an interrupt.
    Woken,
    /// To have this many bytes, once all of them have come, reported, typed as a secret, or typed to deliver a command.
    Sent {
        what: Sent,
        length: usize,
    },
    /// Nothing; this many bytes of a discarded text are still to come.
    Skip {
        left: u64,
    },
    /// To have `left` bytes typed, which are still to come, or have come.
    Type {
        left: u64,
        done: u64,
        held: bool,
    },
}

as_fd!(Client, stream);

impl Client {
    pub(crate) fn wants_write(&self) -> bool {
        !self.outbox.is_empty()
    }

    pub(crate) fn has_hung_up(&self) -> bool {
        self.hung_up
    }

    /// The source of its text.
    pub(crate) fn source(&self) -> InputSource {
        self.source
    }

    /// The part of its text that was received and can be typed.
    pub(crate) fn to_type(&self) -> &[u8] {
        let PendingRequest::Type { left, .. } = self.wish else { return &[] };
        &self.inbox[..self.inbox.len().min(usize::try_from(left).unwrap_or(usize::MAX))]
    }

    /// Reads the pending bytes; `false` if the client has gone for good.
    fn receive(&mut self, most: usize) -> bool {
        let mut buffer = [0; INBOX];
        let room = most.saturating_sub(self.inbox.len());
        if room == 0 {
            return true;
        }
        match self.stream.read(&mut buffer[..room]) {
            Ok(0) => self.hung_up = true,
            Ok(count) => {
                self.inbox.append(&buffer[..count]);
                // It may be a secret.
                buffer[..count].fill(0);
                std::hint::black_box(&buffer);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return false,
        }
        true
    }

    /// Sends as much as possible; `false` if the client has gone for good.
    fn send(&mut self) -> bool {
        while !self.outbox.is_empty() {
            match self.stream.write(&self.outbox) {
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.outbox = Vec::new();
        true
    }

    /// The memory used for it.
    fn kept(&self) -> usize {
        self.inbox.capacity() + self.outbox.capacity()
    }

    /// Is there no receiver for the response any more? poll(2) may not have reported it: the client may have
    /// asked and gone while we were stopped.
    fn has_left(&self) -> bool {
        self.hung_up || poll::has_left(&self.stream).unwrap_or(false)
    }

    /// Discards received bytes that must not be typed any more.
    fn skip(&mut self) {
        if let PendingRequest::Skip { left } = self.wish {
            let here = self.inbox.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.inbox.skip(here);
            let left = left - here as u64;
            self.wish = if left == 0 { PendingRequest::None } else { PendingRequest::Skip { left } };
        }
    }

    /// The next whole line of its inbox; `Err` if it can never be one.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, ()> {
        // One request after another; else unread responses would pile up. A client that waits for a change
        // may send another request instead; and one that waits for a shell gives up.
        let is_free = match self.wish {
            PendingRequest::None | PendingRequest::News { .. } | PendingRequest::Output { .. } => true,
            PendingRequest::Turn { .. } | PendingRequest::Prompt | PendingRequest::Woken => {
                self.inbox.starts_with(TOLD)
            }
            _ => false,
        };
        if !is_free || self.wants_write() {
            return Ok(None);
        }
        match memchr::memchr(b'\n', &self.inbox) {
            Some(end) => {
                let line = self.inbox[..end].to_vec();
                self.inbox.skip(end + 1);
                Ok(Some(line))
            }
            None if self.inbox.len() >= LONGEST_LINE => Err(()),
            None => Ok(None),
        }
    }
}

impl Clients {
    pub(crate) fn new(open_files: usize, admission: Admission) -> Clients {
        Clients {
            admission,
            all: Map::new(),
            most: open_files.saturating_sub(RESERVE).clamp(1, MOST),
            turns: VecDeque::new(),
            is_turn_held: false,
            asked: None,
            typists: VecDeque::new(),
            patience: Deadline::NEVER,
            last: 0,
            dawdlers: 0,
            entrance: Entrance::default(),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.all.iter().map(|(id, client)| (*id, client))
    }

    pub(crate) fn is_there(&self, id: ClientId) -> bool {
        self.all.get(&id).is_some_and(|client| !client.hung_up)
    }

    fn have_room(&self) -> bool {
        self.all.len() < self.most
    }

    /// Waits for connections, or returns the time until which none can be accepted.
    pub(crate) fn watch<'a, Event: Copy>(
        &self,
        listener: &'a UnixListener,
        poll_set: &mut PollSet<'a, Event>,
        event: Event,
    ) -> Deadline {
        if self.have_room() { self.entrance.watch(listener, poll_set, event) } else { Deadline::NEVER }
    }

    /// We read more than a line only from the client that types; and nothing more from a client that does not
    /// read our responses.
    pub(crate) fn wants_read(&self, id: ClientId, client: &Client) -> bool {
        client.inbox.len() < self.most_of(id) && !client.hung_up && client.outbox.is_empty()
    }

    fn most_of(&self, id: ClientId) -> usize {
        match self.all.get(&id).map(|client| client.wish) {
            Some(PendingRequest::Type { .. }) if self.typists.front() == Some(&id) => INBOX,
            Some(PendingRequest::Sent { length, .. }) => length,
            Some(PendingRequest::Skip { .. }) => INBOX,
            _ => LONGEST_LINE,
        }
    }

    /// The time at which the next client need not wait any longer for the present one.
    pub(crate) fn deadline(&self) -> Deadline {
        let starving = self.typist().is_some_and(|typist| typist.to_type().is_empty());
        if starving { self.patience } else { Deadline::NEVER }
    }

    /// Does the work that is due by now.
    pub(crate) fn keep_time(&mut self) {
        let due = self.patience.has_passed() && self.deadline().has_passed();
        if let Some(id) = self.typists.front().copied().filter(|_| due) {
            self.stop_typing(id);
        }
    }

    /// Accepts a connection, if it is from our own user, and not confined to write roots that do not bind us.
    pub(crate) fn welcome(&mut self, listener: &UnixListener) -> Option<ClientId> {
        let stream = self.entrance.take(listener.accept())?;
        self.let_in(stream)
    }

    fn let_in(&mut self, stream: UnixStream) -> Option<ClientId> {
        if self.admission.admit(&stream).is_err() || stream.set_nonblocking(true).is_err() {
            return None;
        }
        self.last += 1;
        let (inbox, outbox) = (Inbox::default(), Vec::new());
        let wish = PendingRequest::None;
        let client = Client {
            stream,
            inbox,
            outbox,
            wish,
            waits: false,
            integrates: false,
            types_last: false,
            source: InputSource::default(),
            hung_up: false,
            slow_since: None,
        };
        self.all.insert(ClientId(self.last), client);
        Some(ClientId(self.last))
    }

    /// Reads a client's input, and sends its pending output.
    pub(crate) fn attend(&mut self, id: ClientId) {
        let most = self.most_of(id);
        let Some(client) = self.all.get_mut(&id) else { return };
        if !client.receive(most) || !client.send() {
            self.dismiss(id);
        } else if self.typists.front() == Some(&id) {
            self.patience = Deadline::after(TYPIST_TIMEOUT);
        }
        self.bound(id);
    }

    /// Enforces the limit for all: the client that is slow since the longest time goes. A client that is
    /// being typed for has a time limit anyway.
    fn bound(&mut self, id: ClientId) {
        let Some(client) = self.all.get_mut(&id) else { return };
        if client.kept() <= LONGEST_LINE {
            client.slow_since = None;
            return;
        }
        self.dawdlers += 1;
        client.slow_since = client.slow_since.or(Some(self.dawdlers));
        while self.all.values().map(Client::kept).sum::<usize>() > MOST_KEPT {
            let typist = self.typists.front();
            let others = self.all.iter().filter(|(id, _)| Some(*id) != typist);
            let dawdler = others.filter_map(|(id, client)| Some((client.slow_since?, *id))).min();
            let Some((_, dawdler)) = dawdler else { break };
            self.dismiss(dawdler);
        }
    }

    /// Is this client still there to receive the response?
    pub(crate) fn still_wants(&mut self, id: ClientId) -> bool {
        if self.all.get(&id).is_some_and(Client::has_left) {
            self.note_left(id);
            return false;
        }
        self.all.contains_key(&id)
    }

    /// The next thing that a client asks which is the relay's to answer.
    pub(crate) fn next_request(&mut self, id: ClientId) -> Option<RelayRequest> {
        loop {
            let client = self.all.get_mut(&id)?;
            client.skip();
            if let PendingRequest::Sent { what, length } = client.wish
                && client.inbox.len() >= length
            {
                return Some(what.request(length));
            }
            match client.next_line() {
                Ok(Some(line)) => {
                    if let Some(request) = self.handle(id, &line) {
                        return Some(request);
                    }
                }
                Ok(None) => {
                    self.leave_if_done(id);
                    return None;
                }
                Err(()) => {
                    self.dismiss(id);
                    return None;
                }
            }
        }
    }

    fn handle(&mut self, id: ClientId, line: &[u8]) -> Option<RelayRequest> {
        let request = RelayRequest::decode(line);
        let client = self.all.get_mut(&id)?;
        match request {
            Some(RelayRequest::Follow { seen, as_who: Follower::Runner }) => {
                client.wish = PendingRequest::Output { seen }
            }
            Some(RelayRequest::Follow { seen, as_who }) => {
                client.wish = PendingRequest::News { seen, sized: as_who == Follower::SizedViewer };
                client.waits |= as_who == Follower::Waiter;
            }
            Some(RelayRequest::Snapshot { seen: Some(seen), waits, .. }) => {
                client.wish = PendingRequest::Standing { seen };
                client.waits |= waits;
            }
            Some(RelayRequest::Report { length }) => return self.await_sent(id, Sent::Report, length),
            Some(RelayRequest::Secret { length }) => return self.await_sent(id, Sent::Secret, length),
            Some(RelayRequest::Deliver { length }) => {
                self.asked = None;
                return self.await_sent(id, Sent::Delivery, length);
            }
            Some(RelayRequest::Turn { at_prompt }) => {
                // A client that has gone, which is not recorded yet, blocks no other.
                let is_before = |other: &ClientId| {
                    *other != id && self.all.get(other).is_some_and(|other| !other.has_left())
                };
                let queued = self.turns.iter().any(is_before);
                if let Some(client) = self.all.get_mut(&id) {
                    client.wish = PendingRequest::Turn { queued, at_prompt };
                }
                if !self.turns.contains(&id) {
                    self.turns.push_back(id);
                }
                self.give_turn();
            }
            Some(RelayRequest::Wake) => {
                if self.turn() != Some(id) {
                    self.respond(id, &Response::Refused { why: "another call has the session".into() });
                } else if let Some(client) = self.all.get_mut(&id) {
                    client.wish = PendingRequest::Woken;
                }
            }
            Some(RelayRequest::Asked(asked)) => {
                self.asked = Some(asked);
                self.respond(id, &Response::Noted);
            }
            Some(RelayRequest::Job(job)) => {
                if !matches!(job.handed, Handed::Queued | Handed::Foreign) {
                    self.asked = None;
                }
                client.integrates = job.handed == Handed::Integration;
                return Some(RelayRequest::Job(job));
            }
            Some(RelayRequest::Source(source)) => client.source = source,
            Some(RelayRequest::Type { length: 0 }) => {
                self.respond(id, &Response::Typed { count: 0, held: false })
            }
            Some(RelayRequest::Type { .. }) if client.has_left() => {
                client.hung_up = true;
                self.respond(id, &Response::Typed { count: 0, held: false });
            }
            Some(RelayRequest::Type { length: left }) => {
                client.wish = PendingRequest::Type { left, done: 0, held: false };
                self.typists.push_back(id);
                self.patience = Deadline::after(TYPIST_TIMEOUT);
            }
            Some(other) => {
                client.integrates &= other != RelayRequest::Told;
                client.types_last = matches!(other, RelayRequest::Level { .. });
                return Some(other);
            }
            None => self.respond(id, &Response::Unknown),
        }
        self.leave_if_done(id);
        None
    }

    /// The request, if all of what comes behind it has come.
    fn await_sent(&mut self, id: ClientId, what: Sent, length: u64) -> Option<RelayRequest> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > what.longest() {
            self.dismiss(id);
            return None;
        }
        let client = self.all.get_mut(&id)?;
        client.wish = PendingRequest::Sent { what, length };
        (client.inbox.len() >= length).then(|| what.request(length))
    }

    pub(crate) fn respond(&mut self, id: ClientId, response: &Response) {
        self.say(id, response.encode());
    }

    fn say(&mut self, id: ClientId, response: String) {
        let Some(client) = self.all.get_mut(&id) else { return };
        client.wish = PendingRequest::None;
        // It may be long: it stays in one piece of memory. Earlier responses have been sent, or this is the
        // report of the end, which follows one not yet sent.
        match client.outbox.is_empty() {
            true => client.outbox = response.into_bytes(),
            false => client.outbox.extend_from_slice(response.as_bytes()),
        }
        if client.send() {
            self.bound(id);
        } else {
            self.dismiss(id);
        }
    }

    /// Notifies the client that has exclusive access, unless it was notified before.
    fn give_turn(&mut self) {
        let Some(id) = self.turn().filter(|_| !self.is_turn_held) else { return };
        let wish = self.all.get(&id).map(|client| client.wish);
        let Some(PendingRequest::Turn { queued, at_prompt }) = wish else { return };
        self.respond(id, &Response::Turn { queued, asked: self.asked });
        if let Some(client) = self.all.get_mut(&id).filter(|_| at_prompt) {
            client.wish = PendingRequest::Prompt;
        }
    }

    /// What a call has typed that has left is taken back: others may have the session.
    pub(crate) fn release_turn(&mut self) {
        self.is_turn_held = false;
        self.give_turn();
    }

    /// The client that has the session to itself.
    pub(crate) fn turn(&self) -> Option<ClientId> {
        self.turns.front().copied()
    }

    /// The client that waits for the shell, and for what.
    pub(crate) fn awaits_shell(&self) -> Option<(ClientId, ShellWait)> {
        let id = self.turn()?;
        match self.all.get(&id)?.wish {
            PendingRequest::Prompt => Some((id, ShellWait::AtPrompt)),
            PendingRequest::Woken => Some((id, ShellWait::Woken)),
            _ => None,
        }
    }

    /// Reports to followers that the session has changed this many times.
    pub(crate) fn send(&mut self, changes: u64, size: SizeSince) {
        let curious = self.all.iter().filter_map(|(id, client)| match client.wish {
            PendingRequest::News { seen, sized } if seen < changes => Some((*id, sized)),
            _ => None,
        });
        let curious: Vec<(ClientId, bool)> = curious.collect();
        for (id, sized) in curious {
            self.respond(id, &Response::Changed { seen: changes, size: sized.then_some(size) });
        }
    }

    /// The clients to which their command's progress is to be reported, if the last reportable event ends at
    /// `told`. `news` is a client for which there is other news.
    pub(crate) fn awaits_output(&self, told: u64, news: Option<ClientId>) -> Vec<ClientId> {
        let curious = |(id, client): &(&ClientId, &Client)| match client.wish {
            PendingRequest::Output { seen } => seen < told || Some(**id) == news,
            _ => false,
        };
        self.all.iter().filter(curious).map(|(id, _)| *id).collect()
    }

    /// The followers to notify that the session's state has changed this many times.
    pub(crate) fn curious(&self, changes: u64) -> Vec<ClientId> {
        let wants =
            |client: &Client| matches!(client.wish, PendingRequest::Standing { seen } if seen < changes);
        self.all.iter().filter(|(_, client)| wants(client)).map(|(id, _)| *id).collect()
    }

    /// The followers of the session's state.
    pub(crate) fn audience(&self) -> Audience {
        let wishes = self.all.values().filter_map(|client| match client.wish {
            PendingRequest::Standing { seen: 0 } => Some(Audience::New),
            PendingRequest::Standing { .. } => Some(Audience::Told),
            _ => None,
        });
        wishes.max().unwrap_or(Audience::None)
    }

    /// Is a call there that waits on the session?
    pub(crate) fn wait_on_it(&self) -> bool {
        !self.turns.is_empty() || self.all.values().any(|client| client.waits)
    }

    /// Reports to followers that the session has ended, once `let_go` has made that true: a receiver may look
    /// at once. Nothing is received after that. The call that has delivered a command gets its `last` report first,
    /// whether it follows or not.
    pub(crate) fn send_end(
        &mut self,
        code: Option<i32>,
        last: Option<(ClientId, OutputReport)>,
        let_go: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let gone = let_go();
        let follows = |client: &Client| {
            matches!(
                client.wish,
                PendingRequest::News { .. } | PendingRequest::Output { .. } | PendingRequest::Standing { .. }
            )
        };
        let delivers = |id: &ClientId| last.is_some_and(|(other, _)| other == *id);
        let followers = self.all.iter().filter(|(id, client)| follows(client) && !delivers(id));
        let followers: Vec<ClientId> = followers.map(|(id, _)| *id).collect();
        let ended = Response::Ended { code };
        for id in followers {
            self.respond(id, &ended);
        }
        if let Some((id, report)) = last {
            self.say(id, Response::Output(Box::new(report)).encode() + &ended.encode());
        }
        gone
    }

    /// The client whose text is being typed.
    pub(crate) fn typist(&self) -> Option<&Client> {
        self.all.get(self.typists.front()?)
    }

    pub(crate) fn typist_id(&self) -> Option<ClientId> {
        self.typists.front().copied()
    }

    /// Has nothing of the typist's text been typed yet?
    pub(crate) fn typist_begins(&self) -> bool {
        self.typist().is_some_and(|client| matches!(client.wish, PendingRequest::Type { done: 0, .. }))
    }

    /// Notes that `count` bytes of the typist's text have been typed. Returns a client that has typed all of what
    /// integrates a shell: the shell will read it, even if the client leaves.
    pub(crate) fn note_typed(&mut self, count: usize) -> Option<ClientId> {
        let id = self.typists.front().copied()?;
        let client = self.all.get_mut(&id)?;
        let PendingRequest::Type { left, done, .. } = &mut client.wish else { return None };
        client.inbox.skip(count);
        *left -= count as u64;
        *done += count as u64;
        let (left, count) = (*left, *done);
        let has_integrated = left == 0 && client.integrates && std::mem::take(&mut client.types_last);
        if left == 0 {
            self.typists.pop_front();
            self.patience = Deadline::after(TYPIST_TIMEOUT);
            self.respond(id, &Response::Typed { count, held: false });
            self.leave_if_done(id);
        }
        has_integrated.then_some(id)
    }

    /// A client that has got its response, and has sent another request meanwhile.
    pub(crate) fn unprocessed(&self) -> Option<ClientId> {
        let asks = |client: &Client| {
            client.wish == PendingRequest::None
                && !client.wants_write()
                && memchr::memchr(b'\n', &client.inbox).is_some()
        };
        self.all.iter().find(|(_, client)| asks(client)).map(|(id, _)| *id)
    }

    /// Discards the rest of a text that is being typed.
    pub(crate) fn cut_typist(&mut self) {
        let Some(id) = self.typists.front().copied() else { return };
        let Some(client) = self.all.get(&id) else { return };
        let PendingRequest::Type { left, done: count @ 1.., .. } = client.wish else { return };
        self.typists.pop_front();
        self.respond(id, &Response::Cut { count });
        if let Some(client) = self.all.get_mut(&id) {
            client.wish = PendingRequest::Skip { left };
            client.skip();
        }
        self.leave_if_done(id);
    }

    /// Returns the received secret, report or keys, and keeps nothing of it.
    pub(crate) fn take_sent(&mut self, id: ClientId, length: u64) -> Inbox {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.all.get_mut(&id).map(|client| client.inbox.take(length)).unwrap_or_default()
    }

    /// Notes whether the typist's text is held back.
    pub(crate) fn note_held(&mut self, now: bool) {
        let Some(id) = self.typists.front() else { return };
        if let Some(PendingRequest::Type { held, .. }) = self.all.get_mut(id).map(|client| &mut client.wish) {
            *held = now;
        }
    }

    /// It has hung up, or its half: it will send no more requests, and the untyped rest of its text must not
    /// be typed.
    pub(crate) fn note_left(&mut self, id: ClientId) {
        if let Some(client) = self.all.get_mut(&id) {
            client.hung_up = true;
            self.leave_if_done(id);
        }
    }

    /// A client that has hung up only receives how much of its text was typed.
    fn leave_if_done(&mut self, id: ClientId) {
        let Some(client) = self.all.get(&id) else { return };
        if !client.hung_up {
            return;
        }
        match client.wish {
            PendingRequest::Type { .. } => self.stop_typing(id),
            _ if !client.wants_write() => self.dismiss(id),
            _ => {}
        }
    }

    /// The rest of this client's text is not typed.
    fn stop_typing(&mut self, id: ClientId) {
        if let Some(PendingRequest::Type { done: count, held, .. }) =
            self.all.get(&id).map(|client| client.wish)
        {
            self.typists.retain(|typist| *typist != id);
            self.patience = Deadline::after(TYPIST_TIMEOUT);
            self.respond(id, &Response::Typed { count, held });
            if self.all.get(&id).is_some_and(|client| !client.wants_write()) {
                self.dismiss(id);
            }
        }
    }

    fn dismiss(&mut self, id: ClientId) {
        self.is_turn_held |= self.all.remove(&id).is_some_and(|client| client.integrates);
        self.typists.retain(|typist| *typist != id);
        self.patience = Deadline::after(TYPIST_TIMEOUT);
        // There is a descriptor again.
        self.entrance = Entrance::default();
        self.turns.retain(|waiting| *waiting != id);
        self.give_turn();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that has sent these words, and the other end.
    fn come(clients: &mut Clients, words: &[u8]) -> (ClientId, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let id = clients.let_in(ours).unwrap();
        theirs.write_all(words).unwrap();
        receive(clients, id);
        (id, theirs)
    }

    /// As the relay does when there is something to read.
    fn receive(clients: &mut Clients, id: ClientId) {
        clients.attend(id);
        assert_eq!(clients.next_request(id), None);
    }

    /// The lines that it has received.
    fn told(mut theirs: &UnixStream) -> String {
        let mut said = Vec::new();
        let error = theirs.read_to_end(&mut said).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        String::from_utf8(said).unwrap()
    }

    fn clients() -> Clients {
        Clients::new(1_024, Admission::with_root(None))
    }

    #[test]
    fn nothing_more_is_read_of_one_who_does_not_take_what_we_say() {
        let mut clients = clients();
        let (id, theirs) = come(&mut clients, b"");
        let wants_read = |clients: &Clients| clients.wants_read(id, clients.all.get(&id).unwrap());
        assert!(wants_read(&clients));
        while !clients.all.get(&id).unwrap().wants_write() {
            clients.respond(id, &Response::Refused { why: "x".repeat(10_000) });
        }
        assert!(!wants_read(&clients));
        while clients.all.get(&id).unwrap().wants_write() {
            assert!(!wants_read(&clients));
            told(&theirs);
            clients.attend(id);
        }
        assert!(wants_read(&clients));
    }

    /// The next text to type, of which this many bytes are typed.
    fn type_some(clients: &mut Clients, count: usize) -> String {
        let text = String::from_utf8(clients.typist().unwrap().to_type().to_vec()).unwrap();
        clients.note_typed(count);
        text
    }

    #[test]
    fn texts_are_typed_one_after_another_each_to_its_end() {
        let mut clients = clients();
        let (_, first) = come(&mut clients, b"type 6\nabc");
        let (_, second) = come(&mut clients, b"type 2\nxykeeper\n");
        assert_eq!(told(&come(&mut clients, b"type 0\n").1), "typed 0\n");
        assert!(clients.typist_begins());
        assert_eq!(type_some(&mut clients, 2), "abc");
        assert!(!clients.typist_begins());
        assert_eq!(type_some(&mut clients, 1), "c");
        assert_eq!(type_some(&mut clients, 0), "");
        assert_eq!(told(&first), "");
        (&first).write_all(b"defghi").unwrap();
        receive(&mut clients, ClientId(1));
        assert_eq!(type_some(&mut clients, 3), "def");
        assert_eq!(told(&first), "typed 6\n");
        assert!(clients.typist_begins());
        assert_eq!(type_some(&mut clients, 2), "xy");
        assert_eq!(told(&second), "typed 2\n");
        assert!(clients.typist().is_none());
        // Bytes behind a text are a request again.
        assert_eq!(clients.next_request(ClientId(2)), Some(RelayRequest::Keeper));
    }

    #[test]
    fn a_client_with_an_unfinished_text_blocks_no_other_for_ever() {
        let mut clients = clients();
        let (dawdler, slow_since) = come(&mut clients, b"type 6\nab");
        let (_, next) = come(&mut clients, b"type 1\nx");
        // There is something to be typed: that it is not, is not its fault.
        assert_eq!(clients.deadline(), Deadline::NEVER);
        clients.patience = Deadline::after(Duration::ZERO);
        clients.keep_time();
        assert_eq!(type_some(&mut clients, 2), "ab");
        assert_eq!(clients.deadline(), clients.patience);
        clients.patience = Deadline::NEVER;
        clients.keep_time();
        assert_eq!(told(&slow_since), "");
        receive(&mut clients, dawdler);
        assert_ne!(clients.patience, Deadline::NEVER, "what is heard of it gives it time");
        clients.patience = Deadline::after(Duration::ZERO);
        clients.keep_time();
        assert_eq!(type_some(&mut clients, 1), "x");
        assert_eq!(told(&next), "typed 1\n");
        let mut told = String::new();
        (&slow_since).read_to_string(&mut told).unwrap();
        assert_eq!((told.as_str(), clients.is_there(dawdler)), ("typed 2\n", false));
    }

    #[test]
    fn an_interrupt_cuts_a_text_that_has_been_begun_and_no_other() {
        let mut clients = clients();
        let (first, begun) = come(&mut clients, b"type 6\nabcd");
        let (_, whole) = come(&mut clients, b"type 1\nx");
        clients.cut_typist();
        type_some(&mut clients, 1);
        clients.cut_typist();
        clients.cut_typist();
        assert_eq!(told(&begun), "cut 1\n");
        assert_eq!(told(&whole), "");
        // The rest of it is neither typed nor parsed as a request.
        (&begun).write_all(b"efkeeper\n").unwrap();
        clients.attend(first);
        assert_eq!(clients.next_request(first), Some(RelayRequest::Keeper));
        assert_eq!(type_some(&mut clients, 1), "x");
    }

    #[test]
    fn a_client_that_cancels_learns_how_much_was_typed() {
        let mut clients = clients();
        let (first, half) = come(&mut clients, b"type 6\nabcd");
        let (second, gone) = come(&mut clients, b"type 1\nx");
        let (_, last) = come(&mut clients, b"type 1\ny");
        type_some(&mut clients, 1);
        clients.note_held(true);
        half.shutdown(std::net::Shutdown::Write).unwrap();
        drop(gone);
        for id in [first, second] {
            clients.note_left(id);
            assert!(!clients.is_there(id));
        }
        let mut told = String::new();
        (&half).read_to_string(&mut told).unwrap();
        assert_eq!(told, "typed 1 held\n");
        assert_eq!(type_some(&mut clients, 1), "y");
        drop(last);
        assert!(clients.typist().is_none());
    }

    #[test]
    fn a_client_that_cancels_stays_until_it_has_read_its_answers() {
        let mut clients = clients();
        let (id, theirs) = come(&mut clients, b"");
        while !clients.all.get(&id).unwrap().wants_write() {
            clients.respond(id, &Response::Refused { why: "x".repeat(10_000) });
        }
        clients.note_left(id);
        assert!(clients.all.contains_key(&id) && !clients.is_there(id));
        while clients.all.get(&id).is_some_and(Client::wants_write) {
            let mut some = [0; 10_000];
            let _ = (&theirs).read(&mut some).unwrap();
            receive(&mut clients, id);
        }
        assert!(!clients.all.contains_key(&id));
    }

    #[test]
    fn the_first_of_those_that_wait_for_the_prompt_has_it() {
        let mut clients = Clients::new(1_024, Admission::with_root(None));
        let (first, one) = come(&mut clients, b"turn\n");
        let (second, two) = come(&mut clients, b"turn at-prompt\n");
        assert_eq!((told(&one), told(&two)), ("turn at-once\n".to_owned(), String::new()));
        assert_eq!(clients.awaits_shell(), None);
        drop(one);
        clients.note_left(first);
        assert_eq!(told(&two), "turn queued\n");
        assert_eq!(clients.awaits_shell(), Some((second, ShellWait::AtPrompt)));
        // It gives up: nothing else that it sends is read before its answer.
        (&two).write_all(b"told\nsnapshot 0\n").unwrap();
        clients.attend(second);
        assert_eq!(clients.next_request(second), Some(RelayRequest::Told));
        assert_eq!(clients.next_request(second), None);
        clients.respond(second, &Response::Noted);
        assert_eq!(clients.awaits_shell(), None);
    }

    #[test]
    fn the_turn_goes_round_in_the_order_of_asking() {
        let mut clients = clients();
        let (first, one) = come(&mut clients, b"turn\n");
        assert_eq!(told(&one), "turn at-once\n");
        (&one).write_all(b"asked 7 1f\n").unwrap();
        receive(&mut clients, first);
        assert_eq!(told(&one), "noted\n");
        let (second, _second) = come(&mut clients, b"turn\n");
        let (_, third) = come(&mut clients, b"turn\n");
        assert_eq!(told(&third), "");
        clients.note_left(second);
        assert_eq!(told(&third), "");
        clients.note_left(first);
        assert_eq!(told(&third), "turn queued 7 000000000000001f\n");
    }

    #[test]
    fn a_call_that_has_gone_keeps_no_other_in_the_queue() {
        let mut clients = clients();
        let (_, gone) = come(&mut clients, b"turn\n");
        drop(gone);
        let (id, next) = come(&mut clients, b"turn\n");
        clients.still_wants(ClientId::of(1));
        assert_eq!((clients.is_there(id), told(&next)), (true, "turn at-once\n".to_owned()));
    }

    #[test]
    fn a_runner_learns_of_output_that_it_has_not_read() {
        let mut clients = clients();
        let (id, runner) = come(&mut clients, b"follow 50 runs\n");
        assert_eq!(clients.awaits_output(50, None), []);
        assert_eq!(clients.awaits_output(50, Some(id)), [id]);
        assert_eq!(clients.awaits_output(80, None), [id]);
        clients.respond(id, &Response::Output(Box::default()));
        assert_eq!(told(&runner), "output stage=typed\n");
        // Its other request is answered.
        (&runner).write_all(b"follow 90 runs\nturn\n").unwrap();
        receive(&mut clients, id);
        assert_eq!(told(&runner), "turn at-once\n");
        assert_eq!(clients.awaits_output(100, Some(id)), []);
    }

    #[test]
    fn a_request_after_a_text_is_processed_when_the_text_is_typed() {
        let mut clients = clients();
        let (id, runner) = come(&mut clients, b"type 2\nabfollow 0 runs\n");
        assert_eq!(type_some(&mut clients, 2), "ab");
        assert_eq!(told(&runner), "typed 2\n");
        receive(&mut clients, id);
        assert_eq!(clients.awaits_output(5, None), [id]);
        assert_eq!(told(&runner), "");
    }

    #[test]
    fn news_is_what_has_changed_since() {
        let mut clients = clients();
        let (_, follower) = come(&mut clients, b"follow 7\n");
        let (_, sized) = come(&mut clients, b"follow 6 sized\n");
        let size = SizeSince { cols: 80, rows: 24, offset: 5 };
        clients.send(7, size);
        assert_eq!((told(&follower), told(&sized)), (String::new(), "changed 7 80 24 5\n".into()));
        clients.send(8, size);
        clients.send(9, size);
        assert_eq!((told(&follower), told(&sized)), ("changed 8\n".into(), String::new()));
    }

    #[test]
    fn a_client_that_sends_invalid_data_is_disconnected() {
        let mut clients = clients();
        let longest = [b'x'; LONGEST_LINE];
        for (words, is_there) in [
            (&longest[..LONGEST_LINE - 1], true),
            (&longest[..], false),
            (b"dance\n", true),
            (b"secret 4096\n", true),
            (b"secret 4097\n", false),
        ] {
            let (id, _theirs) = come(&mut clients, words);
            assert_eq!(clients.is_there(id), is_there, "{words:?}");
        }
    }

    #[test]
    fn a_secret_is_handed_over_when_all_of_it_has_come() {
        let mut clients = clients();
        let (id, mut theirs) = come(&mut clients, b"secret 5\nhor");
        theirs.write_all(b"se\rkeeper\n").unwrap();
        clients.attend(id);
        assert_eq!(clients.next_request(id), Some(RelayRequest::Secret { length: 5 }));
        assert_eq!(*clients.take_sent(id, 5), b"horse"[..]);
    }

    #[test]
    fn only_so_many_are_let_in_as_there_are_descriptors_for() {
        let mut clients = Clients::new(RESERVE + 2, Admission::with_root(None));
        let (first, _first) = come(&mut clients, b"");
        assert!(clients.have_room());
        let _second = come(&mut clients, b"");
        assert!(!clients.have_room());
        clients.note_left(first);
        assert!(clients.have_room());
        // None could be had: it is tried again after a while, or when a client has left.
        let folder = std::env::temp_dir().join(format!("nbs-entrance-{}", std::process::id()));
        let listener = UnixListener::bind(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        let watched = |clients: &Clients| clients.watch(&listener, &mut PollSet::new(), ());
        let none = Err::<(UnixStream, ()), _>(rustix::io::Errno::MFILE.into());
        assert!(clients.entrance.take(none).is_none());
        assert_ne!(watched(&clients), Deadline::NEVER);
        let (third, _third) = come(&mut clients, b"");
        clients.note_left(third);
        assert_eq!(watched(&clients), Deadline::NEVER);
    }

    #[test]
    fn a_follower_learns_of_the_end() {
        let mut clients = clients();
        let (_, follower) = come(&mut clients, b"follow 7\n");
        let (_, other) = come(&mut clients, b"turn\n");
        assert_eq!(told(&other), "turn at-once\n");
        let error = clients.send_end(Some(3), None, || {
            assert_eq!(told(&follower), "");
            Err(ErrorKind::StorageFull.into())
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(told(&follower), "ended 3\n");
        assert_eq!(told(&other), "");
    }
}
