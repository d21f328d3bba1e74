//! Submitting a text to programs that read keys one by one, as coding agents do, and answering their
//! questions.

use std::fs;

use crate::page::Page;
use crate::support::{Ran, Scratch, eventually, executable, links, run};

/// A program that behaves as coding agents do, according to its arguments: `slow=S` seconds until it has
/// the keyboard, `deaf=S` more in which it ignores Enter, `window=S` within which Enter behind a text is a
/// part of that, `draws=S` (it takes so long to draw a text, and has seen no Enter before), `queues=S` (it
/// begins with a task after so long, and works on it for a minute), `clears=S` (an ignored Enter clears the
/// screen for so long), `nopaste` (does not enable bracketed paste), `short` (shows a paste of several lines
/// as `[Pasted text]`), `stuck` (ignores Enter for ever), `asks=KEYS` (an approval after each task, which
/// these keys answer: digit, arrows or row), `late` (reports it before it asks). Its title changes for ever.
/// The file `taken` has the texts that it has accepted, a line in JSON each.
const AGENT: &str = r#"
import json, os, re, select, sys, time, tty
name = os.path.basename(sys.argv[0])
words = dict((w.split('=') + ['1'])[:2] for w in sys.argv[1:])
def say(text): os.write(1, text.encode())
time.sleep(float(words.get('slow', 0)))
tty.setraw(0)
say('\x1b[?1049h\x1b[?25l' + ('' if 'nopaste' in words else '\x1b[?2004h'))
deaf = time.time() + float(words.get('deaf', 0))
window = float(words.get('window', 0))
shown, line, begins, busy, choice, last, frame, drawn, due = [], '', 0, 0, None, 0, 0, None, None
CHOICES = ['Yes', 'Yes, always', 'No']
if 'NOTE_ARGUMENTS' in os.environ: open('arguments', 'w').write(' '.join(sys.argv[1:]))
def note(what):
    with open('taken', 'a') as file: file.write(json.dumps(what) + '\n')
def draw():
    global drawn
    rows = ['● ' + row[:60] for row in shown[-5:]] + ['────────']
    if choice is not None:
        rows += [' Bash command', '', '   touch x', '', ' Do you want to proceed?']
        if words['asks'] == 'row':
            rows += ['   '.join(f'\x1b[7m{text}\x1b[0m' if at == choice else text for at, text in enumerate(CHOICES))]
        else: rows += [(' ❯ ' if at == choice else '   ') + f'{at + 1}. {text}' for at, text in enumerate(CHOICES)]
    elif begins <= time.time() < busy:
        rows += ['✻ Thinking… (esc to interrupt)', '────────', '❯ ']
    else:
        text = '[Pasted text #1]' if 'short' in words and '\n' in line else line
        wrapped = [text[at:at + 40] for at in range(0, len(text), 40)] or ['']
        mark = {'codex': '› ', 'gemini': '> ', 'qwen': '> ', 'opencode': '  '}.get(name, '❯ ')
        empty = {'gemini': 'Type your message', 'qwen': 'Type your message', 'opencode': 'Ask anything'}.get(name, '')
        rows += [mark + (wrapped[0] or empty)] + ['  ' + row for row in wrapped[1:]][-12:]
    if rows != drawn:
        drawn = rows
        say('\x1b[H\x1b[2J' + '\r\n'.join(rows + ['────────', '  ? for shortcuts']))
def enter():
    global line, begins, busy, choice, due
    if choice is not None: note({'answer': CHOICES[choice]}); choice = None; return
    if not line or 'stuck' in words: return
    note(line); shown.append(line.replace('\n', ' ')); line = ''
    if 'late' in words:
        say('\x1b]7501;state=blocked:kind=permission:app=late\x07')
        due = time.time() + 0.7
    elif 'asks' in words: choice = 0
    else:
        begins = time.time() + float(words.get('queues', 0))
        busy = begins + (60 if 'queues' in words else 0.4)
def press(key):
    global line, last, choice, drawn
    if key.startswith(b'\x1b[200~'): time.sleep(float(words.get('draws', 0)))
    now = time.time()
    if choice is not None:
        back, on = (b'\x1b[D', b'\x1b[C') if words['asks'] == 'row' else (b'\x1b[A', b'\x1b[B')
        if key == on: choice = min(choice + 1, 2)
        elif key == back: choice = max(choice - 1, 0)
        elif key == b'\r': enter()
        elif words['asks'] == 'digit' and key in b'123': choice = int(key) - 1; enter()
    elif key == b'\r':
        if now < deaf:
            if 'clears' in words:
                say('\x1b[H\x1b[2J')
                time.sleep(float(words['clears']))
                drawn = None
        elif now - last < window: line += '\n'
        else: enter()
    elif key.startswith(b'\x1b[200~'): line += key[6:-6].decode(); last = now
    else: line += key.decode(errors='replace'); last = now
waiting = b''
draw()
while True:
    if select.select([0], [], [], 0.1)[0]: waiting += os.read(0, 4096)
    while waiting:
        if waiting.startswith(b'\x1b[200~') and b'\x1b[201~' not in waiting: break
        key = re.match(rb'\x1b\[200~.*?\x1b\[201~|\x1b\[[A-D]|[^\x1b\r]+|.', waiting, re.S).group()
        if choice is not None and key[:1] != b'\x1b': key = key[:1]
        waiting = waiting[len(key):]
        press(key)
    if due and time.time() > due: due, choice = None, 0
    draw()
    frame += 1
    say(f'\x1b]0;frame {frame}\x07')
"#;

struct Agent {
    scratch: Scratch,
    handle: String,
}

impl Agent {
    /// One with rules, by its name.
    fn start(words: &str) -> Agent {
        Agent::named("claude", words)
    }

    fn named(name: &str, words: &str) -> Agent {
        let scratch = Scratch::new();
        fs::write(scratch.path.join(name), AGENT).unwrap();
        let handle = scratch.create(&format!("exec /usr/bin/python3 {name} {words}"));
        Agent { scratch, handle }
    }

    fn submit(&self, text: &str) -> Ran {
        self.scratch.ts(&["send", "--submit", &self.handle, text])
    }

    fn answer(&self, text: &str) -> Ran {
        self.scratch.ts(&["answer", &self.handle, text])
    }

    fn asks(&self) {
        eventually("its question", || self.told("question").contains("Do you want to proceed?"));
    }

    fn told(&self, name: &str) -> String {
        self.scratch.ts(&["status", "--json", &self.handle]).code(0).field(name)
    }

    /// The texts, or answers, that it has accepted.
    fn taken(&self) -> Vec<String> {
        let taken = fs::read_to_string(self.scratch.path.join("taken")).unwrap_or_default();
        taken.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_text_is_submitted_whatever_the_program_makes_of_an_enter_that_comes_too_soon() {
    for words in ["", "window=0.05", "deaf=1.5", "slow=1 deaf=0.5", "nopaste", "short window=0.05"] {
        for name in ["claude", "unknown"] {
            let agent = Agent::named(name, words);
            // Right after the start.
            agent.submit("first task").code(0).silent().stdout("");
            agent.submit("and another").code(0).silent();
            assert_eq!(agent.taken(), ["\"first task\"", "\"and another\""], "{name} {words}");
        }
    }
}

#[test]
fn enter_waits_until_a_known_program_has_drawn_the_text() {
    let agent = Agent::start("draws=1 window=0.05");
    agent.submit("a task").code(0);
    eventually("the task", || agent.taken() == ["\"a task\""]);
}

#[test]
fn a_known_program_works_on_the_task_when_it_was_submitted() {
    let agent = Agent::start("queues=1");
    agent.submit("a task").code(0);
    let screen = agent.scratch.ts(&["screen", &agent.handle]).code(0).out();
    assert!(screen.contains("Thinking"), "{screen}");
}

#[test]
fn a_text_that_is_cleared_and_drawn_again_was_not_taken() {
    let agent = Agent::start("deaf=1 clears=0.4");
    agent.submit("first task").code(0).silent();
    assert_eq!(agent.taken(), ["\"first task\""]);
}

#[test]
fn several_lines_and_long_texts_are_one_task() {
    let long =
        (0..500).map(|number| format!("line {number} of a long text, up to its end\n")).collect::<String>();
    let long = long.trim_end().to_owned();
    for words in ["window=0.05", "short window=0.05"] {
        let agent = Agent::start(words);
        agent.submit("one\ntwo\nthree").code(0);
        let input = format!("{long}\n");
        agent
            .scratch
            .ts_with_input(&["send", "--submit", "--stdin", "--json", &agent.handle], input.as_bytes())
            .code(0)
            .stdout(format!(
                "{{\"handle\":\"{}\",\"typed\":{},\"taken\":true}}\n",
                agent.handle,
                input.len() + 1
            ));
        let taken = agent.taken();
        assert_eq!(taken.len(), 2);
        assert_eq!(taken[0], "\"one\\ntwo\\nthree\"");
        assert_eq!(taken[1].matches("up to its end").count(), 500, "{words}");
    }
}

#[test]
fn a_task_that_was_not_accepted_is_reported_with_the_input_line() {
    let agent = Agent::start("stuck");
    agent
        .scratch
        .ts(&["send", "--submit", "--timeout=2", &agent.handle, "do it"])
        .code(1)
        .complains("the program did not take it within 2 s; its input line has '❯ do it'");
    assert!(agent.taken().is_empty());
    // A program that never accepts anything gets no input.
    let works = agent.scratch.create("exec sleep 1000");
    let ran = agent.scratch.ts(&["send", "--submit", "--timeout=0.3", &works, "do it"]).code(3);
    ran.complains("nothing was typed, because it still took no input");
    let typed = agent.scratch.ts(&["screen", &works]).code(0).out();
    assert!(!typed.contains("do it"), "{typed}");
    // What was typed in part must not be typed again: that is no timeout.
    let reads = agent.scratch.create("exec cat");
    let long = "x".repeat(5_000);
    let ran = agent.scratch.ts(&["send", "--submit", "--timeout=1", &reads, &long]).code(1);
    ran.complains("4095 of 5001 bytes were typed");
    // A program that asks gets no task.
    let asks = Agent::start("asks=digit");
    asks.submit("do it").code(0);
    asks.asks();
    asks.submit("and that").code(1).complains("it asks 'Bash command touch x Do you want to proceed?'");
    assert_eq!(asks.taken(), ["\"do it\""]);
}

#[test]
fn shells_and_programs_that_read_lines_take_a_submitted_text_as_a_line() {
    let (scratch, lines) = Scratch::with_session("read a; read b; echo $a-$b; exec sleep 1000");
    scratch.ts(&["send", "--submit", &lines, "one"]).code(0).silent();
    scratch.ts(&["send", "--submit", &lines, "two"]).code(0).silent();
    scratch.ts(&["wait", &lines, "--pattern=one-two"]).code(0);
    for shell in ["bash", "bash --norc", "sh", "python3 -q"] {
        let session = scratch.create(shell);
        let file = scratch.path.join("made");
        let text = match shell {
            "python3 -q" => format!("open('{}', 'w').write('x')", file.display()),
            _ => format!("echo x >{}", file.display()),
        };
        scratch.ts(&["send", "--submit", &session, &text]).code(0).silent();
        eventually("what the text makes", || file.exists());
        fs::remove_file(&file).unwrap();
    }
    let secret = scratch.create("read -s -p 'Password: ' x; exec sleep 1000");
    scratch.ts(&["send", "--submit", &secret, "hunter2"]).code(1).complains("it is at a secret prompt");
    scratch.ts(&["send", "--submit", "--no-enter", &secret, "x"]).code(4).complains("--no-enter");
    scratch.ts(&["send", "--submit", "--secret-stdin", &secret]).code(4).complains("--submit");
    scratch.ts(&["kill", "--keep", &secret]).code(0);
    scratch.ts(&["send", "--submit", &secret, "x"]).code(1).complains("has ended");
}

#[test]
fn of_several_that_submit_at_once_each_text_is_a_task() {
    let agent = Agent::start("window=0.05");
    let calls: Vec<_> = ["task a", "task b", "task c"]
        .map(|text| agent.scratch.start(&["send", "--submit", &agent.handle, text]))
        .into_iter()
        .collect();
    for call in calls {
        call.finish().code(0).silent();
    }
    let mut taken = agent.taken();
    taken.sort();
    assert_eq!(taken, ["\"task a\"", "\"task b\"", "\"task c\""]);
}

#[test]
fn a_question_is_answered_by_the_keys_that_the_program_wants() {
    for (name, keys) in [("claude", "digit"), ("claude", "arrows"), ("tool", "arrows"), ("tool", "row")] {
        let agent = Agent::named(name, &format!("asks={keys}"));
        if name == "tool" {
            let rules = agent.scratch.state().join("rules");
            fs::create_dir_all(&rules).unwrap();
            run(std::process::Command::new("chmod").arg("700").arg(&rules)).code(0);
            let choice = if keys == "row" { "choice ^(Yes) +(Yes, always) +(No)\n" } else { "" };
            let stanza = format!(
                "program tool\nasks {keys} ^Do you want to proceed\nfrom ^Bash command\n{choice}works esc to \
                 interrupt\nrests ^❯\n"
            );
            fs::write(rules.join("mine"), stanza).unwrap();
        }
        for (task, given, expected) in [
            ("one", "no", "No"),
            ("two", "yes", "Yes"),
            ("three", "2", "Yes, always"),
            ("four", "Yes, a", "Yes, always"),
            ("five", "No", "No"),
        ] {
            agent.submit(task).code(0);
            agent.asks();
            agent.answer(given).code(0).silent().stdout("");
            assert_eq!(
                agent.taken().last().unwrap(),
                &format!("{{\"answer\": \"{expected}\"}}"),
                "{name} {keys} {given}"
            );
        }
        agent.answer("yes").code(1).complains("it does not ask a question");
        assert_eq!(agent.taken().len(), 10);
    }
}

#[test]
fn the_page_gives_tasks_and_answers_as_the_program_takes_them() {
    let agent = Agent::start("deaf=1 asks=digit");
    let page = Page::start(&agent.scratch);
    let mut events = page.open("");
    events.until_about(&agent.handle, |about| about["activity"] == "idle");
    page.type_in(&agent.handle, "line", "one");
    assert_eq!(agent.taken(), ["\"one\""]);
    let about = events.until_about(&agent.handle, |about| about["question_id"].is_string());
    let id = about["question_id"].as_str().unwrap();
    let path = format!("/sessions/{}/answer", agent.handle);
    for (text, why) in [
        (format!("{id}\nmaybe"), "'maybe' is not a choice"),
        ("00000000\n2".to_owned(), "it asks something else"),
    ] {
        let (status, told) = page.ask("POST", &path, &text);
        assert!(status == 200 && told.contains(why), "{told}");
    }
    page.type_in(&agent.handle, "answer", &format!("{id}\n2"));
    assert_eq!(agent.taken().last().unwrap(), "{\"answer\": \"Yes, always\"}");
}

#[test]
fn no_key_is_pressed_before_the_question_is_to_be_seen() {
    let agent = Agent::start("late asks=digit");
    agent.submit("one").code(0);
    agent.scratch.ts(&["wait", &agent.handle, "--waiting"]).code(0).stdout_has("program-status");
    agent.answer("no").code(0);
    assert_eq!(agent.taken(), ["\"one\"", "{\"answer\": \"No\"}"]);
}

#[test]
fn only_the_question_that_was_seen_is_answered() {
    let agent = Agent::start("asks=digit");
    agent.submit("one").code(0);
    agent.asks();
    let id = agent.told("question_id").trim_matches('"').to_owned();
    let answer = |id: &str, text: &str| {
        agent.scratch.ts(&["answer", "--json", &format!("--question-id={id}"), &agent.handle, text])
    };
    answer("00000000", "yes").code(1).complains("it asks something else: 'Bash command touch x Do you");
    agent.answer("maybe").code(1).complains("'maybe' is not a choice; try 1 Yes, 2 Yes, always, 3 No");
    agent.answer("4").code(1).complains("is not a choice");
    assert_eq!(agent.taken(), ["\"one\""]);
    answer(&id, "yes")
        .code(0)
        .stdout(format!("{{\"handle\":\"{}\",\"question_id\":\"{id}\",\"answer\":\"Yes\"}}\n", agent.handle));
    answer(&id, "yes").code(1).complains("it does not ask a question");
    assert_eq!(agent.taken().len(), 2);
}

#[test]
fn a_line_that_is_asked_for_is_typed_and_a_secret_never() {
    let scratch = Scratch::new();
    let waits = |session: &str| {
        scratch.ts(&["wait", session, "--waiting"]).code(0);
    };
    let asks = |question: &str, read: &str| {
        let session =
            scratch.create(&format!("printf '{question} '; {read} x; echo got $x; exec sleep 1000"));
        waits(&session);
        session
    };
    let got = |session: &str, given: &str, expected: &str| {
        scratch.ts(&["answer", session, given]).code(0).silent();
        scratch.ts(&["wait", session, &format!("--pattern=got {expected}")]).code(0);
    };
    got(&asks("Delete build/? [y/N]", "read"), "yes", "y");
    got(&asks("Delete build/? [y/N]", "read"), "2", "n");
    got(&asks("Continue (yes/no)?", "read"), "YES", "yes");
    got(&asks("Name?", "read"), "some one", "some one");
    got(&asks("Name?", "read"), "1", "1");
    got(&asks("Sure? [y/n]", "read -n1"), "no", "n");
    got(&asks("Sure? [y/n]", "read -e"), "no", "n");
    let secret = scratch.create("read -s -p 'Password: ' x; echo got $x; exec sleep 1000");
    waits(&secret);
    scratch.ts(&["answer", &secret, "yes"]).code(1).complains("it is at a secret prompt");
    let works = scratch.create("exec sleep 1000");
    scratch.ts(&["answer", &works, "yes"]).code(1).complains("it does not ask a question");
    let shell = scratch.create("bash");
    scratch.ts(&["wait", &shell, "--input"]).code(0);
    scratch.ts(&["answer", &shell, "yes"]).code(1).complains("it does not ask a question");
    scratch.ts(&["kill", "--keep", &works]).code(0);
    scratch.ts(&["answer", &works, "yes"]).code(1).complains("has ended");
}

#[test]
fn the_script_of_the_reference_starts_each_agent_and_gives_it_its_task() {
    let topic = include_str!("../../src/help/topics/workers.md");
    let (_, rest) = topic.split_once("```bash\n#!/bin/bash\n# nbs-claude").unwrap();
    let (script, _) = rest.split_once("```").unwrap();
    let script = format!("#!/bin/bash\n# nbs-claude{script}");
    for (name, options) in [
        ("claude", "--dangerously-skip-permissions"),
        ("codex", "--dangerously-bypass-approvals-and-sandbox"),
        ("gemini", "--yolo"),
        ("qwen", "--yolo"),
        ("opencode", ""),
    ] {
        let scratch = Scratch::new();
        let bin = scratch.path.join("bin");
        executable(&bin.join(format!("nbs-{name}")), &script);
        executable(&bin.join(name), format!("#!/usr/bin/python3\n{AGENT}"));
        let path = format!("{}:{}:{}", bin.display(), links().display(), std::env::var("PATH").unwrap());
        let mut launch = scratch.command(bin.join(format!("nbs-{name}")));
        launch.args([&format!("--root={}", scratch.path.display()), "--dangerously-skip-permissions"]);
        launch.env("PATH", path).env("NBS_HANDLE", "tester-0123abcd").env("NOTE_ARGUMENTS", "1");
        launch.env("NBS_INITIAL_PROMPT", "Read task.md and execute the task.");
        run(&mut launch).code(0);
        let taken = fs::read_to_string(scratch.path.join("taken")).unwrap();
        assert_eq!(taken, "\"Read task.md and execute the task.\"\n", "{name}");
        assert_eq!(fs::read_to_string(scratch.path.join("arguments")).unwrap(), options);
        scratch.ts(&["list"]).code(0).stdout_has("nbs-tester-0123abcd-");
    }
}
