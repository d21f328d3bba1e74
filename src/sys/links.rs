//! Links to our own file.

use std::{
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, symlink},
    },
    path::{Path, PathBuf},
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkKind {
    Symbolic,
    Hard,
}

/// Where our own file is. Where there is no /proc, what we were called as tells it, if
/// that is a path.
pub(crate) fn our_file(called_as: &Path) -> io::Result<PathBuf> {
    match fs::read_link("/proc/self/exe") {
        Err(_) if called_as.as_os_str().as_bytes().contains(&b'/') => called_as.canonicalize(),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("/proc/self/exe cannot be read: {error}; called by its path it needs no /proc"),
        )),
        found => found,
    }
}

/// Makes a link to `ourselves` of each name in `folder`. One that is our own file already, by
/// either kind of link, is left; a name that is otherwise taken is an error,
/// found before anything is made. With `force` all are replaced, each whole.
pub(crate) fn make<'a>(
    ourselves: &Path,
    folder: &Path,
    names: &'a [String],
    kind: LinkKind,
    force: bool,
) -> Result<(), (&'a str, io::Error)> {
    let mut wanted = Vec::new();
    for name in names {
        let path = folder.join(name);
        match fs::symlink_metadata(&path) {
            Ok(taken) if taken.is_dir() => return Err((name, io::ErrorKind::IsADirectory.into())),
            Ok(_) if !force && is_same(&path, ourselves) => {}
            Ok(_) if !force => return Err((name, io::ErrorKind::AlreadyExists.into())),
            _ => wanted.push(name),
        }
    }
    for name in wanted {
        make_one(ourselves, folder, name, kind).map_err(|error| (name.as_str(), error))?;
    }
    Ok(())
}

/// Are they one file, links followed?
fn is_same(one: &Path, other: &Path) -> bool {
    let inode = |path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    inode(one).is_some_and(|one| inode(other) == Some(one))
}

fn make_one(target: &Path, folder: &Path, name: &str, kind: LinkKind) -> io::Result<()> {
    let beside: PathBuf = folder.join(format!(".{name}.{}", std::process::id()));
    match kind {
        LinkKind::Symbolic => symlink(target, &beside)?,
        LinkKind::Hard => fs::hard_link(target, &beside)?,
    }
    let renamed = fs::rename(&beside, folder.join(name));
    // rename(2) leaves both where they are links to one file already.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => renamed,
    }
}
