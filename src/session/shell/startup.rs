//! The startup file of a session's shell.
//!
//! It makes the shell report on itself in its own output, as OSC 133 marks
//! (FinalTerm's, as in iTerm2's and Per Bothner's "semantic prompts" pages)
//! that carry the session's secret and the number of the prompt:
//!
//! ```text
//! ESC ] 133 ; D ; <code> ; nbs=<secret>.<seq> BEL   a command has ended
//! ESC ] 133 ; A ; nbs=<secret>.<seq> BEL            a prompt begins
//! ESC ] 133 ; B ; nbs=<secret>.<seq> BEL            and ends: input begins
//! ESC ] 133 ; C ; nbs=<secret>.<seq> BEL            a command begins
//! ```
//!
//! and the marks for `run` alone: R, the shell takes the delivered command; N, it takes none, because it had
//! to repair its hooks; P, it wants more lines (PS2); V, `set -v` has shown a line of ours; E, the output
//! ends, before zsh moves a prompt to a line of its own.
//!
//! seq counts the prompts from 0. D, A and B of a prompt carry its number, C that of the next prompt, whose D
//! has the exit code of the command. The first prompt has a D too, of code 0; R, N and P carry the number of
//! the present prompt, V and E that of the next. `marks.rs` reads all this. OSC 7 reports the directory when
//! it has changed. POSIX shells have only a prompt: no C, and no directory.
//!
//! Invariants in bash: a number is printed before it is counted, so one may come twice (after a `^C` in
//! between) but none is ever left out; the user's own PROMPT_COMMAND sees the same `$?`, `$_` and
//! `PIPESTATUS` as without us; nothing forks, nothing is written to a file, nothing is exported.
//!
//! Surprises:
//!
//! - Many scripts edit `$PROMPT_COMMAND` as a string, and bash takes element 0 of an array for it. So the
//!   user's first element stays in element 0, behind a line of ours, and such edits work as they would
//!   without us.
//! - Hooks that print to /dev/null can be silent: traces and the output of the user's DEBUG trap about our
//!   commands go there with them. bash-preexec even overlooks commands whose stdout is not a terminal, which
//!   it must: it would take our last hook for the user's next command.
//! - PIPESTATUS can be set, in an arithmetic expansion, where no simple command follows to reset it: in a
//!   pattern of `case`.
//! - We cannot use `local -`: on leaving, bash 4.4 and 5.0 set each option again, which switches
//!   `expand_aliases` on and resets the line editor's mode.

use std::{path::Path, sync::OnceLock};

use crate::{
    packed::unpack,
    session::shell::{
        command::{BashStartup, Dialect, ShellCommand, fish_quoted},
        run_script::quoted,
    },
};

// The files beside this one, without their comments. All but bash's are packed.
const BASH: &str = include_str!(concat!(env!("OUT_DIR"), "/bash.bash"));
const OTHERS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shells.packed"));
const LENGTH: usize = include!(concat!(env!("OUT_DIR"), "/shells.length"));

/// The files for the other shells; and `read`, which reads a typed text.
struct Others {
    zsh: &'static str,
    fish: &'static str,
    posix: &'static str,
    read: &'static str,
}

impl Others {
    fn get() -> Others {
        static ALL: OnceLock<String> = OnceLock::new();
        let mut all = ALL.get_or_init(|| unpack(OTHERS, LENGTH)).split('\0');
        let mut next = || all.next().expect("build.rs has packed four");
        Others { zsh: next(), fish: next(), posix: next(), read: next() }
    }
}

/// The text of the startup file. `secret` identifies the marks: hexadecimal digits, new for each session;
/// `run` and `text` are the files by which a command is delivered.
pub(crate) fn startup(shell: &ShellCommand, secret: &str, run: &Path, text: &Path) -> String {
    debug_assert!(secret.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let file = match shell.dialect {
        Dialect::Bash => {
            let (mode, startup) = bash_startup(&shell.bash_startup());
            BASH.replace("@MODE@", mode).replace("@STARTUP@", &startup)
        }
        Dialect::Zsh => {
            let startup = if shell.is_bare() { "'builtin' 'setopt' no_rcs" } else { ZSHENV };
            Others::get().zsh.replace("@STARTUP@", startup)
        }
        Dialect::Fish => Others::get().fish.to_owned(),
        Dialect::Posix => with_controls(Others::get().posix),
    };
    let text = match shell.dialect {
        // In UTF-8 whatever the locale: fish accepts nothing else.
        Dialect::Fish => fish_quoted(text.as_os_str()).to_string_lossy().into_owned(),
        _ => quoted(text),
    };
    file.replace("@SECRET@", secret).replace("@RUN@", &quoted(run)).replace("@TEXT@", &text)
}

/// The code that makes a shell report which has read its startup files: the same without them, and without
/// the key of `run`; and the code that reads `run`'s texts.
pub(super) fn inner(dialect: Dialect, secret: &str) -> String {
    let cut = |file: &str, from: &str, to: &str| {
        let (_, rest) = file.split_once(from).unwrap_or(("", file));
        let (rest, _) = rest.split_once(to).unwrap_or((rest, ""));
        [from, rest].concat()
    };
    let others = Others::get();
    let file = match dialect {
        Dialect::Bash => {
            let file = cut(BASH, "if [[ ${__nbs_shell-}", "__nbs_begin() {");
            file + "{ __nbs_hook; } >/dev/null 2>&1\n"
        }
        Dialect::Zsh => {
            let (head, tail) = (
                cut(others.zsh, "'builtin' 'typeset' -gi", "__nbs_take() {"),
                cut(others.zsh, "__nbs_first() {", "@STARTUP@"),
            );
            // Nothing else reports whether a typed line could be parsed.
            let line = "__nbs_line() { __nbs_text=$1 }\n\
                        builtin typeset -ga zshaddhistory_functions\n\
                        zshaddhistory_functions=(__nbs_line ${zshaddhistory_functions:#__nbs_line})\n";
            [&head.replace("__nbs_bind", "builtin :"), &tail, line].concat()
        }
        Dialect::Fish => cut(others.fish, "set -g __nbs_seq", "function __nbs_take")
            .replace("builtin bind -M $mode \\e'[25;9~' __nbs_take", "true"),
        // There may be no such file where it runs.
        Dialect::Posix => {
            let file = cut(others.posix, "__nbs_mark() {", "trap 'trap") + "__nbs_mark\n";
            with_controls(&file).replace("2>/dev/null", "2>&-")
        }
    };
    let read = match dialect {
        Dialect::Fish => {
            let read = others.read.replace("@CHECK@", FISH_CHECK) + "__nbs_seq=$1\n__nbs_read";
            let read = fish_quoted(read.as_ref()).to_string_lossy().into_owned();
            // A command run by `eval` sees the status of the command that prints its text.
            format!(
                "function __nbs_read\n set -l __nbs_status $status\n sh -c {read} sh $__nbs_seq | \
                 string collect -N\n return $__nbs_status\nend\n"
            )
        }
        _ => others.read.replace("@CHECK@", ":"),
    };
    (file + &read).replace("@SECRET@", secret)
}

/// fish describes a text's fault in words, and has one exit code for all.
const FISH_CHECK: &str = "case $(printf '%b' \"$__nbs_text\" | fish --no-config -n 2>&1) in \
                          *'Unexpected end of string'* | *'end of the input'* | *'Missing end'*) \
                          printf '\\033]133;P;nbs=@SECRET@.%s\\a' \"$__nbs_seq\" >&2; __nbs_text='false; or sh -c \"exit 2\"' ;; \
                          esac";

fn with_controls(file: &str) -> String {
    let controls = [("@ESC@", "\x1b"), ("@BEL@", "\x07"), ("@SOH@", "\x01"), ("@CR@", "\r")];
    controls.into_iter().fold(file.to_owned(), |file, (name, control)| file.replace(name, control))
}

/// The user's own file, which zsh would have read in this one's place.
const ZSHENV: &str = "[[ ! -r ${ZDOTDIR-$HOME}/.zshenv ]] || 'builtin' 'source' \"${ZDOTDIR-$HOME}/.zshenv\"";

/// The code that leaves the mode that makes bash read our file, and the code that reads the user's files.
fn bash_startup(startup: &BashStartup) -> (&'static str, String) {
    /// Restores ENV, which we set for our use.
    const ENV: &str = "if [[ ${NBS_TS_ENV+1} ]]; then ENV=$NBS_TS_ENV; builtin unset -v NBS_TS_ENV; \
                       else builtin unset -v ENV; fi";
    const LOGIN: &str = "builtin set +o posix; builtin shopt -u inherit_errexit; \
                         if [[ ${NBS_TS_ENV+1} ]]; then ENV=$NBS_TS_ENV; builtin unset -v NBS_TS_ENV; \
                         else builtin unset -v ENV; fi; \
                         if [[ ${HISTFILE-} == ~/.sh_history ]]; then HISTFILE=~/.bash_history; fi";
    let read = |file: &str| format!("[[ ! -r {file} ]] || . {file} || builtin :");
    match startup {
        // In a jail it seems readable to a test, and is not.
        BashStartup::Usual => (
            "builtin :",
            format!("{{ builtin : < ~/.bashrc; }} 2> /dev/null && {{ {}; }} || builtin :", read("~/.bashrc")),
        ),
        BashStartup::None => (LOGIN, "builtin :".to_owned()),
        BashStartup::File(file) => ("builtin :", read(&quoted(Path::new(file)))),
        BashStartup::Posix => (ENV, read("\"${ENV-}\"")),
        BashStartup::Login => {
            let profiles = "{ if [[ -r /etc/profile ]]; then . /etc/profile; fi; \
                            if [[ -r ~/.bash_profile ]]; then . ~/.bash_profile; \
                            elif [[ -r ~/.bash_login ]]; then . ~/.bash_login; \
                            elif [[ -r ~/.profile ]]; then . ~/.profile; fi; } || builtin :";
            (LOGIN, profiles.to_owned())
        }
    }
}

/// How many bytes at the end of a command's output are the line of PROMPT_COMMAND
/// that reports its end, which `set -v` shows; or, where more may come, may be
/// the beginning of it.
pub(crate) fn shown_hook(output: &[u8], complete: bool) -> usize {
    let (_, rest) = BASH.split_once("__nbs_first='").expect("it is in there");
    let line = rest.lines().next().and_then(|line| line.strip_suffix('\'')).expect("it ends there");
    let lines = ["\r\n", "\n"].map(|end| [line, end].concat().into_bytes());
    let ends_with = |part: &&[u8]| output.ends_with(part);
    let lengths = lines.iter().map(|line| match complete {
        true => Some(&line[..]).filter(ends_with).map_or(0, <[u8]>::len),
        false => (0..=line.len()).rev().find(|length| output.ends_with(&line[..*length])).unwrap_or(0),
    });
    lengths.max().unwrap_or(0)
}

/// More than [`shown_hook`] ever returns, and than a prompt has.
pub(crate) const LONGEST_SHOWN_HOOK: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn file(command: &str) -> String {
        let shell = ShellCommand::parse(command.as_bytes()).unwrap();
        startup(&shell, SECRET, Path::new("/s/h/run"), Path::new("/s/h/run.text"))
    }

    #[test]
    fn each_shell_can_parse_its_startup_file() {
        for (command, parser) in [
            ("bash", "bash"),
            ("bash --norc", "bash"),
            ("bash -l", "bash"),
            ("bash --posix", "bash"),
            ("bash --rcfile it's", "bash"),
            ("sh", "sh"),
        ] {
            let Some(shell) = ShellCommand::parse(command.as_bytes()) else { continue };
            let text = startup(&shell, SECRET, Path::new("/s/h/run"), Path::new("/s/h/run.text"));
            let mut parser = Command::new(parser);
            // It would complain of a locale that this machine does not have.
            let parser = parser.arg("-n").env("LC_ALL", "C").stdin(Stdio::piped()).stderr(Stdio::piped());
            let mut parser = parser.spawn().unwrap();
            parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            let ran = parser.wait_with_output().unwrap();
            assert!(ran.status.success(), "{command}");
            assert_eq!(String::from_utf8_lossy(&ran.stderr), "", "{command}");
        }
    }

    #[test]
    fn the_setup_of_a_nested_shell_can_be_parsed() {
        for (dialect, parser) in [
            (Dialect::Bash, "bash"),
            (Dialect::Zsh, "zsh"),
            (Dialect::Fish, "fish"),
            (Dialect::Posix, "sh"),
            (Dialect::Posix, "bash"),
        ] {
            let text = inner(dialect, SECRET);
            assert!(text.contains(SECRET) && text.contains("__nbs_read"), "{text}");
            assert!(!text.contains("run.text") && !text.contains("\n#"), "{text}");
            let names = ["SECRET", "RUN", "TEXT", "MODE", "STARTUP", "ESC", "BEL", "SOH", "CR", "CHECK"];
            assert!(names.iter().all(|name| !text.contains(&format!("@{name}@"))), "{text}");
            let mut parser = Command::new(parser);
            let parser = parser.arg("-n").env("LC_ALL", "C").stdin(Stdio::piped()).stderr(Stdio::piped());
            // Not every machine has all shells; those of CI have.
            let Ok(mut parser) = parser.spawn() else { continue };
            parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            let ran = parser.wait_with_output().unwrap();
            assert_eq!(
                (ran.status.code(), String::from_utf8_lossy(&ran.stderr)),
                (Some(0), "".into()),
                "{text}"
            );
        }
    }

    #[test]
    fn nothing_is_left_to_be_filled_in() {
        for command in ["bash", "bash -l", "zsh", "zsh -f", "fish", "sh"] {
            let text = file(command);
            for name in ["SECRET", "RUN", "TEXT", "MODE", "STARTUP", "ESC", "BEL", "SOH", "CR"] {
                assert!(!text.contains(&format!("@{name}@")), "{command}: {name}");
            }
            assert!(text.contains(SECRET), "{command}");
            let is_control = |byte: u8| byte != b'\n' && !(b' '..=b'~').contains(&byte);
            assert_eq!(text.bytes().any(is_control), command == "sh", "{command}");
        }
    }

    #[test]
    fn the_line_that_set_v_shows_is_known_from_its_beginning_on() {
        let text = file("bash");
        let line = text.lines().find_map(|line| line.strip_prefix("__nbs_first='")).unwrap();
        let line = line.trim_end_matches('\'');
        for (output, complete, length) in [
            (format!("a\n{line}\r\n"), true, line.len() + 2),
            (format!("a{line}\n"), true, line.len() + 1),
            (format!("a{line}"), true, 0),
            (format!("a{line}"), false, line.len()),
            ("a { cas".into(), true, 0),
            ("a { cas".into(), false, 5),
            ("a".into(), false, 0),
            (String::new(), false, 0),
        ] {
            assert_eq!(shown_hook(output.as_bytes(), complete), length, "{output:?}");
        }
        assert!((line.len() as u64) + 2 <= LONGEST_SHOWN_HOOK);
    }

    #[test]
    fn every_name_in_the_rcfile_is_our_own() {
        let text = file("bash");
        let functions = text.lines().filter_map(|line| line.strip_suffix("() {"));
        let locals = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("builtin local "))
            .filter_map(|names| names.split(" || ").next())
            .flat_map(|names| names.split(' '));
        let mut seen = 0;
        // LC_ALL is not a name but a meaning, and local to its function.
        for name in functions.chain(locals).filter(|&name| name != "LC_ALL=C") {
            assert!(name.starts_with("__nbs_"), "{name}");
            seen += 1;
        }
        assert!(seen > 10, "{seen}");
    }
}
