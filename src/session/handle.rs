//! The identifiers of sessions: handles, names, and targets, which are either.

use std::{fmt, io, os::unix::ffi::OsStrExt};

use crate::sys::random;

/// A session's handle.
///
/// Invariant: 8 digits of `0-9a-f`; so it is one safe path component and needs
/// no quoting anywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle(String);

impl Handle {
    pub(crate) fn parse(word: &[u8]) -> Option<Handle> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let valid = word.len() == 8 && word.iter().all(is_digit);
        valid.then(|| Handle(String::from_utf8_lossy(word).into_owned()))
    }

    /// A new one, from the kernel's random source.
    pub(crate) fn fresh() -> io::Result<Handle> {
        random::hex::<4>().map(Handle)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The number that its digits are.
    pub(crate) fn number(&self) -> u32 {
        u32::from_str_radix(&self.0, 16).expect("it is 8 hexadecimal digits")
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A session, here or on another machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    /// `None`: this machine.
    pub(crate) machine: Option<String>,
    pub(crate) handle: Handle,
}

impl Address {
    /// Its identity.
    pub(crate) fn key(&self) -> (Option<&str>, &str) {
        (self.machine.as_deref(), self.handle.as_str())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.machine {
            Some(machine) => write!(formatter, "{machine}:{}", self.handle),
            None => write!(formatter, "{}", self.handle),
        }
    }
}

/// The name of a session, or of a reader of one.
///
/// Invariant: 1 to 64 of `[a-zA-Z0-9_.-]`, and not `-` alone, by which listings show that there is no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(String);

impl Name {
    const LONGEST: usize = 64;

    pub(crate) fn parse(word: &[u8]) -> Option<Name> {
        let may_stand = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
        let valid = (1..=Name::LONGEST).contains(&word.len()) && word != b"-" && word.iter().all(may_stand);
        valid.then(|| Name(String::from_utf8_lossy(word).into_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Is this a part of it?
    pub(crate) fn is_like(&self, pattern: &str) -> bool {
        self.0.contains(pattern)
    }

    /// Does a pattern, if there is one, pick a session with this name, if it has one?
    pub(crate) fn is_wanted(name: Option<&Name>, pattern: Option<&str>) -> bool {
        pattern.is_none_or(|pattern| name.is_some_and(|name| name.is_like(pattern)))
    }
}

/// How a user names one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Handle(Handle),
    /// The newest live session of that name, else the newest dead one.
    Name(Name),
}

impl Target {
    pub(crate) fn parse(word: &[u8]) -> Option<Target> {
        match word.strip_prefix(b"@") {
            Some(name) => Name::parse(name).map(Target::Name),
            None => Handle::parse(word).map(Target::Handle),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Handle(handle) => formatter.write_str(handle.as_str()),
            Target::Name(name) => write!(formatter, "@{}", name.as_str()),
        }
    }
}

/// The handle that is a directory's name, if it is one.
pub(crate) fn of_folder(name: &std::ffi::OsStr) -> Option<Handle> {
    Handle::parse(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_eight_lower_case_hex_digits() {
        assert!(Handle::parse(b"01234abc").is_some());
        for word in ["", "0123456", "012345678", "0123456G", "0123ABCD", "../../..", "0123456\n"] {
            assert_eq!(Handle::parse(word.as_bytes()), None, "{word:?}");
        }
        let fresh = Handle::fresh().unwrap();
        assert_eq!(Handle::parse(fresh.as_str().as_bytes()), Some(fresh));
    }

    #[test]
    fn a_name_is_short_and_plain() {
        let longest = "x".repeat(64);
        for word in ["a", "build-1", "a.b_c", "--", "..", &longest] {
            assert!(Name::parse(word.as_bytes()).is_some(), "{word:?}");
        }
        let too_long = "x".repeat(65);
        for word in ["", "-", "a b", "a/b", "é", "a\n", &too_long] {
            assert_eq!(Name::parse(word.as_bytes()), None, "{word:?}");
        }
    }

    #[test]
    fn a_target_is_a_handle_or_an_at_name() {
        assert!(matches!(Target::parse(b"01234abc"), Some(Target::Handle(_))));
        assert!(matches!(Target::parse(b"@build"), Some(Target::Name(_))));
        for word in ["", "@", "build", "@a b", "@-", "0123"] {
            assert_eq!(Target::parse(word.as_bytes()), None, "{word:?}");
        }
    }
}
