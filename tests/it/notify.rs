//! notify: it reports each wait, end and failure of a session once.

use std::{fs, process::Command};

use crate::{
    machines::Elsewhere,
    support::{Scratch, eventually, executable, field, links, run, signal, start, whole_lines},
};

const ASKS: &str = "printf 'Delete build/? [y/N] '; read x; printf 'sure? '; read y; exit 3";

/// The command's input, for each notice.
fn told(scratch: &Scratch) -> Vec<String> {
    let file = scratch.path.join("told");
    if file.exists() { whole_lines(&file) } else { Vec::new() }
}

fn events(scratch: &Scratch) -> Vec<String> {
    told(scratch).iter().map(|line| field(line, "event").trim_matches('"').to_owned()).collect()
}

/// Waits until the session waits. A call that waits for that would notify its caller, and so suppress the
/// notice.
fn waits(scratch: &Scratch, session: &str) {
    eventually("a question", || {
        scratch.ts(&["status", "--json", session]).code(0).field("activity") == "\"waiting\""
    });
}

#[test]
fn a_command_is_told_of_each_event_once() {
    let scratch = Scratch::new();
    let early = scratch.create_with(&["--name=early"], ASKS);
    waits(&scratch, &early);
    let command =
        r#"cat >>told; echo "$NBS_EVENT $NBS_HANDLE $NBS_NAME $NBS_TEXT" >>words; echo "$NBS_LINE" >>lines"#;
    let notify = scratch.start(&["notify", "--every=0", &format!("--command={command}")]);
    eventually("the first", || events(&scratch) == ["waiting"]);
    let first = &told(&scratch)[0];
    assert_eq!(field(first, "handle"), format!("\"{early}\""));
    assert_eq!(
        (field(first, "name"), field(first, "text")),
        ("\"early\"".into(), "\"Delete build/? [y/N]\"".into())
    );
    let file = |name: &str| fs::read_to_string(scratch.path.join(name)).unwrap_or_default();
    eventually("its words", || file("words") == format!("waiting {early} early Delete build/? [y/N]\n"));
    scratch.ts(&["answer", &early, "yes"]).code(0);
    eventually("the second", || events(&scratch).len() == 2);
    assert_eq!(field(&told(&scratch)[1], "text"), "\"sure?\"");
    scratch.ts(&["send", &early, "y"]).code(0);
    eventually("the end", || events(&scratch) == ["waiting", "waiting", "ended"]);
    assert_eq!(field(&told(&scratch)[2], "text"), "\"exit code 3\"");
    // A session's own report.
    let agent = scratch.create("exec sleep 1000");
    scratch.ts(&["report", &agent, "working"]).code(0);
    scratch.ts(&["report", &agent, "done", "all of it"]).code(0);
    eventually("that it is done", || events(&scratch).len() == 4);
    scratch.ts(&["report", &agent, "failed", "after all"]).code(0);
    eventually("that it has failed", || events(&scratch).len() == 5);
    let both = format!("{agent} done: all of it\n{agent} failed: after all\n");
    eventually("its lines", || file("lines").ends_with(&both));
    run(Command::new("kill").arg(notify.pid().to_string())).code(0);
    notify.finish().signal(15);
}

#[test]
fn what_a_session_did_between_two_looks_is_told() {
    let (scratch, long) = Scratch::with_session("exec sleep 1000");
    waits(&scratch, &scratch.create_with(&["--name=asks"], ASKS));
    let notify = scratch.start(&["notify", "--every=0", "--command=cat >>told"]);
    eventually("that it runs", || events(&scratch) == ["waiting"]);
    signal("-STOP", &notify.pid().to_string());
    // Removed at once; done before its first look; and ended before that.
    scratch.ts(&["kill", &long]).code(0);
    let agent = scratch.create("exec sleep 1000");
    scratch.ts(&["report", &agent, "done", "all of it"]).code(0);
    let short = scratch.create("exit 3");
    scratch.ts(&["wait", &short, "--exit"]).code(0);
    signal("-CONT", &notify.pid().to_string());
    let of = |handle: &str| -> Vec<(String, String)> {
        let ours = |line: &&String| field(line, "handle") == format!("\"{handle}\"");
        let plain = |line: &String, key| field(line, key).trim_matches('"').to_owned();
        told(&scratch).iter().filter(ours).map(|line| (plain(line, "event"), plain(line, "text"))).collect()
    };
    for (handle, event, text) in
        [(&long, "ended", ""), (&agent, "done", "all of it"), (&short, "ended", "exit code 3")]
    {
        eventually(event, || of(handle) == [(event.to_owned(), text.to_owned())]);
    }
    run(Command::new("kill").arg(notify.pid().to_string())).code(0);
    notify.finish().signal(15);
}

#[test]
fn a_terminal_and_a_webhook_are_told_too() {
    let (scratch, asks) = Scratch::with_session(ASKS);
    waits(&scratch, &asks);
    let port = scratch.path.join("port");
    let server = r#"
import http.server, sys
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        with open('told', 'ab') as file: file.write(body + b'\n')
        self.send_response(204); self.end_headers()
    def log_message(self, *words): pass
server = http.server.HTTPServer(('127.0.0.1', 0), Hook)
open('port.new', 'w').write(str(server.server_port))
import os; os.rename('port.new', 'port')
server.serve_forever()
"#;
    fs::write(scratch.path.join("server.py"), server).unwrap();
    scratch.create("exec python3 server.py");
    eventually("the server", || port.exists());
    let url = format!("http://127.0.0.1:{}/hook?token=x", fs::read_to_string(&port).unwrap());
    fs::write(scratch.path.join("url"), url).unwrap();
    let notify = scratch.create_with(&["--name=notify"], "exec nbs-ts notify --osc --webhook-file=url");
    eventually("the webhook", || events(&scratch).contains(&"waiting".to_owned()));
    let first = told(&scratch).into_iter().find(|line| line.contains(&asks)).unwrap();
    assert!(first.contains(&format!("\"text\":\"{asks} waiting: Delete build/? [y/N]\"")), "{first}");
    eventually("the notification", || {
        scratch
            .file(&notify, "output.log")
            .contains(&format!("\x1b]9;{asks} waiting: Delete build/? [y/N]\x07"))
    });
    fs::write(scratch.path.join("none"), "not a url\n").unwrap();
    scratch.ts(&["notify", "--webhook-file=none"]).code(1).complains("its first line is not a URL");
}

#[test]
fn in_quiet_hours_nobody_is_told_and_bad_options_are_refused() {
    let (scratch, asks) = Scratch::with_session(ASKS);
    waits(&scratch, &asks);
    // It asks date(1): here one that the test controls.
    executable(&scratch.path.join("bin/date"), "#!/bin/sh\necho >>asked\necho 23:30\n");
    let path = format!("{}:{}", scratch.path.join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = scratch.command(links().join("nbs-ts"));
    command.args(["notify", "--command=echo x >>told", "--quiet=22:00-07:00"]).env("PATH", path);
    let notify = start(&mut command);
    eventually("that it asks for the time", || scratch.path.join("asked").exists());
    scratch.ts(&["answer", &asks, "yes"]).code(0);
    waits(&scratch, &asks);
    assert!(told(&scratch).is_empty());
    run(Command::new("kill").arg(notify.pid().to_string())).code(0);
    notify.finish().signal(15);
    scratch.ts(&["notify"]).code(4).complains("missing --command, --osc or --webhook-file");
    scratch.ts(&["notify", "--osc", "--quiet=22-07"]).code(4).complains("is not like 22:00-07:00");
}

#[test]
fn sessions_on_other_machines_are_told_of_by_where_they_are() {
    let there = Elsewhere::new();
    let far = there.create(ASKS);
    let near = there.scratch.create(ASKS);
    let mut notify = there.scratch.command(links().join("nbs-ts"));
    let notify = start(notify.args(["notify", "--every=0", "--command=cat >>told"]).env("NBS_TS_ON", "all"));
    let of = |handle: &str| -> Vec<String> {
        let ours = |line: &&String| field(line, "handle") == format!("\"{handle}\"");
        let event = |line: &String| field(line, "event").trim_matches('"').to_owned();
        told(&there.scratch).iter().filter(ours).map(event).collect()
    };
    eventually("both questions", || of(&far) == ["waiting"] && of(&near) == ["waiting"]);
    there.ts(&["answer", &far, "yes"]).code(0);
    eventually("the second question", || of(&far) == ["waiting", "waiting"]);
    there.ts(&["send", &far, "y"]).code(0);
    eventually("the end there", || of(&far) == ["waiting", "waiting", "ended"]);
    let last = told(&there.scratch).pop().unwrap();
    assert_eq!(field(&last, "text"), "\"exit code 3\"");
    run(Command::new("kill").arg(notify.pid().to_string())).code(0);
    notify.finish().signal(15);
}
