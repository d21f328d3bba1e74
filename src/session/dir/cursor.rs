//! The positions of a session's readers: its cursors, and its completions.

use std::{fs::File, io, time::Duration};

use crate::{
    numbers::number,
    outcome::Result,
    session::{
        Completion, Name,
        dir::{COMPLETION_CURSOR, COMPLETIONS, LONGEST_COMPLETIONS, LONGEST_WORD, READ_CURSOR, SessionDir},
    },
    sys::{deadline::Deadline, files, lock},
};

/// How long to wait for another reader with the same cursor: it may print much, into a terminal that is slow.
const READING: Duration = Duration::from_secs(10);

/// The decimal digits of the largest `u64`.
const LONGEST_PLACE: usize = 20;

impl SessionDir {
    /// The completions, for repeated looks.
    pub(crate) fn completions(&self) -> Completions<'_> {
        Completions { session: self, file: None }
    }

    /// The cursor of a reader of output, by the reader's name.
    pub(crate) fn read_cursor(&self, name: Option<&Name>) -> Result<Cursor<'_>> {
        let file = match name {
            Some(name) => format!("{READ_CURSOR}.{}", name.as_str()),
            None => READ_CURSOR.to_owned(),
        };
        self.cursor(file, |_| Ok(0), |_| Deadline::after(READING))
    }

    /// The same for a call that waits for completions: it waits as long as the call may take.
    pub(crate) fn completion_cursor(&self) -> Result<Cursor<'_>> {
        self.cursor(COMPLETION_CURSOR.to_owned(), SessionDir::first_completion, |session| {
            session.patience.last()
        })
    }

    /// The number of the first completion for waiting calls. Number 0 of a shell is its first prompt, which
    /// completes no command; of anything else it is the end.
    pub(crate) fn first_completion(&self) -> Result<u64> {
        Ok(u64::from(self.is_interactive()?))
    }

    fn cursor(
        &self,
        file: String,
        first: fn(&SessionDir) -> Result<u64>,
        patience: fn(&SessionDir) -> Deadline,
    ) -> Result<Cursor<'_>> {
        let lock = self.trying(self.folder.open_lock(&lock_of(&file)), "lock the cursor")?;
        Ok(Cursor { lock, session: self, file, first, patience })
    }
}

/// By what its readers are kept from a cursor.
fn lock_of(cursor: &str) -> String {
    format!("lock.{cursor}")
}

/// completion.log, held open once it is there.
pub(crate) struct Completions<'a> {
    session: &'a SessionDir,
    file: Option<File>,
}

impl Completions<'_> {
    /// The first at or after `cursor`, if there is one by now.
    pub(crate) fn first_from(&mut self, cursor: u64) -> Result<Option<Completion>> {
        let what = "read the completions";
        if self.file.is_none() {
            self.file = match self.session.folder.open_file(COMPLETIONS) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !self.session.is_gone() => None,
                file => Some(self.session.trying(file, what)?),
            };
        }
        let Some(file) = &self.file else { return Ok(None) };
        let content = self.session.trying(files::read(file, COMPLETIONS, LONGEST_COMPLETIONS), what)?;
        Ok(Completion::first_from(cursor, &content))
    }
}

/// The cursor of a reader, which its calls lock one after another.
pub(crate) struct Cursor<'a> {
    lock: File,
    session: &'a SessionDir,
    file: String,
    // The initial position.
    first: fn(&SessionDir) -> Result<u64>,
    // Until when to wait for it.
    patience: fn(&SessionDir) -> Deadline,
}

impl Cursor<'_> {
    /// Locks it. Waits a while for the present holder.
    pub(crate) fn take(&self) -> Result<ReadCursor<'_>> {
        let (name, deadline) = (lock_of(&self.file), (self.patience)(self.session));
        let taken = lock::wait(&self.lock, &name, lock::LockKind::Alone, deadline);
        self.session.trying(taken, "lock the cursor")?;
        Ok(ReadCursor(self))
    }
}

/// A cursor that is ours alone for as long as we hold this.
pub(crate) struct ReadCursor<'a>(&'a Cursor<'a>);

impl Drop for ReadCursor<'_> {
    fn drop(&mut self) {
        // It goes with the file at the latest.
        let _ = self.0.lock.unlock();
    }
}

impl ReadCursor<'_> {
    /// The next position.
    pub(crate) fn place(&self) -> Result<u64> {
        let Cursor { session, file, first, .. } = self.0;
        let digits = match session.folder.read(file, LONGEST_WORD) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return first(session),
            // A power cut has emptied it: output that may have been read comes again.
            Ok(digits) if digits.is_empty() => return first(session),
            other => session.trying(other, "read the cursor")?,
        };
        let bad = || io::Error::other(format!("'{file}' does not contain a number"));
        session.trying(number(digits.trim_ascii_end()).ok_or_else(bad), "read the cursor")
    }

    /// Reserves the disk space for moving the cursor: to be called before the output is printed, which would
    /// come again if the cursor could not be moved.
    pub(crate) fn reserve(&self) -> Result<()> {
        let Cursor { session, file, .. } = self.0;
        session.trying(session.folder.reserve_over(file, LONGEST_PLACE), "move the cursor")
    }

    /// Sets where to go on the next time.
    pub(crate) fn advance(&self, place: u64) -> Result<()> {
        let Cursor { session, file, .. } = self.0;
        session.trying(session.folder.exchange_over(file, place.to_string().as_bytes()), "move the cursor")
    }
}
