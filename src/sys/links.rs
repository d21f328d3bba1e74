//! Links to our own file.

use std::{
    env, fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, symlink},
    },
    path::{Path, PathBuf},
};

use crate::sys::files;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkKind {
    Symbolic,
    Hard,
}

/// The path of our own file. Without /proc, it is found from the path that we were called by, if it was one;
/// then only chdir(2) and getcwd(2) resolve the directory.
pub(crate) fn our_file(called_as: &Path) -> io::Result<PathBuf> {
    match fs::read_link("/proc/self/exe") {
        Err(_) if called_as.as_os_str().as_bytes().contains(&b'/') => {
            let here = env::current_dir()?;
            env::set_current_dir(called_as.parent().unwrap_or(called_as))?;
            let folder = env::current_dir()?;
            env::set_current_dir(here)?;
            Ok(folder.join(called_as.file_name().unwrap_or_default()))
        }
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("/proc/self/exe cannot be read: {error}; try calling it by its path"),
        )),
        found => found,
    }
}

/// Makes a link to `ourselves` of each name in `folder`. It keeps a name that already leads to our own
/// file, by either kind of link. Any other existing name is an error, before any link is made. With
/// `force` it replaces all of them, each as a whole.
pub(crate) fn make<'a>(
    ourselves: &Path,
    folder: &Path,
    names: &'a [String],
    kind: LinkKind,
    force: bool,
) -> Result<(), (&'a str, io::Error)> {
    let wanted = if force { check_folders(folder, names)? } else { check(ourselves, folder, names)? };
    for name in wanted {
        make_one(ourselves, folder, name, kind).map_err(|error| (name, error))?;
    }
    Ok(())
}

/// The names of which no link is there yet; an error if one of them is taken.
pub(crate) fn check<'a>(
    ourselves: &Path,
    folder: &Path,
    names: &'a [String],
) -> Result<Vec<&'a str>, (&'a str, io::Error)> {
    let mut wanted = check_folders(folder, names)?;
    let mut taken = None;
    wanted.retain(|name| {
        let path = folder.join(name);
        let is_there = path.symlink_metadata().is_ok();
        if is_there && !is_same(&path, ourselves) {
            taken = taken.or(Some(*name));
        }
        !is_there
    });
    if let Some(name) = taken { Err((name, io::ErrorKind::AlreadyExists.into())) } else { Ok(wanted) }
}

/// Rejects names that are directories.
pub(crate) fn check_folders<'a>(
    folder: &Path,
    names: &'a [String],
) -> Result<Vec<&'a str>, (&'a str, io::Error)> {
    let is_folder = |name: &&String| folder.join(name).symlink_metadata().is_ok_and(|taken| taken.is_dir());
    match names.iter().find(is_folder) {
        Some(name) => Err((name, io::ErrorKind::IsADirectory.into())),
        None => Ok(names.iter().map(String::as_str).collect()),
    }
}

/// Are they one file, links followed?
fn is_same(one: &Path, other: &Path) -> bool {
    let inode = |path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    inode(one).is_some_and(|one| inode(other) == Some(one))
}

fn make_one(target: &Path, folder: &Path, name: &str, kind: LinkKind) -> io::Result<()> {
    let beside: PathBuf = folder.join(format!(".{name}.{}", std::process::id()));
    match kind {
        // Within the directory the target is a bare name, so that the directory can be moved.
        LinkKind::Symbolic if target.parent() == Some(folder) => {
            symlink(target.file_name().unwrap_or_default(), &beside)?;
        }
        LinkKind::Symbolic => symlink(target, &beside)?,
        LinkKind::Hard => fs::hard_link(target, &beside)?,
    }
    let renamed = fs::rename(&beside, folder.join(name));
    // rename(2) leaves both where they are links to one file already.
    files::there(fs::remove_file(&beside))?;
    renamed
}
