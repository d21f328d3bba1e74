//! The sessions of other machines.

use super::*;
use std::{
    io::Lines,
    process::{ChildStdin, ChildStdout},
};

#[test]
fn the_sessions_of_another_machine_are_shown_and_used_as_those_here() {
    let there = Elsewhere::new();
    let here = there.scratch.create_with(&["--name=here"], "cat");
    let cat = there.create("seq 100; stty -echo; echo ready; cat");
    let prints = there.create("i=0; while read -r x; do i=$((i+1)); echo line $i; done");
    let page = Page::start_with(&there.scratch, &["--on=all"]);
    let mut wall = page.open("");
    wall.until_about(&here, |about| about["activity"] == "waiting");
    let about = wall.until_about(&cat, |about| about["activity"] == "waiting");
    assert_eq!((&about["name"], &about["state"]), (&Value::Null, &json!("alive")));
    let fields = |about: &Value| about.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&about), fields(&wall.until_about(&here, |_| true)));
    // The page follows its screen on the wall, and that of an enlarged session.
    wall.until_text(&cat, "ready");
    let mut large = page.open(&format!("focus={prints}"));
    for number in 1..=3 {
        page.type_in(&prints, "line", "");
        large.until_text(&prints, &format!("line {number}"));
        wall.until_text(&prints, &format!("line {number}"));
    }
    assert!(large.text(&cat).is_empty());
    page.type_in(&cat, "line", "é 漢 <b>");
    wall.until_text(&cat, "é 漢 <b>");
    let (status, answer) = page.ask("GET", &format!("/sessions/{cat}/scrollback"), "");
    assert!(status == 200 && answer.contains("[\"17\"],[\"18\"]"), "{answer}");
    let secret = |session: &str| page.ask("POST", &format!("/sessions/{session}/secret"), "horse").1;
    assert!(secret(&prints).ends_with("{\"typed\":false}\n"));
    eventually("the secret being taken", || secret(&cat).ends_with("{\"typed\":true}\n"));
    wall.until_text(&cat, "horse");
    let (status, answer) = page.ask("POST", &format!("/sessions/{cat}/keys"), "Nothing");
    assert!(status == 400 && answer.contains("\"the body is invalid for this path\""), "{answer}");
    assert_eq!(page.ask("POST", "/sessions/box:00000000/line", "x").0, 404);
    page.type_in(&cat, "keys", "C-c");
    let receipt = wall.until_about(&cat, |about| about["receipt"].is_object());
    assert_eq!((&receipt["state"], &receipt["receipt"]["signal"]), (&json!("dead"), &json!("SIGINT")));
    assert_eq!(page.ask("POST", &format!("/sessions/{cat}/line"), "x").0, 410);
    let new = there.create("echo new; cat");
    wall.until_text(&new, "new");
    there.ts(&["kill", &cat]).code(0);
    wall.until(|event| event["gone"] == *cat);
    // A machine by itself, and a page that has received a part of it already.
    drop((wall, large, page));
    let page = Page::start_with(&there.scratch, &["--on=box"]);
    let mut wall = page.open("");
    wall.until_text(&new, "new");
    let again = wall.until_about(&prints, |about| about["activity"] == "waiting");
    assert_eq!(again["command"], "i=0; while read -r x; do i=$((i+1)); echo line $i; done");
    assert!(!wall.abouts.iter().any(|(handle, _)| *handle == here));
}

#[test]
fn a_port_of_another_machine_is_reached_through_this_one() {
    let there = Elsewhere::new();
    let handle = there.create(SERVER);
    let page = Page::start_with(&there.scratch, &["--on=box"]);
    let mut wall = page.open("");
    wall.until_about(&handle, |about| about["state"] == "alive");
    let port = &ports(&page, &handle)[0][0];
    let reach = || {
        let (status, answer) = page.ask("POST", &format!("/sessions/{handle}/reach"), port);
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str::<Value>(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let here = reach()["port"].as_u64().unwrap() as u16;
    assert_ne!(here.to_string(), *port);
    let mut stream = TcpStream::connect(("127.0.0.1", here)).unwrap();
    stream.write_all(b"a line").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "got a line");
    // The same one again, and others not.
    assert_eq!(reach()["port"].as_u64(), Some(here.into()));
    for bad in ["", "x", "0", "70000"] {
        let (status, answer) = page.ask("POST", &format!("/sessions/{handle}/reach"), bad);
        assert_eq!(status, 400, "{bad}");
        assert!(
            answer.ends_with("{\"error\":\"the port is not a number from 1 to 65535\"}\n"),
            "{bad}: {answer}"
        );
    }
    drop(page);
    eventually("the end of the forward", || TcpStream::connect(("127.0.0.1", here)).is_err());
}

#[test]
fn a_forward_ends_even_if_its_page_is_killed() {
    let there = Elsewhere::new();
    let handle = there.create(SERVER);
    let mut page = Page::start_with(&there.scratch, &["--on=box"]);
    let mut wall = page.open("");
    wall.until_about(&handle, |about| about["state"] == "alive");
    let port = &ports(&page, &handle)[0][0];
    let (status, answer) = page.ask("POST", &format!("/sessions/{handle}/reach"), port);
    let told: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let here = told["port"].as_u64().unwrap() as u16;
    assert!(status == 200 && TcpStream::connect(("127.0.0.1", here)).is_ok());
    page.server.kill().unwrap();
    page.server.wait().unwrap();
    // Nothing is left to be ended.
    std::mem::forget(page);
    eventually("the end of the forward", || TcpStream::connect(("127.0.0.1", here)).is_err());
}

#[test]
fn a_machine_that_cannot_be_reached_says_so_and_is_back_when_it_is() {
    let there = Elsewhere::unadded();
    let script = format!("test -e {0}/down && exit 1; HOME={0} exec sh", there.home.display());
    there.add(&["sh", "-c", &script]);
    let far = there.create("echo far; cat");
    let here = there.scratch.create_with(&["--name=here"], "echo here; cat");
    let page = Page::start_with(&there.scratch, &["--on=all"]);
    let mut wall = page.open("");
    wall.until_text(&far, "far");
    // For good, as far as is known: requests in between report it, too.
    fs::write(there.home.join("down"), "").unwrap();
    let pids: Vec<String> = [there.processes(), there.bridges()].concat();
    let far_side =
        pids.into_iter().filter(|pid| ["nbs-far", "nbs-bridge"].contains(&&*crate::machines::name_of(pid)));
    // All at once, before one of them does anything about the end of another.
    run(Command::new("kill").arg("-KILL").args(far_side)).code(0);
    let missing = wall.until_about("box:", |about| about["word"] == "not reached");
    assert!(
        missing["name"] == "box" && missing["question"].as_str().is_some_and(|why| !why.is_empty()),
        "{missing}"
    );
    // Those here are shown as ever.
    page.type_in(&here, "line", "still");
    wall.until_text(&here, "still\nstill");
    fs::remove_file(there.home.join("down")).unwrap();
    // The next call lists its sessions first, so none goes and comes again.
    wall.until(|event| {
        assert_ne!(event["gone"], *far);
        event["gone"] == "box:"
    });
    page.type_in(&far, "line", "back");
    wall.until_text(&far, "back\nback");
}

#[test]
fn a_machine_that_ends_each_call_at_once_is_missing_all_the_time() {
    let there = Elsewhere::new();
    let far = there.create("echo far; cat");
    let state = there.home.join(".nbs-ts");
    let set_mode =
        |folder: &Path, mode| fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(&state, 0o777);
    let page = Page::start_with(&there.scratch, &["--on=box"]);
    let mut wall = page.open("");
    let asks = |about: &Value, part: &str| about["question"].as_str().is_some_and(|why| why.contains(part));
    wall.until_about("box:", |about| asks(about, "others may write to it"));
    // The next call has another reason, which shows that it was made.
    set_mode(&state.join("sessions"), 0o777);
    set_mode(&state, 0o700);
    wall.until(|event| {
        assert_ne!(event["gone"], "box:");
        asks(&event["about"], "'sessions': others may write to it")
    });
    set_mode(&state.join("sessions"), 0o700);
    wall.until(|event| event["gone"] == "box:");
    wall.until_text(&far, "far");
}

/// The call of another machine's page.
struct PageCall {
    call: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl PageCall {
    fn begin(scratch: &Scratch) -> PageCall {
        let mut call = scratch.applet("nbs-ts");
        call.arg0("nbs-call").args([&std::process::id().to_string(), "pipes", "page"]);
        let mut call = call.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(call.stdout.take().unwrap()).lines();
        PageCall { orders: call.stdin.take().unwrap(), lines, call }
    }

    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let told = serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap();
            if is_it(&told) {
                return told;
            }
        }
    }
}

#[test]
fn another_machines_page_gets_what_list_prints_of_what_it_shows() {
    let (scratch, ended) = Scratch::with_session("echo over; exit 5");
    scratch.wait_for_end(&ended);
    let command =
        format!("printf '\\033]2;a title\\007Go on? '; read x; exec sleep 1000 # {}", "long ".repeat(1_000));
    let asks = scratch.create_with(&["--name=asks", "--description=d"], &command);
    let mut call = PageCall::begin(&scratch);
    let is_as_listed = |told: &Value| {
        let list = scratch.ts(&["list", "--json"]).code(0).out();
        let handle = told["handle"].as_str().unwrap();
        let listed = list.lines().find(|line| line.contains(handle)).unwrap();
        let listed: Value = serde_json::from_str(listed).unwrap();
        for (name, value) in told.as_object().unwrap() {
            let as_told = |value: &Value| (name != "input" && name != "command").then(|| value.clone());
            assert_eq!((name, as_told(value)), (name, as_told(&listed[name])), "{told}");
        }
    };
    let all = call.until(|_| true);
    assert_eq!(all, json!({ "sessions": [ended, asks] }));
    let told = call.until(|told| told["handle"] == *ended);
    is_as_listed(&told);
    assert_eq!((&told["exit_code"], &told["command"]), (&json!(5), &json!("echo over; exit 5")));
    let told = call.until(|told| told["activity"] == "waiting");
    is_as_listed(&told);
    assert_eq!(told["question"], "Go on?");
    assert_eq!(told["command"], format!("{}…", &command[..500]));
    assert!(told["description"].is_null() && told["input"].is_null(), "{told}");
    // A screen is sent when it is shown there.
    call.orders.write_all(format!("{{\"wall\":false,\"large\":[\"{asks}\"]}}\n").as_bytes()).unwrap();
    let shown = call.until(|told| told["screen_of"].is_string());
    assert_eq!((&shown["screen_of"], &shown["screen"]["title"]), (&json!(asks), &json!("a title")));
    // Nobody reads meanwhile.
    scratch.ts(&["report", &asks, "failed", "no disk"]).code(0);
    for _ in 0..10 {
        scratch.ts(&["kill", &scratch.create("seq 1000; cat")]).code(0);
    }
    let told = call.until(|told| told["activity"] == "failed");
    assert_eq!(told["report"]["text"], "no disk");
    scratch.ts(&["kill", &asks]).code(0);
    let told = call.until(|told| told["state"] == "removed" && told["handle"] == *asks);
    assert_eq!(told, json!({"handle": asks, "state": "removed"}));
    let PageCall { mut call, orders, lines } = call;
    drop((orders, lines));
    assert!(call.wait().unwrap().success());
}

#[test]
fn another_machines_page_gets_a_question_that_comes_while_its_session_waits() {
    let scratch = Scratch::new();
    let gate = scratch.path.join("gate");
    run(Command::new("mkfifo").arg(&gate)).code(0);
    let asks = scratch.create(&format!("cat {} & printf 'Old? [y/n] '; read x", gate.display()));
    let mut call = PageCall::begin(&scratch);
    let old = call.until(|told| told["question"] == "Old? [y/n]");
    fs::write(&gate, "\nNew? [yes/no] ").unwrap();
    let new = call.until(|told| told["question"] == "New? [yes/no]");
    assert_eq!((&new["handle"], &new["choices"]), (&json!(asks), &json!(["yes", "no"])));
    assert_eq!((&new["activity"], &new["since"]), (&old["activity"], &old["since"]));
    let status = scratch.ts(&["status", "--json", &asks]).code(0).out();
    assert_eq!(new["question_id"], serde_json::from_str::<Value>(&status).unwrap()["question_id"]);
    let PageCall { mut call, orders, lines } = call;
    drop((orders, lines));
    assert!(call.wait().unwrap().success());
}
