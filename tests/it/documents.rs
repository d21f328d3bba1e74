//! The README and the topics of the reference: their examples are run as they are.
//!
//! A block ```sh is run, and must succeed. In a block ```console each `$ ` line is run, and its output, on
//! either descriptor, must match the text below it. There `...` matches anything, a handle any handle, and
//! `/home/you` the home directory.

mod house;
mod words;

use std::{fs, os::unix::fs::symlink, path::Path, process::Stdio};

use crate::support::{Scratch, binary, executable, run};

/// Precedes, with a number, the output of each command; no program prints it (record separator).
const MARK: char = '\u{1e}';

/// Makes the files of the examples: a project, a skill, an agent, and a machine that was told that there is
/// no helper.
fn furnish(scratch: &Scratch) {
    let home = scratch.home();
    fs::create_dir_all(home.join("project")).unwrap();
    fs::write(home.join("project/Makefile"), "all:\n\t@echo made\n").unwrap();
    fs::create_dir_all(scratch.path.join("skills")).unwrap();
    fs::write(scratch.path.join("skills/test.md"), "Test well.\n").unwrap();
    let agent = "#!/bin/bash\n\
         nbs-ts create --no-helper --name=\"$NBS_HANDLE\" cat\n\
         sed -i 's/State: running/State: completed/' ~/project/.nbs/workers/\"$NBS_HANDLE\".md\n";
    executable(&home.join(".nbs/bin/nbs-claude"), agent);
    for folder in ["target/release", "dist"] {
        fs::create_dir_all(scratch.path.join(folder)).unwrap();
        symlink(fs::canonicalize(binary()).unwrap(), scratch.path.join(folder).join("nbs")).unwrap();
    }
    fs::create_dir(scratch.path.join("host")).unwrap();
    let told = scratch.ts(&["create", "true"]).code(0);
    scratch.ts(&["kill", told.out().trim_end()]).code(0);
}

/// The stand-ins for a compiler, another machine, and a pager.
const STUBS: &str = "cargo() { :; }; just() { :; }; man() { cat >/dev/null; }\n\
    scp() { cp \"$1\" \"host/${2#host:}\"; }\n\
    ssh() { (cd host && HOME=$PWD && eval \"${@:2}\"); }\n";

/// A page as a script, and what each of its `$ ` lines is to print.
fn script_of(page: &str) -> (String, Vec<(String, String)>) {
    let (mut script, mut expected) = (format!("{STUBS}set -o pipefail\n"), Vec::<(String, String)>::new());
    for block in page.split("\n```").skip(1).step_by(2) {
        let (language, lines) = block.split_once('\n').unwrap();
        match language {
            "sh" => script += &format!("set -e\n{lines}\nset +e\n"),
            "console" => {
                for line in lines.lines() {
                    if let Some(command) = line.strip_prefix("$ ") {
                        script += &format!("printf '{MARK}{}\\n'\n{{ {command}\n}} 2>&1\n", expected.len());
                        expected.push((command.to_owned(), String::new()));
                    } else {
                        expected.last_mut().unwrap().1 += &format!("{line}\n");
                    }
                }
                script += &format!("printf '{MARK}\\n'\n");
            }
            // Input of other programs: `tests/cluster` and `tests/clients` make those programs read it.
            "bash" | "html" | "json" | "python" | "text" | "typescript" | "crontab" | "hcl" | "ini"
            | "yaml" => {}
            other => panic!("a block of '{other}'"),
        }
    }
    (script, expected)
}

/// The text with each handle as `HANDLE`, with the home directory as the pages have it, and without the byte
/// that a terminal puts before the end of a line.
fn general(text: &str, home: &Path) -> String {
    let text = text.replace(&home.display().to_string(), "/home/you").replace("\r\n", "\n");
    let (mut general, mut rest) = (String::new(), &text[..]);
    while let Some(first) = rest.chars().next() {
        let word = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let (head, tail) = rest.split_at(word.max(first.len_utf8()));
        let is_handle = word == 8 && head.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        general += if is_handle { "HANDLE" } else { head };
        rest = tail;
    }
    general
}

/// Does `text` match `pattern`, in which `...` matches anything?
fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split("...");
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap()) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    unreachable!("the last part has been seen")
}

#[test]
fn patterns_match_output() {
    assert!(is_like("a\nb\n", "a\nb\n") && is_like("a\nxyz\nb\n", "a\n...b\n") && is_like("abc", "..."));
    assert!(is_like("abc", "a...b...c") && !is_like("abc", "ab") && !is_like("abc", "a...b"));
    assert!(!is_like("ac", "a...b...c") && !is_like("", "a"));
    assert_eq!(general("0123abcd 0123abcde /h/x é\r\n", Path::new("/h")), "HANDLE 0123abcde /home/you/x é\n");
}

/// Runs a page, and gives how many commands with an output to compare it had.
fn does_what_it_says(name: &str, page: &str) -> usize {
    let scratch = Scratch::new();
    furnish(&scratch);
    let (script, expected) = script_of(page);
    let ran = run(scratch.command("bash").args(["-c", &script]).stdin(Stdio::null())).code(0);
    let out = ran.out();
    for (number, (command, pattern)) in expected.iter().enumerate() {
        let printed = out.split_once(&format!("{MARK}{number}\n")).unwrap().1.split(MARK).next().unwrap();
        let printed = general(printed, &scratch.home());
        let pattern = general(pattern, Path::new("/home/you"));
        assert!(
            is_like(&printed, &pattern),
            "{name}: {command}\n--- printed:\n{printed}\n--- not:\n{pattern}"
        );
    }
    expected.len()
}

fn topics(scratch: &Scratch) -> Vec<String> {
    let overview = run(scratch.command(binary()).arg("help")).code(0).silent().out();
    let list =
        overview.split_once("(nbs help TOPIC):\n\n").unwrap().1.split_once("\n\n").unwrap().0.to_owned();
    list.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

fn topic(scratch: &Scratch, name: &str) -> String {
    run(scratch.command(binary()).args(["help", name])).code(0).silent().out()
}

const README: &str = include_str!("../../README.md");

#[test]
fn the_readme_does_what_it_says() {
    assert!(does_what_it_says("README.md", README) > 8);
}

#[test]
fn the_readme_is_short_and_leads_to_every_topic() {
    // The README is for readers who decide in a minute.
    assert!(README.len() <= 8 * 1024, "{} bytes", README.len());
    let scratch = Scratch::new();
    for name in topics(&scratch) {
        assert!(README.contains(&format!("[{name}](src/help/topics/{name}.md)")), "{name}");
    }
}

#[test]
fn files_named_in_documents_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for document in ["README.md", "CHANGELOG.md", "src/README.md", "tests/README.md", "tests/bench/README.md"]
    {
        let folder = root.join(document).parent().unwrap().to_owned();
        let text = fs::read_to_string(root.join(document)).unwrap();
        let links = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        // The text between backticks, outside of blocks of code.
        let prose: String = text.split("\n```").step_by(2).collect();
        let spans = prose.split('`').skip(1).step_by(2).filter(|span| span.ends_with(".rs"));
        let named: Vec<&str> = links.filter(|link| !link.contains("://")).chain(spans).collect();
        for file in &named {
            assert!(folder.join(file).exists(), "{document}: {file}");
        }
        assert!(document == "CHANGELOG.md" || !named.is_empty(), "{document}");
    }
}

#[test]
fn the_version_is_the_newest_that_the_changelog_tells_of() {
    let changelog = include_str!("../../CHANGELOG.md");
    let newest = changelog.lines().find_map(|line| line.strip_prefix("## ")).unwrap();
    assert_eq!(newest.split(',').next(), Some(env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_reference_does_what_it_says() {
    let scratch = Scratch::new();
    let compared: usize =
        topics(&scratch).iter().map(|name| does_what_it_says(name, &topic(&scratch, name))).sum();
    assert!(compared > 20, "{compared}");
}

#[test]
fn a_topic_is_told_under_every_name() {
    let scratch = Scratch::new();
    let names = topics(&scratch);
    for name in &names {
        let page = topic(&scratch, name);
        assert!(page.starts_with(&format!("# {name} - ")), "{page}");
        scratch.ts(&["help", "--topic", name]).code(0).silent().stdout(&page);
        let object = scratch.ts(&["help", "--topic", "--json", name]).code(0).silent().out();
        assert!(object.starts_with(&format!("{{\"name\":\"{name}\",\"summary\":\"")), "{object}");
        assert!(scratch.ts(&["help"]).out().contains(&format!("\n  {name} ")), "{name}");
    }
    let overview = scratch.ts(&["help", "screen"]).code(0).out();
    assert!(overview.contains("Usage: nbs-ts screen") && names.iter().any(|name| name == "screen"));
    scratch.ts(&["help", "files"]).code(0).stdout_has("# files - ");
    scratch.ts(&["help", "frobnicate"]).code(4).complains("nbs-ts has no command or topic 'frobnicate'");
    scratch.ts(&["help", "--topic", "send"]).code(4).complains("nbs-ts has no topic 'send'");
    run(scratch.command(binary()).args(["help", "frobnicate"]))
        .code(4)
        .complains("nbs has no applet or topic 'frobnicate'");
}

#[test]
fn the_bridge_of_the_reference_types_and_shows() {
    let scratch = Scratch::new();
    let page = topic(&scratch, "json");
    let bridge = scratch.path.join("bridge");
    executable(&bridge, page.split_once("```bash\n").unwrap().1.split_once("```").unwrap().0);
    let handle = scratch.create("read -r line; echo \"got $line\"; stty size");
    fs::write(scratch.path.join("messages"), "r100x30\nkhi\r\n").unwrap();
    let messages = fs::File::open(scratch.path.join("messages")).unwrap();
    let shown = run(scratch.command(bridge).arg(&handle).stdin(messages)).code(0);
    let shown = shown.stdout_has("got hi").stdout_has("30 100").stdout_has("\"type\":\"pty_exited\"");
    assert!(shown.out().starts_with("{\"type\":\"init\""), "{shown:?}");
}
