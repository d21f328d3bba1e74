//! The hooks of coding agents, by which an agent reports to the session that it runs in.
//!
//! Pure. An agent's settings belong to the user: everything that is not ours stays as it is, to the
//! byte, including comments. So we do not parse and rewrite them, but find the places where our
//! entries are, or belong.

use std::ops::Range;

use crate::json::{Value, parse_text, quoted};

/// The beginning of all our commands: outside of a session it starts nothing.
const COMMAND: &str = "[ -z \"$NBS_TS_SESSION\" ] || nbs-ts report --quiet ";

/// The first line of a file that is ours as a whole.
const OURS: &str = "// Written by 'nbs-ts hooks install'; 'nbs-ts hooks remove' removes it.\n";

/// An agent whose hooks are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    /// The variable for the directory of its settings; the directory below HOME without it; and the
    /// file there.
    pub(crate) variable: &'static str,
    pub(crate) folder: &'static str,
    pub(crate) file: &'static str,
    /// Its events, and the words of the report at each. None: its hooks are a program.
    events: &'static [(&'static str, &'static str)],
    /// Each hook has a name.
    is_named: bool,
    /// The key of its commands, if an event has a list of them, without groups, in a file with a version.
    flat: Option<&'static str>,
    /// A filter of the events at which it waits.
    matcher: Option<&'static str>,
    /// The step that is left to the user.
    pub(crate) confirm: Option<&'static str>,
}

const EVENTS: &[(&str, &str)] =
    &[("UserPromptSubmit", "working"), ("PermissionRequest", "--hook waiting"), ("Stop", "done")];

const USUAL: Agent = Agent {
    name: "",
    variable: "",
    folder: "",
    file: "settings.json",
    events: EVENTS,
    is_named: false,
    flat: None,
    matcher: None,
    confirm: None,
};

pub(crate) const AGENTS: [Agent; 7] = [
    Agent { name: "claude", variable: "CLAUDE_CONFIG_DIR", folder: ".claude", ..USUAL },
    Agent {
        name: "codex",
        variable: "CODEX_HOME",
        folder: ".codex",
        file: "hooks.json",
        confirm: Some(
            "Codex asks about '3 hooks' at its next start: choose 'Trust all', or it runs none of them",
        ),
        ..USUAL
    },
    // As docs.github.com has it in copilot/reference/hooks-reference.
    Agent {
        name: "copilot",
        variable: "COPILOT_HOME",
        folder: ".copilot",
        file: "hooks/nbs.json",
        events: &[
            ("userPromptSubmitted", "working"),
            ("notification", "--hook waiting"),
            ("agentStop", "done"),
        ],
        flat: Some("bash"),
        matcher: Some("permission_prompt|elicitation_dialog"),
        ..USUAL
    },
    // It has no event for an approval, which a report of `working` would hide (cursor.com/docs/agent/hooks).
    Agent {
        name: "cursor",
        folder: ".cursor",
        file: "hooks.json",
        events: &[("stop", "done")],
        flat: Some("command"),
        ..USUAL
    },
    Agent {
        name: "gemini",
        folder: ".gemini",
        events: &[("BeforeAgent", "working"), ("Notification", "--hook waiting"), ("AfterAgent", "done")],
        is_named: true,
        ..USUAL
    },
    Agent {
        name: "opencode",
        variable: "XDG_CONFIG_HOME",
        folder: ".config",
        file: "opencode/plugin/nbs.js",
        events: &[],
        ..USUAL
    },
    Agent { name: "qwen", folder: ".qwen", ..USUAL },
];

const PLUGIN: &str = r#"export const Nbs = async ({ $ }) => {
  const report = async (...words) => {
    if (process.env.NBS_TS_SESSION) await $`nbs-ts report --quiet ${words}`.nothrow().quiet();
  };
  return {
    event: async ({ event }) => {
      const about = event.properties ?? {};
      if (event.type === "permission.asked") await report("waiting", `use ${about.permission}?`);
      else if (event.type === "permission.replied") await report("working");
      else if (event.type === "session.status" && about.status?.type === "busy") await report("working");
      else if (event.type === "session.idle") await report("done");
    },
  };
};
"#;

impl Agent {
    pub(crate) fn named(name: &str) -> Option<Agent> {
        AGENTS.into_iter().find(|agent| agent.name == name)
    }

    /// The new content of its file, from the old one; `None` if it does not exist.
    pub(crate) fn with_hooks(self, text: Option<&str>) -> Result<String, String> {
        let text = text.unwrap_or_default();
        if self.events.is_empty() {
            return match text.is_empty() || text.starts_with(OURS) {
                true => Ok(format!("{OURS}{PLUGIN}")),
                false => Err("there is another file of that name".to_owned()),
            };
        }
        let mut text = if text.trim().is_empty() { "{}\n".to_owned() } else { text.to_owned() };
        for (event, words) in self.events {
            let Places { root, hooks, event: place } = Places::of(&text, event)?;
            let group = self.group(words);
            if place.as_ref().is_some_and(|list| list.items.iter().any(|item| is_ours(&text, item))) {
                continue;
            }
            let list = format!("[{group}]");
            let event = quoted(event);
            match (hooks, place) {
                (_, Some(list)) => list.append(&mut text, &group, "      "),
                (Some(hooks), None) => hooks.append(&mut text, &format!("{event}: {list}"), "    "),
                (None, _) => {
                    let hooks = format!("\"hooks\": {{\n    {event}: {list}\n  }}");
                    root.append(&mut text, &hooks, "  ");
                }
            }
        }
        if self.flat.is_some() {
            let root = Places::of(&text, "")?.root;
            if !root.items.iter().any(|item| item.key.as_deref() == Some("version")) {
                root.append(&mut text, "\"version\": 1", "  ");
            }
        }
        Ok(text)
    }

    /// The same without our hooks; `None`: nothing is left.
    pub(crate) fn without_hooks(self, text: &str) -> Result<Option<String>, String> {
        if self.events.is_empty() {
            return Ok((!text.starts_with(OURS)).then(|| text.to_owned()));
        }
        let before = text;
        let mut text = text.to_owned();
        for (event, _) in self.events {
            loop {
                let Places { root, hooks, event: place } = Places::of(&text, event)?;
                let (Some(hooks), Some(list)) = (hooks, place) else { break };
                let Some(at) = list.items.iter().position(|item| is_ours(&text, item)) else { break };
                let at_key = |members: &Span, key: &str| {
                    members.items.iter().position(|item| item.key.as_deref() == Some(key))
                };
                match (list.items.len(), hooks.items.len()) {
                    (1, 1) => root.remove(&mut text, at_key(&root, "hooks")),
                    (1, _) => hooks.remove(&mut text, at_key(&hooks, event)),
                    _ => list.remove(&mut text, Some(at)),
                }
            }
        }
        // A file that held nothing else.
        let is_empty = text == "{}\n" || text == "{\n  \"version\": 1\n}\n";
        Ok((text == before || !is_empty).then_some(text))
    }

    fn group(self, words: &str) -> String {
        let name = if self.is_named { "\"name\": \"nbs\", " } else { "" };
        let matcher = self.matcher.filter(|_| words.ends_with("waiting"));
        let matcher =
            matcher.map(|matcher| format!("\"matcher\": {}, ", quoted(matcher))).unwrap_or_default();
        let command = quoted(&format!("{COMMAND}{words} 2>/dev/null || :"));
        let key = self.flat.unwrap_or("command");
        let hook = format!("{{{name}{matcher}\"type\": \"command\", \"{key}\": {command}}}");
        if self.flat.is_some() { hook } else { format!("{{\"hooks\": [{hook}]}}") }
    }
}

/// Is it a hook of ours, or a group that consists of one?
fn is_ours(text: &str, item: &Item) -> bool {
    let Ok(group) = Value::parse(&text.as_bytes()[item.value.clone()]) else { return false };
    let hook = match group["hooks"].as_array() {
        Some([hook]) => hook,
        Some(_) => return false,
        None => &group,
    };
    ["command", "bash"].into_iter().any(|key| hook[key].as_str().is_some_and(|it| it.starts_with(COMMAND)))
}

/// The positions of the hooks of an event.
struct Places {
    root: Span,
    hooks: Option<Span>,
    event: Option<Span>,
}

impl Places {
    fn of(text: &str, event: &str) -> Result<Places, String> {
        let mut scanner = Scanner { text: text.as_bytes(), at: 0 };
        scanner.skip_blank()?;
        let root = scanner.span(b'{')?;
        scanner.skip_blank()?;
        if scanner.at < text.len() {
            return Err(scanner.unexpected());
        }
        let inner = |within: &Span, key: &str, open: u8| {
            let item = within.items.iter().find(|item| item.key.as_deref() == Some(key));
            item.map(|item| Scanner { text: text.as_bytes(), at: item.value.start }.span(open)).transpose()
        };
        let hooks = inner(&root, "hooks", b'{')?;
        let event = hooks.as_ref().map(|hooks| inner(hooks, event, b'[')).transpose()?.flatten();
        Ok(Places { root, hooks, event })
    }
}

/// A list or an object: its content, and its end.
struct Span {
    open: usize,
    close: usize,
    items: Vec<Item>,
}

struct Item {
    key: Option<String>,
    start: usize,
    value: Range<usize>,
}

impl Span {
    /// On a line of its own, so far to the right.
    fn append(&self, text: &mut String, item: &str, indent: &str) {
        match self.items.last() {
            Some(last) => text.insert_str(last.value.end, &format!(",\n{indent}{item}")),
            None => text.replace_range(
                self.open + 1..self.close,
                &format!("\n{indent}{item}\n{}", &indent[..indent.len() - 2]),
            ),
        }
    }

    /// With what [`Span::append`] put before it.
    fn remove(&self, text: &mut String, at: Option<usize>) {
        let Some(at) = at else { return };
        let end = self.items[at].value.end;
        match (at.checked_sub(1), self.items.get(at + 1)) {
            (Some(before), _) => text.replace_range(self.items[before].value.end..end, ""),
            (None, Some(next)) => text.replace_range(self.items[at].start..next.start, ""),
            (None, None) => text.replace_range(self.open + 1..self.close, ""),
        }
    }
}

/// Reads JSON that may have comments, as far as it must be known where things begin and end.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

/// Deeper than any settings.
const DEEPEST: usize = 100;

impl Scanner<'_> {
    fn unexpected(&self) -> String {
        let line =
            self.text[..self.at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("it is not the expected JSON in line {line}")
    }

    fn skip_blank(&mut self) -> Result<(), String> {
        loop {
            let rest = &self.text[self.at..];
            let length = match rest {
                [b' ' | b'\t' | b'\r' | b'\n', ..] => 1,
                [b'/', b'/', ..] => memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
                [b'/', b'*', ..] => {
                    2 + memchr::memmem::find(&rest[2..], b"*/").ok_or_else(|| self.unexpected())? + 2
                }
                _ => return Ok(()),
            };
            self.at += length;
        }
    }

    fn next_is(&mut self, byte: u8) -> bool {
        let is = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(is);
        is
    }

    /// The list or the object that begins here, by its first byte.
    fn span(&mut self, open: u8) -> Result<Span, String> {
        self.span_within(open, 0)
    }

    fn span_within(&mut self, open: u8, depth: usize) -> Result<Span, String> {
        let mut span = Span { open: self.at, close: self.at, items: Vec::new() };
        if depth > DEEPEST || !self.next_is(open) {
            return Err(self.unexpected());
        }
        let close = if open == b'{' { b'}' } else { b']' };
        self.skip_blank()?;
        while !self.next_is(close) {
            if !span.items.is_empty() {
                if !self.next_is(b',') {
                    return Err(self.unexpected());
                }
                self.skip_blank()?;
            }
            let start = self.at;
            let mut key = None;
            if open == b'{' {
                self.string()?;
                key = parse_text(&self.text[start..self.at]);
                self.skip_blank()?;
                if key.is_none() || !self.next_is(b':') {
                    return Err(self.unexpected());
                }
                self.skip_blank()?;
            }
            let begin = self.at;
            match self.text.get(self.at) {
                Some(open @ (b'{' | b'[')) => drop(self.span_within(*open, depth + 1)?),
                Some(b'"') => self.string()?,
                _ => {
                    let is_plain = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                    let length = self.text[self.at..].iter().take_while(is_plain).count();
                    self.at += length;
                    if length == 0 {
                        return Err(self.unexpected());
                    }
                }
            }
            span.items.push(Item { key, start, value: begin..self.at });
            self.skip_blank()?;
        }
        span.close = self.at - 1;
        Ok(span)
    }

    fn string(&mut self) -> Result<(), String> {
        if !self.next_is(b'"') {
            return Err(self.unexpected());
        }
        loop {
            match self.text.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(b'\n') | None => return Err(self.unexpected()),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{rounds, spoiled};
    use serde_json::Value;

    const WITH_MORE: &str = "// mine\n{\n  \"zeta\": [1, {\"a\": null}], /* } */\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"say \\\"done\\\"\"}]}\n    ],\n    \"Other\": []\n  },\n  \"alpha\": \"é\"\n}\n";

    #[test]
    fn hooks_are_added_once_and_removed_without_a_trace() {
        for agent in AGENTS.into_iter().filter(|agent| !agent.events.is_empty()) {
            for text in ["{}", "{\"a\": 1}", "{\n  \"a\": 1\n}\n", "{\"hooks\": {\"X\": []}}", WITH_MORE] {
                let text = &match agent.flat {
                    None => text.to_owned(),
                    Some(_) => text.replacen('{', "{\"version\": 1, \"v\": 2,", 1).replace(",}", "}"),
                };
                let with = agent.with_hooks(Some(text)).unwrap();
                for (event, words) in agent.events {
                    let list = Places::of(&with, event).unwrap().event.unwrap();
                    let ours = list.items.iter().filter(|item| is_ours(&with, item)).count();
                    assert_eq!(ours, 1, "{} {event}: {with}", agent.name);
                    assert!(with.contains(&agent.group(words)));
                }
                assert_eq!(
                    agent.with_hooks(Some(&with)).unwrap(),
                    with,
                    "{}: it is there already",
                    agent.name
                );
                let without = agent.without_hooks(&with).unwrap().unwrap();
                assert_eq!(&without, text, "{}", agent.name);
            }
            let new = agent.with_hooks(None).unwrap();
            assert!(serde_json::from_str::<Value>(&new).is_ok(), "{new}");
            assert_eq!(agent.without_hooks(&new), Ok(None));
        }
    }

    #[test]
    fn hooks_of_a_flat_list_have_a_version_and_a_filter() {
        let file = Agent::named("copilot").unwrap().with_hooks(None).unwrap();
        let file: Value = serde_json::from_str(&file).unwrap();
        assert_eq!(file["version"], 1);
        let hook = &file["hooks"]["notification"][0];
        assert_eq!(hook["matcher"], "permission_prompt|elicitation_dialog");
        assert!(hook["bash"].as_str().unwrap().contains("report --quiet --hook waiting"), "{hook}");
    }

    #[test]
    fn a_list_that_somebody_left_empty_is_used_and_other_hooks_stay() {
        let agent = Agent::named("claude").unwrap();
        let with = agent.with_hooks(Some("{\"hooks\": {\"Stop\": []}}")).unwrap();
        assert!(serde_json::from_str::<Value>(&with).is_ok(), "{with}");
        assert!(agent.without_hooks(WITH_MORE).unwrap().unwrap() == WITH_MORE);
    }

    #[test]
    fn unknown_settings_are_not_changed() {
        let agent = Agent::named("qwen").unwrap();
        for bad in [
            "[]",
            "{\"hooks\": []}",
            "{\"hooks\": {\"Stop\": {}}}",
            "{\"a\": 1,}",
            "{\"a\" 1}",
            "{",
            "{} x",
            "/*",
            "{\"a\": \"x\n\"}",
        ] {
            assert!(agent.with_hooks(Some(bad)).is_err(), "{bad:?}");
        }
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        assert!(agent.with_hooks(Some(&deep)).is_err());
    }

    #[test]
    fn whatever_settings_are_our_hooks_do_not_make_them_worse() {
        let agent = Agent::named("claude").unwrap();
        for (seed, mut random) in rounds(1_000) {
            let Ok(text) = String::from_utf8(spoiled(WITH_MORE.as_bytes(), &mut random)) else { continue };
            let Ok(with) = agent.with_hooks(Some(&text)) else { continue };
            assert_eq!(agent.with_hooks(Some(&with)), Ok(with.clone()), "seed {seed}");
            assert!(agent.without_hooks(&with).is_ok(), "seed {seed}");
        }
    }

    #[test]
    fn a_plugin_of_somebody_else_is_left_alone() {
        let agent = Agent::named("opencode").unwrap();
        let ours = agent.with_hooks(None).unwrap();
        assert_eq!(agent.with_hooks(Some(&ours)), Ok(ours.clone()));
        assert_eq!(agent.without_hooks(&ours), Ok(None));
        assert!(agent.with_hooks(Some("export const Nbs = 1;\n")).is_err());
        assert_eq!(agent.without_hooks("export\n"), Ok(Some("export\n".to_owned())));
    }
}
