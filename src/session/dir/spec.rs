//! What a session is made from: its first files, and what runs in it.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    COMMAND, COMPLETIONS, INPUT, LOG_START, LONGEST_COMMAND, LONGEST_WORD, NAME, OUTPUT, PID, PRIVATE,
    RCFILE, RELAY_PID, SECRET, SIZES, SLAVE, TIMES, size_line,
};
use crate::{
    session::{Name, PendingSession, Settings, shell},
    sys::{
        clock::unix_seconds,
        files::{self, Folder},
        pty::Size,
        random,
    },
    terminal::text,
};

/// What `create` was asked to start.
pub(crate) struct SessionSpec {
    pub(crate) command: Vec<u8>,
    pub(crate) name: Option<Name>,
    pub(crate) size: Size,
    pub(crate) started: SystemTime,
    pub(crate) settings: Settings,
}

impl SessionSpec {
    /// `bash` and `bash -i` are shells to converse with; all else runs once.
    pub(crate) fn is_interactive(command: &[u8]) -> bool {
        command == b"bash" || command == b"bash -i"
    }

    /// Writes the files by which a relay starts the command.
    pub(crate) fn write(&self, folder: &Folder) -> io::Result<()> {
        folder.create(COMMAND, &self.command)?;
        if !self.settings.write_roots.is_empty() {
            folder.make_folder(OsStr::new(PRIVATE))?;
        }
        self.settings.write(folder)
    }

    /// Writes the other files that are known before anything runs but this relay; none
    /// that has nothing to tell yet, but for those that other programs look for.
    pub(crate) fn write_rest(&self, pending: &PendingSession, relay: u32) -> io::Result<()> {
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
        if SessionSpec::is_interactive(&self.command) {
            let secret = random::hex::<16>()?;
            folder.create(RCFILE, shell::rcfile(&secret).as_bytes())?;
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

    /// Where the programs of a session put temporary files, if they may write
    /// to few other folders.
    pub(crate) fn private_folder(session: &Path) -> PathBuf {
        session.join(PRIVATE)
    }

    /// Writes what is known once the child is there.
    pub(crate) fn write_running(
        pending: &PendingSession,
        child: u32,
        slave: Option<&Path>,
    ) -> io::Result<()> {
        let slave = slave.map(|path| path.display().to_string()).unwrap_or_default();
        pending.folder.create(PID, child.to_string().as_bytes())?;
        pending.folder.create(SLAVE, slave.as_bytes())
    }

    /// The secret that the marks of this session's shell carry; `None` where there is
    /// no such shell.
    pub(crate) fn secret(folder: &Folder) -> io::Result<Option<String>> {
        match folder.read(SECRET, LONGEST_WORD) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            secret => String::from_utf8(secret?).map(Some).map_err(io::Error::other),
        }
    }

    pub(crate) fn command(folder: &Folder) -> io::Result<Vec<u8>> {
        folder.read(COMMAND, LONGEST_COMMAND)
    }

    /// The program that runs a command in the session of this folder, and its
    /// arguments. A command that begins with a dash is still a command.
    pub(crate) fn words(command: &[u8], folder: &Path) -> Vec<OsString> {
        if SessionSpec::is_interactive(command) {
            return vec!["bash".into(), "--rcfile".into(), folder.join(RCFILE).into(), "-i".into()];
        }
        vec!["bash".into(), "-c".into(), "--".into(), OsString::from_vec(command.to_vec())]
    }

    /// The same by a login shell, as the helper runs it.
    pub(crate) fn login_words(command: &[u8], folder: &Path) -> Vec<OsString> {
        let mut words = vec!["bash".into(), "--login".into(), "-c".into()];
        if SessionSpec::is_interactive(command) {
            words.push("exec bash --rcfile \"$0\" -i".into());
            words.push(folder.join(RCFILE).into());
        } else {
            words.push("--".into());
            words.push(OsString::from_vec(command.to_vec()));
        }
        words
    }
}
