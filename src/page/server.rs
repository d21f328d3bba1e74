//! The loop of the page's server, its connections and what is sent on them.
//!
//! A page that is open has one answer that does not end, to which what has changed is added
//! whenever it has taken all before. Of a page no more is remembered than up to which number it
//! has seen each session (`frame.rs`): so one that reads slowly, or sleeps, misses what was in
//! between, and costs no memory. Where no page is open, nothing is watched.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

use crate::{
    help::texts::Text,
    json::Object,
    outcome::{Result, Trying},
    page::{
        frame::Numbers,
        guard::{self, Token},
        http::{self, BAD, GONE, JSON, NOT_ALLOWED, NOT_FOUND, Refusal, Request, UNAVAILABLE},
        tile::Tile,
    },
    session::{Glance, Handle, Roster, RosterEvent, RosterNews, StateDir, Target},
    sorted::Set,
    sys::{deadline::Deadline, poll::PollSet, random, signals::Signals, socket},
};

// Without comments and indentation (`build.rs`).
const INDEX: Text = Text::of("page/index.html");
const STYLE: Text = Text::of("page/page.css");
const SCRIPT: Text = Text::of("page/page.js");

/// A browser has six for a page.
const MOST_CONNECTIONS: usize = 128;
/// Of those, pages that are open.
const MOST_STREAMS: usize = 48;

/// How long a request may take to come, and an answer to be taken: whoever is slower is
/// another's fault, and holds up nobody.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection is kept for the next request.
const IDLE: Duration = Duration::from_secs(60);

/// How long, and how far, one is read that we have done with: what is closed with something
/// unread is reset, and then the last answer may be lost (RFC 9112, 9.6).
const FAREWELL: Duration = Duration::from_secs(2);
const UNWANTED: usize = 256 * 1024;

/// To a page so much is sent at once, and then no more until it is taken.
const AT_ONCE: usize = 128 * 1024;

/// How often a screen is looked at: one that is large, one on the wall, and one that nobody
/// sees.
const LARGE: Duration = Duration::from_millis(10);
const ON_THE_WALL: Duration = Duration::from_millis(200);
const UNSEEN: Duration = Duration::from_secs(1);

/// So many times longer than a look at the wall took, there is none: all of them together take
/// a twelfth of a core.
const REST: u32 = 11;

/// How long to look at screens before whoever types is heard.
const SLICE: Duration = Duration::from_millis(10);

/// Screens that are kept in memory, each of some megabytes at most; others are on the disk.
const MOST_SCREENS: usize = 32;

/// Sessions that have ended are shown, the newest so many.
const MOST_DEAD: usize = 60;

/// How many lines that have scrolled off are shown.
const SCROLLBACK: usize = 2_000;

/// Serves pages until a signal says that it is enough.
pub(crate) fn serve(
    state_dir: &StateDir,
    listener: &TcpListener,
    token: Token,
    ending: &mut Signals,
) -> Result<()> {
    let what = "serve the page";
    let mut server = Server {
        state_dir,
        address: listener.local_addr().trying(what)?,
        token,
        epoch: random::hex::<8>().trying(what)?,
        numbers: Numbers::default(),
        tiles: Vec::new(),
        keys: Numbers::default(),
        connections: Vec::new(),
        roster: None,
        wall: Deadline::after(Duration::ZERO),
        accepting: Deadline::after(Duration::ZERO),
    };
    while !server.turn(listener, ending)? {}
    Ok(())
}

struct Server<'a> {
    state_dir: &'a StateDir,
    address: SocketAddr,
    token: Token,
    /// Another process has other numbers.
    epoch: String,
    numbers: Numbers,
    /// In the order of their keys.
    tiles: Vec<Tile>,
    keys: Numbers,
    connections: Vec<Connection>,
    /// Who tells what the sessions do, while a page is open.
    roster: Option<Roster>,
    /// When the next screen of the wall may be looked at.
    wall: Deadline,
    /// When the next connection may be taken.
    accepting: Deadline,
}

#[derive(Clone, Copy)]
enum Event {
    Ending,
    Connected,
    Roster(RosterEvent),
    /// Of the connection of that index.
    Connection(usize),
    /// Of the tile of that index.
    News(usize),
    Typed(usize),
}

/// What a connection is for at the moment.
enum Phase {
    /// A request is to come, or to come to its end.
    Asked,
    /// It is being answered.
    Answering,
    Stream(Stream),
    /// The last answer has been sent; so much that came since was not wanted.
    Leaving(usize),
    Over,
}

struct Connection {
    stream: TcpStream,
    phase: Phase,
    /// What has come and is not dealt with.
    inbox: Vec<u8>,
    /// What is to be sent, and how much of it has been.
    outbox: Vec<u8>,
    sent: usize,
    closes: bool,
    deadline: Deadline,
}

/// A page that is open.
struct Stream {
    /// The session that is shown large; the screens of others are not.
    focus: Option<Handle>,
    /// What it has seen of each session, by their keys.
    seen: Vec<Seen>,
    /// It has seen all there was up to that number, before we knew of it.
    since: u64,
    greeted: bool,
}

struct Seen {
    key: u64,
    handle: Handle,
    number: u64,
}

impl Server<'_> {
    /// Waits for something, and does what there is to do; `true` when it is over.
    fn turn(&mut self, listener: &TcpListener, ending: &mut Signals) -> Result<bool> {
        let mut poll_set = PollSet::new();
        let mut deadline = Deadline::NEVER;
        poll_set.readable(ending, Event::Ending);
        if self.accepting.has_passed() {
            poll_set.readable(listener, Event::Connected);
        } else {
            deadline = self.accepting;
        }
        if let Some(roster) = &self.roster {
            roster.watch(&mut poll_set, Event::Roster);
        }
        for (index, connection) in self.connections.iter().enumerate() {
            let (reads, writes) = (connection.reads(), connection.sent < connection.outbox.len());
            poll_set.peer(&connection.stream, reads, writes, Event::Connection(index), None);
            deadline = deadline.min(connection.deadline);
        }
        for (index, tile) in self.tiles.iter().enumerate() {
            if let Some(news) = tile.news() {
                poll_set.readable(news, Event::News(index));
            }
            if let Some(typed) = tile.typed() {
                poll_set.readable(typed, Event::Typed(index));
            }
        }
        let events = poll_set.wait(deadline.min(self.next_look())).trying("serve the page")?;
        let mut connected = false;
        for event in events {
            match event {
                Event::Ending => {
                    ending.take();
                    return Ok(true);
                }
                // It changes what the others are the indices of.
                Event::Connected => connected = true,
                Event::Roster(event) => self.roster.iter_mut().for_each(|roster| roster.note(event)),
                Event::Connection(index) => self.go_on(index),
                Event::News(index) => self.tiles[index].hear_news(),
                Event::Typed(index) => self.tiles[index].hear_typed(),
            }
        }
        self.watch_or_rest()?;
        self.take_news()?;
        self.look();
        self.tell();
        if connected {
            self.accept(listener);
        }
        for connection in &mut self.connections {
            connection.expire();
        }
        self.connections.retain(|connection| !matches!(connection.phase, Phase::Over));
        self.watch_or_rest()?;
        Ok(false)
    }

    fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.connections.iter().filter_map(|connection| match &connection.phase {
            Phase::Stream(stream) => Some(stream),
            _ => None,
        })
    }

    /// Follows the sessions while somebody looks, and only then.
    fn watch_or_rest(&mut self) -> Result<()> {
        let watched = self.streams().next().is_some();
        if watched && self.roster.is_none() {
            let (roster, glances) = Roster::begin(self.state_dir, None)?;
            self.roster = Some(roster);
            self.take_all(glances);
        }
        if !watched && self.roster.is_some() {
            self.roster = None;
            self.tiles.iter_mut().for_each(Tile::rest);
        }
        Ok(())
    }

    /// Has those that there are, and no others.
    fn take_all(&mut self, glances: Vec<Glance>) {
        let (mut alive, mut dead) = (Set::new(), Set::new());
        for glance in &glances {
            let those = if glance.alive { &mut alive } else { &mut dead };
            those.insert(glance.handle.clone());
        }
        self.tiles.retain_mut(|tile| {
            let is_dead = dead.remove(&tile.handle);
            if is_dead && tile.is_alive() {
                tile.end(self.state_dir);
            }
            is_dead || alive.remove(&tile.handle)
        });
        // What is left is new.
        // They come in the order in which they were started.
        let mut surplus = glances.iter().filter(|glance| !glance.alive).count().saturating_sub(MOST_DEAD);
        for glance in glances {
            let is_old = surplus > 0 && !glance.alive;
            surplus -= usize::from(is_old);
            if !is_old && (alive.contains(&glance.handle) || dead.contains(&glance.handle)) {
                self.tiles.push(Tile::new(self.keys.next(), glance));
            }
        }
        self.tiles.iter_mut().for_each(|tile| tile.watch(self.state_dir));
        self.leave_out_old();
    }

    /// Takes what has become known of the sessions.
    fn take_news(&mut self) -> Result<()> {
        let Server { roster, state_dir, tiles, keys, .. } = self;
        let Some(roster) = roster else { return Ok(()) };
        let mut ended = false;
        let mut of = |tiles: &mut Vec<Tile>, handle: &Handle| -> Option<usize> {
            let at = tiles.iter().position(|tile| tile.handle == *handle);
            at.or_else(|| {
                let session = state_dir.session(&Target::Handle(handle.clone())).ok()?;
                let mut tile = Tile::new(keys.next(), Glance::at(&session)?);
                tile.watch(state_dir);
                tiles.push(tile);
                Some(tiles.len() - 1)
            })
        };
        roster.take_news(state_dir, &mut |news| match news {
            RosterNews::Told(session, told) => {
                if let Some(at) = of(tiles, session.handle()) {
                    tiles[at].hear_standing(told);
                }
            }
            RosterNews::Ended(handle) => {
                ended = true;
                if let Some(at) = of(tiles, &handle) {
                    tiles[at].end(state_dir);
                }
            }
            RosterNews::Removed(handle) => tiles.retain(|tile| tile.handle != handle),
        })?;
        if ended {
            self.leave_out_old();
        }
        Ok(())
    }

    /// Of those that have ended only the newest are shown.
    fn leave_out_old(&mut self) {
        let mut ends: Vec<_> = self.tiles.iter().filter(|tile| !tile.is_alive()).map(Tile::ended).collect();
        let mut surplus = ends.len().saturating_sub(MOST_DEAD);
        ends.sort_unstable();
        let Some(last) = surplus.checked_sub(1).map(|last| ends[last]) else { return };
        self.tiles.retain(|tile| {
            let is_old = surplus > 0 && !tile.is_alive() && tile.ended() <= last;
            surplus -= usize::from(is_old);
            !is_old
        });
    }

    fn accept(&mut self, listener: &TcpListener) {
        loop {
            match socket::accept(listener) {
                Ok(Some(stream)) => {
                    self.make_room();
                    self.connections.push(Connection::new(stream));
                }
                Ok(None) => return,
                // There are no more descriptors, most likely: some will be free.
                Err(_) => {
                    self.accepting = Deadline::after(Duration::from_secs(1));
                    return;
                }
            }
        }
    }

    /// Where there are too many connections, one goes that is no open page: the one that has
    /// the least time left.
    fn make_room(&mut self) {
        if self.connections.len() < MOST_CONNECTIONS {
            return;
        }
        let others = self.connections.iter().enumerate();
        let others = others.filter(|(_, connection)| !matches!(connection.phase, Phase::Stream(_)));
        if let Some((index, _)) = others.min_by_key(|(_, connection)| connection.deadline.remaining()) {
            self.connections.remove(index);
        }
    }

    /// Goes on with a connection that can be read or written.
    fn go_on(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.read();
        connection.write();
        while let Some((request, body)) = self.connections[index].request() {
            let answer = self.answer(&request, &body);
            let connection = &mut self.connections[index];
            connection.closes |= request.closes;
            match answer {
                Ok(Answer::Whole(bytes)) => connection.answer(bytes),
                Ok(Answer::Done) => connection.answer(http::done(connection.closes)),
                Ok(Answer::Stream(stream)) => connection.stream_from(stream),
                Err(refusal) => connection.answer(http::refused(refusal, connection.closes)),
            }
            connection.write();
        }
    }

    fn answer(&mut self, request: &Request, body: &[u8]) -> std::result::Result<Answer, Refusal> {
        guard::check_host(request, self.address)?;
        let file = match &*request.path {
            "/" => Some(("text/html; charset=utf-8", INDEX)),
            "/page.css" => Some(("text/css; charset=utf-8", STYLE)),
            "/page.js" => Some(("text/javascript; charset=utf-8", SCRIPT)),
            _ => None,
        };
        // They are the same for everybody, and tell nothing; a link to them may be anywhere.
        if let Some((kind, content)) = file {
            if request.method != "GET" {
                return Err(NOT_ALLOWED);
            }
            return Ok(Answer::Whole(http::answer("200 OK", kind, content.get(), request.closes)));
        }
        guard::check_site(request)?;
        self.look_at_token();
        guard::check_token(request, &self.token)?;
        let path: Vec<&str> = request.path.split('/').collect();
        match (&*request.method, &path[..]) {
            ("GET", ["", "events"]) => self.open_page(request),
            ("GET", ["", "sessions", handle, "scrollback"]) => {
                let state_dir = self.state_dir;
                let lines = self.tile(handle)?.scrollback(state_dir, SCROLLBACK).map_err(|_| NOT_FOUND)?;
                Ok(Answer::Whole(http::answer("200 OK", JSON, &lines, request.closes)))
            }
            ("POST", ["", "sessions", handle, what]) => self.act(handle, what, body),
            (_, ["", "events"] | ["", "sessions", _, _]) => Err(NOT_ALLOWED),
            _ => Err(NOT_FOUND),
        }
    }

    fn tile(&mut self, handle: &str) -> std::result::Result<&mut Tile, Refusal> {
        self.tiles.iter_mut().find(|tile| tile.handle.as_str() == handle).ok_or(NOT_FOUND)
    }

    /// Types something.
    fn act(&mut self, handle: &str, what: &str, body: &[u8]) -> std::result::Result<Answer, Refusal> {
        let state_dir = self.state_dir;
        let text = std::str::from_utf8(body).map_err(|_| BAD)?;
        let tile = self.tile(handle)?;
        if !tile.is_alive() {
            return Err(GONE);
        }
        match what {
            "line" => tile.type_text(state_dir, &[body, b"\r"].concat())?,
            "text" => tile.type_text(state_dir, body)?,
            "paste" => tile.paste(state_dir, text)?,
            "keys" => tile.press(state_dir, text)?,
            "secret" => {
                let typed = tile.type_secret(state_dir, body)?;
                let typed = Object::new().truth("typed", typed).line();
                return Ok(Answer::Whole(http::answer("200 OK", JSON, &typed, false)));
            }
            _ => return Err(NOT_FOUND),
        }
        Ok(Answer::Done)
    }

    fn open_page(&mut self, request: &Request) -> std::result::Result<Answer, Refusal> {
        if self.streams().count() >= MOST_STREAMS {
            return Err(UNAVAILABLE);
        }
        let focus = match request.asked("focus") {
            Some(handle) => Some(Handle::parse(handle.as_bytes()).ok_or(BAD)?),
            None => None,
        };
        let since = request.last_event_id.as_deref().or(request.asked("since"));
        let since = since.and_then(|id| id.strip_prefix(&*self.epoch)?.strip_prefix('-')?.parse().ok());
        let since = since.filter(|since| *since <= self.numbers.last()).unwrap_or(0);
        Ok(Answer::Stream(Stream { focus, seen: Vec::new(), since, greeted: false }))
    }

    /// Whoever has another token than the one in the state folder is shut out.
    fn look_at_token(&mut self) {
        if !self.token.holds(self.state_dir)
            && let Ok(token) = Token::of(self.state_dir, false)
        {
            self.token = token;
            for connection in &mut self.connections {
                if matches!(connection.phase, Phase::Stream(_)) {
                    connection.phase = Phase::Over;
                }
            }
        }
    }

    /// Who looks at a session: a large one is in front of somebody.
    fn view(&self) -> View {
        let focused = self.streams().filter_map(|stream| stream.focus.clone()).collect();
        View { wall: self.streams().any(|stream| stream.focus.is_none()), focused }
    }

    fn next_look(&self) -> Deadline {
        let view = self.view();
        let mut next = Deadline::NEVER;
        if self.roster.is_none() {
            return next;
        }
        for tile in &self.tiles {
            let (large, screen) = view.of(tile);
            match tile.due(screen) {
                Some(_) if screen && !large && !tile.is_new() && !self.wall.has_passed() => {
                    next = next.min(self.wall)
                }
                Some(due) => next = next.min(due),
                None => {}
            }
        }
        next
    }

    /// Looks at those sessions at which it is time to.
    fn look(&mut self) {
        if self.roster.is_none() {
            return;
        }
        let view = self.view();
        let begun = Instant::now();
        let rests = !self.wall.has_passed();
        let is_due = |tile: &Tile| {
            let (large, screen) = view.of(tile);
            let waits = rests && screen && !large && !tile.is_new();
            !waits && tile.due(screen).is_some_and(Deadline::has_passed)
        };
        let mut spent = Duration::ZERO;
        while begun.elapsed() <= SLICE {
            // Large ones first, and then those that were looked at longest ago.
            let due = (0..self.tiles.len()).filter(|at| is_due(&self.tiles[*at]));
            let next = due.min_by_key(|at| (!view.of(&self.tiles[*at]).0, self.tiles[*at].looked()));
            let Some(at) = next else { break };
            let tile = &mut self.tiles[at];
            let (large, screen) = view.of(tile);
            let pause = match (large, screen) {
                (true, _) => LARGE,
                (_, true) => ON_THE_WALL,
                _ => UNSEEN,
            };
            let look = Instant::now();
            if !tile.look(self.state_dir, &mut self.numbers, screen, pause) {
                self.tiles.remove(at);
            }
            if !large {
                spent += look.elapsed();
            }
        }
        if !spent.is_zero() {
            self.wall = Deadline::after(spent * REST);
        }
        while self.tiles.iter().filter(|tile| tile.has_screen()).count() > MOST_SCREENS {
            let kept = self.tiles.iter_mut().filter(|tile| tile.has_screen());
            let Some(oldest) = kept.min_by_key(|tile| tile.looked()) else { break };
            oldest.forget(self.state_dir);
        }
    }

    /// Sends the pages what they have not seen, if they have taken what was before.
    fn tell(&mut self) {
        // Before it is known which there are, a page would be told that there are none.
        if self.roster.is_none() {
            return;
        }
        let news = self.connections.iter().any(|connection| self.owes(connection));
        if !news {
            return;
        }
        self.look_at_token();
        let Server { connections, tiles, numbers, epoch, .. } = self;
        for connection in connections {
            let Phase::Stream(stream) = &mut connection.phase else { continue };
            if connection.outbox.is_empty() {
                stream.tell(tiles, numbers.last(), epoch, &mut connection.outbox);
                connection.write();
            }
        }
    }

    /// Is there something to be told on a connection that could be told now?
    fn owes(&self, connection: &Connection) -> bool {
        let Phase::Stream(stream) = &connection.phase else { return false };
        connection.outbox.is_empty() && (!stream.greeted || stream.lacks(&self.tiles))
    }
}

struct View {
    wall: bool,
    focused: Vec<Handle>,
}

impl View {
    /// Is it shown large, and is its screen shown at all?
    fn of(&self, tile: &Tile) -> (bool, bool) {
        let large = self.focused.contains(&tile.handle);
        (large, large || self.wall)
    }
}

enum Answer {
    Whole(Vec<u8>),
    Done,
    Stream(Stream),
}

impl Stream {
    fn shows(&self, tile: &Tile) -> bool {
        self.focus.as_ref().is_none_or(|focus| *focus == tile.handle)
    }

    fn seen(&self, tile: &Tile) -> Option<usize> {
        self.seen.binary_search_by_key(&tile.key, |seen| seen.key).ok()
    }

    fn lacks(&self, tiles: &[Tile]) -> bool {
        let is_news = |tile: &Tile| {
            self.seen(tile).is_none_or(|at| tile.number(self.shows(tile)) > self.seen[at].number)
        };
        // As many, and none that is new: the same.
        tiles.iter().any(is_news) || tiles.len() != self.seen.len()
    }

    /// Adds to `out` what it has not seen, or some of it, and with the last of that the number
    /// up to which it has seen all.
    fn tell(&mut self, tiles: &[Tile], last: u64, epoch: &str, out: &mut Vec<u8>) {
        if !self.greeted {
            // Whatever else it has is gone.
            let handles: Vec<Vec<u8>> = tiles.iter().map(|tile| tile.handle.as_str().into()).collect();
            say(out, Object::new().list("sessions", &handles));
            self.greeted = true;
        }
        self.seen.retain(|seen| {
            let is_there = tiles.binary_search_by_key(&seen.key, |tile| tile.key).is_ok();
            if !is_there {
                say(out, Object::new().text("gone", seen.handle.as_str()));
            }
            is_there
        });
        for tile in tiles {
            let (at, shows) = (self.seen(tile), self.shows(tile));
            let number = at.map_or(self.since, |at| self.seen[at].number);
            if tile.number(shows) > number {
                say(out, tile.object(number, shows));
            }
            match at {
                Some(at) => self.seen[at].number = last,
                None => self.seen.push(Seen { key: tile.key, handle: tile.handle.clone(), number: last }),
            }
            if out.len() > AT_ONCE {
                return;
            }
        }
        out.extend_from_slice(format!("id: {epoch}-{last}\ndata: {{}}\n\n").as_bytes());
    }
}

fn say(out: &mut Vec<u8>, object: Object) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(object.value().as_bytes());
    out.extend_from_slice(b"\n\n");
}

impl Connection {
    fn new(stream: TcpStream) -> Connection {
        Connection {
            stream,
            phase: Phase::Asked,
            inbox: Vec::new(),
            outbox: Vec::new(),
            sent: 0,
            closes: false,
            deadline: Deadline::after(PATIENCE),
        }
    }

    /// Of one that is being answered no more is read; of an open page its end.
    fn reads(&self) -> bool {
        !matches!(self.phase, Phase::Answering)
    }

    fn read(&mut self) {
        let mut buffer = [0; 16 * 1024];
        while self.reads() {
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.phase = Phase::Over;
                    return;
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.phase = Phase::Over;
                    return;
                }
            };
            match &mut self.phase {
                Phase::Asked => {
                    if self.inbox.is_empty() {
                        self.deadline = Deadline::after(PATIENCE);
                    }
                    self.inbox.extend_from_slice(&buffer[..count]);
                    if self.inbox.len() >= http::LONGEST_HEAD + http::LONGEST_BODY {
                        return;
                    }
                }
                Phase::Leaving(unwanted) => {
                    *unwanted += count;
                    if *unwanted > UNWANTED {
                        self.phase = Phase::Over;
                        return;
                    }
                }
                // An open page has nothing more to ask here.
                Phase::Stream(_) | Phase::Answering | Phase::Over => {
                    self.phase = Phase::Over;
                    return;
                }
            }
        }
    }

    /// The next request, if it is there with its body; one that is none is answered at once.
    fn request(&mut self) -> Option<(Request, Vec<u8>)> {
        if !matches!(self.phase, Phase::Asked) {
            return None;
        }
        match http::parse(&self.inbox) {
            Ok(Some((request, head))) if self.inbox.len() >= head + request.length => {
                let rest = self.inbox.split_off(head + request.length);
                let body = std::mem::replace(&mut self.inbox, rest).split_off(head);
                Some((request, body))
            }
            Ok(_) => None,
            Err(refusal) => {
                self.closes = true;
                self.answer(http::refused(refusal, true));
                self.write();
                None
            }
        }
    }

    fn answer(&mut self, bytes: Vec<u8>) {
        (self.outbox, self.sent) = (bytes, 0);
        self.phase = Phase::Answering;
        self.deadline = Deadline::after(PATIENCE);
    }

    fn stream_from(&mut self, stream: Stream) {
        (self.outbox, self.sent) = (http::stream(), 0);
        self.phase = Phase::Stream(stream);
        // It may sleep.
        self.deadline = Deadline::NEVER;
    }

    /// Sends what the client takes at once.
    fn write(&mut self) {
        while self.sent < self.outbox.len() {
            match self.stream.write(&self.outbox[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.phase = Phase::Over;
                    return;
                }
            }
        }
        (self.outbox, self.sent) = (Vec::new(), 0);
        if matches!(self.phase, Phase::Answering) {
            if self.closes {
                self.phase = match self.stream.shutdown(Shutdown::Write) {
                    Ok(()) => Phase::Leaving(0),
                    Err(_) => Phase::Over,
                };
                self.deadline = Deadline::after(FAREWELL);
            } else {
                self.phase = Phase::Asked;
                self.deadline = Deadline::after(if self.inbox.is_empty() { IDLE } else { PATIENCE });
            }
        }
    }

    fn expire(&mut self) {
        if self.deadline.has_passed() {
            self.phase = Phase::Over;
        }
    }
}
