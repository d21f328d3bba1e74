//! The specification of a session: its first files, and its program.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    COMMAND, COMPLETIONS, HOST, INPUT, LOG_START, LONGEST_COMMAND, NAME, OUTPUT, PID, PRIVATE, RELAY_PID,
    RUN, RUN_TEXT, SECRET, SIZES, SLAVE, TIMES, size_line,
};
use crate::{
    session::{
        Name, PendingSession, Settings,
        shell::{self, Dialect, ShellCommand, ShellStart},
    },
    sys::{
        child,
        clock::unix_seconds,
        files::{self, Folder},
        host::Host,
        pty::Size,
        random,
    },
    terminal::text,
};

/// A thousand shells, one after the other, are some forty thousand bytes.
const LONGEST_SECRETS: u64 = 64 * 1024 * 1024;

/// A shell of the session that reports.
pub(crate) struct ReportingShell {
    pub(crate) secret: String,
    /// `None`: it is the session's own.
    pub(crate) dialect: Option<Dialect>,
}

impl ReportingShell {
    /// A shell with an incomplete line has not reported yet.
    fn parse(number: usize, line: &str) -> Option<ReportingShell> {
        match (number, line.split_once(' ')) {
            (0, _) => Some(ReportingShell { secret: line.to_owned(), dialect: None }),
            (_, Some((secret, word))) => {
                Some(ReportingShell { secret: secret.to_owned(), dialect: Some(Dialect::parse(word)?) })
            }
            (_, None) => None,
        }
    }
}

/// The options of `create`.
pub(crate) struct SessionSpec {
    pub(crate) command: Vec<u8>,
    pub(crate) name: Option<Name>,
    pub(crate) size: Size,
    pub(crate) started: SystemTime,
    pub(crate) settings: Settings,
}

impl SessionSpec {
    /// Does it start a shell to converse with? All else runs once.
    pub(crate) fn is_interactive(command: &[u8]) -> bool {
        ShellCommand::parse(command).is_some()
    }

    /// Writes the files that say what the session is.
    pub(crate) fn write(&self, folder: &Folder) -> io::Result<()> {
        let host = Host::ours().ok();
        if let Some(host) = host.as_ref().filter(|_| folder.may_be_shared()) {
            folder.create(HOST, &host.line())?;
        }
        folder.create(COMMAND, &self.command)?;
        if self.settings.jail.confines() {
            folder.make_folder(OsStr::new(PRIVATE))?;
        }
        Settings { boot: host.map(|host| host.boot), ..self.settings.clone() }.write(folder)
    }

    /// Writes the other files that are known before any process but this relay runs. Files without
    /// content are omitted, except those that other programs expect. `sessions` is where the shell
    /// will find the directory.
    pub(crate) fn write_rest(&self, pending: &PendingSession, sessions: &Path, relay: u32) -> io::Result<()> {
        let folder = &pending.folder;
        folder.create(RELAY_PID, relay.to_string().as_bytes())?;
        let started = unix_seconds(self.started).as_secs();
        let meta = format!("command: {}\nstart: {started}\n", text::escaped(&self.command));
        (&pending.lock).write_all(meta.as_bytes())?;
        // The clock of a file system is coarse: two that were made one after the other
        // would be of one age.
        pending.lock.set_modified(self.started)?;
        if let Some(name) = &self.name {
            folder.create(NAME, name.as_str().as_bytes())?;
        }
        folder.make_fifo(INPUT)?;
        folder.create(OUTPUT, b"")?;
        if let Some(shell) = ShellCommand::parse(&self.command) {
            let secret = random::hex::<16>()?;
            let path = sessions.join(pending.handle.as_str());
            let text = shell::startup(&shell, &secret, &path.join(RUN), &path.join(RUN_TEXT));
            folder.create(shell.dialect.startup_file(), text.as_bytes())?;
            folder.create(SECRET, secret.as_bytes())?;
            // It comes with the first prompt. By then the relay may have no descriptor to
            // spare.
            folder.create(COMPLETIONS, b"")?;
        }
        if self.settings.max_log.is_some() {
            folder.create(LOG_START, b"0")?;
            folder.reserve(LOG_START)?;
        }
        if self.settings.record {
            folder.create(TIMES, b"")?;
        }
        if self.size != Size::DEFAULT {
            folder.create(SIZES, size_line(0, self.size).as_bytes())?;
        }
        Ok(())
    }

    /// Tries whether the log can be kept within its bound, if it has one: not every
    /// file system can give a part of a file back.
    pub(crate) fn check_log_limit(&self, folder: &Folder) -> io::Result<()> {
        match self.settings.max_log {
            Some(most) => files::punch(&folder.open_appending(OUTPUT)?, 0, most),
            None => Ok(()),
        }
    }

    /// The directory for temporary files, if the session's programs may write to few other
    /// directories.
    pub(crate) fn private_folder(session: &Path) -> PathBuf {
        session.join(PRIVATE)
    }

    /// Writes the data that is known once the child exists.
    pub(crate) fn write_running(
        pending: &PendingSession,
        child: u32,
        slave: Option<&Path>,
    ) -> io::Result<()> {
        let slave = slave.map(|path| path.display().to_string()).unwrap_or_default();
        pending.folder.create(PID, child.to_string().as_bytes())?;
        pending.folder.create(SLAVE, slave.as_bytes())
    }

    /// The shells of this session that report, each with the secret of its marks: first its own, whose
    /// secret is empty if it does not report.
    pub(crate) fn levels(folder: &Folder) -> io::Result<Vec<ReportingShell>> {
        let Some(secrets) = files::there(folder.read(SECRET, LONGEST_SECRETS))? else {
            return Ok(Vec::new());
        };
        let secrets = String::from_utf8(secrets).map_err(io::Error::other)?;
        let levels = secrets.split('\n').enumerate();
        Ok(levels.filter_map(|(number, line)| ReportingShell::parse(number, line)).collect())
    }

    /// Writes down that one more shell reports.
    pub(crate) fn add_level(folder: &Folder, secret: &str, dialect: Dialect) -> io::Result<()> {
        // In one piece, behind a line that has no end.
        let line = format!("\n{secret} {}", dialect.word());
        folder.open_or_make_appending(SECRET)?.write_all(line.as_bytes())
    }

    pub(crate) fn command(folder: &Folder) -> io::Result<Vec<u8>> {
        folder.read(COMMAND, LONGEST_COMMAND)
    }

    /// The program that runs a command in the session of this directory, with its arguments and
    /// variables. A command may begin with a dash. If there is no bash, it is `sh`.
    pub(crate) fn start(command: &[u8], folder: &Path) -> ShellStart {
        if let Some(shell) = ShellCommand::parse(command) {
            return shell.start(folder);
        }
        let command = OsString::from_vec(command.to_vec());
        let words = vec![SessionSpec::shell().into(), "-c".into(), "--".into(), command];
        ShellStart { arguments: words.len(), words, variable: None }
    }

    /// The shell for commands that are not shells, and for sessions without a command.
    pub(crate) fn shell() -> &'static str {
        if child::on_path("bash".as_ref()).is_some() { "bash" } else { "sh" }
    }

    /// The same by a login shell, as the helper runs it; the variable is among the words.
    pub(crate) fn login_words(command: &[u8], folder: &Path) -> Vec<OsString> {
        /// The second name keeps the first argument, which is then set.
        const EXEC: &str = "if [ \"$1\" ]; then \
                            eval \"if [ \\\"\\${$1+x}\\\" ]; then export $2=\\\"\\$$1\\\"; fi; export $1=\\\"\\$3\\\"\"; \
                            fi; shift 3; exec \"$@\"";
        let login = |rest: Vec<OsString>| {
            let program = SessionSpec::shell();
            let login = if program == "bash" { "--login" } else { "-l" };
            [program, login, "-c"].into_iter().map(OsString::from).chain(rest).collect()
        };
        if ShellCommand::parse(command).is_none() {
            return login(vec!["--".into(), OsString::from_vec(command.to_vec())]);
        }
        let start = SessionSpec::start(command, folder);
        let (name, value, kept) = start.variable.unwrap_or(("", OsString::new(), ""));
        let mut words = vec![EXEC.into(), SessionSpec::shell().into(), name.into(), kept.into(), value];
        words.extend(start.words);
        login(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_login_shell_hands_the_variable_on_and_keeps_what_it_was() {
        let words = SessionSpec::login_words(b"sh", Path::new("/a folder's/x y"));
        let (exec, name) = (&words[3], &words[4..8]);
        for (shell, before) in [("bash", Some("o'l\"d $y")), ("sh", None), ("sh", Some(""))] {
            let mut command = Command::new(shell);
            command.arg("-c").arg(exec).args(name).args(["sh", "-c", "echo \"$ENV|${NBS_TS_ENV-none}\""]);
            command.env_remove("ENV").env_remove("NBS_TS_ENV").envs(before.map(|value| ("ENV", value)));
            let printed = command.output().unwrap().stdout;
            let kept = before.unwrap_or("none");
            assert_eq!(
                String::from_utf8_lossy(&printed),
                format!("/a folder's/x y/shrc|{kept}\n"),
                "{shell}"
            );
        }
    }
}
