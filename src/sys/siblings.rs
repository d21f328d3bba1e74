//! The files of nbs for other architectures: they lie beside ours, as `nbs-ARCH`.

use std::{
    env::consts::ARCH,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use super::program::Program;

/// Architectures that nbs is built for, as `uname -m` has them, and what else they are called.
pub(crate) const ARCHITECTURES: [(&str, &str); 2] = [("x86_64", "amd64"), ("aarch64", "arm64")];

/// The file at the place where one of ours should be.
pub(crate) enum Sibling {
    Usable,
    Absent,
    /// Why it cannot be used; the text follows "it" or "which".
    Unusable(String),
}

/// Every architecture but ours.
pub(crate) fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.into_iter().map(|(architecture, _)| architecture).filter(|other| *other != ARCH)
}

/// The path for the file of that architecture, and its state.
pub(crate) fn look(ourselves: &Path, architecture: &str) -> (PathBuf, Sibling) {
    let path = ourselves.with_file_name(format!("nbs-{architecture}"));
    let sibling = match Program::look(&path) {
        Ok(Some(program)) if program.is_whole() && program.is_for(architecture) => Sibling::Usable,
        Ok(Some(program)) => Sibling::Unusable(format!("is {program}")),
        Ok(None) => Sibling::Unusable("is not a program".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => Sibling::Absent,
        Err(error) => Sibling::Unusable(format!("cannot be read: {error}")),
    };
    (path, sibling)
}
