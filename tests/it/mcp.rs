//! nbs-mcp, by a client of the test's own. Every line that the server prints must be a message of
//! the protocol, in every test.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, ChildStdin, ExitStatus, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::{Value, json};

use crate::support::{PATIENCE, Scratch, eventually, is_running, run};

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
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
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
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
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
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
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
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
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
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
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
    let (mut offset, end, limit) = (number("between offset "), number(" and "), number("limit "));
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
fn calls_run_side_by_side() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    client.shell();
    let waits = client.begin("wait", json!({"sessions": ["@work"], "pattern": ["marker"]}));
    let runs = client.begin("run", json!({"session": "@work", "command": "echo mar''ker"}));
    let lists = client.begin("list", json!({}));
    for id in [lists, runs, waits] {
        assert_eq!(client.answer(id)["result"]["isError"], false);
    }
    let many: Vec<i64> = (0..40).map(|_| client.begin("list", json!({}))).collect();
    for id in many {
        assert_eq!(client.answer(id)["result"]["isError"], false);
    }
    client.is_well();
}

#[test]
fn more_calls_at_once_than_it_executes_are_told_to_wait() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    client.shell();
    let wait = json!({"sessions": ["@work"], "pattern": ["marker"]});
    let calls: Vec<i64> = (0..64).map(|_| client.begin("wait", wait.clone())).collect();
    let said = client.failure("list", json!({}));
    assert!(said.contains("64 calls are running"), "{said}");
    for id in calls {
        client.notify("notifications/cancelled", json!({"requestId": id}));
    }
    eventually("the end of the calls", || client.calls().is_empty());
    client.is_well();
}

#[test]
fn a_call_that_is_cancelled_ends_and_its_session_does_not() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    client.shell();
    let id = client.begin("wait", json!({"sessions": ["@work"], "pattern": ["never"], "timeout": "1h"}));
    eventually("a call", || client.calls().len() == 1);
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "no more"}));
    eventually("the end of the call", || client.calls().is_empty());

    let id = client.begin("run", json!({"session": "@work", "command": "touch begun; sleep 1000; echo no"}));
    eventually("the command", || scratch.path.join("begun").exists());
    client.notify("notifications/cancelled", json!({"requestId": id}));
    // An unknown id, and an invalid one.
    client.notify("notifications/cancelled", json!({"requestId": 10_000}));
    client.notify("notifications/cancelled", json!({"requestId": {}}));
    assert_eq!(client.text("run", json!({"session": "@work", "command": "echo still here"})), "still here\n");
    client.is_well();
}

#[test]
fn subscriptions_are_acknowledged_and_can_be_cancelled() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    let wanted = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["file:///x"]}});
    for _ in 0..2 {
        let ids: Vec<i64> = (0..64).map(|_| client.request("subscriptions/listen", wanted.clone())).collect();
        for id in &ids {
            let told = client.next("the acknowledgment", |message| message["method"].is_string());
            assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
            assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], *id);
            assert_eq!(told["params"]["notifications"], json!({}));
        }
        assert_eq!(client.ask("subscriptions/listen", wanted.clone())["error"]["code"], -32603);
        for id in ids {
            client.notify("notifications/cancelled", json!({"requestId": id}));
        }
        client.is_well();
    }
}

#[test]
fn a_long_call_tells_its_progress() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    client.shell();
    let arguments = json!({"sessions": ["@work"], "pattern": ["marker"]});
    let params = json!({"name": "wait", "arguments": arguments, "_meta": {"progressToken": "a \"token\""}});
    let id = client.request("tools/call", params);
    let mut before = 0;
    for _ in 0..2 {
        let told = client.next("progress", |message| message["method"] == "notifications/progress");
        assert_eq!(told["params"]["progressToken"], "a \"token\"");
        let progress = told["params"]["progress"].as_i64().unwrap();
        assert!(progress > before, "{told}");
        before = progress;
    }
    client.text("run", json!({"session": "@work", "command": "echo mar''ker"}));
    assert_eq!(client.answer(id)["result"]["isError"], false);
    client.heard.clear();
    client.is_well();
}

#[test]
fn when_the_client_goes_what_runs_in_sessions_goes_on() {
    let scratch = Scratch::new();
    let gate = scratch.path.join("gate");
    // It says so, is killed, or is interrupted by a terminal, with all its processes.
    for signal in [None, Some("-KILL"), Some("-INT")] {
        let mut client = Client::start(&scratch, &[]);
        client.text("create", json!({"command": "bash", "name": "work"}));
        let script = "touch begun; until test -e gate; do sleep 0.1; done; touch done";
        client.begin("run", json!({"session": "@work", "command": script}));
        eventually("the command", || scratch.path.join("begun").exists());
        client.begin("wait", json!({"sessions": ["@work"], "pattern": ["never"], "timeout": "1h"}));
        eventually("both calls", || client.calls().len() == 2);
        let calls = client.calls();
        if let Some(signal) = signal {
            let group = format!("-{}", client.server.id());
            run(scratch.command("kill").args([signal, "--", &group])).code(0);
        }
        let (last, status) = client.end();
        assert!(last.is_empty() && (signal.is_some() || status.code() == Some(0)), "{last:?} {status}");
        eventually("the end of the calls", || !calls.iter().any(|pid| is_running(pid)));
        fs::write(&gate, "").unwrap();
        eventually("the end of the command", || scratch.path.join("done").exists());
        // The next one finds the session as if nothing had been.
        let mut client = Client::start(&scratch, &[]);
        assert_eq!(client.text("run", json!({"session": "@work", "command": "echo on"})), "on\n");
        client.text("kill", json!({"sessions": ["@work"]}));
        for file in ["begun", "gate", "done"] {
            fs::remove_file(scratch.path.join(file)).unwrap();
        }
    }
}

#[test]
fn brief_calls_are_answered_though_the_input_has_ended() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    client.begin("create", json!({"command": "sleep 1000", "name": "one"}));
    let subscription =
        client.request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let (said, status) = client.end();
    assert_eq!(status.code(), Some(0));
    let told = |part: &str| said.iter().any(|message| message.to_string().contains(part));
    assert!(told("helper not running") && told("notifications/subscriptions/acknowledged"), "{said:?}");
    let over = said.iter().find(|message| message["id"] == subscription).unwrap();
    assert_eq!(over["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], subscription);
    scratch.ts(&["find", "one"]).code(0);
    // Nor is a command's result lost, if the command is short.
    let mut client = Client::start(&scratch, &[]);
    client.text("create", json!({"command": "bash", "name": "work"}));
    client.text("run", json!({"session": "@work", "command": "true"}));
    client.begin("run", json!({"session": "@work", "command": "echo said"}));
    let (said, _) = client.end();
    assert!(said.iter().any(|message| message.to_string().contains("\"said\\n\"")), "{said:?}");
}

#[test]
fn no_call_keeps_the_server_when_its_client_has_gone() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    // More than a terminal takes, for a program that never reads.
    let typed = scratch.path.join("typed");
    client.text(
        "create",
        json!({"command": format!("stty raw; touch {}; exec sleep 1000", typed.display()), "name": "deaf"}),
    );
    eventually("the terminal", || typed.exists());
    client.begin("send", json!({"session": "@deaf", "text": "x".repeat(1 << 20), "timeout": "1h"}));
    eventually("the call", || client.calls().len() == 1);
    let calls = client.calls();
    let (said, status) = client.end();
    assert_eq!((said, status.code()), (Vec::new(), Some(0)));
    assert!(!calls.iter().any(|pid| is_running(pid)), "{calls:?}");
    scratch.ts(&["find", "deaf"]).code(0);
}

#[test]
fn sessions_end_with_the_server_only_where_that_is_asked_for() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &["--owner"]);
    client.text("create", json!({"command": "bash", "name": "owned"}));
    let handle = scratch.ts(&["find", "owned"]).code(0).out().trim().to_owned();
    drop(client);
    scratch.wait_for_end(&handle);
    let exit = scratch.file(&handle, "exit.json");
    assert!(exit.contains("\"ended_by\":\"owner\""), "{exit}");
}

#[test]
fn a_secret_does_not_go_through_a_model() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
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

#[test]
fn several_messages_may_come_as_one_in_the_version_that_has_that() {
    let scratch = Scratch::new();
    let mut client = Client::of_version(&scratch, "2025-03-26");
    client.shell();
    let call = |id: i64, tool: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let batch = json!([
        call(100, "run", json!({"session": "@work", "command": "echo one"})),
        call(101, "list", json!({})),
        {"jsonrpc": "2.0", "method": "notifications/none"},
        {"jsonrpc": "2.0", "id": 102, "method": "none"},
        7,
    ]);
    client.write(format!("{batch}\n").as_bytes());
    let answers = client.next("a batch", Value::is_array);
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 4, "{answers:?}");
    let of = |id: i64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(text(&of(100)["result"]), "one\n");
    assert_eq!(of(101)["result"]["isError"], false);
    assert_eq!(of(102)["error"]["code"], -32601);

    // All that was wanted of this one is wanted no more.
    let batch = json!([call(110, "wait", json!({"sessions": ["@work"], "pattern": ["never"]}))]);
    client.write(format!("{batch}\n").as_bytes());
    eventually("a call", || client.calls().len() == 1);
    client.notify("notifications/cancelled", json!({"requestId": 110}));
    eventually("its end", || client.calls().is_empty());
    client.write(b"[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/none\"}]\n");
    client.is_well();
    let mut client = Client::of_version(&scratch, "2025-11-25");
    client.write(b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n");
    let refused = client.next("a refusal", |message| message["error"]["code"] == -32600);
    assert!(refused.get("id").is_none(), "{refused}");
    client.is_well();
}

#[test]
fn no_message_is_too_bad() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    client.shell();
    let parse_error = |message: &Value| message["error"]["code"] == -32700 && message.get("id").is_none();
    let deep = "[".repeat(10 << 20);
    let cases: [&[u8]; 6] = [b"{", b"\xff\xfe", b"\0", b"{\"id\":1", b"\"\\ud800\"", deep.as_bytes()];
    for bytes in cases {
        client.write(bytes);
        client.write(b"\n");
        client.next("a parse error", parse_error);
    }
    // Nothing is nothing, also with the line's end of another system.
    client.write(b"\n \r\n\r\n");
    client.is_well();

    // 10 MB are typed unchanged, and a senselessly long text is discarded.
    let file = scratch.path.join("typed");
    let text = "0123456789abcde\n".repeat(10 << 16);
    client.text("run", json!({"session": "@work", "command": format!("cat > typed <<'end'\n{text}end\n")}));
    assert_eq!(fs::read_to_string(file).unwrap(), text);
    let (long, many) = ("x".repeat(40 << 20), "[],".repeat(3 << 20));
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"{long}\"}}\n");
    let many = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"none\",\"params\":{{\"a\":[{many}0]}}}}\n");
    let mut sizes = Vec::new();
    for _ in 0..6 {
        client.write(long.as_bytes());
        client.next("a refusal", |message| message["error"]["code"] == -32600);
        client.write(many.as_bytes());
        client.is_well();
        sizes.push(client.memory());
    }
    // The next request reuses the memory of one, but for the gaps between: if the memory were kept, that
    // would be 9 MB more a round.
    assert!(sizes[5] < sizes[1] + 32_768, "{sizes:?} kB");

    let wait = client.begin("wait", json!({"sessions": ["@work"], "pattern": ["marker"]}));
    client.last_id -= 1;
    assert_eq!(client.ask("tools/list", json!({}))["error"]["code"], -32600);
    client.text("run", json!({"session": "@work", "command": "echo mar''ker"}));
    assert_eq!(client.answer(wait)["result"]["isError"], false);
    client.is_well();
}

#[test]
fn whatever_comes_the_next_request_is_answered() {
    let rounds = std::env::var("NBS_ROUNDS").ok().map_or(300, |rounds| rounds.parse().unwrap());
    let seeds = match std::env::var("NBS_SEED") {
        Ok(seed) => seed.parse().unwrap()..seed.parse::<u64>().unwrap() + 1,
        Err(_) => 0..rounds,
    };
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
    for seed in seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let tool = ["list", "screen", "read", "kill", "wait", "create"][random.usize(..6)];
        let arguments = json!({"session": "@none", "sessions": ["@none"], "offset": 3, "exit": true});
        let right = json!({"jsonrpc": "2.0", "id": "right", "method": "tools/call", "params": {"name": tool, "arguments": arguments, "_meta": meta}});
        let mut frame = right.to_string().into_bytes();
        for _ in 0..random.usize(1..8) {
            let at = random.usize(..frame.len());
            match random.u8(..4) {
                0 => frame[at] = random.u8(..),
                1 => frame.insert(at, *random.choice(b"{}[]\",:\n\\0e-").unwrap()),
                2 => drop(frame.drain(at..frame.len().min(at + 5))),
                _ => frame.extend_from_within(at..),
            }
            if frame.is_empty() {
                break;
            }
        }
        frame.push(b'\n');
        client.write(&frame);
        let id = client.request("tools/list", json!({}));
        let answer = client.answer(id);
        assert!(answer["result"]["tools"].is_array(), "seed {seed}: {answer}");
        client.heard.clear();
    }
    let (_, status) = client.end();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody_but_itself() {
    let scratch = Scratch::new();
    let mut command = scratch.applet("nbs-mcp");
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}});
        for id in 0..500 {
            let request =
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {"_meta": meta}});
            stdin.write_all(format!("{request}\n").as_bytes()).unwrap();
        }
    });
    let pipe = fs::File::open(format!("/proc/{}/fd/0", server.id())).unwrap();
    eventually("the server to read no more", || {
        // Bytes in the pipe stay there, however often we look.
        let unread = || rustix::io::ioctl_fionread(&pipe).unwrap();
        let first = unread();
        first > 0 && (0..50).all(|_| unread() == first)
    });
    drop(pipe);
    let answers = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap).count();
    writer.join().unwrap();
    assert_eq!((answers, server.wait().unwrap().code()), (500, Some(0)));
    // A reader that has gone is the end, as for every command.
    let mut command = scratch.applet("nbs-mcp");
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop(server.stdout.take());
    let mut stdin = server.stdin.take().unwrap();
    stdin.write_all(b"{}\n").unwrap();
    let status = server.wait().unwrap();
    assert_eq!(status.signal(), Some(13), "{status}");
}

#[test]
fn a_command_that_asks_is_told_of_and_gone_on_with() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    client.text("create", json!({"command": "bash", "name": "work"}));
    let asks =
        json!({"session": "@work", "command": "read -p 'Go? ' x; echo \"got $x\"", "input_after": "200ms"});
    let asked = client.text("run", asks);
    assert!(
        asked.starts_with("Go? ") && asked.contains("waits for input") && asked.contains("line"),
        "{asked}"
    );
    client.text("send", json!({"session": "@work", "text": "on"}));
    assert_eq!(client.text("run", json!({"session": "@work", "resume": true})), "got on\n");
}

/// The task, when it is like that.
fn task_when(client: &mut Client, id: &Value, status: &str) -> Value {
    let mut task = Value::Null;
    eventually(&format!("a task that is {status}"), || {
        task = client.ask("tasks/get", json!({"taskId": id}))["result"].clone();
        assert_eq!(task["resultType"], "complete", "{task}");
        task["status"] == status
    });
    task
}

#[test]
fn a_call_that_takes_long_is_a_task_for_a_client_that_has_those() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    client.shell();
    let slow = json!({"session": "@work", "command": "until test -e gate; do sleep 0.1; done; echo late"});
    // A client that does not declare them gets none, and may not ask for any.
    let waits = client.begin("wait", json!({"sessions": ["@work"], "pattern": ["marker"], "timeout": "1h"}));
    let refused = client.ask("tasks/get", json!({"taskId": "x"}))["error"].clone();
    assert_eq!(
        (&refused["code"], &refused["data"]["requiredCapabilities"]["extensions"][TASKS]),
        (&json!(-32021), &json!({}))
    );

    client.capabilities = json!({"extensions": {TASKS: {}}});
    assert_eq!(client.text("run", json!({"session": "@work", "command": "echo brief"})), "brief\n");
    let id = client.begin("run", slow);
    let created = client.answer(id)["result"].clone();
    assert_eq!(
        (&created["resultType"], &created["status"]),
        (&json!("task"), &json!("working")),
        "{created}"
    );
    let task = created["taskId"].clone();
    assert!(task.as_str().is_some_and(|id| id.len() == 32) && created["createdAt"].is_string(), "{created}");
    assert!(created["ttlMs"].is_u64() && created["pollIntervalMs"].is_u64());
    task_when(&mut client, &task, "working");
    fs::write(scratch.path.join("gate"), "").unwrap();
    let done = task_when(&mut client, &task, "completed");
    assert_eq!((text(&done["result"]), &done["result"]["isError"]), ("late\n", &json!(false)));
    client.text("run", json!({"session": "@work", "command": "echo mar''ker"}));
    assert_eq!(client.answer(waits)["result"]["isError"], false);
    assert_eq!(client.ask("tasks/get", json!({"taskId": "none"}))["error"]["code"], -32602);

    let wait = json!({"sessions": ["@work"], "pattern": ["never"], "timeout": "1h"});
    let id = client.begin("wait", wait);
    let task = client.answer(id)["result"]["taskId"].clone();
    assert_eq!(client.ask("tasks/cancel", json!({"taskId": task}))["result"]["resultType"], "complete");
    task_when(&mut client, &task, "cancelled");
    eventually("the end of the call", || client.calls().is_empty());
    client.is_well();
}

#[test]
fn a_task_asks_the_user_what_its_command_asks() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    client.shell();
    client.capabilities = json!({"extensions": {TASKS: {}}, "elicitation": {"form": {}}});
    let asks = |command: &str| json!({"session": "@work", "command": command, "input_after": "200ms"});
    let begin = |client: &mut Client, command| {
        let id = client.begin("run", asks(command));
        client.answer(id)["result"].clone()
    };
    let created = begin(&mut client, "read -p 'Go? ' x; read -p 'Sure? ' y; echo \"got $x $y\"");
    assert_eq!(created["status"], "input_required", "{created}");
    let task = &created["taskId"];
    for (question, key, answer) in [("Go?", "question-1", "on"), ("Sure?", "question-2", "yes")] {
        let mut told = Value::Null;
        eventually(question, || {
            told = client.ask("tasks/get", json!({"taskId": task}))["result"]["inputRequests"][key].clone();
            told["params"]["message"] == question
        });
        assert_eq!(
            (&told["method"], &told["params"]["mode"]),
            (&json!("elicitation/create"), &json!("form"))
        );
        assert_eq!(told["params"]["requestedSchema"]["required"], json!(["answer"]));
        // An answer to another question does not count.
        for key in ["question-0", key, key] {
            let answers = json!({key: {"action": "accept", "content": {"answer": answer}}});
            let told = client.ask("tasks/update", json!({"taskId": task, "inputResponses": answers}));
            assert_eq!(told["result"]["resultType"], "complete", "{told}");
        }
    }
    let done = task_when(&mut client, task, "completed");
    assert!(text(&done["result"]).ends_with("got on yes\n"), "{done}");

    // If the user does not answer, the model gets the question, as without tasks.
    let created = begin(&mut client, "read -p 'Go? ' x; echo \"got $x\"");
    let answers = json!({"question-1": {"action": "decline"}});
    client.ask("tasks/update", json!({"taskId": created["taskId"], "inputResponses": answers}));
    let declined = task_when(&mut client, &created["taskId"], "completed");
    assert!(text(&declined["result"]).contains("the tool `run` with resume=true"), "{declined}");
    client.text("send", json!({"session": "@work", "text": "on"}));
    assert_eq!(client.text("run", json!({"session": "@work", "resume": true})), "got on\n");
    // A secret does not go through a client.
    let asked = client.text("run", asks("read -s -p 'Password: ' x"));
    assert!(asked.contains("nbs-ts send --secret-stdin"), "{asked}");
    client.text("send", json!({"session": "@work", "keys": ["C-c"]}));
    client.is_well();
}

#[test]
fn send_answers_the_question_of_a_program() {
    let scratch = Scratch::new();
    let mut client = Client::start(&scratch, &[]);
    client.text(
        "create",
        json!({"command": "read -p 'Go on? [y/N] ' x; echo \"got $x\"; read z", "name": "asks"}),
    );
    client.text("wait", json!({"sessions": ["@asks"], "waiting": true}));
    let listed = client.text("list", json!({"waiting": true}));
    assert!(listed.contains("waiting: Go on? [y/N] (y | n)"), "{listed}");
    let said = client.failure("send", json!({"session": "@asks", "answer": "yes", "keys": ["Enter"]}));
    assert!(said.contains("cannot answer and type"), "{said}");
    client.failure("send", json!({"session": "@asks", "answer": "yes", "question_id": "none"}));
    assert_eq!(client.text("send", json!({"session": "@asks", "answer": "yes"})), "answered: y\n");
    client.text("wait", json!({"sessions": ["@asks"], "pattern": ["got y"]}));
    client.is_well();
}
