//! A secret is typed on a page, and passes through no client.

use super::*;
use crate::page::Page;

/// Asks for a secret twice, and for a line.
const ASKS: &str = "printf before; read -rsp 'Pass <b>: ' a; read -rsp 'Again: ' b; read -rp 'Go on? ' c; echo \"${#a} ${#b} $c\"";

impl Client {
    /// One that shows addresses to its user.
    fn with_urls(scratch: &Scratch) -> Client {
        let mut client = Client::start(scratch, &[]);
        client.stateless = false;
        let capabilities = json!({"elicitation": {"url": {}}});
        client.ask("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": capabilities}));
        client
    }

    /// The next request to show an address: its parameters, and the path.
    fn asked(&mut self) -> (Value, String) {
        let request = self.next("an address", |message| message["method"] == "elicitation/create");
        let params = &request["params"];
        assert_eq!((&params["mode"], &params["elicitationId"]), (&"url".into(), &request["id"]));
        let address = params["url"].as_str().unwrap().strip_prefix("http://127.0.0.1:").unwrap();
        (params.clone(), address[address.find('/').unwrap()..].to_owned())
    }

    fn respond(&mut self, id: &Value, action: &str) {
        let response = json!({"jsonrpc": "2.0", "id": id, "result": {"action": action}});
        self.write(format!("{response}\n").as_bytes());
    }
}

/// A request as a browser without the token of the page makes it.
fn browse(page: &Page, method: &str, path: &str, origin: &str, body: &str) -> (u16, String) {
    let (port, length) = (page.port(), body.len());
    page.say(format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{origin}Connection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    ))
}

fn enter(page: &Page, path: &str, secret: &str) -> (u16, String) {
    let origin = format!("Origin: http://127.0.0.1:{}\r\n", page.port());
    browse(page, "POST", path, &origin, &format!("s={secret}\r\n"))
}

#[test]
fn a_form_takes_one_secret_for_the_prompt_that_it_shows() {
    let (scratch, page) = Page::alone();
    let mut client = Client::with_urls(&scratch);
    client.shell();
    let handle = scratch.ts(&["find", "work"]).code(0).out().trim().to_owned();
    let call = client.begin("run", json!({"session": "@work", "command": ASKS}));
    let (first, path) = client.asked();
    let message = first["message"].as_str().unwrap();
    assert!(message.contains(&handle) && message.contains("Pass <b>:"), "{message}");
    client.respond(&first["elicitationId"], "accept");
    // It shows what is asked, as often as it is looked at, and gives access to nothing else.
    for site in ["", "Sec-Fetch-Site: cross-site\r\n"] {
        let (status, shown) = browse(&page, "GET", &path, site, "");
        assert_eq!(status, 200, "{shown}");
        assert!(
            shown.contains(&handle) && shown.contains("Pass &lt;b>:") && shown.contains("password"),
            "{shown}"
        );
        assert!(shown.contains("form-action 'self'") && !shown.contains("no-referrer"), "{shown}");
        assert!(!shown.contains("Set-Cookie"), "{shown}");
    }
    for other in ["/events", "/sessions/1/secret", "/secret/", "/secret/0123456789abcdef0123456789abcdef"] {
        assert!([401, 404].contains(&browse(&page, "GET", other, "", "").0), "{other}");
    }
    let mut wrong = path.clone().into_bytes();
    wrong[10] = if wrong[10] == b'0' { b'1' } else { b'0' };
    let wrong = String::from_utf8(wrong).unwrap();
    assert_eq!(browse(&page, "GET", &wrong, "", "").0, 404);
    assert_eq!(enter(&page, &wrong, "hunter2").0, 404);
    assert_eq!(browse(&page, "PUT", &path, "", "").0, 403);
    // Another site cannot enter anything, nor can a line with a control character.
    assert_eq!(browse(&page, "POST", &path, "Origin: http://evil.example\r\n", "s=evil\r\n").0, 403);
    assert_eq!(enter(&page, &path, "a\u{3}b").0, 400);
    let (status, shown) = enter(&page, &path, "hunter & 2+=%");
    assert_eq!(status, 200, "{shown}");
    assert!(!shown.contains("nter"), "{shown}");
    assert_eq!(enter(&page, &path, "hunter2").0, 404, "it was used");
    client.next("the end of it", |message| {
        message["method"] == "notifications/elicitation/complete"
            && message["params"]["elicitationId"] == first["elicitationId"]
    });
    // The call goes on, to the next secret; its user does not want to type that one.
    let (second, path) = client.asked();
    assert!(second["message"].as_str().unwrap().contains("Again:"), "{second}");
    client.respond(&second["elicitationId"], "decline");
    let answer = client.answer(call);
    let told = text(&answer["result"]);
    assert!(
        told.contains("before") && told.contains(&format!("nbs-ts send --secret-stdin {handle}")),
        "{told}"
    );
    assert_eq!(browse(&page, "GET", &path, "", "").0, 404, "nobody wants it");
    // Typed in another way, it is no longer asked for.
    let call = client.begin("run", json!({"session": "@work", "resume": true}));
    let (third, path) = client.asked();
    scratch.ts_with_input(&["send", "--secret-stdin", &handle], b"by hand\n").code(0);
    scratch.ts(&["wait", &handle, "--pattern=Go on?"]).code(0);
    for (status, told) in [browse(&page, "GET", &path, "", ""), enter(&page, &path, "hunter2")] {
        assert_eq!(status, 409, "{told}");
        assert!(told.contains("no longer asks"), "{told}");
    }
    // The form was used, though not for a secret; so the call goes on, to a question for the model.
    let answer = client.answer(call);
    assert!(text(&answer["result"]).contains("Go on?"), "{answer}");
    client.text("send", json!({"session": "@work", "text": "y"}));
    assert_eq!(client.text("run", json!({"session": "@work", "resume": true})), "13 7 y\n");
    assert_ne!(third["elicitationId"], second["elicitationId"]);
    assert!(!scratch.file(&handle, "output.log").contains("nter"));
    scratch.ts(&["doctor"]).code(0);
}

#[test]
fn a_client_without_addresses_or_a_page_leaves_a_secret_to_the_model() {
    let scratch = Scratch::new();
    let ask = json!({"session": "@work", "command": "read -rsp 'Password: ' a"});
    for has_urls in [false, true] {
        let mut client =
            if has_urls { Client::with_urls(&scratch) } else { Client::of_version(&scratch, "2025-11-25") };
        // No page is served for one of them, and only the other shows addresses.
        let page = (!has_urls).then(|| Page::start(&scratch));
        client.shell();
        let told = client.text("run", ask.clone());
        assert!(told.contains("nbs-ts send --secret-stdin "), "{told}");
        assert_eq!(told.contains("nbs-page"), has_urls, "{told}");
        client.text("kill", json!({"sessions": ["@work"]}));
        drop(page);
        client.is_well();
    }
}

#[test]
fn a_confined_process_enters_no_secret() {
    if !can_confine() {
        return;
    }
    let (scratch, page) = Page::alone();
    let mut client = Client::with_urls(&scratch);
    client.shell();
    client.begin("run", json!({"session": "@work", "command": "read -rsp 'Password: ' a"}));
    let (_, path) = client.asked();
    let root = scratch.path.join("jail");
    fs::create_dir(&root).unwrap();
    let (port, root) = (page.port(), root.display());
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n' >&3; head -1 <&3"
    );
    let confined =
        scratch.ts(&["create", &format!("--write-root={root}"), "--cwd", &root.to_string(), &script]);
    let confined = confined.code(0).out();
    scratch.ts(&["wait", confined.trim(), "--exit"]).code(0);
    let told = scratch.ts(&["read", confined.trim()]).code(0).out();
    assert!(told.contains("403 Forbidden"), "{told}");
    assert_eq!(browse(&page, "GET", &path, "", "").0, 200);
}
