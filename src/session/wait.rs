//! Waiting on one session: woken by each change, until its end or a deadline.

use std::time::Duration;

use crate::{
    outcome::{Failure, Result},
    session::{Contact, Evidence, News, SessionDir},
    sys::deadline::Deadline,
};

pub(crate) struct Wait<'a> {
    session: &'a SessionDir,
    // `None` once the session has ended.
    contact: Option<Contact>,
    timeout: Duration,
    deadline: Deadline,
}

/// Why there will be nothing more to look at.
#[derive(Debug)]
pub(crate) enum Over {
    Ended,
    TimedOut,
    /// The relay does not tell of changes, for this reason.
    Untold(Failure),
}

impl<'a> Wait<'a> {
    /// How long waits last unless told otherwise.
    pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

    /// As long as the session's patience lasts; how long that was is for messages.
    pub(crate) fn begin(session: &'a SessionDir, timeout: Duration) -> Result<Wait<'a>> {
        let deadline = session.patience().over();
        Ok(Wait { session, contact: Contact::open(session)?, timeout, deadline })
    }

    /// Returns when it is time to look: the first time at once, then after each
    /// change; with a reason, when it is the last time.
    pub(crate) fn next(&mut self) -> Option<Over> {
        let Some(contact) = &mut self.contact else { return Some(Over::Ended) };
        match contact.news(self.deadline) {
            Ok(News::Changed) if self.deadline.has_passed() => Some(Over::TimedOut),
            Ok(News::Changed) => None,
            Ok(News::TimedOut) => Some(Over::TimedOut),
            Ok(News::Ended) => {
                self.contact = None;
                Some(Over::Ended)
            }
            Err(failure) => Some(Over::Untold(failure)),
        }
    }

    /// What to say when it did not come to what was waited for.
    pub(crate) fn in_vain(&self, why: Over, what: &str) -> Failure {
        match why {
            Over::Ended => Failure::Failed(format!(
                "cannot {what}: {}{}",
                self.session.ended(),
                Evidence::and_last_line(self.session)
            )),
            Over::TimedOut => Failure::TimedOut(format!(
                "cannot {what} in session '{}': timed out {}",
                self.session.handle(),
                Evidence::gather(self.session, self.timeout)
            )),
            Over::Untold(failure) => failure,
        }
    }

    /// What to say when it could not be looked at: a session that was there when
    /// the wait began, and has been removed, has ended.
    pub(crate) fn cut_short(failure: Failure) -> Failure {
        match failure {
            Failure::NotFound(message) => Failure::Failed(message),
            other => other,
        }
    }
}
