//! The handles of workers.

use std::{fmt, io};

use crate::session::{Handle, Name};

/// The role of a worker, such as `reviewer`.
///
/// Invariant: 1 to 46 of `[a-zA-Z0-9_.-]`, not beginning with a dot. So it is one path component that
/// is not hidden, and fits into a session's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Role(String);

impl Role {
    const LONGEST: usize = 46;

    pub(crate) fn parse(word: &[u8]) -> Option<Role> {
        let may_stand = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
        let valid =
            (1..=Role::LONGEST).contains(&word.len()) && word[0] != b'.' && word.iter().all(may_stand);
        valid.then(|| Role(String::from_utf8_lossy(word).into_owned()))
    }
}

/// A worker's handle, `<role>-<8 hex digits>`: of one launch, never of a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkerHandle(String);

impl WorkerHandle {
    pub(crate) fn fresh(role: &Role) -> io::Result<WorkerHandle> {
        Ok(WorkerHandle(format!("{}-{}", role.0, Handle::fresh()?)))
    }

    pub(crate) fn parse(word: &[u8]) -> Option<WorkerHandle> {
        let dash = word.len().checked_sub(9).filter(|dash| word[*dash] == b'-')?;
        Handle::parse(&word[dash + 1..])?;
        Role::parse(&word[..dash])?;
        Some(WorkerHandle(String::from_utf8_lossy(word).into_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Is a session of that name this worker's? A worker may have started others
    /// in its own name, whose handles hold its own: theirs are not.
    pub(crate) fn owns(&self, session: &Name, workers: &[WorkerHandle]) -> bool {
        let session = session.as_str();
        let is_anothers = |other: &WorkerHandle| {
            other.0.len() > self.0.len() && other.0.contains(&self.0) && session.contains(&other.0)
        };
        session.contains(&self.0) && !workers.iter().any(is_anothers)
    }
}

impl fmt::Display for WorkerHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_a_plain_short_word() {
        let longest = "x".repeat(46);
        for word in ["a", "pythia", "-x", "a.b_c-1", &longest] {
            assert!(Role::parse(word.as_bytes()).is_some(), "{word:?}");
        }
        let too_long = "x".repeat(47);
        for word in ["", ".", "..", ".a", "a/b", "a b", "é", "a\n", "$(a)", &too_long] {
            assert_eq!(Role::parse(word.as_bytes()), None, "{word:?}");
        }
    }

    #[test]
    fn a_handle_is_a_role_and_eight_hex_digits() {
        for word in ["a-01234abc", "a-b-01234abc", "--01234abc"] {
            assert_eq!(WorkerHandle::parse(word.as_bytes()).unwrap().as_str(), word);
        }
        for word in ["", "01234abc", "-01234abc", "a01234abc", "a-01234ABC", "a-1234abc", ".a-01234abc"] {
            assert_eq!(WorkerHandle::parse(word.as_bytes()), None, "{word:?}");
        }
        let fresh = WorkerHandle::fresh(&Role::parse(b"a").unwrap()).unwrap();
        assert_eq!(WorkerHandle::parse(fresh.as_str().as_bytes()), Some(fresh));
    }

    #[test]
    fn a_session_belongs_to_the_worker_whose_whole_handle_it_names() {
        let handle = |word: &str| WorkerHandle::parse(word.as_bytes()).unwrap();
        let name = |word: &str| Name::parse(word.as_bytes()).unwrap();
        let (lead, aide) = (handle("a-01234abc"), handle("a-01234abc-b-99999999"));
        let all = [lead.clone(), aide.clone(), handle("a-00000000")];
        assert!(lead.owns(&name("nbs-a-01234abc-poem"), &all));
        assert!(!lead.owns(&name("nbs-a-00000000-poem"), &all));
        assert!(!lead.owns(&name("nbs-a-01234abc-b-99999999-poem"), &all));
        assert!(aide.owns(&name("nbs-a-01234abc-b-99999999-poem"), &all));
    }
}
