//! Profiles: sets of restrictions under a name.
//!
//! A profile is a file with an option of `create` on each line, as it is written in a call. A file goes
//! before the profile of its name that is built in.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStringExt,
};

use crate::{
    outcome::{Failure, Result, Trying},
    session::{Name, PROFILES, StateDir},
    sys::files::Folder,
};

/// The options for a program that works on a project.
const AGENT: &[u8] = b"--write-root=.\n--read-root=none\n--no-network\n--clear-env\n\
    --memory=4G\n--tasks=500\n";

const LONGEST: u64 = 64 * 1024;

/// The options that a profile may have, and whether each takes a value.
const OPTIONS: [(&str, bool); 9] = [
    ("write-root", true),
    ("read-root", true),
    ("no-network", false),
    ("connect", true),
    ("clear-env", false),
    ("hide-env", true),
    ("memory", true),
    ("tasks", true),
    ("cpu", true),
];

#[derive(Default)]
pub(crate) struct Profile(Vec<(&'static str, OsString)>);

impl Profile {
    pub(crate) fn read(name: &Name) -> Result<Profile> {
        let what = || format!("use profile '{}'", name.as_str());
        let folder = StateDir::open_or_make()?.path().join(PROFILES);
        let content = match Folder::open(&folder).and_then(|folder| folder.read(name.as_str(), LONGEST)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && name.as_str() == "agent" => {
                AGENT.to_vec()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message =
                    format!("cannot {}: there is no '{}/{}'", what(), folder.display(), name.as_str());
                return Err(Failure::failed(message));
            }
            content => content.trying(what())?,
        };
        Profile::parse(&content)
            .map_err(|line| Failure::failed(format!("cannot {}: line {line} is invalid", what())))
    }

    /// The error is the number of the first line that is invalid.
    fn parse(content: &[u8]) -> std::result::Result<Profile, usize> {
        let mut options = Vec::new();
        for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let line = line.strip_prefix(b"--").unwrap_or(line);
            let found = OPTIONS.iter().find_map(|(name, takes_value)| {
                let rest = line.strip_prefix(name.as_bytes())?;
                match (rest.strip_prefix(b"="), takes_value) {
                    (Some(value), true) => Some((*name, OsString::from_vec(value.to_vec()))),
                    (None, false) if rest.is_empty() => Some((*name, OsString::new())),
                    _ => None,
                }
            });
            options.push(found.ok_or(number + 1)?);
        }
        Ok(Profile(options))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.0.iter().any(|(name, _)| *name == option)
    }

    /// The values of an option, as `kind` reads them.
    pub(crate) fn values<T>(&self, option: &str, kind: fn(&str, &OsStr) -> Result<T>) -> Result<Vec<T>> {
        self.0.iter().filter(|(name, _)| *name == option).map(|(name, value)| kind(name, value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_profile_has_an_option_on_each_line() {
        let profile =
            Profile::parse(b"# mine\n\n--write-root=/a b\n  no-network \nconnect=443\n").ok().unwrap();
        let expected = [("write-root", "/a b"), ("no-network", ""), ("connect", "443")];
        assert_eq!(profile.0, expected.map(|(name, value)| (name, value.into())));
        assert!(Profile::parse(AGENT).is_ok_and(|agent| agent.has("clear-env")));
        for (bad, line) in
            [("x", 1), ("\n--write-root", 2), ("no-network=1", 1), ("name=x", 1), ("no-networks", 1)]
        {
            assert_eq!(Profile::parse(bad.as_bytes()).err(), Some(line), "{bad}");
        }
        let bytes = Profile::parse(b"hide-env=\xff*").ok().unwrap();
        assert_eq!(bytes.0[0].1.as_bytes(), b"\xff*");
    }
}
