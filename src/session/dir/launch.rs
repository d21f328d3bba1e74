//! Making the folder of a session: its first files, and what runs in it.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    COMMAND, COMPLETION_CURSOR, COMPLETIONS, INPUT, LOG_START, LONGEST_COMMAND, LONGEST_WORD, META, NAME,
    OUTPUT, PID, PRIVATE, RCFILE, READ_CURSOR, RELAY_PID, SECRET, SIZES, SLAVE, TIMES,
};
use crate::{
    session::{Making, Name, Settings, shell},
    sys::{
        clock::unix_seconds,
        files::{self, Folder},
        pty::Size,
        random,
    },
    text,
};

/// What `create` was asked to start.
pub(crate) struct Launch {
    pub(crate) command: Vec<u8>,
    pub(crate) name: Option<Name>,
    pub(crate) size: Size,
    pub(crate) started: SystemTime,
    pub(crate) settings: Settings,
}

impl Launch {
    /// `bash` and `bash -i` are shells to converse with; all else runs once.
    pub(crate) fn is_interactive(command: &[u8]) -> bool {
        command == b"bash" || command == b"bash -i"
    }

    /// Writes the files that a relay begins with.
    pub(crate) fn write(&self, folder: &Folder) -> io::Result<()> {
        folder.create(COMMAND, &self.command)?;
        self.settings.write(folder)?;
        if !self.settings.write_roots.is_empty() {
            folder.make_folder(OsStr::new(PRIVATE))?;
        }
        folder.make_fifo(INPUT)
    }

    /// Writes the other files that are known before anything runs.
    pub(crate) fn write_rest(&self, folder: &Folder) -> io::Result<()> {
        let secret = random::hex::<16>()?;
        let started = unix_seconds(self.started).as_secs();
        let meta = format!("command: {}\nstart: {started}\n", text::escaped(&self.command));
        let interactive = Launch::is_interactive(&self.command);
        folder.create(META, meta.as_bytes())?;
        // The clock of a file system is coarse: two that were made one after the other
        // would be of one age.
        folder.open_appending(META)?.set_modified(self.started)?;
        if let Some(name) = &self.name {
            folder.create(NAME, name.as_str().as_bytes())?;
        }
        folder.create(RCFILE, shell::rcfile(&secret).as_bytes())?;
        folder.create(SECRET, secret.as_bytes())?;
        folder.create(OUTPUT, b"")?;
        if self.settings.max_log.is_some() {
            folder.create(LOG_START, b"0")?;
            folder.reserve(LOG_START)?;
        }
        if self.settings.record {
            folder.create(TIMES, b"")?;
        }
        folder.create(SIZES, format!("0 {} {}\n", self.size.cols, self.size.rows).as_bytes())?;
        folder.create(COMPLETIONS, b"")?;
        folder.create(READ_CURSOR, b"0")?;
        // Number 0 of a shell is its first prompt, which completes no command;
        // of anything else it is the end.
        folder.create(COMPLETION_CURSOR, if interactive { b"1" } else { b"0" })
    }

    /// Tries whether the log can be kept within its bound, if it has one: not every
    /// file system can give a part of a file back.
    pub(crate) fn check_bound(&self, folder: &Folder) -> io::Result<()> {
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
    pub(crate) fn write_running(making: &Making, child: u32, slave: Option<&Path>) -> io::Result<()> {
        let slave = slave.map(|path| path.display().to_string()).unwrap_or_default();
        making.folder.create(PID, child.to_string().as_bytes())?;
        making.folder.create(RELAY_PID, std::process::id().to_string().as_bytes())?;
        making.folder.create(SLAVE, slave.as_bytes())
    }

    /// The secret that the marks of this session's shell carry.
    pub(crate) fn secret(folder: &Folder) -> io::Result<String> {
        let secret = folder.read(SECRET, LONGEST_WORD)?;
        String::from_utf8(secret).map_err(io::Error::other)
    }

    pub(crate) fn command(folder: &Folder) -> io::Result<Vec<u8>> {
        folder.read(COMMAND, LONGEST_COMMAND)
    }

    /// The program that runs a command in the session of this folder, and its
    /// arguments. A command that begins with a dash is still a command.
    pub(crate) fn words(command: &[u8], folder: &Path) -> Vec<OsString> {
        if Launch::is_interactive(command) {
            return vec!["bash".into(), "--rcfile".into(), folder.join(RCFILE).into(), "-i".into()];
        }
        vec!["bash".into(), "-c".into(), "--".into(), OsString::from_vec(command.to_vec())]
    }

    /// The same by a login shell, as the helper runs it.
    pub(crate) fn login_words(command: &[u8], folder: &Path) -> Vec<OsString> {
        let mut words = vec!["bash".into(), "--login".into(), "-c".into()];
        if Launch::is_interactive(command) {
            words.push("exec bash --rcfile \"$0\" -i".into());
            words.push(folder.join(RCFILE).into());
        } else {
            words.push("--".into());
            words.push(OsString::from_vec(command.to_vec()));
        }
        words
    }
}
