//! The files that `nbs --install --prefix=DIR` puts below DIR: the file itself, its links, man pages and
//! completions.
//!
//! Obstacles are found before anything is made; and each file is replaced as a whole, so that it may be in
//! use meanwhile. Everyone may read it, whatever the umask, and whatever the mode of the previous file.

use std::{
    env::consts::ARCH,
    fs,
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use crate::{
    outcome::{Failure, Result, Trying},
    sys::{
        files,
        links::{self, LinkKind},
        program::Program,
        siblings::{self, Sibling},
    },
};

/// A file to be put there, below the prefix.
pub(crate) struct Item {
    path: String,
    content: Vec<u8>,
    mode: u32,
}

impl Item {
    pub(crate) fn text(path: impl Into<String>, content: String) -> Item {
        Item { path: path.into(), content: content.into_bytes(), mode: 0o644 }
    }

    fn program(name: &str, source: &Path) -> Result<Item> {
        let content = fs::read(source).trying(format!("read '{}'", source.display()))?;
        Ok(Item { path: format!("bin/{name}"), content, mode: 0o755 })
    }

    /// The state of the file's path; an error if it cannot be replaced.
    fn look(&self, path: &Path) -> io::Result<Place> {
        let Some(own) = files::there(fs::symlink_metadata(path))? else { return Ok(Place::Free) };
        if own.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        // Behind a link there may be anything; a FIFO would keep us.
        let is_same = |file: &fs::Metadata| {
            file.len() == self.content.len() as u64
                && file.is_file()
                && fs::read(path).is_ok_and(|content| content == self.content)
        };
        let Some(file) = fs::metadata(path).ok().filter(is_same) else { return Ok(Place::Taken) };
        Ok(match file.permissions().mode() & self.mode == self.mode {
            true => Place::Right,
            // We do not change a link's target.
            false if own.is_symlink() => Place::Taken,
            false => Place::Closed,
        })
    }

    fn put(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().expect("it is below the prefix");
        fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
        let name = path.file_name().expect("it is a file").to_string_lossy();
        let beside = folder.join(format!(".{name}.{}", std::process::id()));
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(self.mode).open(&beside)?;
        let put = (|| {
            file.write_all(&self.content)?;
            file.sync_all()?;
            fs::rename(&beside, path)
        })();
        if put.is_err() {
            // A leftover does no harm; the earlier error counts.
            let _ = fs::remove_file(&beside);
        }
        put
    }
}

/// The state of a file's path.
enum Place {
    Free,
    /// The file itself, byte for byte.
    Right,
    /// The same, but not everybody may use it.
    Closed,
    /// Something else, which can be replaced.
    Taken,
}

/// Fails where our own file is incomplete: what runs of it now may not the next time.
pub(crate) fn check_ourselves(ourselves: &Path) -> Result<()> {
    match Program::look(ourselves) {
        Ok(Some(program)) if !program.is_whole() => refused(ourselves, &format!("it is {program}")),
        // Permission to run a file does not include permission to read it.
        _ => Ok(()),
    }
}

/// Puts our own file, `texts` and links of these names below the prefix; beside our own, the files for other
/// architectures that lie beside it. Files that are there already stay; obstacles are replaced with `force`.
pub(crate) fn below(
    prefix: &Path,
    ourselves: &Path,
    texts: Vec<Item>,
    names: &[String],
    kind: LinkKind,
    force: bool,
) -> Result<()> {
    let mut items = vec![Item::program("nbs", ourselves)?];
    for architecture in siblings::architectures() {
        match siblings::look(ourselves, architecture) {
            (path, Sibling::Usable) => items.push(Item::program(&format!("nbs-{architecture}"), &path)?),
            (_, Sibling::Absent) => {}
            (path, Sibling::Unusable(why)) => return refused(&path, &format!("it {why}")),
        }
    }
    items.extend(texts);

    let bin = prefix.join("bin");
    let nbs = bin.join("nbs");
    let mut wanted = Vec::new();
    for item in &items {
        let path = prefix.join(&item.path);
        match item.look(&path).map_err(|error| taken(&path, &error))? {
            Place::Right => {}
            Place::Taken if !force => return Err(taken(&path, &ErrorKind::AlreadyExists.into())),
            place => wanted.push((path, item, place)),
        }
    }
    let links_checked = match force {
        true => links::check_folders(&bin, names),
        false => links::check(&nbs, &bin, names),
    };
    links_checked.map_err(|(name, error)| taken(&bin.join(name), &error))?;
    files::set_umask(0o022);
    for (path, item, place) in wanted {
        match place {
            Place::Closed => fs::set_permissions(&path, fs::Permissions::from_mode(item.mode))
                .trying(format!("make '{}' usable by everyone", path.display()))?,
            _ => item.put(&path).trying(format!("put '{}' there", path.display()))?,
        }
    }
    links::make(&nbs, &bin, names, kind, force).map_err(|(name, error)| taken(&bin.join(name), &error))
}

/// The error if a file cannot be made: the obstacle, and the next step.
pub(crate) fn taken(path: &Path, error: &io::Error) -> Failure {
    let next = match error.kind() {
        ErrorKind::AlreadyExists => "; --force replaces it",
        _ => "",
    };
    let what = match Program::look(path) {
        Ok(Some(program)) if !program.is_whole() || !program.is_for(ARCH) => format!(" ({program})"),
        _ => String::new(),
    };
    Failure::failed(format!("cannot make '{}': {error}{what}{next}", path.display()))
}

fn refused<T>(path: &Path, why: &str) -> Result<T> {
    Err(Failure::failed(format!("cannot install '{}': {why}", path.display())))
}
