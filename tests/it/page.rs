//! nbs-page, by HTTP: access, the data about sessions, and clients that misbehave. The tests with a browser
//! are in tests/page.

mod clients;
mod machines;
mod shown;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    machines::Elsewhere,
    support::{PATIENCE, Scratch, eventually, run, signal},
};

/// A server, which is ended when this is dropped.
pub(crate) struct Page {
    server: Child,
    address: SocketAddr,
    token: String,
}

impl Page {
    /// One without sessions.
    pub(crate) fn alone() -> (Scratch, Page) {
        let scratch = Scratch::new();
        let page = Page::start(&scratch);
        (scratch, page)
    }

    pub(crate) fn start(scratch: &Scratch) -> Page {
        Page::start_with(scratch, &[])
    }

    pub(crate) fn start_with(scratch: &Scratch, arguments: &[&str]) -> Page {
        let mut command = scratch.applet("nbs-page");
        command.args(arguments);
        Page::of(command)
    }

    pub(crate) fn of(mut command: Command) -> Page {
        let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (address, token) = line.trim_end().strip_prefix("http://").unwrap().split_once("/#").unwrap();
        Page { address: address.parse().unwrap(), token: token.to_owned(), server }
    }

    pub(crate) fn pid(&self) -> String {
        self.server.id().to_string()
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Our own page's request, on a connection of its own.
    fn request(&self, method: &str, path: &str, body: &str) -> String {
        let (address, token, length) = (self.address, &self.token, body.len());
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    }

    /// The status and all of the answer to some bytes.
    pub(crate) fn say(&self, bytes: impl AsRef<[u8]>) -> (u16, String) {
        let mut stream = self.connect();
        // The server may not read a rejected request to its end.
        let _ = stream.write_all(bytes.as_ref());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.say(self.request(method, path, body))
    }

    pub(crate) fn type_in(&self, handle: &str, what: &str, text: &str) {
        let (status, answer) = self.ask("POST", &format!("/sessions/{handle}/{what}"), text);
        assert_eq!(status, 204, "{answer}");
    }

    pub(crate) fn open(&self, query: &str) -> Events {
        let mut stream = self.connect();
        stream.write_all(self.request("GET", &format!("/events?{query}"), "").as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).unwrap() > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/event-stream"), "{head}");
        Events { lines, id: String::new(), screens: Vec::new(), abouts: Vec::new() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let pid = self.server.id().to_string();
        assert!(run(Command::new("kill").arg(&pid)).status.success());
        let status = self.server.wait().unwrap();
        if !std::thread::panicking() {
            assert!(status.success(), "{status}");
        }
    }
}

/// An open page: the data it has received.
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
    /// The id up to which it has received all events.
    id: String,
    /// The rows of each screen by their numbers, and all of it.
    screens: Vec<(String, Value)>,
    /// The other data of each session.
    abouts: Vec<(String, Value)>,
}

impl Events {
    /// The next event, and its number, if it has one.
    fn next(&mut self) -> Value {
        let mut event = String::new();
        while !event.ends_with("\n\n") {
            assert!(self.lines.read_line(&mut event).unwrap() > 0, "the end came after {event:?}");
        }
        assert!(!event.trim_end().chars().any(|c| c.is_control() && c != '\n'), "{event:?}");
        let mut data = None;
        for line in event.trim_end().lines() {
            match line.split_once(": ").unwrap() {
                ("id", id) => self.id = id.to_owned(),
                ("data", text) => data = Some(serde_json::from_str(text).unwrap()),
                other => panic!("{other:?}"),
            }
        }
        let event: Value = data.unwrap();
        if event["screen"].is_object() {
            self.draw(event["handle"].as_str().unwrap(), &event["screen"]);
        }
        if event["about"].is_object() {
            let handle = event["handle"].as_str().unwrap();
            self.abouts.retain(|(other, _)| other != handle);
            self.abouts.push((handle.to_owned(), event["about"].clone()));
        }
        event
    }

    /// As a page does: each row has come with this screen, or was there before.
    fn draw(&mut self, handle: &str, screen: &Value) {
        let before = self.screens.iter().position(|(other, _)| other == handle);
        let before = before.map_or(json!({}), |at| self.screens.swap_remove(at).1["rows"].clone());
        let mut rows = json!({});
        for number in screen["at"].as_array().unwrap() {
            let key = number.to_string();
            let row =
                screen["fresh"].get(&key).or(before.get(&key)).unwrap_or_else(|| panic!("{key}: {screen}"));
            rows[key] = row.clone();
        }
        self.screens.push((handle.to_owned(), json!({"rows": rows, "at": screen["at"]})));
    }

    pub(crate) fn until(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let event = self.next();
            if is_it(&event) {
                return event;
            }
        }
    }

    /// Reads on until a session is like that.
    pub(crate) fn until_about(&mut self, handle: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let about = self.abouts.iter().find(|(other, about)| other == handle && is_it(about));
            if let Some((_, about)) = about {
                return about.clone();
            }
            self.next();
        }
    }

    /// Reads on until all present events have been received.
    fn settle(&mut self) {
        self.until(|event| *event == json!({}));
    }

    /// The text of a session's screen, a line a row.
    fn text(&self, handle: &str) -> String {
        let Some((_, screen)) = self.screens.iter().find(|(other, _)| other == handle) else {
            return String::new();
        };
        let row = |number: &Value| {
            let spans = screen["rows"][number.to_string()].as_array().unwrap();
            spans.iter().map(|span| span.as_str().or(span[0].as_str()).unwrap()).collect::<String>()
        };
        let rows = screen["at"].as_array().unwrap().iter().map(row);
        rows.collect::<Vec<String>>().join("\n").trim_end().to_owned()
    }

    fn until_text(&mut self, handle: &str, part: &str) {
        while !self.text(handle).contains(part) {
            self.next();
        }
    }
}

#[test]
fn whoever_has_the_token_is_served_and_nobody_else() {
    let scratch = Scratch::new();
    let handle = scratch.create_with(&["--name=private"], "echo private; cat");
    let page = Page::start(&scratch);
    let address = page.address;
    let paths = [
        ("GET", "/events".to_owned()),
        ("GET", format!("/sessions/{handle}/scrollback")),
        ("GET", format!("/sessions/{handle}/commands")),
        ("GET", format!("/sessions/{handle}/ports")),
        ("POST", format!("/sessions/{handle}/output")),
        ("POST", format!("/sessions/{handle}/reach")),
        ("POST", format!("/sessions/{handle}/line")),
    ];
    let wrong = page.token.replace(|c: char| c != '0', "0");
    for (method, path) in &paths {
        for given in [
            String::new(),
            format!("Authorization: Bearer {wrong}\r\n"),
            format!("Authorization: Bearer {}0\r\n", page.token),
            format!("Authorization: Bearer {}\r\n", &page.token[1..]),
            format!("Authorization: Basic {}\r\n", page.token),
            format!("Cookie: token={0}; Bearer={0}\r\n", page.token),
            format!("Referer: http://{address}/#{}\r\n", page.token),
        ] {
            for path in [path.clone(), format!("{path}?token={}", page.token)] {
                let request = format!(
                    "{method} {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nConnection: close\r\n\
                     Content-Length: 1\r\n{given}\r\nx"
                );
                let (status, answer) = page.say(request);
                assert!(status == 401 && !answer.contains("private"), "{given} {answer}");
            }
        }
    }
    // The public files contain no data.
    for file in ["/", "/page.css", "/page.js"] {
        let (status, answer) =
            page.say(format!("GET {file} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"));
        assert!(status == 200 && !answer.contains("private") && !answer.contains(&page.token), "{answer}");
        for header in [
            "Content-Security-Policy: default-src 'none'; script-src 'self';",
            "Referrer-Policy: no-referrer",
            "X-Content-Type-Options: nosniff",
        ] {
            assert!(answer.contains(header), "{answer}");
        }
        assert!(!answer.contains("Access-Control-Allow") && !answer.contains("Set-Cookie"), "{answer}");
    }
    let mut events = page.open("");
    events.until_text(&handle, "private");
    page.type_in(&handle, "line", "told");
    events.until_text(&handle, "told\ntold");
}

#[test]
fn another_site_is_refused_whatever_it_tries() {
    let (scratch, handle) = Scratch::with_session("cat");
    let page = Page::start(&scratch);
    let own = page.address.to_string();
    let line = format!("/sessions/{handle}/line");
    let asked = |method: &str, path: &str, host: &str, more: &str| {
        let body = "typed";
        page.say(format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nConnection: close\r\nContent-Length: {}\r\n{more}\r\n{body}",
            page.token,
            body.len()
        ))
    };
    // Its name points at our address (DNS rebinding).
    for host in [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "192.0.2.1",
    ] {
        for (method, path) in [("GET", "/"), ("GET", "/page.js"), ("GET", "/events"), ("POST", &line)] {
            let origin = format!("Origin: http://{host}\r\n");
            assert_eq!(asked(method, path, host, &origin).0, 421, "{host} {path}");
        }
    }
    for more in [
        "",
        "Origin: null\r\n",
        "Origin: http://evil.example\r\n",
        "Origin: http://localhost:1\r\n",
        &format!("Origin: http://{own}.evil.example\r\n"),
        &format!("Origin: http://{own}\r\nSec-Fetch-Site: cross-site\r\n"),
        &format!("Origin: http://{own}\r\nSec-Fetch-Site: same-site\r\n"),
    ] {
        assert_eq!(asked("POST", &line, &own, more).0, 403, "{more}");
    }
    for more in
        ["Origin: http://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n"]
    {
        assert_eq!(asked("GET", "/events", &own, more).0, 403, "{more}");
    }
    // A browser asks first whether another site may send a header of its own.
    let (status, answer) = asked(
        "OPTIONS",
        &line,
        &own,
        "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n",
    );
    assert!(status == 403 && !answer.contains("Access-Control-Allow"), "{answer}");
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nOrigin: http://evil.example\r\n";
    assert_eq!(asked("GET", "/events", &own, upgrade).0, 501);
    assert_eq!(scratch.file(&handle, "output.log"), "");
    // A link to the page may be anywhere.
    assert_eq!(asked("GET", "/", &own, "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n").0, 200);
}

#[test]
fn the_token_is_kept_until_there_is_another_and_the_port_too() {
    let scratch = Scratch::new();
    let first = Page::start(&scratch);
    let (address, token) = (first.address, first.token.clone());
    assert!(address.ip().is_loopback());
    let file = scratch.state().join("page.token");
    assert_eq!(fs::read_to_string(&file).unwrap().trim_end(), token);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let arguments = fs::read(format!("/proc/{}/cmdline", first.server.id())).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains(&token));
    drop(first);
    let again = Page::start(&scratch);
    assert_eq!((again.address, &again.token), (address, &token));
    // The port is taken.
    let mut events = again.open("");
    events.settle();
    let other = Page::start_with(&scratch, &["--new-token"]);
    assert_ne!((other.address, &other.token), (again.address, &again.token));
    assert_eq!(again.ask("GET", "/events", "").0, 401);
    let mut rest = String::new();
    events.lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    assert_eq!(other.ask("GET", "/nothing", "").0, 404);
    fs::write(&file, "short\n").unwrap();
    assert_eq!(other.ask("GET", "/nothing", "").0, 401);
    assert_eq!(fs::read_to_string(&file).unwrap().trim_end().len(), 32);
}

#[test]
fn the_page_names_an_address_that_it_cannot_listen_on() {
    let scratch = Scratch::new();
    let page = |arguments: &[&str]| run(scratch.applet("nbs-page").args(arguments));
    for value in ["", "localhost", "8080", "127.0.0.1", "127.0.0.1:65536", "[::1]", "\u{1b}[2J:1"] {
        page(&[&format!("--listen={value}")]).code(4).stdout("").complains("--listen");
    }
    page(&["surplus"]).code(4).complains("surplus");
    page(&["--listen=192.0.2.1:0"]).code(1).complains("cannot listen on 192.0.2.1:0");
    let running = Page::start(&scratch);
    page(&[&format!("--listen={}", running.address)]).code(1).complains("in use");
    drop(running);
    let object = Page::start_json(&scratch);
    assert!(
        object["address"].as_str().unwrap().ends_with(&format!("/#{}", object["token"].as_str().unwrap()))
    );
}

impl Page {
    fn start_json(scratch: &Scratch) -> Value {
        let mut server = scratch.applet("nbs-page").arg("--json").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(run(Command::new("kill").arg(server.id().to_string())).status.success());
        assert!(server.wait().unwrap().success());
        serde_json::from_str(&line).unwrap()
    }
}

#[test]
fn typed_text_arrives_in_order_and_keys_act_at_once() {
    let (scratch, page) = Page::alone();
    let handle = scratch.create("stty -echo; while IFS= read -r line; do echo \"<$line>\"; done");
    let mut events = page.open(&format!("focus={handle}"));
    scratch.ts(&["wait", &handle, "--input"]).code(0);
    page.type_in(&handle, "line", "<b>one</b>");
    page.type_in(&handle, "text", "tw");
    page.type_in(&handle, "keys", "o BSpace");
    page.type_in(&handle, "keys", "o Enter");
    page.type_in(&handle, "paste", "three\nfour é\r\n");
    events.until_text(&handle, "<<b>one</b>>\n<two>\n<three>\n<four é>");
    for (what, text, status) in [
        ("keys", "Enter Frobnicate", 400),
        ("keys", "", 400),
        ("frobnicate", "x", 404),
        ("secret", "a\nb", 400),
    ] {
        assert_eq!(page.ask("POST", &format!("/sessions/{handle}/{what}"), text).0, status, "{what}");
    }
    for other in ["00000000", "../../etc", "..", "%2e%2e"] {
        assert_eq!(page.ask("POST", &format!("/sessions/{other}/line"), "x").0, 404, "{other}");
    }
    assert_eq!(page.ask("GET", &format!("/sessions/{handle}/line"), "").0, 405);
    assert_eq!(page.ask("POST", "/events", "").0, 405);
    // Unread input does not hold up a key that is a signal.
    let busy = scratch.create("stty raw -echo isig; echo ready; sleep 1000");
    events = page.open(&format!("focus={busy}"));
    events.until_text(&busy, "ready");
    while page.ask("POST", &format!("/sessions/{busy}/text"), &"x".repeat(60_000)).0 != 429 {}
    page.type_in(&busy, "keys", "C-c");
    let ended = events.until_about(&busy, |about| about["receipt"].is_object());
    assert_eq!((&ended["state"], &ended["receipt"]["signal"]), (&json!("dead"), &json!("SIGINT")));
    assert_eq!(page.ask("POST", &format!("/sessions/{busy}/line"), "x").0, 410);
}

#[test]
fn a_secret_is_typed_only_where_one_is_asked_for() {
    let (scratch, page) = Page::alone();
    let handle = scratch.create("read -r a; stty -echo; read -r b; stty echo; echo \"$a/${#b}\"; cat");
    let mut events = page.open("");
    events.until_about(&handle, |about| about["terminal"] == "line");
    let secret = |text: &str| page.ask("POST", &format!("/sessions/{handle}/secret"), text);
    assert!(secret("hunter2").1.ends_with("{\"typed\":false}\n"));
    page.type_in(&handle, "line", "a");
    events.until_about(&handle, |about| about["terminal"] == "secret");
    // The echo is off a moment before the program reads.
    eventually("the secret being taken", || secret("hunter2").1.ends_with("{\"typed\":true}\n"));
    events.until_text(&handle, "a/7");
    assert!(!scratch.file(&handle, "output.log").contains("hunter2"));
}

#[test]
fn only_what_has_changed_is_told_and_nothing_is_missed() {
    let (scratch, page) = Page::alone();
    let handle = scratch.create_with(&["--size=40x10"], "seq 1 8; cat");
    let quiet = scratch.create("echo quiet; cat");
    let mut events = page.open("");
    events.until_text(&handle, "8");
    events.until_text(&quiet, "quiet");
    for session in [&handle, &quiet] {
        events.until_about(session, |about| about["terminal"] == "line");
    }
    events.settle();
    let known = events.id.clone();
    page.type_in(&handle, "line", "next");
    // All rows but the new ones have scrolled up, and are not sent again.
    events.until_text(&handle, "next\nnext");
    events.settle();
    drop(events);
    // A page that slept resumes from its last event: it receives nothing about the unchanged session.
    let mut events = page.open(&format!("since={known}"));
    let first = events.next();
    let mut handles: Vec<&str> =
        first["sessions"].as_array().unwrap().iter().map(|h| h.as_str().unwrap()).collect();
    handles.sort_unstable();
    let mut both = [&*handle, &*quiet];
    both.sort_unstable();
    assert_eq!(handles, both);
    let mut fresh = 0;
    loop {
        let mut event = String::new();
        while !event.ends_with("\n\n") {
            assert!(events.lines.read_line(&mut event).unwrap() > 0);
        }
        if event.ends_with("data: {}\n\n") {
            break;
        }
        let event: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(event["handle"], *handle);
        fresh += event["screen"]["fresh"].as_object().map_or(0, |rows| rows.len());
    }
    assert!((1..=3).contains(&fresh), "{fresh} rows");
    // Numbers from another process of ours mean nothing here.
    for since in ["", "1", "0000000000000000-5", "x-y", &format!("{}999999", known)] {
        let mut events = page.open(&format!("since={since}"));
        events.settle();
        assert!(events.text(&quiet).contains("quiet"), "{since}");
    }
}

#[test]
fn the_end_of_a_session_whose_relay_was_killed_is_recorded_when_it_is_shown() {
    let (scratch, page) = Page::alone();
    let handle = scratch.create("cat");
    let mut events = page.open("");
    events.until_about(&handle, |about| about["activity"] == "waiting");
    signal("-KILL", &scratch.file(&handle, "daemon_pid"));
    let ended = events.until_about(&handle, |about| about["receipt"].is_object());
    assert_eq!(
        (&ended["receipt"]["exit_code"], &ended["receipt"]["ended_by"]),
        (&json!(-1), &json!("unknown"))
    );
    let record: Value = serde_json::from_str(&scratch.file(&handle, "exit.json")).unwrap();
    assert_eq!(record["session_id"], *handle);
}

#[test]
fn sessions_come_end_and_go_under_the_eyes_of_a_page() {
    let (scratch, page) = Page::alone();
    let mut events = page.open("");
    events.settle();
    let handle = scratch.create_with(&["--name=job"], "printf 'a\\033]2;a title\\007'; cat; exit 3");
    let came = events.until_about(&handle, |about| about["title"] == "a title");
    assert_eq!((&came["name"], &came["state"]), (&json!("job"), &json!("alive")));
    events.until_about(&handle, |about| about["activity"] == "waiting");
    scratch.ts(&["eof", &handle]).code(0);
    let ended = events.until_about(&handle, |about| about["receipt"].is_object());
    let (receipt, line) = (&ended["receipt"], scratch.file(&handle, "exit.json"));
    let record: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&receipt["exit_code"], &receipt["ended_by"]), (&json!(3), &json!("self")));
    // All that the page shows of it is in the exit record, too.
    for (name, value) in receipt.as_object().unwrap() {
        assert_eq!((name, value), (name, &record[name]), "{record}");
    }
    scratch.ts(&["kill", &handle]).code(0);
    events.until(|event| event["gone"] == *handle);
    assert_eq!(page.ask("GET", &format!("/sessions/{handle}/scrollback"), "").0, 404);
    // A session whose relay was killed has ended, too.
    let handle = scratch.create("cat");
    events.until_about(&handle, |about| about["state"] == "alive");
    let relay = scratch.file(&handle, "daemon_pid");
    assert!(run(Command::new("kill").args(["-KILL", relay.trim()])).status.success());
    events.until_about(&handle, |about| about["state"] == "dead");
}

#[test]
fn scrollback_can_be_read() {
    let (scratch, page) = Page::alone();
    let handle = scratch.create_with(&["--size=20x5"], "seq 1 100; printf '\\033[31mred'; cat");
    let mut events = page.open(&format!("focus={handle}"));
    events.until_text(&handle, "red");
    let (status, answer) = page.ask("GET", &format!("/sessions/{handle}/scrollback"), "");
    assert_eq!(status, 200);
    let rows: Vec<Vec<String>> = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let rows: Vec<String> = rows.into_iter().map(|row| row.concat()).collect();
    assert_eq!(rows, (1..=96).map(|line| line.to_string()).collect::<Vec<_>>());
}

#[test]
fn commands_and_their_output_can_be_read() {
    let (scratch, page) = Page::alone();
    let handle = scratch.create("bash");
    scratch.ts(&["run", &handle, "printf '\\033[31mred\\nrest\\n'"]).code(0);
    scratch.ts(&["run", &handle, "sh -c 'exit 3'"]).code(3);
    let mut events = page.open("");
    events.until_about(&handle, |about| about["state"] == "alive");
    let rows = |method: &str, what: &str, body: &str| -> Vec<Vec<String>> {
        let (status, answer) = page.ask(method, &format!("/sessions/{handle}/{what}"), body);
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let commands = rows("GET", "commands", "");
    let told: Vec<[&str; 3]> = commands.iter().map(|row| [&*row[0], &row[1], &row[4]]).collect();
    assert_eq!(told, [["2", "3", "sh -c 'exit 3'"], ["1", "0", "printf '\\033[31mred\\nrest\\n'"]]);
    assert_eq!(rows("POST", "output", "1"), [["red"], ["rest"]]);
    assert_eq!(rows("POST", "output", "2"), [[""; 0]; 0]);
    // A progress bar shows its last state, and long output its end.
    scratch.ts(&["run", &handle, "seq 20000"]).code(0);
    let long = rows("POST", "output", "3");
    assert!(
        long[0][0].ends_with(" bytes before this are left out)") && long[long.len() - 1] == ["20000"],
        "{long:?}"
    );
    scratch.ts(&["run", &handle, "printf '1%%\\r50%%\\r100%%\\r\\n'"]).code(0);
    assert_eq!(rows("POST", "output", "4"), [["100%"]]);
    let commands = rows("GET", "commands", "");
    assert_eq!(page.ask("POST", &format!("/sessions/{handle}/output"), "9").0, 404);
    assert_eq!(page.ask("POST", &format!("/sessions/{handle}/output"), "x").0, 400);
    scratch.ts(&["kill", "--keep", &handle]).code(0);
    events.until_about(&handle, |about| about["state"] == "dead");
    assert_eq!(rows("GET", "commands", ""), commands);
}

/// A program that listens, prints its port, and answers a line.
const SERVER: &str = "exec python3 -uc 'import socket
server = socket.create_server((\"127.0.0.1\", 0))
print(\"port\", server.getsockname()[1])
while True:
    client, _ = server.accept()
    client.sendall(b\"got \" + client.recv(100))
    client.close()'";

/// The ports of a session, once there are any.
fn ports(page: &Page, handle: &str) -> Vec<Vec<String>> {
    let mut ports = Vec::new();
    eventually("a port", || {
        let (status, answer) = page.ask("GET", &format!("/sessions/{handle}/ports"), "");
        assert_eq!(status, 200, "{answer}");
        ports = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        !ports.is_empty()
    });
    ports
}

#[test]
fn the_ports_of_a_session_can_be_asked_for() {
    let (scratch, page) = Page::alone();
    let handle = scratch.create(SERVER);
    let mut events = page.open("");
    events.until_about(&handle, |about| about["state"] == "alive");
    let ports = ports(&page, &handle);
    scratch.ts(&["wait", &handle, "--pattern", &format!("port {}\n", ports[0][0])]).code(0);
    assert_eq!(ports, [[&*ports[0][0]]]);
    // Here there is nothing to forward.
    assert_eq!(page.ask("POST", &format!("/sessions/{handle}/reach"), &ports[0][0]).0, 404);
    scratch.ts(&["kill", "--keep", &handle]).code(0);
    events.until_about(&handle, |about| about["state"] == "dead");
    let (status, answer) = page.ask("GET", &format!("/sessions/{handle}/ports"), "");
    assert!(status == 200 && answer.ends_with("\r\n\r\n[]"), "{answer}");
}

#[test]
fn another_process_goes_on_with_the_pages_of_the_first() {
    let (scratch, handle) = Scratch::with_session("echo before; cat");
    let page = Page::start(&scratch);
    let mut events = page.open("");
    events.until_text(&handle, "before");
    events.settle();
    let (address, id) = (page.address, events.id.clone());
    drop(page);
    let mut rest = String::new();
    events.lines.read_to_string(&mut rest).unwrap();
    scratch.ts(&["send", &handle, "between"]).code(0);
    let page = Page::start(&scratch);
    assert_eq!(page.address, address);
    let mut events = page.open(&format!("since={id}"));
    events.until_text(&handle, "before\nbetween\nbetween");
}
