//! A child that is ready on its terminal and waits for permission to start its program.
//!
//! So we know its PID, and can write it down, before it does anything. If the permission never comes,
//! it exits without starting the program.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    time::Duration,
};

pub(crate) use crate::sys::child::Environment;
use crate::sys::{
    cgroup::Cgroup, confinement::Confinement, deadline::Deadline, poll, processes::PidFd, pty::Master,
    spawn::Role,
};

/// The variables that a child does not inherit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HiddenVariables {
    /// All but [`USUAL`].
    pub(crate) clear: bool,
    /// The variables with such names: `*` matches any characters, and `?` one.
    pub(crate) globs: Vec<OsString>,
}

/// Variables of nbs itself: by the first one a worker's sessions are found.
const OURS: [&str; 2] = ["NBS_HANDLE", "NBS_TS_PROFILE"];

/// The variables that programs need.
const USUAL: [&str; 7] = ["HOME", "PATH", "TERM", "LANG", "USER", "SHELL", "TMPDIR"];

/// Means `clear` among words. No name of a variable that a shell accepts has a dash.
const CLEAR: &str = "-clear";

impl HiddenVariables {
    pub(crate) fn is_nothing(&self) -> bool {
        !self.clear && self.globs.is_empty()
    }

    fn hides(&self, name: &OsStr) -> bool {
        let matches = |glob: &OsString| is_like(glob.as_bytes(), name.as_bytes());
        (self.clear && !USUAL.iter().chain(&OURS).any(|kept| name == *kept)) || self.globs.iter().any(matches)
    }

    /// The changes that take them out of our own environment.
    pub(crate) fn removals(&self) -> Environment {
        if self.is_nothing() {
            return Environment::new();
        }
        env::vars_os().filter(|(name, _)| self.hides(name)).map(|(name, _)| (name, None)).collect()
    }

    /// May a child from which `there` is hidden have variables that are hidden here?
    pub(crate) fn shows_in(&self, there: &HiddenVariables) -> bool {
        (self.clear && !there.clear)
            || self.globs.iter().any(|glob| {
                let is_usual = USUAL.iter().any(|usual| is_like(glob.as_bytes(), usual.as_bytes()));
                !there.globs.contains(glob) && (!there.clear || is_usual)
            })
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = OsString> {
        self.clear.then(|| CLEAR.into()).into_iter().chain(self.globs.iter().cloned())
    }

    pub(crate) fn of_words(mut globs: Vec<OsString>) -> HiddenVariables {
        let count = globs.len();
        globs.retain(|word| *word != *CLEAR);
        HiddenVariables { clear: globs.len() < count, globs }
    }
}

fn is_like(glob: &[u8], name: &[u8]) -> bool {
    match glob.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|at| is_like(rest, &name[at..])),
        Some((first, rest)) => name
            .split_first()
            .is_some_and(|(found, name)| (*first == b'?' || first == found) && is_like(rest, name)),
    }
}

/// The program that the child executes once it has permission.
pub(crate) struct Program<'a> {
    pub(crate) words: &'a [OsString],
    pub(crate) umask: u32,
    /// `None`: our directory.
    pub(crate) folder: Option<&'a Path>,
    /// How its environment differs from ours.
    pub(crate) environment: &'a Environment,
    /// `None`: no restrictions beyond ours.
    pub(crate) confinement: Option<&'a Confinement>,
}

pub(crate) struct Gate {
    child: u32,
    word: File,
    // Dropped behind `word`, at whose end the child exits.
    limit: UnusedLimit,
}

/// The cgroup of a child that has not begun, and the child's PID. It goes when the child has gone.
struct UnusedLimit(Option<(Cgroup, u32)>);

impl Drop for UnusedLimit {
    fn drop(&mut self) {
        /// For a child that only has to exit.
        const EXIT: Duration = Duration::from_secs(2);
        let Some((cgroup, child)) = self.0.take() else { return };
        // If it cannot be waited for, the cgroup stays.
        if let Ok(Some(child)) = PidFd::open(child) {
            let _ = poll::wait_readable(&child, Deadline::after(EXIT));
        }
        cgroup.remove();
    }
}

// The descriptor to which we write the permission.
as_fd!(Gate, word);

impl Gate {
    pub(crate) fn spawn(master: &Master, program: &Program<'_>) -> io::Result<Gate> {
        if let Some(confinement) = program.confinement {
            // We check here, where an error still reaches the caller.
            confinement.check()?;
        }
        let slave = master.open_slave()?;
        let (reader, word) = io::pipe()?;
        let jail = program.confinement.map(Confinement::words).unwrap_or_default();
        let mut words = vec![format!("{:o}", program.umask).into(), jail.len().to_string().into()];
        words.extend(jail);
        words.extend_from_slice(program.words);
        let role = Role {
            name: "nbs-child",
            words: &words,
            streams: [slave.as_fd(), slave.as_fd(), reader.as_fd()],
            folder: program.folder,
            environment: program.environment,
        };
        Ok(Gate::of_another(role.start()?, word.into()))
    }

    /// The gate of a child that another process started.
    pub(crate) fn of_another(child: u32, word: OwnedFd) -> Gate {
        Gate { child, word: File::from(word), limit: UnusedLimit(None) }
    }

    /// Limits the child by this cgroup, which is removed if the gate is never opened.
    pub(crate) fn limit(&mut self, cgroup: Cgroup) {
        self.limit.0 = Some((cgroup, self.child));
    }

    /// The PID that the command has, or will have.
    pub(crate) fn child(&self) -> u32 {
        self.child
    }

    /// Returns the cgroup, which is the caller's from now on.
    pub(crate) fn open(mut self) -> io::Result<Option<Cgroup>> {
        self.word.write_all(b"+")?;
        Ok(self.limit.0.take().map(|(cgroup, _)| cgroup))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_hides_what_it_matches_as_a_whole() {
        for (glob, name, expected) in [
            ("TOKEN", "TOKEN", true),
            ("TOKEN", "TOKENS", false),
            ("AWS_*", "AWS_", true),
            ("AWS_*", "AWS_SECRET", true),
            ("AWS_*", "MY_AWS_SECRET", false),
            ("*_KEY", "A_KEY_KEY", true),
            ("*", "ANY", true),
            ("A?C", "ABC", true),
            ("A?C", "AC", false),
            ("[A]", "A", false),
        ] {
            let hidden = HiddenVariables { clear: false, globs: vec![glob.into()] };
            assert_eq!(hidden.hides(name.as_ref()), expected, "{glob} {name}");
        }
        let all = HiddenVariables { clear: true, globs: vec!["L*".into()] };
        assert!(all.hides("X".as_ref()) && all.hides("LANG".as_ref()) && !all.hides("HOME".as_ref()));
        assert_eq!(HiddenVariables::of_words(all.words().collect()), all);
    }
}
