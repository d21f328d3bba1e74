use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::support::{Scratch, eventually, field, run, whole_lines};

/// An agent that shows its state only on its screen: it draws the content of the file `draws`, whole, when
/// that changes. Its title changes for ever, and so it never rests. It reads another terminal, too, as a
/// program that passes on its input does.
const AGENT: &str = r"
import os, select, tty
tty.setraw(0)
other = os.openpty()
os.write(1, b'\x1b[?1049h')
frame, drawn = 0, ''
while True:
    ready, _, _ = select.select([0, other[0]], [], [], 0.1)
    if ready:
        with open('keys', 'ab') as keys: keys.write(os.read(0, 100))
    with open('draws') as draws: wanted = draws.read()
    if wanted != drawn:
        drawn = wanted
        os.write(1, ('\x1b[H\x1b[2J' + drawn.replace('\n', '\r\n')).encode())
    frame += 1
    os.write(1, f'\x1b]0;frame {frame}\x07'.encode())
";

const ASKS: &str =
    "● Bash(touch x)\n────────\n Bash command\n\n   touch x\n\n Do you want to proceed?\n ❯ 1. Yes\n   2. No";
const RESTS: &str = "● Done\n────────\n❯ \n────────";
const WORKS: &str = "✻ Thinking… (esc to interrupt)\n────────\n❯ \n────────";

struct Agent {
    scratch: Scratch,
    handle: String,
}

impl Agent {
    fn start(name: &str) -> Agent {
        let scratch = Scratch::new();
        fs::write(scratch.path.join(name), AGENT).unwrap();
        fs::write(scratch.path.join("draws"), "").unwrap();
        let handle = scratch.create(&format!("exec /usr/bin/python3 {name}"));
        Agent { scratch, handle }
    }

    fn draws(&self, screen: &str) {
        // The file is replaced whole.
        fs::write(self.scratch.path.join("draws.new"), screen).unwrap();
        fs::rename(self.scratch.path.join("draws.new"), self.scratch.path.join("draws")).unwrap();
        let last = screen.lines().last().unwrap().trim();
        eventually("what it draws", || {
            let shown = self.scratch.ts(&["screen", &self.handle]).code(0).out();
            shown.lines().rfind(|row| !row.is_empty()).is_some_and(|row| row.trim() == last)
        });
    }

    fn told(&self, name: &str) -> String {
        self.scratch.ts(&["status", "--json", &self.handle]).code(0).field(name)
    }

    fn is(&self, activity: &str, because: &str) {
        eventually(&format!("{activity} because of {because}"), || {
            (self.told("activity"), self.told("because"))
                == (format!("\"{activity}\""), format!("\"{because}\""))
        });
    }
}

#[test]
fn the_screen_of_a_known_program_tells_what_it_does_and_asks() {
    let agent = Agent::start("claude");
    let file = agent.scratch.path.join("events");
    fs::write(&file, "").unwrap();
    let follow = agent.scratch.create(&format!("exec nbs-ts events --follow --waiting >{}", file.display()));
    agent.draws(RESTS);
    agent.is("idle", "rule");
    agent.scratch.ts(&["wait", &agent.handle, "--waiting", "--done", "--timeout=0.2"]).code(3);
    assert_eq!(agent.told("last_line"), "\"● Done\"", "a border is no line");
    agent.scratch.ts(&["send", &agent.handle, "touch x"]).code(0);
    agent.draws(WORKS);
    agent.is("working", "rule");
    assert_eq!((agent.told("question"), agent.told("choices")), ("null".into(), "[]".into()));
    // A waiting program is reported, though it never rests.
    let waits = agent.scratch.start(&["wait", &agent.handle, "--waiting", "--done"]);
    agent.draws(ASKS);
    waits.finish().code(0).stdout(format!("{}\twaiting\trule\n", agent.handle));
    assert_eq!(agent.told("question"), "\"Bash command touch x Do you want to proceed?\"");
    assert_eq!(agent.told("choices"), "[\"Yes\",\"No\"]");
    let asked = agent.told("question_id");
    eventually("the event", || {
        whole_lines(&file).iter().any(|line| line.contains("Do you want to proceed?"))
    });
    let listed = agent.scratch.ts(&["list", "--waiting", "--json"]).code(0).out();
    assert_eq!(field(&listed, "question_id"), asked);
    // Another question is another one.
    agent.draws(&ASKS.replace("touch x", "touch y"));
    eventually("the other question", || agent.told("question").contains("touch y"));
    assert_ne!(agent.told("question_id"), asked);
    agent.scratch.ts(&["send", "--no-enter", &agent.handle, "1"]).code(0);
    agent.draws(WORKS);
    agent.is("working", "rule");
    let waits = agent.scratch.start(&["wait", &agent.handle, "--done", "--waiting"]);
    agent.draws(RESTS);
    waits.finish().code(0).stdout(format!("{}\tdone\tdone\n", agent.handle));
    agent.is("done", "rule");
    // Its own report goes before that.
    agent.scratch.ts(&["report", &agent.handle, "working"]).code(0);
    agent.is("working", "report");
    agent.scratch.ts(&["kill", &follow]).code(0);
    let told = whole_lines(&file);
    let waited = told.iter().filter(|line| line.contains("\"type\":\"waiting\"")).count();
    assert!((1..=2).contains(&waited), "{told:?}");
}

#[test]
fn a_program_that_has_not_answered_yet_is_not_done() {
    let scratch = Scratch::new();
    let script = "import os, time, tty\ntty.setraw(0)\nos.write(1, b'\\x1b[?1049h\\xe2\\x9d\\xaf ')\n\
                  while not os.path.exists('go'): time.sleep(0.02)\n\
                  os.write(1, b'x\\r\\n')\ntime.sleep(1000)\n";
    fs::write(scratch.path.join("claude"), script).unwrap();
    let handle = scratch.create("exec /usr/bin/python3 claude");
    scratch.ts(&["wait", &handle, "--regex=❯"]).code(0);
    scratch.ts(&["send", &handle, "a task"]).code(0);
    scratch.ts(&["wait", &handle, "--done", "--timeout=1.5"]).code(3);
    assert_eq!(scratch.ts(&["status", "--json", &handle]).code(0).field("activity"), "\"working\"");
    fs::write(scratch.path.join("go"), "").unwrap();
    scratch.ts(&["wait", &handle, "--done", "--timeout=5"]).code(0);
}

#[test]
fn a_known_program_with_a_draft_in_its_input_line_is_idle() {
    let scratch = Scratch::new();
    let script = "import os, select, tty\ntty.setraw(0)\nother = os.openpty()\n\
                  os.write(1, b'\\x1b[?1049h\\xe2\\x9d\\xaf a draft')\nselect.select([0, other[0]], [], [])\n";
    fs::write(scratch.path.join("claude"), script).unwrap();
    let handle = scratch.create("exec /usr/bin/python3 claude");
    let mut told = Value::Null;
    eventually("that it reads", || {
        told = serde_json::from_str(&scratch.ts(&["status", "--json", &handle]).code(0).out()).unwrap();
        told["terminal"] == "raw" && told["last_line"] != Value::Null
    });
    assert_eq!((&told["activity"], &told["because"]), (&"idle".into(), &"rule".into()), "{told}");
}

/// A title may say that a program asks before its question is drawn, and after.
#[test]
fn hints_of_a_known_program_are_no_question() {
    let agent = Agent::start("claude");
    let rules = agent.scratch.state().join("rules");
    fs::create_dir(&rules).unwrap();
    run(Command::new("chmod").arg("700").arg(&rules)).code(0);
    fs::write(rules.join("mine"), "program claude\ntitle asks ^frame\nasks digit ^Do you want\n").unwrap();
    agent.draws(
        "●  Shell touch x\n────────\n> Type your message\n────────\nAsk permissions (shift + tab to cycle)",
    );
    agent.is("waiting", "title");
    assert_eq!((agent.told("question"), agent.told("choices")), ("null".into(), "[]".into()));
    agent.draws("Do you want to proceed?\n❯ 1. Yes\n  2. No\nAsk permissions (shift + tab to cycle)");
    eventually("the question", || agent.told("question") == "\"Do you want to proceed?\"");
}

#[test]
fn rules_of_ones_own_go_first_and_a_broken_file_is_named_and_ignored() {
    let agent = Agent::start("mytool");
    agent.draws("MAY I? [y/N]");
    assert_ne!(agent.told("because"), "\"rule\"");
    let rules = agent.scratch.state().join("rules");
    fs::create_dir(&rules).unwrap();
    run(Command::new("chmod").arg("700").arg(&rules)).code(0);
    fs::write(rules.join("mine"), "program mytool\nasks line ^MAY I\nworks ^BUSY\n").unwrap();
    agent.is("waiting", "rule");
    assert_eq!(
        (agent.told("question"), agent.told("choices")),
        ("\"MAY I? [y/N]\"".into(), "[\"y\",\"n\"]".into())
    );
    agent.scratch.ts(&["doctor"]).code(0);
    fs::write(rules.join("broken"), "program mytool\nworks [\n").unwrap();
    agent.is("waiting", "rule");
    let told = agent.scratch.ts(&["doctor"]).code(1).out();
    assert!(told.contains("broken' are ignored: line 2: this is not a regular expression"), "{told}");
    fs::remove_file(rules.join("broken")).unwrap();
    std::os::unix::fs::symlink(rules.join("mine"), rules.join("other")).unwrap();
    let told = agent.scratch.ts(&["doctor"]).code(1).out();
    assert!(told.contains("other' are ignored: 'other' is a symbolic link\n"), "{told}");
}

/// Prints an agent's recorded output up to the position in the file `upto`. With `mute`, without its own
/// reports by the program status protocol.
const REPLAY: &str = r"
import os, re, select, sys, time, tty, zlib
tty.setraw(0)
recorded = zlib.decompress(open(sys.argv[1], 'rb').read(), -15)
def printed(end):
    part = recorded[:end]
    return re.sub(rb'\x1b\]7501;[^\x07\x1b]*(\x07|\x1b\\)', b'', part) if sys.argv[2] == 'mute' else part
at = 0
while True:
    ready, _, _ = select.select([0], [], [], 0.05)
    if ready: os.read(0, 10000)
    part = printed(int(open('upto').read() or 0))
    while at < len(part):
        at += os.write(1, part[at:at + 1000])
        if select.select([0], [], [], 0)[0]: os.read(0, 10000)
";

#[test]
fn recorded_output_of_real_agents_gives_their_states_and_questions() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/recorded");
    for (name, mute) in [
        ("codex", false),
        ("codex", true),
        ("claude", false),
        ("claude", true),
        ("gemini", false),
        ("qwen", false),
        ("opencode", false),
    ] {
        let marks = fs::read_to_string(recorded.join(format!("{name}.json"))).unwrap();
        let marks: Value = serde_json::from_str(&marks).unwrap();
        let scratch = Scratch::new();
        fs::write(scratch.path.join(name), REPLAY).unwrap();
        let upto = |offset: &Value| {
            // The file is replaced whole.
            fs::write(scratch.path.join("upto.new"), offset.to_string()).unwrap();
            fs::rename(scratch.path.join("upto.new"), scratch.path.join("upto")).unwrap();
        };
        upto(&0.into());
        let how = if mute { "mute" } else { "all" };
        let command = format!(
            "exec /usr/bin/python3 {name} {} {how}",
            recorded.join(format!("{name}.deflate")).display()
        );
        let handle = scratch.ts(&["create", "--size=100x30", &command]).code(0).out().trim().to_owned();
        for (number, mark) in marks["marks"].as_array().unwrap().iter().enumerate() {
            // While it starts, only its screen shows that it has work.
            if mark["is"] == "working" && mark["starts"] != true {
                scratch.ts(&["send", &handle, "a task"]).code(0);
            }
            upto(&mark["offset"]);
            let mut told = Value::Null;
            eventually(&format!("{name}, {how}, {number}: {mark}"), || {
                told =
                    serde_json::from_str(&scratch.ts(&["status", "--json", &handle]).code(0).out()).unwrap();
                // The screen may change before the agent's own report.
                let asks = match mute {
                    true => told["question"].is_null() == mark["question"].is_null(),
                    false => told["question"] == mark["question"],
                };
                let is_seen = mark["starts"] != true || mute || told["log"]["end"] == mark["offset"];
                told["activity"] == mark["is"] && is_seen && asks && told["choices"] == mark["choices"]
            });
            match mute {
                true if mark["is"] == "waiting" => {
                    assert!(told["question"].as_str().unwrap().contains("touch made"), "{told}");
                    assert_ne!(told["because"], "program-status");
                }
                true => assert_ne!(told["because"], "program-status", "{name}: {number}"),
                false => {}
            }
        }
    }
}
