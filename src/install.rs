//! What `nbs --install --prefix=DIR` puts below DIR: the file, its links, man pages and
//! completions.
//!
//! All or nothing: what is in the way is found before anything is made; and each file is
//! put there whole, so that one in use may be replaced. Everybody may read it, whatever the
//! umask.

use std::{
    env::consts::ARCH,
    fs,
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::{
    outcome::{Failure, Result, Trying},
    sys::{
        files,
        links::{self, LinkKind},
        program::Program,
    },
};

/// The architectures that there are files for, as `uname -m` has them.
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];

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

    /// Is it there already, byte for byte?
    fn is_at(&self, path: &Path) -> bool {
        fs::read(path).is_ok_and(|content| content == self.content)
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
            // What is left of it is in nobody's way; the error before is what counts.
            let _ = fs::remove_file(&beside);
        }
        put
    }
}

/// Fails where our own file is not all there: what runs of it now may not the next time.
pub(crate) fn check_ourselves(ourselves: &Path) -> Result<()> {
    match Program::look(ourselves) {
        Ok(Some(program)) if !program.is_whole() => refused(ourselves, &format!("it is {program}")),
        // Whoever may run a file need not be allowed to read it.
        _ => Ok(()),
    }
}

/// Puts our own file, `texts` and links of these names below the prefix; beside our own, the
/// files for other architectures that lie beside it. What is there already is left; what is
/// otherwise in the way is replaced with `force`.
pub(crate) fn below(
    prefix: &Path,
    ourselves: &Path,
    texts: Vec<Item>,
    names: &[String],
    kind: LinkKind,
    force: bool,
) -> Result<()> {
    let mut items = vec![Item::program("nbs", ourselves)?];
    for architecture in ARCHITECTURES.into_iter().filter(|architecture| *architecture != ARCH) {
        items.extend(foreign(ourselves, architecture)?);
    }
    items.extend(texts);

    let bin = prefix.join("bin");
    let nbs = bin.join("nbs");
    let places = items.iter().map(|item| (prefix.join(&item.path), item));
    let missing: Vec<(PathBuf, &Item)> = places.filter(|(path, item)| !item.is_at(path)).collect();
    for (path, _) in &missing {
        match fs::symlink_metadata(path) {
            Ok(taken) if taken.is_dir() => return refused(path, "Is a directory"),
            Ok(_) if !force => return Err(taken(path, &ErrorKind::AlreadyExists.into())),
            _ => {}
        }
    }
    if !force {
        links::check(&nbs, &bin, names).map_err(|(name, error)| taken(&bin.join(name), &error))?;
    }
    files::set_umask(0o022);
    for (path, item) in missing {
        item.put(&path).trying(format!("put '{}' there", path.display()))?;
    }
    links::make(&nbs, &bin, names, kind, force).map_err(|(name, error)| taken(&bin.join(name), &error))
}

/// The file for another architecture that lies beside ours, if there is one.
fn foreign(ourselves: &Path, architecture: &str) -> Result<Option<Item>> {
    let name = format!("nbs-{architecture}");
    let path = ourselves.with_file_name(&name);
    match Program::look(&path) {
        Ok(Some(program)) if program.is_whole() && program.is_for(architecture) => {
            Item::program(&name, &path).map(Some)
        }
        Ok(Some(program)) => refused(&path, &format!("it is {program}")),
        Ok(None) => refused(&path, "it is no program"),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).trying(format!("read '{}'", path.display())),
    }
}

/// Says why something cannot be made, what is in its place, and how to go on.
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
