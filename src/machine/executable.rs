//! Which file this is, by what is in it; so both ends know whether they are the same.

use std::{
    env::consts::ARCH,
    fs, io,
    path::{Path, PathBuf},
};

use twox_hash::XxHash64;

use crate::sys::{
    program::Program,
    siblings::{self, ARCHITECTURES, Sibling},
};

/// The running file, whatever its name is now.
const OURSELVES: &str = "/proc/self/exe";

/// A copy of nbs that can be sent to a machine.
pub(crate) struct Executable {
    /// As `uname -m` has it.
    pub(crate) architecture: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) content: String,
    pub(crate) size: u64,
}

impl Executable {
    fn read(architecture: &'static str, path: PathBuf) -> io::Result<Executable> {
        let (content, size) = of(&path)?;
        Ok(Executable { architecture, path, content, size })
    }

    /// The names of these machines in `uname -m`. Without uname, we try our own.
    pub(crate) fn machines(&self) -> Vec<&'static str> {
        let names = ARCHITECTURES.into_iter().filter(|(name, _)| *name == self.architecture);
        let unknown = (self.architecture == ARCH).then_some(UNKNOWN);
        names.flat_map(|(name, alias)| [name, alias]).chain(unknown).collect()
    }
}

/// The name of a machine without uname.
const UNKNOWN: &str = "unknown";

/// The available copies: our own file, and those beside it. If one is unusable, the error comes when
/// it is needed.
pub(crate) fn copies() -> io::Result<Vec<Executable>> {
    let ours = Program::look(Path::new(OURSELVES))?.filter(Program::is_whole);
    let ours = ours.map(|_| Executable::read(ARCH, OURSELVES.into())).transpose()?;
    let (mut copies, ourselves) = (Vec::from_iter(ours), fs::read_link(OURSELVES)?);
    for architecture in siblings::architectures() {
        if let (path, Sibling::Usable) = siblings::look(&ourselves, architecture) {
            copies.extend(Executable::read(architecture, path));
        }
    }
    Ok(copies)
}

/// Why there is no copy for a machine of that name, as `uname -m` has it there, and what to do.
pub(crate) fn missing(machine: &str) -> String {
    let of = |(name, alias): &&(&str, &str)| [*name, *alias].contains(&machine);
    let Some((architecture, _)) = ARCHITECTURES.iter().find(of) else {
        return format!("nbs is not built for its architecture, '{machine}'");
    };
    if *architecture == ARCH {
        return "our own file is incomplete".into();
    }
    let Ok(ourselves) = fs::read_link(OURSELVES) else { return "our own file has no name".into() };
    let (path, sibling) = siblings::look(&ourselves, architecture);
    let (word, is) = match &sibling {
        Sibling::Usable => ("which", "has appeared since"),
        Sibling::Absent => ("where", "there is none"),
        Sibling::Unusable(why) => ("which", &**why),
    };
    format!("it needs nbs for {architecture} from '{}', {word} {is}", path.display())
}

/// The identity of our own file's content; see [`of`].
pub(crate) fn ours() -> io::Result<String> {
    of(Path::new(OURSELVES)).map(|(content, _)| content)
}

/// 32 hexadecimal digits that distinguish files of ours (two XXH64), and the file's length. They protect
/// against damage and mixing up, not against a forger: a user who can write there needs no forged file.
fn of(path: &Path) -> io::Result<(String, u64)> {
    let bytes = fs::read(path)?;
    let [one, two] = [0, 1].map(|seed| XxHash64::oneshot(seed, &bytes));
    Ok((format!("{one:016x}{two:016x}"), bytes.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_different_bit_or_length_is_another_file() {
        let path = std::env::temp_dir().join(format!("nbs-executable-{:x}", fastrand::u64(..)));
        let content = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            of(&path).unwrap()
        };
        let bytes: Vec<u8> = (0..100_000_u32).map(|number| (number * 7) as u8).collect();
        let mut seen = std::collections::BTreeSet::from([content(&bytes)]);
        assert!(!seen.insert(content(&bytes)));
        for bit in (0..800_000).step_by(9_973) {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(content(&other)), "bit {bit}");
        }
        for length in [0, 1, 31, 32, 65_536, 99_999] {
            let (word, size) = content(&bytes[..length]);
            assert_eq!((word.len(), size), (32, length as u64));
            assert!(seen.insert((word, size)), "length {length}");
        }
        fs::remove_file(path).unwrap();
    }
}
