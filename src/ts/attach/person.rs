//! A person's terminal, on our standard input and output, while we show something on it.
//!
//! No write waits for it: output that it does not accept at once is kept.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsFd,
    time::Duration,
};

use crate::{
    machine::outbox::Outbox,
    outcome::{Failure, Result, Trying},
    sys::{
        deadline::Deadline,
        poll::PollSet,
        signals::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH, Signals},
        term,
    },
    ts::attach,
};

/// How long a terminal that takes nothing may hold up our leaving it.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

const GIVE_BACK: &str = "restore the terminal";

pub(crate) struct PersonTerminal {
    output: File,
    before: term::Before,
    /// Output that is not written yet.
    pub(crate) out: Outbox,
}

impl PersonTerminal {
    /// Reads its modes; [`PersonTerminal::make_raw`] changes them.
    pub(crate) fn look() -> Result<PersonTerminal> {
        let what = "take the terminal";
        let before = term::Before::look().trying(what)?;
        let before = before.ok_or_else(|| Failure::failed(format!("cannot {what}: there is none")))?;
        Ok(PersonTerminal { output: term::output().trying(what)?, before, out: Outbox::default() })
    }

    pub(crate) fn make_raw(&self) -> Result<()> {
        self.before.make_raw().trying("take the terminal")
    }

    pub(crate) fn print(&mut self, bytes: &[u8]) {
        self.out.push(bytes);
    }

    /// Writes as much as it accepts at once.
    pub(crate) fn write_on(&mut self) -> Result<()> {
        self.out.flush(&mut self.output).trying("write to the terminal")
    }

    /// Waits until the terminal accepts more, if there is more.
    pub(crate) fn watch<'a, Event: Copy>(&'a self, poll_set: &mut PollSet<'a, Event>, event: Event) {
        if !self.out.is_empty() {
            poll_set.writable(&self.output, event);
        }
    }

    /// Writes the rest, as far as the terminal accepts it in a while.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let deadline = Deadline::after(LEAVE_TIMEOUT);
        // A terminal that has gone needs no output.
        while self.write_on().is_ok() && !self.out.is_empty() && !deadline.has_passed() {
            let mut poll_set = PollSet::new();
            self.watch(&mut poll_set, ());
            poll_set.wait(deadline).trying("write to the terminal")?;
        }
        self.out.clear();
        Ok(())
    }

    /// Restores the terminal for another process, which returns it to us later.
    pub(crate) fn put_back(&self) -> Result<()> {
        self.before.put_back().trying(GIVE_BACK)
    }

    /// Restores it for good.
    pub(crate) fn give_back(&self) -> Result<()> {
        self.before.give_back().trying(GIVE_BACK)
    }

    /// Stops our parent, as [`attach::stop`].
    pub(crate) fn stop(&self, signals: &mut PersonSignals<impl AsFd>) -> Result<bool> {
        attach::stop(&self.before, &mut signals.going_on, signals.parent)
    }
}

/// The events of the user's terminal and of our parent.
pub(crate) struct PersonSignals<'a, Parent> {
    resized: Signals,
    ending: Signals,
    stopping: Signals,
    going_on: Signals,
    // A pipe to the process that restores the terminal if we cannot.
    parent: &'a Parent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PersonEvent {
    Resized,
    /// We must end; also if the process that restores the terminal has gone.
    Ending,
    Stopping,
    GoingOn,
}

impl<'a, Parent: AsFd> PersonSignals<'a, Parent> {
    pub(crate) fn catch(parent: &'a Parent) -> Result<PersonSignals<'a, Parent>> {
        let catch = |signals: &[i32]| Signals::catch(signals).trying("take the terminal");
        Ok(PersonSignals {
            resized: catch(&[SIGWINCH])?,
            ending: catch(&[SIGTERM, SIGHUP, SIGINT, SIGQUIT])?,
            // It would leave the terminal raw.
            stopping: catch(&[SIGTSTP])?,
            going_on: catch(&[SIGCONT])?,
            parent,
        })
    }

    pub(crate) fn watch<'b, Event: Copy>(
        &'b self,
        poll_set: &mut PollSet<'b, Event>,
        event: impl Fn(PersonEvent) -> Event,
    ) {
        poll_set.readable(&self.resized, event(PersonEvent::Resized));
        poll_set.readable(&self.ending, event(PersonEvent::Ending));
        poll_set.readable(&self.stopping, event(PersonEvent::Stopping));
        poll_set.readable(&self.going_on, event(PersonEvent::GoingOn));
        poll_set.gone(self.parent, event(PersonEvent::Ending));
    }

    /// Records an event, and returns whether it was a signal; it may repeat.
    pub(crate) fn take(&mut self, event: PersonEvent) -> bool {
        match event {
            PersonEvent::Resized => &mut self.resized,
            PersonEvent::Ending => &mut self.ending,
            PersonEvent::Stopping => &mut self.stopping,
            PersonEvent::GoingOn => &mut self.going_on,
        }
        .take()
    }
}

/// The typed keys; `None` if the terminal has gone.
pub(crate) fn read_keys(stdin: &io::Stdin) -> Result<Option<Vec<u8>>> {
    let mut buffer = [0; 4096];
    // Past any buffer, which poll(2) would know nothing of.
    let keys = stdin.as_fd().try_clone_to_owned().trying("read the keys")?;
    match File::from(keys).read(&mut buffer) {
        Ok(0) => Ok(None),
        Ok(count) => Ok(Some(buffer[..count].to_vec())),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(Vec::new())),
        Err(_) => Ok(None),
    }
}
