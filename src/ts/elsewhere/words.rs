//! The words of a call: which name sessions, and what is for whom.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    time::Duration,
};

use crate::{cli, help::page::Page, machine::WORKER};

/// The words of a call, as its usage has them.
#[derive(Default)]
pub(super) struct Scanned {
    /// All but the operands that name sessions, and `--on`.
    pub(super) before: Vec<OsString>,
    pub(super) sessions: Vec<OsString>,
    pub(super) after: Vec<OsString>,
    pub(super) on: Vec<OsString>,
    pub(super) json: bool,
    pub(super) help: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) stdin: Option<Stdin>,
    pub(super) all: bool,
    /// Another session that an option names, as its word number in `before`.
    pub(super) inherits: Option<usize>,
    pub(super) owner: bool,
    pub(super) any: bool,
    pub(super) interactive: bool,
    pub(super) ansi: bool,
    pub(super) strip: bool,
    pub(super) rendered: bool,
    /// Of `list`: with columns for a person.
    pub(super) long: bool,
    /// It tells of what comes, without end.
    pub(super) follows: bool,
    /// Of `nbs-spawn-worker`: it asks about those that there are; about this one.
    pub(super) lists: bool,
    pub(super) waits: bool,
}

/// What a call reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stdin {
    Ours,
    /// A secret, from this descriptor of the caller's.
    Secret(u64),
}

impl Scanned {
    pub(super) fn of(page: &Page, words: &[OsString]) -> Scanned {
        let mut scanned = Scanned::default();
        let operands = page.usage[0]
            .split(' ')
            .filter(|word| word.contains(|c: char| c.is_ascii_uppercase()) && !word.contains('-'));
        let operands: Vec<&str> = operands.map(|word| word.trim_matches(['[', ']'])).collect();
        let is_many = operands.first() == Some(&"SESSION...");
        let is_one = operands.first() == Some(&"SESSION");
        let has_text = operands.iter().any(|operand| ["TEXT...", "COMMAND..."].contains(operand));
        let is_worker = page.name == WORKER;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            if bytes == b"--" {
                let at = if is_one { 1 } else { 0 };
                scanned.before.push(word.clone());
                for (number, word) in words.by_ref().enumerate() {
                    match is_many || number < at {
                        true => scanned.sessions.push(word.clone()),
                        false => scanned.after.push(word.clone()),
                    }
                }
                break;
            }
            if !bytes.starts_with(b"-") || bytes.len() == 1 {
                match (is_many, is_one && scanned.sessions.is_empty()) {
                    (true, _) => scanned.sessions.push(word.clone()),
                    (_, true) => scanned.sessions.push(word.clone()),
                    _ => scanned.after.push(word.clone()),
                }
                if has_text {
                    scanned.after.extend(words.by_ref().cloned());
                }
                continue;
            }
            let split = bytes.iter().position(|byte| *byte == b'=');
            let name = &bytes[..split.unwrap_or(bytes.len())];
            let option = page.options.iter().find(|option| option.option().as_bytes() == name);
            let is_common = [&b"--json"[..], b"--help", b"-h"].contains(&bytes);
            // A key, or a text.
            let may_be_text = !scanned.sessions.is_empty() || is_worker && scanned.after.len() == 3;
            if option.is_none() && !is_common && may_be_text {
                scanned.after.push(word.clone());
                continue;
            }
            let takes_value = option.is_some_and(|option| option.value().is_some());
            let (mut option_words, mut value) = (vec![word.clone()], None);
            if let Some(at) = split {
                value = Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned());
            } else if takes_value && let Some(next) = words.next() {
                option_words.push(next.clone());
                value = Some(next.clone());
            }
            scanned.option(name, option.is_some(), value, option_words);
        }
        scanned
    }

    fn option(&mut self, name: &[u8], known: bool, value: Option<OsString>, words: Vec<OsString>) {
        let text = value.as_ref().and_then(|value| value.to_str());
        match name {
            b"--on" if known => {
                self.on.extend(value);
                return;
            }
            b"--secret-fd" if known => {
                if let Some(descriptor) = text.and_then(|digits| digits.parse().ok()) {
                    self.stdin = Some(Stdin::Secret(descriptor));
                    self.before.push("--secret-stdin".into());
                    return;
                }
            }
            b"--secret-stdin" if known => self.stdin = Some(Stdin::Secret(0)),
            b"--stdin" if known => self.stdin = Some(Stdin::Ours),
            b"--timeout" if known => self.timeout = value.as_deref().and_then(cli::parse_time),
            b"--inherit-cwd" if known => {
                // What is missing is missed there.
                self.inherits = value.is_some().then_some(self.before.len());
                let value = value.map(|value| [OsStr::new("--inherit-cwd="), &value].into_iter().collect());
                self.before.push(value.unwrap_or_else(|| "--inherit-cwd".into()));
                return;
            }
            b"--list" if known => self.lists = true,
            b"--wait" if known => {
                self.waits = true;
                let value = value.unwrap_or_default();
                let (machine, worker) =
                    match value.as_bytes().split(|byte| *byte == b':').collect::<Vec<_>>()[..] {
                        [machine, worker] => (Some(machine), worker),
                        _ => (None, value.as_bytes()),
                    };
                self.on.extend(machine.map(|machine| OsStr::from_bytes(machine).to_owned()));
                self.before.push([OsStr::new("--wait="), OsStr::from_bytes(worker)].into_iter().collect());
                return;
            }
            b"--owner" if known => self.owner = true,
            b"--all" | b"--name" if known => self.all = true,
            b"--any" if known => self.any = true,
            b"--interactive" | b"--read-only" if known => self.interactive = true,
            b"--ansi" if known => self.ansi = true,
            b"--strip" if known => self.strip = true,
            b"--rendered" if known => self.rendered = true,
            b"--follow" if known => self.follows = true,
            b"--long" | b"--waiting" if known => self.long = true,
            b"--json" => self.json = true,
            b"--help" | b"-h" => self.help = true,
            _ => {}
        }
        self.before.extend(words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(usage: &str, options: &[&str], words: &str) -> Scanned {
        let header = format!(
            "verb - do it\n\nUsage: nbs-ts verb [options] {usage}\n\nOptions:\n{}\n",
            options.iter().map(|option| format!("  {option:<18}what it does\n")).collect::<String>()
        );
        let words: Vec<OsString> = words.split(' ').filter(|word| !word.is_empty()).map(Into::into).collect();
        Scanned::of(&Page::parse(&header).unwrap(), &words)
    }

    #[test]
    fn an_option_that_picks_sessions_picks_those_that_there_are() {
        let options = ["--all", "--name=PATTERN", "--on=MACHINE", "--exit"];
        for (words, picks) in [
            ("--exit box:@a", false),
            ("--all --on=box", true),
            ("--name=work --on=box", true),
            ("--on=box --name work", true),
            ("-- --name=work", false),
        ] {
            assert_eq!(scanned("SESSION...", &options, words).all, picks, "{words}");
        }
        // No option of that command.
        assert!(!scanned("SESSION...", &["--exit"], "--name=work").all);
    }

    #[test]
    fn words_are_told_apart_as_the_usage_has_them() {
        let options = ["--strip", "--timeout=TIME", "--on=MACHINE"];
        let scanned = scanned("SESSION COMMAND...", &options, "--strip --timeout 5 box:@a ls --strip --on=b");
        assert_eq!(scanned.sessions, ["box:@a"]);
        assert_eq!(scanned.before, ["--strip", "--timeout", "5"]);
        assert_eq!(scanned.after, ["ls", "--strip", "--on=b"]);
        assert!(scanned.strip && scanned.on.is_empty() && scanned.timeout == Some(Duration::from_secs(5)));
    }
}
