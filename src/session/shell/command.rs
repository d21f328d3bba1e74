//! Does a command start an interactive shell, which shell is that, and how is it made to read our startup
//! file?
//!
//! Only what all shells treat alike counts: plain words, of which the first, apart from `env`, names a shell
//! we know, and the others are options. With a script, `-c`, or a word that needs quotes, the command is
//! one-shot.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

use crate::worded::worded;

worded! {
    /// The shell language of the code that makes a shell report its commands.
    pub(crate) enum Dialect {
        Bash = "bash",
        Zsh = "zsh",
        Fish = "fish",
        /// `sh`, whichever it is, dash, busybox ash, ksh93, mksh.
        Posix = "posix",
    }
}

impl Dialect {
    /// The dialect of the process with these arguments, if it is a shell that reads its commands from its
    /// terminal. A login shell's name has a dash before it (login(1)).
    pub(crate) fn of_process(arguments: &[Vec<u8>]) -> Option<Dialect> {
        // The kernel has an end behind each.
        let last = arguments.iter().rposition(|argument| !argument.is_empty())?;
        let words = arguments[..=last].iter();
        let mut words = words.map(|argument| String::from_utf8_lossy(argument).into_owned());
        let mut first = words.next()?;
        if let Some(name) = first.strip_prefix('-') {
            first = name.to_owned();
        }
        let shell = ShellCommand::of_words(Vec::new(), &mut [first].into_iter().chain(words))?;
        (!shell.is_restricted()).then_some(shell.dialect)
    }

    /// The startup file, in the session's directory.
    pub(crate) fn startup_file(self) -> &'static str {
        match self {
            Dialect::Bash => "bashrc",
            // zsh knows it by its name alone.
            Dialect::Zsh => ".zshenv",
            Dialect::Fish => "config.fish",
            Dialect::Posix => "shrc",
        }
    }
}

/// A command line that makes a shell read our startup file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShellStart {
    pub(crate) words: Vec<OsString>,
    /// A variable that names our file, its new value, and the name that keeps its old value; our file
    /// restores that.
    pub(crate) variable: Option<(&'static str, OsString, &'static str)>,
    /// How many of the words are the shell's own arguments.
    pub(crate) arguments: usize,
}

/// How a bash reads startup files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BashStartup {
    /// `~/.bashrc`.
    Usual,
    None,
    /// `--rcfile`.
    File(String),
    Login,
    /// `$ENV`, in POSIX mode.
    Posix,
}

/// A command that starts a shell to converse with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellCommand {
    pub(crate) dialect: Dialect,
    /// `env`, its options and assignments; mostly empty.
    pub(crate) before: Vec<String>,
    /// The shell's path or name, and the applet's where it is a busybox.
    pub(crate) program: Vec<String>,
    pub(crate) options: Vec<String>,
}

impl ShellCommand {
    /// `None` if the command is one-shot, or a restricted shell, which cannot report, because it cannot
    /// redirect.
    pub(crate) fn parse(command: &[u8]) -> Option<ShellCommand> {
        ShellCommand::parse_any(command).filter(|shell| !shell.is_restricted())
    }

    /// Does it start a shell that would be conversed with, if it were not restricted?
    pub(crate) fn is_restricted_shell(command: &[u8]) -> bool {
        ShellCommand::parse_any(command).is_some_and(|shell| shell.is_restricted())
    }

    fn parse_any(command: &[u8]) -> Option<ShellCommand> {
        let command = std::str::from_utf8(command).ok()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:@%, ".contains(&byte);
        if !command.bytes().all(is_plain) {
            return None;
        }
        let mut words = command.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).peekable();
        let mut before = Vec::new();
        if words.peek().is_some_and(|word| file_name(word) == "env") {
            before.extend(words.next());
            while let Some(word) = words.next_if(|word| word.starts_with('-') || word.contains('=')) {
                let takes_value = matches!(&*word, "-u" | "-C");
                if word == "-S" || word.starts_with("--") && !word.contains('=') && word != "--" {
                    return None;
                }
                before.push(word);
                if takes_value {
                    before.push(words.next()?);
                }
            }
        }
        ShellCommand::of_words(before, &mut words)
    }

    fn of_words(before: Vec<String>, words: &mut dyn Iterator<Item = String>) -> Option<ShellCommand> {
        let mut program = vec![words.next()?];
        let mut name = file_name(&program[0]).to_owned();
        if name == "busybox" || name == "toybox" {
            let applet = words.next()?;
            name.clone_from(&applet);
            program.push(applet);
        }
        let dialect = match &*name {
            "bash" | "rbash" => Dialect::Bash,
            "zsh" | "rzsh" => Dialect::Zsh,
            "fish" => Dialect::Fish,
            "sh" | "dash" | "ash" | "ksh" | "ksh93" | "mksh" | "lksh" | "pdksh" | "oksh" => Dialect::Posix,
            _ => return None,
        };
        let options: Vec<String> = words.collect();
        converses(dialect, &options).then_some(ShellCommand { dialect, before, program, options })
    }

    /// Whether it was asked to be a login shell.
    pub(crate) fn is_login(&self) -> bool {
        self.options.iter().any(|option| option == "--login" || is_cluster_with(option, 'l'))
    }

    /// Restricted POSIX shells report nevertheless: they need only a prompt.
    fn is_restricted(&self) -> bool {
        let asks = |option: &String| match &**option {
            "-restricted" | "--restricted" => true,
            // Words that bash takes with one dash, too.
            "-noprofile" | "-verbose" => false,
            _ => is_cluster_with(option, 'r'),
        };
        let is_named = self.program.last().is_some_and(|program| file_name(program).starts_with('r'));
        let by_option = self.options.windows(2).any(|pair| pair == ["-o", "restricted"]);
        matches!(self.dialect, Dialect::Bash | Dialect::Zsh)
            && (is_named || by_option || self.options.iter().any(asks))
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|each| each == option)
    }

    /// Was it asked to read no startup file of the user's?
    pub(crate) fn is_bare(&self) -> bool {
        match self.dialect {
            Dialect::Bash => self.bash_startup() == BashStartup::None,
            Dialect::Zsh => {
                self.has("--no-rcs") || self.options.iter().any(|option| is_cluster_with(option, 'f'))
            }
            Dialect::Fish | Dialect::Posix => false,
        }
    }

    pub(crate) fn bash_startup(&self) -> BashStartup {
        let mut options = self.options.iter();
        let mut startup = BashStartup::Usual;
        while let Some(option) = options.next() {
            match &**option {
                "--norc" => startup = BashStartup::None,
                "--rcfile" | "--init-file" => {
                    startup =
                        options.next().map_or(BashStartup::None, |file| BashStartup::File(file.clone()));
                }
                _ => {}
            }
        }
        if self.has("--posix") || self.options.windows(2).any(|pair| pair == ["-o", "posix"]) {
            return BashStartup::Posix;
        }
        if self.is_login() {
            return if self.has("--noprofile") { BashStartup::None } else { BashStartup::Login };
        }
        startup
    }

    /// `folder` is the session's directory.
    pub(crate) fn start(&self, folder: &Path) -> ShellStart {
        let file = OsString::from(folder.join(self.dialect.startup_file()));
        let (mut options, mut variable): (Vec<OsString>, _) = (Vec::new(), None);
        let own = |option: &String| OsString::from(option);
        let through_env = ("ENV", self.as_env(&file), "NBS_TS_ENV");
        match self.dialect {
            Dialect::Bash => match self.bash_startup() {
                BashStartup::Login | BashStartup::Posix | BashStartup::None => {
                    // A login shell reads no rcfile, and if a shell reads one, some bashes read another for
                    // all users before. In POSIX mode they read $ENV alone, and the file leaves that mode
                    // again.
                    if !self.has("--posix") {
                        options.push("--posix".into());
                    }
                    options.extend(self.options.iter().map(own));
                    variable = Some(through_env);
                }
                _ => {
                    options.extend(["--rcfile".into(), file]);
                    let mut own_options = self.options.iter();
                    while let Some(option) = own_options.next() {
                        match &**option {
                            "--rcfile" | "--init-file" => drop(own_options.next()),
                            _ => options.push(option.into()),
                        }
                    }
                    if !self.options.iter().any(|option| is_cluster_with(option, 'i')) {
                        options.push("-i".into());
                    }
                }
            },
            Dialect::Zsh => {
                let without = |option: &&String| !["-f", "--no-rcs"].contains(&&***option);
                options.extend(self.options.iter().filter(without).map(own));
                variable = Some(("ZDOTDIR", folder.into(), "NBS_TS_ZDOTDIR"));
            }
            Dialect::Fish => {
                options.extend(self.options.iter().map(own));
                let mut source = OsString::from("source ");
                source.push(fish_quoted(&file));
                options.extend(["-C".into(), source]);
            }
            Dialect::Posix => {
                options.extend(self.options.iter().map(own));
                if self.options.is_empty() {
                    options.push("-i".into());
                }
                variable = Some(through_env);
            }
        }
        let before = self.before.iter().map(own);
        let words: Vec<OsString> = before.chain(self.program.iter().map(own)).chain(options).collect();
        ShellStart { arguments: words.len() - self.before.len(), words, variable }
    }

    /// As a value of ENV, which shells expand, each in its own way (tried: dash 0.5.12,
    /// busybox 1.35, bash 4.4 to 5.3, ksh93u+m 1.0, mksh R59; ksh93 takes no `'`).
    fn as_env(&self, path: &OsStr) -> OsString {
        let special: &[u8] = match self.program.last().map(|program| file_name(program)) {
            Some("mksh" | "lksh" | "pdksh" | "oksh") => b"",
            Some("ksh" | "ksh93") => b"$`\"\\",
            _ => b"$`\\",
        };
        OsString::from_vec(escaped(path, special))
    }
}

/// As a word of fish.
pub(crate) fn fish_quoted(path: &OsStr) -> OsString {
    OsString::from_vec([b"'", escaped(path, b"'\\").as_slice(), b"'"].concat())
}

fn escaped(path: &OsStr, special: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| special.contains(byte).then_some(b'\\');
    path.as_bytes().iter().flat_map(|byte| escape(byte).into_iter().chain([*byte])).collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_cluster_with(option: &str, letter: char) -> bool {
    option.len() > 1 && option.starts_with('-') && !option.starts_with("--") && option.contains(letter)
}

/// Are these options of a shell that reads its commands from the terminal?
fn converses(dialect: Dialect, options: &[String]) -> bool {
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if !option.starts_with(['-', '+']) || option.len() < 2 {
            return false;
        }
        if let Some(long) = option.strip_prefix("--") {
            let long = long.split('=').next().unwrap_or(long);
            match (dialect, long) {
                // The next word is a script.
                (_, "") => return options.next().is_none(),
                (_, "help" | "version" | "command" | "dump-strings" | "dump-po-strings" | "no-execute") => {
                    return false;
                }
                (Dialect::Bash, "rcfile" | "init-file") | (Dialect::Zsh, "emulate")
                    if !option.contains('=') && options.next().is_none() =>
                {
                    return false;
                }
                _ => {}
            }
            continue;
        }
        let letters = &option[1..];
        // For fish, `-C` is an initial command.
        if letters.contains(['c', 'n']) || dialect != Dialect::Fish && letters.contains('D') {
            return false;
        }
        let takes_value = match dialect {
            Dialect::Fish => letters.ends_with(['C', 'd', 'o', 'f']),
            Dialect::Bash => letters.ends_with(['o', 'O']),
            Dialect::Zsh | Dialect::Posix => letters.ends_with('o'),
        };
        if takes_value && options.next().is_none() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_with_options_is_conversed_with() {
        for (command, dialect) in [
            ("bash", Dialect::Bash),
            ("bash -i", Dialect::Bash),
            ("/bin/bash -l", Dialect::Bash),
            ("bash --norc", Dialect::Bash),
            ("bash --posix", Dialect::Bash),
            ("bash -o vi", Dialect::Bash),
            ("bash -li +O extglob --", Dialect::Bash),
            ("bash --rcfile /etc/x", Dialect::Bash),
            ("env A=1 bash", Dialect::Bash),
            ("/usr/bin/env -i -u X PATH=/bin B= bash --login", Dialect::Bash),
            ("zsh", Dialect::Zsh),
            ("zsh -f -o ksharrays", Dialect::Zsh),
            ("fish -N", Dialect::Fish),
            ("fish --no-config -d 3", Dialect::Fish),
            ("sh", Dialect::Posix),
            ("dash -i", Dialect::Posix),
            ("busybox ash", Dialect::Posix),
            ("busybox sh -l", Dialect::Posix),
            ("  ksh93  -o vi ", Dialect::Posix),
            ("mksh -s", Dialect::Posix),
        ] {
            assert_eq!(
                ShellCommand::parse(command.as_bytes()).map(|shell| shell.dialect),
                Some(dialect),
                "{command}"
            );
        }
    }

    #[test]
    fn each_shell_is_made_to_read_our_file() {
        let words = |command: &str| {
            let start = ShellCommand::parse(command.as_bytes()).unwrap().start(Path::new("/s/h"));
            let words: Vec<_> = start.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            (words.join(" "), start.variable.map(|(name, value, _)| format!("{name}={}", value.display())))
        };
        let env = Some("ENV=/s/h/shrc".to_owned());
        for (command, started, variable) in [
            ("bash", "bash --rcfile /s/h/bashrc -i", None),
            ("bash -i", "bash --rcfile /s/h/bashrc -i", None),
            ("/bin/bash --norc -o vi", "/bin/bash --posix --norc -o vi", Some("ENV=/s/h/bashrc".to_owned())),
            ("env A=1 bash --rcfile x", "env A=1 bash --rcfile /s/h/bashrc -i", None),
            ("bash -l", "bash --posix -l", Some("ENV=/s/h/bashrc".to_owned())),
            ("bash --posix", "bash --posix", Some("ENV=/s/h/bashrc".to_owned())),
            ("zsh -f", "zsh", Some("ZDOTDIR=/s/h".to_owned())),
            ("fish", "fish -C source '/s/h/config.fish'", None),
            ("sh", "sh -i", env.clone()),
            ("busybox ash -l", "busybox ash -l", env),
        ] {
            assert_eq!(words(command), (started.to_owned(), variable), "{command}");
        }
    }

    #[test]
    fn a_one_shot_shell_is_not_interactive() {
        for command in [
            "",
            " ",
            "bash -c true",
            "bash -ic true",
            "bash script",
            "bash -- script",
            "bash -o vi script",
            "bash -",
            "bash --version",
            "zsh --help",
            "sh -n",
            "bash -o",
            "env",
            "env A=1",
            "env -S bash",
            "env --chdir bash",
            "env A=1 python3",
            "busybox",
            "busybox ls",
            "bash; true",
            "bash 'x'",
            "exec bash",
            "bash $x",
            "bash\n",
            "fish -c ls",
            "fish -n",
            "python3",
            "rbash",
            "rbash -l",
            "bash -r",
            "bash -lr",
            "env A=1 bash --restricted",
            "zsh -r",
            "zsh -o restricted",
            "su",
            "bash \u{e9}",
        ] {
            assert_eq!(ShellCommand::parse(command.as_bytes()), None, "{command}");
        }
    }
}
