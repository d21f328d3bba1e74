//! Links to our own file.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Symbolic,
    Hard,
}

/// Makes a link of each name in `folder`. A name that is taken is an error,
/// found before anything is made, unless `force`; then it is replaced whole.
pub(crate) fn make<'a>(
    folder: &Path,
    names: &'a [String],
    kind: Kind,
    force: bool,
) -> Result<(), (&'a str, io::Error)> {
    let ourselves = fs::read_link("/proc/self/exe").map_err(|error| {
        (names[0].as_str(), io::Error::new(error.kind(), format!("/proc/self/exe cannot be read: {error}")))
    })?;
    for name in names {
        let taken = fs::symlink_metadata(folder.join(name));
        match taken {
            Ok(taken) if taken.is_dir() => return Err((name, io::ErrorKind::IsADirectory.into())),
            Ok(_) if !force => return Err((name, io::ErrorKind::AlreadyExists.into())),
            _ => {}
        }
    }
    for name in names {
        make_one(&ourselves, folder, name, kind).map_err(|error| (name.as_str(), error))?;
    }
    Ok(())
}

fn make_one(target: &Path, folder: &Path, name: &str, kind: Kind) -> io::Result<()> {
    let beside: PathBuf = folder.join(format!(".{name}.{}", std::process::id()));
    match kind {
        Kind::Symbolic => symlink(target, &beside)?,
        Kind::Hard => fs::hard_link(target, &beside)?,
    }
    let renamed = fs::rename(&beside, folder.join(name));
    // rename(2) leaves both where they are links to one file already.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => renamed,
    }
}
