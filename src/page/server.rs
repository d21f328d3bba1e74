//! The loop of the page's server, its connections and its answers.
//!
//! An open page has one answer that does not end. The server adds changes to it whenever the page has
//! read everything before (`stream.rs`). So a page that reads slowly or sleeps gets only the last state of
//! what changed meanwhile, and costs no memory. Without an open page, the server watches no session and
//! calls no machine.
//!
//! The same loop sends the sessions of this machine to another machine's page (`feed.rs`).

use std::{
    net::{SocketAddr, TcpListener},
    time::{Duration, Instant},
};

use crate::{
    feed::{Feed, FeedEvent, FeedNews},
    help::texts::Text,
    jail::Admission,
    json::Object,
    machine::name::MachineName,
    numbers,
    outcome::{Result, Trying},
    page::{
        collected_call::CollectedCall,
        connection::{Connection, ELSEWHERE, Phase},
        far::{Done, Machine},
        feed::PageFeed,
        forwards::Forwards,
        guard::{self, Token},
        http::{
            self, BAD_BODY, BAD_PORT, GONE, HttpError, HttpRequest, JSON, NOT_ALLOWED, NOT_FOUND,
            UNAUTHORIZED, UNAVAILABLE,
        },
        secret,
        stream::{Entry, Stream, View},
        tile::Tile,
        versioned_screen::Numbers,
    },
    session::{Activity, ActivityView, StateDir},
    sorted::Set,
    sys::{
        deadline::Deadline,
        poll::PollSet,
        random,
        signals::Signals,
        socket::{self, Entrance},
    },
};

// Without comments and indentation (`build.rs`).
const INDEX: Text = Text::of("page/index.html");
const STYLE: Text = Text::of("page/page.css");
const SCRIPT: Text = Text::of("page/page.js");

/// A browser has six for a page.
const MOST_CONNECTIONS: usize = 128;
/// The most open pages among the connections.
const MOST_STREAMS: usize = 48;

/// The interval between updates of a screen: one that is large, one on the wall, and one that is not
/// visible.
const LARGE: Duration = Duration::from_millis(10);
const ON_THE_WALL: Duration = Duration::from_millis(200);
const UNSEEN: Duration = Duration::from_secs(1);

/// The pause after an update of the wall, as a multiple of the update's time. So all updates together
/// take a twelfth of a core.
const REST: u32 = 11;

/// The longest time for updates before we check for input.
const SLICE: Duration = Duration::from_millis(10);

/// Screens that are kept in memory, each of some megabytes at most; others are on the disk.
const MOST_SCREENS: usize = 32;

/// The most ended sessions that are shown, the newest first.
const MOST_DEAD: usize = 60;

/// How many lines that have scrolled off are shown.
const SCROLLBACK: usize = 2_000;

/// How long a call waits for a program, less than a browser waits for us.
const TYPING_TIMEOUT: &str = "--timeout=60";

/// The listening socket of the page, with its token.
pub(crate) struct PageListener {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) token: Token,
}

/// Serves pages until a signal says that it is enough: of these machines, `None` being this one.
pub(crate) fn serve(
    state_dir: &StateDir,
    door: PageListener,
    machines: Vec<Option<MachineName>>,
    ending: &mut Signals,
) -> Result<()> {
    let mut server = Server::new(state_dir)?;
    server.door = Some(door);
    server.is_here = machines.contains(&None);
    let machines = machines.into_iter().flatten();
    server.machines = machines.map(|name| Machine::new(name, server.keys.next())).collect();
    while !server.turn(ending)? {}
    Ok(())
}

/// Sends the sessions of this machine to another machine's page, by our standard input and output.
pub(crate) fn feed(state_dir: &StateDir, ending: &mut Signals) -> Result<()> {
    let mut server = Server::new(state_dir)?;
    server.feed = Some(PageFeed::new().trying("send the sessions")?);
    // The first requests can be read now.
    server.watch_or_rest()?;
    while !server.turn(ending)? {}
    Ok(())
}

struct Server<'a> {
    state_dir: &'a StateDir,
    door: Option<PageListener>,
    feed: Option<PageFeed>,
    /// Another process has other numbers.
    epoch: String,
    numbers: Numbers,
    /// Those here, in the order of their keys.
    tiles: Vec<Tile>,
    machines: Vec<Machine>,
    keys: Numbers,
    connections: Vec<Connection>,
    /// Calls that type lines, and the numbers of the requests that wait for them.
    calls: Vec<(u64, CollectedCall)>,
    /// Ports of other machines.
    forwards: Forwards,
    /// Are those here shown?
    is_here: bool,
    /// A page is open.
    is_watched: bool,
    /// Reports the activity of sessions here, while a page is open.
    sessions: Option<Feed>,
    /// The time at which the next screen of the wall may be updated.
    wall: Deadline,
    entrance: Entrance,
    admission: Admission,
}

#[derive(Clone, Copy)]
enum Event {
    Ending,
    Connected,
    Sessions(FeedEvent),
    Feed,
    /// An event of the machine with that index.
    Machine(usize),
    /// An event of the connection with that index.
    Connection(usize),
    /// An event of the tile with that index.
    News(usize),
    Typed(usize),
    Called,
}

impl<'a> Server<'a> {
    fn new(state_dir: &'a StateDir) -> Result<Server<'a>> {
        Ok(Server {
            state_dir,
            door: None,
            feed: None,
            epoch: random::hex::<8>().trying("serve the page")?,
            numbers: Numbers::default(),
            tiles: Vec::new(),
            machines: Vec::new(),
            keys: Numbers::default(),
            connections: Vec::new(),
            calls: Vec::new(),
            forwards: Forwards::default(),
            is_here: true,
            is_watched: false,
            sessions: None,
            wall: Deadline::after(Duration::ZERO),
            entrance: Entrance::default(),
            admission: Admission::new(None),
        })
    }

    /// Waits for something, and does what there is to do; `true` when it is over.
    fn turn(&mut self, ending: &mut Signals) -> Result<bool> {
        let mut poll_set = PollSet::new();
        let mut deadline = Deadline::NEVER;
        poll_set.readable(ending, Event::Ending);
        if let Some(door) = &self.door {
            deadline = self.entrance.watch(&door.listener, &mut poll_set, Event::Connected);
        }
        if let Some(feed) = &self.feed {
            feed.watch(&mut poll_set, Event::Feed);
        }
        for (index, machine) in self.machines.iter().enumerate() {
            machine.watch(&mut poll_set, Event::Machine(index));
            deadline = deadline.min(machine.deadline());
        }
        if let Some(sessions) = &self.sessions {
            sessions.watch(&mut poll_set, Event::Sessions);
            deadline = deadline.min(sessions.deadline());
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
        self.calls.iter().for_each(|(_, call)| call.watch(&mut poll_set, Event::Called));
        self.forwards.watch(&mut poll_set, Event::Called);
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
                Event::Feed => self.handle_feed(),
                Event::Machine(index) => self.machines[index].note(),
                Event::Sessions(event) => self.sessions.iter_mut().for_each(|sessions| sessions.note(event)),
                Event::Connection(index) => self.go_on(index),
                Event::News(index) => self.tiles[index].receive_news(),
                Event::Typed(index) => self.tiles[index].receive_typed(),
                Event::Called => {}
            }
        }
        self.drive_calls();
        self.watch_or_rest()?;
        self.drive_machines();
        self.take_news()?;
        self.look();
        self.send();
        if connected {
            self.accept();
        }
        for index in 0..self.connections.len() {
            if self.connections[index].expire() {
                self.go_on(index);
            }
        }
        self.connections.retain(|connection| !matches!(connection.phase, Phase::Over));
        self.watch_or_rest()?;
        Ok(self.feed.as_ref().is_some_and(|feed| feed.is_over))
    }

    fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.connections.iter().filter_map(|connection| match &connection.phase {
            Phase::Stream(stream) => Some(stream),
            _ => None,
        })
    }

    /// Follows the sessions only while a page is open.
    fn watch_or_rest(&mut self) -> Result<()> {
        let is_watched = self.feed.is_some() || self.streams().next().is_some();
        if is_watched && !self.is_watched {
            if self.is_here {
                let (sessions, there_are) = Feed::begin(self.state_dir, None, &[None])?;
                self.sessions = Some(sessions);
                self.take_all(there_are);
            }
            self.machines.iter_mut().for_each(Machine::begin);
        }
        if !is_watched && self.is_watched {
            self.sessions = None;
            self.tiles.iter_mut().for_each(Tile::rest);
            self.machines.iter_mut().for_each(Machine::rest);
        }
        self.is_watched = is_watched;
        Ok(())
    }

    /// Tells the machines which sessions are shown, receives their messages, and passes on results.
    fn drive_machines(&mut self) {
        if self.machines.is_empty() {
            return;
        }
        let view = self.view();
        let mut done = Vec::new();
        let awaited = |number: u64| self.connections.iter().any(|connection| connection.awaits(number));
        for machine in &mut self.machines {
            machine.forget_but(awaited);
            machine.drive(&view, &mut self.keys, &mut self.numbers);
            done.extend(machine.done());
        }
        done.into_iter().for_each(|(number, what)| self.respond(number, what));
    }

    /// Passes on what came of a request that had to wait.
    fn respond(&mut self, number: u64, what: Done) {
        if let Some(feed) = &mut self.feed {
            feed.answer(number, what);
        } else if let Some(index) = self.connections.iter().position(|connection| connection.awaits(number)) {
            let connection = &mut self.connections[index];
            connection.answer(whole(what, connection.closes));
            self.go_on(index);
        }
    }

    /// Answers the requests that waited for calls.
    fn drive_calls(&mut self) {
        let mut done = Vec::new();
        self.calls.retain_mut(|(number, call)| {
            let code = call.drive();
            done.extend(code.map(|code| (*number, Ok((code != 0).then(|| call.failure())))));
            code.is_none()
        });
        done.extend(self.forwards.drive());
        done.into_iter().for_each(|(number, what)| self.respond(number, what));
    }

    /// Does what another machine's page wants.
    fn handle_feed(&mut self) {
        let orders = self.feed.as_mut().map(PageFeed::receive).unwrap_or_default();
        for order in orders {
            let text = |name: &str| order[name].as_str().unwrap_or_default();
            if let Some(number) = order["ask"].as_u64() {
                let done = self.do_here(number, text("handle"), text("what"), text("body"));
                match done {
                    Ok(Answer::Done(done)) => self.respond(number, Ok(done)),
                    Ok(_) => {}
                    Err(refusal) => self.respond(number, Err(refusal)),
                }
            } else if let Some(feed) = &mut self.feed {
                feed.view = View::parse(&order);
            }
        }
    }

    /// Has those that there are, and no others.
    fn take_all(&mut self, there_are: Vec<ActivityView>) {
        let (mut alive, mut dead) = (Set::new(), Set::new());
        for ActivityView { glance, .. } in &there_are {
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
        // The rest are new sessions, in the order of their start.
        let count = there_are.iter().filter(|overview| !overview.glance.alive).count();
        let mut surplus = count.saturating_sub(MOST_DEAD);
        for overview in there_are {
            let glance = &overview.glance;
            let is_old = surplus > 0 && !glance.alive;
            surplus -= usize::from(is_old);
            if !is_old && (alive.contains(&glance.handle) || dead.contains(&glance.handle)) {
                self.tiles.push(Tile::new(self.keys.next(), overview));
            }
        }
        self.tiles.iter_mut().for_each(|tile| tile.watch(self.state_dir));
        self.leave_out_old();
    }

    /// Takes what has become known of the sessions.
    fn take_news(&mut self) -> Result<()> {
        let Server { sessions, state_dir, tiles, keys, .. } = self;
        let Some(sessions) = sessions else { return Ok(()) };
        let mut ended = false;
        sessions.take_news(state_dir, &mut |news| match news {
            FeedNews::Told(overview) => {
                let at = tiles.iter().position(|tile| tile.handle == overview.glance.handle);
                let at = at.unwrap_or_else(|| {
                    let mut tile = Tile::new(keys.next(), ActivityView::untold(overview.glance.clone()));
                    tile.watch(state_dir);
                    tiles.push(tile);
                    tiles.len() - 1
                });
                if overview.activity == Some(Activity::Dead) {
                    ended = true;
                    tiles[at].end(state_dir);
                } else {
                    tiles[at].receive_status(*overview);
                }
            }
            FeedNews::Removed(address, _) => tiles.retain(|tile| tile.handle != address.handle),
            FeedNews::Lost { .. } => {}
        })?;
        if ended {
            self.leave_out_old();
        }
        Ok(())
    }

    /// Drops ended sessions beyond the newest.
    fn leave_out_old(&mut self) {
        let end = |tile: &Tile| tile.ended().unwrap_or_default().as_micros() as u64;
        let mut ends: Vec<_> = self.tiles.iter().filter(|tile| !tile.is_alive()).map(end).collect();
        let mut surplus = ends.len().saturating_sub(MOST_DEAD);
        ends.sort_unstable();
        let Some(last) = surplus.checked_sub(1).map(|last| ends[last]) else { return };
        self.tiles.retain(|tile| {
            let is_old = surplus > 0 && !tile.is_alive() && end(tile) <= last;
            surplus -= usize::from(is_old);
            !is_old
        });
    }

    fn accept(&mut self) {
        while let Some(door) = &self.door {
            let Some(stream) = self.entrance.take(socket::accept(&door.listener)) else { return };
            let admitted = self.admission.admit_tcp(&stream);
            self.make_room();
            let mut connection = Connection::new(stream);
            if let Err(denial) = admitted {
                connection.turn_away(guard::refusal(denial));
            }
            self.connections.push(connection);
        }
    }

    /// If there are too many connections, closes one that is not an open page. It takes the one with
    /// the least time left; those that wait for another machine's answer come last.
    fn make_room(&mut self) {
        if self.connections.len() < MOST_CONNECTIONS {
            return;
        }
        let others = self.connections.iter().enumerate();
        let others = others.filter(|(_, connection)| !matches!(connection.phase, Phase::Stream(_)));
        if let Some((index, _)) = others.min_by_key(|(_, connection)| {
            (matches!(connection.phase, Phase::Elsewhere(_)), connection.deadline.remaining())
        }) {
            self.connections.remove(index);
        }
    }

    /// Goes on with a connection that can be read or written.
    fn go_on(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if let Phase::Elsewhere(_) = connection.phase {
            // We neither read nor write here, so poll only reports a reset connection: the client has
            // gone. If the client only closed its end, sending the answer will fail.
            connection.phase = Phase::Over;
        }
        connection.read();
        connection.write();
        while let Some((request, body)) = self.connections[index].request() {
            let answer = self.answer(&request, &body);
            let connection = &mut self.connections[index];
            connection.closes |= request.closes;
            match answer {
                Ok(Answer::Whole(bytes)) => connection.answer(bytes),
                Ok(Answer::Done(done)) => connection.answer(whole(Ok(done), connection.closes)),
                Ok(Answer::Elsewhere(number)) => {
                    connection.phase = Phase::Elsewhere(number);
                    connection.deadline = Deadline::after(ELSEWHERE);
                }
                Ok(Answer::Stream(stream)) => connection.stream_from(stream),
                Err(refusal) => connection.answer(http::refused(refusal, connection.closes)),
            }
            connection.write();
        }
    }

    fn answer(&mut self, request: &HttpRequest, body: &[u8]) -> std::result::Result<Answer, HttpError> {
        let Some(door) = &self.door else { return Err(UNAUTHORIZED) };
        guard::check_host(request, door.address)?;
        let file = match &*request.path {
            "/" => Some(("text/html; charset=utf-8", INDEX)),
            "/page.css" => Some(("text/css; charset=utf-8", STYLE)),
            "/page.js" => Some(("text/javascript; charset=utf-8", SCRIPT)),
            _ => None,
        };
        // These files are the same for all clients and contain no data; a link to them may be
        // anywhere.
        if let Some((kind, content)) = file {
            if request.method != "GET" {
                return Err(NOT_ALLOWED);
            }
            return Ok(Answer::Whole(http::answer(http::OK, kind, content.get(), request.closes)));
        }
        // A link to a form may be on any site, too; its id stands for the token.
        if let Some(id) = request.path.strip_prefix("/secret/") {
            if request.method != "GET" {
                guard::check_site(request)?;
            }
            return secret::answer(self.state_dir, id, request, body).map(Answer::Whole);
        }
        guard::check_site(request)?;
        look_at_token(self.state_dir, &mut self.door, &mut self.connections);
        let Some(door) = &self.door else { return Err(UNAUTHORIZED) };
        guard::check_token(request, &door.token)?;
        let path: Vec<&str> = request.path.split('/').collect();
        match (&*request.method, &path[..]) {
            ("GET", ["", "events"]) => self.open_page(request),
            ("GET", ["", "sessions", handle, what @ ("scrollback" | "commands" | "ports")])
            | ("POST", ["", "sessions", handle, what]) => {
                let text = std::str::from_utf8(body).map_err(|_| BAD_BODY)?;
                let there = self.machines.iter_mut().find_map(|machine| {
                    let there = machine.handle_there(handle)?;
                    Some((machine, there))
                });
                if let Some((machine, there)) = there {
                    let number = self.keys.next();
                    if *what == "reach" {
                        let port = numbers::number(body).filter(|port| *port > 0).ok_or(BAD_PORT)?;
                        return match self.forwards.ask(number, machine.name(), port) {
                            Some(done) => done.map(Answer::Done),
                            None => Ok(Answer::Elsewhere(number)),
                        };
                    }
                    machine.ask(number, there, what, text);
                    return Ok(Answer::Elsewhere(number));
                }
                let number = self.keys.next();
                self.do_here(number, handle, what, text)
            }
            (_, ["", "events"] | ["", "sessions", _, _]) => Err(NOT_ALLOWED),
            _ => Err(NOT_FOUND),
        }
    }

    fn tile(&mut self, handle: &str) -> std::result::Result<&mut Tile, HttpError> {
        self.tiles.iter_mut().find(|tile| tile.handle.as_str() == handle).ok_or(NOT_FOUND)
    }

    /// Types something, or gives the scrollback, the last commands, the output of one, or the ports.
    /// The answer that comes later has this number.
    fn do_here(
        &mut self,
        number: u64,
        handle: &str,
        what: &str,
        text: &str,
    ) -> std::result::Result<Answer, HttpError> {
        let state_dir = self.state_dir;
        let tile = self.tile(handle)?;
        let told = match what {
            "scrollback" => Some(tile.scrollback(state_dir, SCROLLBACK)),
            "commands" => Some(tile.commands(state_dir)),
            "ports" => Some(tile.ports(state_dir)),
            "output" => Some(tile.output(state_dir, text.parse().map_err(|_| BAD_BODY)?)),
            _ => None,
        };
        if let Some(told) = told {
            return told.map(|told| Answer::Done(Some(told))).map_err(|_| NOT_FOUND);
        }
        if !tile.is_alive() {
            return Err(GONE);
        }
        let body = text.as_bytes();
        match what {
            // Just Enter is one key, to any program.
            "line" if !text.is_empty() && tile.wants_task() => {
                let handle = tile.handle.clone();
                return self.type_by_call(number, "send", &["--submit", handle.as_str(), text]);
            }
            "line" => tile.type_text(state_dir, &[body, b"\r"].concat())?,
            "answer" => {
                let (id, text) = text.split_once('\n').ok_or(BAD_BODY)?;
                let (id, handle) = (format!("--question-id={id}"), tile.handle.clone());
                return self.type_by_call(number, "answer", &[&id, handle.as_str(), text]);
            }
            "text" => tile.type_text(state_dir, body)?,
            "paste" => tile.paste(state_dir, text)?,
            "keys" => tile.press(state_dir, text)?,
            "secret" => {
                let typed = tile.type_secret(state_dir, body)?;
                return Ok(Answer::Done(Some(Object::new().truth("typed", typed).line())));
            }
            _ => return Err(NOT_FOUND),
        }
        Ok(Answer::Done(None))
    }

    /// For a program that does not read lines: a call types the line, and reports the result.
    fn type_by_call(
        &mut self,
        number: u64,
        verb: &str,
        words: &[&str],
    ) -> std::result::Result<Answer, HttpError> {
        let call = CollectedCall::start(verb, &[&[TYPING_TIMEOUT], words].concat());
        self.calls.push((number, call.map_err(|_| UNAVAILABLE)?));
        Ok(Answer::Elsewhere(number))
    }

    fn open_page(&mut self, request: &HttpRequest) -> std::result::Result<Answer, HttpError> {
        if self.streams().count() >= MOST_STREAMS {
            return Err(UNAVAILABLE);
        }
        let large: Vec<String> = request.asked("focus").map(str::to_owned).into_iter().collect();
        let since = request.last_event_id.as_deref().or(request.asked("since"));
        let since = since.and_then(|id| id.strip_prefix(&*self.epoch)?.strip_prefix('-')?.parse().ok());
        let since = since.filter(|since| *since <= self.numbers.last()).unwrap_or(0);
        Ok(Answer::Stream(Stream::new(View { wall: large.is_empty(), large }, since)))
    }

    /// The sessions that are visible on a page.
    fn view(&self) -> View {
        let mut view = View::default();
        let there = self.feed.as_ref().map(|feed| &feed.view);
        self.streams().map(|stream| &stream.view).chain(there).for_each(|shown| view.add(shown));
        view
    }

    fn next_look(&self) -> Deadline {
        let view = self.view();
        let mut next = Deadline::NEVER;
        if self.sessions.is_none() {
            return next;
        }
        for tile in &self.tiles {
            let (large, screen) = of(&view, tile);
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
        if self.sessions.is_none() {
            return;
        }
        let view = self.view();
        let begun = Instant::now();
        let rests = !self.wall.has_passed();
        let is_due = |tile: &Tile| {
            let (large, screen) = of(&view, tile);
            let waits = rests && screen && !large && !tile.is_new();
            !waits && tile.due(screen).is_some_and(Deadline::has_passed)
        };
        let mut spent = Duration::ZERO;
        while begun.elapsed() <= SLICE {
            // Large screens first, then those that were updated longest ago.
            let due = (0..self.tiles.len()).filter(|at| is_due(&self.tiles[*at]));
            let next = due.min_by_key(|at| (!of(&view, &self.tiles[*at]).0, self.tiles[*at].looked()));
            let Some(at) = next else { break };
            let tile = &mut self.tiles[at];
            let (large, screen) = of(&view, tile);
            let pause = match (large, screen) {
                (true, _) => LARGE,
                (_, true) => ON_THE_WALL,
                _ => UNSEEN,
            };
            let look = Instant::now();
            if !tile.look(self.state_dir, &mut self.numbers, screen, pause, self.feed.is_some()) {
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
    fn send(&mut self) {
        // Before the first scan a page would see an empty list.
        if !self.is_watched {
            return;
        }
        let tiles = self.tiles.iter().map(|tile| &tile.entry);
        let entries: Vec<&Entry> = tiles.chain(self.machines.iter().flat_map(Machine::entries)).collect();
        let last = self.numbers.last();
        if self.connections.iter().any(|connection| connection.owes(&entries)) {
            look_at_token(self.state_dir, &mut self.door, &mut self.connections);
        }
        for connection in &mut self.connections {
            if connection.owes(&entries)
                && let Phase::Stream(stream) = &mut connection.phase
            {
                stream.send(&entries, last, &self.epoch, &mut connection.outbox);
                connection.write();
            }
        }
        if let Some(feed) = &mut self.feed {
            feed.send_changes(&entries);
        }
    }
}

/// Rejects clients whose token differs from the one in the state directory.
fn look_at_token(state_dir: &StateDir, door: &mut Option<PageListener>, connections: &mut [Connection]) {
    let Some(door) = door else { return };
    if !door.token.holds(state_dir)
        && let Ok(token) = Token::of(state_dir, false)
    {
        door.token = token;
        for connection in connections {
            if matches!(connection.phase, Phase::Stream(_)) {
                connection.phase = Phase::Over;
            }
        }
    }
}

/// Is it shown large, and is its screen shown at all?
fn of(view: &View, tile: &Tile) -> (bool, bool) {
    let large = view.is_large(&tile.entry.name);
    (large, large || view.wall)
}

/// The answer with the result of a request.
fn whole(done: Done, closes: bool) -> Vec<u8> {
    match done {
        Ok(None) => http::done(closes),
        Ok(Some(body)) => http::answer(http::OK, JSON, &body, closes),
        Err(refusal) => http::refused(refusal, closes),
    }
}

enum Answer {
    Whole(Vec<u8>),
    Done(Option<String>),
    Elsewhere(u64),
    Stream(Stream),
}
