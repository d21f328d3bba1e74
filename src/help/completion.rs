//! Completion for shells.
//!
//! The shells' scripts only call the program that is being typed with `--complete` and the words so
//! far. So they know the commands of this very file, and the live sessions.

use std::{ffi::OsString, process::Stdio};

use crate::{
    call::Syntax,
    help::{
        page::{Entry, Page},
        texts::Text,
    },
    machine::{
        call,
        name::{self, MachineName},
    },
    session::{ListEntry, StateDir},
    sys::child,
    terminal::keys,
};

/// The script that a shell reads; `names` are what it completes.
pub(crate) fn script(shell: &str, names: &str) -> Option<String> {
    let script = match shell {
        "bash" => Text::of("help/completion/nbs.bash"),
        "zsh" => Text::of("help/completion/nbs.zsh"),
        "fish" => Text::of("help/completion/nbs.fish"),
        _ => return None,
    };
    Some(script.get().replace("NBS_NAMES", names))
}

/// The candidates for the last word, which is being typed: a line each, with the word, a tab, and its
/// description. `commands` are the names and summaries of those that may come first. None if any file
/// or text is possible.
pub(crate) fn candidates(
    page: &Page,
    syntax: Option<&Syntax>,
    commands: &[(&str, &str)],
    words: &[String],
) -> String {
    let Some((typed, before)) = words.split_last() else { return String::new() };
    let mut offers = Offers { typed, lines: String::new() };
    let place = WordPosition::after(page, syntax, before);
    match place {
        WordPosition::Value(option) => offers.values(option.value(), ""),
        WordPosition::Operand(_) if typed.starts_with("--") => match typed.split_once('=') {
            Some((name, _)) => {
                let option = page.options.iter().find(|option| option.option() == name);
                offers.values(option.and_then(Entry::value), &format!("{name}="));
            }
            None => {
                for option in &page.options {
                    let sign = if option.term.contains('=') { "=" } else { "" };
                    offers.offer(&format!("{}{sign}", option.option()), &option.help);
                }
                offers.offer("--help", "show how to use it");
            }
        },
        WordPosition::Operand(given) if given.is_empty() && !commands.is_empty() => {
            for (name, summary) in commands {
                offers.offer(name, summary);
            }
        }
        WordPosition::Operand(given) => {
            let words = syntax.into_iter().flat_map(Syntax::words).filter(|_| given.is_empty());
            words.for_each(|word| offers.offer(word, ""));
            let operand = syntax.and_then(|syntax| syntax.operand_after(&given));
            offers.values(operand.map(|operand| operand.name), "");
        }
        WordPosition::Text => {}
    }
    offers.lines
}

/// The position of the word that is being typed.
enum WordPosition<'a> {
    /// It is the value of this option.
    Value(&'a Entry<'a>),
    /// It is the operand after these, or an option before that.
    Operand(Vec<OsString>),
    /// It is text, in which nothing is an option.
    Text,
}

impl<'a> WordPosition<'a> {
    fn after(page: &'a Page, syntax: Option<&Syntax>, before: &[String]) -> WordPosition<'a> {
        let (mut operands, mut words) = (Vec::new(), before.iter());
        while let Some(word) = words.next() {
            let option =
                page.options.iter().find(|option| option.term.contains('=') && option.option() == *word);
            match option {
                Some(option) if words.next().is_none() => return WordPosition::Value(option),
                Some(_) => {}
                None if word.starts_with('-') => {}
                None => operands.push(word.into()),
            }
        }
        let is_text = syntax.is_some_and(|syntax| syntax.text_follows(&operands));
        if is_text { WordPosition::Text } else { WordPosition::Operand(operands) }
    }
}

struct Offers<'a> {
    typed: &'a str,
    lines: String,
}

impl Offers<'_> {
    fn offer(&mut self, word: &str, what: &str) {
        if word.starts_with(self.typed) {
            self.lines += &format!("{word}\t{what}\n");
        }
    }

    /// Values of a kind that we know, each with `before` in front.
    fn values(&mut self, kind: Option<&str>, before: &str) {
        match kind {
            Some("SESSION") => match name::split(self.typed.strip_prefix(before).unwrap_or_default()) {
                Some(machine) => self.sessions_on(&machine, before),
                None => {
                    self.sessions(before);
                    self.machines(before, ":");
                }
            },
            Some("MACHINE") => {
                self.machines(before, "");
                self.offer(&format!("{before}{}", name::ALL), "here, and all that are known");
            }
            Some("KEY") => {
                for name in keys::OFFERED {
                    self.offer(name, "");
                }
            }
            _ => {}
        }
    }

    /// The sessions that live; where none of those fits, the dead ones.
    fn sessions(&mut self, before: &str) {
        let all = StateDir::open().and_then(|state_dir| state_dir.glances(&|_| true)).unwrap_or_default();
        for alive in [true, false] {
            for session in all.iter().filter(|session| session.alive == alive) {
                self.session(session, before);
            }
            if !self.lines.is_empty() {
                break;
            }
        }
    }

    /// Those that live on a machine to which there is a connection: else it could take long.
    fn sessions_on(&mut self, machine: &MachineName, before: &str) {
        let has_bridge = StateDir::open().and_then(|state_dir| call::bridged(&state_dir));
        if !has_bridge.is_ok_and(|bridged| bridged.contains(machine)) {
            return;
        }
        let mut list = child::ourselves("nbs-ts");
        list.args(["list", "--on", machine.as_str()]).stdin(Stdio::null()).stderr(Stdio::null());
        let Ok(listed) = list.output() else { return };
        for line in String::from_utf8_lossy(&listed.stdout).lines() {
            let [handle, "alive", name, command] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
            self.offer(&format!("{before}{handle}"), command);
            if name != "-" {
                self.offer(&format!("{before}{machine}:@{name}"), command);
            }
        }
    }

    /// Those that were added.
    fn machines(&mut self, before: &str, after: &str) {
        let machines = StateDir::open().and_then(|state_dir| name::machines(&state_dir)).unwrap_or_default();
        for machine in machines {
            self.offer(&format!("{before}{}{after}", machine.name), &machine.command);
        }
    }

    fn session(&mut self, session: &ListEntry, before: &str) {
        let what = format!("{}: {}", session.state(), session.command);
        self.offer(&format!("{before}{}", session.handle), &what);
        if let Some(name) = &session.name {
            self.offer(&format!("{before}@{}", name.as_str()), &what);
        }
    }
}
