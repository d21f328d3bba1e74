//! The names of machines, and the commands that lead to them.
//!
//! `$NBS_TS_HOME/machines` has a line for each: its name, and a command that connects standard input
//! and output to a POSIX `sh` there.

use std::{fmt, time::Duration};

use crate::{
    outcome::{Failure, Result, Trying},
    session::{MACHINES, MACHINES_LOCK, StateDir},
    sys::{
        deadline::Deadline,
        files::{self, Folder},
        lock,
    },
};

/// Larger than any list of machines.
const LONGEST: u64 = 1 << 20;

/// How long we wait for another call that edits the list.
const LOCKING: Duration = Duration::from_secs(10);

/// Every machine that is known.
pub(crate) const ALL: &str = "all";

/// The name of a machine.
///
/// Invariant: `[a-z0-9][a-zA-Z0-9_.-]*`, at most 100, and not `all`. So it is one path
/// component, and no option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MachineName(String);

impl MachineName {
    pub(crate) fn parse(word: &[u8]) -> Option<MachineName> {
        let (first, rest) = word.split_first()?;
        let may_stand = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
        let begins = first.is_ascii_lowercase() || first.is_ascii_digit();
        let valid = begins && rest.len() < 100 && rest.iter().all(may_stand) && word != ALL.as_bytes();
        valid.then(|| MachineName(String::from_utf8_lossy(word).into_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// A message that may begin with it, without that.
    pub(crate) fn left_out_of<'m>(&self, message: &'m str) -> &'m str {
        message.strip_prefix(self.as_str()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(message)
    }
}

impl fmt::Display for MachineName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) name: MachineName,
    /// How long its bridge may be without work; `None`: as usual.
    pub(crate) idle: Option<Duration>,
    /// As it stands there.
    pub(crate) command: String,
}

impl Machine {
    /// `name [idle=SECONDS] command`.
    fn parse(line: &str) -> Option<Machine> {
        let (name, rest) = line.trim().split_once([' ', '\t'])?;
        let rest = rest.trim_start();
        let idle = rest.split_once([' ', '\t']).and_then(|(word, rest)| {
            let seconds = word.strip_prefix("idle=")?.parse().ok()?;
            Some((Duration::from_secs(seconds), rest.trim_start()))
        });
        let (idle, command) = idle.map_or((None, rest), |(idle, rest)| (Some(idle), rest));
        let name = MachineName::parse(name.as_bytes())?;
        words(command)?.first()?;
        Some(Machine { name, idle, command: command.to_owned() })
    }

    fn line(&self) -> String {
        let idle = self.idle.map(|idle| format!("idle={} ", idle.as_secs())).unwrap_or_default();
        format!("{} {idle}{}\n", self.name, self.command)
    }
}

/// The machines in the list, in its order. An invalid line, other than an empty one or a comment, is
/// an error: it could be taken for the name of a host.
pub(crate) fn machines(state_dir: &StateDir) -> Result<Vec<Machine>> {
    let what = || format!("read '{}'", state_dir.path().join(MACHINES).display());
    let content = Folder::open(state_dir.path()).and_then(|folder| folder.read(MACHINES, LONGEST));
    let Some(content) = files::there(content).trying(what())? else { return Ok(Vec::new()) };
    let content = String::from_utf8(content)
        .map_err(|_| Failure::failed(format!("cannot {}: it is not UTF-8 text", what())))?;
    let mut machines = Vec::new();
    for (number, line) in content.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let bad = || {
            let what = what();
            Failure::failed(format!("cannot {what}: line {} is not a name and a command", number + 1))
        };
        machines.push(Machine::parse(line).ok_or_else(bad)?);
    }
    Ok(machines)
}

/// The command that leads to a machine, and how long its bridge may be without work.
pub(crate) fn way_to(state_dir: &StateDir, name: &MachineName) -> Result<(Vec<String>, Option<Duration>)> {
    let known = machines(state_dir)?.into_iter().find(|machine| machine.name == *name);
    Ok(match known {
        Some(machine) => (words(&machine.command).unwrap_or_default(), machine.idle),
        None => {
            let words = ["ssh", "-T", "-o", "BatchMode=yes", name.as_str(), "sh"];
            (words.map(str::to_owned).to_vec(), None)
        }
    })
}

/// Adds a machine, in place of one of that name.
pub(crate) fn add(state_dir: &StateDir, machine: Machine) -> Result<()> {
    change(state_dir, &mut |machines| {
        machines.retain(|known| known.name != machine.name);
        machines.push(machine.clone());
        true
    })
    .map(drop)
}

/// Removes a machine; `false` if there is none of that name.
pub(crate) fn remove(state_dir: &StateDir, name: &MachineName) -> Result<bool> {
    change(state_dir, &mut |machines| {
        let before = machines.len();
        machines.retain(|known| known.name != *name);
        machines.len() < before
    })
}

fn change(state_dir: &StateDir, change: &mut dyn FnMut(&mut Vec<Machine>) -> bool) -> Result<bool> {
    let what = || format!("write '{}'", state_dir.path().join(MACHINES).display());
    let folder = Folder::open(state_dir.path()).trying(what())?;
    let lock = folder.open_lock(MACHINES_LOCK).trying(what())?;
    let _lock =
        lock::take(lock, MACHINES_LOCK, lock::LockKind::Alone, Deadline::after(LOCKING)).trying(what())?;
    let mut machines = machines(state_dir)?;
    let changed = change(&mut machines);
    if changed {
        let content: String = machines.iter().map(Machine::line).collect();
        folder.replace(MACHINES, content.as_bytes()).trying(what())?;
    }
    Ok(changed)
}

/// The words of a command, as `sh` splits them (POSIX, Shell Command Language, 2.2); nothing is
/// expanded. `None` where a quote is not closed, or there is a control character.
pub(crate) fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut characters) = (Vec::new(), None::<String>, line.chars());
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        other => word.push(other),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '\\' => match characters.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        other => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next()?),
            other if other.is_control() => return None,
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word.take());
    Some(words)
}

/// A word such that `sh` takes it for just that.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/:=,@%+".contains(&byte);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The machine in the name of a session, and the session there: `MACHINE:HANDLE` or `MACHINE:@NAME`.
/// `None` if there is none.
pub(crate) fn of_session(word: &[u8]) -> Option<Result<(MachineName, &[u8])>> {
    let colon = word.iter().position(|byte| *byte == b':')?;
    let (machine, session) = (&word[..colon], &word[colon + 1..]);
    Some(parse(machine).and_then(|machine| match crate::session::Target::parse(session) {
        Some(_) => Ok((machine, session)),
        None => Err(Failure::bad_args(format!(
            "'{}' is not MACHINE:HANDLE or MACHINE:@NAME",
            String::from_utf8_lossy(word)
        ))),
    }))
}

/// The machine's name at the beginning of a word that is being typed.
pub(crate) fn split(word: &str) -> Option<MachineName> {
    word.split_once(':').and_then(|(machine, _)| MachineName::parse(machine.as_bytes()))
}

pub(crate) fn parse(word: &[u8]) -> Result<MachineName> {
    MachineName::parse(word).ok_or_else(|| {
        Failure::bad_args(format!(
            "'{}' is not the name of a machine: a-z or 0-9, then up to 99 of a-z, A-Z, 0-9, '_', '.' and '-'; and not '{ALL}'",
            String::from_utf8_lossy(word)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{rounds, spoiled};

    #[test]
    fn a_command_is_split_as_sh_does() {
        let cases: [(&str, Option<&[&str]>); 10] = [
            ("", Some(&[])),
            ("kubectl exec -i pod7 -- sh", Some(&["kubectl", "exec", "-i", "pod7", "--", "sh"])),
            ("  a\t b ", Some(&["a", "b"])),
            ("a 'b c'd \"e f\"", Some(&["a", "b cd", "e f"])),
            (r#"a\ b "\$x\y" '' '$HOME *'"#, Some(&["a b", "$x\\y", "", "$HOME *"])),
            ("a 'b", None),
            ("a \"b", None),
            ("a \\", None),
            ("a\u{7}", None),
            (
                "ssh -o 'ProxyCommand=nc %h %p' box sh",
                Some(&["ssh", "-o", "ProxyCommand=nc %h %p", "box", "sh"]),
            ),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            assert_eq!(words(line), expected, "{line:?}");
        }
    }

    #[test]
    fn quoted_text_is_one_word() {
        for (seed, mut random) in rounds(500) {
            let word = String::from_utf8_lossy(&spoiled(b"it's \"$HOME\" \\ a", &mut random)).into_owned();
            if !word.chars().any(char::is_control) {
                assert_eq!(words(&quoted(&word)), Some(vec![word]), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_line_is_what_it_was_written_as() {
        let machine = Machine::parse("pod7 idle=30 kubectl exec -i pod7 -c main -- sh").unwrap();
        assert_eq!((machine.name.as_str(), machine.idle), ("pod7", Some(Duration::from_secs(30))));
        assert_eq!(Machine::parse(&machine.line()), Some(machine));
        for line in ["", "pod7", "pod7 ", "-x sh", "all sh", "A sh", "pod7 'sh", "a:b sh"] {
            assert_eq!(Machine::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_session_elsewhere_has_one_colon_and_a_name_before_it() {
        assert!(of_session(b"01234abc").is_none());
        for word in ["pod7:01234abc", "10.0.0.7:@build"] {
            assert!(of_session(word.as_bytes()).unwrap().is_ok(), "{word}");
        }
        for word in [":01234abc", "a:b:01234abc", "pod7:", "pod7:build", "all:01234abc", "a b:@c", "-x:@c"] {
            assert!(of_session(word.as_bytes()).unwrap().is_err(), "{word}");
        }
    }
}
