//! A form on the page for one secret: its address lets a person answer one secret prompt of one session, once,
//! and nothing else.
//!
//! The form is a file of the session: its id, the program, and the line at which it waits. The page removes
//! the file before it types the secret. So the form is used at most once, and the process that opened it
//! learns that it has been used.

use std::{ffi::OsStr, io, time::Duration};

use crate::{
    numbers::number,
    outcome::{Result, Trying},
    session::{Handle, PAGE_PORT, SessionDir, StateDir, Target, client::TerminalState},
    sys::{
        as_fd,
        deadline::Deadline,
        files::{self, Folder},
        random,
        watch::Watch,
    },
};

pub(super) const FORM: &str = "form";

/// How long a form can be used.
const VALID: Duration = Duration::from_secs(600);

/// How many random bytes an id begins with, as hexadecimal digits; the handle of the session follows.
const BYTES: usize = 16;

/// Longer than the last line of any session.
const LONGEST: u64 = 64 << 10;

pub(crate) struct SecretForm {
    pub(crate) session: SessionDir,
    pub(crate) id: String,
    /// The program, and the line.
    pub(crate) asked: String,
}

impl SecretForm {
    /// Removes it, so that nobody else uses it; an error if someone has.
    pub(crate) fn take(&self) -> io::Result<()> {
        self.session.folder.remove_file(OsStr::new(FORM))
    }

    /// Does the session still ask this?
    pub(crate) fn is_asked(&self) -> bool {
        asked(&self.session).as_ref() == Some(&self.asked)
    }
}

/// A form in the process that opened it; readable when it may have been used.
pub(crate) struct OpenForm {
    pub(crate) form: SecretForm,
    pub(crate) address: String,
    pub(crate) deadline: Deadline,
    watch: Watch,
}

as_fd!(OpenForm, watch);

impl OpenForm {
    /// Has it been used, or replaced by another one?
    pub(crate) fn is_used(&self) -> bool {
        // Events only wake us. If they cannot be read, the deadline does.
        let _ = self.watch.changes();
        read(&self.form.session).is_none_or(|(id, _)| id != self.form.id)
    }
}

/// The secret prompt that a session is at: the program, and the line.
fn asked(session: &SessionDir) -> Option<String> {
    let view = session.overview().ok()??;
    let program = String::from_utf8_lossy(view.program.as_deref().unwrap_or_default()).replace('\n', " ");
    let line = view.last_line.unwrap_or_default();
    (view.doing == Some(TerminalState::Secret)).then(|| format!("{program}\n{line}"))
}

/// The form of a session: its id, and the prompt.
fn read(session: &SessionDir) -> Option<(String, String)> {
    let file = String::from_utf8(session.folder.read(FORM, LONGEST).ok()?).ok()?;
    file.split_once('\n').map(|(id, asked)| (id.to_owned(), asked.to_owned()))
}

impl StateDir {
    /// The last port of a page of this state directory.
    pub(crate) fn page_port(&self) -> Option<u16> {
        number(Folder::open(self.path()).ok()?.read(PAGE_PORT, 6).ok()?.trim_ascii_end())
    }

    /// Does an `nbs-page` run that a browser on this machine can reach? It holds the lock of its port file.
    pub(crate) fn has_page(&self) -> bool {
        let file = Folder::open(self.path()).and_then(|folder| folder.open_file(PAGE_PORT));
        file.and_then(|file| files::is_locked(&file)).unwrap_or(false)
    }

    /// Opens a form for the secret prompt of a session; an earlier one is no longer valid. `None`: it is not at
    /// a secret prompt, or there is no page.
    pub(crate) fn open_form(&self, target: &Target) -> Result<Option<OpenForm>> {
        let what = "open a form for a secret";
        let Some(port) = self.page_port().filter(|_| self.has_page()) else { return Ok(None) };
        let session = self.session(target)?.within(Deadline::after(Duration::ZERO));
        let Some(asked) = asked(&session) else { return Ok(None) };
        let handle = session.handle().as_str();
        let id = random::hex::<BYTES>().trying(what)? + handle;
        let watch = Watch::folder(&self.sessions_path().join(handle)).trying(what)?;
        session.folder.replace(FORM, format!("{id}\n{asked}").as_bytes()).trying(what)?;
        let address = format!("http://127.0.0.1:{port}/secret/{id}");
        let form = SecretForm { session, id, asked };
        Ok(Some(OpenForm { form, address, deadline: Deadline::after(VALID), watch }))
    }

    /// The form with this id, if it is open.
    pub(crate) fn form(&self, id: &str) -> Option<SecretForm> {
        let target = Target::Handle(Handle::parse(id.get(2 * BYTES..)?.as_bytes())?);
        let session = self.session(&target).ok()?.within(Deadline::after(Duration::ZERO));
        let (kept, asked) = read(&session)?;
        let age = session.folder.modified(FORM).ok()?.elapsed().unwrap_or_default();
        let is_open = random::is_same(&kept, id) && age < VALID;
        is_open.then_some(SecretForm { session, id: kept, asked })
    }
}
