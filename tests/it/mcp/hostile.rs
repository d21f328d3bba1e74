//! Invalid messages to nbs-mcp, and clients that do not read.

use super::*;

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
    let (scratch, mut client) = started();
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
    let (_scratch, mut client) = started();
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
