//! nbs-mcp, by a client of the test's own. Every line that the server prints must be a message of
//! the protocol, in every test.

mod calls;
mod hostile;
mod secrets;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, ChildStdin, ExitStatus, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::{Value, json};

use crate::{
    confined::can_confine,
    support::{PATIENCE, Scratch, eventually, is_running, run},
};

const VERSION: &str = "2026-07-28";

/// Calls that take long, as tasks.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The declaration of a client that reads the structure of results.
const STRUCTURE: &str = "nbs/structured-content";

/// A server, and its messages that no test has read yet.
struct Client {
    server: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<Value>,
    heard: Vec<Value>,
    last_id: i64,
    /// Requests are of the version without a handshake.
    stateless: bool,
    /// The capabilities that it declares in each of those.
    capabilities: Value,
}

/// A server without sessions, and its client.
fn started() -> (Scratch, Client) {
    let scratch = Scratch::new();
    let client = Client::start(&scratch, &[]);
    (scratch, client)
}

impl Client {
    fn start(scratch: &Scratch, arguments: &[&str]) -> Client {
        let mut command = scratch.applet("nbs-mcp");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut server = command.spawn().unwrap();
        let stdout = BufReader::new(server.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                let line = line.unwrap();
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let stdin = server.stdin.take();
        Client {
            server,
            stdin,
            lines,
            heard: Vec::new(),
            last_id: 0,
            stateless: true,
            capabilities: json!({}),
        }
    }

    /// A client that has made the handshake of that version.
    fn of_version(scratch: &Scratch, version: &str) -> Client {
        let mut client = Client::start(scratch, &[]);
        client.stateless = false;
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let greeting = client.ask("initialize", params);
        assert_eq!(greeting["result"]["protocolVersion"], version);
        client.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        client
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn notify(&mut self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.write(format!("{message}\n").as_bytes());
    }

    /// Sends a request, and gives its id.
    fn request(&mut self, method: &str, mut params: Value) -> i64 {
        self.last_id += 1;
        if self.stateless {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        let message = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.write(format!("{message}\n").as_bytes());
        self.last_id
    }

    /// The next message like that; what else comes meanwhile is kept.
    fn next(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.heard.iter().position(&is_it) {
            return self.heard.remove(at);
        }
        loop {
            let message = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("in vain: {what}"));
            if is_it(&message) {
                return message;
            }
            self.heard.push(message);
        }
    }

    fn answer(&mut self, id: i64) -> Value {
        self.next(&format!("the answer to {id}"), |message| message["id"] == id)
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    fn begin(&mut self, tool: &str, arguments: Value) -> i64 {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The result of a call.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments);
        let answer = self.answer(id);
        let content = answer["result"]["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
        let is_structured = answer["result"].get("structuredContent").is_some();
        assert_ne!(content.is_empty(), !is_structured, "it is given once: {answer}");
        answer["result"].clone()
    }

    /// The object that a call results in, for a client that reads that.
    fn object(&mut self, tool: &str, arguments: Value) -> Value {
        let before = std::mem::replace(&mut self.capabilities, json!({"extensions": {STRUCTURE: {}}}));
        let result = self.call(tool, arguments);
        self.capabilities = before;
        result["structuredContent"].clone()
    }

    /// The text of a call that must succeed.
    fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        text(&result).to_owned()
    }

    /// The message of an error, which must be one.
    fn failure(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        text(&result).to_owned()
    }

    fn shell(&mut self) -> String {
        self.text("create", json!({"command": "bash", "name": "work"}));
        "@work".to_owned()
    }

    /// It still answers, and there are no messages without a request.
    fn is_well(&mut self) {
        let answer = self.ask("tools/list", json!({}));
        assert_eq!(answer["result"]["tools"].as_array().map(Vec::len), Some(8), "{answer}");
        assert_eq!(self.heard, Vec::<Value>::new());
    }

    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// The processes of its calls that are under way.
    fn calls(&self) -> Vec<String> {
        let pid = self.server.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_whitespace().map(str::to_owned).collect()
    }

    /// Ends the input, and returns the last messages and the server's exit status.
    fn end(mut self) -> (Vec<Value>, ExitStatus) {
        self.stdin = None;
        let mut last = std::mem::take(&mut self.heard);
        while let Ok(message) = self.lines.recv_timeout(PATIENCE) {
            last.push(message);
        }
        let status = self.server.wait().unwrap();
        (last, status)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stdin = None;
        // It ends by itself; in a failed test, nothing waits for it.
        if thread::panicking() {
            let _ = self.server.kill();
        }
        let _ = self.server.wait();
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[test]
fn the_version_without_a_handshake_tells_all_in_each_request() {
    let (_scratch, mut client) = started();
    let discovered = client.ask("server/discover", json!({}))["result"].clone();
    assert_eq!(discovered["supportedVersions"], json!([VERSION]));
    assert_eq!(discovered["capabilities"], json!({"tools": {}, "extensions": {TASKS: {}}}));
    assert!(discovered["instructions"].as_str().unwrap().contains("`run`"));
    let tools = client.ask("tools/list", json!({}))["result"].clone();
    for result in [&discovered, &tools] {
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "nbs");
        assert!(result["ttlMs"].is_u64() && result["cacheScope"] == "public", "{result}");
    }
    let listed = client.call("list", json!({}));
    assert_eq!(listed["resultType"], "complete");
    assert_eq!(client.ask("initialize", json!({}))["error"]["code"], -32601);
    assert_eq!(client.ask("ping", json!({}))["error"]["code"], -32601);
    assert_eq!(client.ask("tools/list", json!({"cursor": "2"}))["error"]["code"], -32602);

    client.stateless = false;
    let refused = client.ask("tools/list", json!({}))["error"].clone();
    assert_eq!(refused["code"], -32602);
    assert!(refused["message"].as_str().unwrap().contains("initialize"), "{refused}");
    let meta = |version: &str| json!({"_meta": {"io.modelcontextprotocol/protocolVersion": version}});
    let refused = client.ask("server/discover", meta("1900-01-01"))["error"].clone();
    assert_eq!(refused["code"], -32022);
    assert_eq!(refused["data"], json!({"supported": [VERSION], "requested": "1900-01-01"}));
    assert_eq!(client.ask("server/discover", meta(VERSION))["error"]["code"], -32602);
    client.stateless = true;
    client.is_well();
}

#[test]
fn older_clients_begin_with_a_handshake() {
    let scratch = Scratch::new();
    for version in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let mut client = Client::of_version(&scratch, version);
        assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
        let listed = client.call("list", json!({}));
        assert!(listed.get("resultType").is_none() && listed.get("_meta").is_none(), "{listed}");
        assert_eq!(client.ask("server/discover", json!({}))["error"]["code"], -32601);
        client.is_well();
    }
    let mut client = Client::start(&scratch, &[]);
    client.stateless = false;
    let greeting = client.ask("initialize", json!({"protocolVersion": "2024-11-05"}));
    assert_eq!(greeting["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(greeting["result"]["serverInfo"]["name"], "nbs");
    // Both kinds of requests, side by side.
    client.is_well();
    client.stateless = true;
    client.is_well();
}

#[test]
fn tools_say_what_the_help_says() {
    let (scratch, mut client) = started();
    let tools = client.ask("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(tools, client.ask("tools/list", json!({}))["result"]["tools"]);
    let tools = tools.as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["create", "run", "send", "wait", "screen", "read", "list", "kill"]);

    let help: Value = serde_json::from_str(&scratch.ts(&["help", "--json"]).code(0).out()).unwrap();
    let timeout = &tools[3]["inputSchema"]["properties"]["timeout"];
    assert_eq!(timeout["default"], "50");
    assert_eq!(timeout["description"], "a time like 30, 500ms or 2m: give up after TIME");
    for tool in tools {
        let commands = help["commands"].as_array().unwrap();
        let command = commands.iter().find(|command| command["name"] == tool["name"]).unwrap();
        let description = tool["description"].as_str().unwrap();
        let (first, rest) = command["summary"].as_str().unwrap().split_at(1);
        assert!(description.starts_with(&format!("{}{rest}.", first.to_uppercase())), "{description}");
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object");
        let options = command["options"].as_array().unwrap();
        let find = |name: &str| options.iter().find(|option| option["name"] == format!("--{name}"));
        let properties = schema["properties"].as_object().unwrap();
        for (name, property) in properties {
            let Some(option) = find(&name.replace('_', "-")) else {
                assert!(
                    ["session", "sessions", "command", "text", "keys", "answer", "question_id", "machine"]
                        .contains(&&**name),
                    "{name} is not in the help of {}",
                    tool["name"]
                );
                continue;
            };
            assert_eq!(option["value"].is_null(), property["type"] == "boolean", "{name}");
            assert!(!property["description"].as_str().unwrap().is_empty());
        }
        for required in schema["required"].as_array().unwrap() {
            assert!(properties.contains_key(required.as_str().unwrap()));
        }
        for hidden in ["json", "stdin", "secret_fd", "secret_stdin", "owner"] {
            assert!(!properties.contains_key(hidden), "{hidden}");
        }
        let told = tool.to_string();
        assert!(!told.contains("echo off") && !told.contains("\"TIME"), "{told}");
    }
}

#[test]
fn each_tool_does_what_its_command_does() {
    let (scratch, mut client) = started();
    let made =
        client.text("create", json!({"command": "bash", "name": "work", "env": ["A=1", "B=2"], "cwd": "/"}));
    let handle = made.lines().next().unwrap().to_owned();
    scratch.ts(&["find", "work"]).code(0).stdout(format!("{handle}\n"));

    assert_eq!(client.text("run", json!({"session": handle, "command": "echo $A$B; pwd"})), "12\n/\n");
    let umask = scratch.bash("umask").code(0).out();
    assert_eq!(client.text("run", json!({"session": handle, "command": "umask"})), umask);
    let script = "cat <<'end'\n  it's \"so\" \\n\nend\n";
    assert_eq!(client.text("run", json!({"session": "@work", "command": script})), "  it's \"so\" \\n\n");
    let failed = client.call("run", json!({"session": "@work", "command": "printf half; (exit 5)"}));
    assert_eq!((text(&failed), &failed["isError"]), ("half\n[exit code 5]\n", &json!(false)));
    let failed = client.object("run", json!({"session": "@work", "command": "printf half; (exit 5)"}));
    assert_eq!((&failed["exit_code"], &failed["output"]), (&json!(5), &json!("half")));
    let coloured = "printf '\\033[1mbold\\033[0m'";
    assert_eq!(client.text("run", json!({"session": "@work", "command": coloured})), "bold");
    let raw = client.text("run", json!({"session": "@work", "command": coloured, "strip": false}));
    assert_eq!(raw, "\x1b[1mbold\x1b[0m");

    assert_eq!(client.object("read", json!({"session": "@work", "limit": "0"}))["offset"], 0);
    let output = client.text("read", json!({"session": "@work", "command": 1}));
    assert!(output.starts_with("12\n/\n["), "{output}");
    let said = client.failure("read", json!({"session": "@work", "command": 99}));
    assert!(said.contains("has no command 99"), "{said}");
    client.text("send", json!({"session": "@work", "text": "read -p 'Your name? ' name"}));
    let wait = json!({"sessions": ["@work"], "input": true, "timeout": 60});
    assert_eq!(client.text("wait", wait.clone()), format!("{handle}\tinput\tline\n"));
    assert_eq!(client.object("wait", wait)["sessions"][0]["condition"], "input");
    assert_eq!(
        client.text("send", json!({"session": "@work", "text": "Ann", "no_enter": true})),
        "3 bytes typed\n"
    );
    client.text("send", json!({"session": "@work", "keys": ["e", "Enter"]}));
    client.text("wait", json!({"sessions": ["@work"], "input": true}));
    assert_eq!(client.text("run", json!({"session": "@work", "command": "echo \"<$name>\""})), "<Anne>\n");
    let read = client.call("read", json!({"session": "@work", "last": 3}));
    assert!(text(&read).contains("<Anne>"), "{read}");
    let next = client.object("read", json!({"session": "@work", "last": 3}))["next_offset"].clone();
    assert!(text(&read).ends_with(&format!("[next offset: {next}]\n")), "{read}");

    let screen = client.call("screen", json!({"session": "@work"}));
    assert!(text(&screen).contains("Your name? Anne"), "{screen}");
    let screen = client.object("screen", json!({"session": "@work"}));
    assert_eq!(screen["size"], json!({"cols": 80, "rows": 24}));
    let picture = client.call("screen", json!({"session": "@work", "png": true}));
    let content = &picture["content"][0];
    assert_eq!((&content["type"], &content["mimeType"]), (&json!("image"), &json!("image/png")));
    // The first bytes of a PNG picture, in base64.
    assert!(content["data"].as_str().unwrap().starts_with("iVBORw0KGgo"), "{content}");

    // Both: the text, and then the keys in place of Enter.
    client.text("send", json!({"session": "@work", "text": "echo ab", "keys": ["BSpace", "Enter"]}));
    client.text("wait", json!({"session": "@work", "complete": true}));
    let screen = client.text("screen", json!({"session": "@work"}));
    assert!(screen.contains("$ echo a\na\n"), "{screen}");
    let told = json!({"command": "true", "title": "A", "description": "B", "record": true, "max_log": "1M"});
    let told = client.text("create", told).lines().next().unwrap().to_owned();
    let exit = scratch.ts(&["wait", "--exit", &told]).code(0);
    assert!(scratch.file(&told, "exit.json").contains("\"session_description\":\"B\""), "{exit:?}");
    client.text("kill", json!({"sessions": told}));
    let listed = client.call("list", json!({"name": "wor"}));
    assert_eq!(text(&listed), format!("{handle}\talive\twork\tbash\n"));
    assert_eq!(client.object("list", json!({"name": "wor"}))["sessions"][0]["handle"], handle);
    assert_eq!(client.object("kill", json!({"session": handle}))["sessions"][0]["handle"], handle);
    assert_eq!(client.text("list", json!({})), "no sessions");
    client.is_well();
}

#[test]
fn errors_reach_the_model() {
    let (_scratch, mut client) = started();
    let said = client.failure("run", json!({"session": "@none", "command": "ls"}));
    assert!(said.contains("no session is named 'none'"), "{said}");
    let said = client.failure("screen", json!({"session": "@none", "png": true}));
    assert!(said.starts_with("[nbs: no session is named 'none'"), "{said}");
    let said = client.failure("screen", json!({"session": "none"}));
    assert!(said.contains("not a handle"), "{said}");
    // A model's arguments are never options of ours.
    for hostile in ["--all", "--help", "-h", "--"] {
        let said = client.failure("kill", json!({"sessions": [hostile]}));
        assert!(said.contains("not a handle"), "{hostile}: {said}");
    }
    assert!(client.failure("kill", json!({})).contains("missing SESSION"));
    // A call that never ends has no answer.
    let said = client.failure("list", json!({"follow": true}));
    assert!(said.contains("'follow' is not an argument of list"), "{said}");
    let said = client.failure("wait", json!({"sessions": ["@none"], "timeout": "soon", "exit": true}));
    assert!(said.contains("'soon', given for --timeout"), "{said}");
    let said = client.failure("wait", json!({"input": true}));
    assert!(said.contains("missing SESSION"), "{said}");
    let said = client.failure("create", json!({"command": "true", "cwd": "/none\u{0}"}));
    assert!(said.contains("cannot start the call"), "{said}");
    for length in [4_080, 9_000, 120_000] {
        let long = format!("/{}", "\u{1}".repeat(length));
        let result = client.call("create", json!({"command": "true", "cwd": long}));
        let said = text(&result);
        assert!(said.starts_with("[nbs: cannot ") && said.ends_with(" (os error 36)]\n"), "{said}");
        assert_eq!(result["isError"], true);
    }
    let said = client.failure("create", json!({"command": "true", "name": "a/b"}));
    assert!(said.contains("is not a name"), "{said}");

    client.shell();
    client.text("send", json!({"session": "@work", "text": "exec sleep 1000"}));
    let said =
        client.failure("wait", json!({"sessions": ["@work"], "pattern": ["never"], "timeout": "100ms"}));
    assert!(said.contains("never") || said.contains("0.1"), "{said}");
    let unknown = client.ask("tools/call", json!({"name": "none", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(client.ask("tools/call", json!({"arguments": {}}))["error"]["code"], -32602);
    assert_eq!(client.ask("tools/call", json!({"name": "list", "arguments": []}))["error"]["code"], -32602);
    assert_eq!(client.ask("resources/list", json!({}))["error"]["code"], -32601);
    client.is_well();
}

#[test]
fn a_result_is_bounded_and_tells_how_to_read_the_rest() {
    let (_scratch, mut client) = started();
    client.shell();
    let count = "seq 100000 199999";
    let result = client.text("run", json!({"session": "@work", "command": count}));
    assert!(result.len() <= 10_000, "{}", result.len());
    assert!(result.starts_with("100000\n") && result.contains("\n199999\n"));
    // It says at the end, in terms of the tools, how to read the rest; page by page it is whole.
    let (told, mark) = (result.lines().last().unwrap(), result.lines().find(|line| line.starts_with("… ")));
    let number = |name: &str| {
        let rest = told.split_once(name).unwrap_or_else(|| panic!("no {name} in: {told}")).1;
        rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse::<u64>().unwrap()
    };
    assert!(told.starts_with("[nbs: ") && !told.contains("nbs-ts"), "{told}");
    let (before, behind) = result.split_once(mark.unwrap()).unwrap();
    let behind = behind.trim_start_matches('\n').split("[nbs: ").next().unwrap();
    let (mut offset, end, limit) = (number("between offset "), number(" and "), number("limit \""));
    let mut whole = before.to_owned();
    while offset < end {
        let limit = limit.min(end - offset);
        let part = client.text("read", json!({"session": "@work", "offset": offset, "limit": limit}));
        let (part, next) = part.rsplit_once("[next offset: ").unwrap();
        whole += part;
        offset = next.trim_end_matches("]\n").parse().unwrap();
    }
    let expected: String = (100_000..200_000).map(|number| format!("{number}\n")).collect();
    let without_newlines = |text: &str| text.replace('\n', "");
    assert_eq!(without_newlines(&(whole + behind)), without_newlines(&expected));

    let read = client.text("read", json!({"session": "@work"}));
    assert!(read.len() <= 10_000, "{}", read.len());
    let screen = client.text("screen", json!({"session": "@work", "scrollback": 2000}));
    assert!(screen.len() <= 10_300 && screen.contains("199999"), "{}", screen.len());
    assert!(screen.lines().last().unwrap().contains("call `read`"), "{screen}");
    let more = client.text("run", json!({"session": "@work", "command": "seq 100000 109999", "max": "2M"}));
    assert_eq!(more.lines().count(), 10_000);
    client.is_well();
}

#[test]
fn an_answer_is_structure_for_a_client_that_reads_that() {
    let scratch = Scratch::new();
    let capabilities = json!({"experimental": {STRUCTURE: {}}});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}});
    let mut of_handshake = Client::start(&scratch, &[]);
    of_handshake.stateless = false;
    of_handshake.ask("initialize", params);
    let mut by_option = Client::start(&scratch, &["--structured"]);
    let mut by_request = Client::start(&scratch, &[]);
    by_request.capabilities = capabilities;
    for client in [&mut of_handshake, &mut by_option, &mut by_request] {
        let listed = client.call("list", json!({}));
        assert_eq!(listed["structuredContent"], json!({"sessions": []}));
        let failed = client.call("run", json!({"session": "@none", "command": "ls"}));
        assert_eq!((&failed["isError"], &failed["structuredContent"]["exit"]), (&json!(true), &json!(125)));
        assert!(
            failed["structuredContent"]["error"].as_str().unwrap().contains("the tool `list`"),
            "{failed}"
        );
        client.is_well();
    }
    // Each request has its own capabilities.
    by_request.capabilities = json!({});
    assert_eq!(by_request.text("list", json!({})), "no sessions");
}

#[test]
fn a_secret_does_not_go_through_a_model() {
    let (scratch, mut client) = started();
    client.shell();
    let ask = json!({"session": "@work", "text": "read -s -p 'Password: ' word"});
    client.text("send", ask);
    let met = client.text("wait", json!({"sessions": ["@work"], "input": true}));
    assert!(met.ends_with("\tinput\tsecret\n"), "{met}");
    let handle = &met[..8];
    for arguments in [
        json!({"session": "@work", "text": "hunter2"}),
        json!({"session": "@work", "text": "hunter2", "paste": true, "no_enter": true}),
        json!({"session": "@work", "keys": ["h", "u", "n"]}),
        json!({"session": "@work", "text": "hunter2", "keys": ["Enter"]}),
    ] {
        let said = client.failure("send", arguments);
        assert!(said.contains(&format!("nbs-ts send --secret-stdin {handle}")), "{said}");
    }
    let typed = scratch.ts_with_input(&["send", "--secret-stdin", handle], b"by the user\n");
    typed.code(0);
    client.text("wait", json!({"sessions": ["@work"], "complete": true, "input": true}));
    assert_eq!(client.text("run", json!({"session": "@work", "command": "echo $word"})), "by the user\n");
    client.text("send", json!({"session": "@work", "text": "read -s word"}));
    client.text("wait", json!({"sessions": ["@work"], "input": true}));
    client.text("send", json!({"session": "@work", "keys": ["C-c"]}));
    assert_eq!(client.text("run", json!({"session": "@work", "command": "echo free"})), "free\n");
}
